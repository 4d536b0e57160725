//! Expressions with names, which other expressions use as `variables.NAME`.
//!
//! Policies have them. Each is evaluated when one first needs it, at that one's cost, and then kept.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use crate::{CostsBySize, Declaration, EvalError, Program, Type, Value, declare::Field};

/// What expressions call them by.
pub const VARIABLES: &str = "variables";
/// How many variables may wait for one another.
pub const MAX_VARIABLE_DEPTH: usize = 64;

/// Named programs. One may use those before it: compile it with what [`Variables::declaration`]
/// says of it by then.
#[derive(Debug, Default)]
pub struct Variables {
    /// Nothing for those that could not be compiled.
    programs: BTreeMap<Arc<str>, Option<Program>>,
}

impl Variables {
    pub fn new() -> Self {
        Self::default()
    }

    /// Of two with the same name the last counts.
    pub fn add(&mut self, name: &str, program: Program) {
        self.programs.insert(name.into(), Some(program));
    }

    /// One that could not be compiled: others may name it, and it may be anything.
    pub fn add_unknown(&mut self, name: &str) {
        self.programs.insert(name.into(), None);
    }

    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// What all of them may cost together.
    pub fn costs_by_size(&self) -> CostsBySize {
        self.programs.values().flatten().map(Program::costs_by_size).sum()
    }

    /// For the variable [`VARIABLES`] of the environment of an expression: those that it may name, which
    /// are the words in it. A policy may have thousands of variables and of expressions.
    pub fn declaration(&self, expression: &str) -> Declaration {
        let words = expression.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
        let named = words.filter_map(|word| self.programs.get_key_value(word));
        let fields = named.map(|(name, program)| {
            let ty = program.as_ref().map_or(Type::Dyn, |program| program.result_type().clone());
            let declaration = Arc::new(Declaration::of_type(ty));
            (name.clone(), Field { property: name.clone(), declaration })
        });
        Declaration::of_object("kubernetes.variables", fields.collect(), 2)
    }
}

/// The variables of one round of evaluations on the same input.
#[derive(Debug)]
pub struct Composed<'a> {
    variables: &'a Variables,
    values: RefCell<BTreeMap<&'a str, Result<Value<'a>, EvalError>>>,
}

impl<'a> Composed<'a> {
    pub fn new(variables: &'a Variables) -> Self {
        Self { variables, values: RefCell::default() }
    }

    pub(crate) fn program(&self, name: &str) -> Option<(&'a str, &'a Program)> {
        let (name, program) = self.variables.programs.get_key_value(name)?;
        Some((&**name, program.as_ref()?))
    }

    pub(crate) fn known(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.values.borrow().get(name).cloned()
    }

    pub(crate) fn keep(&self, name: &'a str, outcome: Result<Value<'a>, EvalError>) {
        self.values.borrow_mut().insert(name, outcome);
    }
}
