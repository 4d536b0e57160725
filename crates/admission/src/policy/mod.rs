//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy, but for what they need of the world.
//!
//! [`compile`] turns expressions into programs and says what is wrong with them. A policy is read
//! once ([`validating::Validating`], [`mutating::Mutating`]) and evaluated for each of its bindings and
//! each of their parameters. Texts are upstream's.

pub mod compile;
mod made;
pub mod mutating;
pub mod type_check;
pub mod validating;

use serde_json::Value;
use sternpost_cel::{Activation, CostsBySize, Program, Value as CelValue, Variables};
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    selector::LabelSelector,
};

use crate::{
    conditions::{self, Conditions, Verdict},
    matching::Matcher,
};
use compile::{Compiler, Params};

/// What all validations, all audit annotations or one mutation of a policy may cost.
pub const POLICY_BUDGET: u64 = 10_000_000;

/// What both kinds of policies have.
#[derive(Debug)]
pub struct Policy {
    pub name: String,
    pub ignores_failure: bool,
    pub param_kind: Option<GroupVersionKind>,
    /// Or why it cannot be said whom it concerns.
    pub matcher: Result<Matcher, String>,
    conditions: Conditions,
    variables: Variables,
}

/// Where a policy holds, and with which parameters.
#[derive(Debug)]
pub struct Binding {
    pub name: String,
    pub policy: String,
    pub params: Option<ParamRef>,
    /// Nothing if it says nothing of resources.
    pub matcher: Option<Result<Matcher, String>>,
    /// As they are written.
    pub actions: Vec<String>,
}

/// Which objects are the parameters.
#[derive(Debug)]
pub struct ParamRef {
    pub which: Which,
    namespace: String,
    /// Whether there must be some.
    pub is_required: bool,
}

#[derive(Debug)]
pub enum Which {
    Named(String),
    Selected(LabelSelector),
}

/// What expressions are evaluated on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub variables: conditions::Variables<'a>,
    /// Null if the binding names none.
    pub params: &'a Value,
}

/// What is refused with where no parameters are.
pub const NO_PARAMS: &str =
    "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";

/// What is refused with where parameters are of a kind that is not served.
pub fn no_param_kind(kind: &GroupVersionKind) -> String {
    let GroupVersionKind { group, version, kind } = kind;
    format!(
        "failed to configure policy: failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
    )
}

impl Policy {
    fn read(policy: &Value) -> (Self, Compiler) {
        let spec = policy.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec
            .get("paramKind")
            .filter(|kind| kind.is_object())
            .map(|kind| GroupVersion::parse(text(kind, "apiVersion")).kind(text(kind, "kind")));
        let params = if param_kind.is_some() { Params::Some } else { Params::None };
        let mut compiler = Compiler::new(params);
        for variable in items(spec, "variables") {
            // One that does not compile is missed by who uses it.
            let _ = compiler.variable(text(variable, "name"), text(variable, "expression"));
        }
        let policy = Self {
            name: policy
                .get("metadata")
                .map(|metadata| text(metadata, "name"))
                .unwrap_or_default()
                .to_owned(),
            ignores_failure: text(spec, "failurePolicy") == "Ignore",
            param_kind,
            matcher: Matcher::of_constraints(spec.get("matchConstraints").unwrap_or(&Value::Null))
                .map_err(|error| error.to_string()),
            conditions: Conditions::compile_in(compiler.of_conditions(), items(spec, "matchConditions")),
            variables: Variables::new(),
        };
        (policy, compiler)
    }

    /// What `programs` may cost together with conditions, where variables are evaluated so many times.
    fn costs<'a>(&self, programs: impl Iterator<Item = &'a Program>, rounds: usize) -> CostsBySize {
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
        let own: CostsBySize = programs.map(Program::costs_by_size).sum();
        own + self.conditions.costs_by_size() + self.variables.costs_by_size().times(|_| rounds)
    }

    fn bind<'a>(&self, input: Input<'a>) -> Activation<'a> {
        let activation = input.variables.bind(Activation::new());
        match self.param_kind {
            Some(_) => activation.bind("params", CelValue::from_json(input.params)),
            None => activation,
        }
    }

    /// Whether the conditions hold, or why that cannot be said.
    fn holds(&self, activation: &Activation<'_>) -> Result<bool, String> {
        match self.conditions.evaluate_in(activation) {
            Verdict::Yes => Ok(true),
            Verdict::No => Ok(false),
            Verdict::Failed(why) => Err(match why.as_slice() {
                [one] => one.clone(),
                several => format!("[{}]", several.join(", ")),
            }),
        }
    }
}

impl Binding {
    pub fn read(binding: &Value) -> Self {
        let spec = binding.get("spec").unwrap_or(&Value::Null);
        let resources = spec.get("matchResources").filter(|resources| resources.is_object());
        let name = binding.get("metadata").map(|metadata| text(metadata, "name")).unwrap_or_default();
        let actions = items(spec, "validationActions").iter().filter_map(Value::as_str);
        Self {
            name: name.to_owned(),
            policy: text(spec, "policyName").to_owned(),
            params: spec.get("paramRef").filter(|params| params.is_object()).map(ParamRef::read),
            matcher: resources
                .map(|resources| Matcher::of_binding(resources).map_err(|error| error.to_string())),
            actions: actions.map(str::to_owned).collect(),
        }
    }

    pub fn does(&self, action: &str) -> bool {
        self.actions.iter().any(|own| own == action)
    }
}

impl ParamRef {
    fn read(reference: &Value) -> Self {
        let which = match text(reference, "name") {
            "" => {
                let selector = reference.get("selector").unwrap_or(&Value::Null);
                // One that cannot be read was never stored.
                Which::Selected(
                    LabelSelector::from_object(selector).unwrap_or_else(|_| LabelSelector::nothing()),
                )
            }
            name => Which::Named(name.to_owned()),
        };
        Self {
            which,
            namespace: text(reference, "namespace").to_owned(),
            is_required: text(reference, "parameterNotFoundAction") != "Allow",
        }
    }

    /// The namespace to look in, empty for none, or why there is nowhere to look.
    pub fn namespace<'a>(&'a self, kind: ParamScope, of_request: &'a str) -> Result<&'a str, &'static str> {
        match (kind, self.namespace.as_str(), of_request) {
            (ParamScope::Cluster, "", _) => Ok(""),
            (ParamScope::Cluster, ..) => Err(
                "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
            ),
            (ParamScope::Namespaced, "", "") => Err(
                "failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
            ),
            (ParamScope::Namespaced, "", namespace) | (ParamScope::Namespaced, namespace, _) => Ok(namespace),
        }
    }
}

/// Whether parameters are in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamScope {
    Cluster,
    Namespaced,
}

/// What upstream says of an expression that came to nothing.
fn failed(expression: &str, why: &dyn std::fmt::Display) -> String {
    format!("expression '{expression}' resulted in error: {why}")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_looked_for_where_the_binding_or_the_request_is() {
        let reference = |namespace: &str| {
            ParamRef::read(&json!({"name": "a", "namespace": namespace, "parameterNotFoundAction": "Deny"}))
        };
        let (cluster, namespaced) = (ParamScope::Cluster, ParamScope::Namespaced);
        for (own, kind, of_request, expected) in [
            ("", cluster, "shop", Ok("")),
            ("", cluster, "", Ok("")),
            ("x", cluster, "shop", Err("must not be provided for a cluster-scoped `paramKind`")),
            ("", namespaced, "shop", Ok("shop")),
            ("x", namespaced, "shop", Ok("x")),
            ("x", namespaced, "", Ok("x")),
            ("", namespaced, "", Err("in policy binding that matches cluster-scoped resources")),
        ] {
            let reference = reference(own);
            let found = reference.namespace(kind, of_request);
            match (found, expected) {
                (Err(found), Err(expected)) => assert!(found.ends_with(expected), "{found}"),
                (found, expected) => assert_eq!(found, expected),
            }
        }
    }
}
