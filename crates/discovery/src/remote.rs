//! What another server says it serves, and which of it is believed.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use sternpost_meta::gvk::GroupVersion;

/// A group-version that another server is registered for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteVersion {
    pub gv: GroupVersion,
    pub group_priority: i64,
    pub version_priority: i64,
    /// `None` if it cannot tell now, so that what is shown of it is stale.
    pub resources: Option<Arc<[RemoteResource]>>,
}

/// A resource as the other server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteResource {
    resource: String,
    #[serde(default, deserialize_with = "or_nothing")]
    response_kind: RemoteKind,
    /// In the other server's words, which may be none.
    #[serde(default, deserialize_with = "or_nothing")]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "or_nothing")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing", skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing", skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing", skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<RemoteSubresource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteSubresource {
    subresource: String,
    #[serde(default, deserialize_with = "or_nothing")]
    response_kind: RemoteKind,
    #[serde(default, deserialize_with = "or_nothing", skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<RemoteKind>,
    #[serde(default, deserialize_with = "or_nothing")]
    verbs: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RemoteKind {
    group: String,
    version: String,
    kind: String,
}

/// Why a document is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Unbelievable {
    #[error("not a discovery document: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("a document of kind {found:?} where {wanted} was asked for")]
    Kind { wanted: &'static str, found: String },
    #[error("a list of {found:?} where {wanted} was asked for")]
    Version { wanted: GroupVersion, found: String },
    #[error("a resource that cannot be called {0:?}")]
    Name(String),
}

/// What an `APIGroupDiscoveryList` says of one group-version. What it says of others does not matter,
/// and of one that it does not name, nothing is served.
pub fn read_aggregated(gv: &GroupVersion, document: &[u8]) -> Result<Arc<[RemoteResource]>, Unbelievable> {
    let list: GroupDiscoveryList = serde_json::from_slice(document)?;
    is_kind("APIGroupDiscoveryList", list.kind)?;
    let groups = list.items.into_iter().filter(|group| group.metadata.name == *gv.group);
    let versions = groups.flat_map(|group| group.versions);
    let mut version = versions.filter(|version| version.version == *gv.version);
    let resources = version.next().map(|version| version.resources).unwrap_or_default();
    check_names(&resources)?;
    Ok(resources.into())
}

/// What an `APIResourceList` says, if it is one of this group-version.
pub fn read_legacy(gv: &GroupVersion, document: &[u8]) -> Result<Arc<[RemoteResource]>, Unbelievable> {
    let list: ResourceList = serde_json::from_slice(document)?;
    is_kind("APIResourceList", list.kind)?;
    if list.group_version != gv.to_string() {
        return Err(Unbelievable::Version { wanted: gv.clone(), found: list.group_version });
    }
    let mut resources: Vec<RemoteResource> = Vec::new();
    for listed in list.resources {
        let (name, subresource) = match listed.name.split_once('/') {
            Some((name, subresource)) => (name.to_owned(), Some(subresource.to_owned())),
            None => (listed.name.clone(), None),
        };
        let scope = if listed.namespaced { "Namespaced" } else { "Cluster" };
        let kind = RemoteKind { group: listed.group, version: listed.version, kind: listed.kind };
        let at = resources.iter().position(|resource| resource.resource == name);
        // A subresource may stand alone, or before what it belongs to.
        let at = at.unwrap_or_else(|| {
            resources.push(RemoteResource::nameless(name, scope));
            resources.len() - 1
        });
        let Some(resource) = resources.get_mut(at) else { continue };
        match subresource {
            None => {
                resource.response_kind = kind;
                resource.scope = scope.to_owned();
                resource.singular_resource = listed.singular_name;
                resource.verbs = listed.verbs;
                resource.short_names = listed.short_names;
                resource.categories = listed.categories;
            }
            Some(subresource) => resource.subresources.push(RemoteSubresource {
                subresource,
                response_kind: kind,
                accepted_types: Vec::new(),
                verbs: listed.verbs,
            }),
        }
    }
    check_names(&resources)?;
    Ok(resources.into())
}

impl RemoteResource {
    fn nameless(resource: String, scope: &str) -> Self {
        Self {
            resource,
            response_kind: RemoteKind::default(),
            scope: scope.to_owned(),
            singular_resource: String::new(),
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
        }
    }
}

/// Names stand in paths: one that cannot would lead clients elsewhere.
fn check_names(resources: &[RemoteResource]) -> Result<(), Unbelievable> {
    let is_name = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%']);
    for resource in resources {
        // Subresources may have several segments.
        let subresources = resource.subresources.iter().flat_map(|it| it.subresource.split('/'));
        if let Some(name) = subresources.chain([&*resource.resource]).find(|name| !is_name(name)) {
            return Err(Unbelievable::Name(name.to_owned()));
        }
    }
    Ok(())
}

fn is_kind(wanted: &'static str, found: String) -> Result<(), Unbelievable> {
    if found == wanted { Ok(()) } else { Err(Unbelievable::Kind { wanted, found }) }
}

#[derive(Deserialize)]
struct GroupDiscoveryList {
    kind: String,
    #[serde(default, deserialize_with = "or_nothing")]
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    metadata: Named,
    #[serde(default, deserialize_with = "or_nothing")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "or_nothing")]
    resources: Vec<RemoteResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    group_version: String,
    #[serde(default, deserialize_with = "or_nothing")]
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "or_nothing")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    categories: Vec<String>,
}

/// Servers written in Go say `null` where there is nothing.
fn or_nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
