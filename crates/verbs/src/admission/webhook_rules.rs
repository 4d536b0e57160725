//! The rules of webhook configurations, whose expressions have to compile.

use sternpost_admission::conditions::problem_of;
use sternpost_registry::{
    kinds::webhook_configuration::{self as configuration, Kind, validate},
    strategy::Strategy,
};

pub(crate) const VALIDATING: Strategy = Strategy {
    validate: |new, errors| validate(new, None, Kind::Validating, problem_of, errors),
    validate_update: |new, old, errors| validate(new, Some(old), Kind::Validating, problem_of, errors),
    ..configuration::VALIDATING
};

pub(crate) const MUTATING: Strategy = Strategy {
    validate: |new, errors| validate(new, None, Kind::Mutating, problem_of, errors),
    validate_update: |new, old, errors| validate(new, Some(old), Kind::Mutating, problem_of, errors),
    ..configuration::MUTATING
};
