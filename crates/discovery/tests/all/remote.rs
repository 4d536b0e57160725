//! What other servers serve, beside what is served here. Orders and documents are those that
//! kube-apiserver 1.36.4 gave for the same APIServices.

use std::{cmp::Reverse, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};
use sternpost_discovery::{
    Discovery, Priority, RemoteVersion, Unbelievable, Which, read_aggregated, read_legacy,
};
use sternpost_meta::{
    gvk::{GroupVersion, compare_versions},
    resource::{Group, Resource, Scope, Verb, Version},
};

#[test]
fn groups_and_versions_stand_where_their_priorities_put_them() {
    // Three groups that are built in, some of custom resources, and servers elsewhere.
    let server = discovery(&[("apiregistration.k8s.io", "v1"), ("apps", "v1"), ("networking.k8s.io", "v1")])
        .with_priorities(|gv| match &*gv.group {
            "apps" => Some(Priority { group: 17800, version: 15 }),
            "networking.k8s.io" => Some(Priority { group: 17200, version: 15 }),
            _ => None,
        });
    let server = [
        ("mixed.example.com", &["v1", "v1beta1"][..]),
        ("zed.example.com", &["v1"]),
        ("aaa.example.com", &["v1"]),
        ("p.example.com", &["v2"]),
        ("q.example.com", &["v1"]),
        ("r.example.com", &["v3", "v1beta1"]),
    ]
    .into_iter()
    .fold(server, |server, (name, versions)| server.with(group(name, versions)));
    let server = server
        .with_remote([
            remote("mixed.example.com", "v2", 2000, 200),
            remote("mixed.example.com", "v3", 500, 50),
            remote("hi.example.com", "v1", 19000, 1),
            remote("top.example.com", "v1", 20000, 1),
            remote("same.example.com", "v1", 17200, 1),
            remote("zzz.example.com", "v0", 17200, 1000),
            remote("vers.example.com", "v1", 1000, 100),
            remote("vers.example.com", "v2beta1", 1000, 100),
            remote("vers.example.com", "v10", 1000, 100),
            remote("vers.example.com", "foo", 1000, 100),
            remote("vers.example.com", "v2alpha1", 1000, 101),
            remote("vers.example.com", "v11", 1000, 99),
            remote("apps", "v2", 100, 1000),
            remote("aaa.example.com", "v1beta1", 1000, 100),
            remote("ok.example.com", "v1", 500, 10),
            remote("ok.example.com", "v2", 700, 5),
            remote("ok.example.com", "v3", 500, 50),
            remote("c404.example.com", "v1", 500, 10),
        ])
        .unwrap();
    let expected = [
        ("apiregistration.k8s.io", "v1"),
        ("top.example.com", "v1"),
        ("hi.example.com", "v1"),
        ("apps", "v2 v1"),
        ("networking.k8s.io", "v1"),
        ("same.example.com", "v1"),
        ("zzz.example.com", "v0"),
        ("mixed.example.com", "v2 v1 v1beta1 v3"),
        ("aaa.example.com", "v1 v1beta1"),
        ("p.example.com", "v2"),
        ("q.example.com", "v1"),
        ("r.example.com", "v3 v1beta1"),
        ("vers.example.com", "v2alpha1 v10 v1 v2beta1 foo v11"),
        ("zed.example.com", "v1"),
        ("ok.example.com", "v3 v1 v2"),
        ("c404.example.com", "v1"),
    ];
    assert_eq!(aggregated_order(&server), owned(&expected));
    // The legacy form goes by the names of the APIServices, where the version comes first.
    let legacy = [
        ("apiregistration.k8s.io", "v1"),
        ("top.example.com", "v1"),
        ("hi.example.com", "v1"),
        ("apps", "v2 v1"),
        ("zzz.example.com", "v0"),
        ("networking.k8s.io", "v1"),
        ("same.example.com", "v1"),
        ("mixed.example.com", "v2 v1 v1beta1 v3"),
        ("vers.example.com", "v2alpha1 v10 v1 v2beta1 foo v11"),
        ("aaa.example.com", "v1 v1beta1"),
        ("q.example.com", "v1"),
        ("zed.example.com", "v1"),
        ("r.example.com", "v3 v1beta1"),
        ("p.example.com", "v2"),
        ("ok.example.com", "v3 v1 v2"),
        ("c404.example.com", "v1"),
    ];
    assert_eq!(legacy_order(&server), owned(&legacy));
    for (name, versions) in legacy {
        let document: Value = serde_json::from_slice(&server.api_group(name).unwrap()).unwrap();
        assert_eq!(names(&document["versions"]), versions);
        assert_eq!(document["preferredVersion"]["version"], versions.split(' ').next().unwrap());
    }
    let shown: Vec<GroupVersion> = server.group_versions().collect();
    assert!(shown.contains(&GroupVersion::parse("apps/v2")) && shown.len() == 29, "{}", shown.len());
}

#[test]
fn a_remote_version_is_current_or_stale_and_shows_what_it_said() {
    let gv = GroupVersion::parse("ok.example.com/v1");
    let resources = read_aggregated(&gv, said().to_string().as_bytes()).unwrap();
    let version =
        |resources| RemoteVersion { gv: gv.clone(), group_priority: 500, version_priority: 10, resources };
    let empty = Discovery::new(Vec::new());
    for (resources, expected) in [
        (None, r#"{"version":"v1","freshness":"Stale"}"#.to_owned()),
        (Some(Arc::from([])), r#"{"version":"v1","freshness":"Current"}"#.to_owned()),
        (
            Some(resources),
            concat!(
                r#"{"version":"v1","resources":[{"resource":"flunders","responseKind":"#,
                r#"{"group":"ok.example.com","version":"v1","kind":"Flunder"},"scope":"Namespaced","#,
                r#""singularResource":"flunder","verbs":["create","weird"],"shortNames":["fl"],"#,
                r#""categories":["all"],"subresources":[{"subresource":"status","responseKind":"#,
                r#"{"group":"ok.example.com","version":"v1","kind":"Flunder"},"acceptedTypes":"#,
                r#"[{"group":"x","version":"y","kind":"Z"}],"verbs":["get"]}]}],"freshness":"Current"}"#,
            )
            .to_owned(),
        ),
    ] {
        let server = empty.with_remote([version(resources.clone())]).unwrap();
        let body = server.aggregated(Which::Groups).body;
        let expected = format!(
            r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{{}},"items":[{{"metadata":{{"name":"ok.example.com"}},"versions":[{expected}]}}]}}"#
        );
        assert_eq!(String::from_utf8_lossy(&body).trim_end(), expected);
        // Its own list is its own to give.
        assert_eq!(server.api_resource_list(&gv), None);
        // What is the same needs no new documents.
        assert!(server.with_remote([version(resources)]).is_none());
        assert_ne!(server.aggregated(Which::Groups).etag, empty.aggregated(Which::Groups).etag);
        let gone = server.with_remote([]).unwrap();
        assert_eq!(gone.aggregated(Which::Groups).etag, empty.aggregated(Which::Groups).etag);
        assert_eq!(gone.api_group("ok.example.com"), None);
    }
}

#[test]
fn what_is_built_in_is_never_shown_as_somebody_elses() {
    let server = discovery(&[("", "v1"), ("apps", "v1")]);
    let tags = |server: &Discovery| [Which::Core, Which::Groups].map(|which| server.aggregated(which).etag);
    let before = tags(&server);
    let claimed =
        [remote("apps", "v1", 20000, 1000), remote("", "v1", 20000, 1000), remote("", "v2", 20000, 1000)];
    let server = server.with_remote(claimed).unwrap();
    assert_eq!(tags(&server), before);
    // Of a definition the APIService decides, as upstream.
    let server = server.with_remote([remote("a.example.com", "v1", 1, 1)]).unwrap();
    let stale = tags(&server);
    assert_ne!(stale, before);
    let server = server.with(group("a.example.com", &["v1"]));
    assert_eq!(tags(&server), stale);
    let server = server.with(group("a.example.com", &["v2", "v1"]));
    assert_eq!(aggregated_order(&server).last(), Some(&("a.example.com".into(), "v2 v1".into())));
    let server = server.with_remote([]).unwrap().with(group("a.example.com", &["v1"]));
    assert!(!String::from_utf8_lossy(&server.aggregated(Which::Groups).body).contains("Stale"));
}

#[test]
fn of_an_aggregated_document_only_ones_own_version_is_read() {
    let kinds = |gv: &str| {
        let resources = read_aggregated(&GroupVersion::parse(gv), said().to_string().as_bytes()).unwrap();
        let resources: Value = serde_json::to_value(&*resources).unwrap();
        let kinds = resources.as_array().unwrap().iter();
        kinds
            .map(|resource| resource["responseKind"]["kind"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds("ok.example.com/v1"), ["Flunder"]);
    assert_eq!(kinds("ok.example.com/v2"), Vec::<String>::new());
    assert_eq!(kinds("apps/v1"), ["Deployment"]);
    assert_eq!(kinds("nobody.example.com/v1"), Vec::<String>::new());
}

#[test]
fn a_legacy_list_becomes_what_upstream_makes_of_it() {
    let list = json!({"kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": [
        {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "verbs": ["get", "list"], "shortNames": ["fl"], "categories": null, "storageVersionHash": "abc"},
        {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
        {"name": "flunders/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": ["get"]},
        {"name": "orphans/sub", "singularName": "", "namespaced": false, "kind": "Orphan", "verbs": ["get"]},
    ]});
    let gv = GroupVersion::parse("a.example.com/v1");
    let resources = read_legacy(&gv, list.to_string().as_bytes()).unwrap();
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    assert_eq!(
        serde_json::to_value(&*resources).unwrap(),
        json!([
            {"resource": "flunders", "responseKind": kind("", "", "Flunder"), "scope": "Namespaced",
                "singularResource": "flunder", "verbs": ["get", "list"], "shortNames": ["fl"],
                "subresources": [
                    {"subresource": "status", "responseKind": kind("", "", "Flunder"), "verbs": ["get"]},
                    {"subresource": "scale", "responseKind": kind("autoscaling", "v1", "Scale"), "verbs": ["get"]},
                ]},
            {"resource": "orphans", "responseKind": kind("", "", ""), "scope": "Cluster",
                "singularResource": "", "verbs": [],
                "subresources": [
                    {"subresource": "sub", "responseKind": kind("", "", "Orphan"), "verbs": ["get"]},
                ]},
        ])
    );
}

#[test]
fn documents_that_are_not_what_was_asked_for_are_not_believed() {
    let gv = GroupVersion::parse("a.example.com/v1");
    let aggregated = |resource: Value| {
        json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a.example.com"},
            "versions": [{"version": "v1", "resources": [resource]}]}]})
    };
    for document in [
        json!(null),
        json!([]),
        json!({}),
        json!({"kind": "APIGroupList", "groups": []}),
        json!({"kind": "APIGroupDiscoveryList", "items": {}}),
        json!({"kind": "APIGroupDiscoveryList", "items": [{"versions": []}]}),
        aggregated(json!({"resource": "a", "scope": 1})),
        aggregated(json!({"resource": "", "scope": "Cluster"})),
        aggregated(json!({"resource": "a/b", "scope": "Cluster"})),
        aggregated(json!({"resource": "..", "scope": "Cluster"})),
        aggregated(json!({"resource": "a", "scope": "Cluster", "verbs": [1]})),
        aggregated(json!({"resource": "a", "scope": "Cluster", "subresources": [{"subresource": "a//b"}]})),
        aggregated(json!({"resource": 1, "scope": "Cluster"})),
    ] {
        assert!(read_aggregated(&gv, document.to_string().as_bytes()).is_err(), "{document}");
    }
    let legacy = |gv: &str, resource: Value| json!({"kind": "APIResourceList", "groupVersion": gv, "resources": [resource]});
    for document in [
        json!({}),
        json!({"kind": "APIGroup", "groupVersion": "a.example.com/v1"}),
        legacy("a.example.com/v1", json!({})),
        legacy("a.example.com/v1", json!({"name": "a/"})),
        legacy("a.example.com/v1", json!({"name": "/a"})),
        legacy("a.example.com/v1", json!({"name": "a%2fb"})),
        legacy("a.example.com/v1", json!({"name": "a", "namespaced": "yes"})),
    ] {
        assert!(read_legacy(&gv, document.to_string().as_bytes()).is_err(), "{document}");
    }
    let lie = read_legacy(&gv, legacy("apps/v1", json!({"name": "a"})).to_string().as_bytes());
    assert!(matches!(lie, Err(Unbelievable::Version { found, .. }) if found == "apps/v1"));
    for bytes in [&b""[..], b"<html>hi</html>", b"{\"kind\":\"APIGro", &[0xff; 9], &[b'['; 4096]] {
        assert!(read_aggregated(&gv, bytes).is_err() && read_legacy(&gv, bytes).is_err());
    }
    // Nothing is something that can be said.
    for document in [
        json!({"kind": "APIGroupDiscoveryList"}),
        json!({"kind": "APIGroupDiscoveryList", "items": null}),
        json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a.example.com"}, "versions": null}]}),
    ] {
        assert!(read_aggregated(&gv, document.to_string().as_bytes()).unwrap().is_empty(), "{document}");
    }
}

proptest! {
    /// Against the plainest statement of the rules.
    #[test]
    fn any_priorities_give_the_order_of_the_model(
        versions in proptest::collection::vec((0..8_usize, 0..8_usize, 1..4_i64, 1..4_i64), 0..24),
        customs in proptest::collection::vec((0..8_usize, 0..8_usize), 0..6),
    ) {
        const GROUPS: [&str; 8] = ["a.io", "b.io", "c.io", "d.io", "apps", "z.io", "a-b.io", "apiregistration.k8s.io"];
        const VERSIONS: [&str; 8] = ["v1", "v2", "v10", "v1beta1", "v2alpha1", "foo", "v1-a", "v0"];
        let mut model: Vec<(String, String, i64, i64)> = Vec::new();
        let mut server = Discovery::new(Vec::new());
        for (group_index, version) in customs {
            let name = GROUPS[group_index];
            if !model.iter().any(|(group, other, ..)| group == name && other == VERSIONS[version]) {
                model.push((name.into(), VERSIONS[version].into(), 1000, 100));
                let old = server.group(name).map(|group| group.versions.clone()).unwrap_or_default();
                let versions: Vec<String> = old.iter().map(|version| version.name.to_string()).collect();
                let mut versions: Vec<&str> = versions.iter().map(String::as_str).collect();
                versions.push(VERSIONS[version]);
                server = server.with(group(name, &versions));
            }
        }
        let mut remotes: Vec<RemoteVersion> = Vec::new();
        for (group, version, a, b) in versions {
            let (group, version, a, b) = (GROUPS[group], VERSIONS[version], a * 500, b * 50);
            if !remotes.iter().any(|remote| *remote.gv.group == *group && *remote.gv.version == *version) {
                remotes.push(remote(group, version, a, b));
                model.retain(|(g, v, ..)| (g.as_str(), v.as_str()) != (group, version));
                model.push((group.into(), version.into(), a, b));
            }
        }
        let server = server.with_remote(remotes).unwrap_or(server);

        let order = |key: &dyn Fn(&str) -> String| {
            let mut groups: Vec<&str> = model.iter().map(|(group, ..)| group.as_str()).collect();
            groups.sort_unstable();
            groups.dedup();
            let best = |group: &str| model.iter().filter(|it| it.0 == group).map(|it| it.2).max().unwrap();
            groups.sort_by_key(|group| (*group != "apiregistration.k8s.io", Reverse(best(group)), key(group)));
            let versions = |group: &str| {
                let mut versions: Vec<_> = model.iter().filter(|it| it.0 == group).collect();
                versions.sort_by(|a, b| b.3.cmp(&a.3).then_with(|| compare_versions(&a.1, &b.1)));
                versions.iter().map(|it| it.1.as_str()).collect::<Vec<_>>().join(" ")
            };
            groups.iter().map(|group| ((*group).to_owned(), versions(group))).collect::<Vec<_>>()
        };
        prop_assert_eq!(aggregated_order(&server), order(&|group| group.to_owned()));
        // The first APIService in the order of priority and then of names decides.
        let first_service = |group: &str| {
            let mut services: Vec<_> = model.iter().filter(|it| it.0 == group).collect();
            services.sort_by_key(|it| (Reverse(it.2), format!("{}.{}", it.1, it.0)));
            format!("{}.{}", services[0].1, services[0].0)
        };
        prop_assert_eq!(legacy_order(&server), order(&first_service));
    }
}

/// Of a server that says more than it should.
fn said() -> Value {
    let flunder = json!({"group": "ok.example.com", "version": "v1", "kind": "Flunder"});
    let deployment = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
        {"metadata": {"name": "apps", "creationTimestamp": null}, "versions": [{"version": "v1", "resources": [
            {"resource": "deployments", "scope": "Namespaced", "responseKind": deployment, "verbs": null}]}]},
        {"metadata": {"name": "ok.example.com"}, "versions": [{"version": "v1", "freshness": "Current",
            "unknown": [1], "resources": [{"resource": "flunders", "scope": "Namespaced", "verbs": ["create", "weird"],
                "singularResource": "flunder", "responseKind": flunder, "shortNames": ["fl"], "categories": ["all"],
                "subresources": [{"subresource": "status", "responseKind": flunder, "verbs": ["get"],
                    "acceptedTypes": [{"group": "x", "version": "y", "kind": "Z"}]}]}]}]},
    ]})
}

fn aggregated_order(server: &Discovery) -> Vec<(String, String)> {
    let list: Value = serde_json::from_slice(&server.aggregated(Which::Groups).body).unwrap();
    let groups = list["items"].as_array().unwrap().iter();
    groups.map(|group| (text(&group["metadata"]["name"]), names(&group["versions"]))).collect()
}

fn legacy_order(server: &Discovery) -> Vec<(String, String)> {
    let list: Value = serde_json::from_slice(&server.api_group_list()).unwrap();
    let groups = list["groups"].as_array().unwrap().iter();
    groups.map(|group| (text(&group["name"]), names(&group["versions"]))).collect()
}

fn names(versions: &Value) -> String {
    let names: Vec<String> =
        versions.as_array().unwrap().iter().map(|version| text(&version["version"])).collect();
    names.join(" ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(group, versions)| ((*group).to_owned(), (*versions).to_owned())).collect()
}

fn remote(group: &str, version: &str, group_priority: i64, version_priority: i64) -> RemoteVersion {
    RemoteVersion { gv: GroupVersion::new(group, version), group_priority, version_priority, resources: None }
}

fn discovery(versions: &[(&str, &str)]) -> Discovery {
    Discovery::new(versions.iter().map(|(name, version)| group(name, &[version])).collect())
}

fn group(name: &str, versions: &[&str]) -> Group {
    let resource = |version: &str| Resource {
        gv: GroupVersion::new(name, version),
        kind: "Widget".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        scope: Scope::Cluster,
        verbs: vec![Verb::Get],
        short_names: vec![],
        categories: vec![],
        subresources: vec![],
        storage_version_hash: None,
    };
    let version =
        |version: &&str| Version { name: (*version).into(), resources: vec![Arc::new(resource(version))] };
    Group { name: name.into(), versions: versions.iter().map(version).collect() }
}
