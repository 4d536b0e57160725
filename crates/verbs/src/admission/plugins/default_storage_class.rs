//! DefaultStorageClass: a claim that chooses no class gets the default one.

use std::cmp::Reverse;

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "DefaultStorageClass", mutate, ..Plugin::NONE };

const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// How classes were chosen before there was a field for it.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

fn mutate(request: &Request<'_>, claim: &mut Value) -> Result<(), Status> {
    if !request.is(Operation::Create, "", "persistentvolumeclaims") {
        return Ok(());
    }
    let annotated = claim.field("metadata").field("annotations").has(CLASS_ANNOTATION);
    if annotated || claim.field("spec").has("storageClassName") {
        return Ok(());
    }
    let classes = request.objects("storage.k8s.io", "storageclasses");
    let classes = classes.iter(None, None).map(|class| class.value());
    if let Some(name) = newest_default(classes, &DEFAULT) {
        claim.object_mut("spec").set("storageClassName", name);
    }
    Ok(())
}

/// The class that one of the annotations makes the default; of several the
/// newest, and of those made in the same second the first by name.
pub(super) fn newest_default(classes: impl Iterator<Item = Value>, annotations: &[&str]) -> Option<String> {
    let is_default = |class: &Value| {
        let metadata = class.field("metadata").field("annotations");
        annotations.iter().any(|annotation| metadata.text(annotation) == "true")
    };
    classes
        .filter(is_default)
        .min_by_key(|class| {
            let metadata = class.field("metadata");
            (Reverse(metadata.text("creationTimestamp").to_owned()), metadata.text("name").to_owned())
        })
        .map(|class| class.field("metadata").text("name").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_several_defaults_the_newest_is_taken_and_then_the_first_by_name() {
        let class = |name: &str, second: u8, default: &str| {
            json!({"metadata": {
                "name": name,
                "creationTimestamp": format!("2026-01-01T00:00:0{second}Z"),
                "annotations": {"is-default": default},
            }})
        };
        for (classes, expected) in [
            (vec![], None),
            (vec![class("a", 1, "false")], None),
            (vec![class("a", 1, "true"), class("b", 2, "true")], Some("b")),
            (vec![class("b", 2, "true"), class("c", 1, "true"), class("a", 2, "true")], Some("a")),
            (vec![class("a", 1, "true"), class("b", 2, "True")], Some("a")),
        ] {
            assert_eq!(newest_default(classes.into_iter(), &["is-default"]).as_deref(), expected);
        }
    }
}
