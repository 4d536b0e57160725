//! Columns that workloads share.

use serde_json::Value;

use crate::{
    object::Fields,
    table::{
        Column, computed, integer,
        text::{each, selector},
    },
};

pub(crate) const READY_OF_DESIRED: Column =
    computed("Ready", ready_of_desired, "Pods that are ready, of those there should be.");

pub(crate) const DESIRED: Column = integer("Desired", "/spec/replicas", "Pods that there should be.");
pub(crate) const CURRENT: Column = integer("Current", "/status/replicas", "Pods that there are.");
pub(crate) const READY: Column = integer("Ready", "/status/readyReplicas", "Pods that are ready.");

pub(crate) const SELECTOR: Column = computed(
    "Selector",
    |object| selector(object.field("spec").field("selector")),
    "Labels of the pods that are counted.",
)
.wide();

pub(crate) fn ready_of_desired(object: &Value) -> Value {
    let ready = object.field("status").int("readyReplicas").unwrap_or(0);
    let desired = object.field("spec").int("replicas").unwrap_or(0);
    format!("{ready}/{desired}").into()
}

pub(crate) const TEMPLATE_CONTAINERS: Column = computed(
    "Containers",
    |object| each(object.field("spec").field("template").field("spec").items("containers"), "name"),
    "Names of the containers in the pod template.",
)
.wide();

pub(crate) const TEMPLATE_IMAGES: Column = computed(
    "Images",
    |object| each(object.field("spec").field("template").field("spec").items("containers"), "image"),
    "Images of the containers in the pod template.",
)
.wide();
