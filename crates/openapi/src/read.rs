//! Reading documents back: v2 or v3, from JSON, YAML or protobuf.
//!
//! Shared parameters, bodies and responses are put where they are used; what
//! the model has no field for is kept verbatim.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};
use sternpost_schema::{
    Schema,
    read::{self, Path, Problem, ReadError},
    write::Dialect,
};
use sternpost_wire::gnostic;

use crate::{
    document::{
        Body, Content, Document, Location, Media, Method, Operation, Parameter, PathItem, Response, V2Media,
        content,
    },
    v2,
};

/// How the bytes of a document are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    /// gnostic's `openapi.v2.Document` or `openapi.v3.Document`.
    Protobuf,
}

/// Which OpenAPI version a document was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V2,
    V3,
}

#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    #[error("not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("not valid YAML: {0}")]
    Yaml(#[from] sternpost_yaml::Error),
    #[error("the text is not valid UTF-8")]
    NotText,
    #[error("not a valid protobuf document: {0}")]
    Protobuf(#[from] gnostic::DecodeError),
    #[error("neither `swagger: \"2.0\"` nor `openapi: 3.0.x` is said, so this is no OpenAPI document")]
    NoVersion,
    #[error("OpenAPI version `{0}` is not supported; 2.0 and 3.0 are")]
    OtherVersion(String),
    #[error(transparent)]
    Document(#[from] ReadError),
}

/// Reads a document, and tells which version it was written in.
pub fn parse(bytes: &[u8], encoding: Encoding) -> Result<(Version, Document), ParseError> {
    let json = match encoding {
        Encoding::Json => serde_json::from_slice(bytes)?,
        Encoding::Yaml => {
            sternpost_yaml::from_str(std::str::from_utf8(bytes).map_err(|_| ParseError::NotText)?)?
        }
        Encoding::Protobuf => decode_protobuf(bytes)?,
    };
    document(&json)
}

/// Reads a document from its JSON tree.
pub fn document(json: &Value) -> Result<(Version, Document), ParseError> {
    let said = |key: &str| json.get(key).and_then(Value::as_str);
    match (said("swagger"), said("openapi")) {
        (Some("2.0"), _) => Ok((Version::V2, Reader::new(json, Dialect::V2).document()?)),
        (_, Some(version)) if version == "3.0" || version.starts_with("3.0.") => {
            Ok((Version::V3, Reader::new(json, Dialect::V3).document()?))
        }
        (Some(other), _) | (None, Some(other)) => Err(ParseError::OtherVersion(other.into())),
        (None, None) => Err(ParseError::NoVersion),
    }
}

/// Both messages begin with the version as field 1, so the first bytes tell.
fn decode_protobuf(bytes: &[u8]) -> Result<Value, ParseError> {
    match bytes {
        [0x0a, 3, b'2', b'.', b'0', ..] => Ok(gnostic::decode_v2(bytes)?),
        _ => Ok(gnostic::decode_v3(bytes)?),
    }
}

struct Reader<'a> {
    json: &'a Value,
    dialect: Dialect,
    path: Path,
}

type Rest = BTreeMap<Arc<str>, Value>;

impl<'a> Reader<'a> {
    fn new(json: &'a Value, dialect: Dialect) -> Self {
        Self { json, dialect, path: Path::default() }
    }

    fn document(&mut self) -> Result<Document, ReadError> {
        let mut document = Document::default();
        for (key, value) in read::object(self.json, &self.path)? {
            self.at(key, |reader| reader.document_field(&mut document, key, value))?;
        }
        Ok(document)
    }

    fn document_field(
        &mut self,
        document: &mut Document,
        key: &str,
        value: &'a Value,
    ) -> Result<(), ReadError> {
        let v2 = self.dialect == Dialect::V2;
        match key {
            "swagger" if v2 => {}
            "openapi" if !v2 => {}
            "info" => {
                for (key, value) in read::object(value, &self.path)? {
                    match key.as_str() {
                        "title" => document.title = self.at(key, |reader| reader.text(value))?,
                        "version" => document.version = self.at(key, |reader| reader.text(value))?,
                        _ => keep(&mut document.info_rest, key, value),
                    }
                }
            }
            "paths" => {
                for (path, item) in read::object(value, &self.path)? {
                    let item = self.at(path, |reader| reader.path_item(item))?;
                    document.paths.insert(path.as_str().into(), item);
                }
            }
            "definitions" if v2 => document.schemas = self.schemas(value)?,
            "securityDefinitions" if v2 => document.security_schemes = rest_of(value, &self.path)?,
            // Said again by every operation that does not say otherwise.
            "consumes" | "produces" | "schemes" if v2 => {
                read::texts(value, &mut self.path)?;
            }
            // Read where they are used.
            "parameters" | "responses" if v2 => {
                read::object(value, &self.path)?;
            }
            "components" if !v2 => {
                for (key, value) in read::object(value, &self.path)? {
                    self.at(key, |reader| {
                        match key.as_str() {
                            "schemas" => document.schemas = reader.schemas(value)?,
                            "securitySchemes" => {
                                document.security_schemes = rest_of(value, &reader.path)?;
                            }
                            "parameters" | "responses" | "requestBodies" => {
                                read::object(value, &reader.path)?;
                            }
                            _ => keep(&mut document.components_rest, key, value),
                        }
                        Ok(())
                    })?;
                }
            }
            _ => keep(&mut document.rest, key, value),
        }
        Ok(())
    }

    fn schemas(&mut self, json: &Value) -> Result<BTreeMap<Arc<str>, Arc<Schema>>, ReadError> {
        let mut schemas = BTreeMap::new();
        for (name, schema) in read::object(json, &self.path)? {
            let schema = self.at(name, |reader| reader.schema(schema))?;
            schemas.insert(name.as_str().into(), Arc::new(schema));
        }
        Ok(schemas)
    }

    fn path_item(&mut self, json: &'a Value) -> Result<PathItem, ReadError> {
        let mut item = PathItem::default();
        for (key, value) in read::object(json, &self.path)? {
            self.at(key, |reader| {
                if let Some(method) = Method::parse(key) {
                    item.operations.insert(method, reader.operation(value)?);
                } else if key == "parameters" {
                    let (parameters, body) = reader.parameters(value)?;
                    if body.is_some() {
                        return Err(
                            reader.problem("a body that all operations of a path share is not supported")
                        );
                    }
                    item.parameters = parameters;
                } else {
                    keep(&mut item.rest, key, value);
                }
                Ok(())
            })?;
        }
        Ok(item)
    }

    fn operation(&mut self, json: &'a Value) -> Result<Operation, ReadError> {
        let fields = read::object(json, &self.path)?;
        let media = self.media_lists(fields)?;
        let mut operation = Operation::default();
        let mut body = None;
        for (key, value) in fields {
            self.at(key, |reader| {
                match key.as_str() {
                    "tags" => operation.tags = read::texts(value, &mut reader.path)?,
                    "description" => operation.description = Some(reader.text(value)?),
                    "operationId" => operation.operation_id = Some(reader.text(value)?),
                    "parameters" => {
                        let (parameters, found) = reader.parameters(value)?;
                        operation.parameters = parameters;
                        body = found;
                    }
                    "requestBody" if reader.dialect == Dialect::V3 => {
                        operation.body = Some(reader.request_body(value)?);
                    }
                    "responses" => {
                        for (code, value) in read::object(value, &reader.path)? {
                            let response =
                                reader.at(code, |reader| reader.response(value, &media.produces))?;
                            operation.responses.insert(code.as_str().into(), response);
                        }
                    }
                    "consumes" | "produces" | "schemes" if reader.dialect == Dialect::V2 => {}
                    _ => keep(&mut operation.rest, key, value),
                }
                Ok(())
            })?;
        }
        if self.dialect == Dialect::V2 {
            operation.body = body.map(|body| body.into_body(&media.consumes));
            operation.v2 = media.beyond_the_rule(&operation);
        }
        Ok(operation)
    }

    /// v2: the media types and schemes of an operation, or of the document.
    fn media_lists(&mut self, operation: &'a Map<String, Value>) -> Result<MediaLists, ReadError> {
        if self.dialect == Dialect::V3 {
            return Ok(MediaLists::default());
        }
        let document = self.json;
        let mut list = |key: &str| match operation.get(key) {
            Some(own) => self.at(key, |reader| read::texts(own, &mut reader.path)),
            None => document.get(key).map_or(Ok(Vec::new()), |all| read::texts(all, &mut Path::default())),
        };
        Ok(MediaLists { consumes: list("consumes")?, produces: list("produces")?, schemes: list("schemes")? })
    }

    /// The parameters and, in v2, the body that is among them.
    fn parameters(&mut self, json: &'a Value) -> Result<(Vec<Parameter>, Option<V2Body>), ReadError> {
        let mut parameters = Vec::new();
        let mut body = None;
        for (index, value) in read::array(json, &self.path)?.iter().enumerate() {
            self.at(&index.to_string(), |reader| {
                let section =
                    if reader.dialect == Dialect::V2 { "parameters" } else { "components/parameters" };
                let value = reader.resolve(value, section)?;
                if reader.dialect == Dialect::V2 && value.get("in").and_then(Value::as_str) == Some("body") {
                    body = Some(reader.v2_body(value)?);
                } else {
                    parameters.push(reader.parameter(value)?);
                }
                Ok(())
            })?;
        }
        Ok((parameters, body))
    }

    fn parameter(&mut self, json: &'a Value) -> Result<Parameter, ReadError> {
        let fields = read::object(json, &self.path)?;
        let name = self.required_text(fields, "name")?;
        let location = self.required_text(fields, "in")?;
        let Some(location) = Location::parse(&location) else {
            return Err(self.problem(format!("parameters in `{location}` are not supported")));
        };
        let mut parameter = Parameter {
            name,
            location,
            description: None,
            required: false,
            schema: Schema::default(),
            rest: Rest::new(),
        };
        let mut flat = Map::new();
        for (key, value) in fields {
            self.at(key, |reader| {
                match key.as_str() {
                    "name" | "in" => {}
                    "description" => parameter.description = Some(reader.text(value)?),
                    "required" => parameter.required = read::boolean(value, &reader.path)?,
                    "schema" if reader.dialect == Dialect::V3 => parameter.schema = reader.schema(value)?,
                    "collectionFormat" | "allowEmptyValue" => keep(&mut parameter.rest, key, value),
                    _ if reader.dialect == Dialect::V3 || key.starts_with("x-") => {
                        keep(&mut parameter.rest, key, value);
                    }
                    // v2 has the schema's keywords beside the name.
                    _ => {
                        flat.insert(key.clone(), value.clone());
                    }
                }
                Ok(())
            })?;
        }
        if self.dialect == Dialect::V2 {
            parameter.schema = self.schema(&Value::Object(flat))?;
        }
        Ok(parameter)
    }

    fn v2_body(&mut self, json: &'a Value) -> Result<V2Body, ReadError> {
        let mut body = V2Body::default();
        for (key, value) in read::object(json, &self.path)? {
            self.at(key, |reader| {
                match key.as_str() {
                    "name" | "in" => {}
                    "description" => body.description = Some(reader.text(value)?),
                    "required" => body.required = read::boolean(value, &reader.path)?,
                    "schema" => body.schema = reader.schema(value)?,
                    _ => keep(&mut body.rest, key, value),
                }
                Ok(())
            })?;
        }
        Ok(body)
    }

    fn request_body(&mut self, json: &'a Value) -> Result<Body, ReadError> {
        let json = self.resolve(json, "components/requestBodies")?;
        let mut body = Body::default();
        for (key, value) in read::object(json, &self.path)? {
            self.at(key, |reader| {
                match key.as_str() {
                    "description" => body.description = Some(reader.text(value)?),
                    "required" => body.required = read::boolean(value, &reader.path)?,
                    "content" => body.content = reader.content(value)?,
                    _ => keep(&mut body.rest, key, value),
                }
                Ok(())
            })?;
        }
        Ok(body)
    }

    fn response(&mut self, json: &'a Value, produces: &[Arc<str>]) -> Result<Response, ReadError> {
        let section = if self.dialect == Dialect::V2 { "responses" } else { "components/responses" };
        let json = self.resolve(json, section)?;
        let mut response = Response::default();
        for (key, value) in read::object(json, &self.path)? {
            self.at(key, |reader| {
                match key.as_str() {
                    "description" => response.description = reader.text(value)?,
                    "content" if reader.dialect == Dialect::V3 => response.content = reader.content(value)?,
                    "schema" if reader.dialect == Dialect::V2 => {
                        response.content = content(types_or_any(produces), &reader.schema(value)?);
                    }
                    _ => keep(&mut response.rest, key, value),
                }
                Ok(())
            })?;
        }
        Ok(response)
    }

    fn content(&mut self, json: &Value) -> Result<Content, ReadError> {
        let mut content = Content::new();
        for (name, value) in read::object(json, &self.path)? {
            let media = self.at(name, |reader| {
                let mut media = Media::default();
                for (key, value) in read::object(value, &reader.path)? {
                    if key == "schema" {
                        media.schema = Some(reader.at(key, |reader| reader.schema(value))?);
                    } else {
                        keep(&mut media.rest, key, value);
                    }
                }
                Ok(media)
            })?;
            content.insert(name.as_str().into(), media);
        }
        Ok(content)
    }

    /// Follows a reference into a section of the document, one step.
    fn resolve(&self, json: &'a Value, section: &str) -> Result<&'a Value, ReadError> {
        let Some(reference) = json.get("$ref") else { return Ok(json) };
        let reference = read::text(reference, &self.path)?;
        let target = reference
            .strip_prefix("#/")
            .and_then(|path| path.strip_prefix(section))
            .and_then(|path| path.strip_prefix('/'))
            .and_then(|name| section.split('/').try_fold(self.json, |json, step| json.get(step))?.get(name));
        match target {
            Some(target) if target.get("$ref").is_none() => Ok(target),
            Some(_) => Err(self.problem(format!("`{reference}` is itself a reference"))),
            None => Err(self.problem(format!("`{reference}` does not exist"))),
        }
    }

    fn schema(&mut self, json: &Value) -> Result<Schema, ReadError> {
        read::schema_at(json, self.dialect, &mut self.path)
    }

    fn text(&self, json: &Value) -> Result<Arc<str>, ReadError> {
        read::text(json, &self.path)
    }

    fn required_text(&mut self, fields: &Map<String, Value>, key: &str) -> Result<Arc<str>, ReadError> {
        match fields.get(key) {
            Some(value) => self.at(key, |reader| reader.text(value)),
            None => Err(self.problem(format!("`{key}` is missing"))),
        }
    }

    fn problem(&self, text: impl Into<String>) -> ReadError {
        self.path.error(Problem::Other(text.into()))
    }

    fn at<T>(
        &mut self,
        step: &str,
        run: impl FnOnce(&mut Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        // The path travels with the reader, so it is taken out for the step.
        let mut path = std::mem::take(&mut self.path);
        let result = path.at(step, |path| {
            std::mem::swap(&mut self.path, path);
            let result = run(self);
            std::mem::swap(&mut self.path, path);
            result
        });
        self.path = path;
        result
    }
}

#[derive(Default)]
struct V2Body {
    description: Option<Arc<str>>,
    required: bool,
    schema: Schema,
    rest: Rest,
}

impl V2Body {
    fn into_body(self, consumes: &[Arc<str>]) -> Body {
        let content = content(types_or_any(consumes), &self.schema);
        Body { description: self.description, required: self.required, content, rest: self.rest }
    }
}

#[derive(Default)]
struct MediaLists {
    consumes: Vec<Arc<str>>,
    produces: Vec<Arc<str>>,
    schemes: Vec<Arc<str>>,
}

impl MediaLists {
    /// What writing the operation would not say by itself.
    fn beyond_the_rule(self, operation: &Operation) -> V2Media {
        let unless = |list: Vec<Arc<str>>, rule: Vec<Arc<str>>| (list != rule).then_some(list);
        V2Media {
            consumes: unless(self.consumes, v2::consumes(operation)),
            produces: unless(self.produces, v2::produces(operation)),
            schemes: unless(self.schemes, v2::schemes()),
        }
    }
}

fn types_or_any(types: &[Arc<str>]) -> impl Iterator<Item = &str> {
    let any = types.is_empty().then_some("*/*");
    types.iter().map(|media| &**media).chain(any)
}

fn rest_of(json: &Value, path: &Path) -> Result<Rest, ReadError> {
    let fields = read::object(json, path)?;
    Ok(fields.iter().map(|(key, value)| (key.as_str().into(), value.clone())).collect())
}

fn keep(rest: &mut Rest, key: &str, value: &Value) {
    rest.insert(key.into(), value.clone());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        names::Naming,
        publisher::{Coding, Format, Publisher, Rendition, Unobserved},
        v3,
    };

    fn bytes(rendition: &Rendition, format: Format) -> bytes::Bytes {
        rendition.form(format, Coding::Identity).unwrap().bytes
    }

    #[test]
    fn every_v3_document_reads_back_as_it_was_written() {
        let snapshot =
            Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        for naming in Naming::ALL {
            for key in snapshot.keys() {
                let written = bytes(snapshot.document(key, naming).unwrap(), Format::Json);
                let (version, document) = parse(&written, Encoding::Json).unwrap();
                assert_eq!(version, Version::V3);
                assert!(v3::write(&document, naming) == written, "{key} {naming:?}");
                // A document of ours equals what its source builds.
                if naming == Naming::Upstream {
                    let (_, again) = parse(&v3::write(&document, naming), Encoding::Json).unwrap();
                    assert_eq!(document, again, "{key}");
                }
            }
        }
    }

    #[test]
    fn the_v2_document_reads_back_as_it_was_written() {
        let snapshot =
            Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        let written = bytes(snapshot.v2(), Format::Json);
        let (version, document) = parse(&written, Encoding::Json).unwrap();
        assert_eq!(version, Version::V2);
        assert!(v2::write(&document) == written);
    }

    #[test]
    fn protobuf_reads_back_as_the_json_did_but_for_what_it_cannot_say() {
        let snapshot =
            Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        let (version, document) = parse(&bytes(snapshot.v2(), Format::Protobuf), Encoding::Protobuf).unwrap();
        assert_eq!(version, Version::V2);
        assert!(v2::write(&document) == bytes(snapshot.v2(), Format::Json));

        let rendition = snapshot.document("apis/apps/v1", Naming::Short).unwrap();
        let (version, mut document) = parse(&bytes(rendition, Format::Protobuf), Encoding::Protobuf).unwrap();
        assert_eq!(version, Version::V3);
        let (_, mut expected) = parse(&bytes(rendition, Format::Json), Encoding::Json).unwrap();
        // Defaults that are objects, empty or zero have no protobuf form.
        for document in [&mut document, &mut expected] {
            for schema in document.schemas.values_mut() {
                Arc::make_mut(schema).walk_mut(&mut |node| node.default = None);
            }
        }
        assert_eq!(document, expected);
    }

    #[test]
    fn yaml_reads_as_json_does() {
        let snapshot =
            Publisher::new(sternpost_builtin::groups(), Naming::Short, Arc::new(Unobserved)).snapshot();
        let json = bytes(snapshot.document("apis/batch/v1", Naming::Short).unwrap(), Format::Json);
        // JSON is YAML.
        assert_eq!(parse(&json, Encoding::Yaml).unwrap(), parse(&json, Encoding::Json).unwrap());
        let yaml = "openapi: 3.0.0\ninfo: {title: T, version: '1'}\npaths:\n  /a/:\n    get:\n      responses:\n        '200':\n          description: OK\n";
        let (_, document) = parse(yaml.as_bytes(), Encoding::Yaml).unwrap();
        assert_eq!(&*document.paths["/a/"].operations[&Method::Get].responses["200"].description, "OK");
    }

    #[test]
    fn foreign_documents_keep_what_they_say() {
        let v3 = json!({
            "openapi": "3.0.0", "x-top": 1, "tags": [{"name": "t"}],
            "info": {"title": "T", "version": "1", "license": {"name": "L"}},
            "paths": {"/a": {
                "summary": "s",
                "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}, "example": "e"}],
                "get": {
                    "deprecated": true,
                    "requestBody": {"content": {"application/json": {"schema": {}, "example": 1}}, "x-b": 2},
                    "responses": {"default": {"description": "d", "headers": {"H": {"schema": {}}}}},
                },
            }},
            "components": {"headers": {"H": {}}, "schemas": {"A": {"type": "object"}}},
        });
        let (_, document) = document(&v3).unwrap();
        let written: Value = serde_json::from_slice(&v3::write(&document, Naming::Upstream)).unwrap();
        assert_eq!(written, v3);
    }

    #[test]
    fn shared_parts_are_put_where_they_are_used() {
        let shared = json!({
            "openapi": "3.0.1", "info": {"title": "T", "version": "1"},
            "paths": {"/a": {"post": {
                "parameters": [{"$ref": "#/components/parameters/P"}],
                "requestBody": {"$ref": "#/components/requestBodies/B"},
                "responses": {"200": {"$ref": "#/components/responses/R"}},
            }}},
            "components": {
                "parameters": {"P": {"name": "p", "in": "header", "schema": {"type": "string"}}},
                "requestBodies": {"B": {"content": {"a/b": {}}}},
                "responses": {"R": {"description": "r"}},
            },
        });
        let (_, read) = document(&shared).unwrap();
        let operation = &read.paths["/a"].operations[&Method::Post];
        assert_eq!(&*operation.parameters[0].name, "p");
        assert!(operation.body.as_ref().unwrap().content.contains_key("a/b"));
        assert_eq!(&*operation.responses["200"].description, "r");
    }

    #[test]
    fn v2_lists_of_the_document_hold_for_its_operations() {
        let v2 = json!({
            "swagger": "2.0", "info": {"title": "T", "version": "1"},
            "consumes": ["application/x"], "produces": ["application/y"],
            "paths": {"/a": {"put": {
                "parameters": [{"name": "b", "in": "body", "schema": {"type": "string"}}],
                "responses": {"200": {"description": "", "schema": {"type": "integer"}}},
            }}},
        });
        let (_, read) = document(&v2).unwrap();
        let operation = &read.paths["/a"].operations[&Method::Put];
        assert!(operation.body.as_ref().unwrap().content.contains_key("application/x"));
        assert!(operation.responses["200"].content.contains_key("application/y"));
        let written: Value = serde_json::from_slice(&v2::write(&read)).unwrap();
        assert_eq!(written["paths"]["/a"]["put"]["consumes"], json!(["application/x"]));
        assert!(written["paths"]["/a"]["put"].get("schemes").is_none());
    }

    fn check_error(json: &Value, expected: &str) {
        assert_eq!(document(json).unwrap_err().to_string(), expected);
    }

    #[test]
    fn malformed_documents_are_refused_with_the_place() {
        let v3 = |paths: Value| json!({"openapi": "3.0.0", "info": {}, "paths": paths});
        let v2 = |paths: Value| json!({"swagger": "2.0", "paths": paths});
        let cases = [
            (
                json!({}),
                "neither `swagger: \"2.0\"` nor `openapi: 3.0.x` is said, so this is no OpenAPI document",
            ),
            (
                json!([]),
                "neither `swagger: \"2.0\"` nor `openapi: 3.0.x` is said, so this is no OpenAPI document",
            ),
            (json!({"openapi": "3.1.0"}), "OpenAPI version `3.1.0` is not supported; 2.0 and 3.0 are"),
            (json!({"swagger": "1.2"}), "OpenAPI version `1.2` is not supported; 2.0 and 3.0 are"),
            (v3(json!([])), "paths: expected an object, found an array"),
            (v3(json!({"/a": {"get": 3}})), "paths./a.get: expected an object, found a number"),
            (
                v3(json!({"/a": {"get": {"parameters": [{"in": "query"}]}}})),
                "paths./a.get.parameters.0: `name` is missing",
            ),
            (
                v3(json!({"/a": {"get": {"parameters": [{"$ref": "#/components/parameters/x"}]}}})),
                "paths./a.get.parameters.0: `#/components/parameters/x` does not exist",
            ),
            (
                v3(json!({"/a": {"get": {"parameters": [{"name": "n", "in": "body"}]}}})),
                "paths./a.get.parameters.0: parameters in `body` are not supported",
            ),
            (
                v2(json!({"/a": {"get": {"consumes": "x"}}})),
                "paths./a.get.consumes: expected an array, found a string",
            ),
            (
                v2(json!({"/a": {"get": {"responses": {"200": {"schema": {"type": "file"}}}}}})),
                "paths./a.get.responses.200.schema.type: `file` is not a schema type; one of array, boolean, integer, number, object, string",
            ),
            (
                json!({"swagger": "2.0", "definitions": {"A": {"$ref": "#/components/schemas/A"}}}),
                "definitions.A.$ref: reference `#/components/schemas/A` does not start with `#/definitions/`",
            ),
        ];
        for (json, expected) in cases {
            check_error(&json, expected);
        }
        for (bytes, encoding) in [
            (&b"{"[..], Encoding::Json),
            (b"\xff", Encoding::Yaml),
            (b"a: [", Encoding::Yaml),
            (b"\x0a\xff", Encoding::Protobuf),
            (b"", Encoding::Protobuf),
            (b"", Encoding::Json),
        ] {
            assert!(parse(bytes, encoding).is_err(), "{bytes:?}");
        }
    }
}
