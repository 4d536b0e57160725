//! JSON patches of YAML texts, and where the values that they write come from. What is kustomize's
//! own about them is that integers lose digits; all else is [`sternpost_patch::json_patch`].

use serde_json::Value;
use sternpost_patch::json_patch::{self, Operation, Patch};
use sternpost_yaml::node::{Content, Node, read_node};

use crate::error::{Error, Result};
use crate::why::{Text, Why};

/// Integers are read as floats there, so those beyond lose digits.
const MAX_EXACT: u64 = 1 << 53;

/// How many bytes of JSON one patch may copy. Upstream copies until there is no memory left.
const MAX_COPIED: usize = 16 << 20;

#[derive(Debug, Clone)]
pub(crate) struct JsonPatch {
    patch: Patch,
    /// Where it is written, if somebody wants to know.
    text: Option<Text>,
    /// For each operation the numbers of what it writes: the value's, and its own.
    sources: Vec<(Option<Value>, u32)>,
}

impl JsonPatch {
    /// Of YAML or JSON.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let document = sternpost_yaml::read(text).map_err(|error| {
            let words = read_node(text).err().map(|error| error.upstream);
            Error::new(format!("yaml: {}", words.unwrap_or_else(|| error.problem.to_string())))
        })?;
        let patch = json_patch::read(&document.value).map_err(|error| Error::new(error.to_string()))?;
        Ok(Self { patch, text: None, sources: Vec::new() })
    }

    /// The same with the places of its values.
    pub(crate) fn with_places(mut self, text: &str, place: Option<Text>) -> Self {
        let Some(place) = place else { return self };
        let mut node = read_node(text).ok().flatten().unwrap_or_else(Node::null);
        place.mark(&mut node, 0);
        let source = |operation: &Node| {
            (operation.get("value").map(sources), operation.get("op").map_or(0, |op| op.source))
        };
        self.sources = node.items().iter().map(source).collect();
        self.text = Some(place);
        self
    }

    /// Whether all annotations of an object are taken away or replaced at once.
    pub(crate) fn replaces_annotations(&self) -> bool {
        self.patch.operations().iter().any(|operation| {
            matches!(operation.path(), Some("/metadata/annotations" | "/metadata"))
                && matches!(operation.op(), Some("add" | "replace" | "remove"))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.patch.is_empty()
    }

    /// The object is taken apart into JSON and put together again, so styles
    /// and places are lost, and types stay.
    pub(crate) fn apply(&self, object: &Node) -> Result<Node> {
        let document = object.to_json().map_err(|error| Error::new(error.to_string()))?;
        let mut document = json_patch::apply_within(document, &self.patch, MAX_COPIED)
            .map_err(|error| Error::new(error.upstream()))?;
        rounded(&mut document);
        let mut patched = Node::from_json(&document);
        if let Some(text) = &self.text {
            self.carry_sources(text.why(), object, &mut patched);
        }
        Ok(patched)
    }

    /// Patches a document of numbers in the place of values in the same way.
    fn carry_sources(&self, why: &Why, object: &Node, patched: &mut Node) {
        let mut document = sources(object);
        for (operation, (value, own)) in self.patch.operations().iter().zip(&self.sources) {
            let path = operation.path().unwrap_or_default();
            let patch: Patch = match operation.op().unwrap_or_default() {
                "test" => continue,
                op @ ("move" | "copy") => {
                    let from = operation.from().unwrap_or_default();
                    let value = json_patch::get(&document, from).cloned().unwrap_or_default();
                    let remove = (op == "move").then(|| Operation::new("remove", from, Value::Null));
                    let add = Operation::new("add", path, copied(why, value, *own));
                    remove.into_iter().chain([add]).collect()
                }
                op => [Operation::new(op, path, value.clone().unwrap_or_default())].into_iter().collect(),
            };
            // It has worked on the values.
            let Ok(numbers) = json_patch::apply(document, &patch) else { return };
            document = numbers;
        }
        set_sources(patched, &document);
    }
}

/// A tree with the number of each scalar in its place.
fn sources(node: &Node) -> Value {
    match &node.content {
        Content::Scalar(_) => node.source.into(),
        Content::Sequence(items) => items.iter().map(sources).collect(),
        Content::Mapping(pairs) => {
            let pair =
                |(key, value): &(Node, Node)| (key.as_text().unwrap_or_default().to_owned(), sources(value));
            Value::Object(pairs.iter().map(pair).collect())
        }
    }
}

fn copied(why: &Why, value: Value, operation: u32) -> Value {
    match value {
        Value::Number(number) => {
            let source = number.as_u64().and_then(|number| u32::try_from(number).ok());
            why.copied(source.unwrap_or_default(), operation).into()
        }
        Value::Array(items) => items.into_iter().map(|item| copied(why, item, operation)).collect(),
        Value::Object(object) => {
            object.into_iter().map(|(key, value)| (key, copied(why, value, operation))).collect()
        }
        value => value,
    }
}

fn set_sources(node: &mut Node, from: &Value) {
    match (&mut node.content, from) {
        (Content::Scalar(_), Value::Number(number)) => {
            node.source = number.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
        }
        (Content::Sequence(items), Value::Array(from)) => {
            items.iter_mut().zip(from).for_each(|(item, from)| set_sources(item, from));
        }
        (Content::Mapping(pairs), Value::Object(from)) => {
            for (key, value) in pairs {
                if let Some(from) = key.as_text().and_then(|key| from.get(key)) {
                    set_sources(value, from);
                }
            }
        }
        _ => {}
    }
}

fn rounded(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let exact = number.as_i64().is_some_and(|number| number.unsigned_abs() <= MAX_EXACT);
            if !exact && !number.is_f64() {
                *value = number.as_f64().map_or(Value::Null, Value::from);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rounded),
        Value::Object(object) => object.values_mut().for_each(rounded),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_double_again_and_again_are_refused() {
        let copies = |count: usize| {
            let copy = |n: usize| format!("- {{op: copy, from: /a, path: /a/{n}}}\n");
            let text: String = (0..count).map(copy).collect();
            JsonPatch::parse(&text).unwrap().apply(&read_node("a: {b: 0123456789}").unwrap().unwrap())
        };
        assert!(copies(10).is_ok());
        let refused = copies(60).unwrap_err().to_string();
        assert!(refused.starts_with("Unable to complete the copy, "), "{refused}");
        assert!(refused.ends_with(", exceeding the limit 16777216"), "{refused}");
    }
}
