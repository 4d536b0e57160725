//! Exact bodies for a small server: a core group, a group of two versions with
//! a subresource of a foreign kind, and a group that has no versions.

use std::sync::Arc;

use sternpost_discovery::{Discovery, Which};
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Resource, Scope, Subresource, Verb, Version},
};

#[test]
fn api_versions_name_the_core_versions_and_the_address() {
    assert_eq!(
        server().api_versions("10.0.0.1:6443"),
        r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}]}
"#
    );
}

#[test]
fn group_list_leaves_out_core_and_empty_groups() {
    assert_eq!(
        server().api_group_list(),
        r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"sea.test","versions":[{"groupVersion":"sea.test/v2","version":"v2"},{"groupVersion":"sea.test/v1","version":"v1"}],"preferredVersion":{"groupVersion":"sea.test/v2","version":"v2"}}]}
"#
    );
    assert_eq!(
        Discovery::new(Vec::new()).api_group_list(),
        "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}\n"
    );
}

#[test]
fn group_document_prefers_the_first_version() {
    assert_eq!(
        server().api_group("sea.test").unwrap(),
        r#"{"kind":"APIGroup","apiVersion":"v1","name":"sea.test","versions":[{"groupVersion":"sea.test/v2","version":"v2"},{"groupVersion":"sea.test/v1","version":"v1"}],"preferredVersion":{"groupVersion":"sea.test/v2","version":"v2"}}
"#
    );
}

#[test]
fn groups_that_are_not_shown_have_no_document() {
    let server = server();
    for group in ["", "empty.test", "unknown.test"] {
        assert_eq!(server.api_group(group), None, "{group:?}");
    }
    for gv in ["v2", "sea.test/v3", "empty.test/v1", "unknown.test/v1"] {
        assert_eq!(server.api_resource_list(&GroupVersion::parse(gv)), None, "{gv}");
    }
}

#[test]
fn resource_list_of_core_has_no_api_version() {
    assert_eq!(
        server().api_resource_list(&GroupVersion::parse("v1")).unwrap(),
        r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"ports","singularName":"port","namespaced":false,"kind":"Port","verbs":["create"]}]}
"#
    );
}

#[test]
fn resource_list_shows_subresources_after_their_resource_and_names_foreign_kinds() {
    assert_eq!(
        server().api_resource_list(&GroupVersion::parse("sea.test/v2")).unwrap(),
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"sea.test/v2","resources":[{"name":"ships","singularName":"ship","namespaced":true,"kind":"Ship","verbs":["delete","get","create"],"shortNames":["sh"],"categories":["all","fleet"],"storageVersionHash":"aGFzaA=="},{"name":"ships/crew","singularName":"","namespaced":true,"version":"v1","kind":"Crew","verbs":["get"]},{"name":"ships/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]},{"name":"ships/status","singularName":"","namespaced":true,"kind":"Ship","verbs":["get"]}]}
"#
    );
    assert_eq!(
        server().api_resource_list(&GroupVersion::parse("sea.test/v1")).unwrap(),
        "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"sea.test/v1\",\"resources\":[]}\n"
    );
}

#[test]
fn aggregated_core_is_one_group_without_a_name() {
    assert_eq!(
        server().aggregated(Which::Core).body,
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"ports","responseKind":{"group":"","version":"","kind":"Port"},"scope":"Cluster","singularResource":"port","verbs":["create"]}],"freshness":"Current"}]}]}
"#
    );
}

#[test]
fn aggregated_groups_nest_subresources() {
    assert_eq!(
        server().aggregated(Which::Groups).body,
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"sea.test"},"versions":[{"version":"v2","resources":[{"resource":"ships","responseKind":{"group":"","version":"","kind":"Ship"},"scope":"Namespaced","singularResource":"ship","verbs":["delete","get","create"],"shortNames":["sh"],"categories":["all","fleet"],"subresources":[{"subresource":"crew","responseKind":{"group":"","version":"v1","kind":"Crew"},"verbs":["get"]},{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get","patch","update"]},{"subresource":"status","responseKind":{"group":"","version":"","kind":"Ship"},"verbs":["get"]}]}],"freshness":"Current"},{"version":"v1","freshness":"Current"}]}]}
"#
    );
}

#[test]
fn entity_tag_follows_the_content_and_nothing_else() {
    let (one, same) = (server(), server());
    assert_eq!(one.aggregated(Which::Groups).etag, same.aggregated(Which::Groups).etag);
    assert_ne!(one.aggregated(Which::Groups).etag, one.aggregated(Which::Core).etag);
    let fewer = Discovery::new(one.groups().take(1).cloned().collect());
    assert_eq!(one.aggregated(Which::Core).etag, fewer.aggregated(Which::Core).etag);
    assert_ne!(one.aggregated(Which::Groups).etag, fewer.aggregated(Which::Groups).etag);
    assert_eq!(one.aggregated(Which::Core).etag.len(), 128);
}

#[test]
fn aggregated_body_is_encoded_once() {
    let server = server();
    let (first, second) = (server.aggregated(Which::Groups), server.aggregated(Which::Groups));
    assert_eq!(first.body.as_ptr(), second.body.as_ptr());
    assert!(Arc::ptr_eq(&first.etag, &second.etag));
}

fn server() -> Discovery {
    let core = GroupVersion::parse("v1");
    let port = Resource {
        gv: core,
        kind: "Port".into(),
        plural: "ports".into(),
        singular: "port".into(),
        scope: Scope::Cluster,
        verbs: vec![Verb::Create],
        short_names: vec![],
        categories: vec![],
        subresources: vec![],
        storage_version_hash: None,
    };
    let sea = GroupVersion::parse("sea.test/v2");
    let subresource = |name: &str, gv: &str, kind: &str, verbs: &[Verb]| Subresource {
        name: name.into(),
        verbs: verbs.to_vec(),
        kind: GroupVersion::parse(gv).kind(kind),
    };
    let ship = Resource {
        gv: sea,
        kind: "Ship".into(),
        plural: "ships".into(),
        singular: "ship".into(),
        scope: Scope::Namespaced,
        verbs: vec![Verb::Delete, Verb::Get, Verb::Create],
        short_names: vec!["sh".into()],
        categories: vec!["all".into(), "fleet".into()],
        subresources: vec![
            subresource("crew", "v1", "Crew", &[Verb::Get]),
            subresource("scale", "autoscaling/v1", "Scale", &[Verb::Get, Verb::Patch, Verb::Update]),
            subresource("status", "sea.test/v2", "Ship", &[Verb::Get]),
        ],
        storage_version_hash: Some("aGFzaA==".into()),
    };
    let version = |name: &str, resources: Vec<Resource>| Version {
        name: name.into(),
        resources: resources.into_iter().map(Arc::new).collect(),
    };
    Discovery::new(vec![
        Group { name: "".into(), versions: vec![version("v1", vec![port])] },
        Group { name: "empty.test".into(), versions: vec![] },
        Group { name: "sea.test".into(), versions: vec![version("v2", vec![ship]), version("v1", vec![])] },
    ])
}
