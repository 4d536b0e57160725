//! What a build knows of types: which kinds have no namespace, and which
//! lists a strategic merge patch merges by which keys.
//!
//! One [`Schema`] belongs to one build. The built-in one is decoded once, on
//! first use, and shared.

pub(crate) mod openapi;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::id::{Gvk, split_api_version};

/// Index of a type in its schema.
pub(crate) type TypeId = usize;

#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    /// By kind, then api version: kinds are looked up for every object.
    kinds: HashMap<String, Vec<Kind>>,
    types: Vec<Type>,
    /// Of kinds that are not known.
    fallback: Option<TypeId>,
}

#[derive(Debug, Clone)]
struct Kind {
    api_version: String,
    cluster_scoped: bool,
    root: Option<TypeId>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Type {
    fields: HashMap<String, FieldSchema>,
    /// For keys that are not in `fields`.
    any: Option<Box<FieldSchema>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FieldSchema {
    /// Of the value, or of the elements of a list.
    pub(crate) inner: Option<TypeId>,
    pub(crate) list: Option<MergedList>,
}

/// How the elements of a merged list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergedList {
    Whole,
    Keys(Vec<String>),
}

static BUILTIN: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(parse(include_str!("../facts/schema"))));

/// Kubernetes 1.21.2, which is what kustomize has built in.
pub(crate) fn builtin() -> Arc<Schema> {
    Arc::clone(&BUILTIN)
}

impl Schema {
    pub(crate) fn gvk(&self, api_version: &str, kind: &str) -> Gvk {
        let (group, version) = split_api_version(api_version);
        Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            cluster_scoped: self.kind(api_version, kind).is_some_and(|kind| kind.cluster_scoped),
        }
    }

    pub(crate) fn knows(&self, gvk: &Gvk) -> bool {
        self.kind(&gvk.api_version(), &gvk.kind).is_some()
    }

    /// With what the built-in schema has and this one has not.
    pub(crate) fn with_builtin(mut self) -> Self {
        let builtin = builtin();
        let offset = self.types.len();
        let moved = |field: &FieldSchema| FieldSchema {
            inner: field.inner.map(|inner| inner + offset),
            list: field.list.clone(),
        };
        self.types.extend(builtin.types.iter().map(|held| Type {
            fields: held.fields.iter().map(|(name, field)| (name.clone(), moved(field))).collect(),
            any: held.any.as_deref().map(|field| Box::new(moved(field))),
        }));
        for (name, kinds) in &builtin.kinds {
            for kind in kinds {
                if self.kind(&kind.api_version, name).is_none() {
                    let root = kind.root.map(|root| root + offset);
                    self.add_kind(&kind.api_version, name, kind.cluster_scoped, root);
                }
            }
        }
        self
    }

    /// Which built-in kinds have no namespace is known whatever the schema.
    pub(crate) fn with_builtin_scopes(mut self) -> Self {
        for (name, kinds) in &builtin().kinds {
            for kind in kinds.iter().filter(|kind| kind.cluster_scoped) {
                let root = self.kind(&kind.api_version, name).and_then(|kind| kind.root);
                self.add_kind(&kind.api_version, name, true, root);
            }
        }
        self
    }

    pub(crate) fn root_of(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        match self.kind(api_version, kind) {
            Some(kind) => kind.root,
            None => self.fallback,
        }
    }

    /// Takes kinds that are not known for what most of them are: an object
    /// with metadata and, if there is a `spec.template`, pods made of it.
    pub(crate) fn with_fallback(mut self) -> Self {
        let deployment = self.root_of("apps/v1", "Deployment");
        let inner = |schema: &Self, of: Option<TypeId>, field: &str| schema.field(of, field)?.inner;
        let metadata = inner(&self, deployment, "metadata");
        let template = inner(&self, inner(&self, deployment, "spec"), "template");
        let (root, spec) = (self.add_type(), self.add_type());
        let of = |inner: Option<TypeId>| FieldSchema { inner, list: None };
        self.add_field(root, "metadata", of(metadata));
        self.add_field(root, "spec", of(Some(spec)));
        self.add_field(spec, "template", of(template));
        self.fallback = Some(root);
        self
    }

    /// The built-in types of metadata and of the specification of a pod.
    fn common_types(&self) -> (Option<TypeId>, Option<TypeId>) {
        let pod = self.kind("v1", "Pod").and_then(|pod| pod.root);
        let inner = |field: &str| self.field(pod, field).and_then(|field| field.inner);
        (inner("metadata"), inner("spec"))
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.get(kind)?.iter().find(|known| known.api_version == api_version)
    }

    pub(crate) fn field(&self, of: Option<TypeId>, name: &str) -> Option<&FieldSchema> {
        let held = self.types.get(of?)?;
        held.fields.get(name).or(held.any.as_deref())
    }

    pub(crate) fn add_kind(
        &mut self,
        api_version: &str,
        kind: &str,
        cluster_scoped: bool,
        root: Option<TypeId>,
    ) {
        let kinds = self.kinds.entry(kind.to_owned()).or_default();
        kinds.retain(|known| known.api_version != api_version);
        kinds.push(Kind { api_version: api_version.to_owned(), cluster_scoped, root });
    }

    pub(crate) fn add_type(&mut self) -> TypeId {
        self.types.push(Type::default());
        self.types.len().saturating_sub(1)
    }

    pub(crate) fn add_field(&mut self, to: TypeId, name: &str, field: FieldSchema) {
        if let Some(held) = self.types.get_mut(to) {
            held.fields.insert(name.to_owned(), field);
        }
    }

    pub(crate) fn set_any_field(&mut self, to: TypeId, field: FieldSchema) {
        if let Some(held) = self.types.get_mut(to) {
            held.any = Some(Box::new(field));
        }
    }
}

/// The form of `facts/schema`. A line that is none is a mistake in that file,
/// which a test finds, and is left out.
fn parse(text: &'static str) -> Schema {
    let mut schema = Schema::default();
    let mut names: HashMap<&str, TypeId> = HashMap::new();
    let mut named = |schema: &mut Schema, name: &'static str| match name {
        "-" => None,
        name => Some(*names.entry(name).or_insert_with(|| schema.add_type())),
    };
    let mut current = None;
    for line in text.lines() {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["kind", api_version, kind, scope, root] => {
                let root = named(&mut schema, root);
                schema.add_kind(api_version, kind, *scope == "cluster", root);
            }
            ["type", name] => current = named(&mut schema, name),
            [field, inner, keys @ ..] if line.starts_with(' ') => {
                let inner = named(&mut schema, inner);
                let list = keys.first().map(|keys| match *keys {
                    "=" => MergedList::Whole,
                    keys => MergedList::Keys(keys.split(',').map(str::to_owned).collect()),
                });
                if let Some(current) = current {
                    schema.add_field(current, field, FieldSchema { inner, list });
                }
            }
            _ => {}
        }
    }
    schema
}
