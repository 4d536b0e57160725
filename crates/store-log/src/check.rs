//! Looking over a store that is not in use, and saving what is whole of one that is damaged.
//!
//! [`check`] never changes the store. Each record has a checksum of its own, and is found by itself if
//! what leads to it is damaged. Of every key the newest record counts. An entry is doubtful if a
//! later change of it may be among what is lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use sternpost_clock::Clock;
use sternpost_store::{Entry, KeyRange, Revision, load::Version, mvcc::Mvcc};
use sternpost_store_redb as redb;

use crate::{
    codec::{Damaged, FileId, RecordKind, State},
    directory::Directory,
    disk::Disk,
    engine::RESERVATION,
    frames::{Frames, Salvaged as Frame},
    load::{self, Files},
    open::{self, Old, OldFile},
    sealing::{Cover, Plain},
    store::{DEFAULT_ALLOCATION, OpenError, mask},
};

/// What a look at a store found.
#[derive(Debug)]
pub struct Findings {
    /// The directory, or the one file of an old store.
    pub file: PathBuf,
    /// Why a server refuses it; nothing if it is as it should be.
    pub problem: Option<OpenError>,
    /// The newest revision, and the last one that may have been given out, if they are known.
    pub revision: Option<Revision>,
    reserved: Option<Revision>,
    /// How many records the store should have, if that is known.
    pub expected: Option<u64>,
    /// Records that are whole.
    pub whole: u64,
    /// Records that are not what was written.
    pub damaged: u64,
    /// The newest state of every key of which a whole record was found.
    pub entries: BTreeMap<Bytes, Salvaged>,
}

/// A value that is whole.
#[derive(Debug, Clone)]
pub struct Salvaged {
    pub entry: Entry,
    /// It may have been replaced or deleted since.
    pub doubtful: bool,
}

/// Looks at the store in a directory, which is locked meanwhile.
pub fn check(directory: &Path) -> Result<Findings, OpenError> {
    check_on(&Directory::lock_existing(directory)?, directory)
}

/// Looks at the store on a disk, which nobody else uses. Messages name it by the path.
pub fn check_on(disk: &dyn Disk, path: &Path) -> Result<Findings, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    let files = Files::list(disk, path)?;
    match open::old(disk).map_err(failed)? {
        Old::Database => {
            open::refuse_both(disk, path, &files)?;
            check_old(disk, path)
        }
        Old::Nothing if files.snapshots.is_empty() && files.logs.is_empty() => {
            Err(OpenError::Io { path: path.to_owned(), source: io::ErrorKind::NotFound.into() })
        }
        Old::Nothing | Old::Mark => match load::load(disk, path, &files, &Plain) {
            Ok(loaded) => Ok(Findings::of_whole(path, loaded.state, &loaded.mvcc)),
            Err(problem @ (OpenError::Io { .. } | OpenError::InUse { .. })) => Err(problem),
            Err(problem) => salvage(disk, path, &files, problem).map_err(failed),
        },
    }
}

/// Goes through all frames. Those of files that a newer snapshot has replaced count only where
/// that one is damaged.
fn salvage(disk: &dyn Disk, path: &Path, files: &Files, problem: OpenError) -> io::Result<Findings> {
    let newest = files.snapshots.last().copied();
    let is_newest = |number: &u64| newest.is_none_or(|newest| *number >= newest);
    let mut salvage = Salvage { counts: true, known: true, ..Salvage::default() };
    let whole = match newest {
        Some(newest) => salvage.snapshot(disk, path, newest, false)?,
        None => {
            salvage.known = false;
            false
        }
    };
    let logs: Vec<u64> = files.logs.iter().copied().filter(is_newest).collect();
    salvage.logs(disk, &logs, false)?;
    if !whole {
        (salvage.counts, salvage.sequence) = (false, None);
        for number in files.snapshots.iter().filter(|number| Some(**number) != newest) {
            salvage.snapshot(disk, path, *number, true)?;
        }
        let logs: Vec<u64> = files.logs.iter().copied().filter(|log| !is_newest(log)).collect();
        salvage.logs(disk, &logs, true)?;
    }
    let expected = salvage.known.then_some(salvage.whole + salvage.damaged);
    let mut entries = salvage.newest.live();
    for (key, salvaged) in &mut entries {
        let modified = salvaged.entry.modified;
        let lost = salvage.lost_keys.get(key).is_some_and(|revision| modified < *revision);
        salvaged.doubtful |= lost || salvage.lost_before.is_some_and(|revision| modified < revision);
    }
    let (revision, reserved) = salvage.state.map(|state| (state.revision, state.reserved)).unzip();
    let (file, problem) = (path.to_owned(), Some(problem));
    let (whole, damaged) = (salvage.whole, salvage.damaged);
    Ok(Findings { file, problem, revision, reserved, expected, whole, damaged, entries })
}

#[derive(Default)]
struct Salvage {
    newest: Newest,
    /// What is found is counted.
    counts: bool,
    whole: u64,
    damaged: u64,
    /// Of everything that is lost it is known how many records it was.
    known: bool,
    /// The newest one.
    state: Option<State>,
    /// Of the next frame of the logs, if it is known.
    sequence: Option<u64>,
    /// The last frame could not be read. The next one says which revisions it can have had.
    unread: bool,
    /// Keys of which a change is lost, with its revision.
    lost_keys: HashMap<Bytes, Revision>,
    /// A change of any key may be lost that was before this.
    lost_before: Option<Revision>,
}

impl Salvage {
    /// Whether all of it is as it should be.
    fn snapshot(&mut self, disk: &dyn Disk, path: &Path, number: u64, doubtful: bool) -> io::Result<bool> {
        let id = FileId::snapshot(number);
        let file = disk.open(&id.name())?;
        let header = Frames::new(&*file, id)?.header()?.and_then(Result::ok);
        if !doubtful {
            self.sequence = header.map(|header| header.sequence);
        }
        let contents = header.and_then(|header| header.contents);
        let (mut history, mut settled, mut expected) = (vec![], None, 0);
        Frames::new(&*file, id)?.salvage(|frame| {
            let Frame { sequence, count, state, records, .. } = frame;
            let lost = sequence != expected;
            expected = sequence.saturating_add(1);
            if let (Some(state), None) = (state, contents) {
                self.saw(state);
            }
            let is_base =
                |record: &Result<(RecordKind, Version), _>| matches!(record, Ok((RecordKind::Base, _)));
            if records.iter().any(is_base) {
                settled = settled.max(state.map(|state| state.compacted));
            } else if lost {
                self.lost(state.map(|state| state.revision));
            }
            if lost || state.is_none() {
                self.miss(count, records.len(), lost);
            }
            for record in records {
                match record {
                    Ok((RecordKind::Base, version)) => self.add(version, doubtful),
                    Ok((_, version)) => history.push(version),
                    Err(damaged) => self.damage(damaged),
                }
            }
        })?;
        if let Some(contents) = contents {
            self.saw(contents.state);
            settled = Some(contents.settled);
            if expected != contents.frames {
                self.known = false;
            }
        } else {
            self.known = false;
        }
        for version in history {
            // Of what is older the base is the newer state.
            if settled.is_none_or(|settled| version.revision > settled) {
                self.add(version, doubtful);
            }
        }
        Ok(load::read_snapshot(disk, path, number, &Plain).is_ok())
    }

    fn logs(&mut self, disk: &dyn Disk, logs: &[u64], doubtful: bool) -> io::Result<()> {
        // What a crash has torn was never answered. Only the next frame tells that it was damaged.
        let mut held: Option<Frame> = None;
        for number in logs {
            let id = FileId::log(*number);
            let file = disk.open(&id.name())?;
            let behind = Frames::new(&*file, id)?.salvage(|frame| {
                if let Some(before) = held.replace(frame) {
                    self.frame(before, doubtful);
                }
            })?;
            let is_last = logs.last() == Some(number);
            if is_last && behind > 0 && !doubtful {
                if let Some(before) = held.take() {
                    self.frame(before, doubtful);
                }
                self.lost(None);
                self.known = false;
                // No revision takes less than a row, which is longer than this.
                if let Some(state) = &mut self.state {
                    state.reserved = state.reserved.plus(behind / 32).unwrap_or(Revision::LAST);
                }
            }
        }
        if let Some(last) = held {
            let whole = last.state.is_some() && last.records.iter().all(Result::is_ok);
            if whole || !last.torn {
                self.frame(last, doubtful);
            }
        }
        if std::mem::take(&mut self.unread) {
            self.lost(None);
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame, doubtful: bool) {
        let Frame { sequence, count, state, records, .. } = frame;
        let skipped = self.sequence.is_some_and(|expected| expected != sequence);
        self.known &= !skipped;
        if skipped || std::mem::take(&mut self.unread) {
            let first = records.iter().flatten().map(|(_, version)| version.revision).min();
            self.lost(first.or(state.map(|state| state.revision)));
        }
        self.sequence = Some(sequence.saturating_add(1));
        match state {
            Some(state) => self.saw(state),
            None => {
                self.miss(count, records.len(), false);
                self.unread = true;
            }
        }
        for record in records {
            match record {
                Ok((_, version)) => self.add(version, doubtful),
                Err(damaged) => self.damage(damaged),
            }
        }
    }

    fn add(&mut self, version: Version, doubtful: bool) {
        self.whole += u64::from(self.counts);
        self.newest.add(version, doubtful);
    }

    fn damage(&mut self, damaged: Damaged) {
        self.damaged += u64::from(self.counts);
        match damaged.key {
            Some(key) => {
                let lost = self.lost_keys.entry(key).or_insert(damaged.revision);
                *lost = damaged.revision.max(*lost);
            }
            None if damaged.kind == RecordKind::Base => {}
            None => self.lost(Some(damaged.revision)),
        }
    }

    /// Records of a frame that could not be told apart, and perhaps frames before it.
    fn miss(&mut self, count: usize, found: usize, more: bool) {
        if self.counts {
            self.damaged += count.saturating_sub(found) as u64;
        }
        self.known &= !more;
    }

    /// A change of any key may be lost, which was before a revision if that is known.
    fn lost(&mut self, before: Option<Revision>) {
        self.lost_before = self.lost_before.max(Some(before.unwrap_or(Revision::LAST)));
    }

    fn saw(&mut self, state: State) {
        let newer = |before: &State| (state.revision, state.reserved) > (before.revision, before.reserved);
        if self.state.as_ref().is_none_or(newer) {
            self.state = Some(state);
        }
    }
}

fn check_old(disk: &dyn Disk, path: &Path) -> Result<Findings, OpenError> {
    let file = path.join(open::OLD);
    let problem = match open::load_old(disk, path) {
        Ok((state, mvcc)) => return Ok(Findings::of_whole(&file, state, &mvcc)),
        Err(problem @ (OpenError::Io { .. } | OpenError::InUse { .. })) => return Err(problem),
        Err(problem) => problem,
    };
    let failed = |source| OpenError::Io { path: file.clone(), source };
    let bytes = OldFile(Arc::from(disk.open(open::OLD).map_err(failed)?));
    let found = redb::salvage(|| Ok(bytes.clone()));
    let mut newest = Newest::default();
    let (whole, damaged) = (found.whole.len() as u64, found.damaged.len() as u64);
    for version in found.whole {
        newest.add(version, false);
    }
    // What the last commit does not have was never answered, and what a whole index does not lead
    // to is deleted.
    let committed = |version: &Version| found.state.is_none_or(|state| version.revision <= state.revision);
    let keys: BTreeSet<Bytes> = found.damaged.into_iter().collect();
    let missing = |version: &Version| !found.complete || keys.contains(&version.key);
    let states = redb::scan(&bytes, |version| {
        if committed(&version) && missing(&version) {
            newest.add(version, true);
        }
    });
    let newest_state =
        states.map_err(failed)?.into_iter().max_by_key(|state| (state.reserved, state.revision));
    let state = found.state.or(newest_state);
    let (revision, reserved) = state.map(|state| (state.revision, state.reserved)).unzip();
    let expected = found.state.map(|state| state.records);
    let entries = newest.live();
    Ok(Findings { file, problem: Some(problem), revision, reserved, expected, whole, damaged, entries })
}

impl Findings {
    fn of_whole(file: &Path, state: State, mvcc: &Mvcc) -> Self {
        let mut newest = Newest::default();
        let mut range = KeyRange::all();
        while let Ok(page) = mvcc.range(&range, None, usize::MAX) {
            page.entries.iter().for_each(|entry| newest.add_entry(entry));
            match page.entries.last() {
                Some(last) if page.more => range = range.after(last.key()),
                _ => break,
            }
        }
        let (base, _) = mvcc.base(None, usize::MAX);
        let events: usize = mvcc.after(mvcc.compacted()).map(|batch| batch.events.len()).sum();
        let records = (base.len() + events) as u64;
        Self {
            file: file.to_owned(),
            problem: None,
            revision: Some(state.revision),
            reserved: Some(state.reserved),
            expected: Some(records),
            whole: records,
            damaged: 0,
            entries: newest.live(),
        }
    }

    /// Makes a store of the entries in a directory that has none. Resource versions go on above
    /// all that the damaged one can have given out; history begins anew.
    pub fn salvage_to(&self, directory: &Path) -> Result<(), OpenError> {
        self.salvage_on(&Directory::lock(directory)?, directory)
    }

    /// As [`Findings::salvage_to`], on any disk.
    pub fn salvage_on(&self, disk: &dyn Disk, path: &Path) -> Result<(), OpenError> {
        let entries = || self.entries.values().map(|salvaged| &salvaged.entry);
        let newest = entries().map(|entry| entry.modified).max();
        let known = newest.max(self.revision).unwrap_or(Revision::FIRST);
        let reserved = match self.reserved {
            Some(reserved) => known.max(reserved),
            // Nobody knows what was given out behind the newest record that is left.
            None => known.plus(RESERVATION).unwrap_or(Revision::LAST),
        };
        let state = State { revision: known, compacted: known, reserved };
        open::make_of(
            disk,
            path,
            entries().cloned(),
            state,
            &Cover::plain(mask(&Clock::system())),
            DEFAULT_ALLOCATION,
        )
    }
}

/// The newest record of every key.
#[derive(Default)]
struct Newest(BTreeMap<Bytes, (Version, bool)>);

impl Newest {
    fn add(&mut self, version: Version, doubtful: bool) {
        match self.0.get(&version.key) {
            Some((there, _)) if there.revision >= version.revision => {}
            _ => {
                self.0.insert(version.key.clone(), (version, doubtful));
            }
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        let copied = Bytes::copy_from_slice;
        let (key, value) = (copied(entry.key()), Some(copied(entry.value())));
        self.add(Version { revision: entry.modified, key, created: entry.created, time: 0, value }, false);
    }

    /// Without what is deleted.
    fn live(self) -> BTreeMap<Bytes, Salvaged> {
        let live = self.0.into_iter().filter_map(|(key, (version, doubtful))| {
            let Version { revision, key: _, created, value, .. } = version;
            let entry = Entry::new(key.clone(), value?, created, revision);
            Some((key, Salvaged { entry, doubtful }))
        });
        live.collect()
    }
}
