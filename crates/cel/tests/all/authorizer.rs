//! The `authorizer` library asks the caller.

use std::sync::Arc;

use sternpost_cel::{
    Activation, Authorization, Authorizer, Budget, Decision, Declaration, Environment, Question, Value,
};

/// Allows `get`; answers with what it was asked.
#[derive(Debug)]
struct Echo;

impl Authorizer for Echo {
    fn decide(&self, question: &Question) -> Decision {
        let error = (question.verb == "broken").then(|| "cannot say".to_owned());
        Decision { allowed: question.verb == "get", reason: format!("{question:?}"), error }
    }
}

fn evaluate(text: &str) -> (Result<String, String>, u64) {
    let environment = Environment::new()
        .variable("authorizer", Arc::new(Declaration::authorizer()))
        .variable("authorizer.requestResource", Arc::new(Declaration::resource_check()));
    let program = environment.compile(text).unwrap();
    let authorization = Authorization::new(Arc::new(Echo));
    let about = authorization.about(Question {
        resource: "pods".into(),
        namespace: "ns".into(),
        ..Question::default()
    });
    let activation = Activation::new()
        .bind("authorizer", Value::Authorizer(Arc::new(authorization)))
        .bind("authorizer.requestResource", Value::Check(Arc::new(about)));
    let mut budget = Budget::new(u64::MAX);
    let outcome = program.evaluate(&activation, &mut budget).map_err(|error| error.to_string()).map(
        |value| match value {
            Value::Bool(value) => value.to_string(),
            Value::String(text) => text.as_str().to_owned(),
            other => other.ty().to_string(),
        },
    );
    (outcome, budget.last_cost())
}

#[test]
fn decisions_come_from_the_caller() {
    for (text, expected) in [
        ("authorizer.group('').resource('pods').namespace('a').name('b').check('get').allowed()", Ok("true")),
        ("authorizer.group('').resource('pods').check('list').allowed()", Ok("false")),
        ("authorizer.path('/healthz').check('get').allowed()", Ok("true")),
        ("authorizer.requestResource.check('get').reason().contains('resource: \"pods\"')", Ok("true")),
        (
            "authorizer.requestResource.subresource('log').check('get').reason().contains('subresource: \"log\"')",
            Ok("true"),
        ),
        ("authorizer.requestResource.labelSelector('a=b').check('get').reason().contains('a=b')", Ok("true")),
        (
            "authorizer.serviceAccount('ns', 'sa').path('/x').check('get').reason().contains('(\"ns\", \"sa\")')",
            Ok("true"),
        ),
        ("authorizer.path('/x').check('broken').errored()", Ok("true")),
        ("authorizer.path('/x').check('broken').error()", Ok("cannot say")),
        ("authorizer.path('').check('get').allowed()", Err("path must not be empty")),
        ("authorizer.group('').resource(' ').check('get').allowed()", Err("resource must not be empty")),
        (
            "authorizer.serviceAccount('ns', '-').path('/x').check('get').allowed()",
            Err("Invalid service account name"),
        ),
        (
            "authorizer.serviceAccount('N', 'sa').path('/x').check('get').allowed()",
            Err("Invalid service account namespace"),
        ),
        ("authorizer == authorizer", Err("no such overload")),
    ] {
        let found = evaluate(text).0;
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

#[test]
fn two_checks_fit_one_evaluation_and_three_do_not() {
    let check = "authorizer.path('/x').check('get').allowed()";
    let (two, cost) = evaluate(&[check; 2].join(" && "));
    assert_eq!((two, cost), (Ok("true".into()), 700_006));
    let (three, _) = evaluate(&[check; 3].join(" && "));
    assert_eq!(three, Err("operation cancelled: actual cost limit exceeded".into()));
}
