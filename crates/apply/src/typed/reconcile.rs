//! Fields that were recorded under another schema.

use serde_json::Value;
use sternpost_schema::topology::{Map, Node, Scalar, Type};

use super::Fields;

/// Where a place is owned as a whole now, owners of its parts own it instead.
/// `fields` is `FieldsV1`; says whether anything changed.
pub fn reconcile(kind: &Type, fields: &mut Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    let mut changed = false;
    for (key, below) in fields {
        if below.as_object().is_none_or(serde_json::Map::is_empty) {
            continue;
        }
        let Some(kind) = child(kind, key) else { continue };
        if is_deduced(kind) {
            continue;
        }
        if kind.is_atomic() {
            *below = Value::Object(serde_json::Map::new());
            changed = true;
        } else {
            changed |= reconcile(kind, below);
        }
    }
    changed
}

/// The type behind an element, where the schema says it.
fn child<'t>(kind: &'t Type, key: &str) -> Option<&'t Type> {
    match (kind.node(), key.split_at_checked(2)?) {
        (Node::Map(map), ("f:", name)) => {
            Fields { declared: Some(map), atomic: false }.child(name).map(|child| child.kind)
        }
        (Node::List(list), ("k:", _)) => Some(&list.items),
        _ => None,
    }
}

/// What no schema describes may have been owned in any way; upstream counts
/// maps of untyped scalars to it.
fn is_deduced(kind: &Type) -> bool {
    match kind.node() {
        Node::Deduced => true,
        Node::Map(Map { fields, others: Some(others), .. }) => {
            fields.is_empty() && matches!(others.node(), Node::Deduced | Node::Scalar(Scalar::Untyped))
        }
        _ => false,
    }
}
