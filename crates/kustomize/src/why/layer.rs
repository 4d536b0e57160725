//! One kustomization file as its author sees it, and the texts it refers to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use sternpost_yaml::node::{Content, Node, Style, read_node};

use super::{
    Cause, File, FileId, FilePosition, Mark, State, Step, StepId, Why, Writing, each_leaf, leaf_text, number,
};
use crate::files::clean;
use crate::functions::FUNCTION;
use crate::loader::is_http;
use crate::repository::Address;
use crate::resource::Resource;
use crate::resources::Resources;

/// A kustomization file with its places.
#[derive(Debug)]
pub(crate) struct Layer {
    why: Rc<Why>,
    file: FileId,
    root: Node,
    directory: Directory,
}

/// How files are spelled.
#[derive(Debug)]
enum Directory {
    Local(PathBuf),
    Remote { url: String, reference: String, path: PathBuf },
}

/// A text with objects or patches in it, and where it is written.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    why: Rc<Why>,
    file: FileId,
    shape: Shape,
    /// Who uses it, if that is not who is at work when it is used.
    step: StepId,
}

/// How places in a text become places in its file.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// They are.
    Whole,
    /// A literal block: line 1 comes after this one, and all are indented.
    Block { line: u32, indent: u32 },
    /// On one line, from this column on.
    Line { line: u32, column: u32 },
    /// Not line by line, so that only its start is known.
    Point { line: u32, column: u32 },
}

/// Where the value of a key of a generated object is from.
pub(crate) enum ValueOf {
    /// The entry of that number.
    Literal(usize),
    /// A file as a whole.
    File(String),
    /// A line of a file.
    Line(String, u32),
}

impl Layer {
    /// `directory` is as seen from where the build is; `shown` is how the
    /// caller spelled that.
    pub(crate) fn new(
        why: &Rc<Why>,
        text: &str,
        name: &str,
        shown: &str,
        directory: &std::path::Path,
        repository: Option<&Address>,
    ) -> Self {
        let directory = match repository {
            Some(Address { repository, .. }) => Directory::Remote {
                url: repository.url.clone(),
                reference: repository.reference.clone(),
                path: directory.to_owned(),
            },
            None => Directory::Local(PathBuf::from(shown).join(directory)),
        };
        let file = why.0.borrow_mut().add_file(directory.shown(name), text);
        let text_of = Text { why: Rc::clone(why), file, shape: Shape::Whole, step: StepId::default() };
        let mut root = read_node(text).ok().flatten().unwrap_or_else(Node::null);
        text_of.mark_everything(&mut root);
        Self { why: Rc::clone(why), file, root, directory }
    }

    pub(crate) fn why(&self) -> &Why {
        &self.why
    }

    /// The text of a file that this kustomization names.
    pub(crate) fn file(&self, path: &str, text: &str) -> Text {
        let file = self.why.0.borrow_mut().add_file(self.directory.shown(path), text);
        Text { why: Rc::clone(&self.why), file, shape: Shape::Whole, step: StepId::default() }
    }

    /// The text that stands in the kustomization itself, at these keys.
    pub(crate) fn inline(&self, path: &[&str]) -> Option<Text> {
        self.inline_in(self.find(path)?)
    }

    /// The text that a node holds.
    pub(crate) fn inline_in(&self, node: &Node) -> Option<Text> {
        let state = self.why.0.borrow();
        let FilePosition { file, line, column } = state.writing(node.source).place;
        let scalar = node.scalar()?;
        let source = state.files.get(file.0 as usize)?.text.clone();
        let shape = match scalar.style {
            Style::Literal => {
                let spaces =
                    |line: &str| number(line.len().saturating_sub(line.trim_start_matches(' ').len()));
                let full = |line: &&str| !line.trim().is_empty();
                let written = source.lines().skip(line as usize).find(full).map_or(0, spaces);
                let indent = written.saturating_sub(scalar.text.lines().find(full).map_or(0, spaces));
                Shape::Block { line, indent }
            }
            Style::Plain | Style::SingleQuoted | Style::DoubleQuoted => {
                let column = column.saturating_add(u32::from(scalar.style != Style::Plain));
                let written = source.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
                let start = written.char_indices().nth((column as usize).saturating_sub(1));
                let rest = start.and_then(|(at, _)| written.get(at..)).unwrap_or_default();
                if rest.starts_with(&scalar.text) {
                    Shape::Line { line, column }
                } else {
                    Shape::Point { line, column }
                }
            }
            Style::Folded => Shape::Point { line, column },
        };
        Some(Text { why: Rc::clone(&self.why), file, shape, step: StepId::default() })
    }

    /// The step that an entry of a field stands for.
    pub(crate) fn step(&self, by: &str, field: &str, at: Option<usize>) -> StepId {
        let (field, at) = self.as_written(field, at);
        let index = at.map(|at| at.to_string());
        let path: Vec<&str> = std::iter::once(field).chain(index.as_deref()).collect();
        let node = self.find(&path);
        let shown = match at {
            Some(at) => format!("{field}[{at}]"),
            None => field.to_owned(),
        };
        let exact = match field {
            "replicas" => node.and_then(|node| get(node, "count")),
            _ => None,
        };
        let mut keys = HashMap::new();
        let pairs = match field {
            "labels" => node.and_then(|node| get(node, "pairs")),
            "commonLabels" | "commonAnnotations" => node,
            _ => None,
        };
        for (key, value) in pairs.map(Node::pairs).unwrap_or_default() {
            keys.insert(key.as_text().unwrap_or_default().to_owned(), self.place_of(value));
        }
        let place = exact.or(node).map_or(self.start(), |node| self.place_of(node));
        let program = if field.starts_with("helm") { HELM.to_owned() } else { String::new() };
        self.add(Step { place, kustomization: self.file, field: shown, by: by.to_owned(), program, keys })
    }

    /// The step that an object of `generators` or `transformers` stands for.
    pub(crate) fn configured(&self, field: &str, config: &Resource) -> StepId {
        let mut keys = HashMap::new();
        for field in ["labels", "annotations"] {
            for (key, value) in config.node.get(field).map(Node::pairs).unwrap_or_default() {
                keys.insert(key.as_text().unwrap_or_default().to_owned(), self.place_of(value));
            }
        }
        let place = match config.node.get("kind").map_or(0, first_mark) {
            0 => self.start(),
            mark => self.why.0.borrow().writing(mark).place,
        };
        let by = config.id().gvk.kind.clone();
        let program = if by.starts_with("Helm") { HELM.to_owned() } else { program_of(config) };
        self.add(Step { place, kustomization: self.file, field: field.to_owned(), by, program, keys })
    }

    /// Says that all that is found changed was changed by this entry.
    pub(crate) fn wrote(&self, resources: &mut Resources, by: &str, field: &str, at: Option<usize>) {
        let step = self.step(by, field, at);
        self.why.settle_all(resources, Cause::Step(step));
    }

    /// The arguments of a generator in this file.
    pub(crate) fn entry(&self, field: &str, at: usize) -> Option<&Node> {
        self.find(&[field, &at.to_string()])
    }

    /// Says of every field of a generated object where it is from.
    pub(crate) fn generated(
        &self,
        resource: &mut Resource,
        step: StepId,
        args: Option<&Node>,
        values: &[(String, ValueOf)],
    ) {
        let options = [args.and_then(|args| get(args, "options")), self.find(&["generatorOptions"])];
        let option = |path: &[&str]| options.iter().flatten().find_map(|options| find(options, path));
        let arg = |name: &str| args.and_then(|args| get(args, name));
        let entry = args.map_or(self.start(), |args| self.place_of(args));
        let at = |node: Option<&Node>| node.map_or(entry, |node| self.place_of(node));
        let value_of = |key: &str| {
            let found = values.iter().find(|(name, _)| name == key)?;
            Some(match &found.1 {
                ValueOf::Literal(at) => {
                    self.place_of(arg("literals").and_then(|literals| literals.items().get(*at))?)
                }
                ValueOf::File(path) => self.place_in(path, 1),
                ValueOf::Line(path, line) => self.place_in(path, *line),
            })
        };
        for (key, value) in resource.node.pairs_mut().into_iter().flatten() {
            match key.as_text().unwrap_or_default() {
                "metadata" => {
                    for (key, value) in value.pairs_mut().into_iter().flatten() {
                        let name = key.as_text().unwrap_or_default().to_owned();
                        match name.as_str() {
                            "labels" | "annotations" => {
                                for (key, value) in value.pairs_mut().into_iter().flatten() {
                                    let key = key.as_text().unwrap_or_default();
                                    self.set(value, at(option(&[&name, key])), step);
                                }
                            }
                            name => {
                                let own = args.and_then(|args| find(args, &["metadata", name]));
                                self.set(value, at(arg(name).or(own)), step);
                            }
                        }
                    }
                }
                "data" | "binaryData" => {
                    for (key, value) in value.pairs_mut().into_iter().flatten() {
                        let key = key.as_text().unwrap_or_default();
                        self.set(value, value_of(key).unwrap_or(entry), step);
                    }
                }
                "immutable" => self.set(value, at(option(&["immutable"])), step),
                "type" => self.set(value, at(arg("type")), step),
                _ => self.set(value, entry, step),
            }
        }
    }

    /// Fields of old stand behind those that took their place.
    fn as_written<'f>(&self, field: &'f str, at: Option<usize>) -> (&'f str, Option<usize>) {
        let old = match field {
            "images" => "imageTags",
            "helmCharts" => "helmChartInflationGenerator",
            "resources" => "bases",
            _ => return (field, at),
        };
        let own = self.find(&[field]).map_or(0, |node| node.items().len());
        match at.and_then(|at| at.checked_sub(own)) {
            Some(at) if self.find(&[old]).is_some() => (old, Some(at)),
            _ => (field, at),
        }
    }

    fn find(&self, path: &[&str]) -> Option<&Node> {
        find(&self.root, path)
    }

    fn place_of(&self, node: &Node) -> FilePosition {
        match self.why.0.borrow().writing(first_mark(node)).place {
            FilePosition { file: FileId(0), .. } => self.start(),
            place => place,
        }
    }

    fn place_in(&self, path: &str, line: u32) -> FilePosition {
        let file = self.why.0.borrow_mut().add_file(self.directory.shown(path), "");
        FilePosition { file, line, column: 1 }
    }

    fn start(&self) -> FilePosition {
        FilePosition { file: self.file, line: 1, column: 1 }
    }

    fn add(&self, step: Step) -> StepId {
        self.why.0.borrow_mut().add_step(step)
    }

    fn set(&self, value: &mut Node, place: FilePosition, step: StepId) {
        let state = &mut *self.why.0.borrow_mut();
        each_leaf(value, &mut |leaf| {
            let text = leaf_text(leaf).unwrap_or_default().into();
            leaf.source = state.add(Writing { text, place, step, ..Writing::default() });
        });
    }
}

impl Directory {
    fn shown(&self, path: &str) -> String {
        match self {
            _ if is_http(path) => path.to_owned(),
            Self::Local(directory) => clean(&directory.join(path)).to_string_lossy().into_owned(),
            Self::Remote { url, reference, path: directory } => {
                let path = clean(&directory.join(path));
                let query = if reference.is_empty() { String::new() } else { format!("?ref={reference}") };
                format!("{url}//{}{query}", path.display())
            }
        }
    }
}

impl Text {
    pub(crate) fn why(&self) -> &Why {
        &self.why
    }

    pub(crate) fn used_by(self, step: StepId) -> Self {
        Self { step, ..self }
    }

    /// Gives every leaf of a document its place; so many lines come before it.
    pub(crate) fn mark(&self, document: &mut Node, lines_before: usize) {
        let state = &mut *self.why.0.borrow_mut();
        let before = number(lines_before);
        each_leaf(document, &mut |leaf| self.mark_one(state, leaf, before));
    }

    fn mark_everything(&self, node: &mut Node) {
        self.mark_one(&mut self.why.0.borrow_mut(), node, 0);
        match &mut node.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.iter_mut().for_each(|item| self.mark_everything(item)),
            Content::Mapping(pairs) => pairs.iter_mut().for_each(|(_, value)| self.mark_everything(value)),
        }
    }

    fn mark_one(&self, state: &mut State, node: &mut Node, before: u32) {
        let (line, column) = self.shape.place(node.line.saturating_add(before), node.column);
        let place = FilePosition { file: self.file, line, column };
        let text = leaf_text(node).unwrap_or_default().into();
        node.source = state.add(Writing { text, place, step: self.step, ..Writing::default() });
    }
}

impl Shape {
    fn place(self, line: u32, column: u32) -> (u32, u32) {
        match self {
            Self::Whole => (line, column),
            Self::Block { line: before, indent } => {
                (before.saturating_add(line), column.saturating_add(indent))
            }
            Self::Line { line: only, column: first } if line == 1 => {
                (only, first.saturating_add(column).saturating_sub(1))
            }
            Self::Line { line, column } | Self::Point { line, column } => (line, column),
        }
    }
}

impl State {
    fn add_file(&mut self, shown: String, text: &str) -> FileId {
        self.files.push(File { shown, text: text.into() });
        FileId(number(self.files.len().saturating_sub(1)))
    }
}

/// What an object of `generators` or `transformers` has run.
fn program_of(config: &Resource) -> String {
    let found = FUNCTION.iter().find_map(|key| config.annotation(key));
    let spec = found.and_then(|text| sternpost_yaml::from_str(text).ok()).unwrap_or_default();
    let part = |path: &str| spec.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default();
    [part("/exec/path"), part("/container/image")]
        .into_iter()
        .find(|part| !part.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// The program behind charts.
const HELM: &str = "helm";

/// The number of a node, or of the first in it that has one.
fn first_mark(node: &Node) -> Mark {
    if node.source != 0 {
        return node.source;
    }
    let in_pairs = node.pairs().iter().map(|(_, value)| value);
    node.items().iter().chain(in_pairs).map(first_mark).find(|mark| *mark != 0).unwrap_or_default()
}

/// Numbers are those of elements.
fn find<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, key| match &node.content {
        Content::Sequence(items) => items.get(key.parse::<usize>().ok()?),
        _ => get(node, key),
    })
}

/// Names of fields are known however they are capitalised.
fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let alike = |(name, _): &&(Node, Node)| name.as_text().is_some_and(|name| name.eq_ignore_ascii_case(key));
    node.get(key).or_else(|| node.pairs().iter().find(alike).map(|(_, value)| value))
}
