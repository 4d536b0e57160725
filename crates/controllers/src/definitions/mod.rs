//! CustomResourceDefinitions: what they define is served, by the names they
//! are given, and goes with them.
//!
//! Two tasks follow the definitions. One keeps the table of what is served and
//! has it published, and does nothing that waits ([`Serving`]). The other writes
//! to definitions: conditions and accepted names, and their end ([`naming`],
//! [`ending`]). A third keeps an APIService for each group-version
//! ([`registering`]).

mod ending;
mod naming;
mod registering;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sternpost_cache::Object;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Verbs, custom::Change, definitions, served::Served};
use tokio::sync::Notify;

use crate::follow::{Follow, News, ObjectChange};

/// Told the name of a definition and its group, which are to be published anew, and what changed. Called
/// before whoever changed the definition has an answer.
pub type Publish = dyn Fn(&str, &str, Change) + Send + Sync;

/// Starts with everything that is defined already in the table and published.
pub async fn start(verbs: Arc<Verbs>, tasks: &Tasks, publish: Arc<Publish>) {
    let Some(served) = verbs.served.get(definitions::GROUP, "v1", definitions::PLURAL) else { return };
    let (objects, follow) = Follow::start(verbs.clone(), served.clone()).await;
    let changed = Arc::new(ChangedGroups::default());
    let groups = changed.clone();
    let mut serving = Serving { verbs: verbs.clone(), publish, changed, known: BTreeSet::new() };
    serving.all(&objects);
    verbs.served.customs.applied(follow.revision());
    tasks.essential("definitions", serving.run(follow));
    if verbs.is_read_only() {
        // Others decide which names are whose, and register groups.
        return;
    }
    let apart = verbs.clone();
    tasks.forever("definitions-registering", move || registering::run(apart.clone(), groups.clone()));
    let ends = tasks.clone();
    tasks.forever("definitions-naming", move || naming::run(verbs.clone(), served.clone(), ends.clone()));
}

/// The table of what is served.
struct Serving {
    verbs: Arc<Verbs>,
    publish: Arc<Publish>,
    /// Told the groups in which something changed.
    changed: Arc<ChangedGroups>,
    /// Names of the definitions that there are.
    known: BTreeSet<String>,
}

/// Groups in which something changed since they were last taken.
#[derive(Debug, Default)]
struct ChangedGroups {
    groups: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl ChangedGroups {
    fn add(&self, group: String) {
        self.groups().insert(group);
        self.more.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.groups())
    }

    fn groups(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serving {
    async fn run(mut self, mut follow: Follow) {
        loop {
            match follow.next().await {
                News::All(objects) => self.all(&objects),
                News::Changes(changes) => {
                    for change in changes {
                        match change {
                            ObjectChange::Now(object) => self.now(&object),
                            ObjectChange::Gone(object) => self.gone(object.name()),
                        }
                    }
                }
            }
            self.verbs.served.customs.applied(follow.revision());
        }
    }

    fn all(&mut self, objects: &[Arc<Object>]) {
        let found: BTreeSet<String> = objects.iter().map(|object| object.name().to_owned()).collect();
        for name in self.known.difference(&found).cloned().collect::<Vec<_>>() {
            self.gone(&name);
        }
        for object in objects {
            self.now(object);
        }
    }

    fn now(&mut self, object: &Object) {
        self.known.insert(object.name().to_owned());
        let customs = &self.verbs.served.customs;
        // Most are seen once before they are established; those need not be read.
        if customs.installed(object.name()).is_none() && !object.mentions("\"Established\"") {
            return;
        }
        let change = customs.install(&object.value(), object.revision);
        if change != Change::None {
            self.publish(object.name(), change);
        }
    }

    fn gone(&mut self, name: &str) {
        self.known.remove(name);
        if self.verbs.served.customs.remove(name) {
            self.publish(name, Change::All);
        }
    }

    fn publish(&self, name: &str, change: Change) {
        (self.publish)(name, group_of(name), change);
        // Fails only when nobody listens any more, at the end of the process.
        self.changed.add(group_of(name).to_owned());
    }
}

/// The name of a definition is that of its resource, a dot, and its group.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// The definition of this name, as a target for verbs.
fn target<'a>(served: &'a Served, name: &'a str) -> sternpost_verbs::Target<'a> {
    sternpost_verbs::Target { served, namespace: "", name }
}
