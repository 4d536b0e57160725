//! What kube-apiserver 1.36.4 did to objects and their managedFields, write by write.

use crate::kinds::EPOCH;
use serde_json::{Map, Value, json};
use sternpost_apply::{ResetFields, Versions, Writer, apply, scale, update};
use sternpost_schema::topology::Type;
use sternpost_testkit::recorded::Suite;

const RECORDED: &str = include_str!("server.jsonl");

const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";
const POD: &str = "io.k8s.api.core.v1.Pod";
const SERVICE: &str = "io.k8s.api.core.v1.Service";
/// A custom resource, in two versions that differ in name only.
const CUSTOM: &str = "X";
const CUSTOM_VERSIONS: [&str; 2] = ["applyrec.example.com/v1", "applyrec.example.com/v2"];
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Every sequence of writes gives the recorded owners and object.
pub fn add(suite: &mut Suite) {
    let cases: Vec<Value> = RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: usize = cases.iter().map(|case| case["steps"].as_array().unwrap().len()).sum();
    suite.test("server has at least 140 writes", move || assert!(steps >= 140, "only {steps}"));
    let named = |case: Value| (case["case"].as_str().unwrap().to_owned(), move || writes(&case));
    suite.group("server", 13, cases.into_iter().map(named));
}

fn writes(case: &Value) -> Result<(), String> {
    let mut live = None;
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        check(case, step, live.as_ref(), &format!("step {number}: {}", step["op"]));
        if let Some(after) = step.get("after") {
            live = Some(after.clone());
        }
    }
    Ok(())
}

fn check(case: &Value, step: &Value, live: Option<&Value>, at: &str) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (subresource, manager) = (text(&step["subresource"]), text(&step["manager"]));
    let definition = text(&case["definition"]);
    let reset = reset(&definition, &subresource);
    let after = &step["after"];
    let times = after["metadata"]["managedFields"].as_array().into_iter().flatten();
    let now = times.filter_map(|entry| entry["time"].as_str()).max().unwrap_or(EPOCH);
    let api_version = text(step.get("apiVersion").unwrap_or(&case["apiVersion"]));
    let mut writer = Writer {
        manager: &manager,
        api_version: &api_version,
        subresource: &subresource,
        now,
        reset: &reset,
    };
    let custom = case.get("schema").map(crate::kinds::kind);
    let kind = Kind { definition: &definition, api_version: &api_version, custom: custom.as_ref() };

    if step["op"] == "found" {
        return;
    }
    if subresource == "scale" {
        writer.api_version = scale::API_VERSION;
        check_scale(step, live.unwrap(), &writer, &api_version, at);
        return;
    }
    if step["op"] == "apply" {
        let applied = apply(live, &step["body"], &writer, step["force"] == true, &kind);
        match (applied, step.get("error")) {
            (Ok(applied), None) => {
                assert_eq!(managed_fields(&applied.object), managed_fields(after), "{at}");
                // What the endpoint does not write, it takes back after the merge.
                let (merged, stored) = (plain(&applied.object), plain(after));
                let parts: &[&str] =
                    if subresource == "status" { &["status"] } else { &["metadata", "spec", "data"] };
                for part in parts {
                    same_but_defaults(&merged[part], &stored[part], &format!("{at} .{part}"));
                }
                if reset == ResetFields::None {
                    assert_eq!(applied.changed, live != Some(after), "{at}");
                }
            }
            (Err(refused), Some(error)) => {
                assert_eq!(refused.message(), error["message"], "{at}");
            }
            (found, expected) => panic!("{at}: {found:?} instead of {expected:?}"),
        }
        return;
    }
    let mut new = wanted(step, live);
    update(live, &mut new, &writer, &kind);
    assert_eq!(managed_fields(&new), managed_fields(after), "{at}");
}

/// A write through `/scale` becomes one of the parent.
fn check_scale(step: &Value, live: &Value, writer: &Writer<'_>, api_version: &str, at: &str) {
    let custom = api_version != "apps/v1";
    let replicas = if custom { "size" } else { "replicas" };
    let path = format!(".spec.{replicas}");
    let paths = [(CUSTOM_VERSIONS[0], &*path), (CUSTOM_VERSIONS[1], &path), ("apps/v1", &path)];
    let seen = scale::to_scale(Some(managed_fields(live)), &paths).unwrap();
    let mut before = json!({"metadata": {}, "spec": {"replicas": live["spec"][replicas]}});
    if let Some(seen) = seen {
        before["metadata"]["managedFields"] = seen;
    }
    let kind = Kind { definition: SCALE, api_version: scale::API_VERSION, custom: None };
    let written = if step["op"] == "apply" {
        match (apply(Some(&before), &step["body"], writer, step["force"] == true, &kind), step.get("error")) {
            (Ok(applied), None) => applied.object,
            (Err(refused), Some(error)) => {
                assert_eq!(refused.message(), error["message"], "{at}");
                return;
            }
            (found, expected) => panic!("{at}: {found:?} instead of {expected:?}"),
        }
    } else {
        let mut new = merge_patch(before.clone(), &step["body"]);
        update(Some(&before), &mut new, writer, &kind);
        new
    };
    assert_eq!(written["spec"]["replicas"], step["after"]["spec"][replicas], "{at}");
    let scaled = written["metadata"].get("managedFields");
    let owners = scale::to_parent(Some(managed_fields(live)), scaled, api_version, &paths).unwrap();
    assert_eq!(owners.as_ref().unwrap_or(&Value::Null), managed_fields(&step["after"]), "{at}");
}

/// The object as its writer wants it, with its managedFields as sent.
fn wanted(step: &Value, live: Option<&Value>) -> Value {
    match (step["op"].as_str().unwrap(), step.get("body")) {
        ("create" | "put", Some(body)) => body.clone(),
        ("merge", Some(body)) => merge_patch(live.unwrap().clone(), body),
        _ => {
            let mut new = step["after"].clone();
            new["metadata"]["managedFields"] = managed_fields(live.unwrap()).clone();
            new
        }
    }
}

fn merge_patch(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let below = target.remove(name).unwrap_or(Value::Null);
            target.insert(name.clone(), merge_patch(below, value));
        }
    }
    Value::Object(target)
}

fn managed_fields(object: &Value) -> &Value {
    &object["metadata"]["managedFields"]
}

/// What is left when the server's own fields and empty ones are taken away.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata.remove("generation");
    without_empty(&object)
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

/// Fields that the server fills in after the merge.
const DEFAULTED: [&str; 12] = [
    "clusterIPs",
    "imagePullPolicy",
    "maxSurge",
    "maxUnavailable",
    "nodePort",
    "p",
    "protocol",
    "rollingUpdate",
    "strategy",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "type",
];

fn same_but_defaults(merged: &Value, stored: &Value, at: &str) {
    match (merged, stored) {
        (Value::Object(merged), Value::Object(stored)) => {
            for (name, stored) in stored {
                match merged.get(name) {
                    Some(merged) => same_but_defaults(merged, stored, &format!("{at}.{name}")),
                    None => assert!(DEFAULTED.contains(&name.as_str()), "{at}.{name} is missing"),
                }
            }
            let extra: Vec<_> = merged.keys().filter(|name| !stored.contains_key(*name)).collect();
            assert!(extra.is_empty(), "{at} has {extra:?}");
        }
        (Value::Array(merged), Value::Array(stored)) if merged.len() == stored.len() => {
            for (merged, stored) in merged.iter().zip(stored) {
                same_but_defaults(merged, stored, at);
            }
        }
        (merged, stored) => assert_eq!(merged, stored, "{at}"),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn reset(definition: &str, subresource: &str) -> ResetFields {
    match (definition, subresource) {
        (DEPLOYMENT | POD | SERVICE, "") => ResetFields::except([".status"]),
        (DEPLOYMENT, "status") => ResetFields::except([".spec", ".metadata.labels"]),
        (POD, "status") => {
            ResetFields::except([".spec", ".metadata.deletionTimestamp", ".metadata.ownerReferences"])
        }
        (CUSTOM, "") => ResetFields::except([".status"]),
        (CUSTOM, "status") => ResetFields::except([".metadata", ".spec"]),
        (SERVICE, "status") => ResetFields::except([".spec"]),
        _ => ResetFields::None,
    }
}

struct Kind<'a> {
    definition: &'a str,
    api_version: &'a str,
    custom: Option<&'a Type>,
}

impl Versions for Kind<'_> {
    fn topology(&self, api_version: &str) -> Option<Type> {
        match self.custom {
            Some(custom) => CUSTOM_VERSIONS.contains(&api_version).then(|| custom.clone()),
            None => {
                (api_version == self.api_version).then(|| sternpost_builtin::topologies().of(self.definition))
            }
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Ok(object)
    }

    fn convert_back(&self, object: &Value, _: &str) -> Result<Value, String> {
        self.convert(object, self.api_version)
    }

    fn empty(&self, _: &str) -> Value {
        match self.definition {
            DEPLOYMENT => json!({
                "metadata": {},
                "spec": {
                    "selector": null,
                    "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": null}},
                },
                "status": {},
            }),
            POD => json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
            SERVICE => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
            CUSTOM => json!({}),
            _ => json!({"metadata": {}}),
        }
    }
}
