//! What holds for every set, object and write.

use std::collections::BTreeSet;

use crate::kinds::{EPOCH, OneVersion, kind, text};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sternpost_apply::{
    ResetFields, Writer, apply,
    path::Element,
    restore_times, scale,
    set::Set,
    typed::{self, Duplicates},
    update,
};

const LATER: &str = "2001-01-01T00:00:00Z";

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        4 => "[ab]".prop_map(|name: String| Element::field(name)),
        2 => (0..3i64, "[xy]").prop_map(|(port, name)| {
            Element::key(vec![("port".into(), json!(port)), ("name".into(), json!(name))])
        }),
        2 => prop_oneof![Just(json!("v")), Just(json!(1)), Just(json!(1.5)), Just(json!(true))]
            .prop_map(|value| Element::Value(value.into())),
        1 => (0..3i64).prop_map(Element::Index),
    ]
}

type Paths = BTreeSet<Vec<Element>>;

fn paths() -> impl Strategy<Value = Paths> {
    prop::collection::btree_set(prop::collection::vec(element(), 1..4), 0..12)
}

fn set(paths: &Paths) -> Set {
    Set::of(paths.iter().map(Vec::as_slice))
}

fn members(set: &Set) -> Paths {
    set.paths().into_iter().collect()
}

/// Any JSON, with names that the schema below knows and some it does not.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4i64).prop_map(Value::from),
        "[ab]?".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abmlsok]|free|list|metadata|managedFields|spec", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Objects that fit the schema.
fn object() -> impl Strategy<Value = Value> {
    let name = || "[abc]";
    let map = prop::collection::btree_map(name(), "[xyz]", 0..3);
    let item = (name(), prop::option::of(0..3i64));
    let list = prop::collection::btree_map(name(), item, 0..4);
    let values = prop::collection::btree_set(name(), 0..4);
    let free = prop::collection::btree_map(name(), json_value(), 0..3);
    (prop::option::of(map), list, any::<bool>(), prop::option::of(values), free, prop::option::of(0..3i64))
        .prop_map(|(map, list, reversed, values, free, number)| {
            let mut object = json!({"apiVersion": "t.example/v1", "kind": "X", "metadata": {"name": "n"}});
            let mut items: Vec<_> = list
                .into_iter()
                .map(|(key, (text, number))| match number {
                    Some(number) => json!({"k": key, "a": text, "n": number}),
                    None => json!({"k": key}),
                })
                .collect();
            if reversed {
                items.reverse();
            }
            object["list"] = items.into();
            object["free"] = Value::Object(free.into_iter().collect());
            object["o"] = number.map_or_else(|| json!({}), |number| json!({"n": number}));
            if let Some(map) = map {
                object["m"] = Value::Object(map.into_iter().map(|(k, v)| (k, json!(v))).collect());
            }
            if let Some(values) = values {
                object["s"] = values.into_iter().map(Value::from).collect();
            }
            object
        })
}

fn versions() -> OneVersion {
    OneVersion(kind(&json!({"X": {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
            "o": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {
                    "k": {"type": "string"},
                    "a": {"type": "string"},
                    "n": {"type": "integer"},
                }},
            },
        },
    }})))
}

fn writer<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, api_version: "t.example/v1", subresource: "", now, reset: &ResetFields::None }
}

/// The fields of each entry.
fn owners(object: &Value) -> Vec<Set> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| Set::from_fields_v1(&entry["fieldsV1"]).unwrap()).collect()
}

proptest! {
    #[test]
    fn sets_behave_as_sets_of_paths(a in paths(), b in paths()) {
        let (left, right) = (set(&a), set(&b));
        prop_assert_eq!(members(&left), a.clone());
        prop_assert_eq!(members(&left.clone().union(right.clone())), &a | &b);
        prop_assert_eq!(members(&left.intersection(&right)), &a & &b);
        prop_assert_eq!(members(&left.clone().difference(&right)), &a - &b);
        let below = |path: &Vec<Element>| (1..=path.len()).any(|length| b.contains(&path[..length]));
        let outside: Paths = a.iter().filter(|path| !below(path)).cloned().collect();
        prop_assert_eq!(members(&left.clone().recursive_difference(&right)), outside);
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        let above = |path: &Vec<Element>| a.iter().any(|other| other.len() > path.len() && other.starts_with(path));
        let leaves: Paths = a.iter().filter(|path| !above(path)).cloned().collect();
        prop_assert_eq!(members(&left.leaves()), leaves);
        for path in &b {
            prop_assert_eq!(left.has(path), a.contains(path));
        }
    }

    #[test]
    fn fields_v1_survives_being_written_and_read(paths in paths()) {
        let set = set(&paths);
        let value = set.to_fields_v1();
        prop_assert_eq!(&Set::from_fields_v1(&value).unwrap(), &set);
        let written: Value = serde_json::from_str(&text(&set)).unwrap();
        prop_assert_eq!(written, value);
    }

    #[test]
    fn nothing_panics_on_any_json(live in json_value(), other in json_value(), fields in json_value()) {
        let versions = versions();
        let _ = Set::from_fields_v1(&fields);
        let _ = typed::validate(&versions.0, &live, Duplicates::Forbidden);
        let _ = typed::field_set(&versions.0, &live);
        let _ = typed::compare(&versions.0, &live, &other);
        let _ = typed::merge(&versions.0, live.clone(), &other);
        let mut object = other.clone();
        update(Some(&live), &mut object, &writer("m", EPOCH), &versions);
        restore_times(&live, &mut object);
        let mut object = other.clone();
        update(None, &mut object, &writer("m", EPOCH), &versions);
        let _ = apply(Some(&live), &other, &writer("m", EPOCH), true, &versions);
        let _ = apply(None, &other, &writer("m", EPOCH), false, &versions);
        let _ = scale::to_scale(Some(&fields), &[("t.example/v1", ".spec.a")]);
        let _ = scale::to_parent(Some(&live), Some(&fields), "t.example/v1", &[("t.example/v1", ".spec.a")]);
    }

    #[test]
    fn merging_and_comparing_agree(a in object(), b in object()) {
        let kind = versions().0;
        let merged = typed::merge(&kind, a.clone(), &b).unwrap();
        // Nothing of what is laid over is missing or different. Where it is
        // null or empty, what it is laid over may stay.
        let left = typed::compare(&kind, &merged, &b).unwrap();
        prop_assert!(left.added.is_empty(), "{}", text(&left.added));
        prop_assert!(typed::compare(&kind, &a, &a).unwrap().is_same());
        prop_assert_eq!(typed::merge(&kind, a.clone(), &a).unwrap(), a);
    }

    #[test]
    fn applying_again_changes_nothing(live in object(), config in object()) {
        let versions = versions();
        let mut live = live;
        update(None, &mut live, &writer("creator", EPOCH), &versions);
        let first = apply(Some(&live), &config, &writer("a", EPOCH), true, &versions).unwrap();
        let again = apply(Some(&first.object), &config, &writer("a", LATER), false, &versions).unwrap();
        prop_assert!(!again.changed);
        prop_assert_eq!(again.object, first.object);
    }

    #[test]
    fn an_applier_owns_what_it_applies_and_takes_what_it_changes(live in object(), config in object()) {
        let versions = versions();
        let mut live = live;
        update(None, &mut live, &writer("creator", EPOCH), &versions);
        let config_set = typed::field_set(&versions.0, &config).unwrap();
        let applied = apply(Some(&live), &config, &writer("a", EPOCH), true, &versions).unwrap().object;
        let entries = applied["metadata"]["managedFields"].as_array().unwrap();
        let owned: Vec<_> = entries.iter().zip(owners(&applied)).collect();
        let changed = typed::compare(&versions.0, &live, &applied).unwrap();
        for (entry, set) in owned {
            if entry["operation"] == "Apply" {
                prop_assert!(set.is_subset(&config_set));
            } else {
                prop_assert!(set.intersection(&changed.modified).is_empty());
                prop_assert!(set.intersection(&changed.added).is_empty());
                prop_assert!(set.intersection(&changed.removed).is_empty());
            }
        }
    }

    #[test]
    fn updates_share_no_field(writes in prop::collection::vec((object(), "[abc]"), 1..6)) {
        let versions = versions();
        let mut live: Option<Value> = None;
        for (mut object, manager) in writes {
            update(live.as_ref(), &mut object, &writer(&manager, EPOCH), &versions);
            let sets = owners(&object);
            for (index, set) in sets.iter().enumerate() {
                prop_assert!(!set.is_empty());
                for other in &sets[index + 1..] {
                    prop_assert!(set.intersection(other).is_empty());
                }
            }
            if object["metadata"].get("managedFields").is_none() {
                return Ok(());
            }
            live = Some(object);
        }
    }

    #[test]
    fn writing_the_same_object_again_changes_no_owner(object in object()) {
        let versions = versions();
        let mut live = object.clone();
        update(None, &mut live, &writer("a", EPOCH), &versions);
        let mut again = object;
        update(Some(&live), &mut again, &writer("b", LATER), &versions);
        prop_assert_eq!(again, live);
    }

    #[test]
    fn what_was_applied_and_is_applied_no_longer_is_gone(config in object()) {
        let versions = versions();
        let live = json!({"apiVersion": "t.example/v1", "kind": "X", "metadata": {"name": "n"}});
        let mut tracked = live.clone();
        tracked["o"] = json!({"n": 9});
        update(None, &mut tracked, &writer("creator", EPOCH), &versions);
        let applied = apply(Some(&tracked), &config, &writer("a", EPOCH), true, &versions).unwrap().object;
        let empty = json!({"apiVersion": "t.example/v1", "kind": "X", "metadata": {"name": "n"}});
        let left = apply(Some(&applied), &empty, &writer("a", EPOCH), false, &versions).unwrap().object;
        for entry in left["metadata"]["managedFields"].as_array().into_iter().flatten() {
            prop_assert_eq!(&entry["manager"], "creator");
        }
        for name in ["m", "s", "list"] {
            prop_assert!(left.get(name).is_none_or(|value| {
                value.is_null() || value == &json!([]) || value == &json!({})
            }), "{}", left);
        }
    }
}
