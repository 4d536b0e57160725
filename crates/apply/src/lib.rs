//! Who owns which field of an object: managedFields and server-side apply.
//!
//! Two entry points. [`update()`] keeps managedFields right for every create,
//! update and patch; [`apply()`] merges an applied configuration into an object,
//! finds conflicts, and removes what its manager no longer applies.
//! [`check_managed_fields`] is for what admission made of them;
//! [`restore_times`] afterwards makes a write that changed nothing a no-op;
//! [`scale`] shows owners through `/scale` and back.
//!
//! Below them: [`path`] and [`set`] are paths and sets of paths, [`typed`] walks
//! an object with its topology, [`reset`] is what an endpoint cannot own.
//!
//! Invariants: `FieldsV1` that leaves this crate is canonical, so entries of
//! managers that a write does not touch are never decoded; managedFields are
//! sorted; everything is a pure function of its arguments, the time included.
//!
//! This crate does not know HTTP, storage or kinds: what it must know of a
//! resource comes through [`Versions`].

mod apply;
mod fields_v1;
mod last_applied;
mod malformed;
mod managers;
pub mod path;
pub mod reset;
pub mod scale;
pub mod set;
mod times;
pub mod typed;
mod update;
mod value;
mod versions;

pub use self::{
    apply::{Applied, ApplyError, Conflict, apply},
    managers::{ANCIENT_CHANGES, BEFORE_FIRST_APPLY, MAX_UPDATE_MANAGERS},
    reset::ResetFields,
    times::restore_times,
    update::{check_managed_fields, update},
    versions::Versions,
};

/// Who writes, through which endpoint, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    pub api_version: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// RFC 3339 in UTC, whole seconds.
    pub now: &'a str,
    pub reset: &'a ResetFields,
}

impl Writer<'_> {
    fn entry(&self, operation: managers::Operation) -> managers::Entry {
        managers::Entry {
            manager: self.manager.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
            time: None,
            fields: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}
