//! Rules: what kube-apiserver 1.36.4 answered (`recorded/rule_*.jsonl`, made by `recorded/record.py`), asked
//! again here.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};
use sternpost_crd::{definition::Definition, object, prepare, validate};
use sternpost_meta::field::Errors;
use sternpost_testkit::recorded::Suite;

use crate::{cases, read};

pub fn add(suite: &mut Suite) {
    for (group, at_least, answer) in [
        ("rule_definitions", 700, definition_answer as fn(&Value) -> Vec<String>),
        ("rule_objects", 750, object_answer),
    ] {
        let file = format!("{group}.jsonl");
        let pinned = pinned(&file);
        let cases = cases(&file).into_iter().map(|case| {
            let name = case["name"].as_str().unwrap().to_owned();
            let differs = pinned.contains_key(&name);
            (name, move || compare(&case, differs, answer))
        });
        suite.group(group, at_least, cases);
    }
    suite.test("what_has_answers_is_as_large_as_a_truth", what_has_answers_is_as_large_as_a_truth);
}

/// Causes as texts, grouped by the place they stand at: upstream walks the fields of an object in no
/// order, but what stands at one place has one.
fn grouped(mut causes: Vec<(String, String)>) -> Vec<String> {
    causes.sort_by(|one, other| one.0.cmp(&other.0));
    causes.into_iter().map(|(_, text)| text).collect()
}

fn place(field: &str) -> String {
    field.split(".x-kubernetes-validations").next().unwrap_or_default().to_owned()
}

fn recorded(case: &Value) -> Vec<String> {
    let causes = case["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    grouped(causes.iter().map(told).collect())
}

fn found(errors: &Errors) -> Vec<String> {
    grouped(errors.causes().iter().map(|cause| told(&json!(cause))).collect())
}

fn told(cause: &Value) -> (String, String) {
    let field = cause["field"].as_str().unwrap();
    (
        place(field),
        format!("{} {field}: {}", cause["reason"].as_str().unwrap(), cause["message"].as_str().unwrap()),
    )
}

fn sorted_warnings(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_by_key(|text| text.split(": ").next().unwrap_or_default().to_owned());
    texts.into_iter().map(|text| format!("warning {text}")).collect()
}

/// Those that differ, each with the reason.
fn pinned(file: &str) -> BTreeMap<String, String> {
    let all: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_str(&read("rule_differences.json")).unwrap();
    all.get(file).cloned().unwrap_or_default()
}

/// A difference must be pinned, and what is pinned must differ.
fn compare(case: &Value, differs: bool, answer: fn(&Value) -> Vec<String>) -> Result<(), String> {
    let mut expected = recorded(case);
    let warnings = case["warnings"].as_array().into_iter().flatten();
    expected.extend(sorted_warnings(warnings.map(|text| text.as_str().unwrap().to_owned()).collect()));
    let ours = answer(case);
    if (ours == expected) == differs {
        return Err(format!("pinned: {differs}\n   ours     {ours:#?}\n   recorded {expected:#?}"));
    }
    Ok(())
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// The case's own definition, or the common one with the case's changes.
fn definition_of(case: &Value) -> Value {
    if let Some(input) = case.get("input") {
        return input.clone();
    }
    let mut spec: Value = serde_json::from_str(&read("rule_schema.json")).unwrap();
    merge(&mut spec, &case["patch"]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tries.ru.sternpost.example"},
        "spec": {
            "group": "ru.sternpost.example",
            "scope": "Namespaced",
            "names": {"plural": "tries", "kind": "Try"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

fn definition_answer(case: &Value) -> Vec<String> {
    let mut crd = definition_of(case);
    prepare::read_schemas(&mut crd).unwrap();
    prepare::default(&mut crd);
    let errors = if case["op"] == "create" {
        prepare::create(&mut crd);
        validate::create(&crd)
    } else {
        prepare::update(&mut crd, &case["old"]);
        validate::update(&crd, &case["old"], |_| Ok(()))
    };
    found(&errors)
}

/// What cases of objects refer to.
struct Objects {
    definitions: BTreeMap<String, Definition>,
    olds: Value,
}

static OBJECTS: LazyLock<Objects> = LazyLock::new(|| {
    let mut all: Value = serde_json::from_str(&read("rule_object_definitions.json")).unwrap();
    let definitions = all["definitions"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, crd)| {
            let mut crd = crd.clone();
            prepare::read_schemas(&mut crd).unwrap();
            prepare::default(&mut crd);
            prepare::create(&mut crd);
            let errors = validate::create(&crd);
            assert!(errors.is_empty(), "{name}: {errors:?}");
            (name.clone(), Definition::read(&crd).unwrap())
        })
        .collect();
    Objects { definitions, olds: all["olds"].take() }
});

fn object_answer(case: &Value) -> Vec<String> {
    let definition = &OBJECTS.definitions[case["definition"].as_str().unwrap()];
    let version = definition.version("v1").unwrap();
    let mut old = case.get("old").map(|name| OBJECTS.olds[name.as_str().unwrap()].clone());
    let mut body = case.get("body").or(old.as_ref()).unwrap().clone();
    if let Some(patch) = case.get("patch") {
        merge(&mut body, patch);
    }
    let json = object::read_json(body.to_string().as_bytes()).unwrap();
    let mut body = object::decode(definition, version, json).unwrap().object;
    if let Some(old) = &mut old {
        object::complete(version, old).unwrap();
    }
    if version.status {
        // Each endpoint writes its part.
        let is_status = case["op"] == "status";
        let status = if is_status {
            body.get("status").cloned()
        } else {
            old.as_ref().and_then(|old| old.get("status").cloned())
        };
        if is_status {
            body = old.clone().unwrap();
        }
        body.as_object_mut().unwrap().remove("status");
        if let Some(status) = status {
            body["status"] = status;
        }
    }
    let outcome = object::validate(definition, version, &body, old.as_ref());
    let mut answer = found(&outcome.errors);
    answer.extend(sorted_warnings(outcome.warnings));
    answer
}

/// The largest lists for which kube-apiserver takes each rule.
fn what_has_answers_is_as_large_as_a_truth() {
    for (rule, most) in [
        ("self.all(x, has(x.s) == has(x.t))", 1_666_666),
        ("self.all(x, has(x.s) && has(x.t))", 1_999_999),
        ("self.all(x, has(x.s))", 2_499_999),
    ] {
        for (items, fits) in [(most, true), (most + 1, false)] {
            let texts = json!({"s": {"type": "string"}, "t": {"type": "string"}});
            let list = json!({
                "type": "array", "maxItems": items, "items": {"type": "object", "properties": texts},
                "x-kubernetes-validations": [{"rule": rule}],
            });
            let schema = json!({"type": "object", "properties": {"l": list}});
            let crd = json!({
                "metadata": {"name": "costs.example.dev"},
                "spec": {
                    "group": "example.dev", "scope": "Cluster", "conversion": {"strategy": "None"},
                    "names": {"plural": "costs", "singular": "cost", "kind": "Cost", "listKind": "CostList"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
                },
                "status": {"storedVersions": ["v1"]},
            });
            let errors = validate::create(&crd);
            assert_eq!(errors.is_empty(), fits, "{rule} {items}: {errors:?}");
        }
    }
}
