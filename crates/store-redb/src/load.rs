//! Reading a whole file.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use sternpost_store::{load::Loader, mvcc::Mvcc};

use crate::{
    Error,
    codec::{self, FORMAT_VERSION, State},
    probe::Probe,
};

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub const VERSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("versions");
const FORMAT: &str = "format";
pub const STATE: &str = "state";

/// redb's page cache: everything is read once.
const CACHE_BYTES: usize = 4 << 20;

/// Reads everything without changing a byte, and refuses what is not understood.
pub fn load(backend: impl StorageBackend) -> Result<(State, Mvcc), Error> {
    guarded(|| {
        let database = open(backend)?;
        let read = database.begin_read().map_err(failed)?;
        let state = read_state(&read)?;
        let table = read.open_table(VERSIONS).map_err(failed)?;
        let mvcc = read_versions(&table, &state)?;
        Ok((state, mvcc))
    })?
}

/// Lets redb open a file, with all its writes kept in memory.
pub fn open(backend: impl StorageBackend) -> Result<Database, Error> {
    let probe = Probe::new(backend).map_err(Error::Io)?;
    // redb would make a database out of an empty file.
    if probe.len().is_ok_and(|length| length == 0) {
        return Err(Error::Foreign("it is empty"));
    }
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder.create_with_backend(probe).map_err(not_redb)
}

/// redb asserts what it relies on; on a damaged file that must become an error, and no trace of a
/// panic for whoever reads it.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    quiet_if_guarded();
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|_| Error::Corrupt("the database library gave up on it".into()))
}

thread_local! {
    /// Whether a panic of this thread is caught by [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Lets the process's panic hook pass over panics that are caught here. Once a process: hooks are
/// the process's, and whoever was there before is asked about all others.
fn quiet_if_guarded() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                others(panic);
            }
        }));
    });
}

pub fn failed(error: impl Into<redb::Error>) -> Error {
    Error::Database(error.into())
}

fn not_redb(error: redb::DatabaseError) -> Error {
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            Error::Foreign("it is not a redb file")
        }
        redb::DatabaseError::Storage(redb::StorageError::Corrupted(reason)) => Error::Corrupt(reason.into()),
        other => failed(other),
    }
}

pub fn read_state(read: &redb::ReadTransaction) -> Result<State, Error> {
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::Storage(error)) => return Err(failed(error)),
        Err(_) => return Err(Error::Foreign("it is the database of another program")),
    };
    let format = meta.get(FORMAT).map_err(failed)?;
    match format.and_then(|mark| codec::decode_format(mark.value())) {
        Some(FORMAT_VERSION) => {}
        Some(found) => return Err(Error::UnknownVersion(found)),
        None => return Err(Error::Foreign("it is the database of another program")),
    }
    let state = meta.get(STATE).map_err(failed)?;
    let state = state.and_then(|state| codec::decode_state(state.value()));
    state.ok_or(Error::Corrupt("the state record is damaged".into()))
}

fn read_versions(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    state: &State,
) -> Result<Mvcc, Error> {
    let corrupt = |reason: &'static str| Error::Corrupt(reason.into());
    let mut loader = Loader::new(state.compacted, state.compacted);
    let mut records = 0;
    for record in table.iter().map_err(failed)? {
        let (key, value) = record.map_err(failed)?;
        let version = codec::decode_version(key.value(), value.value());
        let version = version.ok_or_else(|| corrupt("a record is damaged"))?;
        records += 1;
        let added = match version.revision <= state.compacted {
            true => loader.base(version),
            false => loader.change(version),
        };
        added.map_err(corrupt)?;
    }
    if records != state.records {
        return Err(corrupt("records are missing"));
    }
    if loader.newest() != state.revision {
        return Err(corrupt("the newest change is missing"));
    }
    Ok(loader.finish(state.reserved))
}
