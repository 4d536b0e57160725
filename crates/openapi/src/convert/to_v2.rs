//! v3 → v2.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Context, ConvertError, Converted, DocumentPath, MAX_HOPS, METHODS, fragment, is_plain_keyword,
    is_quantity_name, is_true, said,
};
use crate::references;

const FORMS: [&str; 2] = ["application/x-www-form-urlencoded", "multipart/form-data"];
const JSON: &str = "application/json";
const ANY: &str = "*/*";

pub fn convert(source: &Value, fields: &Map<String, Value>) -> Result<Converted, ConvertError> {
    let context = Context::new(source, "/components/schemas/", "/definitions/");
    let mut converter = Converter { context };
    let document = converter.document(fields);
    converter.context.finish(document)
}

struct Converter<'a> {
    context: Context<'a>,
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
        out.insert("swagger".into(), "2.0".into());
        out.insert("info".into(), json!({"title": "", "version": ""}));
        out.insert("paths".into(), json!({}));
        for (key, value) in fields {
            let place = root.at(key);
            match key.as_str() {
                "openapi" => {}
                "components" if value.is_object() => {}
                "components" => self.context.lose_at(&place, "is not an object"),
                "paths" => {
                    out.insert(key.clone(), super::paths(self, Self::path_item, value, &place));
                }
                "servers" => self.servers(value, &mut out, &place),
                "info" | "security" | "tags" | "externalDocs" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a document"),
            }
        }
        self.components(fields, &mut out);
        out
    }

    fn components(&mut self, fields: &'a Map<String, Value>, out: &mut Map<String, Value>) {
        let root = DocumentPath::ROOT;
        let components = root.at("components");
        let mut used = None;
        for (section, entries) in fields.get("components").and_then(Value::as_object).into_iter().flatten() {
            let place = components.at(section);
            if section.starts_with("x-") {
                self.context.lose_at(&place, "has no place in v2");
                continue;
            }
            let Some(entries) = entries.as_object() else {
                self.context.lose_at(&place, "is not an object");
                continue;
            };
            let mut converted = Map::new();
            let to = match section.as_str() {
                // These come last.
                "schemas" => continue,
                // These stand where they are used.
                "requestBodies" | "headers" => {
                    let used = used.get_or_insert_with(|| used_parts(self.context.source));
                    for name in entries.keys() {
                        if !used.contains(&(section.as_str(), name.clone())) {
                            self.context.lose_at(&place.at(name), "nothing uses it");
                        }
                    }
                    continue;
                }
                "parameters" | "responses" => section.as_str(),
                "securitySchemes" => "securityDefinitions",
                _ => {
                    self.context.lose_at(&place, "has no place in v2");
                    continue;
                }
            };
            for (name, value) in entries {
                let place = place.at(name);
                let value = match to {
                    "parameters" => self.shared_parameter(value, &place),
                    "responses" => self.shared_response(value, &place),
                    _ => self.security_scheme(value, &place),
                };
                converted.extend(value.map(|value| (name.clone(), value)));
            }
            if !converted.is_empty() {
                out.insert(to.into(), Value::Object(converted));
            }
        }
        let definitions = self.definitions();
        if !definitions.is_empty() {
            out.insert("definitions".into(), Value::Object(definitions));
        }
    }

    fn shared_parameter(&mut self, value: &'a Value, place: &DocumentPath<'_>) -> Option<Value> {
        let (_, target) = self.context.resolve(value, "/components/parameters", place)?;
        self.parameter(target, place)
    }

    fn shared_response(&mut self, value: &'a Value, place: &DocumentPath<'_>) -> Option<Value> {
        let (_, target) = self.context.resolve(value, "/components/responses", place)?;
        Some(self.response(target, place))
    }

    /// Last of all: what was referred to elsewhere is among them.
    fn definitions(&mut self) -> Map<String, Value> {
        let root = DocumentPath::ROOT;
        let components = root.at("components");
        let schemas = components.at("schemas");
        let mut out = Map::new();
        let source = self.context.source;
        for (name, value) in
            source.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten()
        {
            let schema = self.schema_of(value, is_quantity_name(name), &schemas.at(name));
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
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                method if METHODS.contains(&method) => {
                    out.insert(key.clone(), self.operation(value, &place));
                }
                "parameters" => {
                    let parameters = self.parameters(value, &place);
                    out.insert(key.clone(), Value::Array(parameters));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a path in v2"),
            }
        }
        Value::Object(out)
    }

    fn operation(&mut self, operation: &'a Value, place: &DocumentPath<'_>) -> Value {
        let Some(fields) = operation.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({"responses": {}});
        };
        let mut out = Map::new();
        let mut parameters = match fields.get("parameters") {
            Some(list) => self.parameters(list, &place.at("parameters")),
            None => Vec::new(),
        };
        let mut produces = BTreeSet::new();
        out.insert("responses".into(), json!({}));
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                "parameters" => {}
                "requestBody" => {
                    let Some((_, body)) = self.context.resolve(value, "/components/requestBodies", &place)
                    else {
                        continue;
                    };
                    let consumes = self.body(body, &mut parameters, &place);
                    out.insert("consumes".into(), consumes.into());
                }
                "responses" => {
                    out.insert(key.clone(), self.responses(value, &mut produces, &place));
                }
                "tags" | "summary" | "description" | "externalDocs" | "operationId" | "deprecated"
                | "security" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of an operation in v2"),
            }
        }
        if !parameters.is_empty() {
            out.insert("parameters".into(), Value::Array(parameters));
        }
        if !produces.is_empty() {
            out.insert("produces".into(), Value::Array(produces.into_iter().map(Value::from).collect()));
        }
        Value::Object(out)
    }

    fn responses(
        &mut self,
        responses: &'a Value,
        produces: &mut BTreeSet<String>,
        place: &DocumentPath<'_>,
    ) -> Value {
        let Some(responses) = responses.as_object() else {
            self.context.lose_at(place, "is not an object");
            return json!({});
        };
        let mut out = Map::new();
        let mut contents = Vec::new();
        for (code, value) in responses {
            let place = place.at(code);
            let response = if code.starts_with("x-") {
                self.context.copy(value)
            } else {
                match self.context.resolve(value, "/components/responses", &place) {
                    None => json!({"description": ""}),
                    Some((shared, target)) => {
                        let content = target.get("content").and_then(Value::as_object);
                        contents.extend(content.filter(|content| !content.is_empty()).map(|it| (code, it)));
                        match shared {
                            Some(name) => json!({"$ref": format!("#/responses/{}", fragment(name))}),
                            None => self.response(target, &place),
                        }
                    }
                }
            };
            out.insert(code.clone(), response);
        }
        let types = contents.iter().flat_map(|(_, content)| content.keys());
        produces.extend(types.cloned());
        for (code, content) in contents {
            if content.len() != produces.len() {
                let place = place.at(code);
                self.context.lose_at(
                    &place.at("content"),
                    "v2 has the same media types for all responses of an operation",
                );
            }
        }
        Value::Object(out)
    }

    fn response(&mut self, response: &'a Value, place: &DocumentPath<'_>) -> Value {
        let mut out = Map::new();
        out.insert("description".into(), "".into());
        let Some(fields) = response.as_object() else {
            self.context.lose_at(place, "is not an object");
            return Value::Object(out);
        };
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                "description" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                "content" => {
                    let (schema, examples) = self.content(value, &place);
                    if schema.is_none() {
                        for (media, _) in value.as_object().into_iter().flatten() {
                            if !examples.contains_key(media) {
                                self.context.lose_at(&place.at(media), "without a schema v2 says no content");
                            }
                        }
                    }
                    out.extend(schema.map(|schema| ("schema".to_owned(), schema)));
                    if !examples.is_empty() {
                        out.insert("examples".into(), Value::Object(examples));
                    }
                }
                "headers" => {
                    let mut headers = Map::new();
                    for (name, header) in value.as_object().into_iter().flatten() {
                        let place = place.at(name);
                        let Some((_, header)) = self.context.resolve(header, "/components/headers", &place)
                        else {
                            continue;
                        };
                        let mut flat = self.flat(header, &place);
                        self.lose_style(header, "simple", &place);
                        if flat.remove("required").is_some_and(|required| required == true) {
                            self.context.lose_at(&place.at("required"), "has no place in v2");
                        }
                        headers.insert(name.clone(), Value::Object(flat));
                    }
                    out.insert(key.clone(), Value::Object(headers));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a response in v2"),
            }
        }
        Value::Object(out)
    }

    /// v2 has one schema for all media types: JSON's, or else the first.
    fn content(&mut self, content: &Value, place: &DocumentPath<'_>) -> (Option<Value>, Map<String, Value>) {
        let Some(content) = content.as_object() else {
            self.context.lose_at(place, "is not an object");
            return (None, Map::new());
        };
        let schemas = || content.iter().filter_map(|(name, media)| Some((name, media.get("schema")?)));
        let chosen = schemas().find(|(name, _)| *name == JSON).or_else(|| schemas().next());
        let mut examples = Map::new();
        for (name, media) in content {
            let place = place.at(name);
            if chosen.is_some() && media.get("schema").is_none() {
                self.context.lose_at(&place, "has no schema, and gets that of another media type");
            }
            for (key, value) in media.as_object().into_iter().flatten() {
                match key.as_str() {
                    "schema" => {
                        if chosen.is_some_and(|(_, schema)| schema != value) {
                            self.context.lose_at(&place.at(key), "a schema of its own for one media type");
                        }
                    }
                    "example" => {
                        examples.insert(name.clone(), self.context.copy(value));
                    }
                    _ => self.context.lose_at(&place.at(key), "has no place in v2"),
                }
            }
        }
        let schema = chosen.map(|(name, schema)| {
            let place = place.at(name);
            self.schema(schema, &place.at("schema"))
        });
        (schema, examples)
    }

    /// Adds the body or the fields of the form; returns the media types.
    fn body(
        &mut self,
        body: &'a Value,
        parameters: &mut Vec<Value>,
        place: &DocumentPath<'_>,
    ) -> Vec<String> {
        let content = body.get("content").and_then(Value::as_object);
        let types: Vec<String> = content.into_iter().flatten().map(|(media, _)| media.clone()).collect();
        let is_form = !types.is_empty() && types.iter().all(|media| FORMS.contains(&media.as_str()));
        let form =
            content.into_iter().flatten().find_map(|(media, value)| Some((media, value.get("schema")?)));
        if let Some((media, schema)) = form.filter(|_| is_form)
            && let Some(fields) = schema.as_object()
            && let Some(properties) = fields.get("properties").and_then(Value::as_object)
        {
            self.lose_beside_form(body, fields, place);
            let place = place.at("content");
            let place = place.at(media);
            self.form(fields, properties, parameters, &place.at("schema"));
            return types;
        }
        let mut out = Map::new();
        out.insert("name".into(), "body".into());
        out.insert("in".into(), "body".into());
        out.insert("schema".into(), json!({}));
        for (key, value) in body.as_object().into_iter().flatten() {
            let place = place.at(key);
            match key.as_str() {
                "content" => {
                    let (schema, examples) = self.content(value, &place);
                    out.extend(schema.map(|schema| ("schema".to_owned(), schema)));
                    if !examples.is_empty() {
                        self.context.lose_at(&place, "examples of a body");
                    }
                }
                "description" | "required" => {
                    out.insert(key.clone(), self.context.copy(value));
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no part of a body in v2"),
            }
        }
        parameters.push(Value::Object(out));
        if types.is_empty() { vec![ANY.into()] } else { types }
    }

    /// The fields of a form.
    fn form(
        &mut self,
        schema: &'a Map<String, Value>,
        properties: &'a Map<String, Value>,
        parameters: &mut Vec<Value>,
        place: &DocumentPath<'_>,
    ) {
        let required = super::texts(schema.get("required"));
        for (key, value) in schema {
            let place = place.at(key);
            match key.as_str() {
                "properties" => {}
                "type" if value == "object" => {}
                "required" => {
                    if required.iter().any(|name| !properties.contains_key(*name)) {
                        self.context.lose_at(&place, "names what is no field");
                    }
                }
                _ => self.context.lose_at(&place, "cannot be said of a form in v2"),
            }
        }
        let place = place.at("properties");
        for (name, property) in properties {
            let mut field = self.flat_schema(property, &place.at(name));
            if said(&field, "type") == Some("string") && said(&field, "format") == Some("binary") {
                field.insert("type".into(), "file".into());
                field.remove("format");
            }
            field.insert("name".into(), name.clone().into());
            field.insert("in".into(), "formData".into());
            if required.contains(&name.as_str()) {
                field.insert("required".into(), true.into());
            }
            parameters.push(Value::Object(field));
        }
    }

    /// What a body says beside the fields of its form: v2 has no place for a form as such.
    fn lose_beside_form(&mut self, body: &Value, schema: &Map<String, Value>, place: &DocumentPath<'_>) {
        for (key, value) in body.as_object().into_iter().flatten() {
            let place = place.at(key);
            let has_required = !super::texts(schema.get("required")).is_empty();
            match key.as_str() {
                "content" => self.lose_beside_schema(value, schema, &place),
                // A form with a field that must be there must be there.
                "required" if value != true || has_required => {}
                _ => self.context.lose_at(&place, "cannot be said of a form in v2"),
            }
        }
    }

    fn lose_beside_schema(&mut self, content: &Value, schema: &Map<String, Value>, place: &DocumentPath<'_>) {
        for (media, value) in content.as_object().into_iter().flatten() {
            let place = place.at(media);
            if value.get("schema").is_none() {
                self.context.lose_at(&place, "has no schema, and gets that of another media type");
            }
            for (key, value) in value.as_object().into_iter().flatten() {
                match key.as_str() {
                    "schema" if value.as_object() == Some(schema) => {}
                    "schema" => {
                        self.context.lose_at(&place.at(key), "a schema of its own for one media type");
                    }
                    _ => self.context.lose_at(&place.at(key), "has no place in v2"),
                }
            }
        }
    }

    fn parameters(&mut self, list: &'a Value, place: &DocumentPath<'_>) -> Vec<Value> {
        let Some(list) = list.as_array() else {
            self.context.lose_at(place, "is not an array");
            return Vec::new();
        };
        let mut out = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let index = index.to_string();
            let place = place.at(&index);
            let Some((shared, target)) = self.context.resolve(value, "/components/parameters", &place) else {
                continue;
            };
            match shared.filter(|_| is_sayable(target)) {
                Some(name) => out.push(json!({"$ref": format!("#/parameters/{}", fragment(name))})),
                None => out.extend(self.parameter(target, &place)),
            }
        }
        out
    }

    fn parameter(&mut self, parameter: &'a Value, place: &DocumentPath<'_>) -> Option<Value> {
        let Some(fields) = parameter.as_object().filter(|_| is_sayable(parameter)) else {
            self.context.lose_at(place, "is no parameter that v2 knows");
            return None;
        };
        let mut out = self.flat(parameter, place);
        for key in ["name", "in", "allowEmptyValue"] {
            if let Some(value) = fields.get(key) {
                out.insert(key.into(), self.context.copy(value));
            }
        }
        let usual = if said(fields, "in") == Some("query") { "form" } else { "simple" };
        if said(&out, "type") == Some("array") {
            let style = said(fields, "style").unwrap_or(usual);
            let explode = fields.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
            let format = match (style, explode) {
                ("form", true) => Some("multi"),
                ("form" | "simple", _) => Some("csv"),
                ("spaceDelimited", false) => Some("ssv"),
                ("pipeDelimited", false) => Some("pipes"),
                _ => None,
            };
            match format {
                Some("csv") => {}
                Some(format) => {
                    out.insert("collectionFormat".into(), format.into());
                }
                None => self.context.lose_at(&place.at("style"), "cannot be said in v2"),
            }
        } else {
            self.lose_style(parameter, usual, place);
        }
        Some(Value::Object(out))
    }

    /// v2 has a word for how lists are written, and for nothing else.
    fn lose_style(&mut self, parameter: &Value, usual: &str, place: &DocumentPath<'_>) {
        for (key, usual) in [("explode", Value::from(usual == "form")), ("style", usual.into())] {
            if parameter.get(key).is_some_and(|value| *value != usual) {
                self.context.lose_at(&place.at(key), "cannot be said in v2");
            }
        }
    }

    /// A parameter or header with its schema's keywords beside its own.
    fn flat(&mut self, parameter: &'a Value, place: &DocumentPath<'_>) -> Map<String, Value> {
        let Some(fields) = parameter.as_object() else {
            self.context.lose_at(place, "is not an object");
            return Map::from_iter([("type".to_owned(), "string".into())]);
        };
        let mut out = match fields.get("schema") {
            Some(schema) => self.flat_schema(schema, &place.at("schema")),
            None => {
                self.context.lose_at(place, "has no schema of its own, so it is a string");
                Map::from_iter([("type".to_owned(), "string".into())])
            }
        };
        for (key, value) in fields {
            match key.as_str() {
                "name" | "in" | "allowEmptyValue" | "schema" | "style" | "explode" => {}
                "description" | "required" => {
                    let of_schema = out.insert(key.clone(), self.context.copy(value));
                    if of_schema.is_some_and(|of_schema| of_schema != *value) {
                        let place = place.at("schema");
                        self.context.lose_at(&place.at(key), "the parameter's own is said");
                    }
                }
                key if key.starts_with("x-") => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place.at(key), "has no place in v2"),
            }
        }
        out
    }

    /// What v2 says of a value outside of bodies: one type, limits, and the
    /// description, which is that of the parameter unless it has one of its own.
    fn flat_schema(&mut self, schema: &'a Value, place: &DocumentPath<'_>) -> Map<String, Value> {
        self.flat_schema_in(schema, 0, place)
    }

    /// The same within so many lists: one may be a list of itself.
    fn flat_schema_in(
        &mut self,
        schema: &'a Value,
        lists: usize,
        place: &DocumentPath<'_>,
    ) -> Map<String, Value> {
        if lists == MAX_HOPS || !self.context.spend(1) {
            self.context.lose_at(place, "is a list within too many others, so it is a string");
            return Map::from_iter([("type".to_owned(), "string".into())]);
        }
        let resolved = self.context.resolve(schema, "/components/schemas", place);
        let Some(fields) = resolved.and_then(|(_, target)| target.as_object()) else {
            if resolved.is_some() {
                self.context.lose_at(place, "is no schema, so it is a string");
            }
            return Map::from_iter([("type".to_owned(), "string".into())]);
        };
        let mut out = Map::new();
        for (key, value) in fields {
            let place = place.at(key);
            match key.as_str() {
                "items" => {
                    let mut items = self.flat_schema_in(value, lists + 1, &place);
                    if items.remove("description").is_some() {
                        self.context.lose_at(&place.at("description"), "has no place in v2");
                    }
                    out.insert(key.clone(), Value::Object(items));
                }
                "title" | "readOnly" | "xml" | "externalDocs" | "required" | "example" => {
                    self.context.lose_at(&place, "has no place in v2");
                }
                "nullable" => self.context.lose_at(&place, "null cannot be said in v2"),
                key if is_plain_keyword(key) => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "cannot be said of a parameter in v2"),
            }
        }
        match said(&out, "type") {
            Some("string" | "number" | "integer" | "boolean") => {}
            Some("array") => {
                out.entry("items").or_insert_with(|| json!({"type": "string"}));
            }
            _ => {
                if out.insert("type".into(), "string".into()).is_some() {
                    self.context.lose_at(&place.at("type"), "a parameter of v2 has a simple type");
                }
            }
        }
        out
    }

    fn schema(&mut self, value: &Value, place: &DocumentPath<'_>) -> Value {
        self.schema_of(value, false, place)
    }

    fn schema_of(&mut self, value: &Value, is_quantity: bool, place: &DocumentPath<'_>) -> Value {
        let Some(fields) = value.as_object() else {
            self.context.lose_at(place, "is no schema, so anything is allowed");
            return json!({});
        };
        if !self.context.spend(1) {
            return Value::Null;
        }
        // v3 ignores what stands beside a reference.
        if let Some(text) = said(fields, "$ref") {
            let reference = self.context.schema_reference(text, &place.at("$ref"));
            return reference.map_or_else(|| json!({}), |reference| json!({"$ref": reference}));
        }
        let union = known_union(fields, is_quantity);
        let mut out = Map::new();
        for (key, value) in fields {
            let place = place.at(key);
            match (key.as_str(), value) {
                ("anyOf" | "oneOf", _) if union.is_some() => {}
                ("anyOf" | "oneOf" | "not", _) => {
                    self.context.lose_at(&place, "cannot be said in v2, so more is allowed");
                }
                ("nullable", Value::Bool(false)) => {}
                ("nullable", Value::Bool(true)) => {
                    self.context.lose_at(&place, "null cannot be said in v2, only hinted at with x-nullable");
                    out.insert("x-nullable".into(), true.into());
                }
                ("properties", Value::Object(properties)) => {
                    let mut converted = Map::new();
                    for (name, schema) in properties {
                        converted.insert(name.clone(), self.schema(schema, &place.at(name)));
                    }
                    out.insert(key.clone(), Value::Object(converted));
                }
                ("additionalProperties", Value::Bool(_)) => {
                    out.insert(key.clone(), value.clone());
                }
                ("items" | "additionalProperties", Value::Object(_)) => {
                    out.insert(key.clone(), self.schema(value, &place));
                }
                ("allOf", Value::Array(schemas)) => {
                    let mut members = Vec::with_capacity(schemas.len());
                    for (index, schema) in schemas.iter().enumerate() {
                        members.push(self.schema(schema, &place.at(&index.to_string())));
                    }
                    out.insert(key.clone(), Value::Array(members));
                }
                ("discriminator", Value::Object(discriminator)) => {
                    if let Some(property) = said(discriminator, "propertyName") {
                        out.insert(key.clone(), property.into());
                    }
                    if discriminator.len() > 1 {
                        self.context.lose_at(&place, "only the property can be said in v2");
                    }
                }
                ("type", Value::String(_)) => {
                    out.insert(key.clone(), value.clone());
                }
                ("type" | "properties" | "items" | "additionalProperties" | "allOf" | "discriminator", _) => {
                    self.context.lose_at(&place, "has another shape than it may have");
                }
                (key, value) if is_plain_keyword(key) => {
                    out.insert(key.into(), self.context.copy(value));
                }
                _ => self.context.lose_at(&place, "is no keyword of v2"),
            }
        }
        match union {
            // Kubernetes calls both strings in v2, and clients know them by format and name.
            Some(Union::IntOrString) if said(&out, "format") == Some("int-or-string") => {
                out.insert("type".into(), "string".into());
                out.remove("x-kubernetes-int-or-string");
            }
            Some(Union::Quantity) => {
                out.insert("type".into(), "string".into());
            }
            _ => {}
        }
        unwrap_reference(out)
    }

    fn servers(&mut self, servers: &Value, out: &mut Map<String, Value>, place: &DocumentPath<'_>) {
        let urls: Vec<&str> = servers
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|server| server.get("url")?.as_str())
            .collect();
        let mut schemes = Vec::new();
        let mut known: Option<(&str, &str)> = None;
        for (index, url) in urls.iter().enumerate() {
            let (scheme, rest) = match url.split_once("://") {
                Some((scheme, rest)) => (Some(scheme), Some(rest)),
                None => (None, url.strip_prefix("//")),
            };
            let (host, base) = match rest {
                Some(rest) => rest
                    .split_once('/')
                    .map_or((rest, ""), |(host, _)| (host, rest.get(host.len()..).unwrap_or_default())),
                None => ("", *url),
            };
            let fits = known.is_none_or(|known| known == (host, base));
            if !fits || url.contains('{') {
                self.context.lose_at(&place.at(&index.to_string()), "v2 has one host and one base path");
                continue;
            }
            known = Some((host, base));
            schemes.extend(scheme.map(Value::from));
        }
        if let Some((host, base)) = known {
            for (key, value) in [("host", host), ("basePath", base)] {
                if !value.is_empty() {
                    out.insert(key.into(), value.into());
                }
            }
            if !schemes.is_empty() {
                out.insert("schemes".into(), Value::Array(schemes));
            }
        }
    }

    fn security_scheme(&mut self, scheme: &Value, place: &DocumentPath<'_>) -> Option<Value> {
        let mut out = match self.context.copy(scheme) {
            Value::Object(out) => out,
            _ => {
                self.context.lose_at(place, "is not an object");
                return None;
            }
        };
        match (said(&out, "type"), said(&out, "scheme").map(str::to_ascii_lowercase).as_deref()) {
            (Some("http"), Some("basic")) => {
                out.remove("scheme");
                out.insert("type".into(), "basic".into());
            }
            (Some("http"), Some("bearer")) => {
                self.context.lose_at(place, "that the header holds a bearer token");
                out.remove("scheme");
                out.remove("bearerFormat");
                out.insert("type".into(), "apiKey".into());
                out.insert("in".into(), "header".into());
                out.insert("name".into(), "Authorization".into());
            }
            (Some("oauth2"), _) => {
                let flows = out.remove("flows").unwrap_or_default();
                let mut flows = flows.as_object().into_iter().flatten();
                if let Some((name, details)) = flows.next() {
                    let name = match name.as_str() {
                        "clientCredentials" => "application",
                        "authorizationCode" => "accessCode",
                        name => name,
                    };
                    out.insert("flow".into(), name.into());
                    for (key, value) in details.as_object().into_iter().flatten() {
                        match key.as_str() {
                            "authorizationUrl" | "tokenUrl" | "scopes" => {
                                out.insert(key.clone(), value.clone());
                            }
                            _ => self.context.lose_at(&place.at(key), "has no place in v2"),
                        }
                    }
                }
                if flows.next().is_some() {
                    self.context.lose_at(&place.at("flows"), "v2 has one flow a scheme");
                }
            }
            (Some("apiKey"), _) if said(&out, "in") != Some("cookie") => {}
            _ => {
                self.context.lose_at(place, "is no security scheme that v2 knows");
                return None;
            }
        }
        Some(Value::Object(out))
    }
}

/// The bodies and headers that what becomes part of v2 uses, by section and name.
fn used_parts(source: &Value) -> BTreeSet<(&'static str, String)> {
    const SECTIONS: [&str; 3] = ["/components/responses", "/components/requestBodies", "/components/headers"];
    let responses = source.pointer("/components/responses").and_then(Value::as_object);
    let responses = responses.into_iter().flat_map(Map::keys).map(|name| (0, name.clone()));
    let paths = source.get("paths").and_then(Value::as_object).into_iter().flatten();
    let items = paths.filter(|(path, _)| !path.starts_with("x-")).map(|(_, item)| item);
    let parts = references::closure(source, &SECTIONS, items, responses);
    let names = ["responses", "requestBodies", "headers"];
    parts.into_iter().filter_map(|(section, name)| Some((*names.get(section)?, name))).collect()
}

/// A parameter that v2 can say.
fn is_sayable(parameter: &Value) -> bool {
    let location = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    ["query", "header", "path"].contains(&location) && parameter.get("name").is_some_and(Value::is_string)
}

/// Alternatives that v2 has a convention for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Union {
    IntOrString,
    Quantity,
}

fn known_union(fields: &Map<String, Value>, is_quantity: bool) -> Option<Union> {
    let members = fields.get("anyOf").or_else(|| fields.get("oneOf"))?.as_array()?;
    if fields.contains_key("type") || (fields.contains_key("anyOf") && fields.contains_key("oneOf")) {
        return None;
    }
    let mut types = members
        .iter()
        .map(|member| member.as_object().filter(|member| member.len() == 1)?.get("type")?.as_str());
    match (types.next(), types.next(), types.next()) {
        (Some(Some("integer")), Some(Some("string")), None) => {
            let says = said(fields, "format") == Some("int-or-string")
                || is_true(fields, "x-kubernetes-int-or-string");
            says.then_some(Union::IntOrString)
        }
        (Some(Some("string")), Some(Some("number")), None) => is_quantity.then_some(Union::Quantity),
        _ => None,
    }
}

/// A reference wrapped for v3's sake, as Kubernetes writes it in v2: with what
/// describes the field beside it.
fn unwrap_reference(mut schema: Map<String, Value>) -> Value {
    let is_described = schema.keys().all(|key| {
        ["allOf", "default", "description", "title"].contains(&key.as_str()) || key.starts_with("x-")
    });
    let reference = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) if is_described => only.get("$ref").cloned(),
        _ => None,
    };
    if let Some(reference) = reference {
        schema.remove("allOf");
        schema.insert("$ref".into(), reference);
    }
    Value::Object(schema)
}
