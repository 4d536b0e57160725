//! Maps from the name of a resource to a quantity.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::qualified_name,
    quantity::Quantity,
};

use super::{bounds::NOT_NEGATIVE, form::named, resource_name};
use crate::object::{Fields, FieldsMut};

/// Nothing finer than a thousandth is kept.
pub fn default(object: &mut Value, name: &str) {
    let Some(list) = object.get_mut(name).and_then(Value::as_object_mut) else { return };
    for value in list.values_mut() {
        if let Ok(quantity) = Quantity::from_json(value) {
            *value = quantity.rounded_up_to_milli().to_string().into();
        }
    }
}

/// As [`default`], for `requests` and `limits`.
pub fn default_requirements(object: &mut Value, name: &str) {
    if object.has(name) {
        let resources = object.object_mut(name);
        default(resources, "limits");
        default(resources, "requests");
    }
}

/// The quantity under a name; what is no quantity counts as none.
pub fn quantity(list: &Value, name: &str) -> Option<Quantity> {
    list.get_field(name).and_then(|value| Quantity::from_json(value).ok())
}

/// What is wrong with a name, anywhere resources are named.
pub fn validate_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let problems = qualified_name(name);
    for problem in &problems {
        errors.invalid(path, named(name), problem);
    }
    if problems.is_empty() && !name.contains('/') && !resource_name::is_standard(name) {
        errors.invalid(path, named(name), "must be a standard resource type or fully qualified");
    }
}

/// A name that containers can ask for.
pub fn validate_container_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    validate_name(name, path, errors);
    let native = !name.contains('/');
    if native && !resource_name::is_standard_for_containers(name) {
        errors.invalid(path, named(name), "must be a standard resource for containers");
    } else if !native && !resource_name::is_native(name) && !resource_name::is_extended(name) {
        errors.invalid(path, named(name), "doesn't follow extended resource name standard");
    }
}

/// At least zero, and whole where halves make no sense.
pub fn validate_quantity(name: &str, quantity: &Quantity, path: &Path<'_>, errors: &mut Errors) {
    if quantity.is_negative() {
        errors.invalid(path, quantity.to_string(), NOT_NEGATIVE);
    }
    // What 64 bits cannot hold passes as whole upstream.
    if resource_name::is_integer(name) && quantity.milli_value().unwrap_or_default() % 1000 != 0 {
        errors.invalid(path, quantity.to_string(), "must be an integer");
    }
}
