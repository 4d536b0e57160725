//! Trees that keep how a scalar was written, read by yaml.v3's rules, for
//! callers that change a document before they write it.
//!
//! Anchors and merges are expanded while reading: a key of the mapping itself
//! wins over a merged one, and of several merged mappings the first.

use std::borrow::Cow;

use libyaml_safer::ScalarStyle;
use serde_json::{Map, Value};

use crate::error::{Error, Problem};
use crate::parse::{self, Parser};
use crate::scalar::{self, Resolved};
use crate::{decode, number, timestamp};
use sternpost_golang::strconv::go_quote;

/// How many nodes aliases may copy in one document.
pub const MAX_ALIASED_NODES: usize = 1_000_000;

const MERGE_KEY: &str = "<<";

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Counted from 1; 0 for a node that no text holds.
    pub line: u32,
    pub column: u32,
    /// What a caller knows this node by: 0 until one sets it, and then carried
    /// along wherever the node is moved or copied to.
    pub source: u32,
    /// Whether a collection was written with brackets or braces.
    pub flow: bool,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    /// In document order; keys may repeat, as only [`Node::to_json`] minds.
    Mapping(Vec<(Node, Node)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    pub text: String,
    pub tag: Tag,
    pub style: Style,
    /// Whether the tag was written, and so is more than what the text says.
    pub tagged: bool,
}

/// The type that a scalar was read as or set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Timestamp,
    Binary,
    Other(Box<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

/// One step into a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'n> {
    Key(&'n str),
    Index(usize),
}

/// What a step leads to.
#[derive(Debug, Clone, Copy)]
pub struct Found<'n> {
    pub step: Step<'n>,
    /// Where it is written: the key, or the element.
    pub place: &'n Node,
    pub value: &'n Node,
}

/// Which element `[7]` or `[name="web",port=80]` means, and what stands behind.
fn element_of<'p>(items: &[Node], path: &'p str) -> Option<(usize, &'p str)> {
    let (inside, rest) = path.strip_prefix('[')?.split_once(']')?;
    if let Ok(index) = inside.parse() {
        return Some((index, rest));
    }
    let has = |item: &Node, pair: &str| {
        let Some((key, wanted)) = pair.split_once('=') else { return false };
        item.get(key).and_then(Node::scalar).is_some_and(|scalar| scalar.text == wanted.trim_matches('"'))
    };
    let index = items.iter().position(|item| inside.split(',').all(|pair| has(item, pair)))?;
    Some((index, rest))
}

/// What stands behind a key, as `key` or `[key]`.
fn after_key<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if let Some(rest) = path.strip_prefix('[').and_then(|path| path.strip_prefix(key)) {
        return rest.strip_prefix(']');
    }
    let rest = path.strip_prefix(key)?;
    (!key.is_empty() && (rest.is_empty() || rest.starts_with(['.', '[']))).then_some(rest)
}

/// Why a text could not be read: our words with the place, and go-yaml's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ReadError {
    pub error: Error,
    /// As yaml.v3 words it, without its `yaml: `.
    pub upstream: String,
}

/// What keeps a tree from being JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// One message a key, in document order.
    #[error("unmarshal errors:\n  {}", .0.join("\n  "))]
    Repeated(Vec<String>),
    #[error("cannot decode {found} `{text}` as a {wanted}")]
    Mismatch { found: &'static str, text: String, wanted: String },
    #[error("invalid map key: {0}")]
    CollectionKey(String),
    #[error("!!binary value contains invalid base64 data")]
    Binary,
    /// A mapping below the root with a key that is not text.
    #[error("unsupported type: map[interface {{}}]interface {{}}")]
    KeyNotText,
    #[error("unsupported value: {0}")]
    NotFinite(&'static str),
    /// A character that JSON writes as it is and YAML does not allow.
    #[error("control characters are not allowed")]
    Control,
}

/// Reads the first document, or `None` if there is none.
pub fn read_node(text: &str) -> Result<Option<Node>, ReadError> {
    let plain = |error: Error| ReadError { upstream: upstream_words(&error.problem), error };
    if text.strip_prefix("%YAML ").is_some_and(|version| !version.starts_with("1.1")) {
        let problem = "found incompatible YAML document".to_owned();
        let error = Error { line: 1, column: 1, problem: Problem::Syntax(problem.clone()) };
        return Err(ReadError { error, upstream: problem });
    }
    let mut parser = Parser::new(text).map_err(plain)?;
    let root = parser.next_document();
    let root = root.map_err(|error| match parser.stopped {
        Some(parse::Stopped { line: 0, problem }) => ReadError { error, upstream: problem.to_owned() },
        Some(parse::Stopped { line, problem }) => {
            ReadError { error, upstream: format!("line {line}: {problem}") }
        }
        None => plain(error),
    })?;
    if let Some(line) = parser.escaped_slash {
        let problem = "found unknown escape character";
        let place = usize::try_from(line).unwrap_or(usize::MAX);
        let error = Error { line: place, column: 1, problem: Problem::Syntax(problem.to_owned()) };
        return Err(ReadError { error, upstream: format!("line {line}: {problem}") });
    }
    let Some(root) = root else { return Ok(None) };
    Expansion::default().node(&root).map(Some).map_err(plain)
}

/// Reads every document up to one that cannot be read. Those that are `null` are skipped.
pub fn read_nodes(text: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let Ok(mut parser) = Parser::new(text) else { return nodes };
    while let Ok(Some(root)) = parser.next_document() {
        match Expansion::default().node(&root) {
            Ok(node) if node.is_null() => {}
            Ok(node) => nodes.push(node),
            Err(_) => break,
        }
    }
    nodes
}

fn upstream_words(problem: &Problem) -> String {
    match problem {
        Problem::UnknownAnchor(name) => format!("unknown anchor '{name}' referenced"),
        Problem::RecursiveAnchor(name) => format!("anchor '{name}' value contains itself"),
        Problem::MergeNeedsMapping => "map merge requires map or sequence of maps as the value".to_owned(),
        Problem::MergeTwice => "duplicate merge key".to_owned(),
        problem => problem.to_string(),
    }
}

#[derive(Default)]
struct Expansion {
    open_aliases: u32,
    aliased_nodes: usize,
    aliased_bytes: usize,
}

impl Expansion {
    fn node(&mut self, node: &parse::Node) -> Result<Node, Error> {
        if self.open_aliases > 0 {
            self.aliased_nodes += 1;
            if self.aliased_nodes > MAX_ALIASED_NODES {
                return Err(node.error(Problem::ExcessiveAliasing));
            }
        }
        let content = match &node.content {
            parse::Content::Scalar(scalar) => {
                if self.open_aliases > 0 {
                    self.aliased_bytes = self.aliased_bytes.saturating_add(scalar.text.len());
                    if self.aliased_bytes > decode::MAX_ALIASED_BYTES {
                        return Err(node.error(Problem::AliasedTextTooLong));
                    }
                }
                Content::Scalar(Scalar::read(scalar))
            }
            parse::Content::Sequence(items) => {
                Content::Sequence(items.iter().map(|item| self.node(item)).collect::<Result<_, _>>()?)
            }
            parse::Content::Mapping(pairs) => Content::Mapping(self.pairs(pairs)?),
            parse::Content::Alias(target) => return self.alias(target, Self::node),
        };
        let narrow = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let (line, column) = (narrow(node.line), narrow(node.column));
        Ok(Node { line, column, source: 0, flow: node.flow, content })
    }

    fn alias<T>(
        &mut self,
        target: &parse::Node,
        read: impl FnOnce(&mut Self, &parse::Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.open_aliases += 1;
        let value = read(self, target);
        self.open_aliases -= 1;
        value
    }

    fn pairs(
        &mut self,
        pairs: &[(std::rc::Rc<parse::Node>, std::rc::Rc<parse::Node>)],
    ) -> Result<Vec<(Node, Node)>, Error> {
        let mut own = Vec::with_capacity(pairs.len());
        let mut merged = Vec::new();
        let mut merges = false;
        for (key, value) in pairs {
            match &key.content {
                parse::Content::Scalar(text) if scalar::is_merge_key(text) => {
                    if std::mem::replace(&mut merges, true) {
                        return Err(key.error(Problem::MergeTwice));
                    }
                    self.merge(value, &mut merged)?;
                }
                // In quotes it merges nothing, and is lost all the same.
                parse::Content::Scalar(text) if text.text == MERGE_KEY && text.tag.is_none() => {}
                _ => own.push((self.node(key)?, self.node(value)?)),
            }
        }
        let mut known: std::collections::HashSet<String> = own.iter().map(|(key, _)| key.text()).collect();
        for (key, value) in merged {
            if known.insert(key.text()) {
                own.push((key, value));
            }
        }
        Ok(own)
    }

    fn merge(&mut self, value: &parse::Node, merged: &mut Vec<(Node, Node)>) -> Result<(), Error> {
        match &value.content {
            parse::Content::Alias(target) => self.alias(target, |this, target| this.merge(target, merged)),
            parse::Content::Mapping(pairs) => {
                merged.extend(self.pairs(pairs)?);
                Ok(())
            }
            parse::Content::Sequence(items) => items.iter().try_for_each(|item| self.merge(item, merged)),
            parse::Content::Scalar(_) => Err(value.error(Problem::MergeNeedsMapping)),
        }
    }
}

impl Scalar {
    /// Text that stays text, however it reads.
    pub fn string(text: impl Into<String>) -> Self {
        Self { text: text.into(), tag: Tag::Str, style: Style::Plain, tagged: false }
    }

    /// A text whose type is what a reader makes of it.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { tag: resolved_tag(&text), text, style: Style::Plain, tagged: false }
    }

    fn read(scalar: &parse::Scalar) -> Self {
        let style = match scalar.style {
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
            _ => Style::Plain,
        };
        let tag = match scalar.tag.as_deref() {
            None | Some("!") if scalar.implicit => resolved_tag(&scalar.text),
            None | Some("!") => Tag::Str,
            Some(tag) => match scalar::core_tag(tag) {
                Some("null") => Tag::Null,
                Some("bool") => Tag::Bool,
                Some("int") => Tag::Int,
                Some("float") => Tag::Float,
                Some("str") => Tag::Str,
                Some("timestamp") => Tag::Timestamp,
                Some("binary") => Tag::Binary,
                _ => Tag::Other(tag.into()),
            },
        };
        let tagged = scalar.tag.as_deref().is_some_and(|tag| tag != "!");
        Self { text: scalar.text.clone(), tag, style, tagged }
    }

    pub fn is_quoted(&self) -> bool {
        self.style != Style::Plain
    }

    /// Whether it is written, and so read again, as text.
    pub fn is_string(&self) -> bool {
        match self.tag {
            Tag::Str | Tag::Other(_) => true,
            // A tag that the text itself suggests is not written, and quotes
            // then make it text.
            _ => !self.tagged && self.is_quoted() && resolved_tag(&self.text) == self.tag,
        }
    }

    fn to_json(&self, in_flow: bool) -> Result<Value, JsonError> {
        let text = self.text.as_str();
        if self.is_string() {
            let folded = self.style == Style::Folded;
            return reread(if folded { refolded(text) } else { self.text.clone() }).map(Value::String);
        }
        let resolved = scalar::plain_v3(text);
        let mismatch = |wanted: &str| {
            let found = tag_name(&resolved_tag(text));
            Err(JsonError::Mismatch { found, text: text.to_owned(), wanted: wanted.to_owned() })
        };
        match self.tag {
            // Between braces nothing has to be written as something.
            Tag::Null if in_flow && text.is_empty() && !self.tagged => Ok(Value::String(String::new())),
            Tag::Null => match resolved {
                Some(Resolved::Null) => Ok(Value::Null),
                _ => mismatch("!!null"),
            },
            Tag::Bool => match resolved {
                Some(Resolved::Bool(value)) => Ok(value.into()),
                _ => mismatch("!!bool"),
            },
            Tag::Int => match resolved {
                Some(Resolved::Integer(value)) => Ok(number::integer_value(value)),
                _ => mismatch("!!int"),
            },
            Tag::Float => match resolved {
                Some(Resolved::Float(value)) => float(value),
                #[allow(clippy::cast_precision_loss)]
                Some(Resolved::Integer(value)) => float(value as f64),
                _ => mismatch("!!float"),
            },
            Tag::Timestamp => match timestamp::rfc3339(text) {
                // A colon has to be quoted between braces, and is text then.
                Some(_) if in_flow && text.contains(':') => Ok(Value::String(text.to_owned())),
                Some(time) => Ok(Value::String(time)),
                None => mismatch("!!timestamp"),
            },
            Tag::Binary => scalar::binary(text).map(Value::String).map_err(|_| JsonError::Binary),
            Tag::Str | Tag::Other(_) => Ok(Value::String(self.text.clone())),
        }
    }
}

/// A text after it was JSON that a YAML reader has read: NEL is a line break
/// to that, and line breaks in quotes are folded.
fn reread(text: String) -> Result<String, JsonError> {
    if text.is_ascii() && !text.contains('\u{7f}') {
        return Ok(text);
    }
    let forbidden =
        |char: char| char != NEXT_LINE && matches!(char, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(forbidden) {
        return Err(JsonError::Control);
    }
    if !text.contains(NEXT_LINE) {
        return Ok(text);
    }
    let mut lines = text.split(NEXT_LINE);
    let mut folded = lines.next().unwrap_or_default().trim_end_matches(' ').to_owned();
    let mut breaks = 0;
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        breaks += 1;
        let line = line.trim_start_matches(' ');
        let line = if lines.peek().is_some() { line.trim_end_matches(' ') } else { line };
        if line.is_empty() && lines.peek().is_some() {
            continue;
        }
        match breaks {
            1 => folded.push(' '),
            breaks => folded.extend(std::iter::repeat_n('\n', breaks - 1)),
        }
        breaks = 0;
        folded.push_str(line);
    }
    Ok(folded)
}

const NEXT_LINE: char = '\u{85}';

/// A folded scalar that yaml.v3 has written and read again: it has one line
/// break more before lines that are indented further, and at an end with
/// several.
fn refolded(text: &str) -> String {
    let mut refolded = String::with_capacity(text.len() + 1);
    let mut rest = text;
    let mut after_indented = false;
    while let Some(at) = rest.find('\n') {
        let (line, from_break) = rest.split_at_checked(at).unwrap_or((rest, ""));
        refolded.push_str(line);
        let next = from_break.trim_start_matches('\n');
        let breaks = from_break.len().saturating_sub(next.len());
        after_indented = if line.is_empty() { after_indented } else { line.starts_with(' ') };
        let extra = !after_indented && (next.starts_with(' ') || (next.is_empty() && breaks > 1));
        refolded.extend(std::iter::repeat_n('\n', breaks + usize::from(extra)));
        rest = next;
    }
    refolded.push_str(rest);
    refolded
}

/// What `encoding/json` and a YAML reader after it make of a float.
fn float(value: f64) -> Result<Value, JsonError> {
    if value.is_nan() {
        return Err(JsonError::NotFinite("NaN"));
    }
    if value.is_infinite() {
        return Err(JsonError::NotFinite(if value > 0.0 { "+Inf" } else { "-Inf" }));
    }
    // Minus zero is written `-0`, which reads as an integer.
    let value = if value == 0.0 { 0.0 } else { value };
    Ok(number::float_value(value).unwrap_or(Value::Null))
}

fn resolved_tag(text: &str) -> Tag {
    match scalar::plain_v3(text) {
        Some(Resolved::Null) => Tag::Null,
        Some(Resolved::Bool(_)) => Tag::Bool,
        Some(Resolved::Integer(_)) => Tag::Int,
        Some(Resolved::Float(_)) => Tag::Float,
        _ if text.starts_with(|char: char| char.is_ascii_digit()) && timestamp::is_timestamp(text) => {
            Tag::Timestamp
        }
        _ => Tag::Str,
    }
}

fn tag_name(tag: &Tag) -> &'static str {
    match tag {
        Tag::Null => "!!null",
        Tag::Bool => "!!bool",
        Tag::Int => "!!int",
        Tag::Float => "!!float",
        Tag::Timestamp => "!!timestamp",
        Tag::Binary => "!!binary",
        Tag::Str | Tag::Other(_) => "!!str",
    }
}

impl From<Content> for Node {
    fn from(content: Content) -> Self {
        Self { line: 0, column: 0, source: 0, flow: false, content }
    }
}

impl From<Scalar> for Node {
    fn from(scalar: Scalar) -> Self {
        Content::Scalar(scalar).into()
    }
}

impl Node {
    pub fn string(text: impl Into<String>) -> Self {
        Scalar::string(text).into()
    }

    pub fn null() -> Self {
        Scalar::plain("null").into()
    }

    pub fn mapping() -> Self {
        Content::Mapping(Vec::new()).into()
    }

    pub fn sequence() -> Self {
        Content::Sequence(Vec::new()).into()
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(Scalar { tag: Tag::Null, .. }))
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.content, Content::Mapping(_))
    }

    pub fn is_sequence(&self) -> bool {
        matches!(self.content, Content::Sequence(_))
    }

    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub fn scalar_mut(&mut self) -> Option<&mut Scalar> {
        match &mut self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text of a scalar, whatever its type.
    pub fn as_text(&self) -> Option<&str> {
        self.scalar().map(|scalar| scalar.text.as_str())
    }

    fn text(&self) -> String {
        self.as_text().unwrap_or_default().to_owned()
    }

    pub fn items(&self) -> &[Self] {
        match &self.content {
            Content::Sequence(items) => items,
            _ => &[],
        }
    }

    pub fn items_mut(&mut self) -> Option<&mut Vec<Self>> {
        match &mut self.content {
            Content::Sequence(items) => Some(items),
            _ => None,
        }
    }

    pub fn pairs(&self) -> &[(Self, Self)] {
        match &self.content {
            Content::Mapping(pairs) => pairs,
            _ => &[],
        }
    }

    pub fn pairs_mut(&mut self) -> Option<&mut Vec<(Self, Self)>> {
        match &mut self.content {
            Content::Mapping(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// The value of the first key of that text.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let pairs = self.pairs_mut()?;
        pairs.iter_mut().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    }

    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// What a path such as `spec.ports[0].name`, `spec.ports[name="web"]` or `metadata.labels[a.b/c]` leads through,
    /// as far as it is there. Keys may have dots in them.
    pub fn follow<'n>(&'n self, path: &str) -> Vec<Found<'n>> {
        let mut found: Vec<Found<'n>> = Vec::new();
        let mut rest = path;
        loop {
            let at = found.last().map_or(self, |found| found.value);
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let next = match &at.content {
                Content::Scalar(_) => None,
                Content::Sequence(items) => element_of(items, rest).and_then(|(index, rest)| {
                    let value = items.get(index)?;
                    Some((Found { step: Step::Index(index), place: value, value }, rest))
                }),
                Content::Mapping(pairs) => {
                    let known = pairs.iter().filter_map(|(key, value)| {
                        let text = key.as_text()?;
                        let rest = after_key(rest, text)?;
                        Some((Found { step: Step::Key(text), place: key, value }, rest))
                    });
                    known.min_by_key(|(_, rest)| rest.len())
                }
            };
            let Some((next, behind)) = next else { return found };
            found.push(next);
            rest = behind;
        }
    }

    /// Line and column of what a path leads to, or of what would hold it.
    pub fn place_of(&self, path: &str) -> (u32, u32) {
        let found = self.follow(path).pop().map_or(self, |found| found.place);
        (found.line, found.column)
    }

    /// Sets a key in place, or behind the others. A new key has the type that
    /// its text says, as with kustomize: `1` is a number. Nothing happens to
    /// what is not a mapping.
    pub fn set(&mut self, key: &str, value: Self) {
        if let Some(held) = self.get_mut(key) {
            *held = value;
        } else if let Some(pairs) = self.pairs_mut() {
            pairs.push((Scalar::plain(key).into(), value));
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Self> {
        let pairs = self.pairs_mut()?;
        let at = pairs.iter().position(|(name, _)| name.as_text() == Some(key))?;
        Some(pairs.remove(at).1)
    }

    /// The value under a key, which is made by `make` if it is not there.
    /// `None` if this is not a mapping.
    pub fn get_or_insert(&mut self, key: &str, make: impl FnOnce() -> Self) -> Option<&mut Self> {
        let pairs = self.pairs_mut()?;
        let at = match pairs.iter().position(|(name, _)| name.as_text() == Some(key)) {
            Some(at) => at,
            None => {
                pairs.push((Scalar::plain(key).into(), make()));
                pairs.len().saturating_sub(1)
            }
        };
        pairs.get_mut(at).map(|(_, value)| value)
    }

    /// The tree of a JSON value, its text unquoted where it may be.
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::null(),
            Value::Bool(value) => Scalar::plain(value.to_string()).into(),
            Value::Number(number) => Scalar::plain(crate::write::number_text(number)).into(),
            Value::String(text) => Self::string(text.clone()),
            Value::Array(items) => Content::Sequence(items.iter().map(Self::from_json).collect()).into(),
            Value::Object(object) => {
                let pair =
                    |(key, value): (&String, &Value)| (Self::string(key.clone()), Self::from_json(value));
                Content::Mapping(object.iter().map(pair).collect()).into()
            }
        }
    }

    /// What is left of the tree when its style is thrown away: the value that
    /// yaml.v3, `encoding/json` and a YAML 1.1 reader make of it in turn.
    pub fn to_json(&self) -> Result<Value, JsonError> {
        let mut repeated = Vec::new();
        self.repeated_keys(&mut repeated);
        if repeated.is_empty() { self.value(Keys::Any, false) } else { Err(JsonError::Repeated(repeated)) }
    }

    fn repeated_keys(&self, found: &mut Vec<String>) {
        match &self.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.iter().for_each(|item| item.repeated_keys(found)),
            Content::Mapping(pairs) => {
                let mut lines: std::collections::HashMap<&str, Vec<u32>> = std::collections::HashMap::new();
                // Small mappings, which nearly all are, need no set.
                let few = pairs.len() <= FEW_KEYS;
                let distinct = few
                    && pairs.iter().enumerate().all(|(at, pair)| {
                        let before = pairs.get(..at).unwrap_or_default();
                        !before.iter().any(|other| other.0.as_text() == pair.0.as_text())
                    });
                for (key, value) in pairs {
                    if let (false, Content::Scalar(scalar)) = (distinct, &key.content) {
                        let earlier = lines.entry(&scalar.text).or_default();
                        found.extend(earlier.iter().map(|first| {
                            let text = &scalar.text;
                            format!(
                                "line {}: mapping key {} already defined at line {first}",
                                key.line,
                                go_quote(text)
                            )
                        }));
                        earlier.push(key.line);
                    }
                    value.repeated_keys(found);
                }
            }
        }
    }

    fn value(&self, keys: Keys, in_flow: bool) -> Result<Value, JsonError> {
        let in_flow = in_flow || self.flow;
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json(in_flow),
            Content::Sequence(items) => {
                let items: Result<Vec<Value>, _> =
                    items.iter().map(|item| item.value(Keys::Text, in_flow)).collect();
                items.map(Value::Array)
            }
            Content::Mapping(pairs) => {
                let mut object = Map::new();
                for (key, value) in pairs {
                    let key = key.key(keys)?;
                    let key = if key.is_ascii() { key.into_owned() } else { reread(key.into_owned())? };
                    object.insert(key, value.value(Keys::Text, in_flow)?);
                }
                Ok(Value::Object(object))
            }
        }
    }

    fn key(&self, keys: Keys) -> Result<Cow<'_, str>, JsonError> {
        match &self.content {
            Content::Scalar(scalar) if scalar.is_string() || keys == Keys::Any => {
                Ok(Cow::Borrowed(&scalar.text))
            }
            Content::Scalar(_) => Err(JsonError::KeyNotText),
            _ => Err(JsonError::CollectionKey("[]interface {}{...}".to_owned())),
        }
    }
}

/// Up to so many keys are compared with each other.
const FEW_KEYS: usize = 16;

/// The root is read into a map of text keys, what is in it as it comes.
#[derive(Clone, Copy, PartialEq)]
enum Keys {
    Any,
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_what_is_there() {
        let text = "spec:\n  ports:\n  - name: web\n    port: 80\n  - {name: x, port: 81}\nmetadata:\n  labels:\n    a.b/c: d\n    a: e\n";
        let node = read_node(text).unwrap().unwrap();
        for (path, expected) in [
            ("", (1, 1)),
            ("spec", (1, 1)),
            ("spec.ports[1]", (5, 5)),
            ("spec.ports[1].port", (5, 15)),
            (".spec.ports[0].port", (4, 5)),
            ("spec.ports[name=\"x\"].port", (5, 15)),
            ("spec.ports[name=\"x\",port=81].port", (5, 15)),
            ("spec.ports[name=\"x\",port=80].port", (2, 3)),
            ("spec.ports[7].port", (2, 3)),
            ("spec.nothing.below", (1, 1)),
            ("metadata.labels[a.b/c]", (8, 5)),
            ("metadata.labels.a.b/c", (8, 5)),
            ("metadata.labels.a", (9, 5)),
            ("metadata.labelsx", (6, 1)),
        ] {
            assert_eq!(node.place_of(path), expected, "{path}");
        }
    }

    #[test]
    fn all_documents_are_read_up_to_one_that_cannot_be() {
        let lines = |text: &str| read_nodes(text).iter().map(|node| node.line).collect::<Vec<_>>();
        assert_eq!(lines("a: 1\n---\n# nothing\n---\nb: 2\n"), [1, 5]);
        assert_eq!(lines("a: 1\n---\n[\n"), [1]);
    }
}
