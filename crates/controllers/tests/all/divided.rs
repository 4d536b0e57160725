//! Controllers of servers that share two stores: config maps and pods are in the second.

use std::sync::Arc;

use serde_json::json;
use sternpost_cache::{Cache, Divided, DividedStore, Overrides, ResourceId};
use sternpost_clock::manual::ManualClock;
use sternpost_controllers::Options;
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_testkit::shared_store::{SharedStore, Writers};
use sternpost_verbs::{Verbs, index::Selectable, served::ServedResources};

use crate::{
    leader_election::Others,
    running::{BEGUN, Running, options},
};

const MAPS: &str = "configmaps";

/// A server, with what it has of each store. Names that it makes up are counted from a number.
async fn server(stores: &[Arc<MemoryStore>; 2], number: u64) -> (Running, [Arc<SharedStore>; 2]) {
    let shared = stores.clone().map(|store| SharedStore::of(store, Writers::Several));
    let [main, other] = shared.clone().map(|store| store as Arc<dyn Store>);
    let overrides = [MAPS, "pods"].map(|plural| (ResourceId::new("", plural), 1));
    let overrides = Overrides::new(overrides);
    let divided = Divided::new(main, vec![other]);
    let started = Cache::start_divided(divided.clone(), overrides.clone(), Box::new(Selectable::built_in()));
    let (cache, feeders) = started.await.unwrap();
    feeders.into_iter().for_each(|feeder| drop(tokio::spawn(feeder.run())));
    let clock = ManualClock::at(BEGUN).counting_from(number).passing();
    let store = Arc::new(DividedStore::new(divided, overrides));
    let verbs = Verbs::new(ServedResources::built_in(), cache, store, clock.clock());
    (Running::idle_with(verbs, clock).await, shared)
}

fn start(running: &Running, controllers: &[&str]) {
    sternpost_controllers::start(&running.verbs, &running.tasks, options(controllers));
}

#[tokio::test]
async fn what_has_an_owner_in_another_store_is_not_collected_before_that_is_read() {
    let stores = [(); 2].map(|()| Arc::new(MemoryStore::default()));
    let (writing, _) = server(&stores, 1_000).await;
    let (collecting, [main, _]) = server(&stores, 2_000_000).await;
    start(&collecting, &["garbagecollector"]);
    // The owner is written first, and its dependent is heard of first.
    main.hold_deliveries();
    let owner = writing.create("secrets", "default", json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({
        "apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"],
    });
    let asked = main.questions();
    let map = json!({"metadata": {"name": "map", "ownerReferences": [reference]}});
    writing.create(MAPS, "default", map).await;
    collecting.until("it is heard of", |it| it.names(MAPS, "default") == ["map"]).await;
    collecting.until("owners are looked for", |_| main.questions() > asked).await;
    assert!(collecting.get("secrets", "default", "owner").is_none());
    assert_eq!(writing.names(MAPS, "default"), ["map"]);

    main.deliver();
    collecting.until("the owner is there", |it| it.get("secrets", "default", "owner").is_some()).await;
    assert_eq!(writing.names(MAPS, "default"), ["map"]);
    writing.delete("secrets", "default", "owner", None).await;
    writing.until("it goes with its owner", |it| it.names(MAPS, "default").is_empty()).await;
}

#[tokio::test]
async fn a_namespace_is_emptied_in_all_stores_before_it_goes() {
    let stores = [(); 2].map(|()| Arc::new(MemoryStore::default()));
    let (writing, _) = server(&stores, 1_000).await;
    let (ending, [_, other]) = server(&stores, 2_000_000).await;
    writing.namespace("sea").await;
    writing.create("secrets", "sea", json!({"metadata": {"name": "known"}})).await;
    ending.until("the other server knows", |it| it.names("secrets", "sea") == ["known"]).await;
    other.hold_deliveries();
    writing.create(MAPS, "sea", json!({"metadata": {"name": "late"}})).await;
    let options = Options { unserved: Some(Arc::new(Others::default())), ..options(&["namespace"]) };
    sternpost_controllers::start(&ending.verbs, &ending.tasks, options);
    let asked = other.questions();
    writing.delete("namespaces", "", "sea", None).await;
    writing.until("what it knows goes", |it| it.names("secrets", "sea").is_empty()).await;
    ending.until("it asks for more", |_| other.questions() > asked).await;
    assert!(writing.get("namespaces", "", "sea").is_some(), "there is one more");
    other.deliver();
    writing.until("it goes", |it| it.get("namespaces", "", "sea").is_none()).await;
    assert_eq!(writing.names(MAPS, "sea"), Vec::<String>::new());
}

#[tokio::test]
async fn a_claim_is_protected_by_pods_in_another_store() {
    let stores = [(); 2].map(|()| Arc::new(MemoryStore::default()));
    let (writing, _) = server(&stores, 1_000).await;
    let (protecting, [_, other]) = server(&stores, 2_000_000).await;
    start(&protecting, &["pvc-protection"]);
    let claim = json!({
        "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    });
    writing.create("persistentvolumeclaims", "default", claim).await;
    let finalizers = |it: &Running| {
        let claim = it.get("persistentvolumeclaims", "default", "claim");
        claim.map(|claim| claim["metadata"]["finalizers"].to_string()).unwrap_or_default()
    };
    writing.until("it is protected", |it| finalizers(it).contains("pvc-protection")).await;
    other.hold_deliveries();
    let pod = json!({
        "metadata": {"name": "pod"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]},
    });
    writing.create("pods", "default", pod).await;
    let asked = other.questions();
    writing.delete("persistentvolumeclaims", "default", "claim", None).await;
    protecting.until("users are looked for", |_| other.questions() > asked).await;
    assert!(finalizers(&writing).contains("pvc-protection"));
    other.deliver();
    protecting.until("the pod is known", |it| it.get("pods", "default", "pod").is_some()).await;
    assert!(finalizers(&writing).contains("pvc-protection"));
    writing.remove_pod("default", "pod").await;
    writing.until("it goes", |it| it.get("persistentvolumeclaims", "default", "claim").is_none()).await;
}
