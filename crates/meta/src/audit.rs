//! What is noted about a request while it is handled.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Notes about one request, by key.
#[derive(Debug, Default)]
pub struct Annotations(Mutex<BTreeMap<String, String>>);

impl Annotations {
    /// The first note of a key stays.
    pub fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(key.into())
            .or_insert_with(|| value.into());
    }

    /// All there is, sorted.
    pub fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_note_stays() {
        let notes = Annotations::default();
        notes.add("b", "1");
        notes.add("a", "2");
        notes.add("b", "3");
        let expected = [("a", "2"), ("b", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(notes.take(), BTreeMap::from(expected));
        assert!(notes.take().is_empty());
    }
}
