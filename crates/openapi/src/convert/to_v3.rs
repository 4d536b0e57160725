//! v2 → v3.

use serde_json::{Map, Value, json};

use super::{
    Context, ConvertError, Converted, DocumentPath, METHODS, count, fragment, is_plain_keyword,
    is_quantity_name, is_true, said, texts,
};

const JSON_TYPES: [&str; 2] = ["integer", "string"];
const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";
const ANY: &str = "*/*";

pub fn convert(source: &Value, fields: &Map<String, Value>) -> Result<Converted, ConvertError> {
    let mut converter = Converter {
        consumes: texts(fields.get("consumes")),
        produces: texts(fields.get("produces")),
        parameters: fields.get("parameters").and_then(Value::as_object),
        responses: fields.get("responses").and_then(Value::as_object),
        context: Context::new(source, "/definitions/", "/components/schemas/"),
    };
    let document = converter.document(fields);
    converter.context.finish(document)
}

struct Converter<'a> {
    context: Context<'a>,
    /// Of operations that say nothing.
    consumes: Vec<&'a str>,
    produces: Vec<&'a str>,
    parameters: Option<&'a Map<String, Value>>,
    responses: Option<&'a Map<String, Value>>,
}

/// Parameters of v2, told apart by what they become.
#[derive(Default)]
struct Split<'a> {
    simple: Vec<Value>,
    body: Option<&'a Value>,
    form: Vec<&'a Value>,
}

impl<'a> AsMut<Context<'a>> for Converter<'a> {
    fn as_mut(&mut self) -> &mut Context<'a> {
        &mut self.context
    }
}

impl<'a> Converter<'a> {
    fn document(&mut self, fields: &'a Map<String, Value>) -> Map<String, Value> {
        let root = DocumentPath::ROOT;
        let mut out = Map::new();
        out.insert("openapi".into(), "3.0.0".into());
        out.insert("info".into(), json!({"title": "", "version": ""}));
        out.insert("paths".into(), json!({}));
        for (key, value) in fields {
            let place = root.at(key);
            match key.as_str() {
                "swagger" | "consumes" | "produces" | "host" | "basePath" | "schemes" => {}
                "definitions" | "parameters" | "responses" | "securityDefinitions" => {
                    if !value.is_object() {
                        self.context.lose_at(&place, "is not an object");
                    }
                }
                "paths" => {
                    out.insert(key.clone(), super::paths(self, Self::path_item, value, &place));
                }
                "info" | "security" | "tags" | "externalDocs" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a document"),
            }
        }
        if let Some(servers) = self.servers(fields) {
            out.insert("servers".into(), servers);
        }
        let components = self.components(fields);
        if !components.is_empty() {
            out.insert("components".into(), Value::Object(components));
        }
        out
    }

    fn components(&mut self, fields: &'a Map<String, Value>) -> Map<String, Value> {
        let root = DocumentPath::ROOT;
        let mut out = Map::new();
        let place = root.at("parameters");
        let mut parameters = Map::new();
        for (name, value) in self.parameters.into_iter().flatten() {
            let place = place.at(name);
            let Some((_, target)) = self.context.resolve(value, "/parameters", &place) else { continue };
            // Bodies stand where they are used.
            if is_simple(target)
                && let Some(parameter) = self.parameter(target, &place)
            {
                parameters.insert(name.clone(), parameter);
            }
        }
        let place = root.at("responses");
        let mut responses = Map::new();
        let produces = self.produces.clone();
        for (name, value) in self.responses.into_iter().flatten() {
            let place = place.at(name);
            let Some((_, target)) = self.context.resolve(value, "/responses", &place) else { continue };
            responses.insert(name.clone(), self.response(target, &produces, &place));
        }
        let place = root.at("securityDefinitions");
        let mut schemes = Map::new();
        for (name, value) in
            fields.get("securityDefinitions").and_then(Value::as_object).into_iter().flatten()
        {
            schemes.insert(name.clone(), self.security_scheme(value, &place.at(name)));
        }
        let schemas = self.schemas(fields);
        for (key, section) in [
            ("schemas", schemas),
            ("parameters", parameters),
            ("responses", responses),
            ("securitySchemes", schemes),
        ] {
            if !section.is_empty() {
                out.insert(key.into(), Value::Object(section));
            }
        }
        out
    }

    /// Last of all: what was referred to elsewhere is among them.
    fn schemas(&mut self, fields: &'a Map<String, Value>) -> Map<String, Value> {
        let root = DocumentPath::ROOT;
        let definitions = root.at("definitions");
        let mut out = Map::new();
        for (name, value) in fields.get("definitions").and_then(Value::as_object).into_iter().flatten() {
            let mut schema = self.schema(value, &definitions.at(name));
            if is_quantity(name, value) {
                make_quantity(&mut schema);
            }
            let name = self.context.names.get(name.as_str()).cloned().unwrap_or_default();
            out.insert(name, schema);
        }
        super::hoisted(self, Self::schema, &mut out);
        out
    }

    fn path_item(&mut self, item: &'a Value, place: &DocumentPath<'_>) -> Value {
        let Some(fields) = item.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({});
        };
        let mut out = Map::new();
        let shared = match fields.get("parameters") {
            Some(list) => self.parameters(list, &place.at("parameters"), false),
            None => Split::default(),
        };
        for (key, value) in fields {
            let place = place.at(key);
            if METHODS.contains(&key.as_str()) {
                let operation = self.operation(key, value, &shared, &place);
                out.insert(key.clone(), operation);
            } else if key.starts_with("x-") {
                out.insert(key.clone(), self.context.copy(value));
            } else if key != "parameters" {
                self.context.lose_at(&place, "is no part of a path");
            }
        }
        if !shared.simple.is_empty() {
            out.insert("parameters".into(), Value::Array(shared.simple));
        }
        Value::Object(out)
    }

    fn operation(
        &mut self,
        method: &str,
        operation: &'a Value,
        shared: &Split<'a>,
        place: &DocumentPath<'_>,
    ) -> Value {
        let Some(fields) = operation.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({"responses": {}});
        };
        let mut out = Map::new();
        // kubectl looks for `fieldValidation` in the operation itself and follows no reference.
        let is_patch = method == "patch";
        let own = match fields.get("parameters") {
            Some(list) => self.parameters(list, &place.at("parameters"), is_patch),
            None => Split::default(),
        };
        if let Some(body) = self.body(fields, &own, shared, place) {
            out.insert("requestBody".into(), body);
        }
        if !own.simple.is_empty() {
            out.insert("parameters".into(), Value::Array(own.simple));
        }
        out.insert("responses".into(), json!({}));
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                "parameters" | "consumes" | "produces" => {}
                "responses" => {
                    out.insert(key.clone(), self.operation_responses(fields, value, &place));
                }
                "schemes" => {
                    // Where it says no more than the document, nothing is lost.
                    if self.context.source.get("schemes") != Some(value) {
                        self.context.lose_at(&place, "the schemes of one operation have no place");
                    }
                }
                "tags" | "summary" | "description" | "externalDocs" | "operationId" | "deprecated"
                | "security" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of an operation"),
            }
        }
        Value::Object(out)
    }

    fn operation_responses(
        &mut self,
        operation: &'a Map<String, Value>,
        responses: &'a Value,
        place: &DocumentPath<'_>,
    ) -> Value {
        let Some(responses) = responses.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({});
        };
        let produces = match operation.get("produces") {
            Some(own) => texts(Some(own)),
            None => self.produces.clone(),
        };
        let mut out = Map::new();
        for (code, value) in responses {
            let place = place.at(code);
            let response = if code.starts_with("x-") {
                self.context.copy(value)
            } else {
                match self.context.resolve(value, "/responses", &place) {
                    None => json!({"description": ""}),
                    // A shared response has the media types of the document.
                    Some((Some(name), _)) if produces == self.produces => {
                        json!({"$ref": format!("#/components/responses/{}", fragment(name))})
                    }
                    Some((_, target)) => self.response(target, &produces, &place),
                }
            };
            out.insert(code.clone(), response);
        }
        Value::Object(out)
    }

    fn response(&mut self, response: &Value, produces: &[&str], place: &DocumentPath<'_>) -> Value {
        let mut out = Map::new();
        out.insert("description".into(), "".into());
        let Some(fields) = response.as_object() else {
            self.context.lose_at(place, "is not an object");
            return Value::Object(out);
        };
        let mut media = Map::new();
        let mut types: Vec<&str> = Vec::new();
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                "description" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                "schema" => {
                    media.insert(key.clone(), self.schema(value, &place));
                    types.extend(if produces.is_empty() { &[ANY] } else { produces });
                }
                "headers" => {
                    let mut headers = Map::new();
                    for (name, header) in value.as_object().into_iter().flatten() {
                        headers.insert(name.clone(), self.header(header, &place.at(name)));
                    }
                    out.insert(key.clone(), Value::Object(headers));
                }
                "examples" => {}
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a response"),
            }
        }
        let mut content = self.content(&types, &Value::Object(media.clone()));
        for (media_type, example) in fields.get("examples").and_then(Value::as_object).into_iter().flatten() {
            let media = content.entry(media_type.clone()).or_insert_with(|| Value::Object(media.clone()));
            let example = self.context.copy(example);
            if let Some(media) = media.as_object_mut() {
                media.insert("example".into(), example);
            }
        }
        if !content.is_empty() {
            out.insert("content".into(), Value::Object(content));
        }
        Value::Object(out)
    }

    fn header(&mut self, header: &Value, place: &DocumentPath<'_>) -> Value {
        let Some(fields) = header.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({"schema": {}});
        };
        let mut out = self.flat(fields, place);
        out.remove("required");
        Value::Object(out)
    }

    /// `media` under each of the types.
    fn content(&mut self, types: &[&str], media: &Value) -> Map<String, Value> {
        let size = count(media);
        let mut out = Map::new();
        for media_type in types {
            if !self.context.spend(size) {
                break;
            }
            out.insert((*media_type).to_owned(), media.clone());
        }
        out
    }

    fn parameters(&mut self, list: &'a Value, place: &DocumentPath<'_>, is_patch: bool) -> Split<'a> {
        let mut split = Split::default();
        let Some(list) = list.as_array() else {
            self.context.lose_at(place, "is not an array");
            return split;
        };
        for (index, value) in list.iter().enumerate() {
            let index = index.to_string();
            let place = place.at(&index);
            let Some((shared, target)) = self.context.resolve(value, "/parameters", &place) else { continue };
            match target.get("in").and_then(Value::as_str) {
                Some("body") => split.body = Some(target),
                Some("formData") => split.form.push(target),
                _ => {
                    let named = target.get("name").and_then(Value::as_str);
                    let inline = is_patch && named == Some("fieldValidation");
                    match shared.filter(|_| !inline && is_simple(target)) {
                        Some(name) => {
                            let reference = format!("#/components/parameters/{}", fragment(name));
                            split.simple.push(json!({"$ref": reference}));
                        }
                        None => split.simple.extend(self.parameter(target, &place)),
                    }
                }
            }
        }
        split
    }

    fn parameter(&mut self, parameter: &Value, place: &DocumentPath<'_>) -> Option<Value> {
        let location = parameter.get("in").and_then(Value::as_str);
        let Some((fields, location)) = parameter.as_object().zip(location).filter(|_| is_simple(parameter))
        else {
            self.context.lose_at(place, "is no parameter that v3 knows");
            return None;
        };
        let mut out = self.flat(fields, place);
        for key in ["name", "in", "allowEmptyValue"] {
            if let Some(value) = fields.get(key) {
                out.insert(key.into(), self.context.copy(value));
            }
        }
        if location == "path" {
            out.insert("required".into(), true.into());
        }
        if said(fields, "type") == Some("array") {
            let format = said(fields, "collectionFormat").unwrap_or("csv");
            let is_query = location == "query";
            let style = match (format, is_query) {
                // The defaults of v3.
                ("multi", true) | ("csv", false) => None,
                ("csv", true) => Some("form"),
                ("ssv", true) => Some("spaceDelimited"),
                ("pipes", true) => Some("pipeDelimited"),
                _ => {
                    let place = place.at("collectionFormat");
                    self.context.lose_at(&place, format!("`{format}` cannot be said"));
                    None
                }
            };
            if let Some(style) = style {
                out.insert("style".into(), style.into());
                out.insert("explode".into(), false.into());
            }
        }
        Some(Value::Object(out))
    }

    /// v2 has the schema's keywords beside the name: description, extensions
    /// and the schema they make.
    fn flat(&mut self, fields: &Map<String, Value>, place: &DocumentPath<'_>) -> Map<String, Value> {
        let mut out = Map::new();
        let mut flat = Map::new();
        for (key, value) in fields {
            match key.as_str() {
                "name" | "in" | "allowEmptyValue" | "collectionFormat" => {}
                "description" | "required" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => {
                    flat.insert(key.clone(), self.context.copy(value));
                }
            }
        }
        let schema = self.schema(&Value::Object(flat), place);
        out.insert("schema".into(), schema);
        out
    }

    /// The body that an operation or its path says, or the form.
    fn body(
        &mut self,
        operation: &'a Map<String, Value>,
        own: &Split<'a>,
        shared: &Split<'a>,
        place: &DocumentPath<'_>,
    ) -> Option<Value> {
        let consumes = match operation.get("consumes") {
            Some(own) => texts(Some(own)),
            None => self.consumes.clone(),
        };
        let place = place.at("parameters");
        if let Some(body) = own.body.or(shared.body) {
            if !own.form.is_empty() || !shared.form.is_empty() {
                self.context.lose_at(&place, "a form beside a body");
            }
            return Some(self.request_body(body, &consumes, &place));
        }
        let form: Vec<&Value> = own.form.iter().chain(&shared.form).copied().collect();
        (!form.is_empty()).then(|| self.form(&form, &consumes, &place))
    }

    fn request_body(&mut self, body: &'a Value, consumes: &[&str], place: &DocumentPath<'_>) -> Value {
        let mut out = Map::new();
        let mut media = Map::new();
        for (key, value) in body.as_object().into_iter().flatten() {
            let place = place.at(key);
            match key.as_str() {
                "in" => {}
                "name" if value.as_str() == Some("body") => {}
                "name" => self.context.lose_at(&place, "a request body has no name"),
                "schema" => {
                    media.insert(key.clone(), self.schema(value, &place));
                }
                "description" | "required" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a body"),
            }
        }
        let types = if consumes.is_empty() { &[ANY] } else { consumes };
        out.insert("content".into(), Value::Object(self.content(types, &Value::Object(media))));
        Value::Object(out)
    }

    fn form(&mut self, form: &[&'a Value], consumes: &[&str], place: &DocumentPath<'_>) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut has_file = false;
        for field in form.iter().filter_map(|field| field.as_object()) {
            let Some(name) = said(field, "name") else {
                self.context.lose_at(place, "a field of the form has no name");
                continue;
            };
            has_file |= said(field, "type") == Some("file");
            if is_true(field, "required") {
                required.push(Value::from(name));
            }
            if field.contains_key("collectionFormat") {
                self.context.lose_at(place, "how a list in a form is written");
            }
            let mut flat = self.flat(field, place);
            let mut schema = flat.remove("schema").unwrap_or_default();
            flat.remove("required");
            if let Some(fields) = schema.as_object_mut() {
                fields.extend(flat);
            }
            properties.insert(name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        let is_required = !required.is_empty();
        if is_required && let Some(schema) = schema.as_object_mut() {
            schema.insert("required".into(), Value::Array(required));
        }
        let said = consumes.iter().copied().filter(|media| [FORM, MULTIPART].contains(media));
        let mut types: Vec<&str> = said.filter(|media| !has_file || *media == MULTIPART).collect();
        if types.is_empty() {
            types.push(if has_file { MULTIPART } else { FORM });
        }
        let content = self.content(&types, &json!({"schema": schema}));
        if is_required { json!({"content": content, "required": true}) } else { json!({"content": content}) }
    }

    fn schema(&mut self, value: &Value, place: &DocumentPath<'_>) -> Value {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Bool(true) => return json!({}),
            Value::Bool(false) => return json!({"not": {}}),
            _ => {
                self.context.lose_at(place, "is no schema, so anything is allowed");
                return json!({});
            }
        };
        if !self.context.spend(1) {
            return Value::Null;
        }
        let mut out = Map::new();
        let mut reference = None;
        for (key, value) in fields {
            let place = place.at(key);
            match (key.as_str(), value) {
                ("$ref", Value::String(text)) => reference = self.context.schema_reference(text, &place),
                ("properties", Value::Object(properties)) => {
                    let mut converted = Map::new();
                    for (name, schema) in properties {
                        converted.insert(name.clone(), self.schema(schema, &place.at(name)));
                    }
                    out.insert(key.clone(), Value::Object(converted));
                }
                ("items", Value::Array(items)) => {
                    let mut schemas = self.schemas_of(items, &place);
                    let schema = match schemas.pop() {
                        Some(only) if schemas.is_empty() => only,
                        Some(last) => {
                            self.context.lose_at(&place, "which item is which");
                            schemas.push(last);
                            json!({"anyOf": schemas})
                        }
                        None => json!({}),
                    };
                    out.insert(key.clone(), schema);
                }
                ("items" | "not", Value::Object(_) | Value::Bool(_)) => {
                    out.insert(key.clone(), self.schema(value, &place));
                }
                ("additionalProperties", Value::Bool(_)) => {
                    out.insert(key.clone(), value.clone());
                }
                ("additionalProperties", Value::Object(_)) => {
                    out.insert(key.clone(), self.schema(value, &place));
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                    let schemas = self.schemas_of(schemas, &place);
                    out.insert(key.clone(), Value::Array(schemas));
                }
                ("discriminator", Value::String(property)) => {
                    out.insert(key.clone(), json!({"propertyName": property}));
                }
                ("x-nullable" | "nullable", Value::Bool(is_nullable)) => {
                    if *is_nullable {
                        out.insert("nullable".into(), true.into());
                    }
                }
                ("type", Value::Array(types)) => self.types(types, &mut out, &place),
                ("type", Value::String(name)) if name == "file" => {
                    out.insert(key.clone(), "string".into());
                    out.insert("format".into(), "binary".into());
                }
                ("type", Value::String(_)) | ("writeOnly" | "deprecated", Value::Bool(_)) => {
                    out.insert(key.clone(), value.clone());
                }
                // A file's format is known.
                ("format", _) if out.contains_key("format") || said(fields, "type") == Some("file") => {}
                ("type", _) => self.context.lose_at(&place, "is no type"),
                ("items" | "not" | "properties" | "additionalProperties", _) => {
                    self.context.lose_at(&place, "is no schema");
                }
                (key, value) if is_plain_keyword(key) => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no keyword of v3"),
            }
        }
        make_int_or_string(&mut out);
        match reference {
            None => Value::Object(out),
            Some(reference) if out.is_empty() => json!({"$ref": reference}),
            // v3 ignores what stands beside a reference.
            Some(reference) => {
                let mut members = vec![json!({"$ref": reference})];
                if let Some(Value::Array(more)) = out.remove("allOf") {
                    members.extend(more);
                }
                out.insert("allOf".into(), Value::Array(members));
                Value::Object(out)
            }
        }
    }

    fn schemas_of(&mut self, schemas: &[Value], place: &DocumentPath<'_>) -> Vec<Value> {
        let mut out = Vec::with_capacity(schemas.len());
        for (index, schema) in schemas.iter().enumerate() {
            out.push(self.schema(schema, &place.at(&index.to_string())));
        }
        out
    }

    /// Several types at once: v3 has one, and a word for null.
    fn types(&mut self, types: &[Value], out: &mut Map<String, Value>, place: &DocumentPath<'_>) {
        let mut named: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
        if named.contains(&"null") {
            out.insert("nullable".into(), true.into());
            named.retain(|name| *name != "null");
        }
        match named.as_slice() {
            [] => {}
            [only] => {
                out.insert("type".into(), (*only).into());
            }
            several if !out.contains_key("anyOf") => {
                let members = several.iter().map(|name| json!({"type": name})).collect();
                out.insert("anyOf".into(), Value::Array(members));
            }
            _ => self.context.lose_at(place, "several types beside anyOf"),
        }
    }

    fn servers(&mut self, fields: &Map<String, Value>) -> Option<Value> {
        let base = said(fields, "basePath").filter(|base| *base != "/").unwrap_or_default();
        let schemes = texts(fields.get("schemes"));
        let Some(host) = said(fields, "host") else {
            if !schemes.is_empty() {
                self.context.lose("/schemes".into(), "schemes without a host have no place");
            }
            return (!base.is_empty()).then(|| json!([{"url": base}]));
        };
        let servers: Vec<Value> = if schemes.is_empty() {
            vec![json!({"url": format!("//{host}{base}")})]
        } else {
            schemes.iter().map(|scheme| json!({"url": format!("{scheme}://{host}{base}")})).collect()
        };
        Some(Value::Array(servers))
    }

    fn security_scheme(&mut self, scheme: &Value, place: &DocumentPath<'_>) -> Value {
        let Some(fields) = scheme.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({});
        };
        let mut out = match self.context.copy(scheme) {
            Value::Object(out) => out,
            _ => return Value::Null,
        };
        match said(fields, "type") {
            Some("basic") => {
                out.insert("type".into(), "http".into());
                out.insert("scheme".into(), "basic".into());
            }
            Some("oauth2") => {
                let flow = match said(fields, "flow") {
                    Some("application") => "clientCredentials",
                    Some("accessCode") => "authorizationCode",
                    Some("password") => "password",
                    _ => "implicit",
                };
                out.remove("flow");
                let mut details = Map::new();
                for key in ["authorizationUrl", "tokenUrl", "scopes"] {
                    details.extend(out.remove(key).map(|value| (key.to_owned(), value)));
                }
                details.entry("scopes").or_insert_with(|| json!({}));
                out.insert("flows".into(), json!({flow: details}));
            }
            _ => {}
        }
        Value::Object(out)
    }
}

/// A parameter that stays one in v3.
fn is_simple(parameter: &Value) -> bool {
    let location = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    ["query", "header", "path", "cookie"].contains(&location)
        && parameter.get("name").is_some_and(Value::is_string)
}

/// `format: int-or-string`, which v2 calls a string, and the extension, which
/// v2 leaves without a type.
fn make_int_or_string(schema: &mut Map<String, Value>) {
    const EXTENSION: &str = "x-kubernetes-int-or-string";
    let has_format = said(schema, "format") == Some("int-or-string");
    if !has_format && !is_true(schema, EXTENSION) {
        return;
    }
    schema.remove("type");
    schema.insert(EXTENSION.into(), true.into());
    if !schema.contains_key("anyOf") && !schema.contains_key("oneOf") {
        let members = JSON_TYPES.map(|name| json!({"type": name}));
        schema.insert("anyOf".into(), Value::Array(members.into()));
    }
}

/// v2 says that quantities are strings.
fn is_quantity(name: &str, definition: &Value) -> bool {
    is_quantity_name(name) && definition.get("type").and_then(Value::as_str) == Some("string")
}

fn make_quantity(schema: &mut Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("type");
        schema.insert("anyOf".into(), json!([{"type": "string"}, {"type": "number"}]));
    }
}
