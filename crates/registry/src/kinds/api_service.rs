//! APIService: a group and version, and who serves it.

use serde_json::{Value, json};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{Errors, Path},
    format::{Problems, dns_subdomain, dns1035_label, path_segment, port_number},
};

use crate::{
    object::{Fields, FieldsMut},
    status_subresource::{keep, keep_spec, keep_status, reset_status},
    strategy::{Strategy, Subresource},
    validation::{
        admission_rule::default_pointers,
        form::{must_be, named, not_empty},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: |new, old| {
        keep_spec(new, old);
        for name in ["annotations", "finalizers", "labels", "ownerReferences"] {
            keep(new.object_mut("metadata"), old.field("metadata"), name);
        }
    },
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status_update: |new, _, errors| validate_status(new, errors),
    unconditional_update: false,
    qualified_finalizers: false,
    // An API service of the core group is called `v1.`: `validate` says how.
    name: |_| Problems::new(),
    reset_fields: &[".status"],
    subresources: &[Subresource::status(&[".metadata", ".spec"])],
    columns: columns::COLUMNS,
    stamp_create: |service, context| available_when_local(service, &context.cluster.now()),
    stored_as_protobuf: false,
    storage_prefix: Some("apiregistration.k8s.io/apiservices"),
    ..Strategy::of("apiregistration.k8s.io", "APIService")
};

pub const MAX_GROUP_PRIORITY: i64 = 20_000;
pub const MAX_VERSION_PRIORITY: i64 = 1000;

const DEFAULT_PORT: i64 = 443;

/// What the condition `Available` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    pub reason: &'static str,
    pub message: String,
}

impl Availability {
    /// Of what this server serves itself.
    pub fn local() -> Self {
        Self { reason: "Local", message: "Local APIServices are always available".into() }
    }

    pub fn passed() -> Self {
        Self { reason: "Passed", message: "all checks passed".into() }
    }

    /// The server was asked and did not answer as it should.
    pub fn failed_check(message: String) -> Self {
        Self { reason: "FailedDiscoveryCheck", message }
    }

    fn status(&self) -> &'static str {
        if matches!(self.reason, "Local" | "Passed") { "True" } else { "False" }
    }

    pub fn is_available(&self) -> bool {
        self.status() == "True"
    }

    /// Whether an APIService says so already.
    pub fn is_said_by(&self, api_service: &Value) -> bool {
        self.is_meant_by(api_service)
            && condition(api_service).is_some_and(|condition| condition.text("message") == self.message)
    }

    /// Whether an APIService says so already, be it in other words.
    pub fn is_meant_by(&self, api_service: &Value) -> bool {
        condition(api_service).is_some_and(|condition| {
            condition.text("status") == self.status() && condition.text("reason") == self.reason
        })
    }

    /// Has an APIService say so. The time is that of the last change between yes and no.
    pub fn set(&self, api_service: &mut Value, now: &str) {
        let mut conditions = api_service.field("status").items("conditions").to_vec();
        let at = conditions.iter().position(|condition| condition.text("type") == "Available");
        let old = at.and_then(|at| conditions.get(at)).filter(|old| old.text("status") == self.status());
        let since = old.map_or(now, |old| old.text("lastTransitionTime")).to_owned();
        let condition = json!({
            "type": "Available",
            "status": self.status(),
            "lastTransitionTime": since,
            "reason": self.reason,
            "message": self.message,
        });
        match at.and_then(|at| conditions.get_mut(at)) {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
        api_service.object_mut("status").set("conditions", conditions);
    }
}

/// What an APIService says of its availability.
fn condition(api_service: &Value) -> Option<&Value> {
    let mut conditions = api_service.field("status").items("conditions").iter();
    conditions.find(|condition| condition.text("type") == "Available")
}

/// What this server serves itself is available from the start: the condition
/// that a new APIService without a service gets.
pub fn available_when_local(service: &mut Value, now: &str) {
    if !service.field("spec").has("service") {
        Availability::local().set(service, now);
    }
}

/// Whether the Service that an APIService refers to leads anywhere: its `service` object, and its
/// EndpointSlices. Services without a cluster address are somebody else's to check.
pub fn check_service(
    reference: &Value,
    service: Option<&Value>,
    slices: &[Value],
) -> Result<(), Availability> {
    let (namespace, name) = (reference.text("namespace"), reference.text("name"));
    let port = reference.int("port").unwrap_or(DEFAULT_PORT);
    let fail = |reason, message| Err(Availability { reason, message });
    let Some(service) = service else {
        return fail("ServiceNotFound", format!("service/{name} in {} is not present", go_quote(namespace)));
    };
    let spec = service.field("spec");
    if !matches!(spec.text("type"), "" | "ClusterIP") {
        return Ok(());
    }
    let Some(found) = spec.items("ports").iter().find(|found| found.int("port") == Some(port)) else {
        let message = format!("service/{name} in {} is not listening on port {port}", go_quote(namespace));
        return fail("ServicePortError", message);
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {}", go_quote(namespace));
        return fail("EndpointsNotFound", message);
    }
    let port_name = found.text("name");
    let leads_there = |slice: &Value| {
        let has_port = slice.items("ports").iter().any(|port| port.text("name") == port_name);
        // Whoever does not say whether it is ready is taken to be.
        let is_ready = |endpoint: &Value| endpoint.field("conditions").field("ready") != false;
        let is_there = |endpoint: &Value| is_ready(endpoint) && !endpoint.items("addresses").is_empty();
        has_port && slice.items("endpoints").iter().any(is_there)
    };
    if slices.iter().any(leads_there) {
        return Ok(());
    }
    let message = format!(
        "endpointslices for service/{name} in {} have no addresses with port name {}",
        go_quote(namespace),
        go_quote(port_name)
    );
    fail("MissingEndpoints", message)
}

fn default(service: &mut Value) {
    let spec = service.object_mut("spec");
    if spec.has("service") {
        default_pointers(spec.object_mut("service"), &[("port", DEFAULT_PORT.into())]);
    }
}

fn validate(service: &Value, errors: &mut Errors) {
    let spec = service.field("spec");
    let (group, version) = (spec.text("group"), spec.text("version"));
    validate_name(service, &format!("{version}.{group}"), errors);
    let path = Path::new("spec");
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required(path.child("group"), detail);
        }
    } else {
        must_be(dns_subdomain, group, path.child("group"), errors);
    }
    must_be(dns1035_label, version, path.child("version"), errors);
    for (name, most) in
        [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)]
    {
        let priority = spec.int(name).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            let detail = format!("must be positive and less than {most}");
            errors.invalid(path.child(name), priority, &detail);
        }
    }
    let insecure = spec.flag("insecureSkipTLSVerify");
    let bundle = base64_length(spec.text("caBundle"));
    let Some(service) = spec.get_field("service") else {
        if bundle > 0 {
            let detail = "local APIServices may not have a caBundle";
            errors.invalid(path.child("caBundle"), format!("{bundle} bytes"), detail);
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
        }
        return;
    };
    let at = path.child("service");
    not_empty(service.text("namespace"), at.child("namespace"), errors);
    not_empty(service.text("name"), at.child("name"), errors);
    let port = service.int("port").unwrap_or_default();
    let problems = port_number(port);
    if !problems.is_empty() {
        errors.invalid(at.child("port"), port, &format!("port is not valid: {}", problems.join(",")));
    }
    if insecure && bundle > 0 {
        let detail = "may not be true if caBundle is present";
        errors.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
    }
}

/// The name says group and version again.
fn validate_name(service: &Value, expected: &str, errors: &mut Errors) {
    let name = service.field("metadata").text("name");
    let path = "metadata.name";
    let problems = path_segment(name);
    for problem in &problems {
        errors.invalid(path, name, problem);
    }
    if problems.is_empty() && !name.is_empty() && name != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(expected));
        errors.invalid(path, name, &detail);
    }
}

/// How many bytes a text in base64 stands for.
fn base64_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn validate_status(service: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("conditions");
    for (index, condition) in service.field("status").items("conditions").iter().enumerate() {
        let value = condition.text("status");
        if !matches!(value, "True" | "False" | "Unknown") {
            let path = list.index(index);
            errors.not_supported(path.child("status"), named(value), &["True", "False", "Unknown"]);
        }
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed, text::condition},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Service", service, "The service that serves the version; Local is this server."),
        computed("Available", availability, "Whether the version is served, and why not."),
        AGE,
    ];

    fn service(api_service: &Value) -> Value {
        match api_service.field("spec").get_field("service") {
            Some(service) => format!("{}/{}", service.text("namespace"), service.text("name")).into(),
            None => "Local".into(),
        }
    }

    /// Whether the version is served, with the reason if not.
    fn availability(object: &Value) -> Value {
        let Some(condition) = condition(object, "Available") else { return "Unknown".into() };
        match (condition.text("status"), condition.text("reason")) {
            (status @ "True", _) | (status, "") => status.into(),
            (status, reason) => format!("{status} ({reason})").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_services_are_available_at_once() {
        for (spec, conditions) in [(json!({}), 1), (json!({"service": {"name": "a"}}), 0)] {
            let mut service = json!({"spec": spec, "status": {}});
            available_when_local(&mut service, "now");
            assert_eq!(service.field("status").items("conditions").len(), conditions);
        }
    }

    /// Reasons and texts are those of kube-apiserver 1.36.
    #[test]
    fn a_service_that_leads_nowhere_is_said_to_as_upstream_does() {
        let service = |spec: Value| Some(json!({"spec": spec}));
        let plain = || service(json!({"type": "ClusterIP", "ports": [{"port": 443, "name": "https"}]}));
        let slice = |port: Value, endpoints: Value| json!({"ports": [port], "endpoints": endpoints});
        let there = || json!([{"addresses": ["192.0.2.7"]}]);
        let missing = "endpointslices for service/s in \"ns\" have no addresses with port name \"https\"";
        for (service, slices, expected) in [
            (None, vec![], Err(("ServiceNotFound", "service/s in \"ns\" is not present"))),
            (
                service(json!({"ports": [{"port": 8443}]})),
                vec![],
                Err(("ServicePortError", "service/s in \"ns\" is not listening on port 443")),
            ),
            (
                plain(),
                vec![],
                Err(("EndpointsNotFound", "cannot find endpointslices for service/s in \"ns\"")),
            ),
            (plain(), vec![slice(json!({"name": "https"}), json!([]))], Err(("MissingEndpoints", missing))),
            (
                plain(),
                vec![slice(
                    json!({"name": "https"}),
                    json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": false}}]),
                )],
                Err(("MissingEndpoints", missing)),
            ),
            (plain(), vec![slice(json!({"name": "other"}), there())], Err(("MissingEndpoints", missing))),
            (plain(), vec![slice(json!({}), there())], Err(("MissingEndpoints", missing))),
            (
                service(json!({"ports": [{"port": 443}]})),
                vec![slice(json!({"name": "a"}), json!([{"addresses": ["192.0.2.7"], "conditions": {}}]))],
                Err((
                    "MissingEndpoints",
                    "endpointslices for service/s in \"ns\" have no addresses with port name \"\"",
                )),
            ),
            (plain(), vec![slice(json!({"name": "https"}), there())], Ok(())),
            (
                plain(),
                vec![slice(json!({"name": "other"}), there()), slice(json!({"name": "https"}), there())],
                Ok(()),
            ),
            (service(json!({"ports": [{"port": 443}]})), vec![slice(json!({}), there())], Ok(())),
            (service(json!({"type": "ExternalName"})), vec![], Ok(())),
            (service(json!({"type": "NodePort", "ports": [{"port": 1}]})), vec![], Ok(())),
        ] {
            let reference = json!({"namespace": "ns", "name": "s"});
            let checked = check_service(&reference, service.as_ref(), &slices);
            assert!(checked.as_ref().err().is_none_or(|why| !why.is_available()));
            let told = checked.as_ref().map_err(|why| (why.reason, why.message.as_str()));
            assert_eq!(told, expected.as_ref().map_err(|told| *told), "{service:?} {slices:?}");
        }
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change_of_status() {
        let mut service = json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}});
        let said = |service: &Value| {
            let condition = service.field("status").items("conditions").last().cloned().unwrap_or_default();
            let text = |field| condition.text(field).to_owned();
            (text("status"), text("reason"), text("message"), text("lastTransitionTime"))
        };
        let failed = |message: &str| Availability::failed_check(message.into());
        for (availability, now, expected) in [
            (failed("a"), "1", ("False", "FailedDiscoveryCheck", "a", "1")),
            (failed("b"), "2", ("False", "FailedDiscoveryCheck", "b", "1")),
            (Availability::passed(), "3", ("True", "Passed", "all checks passed", "3")),
            (Availability::local(), "4", ("True", "Local", "Local APIServices are always available", "3")),
            (failed("a"), "5", ("False", "FailedDiscoveryCheck", "a", "5")),
        ] {
            assert!(!availability.is_said_by(&service));
            availability.set(&mut service, now);
            assert!(availability.is_said_by(&service));
            let (status, reason, message, time) = said(&service);
            assert_eq!((&*status, &*reason, &*message, &*time), expected);
            assert_eq!(service.field("status").items("conditions").len(), 2);
        }
    }
}
