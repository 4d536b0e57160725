//! What kube-apiserver 1.36.4 answered (`recorded/*.jsonl`, made by `recorded/record.py`), asked again here.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rules;

use std::{
    collections::BTreeMap,
    fs,
    process::ExitCode,
    sync::{Arc, LazyLock},
};

use serde_json::{Value, json};
use sternpost_crd::{definition::Definition, names, object, prepare, table, validate};
use sternpost_golang::time::Timestamp;
use sternpost_meta::field::Errors;
use sternpost_testkit::recorded::Suite;

/// Every case is a test by its name.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    add(&mut suite, "definitions", 700, definition_case);
    add(&mut suite, "objects", 540, |case, differences| {
        static DEFINITIONS: LazyLock<BTreeMap<String, Definition>> = LazyLock::new(definitions);
        let definition = &DEFINITIONS[case["definition"].as_str().unwrap()];
        match case["op"].as_str().unwrap() {
            "read" => read_case(case, definition, differences),
            "table" => table_case(case, definition, differences),
            "select" => select_case(case, definition, differences),
            _ => write_case(case, definition, differences),
        }
    });
    add(&mut suite, "names", 12, names_case);
    rules::add(&mut suite);
    suite.run()
}

fn add(
    suite: &mut Suite,
    file: &str,
    at_least: usize,
    compare: impl Fn(&Value, &mut Differences) + Send + Sync + 'static,
) {
    let compare = Arc::new(compare);
    let cases = cases(&format!("{file}.jsonl")).into_iter().filter(|case| is_ours(file, case)).map(|case| {
        let (shown, compare) = (name(&case).to_owned(), compare.clone());
        let check = move || {
            let mut differences = Differences::default();
            compare(&case, &mut differences);
            differences.finish()
        };
        (shown, check)
    });
    suite.group(file, at_least, cases);
}

/// Some cases are answered before this crate is asked.
fn is_ours(file: &str, case: &Value) -> bool {
    // Bodies that are no JSON objects of a kind and version.
    const EARLIER: &[&str] = &[
        "wrong version",
        "no kind",
        "no apiVersion",
        "kind number",
        "not json",
        "a list",
        "a text",
        "big numbers",
    ];
    match (file, case["op"].as_str().unwrap_or_default()) {
        ("definitions", _) => name(case) != "no name",
        ("objects", "read" | "table") => true,
        // Any object has metadata.
        ("objects", "select") => !case["selector"].as_str().unwrap().starts_with("metadata."),
        ("objects", _) => !EARLIER.contains(&name(case)),
        _ => true,
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(format!("{}/tests/recorded/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn cases(file: &str) -> Vec<Value> {
    read(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

/// Causes as texts; what is wrong with any object's metadata is not this crate's.
fn recorded_causes(case: &Value) -> Vec<String> {
    let ours = |cause: &&Value| {
        let field = cause["field"].as_str().unwrap();
        let own = ["metadata.name", "metadata.labels", "metadata.generateName"].contains(&field);
        let message = cause["message"].as_str().unwrap();
        !own || message.contains("spec.names.plural") || message.starts_with("Too long")
    };
    let causes = case["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    causes
        .iter()
        .filter(ours)
        .map(|cause| format!("{} {}: {}", cause["reason"], cause["field"], cause["message"]))
        .collect()
}

fn found_causes(errors: &Errors) -> Vec<String> {
    errors
        .causes()
        .iter()
        .map(|cause| json!(cause))
        .map(|cause| format!("{} {}: {}", cause["reason"], cause["field"], cause["message"]))
        .collect()
}

fn recorded_warnings(case: &Value) -> Vec<String> {
    let warnings = case["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// What of a case is not as it was recorded.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: &T, recorded: &T) {
        if ours != recorded {
            self.0.push(format!("{what}\n   ours     {ours:?}\n   recorded {recorded:?}"));
        }
    }

    fn finish(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0.join("\n")) }
    }
}

fn definition_case(case: &Value, differences: &mut Differences) {
    let name = name(case);
    let mut crd = case["input"].clone();
    let code = case["code"].as_u64().unwrap();
    let complaints = match prepare::read_schemas(&mut crd) {
        Ok(complaints) => complaints,
        Err(error) => {
            let text = format!(
                "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: {error}"
            );
            differences.compare(
                name,
                &(400, text),
                &(code, case["message"].as_str().unwrap_or_default().into()),
            );
            return;
        }
    };
    if case["fieldValidation"] == "Strict" && !complaints.is_empty() {
        // The order of complaints is that of the body there, and of the alphabet here.
        let message = case["message"].as_str().unwrap();
        differences.compare(name, &complaints.iter().all(|text| message.contains(text)), &true);
        return;
    }
    prepare::default(&mut crd);
    let errors = match case["op"].as_str().unwrap() {
        "create" => {
            prepare::create(&mut crd);
            validate::create(&crd)
        }
        "update" => {
            prepare::update(&mut crd, &case["old"]);
            validate::update(&crd, &case["old"], check_bundle)
        }
        _ => {
            prepare::update_status(&mut crd, &case["old"]);
            validate::update_status(&crd)
        }
    };
    let (ours, recorded) = (found_causes(&errors), recorded_causes(case));
    // Upstream walks properties in no order.
    if name == "kind default" || name.starts_with("random") {
        differences.compare(name, &sorted(ours), &sorted(recorded));
    } else {
        differences.compare(name, &ours, &recorded);
    }
    if code >= 300 {
        return;
    }
    let mut warnings = complaints;
    warnings.extend(validate::warnings(&crd));
    differences.compare(name, &sorted(warnings), &sorted(recorded_warnings(case)));
    let result = &case["result"];
    for part in ["/spec/versions", "/spec/names", "/spec/conversion", "/status/storedVersions"] {
        differences.compare(
            &format!("{name} {part}"),
            &plain(crd.pointer(part)),
            &plain(result.pointer(part)),
        );
    }
    Definition::read(&crd).unwrap();
}

/// Without what typing leaves out: the bodies here were not typed.
fn plain(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Object(fields)) => fields
            .iter()
            .map(|(key, value)| (key.clone(), plain(Some(value))))
            .filter(|(key, value)| {
                let empty = match value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Object(fields) => fields.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    _ => false,
                };
                !(empty && ["format", "labelSelectorPath", "service", "clientConfig"].contains(&key.as_str()))
            })
            .collect(),
        Some(Value::Array(items)) => items.iter().map(|item| plain(Some(item))).collect(),
        Some(other) => other.clone(),
        None => Value::Null,
    }
}

fn definitions() -> BTreeMap<String, Definition> {
    let all: BTreeMap<String, Value> = serde_json::from_str(&read("object_definitions.json")).unwrap();
    all.into_iter()
        .map(|(name, mut crd)| {
            prepare::read_schemas(&mut crd).unwrap();
            prepare::default(&mut crd);
            prepare::create(&mut crd);
            let errors = validate::create(&crd);
            assert!(errors.is_empty(), "{name}: {errors:?}");
            (name, Definition::read(&crd).unwrap())
        })
        .collect()
}

fn write_case(case: &Value, definition: &Definition, differences: &mut Differences) {
    let name = name(case);
    let code = case["code"].as_u64().unwrap();
    let version = definition.version(case["version"].as_str().unwrap()).unwrap();
    let kind = &definition.names.kind;
    let handled = format!("{kind} in version \"{}\" cannot be handled as a {kind}: ", version.name);
    let json = object::read_json(case["body"].as_str().unwrap().as_bytes()).unwrap();
    let decoded = match object::decode(definition, version, json) {
        Ok(decoded) => decoded,
        Err(error) => {
            differences.compare(
                name,
                &(400, format!("{handled}{error}")),
                &(code, case["message"].as_str().unwrap_or_default().into()),
            );
            return;
        }
    };
    let mut complaints = decoded.complaints;
    match case["fieldValidation"].as_str().unwrap_or("Warn") {
        "Strict" if !complaints.is_empty() => {
            let text = format!("{handled}strict decoding error: {}", complaints.join(", "));
            differences.compare(name, &text.as_str(), &case["message"].as_str().unwrap_or_default());
            return;
        }
        "Ignore" => complaints.clear(),
        _ => {}
    }
    let mut object = decoded.object;
    let old = case.get("old");
    if let (Some(old), true) = (old, version.status) {
        // Each endpoint writes its part.
        let (kept, taken) = if case["op"] == "status" { (old, &object) } else { (&object, old) };
        let mut merged = kept.clone();
        merged.as_object_mut().unwrap().remove("status");
        if let Some(status) = taken.get("status") {
            merged["status"] = status.clone();
        }
        object = merged;
    } else if version.status {
        object.as_object_mut().unwrap().remove("status");
    }
    let outcome = object::validate(definition, version, &object, old);
    // Upstream walks properties in no order; within one field the order counts.
    let by_field = |mut causes: Vec<String>| {
        causes.sort_by_key(|cause| match cause.split_once(": ") {
            Some((_, text)) if cause.contains("\"<nil>\"") => text.to_owned(),
            Some((field, _)) => field.split(' ').next_back().unwrap_or_default().to_owned(),
            None => String::new(),
        });
        causes
    };
    let (ours, recorded) = (found_causes(&outcome.errors), recorded_causes(case));
    let properties_mixed = ["several errors", "update ", "wrong type", "rnd", "emb #3"]
        .iter()
        .any(|start| name.starts_with(start));
    if properties_mixed {
        differences.compare(name, &by_field(ours), &by_field(recorded));
    } else {
        differences.compare(name, &ours, &recorded);
    }
    let mut warnings: Vec<String> = definition.deprecation_warning(version).into_iter().collect();
    warnings.extend(complaints);
    if code < 300 {
        warnings.extend(object::finalizer_warnings(&object));
    }
    differences.compare(&format!("{name} warnings"), &warnings, &recorded_warnings(case));
    if code < 300 {
        object::through_storage(definition, version, &mut object);
        object::settle(&mut object);
        differences.compare(
            &format!("{name} result"),
            &without_metadata(&object),
            &without_metadata(&case["result"]),
        );
        differences.compare(
            &format!("{name} labels"),
            &object["metadata"].get("labels"),
            &case["result"]["metadata"].get("labels"),
        );
    }
}

fn without_metadata(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("metadata");
    object
}

fn read_case(case: &Value, definition: &Definition, differences: &mut Differences) {
    let version = definition.version(case["version"].as_str().unwrap()).unwrap();
    let mut object = case["old"].clone();
    object::convert(definition, version, &mut object);
    differences.compare(name(case), &object, &case["result"]);
}

fn table_case(case: &Value, definition: &Definition, differences: &mut Differences) {
    let version = definition.version("v1").unwrap();
    let at = case["now"].as_i64().unwrap();
    let (days, seconds) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let now = Timestamp::parse_time(&format!(
        "{}T{:02}:{:02}:{:02}Z",
        civil(days),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    ))
    .unwrap();
    let headings: Vec<Value> = table::headings(version)
        .into_iter()
        .map(|heading| json!({"name": heading.name, "type": heading.kind, "format": heading.format, "priority": heading.priority}))
        .collect();
    differences.compare(&format!("{} columns", name(case)), &json!(headings), &case["result"]["columns"]);
    let cells = table::cells(version, &case["old"], now);
    differences.compare(name(case), &json!(cells), &case["result"]["cells"]);
}

/// Days since 1970 as a date.
fn civil(days: i64) -> String {
    let mut year = 1970;
    let mut left = days;
    let length = |year: i64| if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

fn select_case(case: &Value, definition: &Definition, differences: &mut Differences) {
    let version = definition.version("v1").unwrap();
    let objects = [
        json!({"spec": {"s": "a", "i": 1, "b": true}}),
        json!({"spec": {"s": "b", "i": 10}}),
        json!({"spec": {}}),
    ];
    let selector = case["selector"].as_str().unwrap();
    let (field, value) = selector.split_once(['!', '=']).unwrap();
    let (value, wanted) = (value.trim_start_matches('='), !selector.contains('!'));
    let known = version.selectable_value(&objects[0], field).is_some();
    differences.compare(selector, &known, &(case["code"] == 200));
    if known {
        let found: Vec<String> = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| (version.selectable_value(object, field).unwrap() == value) == wanted)
            .map(|(index, _)| format!("x{index}"))
            .collect();
        differences.compare(selector, &json!(found), &case["result"]);
    }
}

fn names_case(case: &Value, differences: &mut Differences) {
    let mut crd = case["input"].clone();
    let others = case["others"].as_array().unwrap();
    // Until nothing changes; what was accepted counts in the next round.
    for _ in 0..4 {
        let before = crd.clone();
        names::decide(
            &names::Outline::of(&before),
            &names::Taken::of(others.iter().chain([&before])),
            check_bundle,
        )
        .apply(&mut crd, "now");
    }
    let status = &mut crd["status"];
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    differences.compare("acceptedNames", &status["acceptedNames"], &case["result"]["acceptedNames"]);
    differences.compare("conditions", &status["conditions"], &case["result"]["conditions"]);
}

/// As far as the recorded definitions need it: their bundles are certificates or no PEM at all.
fn check_bundle(bundle: &str) -> Result<(), String> {
    // `-----BEGIN CERTIFICATE-----` in base64.
    if bundle.starts_with("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t") {
        Ok(())
    } else {
        Err("unable to load root certificates: unable to parse bytes as PEM block".into())
    }
}
