//! `openapi`: a Swagger 2.0 document that takes the place of the built-in
//! schema, as with kustomize, or documents of any kind that are merged with it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{FieldSchema, MergedList, Schema, TypeId};
use crate::documents;
use crate::error::{Error, Result};
use crate::kustomization::TextMap;
use crate::loader::Loader;

/// The only version that is built in.
const BUILTIN_VERSION: &str = "v1.21.2";

const GVK: &str = "x-kubernetes-group-version-kind";
const STRATEGY: &str = "x-kubernetes-patch-strategy";
const MERGE_KEY: &str = "x-kubernetes-patch-merge-key";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const REFERENCE_PREFIXES: [&str; 2] = ["#/definitions/", "#/components/schemas/"];

/// The fields of `openapi` that kustomize does not have, and so ignores:
/// files that are merged with the built-in schema, separated by commas, and
/// whether `path` is, too.
const SCHEMAS: &str = "schemas";
const MERGE: &str = "merge";

/// How deep types may nest in a document, references not followed.
const MAX_DEPTH: usize = 100;

/// What lists are merged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A patch strategy and nothing else.
    AsKustomize,
    /// That and, where there is none, the type of the list.
    ListTypes,
}

/// What the field asks for, or `None` if it does not.
pub(crate) fn read(loader: &Loader<'_>, openapi: &TextMap, auto: bool) -> Result<Option<Schema>> {
    let set = |name: &str| openapi.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let merges = auto || set(MERGE) == Some("true") || set(SCHEMAS).is_some();
    if merges && set("version").is_none() {
        let more = set(SCHEMAS).unwrap_or_default().split([',', '\n']).map(str::trim);
        let files: Vec<&str> = set("path").into_iter().chain(more).filter(|path| !path.is_empty()).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let mut schema = (*super::builtin()).clone();
        if auto {
            schema = schema.with_fallback();
        }
        for path in files {
            add(&mut schema, &loader.load_text(path)?).map_err(|error| error.within(path))?;
        }
        return Ok(Some(schema));
    }
    let set = |name: &str| openapi.get(name);
    let version = set("version").filter(|version| !version.is_empty());
    match (version, set("path")) {
        (Some(_), Some(_)) => Err(Error::new("builtin version and custom schema provided, cannot use both")),
        (Some(version), None) if version == BUILTIN_VERSION => Ok(Some((*super::builtin()).clone())),
        (Some(_), None) => Err(Error::new("the specified OpenAPI version is not built in")),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = loader.load_text(path)?;
            let document = sternpost_yaml::read(&text).map_err(|error| {
                Error::new(format!("invalid schema file: {}", error.problem))
                    .with_hint(format!("{path}:{}:{}", error.line, error.column))
            })?;
            if !document.value.is_object() {
                return Err(Error::new("invalid schema file: not an object").with_hint(path.clone()));
            }
            Ok(Some(schema(&document.value)))
        }
    }
}

/// Merges OpenAPI v2 and v3 documents and CustomResourceDefinitions into a
/// schema; what they say of a kind takes the place of what was known of it.
pub(crate) fn add(schema: &mut Schema, text: &str) -> Result<()> {
    for node in documents::nodes(text)? {
        let problem = |reason: &str| Error::new(format!("invalid schema file: {reason}"));
        let document = node.to_json().map_err(|error| problem(&error.to_string()))?;
        let items = match document.get("items").and_then(Value::as_array) {
            Some(items) => items.as_slice(),
            None => std::slice::from_ref(&document),
        };
        for document in items {
            let known =
                ["definitions", "components", "spec"].iter().any(|field| document.get(field).is_some());
            if !known {
                return Err(problem("neither OpenAPI nor a CustomResourceDefinition"));
            }
            if document.get("spec").is_some() {
                add_definition(schema, document);
            } else {
                add_openapi(schema, document);
            }
        }
    }
    Ok(())
}

fn add_openapi(schema: &mut Schema, document: &Value) {
    let nothing = Map::new();
    let definitions = document
        .get("definitions")
        .or_else(|| document.get("components")?.get("schemas"))
        .and_then(Value::as_object)
        .unwrap_or(&nothing);
    let scopes = namespaced_kinds(document);
    let mut reader = Reader::new(std::mem::take(schema), Reading::ListTypes);
    reader.definitions(definitions);
    for (name, definition) in definitions {
        let root = reader.names.get(name.as_str()).copied();
        for (api_version, kind) in kinds(definition) {
            let namespaced = scopes.get(&(api_version.clone(), kind.clone()));
            let known = reader.schema.kind(&api_version, &kind).is_some_and(|kind| kind.cluster_scoped);
            let cluster_scoped = namespaced.map_or(known, |namespaced| !namespaced);
            reader.schema.add_kind(&api_version, &kind, cluster_scoped, root);
        }
    }
    *schema = reader.schema;
}

/// A CustomResourceDefinition as a schema, every version of it.
pub(crate) fn add_definition(schema: &mut Schema, definition: &Value) {
    let Some(spec) = definition.get("spec") else { return };
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (group, kind) = (text(spec, "/group"), text(spec, "/names/kind"));
    if group.is_empty() || kind.is_empty() {
        return;
    }
    let cluster_scoped = text(spec, "/scope") == "Cluster";
    let own = Value::from(text(spec, "/version"));
    let old = serde_json::json!([{ "name": own }]);
    let versions = spec.get("versions").unwrap_or(&old).as_array().cloned().unwrap_or_default();
    let (metadata, _) = schema.common_types();
    for version in &versions {
        let structure = version
            .pointer("/schema/openAPIV3Schema")
            .or_else(|| spec.pointer("/validation/openAPIV3Schema"));
        let mut reader = Reader::new(std::mem::take(schema), Reading::ListTypes);
        let root = reader.schema.add_type();
        if let Some(structure) = structure {
            reader.fields(root, structure, 0);
        }
        *schema = reader.schema;
        schema.add_field(root, "metadata", FieldSchema { inner: metadata, list: None });
        let api_version = format!("{group}/{}", text(version, "/name"));
        schema.add_kind(&api_version, &kind, cluster_scoped, Some(root));
    }
}

/// A document without definitions gives a schema that knows nothing.
pub(crate) fn schema(document: &Value) -> Schema {
    let nothing = Map::new();
    let definitions = document.get("definitions").and_then(Value::as_object).unwrap_or(&nothing);
    let mut reader = Reader::new(Schema::default(), Reading::AsKustomize);
    reader.definitions(definitions);
    let namespaced = namespaced_kinds(document);
    for (name, definition) in definitions {
        let root = reader.names.get(name.as_str()).copied();
        for (api_version, kind) in kinds(definition) {
            reader.schema.add_kind(&api_version, &kind, false, root);
        }
    }
    for ((api_version, kind), namespaced) in namespaced {
        let root = reader.schema.root_of(&api_version, &kind);
        reader.schema.add_kind(&api_version, &kind, !namespaced, root);
    }
    reader.schema
}

struct Reader<'d> {
    schema: Schema,
    names: HashMap<&'d str, TypeId>,
    reading: Reading,
    /// What stands for a structure that is one of a pod.
    pod_spec: Option<TypeId>,
}

impl<'d> Reader<'d> {
    fn new(schema: Schema, reading: Reading) -> Self {
        let pod_spec = match reading {
            Reading::AsKustomize => None,
            Reading::ListTypes => schema.common_types().1,
        };
        Self { schema, names: HashMap::new(), reading, pod_spec }
    }

    fn definitions(&mut self, definitions: &'d Map<String, Value>) {
        for name in definitions.keys() {
            let id = self.schema.add_type();
            self.names.insert(name, id);
        }
        for (name, definition) in definitions {
            let Some(id) = self.names.get(name.as_str()).copied() else { continue };
            self.fields(id, definition, 0);
        }
    }

    fn fields(&mut self, of: TypeId, definition: &'d Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for (name, property) in definition.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let field = self.field(property, depth);
            self.schema.add_field(of, name, field);
        }
        if let Some(any) = definition.get("additionalProperties").filter(|any| any.is_object()) {
            let field = self.field(any, depth);
            self.schema.set_any_field(of, field);
        }
    }

    fn field(&mut self, property: &'d Value, depth: usize) -> FieldSchema {
        match property.get("items") {
            Some(items) => {
                FieldSchema { inner: self.inner(items, depth), list: merged_list(property, self.reading) }
            }
            None => FieldSchema { inner: self.inner(property, depth), list: None },
        }
    }

    fn inner(&mut self, property: &'d Value, depth: usize) -> Option<TypeId> {
        if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
            let prefix = REFERENCE_PREFIXES.iter().find(|prefix| reference.starts_with(**prefix))?;
            return self.names.get(reference.strip_prefix(prefix)?).copied();
        }
        if let Some([one]) = property.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            // How OpenAPI v3 writes a reference with something beside it.
            return if depth > MAX_DEPTH { None } else { self.inner(one, depth + 1) };
        }
        if self.pod_spec.is_some() && is_pod_spec(property) {
            return self.pod_spec;
        }
        if property.get("properties").is_none() && property.get("additionalProperties").is_none() {
            return None;
        }
        let id = self.schema.add_type();
        self.fields(id, property, depth + 1);
        Some(id)
    }
}

/// Definitions written by hand or by older tools do not say by what lists of
/// containers are merged; that they are those of a pod shows all the same.
fn is_pod_spec(property: &Value) -> bool {
    let has = |name: &str| {
        property
            .pointer("/properties/containers/items/properties")
            .is_some_and(|item| item.get(name).is_some())
    };
    has("name") && has("image")
}

/// Keys count only beside a strategy that merges.
fn merged_list(property: &Value, reading: Reading) -> Option<MergedList> {
    let list_type = property.get(LIST_TYPE).and_then(Value::as_str);
    let strategy = match (property.get(STRATEGY).and_then(Value::as_str), list_type, reading) {
        (Some(strategy), _, _) => strategy,
        (None, Some("map"), Reading::ListTypes) if property.get(MAP_KEYS).is_some() => "merge",
        (None, Some("set"), Reading::ListTypes) => return Some(MergedList::Whole),
        _ => return None,
    };
    if !strategy.split(',').any(|strategy| strategy == "merge") {
        return None;
    }
    let map_keys: Vec<String> = property
        .get(MAP_KEYS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|key| key.as_str().map(str::to_owned))
        .collect();
    if !map_keys.is_empty() {
        return Some(MergedList::Keys(map_keys));
    }
    Some(match property.get(MERGE_KEY).and_then(Value::as_str) {
        Some(key) => MergedList::Keys(vec![key.to_owned()]),
        None => MergedList::Whole,
    })
}

fn kinds(holder: &Value) -> Vec<(String, String)> {
    let listed = match holder.get(GVK) {
        Some(Value::Array(listed)) => listed.as_slice(),
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    };
    let kind = |gvk: &Value| {
        let part = |name: &str| gvk.get(name).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = (part("group"), part("version"));
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        (api_version, part("kind").to_owned())
    };
    listed.iter().map(kind).collect()
}

/// Whether a kind has a path within a namespace, for kinds that have a path.
fn namespaced_kinds(document: &Value) -> HashMap<(String, String), bool> {
    let mut found = HashMap::new();
    for (path, item) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        let Some(get) = item.get("get") else { continue };
        for kind in kinds(get) {
            let namespaced = path.contains("namespaces/{namespace}");
            let known = found.entry(kind).or_insert(false);
            *known |= namespaced;
        }
    }
    found
}
