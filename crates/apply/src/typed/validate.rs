//! Whether an object fits its schema, as far as merging is concerned.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_golang::fmt::type_name;
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{Relation, Scalar, Type};

use super::{Fields, MAX_DEPTH, Misfit, Shape, item_element, shape};
use crate::{
    path::{self, Element},
    value,
};

/// Whether two items of an associative list may have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// In objects that were stored before keys had to be unique.
    Allowed,
    Forbidden,
}

pub fn validate(kind: &Type, value: &Value, duplicates: Duplicates) -> Result<(), Misfit> {
    let mut walk = Walk { path: Vec::new(), duplicates, errors: Vec::new() };
    walk.value(kind, value);
    match walk.errors {
        errors if errors.is_empty() => Ok(()),
        errors => Err(Misfit { errors }),
    }
}

struct Walk {
    path: Vec<Element>,
    duplicates: Duplicates,
    errors: Vec<String>,
}

impl Walk {
    fn value(&mut self, kind: &Type, value: &Value) {
        checkpoint();
        if self.path.len() >= MAX_DEPTH {
            self.error(&format!("nested more than {MAX_DEPTH} deep"));
        } else if !value.is_null() {
            match shape(kind, value) {
                Shape::Opaque => {}
                Shape::Scalar(scalar) => self.scalar(scalar, value),
                Shape::List(items, relation) => self.list(items, relation, value),
                Shape::Map(fields) => self.map(fields, value),
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Boolean => value.is_boolean(),
            Scalar::Numeric => value.is_number(),
            Scalar::String => value.is_string(),
            Scalar::Untyped => !value.is_array() && !value.is_object(),
        };
        if !fits {
            self.error(&match scalar {
                Scalar::Boolean => format!("expected boolean, got &{{{}}}", value::go_plain(value)),
                Scalar::Numeric => {
                    format!("expected numeric (int or float), got {}", type_name(value))
                }
                Scalar::String => format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    value::go_syntax(value)
                ),
                Scalar::Untyped => format!("expected any scalar, got &{{{}}}", value::go_plain(value)),
            });
        }
    }

    fn list(&mut self, kind: &Type, relation: &Relation, value: &Value) {
        let Value::Array(items) = value else {
            self.error(&format!("expected list, got &{{{}}}", value::go_plain(value)));
            return;
        };
        let mut elements = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let element = match relation {
                Relation::Atomic => Element::Index(i64::try_from(index).unwrap_or(i64::MAX)),
                relation => match item_element(kind, relation, item) {
                    Ok(element) => element,
                    Err(error) => {
                        self.error(&error.at(index));
                        return;
                    }
                },
            };
            self.path.push(element);
            self.value(kind, item);
            elements.extend(self.path.pop());
        }
        if self.duplicates == Duplicates::Forbidden && *relation != Relation::Atomic {
            let mut seen = BTreeSet::new();
            for element in &elements {
                if !seen.insert(element) {
                    let key = path::text(std::slice::from_ref(element));
                    self.error(&format!("duplicate entries for key {key}"));
                }
            }
        }
    }

    fn map(&mut self, fields: Fields<'_>, value: &Value) {
        let Value::Object(object) = value else {
            self.error(&format!("expected map, got &{{{}}}", value::go_plain(value)));
            return;
        };
        for (name, value) in object {
            let child = fields.child(name);
            self.path.push(child.map_or_else(|| Element::field(&**name), |child| child.element(name)));
            match child {
                Some(child) => self.value(child.kind, value),
                None => self.error("field not declared in schema"),
            }
            self.path.pop();
        }
    }

    fn error(&mut self, why: &str) {
        self.errors.append(&mut Misfit::at(&self.path, why).errors);
    }
}
