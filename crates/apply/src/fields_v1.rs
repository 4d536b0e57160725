//! Set operations on `FieldsV1` as it is stored.
//!
//! Most writes touch few fields and leave most managers alone, so stored
//! fields are changed in place, by the keys of what changed, and never
//! decoded. This holds for canonical `FieldsV1`, which is what
//! [`Set::to_fields_v1`] writes; fields that a client sends are made canonical
//! before they come here.

use serde_json::{Map, Value};

use crate::{path::Element, set::Set};

type Object = Map<String, Value>;

/// True if a member of `set` is one of `fields`.
pub(crate) fn intersects(fields: &Value, set: &Set) -> bool {
    let Value::Object(fields) = fields else { return false };
    set.nodes().iter().any(|node| {
        fields
            .get(&node.element.to_key())
            .is_some_and(|below| (node.member && is_member(below)) || intersects(below, &node.children))
    })
}

/// Takes the members of `set` out of `fields`.
pub(crate) fn subtract(fields: &mut Value, set: &Set) {
    if let Value::Object(fields) = fields {
        subtract_nodes(fields, set);
    }
}

/// Adds the members of `set` to `fields`.
pub(crate) fn unite(fields: &mut Value, set: &Set) {
    if let Value::Object(fields) = fields {
        unite_nodes(fields, set);
    }
}

pub(crate) fn is_empty(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

/// A node with nothing below it is a member; one with something says so.
fn is_member(below: &Value) -> bool {
    below.as_object().is_none_or(|below| below.is_empty() || below.contains_key("."))
}

/// Whether `fields` are the canonical ones, but for nodes with nothing below them that say what they are.
pub(crate) fn says(fields: &Value, canonical: &Value) -> bool {
    let (Value::Object(fields), Value::Object(canonical)) = (fields, canonical) else { return false };
    let is_lone = canonical.is_empty() && fields.len() == 1 && fields.contains_key(".");
    is_lone
        || (fields.len() == canonical.len()
            && fields.iter().zip(canonical).all(|((key, below), (other, expected))| {
                key == other && (key == "." || says(below, expected))
            }))
}

/// Whether `fields` are those of the set: what [`Set::to_fields_v1`] writes. Where their orders are not the
/// same it may say no.
pub(crate) fn are_of(fields: &Value, set: &Set) -> bool {
    fields
        .as_object()
        .is_some_and(|fields| fields.len() == set.nodes().len() && are_of_nodes(fields.iter(), set))
}

fn are_of_nodes<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, set: &Set) -> bool {
    fields.zip(set.nodes()).all(|((key, below), node)| {
        let is_here = match &node.element {
            Element::Field(name) => key.strip_prefix("f:") == Some(name),
            element => *key == element.to_key(),
        };
        let Value::Object(below) = below else { return false };
        let says = node.member && !node.children.is_empty();
        let mut below_here = below.iter();
        is_here
            && below.len() == node.children.nodes().len() + usize::from(says)
            && (!says || below_here.next().is_some_and(|(key, below)| key == "." && has_nothing(below)))
            && are_of_nodes(below_here, &node.children)
    })
}

fn has_nothing(below: &Value) -> bool {
    below.as_object().is_some_and(Map::is_empty)
}

fn subtract_nodes(fields: &mut Object, set: &Set) {
    for node in set.nodes() {
        let key = node.element.to_key();
        let Some(Value::Object(below)) = fields.get_mut(&key) else { continue };
        let mut member = below.is_empty() || below.remove(".").is_some();
        subtract_nodes(below, &node.children);
        member &= !node.member;
        match (member, below.is_empty()) {
            (false, true) => {
                fields.remove(&key);
            }
            (true, false) => {
                below.insert(".".into(), Value::Object(Object::new()));
            }
            (true, true) | (false, false) => {}
        }
    }
}

fn unite_nodes(fields: &mut Object, set: &Set) {
    for node in set.nodes() {
        match fields.get_mut(&node.element.to_key()) {
            Some(Value::Object(below)) => {
                let member = node.member || below.is_empty() || below.contains_key(".");
                unite_nodes(below, &node.children);
                if member && !below.is_empty() {
                    below.insert(".".into(), Value::Object(Object::new()));
                }
            }
            _ => {
                fields.insert(node.element.to_key(), node.fields());
            }
        }
    }
}
