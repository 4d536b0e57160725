//! What is due when.

use std::collections::{BTreeMap, BTreeSet};

/// Keys, each with the one time at which it is due, in the order of those times. It holds no more than there
/// are different keys; whoever fills it bounds these. Everything takes the logarithm of their number.
///
/// The times are those of any one clock: [`crate::Instant`] or [`crate::machine::Instant`].
#[derive(Debug, Clone)]
pub struct DueQueue<T, K, V = ()> {
    by_key: BTreeMap<K, (T, V)>,
    by_time: BTreeSet<(T, K)>,
}

impl<T, K, V> Default for DueQueue<T, K, V> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<T: Ord + Copy, K: Ord + Clone, V> DueQueue<T, K, V> {
    /// Lets a key be due then, whenever it was before.
    pub fn insert(&mut self, key: K, due: T, value: V) {
        if let Some((before, _)) = self.by_key.insert(key.clone(), (due, value)) {
            self.by_time.remove(&(before, key.clone()));
        }
        self.by_time.insert((due, key));
    }

    /// Lets a key be due then, unless it is due before.
    pub fn insert_earlier(&mut self, key: K, due: T, value: V) {
        if self.due(&key).is_none_or(|before| before > due) {
            self.insert(key, due, value);
        }
    }

    /// When a key is due, if it is.
    pub fn due(&self, key: &K) -> Option<T> {
        self.by_key.get(key).map(|(due, _)| *due)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (key, (due, value)) = self.by_key.remove_entry(key)?;
        self.by_time.remove(&(due, key));
        Some(value)
    }

    /// When the first is due.
    pub fn next(&self) -> Option<T> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Takes out the first, if it is due by `now`.
    pub fn pop(&mut self, now: T) -> Option<(K, V)> {
        self.next().filter(|due| *due <= now)?;
        let (_, key) = self.by_time.pop_first()?;
        let (key, (_, value)) = self.by_key.remove_entry(&key)?;
        Some((key, value))
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8, u8),
        InsertEarlier(u8, u8),
        Remove(u8),
        Pop(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (key, due) = (0..8_u8, 0..16_u8);
        prop_oneof![
            (key.clone(), due.clone()).prop_map(|(key, due)| Step::Insert(key, due)),
            (key.clone(), due.clone()).prop_map(|(key, due)| Step::InsertEarlier(key, due)),
            key.prop_map(Step::Remove),
            due.prop_map(Step::Pop),
        ]
    }

    proptest! {
        /// Against a list that is looked through: the first is that of the least time, then of the least key.
        #[test]
        fn it_is_as_a_list_would_be(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = DueQueue::default();
            let mut list: Vec<(u8, u8, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(key, due) => {
                        queue.insert(key, due, number);
                        list.retain(|(_, known, _)| *known != key);
                        list.push((due, key, number));
                    }
                    Step::InsertEarlier(key, due) => {
                        queue.insert_earlier(key, due, number);
                        if !list.iter().any(|(before, known, _)| *known == key && *before <= due) {
                            list.retain(|(_, known, _)| *known != key);
                            list.push((due, key, number));
                        }
                    }
                    Step::Remove(key) => {
                        let known = list.iter().position(|(_, known, _)| *known == key);
                        prop_assert_eq!(queue.remove(&key), known.map(|index| list.remove(index).2));
                    }
                    Step::Pop(now) => {
                        let first = list.iter().min().copied().filter(|(due, ..)| *due <= now);
                        list.retain(|entry| Some(*entry) != first);
                        prop_assert_eq!(queue.pop(now), first.map(|(_, key, number)| (key, number)));
                    }
                }
                prop_assert_eq!(queue.next(), list.iter().map(|(due, ..)| *due).min());
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
                for (due, key, _) in &list {
                    prop_assert_eq!(queue.due(key), Some(*due));
                }
            }
        }
    }
}
