//! Named expressions, and the library that only mutations have.

use std::sync::Arc;

use serde_json::json;
use sternpost_cel::{
    Activation, Budget, Composed, Declaration, Environment, ErrorKind, MAX_VARIABLE_DEPTH, VARIABLES, Value,
    Variables,
};

fn environment(variables: &Variables, expression: &str) -> Environment {
    Environment::new()
        .variable("object", Arc::new(Declaration::dynamic()))
        .variable(VARIABLES, Arc::new(variables.declaration(expression)))
}

fn variables(all: &[(&str, &str)]) -> Variables {
    let mut variables = Variables::new();
    for (name, text) in all {
        let program = environment(&variables, text).compile(text).unwrap();
        variables.add(name, program);
    }
    variables
}

/// The outcomes of expressions that share variables, with what each cost.
fn run(variables: &Variables, texts: &[&str]) -> Vec<(String, u64)> {
    let programs: Vec<_> =
        texts.iter().map(|text| environment(variables, text).compile(text).unwrap()).collect();
    let object = json!({"n": 3, "list": [1, 2, 3]});
    let activation = Activation::new().bind("object", Value::from_json(&object));
    let composed = Composed::new(variables);
    let mut budget = Budget::new(Budget::OBJECT);
    let mut out = Vec::new();
    for program in &programs {
        let shown = match program.evaluate_with(&activation, &composed, &mut budget) {
            Ok(Value::Bool(value)) => value.to_string(),
            Ok(Value::Int(value)) => value.to_string(),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        };
        out.push((shown, budget.last_cost()));
    }
    out
}

#[test]
fn a_variable_is_charged_to_who_first_needs_it() {
    let variables = variables(&[("sum", "object.list.map(x, x * 2).sum()"), ("big", "variables.sum > 5")]);
    let found = run(&variables, &["variables.sum == 12", "variables.sum == 12", "variables.big", "true"]);
    let (outcomes, costs): (Vec<String>, Vec<u64>) = found.into_iter().unzip();
    assert_eq!(outcomes, ["true"; 4]);
    // Two for `variables.sum` and one for the comparison, once it is known.
    assert_eq!(costs.get(1), Some(&3));
    assert!(costs.first() > costs.get(1));
    assert_eq!(costs.get(2), Some(&5));
    assert_eq!(costs.get(3), Some(&0));
}

#[test]
fn a_variable_nobody_needs_does_nothing() {
    let variables = variables(&[("bad", "1 / 0"), ("good", "object.n")]);
    let found = run(&variables, &["variables.good == 3", "variables.bad == 1", "true || variables.bad == 1"]);
    let outcomes: Vec<String> = found.into_iter().map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes, ["true", "composited variable \"bad\" fails to evaluate: division by zero", "true"]);
}

#[test]
fn variables_have_the_type_of_their_expression() {
    let variables = variables(&[("n", "1"), ("s", "'a'")]);
    let refused = |text: &str| environment(&variables, text).compile(text).unwrap_err().to_string();
    assert!(refused("variables.n == variables.s").contains("'_==_' applied to '(int, string)'"));
    assert!(refused("variables.zz").contains("undefined field 'zz'"));
    let found = run(&variables, &["has(variables.n)", "[1, 2].all(x, x <= variables.n + 1)"]);
    assert!(found.iter().all(|(outcome, _)| outcome == "true"), "{found:?}");
}

#[test]
fn variables_wait_for_one_another_up_to_the_limit() {
    let chain = |length: usize| {
        let mut variables = Variables::new();
        for index in 0..length {
            let text = if index == 0 { "1".into() } else { format!("variables.v{} + 1", index - 1) };
            let program = environment(&variables, &text).compile(&text).unwrap();
            variables.add(&format!("v{index}"), program);
        }
        variables
    };
    let last = |length: usize| {
        let variables = chain(length);
        let text = format!("variables.v{}", length - 1);
        let program = environment(&variables, &text).compile(&text).unwrap();
        let activation = Activation::new();
        let composed = Composed::new(&variables);
        program
            .evaluate_with(&activation, &composed, &mut Budget::new(u64::MAX))
            .map(|value| format!("{value:?}"))
            .map_err(|error| error.kind())
    };
    assert_eq!(last(MAX_VARIABLE_DEPTH), Ok(format!("Int({MAX_VARIABLE_DEPTH})")));
    assert_eq!(last(MAX_VARIABLE_DEPTH + 1), Err(ErrorKind::CallLimit));
}

#[test]
fn json_patch_keys_are_escaped_where_the_library_is() {
    let text = "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'";
    assert!(Environment::new().compile(text).unwrap_err().to_string().contains("undeclared reference"));
    let program = Environment::new().with_json_patch().compile(text).unwrap();
    let activation = Activation::new();
    let outcome = program.evaluate(&activation, &mut Budget::new(u64::MAX)).unwrap();
    assert!(matches!(outcome, Value::Bool(true)));
    let older = Environment::new().with_json_patch().at_version(31);
    assert!(older.compile(text).is_err());
}

#[test]
fn what_could_not_be_compiled_may_be_anything() {
    let mut variables = Variables::new();
    variables.add_unknown("a");
    let compile = |text: &str| environment(&variables, text).compile(text);
    assert!(compile("variables.a == 1 && variables.a == 'x'").is_ok());
    assert!(compile("variables.b == 1").is_err());
}

fn made(text: &str) -> Result<String, String> {
    let environment =
        Environment::new().with_json_patch().variable("object", Arc::new(Declaration::dynamic()));
    let program = environment.compile(text).map_err(|error| error.to_string())?;
    let object = json!({"data": {"a": "b"}});
    let activation = Activation::new().bind("object", Value::from_json(&object));
    let value =
        program.evaluate(&activation, &mut Budget::new(u64::MAX)).map_err(|error| error.to_string())?;
    let outcome = match value {
        Value::Message(message) => {
            let names: Vec<&str> = message.fields.keys().map(|name| &**name).collect();
            format!("{}: {}", message.type_name(), names.join(" "))
        }
        other => format!("{other:?}"),
    };
    Ok(outcome)
}

#[test]
fn mutations_make_objects_that_are_named_by_their_place() {
    let ok = |text: &str| Ok(text.to_owned());
    let error = |at: usize, why: &str, text: &str| {
        Err(format!("ERROR: <input>:1:{at}: {why}\n | {text}\n | {}^", ".".repeat(at - 1)))
    };
    for (text, expected) in [
        ("Object{}", ok("Object: ")),
        ("Object.spec{b: 1, a: 'x'}", ok("Object.spec: a b")),
        ("Object{?data: object.?data, ?none: object.?none}", ok("Object: data")),
        ("Object{a: Object.a{b: 1}}.a.b == 1", ok("Bool(true)")),
        ("Object.a{} == Object.a{} && Object.a{x: 1} != Object.a{x: 2}", ok("Bool(true)")),
        ("has(Object{a: 1}.a) && !has(Object{a: 1}.b)", ok("Bool(true)")),
        ("JSONPatch{op: 'add', value: 1}", ok("JSONPatch: op value")),
        ("Object{a: 1}.b == 1", Err("no such key: b".into())),
        (
            "JSONPatch{pat: '/x'}",
            error(
                14,
                "expected type of field 'pat' is '' but provided type is 'string'",
                "JSONPatch{pat: '/x'}",
            ),
        ),
        (
            "JSONPatch{path: 1}",
            error(
                15,
                "expected type of field 'path' is 'string' but provided type is 'int'",
                "JSONPatch{path: 1}",
            ),
        ),
        ("Objects{}", error(8, "undeclared reference to 'Objects' (in container '')", "Objects{}")),
        ("[JSONPatch{}, 1]", error(15, "expected type 'JSONPatch' but found 'int'", "[JSONPatch{}, 1]")),
        ("Object == Object", Err("reference to undefined type: Object".into())),
    ] {
        assert_eq!(made(text), expected, "{text}");
    }
    assert!(Environment::new().compile("Object{}").is_err());
}
