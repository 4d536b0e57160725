//! The mark of an etcd that is being filled by `migrate` or `restore`: there from before the first key is written until all
//! of them were read back. What has it is served by nobody, and is known to be nobody else's.

use anyhow::Context;
use serde_json::{Value, json};
use sternpost_registry::object::Fields;
use sternpost_store::{Bytes, Entry, Revision, Store};

use crate::error::Hinted;

/// Below the prefix. No object has such a key: behind a group comes a resource, and then a name.
pub const KEY: Bytes = Bytes::from_static(b"sternpost.dev/unfinished");

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// What is put there: the sum of all keys and values where they come from.
    pub source: String,
    /// So many of the keys, in their order, have been written; some may have been taken out again.
    pub keys: usize,
}

/// A mark that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub unfinished: Unfinished,
    pub created: Revision,
    pub modified: Revision,
}

impl Unfinished {
    pub fn value(&self) -> Bytes {
        json!({"source": self.source, "keys": self.keys}).to_string().into()
    }
}

impl Mark {
    pub fn of(entry: &Entry) -> Self {
        // Something else in its place has no source, and is what nobody goes on with.
        let value: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
        let keys = value.field("keys").as_u64().and_then(|keys| usize::try_from(keys).ok());
        let unfinished =
            Unfinished { source: value.text("source").to_owned(), keys: keys.unwrap_or_default() };
        Self { unfinished, created: entry.created, modified: entry.modified }
    }
}

pub async fn find(store: &dyn Store) -> anyhow::Result<Option<Mark>> {
    let found = store.get(KEY, None).await.context("cannot read etcd")?;
    Ok(found.entry.as_ref().map(Mark::of))
}

/// Why nothing is read from there.
pub fn refused(place: &str) -> anyhow::Error {
    Hinted {
        message: format!(
            "{place} holds a part of something: a `sternpost migrate` or `restore` to it was interrupted"
        ),
        hint: "run that again as it was: it takes out what is there, and begins anew".into(),
    }
    .into()
}
