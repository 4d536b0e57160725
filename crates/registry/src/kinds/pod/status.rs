//! The `status` subresource of a pod.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{dns_subdomain, ip_legacy, parse_ip, qualified_name, user_id},
    status::CauseReason,
};

use crate::{
    object::{Fields, FieldsMut},
    status_subresource,
    validation::{
        form::{must_be, named, one_of},
        pod_annotations,
    },
};

/// `podIP` and `podIPs` say the same in two ways; where they differ `podIP` counts.
pub fn default(pod: &mut Value) {
    let Some(status) = pod.get_mut("status") else { return };
    let first = status.items("podIPs").first().map_or("", |ip| ip.text("ip")).to_owned();
    let ip = status.text("podIP").to_owned();
    if ip.is_empty() && !first.is_empty() {
        status.set("podIP", first);
    } else if !ip.is_empty() && ip != first {
        status.set("podIPs", json!([{"ip": ip}]));
    }
}

/// Only the status changes, with labels, annotations and finalizers. What old kubelets send of the rest
/// is not looked at.
pub fn prepare(pod: &mut Value, old: &Value) {
    status_subresource::keep_spec(pod, old);
    for name in ["deletionTimestamp", "ownerReferences"] {
        status_subresource::keep(pod.object_mut("metadata"), old.field("metadata"), name);
    }
    let before = old.field("status");
    let status = pod.object_mut("status");
    if let Some(class) = before.get_field("qosClass") {
        status.default_field("qosClass", class.clone());
    }
    if status.int("observedGeneration").unwrap_or_default() == 0
        && let Some(generation) = before.get_field("observedGeneration")
    {
        status.set("observedGeneration", generation.clone());
    }
}

pub fn validate(pod: &Value, old: &Value, errors: &mut Errors) {
    let metadata = Path::new("metadata");
    pod_annotations::validate_update(pod, old, &metadata.child("annotations"), errors);
    let (spec, status, before) = (pod.field("spec"), pod.field("status"), old.field("status"));
    let path = Path::new("status");
    validate_conditions(status, &path.child("conditions"), errors);
    validate_nominated_node(spec, status, before, &path.child("nominatedNodeName"), errors);
    validate_generation(status, &path, errors);
    if status.text("qosClass") != before.text("qosClass") {
        let class = named(status.text("qosClass"));
        errors.invalid(path.child("qosClass"), class, "field is immutable");
    }
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        let containers = containers.map(|containers| spec.items(containers));
        validate_transitions(status, before, list, containers, spec, &path.child(list), errors);
    }
    validate_resource_claims(spec, status, &path.child("resourceClaimStatuses"), errors);
    if let Some(claim) = status.get_field("extendedResourceClaimStatus")
        && claim.items("requestMappings").is_empty()
    {
        let path = path.child("extendedResourceClaimStatus");
        errors.required(path.child("requestMappings"), "at least one request mapping is required");
    }
    validate_ips(status, before, "podIPs", &path, errors);
    let first = status.items("hostIPs").first().map(|ip| ip.text("ip"));
    if let Some(first) = first.filter(|first| *first != status.text("hostIP")) {
        let list = path.child("hostIPs");
        errors.invalid(list.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    validate_ips(status, before, "hostIPs", &path, errors);
    validate_users(spec, status, &path, errors);
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        validate_allocated(spec.items(containers), status, list, &path, errors);
    }
    let ephemeral = path.child("ephemeralContainerStatuses");
    for (index, container) in status.items("ephemeralContainerStatuses").iter().enumerate() {
        if !container.items("allocatedResourcesStatus").is_empty() {
            let path = ephemeral.index(index);
            let problem = "must not be specified in container status";
            errors.forbidden(path.child("allocatedResourcesStatus"), problem);
        }
    }
}

fn validate_conditions(status: &Value, list: &Path<'_>, errors: &mut Errors) {
    for (index, condition) in status.items("conditions").iter().enumerate() {
        let path = list.index(index);
        validate_generation(condition, &path, errors);
        let kind = condition.text("type");
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            for problem in qualified_name(kind) {
                errors.invalid(path.child("Type"), kind, &problem);
            }
        }
    }
}

fn validate_generation(holder: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(generation) = holder.int("observedGeneration").filter(|generation| *generation < 0) {
        errors.invalid(path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
}

fn validate_nominated_node(
    spec: &Value,
    status: &Value,
    before: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let node = status.text("nominatedNodeName");
    if node.is_empty() || node == before.text("nominatedNodeName") {
        return;
    }
    must_be(dns_subdomain, node, *path, errors);
    if !spec.text("nodeName").is_empty() {
        errors.forbidden(path, "may not be set on pods that are already bound to a node");
    }
}

/// A container that ended and may not be started again stays ended. Ephemeral
/// containers, for which `containers` is `None`, are never started again.
fn validate_transitions(
    status: &Value,
    before: &Value,
    list: &str,
    containers: Option<&[Value]>,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut running: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, new) in status.items(list).iter().enumerate() {
        if !new.field("state").has("terminated") {
            running.entry(new.text("name")).or_default().push(index);
        }
    }
    let mut by_name: HashMap<&str, &Value> = HashMap::new();
    for container in containers.unwrap_or_default() {
        by_name.entry(container.text("name")).or_insert(container);
    }
    let all_may_restart = all_may_restart(spec);
    for old in before.items(list) {
        let name = old.text("name");
        let Some(ended) = old.field("state").get_field("terminated") else { continue };
        let container = by_name.get(name).copied();
        let code = ended.int("exitCode").unwrap_or_default();
        let may_restart = || all_may_restart || may_restart(container.unwrap_or(&Value::Null), spec, code);
        if errors.is_full() || (containers.is_some() && may_restart()) {
            continue;
        }
        for index in running.get(name).into_iter().flatten() {
            let problem = "may not be transitioned to non-terminated state";
            errors.forbidden(path.index(*index).child("state"), problem);
        }
    }
}

/// One container may have all of them started again, whatever their own policies say.
fn all_may_restart(spec: &Value) -> bool {
    let mut actions = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec.items(list))
        .flat_map(|container| container.items("restartPolicyRules"))
        .map(|rule| rule.text("action"));
    actions.any(|action| action == "RestartAllContainers")
}

fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let rule = container.items("restartPolicyRules").iter().find(|rule| {
        let codes = rule.field("exitCodes");
        let listed = codes.items("values").iter().any(|value| value.as_i64() == Some(code));
        listed == (codes.text("operator") == "In")
    });
    let policy = match container.text("restartPolicy") {
        "" => spec.text("restartPolicy"),
        policy => policy,
    };
    rule.is_some() || policy == "Always" || (policy == "OnFailure" && code != 0)
}

fn validate_resource_claims(spec: &Value, status: &Value, list: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    let known: BTreeSet<&str> = spec.items("resourceClaims").iter().map(|known| known.text("name")).collect();
    for (index, claim) in status.items("resourceClaimStatuses").iter().enumerate() {
        let path = list.index(index);
        let name = claim.text("name");
        if !known.contains(name) {
            let problem = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(path.child("name"), name, problem);
        }
        if !seen.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        if let Some(name) = claim.field("resourceClaimName").as_str() {
            must_be(dns_subdomain, name, path.child("resourceClaimName"), errors);
        }
    }
}

/// At most one address of each family.
fn validate_ips(status: &Value, before: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child(name);
    let ips: Vec<&str> = status.items(name).iter().map(|ip| ip.text("ip")).collect();
    let known: BTreeSet<&str> = before.items(name).iter().map(|known| known.text("ip")).collect();
    for (index, ip) in ips.iter().enumerate() {
        if known.contains(ip) {
            continue;
        }
        must_be(ip_legacy, ip, list.index(index), errors);
    }
    if ips.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> =
        ips.iter().map(|ip| parse_ip(ip).map(|parsed| parsed.address)).collect();
    let bad = parsed.iter().position(Option::is_none);
    if let Some((index, ip)) = bad.and_then(|index| Some((index, ips.get(index)?))) {
        let problem = format!("failed to check for dual stack with error:invalid IP[{index}]: {ip}");
        errors.push(CauseReason::InternalError, list, "Internal error", None, &problem);
    }
    let v6 = parsed.iter().flatten().filter(|ip| ip.is_ipv6()).count();
    let v4 = parsed.iter().flatten().filter(|ip| ip.is_ipv4()).count();
    if bad.is_some() || ips.len() > 2 || v4 == 0 || v6 == 0 {
        let shown: Vec<String> = ips.iter().map(|ip| format!("{{\"IP\":{}}}", Value::from(*ip))).collect();
        let problem = "may specify no more than one IP for each IP family";
        errors.invalid(list, BadValue::Plain(format!("[{}]", shown.join(","))), problem);
    }
}

fn validate_users(spec: &Value, status: &Value, path: &Path<'_>, errors: &mut Errors) {
    let windows = spec.field("os").text("name") == "windows";
    for name in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let list = path.child(name);
        for (index, container) in status.items(name).iter().enumerate() {
            let Some(user) = container.field("user").get_field("linux") else { continue };
            let container = list.index(index);
            let user_path = container.child("user");
            let path = user_path.child("linux");
            if windows {
                errors.forbidden(path, "cannot be set for a windows pod");
                continue;
            }
            for name in ["uid", "gid"] {
                let id = user.int(name).unwrap_or_default();
                for problem in user_id(id) {
                    errors.invalid(path.child(name), id, &problem);
                }
            }
            for (index, group) in user.items("supplementalGroups").iter().enumerate() {
                let group = group.as_i64().unwrap_or_default();
                for problem in user_id(group) {
                    errors.invalid(path.child("supplementalGroups").index(index), group, &problem);
                }
            }
        }
    }
}

/// Health of the devices a container has.
fn validate_allocated(
    containers: &[Value],
    status: &Value,
    name: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.child(name);
    let mut by_name: HashMap<&str, &Value> = HashMap::new();
    for container in containers {
        by_name.entry(container.text("name")).or_insert(container);
    }
    for (index, container) in status.items(name).iter().enumerate() {
        let container_path = list.index(index);
        let allocated = container_path.child("allocatedResourcesStatus");
        let known = by_name.get(container.text("name"));
        let resources = known.map_or(&Value::Null, |known| known.field("resources"));
        let claims: BTreeSet<String> = resources.items("claims").iter().map(claim_name).collect();
        let mut names = BTreeSet::new();
        for (index, entry) in container.items("allocatedResourcesStatus").iter().enumerate() {
            let path = allocated.index(index);
            let name = entry.text("name");
            if let Some(claim) = name.strip_prefix("claim:") {
                if !claims.contains(claim) {
                    let problem = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
                    errors.invalid(path.child("name"), named(name), problem);
                }
            } else if !resources.field("requests").has(name) {
                let problem = "must match one of the container's resource requests";
                errors.invalid(path.child("name"), named(name), problem);
            } else if !names.insert(name) {
                errors.duplicate(path.child("name"), named(name));
            }
            let mut ids = BTreeSet::new();
            for (index, resource) in entry.items("resources").iter().enumerate() {
                let list = path.child("resources");
                let path = list.index(index);
                let known = &["Healthy", "Unhealthy", "Unknown"];
                one_of(known, resource.text("health"), path.child("health"), errors);
                let id = resource.text("resourceID");
                if !ids.insert(id) {
                    errors.duplicate(path.child("resourceID"), named(id));
                }
            }
        }
    }
}

fn claim_name(claim: &Value) -> String {
    match claim.text("request") {
        "" => claim.text("name").to_owned(),
        request => format!("{}/{request}", claim.text("name")),
    }
}
