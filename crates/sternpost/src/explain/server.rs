//! Schemas of a running server: its discovery, then one OpenAPI document.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use serde_json::Value;
use sternpost_meta::gvk::GroupVersion;
use sternpost_openapi::{
    explain::{
        Subject,
        names::{self, FindError, Names, ResolvedName},
        sources,
    },
    read,
};

use crate::{
    client::{Client, TIMEOUT},
    kubeconfig::{self, AccessArgs},
};

const JSON: &str = "application/json";

/// Both forms of aggregated discovery, then the plain one every server has.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                         application/json";

/// The resource that is asked for, as the server of the kubeconfig publishes it.
pub fn subject(
    kubeconfig: &Path,
    context: Option<&str>,
    resource: &str,
    api_version: Option<&str>,
) -> anyhow::Result<(Subject, ResolvedName)> {
    let args = AccessArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: context.map(Into::into),
        ..AccessArgs::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let access = kubeconfig::load(&args).await?;
        let client = Client::new(&access, TIMEOUT)?;
        let known = discover(&client).await?;
        let found = names::find(&known, resource, api_version)?;
        let chosen = known.get(found.index).context("discovery has changed")?;
        let absent = || FindError::NotInVersion(chosen.gv.clone(), chosen.plural.clone());
        let path = format!("/openapi/v3/{}", chosen.gv.path());
        let json = client.get_ok(&path, JSON).await?;
        let (_, document) = read::document(&json).with_context(|| format!("the answer to {path}"))?;
        let subject = sources::in_document(document, chosen).ok_or_else(absent)?;
        Ok((subject, found))
    })
}

/// All names the server has, as it prefers them.
async fn discover(client: &Client) -> anyhow::Result<Vec<Names>> {
    let mut known = Vec::new();
    for root in ["/api", "/apis"] {
        let json = client.get_ok(root, DISCOVERY).await?;
        if json.get("kind").and_then(Value::as_str) == Some("APIGroupDiscoveryList") {
            known.extend(aggregated(&json));
            continue;
        }
        for gv in group_versions(&json) {
            // A group whose own server is away must not hide the others.
            let answer = client.get(&format!("/{}", gv.path()), JSON).await?;
            known.extend(resources(&gv, &answer.json));
        }
    }
    Ok(known)
}

/// The names in an `APIGroupDiscoveryList`.
fn aggregated(json: &Value) -> Vec<Names> {
    let mut known = Vec::new();
    for group in items(json, "items") {
        let name = group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        for version in items(group, "versions") {
            let gv = GroupVersion::new(name, text(version, "version"));
            for resource in items(version, "resources") {
                let kind = resource.pointer("/responseKind/kind").and_then(Value::as_str).unwrap_or_default();
                known.push(names_of(
                    &gv,
                    text(resource, "resource"),
                    kind,
                    text(resource, "singularResource"),
                    resource,
                ));
            }
        }
    }
    known
}

/// Of `APIVersions` or an `APIGroupList`; the preferred version of a group first.
fn group_versions(json: &Value) -> Vec<GroupVersion> {
    let core =
        items(json, "versions").filter_map(Value::as_str).map(|version| GroupVersion::new("", version));
    let named = items(json, "groups").flat_map(|group| {
        let preferred = group.get("preferredVersion").into_iter();
        preferred
            .chain(items(group, "versions"))
            .map(|version| GroupVersion::parse(text(version, "groupVersion")))
    });
    let mut all: Vec<GroupVersion> = Vec::new();
    for gv in core.chain(named) {
        if !all.contains(&gv) {
            all.push(gv);
        }
    }
    all
}

/// Of an `APIResourceList`, without subresources.
fn resources(gv: &GroupVersion, json: &Value) -> Vec<Names> {
    items(json, "resources")
        .filter(|resource| !text(resource, "name").contains('/'))
        .map(|resource| {
            names_of(
                gv,
                text(resource, "name"),
                text(resource, "kind"),
                text(resource, "singularName"),
                resource,
            )
        })
        .collect()
}

fn names_of(gv: &GroupVersion, plural: &str, kind: &str, singular: &str, resource: &Value) -> Names {
    let singular = if singular.is_empty() { kind.to_lowercase() } else { singular.to_owned() };
    let short_names: Vec<Arc<str>> =
        items(resource, "shortNames").filter_map(Value::as_str).map(Into::into).collect();
    Names { gv: gv.clone(), kind: kind.into(), plural: plural.into(), singular: singular.into(), short_names }
}

fn items<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(json: &'a Value, key: &str) -> &'a str {
    json.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_discovery_name_the_same_resources() {
        let aggregated = aggregated(&json!({"kind": "APIGroupDiscoveryList", "items": [{
            "metadata": {"name": "sea.example.com"},
            "versions": [{"version": "v1", "resources": [{
                "resource": "ships", "singularResource": "ship", "shortNames": ["shp"],
                "responseKind": {"group": "sea.example.com", "version": "v1", "kind": "Ship"},
                "subresources": [{"subresource": "status"}],
            }]}],
        }]}));
        let gv = GroupVersion::new("sea.example.com", "v1");
        let legacy = resources(
            &gv,
            &json!({"kind": "APIResourceList", "resources": [
                // Servers before 1.27 name no singular.
                {"name": "ships", "singularName": "", "kind": "Ship", "shortNames": ["shp"]},
                {"name": "ships/status", "singularName": "", "kind": "Ship"},
            ]}),
        );
        assert_eq!(aggregated, legacy);
        let expected = Names {
            gv,
            kind: "Ship".into(),
            plural: "ships".into(),
            singular: "ship".into(),
            short_names: vec!["shp".into()],
        };
        assert_eq!(legacy, [expected]);
    }

    #[test]
    fn the_preferred_version_comes_first() {
        let versions = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"groupVersion": name})).collect()
        };
        let groups = json!({"groups": [
            {"versions": versions(&["b/v2", "b/v1"]), "preferredVersion": {"groupVersion": "b/v1"}},
            {"versions": versions(&["a/v1"])},
        ]});
        let found: Vec<String> = group_versions(&groups).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["b/v1", "b/v2", "a/v1"]);
        assert_eq!(group_versions(&json!({"versions": ["v1"]})), [GroupVersion::new("", "v1")]);
        assert!(group_versions(&Value::Null).is_empty());
    }
}
