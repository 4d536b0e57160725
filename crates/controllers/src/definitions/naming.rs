//! Which names a definition gets, and what its status says of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use sternpost_cache::Object;
use sternpost_crd::{
    definition::Names,
    names::{self, Outline, Taken},
};
use sternpost_registry::validation::ca_bundle;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Failure, Verbs, Writer, served::Served};
use tokio::task::JoinSet;

use super::{ending, group_of, target};
use crate::follow::{Follow, News, ObjectChange};

/// Writes under way at a time: enough to share the store's commits.
const MAX_WRITES: usize = 64;

/// As whom the server writes to the status of definitions.
pub(super) fn writer() -> Writer<'static> {
    Writer { subresource: "status", ..Writer::server() }
}

pub(super) async fn run(verbs: Arc<Verbs>, served: Arc<Served>, tasks: Tasks) {
    let (objects, mut follow) = Follow::start(verbs.clone(), served.clone()).await;
    let mut naming = Naming { verbs, served, tasks, groups: HashMap::new(), ending: BTreeSet::new() };
    naming.all(&objects).await;
    loop {
        match follow.next().await {
            News::All(objects) => naming.all(&objects).await,
            News::Changes(changes) => naming.changes(changes).await,
        }
    }
}

struct Naming {
    verbs: Arc<Verbs>,
    served: Arc<Served>,
    tasks: Tasks,
    groups: HashMap<String, Group>,
    /// Definitions whose end somebody sees to.
    ending: BTreeSet<(String, String)>,
}

/// The definitions of one group.
#[derive(Debug, Default)]
struct Group {
    taken: Taken,
    /// What each definition has been given.
    accepted: BTreeMap<String, Names>,
    /// Definitions that did not get all they asked for.
    wanting: BTreeSet<String>,
}

impl Group {
    /// Notes the names that a definition has now.
    fn give(&mut self, name: &str, names: Names) {
        self.take_back(name);
        self.taken.add(&names);
        self.accepted.insert(name.to_owned(), names);
    }

    fn take_back(&mut self, name: &str) {
        if let Some(before) = self.accepted.remove(name) {
            self.taken.remove(&before);
        }
    }
}

impl Naming {
    async fn all(&mut self, objects: &[Arc<Object>]) {
        self.groups.clear();
        for object in objects {
            if let Some(crd) = object.read::<Outline>() {
                self.note(object.name(), &crd);
            }
        }
        // As they are when it is their turn: of many, all would be held meanwhile.
        self.decide_all(objects.iter().map(|object| (object.name().to_owned(), None)).collect()).await;
    }

    async fn changes(&mut self, changes: Vec<ObjectChange>) {
        let mut names = BTreeMap::new();
        for change in changes {
            match change {
                ObjectChange::Now(object) => {
                    // As it is by now: it may be our own doing that made it so.
                    let name = object.name();
                    if let Some(crd) = self.outline(name) {
                        self.note(name, &crd);
                        names.insert(name.to_owned(), Some(crd));
                    }
                }
                ObjectChange::Gone(object) => {
                    let name = object.name();
                    self.ending.retain(|(ending, _)| ending != name);
                    let group = group_of(name);
                    if let Some(of_group) = self.groups.get_mut(group) {
                        of_group.take_back(name);
                        of_group.wanting.remove(name);
                        // What it had is free for those who wait for it.
                        names.extend(of_group.wanting.iter().map(|name| (name.clone(), None)));
                        if of_group.accepted.is_empty() && of_group.wanting.is_empty() {
                            self.groups.remove(group);
                        }
                    }
                }
            }
        }
        self.decide_all(names).await;
    }

    /// What is known of a definition now.
    fn outline(&self, name: &str) -> Option<Outline> {
        self.verbs.get(target(&self.served, name)).ok()?.read()
    }

    /// Keeps account of the names that a definition says it has.
    fn note(&mut self, name: &str, crd: &Outline) {
        let group = self.groups.entry(group_of(name).to_owned()).or_default();
        group.give(name, crd.status.accepted_names.clone());
    }

    /// Decides one after the other, and writes what was decided together. What is known of a definition need
    /// not be read again: should it have changed since, that is seen, and decided again.
    async fn decide_all(&mut self, names: BTreeMap<String, Option<Outline>>) {
        let mut writes: JoinSet<Result<(), Failure>> = JoinSet::new();
        let mut waiting: Vec<(String, Option<Outline>)> = names.into_iter().collect();
        while let Some((name, known)) = waiting.pop() {
            let again = self.decide(&name, known, &mut writes);
            waiting.extend(again.into_iter().map(|name| (name, None)));
            while writes.len() >= MAX_WRITES {
                done(writes.join_next().await);
            }
        }
        while let Some(write) = writes.join_next().await {
            done(Some(write));
        }
    }

    /// Returns the definitions that have to be looked at again because of it.
    fn decide(
        &mut self,
        name: &str,
        known: Option<Outline>,
        writes: &mut JoinSet<Result<(), Failure>>,
    ) -> Vec<String> {
        let Some(crd) = known.or_else(|| self.outline(name)) else { return Vec::new() };
        if crd.is_terminating() && self.ending.insert((name.to_owned(), crd.metadata.uid.clone())) {
            let (verbs, served, name) = (self.verbs.clone(), self.served.clone(), name.to_owned());
            self.tasks.until_done("definitions-ending", move || {
                ending::run(verbs.clone(), served.clone(), name.clone())
            });
            // Until it is gone it can still be given names.
        }
        let group = self.groups.entry(group_of(name).to_owned()).or_default();
        // What was given but is not written yet counts.
        let mut decided = crd.clone();
        let before = group.accepted.get(name).cloned().unwrap_or_default();
        decided.status.accepted_names = before.clone();
        let verdict = names::decide(&decided, &group.taken, ca_bundle::check);
        if verdict.names_accepted.status {
            group.wanting.remove(name);
        } else {
            group.wanting.insert(name.to_owned());
        }
        let freed = before != verdict.accepted && before != Names::default();
        group.give(name, verdict.accepted.clone());
        let again = if freed {
            group.wanting.iter().filter(|other| *other != name).cloned().collect()
        } else {
            Vec::new()
        };
        if !verdict.is_told_by(&crd) {
            let (verbs, served, name) = (self.verbs.clone(), self.served.clone(), name.to_owned());
            writes.spawn(async move {
                let target = target(&served, &name);
                let now = verbs.now();
                verbs.change_own(target, |crd| verdict.apply(crd, &now), writer()).await
            });
        }
        again
    }
}

/// A write that came too late is decided again when what it missed is seen.
fn done(write: Option<Result<Result<(), Failure>, tokio::task::JoinError>>) {
    match write {
        Some(Ok(Err(status))) if !matches!(status.code(), 404 | 409) => {
            tracing::error!(%status, "the status of a definition cannot be written");
        }
        Some(Err(error)) => tracing::error!(%error, "a write of a definition's status was cut off"),
        _ => {}
    }
}
