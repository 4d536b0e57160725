//! What merging needs to know of a schema, and nothing else.
//!
//! [`Topologies`] compiles named definitions on first use and keeps them;
//! [`Topologies::of`] finds one, [`Topologies::of_schema`] compiles a schema
//! that has no name. Strategic merge patch reads [`Field::patch`]; server-side
//! apply reads the rest.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use serde_json::Value;

use crate::{
    extension::{
        LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PATCH_MERGE_KEY, PATCH_STRATEGY, PRESERVE_UNKNOWN_FIELDS,
    },
    ir::{Additional, Schema, Type as SchemaType},
    names::Places,
};

/// A string in JSON that is not compared as one.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Somebody else's object, owned as a whole.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A place in an object: its type, and what this use of the type changes.
#[derive(Clone)]
pub struct Type {
    link: Link,
    /// Set where a field says how the map it refers to is owned.
    atomic_map: Option<bool>,
}

#[derive(Clone)]
enum Link {
    Here(Arc<Node>),
    Named(Arc<Named>),
}

/// What may stand at a place.
#[derive(Debug)]
pub enum Node {
    Scalar(Scalar),
    List(List),
    Map(Map),
    /// Anything. Maps are owned key by key, lists and all inside them as a whole.
    Deduced,
    /// Anything, owned as a whole.
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    Boolean,
    Numeric,
    String,
    /// Any of them: times, quantities, int-or-string.
    Untyped,
}

#[derive(Debug)]
pub struct List {
    pub items: Type,
    pub relation: Relation,
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Relation {
    /// They are not: the list is one value.
    #[default]
    Atomic,
    /// By value.
    Set,
    /// By these fields of theirs.
    Map(Vec<Arc<str>>),
}

/// An object: a struct with fields, a map, or both.
#[derive(Debug)]
pub struct Map {
    pub fields: Fields,
    /// The type of undeclared keys; `None` forbids them.
    pub others: Option<Type>,
    atomic: bool,
}

/// Not a map: most have few fields, and a map keeps room for eleven.
#[derive(Debug, Default)]
pub struct Fields {
    all: Box<[(Arc<str>, Field)]>,
    places: Places,
}

/// What few fields have is behind a pointer: there is a topology for every custom resource.
#[derive(Debug)]
pub struct Field {
    pub kind: Type,
    /// Nothing if it says nothing.
    pub patch: Option<Box<PatchStrategy>>,
    /// Stands in for a list key that an item leaves out.
    pub default: Option<Box<Value>>,
}

/// `x-kubernetes-patch-strategy` and `-merge-key`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    pub merge_key: Option<Arc<str>>,
}

impl PatchStrategy {
    /// What `x-kubernetes-patch-strategy` says: names with commas between them, of which unknown ones say nothing.
    pub fn parse(text: &str) -> Self {
        let mut strategy = Self::default();
        for name in text.split(',') {
            match name {
                "merge" => strategy.merge = true,
                "replace" => strategy.replace = true,
                "retainKeys" => strategy.retain_keys = true,
                _ => {}
            }
        }
        strategy
    }
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.get_key_value(name).map(|(_, field)| field)
    }

    pub fn get_key_value(&self, name: &str) -> Option<(&Arc<str>, &Field)> {
        let name_at = |place: usize| self.all.get(place).map_or("", |(name, _)| &**name);
        let (name, field) = self.all.get(self.places.find(name, name_at)?)?;
        Some((name, field))
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// In no order that means anything.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.all.iter().map(|(name, _)| name)
    }
}

impl FromIterator<(Arc<str>, Field)> for Fields {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, Field)>>(fields: T) -> Self {
        let all: Box<[_]> = fields.into_iter().collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        Self { places: Places::new(&names), all }
    }
}

impl Type {
    pub fn node(&self) -> &Node {
        match &self.link {
            Link::Here(node) => node,
            Link::Named(named) => named.node(),
        }
    }

    /// The name of the definition, if the place refers to one.
    pub fn name(&self) -> Option<&str> {
        match &self.link {
            Link::Here(_) => None,
            Link::Named(named) => Some(&named.name),
        }
    }

    /// True if the place is owned as a whole.
    pub fn is_atomic(&self) -> bool {
        match self.node() {
            Node::Scalar(_) | Node::Opaque => true,
            Node::List(list) => list.relation == Relation::Atomic,
            Node::Map(map) => self.atomic_map.unwrap_or(map.atomic),
            Node::Deduced => false,
        }
    }

    /// Anything at all, its parts told apart as far as that goes.
    pub fn deduced() -> Self {
        static DEDUCED: OnceLock<Arc<Node>> = OnceLock::new();
        Self::here_shared(DEDUCED.get_or_init(|| Arc::new(Node::Deduced)))
    }

    /// Anything at all, as one value.
    pub fn opaque() -> Self {
        static OPAQUE: OnceLock<Arc<Node>> = OnceLock::new();
        Self::here_shared(OPAQUE.get_or_init(|| Arc::new(Node::Opaque)))
    }

    fn scalar(kind: Scalar) -> Self {
        static SCALARS: [OnceLock<Arc<Node>>; 4] = [const { OnceLock::new() }; 4];
        let [boolean, numeric, string, untyped] = &SCALARS;
        let shared = match kind {
            Scalar::Boolean => boolean,
            Scalar::Numeric => numeric,
            Scalar::String => string,
            Scalar::Untyped => untyped,
        };
        Self::here_shared(shared.get_or_init(|| Arc::new(Node::Scalar(kind))))
    }

    fn here(node: Node) -> Self {
        Self { link: Link::Here(Arc::new(node)), atomic_map: None }
    }

    fn here_shared(node: &Arc<Node>) -> Self {
        Self { link: Link::Here(node.clone()), atomic_map: None }
    }
}

impl fmt::Debug for Type {
    /// Names, not contents: types refer to themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.link {
            Link::Here(node) => node.fmt(f),
            Link::Named(named) => f.write_str(&named.name),
        }
    }
}

/// Finds a definition by its name.
pub type Source = dyn Fn(&str) -> Option<Arc<Schema>> + Send + Sync;

/// Definitions compiled for merging, each when it is first needed.
#[derive(Clone)]
pub struct Topologies(Arc<Shared>);

struct Shared {
    source: Box<Source>,
    named: RwLock<HashMap<Arc<str>, Arc<Named>>>,
}

struct Named {
    name: Arc<str>,
    within: Arc<Shared>,
    node: OnceLock<Node>,
}

impl fmt::Debug for Topologies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topologies").finish_non_exhaustive()
    }
}

impl Topologies {
    /// For sets of definitions that live as long as the process: what was
    /// compiled is kept.
    pub fn new(source: impl Fn(&str) -> Option<Arc<Schema>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { source: Box::new(source), named: RwLock::default() }))
    }

    /// The type of this name; one that nobody defines may be anything.
    pub fn of(&self, name: &str) -> Type {
        Shared::named(&self.0, name)
    }

    /// A schema without a name; what it refers to is looked up here.
    pub fn of_schema(&self, schema: &Schema) -> Type {
        Shared::compile_use(&self.0, schema, false)
    }
}

impl Named {
    fn node(&self) -> &Node {
        self.node.get_or_init(|| match &*self.name {
            QUANTITY => Node::Scalar(Scalar::Untyped),
            RAW_EXTENSION => Node::Opaque,
            name => match (self.within.source)(name) {
                Some(schema) => Shared::compile(&self.within, &schema, false),
                None => Node::Deduced,
            },
        })
    }
}

impl Shared {
    fn named(shared: &Arc<Self>, name: &str) -> Type {
        let known = shared.named.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let named = known.unwrap_or_else(|| {
            let mut all = shared.named.write().unwrap_or_else(PoisonError::into_inner);
            let fresh =
                || Arc::new(Named { name: name.into(), within: shared.clone(), node: OnceLock::new() });
            all.entry(name.into()).or_insert_with(fresh).clone()
        });
        Type { link: Link::Named(named), atomic_map: None }
    }

    /// A schema where it is used: often a reference with something to add.
    fn compile_use(shared: &Arc<Self>, schema: &Schema, preserve: bool) -> Type {
        let inner = match &*schema.all_of {
            [only] => only.reference.as_ref(),
            _ => None,
        };
        match schema.reference.as_ref().or(inner) {
            Some(name) => {
                let atomic_map = text(schema, MAP_TYPE).map(|kind| kind == "atomic");
                Type { atomic_map, ..Self::named(shared, name) }
            }
            None => match Self::compile(shared, schema, preserve) {
                Node::Deduced => Type::deduced(),
                Node::Opaque => Type::opaque(),
                Node::Scalar(kind) => Type::scalar(kind),
                node => Type::here(node),
            },
        }
    }

    /// `preserve`: whether unknown fields are kept all around.
    fn compile(shared: &Arc<Self>, schema: &Schema, preserve: bool) -> Node {
        let preserve = preserve || schema.rest.get(PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(true));
        match schema.kind {
            Some(SchemaType::Boolean) => Node::Scalar(Scalar::Boolean),
            Some(SchemaType::Integer | SchemaType::Number) => Node::Scalar(Scalar::Numeric),
            Some(SchemaType::String) => match schema.format.as_deref() {
                None | Some("" | "byte") => Node::Scalar(Scalar::String),
                Some(_) => Node::Scalar(Scalar::Untyped),
            },
            Some(SchemaType::Array) => {
                let items = match &schema.items {
                    Some(items) => Self::compile_use(shared, items, preserve),
                    None => Type::deduced(),
                };
                Node::List(List { items, relation: relation(schema) })
            }
            Some(SchemaType::Object) => Node::Map(Self::compile_map(shared, schema, preserve)),
            None if !schema.properties.is_empty() => Node::Map(Self::compile_map(shared, schema, preserve)),
            None => Node::Deduced,
        }
    }

    fn compile_map(shared: &Arc<Self>, schema: &Schema, preserve: bool) -> Map {
        let field = |property: &Schema| Field {
            kind: Self::compile_use(shared, property, preserve),
            patch: Some(patch_strategy(property))
                .filter(|patch| *patch != PatchStrategy::default())
                .map(Box::new),
            default: property.default.clone().map(Box::new),
        };
        let others = match &schema.additional {
            Some(Additional::Schema(values)) => Some(Self::compile_use(shared, values, preserve)),
            Some(Additional::Allowed(true)) => Some(Type::deduced()),
            Some(Additional::Allowed(false)) => None,
            None => (schema.properties.is_empty() || preserve).then(Type::deduced),
        };
        Map {
            fields: schema
                .properties
                .iter()
                .map(|(name, property)| (name.clone(), field(property)))
                .collect(),
            others,
            atomic: text(schema, MAP_TYPE) == Some("atomic"),
        }
    }
}

fn relation(schema: &Schema) -> Relation {
    match text(schema, LIST_TYPE) {
        Some("set") => return Relation::Set,
        Some("map") => {
            let keys = schema.rest.get(LIST_MAP_KEYS).and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(Arc::from).collect();
            return Relation::Map(keys);
        }
        Some(_) => return Relation::Atomic,
        None => {}
    }
    let patch = patch_strategy(schema);
    match patch.merge_key {
        Some(key) if patch.merge => Relation::Map(vec![key]),
        None if patch.merge => Relation::Set,
        _ => Relation::Atomic,
    }
}

fn patch_strategy(schema: &Schema) -> PatchStrategy {
    PatchStrategy {
        merge_key: text(schema, PATCH_MERGE_KEY).map(Arc::from),
        ..text(schema, PATCH_STRATEGY).map(PatchStrategy::parse).unwrap_or_default()
    }
}

fn text<'a>(schema: &'a Schema, keyword: &str) -> Option<&'a str> {
    schema.rest.get(keyword).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read, write::Dialect};
    use serde_json::json;

    fn compile(schema: &Value) -> Type {
        let schema = read::schema(schema, Dialect::V3).unwrap();
        Topologies::new(|name| match name {
            "Tree" => {
                let tree =
                    json!({"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}});
                Some(Arc::new(read::schema(&tree, Dialect::V3).unwrap()))
            }
            _ => None,
        })
        .of_schema(&schema)
    }

    fn field(schema: &Type, name: &str) -> Type {
        let Node::Map(map) = schema.node() else { panic!("{schema:?} is no map") };
        map.fields.get(name).unwrap().kind.clone()
    }

    #[test]
    fn a_list_is_what_its_list_type_says_before_its_patch_strategy() {
        for (schema, expected) in [
            (json!({}), Relation::Atomic),
            (json!({"x-kubernetes-list-type": "set"}), Relation::Set),
            (
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}),
                Relation::Map(vec!["a".into(), "b".into()]),
            ),
            (
                json!({"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-strategy": "merge"}),
                Relation::Atomic,
            ),
            (json!({"x-kubernetes-patch-strategy": "merge"}), Relation::Set),
            (
                json!({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "n"}),
                Relation::Map(vec!["n".into()]),
            ),
            (json!({"x-kubernetes-patch-strategy": "retainKeys"}), Relation::Atomic),
        ] {
            let mut list = json!({"type": "array", "items": {"type": "string"}});
            list.as_object_mut().unwrap().extend(schema.as_object().unwrap().clone());
            let compiled = compile(&list);
            let Node::List(found) = compiled.node() else { panic!("no list") };
            assert_eq!(found.relation, expected, "{schema}");
        }
    }

    #[test]
    fn a_field_decides_how_the_map_it_refers_to_is_owned() {
        let reference = json!({"$ref": "#/components/schemas/Tree"});
        let object = json!({"type": "object", "properties": {
            "plain": reference,
            "whole": {"allOf": [reference], "x-kubernetes-map-type": "atomic"},
        }});
        let compiled = compile(&object);
        assert!(!field(&compiled, "plain").is_atomic());
        assert!(field(&compiled, "whole").is_atomic());
        assert!(!field(&field(&compiled, "whole"), "left").is_atomic(), "only this use is");
    }

    #[test]
    fn undeclared_keys_are_forbidden_unless_the_schema_lets_them_in() {
        for (schema, allowed) in [
            (json!({"type": "object"}), true),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), false),
            (json!({"type": "object", "additionalProperties": false}), false),
            (json!({"type": "object", "additionalProperties": {"type": "string"}}), true),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}),
                true,
            ),
        ] {
            let compiled = compile(&schema);
            let Node::Map(map) = compiled.node() else { panic!("no map") };
            assert_eq!(map.others.is_some(), allowed, "{schema}");
        }
    }

    #[test]
    fn scalars_with_a_format_are_compared_as_they_are() {
        for (schema, expected) in [
            (json!({"type": "string"}), Scalar::String),
            (json!({"type": "string", "format": "byte"}), Scalar::String),
            (json!({"type": "string", "format": "date-time"}), Scalar::Untyped),
            (json!({"type": "integer", "format": "int32"}), Scalar::Numeric),
            (json!({"type": "boolean"}), Scalar::Boolean),
        ] {
            let compiled = compile(&schema);
            let Node::Scalar(found) = compiled.node() else { panic!("no scalar") };
            assert_eq!(*found, expected, "{schema}");
        }
    }
}
