//! One object of a build: its tree, its identity, and what it was called.
//!
//! kustomize keeps the latter in annotations of the object; here it is beside
//! the tree, and only such annotations as the input brings along are read.

use sternpost_yaml::node::{Content, Node, Scalar};

use crate::error::{Error, Result};
use crate::id::{ResId, effective_namespace};
use crate::replaced_lists;
use crate::schema::Schema;

/// Annotations that are kustomize's own: read when an object comes in, never
/// written.
const INTERNAL: &[&str] = &[
    PREVIOUS_NAMES,
    PREVIOUS_NAMESPACES,
    PREVIOUS_KINDS,
    PREFIXES,
    SUFFIXES,
    NEEDS_HASH,
    BEHAVIOR,
    HELM_GENERATED,
    "internal.config.kubernetes.io/refBy",
    "internal.config.kubernetes.io/allowNameChange",
    "internal.config.kubernetes.io/allowKindChange",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/index",
    "config.kubernetes.io/path",
    "config.k8s.io/id",
];
const PREVIOUS_NAMES: &str = "internal.config.kubernetes.io/previousNames";
const PREVIOUS_NAMESPACES: &str = "internal.config.kubernetes.io/previousNamespaces";
const PREVIOUS_KINDS: &str = "internal.config.kubernetes.io/previousKinds";
const PREFIXES: &str = "internal.config.kubernetes.io/prefixes";
const SUFFIXES: &str = "internal.config.kubernetes.io/suffixes";
const NEEDS_HASH: &str = "internal.config.kubernetes.io/needsHashSuffix";
const BEHAVIOR: &str = "internal.config.kubernetes.io/generatorBehavior";
const HELM_GENERATED: &str = "internal.config.kubernetes.io/helm-generated";

#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) node: Node,
    /// Of the tree as it is; [`Resource::refresh`] after changing that.
    id: ResId,
    /// Oldest first.
    previous: Vec<Previous>,
    /// Innermost first.
    pub(crate) prefixes: Vec<String>,
    pub(crate) suffixes: Vec<String>,
    /// Names of the `vars` that mean it.
    pub(crate) ref_vars: Vec<String>,
    pub(crate) needs_hash: bool,
    pub(crate) behavior: Behavior,
    /// Made by a chart, whose namespaces stay.
    pub(crate) helm_generated: bool,
    pub(crate) origin: Option<Origin>,
    /// What has been at it, oldest first.
    pub(crate) transformations: Vec<Origin>,
    /// A patch has put other annotations in the place of all there were, and
    /// with them what was known of its origin: the patch is the origin now.
    pub(crate) forgotten: bool,
    /// How many marks `transform/labels.rs` has given out.
    pub(crate) marks: u32,
    /// What [`crate::why`] knows it by; 0 for nothing.
    pub(crate) trace: u32,
    /// Where patches have put lists in the place of its own, for want of a schema.
    pub(crate) replaced_lists: Vec<replaced_lists::Path>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Previous {
    kind: String,
    name: String,
    /// As it counts: never empty.
    namespace: String,
}

/// What a generated object does to one of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behavior {
    #[default]
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "create" => Self::Create,
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Unspecified,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

/// Where an object, or a change to it, came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Origin {
    pub(crate) path: String,
    pub(crate) repo: String,
    pub(crate) reference: String,
    pub(crate) configured_in: String,
    pub(crate) configured_by: Option<ConfiguredBy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ConfiguredBy {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl Resource {
    pub(crate) fn new(schema: &Schema, node: Node) -> Result<Self> {
        let mut resource = Self { node, ..Self::bare(ResId::default()) };
        resource.refresh(schema);
        resource.take_internal_annotations()?;
        Ok(resource)
    }

    pub(crate) fn id(&self) -> &ResId {
        &self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.id.name
    }

    /// To be called after every change of the tree that may have touched kind,
    /// name or namespace.
    pub(crate) fn refresh(&mut self, schema: &Schema) {
        let api_version = self.text_at(&["apiVersion"]);
        let kind = self.text_at(&["kind"]);
        if self.id.gvk.kind != kind || self.id.gvk.api_version() != api_version {
            self.id.gvk = schema.gvk(api_version, kind);
        }
        let name = self.text_at(&["metadata", "name"]).to_owned();
        let namespace = self.text_at(&["metadata", "namespace"]).to_owned();
        self.id.name = name;
        self.id.namespace = namespace;
    }

    /// After the schema has learned of kinds.
    pub(crate) fn look_up_scope(&mut self, schema: &Schema) {
        self.id.gvk = schema.gvk(&self.id.gvk.api_version(), &self.id.gvk.kind);
    }

    fn text_at(&self, path: &[&str]) -> &str {
        let node = self.node.at(path).filter(|node| !node.is_null());
        node.and_then(Node::as_text).unwrap_or_default()
    }

    /// Keeps what the object is called now, before that changes.
    pub(crate) fn remember(&mut self) {
        self.previous.push(Previous {
            kind: self.id.gvk.kind.clone(),
            name: self.id.name.clone(),
            namespace: self.id.effective_namespace().to_owned(),
        });
    }

    /// Older ids, oldest first. Group and version are today's.
    pub(crate) fn previous_ids(&self) -> impl Iterator<Item = ResId> + '_ {
        self.previous.iter().map(|previous| {
            let mut gvk = self.id.gvk.clone();
            gvk.kind.clone_from(&previous.kind);
            ResId { gvk, name: previous.name.clone(), namespace: previous.namespace.clone() }
        })
    }

    /// All names it ever had, oldest first, the present one last.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.previous.iter().map(|previous| previous.name.as_str()).chain([self.id.name.as_str()])
    }

    /// Those before the present one.
    pub(crate) fn previous_names(&self) -> impl Iterator<Item = &str> {
        self.previous.iter().map(|previous| previous.name.as_str())
    }

    pub(crate) fn original_id(&self) -> ResId {
        self.previous_ids().next().unwrap_or_else(|| self.id.clone())
    }

    pub(crate) fn original_kind(&self) -> &str {
        self.previous.first().map_or(&self.id.gvk.kind, |previous| &previous.kind)
    }

    pub(crate) fn original_name(&self) -> &str {
        self.previous.first().map_or(&self.id.name, |previous| &previous.name)
    }

    /// The first namespace, as it counts.
    pub(crate) fn original_namespace(&self) -> &str {
        match self.previous.first() {
            Some(previous) => &previous.namespace,
            None => effective_namespace(self.id.gvk.cluster_scoped, &self.id.namespace),
        }
    }

    /// Whether it is called so now or ever was.
    pub(crate) fn has_id(&self, id: &ResId) -> bool {
        self.id.same(id) || self.previous_ids().any(|previous| previous.same(id))
    }

    /// Takes over what another object was called, and its identity.
    pub(crate) fn adopt_history(&mut self, other: &Self) {
        self.previous.clone_from(&other.previous);
        self.prefixes.clone_from(&other.prefixes);
        self.suffixes.clone_from(&other.suffixes);
        self.trace = other.trace;
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        set_in_metadata(&mut self.node, "name", name);
        name.clone_into(&mut self.id.name);
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) {
        set_in_metadata(&mut self.node, "namespace", namespace);
        namespace.clone_into(&mut self.id.namespace);
    }

    /// A deleted object has no fields left.
    pub(crate) fn is_empty(&self) -> bool {
        self.node.is_null() || (self.node.is_mapping() && self.node.pairs().is_empty())
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.node.at(&["metadata", "annotations", key]).and_then(Node::as_text)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.node.at(&["metadata", "labels", key]).and_then(Node::as_text)
    }

    pub(crate) fn set_annotation(&mut self, key: &str, value: &str) {
        if let Some(annotations) = self.metadata_map("annotations") {
            annotations.set(key, Node::string(value));
        }
    }

    pub(crate) fn set_label(&mut self, key: &str, value: &str) {
        if let Some(labels) = self.metadata_map("labels") {
            labels.set(key, Node::string(value));
        }
    }

    pub(crate) fn remove_annotation(&mut self, key: &str) -> Option<Node> {
        self.node.get_mut("metadata")?.get_mut("annotations")?.remove(key)
    }

    fn metadata_map(&mut self, name: &str) -> Option<&mut Node> {
        let map = self.node.get_or_insert("metadata", Node::mapping)?.get_or_insert(name, Node::mapping)?;
        if !map.is_mapping() {
            *map = Node::mapping();
        }
        Some(map)
    }

    /// Takes over what a program that gave the object back cannot know.
    pub(crate) fn take_over(&mut self, old: &Self) {
        self.origin.clone_from(&old.origin);
        self.transformations.clone_from(&old.transformations);
        self.helm_generated |= old.helm_generated;
        self.trace = old.trace;
    }

    /// The marks that kustomize itself would have left on an object.
    fn take_internal_annotations(&mut self) -> Result<()> {
        let Some(annotations) = self.node.get_mut("metadata").and_then(|node| node.get_mut("annotations"))
        else {
            return Ok(());
        };
        if annotations.is_sequence() {
            return Err(Error::new(format!("annotations of {} are a list", self.id)));
        }
        let Some(pairs) = annotations.pairs_mut() else { return Ok(()) };
        let internal = |(key, _): &(Node, Node)| key.as_text().is_some_and(|key| INTERNAL.contains(&key));
        if !pairs.iter().any(internal) {
            return Ok(());
        }
        let (taken, kept) = std::mem::take(pairs).into_iter().partition(internal);
        *pairs = kept;
        let taken: Vec<(Node, Node)> = taken;
        let value = |name: &str| {
            let found = taken.iter().find(|(key, _)| key.as_text() == Some(name));
            found.and_then(|(_, value)| value.as_text()).unwrap_or_default()
        };
        let listed = |name: &str| {
            value(name).split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let (names, namespaces, kinds) =
            (listed(PREVIOUS_NAMES), listed(PREVIOUS_NAMESPACES), listed(PREVIOUS_KINDS));
        if names.len() != namespaces.len() || names.len() != kinds.len() {
            return Err(Error::new(
                "number of previous names, number of previous namespaces, number of previous kinds not equal",
            ));
        }
        let together = names.into_iter().zip(namespaces).zip(kinds);
        self.previous =
            together.map(|((name, namespace), kind)| Previous { kind, name, namespace }).collect();
        self.prefixes = listed(PREFIXES);
        self.suffixes = listed(SUFFIXES);
        self.needs_hash = value(NEEDS_HASH) == "enabled" || value(NEEDS_HASH) == "true";
        self.behavior = Behavior::parse(value(BEHAVIOR));
        self.helm_generated = value(HELM_GENERATED) == "true";
        Ok(())
    }

    /// The tree with the annotations that kustomize would have in it here, for
    /// messages that print an object.
    pub(crate) fn shown(&self) -> Node {
        let mut shown = Self { node: self.node.clone(), ..Self::bare(self.id.clone()) };
        let listed =
            |part: fn(&Previous) -> &str| self.previous.iter().map(part).collect::<Vec<_>>().join(",");
        let annotations = [
            (PREFIXES, self.prefixes.join(",")),
            (SUFFIXES, self.suffixes.join(",")),
            (PREVIOUS_KINDS, listed(|previous| &previous.kind)),
            (PREVIOUS_NAMES, listed(|previous| &previous.name)),
            (PREVIOUS_NAMESPACES, listed(|previous| &previous.namespace)),
        ];
        for (key, value) in annotations.iter().filter(|(_, value)| !value.is_empty()) {
            shown.set_annotation(key, value);
        }
        shown.node
    }

    /// The same with what the object's generator left for later, and one more.
    pub(crate) fn shown_to_programs(&self, key: &str, value: &str) -> Node {
        let mut shown = Self { node: self.shown(), ..Self::bare(self.id.clone()) };
        shown.set_annotation(key, value);
        if self.needs_hash {
            shown.set_annotation(NEEDS_HASH, "enabled");
        }
        if self.needs_hash || self.behavior != Behavior::Unspecified {
            shown.set_annotation(BEHAVIOR, self.behavior.as_str());
        }
        shown.node
    }

    fn bare(id: ResId) -> Self {
        Self {
            node: Node::null(),
            id,
            previous: Vec::new(),
            prefixes: Vec::new(),
            suffixes: Vec::new(),
            ref_vars: Vec::new(),
            needs_hash: false,
            behavior: Behavior::Unspecified,
            helm_generated: false,
            origin: None,
            transformations: Vec::new(),
            forgotten: false,
            marks: 0,
            replaced_lists: Vec::new(),
            trace: 0,
        }
    }

    /// Makes text of labels and annotations, null included, as happens to a
    /// patch that is for several objects.
    pub(crate) fn labels_as_text(&mut self) {
        let Some(metadata) = self.node.get_mut("metadata") else { return };
        for field in ["labels", "annotations"] {
            let pairs = metadata.get_mut(field).and_then(Node::pairs_mut);
            for (_, value) in pairs.into_iter().flatten() {
                if let Some(text) = value.as_text().map(str::to_owned) {
                    value.content = Content::Scalar(Scalar::string(text));
                }
            }
        }
    }

    /// What every object goes through at the end: annotations are text, and
    /// none is no field.
    pub(crate) fn settle_annotations(&mut self) {
        let Some(metadata) = self.node.get_mut("metadata") else { return };
        let Some(annotations) = metadata.get_mut("annotations") else { return };
        match &mut annotations.content {
            Content::Mapping(pairs) if !pairs.is_empty() => {
                for (_, value) in pairs {
                    let text = value.as_text().unwrap_or_default().to_owned();
                    value.content = Content::Scalar(Scalar::string(text));
                }
            }
            _ => {
                metadata.remove("annotations");
            }
        }
    }
}

fn set_in_metadata(node: &mut Node, field: &str, value: &str) {
    let metadata = node.get_or_insert("metadata", Node::mapping);
    if let Some(metadata) = metadata {
        metadata.set(field, Node::string(value));
    }
}
