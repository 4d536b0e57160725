//! One object as the cache holds it.

use bytes::Bytes;
use serde_json::Value;
use sternpost_store::Revision;

use crate::{encoding, key::ResourceId};

/// A stored object at one revision. Shared by all who read it.
#[derive(Debug)]
pub struct Object {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub revision: Revision,
    stored: Bytes,
    index: Index,
}

/// What selectors look at, taken from the object once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's selectable fields beyond name and namespace, by name.
    pub fields: Box<[(&'static str, Box<str>)]>,
}

/// Knows which fields of a resource can be selected by.
pub trait Indexer: Send + Sync {
    fn index(&self, id: &ResourceId, object: &Value) -> Index;
}

impl Object {
    /// `place` is `NAMESPACE/NAME`.
    pub(crate) fn new(
        indexer: &dyn Indexer,
        id: &ResourceId,
        place: &str,
        revision: Revision,
        stored: Bytes,
    ) -> Self {
        let (namespace, name) = place.split_once('/').unwrap_or(("", place));
        let value = encoding::value_of(&stored).unwrap_or_default();
        let index = indexer.index(id, &value);
        Self { namespace: namespace.into(), name: name.into(), revision, stored, index }
    }

    /// The same state under another revision: what a DELETED event shows.
    pub fn at(&self, revision: Revision) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            revision,
            stored: self.stored.clone(),
            index: self.index.clone(),
        }
    }

    /// Appends everything behind `{"kind":…,"apiVersion":…,`, or behind `{` for
    /// an item of a list: the fields, with the resource version, and `}`.
    pub fn write_fields(&self, out: &mut Vec<u8>) {
        encoding::write_fields(out, &self.stored, self.revision.get());
    }

    /// Bytes that [`Object::write_fields`] appends, or a few more.
    pub fn size(&self) -> usize {
        self.stored.len() + 48
    }

    /// The object as JSON with its resource version; without kind and apiVersion.
    pub fn value(&self) -> Value {
        let mut value = encoding::value_of(&self.stored).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        value
    }

    /// The bytes as the store has them.
    pub fn stored(&self) -> &Bytes {
        &self.stored
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.index.labels;
        let found = labels.binary_search_by(|(found, _)| (**found).cmp(key)).ok()?;
        labels.get(found).map(|(_, value)| &**value)
    }

    /// The value of a selectable field; empty if the resource has no such field.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => &self.name,
            "metadata.namespace" => &self.namespace,
            _ => self.index.fields.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value),
        }
    }
}
