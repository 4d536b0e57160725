//! What changed between two objects.

use serde_json::{Map, Value};
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{Node, Relation, Type};

use super::{
    Fields, MAX_DEPTH, Misfit, Shape, are_in_step, as_items, is_empty_or_null, item_element, item_elements,
    shape, too_deep,
};
use crate::{path::Element, set::Set, value};

/// The paths that one object has and another has not, or has differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub added: Set,
    pub modified: Set,
    pub removed: Set,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// With each set passed through `filter`.
    #[must_use]
    pub fn map(self, mut filter: impl FnMut(Set) -> Set) -> Self {
        Self { added: filter(self.added), modified: filter(self.modified), removed: filter(self.removed) }
    }
}

pub fn compare(kind: &Type, old: &Value, new: &Value) -> Result<Comparison, Misfit> {
    Ok(place(kind, Some(old), Some(new), 0)?.below)
}

/// What became of one place and of all below it.
#[derive(Default)]
struct Difference {
    here: Change,
    below: Comparison,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Change {
    #[default]
    None,
    Added,
    Modified,
    Removed,
}

impl Comparison {
    fn push(&mut self, change: Difference, element: impl FnOnce() -> Element) {
        let Difference { here, below } = change;
        if here == Change::None && below.is_same() {
            return;
        }
        let element = element();
        self.added.push(element.clone(), here == Change::Added, below.added);
        self.modified.push(element.clone(), here == Change::Modified, below.modified);
        self.removed.push(element, here == Change::Removed, below.removed);
    }
}

fn place(kind: &Type, old: Option<&Value>, new: Option<&Value>, depth: usize) -> Result<Difference, Misfit> {
    checkpoint();
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    if let Node::Deduced = kind.node() {
        return deduced(old, new, depth);
    }
    let Some(either) = new.or(old) else { return Ok(Difference::default()) };
    match shape(kind, either) {
        Shape::Scalar(_)
        | Shape::Opaque
        | Shape::List(_, Relation::Atomic)
        | Shape::Map(Fields { atomic: true, .. }) => Ok(leaf(old, new)),
        // Whether an empty value is there at all, and whether it is null,
        // counts as a value of its own.
        _ if old.is_none_or(is_empty_or_null) && new.is_none_or(is_empty_or_null) => Ok(leaf(old, new)),
        Shape::List(items, relation) => {
            let below = list(items, relation, as_items(old), as_items(new), depth)?;
            Ok(Difference { here: presence(old, new), below })
        }
        Shape::Map(fields) => {
            Ok(Difference { here: presence(old, new), below: map(fields, old, new, depth)? })
        }
    }
}

/// Where a schema says nothing, a value may change from map to leaf and back.
fn deduced(old: Option<&Value>, new: Option<&Value>, depth: usize) -> Result<Difference, Misfit> {
    let holds = |value: Option<&Value>| matches!(value, Some(Value::Object(fields)) if !fields.is_empty());
    let is_leaf = |value: &Value| !matches!(value, Value::Object(_) | Value::Null);
    if !holds(old) && !holds(new) {
        return Ok(leaf(old, new));
    }
    let here = match (old, new) {
        (Some(old), Some(new)) if is_leaf(old) || is_leaf(new) => Change::Modified,
        _ => presence(old, new),
    };
    Ok(Difference { here, below: map(Fields::DEDUCED, old, new, depth)? })
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let here = match (old, new) {
        (Some(old), Some(new)) if !value::equal(old, new) => Change::Modified,
        _ => presence(old, new),
    };
    Difference { here, below: Comparison::default() }
}

fn presence(old: Option<&Value>, new: Option<&Value>) -> Change {
    match (old, new) {
        (None, Some(_)) => Change::Added,
        (Some(_), None) => Change::Removed,
        _ => Change::None,
    }
}

/// Both maps are sorted, so one pass over the two finds all pairs.
fn map(
    fields: Fields<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    depth: usize,
) -> Result<Comparison, Misfit> {
    let mut out = Comparison::default();
    fn entries(value: Option<&Value>) -> Option<serde_json::map::Iter<'_>> {
        value.and_then(Value::as_object).map(Map::iter)
    }
    let mut old = entries(old).into_iter().flatten().peekable();
    let mut new = entries(new).into_iter().flatten().peekable();
    loop {
        let (name, before, after) = match (old.peek().copied(), new.peek().copied()) {
            (None, None) => return Ok(out),
            (Some((name, before)), Some((other, after))) if name == other => {
                (name, Some(before), Some(after))
            }
            (Some((name, before)), Some((other, _))) if name < other => (name, Some(before), None),
            (Some((name, before)), None) => (name, Some(before), None),
            (_, Some((name, after))) => (name, None, Some(after)),
        };
        if before.is_some() {
            old.next();
        }
        if after.is_some() {
            new.next();
        }
        let Some(child) = fields.child(name) else {
            return Err(Misfit::at(&[Element::field(&**name)], "field not declared in schema"));
        };
        // So it is for most of most objects; nothing is wrong with what is not looked into.
        if let (Some(before), Some(after)) = (before, after)
            && child.kind.is_atomic()
            && value::equal(before, after)
        {
            checkpoint();
            continue;
        }
        out.push(place(child.kind, before, after, depth + 1)?, || child.element(name));
    }
}

fn list(
    kind: &Type,
    relation: &Relation,
    old: &[Value],
    new: &[Value],
    depth: usize,
) -> Result<Comparison, Misfit> {
    if are_in_step(relation, old, new)
        && let Ok(out) = in_step(kind, relation, old, new, depth)
    {
        return Ok(out);
    }
    let sorted = |items| -> Result<Vec<_>, Misfit> {
        let mut elements: Vec<_> = item_elements(kind, relation, items)?.into_iter().zip(items).collect();
        elements.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(elements)
    };
    let (old, new) = (sorted(old)?, sorted(new)?);
    let same = |(a, _): &(Element, &Value), (b, _): &(Element, &Value)| a == b;
    let mut old = old.chunk_by(same).peekable();
    let mut new = new.chunk_by(same).peekable();
    let mut out = Comparison::default();
    loop {
        let first = |group: Option<&&[(Element, &Value)]>| {
            group.and_then(|group| group.first()).map(|(e, _)| e.clone())
        };
        let element = match (first(old.peek()), first(new.peek())) {
            (None, None) => return Ok(out),
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
        };
        let here = |group: &&[(Element, &Value)]| group.first().is_some_and(|(e, _)| *e == element);
        let before = old.next_if(here).unwrap_or_default();
        let after = new.next_if(here).unwrap_or_default();
        match (before, after) {
            ([(_, before)], [(_, after)]) => {
                out.push(place(kind, Some(before), Some(after), depth + 1)?, || element);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len()
                    && before.iter().zip(after).all(|((_, a), (_, b))| value::equal(a, b));
                let here = if same { Change::None } else { Change::Modified };
                out.push(Difference { here, ..Difference::default() }, || element);
            }
            _ => {
                out.push(gone_or_come(kind, before, Change::Removed, depth)?, || element.clone());
                out.push(gone_or_come(kind, after, Change::Added, depth)?, || element);
            }
        }
    }
}

/// As [`list`], of lists that [`are_in_step`]. Elements are made only of items that changed.
fn in_step(
    kind: &Type,
    relation: &Relation,
    old: &[Value],
    new: &[Value],
    depth: usize,
) -> Result<Comparison, Misfit> {
    let mut out = Comparison::default();
    for (index, (before, after)) in old.iter().zip(new).enumerate() {
        let change = place(kind, Some(before), Some(after), depth + 1)?;
        if change.here != Change::None || !change.below.is_same() {
            let element =
                item_element(kind, relation, after).map_err(|error| Misfit::at(&[], &error.at(index)))?;
            out.push(change, || element);
        }
    }
    Ok(out)
}

/// Items of one key that only one side has; several of them are one value.
fn gone_or_come(
    kind: &Type,
    items: &[(Element, &Value)],
    change: Change,
    depth: usize,
) -> Result<Difference, Misfit> {
    match (items, change) {
        ([], _) => Ok(Difference::default()),
        ([(_, item)], Change::Removed) => place(kind, Some(item), None, depth + 1),
        ([(_, item)], _) => place(kind, None, Some(item), depth + 1),
        _ => Ok(Difference { here: change, below: Comparison::default() }),
    }
}
