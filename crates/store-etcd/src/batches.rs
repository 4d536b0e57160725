//! Events of etcd, put together by their revision.

use std::sync::Arc;

use sternpost_store::{Changes, Event, KeyRange, Revision, watch::Batch};

use crate::{
    convert::{Malformed, Prefix, revision},
    messages::{self, EventType},
};

/// Takes events as they come, and gives back what one revision changed, all of it together.
#[derive(Debug)]
pub struct Batches {
    prefix: Prefix,
    range: KeyRange,
    /// Everything up to here was given back, or is not wanted.
    delivered: Revision,
    /// Of the revision that may not be complete, which is newer.
    open: Option<(Revision, Vec<Event>)>,
}

/// Why events cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// What a key was before is compacted already.
    #[error("history was forgotten")]
    Forgotten,
}

impl Batches {
    pub fn new(prefix: Prefix, range: KeyRange, after: Revision) -> Self {
        Self { prefix, range, delivered: after, open: None }
    }

    pub fn delivered(&self) -> Revision {
        self.delivered
    }

    /// Forgets what came of a revision that is not complete: a new stream begins with it again.
    pub fn restart(&mut self) {
        self.open = None;
    }

    /// Nothing is to come up to here.
    pub fn skip_to(&mut self, revision: Revision) {
        self.delivered = self.delivered.max(revision);
    }

    /// An event more. What it completes is the revision before its own.
    pub fn push(&mut self, event: &messages::Event) -> Result<Option<Changes>, BatchError> {
        let kv = event.kv.as_ref().ok_or(Malformed("an event without a key"))?;
        let at = revision(kv.mod_revision)?;
        if at <= self.delivered {
            return Ok(None);
        }
        let mut complete = None;
        if let Some((open, _)) = &self.open {
            if at < *open {
                return Err(Malformed("revisions that go back").into());
            }
            if at > *open {
                complete = self.complete();
            }
        }
        let previous = event.prev_kv.as_ref().map(|previous| self.prefix.entry(previous)).transpose()?;
        let event = if event.r#type == i32::from(EventType::Delete) {
            Event::Delete { previous: previous.ok_or(BatchError::Forgotten)? }
        } else {
            let entry = self.prefix.entry(kv)?;
            if previous.is_none() && entry.created < entry.modified {
                return Err(BatchError::Forgotten);
            }
            Event::Put { entry, previous }
        };
        let (_, events) = self.open.get_or_insert_with(|| (at, Vec::new()));
        if self.range.contains(event.key()) {
            events.push(event);
        }
        Ok(complete)
    }

    /// The open revision has no more events.
    pub fn complete(&mut self) -> Option<Changes> {
        let (revision, mut events) = self.open.take()?;
        self.delivered = revision;
        events.sort_by(|left, right| left.key().cmp(right.key()));
        // The time is for the retention of stores that forget by themselves.
        Changes::of(&Arc::new(Batch { revision, time: 0, events }), &self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, messages::KeyValue};

    fn kv(key: &'static str, created: i64, modified: i64) -> KeyValue {
        let key = Bytes::from(key);
        KeyValue {
            key,
            create_revision: created,
            mod_revision: modified,
            value: Bytes::new(),
            ..KeyValue::default()
        }
    }

    fn put(key: &'static str, revision: i64) -> messages::Event {
        messages::Event { r#type: 0, kv: Some(kv(key, revision, revision)), prev_kv: None }
    }

    fn batches() -> Batches {
        Batches::new(Prefix::new(Bytes::from("p/")), KeyRange::all(), Revision::new(4).unwrap())
    }

    fn keys(changes: Option<Changes>) -> Option<(u64, Vec<String>)> {
        let changes = changes?;
        let keys = changes.events().iter().map(|event| String::from_utf8(event.key().to_vec()).unwrap());
        Some((changes.revision().get(), keys.collect()))
    }

    #[test]
    fn a_revision_is_complete_with_the_next_one_or_when_it_is_said() {
        let mut batches = batches();
        for event in [put("p/old", 3), put("p/old", 4), put("p/b", 6), put("p/a", 6)] {
            assert_eq!(batches.push(&event), Ok(None));
        }
        let complete = batches.push(&put("p/c", 7)).unwrap();
        assert_eq!(keys(complete), Some((6, vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(batches.delivered().get(), 6);
        let complete = batches.complete();
        assert_eq!(keys(complete), Some((7, vec!["c".to_owned()])));
        assert_eq!(batches.complete(), None);
    }

    #[test]
    fn what_a_broken_stream_had_of_a_revision_comes_again() {
        let mut batches = batches();
        batches.push(&put("p/a", 5)).unwrap();
        batches.restart();
        assert_eq!((batches.complete(), batches.delivered().get()), (None, 4));
        for event in [put("p/a", 5), put("p/b", 5)] {
            batches.push(&event).unwrap();
        }
        assert_eq!(keys(batches.complete()), Some((5, vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(batches.push(&put("p/b", 5)), Ok(None), "a repeat");
        assert_eq!(batches.complete(), None);
    }

    #[test]
    fn events_that_lack_something_are_refused() {
        let changed =
            messages::Event { r#type: 0, kv: Some(kv("p/a", 2, 5)), prev_kv: Some(kv("p/a", 2, 3)) };
        let without = |event: &messages::Event| messages::Event { prev_kv: None, ..event.clone() };
        let deleted = messages::Event { r#type: 1, ..changed.clone() };
        let outside = put("q/a", 5);
        let nothing = messages::Event::default();
        for (event, expected) in [
            (changed.clone(), Ok(None)),
            (without(&changed), Err(BatchError::Forgotten)),
            (deleted.clone(), Ok(None)),
            (without(&deleted), Err(BatchError::Forgotten)),
            (outside, Err(Malformed("a key outside of the prefix").into())),
            (nothing, Err(Malformed("an event without a key").into())),
            (put("p/a", -1), Err(Malformed("a revision that is not positive").into())),
        ] {
            assert_eq!(batches().push(&event), expected, "{event:?}");
        }
        let mut batches = batches();
        batches.push(&put("p/a", 6)).unwrap();
        assert_eq!(batches.push(&put("p/a", 5)), Err(Malformed("revisions that go back").into()));
    }
}
