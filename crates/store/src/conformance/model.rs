//! What a store should do, in the most naive way.

use std::collections::BTreeMap;

use crate::{Bytes, Committed, Entry, Event, KeyRange, Revision, Transaction, Write};

pub type State = BTreeMap<Bytes, Entry>;

/// Every state there ever was, in full.
#[derive(Clone, Debug)]
pub struct Model {
    steps: Vec<Step>,
    pub compacted: Revision,
}

#[derive(Clone, Debug)]
struct Step {
    revision: Revision,
    state: State,
    events: Vec<Event>,
}

/// What a transaction does; revisions of changes are the store's to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Conflict(Vec<Option<Entry>>),
    Unchanged,
    Changed,
}

impl Default for Model {
    fn default() -> Self {
        let first = Step { revision: Revision::FIRST, state: State::new(), events: Vec::new() };
        Self { steps: vec![first], compacted: Revision::FIRST }
    }
}

impl Model {
    pub fn current(&self) -> Revision {
        self.steps.last().unwrap().revision
    }

    pub fn state(&self) -> &State {
        &self.steps.last().unwrap().state
    }

    /// The state at a revision, which may lie between two changes.
    pub fn state_at(&self, at: Revision) -> &State {
        &self.steps.iter().rev().find(|step| step.revision <= at).unwrap().state
    }

    pub fn entries_at(&self, range: &KeyRange, at: Revision) -> Vec<Entry> {
        self.state_at(at).values().filter(|entry| range.contains(entry.key())).cloned().collect()
    }

    pub fn events_after(&self, range: &KeyRange, after: Revision) -> Vec<(Revision, Event)> {
        let steps = self.steps.iter().filter(|step| step.revision > after);
        let all = steps.flat_map(|step| step.events.iter().map(|event| (step.revision, event.clone())));
        all.filter(|(_, event)| range.contains(event.key())).collect()
    }

    pub fn expect(&self, transaction: &Transaction) -> Expected {
        expect(self.state(), transaction)
    }

    /// Applies a transaction that was found to change something.
    pub fn apply(&mut self, transaction: &Transaction, revision: Revision) {
        assert!(revision > self.current(), "revision {revision} after {}", self.current());
        let mut state = self.state().clone();
        let mut events = Vec::new();
        for write in &transaction.writes {
            let previous = state.get(write.key()).cloned();
            match write {
                Write::Put { key, value, .. } => {
                    let created = previous.as_ref().map_or(revision, |entry| entry.created);
                    let entry = Entry::new(key.clone(), value.clone(), created, revision);
                    state.insert(key.clone(), entry.clone());
                    events.push(Event::Put { entry, previous });
                }
                Write::Delete { key } => {
                    if let Some(previous) = previous {
                        state.remove(key);
                        events.push(Event::Delete { previous });
                    }
                }
            }
        }
        assert!(!events.is_empty());
        events.sort_by(|left, right| left.key().cmp(right.key()));
        self.steps.push(Step { revision, state, events });
    }

    /// The revisions of all changes, and the first one.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> {
        self.steps.iter().map(|step| step.revision)
    }

    /// A revision between the compacted and the current one, by index.
    pub fn some_retained(&self, pick: u64) -> Revision {
        let span = self.current().get() - self.compacted.get() + 1;
        Revision::new(self.compacted.get() + pick % span).unwrap()
    }
}

pub fn expect(state: &State, transaction: &Transaction) -> Expected {
    let compared: Vec<_> =
        transaction.compares.iter().map(|compare| state.get(compare.key()).cloned()).collect();
    let holds =
        transaction.compares.iter().zip(&compared).all(|(compare, found)| compare.holds(found.as_ref()));
    if !holds {
        return Expected::Conflict(compared);
    }
    let is_effective = |write: &Write| matches!(write, Write::Put { .. }) || state.contains_key(write.key());
    if transaction.writes.iter().any(is_effective) { Expected::Changed } else { Expected::Unchanged }
}

impl Expected {
    /// Whether an answer says so, in a store whose newest revision before it was `current`.
    pub fn check(&self, answer: &Committed, current: Revision) {
        match self {
            Self::Conflict(_) => panic!("{answer:?}, but a compare does not hold: {self:?}"),
            Self::Unchanged => assert_eq!(*answer, Committed { revision: current, changed: false }),
            Self::Changed => {
                assert!(answer.changed && answer.revision > current, "{answer:?} after {current}");
            }
        }
    }
}
