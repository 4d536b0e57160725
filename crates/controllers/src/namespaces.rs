//! The end of a namespace: first its content goes, then it does.
//!
//! Pods go before everything else, so that what they use is there for as long as they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use sternpost_cache::{Object, ResourceId};
use sternpost_clock::{DueQueue, machine};
use sternpost_registry::{
    kinds::namespace::FINALIZER,
    object::{Fields, FieldsMut},
};
use sternpost_store::BoxFuture;
use sternpost_verbs::{DeleteOptions, Failure, Propagation, Target, Verbs, Writer, served::Served};
use tokio::task::{JoinError, JoinSet};

use crate::{
    identity::{NAMESPACES, delete, status_writer, writer},
    streams::{News, Streams, stored_resources},
};

/// Objects that are deleted at a time: enough to share the store's commits.
const MAX_WRITES: usize = 64;

/// Namespaces that are cleared at a time.
const MAX_ENDING: usize = 16;

/// How long until a namespace that waits for others is looked at again, if nothing happens in it.
const RESYNC: Duration = Duration::from_secs(5);

/// For how long after the end of a namespace something may still come that was let in before it began.
const LATECOMERS: Duration = Duration::from_secs(30);

/// How long the cache has to catch up with what other servers wrote, before a namespace is said to be empty.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the store has of a namespace and this server does not serve, where other servers write to it: objects of kinds
/// that it does not know, and values that it cannot read.
pub trait Unserved: Send + Sync {
    /// Keys, or some of many. Asked when the cache has everything that was written before.
    fn in_namespace<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>>;
}

/// Ends namespaces until the process does; what happens in one is looked at after `delay`.
pub(crate) async fn run(verbs: Arc<Verbs>, delay: Duration, unserved: Option<Arc<dyn Unserved>>) {
    let Some(served) = verbs.served.get("", "v1", "namespaces") else { return };
    let mut ending = Ending {
        streams: Streams::new(verbs.clone()),
        verbs,
        served,
        unserved,
        delay,
        due: DueQueue::default(),
        busy: BTreeSet::new(),
        again: BTreeSet::new(),
        ended: DueQueue::default(),
        work: JoinSet::new(),
    };
    loop {
        ending.look().await;
        ending.begin();
        ending.wait().await;
    }
}

struct Ending {
    verbs: Arc<Verbs>,
    streams: Streams,
    served: Arc<Served>,
    unserved: Option<Arc<dyn Unserved>>,
    delay: Duration,
    /// Namespaces that are going away, and when to look at each next.
    due: DueQueue<machine::Instant, String>,
    busy: BTreeSet<String>,
    /// Of those that are busy, which were due meanwhile.
    again: BTreeSet<String>,
    /// Namespaces that went, and until when to look for latecomers.
    ended: DueQueue<machine::Instant, String>,
    work: JoinSet<Done>,
}

/// The namespace that was looked at, and what came of it.
type Done = (String, Result<Progress, Failure>);

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Finished,
    Waiting,
    /// There is a namespace of that name which is not going away.
    Living,
}

impl Ending {
    async fn look(&mut self) {
        let now = machine::now();
        while self.ended.pop(now).is_some() {}
        for news in self.streams.look().await {
            let (id, objects): (&ResourceId, Vec<&Arc<Object>>) = match &news {
                News::All(served, snapshot) if served.id == self.served.id => {
                    (&served.id, snapshot.iter(None, None).collect())
                }
                News::Changes(served, events) => {
                    (&served.id, events.iter().map(|event| &event.object).collect())
                }
                // Content is found when its namespace is looked at.
                News::All(..) | News::Ended(_) => continue,
            };
            if *id == self.served.id {
                for namespace in objects {
                    self.namespace(namespace.name(), namespace.terminating);
                }
            } else if !(self.due.is_empty() && self.ended.is_empty()) {
                for object in objects {
                    let namespace = object.namespace().to_owned();
                    if self.due.due(&namespace).is_some() {
                        self.due.insert_earlier(namespace, now + self.delay, ());
                    } else if self.ended.due(&namespace).is_some() {
                        self.due.insert(namespace, now, ());
                    }
                }
            }
        }
    }

    fn namespace(&mut self, name: &str, terminating: bool) {
        if terminating {
            self.due.insert_earlier(name.to_owned(), machine::now() + self.delay, ());
        } else {
            self.ended.remove(&name.to_owned());
        }
    }

    fn begin(&mut self) {
        let now = machine::now();
        while self.work.len() < MAX_ENDING
            && let Some((name, ())) = self.due.pop(now)
        {
            // Whatever happens from now on is looked at again.
            self.due.insert(name.clone(), now + RESYNC, ());
            if !self.busy.insert(name.clone()) {
                self.again.insert(name);
                continue;
            }
            let (verbs, served) = (self.verbs.clone(), self.served.clone());
            let unserved = self.unserved.clone();
            self.work.spawn(async move {
                let progress = clear(&verbs, &served, unserved.as_deref(), &name).await;
                (name, progress)
            });
        }
    }

    async fn wait(&mut self) {
        let next = self.due.next().filter(|_| self.work.len() < MAX_ENDING);
        tokio::select! {
            () = self.streams.changed() => {}
            done = self.work.join_next(), if !self.work.is_empty() => self.done(done),
            () = machine::until(next) => {}
        }
    }

    fn is_ending(&self, name: &str) -> bool {
        let namespaces = self.verbs.cache.resource(&self.served.id).snapshot();
        namespaces.get("", name).is_some_and(|namespace| namespace.terminating)
    }

    fn done(&mut self, done: Option<Result<Done, JoinError>>) {
        match done {
            Some(Ok((name, progress))) => {
                self.busy.remove(&name);
                if self.again.remove(&name) {
                    self.due.insert(name.clone(), machine::now(), ());
                }
                match progress {
                    // Meanwhile there is another of that name, and it is ending as well.
                    Ok(Progress::Finished | Progress::Living) if self.is_ending(&name) => {
                        self.due.insert(name, machine::now(), ());
                    }
                    Ok(Progress::Finished) => {
                        self.due.remove(&name);
                        self.ended.insert(name, machine::now() + LATECOMERS, ());
                    }
                    Ok(Progress::Waiting) => {}
                    Ok(Progress::Living) => {
                        self.due.remove(&name);
                        self.ended.remove(&name);
                    }
                    Err(status) => {
                        if !matches!(status.code(), 404 | 409) {
                            tracing::warn!(namespace = name, %status, "a namespace cannot be cleared yet");
                        }
                        if status.code() == 409 {
                            self.due.insert(name, machine::now(), ());
                        }
                    }
                }
            }
            Some(Err(error)) => tracing::error!(%error, "the end of a namespace was cut off"),
            None => {}
        }
    }
}

/// What is left of a namespace's content.
#[derive(Debug, Default)]
struct Left {
    /// How many objects, by `RESOURCE.GROUP`.
    resources: BTreeMap<String, usize>,
    /// How many objects wait for a finalizer, by its name.
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

async fn clear(
    verbs: &Arc<Verbs>,
    namespaces: &Served,
    unserved: Option<&dyn Unserved>,
    name: &str,
) -> Result<Progress, Failure> {
    let target = Target { served: namespaces, namespace: "", name };
    let namespace = match verbs.get(target) {
        Ok(namespace) => namespace,
        Err(status) if status.code == 404 => {
            // Something came in while it ended.
            let is_gone = || verbs.get(target).is_err_and(|status| status.code == 404);
            delete_content(verbs, name, |_| true, is_gone).await;
            return Ok(Progress::Finished);
        }
        Err(status) => return Err(status.into()),
    };
    if !namespace.terminating {
        return Ok(Progress::Living);
    }
    let namespace = namespace.value();
    if !namespace.field("spec").items("finalizers").iter().any(|finalizer| finalizer == FINALIZER) {
        // Others hold it, and tell when they let go.
        return Ok(Progress::Waiting);
    }
    verbs.definitions_in_effect().await;
    let uid = namespace.field("metadata").text("uid");
    let is_same = || verbs.get(target).is_ok_and(|found| uid_of(&found).as_deref() == Some(uid));
    let is_pod = |served: &Served| served.group().is_empty() && served.kind() == "Pod";
    let mut left = delete_content(verbs, name, is_pod, is_same).await;
    if left.resources.is_empty() && left.failures.is_empty() {
        left = delete_content(verbs, name, |served| !is_pod(served), is_same).await;
    }
    if left.resources.is_empty()
        && left.failures.is_empty()
        && let Some(unserved) = unserved
    {
        left.failures = still_held(verbs, unserved, name).await;
    }
    let now = verbs.now();
    let conditions = conditions(&left);
    let tell = |namespace: &mut Value| {
        // It is another of that name by now if somebody else let it go.
        if namespace.field("metadata").text("uid") == uid {
            set_conditions(namespace, &conditions, &now);
        }
    };
    verbs.change_own(target, tell, status_writer(&NAMESPACES)).await?;
    if !left.resources.is_empty() || !left.failures.is_empty() {
        return Ok(Progress::Waiting);
    }
    let mut namespace = verbs.get(target)?.value();
    if namespace.field("metadata").text("uid") != uid {
        return Ok(Progress::Living);
    }
    let finalizers = namespace.field("spec").items("finalizers").iter();
    let others: Vec<Value> = finalizers.filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    namespace.object_mut("spec").set("finalizers", others);
    let writer = Writer { subresource: "finalize", ..writer(&NAMESPACES) };
    verbs.finalize(target, namespace, writer).await?;
    Ok(if verbs.get(target).is_ok() { Progress::Waiting } else { Progress::Finished })
}

/// Deletes all objects of some resources in a namespace, and tells what stays. `holds` says whether the
/// namespace is still what the objects were found in: what comes into another of its name is not touched.
async fn delete_content(
    verbs: &Arc<Verbs>,
    namespace: &str,
    of: impl Fn(&Served) -> bool,
    holds: impl Fn() -> bool,
) -> Left {
    let mut left = Left::default();
    for (id, served) in stored_resources(verbs) {
        if !served.is_namespaced() || !of(&served) {
            continue;
        }
        let snapshot = verbs.cache.resource(&id).snapshot();
        let objects: Vec<Arc<Object>> = snapshot.iter(Some(namespace), None).cloned().collect();
        if let Err(status) = verbs.check_all_readable(&id, Some(namespace)) {
            left.failures.push(status.to_string());
        }
        if objects.is_empty() {
            continue;
        }
        if !holds() {
            return left;
        }
        let mut writes: JoinSet<Result<(), Failure>> = JoinSet::new();
        for object in objects {
            if object.terminating {
                continue;
            }
            while writes.len() >= MAX_WRITES {
                note(writes.join_next().await, &mut left);
            }
            let (verbs, served) = (verbs.clone(), served.clone());
            writes.spawn(async move {
                let target = Target { served: &served, namespace: object.namespace(), name: object.name() };
                let options = DeleteOptions {
                    uid: uid_of(&object),
                    propagation: Some(Propagation::Background),
                    ..DeleteOptions::default()
                };
                delete(&verbs, target, &options, &NAMESPACES).await
            });
        }
        while let Some(done) = writes.join_next().await {
            note(Some(done), &mut left);
        }
        left.count(&served, verbs.cache.resource(&id).snapshot().iter(Some(namespace), None));
    }
    left
}

/// What keeps a namespace that has nothing more of what this server serves: to another server it is not empty.
async fn still_held(verbs: &Verbs, unserved: &dyn Unserved, namespace: &str) -> Vec<String> {
    // Others may have written what is not here yet.
    if let Err(behind) = verbs.cache.catches_up(PATIENCE).await {
        return vec![behind.to_string()];
    }
    let served = stored_resources(verbs);
    let others = verbs.cache.resources().into_iter().filter(|resource| {
        let is_here = || resource.snapshot().iter(Some(namespace), None).next().is_some();
        !served.contains_key(&resource.id) && is_here()
    });
    let mut held: Vec<String> = others
        .map(|resource| format!("there are {}, which this server does not serve", named(&resource.id)))
        .collect();
    match unserved.in_namespace(namespace).await {
        Ok(keys) => {
            let told = |key: &String| format!("`{key}` is of no kind that this server serves");
            held.extend(keys.iter().map(told));
        }
        Err(error) => held.push(error),
    }
    // Of a kind that is served something may have come in meanwhile.
    let come = served.iter().filter(|(id, served)| {
        let is_here = || verbs.cache.resource(id).snapshot().iter(Some(namespace), None).next().is_some();
        served.is_namespaced() && is_here()
    });
    held.extend(come.map(|(id, _)| format!("there are {} again", named(id))));
    held
}

/// `RESOURCE.GROUP`, as conditions have it.
fn named(ResourceId { group, resource }: &ResourceId) -> String {
    if group.is_empty() { resource.to_string() } else { format!("{resource}.{group}") }
}

fn uid_of(object: &Object) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }
    object.read::<Named>().map(|named| named.metadata.uid)
}

fn note(done: Option<Result<Result<(), Failure>, JoinError>>, left: &mut Left) {
    match done {
        // Somebody else was faster, which is as good.
        Some(Ok(Err(status))) if !matches!(status.code(), 404 | 409) => {
            left.failures.push(status.to_string());
        }
        Some(Err(error)) => left.failures.push(error.to_string()),
        _ => {}
    }
}

impl Left {
    fn count<'a>(&mut self, served: &Served, objects: impl Iterator<Item = &'a Arc<Object>>) {
        for object in objects {
            let resource = format!("{}.{}", served.resource.plural, served.group());
            *self.resources.entry(resource).or_default() += 1;
            for finalizer in object.value().field("metadata").items("finalizers") {
                let finalizer = finalizer.as_str().unwrap_or_default().to_owned();
                *self.finalizers.entry(finalizer).or_default() += 1;
            }
        }
    }
}

/// Type, status, reason and message.
type Condition = (&'static str, bool, &'static str, String);

fn conditions(left: &Left) -> Vec<Condition> {
    let counted = |counts: &BTreeMap<String, usize>, what: &str| -> String {
        let all = counts.iter().map(|(name, count)| format!("{name} {what} {count} resource instances"));
        all.collect::<Vec<_>>().join(", ")
    };
    let mut failures = left.failures.clone();
    failures.sort();
    failures.dedup();
    vec![
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".into(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into(),
        ),
        if failures.is_empty() {
            let message = "All content successfully deleted, may be waiting on finalization";
            ("NamespaceDeletionContentFailure", false, "ContentDeleted", message.into())
        } else {
            let message = format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                failures.join(", ")
            );
            ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", message)
        },
        if left.resources.is_empty() {
            let message = "All content successfully removed";
            ("NamespaceContentRemaining", false, "ContentRemoved", message.into())
        } else {
            let message = format!("Some resources are remaining: {}", counted(&left.resources, "has"));
            ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
        },
        if left.finalizers.is_empty() {
            let message = "All content-preserving finalizers finished";
            ("NamespaceFinalizersRemaining", false, "ContentHasNoFinalizers", message.into())
        } else {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                counted(&left.finalizers, "in")
            );
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
        },
    ]
}

/// The time of a condition is when its status changed.
fn set_conditions(namespace: &mut Value, conditions: &[Condition], now: &str) {
    let status = namespace.object_mut("status");
    let mut all = status.items("conditions").to_vec();
    for (kind, is_so, reason, message) in conditions {
        let is_so = if *is_so { "True" } else { "False" };
        let mut new = json!({
            "type": kind,
            "status": is_so,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        });
        match all.iter_mut().find(|condition| condition.text("type") == *kind) {
            Some(old) => {
                if old.text("status") == is_so {
                    new.set("lastTransitionTime", old.field("lastTransitionTime").clone());
                }
                *old = new;
            }
            None => all.push(new),
        }
    }
    status.set("conditions", all);
}
