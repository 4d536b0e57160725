//! What resources a server has, as its discovery tells.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use sternpost_meta::{gvk::GroupVersion, resource::Scope};
use sternpost_openapi::explain::names::Names;

use crate::client::{Client, JSON};

/// Both forms of aggregated discovery, then the plain one every server has.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                         application/json";

#[derive(Debug, Default)]
pub struct Discovered {
    /// As the server prefers them.
    pub resources: Vec<Served>,
    /// Group-versions whose own server is away.
    pub away: Vec<GroupVersion>,
}

/// A resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub names: Names,
    pub scope: Scope,
    pub verbs: Vec<String>,
    pub categories: Vec<String>,
    /// Whether its status is written apart from the rest.
    pub has_status: bool,
}

impl Served {
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

pub async fn discover(client: &Client) -> anyhow::Result<Discovered> {
    let mut discovered = Discovered::default();
    for root in ["/api", "/apis"] {
        let json = client.get_ok(root, DISCOVERY).await?;
        if json.get("kind").and_then(Value::as_str) == Some("APIGroupDiscoveryList") {
            discovered.aggregated(&json);
            continue;
        }
        for gv in group_versions(&json) {
            // A group whose own server is away must not hide the others.
            let answer = client.get(&format!("/{}", gv.path()), JSON).await?;
            if answer.status.is_success() {
                discovered.resources.extend(resources(&gv, &answer.json));
            } else {
                discovered.away.push(gv);
            }
        }
    }
    Ok(discovered)
}

impl Discovered {
    /// What an `APIGroupDiscoveryList` tells.
    fn aggregated(&mut self, json: &Value) {
        for group in items(json, "items") {
            let name = group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            for version in items(group, "versions") {
                let gv = GroupVersion::new(name, text(version, "version"));
                if text(version, "freshness") == "Stale" {
                    self.away.push(gv.clone());
                }
                for resource in items(version, "resources") {
                    let kind = resource.pointer("/responseKind/kind").and_then(Value::as_str);
                    let names = names_of(
                        &gv,
                        text(resource, "resource"),
                        kind.unwrap_or_default(),
                        text(resource, "singularResource"),
                        resource,
                    );
                    let scope = scope(text(resource, "scope") == "Namespaced");
                    let mut subresources = items(resource, "subresources");
                    let has_status = subresources.any(|sub| text(sub, "subresource") == "status");
                    self.resources.push(served(names, scope, has_status, resource));
                }
            }
        }
    }
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

/// Of an `APIResourceList`.
fn resources(gv: &GroupVersion, json: &Value) -> Vec<Served> {
    let (below, main): (Vec<&Value>, Vec<&Value>) =
        items(json, "resources").partition(|resource| text(resource, "name").contains('/'));
    let with_status: HashSet<&str> =
        below.into_iter().filter_map(|resource| text(resource, "name").strip_suffix("/status")).collect();
    let one = |resource: &Value| {
        let plural = text(resource, "name");
        let names = names_of(gv, plural, text(resource, "kind"), text(resource, "singularName"), resource);
        let is_namespaced = resource.get("namespaced").and_then(Value::as_bool).unwrap_or_default();
        served(names, scope(is_namespaced), with_status.contains(plural), resource)
    };
    main.into_iter().map(one).collect()
}

fn served(names: Names, scope: Scope, has_status: bool, resource: &Value) -> Served {
    let texts = |field| items(resource, field).filter_map(Value::as_str).map(Into::into).collect();
    Served { names, scope, verbs: texts("verbs"), categories: texts("categories"), has_status }
}

fn scope(is_namespaced: bool) -> Scope {
    if is_namespaced { Scope::Namespaced } else { Scope::Cluster }
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
        let mut aggregated = Discovered::default();
        aggregated.aggregated(&json!({"kind": "APIGroupDiscoveryList", "items": [{
            "metadata": {"name": "sea.example.com"},
            "versions": [
                {"version": "v1", "freshness": "Current", "resources": [{
                    "resource": "ships", "singularResource": "ship", "shortNames": ["shp"],
                    "responseKind": {"group": "sea.example.com", "version": "v1", "kind": "Ship"},
                    "scope": "Namespaced", "verbs": ["list", "create"], "categories": ["all"],
                    "subresources": [{"subresource": "status"}],
                }]},
                {"version": "v2", "freshness": "Stale"},
            ],
        }]}));
        let gv = GroupVersion::new("sea.example.com", "v1");
        let legacy = resources(
            &gv,
            &json!({"kind": "APIResourceList", "resources": [
                // Servers before 1.27 name no singular.
                {"name": "ships", "singularName": "", "kind": "Ship", "shortNames": ["shp"], "namespaced": true,
                 "verbs": ["list", "create"], "categories": ["all"]},
                {"name": "ships/status", "singularName": "", "kind": "Ship"},
            ]}),
        );
        assert_eq!(aggregated.resources, legacy);
        assert_eq!(aggregated.away, [GroupVersion::new("sea.example.com", "v2")]);
        let names = Names {
            gv,
            kind: "Ship".into(),
            plural: "ships".into(),
            singular: "ship".into(),
            short_names: vec!["shp".into()],
        };
        let expected = Served {
            names,
            scope: Scope::Namespaced,
            verbs: vec!["list".into(), "create".into()],
            categories: vec!["all".into()],
            has_status: true,
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
