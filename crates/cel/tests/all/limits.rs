//! Limits at the limit and one past it, on the stack that threads have.

use serde_json::json;
use std::sync::Arc;
use sternpost_cel::{
    Activation, Budget, CALL_LIMIT, Declaration, Environment, ErrorKind, MAX_CODE_POINTS, MAX_DEPTH,
    MAX_ERRORS, MAX_NESTING,
};
use sternpost_meta::cancel::{Cancel, Cancelled, scope};

fn compile(text: &str) -> Result<sternpost_cel::Program, String> {
    Environment::new()
        .variable("x", Arc::new(Declaration::dynamic()))
        .compile(text)
        .map_err(|error| error.to_string())
}

fn run(text: &str) -> Result<String, sternpost_cel::EvalError> {
    let program = compile(text).unwrap();
    let value = json!({"a": [1, 2, 3], "s": "x".repeat(1_000_000)});
    let activation = Activation::new().bind("x", sternpost_cel::Value::from_json(&value));
    program.evaluate(&activation, &mut Budget::new(u64::MAX)).map(|value| value.ty().to_string())
}

#[test]
fn nesting_ends_at_its_limit() {
    let nested =
        |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in
        [("(", ")"), ("[", "]"), ("dyn(", ")"), ("{1: ", "}"), ("[1][", "]"), ("true ? 1 : (", ")")]
    {
        let most = if open.starts_with("true") { MAX_NESTING / 2 - 1 } else { MAX_NESTING - 1 };
        let fits = compile(&nested(open, close, most));
        if let Ok(program) = fits {
            let _ = program.evaluate(&Activation::new(), &mut Budget::new(u64::MAX));
        }
        let error = compile(&nested(open, close, MAX_NESTING)).unwrap_err();
        assert!(error.contains("recursion limit exceeded: 250"), "{open}: {error}");
    }
    assert!(compile(&nested("(", ")", MAX_NESTING - 1)).is_ok());
}

#[test]
fn macros_may_nest_until_the_tree_is_too_deep() {
    let nested = |depth: usize| format!("{}true{}", "[1].all(x, ".repeat(depth), ")".repeat(depth));
    let program = compile(&nested(100)).unwrap();
    assert!(program.evaluate(&Activation::new(), &mut Budget::new(u64::MAX)).is_ok());
    assert!(compile(&nested(240)).unwrap_err().contains("max recursion depth exceeded"));
}

#[test]
fn chains_end_at_their_limit() {
    let sum = |terms: usize| vec!["1"; terms].join(" + ");
    let program = compile(&sum(MAX_DEPTH + 1)).unwrap();
    assert!(program.evaluate(&Activation::new(), &mut Budget::new(u64::MAX)).is_ok());
    assert!(compile(&sum(MAX_DEPTH + 2)).unwrap_err().contains("max recursion depth exceeded"));
    let selected = |fields: usize| format!("dyn(x){}", ".a".repeat(fields));
    assert!(compile(&selected(MAX_DEPTH)).is_ok());
    assert!(compile(&selected(MAX_DEPTH + 1)).unwrap_err().contains("max recursion depth exceeded"));
    assert!(compile(&vec!["true"; 10_000].join(" && ")).is_ok());
}

#[test]
fn text_ends_at_its_limit() {
    let text = |length: usize| format!("'{}'", "a".repeat(length - 2));
    assert!(compile(&text(MAX_CODE_POINTS)).is_ok());
    assert!(compile(&text(MAX_CODE_POINTS + 1)).unwrap_err().contains("size: 100001, limit 100000"));
}

#[test]
fn a_chain_of_optional_maps_does_not_double_without_end() {
    let chain = format!("optional.of(1){}", ".optMap(x, x)".repeat(60));
    assert!(compile(&chain).is_err());
}

#[test]
fn an_evaluation_may_cost_exactly_the_call_limit() {
    let exactly = format!("lists.range({})", CALL_LIMIT - 11);
    assert!(run(&exactly).is_ok());
    let more = format!("lists.range({})", CALL_LIMIT - 10);
    assert_eq!(run(&more).unwrap_err().kind(), ErrorKind::CallLimit);
}

#[test]
fn cheap_steps_cannot_make_or_visit_much() {
    let doubled = format!("[[1]]{}", ".map(a, [a, a])".repeat(40));
    for bomb in [
        "x.s.replace('x', x.s)".to_owned(),
        "lists.range(9223372036854775807).size() > 0".to_owned(),
        format!("'%s'.format([{doubled}])"),
        format!("{doubled} == {doubled}"),
        format!("google.protobuf.ListValue{{values: {doubled}}}"),
    ] {
        assert_eq!(run(&bomb).unwrap_err().kind(), ErrorKind::CallLimit, "{bomb}");
    }
}

#[test]
fn a_budget_is_shared_and_runs_out() {
    let program = compile("1 + 1 == 2").unwrap();
    let activation = Activation::new();
    let mut budget = Budget::new(5);
    assert!(program.evaluate(&activation, &mut budget).is_ok());
    assert_eq!((budget.last_cost(), budget.remaining()), (2, 3));
    assert!(program.evaluate(&activation, &mut budget).is_ok());
    assert_eq!(program.evaluate(&activation, &mut budget).unwrap_err().kind(), ErrorKind::Budget);
}

#[test]
fn an_interrupted_evaluation_stops() {
    let program = compile("lists.range(1000).all(i, i >= 0)").unwrap();
    let stop = || true;
    let activation = Activation::new().interrupted_by(&stop);
    let error = program.evaluate(&activation, &mut Budget::new(u64::MAX)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Interrupted, "operation interrupted"));
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<sternpost_cel::Program>();
    shared::<Environment>();
}

#[test]
fn a_text_full_of_errors_lists_a_hundred() {
    for text in [
        "@".repeat(90_000),
        format!("[{}]", "a,".repeat(30_000)),
        format!("[{}]", "duration('x'),".repeat(6_000)),
        format!("[{}]", "for,".repeat(20_000)),
    ] {
        let error = compile(&text).unwrap_err();
        let listed = error.matches("ERROR: <input>").count();
        assert_eq!(listed, MAX_ERRORS);
    }
}

#[test]
fn long_texts_compile() {
    for text in [
        format!("[{}]", "1,".repeat(45_000)),
        format!("[{}].size() > 0", "x.a[0],".repeat(13_000)),
        format!("{}true", "x.a == 1 && ".repeat(8_000)),
    ] {
        assert!(compile(&text).is_ok());
    }
    assert!(compile(&format!("'a'.matches('{}')", "(a{1000}){1000}".repeat(100))).is_err());
}

#[test]
fn an_evaluation_ends_within_its_loops_when_it_is_cancelled() {
    for text in [
        "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
        "lists.range(1000).map(x, lists.range(1000).exists(y, x + y < 0)).size() > 0",
    ] {
        let (program, cancel) = (compile(text).unwrap(), Cancel::default());
        // Asked after some rounds, so that the evaluation is under way by then.
        let asked = || {
            cancel.cancel();
            false
        };
        let activation = Activation::new().interrupted_by(&asked);
        let outcome =
            scope(&cancel, || program.evaluate(&activation, &mut Budget::new(u64::MAX)).map(|_| ()));
        assert_eq!(outcome, Err(Cancelled), "{text}");
    }
}
