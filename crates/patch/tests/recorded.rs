//! What kube-apiserver, kubectl and their library answered, replayed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{fs, path::Path, process::ExitCode, sync::LazyLock};

use serde_json::{Map, Value, json};
use sternpost_patch::{
    merge_patch,
    strategic::{self, Class, Overwrite, ThreeWayError},
};
use sternpost_schema::topology::Topologies;
use sternpost_testkit::recorded::Suite;

static TOPOLOGIES: LazyLock<Topologies> =
    LazyLock::new(|| Topologies::new(|name| sternpost_builtin::definition(name).cloned()));

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn map(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

/// Reading an object into its type and writing it leaves out what is empty or
/// unknown, and counts changes: that is not merging.
fn settled(mut object: Value) -> Value {
    fn without_empty(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(without_empty);
                map.retain(|key, value| {
                    let empty = match value {
                        Value::Null => true,
                        Value::Object(map) => map.is_empty(),
                        Value::Array(list) => list.is_empty(),
                        _ => false,
                    };
                    !empty && key != "unknown" && !key.starts_with('$')
                });
            }
            Value::Array(list) => list.iter_mut().for_each(without_empty),
            _ => {}
        }
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("generation");
        metadata.remove("resourceVersion");
    }
    without_empty(&mut object);
    object
}

/// What the server answered: pointers and values.
fn change(object: &mut Value, changes: &Map<String, Value>) {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Null => parent.remove(&key),
            value => parent.insert(key, value.clone()),
        };
    }
}

/// Every line is a test, by its number.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    let numbered = |lines: Vec<Value>| (1..).map(|number: usize| number.to_string()).zip(lines);
    let mut before = (String::new(), Value::Null);
    let patches = numbered(lines("server.jsonl")).filter_map(|(number, line)| {
        if let Some(object) = line.get("object") {
            before = (line["type"].as_str().unwrap().to_owned(), object.clone());
            return None;
        }
        let (kind, object) = before.clone();
        Some((format!("{number} {kind}"), move || patched(&kind, &object, &line)))
    });
    suite.group("server", 350, patches);
    let sent = numbered(lines("kubectl.jsonl")).map(|(number, line)| (number, move || sent(&line)));
    suite.group("kubectl", 100, sent);
    let made = numbered(lines("library.jsonl"));
    let made = made.map(|(number, line)| (format!("{number} {}", line["op"]), move || made_alike(&line)));
    suite.group("library", 1, made);
    suite.run()
}

fn same(found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected}\nfound    {found}")) }
}

/// A strategic merge patch does what the server did.
fn patched(kind: &str, object: &Value, line: &Value) -> Result<(), String> {
    let found = strategic::apply(&TOPOLOGIES.of(kind), object.clone(), map(&line["patch"]));
    match (line.get("changes"), found) {
        (Some(changes), Ok(found)) => {
            let mut expected = object.clone();
            change(&mut expected, map(changes));
            same(&settled(found), &settled(expected))
        }
        (Some(_), Err(error)) => Err(error.to_string()),
        (None, Ok(found)) => Err(format!("{found} instead of {}", line["message"])),
        (None, Err(error)) => {
            let code = match error.class() {
                Class::BadRequest => 400,
                Class::Unprocessable => 422,
                Class::Unclassified => 500,
            };
            let found = json!({"code": code, "message": error.to_string()});
            same(&found, &json!({"code": line["code"], "message": line["message"]}))
        }
    }
}

/// A three-way patch is the one that kubectl sent.
fn sent(line: &Value) -> Result<(), String> {
    let (original, modified, current) =
        (map(&line["original"]), map(&line["modified"]), map(&line["current"]));
    let found = match line["type"].as_str().unwrap() {
        "" => merge_patch::three_way(original, modified, current),
        kind => strategic::three_way(&TOPOLOGIES.of(kind), original, modified, current, Overwrite::Allowed)
            .unwrap(),
    };
    same(&Value::Object(found), &line["patch"])
}

/// The library and this crate agree.
fn made_alike(line: &Value) -> Result<(), String> {
    let (a, b) = (&line["a"], &line["b"]);
    let schema = TOPOLOGIES.of(line["type"].as_str().unwrap_or_default());
    let found = match line["op"].as_str().unwrap() {
        "smp" => strategic::apply(&schema, a.clone(), map(b)).map_err(|error| error.to_string()),
        "two" => {
            strategic::diff(&schema, map(a), map(b)).map(Value::Object).map_err(|error| error.to_string())
        }
        "three" => {
            let overwrite = if line["overwrite"] == true { Overwrite::Allowed } else { Overwrite::Refused };
            match strategic::three_way(&schema, map(a), map(b), map(&line["c"]), overwrite) {
                Ok(patch) => Ok(Value::Object(patch)),
                Err(ThreeWayError::Conflict { .. }) => Err("conflict".to_owned()),
                Err(ThreeWayError::Patch(error)) => Err(error.to_string()),
            }
        }
        "jthree" => Ok(Value::Object(merge_patch::three_way(map(a), map(b), map(&line["c"])))),
        "jtwo" => Ok(Value::Object(merge_patch::diff(map(a), map(b)))),
        "merge" => Ok(merge_patch::apply(a.clone(), map(b))),
        "json" => {
            use sternpost_patch::{body::Reading, json_patch};
            let patch = json_patch::decode(b.to_string().as_bytes(), Reading::Lenient).unwrap().patch;
            // Why an operation fails is ours to say.
            json_patch::apply(a.clone(), &patch).map_err(|_| "fails".to_owned())
        }
        other => panic!("{other}"),
    };
    let found = match found {
        Ok(found) => json!({"r": found}),
        Err(error) => json!({"err": error}),
    };
    let expected = match line.get("r") {
        Some(result) => json!({"r": result}),
        None => json!({"err": line["err"]}),
    };
    same(&found, &expected)
}
