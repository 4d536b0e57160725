//! VolumeAttachment: a volume that is, or shall be, attached to a node.

use serde_json::{Value, json};
use sternpost_meta::{
    field::{Errors, Path},
    format::dns_subdomain,
};

use super::persistent_volume::{Use, source, validate_spec_at};
use crate::{
    internal_form::{Form, Shape, internal, same_form},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec_and_reset_metadata, keep_status},
    strategy::{DeleteAnswer, MetadataCheck, Strategy, Subresource},
    validation::form::{driver_name, must_be},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |attachment| attachment.set("status", json!({"attached": false})),
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_reset_metadata,
    validate,
    validate_update,
    validate_status_update: validate_update,
    unconditional_update: false,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written],
    status_checks_again: &[],
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    ..Strategy::of("storage.k8s.io", "VolumeAttachment")
};

/// The most bytes of metadata a driver may leave.
pub const MAX_METADATA_BYTES: usize = 256 * 1024;
/// The most bytes of an error; the text upstream gives names another number.
pub const MAX_ERROR_BYTES: usize = 1024;

const SPEC: Form = Form::Message("io.k8s.api.storage.v1.VolumeAttachmentSpec");

fn default(attachment: &mut Value) {
    let source = attachment.object_mut("spec").object_mut("source");
    if source.has("inlineVolumeSpec") {
        source::default(source.object_mut("inlineVolumeSpec"));
    }
}

fn validate(attachment: &Value, errors: &mut Errors) {
    let spec = attachment.field("spec");
    let path = Path::new("spec");
    driver_name(spec.text("attacher"), path.child("attacher"), errors);
    let source = spec.field("source");
    let source_path = path.child("source");
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.get_field("inlineVolumeSpec"), source.get_field("persistentVolumeName")) {
        (None, None) => errors.required(source_path, detail),
        (Some(_), Some(_)) => errors.forbidden(source_path, detail),
        (Some(inline), None) => {
            validate_spec_at(inline, "", Use::Inline, source_path.child("inlineVolumeSpec"), errors);
        }
        (None, Some(name)) => {
            if name.as_str().unwrap_or_default().is_empty() {
                let path = source_path.child("persistentVolumeName");
                errors.required(path, "must specify non empty persistentVolumeName");
            }
        }
    }
    must_be(dns_subdomain, spec.text("nodeName"), path.child("nodeName"), errors);
    validate_status(attachment.field("status"), errors);
    if let Some(name) = source.field("persistentVolumeName").as_str() {
        must_be(dns_subdomain, name, source_path.child("persistentVolumeName"), errors);
    }
}

fn validate_status(status: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let metadata = status.entries("attachmentMetadata");
    let bytes: usize = metadata.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > MAX_METADATA_BYTES {
        errors.too_long(path.child("attachmentMetadata"), MAX_METADATA_BYTES);
    }
    for name in ["attachError", "detachError"] {
        let error = status.field(name);
        let path = path.child(name);
        if error.text("message").len() > MAX_ERROR_BYTES {
            errors.too_long(path.child("message"), MAX_METADATA_BYTES);
        }
        if let Some(code) = error.int("errorCode").filter(|code| *code < 0) {
            errors.invalid(path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive");
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    let shape = Shape::Struct(SPEC);
    if !same_form(shape, new.field("spec"), old.field("spec")) {
        errors.invalid("spec", internal(shape, new.field("spec")), "field is immutable");
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, flag, text};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Attacher", "/spec/attacher", "The driver that attaches.").identifying(),
        text("PV", "/spec/source/persistentVolumeName", "The volume."),
        text("Node", "/spec/nodeName", "The node."),
        flag("Attached", Cell::Flag("/status/attached", false), "Whether it is attached."),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_errors_are_limited_in_bytes() {
        for (over, found) in
            [(0, vec![]), (1, vec!["status.attachmentMetadata", "status.attachError.message"])]
        {
            let status = json!({
                "attachmentMetadata": {"k": "v".repeat(MAX_METADATA_BYTES - 1 + over)},
                "attachError": {"message": "m".repeat(MAX_ERROR_BYTES + over)},
            });
            let mut errors = Errors::default();
            validate_status(&status, &mut errors);
            let text = "Too long: may not be more than 262144 bytes";
            assert!(errors.causes().iter().all(|cause| cause.message == text));
            let fields: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, found);
        }
    }
}
