//! `Node`

use std::collections::BTreeSet;

use serde_json::Value;
use sternpost_golang::json::syntax::{self as json_syntax, Top};
use sternpost_meta::{
    field::{Errors, Path},
    format::{cidr_legacy, label_value, qualified_name},
    status::CauseReason,
};

use crate::{
    field_selectors::{NAME, SelectableFields, boolean, stored_value},
    internal_form::{Form, Shape, internal},
    node_connection,
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{Action, MetadataCheck, Proxy, Strategy, Subresource},
    validation::{
        form::{must_be, named, same, texts},
        ip_ranges::{Family, cidr_warning, family_of_cidr},
        resource_list,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update,
    validate,
    validate_update: |object, old, errors| {
        validate(object, errors);
        validate_change(object, old, errors);
    },
    validate_status_update: validate_change,
    warnings,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    reset_fields: &[".status"],
    subresources: &[
        Subresource::other(
            "proxy",
            Action::Proxy(Proxy::Object { called: "node", address: node_connection::node_proxy }),
        ),
        Subresource::STATUS,
    ],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME, ("spec.unschedulable", "spec.unschedulable")],
        value: |field, node| match field {
            "spec.unschedulable" => boolean(field, node),
            _ => stored_value(field, node),
        },
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    storage_prefix: Some("minions"),
    ..Strategy::of("", "Node")
};

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ADDRESS: Form = Form::Message("io.k8s.api.core.v1.NodeAddress");
const TAINT: Form = Form::Message("io.k8s.api.core.v1.Taint");

fn default(object: &mut Value) {
    if object.has("status") {
        let status = object.object_mut("status");
        resource_list::default(status, "capacity");
        resource_list::default(status, "allocatable");
        if let (None, Some(capacity)) =
            (status.get_field("allocatable"), status.get_field("capacity").cloned())
        {
            status.set("allocatable", capacity);
        }
    }
    if object.has("spec") {
        mirror_pod_cidr(object.object_mut("spec"));
    }
}

/// `podCIDR` is the first of `podCIDRs`, and wins if they differ.
fn mirror_pod_cidr(spec: &mut Value) {
    let first = texts(spec, "podCIDRs").next().map(str::to_owned);
    let single = spec.text("podCIDR").to_owned();
    if single.is_empty() {
        if let Some(first) = first {
            spec.set("podCIDR", first);
        }
    } else if first.as_deref() != Some(&single) {
        spec.set("podCIDRs", vec![Value::String(single)]);
    }
}

fn prepare_create(object: &mut Value) {
    if object.has("spec") {
        object.object_mut("spec").remove("configSource");
    }
    if object.has("status") {
        object.object_mut("status").remove("config");
    }
}

fn prepare_update(object: &mut Value, old: &Value) {
    if !old.field("spec").has("configSource") && object.has("spec") {
        object.object_mut("spec").remove("configSource");
    }
    keep_status(object, old);
}

fn prepare_status_update(object: &mut Value, old: &Value) {
    keep_spec(object, old);
    if !old.field("status").has("config") && object.has("status") {
        object.object_mut("status").remove("config");
    }
}

fn validate(object: &Value, errors: &mut Errors) {
    validate_taints_annotation(object, errors);
    validate_taints(object.field("spec").items("taints"), &Path::new("metadata").child("taints"), errors);
    validate_resources(object, errors);
    let swap = object.field("status").field("nodeInfo").field("swap");
    if let Some(capacity) = swap.int("capacity").filter(|capacity| *capacity <= 0) {
        errors.invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero");
    }
    validate_declared_features(object, errors);
    validate_pod_cidrs(object, errors);
}

/// What both the object and its status are checked for when they change.
fn validate_change(object: &Value, old: &Value, errors: &mut Errors) {
    validate_taints_annotation(object, errors);
    validate_resources(object, errors);
    validate_declared_features(object, errors);
    validate_addresses(object, errors);
    let (spec, old_spec) = (object.field("spec"), old.field("spec"));
    let path = Path::new("spec");
    let (cidrs, old_cidrs) = (spec.items("podCIDRs"), old_spec.items("podCIDRs"));
    if !old_cidrs.is_empty() {
        let changes = if cidrs.len() == old_cidrs.len() {
            cidrs.iter().zip(old_cidrs).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        for _ in 0..changes {
            let text = "node updates may not change podCIDR except from \"\" to valid";
            errors.forbidden(path.child("podCIDRs"), text);
        }
    }
    let old_provider = old_spec.text("providerID");
    if !old_provider.is_empty() && old_provider != spec.text("providerID") {
        let text = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(path.child("providerID"), text);
    }
    if !same(spec.field("taints"), old_spec.field("taints")) {
        validate_taints(spec.items("taints"), &Path::new("metadata").child("taints"), errors);
    }
    if spec.text("externalID") != old_spec.text("externalID") {
        errors.forbidden(path.child("externalID"), "may not be updated");
    }
}

/// Taints once stood in an annotation; what still does must at least read as such.
fn validate_taints_annotation(object: &Value, errors: &mut Errors) {
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let text = object.field("metadata").field("annotations").text(TAINTS_ANNOTATION);
    if text.is_empty() {
        return;
    }
    let problem = match json_syntax::check(text.as_bytes()) {
        Err(problem) => Some(problem),
        Ok(document) => (!matches!(document.top, Top::Array | Top::Null)).then(|| {
            format!("json: cannot unmarshal {} into Go value of type []core.Taint", document.top.name())
        }),
    };
    if let Some(problem) = problem {
        errors.invalid(annotations, TAINTS_ANNOTATION, &problem);
        return;
    }
    let taints: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    validate_taints(&taints, &annotations.child(TAINTS_ANNOTATION), errors);
}

fn validate_taints(taints: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = list.index(index);
        must_be(qualified_name, taint.text("key"), path.child("key"), errors);
        let problems = label_value(taint.text("value"));
        if !problems.is_empty() {
            errors.invalid(path.child("value"), taint.text("value"), &problems.join(";"));
        }
        let effect = taint.text("effect");
        if effect.is_empty() {
            errors.required(path.child("effect"), "");
        } else if !EFFECTS.contains(&effect) {
            errors.not_supported(path.child("effect"), named(effect), &EFFECTS);
        }
        if !seen.insert((taint.text("key"), effect)) {
            errors.push(
                CauseReason::FieldValueDuplicate,
                path,
                "Duplicate value",
                Some(internal(Shape::Struct(TAINT), taint)),
                "taints must be unique by key and effect pair",
            );
        }
    }
}

fn validate_resources(object: &Value, errors: &mut Errors) {
    let status_path = Path::new("status");
    for list in ["capacity", "allocatable"] {
        let path = status_path.child(list);
        let amounts = object.field("status").field(list);
        for (name, _) in object.field("status").entries(list) {
            if let Some(quantity) = resource_list::quantity(amounts, name) {
                resource_list::validate_quantity(name, &quantity, &path.child(name), errors);
            }
        }
    }
}

fn validate_declared_features(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("declaredFeatures");
    let mut before: Option<&str> = None;
    for (index, feature) in texts(object.field("status"), "declaredFeatures").enumerate() {
        let path = list.index(index);
        if before == Some(feature) {
            errors.duplicate(path, feature);
        } else if before.is_some_and(|before| before > feature) {
            errors.invalid(path, feature, "list must be sorted alphabetically");
        }
        if !is_feature_name(feature) {
            let text = format!(
                "invalid feature name \"{feature}\": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.invalid(path, feature, &text);
        }
        before = Some(feature);
    }
}

fn is_feature_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name
            .split('/')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn validate_pod_cidrs(object: &Value, errors: &mut Errors) {
    let spec = object.field("spec");
    let spec_path = Path::new("spec");
    let path = spec_path.child("podCIDRs");
    for (index, cidr) in texts(spec, "podCIDRs").enumerate() {
        must_be(cidr_legacy, cidr, path.index(index), errors);
    }
    let families: BTreeSet<Option<Family>> = texts(spec, "podCIDRs").map(family_of_cidr).collect();
    let count = spec.items("podCIDRs").len();
    let both = families.contains(&Some(Family::IPv4)) && families.contains(&Some(Family::IPv6));
    if count > 2 || count == 2 && !both {
        let text = "may specify no more than one CIDR for each IP family";
        errors.invalid(path, spec.field("podCIDRs"), text);
    }
}

fn validate_addresses(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("addresses");
    let mut seen = BTreeSet::new();
    for (index, address) in object.field("status").items("addresses").iter().enumerate() {
        if !seen.insert((address.text("type"), address.text("address"))) {
            errors.duplicate(list.index(index), internal(Shape::Struct(ADDRESS), address));
        }
    }
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = object.field("spec");
    let path = Path::new("spec");
    let mut warnings = Vec::new();
    if !spec.text("externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".into());
    }
    let list = path.child("podCIDRs");
    for (index, cidr) in texts(spec, "podCIDRs").enumerate() {
        warnings.extend(cidr_warning(cidr, list.index(index)));
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, NONE, UNKNOWN, column, computed, text,
            text::{condition, or},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Status", status, "Whether the node is ready, and whether it takes pods."),
        computed("Roles", roles, "Roles that labels give the node."),
        AGE,
        text("Version", "/status/nodeInfo/kubeletVersion", "Version of the kubelet."),
        computed("Internal-IP", |node| address(node, "InternalIP"), "First address inside the cluster.")
            .wide(),
        computed("External-IP", |node| address(node, "ExternalIP"), "First address from outside.").wide(),
        column("OS-Image", Cell::TextOr("/status/nodeInfo/osImage", UNKNOWN), "Operating system.").wide(),
        computed("Kernel-Version", kernel, "Version of the kernel, and the architecture.").wide(),
        column(
            "Container-Runtime",
            Cell::TextOr("/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
            "Name and version of what runs the containers.",
        )
        .wide(),
    ];

    const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

    const ROLE_LABEL: &str = "kubernetes.io/role";

    fn status(node: &Value) -> Value {
        let ready = match condition(node, "Ready").map(|ready| ready.text("status")) {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        };
        let scheduling = if node.field("spec").flag("unschedulable") { ",SchedulingDisabled" } else { "" };
        format!("{ready}{scheduling}").into()
    }

    fn roles(node: &Value) -> Value {
        let labels = node.field("metadata").entries("labels");
        let mut roles: Vec<&str> = labels
            .filter_map(|(key, value)| match key {
                ROLE_LABEL => value.as_str(),
                _ => key.strip_prefix(ROLE_PREFIX),
            })
            .filter(|role| !role.is_empty())
            .collect();
        roles.sort_unstable();
        roles.dedup();
        or(roles.join(","), NONE).into()
    }

    fn address(node: &Value, kind: &str) -> Value {
        let addresses = node.field("status").items("addresses");
        let address = addresses.iter().find(|address| address.text("type") == kind);
        address.map_or(NONE, |address| address.text("address")).into()
    }

    fn kernel(node: &Value) -> Value {
        let info = node.field("status").field("nodeInfo");
        let version = or(info.text("kernelVersion").into(), UNKNOWN);
        match info.text("architecture") {
            "" => version.into(),
            architecture => format!("{version} ({architecture})").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_old_way_to_configure_a_node_cannot_be_taken_up() {
        let configured = json!({"spec": {"configSource": {}}, "status": {"config": {"error": "x"}}});
        for (old, kept) in [(json!({"spec": {}, "status": {}}), false), (configured.clone(), true)] {
            let (mut object, mut status) = (configured.clone(), configured.clone());
            prepare_update(&mut object, &old);
            prepare_status_update(&mut status, &old);
            assert_eq!(object["spec"].has("configSource"), kept);
            assert_eq!(status["status"].has("config"), kept);
        }
        let mut object = configured;
        prepare_create(&mut object);
        assert_eq!(object, json!({"spec": {}, "status": {}}));
    }

    #[test]
    fn what_is_deprecated_or_oddly_written_is_warned_of() {
        let mut node = json!({"spec": {"externalID": "x", "podCIDRs": ["10.1.0.0/24", "FD00::/64"]}});
        default(&mut node);
        assert_eq!(
            warnings(&node, None),
            [
                "spec.externalID: this field is deprecated, and is unused by Kubernetes",
                "spec.podCIDRs[1]: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
            ]
        );
    }
}
