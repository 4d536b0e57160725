//! What workloads answer besides themselves, against kube-apiserver 1.36.4: the
//! other version of an autoscaler, the scale of a parent, warnings.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::Value;
use sternpost_registry::{
    kinds::{horizontal_pod_autoscaler::v1, scale, strategy},
    object::Fields,
    strategy::Strategy,
};

fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn strategy_of(object: &Value) -> &'static Strategy {
    let group = object.text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    strategy(group, object.text("kind"))
}

#[test]
fn autoscalers_read_in_the_other_version_as_recorded() {
    for case in cases(include_str!("workloads/horizontal_pod_autoscaler.jsonl")) {
        let mut found = match case.text("to") {
            "autoscaling/v1" => v1::to_v1(&case["object"]),
            _ => {
                let mut v2 = v1::to_v2(&case["object"]);
                (strategy_of(&v2).default)(&mut v2);
                v2
            }
        };
        let mut expected = case["expected"].clone();
        // What is written though it is empty is the encoder's business.
        for object in [&mut found, &mut expected] {
            let fields = object.as_object_mut().unwrap();
            if let Some(Value::Object(status)) = fields.get_mut("status") {
                status.retain(|_, value| !value.is_null() && *value != 0);
            }
            fields.retain(|name, value| {
                name != "status" || value.as_object().is_some_and(|status| !status.is_empty())
            });
        }
        assert_eq!(found, expected, "{}", case.text("name"));
    }
}

#[test]
fn what_v1_shows_of_an_autoscaler_can_be_written_back() {
    for case in cases(include_str!("workloads/horizontal_pod_autoscaler.jsonl")) {
        if case.text("to") == "autoscaling/v1" {
            let back = v1::to_v2(&case["expected"]);
            let (mut metrics, mut expected) =
                (back["spec"]["metrics"].clone(), case["object"]["spec"]["metrics"].clone());
            // The metric that v1 knows comes last.
            for list in [&mut metrics, &mut expected] {
                list.as_array_mut().unwrap().sort_by_key(Value::to_string);
            }
            assert_eq!(metrics, expected, "{}", case.text("name"));
            assert_eq!(back["spec"]["behavior"], case["object"]["spec"]["behavior"]);
        }
    }
}

/// The common corpus leaves metadata out; workloads also set labels and annotations.
#[test]
fn labels_and_annotations_are_prepared_as_recorded() {
    for case in cases(include_str!("kinds/workloads.jsonl")) {
        let Some(expected) = case.get_field("object") else { continue };
        let mut object = case["new"].clone();
        let strategy = strategy_of(&object);
        (strategy.default)(&mut object);
        match (case.get_field("old"), case.text("subresource")) {
            (None, _) => (strategy.prepare_create)(&mut object),
            (Some(old), "status") => (strategy.prepare_status_update)(&mut object, old),
            (Some(old), _) => (strategy.prepare_update)(&mut object, old),
        }
        for name in ["labels", "annotations"] {
            assert_eq!(
                object["metadata"].field(name),
                expected["metadata"].field(name),
                "{}",
                case.text("name")
            );
        }
    }
}

#[test]
fn scales_show_their_parents_as_recorded() {
    for case in cases(include_str!("workloads/scale.jsonl")) {
        assert_eq!(scale::scale_of(&case["parent"]), case["scale"], "{}", case.text("name"));
    }
}

#[test]
fn workloads_are_warned_about_as_recorded() {
    for case in cases(include_str!("workloads/warnings.jsonl")) {
        let mut object = case["new"].clone();
        let strategy = strategy_of(&object);
        (strategy.default)(&mut object);
        match case.get_field("old") {
            None => (strategy.prepare_create)(&mut object),
            Some(old) => (strategy.prepare_update)(&mut object, old),
        }
        let warnings: Value = (strategy.warnings)(&object, case.get_field("old")).into();
        assert_eq!(warnings, case["warnings"], "{}", case.text("name"));
    }
}
