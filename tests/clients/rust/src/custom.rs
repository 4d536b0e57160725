//! Suite kube-rs-custom: derived custom resources, from their definition to
//! their end.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{
    StreamExt, TryStreamExt,
    future::{Either, select},
};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt, Discovery, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams, ValidationDirective, WatchEvent, WatchParams,
    },
    core::PartialObjectMeta,
    discovery,
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        finalizer::{Event, finalizer},
        reflector,
        wait::{await_condition, conditions, delete::delete_and_finalize},
        watcher,
    },
};
use serde_json::{Value, json};

use crate::{
    Problem,
    checks::Checks,
    custom_kinds::{
        Anchor, AnchorSpec, AnchorStatus, Buoy, BuoyFields, Fluke, GROUP, Metal, definitions, v1alpha1,
    },
    objects::{PATIENCE, clean_up, failure, read},
};

const HOLD: &str = "kube-rs.example.com/hold";

pub async fn check(checks: &mut Checks, client: &Client) -> Result<(), Problem> {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let namespace = format!("kube-rs-{moment:x}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = read(json!({"metadata": {"name": namespace}}))?;
    if checks.ok("create namespace", namespaces.create(&PostParams::default(), &body).await).is_none() {
        return Ok(());
    }
    let made = define(checks, client).await;
    if checks.ok("define", made).is_some() {
        let anchors: Api<Anchor> = Api::namespaced(client.clone(), &namespace);
        let parts: [(&str, Result<(), Problem>); 11] = [
            ("find", find(checks, client).await),
            ("values", values(checks, &anchors).await),
            ("rules", rules(checks, &anchors).await),
            ("changes", changes(checks, &anchors).await),
            ("applies", applies(checks, &anchors).await),
            ("subresources", subresources(checks, &anchors).await),
            ("versions", versions(checks, client, &namespace).await),
            ("untyped", untyped(checks, client, &namespace).await),
            ("watches", watches(checks, client, &namespace).await),
            ("controller", controller(checks, &anchors).await),
            ("finalizers", finalizers(checks, &anchors).await),
        ];
        for (what, result) in parts {
            checks.ok(what, result);
        }
    }
    let gone = undefine(checks, client, &namespace).await;
    checks.ok("undefine", gone);
    clean_up(checks, client, &namespace).await
}

fn anchor(name: &str, spec: AnchorSpec) -> Anchor {
    Anchor::new(name, spec)
}

fn weight(weight: i32) -> AnchorSpec {
    AnchorSpec { weight, replicas: 1, ..AnchorSpec::default() }
}

/// Applies what was derived and waits until it is established and found.
async fn define(checks: &mut Checks, client: &Client) -> Result<(), Problem> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions()? {
        let name = definition.name_any();
        let apply = PatchParams::apply("suite").force();
        let made = api.patch(&name, &apply, &Patch::Apply(&definition)).await?;
        checks.equal(&format!("{name}: generation"), made.metadata.generation, Some(1));
        let established = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, established).await??;
        let read = api.get(&name).await?;
        let conditions = read.status.and_then(|status| status.conditions).unwrap_or_default();
        let mut lines: Vec<_> =
            conditions.iter().map(|it| format!("{} {} {:?}", it.type_, it.status, it.reason)).collect();
        lines.sort();
        let expected =
            [r#"Established True Some("InitialNamesAccepted")"#, r#"NamesAccepted True Some("NoConflicts")"#];
        checks.equal(&format!("{name}: conditions"), lines, expected.map(str::to_owned).to_vec());
        let again = api.patch(&name, &apply, &Patch::Apply(&definition)).await?;
        checks.equal(&format!("{name}: applied again"), again.metadata.generation, Some(1));
    }
    // A real server is a moment late in discovery.
    let found = async {
        loop {
            match discovery::pinned_kind(client, &GroupVersionKind::gvk(GROUP, "v1", "Buoy")).await {
                Ok(_) => break,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await?;
    Ok(())
}

async fn find(checks: &mut Checks, client: &Client) -> Result<(), Problem> {
    let group = discovery::group(client, GROUP).await?;
    checks.equal("preferred version", group.preferred_version_or_latest(), "v1");
    let mut versions: Vec<_> = group.versions().map(str::to_owned).collect();
    versions.sort();
    checks.equal("versions", versions, vec!["v1".to_owned(), "v1alpha1".to_owned()]);
    let (resource, capabilities) =
        discovery::pinned_kind(client, &GroupVersionKind::gvk(GROUP, "v1", "Anchor")).await?;
    checks.equal("derived resource", &resource, &Anchor::api_resource());
    checks.check(capabilities.supports_operation(discovery::verbs::WATCH), || "no watch".into());
    let mut subresources: Vec<_> =
        capabilities.subresources.iter().map(|(found, _)| found.plural.clone()).collect();
    subresources.sort();
    checks.equal("subresources", subresources, vec!["scale".to_owned(), "status".to_owned()]);
    for aggregated in [false, true] {
        let filtered = Discovery::new(client.clone()).filter(&[GROUP]);
        let found = if aggregated { filtered.run_aggregated().await? } else { filtered.run().await? };
        let kinds: Vec<_> = found.groups().flat_map(|group| group.recommended_resources()).collect();
        let mut names: Vec<_> = kinds.iter().map(|(resource, _)| resource.kind.clone()).collect();
        names.sort();
        checks.equal(
            &format!("kinds, aggregated {aggregated}"),
            names,
            vec!["Anchor".to_owned(), "Buoy".to_owned()],
        );
        let scope =
            kinds.iter().find(|(resource, _)| resource.kind == "Buoy").map(|(_, it)| it.scope.clone());
        checks.equal(&format!("scope, aggregated {aggregated}"), scope, Some(discovery::Scope::Cluster));
    }
    Ok(())
}

/// Create, get, replace; defaults, pruning, strictness.
async fn values(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let post = PostParams::default();
    let spec = AnchorSpec {
        flukes: vec![Fluke { name: "a".into(), length: 3 }],
        tags: vec!["x".into()],
        ..weight(5)
    };
    let made = anchors.create(&post, &anchor("values", spec.clone())).await?;
    checks.equal("create", &made.spec, &spec);
    checks.equal("generation", made.metadata.generation, Some(1));
    checks.equal("get", anchors.get("values").await?, made.clone());
    let mut changed = made.clone();
    changed.spec.weight = 6;
    let replaced = anchors.replace("values", &post, &changed).await?;
    checks.equal("replace", (replaced.spec.weight, replaced.metadata.generation), (6, Some(2)));
    if let Some(status) = failure(checks, "stale replace", anchors.replace("values", &post, &changed).await) {
        checks.equal("stale replace", (status.code, status.reason.as_str()), (409, "Conflict"));
    }
    if let Some(status) =
        failure(checks, "create again", anchors.create(&post, &anchor("values", weight(1))).await)
    {
        checks.equal(
            "create again",
            status.message.as_str(),
            r#"anchors.kube-rs.example.com "values" already exists"#,
        );
    }
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    anchors.create(&dry, &anchor("dry", weight(1))).await?;
    checks.equal("dry run", anchors.get_opt("dry").await?, None);

    // What the type would not send: only required fields, and unknown ones.
    let untyped: Api<DynamicObject> = Api::namespaced_with(
        anchors.clone().into_client(),
        anchors_namespace(anchors),
        &Anchor::api_resource(),
    );
    let bare = DynamicObject::new("bare", &Anchor::api_resource())
        .data(json!({"spec": {"weight": 7, "flukes": [{"name": "a", "odd": 1}], "odd": {"deep": 1}}}));
    let made = untyped.create(&post, &bare).await?;
    checks.equal(
        "defaults and pruning",
        made.data.get("spec"),
        Some(&json!({"weight": 7, "metal": "iron", "replicas": 1, "flukes": [{"name": "a", "length": 1}]})),
    );
    let strict =
        PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::default() };
    let refused = untyped.patch("bare", &strict, &Patch::Merge(json!({"spec": {"odd": 1}}))).await;
    if let Some(status) = failure(checks, "strict", refused) {
        checks.equal("strict", status.code, 422);
        checks.check(status.message.contains(r#"unknown field "spec.odd""#), || status.message.clone());
    }
    for name in ["values", "bare"] {
        anchors.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

fn anchors_namespace(anchors: &Api<Anchor>) -> &str {
    anchors.namespace().unwrap_or_default()
}

async fn rules(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let post = PostParams::default();
    let lead = AnchorSpec { metal: Metal::Lead, ..weight(9) };
    let cases = [
        ("range", anchor("r", weight(0)), "FieldValueInvalid", "spec.weight"),
        ("rule", anchor("r", lead), "FieldValueForbidden", "spec.weight"),
        ("rule of the root", anchor("forbidden", weight(1)), "FieldValueInvalid", "<nil>"),
        (
            "set",
            anchor("r", AnchorSpec { tags: vec!["a".into(), "a".into()], ..weight(1) }),
            "FieldValueDuplicate",
            "spec.tags[1]",
        ),
        (
            "length",
            anchor("r", AnchorSpec { maker: Some("m".repeat(21)), ..weight(1) }),
            "FieldValueTooLong",
            "spec.maker",
        ),
    ];
    for (what, body, reason, field) in cases {
        if let Some(status) = failure(checks, what, anchors.create(&post, &body).await) {
            checks.equal(what, (status.code, status.reason.as_str()), (422, "Invalid"));
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            let found = causes.iter().any(|cause| cause.reason == reason && cause.field == field);
            checks.check(found, || format!("{what}: {causes:?}"));
        }
    }
    let made = AnchorSpec { maker: Some("me".into()), ..weight(1) };
    anchors.create(&post, &anchor("ruled", made)).await?;
    let patch = Patch::Merge(json!({"spec": {"maker": "you"}}));
    if let Some(status) =
        failure(checks, "transition", anchors.patch("ruled", &PatchParams::default(), &patch).await)
    {
        checks.check(status.message.contains("a maker does not change"), || status.message.clone());
    }
    anchors.delete("ruled", &DeleteParams::default()).await?;
    Ok(())
}

async fn changes(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let plain = PatchParams::default();
    anchors.create(&PostParams::default(), &anchor("patched", weight(5))).await?;
    let merged = anchors
        .patch("patched", &plain, &Patch::Merge(json!({"spec": {"marks": {"a": "b"}, "weight": 6}})))
        .await?;
    checks.equal("merge patch", (merged.spec.weight, merged.spec.marks.len()), (6, 1));
    let operations = json!([
        {"op": "test", "path": "/spec/weight", "value": 6},
        {"op": "replace", "path": "/spec/weight", "value": 7},
        {"op": "remove", "path": "/spec/marks/a"},
    ]);
    let patch: json_patch::Patch = serde_json::from_value(operations)?;
    let patched = anchors.patch("patched", &plain, &Patch::Json::<()>(patch)).await?;
    checks.equal("JSON patch", (patched.spec.weight, patched.spec.marks.len()), (7, 0));
    let strategic = anchors.patch("patched", &plain, &Patch::Strategic(json!({"spec": {"weight": 8}}))).await;
    if let Some(status) = failure(checks, "strategic patch", strategic) {
        checks.equal("strategic patch", (status.code, status.reason.as_str()), (415, "UnsupportedMediaType"));
    }
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let partial = anchors.patch_metadata("patched", &plain, &Patch::Merge(labels)).await?;
    checks.equal("metadata patch", partial.labels().get("a").map(String::as_str), Some("b"));
    checks.equal("generation", partial.metadata.generation, Some(3));
    let entry = anchors.entry("patched").await?.and_modify(|it| it.spec.weight = 9);
    let mut entry = match entry {
        kube::api::entry::Entry::Occupied(entry) => entry,
        kube::api::entry::Entry::Vacant(_) => return Err("patched is not there".into()),
    };
    entry.commit(&PostParams::default()).await?;
    checks.equal("entry", anchors.get("patched").await?.spec.weight, 9);
    anchors.delete("patched", &DeleteParams::default()).await?;
    Ok(())
}

async fn applies(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let body = |spec: Value| json!({"apiVersion": "kube-rs.example.com/v1", "kind": "Anchor", "metadata": {"name": "applied"}, "spec": spec});
    let (mine, theirs) = (PatchParams::apply("mine"), PatchParams::apply("theirs"));
    let nameless = json!({"apiVersion": "kube-rs.example.com/v1", "kind": "Anchor", "spec": {"weight": 1}});
    if let Some(status) =
        failure(checks, "no name", anchors.patch("applied", &mine, &Patch::Apply(&nameless)).await)
    {
        let message =
            "the name of the object (applied based on URL) was undeterminable: name must be provided";
        checks.equal("no name", (status.code, status.message.as_str()), (400, message));
    }
    let first = body(json!({"weight": 5, "flukes": [{"name": "a", "length": 2}], "tags": ["x"]}));
    let made = anchors.patch("applied", &mine, &Patch::Apply(&first)).await?;
    let again = anchors.patch("applied", &mine, &Patch::Apply(&first)).await?;
    checks.equal("apply again", again.resource_version(), made.resource_version());
    let second = body(json!({"flukes": [{"name": "b"}], "tags": ["y"]}));
    let both = anchors.patch("applied", &theirs, &Patch::Apply(&second)).await?;
    let names: Vec<_> = both.spec.flukes.iter().map(|it| (it.name.clone(), it.length)).collect();
    checks.equal("merged by key", names, vec![("a".into(), 2), ("b".into(), 1)]);
    checks.equal("merged set", both.spec.tags, vec!["x".to_owned(), "y".to_owned()]);
    let third = body(json!({"weight": 6, "flukes": [{"name": "a", "length": 3}]}));
    if let Some(status) =
        failure(checks, "conflict", anchors.patch("applied", &theirs, &Patch::Apply(&third)).await)
    {
        checks.equal("conflict", (status.code, status.reason.as_str()), (409, "Conflict"));
        let mut fields: Vec<_> =
            status.details.into_iter().flat_map(|details| details.causes).map(|cause| cause.field).collect();
        fields.sort();
        checks.equal(
            "conflict: fields",
            fields,
            vec![r#".spec.flukes[name="a"].length"#.to_owned(), ".spec.weight".to_owned()],
        );
    }
    let forced = anchors.patch("applied", &theirs.clone().force(), &Patch::Apply(&third)).await?;
    checks.equal("forced", (forced.spec.weight, forced.spec.flukes.len()), (6, 1));
    let status = json!({"apiVersion": "kube-rs.example.com/v1", "kind": "Anchor", "metadata": {"name": "applied"}, "status": {"observedGeneration": 2}});
    let shown =
        anchors.patch_status("applied", &PatchParams::apply("controller"), &Patch::Apply(&status)).await?;
    checks.equal("applied status", shown.status.and_then(|it| it.observed_generation), Some(2));
    let owners: Vec<_> = shown
        .metadata
        .managed_fields
        .into_iter()
        .flatten()
        .map(|it| format!("{} {}", it.manager.unwrap_or_default(), it.subresource.unwrap_or_default()))
        .collect();
    checks.check(owners.contains(&"controller status".to_owned()), || format!("owners {owners:?}"));
    // A typed object applies as well, and owns its defaults then.
    let typed = anchor("typed", AnchorSpec { metal: Metal::Lead, ..weight(10) });
    let made = anchors.patch("typed", &mine, &Patch::Apply(&typed)).await?;
    checks.equal("typed apply", made.spec.metal, Metal::Lead);
    for name in ["applied", "typed"] {
        anchors.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn subresources(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let (post, plain) = (PostParams::default(), PatchParams::default());
    let mut body = anchor("sub", AnchorSpec { replicas: 3, ..weight(5) });
    body.status = Some(AnchorStatus { replicas: Some(9), ..AnchorStatus::default() });
    let mut made = anchors.create(&post, &body).await?;
    checks.equal("no status from a create", made.status.take(), None);
    made.status =
        Some(AnchorStatus { replicas: Some(2), selector: Some("a=b".into()), observed_generation: None });
    made.spec.weight = 99;
    let shown = anchors.replace_status("sub", &post, &made).await?;
    checks.equal("replace_status", (shown.spec.weight, shown.metadata.generation), (5, Some(1)));
    let status = json!({"status": {"observedGeneration": 1}});
    let shown = anchors.patch_status("sub", &plain, &Patch::Merge(status)).await?;
    checks.equal("patch_status", shown.status.as_ref().and_then(|it| it.observed_generation), Some(1));
    checks.equal("get_status", anchors.get_status("sub").await?.status, shown.status);
    let scale = anchors.get_scale("sub").await?;
    let seen = (
        scale.spec.as_ref().and_then(|spec| spec.replicas),
        scale.status.as_ref().map(|status| (status.replicas, status.selector.clone())),
    );
    checks.equal("get_scale", seen, (Some(3), Some((2, Some("a=b".to_owned())))));
    let scaled = anchors.patch_scale("sub", &plain, &Patch::Merge(json!({"spec": {"replicas": 4}}))).await?;
    checks.equal("patch_scale", scaled.spec.as_ref().and_then(|spec| spec.replicas), Some(4));
    let mut body = scaled;
    if let Some(spec) = &mut body.spec {
        spec.replicas = Some(5);
    }
    let scaled = anchors.replace_scale("sub", &post, &body).await?;
    checks.equal("replace_scale", scaled.spec.and_then(|spec| spec.replicas), Some(5));
    let last = anchors.get("sub").await?;
    checks.equal("scaled", (last.spec.replicas, last.metadata.generation), (5, Some(3)));
    anchors.delete("sub", &DeleteParams::default()).await?;
    Ok(())
}

async fn versions(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let old: Api<v1alpha1::Anchor> = Api::namespaced(client.clone(), namespace);
    let new: Api<Anchor> = Api::namespaced(client.clone(), namespace);
    let body = v1alpha1::Anchor::new("old", v1alpha1::AnchorSpec { weight: 5 });
    let made = old.create(&PostParams::default(), &body).await?;
    let read = new.get("old").await?;
    checks.equal("both versions", read.uid(), made.uid());
    checks.equal("defaults of the stored version", (read.spec.metal, read.spec.replicas), (Metal::Iron, 1));
    new.delete("old", &DeleteParams::default()).await?;

    let buoys: Api<Buoy> = Api::all(client.clone());
    let name = format!("{namespace}-buoy");
    let made = buoys
        .create(&PostParams::default(), &Buoy::new(&name, BuoyFields { colour: "red".into(), bell: None }))
        .await?;
    checks.equal("cluster scope", (made.namespace(), made.spec.colour), (None, "red".to_owned()));
    let patched = buoys.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"bell": true}))).await?;
    checks.equal("no spec", (patched.spec.bell, patched.metadata.generation), (Some(true), Some(2)));
    let missing: Result<Buoy, _> = buoys.get_subresource("status", &name).await;
    checks.check(missing.is_err(), || "a status where none is defined".into());
    buoys.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn untyped(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "Anchor");
    let (resource, _) = discovery::pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let post = PostParams::default();
    for (number, metal) in ["iron", "lead", "iron", "lead", "iron"].into_iter().enumerate() {
        let mut body = DynamicObject::new(&format!("page-{number}"), &resource)
            .data(json!({"spec": {"weight": 10 + number, "metal": metal}}));
        body.labels_mut().insert("paged".into(), "yes".into());
        let made = api.create(&post, &body).await?;
        checks.equal("typed from untyped", made.try_parse::<Anchor>()?.spec.replicas, 1);
    }
    let list = api.list(&ListParams::default().labels("paged=yes")).await?;
    checks.equal("list kind", list.types.kind.as_str(), "AnchorList");
    let lead = api.list(&ListParams::default().fields("spec.metal=lead")).await?;
    let names: Vec<_> = lead.items.iter().map(ResourceExt::name_any).collect();
    checks.equal("field selector", names, vec!["page-1".to_owned(), "page-3".to_owned()]);
    if let Some(status) =
        failure(checks, "other field", api.list(&ListParams::default().fields("spec.weight=10")).await)
    {
        checks.equal(
            "other field",
            (status.code, status.message.as_str()),
            (400, "field label not supported: spec.weight"),
        );
    }
    let (mut names, mut token, mut pages) = (Vec::new(), None, 0);
    loop {
        let mut parameters = ListParams::default().limit(2).labels("paged=yes");
        parameters.continue_token = token;
        let page = api.list_metadata(&parameters).await?;
        pages += 1;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            break;
        }
    }
    checks.equal("pages of metadata", (names.len(), pages), (5, 3));
    api.delete_collection(&DeleteParams::default(), &ListParams::default().fields("spec.metal=lead")).await?;
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("paged=yes")).await?;
    checks.equal("delete_collection", api.list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}

/// Raw watches, watchers with both ways to get the first state, a reflector.
async fn watches(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let anchors: Api<Anchor> = Api::namespaced(client.clone(), namespace);
    let (post, plain) = (PostParams::default(), PatchParams::default());
    let begin = anchors.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    anchors.create(&post, &anchor("watched", AnchorSpec { metal: Metal::Lead, ..weight(10) })).await?;
    anchors.patch("watched", &plain, &Patch::Merge(json!({"spec": {"metal": "iron"}}))).await?;
    anchors.delete("watched", &DeleteParams::default()).await?;
    let lead = WatchParams::default().fields("spec.metal=lead").timeout(15);
    for (what, parameters, expected) in [
        ("watch", WatchParams::default().timeout(15), vec!["added", "modified", "deleted"]),
        ("watch of a field", lead, vec!["added", "deleted"]),
    ] {
        let lines = anchors.watch(&parameters, &begin).await?.try_filter_map(|event| async move {
            Ok(match event {
                WatchEvent::Added(_) => Some("added"),
                WatchEvent::Modified(_) => Some("modified"),
                WatchEvent::Deleted(_) => Some("deleted"),
                WatchEvent::Bookmark(_) => None,
                WatchEvent::Error(_) => Some("error"),
            })
        });
        let seen: Vec<_> = tokio::time::timeout(PATIENCE, lines.take(expected.len()).try_collect()).await??;
        checks.equal(what, seen, expected);
    }

    anchors.create(&post, &anchor("known", weight(1))).await?;
    let partial: Api<PartialObjectMeta<Anchor>> = Api::namespaced(client.clone(), namespace);
    for streaming in [false, true] {
        let config =
            if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
        let mut events = pin!(watcher(anchors.clone(), config.clone()));
        let mut partials = pin!(watcher(partial.clone(), config));
        for _ in 0..3 {
            tokio::time::timeout(PATIENCE, events.try_next()).await??;
            tokio::time::timeout(PATIENCE, partials.try_next()).await??;
        }
        anchors.create(&post, &anchor("fresh", weight(2))).await?;
        let event = tokio::time::timeout(PATIENCE, events.try_next()).await??;
        let fresh = matches!(&event, Some(watcher::Event::Apply(it)) if it.name_any() == "fresh" && it.spec.weight == 2);
        checks.check(fresh, || format!("watcher, streaming {streaming}: {event:?}"));
        let event = tokio::time::timeout(PATIENCE, partials.try_next()).await??;
        let fresh = matches!(&event, Some(watcher::Event::Apply(it)) if it.name_any() == "fresh");
        checks.check(fresh, || format!("metadata watcher, streaming {streaming}: {event:?}"));
        anchors.delete("fresh", &DeleteParams::default()).await?;
        let event = tokio::time::timeout(PATIENCE, events.try_next()).await??;
        checks.check(matches!(&event, Some(watcher::Event::Delete(_))), || format!("watcher: {event:?}"));
    }

    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(anchors.clone(), watcher::Config::default()));
    let mut touched = pin!(stream.default_backoff().touched_objects());
    tokio::time::timeout(PATIENCE, touched.try_next()).await??;
    anchors.patch("known", &plain, &Patch::Merge(json!({"spec": {"weight": 3}}))).await?;
    tokio::time::timeout(PATIENCE, touched.try_next()).await??;
    let weights: Vec<_> = store.state().iter().map(|it| it.spec.weight).collect();
    checks.equal("reflector", weights, vec![3]);
    anchors.delete("known", &DeleteParams::default()).await?;
    tokio::time::timeout(PATIENCE, touched.try_next()).await??;
    checks.equal("reflector: empty", store.state().len(), 0);
    Ok(())
}

/// A controller that shows in the status what it has seen.
async fn controller(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let reconcile = |object: Arc<Anchor>, api: Arc<Api<Anchor>>| async move {
        let status = json!({"status": {"observedGeneration": object.metadata.generation}});
        api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let policy =
        |_: Arc<Anchor>, _: &kube::Error, _: Arc<Api<Anchor>>| Action::requeue(Duration::from_secs(1));
    let running = Controller::new(anchors.clone(), watcher::Config::default())
        .run(reconcile, policy, Arc::new(anchors.clone()))
        .for_each(|_| std::future::ready(()));
    let observed = |generation: i64| {
        move |object: Option<&Anchor>| {
            object.and_then(|it| it.status.as_ref()).and_then(|it| it.observed_generation) == Some(generation)
        }
    };
    let story = async {
        anchors.create(&PostParams::default(), &anchor("controlled", weight(1))).await?;
        await_condition(anchors.clone(), "controlled", observed(1)).await?;
        let change = Patch::Merge(json!({"spec": {"weight": 2}}));
        anchors.patch("controlled", &PatchParams::default(), &change).await?;
        await_condition(anchors.clone(), "controlled", observed(2)).await?;
        Ok::<_, Problem>(())
    };
    let told = match select(pin!(running), pin!(tokio::time::timeout(PATIENCE, story))).await {
        Either::Left(_) => Err("the controller ended".into()),
        Either::Right((told, _)) => told.map_err(Problem::from).flatten(),
    };
    checks.ok("controller follows generations", told);
    anchors.delete("controlled", &DeleteParams::default()).await?;
    Ok(())
}

/// The helper for finalizers, which writes with JSON patches that test.
async fn finalizers(checks: &mut Checks, anchors: &Api<Anchor>) -> Result<(), Problem> {
    let step = |object: Anchor| async move {
        let mut seen = None;
        finalizer(anchors, HOLD, Arc::new(object), |event| {
            seen = Some(matches!(event, Event::Cleanup(_)));
            std::future::ready(Ok::<_, std::io::Error>(Action::await_change()))
        })
        .await?;
        Ok::<_, Problem>(seen)
    };
    let made = anchors.create(&PostParams::default(), &anchor("held", weight(1))).await?;
    checks.equal("finalizer: first only adds", step(made).await?, None);
    let held = anchors.get("held").await?;
    checks.equal("finalizer: added", held.finalizers().to_vec(), vec![HOLD.to_owned()]);
    checks.equal("finalizer: then applies", step(held).await?, Some(false));
    let deleted = anchors.delete("held", &DeleteParams::default()).await?;
    checks.check(deleted.is_left(), || "a held anchor was deleted at once".into());
    let going = anchors.get("held").await?;
    checks.check(going.meta().deletion_timestamp.is_some(), || "no time of deletion".into());
    checks.equal("finalizer: cleans up", step(going).await?, Some(true));
    checks.equal("finalizer: gone", anchors.get_opt("held").await?, None);

    anchors.create(&PostParams::default(), &anchor("waited", weight(1))).await?;
    let foreground = DeleteParams::foreground();
    let deleting = delete_and_finalize(anchors.clone(), "waited", &foreground);
    let letting_go = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        anchors.patch("waited", &PatchParams::default(), &patch).await
    };
    let (deleted, released) = futures::join!(tokio::time::timeout(PATIENCE, deleting), letting_go);
    released?;
    checks.ok("delete_and_finalize", deleted?);
    Ok(())
}

/// A definition takes its objects along.
async fn undefine(checks: &mut Checks, client: &Client, namespace: &str) -> Result<(), Problem> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let anchors: Api<Anchor> = Api::namespaced(client.clone(), namespace);
    let left = anchors.create(&PostParams::default(), &anchor("left", weight(1))).await;
    checks.ok("left", left);
    let plain = DeleteParams::default();
    for definition in definitions()? {
        let name = definition.name_any();
        let deleting = delete_and_finalize(api.clone(), &name, &plain);
        checks.ok(&name, tokio::time::timeout(PATIENCE, deleting).await?);
    }
    let ended = async {
        while anchors.list(&ListParams::default()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    checks.ok("no longer served", tokio::time::timeout(PATIENCE, ended).await);
    let resource = ApiResource::erase::<Anchor>(&());
    let untyped: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    if let Some(status) = failure(checks, "objects are gone", untyped.get("left").await) {
        checks.equal("objects are gone", (status.code, status.message.trim()), (404, "404 page not found"));
    }
    Ok(())
}
