//! Replays recorded answers through the crate.

use serde_json::{Value, json};
use sternpost_apply::{ResetFields, Writer, path, set::Set, typed};

use crate::kinds::{API_VERSION, EPOCH, OneVersion, kind, text};

fn set(fields: &Value) -> Set {
    Set::from_fields_v1(fields).unwrap()
}

/// Differences between a recorded answer and ours, as (what, expected, found).
pub type Differences = Vec<(String, Value, Value)>;

/// Upstream lists errors in random order and may stop at the first undeclared field.
fn same_errors(expected: &Value, ours: &Value) -> bool {
    let lines = |text: &Value| text.as_str().map(|text| text.replace("errors:", "").replace("):", "):\n"));
    lines(expected).zip(lines(ours)).is_some_and(|(expected, ours)| {
        let ours: Vec<_> = ours.lines().map(str::trim).collect();
        expected.lines().map(str::trim).all(|line| ours.contains(&line))
    })
}

/// One pair of objects: sets, comparison, merge, removal.
pub fn typed_case(request: &Value, answer: &Value) -> Differences {
    let kind = kind(&request["schema"]);
    let mut found = Differences::new();
    let mut check = |what: &str, ours: Value| {
        let expected = answer.get(what).cloned().unwrap_or(Value::Null);
        if expected != ours && !(what.ends_with("error") && same_errors(&expected, &ours)) {
            found.push((what.into(), expected, ours));
        }
    };
    let (a, b) = (&request["a"], &request["b"]);
    let misfit = |result: Result<(), typed::Misfit>| match result {
        Ok(()) => Value::Null,
        Err(misfit) => json!(misfit.to_string()),
    };
    let a_misfit = misfit(typed::validate(&kind, a, typed::Duplicates::Allowed));
    let b_misfit = misfit(typed::validate(&kind, b, typed::Duplicates::Allowed));
    let (a_fits, b_fits) = (a_misfit.is_null(), b_misfit.is_null());
    check("aerror", a_misfit);
    if !a_fits {
        return found;
    }
    check("berror", b_misfit);
    if !b_fits {
        return found;
    }
    let duplicates = misfit(typed::validate(&kind, b, typed::Duplicates::Forbidden));
    check("bduperror", duplicates.clone());
    check("aset", json!(text(&typed::field_set(&kind, a).unwrap())));
    check("bset", json!(text(&typed::field_set(&kind, b).unwrap())));
    let comparison = typed::compare(&kind, a, b).unwrap();
    check("added", json!(text(&comparison.added)));
    check("modified", json!(text(&comparison.modified)));
    check("removed", json!(text(&comparison.removed)));
    if duplicates.is_null() {
        check("merged", typed::merge(&kind, a.clone(), b).unwrap());
    }
    if let Some(fields) = request.get("fields") {
        let members = set(fields);
        let mut without = a.clone();
        typed::remove(&kind, &mut without, &members).unwrap();
        check("without", without);
        let mut reconciled = members.to_fields_v1();
        let changed = typed::reconcile(&kind, &mut reconciled);
        check("reconciled", if changed { json!(text(&set(&reconciled))) } else { Value::Null });
    }
    found
}

/// `FieldsV1` read and written again, or two sets put together.
pub fn fields_case(request: &Value, answer: &Value) -> Differences {
    let mut found = Differences::new();
    let mut check = |what: &str, ours: Value| {
        let expected = answer.get(what).cloned().unwrap_or(Value::Null);
        if expected != ours {
            found.push((what.into(), expected, ours));
        }
    };
    if request["op"] == "setops" {
        let (a, b) = (set(&request["a"]), set(&request["b"]));
        check("union", json!(text(&a.clone().union(b.clone()))));
        check("intersection", json!(text(&a.intersection(&b))));
        check("difference", json!(text(&a.clone().difference(&b))));
        check("recursive", json!(text(&a.recursive_difference(&b))));
        return found;
    }
    match Set::from_fields_v1(&request["fields"]) {
        Ok(set) => {
            check("fields", json!(text(&set)));
            check("leaves", json!(text(&set.leaves())));
            check("paths", set.paths().iter().map(|path| json!(path::text(path))).collect());
        }
        // The texts are the JSON library's.
        Err(_) if answer.get("error").is_some() => {}
        Err(error) => check("error", json!(error.to_string())),
    }
    found
}

/// Writes by several managers, one after another.
pub fn sequence_case(request: &Value, answer: &Value) -> Differences {
    let versions = OneVersion(kind(&request["schema"]));
    let reset = ResetFields::None;
    let mut live: Option<Value> = None;
    let mut found = Differences::new();
    let steps = request["steps"].as_array().unwrap().iter().zip(answer["steps"].as_array().unwrap());
    for (number, (step, expected)) in steps.enumerate() {
        let writer = Writer {
            manager: step["manager"].as_str().unwrap(),
            api_version: API_VERSION,
            subresource: "",
            now: EPOCH,
            reset: &reset,
        };
        // Upstream's fake takes an object without managers for a new one.
        if live.as_ref().is_some_and(|live| live["metadata"].get("managedFields").is_none()) {
            return found;
        }
        let mut object = step["object"].clone();
        let mut error = Value::Null;
        if step["op"] == "apply" {
            match sternpost_apply::apply(live.as_ref(), &object, &writer, step["force"] == true, &versions) {
                Ok(applied) => live = Some(applied.object),
                Err(refused) => error = json!(refused.message()),
            }
        } else {
            sternpost_apply::update(live.as_ref(), &mut object, &writer, &versions);
            live = Some(object);
        }
        let wanted = expected.get("error").cloned().unwrap_or(Value::Null);
        if wanted != error && !same_errors(&wanted, &error) {
            found.push((format!("error of step {number}"), wanted, error));
            return found;
        }
        let untouched = json!({"apiVersion": API_VERSION, "kind": "X"});
        let ours = live.clone().unwrap_or(untouched);
        if ours != expected["live"] {
            found.push((format!("object after step {number}"), expected["live"].clone(), ours));
            return found;
        }
    }
    found
}
