//! Every discovery document of a kube-apiserver 1.36.4 with its default APIs
//! stands in `tests/data`, named for its path with `/` as `__`; `agg_` marks the
//! aggregated form. Read back into resources and written again, each must be
//! the same to the byte.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use serde_json::Value;
use sternpost_discovery::{Discovery, Which};
use sternpost_meta::{
    gvk::GroupVersion,
    resource::{Group, Resource, Scope, Subresource, Verb, Version},
};

#[test]
fn recorded_documents_are_written_as_they_were_read() {
    let recorded = recorded();
    let discovery = Discovery::new(groups(&recorded));
    let mut written = HashMap::new();
    written.insert("api".to_owned(), discovery.api_versions("192.0.2.2:16443"));
    written.insert("apis".to_owned(), discovery.api_group_list());
    written.insert("agg_api".to_owned(), discovery.aggregated(Which::Core).body);
    written.insert("agg_apis".to_owned(), discovery.aggregated(Which::Groups).body);
    for group in discovery.groups() {
        if let Some(body) = discovery.api_group(&group.name) {
            written.insert(format!("apis__{}", group.name), body);
        }
        for version in &group.versions {
            let gv = GroupVersion::new(group.name.clone(), version.name.clone());
            written.insert(gv.path().replace('/', "__"), discovery.api_resource_list(&gv).unwrap());
        }
    }
    assert_eq!(written.len(), recorded.len());
    for (name, body) in written {
        assert_eq!(String::from_utf8_lossy(&body), recorded[&name], "{name}");
    }
}

/// The catalogue and the recorded server serve the same things, in the same order.
#[test]
fn the_catalogue_is_what_the_recorded_server_serves() {
    assert_eq!(sternpost_builtin::groups(), groups(&recorded()));
}

#[test]
fn entity_tags_are_those_of_the_recorded_server() {
    let discovery = Discovery::new(groups(&recorded()));
    for (which, etag) in [
        (
            Which::Core,
            "4D7E1BED90B364BC86049DD9E636494980AEF65B7F8CFAA267616FA062B514A8\
             A3CC2C2851CC9337B8D28B4C80960E2353DE5E0B152E87CC223E02EA3C5C37AC",
        ),
        (
            Which::Groups,
            "A74552DF419C4697E3A22F67B8FE55FD8F2CC33F6134FF206B16341598294CDE\
             9896C7F67B2819217E6BB70E74F97FCC864DDFCDB02FDA565699CC7D6E3CC377",
        ),
    ] {
        assert_eq!(&*discovery.aggregated(which).etag, etag);
    }
}

fn recorded() -> HashMap<String, String> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    fs::read_dir(data)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".json").unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn groups(recorded: &HashMap<String, String>) -> Vec<Group> {
    let read = |name: &str| -> Value { serde_json::from_str(&recorded[name]).unwrap() };
    let version = |gv: GroupVersion| {
        let list = read(&gv.path().replace('/', "__"));
        Version { name: gv.version.clone(), resources: resources(&gv, &list) }
    };
    let core = Group { name: "".into(), versions: vec![version(GroupVersion::new("", "v1"))] };
    let named = read("apis")["groups"].as_array().unwrap().clone().into_iter().map(|group| Group {
        name: text(&group["name"]),
        versions: group["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| version(GroupVersion::parse(item["groupVersion"].as_str().unwrap())))
            .collect(),
    });
    std::iter::once(core).chain(named).collect()
}

fn resources(gv: &GroupVersion, list: &Value) -> Vec<Arc<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    for item in list["resources"].as_array().unwrap() {
        let verbs = texts(&item["verbs"]).iter().map(|verb| Verb::parse(verb).unwrap()).collect();
        let name = item["name"].as_str().unwrap();
        if let Some((parent, name)) = name.split_once('/') {
            let gv = match item.get("version") {
                Some(version) => GroupVersion::new(text(&item["group"]), text(version)),
                None => gv.clone(),
            };
            let parent = resources.iter_mut().find(|resource| *resource.plural == *parent).unwrap();
            parent.subresources.push(Subresource {
                name: name.into(),
                verbs,
                kind: gv.kind(text(&item["kind"])),
            });
        } else {
            resources.push(Resource {
                gv: gv.clone(),
                kind: text(&item["kind"]),
                plural: name.into(),
                singular: text(&item["singularName"]),
                scope: if item["namespaced"] == true { Scope::Namespaced } else { Scope::Cluster },
                verbs,
                short_names: texts(&item["shortNames"]),
                categories: texts(&item["categories"]),
                subresources: Vec::new(),
                storage_version_hash: item.get("storageVersionHash").map(text),
            });
        }
    }
    resources.into_iter().map(Arc::new).collect()
}

fn text(value: &Value) -> Arc<str> {
    value.as_str().unwrap().into()
}

fn texts(value: &Value) -> Vec<Arc<str>> {
    value.as_array().into_iter().flatten().map(text).collect()
}
