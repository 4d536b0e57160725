//! Protobuf forms of what the API server sends and receives.
//!
//! [`gnostic`] turns OpenAPI documents into the protobuf messages
//! `openapi.v2.Document` and `openapi.v3.Document`, and back. Entry points:
//! [`gnostic::encode_v2`], [`gnostic::encode_v3`], [`gnostic::decode_v2`],
//! [`gnostic::decode_v3`].
//!
//! [`object`] turns objects of the built-in kinds into the messages that typed
//! clients write and read, and back, by the tables of the catalogue. Entry
//! points: [`object::encode`], [`object::decode`].
//!
//! Everything here is a pure function of its input: the same value always
//! gives the same bytes. Bytes from outside may be hostile; depth, size and
//! count are bounded by named constants and nothing panics.
//!
//! This crate does not know HTTP, media types, or where a document or object comes from.

pub mod gnostic;
pub mod object;
