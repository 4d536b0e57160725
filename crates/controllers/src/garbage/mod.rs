//! Garbage collection: objects go when their owners are gone.
//!
//! One task follows all resources, keeps the [`graph`] of owners and decides. What it decided is written
//! by tasks of their own, on condition that the object is still as it was looked at: whoever finds it
//! changed asks for another decision. Nothing is decided by what the graph remembers alone: the object
//! and its owners are looked up when their turn comes.

mod graph;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use sternpost_cache::{Behind, Event, EventKind, Line, Object, ResourceId};
use sternpost_clock::{DueQueue, machine};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_store::Revision;
use sternpost_tasks::Tasks;
use sternpost_verbs::{
    DeleteOptions, Failure, Target, Verbs,
    served::{Served, is_built_in},
};
use tokio::task::{JoinError, JoinSet};

use crate::{
    identity::{GARBAGE_COLLECTOR, delete, patch_metadata, writer},
    streams::{News, Streams},
};
use graph::{
    FOREGROUND, Graph, Metadata, ORPHAN, ObjectReference, Outline, Owner, OwnerReference, Verdict, decide,
};

/// Writes under way at a time: enough to share the store's commits.
const MAX_WRITES: usize = 64;

/// What failed, as by a webhook that refuses, is tried again after this long, and twice as long each time.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// What was changed by another meanwhile is looked at again after this long.
const LEAST_RETRY: Duration = Duration::from_millis(1);

/// Whether owners are there is looked for again after this long if a store has not said how new it is.
const UNREACHED: Duration = Duration::from_secs(1);

/// How often the dependents of an object that lets them go may be changed under our hands.
const ATTEMPTS: usize = 100;

/// Absent owners that are remembered, so that each is reported once.
const MAX_ABSENT: usize = 4096;

/// Collects until the process ends.
pub(crate) async fn run(verbs: Arc<Verbs>, tasks: Tasks) {
    let mut collector = Collector {
        tasks,
        streams: Streams::new(verbs.clone()),
        verbs,
        graph: Graph::default(),
        known: HashSet::new(),
        kinds: HashMap::new(),
        queue: Queue::default(),
        began: HashSet::new(),
        unresolved: HashSet::new(),
        absent: HashSet::new(),
        writes: JoinSet::new(),
        failures: HashMap::new(),
        retries: DueQueue::default(),
    };
    loop {
        collector.look().await;
        collector.work().await;
        collector.wait().await;
    }
}

struct Collector {
    tasks: Tasks,
    verbs: Arc<Verbs>,
    streams: Streams,
    graph: Graph,
    /// Resources whose objects were all seen once.
    known: HashSet<ResourceId>,
    /// By apiVersion and kind, as references name them.
    kinds: HashMap<(String, String), Option<Arc<Served>>>,
    queue: Queue,
    /// Objects that began to wait for their dependents, not looked at since.
    began: HashSet<ObjectReference>,
    /// Dependents that name an owner of an unknown kind.
    unresolved: HashSet<ObjectReference>,
    /// Owners, by uid and namespace of the reference, that are known to be absent.
    absent: HashSet<(String, String)>,
    writes: JoinSet<Done>,
    /// How often in a row a write failed.
    failures: HashMap<ObjectReference, u32>,
    retries: DueQueue<machine::Instant, ObjectReference>,
}

/// The object that was written for, and what came of it.
type Done = (ObjectReference, Result<(), Failure>);

/// Objects to look at. None is looked at while a write for it is under way.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<ObjectReference>,
    waiting: HashSet<ObjectReference>,
    busy: HashSet<ObjectReference>,
}

impl Queue {
    fn push(&mut self, place: ObjectReference) {
        if self.waiting.insert(place.clone()) && !self.busy.contains(&place) {
            self.order.push_back(place);
        }
    }

    fn pop(&mut self) -> Option<ObjectReference> {
        let place = self.order.pop_front()?;
        self.waiting.remove(&place);
        Some(place)
    }

    fn begin(&mut self, place: &ObjectReference) {
        self.busy.insert(place.clone());
    }

    fn end(&mut self, place: &ObjectReference) {
        self.busy.remove(place);
        if self.waiting.contains(place) {
            self.order.push_back(place.clone());
        }
    }
}

impl Collector {
    /// Brings the graph up to date.
    async fn look(&mut self) {
        for news in self.streams.look().await {
            match news {
                News::All(served, snapshot) => {
                    if self.known.contains(&served.id) {
                        // Whatever went meanwhile is not told: everybody has to be asked.
                        for uid in self.graph.of_resource(&served.id) {
                            self.graph.remove(&uid);
                        }
                        let all: Vec<ObjectReference> = self.graph.all().cloned().collect();
                        all.into_iter().for_each(|place| self.queue.push(place));
                    }
                    self.definitions_changed(&served);
                    self.known.insert(served.id.clone());
                    for object in snapshot.iter(None, None) {
                        self.is_now(&served, object, None);
                    }
                }
                News::Changes(served, events) => {
                    events.iter().for_each(|event| self.happened(&served, event));
                }
                News::Ended(id) => {
                    self.kinds.clear();
                    self.known.remove(&id);
                    for uid in self.graph.of_resource(&id) {
                        self.graph.remove(&uid);
                    }
                }
            }
        }
    }

    /// Those who waited for a kind to be served are asked again.
    fn definitions_changed(&mut self, served: &Served) {
        if !is_built_in(served.group()) {
            self.kinds.clear();
            std::mem::take(&mut self.unresolved).into_iter().for_each(|place| self.queue.push(place));
        }
    }

    fn happened(&mut self, served: &Arc<Served>, event: &Event) {
        match event.kind {
            EventKind::Added | EventKind::Modified => {
                self.is_now(served, &event.object, event.previous.as_deref());
            }
            EventKind::Deleted => self.is_gone(served, &event.object),
        }
    }

    fn is_now(&mut self, served: &Served, object: &Object, previous: Option<&Object>) {
        let had_owners = previous.is_some_and(names_owners);
        // So it is for nearly all objects there are.
        if is_ignored(&served.id) || !(names_owners(object) || had_owners || object.terminating) {
            return;
        }
        let Some(Outline { metadata }) = object.read::<Outline>() else { return };
        let before = previous.and_then(Object::read::<Outline>).unwrap_or_default().metadata;
        let place = ObjectReference { id: served.id.clone(), path: object.place().into() };
        if self.graph.set(&metadata.uid, &place, &metadata.owner_references) {
            if !metadata.owner_references.is_empty() {
                self.queue.push(place.clone());
            }
            // An owner may have waited for it, and no longer has to.
            self.ask_owners(&before, place.parts().0);
        }
        if metadata.waits_for_orphans() {
            self.queue.push(place);
        } else if metadata.waits_for_dependents() {
            if !before.waits_for_dependents() {
                let dependents: Vec<ObjectReference> =
                    self.graph.dependents(&metadata.uid).cloned().collect();
                dependents.into_iter().for_each(|place| self.queue.push(place));
                self.began.insert(place.clone());
            }
            self.queue.push(place);
        }
    }

    fn is_gone(&mut self, served: &Served, object: &Object) {
        let Some(Outline { metadata }) = object.read::<Outline>() else { return };
        if self.graph.remove(&metadata.uid) {
            self.ask_owners(&metadata, object.namespace());
        }
        if self.graph.has_dependents(&metadata.uid) {
            let dependents: Vec<ObjectReference> = self.graph.dependents(&metadata.uid).cloned().collect();
            dependents.into_iter().for_each(|place| self.queue.push(place));
            if served.is_namespaced() {
                self.remember_absent(&metadata.uid, object.namespace());
            }
        }
    }

    /// Owners that wait for their dependents may be able to go.
    fn ask_owners(&mut self, dependent: &Metadata, namespace: &str) {
        for reference in &dependent.owner_references {
            let Some(served) = self.kind(reference) else { continue };
            let namespace = if served.is_namespaced() { namespace } else { "" };
            let snapshot = self.verbs.cache.resource(&served.id).snapshot();
            if let Some(owner) = snapshot.get(namespace, &reference.name).filter(|owner| owner.terminating) {
                self.queue.push(ObjectReference { id: served.id.clone(), path: owner.place().into() });
            }
        }
    }

    /// Looks at every object in the queue, and begins what is to be done about it.
    async fn work(&mut self) {
        let Ok(known) = self.known_places().await else {
            while let Some(place) = self.queue.pop() {
                self.retry(place, UNREACHED);
            }
            return;
        };
        while let Some(place) = self.queue.pop() {
            while self.writes.len() >= MAX_WRITES {
                let done = self.writes.join_next().await;
                self.done(done);
            }
            let Some(served) = self.streams.get(&place.id).cloned() else { continue };
            let (namespace, name) = place.parts();
            let Some(object) = self.verbs.cache.resource(&place.id).snapshot().get(namespace, name).cloned()
            else {
                self.began.remove(&place);
                self.failures.remove(&place);
                self.unresolved.remove(&place);
                continue;
            };
            let line = self.verbs.cache.line(&place.id);
            let known = known.iter().find(|(known, _)| Arc::ptr_eq(known, line));
            if object.revision > known.map_or_else(|| line.revision(), |(_, revision)| *revision) {
                // What was written before it may not be readable yet.
                self.retry(place, LEAST_RETRY);
                continue;
            }
            if object.terminating {
                // Whatever dependents there are by now count.
                self.look().await;
            }
            self.judge(place, served, &object);
        }
    }

    /// Where there are several lines: up to where on each all that was written before is known, on whichever line
    /// that was. An owner is older than its dependents, and on another line the cache may be late: whoever is behind these
    /// places is not decided about yet.
    async fn known_places(&self) -> Result<Vec<(Arc<Line>, Revision)>, Behind> {
        let cache = &self.verbs.cache;
        if !cache.is_divided() || self.queue.order.is_empty() {
            return Ok(Vec::new());
        }
        let lines = cache.lines_of(|id| !is_ignored(id));
        let places = lines.iter().map(|line| ((*line).clone(), line.revision())).collect();
        for line in lines {
            line.catches_up(UNREACHED).await?;
        }
        Ok(places)
    }

    fn judge(&mut self, place: ObjectReference, served: Arc<Served>, object: &Arc<Object>) {
        let Some(Outline { metadata }) = object.read::<Outline>() else { return };
        let version = object.revision.to_string();
        if metadata.deletion_timestamp.is_some() {
            let began = self.began.remove(&place);
            if metadata.waits_for_orphans() {
                let dependents: Vec<(Arc<Served>, ObjectReference)> = self
                    .graph
                    .dependents(&metadata.uid)
                    .filter(|dependent| **dependent != place)
                    .filter_map(|place| Some((self.streams.get(&place.id)?.clone(), place.clone())))
                    .collect();
                self.begin(place, move |verbs, place| async move {
                    for (served, dependent) in dependents {
                        let gone = [metadata.uid.clone()];
                        drop_references(&verbs, target(&served, &dependent), &gone, None).await?;
                    }
                    remove_finalizer(&verbs, target(&served, &place), &metadata, ORPHAN, version).await
                });
            } else if metadata.waits_for_dependents() {
                if self.graph.blocking(&metadata.uid) == 0 {
                    self.begin(place, move |verbs, place| async move {
                        remove_finalizer(&verbs, target(&served, &place), &metadata, FOREGROUND, version)
                            .await
                    });
                } else if began {
                    let waits = |place: &ObjectReference| waits_for_dependents(&self.verbs, place);
                    if self.graph.waits_for_itself(&metadata.uid, waits) {
                        // All who wait in a ring would wait forever.
                        self.begin(place, move |verbs, place| async move {
                            unblock(&verbs, target(&served, &place), &metadata, &version).await
                        });
                    }
                }
            }
            return;
        }
        if metadata.owner_references.is_empty() || is_ignored(&place.id) {
            return;
        }
        let references = &metadata.owner_references;
        let owners: Vec<Owner> =
            references.iter().map(|reference| self.owner(reference, &place, &metadata)).collect();
        let circular = || {
            let mut dependents = self.graph.dependents(&metadata.uid);
            dependents.any(|dependent| waits_for_dependents(&self.verbs, dependent))
        };
        match decide(&metadata, &owners, self.graph.has_dependents(&metadata.uid), circular) {
            Verdict::Keep => {}
            Verdict::Unresolved => {
                self.unresolved.insert(place);
            }
            Verdict::LetGo => {
                let going = references.iter().zip(&owners).filter(|(_, owner)| **owner != Owner::Solid);
                let going: Vec<String> = going.map(|(reference, _)| reference.uid.clone()).collect();
                self.begin(place, move |verbs, place| async move {
                    drop_references(&verbs, target(&served, &place), &going, Some(version)).await
                });
            }
            Verdict::Delete { propagation, unblock: first } => {
                let blocks = references.iter().any(|it| it.block_owner_deletion == Some(true));
                self.begin(place, move |verbs, place| async move {
                    let target = target(&served, &place);
                    if first && blocks {
                        // It is looked at again as it is then.
                        return unblock(&verbs, target, &metadata, &version).await;
                    }
                    let options = DeleteOptions {
                        uid: Some(metadata.uid),
                        resource_version: Some(version),
                        propagation: Some(propagation),
                        ..DeleteOptions::default()
                    };
                    delete(&verbs, target, &options, &GARBAGE_COLLECTOR).await
                });
            }
        }
    }

    /// What an owner is to a dependent, as things stand.
    fn owner(&mut self, reference: &OwnerReference, place: &ObjectReference, dependent: &Metadata) -> Owner {
        let Some(served) = self.kind(reference) else { return Owner::Unresolved };
        let (namespace, _) = place.parts();
        if served.is_namespaced() && namespace.is_empty() {
            // Nobody can say which namespace is meant.
            self.report(reference, &served, place, dependent);
            return Owner::Unresolved;
        }
        let within = if served.is_namespaced() { namespace } else { "" };
        let snapshot = self.verbs.cache.resource(&served.id).snapshot();
        let found = snapshot.get(within, &reference.name);
        let found = found.and_then(|object| object.read::<Outline>()).map(|outline| outline.metadata);
        match found.filter(|owner| owner.uid == reference.uid) {
            Some(owner) if owner.waits_for_dependents() => Owner::Waiting,
            Some(_) => Owner::Solid,
            // It is there, and may be the one that is meant.
            None if self
                .verbs
                .check_readable(Target { served: &served, namespace: within, name: &reference.name })
                .is_err() =>
            {
                Owner::Unresolved
            }
            None => {
                if served.is_namespaced() {
                    self.report(reference, &served, place, dependent);
                }
                Owner::Absent
            }
        }
    }

    /// The resource that a reference names by its kind.
    fn kind(&mut self, reference: &OwnerReference) -> Option<Arc<Served>> {
        let key = (reference.api_version.clone(), reference.kind.clone());
        let verbs = &self.verbs;
        let found = self.kinds.entry(key).or_insert_with_key(|(version, kind)| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let customs = verbs.served.customs.in_group(group);
            let mut all = verbs.served.all_built_in().chain(&customs);
            let is_it = |served: &&Arc<Served>| {
                let gv = &served.resource.gv;
                (&*gv.group, &*gv.version, served.kind()) == (group, version, kind)
            };
            all.find(is_it).cloned()
        });
        found.clone()
    }

    fn remember_absent(&mut self, uid: &str, namespace: &str) -> bool {
        if self.absent.len() >= MAX_ABSENT {
            // Being told twice does no harm.
            self.absent.clear();
        }
        self.absent.insert((uid.to_owned(), namespace.to_owned()))
    }

    /// An owner that is there, but in another namespace, is worth an event: once.
    fn report(
        &mut self,
        reference: &OwnerReference,
        served: &Arc<Served>,
        place: &ObjectReference,
        dependent: &Metadata,
    ) {
        let (namespace, name) = place.parts();
        if !self.remember_absent(&reference.uid, namespace) {
            return;
        }
        let namespaces = self.verbs.cache.resource(&ResourceId::new("", "namespaces")).snapshot();
        let owners = self.verbs.cache.resource(&served.id).snapshot();
        let elsewhere = namespaces.iter(None, None).any(|namespace| {
            let found = owners.get(namespace.name(), &reference.name);
            let found = found.and_then(|object| object.read::<Outline>());
            found.is_some_and(|owner| owner.metadata.uid == reference.uid)
        });
        if !elsewhere {
            return;
        }
        let Some(dependents) = self.streams.get(&place.id) else { return };
        let message = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \"{namespace}\"",
            reference.api_version, reference.kind, reference.name, reference.uid
        );
        let within = if namespace.is_empty() { "default" } else { namespace };
        let now = self.verbs.now();
        let mut about = json!({
            "apiVersion": dependents.resource.gv.to_string(),
            "kind": dependents.kind(),
            "name": name,
            "uid": dependent.uid,
        });
        if !namespace.is_empty() {
            about.set("namespace", namespace);
        }
        let event = json!({
            "metadata": {"name": event_name(name, &now, &reference.uid), "namespace": within},
            "involvedObject": about,
            "reason": "OwnerRefInvalidNamespace",
            "message": message,
            "type": "Warning",
            "source": {"component": "garbage-collector-controller"},
            "reportingComponent": "garbage-collector-controller",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let (verbs, within) = (self.verbs.clone(), within.to_owned());
        self.tasks.once("garbage-collector-event", async move {
            let Some(events) = verbs.served.get("", "v1", "events") else { return };
            let target = Target { served: &events, namespace: &within, name: "" };
            if let Err(status) = verbs.create(target, event, writer(&GARBAGE_COLLECTOR)).await {
                tracing::debug!(%status, "an event about an owner in another namespace is lost");
            }
        });
    }

    /// Starts a write for an object.
    fn begin<Work>(&mut self, place: ObjectReference, work: impl FnOnce(Arc<Verbs>, ObjectReference) -> Work)
    where
        Work: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.queue.begin(&place);
        let work = work(self.verbs.clone(), place.clone());
        self.writes.spawn(async move { (place, work.await) });
    }

    fn done(&mut self, done: Option<Result<Done, JoinError>>) {
        match done {
            Some(Ok((place, result))) => {
                self.queue.end(&place);
                match result {
                    Ok(()) => {
                        self.failures.remove(&place);
                    }
                    // Gone, or not what it was: the next look tells.
                    Err(status) if matches!(status.code(), 404 | 409) || status == Failure::Superseded => {
                        self.retry(place, LEAST_RETRY);
                    }
                    Err(status) => {
                        let failures = self.failures.entry(place.clone()).or_default();
                        let wait = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LAST_RETRY);
                        *failures += 1;
                        if *failures == 1 {
                            let (id, path) = (&place.id.resource, &place.path);
                            tracing::warn!(resource = %id, object = %path, %status, "garbage cannot be collected yet");
                        }
                        self.retry(place, wait);
                    }
                }
            }
            // Its place stays busy: whoever panicked once would do so again.
            Some(Err(error)) => tracing::error!(%error, "a collection was cut off"),
            None => {}
        }
    }

    fn retry(&mut self, place: ObjectReference, after: Duration) {
        self.retries.insert_earlier(place, machine::within(after), ());
    }

    /// Until there is something new, or something has to be tried again.
    async fn wait(&mut self) {
        let due = self.retries.next();
        tokio::select! {
            () = self.streams.changed() => {}
            done = self.writes.join_next(), if !self.writes.is_empty() => {
                self.done(done);
            }
            () = machine::until(due) => {}
        }
        while let Some(done) = self.writes.try_join_next() {
            self.done(Some(done));
        }
        while let Some((place, ())) = self.retries.pop(machine::now()) {
            self.queue.push(place);
        }
    }
}

/// Upstream does not collect events, which end by themselves.
fn is_ignored(id: &ResourceId) -> bool {
    id.group.is_empty() && &*id.resource == "events"
}

/// Whether the object may name owners: cheaper than reading it.
fn names_owners(object: &Object) -> bool {
    object.mentions("\"ownerReferences\"")
}

fn target<'a>(served: &'a Served, place: &'a ObjectReference) -> Target<'a> {
    let (namespace, name) = place.parts();
    Target { served, namespace, name }
}

fn waits_for_dependents(verbs: &Verbs, place: &ObjectReference) -> bool {
    let (namespace, name) = place.parts();
    let snapshot = verbs.cache.resource(&place.id).snapshot();
    let object = snapshot.get(namespace, name).filter(|object| object.terminating);
    let outline = object.and_then(|object| object.read::<Outline>());
    outline.is_some_and(|outline| outline.metadata.waits_for_dependents())
}

/// Removes the references to these owners. Without a version from the object as it is.
async fn drop_references(
    verbs: &Verbs,
    target: Target<'_>,
    owners: &[String],
    version: Option<String>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let object = match verbs.get(target) {
            Ok(object) => object.value(),
            Err(_) => return Ok(()),
        };
        let metadata = object.field("metadata");
        let names = |reference: &Value| owners.iter().any(|uid| *uid == reference.text("uid"));
        let references = metadata.items("ownerReferences");
        if !references.iter().any(names) {
            return Ok(());
        }
        let rest: Vec<Value> = references.iter().filter(|reference| !names(reference)).cloned().collect();
        let mut patch =
            json!({"uid": metadata.text("uid"), "resourceVersion": metadata.text("resourceVersion")});
        if let Some(version) = &version {
            patch.set("resourceVersion", version.as_str());
        }
        patch.set("ownerReferences", if rest.is_empty() { Value::Null } else { rest.into() });
        match patch_metadata(verbs, target, patch, &GARBAGE_COLLECTOR).await {
            Err(status) if status.code() == 404 => return Ok(()),
            Err(status) if status.code() == 409 && version.is_none() => {}
            result => return result,
        }
    }
    Ok(())
}

async fn remove_finalizer(
    verbs: &Verbs,
    target: Target<'_>,
    object: &Metadata,
    finalizer: &str,
    version: String,
) -> Result<(), Failure> {
    let rest: Vec<&String> = object.finalizers.iter().filter(|name| *name != finalizer).collect();
    let patch = json!({"uid": object.uid, "resourceVersion": version, "finalizers": rest});
    patch_metadata(verbs, target, patch, &GARBAGE_COLLECTOR).await
}

/// No owner waits for the object any more.
async fn unblock(verbs: &Verbs, target: Target<'_>, object: &Metadata, version: &str) -> Result<(), Failure> {
    let found = verbs.get(target)?.value();
    let mut references = found.field("metadata").items("ownerReferences").to_vec();
    for reference in references.iter_mut().filter(|reference| reference.flag("blockOwnerDeletion")) {
        reference.set("blockOwnerDeletion", false);
    }
    let patch = json!({"uid": object.uid, "resourceVersion": version, "ownerReferences": references});
    patch_metadata(verbs, target, patch, &GARBAGE_COLLECTOR).await
}

/// As upstream's recorders name events: the object, and a number that no other has.
fn event_name(name: &str, now: &str, uid: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (now, uid).hash(&mut hasher);
    format!("{name}.{:016x}", hasher.finish())
}
