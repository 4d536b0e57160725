//! `openapi`: a Swagger 2.0 document that takes the place of the built-in
//! schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{FieldSchema, MergedList, Schema, TypeId};
use crate::error::{Error, Result};
use crate::kustomization::TextMap;
use crate::loader::Loader;

/// The only version that is built in.
const BUILTIN_VERSION: &str = "v1.21.2";

const GVK: &str = "x-kubernetes-group-version-kind";
const STRATEGY: &str = "x-kubernetes-patch-strategy";
const MERGE_KEY: &str = "x-kubernetes-patch-merge-key";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const REFERENCE_PREFIX: &str = "#/definitions/";

/// How deep types may nest in a document, references not followed.
const MAX_DEPTH: usize = 100;

/// What the field asks for, or `None` if it does not.
pub(crate) fn read(loader: &Loader<'_>, openapi: &TextMap) -> Result<Option<Schema>> {
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

/// A document without definitions gives a schema that knows nothing.
pub(crate) fn schema(document: &Value) -> Schema {
    let nothing = Map::new();
    let definitions = document.get("definitions").and_then(Value::as_object).unwrap_or(&nothing);
    let mut reader = Reader { schema: Schema::default(), names: HashMap::new() };
    for name in definitions.keys() {
        let id = reader.schema.add_type();
        reader.names.insert(name, id);
    }
    for (name, definition) in definitions {
        let Some(id) = reader.names.get(name.as_str()).copied() else { continue };
        reader.fields(id, definition, 0);
    }
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
}

impl<'d> Reader<'d> {
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
            Some(items) => FieldSchema { inner: self.inner(items, depth), list: merged_list(property) },
            None => FieldSchema { inner: self.inner(property, depth), list: None },
        }
    }

    fn inner(&mut self, property: &'d Value, depth: usize) -> Option<TypeId> {
        if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
            return self.names.get(reference.strip_prefix(REFERENCE_PREFIX)?).copied();
        }
        if property.get("properties").is_none() && property.get("additionalProperties").is_none() {
            return None;
        }
        let id = self.schema.add_type();
        self.fields(id, property, depth + 1);
        Some(id)
    }
}

/// Keys count only beside a strategy that merges.
fn merged_list(property: &Value) -> Option<MergedList> {
    let strategy = property.get(STRATEGY).and_then(Value::as_str)?;
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
