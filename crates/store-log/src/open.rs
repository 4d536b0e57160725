//! From a directory to a store that was read: makes a new one, takes over one of format version 1.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use sternpost_store::{
    Entry, Revision,
    hub::{DEFAULT_WATCH_QUEUE, Hub},
    mvcc::Mvcc,
};
use sternpost_store_redb as redb;

use crate::{
    codec::{FRAME_HEADER, FileId, HEADER, State},
    disk::{Disk, File},
    engine::{self, Place},
    load::{self, Files, Loaded},
    sealing::Cover,
    snapshot::{self, SnapshotError},
    store::OpenError,
};

/// The store of format version 1; afterwards a mark in its place, so that programs that know only
/// that version refuse the directory instead of beginning anew in it.
pub const OLD: &str = "store.redb";
const UNFINISHED: &str = "store.redb.new";
const MARK: &[u8] = b"sternpost-store 2: the store is in the files snapshot-* and log-*\n";
const MARK_BEGIN: usize = 15;

/// What there is under the name of the old store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    Nothing,
    Mark,
    Database,
}

/// Reads the store in a directory; makes one first if there is none.
pub fn open(disk: &dyn Disk, path: &Path, cover: &Cover, allocation: u64) -> Result<Loaded, OpenError> {
    let failed = |source| OpenError::Io { path: path.to_owned(), source };
    let files = Files::list(disk, path)?;
    match old(disk).map_err(failed)? {
        Old::Database => {
            refuse_both(disk, path, &files)?;
            let (state, mvcc) = load_old(disk, path)?;
            make(disk, path, mvcc, state, cover, allocation)?;
        }
        Old::Nothing if files.snapshots.is_empty() && !is_used(disk, &files).map_err(failed)? => {
            let first = Revision::FIRST;
            let state = State { revision: first, compacted: first, reserved: first };
            make(disk, path, Mvcc::default(), state, cover, allocation)?;
        }
        Old::Nothing => {
            let loaded = load::load(disk, path, &files, &*cover.sealing)?;
            // The making of it was interrupted before the last step.
            mark(disk).map_err(failed)?;
            return Ok(loaded);
        }
        Old::Mark => {}
    }
    load::load(disk, path, &Files::list(disk, path)?, &*cover.sealing)
}

/// Removes what is of no use to a store that was opened.
pub fn tidy(disk: &dyn Disk, loaded: &Loaded) {
    for unfinished in [UNFINISHED, engine::UNFINISHED, snapshot::UNFINISHED] {
        // Most often there is none.
        let _ = disk.remove(unfinished);
    }
    snapshot::remove_before(disk, loaded.snapshot);
}

/// Makes a store of a state, in place of an unfinished one.
pub fn make(
    disk: &dyn Disk,
    path: &Path,
    mvcc: Mvcc,
    state: State,
    cover: &Cover,
    allocation: u64,
) -> Result<(), OpenError> {
    let place = Place { number: 1, sequence: 0, state };
    let failed = |error| OpenError::write(path, error);
    engine::create(disk, place.number, place.sequence, allocation).map_err(failed)?;
    let hub = Hub::new(mvcc, DEFAULT_WATCH_QUEUE);
    match snapshot::write(disk, &hub, place, cover, &AtomicBool::new(false)) {
        Ok(_) => {}
        Err(SnapshotError::Write(error)) => return Err(failed(error)),
        Err(SnapshotError::Stopped) => return Err(failed_io(path, io::Error::other("it was stopped"))),
    }
    // Last: until then the old store counts, and nothing but it.
    mark(disk).map_err(|source| failed_io(path, source))
}

/// Makes a store of entries, in a directory that has none.
pub fn make_of(
    disk: &dyn Disk,
    path: &Path,
    entries: impl Iterator<Item = Entry>,
    state: State,
    cover: &Cover,
    allocation: u64,
) -> Result<(), OpenError> {
    let files = Files::list(disk, path)?;
    let there = old(disk).map_err(|source| failed_io(path, source))? != Old::Nothing;
    if there || !files.snapshots.is_empty() || !files.logs.is_empty() {
        return Err(failed_io(path, io::ErrorKind::AlreadyExists.into()));
    }
    let mut mvcc = Mvcc::starting_at(state.compacted, state.reserved);
    entries.for_each(|entry| mvcc.load(entry));
    make(disk, path, mvcc, state, cover, allocation)
}

pub fn old(disk: &dyn Disk) -> io::Result<Old> {
    let file = match disk.open(OLD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Old::Nothing),
        file => file?,
    };
    let mut beginning = [0; MARK_BEGIN];
    if file.length()? < MARK_BEGIN as u64 {
        return Ok(Old::Database);
    }
    file.read(0, &mut beginning)?;
    Ok(if MARK.starts_with(&beginning) { Old::Mark } else { Old::Database })
}

/// An old store and a new one: an import that was not finished has no log that anything is in.
pub fn refuse_both(disk: &dyn Disk, path: &Path, files: &Files) -> Result<(), OpenError> {
    if is_used(disk, files).map_err(|source| failed_io(path, source))? {
        let reason = "there is a newer store in the same directory".into();
        return Err(OpenError::Corrupt { path: path.join(OLD), reason });
    }
    Ok(())
}

/// Reads an old store.
pub fn load_old(disk: &dyn Disk, path: &Path) -> Result<(State, Mvcc), OpenError> {
    let path = path.join(OLD);
    let file = disk.open(OLD).map_err(|source| failed_io(&path, source))?;
    let (state, mvcc) = redb::load(OldFile(file.into())).map_err(|error| OpenError::old(&path, error))?;
    let redb::State { revision, compacted, reserved, .. } = state;
    Ok((State { revision, compacted, reserved }, mvcc))
}

/// Whether anything was ever written to a log.
fn is_used(disk: &dyn Disk, files: &Files) -> io::Result<bool> {
    for number in &files.logs {
        let file = disk.open(&FileId::log(*number).name())?;
        let mut first = [0; FRAME_HEADER];
        let unused = *number == 1
            && file.length()? >= (HEADER + FRAME_HEADER) as u64
            && file.read(HEADER as u64, &mut first).map(|()| first == [0; FRAME_HEADER])?;
        if !unused {
            return Ok(true);
        }
    }
    Ok(false)
}

fn mark(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.create(UNFINISHED)?;
    file.write(0, MARK)?;
    file.sync()?;
    disk.rename(UNFINISHED, OLD)?;
    disk.sync()
}

fn failed_io(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), source }
}

/// An old store as the database library reads it. What it writes stays in memory.
#[derive(Clone, Debug)]
pub struct OldFile(pub Arc<dyn File>);

impl redb::StorageBackend for OldFile {
    fn len(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
