//! A CustomResourceDefinition read into the form that serves it.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use serde::Deserialize;
use serde_json::Value;
use sternpost_cel::CostsBySize;
use sternpost_meta::gvk::compare_versions;
use sternpost_schema::Schema;

use crate::{
    json_path::JsonPath,
    node::{Node, Purpose},
    pattern::Patterns,
    props,
    rules::{RuleTree, Rules},
};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A definition, read by [`Definition::read`].
#[derive(Debug, Clone)]
pub struct Definition {
    /// `widgets.example.com`
    pub name: String,
    pub group: String,
    pub scope: Scope,
    /// As asked for; what is accepted of them stands in [`Definition::accepted`].
    pub names: Names,
    pub accepted: Names,
    /// In the author's order.
    pub versions: Vec<Arc<Version>>,
    pub conversion: Conversion,
    pub stored_versions: Vec<String>,
    pub established: bool,
    pub terminating: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Conversion {
    None,
    /// The `webhook` stanza as it stands: `clientConfig`, `conversionReviewVersions`.
    Webhook(Value),
}

/// One version, compiled when first used.
#[derive(Debug)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    /// The author's own text.
    pub deprecation_warning: Option<String>,
    /// A number for what pruning and defaulting depend on: versions with the same one treat
    /// stored objects the same.
    pub form: u64,
    /// The schema as JSON text in canonical form. Read again whenever something is compiled from it:
    /// as a tree it would be ten times as large. Documents share it.
    text: Arc<[u8]>,
    pub status: bool,
    /// Whether objects that have no status are shown with one.
    pub defaults_status: bool,
    pub scale: Option<Scale>,
    pub columns: Vec<Column>,
    /// Paths as field selectors name them: `spec.color`.
    pub selectable_fields: Vec<String>,
    has_rules: bool,
    rules: OnceLock<Option<Rules>>,
    node: OnceLock<Node>,
    patterns: Patterns,
}

/// Paths like `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// An `additionalPrinterColumns` entry.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    /// The path as its author wrote it.
    pub json_path: String,
    pub path: JsonPath,
}

/// A stored definition that cannot be read; validation lets none through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("schema of version {version}: {problem}")]
    Schema { version: String, problem: String },
}

/// The canonical form of a schema.
type ReadSchema = fn(&Value) -> Result<Cow<'_, Value>, props::ReadError>;

impl Definition {
    /// Reads a definition that was accepted, as its author wrote it.
    pub fn read(crd: &Value) -> Result<Self, DefinitionError> {
        let patterns = Patterns::default();
        Self::read_with(crd, &patterns, |schema| {
            Ok(Cow::Owned(props::read(schema, "schema.openAPIV3Schema")?.schema))
        })
    }

    /// As [`Definition::read`], for one whose schemas were read when it was stored, and whose patterns are among
    /// those of other definitions.
    pub fn read_stored(crd: &Value, patterns: &Patterns) -> Result<Self, DefinitionError> {
        Self::read_with(crd, patterns, |schema| Ok(Cow::Borrowed(schema)))
    }

    /// The same definition, going away or not.
    #[must_use]
    pub fn with_terminating(&self, terminating: bool) -> Self {
        Self { terminating, ..self.clone() }
    }

    fn read_with(crd: &Value, patterns: &Patterns, schema: ReadSchema) -> Result<Self, DefinitionError> {
        let spec = crd.get("spec").ok_or(DefinitionError::Missing("spec"))?;
        let status = crd.get("status").unwrap_or(&Value::Null);
        let versions =
            spec.get("versions").and_then(Value::as_array).ok_or(DefinitionError::Missing("versions"))?;
        Ok(Self {
            name: text_at(crd, "/metadata/name"),
            group: text(spec, "group"),
            scope: if text(spec, "scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
            names: Names::read(spec.get("names").unwrap_or(&Value::Null)),
            accepted: Names::read(status.get("acceptedNames").unwrap_or(&Value::Null)),
            versions: versions
                .iter()
                .map(|version| Version::read(version, patterns, schema).map(Arc::new))
                .collect::<Result<_, _>>()?,
            conversion: match text_at(spec, "/conversion/strategy").as_str() {
                "Webhook" => {
                    Conversion::Webhook(spec.pointer("/conversion/webhook").cloned().unwrap_or_default())
                }
                _ => Conversion::None,
            },
            stored_versions: texts(status, "storedVersions"),
            established: is_established(crd),
            terminating: is_terminating(crd),
        })
    }

    pub fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub fn storage_version(&self) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.storage)
    }

    pub fn api_version(&self, version: &Version) -> String {
        format!("{}/{}", self.group, version.name)
    }

    /// The warning that goes with every request to a deprecated version.
    pub fn deprecation_warning(&self, version: &Version) -> Option<String> {
        if !version.deprecated {
            return None;
        }
        if let Some(text) = &version.deprecation_warning {
            return Some(text.clone());
        }
        let kind = &self.names.kind;
        let mut text = format!("{} {kind} is deprecated", self.api_version(version));
        // Of several newer ones the newest is the one to use.
        let newer = self
            .versions
            .iter()
            .filter(|other| other.served && !other.deprecated)
            .filter(|other| compare_versions(&other.name, &version.name).is_lt())
            .min_by(|a, b| compare_versions(&a.name, &b.name));
        if let Some(newer) = newer {
            text += &format!("; use {} {kind}", self.api_version(newer));
        }
        Some(text)
    }
}

/// Whether a definition has been given its names, so that it can be served.
pub fn is_established(crd: &Value) -> bool {
    condition_is_true(crd.get("status").unwrap_or(&Value::Null), "Established")
}

/// Whether the objects of a definition are being cleared up. One that waits for somebody else behind
/// that takes new ones, as upstream.
pub fn is_terminating(crd: &Value) -> bool {
    condition_is_true(crd.get("status").unwrap_or(&Value::Null), "Terminating")
}

impl Names {
    pub fn read(names: &Value) -> Self {
        Self {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            short_names: texts(names, "shortNames"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            categories: texts(names, "categories"),
        }
    }

    /// As JSON, with what Go always shows and without what it leaves out.
    pub fn to_json(&self) -> Value {
        let mut out = serde_json::Map::new();
        out.insert("plural".into(), self.plural.as_str().into());
        out.insert("kind".into(), self.kind.as_str().into());
        for (name, value) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !value.is_empty() {
                out.insert(name.into(), value.as_str().into());
            }
        }
        for (name, values) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !values.is_empty() {
                out.insert(name.into(), values.as_slice().into());
            }
        }
        out.into()
    }
}

impl Version {
    fn read(version: &Value, patterns: &Patterns, schema: ReadSchema) -> Result<Self, DefinitionError> {
        let name = text(version, "name");
        let raw = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        let json = schema(raw)
            .map_err(|error| DefinitionError::Schema { version: name.clone(), problem: error.to_string() })?;
        let flag = |name: &str| version.get(name).and_then(Value::as_bool).unwrap_or_default();
        let subresources = version.get("subresources").unwrap_or(&Value::Null);
        let scale = subresources.get("scale").filter(|scale| !scale.is_null()).map(|scale| Scale {
            spec_replicas: text(scale, "specReplicasPath"),
            status_replicas: text(scale, "statusReplicasPath"),
            label_selector: Some(text(scale, "labelSelectorPath")).filter(|path| !path.is_empty()),
        });
        let items = |name: &str| version.get(name).and_then(Value::as_array).into_iter().flatten();
        // Upstream stops at the first column whose path it cannot read, and shows those before it.
        let columns = items("additionalPrinterColumns")
            .map_while(|column| {
                Some(Column {
                    name: text(column, "name"),
                    kind: text(column, "type"),
                    format: text(column, "format"),
                    description: text(column, "description"),
                    priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
                    path: JsonPath::parse(&text(column, "jsonPath")).ok()?,
                    json_path: text(column, "jsonPath"),
                })
            })
            .collect();
        let status = subresources.get("status").is_some_and(|status| !status.is_null());
        Ok(Self {
            served: flag("served"),
            storage: flag("storage"),
            deprecated: flag("deprecated"),
            deprecation_warning: version.get("deprecationWarning").and_then(Value::as_str).map(String::from),
            form: form(&json),
            has_rules: has_rules(&json),
            defaults_status: status && json.pointer("/properties/status/default").is_some(),
            status,
            scale,
            columns,
            selectable_fields: items("selectableFields")
                .map(|field| text(field, "jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            text: json.to_string().into_bytes().into(),
            node: OnceLock::new(),
            patterns: patterns.clone(),
            rules: OnceLock::new(),
            name,
        })
    }

    /// The schema as JSON text, in canonical form.
    pub fn text(&self) -> &Arc<[u8]> {
        &self.text
    }

    /// The schema as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// The schema as its author wrote it.
    pub fn schema(&self) -> Schema {
        props::to_schema(&self.json()).unwrap_or_default()
    }

    /// The schema as merging sees it: with the fields that every object has. Its reference to
    /// `ObjectMeta` is for the caller's definitions.
    pub fn merge_schema(&self) -> Schema {
        let mut schema = self.schema();
        with_object_fields(&mut schema);
        schema.walk_mut(&mut |node| {
            if node.rest.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
                with_object_fields(node);
            }
        });
        schema
    }

    /// What `metadata.name=…` and such select by: the text of a scalar field, empty if it is not set.
    pub fn selectable_value(&self, object: &Value, field: &str) -> Option<String> {
        let known = self.selectable_fields.iter().any(|known| known == field);
        if !known {
            return None;
        }
        let found = field.split('.').try_fold(object, |value, step| value.get(step));
        Some(match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => crate::number::go_value(other),
        })
    }

    /// The rules, compiled when the first object is written.
    pub(crate) fn rules(&self) -> Option<&RuleTree> {
        if !self.has_rules {
            return None;
        }
        let rules = self.rules.get_or_init(|| Rules::compile(&self.json()));
        rules.as_ref().map(|rules| &rules.tree)
    }

    /// What the rules may cost on an object. Nobody can say as long as they are not compiled, which may
    /// itself take a while.
    pub fn rule_costs(&self) -> CostsBySize {
        match self.rules.get() {
            _ if !self.has_rules => CostsBySize::default(),
            None => CostsBySize::UNKNOWN,
            Some(rules) => rules.as_ref().map(|rules| rules.costs).unwrap_or_default(),
        }
    }

    pub(crate) fn node(&self) -> &Node {
        self.node.get_or_init(|| Node::compile(&self.json(), Purpose::Objects, &self.patterns))
    }
}

/// Hashes the keywords of a schema that change objects.
fn form(schema: &Value) -> u64 {
    fn visit(schema: &Value, hasher: &mut DefaultHasher) {
        let Value::Object(keywords) = schema else { return };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "type"
                | "default"
                | "nullable"
                | "x-kubernetes-preserve-unknown-fields"
                | "x-kubernetes-embedded-resource"
                | "x-kubernetes-int-or-string" => (keyword, value).hash(hasher),
                "properties" => {
                    for (name, property) in value.as_object().into_iter().flatten() {
                        name.hash(hasher);
                        visit(property, hasher);
                        0xff_u8.hash(hasher);
                    }
                }
                "items" | "additionalProperties" => {
                    keyword.hash(hasher);
                    visit(value, hasher);
                    value.is_boolean().hash(hasher);
                    0xff_u8.hash(hasher);
                }
                _ => {}
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    visit(schema, &mut hasher);
    hasher.finish()
}

fn with_object_fields(schema: &mut Schema) {
    for name in ["apiVersion", "kind"] {
        schema.properties.insert(name.into(), Schema::of(sternpost_schema::Type::String));
    }
    schema.properties.insert("metadata".into(), Schema::reference(OBJECT_META));
}

pub(crate) fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations")
                || fields
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "default" | "enum" | "example"))
                    .any(|(_, value)| has_rules(value))
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

pub(crate) fn condition_is_true(status: &Value, kind: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn text_at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn texts(value: &Value, name: &str) -> Vec<String> {
    let items = value.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_schema::topology::{Node as Merged, Relation, Topologies};

    use super::*;

    fn definition(versions: &Value) -> Definition {
        Definition::read(&json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions},
            "status": {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]},
        }))
        .unwrap()
    }

    #[test]
    fn merging_sees_keyed_lists_and_metadata() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
            "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }});
        let definition = definition(&json!([{"name": "v1", "schema": {"openAPIV3Schema": schema}}]));
        let merged = Topologies::new(|_| None).of_schema(&definition.versions[0].merge_schema());
        let Merged::Map(root) = merged.node() else { panic!("{merged:?}") };
        assert_eq!(root.fields.get("metadata").unwrap().kind.name(), Some(OBJECT_META));
        let Merged::List(list) = root.fields.get("spec").unwrap().kind.node() else { panic!("{merged:?}") };
        assert_eq!(list.relation, Relation::Map(vec!["k".into()]));
        let Merged::Map(embedded) = root.fields.get("emb").unwrap().kind.node() else { panic!("{merged:?}") };
        assert_eq!(embedded.fields.get("metadata").unwrap().kind.name(), Some(OBJECT_META));
        assert!(embedded.others.is_some());
    }

    #[test]
    fn deprecated_versions_name_the_newest_good_one() {
        let version = |name: &str, deprecated: bool, served: bool| json!({"name": name, "deprecated": deprecated, "served": served});
        let definition = definition(&json!([
            version("v1alpha1", true, true),
            version("v1beta1", false, true),
            version("v1", false, true),
            version("v2", false, false),
            version("v3", true, true),
        ]));
        let warning = |index: usize| definition.deprecation_warning(&definition.versions[index]);
        assert_eq!(
            warning(0).unwrap(),
            "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"
        );
        assert_eq!(warning(1), None);
        assert_eq!(warning(4).unwrap(), "example.com/v3 Widget is deprecated");
        assert!(definition.established && !definition.terminating);
    }
}
