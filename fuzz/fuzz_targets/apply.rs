//! Any two objects are written over each other, and applying twice is applying once.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sternpost_apply::{ResetFields, Versions, Writer, apply, update};
use sternpost_schema::{
    read,
    topology::{Topologies, Type},
    write::Dialect,
};

const VERSION: &str = "t.example/v1";

struct Kind;

impl Versions for Kind {
    fn topology(&self, api_version: &str) -> Option<Type> {
        static KIND: OnceLock<Type> = OnceLock::new();
        let kind = KIND.get_or_init(|| {
            let named = json!({"type": "object", "properties": {
                "k": {"type": "string"}, "p": {"type": "string", "default": "x"}, "v": {"type": "integer"},
            }});
            let schema = json!({"type": "object", "properties": {
                "metadata": {"type": "object"},
                "a": {"type": "string"},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
                "w": {"type": "object", "x-kubernetes-map-type": "atomic"},
                "s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "l": {
                    "type": "array", "items": named,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
                },
                "f": {"x-kubernetes-preserve-unknown-fields": true},
            }});
            let schema = read::schema(&schema, Dialect::V3).expect("a schema");
            Topologies::new(move |_| Some(Arc::new(schema.clone()))).of("X")
        });
        (api_version == VERSION).then(|| kind.clone())
    }

    fn convert(&self, _: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("there is no {api_version}"))
    }
}

fuzz_target!(|text: &str| {
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let (Some(Ok(live)), Some(Ok(config))) = (objects.next(), objects.next()) else { return };
    let writer = |manager| Writer {
        manager,
        api_version: VERSION,
        subresource: "",
        now: "2001-01-01T00:00:00Z",
        reset: &ResetFields::None,
    };
    let mut updated = config.clone();
    update(Some(&live), &mut updated, &writer("u"), &Kind);
    let mut created = live.clone();
    update(None, &mut created, &writer("u"), &Kind);
    let Ok(once) = apply(Some(&created), &config, &writer("a"), true, &Kind) else { return };
    // An object that is no map has no room for managedFields.
    if once.object.get("metadata").is_some_and(Value::is_object) {
        let twice = apply(Some(&once.object), &config, &writer("a"), false, &Kind).expect("it fitted before");
        assert_eq!(twice.object, once.object);
    }
});
