//! JSON patches with the oddities and the words of the library that kustomize
//! uses: a replaced key need not be there, a negative index counts from the
//! end, and what stands before the first `/` of a path is not looked at.

use serde_json::Value;
use sternpost_yaml::node::{Content, Node, read_node};

use crate::error::{Error, Result};
use crate::why::{Text, Why};

/// Integers are read as floats there, so those beyond lose digits.
const MAX_EXACT: u64 = 1 << 53;

#[derive(Debug, Clone)]
pub(crate) struct JsonPatch {
    operations: Vec<Operation>,
    /// Where it is written, if somebody wants to know.
    text: Option<Text>,
}

#[derive(Debug, Clone)]
struct Operation {
    op: String,
    path: String,
    from: String,
    value: Option<Value>,
    /// A member that it should have, as a message has it.
    missing: Option<&'static str>,
    /// The numbers of what it writes: the value's, and its own.
    sources: (Option<Value>, u32),
}

impl JsonPatch {
    /// Of YAML or JSON.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let document = sternpost_yaml::read(text).map_err(|error| {
            let words = read_node(text).err().map(|error| error.upstream);
            Error::new(format!("yaml: {}", words.unwrap_or_else(|| error.problem.to_string())))
        })?;
        Self::of(document.value)
    }

    fn of(value: Value) -> Result<Self> {
        let mismatch = |value: &Value, wanted: &str| {
            let found = match value {
                Value::Object(_) => "object",
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                Value::Null => "null",
            };
            Error::new(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
        };
        let items = match value {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            value => return Err(mismatch(&value, "jsonpatch.Patch")),
        };
        let operation = |item: Value| match item {
            Value::Object(mut object) => {
                let text = |value: Option<Value>| match value {
                    Some(Value::String(text)) => text,
                    _ => String::new(),
                };
                let op = object.remove("op").and_then(|op| op.as_str().map(str::to_owned));
                let has = |name: &str| object.contains_key(name);
                let missing = match op.as_deref() {
                    Some("copy" | "move") if !has("from") => {
                        Some("from: operation, missing from field: missing value")
                    }
                    _ if !has("path") => Some("path: missing value"),
                    _ => None,
                };
                Ok(Operation {
                    sources: (None, 0),
                    missing,
                    op: op.unwrap_or_else(|| "unknown".to_owned()),
                    path: text(object.remove("path")),
                    from: text(object.remove("from")),
                    value: object.remove("value"),
                })
            }
            item => Err(mismatch(&item, "jsonpatch.Operation")),
        };
        let operations = items.into_iter().map(operation).collect::<Result<_>>()?;
        Ok(Self { operations, text: None })
    }

    /// The same with the places of its values.
    pub(crate) fn with_places(mut self, text: &str, place: Option<Text>) -> Self {
        let Some(place) = place else { return self };
        let mut node = read_node(text).ok().flatten().unwrap_or_else(Node::null);
        place.mark(&mut node, 0);
        for (operation, node) in self.operations.iter_mut().zip(node.items()) {
            let value = node.get("value").map(sources);
            operation.sources = (value, node.get("op").map_or(0, |op| op.source));
        }
        self.text = Some(place);
        self
    }

    /// Whether all annotations of an object are taken away or replaced at once.
    pub(crate) fn replaces_annotations(&self) -> bool {
        self.operations.iter().any(|operation| {
            matches!(operation.path.as_str(), "/metadata/annotations" | "/metadata")
                && matches!(operation.op.as_str(), "add" | "replace" | "remove")
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The object is taken apart into JSON and put together again, so styles
    /// and places are lost, and types stay.
    pub(crate) fn apply(&self, object: &Node) -> Result<Node> {
        let mut document = object.to_json().map_err(|error| Error::new(error.to_string()))?;
        self.operations.iter().try_for_each(|operation| operation.apply(&mut document))?;
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
        for operation in self.operations.iter().filter(|operation| operation.op != "test") {
            let (value, own) = &operation.sources;
            let mut operation = Operation { value: value.clone(), ..operation.clone() };
            if matches!(operation.op.as_str(), "move" | "copy") {
                let mut before = document.clone();
                let found = find(&mut before, &operation.from);
                let moved = found.and_then(|(container, key)| get(container, &key).ok().flatten());
                operation.value = moved.map(|moved| copied(why, moved, *own));
                if operation.op == "move" {
                    let remove = Operation {
                        op: "remove".to_owned(),
                        path: operation.from.clone(),
                        ..operation.clone()
                    };
                    // It has worked on the values.
                    let _ = remove.apply(&mut document);
                }
                "add".clone_into(&mut operation.op);
            }
            let _ = operation.apply(&mut document);
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

impl Operation {
    fn apply(&self, document: &mut Value) -> Result<()> {
        let Self { op, path, from, .. } = self;
        let value = || self.value.clone().unwrap_or(Value::Null);
        let known = matches!(op.as_str(), "add" | "remove" | "replace" | "move" | "copy" | "test");
        if let Some(missing) = self.missing.filter(|_| known) {
            return Err(Error::new(format!("{op} operation failed to decode {missing}")));
        }
        match op.as_str() {
            "add" => {
                let missing = || {
                    let path = sternpost_golang::strconv::go_quote(path);
                    Error::new(format!(
                        "add operation does not apply: doc is missing path: {path}: missing value"
                    ))
                };
                let (container, key) = find(document, path).ok_or_else(missing)?;
                add(container, &key, value())
                    .map_err(|error| error.within(format!("error in add for path: '{path}'")))
            }
            "remove" => {
                let missing = || {
                    let path = sternpost_golang::strconv::go_quote(path);
                    Error::new(format!(
                        "remove operation does not apply: doc is missing path: {path}: missing value"
                    ))
                };
                let (container, key) = find(document, path).ok_or_else(missing)?;
                remove(container, &key)
                    .map(drop)
                    .map_err(|error| error.within(format!("error in remove for path: '{path}'")))
            }
            "replace" => {
                if path.is_empty() {
                    *document = value();
                    return Ok(());
                }
                let missing = |what: &str| {
                    Error::new(format!(
                        "replace operation does not apply: doc is missing {what}: {path}: missing value"
                    ))
                };
                let (container, key) = find(document, path).ok_or_else(|| missing("path"))?;
                match container {
                    Value::Object(object) => {
                        object.insert(key, value());
                        Ok(())
                    }
                    Value::Array(items) => {
                        let at = index(&key, items.len()).map_err(|_| missing("key"))?;
                        items.get_mut(at).map(|item| *item = value()).ok_or_else(|| missing("key"))
                    }
                    _ => Err(missing("path")),
                }
            }
            "move" => {
                let missing = |what: &str, path: &str| {
                    Error::new(format!(
                        "move operation does not apply: doc is missing {what} path: {path}: missing value"
                    ))
                };
                let (container, key) = find(document, from).ok_or_else(|| missing("from", from))?;
                let moved = remove(container, &key)
                    .map_err(|error| error.within(format!("error in move for path: '{key}'")))?;
                let (container, key) = find(document, path).ok_or_else(|| missing("destination", path))?;
                add(container, &key, moved)
                    .map_err(|error| error.within(format!("error in move for path: '{path}'")))
            }
            "copy" => {
                let missing = |what: &str, path: &str| {
                    Error::new(format!(
                        "copy operation does not apply: doc is missing {what} path: {path}: missing value"
                    ))
                };
                let (container, key) = find(document, from).ok_or_else(|| missing("from", from))?;
                let copied = get(container, &key)
                    .map_err(|error| error.within(format!("error in copy for from: '{from}'")))?
                    .unwrap_or(Value::Null);
                let (container, key) = find(document, path).ok_or_else(|| missing("destination", path))?;
                add(container, &key, copied)
                    .map_err(|error| error.within("error while adding value during copy"))
            }
            "test" => self.test(document),
            unknown => Err(Error::new(format!("Unexpected kind: {unknown}"))),
        }
    }

    fn test(&self, document: &mut Value) -> Result<()> {
        let path = &self.path;
        let failed = || Error::new(format!("testing value {path} failed: test failed"));
        let expected = self.value.clone().unwrap_or(Value::Null);
        if path.is_empty() {
            return if *document == expected { Ok(()) } else { Err(failed()) };
        }
        let missing =
            || Error::new(format!("test operation does not apply: is missing path: {path}: missing value"));
        let (container, key) = find(document, path).ok_or_else(missing)?;
        let found = get(container, &key)
            .map_err(|error| error.within(format!("error in test for path: '{path}'")))?;
        if found.unwrap_or(Value::Null) == expected { Ok(()) } else { Err(failed()) }
    }
}

/// The collection that holds the last key of a path.
fn find<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    let key = parts.pop()?;
    let mut container = document;
    for part in parts {
        let part = unescaped(part);
        container = match container {
            Value::Object(object) => object.get_mut(&part)?,
            Value::Array(items) => {
                let at = index(&part, items.len()).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    matches!(container, Value::Object(_) | Value::Array(_)).then(|| (container, unescaped(key)))
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

fn index(key: &str, length: usize) -> Result<usize> {
    let number: i64 =
        key.parse().map_err(|_| Error::new(format!("strconv.Atoi: parsing \"{key}\": invalid syntax")))?;
    let invalid =
        || Error::new(format!("Unable to access invalid index: {number}: invalid index referenced"));
    let length = i64::try_from(length).map_err(|_| invalid())?;
    let at = if number < 0 { number + length } else { number };
    usize::try_from(at).ok().filter(|_| at < length).ok_or_else(invalid)
}

fn get(container: &Value, key: &str) -> Result<Option<Value>> {
    match container {
        Value::Object(object) => Ok(object.get(key).cloned()),
        Value::Array(items) => Ok(items.get(index(key, items.len())?).cloned()),
        _ => Ok(None),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<()> {
    match container {
        Value::Object(object) => {
            object.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            if key.parse::<i64>().is_err() {
                return index(key, 0)
                    .map(drop)
                    .map_err(|error| error.within(format!("value was not a proper array index: '{key}'")));
            }
            let at = index(key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value> {
    match container {
        Value::Object(object) => object
            .remove(key)
            .ok_or_else(|| Error::new(format!("Unable to remove nonexistent key: {key}: missing value"))),
        Value::Array(items) => {
            let at = index(key, items.len())?;
            Ok(items.remove(at))
        }
        _ => Ok(Value::Null),
    }
}
