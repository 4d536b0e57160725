//! Warnings: what a client is told beside the answer to its request.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// Texts for the `Warning` headers of one request. They reach the client whatever becomes of the request.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    pub fn extend(&self, texts: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(texts);
    }

    /// All there are, in the order in which they were first added. What is tried again warns again, and
    /// the client reads it once.
    pub fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut seen = HashSet::new();
        all.retain(|text| seen.insert(text.clone()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_once_where_it_was_first() {
        let warnings = Warnings::default();
        warnings.add("b");
        warnings.extend(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
        assert_eq!(warnings.take(), ["b", "a", "c"]);
        assert!(warnings.take().is_empty());
    }
}
