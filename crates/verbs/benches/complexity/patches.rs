//! Patches of every type, selectors, definitions and custom objects.

use serde_json::{Value, json};
use sternpost_meta::{
    selector::{FieldSelector, LabelSelector},
    status::Status,
};
use sternpost_patch::{
    body::{self, Reading},
    json_patch,
};
use sternpost_verbs::{Patch, PatchRequest, Validation};

use crate::{Case, Work, writes::Writes};

/// Elements of the smallest measurement.
const SIZE: usize = 50;

/// A patch of so many elements, as it is sent.
type Sent = fn(usize) -> Value;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, patch) in PATCHES {
        for kind in ["merge", "strategic", "apply"] {
            cases.push(of_patch(kind, name, *patch));
        }
    }
    for (name, patch) in JSON_PATCHES {
        cases.push(of_patch("json", name, *patch));
    }
    for (name, text) in SELECTORS {
        let text = *text;
        cases.push(plain(format!("selector {name}"), move |size| {
            let text = text(size);
            let labels: Value = (0..size).map(|index| (format!("k{index:05}"), Value::from("v"))).collect();
            Box::new(move |_| {
                if let Ok(selector) = LabelSelector::parse(&text) {
                    selector.matches(&labels);
                }
                if let Ok(selector) = FieldSelector::parse(&text) {
                    selector.matches_with(|_| "v");
                }
            })
        }));
    }
    for (name, schema) in SCHEMAS {
        let schema = *schema;
        cases.push(plain_of(format!("definition {name}"), move |writes, size| {
            let schema = schema(size);
            let served = writes.served("apiextensions.k8s.io", "v1", "customresourcedefinitions");
            let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
            let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
            let body = json!({
                "metadata": {"name": "things.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
            });
            let body = body.to_string();
            Box::new(move |writes| writes.write(&served, body.as_bytes()))
        }));
    }
    for (schema_name, schema) in OBJECT_SCHEMAS {
        for (name, spec) in OBJECTS {
            let schema = *schema;
            cases.push(custom_object(schema_name, name, move |_| schema(), *spec));
        }
    }
    for (name, schema, spec) in GROWING_SCHEMAS {
        cases.push(custom_object("as large a schema", name, *schema, *spec));
    }
    cases
}

fn plain(name: String, work: impl Fn(usize) -> Work + 'static) -> Case {
    plain_of(name, move |_, size| work(size))
}

fn plain_of(name: String, work: impl Fn(&Writes, usize) -> Work + 'static) -> Case {
    Case { name, size: SIZE, work: Box::new(work) }
}

fn custom_object(
    schema_name: &str,
    name: &str,
    schema: impl Fn(usize) -> Value + 'static,
    spec: Sent,
) -> Case {
    let plural = schema_name.replace(' ', "");
    plain_of(format!("custom object, {schema_name}: {name}"), move |writes, size| {
        let schema = json!({"type": "object", "properties": {"spec": schema(size)}});
        let served = writes.define(&plural, &schema);
        let body = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec(size),
        });
        let body = body.to_string();
        Box::new(move |writes| writes.write(&served, body.as_bytes()))
    })
}

/// What a patch is applied to has as many elements as the patch.
fn of_patch(kind: &'static str, name: &str, patch: Sent) -> Case {
    let is_pod = name.starts_with("pod");
    plain_of(format!("{kind} patch: {name}"), move |writes, size| {
        let plural = if is_pod { "pods" } else { "configmaps" };
        let served = writes.served("", "v1", plural);
        let name = format!("{kind}-{size}");
        let mut live = if is_pod { pod(size) } else { config_map(size) };
        live["metadata"]["name"] = name.clone().into();
        // What is there from an earlier case is as good.
        let _ = writes.store(&served, "default", live);
        let bytes = patch(size).to_string();
        Box::new(move |writes| {
            let (patch, complaints) = match kind {
                "json" => {
                    let Ok(body) = json_patch::decode(bytes.as_bytes(), Reading::Checked) else { return };
                    (Patch::Json(body.patch), body.complaints)
                }
                "merge" => {
                    let Ok(body) = body::merge_patch(bytes.as_bytes(), Reading::Checked) else { return };
                    (Patch::Merge(body.patch), body.complaints)
                }
                "strategic" => {
                    let Ok(body) = body::strategic(bytes.as_bytes()) else { return };
                    (Patch::Strategic(body.patch), body.complaints)
                }
                _ => {
                    let Ok(body) = body::strategic(bytes.as_bytes()) else { return };
                    let mut config = body.patch;
                    config.insert("apiVersion".into(), "v1".into());
                    config.insert("kind".into(), served.kind().into());
                    (Patch::Apply { config: Value::Object(config), force: false }, body.complaints)
                }
            };
            let request = PatchRequest { patch, complaints, validation: Validation::Warn };
            let outcome = writes.patch(&served, &name, &request);
            drop(outcome.map_err(|failure| serde_json::to_vec(&Status::from(failure))));
        })
    })
}

fn config_map(size: usize) -> Value {
    json!({
        "metadata": {"finalizers": list(size, |index| format!("example.com/f{index:05}").into()), "labels": map(size, "l")},
        "data": map(size, "k"),
    })
}

fn pod(size: usize) -> Value {
    let env = list(size, |index| json!({"name": format!("V{index:05}"), "value": "x"}));
    let tolerations = list(size, |index| json!({"key": format!("k{index:05}"), "operator": "Exists"}));
    json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}], "tolerations": tolerations}})
}

fn list(size: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..size).map(item).collect())
}

fn map(size: usize, prefix: &str) -> Value {
    (0..size).map(|index| (format!("{prefix}{index:05}"), Value::from("x"))).collect()
}

fn in_container(mut fields: Value) -> Value {
    let mut container = json!({"name": "c"});
    container.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
    json!({"spec": {"containers": [container]}})
}

const PATCHES: &[(&str, Sent)] = &[
    ("entries of a map", |size| json!({"data": map(size, "n")})),
    ("the same entries", |size| json!({"data": map(size, "k")})),
    (
        "entries removed",
        |size| json!({"data": (0..size).map(|index| (format!("k{index:05}"), Value::Null)).collect::<Value>()}),
    ),
    ("bad labels", |size| json!({"metadata": {"labels": map(size, "-bad !")}})),
    ("unknown fields", |size| map(size, "unknown")),
    (
        "items of a set",
        |size| json!({"metadata": {"finalizers": list(size, |index| format!("example.com/n{index:05}").into())}}),
    ),
    (
        "one item of a set repeated",
        |size| json!({"metadata": {"finalizers": list(size, |_| "example.com/a".into())}}),
    ),
    (
        "items of a set deleted",
        |size| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": list(size, |index| format!("example.com/f{index:05}").into())}}),
    ),
    ("a set put in order", |size| {
        let order = list(size, |index| format!("example.com/f{:05}", size - index).into());
        json!({"metadata": {"$setElementOrder/finalizers": order, "finalizers": order}})
    }),
    ("owners", |size| {
        json!({"metadata": {"ownerReferences": list(size, |index| {
            json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("u{index:05}")})
        })}})
    }),
    ("one owner repeated", |size| {
        json!({"metadata": {"ownerReferences": list(size, |_| {
            json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"})
        })}})
    }),
    ("pod: items by name", |size| {
        in_container(
            json!({"env": list(size, |index| json!({"name": format!("V{index:05}"), "value": "y"}))}),
        )
    }),
    ("pod: new items by name", |size| {
        in_container(
            json!({"env": list(size, |index| json!({"name": format!("N{index:05}"), "value": "y"}))}),
        )
    }),
    ("pod: one item by name repeated", |size| {
        in_container(json!({"env": list(size, |_| json!({"name": "A", "value": "y"}))}))
    }),
    ("pod: items by name deleted", |size| {
        in_container(
            json!({"env": list(size, |index| json!({"name": format!("V{index:05}"), "$patch": "delete"}))}),
        )
    }),
    ("pod: items by name put in order", |size| {
        let order = list(size, |index| json!({"name": format!("V{}", size - index)}));
        in_container(json!({"$setElementOrder/env": order, "env": order}))
    }),
    (
        "pod: an atomic list",
        |size| json!({"spec": {"tolerations": list(size, |index| json!({"key": format!("t{index:05}"), "operator": "Exists"}))}}),
    ),
];

const JSON_PATCHES: &[(&str, Sent)] = &[
    ("entries added", |size| {
        list(size, |index| json!({"op": "add", "path": format!("/data/n{index:05}"), "value": "x"}))
    }),
    ("entries replaced", |size| {
        list(size, |index| json!({"op": "replace", "path": format!("/data/k{index:05}"), "value": "y"}))
    }),
    ("entries removed", |size| {
        list(size, |index| json!({"op": "remove", "path": format!("/data/k{index:05}")}))
    }),
    ("entries tested", |size| {
        list(size, |index| json!({"op": "test", "path": format!("/data/k{index:05}"), "value": "x"}))
    }),
    ("entries moved", |size| {
        list(
            size,
            |index| json!({"op": "move", "from": format!("/data/k{index:05}"), "path": format!("/data/m{index:05}")}),
        )
    }),
    ("entries copied", |size| {
        list(
            size,
            |index| json!({"op": "copy", "from": format!("/data/k{index:05}"), "path": format!("/data/m{index:05}")}),
        )
    }),
    ("items appended", |size| {
        list(
            size,
            |index| json!({"op": "add", "path": "/metadata/finalizers/-", "value": format!("example.com/a{index:05}")}),
        )
    }),
    ("items inserted in front", |size| {
        list(
            size,
            |index| json!({"op": "add", "path": "/metadata/finalizers/0", "value": format!("example.com/a{index:05}")}),
        )
    }),
    ("items removed in front", |size| {
        list(size, |_| json!({"op": "remove", "path": "/metadata/finalizers/0"}))
    }),
    ("items replaced", |size| {
        list(
            size,
            |index| json!({"op": "replace", "path": format!("/metadata/finalizers/{index}"), "value": "example.com/a"}),
        )
    }),
];

/// A name, and the text of so many terms.
type Selector = (&'static str, fn(usize) -> String);

const SELECTORS: &[Selector] = &[
    ("of many keys", |size| (0..size).map(|index| format!("k{index:05}=v")).collect::<Vec<_>>().join(",")),
    ("of one key repeated", |size| vec!["k=v"; size].join(",")),
    ("of many values", |size| {
        format!("k in ({})", (0..size).map(|index| format!("v{index:05}")).collect::<Vec<_>>().join(","))
    }),
    ("of one value repeated", |size| format!("k notin ({})", vec!["v"; size].join(","))),
    ("that exist", |size| (0..size).map(|index| format!("!k{index:05}")).collect::<Vec<_>>().join(",")),
    ("of commas", |size| ",".repeat(size)),
    ("of parentheses", |size| format!("k in {}", "(".repeat(size))),
    ("of blanks", |size| " ".repeat(size)),
    ("escaped", |size| format!("metadata.name={}", "\\,".repeat(size))),
];

const SCHEMAS: &[(&str, Sent)] = &[
    ("properties", |size| {
        let properties: Value =
            (0..size).map(|index| (format!("p{index:05}"), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties})
    }),
    ("properties without types", |size| {
        let properties: Value = (0..size).map(|index| (format!("p{index:05}"), json!({}))).collect();
        json!({"type": "object", "properties": properties})
    }),
    ("properties with defaults", |size| {
        let properties: Value = (0..size)
            .map(|index| (format!("p{index:05}"), json!({"type": "string", "default": "x"})))
            .collect();
        json!({"type": "object", "properties": properties})
    }),
    ("properties with unknown formats", |size| {
        let property =
            |index| (format!("p{index:05}"), json!({"type": "string", "format": format!("f{index:05}")}));
        json!({"type": "object", "properties": (0..size).map(property).collect::<Value>()})
    }),
    ("properties with patterns", |size| {
        let property =
            |index| (format!("p{index:05}"), json!({"type": "string", "pattern": format!("^a{index:05}$")}));
        json!({"type": "object", "properties": (0..size).map(property).collect::<Value>()})
    }),
    (
        "required",
        |size| json!({"type": "object", "required": list(size, |index| format!("p{index:05}").into())}),
    ),
    (
        "enum",
        |size| json!({"type": "object", "properties": {"a": {"type": "string", "enum": list(size, |index| format!("p{index:05}").into())}}}),
    ),
    (
        "all of",
        |size| json!({"type": "object", "properties": {"a": {"type": "integer", "allOf": list(size, |index| json!({"minimum": index}))}}}),
    ),
    (
        "any of",
        |size| json!({"type": "object", "properties": {"a": {"type": "integer", "anyOf": list(size, |index| json!({"minimum": index}))}}}),
    ),
    (
        "one of",
        |size| json!({"type": "object", "properties": {"a": {"type": "integer", "oneOf": list(size, |index| json!({"minimum": index}))}}}),
    ),
    (
        "not",
        |size| json!({"type": "object", "properties": {"a": {"type": "integer", "allOf": list(size, |index| json!({"not": {"minimum": index}}))}}}),
    ),
    ("properties with rules", |size| {
        let property = |index| {
            let rules = json!([{"rule": "self != 'x'", "messageExpression": "'not ' + self"}]);
            (
                format!("p{index:05}"),
                json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": rules}),
            )
        };
        json!({"type": "object", "properties": (0..size).map(property).collect::<Value>()})
    }),
    ("a rule of many fields", |size| {
        let properties: Value = (0..size)
            .map(|index| (format!("p{index:05}"), json!({"type": "string", "maxLength": 5})))
            .collect();
        let rule = (0..size).map(|index| format!("self.p{index:05} != 'x'")).collect::<Vec<_>>().join(" && ");
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]})
    }),
    ("lists with rules", |size| {
        let property = |index| {
            let item = json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self != 'x'"}]});
            (format!("p{index:05}"), json!({"type": "array", "maxItems": 5, "items": item}))
        };
        json!({"type": "object", "properties": (0..size).map(property).collect::<Value>()})
    }),
    ("a default of many fields", |size| {
        json!({"type": "object", "properties": {"a": {
            "type": "object", "default": map(size, "k"), "additionalProperties": {"type": "string"},
        }}})
    }),
    ("a default with unknown fields", |size| {
        json!({"type": "object", "properties": {"a": {
            "type": "object", "default": map(size, "k"), "properties": {"b": {"type": "string"}},
        }}})
    }),
    ("unknown fields of a schema", |size| {
        let mut schema = map(size, "unknown");
        schema["type"] = "object".into();
        schema
    }),
    ("map keys", |size| {
        let properties: Value = (0..size)
            .map(|index| (format!("p{index:05}"), json!({"type": "string", "default": "x"})))
            .collect();
        let keys = list(size, |index| format!("p{index:05}").into());
        json!({"type": "object", "properties": {"a": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": properties},
        }}})
    }),
    ("map keys repeated", |size| {
        let keys = list(size, |_| "p".into());
        json!({"type": "object", "properties": {"a": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": {"p": {"type": "string"}}},
        }}})
    }),
    ("rules", |size| {
        let rules = list(size / 10, |index| json!({"rule": format!("self.a != 'v{index:05}'")}));
        json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "x-kubernetes-validations": rules})
    }),
    ("bad rules", |size| {
        let rules = list(size / 10, |index| json!({"rule": format!("self.b{index:05} +")}));
        json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "x-kubernetes-validations": rules})
    }),
];

/// A name, and the schema of `spec`.
type ObjectSchema = (&'static str, fn() -> Value);

const OBJECT_SCHEMAS: &[ObjectSchema] = &[
    ("anything", || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ("nothing", || json!({"type": "object"})),
    ("set", || {
        json!({"type": "object", "properties": {
            "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }})
    }),
    ("keyed", || {
        json!({"type": "object", "properties": {
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "value": {"type": "string", "default": "x"},
                }},
            },
        }})
    }),
    ("strict", || {
        json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"], "pattern": "^a", "maxLength": 1}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "items": {"type": "array", "items": {"type": "object", "required": ["x", "y"], "properties": {
                "name": {"type": "string", "format": "date-time"},
            }}},
        }})
    }),
    ("ruled", || {
        json!({"type": "object", "properties": {
            "list": {"type": "array", "maxItems": 10000, "items": {
                "type": "string", "maxLength": 30, "x-kubernetes-validations": [{"rule": "self.startsWith('v')"}],
            }},
            "map": {"type": "object", "maxProperties": 10000, "additionalProperties": {"type": "string", "maxLength": 10,
                "x-kubernetes-validations": [{"rule": "self == 'y'"}]}},
        }})
    }),
    ("embedded", || {
        json!({"type": "object", "properties": {"items": {"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }}}})
    }),
];

const OBJECTS: &[(&str, Sent)] = &[
    ("a list", |size| json!({"list": list(size, |index| format!("v{index:05}").into())})),
    ("one item repeated", |size| json!({"list": list(size, |_| "v".into())})),
    ("a map", |size| json!({"map": map(size, "k")})),
    (
        "items",
        |size| json!({"items": list(size, |index| json!({"name": format!("v{index:05}"), "other": 1}))}),
    ),
    ("the same items", |size| json!({"items": list(size, |_| json!({"name": "v"}))})),
    ("unknown fields", |size| map(size, "unknown")),
];

/// A name, the schema of `spec`, and a `spec`; both of so many elements.
const GROWING_SCHEMAS: &[(&str, Sent, Sent)] = &[
    (
        "items among as many values",
        |size| {
            let values = list(size, |index| format!("v{index:05}").into());
            json!({"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "string", "enum": values}},
            }})
        },
        |size| json!({"list": list(size, |index| format!("v{index:05}").into())}),
    ),
    (
        "numbers among as many values",
        |size| {
            let values = list(size, Into::into);
            json!({"type": "object", "properties": {
                "map": {"type": "object", "additionalProperties": {"type": "integer", "enum": values}},
            }})
        },
        |size| json!({"map": (0..size).map(|index| (format!("k{index:05}"), Value::from(index))).collect::<Value>()}),
    ),
    (
        "properties",
        |size| {
            let properties: Value = (0..size)
                .map(|index| (format!("p{index:05}"), json!({"type": "string", "default": "x"})))
                .collect();
            json!({"type": "object", "properties": properties})
        },
        |size| map(size, "p"),
    ),
    (
        "properties that are required",
        |size| {
            let property = |index| (format!("p{index:05}"), json!({"type": "string"}));
            let required = list(size, |index| format!("p{index:05}").into());
            json!({"type": "object", "required": required, "properties": (0..size).map(property).collect::<Value>()})
        },
        |_| json!({}),
    ),
    (
        "properties with defaults that are missing",
        |size| {
            let property = |index| (format!("p{index:05}"), json!({"type": "string", "default": "x"}));
            json!({"type": "object", "properties": (0..size).map(property).collect::<Value>()})
        },
        |_| json!({}),
    ),
];
