//! Input made to hurt: answered, and in time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sternpost_crd::{definition::Definition, object, prepare, props, rules, validate};

/// Generous for a slow machine, far below what quadratic work would take.
const SOON: Duration = Duration::from_secs(120);

fn crd(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn prepared(schema: &Value) -> Result<Value, String> {
    let mut crd = crd(schema);
    prepare::read_schemas(&mut crd).map_err(|error| error.to_string())?;
    prepare::default(&mut crd);
    prepare::create(&mut crd);
    let errors = validate::create(&crd);
    match errors.causes().first() {
        None => Ok(crd),
        Some(cause) => Err(format!("{}: {}", cause.field, cause.message)),
    }
}

fn causes(schema: &Value, spec: &Value, old: Option<&Value>) -> usize {
    let definition = Definition::read(&prepared(schema).unwrap()).unwrap();
    let version = definition.version("v1").unwrap();
    let object = |spec: &Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let old = old.map(object);
    object::validate(&definition, version, &object(spec), old.as_ref()).errors.len()
}

fn soon<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
    result
}

fn under_spec(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": schema}})
}

#[test]
fn schemas_nest_to_the_limit_and_no_deeper() {
    // The root and the innermost are two levels.
    let nested = |levels: usize| {
        let inner = (0..levels - 2)
            .fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
        under_spec(&inner)
    };
    assert!(prepared(&nested(props::MAX_DEPTH)).is_ok());
    let deeper = nested(props::MAX_DEPTH + 1);
    let error = prepared(&deeper).unwrap_err();
    assert_eq!(error, format!("schemas nest more than {} deep", props::MAX_DEPTH));
}

#[test]
fn wide_schemas_with_defaults_are_checked_soon() {
    let properties: Value = (0..3000)
        .map(|index| (format!("p{index}"), json!({"type": "string", "default": "x", "pattern": "^x[0-9]*$"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let schema = under_spec(&json!({"type": "object", "properties": properties}));
    soon(|| prepared(&schema).unwrap());
}

#[test]
fn nested_defaults_do_not_multiply() {
    let schema = (0..40).fold(
        json!({"type": "string", "default": "x"}),
        |inner, _| json!({"type": "object", "default": {}, "properties": {"a": inner}}),
    );
    soon(|| prepared(&under_spec(&schema)).unwrap());
}

#[test]
fn long_lists_with_keys_are_compared_in_linear_time() {
    let schema = under_spec(&json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}, "v": {"type": "string"}}},
    }));
    let list = |value: &str| (0..5_000).map(|index| json!({"k": index, "v": value})).collect::<Value>();
    assert_eq!(soon(|| causes(&schema, &list("b"), Some(&list("a")))), 0);
}

#[test]
fn causes_end_at_their_limit() {
    let schema = under_spec(&json!({"type": "array", "items": {"type": "string"}}));
    let wrong = |count: usize| (0..count).collect::<Value>();
    assert_eq!(causes(&schema, &wrong(object::MAX_ERRORS), None), object::MAX_ERRORS);
    assert_eq!(causes(&schema, &wrong(object::MAX_ERRORS + 1), None), object::MAX_ERRORS);
    soon(|| causes(&schema, &wrong(200_000), None));
}

#[test]
fn unknown_and_duplicate_fields_end_at_their_limits() {
    let definition = Definition::read(&prepared(&under_spec(&json!({"type": "object"}))).unwrap()).unwrap();
    let version = definition.version("v1").unwrap();
    let body = |count: usize| {
        let fields: Vec<String> = (0..count).map(|index| format!("\"f{index}\":1,\"f{index}\":2")).collect();
        format!("{{\"kind\":\"Widget\",\"apiVersion\":\"example.com/v1\",\"spec\":{{{}}}}}", fields.join(","))
    };
    for (count, unknown, duplicates) in [
        (object::MAX_UNKNOWN, object::MAX_UNKNOWN, object::MAX_DUPLICATES),
        (object::MAX_UNKNOWN + 1, object::MAX_UNKNOWN, object::MAX_DUPLICATES),
    ] {
        let json = object::read_json(body(count).as_bytes()).unwrap();
        assert_eq!(json.duplicates.len(), duplicates);
        let decoded = object::decode(&definition, version, json).unwrap();
        assert_eq!(decoded.complaints.len(), unknown + duplicates);
        assert_eq!(decoded.object["spec"], json!({}));
    }
}

#[test]
fn catastrophic_patterns_match_soon() {
    let schema = under_spec(&json!({"type": "string", "pattern": "^(a+)+$|^(a|aa)+$"}));
    let text = format!("{}b", "a".repeat(100_000));
    assert_eq!(soon(|| causes(&schema, &json!(text), None)), 1);
}

#[test]
fn nested_alternatives_do_not_multiply() {
    let logic = (0..40).fold(
        json!({"minLength": 5}),
        |inner, _| json!({"anyOf": [inner, {"maxLength": 0}], "allOf": [{"pattern": "x"}]}),
    );
    let mut schema = logic;
    schema["type"] = json!("string");
    assert!(soon(|| causes(&under_spec(&schema), &json!("abc"), None)) > 0);
}

#[test]
fn any_json_in_place_of_a_definition_is_answered() {
    let scraps = [json!(null), json!(1), json!("x"), json!([]), json!({}), json!([{}]), json!({"a": []})];
    let full =
        prepared(&under_spec(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]})))
            .unwrap();
    let pointers = [
        "",
        "/metadata",
        "/spec",
        "/spec/names",
        "/spec/versions",
        "/spec/versions/0",
        "/spec/versions/0/schema",
        "/spec/versions/0/schema/openAPIV3Schema",
        "/spec/versions/0/schema/openAPIV3Schema/properties",
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations",
        "/spec/conversion",
        "/status",
    ];
    for pointer in pointers {
        for scrap in &scraps {
            let mut crd = full.clone();
            *crd.pointer_mut(pointer).unwrap() = scrap.clone();
            let before = crd.clone();
            let _ = prepare::read_schemas(&mut crd);
            prepare::default(&mut crd);
            prepare::update(&mut crd, &before);
            let _ = validate::create(&crd);
            let _ = validate::update(&crd, &before, |_| Ok(()));
            let _ = validate::warnings(&crd);
            let _ = sternpost_crd::names::decide(
                &sternpost_crd::names::Outline::of(&crd),
                &sternpost_crd::names::Taken::of([&before]),
                |_| Ok(()),
            );
            if let Ok(definition) = Definition::read(&crd) {
                for version in &definition.versions {
                    let _ = object::validate(&definition, version, scrap, Some(&before));
                    let _ = version.merge_schema();
                }
            }
        }
    }
}

fn ruled(mut schema: Value, rules: &[&str]) -> Value {
    schema["x-kubernetes-validations"] = rules.iter().map(|rule| json!({"rule": rule})).collect();
    schema
}

/// The texts of what is wrong with an object.
fn told(schema: &Value, spec: &Value) -> Vec<String> {
    let definition = Definition::read(&prepared(schema).unwrap()).unwrap();
    let version = definition.version("v1").unwrap();
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let outcome = object::validate(&definition, version, &object, None);
    outcome.errors.causes().iter().map(|cause| cause.message.clone()).collect()
}

#[test]
fn hostile_rules_are_refused_soon() {
    let text = || json!({"type": "string"});
    for (rule, words) in [
        (format!("self == '{}'", "a".repeat(200_000)), "code point size exceeds limit"),
        (format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)), "recursion limit exceeded"),
        (vec!["1"; 5_000].join(" + ") + " > 0", "max recursion depth exceeded"),
        (format!("self.matches('{}')", "(a{1000}){1000}".repeat(100)), "compilation failed"),
        (
            "[1, 2].all(a, ".repeat(60) + "self.size() > 0" + &")".repeat(60),
            "exceeds budget by factor of more than 100x",
        ),
        (
            "self.split('').all(a, self.split('').all(b, a == b))".into(),
            "exceeds budget by factor of more than 100x",
        ),
        (format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(60)), "compilation failed"),
        ("@".repeat(90_000), "Syntax error"),
    ] {
        let refused = soon(|| prepared(&under_spec(&ruled(text(), &[&rule])))).unwrap_err();
        let shown: String = refused.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
        assert!(refused.contains(words), "{words}: {shown}");
    }
}

#[test]
fn a_definition_full_of_rules_is_answered_soon() {
    let many = |rule: &str| {
        let rules = vec![rule; object::MAX_ERRORS + 1];
        under_spec(&ruled(json!({"type": "string", "maxLength": 5}), &rules))
    };
    assert!(soon(|| prepared(&many("self != 'a'"))).is_ok());
    let mut crd = crd(&many("zz"));
    prepare::read_schemas(&mut crd).unwrap();
    prepare::default(&mut crd);
    prepare::create(&mut crd);
    assert_eq!(soon(|| validate::create(&crd)).len(), object::MAX_ERRORS);
    // Each wrong, and each with a rule.
    let wide: serde_json::Map<String, Value> = (0..5_000)
        .map(|n| (format!("p{n}"), ruled(json!({"type": "string", "pattern": "("}), &["true"])))
        .collect();
    assert!(soon(|| prepared(&under_spec(&json!({"type": "object", "properties": wide})))).is_err());
    // Rules at every level of the deepest schema.
    let deep = (0..props::MAX_DEPTH - 3).fold(json!({"type": "integer"}), |inner, _| {
        ruled(json!({"type": "object", "properties": {"a": inner}}), &["self == self"])
    });
    assert!(soon(|| prepared(&under_spec(&deep))).is_ok());
}

#[test]
fn hostile_objects_end_within_the_budget() {
    let list = |most: usize, rule: &str| {
        under_spec(&ruled(json!({"type": "array", "maxItems": most, "items": {"type": "integer"}}), &[rule]))
    };
    let square = list(1400, "self.all(x, self.all(y, x == x))");
    let found = soon(|| told(&square, &json!(vec![1; 1400])));
    assert_eq!(
        found,
        [
            "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x == x))"
        ]
    );
    // Every rule costs little enough, all of them more than an object may.
    let each = ["!self.startsWith('b')"; 101];
    let many = under_spec(&ruled(json!({"type": "string", "maxLength": 1_000_000}), &each));
    let found = soon(|| told(&many, &json!("a".repeat(1_000_000))));
    assert_eq!(
        found,
        [
            "Invalid value: \"string\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
    // Patterns that come with the object.
    let pattern = under_spec(&ruled(json!({"type": "string", "maxLength": 100}), &["self.matches(self)"]));
    for text in ["(a+)+$", "(a{1000}){1000}", "((((((((((a*)*)*)*)*)*)*)*)*)*", "(?:(?:x{99}){99}){99}"] {
        soon(|| told(&pattern, &json!(text)));
    }
    let catastrophic = under_spec(&ruled(
        json!({"type": "string", "maxLength": 30_000}),
        &["!self.matches('(a+)+(b+)+(a|a)*$')"],
    ));
    assert!(soon(|| told(&catastrophic, &json!("a".repeat(29_999) + "c"))).is_empty());
    // Short texts that become long ones.
    let longer = under_spec(&ruled(
        json!({"type": "string", "maxLength": 300}),
        &["self.replace('', self).size() > 0", "self.replace('', self).replace('', self).size() > 0"],
    ));
    soon(|| told(&longer, &json!("x".repeat(300))));
}

#[test]
fn failing_rules_are_told_up_to_the_limit() {
    let schema =
        under_spec(&json!({"type": "array", "items": ruled(json!({"type": "integer"}), &["self > 3"])}));
    let found = |length: usize| soon(|| told(&schema, &json!(vec![1; length]))).len();
    assert_eq!(found(object::MAX_ERRORS - 1), object::MAX_ERRORS - 1);
    assert_eq!(found(object::MAX_ERRORS + 1), object::MAX_ERRORS);
    assert_eq!(found(200_000), object::MAX_ERRORS);
}

#[test]
fn messages_are_told_up_to_the_limit() {
    let mut schema = ruled(json!({"type": "string"}), &["false"]);
    schema["x-kubernetes-validations"][0]["messageExpression"] = json!("self");
    let schema = under_spec(&schema);
    let longest = "x".repeat(rules::MAX_MESSAGE);
    let message = |text: &str| told(&schema, &json!(text)).concat();
    assert!(message(&longest).ends_with(&longest));
    assert!(message(&format!("{longest}x")).ends_with(": failed rule: false"));
}
