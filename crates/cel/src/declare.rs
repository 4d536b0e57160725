//! What a caller says about a variable: its type, and how large it can be,
//! usually taken from a schema.
//!
//! Start with [`Declaration::from_schema`].

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use serde_json::Value as Json;
use sternpost_meta::expression::is_reserved;
use sternpost_schema::ir::{Additional, Schema, Type as SchemaType};

use crate::types::Type;

/// The largest request, in bytes: what bounds everything no schema bounds.
pub const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The largest text in such a request, without its quotes.
const UNBOUNDED: u64 = MAX_REQUEST_BYTES - 2;
/// Schemas nested deeper than this have no type below.
pub const MAX_SCHEMA_DEPTH: usize = 256;

/// The root of the objects that apply configurations make.
const MADE: &str = "Object";
/// What JSON patches are made of.
const JSON_PATCH: &str = "JSONPatch";

/// The type of a variable or of something within it.
#[derive(Debug, Clone)]
pub struct Declaration {
    pub(crate) ty: Type,
    pub(crate) shape: Shape,
    /// The largest size, where a size is recorded; 0 for scalars and objects.
    pub(crate) max: u64,
    /// The fewest bytes of JSON a value takes.
    pub(crate) min: u64,
    pub(crate) nullable: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// JSON as it is.
    Dyn,
    String,
    Bytes,
    DateTime,
    Date,
    Duration,
    Int,
    Double,
    Bool,
    IntOrString,
    List {
        items: Arc<Declaration>,
        kind: ListKind,
    },
    Map(Arc<Declaration>),
    Object(Arc<Object>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    Map(Vec<Arc<str>>),
}

/// An object type: fields by the names expressions use for them.
#[derive(Debug, Clone)]
pub struct Object {
    pub(crate) name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Field>,
}

impl Object {
    /// A field as objects spell it.
    pub(crate) fn spelled(&self, property: &str) -> Option<&Field> {
        let is_it = |field: &&Field| *field.property == *property;
        let plain = self.fields.get(property).filter(is_it);
        plain.or_else(|| self.fields.get(&*escape(property)?).filter(is_it))
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// As the object spells it.
    pub property: Arc<str>,
    pub declaration: Arc<Declaration>,
}

/// Whether a schema is that of a whole resource, which has type and object
/// metadata whatever the schema says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaPosition {
    ResourceRoot,
    Within,
}

impl Declaration {
    /// A variable that may hold anything.
    pub fn dynamic() -> Self {
        Self { ty: Type::Dyn, shape: Shape::Dyn, max: UNBOUNDED, min: 1, nullable: true }
    }

    pub fn string() -> Self {
        Self::scalar(Type::String, Shape::String, UNBOUNDED, 2)
    }

    pub fn int() -> Self {
        Self::scalar(Type::Int, Shape::Int, 0, 1)
    }

    pub fn boolean() -> Self {
        Self::scalar(Type::Bool, Shape::Bool, 0, 4)
    }

    pub fn list(items: Declaration) -> Self {
        let max = UNBOUNDED / (items.min + 1);
        let ty = Type::list(items.ty.clone());
        Self {
            ty,
            shape: Shape::List { items: Arc::new(items), kind: ListKind::Atomic },
            max,
            min: 2,
            nullable: false,
        }
    }

    pub fn map(values: Declaration) -> Self {
        let max = UNBOUNDED / (values.min + 6);
        let ty = Type::map(Type::String, values.ty.clone());
        Self { ty, shape: Shape::Map(Arc::new(values)), max, min: 2, nullable: false }
    }

    /// An object type made by hand, for variables that no schema describes.
    pub fn object(name: &str, fields: impl IntoIterator<Item = (&'static str, Declaration)>) -> Self {
        let fields = fields.into_iter().filter_map(|(property, declaration)| {
            let field = Field { property: property.into(), declaration: Arc::new(declaration) };
            Some((escape(property)?.into(), field))
        });
        Self::of_object(name, fields.collect(), 2)
    }

    /// A variable of the type that an expression has.
    pub fn of_type(ty: Type) -> Self {
        Self { ty, ..Self::dynamic() }
    }

    /// The `authorizer` variable's type, of which the caller binds the value.
    pub fn authorizer() -> Self {
        Self::scalar(Type::Opaque(crate::types::AUTHORIZER), Shape::Dyn, 0, 0)
    }

    /// The type of `authorizer.requestResource`.
    pub fn resource_check() -> Self {
        Self::scalar(Type::Opaque(crate::types::RESOURCE_CHECK), Shape::Dyn, 0, 0)
    }

    /// The same, where the value may be missing: `oldSelf` under `optionalOldSelf`.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.ty = Type::optional(self.ty);
        self
    }

    /// The declaration of what a structural schema describes, or nothing
    /// where CEL has no type for it (preserved unknown fields without a type).
    /// Object types are named `name` and by their place below it.
    pub fn from_schema(schema: &Schema, place: SchemaPosition, name: &str) -> Option<Self> {
        from_schema(schema, place, name, MAX_SCHEMA_DEPTH)
    }

    /// The declaration of a definition that refers to others, which `find` finds; nothing where CEL has no
    /// type for it.
    pub fn from_definition(name: &str, find: &dyn Fn(&str) -> Option<Arc<Schema>>) -> Option<Self> {
        let whole = inlined(&Schema::reference(name), find, &mut Vec::new());
        Self::from_schema(&whole, SchemaPosition::Within, name)
    }

    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// What is declared under a property, as objects spell it.
    pub fn property(&self, name: &str) -> Option<&Arc<Declaration>> {
        let Shape::Object(object) = &self.shape else { return None };
        let field = object.fields.get(escape(name)?.as_str())?;
        (*field.property == *name).then_some(&field.declaration)
    }

    /// What is declared for the items of a list.
    pub fn items(&self) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// What is declared for the values of a map.
    pub fn values(&self) -> Option<&Arc<Declaration>> {
        match &self.shape {
            Shape::Map(values) => Some(values),
            _ => None,
        }
    }

    /// The fewest bytes of JSON a value takes: what bounds how often a rule
    /// on it can run where no limit of the schema does.
    pub fn min_serialized_size(&self) -> u64 {
        self.min
    }

    fn scalar(ty: Type, shape: Shape, max: u64, min: u64) -> Self {
        Self { ty, shape, max, min, nullable: false }
    }

    pub(crate) fn of_object(name: &str, fields: BTreeMap<Arc<str>, Field>, min: u64) -> Self {
        let object = Arc::new(Object { name: name.into(), fields });
        Self { ty: Type::Object(object.clone()), shape: Shape::Object(object), max: 0, min, nullable: false }
    }
}

/// How a property is spelled in expressions, if it can be.
pub fn escape(property: &str) -> Option<String> {
    if is_reserved(property) {
        return Some(format!("__{property}__"));
    }
    let starts_well =
        property.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.' | '-' | '/'));
    if !starts_well {
        return None;
    }
    let mut out = String::with_capacity(property.len());
    let mut rest = property;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Some(out)
}

/// A quantity may be text or a number, and has no type.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// May be either, and is read as what it is.
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// With definitions in place of references. Where one is within itself, it ends.
fn inlined(
    schema: &Schema,
    find: &dyn Fn(&str) -> Option<Arc<Schema>>,
    around: &mut Vec<Arc<str>>,
) -> Schema {
    let only = match schema.all_of.as_slice() {
        [only] => only.reference.as_ref(),
        _ => None,
    };
    if let Some(name) = schema.reference.as_ref().or(only) {
        let is_around = around.contains(name) || around.len() >= MAX_SCHEMA_DEPTH;
        return match (&**name, find(name)) {
            (INT_OR_STRING, _) => Schema::default().with("x-kubernetes-int-or-string", true),
            (QUANTITY, _) | (_, None) => Schema::default(),
            _ if is_around => Schema::default(),
            (_, Some(definition)) => {
                around.push(name.clone());
                let whole = inlined(&definition, find, around);
                around.pop();
                whole
            }
        };
    }
    let mut whole = schema.clone();
    for property in whole.properties.values_mut() {
        *property = inlined(property, find, around);
    }
    if let Some(items) = &mut whole.items {
        **items = inlined(items, find, around);
    }
    if let Some(Additional::Schema(values)) = &mut whole.additional {
        **values = inlined(values, find, around);
    }
    whole
}

fn from_schema(schema: &Schema, place: SchemaPosition, name: &str, depth: usize) -> Option<Declaration> {
    let depth = depth.checked_sub(1)?;
    let flag = |keyword: &str| schema.rest.get(keyword).and_then(Json::as_bool).unwrap_or(false);
    let limit = |keyword: &str| {
        schema.rest.get(keyword).and_then(Json::as_i64).map(|limit| u64::try_from(limit).unwrap_or(0))
    };
    let length = limit("maxLength");
    let mut declaration = if flag("x-kubernetes-int-or-string") {
        let max = length.map_or(UNBOUNDED, |length| length.saturating_mul(4));
        Declaration::scalar(Type::Dyn, Shape::IntOrString, max, 1)
    } else {
        match schema.kind? {
            SchemaType::Integer => Declaration::int(),
            SchemaType::Number => Declaration::scalar(Type::Double, Shape::Double, 0, 1),
            SchemaType::Boolean => Declaration::boolean(),
            SchemaType::String => match schema.format.as_deref() {
                Some("byte") => {
                    Declaration::scalar(Type::Bytes, Shape::Bytes, length.unwrap_or(UNBOUNDED), 2)
                }
                Some("date-time") => Declaration::scalar(Type::Timestamp, Shape::DateTime, 32, 21),
                Some("date") => Declaration::scalar(Type::Timestamp, Shape::Date, 12, 12),
                Some("duration") => Declaration::scalar(Type::Duration, Shape::Duration, 32, 3),
                _ => {
                    let longest = schema.enum_values.iter().filter_map(Json::as_str).map(str::len).max();
                    let max = match (length, longest) {
                        (Some(length), _) => length.saturating_mul(4),
                        (None, Some(longest)) => u64::try_from(longest).unwrap_or(UNBOUNDED),
                        (None, None) => UNBOUNDED,
                    };
                    Declaration::scalar(Type::String, Shape::String, max, 2)
                }
            },
            SchemaType::Array => {
                let items = from_schema(
                    schema.items.as_deref()?,
                    SchemaPosition::Within,
                    &format!("{name}.@idx"),
                    depth,
                )?;
                let kind = match schema.rest.get("x-kubernetes-list-type").and_then(Json::as_str) {
                    Some("set") => ListKind::Set,
                    Some("map") => ListKind::Map(
                        schema
                            .rest
                            .get("x-kubernetes-list-map-keys")
                            .and_then(Json::as_array)
                            .map(|keys| keys.iter().filter_map(Json::as_str).map(Into::into).collect())
                            .unwrap_or_default(),
                    ),
                    _ => ListKind::Atomic,
                };
                let mut list = Declaration::list(items);
                if let Shape::List { kind: of_list, .. } = &mut list.shape {
                    *of_list = kind;
                }
                if let Some(max) = limit("maxItems") {
                    list.max = max;
                }
                list
            }
            SchemaType::Object => {
                let embedded =
                    place == SchemaPosition::ResourceRoot || flag("x-kubernetes-embedded-resource");
                match &schema.additional {
                    Some(Additional::Schema(values)) if schema.properties.is_empty() => {
                        let values =
                            from_schema(values, SchemaPosition::Within, &format!("{name}.@elem"), depth)?;
                        let mut map = Declaration::map(values);
                        if let Some(max) = limit("maxProperties") {
                            map.max = max;
                        }
                        map
                    }
                    _ => object(schema, embedded, name, depth),
                }
            }
        }
    };
    declaration.nullable = schema.nullable;
    Some(declaration)
}

fn object(schema: &Schema, embedded: bool, name: &str, depth: usize) -> Declaration {
    let mut fields = BTreeMap::new();
    let mut min: u64 = 2;
    let required: HashSet<&Arc<str>> = schema.required.iter().collect();
    for (property, schema_of) in &schema.properties {
        if embedded && matches!(property.as_ref(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let Some(declaration) =
            from_schema(schema_of, SchemaPosition::Within, &format!("{name}.{property}"), depth)
        else {
            continue;
        };
        if required.contains(property) && schema_of.default.is_none() {
            let length = u64::try_from(property.len()).unwrap_or(u64::MAX);
            min = min.saturating_add(length).saturating_add(declaration.min).saturating_add(4);
        }
        if let Some(escaped) = escape(property) {
            let field = Field { property: property.clone(), declaration: Arc::new(declaration) };
            fields.insert(escaped.into(), field);
        }
    }
    if embedded {
        let text = || Arc::new(Declaration::string());
        let metadata = ["name", "generateName"]
            .map(|property| (property.into(), Field { property: property.into(), declaration: text() }));
        let metadata = Declaration::of_object(&format!("{name}.metadata"), metadata.into(), 2);
        for property in ["apiVersion", "kind"] {
            fields.insert(property.into(), Field { property: property.into(), declaration: text() });
        }
        fields.insert(
            "metadata".into(),
            Field { property: "metadata".into(), declaration: Arc::new(metadata) },
        );
    }
    Declaration::of_object(name, fields, min)
}

impl Object {
    /// The type that mutations make objects of: `JSONPatch`, or `Object` and what is below it by the path of
    /// its fields, each of which may be anything.
    pub(crate) fn made(name: &str) -> Option<Arc<Self>> {
        let fields = match name {
            JSON_PATCH => {
                let text = |field| (field, Declaration::string());
                let fields = [text("op"), text("path"), text("from"), ("value", Declaration::dynamic())];
                fields
                    .into_iter()
                    .map(|(name, declaration)| {
                        let property: Arc<str> = name.into();
                        (property.clone(), Field { property, declaration: Arc::new(declaration) })
                    })
                    .collect()
            }
            name if name == MADE || name.strip_prefix(MADE).is_some_and(|rest| rest.starts_with('.')) => {
                BTreeMap::new()
            }
            _ => return None,
        };
        Some(Arc::new(Self { name: name.into(), fields }))
    }

    /// Whether fields need no declaration.
    fn is_open(&self) -> bool {
        self.name.strip_prefix(MADE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Whether expressions make such objects, which then have a type of their own.
    pub(crate) fn is_message(&self) -> bool {
        self.is_open() || *self.name == *JSON_PATCH || self.is_protobuf()
    }

    /// Whether it is one of protobuf's messages that stand for themselves.
    pub(crate) fn is_protobuf(&self) -> bool {
        self.name.starts_with("google.protobuf.")
    }

    /// The type of a field, if there can be one of this name.
    pub(crate) fn field_type(&self, name: &str) -> Option<Type> {
        match self.field(name) {
            Some(field) => Some(field.declaration.ty.clone()),
            None => self.is_open().then_some(Type::Dyn),
        }
    }

    /// A field by its name in expressions: escaped, or a keyword as it is.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name).or_else(|| {
            self.fields.get(format!("__{name}__").as_str()).filter(|field| *field.property == *name)
        })
    }
}
