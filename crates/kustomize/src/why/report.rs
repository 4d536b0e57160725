//! What a build tells of its writers.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value, json};
use sternpost_yaml::node::Node;

use super::{FileId, FilePosition, Mark, State, Why};
use crate::id::ResId;

/// A field of an object that has no fields itself, and who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub path: Vec<Segment>,
    pub value: Value,
    /// The last one first.
    pub writers: Vec<Writer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Key(String),
    /// An element of a list, with the key and text that it is told by if all
    /// elements have such a text of their own.
    Element {
        at: usize,
        key: Option<(&'static str, String)>,
    },
}

/// One that wrote a value to a field, or took it away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Writer {
    /// Where the value is written, or else the entry that made it. As seen from
    /// where the caller is; an address for what is remote; empty for no file.
    pub file: String,
    /// Counted from 1; 0 for no file.
    pub line: u32,
    pub column: u32,
    /// The entry of the kustomization, such as `patches[2]`.
    pub field: String,
    /// The kustomization file that has the entry.
    pub kustomization: String,
    /// What the entry stands for, such as `PatchTransformer`.
    pub by: String,
    /// What was run for it, such as `helm`.
    pub program: String,
    pub from: Option<From>,
    /// The field was taken away here.
    pub removed: bool,
}

/// The field of an object that a value was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct From {
    pub object: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl Field {
    /// The path in one text: `spec.containers[name=app].image`.
    pub fn path_text(&self) -> String {
        self.spelled(push_index)
    }

    /// The same with numbers for all elements of lists.
    pub(super) fn numbered(&self) -> String {
        self.spelled(|path, at, _| push_index(path, at, None))
    }

    fn spelled(&self, push: impl Fn(&mut String, usize, Option<(&str, &str)>)) -> String {
        let mut path = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) => push_key(&mut path, key),
                Segment::Element { at, key } => {
                    push(&mut path, *at, key.as_ref().map(|(key, text)| (*key, text.as_str())));
                }
            }
        }
        path
    }

    /// `path = value  <- writer <- writer`.
    pub fn line(&self) -> String {
        let mut line = format!("{} = {} ", self.path_text(), self.value);
        for writer in &self.writers {
            line.push_str(&format!(" <- {writer}"));
        }
        line
    }

    pub(super) fn json(&self) -> Map<String, Value> {
        let segment = |segment: &Segment| match segment {
            Segment::Key(key) => Value::from(key.as_str()),
            Segment::Element { at, .. } => Value::from(*at),
        };
        let mut object = Map::new();
        object.insert("path".to_owned(), self.path.iter().map(segment).collect());
        object.insert("shown".to_owned(), self.path_text().into());
        object.insert("value".to_owned(), self.value.clone());
        object.insert("chain".to_owned(), self.writers.iter().map(Writer::json).collect());
        object
    }
}

impl Writer {
    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut set = |name: &str, value: Value| {
            if value != json!("") && value != json!(0) && value != json!(false) {
                object.insert(name.to_owned(), value);
            }
        };
        set("file", self.file.as_str().into());
        set("line", self.line.into());
        set("column", self.column.into());
        set("field", self.field.as_str().into());
        set("kustomization", self.kustomization.as_str().into());
        set("by", self.by.as_str().into());
        set("program", self.program.as_str().into());
        set("removed", self.removed.into());
        if let Some(from) = &self.from {
            let From { object, file, line, column } = from;
            set("from", json!({ "object": object, "file": file, "line": line, "column": column }));
        }
        Value::Object(object)
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            f.write_str(&self.by)?;
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        }
        // A file of objects says enough by itself.
        if self.by != RESOURCES && !self.field.is_empty() {
            write!(f, " {}", self.field)?;
            if self.kustomization != self.file {
                write!(f, " of {}", self.kustomization)?;
            }
        }
        match self.by.as_str() {
            super::HASH => f.write_str(" (hash)")?,
            NAME_REFERENCE => f.write_str(" (name)")?,
            _ if !self.program.is_empty() => write!(f, " ({})", self.program)?,
            _ => {}
        }
        if self.removed {
            f.write_str(" (removed)")?;
        }
        match &self.from {
            Some(from) if from.file == self.file && from.line == self.line => {
                write!(f, " from {}", from.object)
            }
            Some(from) => write!(f, " from {} {}:{}:{}", from.object, from.file, from.line, from.column),
            None => Ok(()),
        }
    }
}

/// What the files that `resources` lists are loaded by.
pub(crate) const RESOURCES: &str = "resources";
/// What the step that lets references follow renamed objects is called.
pub(crate) const NAME_REFERENCE: &str = "NameReferenceTransformer";

/// The fields of an object in the order in which they are written.
pub(crate) fn fields(why: &Why, node: &Node, value: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    let state = why.0.borrow();
    collect(&state, Some(node), value, &mut Vec::new(), &mut fields);
    fields
}

fn collect(
    state: &State,
    node: Option<&Node>,
    value: &Value,
    path: &mut Vec<Segment>,
    fields: &mut Vec<Field>,
) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            let nodes: std::collections::HashMap<&str, &Node> = node
                .map(Node::pairs)
                .unwrap_or_default()
                .iter()
                .map(|(key, value)| (key.as_text().unwrap_or_default(), value))
                .collect();
            for (key, value) in sternpost_yaml::sorted(object) {
                path.push(Segment::Key(key.clone()));
                collect(state, nodes.get(key.as_str()).copied(), value, path, fields);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let text = |item: &Value, key: &str| match item.get(key)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            let mut keys = keys(items, text);
            for (at, item) in items.iter().enumerate() {
                let key =
                    keys.as_mut().and_then(|(key, texts)| Some((*key, std::mem::take(texts.get_mut(at)?))));
                path.push(Segment::Element { at, key });
                collect(state, node.and_then(|node| node.items().get(at)), item, path, fields);
                path.pop();
            }
        }
        value => fields.push(Field {
            path: path.clone(),
            value: value.clone(),
            writers: state.writers(node.map(|node| node.source).unwrap_or_default()),
        }),
    }
}

impl State {
    fn writers(&self, mark: Mark) -> Vec<Writer> {
        let mut writers = Vec::new();
        let mut mark = mark;
        // What was there before has a smaller number.
        while mark != 0 {
            let writing = self.writing(mark);
            let step = self.step(writing.step).cloned().unwrap_or_default();
            let (file, line, column) = self.shown(writing.place);
            let from = (writing.from != 0).then(|| {
                let from = self.writing(writing.from);
                let (file, line, column) = self.shown(from.place);
                let object = self.objects.get(from.object as usize);
                From {
                    object: object.map(|object| object.shown.clone()).unwrap_or_default(),
                    file,
                    line,
                    column,
                }
            });
            let kustomization =
                self.shown(FilePosition { file: step.kustomization, ..FilePosition::default() }).0;
            let (removed, program) = (writing.removed, step.program);
            writers.push(Writer {
                file,
                line,
                column,
                field: step.field,
                kustomization,
                by: step.by,
                program,
                from,
                removed,
            });
            mark = if writing.was < mark { writing.was } else { 0 };
        }
        writers
    }

    fn shown(&self, place: FilePosition) -> (String, u32, u32) {
        let FileId(file) = place.file;
        let file = self.files.get(file as usize).map(|file| file.shown.clone()).unwrap_or_default();
        (file, place.line, place.column)
    }
}

/// `Kind/name.namespace`.
pub(crate) fn id_text(id: &ResId) -> String {
    let mut text = format!("{}/{}", id.gvk.kind, id.name);
    if !id.namespace.is_empty() {
        text.push('.');
        text.push_str(&id.namespace);
    }
    text
}

/// The keys by which elements of lists are told apart, the best first: those
/// that strategic merge patches go by.
const KEYS: [&str; 8] =
    ["name", "containerPort", "port", "mountPath", "devicePath", "ip", "topologyKey", "type"];

/// The first key of which every element has a text of its own, and the texts.
pub(super) fn keys<T>(
    items: &[T],
    text: impl Fn(&T, &str) -> Option<String>,
) -> Option<(&'static str, Vec<String>)> {
    KEYS.iter().find_map(|key| {
        let texts: Vec<String> = items.iter().map(|item| text(item, key)).collect::<Option<_>>()?;
        let known: HashSet<&String> = texts.iter().collect();
        (known.len() == texts.len()).then_some((*key, texts))
    })
}

pub(super) fn push_index(path: &mut String, at: usize, key: Option<(&str, &str)>) {
    match key {
        Some((key, text)) if is_plain(text) => path.push_str(&format!("[{key}={text}]")),
        Some((key, text)) => path.push_str(&format!("[{key}={}]", Value::from(text))),
        None => path.push_str(&format!("[{at}]")),
    }
}

pub(super) fn push_key(path: &mut String, key: &str) {
    if !is_plain(key) {
        path.push_str(&format!("[{}]", Value::from(key)));
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Whether a path can hold it without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|char| char.is_alphanumeric() || matches!(char, '-' | '_' | '/'))
}

/// The key that a path ends with.
pub(super) fn last_key(path: &str) -> Option<String> {
    match path.strip_suffix("\"]") {
        Some(quoted) => {
            let start = path.rfind("[\"")?;
            let text = quoted.get(start + 1..)?;
            serde_json::from_str(&format!("{text}\"")).ok()
        }
        None => path.rsplit('.').next().map(str::to_owned),
    }
}
