//! All that a store holds at one revision: read beside the server that uses it, and made a store of again.
//!
//! A running server only ever adds to its files and removes those that a newer snapshot replaces. So whoever reads the
//! newest snapshot and then its logs, frame by frame as far as they are whole, has the state behind the last of these
//! frames, without asking anybody and without the lock. What changes meanwhile is told from damage by looking again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io,
    path::Path,
    sync::Arc,
};

use sternpost_clock::Clock;
use sternpost_store::{Entry, KeyRange, Revision};

use crate::{
    codec::{FileId, State},
    directory::{self, Directory, OnDisk},
    disk::{Disk, File},
    load::{self, Files},
    open::{self, Old},
    sealing::{Cover, Plain, Sealing},
    store::{DEFAULT_ALLOCATION, OpenError, mask},
};

/// How often a store is read from the beginning, because files were replaced meanwhile. That takes 16 MiB of changes
/// each time.
const ATTEMPTS: usize = 16;

/// What a store holds at one revision.
#[derive(Clone, Debug)]
pub struct Image {
    /// In key order, values as they stand on the disk.
    pub entries: Vec<Entry>,
    /// None of them is newer.
    pub revision: Revision,
    /// None above this one was ever given out.
    pub reserved: Revision,
}

impl Image {
    /// Reads the store in a directory, whether a server uses it or not. All that is read is durable. Changes nothing.
    pub fn read(directory: &Path) -> Result<Self, OpenError> {
        let mut attempt = 1;
        loop {
            let disk = Held::open(directory)
                .map_err(|source| OpenError::Io { path: directory.to_owned(), source })?;
            let files = Files::list(&disk, directory)?;
            let problem = match Self::read_files(&disk, directory, &files) {
                Ok(image) => return Ok(image),
                Err(problem) => problem,
            };
            attempt += 1;
            let now = directory::list(directory);
            let now = now.map_err(|source| OpenError::Io { path: directory.to_owned(), source })?;
            if attempt > ATTEMPTS || now.iter().collect::<BTreeSet<_>>() == disk.names() {
                return Err(problem);
            }
        }
    }

    fn read_files(disk: &dyn Disk, path: &Path, files: &Files) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        if open::old(disk).map_err(failed)? == Old::Database {
            return Err(OpenError::UnknownVersion { path: path.join(open::OLD), found: 1 });
        }
        if files.snapshots.is_empty() && files.logs.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let loaded = load::load_beside(disk, path, files, &Plain)?;
        // A frame is readable before it is durable.
        let log = FileId::log(loaded.end.number).name();
        disk.open(&log).and_then(|file| file.sync()).map_err(failed)?;
        let mut entries = Vec::with_capacity(loaded.mvcc.live());
        let mut range = KeyRange::all();
        loop {
            let page = loaded.mvcc.range(&range, None, usize::MAX);
            let page = page.map_err(|error| failed(io::Error::other(error)))?;
            match page.entries.last() {
                Some(last) if page.more => range = range.after(last.key()),
                _ => {
                    entries.extend(page.entries);
                    break;
                }
            }
            entries.extend(page.entries);
        }
        let State { revision, reserved, .. } = loaded.state;
        Ok(Self { entries, revision, reserved })
    }

    /// Makes a store of it in a directory that has none. History begins at its revision.
    pub fn create(&self, directory: &Path, sealing: Arc<dyn Sealing>) -> Result<(), OpenError> {
        let disk = Directory::lock(directory)?;
        let state = State { revision: self.revision, compacted: self.revision, reserved: self.reserved };
        let cover = Cover { mask: mask(&Clock::system()), sealing };
        let entries = self.entries.iter().cloned();
        open::make_of(&disk, directory, entries, state, &cover, DEFAULT_ALLOCATION)
    }
}

/// A directory that somebody else may be using: its files as they were listed, which can be read though they are removed.
#[derive(Debug)]
struct Held(BTreeMap<String, fs::File>);

impl Held {
    fn open(directory: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for name in directory::list(directory)? {
            let mut options = OpenOptions::new();
            // Elsewhere a file that is only read cannot be synced.
            match options.read(true).write(cfg!(not(unix))).open(directory.join(&name)) {
                Ok(file) => drop(files.insert(name, file)),
                // It went meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(files))
    }

    fn names(&self) -> BTreeSet<&String> {
        self.0.keys().collect()
    }
}

impl Disk for Held {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(OnDisk(file.try_clone()?)))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
