//! One object as the cache holds it.

use serde::de::DeserializeOwned;
use serde_json::Value;
use sternpost_store::{Entry, Revision};

use crate::{
    encoding::{self, Metadata},
    key::ResourceId,
    pairs::Pairs,
};

/// A stored object at one revision. Shared by all who read it.
#[derive(Debug)]
pub struct Object {
    /// As the store has it: nothing is copied.
    entry: Entry,
    /// Where in the key `NAMESPACE/NAME` begins.
    place: usize,
    pub revision: Revision,
    labels: Pairs,
    /// Values of the resource's selectable fields beyond name and namespace, by name.
    fields: Pairs,
    /// Being deleted, but not gone yet.
    pub terminating: bool,
    /// Not what the store has by now: that cannot be read yet.
    pub(crate) outdated: bool,
}

/// Knows which fields of a resource can be selected by.
pub trait Indexer: Send + Sync {
    /// `stored` is an object in its stored form, see [`crate::value_of`].
    fn fields(&self, id: &ResourceId, stored: &[u8]) -> Pairs;
}

impl Object {
    /// `place` is where `NAMESPACE/NAME` begins in the entry's key.
    pub(crate) fn new(
        indexer: &dyn Indexer,
        id: &ResourceId,
        place: usize,
        revision: Revision,
        entry: Entry,
    ) -> Self {
        let Metadata { labels, terminating } = Metadata::of(entry.value());
        let fields = indexer.fields(id, entry.value());
        Self { entry, place, revision, labels, fields, terminating, outdated: false }
    }

    /// The same state under another revision: what a DELETED event shows.
    pub fn at(&self, revision: Revision) -> Self {
        Self {
            entry: self.entry.clone(),
            place: self.place,
            revision,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            terminating: self.terminating,
            outdated: self.outdated,
        }
    }

    /// The same, when what the store has in its place cannot be read yet.
    pub(crate) fn outdated(&self) -> Self {
        Self { outdated: true, ..self.at(self.revision) }
    }

    /// Empty at the cluster scope.
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// `NAMESPACE/NAME`, which is what lists are ordered by.
    pub fn place(&self) -> &str {
        // Keys that are no text are not taken into the cache.
        std::str::from_utf8(self.place_bytes()).unwrap_or_default()
    }

    pub(crate) fn place_bytes(&self) -> &[u8] {
        self.entry.key().get(self.place..).unwrap_or_default()
    }

    fn parts(&self) -> (&str, &str) {
        let place = self.place();
        place.split_once('/').unwrap_or(("", place))
    }

    /// Appends everything behind `{"kind":…,"apiVersion":…,`, or behind `{` for
    /// an item of a list: the fields, with the resource version, and `}`.
    pub fn write_fields(&self, out: &mut Vec<u8>) {
        encoding::write_fields(out, self.entry.value(), self.revision);
    }

    /// Bytes that [`Object::write_fields`] appends.
    pub fn size(&self) -> usize {
        encoding::fields_size(self.entry.value(), self.revision)
    }

    /// The object as JSON with its resource version; without kind and apiVersion.
    pub fn value(&self) -> Value {
        let mut value = encoding::value_of(self.entry.value()).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        value
    }

    /// Reads only what `T` has of the object; `None` if it does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        encoding::read(self.entry.value())
    }

    /// The version it was stored in, if its kind keeps it.
    pub fn stored_version(&self) -> Option<&str> {
        encoding::version_of(self.entry.value())
    }

    /// Whether the text of the object has this in it: cheaper than reading it.
    pub fn mentions(&self, text: &str) -> bool {
        encoding::text_of(self.entry.value()).is_none_or(|stored| stored.contains(text))
    }

    /// The revision at which it was made.
    pub fn created(&self) -> Revision {
        self.entry.created
    }

    /// The bytes as the store has them.
    pub fn stored(&self) -> &[u8] {
        self.entry.value()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The value of a selectable field; empty if the resource has no such field.
    pub fn field(&self, name: &str) -> &str {
        match name {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            _ => self.fields.get(name).unwrap_or_default(),
        }
    }
}
