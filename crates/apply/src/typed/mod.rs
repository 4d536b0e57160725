//! Objects walked together with their topology.
//!
//! [`validate()`] says whether an object fits, [`field_set()`] what it sets,
//! [`compare()`] how two differ, [`merge()`] lays one over another, [`remove()`]
//! takes paths out. All of them see an object through `Shape`, which is
//! where schemas end and ownership begins.

mod compare;
mod field_set;
mod merge;
mod named_fields;
mod reconcile;
mod remove;
mod validate;

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_schema::topology::{Map, Node, Relation, Scalar, Type};

pub use self::{
    compare::{Comparison, compare},
    field_set::field_set,
    merge::merge,
    named_fields::with_named_fields,
    reconcile::reconcile,
    remove::remove,
    validate::{Duplicates, validate},
};
use crate::path::{self, Element};

/// How deep an object may be nested.
pub const MAX_DEPTH: usize = 512;

/// Why an object does not fit its schema; one line for each place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Misfit {
    pub errors: Vec<String>,
}

impl Misfit {
    fn at(path: &[Element], why: &str) -> Self {
        Self { errors: vec![format!("{}: {why}", path::text(path))] }
    }

    fn message(&self) -> String {
        match &*self.errors {
            [only] => only.clone(),
            all => format!("errors:\n  {}", all.join("\n  ")),
        }
    }
}

/// What a value is, as far as ownership goes.
enum Shape<'t> {
    Scalar(Scalar),
    /// Of whatever kind, owned as a whole, not looked into.
    Opaque,
    List(&'t Type, &'t Relation),
    Map(Fields<'t>),
}

#[derive(Clone, Copy)]
struct Fields<'t> {
    /// None: deduced, every key may hold anything.
    declared: Option<&'t Map>,
    atomic: bool,
}

impl<'t> Fields<'t> {
    const DEDUCED: Self = Self { declared: None, atomic: false };

    /// The element and type of a key. None: there may be no such key.
    fn child(&self, name: &str) -> Option<Child<'t>> {
        let Some(map) = self.declared else {
            return Some(Child { kind: deduced(), name: None });
        };
        match map.fields.get_key_value(name) {
            Some((name, field)) => Some(Child { kind: &field.kind, name: Some(name) }),
            None => map.others.as_ref().map(|kind| Child { kind, name: None }),
        }
    }
}

/// The place of a key in a map.
#[derive(Clone, Copy)]
struct Child<'t> {
    kind: &'t Type,
    /// The name of a declared field; shared, so that elements cost no copy.
    name: Option<&'t Arc<str>>,
}

impl Child<'_> {
    fn element(&self, name: &str) -> Element {
        match self.name {
            Some(declared) => Element::Field(declared.clone()),
            None => Element::field(name),
        }
    }

    fn is_declared(&self) -> bool {
        self.name.is_some()
    }
}

fn shape<'t>(kind: &'t Type, value: &Value) -> Shape<'t> {
    match kind.node() {
        Node::Scalar(scalar) => Shape::Scalar(*scalar),
        Node::List(list) => Shape::List(&list.items, &list.relation),
        Node::Map(map) => Shape::Map(Fields { declared: Some(map), atomic: kind.is_atomic() }),
        Node::Opaque => Shape::Opaque,
        Node::Deduced => match value {
            Value::Object(_) => Shape::Map(Fields::DEDUCED),
            _ => Shape::Opaque,
        },
    }
}

fn deduced() -> &'static Type {
    static DEDUCED: OnceLock<Type> = OnceLock::new();
    DEDUCED.get_or_init(Type::deduced)
}

/// The element that stands for an item of an associative list.
fn item_element(kind: &Type, relation: &Relation, item: &Value) -> Result<Element, ItemError> {
    match (relation, item) {
        (Relation::Set, Value::Null) => Err(ItemError::SetOfNull),
        (Relation::Set, Value::Object(_)) => Err(ItemError::SetOfMap),
        (Relation::Set, Value::Array(_)) => Err(ItemError::SetOfList),
        (Relation::Set, scalar) => Ok(Element::Value(Arc::new(scalar.clone()))),
        (Relation::Map(_), Value::Null) => Err(ItemError::Null),
        (Relation::Map(keys), Value::Object(item)) => {
            let declared = match kind.node() {
                Node::Map(map) => Some(&map.fields),
                _ => None,
            };
            let mut fields: Vec<(Arc<str>, Value)> = Vec::with_capacity(keys.len());
            for key in keys {
                let default = || declared?.get(key)?.default.as_deref();
                if let Some(value) = item.get(&**key).or_else(default) {
                    fields.push((key.clone(), value.clone()));
                }
            }
            if fields.is_empty() {
                return Err(ItemError::NoKeys(keys.clone()));
            }
            Ok(Element::key(fields))
        }
        (Relation::Map(_), _) => Err(ItemError::NoMap),
        (Relation::Atomic, _) => Err(ItemError::NoMap),
    }
}

/// The elements of all items, in the order of the list.
fn item_elements(kind: &Type, relation: &Relation, items: &[Value]) -> Result<Vec<Element>, Misfit> {
    let element =
        |(index, item)| item_element(kind, relation, item).map_err(|error| Misfit::at(&[], &error.at(index)));
    items.iter().enumerate().map(element).collect()
}

/// Lists longer than this are always sorted: in shorter ones every item is compared with every other.
const MOST_IN_STEP: usize = 8;

/// Whether each item has the keys of the one at its place in the other list, and of no other: so it is in most
/// lists that are written again. Only where all keys are there and plain.
fn are_in_step(relation: &Relation, old: &[Value], new: &[Value]) -> bool {
    let Relation::Map(keys) = relation else { return false };
    if old.len() != new.len() || old.len() > MOST_IN_STEP {
        return false;
    }
    let is_plain = |value: &Value| value.is_string() || value.is_i64();
    let same = |a: &Value, b: &Value| keys.iter().all(|name| a.get(&**name) == b.get(&**name));
    let is_keyed = |item: &Value| keys.iter().all(|name| item.get(&**name).is_some_and(is_plain));
    old.iter().zip(new).enumerate().all(|(index, (before, after))| {
        let mut earlier = old.iter().take(index);
        is_keyed(before) && same(before, after) && !earlier.any(|earlier| same(earlier, before))
    })
}

/// Why an item of an associative list cannot be told from others.
#[derive(Debug)]
enum ItemError {
    Null,
    NoMap,
    NoKeys(Vec<Arc<str>>),
    SetOfNull,
    SetOfMap,
    SetOfList,
}

impl ItemError {
    fn at(&self, index: usize) -> String {
        let why = match self {
            Self::Null => "associative list with keys may not have a null element",
            Self::NoMap => "associative list with keys may not have non-map elements",
            Self::NoKeys(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| go_quote(key).to_string()).collect();
                return format!(
                    "element {index}: associative list with keys has an element that omits all key fields \
                     [{}] (and doesn't have default values for any key fields)",
                    keys.join(" ")
                );
            }
            Self::SetOfNull => "associative list without keys has an element that's an explicit null",
            Self::SetOfMap => "associative list without keys has an element that's a map type",
            Self::SetOfList => "not supported: associative list with lists as elements",
        };
        format!("element {index}: {why}")
    }
}

fn too_deep() -> Misfit {
    Misfit { errors: vec![format!("nested more than {MAX_DEPTH} deep")] }
}

fn as_items(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

fn is_empty_or_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
