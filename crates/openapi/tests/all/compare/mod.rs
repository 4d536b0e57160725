//! Documents taken apart and compared, part by part; prose as hashes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sternpost_openapi::{
    names::Naming,
    publisher::{Coding, Format, Rendition, Snapshot},
};

pub type Parts = BTreeMap<String, String>;

/// The short spelling is the upstream one with other names, shared parameters
/// and facts stated on nine wrapper types; undone, the two are equal.
fn spelled_out(mut short: Value, upstream: &Value) -> Value {
    let components = short["components"].as_object_mut().unwrap();
    let parameters = components.remove("parameters").unwrap_or_default();
    if let Some(schemas) = components.get_mut("schemas") {
        undo_wrapper_facts(schemas.as_object_mut().unwrap());
    }
    let names: BTreeMap<String, String> = upstream["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(long, _)| (Naming::Short.apply(long).into_owned(), long.clone()))
        .collect();
    lengthen(&short, &parameters, &names)
}

fn undo_wrapper_facts(schemas: &mut Map<String, Value>) {
    for (name, schema) in schemas {
        let schema = schema.as_object_mut().unwrap();
        let facts: &[&str] = match name.as_str() {
            "api.resource.Quantity"
            | "meta.v1.Time"
            | "meta.v1.MicroTime"
            | "apiextensions.v1.JSON"
            | "apiextensions.v1.JSONSchemaPropsOrBool"
            | "apiextensions.v1.JSONSchemaPropsOrStringArray" => &["nullable"],
            "pkg.runtime.RawExtension" => &["nullable", "x-kubernetes-map-type"],
            "util.intstr.IntOrString" => &["x-kubernetes-int-or-string"],
            _ => continue,
        };
        for fact in facts {
            schema.remove(*fact).unwrap_or_else(|| panic!("{name} does not say {fact}"));
        }
        if let Some(any_of) = schema.remove("anyOf") {
            schema.insert("oneOf".into(), any_of);
        }
    }
}

fn lengthen(json: &Value, parameters: &Value, names: &BTreeMap<String, String>) -> Value {
    const SCHEMAS: &str = "#/components/schemas/";
    match json {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                if let Some(name) = reference.strip_prefix("#/components/parameters/") {
                    return parameters[name].clone();
                }
                let name = reference.strip_prefix(SCHEMAS).unwrap();
                return json!({"$ref": format!("{SCHEMAS}{}", names[name])});
            }
            let entry = |(key, value): (&String, &Value)| {
                (names.get(key).unwrap_or(key).clone(), lengthen(value, parameters, names))
            };
            Value::Object(map.iter().map(entry).collect())
        }
        Value::Array(items) => items.iter().map(|item| lengthen(item, parameters, names)).collect(),
        other => other.clone(),
    }
}

/// A document taken apart: a line for every operation, every path's
/// parameters, every definition, and what is left.
pub fn v3_parts(key: &str, document: &Value) -> Parts {
    let mut parts = Parts::new();
    let mut document = document.clone();
    let paths = document.as_object_mut().unwrap().remove("paths").unwrap();
    for (path, item) in paths.as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut operation = operation.clone();
            tidy(&mut operation);
            parts.insert(format!("{path} {method}"), operation.to_string());
        }
    }
    let components = document["components"].as_object_mut().unwrap();
    let schemas = components.remove("schemas").unwrap_or_default();
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        tidy_definition(name, &mut schema);
        // Two types name the document's own version and so differ by document.
        let own = name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent");
        let line = if own { format!("{key} {name}") } else { name.clone() };
        parts.insert(line, schema.to_string());
    }
    let names: Vec<&String> = schemas.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    parts.insert(format!("{key} definitions"), hash(&json!(names).to_string()));
    tidy(&mut document);
    parts.insert(format!("{key} rest"), document.to_string());
    parts
}

/// The v2 document taken apart; each part as a hash, for v3 shows the structure.
pub fn v2_parts(document: &Value) -> Parts {
    let mut parts = Parts::new();
    let parameters = document["parameters"].clone();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut operation = operation.clone();
            inline_parameters(&mut operation, &parameters);
            tidy(&mut operation);
            parts.insert(format!("{path} {method}"), hash(&operation.to_string()));
        }
    }
    for (name, schema) in document["definitions"].as_object().unwrap() {
        let mut schema = schema.clone();
        tidy_definition(name, &mut schema);
        parts.insert(name.clone(), hash(&schema.to_string()));
    }
    let mut inline = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        collect_inline(item, &mut inline, path);
    }
    parts.insert("inline parameters".into(), format!("{inline:?}"));
    for key in ["swagger", "info", "security", "securityDefinitions"] {
        let mut value = document[key].clone();
        tidy(&mut value);
        parts.insert(key.into(), value.to_string());
    }
    parts
}

fn inline_parameters(json: &mut Value, parameters: &Value) {
    let list = if json.is_array() { Some(json) } else { json.get_mut("parameters") };
    for parameter in list.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = parameter.get("$ref").and_then(Value::as_str) {
            let name = reference.strip_prefix("#/parameters/").unwrap();
            let shared = parameters[name].clone();
            assert!(shared.is_object(), "{name} is not there");
            *parameter = shared;
        }
    }
}

/// Which parameters stand in place rather than shared.
fn collect_inline(item: &Value, found: &mut BTreeSet<String>, path: &str) {
    for (key, value) in item.as_object().unwrap() {
        let list = if key == "parameters" { Some(value) } else { value.get("parameters") };
        for parameter in list.and_then(Value::as_array).into_iter().flatten() {
            if parameter.get("$ref").is_none() {
                found.insert(parameter["name"].as_str().unwrap_or(path).to_owned());
            }
        }
    }
}

/// Hashes prose, and drops it where a difference is declared.
fn tidy(json: &mut Value) {
    match json {
        Value::Object(map) => {
            let own_words = map.get("in").is_some_and(|place| place == "query")
                && map.get("name").is_some_and(|name| {
                    ![
                        "dryRun",
                        "gracePeriodSeconds",
                        "orphanDependents",
                        "propagationPolicy",
                        "ignoreStoreReadErrorWithClusterBreakingPotential",
                    ]
                    .contains(&name.as_str().unwrap_or_default())
                });
            if let Some(Value::String(text)) = map.get_mut("description") {
                assert!(!text.trim().is_empty(), "an empty description");
                *text = if own_words { "own words".into() } else { prose(text) };
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn tidy_definition(name: &str, schema: &mut Value) {
    let is_list = schema.pointer("/properties/items/items").is_some()
        && name.ends_with("List")
        && schema.pointer("/properties/metadata").is_some();
    if is_list {
        for place in ["", "/properties/items", "/properties/metadata"] {
            let node = schema.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
            node.remove("description");
        }
    }
    tidy(schema);
}

/// A description as a hash, but for what is structure in it: enum values.
fn prose(text: &str) -> String {
    let (text, values) = match text.split_once("Possible enum values:") {
        Some((text, values)) => (text, values),
        None => (text, ""),
    };
    let mut out = hash(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    for value in values.split("\n - `").skip(1) {
        write!(out, " {}", value.split('`').next().unwrap()).unwrap();
    }
    out
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

pub fn compare(ours: &Parts, theirs: &Parts, declared: &str) {
    let mut report = String::new();
    for name in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        let (our, their) = (ours.get(name), theirs.get(name));
        if our != their {
            writeln!(report, "{name}\n  ours:   {our:?}\n  theirs: {their:?}").unwrap();
        }
    }
    assert!(theirs.len() > 100, "nothing was recorded");
    assert!(report.is_empty(), "declared are only {declared}\n{report}");
}

pub fn json(rendition: &Rendition) -> Value {
    let form = rendition.form(Format::Json, Coding::Identity).unwrap();
    serde_json::from_slice(&form.bytes).unwrap()
}

/// What upstream says: as it is recorded, or as the documents say in the folder that an environment variable
/// names.
#[allow(clippy::disallowed_methods, reason = "tests take the place of an oracle from the environment")]
pub fn theirs(name: &str, variable: &str, read: impl FnOnce(&Path) -> Parts) -> Parts {
    let Some(folder) = std::env::var_os(variable) else { return recorded(name) };
    let parts = read(Path::new(&folder));
    record(name, &parts);
    parts
}

/// The documents of version 3 in such a folder, by their keys.
pub fn v3_documents(folder: &Path) -> Vec<(String, Value)> {
    let entries = fs::read_dir(folder.join("v3")).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let key = path.file_stem().unwrap().to_str().unwrap().replace("__", "/");
            (key, read_json(&path))
        })
        .collect()
}

/// A document in the short spelling says what the one in upstream's says.
pub fn compare_spellings(snapshot: &Snapshot, key: &str) {
    let short = json(snapshot.document(key, Naming::Short).unwrap());
    let upstream = json(snapshot.document(key, Naming::Upstream).unwrap());
    assert_eq!(spelled_out(short, &upstream), upstream, "{key}");
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn recorded_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn recorded(name: &str) -> Parts {
    let text = fs::read_to_string(recorded_path(name)).unwrap();
    text.lines().map(|line| line.split_once('\t').unwrap()).map(|(a, b)| (a.into(), b.into())).collect()
}

#[allow(clippy::disallowed_methods, reason = "recording is asked for through the environment")]
fn record(name: &str, parts: &Parts) {
    if std::env::var_os("STERNPOST_RECORD").is_some() {
        let lines: String = parts.iter().map(|(name, json)| format!("{name}\t{json}\n")).collect();
        fs::write(recorded_path(name), lines).unwrap();
    }
}
