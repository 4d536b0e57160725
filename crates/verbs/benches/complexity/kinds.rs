//! Every list and map of every built-in kind.
//!
//! Fields come from the catalogue. A field that is reached the same way in many kinds
//! (the containers of a pod template) is measured in the first of them: what tells two
//! cases apart is the field and the field it stands in.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value, json};
use sternpost_builtin::{Field, FieldType, Label};
use sternpost_meta::resource::Resource;

use crate::Case;

/// Elements of the smallest measurement.
const SIZE: usize = 50;

/// How deep fields are looked for; deeper ones are of types that stand higher up elsewhere.
const MAX_DEPTH: usize = 14;

/// What admission fills in, and refuses where it is something else. With it no pod would be validated.
const FILLED_IN: [(&str, &str); 3] =
    [("PodSpec", "priorityClassName"), ("PodSpec", "priority"), ("PodSpec", "preemptionPolicy")];

/// What stands in a list or map that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    /// Each another one, plausible.
    Distinct,
    /// The same again and again.
    Same,
    /// Each another one, with wrong values and with fields that do not exist.
    Bad,
}

/// A way down from a kind to a list or a map.
#[derive(Clone)]
struct Way {
    /// The messages passed, and the fields taken in them.
    steps: Vec<(Arc<str>, &'static Field)>,
}

impl Way {
    fn last(&self) -> &'static Field {
        self.steps.last().unwrap().1
    }

    fn text(&self) -> String {
        self.steps.iter().map(|(_, field)| &*field.json_name).collect::<Vec<_>>().join(".")
    }

    /// The same in all kinds that have the field in the same place. Metadata is the same everywhere.
    fn key(&self) -> String {
        let is_metadata = self.steps.iter().any(|(message, _)| message.ends_with(".ObjectMeta"));
        let last = self.steps.iter().rev().take(if is_metadata { 1 } else { 2 });
        last.map(|(message, field)| format!("{message}.{}", field.json_name)).collect::<Vec<_>>().join(" in ")
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut known = BTreeSet::new();
    let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
    let mut resources: Vec<&Arc<Resource>> = versions.flat_map(|version| &version.resources).collect();
    // Pods first: what other kinds have of them is measured there.
    resources.sort_by_key(|resource| &*resource.plural != "pods");
    for resource in resources {
        let Some(root) = sternpost_builtin::definition_name(&resource.gvk()) else { continue };
        let mut ways = Vec::new();
        find(&root, &Way { steps: Vec::new() }, &mut ways);
        for way in ways.into_iter().filter(|way| known.insert(way.key())) {
            for elements in [Elements::Distinct, Elements::Same, Elements::Bad] {
                // A map has each key once.
                if elements == Elements::Same && way.last().label == Label::Map {
                    continue;
                }
                cases.push(case(resource, way.clone(), elements));
            }
        }
        let resource = resource.clone();
        cases.push(Case {
            name: format!("{} {} unknown fields", resource.gv, resource.kind),
            size: 4 * SIZE,
            work: Box::new(move |writes, size| {
                let mut body = json!({"metadata": {"name": "a"}});
                for index in 0..size {
                    body[format!("unknown{index:05}")] = 1.into();
                }
                let body = body.to_string();
                let served = writes.served(&resource.gv.group, &resource.gv.version, &resource.plural);
                Box::new(move |writes| writes.write(&served, body.as_bytes()))
            }),
        });
    }
    cases
}

fn case(resource: &Arc<Resource>, way: Way, elements: Elements) -> Case {
    let resource = resource.clone();
    Case {
        name: format!("{} {} {} {elements:?}", resource.gv, resource.kind, way.text()),
        size: SIZE,
        work: Box::new(move |writes, size| {
            let root = sternpost_builtin::definition_name(&resource.gvk()).unwrap();
            let mut body = build(&root, &way.steps, elements, size);
            body["kind"] = (*resource.kind).into();
            body["apiVersion"] = resource.gv.to_string().into();
            body["metadata"]["name"] = "a".into();
            body["metadata"].as_object_mut().unwrap().remove("namespace");
            let body = body.to_string();
            let served = writes.served(&resource.gv.group, &resource.gv.version, &resource.plural);
            Box::new(move |writes| writes.write(&served, body.as_bytes()))
        }),
    }
}

/// All lists and maps below a message.
fn find(message: &str, way: &Way, found: &mut Vec<Way>) {
    if way.steps.len() > MAX_DEPTH || is_leaf(message) {
        return;
    }
    for field in fields(message) {
        let mut way = way.clone();
        way.steps.push((message.into(), field));
        if field.label != Label::Single {
            found.push(way.clone());
        }
        let FieldType::Message(inner) = &field.kind else { continue };
        let is_recursive = way.steps.iter().any(|(passed, _)| passed == inner);
        if !is_recursive {
            find(inner, &way, found);
        }
    }
}

/// The fields of a message, with those of messages that are inlined in it.
fn fields(message: &str) -> Vec<&'static Field> {
    let mut all = Vec::new();
    for field in sternpost_builtin::message(message).iter().flat_map(|message| &message.fields) {
        match &field.kind {
            FieldType::Message(inner) if field.inline => all.extend(fields(inner)),
            _ => all.push(field),
        }
    }
    all
}

fn is_leaf(message: &str) -> bool {
    let short = message.rsplit('.').next().unwrap_or(message);
    matches!(
        short,
        "Quantity" | "IntOrString" | "Time" | "MicroTime" | "Duration" | "RawExtension" | "FieldsV1"
    ) || short.starts_with("JSON")
}

/// An object with `size` elements at the end of the way, and one on each list on it.
fn build(message: &str, way: &[(Arc<str>, &'static Field)], elements: Elements, size: usize) -> Value {
    let mut object = filled(message, Elements::Distinct, 0);
    let [(_, field), rest @ ..] = way else { return object };
    let value = match (&field.kind, rest) {
        (_, []) => many(field, elements, size),
        (FieldType::Message(inner), _) => {
            let inner = build(inner, rest, elements, size);
            match field.label {
                Label::Single => inner,
                Label::Repeated => Value::Array(vec![inner]),
                Label::Map => json!({"k": inner}),
            }
        }
        _ => Value::Null,
    };
    object[&*field.json_name] = value;
    object
}

fn many(field: &Field, elements: Elements, size: usize) -> Value {
    let indices = (0..size).map(|index| if elements == Elements::Same { 0 } else { index });
    if field.label == Label::Repeated {
        return Value::Array(indices.map(|index| element(field, elements, index)).collect());
    }
    let key = |index| {
        if elements == Elements::Bad { format!("-bad key {index:05}!") } else { format!("k{index:05}") }
    };
    let entries: Map<String, Value> =
        indices.map(|index| (key(index), element(field, elements, index))).collect();
    Value::Object(entries)
}

fn element(field: &Field, elements: Elements, index: usize) -> Value {
    match &field.kind {
        FieldType::Message(inner) if &*field.json_name == "extra" || inner.ends_with(".ExtraValue") => {
            json!([text(&field.json_name, elements, index)])
        }
        FieldType::Message(inner) => filled(inner, elements, index),
        kind => scalar(kind, &field.json_name, elements, index),
    }
}

/// An object of a message whose own fields are set, and those of objects right in it.
fn filled(message: &str, elements: Elements, index: usize) -> Value {
    let short = message.rsplit('.').next().unwrap_or(message);
    match short {
        "Quantity" if elements == Elements::Bad => return json!("-1"),
        "Quantity" => return json!("1"),
        "IntOrString" => return json!(index % 60_000 + 1),
        "Time" => return json!("2026-01-01T00:00:00Z"),
        "MicroTime" => return json!("2026-01-01T00:00:00.000000Z"),
        "Duration" => return json!("1s"),
        _ if is_leaf(message) => return json!({"type": "object"}),
        _ => {}
    }
    let mut object = json!({});
    for field in fields(message).into_iter().filter(|field| field.label == Label::Single) {
        if FILLED_IN.contains(&(short, &*field.json_name)) {
            continue;
        }
        let value = match &field.kind {
            FieldType::Message(inner) if is_leaf(inner) => filled(inner, elements, index),
            FieldType::Message(_) => continue,
            kind => scalar(kind, &field.json_name, elements, index),
        };
        object[&*field.json_name] = value;
    }
    if elements == Elements::Bad {
        object[format!("unknown{index:05}")] = true.into();
    }
    object
}

fn scalar(kind: &FieldType, name: &str, elements: Elements, index: usize) -> Value {
    let number = i64::try_from(index % 60_000).unwrap_or_default();
    match kind {
        FieldType::Bool => false.into(),
        FieldType::Bytes => "YQ==".into(),
        FieldType::Double | FieldType::Int32 | FieldType::Int64 if elements == Elements::Bad => {
            (-1 - number).into()
        }
        FieldType::Double | FieldType::Int32 | FieldType::Int64 => (number + 1).into(),
        FieldType::String | FieldType::Message(_) => text(name, elements, index).into(),
    }
}

/// A text that a field of this name might have. Most names that matter end alike. All are as long:
/// texts of different lengths are told apart too cheaply.
fn text(name: &str, elements: Elements, index: usize) -> String {
    if elements == Elements::Bad {
        return format!("-Bad {name} {index:05}!");
    }
    let (high, low) = (index / 250, index % 250 + 1);
    let lower = name.to_lowercase();
    match lower.as_str() {
        "apiversion" => "v1".into(),
        "operator" => "In".into(),
        "protocol" => "TCP".into(),
        "effect" => "NoSchedule".into(),
        "apigroup" | "subresource" | "namespace" | "uid" => format!("u{index:05}"),
        _ if lower.ends_with("ip") || lower.ends_with("ips") || lower == "addresses" => {
            format!("10.1.{high}.{low}")
        }
        _ if lower.contains("cidr") || lower == "except" => format!("10.{high}.{low}.0/24"),
        _ if lower.contains("path") => format!("/p{index:05}"),
        _ if lower == "finalizers" => format!("example.com/f{index:05}"),
        _ => format!("v{index:05}"),
    }
}
