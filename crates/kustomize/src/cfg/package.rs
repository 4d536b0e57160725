//! Directories of resources, read with their comments.

use std::path::{Path, PathBuf};

use sternpost_yaml::commented::{self, Content, Document, Entry, Node};
use sternpost_yaml::node::Style;

use super::ignore::Ignored;
use crate::command::Context;
use crate::files::{self, Entry as Kind};

/// A directory that has it is a package of its own.
const PACKAGE_FILE: &str = "Krmfile";
/// How many directories may be in each other.
pub(crate) const MAX_DEPTH: usize = 64;

const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";
pub(crate) const INDEX: [&str; 2] = ["config.kubernetes.io/index", "internal.config.kubernetes.io/index"];
pub(crate) const PATH: [&str; 2] = ["config.kubernetes.io/path", "internal.config.kubernetes.io/path"];

/// Which files hold resources, by how their names end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extensions {
    Yaml,
    WithJson,
}

/// The resources of a directory, without those of packages inside of it.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its directory, as seen from the one that was asked for; empty for that.
    pub(crate) below: PathBuf,
    pub(crate) resources: Result<Vec<Resource>, String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) document: Document,
    /// The file, as seen from the package.
    pub(crate) path: PathBuf,
    /// Which document of the file it is.
    pub(crate) index: usize,
}

/// What a path holds, or the message why it holds nothing.
pub(crate) fn read(
    context: &Context<'_>,
    shown: &str,
    recurse: bool,
    extensions: Extensions,
) -> Result<Vec<Package>, String> {
    let (path, entry) = files::resolve(context.files(), &context.at(shown))
        .map_err(|_| format!("lstat {shown}: no such file or directory"))?;
    if entry == Kind::File {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let resources = read_file(context, &path, &name);
        return Ok(vec![Package { below: PathBuf::new(), resources }]);
    }
    let ignored = Ignored::read(context.files(), &path);
    let mut walk = Walk { context, packages: Vec::new(), recurse, extensions, root: path.clone(), ignored };
    walk.package(&path, Path::new(""), 0)?;
    Ok(walk.packages)
}

/// What a stream of documents holds.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) resources: Vec<Resource>,
    /// Whether they were the items of a list.
    pub(crate) is_list: bool,
    /// What a function has to say, in such a list.
    pub(crate) results: Option<Node>,
}

/// The items of a list, or every document there is.
pub(crate) fn read_text(text: &str) -> Result<Input, String> {
    let documents = documents(text)?;
    if let [document] = documents.as_slice() {
        let kind = document.root.get("kind").and_then(Node::as_text);
        if let (Some("List" | "ResourceList"), Some(items)) = (kind, document.root.get("items")) {
            let mut found = Vec::new();
            for entry in items.entries() {
                let document = Document { root: entry.value.clone(), head: vec![], foot: vec![] };
                if !document.root.is_mapping() {
                    return Err(wrong_kind(kind_of(&document.root), &document));
                }
                found.push(document);
            }
            let results = document.root.get("results").cloned();
            return Ok(Input { resources: numbered(found, Path::new("")), is_list: true, results });
        }
    }
    Ok(Input { resources: numbered(documents, Path::new("")), is_list: false, results: None })
}

fn numbered(documents: Vec<Document>, path: &Path) -> Vec<Resource> {
    let resource = |(index, document)| Resource { document, path: path.to_owned(), index };
    documents.into_iter().enumerate().map(resource).collect()
}

struct Walk<'a, 'c> {
    context: &'a Context<'c>,
    packages: Vec<Package>,
    recurse: bool,
    extensions: Extensions,
    root: PathBuf,
    ignored: Ignored,
}

impl Walk<'_, '_> {
    fn package(&mut self, directory: &Path, below: &Path, depth: usize) -> Result<(), String> {
        let mut inner = Vec::new();
        let mut resources = Ok(Vec::new());
        self.directory(directory, Path::new(""), depth, &mut resources, &mut inner)?;
        self.packages.push(Package { below: below.to_owned(), resources });
        if self.recurse {
            for (path, depth) in inner {
                self.package(&directory.join(&path), &below.join(&path), depth)?;
            }
        }
        Ok(())
    }

    fn directory(
        &self,
        package: &Path,
        below: &Path,
        depth: usize,
        resources: &mut Result<Vec<Resource>, String>,
        inner: &mut Vec<(PathBuf, usize)>,
    ) -> Result<(), String> {
        let directory = package.join(below);
        if depth > MAX_DEPTH {
            return Err(format!("{} is more than {MAX_DEPTH} directories deep", directory.display()));
        }
        let files = &self.context.surroundings.files;
        let names = files.list(&directory);
        let names =
            names.map_err(|error| format!("open {}: {}", directory.display(), files::reason(&error)))?;
        for name in names {
            let (path, full) = (below.join(&name), directory.join(&name));
            // Links to files are followed, those to directories are not.
            let mut kind = self.context.files().entry(&full);
            if let Ok(Kind::Link(_)) = kind {
                let led_to = files::resolve(self.context.files(), &full);
                kind = led_to.map(|(_, kind)| kind).map_err(|_| std::io::ErrorKind::NotFound.into());
                if let Ok(Kind::Directory) = kind {
                    continue;
                }
            }
            let seen = full.strip_prefix(&self.root).unwrap_or(&full);
            if self.ignored.has(seen, matches!(kind, Ok(Kind::Directory))) {
                continue;
            }
            match kind {
                Ok(Kind::Directory) if self.context.files().entry(&full.join(PACKAGE_FILE)).is_ok() => {
                    inner.push((path, depth + 1));
                }
                Ok(Kind::Directory) => self.directory(package, &path, depth + 1, resources, inner)?,
                Ok(Kind::File) if has_resources(&path, self.extensions) => {
                    if let Ok(known) = resources {
                        match read_file(self.context, &full, &path) {
                            Ok(more) => known.extend(more),
                            Err(message) => *resources = Err(message),
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn has_resources(path: &Path, extensions: Extensions) -> bool {
    path.extension().is_some_and(|extension| {
        extension == "yaml"
            || extension == "yml"
            || (extension == "json" && extensions == Extensions::WithJson)
    })
}

fn read_file(context: &Context<'_>, full: &Path, path: &Path) -> Result<Vec<Resource>, String> {
    let shown = full.display();
    let target = files::resolve(context.files(), full).map(|(target, _)| target);
    let bytes = context.files().read(target.as_deref().unwrap_or(full));
    let bytes = bytes.map_err(|error| format!("open {shown}: {}", files::reason(&error)))?;
    let documents =
        documents(&String::from_utf8_lossy(&bytes)).map_err(|error| format!("{shown}: {error}"))?;
    Ok(numbered(documents, path))
}

/// Each must be a mapping; those with nothing in them are left out.
fn documents(text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    let mut part = String::new();
    for line in text.replace("\r\n", "\n").split_inclusive('\n').chain(["---"]) {
        if !line.starts_with("---") {
            part.push_str(line);
            continue;
        }
        let after = line.trim_start_matches('-').trim();
        if !after.is_empty() && !after.starts_with('#') {
            return Err(format!("invalid document separator: {}", line.trim_end()));
        }
        let document = commented::read(&part)
            .map_err(|error| format!("MalformedYAMLError: yaml: {}", error.upstream))?;
        part.clear();
        let Some(document) = document.filter(|document| !document.root.is_null()) else { continue };
        if !document.root.is_mapping() {
            return Err(wrong_kind(kind_of(&document.root), &document));
        }
        documents.push(document);
    }
    Ok(documents)
}

/// What yaml.v3 calls it.
pub(crate) fn kind_of(node: &Node) -> &'static str {
    match node.content {
        Content::Mapping(_) => "MappingNode",
        Content::Sequence(_) => "SequenceNode",
        Content::Scalar { .. } | Content::Alias(_) => "ScalarNode",
    }
}

/// What is said of something that should be a mapping.
pub(crate) fn wrong_kind(found: &str, document: &Document) -> String {
    let contents = commented::write(document);
    format!("wrong node kind: expected MappingNode but got {found}: node contents:\n{contents}")
}

impl Resource {
    pub(crate) fn text(&self, path: &[&str]) -> &str {
        let found = path.iter().try_fold(&self.document.root, |node, key| node.get(key));
        found.and_then(Node::as_text).unwrap_or_default()
    }

    /// For the machine it is on, not for a cluster.
    pub(crate) fn is_local(&self) -> bool {
        let annotations = self.document.root.get("metadata").and_then(|metadata| metadata.get("annotations"));
        annotations.is_some_and(|annotations| annotations.get(LOCAL_CONFIG).is_some())
    }

    /// As upstream, which adds annotations while it reads and takes them off
    /// again: nothing remains where there are none.
    pub(crate) fn drop_empty_annotations(&mut self) {
        let Some(metadata) = self.document.root.get_mut("metadata").and_then(Node::entries_mut) else {
            return;
        };
        metadata.retain(|entry| {
            let empty =
                entry.value.is_null() || (entry.value.is_mapping() && entry.value.entries().is_empty());
            !(entry.is("annotations") && empty)
        });
    }

    /// Tells where it is from, in annotations.
    pub(crate) fn annotate(&mut self, with_index: bool) {
        let path = self.path.to_string_lossy().into_owned();
        let index = self.index.to_string();
        let metadata = self.document.root.mapping_at("metadata");
        let annotations = metadata.and_then(|metadata| metadata.mapping_at("annotations"));
        let Some(annotations) = annotations.and_then(Node::entries_mut) else { return };
        for (index_key, path_key) in INDEX.into_iter().zip(PATH) {
            let wanted = [with_index.then_some((index_key, &index)), Some((path_key, &path))];
            for (key, value) in wanted.into_iter().flatten() {
                annotations.retain(|entry| !entry.is(key));
                annotations.push(Entry::pair(key, Node::scalar(value, Style::SingleQuoted)));
            }
        }
    }
}
