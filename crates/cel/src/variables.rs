//! Expressions with names, which other expressions use as `variables.NAME`.
//!
//! Policies have them. Each is evaluated when one first needs it, at that one's cost, and then kept.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use crate::{Declaration, EvalError, Program, Value, declare::Field};

/// What expressions call them by.
pub const VARIABLES: &str = "variables";
/// How many variables may wait for one another.
pub const MAX_VARIABLE_DEPTH: usize = 64;

/// Named programs. One may use those before it: compile it with what [`Variables::declaration`]
/// says by then.
#[derive(Debug, Default)]
pub struct Variables {
    programs: BTreeMap<Arc<str>, Program>,
}

impl Variables {
    pub fn new() -> Self {
        Self::default()
    }

    /// Of two with the same name the last counts.
    pub fn add(&mut self, name: &str, program: Program) {
        self.programs.insert(name.into(), program);
    }

    /// For the variable [`VARIABLES`] of an environment.
    pub fn declaration(&self) -> Declaration {
        let fields = self.programs.iter().map(|(name, program)| {
            let declaration = Arc::new(Declaration::of_type(program.result_type().clone()));
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
        self.variables.programs.get_key_value(name).map(|(name, program)| (&**name, program))
    }

    pub(crate) fn known(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.values.borrow().get(name).cloned()
    }

    pub(crate) fn keep(&self, name: &'a str, outcome: Result<Value<'a>, EvalError>) {
        self.values.borrow_mut().insert(name, outcome);
    }
}
