//! Reading the fact tables under `facts/`.
//!
//! Three kinds of file, all line-based, a blank line between blocks:
//! - `types/PACKAGE`: what OpenAPI says of a type beyond its structure. A line
//!   at the margin is a type, an indented one a property, then `key=value`
//!   attributes: `required`, `list`, `keys`, `patch`, `merge-key`, `map`,
//!   `default`, `enum` (`~` stands for a space, `|` parts values), the same
//!   for items or map values as `each-default` and `each-enum`, for items of
//!   map values as `inner-default`, and `union`.
//! - `messages/PACKAGE`: protobuf, and what Go's types say of presence.
//!   `MESSAGE [wire-only] [kind]`: `wire-only` messages have no definition of
//!   their own, a `kind` can be an object by itself. `NUMBER JSON-NAME
//!   [repeated|map] TYPE [inline] [optional] [always|omitzero]`: `inline`
//!   fields are messages whose fields stand in the parent's JSON; see
//!   [`Field::optional`] and [`Field::shown`] for the others.
//! - `kinds`: groups, versions, resources and subresources in discovery order.
//!
//! - `registered`: every version of every group that upstream knows, served or
//!   not; types that belong to all of them list them.
//!
//! The build script reads them with this same code and stops at the first
//! line that says something about a type or property that does not exist.

use std::{fmt, sync::Arc};

use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Group, Resource, Scope, Subresource, Verb, Version},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactError {
    pub line: usize,
    pub problem: String,
}

impl fmt::Display for FactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for FactError {}

pub type Attributes<'a> = Vec<(&'a str, &'a str)>;

/// A protobuf message as the wire has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub name: Arc<str>,
    /// Has no definition of its own: its fields appear inside other types.
    pub wire_only: bool,
    /// Has a `kind` and an `apiVersion` of its own.
    pub is_kind: bool,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub number: u32,
    /// The name in JSON, which is not always protobuf's.
    pub json_name: Arc<str>,
    pub label: Label,
    pub kind: FieldType,
    /// The field's own fields stand in the parent's JSON object.
    pub inline: bool,
    /// A single value that can be unset, which is not the same as zero: it is
    /// on the wire only when set. All other single values but bytes are on the
    /// wire even when zero.
    pub optional: bool,
    pub shown: Shown,
}

/// When JSON written from Go has a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// When it is set and, if not optional, neither zero nor empty.
    WhenSet,
    /// Always: as zero, or as `null` if it is optional, a list, a map or bytes.
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Single,
    Repeated,
    /// A map with string keys.
    Map,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    Bool,
    Bytes,
    Double,
    Int32,
    Int64,
    String,
    /// The full name of a message.
    Message(Arc<str>),
}

/// All a `messages/` file says, message names in full.
pub fn messages(text: &str) -> Result<Vec<Message>, FactError> {
    let mut lines = lines(text);
    let package = package(&mut lines)?;
    let mut messages: Vec<Message> = Vec::new();
    for (line, text) in lines {
        let words: Vec<&str> = text.split_whitespace().collect();
        match (text.starts_with(' '), messages.last_mut()) {
            (true, Some(message)) => message.fields.push(field(line, package, &words)?),
            (true, None) => return error(line, "a field before any message"),
            (false, _) => {
                let (name, wire_only, is_kind) = match words.as_slice() {
                    [name] => (name, false, false),
                    [name, "wire-only"] => (name, true, false),
                    [name, "kind"] => (name, false, true),
                    [name, "wire-only", "kind"] => (name, true, true),
                    _ => return error(line, "expected `MESSAGE [wire-only] [kind]`"),
                };
                let name = format!("{package}.{name}").into();
                messages.push(Message { name, wire_only, is_kind, fields: Vec::new() });
            }
        }
    }
    Ok(messages)
}

fn field(line: usize, package: &str, words: &[&str]) -> Result<Field, FactError> {
    let (number, json_name, label, kind, marks) = match words {
        [number, name, "repeated", kind, marks @ ..] => (number, name, Label::Repeated, kind, marks),
        [number, name, "map", kind, marks @ ..] => (number, name, Label::Map, kind, marks),
        [number, name, kind, marks @ ..] => (number, name, Label::Single, kind, marks),
        _ => return error(line, "expected `NUMBER NAME [repeated|map] TYPE [MARK...]`"),
    };
    let Ok(number) = number.parse() else { return error(line, "the field number is not a number") };
    let kind = match *kind {
        "bool" => FieldType::Bool,
        "bytes" => FieldType::Bytes,
        "double" => FieldType::Double,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "string" => FieldType::String,
        name if name.contains('.') => FieldType::Message(name.into()),
        name => FieldType::Message(format!("{package}.{name}").into()),
    };
    let optional = marks.contains(&"optional");
    // Go never leaves out a struct that is part of another, unless told to.
    let struct_value = label == Label::Single && !optional && matches!(kind, FieldType::Message(_));
    let (mut inline, mut shown) = (false, if struct_value { Shown::Always } else { Shown::WhenSet });
    for mark in marks {
        match *mark {
            "inline" if struct_value => inline = true,
            "optional" if label == Label::Single && kind != FieldType::Bytes => {}
            "always" if !struct_value => shown = Shown::Always,
            "omitzero" if struct_value => shown = Shown::WhenSet,
            mark => return error(line, format!("`{mark}` means nothing for this field")),
        }
    }
    Ok(Field { number, json_name: (*json_name).into(), label, kind, inline, optional, shown })
}

/// A resource by group-version and plural.
pub type ResourceKey = (GroupVersion, Arc<str>);

/// All the `kinds` file says.
#[derive(Debug, Default)]
pub struct Kinds {
    /// In discovery order, the core group first.
    pub groups: Vec<Group>,
    /// `groupPriorityMinimum` and `versionPriority`; the aggregator's own
    /// group has none and always leads.
    pub priorities: Vec<(GroupVersion, Option<(u32, u32)>)>,
    /// The group/version/kind each stored resource is stored as, where it is
    /// not the one it is served as, by group-version and plural.
    pub stored_as: Vec<(ResourceKey, Arc<str>)>,
    /// Resources that are never stored.
    pub unstored: Vec<ResourceKey>,
}

pub fn kinds(text: &str) -> Result<Kinds, FactError> {
    let mut kinds = Kinds::default();
    let mut group_priority = None;
    for (line, text) in lines(text) {
        let depth = text.len() - text.trim_start().len();
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        match depth {
            0 => {
                let value = words.next().unwrap_or_default();
                let attributes = attributes(line, words)?;
                let priority = number(line, &attributes, "priority")?;
                if name == "group" {
                    let name = if value == "core" { "" } else { value };
                    kinds.groups.push(Group { name: name.into(), versions: Vec::new() });
                    group_priority = priority;
                } else if let ("version", Some(group)) = (name, kinds.groups.last_mut()) {
                    group.versions.push(Version { name: value.into(), resources: Vec::new() });
                    let gv = GroupVersion::new(group.name.clone(), value);
                    kinds.priorities.push((gv, group_priority.zip(priority)));
                } else {
                    return error(line, "expected `group NAME` or `version NAME`");
                }
            }
            2 => {
                let Some(gv) = current(&kinds) else { return error(line, "a resource before any version") };
                let kind = words.next().unwrap_or_default();
                let resource = resource(line, &gv, name, kind, words, &mut kinds)?;
                let version = kinds.groups.last_mut().and_then(|group| group.versions.last_mut());
                version.into_iter().for_each(|version| version.resources.push(Arc::new(resource.clone())));
            }
            _ => {
                let attributes = attributes(line, words)?;
                let parent = kinds
                    .groups
                    .last_mut()
                    .and_then(|group| group.versions.last_mut())
                    .and_then(|version| version.resources.last_mut())
                    .and_then(Arc::get_mut);
                let Some(parent) = parent else { return error(line, "a subresource before any resource") };
                let subresource = subresource(line, parent, name, &attributes)?;
                parent.subresources.push(subresource);
            }
        }
    }
    Ok(kinds)
}

fn current(kinds: &Kinds) -> Option<GroupVersion> {
    kinds.priorities.last().map(|(gv, _)| gv.clone())
}

fn resource<'a>(
    line: usize,
    gv: &GroupVersion,
    plural: &str,
    kind: &str,
    words: impl Iterator<Item = &'a str>,
    kinds: &mut Kinds,
) -> Result<Resource, FactError> {
    let mut resource = Resource {
        gv: gv.clone(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        scope: Scope::Cluster,
        verbs: Verb::ALL.to_vec(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
    };
    for word in words {
        match word.split_once('=') {
            None if word == "namespaced" => resource.scope = Scope::Namespaced,
            None if word == "cluster" => resource.scope = Scope::Cluster,
            None if word == "unstored" => kinds.unstored.push((gv.clone(), plural.into())),
            Some(("singular", value)) => resource.singular = value.into(),
            Some(("verbs", value)) => resource.verbs = verbs(line, value)?,
            Some(("short", value)) => resource.short_names = value.split(',').map(Arc::from).collect(),
            Some(("categories", value)) => resource.categories = value.split(',').map(Arc::from).collect(),
            Some(("stored-as", value)) => {
                kinds.stored_as.push(((gv.clone(), plural.into()), value.into()));
            }
            _ => return error(line, format!("`{word}` means nothing for a resource")),
        }
    }
    Ok(resource)
}

fn subresource(
    line: usize,
    parent: &Resource,
    name: &str,
    attributes: &Attributes<'_>,
) -> Result<Subresource, FactError> {
    let Some(name) = name.strip_prefix('/') else {
        return error(line, "expected `/SUBRESOURCE`");
    };
    let mut subresource = Subresource {
        name: name.into(),
        verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
        kind: parent.gvk(),
    };
    for (key, value) in attributes {
        match *key {
            "verbs" => subresource.verbs = verbs(line, value)?,
            "kind" => {
                subresource.kind = match value.split('/').collect::<Vec<_>>().as_slice() {
                    [kind] => parent.gv.kind(*kind),
                    [group, version, kind] => GroupVersionKind::new(*group, *version, *kind),
                    _ => return error(line, "expected `kind=KIND` or `kind=GROUP/VERSION/KIND`"),
                }
            }
            _ => return error(line, format!("`{key}` means nothing for a subresource")),
        }
    }
    Ok(subresource)
}

/// All the `registered` file says: group, then its versions.
pub fn registered(text: &str) -> Vec<GroupVersion> {
    let versions = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let group = words.next().filter(|group| group != "core").unwrap_or_default();
        words.map(move |version| GroupVersion::new(group.as_str(), version)).collect::<Vec<_>>()
    };
    text.lines().flat_map(versions).collect()
}

fn verbs(line: usize, value: &str) -> Result<Vec<Verb>, FactError> {
    let unknown = |verb: &str| FactError { line, problem: format!("`{verb}` is not a verb") };
    value.split(',').map(|verb| Verb::parse(verb).ok_or_else(|| unknown(verb))).collect()
}

fn number(line: usize, attributes: &Attributes<'_>, key: &str) -> Result<Option<u32>, FactError> {
    let Some((_, value)) = attributes.iter().find(|(found, _)| *found == key) else { return Ok(None) };
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => error(line, format!("`{key}` is not a number")),
    }
}

pub fn attributes<'a>(
    line: usize,
    words: impl Iterator<Item = &'a str>,
) -> Result<Attributes<'a>, FactError> {
    let bare = |word: &str| FactError { line, problem: format!("`{word}` is not `key=value`") };
    words.map(|word| word.split_once('=').ok_or_else(|| bare(word))).collect()
}

pub fn package<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Result<&'a str, FactError> {
    match lines.next().map(|(line, text)| (line, text.strip_prefix("package "))) {
        Some((_, Some(package))) => Ok(package),
        Some((line, None)) => error(line, "expected `package NAME`"),
        None => error(1, "the file is empty"),
    }
}

pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty())
}

pub fn error<T>(line: usize, problem: impl Into<String>) -> Result<T, FactError> {
    Err(FactError { line, problem: problem.into() })
}
