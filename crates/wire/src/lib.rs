//! Protobuf forms of what the API server sends and receives.
//!
//! [`gnostic`] turns OpenAPI documents into the protobuf messages
//! `openapi.v2.Document` and `openapi.v3.Document`, and back. Entry points:
//! [`gnostic::encode_v2`], [`gnostic::encode_v3`], [`gnostic::decode_v2`],
//! [`gnostic::decode_v3`].
//!
//! Everything here is a pure function of its input: the same document always
//! gives the same bytes. Bytes from outside may be hostile; depth, size and
//! count are bounded by named constants and nothing panics.
//!
//! This crate does not know HTTP, media types, or where a document comes from.

pub mod gnostic;
