use std::sync::Arc;

use serde_json::json;
use sternpost_cel::{Authorizer, Decision, Question};
use sternpost_schema::{read, topology::Topologies, write::Dialect};

use super::*;
use crate::conditions::Variables;

#[derive(Debug)]
struct Nobody;

impl Authorizer for Nobody {
    fn decide(&self, _: &Question) -> Decision {
        Decision::default()
    }
}

fn kind() -> Type {
    let schema = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "data": {"type": "object", "additionalProperties": {"type": "string"}},
        "size": {"type": "integer"},
        "blob": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }});
    let schema = read::schema(&schema, Dialect::V3).unwrap();
    Topologies::new(|_| None).of_schema(&schema)
}

fn object() -> Value {
    json!({"kind": "K", "data": {"x": "y"}, "tags": ["a", "b"], "parts": [{"id": "p", "n": 1}]})
}

fn mutate(mutation: &Value, object: &Value) -> Result<Mutated, String> {
    let policy = Mutating::read(&json!({"metadata": {"name": "p"}, "spec": {"mutations": [mutation]}}));
    let authorizer: Arc<dyn Authorizer> = Arc::new(Nobody);
    let variables = Variables {
        object: Some(object),
        old: None,
        request: &json!({"operation": "CREATE"}),
        namespace: &Value::Null,
        authorizer: &authorizer,
        request_resource: &Question::default(),
    };
    policy.mutate(0, Input { variables, params: &Value::Null }, Ok(&kind()), object)
}

fn apply(expression: &str) -> Result<Value, String> {
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    mutate(&mutation, &object()).map(|mutated| match mutated {
        Mutated::Applied(object) => object,
        other => panic!("{other:?}"),
    })
}

fn patch(expression: &str) -> Result<Mutated, String> {
    mutate(&json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}), &object())
}

#[test]
fn configurations_are_merged_by_the_schema() {
    for (expression, at, expected) in [
        ("Object{}", "", object()),
        ("Object{data: Object.data{a: 'b'}}", "/data", json!({"a": "b", "x": "y"})),
        ("Object{data: {'a/b': string(size(object.data))}}", "/data", json!({"a/b": "1", "x": "y"})),
        ("Object{tags: ['b', 'c']}", "/tags", json!(["a", "b", "c"])),
        (
            "Object{parts: [Object.parts{id: 'p', n: 2}, Object.parts{id: 'q'}]}",
            "/parts",
            json!([{"id": "p", "n": 2}, {"id": "q"}]),
        ),
        ("Object{?data: optional.none()}", "/data", json!({"x": "y"})),
        ("Object{data: optional.of({'o': 'p'})}", "/data", json!({"o": "p", "x": "y"})),
        ("Object{data: {'t': type(1)}}", "/data/t", json!("int")),
        ("Object{kind: 'Other'}", "/kind", json!("K")),
    ] {
        let found = apply(expression).unwrap();
        assert_eq!(found.pointer(at), Some(&expected), "{expression}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let untyped = "error applying patch: failed to convert patch object to typed object: ";
    let mismatch = |found: &str, expected: &str| {
        format!(
            "type mismatch: unexpected type name \"{found}\", expected \"{expected}\", which matches field name path from root Object type"
        )
    };
    let atomic =
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ";
    for (expression, expected) in [
        ("Object{data: Object.spec{}}", mismatch("Object.spec", "Object.data")),
        ("Object{data: Object{}}", mismatch("Object", "Object.data")),
        ("Object{parts: [Object.part{id: 'x'}]}", mismatch("Object.part", "Object.parts")),
        ("Object{data: {'a': Object.data.a{}}}", mismatch("Object.data.a", "Object.data")),
        ("Object{nofield: 1}", format!("{untyped}.nofield: field not declared in schema")),
        ("Object{data: 'x'}", format!("{untyped}.data: expected map, got &{{x}}")),
        (
            "Object{data: {'a': 1}}",
            format!("{untyped}.data.a: expected string, got &value.valueUnstructured{{Value:1}}"),
        ),
        ("Object{data: null}", format!("{untyped}.data: expected map, got &{{NULL_VALUE}}")),
        (
            "Object{data: {'a': null}}",
            format!("{untyped}.data.a: expected string, got &value.valueUnstructured{{Value:0}}"),
        ),
        (
            "Object{size: null}",
            format!("{untyped}.size: expected numeric (int or float), got structpb.NullValue"),
        ),
        ("Object{size: 'x'}", format!("{untyped}.size: expected numeric (int or float), got string")),
        (
            "Object{data: {'a': b'xyz'}}",
            format!(
                "{untyped}.data.a: expected string, got &value.valueUnstructured{{Value:[]uint8{{0x78, 0x79, 0x7a}}}}"
            ),
        ),
        (
            "Object{data: {'a': duration('1h')}}",
            format!("{untyped}.data.a: expected string, got &value.valueUnstructured{{Value:3600000000000}}"),
        ),
        ("Object{data: {1: 'a'}}", "invalid return type: *dynamic.ObjectVal".into()),
        ("Object{blob: Object.blob{a: 'b'}, plain: ['x']}", format!("{atomic}.blob, .plain")),
        (
            "Object{data: {'a': object.data.no}}",
            "expression 'Object{data: {'a': object.data.no}}' resulted in error: no such key: no".into(),
        ),
    ] {
        assert_eq!(apply(expression), Err(expected), "{expression}");
    }
}

#[test]
fn patches_are_operations_in_order() {
    let patched = |edit: fn(&mut Value)| {
        let mut object = object();
        edit(&mut object);
        Ok(Mutated::Patched(object))
    };
    let failed = |why: &str| Err(format!("JSON Patch: {why}"));
    for (expression, expected) in [
        (
            "[JSONPatch{op: 'add', path: '/data/a', value: 'b'}]",
            patched(|object| object["data"]["a"] = "b".into()),
        ),
        ("[JSONPatch{op: 'add', path: '/data/a'}]", patched(|object| object["data"]["a"] = Value::Null)),
        (
            "[JSONPatch{op: 'add', path: '/data/a', value: b'abc'}]",
            patched(|object| object["data"]["a"] = "YWJj".into()),
        ),
        (
            "[JSONPatch{op: 'add', path: '/data', value: Object.spec{a: 'b'}}]",
            patched(|object| object["data"] = json!({"a": "b"})),
        ),
        (
            "[JSONPatch{op: 'copy', from: '/data/x', path: '/data/z'}]",
            patched(|object| object["data"]["z"] = "y".into()),
        ),
        (
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'c'}]",
            patched(|object| object["data"]["a/b"] = "c".into()),
        ),
        ("has(object.nothing) ? [JSONPatch{op: 'zap'}] : []", Ok(Mutated::Not)),
        (
            "[JSONPatch{op: 'test', path: '/data/x', value: 'n'}, JSONPatch{op: 'remove', path: '/data'}]",
            Ok(Mutated::Not),
        ),
        ("[JSONPatch{op: 'test', path: '/data/no', value: 'n'}]", Ok(Mutated::Not)),
        (
            "[JSONPatch{op: 'test', path: '/no/no', value: 'n'}]",
            failed("test operation does not apply: is missing path: /no/no: missing value"),
        ),
        (
            "[JSONPatch{op: 'remove', path: '/data/no'}]",
            failed(
                "error in remove for path: '/data/no': Unable to remove nonexistent key: no: missing value",
            ),
        ),
        ("[JSONPatch{op: 'zap', path: '/data'}]", failed("Unexpected kind: zap")),
        ("[JSONPatch{path: '/data'}]", failed("Unexpected kind: ")),
    ] {
        assert_eq!(patch(expression), expected, "{expression}");
    }
}
