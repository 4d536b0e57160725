//! How upstream's internal types print in messages.
//!
//! Where a whole struct is the bad value, upstream prints its internal form:
//! Go's field names, every field, `null` for what is not set. A [`Shape`]
//! says what the fields are and in which order; the values come from the
//! object as users write it.

use serde_json::Value;
use sternpost_golang::json::go_json;
use sternpost_meta::field::BadValue;

use crate::object::Fields;

/// The Go type of a value, as far as printing goes.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Printed as it stands; missing is `""`.
    Text,
    /// Missing is `0`.
    Int,
    /// Missing is `false`.
    Bool,
    /// Scalars behind a pointer, maps of scalars, times, raw JSON: as they stand, missing is `null`.
    Raw,
    /// Every field prints, though nothing is set.
    Struct(&'static [Field]),
    /// A struct behind a pointer: missing is `null`.
    Ptr(&'static [Field]),
    /// A list of structs: missing is `null`.
    List(&'static [Field]),
    /// A map of structs: missing is `null`.
    Map(&'static [Field]),
}

/// A field: Go's name, the JSON name, its type.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    go: &'static str,
    json: &'static str,
    shape: Shape,
    omit_empty: bool,
}

pub const fn field(go: &'static str, json: &'static str, shape: Shape) -> Field {
    Field { go, json, shape, omit_empty: false }
}

/// A field of a type whose internal and external form are the same and which
/// leaves out what is empty.
pub const fn optional(json: &'static str, shape: Shape) -> Field {
    Field { go: json, json, shape, omit_empty: true }
}

/// Fields of a struct that stand among those of the one it is embedded in.
pub const fn embedded(fields: &'static [Field]) -> Field {
    Field { go: "", json: "", shape: Shape::Struct(fields), omit_empty: false }
}

/// `metav1.LabelSelector`
pub const LABEL_SELECTOR: &[Field] = &[
    optional("matchLabels", Shape::Raw),
    optional(
        "matchExpressions",
        Shape::List(&[
            field("key", "key", Shape::Text),
            field("operator", "operator", Shape::Text),
            optional("values", Shape::Raw),
        ]),
    ),
];

/// `core.NodeSelector`
pub const NODE_SELECTOR: &[Field] = &[field(
    "NodeSelectorTerms",
    "nodeSelectorTerms",
    Shape::List(&[
        field("MatchExpressions", "matchExpressions", Shape::List(NODE_SELECTOR_REQUIREMENT)),
        field("MatchFields", "matchFields", Shape::List(NODE_SELECTOR_REQUIREMENT)),
    ]),
)];

const NODE_SELECTOR_REQUIREMENT: &[Field] = &[
    field("Key", "key", Shape::Text),
    field("Operator", "operator", Shape::Text),
    field("Values", "values", Shape::Raw),
];

/// The value on one line, as a bad value.
pub fn internal(shape: Shape, value: &Value) -> BadValue {
    BadValue::Plain(compact(shape, value))
}

/// The value on one line.
pub fn compact(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &tree(shape, value), None);
    out
}

/// The value over many lines, each level one blank deeper.
pub fn indented(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, &tree(shape, value), Some(1));
    out
}

/// Whether two values are the same to upstream: an empty list or map and none are.
pub fn same_form(shape: Shape, a: &Value, b: &Value) -> bool {
    let mut a = tree(shape, a);
    let mut b = tree(shape, b);
    a.drop_empty();
    b.drop_empty();
    a == b
}

/// JSON whose members stand in the order of the Go struct.
#[derive(PartialEq)]
enum Tree {
    Leaf(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn drop_empty(&mut self) {
        match self {
            Tree::Leaf(_) => {}
            Tree::List(items) => items.iter_mut().for_each(Tree::drop_empty),
            Tree::Object(members) => members.iter_mut().for_each(|(_, member)| member.drop_empty()),
        }
        let empty = match self {
            Tree::Leaf(_) => false,
            Tree::List(items) => items.is_empty(),
            Tree::Object(members) => members.is_empty(),
        };
        if empty {
            *self = Tree::Leaf("null".into());
        }
    }
}

fn tree(shape: Shape, value: &Value) -> Tree {
    match (shape, value) {
        (Shape::Text, Value::Null) => Tree::Leaf("\"\"".into()),
        (Shape::Int, Value::Null) => Tree::Leaf("0".into()),
        (Shape::Bool, Value::Null) => Tree::Leaf("false".into()),
        (Shape::Struct(fields), _) => members(fields, value),
        (_, Value::Null) => Tree::Leaf("null".into()),
        (Shape::Ptr(fields), _) => members(fields, value),
        (Shape::List(fields), Value::Array(items)) => {
            Tree::List(items.iter().map(|item| members(fields, item)).collect())
        }
        (Shape::Map(fields), Value::Object(entries)) => {
            Tree::Object(entries.iter().map(|(key, value)| (key.clone(), members(fields, value))).collect())
        }
        (_, Value::Array(items)) => Tree::List(items.iter().map(|item| tree(Shape::Raw, item)).collect()),
        (_, Value::Object(entries)) => {
            Tree::Object(entries.iter().map(|(key, value)| (key.clone(), tree(Shape::Raw, value))).collect())
        }
        (_, leaf) => Tree::Leaf(go_json(leaf)),
    }
}

fn members(fields: &[Field], value: &Value) -> Tree {
    let mut members = Vec::with_capacity(fields.len());
    push_members(fields, value, &mut members);
    Tree::Object(members)
}

fn push_members(fields: &[Field], value: &Value, members: &mut Vec<(String, Tree)>) {
    for field in fields {
        match field.shape {
            Shape::Struct(embedded) if field.go.is_empty() => push_members(embedded, value, members),
            _ if field.omit_empty && is_empty(value.field(field.json)) => {}
            shape => members.push((field.go.into(), tree(shape, value.field(field.json)))),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// `depth` is the indentation of the members, or `None` for one line.
fn write(out: &mut String, tree: &Tree, depth: Option<usize>) {
    let (open, close, count) = match tree {
        Tree::Leaf(text) => return out.push_str(text),
        Tree::List(items) => ('[', ']', items.len()),
        Tree::Object(members) => ('{', '}', members.len()),
    };
    let deeper = depth.map(|depth| depth + 1);
    out.push(open);
    for index in 0..count {
        if index > 0 {
            out.push(',');
        }
        new_line(out, depth);
        match tree {
            Tree::Leaf(_) => {}
            Tree::List(items) => items.iter().skip(index).take(1).for_each(|item| write(out, item, deeper)),
            Tree::Object(members) => members.iter().skip(index).take(1).for_each(|(name, member)| {
                out.push_str(&go_json(&Value::String(name.clone())));
                out.push_str(if depth.is_some() { ": " } else { ":" });
                write(out, member, deeper);
            }),
        }
    }
    if count > 0 {
        new_line(out, depth.map(|depth| depth - 1));
    }
    out.push(close);
}

fn new_line(out: &mut String, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROLE_REF: &[Field] = &[
        field("Name", "name", Shape::Text),
        field("Port", "port", Shape::Int),
        field("On", "on", Shape::Bool),
        field("Class", "class", Shape::Raw),
        field("Selector", "selector", Shape::Ptr(LABEL_SELECTOR)),
        field("Items", "items", Shape::List(&[field("A", "a", Shape::Text)])),
    ];

    #[test]
    fn every_field_prints_in_the_order_of_the_struct() {
        assert_eq!(
            compact(Shape::Struct(ROLE_REF), &Value::Null),
            r#"{"Name":"","Port":0,"On":false,"Class":null,"Selector":null,"Items":null}"#
        );
        let full = json!({"name": "<", "selector": {"matchLabels": {"b": "c"}, "matchExpressions": []}, "items": [{}]});
        assert_eq!(
            compact(Shape::Ptr(ROLE_REF), &full),
            r#"{"Name":"\u003c","Port":0,"On":false,"Class":null,"Selector":{"matchLabels":{"b":"c"}},"Items":[{"A":""}]}"#
        );
    }

    #[test]
    fn levels_are_indented_by_one_blank() {
        const FIELDS: &[Field] =
            &[field("A", "a", Shape::Raw), field("B", "b", Shape::Raw), field("C", "c", Shape::Raw)];
        assert_eq!(
            indented(Shape::Struct(FIELDS), &json!({"a": ["x", 1], "b": {}})),
            "{\n \"A\": [\n  \"x\",\n  1\n ],\n \"B\": {},\n \"C\": null\n}"
        );
    }
}
