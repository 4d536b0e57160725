//! Scanner events into a tree in which aliases point at their anchors.

use std::collections::HashMap;
use std::io::{BufReader, Chain, Read};
use std::rc::Rc;

use libyaml_safer::{
    ErrorKind, Event, EventData, MappingStyle, Mark, ScalarStyle, Scanner, SequenceStyle, TokenData,
};

use sternpost_meta::cancel::checkpoint;

use crate::error::{Error, Problem};

/// How many sequences and mappings may be inside each other, aliases followed
/// and merged mappings counted. It is what `serde_json` reads back, so a value
/// accepted here survives being stored as JSON.
pub const MAX_DEPTH: usize = 127;

/// The scanner takes all that its reader has buffered, at four bytes a
/// character; this bounds that copy.
const READ_AHEAD: usize = 16 * 1024;

/// Ends a text whose last line has no end, because the scanner panics when a
/// block scalar runs into the end of the input. Unlike `\n`, this break stays
/// visible in the scalar, so it can be taken out again.
const ADDED_BREAK: &str = "\u{2028}";

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Written with brackets or braces.
    pub(crate) flow: bool,
    /// Levels of collections in here, this one included; 0 for a scalar.
    height: usize,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Scalar(Scalar),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<(Rc<Node>, Rc<Node>)>),
    /// Never in itself: [`Parser`] refuses that, so the tree is finite and its
    /// height, aliases followed, is at most [`MAX_DEPTH`].
    Alias(Rc<Node>),
}

#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) tag: Option<String>,
    pub(crate) text: String,
    /// Plain without a tag, or tagged `!`: the text decides the type.
    pub(crate) implicit: bool,
    pub(crate) style: ScalarStyle,
}

impl Node {
    pub(crate) fn error(&self, problem: Problem) -> Error {
        Error { line: self.line, column: self.column, problem }
    }
}

pub(crate) struct Parser<'t> {
    text: &'t str,
    events: libyaml_safer::Parser<BufReader<Chain<&'t [u8], &'t [u8]>>>,
    anchors: HashMap<String, Anchor>,
    /// The scanner's own account of what stopped it.
    pub(crate) stopped: Option<Stopped>,
    /// The line of the first `\/` in quotes: an escape in YAML 1.2 only.
    pub(crate) escaped_slash: Option<u64>,
}

/// A syntax error in go-yaml's terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    /// As go-yaml counts it, which is one short outside of the scanner; 0 is
    /// not told.
    pub(crate) line: u64,
    pub(crate) problem: &'static str,
}

struct Anchor {
    /// Tells this use of a name from one inside or after it.
    start: u64,
    /// `None` while the node is still open.
    node: Option<Rc<Node>>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str) -> Result<Self, Error> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        refuse_tag_before_comma(text)?;
        let end = if text.ends_with(is_break) { "" } else { ADDED_BREAK };
        let mut events = libyaml_safer::Parser::new();
        // Told, because it guesses wrong for text that starts like a byte order mark.
        events.set_encoding(libyaml_safer::Encoding::Utf8);
        let input = text.as_bytes().chain(end.as_bytes());
        events.set_input(BufReader::with_capacity(READ_AHEAD, input));
        Ok(Self { text, events, anchors: HashMap::new(), stopped: None, escaped_slash: None })
    }

    /// The root of the next document, or `None` at the end of the stream.
    pub(crate) fn next_document(&mut self) -> Result<Option<Rc<Node>>, Error> {
        self.anchors.clear();
        loop {
            match self.next_event()?.data {
                EventData::StreamStart { .. } => {}
                EventData::DocumentStart { .. } => break,
                _ => return Ok(None),
            }
        }
        let first = self.next_event()?;
        let root = self.node(first, 0)?;
        // The end of the document is where a syntax error after its last
        // node shows.
        self.next_event()?;
        Ok(Some(root))
    }

    /// `depth`: how many collections are open around the node.
    fn node(&mut self, event: Event, depth: usize) -> Result<Rc<Node>, Error> {
        let (line, column) = position(event.start_mark);
        let fail = |problem| Err(Error { line, column, problem });
        let start = event.start_mark.index;
        let end = event.end_mark.index;
        let mut flow = false;
        let (anchor, height, content) = match event.data {
            EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                self.open(anchor.as_ref(), start);
                self.note_escaped_slash(style, start, end);
                let text = self.without_added_break(value, style, end);
                (anchor, 0, Content::Scalar(Scalar { tag, text, implicit: plain_implicit, style }))
            }
            EventData::Alias { anchor } => match self.anchors.get(&anchor).map(|a| a.node.as_ref()) {
                None => return fail(Problem::UnknownAnchor(anchor)),
                Some(None) => return fail(Problem::RecursiveAnchor(anchor)),
                Some(Some(target)) if depth + target.height > MAX_DEPTH => {
                    return fail(Problem::TooDeep);
                }
                Some(Some(target)) => (None, target.height, Content::Alias(Rc::clone(target))),
            },
            EventData::SequenceStart { .. } | EventData::MappingStart { .. } if depth == MAX_DEPTH => {
                return fail(Problem::TooDeep);
            }
            EventData::SequenceStart { anchor, style, .. } => {
                flow = style == SequenceStyle::Flow;
                self.open(anchor.as_ref(), start);
                let (items, height) = self.sequence(depth + 1)?;
                (anchor, height, Content::Sequence(items))
            }
            EventData::MappingStart { anchor, style, .. } => {
                flow = style == MappingStyle::Flow;
                self.open(anchor.as_ref(), start);
                let (pairs, height) = self.mapping(depth + 1)?;
                (anchor, height, Content::Mapping(pairs))
            }
            // The event grammar has nothing else here.
            _ => return fail(Problem::Syntax("did not find expected node content".to_owned())),
        };
        let node = Rc::new(Node { line, column, flow, height, content });
        if let Some(anchor) = anchor {
            self.close(&anchor, start, &node);
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<(Vec<Rc<Node>>, usize), Error> {
        let mut items = Vec::new();
        let mut inner = 0;
        loop {
            let event = self.next_event()?;
            if matches!(event.data, EventData::SequenceEnd) {
                return Ok((items, inner + 1));
            }
            let item = self.node(event, depth)?;
            inner = inner.max(item.height);
            items.push(item);
        }
    }

    #[allow(clippy::type_complexity)]
    fn mapping(&mut self, depth: usize) -> Result<(Vec<(Rc<Node>, Rc<Node>)>, usize), Error> {
        let mut pairs = Vec::new();
        let mut inner = 0;
        loop {
            let event = self.next_event()?;
            if matches!(event.data, EventData::MappingEnd) {
                return Ok((pairs, inner + 1));
            }
            let key = self.node(event, depth)?;
            let event = self.next_event()?;
            let value = self.node(event, depth)?;
            inner = inner.max(key.height).max(value.height);
            pairs.push((key, value));
        }
    }

    fn note_escaped_slash(&mut self, style: ScalarStyle, start: u64, end: u64) {
        if style != ScalarStyle::DoubleQuoted || self.escaped_slash.is_some() {
            return;
        }
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let source = self.text.get(at(start)..at(end)).unwrap_or_default();
        let mut rest = source;
        while let Some(place) = rest.find('\\') {
            let after = rest.get(place + 1..).unwrap_or_default();
            if after.starts_with('/') {
                let before = self.text.get(..at(start)).unwrap_or_default();
                self.escaped_slash = u64::try_from(before.matches('\n').count() + 1).ok();
                return;
            }
            let skipped = after.chars().next().map_or(0, char::len_utf8);
            rest = after.get(skipped..).unwrap_or_default();
        }
    }

    pub(crate) fn without_added_break(&self, mut value: String, style: ScalarStyle, end: u64) -> String {
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let to_the_end = usize::try_from(end).is_ok_and(|end| end > self.text.len());
        if block && to_the_end && value.ends_with(ADDED_BREAK) {
            value.truncate(value.len().saturating_sub(ADDED_BREAK.len()));
        }
        value
    }

    fn open(&mut self, anchor: Option<&String>, start: u64) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor.clone(), Anchor { start, node: None });
        }
    }

    /// A name given again inside the node keeps meaning the inner one.
    fn close(&mut self, anchor: &str, start: u64, node: &Rc<Node>) {
        if let Some(anchor) = self.anchors.get_mut(anchor).filter(|a| a.start == start) {
            anchor.node = Some(Rc::clone(node));
        }
    }

    pub(crate) fn next_event(&mut self) -> Result<Event, Error> {
        checkpoint();
        self.events.parse().map_err(|error| {
            self.stopped = Some(stopped(&error));
            syntax_error(self.text, &error, &[])
        })
    }
}

/// What the characters since the last blank may be, wherever they stand.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    Plain,
    Tag,
    /// After `!<`, where a comma is part of the tag.
    VerbatimTag,
}

/// Refuses `[!tag, x]`. The scanner panics on it; upstream takes the comma for a
/// part of the tag, so nobody can mean it.
///
/// Texts without a `!` some word before a comma, which is nearly all, are not
/// looked at twice. In the others a space before each such comma keeps the
/// scanner going, and tells by its place whether a tag ended there.
fn refuse_tag_before_comma(text: &str) -> Result<(), Error> {
    let mut spaced = String::new();
    let mut spaces = Vec::new();
    let mut word = Word::Plain;
    let mut previous = ' ';
    let mut copied = 0;
    // Between brackets only: elsewhere the scanner refuses or reads it, and a space would make
    // the plain scalar `a!b:,c` a mapping.
    let mut bracket = false;
    for (at, c) in text.char_indices() {
        bracket |= matches!(c, '[' | '{');
        if c == ',' && word == Word::Tag && bracket {
            spaced.push_str(text.get(copied..at).unwrap_or_default());
            spaces.push(spaced.len());
            spaced.push(' ');
            copied = at;
        }
        word = match c {
            // In the middle of a plain scalar; no tag begins there.
            '!' if word == Word::Plain && previous.is_alphanumeric() => Word::Plain,
            '!' => Word::Tag,
            '<' if previous == '!' => Word::VerbatimTag,
            '>' if word == Word::VerbatimTag => Word::Tag,
            ',' if word == Word::Tag => Word::Plain,
            _ if c.is_ascii_whitespace() || is_break(c) => Word::Plain,
            _ => word,
        };
        previous = c;
    }
    if spaces.is_empty() {
        return Ok(());
    }
    spaced.push_str(text.get(copied..).unwrap_or_default());
    spaced.push_str(ADDED_BREAK);

    let mut tokens = Scanner::new();
    tokens.set_input(BufReader::with_capacity(READ_AHEAD, spaced.as_bytes()));
    for token in tokens {
        checkpoint();
        // The scanner runs ahead of its tokens, so an error may hide a tag
        // before it: it has to stand, even for `!<a!,b>`, which only the
        // space made wrong.
        let token = token.map_err(|error| syntax_error(text, &error, &spaces))?;
        if !matches!(token.data, TokenData::Tag { .. }) {
            continue;
        }
        let end = usize::try_from(token.end_mark.index).unwrap_or(usize::MAX);
        if let Ok(before) = spaces.binary_search(&end) {
            let (line, column) = place_of(text, end.saturating_sub(before));
            let problem = "did not find expected whitespace or line break while scanning a tag";
            return Err(Error { line, column, problem: Problem::Syntax(problem.to_owned()) });
        }
    }
    Ok(())
}

fn stopped(error: &libyaml_safer::Error) -> Stopped {
    let line = |mark: Option<Mark>| mark.map(|mark| mark.line).filter(|line| *line != 0);
    let line = line(error.context_mark()).or_else(|| line(error.problem_mark()));
    let in_scanner = u64::from(error.kind() == ErrorKind::Scanner);
    Stopped { line: line.map_or(0, |line| line + in_scanner), problem: error.problem() }
}

/// `spaces`: where the scanner was given a space that is not in the text.
fn syntax_error(text: &str, error: &libyaml_safer::Error, spaces: &[usize]) -> Error {
    let offset = match error.problem_mark() {
        Some(mark) => {
            let at = usize::try_from(mark.index).unwrap_or(usize::MAX);
            at.saturating_sub(spaces.partition_point(|space| *space < at))
        }
        // Only the reader gives no place, and all it can find in a `str` is a
        // character that YAML does not allow.
        None => text.find(is_forbidden).unwrap_or_default(),
    };
    let (line, column) = place_of(text, offset);
    let problem = match error.context() {
        Some(context) => format!("{} {context}", error.problem()),
        None => error.problem().to_owned(),
    };
    Error { line, column, problem: Problem::Syntax(problem) }
}

fn position(mark: Mark) -> (usize, usize) {
    let from_one = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_add(1);
    (from_one(mark.line), from_one(mark.column))
}

/// The characters the scanner's reader refuses.
fn is_forbidden(c: char) -> bool {
    let allowed =
        matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..);
    !allowed
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Past the end, for errors at the break that was added, is the end.
fn place_of(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.char_indices().rfind(|(_, c)| is_break(*c));
    let line_start = line_start.map_or(0, |(at, c)| at + c.len_utf8());
    let crlf = before.matches("\r\n").count();
    let breaks = before.matches(is_break).count() - crlf;
    (breaks + 1, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}
