//! Looking over a store that is not in use, and saving what is whole of one that is damaged.
//!
//! [`check`] never changes the store. What it finds comes by two ways. The index of the database
//! leads to the records of the last commit, as far as it can be followed; of those that are whole
//! nothing is in doubt. Pages that it does not lead to are gone through as well if it is broken:
//! each record carries a checksum of its own, so what is found there was written once, but it may
//! be older than the last commit. Of every key the newest record counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sternpost_store::{Entry, KeyRange, Revision};

use crate::{
    codec::{self, State, Version},
    directory::Directory,
    engine,
    store::OpenError,
};

/// What a look at a store found.
#[derive(Debug)]
pub struct Findings {
    /// The database file.
    pub file: PathBuf,
    /// Why a server refuses it; nothing if it is as it should be.
    pub problem: Option<OpenError>,
    /// The newest revision, and the last one that may have been given out, if they are known.
    pub revision: Option<Revision>,
    reserved: Option<Revision>,
    /// How many records the store should have, if that is known.
    pub expected: Option<u64>,
    /// Records that the index leads to and that are whole.
    pub whole: u64,
    /// Records that it leads to and that are not what was written.
    pub damaged: u64,
    /// The newest state of every key of which a whole record was found.
    pub entries: BTreeMap<Bytes, Salvaged>,
}

/// A value that is whole.
#[derive(Debug, Clone)]
pub struct Salvaged {
    pub entry: Entry,
    /// The index does not lead to it: it may have been replaced or deleted since.
    pub doubtful: bool,
}

/// Looks at the store in a directory, which is locked meanwhile.
pub fn check(directory: &Path) -> Result<Findings, OpenError> {
    let locked = Directory::lock_existing(directory)?;
    let file = locked.database();
    let mut findings = Findings {
        file: file.clone(),
        problem: None,
        revision: None,
        reserved: None,
        expected: None,
        whole: 0,
        damaged: 0,
        entries: BTreeMap::new(),
    };
    let mut newest = Newest::default();
    match engine::load(locked.open_existing()?, &file) {
        Ok((state, mvcc)) => {
            findings.knows(state);
            findings.whole = state.records;
            let all = mvcc.range(&KeyRange::all(), None, usize::MAX).map(|page| page.entries);
            for entry in all.iter().flatten() {
                newest.add_entry(entry);
            }
        }
        Err(problem @ (OpenError::Io { .. } | OpenError::InUse { .. })) => return Err(problem),
        Err(problem) => {
            findings.problem = Some(problem);
            let indexed = engine::read_indexed(&locked, &file);
            if let Some(state) = indexed.state {
                findings.knows(state);
            }
            findings.whole = indexed.whole.len() as u64;
            findings.damaged = indexed.damaged.len() as u64;
            for version in indexed.whole {
                newest.add(version, false);
            }
            // What the last commit does not have was never answered, and what a whole index does
            // not lead to is deleted.
            let committed = |version: &Version| findings.revision.is_none_or(|last| version.revision <= last);
            let damaged: BTreeSet<Bytes> = indexed.damaged.into_iter().collect();
            let missing = |version: &Version| !indexed.complete || damaged.contains(&version.key);
            let mut states = vec![];
            let found = |version: Version| {
                if committed(&version) && missing(&version) {
                    newest.add(version, true);
                }
            };
            scan(&file, found, &mut states).map_err(|source| OpenError::Io { path: file.clone(), source })?;
            if findings.revision.is_none()
                && let Some(state) = states.into_iter().max_by_key(|state| (state.reserved, state.revision))
            {
                findings.knows(State { records: 0, ..state });
                findings.expected = None;
            }
        }
    }
    findings.entries = newest.live();
    Ok(findings)
}

impl Findings {
    fn knows(&mut self, state: State) {
        self.revision = Some(state.revision);
        self.reserved = Some(state.reserved);
        self.expected = Some(state.records);
    }

    /// Makes a store of the entries in a directory that has none. Resource versions go on above
    /// all that the damaged one can have given out; history begins anew.
    pub fn salvage_to(&self, directory: &Path) -> Result<(), OpenError> {
        let locked = Directory::lock(directory)?;
        let path = locked.database();
        let entries: Vec<&Entry> = self.entries.values().map(|salvaged| &salvaged.entry).collect();
        let newest = entries.iter().map(|entry| entry.modified).max();
        let known = newest.max(self.revision).unwrap_or(Revision::FIRST);
        let reserved = match self.reserved {
            Some(reserved) => known.max(reserved),
            // Nobody knows what was given out behind the newest record that is left.
            None => known.plus(engine::RESERVATION).unwrap_or(Revision::LAST),
        };
        let records = entries.len() as u64;
        let state = State { revision: known, compacted: known, reserved, records };
        locked.make_with(|backend| engine::create_with(backend, &path, &state, &entries))
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
        let (key, value) = (entry.key.clone(), Some(entry.value.clone()));
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

/// The unit of the file; a record with a large value takes several in a row.
const PAGE: usize = 4096;

/// What is read at a time.
const CHUNK: usize = 1 << 20;

/// No leaf is longer: the largest transaction, with room to spare.
const MAX_LEAF: usize = 64 << 20;

/// What redb begins the page of a leaf with.
const LEAF: u8 = 1;

/// Goes through every page that could hold records, whatever the index says.
fn scan(path: &Path, mut found: impl FnMut(Version), states: &mut Vec<State>) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut chunk = vec![];
    let mut start = 0;
    while start < length {
        read_at(&mut file, start, CHUNK, &mut chunk)?;
        for (number, page) in chunk.chunks(PAGE).enumerate() {
            let Some(end) = leaf_end(page) else { continue };
            if end <= page.len() {
                leaf(page, &mut found, states);
            } else {
                let mut long = vec![];
                read_at(&mut file, start + (number * PAGE) as u64, end, &mut long)?;
                leaf(&long, &mut found, states);
            }
        }
        start += CHUNK as u64;
    }
    Ok(())
}

/// As many bytes as there are.
fn read_at(file: &mut File, start: u64, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    file.seek(SeekFrom::Start(start))?;
    file.take(length as u64).read_to_end(into).map(|_| ())
}

/// Where the last value of a leaf ends, if this can be the beginning of one.
fn leaf_end(page: &[u8]) -> Option<usize> {
    let pairs = pairs(page)?;
    let end = number_at(page, 4 + 4 * (2 * pairs - 1)).unwrap_or(MAX_LEAF);
    (8 * pairs + 4 <= end && end <= MAX_LEAF).then_some(end)
}

fn pairs(page: &[u8]) -> Option<usize> {
    match page {
        [LEAF, _, low, high, ..] => {
            Some(usize::from(u16::from_le_bytes([*low, *high]))).filter(|pairs| *pairs > 0)
        }
        _ => None,
    }
}

fn number_at(page: &[u8], at: usize) -> Option<usize> {
    let bytes = page.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// The records of a leaf that are whole: the ends of all keys, the ends of all values, the keys,
/// the values.
fn leaf(page: &[u8], found: &mut impl FnMut(Version), states: &mut Vec<State>) {
    let Some(pairs) = pairs(page) else { return };
    let end_of = |index: usize| number_at(page, 4 + 4 * index);
    let mut key_start = 4 + 8 * pairs;
    let Some(mut value_start) = end_of(pairs - 1) else { return };
    for index in 0..pairs {
        let (Some(key_end), Some(value_end)) = (end_of(index), end_of(pairs + index)) else { return };
        if let (Some(key), Some(value)) = (page.get(key_start..key_end), page.get(value_start..value_end)) {
            if let Some(version) = codec::decode_version(key, value) {
                found(version);
            } else if key == engine::STATE.as_bytes() {
                states.extend(codec::decode_state(value));
            }
        }
        (key_start, value_start) = (key_end, value_end);
    }
}
