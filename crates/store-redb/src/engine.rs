//! The file: loading it, and one commit. No threads, no queues.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use sternpost_store::{Entry, Event, Revision, mvcc::Mvcc, watch::Batch};

use crate::{
    codec::{self, FORMAT_VERSION, State, Version},
    probe::Probe,
    store::OpenError,
};

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const VERSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("versions");
const FORMAT: &str = "format";
const STATE: &str = "state";

/// How many revisions are reserved ahead, see `FORMAT.md`.
pub const RESERVATION: u64 = 10_000;

/// redb's page cache. Reads come from our own memory; this holds the inner
/// pages that the next commit needs.
const CACHE_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub struct Engine {
    database: Database,
    state: State,
    /// What was reserved before this process; given back only above it.
    floor: Revision,
}

/// Initialises an empty backend and closes it again.
pub fn create(backend: impl StorageBackend, path: &Path) -> Result<(), OpenError> {
    let first = Revision::FIRST;
    let state = State { revision: first, compacted: first, reserved: first, records: 0 };
    let created = guarded(path, || {
        let database = builder().create_with_backend(backend)?;
        let mut write = database.begin_write()?;
        write.set_quick_repair(true);
        {
            let mut meta = write.open_table(META)?;
            meta.insert(FORMAT, codec::encode_format().as_slice())?;
            meta.insert(STATE, codec::encode_state(&state).as_slice())?;
            write.open_table(VERSIONS)?;
        }
        write.commit()?;
        Ok(())
    })?;
    created.map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

/// Reads everything without changing a byte, and refuses what is not understood.
pub fn load(backend: impl StorageBackend, path: &Path) -> Result<(State, Mvcc), OpenError> {
    let failed = |source: redb::Error| OpenError::Database { path: path.to_owned(), source };
    let probe = Probe::new(backend).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    // redb would make a database out of an empty file.
    if probe.len().is_ok_and(|length| length == 0) {
        return Err(OpenError::Foreign { path: path.to_owned(), reason: "it is empty" });
    }
    guarded(path, || {
        let database = builder().create_with_backend(probe).map_err(|error| not_redb(path, error))?;
        let read = database.begin_read().map_err(|error| failed(error.into()))?;
        let state = read_state(&read, path)?;
        let table = read.open_table(VERSIONS).map_err(|error| failed(error.into()))?;
        let mvcc = read_versions(&table, &state, path)?;
        drop((table, read));
        // redb looks at some of its own records only when it commits.
        Engine::start(database, state).map_err(failed)?;
        Ok((state, mvcc))
    })?
}

/// Opens what [`load`] has read, and reserves revisions for this process.
pub fn open(backend: impl StorageBackend, state: State, path: &Path) -> Result<Engine, OpenError> {
    let failed = |source: redb::Error| OpenError::Database { path: path.to_owned(), source };
    guarded(path, || {
        let database = builder().create_with_backend(backend).map_err(|error| not_redb(path, error))?;
        let read = database.begin_read().map_err(|error| failed(error.into()))?;
        if read_state(&read, path)? != state {
            return Err(corrupt(path, "it changes while it is opened"));
        }
        drop(read);
        Engine::start(database, state).map_err(failed)
    })?
}

impl Engine {
    fn start(database: Database, state: State) -> Result<Self, redb::Error> {
        let mut engine = Self { database, state, floor: state.reserved };
        let reserved = state.reserved.plus(RESERVATION).unwrap_or(Revision::LAST);
        engine.commit(&[], &[], State { reserved, ..state })?;
        Ok(engine)
    }

    /// Adds batches and, if `compacted` is given, removes what only the history
    /// up to there needed. Durable when it returns; after an error nothing may be
    /// written any more.
    pub fn write(
        &mut self,
        batches: &[Arc<Batch>],
        compacted: Option<Revision>,
        dead: &[(Revision, Bytes)],
    ) -> Result<(), redb::Error> {
        let mut state = self.state;
        state.revision = batches.last().map_or(state.revision, |batch| batch.revision);
        state.compacted = compacted.map_or(state.compacted, |to| to.max(state.compacted));
        let added: usize = batches.iter().map(|batch| batch.events.len()).sum();
        state.records = (state.records + added as u64).saturating_sub(dead.len() as u64);
        // The revisions of these batches were reserved by an earlier commit.
        if state.revision.plus(RESERVATION / 2).is_none_or(|soon| soon > state.reserved) {
            state.reserved = state.revision.plus(RESERVATION).unwrap_or(Revision::LAST).max(state.reserved);
        }
        self.commit(batches, dead, state)
    }

    /// Gives back the unused part of the reservation.
    pub fn close(mut self) -> Result<(), redb::Error> {
        let reserved = self.state.revision.max(self.floor);
        self.commit(&[], &[], State { reserved, ..self.state })
    }

    fn commit(
        &mut self,
        batches: &[Arc<Batch>],
        dead: &[(Revision, Bytes)],
        state: State,
    ) -> Result<(), redb::Error> {
        let mut write = self.database.begin_write()?;
        write.set_quick_repair(true);
        {
            let mut versions = write.open_table(VERSIONS)?;
            for batch in batches {
                for event in &batch.events {
                    let (key, value) = codec::encode_event(batch, event);
                    versions.insert(key.as_slice(), value.as_slice())?;
                }
            }
            for (revision, key) in dead {
                if versions.remove(codec::version_key(*revision, key).as_slice())?.is_none() {
                    let missing = format!("no record for a key at revision {revision}");
                    return Err(redb::Error::Corrupted(missing));
                }
            }
            write.open_table(META)?.insert(STATE, codec::encode_state(&state).as_slice())?;
        }
        write.commit()?;
        self.state = state;
        Ok(())
    }
}

/// The records that are needed no longer when a batch leaves the history.
pub fn dead(batch: &Batch) -> impl Iterator<Item = (Revision, Bytes)> {
    batch.events.iter().flat_map(|event| {
        let replaced = event.previous().map(|previous| (previous.modified, previous.key.clone()));
        let own = match event {
            Event::Put { .. } => None,
            Event::Delete { previous } => Some((batch.revision, previous.key.clone())),
        };
        replaced.into_iter().chain(own)
    })
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// redb asserts what it relies on; on a damaged file that must become an error.
fn guarded<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| corrupt(path, "the database library gave up on it"))
}

fn not_redb(path: &Path, error: redb::DatabaseError) -> OpenError {
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            OpenError::Foreign { path: path.to_owned(), reason: "it is not a redb file" }
        }
        redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.to_owned() },
        other => OpenError::Database { path: path.to_owned(), source: other.into() },
    }
}

fn read_state(read: &redb::ReadTransaction, path: &Path) -> Result<State, OpenError> {
    let failed = |source: redb::Error| OpenError::Database { path: path.to_owned(), source };
    let foreign = |reason| OpenError::Foreign { path: path.to_owned(), reason };
    let meta = match read.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::Storage(error)) => return Err(failed(error.into())),
        Err(_) => return Err(foreign("it is the database of another program")),
    };
    let format = meta.get(FORMAT).map_err(|error| failed(error.into()))?;
    match format.and_then(|mark| codec::decode_format(mark.value())) {
        Some(FORMAT_VERSION) => {}
        Some(found) => return Err(OpenError::UnknownVersion { path: path.to_owned(), found }),
        None => return Err(foreign("it is the database of another program")),
    }
    let state = meta.get(STATE).map_err(|error| failed(error.into()))?;
    let state = state.and_then(|state| codec::decode_state(state.value()));
    state.ok_or_else(|| corrupt(path, "the state record is damaged"))
}

fn read_versions(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    state: &State,
    path: &Path,
) -> Result<Mvcc, OpenError> {
    let failed =
        |source: redb::StorageError| OpenError::Database { path: path.to_owned(), source: source.into() };
    let mut mvcc = Mvcc::starting_at(state.compacted, state.reserved);
    let mut open: Option<Batch> = None;
    let mut records = 0;
    for record in table.iter().map_err(failed)? {
        let (key, value) = record.map_err(failed)?;
        let version = codec::decode_version(key.value(), value.value());
        let version = version.ok_or_else(|| corrupt(path, "a record is damaged"))?;
        records += 1;
        if version.revision <= state.compacted {
            let entry = base(version).ok_or_else(|| corrupt(path, "a deletion was kept too long"))?;
            if mvcc.get(&entry.key, None).is_ok_and(|found| found.entry.is_some()) {
                return Err(corrupt(path, "a replaced value was kept too long"));
            }
            mvcc.load(entry);
            continue;
        }
        if let Some(batch) = open.take_if(|batch| batch.revision != version.revision) {
            mvcc.apply(Arc::new(batch));
        }
        let (revision, time) = (version.revision, version.time);
        let event = event(&mvcc, version)
            .ok_or_else(|| corrupt(path, "a change does not follow from the one before it"))?;
        open.get_or_insert_with(|| Batch { revision, time, events: Vec::new() }).events.push(event);
    }
    if let Some(batch) = open {
        mvcc.apply(Arc::new(batch));
    }
    if records != state.records {
        return Err(corrupt(path, "records are missing"));
    }
    if mvcc.current() != state.revision {
        return Err(corrupt(path, "the newest change is missing"));
    }
    Ok(mvcc)
}

/// What was there when the history begins.
fn base(version: Version) -> Option<Entry> {
    let Version { revision, key, created, value, .. } = version;
    value.map(|value| Entry { key, value, created, modified: revision })
}

fn event(mvcc: &Mvcc, version: Version) -> Option<Event> {
    let previous = mvcc.get(&version.key, None).ok()?.entry;
    let created = previous.as_ref().map_or(version.revision, |previous| previous.created);
    if version.created != created {
        return None;
    }
    match version.value {
        Some(value) => {
            let key = previous.as_ref().map_or(version.key, |previous| previous.key.clone());
            let entry = Entry { key, value, created, modified: version.revision };
            Some(Event::Put { entry, previous })
        }
        None => previous.map(|previous| Event::Delete { previous }),
    }
}

fn corrupt(path: &Path, reason: &'static str) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), reason }
}
