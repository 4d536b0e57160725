//! Strategic Merge Patch, rule by rule.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use sternpost_patch::{
    MAX_DEPTH,
    strategic::{Class, Error, Overwrite, ThreeWayError, apply, diff, three_way},
};
use sternpost_schema::topology::{Topologies, Type};

static TOPOLOGIES: LazyLock<Topologies> =
    LazyLock::new(|| Topologies::new(|name| sternpost_builtin::definition(name).cloned()));

fn pod() -> Type {
    TOPOLOGIES.of("io.k8s.api.core.v1.Pod")
}

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

fn named(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name})).collect()
}

/// A pod's spec before and after.
#[track_caller]
fn check(spec: Value, patch: Value, expected: Value) {
    let result = apply(&pod(), json!({"spec": spec}), map(&json!({"spec": patch}))).unwrap();
    assert_eq!(result, json!({"spec": expected}), "{spec} {patch}");
}

#[track_caller]
fn check_fails(spec: Value, patch: Value, class: Class, text: &str) {
    let error = apply(&pod(), json!({"spec": spec}), map(&json!({"spec": patch}))).unwrap_err();
    assert_eq!((error.class(), &*error.to_string()), (class, text), "{spec} {patch}");
}

#[test]
fn patch_replace_and_delete_ignore_what_an_object_is() {
    check(json!({"nodeName": "x"}), json!({"$patch": "delete", "a": 1}), json!({}));
    // Directives further inside are not looked at.
    let inside = json!({"a": null, "c": {"$patch": "delete"}});
    let mut patch = inside.clone();
    patch["$patch"] = json!("replace");
    check(json!({"nodeName": "x"}), patch, inside);
    for (directive, shown) in
        [(json!("merge"), "merge"), (json!(1), "%!s(int64=1)"), (json!(null), "%!s(<nil>)")]
    {
        let text = format!(
            "unknown patch type: {shown} in map: map[$patch:{}]",
            shown.replace("%!s(int64=1)", "1").replace("%!s(<nil>)", "<nil>")
        );
        check_fails(json!({}), json!({"$patch": directive}), Class::Unclassified, &text);
    }
}

#[test]
fn retain_keys_drops_all_others_and_must_have_what_the_patch_sets() {
    check(json!({"a": 1, "b": 2}), json!({"$retainKeys": ["a"], "b": null}), json!({"a": 1}));
    check(json!({"a": 1, "b": 2}), json!({"$retainKeys": ["b"], "b": 3}), json!({"b": 3}));
    check(json!({"a": 1}), json!({"$retainKeys": []}), json!({}));
    let text = "invalid patch format of retainKeys";
    for patch in
        [json!({"$retainKeys": ["a"], "b": 3}), json!({"$retainKeys": "a"}), json!({"$retainKeys": null})]
    {
        check_fails(json!({"a": 1}), patch, Class::BadRequest, text);
    }
}

#[test]
fn what_meets_nothing_of_its_kind_loses_nulls_and_directives() {
    let patch = json!({"affinity": {"x": null, "y": {"$patch": "delete"}, "l": [null, {"$patch": "replace"}, {"q": null}], "$retainKeys": ["z"]}});
    let cleaned = json!({"affinity": {"l": [null, {}], "$retainKeys": ["z"]}});
    check(json!({}), patch.clone(), cleaned.clone());
    check(json!({"affinity": "scalar"}), patch, cleaned);
    check(json!({"affinity": "scalar"}), json!({"affinity": {"$patch": "delete"}}), json!({}));
}

#[test]
fn an_unknown_field_is_an_error_only_where_something_is_merged() {
    check(json!({}), json!({"unknown": {"a": 1}}), json!({"unknown": {"a": 1}}));
    check(json!({"unknown": 1}), json!({"unknown": 2}), json!({"unknown": 2}));
    let text = "unable to find api field in struct PodSpec for the json field \"unknown\"";
    check_fails(json!({"unknown": {}}), json!({"unknown": {}}), Class::Unclassified, text);
    check_fails(json!({"unknown": []}), json!({"unknown": []}), Class::Unclassified, text);
    check_fails(json!({}), json!({"$setElementOrder/unknown": []}), Class::Unclassified, text);
}

#[test]
fn somebody_elses_object_is_not_merged_any_deeper() {
    let revision = TOPOLOGIES.of("io.k8s.api.apps.v1.ControllerRevision");
    let object = json!({"data": {"a": {"b": 1}}});
    let error = apply(&revision, object.clone(), map(&json!({"data": {"a": {"c": 2}}}))).unwrap_err();
    let text = "unable to find api field in struct RawExtension for the json field \"a\"";
    assert_eq!(error.to_string(), text);
    let result = apply(&revision, object, map(&json!({"data": {"x": 2}}))).unwrap();
    assert_eq!(result, json!({"data": {"a": {"b": 1}, "x": 2}}));
}

#[test]
fn lists_without_a_strategy_are_replaced_with_all_they_hold() {
    let tolerations = json!([{"key": null, "x": {"$patch": "delete"}}]);
    check(
        json!({"tolerations": [{"key": "k"}]}),
        json!({"tolerations": tolerations}),
        json!({"tolerations": tolerations}),
    );
}

#[test]
fn items_merge_by_key_the_first_of_equals_only() {
    check(
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "a", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "3"}]}),
        json!({"containers": [{"name": "a", "image": "3"}, {"name": "a", "image": "2"}, {"name": "b"}]}),
    );
    check(
        json!({"containers": named("aba")}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        json!({"containers": named("b")}),
    );
}

#[test]
fn an_item_that_is_new_is_taken_as_it_is() {
    let new = json!({"name": "b", "x": null, "y": {"$patch": "delete"}});
    check(
        json!({"containers": named("a")}),
        json!({"containers": [new]}),
        json!({"containers": [new, {"name": "a"}]}),
    );
}

#[test]
fn patch_replace_in_a_list_drops_the_old_items() {
    check(
        json!({"containers": named("ab")}),
        json!({"containers": [{"$patch": "replace"}, {"name": "b", "$patch": "delete"}, {"name": "c"}]}),
        json!({"containers": named("c")}),
    );
}

#[test]
fn keys_are_equal_in_value_and_type() {
    let ports = |patch: Value| json!({"containers": [{"name": "a", "ports": patch}]});
    check(
        ports(json!([{"containerPort": 1}])),
        ports(json!([{"containerPort": "1"}])),
        ports(json!([{"containerPort": "1"}, {"containerPort": 1}])),
    );
}

#[test]
fn order_is_that_of_the_directive_then_of_the_patch_then_of_the_list() {
    let order = |names: &str| json!({"$setElementOrder/containers": named(names)});
    for (old, patch, new) in [
        ("124", json!({"containers": named("3")}), "3124"),
        ("124", json!({"containers": named("42")}), "142"),
        ("124", order("42"), "142"),
        ("124", order("4x24"), "142"),
        ("124", order(""), "124"),
    ] {
        check(json!({"containers": named(old)}), patch, json!({"containers": named(new)}));
    }
    check(json!({}), order("42"), json!({}));
}

#[test]
fn with_an_order_new_items_take_the_places_of_deleted_ones_in_the_servers_order() {
    let delete_1_add_3 = json!([{"name": "1", "$patch": "delete"}, {"name": "3"}]);
    check(
        json!({"containers": named("124")}),
        json!({"$setElementOrder/containers": named("23"), "containers": delete_1_add_3}),
        json!({"containers": named("243")}),
    );
    check(
        json!({"containers": named("124")}),
        json!({"containers": delete_1_add_3}),
        json!({"containers": named("324")}),
    );
}

#[test]
fn a_patch_must_have_the_order_it_asks_for() {
    let text = "The order in patch list:\n[map[name:2] map[name:4]]\n doesn't match $setElementOrder list:\n[map[name:4] map[name:2]]\n";
    let patch = json!({"$setElementOrder/containers": named("42"), "containers": named("24")});
    check_fails(json!({"containers": named("124")}), patch, Class::Unclassified, text);
}

#[test]
fn scalars_are_a_union_without_repetition() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let change =
        |old: Value, patch: Value| apply(&pod(), finalizers(old), map(&json!({"metadata": patch}))).unwrap();
    for (old, patch, new) in [
        (json!(["a", "b", "a"]), json!({"finalizers": ["c", "b", "c"]}), json!(["c", "a", "b"])),
        (json!(["a", "b", "a"]), json!({"finalizers": []}), json!(["a", "b"])),
        (
            json!(["a", "b", "c"]),
            json!({"$deleteFromPrimitiveList/finalizers": ["b", "z"]}),
            json!(["a", "c"]),
        ),
        (
            json!(["a", "b"]),
            json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a", "c"]}),
            json!(["b"]),
        ),
        (json!(["a", "b", "c"]), json!({"$setElementOrder/finalizers": ["c", "a"]}), json!(["b", "c", "a"])),
    ] {
        assert_eq!(change(old, patch.clone()), finalizers(new), "{patch}");
    }
    assert_eq!(
        change(json!(["a"]), json!({"$deleteFromPrimitiveList/finalizers": null})),
        json!({"metadata": {}})
    );
}

#[test]
fn any_list_can_lose_scalars() {
    check(
        json!({"containers": [{"name": "a", "command": ["x", "y", "x"]}]}),
        json!({"containers": [{"name": "a", "$deleteFromPrimitiveList/command": ["x"]}]}),
        json!({"containers": [{"name": "a", "command": ["y"]}]}),
    );
}

#[test]
fn malformed_directives_are_bad_requests() {
    for key in ["$deleteFromPrimitiveList", "$deleteFromPrimitiveListX/a"] {
        check_fails(json!({}), json!({key: []}), Class::BadRequest, "invalid patch format of primitive list");
    }
    for key in ["$setElementOrder", "$setElementOrderX/a"] {
        check_fails(
            json!({}),
            json!({key: []}),
            Class::BadRequest,
            "invalid patch format of setElementOrder list",
        );
    }
}

#[test]
fn lists_that_cannot_be_merged_are_refused() {
    let containers = |list: Value| json!({"containers": list});
    for (old, patch, class, text) in [
        (
            named("a"),
            json!([{"x": 1}]),
            Class::Unclassified,
            "map: map[x:1] does not contain declared merge key: name",
        ),
        (
            json!([{"x": 1}]),
            named("a"),
            Class::Unclassified,
            "map: map[x:1] does not contain declared merge key: name",
        ),
        (
            named("a"),
            json!([{"$patch": "delete"}]),
            Class::Unclassified,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            named("a"),
            json!([{"$patch": "merge"}]),
            Class::Unclassified,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            named("a"),
            json!([{"$patch": "x", "name": "a"}]),
            Class::Unclassified,
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (
            named("a"),
            json!(["a"]),
            Class::Unclassified,
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (
            json!(["a"]),
            json!(["b"]),
            Class::Unclassified,
            "expected a map[string]interface {}, but received a string",
        ),
        (json!([[1]]), json!([[1]]), Class::Unprocessable, "lists of lists are not supported"),
        (json!([]), json!([null]), Class::Unclassified, "list elements must not be null"),
    ] {
        check_fails(containers(old), containers(patch), class, text);
    }
    let object = json!({"metadata": {"finalizers": [{"x": 1}]}});
    let error = apply(&pod(), object.clone(), map(&object)).unwrap_err();
    assert_eq!(error.to_string(), "cannot merge lists without merge key for string");
}

#[test]
fn long_lists_merge_as_short_ones_do() {
    let names =
        |range: std::ops::Range<usize>| -> Value { range.map(|n| json!({"name": n.to_string()})).collect() };
    let (old, patch) = (names(0..30_000), names(20_000..50_000));
    let mut expected = names(0..20_000);
    expected.as_array_mut().unwrap().extend(patch.as_array().unwrap().iter().cloned());
    check(json!({"containers": old}), json!({"containers": patch}), json!({"containers": expected}));
}

#[test]
fn many_keys_and_directives_take_no_longer_than_their_number() {
    const MANY: usize = 50_000;
    let numbers = |prefix: &str| -> Map<String, Value> {
        (0..MANY).map(|n| (format!("{prefix}{n}"), json!(["x"]))).collect()
    };
    let mut patch = numbers("$setElementOrder/");
    patch.extend(numbers(""));
    patch.insert("$retainKeys".to_owned(), (0..MANY).map(|n| n.to_string()).collect());
    let labels = |map: Map<String, Value>| json!({"metadata": {"labels": map}});
    let result = apply(&pod(), labels(numbers("")), map(&labels(patch))).unwrap();
    assert_eq!(result, labels(numbers("")));
}

#[test]
fn the_deepest_objects_are_merged() {
    let nested = |leaf: Value| (1..MAX_DEPTH).fold(json!({"x": leaf}), |inner, _| json!({"a": inner}));
    let (old, new) = (nested(json!(1)), nested(json!(2)));
    let anything = Type::deduced();
    assert_eq!(apply(&anything, old.clone(), map(&new)), Ok(new.clone()));
    assert_eq!(diff(&anything, map(&old), map(&new)), Ok(map(&new).clone()));
    let patch = three_way(&anything, map(&old), map(&new), map(&old), Overwrite::Refused);
    assert_eq!(patch, Ok(map(&new).clone()));
}

#[track_caller]
fn check_diff(kind: &str, old: Value, new: Value, expected: Value) {
    let patch = diff(&TOPOLOGIES.of(kind), map(&old), map(&new)).unwrap();
    assert_eq!(Value::Object(patch), expected, "{old} {new}");
}

#[test]
fn a_diff_says_keys_order_and_deletions() {
    let containers = |list: Value| json!({"spec": {"containers": list}});
    let pod = "io.k8s.api.core.v1.Pod";
    check_diff(pod, containers(named("12")), containers(named("12")), json!({}));
    check_diff(
        pod,
        containers(named("12")),
        containers(named("21")),
        json!({"spec": {"$setElementOrder/containers": named("21")}}),
    );
    check_diff(
        pod,
        containers(json!([{"name": "a", "image": "x"}, {"name": "b"}, {"name": "c"}])),
        containers(json!([{"name": "d"}, {"name": "b"}, {"name": "a", "image": "y"}])),
        json!({"spec": {
            "$setElementOrder/containers": named("dba"),
            "containers": [{"name": "d"}, {"name": "a", "image": "y"}, {"$patch": "delete", "name": "c"}],
        }}),
    );
    check_diff(pod, containers(json!([])), containers(named("12")), containers(named("12")));
    check_diff(
        pod,
        containers(named("1")),
        containers(json!([])),
        containers(json!([{"$patch": "delete", "name": "1"}])),
    );
}

#[test]
fn a_diff_of_scalars_says_what_comes_and_what_goes() {
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    check_diff(
        "io.k8s.api.core.v1.Pod",
        finalizers(&["a", "b", "c"]),
        finalizers(&["d", "c"]),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "b"], "$setElementOrder/finalizers": ["d", "c"], "finalizers": ["d"]}}),
    );
    // Upstream sorts the old list before it compares, and says nothing here.
    check_diff(
        "io.k8s.api.core.v1.Pod",
        finalizers(&["b", "a"]),
        finalizers(&["a", "b"]),
        json!({"metadata": {"$setElementOrder/finalizers": ["a", "b"]}}),
    );
}

#[test]
fn a_diff_retains_keys_and_replaces_where_the_schema_says_so() {
    let strategy = |fields: Value| json!({"spec": {"strategy": fields}});
    check_diff(
        "io.k8s.api.apps.v1.Deployment",
        strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})),
        strategy(json!({"type": "Recreate"})),
        strategy(json!({"$retainKeys": ["type"], "rollingUpdate": null, "type": "Recreate"})),
    );
    check_diff(
        "io.k8s.api.apps.v1.Deployment",
        strategy(json!({"type": "x"})),
        strategy(json!({"type": "x"})),
        json!({}),
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    check_diff("io.k8s.api.policy.v1.PodDisruptionBudget", selector.clone(), selector.clone(), selector);
}

#[test]
fn a_conflict_is_a_change_of_the_same_thing_to_something_else() {
    let image = |image: &str| json!({"spec": {"containers": [{"name": "a", "image": image}]}});
    let run = |original: &Value, modified: &Value, current: &Value| {
        three_way(&pod(), map(original), map(modified), map(current), Overwrite::Refused)
    };
    assert!(run(&image("1"), &image("2"), &image("1")).is_ok());
    assert_eq!(run(&image("1"), &image("2"), &image("2")), Ok(Map::new()));
    let error = run(&image("1"), &image("2"), &image("3")).unwrap_err();
    let ThreeWayError::Conflict { patch, changes } = &error else { panic!("{error}") };
    assert_eq!(patch["spec"]["containers"], json!([{"name": "a", "image": "2"}]));
    assert_eq!(changes["spec"]["containers"], json!([{"name": "a", "image": "3"}]));
    let allowed = three_way(&pod(), map(&image("1")), map(&image("2")), map(&image("3")), Overwrite::Allowed);
    assert_eq!(allowed.as_ref(), Ok(patch));
}

#[test]
fn a_schema_that_says_nothing_merges_objects_and_replaces_lists() {
    let object = json!({"a": {"b": 1}, "l": [{"name": "x"}]});
    let patch = json!({"a": {"c": 2}, "l": [{"name": "y"}]});
    let result = apply(&Type::deduced(), object, map(&patch));
    assert_eq!(result, Ok::<_, Error>(json!({"a": {"b": 1, "c": 2}, "l": [{"name": "y"}]})));
}
