use std::sync::Arc;

use serde_json::json;
use sternpost_cel::{Authorizer, Decision, Question};

use super::*;
use crate::conditions::{OUT_OF_BUDGET, Variables};

#[derive(Debug)]
struct Nobody;

impl Authorizer for Nobody {
    fn decide(&self, _: &Question) -> Decision {
        Decision::default()
    }
}

fn evaluate(spec: &Value, params: &Value) -> Evaluation {
    let policy = Validating::read(&json!({"metadata": {"name": "p"}, "spec": spec}));
    let authorizer: Arc<dyn Authorizer> = Arc::new(Nobody);
    let object = json!({"data": {"k": "v"}});
    let request = json!({"operation": "CREATE", "name": "a"});
    let namespace = json!({"metadata": {"name": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let variables = Variables {
        object: Some(&object),
        old: None,
        request: &request,
        namespace: &namespace,
        authorizer: &authorizer,
        request_resource: &Question::default(),
    };
    policy.evaluate(Input { variables, params })
}

/// The reasons and messages of all denials.
fn denials(spec: &Value) -> Vec<(Reason, String)> {
    let evaluation = evaluate(spec, &Value::Null);
    evaluation.denials.into_iter().map(|denial| (denial.reason, denial.message)).collect()
}

const MISSING: &str = "object.data.no == ''";
const WHY: &str = "expression 'object.data.no == ''' resulted in error: no such key: no";

#[test]
fn what_is_not_true_is_denied() {
    for (validation, expected) in [
        (json!({"expression": "true"}), None),
        (json!({"expression": " false "}), Some((Reason::Invalid, "failed expression: false"))),
        (json!({"expression": "false", "message": " m "}), Some((Reason::Invalid, "m"))),
        (
            json!({"expression": "false", "message": "m", "reason": "Forbidden"}),
            Some((Reason::Forbidden, "m")),
        ),
        (
            json!({"expression": "false", "message": "m", "reason": "RequestEntityTooLarge"}),
            Some((Reason::RequestEntityTooLarge, "m")),
        ),
        (json!({"expression": MISSING, "message": "m", "reason": "Forbidden"}), Some((Reason::Invalid, WHY))),
        (
            json!({"expression": "namespaceObject.metadata.name == 'x'"}),
            Some((Reason::Invalid, "failed expression: namespaceObject.metadata.name == 'x'")),
        ),
        (
            json!({"expression": "namespaceObject.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')"}),
            Some((
                Reason::Invalid,
                "expression 'namespaceObject.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')' resulted in error: no such overload",
            )),
        ),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(reason, text)| (reason, text.to_owned())).collect();
        assert_eq!(denials(&json!({"validations": [validation]})), expected, "{validation}");
    }
}

#[test]
fn messages_are_used_if_they_can_be_shown() {
    let longest = format!("'{}'", "x".repeat(MAX_MESSAGE));
    let too_long = format!("'{}'", "x".repeat(MAX_MESSAGE + 1));
    let shown = "x".repeat(MAX_MESSAGE);
    for (expression, expected) in [
        ("' k is ' + object.data.k + ' '", "k is v"),
        ("'  '", "m"),
        ("'a\\nb'", "m"),
        ("object.data.no + 'x'", "m"),
        (longest.as_str(), shown.as_str()),
        (too_long.as_str(), "m"),
    ] {
        let spec = json!({"validations": [{"expression": "false", "messageExpression": expression, "message": "m"}]});
        assert_eq!(denials(&spec), [(Reason::Invalid, expected.to_owned())]);
    }
}

#[test]
fn failures_are_denials_unless_they_are_ignored() {
    let variables = json!([{"name": "a", "expression": "1 / (size(object.data) - 1)"}]);
    let condition = json!([{"name": "c", "expression": MISSING}]);
    let divided = "expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to evaluate: division by zero";
    for (spec, expected) in [
        (json!({"validations": [{"expression": MISSING}]}), Some(WHY)),
        (json!({"validations": [{"expression": "true"}], "matchConditions": condition}), Some(WHY)),
        (json!({"validations": [{"expression": "variables.a == 1"}], "variables": variables}), Some(divided)),
        (json!({"validations": [{"expression": "true"}], "variables": variables}), None),
        (
            json!({"validations": [{"expression": "false"}], "matchConditions": [{"expression": "false"}]}),
            None,
        ),
    ] {
        let expected: Vec<_> = expected.iter().map(|text| (Reason::Invalid, (*text).to_owned())).collect();
        assert_eq!(denials(&spec), expected, "{spec}");
        let mut ignored = spec;
        ignored["failurePolicy"] = "Ignore".into();
        assert_eq!(denials(&ignored), []);
    }
}

/// Costs 350 003, and takes no time.
const COSTLY: &str = "!authorizer.path('/a').check('get').allowed()";

#[test]
fn validations_share_a_budget_and_messages_have_what_is_left() {
    let many = |count: usize| vec![json!({"expression": COSTLY}); count];
    assert_eq!(denials(&json!({"validations": many(28)})), []);
    assert_eq!(denials(&json!({"validations": many(29)})), [(Reason::Invalid, OUT_OF_BUDGET.to_owned())]);
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    // About 35 000 each.
    let message = format!("string({ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, true)))))");
    let mut validations = many(28);
    validations.extend(vec![json!({"expression": "false", "messageExpression": message, "message": "m"}); 6]);
    let expected = (Reason::Invalid, format!("failed messageExpression: {OUT_OF_BUDGET}"));
    assert_eq!(denials(&json!({"validations": validations})), vec![expected; 6]);
}

#[test]
fn annotations_are_trimmed_and_cut_and_fail_whatever_the_actions() {
    let long = format!("'{}é'", "x".repeat(MAX_ANNOTATION - 1));
    let evaluation = evaluate(
        &json!({"auditAnnotations": [
            {"key": "a", "valueExpression": "' k is ' + object.data.k"},
            {"key": "b", "valueExpression": "null"},
            {"key": "c", "valueExpression": "' '"},
            {"key": "d", "valueExpression": long},
            {"key": "e", "valueExpression": "object.data.no + 'x'"},
        ]}),
        &Value::Null,
    );
    let cut = "x".repeat(MAX_ANNOTATION - 1);
    assert_eq!(evaluation.annotations, [("a".into(), "k is v".into()), ("d".into(), cut)]);
    assert_eq!(
        evaluation.annotation_failures,
        ["expression 'object.data.no + 'x'' resulted in error: no such key: no"]
    );
}

#[test]
fn parameters_are_there_only_for_policies_that_have_a_kind() {
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let spec = json!({"paramKind": kind, "validations": [{"expression": "params.data.limit == 'x'"}]});
    assert_eq!(evaluate(&spec, &json!({"data": {"limit": "x"}})), Evaluation::default());
    let without = evaluate(&spec, &Value::Null);
    let why = "expression 'params.data.limit == 'x'' resulted in error: no such key: data";
    assert_eq!(without.denials, [Denial { reason: Reason::Invalid, message: why.into(), index: 0 }]);
}
