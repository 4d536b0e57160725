//! Volumes on storage systems, where pods have rules of their own.

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::Volume;
use crate::{
    object::Fields,
    validation::{
        form::not_empty,
        volume_source::{
            ISCSI_INTERFACE_TOO_LONG, is_iscsi_name, iscsi_interface_is_too_long, validate_iscsi_access,
            validate_secret, validate_storage_os,
        },
    },
};

pub fn iscsi(source: &Value, path: Path<'_>, volume: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("targetPortal"), path.child("targetPortal"), errors);
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errors.required(path.child("iqn"), "");
    } else {
        validate_iscsi_name(iqn, path.child("iqn"), errors);
    }
    validate_iscsi_access(source, &path, errors);
    if let Some(initiator) = source.field("initiatorName").as_str() {
        validate_iscsi_name(initiator, path.child("initiatorname"), errors);
    }
    if iscsi_interface_is_too_long(source, volume.name) {
        errors.invalid(volume.path.child("name"), volume.name, ISCSI_INTERFACE_TOO_LONG);
    }
}

fn validate_iscsi_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    match is_iscsi_name(name) {
        None => errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa"),
        Some(false) => errors.invalid(path, name, "must be valid format"),
        Some(true) => {}
    }
}

pub fn cinder(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    not_empty(source.text("volumeID"), path.child("volumeID"), errors);
    validate_secret(source, &["name"], &path, errors);
}

pub fn storage_os(source: &Value, path: Path<'_>, _: &Volume<'_>, errors: &mut Errors) {
    validate_storage_os(source, &path, errors);
    validate_secret(source, &["name"], &path, errors);
}
