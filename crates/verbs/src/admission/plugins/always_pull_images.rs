//! AlwaysPullImages: who may run an image has to show that to where it comes from, every time.

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_meta::status::Status;
use sternpost_registry::object::{Fields, FieldsMut};

use crate::admission::{Operation, Plugin, Request};

pub(super) const PLUGIN: Plugin = Plugin { name: "AlwaysPullImages", mutate, ..Plugin::NONE };

const ALWAYS: &str = "Always";

fn mutate(request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    let is_new = request.is(Operation::Create, "", "pods");
    let is_changed = request.is(Operation::Update, "", "pods")
        && request.old.is_some_and(|old| !images(pod).is_subset(&images(old)));
    if !is_new && !is_changed {
        return Ok(());
    }
    let spec = pod.object_mut("spec");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(list) {
            container.set("imagePullPolicy", ALWAYS);
        }
    }
    for volume in spec.items_mut("volumes") {
        if volume.has("image") {
            volume.object_mut("image").set("pullPolicy", ALWAYS);
        }
    }
    Ok(())
}

fn images(pod: &Value) -> BTreeSet<&str> {
    let spec = pod.field("spec");
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| spec.items(list)).map(|container| container.text("image")).collect()
}
