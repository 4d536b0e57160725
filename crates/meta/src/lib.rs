//! The words of the Kubernetes API that every other crate shares.
//!
//! Start with [`gvk`] (names of kinds and resources), [`resource`] (what the
//! server knows of one resource: scope, verbs, short names, subresources) and
//! [`status`] (the one error model: every failure a client sees is a
//! [`status::Status`], built here so that its text exists in one place).
//!
//! Everything here is plain data and pure functions. This crate knows nothing
//! of schemas, storage or HTTP connections.

pub mod age;
pub mod audit;
pub mod authorize;
pub mod cancel;
pub mod expression;
pub mod field;
pub mod format;
pub mod gvk;
pub mod nearest;
pub mod object_meta;
pub mod quantity;
pub mod resource;
pub mod review;
pub mod selector;
pub mod shape;
pub mod status;
pub mod user;
pub mod warning;
