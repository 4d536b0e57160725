//! `ConfigMap`

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::config_key,
};

use super::secret::decoded_length;
use crate::{
    object::Fields,
    strategy::{MetadataCheck, Strategy},
    validation::form::{must_be, same},
};

pub const STRATEGY: Strategy = Strategy {
    validate,
    validate_update,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    columns: columns::COLUMNS,
    ..Strategy::of("", "ConfigMap")
};

/// The most bytes that all values may have together.
pub const MAX_BYTES: usize = 1024 * 1024;

/// What upstream says of a field that `immutable` protects.
pub const IMMUTABLE: &str = "field is immutable when `immutable` is set";

fn validate(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in object.entries("data") {
        let data = Path::new("data");
        must_be(config_key, key, data.key(key), errors);
        if object.field("binaryData").has(key) {
            errors.invalid(data.key(key), key, "duplicate of key present in binaryData");
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    for (key, value) in object.entries("binaryData") {
        must_be(config_key, key, Path::new("binaryData").key(key), errors);
        bytes += decoded_length(value);
    }
    if bytes > MAX_BYTES {
        errors.too_long("[]", MAX_BYTES);
    }
}

fn validate_update(object: &Value, old: &Value, errors: &mut Errors) {
    validate_immutable(object, old, &["data", "binaryData"], errors);
    validate(object, errors);
}

/// Once an object is immutable, it stays so, and so do the named fields.
pub fn validate_immutable(object: &Value, old: &Value, names: &[&str], errors: &mut Errors) {
    if !old.flag("immutable") {
        return;
    }
    if !object.flag("immutable") {
        errors.forbidden(Path::new("immutable"), IMMUTABLE);
    }
    for name in names {
        if !same(object.field(name), old.field(name)) {
            errors.forbidden(Path::new(name), IMMUTABLE);
        }
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed(
            "Data",
            |object| (object.entries("data").count() + object.entries("binaryData").count()).into(),
            "Number of keys, text and binary.",
        ),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_a_total_size_limit_over_both_maps() {
        // Four bytes of base64 stand for three.
        let binary = "QUJD".repeat(100);
        for (bytes, expected) in [(MAX_BYTES, 0), (MAX_BYTES + 1, 1)] {
            let object = json!({"data": {"a": "x".repeat(bytes - 300)}, "binaryData": {"b": binary}});
            let mut errors = Errors::default();
            validate(&object, &mut errors);
            assert_eq!(errors.len(), expected, "{bytes}");
            assert!(errors.causes().iter().all(|cause| cause.field == "[]"));
        }
    }
}
