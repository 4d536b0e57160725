//! Strategic merge as kustomize does it, which is not as the API server does.
//!
//! Its own, and not `sternpost_patch::strategic`: it merges YAML, whose quotes stay and are types, elements by
//! several keys, those of the patch first, and knows no directive but `$patch` (cases
//! `build-smp/scalar-int-over-quoted`, `ports-two-protocols`, `container-patched-second-moves-first` and
//! `set-element-order-is-copied`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sternpost_schema::topology::Relation;
use sternpost_yaml::node::{Content, Node, Scalar, Style};

use crate::error::{Error, Result};
use crate::schema::{FieldSchema, ListOrder, Schema, TypeId};

const DIRECTIVE: &str = "$patch";

/// Patches an object. `None` is an object that the patch deletes.
pub(crate) fn patch(schema: &Schema, object: Node, patch: &Node) -> Result<Option<Node>> {
    schema.check()?;
    if strategy(patch)? == Strategy::Replace {
        // The directive has no effect on a whole object.
        return Ok(Some(object));
    }
    let inner = root_type(schema, Some(&object), Some(patch));
    let root = FieldSchema { inner, ..FieldSchema::default() };
    merge(schema, Some(object), Some(patch), &root)
}

fn merge(
    schema: &Schema,
    dest: Option<Node>,
    patch: Option<&Node>,
    field: &FieldSchema,
) -> Result<Option<Node>> {
    if let Some(broken) = &field.broken {
        return Err(broken.error());
    }
    let kind = |node: Option<&Node>| node.filter(|node| !node.is_null()).map(Kind::of);
    let (dest_kind, patch_kind) = (kind(dest.as_ref()), kind(patch));
    if let (Some(wanted), Some(found), Some(patch)) = (dest_kind, patch_kind, patch)
        && wanted != found
    {
        return Err(wrong_kind(wanted.name(), patch));
    }
    match dest_kind.or(patch_kind) {
        None | Some(Kind::Mapping) => merge_mapping(schema, dest, patch, field.inner),
        Some(Kind::Scalar) => Ok(merge_scalar(dest, patch)),
        Some(Kind::Sequence) => merge_sequence(schema, dest, patch, field),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    Sequence,
    Mapping,
}

impl Kind {
    fn of(node: &Node) -> Self {
        match node.content {
            Content::Scalar(_) => Self::Scalar,
            Content::Sequence(_) => Self::Sequence,
            Content::Mapping(_) => Self::Mapping,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scalar => "ScalarNode",
            Self::Sequence => "SequenceNode",
            Self::Mapping => "MappingNode",
        }
    }
}

/// What is said of a node that is not of the kind it has to be.
pub(crate) fn wrong_kind(expected: &str, node: &Node) -> Error {
    let found = Kind::of(node).name();
    let contents = contents(node);
    Error::new(format!("wrong node kind: expected {expected} but got {found}: node contents:\n{contents}"))
}

/// A node in the order and style of its text, with its line break.
pub(crate) fn contents(node: &Node) -> String {
    let mut text = String::new();
    block(node, 0, &mut text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn block(node: &Node, indent: usize, text: &mut String) {
    let next = |text: &mut String, first: &mut bool| {
        if !std::mem::take(first) {
            text.extend(std::iter::repeat_n(' ', indent));
        }
    };
    let mut first = true;
    match &node.content {
        Content::Sequence(items) if !node.flow && !items.is_empty() => {
            for item in items {
                next(text, &mut first);
                text.push_str("- ");
                block(item, indent + 2, text);
            }
        }
        Content::Mapping(pairs) if !node.flow && !pairs.is_empty() => {
            for (key, value) in pairs {
                next(text, &mut first);
                text.push_str(&flow(key));
                text.push(':');
                let nested =
                    |value: &Node| !(value.flow || value.items().is_empty() && value.pairs().is_empty());
                if !nested(value) {
                    text.push(' ');
                    block(value, indent + 2, text);
                    continue;
                }
                text.push('\n');
                let indent = if value.is_sequence() { indent } else { indent + 2 };
                text.extend(std::iter::repeat_n(' ', indent));
                block(value, indent, text);
            }
        }
        Content::Scalar(scalar) if matches!(scalar.style, Style::Literal | Style::Folded) => {
            let ending = if scalar.text.ends_with('\n') { "|\n" } else { "|-\n" };
            text.push_str(ending);
            for line in scalar.text.lines() {
                text.extend(std::iter::repeat_n(' ', indent));
                text.push_str(line);
                text.push('\n');
            }
        }
        _ => {
            text.push_str(&flow(node));
            text.push('\n');
        }
    }
}

fn flow(node: &Node) -> String {
    match &node.content {
        Content::Scalar(scalar) if scalar.style == Style::SingleQuoted => {
            format!("'{}'", scalar.text.replace('\'', "''"))
        }
        Content::Scalar(scalar) if scalar.is_quoted() => format!("\"{}\"", scalar.text),
        Content::Scalar(scalar) => scalar.text.clone(),
        Content::Sequence(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Content::Mapping(pairs) => {
            let pair = |(key, value): &(Node, Node)| format!("{}: {}", flow(key), flow(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn merge_scalar(dest: Option<Node>, patch: Option<&Node>) -> Option<Node> {
    let Some(patch) = patch else { return dest };
    if patch.is_null() {
        return None;
    }
    let mut merged = patch.clone();
    // The quotes of the place stay, and with them its type.
    let style = dest.as_ref().and_then(Node::scalar).map(|scalar| scalar.style);
    if let (Some(style), Some(scalar)) = (style, merged.scalar_mut()) {
        scalar.style = style;
    }
    Some(merged)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Delete,
    Replace,
    Merge,
}

/// What the patch says of this mapping, and the patch without it.
fn strategy(patch: &Node) -> Result<Strategy> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_text().unwrap_or_default()) {
        None | Some("merge") => Ok(Strategy::Merge),
        Some("delete") => Ok(Strategy::Delete),
        Some("replace") => Ok(Strategy::Replace),
        Some(unknown) => Err(Error::new(format!("unknown patch strategy '{unknown}'"))),
    }
}

fn merge_mapping(
    schema: &Schema,
    dest: Option<Node>,
    patch: Option<&Node>,
    held: Option<TypeId>,
) -> Result<Option<Node>> {
    let patched = match patch {
        Some(patch) if patch.is_null() => return Ok(None),
        patch => patch,
    };
    let strategy = patched.map_or(Ok(Strategy::Merge), strategy)?;
    let dest = match dest {
        Some(dest) if dest.is_null() && patched.is_none() => {
            // `key:` is taken for a key that is not there.
            return Ok(Some(dest).filter(|dest| dest.as_text() != Some("")));
        }
        dest => dest.filter(|dest| !dest.is_null()),
    };
    if strategy == Strategy::Delete {
        return Ok(None);
    }
    let mut dest = match (dest, patched) {
        (Some(_), Some(patch)) if strategy == Strategy::Replace => {
            let mut replaced = patch.clone();
            replaced.remove(DIRECTIVE);
            return Ok(Some(replaced));
        }
        (Some(dest), _) => dest,
        (None, Some(patch)) => Node { content: Content::Mapping(Vec::new()), ..patch.clone() },
        (None, None) => return Ok(None),
    };
    let held = held.or_else(|| root_type(schema, Some(&dest), patched));
    let nothing = FieldSchema::default();
    let field = |name: &Node| name.as_text().and_then(|name| schema.field(held, name)).unwrap_or(&nothing);
    let Some(pairs) = dest.pairs_mut() else { return Ok(Some(dest)) };
    let mut merged: Vec<(Node, Node)> = Vec::with_capacity(pairs.len());
    let known: HashSet<String> =
        pairs.iter().filter_map(|(key, _)| Some(key.as_text()?.to_owned())).collect();
    let mut added = HashSet::new();
    let mut changes: HashMap<&str, &Node> = HashMap::new();
    for (key, value) in patched.map(Node::pairs).unwrap_or_default() {
        // Of keys that repeat the first counts.
        changes.entry(key.as_text().unwrap_or_default()).or_insert(value);
    }
    for (key, value) in std::mem::take(pairs) {
        let change = changes.get(key.as_text().unwrap_or_default()).copied();
        if let Some(value) = merge(schema, Some(value), change, field(&key))? {
            merged.push((key, value));
        }
    }
    for (key, value) in patched.map(Node::pairs).unwrap_or_default() {
        let name = key.as_text().unwrap_or_default();
        if name == DIRECTIVE || known.contains(name) || value.is_null() || !added.insert(name) {
            continue;
        }
        if let Some(value) = merge(schema, None, Some(value), field(key))? {
            merged.push((key.clone(), value));
        }
    }
    *pairs = merged;
    Ok(Some(dest))
}

/// A mapping that says what it is has that type, wherever it stands.
pub(crate) fn root_type(schema: &Schema, dest: Option<&Node>, patch: Option<&Node>) -> Option<TypeId> {
    let text = |name: &str| {
        let of = |node: Option<&Node>| Some(node?.get(name)?.as_text()?.to_owned());
        of(dest).or_else(|| of(patch))
    };
    schema.root_of(&text("apiVersion")?, &text("kind")?)
}

fn merge_sequence(
    schema: &Schema,
    dest: Option<Node>,
    patch: Option<&Node>,
    field: &FieldSchema,
) -> Result<Option<Node>> {
    if let Ok(Relation::Atomic) = field.list {
        return Ok(match patch {
            None => dest,
            Some(patch) if patch.is_null() => None,
            Some(patch) => Some(patch.clone()),
        });
    }
    let patch_items = match patch {
        Some(patch) if patch.is_null() => return Ok(None),
        Some(patch) => patch.items(),
        None => &[],
    };
    let dest = dest.filter(|dest| !dest.is_null());
    let mut own_items = Vec::new();
    let mut patch_items = patch_items;
    if dest.is_some() {
        let only_directive = |item: &&Node| item.pairs().len() == 1 && item.get(DIRECTIVE).is_some();
        if let Some(directive) = patch_items.iter().find(only_directive) {
            match strategy(directive)? {
                Strategy::Delete => return Ok(None),
                Strategy::Replace => {
                    let others = patch_items.iter().filter(|item| !only_directive(item)).cloned();
                    let mut replaced = Node::sequence();
                    replaced.content = Content::Sequence(others.collect());
                    return Ok(Some(replaced));
                }
                Strategy::Merge => {
                    own_items.extend(patch_items.iter().filter(|item| !only_directive(item)).cloned());
                    patch_items = &own_items;
                }
            }
        }
    }
    let mut merged = dest.or_else(|| {
        let mut list = patch?.clone();
        match (schema.order, &field.list) {
            (ListOrder::Keep, _) => list.content = Content::Sequence(Vec::new()),
            // Upstream starts from the patch itself. Directives are followed where
            // an element can be found by its keys, and otherwise stay.
            (ListOrder::Patch, Ok(Relation::Map(keys))) => {
                let found = |item: &&mut Node| !is_empty(&tuple(item, keys));
                list.items_mut().into_iter().flatten().filter(found).for_each(|item| {
                    item.remove(DIRECTIVE);
                });
            }
            (ListOrder::Patch, _) => {}
        }
        Some(list)
    });
    let Some(items) = merged.as_mut().and_then(Node::items_mut) else { return Ok(merged) };
    let dest_items = std::mem::take(items);
    *items = match &field.list {
        Ok(Relation::Set | Relation::Atomic) => merge_whole(dest_items, patch_items, schema.order)?,
        Ok(Relation::Map(keys)) => match schema.order {
            ListOrder::Patch => merge_keyed(schema, dest_items, patch_items, keys, field.inner)?,
            ListOrder::Keep => merge_in_place(schema, dest_items, patch_items, keys, field.inner)?,
        },
        Err(broken) => return Err(broken.error()),
    };
    Ok(merged)
}

/// Values that are there once. Which come first is for the order to say.
fn merge_whole(dest: Vec<Node>, patch: &[Node], order: ListOrder) -> Result<Vec<Node>> {
    let is_value = |item: &&Node| item.is_null() || item.scalar().is_some();
    if let Some(item) = patch.iter().chain(&dest).find(|item| !is_value(item)) {
        return Err(wrong_kind("ScalarNode", item));
    }
    let mut merged: Vec<Node> = Vec::new();
    let mut known: HashSet<Option<String>> = HashSet::new();
    let patch = patch.to_vec();
    let (first, last) = match order {
        ListOrder::Patch => (patch, dest),
        ListOrder::Keep => (dest, patch),
    };
    for item in first.into_iter().chain(last) {
        if !item.is_null() && known.insert(item.as_text().map(str::to_owned)) {
            merged.push(item);
        }
    }
    Ok(merged)
}

/// Elements stay where they are, new ones come last, and none is lost: one
/// without its keys is like no other. Keys that an element of the patch does not
/// say are not compared.
fn merge_in_place(
    schema: &Schema,
    dest: Vec<Node>,
    patch: &[Node],
    keys: &[Arc<str>],
    inner: Option<TypeId>,
) -> Result<Vec<Node>> {
    let item_schema = FieldSchema { inner, ..FieldSchema::default() };
    let places = Places::of(&dest, keys);
    let mut merged: Vec<Option<Node>> = dest.into_iter().map(Some).collect();
    let mut untouched: Vec<bool> = vec![true; merged.len()];
    let mut added: HashMap<Tuple, usize> = HashMap::new();
    for change in patch.iter().filter(|change| !change.is_null()) {
        let wanted = tuple(change, keys);
        let known = places.matching(&wanted);
        // Of several that fit, the one that does not say more than the patch does.
        let same = |at: &&usize| places.tuples.get(**at) == Some(&wanted);
        let known = known.iter().find(same).or(known.first()).or_else(|| added.get(&wanted)).copied();
        match known {
            Some(at) => {
                if let Some(untouched) = untouched.get_mut(at) {
                    *untouched = false;
                }
                if let Some(slot) = merged.get_mut(at) {
                    *slot = merge(schema, slot.take(), Some(change), &item_schema)?;
                }
            }
            None => {
                if let Some(new) = merge(schema, None, Some(change), &item_schema)? {
                    if !is_empty(&wanted) {
                        added.insert(wanted, merged.len());
                    }
                    merged.push(Some(new));
                }
            }
        }
    }
    // What the patch does not name is merged with nothing, as fields are.
    for (slot, _) in merged.iter_mut().zip(&untouched).filter(|(_, untouched)| **untouched) {
        *slot = merge(schema, slot.take(), None, &item_schema)?;
    }
    Ok(merged.into_iter().flatten().collect())
}

/// The texts of an element's keys; what is not there is empty.
type Tuple = Vec<String>;

fn tuple<'k>(item: &Node, keys: impl IntoIterator<Item = &'k Arc<str>>) -> Tuple {
    let text = |key: &Arc<str>| item.get(key).and_then(Node::as_text).unwrap_or_default().to_owned();
    keys.into_iter().map(text).collect()
}

fn is_full(tuple: &Tuple) -> bool {
    tuple.iter().all(|text| !text.is_empty())
}

/// An element without any key is like others without, and no other.
fn is_empty(tuple: &Tuple) -> bool {
    tuple.iter().all(String::is_empty)
}

/// Elements by their tuples, so that lists of any length merge in the time it
/// takes to read them. Only tuples with gaps are compared one by one.
struct Places {
    tuples: Vec<Tuple>,
    by_tuple: HashMap<Tuple, Vec<usize>>,
}

impl Places {
    fn of(items: &[Node], keys: &[Arc<str>]) -> Self {
        let tuples: Vec<Tuple> = items.iter().map(|item| tuple(item, keys)).collect();
        let mut by_tuple: HashMap<Tuple, Vec<usize>> = HashMap::new();
        for (at, tuple) in tuples.iter().enumerate() {
            by_tuple.entry(tuple.clone()).or_default().push(at);
        }
        Self { tuples, by_tuple }
    }

    /// Those that have all that the tuple has; none is like one that has nothing.
    fn matching(&self, wanted: &Tuple) -> Vec<usize> {
        if is_empty(wanted) {
            return Vec::new();
        }
        if is_full(wanted) {
            return self.by_tuple.get(wanted).cloned().unwrap_or_default();
        }
        let fits = |held: &Tuple| wanted.iter().zip(held).all(|(text, held)| text.is_empty() || text == held);
        self.tuples.iter().enumerate().filter(|(_, held)| fits(held)).map(|(at, _)| at).collect()
    }

    /// Those that an empty result takes away. Keys that nothing has do not count.
    fn covered(&self, wanted: &Tuple, effective: &[usize]) -> Vec<usize> {
        if is_full(wanted) {
            return self.by_tuple.get(wanted).cloned().unwrap_or_default();
        }
        let part =
            |tuple: &Tuple| -> Tuple { effective.iter().filter_map(|at| tuple.get(*at).cloned()).collect() };
        let wanted = part(wanted);
        let covered = |held: &Tuple| covers(&wanted, &part(held));
        self.tuples.iter().enumerate().filter(|(_, held)| covered(held)).map(|(at, _)| at).collect()
    }
}

/// A key that is not said stands for every value of it, but not for its
/// absence. That is upstream's doing: an element without its key takes the
/// place of all that have theirs.
fn covers(wanted: &Tuple, held: &Tuple) -> bool {
    wanted.iter().zip(held).all(|(text, held)| if text.is_empty() { !held.is_empty() } else { text == held })
}

/// An element of the new list: one of the old list, which may have been
/// changed, or one of its own.
enum Slot {
    Old(usize),
    New(Node),
}

/// The new list in its order, with what is taken out of it left as a gap.
#[derive(Default)]
struct Slots {
    list: Vec<Option<(Tuple, Slot)>>,
    by_tuple: HashMap<Tuple, usize>,
}

impl Slots {
    fn push(&mut self, place: Tuple, slot: Slot) {
        self.by_tuple.insert(place.clone(), self.list.len());
        self.list.push(Some((place, slot)));
    }

    /// In the place of the first that it covers, and without the others.
    fn set(&mut self, place: Tuple, slot: Slot) {
        let covered: Vec<usize> = if is_full(&place) {
            self.by_tuple.get(&place).copied().into_iter().collect()
        } else {
            let covered =
                |held: &Option<(Tuple, Slot)>| held.as_ref().is_some_and(|held| covers(&place, &held.0));
            self.list.iter().enumerate().filter(|(_, held)| covered(held)).map(|(at, _)| at).collect()
        };
        for at in covered.iter().skip(1) {
            self.take(*at);
        }
        let Some(first) = covered.first().copied() else { return self.push(place, slot) };
        self.take(first);
        if let Some(held) = self.list.get_mut(first) {
            self.by_tuple.insert(place.clone(), first);
            *held = Some((place, slot));
        }
    }

    /// Keys that the element does not have are not compared.
    fn like(&self, place: &Tuple) -> Option<usize> {
        if is_full(place) || is_empty(place) {
            return self.by_tuple.get(place).copied();
        }
        let same = |known: &Tuple| known.iter().zip(place).all(|(a, b)| a == b || b.is_empty());
        self.list.iter().position(|slot| slot.as_ref().is_some_and(|(known, _)| same(known)))
    }

    fn take(&mut self, at: usize) {
        if let Some((place, _)) = self.list.get_mut(at).and_then(Option::take) {
            self.by_tuple.remove(&place);
        }
    }
}

fn merge_keyed(
    schema: &Schema,
    mut dest: Vec<Node>,
    patch: &[Node],
    keys: &[Arc<str>],
    inner: Option<TypeId>,
) -> Result<Vec<Node>> {
    let (dest_places, patch_places) = (Places::of(&dest, keys), Places::of(patch, keys));
    let mut known = HashSet::new();
    let all = patch_places.tuples.iter().chain(&dest_places.tuples);
    let mut tuples: Vec<Tuple> = all.filter(|tuple| known.insert((*tuple).clone())).cloned().collect();
    if keys.len() > 1 {
        complete(&mut tuples);
    }
    let in_use = |at: usize| tuples.iter().any(|tuple| tuple.get(at).is_some_and(|text| !text.is_empty()));
    let mut effective: Vec<usize> = (0..keys.len()).filter(|at| in_use(*at)).collect();
    if effective.is_empty() {
        effective = (0..keys.len()).collect();
    }
    let effective_keys: Vec<Arc<str>> = effective.iter().filter_map(|at| keys.get(*at).cloned()).collect();

    let mut slots = Slots::default();
    let mut removed = vec![false; dest.len()];
    let item_schema = FieldSchema { inner, ..FieldSchema::default() };
    for wanted in &tuples {
        let matching = dest_places.matching(wanted);
        let old = matching.iter().copied().find(|at| removed.get(*at) == Some(&false));
        let change = patch_places.matching(wanted).first().and_then(|at| patch.get(*at));
        let replaces = change.is_some_and(|change| matches!(strategy(change), Ok(Strategy::Replace)));
        let merged = match old.and_then(|at| dest.get_mut(at)) {
            // The old element stays as it is, and comes back below.
            Some(old) if replaces => merge(schema, Some(old.clone()), change, &item_schema)?,
            Some(old) => merge(schema, Some(std::mem::replace(old, Node::null())), change, &item_schema)?,
            None => merge(schema, None, change, &item_schema)?,
        };
        let empty = merged
            .as_ref()
            .is_none_or(|item| item.is_null() || (item.is_mapping() && item.pairs().is_empty()));
        if empty {
            for at in dest_places.covered(wanted, &effective) {
                if let Some(gone) = removed.get_mut(at) {
                    *gone = true;
                }
            }
            continue;
        }
        let Some(mut merged) = merged else { continue };
        for (key, text) in keys.iter().zip(wanted).filter(|(_, text)| !text.is_empty()) {
            if merged.get(key).is_none() {
                merged.set(key, Scalar::plain(text.clone()).into());
            }
        }
        let place = tuple(&merged, &effective_keys);
        let slot = match old {
            Some(at) if !replaces => {
                if let Some(old) = dest.get_mut(at) {
                    *old = merged;
                }
                Slot::Old(at)
            }
            _ => Slot::New(merged),
        };
        slots.set(place, slot);
    }
    for (at, item) in dest.iter().enumerate() {
        let nothing = item.is_null() || (item.is_mapping() && item.pairs().is_empty());
        if nothing || removed.get(at) == Some(&true) {
            continue;
        }
        let place = tuple(item, &effective_keys);
        if !item.is_mapping() {
            return Err(wrong_kind("MappingNode", item));
        }
        if effective_keys.len() == 1 {
            if is_empty(&place) {
                // Upstream lets it take the place of all that came before it.
                slots = Slots::default();
            }
            slots.set(place, Slot::Old(at));
            continue;
        }
        match slots.like(&place) {
            Some(known) => {
                slots.take(known);
                slots.push(place, Slot::Old(at));
            }
            None => slots.push(place, Slot::Old(at)),
        }
    }
    let mut dest: Vec<Option<Node>> = dest.into_iter().map(Some).collect();
    let node = |(_, slot): (Tuple, Slot)| match slot {
        Slot::Old(at) => dest.get_mut(at).and_then(Option::take),
        Slot::New(node) => Some(node),
    };
    Ok(slots.list.into_iter().flatten().filter_map(node).collect())
}

/// Tuples that say the same as far as both say something fill each other in.
/// Two that lack nothing have nothing to say to each other.
fn complete(tuples: &mut [Tuple]) {
    let mut gaps: Vec<usize> = (0..tuples.len()).collect();
    gaps.retain(|at| tuples.get(*at).is_some_and(|tuple| !is_full(tuple)));
    if gaps.is_empty() {
        return;
    }
    for first in 0..tuples.len() {
        let seconds: Vec<usize> =
            if gaps.contains(&first) { (0..tuples.len()).collect() } else { gaps.clone() };
        for second in seconds {
            if first == second {
                continue;
            }
            let (Some(a), Some(b)) = (tuples.get(first), tuples.get(second)) else { continue };
            let agree = a.iter().zip(b).any(|(a, b)| a == b);
            let compatible = a.iter().zip(b).all(|(a, b)| a == b || a.is_empty() || b.is_empty());
            if !agree || !compatible {
                continue;
            }
            let filled: Tuple =
                a.iter().zip(b).map(|(a, b)| if a.is_empty() { b.clone() } else { a.clone() }).collect();
            for at in [first, second] {
                if let Some(tuple) = tuples.get_mut(at) {
                    tuple.clone_from(&filled);
                }
            }
        }
    }
}
