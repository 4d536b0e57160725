//! All that one side has, as the other side has it: for moving a store as a whole.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use sternpost_cache::Share;
use sternpost_layout::{NODE_PORTS, Ports};
use sternpost_store::Entry;

use crate::{
    Encrypting,
    view::{Unreadable, View, claimed_port, resource_at},
};

/// Between the keys and values of this server and those of kube-apiserver. Knows the kinds of custom objects from the
/// definitions that it has seen.
#[derive(Debug)]
pub struct Translation(View);

/// What a key of kube-apiserver's is here.
#[derive(Debug)]
pub enum Theirs {
    /// An object, or all claims of node ports.
    Ours(Vec<Entry>),
    /// No object, or of a kind that is not served.
    Nothing,
    Unreadable(Unreadable),
}

/// Something of ours that has no form of kube-apiserver's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` cannot be written as kube-apiserver would: {reason}")]
pub struct Unwritable {
    pub key: String,
    pub reason: String,
}

impl Translation {
    /// `prefix` stands before all keys of kube-apiserver's, and ends in a slash: values are encrypted for their whole key.
    pub fn new(prefix: String, encryption: Arc<dyn Encrypting>) -> Self {
        Self(View::new(prefix, encryption, Share::default()))
    }

    /// What kube-apiserver's entry is here.
    pub fn ours(&self, theirs: &Entry) -> Theirs {
        match self.0.entries(theirs) {
            Err(error) => Theirs::Unreadable(error),
            // There may be no port that is taken.
            Ok(entries) if entries.is_empty() && theirs.key() != NODE_PORTS.as_bytes() => Theirs::Nothing,
            Ok(entries) => Theirs::Ours(entries),
        }
    }

    /// Keys and values that kube-apiserver would have for all of ours, handed over one by one. Claims of node ports
    /// become one value, the last one, with this range.
    pub fn theirs(
        &self,
        ours: &[Entry],
        node_ports: RangeInclusive<u16>,
        mut found: impl FnMut(Bytes, Bytes),
    ) -> Result<(), Unwritable> {
        let unwritable = |entry: &Entry, reason: String| Unwritable {
            key: String::from_utf8_lossy(entry.key()).into_owned(),
            reason,
        };
        // Custom objects need not come behind their definitions.
        for entry in ours {
            self.0.learn(entry.key(), entry.value());
        }
        let mut taken = BTreeSet::new();
        for entry in ours {
            if let Some(port) = claimed_port(entry.key()) {
                if !node_ports.contains(&port) {
                    let (first, last) = (node_ports.start(), node_ports.end());
                    let reason = format!("node port {port} is not in the range {first}-{last}");
                    return Err(unwritable(entry, reason));
                }
                taken.insert(port);
                continue;
            }
            let key = self.0.layout.key(entry.key());
            let key = key.map_err(|error| unwritable(entry, error.to_string()))?;
            let value = self.0.value(entry.key(), &key, entry.value());
            found(key, value.map_err(|reason| unwritable(entry, reason))?);
        }
        let mut ports = Ports::free(node_ports);
        ports.taken = taken;
        found(Bytes::from_static(NODE_PORTS.as_bytes()), ports.value());
        Ok(())
    }

    /// Group and resource of what kube-apiserver has at a key; `None` if that is no object, or of a kind that is not
    /// served.
    pub fn resource(&self, theirs: &[u8]) -> Option<(String, String)> {
        resource_at(&self.0.layout, theirs)
    }

    /// The value of kube-apiserver's without its encryption.
    pub fn opened(&self, theirs: &Entry) -> Result<Bytes, String> {
        let resource = self.resource(theirs.key()).unwrap_or_default();
        let place = self.0.place(theirs.key());
        let opened = self.0.open((&resource.0, &resource.1), place.as_bytes(), theirs.value())?;
        Ok(opened.map_or_else(|| Bytes::copy_from_slice(theirs.value()), Bytes::from))
    }
}
