//! The `authorizer` library: questions are collected here and answered by
//! the caller's [`Authorizer`].

use std::sync::Arc;

use crate::{
    estimate::{self, scaled},
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::cost,
    types,
    value::Value,
};

/// The cost of one call of `check`.
const AUTHORIZATION: u64 = 350_000;

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "path",
        "27 authorizer.(string):path",
        |call, _| {
            on_authorizer(call, |question, path| {
                if path.trim().is_empty() {
                    return Err(EvalError::new("path must not be empty"));
                }
                question.path = Some(path.to_owned());
                Ok(Stage::Path)
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        "group",
        "27 authorizer.(string):group",
        |call, _| {
            on_authorizer(call, |question, group| {
                group.clone_into(&mut question.group);
                Ok(Stage::Group)
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        "serviceAccount",
        "27 authorizer.(string,string):authorizer",
        |call, _| match call.operands {
            [Value::Authorizer(authorization), Value::String(namespace), Value::String(name)] => {
                Some(service_account(authorization, namespace.as_str(), name.as_str()))
            }
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "resource",
        "27 group.(string):resource",
        |call, _| match call.operands {
            [Value::Check(check), Value::String(resource)] if check.stage == Stage::Group => {
                if resource.as_str().trim().is_empty() {
                    return Some(Err(EvalError::new("resource must not be empty")));
                }
                let mut next = Check { stage: Stage::Resource, ..(**check).clone() };
                resource.as_str().clone_into(&mut next.question.resource);
                Some(Ok(Value::Check(Arc::new(next))))
            }
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "subresource",
        "27 resource.(string):resource",
        |call, _| on_resource(call, |question, text| question.subresource = text),
        estimate::one,
        cost::one,
    ),
    function(
        "namespace",
        "27 resource.(string):resource",
        |call, _| on_resource(call, |question, text| question.namespace = text),
        estimate::one,
        cost::one,
    ),
    function(
        "name",
        "27 resource.(string):resource",
        |call, _| on_resource(call, |question, text| question.name = text),
        estimate::one,
        cost::one,
    ),
    function(
        "fieldSelector",
        "31 resource.(string):resource",
        |call, _| on_resource(call, |question, text| question.field_selector = Some(text)),
        |of| of.price(selector_cost(of.max(1))),
        |call, _| selector_cost(call.size(1)),
    ),
    function(
        "labelSelector",
        "31 resource.(string):resource",
        |call, _| on_resource(call, |question, text| question.label_selector = Some(text)),
        |of| of.price(selector_cost(of.max(1))),
        |call, _| selector_cost(call.size(1)),
    ),
    function(
        "check",
        "27 path.(string):decision resource.(string):decision",
        |call, _| match call.operands {
            [Value::Check(check), Value::String(verb)] if check.stage != Stage::Group => {
                let question = Question { verb: verb.as_str().to_owned(), ..check.question.clone() };
                Some(Ok(Value::Decision(Arc::new(check.authorizer.decide(&question)))))
            }
            _ => None,
        },
        |of| of.price(AUTHORIZATION),
        |_, _| AUTHORIZATION,
    ),
    function(
        "allowed",
        "27 decision.():bool",
        |call, _| on_decision(call, |decision| Value::Bool(decision.allowed)),
        estimate::one,
        cost::one,
    ),
    function(
        "errored",
        "27 decision.():bool",
        |call, _| on_decision(call, |decision| Value::Bool(decision.error.is_some())),
        estimate::one,
        cost::one,
    ),
    function(
        "reason",
        "27 decision.():string",
        |call, _| on_decision(call, |decision| Value::text(decision.reason.as_str())),
        estimate::one,
        cost::one,
    ),
    function(
        "error",
        "27 decision.():string",
        |call, _| on_decision(call, |decision| Value::text(decision.error.as_deref().unwrap_or_default())),
        estimate::one,
        cost::one,
    ),
];

/// Decides whether a user may do something.
pub trait Authorizer: Send + Sync + std::fmt::Debug {
    fn decide(&self, question: &Question) -> Decision;
}

/// What an expression asks about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Another user than that of the request: namespace and name of a service account.
    pub service_account: Option<(String, String)>,
    /// Of a request for no resource.
    pub path: Option<String>,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: Option<String>,
    pub label_selector: Option<String>,
    pub verb: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// The value of `authorizer`.
#[derive(Debug, Clone)]
pub struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
}

/// A question that has no verb yet.
#[derive(Debug, Clone)]
pub struct Check {
    authorizer: Arc<dyn Authorizer>,
    stage: Stage,
    question: Question,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Path,
    Group,
    Resource,
}

impl Authorization {
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, service_account: None }
    }

    /// `authorizer.requestResource`: a question whose resource is that of the request.
    pub fn about(&self, question: Question) -> Check {
        Check { authorizer: self.authorizer.clone(), stage: Stage::Resource, question }
    }
}

impl Check {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Path => types::PATH_CHECK,
            Stage::Group => types::GROUP_CHECK,
            Stage::Resource => types::RESOURCE_CHECK,
        }
    }
}

fn on_authorizer<'a>(
    call: &Call<'_, 'a>,
    begin: fn(&mut Question, &str) -> Result<Stage, EvalError>,
) -> Option<Result<Value<'a>, EvalError>> {
    let [Value::Authorizer(authorization), Value::String(text)] = call.operands else { return None };
    let mut question =
        Question { service_account: authorization.service_account.clone(), ..Question::default() };
    Some(begin(&mut question, text.as_str()).map(|stage| {
        Value::Check(Arc::new(Check { authorizer: authorization.authorizer.clone(), stage, question }))
    }))
}

fn service_account<'a>(
    authorization: &Authorization,
    namespace: &str,
    name: &str,
) -> Result<Value<'a>, EvalError> {
    if !sternpost_meta::format::dns_subdomain(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !sternpost_meta::format::dns_label(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let service_account = Some((namespace.to_owned(), name.to_owned()));
    Ok(Value::Authorizer(Arc::new(Authorization { service_account, ..authorization.clone() })))
}

/// Adds to a question about a resource.
fn on_resource<'a>(
    call: &Call<'_, 'a>,
    add: fn(&mut Question, String),
) -> Option<Result<Value<'a>, EvalError>> {
    let [Value::Check(check), Value::String(text)] = call.operands else { return None };
    if check.stage != Stage::Resource {
        return None;
    }
    let mut next = (**check).clone();
    add(&mut next.question, text.as_str().to_owned());
    Some(Ok(Value::Check(Arc::new(next))))
}

fn on_decision<'a>(
    call: &Call<'_, 'a>,
    answer: fn(&Decision) -> Value<'a>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Decision(decision)] => Some(Ok(answer(decision))),
        _ => None,
    }
}

/// What reading a selector costs, and evaluating it.
fn selector_cost(length: u64) -> u64 {
    scaled(length, 0.1).saturating_add(50_u64.saturating_mul(scaled(length, 0.5))).saturating_add(10)
}
