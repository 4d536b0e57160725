//! JSON value to YAML text: block style, four-space indentation, no folding.

use serde_json::{Map, Value};

use super::{
    super::MAX_VALUE_DEPTH,
    resolve::{Scalar, resolve},
};

/// The text of one document, with its final line break; `None` if collections
/// nest deeper than [`MAX_VALUE_DEPTH`].
pub(crate) fn write(value: &Value) -> Option<String> {
    if !fits(value, MAX_VALUE_DEPTH) {
        return None;
    }
    let mut writer = Writer { out: String::new(), line_start: 0, indentation: true };
    writer.node(value, None, NodePosition::Root);
    writer.new_line(0);
    Some(writer.out)
}

fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth > 0 && values.iter().all(|value| fits(value, depth - 1)),
        Value::Object(object) => depth > 0 && object.values().all(|value| fits(value, depth - 1)),
        _ => true,
    }
}

const INDENT: usize = 4;

/// Keys longer than this, or of several lines, take the `? key` form.
const MAX_SIMPLE_KEY_BYTES: usize = 128;

/// Where a node stands, which decides how far its content is indented.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    SequenceItem,
    MappingValue,
    SimpleKey,
}

struct Writer {
    out: String,
    /// Where the current line starts in `out`.
    line_start: usize,
    /// Whether only indentation and `-`, `?`, `:` markers stand on the current
    /// line, so that a nested collection may start on it.
    indentation: bool,
}

impl Writer {
    /// `parent` is the column of the collection that the node stands in.
    fn node(&mut self, value: &Value, parent: Option<usize>, place: NodePosition) {
        match value {
            Value::Object(object) if !object.is_empty() => self.mapping(object, inner(parent, place, 0)),
            Value::Array(values) if !values.is_empty() => self.sequence(values, inner(parent, place, 0)),
            Value::Object(_) => self.token("{}"),
            Value::Array(_) => self.token("[]"),
            Value::Null => self.token("null"),
            Value::Bool(true) => self.token("true"),
            Value::Bool(false) => self.token("false"),
            Value::Number(number) => self.token(&number.to_string()),
            Value::String(text) => self.string(text, parent, place),
        }
    }

    fn mapping(&mut self, object: &Map<String, Value>, column: usize) {
        for (key, value) in object {
            self.new_line(column);
            if key.len() <= MAX_SIMPLE_KEY_BYTES && !key.contains(BREAKS) {
                self.string(key, Some(column), NodePosition::SimpleKey);
                self.out.push(':');
            } else {
                self.marker('?');
                self.string(key, Some(column), NodePosition::MappingValue);
                self.new_line(column);
                self.marker(':');
            }
            self.node(value, Some(column), NodePosition::MappingValue);
        }
    }

    fn sequence(&mut self, values: &[Value], column: usize) {
        for value in values {
            self.new_line(column);
            self.marker('-');
            self.node(value, Some(column), NodePosition::SequenceItem);
        }
    }

    fn string(&mut self, text: &str, parent: Option<usize>, place: NodePosition) {
        let content = inner(parent, place, INDENT);
        match style(text, place) {
            Style::Plain => self.token(text),
            Style::SingleQuoted => self.token(&format!("'{}'", text.replace('\'', "''"))),
            Style::DoubleQuoted => self.token(&double_quoted(text)),
            // The hint says four columns whatever the indentation is; where
            // that is wrong, no reader would get the text back.
            Style::Literal
                if text.starts_with([' ', '\n']) && content != parent.map_or(0, |at| at) + INDENT =>
            {
                self.token(&double_quoted(text));
            }
            Style::Literal => self.literal(text, content),
        }
    }

    fn literal(&mut self, text: &str, column: usize) {
        self.token("|");
        if text.starts_with([' ', '\n']) {
            self.out.push('4');
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        self.line_break();
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.out.extend(std::iter::repeat_n(' ', column));
                self.indentation = false;
            }
            self.out.push_str(line.trim_end_matches('\n'));
            if line.ends_with('\n') {
                self.line_break();
            }
        }
    }

    /// Moves to a column, on this line if nothing but indentation stands
    /// before it.
    fn new_line(&mut self, column: usize) {
        let at = self.out.len() - self.line_start;
        if !self.indentation || at > column {
            self.line_break();
        }
        let at = self.out.len() - self.line_start;
        self.out.extend(std::iter::repeat_n(' ', column.saturating_sub(at)));
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.line_start = self.out.len();
        self.indentation = true;
    }

    fn marker(&mut self, marker: char) {
        self.separate();
        self.out.push(marker);
    }

    fn token(&mut self, text: &str) {
        self.separate();
        self.out.push_str(text);
        self.indentation = false;
    }

    fn separate(&mut self) {
        if self.out.len() > self.line_start && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
    }
}

/// The column of a node's content, given that of the collection around it.
fn inner(parent: Option<usize>, place: NodePosition, root: usize) -> usize {
    match (parent, place) {
        (None, _) => root,
        (Some(column), NodePosition::SequenceItem) => column + 2,
        (Some(column), _) => (column + INDENT) / INDENT * INDENT,
    }
}

enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// What YAML takes for line breaks.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

fn style(text: &str, place: NodePosition) -> Style {
    // Breaks other than `\n` survive only as escapes.
    let escaped = text.chars().any(|c| c != '\n' && c != '\t' && (!is_printable(c) || BREAKS.contains(&c)));
    if escaped {
        return Style::DoubleQuoted;
    }
    if text.contains('\n') {
        let literal = place != NodePosition::SimpleKey && !text.ends_with(' ') && !text.contains(" \n");
        return if literal { Style::Literal } else { Style::DoubleQuoted };
    }
    if resolve(text) != Scalar::Text || text.contains('\t') {
        return Style::DoubleQuoted;
    }
    if is_plain(text) { Style::Plain } else { Style::SingleQuoted }
}

/// Whether a non-empty, printable, one-line text needs no quotes.
fn is_plain(text: &str) -> bool {
    let first = text.as_bytes().first().copied().unwrap_or_default();
    let blank_second = text.as_bytes().get(1).is_none_or(|second| *second == b' ');
    let indicator = match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
        | b'@' | b'`' => true,
        b'?' | b':' | b'-' => blank_second,
        _ => false,
    };
    !(indicator
        || text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(' ')
        || text.ends_with(' ')
        || text.ends_with(':')
        || text.contains(": ")
        || text.contains(" #"))
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn double_quoted(text: &str) -> String {
    // Once a text starts with a byte order mark, go-yaml escapes all of it.
    let all = text.starts_with('\u{feff}');
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if !all && is_printable(c) && !BREAKS.contains(&c) && c != '"' && c != '\\' {
            out.push(c);
            continue;
        }
        out.push('\\');
        match c {
            '\0' => out.push('0'),
            '\u{7}' => out.push('a'),
            '\u{8}' => out.push('b'),
            '\t' => out.push('t'),
            '\n' => out.push('n'),
            '\u{b}' => out.push('v'),
            '\u{c}' => out.push('f'),
            '\r' => out.push('r'),
            '\u{1b}' => out.push('e'),
            '"' | '\\' => out.push(c),
            '\u{85}' => out.push('N'),
            '\u{a0}' => out.push('_'),
            '\u{2028}' => out.push('L'),
            '\u{2029}' => out.push('P'),
            _ => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("x{code:02X}"),
                    0x100..=0xffff => format!("u{code:04X}"),
                    _ => format!("U{code:08X}"),
                });
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::read, *};

    #[test]
    fn values_are_spelled_as_go_yaml_spells_them() {
        for (value, expected) in [
            (json!(null), "null\n"),
            (json!(1.5), "1.5\n"),
            (json!(""), "\"\"\n"),
            (json!("plain text"), "plain text\n"),
            (json!("true"), "\"true\"\n"),
            (json!("2024-01-02"), "\"2024-01-02\"\n"),
            (json!("yes"), "yes\n"),
            (json!("a: b"), "'a: b'\n"),
            (json!("it's: x"), "'it''s: x'\n"),
            (json!("- x"), "'- x'\n"),
            (json!("-x"), "-x\n"),
            (json!(" x"), "' x'\n"),
            (json!("a\tb"), "\"a\\tb\"\n"),
            (json!("😀"), "\"\\U0001F600\"\n"),
            (json!("é"), "é\n"),
            (json!("two\nlines"), "|-\n    two\n    lines\n"),
            (json!("two\nlines\n"), "|\n    two\n    lines\n"),
            (json!("two\n\n"), "|+\n    two\n\n"),
            (json!("two \nlines"), "\"two \\nlines\"\n"),
            (json!("\ntwo"), "|4-\n\n    two\n"),
            (json!({"k": "\ntwo"}), "k: |4-\n\n    two\n"),
            (json!(["\ntwo"]), "- \"\\ntwo\"\n"),
            (json!(["two\nlines"]), "- |-\n  two\n  lines\n"),
            (json!({}), "{}\n"),
            (json!([]), "[]\n"),
            (json!([[1, [2]], {"a": 1, "b": [3]}]), "- - 1\n  - - 2\n- a: 1\n  b:\n    - 3\n"),
            (json!({"a": {"b": {"c": []}}}), "a:\n    b:\n        c: []\n"),
            (json!({"two\nlines": {"a": 1}}), "? |-\n    two\n    lines\n:   a: 1\n"),
        ] {
            assert_eq!(write(&value).as_deref(), Some(expected), "{value}");
            assert_eq!(read(expected), Ok(value));
        }
    }

    #[test]
    fn a_key_takes_the_long_form_only_past_its_limit() {
        let key = |length| "k".repeat(length);
        let at = json!({ key(MAX_SIMPLE_KEY_BYTES): 1 });
        let past = json!({ key(MAX_SIMPLE_KEY_BYTES + 1): 1 });
        assert!(write(&at).unwrap().starts_with('k'));
        assert!(write(&past).unwrap().starts_with("? k"));
        for value in [at, past] {
            assert_eq!(read(&write(&value).unwrap()), Ok(value));
        }
    }

    #[test]
    fn values_nest_to_the_limit_and_no_further() {
        let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
        assert!(write(&nested(MAX_VALUE_DEPTH)).is_some());
        assert!(write(&nested(MAX_VALUE_DEPTH + 1)).is_none());
    }
}
