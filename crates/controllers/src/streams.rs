//! Following all resources at once, built-in and custom, as definitions come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use sternpost_cache::{Event, Moment, Progress, Reading, ResourceCache, ResourceId, Seen, Snapshot};
use sternpost_clock::machine;
use sternpost_meta::resource::Verb;
use sternpost_verbs::{
    Verbs, definitions,
    served::{Served, is_built_in},
};

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
    followed: BTreeMap<ResourceId, Stream>,
    definitions: Arc<ResourceCache>,
    /// Definitions up to here are followed.
    followed_definitions: Option<Seen>,
    /// What changed up to here has been looked at.
    looked: Moment,
    progress: Progress,
    pause: Duration,
}

#[derive(Debug)]
struct Stream {
    served: Arc<Served>,
    cache: Arc<ResourceCache>,
    place: Seen,
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
        let progress = verbs.cache.progress();
        let definitions = verbs.cache.resource(&ResourceId::new(definitions::GROUP, definitions::PLURAL));
        Self {
            verbs,
            followed: BTreeMap::new(),
            definitions,
            followed_definitions: None,
            looked: Moment::default(),
            progress,
            pause: LEAST_PAUSE,
        }
    }

    /// Waits until anything at all has changed.
    pub async fn changed(&mut self) {
        // What is written in a row is looked at once.
        machine::sleep(self.pause).await;
        if !self.progress.changed().await {
            // The cache has ended, and so will the process.
            std::future::pending::<()>().await;
        }
    }

    /// Everything that happened since the last look.
    pub async fn look(&mut self) -> Vec<News> {
        // Both are noted before the wait: a definition that is written meanwhile may not be in effect when
        // the wait is over, and is left to the next look.
        self.progress.seen();
        let now = self.verbs.cache.moment();
        let definitions = self.definitions.snapshot().seen();
        self.verbs.definitions_in_effect().await;
        let begun = machine::now();
        let mut news = Vec::new();
        self.follow_definitions(definitions, &mut news);
        match self.verbs.cache.changed_after(self.looked) {
            Some(changed) => {
                for resource in changed {
                    if let Some(stream) = self.followed.get_mut(&resource.id) {
                        stream.look(&mut news);
                    }
                }
            }
            None => self.followed.values_mut().for_each(|stream| stream.look(&mut news)),
        }
        self.looked = now;
        self.pause = (machine::elapsed(begun) * PAUSE_FACTOR).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        news
    }

    /// The resource, if it is followed.
    pub fn get(&self, id: &ResourceId) -> Option<&Arc<Served>> {
        self.followed.get(id).map(|stream| &stream.served)
    }

    /// Follows what is served by the definitions that were seen.
    fn follow_definitions(&mut self, seen: Seen, news: &mut Vec<News>) {
        let Some(before) = self.followed_definitions.replace(seen).filter(|_| !self.followed.is_empty())
        else {
            return self.follow_all(news);
        };
        if seen == before {
            return;
        }
        let mut changed = BTreeSet::new();
        let read = self.definitions.read_events(before, |event| {
            if event.revision > seen.revision {
                return Reading::Stop;
            }
            changed.insert(event.object.name().to_owned());
            Reading::GoOn
        });
        if read.is_err() {
            return self.follow_all(news);
        }
        for name in changed {
            // The name of a definition is that of its resource, a dot, and its group. None is served in a
            // built-in group.
            let Some((plural, group)) = name.split_once('.').filter(|(_, group)| !is_built_in(group)) else {
                continue;
            };
            let id = ResourceId::new(group, plural);
            let installed = self.verbs.served.customs.installed(&name);
            let served = installed.as_ref().and_then(|installed| stored_version(&installed.served));
            match served {
                Some(served) => self.follow(id, served.clone(), news),
                None if self.followed.remove(&id).is_some() => news.push(News::Ended(id)),
                None => {}
            }
        }
    }

    fn follow_all(&mut self, news: &mut Vec<News>) {
        let all = stored_resources(&self.verbs);
        self.followed.retain(|id, _| {
            let goes_on = all.contains_key(id);
            if !goes_on {
                news.push(News::Ended(id.clone()));
            }
            goes_on
        });
        for (id, served) in all {
            self.follow(id, served, news);
        }
    }

    fn follow(&mut self, id: ResourceId, served: Arc<Served>, news: &mut Vec<News>) {
        if let Some(stream) = self.followed.get_mut(&id) {
            stream.served = served;
            return;
        }
        let cache = self.verbs.cache.resource(&id);
        let snapshot = cache.snapshot();
        let place = snapshot.seen();
        news.push(News::All(served.clone(), snapshot));
        self.followed.insert(id, Stream { served, cache, place });
    }
}

impl Stream {
    fn look(&mut self, news: &mut Vec<News>) {
        if !self.cache.is_newer_than(self.place) {
            return;
        }
        let snapshot = self.cache.snapshot();
        let mut events = Vec::new();
        let read = self.cache.read_events(self.place, |event| {
            events.push(event.clone());
            Reading::GoOn
        });
        if read.is_err() {
            self.place = snapshot.seen();
            news.push(News::All(self.served.clone(), snapshot));
            return;
        }
        if let Some(last) = events.last() {
            self.place.revision = last.revision;
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
        if !can_be_followed(served) {
            continue;
        }
        let is_better = |known: &Arc<Served>| rank(served) > rank(known);
        if all.get(&served.id).is_none_or(is_better) {
            all.insert(served.id.clone(), served.clone());
        }
    }
    all
}

/// Of the versions of one resource that which [`stored_resources`] has.
fn stored_version(versions: &[Arc<Served>]) -> Option<&Arc<Served>> {
    // The first of several that are equal, as there.
    versions.iter().filter(|served| can_be_followed(served)).rev().max_by_key(|served| rank(served))
}

fn can_be_followed(served: &Served) -> bool {
    let can = |verb| served.resource.verbs.contains(&verb);
    can(Verb::Delete) && can(Verb::List) && can(Verb::Watch)
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
    use sternpost_store::{Revision, Store, Transaction, Write, memory::MemoryStore};
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
        assert!(verbs.cache.main_line().reaches(revision, Duration::from_secs(120)).await);
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

        // Nothing is told again of what stays, and objects of it are.
        let key = |plural: &str| object_key(&id, "", &format!("{plural}.sea.test"));
        let buoys = ResourceId::new("sea.test", "buoys");
        let buoy = Transaction::create(object_key(&buoys, "a", "b"), encode(&json!({"metadata": {}})));
        store.commit(buoy).await.unwrap();
        let gone = Transaction::write([Write::delete(key("gulls"))]);
        let gone = store.commit(gone).await.unwrap().revision;
        assert!(verbs.cache.main_line().reaches(gone, Duration::from_secs(120)).await);
        customs.remove("gulls.sea.test");
        customs.applied(gone.get());
        let news = streams.look().await;
        assert_eq!(told(&news), <[&str; 0]>::default());
        let ended = |news: &News| matches!(news, News::Ended(id) if &*id.resource == "gulls");
        let changed = |news: &News| matches!(news, News::Changes(served, events) if served.id == buoys && events.len() == 1);
        assert_eq!(
            (
                news.iter().filter(|news| ended(news)).count(),
                news.iter().filter(|news| changed(news)).count()
            ),
            (1, 1)
        );
        assert!(streams.get(&buoys).is_some());
        feeder.abort();
    }
}
