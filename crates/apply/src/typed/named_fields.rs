//! Declared fields as members.

use sternpost_schema::topology::{Node as TypeNode, Type};

use crate::{path::Element, set::Set};

/// Adds every declared field that has members below it. Such a field is there
/// because of them, although nobody set it for itself.
#[must_use]
pub fn with_named_fields(kind: &Type, mut set: Set) -> Set {
    add(kind, &mut set);
    set
}

fn add(kind: &Type, set: &mut Set) {
    for node in set.nodes_mut() {
        match (kind.node(), &node.element) {
            (TypeNode::Map(map), Element::Field(name)) => {
                if let Some(field) = map.fields.get(name) {
                    node.member = true;
                    add(&field.kind, &mut node.children);
                } else if let Some(kind) = &map.others {
                    add(kind, &mut node.children);
                }
            }
            (TypeNode::List(list), Element::Key(_)) => add(&list.items, &mut node.children),
            _ => {}
        }
    }
}
