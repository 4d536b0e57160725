//! The availability of APIServices: whether the servers they name are there and answer.
//!
//! One task follows APIServices and the Services and EndpointSlices behind them. Each remote
//! APIService is checked when something about it changes, and every [`INTERVAL`]; one whose check
//! fails is checked again sooner, as upstream does. A check is a task of its own: a server that
//! hangs holds up nobody but itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use sternpost_cache::{Object, ResourceId};
use sternpost_clock::{DueQueue, machine};
use sternpost_registry::{
    kinds::api_service::{Availability, check_service},
    object::Fields,
};
use sternpost_store::BoxFuture;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Failure, Part, Target, Verbs, Writer, served::Served};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

use crate::follow::{Follow, News, ObjectChange};

/// How often a server that answers is asked.
pub const INTERVAL: Duration = Duration::from_secs(30);
/// After a check that failed: this long, and twice as long after each that follows, up to [`INTERVAL`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// So many servers are asked at once; the others wait. Enough that those that hang until their time
/// is up leave room for the rest.
pub const MAX_CHECKS: usize = 256;
/// Chances that a server has in one check; one answer is enough.
pub const ATTEMPTS: usize = 5;

const GROUP: &str = "apiregistration.k8s.io";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The other servers, as far as this crate knows of them. All that is done to the table of them is
/// done by one task, in the order of the changes.
pub trait Servers: Send + Sync {
    /// The APIService of this name is now so. Called before it is checked.
    fn put(&self, name: &str, api_service: &Value);

    fn remove(&self, name: &str);

    /// The APIService of this name is about to say so of its availability, and nothing else of it changed.
    /// Called before anybody can read it, by whoever checked it: what is not in the table as it is here, is
    /// left alone.
    fn announce(&self, name: &str, api_service: &Value);

    /// Whether the server has an address of its own, so that its Service does not matter.
    fn has_address(&self, name: &str) -> bool;

    /// Asks once whether the server serves its group-version. Says why not, and comes to an end
    /// within seconds.
    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), String>>;
}

/// Starts with all servers that are registered already in the table.
pub async fn start(verbs: Arc<Verbs>, tasks: &Tasks, servers: Arc<dyn Servers>) {
    let Some(served) = verbs.served.get(GROUP, "v1", "apiservices") else { return };
    let (objects, follow) = Follow::start(verbs.clone(), served.clone()).await;
    let checker = Arc::new(Checker { verbs, servers, served, room: Arc::new(Semaphore::new(MAX_CHECKS)) });
    let mut checking = Checking {
        checker,
        entries: BTreeMap::new(),
        due: DueQueue::default(),
        running: JoinSet::new(),
        begun: 0,
    };
    checking.all(&objects);
    tasks.essential("api-services", checking.run(follow));
}

/// What is known, and what is to be done when.
struct Checking {
    checker: Arc<Checker>,
    entries: BTreeMap<Arc<str>, Entry>,
    due: DueQueue<machine::Instant, Arc<str>>,
    running: JoinSet<Checked>,
    /// Counts checks, so that the end of one that nobody waits for any more is told apart.
    begun: u64,
}

/// An APIService.
struct Entry {
    /// What a check depends on.
    spec: Value,
    annotations: Value,
    /// What the last check came to.
    found: Option<Availability>,
    /// Checks in a row that failed.
    failures: u32,
    running: Option<(u64, AbortHandle)>,
    /// Whether something changed while it ran.
    is_wanted_again: bool,
}

impl Entry {
    fn refers_to(&self, namespace: &str, service: &str) -> bool {
        let reference = self.spec.field("service");
        reference.text("name") == service && reference.text("namespace") == namespace
    }
}

/// The end of a check.
struct Checked {
    name: Arc<str>,
    check: u64,
    found: Option<Availability>,
}

impl Checking {
    async fn run(mut self, mut api_services: Follow) {
        let verbs = self.checker.verbs.clone();
        let mut surroundings: Option<(Follow, Follow)> = None;
        loop {
            // Nobody follows services for nothing.
            match (&surroundings, self.has_remotes()) {
                (None, true) => surroundings = follow_surroundings(&verbs).await,
                (Some(_), false) => surroundings = None,
                _ => {}
            }
            let next = self.due.next();
            tokio::select! {
                news = api_services.next() => match news {
                    News::All(objects) => self.all(&objects),
                    News::Changes(changes) => {
                        for change in changes {
                            match change {
                                ObjectChange::Now(object) => self.now(&object),
                                ObjectChange::Gone(object) => self.gone(object.name()),
                            }
                        }
                    }
                },
                news = next_of(&mut surroundings) => self.surroundings_changed(news.as_ref()),
                Some(checked) = self.running.join_next() => {
                    // One that was given up tells nothing.
                    if let Ok(checked) = checked {
                        self.checked(checked);
                    }
                },
                () = machine::until(next) => self.begin_due(),
            }
        }
    }

    fn has_remotes(&self) -> bool {
        self.entries.values().any(|entry| entry.spec.has("service"))
    }

    fn all(&mut self, objects: &[Arc<Object>]) {
        let found: BTreeSet<&str> = objects.iter().map(|object| object.name()).collect();
        let gone: Vec<Arc<str>> =
            self.entries.keys().filter(|name| !found.contains(&***name)).cloned().collect();
        for name in gone {
            self.gone(&name);
        }
        for object in objects {
            self.now(object);
        }
    }

    fn now(&mut self, object: &Object) {
        let value = object.value();
        self.checker.servers.put(object.name(), &value);
        let (spec, annotations) = (value.field("spec"), value.field("metadata").field("annotations"));
        let name: Arc<str> = object.name().into();
        // Most are local and say so from the start.
        if !spec.has("service") && Availability::local().is_said_by(&value) {
            self.forget(&name);
            return;
        }
        if let Some(entry) = self.entries.get(&name)
            && entry.spec == *spec
            && entry.annotations == *annotations
        {
            // What a check came to is written by itself; nobody else's word is kept.
            let is_said = entry.found.as_ref().is_some_and(|found| found.is_said_by(&value));
            // Another server may find otherwise for as long as it likes: what is found here is said after the next
            // check, which is due soon enough. At once, both would write all the time.
            let is_others = entry.found.is_some() && self.checker.verbs.cache.others_write();
            if is_said || is_others || entry.running.is_some() {
                return;
            }
        }
        let old = self.entries.remove(&name);
        let failures = old.map_or(0, |old| {
            // It is about what was true before.
            if let Some((_, running)) = old.running {
                running.abort();
            }
            old.failures
        });
        let (spec, annotations) = (spec.clone(), annotations.clone());
        let entry = Entry { spec, annotations, found: None, failures, running: None, is_wanted_again: false };
        self.due.insert(name.clone(), machine::now(), ());
        self.entries.insert(name, entry);
    }

    fn gone(&mut self, name: &str) {
        self.checker.servers.remove(name);
        self.forget(name);
    }

    fn forget(&mut self, name: &str) {
        if let Some(entry) = self.entries.remove(name) {
            self.due.remove(&name.into());
            if let Some((_, running)) = entry.running {
                running.abort();
            }
        }
    }

    /// `None`: whatever may have changed.
    fn surroundings_changed(&mut self, services: Option<&BTreeSet<(String, String)>>) {
        let due = machine::now();
        let concerned: Vec<Arc<str>> = (self.entries.iter())
            .filter(|(_, entry)| entry.spec.has("service"))
            .filter(|(_, entry)| match services {
                Some(services) => services.iter().any(|(ns, name)| entry.refers_to(ns, name)),
                None => true,
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in concerned {
            self.schedule(&name, due);
        }
    }

    fn schedule(&mut self, name: &Arc<str>, due: machine::Instant) {
        if self.entries.contains_key(name) {
            self.due.insert(name.clone(), due, ());
        }
    }

    fn begin_due(&mut self) {
        let now = machine::now();
        while let Some((name, ())) = self.due.pop(now) {
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            // It ends, however often its surroundings change: then there is another.
            if entry.running.is_some() {
                entry.is_wanted_again = true;
                self.due.insert(name, now + INTERVAL, ());
                continue;
            }
            self.begun += 1;
            let check = self.begun;
            let checker = self.checker.clone();
            let (of, spec) = (name.clone(), entry.spec.clone());
            let task = self.running.spawn(async move {
                let found = checker.settle(&of, &spec).await;
                Checked { name: of, check, found }
            });
            entry.running = Some((check, task));
            // Should the check be lost, there is the next.
            self.due.insert(name, now + INTERVAL, ());
        }
    }

    fn checked(&mut self, checked: Checked) {
        let Some(entry) = self.entries.get_mut(&checked.name) else { return };
        if entry.running.as_ref().is_none_or(|(check, _)| *check != checked.check) {
            return;
        }
        entry.running = None;
        let is_due = match &checked.found {
            Some(found) if found.is_available() => {
                entry.failures = 0;
                INTERVAL
            }
            // Without a Service there is nothing to ask; a change of it is noticed.
            Some(found) if found.reason != "FailedDiscoveryCheck" => INTERVAL,
            _ => {
                entry.failures = entry.failures.saturating_add(1);
                pause_after(entry.failures)
            }
        };
        entry.found = checked.found;
        let is_due = if std::mem::take(&mut entry.is_wanted_again) { Duration::ZERO } else { is_due };
        self.schedule(&checked.name, machine::now() + is_due);
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(INTERVAL)
}

async fn follow_surroundings(verbs: &Arc<Verbs>) -> Option<(Follow, Follow)> {
    let services = verbs.served.get("", "v1", "services")?;
    let slices = verbs.served.get("discovery.k8s.io", "v1", "endpointslices")?;
    let (_, services) = Follow::start(verbs.clone(), services).await;
    let (_, slices) = Follow::start(verbs.clone(), slices).await;
    Some((services, slices))
}

/// Namespaces and names of the services about which something changed; `None` if that can be any.
async fn next_of(followed: &mut Option<(Follow, Follow)>) -> Option<BTreeSet<(String, String)>> {
    let Some((services, slices)) = followed else { return std::future::pending().await };
    let (news, is_slice) = tokio::select! {
        news = services.next() => (news, false),
        news = slices.next() => (news, true),
    };
    let News::Changes(changes) = news else { return None };
    let named = changes.iter().filter_map(|change| {
        let (ObjectChange::Now(object) | ObjectChange::Gone(object)) = change;
        let name = if is_slice { object.label(SERVICE_NAME)? } else { object.name() };
        Some((object.namespace().to_owned(), name.to_owned()))
    });
    Some(named.collect())
}

/// What a check needs.
struct Checker {
    verbs: Arc<Verbs>,
    servers: Arc<dyn Servers>,
    served: Arc<Served>,
    room: Arc<Semaphore>,
}

impl Checker {
    /// Finds out how it is with a server, and writes it down if that is news. `None` if it could not
    /// be written.
    async fn settle(&self, name: &str, spec: &Value) -> Option<Availability> {
        let found = self.find(name, spec).await;
        match self.write(name, spec, &found).await {
            Ok(()) => Some(found),
            // Gone, or changed: then there is a check of what it has become.
            Err(status) if matches!(status.code(), 404 | 409) => Some(found),
            Err(status) => {
                tracing::warn!(api_service = name, %status, "an availability cannot be written yet");
                None
            }
        }
    }

    async fn find(&self, name: &str, spec: &Value) -> Availability {
        if !spec.has("service") {
            return Availability::local();
        }
        let reference = spec.field("service");
        if !self.servers.has_address(name)
            && let Err(why) = self.check_service(reference)
        {
            return why;
        }
        // Fails only if it is closed, which nobody does.
        let _room = self.room.acquire().await;
        match self.ask(name).await {
            Ok(()) => Availability::passed(),
            Err(why) => Availability::failed_check(why),
        }
    }

    fn check_service(&self, reference: &Value) -> Result<(), Availability> {
        let (namespace, name) = (reference.text("namespace"), reference.text("name"));
        let services = self.verbs.cache.resource(&ResourceId::new("", "services")).snapshot();
        let service = services.get(namespace, name).map(|service| service.value());
        let slices = ResourceId::new("discovery.k8s.io", "endpointslices");
        let slices = self.verbs.cache.resource(&slices).snapshot();
        let slices = slices.iter(Some(namespace), None);
        let slices: Vec<Value> = slices
            .filter(|slice| slice.label(SERVICE_NAME) == Some(name))
            .map(|slice| slice.value())
            .collect();
        check_service(reference, service.as_ref(), &slices)
    }

    /// A server may have several places of which one is bad, and connections may break: one that
    /// fails at once is asked some more times, all together.
    async fn ask(&self, name: &str) -> Result<(), String> {
        let begun = machine::now();
        let why = match self.servers.check(name).await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if machine::elapsed(begun) > SOON {
            return Err(why);
        }
        let mut others = JoinSet::new();
        for _ in 1..ATTEMPTS {
            others.spawn(self.servers.check(name));
        }
        while let Some(answer) = others.join_next().await {
            if matches!(answer, Ok(Ok(()))) {
                return Ok(());
            }
        }
        Err(why)
    }

    async fn write(&self, name: &str, spec: &Value, found: &Availability) -> Result<(), Failure> {
        let target = Target { served: &self.served, namespace: "", name };
        let mut object = self.verbs.get(target)?.value();
        // Several servers need not find the same words for it.
        let is_said = match self.verbs.cache.others_write() {
            true => found.is_meant_by(&object),
            false => found.is_said_by(&object),
        };
        // What was found is about another server.
        if object.field("spec") != spec || is_said || self.verbs.is_read_only() {
            return Ok(());
        }
        let before = object.clone();
        found.set(&mut object, &self.verbs.now());
        // Whoever reads that a server is available is let through to it.
        if found.is_available() {
            self.servers.announce(name, &object);
        }
        let writer = Writer { subresource: "status", ..Writer::server() };
        let written = self.verbs.update(target, object, Part::Status, writer).await;
        if written.is_err() {
            self.servers.announce(name, &before);
        }
        written.map(|_| ())
    }
}

/// A failure that takes longer is not worth a second look.
const SOON: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_the_interval() {
        for (failures, expected) in [(1, 5), (2, 10), (3, 20), (12, 10_240), (13, 20_480), (14, 30_000)] {
            assert_eq!(pause_after(failures), Duration::from_millis(expected));
        }
        assert_eq!(pause_after(u32::MAX), INTERVAL);
    }
}
