//! Which fields a configuration file may have, as upstream's strict decoder knows them.

use serde_json::Value;
use sternpost_golang::json::json_type;

use crate::field::{Errors, Path};

/// Which fields there are, and of what types. Null is as good as absent.
#[derive(Debug)]
pub enum Shape {
    Text,
    Bool,
    List(&'static Shape),
    Object(&'static [(&'static str, &'static Shape)]),
    /// What somebody else reads.
    Any,
}

enum PathOrRoot<'a> {
    Root,
    Within(&'a Path<'a>),
}

/// Whether a file is of this kind, in one of these versions.
pub fn check_kind(file: &Value, api_versions: &[&str], kind: &str, errors: &mut Errors) {
    let text = |name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default();
    if !api_versions.contains(&text("apiVersion")) {
        errors.not_supported(Path::new("apiVersion"), text("apiVersion"), api_versions);
    }
    if text("kind") != kind {
        errors.not_supported(Path::new("kind"), text("kind"), &[kind]);
    }
}

impl Shape {
    pub fn check(&self, file: &Value, errors: &mut Errors) {
        self.check_at(file, &PathOrRoot::Root, errors);
    }

    fn check_at(&self, value: &Value, place: &PathOrRoot<'_>, errors: &mut Errors) {
        let wrong = |wanted: &str, errors: &mut Errors| {
            let detail = format!("must be {wanted}, not {}", json_type(value));
            match place {
                PathOrRoot::Root => errors.type_invalid("", value, &detail),
                PathOrRoot::Within(path) => errors.type_invalid(path, value, &detail),
            }
        };
        match (self, value) {
            (Self::Any, _)
            | (_, Value::Null)
            | (Self::Text, Value::String(_))
            | (Self::Bool, Value::Bool(_)) => {}
            (Self::List(items), Value::Array(values)) => {
                if let PathOrRoot::Within(path) = place {
                    for (at, value) in values.iter().enumerate() {
                        items.check_at(value, &PathOrRoot::Within(&path.index(at)), errors);
                    }
                }
            }
            (Self::Object(fields), Value::Object(values)) => {
                for (name, value) in values {
                    let path = match place {
                        PathOrRoot::Root => Path::new(name),
                        PathOrRoot::Within(path) => path.child(name),
                    };
                    match fields.iter().find(|(field, _)| field == name) {
                        Some((_, shape)) => shape.check_at(value, &PathOrRoot::Within(&path), errors),
                        None => errors.forbidden(path, "unknown field"),
                    }
                }
            }
            (Self::Text, _) => wrong("a string", errors),
            (Self::Bool, _) => wrong("true or false", errors),
            (Self::List(_), _) => wrong("a list", errors),
            (Self::Object(_), _) => wrong("an object", errors),
        }
    }
}
