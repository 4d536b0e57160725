//! `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.

use std::{fmt::Write as _, sync::Arc};

use serde::Serialize;
use sha2::{Digest, Sha512};
use sternpost_meta::resource::{Resource, Scope, Subresource, Version};

use crate::{
    Aggregated, Verbs, json,
    legacy::foreign,
    remote::RemoteResource,
    shown::{ShownGroup, ShownVersion, Source},
};

const TYPE: &[u8] = br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","#;

pub(crate) fn encode(groups: &[ShownGroup<'_>]) -> Aggregated {
    let items = groups.iter().map(Item::new).collect();
    let list = json(&List { metadata: Metadata { name: "" }, items });
    // The entity tag is that of the list before its type is written, so that
    // it is the same as upstream's for the same resources.
    let mut etag = String::with_capacity(128);
    for byte in Sha512::digest(&list) {
        // Writing to a string cannot fail.
        let _ = write!(etag, "{byte:02X}");
    }
    let mut body = Vec::with_capacity(TYPE.len() + list.len());
    body.extend_from_slice(TYPE);
    body.extend(list.into_iter().skip(1));
    body.push(b'\n');
    Aggregated { body: body.into(), etag: etag.into() }
}

#[derive(Serialize)]
struct List<'a> {
    metadata: Metadata<'a>,
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct Item<'a> {
    metadata: Metadata<'a>,
    versions: Vec<VersionItem<'a>>,
}

impl<'a> Item<'a> {
    fn new(group: &ShownGroup<'a>) -> Self {
        Self {
            metadata: Metadata { name: group.name },
            versions: group.versions.iter().map(VersionItem::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct VersionItem<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Resources::is_empty")]
    resources: Resources<'a>,
    /// `Stale` tells clients that what is listed may not be all.
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Resources<'a> {
    Here(Vec<ResourceItem<'a>>),
    Elsewhere(&'a [RemoteResource]),
}

impl Resources<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Here(resources) => resources.is_empty(),
            Self::Elsewhere(resources) => resources.is_empty(),
        }
    }
}

impl<'a> VersionItem<'a> {
    fn new(shown: &ShownVersion<'a>) -> Self {
        let (resources, freshness) = match shown.source {
            Source::Here { version, first } => (Resources::Here(resources(version, first)), "Current"),
            Source::Elsewhere(version) => match version.resources.as_deref() {
                Some(resources) => (Resources::Elsewhere(resources), "Current"),
                None => (Resources::Elsewhere(&[]), "Stale"),
            },
        };
        Self { version: shown.name, resources, freshness }
    }
}

fn resources<'a>(version: &'a Version, first: Option<&'a Version>) -> Vec<ResourceItem<'a>> {
    let resource = |resource: &'a Arc<Resource>| {
        let mut first = first.into_iter().flat_map(|version| &version.resources);
        let origin = match first.any(|first| first.plural == resource.plural) {
            true => Origin::BuiltIn,
            false => Origin::Custom,
        };
        ResourceItem::new(resource, origin)
    };
    version.resources.iter().map(resource).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceItem<'a> {
    resource: &'a str,
    response_kind: Kind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: Verbs<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [Arc<str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [Arc<str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceItem<'a>>,
}

/// Who says what a resource is: they say it differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    BuiltIn,
    Custom,
}

/// Never left out, as old clients do not survive its absence. Group and version
/// are empty where they are those of the list, if the resource is built in.
#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> ResourceItem<'a> {
    fn new(resource: &'a Resource, origin: Origin) -> Self {
        let (group, version): (&str, &str) = match origin {
            Origin::BuiltIn => ("", ""),
            Origin::Custom => (&resource.gv.group, &resource.gv.version),
        };
        Self {
            resource: &resource.plural,
            response_kind: Kind { group, version, kind: &resource.kind },
            scope: match resource.scope {
                Scope::Namespaced => "Namespaced",
                Scope::Cluster => "Cluster",
            },
            singular_resource: &resource.singular,
            verbs: Verbs(&resource.verbs),
            short_names: &resource.short_names,
            categories: &resource.categories,
            subresources: resource
                .subresources
                .iter()
                .map(|subresource| SubresourceItem::new(resource, origin, subresource))
                .collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceItem<'a> {
    subresource: &'a str,
    response_kind: Kind<'a>,
    verbs: Verbs<'a>,
}

impl<'a> SubresourceItem<'a> {
    fn new(resource: &Resource, origin: Origin, subresource: &'a Subresource) -> Self {
        let (group, version): (&str, &str) = match origin {
            Origin::BuiltIn => foreign(&resource.gv, &subresource.kind),
            Origin::Custom => (&subresource.kind.group, &subresource.kind.version),
        };
        Self {
            subresource: &subresource.name,
            response_kind: Kind { group, version, kind: &subresource.kind.kind },
            verbs: Verbs(&subresource.verbs),
        }
    }
}
