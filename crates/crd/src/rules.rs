//! The seam to whoever runs `x-kubernetes-validations`.
//!
//! This crate knows where rules stand and what is wrong with them as data; it
//! does not compile or run them.

use serde_json::Value;
use sternpost_meta::field::Errors;

/// Compiles and runs rules. Schemas are canonical JSON.
pub trait Rules {
    /// Compiles every rule of a version's schema, which stands at `path` of the definition, and
    /// reports what upstream reports: compile errors, types, costs.
    fn check(&self, schema: &Value, path: &str, costs: Costs) -> Errors;

    /// Runs the rules at and below a schema on a value, which stands at `path` of the object.
    fn run(&self, schema: &Value, value: &Value, old: Option<&Value>, path: &str) -> Outcome;
}

/// Whether each rule's own cost is limited: not where the schema did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Costs {
    Limited,
    OfTotalOnly,
}

/// What running rules gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub errors: Errors,
    /// Rules that fail on what did not change.
    pub warnings: Vec<String>,
}

/// Takes every rule for good.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRules;

impl Rules for NoRules {
    fn check(&self, _: &Value, _: &str, _: Costs) -> Errors {
        Errors::default()
    }

    fn run(&self, _: &Value, _: &Value, _: Option<&Value>, _: &str) -> Outcome {
        Outcome::default()
    }
}
