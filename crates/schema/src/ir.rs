//! The schema tree.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

/// One schema node. A definition is a node; so is each property below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// The definition this node stands for. Everything else on the node then
    /// says something about this *use* of the definition: its description,
    /// its default, its place in a merge.
    pub reference: Option<Arc<str>>,
    pub description: Option<Arc<str>>,
    pub kind: Option<Type>,
    pub format: Option<Arc<str>>,
    pub nullable: bool,
    pub default: Option<Value>,
    pub enum_values: Vec<Value>,
    pub items: Option<Box<Schema>>,
    pub properties: BTreeMap<Arc<str>, Schema>,
    pub additional: Option<Additional>,
    /// In the order the author gave.
    pub required: Vec<Arc<str>>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    /// Every other keyword, by name: limits, `pattern`, `title`, `example`
    /// and all vendor extensions. Kept verbatim.
    pub rest: BTreeMap<Arc<str>, Value>,
}

/// `additionalProperties`: a yes or no, or a schema for the values.
#[derive(Debug, Clone, PartialEq)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    pub const ALL: [Type; 6] =
        [Type::Array, Type::Boolean, Type::Integer, Type::Number, Type::Object, Type::String];

    pub fn as_str(self) -> &'static str {
        match self {
            Type::Array => "array",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Object => "object",
            Type::String => "string",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Schema {
    pub fn of(kind: Type) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    pub fn reference(name: impl Into<Arc<str>>) -> Self {
        Self { reference: Some(name.into()), ..Self::default() }
    }

    pub fn array(items: Schema) -> Self {
        Self { kind: Some(Type::Array), items: Some(Box::new(items)), ..Self::default() }
    }

    #[must_use]
    pub fn described(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    #[must_use]
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.rest.insert(keyword.into(), value.into());
        self
    }

    /// True for a node that is a reference and says nothing more.
    pub fn is_bare_reference(&self) -> bool {
        self.reference.is_some()
            && self.description.is_none()
            && self.kind.is_none()
            && self.format.is_none()
            && !self.nullable
            && self.default.is_none()
            && self.enum_values.is_empty()
            && self.required.is_empty()
            && self.rest.is_empty()
            && self.children().next().is_none()
            && self.additional.is_none()
    }

    /// True for a node that accepts anything and says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Visits this node and every node below it, parents first.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Schema)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// As [`Schema::walk`], with leave to change each node before its children are visited.
    pub fn walk_mut(&mut self, visit: &mut impl FnMut(&mut Schema)) {
        visit(self);
        let additional = match &mut self.additional {
            Some(Additional::Schema(schema)) => Some(&mut **schema),
            _ => None,
        };
        let children = self
            .items
            .as_deref_mut()
            .into_iter()
            .chain(self.properties.values_mut())
            .chain(additional)
            .chain(&mut self.all_of)
            .chain(&mut self.any_of)
            .chain(&mut self.one_of)
            .chain(self.not.as_deref_mut());
        for child in children {
            child.walk_mut(visit);
        }
    }

    fn children(&self) -> impl Iterator<Item = &Schema> {
        let additional = match &self.additional {
            Some(Additional::Schema(schema)) => Some(&**schema),
            _ => None,
        };
        self.items
            .as_deref()
            .into_iter()
            .chain(self.properties.values())
            .chain(additional)
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
    }
}
