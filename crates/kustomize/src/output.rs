//! The last steps: what is left out, and the bytes.

use serde_json::Value;
use sternpost_yaml::node::{Content, JsonError, Node, Scalar, Tag};

use crate::build::BuildMetadata;
use crate::error::{Error, Result};
use crate::id::ResId;
use crate::resource::{Origin, Resource};
use crate::resources::Resources;
use crate::why::{self, Cause, Field, Why};
use sternpost_golang::strconv::go_quote;

const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";
const ORIGIN: &str = "config.kubernetes.io/origin";
const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// An object as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub id: ResId,
    /// With its final line break, without a separator.
    pub yaml: String,
    /// Who wrote which field, in the order of the text; empty unless
    /// [`crate::Options::why`] asks for it.
    pub why: Vec<Field>,
    /// What it was called before, known under the same condition.
    pub names: Vec<String>,
}

/// Objects that only configure the build itself are not written.
pub(crate) fn drop_local(resources: &mut Resources) {
    let local = |resource: &Resource| resource.annotation(LOCAL_CONFIG).is_some_and(|value| value != "false");
    if resources.iter().any(local) {
        resources.all_mut().retain(|resource| !local(resource));
    }
}

pub(crate) fn write(
    resources: Resources,
    metadata: BuildMetadata,
    why: Option<(&Why, Cause)>,
) -> Result<Vec<Written>> {
    let write = |resource: Resource| {
        let mut resource = annotated(resource, metadata);
        let value = resource.node.to_json().map_err(|error| not_json(&resource.node, &error))?;
        let (mut fields, mut names) = (Vec::new(), Vec::new());
        if let Some((why, cause)) = why {
            why.settle(&mut resource, cause);
            fields = why::fields(why, &resource.node, &value);
            names = resource.previous_names().map(str::to_owned).collect();
        }
        Ok(Written { yaml: sternpost_yaml::write(&value), id: resource.id().clone(), why: fields, names })
    };
    resources.into_list().into_iter().map(write).collect()
}

fn annotated(mut resource: Resource, metadata: BuildMetadata) -> Resource {
    resource.remove_annotation(ORIGIN);
    resource.remove_annotation(TRANSFORMATIONS);
    if let Some(origin) = resource.origin.take().filter(|_| metadata.origins) {
        resource.set_annotation(ORIGIN, &origin.yaml(""));
    }
    if metadata.transformations && !resource.transformations.is_empty() {
        let list: String =
            resource.transformations.iter().map(|origin| format!("- {}", origin.yaml("  "))).collect();
        resource.set_annotation(TRANSFORMATIONS, &list);
    }
    resource.settle_annotations();
    resource
}

impl Origin {
    /// A line a field that is set; all but the first are indented.
    fn yaml(&self, indent: &str) -> String {
        let mut lines = Vec::new();
        let mut line = |prefix: &str, name: &str, value: &str| {
            if !value.is_empty() {
                let value = sternpost_yaml::write(&Value::from(value));
                lines.push(format!("{prefix}{name}: {value}"));
            }
        };
        line("", "path", &self.path);
        line("", "repo", &self.repo);
        line("", "ref", &self.reference);
        line("", "configuredIn", &self.configured_in);
        if let Some(by) = &self.configured_by {
            lines.push("configuredBy:\n".to_owned());
            let mut line = |name: &str, value: &str| {
                if !value.is_empty() {
                    let value = sternpost_yaml::write(&Value::from(value));
                    lines.push(format!("  {name}: {value}"));
                }
            };
            line("apiVersion", &by.api_version);
            line("kind", &by.kind);
            line("name", &by.name);
            line("namespace", &by.namespace);
        }
        lines.join(indent)
    }
}

fn not_json(node: &Node, error: &JsonError) -> Error {
    match error {
        JsonError::KeyNotText | JsonError::NotFinite(_) => {
            Error::new(format!("{}: json: {error}", go_syntax(node, Root::Yes)))
        }
        JsonError::Control => Error::new(format!("{}: yaml: {error}", go_syntax(node, Root::Yes))),
        JsonError::CollectionKey(_) => {
            let key = collection_key(node).map(|key| go_syntax(key, Root::No)).unwrap_or_default();
            Error::new(format!("map[string]interface {{}}(nil): yaml: invalid map key: {key}"))
        }
        error => Error::new(format!("map[string]interface {{}}(nil): yaml: {error}")),
    }
}

/// The first key that is no scalar.
fn collection_key(node: &Node) -> Option<&Node> {
    match &node.content {
        Content::Scalar(_) => None,
        Content::Sequence(items) => items.iter().find_map(collection_key),
        Content::Mapping(pairs) => pairs
            .iter()
            .find_map(|(key, value)| if key.scalar().is_none() { Some(key) } else { collection_key(value) }),
    }
}

/// As Go prints a moment in UTC.
fn go_time(rfc3339: &str) -> Option<String> {
    let number = |range: std::ops::Range<usize>| rfc3339.get(range)?.parse::<usize>().ok();
    let month = MONTHS.get(number(5..7)?.checked_sub(1)?)?;
    let (year, day) = (number(0..4)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    Some(format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, 0, time.UTC)"))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Yes,
    No,
}

/// As Go prints a decoded value, keys sorted: those that are null first, then
/// text, then the others.
fn go_syntax(node: &Node, root: Root) -> String {
    match &node.content {
        Content::Scalar(scalar) => match scalar.tag {
            _ if scalar.is_string() => go_quote(&scalar.text),
            Tag::Null => "interface {}(nil)".to_owned(),
            _ => match node.to_json() {
                Ok(Value::String(text)) if scalar.tag == Tag::Timestamp => {
                    go_time(&text).unwrap_or_else(|| go_quote(&text))
                }
                Ok(Value::String(text)) => go_quote(&text),
                Ok(value) => value.to_string(),
                Err(JsonError::NotFinite(name)) => name.to_owned(),
                Err(_) => scalar.text.clone(),
            },
        },
        Content::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|item| go_syntax(item, Root::No)).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Content::Mapping(pairs) => {
            let is_text = |key: &Node| key.scalar().is_some_and(Scalar::is_string);
            let texts = root == Root::Yes || pairs.iter().all(|(key, _)| is_text(key));
            let mut pairs: Vec<&(Node, Node)> = pairs.iter().collect();
            pairs.sort_by_key(|(key, _)| (!key.is_null(), !is_text(key), key.as_text()));
            let pair = |(key, value): &&(Node, Node)| {
                let key = match key.as_text() {
                    Some(text) if texts => go_quote(text),
                    _ => go_syntax(key, Root::No),
                };
                format!("{key}:{}", go_syntax(value, Root::No))
            };
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            let keys = if texts { "string" } else { "interface {}" };
            format!("map[{keys}]interface {{}}{{{}}}", pairs.join(", "))
        }
    }
}
