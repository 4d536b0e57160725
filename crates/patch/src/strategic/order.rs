//! In which order the items of a merged list stand.
//!
//! Items are told apart by number: equal keys, equal numbers.

use std::collections::HashMap;

use serde_json::Value;

/// A number for each different value.
pub(super) struct Ids<'a> {
    known: Vec<&'a Value>,
    /// Kept once there are too many to look through.
    index: HashMap<&'a Value, usize>,
}

/// Up to here looking through is faster than hashing.
const FEW: usize = 16;

impl<'a> Ids<'a> {
    pub(super) fn new() -> Self {
        Self { known: Vec::new(), index: HashMap::new() }
    }

    pub(super) fn of(&mut self, value: &'a Value) -> usize {
        let found = if self.known.len() <= FEW {
            self.known.iter().position(|known| *known == value)
        } else {
            if self.index.is_empty() {
                self.index.extend(self.known.iter().enumerate().map(|(id, known)| (*known, id)));
            }
            self.index.get(value).copied()
        };
        found.unwrap_or_else(|| {
            let id = self.known.len();
            self.known.push(value);
            if !self.index.is_empty() {
                self.index.insert(value, id);
            }
            id
        })
    }

    /// How many different values there were.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

/// An item and its number.
pub(super) struct Item {
    pub(super) id: usize,
    pub(super) value: Value,
    /// Says only that something is to be deleted; such items stand last.
    pub(super) deletes: bool,
}

/// Sorts items: those that `wanted` has stand as there; the others stand as
/// in `server`, each before the first wanted item that follows it there.
pub(super) fn arrange(items: Vec<Item>, wanted: &[usize], server: &[usize]) -> Vec<Item> {
    let wanted = Positions::new(wanted);
    let server = Positions::new(server);
    let (mut asked, mut others): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| wanted.of(item.id).is_some());
    asked.sort_by_key(|item| (item.deletes, wanted.of(item.id)));
    others.sort_by_key(|item| (item.deletes, server.of(item.id)));

    let mut arranged = Vec::with_capacity(asked.len() + others.len());
    let (mut asked, mut others) = (asked.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let others_first = match (others.peek(), asked.peek()) {
            (Some(other), Some(asked)) => {
                matches!((server.of(other.id), server.of(asked.id)), (Some(other), Some(asked)) if other < asked)
            }
            (None, None) => return arranged,
            (other, _) => other.is_some(),
        };
        arranged.extend(if others_first { others.next() } else { asked.next() });
    }
}

/// Where each number stands first.
struct Positions(Vec<Option<usize>>);

impl Positions {
    fn new(order: &[usize]) -> Self {
        let mut positions = vec![None; order.iter().max().map_or(0, |id| id + 1)];
        for (position, id) in order.iter().enumerate() {
            if let Some(slot @ None) = positions.get_mut(*id) {
                *slot = Some(position);
            }
        }
        Self(positions)
    }

    fn of(&self, id: usize) -> Option<usize> {
        self.0.get(id).copied().flatten()
    }
}
