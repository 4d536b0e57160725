//! The data directory: the lock and the making of a new file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use redb::backends::FileBackend;

use crate::{engine, store::OpenError};

const LOCK: &str = "lock";
const DATABASE: &str = "store.redb";
const UNFINISHED: &str = "store.redb.new";

/// A directory that nobody else uses while this exists.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        create(path).map_err(failed(path))?;
        let name = path.join(LOCK);
        let mut options = private();
        let lock = options.write(true).create(true).truncate(false).open(&name).map_err(failed(&name))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(OpenError::Io { path: name, source }),
        }
    }

    /// As [`Directory::lock`], of a directory that has a store.
    pub fn lock_existing(path: &Path) -> Result<Self, OpenError> {
        let database = path.join(DATABASE);
        match fs::metadata(&database) {
            Ok(_) => Self::lock(path),
            Err(source) => Err(OpenError::Io { path: database, source }),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The file, for reading and writing; made first if there is none.
    pub fn open(&self) -> Result<FileBackend, OpenError> {
        let path = self.database();
        let failed = |source| OpenError::Io { path: path.clone(), source };
        if !path.try_exists().map_err(failed)? {
            self.make_with(|backend| engine::create(backend, &path))?;
        }
        self.open_existing()
    }

    /// The file, which must be there.
    pub fn open_existing(&self) -> Result<FileBackend, OpenError> {
        let path = self.database();
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        backend(file, &path)
    }

    /// Under another name first, so that a crash leaves no half-made file. One that is there is
    /// not replaced.
    pub fn make_with(
        &self,
        make: impl FnOnce(FileBackend) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let path = self.database();
        if path.try_exists().map_err(|source| OpenError::Io { path: path.clone(), source })? {
            return Err(OpenError::Io { path, source: io::ErrorKind::AlreadyExists.into() });
        }
        let unfinished = self.path.join(UNFINISHED);
        let failed = |source| OpenError::Io { path: unfinished.clone(), source };
        // One that a crash left may have been made with another mode.
        if unfinished.try_exists().map_err(failed)? {
            fs::remove_file(&unfinished).map_err(failed)?;
        }
        let mut options = private();
        let file = options.read(true).write(true).create_new(true).open(&unfinished);
        let file = file.map_err(failed)?;
        let again = file.try_clone().map_err(failed)?;
        make(backend(file, &unfinished)?)?;
        again.sync_all().map_err(failed)?;
        fs::rename(&unfinished, path).map_err(failed)?;
        sync(&self.path).map_err(failed)
    }
}

/// Files that are made are for their owner only, whatever the umask: Secrets are in there.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "modes are a Unix matter"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn backend(file: File, path: &Path) -> Result<FileBackend, OpenError> {
    FileBackend::new(file)
        .map_err(|source| OpenError::Database { path: path.to_owned(), source: source.into() })
}

fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // Secrets are in there.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent),
        _ => sync(Path::new(".")),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
