//! The status of quotas: what they allow, and what is used of it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use sternpost_cache::{Event, EventKind, Object, ResourceId};
use sternpost_clock::{DueQueue, machine};
use sternpost_golang::time::Timestamp;
use sternpost_meta::{quantity::Quantity, status::Status};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{
    Failure, Part, Target, Verbs,
    quota::{self, Amounts},
    served::Served,
};

use crate::{
    identity::{QUOTAS, status_writer},
    streams::{News, Streams},
};

/// All quotas are counted anew after this long: pods end by their time.
const RESYNC: Duration = Duration::from_secs(300);

/// Counting a namespace takes no more than this part of the time.
const PAUSE_FACTOR: u32 = 10;

/// Nobody is made to wait for longer, however busy the machine is.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What could not be written is tried again after this long.
const AGAIN: Duration = Duration::from_millis(50);

/// Counts until the process ends.
pub(crate) async fn run(verbs: Arc<Verbs>) {
    let Some(served) = verbs.served.get("", "v1", "resourcequotas") else { return };
    let streams = Streams::new(verbs.clone());
    let mut quotas = Quotas {
        verbs,
        streams,
        served,
        tracked: HashMap::new(),
        due: DueQueue::default(),
        pause: HashMap::new(),
    };
    let clock = quotas.verbs.clock.clone();
    let mut resync = clock.now() + RESYNC;
    loop {
        quotas.look().await;
        if resync <= clock.now() {
            resync = clock.now() + RESYNC;
            let all: Vec<String> = quotas.tracked.keys().cloned().collect();
            all.into_iter().for_each(|namespace| quotas.touch(&namespace));
        }
        quotas.count().await;
        let next = quotas.due.next();
        tokio::select! {
            () = quotas.streams.changed() => {}
            () = machine::until(next) => {}
            () = clock.sleep_until(resync) => {}
        }
    }
}

struct Quotas {
    verbs: Arc<Verbs>,
    streams: Streams,
    served: Arc<Served>,
    /// The resources that quotas of a namespace count.
    tracked: HashMap<String, BTreeSet<(String, String)>>,
    /// Namespaces to count, and when.
    due: DueQueue<machine::Instant, String>,
    /// Until when a namespace is not counted again.
    pause: HashMap<String, machine::Instant>,
}

impl Quotas {
    async fn look(&mut self) {
        let news = self.streams.look().await;
        let mut own: BTreeSet<String> = BTreeSet::new();
        let mut charged: BTreeSet<String> = BTreeSet::new();
        for news in &news {
            let (served, namespaces): (&Served, Vec<&str>) = match news {
                News::All(served, snapshot) if served.id == self.served.id => {
                    (served, snapshot.iter(None, None).map(|object| object.namespace()).collect())
                }
                News::Changes(served, events) => {
                    let (causes, others): (Vec<_>, Vec<_>) =
                        events.iter().partition(|event| self.is_cause(&served.id, event));
                    if served.id == self.served.id {
                        charged.extend(others.iter().map(|event| event.object.namespace().to_owned()));
                    }
                    (served, causes.iter().map(|event| event.object.namespace()).collect())
                }
                // Whoever counts the resource has to look at all of it.
                News::All(served, _) => {
                    let counted = |of: &BTreeSet<(String, String)>| of.contains(&key(&served.id));
                    let all: Vec<String> = self
                        .tracked
                        .iter()
                        .filter(|(_, of)| counted(of))
                        .map(|(namespace, _)| namespace.clone())
                        .collect();
                    all.iter().for_each(|namespace| self.touch(namespace));
                    continue;
                }
                News::Ended(_) => continue,
            };
            if served.id == self.served.id {
                own.extend(namespaces.into_iter().map(str::to_owned));
            } else if !self.tracked.is_empty() {
                let counted = key(&served.id);
                let mut last = "";
                for namespace in namespaces {
                    let is_new = std::mem::replace(&mut last, namespace) != namespace;
                    if is_new && self.tracked.get(namespace).is_some_and(|of| of.contains(&counted)) {
                        self.touch(namespace);
                    }
                }
            }
        }
        for namespace in charged.union(&own) {
            self.track(namespace);
        }
        for namespace in own {
            self.touch(&namespace);
        }
    }

    /// Whether something is to be counted anew for what happened. Where others charge quotas as well, what they are
    /// charged for may not be there to be counted yet: there, as upstream, nothing is counted for what is new, nor for a
    /// charge.
    fn is_cause(&self, id: &ResourceId, event: &Event) -> bool {
        let is_quota = *id == self.served.id;
        match event.kind {
            _ if !self.verbs.cache.others_write() => true,
            EventKind::Added => is_quota,
            EventKind::Modified if is_quota => {
                let quota = event.object.value();
                let hard = |of: &str| quota::amounts(quota.field(of).field("hard"));
                hard("spec") != hard("status")
            }
            EventKind::Modified | EventKind::Deleted => true,
        }
    }

    fn touch(&mut self, namespace: &str) {
        let now = machine::now();
        let from = self.pause.get(namespace).copied().unwrap_or(now).max(now);
        // What is due already stays so.
        if self.due.due(&namespace.to_owned()).is_none() {
            self.due.insert(namespace.to_owned(), from, ());
        }
    }

    /// Notes what the quotas of a namespace count.
    fn track(&mut self, namespace: &str) {
        let snapshot = self.verbs.cache.resource(&self.served.id).snapshot();
        let mut tracked = BTreeSet::new();
        let mut has_quota = false;
        for quota in snapshot.iter(Some(namespace), None) {
            has_quota = true;
            for (name, _) in quota.value().field("spec").entries("hard") {
                if let Some((group, resource)) = quota::counted(name) {
                    tracked.insert((group.to_owned(), resource.to_owned()));
                }
            }
        }
        if has_quota {
            self.tracked.insert(namespace.to_owned(), tracked);
        } else {
            self.tracked.remove(namespace);
            self.pause.remove(namespace);
        }
    }

    async fn count(&mut self) {
        let now = machine::now();
        while let Some((namespace, ())) = self.due.pop(now) {
            let begun = machine::now();
            let counted = self.count_in(&namespace).await;
            self.pause.insert(
                namespace.clone(),
                machine::now() + (machine::elapsed(begun) * PAUSE_FACTOR).min(LONGEST_PAUSE),
            );
            if let Err(status) = counted {
                if !matches!(status.code(), 404 | 409) {
                    tracing::warn!(namespace, %status, "the use of a quota cannot be written yet");
                }
                self.due.insert(namespace, machine::now() + AGAIN, ());
            }
        }
    }

    async fn count_in(&self, namespace: &str) -> Result<(), Failure> {
        let quotas = self.verbs.cache.resource(&self.served.id).snapshot();
        let quotas: Vec<(&Arc<Object>, Value)> =
            quotas.iter(Some(namespace), None).map(|quota| (quota, quota.value())).collect::<Vec<_>>();
        // These quotas may be charged for what cannot be read yet and would not be counted.
        if self.verbs.has_unstored_charges(namespace) {
            let name = quotas.first().map_or("", |(object, _)| object.name());
            let target = Target { served: &self.served, namespace, name };
            return Err(Status::conflict(target.resource_name(), name, Status::MODIFIED).into());
        }
        let Ok(now) = Timestamp::parse_time(&self.verbs.now()) else { return Ok(()) };
        let specs: Vec<&Value> = quotas.iter().map(|(_, quota)| quota.field("spec")).collect();
        let used = self.used(namespace, &specs, now);
        for ((object, quota), used) in quotas.iter().zip(used) {
            let hard = quota.field("spec").field("hard");
            let used: Map<String, Value> =
                used.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect();
            let used = Value::Object(used);
            let status = quota.field("status");
            let same = |one: &Value, other: &Value| quota::amounts(one) == quota::amounts(other);
            if same(status.field("hard"), hard) && same(status.field("used"), &used) {
                continue;
            }
            let mut changed = quota.clone();
            let status = changed.object_mut("status");
            status.set("hard", if hard.is_null() { Value::Object(Map::new()) } else { hard.clone() });
            status.set("used", used);
            let target = Target { served: &self.served, namespace, name: object.name() };
            match self.verbs.update(target, changed, Part::Status, status_writer(&QUOTAS)).await {
                Err(status) if status.code() != 404 => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    /// What is used of each quota, by the names of what it limits.
    fn used(&self, namespace: &str, specs: &[&Value], now: Timestamp) -> Vec<Amounts> {
        // Of what is not served nobody knows how much there is.
        let is_served = |name: &&str| {
            let counted = quota::counted(name).map(|(group, resource)| ResourceId::new(group, resource));
            counted.is_some_and(|id| self.streams.get(&id).is_some())
        };
        let mut used: Vec<Amounts> = specs
            .iter()
            .map(|spec| {
                let names = spec.entries("hard").map(|(name, _)| name).filter(is_served);
                names.map(|name| (name.to_owned(), Quantity::ZERO)).collect()
            })
            .collect();
        let counted: BTreeSet<(String, String)> = used
            .iter()
            .flat_map(|amounts| amounts.keys())
            .filter_map(|name| quota::counted(name))
            .map(|(group, resource)| (group.to_owned(), resource.to_owned()))
            .collect();
        for (group, resource) in counted {
            let id = ResourceId::new(group.as_str(), resource.as_str());
            for object in self.verbs.cache.resource(&id).snapshot().iter(Some(namespace), None) {
                let object = object.value();
                let usage = quota::usage(&group, &resource, &object, now);
                for (spec, used) in specs.iter().zip(&mut used) {
                    if quota::matches_scopes(spec, &group, &resource, &object) {
                        quota::add(used, &usage);
                    }
                }
            }
        }
        used
    }
}

fn key(id: &ResourceId) -> (String, String) {
    (id.group.to_string(), id.resource.to_string())
}
