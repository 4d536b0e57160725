//! The seams through which a build reaches files, the network and processes,
//! and the file system that is kept in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

pub(crate) use sternpost_golang::path::clean_file_path as clean;

/// What is at a path, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    File,
    Directory,
    /// To another path, which may be relative to the directory of the link.
    Link(PathBuf),
}

/// Reading only. Paths are absolute and clean, and except for
/// [`FileSystem::entry`] without links.
pub trait FileSystem {
    fn entry(&self, path: &Path) -> io::Result<Entry>;
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// Files that can be listed and changed too, for the commands that edit.
pub trait WritableFiles: FileSystem {
    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Makes or replaces a file, in a directory that is there.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Makes a directory where nothing is yet, in one that is there.
    fn make_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Removes a file, or a link but not what it leads to.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// A place on a remote host, and what came from there.
pub trait Fetcher {
    /// The body of an `http` or `https` address.
    fn get(&self, url: &str) -> Result<Vec<u8>, FetchError>;

    /// Makes a copy of a repository in a directory of its own, which
    /// [`FileSystem`] then can read.
    fn clone_repository(&self, repository: &Repository) -> Result<PathBuf, FetchError>;
}

/// A repository as an address in a kustomization names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub url: String,
    pub reference: String,
    pub submodules: bool,
    pub timeout: std::time::Duration,
}

impl Repository {
    /// The timeout as messages have it: `27s`.
    pub fn timeout_text(&self) -> String {
        crate::repository::go_duration(self.timeout)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("HTTP Error: status code {code} ({reason})")]
    Status { code: u16, reason: String },
    #[error("{0}")]
    Other(String),
}

/// Runs a program that a kustomization asks for, such as helm or a function.
pub trait Runner {
    fn run(&self, command: &Command) -> io::Result<Ran>;

    /// A new directory for the files of a program, which is gone after the
    /// build. Its name starts as given.
    fn temporary_directory(&self, prefix: &str) -> io::Result<PathBuf>;

    /// Writes a file of a program into such a directory.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub directory: Option<PathBuf>,
    pub input: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ran {
    /// `None` if a signal ended it.
    pub status: Option<i32>,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
}

/// A fetcher and runner for builds that may have neither.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Fetcher for Nothing {
    fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Other(format!("no network to get {url} from")))
    }

    fn clone_repository(&self, repository: &Repository) -> Result<PathBuf, FetchError> {
        Err(FetchError::Other(format!("no network to clone {} from", repository.url)))
    }
}

impl Runner for Nothing {
    fn run(&self, command: &Command) -> io::Result<Ran> {
        let message = format!("may not run {}", command.program);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }

    fn temporary_directory(&self, _: &str) -> io::Result<PathBuf> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Files in memory. Directories are there if something is in them.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles {
    files: BTreeMap<PathBuf, Vec<u8>>,
    links: BTreeMap<PathBuf, PathBuf>,
    directories: std::collections::BTreeSet<PathBuf>,
}

impl MemoryFiles {
    pub fn add(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let path = path.into();
        self.add_parents(&path);
        self.files.insert(path, content.into());
    }

    pub fn add_link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        let path = path.into();
        self.add_parents(&path);
        self.links.insert(path, target.into());
    }

    pub fn add_directory(&mut self, path: impl Into<PathBuf>) {
        let path = path.into();
        self.add_parents(&path);
        self.directories.insert(path);
    }

    /// Every file, by path.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_path(), content.as_slice()))
    }

    fn add_parents(&mut self, path: &Path) {
        for parent in path.ancestors().skip(1) {
            if !self.directories.insert(parent.to_owned()) {
                break;
            }
        }
    }
}

impl FileSystem for MemoryFiles {
    fn entry(&self, path: &Path) -> io::Result<Entry> {
        if self.files.contains_key(path) {
            return Ok(Entry::File);
        }
        if let Some(target) = self.links.get(path) {
            return Ok(Entry::Link(target.clone()));
        }
        if self.directories.contains(path) {
            return Ok(Entry::Directory);
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl WritableFiles for MemoryFiles {
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        if self.entry(directory)? != Entry::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let paths = self.files.keys().chain(self.links.keys()).chain(&self.directories);
        let inside = paths.filter(|path| path.parent() == Some(directory));
        let mut names: Vec<String> = inside
            .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        match path.parent().map(|parent| self.entry(parent)) {
            Some(Ok(Entry::Directory)) if !self.directories.contains(path) => {
                self.files.insert(path.to_owned(), content.to_vec());
                Ok(())
            }
            Some(Ok(Entry::Directory)) => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let removed = self.files.remove(path).is_some() || self.links.remove(path).is_some();
        if removed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        if self.entry(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match path.parent().map(|parent| self.entry(parent)) {
            Some(Ok(Entry::Directory)) => {
                self.directories.insert(path.to_owned());
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// How many links a path may lead through.
const MAX_LINKS: usize = 255;

/// A path that could not be followed, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ResolveError(pub(crate) String);

/// The path without links, as `filepath.EvalSymlinks` finds it.
pub(crate) fn resolve(files: &dyn FileSystem, path: &Path) -> Result<(PathBuf, Entry), ResolveError> {
    let mut resolved = PathBuf::from("/");
    let mut entry = Entry::Directory;
    let mut left: Vec<PathBuf> = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == Path::new("..") {
            resolved.pop();
            entry = Entry::Directory;
            continue;
        }
        if entry == Entry::File {
            return Err(ResolveError("not a directory".to_owned()));
        }
        let next = resolved.join(&name);
        entry = files
            .entry(&next)
            .map_err(|error| ResolveError(format!("lstat {}: {}", next.display(), reason(&error))))?;
        match &entry {
            Entry::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(ResolveError("EvalSymlinks: too many links".to_owned()));
                }
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                left.extend(names(target));
                entry = Entry::Directory;
            }
            Entry::File | Entry::Directory => resolved = next,
        }
    }
    Ok((resolved, entry))
}

/// The names of a path, last first.
fn names(path: &Path) -> Vec<PathBuf> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().filter_map(name).rev().collect()
}

/// The reason of an error as Go words it.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => error.to_string(),
    }
}
