//! Changing objects where time passes and writers race.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_clock::manual::ManualClock;
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{
    Part, Patch, PatchRequest, Target, Validation, Verbs, Writer, served::Served, startup,
};

async fn verbs() -> Verbs {
    // Every look at the clock is a second later.
    let clock = ManualClock::at(1_794_700_800).stepping(Duration::from_secs(1));
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), clock.into()).await;
    startup::ensure(&verbs, 6443).await.unwrap();
    verbs
}

fn target<'a>(served: &'a Served, name: &'a str) -> Target<'a> {
    Target { served, namespace: "default", name }
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, ..Writer::server() }
}

fn request(patch: Patch) -> PatchRequest {
    PatchRequest { patch, complaints: Vec::new(), validation: Validation::Warn }
}

fn apply(config: Value) -> PatchRequest {
    request(Patch::Apply { config, force: false })
}

fn merge(patch: &Value) -> PatchRequest {
    request(Patch::Merge(patch.as_object().unwrap().clone()))
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn deployment(status: Option<Value>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    if let Some(status) = status {
        object["status"] = status;
    }
    object
}

#[tokio::test]
async fn a_write_that_changes_nothing_takes_no_version_however_late_it_comes() {
    let verbs = verbs().await;
    let served = verbs.served.get("apps", "v1", "deployments").unwrap();
    let at = target(&served, "d");
    let first = verbs.patch(at, &apply(deployment(None)), Part::Main, writer("a")).await.unwrap();
    assert!(first.created);
    let expected = version(&first.object);
    let sent_status = deployment(Some(json!({"replicas": 9})));
    for again in [apply(deployment(None)), apply(sent_status), merge(&json!({"spec": {"replicas": 1}}))] {
        let written = verbs.patch(at, &again, Part::Main, writer("a")).await.unwrap();
        assert_eq!(version(&written.object), expected, "{again:?}");
        assert_eq!(written.object["metadata"]["managedFields"], first.object["metadata"]["managedFields"]);
    }
    let replaced = verbs.update(at, first.object.clone(), Part::Main, writer("b")).await.unwrap();
    assert_eq!(version(&replaced.object), expected);
}

#[tokio::test]
async fn owners_are_listed_by_operation_then_time() {
    let verbs = verbs().await;
    let served = verbs.served.get("", "v1", "configmaps").unwrap();
    let at = target(&served, "m");
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"x": "1"}});
    verbs.patch(at, &apply(config), Part::Main, writer("z")).await.unwrap();
    for manager in ["late", "early", "middle"] {
        let patch = merge(&json!({"data": {manager: "1"}}));
        verbs.patch(at, &patch, Part::Main, writer(manager)).await.unwrap();
    }
    let object = verbs.get(at).unwrap().value();
    let owners = object["metadata"]["managedFields"].as_array().unwrap();
    let owners: Vec<_> = owners.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(owners, ["z", "late", "early", "middle"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_that_race_all_land() {
    const WRITERS: usize = 24;
    let verbs = Arc::new(verbs().await);
    let served = verbs.served.get("", "v1", "configmaps").unwrap();
    let empty = json!({"metadata": {"name": "m"}});
    verbs.create(target(&served, ""), empty, writer("first")).await.unwrap();
    let racing: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (verbs, served) = (verbs.clone(), served.clone());
            tokio::spawn(async move {
                let patch = merge(&json!({"data": {format!("k{number}"): "v"}}));
                verbs.patch(target(&served, "m"), &patch, Part::Main, writer("racer")).await.unwrap();
            })
        })
        .collect();
    for racer in racing {
        racer.await.unwrap();
    }
    let object = verbs.get(target(&served, "m")).unwrap().value();
    assert_eq!(object["data"].as_object().unwrap().len(), WRITERS);
    let stale = merge(&json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}}));
    let refused = verbs.patch(target(&served, "m"), &stale, Part::Main, writer("racer")).await.unwrap_err();
    assert_eq!(refused.code(), 409);
}
