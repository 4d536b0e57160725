//! ResourceQuota: nothing is stored beyond what the quotas of its namespace allow.
//!
//! What is allowed and what is used of it is in the status of a quota, which its controller keeps. What
//! a write adds is charged there before it is stored, on condition that the quota has not changed since
//! it was looked at. Writes of one namespace are charged one by one, so that many at a time do not take
//! each other's place. Nothing is given back here: the controller counts, but not while something is
//! charged and not stored yet, which it would take for free.
//!
//! [`LimitedResources`] may be used only where a quota counts them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use sternpost_cache::{Object, ResourceId};
use sternpost_clock::machine;
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    field::{Errors, Path},
    quantity::Quantity,
    status::Status,
};
use sternpost_registry::object::{Fields, FieldsMut};
use tokio::sync::Mutex as AsyncMutex;

use super::{Attributes, Operation, name_of};
use crate::{
    claims::Claimed,
    quota::{self, Amounts},
    verbs::{DryRun, Target, Verbs, Writer},
};

/// How often a quota that others changed is charged again.
const RETRIES: usize = 3;

/// How long a write waits to be charged.
const CHARGE_TIMEOUT: Duration = Duration::from_secs(10);

/// What pods have to say where a quota counts it.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// What has a namespace and is not counted: what is not stored, and events.
const IGNORED: [(&str, &str); 4] = [
    ("", "bindings"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];

/// What a `ResourceQuotaConfiguration` limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitedResources(Vec<Limited>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Limited {
    group: String,
    resource: String,
    /// Parts of the names of what is limited.
    contains: Vec<String>,
    /// Scopes, in the form of a quota's `scopeSelector`.
    scopes: Vec<Value>,
}

impl LimitedResources {
    /// Reads an object whose fields are of the right types.
    pub fn read(configuration: &Value) -> Result<Self, Errors> {
        let mut errors = Errors::default();
        let path = Path::new("limitedResources");
        let read = |(at, limited): (usize, &Value)| {
            if limited.text("resource").is_empty() {
                errors.required(path.index(at).child("resource"), "");
            }
            let parts = limited.items("matchContains").iter().filter_map(Value::as_str);
            Limited {
                group: limited.text("apiGroup").to_owned(),
                resource: limited.text("resource").to_owned(),
                contains: parts.map(ToOwned::to_owned).collect(),
                scopes: limited.items("matchScopes").to_vec(),
            }
        };
        let all = configuration.items("limitedResources").iter().enumerate().map(read).collect();
        if errors.is_empty() { Ok(Self(all)) } else { Err(errors) }
    }

    /// Whether what is used under a name is limited, for a resource.
    fn has(&self, group: &str, resource: &str, name: &str) -> bool {
        let of_resource = |limited: &&Limited| limited.group == group && limited.resource == resource;
        let mut all = self.0.iter().filter(of_resource).flat_map(|limited| &limited.contains);
        all.any(|part| name.contains(part.as_str()))
    }

    /// The scopes that an object is in, whatever resource they are written for.
    fn scopes<'a>(&'a self, group: &str, resource: &str, object: &Value) -> Vec<&'a Value> {
        let all = self.0.iter().flat_map(|limited| &limited.scopes);
        all.filter(|scope| quota::matches_scope(scope, group, resource, object)).collect()
    }
}

/// Who is charged in which namespace; only those who are at it, or wait to be, are there.
#[derive(Debug, Default)]
pub(crate) struct Charges(Mutex<HashMap<String, Arc<Turns>>>);

#[derive(Debug, Default)]
struct Turns {
    /// Whoever has it looks at quotas and charges them.
    turn: AsyncMutex<()>,
    /// How many are charged, or about to be, and not stored yet.
    unstored: AtomicUsize,
}

impl Charges {
    /// Whether something is charged in a namespace that nobody can count yet.
    pub fn are_unstored(&self, namespace: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(namespace).is_some_and(|turns| turns.unstored.load(Ordering::SeqCst) > 0)
    }

    fn join(&self, namespace: &str) -> Joined<'_> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = all.entry(namespace.to_owned()).or_default().clone();
        Joined { charges: self, namespace: namespace.to_owned(), turns, is_charged: false }
    }
}

/// One who is there.
#[derive(Debug)]
struct Joined<'a> {
    charges: &'a Charges,
    namespace: String,
    turns: Arc<Turns>,
    is_charged: bool,
}

impl Joined<'_> {
    fn begin_to_charge(&mut self) {
        if !self.is_charged {
            self.turns.unstored.fetch_add(1, Ordering::SeqCst);
            self.is_charged = true;
        }
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut all = self.charges.0.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_charged {
            self.turns.unstored.fetch_sub(1, Ordering::SeqCst);
        }
        // The table has one, and so does this.
        if Arc::strong_count(&self.turns) == 2 {
            all.remove(&self.namespace);
        }
    }
}

/// What was charged for a write, or nothing. To be kept until the write can be read.
#[derive(Debug)]
#[must_use]
pub(crate) struct Charged<'a>(#[expect(dead_code, reason = "it is kept to be dropped")] Option<Joined<'a>>);

impl Charged<'_> {
    pub(super) const NOTHING: Self = Self(None);
}

/// Checks a write, and charges it unless it is a dry run. Goes last: who is charged is stored.
pub(super) async fn validate<'a>(
    verbs: &'a Verbs,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<Charged<'a>, Status> {
    let namespace = attributes.target.namespace;
    if !attributes.target.served.is_namespaced() || !is_counted(attributes) {
        return Ok(Charged::NOTHING);
    }
    let quotas = verbs.cache.resource(&ResourceId::new("", "resourcequotas"));
    let has_quotas = quotas.snapshot().iter(Some(namespace), None).next().is_some();
    if !has_quotas && verbs.admission.limited.0.is_empty() {
        return Ok(Charged::NOTHING);
    }
    let request = Charge { verbs, attributes, object, old };
    if attributes.dry_run == DryRun::All {
        return request.due(&[]).map(|_| Charged::NOTHING);
    }
    let charge = async {
        let mut joined = verbs.charges.join(namespace);
        let turns = joined.turns.clone();
        let turn = turns.turn.lock().await;
        let paid = request.pay(&mut joined).await;
        drop(turn);
        paid.map(|()| Charged(Some(joined).filter(|joined| joined.is_charged)))
    };
    machine::timeout(CHARGE_TIMEOUT, charge)
        .await
        .unwrap_or_else(|_| Err(Status::internal_error("resource quota evaluation timed out")))
}

/// Everything costs when it is made; of some kinds also a change can cost more.
fn is_counted(attributes: &Attributes<'_>) -> bool {
    let served = attributes.target.served;
    let (group, resource) = (served.group(), &*served.resource.plural);
    match (attributes.operation, attributes.subresource) {
        (Operation::Create, "") => !IGNORED.contains(&(group, resource)),
        (Operation::Update, "resize") => (group, resource) == ("", "pods"),
        (Operation::Update, "") => matches!(
            (group, resource),
            ("", "pods" | "services" | "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims")
        ),
        _ => false,
    }
}

struct Charge<'a> {
    verbs: &'a Verbs,
    attributes: &'a Attributes<'a>,
    object: &'a Value,
    old: Option<&'a Value>,
}

/// A quota, and what is used of it with this write.
struct Due {
    quota: Arc<Object>,
    used: Map<String, Value>,
}

/// What the quotas of a namespace have to do with a write.
#[derive(Default)]
struct Cover {
    /// What is counted by those that are about the object.
    names: BTreeSet<String>,
    /// Scopes that the object is in, of all of them.
    scopes: BTreeSet<String>,
    /// Whether the write takes more than before in the eyes of one that is about the object, if any is.
    uses_more: Option<bool>,
}

impl Cover {
    fn add_scopes(&mut self, spec: &Value, group: &str, resource: &str, object: &Value) {
        let scopes = quota::scopes(spec).filter(|scope| quota::matches_scope(scope, group, resource, object));
        self.scopes.extend(scopes.map(|scope| scope.text("scopeName").to_owned()));
    }
}

impl Charge<'_> {
    async fn pay(&self, joined: &mut Joined<'_>) -> Result<(), Status> {
        let Some(served) = self.verbs.served.get("", "v1", "resourcequotas") else { return Ok(()) };
        let writer = Writer { subresource: "status", ..Writer::server() };
        // Names of quotas.
        let mut charged: Vec<String> = Vec::new();
        for last in (0..=RETRIES).rev() {
            let mut outrun = None;
            for Due { quota, used } in self.due(&charged)? {
                joined.begin_to_charge();
                let target = Target { served: &served, namespace: quota.namespace(), name: quota.name() };
                let before = quota.value();
                let mut after = before.clone();
                let amounts = after.object_mut("status").object_mut("used");
                used.into_iter().for_each(|(name, sum)| amounts.set(&name, sum));
                self.verbs.track(target, Some(&before), &mut after, writer).await;
                served.settle_stored(&mut after);
                let stored = self.verbs.store_update(target, after, &quota, Claimed::default(), DryRun::No);
                if stored.await?.is_some() {
                    charged.push(quota.name().to_owned());
                } else {
                    outrun = Some(Status::conflict(target.resource_name(), quota.name(), Status::MODIFIED));
                }
            }
            match outrun {
                None => return Ok(()),
                Some(conflict) if last == 0 => return Err(conflict),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// What is to be charged where, if all of it can be. `charged` are quotas that have been already.
    fn due(&self, charged: &[String]) -> Result<Vec<Due>, Status> {
        let served = self.attributes.target.served;
        let (group, resource) = (served.group(), &*served.resource.plural);
        let Ok(now) = Timestamp::parse_time(&self.verbs.now()) else { return Ok(Vec::new()) };
        let usage = quota::usage(group, resource, self.object, now);
        let snapshot = self.verbs.cache.resource(&ResourceId::new("", "resourcequotas")).snapshot();
        let mut due = Vec::new();
        let mut exceeded = None;
        let mut cover = Cover::default();
        for object in snapshot.iter(Some(self.attributes.target.namespace), None) {
            let quota = object.value();
            let (spec, status) = (quota.field("spec"), quota.field("status"));
            cover.add_scopes(spec, group, resource, self.object);
            let mut hard = quota::amounts(status.field("hard"));
            hard.retain(|name, _| quota::counted(name) == Some((group, resource)));
            if hard.is_empty() || !quota::matches_scopes(spec, group, resource, self.object) {
                continue;
            }
            self.check_said(object.name(), &hard)?;
            let used = quota::amounts(status.field("used"));
            let unknown: Vec<&str> = hard
                .keys()
                .filter(|name| usage.contains_key(*name) && !used.contains_key(*name))
                .map(String::as_str)
                .collect();
            if !unknown.is_empty() {
                let (name, unknown) = (object.name(), unknown.join(","));
                return Err(
                    self.forbidden(&format!("status unknown for quota: {name}, resources: {unknown}"))
                );
            }
            let was_in = self.old.filter(|old| quota::matches_scopes(spec, group, resource, old));
            let before = was_in.map(|old| quota::usage(group, resource, old, now)).unwrap_or_default();
            cover.names.extend(hard.keys().cloned());
            cover.uses_more = Some(cover.uses_more == Some(true) || uses_more(&usage, &before));
            if charged.iter().any(|name| name == object.name()) {
                continue;
            }
            let more = added(&usage, &before, &hard);
            let sum: Amounts = more
                .iter()
                .filter_map(|(name, amount)| Some((name.clone(), used.get(name)?.plus(amount))))
                .collect();
            let over: Vec<&String> = sum
                .iter()
                .filter(|(name, sum)| hard.get(*name).is_some_and(|hard| hard < sum))
                .map(|(name, _)| name)
                .collect();
            if !over.is_empty() && exceeded.is_none() {
                exceeded = Some(format!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    object.name(),
                    listed(&over, &more),
                    listed(&over, &used),
                    listed(&over, &hard),
                ));
            }
            let used: Map<String, Value> =
                sum.into_iter().map(|(name, sum)| (name, sum.to_string().into())).collect();
            if !used.is_empty() {
                due.push(Due { quota: object.clone(), used });
            }
        }
        self.check_limited(&usage, &cover, now)?;
        match exceeded {
            Some(why) => Err(self.forbidden(&why)),
            None => Ok(due),
        }
    }

    /// What is limited and used has to be counted by a quota.
    fn check_limited(&self, usage: &Amounts, cover: &Cover, now: Timestamp) -> Result<(), Status> {
        let limited = &self.verbs.admission.limited;
        if limited.0.is_empty() {
            return Ok(());
        }
        let served = self.attributes.target.served;
        let (group, resource) = (served.group(), &*served.resource.plural);
        let before = || self.old.map(|old| quota::usage(group, resource, old, now)).unwrap_or_default();
        if !cover.uses_more.unwrap_or_else(|| uses_more(usage, &before())) {
            return Ok(());
        }
        let uncovered: Vec<&str> = usage
            .iter()
            .filter(|(name, amount)| **amount > Quantity::ZERO && limited.has(group, resource, name))
            .map(|(name, _)| name.as_str())
            .filter(|name| !cover.names.contains(*name))
            .collect();
        if !uncovered.is_empty() {
            return Err(self.forbidden(&format!("insufficient quota to consume: {}", uncovered.join(","))));
        }
        let uncovered: Vec<String> = limited
            .scopes(group, resource, self.object)
            .into_iter()
            .filter(|scope| !cover.scopes.contains(scope.text("scopeName")))
            .map(|scope| {
                let values: Vec<&str> = scope.items("values").iter().filter_map(Value::as_str).collect();
                format!("{{{} {} [{}]}}", scope.text("scopeName"), scope.text("operator"), values.join(" "))
            })
            .collect();
        if uncovered.is_empty() {
            return Ok(());
        }
        // Upstream makes no refusal of it.
        let uncovered = uncovered.join(" ");
        Err(Status::unexpected(format!("insufficient quota to match these scopes: [{uncovered}]")))
    }

    /// What a quota counts of containers each of them has to say, unless the pod says it for all.
    fn check_said(&self, quota: &str, hard: &Amounts) -> Result<(), Status> {
        let served = self.attributes.target.served;
        let is_pod = (served.group(), &*served.resource.plural) == ("", "pods");
        let spec = self.object.field("spec");
        let whole = spec.field("resources");
        let is_said = |list: &str| whole.entries(list).next().is_some();
        if !is_pod
            || self.attributes.operation != Operation::Create
            || is_said("requests")
            || is_said("limits")
        {
            return Ok(());
        }
        let mut missing = Vec::new();
        for name in hard.keys().filter(|name| REQUIRED.contains(&name.as_str())) {
            let (list, resource) = name.split_once('.').unwrap_or(("requests", name));
            let containers = spec.items("containers").iter().chain(spec.items("initContainers"));
            let mut silent: Vec<&str> = containers
                .filter(|container| !container.field("resources").field(list).has(resource))
                .map(|container| container.text("name"))
                .collect();
            if !silent.is_empty() {
                silent.sort_unstable();
                missing.push(format!("{name} for: {}", silent.join(",")));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.forbidden(&format!("failed quota: {quota}: must specify {}", missing.join("; "))))
    }

    fn forbidden(&self, why: &str) -> Status {
        let target = self.attributes.target;
        Status::forbidden_because(target.resource_name(), name_of(target.name, self.object), why)
    }
}

/// What is used more than before, of what is limited.
fn added(usage: &Amounts, before: &Amounts, hard: &Amounts) -> Amounts {
    let limited = usage.iter().filter(|(name, _)| hard.contains_key(*name));
    limited
        .map(|(name, amount)| {
            let more = before.get(name).map_or_else(|| amount.clone(), |before| amount.minus(before));
            (name.clone(), more)
        })
        .filter(|(_, more)| *more > Quantity::ZERO)
        .collect()
}

/// Whether anything is used more than before, limited or not.
fn uses_more(usage: &Amounts, before: &Amounts) -> bool {
    usage.iter().any(|(name, amount)| match before.get(name) {
        Some(before) => amount > before,
        None => *amount > Quantity::ZERO,
    })
}

fn listed(names: &[&String], amounts: &Amounts) -> String {
    let amount = |name: &String| amounts.get(name).map(ToString::to_string).unwrap_or_default();
    names.iter().map(|name| format!("{name}={}", amount(name))).collect::<Vec<_>>().join(",")
}
