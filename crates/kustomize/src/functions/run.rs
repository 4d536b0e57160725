//! `fn run`: functions over the resources of a directory, which are written
//! back, or over standard input.
//!
//! A function is an object whose annotation says how to run it, or what the
//! command line names. It is given the objects beside and below it as a
//! `ResourceList` and answers with one; what tells where an object belongs is
//! in annotations that are taken off at the end.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use sternpost_yaml::commented::{self, Document, Entry, Node};
use sternpost_yaml::node::Style;

use super::{Container, Exec, FUNCTION, Mount, Spec, exit_problem, not_started, spec_of};
use crate::build::PluginOptions;
use crate::cfg::package::{self, Extensions, INDEX, PATH, Resource};
use crate::command::flags::Words;
use crate::command::{Context, Fault, Outcome};
use crate::error::Error;
use crate::files::{self, Command, Entry as Kind};
use crate::functions::comments;

/// Number of an object while a function runs, by which its changes are told.
const ID: [&str; 2] = ["internal.config.kubernetes.io/id", "config.k8s.io/id"];
/// Number of an object by which changed paths are told from those it had.
const MIGRATION: &str = "internal.config.kubernetes.io/annotations-migration-resource-id";
/// A directory of functions counts as the one that it is in.
const FUNCTIONS: &str = "functions";

pub(crate) fn run(context: &mut Context<'_>, words: &Words) -> Outcome {
    let (directory, named) = arguments(words)?;
    let options = PluginOptions {
        exec: words.on("enable-exec"),
        network: words.on("network"),
        mounts: words.all("mount").to_vec(),
        environment: words.all("env").to_vec(),
        user: context.surroundings.user.clone().filter(|_| words.on("as-current-user")),
        ..PluginOptions::default()
    };
    let package = match directory {
        Some(shown) => Some(Package::open(context, shown)?),
        None => None,
    };
    let mut run = match &package {
        Some(package) => Run::of(package.resources.clone()),
        None => {
            let text = context.input()?;
            Run::of_input(package::read_text(&text).map_err(Fault::plain)?)
        }
    };
    let functions = run.functions(context, words, &options, named)?;
    let mut problems = Vec::new();
    for (number, function) in functions.iter().enumerate() {
        if words.on("log-steps") {
            context.log(&format!("Running {}", function.spec.shown()));
        }
        let results = match words.text("results-dir") {
            "" => None,
            directory => Some(format!("{directory}/results-{number}.yaml")),
        };
        run.call(context, function, results.as_deref(), &mut problems)?;
    }
    match &package {
        Some(package) if !words.on("dry-run") => package.write(context, run.items)?,
        _ => {
            let texts: Vec<String> = run.items.into_iter().map(Item::printed).collect();
            context.answer.output.push_str(&texts.join("---\n"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Fault::plain(problems.join("\n---\n"))) }
}

/// The directory, and the function that the command line names.
fn arguments(words: &Words) -> Result<(Option<&str>, Option<Function>), Fault> {
    let (image, program) = (words.text("image"), words.text("exec-path"));
    if !program.is_empty() && !words.on("enable-exec") {
        return Err("must specify --enable-exec with --exec-path".into());
    }
    let split = words.before_dashes.unwrap_or(words.arguments.len());
    let (before, after) = words.arguments.split_at_checked(split).unwrap_or((&words.arguments, &[]));
    if before.len() > 1 {
        return Err("0 or 1 arguments supported, function arguments go after '--'".into());
    }
    let directory = before.first().map(String::as_str);
    if image.is_empty() && program.is_empty() {
        return match after {
            [] => Ok((directory, None)),
            _ => Err("must specify --image".into()),
        };
    }
    let (kind, pairs) = match after {
        [kind, pairs @ ..] if !kind.contains('=') => (kind.as_str(), pairs),
        pairs => ("ConfigMap", pairs),
    };
    let mut data = Node::mapping(Vec::new());
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or("args must have keys and values separated by =")?;
        let entries = data.entries_mut().into_iter();
        entries.for_each(|entries| set(entries, key, Node::scalar(value, style(value))));
    }
    data.flow = true;
    let network = words.on("network");
    let (spec, text) = if image.is_empty() {
        let exec = Exec { path: program.to_owned(), ..Exec::default() };
        (Spec { exec: Some(exec), ..Spec::default() }, format!("exec: {{path: {program}}}\n"))
    } else {
        let more = if network { ", network: true" } else { "" };
        let container = Container { image: image.to_owned(), network, ..Container::default() };
        let text = format!("container: {{image: '{image}'{more}}}\n");
        (Spec { container: Some(container), ..Spec::default() }, text)
    };
    let annotations = vec![Entry::pair(FUNCTION[0], Node::scalar(text, Style::Literal))];
    let metadata = vec![
        Entry::pair("name", Node::scalar("function-input", Style::Plain)),
        Entry::pair("annotations", Node::mapping(annotations)),
    ];
    let config = Node::mapping(vec![
        Entry::pair("metadata", Node::mapping(metadata)),
        Entry::pair("data", data),
        Entry::pair("kind", Node::scalar(kind, Style::Plain)),
        Entry::pair("apiVersion", Node::scalar("v1", Style::Plain)),
    ]);
    let function = Function {
        spec,
        command: Command::default(),
        config: Config::Own(config),
        directory: String::new(),
        global: true,
    };
    Ok((directory, Some(function)))
}

/// Plain, unless that would read as something else.
fn style(value: &str) -> Style {
    let read = sternpost_yaml::node::read_node(&format!("{{a: {value}}}")).ok().flatten();
    let same = read.is_some_and(|node| node.get("a").and_then(|node| node.as_text()) == Some(value));
    if (same && value != "-") || value.is_empty() { Style::Plain } else { Style::SingleQuoted }
}

/// A directory, or one file, as it was read.
struct Package {
    root: PathBuf,
    resources: Vec<Resource>,
}

impl Package {
    fn open(context: &Context<'_>, shown: &str) -> Result<Self, Fault> {
        let path = context.at(shown);
        let resolved = files::resolve(context.files(), &path);
        let (root, kind) = resolved.map_err(|error| {
            Fault::plain(format!("evalsymlink failure on '{}' : {error}", path.display()))
        })?;
        let resources = read(context, shown)?;
        let root = match (kind, root.parent()) {
            (Kind::File, Some(parent)) => parent.to_owned(),
            _ => root,
        };
        Ok(Self { root, resources })
    }

    /// Everything is made ready before anything is written.
    fn write(&self, context: &mut Context<'_>, items: Vec<Item>) -> Outcome {
        if items.is_empty() {
            return Ok(());
        }
        let mut by_path: BTreeMap<PathBuf, Vec<Item>> = BTreeMap::new();
        for item in items {
            let shown = item.annotation(PATH[1]).unwrap_or_default().to_owned();
            if shown.starts_with('/') {
                return Err(Fault::plain("package paths may not be absolute paths"));
            }
            let path = files::clean(Path::new(&shown));
            if path.starts_with("..")
                || path.to_string_lossy().contains("../")
                || self.leads_out(context, &path)
            {
                let root = self.root.display();
                return Err(Fault::plain(format!("resource must be written under package {root}: {shown}")));
            }
            by_path.entry(path).or_default().push(item);
        }
        let mut texts = Vec::new();
        for (path, items) in by_path {
            let text = file_text(&path, in_order(items)?)?;
            texts.push((path, text));
        }
        for (path, text) in &texts {
            let full = self.root.join(path);
            let failed = |error: std::io::Error| {
                Fault::plain(format!("open {}: {}", full.display(), files::reason(&error)))
            };
            self.make_parents(context, path).map_err(failed)?;
            let (target, _) = files::resolve(context.files(), &full).unwrap_or((full.clone(), Kind::File));
            let same = context.files().read(&target).is_ok_and(|old| old == text.as_bytes());
            if !same {
                context.surroundings.files.write(&target, text.as_bytes()).map_err(failed)?;
            }
        }
        let left = |resource: &&Resource| !texts.iter().any(|(path, _)| *path == resource.path);
        let mut gone: Vec<&Path> =
            self.resources.iter().filter(left).map(|resource| resource.path.as_path()).collect();
        gone.dedup();
        for path in gone {
            let full = self.root.join(path);
            // Somebody else may have been faster.
            if context.files().entry(&full).is_ok() {
                let removed = context.surroundings.files.remove(&full);
                removed.map_err(|error| {
                    Fault::plain(format!("remove {}: {}", full.display(), files::reason(&error)))
                })?;
            }
        }
        Ok(())
    }

    /// Whether a directory on the way is a link to the outside.
    fn leads_out(&self, context: &Context<'_>, path: &Path) -> bool {
        let parents = path.ancestors().skip(1);
        let known =
            parents.filter_map(|parent| files::resolve(context.files(), &self.root.join(parent)).ok());
        known.take(1).any(|(resolved, _)| !resolved.starts_with(&self.root))
    }

    fn make_parents(&self, context: &mut Context<'_>, path: &Path) -> std::io::Result<()> {
        let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
        while let Some(parent) = parents.pop() {
            let full = self.root.join(parent);
            if context.files().entry(&full).is_err() {
                context.surroundings.files.make_directory(&full)?;
            }
        }
        Ok(())
    }
}

fn read(context: &Context<'_>, shown: &str) -> Result<Vec<Resource>, Fault> {
    let mut all = Vec::new();
    for package in package::read(context, shown, true, Extensions::WithJson).map_err(Fault::plain)? {
        for mut resource in package.resources.map_err(Fault::plain)? {
            resource.path = package.below.join(&resource.path);
            all.push(resource);
        }
    }
    Ok(all)
}

/// The objects of one file. One that does not say where it comes goes behind
/// those before it.
fn in_order(items: Vec<Item>) -> Result<Vec<Item>, Fault> {
    if items.len() < 2 {
        return Ok(items);
    }
    let mut numbered = Vec::new();
    let mut last: i64 = -1;
    for item in items {
        let number = match item.annotation(INDEX[1]) {
            None | Some("") => last.saturating_add(1),
            Some(text) => text.parse().map_err(|_| {
                let (key, quoted) = (INDEX[0], sternpost_golang::strconv::go_quote(text));
                let problem = format!("strconv.Atoi: parsing {quoted}: invalid syntax");
                Fault::plain(format!("unable to parse {key} {text} :{problem}"))
            })?,
        };
        last = last.max(number);
        numbered.push((number, item));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, item)| item).collect())
}

fn file_text(path: &Path, items: Vec<Item>) -> Result<String, Fault> {
    let mut texts = Vec::new();
    for mut item in items {
        item.clear(&[PATH[0], PATH[1], INDEX[0], INDEX[1], ID[0], ID[1]]);
        texts.push(commented::write(&item.document));
    }
    match texts.as_slice() {
        [text] if path.extension().is_some_and(|extension| extension == "json") => json(text),
        _ => Ok(texts.join("---\n")),
    }
}

/// As Go writes JSON: sorted, indented, and with nothing that HTML would mind.
fn json(text: &str) -> Result<String, Fault> {
    let node = sternpost_yaml::node::read_node(text).map_err(|error| Fault::plain(error.upstream))?;
    let value =
        node.map(|node| node.to_json()).transpose().map_err(|error| Fault::plain(error.to_string()))?;
    let text = serde_json::to_string_pretty(&value).map_err(|error| Fault::plain(error.to_string()))?;
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            char => escaped.push(char),
        }
    }
    escaped.push('\n');
    Ok(escaped)
}

/// An object on its way through the functions.
#[derive(Debug, Clone)]
struct Item {
    document: Document,
    /// Which of the objects that were read it still is.
    original: Option<usize>,
}

impl Item {
    fn annotation(&self, key: &str) -> Option<&str> {
        self.document.root.get("metadata")?.get("annotations")?.get(key)?.as_text()
    }

    fn annotate(&mut self, key: &str, value: &str) {
        annotate(&mut self.document.root, key, value);
    }

    fn path(&self) -> &str {
        self.annotation(PATH[1]).or_else(|| self.annotation(PATH[0])).unwrap_or_default()
    }

    /// Takes annotations off, and what is empty then.
    fn clear(&mut self, keys: &[&str]) {
        let root = &mut self.document.root;
        let Some(metadata) = root.get_mut("metadata") else { return };
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Node::entries_mut) {
            annotations.retain(|entry| !keys.iter().any(|key| entry.is(key)));
        }
        let is_empty = |node: &Node| node.is_null() || (node.is_mapping() && node.entries().is_empty());
        if let Some(entries) = metadata.entries_mut() {
            entries.retain(|entry| !(entry.is("annotations") && is_empty(&entry.value)));
        }
        if let Some(entries) = root.entries_mut() {
            entries.retain(|entry| !(entry.is("metadata") && is_empty(&entry.value)));
        }
    }

    fn printed(mut self) -> String {
        self.clear(&[INDEX[0], INDEX[1], ID[0], ID[1]]);
        commented::write(&self.document)
    }
}

fn annotate(root: &mut Node, key: &str, value: &str) {
    let metadata = root.mapping_at("metadata");
    let annotations = metadata.and_then(|metadata| metadata.mapping_at("annotations"));
    let Some(annotations) = annotations else { return };
    annotations.flow = annotations.flow && !annotations.entries().is_empty();
    if let Some(entries) = annotations.entries_mut() {
        set(entries, key, Node::scalar(value, Style::SingleQuoted));
    }
}

fn set(entries: &mut Vec<Entry>, key: &str, value: Node) {
    match entries.iter_mut().find(|entry| entry.is(key)) {
        Some(entry) => entry.value = value,
        None => entries.push(Entry::pair(key, value)),
    }
}

struct Function {
    spec: Spec,
    command: Command,
    config: Config,
    /// Where it is, as seen from the package; empty for that itself.
    directory: String,
    /// Whether it gets all objects rather than those of its directory.
    global: bool,
}

/// The object that configures a function.
enum Config {
    /// One of the objects that were read, as it is by then.
    Original(usize),
    Own(Node),
}

impl Spec {
    fn shown(&self) -> &str {
        let image = self.container.as_ref().map(|container| container.image.as_str());
        let program = self.exec.as_ref().map(|exec| exec.path.as_str());
        image.filter(|image| !image.is_empty()).or(program).unwrap_or_default()
    }
}

struct Run {
    items: Vec<Item>,
    /// The objects that were read, with the annotations they have by now.
    originals: Vec<Node>,
    /// Whether objects belong to files, so that new ones get a path.
    has_places: bool,
}

impl Run {
    fn of(resources: Vec<Resource>) -> Self {
        let mut items = Vec::new();
        for resource in resources {
            let (path, index) = (resource.path.to_string_lossy().into_owned(), resource.index.to_string());
            let mut item = Item { document: resource.document, original: Some(items.len()) };
            // What it says of itself counts for both ways to say it.
            for pair in [PATH, INDEX, ID] {
                for (key, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                    if let Some(value) = item.annotation(key).map(str::to_owned) {
                        item.annotate(other, &value);
                    }
                }
            }
            for key in 0..PATH.len() {
                let keys = INDEX.get(key).zip(PATH.get(key));
                if let Some((index_key, path_key)) = keys {
                    item.annotate(index_key, &index);
                    item.annotate(path_key, &path);
                }
            }
            items.push(item);
        }
        let originals = items.iter().map(|item| item.document.root.clone()).collect();
        Self { items, originals, has_places: true }
    }

    /// Only what is not in a list is numbered.
    fn of_input(input: package::Input) -> Self {
        let mut items = Vec::new();
        for resource in input.resources {
            let index = resource.index.to_string();
            let mut item = Item { document: resource.document, original: Some(items.len()) };
            if !input.is_list {
                INDEX.iter().for_each(|key| item.annotate(key, &index));
            }
            items.push(item);
        }
        let originals = items.iter().map(|item| item.document.root.clone()).collect();
        Self { items, originals, has_places: !input.is_list }
    }

    /// Those to run, in order.
    fn functions(
        &mut self,
        context: &Context<'_>,
        words: &Words,
        options: &PluginOptions,
        named: Option<Function>,
    ) -> Result<Vec<Function>, Fault> {
        let global = words.on("global-scope");
        let mut found = Vec::new();
        let paths = words.all("fn-path");
        for shown in paths {
            files::resolve(context.files(), &context.at(shown))
                .map_err(|error| Fault::plain(format!("evalsymlink failure on '{shown}' : {error}")))?;
            // As upstream: those of the last path are the ones.
            found.clear();
            for item in Self::of(read(context, shown)?).items {
                if let Some(spec) = spec(&item)? {
                    let directory = directory(item.path());
                    found.push((spec, Config::Own(item.document.root), directory));
                }
            }
        }
        if paths.is_empty() && named.is_none() {
            for at in 0..self.items.len() {
                let Some(item) = self.items.get_mut(at) else { continue };
                match spec(item)? {
                    Some(spec) => found.push((spec, Config::Original(at), directory(item.path()))),
                    // As upstream: this stays if no function runs.
                    None => self.number(at, &[MIGRATION], at),
                }
            }
        }
        // What is deeper runs first, since what is around it builds on that.
        let depth = |directory: &str| directory.split('/').filter(|name| !name.is_empty()).count();
        found.sort_by_key(|(_, _, directory)| std::cmp::Reverse(depth(directory)));
        let found = found.into_iter().map(|(spec, config, directory)| Function {
            spec,
            command: Command::default(),
            config,
            directory,
            global,
        });
        let mut functions = Vec::new();
        for function in found.chain(named) {
            if let Some(command) = command(context, options, &function.spec)? {
                functions.push(Function { command, ..function });
            }
        }
        Ok(functions)
    }

    /// Sets annotations of an item to a number.
    fn number(&mut self, at: usize, keys: &[&str], number: usize) {
        let Some(item) = self.items.get_mut(at) else { return };
        let number = number.to_string();
        for key in keys {
            item.annotate(key, &number);
            if let Some(original) = item.original.and_then(|original| self.originals.get_mut(original)) {
                annotate(original, key, &number);
            }
        }
    }

    fn call(
        &mut self,
        context: &mut Context<'_>,
        function: &Function,
        results: Option<&str>,
        problems: &mut Vec<String>,
    ) -> Outcome {
        let mut given = Vec::new();
        for at in 0..self.items.len() {
            self.number(at, &[MIGRATION], at);
            let inside = |item: &Item| {
                let below = item.path().strip_prefix(&function.directory);
                function.global
                    || function.directory.is_empty()
                    || below.is_some_and(|below| below.starts_with('/'))
            };
            if self.items.get(at).is_some_and(inside) {
                given.push(at);
                self.number(at, &ID, given.len());
            }
        }
        let places: HashMap<String, [String; 2]> = self.items.iter().map(places).collect();
        let mut left = Vec::new();
        let mut sources = Vec::new();
        for (at, item) in std::mem::take(&mut self.items).into_iter().enumerate() {
            if given.contains(&at) { sources.push(item) } else { left.push(item) }
        }
        let config = match &function.config {
            Config::Original(at) => self.originals.get(*at).cloned(),
            Config::Own(node) => Some(node.clone()),
        };
        let input = resource_list(&sources, config);
        let command = Command { input: input.into_bytes(), ..function.command.clone() };
        let ran = context.surroundings.runner.run(&command);
        let ran = ran.map_err(|error| Fault::plain(not_started(&command.program, &error)))?;
        context.answer.errors.push_str(&String::from_utf8_lossy(&ran.errors));
        let output = package::read_text(&String::from_utf8_lossy(&ran.output)).map_err(Fault::plain)?;
        if let (Some(path), Some(said)) = (results, &output.results) {
            let document = Document { root: said.clone(), head: Vec::new(), foot: Vec::new() };
            let text = commented::write(&document);
            let written = context.surroundings.files.write(&context.at(path), text.as_bytes());
            written.map_err(|error| Fault::plain(format!("open {path}: {}", files::reason(&error))))?;
        }
        if let Some(problem) = exit_problem(&ran) {
            if !function.spec.defer_failure {
                return Err(Fault::plain(problem));
            }
            problems.push(problem);
        }
        for resource in output.resources {
            let mut item = Item { document: resource.document, original: None };
            agree(&mut item, &places).map_err(Fault::plain)?;
            let id = ID.iter().find_map(|key| item.annotation(key)).unwrap_or_default();
            if let Some(source) = sources.iter().find(|source| source.annotation(ID[0]) == Some(id)) {
                comments::copy(&source.document, &mut item.document).map_err(Fault::plain)?;
            }
            item.clear(&[ID[0], ID[1]]);
            if self.has_places && item.path().is_empty() {
                let path = default_path(&item, &function.directory);
                PATH.iter().rev().for_each(|key| item.annotate(key, &path));
            }
            self.items.push(item);
        }
        self.items.extend(left);
        for item in &mut self.items {
            item.clear(&[MIGRATION]);
            if let Some(original) = item.original.and_then(|original| self.originals.get_mut(original)) {
                original.clone_from(&item.document.root);
            }
        }
        Ok(())
    }
}

/// By its number, where an object is.
fn places(item: &Item) -> (String, [String; 2]) {
    let text = |key: &str| item.annotation(key).unwrap_or_default().to_owned();
    (text(MIGRATION), [text(PATH[1]), text(INDEX[1])])
}

/// A function may change where an object is in either of two annotations.
fn agree(item: &mut Item, places: &HashMap<String, [String; 2]>) -> Result<(), String> {
    let old = item.annotation(MIGRATION).and_then(|number| places.get(number)).cloned();
    for (at, (keys, name)) in [(PATH, "path"), (INDEX, "index")].into_iter().enumerate() {
        let text = |key: &str| item.annotation(key).unwrap_or_default().to_owned();
        let (legacy, internal) = (text(keys[0]), text(keys[1]));
        if legacy == internal {
            continue;
        }
        let was = old.as_ref().and_then(|old| old.get(at)).map(String::as_str);
        let value = match (legacy.as_str(), internal.as_str()) {
            (one, "") | ("", one) => one,
            (legacy, internal) if was == Some(internal) => legacy,
            (legacy, internal) if was == Some(legacy) => internal,
            _ => {
                return Err(format!(
                    "resource input to function has mismatched legacy and internal {name} annotations"
                ));
            }
        }
        .to_owned();
        for key in keys {
            if item.annotation(key) != Some(&value) {
                item.annotate(key, &value);
            }
        }
    }
    Ok(())
}

fn resource_list(items: &[Item], config: Option<Node>) -> String {
    let text = |text: &str| Node::scalar(text, Style::Plain);
    let items = items.iter().map(|item| Entry::item(item.document.root.clone())).collect();
    let mut entries = vec![
        Entry::pair("apiVersion", text("config.kubernetes.io/v1")),
        Entry::pair("kind", text("ResourceList")),
        Entry::pair("items", Node::sequence(items)),
    ];
    entries.extend(config.map(|config| Entry::pair("functionConfig", config)));
    commented::write(&Document { root: Node::mapping(entries), head: Vec::new(), foot: Vec::new() })
}

/// Beside the function, by namespace, kind and name.
fn default_path(item: &Item, directory: &str) -> String {
    let text = |node: Option<&Node>| node.and_then(Node::as_text).unwrap_or_default().to_owned();
    let metadata =
        |key: &str| text(item.document.root.get("metadata").and_then(|metadata| metadata.get(key)));
    let kind = text(item.document.root.get("kind")).to_lowercase();
    let name = format!("{kind}_{}.yaml", metadata("name").to_lowercase());
    let parts = [directory.to_owned(), metadata("namespace"), name];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// The directory whose objects a function at this path is for.
fn directory(path: &str) -> String {
    let directory = path.rsplit_once('/').map(|(directory, _)| directory).unwrap_or_default();
    match directory.rsplit_once('/') {
        _ if directory == FUNCTIONS => String::new(),
        Some((above, FUNCTIONS)) => above.to_owned(),
        _ => directory.to_owned(),
    }
}

/// How an object is to be run, if it is a function.
fn spec(item: &Item) -> Result<Option<Spec>, Fault> {
    let found = FUNCTION.iter().find_map(|key| Some((*key, item.annotation(key)?.to_owned())));
    let older = || {
        let node = item.document.root.get("metadata")?.get("configFn")?.clone();
        Some(("configFn", commented::write(&Document { root: node, head: Vec::new(), foot: Vec::new() })))
    };
    let Some((key, text)) = found.or_else(older).filter(|(_, text)| !text.is_empty()) else {
        return Ok(None);
    };
    let spec = spec_of(&text).map_err(|error| error.within(format!("{key} unmarshal error")));
    spec.map(Some).map_err(Fault::plain)
}

/// What runs a function, unless nothing may.
fn command(context: &Context<'_>, options: &PluginOptions, spec: &Spec) -> Result<Option<Command>, Fault> {
    let root = context.directory();
    if let Some(container) = spec.container.as_ref().filter(|container| !container.image.is_empty()) {
        if container.network && !options.network {
            return Err(Fault::plain("network required but not enabled with --network"));
        }
        let mounted = |_: &str, mount: &Mount| -> Result<String, Error> {
            Ok(files::clean(&root.join(&mount.src)).to_string_lossy().into_owned())
        };
        return super::docker(options, root, container, mounted).map(Some).map_err(Fault::plain);
    }
    let Some(exec) = spec.exec.as_ref().filter(|exec| options.exec && !exec.path.is_empty()) else {
        return Ok(None);
    };
    let variables = exec.envs.iter().chain(&options.environment).filter_map(|pair| pair.split_once('='));
    Ok(Some(Command {
        program: exec.path.clone(),
        arguments: exec.args.clone(),
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        directory: Some(root.to_owned()),
        input: Vec::new(),
    }))
}
