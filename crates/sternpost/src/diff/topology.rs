//! Which lists of a kind are maps and sets, as the server's OpenAPI documents say.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use sternpost_meta::gvk::GroupVersion;

use crate::{
    client::{Client, JSON},
    within::Within,
};

/// How deep references may lead from one to the next without a field in between.
const MAX_REFERENCES: usize = 16;

/// How the elements of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// By the values of these fields.
    Map(Vec<String>),
    /// By their values.
    Set,
    /// By their places.
    Atomic,
}

/// Whose documents are read.
#[derive(Debug, Clone)]
pub enum Publisher {
    Within(Within),
    Server(Client),
}

/// Documents of one server, read when they are needed.
#[derive(Debug)]
pub struct Documents {
    publisher: Publisher,
    read: HashMap<String, Arc<Value>>,
}

/// The schema of a kind, or of a part of it; none where nothing is known.
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    document: &'a Value,
    node: Option<&'a Value>,
}

impl Documents {
    pub fn new(publisher: Publisher) -> Self {
        Self { publisher, read: HashMap::new() }
    }

    /// The document with the kinds of a group-version; nothing if there is none.
    pub async fn document(&mut self, api_version: &str) -> anyhow::Result<Arc<Value>> {
        if let Some(document) = self.read.get(api_version) {
            return Ok(document.clone());
        }
        let path = format!("/openapi/v3/{}", GroupVersion::parse(api_version).path());
        let (status, json) = match &self.publisher {
            Publisher::Within(within) => {
                let said = within.get(&path).await?;
                (said.status, said.json)
            }
            Publisher::Server(client) => {
                let answer = client.get(&path, JSON).await?;
                (answer.status, answer.json)
            }
        };
        let document = Arc::new(if status.is_success() { json } else { Value::Null });
        self.read.insert(api_version.to_owned(), document.clone());
        Ok(document)
    }
}

impl<'a> Schema<'a> {
    /// Of a kind in a document of its group-version.
    pub fn of(document: &'a Value, api_version: &str, kind: &str) -> Self {
        let (group, version) = GroupVersion::split(api_version);
        let is_wanted = |schema: &&Value| {
            let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            let is = |gvk: &Value, field: &str, text: &str| gvk.get(field).is_some_and(|value| value == text);
            kinds
                .into_iter()
                .flatten()
                .any(|gvk| is(gvk, "group", group) && is(gvk, "version", version) && is(gvk, "kind", kind))
        };
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        let node = schemas.and_then(|schemas| schemas.values().find(is_wanted));
        Self { document, node }
    }

    /// What stands behind references.
    fn resolved(self) -> Option<&'a Value> {
        let mut node = self.node?;
        for _ in 0..MAX_REFERENCES {
            let reference =
                node.get("$ref").or_else(|| node.pointer("/allOf/0/$ref")).and_then(Value::as_str);
            let Some(name) = reference.and_then(|text| text.strip_prefix("#/components/schemas/")) else {
                return Some(node);
            };
            node = self.document.pointer("/components/schemas")?.get(name)?;
        }
        None
    }

    fn below(self, node: Option<&'a Value>) -> Self {
        Self { node, ..self }
    }

    pub fn field(self, name: &str) -> Self {
        let node = self.resolved();
        let named = node.and_then(|node| node.get("properties")?.get(name));
        self.below(named.or_else(|| node.and_then(|node| node.get("additionalProperties"))))
    }

    pub fn items(self) -> Self {
        self.below(self.resolved().and_then(|node| node.get("items")))
    }

    /// What the list is; one of which nothing is said is atomic.
    pub fn list_type(self) -> ListType {
        // Beside a reference there may be more than it says.
        let says =
            |field: &str| self.node.and_then(|node| node.get(field)).or_else(|| self.resolved()?.get(field));
        let keys = || -> Vec<String> {
            let keys = says("x-kubernetes-list-map-keys").and_then(Value::as_array);
            keys.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
        };
        match says("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("map") if !keys().is_empty() => ListType::Map(keys()),
            Some("set") => ListType::Set,
            _ => ListType::Atomic,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_known_through_references() {
        let gvk = json!([{"group": "sea.example.com", "version": "v1", "kind": "Ship"}]);
        let document = json!({"components": {"schemas": {
            "Ship": {"x-kubernetes-group-version-kind": gvk, "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}},
                "loop": {"$ref": "#/components/schemas/Loop"},
            }},
            "Spec": {"properties": {
                "masts": {"items": {"$ref": "#/components/schemas/Mast"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
                "flags": {"x-kubernetes-list-type": "set"},
                "log": {},
                "holds": {"additionalProperties": {"x-kubernetes-list-type": "set"}},
            }},
            "Mast": {"properties": {"sails": {"x-kubernetes-list-type": "set"}}},
            "Loop": {"$ref": "#/components/schemas/Loop"},
        }}});
        let ship = Schema::of(&document, "sea.example.com/v1", "Ship");
        let spec = ship.field("spec");
        assert_eq!(spec.field("masts").list_type(), ListType::Map(vec!["name".into()]));
        assert_eq!(spec.field("masts").items().field("sails").list_type(), ListType::Set);
        assert_eq!(spec.field("holds").field("any").list_type(), ListType::Set);
        for unknown in [spec.field("log"), spec.field("nosuch"), ship.field("loop"), ship.items()] {
            assert_eq!(unknown.list_type(), ListType::Atomic);
        }
        assert_eq!(
            Schema::of(&document, "sea.example.com/v1", "Boat").field("spec").list_type(),
            ListType::Atomic
        );
    }
}
