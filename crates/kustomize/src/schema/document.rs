//! Many schemas as one OpenAPI v2 document that kustomize takes for its
//! `openapi.path`: OpenAPI v2 and v3 documents, CustomResourceDefinitions and
//! what is built in.
//!
//! kustomize merges a list only where `x-kubernetes-patch-strategy` says so, so
//! list types and pods in custom resources are spelled out that way. Of `paths`
//! only what tells the scope of a kind is kept. Of two definitions with one
//! name, and of two that describe one kind, the later counts; files count
//! before what is built in.
//!
//! Its own, and not what `sternpost_openapi` makes of definitions: the v2 document of a server
//! leaves out lists of several keys and properties beside unknown ones, by which patches merge here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sternpost_meta::{gvk::GroupVersion, resource::guess_plural};
use sternpost_schema::extension::{
    GROUP_VERSION_KIND, LIST_MAP_KEYS, LIST_TYPE, PATCH_MERGE_KEY, PATCH_STRATEGY,
};
use sternpost_schema::topology::Relation;

use super::NOT_BUILT_IN;
use super::openapi::kinds;
use super::place::{self, Path, Step};
use super::shape::{self, Misshape};
use super::table::{self, Field, Release, Table, definition_name};
use crate::documents;
use crate::error::{Error, Result};

const DEFINITIONS: &str = "#/definitions/";
const COMPONENTS: &str = "#/components/schemas/";
const OBJECT_META: &str = "meta.v1.ObjectMeta";
const POD_SPEC: &str = "core.v1.PodSpec";
const UNVERSIONED: &str = "unversioned";

/// A file that holds schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What messages call it.
    pub name: String,
    pub text: String,
}

/// What becomes of a definition or kind that two files describe differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// The later counts, and a warning says so.
    LastWins,
    Refused,
}

/// A document and what is worth knowing about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub document: Value,
    pub warnings: Vec<String>,
}

/// Merges files in their order, on top of what is built in for a version of
/// Kubernetes if there is one.
pub fn merge(sources: &[Source], builtin: Option<&str>, conflicts: Conflicts) -> Result<Merged> {
    let mut collected = collect(sources, conflicts)?;
    let mut version = UNVERSIONED.to_owned();
    if let Some(wanted) = builtin {
        let Some(release) = Release::parse(wanted) else {
            return Err(Error::new(format!("{NOT_BUILT_IN}: `{wanted}`; {} are", Release::known())));
        };
        version = format!("v{release}");
        collected.add_builtin(&Table::of(release));
    }
    collected.warn_of_missing(builtin.is_some());
    Ok(Merged { document: collected.document_of(&version), warnings: collected.warnings })
}

/// Definitions by name, with where they come from.
#[derive(Default)]
pub(super) struct Collected<'s> {
    definitions: BTreeMap<String, Definition<'s>>,
    /// Which definition describes a kind.
    kinds: BTreeMap<(String, String), String>,
    paths: Map<String, Value>,
    warnings: Vec<String>,
}

struct Definition<'s> {
    schema: Value,
    origin: Option<Origin<'s>>,
}

#[derive(Clone)]
struct Origin<'s> {
    source: &'s Source,
    /// Which document of the file.
    document: usize,
    path: Path,
}

impl Origin<'_> {
    fn place(&self, rest: &[Step]) -> String {
        let path: Path = self.path.iter().chain(rest).cloned().collect();
        place::find(&self.source.name, &self.source.text, self.document, &path)
    }

    fn problem(&self, misshape: &Misshape) -> Error {
        let place = place::find(&self.source.name, &self.source.text, self.document, &misshape.path);
        place::problem(&misshape.path, &misshape.problem, &place)
    }

    fn at(&self, steps: &[&str]) -> Self {
        let mut inner = self.clone();
        inner.path.extend(steps.iter().map(|step| Step::Key((*step).to_owned())));
        inner
    }

    fn at_index(&self, at: usize) -> Self {
        let mut inner = self.clone();
        inner.path.push(Step::Index(at));
        inner
    }
}

/// The schemas of files, without what is built in.
pub(super) fn collect(sources: &[Source], conflicts: Conflicts) -> Result<Collected<'_>> {
    let mut collected = Collected::default();
    for source in sources {
        for (document, value) in values(source)?.iter().enumerate() {
            let origin = Origin { source, document, path: Path::new() };
            collected.add(value, &origin, conflicts)?;
        }
    }
    collected.add_object_meta();
    Ok(collected)
}

/// The schemas of a definition that is no file.
pub(super) fn of_definition(definition: &Value) -> Result<Collected<'static>, Misshape> {
    let mut collected = Collected::default();
    for (name, schema, path, _) in custom(definition, &Path::new())? {
        collected.paths.extend(path);
        collected.put(name, schema, None);
    }
    collected.add_object_meta();
    Ok(collected)
}

/// The documents of a file.
fn values(source: &Source) -> Result<Vec<Value>> {
    // Large documents are JSON, and JSON is read a lot faster than YAML.
    if source.text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(&source.text)
    {
        return Ok(vec![value]);
    }
    let problem = |problem: &str, place: &str| {
        let place = format!("{}:{place}", source.name);
        place::problem(&[], problem, &place)
    };
    let nodes = documents::nodes(&source.text).map_err(|error| {
        let (place, reason) = match error.hint().and_then(|hint| hint.split_once(": ")) {
            Some((place, reason)) => (place.to_owned(), reason.to_owned()),
            None => ("1:1".to_owned(), error.to_string()),
        };
        problem(&reason, &place)
    })?;
    if nodes.is_empty() {
        return Err(problem("the file is empty", "1:1"));
    }
    let value = |(at, node): (usize, &sternpost_yaml::node::Node)| {
        node.to_json().map_err(|error| {
            let place = place::find(&source.name, &source.text, at, &[]);
            place::problem(&[], &error.to_string(), &place)
        })
    };
    nodes.iter().enumerate().map(value).collect()
}

impl<'s> Collected<'s> {
    fn add(&mut self, value: &Value, origin: &Origin<'s>, conflicts: Conflicts) -> Result<()> {
        let has = |name: &str| value.get(name).is_some();
        if let Some(items) = value.get("items").and_then(Value::as_array) {
            for (at, item) in items.iter().enumerate() {
                self.add(item, &origin.at(&["items"]).at_index(at), conflicts)?;
            }
            return Ok(());
        }
        if has("spec") && !has("definitions") && !has("components") {
            for (name, schema, path, steps) in
                custom(value, &origin.path).map_err(|misshape| origin.problem(&misshape))?
            {
                self.paths.extend(path);
                let origin = Origin { path: steps, ..origin.clone() };
                self.insert(name, schema, origin, conflicts)?;
            }
            return Ok(());
        }
        let (section, checked): (&[&str], _) = match (has("definitions"), has("components")) {
            (true, _) => (&["definitions"], shape::check_v2(value)),
            (false, true) => (&["components", "schemas"], shape::check_v3(value)),
            (false, false) if has("swagger") || has("openapi") => (&[], shape::check_v2(value)),
            (false, false) => {
                let problem = "neither OpenAPI nor a CustomResourceDefinition".to_owned();
                return Err(origin.problem(&Misshape { path: origin.path.clone(), problem }));
            }
        };
        checked.map_err(|mut misshape| {
            misshape.path.splice(0..0, origin.path.iter().cloned());
            origin.problem(&misshape)
        })?;
        let held = section.iter().try_fold(value, |value, step| value.get(step)).and_then(Value::as_object);
        for (name, schema) in held.filter(|_| !section.is_empty()).into_iter().flatten() {
            let origin = origin.at(section).at(&[name]);
            let mut schema = schema.clone();
            lower(&mut schema);
            // What can be written in v3 alone could stop a reader of v2.
            shape::check_schema(&schema, origin.path.clone()).map_err(|found| origin.problem(&found))?;
            self.insert(name.clone(), schema, origin, conflicts)?;
        }
        for (path, item) in value.get("paths").and_then(Value::as_object).into_iter().flatten() {
            if let Some(gvk) =
                item.get("get").and_then(|get| get.get(GROUP_VERSION_KIND)).filter(|gvk| gvk.is_object())
            {
                self.paths.insert(path.clone(), scope_path(gvk));
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        name: String,
        schema: Value,
        origin: Origin<'s>,
        conflicts: Conflicts,
    ) -> Result<()> {
        let known = self.definitions.get(&name);
        if known.is_some_and(|known| known.schema == schema) {
            return Ok(());
        }
        let mut replaced: Vec<String> = Vec::new();
        let place = |origin: &Option<Origin<'_>>| origin.as_ref().map(|origin| origin.place(&[]));
        if let Some(place) = known.and_then(|known| place(&known.origin)) {
            replaced.push(format!("definition `{name}` is also at {place}"));
        }
        for (api_version, kind) in definition_kinds(&schema) {
            let holder =
                self.kinds.get(&(api_version.clone(), kind.clone())).filter(|holder| **holder != name);
            let holder = holder.and_then(|holder| Some((holder, self.definitions.get(holder)?)));
            if let Some((holder, place)) = holder.and_then(|(name, held)| Some((name, place(&held.origin)?)))
            {
                replaced.push(format!("{api_version} {kind} is also described by `{holder}` at {place}"));
            }
        }
        if let Some(conflict) = replaced.first() {
            if conflicts == Conflicts::Refused {
                return Err(Error::new(format!("{}: {conflict}", origin.place(&[]))));
            }
            let place = origin.place(&[]);
            self.warnings.extend(replaced.iter().map(|what| format!("{place}: {what}; this one counts")));
        }
        self.put(name, schema, Some(origin));
        Ok(())
    }

    /// Takes over the name and the kinds.
    fn put(&mut self, name: String, schema: Value, origin: Option<Origin<'s>>) {
        for kind in definition_kinds(&schema) {
            let holder = self.kinds.insert(kind.clone(), name.clone()).filter(|holder| *holder != name);
            let holder = holder.and_then(|holder| self.definitions.get_mut(&holder));
            // Which of two kustomize goes by is left to chance.
            let listed =
                holder.and_then(|held| held.schema.get_mut(GROUP_VERSION_KIND)).and_then(Value::as_array_mut);
            if let Some(listed) = listed {
                listed.retain(|gvk| !kinds(std::slice::from_ref(gvk)).contains(&kind));
            }
        }
        self.definitions.insert(name, Definition { schema, origin });
    }

    /// What is built in, where files say nothing.
    fn add_builtin(&mut self, table: &Table) {
        for name in table.types.keys() {
            self.add_builtin_type(table, name);
        }
        for kind in &table.kinds {
            let (group, version) = GroupVersion::split(kind.api_version);
            let gvk = json!({ "group": group, "version": version, "kind": kind.kind });
            let key = (kind.api_version.to_owned(), kind.kind.to_owned());
            if self.kinds.contains_key(&key) {
                continue;
            }
            // Kinds that are not known are namespaced anyway.
            if kind.cluster_scoped {
                let path = resource_path(group, version, &guess_plural(kind.kind), true);
                self.paths.entry(path).or_insert_with(|| scope_path(&gvk));
            }
            let root = kind.root.map(definition_name);
            let held =
                root.and_then(|root| self.definitions.get_mut(&root)).filter(|held| held.origin.is_none());
            if let Some(fields) = held.and_then(|held| held.schema.as_object_mut()) {
                let listed = fields.entry(GROUP_VERSION_KIND).or_insert_with(|| json!([]));
                listed.as_array_mut().into_iter().for_each(|listed| listed.push(gvk.clone()));
            }
        }
    }

    fn add_builtin_type(&mut self, table: &Table, name: &str) {
        let Some(fields) = table.types.get(name) else { return };
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.to_owned(), builtin_field(field))).collect();
        let schema = json!({ "type": "object", "properties": properties });
        let definition = Definition { schema, origin: None };
        self.definitions.entry(definition_name(name)).or_insert(definition);
    }

    /// Custom resources refer to it, and their files need not have it.
    fn add_object_meta(&mut self) {
        let name = definition_name(OBJECT_META);
        let reference = format!("{DEFINITIONS}{name}");
        let refers = |held: &Definition<'_>| {
            held.schema.pointer("/properties/metadata/$ref").and_then(Value::as_str) == Some(&reference)
        };
        if self.definitions.values().any(refers) {
            self.add_builtin_type(&Table::of(table::DEFAULT), OBJECT_META);
        }
    }

    /// A reference to nothing is no error, but seldom what was meant.
    fn warn_of_missing(&mut self, builtin: bool) {
        let mut missing = BTreeMap::new();
        for held in self.definitions.values() {
            let Some(origin) = &held.origin else { continue };
            let mut names = BTreeSet::new();
            references(&held.schema, &mut names);
            for name in names.into_iter().filter(|name| !self.definitions.contains_key(*name)) {
                // Built-in types without a list that merges are left out.
                if !(builtin && name.starts_with("io.k8s.")) {
                    missing.entry(name.to_owned()).or_insert_with(|| origin.clone());
                }
            }
        }
        for (name, origin) in missing {
            let hint = if name.starts_with("io.k8s.") { "; --builtin adds those of Kubernetes" } else { "" };
            let place = origin.place(&[]);
            self.warnings.push(format!("{place}: `{name}` is referred to and nowhere defined{hint}"));
        }
    }

    /// Where something of the document stands in the files.
    pub(super) fn place(&self, path: &[Step]) -> String {
        let found = match path {
            [_, Step::Key(name), rest @ ..] => self
                .definitions
                .get(name)
                .and_then(|held| held.origin.as_ref())
                .map(|origin| origin.place(rest)),
            _ => None,
        };
        found.unwrap_or_else(|| "built-in schema".to_owned())
    }

    pub(super) fn document(&self) -> Value {
        self.document_of(UNVERSIONED)
    }

    fn document_of(&self, version: &str) -> Value {
        let definitions: Map<String, Value> =
            self.definitions.iter().map(|(name, held)| (name.clone(), held.schema.clone())).collect();
        json!({
            "swagger": "2.0",
            "info": { "title": "Kubernetes", "version": version },
            "paths": self.paths,
            "definitions": definitions,
        })
    }
}

fn definition_kinds(schema: &Value) -> Vec<(String, String)> {
    kinds(schema.get(GROUP_VERSION_KIND).and_then(Value::as_array).map_or(&[], Vec::as_slice))
}

/// What a version of a custom resource is called, its schema, the path that
/// tells its scope, and where the schema stands.
type Custom = (String, Value, Map<String, Value>, Path);

fn custom(definition: &Value, path: &Path) -> Result<Vec<Custom>, Misshape> {
    let at = |steps: &[&str]| {
        let mut path = path.clone();
        path.extend(steps.iter().map(|step| Step::Key((*step).to_owned())));
        path
    };
    let text = |steps: &[&str]| {
        let found = steps.iter().try_fold(definition, |value, step| value.get(step));
        match found {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            Some(other) if !other.is_string() => Err(Misshape {
                path: at(steps),
                problem: format!("expected a text, found {}", shape::found(other)),
            }),
            _ => Err(Misshape { path: path.clone(), problem: format!("`{}` is missing", steps.join(".")) }),
        }
    };
    let (group, kind) = (text(&["spec", "group"])?, text(&["spec", "names", "kind"])?);
    let plural = text(&["spec", "names", "plural"]).map_or_else(|_| guess_plural(kind), str::to_owned);
    let cluster_scoped = text(&["spec", "scope"]) == Ok("Cluster");
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let own = json!([{ "name": spec.get("version") }]);
    let versions = match spec.get("versions") {
        None | Some(Value::Null) => &own,
        Some(versions) => versions,
    };
    let Some(listed) = versions.as_array() else {
        let problem = format!("expected a list, found {}", shape::found(versions));
        return Err(Misshape { path: at(&["spec", "versions"]), problem });
    };
    let mut customs = Vec::new();
    for (index, version) in listed.iter().enumerate() {
        let mut own_path = at(&["spec", "versions"]);
        own_path.push(Step::Index(index));
        let Some(version_name) = version.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
        else {
            return Err(Misshape { path: own_path, problem: "`name` is missing".to_owned() });
        };
        let (schema, schema_path) = match version.pointer("/schema/openAPIV3Schema") {
            Some(schema) => {
                own_path.extend(["schema", "openAPIV3Schema"].map(|step| Step::Key(step.to_owned())));
                (Some(schema), own_path)
            }
            None => {
                let old = ["spec", "validation", "openAPIV3Schema"];
                (spec.pointer("/validation/openAPIV3Schema"), at(&old))
            }
        };
        let mut schema = schema.filter(|schema| !schema.is_null()).cloned().unwrap_or_else(|| json!({}));
        shape::check_schema(&schema, schema_path.clone())?;
        lower(&mut schema);
        let gvk = json!({ "group": group, "version": version_name, "kind": kind });
        let reference = format!("{DEFINITIONS}{}", definition_name(OBJECT_META));
        if let Some(fields) = schema.as_object_mut() {
            let properties = fields.entry("properties").or_insert_with(|| json!({}));
            if properties.is_null() {
                *properties = json!({});
            }
            if let Some(properties) = properties.as_object_mut() {
                properties.entry("apiVersion").or_insert_with(|| json!({ "type": "string" }));
                properties.entry("kind").or_insert_with(|| json!({ "type": "string" }));
                properties.insert("metadata".to_owned(), json!({ "$ref": reference }));
            }
            fields.entry("type").or_insert_with(|| "object".into());
            fields.insert(GROUP_VERSION_KIND.to_owned(), json!([gvk]));
        }
        let mut path = Map::new();
        path.insert(resource_path(group, version_name, &plural, cluster_scoped), scope_path(&gvk));
        let reversed: Vec<&str> = group.rsplit('.').collect();
        customs.push((format!("{}.{version_name}.{kind}", reversed.join(".")), schema, path, schema_path));
    }
    Ok(customs)
}

fn resource_path(group: &str, version: &str, plural: &str, cluster_scoped: bool) -> String {
    let root = GroupVersion::new(group, version).path();
    let namespaces = if cluster_scoped { "" } else { "/namespaces/{namespace}" };
    format!("/{root}{namespaces}/{plural}")
}

fn scope_path(gvk: &Value) -> Value {
    json!({ "get": { "responses": { "200": { "description": "OK" } }, GROUP_VERSION_KIND: gvk } })
}

fn builtin_field(field: &Field) -> Value {
    let reference =
        field.inner.map(|inner| json!({ "$ref": format!("{DEFINITIONS}{}", definition_name(inner)) }));
    let of = match &field.list {
        Relation::Atomic => return reference.unwrap_or_else(|| json!({ "type": "object" })),
        Relation::Set => "string",
        Relation::Map(_) => "object",
    };
    let mut property =
        json!({ "type": "array", "items": reference.unwrap_or_else(|| json!({ "type": of })) });
    if let Some(fields) = property.as_object_mut() {
        set_strategy(fields, &field.list);
    }
    property
}

fn set_strategy(fields: &mut Map<String, Value>, list: &Relation) {
    fields.insert(PATCH_STRATEGY.to_owned(), "merge".into());
    let Relation::Map(keys) = list else { return };
    if let Some(first) = keys.first() {
        fields.insert(PATCH_MERGE_KEY.to_owned(), (**first).into());
    }
    if keys.len() > 1 {
        fields.insert(LIST_MAP_KEYS.to_owned(), keys.iter().map(|key| &**key).collect());
    }
}

/// Says in the words of v2 what a schema says, as far as merging goes. Schemas
/// nest no deeper than the documents they were read from.
fn lower(schema: &mut Value) {
    if is_pod_spec(schema) {
        mark_lists(schema, &Table::of(Release::LATEST), POD_SPEC);
    }
    let Some(fields) = schema.as_object_mut() else { return };
    // How v3 writes a reference with something beside it.
    while !fields.contains_key("properties") && !fields.contains_key("$ref") {
        let Some([Value::Object(one)]) = fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
        else {
            break;
        };
        let one = one.clone();
        fields.remove("allOf");
        for (name, value) in one {
            fields.entry(name).or_insert(value);
        }
    }
    if let Some(Value::String(reference)) = fields.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(COMPONENTS)
    {
        *reference = format!("{DEFINITIONS}{name}");
    }
    if fields.get("discriminator").is_some_and(Value::is_object) {
        fields.remove("discriminator");
    }
    if !fields.contains_key(PATCH_STRATEGY)
        && let Some(list) = list_of_type(fields)
    {
        set_strategy(fields, &list);
    }
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(held)) => held.values_mut().for_each(lower),
            ("items" | "additionalProperties" | "not", held @ Value::Object(_)) => lower(held),
            ("items" | "allOf" | "anyOf" | "oneOf", Value::Array(held)) => held.iter_mut().for_each(lower),
            _ => {}
        }
    }
}

/// What a list type that kustomize ignores comes to.
fn list_of_type(fields: &Map<String, Value>) -> Option<Relation> {
    match fields.get(LIST_TYPE)?.as_str()? {
        "map" => {
            let keys: Vec<Arc<str>> = fields
                .get(LIST_MAP_KEYS)?
                .as_array()?
                .iter()
                .filter_map(|key| key.as_str().filter(|key| !key.is_empty()).map(Arc::from))
                .collect();
            (!keys.is_empty()).then_some(Relation::Map(keys))
        }
        // Only values can be told apart as a whole.
        "set" => {
            let of = fields.get("items")?.get("type")?.as_str()?;
            ["string", "integer", "number", "boolean"].contains(&of).then_some(Relation::Set)
        }
        _ => None,
    }
}

/// Definitions written by hand or by older tools do not say by what lists of
/// containers are merged; that they are those of a pod shows all the same.
fn is_pod_spec(schema: &Value) -> bool {
    let item = schema.pointer("/properties/containers/items/properties");
    item.is_some_and(|item| item.get("name").is_some() && item.get("image").is_some())
}

/// Marks lists as those of a built-in type are, where nothing is said of them.
fn mark_lists(schema: &mut Value, table: &Table, of: &str) {
    for field in table.types.get(of).into_iter().flatten() {
        let property = schema.get_mut("properties").and_then(|properties| properties.get_mut(field.name));
        let Some(property) = property else { continue };
        let merges = field.list != Relation::Atomic;
        if let Some(fields) = property.as_object_mut().filter(|_| merges) {
            let has = |name: &str| fields.contains_key(name);
            let silent = has("items") && !has(PATCH_STRATEGY) && !has(LIST_TYPE);
            if silent && has_keys(fields, &field.list) {
                set_strategy(fields, &field.list);
            }
        }
        let Some(inner) = field.inner else { continue };
        let held = if merges { property.get_mut("items") } else { Some(property) };
        held.into_iter().for_each(|held| mark_lists(held, table, inner));
    }
}

/// Elements that cannot have the keys are not those of the built-in type.
fn has_keys(fields: &Map<String, Value>, list: &Relation) -> bool {
    let Relation::Map(keys) = list else { return true };
    let known = fields.get("items").and_then(|items| items.get("properties"));
    known.is_none_or(|known| keys.iter().all(|key| known.get(&**key).is_some()))
}

fn references<'v>(schema: &'v Value, found: &mut BTreeSet<&'v str>) {
    match schema {
        Value::Object(fields) => {
            let name =
                fields.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(DEFINITIONS));
            found.extend(name.filter(|name| !name.contains(['/', '%', '~'])));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}
