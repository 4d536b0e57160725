//! What the server knows of one resource, before any object of it exists.
//!
//! Built-in kinds and custom resources are both described this way, so that
//! discovery, OpenAPI and routing have one input.

use std::sync::Arc;

use crate::gvk::{GroupVersion, GroupVersionKind};

/// One resource of one group-version: `deployments` in `apps/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub gv: GroupVersion,
    pub kind: Arc<str>,
    /// The plural, as it stands in paths.
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    pub scope: Scope,
    /// In the order discovery shows them.
    pub verbs: Vec<Verb>,
    pub short_names: Vec<Arc<str>>,
    pub categories: Vec<Arc<str>>,
    /// Sorted by name.
    pub subresources: Vec<Subresource>,
    /// The version objects are stored in, hashed; `None` for kinds that are
    /// never stored (reviews, bindings).
    pub storage_version_hash: Option<Arc<str>>,
}

impl Resource {
    pub fn gvk(&self) -> GroupVersionKind {
        self.gv.kind(self.kind.clone())
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }
}

/// What the resource of a kind is probably called: upstream's `UnsafeGuessKindToResource`.
pub fn guess_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match (singular.strip_suffix('y'), singular.ends_with('s')) {
        _ if singular.ends_with("endpoints") => singular,
        (Some(stem), _) => format!("{stem}ies"),
        (None, true) => format!("{singular}es"),
        (None, false) => format!("{singular}s"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    pub name: Arc<str>,
    pub verbs: Vec<Verb>,
    /// The kind it takes and answers, which may be of another group:
    /// `autoscaling/v1 Scale` for `scale`.
    pub kind: GroupVersionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Namespaced,
    Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text)
    }
}

/// One group as discovery shows it. Versions stand best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Empty for the core group.
    pub name: Arc<str>,
    pub versions: Vec<Version>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub name: Arc<str>,
    /// Sorted by plural.
    pub resources: Vec<Arc<Resource>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_guessed_as_upstream_does() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Endpoints", "endpoints"),
            ("SubEndpoints", "subendpoints"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Yy", "yies"),
        ] {
            assert_eq!(guess_plural(kind), plural);
        }
    }
}
