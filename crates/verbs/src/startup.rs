//! The objects that are there before any client comes.
//!
//! [`ensure`] makes those that are missing, in few transactions, and brings back
//! the few fields that the server owns in those that are there. What a user may
//! change stays changed.
//!
//! Not made: endpoints of the `kubernetes` service (they need an address that
//! other machines reach) and the server's identity lease (somebody has to renew it).
//! `extension-apiserver-authentication` is kept by whoever knows the authorities.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use serde_json::{Value, json};
use sternpost_cache::{ResourceId, encode, object_key};
use sternpost_meta::{field::Errors, status::Status};
use sternpost_registry::{
    kinds::service::allocation as service_allocation,
    object::{Fields, FieldsMut},
    validation::ip_ranges::Family,
};
use sternpost_store::{CommitError, Compare, Transaction, Write, transaction::MAX_OPERATIONS};

use crate::{
    failure::Failure,
    list::FUTURE_VERSION_TIMEOUT,
    object_meta,
    served::Served,
    update::Part,
    verbs::{Target, Verbs, Writer, invalid, storage_status},
};

mod rbac;

/// How often replicas that start together may get in each other's way.
const ATTEMPTS: usize = 8;

const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// Who owns the specs of flow schemas and priority levels, as upstream calls it.
const FLOW_PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";

/// Marks the APIServices that are the server's.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Flow schemas and priority levels whose spec is the server's, whatever the
/// annotation says.
const MANDATORY: [&str; 2] = ["catch-all", "exempt"];

static OBJECTS: &str = include_str!("startup/objects.json");

/// Makes what is missing; `port` is where the server listens. Answers how many
/// objects were written.
pub async fn ensure(verbs: &Verbs, port: u16) -> Result<usize, Status> {
    let wanted = wanted(verbs, port)?;
    let mut written = create_missing(verbs, &wanted).await?;
    let mut removed = 0;
    for want in &wanted {
        match keep_up(verbs, want).await? {
            Reconciled::AsItWas => {}
            Reconciled::Changed => written += 1,
            Reconciled::Removed => removed += 1,
        }
    }
    if removed > 0 {
        written += create_missing(verbs, &wanted).await?;
    }
    Ok(written)
}

/// The APIServices of what is built in: name, priority of the group, and of the version in it.
pub fn api_service_priorities() -> Vec<(String, i64, i64)> {
    // What is embedded is JSON; `ensure` says so if it is not.
    let data: Value = serde_json::from_str(OBJECTS).unwrap_or_default();
    let number =
        |priorities: &Value, at: usize| priorities.get(at).and_then(Value::as_i64).unwrap_or_default();
    let services = data.entries("apiServices");
    services
        .map(|(name, priorities)| (name.to_string(), number(priorities, 0), number(priorities, 1)))
        .collect()
}

/// An object as it should be, before defaults.
struct Wanted {
    served: Arc<Served>,
    object: Value,
    /// Whose fields these are.
    manager: &'static str,
    /// What a server adds to the spec, and nobody owns.
    allocated: Option<Value>,
    /// Not part of what a creator may send.
    status: Option<Value>,
    /// Who applies the status, if anybody owns it.
    status_manager: Option<&'static str>,
    upkeep: Upkeep,
}

/// What is done about an object that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upkeep {
    Nothing,
    /// The ports and the type lead to this server.
    Ports,
    /// The spec follows the server's, unless an annotation says otherwise.
    Spec,
    /// The spec is the server's as long as the object bears its mark.
    Marked,
    /// It grants what it should, and perhaps more.
    Access,
}

/// What became of an object that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reconciled {
    AsItWas,
    Changed,
    /// To be made anew.
    Removed,
}

impl Wanted {
    fn target(&self) -> Target<'_> {
        let metadata = self.object.field("metadata");
        Target { served: &self.served, namespace: metadata.text("namespace"), name: metadata.text("name") }
    }
}

/// Many in one transaction: each of its own would wait for the disk. None is about two lines.
async fn create_missing(verbs: &Verbs, wanted: &[Wanted]) -> Result<usize, Status> {
    let mut count = 0;
    for line in verbs.cache.lines_of(|_| true) {
        let is_on = |want: &&Wanted| Arc::ptr_eq(verbs.cache.line(&want.served.id), line);
        let wanted: Vec<&Wanted> = wanted.iter().filter(is_on).collect();
        for wanted in wanted.chunks(MAX_OPERATIONS) {
            count += create_together(verbs, wanted).await?;
        }
    }
    Ok(count)
}

/// All are on one line.
async fn create_together(verbs: &Verbs, wanted: &[&Wanted]) -> Result<usize, Status> {
    let Some(first) = wanted.first() else { return Ok(0) };
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::default();
        let is_missing = |want: &&&Wanted| verbs.get(want.target()).is_err_and(|status| status.code == 404);
        for want in wanted.iter().filter(is_missing) {
            let object = prepare(verbs, want)?;
            let target = want.target();
            let key = object_key(&target.served.id, target.namespace, target.name);
            transaction.compares.push(Compare::Absent { key: key.clone() });
            transaction.writes.push(Write::put(key, encode(&object)));
        }
        let count = transaction.writes.len();
        if count == 0 {
            return Ok(0);
        }
        match verbs.commit(&first.served.id, transaction).await {
            Ok(_) => return Ok(count),
            // Another replica was faster with some. The cache knows by that revision.
            Err(CommitError::Conflict { revision, .. }) => {
                verbs.cache.line(&first.served.id).reaches(revision, FUTURE_VERSION_TIMEOUT).await;
            }
            Err(error) => return Err(storage_status(&error)),
        }
    }
    Err(Status::internal_error("start-up objects keep changing"))
}

/// The steps of a create, up to what is stored.
fn prepare(verbs: &Verbs, want: &Wanted) -> Result<Value, Status> {
    let (target, mut object) = (want.target(), want.object.clone());
    let strategy = target.served.strategy;
    verbs.begin(target, &mut object);
    (strategy.default)(&mut object);
    verbs.track_new(target, &mut object, Writer { manager: want.manager, ..Writer::server() });
    allocate(&mut object, want.allocated.as_ref());
    (strategy.prepare_create)(&mut object);
    let mut errors = Errors::default();
    object_meta::validate(&object, strategy, &mut errors);
    (strategy.validate)(&object, &mut errors);
    if !errors.is_empty() {
        return Err(invalid(target, &object, errors));
    }
    if let Some(status) = &want.status {
        if let Some(manager) = want.status_manager {
            let writer = Writer { manager, subresource: "status", ..Writer::server() };
            verbs.track_status(target, &mut object, status, writer);
        }
        object.set("status", status.clone());
    }
    target.served.settle_stored(&mut object);
    Ok(object)
}

/// Adds to the spec what the server chooses.
fn allocate(object: &mut Value, allocated: Option<&Value>) {
    for (field, value) in allocated.and_then(Value::as_object).into_iter().flatten() {
        object.object_mut("spec").set(field, value.clone());
    }
}

async fn keep_up(verbs: &Verbs, want: &Wanted) -> Result<Reconciled, Status> {
    if want.upkeep == Upkeep::Nothing {
        return Ok(Reconciled::AsItWas);
    }
    let target = want.target();
    let Ok(current) = verbs.get(target) else { return Ok(Reconciled::AsItWas) };
    let mut object = current.value();
    match want.upkeep {
        Upkeep::Nothing => {}
        Upkeep::Ports => {
            for field in ["ports", "type"] {
                let value = want.object.field("spec").field(field).clone();
                object.object_mut("spec").set(field, value);
            }
        }
        Upkeep::Spec => keep_up_spec(&mut object, want),
        Upkeep::Marked => {
            if object.field("metadata").field("labels").text(MANAGED) == "onstart" {
                object.set("spec", want.object.field("spec").clone());
            }
        }
        Upkeep::Access => match rbac::upkeep(&object, &want.object) {
            rbac::Upkeep::Nothing => {}
            rbac::Upkeep::Change(changed) => object = changed,
            rbac::Upkeep::MakeAnew => {
                let key = object_key(&target.served.id, target.namespace, target.name);
                return match verbs.commit(&target.served.id, Transaction::delete(key, current.revision)).await
                {
                    Ok(_) | Err(CommitError::Conflict { .. }) => Ok(Reconciled::Removed),
                    Err(error) => Err(storage_status(&error)),
                };
            }
        },
    }
    if object == current.value() {
        return Ok(Reconciled::AsItWas);
    }
    match verbs.update(target, object, Part::Main, Writer::server()).await {
        Ok(_) => Ok(Reconciled::Changed),
        // Another replica was faster.
        Err(Failure::Refused(status)) if status.code == 409 => Ok(Reconciled::AsItWas),
        Err(failure) => Err(failure.into()),
    }
}

fn keep_up_spec(object: &mut Value, want: &Wanted) {
    let metadata = object.field("metadata");
    let mandatory = MANDATORY.contains(&metadata.text("name"));
    let followed = match metadata.field("annotations").text(AUTOUPDATE) {
        "true" => true,
        "false" => false,
        // Nobody has changed it yet, so nobody minds.
        _ => metadata.int("generation") == Some(1),
    };
    if mandatory {
        object.object_mut("metadata").object_mut("annotations").set(AUTOUPDATE, "true");
    }
    if mandatory || followed {
        let mut spec = want.object.field("spec").clone();
        // How much exempt requests lend is the user's to choose.
        if let Some(exempt) = object.field("spec").get_field("exempt") {
            spec.set("exempt", exempt.clone());
        }
        object.set("spec", spec);
    }
}

fn wanted(verbs: &Verbs, port: u16) -> Result<Vec<Wanted>, Status> {
    let data: Value = serde_json::from_str(OBJECTS)
        .map_err(|error| Status::internal_error(&format!("the start-up objects: {error}")))?;
    let now = verbs.now();
    let mut all = List { verbs, wanted: Vec::new() };

    for name in data.items("namespaces") {
        all.add("", "namespaces", json!({"metadata": {"name": name}}))?;
    }
    // Other servers may listen on other ports, and lead clients by endpoints.
    let upkeep = if verbs.cache.others_write() { Upkeep::Nothing } else { Upkeep::Ports };
    let address = kubernetes_address(verbs);
    let service = all.add("", "services", kubernetes_service(address, port))?;
    service.upkeep = upkeep;
    service.allocated = Some(addresses(address));
    // Another server may have deleted the service meanwhile, whose address would be held for ever.
    let is_own = |address: &Value| {
        let parent = address.field("spec").field("parentRef");
        (parent.text("namespace"), parent.text("name")) == ("default", "kubernetes")
    };
    let held = held_addresses(verbs, port).into_iter();
    for address in held.filter(|address| !verbs.cache.others_write() || is_own(address)) {
        all.add("networking.k8s.io", "ipaddresses", address)?;
    }
    let range = json!({
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": verbs.service_ranges.cidrs()},
    });
    let range = all.add("networking.k8s.io", "servicecidrs", range)?;
    range.status = Some(condition("Ready", "True", None, "Kubernetes default Service CIDR is ready", &now));
    range.status_manager = Some("kubernetes-service-cidr-controller");
    all.add("", "configmaps", token_tracking(&now))?;
    for (name, class) in data.entries("priorityClasses") {
        let object = json!({
            "metadata": {"name": name},
            "value": class.field("value"),
            "description": class.field("for"),
        });
        all.add("scheduling.k8s.io", "priorityclasses", object)?;
    }
    for (name, level) in data.entries("priorityLevels") {
        let object = flow_control_object(name, &priority_level_spec(level));
        let group = "flowcontrol.apiserver.k8s.io";
        let want = all.add(group, "prioritylevelconfigurations", object)?;
        want.manager = FLOW_PRODUCER;
        want.upkeep = Upkeep::Spec;
    }
    for (name, schema) in data.entries("flowSchemas") {
        let level = schema.text("level");
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
        );
        let object = flow_control_object(name, &flow_schema_spec(schema));
        let want = all.add("flowcontrol.apiserver.k8s.io", "flowschemas", object)?;
        want.manager = FLOW_PRODUCER;
        want.status = Some(condition("Dangling", "False", Some("Found"), &message, &now));
        want.status_manager = Some("api-priority-and-fairness-config-consumer-v1");
        want.upkeep = Upkeep::Spec;
    }
    for (name, priorities) in data.entries("apiServices") {
        let available = "Local APIServices are always available";
        let want = all.add("apiregistration.k8s.io", "apiservices", api_service(name, priorities))?;
        want.status = Some(condition("Available", "True", Some("Local"), available, &now));
        want.upkeep = Upkeep::Marked;
    }
    for (plural, object) in rbac::objects() {
        all.add(rbac::GROUP, plural, object)?.upkeep = Upkeep::Access;
    }
    Ok(all.wanted)
}

struct List<'a> {
    verbs: &'a Verbs,
    wanted: Vec<Wanted>,
}

impl List<'_> {
    /// All are of version `v1`. `object` is complete but for what [`prepare`] adds.
    fn add(&mut self, group: &str, plural: &str, object: Value) -> Result<&mut Wanted, Status> {
        let served = self.verbs.served.get(group, "v1", plural);
        let served = served.ok_or_else(|| Status::internal_error(&format!("{plural} are not served")))?;
        Ok(self.wanted.push_mut(Wanted {
            served,
            object,
            manager: Writer::server().manager,
            allocated: None,
            status: None,
            status_manager: None,
            upkeep: Upkeep::Nothing,
        }))
    }
}

fn kubernetes_address(verbs: &Verbs) -> IpAddr {
    // There is one: flags that name none are refused.
    verbs.service_ranges.first_address().unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED))
}

fn kubernetes_service(address: IpAddr, port: u16) -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address.to_string(),
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    })
}

/// What the service `kubernetes` is given.
fn addresses(address: IpAddr) -> Value {
    json!({"clusterIPs": [address.to_string()], "ipFamilies": [Family::of(address).name()]})
}

/// That the addresses of services are taken: of `kubernetes`, and of those that
/// lost theirs.
fn held_addresses(verbs: &Verbs, port: u16) -> Vec<Value> {
    let stored = verbs.cache.resource(&ResourceId::new("", "services")).snapshot();
    let mut services: Vec<Value> = stored.iter(None, None).map(|service| service.value()).collect();
    if stored.get("default", "kubernetes").is_none() {
        let address = kubernetes_address(verbs);
        let mut service = kubernetes_service(address, port);
        allocate(&mut service, Some(&addresses(address)));
        services.push(service);
    }
    let held = services.iter().flat_map(|service| {
        let addresses = service_allocation::held(service).addresses;
        addresses
            .into_iter()
            .map(|address| service_allocation::ip_address(service.field("metadata"), address))
    });
    held.collect()
}

/// Since when the use of tokens without end is recorded.
fn token_tracking(now: &str) -> Value {
    let (day, _) = now.split_once('T').unwrap_or((now, ""));
    json!({
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system",
        },
        "data": {"since": day},
    })
}

/// `name` is version and group; `priorities` those of the group and the version.
fn api_service(name: &str, priorities: &Value) -> Value {
    let (version, group) = name.split_once('.').unwrap_or((name, ""));
    let mut spec = json!({"version": version, "groupPriorityMinimum": priorities.get(0), "versionPriority": priorities.get(1)});
    if !group.is_empty() {
        spec.set("group", group);
    }
    json!({
        "metadata": {"name": name, "labels": {MANAGED: "onstart"}},
        "spec": spec,
    })
}

fn flow_control_object(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {AUTOUPDATE: "true"}}, "spec": spec})
}

fn priority_level_spec(level: &Value) -> Value {
    if level.flag("exempt") {
        return json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    }
    let response = match level.get_field("queues") {
        None => json!({"type": "Reject"}),
        Some(queues) => json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": level.field("hand"), "queueLengthLimit": 50},
        }),
    };
    json!({
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": level.field("shares"),
            "lendablePercent": level.field("lendable"),
            "limitResponse": response,
        },
    })
}

fn flow_schema_spec(schema: &Value) -> Value {
    let groups = schema.items("groups").iter().map(|name| json!({"kind": "Group", "group": {"name": name}}));
    let users = schema.items("users").iter().map(|name| json!({"kind": "User", "user": {"name": name}}));
    let accounts = schema.items("serviceAccountsOf").iter().map(
        |namespace| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "*"}}),
    );
    let mut rule = json!({"subjects": groups.chain(users).chain(accounts).collect::<Vec<_>>()});
    let everything = json!({
        "urls": ["*"],
        "verbs": ["*"],
        "resources": [{"group": "*", "resources": ["*"], "verbs": ["*"], "clusterScope": true}],
    });
    let requests = schema.get_field("only").unwrap_or(&everything);
    if let Some(urls) = requests.get_field("urls") {
        let verbs = requests.field("verbs");
        rule.set("nonResourceRules", json!([{"nonResourceURLs": urls, "verbs": verbs}]));
    }
    let resources: Vec<Value> = requests.items("resources").iter().map(resource_rule).collect();
    if !resources.is_empty() {
        rule.set("resourceRules", resources);
    }
    let mut spec = json!({
        "matchingPrecedence": schema.field("precedence"),
        "priorityLevelConfiguration": {"name": schema.field("level")},
        "rules": [rule],
    });
    if let Some(by) = schema.get_field("by") {
        spec.set("distinguisherMethod", json!({"type": by}));
    }
    spec
}

fn resource_rule(resources: &Value) -> Value {
    let mut rule = json!({
        "verbs": resources.field("verbs"),
        "apiGroups": [resources.field("group")],
        "resources": resources.field("resources"),
        "namespaces": ["*"],
    });
    if resources.flag("clusterScope") {
        rule.set("clusterScope", true);
    }
    rule
}

fn condition(kind: &str, status: &str, reason: Option<&str>, message: &str, now: &str) -> Value {
    let mut condition = json!({
        "type": kind,
        "status": status,
        "message": message,
        "lastTransitionTime": now,
    });
    if let Some(reason) = reason {
        condition.set("reason", reason);
    }
    json!({"conditions": [condition]})
}
