//! CEL as Kubernetes has it: the language of validation rules and policies.
//!
//! Start with [`Environment`]: it knows the variables and their types, and
//! [`Environment::compile`] turns a text into a [`Program`] or into errors
//! with upstream's words and places. A program knows its result type and its
//! worst case cost, and [`Program::evaluate`] runs it on an [`Activation`].
//!
//! Text → `parse` (macros expanded) → `check` (types, overloads) →
//! `literals` → `plan` → `evaluate`; `estimate` prices the checked tree.
//! All of them find a function's row in `functions`; rows stand in `library`.
//! Types come from schemas through [`Declaration`].
//!
//! Invariants: no input panics; every pass is bounded by the text, and an
//! evaluation by [`CALL_LIMIT`], [`MAX_ALLOCATED`] and [`MAX_WORK`]. Programs
//! are immutable and shared between threads.
//!
//! It knows nothing of HTTP, storage, kinds or where rules stand in a schema.

mod ast;
mod authorizer;
mod by_size;
mod check;
mod declare;
mod estimate;
mod evaluate;
mod functions;
mod library;
mod limits;
mod literals;
mod messages;
mod parse;
mod plan;
mod source;
mod token;
mod types;
mod value;
mod variables;

use std::{collections::BTreeMap, fmt, sync::Arc};

pub use authorizer::{Authorization, Authorizer, Check, Decision, Question};
pub use by_size::{CostsBySize, OBJECT_SIZES};
pub use declare::{Declaration, MAX_REQUEST_BYTES, MAX_SCHEMA_DEPTH, Object, SchemaPosition, escape};
pub use evaluate::{
    Activation, Budget, CALL_LIMIT, ErrorKind, EvalError, INTERRUPT_EVERY, MAX_ALLOCATED, MAX_WORK,
};
pub use functions::signatures;
pub use library::{
    format::NamedFormat, lists::MAX_FLATTEN_DEPTH, net::Cidr, quantity::Amount, regex::MAX_COMPILED_BYTES,
    semver::Semver, time::Timestamp, url::Url,
};
pub use limits::{Excess, RULE_COST_LIMIT, SCHEMA_COST_LIMIT, cardinality};
pub use parse::{MAX_CODE_POINTS, MAX_DEPTH, MAX_ERRORS, MAX_EXPANDED_DEPTH, MAX_NESTING, MAX_NODES};
pub use source::{Error, render};
pub use types::Type;
pub use value::{List, Map, Message, Text, Value};
pub use variables::{Composed, MAX_VARIABLE_DEPTH, VARIABLES, Variables};

/// The newest Kubernetes minor version whose libraries exist here.
pub const NEWEST_VERSION: u32 = 36;

/// Variables, their types, and which libraries there are.
#[derive(Debug, Clone)]
pub struct Environment {
    variables: BTreeMap<Arc<str>, Arc<Declaration>>,
    version: u32,
    sizes: Option<Arc<Declaration>>,
    json_patch: bool,
}

/// Why there is no program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileError {
    /// The text is wrong, in these places.
    Invalid(Vec<Error>),
    /// The text is right, but a constant in it cannot be computed.
    Program(EvalError),
}

/// As upstream ends `compilation failed: ` and `program instantiation failed: `.
impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => f.write_str(&render(errors)),
            Self::Program(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompileError {}

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// Every library, no variables.
    pub fn new() -> Self {
        Self { variables: BTreeMap::new(), version: NEWEST_VERSION, sizes: None, json_patch: false }
    }

    /// Only libraries that Kubernetes 1.`minor` had.
    #[must_use]
    pub fn at_version(mut self, minor: u32) -> Self {
        self.version = minor;
        self
    }

    /// With what only mutations have: the library `jsonpatch`, and the types `Object` and `JSONPatch` of
    /// objects that they make.
    #[must_use]
    pub fn with_json_patch(mut self) -> Self {
        self.json_patch = true;
        self
    }

    #[must_use]
    pub fn variable(mut self, name: &str, declaration: Arc<Declaration>) -> Self {
        self.variables.insert(name.into(), declaration);
        self
    }

    /// Where estimates look up sizes by path: the declaration of `self`.
    /// Upstream ignores which variable a path starts at, and so do we.
    #[must_use]
    pub fn sizes_from(mut self, declaration: Arc<Declaration>) -> Self {
        self.sizes = Some(declaration);
        self
    }

    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        let source = source::Source::new(text);
        let parsed = parse::parse(&source).map_err(CompileError::Invalid)?;
        let scope =
            check::Scope { variables: &self.variables, version: self.version, json_patch: self.json_patch };
        let mut checked =
            check::check(&scope, &source, &parsed.root, parsed.nodes).map_err(CompileError::Invalid)?;
        if self.version >= LITERAL_CHECKS_SINCE {
            let errors = literals::check(&source, &parsed.root, &checked);
            if !errors.is_empty() {
                return Err(CompileError::Invalid(errors));
            }
        }
        let result = checked.types.get(parsed.root.id).cloned().unwrap_or(Type::Dyn);
        checked.unwrap_types();
        let estimate = |largest| estimate::estimate(&parsed.root, &checked, self.sizes.as_deref(), largest);
        let by_size = CostsBySize::estimated(|size| estimate(Some(size)));
        let estimate = estimate(None);
        let plan = plan::plan(&parsed.root, &checked).map_err(CompileError::Program)?;
        let mut variables: Vec<Arc<str>> = checked
            .references
            .into_values()
            .filter_map(|reference| match reference {
                check::Reference::Variable(name) if self.variables.contains_key(&name) => Some(name),
                _ => None,
            })
            .collect();
        variables.sort();
        variables.dedup();
        Ok(Program { plan, result, estimate, by_size, variables })
    }
}

/// The Kubernetes minor version that began to refuse wrong literals.
const LITERAL_CHECKS_SINCE: u32 = 29;

/// An expression that can run, any number of times and anywhere.
#[derive(Debug)]
pub struct Program {
    plan: plan::Plan,
    result: Type,
    estimate: u64,
    by_size: CostsBySize,
    variables: Vec<Arc<str>>,
}

impl Program {
    pub fn result_type(&self) -> &Type {
        &self.result
    }

    /// The most it can cost, given the limits of the schema.
    pub fn estimated_cost(&self) -> u64 {
        self.estimate
    }

    /// The most it can cost, given the size of the object it is about.
    pub fn costs_by_size(&self) -> CostsBySize {
        self.by_size
    }

    /// Whether the expression mentions a variable, such as `oldSelf`.
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|name| **name == *variable)
    }

    pub fn evaluate<'a>(
        &'a self,
        activation: &'a Activation<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        evaluate::evaluate(&self.plan, activation, None, budget)
    }

    /// The same where there are `variables`. What they cost is charged here if nobody needed them before.
    pub fn evaluate_with<'a>(
        &'a self,
        activation: &'a Activation<'a>,
        variables: &Composed<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        evaluate::evaluate(&self.plan, activation, Some(variables), budget)
    }
}
