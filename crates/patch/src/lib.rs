//! Three ways to change an object: JSON Patch, JSON Merge Patch and
//! Strategic Merge Patch; and how to make the latter two from objects.
//!
//! Entry points: [`json_patch::decode`] and [`json_patch::apply`];
//! [`merge_patch::apply`], [`merge_patch::diff`] and [`merge_patch::three_way`];
//! [`strategic::apply`], [`strategic::diff`] and [`strategic::three_way`].
//! [`body`] reads the bodies of the latter two.
//!
//! All of it is what kube-apiserver and kubectl do, oddities included, since
//! clients are made for those. Objects are taken by value and changed in
//! place: what a patch does not mention is not copied. A patch is borrowed,
//! for a write that lost a race is tried again.
//!
//! Invariants: nothing panics, whatever object and patch are; no result is
//! nested deeper than [`MAX_DEPTH`] if the inputs are not.
//!
//! This crate does not know managed fields, HTTP or kinds: which schema an
//! object has, and which status an error becomes, is for the caller to say.

pub mod body;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

/// How deep objects and lists may nest: as deep as the JSON reader goes, so
/// that what a patch makes can be read again.
pub const MAX_DEPTH: usize = 127;
