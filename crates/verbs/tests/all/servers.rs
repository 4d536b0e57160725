//! Several servers on one store: `a` writes, and `b` hears of it when the test lets it.
//!
//! The runtime's time stands still while anything can go on, so a sleep ends when all the rest waits.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sternpost_clock::machine;
use sternpost_meta::status::Status;
use sternpost_store::memory::MemoryStore;
use sternpost_testkit::shared_store::{SharedStore, Writers};
use sternpost_verbs::{
    DeleteOptions, DryRun, Failure, ListQuery, Part, Patch, PatchRequest, Selection, Target, Validation,
    Verbs, WatchQuery, Writer, served::Served, startup,
};

use crate::beginning::{create, still};

struct Servers {
    a: Verbs,
    b: Verbs,
    /// What `b` has of the store.
    store: Arc<SharedStore>,
    maps: Arc<Served>,
}

/// Two servers that know the same, a ConfigMap `m` among it.
async fn servers() -> Servers {
    let memory = Arc::new(MemoryStore::default());
    let a = crate::beginning::verbs(SharedStore::of(memory.clone(), Writers::Several), still()).await;
    startup::ensure(&a, 6443).await.unwrap();
    let maps = a.served.get("", "v1", "configmaps").unwrap();
    let store = SharedStore::of(memory, Writers::Several);
    a.create(target(&maps, ""), map("m", "1"), Writer::server()).await.unwrap();
    let b = crate::beginning::verbs(store.clone(), still()).await;
    Servers { a, b, store, maps }
}

impl Servers {
    fn m(&self) -> Target<'_> {
        target(&self.maps, "m")
    }

    /// What `work` comes to when `b` hears of what `a` has written, for which it has to wait.
    async fn when_delivered<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            _ = &mut work => panic!("it did not wait"),
            () = machine::sleep(Duration::from_millis(1)) => {}
        }
        self.store.deliver();
        work.await
    }

    /// `a` changes the map while nothing is delivered to `b`.
    async fn a_sets(&self, value: &str) -> Value {
        self.store.hold_deliveries();
        let patch = merge(&json!({"data": {"k": value}}));
        self.a.patch(self.m(), &patch, Part::Main, writer("a")).await.unwrap().object
    }
}

fn target<'a>(served: &'a Served, name: &'a str) -> Target<'a> {
    Target { served, namespace: "default", name }
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, ..Writer::server() }
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

fn merge(patch: &Value) -> PatchRequest {
    request(Patch::Merge(patch.as_object().unwrap().clone()))
}

fn request(patch: Patch) -> PatchRequest {
    PatchRequest { patch, complaints: Vec::new(), validation: Validation::Warn }
}

fn apply(value: &str) -> PatchRequest {
    request(Patch::Apply { config: map("m", value), force: false })
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn refused(failure: Failure) -> Status {
    failure.into()
}

fn list_query(version: &str, limit: usize) -> ListQuery {
    ListQuery { resource_version: version.into(), limit, ..ListQuery::default() }
}

/// How many maps a list shows.
async fn count(verbs: &Verbs, maps: &Served, query: &ListQuery) -> Result<usize, Status> {
    let selection = Selection::default().named("new");
    Ok(verbs.list(target(maps, ""), &selection, query).await?.len())
}

/// How many maps a watch begins with.
async fn begin(verbs: &Verbs, maps: &Served, version: &str) -> usize {
    let query = WatchQuery { resource_version: version.into(), initial_events: Some(true) };
    let watch = verbs.watch(target(maps, ""), Selection::default().named("new"), &query);
    watch.await.unwrap().0.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn reads_without_a_version_show_what_another_server_has_acknowledged() {
    for read in ["get", "list", "list with a limit", "rest of an expired list", "watch", "deletecollection"] {
        let all = servers().await;
        let Servers { a, b, store, maps } = &all;
        store.hold_deliveries();
        a.create(target(maps, ""), map("new", "1"), Writer::server()).await.unwrap();
        let found = match read {
            "list" => all.when_delivered(count(b, maps, &list_query("", 0))).await.unwrap(),
            "list with a limit" => all.when_delivered(count(b, maps, &list_query("", 1))).await.unwrap(),
            "rest of an expired list" => {
                let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "default/a\0"});
                let continue_token = URL_SAFE_NO_PAD.encode(token.to_string());
                let query = ListQuery { continue_token, ..ListQuery::default() };
                all.when_delivered(count(b, maps, &query)).await.unwrap()
            }
            "watch" => all.when_delivered(begin(b, maps, "")).await,
            "deletecollection" => {
                let (selection, options) = (Selection::default().named("new"), DeleteOptions::default());
                let deleted =
                    b.delete_collection(target(maps, ""), &selection, 0, &options, Writer::server());
                all.when_delivered(deleted).await.unwrap().len()
            }
            _ => all.when_delivered(b.get_latest(target(maps, "new"))).await.iter().count(),
        };
        assert_eq!(found, 1, "{read}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_at_version_zero_show_what_the_cache_has() {
    let Servers { a, b, store, maps } = servers().await;
    store.hold_deliveries();
    let before = store.questions();
    a.create(target(&maps, ""), map("new", "1"), Writer::server()).await.unwrap();
    assert_eq!(count(&b, &maps, &list_query("0", 0)).await.unwrap(), 0);
    assert_eq!(count(&b, &maps, &list_query("0", 1)).await.unwrap(), 0);
    assert_eq!(begin(&b, &maps, "0").await, 0);
    assert!(b.get(target(&maps, "new")).is_err());
    assert_eq!(store.questions(), before);
}

#[tokio::test(start_paused = true)]
async fn a_list_goes_on_at_a_revision_that_another_server_is_ahead_by() {
    let all = servers().await;
    let Servers { a, b, store, maps } = &all;
    store.hold_deliveries();
    for name in ["x", "y"] {
        a.create(target(maps, ""), map(name, "1"), Writer::server()).await.unwrap();
    }
    let everything = Selection::default();
    let first = a.list(target(maps, ""), &everything, &list_query("", 1)).await.unwrap();
    let query = ListQuery { continue_token: first.continue_token.clone(), ..ListQuery::default() };
    let rest = all.when_delivered(b.list(target(maps, ""), &everything, &query)).await.unwrap();
    assert_eq!(rest.revision, first.revision);
    let names: Vec<&str> = rest.objects().map(|object| object.name()).collect();
    assert!(names.ends_with(&["x", "y"]), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_the_cache_does_not_catch_up_for_is_told_to_try_again_after_three_seconds() {
    let all = servers().await;
    let before = all.b.cache.main_line().revision();
    let changed = all.a_sets("2").await;
    let begun = machine::now();
    let status = all.b.get_latest(all.m()).await.unwrap_err();
    assert_eq!(machine::elapsed(begun), Duration::from_secs(3));
    assert_eq!(status.code, 504);
    let text = format!("Timeout: Too large resource version: {}, current: {before}", version(&changed));
    assert_eq!(status.message, text);
    assert_eq!(status.details.unwrap().retry_after_seconds, 1);
    all.store.deliver();
    assert_eq!(all.b.get_latest(all.m()).await.unwrap().value()["data"]["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_read_fails_when_the_store_does_not_say_how_new_it_is() {
    let all = servers().await;
    all.store.go_down();
    let status = all.b.get_latest(all.m()).await.unwrap_err();
    assert_eq!((status.code, &*status.message), (500, "store is not available: it is down"));
    assert!(all.b.get(all.m()).is_ok(), "what the cache has is there");
}

#[tokio::test(start_paused = true)]
async fn reads_share_a_question_that_is_asked_after_they_came() {
    let all = servers().await;
    let Servers { b, store, .. } = &all;
    let before = store.questions();
    store.hold_answers();
    let mut first = pin!(b.get_latest(all.m()));
    tokio::select! {
        biased;
        _ = &mut first => panic!("nobody has answered"),
        () = machine::sleep(Duration::from_millis(1)) => {}
    }
    assert_eq!(store.questions(), before + 1);
    // The first question has its answer, which is too old for those who come now.
    all.a_sets("2").await;
    let mut later: Vec<_> = (0..20).map(|_| Box::pin(b.get_latest(all.m()))).collect();
    for read in &mut later {
        assert!(read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    machine::sleep(Duration::from_millis(1)).await;
    assert_eq!(store.questions(), before + 1, "one at a time");
    store.answer();
    machine::sleep(Duration::from_millis(1)).await;
    assert_eq!(store.questions(), before + 2, "all who came meanwhile share the next");
    store.deliver();
    first.await.unwrap();
    for read in later {
        assert_eq!(read.await.unwrap().value()["data"]["k"], "2");
    }
    assert_eq!(store.questions(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_another_server_outran_starts_again_from_what_that_one_wrote() {
    let all = servers().await;
    all.a_sets("2").await;
    let patch = merge(&json!({"data": {"other": "b"}}));
    let written = all.when_delivered(all.b.patch(all.m(), &patch, Part::Main, writer("b"))).await.unwrap();
    assert_eq!(written.object["data"], json!({"k": "2", "other": "b"}));
    all.a_sets("3").await;
    let replaced = all.b.update(all.m(), map("m", "b"), Part::Main, writer("b"));
    assert_eq!(all.when_delivered(replaced).await.unwrap().object["data"], json!({"k": "b"}));
    all.a_sets("4").await;
    all.when_delivered(all.b.delete(all.m(), &DeleteOptions::default(), writer("b"))).await.unwrap();
    assert_eq!(all.a.get_latest(all.m()).await.unwrap_err().code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_the_cache_is_none_if_the_store_has_what_the_writer_has_seen() {
    let all = servers().await;
    let mut seen = all.a_sets("2").await;
    seen["data"]["k"] = "3".into();
    let replaced = all.b.update(all.m(), seen.clone(), Part::Main, writer("b"));
    assert_eq!(all.when_delivered(replaced).await.unwrap().object["data"]["k"], "3");
    // And is one if that is older than what the store has, whatever the cache has.
    let seen = all.b.get(all.m()).unwrap();
    let mut stale = all.a_sets("4").await;
    stale["metadata"]["resourceVersion"] = seen.revision.to_string().into();
    let replaced = all.b.update(all.m(), stale.clone(), Part::Main, writer("b"));
    assert_eq!(refused(all.when_delivered(replaced).await.unwrap_err()).message, MODIFIED);
    // Once the cache is as new, nobody has to wait to be told so.
    let refusal = all.b.update(all.m(), stale, Part::Main, writer("b")).await.unwrap_err();
    assert_eq!(refused(refusal).message, MODIFIED);
}

const MODIFIED: &str = "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to the latest version and try again";

#[tokio::test(start_paused = true)]
async fn preconditions_of_a_deletion_are_checked_against_the_store() {
    let all = servers().await;
    let seen = all.a_sets("2").await;
    let options =
        DeleteOptions { resource_version: Some(version(&seen).to_owned()), ..DeleteOptions::default() };
    all.when_delivered(all.b.delete(all.m(), &options, writer("b"))).await.unwrap();
    assert_eq!(refused(all.b.delete(all.m(), &options, writer("b")).await.unwrap_err()).code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_checked_against_the_store() {
    let all = servers().await;
    // What `b` knows is immutable, and was replaced by what is not.
    let immutable = merge(&json!({"immutable": true}));
    all.b.patch(all.m(), &immutable, Part::Main, writer("b")).await.unwrap();
    all.a.get_latest(all.m()).await.unwrap();
    all.store.hold_deliveries();
    all.a.delete(all.m(), &DeleteOptions::default(), writer("a")).await.unwrap();
    all.a.create(target(&all.maps, ""), map("m", "1"), writer("a")).await.unwrap();
    let patch = merge(&json!({"data": {"k": "2"}}));
    let written = all.when_delivered(all.b.patch(all.m(), &patch, Part::Main, writer("b"))).await.unwrap();
    assert_eq!(written.object["data"]["k"], "2");
    // A refusal that is right is told at once, though nothing is delivered.
    all.b.patch(all.m(), &immutable, Part::Main, writer("b")).await.unwrap();
    all.store.hold_deliveries();
    let patch = merge(&json!({"data": {"k": "3"}}));
    let refusal = all.b.patch(all.m(), &patch, Part::Main, writer("b")).await.unwrap_err();
    assert_eq!(refused(refusal).code, 422);
}

/// What is in the store after it may be that very write: to begin anew from that would be to do it twice, or to
/// refuse what was done.
#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_outcome_is_not_tried_again() {
    let servers = servers().await;
    let read = servers.b.get_latest(servers.m()).await.unwrap();
    servers.store.lose_answers();
    let mut object = map("m", "2");
    object["metadata"]["resourceVersion"] = read.revision.to_string().into();
    let update = servers.b.update(servers.m(), object, Part::Main, writer("b")).await;
    servers.b.get_latest(servers.m()).await.unwrap();
    let patch = merge(&json!({"data": {"k": "3"}}));
    let patch = servers.b.patch(servers.m(), &patch, Part::Main, writer("b")).await;
    servers.b.get_latest(servers.m()).await.unwrap();
    let options = DeleteOptions::default();
    let delete = servers.b.delete(servers.m(), &options, writer("b")).await;
    for failure in [update.unwrap_err(), patch.unwrap_err(), delete.unwrap_err()] {
        let status = refused(failure);
        assert_eq!(status.code, 500);
        assert!(status.message.contains("outcome of the commit is unknown"), "{}", status.message);
    }
    servers.a.get_latest(servers.m()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_conflict_of_appliers_is_checked_against_the_store() {
    let all = servers().await;
    all.b.patch(all.m(), &apply("1"), Part::Main, writer("b")).await.unwrap();
    let first = all.b.patch(all.m(), &apply("2"), Part::Main, writer("c")).await.unwrap_err();
    assert_eq!(refused(first).code, 409);
    all.a.get_latest(all.m()).await.unwrap();
    all.store.hold_deliveries();
    all.a.delete(all.m(), &DeleteOptions::default(), writer("a")).await.unwrap();
    all.a.patch(all.m(), &apply("2"), Part::Main, writer("a")).await.unwrap();
    let written =
        all.when_delivered(all.b.patch(all.m(), &apply("2"), Part::Main, writer("c"))).await.unwrap();
    assert_eq!(written.object["data"]["k"], "2");
    assert!(!written.created);
}

#[tokio::test(start_paused = true)]
async fn that_nothing_changes_is_checked_against_the_store() {
    let all = servers().await;
    all.a_sets("2").await;
    // To `b` this is what is there.
    let patch = merge(&json!({"data": {"k": "1"}}));
    let written = all.when_delivered(all.b.patch(all.m(), &patch, Part::Main, writer("b"))).await.unwrap();
    assert_eq!(all.a.get_latest(all.m()).await.unwrap().value()["data"]["k"], "1");
    // Where it is so it is answered without a write, and without waiting.
    all.store.hold_deliveries();
    let again = all.b.patch(all.m(), &patch, Part::Main, writer("b")).await.unwrap();
    assert_eq!(version(&again.object), version(&written.object));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_in_the_cache_is_looked_for_in_the_store() {
    let all = servers().await;
    let Servers { a, b, store, maps } = &all;
    let patch = merge(&json!({"data": {"other": "b"}}));
    for (name, verb) in [("x", "patch"), ("y", "update"), ("z", "delete"), ("w", "apply")] {
        let at = target(maps, name);
        store.hold_deliveries();
        a.create(target(maps, ""), map(name, "1"), Writer::server()).await.unwrap();
        match verb {
            "patch" => {
                let patched = all.when_delivered(b.patch(at, &patch, Part::Main, writer("b"))).await.unwrap();
                assert_eq!(patched.object["data"], json!({"k": "1", "other": "b"}));
            }
            "update" => {
                let updated = b.update(at, map(name, "2"), Part::Main, writer("b"));
                assert!(!all.when_delivered(updated).await.unwrap().created);
            }
            "apply" => {
                let applied = request(Patch::Apply { config: map(name, "1"), force: false });
                let applied = b.patch(at, &applied, Part::Main, writer("b"));
                assert!(!all.when_delivered(applied).await.unwrap().created);
            }
            _ => {
                let options = DeleteOptions::default();
                all.when_delivered(b.delete(at, &options, writer("b"))).await.unwrap();
            }
        }
    }
    // What is nowhere is not waited for.
    store.hold_deliveries();
    let nowhere = target(maps, "nowhere");
    assert_eq!(b.patch(nowhere, &patch, Part::Main, writer("b")).await.unwrap_err().code(), 404);
    assert_eq!(b.delete(nowhere, &DeleteOptions::default(), writer("b")).await.unwrap_err().code(), 404);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_become_of_what_the_store_has() {
    let all = servers().await;
    let Servers { a, b, store, maps } = &all;
    let dry = Writer { dry_run: DryRun::All, ..writer("b") };
    all.a_sets("2").await;
    let patch = merge(&json!({"data": {"other": "b"}}));
    let written = all.when_delivered(b.patch(all.m(), &patch, Part::Main, dry)).await.unwrap();
    assert_eq!(written.object["data"], json!({"k": "2", "other": "b"}));
    store.hold_deliveries();
    a.create(target(maps, ""), map("new", "1"), Writer::server()).await.unwrap();
    let created = all.when_delivered(b.create(target(maps, ""), map("new", "1"), dry)).await;
    assert_eq!(created.unwrap_err().code(), 409);
    store.hold_deliveries();
    a.delete(all.m(), &DeleteOptions::default(), writer("a")).await.unwrap();
    let options = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    let deleted = all.when_delivered(b.delete(all.m(), &options, writer("b"))).await;
    assert_eq!(deleted.unwrap_err().code(), 404);
}

#[tokio::test(start_paused = true)]
async fn objects_go_into_a_namespace_that_another_server_has_just_made() {
    let all = servers().await;
    let Servers { a, b, store, maps } = &all;
    store.hold_deliveries();
    let namespaces = a.served.get("", "v1", "namespaces").unwrap();
    let cluster = Target { served: &namespaces, namespace: "", name: "" };
    a.create(cluster, json!({"metadata": {"name": "fresh"}}), Writer::server()).await.unwrap();
    let into = |namespace| Target { served: maps, namespace, name: "" };
    let created = b.create(into("fresh"), map("m", "1"), Writer::server());
    assert!(all.when_delivered(created).await.is_ok());
    let status = refused(b.create(into("none"), map("m", "1"), Writer::server()).await.unwrap_err());
    assert_eq!((status.code, &*status.message), (404, "namespaces \"none\" not found"));
}

#[tokio::test(start_paused = true)]
async fn what_admission_does_not_find_may_be_what_another_server_has_just_made() {
    let all = servers().await;
    let Servers { a, b, store, .. } = &all;
    let account = json!({"metadata": {"name": "default"}});
    create(a, ("", "serviceaccounts"), "default", account, Writer::server()).await.unwrap();
    let accounts = a.served.get("", "v1", "serviceaccounts").unwrap();
    b.get_latest(target(&accounts, "default")).await.unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]},
    });
    let refusal = create(b, ("", "pods"), "default", pod.clone(), Writer::server()).await.unwrap_err();
    assert_eq!(refusal.code, 403);
    store.hold_deliveries();
    let class = json!({"metadata": {"name": "high"}, "value": 7});
    create(a, ("scheduling.k8s.io", "priorityclasses"), "", class, Writer::server()).await.unwrap();
    let created = create(b, ("", "pods"), "default", pod, Writer::server());
    assert_eq!(all.when_delivered(created).await.unwrap()["spec"]["priority"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_no_other_writer_is_never_asked_how_new_it_is() {
    let store = SharedStore::of(Arc::new(MemoryStore::default()), Writers::One);
    let verbs = crate::beginning::verbs(store.clone(), still()).await;
    startup::ensure(&verbs, 6443).await.unwrap();
    let before = store.questions();
    // Nor is anything else read of it.
    store.go_down();
    assert!(verbs.catching_up_with_all().is_none());
    let maps = verbs.served.get("", "v1", "configmaps").unwrap();
    let at = target(&maps, "m");
    let created = verbs.create(target(&maps, ""), map("m", "1"), Writer::server()).await.unwrap();
    verbs.get_latest(at).await.unwrap();
    assert_eq!(
        verbs.list(target(&maps, ""), &Selection::default(), &list_query("", 1)).await.unwrap().len(),
        1
    );
    assert_eq!(begin(&verbs, &maps, "").await, 0);
    let patch = merge(&json!({"data": {"k": "1"}}));
    let same = verbs.patch(at, &patch, Part::Main, writer("a")).await.unwrap();
    assert_eq!(version(&same.object), version(&created.object));
    let mut stale = created.object.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    assert_eq!(verbs.update(at, stale, Part::Main, writer("a")).await.unwrap_err().code(), 409);
    let dry = Writer { dry_run: DryRun::All, ..writer("a") };
    verbs.update(at, map("m", "2"), Part::Main, dry).await.unwrap();
    let nowhere = Target { served: &maps, namespace: "nowhere", name: "" };
    assert_eq!(verbs.create(nowhere, map("m", "1"), dry).await.unwrap_err().code(), 404);
    verbs.delete(at, &DeleteOptions::default(), writer("a")).await.unwrap();
    assert_eq!(verbs.delete(at, &DeleteOptions::default(), writer("a")).await.unwrap_err().code(), 404);
    assert_eq!(store.questions(), before);
}
