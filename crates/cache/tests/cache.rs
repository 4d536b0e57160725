//! The cache on a store in memory: what it shows, and what it forgets.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_cache::{
    Cache, EventKind, Index, Indexer, MAX_WINDOW_EVENTS, ResourceCache, ResourceId, encode, object_key,
};
use sternpost_store::{Revision, Store, Transaction, Write, memory::MemoryStore};

struct Labels;

impl Indexer for Labels {
    fn index(&self, _: &ResourceId, object: &Value) -> Index {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap().into()));
        Index { labels: labels.collect(), ..Index::default() }
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
        let (cache, feeder) = Cache::start(store.clone(), Box::new(Labels)).await.unwrap();
        tokio::spawn(feeder.run());
        Self { store, cache, id: ResourceId::new("", "configmaps") }
    }

    async fn commit(&self, write: Write) -> Revision {
        let revision = self.store.commit(Transaction::write([write])).await.unwrap().revision;
        assert!(self.cache.reaches(revision, Duration::from_secs(60)).await);
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

/// `NAMESPACE/NAME=DATA` of each object.
fn objects(cache: &ResourceCache, at: Option<Revision>, namespace: Option<&str>) -> Vec<String> {
    let snapshot = at.map_or_else(|| cache.snapshot(), |at| cache.snapshot_at(at).unwrap());
    let data = |value: Value| value["data"]["x"].as_str().unwrap().to_owned();
    snapshot
        .iter(namespace, None)
        .map(|object| format!("{}/{}={}", object.namespace, object.name, data(object.value())))
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
    let behind: Vec<_> = snapshot.iter(None, Some("a/y")).map(|object| object.name.to_string()).collect();
    assert_eq!(behind, ["z"]);
    assert_eq!(snapshot.get("a", "y").unwrap().label("n"), Some("y"));
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

#[tokio::test]
async fn resources_do_not_see_each_other() {
    let fixture = Fixture::new().await;
    fixture.put("a", "x", "1").await;
    let other = fixture.cache.resource(&ResourceId::new("apps", "configmaps"));
    assert!(other.snapshot().is_empty());
    assert_eq!(other.events_after(Revision::FIRST).unwrap().len(), 0);
}
