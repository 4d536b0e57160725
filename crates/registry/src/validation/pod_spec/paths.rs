//! Paths of files inside volumes and images.

use sternpost_meta::field::{Errors, Path};

/// A path below a directory: relative, and never up.
pub fn validate_descending(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    validate_no_backsteps(value, path, errors);
}

/// As [`validate_descending`], and not one of the names that volumes use for themselves.
pub fn validate_non_reserved(value: &str, path: &Path<'_>, errors: &mut Errors) {
    validate_descending(value, path, errors);
    // What starts with "../" has been found already.
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

pub fn validate_no_backsteps(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if has_backsteps(value) {
        errors.invalid(path, value, "must not contain '..'");
    }
}

pub fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|part| part == "..")
}

/// A file mode that volumes may set.
pub fn validate_file_mode(mode: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
