//! The objects in a file: cut into documents, lists taken apart, each with a
//! kind and a name.

use sternpost_yaml::Problem;
use sternpost_yaml::node::{Content, Node, read_node};

use crate::error::{Cause, Error, Result};
use crate::resource::Resource;
use crate::schema::Schema;
use crate::why::Text;

/// The text of a file of objects, as a YAML reader takes it.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String> {
    let wide = |decode: fn([u8; 2]) -> u16, bytes: &[u8]| {
        let units = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok().map(decode));
        char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes.as_slice() {
        [0xFF, 0xFE, text @ ..] => return Ok(wide(u16::from_le_bytes, text)),
        [0xFE, 0xFF, text @ ..] => return Ok(wide(u16::from_be_bytes, text)),
        _ => {}
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error();
        let bytes = error.as_bytes();
        let leading = bytes.get(valid.valid_up_to()).copied().unwrap_or_default();
        let problem = match (leading, valid.error_len()) {
            (_, None) => "incomplete UTF-8 octet sequence",
            (0x80..=0xBF | 0xF8.., _) => "invalid leading UTF-8 octet",
            _ => "invalid trailing UTF-8 octet",
        };
        let before = bytes.get(..valid.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Error::caused(Cause::MalformedYaml, format!("yaml: {problem}"))
            .with_hint(format!("{line}:{column}: {problem}"))
    })
}

/// Objects in the order of the text; those of a list come after all others.
pub(crate) fn read(schema: &Schema, text: &str) -> Result<Vec<Resource>> {
    read_from(schema, text, None)
}

/// The same with the places of what is read, if somebody asks for them.
pub(crate) fn read_from(schema: &Schema, text: &str, source: Option<&Text>) -> Result<Vec<Resource>> {
    let nodes = objects(nodes_from(text, source)?)?;
    nodes.into_iter().map(|node| Resource::new(schema, node)).collect()
}

/// The documents of a text that are not empty.
pub(crate) fn nodes(text: &str) -> Result<Vec<Node>> {
    nodes_from(text, None)
}

fn nodes_from(text: &str, source: Option<&Text>) -> Result<Vec<Node>> {
    let text =
        if text.contains('\r') { text.replace("\r\n", "\n").into() } else { std::borrow::Cow::from(text) };
    let mut nodes = Vec::new();
    for (line, document) in split(&text)? {
        let node = read_node(document).map_err(|error| {
            // Upstream finds these only after reading.
            if matches!(error.error.problem, Problem::MergeNeedsMapping | Problem::MergeTwice) {
                return Error::new(error.upstream);
            }
            let place = format!("{}:{}", error.error.line + line, error.error.column);
            Error::caused(Cause::MalformedYaml, format!("yaml: {}", error.upstream))
                .with_hint(format!("{place}: {}", error.error.problem))
        })?;
        let mut node = node.filter(|node| !is_nothing(node));
        // Blank lines before all count only for mistakes of syntax.
        let blank = blank_lines(document);
        if let Some(node) = node.as_mut().filter(|_| blank > 0) {
            raise(node, u32::try_from(blank).unwrap_or(u32::MAX));
        }
        if let (Some(node), Some(source)) = (&mut node, source) {
            source.mark(node, line + blank);
        }
        nodes.extend(node);
    }
    Ok(nodes)
}

fn blank_lines(text: &str) -> usize {
    let content = text.trim_start_matches([' ', '\t', '\n']);
    text.strip_suffix(content).unwrap_or_default().matches('\n').count()
}

fn raise(node: &mut Node, lines: u32) {
    node.line = node.line.saturating_sub(lines);
    match &mut node.content {
        Content::Scalar(_) => {}
        Content::Sequence(items) => items.iter_mut().for_each(|item| raise(item, lines)),
        Content::Mapping(pairs) => {
            for (key, value) in pairs {
                raise(key, lines);
                raise(value, lines);
            }
        }
    }
}

pub(crate) fn is_nothing(node: &Node) -> bool {
    node.is_null() || (node.is_mapping() && node.pairs().is_empty())
}

const SEPARATOR: &str = "\n---";

/// At lines that start with `---`. The rest of such a line may hold a comment
/// and nothing else. Each comes with the number of lines before it.
pub(crate) fn split(text: &str) -> Result<Vec<(usize, &str)>> {
    let mut documents = Vec::new();
    let mut rest = text;
    let mut lines = 0;
    while let Some(at) = rest.find(SEPARATOR) {
        // The line break is the document's.
        let (document, after) = rest.split_at_checked(at + 1).unwrap_or((rest, ""));
        documents.push((lines, document));
        lines += document.matches('\n').count();
        let after = after.get(SEPARATOR.len() - 1..).unwrap_or_default();
        let line_end = after.find('\n').unwrap_or(after.len());
        let (line, next) = after.split_at_checked(line_end).unwrap_or((after, ""));
        let content = line.trim_start_matches([' ', '\t']);
        if !content.is_empty() && !content.starts_with('#') {
            return Err(Error::new(format!("invalid document separator: ---{line}")));
        }
        // The break stays where it is the start of the next separator.
        rest = match next.strip_prefix('\n') {
            Some(below) if !next.starts_with(SEPARATOR) => {
                lines += 1;
                below
            }
            _ => next,
        };
    }
    documents.push((lines, rest));
    Ok(documents)
}

/// Takes lists apart and looks at what each object must have.
pub(crate) fn objects(nodes: Vec<Node>) -> Result<Vec<Node>> {
    let mut objects = Vec::with_capacity(nodes.len());
    let mut queue: std::collections::VecDeque<Node> = nodes.into();
    while let Some(mut node) = queue.pop_front() {
        if is_nothing(&node) {
            continue;
        }
        validate(&node)?;
        let kind = node.get("kind").and_then(Node::as_text).unwrap_or_default();
        if !kind.ends_with("List") || node.get("items").is_none() {
            if node.get("metadata").is_none() {
                node.set("metadata", Node::mapping());
            }
            objects.push(node);
            continue;
        }
        let kind = kind.to_owned();
        match node.remove("items").map(|items| items.content) {
            Some(Content::Sequence(items)) => queue.extend(items),
            Some(Content::Mapping(_)) => {
                return Err(Error::new(format!(
                    "expected array in {kind}/items, but found map[string]interface {{}}"
                )));
            }
            Some(Content::Scalar(scalar)) if !Node::from(scalar.clone()).is_null() => {
                let found = if scalar.is_string() { "string" } else { "int" };
                return Err(Error::new(format!("expected array in {kind}/items, but found {found}")));
            }
            _ => {}
        }
    }
    Ok(objects)
}

/// What every object must have.
pub(crate) fn validate(node: &Node) -> Result<()> {
    if !node.is_mapping() {
        return Err(Error::new("missing Resource metadata"));
    }
    let text = |path: &[&str]| {
        let found = node.at(path).filter(|found| !found.is_null());
        found.and_then(Node::as_text).unwrap_or_default()
    };
    if ["apiVersion", "kind", "metadata"].iter().all(|field| node.get(field).is_none_or(Node::is_null)) {
        return Err(Error::new("missing Resource metadata"));
    }
    let kind = text(&["kind"]);
    let name = text(&["metadata", "name"]);
    let missing = match (kind, name) {
        ("", _) => "kind",
        (kind, "") if !kind.ends_with("List") => "metadata.name",
        _ => return Ok(()),
    };
    Err(Error::new(format!(
        "missing {missing} in object {{{{{} {kind}}} {{{{{name} {}}} {} {}}}}}",
        text(&["apiVersion"]),
        text(&["metadata", "namespace"]),
        go_map(node.at(&["metadata", "labels"])),
        go_map(node.at(&["metadata", "annotations"])),
    )))
}

/// As Go prints a map of text.
fn go_map(node: Option<&Node>) -> String {
    let mut pairs: Vec<String> = node
        .map(Node::pairs)
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| {
            format!("{}:{}", key.as_text().unwrap_or_default(), value.as_text().unwrap_or_default())
        })
        .collect();
    pairs.sort();
    format!("map[{}]", pairs.join(" "))
}
