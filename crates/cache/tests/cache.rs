//! The cache on a store in memory: what it shows, and what it forgets.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_cache::{
    Cache, Divided, EventKind, Indexer, Labelled, MAX_INDEXED_LABELS, MAX_WINDOW_EVENTS, Moment, Overrides,
    Pairs, Reading, ResourceCache, ResourceId, encode, object_key, value_of,
};
use sternpost_store::{Revision, Store, Transaction, Write, memory::MemoryStore};
use sternpost_testkit::{
    shared_store::{SharedStore, Writers},
    store::{DifficultStore, OTHERS},
};

/// `data.x` can be selected by.
struct Data;

impl Indexer for Data {
    fn fields(&self, _: &ResourceId, stored: &[u8]) -> Pairs {
        let object = value_of(stored).unwrap();
        [("data.x", object["data"]["x"].as_str().unwrap())].into_iter().collect()
    }
}

struct Fixture {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    id: ResourceId,
}

impl Fixture {
    async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::default())).await
    }

    async fn on(store: Arc<dyn Store>) -> Self {
        let (cache, feeder) = Cache::start(store.clone(), Box::new(Data)).await.unwrap();
        tokio::spawn(feeder.run());
        Self { store, cache, id: ResourceId::new("", "configmaps") }
    }

    async fn commit(&self, write: Write) -> Revision {
        let revision = self.store.commit(Transaction::write([write])).await.unwrap().revision;
        assert!(self.cache.line(&self.id).reaches(revision, Duration::from_secs(60)).await);
        revision
    }

    async fn put(&self, namespace: &str, name: &str, data: &str) -> Revision {
        let metadata = json!({"name": name, "namespace": namespace, "uid": name, "labels": {"n": name}});
        let object = json!({"metadata": metadata, "data": {"x": data}});
        self.commit(Write::put(object_key(&self.id, namespace, name), encode(&object))).await
    }

    async fn delete(&self, namespace: &str, name: &str) -> Revision {
        self.commit(Write::delete(object_key(&self.id, namespace, name))).await
    }

    fn resource(&self) -> Arc<ResourceCache> {
        self.cache.resource(&self.id)
    }
}

#[tokio::test]
async fn a_store_that_does_not_hand_over_its_changes_is_watched() {
    let fixture = Fixture::on(Arc::new(DifficultStore::watched())).await;
    let waiters: Vec<_> = (0..100).map(|_| fixture.resource().waiter()).collect();
    let before = fixture.cache.main_line().revision();
    let first = fixture.put("a", "x", "1").await;
    fixture.put("a", "y", "1").await;
    fixture.delete("a", "x").await;
    for waiter in waiters {
        waiter.changed(before.into()).await;
    }
    let cache = fixture.resource();
    assert_eq!(objects(&cache, None, None), ["a/y=1"]);
    assert_eq!(objects(&cache, Some(first), None), ["a/x=1"]);
    assert_eq!(cache.events_after(Revision::FIRST).unwrap().len(), 3);
    let restarted = Fixture::on(fixture.store.clone()).await;
    assert_eq!(objects(&restarted.resource(), None, None), ["a/y=1"]);
}

#[tokio::test]
async fn what_was_forgotten_before_it_was_read_is_read_anew() {
    let memory = Arc::new(MemoryStore::default());
    let shared = SharedStore::of(memory.clone(), Writers::Several);
    let fixture = Fixture::on(shared.clone()).await;
    fixture.put("a", "x", "1").await;
    fixture.put("a", "y", "1").await;
    let (cache, before) = (fixture.resource(), fixture.cache.main_line().revision());
    let looked = fixture.cache.moment();
    let others = fixture.cache.resource(&ResourceId::new("", "secrets"));
    let label = |name| [Labelled { key: "n", values: name }];
    let (x, z) = (["x".to_owned()], ["z".to_owned()]);
    assert_eq!(cache.labelled(&label(&x), None, None).1.len(), 1);
    let waiter = cache.waiter();
    shared.hold_deliveries();
    let key = |name| object_key(&fixture.id, "a", name);
    let new = json!({"metadata": {"name": "z", "namespace": "a", "labels": {"n": "z"}}, "data": {"x": "2"}});
    let changes = [Write::delete(key("x")), Write::put(key("z"), encode(&new))];
    let changed = memory.commit(Transaction::write(changes)).await.unwrap().revision;
    shared.forget().await;

    waiter.changed(before.into()).await;
    assert!(fixture.cache.main_line().reaches(changed, Duration::from_secs(60)).await);
    assert_eq!(objects(&cache, None, None), ["a/y=1", "a/z=2"]);
    assert_eq!(cache.snapshot().count(Some("a")), 2);
    assert!(cache.labelled(&label(&x), None, None).1.is_empty());
    assert_eq!(cache.labelled(&label(&z), None, None).1.len(), 1);
    // What led there nobody knows, of any resource: watches end, and who follows looks at everything.
    assert!(cache.events_after(before).is_err() && others.events_after(before).is_err());
    assert!(cache.snapshot_at(before).is_err());
    assert!(fixture.cache.changed_after(looked).is_none());

    let looked = fixture.cache.moment();
    shared.deliver();
    let next = fixture.put("a", "w", "3").await;
    let told: Vec<Revision> =
        cache.events_after(changed).unwrap().iter().map(|event| event.revision).collect();
    assert_eq!(told, [next]);
    assert_eq!(fixture.cache.changed_after(looked).unwrap().len(), 1);
}

/// A cache of two stores that others write to; secrets are in the second.
async fn divided() -> (Fixture, Fixture, [Arc<SharedStore>; 2]) {
    let memory = || Arc::new(MemoryStore::default());
    let stores = [(); 2].map(|()| SharedStore::of(memory(), Writers::Several));
    let secrets = ResourceId::new("", "secrets");
    let overrides = Overrides::new([(secrets.clone(), 1)]);
    let [main, other] = stores.clone().map(|store| store as Arc<dyn Store>);
    let started = Cache::start_divided(Divided::new(main, vec![other]), overrides, Box::new(Data)).await;
    let (cache, feeders) = started.unwrap();
    feeders.into_iter().for_each(|feeder| drop(tokio::spawn(feeder.run())));
    let on = |store: &Arc<SharedStore>, id| Fixture { store: store.clone(), cache: cache.clone(), id };
    (on(&stores[0], ResourceId::new("", "configmaps")), on(&stores[1], secrets), stores)
}

#[tokio::test]
async fn each_store_has_a_line_of_its_own() {
    let (maps, secrets, _) = divided().await;
    for number in 0..20 {
        maps.put("a", "x", &number.to_string()).await;
    }
    let looked = maps.cache.moment();
    let mut progress = maps.cache.progress();
    progress.seen();
    let revision = secrets.put("a", "s", "1").await;
    let (of_maps, of_secrets) = (maps.cache.line(&maps.id), maps.cache.line(&secrets.id));
    assert!(revision < of_maps.revision(), "it counts by itself");
    assert_eq!(of_secrets.revision(), revision);
    assert_eq!(objects(&secrets.resource(), None, None), ["a/s=1"]);
    // Who follows all resources hears of both, however the lines are numbered.
    assert!(progress.changed().await);
    let changed = maps.cache.changed_after(looked).unwrap();
    assert_eq!(changed.iter().map(|resource| &*resource.id.resource).collect::<Vec<_>>(), ["secrets"]);
    assert!(maps.cache.is_divided());
    assert_eq!(maps.cache.lines_of(|_| true).len(), 2);
    assert_eq!(maps.cache.lines_of(|_| false).len(), 1);
}

#[tokio::test]
async fn a_store_that_is_late_or_forgets_holds_up_its_own_line_alone() {
    let (maps, secrets, [_, other]) = divided().await;
    let before = secrets.put("a", "s", "1").await;
    let map = maps.put("a", "x", "1").await;
    other.hold_deliveries();
    let held = other.commit(Transaction::write([Write::delete(object_key(&secrets.id, "a", "s"))]));
    let held = held.await.unwrap().revision;
    let moment = Duration::from_millis(10);
    let line = maps.cache.line(&secrets.id);
    assert!(!line.reaches(held, moment).await && line.catches_up(moment).await.is_err());
    assert!(maps.cache.catches_up(moment).await.is_err());
    maps.put("a", "y", "1").await;
    assert_eq!(maps.cache.line(&maps.id).catches_up(Duration::from_secs(60)).await, Ok(()));

    let waiter = secrets.resource().waiter();
    other.forget().await;
    waiter.changed(before.into()).await;
    assert_eq!(objects(&secrets.resource(), None, None), Vec::<String>::new());
    assert!(secrets.resource().events_after(before).is_err());
    assert_eq!(maps.resource().events_after(map).unwrap().len(), 1, "of the other line nothing is forgotten");
}

#[tokio::test]
async fn what_was_read_is_announced_while_a_broken_watch_is_taken_up() {
    let shared = SharedStore::of(Arc::default(), Writers::Several);
    let fixture = Fixture::on(shared.clone()).await;
    // So many that they are not told of every change at once.
    let waiters: Vec<_> = (0..100).map(|_| fixture.resource().waiter()).collect();
    let first = fixture.put("a", "x", "1").await;
    fixture.put("a", "x", "2").await;
    // It cannot be taken up before somebody says how new the store is.
    shared.hold_answers();
    shared.forget().await;
    for waiter in waiters {
        sternpost_clock::machine::timeout(Duration::from_secs(60), waiter.changed(first.into()))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn revisions_that_others_took_are_reached() {
    let fixture = Fixture::on(Arc::new(DifficultStore::shared())).await;
    fixture.put("a", "x", "1").await;
    // Waits until it is reached, though no change that the cache is told of has it.
    let others = fixture.commit(Write::put(OTHERS, "1")).await;
    assert!(fixture.cache.main_line().revision() >= others);
    fixture.put("a", "y", "1").await;
    let last = fixture.commit(Write::put(OTHERS, "2")).await;
    let restarted = Fixture::on(fixture.store.clone()).await;
    assert!(restarted.cache.main_line().revision() >= last);
    assert_eq!(objects(&restarted.resource(), None, None), ["a/x=1", "a/y=1"]);
}

/// `NAMESPACE/NAME=DATA` of each object.
fn objects(cache: &ResourceCache, at: Option<Revision>, namespace: Option<&str>) -> Vec<String> {
    let snapshot = at.map_or_else(|| cache.snapshot(), |at| cache.snapshot_at(at).unwrap());
    let data = |value: Value| value["data"]["x"].as_str().unwrap().to_owned();
    snapshot
        .iter(namespace, None)
        .map(|object| format!("{}/{}={}", object.namespace(), object.name(), data(object.value())))
        .collect()
}

#[tokio::test]
async fn a_snapshot_shows_the_objects_in_order_and_by_namespace() {
    let fixture = Fixture::new().await;
    fixture.put("b", "z", "1").await;
    fixture.put("a", "y", "1").await;
    fixture.put("a-b", "x", "1").await;
    let cache = fixture.resource();
    assert_eq!(objects(&cache, None, None), ["a-b/x=1", "a/y=1", "b/z=1"]);
    assert_eq!(objects(&cache, None, Some("a")), ["a/y=1"]);
    assert_eq!(objects(&cache, None, Some("nope")).len(), 0);
    let snapshot = cache.snapshot();
    let behind: Vec<_> = snapshot.iter(None, Some("a/y")).map(|object| object.name().to_owned()).collect();
    assert_eq!(behind, ["z"]);
    let object = snapshot.get("a", "y").unwrap();
    assert_eq!((object.label("n"), object.label("m")), (Some("y"), None));
    assert_eq!((object.field("data.x"), object.field("metadata.name"), object.field("z")), ("1", "y", ""));
}

#[tokio::test]
async fn resources_that_changed_after_a_moment_are_known_until_too_many_changed_since() {
    let fixture = Fixture::new().await;
    fixture.put("a", "x", "1").await;
    let first = fixture.cache.moment();
    let of = |plural: &str| Fixture {
        store: fixture.store.clone(),
        cache: fixture.cache.clone(),
        id: ResourceId::new("", plural),
    };
    of("secrets").put("a", "x", "1").await;
    of("secrets").put("a", "x", "2").await;
    fixture.put("a", "x", "2").await;
    let last = fixture.cache.moment();
    let changed = |after: Moment| {
        let changed = fixture.cache.changed_after(after);
        changed.map(|changed| {
            changed.iter().map(|cache| cache.id.resource.to_string()).collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(changed(Moment::default()).unwrap(), "configmaps secrets configmaps");
    assert_eq!(changed(first).unwrap(), "secrets configmaps");
    assert_eq!(changed(last).unwrap(), "");

    for _ in 0..2_500 {
        of("secrets").put("a", "x", "3").await;
        fixture.put("a", "x", "3").await;
    }
    assert_eq!(changed(first), None);
    assert_eq!(changed(fixture.cache.moment()).unwrap(), "");
}

#[tokio::test]
async fn an_older_state_is_the_newest_with_the_events_since_undone() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a", "x", "1").await;
    let second = fixture.put("a", "y", "1").await;
    let third = fixture.put("a", "x", "2").await;
    let fourth = fixture.delete("a", "y").await;
    let cache = fixture.resource();
    assert_eq!(objects(&cache, Some(first), None), ["a/x=1"]);
    assert_eq!(objects(&cache, Some(second), None), ["a/x=1", "a/y=1"]);
    assert_eq!(objects(&cache, Some(third), None), ["a/x=2", "a/y=1"]);
    assert_eq!(objects(&cache, Some(fourth), None), ["a/x=2"]);
}

#[tokio::test]
async fn events_tell_what_happened_in_order_and_a_deletion_has_its_own_version() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a", "x", "1").await;
    let second = fixture.put("a", "x", "2").await;
    let third = fixture.delete("a", "x").await;
    let cache = fixture.resource();
    let events = cache.events_after(Revision::FIRST).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.revision)).collect();
    let expected = [(EventKind::Added, first), (EventKind::Modified, second), (EventKind::Deleted, third)];
    assert_eq!(kinds, expected);
    assert_eq!(events[2].object.value()["metadata"]["resourceVersion"], third.to_string());
    assert_eq!(events[2].object.value()["data"]["x"], "2");
    assert_eq!(cache.events_after(second).unwrap().len(), 1);
    assert_eq!(cache.events_after(third).unwrap().len(), 0);
}

#[tokio::test]
async fn a_restart_keeps_state_and_history() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a", "x", "1").await;
    fixture.put("a", "x", "2").await;
    let restarted = Fixture::on(fixture.store.clone()).await;
    let cache = restarted.resource();
    assert_eq!(objects(&cache, None, None), ["a/x=2"]);
    assert_eq!(cache.events_after(first).unwrap().len(), 1);
}

#[tokio::test]
async fn a_resource_whose_history_was_compacted_away_says_so_after_a_restart() {
    let before = Fixture::new().await;
    let made = before.put("a", "x", "1").await;
    let deleted = before.delete("a", "x").await;
    before.store.compact(deleted).await.unwrap();
    let after = Fixture::on(before.store.clone()).await;
    let cache = after.cache.resource(&after.id);
    // Whoever saw it made would never hear that it was deleted.
    assert!(cache.events_after(made).is_err());
    assert!(cache.events_after(deleted).is_ok_and(|events| events.is_empty()));
}

#[tokio::test]
async fn what_left_the_window_is_gone_and_said_so() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a", "x", "0").await;
    let cache = fixture.resource();
    // Full to the limit: everything is still there.
    for count in 1..MAX_WINDOW_EVENTS {
        fixture.put("a", "x", &count.to_string()).await;
    }
    assert_eq!(cache.events_after(Revision::FIRST).unwrap().len(), MAX_WINDOW_EVENTS);
    // One more, and the first is gone.
    fixture.put("a", "x", "last").await;
    assert_eq!(cache.oldest(), first);
    assert!(cache.events_after(first).is_ok());
    let expired = cache.events_after(Revision::FIRST).unwrap_err();
    assert_eq!(expired.to_string(), format!("too old resource version: 1 ({first})"));
    assert!(cache.snapshot_at(Revision::FIRST).is_err());
}

/// Whatever is written and deleted, in whatever state: nobody has to walk through it to know how much it is.
#[tokio::test]
async fn objects_are_counted_as_they_come_and_go() {
    let fixture = Fixture::new().await;
    let mut revisions = Vec::new();
    for round in 0..60u32 {
        let namespace = ["a", "b", "c"][(round % 3) as usize];
        let name = format!("x{}", round * 7 % 5);
        revisions.push(match round % 4 {
            3 if fixture.resource().snapshot().get(namespace, &name).is_some() => {
                fixture.delete(namespace, &name).await
            }
            _ => fixture.put(namespace, &name, &round.to_string()).await,
        });
    }
    let restarted = Fixture::on(fixture.store.clone()).await;
    for cache in [fixture.resource(), restarted.resource()] {
        for revision in &revisions {
            let snapshot = cache.snapshot_at(*revision).unwrap();
            for namespace in [None, Some("a"), Some("b"), Some("c"), Some("none")] {
                let walked = snapshot.iter(namespace, None).count();
                assert_eq!(snapshot.count(namespace), walked, "{namespace:?} at {revision}");
            }
        }
    }
}

#[tokio::test]
async fn a_state_that_is_kept_is_found_again_until_it_is_too_old() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a", "x", "0").await;
    let cache = fixture.resource();
    let snapshot = cache.snapshot();
    cache.keep(first, &snapshot);
    fixture.put("a", "x", "1").await;
    assert!(Arc::ptr_eq(&cache.snapshot_at(first).unwrap(), &snapshot));
    for count in 0..MAX_WINDOW_EVENTS {
        fixture.put("a", "x", &count.to_string()).await;
    }
    assert!(cache.snapshot_at(first).is_err());
    assert_eq!(Arc::strong_count(&snapshot), 1, "nobody holds it for nobody");
}

#[tokio::test]
async fn many_commits_at_once_are_all_told_in_order() {
    let fixture = Arc::new(Fixture::new().await);
    let writers: Vec<_> = (0..20)
        .map(|writer| {
            let fixture = fixture.clone();
            tokio::spawn(async move {
                for count in 0..20 {
                    fixture.put("a", &format!("w{writer}"), &count.to_string()).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let events = fixture.resource().events_after(Revision::FIRST).unwrap();
    assert_eq!(events.len(), 400);
    assert!(events.is_sorted_by(|left, right| left.revision < right.revision));
    for writer in 0..20 {
        let name = format!("w{writer}");
        let own = events.iter().filter(|event| event.object.name() == name);
        let data: Vec<_> = own.map(|event| event.object.field("data.x").to_owned()).collect();
        assert_eq!(data, (0..20).map(|count| count.to_string()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn reading_stops_where_the_reader_says() {
    let fixture = Fixture::new().await;
    for count in 0..5 {
        fixture.put("a", "x", &count.to_string()).await;
    }
    let mut seen = Vec::new();
    let cache = fixture.resource();
    cache
        .read_events(Revision::FIRST, |event| {
            seen.push(event.object.field("data.x").to_owned());
            if seen.len() < 2 { Reading::GoOn } else { Reading::Stop }
        })
        .unwrap();
    assert_eq!(seen, ["0", "1"]);
}

#[tokio::test]
async fn a_waiter_hears_of_a_change() {
    let fixture = Fixture::new().await;
    let waiter = fixture.resource().waiter();
    let before = fixture.cache.main_line().revision();
    let (revision, ()) = tokio::join!(fixture.put("a", "x", "1"), waiter.changed(before.into()));
    assert!(revision > before);
}

/// Places of what an index finds, and of what looking at everything finds.
fn found(
    cache: &ResourceCache,
    labels: &[(String, Vec<String>)],
    namespace: Option<&str>,
    behind: Option<&str>,
) -> (Vec<String>, Vec<String>) {
    let labelled: Vec<Labelled<'_>> = labels.iter().map(|(key, values)| Labelled { key, values }).collect();
    let (snapshot, candidates) = cache.labelled(&labelled, namespace, behind);
    let matches = |object: &sternpost_cache::Object| {
        let has = |(key, values): &(String, Vec<String>)| {
            object.label(key).is_some_and(|found| values.iter().any(|value| value == found))
        };
        labels.iter().all(has)
    };
    let places = |object: &Arc<sternpost_cache::Object>| {
        matches(object).then(|| format!("{}@{}", object.place(), object.revision))
    };
    let by_index = candidates.iter().filter_map(places).collect();
    (by_index, snapshot.iter(namespace, behind).filter_map(places).collect())
}

#[tokio::test]
async fn more_labels_than_have_an_index_are_selected_by_all_the_same() {
    let fixture = Fixture::new().await;
    let all: serde_json::Map<String, Value> =
        (0..=MAX_INDEXED_LABELS + 1).map(|number| (format!("l{number}"), "v".into())).collect();
    let object = json!({"metadata": {"name": "x", "labels": all, "uid": "u"}, "data": {"x": "1"}});
    fixture.commit(Write::put(object_key(&fixture.id, "a", "x"), encode(&object))).await;
    let cache = fixture.resource();
    for _ in 0..2 {
        for key in all.keys() {
            let (by_index, _) = found(&cache, &[(key.clone(), vec!["v".into()])], None, None);
            assert_eq!(by_index.len(), 1, "{key}");
        }
    }
    let every: Vec<_> = all.keys().map(|key| (key.clone(), vec!["v".to_owned()])).collect();
    assert_eq!(found(&cache, &every, None, None).0.len(), 1);
}

mod label_index {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Put { namespace: usize, name: usize, labels: Vec<(usize, usize)> },
        Delete { namespace: usize, name: usize },
        Select { labels: Vec<(usize, Vec<usize>)>, namespace: Option<usize>, behind: Option<(usize, usize)> },
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = || (0..3usize, 0..6usize);
        prop_oneof![
            4 => (place(), prop::collection::vec((0..3usize, 0..3usize), 0..3))
                .prop_map(|((namespace, name), labels)| Step::Put { namespace, name, labels }),
            1 => place().prop_map(|(namespace, name)| Step::Delete { namespace, name }),
            3 => (
                prop::collection::vec((0..3usize, prop::collection::vec(0..4usize, 1..3)), 1..3),
                prop::option::of(0..4usize),
                prop::option::of(place()),
            )
                .prop_map(|(labels, namespace, behind)| Step::Select { labels, namespace, behind }),
        ]
    }

    fn namespace_name(number: usize) -> &'static str {
        ["a", "a-b", "b", "nope"][number]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever happened before, and whichever keys have an index by now.
        #[test]
        fn finds_what_looking_at_everything_finds(steps in prop::collection::vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let fixture = Fixture::new().await;
                for step in steps {
                    match step {
                        Step::Put { namespace, name, labels } => {
                            let labels: serde_json::Map<String, Value> = labels
                                .into_iter()
                                .map(|(key, value)| (format!("k{key}"), format!("v{value}").into()))
                                .collect();
                            let metadata = json!({"labels": labels, "uid": "u"});
                            let object = json!({"metadata": metadata, "data": {"x": ""}});
                            let key =
                                object_key(&fixture.id, namespace_name(namespace), &format!("n{name}"));
                            fixture.commit(Write::put(key, encode(&object))).await;
                        }
                        Step::Delete { namespace, name } => {
                            fixture.delete(namespace_name(namespace), &format!("n{name}")).await;
                        }
                        Step::Select { labels, namespace, behind } => {
                            let labels: Vec<(String, Vec<String>)> = labels
                                .into_iter()
                                .map(|(key, mut values)| {
                                    values.sort_unstable();
                                    values.dedup();
                                    let values = values.iter().map(|value| format!("v{value}")).collect();
                                    (format!("k{key}"), values)
                                })
                                .collect();
                            let namespace = namespace.map(namespace_name);
                            let behind = behind
                                .map(|(namespace, name)| format!("{}/n{name}", namespace_name(namespace)));
                            let (by_index, by_looking) =
                                found(&fixture.resource(), &labels, namespace, behind.as_deref());
                            assert_eq!(by_index, by_looking);
                        }
                    }
                }
            });
        }
    }
}

#[tokio::test]
async fn resources_do_not_see_each_other() {
    let fixture = Fixture::new().await;
    fixture.put("a", "x", "1").await;
    let other = fixture.cache.resource(&ResourceId::new("apps", "configmaps"));
    assert!(other.snapshot().is_empty());
    assert_eq!(other.events_after(Revision::FIRST).unwrap().len(), 0);
}
