//! Expressions of policies, and what is wrong with them.

use std::sync::Arc;

use sternpost_cel::{CompileError, Declaration, Environment, Program, VARIABLES, Variables};

pub use sternpost_meta::expression::{Problem, Purpose};

use crate::conditions::{environment, environment_without_authorizer};

/// Compiles the expressions of one policy. Variables come first, in their order.
#[derive(Debug)]
pub struct Compiler {
    full: Environment,
    plain: Environment,
    variables: Variables,
}

/// Whether a policy names a kind of parameters, so that there is `params`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Params {
    Some,
    None,
}

impl Compiler {
    pub fn new(params: Params) -> Self {
        let with_params = |environment: Environment| match params {
            Params::Some => environment.variable("params", Arc::new(Declaration::dynamic())),
            Params::None => environment,
        };
        Self {
            full: with_params(environment()),
            plain: with_params(environment_without_authorizer()),
            variables: Variables::new(),
        }
    }

    /// Where the types of objects and parameters are known.
    pub fn typed(object: &Arc<Declaration>, params: Option<&Arc<Declaration>>) -> Self {
        let types = |environment: Environment| {
            let environment =
                environment.variable("object", object.clone()).variable("oldObject", object.clone());
            match params {
                Some(params) => environment.variable("params", params.clone()),
                None => environment,
            }
        };
        Self {
            full: types(environment()),
            plain: types(environment_without_authorizer()),
            variables: Variables::new(),
        }
    }

    /// Why an expression does not compile, whatever it comes to.
    pub(super) fn complaint(&self, purpose: Purpose, expression: &str) -> Option<String> {
        match self.environment(purpose, expression).compile(expression) {
            Err(error @ CompileError::Invalid(_)) => Some(error.to_string()),
            _ => None,
        }
    }

    /// One more variable for what is compiled from here on. One that does not compile may be
    /// anything to those that use it.
    pub fn variable(&mut self, name: &str, expression: &str) -> Result<(), Problem> {
        // The first one sees that there are variables, but none of them.
        let environment =
            self.full.clone().variable(VARIABLES, Arc::new(self.variables.declaration(expression)));
        match program(&environment, expression) {
            Ok(program) => {
                self.variables.add(name, program);
                Ok(())
            }
            Err(problem) => {
                self.variables.add_unknown(name);
                Err(problem)
            }
        }
    }

    pub fn compile(&self, purpose: Purpose, expression: &str) -> Result<Program, Problem> {
        let environment = self.environment(purpose, expression);
        let program = program(&environment, expression)?;
        let found = program.result_type().unwrapped().to_string();
        let wanted = match purpose {
            Purpose::Condition | Purpose::Validation => "bool",
            Purpose::Message => "string",
            Purpose::AuditAnnotation if matches!(found.as_str(), "string" | "null") => return Ok(program),
            Purpose::AuditAnnotation => "one of [string null_type]",
            Purpose::ApplyConfiguration => "Object",
            Purpose::JsonPatch => "list(JSONPatch)",
        };
        if found == wanted {
            Ok(program)
        } else {
            Err(Problem::Invalid(format!("must evaluate to {wanted} but got {}", program.result_type())))
        }
    }

    /// Where match conditions are compiled: they come before the variables.
    pub(super) fn of_conditions(&self) -> &Environment {
        &self.full
    }

    fn environment(&self, purpose: Purpose, expression: &str) -> Environment {
        match purpose {
            Purpose::Condition => self.full.clone(),
            Purpose::Message => self.with_variables(&self.plain, expression),
            Purpose::Validation | Purpose::AuditAnnotation => self.with_variables(&self.full, expression),
            Purpose::ApplyConfiguration | Purpose::JsonPatch => {
                self.with_variables(&self.full, expression).with_json_patch()
            }
        }
    }

    pub(super) fn into_variables(self) -> Variables {
        self.variables
    }

    fn with_variables(&self, environment: &Environment, expression: &str) -> Environment {
        if self.variables.is_empty() {
            return environment.clone();
        }
        environment.clone().variable(VARIABLES, Arc::new(self.variables.declaration(expression)))
    }
}

fn program(environment: &Environment, expression: &str) -> Result<Program, Problem> {
    environment.compile(expression).map_err(|error| match error {
        CompileError::Invalid(_) => Problem::Invalid(format!("compilation failed: {error}")),
        CompileError::Program(_) => Problem::Internal(format!("program instantiation failed: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(purpose: Purpose, variables: &[(&str, &str)], expression: &str) -> Option<Problem> {
        let mut compiler = Compiler::new(Params::None);
        for (name, expression) in variables {
            let _ = compiler.variable(name, expression);
        }
        compiler.compile(purpose, expression).err()
    }

    #[test]
    fn every_purpose_wants_a_type() {
        let wrong = |text: &str| Some(Problem::Invalid(text.into()));
        for (purpose, expression, expected) in [
            (Purpose::Validation, "true", None),
            (Purpose::Validation, "1", wrong("must evaluate to bool but got int")),
            (Purpose::Condition, "object.x", wrong("must evaluate to bool but got dyn")),
            (Purpose::Message, "'a'", None),
            (Purpose::Message, "object.x", wrong("must evaluate to string but got dyn")),
            (Purpose::AuditAnnotation, "'a'", None),
            (Purpose::AuditAnnotation, "null", None),
            (Purpose::AuditAnnotation, "1", wrong("must evaluate to one of [string null_type] but got int")),
            (Purpose::ApplyConfiguration, "Object{spec: Object.spec{a: 1}}", None),
            (
                Purpose::ApplyConfiguration,
                "Object.spec{}",
                wrong("must evaluate to Object but got Object.spec"),
            ),
            (Purpose::ApplyConfiguration, "object", wrong("must evaluate to Object but got dyn")),
            (Purpose::JsonPatch, "[JSONPatch{op: 'add', value: Object.a{}}]", None),
            (Purpose::JsonPatch, "true ? [JSONPatch{}] : []", None),
            (Purpose::JsonPatch, "[]", wrong("must evaluate to list(JSONPatch) but got list(dyn)")),
            (
                Purpose::ApplyConfiguration,
                "type(Object{}) == Object ? Object{} : Object{}",
                Some(Problem::Internal(
                    "program instantiation failed: reference to undefined type: Object".into(),
                )),
            ),
        ] {
            assert_eq!(problem(purpose, &[], expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_an_expression_sees_depends_on_its_purpose() {
        let undeclared = |problem: Option<Problem>, name: &str| {
            problem
                .is_some_and(|problem| problem.text().contains(&format!("undeclared reference to '{name}'")))
        };
        let variables = [("v", "true")];
        assert_eq!(problem(Purpose::Validation, &variables, "variables.v"), None);
        assert!(undeclared(problem(Purpose::Validation, &[], "variables.v"), "variables"));
        assert!(undeclared(problem(Purpose::Condition, &variables, "variables.v"), "variables"));
        assert!(undeclared(problem(Purpose::Validation, &[], "params == null"), "params"));
        assert!(undeclared(problem(Purpose::Validation, &[], "Object{} == null"), "Object"));
        assert!(undeclared(problem(Purpose::Condition, &[], "Object{} == null"), "Object"));
        let asks = "string(authorizer.requestResource.check('get').allowed())";
        assert!(undeclared(problem(Purpose::Message, &[], asks), "authorizer"));
        assert_eq!(problem(Purpose::AuditAnnotation, &[], asks), None);
        assert!(Compiler::new(Params::Some).compile(Purpose::Condition, "params.a == 1").is_ok());
    }

    #[test]
    fn a_variable_sees_those_before_it() {
        let mut compiler = Compiler::new(Params::None);
        assert!(compiler.variable("a", "variables.b").is_err());
        assert!(compiler.variable("b", "1").is_ok());
        assert!(compiler.variable("c", "variables.b + 1").is_ok());
        let compiled = |text: &str| compiler.compile(Purpose::Validation, text).map(drop);
        assert_eq!(compiled("variables.c == 2"), Ok(()));
        assert_eq!(
            compiled("variables.a"),
            Err(Problem::Invalid("must evaluate to bool but got dyn".into()))
        );
    }
}
