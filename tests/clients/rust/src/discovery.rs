//! `kube::discovery`: all groups at once, in both protocols, and one-shots.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::ConfigMap,
    networking::v1::Ingress, rbac::v1::ClusterRole,
};
use kube::{
    Client, Error, Resource,
    core::{GroupVersion, GroupVersionKind},
    discovery::{self, ApiCapabilities, ApiGroup, ApiResource, Discovery, Scope, verbs},
    error::DiscoveryError,
};

use crate::{checks::Checks, recorded::Row};

/// The two forms that a server publishes its resources in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Legacy,
    Aggregated,
}

pub async fn check(checks: &mut Checks, client: &Client, rows: &[Row]) {
    for protocol in [Protocol::Legacy, Protocol::Aggregated] {
        everything(checks, client, rows, protocol).await;
        filtered(checks, client, rows, protocol).await;
    }
    one_shots(checks, client, rows).await;
    typed::<ConfigMap>(checks, client).await;
    typed::<Deployment>(checks, client).await;
    typed::<HorizontalPodAutoscaler>(checks, client).await;
    typed::<Ingress>(checks, client).await;
    typed::<ClusterRole>(checks, client).await;
    absent(checks, client).await;
}

async fn run(discovery: Discovery, protocol: Protocol) -> kube::Result<Discovery> {
    match protocol {
        Protocol::Legacy => discovery.run().await,
        Protocol::Aggregated => discovery.run_aggregated().await,
    }
}

async fn everything(checks: &mut Checks, client: &Client, rows: &[Row], protocol: Protocol) {
    let what = format!("{protocol:?} discovery");
    let Some(found) = checks.ok(&what, run(Discovery::new(client.clone()), protocol).await) else { return };

    let mut got = Vec::new();
    for group in found.groups() {
        for version in group.versions() {
            got.extend(lines(&group.versioned_resources(version), protocol));
        }
    }
    let expected: Vec<_> = rows.iter().map(|row| expected_line(row, protocol)).collect();
    checks.same_lines(&what, &got, &expected);

    let names: Vec<_> = found.groups_alphabetical().iter().map(|group| group.name().to_owned()).collect();
    checks.equal(&format!("{what}: groups"), names, group_names(rows).into_iter().collect());
    for row in rows.iter().filter(|row| !row.is_subresource()) {
        let gvk = GroupVersionKind::gvk(&row.group, &row.version, &row.kind);
        let resolved = found.resolve_gvk(&gvk);
        checks.check(resolved.is_some(), || format!("{what}: {gvk:?} does not resolve"));
        let Some((resource, capabilities)) = resolved else { continue };
        checks.equal(&format!("{what}: plural of {gvk:?}"), &resource.plural, &row.name);
        for verb in
            [verbs::CREATE, verbs::GET, verbs::LIST, verbs::WATCH, verbs::PATCH, verbs::DELETE_COLLECTION]
        {
            let expected = row.verbs.split(',').any(|served| served == verb);
            checks.equal(
                &format!("{what}: {verb} of {gvk:?}"),
                capabilities.supports_operation(verb),
                expected,
            );
        }
    }

    let group = found.get("autoscaling");
    checks.check(group.is_some(), || format!("{what}: no group autoscaling"));
    if let Some(group) = group {
        newest_version(checks, &what, group);
    }
}

/// autoscaling is the group with two versions: the newer one is preferred.
fn newest_version(checks: &mut Checks, what: &str, group: &ApiGroup) {
    let kind = "HorizontalPodAutoscaler";
    let version =
        |found: Option<&(ApiResource, ApiCapabilities)>| found.map(|(resource, _)| resource.version.clone());
    checks.equal(&format!("{what}: versions"), group.versions().collect::<Vec<_>>(), vec!["v2", "v1"]);
    checks.equal(&format!("{what}: preferred"), group.preferred_version(), Some("v2"));
    checks.equal(
        &format!("{what}: recommended"),
        version(group.recommended_kind(kind).as_ref()),
        Some("v2".into()),
    );
    let stable = group.resources_by_stability();
    checks.equal(&format!("{what}: most stable"), version(stable.first()), Some("v2".into()));
}

async fn filtered(checks: &mut Checks, client: &Client, rows: &[Row], protocol: Protocol) {
    let names =
        |found: Discovery| found.groups().map(|group| group.name().to_owned()).collect::<BTreeSet<_>>();
    let what = format!("{protocol:?} discovery of two groups");
    if let Some(found) =
        checks.ok(&what, run(Discovery::new(client.clone()).filter(&["", "apps"]), protocol).await)
    {
        checks.equal(&what, names(found), BTreeSet::from([String::new(), "apps".into()]));
    }
    let what = format!("{protocol:?} discovery of all but two groups");
    if let Some(found) =
        checks.ok(&what, run(Discovery::new(client.clone()).exclude(&["", "apps"]), protocol).await)
    {
        let mut expected = group_names(rows);
        expected.retain(|group| !["", "apps"].contains(&group.as_str()));
        checks.equal(&what, names(found), expected);
    }
}

/// Every group, group version and kind by itself.
async fn one_shots(checks: &mut Checks, client: &Client, rows: &[Row]) {
    for name in group_names(rows) {
        let what = format!("discovery::group {name:?}");
        let Some(group) = checks.ok(&what, discovery::group(client, &name).await) else { continue };
        let versions: BTreeSet<_> =
            rows.iter().filter(|row| row.group == name).map(|row| row.version.as_str()).collect();
        checks.equal(&what, group.versions().collect::<BTreeSet<_>>(), versions);
    }
    for served in rows.chunk_by(|a, b| a.group_version == b.group_version) {
        let Some(Row { group, version, group_version, .. }) = served.first() else { continue };
        let what = format!("discovery::pinned_group {group_version}");
        let pinned = discovery::pinned_group(client, &GroupVersion::gv(group, version)).await;
        if let Some(pinned) = checks.ok(&what, pinned) {
            let got = lines(&pinned.versioned_resources(version), Protocol::Legacy);
            let expected: Vec<_> = served.iter().map(|row| expected_line(row, Protocol::Legacy)).collect();
            checks.same_lines(&what, &got, &expected);
        }
    }
}

/// What discovery tells about a kind is what kube takes from its Rust type.
async fn typed<K: Resource<DynamicType = ()>>(checks: &mut Checks, client: &Client) {
    let erased = ApiResource::erase::<K>(&());
    let gvk = GroupVersionKind::gvk(&erased.group, &erased.version, &erased.kind);
    let what = format!("discovery::pinned_kind {gvk:?}");
    if let Some((resource, capabilities)) = checks.ok(&what, discovery::pinned_kind(client, &gvk).await) {
        checks.equal(&what, resource, erased);
        checks.check(capabilities.supports_operation(verbs::LIST), || format!("{what} cannot be listed"));
    }
}

/// What is not there fails in the way kube tells apart.
async fn absent(checks: &mut Checks, client: &Client) {
    let answer = discovery::pinned_kind(client, &GroupVersionKind::gvk("apps", "v1", "Absent")).await;
    let missing = matches!(answer, Err(Error::Discovery(DiscoveryError::MissingKind(_))));
    checks.check(missing, || format!("an absent kind: {answer:?}"));

    let answer = discovery::group(client, "absent.example.com").await.map(|group| group.name().to_owned());
    let missing = matches!(answer, Err(Error::Discovery(DiscoveryError::MissingApiGroup(_))));
    checks.check(missing, || format!("an absent group: {answer:?}"));

    let answer = client.list_api_group_resources("apps/v9").await;
    let missing = matches!(&answer, Err(Error::Api(status)) if status.code == 404);
    checks.check(missing, || format!("an absent version: {answer:?}"));
}

fn group_names(rows: &[Row]) -> BTreeSet<String> {
    rows.iter().map(|row| row.group.clone()).collect()
}

/// Resources and their subresources in the form of [`expected_line`].
fn lines(resources: &[(ApiResource, ApiCapabilities)], protocol: Protocol) -> Vec<String> {
    let mut lines = Vec::new();
    for (resource, capabilities) in resources {
        lines.push(line(resource, capabilities, &resource.plural, protocol));
        for (sub, sub_capabilities) in &capabilities.subresources {
            lines.push(line(sub, sub_capabilities, &format!("{}/{}", resource.plural, sub.plural), protocol));
        }
    }
    lines
}

fn line(resource: &ApiResource, capabilities: &ApiCapabilities, name: &str, protocol: Protocol) -> String {
    let response = match protocol {
        Protocol::Legacy => GroupVersion::gv(&resource.group, &resource.version).api_version(),
        Protocol::Aggregated => resource.api_version.clone(),
    };
    let namespaced = capabilities.scope == Scope::Namespaced;
    let verbs = capabilities.operations.join(",");
    format!("{} {name} {response} {} namespaced={namespaced} {verbs}", resource.api_version, resource.kind)
}

fn expected_line(row: &Row, protocol: Protocol) -> String {
    let Row { group_version, name, kind, namespaced, verbs, .. } = row;
    // kube reads the group version of a subresource's kind from the legacy form
    // only, and there as the list's own group if the answer has none.
    let response = match protocol {
        Protocol::Legacy if !row.response.is_empty() => &row.response,
        _ => group_version,
    };
    format!("{group_version} {name} {response} {kind} namespaced={namespaced} {verbs}")
}
