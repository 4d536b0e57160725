//! Defaults within a schema fit it, and hold nothing it does not know.

use serde_json::{Map, Value};
use sternpost_meta::{field::Errors, status::CauseReason};

use super::{field, is_plain};
use crate::{
    node::{Node, Purpose},
    object,
    pattern::Patterns,
    rules::{self, RuleTree},
};

pub(super) fn check(schema: &Value, path: &str) -> Errors {
    let mut errors = Errors::default();
    check_node(schema, &Surroundings::default(), path, &mut errors);
    errors
}

/// What stands around a schema, up to the object that it describes a part of: the resource itself or
/// one that is embedded in it.
#[derive(Debug, Clone, Default)]
struct Surroundings<'a> {
    /// The way from the object to here.
    steps: Vec<Step<'a>>,
    /// Whether this is of the type or the metadata of the object, which are not its author's.
    in_meta: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

impl<'a> Surroundings<'a> {
    fn is_object(&self) -> bool {
        self.steps.is_empty()
    }

    fn below(&self, step: Step<'a>) -> Self {
        let own = matches!(step, Step::Field("apiVersion" | "kind" | "metadata"));
        let mut steps = self.steps.clone();
        steps.push(step);
        Self { steps, in_meta: self.in_meta || (self.is_object() && own) }
    }

    /// An object with nothing but a value at this place, and a type.
    fn object_with(&self, value: &Value) -> Value {
        let mut value = value.clone();
        for step in self.steps.iter().rev() {
            value = match step {
                Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
                Step::Item => Value::Array(vec![value]),
            };
        }
        if let Value::Object(fields) = &mut value {
            fields.entry("kind").or_insert_with(|| "Validation".into());
            fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        value
    }
}

fn check_node(schema: &Value, around: &Surroundings<'_>, path: &str, errors: &mut Errors) {
    let embedded = Surroundings::default();
    let is_embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    let around = if is_embedded { &embedded } else { around };
    if let Some(default) = schema.get("default") {
        check_default(schema, around, default, &format!("{path}.default"), errors);
    }
    // Upstream does not look at what stands within maps or alternatives.
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_node(items, &around.below(Step::Item), &format!("{path}.items"), errors);
    }
    let properties = field(schema, "properties").as_object().into_iter().flatten();
    for (name, child) in properties.filter(|(_, child)| !is_plain(child)) {
        let path = format!("{path}.properties[{name}]");
        check_node(child, &around.below(Step::Field(name)), &path, errors);
    }
}

fn check_default(
    schema: &Value,
    around: &Surroundings<'_>,
    default: &Value,
    path: &str,
    errors: &mut Errors,
) {
    let mut node = Node::compile(schema, Purpose::Defaults, &Patterns::default());
    if around.is_object() {
        node.embedded_resource = true;
    }
    let settled = if around.in_meta {
        match check_metadata(around, default) {
            Ok(()) => default.clone(),
            Err(problem) => {
                errors.invalid(path, default, &format!("must result in valid metadata: {problem}"));
                return;
            }
        }
    } else {
        if object::has_unknown(&node, default) {
            errors.invalid(path, default, "must not have unknown fields");
        }
        match object::coerce_default(&node, default) {
            Ok(settled) => settled,
            Err(error) => {
                // The text begins with the place within the default.
                let (place, rest) = error.0.split_once(": Invalid value: ").unwrap_or(("", &error.0));
                let field = if place.is_empty() { path.to_owned() } else { format!("{path}.{place}") };
                let message = format!("Invalid value: {rest}");
                errors.push(CauseReason::FieldValueInvalid, field, &message, None, "");
                return;
            }
        }
    };
    // The first of these that finds anything is the last.
    let mut found = Errors::default();
    if !around.in_meta {
        object::check_embedded(&node, &settled, path, &mut found);
    }
    if found.is_empty() {
        found = object::check(&node, &settled, None, path);
    }
    if found.is_empty() {
        found = check_rules(schema, around, &node, &settled, path);
    }
    errors.extend(found);
}

/// What is wrong with the metadata that a default makes, if anything.
fn check_metadata(around: &Surroundings<'_>, default: &Value) -> Result<(), String> {
    let mut node = Node::default();
    node.embedded_resource = true;
    let object = object::coerce_default(&node, &around.object_with(default)).map_err(|error| error.0)?;
    let mut errors = Errors::default();
    object::check_embedded(&node, &object, "", &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(errors.to_string()) }
}

fn check_rules(
    schema: &Value,
    around: &Surroundings<'_>,
    node: &Node,
    default: &Value,
    path: &str,
) -> Errors {
    let place = if around.is_object() {
        sternpost_cel::SchemaPosition::ResourceRoot
    } else {
        sternpost_cel::SchemaPosition::Within
    };
    let Some(tree) = RuleTree::compile(schema, place) else { return Errors::default() };
    // As if it were created, and if that is well, as if it were written once more.
    let found = rules::run(&tree, node, default, None, path).errors;
    if found.is_empty() { rules::run(&tree, node, default, Some(default), path).errors } else { found }
}
