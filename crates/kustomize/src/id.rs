//! What names an object: group, version, kind, name and namespace, with the
//! texts kustomize prints for them.
//!
//! Its own, and not `sternpost_meta::gvk`: whether objects of the kind are told apart by namespaces
//! belongs to it, any part may be missing, and texts begin with the kind (`Deployment.v1.apps`).

use std::fmt;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::gvk::GroupVersion;

/// Where objects are that name no namespace.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Stands for the namespace of objects that cannot have one.
const NO_NAMESPACE: &str = "_non_namespaceable_";

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// By the schema of the build.
    pub cluster_scoped: bool,
}

impl Gvk {
    pub(crate) fn api_version(&self) -> String {
        GroupVersion::new(&*self.group, &*self.version).to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResId {
    pub gvk: Gvk,
    pub name: String,
    pub namespace: String,
}

impl ResId {
    /// The namespace as far as it tells objects apart.
    pub(crate) fn effective_namespace(&self) -> &str {
        effective_namespace(self.gvk.cluster_scoped, &self.namespace)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.gvk == other.gvk
            && self.effective_namespace() == other.effective_namespace()
    }

    /// As Go prints the struct itself.
    pub(crate) fn go_syntax(&self) -> String {
        format!(
            "resid.ResId{{Gvk:resid.Gvk{{Group:{}, Version:{}, Kind:{}, isClusterScoped:{}}}, Name:{}, Namespace:{}}}",
            go_quote(&self.gvk.group),
            go_quote(&self.gvk.version),
            go_quote(&self.gvk.kind),
            self.gvk.cluster_scoped,
            go_quote(&self.name),
            go_quote(&self.namespace)
        )
    }
}

pub(crate) fn effective_namespace(cluster_scoped: bool, namespace: &str) -> &str {
    match namespace {
        _ if cluster_scoped => NO_NAMESPACE,
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}

fn or<'a>(text: &'a str, absent: &'a str) -> &'a str {
    if text.is_empty() { absent } else { text }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, version) = (or(&self.kind, "[noKind]"), or(&self.version, "[noVer]"));
        write!(f, "{kind}.{version}.{}", or(&self.group, "[noGrp]"))
    }
}

impl fmt::Display for ResId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}.{}", self.gvk, or(&self.name, "[noName]"), or(&self.namespace, "[noNs]"))
    }
}

/// A pattern of group, version and kind in which an empty part is any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GvkPattern {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl GvkPattern {
    pub(crate) fn selects(&self, gvk: &Gvk) -> bool {
        let any_or = |pattern: &str, value: &str| pattern.is_empty() || pattern == value;
        any_or(&self.kind, &gvk.kind)
            && any_or(&self.version, &gvk.version)
            && any_or(&self.group, &gvk.group)
    }

    /// Whether it is another pattern with parts left open.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let any_or = |pattern: &str, value: &str| pattern.is_empty() || pattern == value;
        any_or(&self.kind, &other.kind)
            && any_or(&self.version, &other.version)
            && any_or(&self.group, &other.group)
    }

    /// Whether some kind may be selected by both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
        meet(&self.kind, &other.kind)
            && meet(&self.version, &other.version)
            && meet(&self.group, &other.group)
    }
}

impl fmt::Display for GvkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, version) = (or(&self.kind, "[noKind]"), or(&self.version, "[noVer]"));
        write!(f, "{kind}.{version}.{}", or(&self.group, "[noGrp]"))
    }
}
