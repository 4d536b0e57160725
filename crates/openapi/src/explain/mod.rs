//! What a type looks like, for people: the text of `kubectl explain`, and the
//! same as JSON and Markdown.
//!
//! [`explain`] takes a [`Subject`] (a kind, its schema, the definitions it
//! refers to) and a path of field names, and gives an [`Explanation`], which
//! [`render`] writes. [`names::find`] turns what a person typed into a kind and
//! such a path; [`sources::Sources`] collects subjects from manifests and documents.
//!
//! The plain text equals kubectl's of 1.32 with OpenAPI v3, odd spaces included:
//! people and scripts compare the two. Where kubectl fails (a field without
//! any schema) or stops half-way (a definition that is only a reference to
//! another), this goes on.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::gvk::GroupVersionKind;
use sternpost_schema::{Additional, Schema, Type};

mod crd;
pub mod names;
pub mod render;
pub mod sources;

/// How many schema nodes one explanation may visit. The largest built-in kind
/// needs a hundredth; definitions that refer to each other need it all.
pub const MAX_NODES: usize = 500_000;

/// How deeply fields, and what they are made of, may nest below the first.
pub const MAX_NESTING: usize = 300;

/// A kind and everything needed to explain it.
#[derive(Debug, Clone)]
pub struct Subject {
    pub gvk: GroupVersionKind,
    pub schema: Arc<Schema>,
    pub definitions: Definitions,
}

/// Where references lead.
#[derive(Debug, Clone)]
pub enum Definitions {
    /// To the catalogue of built-in types.
    BuiltIn,
    /// To the definitions of one document.
    Document(Arc<BTreeMap<Arc<str>, Arc<Schema>>>),
}

/// Whether the fields of fields are explained too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// One level, with descriptions.
    Fields,
    /// All levels, names and types only.
    Recursive,
}

/// A kind, or one field of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub gvk: GroupVersionKind,
    /// The names of the fields that lead here; empty for the kind itself.
    pub path: Vec<String>,
    /// The last field of the path; its `fields` are empty.
    pub field: Option<Field>,
    /// What is said at the field, then of the type it has.
    pub descriptions: Vec<Arc<str>>,
    pub fields: Vec<Field>,
    pub depth: Depth,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: Arc<str>,
    /// `string`, `[]Container`, `map[string]Quantity`, `Object`.
    pub kind: String,
    pub required: bool,
    pub enum_values: Vec<Value>,
    pub default: Option<Value>,
    pub description: Option<Arc<str>>,
    /// Only where [`Depth::Recursive`] was asked for.
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// Names the last field of the path, whichever is missing, as kubectl does.
    #[error("field {} does not exist", go_quote(.0))]
    NoField(String),
    #[error("the schema is too large to explain: more than {MAX_NODES} parts")]
    TooLarge,
    #[error("the schema is too deep to explain: more than {MAX_NESTING} levels")]
    TooDeep,
}

/// Explains the kind, or the field that `path` leads to.
pub fn explain(subject: &Subject, path: &[String], depth: Depth) -> Result<Explanation, ExplainError> {
    let mut walk = Walk { definitions: &subject.definitions, visited: 0, depth };
    let mut schema: &Schema = &subject.schema;
    let mut field = None;
    if let Some(last) = path.last() {
        let found = walk.find(schema, path, 0)?.ok_or_else(|| ExplainError::NoField(last.clone()))?;
        field = Some(walk.field(found.name, found.schema, found.required));
        schema = found.schema;
    }
    // The type asked for does not count as met before: a recursive type shows
    // its own fields once more.
    if schema.is_bare_reference()
        && let Some(target) = schema.reference.as_deref().and_then(|name| subject.definitions.get(name))
    {
        schema = target;
    }
    let mut descriptions = Vec::new();
    walk.each(schema, &mut Trail::default(), &mut |_, node, _| {
        descriptions.extend(node.description.clone().filter(|text| !text.is_empty()));
        Ok(())
    })?;
    let fields = walk.fields(schema, &mut Trail::default())?;
    Ok(Explanation { gvk: subject.gvk.clone(), path: path.to_vec(), field, descriptions, fields, depth })
}

impl Definitions {
    pub fn get(&self, name: &str) -> Option<&Schema> {
        match self {
            Definitions::BuiltIn => sternpost_builtin::definition(name).map(|schema| &**schema),
            Definitions::Document(schemas) => schemas.get(name).map(|schema| &**schema),
        }
    }
}

impl Subject {
    /// A kind of the catalogue.
    pub fn built_in(gvk: GroupVersionKind) -> Option<Self> {
        let name = sternpost_builtin::definition_name(&gvk)?;
        let schema = sternpost_builtin::definition(&name)?.clone();
        Some(Self { gvk, schema, definitions: Definitions::BuiltIn })
    }

    /// A kind of a document: the definition that says it is this kind.
    pub fn in_document(
        gvk: GroupVersionKind,
        schemas: &Arc<BTreeMap<Arc<str>, Arc<Schema>>>,
    ) -> Option<Self> {
        let schema = schemas.values().find(|schema| gvks(schema).any(|found| found == gvk))?.clone();
        Some(Self { gvk, schema, definitions: Definitions::Document(schemas.clone()) })
    }
}

/// The kinds a definition says it is.
fn gvks(schema: &Schema) -> impl Iterator<Item = GroupVersionKind> {
    let said = schema.rest.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    said.into_iter().flatten().filter_map(gvk)
}

fn gvk(json: &Value) -> Option<GroupVersionKind> {
    let part = |key: &str| json.get(key).and_then(Value::as_str);
    Some(GroupVersionKind::new(part("group").unwrap_or_default(), part("version")?, part("kind")?))
}

struct Walk<'a> {
    definitions: &'a Definitions,
    visited: usize,
    depth: Depth,
}

struct FoundField<'a> {
    name: Arc<str>,
    schema: &'a Schema,
    required: bool,
}

/// The definitions entered on the way here, and how deep it is.
#[derive(Default)]
struct Trail<'a> {
    entered: Vec<&'a str>,
    nesting: usize,
}

type Visit<'a, 'v> = dyn FnMut(&mut Walk<'a>, &'a Schema, &mut Trail<'a>) -> Result<(), ExplainError> + 'v;

impl<'a> Walk<'a> {
    /// Visits the node and all that describe the same value or its elements, in
    /// the order their texts and fields are shown.
    fn each(
        &mut self,
        node: &'a Schema,
        trail: &mut Trail<'a>,
        visit: &mut Visit<'a, '_>,
    ) -> Result<(), ExplainError> {
        self.visited += 1;
        if self.visited > MAX_NODES {
            return Err(ExplainError::TooLarge);
        }
        if trail.nesting >= MAX_NESTING {
            return Err(ExplainError::TooDeep);
        }
        trail.nesting += 1;
        let result = self.parts(node, trail, visit);
        trail.nesting -= 1;
        result
    }

    fn parts(
        &mut self,
        node: &'a Schema,
        trail: &mut Trail<'a>,
        visit: &mut Visit<'a, '_>,
    ) -> Result<(), ExplainError> {
        visit(self, node, trail)?;
        if let Some(name) = node.reference.as_deref().filter(|name| !trail.entered.contains(name))
            && let Some(target) = self.definitions.get(name)
        {
            trail.entered.push(name);
            self.each(target, trail, visit)?;
            trail.entered.pop();
        }
        let additional = match &node.additional {
            Some(Additional::Schema(schema)) => Some(&**schema),
            _ => None,
        };
        for part in node.all_of.iter().chain(node.items.as_deref()).chain(additional) {
            self.each(part, trail, visit)?;
        }
        Ok(())
    }

    /// The field at the end of the path, by the first way that gets there.
    fn find(
        &mut self,
        schema: &'a Schema,
        path: &[String],
        nesting: usize,
    ) -> Result<Option<FoundField<'a>>, ExplainError> {
        let Some((first, rest)) = path.split_first() else { return Ok(None) };
        let mut found = None;
        self.each(schema, &mut Trail { entered: Vec::new(), nesting }, &mut |walk, node, trail| {
            if found.is_some() {
                return Ok(());
            }
            if let Some((name, property)) = node.properties.get_key_value(first.as_str()) {
                found = if rest.is_empty() {
                    Some(FoundField {
                        name: name.clone(),
                        schema: property,
                        required: node.required.contains(name),
                    })
                } else {
                    walk.find(property, rest, trail.nesting)?
                };
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn fields(&mut self, schema: &'a Schema, trail: &mut Trail<'a>) -> Result<Vec<Field>, ExplainError> {
        let mut fields = Vec::new();
        self.each(schema, trail, &mut |walk, node, trail| {
            for (name, property) in &node.properties {
                let mut field = walk.field(name.clone(), property, node.required.contains(name));
                if walk.depth == Depth::Recursive {
                    field.fields = walk.fields(property, trail)?;
                }
                fields.push(field);
            }
            Ok(())
        })?;
        Ok(fields)
    }

    fn field(&self, name: Arc<str>, schema: &Schema, required: bool) -> Field {
        Field {
            name,
            kind: self.type_of(schema),
            required,
            enum_values: schema.enum_values.clone(),
            default: schema.default.clone(),
            description: schema.description.clone().filter(|text| !text.is_empty()),
            fields: Vec::new(),
        }
    }

    /// What stands between the angle brackets.
    fn type_of(&self, schema: &Schema) -> String {
        if let Some(items) = schema.items.as_deref().filter(|items| !items.is_empty()) {
            return format!("[]{}", self.type_of(items));
        }
        if let Some(Additional::Schema(values)) = &schema.additional
            && !values.is_empty()
        {
            return format!("map[string]{}", self.type_of(values));
        }
        match (&schema.reference, &*schema.all_of) {
            (Some(name), []) => match self.definitions.get(name).and_then(|target| target.kind) {
                Some(kind) if kind != Type::Object => kind.to_string(),
                _ => name.rsplit(['.', '/']).next().unwrap_or(name).to_owned(),
            },
            (None, [only]) => self.type_of(only),
            _ => match schema.kind {
                Some(Type::Object) | None => "Object".to_owned(),
                Some(kind) => kind.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
