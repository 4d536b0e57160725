//! All keys with their recent versions, in memory. Pure: no locks, clocks or I/O.
//!
//! A change goes through two steps, so that a durable store can write between
//! them: [`Mvcc::plan`] decides what a transaction does on top of those already
//! [`Pending`], and [`Mvcc::apply`] makes it readable.
//!
//! Invariants: the log holds the batches after `compacted`, in order; a chain
//! holds the version that was current at `compacted`, unless that is a
//! deletion, and all later ones.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use crate::{
    CommitError, Committed, Entry, Event, GetAnswer, KeyRange, Page, ReadError, Revision, Stopped,
    Transaction, Write, read::MAX_PAGE, retention::Retention, watch::Batch,
};

/// Batches that every commit may drop from the history beyond those it adds.
/// Larger than zero so that history shrinks, small so that no commit pays for much.
const DROP_PER_COMMIT: usize = 64;

/// What one event costs in memory besides key and values; rounded up.
const EVENT_OVERHEAD: usize = 192;

#[derive(Debug)]
pub struct Mvcc {
    keys: BTreeMap<Bytes, Chain>,
    log: VecDeque<Arc<Batch>>,
    log_events: usize,
    log_bytes: usize,
    current: Revision,
    compacted: Revision,
    /// Revisions up to here are never given out, though they may be unused.
    reserved: Revision,
}

/// The retained versions of one key, oldest first; the newest apart, as most
/// keys have only that one.
#[derive(Debug)]
struct Chain {
    #[expect(clippy::box_collection, reason = "the many keys without older versions pay one pointer")]
    older: Option<Box<Vec<Version>>>,
    newest: Version,
}

#[derive(Clone, Debug)]
enum Version {
    Put(Entry),
    /// The key was deleted at this revision.
    Deleted(Revision),
}

/// Transactions that were decided and not yet applied.
#[derive(Debug, Default)]
pub struct Pending {
    changed: HashMap<Bytes, Option<Entry>>,
    batches: Vec<Arc<Batch>>,
}

impl Default for Mvcc {
    fn default() -> Self {
        Self::starting_at(Revision::FIRST, Revision::FIRST)
    }
}

impl Mvcc {
    /// An empty state whose history begins after `compacted`, and that gives out
    /// only revisions greater than `reserved`.
    pub fn starting_at(compacted: Revision, reserved: Revision) -> Self {
        Self {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            log_events: 0,
            log_bytes: 0,
            current: compacted,
            compacted,
            reserved,
        }
    }

    /// Adds an entry that is as old as the start of the history or older.
    /// Only for loading, before anything is applied.
    pub fn load(&mut self, entry: Entry) {
        self.keys.insert(entry.key.clone(), Chain::new(Version::Put(entry)));
    }

    /// Takes out an entry that [`Mvcc::load`] has added. Only for loading, as that.
    pub fn unload(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// From now on only revisions greater than `reserved` are given out.
    pub fn reserve(&mut self, reserved: Revision) {
        self.reserved = reserved;
    }

    pub fn current(&self) -> Revision {
        self.current
    }

    /// The oldest revision that can be read and watched after.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The number of keys that exist now.
    pub fn live(&self) -> usize {
        self.keys.values().filter(|chain| !chain.newest.is_deleted()).count()
    }

    pub fn get(&self, key: &[u8], at: Option<Revision>) -> Result<GetAnswer, ReadError> {
        let revision = self.readable(at)?;
        let entry = self.keys.get(key).and_then(|chain| chain.entry(revision));
        Ok(GetAnswer { entry, revision })
    }

    pub fn range(&self, range: &KeyRange, at: Option<Revision>, limit: usize) -> Result<Page, ReadError> {
        let revision = self.readable(at)?;
        let mut page = Page { entries: Vec::new(), revision, more: false };
        // `BTreeMap::range` panics on a range that ends before it starts.
        if range.is_empty() {
            return Ok(page);
        }
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.keys.range::<Bytes, _>((Bound::Included(range.start()), end));
        let mut entries = keys.filter_map(|(_, chain)| chain.entry(revision));
        page.entries.extend(entries.by_ref().take(limit.min(MAX_PAGE)));
        page.more = entries.next().is_some();
        Ok(page)
    }

    /// Looks at `limit` keys behind `after`: those that existed when the history begins, and the last
    /// key that was looked at, if there may be more behind it.
    pub fn base(&self, after: Option<&Bytes>, limit: usize) -> (Vec<Entry>, Option<Bytes>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut entries, mut last, mut seen) = (Vec::new(), None, 0);
        for (key, chain) in self.keys.range::<Bytes, _>((start, Bound::Unbounded)).take(limit) {
            entries.extend(chain.entry(self.compacted));
            seen += 1;
            last = Some(key);
        }
        (entries, last.filter(|_| seen == limit).cloned())
    }

    /// Checks that a watch may start there.
    pub fn watchable(&self, after: Revision) -> Result<(), ReadError> {
        self.readable(Some(after)).map(drop)
    }

    /// The batches after a revision, which must not be compacted.
    pub fn after(&self, after: Revision) -> impl ExactSizeIterator<Item = &Arc<Batch>> {
        let start = self.log.partition_point(|batch| batch.revision <= after);
        self.log.range(start..)
    }

    /// Decides what a transaction does after all that is pending.
    pub fn plan(
        &self,
        pending: &mut Pending,
        transaction: Transaction,
        time: u64,
    ) -> Result<Committed, CommitError> {
        transaction.check()?;
        let last = pending.batches.last().map_or(self.current, |batch| batch.revision);
        let current = |pending: &Pending, key: &Bytes| match pending.changed.get(key) {
            Some(changed) => changed.clone(),
            None => self.keys.get(key).and_then(|chain| chain.entry(Revision::LAST)),
        };

        let compared: Vec<Option<Entry>> =
            transaction.compares.iter().map(|compare| current(pending, compare.key())).collect();
        if !transaction.compares.iter().zip(&compared).all(|(compare, found)| compare.holds(found.as_ref())) {
            return Err(CommitError::Conflict { revision: last, current: compared });
        }

        let revision = last.max(self.reserved).plus(1).ok_or_else(exhausted)?;
        let previous: Vec<Option<Entry>> =
            transaction.writes.iter().map(|write| current(pending, write.key())).collect();
        let mut events: Vec<Event> = transaction
            .writes
            .into_iter()
            .zip(&previous)
            .filter_map(|(write, previous)| event(write, previous.clone(), revision))
            .collect();
        if events.is_empty() {
            return Ok(Committed { revision: last, changed: false, previous });
        }
        events.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        // Kept as long as the history: no larger than it has to be.
        events.shrink_to_fit();
        for event in &events {
            pending.changed.insert(event.key().clone(), event.entry().cloned());
        }
        pending.batches.push(Arc::new(Batch { revision, time, events }));
        Ok(Committed { revision, changed: true, previous })
    }

    /// Makes a batch readable. Its revision is greater than the current one.
    pub fn apply(&mut self, batch: Arc<Batch>) {
        debug_assert!(batch.revision > self.current, "{} after {}", batch.revision, self.current);
        for event in &batch.events {
            let version = match event {
                Event::Put { entry, .. } => Version::Put(entry.clone()),
                Event::Delete { .. } => Version::Deleted(batch.revision),
            };
            match self.keys.get_mut(event.key()) {
                Some(chain) => chain.push(version),
                None => {
                    self.keys.insert(event.key().clone(), Chain::new(version));
                }
            }
        }
        self.current = batch.revision;
        self.log_events += batch.events.len();
        self.log_bytes += cost(&batch);
        self.log.push_back(batch);
    }

    /// How far the history may be shortened now that `added` batches come in.
    pub fn expired(&self, retention: &Retention, added: usize, now: u64) -> Option<Revision> {
        let mut events = self.log_events;
        let mut bytes = self.log_bytes;
        let mut to = None;
        for batch in self.log.iter().take(added.saturating_mul(2).saturating_add(DROP_PER_COMMIT)) {
            let age = Duration::from_millis(now.saturating_sub(batch.time));
            if age <= retention.max_age && events <= retention.max_events && bytes <= retention.max_bytes {
                break;
            }
            events -= batch.events.len();
            bytes -= cost(batch);
            to = Some(batch.revision);
        }
        to
    }

    /// Forgets the history up to and including a revision.
    pub fn compact(&mut self, to: Revision) -> Result<(), ReadError> {
        if to > self.current {
            return Err(ReadError::Future { current: self.current });
        }
        while let Some(batch) = self.log.pop_front_if(|batch| batch.revision <= to) {
            self.log_events -= batch.events.len();
            self.log_bytes -= cost(&batch);
            for event in &batch.events {
                self.forget_before(event.key(), batch.revision);
            }
        }
        self.compacted = self.compacted.max(to);
        Ok(())
    }

    /// Drops the versions of a key that were replaced by `revision` or before.
    fn forget_before(&mut self, key: &Bytes, revision: Revision) {
        let Some(chain) = self.keys.get_mut(key) else { return };
        if chain.newest.modified() <= revision {
            chain.older = None;
            if chain.newest.is_deleted() {
                self.keys.remove(key);
            }
            return;
        }
        let Some(older) = &mut chain.older else { return };
        let replaced = older.partition_point(|version| version.modified() < revision);
        older.drain(..replaced);
        // A deletion with nothing before it says nothing.
        if older.first().is_some_and(Version::is_deleted) {
            older.remove(0);
        }
        if older.is_empty() {
            chain.older = None;
        }
    }

    fn readable(&self, at: Option<Revision>) -> Result<Revision, ReadError> {
        match at {
            None => Ok(self.current),
            Some(at) if at > self.current => Err(ReadError::Future { current: self.current }),
            Some(at) if at < self.compacted => Err(ReadError::Compacted { oldest: self.compacted }),
            Some(at) => Ok(at),
        }
    }
}

impl Pending {
    /// In order of revision.
    pub fn batches(&self) -> &[Arc<Batch>] {
        &self.batches
    }

    pub fn into_batches(self) -> Vec<Arc<Batch>> {
        self.batches
    }
}

impl Chain {
    fn new(newest: Version) -> Self {
        Self { older: None, newest }
    }

    fn push(&mut self, version: Version) {
        let replaced = std::mem::replace(&mut self.newest, version);
        self.older.get_or_insert_default().push(replaced);
    }

    fn entry(&self, at: Revision) -> Option<Entry> {
        let version = if self.newest.modified() <= at {
            &self.newest
        } else {
            let older = self.older.as_ref()?;
            let index = older.partition_point(|version| version.modified() <= at).checked_sub(1)?;
            older.get(index)?
        };
        match version {
            Version::Put(entry) => Some(entry.clone()),
            Version::Deleted(_) => None,
        }
    }
}

impl Version {
    fn modified(&self) -> Revision {
        match self {
            Self::Put(entry) => entry.modified,
            Self::Deleted(revision) => *revision,
        }
    }

    fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

fn event(write: Write, previous: Option<Entry>, revision: Revision) -> Option<Event> {
    match write {
        Write::Put { key, value } => {
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            // One buffer for all versions of a key.
            let key = previous.as_ref().map_or(key, |previous| previous.key.clone());
            Some(Event::Put { entry: Entry::new(key, value, created, revision), previous })
        }
        Write::Delete { .. } => previous.map(|previous| Event::Delete { previous }),
    }
}

/// What dropping a batch gives back: values of the present belong to no history.
fn cost(batch: &Batch) -> usize {
    let old = |event: &Event| event.previous().map_or(0, |entry| entry.value.len());
    batch.events.iter().map(|event| EVENT_OVERHEAD + event.key().len() + old(event)).sum()
}

fn exhausted() -> CommitError {
    CommitError::Stopped(Stopped::Failed { reason: "all revisions are used up".into() })
}
