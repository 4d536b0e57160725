//! Values at run time. Those of variables are views of the caller's JSON.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use base64::Engine as _;
use serde_json::{Map as JsonMap, Value as Json};

use crate::{
    authorizer::{Authorization, Check, Decision},
    declare::{Declaration, ListKind, Object, Shape, escape},
    evaluate::{EvalError, Meter},
    library::{format::NamedFormat, net::Cidr, quantity::Amount, semver::Semver, time::Timestamp, url::Url},
    types::{self, Type},
};

#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    /// An object of a schema: only declared fields exist.
    Object(&'a JsonMap<String, Json>, &'a Object),
    /// An object that an expression made.
    Message(Arc<Message<'a>>),
    Type(Type),
    Optional(Option<Arc<Value<'a>>>),
    Url(Arc<Url>),
    Quantity(Amount),
    Semver(Arc<Semver>),
    Ip(std::net::IpAddr),
    Cidr(Cidr),
    Format(NamedFormat),
    Authorizer(Arc<Authorization>),
    Check(Arc<Check>),
    Decision(Arc<Decision>),
}

/// An object that an expression made, with the fields that it named.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub(crate) object: Arc<Object>,
    pub fields: BTreeMap<Arc<str>, Value<'a>>,
}

impl Message<'_> {
    /// `Object.spec`, or `JSONPatch`.
    pub fn type_name(&self) -> &str {
        &self.object.name
    }
}

/// Text that is borrowed from the input or shared.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

#[derive(Debug, Clone)]
pub struct List<'a>(pub(crate) Items<'a>);

#[derive(Debug, Clone)]
pub(crate) enum Items<'a> {
    Json(&'a [Json], &'a Declaration, &'a ListKind),
    Owned(Arc<Vec<Value<'a>>>, &'a ListKind),
}

#[derive(Debug, Clone)]
pub struct Map<'a>(pub(crate) Entries<'a>);

#[derive(Debug, Clone)]
pub(crate) enum Entries<'a> {
    Json(&'a JsonMap<String, Json>, &'a Declaration),
    Owned(Arc<BTreeMap<Key, (Value<'a>, Value<'a>)>>),
}

/// What makes two keys of a map the same: numbers by value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    Text(Box<str>),
    Type(Box<str>),
}

static DYNAMIC: LazyLock<Declaration> = LazyLock::new(Declaration::dynamic);
static ATOMIC: ListKind = ListKind::Atomic;

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List(Items::Owned(Arc::new(items), &ATOMIC)))
    }

    /// A map from text, as callers build one.
    pub fn map(entries: impl IntoIterator<Item = (Arc<str>, Value<'a>)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (Key::Text(key.as_ref().into()), (Value::text(key), value)));
        Self::owned_map(entries.collect())
    }

    pub(crate) fn owned_map(entries: BTreeMap<Key, (Value<'a>, Value<'a>)>) -> Self {
        Self::Map(Map(Entries::Owned(Arc::new(entries))))
    }

    pub fn optional(value: Option<Value<'a>>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    /// JSON with no schema.
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Self::Int(value),
                (None, Some(value)) => Self::Uint(value),
                _ => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(items) => Self::List(List(Items::Json(items, &DYNAMIC, &ATOMIC))),
            Json::Object(entries) => Self::Map(Map(Entries::Json(entries, &DYNAMIC))),
        }
    }

    /// JSON as its declaration says it is to be read.
    pub fn declared(json: &'a Json, declaration: &'a Declaration) -> Result<Self, EvalError> {
        if json.is_null() {
            return if declaration.nullable {
                Ok(Self::Null)
            } else {
                Err(EvalError::new("invalid data, got null for schema with nullable=false"))
            };
        }
        let wrong = |expected: &str| {
            let found = match json {
                Json::Bool(_) => "bool",
                Json::Number(number) if number.is_f64() => "float64",
                Json::Number(_) => "int64",
                Json::String(_) => "string",
                Json::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            Err(EvalError::new(format!("invalid data, expected {expected}, got {found}")))
        };
        match (&declaration.shape, json) {
            (Shape::Dyn, _) | (Shape::IntOrString, Json::Number(_) | Json::String(_)) => {
                Ok(Self::from_json(json))
            }
            (Shape::IntOrString, _) => Err(EvalError::new(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
            (Shape::String, Json::String(text)) => Ok(Self::String(Text::Borrowed(text))),
            (Shape::Bytes, Json::String(text)) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map(|bytes| Self::Bytes(bytes.into()))
                .map_err(|_| EvalError::new("Invalid base64 bytes")),
            (Shape::DateTime, Json::String(text)) => Timestamp::parse(text)
                .map(Self::Timestamp)
                .ok_or_else(|| EvalError::new(format!("Invalid date formatted string {text}"))),
            (Shape::Date, Json::String(text)) => Timestamp::parse(&format!("{text}T00:00:00Z"))
                .map(Self::Timestamp)
                .ok_or_else(|| EvalError::new(format!("Invalid date formatted string {text}"))),
            (Shape::Duration, Json::String(text)) => crate::library::time::schema_duration(text)
                .map(Self::Duration)
                .ok_or_else(|| EvalError::new(format!("Invalid duration {text}"))),
            (Shape::String | Shape::Bytes | Shape::DateTime | Shape::Date | Shape::Duration, _) => {
                wrong("string")
            }
            (Shape::Int, Json::Number(number)) if number.is_i64() => {
                Ok(Self::Int(number.as_i64().unwrap_or(0)))
            }
            (Shape::Int, _) => wrong("int"),
            (Shape::Double, Json::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN))),
            (Shape::Double, _) => wrong("float"),
            (Shape::Bool, Json::Bool(value)) => Ok(Self::Bool(*value)),
            (Shape::Bool, _) => wrong("bool"),
            (Shape::List { items, kind }, Json::Array(array)) => {
                Ok(Self::List(List(Items::Json(array, items, kind))))
            }
            (Shape::List { .. }, _) => {
                Err(EvalError::new("invalid data, expected an array for the provided schema with type=array"))
            }
            (Shape::Map(values), Json::Object(entries)) => Ok(Self::Map(Map(Entries::Json(entries, values)))),
            (Shape::Object(object), Json::Object(entries)) => Ok(Self::Object(entries, object)),
            (Shape::Map(_) | Shape::Object(_), _) => {
                Err(EvalError::new("invalid data, expected a map for the provided schema with type=object"))
            }
        }
    }

    pub fn ty(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) | Self::Object(..) => Type::map(Type::Dyn, Type::Dyn),
            Self::Message(message) => Type::Object(message.object.clone()),
            Self::Type(_) => Type::of(Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Url(_) => Type::Opaque(types::URL),
            Self::Quantity(_) => Type::Opaque(types::QUANTITY),
            Self::Semver(_) => Type::Opaque(types::SEMVER),
            Self::Ip(_) => Type::Opaque(types::IP),
            Self::Cidr(_) => Type::Opaque(types::CIDR),
            Self::Format(_) => Type::Opaque(types::NAMED_FORMAT),
            Self::Authorizer(_) => Type::Opaque(types::AUTHORIZER),
            Self::Check(check) => Type::Opaque(check.type_name()),
            Self::Decision(_) => Type::Opaque(types::DECISION),
        }
    }

    pub(crate) fn type_name(&self) -> String {
        self.ty().runtime_name().to_owned()
    }

    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Number((*value).into()),
            Self::Uint(value) => Key::Number((*value).into()),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a whole number, checked; the cast saturates"
            )]
            Self::Double(value) if value.fract() == 0.0 => Key::Number(*value as i128),
            Self::String(text) => Key::Text(text.as_str().into()),
            Self::Type(ty) => Key::Type(ty.runtime_name().into()),
            _ => return None,
        })
    }

    /// What `size` is for costs: 1 for what has none.
    pub(crate) fn cost_size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.as_str().chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Object(entries, _) => entries.len(),
            Self::Optional(Some(inner)) => return inner.cost_size(),
            _ => 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// Equality as `==` has it: numbers across kinds, other kinds unequal.
    pub(crate) fn equals(&self, other: &Self, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::String(one), Self::String(other)) => {
                meter.work(one.as_str().len() / 64)?;
                one.as_str() == other.as_str()
            }
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => one.same_instant(other),
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
            ) => self.number_order(other) == Some(Ordering::Equal),
            (Self::List(one), Self::List(other)) => return one.equals(other, meter),
            (Self::Map(_) | Self::Object(..), Self::Map(_) | Self::Object(..)) => {
                return self.same_entries(other, meter);
            }
            (Self::Message(one), Self::Message(other)) => {
                if one.object.name != other.object.name || one.fields.len() != other.fields.len() {
                    return Ok(false);
                }
                for (name, value) in &one.fields {
                    match other.fields.get(name) {
                        Some(theirs) if value.equals(theirs, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Self::Type(one), Self::Type(other)) => one.runtime_name() == other.runtime_name(),
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(one)), Self::Optional(Some(other))) => return one.equals(other, meter),
            (Self::Url(one), Self::Url(other)) => one.text == other.text,
            (Self::Quantity(one), Self::Quantity(other)) => return one.equals(other),
            (Self::Semver(one), Self::Semver(other)) => one.compare(other) == Ordering::Equal,
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Format(one), Self::Format(other)) => one == other,
            (Self::Authorizer(_) | Self::Check(_) | Self::Decision(_), _) => {
                return Err(EvalError::new("no such overload"));
            }
            _ => false,
        })
    }

    /// Whether `==` with the other is an error: lists and objects of a schema
    /// are compared with their own kind and null only.
    pub(crate) fn refuses(&self, other: &Self) -> bool {
        match self {
            _ if matches!(other, Self::Null) => false,
            Self::List(List(Items::Json(_, declaration, _))) => {
                !matches!(declaration.shape, Shape::Dyn) && !matches!(other, Self::List(_))
            }
            Self::Map(Map(Entries::Json(_, declaration))) => {
                !matches!(declaration.shape, Shape::Dyn) && !matches!(other, Self::Map(_) | Self::Object(..))
            }
            Self::Object(..) => !matches!(other, Self::Map(_) | Self::Object(..)),
            _ => false,
        }
    }

    fn same_entries(&self, other: &Self, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
        let size = |value: &Self| match value {
            Self::Map(map) => map.len(),
            Self::Object(entries, _) => entries.len(),
            _ => 0,
        };
        if size(self) != size(other) {
            return Ok(false);
        }
        match self {
            Self::Object(entries, object) => {
                for (property, json) in *entries {
                    meter.work(1)?;
                    let declared = object.spelled(property);
                    let theirs = other.entry_named(property)?;
                    match (declared, theirs) {
                        (Some(field), Some(theirs)) => {
                            if !Self::declared(json, &field.declaration)?.equals(&theirs, meter)? {
                                return Ok(false);
                            }
                        }
                        (Some(_), None) => return Ok(false),
                        // A field that no schema declares counts only if both have it.
                        (None, Some(theirs)) => {
                            if !Self::from_json(json).equals(&theirs, meter)? {
                                return Ok(false);
                            }
                        }
                        (None, None) => {}
                    }
                }
                Ok(true)
            }
            Self::Map(map) => {
                for (key, value) in map.entries() {
                    let theirs = match other {
                        Self::Map(other) => other.get(&key)?,
                        _ => match &key {
                            Self::String(text) => other.entry_named(text.as_str())?,
                            _ => None,
                        },
                    };
                    match theirs {
                        Some(theirs) if value?.equals(&theirs, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// An entry by the spelling in the data.
    fn entry_named(&self, property: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Self::Object(entries, object) => {
                let Some(json) = entries.get(property) else { return Ok(None) };
                match object.spelled(property) {
                    Some(field) => Self::declared(json, &field.declaration).map(Some),
                    None => Ok(Some(Self::from_json(json))),
                }
            }
            Self::Map(map) => map.get(&Value::text(property)),
            _ => Ok(None),
        }
    }

    /// The values of an item's keys. Upstream looks them up as expressions spell them, so that keys
    /// like `namespace` are never there.
    fn keys_named(&self, names: &[Arc<str>]) -> Result<Vec<Option<Key>>, EvalError> {
        let key = |name: &Arc<str>| {
            let spelled = escape(name);
            let entry = self.entry_named(spelled.as_deref().unwrap_or(name))?;
            Ok(entry.and_then(|value| value.key()))
        };
        names.iter().map(key).collect()
    }

    pub(crate) fn number_order(&self, other: &Self) -> Option<Ordering> {
        fn whole(value: &Value<'_>) -> Option<i128> {
            match value {
                Value::Int(value) => Some((*value).into()),
                Value::Uint(value) => Some((*value).into()),
                _ => None,
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "upstream compares in doubles too")]
        fn double(value: &Value<'_>) -> Option<f64> {
            match value {
                Value::Int(value) => Some(*value as f64),
                Value::Uint(value) => Some(*value as f64),
                Value::Double(value) => Some(*value),
                _ => None,
            }
        }
        match (whole(self), whole(other)) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => double(self)?.partial_cmp(&double(other)?),
        }
    }

    /// The order of `<`; an error where there is none.
    pub(crate) fn order(&self, other: &Self) -> Result<Ordering, EvalError> {
        Ok(match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::String(one), Self::String(other)) => one.as_str().cmp(other.as_str()),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (Self::Timestamp(one), Self::Timestamp(other)) => one.instant().cmp(&other.instant()),
            (Self::Duration(one), Self::Duration(other)) => one.cmp(other),
            (
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
            ) => self.number_order(other).ok_or_else(|| EvalError::new("NaN values cannot be ordered"))?,
            _ => return Err(EvalError::new("no such overload")),
        })
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match &self.0 {
            Items::Json(items, ..) => items.len(),
            Items::Owned(items, _) => items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match &self.0 {
            Items::Json(items, declaration, _) => {
                items.get(index).map(|json| Value::declared(json, declaration))
            }
            Items::Owned(items, _) => items.get(index).cloned().map(Ok),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn collect(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }

    pub(crate) fn kind(&self) -> &'a ListKind {
        match &self.0 {
            Items::Json(.., kind) => kind,
            Items::Owned(_, kind) => kind,
        }
    }

    pub(crate) fn contains(&self, needle: &Value<'a>, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
        for item in self.iter() {
            if needle.equals(&item?, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The items by key, if all have one: sets can be large.
    fn keys(&self) -> Result<Option<BTreeSet<Key>>, EvalError> {
        let mut keys = BTreeSet::new();
        for item in self.iter() {
            match item?.key() {
                Some(key) => keys.insert(key),
                None => return Ok(None),
            };
        }
        Ok(Some(keys))
    }

    fn has(
        &self,
        item: &Value<'a>,
        keys: Option<&BTreeSet<Key>>,
        meter: &mut Meter<'_>,
    ) -> Result<bool, EvalError> {
        match (keys, item.key()) {
            (Some(keys), Some(key)) => Ok(keys.contains(&key)),
            _ => self.contains(item, meter),
        }
    }

    /// The left list decides what equality means: sets and lists with keys
    /// have no order.
    fn equals(&self, other: &Self, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind() {
            ListKind::Atomic => {
                for (one, theirs) in self.iter().zip(other.iter()) {
                    if !one?.equals(&theirs?, meter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Set => {
                let known = self.keys()?;
                for theirs in other.iter() {
                    if !self.has(&theirs?, known.as_ref(), meter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Map(keys) => {
                let places = self.by_keys(keys)?;
                for theirs in other.iter() {
                    let theirs = theirs?;
                    let mine = places
                        .get(&theirs.keys_named(keys)?)
                        .and_then(|index| self.get(*index))
                        .transpose()?;
                    match mine {
                        Some(mine) if mine.equals(&theirs, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }

    /// Where the items are by their keys, the first of each.
    fn by_keys(&self, keys: &[Arc<str>]) -> Result<BTreeMap<Vec<Option<Key>>, usize>, EvalError> {
        let mut places = BTreeMap::new();
        for (index, item) in self.iter().enumerate() {
            places.entry(item?.keys_named(keys)?).or_insert(index);
        }
        Ok(places)
    }

    pub(crate) fn concatenated(&self, other: &Self, meter: &mut Meter<'_>) -> Result<Self, EvalError> {
        meter.work(self.len() + other.len())?;
        let mut items = self.collect()?;
        let known = if *self.kind() == ListKind::Set { self.keys()? } else { None };
        let places = match self.kind() {
            ListKind::Map(keys) => self.by_keys(keys)?,
            _ => BTreeMap::new(),
        };
        for item in other.iter() {
            let item = item?;
            match self.kind() {
                ListKind::Atomic => items.push(item),
                ListKind::Set => {
                    if !self.has(&item, known.as_ref(), meter)? {
                        items.push(item);
                    }
                }
                ListKind::Map(keys) => match places.get(&item.keys_named(keys)?) {
                    Some(index) => {
                        if let Some(slot) = items.get_mut(*index) {
                            *slot = item;
                        }
                    }
                    None => items.push(item),
                },
            }
        }
        Ok(Self(Items::Owned(Arc::new(items), self.kind())))
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Json(entries, _) => entries.len(),
            Entries::Owned(entries) => entries.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
        match (&self.0, key) {
            (Entries::Json(entries, declaration), Value::String(text)) => {
                entries.get(text.as_str()).map(|json| Value::declared(json, declaration)).transpose()
            }
            (Entries::Json(..), _) => Ok(None),
            (Entries::Owned(entries), _) => {
                Ok(key.key().and_then(|key| entries.get(&key)).map(|(_, value)| value.clone()))
            }
        }
    }

    pub fn entries(&self) -> Vec<(Value<'a>, Result<Value<'a>, EvalError>)> {
        match &self.0 {
            Entries::Json(entries, declaration) => entries
                .iter()
                .map(|(key, json)| (Value::String(Text::Borrowed(key)), Value::declared(json, declaration)))
                .collect(),
            Entries::Owned(entries) => {
                entries.values().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect()
            }
        }
    }
}
