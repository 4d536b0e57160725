//! The data directory: the lock, and a [`Disk`] of what is in it.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::{
    disk::{Disk, File},
    store::OpenError,
};

const LOCK: &str = "lock";

/// A directory that nobody else uses while this exists.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: fs::File,
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

    /// As [`Directory::lock`], of a directory that is there.
    pub fn lock_existing(path: &Path) -> Result<Self, OpenError> {
        match fs::metadata(path) {
            Ok(_) => Self::lock(path),
            Err(source) => Err(OpenError::Io { path: path.to_owned(), source }),
        }
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.path)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        Ok(Box::new(OnDisk(file)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let path = self.path.join(name);
        // One that a crash left may have been made with another mode.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(OnDisk(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync(&self.path)
    }
}

/// The names of the files in a directory.
pub fn list(path: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name().into_string()));
    // A name that is no text is none of ours.
    names.filter_map(|name| name.map(Result::ok).transpose()).collect()
}

#[derive(Debug)]
pub struct OnDisk(pub fs::File);

impl File for OnDisk {
    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    #[cfg(unix)]
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, into, offset)
    }

    #[cfg(unix)]
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, offset)
    }

    // Each file is read or written by one thread.
    #[cfg(not(unix))]
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        use io::{Read, Seek};
        (&self.0).seek(io::SeekFrom::Start(offset))?;
        (&self.0).read_exact(into)
    }

    #[cfg(not(unix))]
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use io::{Seek, Write};
        (&self.0).seek(io::SeekFrom::Start(offset))?;
        (&self.0).write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
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
    fs::File::open(directory)?.sync_all()
}
