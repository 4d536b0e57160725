//! Finding what is left of a damaged file.
//!
//! There are two ways. The index of the database leads to the records of the last commit, as far as
//! it can be followed; of those that are whole nothing is in doubt. Pages that it does not lead to
//! are gone through as well: each record carries a checksum of its own, so what is found there was
//! written once, but it may be older than the last commit.

use std::io;

use bytes::Bytes;
use redb::{ReadableDatabase, ReadableTable, StorageBackend};
use sternpost_store::load::Version;

use crate::{
    Error,
    codec::{self, State},
    load,
};

/// What is left of a file.
#[derive(Debug, Default)]
pub struct Found {
    /// Of the last commit.
    pub state: Option<State>,
    /// Records that the index leads to.
    pub whole: Vec<Version>,
    /// The keys of records that are not what was written, as far as they can be told.
    pub damaged: Vec<Bytes>,
    /// The index leads to every record, if only damaged.
    pub complete: bool,
}

/// Follows the index from both ends, each as far as it goes.
pub fn salvage<B: StorageBackend>(reopen: impl Fn() -> io::Result<B>) -> Found {
    let mut found = Found::default();
    let _ = with_transaction(&reopen, |read| {
        found.state = load::read_state(read).ok();
        Ok(())
    });
    let mut last = None;
    let forward = with_transaction(&reopen, |read| {
        let table = read.open_table(load::VERSIONS)?;
        for record in table.iter()? {
            let (key, value) = record?;
            found.add(key.value(), value.value());
            last = Some(key.value().to_vec());
        }
        Ok(())
    });
    let forward = matches!(forward, Ok(Ok(())));
    if !forward {
        // If this breaks too, what was found by then is what there is.
        let _ = with_transaction(&reopen, |read| {
            let table = read.open_table(load::VERSIONS)?;
            for record in table.iter()?.rev() {
                let (key, value) = record?;
                if last.as_ref().is_some_and(|last| key.value() <= last.as_slice()) {
                    break;
                }
                found.add(key.value(), value.value());
            }
            Ok(())
        });
    }
    let records = (found.whole.len() + found.damaged.len()) as u64;
    found.complete = forward && found.state.is_some_and(|state| state.records == records);
    found
}

impl Found {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        match codec::decode_version(key, value) {
            Some(version) => self.whole.push(version),
            None => self.damaged.push(Bytes::copy_from_slice(key.get(8..).unwrap_or_default())),
        }
    }
}

fn with_transaction<B: StorageBackend, T>(
    reopen: impl Fn() -> io::Result<B>,
    work: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
) -> Result<Result<T, redb::Error>, Error> {
    load::guarded(|| {
        let database = load::open(reopen().map_err(Error::Io)?)?;
        let read = database.begin_read().map_err(load::failed)?;
        Ok(work(&read))
    })?
}

/// The unit of the file; a record with a large value takes several in a row.
const PAGE: usize = 4096;

/// What is read at a time.
const CHUNK: usize = 1 << 20;

/// No leaf is longer: the largest transaction, with room to spare.
const MAX_LEAF: usize = 64 << 20;

/// What redb begins the page of a leaf with.
const LEAF: u8 = 1;

/// Goes through every page that could hold records, whatever the index says. Gives the states that
/// are found on the way.
pub fn scan(file: &impl StorageBackend, mut found: impl FnMut(Version)) -> io::Result<Vec<State>> {
    let mut states = vec![];
    let length = file.len()?;
    let mut chunk = vec![];
    let mut start = 0;
    while start < length {
        read_at(file, start, CHUNK, &mut chunk)?;
        for (number, page) in chunk.chunks(PAGE).enumerate() {
            let Some(end) = leaf_end(page) else { continue };
            if end <= page.len() {
                leaf(page, &mut found, &mut states);
            } else {
                let mut long = vec![];
                read_at(file, start + (number * PAGE) as u64, end, &mut long)?;
                leaf(&long, &mut found, &mut states);
            }
        }
        start += CHUNK as u64;
    }
    Ok(states)
}

/// As many bytes as there are.
fn read_at(file: &impl StorageBackend, start: u64, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let there = file.len()?.saturating_sub(start).min(length as u64);
    into.clear();
    into.resize(usize::try_from(there).map_err(io::Error::other)?, 0);
    file.read(start, into)
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
            } else if key == load::STATE.as_bytes() {
                states.extend(codec::decode_state(value));
            }
        }
        (key_start, value_start) = (key_end, value_end);
    }
}
