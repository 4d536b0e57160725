//! StorageObjectInUseProtection: storage that is used is not deleted under its users.

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "StorageObjectInUseProtection", mutate, ..Plugin::NONE };

const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

fn mutate(request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
    let found =
        FINALIZERS.into_iter().find(|(group, resource, _)| request.is(Operation::Create, group, resource));
    let Some((_, _, finalizer)) = found else { return Ok(()) };
    let mut finalizers = object.field("metadata").items("finalizers").to_vec();
    if !finalizers.iter().any(|name| name == finalizer) {
        finalizers.push(finalizer.into());
        object.object_mut("metadata").set("finalizers", finalizers);
    }
    Ok(())
}
