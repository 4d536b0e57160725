//! `localize`: a copy of a kustomization with everything that it refers to, so
//! that the copy builds without anything outside of it.
//!
//! All that is to be written is put together first; a target that cannot be
//! localized leaves nothing behind.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::documents;
use crate::edit::file::{Fields, written};
use crate::error::{Cause, Error, Result};
use crate::files::{self, Entry, WritableFiles};
use crate::kustomization::{self, KUSTOMIZATION};
use crate::loader::{Loader, Restriction, is_http};
use crate::schema;
use sternpost_golang::strconv::go_quote;

/// Where remote files and roots are put, beside the kustomization file that
/// refers to them.
const REMOTE_FILES: &str = "localized-files";
const CHART_HOME: &str = "charts";
/// How many directories of a chart may be in each other.
const MAX_CHART_DEPTH: usize = 64;

pub(crate) fn run(context: &mut Context<'_>, words: &Words) -> Outcome {
    let (target, destination) = match words.arguments.as_slice() {
        [] => (".", None),
        [target] => (target.as_str(), None),
        [target, destination] => (target.as_str(), Some(destination.as_str())),
        many => return Err(Fault::plain(format!("accepts at most 2 arg(s), received {}", many.len()))),
    };
    let copy = localized(context, target, words.given("scope"), destination).map_err(Fault::plain)?;
    write(context.surroundings.files, &copy).map_err(Fault::plain)?;
    if !words.on("no-verify") {
        verify(context, target, &copy)?;
    }
    let place = copy.directory.display();
    context.log(&format!("SUCCESS: localized {} to directory {place}", go_quote(target)));
    Ok(())
}

/// What is to be written.
struct Copy {
    directory: PathBuf,
    /// Where in it the target is.
    target: PathBuf,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn localized(
    context: &Context<'_>,
    target: &str,
    scope: Option<&str>,
    destination: Option<&str>,
) -> Result<Copy> {
    let loader = Loader::at_directory(
        context.files(),
        context.surroundings.fetcher,
        Restriction::RootOnly,
        target,
        &context.directory().join(target),
    )
    .map_err(|error| error.within(format!("unable to establish localize target {}", go_quote(target))))?;
    let remote = loader.repository().is_some();
    let root = loader.root().to_owned();
    let scope = match scope.filter(|scope| !scope.is_empty()) {
        None if remote => checkout(&loader),
        None => root.clone(),
        Some(scope) => scope_of(context, scope, target, &root)
            .map_err(|error| error.within(format!("invalid localize scope {}", go_quote(scope))))?,
    };
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let default = format!("localized-{name}");
    let directory = destination_of(context, destination.unwrap_or(&default))?;
    let mut localizer = Localizer { files: context.surroundings.files, copied: BTreeMap::new() };
    let at = LocalizedRoot { loader, scope: scope.clone(), destination: directory.clone() };
    localizer
        .root(&at)
        .map_err(|error| error.within(format!("unable to localize target {}", go_quote(target))))?;
    let below = root.strip_prefix(&scope).unwrap_or(Path::new(""));
    Ok(Copy { target: directory.join(below), directory, files: localizer.copied })
}

fn scope_of(context: &Context<'_>, scope: &str, target: &str, root: &Path) -> Result<PathBuf> {
    let unable = "unable to establish localize scope";
    let (path, entry) =
        files::resolve(context.files(), &context.directory().join(scope)).map_err(|error| {
            Error::new(format!("{unable}: not a valid directory: evalsymlink failure on '{scope}' : {error}"))
        })?;
    if entry != Entry::Directory {
        return Err(Error::new(format!("{unable}: '{scope}': file is not directory")));
    }
    if !root.starts_with(&path) {
        return Err(Error::new(format!(
            "localize scope {} does not contain target {} at {}",
            go_quote(scope),
            go_quote(target),
            go_quote(&root.display().to_string())
        )));
    }
    Ok(path)
}

fn destination_of(context: &Context<'_>, destination: &str) -> Result<PathBuf> {
    let shown = go_quote(destination);
    let invalid = |problem: String| Error::new(format!("invalid localize destination {shown}: {problem}"));
    let path = context.at(destination);
    if context.files().entry(&path).is_ok() {
        return Err(invalid(format!("localize destination {shown} already exists")));
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    match files::resolve(context.files(), parent) {
        Ok((parent, Entry::Directory)) => Ok(parent.join(path.file_name().unwrap_or_default())),
        _ => Err(invalid(format!(
            "unable to create localize destination directory: mkdir {destination}: no such file or directory"
        ))),
    }
}

/// The directory that the repository of a loader was cloned into.
fn checkout(loader: &Loader<'_>) -> PathBuf {
    let below = loader.repository().map(|address| address.path.components().count()).unwrap_or_default();
    loader.root().ancestors().nth(below).unwrap_or(loader.root()).to_owned()
}

/// A kustomization under way: where it is, what it may refer to, and where the
/// copy of all that goes.
struct LocalizedRoot<'a> {
    loader: Loader<'a>,
    scope: PathBuf,
    destination: PathBuf,
}

impl LocalizedRoot<'_> {
    /// Where the copy of something in the scope goes.
    fn copy_of(&self, path: &Path) -> PathBuf {
        self.destination.join(path.strip_prefix(&self.scope).unwrap_or(Path::new("")))
    }
}

struct Localizer<'a> {
    files: &'a dyn WritableFiles,
    copied: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Localizer<'a> {
    /// One kustomization and all that it leads to.
    fn root(&mut self, at: &LocalizedRoot<'a>) -> Result<()> {
        let (text, name) = at.loader.kustomization()?;
        let Value::Object(mut fields) = kustomization::read_fields(&text)? else {
            return Err(Error::new("kustomization.yaml is empty"));
        };
        self.fields(at, &mut fields)?;
        let text = sternpost_yaml::write(&Value::Object(written(&fields, &KUSTOMIZATION)));
        self.copied.insert(at.copy_of(&at.loader.root().join(name)), text.into_bytes());
        Ok(())
    }

    fn fields(&mut self, at: &LocalizedRoot<'a>, fields: &mut Fields) -> Result<()> {
        if let Some(Value::String(path)) =
            fields.get_mut("openapi").and_then(|openapi| openapi.get_mut("path"))
        {
            *path = self.file(at, path).map_err(|error| error.within("unable to localize openapi path"))?;
        }
        for field in ["configurations", "crds"] {
            each_text(fields, field, |path| self.file(at, path))
                .map_err(|error| error.within(format!("unable to localize {field} entry")))?;
        }
        for field in ["configMapGenerator", "secretGenerator"] {
            for args in objects(fields, field) {
                self.generator(at, args)
                    .map_err(|error| error.within(format!("unable to localize {field}")))?;
            }
        }
        self.charts(at, fields)?;
        for field in ["patches", "patchesJson6902"] {
            for patch in objects(fields, field) {
                self.text(at, patch, "path")
                    .map_err(|error| error.within(format!("unable to localize {field}")))?;
            }
        }
        for replacement in objects(fields, "replacements") {
            self.text(at, replacement, "path")
                .map_err(|error| error.within("unable to localize replacements entry"))?;
        }
        each_text(fields, "patchesStrategicMerge", |patch| self.patch(at, patch))
            .map_err(|error| error.within("unable to localize patchesStrategicMerge entry"))?;
        for field in ["generators", "transformers", "validators"] {
            each_text(fields, field, |entry| self.plugins(at, entry, field))?;
        }
        for field in ["bases", "components"] {
            each_text(fields, field, |path| self.directory(at, path))
                .map_err(|error| error.within(format!("unable to localize {field} entry")))?;
        }
        each_text(fields, "resources", |path| self.resource(at, path))
            .map_err(|error| error.within("unable to localize resources entry"))
    }

    fn generator(&mut self, at: &LocalizedRoot<'a>, args: &mut Fields) -> Result<()> {
        self.text(at, args, "env").map_err(|error| error.within("unable to localize generator env file"))?;
        each_text(args, "envs", |path| self.file(at, path))
            .map_err(|error| error.within("unable to localize generator envs file"))?;
        each_text(args, "files", |source| self.file_source(at, source))
    }

    /// `path` or `key=path`; the key stays, and where there is none the name of
    /// the file remains it.
    fn file_source(&mut self, at: &LocalizedRoot<'a>, source: &str) -> Result<String> {
        let invalid = |error: Error| error.within(format!("invalid file source {}", go_quote(source)));
        match source.split('=').collect::<Vec<_>>().as_slice() {
            [path] => {
                let localized = self.file(at, path).map_err(invalid)?;
                let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
                let kept = name(&localized) == name(path);
                Ok(if kept { localized } else { format!("{}={localized}", name(path)) })
            }
            [key, path] => Ok(format!("{key}={}", self.file(at, path).map_err(invalid)?)),
            _ => {
                let source = go_quote(source);
                Err(Error::new(format!("source {source} key name or file path contains '='")))
            }
        }
    }

    fn charts(&mut self, at: &LocalizedRoot<'a>, fields: &mut Fields) -> Result<()> {
        let mut homes = Vec::new();
        for (index, chart) in objects(fields, "helmCharts").into_iter().enumerate() {
            let within = |field: &str| format!("unable to localize helmCharts entry {index} {field}");
            self.text(at, chart, "valuesFile").map_err(|error| error.within(within("valuesFile")))?;
            each_text(chart, "additionalValuesFiles", |path| self.file(at, path))
                .map_err(|error| error.within(within("additionalValuesFiles")))?;
            homes.push(CHART_HOME.to_owned());
        }
        for (index, chart) in objects(fields, "helmChartInflationGenerator").into_iter().enumerate() {
            self.text(at, chart, "values").map_err(|error| {
                error.within(format!("unable to localize helmChartInflationGenerator entry {index} values"))
            })?;
            homes.push(chart.get("chartHome").and_then(Value::as_str).unwrap_or(CHART_HOME).to_owned());
        }
        let global = fields.get("helmGlobals").and_then(|globals| globals.get("chartHome"));
        if let Some(home) = global.and_then(Value::as_str).filter(|home| !home.is_empty()) {
            homes = vec![home.to_owned()];
        }
        for home in homes {
            let path = files::clean(&at.loader.root().join(home));
            if let Ok((path, Entry::Directory)) = files::resolve(self.files, &path)
                && path.starts_with(&at.scope)
            {
                self.tree(at, &path, 0)?;
            }
        }
        Ok(())
    }

    /// Every file of a directory.
    fn tree(&mut self, at: &LocalizedRoot<'a>, directory: &Path, depth: usize) -> Result<()> {
        let shown = directory.display();
        if depth > MAX_CHART_DEPTH {
            return Err(Error::new(format!("{shown} is more than {MAX_CHART_DEPTH} directories deep")));
        }
        let problem = |error: std::io::Error| Error::new(format!("open {shown}: {}", files::reason(&error)));
        for name in self.files.list(directory).map_err(problem)? {
            let path = directory.join(name);
            match self.files.entry(&path).map_err(problem)? {
                Entry::Directory => self.tree(at, &path, depth + 1)?,
                Entry::File => {
                    let content = self.files.read(&path).map_err(problem)?;
                    self.copied.insert(at.copy_of(&path), content);
                }
                Entry::Link(_) => {}
            }
        }
        Ok(())
    }

    /// The path in a field, if one is there.
    fn text(&mut self, at: &LocalizedRoot<'a>, fields: &mut Fields, field: &str) -> Result<()> {
        match fields.get_mut(field) {
            Some(Value::String(path)) if !path.is_empty() => {
                *path = self.file(at, path)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Copies a file, and says where the copy is as the copied kustomization
    /// sees it.
    fn file(&mut self, at: &LocalizedRoot<'a>, path: &str) -> Result<String> {
        let (localized, copy, content) = self.load(at, path)?;
        self.copied.insert(copy, content);
        Ok(localized)
    }

    fn load(&self, at: &LocalizedRoot<'a>, path: &str) -> Result<(String, PathBuf, Vec<u8>)> {
        let content = at.loader.load(path).map_err(|error| error.within("invalid file reference"))?;
        let root = at.loader.root();
        if is_http(path) {
            let (_, rest) = path.split_once("://").unwrap_or(("", path));
            let rest = rest.split(['?', '#']).next().unwrap_or(rest);
            let localized = Path::new(REMOTE_FILES).join(below(rest));
            let copy = at.copy_of(root).join(&localized);
            return Ok((localized.to_string_lossy().into_owned(), copy, content));
        }
        let (real, _) = files::resolve(self.files, &files::clean(&root.join(path)))
            .map_err(|error| Error::new(error.to_string()))?;
        Ok((relative(root, &real), at.copy_of(&real), content))
    }

    fn resource(&mut self, at: &LocalizedRoot<'a>, path: &str) -> Result<String> {
        let as_file = match self.manifest(at, path) {
            Ok(localized) => return Ok(localized),
            Err(error) => error,
        };
        let shown = go_quote(path);
        self.directory(at, path).map_err(|as_directory| {
            Error::new(format!(
                "could not localize path {shown} as file: {as_file}; could not localize path {shown} as directory: {as_directory}"
            ))
        })
    }

    fn manifest(&mut self, at: &LocalizedRoot<'a>, path: &str) -> Result<String> {
        let (localized, copy, content) = self.load(at, path)?;
        let text = documents::text(content.clone())?;
        documents::read(&schema::builtin(), &text).map_err(|error| {
            malformed(error).within(format!("invalid resource at file {}", go_quote(path)))
        })?;
        self.copied.insert(copy, content);
        Ok(localized)
    }

    fn directory(&mut self, at: &LocalizedRoot<'a>, path: &str) -> Result<String> {
        let remote = crate::repository::parse(path);
        if remote.as_ref().is_some_and(|address| address.repository.reference.is_empty()) {
            return Err(Error::new(format!(
                "localize remote root {} missing ref query string parameter",
                go_quote(path)
            )));
        }
        let loader = at.loader.enter(path).map_err(|error| error.within("invalid root reference"))?;
        let root = loader.root().to_owned();
        let (inner, localized) = match remote {
            Some(address) => {
                let url = &address.repository.url;
                let host = match url.split_once("://") {
                    Some(("file", path)) => Path::new("file-schemed").join(below(path)),
                    Some((_, rest)) => below(rest.rsplit_once('@').map_or(rest, |(_, rest)| rest)),
                    None => below(
                        &url.rsplit_once('@').map_or(url.as_str(), |(_, rest)| rest).replacen(':', "/", 1),
                    ),
                };
                let host = host.to_string_lossy().trim_end_matches(".git").to_owned();
                let copy = Path::new(REMOTE_FILES).join(host).join(&address.repository.reference);
                let destination = at.copy_of(at.loader.root()).join(&copy);
                let localized = copy.join(&address.path).to_string_lossy().into_owned();
                let scope = checkout(&loader);
                (LocalizedRoot { loader, scope, destination }, localized)
            }
            None if !root.starts_with(&at.scope) => {
                return Err(Error::new(format!(
                    "root {} outside localize scope {}",
                    go_quote(&root.display().to_string()),
                    go_quote(&at.scope.display().to_string())
                )));
            }
            None => {
                let localized = relative(at.loader.root(), &root);
                (
                    LocalizedRoot { loader, scope: at.scope.clone(), destination: at.destination.clone() },
                    localized,
                )
            }
        };
        self.root(&inner)
            .map_err(|error| error.within(format!("unable to localize root {}", go_quote(path))))?;
        Ok(localized)
    }

    /// A patch that is text stays; one that is a file is copied.
    fn patch(&mut self, at: &LocalizedRoot<'a>, patch: &str) -> Result<String> {
        match documents::read(&schema::builtin(), patch) {
            Ok(_) => Ok(patch.to_owned()),
            Err(as_text) => self.file(at, patch).map_err(|as_file| neither(patch, &as_text, &as_file)),
        }
    }

    /// Plugins, as text or in a file; what built-in ones refer to is copied too.
    fn plugins(&mut self, at: &LocalizedRoot<'a>, entry: &str, field: &str) -> Result<String> {
        let unable = || format!("unable to load {field} entry");
        let as_text = match documents::read(&schema::builtin(), entry) {
            Ok(_) => return self.configured(at, entry),
            Err(error) => error,
        };
        let loaded = self.load(at, entry).and_then(|loaded| {
            let text = String::from_utf8_lossy(&loaded.2).into_owned();
            documents::read(&schema::builtin(), &text)?;
            Ok((loaded.0, loaded.1, text))
        });
        let (localized, copy, text) =
            loaded.map_err(|as_file| neither(entry, &as_text, &as_file).within(unable()))?;
        let text = self.configured(at, &text)?;
        self.copied.insert(copy, text.into_bytes());
        Ok(localized)
    }

    fn configured(&mut self, at: &LocalizedRoot<'a>, text: &str) -> Result<String> {
        let mut texts = Vec::new();
        for resource in documents::read(&schema::builtin(), text)? {
            let json = resource.node.to_json().map_err(|error| Error::new(error.to_string()))?;
            let Value::Object(mut fields) = json else { continue };
            if fields.get("apiVersion").and_then(Value::as_str) == Some("builtin") {
                let id = resource.id();
                let within = |field: &str, error: Error| {
                    error.within(format!("considering field '{field}' of object {id}"))
                };
                for field in ["path", "env", "valuesFile"] {
                    self.text(at, &mut fields, field).map_err(|error| within(field, error))?;
                }
                for field in ["envs", "additionalValuesFiles"] {
                    each_text(&mut fields, field, |path| self.file(at, path))
                        .map_err(|error| within(field, error))?;
                }
                each_text(&mut fields, "paths", |patch| self.patch(at, patch))
                    .map_err(|error| within("paths", error))?;
                each_text(&mut fields, "files", |source| self.file_source(at, source))
                    .map_err(|error| within("files", error))?;
                for replacement in objects(&mut fields, "replacements") {
                    self.text(at, replacement, "path").map_err(|error| within("replacements/path", error))?;
                }
            }
            texts.push(sternpost_yaml::write(&Value::Object(fields)));
        }
        Ok(texts.join("---\n"))
    }
}

/// Says of a text that is no YAML that it is not.
fn malformed(error: Error) -> Error {
    match error.cause() {
        Cause::MalformedYaml => error.within("MalformedYAMLError"),
        _ => error,
    }
}

fn neither(entry: &str, as_text: &Error, as_file: &Error) -> Error {
    Error::new(format!(
        "unable to load resource entry {}: when parsing as inline received error: {as_text}\nwhen parsing as filepath received error: {as_file}",
        go_quote(entry)
    ))
}

fn each_text(fields: &mut Fields, field: &str, mut change: impl FnMut(&str) -> Result<String>) -> Result<()> {
    for item in fields.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::String(text) = item
            && !text.is_empty()
        {
            *text = change(text)?;
        }
    }
    Ok(())
}

fn objects<'f>(fields: &'f mut Fields, field: &str) -> Vec<&'f mut Map<String, Value>> {
    let items = fields.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut).collect()
}

/// The way from one directory to a path, both absolute and clean.
fn relative(from: &Path, to: &Path) -> String {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    if way.as_os_str().is_empty() { ".".to_owned() } else { way.to_string_lossy().into_owned() }
}

/// A path that can only lead further down.
fn below(path: &str) -> PathBuf {
    Path::new(path).components().filter(|component| matches!(component, Component::Normal(_))).collect()
}

fn write(files: &mut dyn WritableFiles, copy: &Copy) -> Result<()> {
    let problem = |path: &Path, error: &std::io::Error| {
        Error::new(format!("unable to write {}: {}", path.display(), files::reason(error)))
    };
    for (path, content) in &copy.files {
        let parents: Vec<&Path> =
            path.ancestors().skip(1).take_while(|at| at.starts_with(&copy.directory)).collect();
        for parent in parents.into_iter().rev() {
            if files.entry(parent).is_err() {
                files.make_directory(parent).map_err(|error| problem(parent, &error))?;
            }
        }
        files.write(path, content).map_err(|error| problem(path, &error))?;
    }
    Ok(())
}

/// Both must build, and to the same.
fn verify(context: &mut Context<'_>, target: &str, copy: &Copy) -> Outcome {
    let place = copy.target.display().to_string();
    let result = context.built(target).and_then(|original| Ok((original, context.built(&place)?)));
    match result {
        Ok((original, localized)) if original == localized => {
            context.log(&format!(
                "VERIFICATION SUCCESS: `kustomize build` for {target} and {} are the same after localization.",
                copy.directory.display()
            ));
            Ok(())
        }
        Ok(_) => Err(Fault::plain(format!(
            "`kustomize build` for {target} and {} are different after localization",
            copy.directory.display()
        ))),
        Err(error) => {
            context.log(&format!(
                "If your target directory requires flags to build: \n1. Add executable permissions for the downloaded exec binaries in '{target}'. \n2. Run kustomize build with the necessary flags and self-verify the outputs."
            ));
            Err(Fault::plain(error))
        }
    }
}
