//! ResourceSlice: devices that a driver offers.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_label, dns_subdomain, label_value, qualified_name},
};

use crate::{
    field_selectors::{NAME, SelectableFields},
    internal_form::{Form, NODE_SELECTOR, Shape, internal},
    object::{Fields, FieldsMut},
    strategy::{DeleteAnswer, Generation, Strategy},
    validation::{
        device_config::{each_once, validate_qualified},
        form::{driver_name, immutable, must_be, one_of, required},
        label_selector::ExpressionValues,
        node_selector,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate: |slice, errors| validate(slice, &Value::Null, errors),
    validate_update,
    delete_answer: DeleteAnswer::Object,
    generation: Generation::Tracks(&["spec"]),
    selectable_fields: Some(SelectableFields {
        fields: &[NAME, ("spec.nodeName", "spec.nodeName"), ("spec.driver", "spec.driver")],
        unsupported: |label| {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        },
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    stamp_create: |slice, context| stamp_taints(slice, &context.cluster.now()),
    stamp_update: |slice, _, context| stamp_taints(slice, &context.cluster.now()),
    ..Strategy::of("resource.k8s.io", "ResourceSlice")
};

pub const MAX_DEVICES: usize = 128;
/// If a device has taints or consumes counters.
pub const MAX_COMPLEX_DEVICES: usize = 64;
pub const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
/// The most counter sets of a slice.
pub const MAX_COUNTER_SETS: usize = 8;
/// The most counter sets a device consumes from.
pub const MAX_CONSUMED_SETS: usize = 2;
/// The most counters of one set.
pub const MAX_COUNTERS: usize = 32;
pub const MAX_TAINTS: usize = 16;
/// The most bytes of a text in an attribute.
pub const MAX_ATTRIBUTE_BYTES: usize = 64;
pub const MAX_POOL_NAME_BYTES: usize = 253;

const PLACES: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

/// Taints say since when they hold; `now` is in whole seconds.
pub fn stamp_taints(slice: &mut Value, now: &str) {
    for device in slice.object_mut("spec").items_mut("devices") {
        for taint in device.items_mut("taints") {
            taint.default_field("timeAdded", now);
        }
    }
}

fn default(slice: &mut Value) {
    for device in slice.object_mut("spec").items_mut("devices") {
        let Some(mappings) = device.get_mut("nodeAllocatableResourceMappings") else { continue };
        for mapping in mappings.as_object_mut().into_iter().flat_map(|mappings| mappings.values_mut()) {
            mapping.default_field("allocationMultiplier", "1");
        }
    }
}

fn validate(slice: &Value, old: &Value, errors: &mut Errors) {
    let spec = slice.field("spec");
    let path = Path::new("spec");
    driver_name(spec.text("driver"), path.child("driver"), errors);
    validate_pool(spec.field("pool"), &path.child("pool"), errors);
    if !old.is_null() {
        let pool = path.child("pool");
        immutable(spec.field("pool"), old.field("spec").field("pool"), "name", pool.child("name"), errors);
        immutable(spec, old.field("spec"), "driver", path.child("driver"), errors);
        immutable(spec, old.field("spec"), "nodeName", path.child("nodeName"), errors);
    }
    validate_place(spec, &path, errors);
    let devices = spec.items("devices");
    if !devices.is_empty() && !spec.items("sharedCounters").is_empty() {
        errors.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let complex =
        |device: &Value| !device.items("taints").is_empty() || !device.items("consumesCounters").is_empty();
    let most = if devices.iter().any(complex) { MAX_COMPLEX_DEVICES } else { MAX_DEVICES };
    let per_device = spec.flag("perDeviceNodeSelection");
    let name: fn(&Value) -> &str = |device| device.text("name");
    each_once(devices, most, &path.child("devices"), errors, name, |device, path, errors| {
        validate_device(device, per_device, path, errors);
    });
    let list = path.child("sharedCounters");
    let sets = spec.items("sharedCounters");
    let name: fn(&Value) -> &str = |set| set.text("name");
    each_once(sets, MAX_COUNTER_SETS, &list, errors, name, |set, path, errors| {
        must_be(dns_label, set.text("name"), path.child("name"), errors);
        validate_counters(set, &path.child("counters"), errors);
    });
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, old, errors);
}

fn validate_pool(pool: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_pool_name(pool.text("name"), path.child("name"), errors);
    let count = pool.int("resourceSliceCount").unwrap_or_default();
    if count <= 0 {
        errors.invalid(path.child("resourceSliceCount"), count, "must be greater than zero");
    }
    let generation = pool.int("generation").unwrap_or_default();
    if generation < 0 {
        errors.invalid(path.child("generation"), generation, "must be greater than or equal to zero");
    }
}

/// DNS subdomains with slashes between them.
pub fn validate_pool_name(name: &str, path: Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_POOL_NAME_BYTES {
        errors.too_long(path, MAX_POOL_NAME_BYTES);
    }
    for part in name.split('/') {
        must_be(dns_subdomain, part, path, errors);
    }
}

/// Where the devices are: exactly one way to say it.
fn validate_place(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let set = places(spec, &PLACES_OF_SLICES, path, errors);
    match set.len() {
        0 => errors.required(path, PLACES),
        1 => {}
        _ => {
            let detail = format!("{PLACES}, but multiple fields are set");
            errors.invalid(path, format!("{{{}}}", set.join(", ")), &detail);
        }
    }
}

/// Flags that say where devices are, and how messages show them.
const PLACES_OF_SLICES: [(&str, &str); 2] =
    [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")];
const PLACES_OF_DEVICES: [(&str, &str); 1] = [("allNodes", "`allNodes`")];

/// The ways that are used.
fn places(
    spec: &Value,
    flags: &[(&str, &'static str)],
    path: &Path<'_>,
    errors: &mut Errors,
) -> Vec<&'static str> {
    let mut set = Vec::new();
    match spec.field("nodeName").as_str() {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            errors.invalid(path.child("nodeName"), "", detail);
        }
        Some(name) => {
            set.push("`nodeName`");
            must_be(dns_subdomain, name, path.child("nodeName"), errors);
        }
    }
    if let Some(selector) = spec.get_field("nodeSelector") {
        set.push("`nodeSelector`");
        validate_node_selector(selector, &path.child("nodeSelector"), errors);
    }
    for (name, shown) in flags.iter().copied() {
        match spec.field(name).as_bool() {
            None => {}
            Some(true) => set.push(shown),
            Some(false) => {
                errors.invalid(path.child(name), false, "must be either unset or set to true");
            }
        }
    }
    set
}

fn validate_node_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    node_selector::validate(selector, ExpressionValues::Checked, path, errors);
    if selector.items("nodeSelectorTerms").len() != 1 {
        let terms = internal(Shape::Struct(NODE_SELECTOR), selector).to_string();
        let terms = terms.strip_prefix("{\"NodeSelectorTerms\":").and_then(|terms| terms.strip_suffix('}'));
        let value = BadValue::Plain(terms.unwrap_or_default().into());
        errors.invalid(path.child("nodeSelectorTerms"), value, "must have exactly one node selector term");
    }
}

fn validate_device(device: &Value, per_device: bool, path: &Path<'_>, errors: &mut Errors) {
    must_be(dns_label, device.text("name"), path.child("name"), errors);
    let count = device.entries("attributes").count() + device.entries("capacity").count();
    if count > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        errors.invalid(path, count, &detail);
    }
    let attributes = path.child("attributes");
    for (name, attribute) in device.entries("attributes") {
        validate_qualified(name, attributes, errors);
        validate_attribute(attribute, &attributes.key(name), errors);
    }
    let capacity = path.child("capacity");
    for (name, _) in device.entries("capacity") {
        validate_qualified(name, capacity, errors);
    }
    let taints = path.child("taints");
    let list = device.items("taints");
    if list.len() > MAX_TAINTS {
        errors.too_many(taints, list.len(), MAX_TAINTS);
    } else {
        for (index, taint) in list.iter().enumerate() {
            validate_taint(taint, &taints.index(index), errors);
        }
    }
    let list = path.child("consumesCounters");
    let set: fn(&Value) -> &str = |counters| counters.text("counterSet");
    let consumed = device.items("consumesCounters");
    each_once(consumed, MAX_CONSUMED_SETS, &list, errors, set, |counters, path, errors| {
        required(dns_label, counters.text("counterSet"), path.child("counterSet"), errors);
        validate_counters(counters, &path.child("counters"), errors);
    });
    if per_device {
        validate_device_place(device, path, errors);
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| device.has(name)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.invalid(path, BadValue::Json(Value::Null), detail);
    }
}

/// Where one device is, if the slice leaves it to its devices.
fn validate_device_place(device: &Value, path: &Path<'_>, errors: &mut Errors) {
    let set = places(device, &PLACES_OF_DEVICES, path, errors);
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match set.len() {
        0 => errors.required(path, detail),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", set.join(", ")), detail),
    }
}

fn validate_counters(holder: &Value, path: &Path<'_>, errors: &mut Errors) {
    let count = holder.entries("counters").count();
    if count == 0 {
        errors.required(path, "");
    } else if count > MAX_COUNTERS {
        errors.too_many(path, count, MAX_COUNTERS);
        return;
    }
    for (name, _) in holder.entries("counters") {
        must_be(dns_label, name, *path, errors);
    }
}

/// `resource.DeviceAttribute`
const ATTRIBUTE: Form = Form::Message("io.k8s.api.resource.v1.DeviceAttribute");

fn validate_attribute(attribute: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut set = HashSet::new();
    for name in ["bool", "int", "string", "version"] {
        if attribute.has(name) {
            set.insert(name);
        }
    }
    for name in ["string", "version"] {
        let text = attribute.text(name);
        if text.len() > MAX_ATTRIBUTE_BYTES {
            errors.too_long(path.child(name), MAX_ATTRIBUTE_BYTES);
        }
        if name == "version" && attribute.has(name) && !is_semantic_version(text) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(path.child(name), text, detail);
        }
    }
    match set.len() {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => {
            let value = internal(Shape::Struct(ATTRIBUTE), attribute);
            errors.invalid(path, value, "exactly one value must be specified");
        }
    }
}

/// `1.2.3`, `1.2.3-rc.1+build`
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(|part| word(part) && (!numeric(part) || number(part))))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn validate_taint(taint: &Value, path: &Path<'_>, errors: &mut Errors) {
    must_be(qualified_name, taint.text("key"), path.child("key"), errors);
    if !taint.text("value").is_empty() {
        must_be(label_value, taint.text("value"), path.child("value"), errors);
    }
    match taint.text("effect") {
        "" => errors.required(path.child("effect"), ""),
        effect => one_of(&["NoExecute", "NoSchedule", "None"], effect, path.child("effect"), errors),
    }
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Column, NAME, text};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Node", "/spec/nodeName", "The node whose devices these are."),
        text("Driver", "/spec/driver", "The driver of the devices."),
        text("Pool", "/spec/pool/name", "The pool the slice is a part of."),
        AGE,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_semver_2() {
        for (text, fits) in [
            ("1.2.3", true),
            ("1.2.3-rc.1+b.01", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("v1.2.3", false),
        ] {
            assert_eq!(is_semantic_version(text), fits, "{text}");
        }
    }
}
