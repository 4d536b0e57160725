//! The `authorizer` library: questions are collected here and answered by
//! the caller's [`Authorizer`].

use std::sync::Arc;

use crate::{evaluate::EvalError, types, value::Value};

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

/// A call of the library, or nothing if the operands are not its own.
pub(crate) fn call<'a>(function: &str, operands: &[Value<'a>]) -> Option<Result<Value<'a>, EvalError>> {
    let text = |index: usize| match operands.get(index) {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    };
    Some(match operands.first()? {
        Value::Authorizer(authorization) => on_authorizer(function, authorization, text(1)?, text(2)),
        Value::Check(check) => on_check(function, check, text(1)?)?,
        Value::Decision(decision) => Ok(match function {
            "allowed" => Value::Bool(decision.allowed),
            "errored" => Value::Bool(decision.error.is_some()),
            "reason" => Value::text(decision.reason.as_str()),
            "error" => Value::text(decision.error.as_deref().unwrap_or_default()),
            _ => return None,
        }),
        _ => return None,
    })
}

fn on_authorizer<'a>(
    function: &str,
    authorization: &Authorization,
    first: &str,
    second: Option<&str>,
) -> Result<Value<'a>, EvalError> {
    let mut question =
        Question { service_account: authorization.service_account.clone(), ..Question::default() };
    let stage = match (function, second) {
        ("path", None) => {
            if first.trim().is_empty() {
                return Err(EvalError::new("path must not be empty"));
            }
            question.path = Some(first.to_owned());
            Stage::Path
        }
        ("group", None) => {
            first.clone_into(&mut question.group);
            Stage::Group
        }
        ("serviceAccount", Some(name)) => {
            if !sternpost_meta::format::dns_subdomain(name).is_empty() {
                return Err(EvalError::new("Invalid service account name"));
            }
            if !sternpost_meta::format::dns_label(first).is_empty() {
                return Err(EvalError::new("Invalid service account namespace"));
            }
            let service_account = Some((first.to_owned(), name.to_owned()));
            return Ok(Value::Authorizer(Arc::new(Authorization {
                service_account,
                ..authorization.clone()
            })));
        }
        _ => return Err(EvalError::new("no such overload")),
    };
    Ok(Value::Check(Arc::new(Check { authorizer: authorization.authorizer.clone(), stage, question })))
}

fn on_check<'a>(function: &str, check: &Check, argument: &str) -> Option<Result<Value<'a>, EvalError>> {
    let mut next = check.clone();
    match (function, check.stage) {
        ("resource", Stage::Group) => {
            if argument.trim().is_empty() {
                return Some(Err(EvalError::new("resource must not be empty")));
            }
            argument.clone_into(&mut next.question.resource);
            next.stage = Stage::Resource;
        }
        ("subresource", Stage::Resource) => argument.clone_into(&mut next.question.subresource),
        ("namespace", Stage::Resource) => argument.clone_into(&mut next.question.namespace),
        ("name", Stage::Resource) => argument.clone_into(&mut next.question.name),
        ("fieldSelector", Stage::Resource) => next.question.field_selector = Some(argument.to_owned()),
        ("labelSelector", Stage::Resource) => next.question.label_selector = Some(argument.to_owned()),
        ("check", Stage::Resource | Stage::Path) => {
            argument.clone_into(&mut next.question.verb);
            let decision = next.authorizer.decide(&next.question);
            return Some(Ok(Value::Decision(Arc::new(decision))));
        }
        _ => return None,
    }
    Some(Ok(Value::Check(Arc::new(next))))
}
