//! Trees that keep comments, anchors and styles, read and written as yaml.v3
//! does, for tools that show a document again.
//!
//! What yaml.v3 loses is lost here too: blank lines other than between groups
//! of comments, the width of indentation, and where lines of a plain scalar
//! were broken.

use libyaml_safer::{Event, EventData, MappingStyle, ScalarStyle, SequenceStyle};

use crate::error::{Error, Problem};
use crate::node::{ReadError, Style};
use crate::parse::{MAX_DEPTH, Parser};

/// How far each level is indented.
const INDENT: usize = 2;

/// Longer keys are written with `? ` before them, in bytes.
const MAX_SIMPLE_KEY: usize = 128;

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub root: Node,
    /// Comments above all, with a blank line after them; empty texts are blank
    /// lines here and in the other comments.
    pub head: Vec<String>,
    /// Comments below all.
    pub foot: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub content: Content,
    /// As it was written.
    pub tag: Option<String>,
    pub anchor: Option<String>,
    /// Written with brackets or braces.
    pub flow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Scalar { text: String, style: Style },
    Alias(String),
    Sequence(Vec<Entry>),
    Mapping(Vec<Entry>),
}

/// An item of a sequence, or a key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Option<Node>,
    pub value: Node,
    pub comments: Comments,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comments {
    pub head: Vec<String>,
    /// On the same line.
    pub line: Option<String>,
    pub foot: Vec<String>,
}

impl Node {
    pub fn scalar(text: impl Into<String>, style: Style) -> Self {
        Content::Scalar { text: text.into(), style }.into()
    }

    pub fn mapping(entries: Vec<Entry>) -> Self {
        Content::Mapping(entries).into()
    }

    pub fn sequence(entries: Vec<Entry>) -> Self {
        Content::Sequence(entries).into()
    }

    /// The text of a scalar.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether it is a null, or no value at all.
    pub fn is_null(&self) -> bool {
        let plain = |text: &str| matches!(text, "" | "~" | "null" | "Null" | "NULL");
        matches!(&self.content, Content::Scalar { text, style: Style::Plain } if plain(text))
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.content, Content::Mapping(_))
    }

    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Sequence(entries) | Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    pub fn entries_mut(&mut self) -> Option<&mut Vec<Entry>> {
        match &mut self.content {
            Content::Sequence(entries) | Content::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.is(key)).map(|entry| &entry.value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.entries_mut()?.iter_mut().find(|entry| entry.is(key)).map(|entry| &mut entry.value)
    }

    /// The mapping under a key of a mapping, made if there is none.
    pub fn mapping_at(&mut self, key: &str) -> Option<&mut Self> {
        let Content::Mapping(entries) = &mut self.content else { return None };
        let at = entries.iter().position(|entry| entry.is(key)).unwrap_or(entries.len());
        if at == entries.len() {
            entries.push(Entry::pair(key, Self::mapping(Vec::new())));
        }
        let value = &mut entries.get_mut(at)?.value;
        if !value.is_mapping() {
            *value = Self::mapping(Vec::new());
        }
        Some(value)
    }

    /// Takes every comment off.
    pub fn strip_comments(&mut self) {
        for entry in self.entries_mut().into_iter().flatten() {
            entry.comments = Comments::default();
            entry.value.strip_comments();
        }
    }
}

impl From<Content> for Node {
    fn from(content: Content) -> Self {
        Self { content, tag: None, anchor: None, flow: false }
    }
}

impl Entry {
    pub fn pair(key: impl Into<String>, value: Node) -> Self {
        Self { key: Some(Node::scalar(key, Style::Plain)), value, comments: Comments::default() }
    }

    pub fn item(value: Node) -> Self {
        Self { key: None, value, comments: Comments::default() }
    }

    pub fn is(&self, key: &str) -> bool {
        self.key.as_ref().and_then(Node::as_text) == Some(key)
    }
}

/// Reads the first document, or `None` if there is none.
pub fn read(text: &str) -> Result<Option<Document>, ReadError> {
    // The reader of trees without comments has the messages and the limits.
    if crate::node::read_node(text)?.is_none() {
        return Ok(None);
    }
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let plain = |error: Error| ReadError { upstream: error.problem.to_string(), error };
    let parser = Parser::new(text).map_err(plain)?;
    let mut reader = Reader { parser, places: Vec::new(), spans: Vec::new() };
    let Some(mut root) = reader.document().map_err(plain)? else { return Ok(None) };
    let Reader { mut places, spans, .. } = reader;
    let (head, foot) = attach(text, &spans, &mut places);
    give(&mut root, &mut places.into_iter().map(|place| place.comments));
    Ok(Some(Document { root, head, foot }))
}

struct Reader<'t> {
    parser: Parser<'t>,
    /// Of every entry, in the order of the text.
    places: Vec<EntrySpan>,
    /// Of everything in which a `#` is no comment.
    spans: Vec<Span>,
}

/// Where an entry stands in the text, in bytes.
struct EntrySpan {
    start: usize,
    end: usize,
    column: usize,
    parent: Option<usize>,
    in_flow: bool,
    comments: Comments,
}

struct Span {
    start: usize,
    end: usize,
    /// A block scalar, whose first line may end with a comment.
    block: bool,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Option<Node>, Error> {
        loop {
            match self.parser.next_event()?.data {
                EventData::StreamStart { .. } => {}
                EventData::DocumentStart { .. } => break,
                _ => return Ok(None),
            }
        }
        let first = self.parser.next_event()?;
        self.node(first, None, false, 0).map(|(node, _)| Some(node))
    }

    /// The node that an event begins, and where it ends.
    fn node(
        &mut self,
        event: Event,
        owner: Option<usize>,
        in_flow: bool,
        depth: usize,
    ) -> Result<(Node, usize), Error> {
        let (start, end) = (at(event.start_mark.index), at(event.end_mark.index));
        let column = at(event.start_mark.column);
        let (content, tag, anchor, flow, end) = match event.data {
            EventData::Scalar { anchor, tag, value, style, .. } => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                self.spans.push(Span { start, end, block });
                let text = self.parser.without_added_break(value, style, event.end_mark.index);
                let style = match style {
                    ScalarStyle::SingleQuoted => Style::SingleQuoted,
                    ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
                    ScalarStyle::Literal => Style::Literal,
                    ScalarStyle::Folded => Style::Folded,
                    _ => Style::Plain,
                };
                (Content::Scalar { text, style }, tag, anchor, false, end)
            }
            EventData::Alias { anchor } => {
                self.spans.push(Span { start, end, block: false });
                (Content::Alias(anchor), None, None, false, end)
            }
            EventData::SequenceStart { .. } | EventData::MappingStart { .. } if depth == MAX_DEPTH => {
                let line = at(event.start_mark.line) + 1;
                return Err(Error { line, column: column + 1, problem: Problem::TooDeep });
            }
            EventData::SequenceStart { anchor, tag, style, .. } => {
                let flow = style == SequenceStyle::Flow;
                let mut entries = Vec::new();
                let end = loop {
                    let event = self.parser.next_event()?;
                    if matches!(event.data, EventData::SequenceEnd) {
                        break at(event.end_mark.index);
                    }
                    let column = if flow { at(event.start_mark.column) } else { column };
                    let id = self.place(&event, column, owner, in_flow || flow);
                    let (value, end) = self.node(event, Some(id), in_flow || flow, depth + 1)?;
                    self.ends(id, end);
                    entries.push(Entry::item(value));
                };
                (Content::Sequence(entries), tag, anchor, flow, end)
            }
            EventData::MappingStart { anchor, tag, style, .. } => {
                let flow = style == MappingStyle::Flow;
                let mut entries = Vec::new();
                let end = loop {
                    let event = self.parser.next_event()?;
                    if matches!(event.data, EventData::MappingEnd) {
                        break at(event.end_mark.index);
                    }
                    let column = at(event.start_mark.column);
                    let id = self.place(&event, column, owner, in_flow || flow);
                    let (key, _) = self.node(event, Some(id), in_flow || flow, depth + 1)?;
                    let event = self.parser.next_event()?;
                    let (value, end) = self.node(event, Some(id), in_flow || flow, depth + 1)?;
                    self.ends(id, end);
                    entries.push(Entry { key: Some(key), value, comments: Comments::default() });
                };
                (Content::Mapping(entries), tag, anchor, flow, end)
            }
            _ => {
                let line = at(event.start_mark.line) + 1;
                let problem = Problem::Syntax("did not find expected node content".to_owned());
                return Err(Error { line, column: column + 1, problem });
            }
        };
        let tag = tag.map(|tag| match tag.strip_prefix("tag:yaml.org,2002:") {
            Some(core) => format!("!!{core}"),
            None => tag,
        });
        // yaml.v3 writes what it took a plain `<<` for.
        let tag = tag.or_else(|| match &content {
            Content::Scalar { text, style: Style::Plain } if text == "<<" => Some("!!merge".to_owned()),
            _ => None,
        });
        Ok((Node { content, tag, anchor, flow }, end))
    }

    fn place(&mut self, event: &Event, column: usize, parent: Option<usize>, in_flow: bool) -> usize {
        let start = at(event.start_mark.index);
        let comments = Comments::default();
        self.places.push(EntrySpan { start, end: start, column, parent, in_flow, comments });
        self.places.len() - 1
    }

    fn ends(&mut self, id: usize, end: usize) {
        if let Some(place) = self.places.get_mut(id) {
            place.end = end;
        }
    }
}

fn at(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Gives entries their comments, in the order in which they were read.
fn give(node: &mut Node, comments: &mut impl Iterator<Item = Comments>) {
    for entry in node.entries_mut().into_iter().flatten() {
        entry.comments = comments.next().unwrap_or_default();
        if let Some(key) = &mut entry.key {
            give(key, comments);
        }
        give(&mut entry.value, comments);
    }
}

struct Comment<'t> {
    offset: usize,
    line: usize,
    column: usize,
    text: &'t str,
    /// Nothing but the mark of an item is before it.
    own_line: bool,
    /// The mark of an item is before it, if it is on a line of its own.
    after_mark: bool,
}

/// Finds the comments and whose they are; those of no entry are the document's,
/// above and below.
fn attach(text: &str, spans: &[Span], places: &mut [EntrySpan]) -> (Vec<String>, Vec<String>) {
    let lines: Vec<&str> = lines(text).collect();
    let is_blank = |line: Option<usize>| {
        line.is_none_or(|line| lines.get(line).is_none_or(|line| line.trim().is_empty()))
    };
    let (mut head, mut foot): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let comments = comments(text, spans);
    let mut rest = comments.as_slice();
    while let Some(first) = rest.first() {
        let next = places.partition_point(|place| place.start <= first.offset);
        let previous = next.checked_sub(1);
        if !first.own_line {
            rest = rest.get(1..).unwrap_or_default();
            if let Some(place) = on_line(places, previous, first.offset) {
                place.comments.line = Some(first.text.to_owned());
            }
            continue;
        }
        // Lines that belong together.
        let joined = rest
            .iter()
            .zip(rest.iter().skip(1))
            .take_while(|(a, b)| b.own_line && b.line == a.line + 1 && a.column == b.column);
        let size = joined.count() + 1;
        let (group, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        rest = after;
        let group_lines = || group.iter().map(|comment| comment.text.to_owned());
        let blank_before = is_blank(first.line.checked_sub(1));
        let last = group.last().map(|comment| comment.line).unwrap_or_default();
        let blank_after = last + 1 < lines.len() && is_blank(Some(last + 1));
        // Behind the mark of an item it is about what the item begins with.
        let begun = places.get(next).filter(|_| first.after_mark).map(|place| place.start);
        if let Some(start) = begun {
            let same = places.iter().skip(next).take_while(|place| place.start == start).count();
            if let Some(place) = places.get_mut(next + same.saturating_sub(1)) {
                place.comments.head.extend(group_lines());
            }
            continue;
        }
        let outer = outward(places, previous);
        let innermost = outer
            .iter()
            .copied()
            .find(|id| places.get(*id).is_some_and(|place| !place.in_flow && place.column <= first.column));
        let Some(below) = places.get(next) else {
            if let Some(place) = innermost.filter(|_| first.column > 0).and_then(|id| places.get_mut(id)) {
                place.comments.foot.extend(group_lines());
                continue;
            }
            if blank_before {
                foot.push(String::new());
            }
            foot.extend(group_lines());
            continue;
        };
        let parent = below.parent;
        let sibling =
            outer.iter().copied().find(|id| places.get(*id).is_some_and(|place| place.parent == parent));
        let owner = if below.in_flow {
            None
        } else if first.column > below.column {
            innermost
        } else if !blank_before && blank_after {
            sibling
        } else {
            None
        };
        if let Some(place) = owner.and_then(|id| places.get_mut(id)) {
            place.comments.foot.extend(group_lines());
        } else if previous.is_none() && blank_after {
            if !head.is_empty() {
                head.push(String::new());
            }
            head.extend(group_lines());
        } else if let Some(place) = places.get_mut(next) {
            if !place.comments.head.is_empty() && blank_before {
                place.comments.head.push(String::new());
            }
            place.comments.head.extend(group_lines());
        }
    }
    (head, foot)
}

/// An entry and those around it, outwards.
fn outward(places: &[EntrySpan], from: Option<usize>) -> Vec<usize> {
    let parent = |id: &usize| places.get(*id).and_then(|place| place.parent);
    std::iter::successors(from, parent).collect()
}

/// The entry that a comment at the end of its line is about: the last to begin
/// before it, or what that is in if brackets have closed since.
fn on_line(places: &mut [EntrySpan], last: Option<usize>, offset: usize) -> Option<&mut EntrySpan> {
    let mut id = last?;
    while let Some(parent) = places.get(id).filter(|place| place.in_flow).and_then(|place| place.parent)
        && places.get(parent).is_some_and(|parent| parent.end <= offset)
    {
        id = parent;
    }
    places.get_mut(id)
}

/// The lines of a text, each with what ends it: YAML has more of that than `\n`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_break = |char| matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let (at, end) = rest.char_indices().find(|(_, char)| is_break(*char)).unwrap_or((rest.len(), '\n'));
        let length =
            if rest.get(at..).is_some_and(|rest| rest.starts_with("\r\n")) { 2 } else { end.len_utf8() };
        let (line, after) = rest.split_at_checked(at + length).unwrap_or((rest, ""));
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

fn comments<'t>(text: &'t str, spans: &[Span]) -> Vec<Comment<'t>> {
    let mut comments = Vec::new();
    let mut spans = spans.iter().peekable();
    let mut offset = 0;
    for (line, content) in lines(text).enumerate() {
        let start = offset;
        let end = start + content.len();
        let mut from = start;
        while let Some(found) = text.get(from..end).and_then(|rest| rest.find('#')) {
            let hash = from + found;
            while spans.next_if(|span| span.end <= hash).is_some() {}
            let inside = spans.peek().filter(|span| span.start <= hash && hash < span.end);
            let in_block_head = inside.is_some_and(|span| span.block && span.start >= start);
            let before = text.get(start..hash).unwrap_or_default();
            let after_blank = before.is_empty() || before.ends_with([' ', '\t']);
            if after_blank && (inside.is_none() || in_block_head) {
                comments.push(Comment {
                    offset: hash,
                    line,
                    column: before.chars().count(),
                    text: text.get(hash..end).unwrap_or_default().trim_end(),
                    own_line: before.chars().all(|char| matches!(char, ' ' | '\t' | '-')),
                    after_mark: before.contains('-'),
                });
                break;
            }
            from = hash + 1;
        }
        offset = end;
    }
    comments
}

/// The text of a document, each level indented by two, items of a sequence as
/// far as the key that they are under.
pub fn write(document: &Document) -> String {
    let mut writer = Writer { out: String::new() };
    if !document.head.is_empty() {
        writer.lines(&document.head, 0);
        writer.out.push('\n');
    }
    let root = &document.root;
    match &root.content {
        Content::Mapping(entries) | Content::Sequence(entries) if !is_flow(root) => {
            let properties = properties(root);
            if !properties.is_empty() {
                writer.out.push_str(properties.trim_start());
                writer.out.push('\n');
            }
            writer.block(entries, 0, false);
        }
        _ => {
            let properties = properties(root);
            writer.out.push_str(properties.trim_start());
            if !properties.is_empty() {
                writer.out.push(' ');
            } else if root.as_text() == Some("") && root.is_null() {
                // Nothing at all would be no document.
                writer.out.push_str("---");
            }
            writer.inline(root, 0, None);
        }
    }
    writer.lines(&document.foot, 0);
    writer.out
}

/// A node on one line.
pub fn write_flow(node: &Node) -> String {
    let mut writer = Writer { out: String::new() };
    writer.flow(node, 0);
    writer.out
}

fn is_flow(node: &Node) -> bool {
    node.flow || node.entries().is_empty()
}

/// Whether a key needs no `?` before it.
fn is_simple(key: &Node) -> bool {
    match &key.content {
        Content::Scalar { text, style } => {
            text.len() <= MAX_SIMPLE_KEY
                && !text.contains('\n')
                && !matches!(style, Style::Literal | Style::Folded)
        }
        Content::Alias(_) => true,
        Content::Sequence(entries) | Content::Mapping(entries) => entries.is_empty(),
    }
}

/// The anchor and tag, each after a space.
fn properties(node: &Node) -> String {
    let anchor = node.anchor.as_ref().map(|anchor| format!(" &{anchor}")).unwrap_or_default();
    let tag = node.tag.as_ref().map(|tag| format!(" {}", written_tag(tag))).unwrap_or_default();
    anchor + &tag
}

/// A tag as it is written; it was read without its escapes.
fn written_tag(tag: &str) -> String {
    let (mark, rest, end) = match (tag.strip_prefix("!!"), tag.strip_prefix('!')) {
        (Some(rest), _) => ("!!", rest, ""),
        (None, Some(rest)) => ("!", rest, ""),
        (None, None) => ("!<", tag, ">"),
    };
    let mut written = mark.to_owned();
    // The parser gives every byte that was escaped as a character of its own.
    for byte in rest.chars().filter_map(|char| u8::try_from(char).ok()) {
        if byte.is_ascii_alphanumeric() || b"-;/?:@&=+$,_.~*'()[]".contains(&byte) {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written + end
}

struct Writer {
    out: String,
}

impl Writer {
    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn lines(&mut self, lines: &[String], indent: usize) {
        for line in lines {
            if !line.is_empty() {
                self.pad(indent);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    /// `begun`: the first line has its indentation already.
    fn block(&mut self, entries: &[Entry], indent: usize, begun: bool) {
        let mut begun = begun;
        for (index, entry) in entries.iter().enumerate() {
            let mut head = entry.comments.head.as_slice();
            if let ([first, rest @ ..], true) = (head, begun) {
                self.out.push_str(first);
                self.out.push('\n');
                begun = false;
                head = rest;
            }
            self.lines(head, indent);
            if !begun {
                self.pad(indent);
            }
            begun = false;
            let line = entry.comments.line.as_deref();
            match &entry.key {
                Some(key) if is_simple(key) => {
                    self.key(key, indent);
                    self.out.push(':');
                    self.value(&entry.value, indent, line, false);
                }
                Some(key) => {
                    self.out.push('?');
                    self.value(key, indent, None, true);
                    self.pad(indent);
                    self.out.push(':');
                    self.value(&entry.value, indent, line, true);
                }
                None => {
                    self.out.push('-');
                    self.value(&entry.value, indent, line, true);
                }
            }
            let foot = &entry.comments.foot;
            self.lines(foot, indent);
            if !foot.is_empty() && index + 1 < entries.len() {
                self.out.push('\n');
            }
        }
    }

    fn key(&mut self, key: &Node, indent: usize) {
        let properties = properties(key);
        if !properties.is_empty() {
            self.out.push_str(properties.trim_start());
            self.out.push(' ');
        }
        match &key.content {
            // Its end would be taken for that of the key; and a key that is nothing cannot be read.
            Content::Scalar { text, style: Style::Plain } if text.is_empty() || text.ends_with(':') => {
                self.scalar(text, Style::SingleQuoted, indent);
            }
            _ => self.flow(key, indent),
        }
    }

    /// What follows a key or the mark of an item.
    fn value(&mut self, node: &Node, indent: usize, line: Option<&str>, item: bool) {
        let properties = properties(node);
        self.out.push_str(&properties);
        match &node.content {
            Content::Mapping(entries) | Content::Sequence(entries) if !is_flow(node) => {
                if item && properties.is_empty() && line.is_none() {
                    self.out.push(' ');
                    self.block(entries, indent + INDENT, true);
                    return;
                }
                self.line_comment(line);
                self.out.push('\n');
                let deeper = item || node.is_mapping();
                self.block(entries, if deeper { indent + INDENT } else { indent }, false);
            }
            Content::Scalar { text, style: Style::Plain } if text.is_empty() => {
                self.line_comment(line);
                self.out.push('\n');
            }
            _ => {
                self.out.push(' ');
                self.inline(node, indent, line);
            }
        }
    }

    /// A value that begins on this line, to the end of its last.
    fn inline(&mut self, node: &Node, indent: usize, line: Option<&str>) {
        match &node.content {
            Content::Scalar { text, style: style @ (Style::Literal | Style::Folded) }
                if !text.contains(|char| char != '\t' && !crate::write::is_printable(char)) =>
            {
                self.out.push(if *style == Style::Literal { '|' } else { '>' });
                self.block_hints(text);
                self.line_comment(line);
                self.out.push('\n');
                if *style == Style::Literal {
                    self.literal(text, indent + INDENT);
                } else {
                    self.folded(text, indent + INDENT);
                }
            }
            _ => {
                self.flow(node, indent);
                self.line_comment(line);
                self.out.push('\n');
            }
        }
    }

    fn line_comment(&mut self, line: Option<&str>) {
        if let Some(line) = line {
            self.out.push(' ');
            self.out.push_str(line);
        }
    }

    fn block_hints(&mut self, text: &str) {
        if text.starts_with([' ', '\n']) {
            self.out.push('2');
        }
        let mut ending = text.chars().rev();
        match (ending.next() == Some('\n'), ending.next().is_none_or(|char| char == '\n')) {
            (false, _) => self.out.push('-'),
            (true, true) => self.out.push('+'),
            (true, false) => {}
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.pad(indent);
            }
            self.out.push_str(line);
        }
        if !text.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// As yaml.v3 does it, with a line break too many after a line that is not
    /// indented further.
    fn folded(&mut self, text: &str, indent: usize) {
        let spaced = text.starts_with([' ', '\t', '\n']);
        let (mut after_break, mut after_space) = (true, true);
        for char in text.chars() {
            if char == '\n' {
                if !after_break && !after_space && !spaced {
                    self.out.push('\n');
                }
                self.out.push('\n');
                after_break = true;
            } else {
                if after_break {
                    self.pad(indent);
                    after_space = matches!(char, ' ' | '\t');
                }
                self.out.push(char);
                after_break = false;
            }
        }
        if !after_break {
            self.out.push('\n');
        }
    }

    fn flow(&mut self, node: &Node, indent: usize) {
        match &node.content {
            Content::Alias(anchor) => {
                self.out.push('*');
                self.out.push_str(anchor);
            }
            Content::Scalar { text, style } => self.scalar(text, *style, indent),
            Content::Sequence(entries) => self.bracketed('[', entries, ']', indent),
            Content::Mapping(entries) => self.bracketed('{', entries, '}', indent),
        }
    }

    fn bracketed(&mut self, open: char, entries: &[Entry], close: char, indent: usize) {
        let inside = indent + INDENT;
        self.out.push(open);
        for (index, entry) in entries.iter().enumerate() {
            if !entry.comments.head.is_empty() {
                self.out.truncate(self.out.trim_end_matches(' ').len());
                self.out.push('\n');
                self.lines(&entry.comments.head, inside);
                self.pad(inside);
            }
            if let Some(key) = &entry.key {
                let is_simple = is_simple(key);
                if !is_simple {
                    self.out.push_str("? ");
                }
                let properties = properties(key);
                if !properties.is_empty() {
                    self.out.push_str(properties.trim_start());
                    self.out.push(' ');
                }
                self.in_flow(key, inside);
                self.out.push_str(if is_simple { ": " } else { " : " });
            }
            let properties = properties(&entry.value);
            if !properties.is_empty() {
                self.out.push_str(properties.trim_start());
                self.out.push(' ');
            }
            self.in_flow(&entry.value, inside);
            let last = index + 1 == entries.len();
            if !last {
                self.out.push(',');
            }
            match &entry.comments.line {
                Some(line) => {
                    self.line_comment(Some(line));
                    self.out.push('\n');
                    self.pad(if last { indent } else { inside });
                }
                None if !last => self.out.push(' '),
                None => {}
            }
        }
        self.out.push(close);
    }

    /// Between brackets fewer texts may stand without quotes.
    fn in_flow(&mut self, node: &Node, indent: usize) {
        match &node.content {
            Content::Scalar { text, style: Style::Plain } if text.is_empty() => self.out.push_str("''"),
            Content::Scalar { text, style: Style::Plain }
                if text.contains([',', '?', '[', ']', '{', '}', ':']) =>
            {
                self.scalar(text, Style::SingleQuoted, indent);
            }
            Content::Scalar { text, style: Style::Literal | Style::Folded } => {
                self.scalar(text, Style::DoubleQuoted, indent);
            }
            _ => self.flow(node, indent),
        }
    }

    fn scalar(&mut self, text: &str, style: Style, indent: usize) {
        match style {
            // What is not printed is escaped, and only these quotes have escapes.
            Style::Plain | Style::SingleQuoted if !text.chars().all(crate::write::is_printable) => {
                self.scalar(text, Style::DoubleQuoted, indent);
            }
            Style::Plain if !text.contains('\n') && !text.starts_with("---") && !text.starts_with("...") => {
                self.out.push_str(text);
            }
            Style::Plain | Style::SingleQuoted => {
                self.out.push('\'');
                let mut after_break = false;
                for char in text.chars() {
                    if char == '\n' {
                        if !after_break {
                            self.out.push('\n');
                        }
                        self.out.push('\n');
                        after_break = true;
                        continue;
                    }
                    if after_break {
                        self.pad(indent + INDENT);
                        after_break = false;
                    }
                    if char == '\'' {
                        self.out.push('\'');
                    }
                    self.out.push(char);
                }
                self.out.push('\'');
            }
            Style::DoubleQuoted | Style::Literal | Style::Folded => {
                self.out.push('"');
                let marked = crate::write::is_marked(text);
                for char in text.chars() {
                    if marked || crate::write::needs_escape(char) {
                        self.out.push_str(&crate::write::escape(char));
                    } else {
                        self.out.push(char);
                    }
                }
                self.out.push('"');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(write(&read(text).unwrap().unwrap()), expected, "{text}");
    }

    #[test]
    fn comments_stay_where_they_are() {
        for text in [
            "# a\n\n# b\nk: v # c\n# d\nl: 1\n",
            "k: # a\n  # b\n  l: 1\n  # c\n\n  m: 2\n  # d\n# e\nn: 1\n",
            "k:\n# a\n- b # c\n# d\n- e\n# f\n",
            "k: [a, b, # c\n  d]\n",
            "k: {a: 1} # b\nl: | # c\n  # d\n  e\n# f\n",
            "k: 1\n\n# a\n",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn a_comment_ends_with_its_line_whatever_that_ends_with() {
        for end in ["\n", "\r", "\r\n", "\u{85}", "\u{2028}"] {
            check(&format!("# a{end}k: v # b{end}l: w"), "# a\nk: v # b\nl: w\n");
        }
    }

    #[test]
    fn blank_lines_are_lost_unless_they_part_comments() {
        check("k: 1\n\n\nl: 2\n", "k: 1\nl: 2\n");
        check("k: 1\n\n# a\n\nl: 2\n", "k: 1\n# a\nl: 2\n");
        check("k: 1\n\n# a\n\n# b\nl: 2\n", "k: 1\n# a\n\n# b\nl: 2\n");
    }

    /// As `kustomize cfg cat` 5.8.1 writes them.
    #[test]
    fn a_key_that_is_nothing_is_quoted() {
        check("?\n", "'':\n");
        check("a:\n  ?\nb: c\n", "a:\n  '':\nb: c\n");
        check("a: {? : b}\n", "a: {'': b}\n");
        check("!!str : a\n", "!!str '': a\n");
        check("&x : a\n", "&x '': a\n");
        check("\"\": a\n? ~\n", "\"\": a\n~:\n");
    }

    /// As `kustomize cfg cat` 5.8.1 writes them.
    #[test]
    fn a_key_of_many_parts_is_marked() {
        for text in [
            "? [a]\n: b: c\n  d: e\n",
            "? a: b\n:\n",
            "? - a\n: - b\n  - c\n",
            "? &x\n  a: b\n: c\n",
            "? |\n  x\n: y\n",
            "? \"a\\nb\"\n: c\n",
            "{? \"a\\nb\" : c}\n",
            "[]: c\n",
            "{? [a] : b, []: f}\n",
        ] {
            check(text, text);
        }
    }

    /// As `kustomize cfg cat` 5.8.1 writes them.
    #[test]
    fn what_looks_like_the_mark_of_a_document_is_quoted() {
        check(" --- \n", "'---'\n");
        check("a: ---b\n", "a: '---b'\n");
        check(" ...c: d\n", "'...c': d\n");
        check("- [---a, b]\n", "- ['---a', b]\n");
    }

    /// As `kustomize cfg cat` 5.8.1 writes them.
    #[test]
    fn tags_keep_their_escapes() {
        for text in ["a: !++8 b\n", "a: !x%20y b\n", "a: !%25a%21b b\n", "a: !!x%C3%A9 b\n", "a: !<x:y> b\n"]
        {
            check(text, text);
        }
        check("!x%08 a\n", "!x%08 a\n");
    }

    /// As yaml.v3 writes them.
    #[test]
    fn what_is_not_printed_is_escaped() {
        check(" \u{feff}-&", "\"\\uFEFF\\x2D\\x26\"\n");
        check("a: b\u{feff}c", "a: \"b\\uFEFFc\"\n");
        check("a: 'b\u{feff}c'", "a: \"b\\uFEFFc\"\n");
        check("a: |\n  x\u{feff}y\n", "a: \"x\\uFEFFy\\n\"\n");
        check("'a\u{feff}': c", "\"a\\uFEFF\": c\n");
        check("a\u{feff}b: c", "\"a\\uFEFFb\": c\n");
        check("a: b\tc", "a: \"b\\tc\"\n");
        check("[a\tb]", "[\"a\\tb\"]\n");
        check("a: |\n  x\ty\n", "a: |\n  x\ty\n");
        check("a: | # c\n  x\u{feff}y\n", "a: \"x\\uFEFFy\\n\" # c\n");
        check("- 😀: 1", "- \"\\U0001F600\": 1\n");
    }

    #[test]
    fn a_document_that_is_nothing_stays_one() {
        for text in ["---\n", "''\n", "~\n"] {
            check(text, text);
            assert!(read(text).unwrap().is_some(), "{text}");
        }
        assert_eq!(read("# a\n").unwrap(), None);
    }

    #[test]
    fn styles_stay() {
        for text in [
            "a: 'b ''c'' '\nd: \"e \\t \\x01\"\nf: |+\n  g\n\nh: >-\n  i\n\n  j\n",
            "a: &x {b: 1}\nc: *x\nd: !!str 12\ne: !f g\nh:\ni: ~\nj: []\n",
            "- - a\n  - b\n- c: 1\n  d: 2\n",
        ] {
            check(text, text);
        }
        for (size, mark) in [(MAX_SIMPLE_KEY, ""), (MAX_SIMPLE_KEY + 1, "? ")] {
            let key = "k".repeat(size);
            let written = write(&read(&format!("? {key}\n: v\n")).unwrap().unwrap());
            assert!(written.starts_with(&format!("{mark}{key}")), "{written}");
        }
        check("a: b\n  c\nd:\n    - e\n", "a: b c\nd:\n- e\n");
        check("a: >\n  b\n\n   c\n  d\n", "a: >\n  b\n\n\n   c\n  d\n\n");
    }
}
