//! JSON values to YAML text, byte for byte as `sigs.k8s.io/yaml` writes it.
//!
//! Block style, two spaces, sequences at the column of their key, keys in
//! go-yaml's natural order, lines folded after column 80, and libyaml's choice
//! between plain, quoted and literal scalars.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::scalar;

const INDENT: usize = 2;

/// A line is folded at the first single space behind this column.
const WIDTH: usize = 80;

/// Keys longer than this, or of several lines, take the `? key` form.
const MAX_SIMPLE_KEY_BYTES: usize = 128;

/// A key of this name would be read as a merge. Upstream writes it plain.
const MERGE: &str = "<<";

/// One document with its final line break. Reading it back gives the value
/// again, except that a whole number of a float becomes an integer.
pub fn write(value: &Value) -> String {
    let mut writer = Writer { out: String::new(), column: 0, after_space: true, only_markers: true };
    writer.node(value, None, NodePosition::Root);
    writer.new_line(0);
    writer.out
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    Item,
    Value,
    SimpleKey,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

struct Writer {
    out: String,
    /// In characters.
    column: usize,
    /// Whether the next token needs no space before it.
    after_space: bool,
    /// Whether the line so far is indentation and `-`, `?`, `:` markers, so
    /// that a collection may start on it.
    only_markers: bool,
}

impl Writer {
    /// `outer` is the column of the collection that the node stands in.
    fn node(&mut self, value: &Value, outer: Option<usize>, place: NodePosition) {
        match value {
            Value::Object(object) if !object.is_empty() => {
                self.mapping(object, outer.map_or(0, |outer| outer + INDENT));
            }
            Value::Array(items) if !items.is_empty() => {
                // Behind a key on its line, a sequence is not indented.
                let beside_key = place == NodePosition::Value && !self.only_markers;
                let column = outer.map_or(0, |outer| if beside_key { outer } else { outer + INDENT });
                self.sequence(items, column);
            }
            Value::Object(_) => self.token("{}"),
            Value::Array(_) => self.token("[]"),
            Value::Null => self.token("null"),
            Value::Bool(true) => self.token("true"),
            Value::Bool(false) => self.token("false"),
            Value::Number(number) => self.token(&number_text(number)),
            Value::String(text) => self.text(text, outer, place),
        }
    }

    fn mapping(&mut self, object: &Map<String, Value>, column: usize) {
        for (key, value) in sorted(object) {
            self.new_line(column);
            if key.len() <= MAX_SIMPLE_KEY_BYTES && !key.contains(is_break) {
                self.text(key, Some(column), NodePosition::SimpleKey);
                self.put(':');
                self.after_space = false;
                self.only_markers = false;
            } else {
                self.marker('?');
                self.text(key, Some(column), NodePosition::Item);
                self.new_line(column);
                self.marker(':');
            }
            self.node(value, Some(column), NodePosition::Value);
        }
    }

    fn sequence(&mut self, items: &[Value], column: usize) {
        for item in items {
            self.new_line(column);
            self.marker('-');
            self.node(item, Some(column), NodePosition::Item);
        }
    }

    fn text(&mut self, text: &str, outer: Option<usize>, place: NodePosition) {
        let style = style_of(text, place);
        let folds = place != NodePosition::SimpleKey;
        let column = outer.map_or(INDENT, |outer| outer + INDENT);
        match style {
            Style::Plain => self.plain(text, column, folds),
            Style::SingleQuoted => self.single_quoted(text, column, folds),
            Style::DoubleQuoted => self.double_quoted(text, column, folds),
            Style::Literal => self.literal(text, column),
        }
    }

    fn plain(&mut self, text: &str, column: usize, folds: bool) {
        self.space_before();
        let mut after_space = false;
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            if char == ' ' && folds && !after_space && self.column > WIDTH && rest.peek() != Some(&' ') {
                self.new_line(column);
            } else {
                self.put(char);
            }
            after_space = char == ' ';
            if char != ' ' {
                self.only_markers = false;
            }
        }
        self.after_space = false;
        self.only_markers = false;
    }

    fn single_quoted(&mut self, text: &str, column: usize, folds: bool) {
        self.space_before();
        self.put('\'');
        self.only_markers = false;
        let (mut after_space, mut after_break, mut first) = (false, false, true);
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            if char == ' ' {
                let inside = !first && rest.peek().is_some_and(|next| *next != ' ');
                if folds && !after_space && self.column > WIDTH && inside {
                    self.new_line(column);
                } else {
                    self.put(char);
                }
                after_space = true;
            } else if is_break(char) {
                if !after_break && char == '\n' {
                    self.line_break('\n');
                }
                self.line_break(char);
                self.only_markers = true;
                after_break = true;
            } else {
                if after_break {
                    self.new_line(column);
                }
                if char == '\'' {
                    self.put('\'');
                }
                self.put(char);
                self.only_markers = false;
                (after_space, after_break) = (false, false);
            }
            first = false;
        }
        self.put('\'');
        self.after_space = false;
        self.only_markers = false;
    }

    fn double_quoted(&mut self, text: &str, column: usize, folds: bool) {
        self.space_before();
        self.put('"');
        self.only_markers = false;
        let (mut after_space, mut first) = (false, true);
        let marked = is_marked(text);
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            if marked || needs_escape(char) {
                self.escaped(char);
                after_space = false;
            } else if char == ' ' {
                let inside = !first && rest.peek().is_some();
                if folds && !after_space && self.column > WIDTH && inside {
                    self.new_line(column);
                    // A space at the start of a line would be lost.
                    if rest.peek() == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(char);
                }
                after_space = true;
            } else {
                self.put(char);
                after_space = false;
            }
            first = false;
        }
        self.put('"');
        self.after_space = false;
        self.only_markers = false;
    }

    fn escaped(&mut self, char: char) {
        escape(char).chars().for_each(|char| self.put(char));
    }

    fn literal(&mut self, text: &str, column: usize) {
        self.space_before();
        self.put('|');
        if text.starts_with(|char| char == ' ' || is_break(char)) {
            // Without it the indentation would be taken from the text.
            self.put('2');
        }
        let mut ending = text.chars().rev();
        match (ending.next().is_some_and(is_break), ending.next().is_none_or(is_break)) {
            (false, _) => self.put('-'),
            (true, true) => self.put('+'),
            (true, false) => {}
        }
        self.line_break('\n');
        self.only_markers = true;
        self.after_space = true;
        let mut after_break = true;
        for char in text.chars() {
            if is_break(char) {
                self.line_break(char);
                self.only_markers = true;
                after_break = true;
            } else {
                if after_break {
                    self.new_line(column);
                }
                self.put(char);
                self.only_markers = false;
                after_break = false;
            }
        }
    }

    fn token(&mut self, text: &str) {
        self.space_before();
        text.chars().for_each(|char| self.put(char));
        self.after_space = false;
        self.only_markers = false;
    }

    fn marker(&mut self, char: char) {
        self.space_before();
        self.put(char);
        self.after_space = false;
    }

    fn space_before(&mut self) {
        if !self.after_space {
            self.put(' ');
        }
    }

    /// Goes to `column`: on this line if only markers stand there, else on the
    /// next.
    fn new_line(&mut self, column: usize) {
        if !self.only_markers || self.column > column || (self.column == column && !self.after_space) {
            self.line_break('\n');
        }
        while self.column < column {
            self.put(' ');
        }
        self.after_space = true;
        self.only_markers = true;
    }

    fn line_break(&mut self, char: char) {
        self.out.push(char);
        self.column = 0;
    }

    fn put(&mut self, char: char) {
        self.out.push(char);
        self.column += 1;
    }
}

/// As upstream: a text that begins with a byte order mark is escaped to its end.
pub(crate) fn is_marked(text: &str) -> bool {
    text.starts_with('\u{feff}')
}

/// Whether double quotes have to escape it.
pub(crate) fn needs_escape(char: char) -> bool {
    !is_printable(char) || is_break(char) || matches!(char, '"' | '\\')
}

/// How it is written between double quotes.
pub(crate) fn escape(char: char) -> String {
    let short = match char {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(char);
            return match code {
                0..=0xFF => format!("\\x{code:02X}"),
                0x100..=0xFFFF => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// The text decides, and where it stands: a key has one line.
fn style_of(text: &str, place: NodePosition) -> Style {
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if scalar::reads_as_text(text) && !(text == MERGE && place == NodePosition::SimpleKey) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    };
    let allowed = Allowed::of(text);
    match wanted {
        Style::Literal if allowed.literal && place != NodePosition::SimpleKey => Style::Literal,
        Style::Plain if allowed.plain => Style::Plain,
        Style::Plain if allowed.single_quoted => Style::SingleQuoted,
        _ => Style::DoubleQuoted,
    }
}

/// Which styles keep a text as it is.
struct Allowed {
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl Allowed {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special) = (false, false);
        let (mut space_before_break, mut space_after_break) = (false, false);
        let (mut after_space, mut after_break, mut after_blank, mut first) = (false, false, true, true);
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            let blank_follows = rest.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match char {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '#' => after_blank,
                '?' | '-' => first && blank_follows,
                ':' => blank_follows,
                _ => false,
            };
            special |= !is_printable(char);
            if char == ' ' {
                space_after_break |= after_break;
                (after_space, after_break) = (true, false);
            } else if is_break(char) {
                breaks = true;
                space_before_break |= after_space;
                (after_space, after_break) = (false, true);
            } else {
                (after_space, after_break) = (false, false);
            }
            after_blank = matches!(char, ' ' | '\t') || is_break(char);
            first = false;
        }
        let spaced = text.starts_with(' ') || after_space;
        let broken = space_before_break || special;
        Self {
            plain: !(indicators || breaks || spaced || broken),
            single_quoted: !(space_after_break || broken),
            literal: !(after_space || broken),
        }
    }
}

fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// As libyaml has it: without tabs, and nothing beyond the first plane.
pub(crate) fn is_printable(char: char) -> bool {
    match char {
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' => char != '\u{feff}',
        _ => false,
    }
}

/// Go's `FormatFloat(value, 'g', -1, 64)` for floats.
pub(crate) fn number_text(number: &Number) -> String {
    let text = number.to_string();
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else { return text };
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if SHORT_EXPONENTS.contains(&exponent) {
        value.to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
    }
}

/// Outside of these a float is written with its exponent.
const SHORT_EXPONENTS: std::ops::Range<i32> = -4..6;

/// The members of an object in the order in which [`write()`] has them: go-yaml's,
/// which need not be a total one, so that the library's sorts, which may panic
/// on such, are not for it.
pub fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut from: Vec<(&String, &Value)> = object.iter().collect();
    if from.is_sorted_by(|(a, _), (b, _)| natural(a, b) != Ordering::Greater) {
        return from;
    }
    let mut run = 1;
    while run < from.len() {
        let mut merged = Vec::with_capacity(from.len());
        for pair in from.chunks(run * 2) {
            let (left, right) = pair.split_at(run.min(pair.len()));
            merge(left, right, &mut merged);
        }
        from = merged;
        run *= 2;
    }
    from
}

fn merge<'a>(
    mut left: &[(&'a String, &'a Value)],
    mut right: &[(&'a String, &'a Value)],
    out: &mut Vec<(&'a String, &'a Value)>,
) {
    while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
        if natural(second.0, first.0) == Ordering::Less {
            out.push(*second);
            right = right_rest;
        } else {
            out.push(*first);
            left = left_rest;
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
}

/// Where two keys first differ, letters come after all else and digits count
/// as the number they begin.
fn natural(a: &str, b: &str) -> Ordering {
    let same: usize =
        a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(char, _)| char.len_utf8()).sum();
    let (common, a_rest) = a.split_at_checked(same).unwrap_or((a, ""));
    let b_rest = b.get(same..).unwrap_or_default();
    let (Some(a_first), Some(b_first)) = (a_rest.chars().next(), b_rest.chars().next()) else {
        return a_rest.len().cmp(&b_rest.len());
    };
    match (a_first.is_alphabetic(), b_first.is_alphabetic()) {
        (true, true) => return a_first.cmp(&b_first),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside of a number is not a leading one.
    let inside = (a_first == '0' || b_first == '0')
        && common.chars().rev().take_while(|char| is_digit(*char)).any(|char| char != '0');
    let start = i64::from(inside);
    let ((a_number, a_digits), (b_number, b_digits)) = (digits(a_rest, start), digits(b_rest, start));
    a_number.cmp(&b_number).then(a_digits.cmp(&b_digits)).then(a_first.cmp(&b_first))
}

/// The number and how many digits it has.
fn digits(text: &str, start: i64) -> (i64, usize) {
    text.chars().take_while(|char| is_digit(*char)).fold((start, 0), |(number, count), char| {
        let digit = i64::from(u32::from(char)) - i64::from(u32::from('0'));
        (number.wrapping_mul(10).wrapping_add(digit), count + 1)
    })
}

fn is_digit(char: char) -> bool {
    char.is_numeric()
}
