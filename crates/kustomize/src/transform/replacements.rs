//! `replacements`: the value of one object's field, copied into others.

use regex::Regex;
use sternpost_yaml::node::{Content, Node, Scalar, Style};

use crate::build::Target;
use crate::error::{Error, Result};
use crate::id::{GvkPattern, ResId};
use crate::kustomization::{
    self, FieldOptions, REPLACEMENT, ReplacementField, SourceSelector, TargetSelector, decode,
};
use crate::merge::wrong_kind;
use crate::resource::Resource;
use crate::resources::Resources;
use crate::schema::Schema;
use crate::selector::Selector;
use sternpost_golang::json::unmarshal;

const DEFAULT_FIELD: &str = "metadata.name";

/// Of the field: a mistake names the plugin behind it.
pub(crate) fn configure(target: &Target<'_>, entries: &[ReplacementField]) -> Result<Vec<ReplacementField>> {
    load(target, entries).map_err(|error| {
        let paths: Vec<serde_json::Value> = entries
            .iter()
            .filter(|entry| !entry.path.is_empty())
            .map(|entry| {
                let mut shown = serde_json::json!({ "path": entry.path });
                if let (Some(shown), Some(source)) = (shown.as_object_mut(), &entry.source) {
                    shown.insert("source".to_owned(), shown_source(source));
                }
                shown
            })
            .collect();
        let config = sternpost_yaml::write(&serde_json::json!({ "Replacements": paths }));
        error.within(format!("trouble configuring builtin ReplacementTransformer with config: `\n{config}`"))
    })
}

fn shown_source(source: &SourceSelector) -> serde_json::Value {
    let fields = [
        ("group", &source.group),
        ("version", &source.version),
        ("kind", &source.kind),
        ("name", &source.name),
        ("namespace", &source.namespace),
        ("fieldPath", &source.field_path),
    ];
    let set = fields.iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| ((*name).to_owned(), serde_json::Value::from(value.as_str()))).collect()
}

/// The entries, those in files read.
pub(crate) fn load(target: &Target<'_>, entries: &[ReplacementField]) -> Result<Vec<ReplacementField>> {
    let mut loaded = Vec::new();
    for (listed_at, entry) in entries.iter().enumerate() {
        if entry.path.is_empty() {
            loaded.push(ReplacementField { listed_at, ..entry.clone() });
            continue;
        }
        if entry.source.is_some() || entry.targets.is_some() {
            return Err(Error::new("cannot specify both path and inline replacement"));
        }
        let text = target.loader.load_text(&entry.path)?;
        let document = sternpost_yaml::read(&text).map_err(|error| Error::new(error.to_string()))?;
        let items = match document.value {
            serde_json::Value::Array(items) => items,
            value => vec![value],
        };
        for item in items {
            let found = match &item {
                serde_json::Value::Object(_) => None,
                serde_json::Value::Null => Some("invalid"),
                serde_json::Value::String(_) => Some("string"),
                serde_json::Value::Bool(_) => Some("bool"),
                serde_json::Value::Number(_) => Some("int"),
                serde_json::Value::Array(_) => Some("slice"),
            };
            if let Some(found) = found {
                return Err(Error::new(format!(
                    "unsupported replacement type encountered within replacement path: {found}"
                )));
            }
            let value = unmarshal::check_known(item, &REPLACEMENT).map_err(Error::new)?;
            let entry = if value.is_null() { ReplacementField::default() } else { decode(value)? };
            loaded.push(ReplacementField { listed_at, ..entry });
        }
    }
    Ok(loaded)
}

pub(crate) fn run(schema: &Schema, entries: &[ReplacementField], resources: &mut Resources) -> Result<()> {
    for entry in entries {
        let targets = entry.targets.as_deref().unwrap_or_default();
        let none = entry.source.is_none() && entry.source_value.is_none();
        if none || targets.is_empty() {
            return Err(Error::new("replacements must specify a source and at least one target"));
        }
        let value = match (&entry.source, &entry.source_value) {
            (Some(_), Some(_)) => {
                return Err(Error::new("value and resource selectors are mutually exclusive"));
            }
            (Some(source), None) => source_value(source, resources)?,
            (None, value) => Scalar::plain(value.clone().unwrap_or_default()).into(),
        };
        for target in targets {
            copy_to(schema, target, &value, resources)?;
        }
    }
    Ok(())
}

fn source_value(source: &SourceSelector, resources: &Resources) -> Result<Node> {
    let resource = source_object(source, resources)?;
    let path = if source.field_path.is_empty() { DEFAULT_FIELD } else { &source.field_path };
    let missing =
        || Error::new(format!("fieldPath `{path}` is missing for replacement source {}", source_id(source)));
    let mut segments = split_path(path);
    segments.retain(|segment| !segment.is_empty());
    let found = look_up(&resource.node, &segments)
        .map_err(|error| error.within("error looking up replacement source"))?;
    let value = found.filter(|value| !value.is_null()).ok_or_else(missing)?.clone();
    match &source.options {
        Some(options) if !options.delimiter.is_empty() => part_of(value, options),
        _ => Ok(value),
    }
}

fn source_object<'r>(source: &SourceSelector, resources: &'r Resources) -> Result<&'r Resource> {
    let any_or = |pattern: &str, value: &str| pattern.is_empty() || pattern == value;
    let selects = |id: &ResId| {
        any_or(&source.kind, &id.gvk.kind)
            && any_or(&source.group, &id.gvk.group)
            && any_or(&source.version, &id.gvk.version)
            && any_or(&source.name, &id.name)
            && (source.namespace.is_empty() || source.namespace == id.effective_namespace())
    };
    let mut found = resources
        .iter()
        .filter(|resource| selects(resource.id()) || resource.previous_ids().any(|id| selects(&id)));
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => {
            Err(Error::new(format!("multiple matches for selector {}", source_text(source))))
        }
        (None, _) => Err(Error::new(format!("nothing selected by {}", source_text(source)))),
    }
}

fn source_id(source: &SourceSelector) -> String {
    let gvk = GvkPattern {
        group: source.group.clone(),
        version: source.version.clone(),
        kind: source.kind.clone(),
    };
    let or = |text: &str, absent: &str| if text.is_empty() { absent.to_owned() } else { text.to_owned() };
    format!("{gvk}/{}.{}", or(&source.name, "[noName]"), or(&source.namespace, "[noNs]"))
}

fn source_text(source: &SourceSelector) -> String {
    let mut text = source_id(source);
    if !source.field_path.is_empty() {
        text.push_str(&format!(":{}", source.field_path));
    }
    if let Some(options) = &source.options {
        let FieldOptions { delimiter, index, create, .. } = options;
        if !delimiter.is_empty() || *create {
            text.push_str(&format!(":{delimiter}({index}), create={create}"));
        }
    }
    text
}

fn part_of(mut value: Node, options: &FieldOptions) -> Result<Node> {
    let Some(scalar) = value.scalar_mut() else {
        return Err(Error::new("delimiter option can only be used with scalar nodes"));
    };
    let parts: Vec<&str> = scalar.text.split(&options.delimiter).collect();
    let part = usize::try_from(options.index).ok().and_then(|index| parts.get(index));
    let Some(part) = part else {
        return Err(Error::new(format!(
            "options.index {} is out of bounds for value {}",
            options.index, scalar.text
        )));
    };
    scalar.text = (*part).to_owned();
    Ok(value)
}

fn copy_to(schema: &Schema, target: &TargetSelector, value: &Node, resources: &mut Resources) -> Result<()> {
    let Some(select) = &target.select else {
        return Err(Error::new("target must specify resources to select"));
    };
    let select = selector(select)?;
    let reject = target.reject.iter().filter(|reject| **reject != kustomization::Selector::default());
    let reject: Vec<Selector> = reject.map(selector).collect::<Result<_>>()?;
    let default = [DEFAULT_FIELD.to_owned()];
    let paths = if target.field_paths.is_empty() { &default[..] } else { &target.field_paths };
    let options = target.options.clone().unwrap_or_default();
    for at in select.select_any(resources) {
        let Some(resource) = resources.get(at) else { continue };
        if reject.iter().any(|reject| reject.selects_any(resource)) {
            continue;
        }
        let Some(resource) = resources.get_mut(at) else { continue };
        for path in paths {
            copy_into(&mut resource.node, path, value, &options)?;
        }
        let before = resource.id().clone();
        resource.refresh(schema);
        if *resource.id() != before {
            resources.changed();
        }
    }
    Ok(())
}

/// What is wrong with labels shows only where they are compared, without the
/// words for the rest.
fn selector(args: &kustomization::Selector) -> Result<Selector> {
    let patterns = kustomization::Selector {
        label_selector: String::new(),
        annotation_selector: String::new(),
        ..args.clone()
    };
    Selector::new(&patterns).map_err(|error| error.within("error creating target selector"))?;
    Selector::new(args)
}

fn copy_into(node: &mut Node, path: &str, value: &Node, options: &FieldOptions) -> Result<()> {
    // One dot before all means nothing.
    let path_within = path.strip_prefix('.').unwrap_or(path);
    let segments = if path.is_empty() { Vec::new() } else { split_path(path_within) };
    if segments.is_empty() && !node.is_sequence() && value.scalar().is_some() {
        let problem = "unable to find field \"\" in replacement target";
        return Err(wrong_kind("ScalarNode", node).within(problem));
    }
    let create = options.create.then_some(value);
    let mut count = 0;
    let mut set = |field: &mut Node, held: Held| {
        count += 1;
        match held {
            Held::Object => set_field(field, value, options),
            // Parts are not looked for in there.
            Held::Text => set_field(field, value, &FieldOptions::default()),
        }
    };
    let reached = walk(node, Held::Object, &segments, create, &mut set);
    let shown = sternpost_golang::strconv::go_quote(path);
    let problem = if options.create {
        format!("unable to find or create field {shown} in replacement target")
    } else {
        format!("unable to find field {shown} in replacement target")
    };
    match reached {
        Err(Stop::Path(error)) => Err(error.within(problem)),
        Err(Stop::Value(error)) => Err(error),
        Ok(()) if count == 0 => Err(Error::new(problem)),
        Ok(()) => Ok(()),
    }
}

fn set_field(field: &mut Node, value: &Node, options: &FieldOptions) -> Result<()> {
    let mut value = value.clone();
    if !options.delimiter.is_empty() {
        let (Some(old), Some(new)) = (field.scalar(), value.scalar_mut()) else {
            return Err(Error::new("delimiter option can only be used with scalar nodes"));
        };
        let mut parts: Vec<&str> = old.text.split(&options.delimiter).collect();
        let text = std::mem::take(&mut new.text);
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, &text),
            Ok(index) => match parts.get_mut(index) {
                Some(part) => *part = &text,
                None => parts.push(&text),
            },
        }
        let joined = parts.join(&options.delimiter);
        new.text = joined;
    }
    field.source = value.source;
    // Only the text of a scalar is set; what type it has is the field's matter.
    match (&mut field.content, value.content) {
        (Content::Scalar(old), Content::Scalar(new)) if *old == made_scalar() => {
            *old = Scalar::plain(new.text);
        }
        (Content::Scalar(old), Content::Scalar(new)) => old.text = new.text,
        // As if a collection were a scalar without text.
        (Content::Scalar(old), _) => old.text.clear(),
        (old, new) => *old = new,
    }
    Ok(())
}

/// What a field is in: the object, or a text in it that is YAML itself.
#[derive(Clone, Copy)]
enum Held {
    Object,
    Text,
}

type Set<'s> = dyn FnMut(&mut Node, Held) -> Result<()> + 's;

/// Why a walk ended: the path does not fit, or the value cannot be set.
enum Stop {
    Path(Error),
    Value(Error),
}

fn walk(
    node: &mut Node,
    held: Held,
    path: &[String],
    create: Option<&Node>,
    set: &mut Set<'_>,
) -> std::result::Result<(), Stop> {
    let Some((segment, rest)) = path.split_first() else { return set(node, held).map_err(Stop::Value) };
    if segment.is_empty() && node.is_mapping() {
        return Err(Stop::Path(wrong_kind("ScalarNode", node)));
    }
    if segment.is_empty() && node.scalar().is_some() {
        return Ok(());
    }
    if segment == "*" {
        return match &mut node.content {
            Content::Sequence(items) => {
                items.iter_mut().try_for_each(|item| walk(item, held, rest, create, set))
            }
            _ => Err(Stop::Path(wrong_kind("SequenceNode", node))),
        };
    }
    if let Some((key, value)) = list_condition(segment) {
        return walk_elements(node, held, key, value, rest, create, set);
    }
    if let Ok(index) = segment.parse::<usize>()
        && let Content::Sequence(items) = &mut node.content
    {
        if index == items.len()
            && let Some(value) = create
        {
            items.push(created(rest, value));
        }
        let length = items.len();
        return match items.get_mut(index) {
            Some(item) => walk(item, held, rest, create, set),
            None => Err(Stop::Path(Error::new(format!(
                "index {index} specified but only {length} elements found"
            )))),
        };
    }
    if let Some(inner) = structured(node).map_err(Stop::Path)? {
        return inner.change(node, path, create, set);
    }
    if !node.is_mapping() {
        return Err(Stop::Path(wrong_kind("MappingNode", node)));
    }
    if node.get(segment).is_none_or(Node::is_null)
        && let Some(value) = create
    {
        node.set(segment, created(rest, value));
    }
    match node.get_mut(segment) {
        Some(child) if !child.is_null() || rest.is_empty() => walk(child, held, rest, create, set),
        _ => Ok(()),
    }
}

/// `[key=value]`: elements whose field, or which themselves, match.
fn list_condition(segment: &str) -> Option<(&str, &str)> {
    segment.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
}

fn walk_elements(
    node: &mut Node,
    held: Held,
    key: &str,
    value: &str,
    rest: &[String],
    create: Option<&Node>,
    set: &mut Set<'_>,
) -> std::result::Result<(), Stop> {
    let Content::Sequence(items) = &mut node.content else {
        return Err(Stop::Path(wrong_kind("SequenceNode", node)));
    };
    let pattern: Regex = crate::selector::regex(value).map_err(Stop::Path)?;
    let matches = |item: &Node| {
        let field = if key.is_empty() { Some(item) } else { item.get(key) };
        field.and_then(Node::as_text).is_some_and(|text| pattern.is_match(text))
    };
    let mut found = false;
    for item in items.iter_mut().filter(|item| matches(item)) {
        found = true;
        walk(item, held, rest, create, set)?;
    }
    if found || create.is_none() {
        return Ok(());
    }
    let mut item = if key.is_empty() { Node::string(value) } else { Node::mapping() };
    item.set(key, Node::string(value));
    items.push(item);
    match items.last_mut() {
        Some(item) => walk(item, held, rest, create, set),
        None => Ok(()),
    }
}

/// What is made where a path goes on to nothing.
fn created(rest: &[String], value: &Node) -> Node {
    match rest.first() {
        Some(next) if list_condition(next).is_some() || next.parse::<usize>().is_ok() => Node::sequence(),
        Some(_) => Node::mapping(),
        None => match &value.content {
            Content::Scalar(_) => made_scalar().into(),
            Content::Sequence(_) => Node::sequence(),
            Content::Mapping(_) => Node::mapping(),
        },
    }
}

/// A scalar that is made for a value takes its type from the value's text.
fn made_scalar() -> Scalar {
    Scalar { style: Style::Plain, ..Scalar::plain("") }
}

/// A text that holds JSON or YAML, into which a path may go on.
struct Structured {
    inner: Node,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    CompactJson,
    PrettyJson,
    Yaml,
}

fn structured(node: &Node) -> Result<Option<Structured>> {
    let Some(text) = node.as_text() else { return Ok(None) };
    let trimmed = text.trim_start();
    let json = trimmed.starts_with('{') || trimmed.starts_with('[');
    if !json && !text.contains(':') && !text.contains("- ") {
        return Ok(None);
    }
    let inner = sternpost_yaml::node::read_node(text)
        .map_err(|error| Error::new(format!("yaml: {}", in_one_line(text, error.upstream))))?;
    let Some(inner) = inner.filter(|inner| inner.scalar().is_none()) else { return Ok(None) };
    let form = match (json, text.contains('\n')) {
        (true, true) => Form::PrettyJson,
        (true, false) => Form::CompactJson,
        _ => Form::Yaml,
    };
    Ok(Some(Structured { inner, form }))
}

/// The place of a mistake is told for a text of one line, too.
fn in_one_line(text: &str, problem: String) -> String {
    if text.contains('\n') || problem.starts_with("line ") { problem } else { format!("line 1: {problem}") }
}

impl Structured {
    fn change(
        mut self,
        node: &mut Node,
        path: &[String],
        create: Option<&Node>,
        set: &mut Set<'_>,
    ) -> std::result::Result<(), Stop> {
        walk(&mut self.inner, Held::Text, path, create, set)?;
        let value = self.inner.to_json().map_err(|error| Stop::Value(Error::new(error.to_string())))?;
        let text = match self.form {
            Form::CompactJson => value.to_string(),
            Form::PrettyJson => serde_json::to_string_pretty(&value).unwrap_or_default(),
            Form::Yaml => crate::merge::contents(&self.inner).trim_end_matches('\n').to_owned(),
        };
        if let Some(scalar) = node.scalar_mut() {
            scalar.text = text;
        }
        Ok(())
    }
}

fn look_up<'n>(node: &'n Node, path: &[String]) -> Result<Option<&'n Node>> {
    let Some((segment, rest)) = path.split_first() else { return Ok(Some(node)) };
    let listed = segment.starts_with('[') && segment.ends_with(']');
    let next = if segment == "*" {
        return Err(Error::new("wildcard is not supported in PathGetter"));
    } else if let Some((key, value)) = list_condition(segment) {
        node.items().iter().find(|item| {
            let field = if key.is_empty() { Some(*item) } else { item.get(key) };
            field.and_then(Node::as_text) == Some(value)
        })
    } else if listed {
        return Err(Error::new("list path element must contain fieldName=fieldValue for element to match"));
    } else if let (Content::Sequence(items), Ok(index)) = (&node.content, segment.parse::<usize>()) {
        items.get(index)
    } else if let (Content::Sequence(items), "-") = (&node.content, segment.as_str()) {
        items.last()
    } else if node.is_mapping() {
        node.get(segment)
    } else {
        return Err(wrong_kind("MappingNode", node));
    };
    match next {
        Some(next) => look_up(next, rest),
        None => Ok(None),
    }
}

/// At dots that neither a backslash nor brackets take the meaning from.
fn split_path(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut segment = String::new();
    let mut in_brackets = false;
    let mut rest = path.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\\' if rest.peek() == Some(&'.') => segment.extend(rest.next()),
            '[' => {
                in_brackets = true;
                segment.push(char);
            }
            ']' => {
                in_brackets = false;
                segment.push(char);
            }
            '.' if !in_brackets => segments.push(std::mem::take(&mut segment)),
            char => segment.push(char),
        }
    }
    segments.push(segment);
    segments.into_iter().map(plain_key).collect()
}

/// `[a.b]` without `=` is a key with dots in it.
fn plain_key(segment: String) -> String {
    let key = segment.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    match key.filter(|key| !key.contains('=') && key.parse::<usize>().is_err()) {
        Some(key) => key.to_owned(),
        None => segment,
    }
}

impl Selector {
    /// By any id that an object has or had.
    fn selects_any(&self, resource: &Resource) -> bool {
        self.selects_metadata(resource)
            && (self.selects_id(resource.id()) || resource.previous_ids().any(|id| self.selects_id(&id)))
    }

    fn select_any(&self, resources: &Resources) -> Vec<usize> {
        let selected = |(at, resource): (usize, &Resource)| self.selects_any(resource).then_some(at);
        resources.iter().enumerate().filter_map(selected).collect()
    }
}
