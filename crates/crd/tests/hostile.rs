//! Input made to hurt: answered, and in time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sternpost_crd::{definition::Definition, object, prepare, props, rules::NoRules, validate};

/// Generous for a slow machine, far below what quadratic work would take.
const SOON: Duration = Duration::from_secs(20);

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
    let errors = validate::create(&crd, &NoRules);
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
    object::validate(&definition, version, &NoRules, &object(spec), old.as_ref()).errors.len()
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
    let list = |value: &str| (0..20_000).map(|index| json!({"k": index, "v": value})).collect::<Value>();
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
            let _ = validate::create(&crd, &NoRules);
            let _ = validate::update(&crd, &before, &NoRules);
            let _ = validate::warnings(&crd);
            let _ = sternpost_crd::names::decide(&crd, [&before]);
            if let Ok(definition) = Definition::read(&crd) {
                for version in &definition.versions {
                    let _ = object::validate(&definition, version, &NoRules, scrap, Some(&before));
                    let _ = version.merge_schema();
                }
            }
        }
    }
}
