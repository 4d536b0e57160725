//! The rules of policies, whose expressions have to compile.

use serde_json::Value;
use sternpost_admission::policy::compile::{Compiler, Params};
use sternpost_meta::expression::{Problem, Purpose};
use sternpost_registry::{
    kinds::{mutating_admission_policy as mutating, validating_admission_policy as validating},
    object::Fields,
    strategy::Strategy,
    validation::admission_policy::Expressions,
};

pub(crate) const VALIDATING: Strategy = Strategy {
    validate: |new, errors| validating::validate(new, None, &mut Compiling::of(new), errors),
    validate_update: |new, old, errors| {
        validating::validate(new, Some(old), &mut Compiling::of(new), errors);
    },
    ..validating::STRATEGY
};

pub(crate) const MUTATING: Strategy = Strategy {
    validate: |new, errors| mutating::validate(new, None, &mut Compiling::of(new), errors),
    validate_update: |new, old, errors| mutating::validate(new, Some(old), &mut Compiling::of(new), errors),
    ..mutating::STRATEGY
};

struct Compiling(Compiler);

impl Compiling {
    fn of(policy: &Value) -> Self {
        let has_params = policy.field("spec").has("paramKind");
        Self(Compiler::new(if has_params { Params::Some } else { Params::None }))
    }
}

impl Expressions for Compiling {
    fn variable(&mut self, name: &str, expression: &str) -> Option<Problem> {
        self.0.variable(name, expression).err()
    }

    fn expression(&self, expression: &str, purpose: Purpose) -> Option<Problem> {
        self.0.compile(purpose, expression).err()
    }
}
