//! Suite kube-rs-objects: typed and dynamic writes, metadata, watchers and
//! reflectors, in a namespace of its own.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use either::Either;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Pod, Secret},
};
use kube::{
    Api, Client, Error, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        WatchEvent, WatchParams,
    },
    core::{PartialObjectMeta, Status},
    runtime::{WatchStreamExt, reflector, watcher, watcher::Event},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Problem, checks::Checks};

/// How long anything that must happen may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub async fn check(checks: &mut Checks, client: &Client) -> Result<(), Problem> {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let namespace = format!("kube-rs-{moment:x}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = read(json!({"metadata": {"name": namespace}}))?;
    if checks.ok("create namespace", namespaces.create(&PostParams::default(), &body).await).is_none() {
        return Ok(());
    }
    let parts: [(&str, Result<(), Problem>); 8] = [
        ("typed", typed(checks, client, &namespace).await),
        ("changes", changes(checks, client, &namespace).await),
        ("dynamic", dynamic(checks, client, &namespace).await),
        ("metadata", metadata(checks, client, &namespace).await),
        ("deletes", deletes(checks, client, &namespace).await),
        ("watch", watch(checks, client, &namespace).await),
        ("watchers", watchers(checks, client, &namespace).await),
        ("reflectors", reflectors(checks, client, &namespace).await),
    ];
    for (what, result) in parts {
        checks.ok(what, result);
    }
    clean_up(checks, client, &namespace).await
}

async fn typed(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "500m"}}}]},
    });
    round::<ConfigMap>(checks, client, namespace, json!({"data": {"a": "b"}})).await?;
    round::<Secret>(checks, client, namespace, json!({"stringData": {"a": "b"}})).await?;
    round::<Pod>(checks, client, namespace, json!({"spec": template.get("spec")})).await?;
    let spec = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    round::<Deployment>(checks, client, namespace, spec).await?;
    let spec = json!({"spec": {"holderIdentity": "me", "renewTime": "2024-01-02T03:04:05.678901Z"}});
    round::<Lease>(checks, client, namespace, spec).await?;

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &config_map("dry", &[])?).await?;
    checks.equal("dry run", maps.get_opt("dry").await?, None);
    if let Some(status) =
        failure(checks, "invalid", maps.create(&PostParams::default(), &config_map("Not_A_Name", &[])?).await)
    {
        checks.equal("invalid", (status.code, status.reason.as_str()), (422, "Invalid"));
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let fields: Vec<_> = causes.into_iter().map(|cause| cause.field).collect();
        checks.equal("invalid: causes", fields, vec!["metadata.name".to_owned()]);
    }
    Ok(())
}

/// Create, get, list, replace and delete of one kind.
async fn round<K>(
    checks: &mut Checks,
    client: &Client,
    namespace: &str,
    content: Value,
) -> Result<(), Problem>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + PartialEq
        + Serialize
        + DeserializeOwned,
{
    let kind = K::kind(&());
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let mut body = content;
    if let Some(fields) = body.as_object_mut() {
        fields.insert("metadata".into(), json!({"name": "typed", "labels": {"typed": "yes"}}));
    }
    let body: K = read(body)?;
    let post = PostParams::default();
    let made = api.create(&post, &body).await?;
    checks.equal(&format!("{kind}: get"), &api.get("typed").await?, &made);
    if let Some(status) = failure(checks, &format!("{kind}: again"), api.create(&post, &body).await) {
        checks.equal(
            &format!("{kind}: again"),
            (status.code, status.reason.as_str()),
            (409, "AlreadyExists"),
        );
    }
    let mut changed = made.clone();
    changed.annotations_mut().insert("example.com/changed".into(), "yes".into());
    let replaced = api.replace("typed", &post, &changed).await?;
    checks.equal(&format!("{kind}: uid"), replaced.uid(), made.uid());
    if let Some(status) = failure(checks, &format!("{kind}: stale"), api.replace("typed", &post, &made).await)
    {
        checks.equal(&format!("{kind}: stale"), (status.code, status.reason.as_str()), (409, "Conflict"));
    }
    let listed = api.list(&ListParams::default().labels("typed=yes")).await?;
    checks.equal(&format!("{kind}: list"), &listed.items, &vec![replaced]);
    api.delete("typed", &DeleteParams::background()).await?;
    checks.equal(&format!("{kind}: deleted"), api.get_opt("typed").await?, None);
    Ok(())
}

/// Every kind of patch, and apply with its conflicts.
async fn changes(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    maps.create(&PostParams::default(), &config_map("patched", &[])?).await?;
    let plain = PatchParams::default();
    maps.patch("patched", &plain, &Patch::Merge(json!({"data": {"merge": "1"}}))).await?;
    maps.patch("patched", &plain, &Patch::Strategic(json!({"data": {"strategic": "1"}}))).await?;
    let operations = json!([{"op": "add", "path": "/data/json", "value": "1"}]);
    let operations: json_patch::Patch = read(operations)?;
    let patched = maps.patch("patched", &plain, &Patch::Json::<()>(operations)).await?;
    let keys: Vec<String> = patched.data.unwrap_or_default().into_keys().collect();
    checks.equal("patches", keys, ["json", "merge", "strategic"].map(str::to_owned).to_vec());
    maps.patch_metadata("patched", &plain, &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})))
        .await?;

    let body = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": value}});
    let (mine, theirs) = (PatchParams::apply("mine"), PatchParams::apply("theirs"));
    let made = maps.patch("applied", &mine, &Patch::Apply(body("1"))).await?;
    let again = maps.patch("applied", &mine, &Patch::Apply(body("1"))).await?;
    checks.equal("apply again", again.resource_version(), made.resource_version());
    if let Some(status) =
        failure(checks, "conflict", maps.patch("applied", &theirs, &Patch::Apply(body("2"))).await)
    {
        checks.equal("conflict", (status.code, status.reason.as_str()), (409, "Conflict"));
        let message = r#"Apply failed with 1 conflict: conflict with "mine": .data.a"#;
        checks.equal("conflict: message", status.message.as_str(), message);
    }
    let forced = maps.patch("applied", &theirs.force(), &Patch::Apply(body("2"))).await?;
    let owners: Vec<_> = forced.managed_fields().iter().filter_map(|entry| entry.manager.clone()).collect();
    checks.equal("owners after force", owners, vec!["theirs".to_owned()]);

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "applied"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    deployments.patch("applied", &mine, &Patch::Apply(deployment)).await?;
    let scaled = json!({"spec": {"replicas": 4}});
    let scale = deployments.patch_scale("applied", &plain, &Patch::Merge(scaled)).await?;
    checks.equal("scale", scale.spec.and_then(|spec| spec.replicas), Some(4));
    let status = json!({"status": {"observedGeneration": 7}});
    let shown = deployments.patch_status("applied", &plain, &Patch::Merge(status)).await?;
    checks.equal("status", shown.status.and_then(|status| status.observed_generation), Some(7));
    for name in ["patched", "applied"] {
        maps.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn dynamic(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let body = DynamicObject::new("dynamic", &resource).data(json!({"data": {"a": "1"}}));
    let mut made = api.create(&PostParams::default(), &body).await?;
    checks.equal("dynamic: create", made.data.pointer("/data/a"), Some(&json!("1")));
    made.data = json!({"data": {"a": "2"}});
    let replaced = api.replace("dynamic", &PostParams::default(), &made).await?;
    checks.equal("dynamic: replace", replaced.data.pointer("/data/a"), Some(&json!("2")));
    for number in 0..5 {
        let body = DynamicObject::new(&format!("page-{number}"), &resource).data(json!({}));
        api.create(&PostParams::default(), &body).await?;
    }
    let (mut names, mut token, mut pages) = (Vec::new(), None, 0);
    loop {
        let mut parameters = ListParams::default().limit(4);
        parameters.continue_token = token;
        let page = api.list(&parameters).await?;
        pages += 1;
        names.extend(page.items.iter().map(|item| item.name_any()));
        token = page.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break;
        }
    }
    let expected = ["dynamic", "page-0", "page-1", "page-2", "page-3", "page-4"];
    checks.equal("dynamic: pages", (names, pages), (expected.map(str::to_owned).to_vec(), 2));
    Ok(())
}

async fn metadata(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let made = api.create(&PostParams::default(), &config_map("partial", &[("partial", "yes")])?).await?;
    checks.equal("get_metadata", api.get_metadata("partial").await?.uid(), made.uid());
    checks.check(api.get_metadata_opt("missing").await?.is_none(), || {
        "get_metadata_opt: missing is there".into()
    });
    let listed = api.list_metadata(&ListParams::default().labels("partial=yes")).await?;
    let names: Vec<_> = listed.items.iter().map(|item| item.name_any()).collect();
    checks.equal("list_metadata", names, vec!["partial".to_owned()]);
    checks.check(listed.metadata.resource_version.is_some(), || "list_metadata: no version".into());
    Ok(())
}

/// A deletion answers with a Status when it is done, with the object when it is not.
async fn deletes(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let post = PostParams::default();
    let made = api.create(&post, &config_map("at-once", &[])?).await?;
    let wrong =
        Preconditions { uid: Some("00000000-0000-0000-0000-000000000000".into()), resource_version: None };
    let refused = api.delete("at-once", &DeleteParams::default().preconditions(wrong)).await;
    if let Some(status) = failure(checks, "delete: other uid", refused) {
        checks.equal("delete: other uid", (status.code, status.reason.as_str()), (409, "Conflict"));
    }
    match api.delete("at-once", &DeleteParams::default()).await? {
        Either::Right(status) => {
            let details = status.details.as_ref().map(|details| (details.name.clone(), details.uid.clone()));
            checks.equal("delete: done", details, Some(("at-once".into(), made.uid().unwrap_or_default())));
        }
        Either::Left(object) => {
            checks.check(false, || format!("delete: {object:?} instead of a Status"));
        }
    }
    let mut held = config_map("held", &[])?;
    held.finalizers_mut().push("example.com/hold".into());
    api.create(&post, &held).await?;
    match api.delete("held", &DeleteParams::default()).await? {
        Either::Left(mut object) => {
            checks.check(object.metadata.deletion_timestamp.is_some(), || {
                "delete: no time on a held one".into()
            });
            object.finalizers_mut().clear();
            api.replace("held", &post, &object).await?;
            checks.equal("delete: let go", api.get_opt("held").await?, None);
        }
        Either::Right(status) => {
            checks.check(false, || format!("delete: {status:?} instead of a held object"));
        }
    }
    if let Some(status) =
        failure(checks, "delete: missing", api.delete("missing", &DeleteParams::default()).await)
    {
        checks.equal("delete: missing", (status.code, status.reason.as_str()), (404, "NotFound"));
    }
    for name in ["heap-a", "heap-b"] {
        api.create(&post, &config_map(name, &[("heap", "yes")])?).await?;
    }
    let chosen = ListParams::default().labels("heap=yes");
    api.delete_collection(&DeleteParams::default(), &chosen).await?;
    checks.equal("delete_collection", api.list(&chosen).await?.items.len(), 0);
    Ok(())
}

/// `Api::watch`, started from a list and again from the middle.
async fn watch(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let begin = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let made = life(&api, "watched").await?;
    let chosen = WatchParams::default().labels("life=watched").timeout(15);
    let seen = events(api.watch(&chosen, &begin).await?, 3).await?;
    checks.equal(
        "watch",
        seen,
        ["added", "modified", "deleted"].map(|verb| format!("{verb} watched")).to_vec(),
    );
    let version = made.resource_version().unwrap_or_default();
    let seen = events(api.watch(&chosen, &version).await?, 2).await?;
    checks.equal(
        "watch: resumed",
        seen,
        ["modified", "deleted"].map(|verb| format!("{verb} watched")).to_vec(),
    );
    Ok(())
}

async fn events(
    stream: impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>>,
    count: usize,
) -> Result<Vec<String>, Problem> {
    let line = |event: WatchEvent<ConfigMap>| match event {
        WatchEvent::Added(object) => Some(format!("added {}", object.name_any())),
        WatchEvent::Modified(object) => Some(format!("modified {}", object.name_any())),
        WatchEvent::Deleted(object) => Some(format!("deleted {}", object.name_any())),
        WatchEvent::Bookmark(_) => None,
        WatchEvent::Error(status) => Some(format!("error {status:?}")),
    };
    let lines = stream.try_filter_map(|event| async move { Ok(line(event)) }).take(count).try_collect();
    Ok(tokio::time::timeout(PATIENCE, lines).await??)
}

/// Creates, changes and deletes an object; the answer is its first state.
async fn life(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, Problem> {
    let made = api.create(&PostParams::default(), &config_map(name, &[("life", name)])?).await?;
    let mut changed = made.clone();
    changed.data = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    api.replace(name, &PostParams::default(), &changed).await?;
    api.delete(name, &DeleteParams::default()).await?;
    Ok(made)
}

/// The watcher with both ways to get the first state, for objects and metadata.
async fn watchers(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &config_map("known", &[("life", "known")])?).await?;
    let partial: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client.clone(), namespace);
    let selector = "life in (known, later, thin)";
    let config = || watcher::Config::default().labels(selector);
    for (what, config) in [("list and watch", config()), ("streaming list", config().streaming_lists())] {
        let what = format!("watcher, {what}");
        let stream = watcher(api.clone(), config.clone());
        follow(checks, &what, stream, life(&api, "later"), "later").await?;
        let stream = watcher(partial.clone(), config);
        follow(checks, &format!("metadata {what}"), stream, life(&api, "thin"), "thin").await?;
    }
    Ok(())
}

async fn follow<K: ResourceExt>(
    checks: &mut Checks,
    what: &str,
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
    life: impl Future<Output = Result<ConfigMap, Problem>>,
    name: &str,
) -> Result<(), Problem> {
    let mut lines = pin!(stream.map_ok(|event| match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("init {}", object.name_any()),
        Event::InitDone => "init done".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }));
    let first: Vec<_> = tokio::time::timeout(PATIENCE, lines.by_ref().take(3).try_collect()).await??;
    checks.equal(
        &format!("{what}: first state"),
        first,
        ["init", "init known", "init done"].map(str::to_owned).to_vec(),
    );
    life.await?;
    let rest: Vec<_> = tokio::time::timeout(PATIENCE, lines.by_ref().take(3).try_collect()).await??;
    let expected = ["apply", "apply", "delete"].map(|verb| format!("{verb} {name}")).to_vec();
    checks.equal(&format!("{what}: changes"), rest, expected);
    Ok(())
}

/// A reflector's store follows the server.
async fn reflectors(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let post = PostParams::default();
    api.create(&post, &config_map("mirror-0", &[("mirror", "yes")])?).await?;
    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(api.clone(), watcher::Config::default().labels("mirror=yes")));
    let mut applied = pin!(stream.default_backoff().touched_objects());
    let names = || {
        let mut names: Vec<_> = store.state().iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    };
    tokio::time::timeout(PATIENCE, applied.try_next()).await??;
    api.create(&post, &config_map("mirror-1", &[("mirror", "yes")])?).await?;
    tokio::time::timeout(PATIENCE, applied.try_next()).await??;
    checks.equal("reflector: two", names(), vec!["mirror-0".to_owned(), "mirror-1".to_owned()]);
    tokio::time::timeout(PATIENCE, store.wait_until_ready()).await??;
    api.delete("mirror-0", &DeleteParams::default()).await?;
    tokio::time::timeout(PATIENCE, applied.try_next()).await??;
    checks.equal("reflector: one", names(), vec!["mirror-1".to_owned()]);
    Ok(())
}

/// Leaves nothing, even on a server that runs no namespace controller.
pub async fn clean_up(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(namespace, &DeleteParams::default()).await?;
    let mut left = namespaces.get(namespace).await?;
    let phase = left.status.as_ref().and_then(|status| status.phase.clone());
    checks.equal("namespace: phase", phase, Some("Terminating".to_owned()));
    left.spec = None;
    let body = serde_json::to_vec(&left)?;
    let request = http::Request::put(format!("/api/v1/namespaces/{namespace}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)?;
    client.request::<Namespace>(request).await?;
    checks.equal("namespace: gone", namespaces.get_opt(namespace).await?, None);
    Ok(())
}

fn config_map(name: &str, labels: &[(&str, &str)]) -> Result<ConfigMap, Problem> {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    read(json!({"metadata": {"name": name, "labels": labels}}))
}

pub fn read<K: DeserializeOwned>(value: Value) -> Result<K, Problem> {
    Ok(serde_json::from_value(value)?)
}

/// The Status of a call that must fail.
pub fn failure<T: Debug>(checks: &mut Checks, what: &str, result: Result<T, Error>) -> Option<Box<Status>> {
    match result {
        Err(Error::Api(status)) => Some(status),
        other => {
            checks.check(false, || format!("{what}: {other:?} instead of a Status"));
            None
        }
    }
}
