//! Defaults within a schema fit it, and hold nothing it does not know.

use serde_json::Value;
use sternpost_meta::field::Errors;

use super::children;
use crate::{
    node::{Node, Purpose},
    object,
    rules::{self, RuleTree},
};

pub(super) fn check(schema: &Value, path: &str) -> Errors {
    let mut errors = Errors::default();
    check_node(schema, Place::Root, path, &mut errors);
    errors
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Below,
}

fn check_node(schema: &Value, place: Place, path: &str, errors: &mut Errors) {
    if let Some(default) = schema.get("default") {
        let path = format!("{path}.default");
        check_default(schema, place, default, &path, errors);
    }
    for (step, child) in children(schema) {
        let is_own =
            ["metadata", "kind", "apiVersion"].iter().any(|name| step == format!(".properties[{name}]"));
        // What the server fills itself may have none, which is told elsewhere. Upstream does not
        // look at what stands within maps.
        let is_looked_at = step != ".additionalProperties" && (place == Place::Below || !is_own);
        if is_looked_at {
            check_node(child, Place::Below, &format!("{path}{step}"), errors);
        }
    }
}

fn check_default(schema: &Value, place: Place, default: &Value, path: &str, errors: &mut Errors) {
    let mut node = Node::compile(schema, Purpose::Defaults);
    if place == Place::Root {
        node.make_embedded();
    }
    if object::has_unknown(&node, default) {
        errors.invalid(path, default, "must not have unknown fields");
    }
    if let Err(error) = object::coerce_default(&node, default) {
        // The text begins with the place within the default.
        let (place, rest) = error.0.split_once(": Invalid value: ").unwrap_or(("", &error.0));
        let field = if place.is_empty() { path.to_owned() } else { format!("{path}.{place}") };
        let message = format!("Invalid value: {rest}");
        errors.push(sternpost_meta::status::CauseReason::FieldValueInvalid, field, &message, None, "");
        return;
    }
    let found = object::check(&node, default, None, path);
    if found.is_empty() {
        let at = match place {
            Place::Root => sternpost_cel::Place::ResourceRoot,
            Place::Below => sternpost_cel::Place::Within,
        };
        if let Some(tree) = RuleTree::compile(schema, at) {
            // As if it were created, and if that is well, as if it were written once more.
            let mut found = rules::run(&tree, &node, default, None, path).errors;
            if found.is_empty() {
                found = rules::run(&tree, &node, default, Some(default), path).errors;
            }
            errors.extend(found);
        }
    } else {
        errors.extend(found);
    }
}
