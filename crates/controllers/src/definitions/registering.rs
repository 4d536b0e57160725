//! An APIService for every group-version of custom resources, as there is one for
//! every other that is served.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Value, json};
use sternpost_meta::status::Status;
use sternpost_registry::object::Fields;
use sternpost_verbs::{DeleteOptions, Registry, Target, Writer, served::Served};
use tokio::sync::mpsc::UnboundedReceiver;

/// Marks the APIServices that come and go with what they stand for.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Group-versions of custom resources stand behind all that are built in.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// Keeps the APIServices of the groups it is told of.
pub(super) async fn run(registry: Arc<Registry>, mut groups: UnboundedReceiver<String>) {
    let Some(services) = registry.served.get("apiregistration.k8s.io", "v1", "apiservices") else { return };
    let mut registered = registered(&registry, &services);
    // What was registered before and went while nobody looked.
    let mut due: BTreeSet<String> = registered.keys().cloned().collect();
    loop {
        for group in std::mem::take(&mut due) {
            let versions = registered.entry(group.clone()).or_default();
            if let Err(status) = settle(&registry, &services, &group, versions).await {
                tracing::warn!(group, %status, "the APIServices of a group cannot be kept");
            }
            if versions.is_empty() {
                registered.remove(&group);
            }
        }
        match groups.recv().await {
            Some(group) => due.insert(group),
            None => return,
        };
        // Whatever else has piled up: a group is looked at once.
        while let Ok(group) = groups.try_recv() {
            due.insert(group);
        }
    }
}

/// The versions of each group that have an APIService of ours.
fn registered(registry: &Registry, services: &Served) -> HashMap<String, BTreeSet<String>> {
    let mut registered: HashMap<String, BTreeSet<String>> = HashMap::new();
    for service in registry.cache.resource(&services.id).snapshot().iter(None, None) {
        let service = service.value();
        if service.field("metadata").field("labels").text(MANAGED) == "true" {
            let spec = service.field("spec");
            registered.entry(spec.text("group").into()).or_default().insert(spec.text("version").into());
        }
    }
    registered
}

async fn settle(
    registry: &Registry,
    services: &Served,
    group: &str,
    registered: &mut BTreeSet<String>,
) -> Result<(), Status> {
    let served = registry.served.customs.in_group(group);
    let wanted: BTreeSet<String> =
        served.iter().map(|served| served.resource.gv.version.to_string()).collect();
    for version in wanted.difference(registered).cloned().collect::<Vec<_>>() {
        let target = Target { served: services, namespace: "", name: "" };
        match registry.create(target, service(group, &version), Writer::server()).await {
            Err(status) if status.code != 409 => return Err(status),
            // Whoever has made one already wants it so.
            _ => registered.insert(version),
        };
    }
    for version in registered.difference(&wanted).cloned().collect::<Vec<_>>() {
        let name = format!("{version}.{group}");
        let target = Target { served: services, namespace: "", name: &name };
        if is_managed(registry, target) {
            match registry.delete(target, &DeleteOptions::default(), Writer::server()).await {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        registered.remove(&version);
    }
    Ok(())
}

fn is_managed(registry: &Registry, target: Target<'_>) -> bool {
    let label = |service: Value| service.field("metadata").field("labels").text(MANAGED) == "true";
    registry.get(target).is_ok_and(|service| label(service.value()))
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
