//! Following all resources at once, built-in and custom, as definitions come and go.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sternpost_cache::{Event, Reading, ResourceCache, ResourceId, Snapshot};
use sternpost_clock::machine;
use sternpost_meta::resource::Verb;
use sternpost_store::Revision;
use sternpost_verbs::{Verbs, definitions, served::Served};
use tokio::sync::watch;

/// Between two looks at all resources: changes that come together are seen together.
const LEAST_PAUSE: Duration = Duration::from_millis(2);

/// A look at thousands of resources takes longer; no more than this part of the time goes into looking.
const PAUSE_FACTOR: u32 = 20;

/// Nobody is made to wait for longer, however busy the machine is.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The resources that can be deleted, listed and watched, each with the place up to which its changes
/// are known.
#[derive(Debug)]
pub(crate) struct Streams {
    verbs: Arc<Verbs>,
    /// By their ids, in order.
    followed: Vec<Stream>,
    definitions: Arc<ResourceCache>,
    /// Definitions up to here are followed.
    followed_definitions: Revision,
    revisions: watch::Receiver<u64>,
    pause: Duration,
}

#[derive(Debug)]
struct Stream {
    served: Arc<Served>,
    cache: Arc<ResourceCache>,
    place: Revision,
}

/// What became of a resource since the last look.
#[derive(Debug)]
pub(crate) enum News {
    /// It is followed from now on, or its changes were too many: what there is of it.
    All(Arc<Served>, Arc<Snapshot>),
    Changes(Arc<Served>, Vec<Arc<Event>>),
    /// Nobody serves it any more.
    Ended(ResourceId),
}

impl Streams {
    /// Nothing is followed yet: the first look tells of everything.
    pub fn new(verbs: Arc<Verbs>) -> Self {
        let revisions = verbs.cache.revisions();
        let definitions = verbs.cache.resource(&ResourceId::new(definitions::GROUP, definitions::PLURAL));
        Self {
            verbs,
            followed: Vec::new(),
            definitions,
            followed_definitions: Revision::FIRST,
            revisions,
            pause: LEAST_PAUSE,
        }
    }

    /// Waits until anything at all has changed.
    pub async fn changed(&mut self) {
        // What is written in a row is looked at once.
        machine::sleep(self.pause).await;
        if self.revisions.changed().await.is_err() {
            // The cache has ended, and so will the process.
            std::future::pending::<()>().await;
        }
    }

    /// Everything that happened since the last look.
    pub async fn look(&mut self) -> Vec<News> {
        // Both are noted before the wait: a definition that is written meanwhile may not be in effect when
        // the wait is over, and is left to the next look.
        self.revisions.mark_unchanged();
        let definitions = self.definitions.snapshot().revision;
        self.verbs.definitions_in_effect().await;
        let begun = machine::now();
        let mut news = Vec::new();
        self.follow_definitions(definitions, &mut news);
        // Nearly all are as they were.
        for stream in self.followed.iter_mut().filter(|stream| stream.cache.is_newer_than(stream.place)) {
            stream.look(&mut news);
        }
        self.pause = (machine::elapsed(begun) * PAUSE_FACTOR).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        news
    }

    /// The resource, if it is followed.
    pub fn get(&self, id: &ResourceId) -> Option<&Arc<Served>> {
        let at = self.followed.binary_search_by(|stream| stream.served.id.cmp(id)).ok()?;
        self.followed.get(at).map(|stream| &stream.served)
    }

    fn follow_definitions(&mut self, revision: Revision, news: &mut Vec<News>) {
        if revision == self.followed_definitions && !self.followed.is_empty() {
            return;
        }
        self.followed_definitions = revision;
        let all = stored_resources(&self.verbs);
        self.followed.retain(|stream| {
            let goes_on = all.contains_key(&stream.served.id);
            if !goes_on {
                news.push(News::Ended(stream.served.id.clone()));
            }
            goes_on
        });
        // Both are in order, and nothing is followed that is not among all.
        let mut followed = std::mem::take(&mut self.followed).into_iter().peekable();
        for (id, served) in all {
            let stream = match followed.next_if(|stream| stream.served.id == id) {
                Some(stream) => Stream { served, ..stream },
                None => {
                    let cache = self.verbs.cache.resource(&id);
                    let snapshot = cache.snapshot();
                    let place = snapshot.revision;
                    news.push(News::All(served.clone(), snapshot));
                    Stream { served, cache, place }
                }
            };
            self.followed.push(stream);
        }
    }
}

impl Stream {
    fn look(&mut self, news: &mut Vec<News>) {
        let snapshot = self.cache.snapshot();
        let mut events = Vec::new();
        let read = self.cache.read_events(self.place, |event| {
            events.push(event.clone());
            Reading::GoOn
        });
        if read.is_err() {
            self.place = snapshot.revision;
            news.push(News::All(self.served.clone(), snapshot));
            return;
        }
        if let Some(last) = events.last() {
            self.place = last.revision;
            news.push(News::Changes(self.served.clone(), events));
        }
    }
}

/// One version of every resource whose objects can be listed, watched and deleted: the one that its
/// objects are stored in.
pub(crate) fn stored_resources(verbs: &Verbs) -> BTreeMap<ResourceId, Arc<Served>> {
    let mut all: BTreeMap<ResourceId, Arc<Served>> = BTreeMap::new();
    let customs = verbs.served.customs.all();
    for served in verbs.served.all_built_in().chain(&customs) {
        let can = |verb| served.resource.verbs.contains(&verb);
        if !(can(Verb::Delete) && can(Verb::List) && can(Verb::Watch)) {
            continue;
        }
        let is_better = |known: &Arc<Served>| rank(served) > rank(known);
        if all.get(&served.id).is_none_or(is_better) {
            all.insert(served.id.clone(), served.clone());
        }
    }
    all
}

/// The version that is stored comes before all others, a stable one before the rest.
fn rank(served: &Served) -> (bool, bool, &str) {
    let version = &*served.resource.gv.version;
    (served.is_storage_version(), !version.contains("alpha") && !version.contains("beta"), version)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sternpost_cache::{Cache, encode, object_key};
    use sternpost_clock::Clock;
    use sternpost_store::{Store, Transaction, memory::MemoryStore};
    use sternpost_verbs::{
        index::Selectable,
        served::{ServedResources, is_built_in},
    };

    use super::*;

    /// Stores an established definition, past all that would wait until it is in effect.
    async fn define(verbs: &Verbs, store: &dyn Store, plural: &str) -> (Value, Revision) {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.sea.test"), "uid": plural},
            "spec": {
                "group": "sea.test", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
            "status": {
                "acceptedNames": {"plural": plural, "kind": plural},
                "conditions": [{"type": "Established", "status": "True"}],
                "storedVersions": ["v1"],
            },
        });
        let id = ResourceId::new(definitions::GROUP, definitions::PLURAL);
        let key = object_key(&id, "", &format!("{plural}.sea.test"));
        let revision = store.commit(Transaction::create(key, encode(&crd))).await.unwrap().revision;
        assert!(verbs.cache.reaches(revision, Duration::from_secs(120)).await);
        (crd, revision)
    }

    fn told<'a>(news: &'a [News]) -> Vec<&'a str> {
        let of = |news: &'a News| match news {
            News::All(served, _) if !is_built_in(served.group()) => Some(&*served.resource.plural),
            _ => None,
        };
        news.iter().filter_map(of).collect()
    }

    #[tokio::test]
    async fn a_definition_written_while_another_comes_into_effect_is_followed_too() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let (cache, feeder) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await.unwrap();
        let feeder = tokio::spawn(feeder.run());
        let verbs = Arc::new(Verbs::new(ServedResources::built_in(), cache, store.clone(), Clock::system()));
        let customs = &verbs.served.customs;
        let id = ResourceId::new(definitions::GROUP, definitions::PLURAL);
        customs.applied(verbs.cache.resource(&id).snapshot().revision.get());
        let mut streams = Streams::new(verbs.clone());
        streams.look().await;

        let (first, first_revision) = define(&verbs, &*store, "buoys").await;
        let (news, (second, second_revision)) = tokio::join!(biased; streams.look(), async {
            let second = define(&verbs, &*store, "gulls").await;
            customs.install(&first, first_revision);
            customs.applied(first_revision.get());
            second
        });
        assert_eq!(told(&news), ["buoys"]);
        customs.install(&second, second_revision);
        customs.applied(second_revision.get());
        streams.changed().await;
        assert_eq!(told(&streams.look().await), ["gulls"]);
        feeder.abort();
    }
}
