//! What workloads answer besides themselves, against kube-apiserver 1.36.4: the
//! other version of an autoscaler, the scale of a parent, warnings.
use serde_json::Value;
use sternpost_registry::{
    kinds::{horizontal_pod_autoscaler::v1, scale, strategy},
    object::Fields,
    strategy::Strategy,
};
use sternpost_testkit::recorded::Suite;

use crate::{lines, named, same};

pub fn add(suite: &mut Suite) {
    let autoscalers = || lines(include_str!("../workloads/horizontal_pod_autoscaler.jsonl"));
    let group = autoscalers().map(|case| named(case, "name", in_the_other_version));
    suite.group("autoscalers in the other version", 1, group);
    let to_v1 = autoscalers().filter(|case| case.text("to") == "autoscaling/v1");
    suite.group("autoscalers written back", 1, to_v1.map(|case| named(case, "name", written_back)));
    let workloads = lines(include_str!("../kinds/workloads.jsonl")).filter(|case| case.has("object"));
    suite.group("labels of workloads", 1, workloads.map(|case| named(case, "name", labels_and_annotations)));
    let scales = lines(include_str!("../workloads/scale.jsonl"));
    suite.group("scales", 1, scales.map(|case| named(case, "name", scale)));
    let warnings = lines(include_str!("../workloads/warnings.jsonl"));
    suite.group("warnings of workloads", 1, warnings.map(|case| named(case, "name", warnings_of)));
}

fn strategy_of(object: &Value) -> &'static Strategy {
    let group = object.text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    strategy(group, object.text("kind"))
}

fn in_the_other_version(case: &Value) -> Result<(), String> {
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
    same(&found, &expected)
}

/// What v1 shows of an autoscaler can be written back.
fn written_back(case: &Value) -> Result<(), String> {
    let back = v1::to_v2(&case["expected"]);
    let (mut metrics, mut expected) =
        (back["spec"]["metrics"].clone(), case["object"]["spec"]["metrics"].clone());
    // The metric that v1 knows comes last.
    for list in [&mut metrics, &mut expected] {
        list.as_array_mut().unwrap().sort_by_key(Value::to_string);
    }
    same(&metrics, &expected)?;
    same(&back["spec"]["behavior"], &case["object"]["spec"]["behavior"])
}

/// The kinds' own cases leave metadata out; workloads also set labels and annotations.
fn labels_and_annotations(case: &Value) -> Result<(), String> {
    let mut object = case["new"].clone();
    let strategy = strategy_of(&object);
    (strategy.default)(&mut object);
    match (case.get_field("old"), case.text("subresource")) {
        (None, _) => (strategy.prepare_create)(&mut object),
        (Some(old), "status") => (strategy.prepare_status_update)(&mut object, old),
        (Some(old), _) => (strategy.prepare_update)(&mut object, old),
    }
    let expected = &case["object"]["metadata"];
    same(object["metadata"].field("labels"), expected.field("labels"))?;
    same(object["metadata"].field("annotations"), expected.field("annotations"))
}

fn scale(case: &Value) -> Result<(), String> {
    same(&scale::scale_of(&case["parent"]), &case["scale"])
}

fn warnings_of(case: &Value) -> Result<(), String> {
    let mut object = case["new"].clone();
    let strategy = strategy_of(&object);
    (strategy.default)(&mut object);
    match case.get_field("old") {
        None => (strategy.prepare_create)(&mut object),
        Some(old) => (strategy.prepare_update)(&mut object, old),
    }
    same(&(strategy.warnings)(&object, case.get_field("old")).into(), &case["warnings"])
}
