//! Strategic merge as kustomize does it, which is not as the API server does.
//!
//! Lists are merged only where the schema says so; `$patch` is the only
//! directive; nothing else that starts with `$` means anything.

use std::collections::HashSet;

use sternpost_yaml::node::{Content, Node, Scalar, Style};

use crate::error::{Error, Result};
use crate::schema::{FieldSchema, MergedList, Schema, TypeId};

const DIRECTIVE: &str = "$patch";

/// Patches an object. `None` is an object that the patch deletes.
pub(crate) fn patch(schema: &Schema, object: Node, patch: &Node) -> Result<Option<Node>> {
    if strategy(patch)? == Strategy::Replace {
        // The directive has no effect on a whole object.
        return Ok(Some(object));
    }
    let root = FieldSchema { inner: root_type(schema, Some(&object), Some(patch)), list: None };
    merge(schema, Some(object), Some(patch), &root)
}

fn merge(
    schema: &Schema,
    dest: Option<Node>,
    patch: Option<&Node>,
    field: &FieldSchema,
) -> Result<Option<Node>> {
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
                let nested = |value: &Node| !value.flow && !(value.items().is_empty() && value.pairs().is_empty());
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
    for (key, value) in std::mem::take(pairs) {
        let change = patched.and_then(|patch| patch.get(key.as_text().unwrap_or_default()));
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
fn root_type(schema: &Schema, dest: Option<&Node>, patch: Option<&Node>) -> Option<TypeId> {
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
    let Some(list) = &field.list else {
        return Ok(match patch {
            None => dest,
            Some(patch) if patch.is_null() => None,
            Some(patch) => Some(patch.clone()),
        });
    };
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
    let mut merged =
        dest.or_else(|| patch.map(|patch| Node { content: Content::Sequence(Vec::new()), ..patch.clone() }));
    let Some(items) = merged.as_mut().and_then(Node::items_mut) else { return Ok(merged) };
    let dest_items = std::mem::take(items);
    *items = match list {
        MergedList::Whole => merge_whole(dest_items, patch_items),
        MergedList::Keys(keys) => merge_keyed(schema, dest_items, patch_items, keys, field.inner)?,
    };
    Ok(merged)
}

/// The patch's values first.
fn merge_whole(dest: Vec<Node>, patch: &[Node]) -> Vec<Node> {
    let mut merged: Vec<Node> = Vec::new();
    for item in patch.iter().cloned().chain(dest) {
        if !item.is_null() && !merged.iter().any(|known| known.as_text() == item.as_text()) {
            merged.push(item);
        }
    }
    merged
}

type Tuple = Vec<String>;

/// An element of the new list: one of the old list, which may have been
/// changed, or one of its own.
enum Slot {
    Old(usize),
    New(Node),
}

fn merge_keyed(
    schema: &Schema,
    mut dest: Vec<Node>,
    patch: &[Node],
    keys: &[String],
    inner: Option<TypeId>,
) -> Result<Vec<Node>> {
    let tuple = |item: &Node, keys: &[String]| -> Tuple {
        keys.iter().map(|key| item.get(key).and_then(Node::as_text).unwrap_or_default().to_owned()).collect()
    };
    let mut tuples: Vec<Tuple> = Vec::new();
    for item in patch.iter().chain(&dest) {
        let tuple = tuple(item, keys);
        if !tuples.contains(&tuple) {
            tuples.push(tuple);
        }
    }
    if keys.len() > 1 {
        complete(&mut tuples);
    }
    let in_use = |at: usize| tuples.iter().any(|tuple| tuple.get(at).is_some_and(|text| !text.is_empty()));
    let mut effective: Vec<usize> = (0..keys.len()).filter(|at| in_use(*at)).collect();
    if effective.is_empty() {
        effective = (0..keys.len()).collect();
    }
    let effective_keys: Vec<String> = effective.iter().filter_map(|at| keys.get(*at).cloned()).collect();

    let mut slots: Vec<(Tuple, Slot)> = Vec::new();
    let mut removed = vec![false; dest.len()];
    let item_schema = FieldSchema { inner, list: None };
    for wanted in &tuples {
        let matches = |item: &Node| {
            keys.iter()
                .zip(wanted)
                .filter(|(_, text)| !text.is_empty())
                .all(|(key, text)| item.get(key).and_then(Node::as_text) == Some(text))
        };
        let old = dest.iter().zip(&removed).position(|(item, removed)| !removed && matches(item));
        let change = patch.iter().find(|item| matches(item));
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
            if let Some(gone) = old.and_then(|at| removed.get_mut(at)) {
                *gone = true;
            }
            for (item, removed) in dest.iter().zip(&mut removed) {
                *removed |= matches(item);
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
        match slots.iter_mut().find(|(known, _)| *known == place) {
            Some((_, known)) => *known = slot,
            None => slots.push((place, slot)),
        }
    }
    for (at, item) in dest.iter().enumerate() {
        if removed.get(at) == Some(&true) {
            continue;
        }
        let place = tuple(item, &effective_keys);
        // Keys that the element does not have are not compared.
        let same = |known: &Tuple| known.iter().zip(&place).all(|(a, b)| a == b || b.is_empty());
        let known = slots.iter().position(|(known, _)| same(known));
        match known {
            Some(known) if effective_keys.len() == 1 => {
                if let Some((_, slot)) = slots.get_mut(known) {
                    *slot = Slot::Old(at);
                }
            }
            Some(known) => {
                slots.remove(known);
                slots.push((place, Slot::Old(at)));
            }
            None => slots.push((place, Slot::Old(at))),
        }
    }
    let mut dest: Vec<Option<Node>> = dest.into_iter().map(Some).collect();
    let node = |(_, slot): (Tuple, Slot)| match slot {
        Slot::Old(at) => dest.get_mut(at).and_then(Option::take),
        Slot::New(node) => Some(node),
    };
    Ok(slots.into_iter().filter_map(node).collect())
}

/// Tuples that say the same as far as both say something fill each other in.
fn complete(tuples: &mut [Tuple]) {
    for first in 0..tuples.len() {
        for second in 0..tuples.len() {
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
