//! An object without some of its fields.

use serde_json::Value;
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{Relation, Type};

use super::{Fields, MAX_DEPTH, Misfit, Shape, item_elements, shape, too_deep};
use crate::{
    path::Element,
    set::{Node, Set},
};

/// Takes the members of `set` out of `value`, with all below them.
pub fn remove(kind: &Type, value: &mut Value, set: &Set) -> Result<(), Misfit> {
    if set.is_empty() { Ok(()) } else { place(kind, value, set, 0) }
}

fn place(kind: &Type, value: &mut Value, set: &Set, depth: usize) -> Result<(), Misfit> {
    checkpoint();
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    match (shape(kind, value), &mut *value) {
        (Shape::Map(Fields { atomic: false, declared }), Value::Object(object)) if !object.is_empty() => {
            map(Fields { atomic: false, declared }, object, set, depth)?;
            if object.is_empty() {
                *value = Value::Null;
            }
        }
        (Shape::List(kind, relation @ (Relation::Set | Relation::Map(_))), Value::Array(items))
            if !items.is_empty() =>
        {
            list(kind, relation, items, set, depth)?;
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        // A part of what is owned as a whole cannot be taken out alone.
        (Shape::Map(_) | Shape::List(..), _) => *value = Value::Null,
        (Shape::Scalar(_) | Shape::Opaque, _) => {}
    }
    Ok(())
}

fn map(
    fields: Fields<'_>,
    object: &mut serde_json::Map<String, Value>,
    set: &Set,
    depth: usize,
) -> Result<(), Misfit> {
    for Node { element, member, children } in set.nodes() {
        let Element::Field(name) = element else { continue };
        if *member {
            object.remove(&**name);
        } else if let (Some(value), Some(child)) = (object.get_mut(&**name), fields.child(name)) {
            place(child.kind, value, children, depth + 1)?;
        }
    }
    Ok(())
}

fn list(
    kind: &Type,
    relation: &Relation,
    items: &mut Vec<Value>,
    set: &Set,
    depth: usize,
) -> Result<(), Misfit> {
    let elements = item_elements(kind, relation, items)?;
    let mut kept = Vec::with_capacity(items.len());
    for (mut item, element) in std::mem::take(items).into_iter().zip(elements) {
        match set.get(&element) {
            Some(node) if node.member => continue,
            Some(node) => place(kind, &mut item, &node.children, depth + 1)?,
            None => {}
        }
        kept.push(item);
    }
    *items = kept;
    Ok(())
}
