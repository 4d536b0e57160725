//! The directory that outlives the process, and files written as a whole.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, anyhow};

use crate::error::Hinted;
use sternpost_clock::machine;

/// The part of a data directory that holds objects.
pub const OBJECTS: &str = "objects";

/// Objects that are being put there.
pub const UNFINISHED: &str = "objects.new";

/// What one process at a time has.
pub const LOCK: &str = "lock";

/// An open data directory. One process at a time has it.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Held, not read: the lock goes when this is closed.
    _lock: File,
}

impl DataDir {
    /// Creates it if needed, readable by its owner only, and locks it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        private_dirs()
            .recursive(true)
            .create(path)
            .with_context(|| format!("cannot create `{}`", path.display()))?;
        let lock_file = path.join(LOCK);
        let lock = private(OpenOptions::new().write(true).create(true).truncate(false))
            .open(&lock_file)
            .with_context(|| format!("cannot open `{}`", lock_file.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Hinted {
                message: format!("data directory `{}` is in use by another sternpost", path.display()),
                hint: "stop that one, or choose another directory with --data-dir".into(),
            }
            .into()),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock `{}`", lock_file.display()))
            }
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Refuses one that a restore was to fill, and did not.
    pub fn want_whole(&self) -> anyhow::Result<()> {
        if !self.file(UNFINISHED).exists() || self.file(OBJECTS).exists() {
            return Ok(());
        }
        let message = format!(
            "`{}` was to be filled by a restore or a migration that was interrupted",
            self.path.display()
        );
        Err(Hinted { message, hint: "remove it, and begin again".into() }.into())
    }
}

/// Where the objects of a data directory are; refuses what is none.
pub fn objects_of(dir: &Path) -> anyhow::Result<PathBuf> {
    let objects = dir.join(OBJECTS);
    if objects.is_dir() {
        return Ok(objects);
    }
    Err(Hinted {
        message: format!("`{}` is no data directory: there is no `{OBJECTS}` in it", dir.display()),
        hint: "name the directory that `serve --data-dir` has".into(),
    }
    .into())
}

/// Refuses a directory that more is in than the lock.
pub fn want_only_lock(dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))? {
        if entry?.file_name() != LOCK {
            return Err(not_empty(dir));
        }
    }
    Ok(())
}

/// Refuses a directory that something is in.
pub fn want_empty(dir: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write `{}`", dir.display());
    if !dir.exists() || fs::read_dir(dir).with_context(context)?.next().is_none() {
        return Ok(());
    }
    Err(not_empty(dir))
}

fn not_empty(dir: &Path) -> anyhow::Error {
    let hint = "name a directory that is not there; nothing is replaced".into();
    Hinted { message: format!("`{}` is not empty", dir.display()), hint }.into()
}

/// Where data lives if nobody says otherwise.
#[expect(clippy::disallowed_methods, reason = "the platform names its data directory in the environment")]
pub fn default_path() -> anyhow::Result<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().and_then(absolute);
    let base = if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        std::env::var_os("XDG_DATA_HOME")
            .and_then(|path| absolute(path.into()))
            .or_else(|| home().map(|home| home.join(".local/share")))
    };
    let base = base.ok_or_else(|| Hinted {
        message: "there is no home directory to keep data in".into(),
        hint: "name one with --data-dir, or use --in-memory".into(),
    })?;
    Ok(base.join("sternpost"))
}

/// Whose a file is, and who may read it.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    /// This process's user, and nobody else.
    Private,
    /// As the file that is replaced.
    As(&'a fs::Metadata),
}

/// As [`replace`], readable by its owner only.
pub fn write_private(path: &Path, content: &str) -> anyhow::Result<()> {
    replace(path, content, Owner::Private)
}

/// Replaces `path` in one step: a reader, or a crash, sees the old file or the new one.
pub fn replace(path: &Path, content: &str, owner: Owner<'_>) -> anyhow::Result<()> {
    let context = || format!("cannot write `{}`", path.display());
    let name = path.file_name().ok_or_else(|| anyhow!("not the name of a file")).with_context(context)?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    // Not guessable ahead of time, and never opened if it exists: the
    // directory may be one that others can write to.
    let nanos = machine::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let temporary = dir.join(format!(".{}.{}-{nanos}", name.to_string_lossy(), std::process::id()));
    let result = write_new(&temporary, content, owner)
        .and_then(|()| fs::rename(&temporary, path))
        // The rename is only durable once the directory is.
        .and_then(|()| File::open(dir)?.sync_all());
    if result.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    result.with_context(context)
}

/// Makes a file with the content of another, readable by its owner only. One that is there stays.
pub fn copy_private(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copy = || {
        let mut file = create_private(to)?;
        io::copy(&mut File::open(from)?, &mut file)?;
        file.sync_all()
    };
    copy().with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))
}

/// Makes a file that only its owner may read. One that is there stays.
pub fn create_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create_new(true)).open(path)
}

fn write_new(path: &Path, content: &str, owner: Owner<'_>) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(content.as_bytes())?;
    if let Owner::As(like) = owner {
        give(&file, like)?;
    }
    file.sync_all()
}

/// Before the mode, which others may then read by.
fn give(file: &File, like: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
    }
    file.set_permissions(like.permissions())
}

/// Makes directories that only their owner may enter.
pub fn private_dirs() -> fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "modes are a Unix matter"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own for each test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sternpost-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_written_file_is_whole_private_and_leaves_nothing_behind() {
        let scratch = Scratch::new("write");
        let path = scratch.0.join("secret");
        fs::write(&path, "an older and longer content").unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_failed_write_names_the_file_and_cleans_up() {
        let scratch = Scratch::new("fail");
        let path = scratch.0.join("taken");
        fs::create_dir(&path).unwrap();
        let error = write_private(&path, "x").unwrap_err();
        assert!(format!("{error:#}").starts_with(&format!("cannot write `{}`: ", path.display())));
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
        assert!(write_private(&scratch.0.join("no/such/dir"), "x").is_err());
        assert!(write_private(Path::new("/"), "x").is_err());
    }

    #[test]
    fn a_data_directory_has_one_owner_at_a_time() {
        let scratch = Scratch::new("lock");
        let path = scratch.0.join("data");
        let first = DataDir::open(&path).unwrap();
        let error = DataDir::open(&path).unwrap_err();
        assert!(error.to_string().ends_with("is in use by another sternpost"), "{error}");
        drop(first);
        assert!(DataDir::open(&path).is_ok());
    }
}
