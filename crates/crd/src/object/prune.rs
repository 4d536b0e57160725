//! Dropping what the schema does not speak of.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sternpost_meta::cancel::checkpoint;

use crate::node::{Additional, Node};

/// Paths reported; objects may hold any number of unknown fields.
pub const MAX_UNKNOWN: usize = 10_000;

/// Drops unknown fields of an object as a whole and says which, sorted.
pub fn prune(node: &Node, object: &mut Value) -> Vec<String> {
    let mut pruned = Pruned { place: String::new(), unknown: Vec::new() };
    let mode = if node.preserve_unknown { Mode::Keep } else { Mode::Drop };
    pruned.value(Some(node), object, mode, Root::Yes);
    pruned.unknown.sort();
    pruned.unknown
}

/// Whether a default within the schema holds unknown fields.
pub fn has_unknown(node: &Node, value: &Value) -> bool {
    let mut pruned = Pruned { place: String::new(), unknown: Vec::new() };
    let mode = if node.preserve_unknown { Mode::Keep } else { Mode::Drop };
    let root = if node.embedded_resource { Root::Yes } else { Root::No };
    pruned.value(Some(node), &mut value.clone(), mode, root);
    !pruned.unknown.is_empty()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Drop,
    /// Unknown fields stay; what is declared is pruned inside.
    Keep,
}

/// Whether this is where an object begins: its type and metadata are not the schema's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl Step<'_> {
    fn push_to(self, place: &mut String) {
        match self {
            Self::Field(key) => {
                if !place.is_empty() {
                    place.push('.');
                }
                place.push_str(key);
            }
            Self::Item(index) => {
                let _ = write!(place, "[{index}]");
            }
        }
    }
}

struct Pruned {
    place: String,
    unknown: Vec<String>,
}

impl Pruned {
    fn value(&mut self, node: Option<&Node>, value: &mut Value, mode: Mode, root: Root) {
        checkpoint();
        match value {
            Value::Object(fields) => self.fields(node, fields, mode, root),
            Value::Array(items) => {
                let item_node = node.and_then(|node| node.items.as_deref());
                if item_node.is_none() && mode == Mode::Keep {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.below(Step::Item(index), item_node, item);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, node: Option<&Node>, fields: &mut Map<String, Value>, mode: Mode, root: Root) {
        let mut gone = Vec::new();
        for (key, value) in fields.iter_mut() {
            if root == Root::Yes && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let step = Step::Field(key);
            if let Some(property) = node.and_then(|node| node.properties.get(key.as_str())) {
                self.below(step, Some(property), value);
                continue;
            }
            match node.and_then(|node| node.additional.as_ref()) {
                Some(Additional::Schema(schema)) => self.below(step, Some(schema), value),
                Some(Additional::Allowed(_)) if mode == Mode::Drop => self.below(step, None, value),
                _ if mode == Mode::Drop => {
                    if self.unknown.len() < MAX_UNKNOWN {
                        let length = self.place.len();
                        step.push_to(&mut self.place);
                        self.unknown.push(self.place.clone());
                        self.place.truncate(length);
                    }
                    gone.push(key.clone());
                }
                _ => {}
            }
        }
        for key in gone {
            fields.remove(&key);
        }
    }

    fn below(&mut self, step: Step<'_>, node: Option<&Node>, value: &mut Value) {
        let length = self.place.len();
        step.push_to(&mut self.place);
        let mode = if node.is_some_and(|node| node.preserve_unknown) { Mode::Keep } else { Mode::Drop };
        let root = if node.is_some_and(|node| node.embedded_resource) { Root::Yes } else { Root::No };
        self.value(node, value, mode, root);
        self.place.truncate(length);
    }
}
