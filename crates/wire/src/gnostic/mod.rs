//! OpenAPI documents as the messages of the public protobuf packages
//! `openapi.v2` and `openapi.v3`.
//!
//! The bytes are a pure function of the JSON: fields by number, map entries and
//! keys inside YAML text in the order of their names, values without a fixed
//! type as YAML text. They are those of the reference parser for the same JSON
//! with sorted keys, with these exceptions. Text that the reference writes as
//! YAML it could not read back, or that has Unicode line separators, is quoted.
//! An `x-` key of a v3 callback is an extension and not a path as well. A list
//! of v2 or v3 `items` keeps its members. A scalar where an object belongs is an
//! error, not an empty object.
//!
//! A key that the format does not know has no place in it, so it is an error
//! and not a loss. The format itself loses:
//!
//! - zero: `minimum: 0`, `deprecated: false`, `title: ""` and empty lists are
//!   the same as absent (not so in v3 `default` and in `additionalProperties`);
//! - v3 `default` of any type but number, boolean and string: all of them
//!   become an empty message, which is read back as `{}`;
//! - whatever stands beside a `$ref`, other than `description` and, in v3,
//!   `summary`: in v3 everywhere, in v2 for parameters and responses (a v2
//!   schema keeps the siblings of its `$ref`);
//! - the spelling of numbers (`1.0` is read back as `1`) and integers beyond
//!   2^53 in fields that are doubles;
//! - v2 `type: [string]` with one member, read back as `string`;
//! - in v3 links, `parameters` and `requestBody` that are not objects.

mod decode;
mod encode;
mod table;
#[cfg(test)]
mod tests;
mod v2;
mod v3;
mod yaml;

use serde_json::Value;

pub use decode::DecodeError;
pub use encode::EncodeError;

/// How deep messages may nest, in both directions. A JSON reader that stops at
/// 128 levels, as ours does, cannot produce a document that exceeds it.
pub const MAX_DEPTH: usize = 400;

/// The largest document that is read, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The largest number of messages that is read in one document.
pub const MAX_MESSAGES: usize = 1 << 20;

/// How deep collections may nest inside an extension, enumeration, default or
/// example, in both directions.
pub const MAX_VALUE_DEPTH: usize = 127;

/// An OpenAPI v2 document as an `openapi.v2.Document`.
pub fn encode_v2(document: &Value) -> Result<Vec<u8>, EncodeError> {
    encode::encode(&v2::DOCUMENT, document)
}

/// An OpenAPI v3 document as an `openapi.v3.Document`.
pub fn encode_v3(document: &Value) -> Result<Vec<u8>, EncodeError> {
    encode::encode(&v3::DOCUMENT, document)
}

/// The OpenAPI v2 document that an `openapi.v2.Document` stands for.
pub fn decode_v2(bytes: &[u8]) -> Result<Value, DecodeError> {
    decode::decode(&v2::DOCUMENT, bytes)
}

/// The OpenAPI v3 document that an `openapi.v3.Document` stands for.
pub fn decode_v3(bytes: &[u8]) -> Result<Value, DecodeError> {
    decode::decode(&v3::DOCUMENT, bytes)
}
