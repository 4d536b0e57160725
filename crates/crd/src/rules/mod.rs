//! `x-kubernetes-validations`: compiled with the definition, run on its objects.
//!
//! `check` says what is wrong with rules as a definition brings them, `compile` makes
//! programs of them, `run` runs those on an object.

mod check;
mod compile;
pub(crate) mod path;
mod run;

use sternpost_meta::field::Errors;

pub(crate) use check::{Stored, check};
pub(crate) use compile::{RuleTree, Rules};
pub use run::MAX_MESSAGE;
pub(crate) use run::run;

/// Whether each rule's own cost is limited: not where the schema did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Costs {
    Limited,
    OfTotalOnly,
}

/// What is wrong with an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub errors: Errors,
    /// Rules that fail on what did not change.
    pub warnings: Vec<String>,
}
