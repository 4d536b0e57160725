//! Decoding into structs, with the messages of Go's `encoding/json`.
//!
//! [`check`] holds a value against the shape of a Go struct and gives it back
//! with field names spelled as declared and nulls left out, so that serde can
//! take it from there without a word of its own. [`check_lenient`] is for what is not decoded strictly.

use serde_json::{Map, Value};

use super::json_type;
use crate::strconv::go_quote;

/// What Go type a value is decoded into.
#[derive(Debug)]
pub enum Shape {
    Text,
    /// A string type of that name.
    NamedText(&'static str),
    Bool,
    Int,
    Int64,
    List(&'static Self),
    /// A list type of that name.
    NamedList(&'static str, &'static Self),
    TextMap,
    /// `map[string]interface {}`
    AnyMap,
    Struct(&'static Struct),
}

#[derive(Debug)]
pub struct Struct {
    pub name: &'static str,
    /// With its package.
    pub go_type: &'static str,
    pub fields: &'static [Field],
}

/// A field, and the embedded structs that it comes from.
#[derive(Debug)]
pub struct Field(pub &'static str, pub &'static [&'static str], pub Shape);

/// The message is Go's, from `json: ` on.
pub fn check(value: Value, root: &'static Struct) -> Result<Value, String> {
    check_with(value, root, Manner::Strict)
}

/// As `sigs.k8s.io/yaml` decodes when it is not told to be strict: fields that a struct does not have are
/// left out at every depth, and numbers and truth values are texts where a text is wanted.
pub fn check_lenient(value: Value, root: &'static Struct) -> Result<Value, String> {
    check_with(value, root, Manner::Lenient)
        .map_err(|problem| format!("error unmarshaling JSON: while decoding JSON: {problem}"))
}

fn check_with(value: Value, root: &'static Struct, manner: Manner) -> Result<Value, String> {
    let mut checker = Checker { manner, path: Vec::new(), inside: None };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Object(object) => checker.fields(object, root),
        value => Err(checker.mismatch(&value, &Shape::Struct(root))),
    }
}

/// As [`check`], but fields that the struct does not have are left out.
pub fn check_known(value: Value, root: &'static Struct) -> Result<Value, String> {
    let known = match value {
        Value::Object(object) => {
            let is_known = |key: &String| root.fields.iter().any(|field| field.0.eq_ignore_ascii_case(key));
            Value::Object(object.into_iter().filter(|(key, _)| is_known(key)).collect())
        }
        value => value,
    };
    check(known, root)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Strict,
    Lenient,
}

struct Checker {
    manner: Manner,
    path: Vec<&'static str>,
    inside: Option<&'static Struct>,
}

impl Checker {
    fn value(&mut self, value: Value, shape: &'static Shape) -> Result<Value, String> {
        match (shape, value) {
            (_, Value::Null) => Ok(Value::Null),
            (Shape::Text | Shape::NamedText(_), value @ Value::String(_)) => Ok(value),
            (Shape::Text | Shape::NamedText(_), value @ (Value::Bool(_) | Value::Number(_)))
                if self.manner == Manner::Lenient =>
            {
                Ok(Value::String(value.to_string()))
            }
            (Shape::Bool, value @ Value::Bool(_)) => Ok(value),
            (Shape::AnyMap, value @ Value::Object(_)) => Ok(value),
            (Shape::Int | Shape::Int64, value @ Value::Number(_)) if value.is_i64() => Ok(value),
            (Shape::List(element) | Shape::NamedList(_, element), Value::Array(items)) => {
                let item = |item| self.value(item, element).map(|item| zero_for_null(item, element));
                items.into_iter().map(item).collect()
            }
            (Shape::TextMap, Value::Object(object)) => {
                let mut texts = Map::new();
                for (key, value) in object {
                    let value = self.value(value, &Shape::Text)?;
                    texts.insert(key, if value.is_null() { Value::String(String::new()) } else { value });
                }
                Ok(Value::Object(texts))
            }
            (Shape::Struct(shape), Value::Object(object)) => self.fields(object, shape),
            (shape, value) => Err(self.mismatch(&value, shape)),
        }
    }

    /// Keys come sorted, as `YAMLToJSON` writes them, and the first problem is
    /// the one reported.
    fn fields(&mut self, object: Map<String, Value>, shape: &'static Struct) -> Result<Value, String> {
        let outer = self.inside.replace(shape);
        let mut checked = Map::new();
        for (key, value) in object {
            let exact = shape.fields.iter().find(|field| field.0 == key);
            let folded = || shape.fields.iter().find(|field| field.0.eq_ignore_ascii_case(&key));
            let Some(field) = exact.or_else(folded) else {
                if self.manner == Manner::Lenient {
                    continue;
                }
                return Err(format!("json: unknown field {}", go_quote(&key)));
            };
            let depth = self.path.len();
            self.path.extend(field.1);
            self.path.push(field.0);
            let value = self.value(value, &field.2)?;
            self.path.truncate(depth);
            match (checked.get_mut(field.0), value) {
                (_, Value::Null) => {}
                // Another spelling of the same field: maps and structs are decoded one over the other.
                (Some(Value::Object(before)), Value::Object(now)) => before.extend(now),
                (_, value) => {
                    checked.insert(field.0.to_owned(), value);
                }
            }
        }
        self.inside = outer;
        Ok(Value::Object(checked))
    }

    fn mismatch(&self, value: &Value, shape: &Shape) -> String {
        let found = match value {
            Value::Number(number) if matches!(shape, Shape::Int | Shape::Int64) => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
        let wanted = go_type(shape);
        match self.inside {
            Some(inside) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
                inside.name,
                self.path.join(".")
            ),
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }
}

/// In a list null stands for an element with nothing set.
fn zero_for_null(value: Value, shape: &Shape) -> Value {
    match shape {
        _ if !value.is_null() => value,
        Shape::Text | Shape::NamedText(_) => Value::String(String::new()),
        Shape::Struct(_) | Shape::TextMap | Shape::AnyMap => Value::Object(Map::new()),
        _ => value,
    }
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Text => "string".to_owned(),
        Shape::NamedText(name) | Shape::NamedList(name, _) => (*name).to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int => "int".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::List(element) => format!("[]{}", go_type(element)),
        Shape::TextMap => "map[string]string".to_owned(),
        Shape::AnyMap => "map[string]interface {}".to_owned(),
        Shape::Struct(shape) => shape.go_type.to_owned(),
    }
}
