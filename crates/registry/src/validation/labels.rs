//! Labels and annotations as maps, wherever an object carries them.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{label_value, qualified_name},
};

use crate::object::Fields;

/// The most bytes that keys and values of one annotations map may have together.
pub const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Keys and values of the labels in `object[name]`; errors stand at `path`, which names the map.
pub fn validate_labels(object: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in object.entries(name) {
        validate_label_key(key, path, errors);
        let value = value.as_str().unwrap_or_default();
        for problem in label_value(value) {
            errors.invalid(path, value, &problem);
        }
    }
}

pub fn validate_label_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for problem in qualified_name(key) {
        errors.invalid(path, key, &problem);
    }
}

/// Keys and total size of the annotations in `object[name]`.
pub fn validate_annotations(object: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in object.entries(name) {
        for problem in qualified_name(&key.to_lowercase()) {
            errors.invalid(path, key, &problem);
        }
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MAX_ANNOTATIONS_BYTES {
        errors.too_long(path, MAX_ANNOTATIONS_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn annotated(bytes: usize) -> usize {
        let object = json!({"annotations": {"k": "v".repeat(bytes - 1)}});
        let mut errors = Errors::default();
        validate_annotations(&object, "annotations", &Path::new("annotations"), &mut errors);
        errors.len()
    }

    #[test]
    fn annotations_have_a_total_size_limit() {
        assert_eq!(annotated(MAX_ANNOTATIONS_BYTES), 0);
        assert_eq!(annotated(MAX_ANNOTATIONS_BYTES + 1), 1);
    }
}
