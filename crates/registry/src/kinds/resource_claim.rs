//! ResourceClaim: devices a user asks for, and which ones were given.

use std::{collections::HashSet, net::IpAddr};

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_label, dns_subdomain, label_value, qualified_name},
};

use super::resource_slice::validate_pool_name;
use crate::{
    context::Context,
    internal_form::{Form, Shape, field, internal, same_form},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec_and_reset_metadata, keep_status, reset_status},
    strategy::{DeleteAnswer, MetadataCheck, Strategy, Subresource},
    validation::{
        conditions,
        device_config::{
            MAX_CONFIGS, MAX_PARAMETERS_BYTES, each, each_once, validate_configuration,
            validate_fully_qualified, validate_raw, validate_selectors,
        },
        form::{driver_name, must_be, not_empty, one_of, required, same},
        label_selector::ExpressionValues,
        node_selector,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default: |claim| default_spec(claim.object_mut("spec")),
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec_and_reset_metadata,
    validate: |claim, errors| validate_spec(claim.field("spec"), &Path::new("spec"), errors),
    validate_update,
    validate_status_update,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    validate_in_context: |claim, old, context, errors| match old {
        None => validate_admin_access(claim.field("spec"), &namespace_labels(context), errors),
        Some(old) if context.subresource == "status" => {
            let (new, old) = (claim.field("status"), old.field("status"));
            validate_admin_access_status(new, old, &namespace_labels(context), errors);
        }
        Some(_) => {}
    },
    ..Strategy::of("resource.k8s.io", "ResourceClaim")
};

/// Of the namespace that is written to.
pub fn namespace_labels(context: &Context<'_>) -> Value {
    let namespace = context.cluster.get("", "namespaces", "", context.namespace);
    namespace.map_or(Value::Null, |namespace| namespace.field("metadata").field("labels").clone())
}

pub const MAX_REQUESTS: usize = 32;
pub const MAX_SUBREQUESTS: usize = 8;
pub const MAX_CONSTRAINTS: usize = 32;
/// The most users of one claim.
pub const MAX_RESERVED_FOR: usize = 256;

pub const MAX_RESULTS: usize = 32;
/// What the claim says and what its classes say.
pub const MAX_ALLOCATED_CONFIGS: usize = 64;
pub const MAX_DEVICE_CONDITIONS: usize = 8;
pub const MAX_INTERFACE_NAME_BYTES: usize = 256;
pub const MAX_HARDWARE_ADDRESS_BYTES: usize = 128;
pub const MAX_ADDRESSES: usize = 16;

const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";
const UNKNOWN_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

pub fn default_spec(spec: &mut Value) {
    if !spec.has("devices") {
        return;
    }
    for request in spec.object_mut("devices").items_mut("requests") {
        if request.has("exactly") {
            default_request(request.object_mut("exactly"));
        }
        request.items_mut("firstAvailable").iter_mut().for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    request.default_field("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.int("count").unwrap_or_default() == 0 {
        request.set("count", 1);
    }
    for toleration in request.items_mut("tolerations") {
        toleration.default_field("operator", "Equal");
    }
}

const ADMIN_ACCESS_DETAIL: &str = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

/// Access for administrators is for claims in namespaces that allow it; the
/// labels are those of the namespace. Goes before the other checks of a claim
/// or template that is new.
pub fn validate_admin_access(spec: &Value, namespace_labels: &Value, errors: &mut Errors) {
    if namespace_labels.text(ADMIN_ACCESS_LABEL) == "true" {
        return;
    }
    let mut requests = spec.field("devices").items("requests").iter();
    // One is enough to refuse the claim.
    if let Some(index) = requests.position(|request| request.field("exactly").flag("adminAccess")) {
        // Templates give the same path, though their specs stand deeper.
        let path = Path::new("spec");
        let devices = path.child("devices");
        let list = devices.child("requests");
        errors.forbidden(list.index(index).child("adminAccess"), ADMIN_ACCESS_DETAIL);
    }
}

/// As [`validate_admin_access`], for what was allocated. Who had access keeps it.
pub fn validate_admin_access_status(
    status: &Value,
    old: &Value,
    namespace_labels: &Value,
    errors: &mut Errors,
) {
    let first = |status: &Value| {
        let mut results = status.field("allocation").field("devices").items("results").iter();
        results.position(|result| result.flag("adminAccess"))
    };
    if namespace_labels.text(ADMIN_ACCESS_LABEL) == "true" || first(old).is_some() {
        return;
    }
    if let Some(index) = first(status) {
        let path = Path::new("status");
        let allocation = path.child("allocation");
        let devices = allocation.child("devices");
        let list = devices.child("results");
        errors.forbidden(list.index(index).child("adminAccess"), ADMIN_ACCESS_DETAIL);
    }
}

/// The spec of a claim, in a template too.
pub fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let devices = spec.field("devices");
    let path = path.child("devices");
    let known = request_names(devices);
    let requests = devices.items("requests");
    let name: fn(&Value) -> &str = |request| request.text("name");
    each_once(requests, MAX_REQUESTS, &path.child("requests"), errors, name, validate_request);
    let list = path.child("constraints");
    each(devices.items("constraints"), MAX_CONSTRAINTS, &list, errors, |constraint, path, errors| {
        validate_constraint(constraint, &known, path, errors);
    });
    each(devices.items("config"), MAX_CONFIGS, &path.child("config"), errors, |config, path, errors| {
        validate_request_references(config, &known, path, errors);
        validate_configuration(config, path, errors);
    });
}

/// `request` and `request/subrequest`, as constraints name them.
fn request_names(devices: &Value) -> HashSet<String> {
    let mut names = HashSet::new();
    for request in devices.items("requests") {
        let name = request.text("name");
        names.insert(name.to_owned());
        for sub in request.items("firstAvailable") {
            names.insert(format!("{name}/{}", sub.text("name")));
        }
    }
    names
}

fn validate_request(request: &Value, path: &Path<'_>, errors: &mut Errors) {
    must_be(dns_label, request.text("name"), path.child("name"), errors);
    let subrequests = request.items("firstAvailable");
    if !subrequests.is_empty() {
        let list = path.child("firstAvailable");
        let name: fn(&Value) -> &str = |request| request.text("name");
        each_once(subrequests, MAX_SUBREQUESTS, &list, errors, name, |request, path, errors| {
            must_be(dns_label, request.text("name"), path.child("name"), errors);
            validate_exact(request, path, errors);
        });
    }
    if let Some(exactly) = request.get_field("exactly") {
        validate_exact(exactly, &path.child("exactly"), errors);
    }
    match (request.has("exactly"), !subrequests.is_empty()) {
        (false, false) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, BadValue::Json(Value::Null), detail);
        }
        _ => {}
    }
}

fn validate_exact(request: &Value, path: &Path<'_>, errors: &mut Errors) {
    required(dns_subdomain, request.text("deviceClassName"), path.child("deviceClassName"), errors);
    validate_selectors(request, path, errors);
    let count = request.int("count").unwrap_or_default();
    match request.text("allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.invalid(path.child("count"), count, detail);
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(path.child("count"), count, "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        other => one_of(&["All", "ExactCount"], other, path.child("allocationMode"), errors),
    }
    let list = path.child("tolerations");
    for (index, toleration) in request.items("tolerations").iter().enumerate() {
        validate_toleration(toleration, &list.index(index), errors);
    }
}

fn validate_toleration(toleration: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        must_be(qualified_name, key, path.child("key"), errors);
    }
    match toleration.text("operator") {
        "Exists" => {
            if !value.is_empty() {
                errors.invalid(path.child("value"), value, "must be empty for operator `Exists`");
            }
        }
        "Equal" => must_be(label_value, value, path.child("value"), errors),
        "" => errors.required(path.child("operator"), ""),
        other => one_of(&["Equal", "Exists"], other, path.child("operator"), errors),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() {
        one_of(&["NoExecute", "NoSchedule", "None"], effect, path.child("effect"), errors);
    }
}

fn validate_request_references(
    holder: &Value,
    known: &HashSet<String>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.child("requests");
    let text = |item: &'_ Value| -> String { item.as_str().unwrap_or_default().to_owned() };
    let requests = holder.items("requests");
    if requests.len() > MAX_REQUESTS {
        errors.too_many(list, requests.len(), MAX_REQUESTS);
        return;
    }
    let mut seen = HashSet::new();
    for (index, name) in requests.iter().map(text).enumerate() {
        if !known.contains(&name) {
            errors.invalid(list.index(index), name.as_str(), UNKNOWN_REQUEST);
        }
        if !seen.insert(name.clone()) {
            errors.duplicate(list.index(index), name);
        }
    }
}

fn validate_constraint(constraint: &Value, known: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    validate_request_references(constraint, known, path, errors);
    let mut given = false;
    for name in ["matchAttribute", "distinctAttribute"] {
        if let Some(attribute) = constraint.field(name).as_str() {
            given = true;
            validate_fully_qualified(attribute, path.child(name), errors);
        }
    }
    if !given {
        // The text says the opposite of what is wrong, as upstream's does.
        let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        errors.required(path, detail);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let shape = Shape::Struct(SPEC);
    if !same_form(shape, new.field("spec"), old.field("spec")) {
        errors.invalid("spec", internal(shape, new.field("spec")), "field is immutable");
    }
}

fn validate_status_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (status, stored) = (new.field("status"), old.field("status"));
    let path = Path::new("status");
    let known = request_names(new.field("spec").field("devices"));
    let reserved = path.child("reservedFor");
    let uid: fn(&Value) -> &str = |user| user.text("uid");
    each_once(status.items("reservedFor"), MAX_RESERVED_FOR, &reserved, errors, uid, |user, path, errors| {
        for name in ["resource", "name", "uid"] {
            not_empty(user.text(name), path.child(name), errors);
        }
    });
    if !status.items("reservedFor").is_empty() && !status.has("allocation") {
        errors.forbidden(reserved, "may not be specified when `allocated` is not set");
    }
    validate_device_statuses(status, &path, errors);
    if let Some(allocation) = status.get_field("allocation")
        && !stored.has("allocation")
    {
        validate_allocation(allocation, &known, &path.child("allocation"), errors);
    }
    if stored.has("allocation")
        && status.has("allocation")
        && !same(status.field("allocation"), stored.field("allocation"))
    {
        let value = internal(Shape::Ptr(ALLOCATION), status.field("allocation"));
        errors.invalid(path.child("allocation"), value, "field is immutable");
    }
}

/// What a scheduler gave to the claim.
fn validate_allocation(allocation: &Value, known: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let devices = allocation.field("devices");
    let at = path.child("devices");
    each(devices.items("results"), MAX_RESULTS, &at.child("results"), errors, |result, path, errors| {
        let request = result.text("request");
        for part in request.split('/') {
            must_be(dns_label, part, path.child("request"), errors);
        }
        if !known.contains(request) {
            errors.invalid(path.child("request"), request, UNKNOWN_REQUEST);
        }
        driver_name(result.text("driver"), path.child("driver"), errors);
        validate_pool_name(result.text("pool"), path.child("pool"), errors);
        must_be(dns_label, result.text("device"), path.child("device"), errors);
    });
    let list = at.child("config");
    each(devices.items("config"), MAX_ALLOCATED_CONFIGS, &list, errors, |config, path, errors| {
        match config.text("source") {
            "" => errors.required(path.child("source"), ""),
            source => one_of(&["FromClaim", "FromClass"], source, path.child("source"), errors),
        }
        validate_request_references(config, known, path, errors);
        validate_configuration(config, path, errors);
    });
    if let Some(selector) = allocation.get_field("nodeSelector") {
        let path = path.child("nodeSelector");
        node_selector::validate(selector, ExpressionValues::Checked, &path, errors);
    }
}

/// What a driver says about a device.
fn validate_device_status(device: &Value, path: &Path<'_>, errors: &mut Errors) {
    driver_name(device.text("driver"), path.child("driver"), errors);
    validate_pool_name(device.text("pool"), path.child("pool"), errors);
    must_be(dns_label, device.text("device"), path.child("device"), errors);
    let list = path.child("conditions");
    let conditions = device.items("conditions");
    if conditions.len() > MAX_DEVICE_CONDITIONS {
        errors.too_many(list, conditions.len(), MAX_DEVICE_CONDITIONS);
    }
    conditions::validate(conditions, &list, errors);
    if device.has("data") {
        validate_raw(device, "data", path, MAX_PARAMETERS_BYTES, errors);
    }
    let (network, path) = (device.field("networkData"), path.child("networkData"));
    for (name, most) in
        [("interfaceName", MAX_INTERFACE_NAME_BYTES), ("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES)]
    {
        if network.text(name).len() > most {
            errors.too_long(path.child(name), most);
        }
    }
    let addresses = network.items("ips");
    let key: fn(&Value) -> &str = |address| address.as_str().unwrap_or_default();
    each_once(addresses, MAX_ADDRESSES, &path.child("ips"), errors, key, |address, path, errors| {
        let text = address.as_str().unwrap_or_default();
        if let Some(problem) = interface_address_problem(text) {
            errors.invalid(path, text, &problem);
        }
    });
}

/// An address with the length of its network's prefix.
fn interface_address_problem(text: &str) -> Option<String> {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = digits.then(|| length.parse::<u8>().ok()).flatten()?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then(|| format!("{address}/{length}"))
    });
    match parsed {
        None => Some("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_owned()),
        Some(canonical) if canonical != text => Some(format!("must be in canonical form (\"{canonical}\")")),
        Some(_) => None,
    }
}

/// Status is given only for devices the claim has.
fn validate_device_statuses(status: &Value, path: &Path<'_>, errors: &mut Errors) {
    let id =
        |device: &Value| ["driver", "pool", "device", "shareID"].map(|name| device.text(name).to_owned());
    let results = status.field("allocation").field("devices").items("results");
    let allocated: HashSet<[String; 4]> = results.iter().map(id).collect();
    let list = path.child("devices");
    let mut seen = HashSet::new();
    let mut repeated = Errors::default();
    for (index, device) in status.items("devices").iter().enumerate() {
        let path = list.index(index);
        validate_device_status(device, &path, errors);
        let value = || internal(Shape::Struct(DEVICE_ID), device);
        if !allocated.contains(&id(device)) {
            errors.invalid(path, value(), "must be an allocated device in the claim");
        }
        if !seen.insert(id(device)) {
            repeated.duplicate(path, value());
        }
    }
    errors.extend(repeated);
}

const DEVICE_ID: Form = Form::Written(&[
    field("Driver", "driver", Shape::Text),
    field("Pool", "pool", Shape::Text),
    field("Device", "device", Shape::Text),
    field("ShareID", "shareID", Shape::Text),
]);

/// `resource.ResourceClaimSpec`
pub const SPEC: Form = Form::Message("io.k8s.api.resource.v1.ResourceClaimSpec");

/// `resource.AllocationResult`
const ALLOCATION: Form = Form::Message("io.k8s.api.resource.v1.AllocationResult");

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed},
    };

    pub(super) const COLUMNS: &[Column] =
        &[NAME, computed("State", state, "Whether devices are allocated and reserved."), AGE];

    fn state(claim: &Value) -> Value {
        let status = claim.field("status");
        let deleted = claim.field("metadata").has("deletionTimestamp");
        let allocated = status.has("allocation");
        let states = [
            ("deleted", deleted),
            ("allocated", allocated),
            ("reserved", allocated && !status.items("reservedFor").is_empty()),
            ("pending", !allocated && !deleted),
        ];
        states
            .iter()
            .filter(|(_, holds)| *holds)
            .map(|&(state, _)| state)
            .collect::<Vec<_>>()
            .join(",")
            .into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn admin_access_needs_a_label_on_the_namespace() {
        let request = json!({"name": "b", "exactly": {"adminAccess": true}});
        let spec = json!({"devices": {"requests": [{"name": "a", "exactly": {}}, request, request]}});
        for (labels, refused) in [
            (json!({}), 1),
            (json!({ADMIN_ACCESS_LABEL: "false"}), 1),
            (json!({ADMIN_ACCESS_LABEL: "true"}), 0),
        ] {
            let mut errors = Errors::default();
            validate_admin_access(&spec, &labels, &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, vec!["spec.devices.requests[1].adminAccess"; refused], "{labels}");
        }
    }
}
