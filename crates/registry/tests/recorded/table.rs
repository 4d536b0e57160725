//! Tables against those of kube-apiserver 1.36.4.
//!
//! `tables/columns.jsonl` holds the columns of every served kind, without their
//! descriptions; `tables/lists.jsonl` whole tables; every other file objects with
//! the cells that their row had at the second `now`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use sternpost_golang::time::Timestamp;
use sternpost_registry::{
    kinds::strategy,
    table::{self, Definitions, IncludeObject, ListMeta},
};
use sternpost_testkit::recorded::Suite;

use crate::{lines, named, same};

fn read(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(file);
    lines(&std::fs::read_to_string(path).unwrap()).collect()
}

fn group_and_kind(object: &Value) -> (&str, &str) {
    let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
    (group, object["kind"].as_str().unwrap())
}

fn now(case: &Value) -> Timestamp {
    Timestamp::from_unix(case["now"].as_i64().unwrap(), 0)
}

const FILES: [&str; 15] = [
    "admission",
    "batch",
    "certificates",
    "core",
    "events",
    "hpa",
    "misc",
    "networking",
    "nodes",
    "pods",
    "policy",
    "services",
    "storage",
    "volumes",
    "workloads",
];

pub fn add(suite: &mut Suite) {
    suite.group("columns", 62, read("columns.jsonl").into_iter().map(|case| named(case, "kind", columns)));
    let cases: Vec<(&str, Value)> = FILES
        .iter()
        .flat_map(|file| read(&format!("{file}.jsonl")).into_iter().map(|case| (*file, case)))
        .collect();
    let kinds: BTreeSet<String> =
        cases.iter().map(|(_, case)| format!("{:?}", group_and_kind(&case["object"]))).collect();
    suite.test("cells are of 61 kinds", move || assert_eq!(kinds.len(), 61));
    let cells = cases.into_iter().map(|(file, case)| {
        let (name, check) = named(case, "case", cells);
        (format!("{file}/{name}"), check)
    });
    suite.group("cells", 382, cells);
    suite.group("lists", 6, read("lists.jsonl").into_iter().map(|case| named(case, "kind", whole_table)));
    let bookmarks = read("bookmarks.jsonl")
        .into_iter()
        .map(|case| (case["object"]["kind"].as_str().unwrap().to_owned(), move || bookmark(&case)));
    suite.group("bookmarks", 60, bookmarks);
    for (name, test) in [
        (
            "kinds_without_columns_show_their_name_and_when_they_were_made",
            kinds_without_columns_show_their_name_and_when_they_were_made as fn(),
        ),
        ("answers_of_create_only_resources_are_no_tables", answers_of_create_only_resources_are_no_tables),
        ("include_object_takes_four_values", include_object_takes_four_values),
        ("partial_objects_keep_their_metadata_only", partial_objects_keep_their_metadata_only),
        ("objects_of_the_wrong_shape_still_make_a_row", objects_of_the_wrong_shape_still_make_a_row),
    ] {
        suite.test(name, test);
    }
}

/// A served kind has upstream's columns.
fn columns(kind: &Value) -> Result<(), String> {
    let columns = strategy(kind["group"].as_str().unwrap(), kind["kind"].as_str().unwrap()).columns;
    let columns: Vec<Value> = columns
        .iter()
        .map(|column| {
            let mut definition = column.definition();
            let description = definition.as_object_mut().unwrap().remove("description").unwrap();
            assert!(description.as_str().unwrap().len() > 3, "{}", column.name);
            definition
        })
        .collect();
    same(&Value::Array(columns), &kind["columns"])
}

/// Cells are those that upstream shows.
fn cells(case: &Value) -> Result<(), String> {
    let object = &case["object"];
    let (group, kind) = group_and_kind(object);
    let cells = table::cells(strategy(group, kind), object, now(case));
    let row = table::row(strategy(group, kind), object, cells, IncludeObject::None);
    same(
        &json!({"cells": row["cells"], "conditions": row["conditions"]}),
        &json!({"cells": case["cells"], "conditions": case["conditions"]}),
    )
}

/// A whole table is the one that upstream sends.
fn whole_table(case: &Value) -> Result<(), String> {
    let (group, kind) = (case["group"].as_str().unwrap(), case["kind"].as_str().unwrap());
    let expected = &case["table"];
    let list_meta = ListMeta {
        resource_version: "x",
        continue_token: expected["metadata"]["continue"].as_str().unwrap_or_default(),
        remaining_item_count: expected["metadata"]["remainingItemCount"].as_i64(),
    };
    let include = IncludeObject::parse(case["include"].as_str().unwrap()).unwrap();
    let items = case["items"].as_array().unwrap();
    for definitions in [Definitions::Send, Definitions::Omit] {
        let mut table =
            table::table(strategy(group, kind), items, &list_meta, include, definitions, now(case));
        let sent = table["columnDefinitions"].take();
        match definitions {
            Definitions::Send => {
                assert_eq!(expected["columnDefinitions"], sent.as_array().unwrap().len());
            }
            Definitions::Omit => assert_eq!(sent, Value::Null),
        }
        table["columnDefinitions"] = expected["columnDefinitions"].clone();
        same(&table, expected)?;
    }
    Ok(())
}

/// Bookmarks have a row too, of an object with no more than a resource version.
fn bookmark(case: &Value) -> Result<(), String> {
    let (group, kind) = group_and_kind(&case["object"]);
    for object in [&case["object"], &json!({"metadata": {}}), &json!({}), &json!(null)] {
        let cells = table::cells(strategy(group, kind), object, now(case));
        same(&Value::Array(cells), &case["cells"])?;
    }
    Ok(())
}

fn kinds_without_columns_show_their_name_and_when_they_were_made() {
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"}});
    let cells = table::cells(strategy("example.com", "Thing"), &object, Timestamp::from_unix(0, 0));
    assert_eq!(cells, [json!("a"), json!("2026-01-02T03:04:05Z")]);
    let columns = strategy("example.com", "Thing").columns;
    assert_eq!(columns.iter().map(|column| column.name).collect::<Vec<_>>(), ["Name", "Created At"]);
}

fn answers_of_create_only_resources_are_no_tables() {
    for (group, kind, tabular) in [
        ("", "Pod", true),
        ("", "Binding", false),
        ("policy", "Eviction", false),
        ("policy", "PodDisruptionBudget", true),
        ("authentication.k8s.io", "TokenRequest", false),
        ("authentication.k8s.io", "TokenReview", false),
        ("authorization.k8s.io", "SelfSubjectAccessReview", false),
        ("autoscaling", "Scale", true),
        ("rbac.authorization.k8s.io", "Role", true),
    ] {
        assert_eq!(strategy(group, kind).tabular, tabular, "{group} {kind}");
    }
}

fn include_object_takes_four_values() {
    for (text, parsed) in [
        ("", IncludeObject::Metadata),
        ("Metadata", IncludeObject::Metadata),
        ("None", IncludeObject::None),
        ("Object", IncludeObject::Object),
    ] {
        assert_eq!(IncludeObject::parse(text), Ok(parsed));
    }
    assert_eq!(
        IncludeObject::parse("Bad").unwrap_err(),
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', 'None', or empty"
    );
    assert!(IncludeObject::parse("none").is_err());
}

fn partial_objects_keep_their_metadata_only() {
    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}});
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
    assert_eq!(table::partial_object_metadata(&object), partial);
    let list_meta = ListMeta { resource_version: "7", continue_token: "t", remaining_item_count: Some(0) };
    assert_eq!(
        table::partial_object_metadata_list([&object], &list_meta),
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7", "continue": "t", "remainingItemCount": 0},
            "items": [partial],
        })
    );
}

/// Whatever is stored, `get` answers: every field of every recorded object is
/// replaced in turn by values of other types.
fn objects_of_the_wrong_shape_still_make_a_row() {
    let nonsense = [json!(null), json!(-1), json!("x"), json!([{}, "y", 3]), json!({"a": 1}), json!(1e300)];
    for file in
        ["hpa", "pods", "services", "nodes", "volumes", "networking", "misc", "batch", "core", "events"]
    {
        for case in read(&format!("{file}.jsonl")).iter().step_by(3) {
            let (group, kind) = group_and_kind(&case["object"]);
            let columns = strategy(group, kind).columns.len();
            let mut paths = Vec::new();
            pointers(&case["object"], String::new(), &mut paths);
            for path in paths {
                for value in &nonsense {
                    let mut object = case["object"].clone();
                    *object.pointer_mut(&path).unwrap() = value.clone();
                    assert!(table::cells(strategy(group, kind), &object, now(case)).len() >= columns);
                }
            }
        }
    }
}

fn pointers(value: &Value, path: String, paths: &mut Vec<String>) {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, format!("{path}/{index}"), paths);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                pointers(field, format!("{path}/{}", escape(key)), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}
