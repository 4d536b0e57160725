//! What holds for any object and any patch.

use std::sync::LazyLock;

use ::json_patch as reference;
use proptest::{collection, prelude::*, sample};
use serde_json::{Map, Value, json};
use sternpost_patch::{
    body::{self, Reading},
    json_patch, merge_patch,
    strategic::{self, Overwrite},
};
use sternpost_schema::topology::{Topologies, Type};

static TOPOLOGIES: LazyLock<Topologies> =
    LazyLock::new(|| Topologies::new(|name| sternpost_builtin::definition(name).cloned()));

fn schema() -> Type {
    TOPOLOGIES.of("io.k8s.api.apps.v1.Deployment")
}

/// Keys that mean something to somebody.
const KEYS: &[&str] = &[
    "a",
    "b",
    "name",
    "metadata",
    "labels",
    "finalizers",
    "ownerReferences",
    "uid",
    "spec",
    "strategy",
    "template",
    "containers",
    "env",
    "ports",
    "volumes",
    "tolerations",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder",
    "$deleteFromPrimitiveList",
];

fn scalar() -> impl Strategy<Value = Value> {
    const TEXTS: &[&str] = &["", "a", "b", "replace", "delete", "merge", "name", "/a/0", "-1"];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        sample::select(TEXTS).prop_map(Value::from),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 60, 5, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(sample::select(KEYS), inner, 0..6).prop_map(|map| Value::Object(
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn any_map() -> impl Strategy<Value = Map<String, Value>> {
    collection::btree_map(sample::select(KEYS), any_json(), 0..8)
        .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn plain_json() -> impl Strategy<Value = Value> {
    let scalar = scalar().prop_filter("no merge patch can say null", |value| !value.is_null());
    scalar.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn plain_map() -> impl Strategy<Value = Map<String, Value>> {
    collection::btree_map("[a-d]", plain_json(), 0..5).prop_map(|map| map.into_iter().collect())
}

/// Objects of these fields, in any order, told apart by the key.
fn items(
    key: &'static str,
    names: &'static [&'static str],
    fields: impl Strategy<Value = Map<String, Value>> + 'static,
) -> impl Strategy<Value = Value> {
    let chosen = sample::subsequence(names, 0..=names.len()).prop_shuffle();
    (chosen, collection::vec(fields, names.len())).prop_map(move |(chosen, fields)| {
        let item = |(name, mut fields): (&str, Map<String, Value>)| {
            fields.insert(key.to_owned(), json!(name));
            Value::Object(fields)
        };
        chosen.into_iter().zip(fields).map(item).collect()
    })
}

/// Some of these fields.
fn some(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Map<String, Value>> {
    let mut all: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for (name, field) in fields {
        all = (all, proptest::option::of(field))
            .prop_map(move |(mut map, field)| {
                map.extend(field.map(|field| (name.to_owned(), field)));
                map
            })
            .boxed();
    }
    all
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    some(fields).prop_map(Value::Object).boxed()
}

fn text() -> BoxedStrategy<Value> {
    "[xyz]".prop_map(Value::from).boxed()
}

fn texts() -> BoxedStrategy<Value> {
    collection::vec("[xyz]", 0..3).prop_map(Value::from).boxed()
}

fn set() -> BoxedStrategy<Value> {
    sample::subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_shuffle().prop_map(Value::from).boxed()
}

fn labels() -> BoxedStrategy<Value> {
    collection::btree_map("[ab]", "[xyz]", 0..3).prop_map(|map| json!(map)).boxed()
}

/// A deployment, or as much of one as merging cares about.
fn deployment() -> BoxedStrategy<Map<String, Value>> {
    let metadata = || {
        let owner = some(vec![("name", text()), ("controller", any::<bool>().prop_map(Value::from).boxed())]);
        object(vec![
            ("labels", labels()),
            ("finalizers", set()),
            ("ownerReferences", items("uid", &["1", "2", "3"], owner).boxed()),
        ])
    };
    let env = some(vec![("value", text()), ("valueFrom", object(vec![("fieldRef", labels())]))]);
    let container = some(vec![
        ("image", text()),
        ("command", texts()),
        ("env", items("name", &["a", "b", "c"], env).boxed()),
        ("resources", object(vec![("limits", labels())])),
    ]);
    let volume = some(vec![
        ("emptyDir", object(vec![("medium", text())])),
        ("hostPath", object(vec![("path", text())])),
    ]);
    let pod = object(vec![
        ("containers", items("name", &["a", "b", "c", "d"], container).boxed()),
        ("volumes", items("name", &["a", "b"], volume).boxed()),
        ("tolerations", collection::vec(object(vec![("key", text())]), 0..3).prop_map(Value::from).boxed()),
        ("nodeSelector", labels()),
    ]);
    let strategy = object(vec![("type", text()), ("rollingUpdate", object(vec![("maxSurge", text())]))]);
    let spec = object(vec![
        ("replicas", (0..3).prop_map(Value::from).boxed()),
        ("strategy", strategy),
        ("template", object(vec![("metadata", metadata()), ("spec", pod)])),
    ]);
    some(vec![("metadata", metadata()), ("spec", spec)])
}

/// An operation, more often than not on something that is there.
fn operation() -> impl Strategy<Value = Value> {
    let op = sample::select(&["add", "remove", "replace", "move", "copy", "test", "other"][..]);
    let pointer = || {
        collection::vec("[a-d]|-?[0-3]|-|~[01]", 0..4)
            .prop_map(|steps| steps.into_iter().map(|step| format!("/{step}")).collect::<String>())
    };
    (op, pointer(), pointer(), any_json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

fn decoded(operations: &[Value]) -> json_patch::Patch {
    json_patch::decode(json!(operations).to_string().as_bytes(), Reading::Checked).unwrap().patch
}

proptest! {
    #[test]
    fn a_merge_patch_makes_the_new_of_the_old(old in plain_map(), new in plain_map()) {
        let patch = merge_patch::diff(&old, &new);
        prop_assert_eq!(merge_patch::apply(Value::Object(old), &patch), Value::Object(new));
    }

    #[test]
    fn a_three_way_merge_patch_of_two_is_their_diff(old in plain_map(), new in plain_map()) {
        let patch = merge_patch::three_way(&old, &new, &old);
        prop_assert_eq!(merge_patch::apply(Value::Object(old), &patch), Value::Object(new));
    }

    #[test]
    fn a_strategic_patch_makes_the_new_of_the_old(old in deployment(), new in deployment()) {
        let patch = strategic::diff(&schema(), &old, &new).unwrap();
        let found = strategic::apply(&schema(), Value::Object(old), &patch).unwrap();
        prop_assert_eq!(found, Value::Object(new));
    }

    #[test]
    fn a_three_way_strategic_patch_of_two_is_their_diff(old in deployment(), new in deployment()) {
        let patch = strategic::three_way(&schema(), &old, &new, &old, Overwrite::Refused).unwrap();
        let found = strategic::apply(&schema(), Value::Object(old), &patch).unwrap();
        prop_assert_eq!(found, Value::Object(new));
    }

    #[test]
    fn nothing_changed_needs_no_patch(object in deployment(), other in deployment()) {
        prop_assert_eq!(strategic::diff(&schema(), &object, &object).unwrap(), Map::new());
        prop_assert_eq!(strategic::three_way(&schema(), &object, &object, &object, Overwrite::Refused).unwrap(), Map::new());
        prop_assert_eq!(merge_patch::three_way(&other, &other, &other), Map::new());
    }

    #[test]
    fn any_strategic_patch_is_applied_or_refused(object in any_json(), patch in any_map(), other in any_map()) {
        let _ = strategic::apply(&schema(), object, &patch);
        let _ = strategic::diff(&schema(), &patch, &other);
        let _ = strategic::three_way(&schema(), &patch, &other, &patch, Overwrite::Refused);
    }

    #[test]
    fn any_merge_patch_is_applied(object in any_json(), patch in any_map(), other in any_map()) {
        merge_patch::apply(object, &patch);
        merge_patch::three_way(&patch, &other, &patch);
    }

    #[test]
    fn any_bytes_are_a_patch_or_none(bytes in collection::vec(any::<u8>(), 0..64)) {
        let _ = json_patch::decode(&bytes, Reading::Checked);
        let _ = body::merge_patch(&bytes, Reading::Checked);
        let _ = body::strategic(&bytes);
    }

    #[test]
    fn any_operations_are_applied_or_refused(document in any_json(), operations in collection::vec(any_json(), 0..4)) {
        if let Ok(decoded) = json_patch::decode(json!(operations).to_string().as_bytes(), Reading::Lenient) {
            let _ = json_patch::apply(document, &decoded.patch);
        }
    }

    /// What the RFC allows upstream allows too, but for the whole document as a target.
    #[test]
    fn a_patch_that_the_rfc_allows_does_as_the_rfc_says(
        document in plain_map(),
        operations in collection::vec(operation(), 1..5),
    ) {
        let mut expected = Value::Object(document.clone());
        let is_root = |operation: &Value| operation["path"] == "" || operation["from"] == "";
        let by_the_rfc: Result<reference::Patch, _> = serde_json::from_value(json!(operations));
        if let Ok(by_the_rfc) = by_the_rfc
            && !operations.iter().any(is_root)
            && reference::patch(&mut expected, &by_the_rfc).is_ok()
        {
            let found = json_patch::apply(Value::Object(document), &decoded(&operations));
            prop_assert_eq!(found, Ok(expected));
        }
    }
}
