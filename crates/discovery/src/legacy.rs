//! `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use std::sync::Arc;

use serde::Serialize;
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Resource, Scope, Version},
};

use crate::{
    Verbs,
    shown::{ShownGroup, ShownVersion},
};

/// Has no `apiVersion`: it is older than versions of meta types.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiVersions<'a> {
    kind: &'static str,
    versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_address_by_client_cidrs: [ServerAddress<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'a str,
}

impl<'a> ApiVersions<'a> {
    pub(crate) fn new(core: Option<&ShownGroup<'a>>, server_address: &'a str) -> Self {
        let versions = core.into_iter().flat_map(|group| &group.versions);
        Self {
            kind: "APIVersions",
            versions: versions.map(|version| &**version.name).collect(),
            server_address_by_client_cidrs: [ServerAddress { client_cidr: "0.0.0.0/0", server_address }],
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

impl<'a> ApiGroupList<'a> {
    pub(crate) fn new(groups: &[ShownGroup<'a>]) -> Self {
        Self { kind: "APIGroupList", api_version: "v1", groups: groups.iter().map(ApiGroup::new).collect() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SingleApiGroup<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    group: ApiGroup<'a>,
}

impl<'a> SingleApiGroup<'a> {
    pub(crate) fn new(group: &ShownGroup<'a>) -> Self {
        Self { kind: "APIGroup", api_version: "v1", group: ApiGroup::new(group) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    name: &'a str,
    versions: Vec<VersionName<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_version: Option<VersionName<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionName<'a> {
    group_version: String,
    version: &'a str,
}

impl<'a> ApiGroup<'a> {
    fn new(group: &ShownGroup<'a>) -> Self {
        let name = |version: &ShownVersion<'a>| VersionName {
            group_version: format!("{}/{}", group.name, version.name),
            version: version.name,
        };
        Self {
            name: group.name,
            versions: group.versions.iter().map(name).collect(),
            preferred_version: group.versions.first().map(name),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResourceList<'a> {
    kind: &'static str,
    /// The core group's list goes without, as it always has.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource<'a>>,
}

impl<'a> ApiResourceList<'a> {
    pub(crate) fn new(gv: &GroupVersion, version: &'a Version) -> Self {
        Self {
            kind: "APIResourceList",
            api_version: (!gv.group.is_empty()).then_some("v1"),
            group_version: gv.to_string(),
            resources: version.resources.iter().flat_map(|resource| ApiResource::all(resource)).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: Verbs<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [Arc<str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [Arc<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<&'a str>,
}

impl<'a> ApiResource<'a> {
    /// The resource and, after it, its subresources.
    fn all(resource: &'a Resource) -> impl Iterator<Item = Self> {
        let main = Self {
            name: resource.plural.to_string(),
            singular_name: &resource.singular,
            namespaced: resource.scope == Scope::Namespaced,
            group: "",
            version: "",
            kind: &resource.kind,
            verbs: Verbs(&resource.verbs),
            short_names: &resource.short_names,
            categories: &resource.categories,
            storage_version_hash: resource.storage_version_hash.as_deref(),
        };
        let subresources = resource.subresources.iter().map(|subresource| {
            let (group, version) = foreign(&resource.gv, &subresource.kind);
            Self {
                name: format!("{}/{}", resource.plural, subresource.name),
                singular_name: "",
                namespaced: resource.scope == Scope::Namespaced,
                group,
                version,
                kind: &subresource.kind.kind,
                verbs: Verbs(&subresource.verbs),
                short_names: &[],
                categories: &[],
                storage_version_hash: None,
            }
        });
        std::iter::once(main).chain(subresources)
    }
}

/// Group and version of a kind, both empty if they are those of the list it
/// stands in.
pub(crate) fn foreign<'a>(gv: &GroupVersion, kind: &'a GroupVersionKind) -> (&'a str, &'a str) {
    if gv.group == kind.group && gv.version == kind.version { ("", "") } else { (&kind.group, &kind.version) }
}
