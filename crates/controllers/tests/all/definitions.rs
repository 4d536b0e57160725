//! Definitions and their objects where time passes and writers race.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use sternpost_cache::Reading;
use sternpost_clock::manual::ManualClock;
use sternpost_controllers::definitions;
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_tasks::Tasks;
use sternpost_testkit::store::DifficultStore;
use sternpost_verbs::{
    DeleteOptions, Failure, Part, Selection, Target, Verbs, WatchEvent, WatchQuery, Writer, custom::Change,
    served::Served, startup,
};

use crate::running::BEGUN;

/// A store that lets others go first before it commits.
fn hesitating() -> DifficultStore {
    DifficultStore::before_commit(|_, _| Box::pin(tokio::task::yield_now()))
}

/// A server on a store that may have been used before.
struct Running {
    verbs: Arc<Verbs>,
    published: Arc<Mutex<Vec<String>>>,
    /// They run for as long as this does.
    _tasks: Tasks,
}

async fn run(store: &Arc<dyn Store>) -> Running {
    let count = store.current_revision().await.unwrap().get();
    let clock = ManualClock::at(BEGUN).counting_from(count).passing();
    let verbs = Arc::new(crate::running::verbs(store, &clock).await);
    startup::ensure(&verbs, 6443).await.unwrap();
    let published = Arc::new(Mutex::new(Vec::new()));
    let seen = published.clone();
    let publish = Arc::new(move |name: &str, _: &str, _: Change| seen.lock().unwrap().push(name.to_owned()));
    let tasks = Tasks::default();
    definitions::start(verbs.clone(), &tasks, publish).await;
    Running { verbs, published, _tasks: tasks }
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn definition(properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "buoys.sea.test"},
        "spec": {"group": "sea.test", "scope": "Cluster", "names": {"plural": "buoys", "kind": "Buoy"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        }]},
    })
}

fn buoy(name: &str) -> Value {
    json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": name}, "a": "b"})
}

impl Running {
    fn definitions(&self) -> Arc<Served> {
        self.verbs.served.get("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap()
    }

    fn buoys(&self) -> Option<Arc<Served>> {
        self.verbs.served.get("sea.test", "v1", "buoys")
    }

    async fn define(&self, crd: Value) {
        let served = self.definitions();
        let target = Target { served: &served, namespace: "", name: "" };
        self.verbs.create(target, crd, Writer::server()).await.unwrap();
        self.until("it is served", || self.buoys().is_some()).await;
    }

    async fn redefine(&self, change: impl FnOnce(&mut Value)) {
        let served = self.definitions();
        let target = Target { served: &served, namespace: "", name: "buoys.sea.test" };
        let mut crd = self.verbs.get(target).unwrap().value();
        change(&mut crd);
        self.verbs.update(target, crd, Part::Main, Writer::server()).await.unwrap();
    }

    async fn undefine(&self) {
        let served = self.definitions();
        let target = Target { served: &served, namespace: "", name: "buoys.sea.test" };
        self.verbs.delete(target, &DeleteOptions::default(), Writer::server()).await.unwrap();
    }

    async fn create(&self, served: &Served, object: &Value) -> Result<Value, Failure> {
        let target = Target { served, namespace: "", name: "" };
        let object = served.decode(object.to_string().as_bytes()).unwrap().object;
        self.verbs.create(target, object, Writer::server()).await.map(|written| written.object)
    }

    async fn shown(&self, name: &str) -> Value {
        let served = self.buoys().unwrap();
        let object = self.verbs.get(Target { served: &served, namespace: "", name }).unwrap();
        self.verbs.shown(&served, &[object]).await.unwrap().pop().unwrap()
    }

    fn objects(&self) -> usize {
        let id = sternpost_cache::ResourceId::new("sea.test", "buoys");
        self.verbs.cache.resource(&id).snapshot().len()
    }

    async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), waiting)
            .await
            .unwrap_or_else(|_| panic!("until {what}"));
    }
}

#[tokio::test(start_paused = true)]
async fn objects_end_with_their_definition() {
    let running = run(&store()).await;
    running.define(definition(&json!({"a": {"type": "string"}}))).await;
    let served = running.buoys().unwrap();
    running.create(&served, &buoy("one")).await.unwrap();
    running.undefine().await;
    running.until("nothing is served", || running.buoys().is_none()).await;
    assert_eq!(running.objects(), 0);
    assert!(running.published.lock().unwrap().iter().all(|name| name == "buoys.sea.test"));
    // Another one of the same name begins with nothing.
    running.define(definition(&json!({}))).await;
    assert_eq!(running.objects(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_others_hold_is_let_go_of_and_says_so_in_one_write() {
    let running = run(&store()).await;
    let mut crd = definition(&json!({"a": {"type": "string"}}));
    crd["metadata"]["finalizers"] = json!(["sea.test/hold"]);
    running.define(crd).await;
    running.create(&running.buoys().unwrap(), &buoy("one")).await.unwrap();
    let served = running.definitions();
    let all = Target { served: &served, namespace: "", name: "" };
    let (_, mut watch) =
        running.verbs.watch(all, Selection::default(), &WatchQuery::default()).await.unwrap();
    running.undefine().await;
    let target = Target { served: &served, namespace: "", name: "buoys.sea.test" };
    let is_left =
        || running.verbs.get(target).unwrap().value()["metadata"]["finalizers"] == json!(["sea.test/hold"]);
    running.until("only the other finalizer is left", is_left).await;
    let mut states = Vec::new();
    let tell = |told: WatchEvent<'_>| {
        let crd = told.object.value();
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        let terminating = conditions.iter().find(|condition| condition["type"] == "Terminating").unwrap();
        states.push(json!([crd["metadata"]["finalizers"], terminating["status"], terminating["reason"]]));
        Reading::GoOn
    };
    watch.read(tell).unwrap();
    let both = ["sea.test/hold", "customresourcecleanup.apiextensions.k8s.io"];
    assert_eq!(
        json!(states),
        json!([
            [both, "True", "InstanceDeletionPending"],
            [["sea.test/hold"], "False", "InstanceDeletionCompleted"],
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn what_had_begun_to_end_ends_after_a_restart() {
    let store = store();
    let running = run(&store).await;
    running.define(definition(&json!({"a": {"type": "string"}}))).await;
    let mut held = buoy("held");
    held["metadata"]["finalizers"] = json!(["sea.test/hold"]);
    running.create(&running.buoys().unwrap(), &held).await.unwrap();
    running.undefine().await;

    let again = run(&store).await;
    let served = again.buoys().unwrap();
    assert_eq!(again.create(&served, &buoy("late")).await.unwrap_err().code(), 403);
    let target = Target { served: &served, namespace: "", name: "held" };
    again.until("it is marked", || again.verbs.get(target).unwrap().terminating).await;
    let mut object = again.shown("held").await;
    object["metadata"]["finalizers"] = json!([]);
    again.verbs.update(target, object, Part::Main, Writer::server()).await.unwrap();
    again.until("nothing is served", || again.buoys().is_none()).await;
    assert_eq!(again.objects(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_checked_against_an_older_definition_is_not_stored() {
    let running = run(&store()).await;
    running.define(definition(&json!({"a": {"type": "string"}}))).await;
    let older = running.buoys().unwrap();
    running.create(&older, &buoy("one")).await.unwrap();
    // Nothing about how it serves: whoever has seen it before may go on.
    running.redefine(|crd| crd["metadata"]["labels"] = json!({"x": "y"})).await;
    running.create(&older, &buoy("two")).await.unwrap();

    running
        .redefine(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["maxLength"] =
                json!(0);
        })
        .await;
    let refused = running.create(&older, &buoy("three")).await.unwrap_err();
    assert_eq!(refused, Failure::Superseded);
    let target = Target { served: &older, namespace: "", name: "one" };
    let object = running.shown("one").await;
    let mut changed = object.clone();
    changed["a"] = json!("bb");
    let refused = running.verbs.update(target, changed, Part::Main, Writer::server()).await.unwrap_err();
    assert_eq!(refused, Failure::Superseded);
    let newer = running.buoys().unwrap();
    assert_eq!(running.create(&newer, &buoy("three")).await.unwrap_err().code(), 422);
    // What is not touched is let be.
    let target = Target { served: &newer, namespace: "", name: "one" };
    running.verbs.update(target, object, Part::Main, Writer::server()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn writes_that_race_wait_for_no_definition() {
    let running = run(&(Arc::new(hesitating()) as Arc<dyn Store>)).await;
    running.define(definition(&json!({"a": {"type": "string"}}))).await;
    let served = running.buoys().unwrap();
    let made = running.create(&served, &buoy("one")).await.unwrap();
    let target = Target { served: &served, namespace: "", name: "one" };
    let write = |text: &str| {
        let mut object = made.clone();
        object["a"] = json!(text);
        running.verbs.update(target, object, Part::Main, Writer::server())
    };
    let begun = tokio::time::Instant::now();
    // Both have started from the same object when the first is stored; the store refuses the second.
    let (first, second) = tokio::join!(write("c"), write("d"));
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|is_ok| **is_ok).count(), 1);
    assert_eq!(first.err().or(second.err()).unwrap().code(), 409);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn objects_show_what_the_schema_says_now() {
    let running = run(&store()).await;
    running.define(definition(&json!({"a": {"type": "string"}}))).await;
    running.create(&running.buoys().unwrap(), &buoy("one")).await.unwrap();
    let get = |served: &Served| {
        let object = running.verbs.get(Target { served, namespace: "", name: "one" }).unwrap();
        served.shows_stored(&object)
    };
    assert!(get(&running.buoys().unwrap()), "the bytes are as they were written");

    // Descriptions and limits change nothing about an object.
    running
        .redefine(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["maxLength"] =
                json!(9);
        })
        .await;
    assert!(get(&running.buoys().unwrap()));

    running
        .redefine(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
                json!({"b": {"type": "string", "default": "new"}});
        })
        .await;
    assert!(!get(&running.buoys().unwrap()));
    let shown = running.shown("one").await;
    assert_eq!((&shown["a"], &shown["b"]), (&Value::Null, &json!("new")));

    // It is stored as it was, and comes back with the schema.
    running
        .redefine(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
                json!({"a": {"type": "string"}});
        })
        .await;
    let shown = running.shown("one").await;
    assert_eq!((&shown["a"], &shown["b"]), (&json!("b"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_a_default_is_shown_and_not_stored() {
    let running = run(&store()).await;
    let status =
        json!({"type": "object", "default": {"phase": "new"}, "properties": {"phase": {"type": "string"}}});
    let mut crd = definition(&json!({"a": {"type": "string"}, "status": status}));
    let version = &mut crd["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([{"rule": "!has(self.status)"}]);
    running.define(crd).await;

    let served = running.buoys().unwrap();
    let mut sent = buoy("one");
    sent["status"] = json!({"phase": "sent"});
    let created = running.create(&served, &sent).await.unwrap();
    assert_eq!(created["status"], json!({"phase": "new"}));
    let stored = running.verbs.get(Target { served: &served, namespace: "", name: "one" }).unwrap();
    assert_eq!(stored.value().get("status"), None);
    assert!(!served.shows_stored(&stored));
    assert_eq!(running.shown("one").await["status"], json!({"phase": "new"}));
}

#[tokio::test(start_paused = true)]
async fn what_is_defined_is_there_after_a_restart() {
    let store = store();
    run(&store).await.define(definition(&json!({"a": {"type": "string"}}))).await;
    let again = run(&store).await;
    let served = again.buoys().expect("served from the start");
    assert_eq!(*again.published.lock().unwrap(), ["buoys.sea.test"]);
    again.create(&served, &buoy("one")).await.unwrap();
    let query = WatchQuery::default();
    let all = Target { served: &served, namespace: "", name: "" };
    let (begin, _) = again.verbs.watch(all, Selection::default(), &query).await.unwrap();
    assert_eq!(begin.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn names_go_to_whoever_waits_for_them() {
    let running = run(&store()).await;
    running.define(definition(&json!({}))).await;
    let mut other = definition(&json!({}));
    other["metadata"]["name"] = json!("floats.sea.test");
    other["spec"]["names"] = json!({"plural": "floats", "kind": "Buoy", "listKind": "FloatList"});
    let served = running.definitions();
    let target = Target { served: &served, namespace: "", name: "" };
    running.verbs.create(target, other, Writer::server()).await.unwrap();
    let floats = Target { served: &served, namespace: "", name: "floats.sea.test" };
    let accepted = |status: &str| {
        let crd = running.verbs.get(floats).unwrap().value();
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|found| found["type"] == "NamesAccepted" && found["status"] == *status)
    };
    running.until("the kind is taken", || accepted("False")).await;
    assert!(running.verbs.served.get("sea.test", "v1", "floats").is_none());
    running.undefine().await;
    running.until("the kind is free", || accepted("True")).await;
    running.until("it is served", || running.verbs.served.get("sea.test", "v1", "floats").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_ends_with_two_writes_and_its_object_with_one() {
    let running = run(&store()).await;
    let served = running.definitions();
    let name = |number: usize| format!("buoys{number}.sea.test");
    for number in 0..50 {
        let mut crd = definition(&json!({"a": {"type": "string"}}));
        crd["metadata"]["name"] = json!(name(number));
        crd["spec"]["names"] = json!({"plural": format!("buoys{number}"), "kind": format!("Buoy{number}")});
        let target = Target { served: &served, namespace: "", name: "" };
        running.verbs.create(target, crd, Writer::server()).await.unwrap();
    }
    let of = |number: usize| running.verbs.served.get("sea.test", "v1", &format!("buoys{number}"));
    running.until("all are served", || (0..50).all(|number| of(number).is_some())).await;
    for number in 0..50 {
        let mut object = buoy("one");
        object["kind"] = json!(format!("Buoy{number}"));
        running.create(&of(number).unwrap(), &object).await.unwrap();
    }
    let began = running.verbs.cache.main_line().revision().get();
    for number in 0..50 {
        let name = name(number);
        let target = Target { served: &served, namespace: "", name: &name };
        running.verbs.delete(target, &DeleteOptions::default(), Writer::server()).await.unwrap();
    }
    running.until("none is served", || (0..50).all(|number| of(number).is_none())).await;
    // The mark, the object and the definition; the group's APIService goes once.
    let writes = running.verbs.cache.main_line().revision().get() - began;
    assert!(writes <= 3 * 50 + 1, "{writes}");
}
