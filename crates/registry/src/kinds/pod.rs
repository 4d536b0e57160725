//! `Pod`: what may be created, what may change later, and through which door.
//!
//! The object itself takes only few changes (`update`); ephemeral containers
//! and resources change through subresources of their own
//! ([`ephemeral_containers`], [`resize`]), the node through a [`binding`].

mod columns;
pub mod condition;
pub mod ephemeral_containers;
pub mod resize;
mod status;
mod update;
mod warnings;

use std::borrow::Cow;

use serde_json::{Value, json};
use sternpost_meta::field::{Errors, Path};

use super::{binding, eviction};
use crate::{
    field_selectors::{NAME, NAMESPACE, SelectableFields, boolean, stored_value},
    node_connection,
    object::{Fields, FieldsMut},
    status_subresource,
    strategy::{Action, DeleteAnswer, Generation, MetadataCheck, Proxy, Strategy, Stream, Subresource},
    validation::{pod_annotations, pod_spec},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: status_subresource::keep_status,
    prepare_status_update: status::prepare,
    validate,
    validate_update: update::validate,
    validate_status_update: status::validate,
    early_warnings: pod_annotations::app_armor_warnings,
    warnings: warnings::warnings,
    delete_answer: DeleteAnswer::Object,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    reset_fields: &[".status"],
    subresources: &[
        Subresource::other("attach", Action::Stream(Stream::Attach)),
        Subresource::other("binding", Action::Change(binding::bind_pod)),
        Subresource::other("eviction", Action::Delete(eviction::evict_pod)),
        Subresource::other("exec", Action::Stream(Stream::Exec)),
        Subresource::other("log", Action::Log),
        Subresource::other("portforward", Action::Stream(Stream::PortForward)),
        Subresource::other(
            "proxy",
            Action::Proxy(Proxy::Object { called: "pod", address: node_connection::pod_proxy }),
        ),
        Subresource::status(&[".spec", ".metadata.deletionTimestamp", ".metadata.ownerReferences"]),
        // Upstream names what writers through these may own, and then does not look at it.
        Subresource {
            name: "ephemeralcontainers",
            reset_fields: &[],
            action: Action::Part {
                prepare: ephemeral_containers::prepare,
                validate: ephemeral_containers::validate,
            },
        },
        Subresource {
            name: "resize",
            reset_fields: &[],
            action: Action::Part { prepare: resize::prepare, validate: resize::validate },
        },
    ],
    selectable_fields: Some(SelectableFields {
        fields: &[
            NAME,
            NAMESPACE,
            ("spec.nodeName", "spec.nodeName"),
            ("spec.host", "spec.nodeName"),
            ("spec.restartPolicy", "spec.restartPolicy"),
            ("spec.schedulerName", "spec.schedulerName"),
            ("spec.serviceAccountName", "spec.serviceAccountName"),
            ("spec.hostNetwork", "spec.hostNetwork"),
            ("status.phase", "status.phase"),
            ("status.podIP", "status.podIP"),
            ("status.podIPs", "status.podIPs"),
            ("status.nominatedNodeName", "status.nominatedNodeName"),
        ],
        value: selectable_value,
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    row_condition: columns::row_condition,
    grace_period: Some(grace_period),
    ..Strategy::of("", "Pod")
};

fn selectable_value<'a>(field: &str, pod: &'a Value) -> Cow<'a, str> {
    match field {
        "status.podIP" => {
            let first = pod.field("status").items("podIPs").first();
            first.map_or("", |ip| ip.text("ip")).into()
        }
        // Offered, but never filled upstream.
        "status.podIPs" => "".into(),
        "spec.hostNetwork" => boolean(field, pod),
        _ => stored_value(field, pod),
    }
}

/// Only pods that run somewhere get any.
fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let finished = matches!(pod.field("status").text("phase"), "Succeeded" | "Failed");
    if pod.field("spec").text("nodeName").is_empty() || finished {
        return 0;
    }
    let own = pod.field("spec").int("terminationGracePeriodSeconds").unwrap_or(30);
    match asked.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

fn default(pod: &mut Value) {
    let spec = pod.object_mut("spec");
    pod_spec::default(spec);
    pod_spec::default_pod(spec);
    status::default(pod);
}

/// A pod begins as pending, in the class of service that its resources put it in.
fn prepare_create(pod: &mut Value) {
    let spec = pod.field("spec");
    let mut status = json!({"phase": "Pending", "qosClass": pod_spec::qos_class(spec)});
    if !spec.items("schedulingGates").is_empty() {
        status.set(
            "conditions",
            json!([{
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": null,
                "lastTransitionTime": pod.field("metadata").field("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]),
        );
    }
    pod.set("status", status);
    // Nothing can end before it is asked to; one second is as near as it gets.
    let spec = pod.object_mut("spec");
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.set("terminationGracePeriodSeconds", 1);
    }
    pod.object_mut("metadata").set("generation", 1);
    pod_spec::merge_match_label_keys(pod);
    pod_annotations::app_armor_to_fields(pod);
}

fn validate(pod: &Value, errors: &mut Errors) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let path = Path::new("spec");
    validate_metadata_and_spec(pod, None, errors);
    if !spec.items("ephemeralContainers").is_empty() {
        errors.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
        let problem = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(path.child("nodeName"), problem);
    }
    pod_annotations::validate_same_as_fields(metadata, spec, &path, errors);
}

/// What is checked on every write of a pod's spec.
fn validate_metadata_and_spec(pod: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let path = Path::new("spec");
    let old_metadata = old.map_or(&Value::Null, |old| old.field("metadata"));
    let annotations = Path::new("metadata");
    pod_annotations::validate(metadata, spec, old_metadata, &annotations.child("annotations"), errors);
    let options = pod_spec::Options {
        pod: Some(metadata),
        old: old.map(|old| old.field("spec")),
        ..Default::default()
    };
    pod_spec::validate(spec, options, &path, errors);
    if spec.text("serviceAccountName").is_empty() {
        forbid_tokens(spec, &path, errors);
    }
    pod_spec::validate_images(spec, &path, errors);
}

/// Without a service account there is nothing to make a token for.
fn forbid_tokens(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (at_volume, volume) in spec.items("volumes").iter().enumerate() {
        for (at_source, source) in volume.field("projected").items("sources").iter().enumerate() {
            if !source.has("serviceAccountToken") {
                continue;
            }
            let volumes = path.child("volumes");
            let volume = volumes.index(at_volume);
            let projected = volume.child("projected");
            let sources = projected.child("sources");
            let source = sources.index(at_source);
            errors.forbidden(
                source.child("serviceAccountToken"),
                "must not be specified when serviceAccountName is not set",
            );
        }
    }
}
