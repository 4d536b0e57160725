//! Building the state from what a durable store has kept.
//!
//! A store hands over what was there when its history begins ([`Loader::base`]), then the changes
//! in order ([`Loader::change`]), and gets the [`Mvcc`] back. What does not follow from what came
//! before it is refused: it would be served as truth.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Event, Revision, mvcc::Mvcc, watch::Batch};

/// One event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub revision: Revision,
    pub key: Bytes,
    pub created: Revision,
    /// Milliseconds since 1970.
    pub time: u64,
    /// `None` for a delete.
    pub value: Option<Bytes>,
}

impl Version {
    /// `None` for a delete.
    pub fn into_entry(self) -> Option<Entry> {
        let Self { revision, key, created, value, .. } = self;
        value.map(|value| Entry::new(key, value, created, revision))
    }
}

#[derive(Debug)]
pub struct Loader {
    mvcc: Mvcc,
    settled: Revision,
    start: Revision,
    open: Option<Batch>,
}

impl Loader {
    /// History begins after `start`. Every entry of the base is as of `settled` or a later revision
    /// up to `start`, not all of them as of the same one: changes up to `settled` are left out, and
    /// those up to `start` bring the base up to there.
    pub fn new(settled: Revision, start: Revision) -> Self {
        Self { mvcc: Mvcc::starting_at(start, start), settled, start, open: None }
    }

    /// Adds what was there when the history begins. All of it before the first change.
    pub fn base(&mut self, version: Version) -> Result<(), &'static str> {
        if version.revision > self.start {
            return Err("a value is newer than the state it belongs to");
        }
        let entry = version.into_entry().ok_or("a deletion was kept too long")?;
        if self.current(entry.key()).is_some() {
            return Err("a replaced value was kept too long");
        }
        self.mvcc.load(entry);
        Ok(())
    }

    /// Adds a change. Those of one revision come one after the other.
    pub fn change(&mut self, version: Version) -> Result<(), &'static str> {
        if version.revision <= self.settled {
            return Ok(());
        }
        if version.revision <= self.start {
            self.bring_up(version);
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|batch| batch.revision != version.revision) {
            self.flush();
        }
        let (revision, time) = (version.revision, version.time);
        if revision <= self.mvcc.current() {
            return Err("a change comes after a later one");
        }
        let event = self.event(version).ok_or("a change does not follow from the one before it")?;
        // Most batches have one event, and all of them stay in memory.
        let batch = self.open.get_or_insert_with(|| Batch { revision, time, events: Vec::with_capacity(1) });
        if batch.events.last().is_some_and(|last| last.key() >= event.key()) {
            return Err("the changes of a revision are not in order");
        }
        batch.events.push(event);
        Ok(())
    }

    /// Forgets the history up to a revision that was handed over.
    pub fn compact(&mut self, to: Revision) -> Result<(), &'static str> {
        self.flush();
        self.mvcc.compact(to).map_err(|_| "history was forgotten that there is not")
    }

    pub fn newest(&self) -> Revision {
        self.open.as_ref().map_or(self.mvcc.current(), |batch| batch.revision)
    }

    /// The state, which gives out only revisions greater than `reserved`.
    pub fn finish(mut self, reserved: Revision) -> Mvcc {
        self.flush();
        self.mvcc.reserve(reserved);
        self.mvcc
    }

    fn flush(&mut self) {
        if let Some(batch) = self.open.take() {
            self.mvcc.apply(Arc::new(batch));
        }
    }

    /// A change that the base may have or not.
    fn bring_up(&mut self, version: Version) {
        if self.current(&version.key).is_some_and(|entry| entry.modified >= version.revision) {
            return;
        }
        let key = version.key.clone();
        match version.into_entry() {
            Some(entry) => self.mvcc.load(entry),
            None => self.mvcc.unload(&key),
        }
    }

    fn event(&self, version: Version) -> Option<Event> {
        let previous = self.current(&version.key);
        let created = previous.as_ref().map_or(version.revision, |previous| previous.created);
        if version.created != created {
            return None;
        }
        match version.value {
            Some(value) => {
                let entry = Entry::new(version.key, value, created, version.revision);
                Some(Event::Put { entry, previous })
            }
            None => previous.map(|previous| Event::Delete { previous }),
        }
    }

    fn current(&self, key: &[u8]) -> Option<Entry> {
        self.mvcc.get(key, None).ok().and_then(|found| found.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyRange;

    fn revision(number: u64) -> Revision {
        Revision::new(number).unwrap()
    }

    fn version(number: u64, key: &'static str, created: u64, value: Option<&'static str>) -> Version {
        let (revision, created) = (revision(number), revision(created));
        Version { revision, key: key.into(), created, time: 0, value: value.map(Bytes::from) }
    }

    fn live(mvcc: &Mvcc) -> Vec<(Bytes, Bytes)> {
        let page = mvcc.range(&KeyRange::all(), None, 100).unwrap();
        let copied = |entry: &Entry| (entry.key().to_vec().into(), entry.value().to_vec().into());
        page.entries.iter().map(copied).collect()
    }

    /// The base was read while history went on: some entries are as of 5, others as of 8.
    #[test]
    fn changes_bring_a_base_of_several_revisions_up_to_one() {
        let mut loader = Loader::new(revision(5), revision(8));
        for base in [
            version(3, "old", 3, Some("3")),
            version(7, "new", 2, Some("7")),
            version(4, "gone", 4, Some("4")),
        ] {
            loader.base(base).unwrap();
        }
        for change in [
            version(4, "never", 4, Some("settled: not looked at")),
            version(6, "old", 3, Some("6")),
            version(6, "passing", 6, Some("6")),
            version(7, "new", 2, Some("7")),
            version(7, "passing", 6, None),
            version(8, "gone", 4, None),
            version(9, "old", 3, Some("9")),
        ] {
            loader.change(change).unwrap();
        }
        assert_eq!(loader.newest(), revision(9));
        let mvcc = loader.finish(revision(20));
        assert_eq!(live(&mvcc), [("new".into(), "7".into()), ("old".into(), "9".into())]);
        assert_eq!((mvcc.compacted(), mvcc.current()), (revision(8), revision(9)));
        let previous = mvcc.after(revision(8)).next().unwrap().events[0].previous().unwrap().clone();
        assert_eq!(previous.value(), b"6");
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let loader = || {
            let mut loader = Loader::new(revision(5), revision(5));
            loader.base(version(3, "a", 3, Some("1"))).unwrap();
            loader.change(version(7, "b", 7, Some("1"))).unwrap();
            loader
        };
        for (what, wrong) in [
            ("made again", version(8, "a", 8, Some("2"))),
            ("of another making", version(8, "a", 4, Some("2"))),
            ("a deletion of nothing", version(8, "c", 8, None)),
            ("out of order", version(6, "c", 6, Some("1"))),
            ("twice", version(7, "b", 7, Some("1"))),
            ("keys out of order", version(7, "a", 3, Some("1"))),
        ] {
            assert!(loader().change(wrong).is_err(), "{what}");
        }
        for (what, wrong) in [
            ("newer than the state", version(6, "c", 6, Some("1"))),
            ("a deletion", version(4, "c", 4, None)),
            ("twice", version(4, "a", 3, Some("2"))),
        ] {
            assert!(loader().base(wrong).is_err(), "{what}");
        }
        assert!(loader().compact(revision(8)).is_err());
    }
}
