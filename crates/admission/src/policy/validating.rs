//! ValidatingAdmissionPolicy: what it says of a request.

use serde_json::Value;
use sternpost_cel::{Activation, Budget, Composed, CostsBySize, ErrorKind, Program, Value as CelValue};
use sternpost_meta::status::Reason;

use super::{
    Input, POLICY_BUDGET, Policy,
    compile::{Compiler, Problem, Purpose},
    failed, items, text,
};

/// The longest message that an expression may make, in bytes.
pub const MAX_MESSAGE: usize = 5 * 1024;
/// What is longer of the value of an audit annotation is cut off, in bytes.
pub const MAX_ANNOTATION: usize = 10 * 1024;

/// Variables are evaluated for validations, for messages and for audit annotations.
const VARIABLE_ROUNDS: usize = 3;

/// A policy that can be evaluated.
#[derive(Debug)]
pub struct Validating {
    pub policy: Policy,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
}

#[derive(Debug)]
struct Validation {
    expression: String,
    program: Result<Program, Problem>,
    message: String,
    /// Nothing if no expression makes it.
    made_message: Option<Program>,
    reason: Reason,
}

#[derive(Debug)]
struct Annotation {
    key: String,
    expression: String,
    program: Result<Program, Problem>,
}

/// What comes of one binding and parameter.
#[derive(Debug, Default, PartialEq)]
pub struct Evaluation {
    /// What the binding's actions are about, in order.
    pub denials: Vec<Denial>,
    /// By their keys.
    pub annotations: Vec<(String, String)>,
    /// Why annotations could not be made; the request is refused whatever the actions are.
    pub annotation_failures: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    pub reason: Reason,
    pub message: String,
    /// Which of the validations.
    pub index: usize,
}

impl Validating {
    pub fn read(object: &Value) -> Self {
        let (mut policy, compiler) = Policy::read(object);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let validations =
            items(spec, "validations").iter().map(|item| Validation::read(item, &compiler)).collect();
        let annotation = |item: &Value| {
            let expression = text(item, "valueExpression").to_owned();
            let program = compiler.compile(Purpose::AuditAnnotation, &expression);
            Annotation { key: text(item, "key").to_owned(), expression, program }
        };
        let annotations = items(spec, "auditAnnotations").iter().map(annotation).collect();
        policy.variables = compiler.into_variables();
        Self { policy, validations, annotations }
    }

    /// What [`Self::evaluate`] may cost.
    pub fn costs_by_size(&self) -> CostsBySize {
        let validations =
            self.validations.iter().flat_map(|own| own.program.iter().chain(own.made_message.as_ref()));
        let annotations = self.annotations.iter().flat_map(|own| own.program.iter());
        self.policy.costs(validations.chain(annotations), VARIABLE_ROUNDS)
    }

    pub fn evaluate(&self, input: Input<'_>) -> Evaluation {
        let activation = self.policy.bind(input);
        match self.policy.holds(&activation) {
            Ok(true) => {}
            Ok(false) => return Evaluation::default(),
            Err(why) => return Evaluation { denials: self.failure(why), ..Evaluation::default() },
        }
        let (annotations, annotation_failures) = self.annotate(&activation);
        Evaluation { denials: self.denials(&activation), annotations, annotation_failures }
    }

    fn denials(&self, activation: &Activation<'_>) -> Vec<Denial> {
        let mut budget = Budget::new(POLICY_BUDGET);
        let composed = Composed::new(&self.policy.variables);
        let mut outcomes = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let expression = &validation.expression;
            outcomes.push(match &validation.program {
                Err(problem) => Err(failed(expression, &format!("compilation error: {}", problem.text()))),
                Ok(program) => match program.evaluate_with(activation, &composed, &mut budget) {
                    // Nothing of what was found before counts.
                    Err(error) if error.kind() == ErrorKind::Budget => {
                        return self.failure(error.to_string());
                    }
                    Err(error) => Err(failed(expression, &error)),
                    Ok(value) => Ok(matches!(value, CelValue::Bool(true))),
                },
            });
        }
        let messages = self.messages(activation, &mut budget);
        let mut denials = Vec::new();
        for (index, (validation, outcome)) in self.validations.iter().zip(outcomes).enumerate() {
            let message = match outcome {
                Ok(true) => continue,
                Ok(false) => {
                    let made = match &messages {
                        Ok(messages) => messages.get(index).cloned().flatten(),
                        Err(why) => validation.made_message.as_ref().map(|_| why.clone()),
                    };
                    made.unwrap_or_else(|| validation.plain_message())
                }
                Err(_) if self.policy.ignores_failure => continue,
                Err(why) => {
                    denials.push(Denial { reason: Reason::Invalid, message: why, index });
                    continue;
                }
            };
            denials.push(Denial { reason: validation.reason, message, index });
        }
        denials
    }

    /// What the expressions for messages say, of all validations: upstream evaluates them before it
    /// looks at outcomes.
    fn messages(
        &self,
        activation: &Activation<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<Option<String>>, String> {
        let composed = Composed::new(&self.policy.variables);
        let mut messages = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let Some(program) = &validation.made_message else {
                messages.push(None);
                continue;
            };
            messages.push(match program.evaluate_with(activation, &composed, budget) {
                Err(error) if error.kind() == ErrorKind::Budget => {
                    return Err(format!("failed messageExpression: {error}"));
                }
                Ok(CelValue::String(text)) => usable_message(text.as_str()),
                Ok(_) | Err(_) => None,
            });
        }
        Ok(messages)
    }

    /// The annotations, and why some could not be made.
    fn annotate(&self, activation: &Activation<'_>) -> (Vec<(String, String)>, Vec<String>) {
        let mut budget = Budget::new(POLICY_BUDGET);
        let composed = Composed::new(&self.policy.variables);
        let (mut made, mut failures) = (Vec::new(), Vec::new());
        for Annotation { key, expression, program } in &self.annotations {
            let outcome = match program {
                Err(problem) => Err(failed(expression, &format!("compilation error: {}", problem.text()))),
                Ok(program) => match program.evaluate_with(activation, &composed, &mut budget) {
                    Err(error) if error.kind() == ErrorKind::Budget => {
                        failures.push(error.to_string());
                        break;
                    }
                    Err(error) => Err(failed(expression, &error)),
                    Ok(CelValue::String(text)) => Ok(text.as_str().trim().to_owned()),
                    Ok(_) => Ok(String::new()),
                },
            };
            match outcome {
                Ok(value) if value.is_empty() => {}
                Ok(value) => made.push((key.clone(), cut(value))),
                Err(why) => failures.push(why),
            }
        }
        if self.policy.ignores_failure {
            failures.clear();
        }
        (made, failures)
    }

    fn failure(&self, why: String) -> Vec<Denial> {
        if self.policy.ignores_failure {
            return Vec::new();
        }
        vec![Denial { reason: Reason::Invalid, message: why, index: 0 }]
    }
}

impl Validation {
    fn read(validation: &Value, compiler: &Compiler) -> Self {
        let expression = text(validation, "expression").to_owned();
        let made = text(validation, "messageExpression");
        Self {
            program: compiler.compile(Purpose::Validation, &expression),
            expression,
            message: text(validation, "message").trim().to_owned(),
            made_message: Some(made)
                .filter(|made| !made.is_empty())
                .and_then(|made| compiler.compile(Purpose::Message, made).ok()),
            reason: match text(validation, "reason") {
                "Forbidden" => Reason::Forbidden,
                "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
                _ => Reason::Invalid,
            },
        }
    }

    fn plain_message(&self) -> String {
        match self.message.as_str() {
            "" => format!("failed expression: {}", self.expression.trim()),
            message => message.to_owned(),
        }
    }
}

fn usable_message(text: &str) -> Option<String> {
    let is_usable = text.len() <= MAX_MESSAGE && !text.trim().is_empty() && !text.contains('\n');
    is_usable.then(|| text.trim().to_owned())
}

/// At most [`MAX_ANNOTATION`] bytes, of whole characters.
fn cut(mut value: String) -> String {
    let mut end = MAX_ANNOTATION.min(value.len());
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.truncate(end);
    value
}

#[cfg(test)]
mod tests;
