//! JSON Merge Patch: where upstream's library leaves the RFC.

use serde_json::{Map, Value, json};
use sternpost_patch::merge_patch::{apply, changed_identity, diff, three_way};

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

fn document() -> Value {
    json!({"m": {"b": 1, "n": null}, "l": [1, 2], "s": "x", "n": null})
}

#[track_caller]
fn check(patch: &Value, key: &str, expected: Option<Value>) {
    let result = apply(document(), map(patch));
    assert_eq!(result.get(key), expected.as_ref(), "{patch}");
}

#[test]
fn null_deletes_and_objects_merge() {
    check(&json!({"m": {"b": null, "c": 2}}), "m", Some(json!({"n": null, "c": 2})));
    check(&json!({"s": null}), "s", None);
    check(&json!({"q": null}), "q", None);
    check(&json!({"l": [3]}), "l", Some(json!([3])));
    check(&json!({"m": 5}), "m", Some(json!(5)));
    check(&json!({"m": {}}), "m", Some(json!({"b": 1, "n": null})));
}

#[test]
fn nulls_are_left_out_of_what_takes_no_objects_place() {
    let new = json!({"a": null, "l": [null, {"q": null, "w": [{"r": null}]}], "o": {"p": null}});
    let kept = json!({"l": [null, {"w": [{}]}], "o": {}});
    for key in ["absent", "s", "l", "n"] {
        check(&json!({key: new}), key, Some(kept.clone()));
    }
    check(&json!({"m": {"n": new}}), "m", Some(json!({"b": 1, "n": kept})));
}

#[test]
fn a_list_in_an_objects_place_keeps_its_nulls() {
    check(&json!({"m": [{"q": null}]}), "m", Some(json!([{"q": null}])));
    check(&json!({"s": [{"q": null}]}), "s", Some(json!([{}])));
}

#[test]
fn a_diff_has_what_changed_and_nulls_for_what_went() {
    for (old, new, patch) in [
        (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3}), json!({"b": null, "c": 3})),
        (json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {}}}), json!({"a": {"b": {"c": null}}})),
        (json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), json!({})),
        (json!({"a": [1, {"x": 1}]}), json!({"a": [1, {"x": 2}]}), json!({"a": [1, {"x": 2}]})),
        (json!({"a": {}}), json!({"a": []}), json!({"a": []})),
        (json!({"a": 1}), json!({"a": null}), json!({"a": null})),
    ] {
        assert_eq!(Value::Object(diff(map(&old), map(&new))), patch, "{old} {new}");
    }
}

#[test]
fn three_ways_make_one_patch() {
    for (original, modified, current, patch) in [
        // Deleted is what was applied before and is no more; others' fields stay.
        (
            json!({"a": 1, "b": 2}),
            json!({"b": 2}),
            json!({"a": 1, "b": 3, "c": 4}),
            json!({"a": null, "b": 2}),
        ),
        (json!({"a": {"x": 1}}), json!({"a": {}}), json!({"a": {"x": 1, "y": 2}}), json!({"a": {"x": null}})),
        // Even if it is already gone.
        (json!({"a": {"x": 1}}), json!({"a": {}}), json!({}), json!({"a": {"x": null}})),
        (json!({"a": [1]}), json!({"a": [2]}), json!({"a": [2]}), json!({})),
        // A list is new as a whole, without nulls.
        (json!({}), json!({"a": [{"x": {"y": null}}]}), json!({"a": []}), json!({"a": [{"x": {}}]})),
        (json!({"a": {"x": 1}}), json!({"a": {"y": 1}}), json!({"a": 3}), json!({"a": {"x": null, "y": 1}})),
        (json!({"a": 1}), json!({"a": null}), json!({"a": 1}), json!({"a": null})),
    ] {
        let found = three_way(map(&original), map(&modified), map(&current));
        assert_eq!(Value::Object(found), patch, "{original} {modified} {current}");
    }
}

#[test]
fn a_patch_that_changes_what_an_object_is_can_be_told() {
    for (patch, expected) in [
        (json!({"apiVersion": "v2"}), Some("apiVersion")),
        (json!({"kind": "X"}), Some("kind")),
        (json!({"metadata": {"name": "x"}}), Some("metadata.name")),
        (json!({"metadata": {"labels": {"name": "x"}}, "spec": {"kind": "X"}}), None),
    ] {
        assert_eq!(changed_identity(map(&patch)), expected, "{patch}");
    }
}
