//! CustomResourceDefinitions and the objects they define, as far as they are data.
//!
//! A definition is written: [`prepare`] reads its schemas as Go does and fills in
//! what the server decides, [`validate`] says all that is wrong with it,
//! [`names`] whether it may have the names it asks for. It is served:
//! [`definition::Definition::read`] compiles it, [`object`] reads, prunes,
//! defaults, converts and validates custom objects against one version of it,
//! [`table`] shows them as rows.
//!
//! Invariants: everything is pure and total; any JSON goes in, nothing panics.
//! Schemas nest at most [`props::MAX_DEPTH`] deep, patterns match in linear time
//! within [`pattern::MAX_COMPILED`] bytes, findings end at [`object::MAX_ERRORS`].
//! Texts and their order are upstream's; where upstream has no order
//! (properties of an object) it is alphabetical.
//!
//! Rules are compiled once a version, when its first object is written.
//!
//! This crate does not know HTTP or storage. What is true of every object's
//! metadata is checked by whoever checks it for built-in kinds.

pub mod conversion;
pub mod definition;
mod enumeration;
pub mod format;
pub mod json_path;
pub mod names;
mod node;
mod number;
pub mod object;
pub mod pattern;
pub mod prepare;
pub mod props;
pub mod rules;
pub mod table;
pub mod validate;
