//! MutatingAdmissionPolicy: what it makes of an object.

use serde_json::{Value, json};
use sternpost_apply::typed::{Duplicates, merge, validate};
use sternpost_cel::{Activation, Budget, Composed, CostsBySize, Program, Value as CelValue};
use sternpost_patch::json_patch::{self, Reason};
use sternpost_schema::topology::Type;

use super::{
    Input, POLICY_BUDGET, Policy,
    compile::{Problem, Purpose},
    failed, items,
    made::{self, Unfit, Use},
    text,
};
use crate::webhook::read_patch;

/// A policy that can be evaluated.
#[derive(Debug)]
pub struct Mutating {
    pub policy: Policy,
    /// Whether it wants to see what others change after it.
    pub wants_changes: bool,
    mutations: Vec<Mutation>,
}

#[derive(Debug)]
struct Mutation {
    purpose: Purpose,
    expression: String,
    program: Result<Program, Problem>,
}

/// What becomes of an object.
#[derive(Debug, PartialEq)]
pub enum Mutated {
    Not,
    /// It fits its schema.
    Applied(Value),
    /// It may have become anything.
    Patched(Value),
}

impl Mutating {
    pub fn read(object: &Value) -> Self {
        let (mut policy, compiler) = Policy::read(object);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mutation = |mutation: &Value| {
            let (purpose, field) = match text(mutation, "patchType") {
                "JSONPatch" => (Purpose::JsonPatch, "jsonPatch"),
                _ => (Purpose::ApplyConfiguration, "applyConfiguration"),
            };
            let expression = mutation.get(field).map(|patch| text(patch, "expression")).unwrap_or_default();
            Mutation {
                purpose,
                expression: expression.to_owned(),
                program: compiler.compile(purpose, expression),
            }
        };
        let mutations = items(spec, "mutations").iter().map(mutation).collect();
        policy.variables = compiler.into_variables();
        let wants_changes = text(spec, "reinvocationPolicy") == "IfNeeded";
        Self { policy, wants_changes, mutations }
    }

    /// What all mutations may cost, once and again after others.
    pub fn costs_by_size(&self) -> CostsBySize {
        let programs = self.mutations.iter().flat_map(|mutation| mutation.program.iter());
        self.policy.costs(programs, self.mutations.len()).times(|_| 2)
    }

    /// How many mutations there are; each is for the object that the one before left.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Whether the conditions hold, or why that cannot be said.
    pub fn holds(&self, input: Input<'_>) -> Result<bool, String> {
        self.policy.holds(&self.policy.bind(input))
    }

    /// One mutation of `object`, whose schema has this topology, or none for this reason.
    pub fn mutate(
        &self,
        index: usize,
        input: Input<'_>,
        kind: Result<&Type, &String>,
        object: &Value,
    ) -> Result<Mutated, String> {
        let Some(mutation) = self.mutations.get(index) else { return Ok(Mutated::Not) };
        let activation = self.policy.bind(input);
        let composed = Composed::new(&self.policy.variables);
        let value = mutation.evaluate(&activation, &composed)?;
        match mutation.purpose {
            Purpose::JsonPatch => patch(&value, object),
            _ => apply(&value, kind, object).map(Mutated::Applied),
        }
    }
}

impl Mutation {
    fn evaluate<'a>(
        &'a self,
        activation: &'a Activation<'a>,
        composed: &Composed<'a>,
    ) -> Result<CelValue<'a>, String> {
        let program = self
            .program
            .as_ref()
            .map_err(|problem| failed(&self.expression, &format!("compilation error: {}", problem.text())))?;
        program
            .evaluate_with(activation, composed, &mut Budget::new(POLICY_BUDGET))
            .map_err(|error| failed(&self.expression, &error))
    }
}

fn apply(value: &CelValue<'_>, kind: Result<&Type, &String>, object: &Value) -> Result<Value, String> {
    const UNTYPED: &str = "error applying patch: failed to convert patch object to typed object";
    made::check_names(value)?;
    let mut config = made::to_json(value, Use::Configuration).map_err(|unfit| match unfit {
        Unfit::Foreign { path, shown } => format!("{UNTYPED}: {path}: expected string, got {shown}"),
        Unfit::NoObject => "invalid return type: *dynamic.ObjectVal".into(),
        Unfit::Failed(why) => why,
    })?;
    let kind = kind.map_err(|why| format!("{UNTYPED}: {why}"))?;
    if let Some(problem) = made::problem_of_null(kind, &config) {
        return Err(format!("{UNTYPED}: {problem}"));
    }
    validate(kind, &config, Duplicates::Forbidden).map_err(|misfit| format!("{UNTYPED}: {misfit}"))?;
    let atomics = made::atomics(kind, &config);
    if !atomics.is_empty() {
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    // What an object is stays as it is.
    for field in ["apiVersion", "kind"] {
        if let (Some(config), Some(own)) = (config.as_object_mut(), object.get(field)) {
            config.insert(field.into(), own.clone());
        }
    }
    merge(kind, object.clone(), &config).map_err(|misfit| format!("error applying patch: {misfit}"))
}

fn patch(value: &CelValue<'_>, object: &Value) -> Result<Mutated, String> {
    let CelValue::List(list) = value else {
        return Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array, but got {}",
            value.ty()
        ));
    };
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        let item = item.map_err(|error| error.to_string())?;
        operations.push(operation(&item)?);
    }
    if operations.is_empty() {
        return Ok(Mutated::Not);
    }
    let text = Value::Array(operations).to_string();
    let read = read_patch(text.as_bytes()).map_err(|problem| format!("JSON Patch: {problem}"))?;
    match json_patch::apply(object.clone(), &read) {
        Ok(patched) => Ok(Mutated::Patched(patched)),
        // A test that fails is how a policy says that there is nothing to do.
        Err(error) if error.reason == Reason::TestFailed => Ok(Mutated::Not),
        Err(error) => Err(format!("JSON Patch: {}", error.upstream())),
    }
}

fn operation(item: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Message(message) = item else {
        return Err(format!(
            "type mismatch: JSONPatch items must be of type JSONPatch, but got {}",
            item.ty()
        ));
    };
    let json = |field: &str| match message.fields.get(field) {
        None => Ok(Value::Null),
        Some(value) => made::to_json(value, Use::Patch).map_err(|unfit| match unfit {
            Unfit::Foreign { shown, .. } => format!("unsupported value: {shown}"),
            Unfit::NoObject => "unsupported map key type".into(),
            Unfit::Failed(why) => why,
        }),
    };
    let text = |field: &str| json(field).map(|value| if value.is_null() { "".into() } else { value });
    let mut operation = json!({"op": text("op")?, "path": text("path")?, "value": json("value")?});
    if message.fields.contains_key("from")
        && let Some(fields) = operation.as_object_mut()
    {
        fields.insert("from".into(), text("from")?);
    }
    Ok(operation)
}

#[cfg(test)]
mod tests;
