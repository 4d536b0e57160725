//! An APIService for each group-version of custom resources, as there is one for
//! every other that is served. One that is deleted or changed by others is put back,
//! unless it has lost its mark.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Value, json};
use sternpost_cache::Object;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{
    DeleteOptions, Failure, Part, Target, Verbs, Writer,
    served::{Served, is_built_in},
};

use super::ChangedGroups;
use crate::follow::{Follow, News, ObjectChange};

/// Marks the APIServices that come and go with what they stand for.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Group-versions of custom resources stand behind all that are built in.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// Keeps the APIServices of the groups it is told of.
pub(super) async fn run(verbs: Arc<Verbs>, groups: Arc<ChangedGroups>) {
    let Some(services) = verbs.served.get("apiregistration.k8s.io", "v1", "apiservices") else { return };
    let (objects, mut follow) = Follow::start(verbs.clone(), services.clone()).await;
    let mut registered = registered(&objects);
    // What was registered before and went while nobody looked.
    let mut due: BTreeSet<String> = registered.keys().cloned().collect();
    loop {
        for group in std::mem::take(&mut due) {
            let versions = registered.entry(group.clone()).or_default();
            if let Err(status) = settle(&verbs, &services, &group, versions).await {
                tracing::warn!(group, %status, "the APIServices of a group cannot be kept");
            }
            if versions.is_empty() {
                registered.remove(&group);
            }
        }
        tokio::select! {
            () = groups.more.notified() => {}
            news = follow.next() => match news {
                News::All(_) => due.extend(registered.keys().cloned()),
                News::Changes(changes) => due.extend(changes.iter().filter_map(|change| {
                    let (ObjectChange::Now(object) | ObjectChange::Gone(object)) = change;
                    let (_, group) = object.name().split_once('.')?;
                    registered.contains_key(group).then(|| group.to_owned())
                })),
            },
        }
        due.extend(groups.take());
    }
}

/// The versions of each group that have an APIService of ours.
fn registered(services: &[Arc<Object>]) -> HashMap<String, BTreeSet<String>> {
    let mut registered: HashMap<String, BTreeSet<String>> = HashMap::new();
    for service in services.iter().filter(|service| service.label(MANAGED) == Some("true")) {
        if let Some((version, group)) = service.name().split_once('.') {
            registered.entry(group.into()).or_default().insert(version.into());
        }
    }
    registered
}

async fn settle(
    verbs: &Verbs,
    services: &Served,
    group: &str,
    registered: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let customs = &verbs.served.customs;
    let wanted: BTreeSet<String> = if is_built_in(group) {
        customs.told_in(group).iter().map(|resource| resource.gv.version.to_string()).collect()
    } else {
        customs.in_group(group).iter().map(|served| served.resource.gv.version.to_string()).collect()
    };
    for version in &wanted {
        let name = format!("{version}.{group}");
        keep(verbs, Target { served: services, namespace: "", name: &name }, service(group, version)).await?;
        registered.insert(version.clone());
    }
    for version in registered.difference(&wanted).cloned().collect::<Vec<_>>() {
        let name = format!("{version}.{group}");
        let target = Target { served: services, namespace: "", name: &name };
        if verbs.get(target).is_ok_and(|service| is_managed(&service)) {
            match verbs.delete(target, &DeleteOptions::default(), Writer::server()).await {
                Err(status) if status.code() != 404 => return Err(status),
                _ => {}
            }
        }
        registered.remove(&version);
    }
    Ok(())
}

async fn keep(verbs: &Verbs, target: Target<'_>, wanted: Value) -> Result<(), Failure> {
    let kept = match verbs.get(target) {
        Err(_) => {
            let target = Target { name: "", ..target };
            verbs.create(target, wanted, Writer::server()).await
        }
        // Whoever has made one already wants it so.
        Ok(service) if !is_managed(&service) => return Ok(()),
        Ok(service) => {
            let mut service = service.value();
            if service.field("spec") == wanted.field("spec") {
                return Ok(());
            }
            service.set("spec", wanted.field("spec").clone());
            verbs.update(target, service, Part::Main, Writer::server()).await
        }
    };
    match kept {
        // Somebody was faster, and that will be seen.
        Err(status) if !matches!(status.code(), 404 | 409) => Err(status),
        _ => Ok(()),
    }
}

fn is_managed(service: &Object) -> bool {
    service.label(MANAGED) == Some("true")
}

fn service(group: &str, version: &str) -> Value {
    json!({
        "metadata": {"name": format!("{version}.{group}"), "labels": {MANAGED: "true"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
        },
    })
}
