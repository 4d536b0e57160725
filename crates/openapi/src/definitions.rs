//! Documents of others as CustomResourceDefinitions.
//!
//! A document says what the kinds of a server look like, however the server came to have them. [`Definitions`] writes a
//! definition for each, so that whoever judges custom resources can judge objects of these kinds, too.
//!
//! What a definition cannot say, or a document does not tell, is left open and never made up: a type that contains itself, a field
//! without a type, conversions, defaults of Go types that are only their zero values, rules of v2. Groups without a dot cannot be
//! defined; built-in kinds are none of this.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use sternpost_meta::resource::guess_plural;
use sternpost_schema::extension::{
    EMBEDDED_RESOURCE, GROUP_VERSION_KIND, INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE,
    PRESERVE_UNKNOWN_FIELDS, VALIDATIONS,
};

use crate::{
    convert::{self, ConvertError},
    references::{self, V3},
};

/// Schemas in one definition, with those that references stand for: more than any object can hold that etcd takes.
pub const MAX_SCHEMAS: usize = 100_000;
/// Schemas within schemas, through references. Real ones have about twenty.
pub const MAX_DEPTH: usize = 100;

/// What the definition of a kind in a protected group must say; others do not mind.
const APPROVED: (&str, &str) = ("api-approved.kubernetes.io", "unapproved, read from an OpenAPI document");

/// How Kubernetes reads a quantity that is a string.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Keywords that mean the same in a definition. Prose is left out.
const KEPT: &[&str] = &[
    "type",
    "format",
    "enum",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "required",
    "nullable",
    "default",
    INT_OR_STRING,
    PRESERVE_UNKNOWN_FIELDS,
    EMBEDDED_RESOURCE,
    LIST_TYPE,
    LIST_MAP_KEYS,
    MAP_TYPE,
    VALIDATIONS,
];

const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const PROSE: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// The kinds of any number of documents.
#[derive(Debug, Default)]
pub struct Definitions(BTreeMap<(String, String), Kind>);

/// A definition, and where its first version was found.
#[derive(Debug, PartialEq)]
pub struct Made {
    pub source: Arc<str>,
    pub definition: Value,
}

#[derive(Debug)]
struct Kind {
    source: Arc<str>,
    /// As the paths have it.
    plural: Option<String>,
    is_namespaced: bool,
    versions: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionsError {
    #[error(transparent)]
    Document(#[from] ConvertError),
    #[error(
        "the schema of {kind} has more than {MAX_SCHEMAS} parts, or more than {MAX_DEPTH} levels of them"
    )]
    TooLarge { kind: String },
}

/// Whether a tree is meant to be an OpenAPI document.
pub fn is_document(json: &Value) -> bool {
    json.get("kind").is_none() && (json.get("openapi").is_some() || json.get("swagger").is_some())
}

impl Definitions {
    /// Takes the kinds of wanted groups from a document, v2 or v3. Of two that define the same version of a kind the first
    /// counts.
    pub fn add(
        &mut self,
        source: &Arc<str>,
        document: &Value,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(), DefinitionsError> {
        // v2 does not tell defaults, and rules rely on them.
        let rules = if document.get("swagger").is_some() { Rules::Dropped } else { Rules::Kept };
        let document = if rules == Rules::Dropped {
            Cow::Owned(convert::to_v3(document)?.document)
        } else {
            convert::check_v3(document)?;
            Cow::Borrowed(document)
        };
        let resources = resources(&document);
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            for gvk in schema.get(GROUP_VERSION_KIND).and_then(Value::as_array).into_iter().flatten() {
                let [group, version, kind] = ["group", "version", "kind"]
                    .map(|key| gvk.get(key).and_then(Value::as_str).unwrap_or_default());
                if !group.contains('.') || !is_wanted(group) || !is_object(schema, kind) {
                    continue;
                }
                let resource = resources.get(&(group, version, kind));
                let mut writer = Writer {
                    document: &document,
                    open: vec![name],
                    left: MAX_SCHEMAS,
                    depth: 0,
                    types: types(schema),
                    rules,
                };
                let written = writer.structural(schema, Position::Object);
                let schema = written.ok_or_else(|| DefinitionsError::TooLarge { kind: kind.to_owned() })?;
                let has_status = resource.is_none_or(|resource| resource.has_status);
                let version_of = json!({
                    "name": version, "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": if has_status { json!({"status": {}}) } else { json!({}) },
                });
                let kind = self.0.entry((group.to_owned(), kind.to_owned())).or_insert_with(|| Kind {
                    source: source.clone(),
                    plural: None,
                    is_namespaced: true,
                    versions: BTreeMap::new(),
                });
                if let Some(resource) = resource.filter(|_| kind.plural.is_none()) {
                    kind.plural = Some(resource.plural.to_owned());
                    kind.is_namespaced = resource.is_namespaced;
                }
                kind.versions.entry(version.to_owned()).or_insert(version_of);
            }
        }
        Ok(())
    }

    /// In the order of groups and kinds.
    pub fn made(self) -> Vec<Made> {
        self.0.into_iter().map(|((group, kind), found)| found.made(&group, &kind)).collect()
    }
}

impl Kind {
    fn made(self, group: &str, kind: &str) -> Made {
        let plural = self.plural.unwrap_or_else(|| guess_plural(kind));
        let mut versions: Vec<Value> = self.versions.into_values().collect();
        // Which one is stored makes no difference: nothing is converted.
        if let Some(Value::Object(first)) = versions.first_mut() {
            first.insert("storage".to_owned(), true.into());
        }
        let (annotation, value) = APPROVED;
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {annotation: value}},
            "spec": {
                "group": group,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                    "listKind": format!("{kind}List"),
                },
                "versions": versions,
            },
        });
        Made { source: self.source, definition }
    }
}

/// What the paths tell of a kind.
#[derive(Debug)]
struct Resource<'a> {
    plural: &'a str,
    is_namespaced: bool,
    has_status: bool,
}

/// By group, version and kind.
fn resources(document: &Value) -> HashMap<(&str, &str, &str), Resource<'_>> {
    let mut kinds = HashMap::new();
    let (mut namespaced, mut with_status) = (HashSet::new(), HashSet::new());
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let Some(path) = path.strip_prefix("/apis/") else { continue };
        let segments: Vec<&str> = path.split('/').collect();
        let (group, version, below) = match segments.as_slice() {
            [group, version, "namespaces", "{namespace}", below @ ..] => {
                namespaced.extend(below.first().map(|plural| (*group, *version, *plural)));
                (*group, *version, below)
            }
            [group, version, below @ ..] => (*group, *version, below),
            _ => continue,
        };
        match below {
            [plural] | [plural, "{name}"] => {
                let operations = item.as_object().into_iter().flat_map(|item| item.values());
                let kind = operations.filter_map(|operation| operation.get(GROUP_VERSION_KIND)?.get("kind"));
                for kind in kind.filter_map(Value::as_str) {
                    kinds.insert((group, version, kind), *plural);
                }
            }
            [plural, "{name}", "status"] => {
                with_status.insert((group, version, *plural));
            }
            _ => {}
        }
    }
    let resource = |((group, version, kind), plural)| {
        let place = (group, version, plural);
        // Objects of all namespaces are listed where those of the cluster would be.
        let is_namespaced = namespaced.contains(&place);
        let resource = Resource { plural, is_namespaced, has_status: with_status.contains(&place) };
        ((group, version, kind), resource)
    };
    kinds.into_iter().map(resource).collect()
}

/// Whether a type with a kind is one of objects: options, events of a watch and lists are not.
fn is_object(schema: &Value, kind: &str) -> bool {
    // One without properties is a custom resource of which v2 can say nothing.
    let Some(properties) = schema.get("properties") else { return true };
    let is_list = kind.ends_with("List") && properties.get("items").is_some();
    properties.get("metadata").is_some() && !is_list
}

/// Where the types of a schema come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Types {
    /// The author of a definition has written it in one piece.
    Definition,
    /// They are types of a Go program, which have names. Every field has a default there, its zero value, which says nothing
    /// about whether it must be set.
    Go,
}

fn types(schema: &Value) -> Types {
    let mut references = 0_usize;
    let mut metadata = 0_usize;
    references::each(schema, &mut |reference| {
        references += 1;
        metadata += usize::from(reference.ends_with(".ObjectMeta"));
    });
    if references > metadata { Types::Go } else { Types::Definition }
}

/// What becomes of rules in CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    Kept,
    Dropped,
}

/// What a schema is the schema of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// A whole object of its own.
    Object,
    /// A type that has a name.
    Named,
    Inside,
}

struct Writer<'a> {
    document: &'a Value,
    /// Types whose schema is being written.
    open: Vec<&'a str>,
    /// Schemas that may still be written.
    left: usize,
    depth: usize,
    types: Types,
    rules: Rules,
}

/// Anything.
fn open() -> Map<String, Value> {
    Map::from_iter([(PRESERVE_UNKNOWN_FIELDS.to_owned(), true.into())])
}

impl<'a> Writer<'a> {
    /// The schema as a definition has it, or nothing if it is too large.
    fn structural(&mut self, schema: &'a Value, position: Position) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        self.depth += 1;
        let written = if self.depth > MAX_DEPTH { None } else { self.within_limits(schema, position) };
        self.depth -= 1;
        written
    }

    fn within_limits(&mut self, schema: &'a Value, position: Position) -> Option<Value> {
        let Some(fields) = schema.as_object() else { return Some(open().into()) };
        if let Some(reference) = reference(fields) {
            return self.referred(fields, reference);
        }
        let mut out = Map::new();
        for (key, value) in fields.iter().filter(|(key, _)| KEPT.contains(&key.as_str())) {
            out.insert(key.clone(), value.clone());
        }
        if self.rules == Rules::Dropped {
            out.remove(VALIDATIONS);
        }
        self.junctors(fields, &mut out);
        if is_true(&out, INT_OR_STRING) {
            out.remove("type");
        }
        let is_embedded = is_true(&out, EMBEDDED_RESOURCE);
        if is_embedded {
            // All of them have a kind, so that this is said once more.
            if let Some(Value::Array(required)) = out.get_mut("required") {
                required.retain(|name| !["apiVersion", "kind"].iter().any(|known| name == known));
            }
            out.insert("type".to_owned(), "object".into());
        }
        let is_whole = position == Position::Object || is_embedded;
        if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
            let mut written = Map::new();
            for (name, property) in properties {
                let schema = match name.as_str() {
                    // What it looks like is known, and may not be said.
                    "metadata" if is_whole => json!({"type": "object"}),
                    _ => self.structural(property, Position::Inside)?,
                };
                written.insert(name.clone(), schema);
            }
            out.insert("properties".to_owned(), written.into());
            out.entry("type").or_insert_with(|| "object".into());
        }
        match fields.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {}
            Some(values) if values.is_object() && !out.contains_key("properties") => {
                let values = self.structural(values, Position::Inside)?;
                out.insert("additionalProperties".to_owned(), values);
            }
            Some(_) => out.extend(open()),
        }
        if let Some(items) = fields.get("items") {
            out.insert("items".to_owned(), self.structural(items, Position::Inside)?);
        }
        self.settle(&mut out, position);
        Some(out.into())
    }

    /// A schema that is another one, with what is said beside the reference.
    fn referred(&mut self, fields: &'a Map<String, Value>, reference: &str) -> Option<Value> {
        let Some((0, name)) = references::part(self.document, V3, reference) else {
            return Some(open().into());
        };
        let schemas = self.document.pointer("/components/schemas").and_then(Value::as_object);
        let Some((name, schema)) = schemas.and_then(|schemas| schemas.get_key_value(&name)) else {
            return Some(open().into());
        };
        // A definition is a tree: what contains itself has no end there.
        if self.open.contains(&name.as_str()) {
            return Some(open().into());
        }
        self.open.push(name);
        let mut out = self.structural(schema, Position::Named);
        self.open.pop();
        if let Some(Value::Object(out)) = &mut out {
            if name.ends_with("resource.Quantity") {
                out.insert("pattern".to_owned(), QUANTITY.into());
            }
            for (key, value) in fields.iter().filter(|(key, _)| KEPT.contains(&key.as_str())) {
                out.insert(key.clone(), value.clone());
            }
            self.settle(out, Position::Named);
        }
        out
    }

    /// Alternatives as their author has written them, and those by which types are told that v3 has no word for.
    fn junctors(&self, fields: &Map<String, Value>, out: &mut Map<String, Value>) {
        for key in JUNCTORS {
            let Some(branches) = fields.get(key).and_then(Value::as_array) else { continue };
            if is_int_or_string(branches) {
                out.insert(INT_OR_STRING.to_owned(), true.into());
                continue;
            }
            if !branches.is_empty() && branches.iter().all(|branch| bare_type(branch).is_some()) {
                out.remove("type");
                out.extend(open());
                continue;
            }
            // What a server adds to those of the author.
            let is_added = |branch: &Value| {
                let alternatives = branch.get("anyOf").and_then(Value::as_array);
                is_true(out, INT_OR_STRING) && alternatives.is_some_and(|both| is_int_or_string(both))
            };
            let kept: Vec<Value> =
                branches.iter().filter(|branch| !is_added(branch)).map(without_prose).collect();
            if self.types == Types::Definition && !kept.is_empty() {
                out.insert(key.to_owned(), kept.into());
            }
        }
        if let Some(not) = fields.get("not").filter(|_| self.types == Types::Definition) {
            out.insert("not".to_owned(), without_prose(not));
        }
    }

    /// What a definition must say, or must not.
    fn settle(&self, out: &mut Map<String, Value>, position: Position) {
        let kind = out.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind == "array" {
            out.entry("items").or_insert_with(|| open().into());
        }
        let says_nothing = !["properties", "additionalProperties"].iter().any(|key| out.contains_key(*key));
        let is_open = kind.is_empty() && !is_true(out, INT_OR_STRING);
        // An object of which nothing is known, unless its author says that it has no fields.
        let is_opaque =
            kind == "object" && says_nothing && (position != Position::Inside || self.types == Types::Go);
        if is_open || is_opaque {
            out.extend(open());
        }
        if position == Position::Object {
            out.insert("type".to_owned(), "object".into());
        }
        if self.types == Types::Go {
            if out.get("default").is_some_and(is_zero) {
                out.remove("default");
            }
            if !is_list_of_its_type(out) {
                out.remove(LIST_TYPE);
                out.remove(LIST_MAP_KEYS);
            }
        }
    }
}

/// What a schema refers to, if it is nothing of its own; v3 writes what stands beside a reference by `allOf`.
fn reference(fields: &Map<String, Value>) -> Option<&str> {
    let only = fields.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
    let beside = only.and_then(|all| all.first()?.get("$ref"));
    fields.get("$ref").or(beside).and_then(Value::as_str)
}

/// Whether alternatives are those that stand for a number or a string.
fn is_int_or_string(branches: &[Value]) -> bool {
    let types: Option<Vec<&str>> = branches.iter().map(bare_type).collect();
    matches!(types.as_deref(), Some(["integer", "string"] | ["string", "integer"]))
}

/// The type, of a schema that says nothing else.
fn bare_type(schema: &Value) -> Option<&str> {
    let fields = schema.as_object().filter(|fields| fields.len() == 1)?;
    fields.get("type").and_then(Value::as_str)
}

/// A branch of alternatives: a schema without what is written for people.
fn without_prose(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let kept = fields.iter().filter(|(key, _)| !PROSE.contains(&key.as_str()));
    let kept = kept.map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), without_prose(schema))).collect()
            }
            ("items" | "not" | "additionalProperties", schema) => without_prose(schema),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                branches.iter().map(without_prose).collect()
            }
            (_, value) => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(kept.collect())
}

fn is_true(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool) == Some(true)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether a definition may call a list what it calls itself: the keys of a map are required or have defaults, and sets
/// are of scalars.
fn is_list_of_its_type(list: &Map<String, Value>) -> bool {
    let items = list.get("items");
    let item = |pointer: &str| items.and_then(|items| items.pointer(pointer));
    match list.get(LIST_TYPE).and_then(Value::as_str) {
        Some("map") => {
            let keys = list.get(LIST_MAP_KEYS).and_then(Value::as_array).map(Vec::as_slice);
            let required = item("/required").and_then(Value::as_array).map(Vec::as_slice);
            let is_key = |key: &Value| {
                let name = key.as_str().unwrap_or_default();
                let property = item("/properties").and_then(|properties| properties.get(name));
                let is_required = required.unwrap_or_default().contains(key);
                property.is_some_and(|property| is_required || property.get("default").is_some())
            };
            keys.is_some_and(|keys| !keys.is_empty() && keys.iter().all(is_key))
        }
        Some("set") => {
            item("/type").and_then(Value::as_str).is_some_and(|kind| kind != "object" && kind != "array")
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definitions of a v3 document with these schemas and paths.
    fn made(schemas: &Value, paths: &Value) -> Vec<Value> {
        let document = json!({"openapi": "3.0.0", "components": {"schemas": schemas}, "paths": paths});
        let mut definitions = Definitions::default();
        definitions.add(&"a.json".into(), &document, |_| true).unwrap();
        definitions.made().into_iter().map(|made| made.definition).collect()
    }

    /// The schema of `spec` in the definition of a kind that has this one.
    fn spec(spec: &Value, others: &Value) -> Value {
        let mut schemas = others.clone();
        schemas["T"] = json!({
            "type": "object",
            "properties": {"metadata": {"$ref": "#/components/schemas/x.ObjectMeta"}, "spec": spec},
            GROUP_VERSION_KIND: [{"group": "g.example.com", "version": "v1", "kind": "T"}],
        });
        let made = made(&schemas, &json!({}));
        made[0].pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap().clone()
    }

    #[test]
    fn schemas_are_written_as_definitions_have_them() {
        let named = json!({
            "Empty": {"type": "object"},
            "Int": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
            "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "Loop": {"type": "object", "properties": {"loop": {"$ref": "#/components/schemas/Loop"}}},
            "Time": {"type": "string", "format": "date-time"},
        });
        let refer = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let anything = json!({PRESERVE_UNKNOWN_FIELDS: true});
        for (schema, expected) in [
            // As an author of a definition wrote it, without prose.
            (
                json!({"type": "object", "description": "d", "properties": {"a": {"type": "string", "default": ""}}}),
                json!({"type": "object", "properties": {"a": {"type": "string", "default": ""}}}),
            ),
            (json!({"type": "object"}), json!({"type": "object"})),
            (json!({}), anything.clone()),
            (
                json!({"type": "object", "oneOf": [{"required": ["a"], "description": "d"}]}),
                json!({"type": "object", "oneOf": [{"required": ["a"]}]}),
            ),
            (
                json!({INT_OR_STRING: true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({INT_OR_STRING: true}),
            ),
            (
                json!({INT_OR_STRING: true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}]}),
                json!({INT_OR_STRING: true, "allOf": [{"minimum": 1}]}),
            ),
            (
                json!({EMBEDDED_RESOURCE: true, PRESERVE_UNKNOWN_FIELDS: true, "required": ["kind", "spec"]}),
                json!({EMBEDDED_RESOURCE: true, PRESERVE_UNKNOWN_FIELDS: true, "required": ["spec"], "type": "object"}),
            ),
            (
                json!({"type": "object", "additionalProperties": true}),
                json!({"type": "object", PRESERVE_UNKNOWN_FIELDS: true}),
            ),
            // Types of a Go program.
            (refer("Empty"), json!({"type": "object", PRESERVE_UNKNOWN_FIELDS: true})),
            (refer("Int"), json!({INT_OR_STRING: true, "format": "int-or-string"})),
            (
                json!({"type": "array", "items": refer("Time")}),
                json!({"type": "array", "items": {"type": "string", "format": "date-time"}}),
            ),
            (
                json!({"allOf": [refer("Time")], "default": "", "nullable": true}),
                json!({"type": "string", "format": "date-time", "nullable": true}),
            ),
            (
                refer("io.k8s.apimachinery.pkg.api.resource.Quantity"),
                json!({PRESERVE_UNKNOWN_FIELDS: true, "pattern": QUANTITY}),
            ),
            (refer("Loop"), json!({"type": "object", "properties": {"loop": anything}})),
            (refer("Nothing"), anything.clone()),
        ] {
            assert_eq!(spec(&schema, &named), expected, "{schema}");
        }
    }

    #[test]
    fn lists_are_maps_only_if_a_definition_may_say_so() {
        let list = |item: Value| {
            let others = json!({"Item": item});
            let list = json!({
                "type": "array", LIST_TYPE: "map", LIST_MAP_KEYS: ["k"], "items": {"$ref": "#/components/schemas/Item"},
            });
            spec(&list, &others).get(LIST_TYPE).is_some()
        };
        let item = |required: Value, key: Value| json!({"type": "object", "required": required, "properties": {"k": key}});
        assert!(list(item(json!(["k"]), json!({"type": "string"}))));
        assert!(list(item(json!([]), json!({"type": "string", "default": "x"}))));
        assert!(!list(item(json!([]), json!({"type": "string"}))));
    }

    #[test]
    fn paths_tell_names_scope_and_status() {
        let kind = |kind: &str| {
            json!({
                "type": "object", "properties": {"metadata": {}},
                GROUP_VERSION_KIND: [{"group": "g.example.com", "version": "v1", "kind": kind}],
            })
        };
        let schemas = json!({"Mouse": kind("Mouse"), "Fly": kind("Fly"), "Ox": kind("Ox"), "List": {
            "type": "object", "properties": {"metadata": {}, "items": {}},
            GROUP_VERSION_KIND: [{"group": "g.example.com", "version": "v1", "kind": "OxList"}],
        }, "Options": {
            "type": "object", "properties": {"preconditions": {}},
            GROUP_VERSION_KIND: [{"group": "g.example.com", "version": "v1", "kind": "DeleteOptions"}],
        }, "Undotted": {
            "type": "object", "properties": {"metadata": {}},
            GROUP_VERSION_KIND: [{"group": "apps", "version": "v9", "kind": "Undotted"}],
        }});
        let about = |kind: &str| json!({"get": {GROUP_VERSION_KIND: {"group": "g.example.com", "version": "v1", "kind": kind}}});
        let paths = json!({
            "/apis/g.example.com/v1/mice": about("Mouse"),
            "/apis/g.example.com/v1/namespaces/{namespace}/mice": about("Mouse"),
            "/apis/g.example.com/v1/namespaces/{namespace}/mice/{name}": about("Mouse"),
            "/apis/g.example.com/v1/namespaces/{namespace}/mice/{name}/status": about("Mouse"),
            "/apis/g.example.com/v1/oxen/{name}": about("Ox"),
            "/apis/g.example.com/v1/watch/oxen": about("Ox"),
        });
        let found: Vec<String> = made(&schemas, &paths)
            .iter()
            .map(|made| {
                let subresources = &made["spec"]["versions"][0]["subresources"];
                format!("{} {} {subresources}", made["metadata"]["name"], made["spec"]["scope"])
            })
            .collect();
        assert_eq!(
            found,
            [
                // Of which the paths say nothing.
                r#""flies.g.example.com" "Namespaced" {"status":{}}"#,
                r#""mice.g.example.com" "Namespaced" {"status":{}}"#,
                r#""oxen.g.example.com" "Cluster" {}"#,
            ]
        );
    }

    #[test]
    fn versions_of_all_documents_are_one_definition() {
        let document = |version: &str| {
            json!({"openapi": "3.0.0", "components": {"schemas": {"T": {
                "type": "object", "properties": {"metadata": {}},
                GROUP_VERSION_KIND: [{"group": "g.example.com", "version": version, "kind": "T"}],
            }}}})
        };
        let mut definitions = Definitions::default();
        definitions.add(&"a.json".into(), &document("v1"), |_| true).unwrap();
        definitions.add(&"b.json".into(), &document("v2"), |_| true).unwrap();
        definitions.add(&"c.json".into(), &document("v3"), |group| group != "g.example.com").unwrap();
        let made = definitions.made();
        assert_eq!(made.iter().map(|made| &*made.source).collect::<Vec<_>>(), ["a.json"]);
        let versions = made[0].definition["spec"]["versions"].as_array().unwrap();
        let versions: Vec<_> =
            versions.iter().map(|version| (&version["name"], &version["storage"])).collect();
        assert_eq!(versions, [(&json!("v1"), &json!(true)), (&json!("v2"), &json!(false))]);
    }

    #[test]
    fn what_grows_without_end_is_refused() {
        // Each is two of the next.
        let mut schemas = Map::new();
        for number in 0..40 {
            let next = json!({"$ref": format!("#/components/schemas/N{}", number + 1)});
            schemas.insert(
                format!("N{number}"),
                json!({"type": "object", "properties": {"a": next, "b": next, "metadata": {}}}),
            );
        }
        schemas["N0"][GROUP_VERSION_KIND] = json!([{"group": "g.example.com", "version": "v1", "kind": "T"}]);
        let document = json!({"openapi": "3.0.0", "components": {"schemas": schemas}});
        let added = Definitions::default().add(&"a".into(), &document, |_| true);
        assert_eq!(added, Err(DefinitionsError::TooLarge { kind: "T".to_owned() }));
        let other = Definitions::default().add(&"a".into(), &json!({"openapi": "3.1.0"}), |_| true);
        assert_eq!(other.unwrap_err().to_string(), "the document does not say `openapi: 3.0.x`");
    }
}
