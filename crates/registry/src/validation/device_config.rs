//! Parts that claims, classes and slices of devices share: selectors,
//! configuration for drivers, and names of attributes.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{c_identifier, dns_subdomain},
};

use super::form::{driver_name, must_be};
use crate::object::Fields;

pub const MAX_SELECTORS: usize = 32;
pub const MAX_CONFIGS: usize = 32;
/// The most bytes of an expression of a selector.
pub const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// The most bytes of parameters for a driver.
pub const MAX_PARAMETERS_BYTES: usize = 10 * 1024;
/// The most bytes of the domain of a qualified name.
pub const MAX_DOMAIN_BYTES: usize = 63;
/// The most bytes of the name within its domain.
pub const MAX_IDENTIFIER_BYTES: usize = 32;

/// Checks each item, unless there are too many, which is an error that ends the check.
pub fn each(
    items: &[Value],
    most: usize,
    path: &Path<'_>,
    errors: &mut Errors,
    mut check: impl FnMut(&Value, &Path<'_>, &mut Errors),
) {
    if items.len() > most {
        errors.too_many(path, items.len(), most);
        return;
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &path.index(index), errors);
    }
}

/// As [`each`], for items that are different in what `key` gives.
pub fn each_once(
    items: &[Value],
    most: usize,
    path: &Path<'_>,
    errors: &mut Errors,
    key: fn(&Value) -> &str,
    mut check: impl FnMut(&Value, &Path<'_>, &mut Errors),
) {
    if items.len() > most {
        errors.too_many(path, items.len(), most);
        return;
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &path.index(index), errors);
    }
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            errors.duplicate(path.index(index), key(item));
        }
    }
}

/// Checks `object.selectors`; whether expressions compile is not looked at.
pub fn validate_selectors(object: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("selectors");
    each(object.items("selectors"), MAX_SELECTORS, &list, errors, |selector, path, errors| {
        let path = path.child("cel");
        match selector.get_field("cel") {
            None => errors.required(path, ""),
            Some(cel) if cel.text("expression").len() > MAX_EXPRESSION_BYTES => {
                errors.too_long(path.child("expression"), MAX_EXPRESSION_BYTES);
            }
            Some(_) => {}
        }
    });
}

/// What a driver shall be told.
pub fn validate_configuration(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("opaque");
    let Some(opaque) = config.get_field("opaque") else {
        errors.required(path, "");
        return;
    };
    driver_name(opaque.text("driver"), path.child("driver"), errors);
    validate_raw(opaque, "parameters", &path, MAX_PARAMETERS_BYTES, errors);
}

/// JSON for somebody else to read: an object, and not too large.
pub fn validate_raw(holder: &Value, name: &str, path: &Path<'_>, most: usize, errors: &mut Errors) {
    let path = path.child(name);
    match holder.get_field(name) {
        None => errors.required(path, ""),
        Some(value) if value.to_string().len() > most => errors.too_long(path, most),
        Some(value) if !value.is_object() => {
            errors.invalid(path, "<value omitted>", "must be a valid JSON object");
        }
        Some(_) => {}
    }
}

/// `example.com/name`
pub fn validate_fully_qualified(name: &str, path: Path<'_>, errors: &mut Errors) {
    validate_qualified(name, path, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(path, name, detail);
    }
}

/// `name` or `example.com/name`, where the name is a C identifier.
pub fn validate_qualified(name: &str, path: Path<'_>, errors: &mut Errors) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => validate_identifier(name, path, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(path, *domain, "the domain must not be empty");
            } else {
                if domain.len() > MAX_DOMAIN_BYTES {
                    errors.too_long(path, MAX_DOMAIN_BYTES);
                }
                must_be(dns_subdomain, domain, path, errors);
            }
            if name.is_empty() {
                errors.invalid(path, *name, "the name must not be empty");
            } else {
                validate_identifier(name, path, errors);
            }
        }
        // Upstream looks at no more than two parts.
        _ => {}
    }
}

fn validate_identifier(name: &str, path: Path<'_>, errors: &mut Errors) {
    if name.len() > MAX_IDENTIFIER_BYTES {
        errors.too_long(path, MAX_IDENTIFIER_BYTES);
    }
    must_be(c_identifier, name, path, errors);
}
