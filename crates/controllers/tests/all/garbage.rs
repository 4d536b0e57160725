//! Garbage collection: what upstream was seen to do, and random graphs against a simple model.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::running::Running;
use serde_json::{Value, json};
use sternpost_cache::{EventKind, ResourceId};
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_verbs::Propagation;

const CONFIG_MAPS: &str = "configmaps";

fn reference(object: &Value, block: Option<bool>) -> Value {
    let metadata = &object["metadata"];
    let mut reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]});
    if let Some(block) = block {
        reference["blockOwnerDeletion"] = block.into();
    }
    reference
}

fn absent(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("absent-{name}")})
}

async fn make(running: &Running, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    running.create(CONFIG_MAPS, "default", json!({"metadata": metadata})).await
}

/// Every change of ConfigMaps in the default namespace since the start, as upstream's were recorded:
/// type, name, finalizers, whether it is being deleted, owners and whether they wait for it.
fn told(running: &Running, since: u64) -> Vec<String> {
    let cache = running.verbs.cache.resource(&ResourceId::new("", CONFIG_MAPS));
    let events = cache.events_after(sternpost_store::Revision::new(since).unwrap()).unwrap();
    let tell = |event: &Arc<sternpost_cache::Event>| {
        let metadata = event.object.value()["metadata"].clone();
        let owners: Vec<String> = metadata["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|owner| {
                let waits = if owner["blockOwnerDeletion"] == true { "!" } else { "" };
                format!("{}{waits}", owner["name"].as_str().unwrap())
            })
            .collect();
        let finalizers: Vec<&str> = metadata["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap())
            .collect();
        let ending = if event.kind != EventKind::Added && event.object.terminating { " ending" } else { "" };
        format!("{} {} {finalizers:?}{ending} {owners:?}", event.kind.as_str(), event.object.name())
    };
    events.iter().map(tell).collect()
}

fn now(running: &Running) -> u64 {
    running.verbs.cache.main_line().revision().get()
}

fn has(running: &Running, name: &str) -> bool {
    running.get(CONFIG_MAPS, "default", name).is_some()
}

#[tokio::test(start_paused = true)]
async fn dependents_go_when_all_owners_are_gone_and_else_lose_those_that_are() {
    let running = Running::start(&["garbagecollector"]).await;
    let owner = make(&running, "owner", &[], &[]).await;
    make(&running, "half", &[absent("x"), reference(&owner, None)], &[]).await;
    make(&running, "lost", &[absent("x")], &[]).await;
    let unknown = json!({"apiVersion": "nope.test/v1", "kind": "Nope", "name": "x", "uid": "1"});
    let version = json!({"apiVersion": "apps/v9", "kind": "Deployment", "name": "x", "uid": "2"});
    make(&running, "unknown", std::slice::from_ref(&unknown), &[]).await;
    make(&running, "unknown-and-absent", &[unknown, absent("x")], &[]).await;
    make(&running, "version", &[version], &[]).await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "another"});
    make(&running, "of-another", &[other], &[]).await;
    running.until("the lost are gone", |it| !has(it, "lost") && !has(it, "of-another")).await;
    let owners = |it: &Running, name: &str| {
        it.get(CONFIG_MAPS, "default", name).unwrap()["metadata"]["ownerReferences"].clone()
    };
    running.until("half has one owner", |it| owners(it, "half") == json!([reference(&owner, None)])).await;
    running.quiet().await;
    assert_eq!(
        running.names(CONFIG_MAPS, "default"),
        ["half", "owner", "unknown", "unknown-and-absent", "version"]
    );
    running.delete(CONFIG_MAPS, "default", "owner", None).await;
    running.until("half is gone", |it| !has(it, "half")).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_no_owner_and_is_reported() {
    let running = Running::start(&["garbagecollector"]).await;
    running.namespace("other").await;
    let owner = running.create(CONFIG_MAPS, "other", json!({"metadata": {"name": "owner"}})).await;
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    make(&running, "cross", &[reference(&owner, None)], &[]).await;
    let role =
        json!({"metadata": {"name": "role", "ownerReferences": [reference(&owner, None)]}, "rules": []});
    running.create("rbac.authorization.k8s.io/clusterroles", "", role).await;
    running.until("it is gone", |it| !has(it, "cross")).await;
    running.until("it is reported twice", |it| it.names("events", "default").len() == 2).await;
    let mut found: Vec<(Value, Value)> = running
        .names("events", "default")
        .iter()
        .map(|name| running.get("events", "default", name).unwrap())
        .map(|event| {
            assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
            assert_eq!(event["type"], "Warning");
            assert_eq!(event["source"]["component"], "garbage-collector-controller");
            (event["involvedObject"]["kind"].clone(), event["message"].clone())
        })
        .collect();
    found.sort_by_key(|(kind, _)| kind.to_string());
    let text = |namespace: &str| {
        format!(
            "ownerRef [v1/ConfigMap, namespace: {namespace}, name: owner, uid: {uid}] does not exist in namespace \"{namespace}\""
        )
    };
    let expected = [(json!("ClusterRole"), json!(text(""))), (json!("ConfigMap"), json!(text("default")))];
    assert_eq!(found, expected);
    running.quiet().await;
    assert!(running.get("rbac.authorization.k8s.io/clusterroles", "", "role").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_those_who_block_it() {
    let running = Running::start(&["garbagecollector"]).await;
    let owner = make(&running, "fg", &[], &[]).await;
    make(&running, "blocks", &[reference(&owner, Some(true))], &["a.test/x"]).await;
    make(&running, "does-not", &[reference(&owner, None)], &["a.test/x"]).await;
    running.quiet().await;
    running.delete(CONFIG_MAPS, "default", "fg", Some(Propagation::Foreground)).await;
    let ending = |it: &Running, name: &str| {
        it.get(CONFIG_MAPS, "default", name)
            .is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    };
    running.until("both go", |it| ending(it, "blocks") && ending(it, "does-not")).await;
    running.quiet().await;
    assert!(has(&running, "fg"));
    running.patch(CONFIG_MAPS, "default", "blocks", json!({"metadata": {"finalizers": null}})).await;
    running.until("the owner is gone", |it| !has(it, "fg") && !has(it, "blocks")).await;
    assert!(has(&running, "does-not"));
}

#[tokio::test(start_paused = true)]
async fn chains_rings_and_orphans_go_in_the_order_that_upstream_has() {
    let running = Running::start(&["garbagecollector"]).await;
    let at = now(&running);
    let a = make(&running, "ca", &[], &[]).await;
    let b = make(&running, "cb", &[reference(&a, Some(true))], &[]).await;
    make(&running, "cc", &[reference(&b, Some(true))], &[]).await;
    running.quiet().await;
    running.delete(CONFIG_MAPS, "default", "ca", Some(Propagation::Foreground)).await;
    running.until("the chain is gone", |it| !has(it, "ca")).await;
    assert_eq!(
        told(&running, at),
        [
            "ADDED ca [] []",
            "ADDED cb [] [\"ca!\"]",
            "ADDED cc [] [\"cb!\"]",
            "MODIFIED ca [\"foregroundDeletion\"] ending []",
            "MODIFIED cb [\"foregroundDeletion\"] ending [\"ca!\"]",
            "DELETED cc [] [\"cb!\"]",
            "DELETED cb [\"foregroundDeletion\"] ending [\"ca!\"]",
            "DELETED ca [\"foregroundDeletion\"] ending []",
        ]
    );

    let at = now(&running);
    let x = make(&running, "x", &[], &[]).await;
    let y = make(&running, "y", &[reference(&x, Some(true))], &[]).await;
    let owned = json!({"metadata": {"ownerReferences": [reference(&y, Some(true))]}});
    running.patch(CONFIG_MAPS, "default", "x", owned).await;
    running.quiet().await;
    running.delete(CONFIG_MAPS, "default", "x", Some(Propagation::Foreground)).await;
    running.until("the ring is gone", |it| !has(it, "x") && !has(it, "y")).await;
    let mut all = told(&running, at);
    assert_eq!(
        all.drain(..5).collect::<Vec<_>>(),
        [
            "ADDED x [] []",
            "ADDED y [] [\"x!\"]",
            "MODIFIED x [] [\"y!\"]",
            "MODIFIED x [\"foregroundDeletion\"] ending [\"y!\"]",
            "MODIFIED y [] [\"x\"]",
        ]
    );
    // From here on upstream's order depends on who is faster too.
    assert!(all.contains(&"DELETED x [\"foregroundDeletion\"] ending [\"y!\"]".to_owned()), "{all:?}");

    let own = make(&running, "own", &[], &[]).await;
    let at = now(&running);
    let o = make(&running, "oo", &[], &[]).await;
    make(&running, "od", &[reference(&o, None), reference(&own, None)], &[]).await;
    make(&running, "od2", &[reference(&o, None)], &[]).await;
    running.quiet().await;
    running.delete(CONFIG_MAPS, "default", "oo", Some(Propagation::Orphan)).await;
    running.until("the owner is gone", |it| !has(it, "oo")).await;
    let mut all = told(&running, at);
    assert_eq!(all.pop().as_deref(), Some("DELETED oo [\"orphan\"] ending []"));
    let freed: BTreeSet<String> = all.drain(4..).collect();
    assert_eq!(
        freed,
        BTreeSet::from(["MODIFIED od [] [\"own\"]".to_owned(), "MODIFIED od2 [] []".to_owned()])
    );

    let at = now(&running);
    let m = make(&running, "m", &[], &[]).await;
    make(&running, "md", &[reference(&m, Some(true)), reference(&own, None)], &[]).await;
    running.quiet().await;
    running.delete(CONFIG_MAPS, "default", "m", Some(Propagation::Foreground)).await;
    running.until("the owner is gone", |it| !has(it, "m")).await;
    assert_eq!(
        told(&running, at).split_off(2),
        [
            "MODIFIED m [\"foregroundDeletion\"] ending []",
            "MODIFIED md [] [\"own\"]",
            "DELETED m [\"foregroundDeletion\"] ending []",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn rings_that_all_wait_are_broken() {
    let running = Running::start(&["garbagecollector"]).await;
    // Held, so that all of them wait before any can go.
    let x = make(&running, "x", &[], &["a.test/x"]).await;
    let y = make(&running, "y", &[reference(&x, Some(true))], &["a.test/x"]).await;
    let z = make(&running, "z", &[reference(&y, Some(true))], &["a.test/x"]).await;
    let owned =
        json!({"metadata": {"ownerReferences": [reference(&z, Some(true)), reference(&x, Some(true))]}});
    running.patch(CONFIG_MAPS, "default", "x", owned).await;
    for name in ["x", "y", "z"] {
        running.delete(CONFIG_MAPS, "default", name, Some(Propagation::Foreground)).await;
    }
    for name in ["x", "y", "z"] {
        let finalizers = json!(["foregroundDeletion"]);
        let found =
            || running.get(CONFIG_MAPS, "default", name).map(|it| it["metadata"]["finalizers"].clone());
        if found().is_some_and(|found| found == json!(["a.test/x", "foregroundDeletion"])) {
            running
                .patch(CONFIG_MAPS, "default", name, json!({"metadata": {"finalizers": finalizers}}))
                .await;
        } else if found().is_some() {
            running.patch(CONFIG_MAPS, "default", name, json!({"metadata": {"finalizers": null}})).await;
        }
    }
    running.until("the ring is gone", |it| it.names(CONFIG_MAPS, "default").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn owners_of_custom_kinds_come_and_go_with_their_definitions() {
    let running = Running::start(&["garbagecollector"]).await;
    let owner = json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "name": "x", "uid": "absent"});
    make(&running, "waits", &[owner], &[]).await;
    running.quiet().await;
    assert!(has(&running, "waits"));
    running.define_buoys().await;
    running.until("it is collected", |it| !has(it, "waits")).await;
    let buoys = "sea.test/buoys";
    let buoy = |name: &str, owners: Value| json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": name, "ownerReferences": owners}});
    let owner = running.create(buoys, "default", buoy("owner", json!([]))).await;
    let mut of_buoy = reference(&owner, None);
    of_buoy["kind"] = "Buoy".into();
    of_buoy["apiVersion"] = "sea.test/v1".into();
    running.create(buoys, "default", buoy("dependent", json!([of_buoy]))).await;
    make(&running, "map", &[of_buoy], &[]).await;
    running.quiet().await;
    running.delete(buoys, "default", "owner", None).await;
    let gone = |it: &Running| it.names(buoys, "default").is_empty() && !has(it, "map");
    running.until("all are collected", gone).await;
}

#[tokio::test(start_paused = true)]
async fn what_lost_its_owners_while_nobody_looked_goes_at_the_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let lifetime = sternpost_controllers::EVENT_LIFETIME;
    {
        let running = Running::start_on(&store, &["-*"], lifetime).await;
        let owner = make(&running, "owner", &[], &[]).await;
        make(&running, "dependent", &[reference(&owner, None)], &[]).await;
        let waiting = make(&running, "waiting", &[], &[]).await;
        make(&running, "blocks", &[reference(&waiting, Some(true))], &[]).await;
        running.delete(CONFIG_MAPS, "default", "owner", None).await;
        running.delete(CONFIG_MAPS, "default", "waiting", Some(Propagation::Foreground)).await;
        let orphaning = make(&running, "orphaning", &[], &[]).await;
        make(&running, "orphan", &[reference(&orphaning, None)], &[]).await;
        running.delete(CONFIG_MAPS, "default", "orphaning", Some(Propagation::Orphan)).await;
    }
    let running = Running::start_on(&store, &["garbagecollector"], lifetime).await;
    running.until("only the orphan is left", |it| it.names(CONFIG_MAPS, "default") == ["orphan"]).await;
    running.quiet().await;
    assert_eq!(running.names(CONFIG_MAPS, "default"), ["orphan"]);
}

/// Dependents of one owner, each of which it has to wait for.
const MANY: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_many_waits_for_all_of_them_and_goes() {
    let running = Running::start(&["garbagecollector"]).await;
    let owner = make(&running, "owner", &[], &[]).await;
    for index in 0..MANY {
        make(&running, &format!("d{index}"), &[reference(&owner, Some(true))], &[]).await;
    }
    running.delete(CONFIG_MAPS, "default", "owner", Some(Propagation::Foreground)).await;
    running.until("all are gone", |it| it.names(CONFIG_MAPS, "default").is_empty()).await;
    let events = running.verbs.cache.resource(&ResourceId::new("", CONFIG_MAPS));
    let events = events.events_after(sternpost_store::Revision::FIRST).unwrap();
    // Made and deleted each, and the owner marked: nobody was written twice.
    assert_eq!(events.len(), 2 * (MANY + 1) + 1);
    assert_eq!(events.last().unwrap().object.name(), "owner");
}

/// Objects by name, each with the names of its owners; names that no object has are absent owners.
type World = BTreeMap<String, BTreeSet<String>>;

/// Takes away what has lost all its owners, and references to those that are gone.
fn settle(world: &mut World) {
    loop {
        let there: BTreeSet<String> = world.keys().cloned().collect();
        let lost = |owners: &BTreeSet<String>| !owners.is_empty() && owners.is_disjoint(&there);
        let before = world.len();
        world.retain(|_, owners| !lost(owners));
        if world.len() == before {
            world.values_mut().for_each(|owners| owners.retain(|owner| there.contains(owner)));
            return;
        }
    }
}

fn world_of(running: &Running) -> World {
    let objects = running.names(CONFIG_MAPS, "default").into_iter();
    let objects = objects.filter_map(|name| Some((running.get(CONFIG_MAPS, "default", &name)?, name)));
    objects
        .map(|(object, name)| {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            (name, owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect())
        })
        .collect()
}

/// Numbers that are the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Seeds, and objects of each.
const SEEDS: u64 = 20;
const OBJECTS: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_graphs_end_as_the_model_says() {
    for seed in 0..SEEDS {
        let mut chance = Chance(seed);
        let running = Running::start(&["garbagecollector"]).await;
        let (mut world, mut made): (World, Vec<Value>) = (World::new(), Vec::new());
        for index in 0..OBJECTS {
            let mut owners = Vec::new();
            let mut names = BTreeSet::new();
            for _ in 0..chance.below(4) {
                let owner = match (chance.below(10), made.len()) {
                    (0, _) | (_, 0) => absent(&format!("absent{}", chance.below(3))),
                    (_, all) => {
                        reference(&made[chance.below(all)], [None, Some(true), Some(false)][chance.below(3)])
                    }
                };
                if names.insert(owner["name"].as_str().unwrap().to_owned()) {
                    owners.push(owner);
                }
            }
            let name = format!("o{index:02}");
            made.push(make(&running, &name, &owners, &[]).await);
            world.insert(name, names);
            settle(&mut world);
        }
        let reached = |running: &Running, world: &World| world_of(running) == *world;
        running.until(&format!("seed {seed} settles"), |it| reached(it, &world)).await;
        // Rings: somebody early is owned by somebody late.
        for _ in 0..chance.below(4) {
            let (Some(early), Some(late)) = (world.keys().next().cloned(), world.keys().next_back().cloned())
            else {
                break;
            };
            let late = running.get(CONFIG_MAPS, "default", &late).unwrap();
            let object = running.get(CONFIG_MAPS, "default", &early).unwrap();
            let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let new = reference(&late, Some(true));
            if owners.iter().all(|owner| owner["uid"] != new["uid"]) {
                owners.push(new);
                world.get_mut(&early).unwrap().insert(late["metadata"]["name"].as_str().unwrap().to_owned());
            }
            let patch = json!({"metadata": {"ownerReferences": owners}});
            running.patch(CONFIG_MAPS, "default", &early, patch).await;
        }
        while let Some(name) = world.keys().nth(chance.below(world.len().max(1))).cloned() {
            let propagation =
                [Propagation::Background, Propagation::Foreground, Propagation::Orphan][chance.below(3)];
            world.remove(&name);
            if propagation == Propagation::Orphan {
                world.values_mut().for_each(|owners| owners.retain(|owner| *owner != name));
            }
            settle(&mut world);
            running.delete(CONFIG_MAPS, "default", &name, Some(propagation)).await;
            let step =
                format!("seed {seed} is as it should be after {name} went {propagation:?}ly: {world:?}");
            running.until(&step, |it| reached(it, &world)).await;
        }
        running.quiet().await;
        assert!(reached(&running, &World::new()), "seed {seed}");
    }
}
