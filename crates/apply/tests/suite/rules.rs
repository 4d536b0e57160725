//! Each rule of ownership by itself.

use serde_json::{Map, Value, json};
use sternpost_apply::{
    ANCIENT_CHANGES, ApplyError, BEFORE_FIRST_APPLY, MAX_UPDATE_MANAGERS, ResetFields, Versions, Writer,
    apply,
    path::{self, Element},
    restore_times, scale,
    set::{self, MalformedFields, Set},
    typed::{self, Duplicates},
    update,
};
use sternpost_schema::topology::Type;

use crate::kinds::kind;

const V1: &str = "t.example/v1";
const V2: &str = "t.example/v2";
const EARLY: &str = "2001-01-01T00:00:00Z";
const NOW: &str = "2002-02-02T00:00:00Z";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `v2` calls `size` what `v1` calls `replicas`, and there is no other version.
struct Widget {
    v1: Type,
    v2: Type,
}

fn widget() -> Widget {
    let schema = |replicas: &str, map_type: &str| {
        kind(&json!({"X": {"type": "object", "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {
                "name": {"type": "string"},
                "uid": {"type": "string"},
                "generation": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                "managedFields": {"type": "array", "items": {"type": "object"}},
            }},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
            "spec": {"type": "object", "properties": {
                replicas: {"type": "integer"},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "map": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": map_type},
                "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
                "inner": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
                "items": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string", "default": "TCP"},
                        "name": {"type": "string"},
                    }},
                },
                "named": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {
                        "name": {"type": "string"},
                        "a": {"type": "string"},
                        "b": {"type": "string"},
                    }},
                },
            }},
        }}}))
    };
    Widget { v1: schema("replicas", "granular"), v2: schema("size", "granular") }
}

fn renamed(object: &Value, from: &str, to: &str) -> Value {
    let mut object = object.clone();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if spec.get("any") == Some(&json!("unconvertible")) {
            return Value::Null;
        }
        if let Some(value) = spec.remove(from) {
            spec.insert(to.into(), value);
        }
    }
    object
}

impl Versions for Widget {
    fn topology(&self, api_version: &str) -> Option<Type> {
        match api_version {
            V1 => Some(self.v1.clone()),
            V2 => Some(self.v2.clone()),
            _ => None,
        }
    }

    /// Every test writes in `v1`.
    fn convert(&self, object: &Value, _: &str) -> Result<Value, String> {
        match renamed(object, "replicas", "size") {
            Value::Null => Err("does not convert".into()),
            converted => Ok(converted),
        }
    }

    fn convert_back(&self, object: &Value, _: &str) -> Result<Value, String> {
        Ok(renamed(object, "size", "replicas"))
    }
}

fn by(manager: &str) -> Writer<'_> {
    Writer { manager, api_version: V1, subresource: "", now: NOW, reset: &ResetFields::None }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": V1, "kind": "X", "metadata": {"name": "n"}, "spec": spec})
}

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": V1, "time": EARLY,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields},
    })
}

fn owned(spec: Value, entries: impl IntoIterator<Item = Value>) -> Value {
    let mut object = object(spec);
    object["metadata"]["managedFields"] = entries.into_iter().collect();
    object
}

/// `manager/operation` → fields below `spec`.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let entries = entries.map(|entry| {
        let name = format!("{}/{}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
        (name, entry["fieldsV1"]["f:spec"].clone())
    });
    Value::Object(entries.collect::<Map<_, _>>())
}

fn updated(live: Option<&Value>, mut new: Value, writer: &Writer<'_>) -> Value {
    update(live, &mut new, writer, &widget());
    new
}

fn applied(live: &Value, spec: Value, manager: &str) -> Value {
    apply(Some(live), &object(spec), &by(manager), true, &widget()).unwrap().object
}

fn refused(live: &Value, spec: Value, manager: &str) -> String {
    apply(Some(live), &object(spec), &by(manager), false, &widget()).unwrap_err().message()
}

// Field sets

#[test]
fn the_set_of_an_object() {
    for (spec, expected) in [
        (json!({"replicas": 1}), json!({"f:replicas": {}})),
        (json!({"replicas": null}), json!({"f:replicas": {}})),
        (json!({"inner": {"a": "1"}}), json!({"f:inner": {"f:a": {}}})),
        (json!({"inner": {}}), json!({"f:inner": {}})),
        (json!({"inner": null}), json!({"f:inner": {}})),
        (json!({"map": {"k": "v"}}), json!({"f:map": {"f:k": {}}})),
        (json!({"whole": {"k": "v"}}), json!({"f:whole": {}})),
        (json!({"items": ["a", "b"]}), json!({"f:items": {}})),
        (json!({"set": ["b", "a"]}), json!({"f:set": {"v:\"a\"": {}, "v:\"b\"": {}}})),
        (json!({"set": [], "ports": []}), Value::Null),
        (json!({"set": ["a", "a"]}), json!({"f:set": {"v:\"a\"": {}}})),
        (
            json!({"ports": [{"port": 80, "name": "h"}]}),
            json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}),
        ),
        (json!({"any": {"a": {"b": [{"c": 1}]}}}), json!({"f:any": {"f:a": {".": {}, "f:b": {}}}})),
    ] {
        let set = typed::field_set(&widget().v1, &json!({"spec": spec})).unwrap();
        assert_eq!(set.to_fields_v1().get("f:spec").cloned().unwrap_or_default(), expected, "{spec}");
    }
}

#[test]
fn paths_as_people_read_them() {
    let key = Element::key(vec![("protocol".into(), json!("TCP")), ("port".into(), json!(80))]);
    let value = Element::Value(json!("a\"b").into());
    for (path, expected) in [
        (vec![Element::field("spec"), key, Element::field("name")], ".spec[port=80,protocol=\"TCP\"].name"),
        (vec![Element::field("set"), value], ".set[=\"a\\\"b\"]"),
        (vec![Element::field("list"), Element::Index(3)], ".list[3]"),
    ] {
        assert_eq!(path::text(&path), expected);
    }
}

#[test]
fn elements_are_sorted_by_form_then_by_what_they_hold() {
    let text = r#"{"f:a":{},"f:b":{},"k:{\"a\":2}":{},"k:{\"a\":10}":{},"k:{\"a\":\"1\"}":{},"v:2":{},"v:10":{},"v:\"a\"":{},"v:true":{},"v:null":{},"i:2":{},"i:10":{}}"#;
    let set = Set::from_fields_v1(&serde_json::from_str(text).unwrap()).unwrap();
    let mut out = Vec::new();
    set.write_fields_v1(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn malformed_fields_are_refused_and_forms_of_the_future_skipped() {
    for fields in [
        json!([]),
        json!("f"),
        json!({"f:a": 5}),
        json!({"": {}}),
        json!({"abc": {}}),
        json!({"k:1": {}}),
        json!({"v:": {}}),
        json!({"i:x": {}}),
    ] {
        assert!(Set::from_fields_v1(&fields).is_err(), "{fields}");
    }
    let set = Set::from_fields_v1(&json!({"x:a": {}, "f:b": {"y:c": {}}})).unwrap();
    assert_eq!(set.to_fields_v1(), json!({"f:b": {}}));
}

#[test]
fn fields_may_be_nested_so_deep_and_no_deeper() {
    let nested = |depth| (0..depth).fold(json!({}), |below, _| json!({"f:a": below}));
    assert!(Set::from_fields_v1(&nested(set::MAX_DEPTH - 1)).is_ok());
    assert_eq!(Set::from_fields_v1(&nested(set::MAX_DEPTH)), Err(MalformedFields::TooDeep));
}

#[test]
fn objects_may_be_nested_so_deep_and_no_deeper() {
    let nested = |depth| (1..depth).fold(json!(1), |below, _| json!({"a": below}));
    let deduced = Type::deduced();
    let fits = |depth| {
        let object = nested(depth);
        let results = [
            typed::validate(&deduced, &object, Duplicates::Forbidden).is_ok(),
            typed::field_set(&deduced, &object).is_ok(),
            typed::compare(&deduced, &object, &json!({})).is_ok(),
            typed::merge(&deduced, object.clone(), &object).is_ok(),
        ];
        assert!(results.iter().all(|result| *result == results[0]), "{depth}: {results:?}");
        results[0]
    };
    assert!(fits(typed::MAX_DEPTH));
    assert!(!fits(typed::MAX_DEPTH + 1));
}

/// In which order the items stand makes no difference, though one order is compared faster.
#[test]
fn lists_are_compared_by_keys_in_whatever_order() {
    let kind = widget().v1;
    for (old, new) in [
        (json!([{"name": "z"}, {"name": "b", "a": "1"}]), json!([{"name": "z", "a": "1"}, {"name": "b"}])),
        (json!([{"name": "z", "a": "1"}, {"name": "b"}]), json!([{"name": "z", "a": "2"}, {"name": "b"}])),
        (json!([{"name": "z"}, {"name": "b"}]), json!([{"name": "z"}, {"name": "c"}])),
        (json!([{"name": "z"}, {"name": "z"}]), json!([{"name": "z"}, {"name": "z", "a": "1"}])),
    ] {
        let compare = |new: &Value| {
            let (old, new) = (object(json!({"named": old})), object(json!({"named": new})));
            let found = typed::compare(&kind, &old, &new).unwrap();
            [found.added, found.modified, found.removed].map(|set| set.to_fields_v1())
        };
        let turned: Vec<&Value> = new.as_array().unwrap().iter().rev().collect();
        assert_eq!(compare(&new), compare(&json!(turned)), "{old} {new}");
    }
}

// Validation

#[test]
fn what_does_not_fit_the_schema_is_named() {
    for (spec, expected) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"map": []}), ".spec.map: expected map, got &{[]}"),
        (json!({"set": {"a": 1}}), ".spec.set: expected list, got &{map[a:1]}"),
        (json!({"inner": {"a": 1}}), ".spec.inner.a: expected string, got &value.valueUnstructured{Value:1}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (
            json!({"named": [{"name": "a"}, {"name": "a"}]}),
            ".spec.named: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
            ".spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        ),
        (
            json!({"named": [{"a": "x"}]}),
            ".spec.named: element 0: associative list with keys has an element that omits all key fields [\"name\"] \
             (and doesn't have default values for any key fields)",
        ),
        (
            json!({"named": [null]}),
            ".spec.named: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"set": [null]}),
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"foo": 1, "replicas": true}),
            "errors:\n  .spec.foo: field not declared in schema\n  .spec.replicas: expected numeric (int or float), got bool",
        ),
    ] {
        let error = apply(None, &object(spec.clone()), &by("a"), false, &widget()).unwrap_err();
        let text = format!("failed to create typed patch object (/n; t.example/v1, Kind=X): {expected}");
        assert_eq!(error, ApplyError::Typed(text), "{spec}");
    }
}

// Merging

#[test]
fn the_order_of_a_merged_list() {
    for (live, config, expected) in [
        ("abc", "cba", "cba"),
        ("abc", "ca", "bca"),
        ("axb", "ba", "xba"),
        ("ab", "xaybz", "xaybz"),
        ("axby", "ba", "xbya"),
        ("abc", "", "abc"),
        ("", "ba", "ba"),
        ("abc", "xy", "abcxy"),
    ] {
        let list = |text: &str| object(json!({"set": text.chars().map(String::from).collect::<Vec<_>>()}));
        let merged = typed::merge(&widget().v1, list(live), &list(config)).unwrap();
        assert_eq!(merged, list(expected), "{live} {config}");
    }
}

#[test]
fn what_lies_over_wins_where_nothing_can_be_merged() {
    for (live, config, expected) in [
        (json!({"whole": {"a": "1"}}), json!({"whole": {"b": "2"}}), json!({"whole": {"b": "2"}})),
        (json!({"map": {"a": "1"}}), json!({"map": {"b": "2"}}), json!({"map": {"a": "1", "b": "2"}})),
        (json!({"map": {"a": "1"}}), json!({"map": {}}), json!({"map": {"a": "1"}})),
        (json!({"map": {"a": "1"}}), json!({"map": null}), json!({"map": {"a": "1"}})),
        (json!({"map": {}}), json!({"map": null}), json!({"map": null})),
        (json!({"replicas": 1}), json!({"replicas": null}), json!({"replicas": null})),
        (json!({"any": {"a": 1}}), json!({"any": [1]}), json!({"any": [1]})),
        (json!({"set": ["a", "a"]}), json!({"set": ["a"]}), json!({"set": ["a"]})),
    ] {
        let merged = typed::merge(&widget().v1, object(live), &object(config.clone())).unwrap();
        assert_eq!(merged, object(expected), "{config}");
    }
}

// Apply

#[test]
fn one_conflict_is_told_in_a_line_and_several_in_a_list() {
    let mut of_status = entry("c", "Update", json!({"f:replicas": {}}));
    of_status["subresource"] = json!("status");
    let live = owned(
        json!({"replicas": 1, "map": {"a": "1"}, "inner": {"a": "1"}}),
        [
            entry("a", "Apply", json!({"f:map": {"f:a": {}}, "f:inner": {"f:a": {}}})),
            entry("b", "Update", json!({"f:map": {"f:a": {}}})),
            of_status,
        ],
    );
    assert_eq!(
        refused(&live, json!({"replicas": 2}), "z"),
        "Apply failed with 1 conflict: conflict with \"c\" with subresource \"status\" using t.example/v1: .spec.replicas"
    );
    assert_eq!(
        refused(&live, json!({"map": {"a": "2"}, "inner": {"a": "2"}}), "z"),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.inner.a\n- .spec.map.a\n\
         conflicts with \"b\" using t.example/v1:\n- .spec.map.a"
    );
}

#[test]
fn the_same_value_is_shared_and_another_one_taken_by_force() {
    let live = owned(json!({"replicas": 1}), [entry("a", "Apply", json!({"f:replicas": {}}))]);
    let shared = applied(&live, json!({"replicas": 1}), "b");
    assert_eq!(owners(&shared), json!({"a/Apply": {"f:replicas": {}}, "b/Apply": {"f:replicas": {}}}));
    let taken = applied(&live, json!({"replicas": 2}), "b");
    assert_eq!(owners(&taken), json!({"b/Apply": {"f:replicas": {}}}));
}

#[test]
fn what_is_applied_no_longer_goes_unless_somebody_else_owns_it() {
    let fields =
        json!({"f:named": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:a": {}}}, "f:replicas": {}});
    let spec = json!({"named": [{"name": "x", "a": "1", "b": "2"}], "replicas": 1});
    for (others, expected) in [
        (vec![], Value::Null),
        (vec![entry("b", "Update", json!({"f:replicas": {}}))], json!({"replicas": 1})),
        // Who owns a part alone does not keep the item.
        (vec![entry("b", "Update", json!({"f:named": {"k:{\"name\":\"x\"}": {"f:b": {}}}}))], Value::Null),
        (
            vec![entry(
                "b",
                "Apply",
                json!({"f:named": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:b": {}}}}),
            )],
            json!({"named": [{"name": "x", "b": "2"}]}),
        ),
    ] {
        let live =
            owned(spec.clone(), [entry("a", "Apply", fields.clone())].into_iter().chain(others.clone()));
        let left = applied(&live, json!({}), "a");
        let named = left["spec"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let named: Map<_, _> = named.map(|(name, value)| (name.clone(), value.clone())).collect();
        let expected = expected.as_object().cloned().unwrap_or_default();
        assert_eq!(named, expected, "{others:?}");
    }
}

#[test]
fn a_declared_field_goes_with_what_nobody_owns_in_it() {
    for (others, expected) in [
        (vec![], json!({})),
        (vec![entry("b", "Update", json!({"f:inner": {"f:b": {}}}))], json!({"inner": {"b": "2"}})),
    ] {
        let fields = json!({"f:inner": {"f:a": {}}, "f:replicas": {}});
        let spec = json!({"inner": {"a": "1", "b": "2"}, "replicas": 1});
        let live = owned(spec, [entry("a", "Apply", fields)].into_iter().chain(others));
        let mut left = applied(&live, json!({"replicas": 1}), "a");
        left["spec"].as_object_mut().unwrap().remove("replicas");
        assert_eq!(left["spec"], expected);
    }
}

#[test]
fn null_and_empty_values_are_owned() {
    let live = owned(json!({"replicas": 1}), [entry("b", "Update", json!({"f:replicas": {}}))]);
    let result = applied(&live, json!({"map": {}, "replicas": null}), "a");
    assert_eq!(owners(&result), json!({"a/Apply": {"f:map": {}, "f:replicas": {}}}));
    assert_eq!(result["spec"], json!({"map": {}, "replicas": null}));
}

#[test]
fn an_apply_that_changes_nothing_sets_no_time() {
    let live = owned(json!({"replicas": 1}), [entry("a", "Apply", json!({"f:replicas": {}}))]);
    let again = apply(Some(&live), &object(json!({"replicas": 1})), &by("a"), false, &widget()).unwrap();
    assert!(!again.changed);
    assert_eq!(again.object, live);
    let joined = apply(Some(&live), &object(json!({"replicas": 1})), &by("new"), false, &widget()).unwrap();
    assert!(joined.changed, "there is a new owner");
    let entries = joined.object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries[0]["manager"], "new", "without a time it comes first");
    assert!(entries[0].get("time").is_none());
    let changed = applied(&live, json!({"replicas": 2}), "a");
    assert_eq!(changed["metadata"]["managedFields"][0]["time"], NOW);
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let live = object(json!({"replicas": 1, "map": {"a": "1"}}));
    let result = applied(&live, json!({"replicas": 2}), "a");
    let before = format!("{BEFORE_FIRST_APPLY}/Update");
    assert_eq!(owners(&result)["a/Apply"], json!({"f:replicas": {}}));
    assert_eq!(owners(&result)[before], json!({".": {}, "f:map": {".": {}, "f:a": {}}}));
    assert!(
        refused(&live, json!({"replicas": 2}), "a").contains("conflict with \"before-first-apply\" using")
    );
}

#[test]
fn a_configuration_brings_no_managed_fields() {
    let config = owned(json!({}), [entry("a", "Apply", json!({}))]);
    let error = apply(None, &config, &by("a"), false, &widget()).unwrap_err();
    assert_eq!(error, ApplyError::ManagedFields("metadata.managedFields must be nil".into()));
}

#[test]
fn stored_managed_fields_that_cannot_be_read_refuse_an_apply_and_are_dropped_by_an_update() {
    let live = owned(
        json!({"replicas": 1}),
        [json!({"manager": "a", "operation": "Merge", "apiVersion": V1, "fieldsType": "FieldsV1"})],
    );
    let error = apply(Some(&live), &object(json!({})), &by("a"), false, &widget()).unwrap_err();
    assert_eq!(
        error,
        ApplyError::ManagedFields(
            "failed to decode managed fields: operation must be `Apply` or `Update`".into()
        )
    );
    assert_eq!(owners(&updated(Some(&live), object(json!({"replicas": 2})), &by("b"))), json!({}));
}

// Update

#[test]
fn an_update_takes_what_it_changes_and_nothing_else() {
    let fields = json!({"f:replicas": {}, "f:map": {".": {}, "f:a": {}, "f:b": {}}});
    let live =
        owned(json!({"replicas": 1, "map": {"a": "1", "b": "1"}}), [entry("a", "Apply", fields.clone())]);
    for (spec, expected) in [
        (json!({"replicas": 1, "map": {"a": "1", "b": "1"}}), json!({"a/Apply": fields})),
        (
            json!({"replicas": 2, "map": {"a": "1", "b": "1"}}),
            json!({"a/Apply": {"f:map": {".": {}, "f:a": {}, "f:b": {}}}, "u/Update": {"f:replicas": {}}}),
        ),
        (
            json!({"replicas": 1, "map": {"a": "1"}}),
            json!({"a/Apply": {"f:replicas": {}, "f:map": {".": {}, "f:a": {}}}}),
        ),
        (json!({"replicas": 1}), json!({"a/Apply": {"f:replicas": {}}})),
        (
            json!({"replicas": 1, "map": {"a": "2", "b": "1", "c": "1"}}),
            json!({"a/Apply": {"f:replicas": {}, "f:map": {".": {}, "f:b": {}}}, "u/Update": {"f:map": {"f:a": {}, "f:c": {}}}}),
        ),
    ] {
        assert_eq!(owners(&updated(Some(&live), object(spec.clone()), &by("u"))), expected, "{spec}");
    }
}

#[test]
fn only_an_update_that_takes_a_field_sets_its_time() {
    let live = owned(
        json!({"replicas": 1, "map": {"a": "1"}}),
        [entry("u", "Update", json!({"f:replicas": {}, "f:map": {"f:a": {}}}))],
    );
    let time =
        |spec| updated(Some(&live), object(spec), &by("u"))["metadata"]["managedFields"][0]["time"].clone();
    assert_eq!(time(json!({"replicas": 1})), EARLY, "it only removed");
    assert_eq!(time(json!({"replicas": 2})), NOW);
}

#[test]
fn a_creator_owns_all_but_what_an_empty_object_has_and_what_nobody_owns() {
    let mut new = object(json!({"replicas": 1}));
    new["metadata"] = json!({"name": "n", "uid": "u", "generation": 1, "labels": {"a": "b"}});
    let created = updated(None, new, &by("c"));
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(
        *fields,
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {".": {}, "f:replicas": {}}})
    );
}

#[test]
fn managed_fields_that_a_client_sends() {
    let stored = entry("stored", "Update", json!({"f:replicas": {}}));
    let sent = entry("sent", "Update", json!({"f:set": {}}));
    let live = owned(json!({"replicas": 1}), [stored.clone()]);
    let of_stored = json!({"stored/Update": {"f:replicas": {}}});
    for (managed_fields, subresource, expected) in [
        (None, "", of_stored.clone()),
        (Some(json!(null)), "", of_stored.clone()),
        (Some(json!([stored])), "", of_stored.clone()),
        (Some(json!([sent])), "", json!({"sent/Update": {"f:set": {}}})),
        (Some(json!([sent])), "status", of_stored.clone()),
        (Some(json!([])), "", json!({})),
        (Some(json!([{}])), "", json!({})),
        (Some(json!([{"manager": "x"}])), "", of_stored.clone()),
        (Some(json!([entry("x", "Update", json!({"k:": {}}))])), "", of_stored.clone()),
        (Some(json!("nonsense")), "", of_stored.clone()),
    ] {
        let mut new = object(json!({"replicas": 1}));
        if let Some(fields) = &managed_fields {
            new["metadata"]["managedFields"] = fields.clone();
        }
        let result = updated(Some(&live), new, &Writer { subresource, ..by("u") });
        assert_eq!(owners(&result), expected, "{managed_fields:?} {subresource}");
    }
}

#[test]
fn sent_fields_are_stored_in_one_spelling() {
    let sent =
        entry("sent", "Update", json!({"f:ports": {"k:{ \"protocol\": \"TCP\", \"port\": 80.0 }": {}}}));
    let live = object(json!({"replicas": 1}));
    let result = updated(Some(&live), owned(json!({"replicas": 1}), [sent]), &by("u"));
    assert_eq!(
        owners(&result)["sent/Update"],
        json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}})
    );
}

#[test]
fn an_object_that_is_not_tracked_stays_so_until_it_is_applied() {
    let live = object(json!({"replicas": 1}));
    assert_eq!(
        updated(Some(&live), object(json!({"replicas": 2})), &by("u")),
        object(json!({"replicas": 2}))
    );
}

// Managers

#[test]
fn updates_in_two_versions_are_two_managers_and_applies_are_one() {
    let mut update_v2 = entry("m", "Update", json!({"f:size": {}}));
    update_v2["apiVersion"] = json!(V2);
    let live = owned(json!({"replicas": 1, "map": {"a": "1"}}), [update_v2]);
    let result = updated(Some(&live), object(json!({"replicas": 1, "map": {"a": "2"}})), &by("m"));
    assert_eq!(result["metadata"]["managedFields"].as_array().unwrap().len(), 2);

    let mut apply_v2 = entry("m", "Apply", json!({"f:size": {}, "f:set": {"v:\"x\"": {}}}));
    apply_v2["apiVersion"] = json!(V2);
    let live = owned(json!({"replicas": 1, "set": ["x"]}), [apply_v2]);
    let result = applied(&live, json!({"map": {"a": "2"}}), "m");
    let entries = result["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["apiVersion"]), (1, &json!(V1)));
    assert_eq!(result["spec"].get("replicas"), None, "applied as `size`, and no longer");
    assert_eq!(result["spec"]["map"], json!({"a": "2"}));
}

#[test]
fn fields_of_another_version_are_lost_and_in_conflict_as_that_version_has_them() {
    let mut of_v2 = entry("m", "Update", json!({"f:size": {}}));
    of_v2["apiVersion"] = json!(V2);
    let live = owned(json!({"replicas": 1}), [of_v2]);
    let result = updated(Some(&live), object(json!({"replicas": 2})), &by("u"));
    assert_eq!(owners(&result), json!({"u/Update": {"f:replicas": {}}}));
    assert_eq!(
        refused(&live, json!({"replicas": 2}), "a"),
        "Apply failed with 1 conflict: conflict with \"m\" using t.example/v2: .spec.size"
    );
}

#[test]
fn managers_of_a_version_that_is_gone_are_dropped() {
    let mut old = entry("old", "Update", json!({"f:replicas": {}}));
    old["apiVersion"] = json!("t.example/v0");
    let live = owned(json!({"replicas": 1}), [old, entry("b", "Update", json!({"f:map": {}}))]);
    assert_eq!(
        owners(&updated(Some(&live), object(json!({"replicas": 1})), &by("u"))),
        json!({"b/Update": {"f:map": {}}})
    );
    assert_eq!(owners(&applied(&live, json!({"replicas": 2}), "a")).as_object().unwrap().len(), 2);
}

#[test]
fn an_object_that_does_not_convert_refuses_an_apply_and_ends_tracking_by_an_update() {
    let mut of_v2 = entry("m", "Update", json!({"f:size": {}}));
    of_v2["apiVersion"] = json!(V2);
    let live = owned(json!({"replicas": 1, "any": "unconvertible"}), [of_v2]);
    let new = json!({"replicas": 2, "any": "unconvertible"});
    assert_eq!(owners(&updated(Some(&live), object(new.clone()), &by("u"))), json!({}));
    let error = apply(Some(&live), &object(new), &by("a"), false, &widget()).unwrap_err();
    assert_eq!(error, ApplyError::Conversion("does not convert".into()));
}

#[test]
fn entries_are_sorted_by_operation_time_manager_version_and_subresource() {
    let with = |mut entry: Value, name: &str, value: &str| {
        entry[name] = json!(value);
        entry
    };
    let update = |manager| entry(manager, "Update", json!({"f:map": {}}));
    let sorted = [
        entry("z", "Apply", json!({"f:map": {}})),
        update("a"),
        with(update("a"), "apiVersion", V2),
        with(with(update("a"), "apiVersion", V2), "subresource", "status"),
        update("b"),
        with(update("0"), "time", NOW),
    ];
    let mut shuffled = sorted.to_vec();
    shuffled.rotate_left(3);
    shuffled.swap(0, 1);
    let live = object(json!({"replicas": 1}));
    let result = updated(Some(&live), owned(json!({"replicas": 1}), shuffled), &by("u"));
    assert_eq!(result["metadata"]["managedFields"], json!(sorted));
}

#[test]
fn ten_updates_are_kept_and_of_eleven_the_oldest_two_are_merged() {
    let managers = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|number| {
                let mut entry =
                    entry(&format!("m{number}"), "Update", json!({"f:map": {format!("f:{number}"): {}}}));
                entry["time"] = json!(format!("2001-01-01T00:00:{number:02}Z"));
                entry
            })
            .collect()
    };
    let write = |count| {
        let live = owned(json!({"replicas": 1}), managers(count));
        owners(&updated(Some(&live), object(json!({"replicas": 2})), &by("new")))
    };
    let ten = write(MAX_UPDATE_MANAGERS - 1);
    assert_eq!(ten.as_object().unwrap().len(), MAX_UPDATE_MANAGERS);
    assert_eq!(ten["m0/Update"], json!({"f:map": {"f:0": {}}}));
    let eleven = write(MAX_UPDATE_MANAGERS);
    assert_eq!(eleven.as_object().unwrap().len(), MAX_UPDATE_MANAGERS);
    let ancient = format!("{ANCIENT_CHANGES}/Update");
    assert_eq!(eleven[ancient], json!({"f:map": {"f:0": {}, "f:1": {}}}));
}

// Reset fields and schema changes

#[test]
fn what_an_endpoint_does_not_write_is_neither_owned_nor_in_conflict() {
    let reset = ResetFields::except([".status", ".spec.map"]);
    let writer = Writer { reset: &reset, ..by("u") };
    let mut live = owned(
        json!({"replicas": 1, "map": {"a": "1"}}),
        [entry("b", "Update", json!({"f:map": {"f:a": {}}}))],
    );
    live["status"] = json!({"ready": false});
    let mut new = object(json!({"replicas": 2, "map": {"a": "2"}}));
    new["status"] = json!({"ready": true});
    let result = updated(Some(&live), new.clone(), &writer);
    let expected = json!({"b/Update": {"f:map": {"f:a": {}}}, "u/Update": {"f:replicas": {}}});
    assert_eq!(owners(&result), expected);
    let applied = apply(Some(&live), &new, &writer, false, &widget()).unwrap().object;
    assert_eq!(owners(&applied), json!({"b/Update": {"f:map": {"f:a": {}}}, "u/Apply": {"f:replicas": {}}}));
    assert!(applied["metadata"]["managedFields"][0]["fieldsV1"].get("f:status").is_none());
}

#[test]
fn an_endpoint_may_own_some_patterns_only() {
    let reset = ResetFields::only([".spec.named.*.a", ".spec.set"]);
    let new = object(json!({"replicas": 2, "named": [{"name": "x", "a": "1", "b": "2"}], "set": ["q"]}));
    let live = object(json!({}));
    let result =
        apply(Some(&live), &new, &Writer { reset: &reset, ..by("u") }, true, &widget()).unwrap().object;
    assert_eq!(
        owners(&result)["u/Apply"],
        json!({"f:named": {"k:{\"name\":\"x\"}": {".": {}, "f:a": {}}}, "f:set": {"v:\"q\"": {}}})
    );
}

#[test]
fn owners_of_parts_own_the_whole_once_it_is_atomic() {
    let parts = json!({"f:whole": {".": {}, "f:a": {}}, "f:items": {"v:\"x\"": {}}, "f:map": {"f:a": {}}});
    let live = owned(json!({"replicas": 1}), [entry("a", "Apply", parts)]);
    let result = updated(Some(&live), object(json!({"replicas": 1})), &by("u"));
    assert_eq!(owners(&result)["a/Apply"], json!({"f:whole": {}, "f:items": {}, "f:map": {"f:a": {}}}));
}

// kubectl

fn client_side(replicas: i64, last_applied: &Value) -> Value {
    let mut live = owned(
        json!({"replicas": replicas}),
        [entry("kubectl-client-side-apply", "Update", json!({"f:replicas": {}}))],
    );
    live["metadata"]["annotations"] = json!({LAST_APPLIED: last_applied.to_string()});
    live
}

#[test]
fn kubectl_takes_what_it_last_applied_on_the_client() {
    let live = client_side(1, &object(json!({"replicas": 1})));
    let result =
        apply(Some(&live), &object(json!({"replicas": 2})), &by("kubectl"), false, &widget()).unwrap();
    assert_eq!(owners(&result.object), json!({"kubectl/Apply": {"f:replicas": {}}}));
    let annotation = result.object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(annotation, format!("{}\n", object(json!({"replicas": 2}))));

    let changed_since = client_side(5, &object(json!({"replicas": 1})));
    assert!(
        refused(&changed_since, json!({"replicas": 2}), "kubectl")
            .starts_with("Apply failed with 1 conflict")
    );
    assert!(refused(&live, json!({"replicas": 2}), "other").starts_with("Apply failed with 1 conflict"));
}

#[test]
fn the_annotation_goes_when_it_would_be_too_long() {
    let config = object(json!({"replicas": 1, "any": "x"}));
    let length = config.to_string().len() + 1;
    let rewritten = |spare: usize| {
        let mut live = client_side(1, &object(json!({"replicas": 1})));
        let filler = 256 * 1024 - length - LAST_APPLIED.len() - "f".len() + spare;
        live["metadata"]["annotations"]["f"] = json!("y".repeat(filler));
        let result = apply(Some(&live), &config, &by("kubectl"), true, &widget()).unwrap();
        result.object["metadata"]["annotations"].get(LAST_APPLIED).is_some()
    };
    assert!(rewritten(0));
    assert!(!rewritten(1));
}

// Afterwards

#[test]
fn times_are_restored_when_nothing_else_changed() {
    let old = owned(json!({"replicas": 1}), [entry("a", "Update", json!({"f:replicas": {}}))]);
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(NOW);
    new["metadata"]["resourceVersion"] = json!("7");
    let mut changed = new.clone();
    changed["spec"]["replicas"] = json!(2);
    let mut other_owner = new.clone();
    other_owner["metadata"]["managedFields"][0]["manager"] = json!("b");
    for (mut new, time) in [(new, EARLY), (changed, NOW), (other_owner, NOW)] {
        restore_times(&old, &mut new);
        assert_eq!(new["metadata"]["managedFields"][0]["time"], time);
    }
}

#[test]
fn owners_of_replicas_are_seen_through_scale() {
    let paths = [("apps/v1", ".spec.replicas"), ("apps/v1beta1", ".spec.size.n")];
    let entry = |manager: &str, operation: &str, version: &str, fields: Value| {
        json!({
            "manager": manager, "operation": operation, "apiVersion": version, "time": EARLY,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields},
        })
    };
    let replicas = || json!({"f:replicas": {}});
    let parent = json!([
        entry("a", "Apply", "apps/v1", json!({"f:replicas": {}, "f:x": {}})),
        entry("b", "Update", "apps/v1", replicas()),
        entry("c", "Update", "apps/v1", json!({"f:x": {}})),
        entry("d", "Update", "apps/v1beta1", json!({"f:size": {"f:n": {}}})),
        entry("z", "Update", "apps/v9", replicas()),
    ]);
    let seen = scale::to_scale(Some(&parent), &paths).unwrap().unwrap();
    let expected = ["a", "b", "d"].map(|manager| {
        let operation = if manager == "a" { "Apply" } else { "Update" };
        entry(manager, operation, "autoscaling/v1", replicas())
    });
    assert_eq!(seen, json!(expected));

    // The applier kept its replicas, everybody else lost theirs to a new one.
    let timeless = |mut entry: Value| {
        entry.as_object_mut().unwrap().remove("time");
        entry
    };
    let scaled = json!([expected[0], entry("new", "Update", "autoscaling/v1", replicas())]);
    let back = scale::to_parent(Some(&parent), Some(&scaled), "apps/v1", &paths).unwrap().unwrap();
    assert_eq!(back, json!([parent[0], timeless(entry("new", "Update", "apps/v1", replicas())), parent[2]]));
    let lost = scale::to_parent(Some(&parent), None, "apps/v1", &paths).unwrap().unwrap();
    assert_eq!(lost, json!([entry("a", "Apply", "apps/v1", json!({"f:x": {}})), parent[2]]));
}
