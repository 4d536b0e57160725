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
    Transaction, Write,
    read::{ByKey, MAX_PAGE},
    retention::Retention,
    watch::Batch,
};

/// Batches that every commit may drop from the history beyond those it adds.
/// Larger than zero so that history shrinks, small so that no commit pays for much.
const DROP_PER_COMMIT: usize = 64;

/// What one event costs in memory besides key and values; rounded up.
const EVENT_OVERHEAD: usize = 192;

#[derive(Debug)]
pub struct Mvcc {
    /// Every key by the last value that it was given, with what else is known of it. There is one for every
    /// object: most have one value and no history, and pay two pointers.
    keys: BTreeMap<ByKey, Chain>,
    log: VecDeque<Arc<Batch>>,
    log_events: usize,
    log_bytes: usize,
    current: Revision,
    compacted: Revision,
    /// Revisions up to here are never given out, though they may be unused.
    reserved: Revision,
}

/// What is retained of one key besides the last value that it was given.
#[derive(Debug, Default)]
struct Chain(Option<Box<History>>);

#[derive(Debug, Default)]
struct History {
    /// Before that value, oldest first.
    older: Vec<Version>,
    /// When the key was deleted after it, if it was.
    deleted: Option<Revision>,
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
        // The key of what is there belongs to the entry that goes.
        self.keys.remove(entry.key());
        self.keys.insert(ByKey(entry), Chain::default());
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
        self.keys.values().filter(|chain| chain.deleted().is_none()).count()
    }

    pub fn get(&self, key: &[u8], at: Option<Revision>) -> Result<GetAnswer, ReadError> {
        let revision = self.readable(at)?;
        let entry = self.entry(key, revision);
        Ok(GetAnswer { entry, revision, stale: false })
    }

    pub fn range(&self, range: &KeyRange, at: Option<Revision>, limit: usize) -> Result<Page, ReadError> {
        let revision = self.readable(at)?;
        let mut page = Page { entries: Vec::new(), revision, more: false };
        // `BTreeMap::range` panics on a range that ends before it starts.
        if range.is_empty() {
            return Ok(page);
        }
        let end = range.end().map_or(Bound::Unbounded, |end| Bound::Excluded(&**end));
        let keys = self.keys.range::<[u8], _>((Bound::Included(&**range.start()), end));
        let mut entries = keys.filter_map(|(newest, chain)| chain.entry(newest, revision));
        page.entries.extend(entries.by_ref().take(limit.min(MAX_PAGE)));
        page.more = entries.next().is_some();
        Ok(page)
    }

    /// Looks at `limit` keys behind `after`: those that existed when the history begins, and the last
    /// key that was looked at, if there may be more behind it.
    pub fn base(&self, after: Option<&Bytes>, limit: usize) -> (Vec<Entry>, Option<Bytes>) {
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(&**after));
        let (mut entries, mut last, mut seen) = (Vec::new(), None, 0);
        for (newest, chain) in self.keys.range::<[u8], _>((start, Bound::Unbounded)).take(limit) {
            entries.extend(chain.entry(newest, self.compacted));
            seen += 1;
            last = Some(newest);
        }
        (entries, last.filter(|_| seen == limit).map(|last| Bytes::copy_from_slice(last.0.key())))
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
            None => self.entry(key, Revision::LAST),
        };

        let compared: Vec<Option<Entry>> =
            transaction.compares.iter().map(|compare| current(pending, compare.key())).collect();
        if !transaction.compares.iter().zip(&compared).all(|(compare, found)| compare.holds(found.as_ref())) {
            return Err(CommitError::Conflict { revision: last, current: compared });
        }

        let revision = last.max(self.reserved).plus(1).ok_or_else(exhausted)?;
        let mut events: Vec<Event> = transaction
            .writes
            .into_iter()
            .filter_map(|write| {
                let previous = current(pending, write.key());
                event(write, previous, revision)
            })
            .collect();
        if events.is_empty() {
            return Ok(Committed { revision: last, changed: false });
        }
        events.sort_unstable_by(|left, right| left.key().cmp(right.key()));
        // Kept as long as the history: no larger than it has to be.
        events.shrink_to_fit();
        for event in &events {
            pending.changed.insert(Bytes::copy_from_slice(event.key()), event.entry().cloned());
        }
        pending.batches.push(Arc::new(Batch { revision, time, events }));
        Ok(Committed { revision, changed: true })
    }

    /// Makes a batch readable. Its revision is greater than the current one.
    pub fn apply(&mut self, batch: Arc<Batch>) {
        debug_assert!(batch.revision > self.current, "{} after {}", batch.revision, self.current);
        for event in &batch.events {
            match event {
                Event::Put { entry, .. } => {
                    let mut chain = Chain::default();
                    if let Some((ByKey(replaced), before)) = self.keys.remove_entry(entry.key()) {
                        chain = before;
                        chain.replace(replaced);
                    }
                    self.keys.insert(ByKey(entry.clone()), chain);
                }
                // What is deleted is there.
                Event::Delete { previous } => {
                    if let Some(chain) = self.keys.get_mut(previous.key()) {
                        chain.0.get_or_insert_default().deleted = Some(batch.revision);
                    }
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
    fn forget_before(&mut self, key: &[u8], revision: Revision) {
        let Some((ByKey(newest), _)) = self.keys.get_key_value(key) else { return };
        let modified = newest.modified;
        let Some(chain) = self.keys.get_mut(key) else { return };
        match chain.deleted() {
            Some(deleted) if deleted <= revision => {
                self.keys.remove(key);
                return;
            }
            None if modified <= revision => {
                chain.0 = None;
                return;
            }
            _ => {}
        }
        let Some(history) = &mut chain.0 else { return };
        let older = &mut history.older;
        let replaced = older.partition_point(|version| version.modified() < revision);
        older.drain(..replaced);
        // A deletion with nothing before it says nothing.
        if older.first().is_some_and(Version::is_deleted) {
            older.remove(0);
        }
        if older.is_empty() && history.deleted.is_none() {
            chain.0 = None;
        }
    }

    fn entry(&self, key: &[u8], at: Revision) -> Option<Entry> {
        let (newest, chain) = self.keys.get_key_value(key)?;
        chain.entry(newest, at)
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
    fn deleted(&self) -> Option<Revision> {
        self.0.as_ref()?.deleted
    }

    /// The key has another value now, instead of this one.
    fn replace(&mut self, value: Entry) {
        let history = self.0.get_or_insert_default();
        history.older.push(Version::Put(value));
        history.older.extend(history.deleted.take().map(Version::Deleted));
    }

    /// What there was at a revision; `newest` is the last value.
    fn entry(&self, ByKey(newest): &ByKey, at: Revision) -> Option<Entry> {
        if self.deleted().is_some_and(|deleted| deleted <= at) {
            return None;
        }
        if newest.modified <= at {
            return Some(newest.clone());
        }
        let older = &self.0.as_ref()?.older;
        let index = older.partition_point(|version| version.modified() <= at).checked_sub(1)?;
        match older.get(index)? {
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
        Write::Put { key, value, .. } => {
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            Some(Event::Put { entry: Entry::new(key, value, created, revision), previous })
        }
        Write::Delete { .. } => previous.map(|previous| Event::Delete { previous }),
    }
}

/// What dropping a batch gives back: values of the present belong to no history.
fn cost(batch: &Batch) -> usize {
    let old = |event: &Event| event.previous().map_or(0, |entry| entry.value().len());
    batch.events.iter().map(|event| EVENT_OVERHEAD + event.key().len() + old(event)).sum()
}

fn exhausted() -> CommitError {
    CommitError::Stopped(Stopped::Failed { reason: "all revisions are used up".into() })
}
