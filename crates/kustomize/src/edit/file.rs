//! The kustomization file that is edited: its fields as values, and what of its
//! text survives, which is the order of the fields and the comments above them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::command::{Context, Fault};
use crate::error::{Error, Result};
use crate::files::{self, Entry};
use crate::generate::charts;
use crate::kustomization::{self, COMPONENT_VERSION, KUSTOMIZATION, KUSTOMIZATION_VERSION};
use crate::loader::FILE_NAMES;
use sternpost_golang::json::unmarshal::{Shape, Struct};

/// The order of fields that the file does not have yet.
const ORDER: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "sortOptions",
    "resources",
    "bases",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "crds",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "patchesStrategicMerge",
    "patchesJson6902",
    "patches",
    "configMapGenerator",
    "secretGenerator",
    "helmCharts",
    "helmChartInflationGenerator",
    "helmGlobals",
    "generatorOptions",
    "vars",
    "images",
    "replacements",
    "replicas",
    "configurations",
    "generators",
    "transformers",
    "validators",
    "components",
    "openapi",
    "buildMetadata",
];

/// Fields by name, each checked against its shape.
pub(crate) type Fields = Map<String, Value>;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) fields: Fields,
    layout: Vec<Commented>,
}

/// A field and the lines above it.
#[derive(Debug, PartialEq, Eq)]
struct Commented {
    field: &'static str,
    lines: Vec<String>,
}

impl File {
    /// Reads the one of the working directory.
    pub(crate) fn read(context: &Context<'_>) -> Result<Self> {
        Self::load(context, &find(context)?)
    }

    /// The same, with words of the caller's before what goes wrong while it is
    /// looked for and while it is read.
    pub(crate) fn read_within(context: &Context<'_>, finding: &str, reading: &str) -> Result<Self> {
        let path = find(context).map_err(|error| error.within(finding))?;
        Self::load(context, &path).map_err(|error| error.within(reading))
    }

    fn load(context: &Context<'_>, path: &Path) -> Result<Self> {
        let problem = |problem: String| Error::new(format!("open {}: {problem}", path.display()));
        let (real, _) = files::resolve(context.files(), path).map_err(|error| problem(error.to_string()))?;
        let bytes = context.files().read(&real).map_err(|error| problem(files::reason(&error)))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut fields = match kustomization::read_fields(&text)? {
            Value::Object(fields) => fields,
            _ => Fields::new(),
        };
        modernise(&mut fields);
        Ok(Self { path: real, fields, layout: layout(&text) })
    }

    /// One that is not there yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        let mut fields = Fields::new();
        modernise(&mut fields);
        Self { path, fields, layout: Vec::new() }
    }

    pub(crate) fn write(&self, context: &mut Context<'_>) -> Result<(), Fault> {
        let text = self.text();
        let written = context.surroundings.files.write(&self.path, text.as_bytes());
        written.map_err(|error| format!("open {}: {}", self.path.display(), files::reason(&error)).into())
    }

    pub(crate) fn text(&self) -> String {
        let fields = written(&self.fields, &KUSTOMIZATION);
        let mut text = String::new();
        for Commented { field, lines } in &self.layout {
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
            write_field(&fields, field, &mut text);
        }
        let present = |field: &&&str| !self.layout.iter().any(|commented| commented.field == **field);
        for field in ORDER.iter().filter(present) {
            write_field(&fields, field, &mut text);
        }
        text
    }
}

/// The path of the one kustomization file of the working directory.
fn find(context: &Context<'_>) -> Result<PathBuf> {
    let at = |name: &str| files::resolve(context.files(), &context.directory().join(name));
    let names: Vec<&str> = FILE_NAMES.iter().copied().filter(|name| at(name).is_ok()).collect();
    match names.as_slice() {
        [] => {
            let wanted = FILE_NAMES.first().copied().unwrap_or_default();
            Err(Error::new(format!("Missing kustomization file '{wanted}'.\n")))
        }
        [name] if !matches!(at(name), Ok((_, Entry::File))) => {
            Err(Error::new(format!("{name} should be a file")))
        }
        [name] => Ok(context.directory().join(name)),
        names => Err(Error::new(format!("Found multiple kustomization file: [{}]\n", names.join(" ")))),
    }
}

fn write_field(fields: &Fields, field: &str, text: &mut String) {
    if let Some(value) = fields.get(field) {
        text.push_str(&sternpost_yaml::write(&json!({ field: value })));
    }
}

/// Fields of old become what they are now, and the type is said.
pub(crate) fn modernise(fields: &mut Fields) {
    let component = fields.get("kind").and_then(Value::as_str) == Some("Component");
    let version = if component { COMPONENT_VERSION } else { KUSTOMIZATION_VERSION };
    let mut default = |field: &str, value: &str| {
        if texts_empty(fields.get(field)) {
            fields.insert(field.to_owned(), value.into());
        }
    };
    default("kind", "Kustomization");
    default("apiVersion", version);
    move_items(fields, "bases", "resources", Some);
    move_items(fields, "imageTags", "images", Some);
    for generator in ["configMapGenerator", "secretGenerator"] {
        for args in items_mut(fields, generator).unwrap_or(&mut Vec::new()) {
            let Some(args) = args.as_object_mut() else { continue };
            if let Some(env) = args.remove("env").filter(|env| !texts_empty(Some(env))) {
                extend(args, "envs", [env]);
            }
        }
    }
    for patches in ["patches", "patchesJson6902"] {
        for patch in items_mut(fields, patches).unwrap_or(&mut Vec::new()) {
            if let Some(Value::String(text)) = patch.get_mut("patch")
                && text.contains("\r\n")
            {
                *text = text.replace("\r\n", "\n");
            }
        }
    }
    modernise_charts(fields);
}

fn modernise_charts(fields: &mut Fields) {
    let Some(Value::Array(old)) = fields.remove("helmChartInflationGenerator") else { return };
    for chart in old {
        for (home, global) in [("chartHome", "chartHome"), ("helmHome", "configHome")] {
            if let Some(home) = chart.get(home).filter(|home| !texts_empty(Some(home))) {
                let globals = fields.entry("helmGlobals").or_insert_with(|| json!({}));
                if let Some(globals) = globals.as_object_mut() {
                    globals.insert(global.to_owned(), home.clone());
                }
            }
        }
        let named = |(old, new): &(&str, &str)| Some(((*new).to_owned(), chart.get(old)?.clone()));
        let chart = Value::Object(charts::RENAMED.iter().filter_map(named).collect());
        extend(fields, "helmCharts", [chart]);
    }
}

/// Takes the items of a field and adds what becomes of each to another.
pub(crate) fn move_items(fields: &mut Fields, from: &str, to: &str, change: impl Fn(Value) -> Option<Value>) {
    if let Some(Value::Array(items)) = fields.remove(from) {
        extend(fields, to, items.into_iter().filter_map(change));
    }
}

fn texts_empty(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_none_or(str::is_empty)
}

pub(crate) fn items_mut<'f>(fields: &'f mut Fields, field: &str) -> Option<&'f mut Vec<Value>> {
    fields.get_mut(field).and_then(Value::as_array_mut)
}

/// Adds to a list that is made if it is not there.
pub(crate) fn extend(fields: &mut Fields, field: &str, more: impl IntoIterator<Item = Value>) {
    match items_mut(fields, field) {
        Some(items) => items.extend(more),
        None => {
            fields.insert(field.to_owned(), more.into_iter().collect());
        }
    }
}

pub(crate) fn texts(fields: &Fields, field: &str) -> Vec<String> {
    let items = fields.get(field).and_then(Value::as_array);
    let text = |item: &Value| item.as_str().map(str::to_owned);
    items.map(|items| items.iter().filter_map(text).collect()).unwrap_or_default()
}

/// Fields that are written even if nothing is in them, and as what.
const ALWAYS: &[(&str, &str, Absent)] = &[
    ("Var", "name", Absent::Text),
    ("Var", "objref", Absent::Struct),
    ("Var", "fieldref", Absent::Struct),
    ("Target", "name", Absent::Text),
    ("Replica", "count", Absent::Zero),
    ("TargetSelector", "select", Absent::Null),
    ("LegacySortOptions", "orderFirst", Absent::Null),
    ("LegacySortOptions", "orderLast", Absent::Null),
    ("Replacement", "sourceValue", Absent::Nothing),
    ("ReplacementField", "sourceValue", Absent::Nothing),
];

#[derive(Clone, Copy)]
enum Absent {
    Text,
    Struct,
    Zero,
    Null,
    /// Not written if absent, but if empty.
    Nothing,
}

/// What Go writes of a struct: without fields that have nothing in them.
pub(crate) fn written(object: &Fields, shape: &'static Struct) -> Fields {
    let mut result = Fields::new();
    for field in shape.fields {
        let always = ALWAYS.iter().find(|always| always.0 == shape.name && always.1 == field.0);
        let value = object.get(field.0).map(|value| written_value(value, &field.2));
        let value = match (value, always.map(|always| always.2)) {
            (Some(value), None) if is_nothing(&value, &field.2) => None,
            (Some(value), _) => Some(value),
            (None, Some(Absent::Text)) => Some(json!("")),
            (None, Some(Absent::Struct)) => Some(written_value(&json!({}), &field.2)),
            (None, Some(Absent::Zero)) => Some(json!(0)),
            (None, Some(Absent::Null)) => Some(Value::Null),
            (None, Some(Absent::Nothing) | None) => None,
        };
        if let Some(value) = value {
            result.insert(field.0.to_owned(), value);
        }
    }
    result
}

fn written_value(value: &Value, shape: &'static Shape) -> Value {
    match (shape, value) {
        (Shape::Struct(shape), Value::Object(object)) => Value::Object(written(object, shape)),
        (Shape::List(element) | Shape::NamedList(_, element), Value::Array(items)) => {
            items.iter().map(|item| written_value(item, element)).collect()
        }
        (_, value) => value.clone(),
    }
}

fn is_nothing(value: &Value, shape: &Shape) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty() && !matches!(shape, Shape::Struct(_)),
    }
}

/// Which fields there are, in order, and the comments and blank lines above.
///
/// Comments inside of a field move above it, unless they are text: what a block
/// scalar holds stays there and only there. Those below the last field are lost.
fn layout(text: &str) -> Vec<Commented> {
    let mut layout: Vec<Commented> = Vec::new();
    let mut pending: Vec<String> = Vec::new();
    let mut block = Block::None;
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        let content = line.trim();
        if content.is_empty() {
            pending.push(line.to_owned());
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        block = match block {
            Block::Begins { outside } if indent > outside => Block::Inside { indent },
            Block::Inside { indent: inside } if indent >= inside => block,
            _ => Block::None,
        };
        if let Block::Inside { .. } = block {
            // Blank lines between lines of the scalar are the scalar's.
            while pending.last().is_some_and(|line| line.trim().is_empty()) {
                pending.pop();
            }
            continue;
        }
        if content.starts_with('#') {
            pending.push(line.to_owned());
            continue;
        }
        if let Some(field) = field_of(line) {
            layout.push(Commented { field, lines: std::mem::take(&mut pending) });
        } else if let Some(last) = layout.last_mut() {
            last.lines.append(&mut pending);
        }
        if begins_block(content) {
            block = Block::Begins { outside: indent };
        }
    }
    layout
}

enum Block {
    None,
    /// The line with `|` or `>` has been read.
    Begins {
        outside: usize,
    },
    Inside {
        indent: usize,
    },
}

/// Whether a line ends with the head of a block scalar.
fn begins_block(line: &str) -> bool {
    let head = line.rsplit([' ', '\t']).next().unwrap_or_default();
    let mut chars = head.chars();
    matches!(chars.next(), Some('|' | '>'))
        && chars.all(|char| char.is_ascii_digit() || matches!(char, '+' | '-'))
        && head.len() < line.len()
}

fn field_of(line: &str) -> Option<&'static str> {
    let (name, _) = line.split_once(':')?;
    let is_it = |field: &&&str| field.eq_ignore_ascii_case(name);
    ORDER.iter().chain(&["imageTags"]).find(is_it).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_block_scalar_is_no_comment() {
        let text = "# a\npatches:\n- patch: |\n    # in\n\n    b\n\n# c\nresources:\n# d\n- a\n";
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            layout(text),
            [
                Commented { field: "patches", lines: lines(&["# a"]) },
                Commented { field: "resources", lines: lines(&["", "# c", "# d"]) },
            ]
        );
    }
}
