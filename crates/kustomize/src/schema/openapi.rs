//! `openapi`: a Swagger 2.0 document that takes the place of the built-in
//! schema, as with kustomize, or documents of any kind that are merged with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Map, Value};
use sternpost_golang::url::{self, Url};
use sternpost_meta::gvk::GroupVersion;
use sternpost_patch::json_patch::unescape;
use sternpost_schema::extension::{GROUP_VERSION_KIND, LIST_MAP_KEYS, PATCH_MERGE_KEY, PATCH_STRATEGY};
use sternpost_schema::topology::{PatchStrategy, Relation};

use super::document::{self, Source};
use super::place::{self, Path, Step};
use super::table::Release;
use super::{Broken, FieldSchema, ListOrder, NOT_BUILT_IN, Schema, TypeId, json, shape};
use crate::error::{Error, Result};
use crate::kustomization::TextMap;
use crate::loader::Loader;

/// What kustomize calls the only version that it has built in.
const BUILTIN_VERSION: &str = "v1.21.2";

const NAMESPACED: &str = "namespaces/{namespace}";

/// The fields of `openapi` that kustomize does not have, and so ignores:
/// files that are merged with the built-in schema, separated by commas, whether
/// `path` is, too, and where the elements of merged lists stand.
const SCHEMAS: &str = "schemas";
const MERGE: &str = "merge";
const ORDER: &str = "order";

/// How many references may lead to each other before one that is none.
const MAX_REFERENCES: usize = 100;

/// What a build goes by before a kustomization says something of schemas.
pub(crate) struct Basis<'a> {
    pub(crate) builtin: &'a Arc<Schema>,
    /// Whether schemas are merged without being asked to.
    pub(crate) auto: bool,
    /// Whether something has been looked up in the built-in schema already,
    /// which upstream then keeps beside the other.
    pub(crate) used: bool,
}

/// What the field says of the order of lists, or `None` if it does not.
pub(crate) fn order(openapi: &TextMap) -> Result<Option<ListOrder>> {
    match openapi.get(ORDER).map(String::as_str) {
        None | Some("") => Ok(None),
        Some("keep") => Ok(Some(ListOrder::Keep)),
        Some("patch") => Ok(Some(ListOrder::Patch)),
        Some(other) => {
            Err(Error::new(format!("the field 'openapi.order' must be one of [keep, patch], not '{other}'")))
        }
    }
}

/// What the field asks for, or `None` if it does not.
pub(crate) fn read(loader: &Loader<'_>, openapi: &TextMap, basis: &Basis<'_>) -> Result<Option<Schema>> {
    let set = |name: &str| openapi.get(name).map(String::as_str).filter(|value| !value.is_empty());
    if basis.auto || set(MERGE) == Some("true") || set(SCHEMAS).is_some() {
        let more = set(SCHEMAS).unwrap_or_default().split([',', '\n']).map(str::trim);
        let files = set("path").into_iter().chain(more).filter(|path| !path.is_empty());
        let source = |path: &str| loader.load_text(path).map(|text| Source { name: path.to_owned(), text });
        let sources = files.map(source).collect::<Result<Vec<Source>>>()?;
        if sources.is_empty() && set("version").is_none() {
            return Ok(None);
        }
        let builtin = set("version").map_or_else(|| Ok(Arc::clone(basis.builtin)), super::builtin_of)?;
        let mut schema = (*builtin).clone();
        if basis.auto {
            schema = schema.with_fallback();
        }
        add(&mut schema, &sources)?;
        return Ok(Some(schema));
    }
    match (set("version"), openapi.get("path")) {
        (Some(_), Some(_)) => Err(Error::new("builtin version and custom schema provided, cannot use both")),
        (Some(version), None) if version == BUILTIN_VERSION => Ok(Some((*super::builtin()).clone())),
        (Some(_), None) => {
            let known = Release::known();
            let hint = format!("{known} are, with `merge: \"true\"` beside it or as `--schema-version`");
            Err(Error::new(NOT_BUILT_IN).with_hint(hint))
        }
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = loader.load_text(path)?;
            let schema = if basis.used { (**basis.builtin).clone() } else { Schema::default() };
            let read = replacement(schema, path, &text);
            Ok(Some(read.unwrap_or_else(|error| Schema::unreadable(&error))))
        }
    }
}

/// Merges OpenAPI v2 and v3 documents and CustomResourceDefinitions into a
/// schema; what they say of a kind takes the place of what was known of it.
pub(crate) fn add(schema: &mut Schema, sources: &[Source]) -> Result<()> {
    let merged = document::collect(sources, document::Conflicts::LastWins)?;
    let places = |path: &[Step]| merged.place(path);
    add_document(schema, &merged.document(), &places);
    Ok(())
}

/// A CustomResourceDefinition among the objects as a schema, every version of
/// it. One that says nothing usable is not for the build to judge.
pub(crate) fn add_definition(schema: &mut Schema, definition: &Value) {
    if let Ok(merged) = document::of_definition(definition) {
        add_document(schema, &merged.document(), &|path| place::shown(path));
    }
}

/// The document of `openapi.path` as kustomize reads it.
fn replacement(mut schema: Schema, name: &str, text: &str) -> Result<Schema> {
    let value = json::read(text).map_or_else(|| read_yaml(name, text), Ok)?;
    let places = |path: &[Step]| place::find(name, text, 0, path);
    shape::check_v2(&value)
        .map_err(|misshape| place::problem(&misshape.path, &misshape.problem, &places(&misshape.path)))?;
    add_document(&mut schema, &value, &places);
    Ok(schema)
}

/// Any document, or what is wrong with it and where.
fn read_yaml(name: &str, text: &str) -> Result<Value> {
    let document = sternpost_yaml::read(text).map_err(|error| {
        let place = format!("{name}:{}:{}", error.line, error.column);
        place::problem(&[], &error.problem.to_string(), &place)
    })?;
    // Only YAML lets the last of two keys win, and other text follow.
    if text.trim_start().starts_with('{') {
        let repeated = document.repeated.first();
        let problem = match (serde_json::from_str::<serde::de::IgnoredAny>(text), repeated) {
            (Ok(_), Some(repeated)) => Some((repeated.line, repeated.column, repeated.problem.to_string())),
            (Err(error), _) if error.to_string().starts_with("trailing characters") => {
                Some((error.line(), error.column(), "something follows the document".to_owned()))
            }
            _ => None,
        };
        if let Some((line, column, problem)) = problem {
            return Err(place::problem(&[], &problem, &format!("{name}:{line}:{column}")));
        }
    }
    if text.trim().is_empty() {
        return Err(place::problem(&[], "the file is empty", &format!("{name}:1:1")));
    }
    Ok(document.value)
}

/// A Swagger 2.0 document that has the shape of one.
fn add_document(schema: &mut Schema, document: &Value, places: &dyn Fn(&[Step]) -> String) {
    let nothing = Map::new();
    let definitions = document.get("definitions").and_then(Value::as_object).unwrap_or(&nothing);
    let mut reader =
        Reader { schema: std::mem::take(schema), document, types: HashMap::new(), open: Vec::new(), places };
    let start = Way::root().to("definitions");
    let mut roots = Vec::new();
    for (name, definition) in definitions {
        let kinds =
            kinds(definition.get(GROUP_VERSION_KIND).and_then(Value::as_array).map_or(&[], Vec::as_slice));
        if !kinds.is_empty() {
            let root = reader.field(definition, &start.to(name)).inner;
            roots.extend(kinds.into_iter().map(|(api_version, kind)| (api_version, kind, root)));
        }
        if let Some(id) = reader.structure(definition, &start.to(name)) {
            reader.schema.name_type(name.clone(), id);
        }
    }
    reader.run();
    *schema = reader.schema;
    for (api_version, kind, root) in roots {
        let known = schema.kind(&api_version, &kind).is_some_and(|kind| kind.cluster_scoped);
        schema.add_kind(&api_version, &kind, known, root);
    }
    for ((api_version, kind), namespaced) in namespaced_kinds(document) {
        let root = schema.kind(&api_version, &kind).and_then(|kind| kind.root);
        schema.add_kind(&api_version, &kind, !namespaced, root);
    }
}

/// The way to a value, shared by all that lie behind it.
#[derive(Clone)]
struct Way<'d>(Option<Rc<(Way<'d>, &'d str)>>);

impl<'d> Way<'d> {
    fn root() -> Self {
        Self(None)
    }

    fn to(&self, step: &'d str) -> Self {
        Self(Some(Rc::new((self.clone(), step))))
    }

    fn path(&self) -> Path {
        let mut path = Vec::new();
        let mut way = self;
        while let Some(held) = &way.0 {
            path.push(Step::Key(held.1.to_owned()));
            way = &held.0;
        }
        path.reverse();
        path
    }
}

struct Reader<'d, 'p> {
    schema: Schema,
    document: &'d Value,
    /// By the address of the structure, which does not move.
    types: HashMap<*const Value, TypeId>,
    /// Those whose fields are still to be read. A list rather than recursion:
    /// structures may nest and refer to themselves as they like.
    open: Vec<(TypeId, &'d Value, Way<'d>)>,
    places: &'p dyn Fn(&[Step]) -> String,
}

/// Where a reference leads.
enum Followed<'d> {
    To(&'d Value, Way<'d>),
    /// A type that is known by name, but is not in the document.
    Known(TypeId),
    Nowhere,
    /// Only to other references, again and again.
    Around,
}

impl<'d> Reader<'d, '_> {
    fn run(&mut self) {
        while let Some((id, structure, way)) = self.open.pop() {
            let properties = structure.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let field = self.field(property, &way.to("properties").to(name));
                self.schema.add_field(id, name, field);
            }
            if let Some(any) = structure.get("additionalProperties").filter(|any| any.is_object()) {
                let field = self.field(any, &way.to("additionalProperties"));
                self.schema.set_any_field(id, field);
            }
        }
    }

    fn field(&mut self, property: &'d Value, way: &Way<'d>) -> FieldSchema {
        let (property, way) = match self.follow(property, way) {
            Followed::To(property, way) => (property, way),
            Followed::Known(id) => return FieldSchema { inner: Some(id), ..FieldSchema::default() },
            Followed::Nowhere => return FieldSchema::default(),
            Followed::Around => {
                let broken = Some(self.broken(way, "the reference leads to itself"));
                return FieldSchema { broken, ..FieldSchema::default() };
            }
        };
        let list = self.merged_list(property, &way);
        match property.get("items").filter(|items| items.is_object()) {
            Some(items) => {
                let elements = self.element(items, &way.to("items"));
                FieldSchema { list, ..elements }
            }
            None => FieldSchema { inner: self.structure(property, &way), list, broken: None },
        }
    }

    fn element(&mut self, items: &'d Value, way: &Way<'d>) -> FieldSchema {
        match self.follow(items, way) {
            Followed::To(items, way) => {
                FieldSchema { inner: self.structure(items, &way), ..FieldSchema::default() }
            }
            Followed::Known(id) => FieldSchema { inner: Some(id), ..FieldSchema::default() },
            Followed::Nowhere => FieldSchema::default(),
            Followed::Around => {
                let broken = Some(self.broken(way, "the reference leads to itself"));
                FieldSchema { broken, ..FieldSchema::default() }
            }
        }
    }

    fn structure(&mut self, structure: &'d Value, way: &Way<'d>) -> Option<TypeId> {
        if structure.get("properties").is_none() && structure.get("additionalProperties").is_none() {
            return None;
        }
        let known = self.types.get(&std::ptr::from_ref(structure)).copied();
        Some(known.unwrap_or_else(|| {
            let id = self.schema.add_type();
            self.types.insert(std::ptr::from_ref(structure), id);
            self.open.push((id, structure, way.clone()));
            id
        }))
    }

    fn follow(&self, from: &'d Value, way: &Way<'d>) -> Followed<'d> {
        let (mut held, mut way) = (from, way.clone());
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = held.get("$ref").and_then(Value::as_str).filter(|text| !text.is_empty())
            else {
                return Followed::To(held, way);
            };
            // What is before the mark would be another document; upstream
            // looks into this one all the same.
            let Ok(Url { fragment, .. }) = url::parse(reference) else { return Followed::Nowhere };
            let steps: Vec<Cow<'_, str>> = fragment.split('/').skip(1).map(unescape).collect();
            let target =
                steps.iter().try_fold((self.document, Way::root()), |(held, way), step| match held {
                    Value::Object(fields) => {
                        let (step, value) = fields.get_key_value(&**step)?;
                        Some((value, way.to(step)))
                    }
                    _ => None,
                });
            match (target, steps.as_slice()) {
                (None, [section, name]) if section == "definitions" => {
                    return self.schema.named(name).map_or(Followed::Nowhere, Followed::Known);
                }
                (None, _) | (_, []) => return Followed::Nowhere,
                (Some((value, to)), _) => (held, way) = (value, to),
            }
        }
        Followed::Around
    }

    fn broken(&self, way: &Way<'_>, problem: &str) -> Broken {
        let path = way.path();
        Broken(Box::new(place::problem(&path, problem, &(self.places)(&path))))
    }

    /// Keys count only beside a strategy that merges.
    fn merged_list(&self, property: &'d Value, way: &Way<'d>) -> Result<Relation, Broken> {
        let wrong = |name: &'static str, value: &Value, expected: &str| {
            let problem = format!("expected {expected}, found {}", shape::found(value));
            Err(self.broken(&way.to(name), &problem))
        };
        match property.get(PATCH_STRATEGY) {
            Some(Value::String(strategy)) if PatchStrategy::parse(strategy).merge => {}
            Some(Value::String(_)) | None => return Ok(Relation::Atomic),
            Some(other) => return wrong(PATCH_STRATEGY, other, "a text"),
        }
        if let Some(items) = property.get("items").filter(|items| !items.is_object() && !items.is_null()) {
            return wrong("items", items, "an object");
        }
        let keys = match (property.get(LIST_MAP_KEYS), property.get(PATCH_MERGE_KEY)) {
            (Some(Value::Array(keys)), _) if keys.iter().all(Value::is_string) => {
                keys.iter().filter_map(Value::as_str).map(Arc::from).collect()
            }
            (Some(other), _) => return wrong(LIST_MAP_KEYS, other, "a list of texts"),
            (None, Some(Value::String(key))) if !key.is_empty() => vec![Arc::from(key.as_str())],
            (None, None | Some(Value::String(_))) => Vec::new(),
            (None, Some(other)) => return wrong(PATCH_MERGE_KEY, other, "a text"),
        };
        Ok(if keys.is_empty() { Relation::Set } else { Relation::Map(keys) })
    }
}

/// Api version and kind of each.
pub(super) fn kinds(listed: &[Value]) -> Vec<(String, String)> {
    let kind = |gvk: &Value| {
        let part = |name: &str| gvk.get(name).and_then(Value::as_str).unwrap_or_default();
        (GroupVersion::new(part("group"), part("version")).to_string(), part("kind").to_owned())
    };
    listed.iter().filter(|gvk| gvk.is_object()).map(kind).collect()
}

/// Whether a kind has a path within a namespace, for kinds that have a path.
fn namespaced_kinds(document: &Value) -> HashMap<(String, String), bool> {
    let mut found = HashMap::new();
    for (path, item) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        let gvk = item.get("get").and_then(|get| get.get(GROUP_VERSION_KIND));
        for kind in kinds(gvk.map_or(&[], std::slice::from_ref)) {
            *found.entry(kind).or_insert(false) |= path.contains(NAMESPACED);
        }
    }
    found
}
