//! The fields that an object sets.

use serde_json::Value;
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{Relation, Type};

use super::{Fields, MAX_DEPTH, Misfit, Shape, as_items, item_elements, shape, too_deep};
use crate::{path::Element, set::Set};

/// Every leaf, every list item, every key of a map that is not a declared
/// field; declared fields where they are null or empty.
pub fn field_set(kind: &Type, value: &Value) -> Result<Set, Misfit> {
    Ok(below(kind, value, 0)?.unwrap_or_default())
}

/// What lies below a place; None where the place is a leaf.
pub(super) fn below(kind: &Type, value: &Value, depth: usize) -> Result<Option<Set>, Misfit> {
    checkpoint();
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    match shape(kind, value) {
        Shape::Scalar(_) | Shape::Opaque | Shape::List(_, Relation::Atomic) => Ok(None),
        Shape::List(items, relation) => list(items, relation, value, depth).map(Some),
        Shape::Map(Fields { atomic: true, .. }) => Ok(None),
        Shape::Map(fields) => map(fields, value, depth).map(Some),
    }
}

fn map(fields: Fields<'_>, value: &Value, depth: usize) -> Result<Set, Misfit> {
    let mut set = Set::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let Some(child) = fields.child(name) else {
            return Err(Misfit::at(&[Element::field(&**name)], "field not declared in schema"));
        };
        let below = below(child.kind, value, depth + 1)?;
        let bare = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        let member = below.is_none() || bare || !child.is_declared();
        set.push(child.element(name), member, below.unwrap_or_default());
    }
    Ok(set)
}

fn list(kind: &Type, relation: &Relation, value: &Value, depth: usize) -> Result<Set, Misfit> {
    let items = as_items(Some(value));
    let mut elements: Vec<_> = item_elements(kind, relation, items)?.into_iter().zip(items).collect();
    elements.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut set = Set::new();
    for group in elements.chunk_by(|(a, _), (b, _)| a == b) {
        match group {
            [(element, item)] => {
                let below = below(kind, item, depth + 1)?.unwrap_or_default();
                set.push(element.clone(), true, below);
            }
            // Items that share a key are owned as one.
            [(element, _), ..] => set.push(element.clone(), true, Set::new()),
            [] => {}
        }
    }
    Ok(set)
}
