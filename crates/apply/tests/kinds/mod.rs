//! Kinds that tests make up from definitions.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map, Value, json};
use sternpost_apply::{Versions, set::Set};
use sternpost_schema::{
    Schema, read,
    topology::{Topologies, Type},
    write::Dialect,
};

/// The type of kind `X` among recorded definitions; without any, it is deduced.
pub fn kind(definitions: &Value) -> Type {
    let Value::Object(definitions) = definitions else { return Type::deduced() };
    let schemas: HashMap<String, Arc<_>> = definitions
        .iter()
        .map(|(name, schema)| {
            let schema = prefixed(schema);
            (name.clone(), Arc::new(read::schema(&schema, Dialect::V3).unwrap()))
        })
        .collect();
    Topologies::new(move |name| schemas.get(name).cloned().or_else(|| builtin(name))).of("X")
}

/// Metadata is the same for all.
fn builtin(name: &str) -> Option<Arc<Schema>> {
    sternpost_builtin::definition(name).cloned()
}

/// Recorded references are bare names; documents have them with a prefix.
fn prefixed(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| match (name.as_str(), value) {
                    ("$ref", Value::String(text)) => {
                        (name.clone(), json!(format!("#/components/schemas/{text}")))
                    }
                    _ => (name.clone(), prefixed(value)),
                })
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => items.iter().map(prefixed).collect(),
        other => other.clone(),
    }
}

pub fn text(set: &Set) -> String {
    let mut out = Vec::new();
    set.write_fields_v1(&mut out);
    String::from_utf8(out).unwrap()
}

/// One version, which nothing is converted from or to.
pub struct OneVersion(pub Type);

impl Versions for OneVersion {
    fn topology(&self, api_version: &str) -> Option<Type> {
        (api_version == API_VERSION).then(|| self.0.clone())
    }

    fn convert(&self, _: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("no version {api_version}"))
    }
}

#[allow(dead_code, reason = "not every test writes")]
pub const API_VERSION: &str = "t.example/v1";
pub const EPOCH: &str = "1970-01-01T00:00:00Z";
