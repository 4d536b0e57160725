//! One Swagger 2.0 document out of all others, and writing it as JSON.
//!
//! v2 says less than v3: no defaults, numbers-or-strings are strings, bodies
//! have one schema. What old clients look for in place (`name`, `dryRun`,
//! `fieldValidation`, bodies of a kind) stays in place; every other parameter
//! is shared under a name made from its hash.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE};
use serde_json::{Value, json};
use sternpost_schema::{
    Schema, Type,
    write::{self, Dialect, Style},
};

use crate::{
    custom::{CustomResource, MergeKeys},
    document::{Body, Document, Method, Operation, Parameter, PathItem, Response, any_schema},
    operations,
    v3::{Object, info},
};

/// Types that belong to every group-version.
const EVERYWHERE: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];
const STYLE: Style = Style { dialect: Dialect::V2, name: |name| Cow::Borrowed(name) };

/// All documents as one. Of two that have the same path or definition the first wins.
pub fn merge(documents: impl IntoIterator<Item = Document>) -> Document {
    let mut merged = Document::default();
    for (index, document) in documents.into_iter().enumerate() {
        if index == 0 {
            merged.title = document.title;
            merged.version = document.version;
        }
        for (path, item) in document.paths {
            merged.paths.entry(path).or_insert(item);
        }
        for (name, schema) in document.schemas {
            merged.schemas.entry(name).or_insert(schema);
        }
        merged.security_schemes.extend(document.security_schemes);
    }
    let requirements: Vec<Value> =
        merged.security_schemes.keys().map(|name| json!({ &**name: [] })).collect();
    merged.rest.insert("security".into(), requirements.into());
    for name in EVERYWHERE {
        let kind = name.rsplit('.').next().unwrap_or(name);
        let gvks: Vec<Value> = sternpost_builtin::registered_versions()
            .iter()
            .map(|gv| json!({"group": &*gv.group, "version": &*gv.version, "kind": kind}))
            .collect();
        if let Some(schema) = merged.schemas.get_mut(name) {
            let schema = Arc::make_mut(schema);
            schema.rest.insert("x-kubernetes-group-version-kind".into(), gvks.into());
        }
    }
    merged
}

/// The document's bytes: compact, keys sorted, the same for the same document.
pub fn write(document: &Document) -> Vec<u8> {
    let Parts { definitions, paths, end } = write_parts(document, None);
    [definitions, paths, end].concat()
}

/// A document cut in three where more definitions, and where more paths, can be put in.
pub(crate) struct Parts {
    pub definitions: Vec<u8>,
    pub paths: Vec<u8>,
    pub end: Vec<u8>,
}

/// As [`fn@write`]; the parameters of `others` are shared as well.
pub(crate) fn write_parts(document: &Document, others: Option<&Document>) -> Parts {
    let mut out = Vec::with_capacity(1 << 20);
    let mut shared = BTreeMap::new();
    let mut paths = Vec::new();
    write::object(&mut paths, document.paths.iter().map(|(path, item)| (&**path, item)), |out, item| {
        path_item(out, item, &mut shared);
    });
    for item in others.into_iter().flat_map(|document| document.paths.values()) {
        path_item(&mut Vec::new(), item, &mut shared);
    }

    let (mut definitions_end, mut paths_end) = (0, 0);
    let mut object = Object::open(&mut out);
    let mut rest = document.rest.iter().peekable();
    object.rest_before("definitions", &mut rest);
    object.field("definitions", |out| {
        let schemas = document.schemas.iter().map(|(name, schema)| (&**name, schema));
        write::object(out, schemas, |out, schema| write::schema(out, &lower(schema), STYLE));
        definitions_end = out.len() - 1;
    });
    object.rest_before("info", &mut rest);
    object.field("info", |out| info(out, document));
    if !shared.is_empty() {
        object.rest_before("parameters", &mut rest);
        object.field("parameters", |out| {
            let parameters = shared.iter().map(|(name, json): (&String, &Vec<u8>)| (&**name, json));
            write::object(out, parameters, |out, json| out.extend_from_slice(json));
        });
    }
    object.rest_before("paths", &mut rest);
    object.field("paths", |out| {
        out.extend_from_slice(&paths);
        paths_end = out.len() - 1;
    });
    if !document.security_schemes.is_empty() {
        object.rest_before("securityDefinitions", &mut rest);
        object.field("securityDefinitions", |out| {
            let schemes = document.security_schemes.iter().map(|(name, json)| (&**name, json));
            write::object(out, schemes, write::value);
        });
    }
    object.rest_before("swagger", &mut rest);
    object.text("swagger", "2.0");
    object.rest(rest);
    drop(object);
    let end = out.split_off(paths_end);
    let paths = out.split_off(definitions_end);
    Parts { definitions: out, paths, end }
}

/// What a custom resource adds: definitions, and paths, as fields of an object.
pub(crate) fn custom_fields(resource: &CustomResource, merge_keys: MergeKeys) -> [Vec<u8>; 2] {
    let mut definitions = Vec::new();
    let mut schemas = [
        (resource.definition_name(), resource.v2_definition(merge_keys)),
        (resource.list_definition_name(), resource.list_definition()),
    ];
    schemas.sort_by(|(a, _), (b, _)| a.cmp(b));
    let schemas = schemas.iter().map(|(name, schema)| (&**name, schema));
    write::object(&mut definitions, schemas, |out, schema| write::schema(out, schema, STYLE));
    let mut items = operations::Paths::new();
    operations::custom_resource(&mut items, resource);
    for operation in items.values_mut().flat_map(|item| item.operations.values_mut()) {
        operation.rest.remove("deprecated");
    }
    let mut paths = Vec::new();
    write::object(&mut paths, items.iter().map(|(path, item)| (&**path, item)), |out, item| {
        path_item(out, item, &mut BTreeMap::new());
    });
    // Without the braces.
    [definitions, paths].map(|mut fields| {
        fields.pop();
        fields.drain(..1);
        fields
    })
}

/// A definition as v2 can say it.
fn lower(schema: &Schema) -> Schema {
    let mut lowered = schema.clone();
    lowered.walk_mut(&mut |node| {
        node.default = None;
        node.nullable = false;
        let alternatives = node.one_of.iter().chain(&node.any_of);
        let string_too = alternatives.clone().any(|member| member.kind == Some(Type::String));
        if node.kind.is_none() && string_too {
            node.kind = Some(Type::String);
        }
        node.one_of.clear();
        node.any_of.clear();
        node.all_of.clear();
        node.not = None;
    });
    lowered
}

type SharedParameters = BTreeMap<String, Vec<u8>>;

fn path_item(out: &mut Vec<u8>, item: &PathItem, shared: &mut SharedParameters) {
    let mut object = Object::open(out);
    let mut rest = item.rest.iter().peekable();
    let mut own = Some(&item.parameters).filter(|parameters| !parameters.is_empty());
    for (method, operation) in &item.operations {
        if *method > Method::Options
            && let Some(own) = own.take()
        {
            object.rest_before("parameters", &mut rest);
            object.field("parameters", |out| parameters(out, own, None, shared));
        }
        object.rest_before(method.as_str(), &mut rest);
        object.field(method.as_str(), |out| self::operation(out, operation, shared));
    }
    if let Some(own) = own {
        object.rest_before("parameters", &mut rest);
        object.field("parameters", |out| parameters(out, own, None, shared));
    }
    object.rest(rest);
}

fn operation(out: &mut Vec<u8>, operation: &Operation, shared: &mut SharedParameters) {
    let media = &operation.v2;
    let consumes = media.consumes.clone().unwrap_or_else(|| consumes(operation));
    let produces = media.produces.clone().unwrap_or_else(|| produces(operation));
    let schemes = media.schemes.clone().unwrap_or_else(schemes);

    let mut object = Object::open(out);
    let mut rest = operation.rest.iter().peekable();
    let list = |object: &mut Object<'_>, key: &str, items: &[Arc<str>]| {
        if !items.is_empty() {
            object.field(key, |out| write::array(out, items, |out, item| write::string(out, item)));
        }
    };
    object.rest_before("consumes", &mut rest);
    list(&mut object, "consumes", &consumes);
    if let Some(text) = &operation.description {
        object.rest_before("description", &mut rest);
        object.text("description", text);
    }
    if let Some(id) = &operation.operation_id {
        object.rest_before("operationId", &mut rest);
        object.text("operationId", id);
    }
    if !operation.parameters.is_empty() || operation.body.is_some() {
        object.rest_before("parameters", &mut rest);
        object.field("parameters", |out| {
            parameters(out, &operation.parameters, operation.body.as_ref(), shared);
        });
    }
    object.rest_before("produces", &mut rest);
    list(&mut object, "produces", &produces);
    object.rest_before("responses", &mut rest);
    object.field("responses", |out| {
        let responses = operation.responses.iter().map(|(code, response)| (&**code, response));
        write::object(out, responses, response);
    });
    object.rest_before("schemes", &mut rest);
    list(&mut object, "schemes", &schemes);
    object.rest_before("tags", &mut rest);
    list(&mut object, "tags", &operation.tags);
    object.rest(rest);
}

/// What a request may be, by rule: the types of its body, anything without one.
pub(crate) fn consumes(operation: &Operation) -> Vec<Arc<str>> {
    match &operation.body {
        Some(body) => in_order(body.content.keys()),
        None => vec!["*/*".into()],
    }
}

/// What an answer may be, by rule: the types of any of the responses.
pub(crate) fn produces(operation: &Operation) -> Vec<Arc<str>> {
    in_order(operation.responses.values().flat_map(|response| response.content.keys()))
}

/// How the server is reached, by rule.
pub(crate) fn schemes() -> Vec<Arc<str>> {
    vec!["https".into()]
}

/// Media types in the order upstream lists them; unknown ones after, by name.
fn in_order<'a>(types: impl Iterator<Item = &'a Arc<str>>) -> Vec<Arc<str>> {
    const ORDER: [&str; 10] = [
        "text/plain",
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let rank = |media: &Arc<str>| ORDER.iter().position(|known| **known == **media).unwrap_or(ORDER.len());
    let unique: BTreeSet<&Arc<str>> = types.collect();
    let mut types: Vec<Arc<str>> = unique.into_iter().cloned().collect();
    types.sort_by_key(rank);
    types
}

fn parameters(
    out: &mut Vec<u8>,
    parameters: &[Parameter],
    body: Option<&Body>,
    shared: &mut SharedParameters,
) {
    // The body is one of them here, and they stand sorted by name.
    enum Any<'a> {
        Body(&'a Body),
        Other(&'a Parameter),
    }
    let mut all: Vec<(&str, &str, Any<'_>)> =
        parameters.iter().map(|p| (&*p.name, p.location.as_str(), Any::Other(p))).collect();
    all.extend(body.map(|body| ("body", "body", Any::Body(body))));
    all.sort_by_key(|(name, location, _)| (*name, *location));
    write::array(out, all, |out, (name, _, parameter)| {
        let (json, hashed, share) = match parameter {
            Any::Body(body) => {
                let of_the_api = any_schema(&body.content)
                    .and_then(|schema| schema.reference.as_deref())
                    .is_some_and(|name| name.starts_with("io.k8s.apimachinery."));
                (body_json(body), body_hashed(body), of_the_api)
            }
            Any::Other(parameter) => {
                let share = !["name", "dryRun", "fieldValidation"].contains(&name);
                (parameter_json(parameter), parameter_hashed(parameter), share)
            }
        };
        if share {
            let shared_name = format!("{name}-{}", short_hash(&hashed));
            out.extend_from_slice(b"{\"$ref\":");
            write::string(out, &format!("#/parameters/{shared_name}"));
            out.push(b'}');
            shared.insert(shared_name, json);
        } else {
            out.extend_from_slice(&json);
        }
    });
}

fn body_json(body: &Body) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    let mut rest = body.rest.iter().peekable();
    if let Some(text) = &body.description {
        object.rest_before("description", &mut rest);
        object.text("description", text);
    }
    object.rest_before("in", &mut rest);
    object.text("in", "body");
    object.rest_before("name", &mut rest);
    object.text("name", "body");
    if body.required {
        object.rest_before("required", &mut rest);
        object.field("required", |out| out.extend_from_slice(b"true"));
    }
    if let Some(schema) = any_schema(&body.content) {
        object.rest_before("schema", &mut rest);
        object.field("schema", |out| write::schema(out, &lower(schema), STYLE));
    }
    object.rest(rest);
    drop(object);
    out
}

fn parameter_json(parameter: &Parameter) -> Vec<u8> {
    let mut fields: BTreeMap<Arc<str>, Value> = parameter.rest.clone();
    fields.extend(schema_fields(&parameter.schema));
    fields.extend(parameter.description.as_ref().map(|text| ("description".into(), (**text).into())));
    fields.insert("in".into(), parameter.location.as_str().into());
    fields.insert("name".into(), (*parameter.name).into());
    if parameter.required {
        fields.insert("required".into(), true.into());
    }
    let mut out = Vec::new();
    write::object(&mut out, fields.iter().map(|(key, value)| (&**key, value)), write::value);
    out
}

/// A parameter's schema stands beside its name in v2.
fn schema_fields(schema: &Schema) -> BTreeMap<Arc<str>, Value> {
    let mut out = Vec::new();
    write::schema(&mut out, &lower(schema), STYLE);
    // Just written by the line above, so it reads back.
    let value: Value = serde_json::from_slice(&out).unwrap_or_default();
    match value {
        Value::Object(map) => map.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        _ => BTreeMap::new(),
    }
}

/// What upstream hashes for the name of a shared parameter: its fields in
/// the order of the Go struct.
fn parameter_hashed(parameter: &Parameter) -> Vec<u8> {
    let schema = schema_fields(&parameter.schema);
    let (types, validations): (Vec<_>, Vec<_>) =
        schema.iter().partition(|(key, _)| ["type", "format", "items"].contains(&&***key));
    let order = |key: &str| ["type", "format", "items"].iter().position(|known| *known == key);
    let mut types = types;
    types.sort_by_key(|(key, _)| order(key));
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    object.rest(validations.into_iter());
    object.rest(types.into_iter());
    if let Some(text) = &parameter.description {
        object.text("description", text);
    }
    object.text("name", &parameter.name);
    object.text("in", parameter.location.as_str());
    if parameter.required {
        object.field("required", |out| out.extend_from_slice(b"true"));
    }
    drop(object);
    out
}

fn body_hashed(body: &Body) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    if let Some(text) = &body.description {
        object.text("description", text);
    }
    object.text("name", "body");
    object.text("in", "body");
    if body.required {
        object.field("required", |out| out.extend_from_slice(b"true"));
    }
    if let Some(schema) = any_schema(&body.content) {
        object.field("schema", |out| write::schema(out, &lower(schema), STYLE));
    }
    drop(object);
    out
}

/// The first six bytes of the 64-bit FNV-1 hash, as URL-safe base64.
fn short_hash(bytes: &[u8]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte));
    let first: Vec<u8> = hash.to_be_bytes().into_iter().take(6).collect();
    URL_SAFE.encode(first)
}

fn response(out: &mut Vec<u8>, response: &Response) {
    let mut object = Object::open(out);
    let mut rest = response.rest.iter().peekable();
    object.rest_before("description", &mut rest);
    object.text("description", &response.description);
    if let Some(schema) = any_schema(&response.content) {
        object.rest_before("schema", &mut rest);
        object.field("schema", |out| write::schema(out, &lower(schema), STYLE));
    }
    object.rest(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        document::{Location, content},
        operations::meta,
    };

    #[test]
    fn shared_parameters_are_named_as_upstream_names_them() {
        let body = |required, name: &str| Body {
            required,
            content: content(["*/*"], &meta(name)),
            ..Body::default()
        };
        assert_eq!(short_hash(&body_hashed(&body(false, "DeleteOptions"))), "2Y1dVQaQ");
        assert_eq!(short_hash(&body_hashed(&body(true, "Patch"))), "78PwaGsr");
        let namespace = Parameter {
            name: "namespace".into(),
            location: Location::Path,
            description: Some("object name and auth scope, such as for teams and projects".into()),
            required: true,
            schema: Schema::of(Type::String).with("uniqueItems", true),
            rest: [].into(),
        };
        assert_eq!(short_hash(&parameter_hashed(&namespace)), "vgWSWtn3");
    }
}
