//! `Service`
//!
//! Addresses and ports come from [`allocation`],
//! which runs between the preparation and the validation of a write.

pub mod allocation;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format::{Problems, cidr_legacy, dns_label, dns_subdomain, ip_legacy, port_name, qualified_name},
};

use super::{
    endpoints::{validate_port_number, validate_protocol},
    ingress::validate_load_balancer_hostname,
};
use crate::{
    field_selectors::{NAME as NAME_FIELD, NAMESPACE, SelectableFields},
    internal_form::{Form, Shape, internal},
    node_connection,
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status},
    strategy::{Action, DeleteAnswer, Proxy, Strategy, Subresource},
    validation::{
        form::{must_be, named, one_of, pointer, same, texts},
        ip_ranges::{Family, cidr_warning, family_of_ip, ip_warning, validate_non_special},
        labels::validate_labels,
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: keep_spec,
    validate: |service, errors| validate(service, None, errors),
    validate_update: |service, old, errors| {
        validate_change(service, old, errors);
        validate(service, Some(old), errors);
    },
    validate_status_update,
    warnings,
    create_on_update: true,
    delete_answer: DeleteAnswer::Object,
    name: NAME,
    reset_fields: &[".status"],
    subresources: &[
        Subresource::other("proxy", Action::Proxy(Proxy::Other(node_connection::way_to_service))),
        Subresource::STATUS,
    ],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME_FIELD, NAMESPACE, ("spec.clusterIP", "spec.clusterIP"), ("spec.type", "spec.type")],
        ..SelectableFields::DEFAULT
    }),
    columns: columns::COLUMNS,
    allocation: Some(allocation::ALLOCATION),
    storage_prefix: Some("services/specs"),
    ..Strategy::of("", "Service")
};

/// The rule for names of services: they may begin with a digit.
pub const NAME: fn(&str) -> Problems = dns_label;

/// The `clusterIP` of a service that has no address and wants none.
pub const HEADLESS: &str = "None";

/// Seconds a client stays with its endpoint.
pub const DEFAULT_AFFINITY_SECONDS: i64 = 10_800;
pub const MAX_AFFINITY_SECONDS: i64 = 86_400;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const MAY_NOT_CHANGE: &str = "may not change once set";

const PORT: Form = Form::Message("io.k8s.api.core.v1.ServicePort");

fn default(service: &mut Value) {
    let spec = service.object_mut("spec");
    spec.default_field("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.field("sessionAffinityConfig").field("clientIP");
            if !config.has("timeoutSeconds") {
                let config = json!({"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}});
                spec.set("sessionAffinityConfig", config);
            }
        }
        _ => {}
    }
    spec.default_field("type", "ClusterIP");
    for port in spec.items_mut("ports") {
        port.default_field("protocol", "TCP");
        let target = port.field("targetPort");
        if target.is_null() || target.as_i64() == Some(0) || target.as_str() == Some("") {
            let number = port.int("port").unwrap_or_default();
            port.set("targetPort", number);
        }
    }
    if is_externally_accessible(spec) {
        spec.default_field("externalTrafficPolicy", "Cluster");
    }
    let known = matches!(spec.text("type"), "ClusterIP" | "LoadBalancer" | "NodePort");
    if known && !spec.has("internalTrafficPolicy") {
        spec.set("internalTrafficPolicy", "Cluster");
    }
    if spec.text("type") != "LoadBalancer" {
        return;
    }
    if !spec.has("allocateLoadBalancerNodePorts") {
        spec.set("allocateLoadBalancerNodePorts", true);
    }
    if service.field("status").has("loadBalancer") {
        let balancer = service.object_mut("status").object_mut("loadBalancer");
        for ingress in balancer.items_mut("ingress") {
            if !ingress.text("ip").is_empty() && !ingress.has("ipMode") {
                ingress.set("ipMode", "VIP");
            }
        }
    }
}

fn prepare_create(service: &mut Value) {
    service.set("status", json!({}));
    let spec = service.object_mut("spec");
    fill_cluster_ips(spec);
    drop_internal_traffic_policy(spec);
}

fn prepare_update(service: &mut Value, old: &Value) {
    keep_status(service, old);
    let old = old.field("spec");
    let spec = service.object_mut("spec");
    keep_allocated(spec, old);
    drop_what_the_type_lost(spec, old);
    drop_internal_traffic_policy(spec);
    if spec.text("type") != "LoadBalancer" && service.field("status").has("loadBalancer") {
        service.object_mut("status").set("loadBalancer", json!({}));
    }
}

/// The plural field follows the singular one.
fn fill_cluster_ips(spec: &mut Value) {
    let single = spec.text("clusterIP").to_owned();
    if !single.is_empty() && spec.items("clusterIPs").is_empty() {
        spec.set("clusterIPs", vec![Value::String(single)]);
    }
}

/// A write that leaves out what the server once chose does not lose it.
fn keep_allocated(spec: &mut Value, old: &Value) {
    if has_cluster_ip(spec) && has_cluster_ip(old) {
        if spec.text("clusterIP").is_empty() {
            copy(spec, old, "clusterIP");
        }
        if spec.items("clusterIPs").is_empty() && spec.text("clusterIP") == old.text("clusterIP") {
            copy(spec, old, "clusterIPs");
        }
        if spec.text("clusterIP") != old.text("clusterIP")
            && same(spec.field("clusterIPs"), old.field("clusterIPs"))
        {
            // Only the singular field was changed, by a client that does not know the other.
            spec.remove("clusterIPs");
        }
    }
    if has_cluster_ip(spec) {
        fill_cluster_ips(spec);
    }
    if allocates_node_ports(spec) && has_node_ports(old) {
        let mut used: BTreeSet<i64> = node_ports(spec).collect();
        for port in spec.items_mut("ports") {
            let same_port = |stored: &&Value| {
                stored.text("protocol") == port.text("protocol") && stored.int("port") == port.int("port")
            };
            let stored = old.items("ports").iter().find(same_port).and_then(|port| port.int("nodePort"));
            if let Some(stored) = stored
                && port.int("nodePort").unwrap_or_default() == 0
                && used.insert(stored)
            {
                port.set("nodePort", stored);
            }
        }
    }
    if has_health_check(spec)
        && has_health_check(old)
        && spec.int("healthCheckNodePort").unwrap_or_default() == 0
    {
        copy(spec, old, "healthCheckNodePort");
    }
}

/// A write that changes the type need not also remove what the old type had;
/// what was changed on the way is kept and refused.
fn drop_what_the_type_lost(spec: &mut Value, old: &Value) {
    if has_cluster_ip(old) && !has_cluster_ip(spec) {
        if same(spec.field("clusterIPs"), old.field("clusterIPs")) {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            drop_unchanged(spec, old, name);
        }
    }
    if has_node_ports(old) && !has_node_ports(spec) {
        let stored: BTreeSet<i64> = node_ports(old).collect();
        if node_ports(spec).all(|port| stored.contains(&port)) {
            for port in spec.items_mut("ports") {
                port.remove("nodePort");
            }
        }
    }
    if has_health_check(old) && !has_health_check(spec) {
        drop_unchanged(spec, old, "healthCheckNodePort");
    }
    if old.text("type") == "LoadBalancer" && spec.text("type") != "LoadBalancer" {
        drop_unchanged(spec, old, "allocateLoadBalancerNodePorts");
        drop_unchanged(spec, old, "loadBalancerClass");
    }
    if is_externally_accessible(old) && !is_externally_accessible(spec) {
        drop_unchanged(spec, old, "externalTrafficPolicy");
    }
}

fn drop_internal_traffic_policy(spec: &mut Value) {
    if spec.text("type") == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
}

fn copy(spec: &mut Value, old: &Value, name: &str) {
    if let Some(value) = old.get_field(name) {
        spec.set(name, value.clone());
    }
}

fn drop_unchanged(spec: &mut Value, old: &Value, name: &str) {
    if spec.field(name) == old.field(name) {
        spec.remove(name);
    }
}

pub(super) fn has_cluster_ip(spec: &Value) -> bool {
    spec.text("type") != "ExternalName"
}

/// Also of a load balancer that is told not to allocate them: it may still name some.
pub(super) fn has_node_ports(spec: &Value) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

pub(super) fn allocates_node_ports(spec: &Value) -> bool {
    spec.text("type") == "NodePort"
        || spec.text("type") == "LoadBalancer" && spec.flag("allocateLoadBalancerNodePorts")
}

pub(super) fn has_health_check(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

pub(super) fn is_headless(spec: &Value) -> bool {
    texts(spec, "clusterIPs").next() == Some(HEADLESS)
}

/// Those that are set.
pub(super) fn node_ports(spec: &Value) -> impl Iterator<Item = i64> {
    spec.items("ports").iter().filter_map(|port| port.int("nodePort")).filter(|port| *port != 0)
}

fn is_externally_accessible(spec: &Value) -> bool {
    match spec.text("type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

fn validate(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = service.field("spec");
    let path = Path::new("spec");
    validate_topology_annotations(service, errors);
    if spec.items("ports").is_empty() && !is_headless(spec) && has_cluster_ip(spec) {
        errors.required(path.child("ports"), "");
    }
    validate_type_and_addresses(spec, errors);
    validate_ports(spec, errors);
    validate_labels(spec, "selector", &path.child("selector"), errors);
    validate_affinity(spec, errors);
    validate_addresses(spec, old.map(|old| old.field("spec")), errors);
    validate_external_ips(spec, old.map(|old| old.field("spec")), errors);
    let service_type = spec.text("type");
    if service_type.is_empty() {
        errors.required(path.child("type"), "");
    } else {
        one_of(&TYPES, service_type, path.child("type"), errors);
    }
    validate_node_ports(spec, errors);
    validate_repeated_ports(spec, errors);
    validate_source_ranges(service, errors);
    let allocate = path.child("allocateLoadBalancerNodePorts");
    match (service_type == "LoadBalancer", spec.has("allocateLoadBalancerNodePorts")) {
        (false, true) => errors.forbidden(allocate, ONLY_LOAD_BALANCER),
        (true, false) => errors.required("allocateLoadBalancerNodePorts", ""),
        _ => {}
    }
    validate_load_balancer_class(spec, None, errors);
    validate_traffic(spec, errors);
}

fn validate_topology_annotations(service: &Value, errors: &mut Errors) {
    let annotations = service.field("metadata").field("annotations");
    let text = |name| annotations.get_field(name).and_then(Value::as_str);
    if let (Some(mode), Some(hints)) = (text(TOPOLOGY_MODE), text(TOPOLOGY_HINTS))
        && mode != hints
    {
        let metadata = Path::new("metadata");
        let problem = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(metadata.child("annotations").key(TOPOLOGY_MODE), mode, &problem);
    }
}

fn validate_type_and_addresses(spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    match spec.text("type") {
        service_type @ ("LoadBalancer" | "NodePort") if is_headless(spec) => {
            let problem = format!("may not be set to 'None' for {service_type} services");
            errors.invalid(path.child("clusterIPs").index(0), HEADLESS, &problem);
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let set = match spec.field(name) {
                    Value::Array(items) => !items.is_empty(),
                    other => !other.is_null(),
                };
                if set {
                    errors.forbidden(path.child(name), "may not be set for ExternalName services");
                }
            }
            let name = spec.text("externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.required(path.child("externalName"), "");
            } else {
                must_be(dns_subdomain, name, path.child("externalName"), errors);
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Value, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let list = spec_path.child("ports");
    let several = spec.items("ports").len() > 1;
    let mut names = BTreeSet::new();
    for (index, port) in spec.items("ports").iter().enumerate() {
        let path = list.index(index);
        let name = port.text("name");
        if several && name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !name.is_empty() {
            must_be(dns_label, name, path.child("name"), errors);
            if !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
        }
        validate_port_number(port.int("port"), path.child("port"), errors);
        validate_protocol(port.text("protocol"), path.child("protocol"), errors);
        match port.field("targetPort") {
            Value::String(name) => must_be(port_name, name, path.child("targetPort"), errors),
            number => validate_port_number(number.as_i64(), path.child("targetPort"), errors),
        }
        if let Some(protocol) = port.get_field("appProtocol").and_then(Value::as_str) {
            must_be(qualified_name, protocol, path.child("appProtocol"), errors);
        }
    }
}

fn validate_affinity(spec: &Value, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let path = spec_path.child("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "" => errors.required(spec_path.child("sessionAffinity"), ""),
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let client = path.child("clientIP");
            let config = spec.field("sessionAffinityConfig");
            let seconds = config.field("clientIP").int("timeoutSeconds");
            match seconds {
                _ if !config.is_object() => errors.required(path, detail),
                _ if !config.has("clientIP") => errors.required(client, detail),
                None => errors.required(client.child("timeoutSeconds"), detail),
                Some(1..=MAX_AFFINITY_SECONDS) => {}
                Some(seconds) => {
                    let problem = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                    errors.invalid(client.child("timeoutSeconds"), seconds, &problem);
                }
            }
        }
        "None" => {
            if spec.has("sessionAffinityConfig") {
                errors.forbidden(path, "must not be set when session affinity is None");
            }
        }
        other => {
            errors.not_supported(spec_path.child("sessionAffinity"), named(other), &["ClientIP", "None"]);
        }
    }
}

/// Whether cluster addresses and families fit each other. The allocator asks
/// this first, and answers with these errors alone.
pub(super) fn validate_addresses(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    if !has_cluster_ip(spec) {
        return;
    }
    let path = Path::new("spec");
    let list = path.child("clusterIPs");
    let first = texts(spec, "clusterIPs").next();
    let bad_list = BadValue::Json(spec.field("clusterIPs").clone());
    match (spec.text("clusterIP"), first) {
        ("", None) => {}
        (_, None) => errors.required(list, ""),
        ("", Some(_)) => {
            errors.invalid(list, bad_list.clone(), "must be empty when `clusterIP` is not specified");
        }
        (single, Some(first)) if single != first => {
            errors.invalid(list, bad_list.clone(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(spec, errors);
    let count = spec.items("clusterIPs").len();
    if first == Some(HEADLESS) {
        if count > 1 {
            errors.invalid(list, bad_list, "'None' must be the first and only value");
        }
        return;
    }
    let before = errors.len();
    let stored: BTreeSet<&str> = old.into_iter().flat_map(|old| texts(old, "clusterIPs")).collect();
    for (index, ip) in texts(spec, "clusterIPs").enumerate() {
        if !stored.contains(ip) {
            must_be(ip_legacy, ip, list.index(index), errors);
        }
    }
    if errors.len() > before {
        return;
    }
    if count > FAMILIES.len() {
        errors.invalid(list, bad_list, "may only hold up to 2 values");
    } else if count == FAMILIES.len() {
        let families: BTreeSet<_> = texts(spec, "clusterIPs").map(family_of_ip).collect();
        if families.len() < count {
            errors.invalid(list, bad_list, "may specify no more than one IP for each IP family");
        }
    }
    for (index, (ip, family)) in texts(spec, "clusterIPs").zip(texts(spec, "ipFamilies")).enumerate() {
        let found = family_of_ip(ip).map(Family::name);
        if FAMILIES.contains(&family) && found != Some(family) {
            let problem = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(list.index(index), ip, &problem);
        }
    }
}

fn validate_families(spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let list = path.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        one_of(&FAMILIES, family, list.index(index), errors);
        if !seen.insert(family) {
            errors.duplicate(list.index(index), named(family));
        }
    }
    if let Some(policy) = spec.get_field("ipFamilyPolicy").and_then(Value::as_str) {
        one_of(&FAMILY_POLICIES, policy, path.child("ipFamilyPolicy"), errors);
    }
}

fn validate_external_ips(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let list = spec_path.child("externalIPs");
    let stored: BTreeSet<&str> = old.into_iter().flat_map(|old| texts(old, "externalIPs")).collect();
    for (index, ip) in texts(spec, "externalIPs").enumerate() {
        let path = list.index(index);
        let problems = if stored.contains(ip) { Problems::new() } else { ip_legacy(ip) };
        for problem in &problems {
            errors.invalid(path, ip, problem);
        }
        if problems.is_empty() {
            validate_non_special(ip, path, errors);
        }
    }
}

fn validate_node_ports(spec: &Value, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let list = spec_path.child("ports");
    let mut seen = BTreeSet::new();
    for (index, port) in spec.items("ports").iter().enumerate() {
        let Some(number) = port.int("nodePort").filter(|number| *number != 0) else { continue };
        if spec.text("type") == "ClusterIP" {
            let problem = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(list.index(index).child("nodePort"), problem);
        }
        if !seen.insert((port.text("protocol"), number)) {
            errors.duplicate(list.index(index).child("nodePort"), number);
        }
    }
}

fn validate_repeated_ports(spec: &Value, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let list = spec_path.child("ports");
    let mut seen = BTreeSet::new();
    for (index, port) in spec.items("ports").iter().enumerate() {
        let (protocol, number) = (port.text("protocol"), port.int("port").unwrap_or_default());
        if !seen.insert((protocol, number)) {
            let value = json!({"protocol": protocol, "port": number});
            errors.duplicate(list.index(index), internal(Shape::Struct(PORT), &value));
        }
    }
}

/// The field, or the annotation it came from.
fn validate_source_ranges(service: &Value, errors: &mut Errors) {
    let spec = service.field("spec");
    let spec_path = Path::new("spec");
    let balances = spec.text("type") == "LoadBalancer";
    if !spec.items("loadBalancerSourceRanges").is_empty() {
        // Upstream spells the field of its Go struct.
        let list = spec_path.child("LoadBalancerSourceRanges");
        if !balances {
            errors.forbidden(list, ONLY_LOAD_BALANCER);
        }
        for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
            must_be(cidr_legacy, range.trim(), list.index(index), errors);
        }
        return;
    }
    let annotations = service.field("metadata").field("annotations");
    let Some(ranges) = annotations.get_field(SOURCE_RANGES).and_then(Value::as_str) else { return };
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(SOURCE_RANGES);
    if !balances {
        errors.forbidden(path, ONLY_LOAD_BALANCER);
    }
    if !ranges.trim().is_empty() {
        for range in ranges.split(',') {
            must_be(cidr_legacy, range.trim(), path, errors);
        }
    }
}

fn validate_load_balancer_class(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let path = spec_path.child("loadBalancerClass");
    if spec.text("type") != "LoadBalancer" {
        if spec.has("loadBalancerClass") {
            errors.forbidden(path, ONLY_LOAD_BALANCER);
        }
        return;
    }
    let balanced = |old: &&Value| old.text("type") == "LoadBalancer";
    if let Some(old) = old.filter(balanced)
        && spec.field("loadBalancerClass") != old.field("loadBalancerClass")
    {
        errors.invalid(path, pointer(spec, "loadBalancerClass"), MAY_NOT_CHANGE);
    }
    if let Some(class) = spec.get_field("loadBalancerClass").and_then(Value::as_str) {
        must_be(qualified_name, class, path, errors);
    }
}

fn validate_traffic(spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let external = spec.text("externalTrafficPolicy");
    let at = path.child("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        if external.is_empty() {
            errors.required(at, "");
        } else {
            one_of(&TRAFFIC_POLICIES, external, at, errors);
        }
    } else if !external.is_empty() {
        errors.invalid(at, named(external), "may only be set for externally-accessible services");
    }
    let port = spec.int("healthCheckNodePort").unwrap_or_default();
    let at = path.child("healthCheckNodePort");
    if has_health_check(spec) {
        if port == 0 {
            errors.required(at, "");
        } else {
            validate_port_number(Some(port), at, errors);
        }
    } else if port != 0 {
        let problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(at, port, problem);
    }
    let at = path.child("internalTrafficPolicy");
    match spec.get_field("internalTrafficPolicy").and_then(Value::as_str) {
        Some(policy) => one_of(&TRAFFIC_POLICIES, policy, at, errors),
        None if matches!(spec.text("type"), "ClusterIP" | "LoadBalancer" | "NodePort") => {
            errors.required(at, "");
        }
        None => {}
    }
    if let Some(distribution) = spec.get_field("trafficDistribution").and_then(Value::as_str) {
        one_of(&DISTRIBUTIONS, distribution, path.child("trafficDistribution"), errors);
    }
}

/// What an update may not change.
fn validate_change(service: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old) = (service.field("spec"), old.field("spec"));
    if has_cluster_ip(spec) && has_cluster_ip(old) && !(is_headless(spec) && is_headless(old)) {
        let plural =
            Plural { name: "clusterIPs", primary: "primary clusterIP", secondary: "secondary clusterIP" };
        validate_plural_change(spec, old, &plural, errors);
        let plural =
            Plural { name: "ipFamilies", primary: "primary ipFamily", secondary: "secondary ipFamily" };
        validate_plural_change(spec, old, &plural, errors);
    }
    validate_load_balancer_class(spec, Some(old), errors);
    if has_health_check(spec)
        && has_health_check(old)
        && spec.field("healthCheckNodePort") != old.field("healthCheckNodePort")
    {
        let path = Path::new("spec");
        errors.forbidden(path.child("healthCheckNodePort"), "field is immutable");
    }
}

/// A field with one entry for each family, and what messages call its entries.
struct Plural {
    name: &'static str,
    primary: &'static str,
    secondary: &'static str,
}

fn validate_plural_change(spec: &Value, old: &Value, plural: &Plural, errors: &mut Errors) {
    let path = Path::new("spec");
    let list = path.child(plural.name);
    let (now, before) = (spec.items(plural.name), old.items(plural.name));
    if !before.is_empty() && now.is_empty() {
        let problem = format!("{} can not be unset", plural.primary);
        errors.invalid(list.index(0), pointer(spec, plural.name), &problem);
        return;
    }
    for (index, _) in now.iter().zip(before).enumerate().filter(|(_, (now, before))| now != before) {
        errors.invalid(list.index(index), pointer(spec, plural.name), MAY_NOT_CHANGE);
    }
    let policy = spec.text("ipFamilyPolicy");
    if before.len() > 1 && now.len() == 1 && policy != "SingleStack" {
        let problem = format!("must be set to 'SingleStack' when releasing the {}", plural.secondary);
        errors.invalid(path.child("ipFamilyPolicy"), pointer(spec, "ipFamilyPolicy"), &problem);
    }
}

fn validate_status_update(service: &Value, old: &Value, errors: &mut Errors) {
    let ingresses = service.field("status").field("loadBalancer").items("ingress");
    let stored = old.field("status").field("loadBalancer").items("ingress");
    let stored: BTreeSet<&str> = stored.iter().map(|old| old.text("ip")).collect();
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let list = balancer.child("ingress");
    if service.field("spec").text("type") != "LoadBalancer" && !ingresses.is_empty() {
        errors.forbidden(list, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (index, ingress) in ingresses.iter().enumerate() {
        let path = list.index(index);
        let ip = ingress.text("ip");
        if !ip.is_empty() && !stored.contains(ip) {
            must_be(ip_legacy, ip, path.child("ip"), errors);
        }
        let at = path.child("ipMode");
        match (ip, ingress.get_field("ipMode").and_then(Value::as_str)) {
            ("", Some(_)) => errors.forbidden(at, "may not be specified when `ip` is not set"),
            ("", None) => {}
            (_, None) => errors.required(at, "must be specified when `ip` is set"),
            (_, Some(mode)) => one_of(&["Proxy", "VIP"], mode, at, errors),
        }
        validate_load_balancer_hostname(ingress.text("hostname"), path.child("hostname"), errors);
    }
}

fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = service.field("spec");
    let path = Path::new("spec");
    let mut warnings = Vec::new();
    if service.field("metadata").field("annotations").has(TOPOLOGY_HINTS) {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let with_ips = !spec.items("externalIPs").is_empty();
    let named = spec.text("type") == "ExternalName";
    if is_headless(spec) || spec.text("clusterIP") == HEADLESS {
        let ignored = [
            (!spec.text("loadBalancerIP").is_empty(), "loadBalancerIP"),
            (with_ips, "externalIPs"),
            (spec.text("sessionAffinity") != "None", "SessionAffinity"),
        ];
        for (_, name) in ignored.into_iter().filter(|(set, _)| *set) {
            warnings.push(format!("spec.{name} is ignored for headless services"));
        }
        warnings.extend(external_ip_warnings(spec));
    } else if named && with_ips {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    } else if with_ips {
        warnings.extend(external_ip_warnings(spec));
        warnings
            .push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".into());
    }
    warnings.extend(ip_warning(spec.text("loadBalancerIP"), path.child("loadBalancerIP")));
    let ranges = path.child("loadBalancerSourceRanges");
    for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        warnings.extend(cidr_warning(range.trim(), ranges.index(index)));
    }
    if !named && !spec.text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        warnings
            .push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".into());
    }
    warnings
}

fn external_ip_warnings(spec: &Value) -> Vec<String> {
    let path = Path::new("spec");
    let list = path.child("externalIPs");
    texts(spec, "externalIPs")
        .enumerate()
        .filter_map(|(index, ip)| ip_warning(ip, list.index(index)))
        .collect()
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Column, NAME, NONE, UNKNOWN, computed, text,
            text::{join, labels, load_balancer, or},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Type", "/spec/type", "How the service can be reached."),
        computed("Cluster-IP", cluster_ip, "The first address inside the cluster."),
        computed("External-IP", external_ip, "Addresses from outside the cluster."),
        computed("Port(s)", ports, "Ports, those on nodes, and protocols."),
        AGE,
        computed(
            "Selector",
            |service| labels(service.field("spec").field("selector")),
            "Labels of the pods that serve.",
        )
        .wide(),
    ];

    fn cluster_ip(service: &Value) -> Value {
        service.field("spec").items("clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE).into()
    }

    fn external_ip(service: &Value) -> Value {
        let spec = service.field("spec");
        let external = join(spec.items("externalIPs"));
        match spec.text("type") {
            "ClusterIP" | "NodePort" => or(external, NONE).into(),
            "LoadBalancer" => {
                let balanced = load_balancer(service);
                let both = [balanced, external].into_iter().filter(|addresses| !addresses.is_empty());
                or(both.collect::<Vec<_>>().join(","), "<pending>").into()
            }
            "ExternalName" => spec.text("externalName").into(),
            _ => UNKNOWN.into(),
        }
    }

    fn ports(service: &Value) -> Value {
        let ports = service.field("spec").items("ports").iter().map(|port| {
            let (number, protocol) = (port.int("port").unwrap_or(0), port.text("protocol"));
            match port.int("nodePort").filter(|&node_port| node_port > 0) {
                Some(node_port) => format!("{number}:{node_port}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        });
        or(ports.collect::<Vec<_>>().join(","), NONE).into()
    }
}
