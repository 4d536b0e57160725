//! The one form in which every schema lives inside sternpost.
//!
//! Built-in types, custom resources and documents read from files all become
//! an [`ir::Schema`]; OpenAPI v2 and v3 are two ways of writing it down.
//! [`read`] turns JSON into it, [`mod@write`] turns it into JSON; what a document
//! says is kept, whether or not this crate has a use for it. [`topology`] is what
//! merging needs to know of it, [`names`] how fields are found in it.
//!
//! Invariants: a reference names a definition without any document prefix
//! (`io.k8s.api.core.v1.PodSpec`); a node never carries an empty `required`,
//! `enum` or `properties`; keys are written sorted, so equal schemas give
//! equal bytes.
//!
//! This crate does not know OpenAPI documents (paths, operations), kinds or
//! resources, and does no I/O.

pub mod extension;
pub mod ir;
pub mod names;
pub mod read;
pub mod topology;
pub mod write;

pub use ir::{Additional, Schema, Type};
