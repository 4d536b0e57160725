//! OpenAPI documents: built from the catalogue and from custom resources,
//! written as v2 and v3, read back, and published.
//!
//! [`served::Subject`] says which documents the server has and builds each as a
//! [`document::Document`], the one model behind both versions;
//! [`custom::CustomResource`] is what they need to know of a custom resource.
//! [`v3`] and [`v2`] write it, [`read`] reads either back.
//! [`publisher::Publisher`] keeps what was written: per document, per spelling,
//! per form, each made once, when first asked for. [`explain`] tells people what
//! a type looks like.
//!
//! Documents that others wrote are JSON trees: [`convert`] turns one version into
//! the other, [`filter`] restricts one to some paths, [`merge`] puts several into
//! one, [`references`] says what refers to what, and [`definitions`] turns kinds into
//! definitions of custom resources.
//!
//! Equal documents give equal bytes and therefore equal hashes, on every
//! replica and after every restart.
//!
//! This crate does not know HTTP or storage.

pub mod convert;
pub mod custom;
pub mod definitions;
pub mod document;
pub mod explain;
pub mod filter;
pub mod merge;
pub mod names;
pub mod publisher;
pub mod read;
pub mod references;
pub mod served;
pub mod v2;
pub mod v3;

mod operations;
mod parameters;
mod protobuf_parts;
mod wrappers;
