//! Strategic Merge Patch: a merge patch that knows by which key the items of
//! a list are told apart, because the schema says so.
//!
//! [`apply`] changes an object; [`diff()`] makes a patch from two objects, and
//! [`three_way()`] from three, as `kubectl apply` does.
//!
//! A patch may carry directives: `$patch: replace` or `delete` in an object,
//! `$retainKeys` beside the keys to be kept, `$setElementOrder/LIST` with the
//! order of a list, `$deleteFromPrimitiveList/LIST` with what leaves it.

use serde_json::{Map, Value};
use sternpost_golang::strconv::go_quote;
use sternpost_schema::topology::Type;

mod diff;
mod fields;
mod list;
mod merge;
mod order;
mod three_way;

pub use diff::diff;
pub use three_way::{Overwrite, ThreeWayError, three_way};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Changes an object of this schema.
pub fn apply(schema: &Type, object: Value, patch: &Map<String, Value>) -> Result<Value, Error> {
    let mut map = match object {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    merge::merge(schema, &mut map, patch, merge::Into::Object)?;
    Ok(Value::Object(map))
}

/// Why a patch does not fit; the texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Of a `$deleteFromPrimitiveList` that does not say of which list.
    #[error("invalid patch format of primitive list")]
    PrimitiveListFormat,
    /// `$retainKeys` is no list, or does not have all keys of the patch.
    #[error("invalid patch format of retainKeys")]
    RetainKeysFormat,
    /// Of a `$setElementOrder` that does not say of which list.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrderFormat,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownPatchType { directive: String, map: String },
    /// `$patch: merge` in the item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    #[error("unable to find api field in struct {owner} for the json field {}", go_quote(field))]
    UnknownField { owner: String, field: String },
    #[error("map: {map} does not contain declared merge key: {key}")]
    MissingMergeKey { map: String, key: String },
    #[error("cannot merge lists without merge key for {items}")]
    NoMergeKey { items: String },
    #[error("list element types are not identical: {lists}")]
    MixedItems { lists: String },
    /// Upstream has no answer at all.
    #[error("list elements must not be null")]
    NullItem,
    #[error("expected a {expected}, but received a {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch { patch: String, order: String },
}

/// What kind of mistake upstream takes an error for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 400, with the text.
    BadRequest,
    /// 422, without it.
    Unprocessable,
    /// 500 and the bare text, though it is the client's mistake.
    Unclassified,
}

impl Error {
    pub fn class(&self) -> Class {
        match self {
            Self::PrimitiveListFormat | Self::RetainKeysFormat | Self::SetElementOrderFormat => {
                Class::BadRequest
            }
            Self::ListOfLists => Class::Unprocessable,
            _ => Class::Unclassified,
        }
    }
}
