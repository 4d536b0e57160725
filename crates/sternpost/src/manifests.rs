//! Manifests: the objects of files, directories, standard input and kustomizations, each knowing where its fields
//! are written.

mod documents;
mod place;

use std::{
    collections::HashSet,
    fmt,
    io::{self, Read},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, available_parallelism},
};

use serde_json::Value;
use sternpost_kustomize::{Environment, Error as KustomizeError, Options, Restriction, Written};
use sternpost_yaml::{Document, Error as YamlError, Problem as YamlProblem, node::Node};

use crate::{
    build::{Disk, KUSTOMIZE_VERSION},
    fetch::Network,
    programs::{Programs, Temporary},
    serve::STACK_BYTES,
    terminal,
};

/// What files in a directory are called that hold objects, as for kubectl.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// What makes a directory a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What standard input is called, on the command line and in places.
const STDIN: &str = "-";
const STDIN_SHOWN: &str = "<stdin>";

/// Kinds that others need.
pub const DEFINITION: &str = "CustomResourceDefinition";
pub const NAMESPACE: &str = "Namespace";

/// A place in a file, counted from 1; a line of 0 is the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

/// What is wrong with a file, before any object of it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub place: Place,
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// One object.
#[derive(Debug)]
pub struct Manifest {
    pub object: Value,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// A document of a text, or an item of the list that the document is.
    Text { text: Arc<Text>, document: usize, item: Option<usize> },
    /// What somebody else has, such as a server or an OpenAPI document.
    Elsewhere(Arc<str>),
    /// What a kustomization makes.
    Built { written: Box<Written>, kustomization: Arc<str> },
}

/// A file, read.
struct Text {
    shown: String,
    text: String,
    /// Its documents with their places, for those who ask for one.
    nodes: OnceLock<Vec<Node>>,
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Text").field(&self.shown).finish()
    }
}

/// What was read, in the order of sources, files and documents.
#[derive(Debug, Default)]
pub struct Manifests {
    pub objects: Vec<Manifest>,
    pub unreadable: Vec<Unreadable>,
    /// Of kustomizations, a line each.
    pub warnings: Vec<String>,
}

impl Manifests {
    /// Reads everything that the sources name: files, directories, kustomizations, and `-` for standard input.
    pub fn read<'a>(sources: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut manifests = Self::default();
        let mut parts = Vec::new();
        for source in sources {
            manifests.source(source, &mut parts);
        }
        manifests.settle(&parts);
        manifests
    }

    /// On stderr.
    pub fn tell_warnings(&self) {
        for warning in &self.warnings {
            terminal::tell(&format!("warning: {warning}"));
        }
    }

    fn source(&mut self, path: &Path, parts: &mut Vec<Part>) {
        if path == Path::new(STDIN) {
            let mut bytes = Vec::new();
            match io::stdin().lock().read_to_end(&mut bytes) {
                Ok(_) => parts.push(Part::Bytes(STDIN_SHOWN.to_owned(), bytes)),
                Err(error) => self.cannot_read(STDIN_SHOWN.to_owned(), &error),
            }
            return;
        }
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.directory(path, parts),
            Ok(_) if is_kustomization_file(path) => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                parts.push(Part::Kustomization(directory.unwrap_or(Path::new(".")).to_owned()));
            }
            Ok(_) => parts.push(Part::File(path.to_owned())),
            Err(error) => self.cannot_read(shown(path), &error),
        }
    }

    /// A kustomization, or all files of objects in and below it.
    fn directory(&mut self, path: &Path, parts: &mut Vec<Part>) {
        if KUSTOMIZATIONS.iter().any(|name| path.join(name).is_file()) {
            parts.push(Part::Kustomization(path.to_owned()));
            return;
        }
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.cannot_read(shown(path), &error),
        };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            // Links to directories are not followed: they may lead back.
            match entry.file_type() {
                _ if is_hidden => {}
                Ok(kind) if kind.is_dir() => self.directory(&path, parts),
                Ok(_) if is_manifest(&path) && path.is_file() => parts.push(Part::File(path)),
                Ok(_) => {}
                Err(error) => self.cannot_read(shown(&path), &error),
            }
        }
    }

    fn cannot_read(&mut self, file: String, error: &io::Error) {
        self.unreadable.push(Unreadable::whole(file, format!("cannot be read: {error}")));
    }

    /// Reads the parts side by side, and puts them together in their order.
    fn settle(&mut self, parts: &[Part]) {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut read = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(number) else { return read };
                read.push((number, part.read()));
            }
        };
        let threads = available_parallelism().map_or(1, usize::from).min(parts.len());
        let mut read = thread::scope(|scope| {
            let builder = || thread::Builder::new().stack_size(STACK_BYTES);
            // Those that cannot be had are done without.
            let others: Vec<_> =
                (1..threads).filter_map(|_| builder().spawn_scoped(scope, work).ok()).collect();
            let mut read = work();
            for other in others {
                read.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            read
        });
        read.sort_by_key(|(number, _)| *number);
        for (_, part) in read {
            self.objects.extend(part.objects);
            self.unreadable.extend(part.unreadable);
            self.warnings.extend(part.warnings);
        }
    }
}

/// What is read by itself.
#[derive(Debug)]
enum Part {
    /// Read already, and what it is called.
    Bytes(String, Vec<u8>),
    File(PathBuf),
    Kustomization(PathBuf),
}

impl Part {
    fn read(&self) -> Manifests {
        let mut manifests = Manifests::default();
        match self {
            Self::Bytes(shown, bytes) => manifests.text(shown.clone(), bytes.clone()),
            Self::File(path) => match std::fs::read(path) {
                Ok(bytes) => manifests.text(shown(path), bytes),
                Err(error) => manifests.cannot_read(shown(path), &error),
            },
            Self::Kustomization(path) => manifests.kustomization(path),
        }
        manifests
    }
}

impl Manifests {
    fn text(&mut self, shown: String, bytes: Vec<u8>) {
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let whole = error.utf8_error().valid_up_to();
                let before =
                    String::from_utf8_lossy(error.as_bytes().get(..whole).unwrap_or_default()).into_owned();
                let place = Place::behind(shown, &before);
                return self.unreadable.push(Unreadable::at(place, "this is no text in UTF-8"));
            }
        };
        let (documents, failed) = sternpost_yaml::read_all(&text);
        let text = Arc::new(Text { shown, text, nodes: OnceLock::new() });
        for (number, document) in documents.into_iter().enumerate() {
            self.document(&text, number, document);
        }
        self.unreadable.extend(failed.map(|error| Unreadable::yaml(&text.shown, &error)));
    }

    fn document(&mut self, text: &Arc<Text>, number: usize, document: Document) {
        let Document { value, repeated, .. } = document;
        let set_twice = |error: &&YamlError| matches!(error.problem, YamlProblem::DuplicateKey { .. });
        self.unreadable
            .extend(repeated.iter().filter(set_twice).map(|error| Unreadable::yaml(&text.shown, error)));
        let origin = |item| Origin::Text { text: text.clone(), document: number, item };
        let mut object = value;
        if object.is_object() && is_list(&object) {
            let items = object.get_mut("items").map(Value::take);
            let items = if let Some(Value::Array(items)) = items { items } else { Vec::new() };
            let items = items.into_iter().enumerate();
            self.objects.extend(items.map(|(item, object)| Manifest { object, origin: origin(Some(item)) }));
        } else {
            self.objects.push(Manifest { object, origin: origin(None) });
        }
    }

    fn kustomization(&mut self, path: &Path) {
        let directory = match std::path::absolute(path) {
            Ok(directory) => directory,
            Err(error) => return self.cannot_read(shown(path), &error),
        };
        let temporary = Temporary::default();
        let network = match Network::new(&temporary, None, None) {
            Ok(network) => network,
            Err(error) => return self.unreadable.push(Unreadable::whole(shown(path), format!("{error:#}"))),
        };
        let programs = Programs { temporary: &temporary };
        let environment = Environment { files: &Disk, fetcher: &network, runner: &programs };
        let options = Options {
            shown: shown(path),
            directory,
            restriction: Restriction::RootOnly,
            version: KUSTOMIZE_VERSION.to_owned(),
            why: true,
            ..Options::default()
        };
        let built = match sternpost_kustomize::build(environment, &options) {
            Ok(built) => built,
            Err(failed) => {
                self.warnings.extend(failed.warnings);
                let unreadable = Unreadable::kustomization(path, &options.directory, &failed.error);
                return self.unreadable.push(unreadable);
            }
        };
        self.warnings.extend(built.warnings);
        let kustomization: Arc<str> = shown(path).into();
        for written in built.objects {
            match sternpost_yaml::from_str(&written.yaml) {
                Ok(object) => {
                    let origin =
                        Origin::Built { written: Box::new(written), kustomization: kustomization.clone() };
                    self.objects.push(Manifest { object, origin });
                }
                // It was written a moment ago.
                Err(error) => self.unreadable.push(Unreadable::whole(shown(path), error.to_string())),
            }
        }
    }
}

impl Unreadable {
    fn whole(file: String, message: String) -> Self {
        Self { place: Place { file, line: 0, column: 0 }, message }
    }

    fn at(place: Place, message: &str) -> Self {
        Self { place, message: message.to_owned() }
    }

    /// Of a kustomization in this directory, whose files are called as the caller calls the directory.
    fn kustomization(path: &Path, directory: &Path, error: &KustomizeError) -> Self {
        let message = error.to_string();
        let with = |what: &str| {
            if what.is_empty() || message.contains(what) {
                message.clone()
            } else {
                format!("{message}; {what}")
            }
        };
        match error.place() {
            Some((file, line, column, what)) => {
                let below = Path::new(file).strip_prefix(directory).map(|below| shown(&path.join(below)));
                let file = below.unwrap_or_else(|_| file.to_owned());
                Self { place: Place { file, line, column }, message: with(what) }
            }
            None => Self::whole(shown(path), with(error.hint().unwrap_or_default())),
        }
    }

    fn yaml(file: &str, error: &YamlError) -> Self {
        let narrow = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let place = Place { file: file.to_owned(), line: narrow(error.line), column: narrow(error.column) };
        Self { place, message: error.problem.to_string() }
    }
}

/// Definitions among others that a set does not bring itself.
pub fn definitions_beside<'a>(
    others: impl IntoIterator<Item = &'a Manifest>,
    own: &'a [Manifest],
) -> impl Iterator<Item = &'a Manifest> {
    let own: HashSet<&str> = own.iter().filter(|own| own.is_definition()).map(Manifest::name).collect();
    others.into_iter().filter(move |other| other.is_definition() && !own.contains(other.name()))
}

impl Manifest {
    /// Of no file: places are all of it.
    pub fn elsewhere(object: Value, shown: &Arc<str>) -> Self {
        Self { object, origin: Origin::Elsewhere(shown.clone()) }
    }

    pub fn is_elsewhere(&self) -> bool {
        matches!(self.origin, Origin::Elsewhere(_))
    }

    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// As it is written: empty if it is not.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// As it is written, or else this one.
    pub fn namespace_or<'a>(&'a self, default: &'a str) -> &'a str {
        match self.namespace() {
            "" => default,
            namespace => namespace,
        }
    }

    pub fn is_definition(&self) -> bool {
        self.kind() == DEFINITION
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// What messages call it: `Deployment/web`.
    pub fn shown(&self) -> String {
        match (self.kind(), self.name()) {
            ("", _) => "object".to_owned(),
            (kind, "") => kind.to_owned(),
            (kind, name) => format!("{kind}/{name}"),
        }
    }
}

/// Objects in one document, as `kubectl get -o yaml` writes them.
fn is_list(object: &Value) -> bool {
    let is = |field: &str, wanted: &str| object.get(field).and_then(Value::as_str) == Some(wanted);
    let holds_items = object.get("items").is_some_and(Value::is_array);
    let is_of_some_kind =
        object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    (is("kind", "List") && is("apiVersion", "v1")) || (is_of_some_kind && holds_items)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

fn is_kustomization_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| KUSTOMIZATIONS.iter().any(|known| name == *known))
}
