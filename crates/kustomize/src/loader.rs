//! Where a kustomization may take its files from: its own directory and what
//! is below, directories beside it as bases, and remote places.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::documents;
use crate::error::{Cause, Error, Result};
use crate::files::{self, Entry, FetchError, Fetcher, FileSystem};
use crate::repository::{self, Address};

/// The names a kustomization file may have.
pub(crate) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Which files a kustomization may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restriction {
    /// Those in its directory and below.
    #[default]
    RootOnly,
    None,
}

/// One root directory and how the build came to it.
#[derive(Clone)]
pub(crate) struct Loader<'a> {
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) fetcher: &'a dyn Fetcher,
    restriction: Restriction,
    place: Rc<RootDir>,
}

/// A root directory without links, and the roots that led to it.
#[derive(Debug)]
struct RootDir {
    root: PathBuf,
    referrer: Option<Rc<RootDir>>,
    copy: Option<Rc<Copied>>,
}

/// The copy of a repository that a root is in.
#[derive(Debug)]
struct Copied {
    directory: PathBuf,
    address: Address,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<'a> Loader<'a> {
    /// The loader of a build's own directory. `shown` is how the caller spelled
    /// it, for messages.
    pub(crate) fn at_directory(
        files: &'a dyn FileSystem,
        fetcher: &'a dyn Fetcher,
        restriction: Restriction,
        shown: &str,
        path: &Path,
    ) -> Result<Self> {
        if shown.is_empty() {
            return Err(Error::new("must build at directory: directory path cannot be empty"));
        }
        if let Some(address) = repository::parse(shown) {
            return Self::at_repository(files, fetcher, address, None);
        }
        let root = directory(files, shown, path)?;
        let place = RootDir { root, referrer: None, copy: None };
        Ok(Self { files, fetcher, restriction, place: Rc::new(place) })
    }

    /// What is in a repository stays in there, whatever local files may do.
    fn at_repository(
        files: &'a dyn FileSystem,
        fetcher: &'a dyn Fetcher,
        address: Address,
        referrer: Option<Rc<RootDir>>,
    ) -> Result<Self> {
        let copied =
            fetcher.clone_repository(&address.repository).map_err(|error| Error::new(error.to_string()))?;
        let (copied, _) = files::resolve(files, &copied).map_err(|error| Error::new(error.0))?;
        let target = copied.join(&address.path);
        let root = directory(files, &target.to_string_lossy(), &target)?;
        if !root.starts_with(&copied) {
            return Err(outside(&root, &copied));
        }
        let copy = Some(Rc::new(Copied { directory: copied, address }));
        let place = Rc::new(RootDir { root, referrer, copy });
        Ok(Self { files, fetcher, restriction: Restriction::RootOnly, place })
    }

    /// The address of the repository that this root is in.
    pub(crate) fn repository(&self) -> Option<&Address> {
        self.place.copy.as_ref().map(|copy| &copy.address)
    }

    /// The root as it is shown in origins: in its repository or, for local
    /// ones, from where the build is.
    pub(crate) fn directory_from(&self, parent: &Path, path: &str) -> PathBuf {
        match self.repository() {
            Some(address) if address.raw == path => address.path.clone(),
            _ => files::clean(&parent.join(path)),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.place.root
    }

    /// The loader of a base or component.
    pub(crate) fn enter(&self, path: &str) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::new("new root cannot be empty"));
        }
        if let Some(address) = repository::parse(path) {
            let mut visited = Some(&self.place);
            while let Some(place) = visited {
                if let Some(copy) = &place.copy
                    && copy.address.raw.starts_with(path)
                {
                    let raw = &copy.address.raw;
                    return Err(Error::new(format!(
                        "cycle detected: URI '{path}' referenced by previous URI '{raw}'"
                    )));
                }
                visited = place.referrer.as_ref();
            }
            let referrer = Some(Rc::clone(&self.place));
            return Self::at_repository(self.files, self.fetcher, address, referrer);
        }
        if Path::new(path).is_absolute() {
            return Err(Error::new(format!("new root '{path}' cannot be absolute")));
        }
        let target = files::clean(&self.root().join(path));
        let root = directory(self.files, &target.to_string_lossy(), &target)?;
        if let Some(copy) = self.place.copy.as_ref().filter(|copy| !root.starts_with(&copy.directory)) {
            return Err(outside(&root, &copy.directory));
        }
        let mut visited = Some(&self.place);
        while let Some(place) = visited {
            if place.root.starts_with(&root) {
                return Err(Error::new(format!(
                    "cycle detected: candidate root '{}' contains visited root '{}'",
                    root.display(),
                    place.root.display()
                )));
            }
            visited = place.referrer.as_ref();
        }
        let copy = self.place.copy.clone();
        let place = RootDir { root, referrer: Some(Rc::clone(&self.place)), copy };
        Ok(Self { place: Rc::new(place), ..self.clone() })
    }

    /// A file's bytes, links followed and the restriction kept.
    pub(crate) fn load(&self, path: &str) -> Result<Vec<u8>> {
        if is_http(path) {
            return self.fetcher.get(path).map_err(|error| match error {
                // Somebody else answers for repositories.
                FetchError::Status { .. } if repository::parse(path).is_some() => {
                    Error::new("URL is a git repository")
                }
                FetchError::Status { .. } => Error::caused(Cause::HttpStatus, error.to_string()),
                FetchError::Other(message) => Error::new(message),
            });
        }
        let target = files::clean(&self.root().join(path));
        let shown = target.display();
        let (resolved, entry) = files::resolve(self.files, &target).map_err(|error| {
            // Without a restriction nobody looks where links lead.
            match (self.restriction, error.0.rsplit_once(": ")) {
                (Restriction::None, Some((_, reason))) => Error::new(format!("open {shown}: {reason}")),
                _ => Error::new(format!("evalsymlink failure on '{shown}' : {error}")),
            }
        })?;
        if entry == Entry::Directory {
            return Err(Error::new(match self.restriction {
                Restriction::RootOnly => format!("'{shown}' must resolve to a file"),
                Restriction::None => format!("read {shown}: is a directory"),
            }));
        }
        let below = resolved.parent().is_some_and(|parent| parent.starts_with(self.root()));
        if self.restriction == Restriction::RootOnly && !below {
            return Err(Error::new(format!(
                "security; file '{shown}' is not in or below '{}'",
                self.root().display()
            )));
        }
        let read = self.files.read(&resolved);
        read.map_err(|error| Error::new(format!("open {shown}: {}", files::reason(&error))))
    }

    pub(crate) fn load_text(&self, path: &str) -> Result<String> {
        self.load(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The text of the kustomization file of this root, and its name.
    pub(crate) fn kustomization(&self) -> Result<(String, &'static str)> {
        let mut found = None;
        for name in FILE_NAMES {
            let Ok(bytes) = self.load(name) else { continue };
            let text = documents::text(bytes).map_err(|error| {
                let file = self.root().join(name);
                // Not a resource that is malformed: its directory is what it is.
                let error = Error::new(error.to_string()).with_hint(error.hint().unwrap_or_default());
                error.within("invalid Kustomization").in_file(file.display())
            })?;
            if found.replace((text, name)).is_some() {
                let root = self.root().display();
                return Err(Error::new(format!("Found multiple kustomization files under: {root}\n")));
            }
        }
        found.ok_or_else(|| {
            let root = self.root().display();
            Error::caused(
                Cause::NoKustomization,
                format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{root}'"
                ),
            )
        })
    }
}

pub(crate) fn is_http(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

fn outside(root: &Path, repository: &Path) -> Error {
    Error::new(format!(
        "security; bases in kustomizations found in cloned git repos must be within the repo, but base '{}' is outside '{}'",
        root.display(),
        repository.display()
    ))
}

fn directory(files: &dyn FileSystem, shown: &str, path: &Path) -> Result<PathBuf> {
    let (root, entry) = files::resolve(files, path).map_err(|error| {
        let problem = format!("evalsymlink failure on '{shown}' : {error}");
        Error::new(format!("must build at directory: not a valid directory: {problem}"))
    })?;
    match entry {
        Entry::Directory => Ok(root),
        _ => {
            let error = Error::new(format!("must build at directory: '{shown}': file is not directory"));
            Err(error.with_hint("name the directory that has the kustomization file"))
        }
    }
}
