//! Writing a document as OpenAPI 3.0 JSON.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;
use sha1::{Digest, Sha1};
use sternpost_schema::{
    Schema,
    write::{self, Dialect, Style},
};

use crate::{
    document::{Body, Content, Document, Method, Operation, Parameter, PathItem, Response},
    names::Naming,
    wrappers,
};

/// The document's bytes: compact, keys sorted, the same for the same document.
pub fn write(document: &Document, naming: Naming) -> Vec<u8> {
    let style = Style { dialect: Dialect::V3, name: naming.function() };
    let shared = match naming {
        Naming::Short => Shared::of(document, style),
        Naming::Upstream => Shared::default(),
    };
    let writer = Writer { style, shared };
    let mut out = Vec::with_capacity(64 * 1024);
    writer.document(&mut out, document, naming);
    out
}

struct Writer {
    style: Style,
    shared: Shared,
}

/// The same in both versions.
pub(crate) fn info(out: &mut Vec<u8>, document: &Document) {
    let mut object = Object::open(out);
    let mut rest = document.info_rest.iter().peekable();
    object.rest_before("title", &mut rest);
    object.text("title", &document.title);
    object.rest_before("version", &mut rest);
    object.text("version", &document.version);
    object.rest(rest);
}

impl Writer {
    fn document(&self, out: &mut Vec<u8>, document: &Document, naming: Naming) {
        let mut object = Object::open(out);
        let mut rest = document.rest.iter().peekable();
        if self.has_components(document) {
            object.rest_before("components", &mut rest);
            object.field("components", |out| self.components(out, document, naming));
        }
        object.rest_before("info", &mut rest);
        object.field("info", |out| info(out, document));
        object.rest_before("openapi", &mut rest);
        object.text("openapi", "3.0.0");
        object.rest_before("paths", &mut rest);
        object.field("paths", |out| {
            let paths = document.paths.iter().map(|(path, item)| (&**path, item));
            write::object(out, paths, |out, item| self.path_item(out, item));
        });
        object.rest(rest);
    }

    fn has_components(&self, document: &Document) -> bool {
        !(document.schemas.is_empty()
            && document.security_schemes.is_empty()
            && document.components_rest.is_empty()
            && self.shared.by_name.is_empty())
    }

    fn components(&self, out: &mut Vec<u8>, document: &Document, naming: Naming) {
        let mut object = Object::open(out);
        let mut rest = document.components_rest.iter().peekable();
        if !self.shared.by_name.is_empty() {
            object.rest_before("parameters", &mut rest);
            object.field("parameters", |out| {
                let parameters = self.shared.by_name.iter().map(|(name, json)| (&**name, json));
                write::object(out, parameters, |out, json| out.extend_from_slice(json));
            });
        }
        if !document.schemas.is_empty() {
            object.rest_before("schemas", &mut rest);
            object.field("schemas", |out| {
                // Spelling changes names, so it changes their order.
                let schemas: BTreeMap<Cow<'_, str>, (&Arc<str>, &Arc<Schema>)> =
                    document.schemas.iter().map(|entry| (naming.apply(entry.0), entry)).collect();
                let schemas = schemas.iter().map(|(name, entry)| (&**name, *entry));
                write::object(out, schemas, |out, (name, schema)| {
                    let schema = match naming {
                        Naming::Short => wrappers::state_facts(name, schema),
                        Naming::Upstream => Cow::Borrowed(&**schema),
                    };
                    write::schema(out, &schema, self.style);
                });
            });
        }
        if !document.security_schemes.is_empty() {
            object.rest_before("securitySchemes", &mut rest);
            object.field("securitySchemes", |out| {
                let schemes = document.security_schemes.iter().map(|(name, json)| (&**name, json));
                write::object(out, schemes, write::value);
            });
        }
        object.rest(rest);
    }

    fn path_item(&self, out: &mut Vec<u8>, item: &PathItem) {
        let mut object = Object::open(out);
        let mut rest = item.rest.iter().peekable();
        let mut parameters = Some(&item.parameters).filter(|parameters| !parameters.is_empty());
        for (method, operation) in &item.operations {
            if *method > Method::Options
                && let Some(parameters) = parameters.take()
            {
                object.rest_before("parameters", &mut rest);
                object.field("parameters", |out| self.parameters(out, parameters, None));
            }
            object.rest_before(method.as_str(), &mut rest);
            object.field(method.as_str(), |out| self.operation(out, operation, *method));
        }
        if let Some(parameters) = parameters {
            object.rest_before("parameters", &mut rest);
            object.field("parameters", |out| self.parameters(out, parameters, None));
        }
        object.rest(rest);
    }

    fn operation(&self, out: &mut Vec<u8>, operation: &Operation, method: Method) {
        let mut object = Object::open(out);
        let mut rest = operation.rest.iter().peekable();
        if let Some(text) = &operation.description {
            object.rest_before("description", &mut rest);
            object.text("description", text);
        }
        if let Some(id) = &operation.operation_id {
            object.rest_before("operationId", &mut rest);
            object.text("operationId", id);
        }
        if !operation.parameters.is_empty() {
            object.rest_before("parameters", &mut rest);
            object.field("parameters", |out| self.parameters(out, &operation.parameters, Some(method)));
        }
        if let Some(body) = &operation.body {
            object.rest_before("requestBody", &mut rest);
            object.field("requestBody", |out| self.body(out, body));
        }
        object.rest_before("responses", &mut rest);
        object.field("responses", |out| {
            let responses = operation.responses.iter().map(|(code, response)| (&**code, response));
            write::object(out, responses, |out, response| self.response(out, response));
        });
        if !operation.tags.is_empty() {
            object.rest_before("tags", &mut rest);
            object
                .field("tags", |out| write::array(out, &operation.tags, |out, tag| write::string(out, tag)));
        }
        object.rest(rest);
    }

    fn parameters(&self, out: &mut Vec<u8>, parameters: &[Parameter], method: Option<Method>) {
        write::array(out, parameters, |out, parameter| {
            match self.shared.reference(parameter, method, self.style) {
                Some(name) => {
                    out.extend_from_slice(b"{\"$ref\":");
                    write::string(out, &format!("#/components/parameters/{name}"));
                    out.push(b'}');
                }
                None => write_parameter(out, parameter, self.style),
            }
        });
    }

    fn body(&self, out: &mut Vec<u8>, body: &Body) {
        let mut object = Object::open(out);
        let mut rest = body.rest.iter().peekable();
        object.rest_before("content", &mut rest);
        object.field("content", |out| self.content(out, &body.content));
        if let Some(text) = &body.description {
            object.rest_before("description", &mut rest);
            object.text("description", text);
        }
        if body.required {
            object.rest_before("required", &mut rest);
            object.field("required", |out| out.extend_from_slice(b"true"));
        }
        object.rest(rest);
    }

    fn response(&self, out: &mut Vec<u8>, response: &Response) {
        let mut object = Object::open(out);
        let mut rest = response.rest.iter().peekable();
        if !response.content.is_empty() {
            object.rest_before("content", &mut rest);
            object.field("content", |out| self.content(out, &response.content));
        }
        object.rest_before("description", &mut rest);
        object.text("description", &response.description);
        object.rest(rest);
    }

    fn content(&self, out: &mut Vec<u8>, content: &Content) {
        let content = content.iter().map(|(name, media)| (&**name, media));
        write::object(out, content, |out, media| {
            let mut object = Object::open(out);
            let mut rest = media.rest.iter().peekable();
            if let Some(schema) = &media.schema {
                object.rest_before("schema", &mut rest);
                object.field("schema", |out| write::schema(out, schema, self.style));
            }
            object.rest(rest);
        });
    }
}

fn write_parameter(out: &mut Vec<u8>, parameter: &Parameter, style: Style) {
    let mut object = Object::open(out);
    let mut rest = parameter.rest.iter().peekable();
    if let Some(text) = &parameter.description {
        object.rest_before("description", &mut rest);
        object.text("description", text);
    }
    object.rest_before("in", &mut rest);
    object.text("in", parameter.location.as_str());
    object.rest_before("name", &mut rest);
    object.text("name", &parameter.name);
    if parameter.required {
        object.rest_before("required", &mut rest);
        object.field("required", |out| out.extend_from_slice(b"true"));
    }
    object.rest_before("schema", &mut rest);
    object.field("schema", |out| write::schema(out, &parameter.schema, style));
    object.rest(rest);
}

/// The parameters that stand under `components`, by name, already written.
#[derive(Default)]
struct Shared {
    by_name: BTreeMap<String, Vec<u8>>,
    by_json: HashMap<Vec<u8>, String>,
}

impl Shared {
    /// What is used more than once is shared, except for what clients look
    /// for in place: kubectl reads `fieldValidation` of a PATCH only in the
    /// operation itself, and `name` says which kind it names.
    fn of(document: &Document, style: Style) -> Self {
        let mut uses: BTreeMap<Vec<u8>, (usize, &Parameter)> = BTreeMap::new();
        for item in document.paths.values() {
            let own = item.parameters.iter().map(|parameter| (parameter, None));
            let of_operations = item.operations.iter().flat_map(|(method, operation)| {
                operation.parameters.iter().map(|parameter| (parameter, Some(*method)))
            });
            for (parameter, method) in own.chain(of_operations) {
                if is_shareable(parameter, method) {
                    let mut json = Vec::new();
                    write_parameter(&mut json, parameter, style);
                    uses.entry(json).or_insert((0, parameter)).0 += 1;
                }
            }
        }
        let mut shared = Self::default();
        for (json, (_, parameter)) in uses.into_iter().filter(|(_, (count, _))| *count > 1) {
            let name = shared.name(&json, parameter);
            shared.by_name.insert(name.clone(), json.clone());
            shared.by_json.insert(json, name);
        }
        shared
    }

    /// `LOCATION.NAME.` and as many digits of the SHA-1 as tell it from the others.
    fn name(&self, json: &[u8], parameter: &Parameter) -> String {
        const SHORTEST: usize = 6;
        let digits: String = Sha1::digest(json).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut names = (SHORTEST..=digits.len()).map(|length| {
            let digits = digits.get(..length).unwrap_or(&digits);
            format!("{}.{}.{digits}", parameter.location.as_str(), parameter.name)
        });
        names
            .clone()
            .find(|name| !self.by_name.contains_key(name))
            .or_else(|| names.next_back())
            .unwrap_or_default()
    }

    fn reference(&self, parameter: &Parameter, method: Option<Method>, style: Style) -> Option<&str> {
        if self.by_json.is_empty() || !is_shareable(parameter, method) {
            return None;
        }
        let mut json = Vec::new();
        write_parameter(&mut json, parameter, style);
        self.by_json.get(&json).map(String::as_str)
    }
}

fn is_shareable(parameter: &Parameter, method: Option<Method>) -> bool {
    match &*parameter.name {
        "name" => false,
        "fieldValidation" => method != Some(Method::Patch),
        _ => true,
    }
}

/// A JSON object being written; keys must come sorted. Closes when dropped.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    pub(crate) fn field(&mut self, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        write::string(self.out, key);
        self.out.push(b':');
        value(self.out);
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.field(key, |out| write::string(out, text));
    }

    /// The kept keywords that sort before `key`.
    pub(crate) fn rest_before<'b>(
        &mut self,
        key: &str,
        rest: &mut std::iter::Peekable<impl Iterator<Item = (&'b Arc<str>, &'b Value)>>,
    ) {
        while let Some((name, value)) = rest.next_if(|(name, _)| &***name < key) {
            self.field(name, |out| write::value(out, value));
        }
    }

    pub(crate) fn rest<'b>(&mut self, rest: impl Iterator<Item = (&'b Arc<str>, &'b Value)>) {
        for (name, value) in rest {
            self.field(name, |out| write::value(out, value));
        }
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.out.push(b'}');
    }
}
