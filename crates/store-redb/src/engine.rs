//! The file: loading it, and one commit. No threads, no queues.

use std::{
    borrow::Cow,
    cell::Cell,
    error::Error as _,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use bytes::Bytes;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use sternpost_store::{Entry, Event, Revision, mvcc::Mvcc, watch::Batch};

use crate::{
    codec::{self, FORMAT_VERSION, State, Version},
    directory::Directory,
    probe::Probe,
    storage::{Failure, Guarded},
    store::OpenError,
};

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const VERSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("versions");
const FORMAT: &str = "format";
pub const STATE: &str = "state";

/// How many revisions are reserved ahead, see `FORMAT.md`.
pub const RESERVATION: u64 = 10_000;

/// redb's page cache. Reads come from our own memory; this holds the inner
/// pages that the next commit needs.
const CACHE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub struct Engine {
    path: PathBuf,
    storage: Arc<dyn StorageBackend>,
    /// `None` after there was no space, until it is opened again.
    open: Option<Open>,
    /// As of the last commit.
    state: State,
    /// What was reserved before this process; given back only above it.
    floor: Revision,
}

#[derive(Debug)]
struct Open {
    database: Database,
    guarded: Guarded,
}

/// Why something was not written.
#[derive(Debug)]
pub enum WriteError {
    /// The file is as it was before. Writing may be tried again.
    NoSpace { reason: Arc<str> },
    /// Nobody knows what is on the disk. Nothing may be written any more.
    Final { reason: String },
}

/// Initialises an empty backend and closes it again.
pub fn create(backend: impl StorageBackend, path: &Path) -> Result<(), OpenError> {
    let first = Revision::FIRST;
    let state = State { revision: first, compacted: first, reserved: first, records: 0 };
    create_with(backend, path, &state, &[])
}

/// As [`create`], with the entries that history begins with.
pub fn create_with(
    backend: impl StorageBackend,
    path: &Path,
    state: &State,
    entries: &[&Entry],
) -> Result<(), OpenError> {
    let created = guarded(path, || {
        let database = builder().create_with_backend(backend)?;
        let mut write = database.begin_write()?;
        write.set_quick_repair(true);
        {
            let mut meta = write.open_table(META)?;
            meta.insert(FORMAT, codec::encode_format().as_slice())?;
            meta.insert(STATE, codec::encode_state(state).as_slice())?;
            let mut versions = write.open_table(VERSIONS)?;
            for entry in entries {
                let batch = Batch { revision: entry.modified, time: 0, events: vec![] };
                let event = Event::Put { entry: (*entry).clone(), previous: None };
                let (key, value) = codec::encode_event(&batch, &event);
                versions.insert(key.as_slice(), value.as_slice())?;
            }
        }
        write.commit()?;
        Ok(())
    })?;
    created.map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

/// What the index of a damaged database still leads to.
#[derive(Debug, Default)]
pub struct Indexed {
    pub state: Option<State>,
    pub whole: Vec<Version>,
    /// The keys of records that are not what was written, as far as they can be told.
    pub damaged: Vec<Bytes>,
    /// Every record was found, if only damaged.
    pub complete: bool,
}

/// Reads from both ends, each as far as it goes. Changes nothing.
pub fn read_indexed(directory: &Directory, path: &Path) -> Indexed {
    let mut indexed = Indexed::default();
    let _ = with_transaction(directory, path, |read| {
        indexed.state = read_state(read, path).ok();
        Ok(())
    });
    let mut last = None;
    let forward = with_transaction(directory, path, |read| {
        let table = read.open_table(VERSIONS)?;
        for record in table.iter()? {
            let (key, value) = record?;
            indexed.add(key.value(), value.value());
            last = Some(key.value().to_vec());
        }
        Ok(())
    });
    let forward = matches!(forward, Ok(Ok(())));
    if !forward {
        // If this breaks too, what was found by then is what there is.
        let _ = with_transaction(directory, path, |read| {
            let table = read.open_table(VERSIONS)?;
            for record in table.iter()?.rev() {
                let (key, value) = record?;
                if last.as_ref().is_some_and(|last| key.value() <= last.as_slice()) {
                    break;
                }
                indexed.add(key.value(), value.value());
            }
            Ok(())
        });
    }
    let found = (indexed.whole.len() + indexed.damaged.len()) as u64;
    indexed.complete = forward && indexed.state.is_some_and(|state| state.records == found);
    indexed
}

impl Indexed {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        match codec::decode_version(key, value) {
            Some(version) => self.whole.push(version),
            None => self.damaged.push(Bytes::copy_from_slice(key.get(8..).unwrap_or_default())),
        }
    }
}

fn with_transaction<T>(
    directory: &Directory,
    path: &Path,
    work: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
) -> Result<Result<T, redb::Error>, OpenError> {
    let probe = Probe::new(directory.open_existing()?)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    // redb would make a database out of an empty file.
    if probe.len().is_ok_and(|length| length == 0) {
        return Err(OpenError::Foreign { path: path.to_owned(), reason: "it is empty" });
    }
    guarded(path, || {
        let database = builder().create_with_backend(probe)?;
        work(&database.begin_read()?)
    })
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
        commit(&database, &[], &[], &reserving(state)).map_err(failed)?;
        Ok((state, mvcc))
    })?
}

/// Opens what [`load`] has read, and reserves revisions for this process.
pub fn open(storage: Arc<dyn StorageBackend>, state: State, path: &Path) -> Result<Engine, OpenError> {
    let guarded = Guarded::new(Arc::clone(&storage));
    let (database, reserved) = start(guarded.clone(), &state, path)?;
    let open = Some(Open { database, guarded });
    Ok(Engine { path: path.to_owned(), storage, open, state: reserved, floor: state.reserved })
}

/// Opens a file that is known to hold `state`, and reserves revisions.
fn start(backend: impl StorageBackend, state: &State, path: &Path) -> Result<(Database, State), OpenError> {
    let failed = |source: redb::Error| OpenError::Database { path: path.to_owned(), source };
    guarded(path, || {
        let database = builder().create_with_backend(backend).map_err(|error| not_redb(path, error))?;
        let read = database.begin_read().map_err(|error| failed(error.into()))?;
        if read_state(&read, path)? != *state {
            return Err(corrupt(path, "it changes while it is opened"));
        }
        drop(read);
        let reserving = reserving(*state);
        commit(&database, &[], &[], &reserving).map_err(failed)?;
        Ok((database, reserving))
    })?
}

fn reserving(state: State) -> State {
    State { reserved: state.reserved.plus(RESERVATION).unwrap_or(Revision::LAST), ..state }
}

impl Engine {
    /// Adds batches and, if `compacted` is given, removes what only the history
    /// up to there needed. Durable when it returns.
    pub fn write(
        &mut self,
        batches: &[Arc<Batch>],
        compacted: Option<Revision>,
        dead: &[(Revision, Bytes)],
    ) -> Result<(), WriteError> {
        // First, because it reserves.
        self.reopen()?;
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
    pub fn close(mut self) -> Result<(), WriteError> {
        let reserved = self.state.revision.max(self.floor);
        self.reopen()?;
        self.commit(&[], &[], State { reserved, ..self.state })
    }

    /// Opens the file again if there was no space the last time.
    pub fn reopen(&mut self) -> Result<(), WriteError> {
        if self.open.is_some() {
            return Ok(());
        }
        let guarded = Guarded::new(Arc::clone(&self.storage));
        match start(guarded.clone(), &self.state, &self.path) {
            Ok((database, reserved)) => {
                self.state = reserved;
                self.open = Some(Open { database, guarded });
                Ok(())
            }
            Err(error) => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                Err(self.failed(&guarded, format!("{error}{}", cause.unwrap_or_default())))
            }
        }
    }

    fn commit(
        &mut self,
        batches: &[Arc<Batch>],
        dead: &[(Revision, Bytes)],
        state: State,
    ) -> Result<(), WriteError> {
        let Some(open) = self.open.take() else {
            return Err(WriteError::Final { reason: "the database is not open".to_owned() });
        };
        match commit(&open.database, batches, dead, &state) {
            Ok(()) => {
                self.open = Some(open);
                self.state = state;
                Ok(())
            }
            Err(error) => {
                // What the library has in memory is of no more use. It cannot write
                // when it is dropped: the guard lets nothing through.
                let Open { database, guarded } = open;
                drop(database);
                Err(self.failed(&guarded, error.to_string()))
            }
        }
    }

    /// What a failure means. Without space the bytes that were written stand
    /// where no commit refers to, as after a kill at that moment; that it is so
    /// is read from the file, as after a kill.
    fn failed(&self, guarded: &Guarded, reason: String) -> WriteError {
        match guarded.failure() {
            Some(Failure::NoSpace(reason)) if self.is_unchanged() => {
                WriteError::NoSpace { reason: Arc::clone(reason) }
            }
            _ => WriteError::Final { reason },
        }
    }

    /// Whether the file holds what the last commit made of it. Does not change it.
    fn is_unchanged(&self) -> bool {
        let found = guarded(&self.path, || {
            let probe = Probe::new(Guarded::new(Arc::clone(&self.storage))).ok()?;
            let database = builder().create_with_backend(probe).ok()?;
            let read = database.begin_read().ok()?;
            read_state(&read, &self.path).ok()
        });
        found.is_ok_and(|found| found == Some(self.state))
    }
}

/// One transaction: all of it is durable when it returns, or none of it was done.
fn commit(
    database: &Database,
    batches: &[Arc<Batch>],
    dead: &[(Revision, Bytes)],
    state: &State,
) -> Result<(), redb::Error> {
    let mut write = database.begin_write()?;
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
        write.open_table(META)?.insert(STATE, codec::encode_state(state).as_slice())?;
    }
    write.commit()?;
    Ok(())
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

/// redb asserts what it relies on; on a damaged file that must become an error, and no trace of a
/// panic for whoever reads it.
fn guarded<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, OpenError> {
    quiet_if_guarded();
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|_| corrupt(path, "the database library gave up on it"))
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

fn not_redb(path: &Path, error: redb::DatabaseError) -> OpenError {
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            OpenError::Foreign { path: path.to_owned(), reason: "it is not a redb file" }
        }
        redb::DatabaseError::Storage(redb::StorageError::Corrupted(reason)) => corrupt(path, reason),
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
        // Most batches have one event, and all of them stay in memory.
        let batch = open.get_or_insert_with(|| Batch { revision, time, events: Vec::with_capacity(1) });
        batch.events.push(event);
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
    value.map(|value| Entry::new(key, value, created, revision))
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
            let entry = Entry::new(key, value, created, version.revision);
            Some(Event::Put { entry, previous })
        }
        None => previous.map(|previous| Event::Delete { previous }),
    }
}

fn corrupt(path: &Path, reason: impl Into<Cow<'static, str>>) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), reason: reason.into() }
}
