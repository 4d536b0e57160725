//! Subjects from what people have: the catalogue, manifests of custom resource
//! definitions, OpenAPI documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind, compare_versions},
    resource::{Resource, guess_plural},
};
use sternpost_schema::{Schema, read::ReadError};

use super::{Subject, crd, gvk, gvks, names::Names};
use crate::{
    document::{Document, PathItem},
    read::{self, ParseError},
};

/// What can be explained, in the order it is preferred in.
#[derive(Debug, Default)]
pub struct Sources {
    names: Vec<Names>,
    /// One for each of the names.
    subjects: Vec<Described>,
}

#[derive(Debug)]
enum Described {
    BuiltIn,
    By(Subject),
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Document(#[from] ParseError),
    #[error("custom resource definition: {0}")]
    Crd(#[from] ReadError),
    #[error(
        "custom resource definitions of `{0}` are not supported; those of `apiextensions.k8s.io/v1` and `v1beta1` are"
    )]
    CrdVersion(String),
}

impl Sources {
    /// All resources of the catalogue.
    pub fn built_in() -> Self {
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        let names: Vec<Names> =
            versions.flat_map(|version| &version.resources).map(|resource| names_of(resource)).collect();
        let subjects = names.iter().map(|_| Described::BuiltIn).collect();
        Self { names, subjects }
    }

    pub fn names(&self) -> &[Names] {
        &self.names
    }

    pub fn subject(&self, index: usize) -> Option<Subject> {
        match self.subjects.get(index)? {
            Described::BuiltIn => Subject::built_in(self.names.get(index)?.gvk()),
            Described::By(subject) => Some(subject.clone()),
        }
    }

    /// Adds what one object or document describes, and tells how many resources
    /// that were; none for an object of any other kind. What was added before
    /// stays preferred, but for better versions of the same group.
    pub fn add(&mut self, json: &Value) -> Result<usize, SourceError> {
        let described = self.add_one(json)?;
        let mut entries: Vec<_> =
            std::mem::take(&mut self.names).into_iter().zip(std::mem::take(&mut self.subjects)).collect();
        let mut groups: Vec<Arc<str>> = Vec::new();
        for (names, _) in &entries {
            if !groups.contains(&names.gv.group) {
                groups.push(names.gv.group.clone());
            }
        }
        let place = |names: &Names| groups.iter().position(|group| *group == names.gv.group);
        entries.sort_by(|(a, _), (b, _)| {
            place(a).cmp(&place(b)).then_with(|| compare_versions(&a.gv.version, &b.gv.version))
        });
        (self.names, self.subjects) = entries.into_iter().unzip();
        Ok(described)
    }

    fn add_one(&mut self, json: &Value) -> Result<usize, SourceError> {
        let text = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default();
        if json.get("openapi").is_some() || json.get("swagger").is_some() {
            let (_, document) = read::document(json)?;
            Ok(self.add_document(document))
        } else if text("kind") == "CustomResourceDefinition" {
            match text("apiVersion") {
                "apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1" => {
                    Ok(self.extend(crd::subjects(json)?))
                }
                other => Err(SourceError::CrdVersion(other.to_owned())),
            }
        } else if text("kind").ends_with("List") {
            let items = json.get("items").and_then(Value::as_array).into_iter().flatten();
            items.map(|item| self.add_one(item)).sum()
        } else {
            Ok(0)
        }
    }

    fn add_document(&mut self, document: Document) -> usize {
        let schemas = Arc::new(document.schemas);
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        for (path, item) in &document.paths {
            if let Some((gv, plural)) = resource_of(path)
                && let Some(gvk) = kind_of(item)
                && let Some(subject) = Subject::in_document(gvk.clone(), &schemas)
                && known.insert((gv.clone(), plural.to_owned()))
            {
                known.insert((gv.clone(), gvk.kind.to_string()));
                found.push((guessed_names(gv, &gvk.kind, plural), subject));
            }
        }
        // A document may be nothing but definitions. Types of every
        // group-version, such as DeleteOptions, say so many times over.
        for schema in schemas.values() {
            let mut said = gvks(schema);
            if let (Some(gvk), None) = (said.next(), said.next())
                && !gvk.kind.ends_with("List")
                && !known.contains(&(gvk.group_version(), gvk.kind.to_string()))
                && is_object(schema)
            {
                let definitions = super::Definitions::Document(schemas.clone());
                let names = guessed_names(gvk.group_version(), &gvk.kind, &guess_plural(&gvk.kind));
                found.push((names, Subject { gvk, schema: schema.clone(), definitions }));
            }
        }
        self.extend(found)
    }

    fn extend(&mut self, found: Vec<(Names, Subject)>) -> usize {
        let described = found.len();
        for (names, subject) in found {
            // The same resource may stand in several documents: the first counts.
            if !self.names.iter().any(|known| known.gv == names.gv && known.plural == names.plural) {
                self.names.push(names);
                self.subjects.push(Described::By(subject));
            }
        }
        described
    }
}

/// A subject of one resource of a document whose names are already known.
pub fn in_document(document: Document, names: &Names) -> Option<Subject> {
    let Document { paths, schemas, .. } = document;
    let schemas: Arc<BTreeMap<_, _>> = Arc::new(schemas);
    let own = paths.iter().find(|(path, item)| {
        resource_of(path).is_some_and(|(gv, plural)| gv == names.gv && *plural == *names.plural)
            && kind_of(item).is_some()
    });
    let gvk = own.and_then(|(_, item)| kind_of(item))?;
    Subject::in_document(gvk, &schemas)
}

pub(super) fn names_of(resource: &Resource) -> Names {
    Names {
        gv: resource.gv.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        singular: resource.singular.clone(),
        short_names: resource.short_names.clone(),
    }
}

/// Documents do not tell singulars and short names; built-in resources have
/// theirs, the singular of others is nearly always the kind.
fn guessed_names(gv: GroupVersion, kind: &Arc<str>, plural: &str) -> Names {
    let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
    let built_in = versions
        .flat_map(|version| &version.resources)
        .find(|known| known.gv == gv && *known.plural == *plural);
    built_in.map_or_else(
        || Names {
            kind: kind.clone(),
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            short_names: Vec::new(),
            gv,
        },
        |known| names_of(known),
    )
}

/// `/apis/apps/v1/namespaces/{namespace}/deployments` and the shorter forms; no
/// subresources, no single objects.
fn resource_of(path: &str) -> Option<(GroupVersion, &str)> {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (gv, rest) = match &*words {
        ["api", version, rest @ ..] => (GroupVersion::new("", *version), rest),
        ["apis", group, version, rest @ ..] => (GroupVersion::new(*group, *version), rest),
        _ => return None,
    };
    match rest {
        [plural] | ["namespaces", "{namespace}", plural] if !plural.starts_with('{') => Some((gv, plural)),
        _ => None,
    }
}

fn kind_of(item: &PathItem) -> Option<GroupVersionKind> {
    item.operations
        .values()
        .find_map(|operation| gvk(operation.rest.get("x-kubernetes-group-version-kind")?))
}

fn is_object(schema: &Schema) -> bool {
    !schema.properties.is_empty()
}
