//! The documents of what the server serves itself.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use sternpost_meta::{gvk::GroupVersion, resource::Group};
use sternpost_schema::{Schema, Type};

use crate::{
    custom::CustomResource,
    document::{Document, PathItem},
    operations::{self, Paths, meta},
};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const DISCOVERY_TYPES: [&str; 3] =
    ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// One document the server publishes: its key under `/openapi/v3/`, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// `api`
    CoreVersions,
    /// `apis`
    Groups,
    /// `apis/GROUP`
    Group(Arc<str>),
    /// `api/v1`, `apis/GROUP/VERSION`
    GroupVersion(GroupVersion),
    /// `version`
    Version,
    /// `.well-known/openid-configuration`
    OpenIdConfiguration,
    /// `openid/v1/jwks`
    OpenIdKeys,
}

impl Subject {
    /// All documents of the built-in groups.
    pub fn built_in(groups: &[Group]) -> Vec<Subject> {
        let mut subjects = vec![
            Subject::CoreVersions,
            Subject::Groups,
            Subject::Version,
            Subject::OpenIdConfiguration,
            Subject::OpenIdKeys,
        ];
        for group in groups {
            if !group.name.is_empty() {
                subjects.push(Subject::Group(group.name.clone()));
            }
            for version in &group.versions {
                subjects.push(Subject::GroupVersion(GroupVersion {
                    group: group.name.clone(),
                    version: version.name.clone(),
                }));
            }
        }
        subjects
    }

    pub fn key(&self) -> Arc<str> {
        match self {
            Subject::CoreVersions => "api".into(),
            Subject::Groups => "apis".into(),
            Subject::Group(group) => format!("apis/{group}").into(),
            Subject::GroupVersion(gv) => gv.path().into(),
            Subject::Version => "version".into(),
            Subject::OpenIdConfiguration => ".well-known/openid-configuration".into(),
            Subject::OpenIdKeys => "openid/v1/jwks".into(),
        }
    }

    /// Builds the document, self-contained.
    pub fn document(&self) -> Document {
        let paths = self.paths();
        let mut document = Document {
            title: "Kubernetes".into(),
            version: sternpost_builtin::KUBERNETES_VERSION.into(),
            paths,
            security_schemes: security_schemes(),
            ..Document::default()
        };
        document.schemas = sternpost_builtin::closure(document.roots());
        if let Subject::GroupVersion(gv) = self {
            for name in [DELETE_OPTIONS, WATCH_EVENT] {
                own_version(&mut document.schemas, name, gv);
            }
        }
        document
    }

    fn paths(&self) -> Paths {
        match self {
            Subject::CoreVersions => {
                let text = "get available API versions";
                let mut item = operations::plain_get(
                    "core",
                    text,
                    "getCoreAPIVersions",
                    &meta("APIVersions"),
                    &DISCOVERY_TYPES,
                );
                operations::discovery_media(&mut item);
                one("/api/", item)
            }
            Subject::Groups => {
                let text = "get available API versions";
                let mut item = operations::plain_get(
                    "apis",
                    text,
                    "getAPIVersions",
                    &meta("APIGroupList"),
                    &DISCOVERY_TYPES,
                );
                operations::discovery_media(&mut item);
                one("/apis/", item)
            }
            Subject::Group(group) => one(&format!("/apis/{group}/"), operations::group_discovery(group)),
            Subject::GroupVersion(gv) => {
                let mut paths = Paths::new();
                operations::discovery(&mut paths, gv);
                let versions = sternpost_builtin::groups()
                    .iter()
                    .filter(|group| group.name == gv.group)
                    .flat_map(|group| &group.versions)
                    .filter(|version| version.name == gv.version);
                for resource in versions.flat_map(|version| &version.resources) {
                    operations::resource(&mut paths, resource);
                }
                paths
            }
            Subject::Version => {
                let text = "get the version information for this server";
                let info = Schema::reference("io.k8s.apimachinery.pkg.version.Info");
                let mut item =
                    operations::plain_get("version", text, "getCodeVersion", &info, &["application/json"]);
                for operation in item.operations.values_mut() {
                    operation.v2.consumes = Some(vec!["application/json".into()]);
                }
                one("/version/", item)
            }
            Subject::OpenIdConfiguration => open_id(
                "/.well-known/openid-configuration/",
                "WellKnown",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "getServiceAccountIssuerOpenIDConfiguration",
                "application/json",
            ),
            Subject::OpenIdKeys => open_id(
                "/openid/v1/jwks/",
                "openid",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "getServiceAccountIssuerOpenIDKeyset",
                "application/jwk-set+json",
            ),
        }
    }
}

/// The document of a group-version that holds custom resources and nothing else.
pub fn custom_document<'a>(resources: impl Iterator<Item = &'a CustomResource>) -> Document {
    let mut document =
        Document { title: "Kubernetes CRD Swagger".into(), version: "v0.1.0".into(), ..Document::default() };
    add_custom(&mut document, resources);
    document
}

/// Adds custom resources to the document of their group-version, with all they refer to.
pub fn add_custom<'a>(document: &mut Document, resources: impl Iterator<Item = &'a CustomResource>) {
    let mut paths = Paths::new();
    let mut schemas = BTreeMap::new();
    for resource in resources {
        operations::custom_resource(&mut paths, resource);
        schemas.insert(resource.definition_name(), Arc::new(resource.definition()));
        schemas.insert(resource.list_definition_name(), Arc::new(resource.list_definition()));
    }
    // Built-in resources come first: nothing custom takes their place.
    for (path, item) in paths {
        document.paths.entry(path).or_insert(item);
    }
    let mut roots: Vec<Arc<str>> = document.roots().collect();
    schemas.values().for_each(|schema| schema.walk(&mut |node| roots.extend(node.reference.clone())));
    for (name, schema) in sternpost_builtin::closure(roots).into_iter().chain(schemas) {
        document.schemas.entry(name).or_insert(schema);
    }
}

fn open_id(path: &str, tag: &str, text: &str, id: &str, media: &str) -> Paths {
    let mut item = operations::plain_get(tag, text, id, &Schema::of(Type::String), &[media]);
    for operation in item.operations.values_mut() {
        operation.v2.consumes = Some(Vec::new());
    }
    one(path, item)
}

fn one(path: &str, item: PathItem) -> Paths {
    [(path.into(), item)].into()
}

fn security_schemes() -> BTreeMap<Arc<str>, Value> {
    let bearer = json!({
        "type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication",
    });
    [("BearerToken".into(), bearer)].into()
}

/// Types that belong to every group-version say so for the document's own.
fn own_version(schemas: &mut BTreeMap<Arc<str>, Arc<Schema>>, name: &str, gv: &GroupVersion) {
    let core = gv.group.is_empty() && &*gv.version == "v1";
    if let Some(schema) = schemas.get_mut(name).filter(|_| !core) {
        let kind = name.rsplit('.').next().unwrap_or(name);
        let gvk = json!({"group": &*gv.group, "version": &*gv.version, "kind": kind});
        let gvks = Arc::make_mut(schema).rest.get_mut("x-kubernetes-group-version-kind");
        gvks.and_then(Value::as_array_mut).into_iter().for_each(|gvks| gvks.push(gvk.clone()));
    }
}
