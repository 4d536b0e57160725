//! The internal form of a pod spec, as messages print it.
//!
//! It differs from what users write in more than the names: what a pod shares
//! with its host stands in the security context, and the metadata of templates
//! stands beside their spec. [`rearranged`] moves those.

use serde_json::{Map, Value};
use sternpost_meta::field::BadValue;

use crate::{
    internal_form::{Form, Shape, indented, internal, same_form},
    object::{Fields, FieldsMut},
};

/// Members of a spec that stand in its security context.
const OF_SECURITY_CONTEXT: &[&str] =
    &["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A spec on one line.
pub fn internal_spec(spec: &Value) -> BadValue {
    internal(Shape::Struct(POD_SPEC), &rearranged(spec))
}

/// A template on one line: metadata in its own names beside the spec.
pub fn internal_template(template: &Value) -> BadValue {
    let mut flat = with_metadata_inline(template);
    flat.set("spec", rearranged(template.field("spec")));
    internal(Shape::Struct(POD_TEMPLATE_SPEC), &flat)
}

/// A spec over many lines, for differences.
pub fn indented_spec(spec: &Value) -> String {
    indented(Shape::Struct(POD_SPEC), &rearranged(spec))
}

/// Whether two specs are equal, however what is empty is written.
pub fn same_spec(a: &Value, b: &Value) -> bool {
    same_form(Shape::Struct(POD_SPEC), &rearranged(a), &rearranged(b))
}

fn rearranged(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let moved: Vec<(&str, Value)> =
        OF_SECURITY_CONTEXT.iter().filter_map(|name| Some((*name, spec.remove(name)?))).collect();
    if spec.has("securityContext") || !moved.is_empty() {
        let context = spec.object_mut("securityContext");
        for (name, value) in moved {
            context.set(name, value);
        }
    }
    for volume in spec.items_mut("volumes") {
        let template = volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"));
        if let Some(template) = template {
            *template = with_metadata_inline(template);
        }
    }
    spec
}

fn with_metadata_inline(template: &Value) -> Value {
    let mut flat = template.field("metadata").as_object().cloned().unwrap_or_else(Map::new);
    flat.extend(template.get_field("spec").map(|spec| ("spec".to_owned(), spec.clone())));
    Value::Object(flat)
}

const POD_TEMPLATE_SPEC: Form = Form::Message("io.k8s.api.core.v1.PodTemplateSpec");

const POD_SPEC: Form = Form::Message("io.k8s.api.core.v1.PodSpec");

pub const NODE_SELECTOR_TERM: Form = Form::Message("io.k8s.api.core.v1.NodeSelectorTerm");

pub const EPHEMERAL_CONTAINER: Form = Form::Message("io.k8s.api.core.v1.EphemeralContainer");
