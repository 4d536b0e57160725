//! Objects by label, so that a selection of few does not look at all.
//!
//! Only for keys that were selected by: the first selection builds the index of
//! its key, later ones bring it up to date with the events since.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeBounds,
    sync::Arc,
};

use crate::{
    event::{Event, EventKind},
    object::Object,
    resource::{ByPlace, Places, Seen, Snapshot},
};

/// Keys of one resource that have an index. The one not used for longest makes
/// room for another; building it again costs what the selection would have.
pub const MAX_INDEXED_LABELS: usize = 8;

/// A label, and values of which the object has to have one.
#[derive(Debug, Clone, Copy)]
pub struct Labelled<'a> {
    pub key: &'a str,
    pub values: &'a [String],
}

#[derive(Debug)]
pub(crate) struct LabelIndex {
    /// The one used last is last.
    keys: Vec<KeyIndex>,
    /// The state that all keys show.
    pub seen: Seen,
}

#[derive(Debug)]
struct KeyIndex {
    key: Box<str>,
    values: HashMap<Box<str>, BTreeSet<ByPlace>>,
}

impl LabelIndex {
    /// Of the first state of a resource.
    pub fn new(seen: Seen) -> Self {
        Self { keys: Vec::new(), seen }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn clear(&mut self) {
        self.keys.clear();
    }

    /// Applies an event that is newer than what is here.
    pub fn apply(&mut self, event: &Event) {
        for index in &mut self.keys {
            if let Some(previous) = &event.previous {
                index.remove(previous);
            }
            if event.kind != EventKind::Deleted {
                index.insert(&event.object);
            }
        }
        self.seen.revision = event.revision;
    }

    /// The objects that have one of the labels' values, in order; for the label
    /// that leaves the fewest. `snapshot` is the state that the index shows.
    pub fn select(
        &mut self,
        snapshot: &Snapshot,
        labels: &[Labelled<'_>],
        namespace: Option<&str>,
        behind: Option<&str>,
    ) -> Vec<Arc<Object>> {
        let labels = labels.get(..MAX_INDEXED_LABELS.min(labels.len())).unwrap_or_default();
        for label in labels {
            self.prepare(snapshot, label.key);
        }
        let counted = labels.iter().map(|label| (self.sets(label).map(BTreeSet::len).sum::<usize>(), label));
        let Some((_, best)) = counted.min_by_key(|(count, _)| *count) else { return Vec::new() };
        let places = Places::new(namespace, behind);
        if places.is_empty() {
            return Vec::new();
        }
        let range = (places.start_bound(), places.end_bound());
        let found = self.sets(best).flat_map(|set| set.range::<[u8], _>(range));
        let mut found: Vec<Arc<Object>> = found.map(|object| object.0.clone()).collect();
        if best.values.len() > 1 {
            found.sort_by(|left, right| left.place_bytes().cmp(right.place_bytes()));
        }
        found
    }

    fn sets<'a>(&'a self, label: &'a Labelled<'_>) -> impl Iterator<Item = &'a BTreeSet<ByPlace>> {
        let index = self.keys.iter().find(|index| &*index.key == label.key);
        index.into_iter().flat_map(|index| label.values.iter().filter_map(|value| index.values.get(&**value)))
    }

    /// Makes sure that there is an index of `key`, and that it goes last.
    fn prepare(&mut self, snapshot: &Snapshot, key: &str) {
        let index = match self.keys.iter().position(|index| &*index.key == key) {
            Some(found) => self.keys.remove(found),
            None => {
                let mut index = KeyIndex { key: key.into(), values: HashMap::new() };
                for object in snapshot.iter(None, None) {
                    index.insert(object);
                }
                if self.keys.len() == MAX_INDEXED_LABELS {
                    self.keys.remove(0);
                }
                index
            }
        };
        self.keys.push(index);
    }
}

impl KeyIndex {
    fn insert(&mut self, object: &Arc<Object>) {
        let Some(value) = object.label(&self.key) else { return };
        let object = ByPlace(object.clone());
        match self.values.get_mut(value) {
            Some(set) => {
                set.replace(object);
            }
            None => {
                self.values.insert(value.into(), BTreeSet::from([object]));
            }
        }
    }

    fn remove(&mut self, object: &Object) {
        let Some(value) = object.label(&self.key) else { return };
        let Some(set) = self.values.get_mut(value) else { return };
        set.remove(object.place_bytes());
        if set.is_empty() {
            self.values.remove(value);
        }
    }
}
