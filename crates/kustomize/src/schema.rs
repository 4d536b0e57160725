//! What a build knows of types: which kinds have no namespace, and which
//! lists a strategic merge patch merges by which keys.
//!
//! One [`Schema`] belongs to one build. The built-in one is decoded once, on
//! first use, and shared.
//!
//! Its own, and not made of `sternpost_schema::topology::Topologies`: kustomize merges a list only where a
//! patch strategy says so and takes keys only beside one, follows a reference to any place of its document,
//! and lets what is malformed stop only the merges that come to it (cases
//! `build-openapi/list-map-keys-without-strategy`, `build-schemas/reference-into-a-definition` and
//! `build-schemas/strategy-that-is-a-number-elsewhere`).

pub mod document;
mod json;
pub(crate) mod openapi;
mod place;
mod shape;
pub(crate) mod table;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use sternpost_meta::gvk::GroupVersion;
use sternpost_schema::topology::Relation;

use crate::error::{Cause, Error, Result};
use crate::id::Gvk;
use table::{Release, Table};

/// What kustomize says of every version but its own.
const NOT_BUILT_IN: &str = "the specified OpenAPI version is not built in";

/// Index of a type in its schema.
pub(crate) type TypeId = usize;

#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    /// By kind, then api version: kinds are looked up for every object.
    kinds: HashMap<String, Vec<Kind>>,
    types: Vec<Type>,
    /// Of kinds that are not known.
    fallback: Option<TypeId>,
    /// By the names that references use.
    names: HashMap<String, TypeId>,
    pub(crate) order: ListOrder,
    /// Why there is nothing in it. Upstream reads a schema when it is first
    /// asked something, so this stops only builds that ask.
    unreadable: Option<Box<Error>>,
}

/// Where the elements of a merged list stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// As kustomize has them: those that the patch names first.
    #[default]
    Patch,
    /// Where they were; new ones come last.
    Keep,
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

#[derive(Debug, Clone)]
pub(crate) struct FieldSchema {
    /// Of the value, or of the elements of a list.
    pub(crate) inner: Option<TypeId>,
    /// How the elements of a list are told apart by a patch that merges it. One that is atomic is replaced.
    pub(crate) list: Result<Relation, Broken>,
    /// Why what the schema says of the field cannot be followed. Stops the
    /// merges that come to it, and no other.
    pub(crate) broken: Option<Broken>,
}

impl Default for FieldSchema {
    fn default() -> Self {
        Self { inner: None, list: Ok(Relation::Atomic), broken: None }
    }
}

/// A message and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken(Box<Error>);

impl Broken {
    pub(crate) fn error(&self) -> Error {
        (*self.0).clone()
    }
}

static BUILTIN: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Table::of(table::DEFAULT).schema()));

/// Kubernetes 1.21.2, which is what kustomize has built in.
pub(crate) fn builtin() -> Arc<Schema> {
    Arc::clone(&BUILTIN)
}

/// What is built in for a version of Kubernetes.
pub(crate) fn builtin_of(version: &str) -> Result<Arc<Schema>> {
    let Some(release) = Release::parse(version) else {
        return Err(Error::new(NOT_BUILT_IN).with_hint(format!("{} are built in", Release::known())));
    };
    Ok(if release == table::DEFAULT { builtin() } else { Arc::new(Table::of(release).schema()) })
}

impl Schema {
    pub(crate) fn gvk(&self, api_version: &str, kind: &str) -> Gvk {
        let (group, version) = GroupVersion::split(api_version);
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

    /// One that knows nothing, and says why when asked.
    fn unreadable(error: &Error) -> Self {
        let error = Error::caused(Cause::UnreadableSchema, error.to_string());
        Self { unreadable: Some(Box::new(error)), ..Self::default() }
    }

    /// Asks whether it can be asked.
    pub(crate) fn check(&self) -> Result<()> {
        self.unreadable.as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Which built-in kinds have no namespace is known whatever the schema.
    pub(crate) fn with_scopes_of(mut self, builtin: &Self) -> Self {
        for (name, kinds) in &builtin.kinds {
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
        let of = |inner: Option<TypeId>| FieldSchema { inner, ..FieldSchema::default() };
        self.add_field(root, "metadata", of(metadata));
        self.add_field(root, "spec", of(Some(spec)));
        self.add_field(spec, "template", of(template));
        self.fallback = Some(root);
        self
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

    /// Lets references find a type.
    pub(crate) fn name_type(&mut self, name: String, id: TypeId) {
        self.names.insert(name, id);
    }

    pub(crate) fn named(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
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
