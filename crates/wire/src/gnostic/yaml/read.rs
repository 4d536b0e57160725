//! YAML text to JSON value.
//!
//! Understood: one document of block and flow collections, scalars of every
//! style on one line, and block scalars. Not understood, and an error: anchors,
//! aliases, tags, directives, and quoted or plain scalars that run over several
//! lines. Nothing that writes this format emits those.

use serde_json::{Map, Value};

use super::{
    super::MAX_VALUE_DEPTH,
    resolve::{Scalar, resolve},
};

type Result<T> = std::result::Result<T, &'static str>;

/// The value of one document; `null` if it is empty.
pub(crate) fn read(text: &str) -> Result<Value> {
    // JSON is YAML, commonly sent, and read faster by its own parser.
    if text.starts_with(['{', '[', '"'])
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    let mut reader = Reader { text, at: 0, line_start: 0 };
    if reader.rest().starts_with("---\n") {
        reader.at = 4;
        reader.line_start = 4;
    }
    if !reader.skip_blank_lines() {
        return Ok(Value::Null);
    }
    let value = reader.node(None, 0)?;
    if reader.skip_blank_lines() { Err("text after the value") } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line_start: usize,
}

impl<'a> Reader<'a> {
    /// The node at the current position, which may be any column. `parent` is
    /// the column of the block collection around it, `depth` the number of
    /// collections.
    fn node(&mut self, parent: Option<usize>, depth: usize) -> Result<Value> {
        let column = self.column();
        if self.at_marker(b'-') {
            return self.sequence(column, deeper(depth)?);
        }
        if self.at_marker(b'?') || self.at_key() {
            return self.mapping(column, deeper(depth)?);
        }
        self.inline(parent, depth)
    }

    /// A node that cannot start a block collection.
    fn inline(&mut self, parent: Option<usize>, depth: usize) -> Result<Value> {
        let value = match self.peek() {
            Some(b'|' | b'>') => return self.block_scalar(parent).map(Value::String),
            Some(b'[' | b'{') => self.flow(depth)?,
            Some(b'"') => Value::String(self.double_quoted()?),
            Some(b'\'') => Value::String(self.single_quoted()?),
            _ => scalar(self.plain(Context::Block)?)?,
        };
        self.end_line()?;
        Ok(value)
    }

    fn sequence(&mut self, column: usize, depth: usize) -> Result<Value> {
        let mut values = Vec::new();
        loop {
            self.at += 1;
            values.push(self.content(column, After::Item, depth)?);
            if !self.skip_blank_lines() || self.column() < column {
                return Ok(Value::Array(values));
            }
            if self.column() > column {
                return Err("unexpected indentation");
            }
            if !self.at_marker(b'-') {
                return Ok(Value::Array(values));
            }
        }
    }

    fn mapping(&mut self, column: usize, depth: usize) -> Result<Value> {
        let mut object = Map::new();
        loop {
            let (key, after) = if self.at_marker(b'?') {
                self.at += 1;
                let key = self.content(column, After::Item, depth)?;
                let Value::String(key) = key else { return Err("key is not a string") };
                if !self.skip_blank_lines() || self.column() != column || !self.at_marker(b':') {
                    return Err("key without value");
                }
                (key, After::Item)
            } else {
                (self.key()?, After::Key)
            };
            self.at += 1;
            let value = self.content(column, after, depth)?;
            if object.insert(key, value).is_some() {
                return Err("repeated key");
            }
            if !self.skip_blank_lines() || self.column() < column {
                return Ok(Value::Object(object));
            }
            if self.column() > column {
                return Err("unexpected indentation");
            }
            if !self.at_marker(b'?') && !self.at_key() {
                return Err("expected a key");
            }
        }
    }

    /// What follows a marker of the collection at `column`.
    fn content(&mut self, column: usize, after: After, depth: usize) -> Result<Value> {
        self.skip_spaces();
        if !matches!(self.peek(), None | Some(b'\n' | b'#')) {
            return match after {
                After::Item => self.node(Some(column), depth),
                After::Key => self.inline(Some(column), depth),
            };
        }
        self.end_line()?;
        if !self.skip_blank_lines() {
            return Ok(Value::Null);
        }
        // A list may stand at the column of the key it belongs to.
        let inside =
            self.column() > column || after == After::Key && self.column() == column && self.at_marker(b'-');
        if inside { self.node(Some(column), depth) } else { Ok(Value::Null) }
    }

    /// A simple key; leaves the position at its `:`.
    fn key(&mut self) -> Result<String> {
        let key = match self.peek() {
            Some(b'"') => self.double_quoted()?,
            Some(b'\'') => self.single_quoted()?,
            _ => self.plain(Context::Block)?.to_owned(),
        };
        self.skip_spaces();
        if self.peek() == Some(b':') { Ok(key) } else { Err("expected `:`") }
    }

    /// Whether a simple key stands here. Looks no further than this line.
    fn at_key(&self) -> bool {
        let mut probe = Reader { text: self.text, at: self.at, line_start: self.line_start };
        probe.key().is_ok() && probe.ends_token(1)
    }

    fn flow(&mut self, depth: usize) -> Result<Value> {
        match self.peek() {
            Some(b'[') => {
                let depth = deeper(depth)?;
                self.at += 1;
                let mut values = Vec::new();
                loop {
                    self.skip_flow_space();
                    if self.take(b']') {
                        return Ok(Value::Array(values));
                    }
                    values.push(self.flow(depth)?);
                    self.skip_flow_space();
                    if !self.take(b',') && self.peek() != Some(b']') {
                        return Err("expected `,` or `]`");
                    }
                }
            }
            Some(b'{') => {
                let depth = deeper(depth)?;
                self.at += 1;
                let mut object = Map::new();
                loop {
                    self.skip_flow_space();
                    if self.take(b'}') {
                        return Ok(Value::Object(object));
                    }
                    let key = match self.peek() {
                        Some(b'"') => self.double_quoted()?,
                        Some(b'\'') => self.single_quoted()?,
                        _ => self.plain(Context::Flow)?.to_owned(),
                    };
                    self.skip_flow_space();
                    let value = if self.take(b':') {
                        self.skip_flow_space();
                        if matches!(self.peek(), Some(b',' | b'}')) { Value::Null } else { self.flow(depth)? }
                    } else {
                        Value::Null
                    };
                    if object.insert(key, value).is_some() {
                        return Err("repeated key");
                    }
                    self.skip_flow_space();
                    if !self.take(b',') && self.peek() != Some(b'}') {
                        return Err("expected `,` or `}`");
                    }
                }
            }
            Some(b'"') => self.double_quoted().map(Value::String),
            Some(b'\'') => self.single_quoted().map(Value::String),
            _ => scalar(self.plain(Context::Flow)?),
        }
    }

    fn plain(&mut self, context: Context) -> Result<&'a str> {
        match self.peek() {
            None | Some(b'\n') => return Err("expected a value"),
            Some(
                b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@'
                | b'`' | b'"' | b'\'',
            ) => return Err("unsupported or misplaced indicator"),
            Some(b'-' | b'?' | b':') if self.ends_token(1) => return Err("misplaced indicator"),
            _ => {}
        }
        let rest = self.rest();
        let mut previous = b'x';
        let mut length = rest.len();
        for (at, byte) in rest.bytes().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\t' => return Err("tab in a plain scalar"),
                b':' => self.ends_token(at + 1) || context == Context::Flow && self.ends_flow(at + 1),
                b'#' => previous == b' ',
                b',' | b'[' | b']' | b'{' | b'}' => context == Context::Flow,
                _ => false,
            };
            if ends {
                length = at;
                break;
            }
            previous = byte;
        }
        let text = rest.get(..length).unwrap_or_default().trim_end_matches(' ');
        self.at += text.len();
        Ok(text)
    }

    fn single_quoted(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(['\'', '\n']).ok_or("quote is not closed")?;
            out.push_str(rest.get(..end).unwrap_or_default());
            self.at += end;
            if self.peek() == Some(b'\n') {
                return Err("quoted text of several lines");
            }
            self.at += 1;
            if !self.take(b'\'') {
                return Ok(out);
            }
            out.push('\'');
        }
    }

    fn double_quoted(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(['"', '\\', '\n']).ok_or("quote is not closed")?;
            out.push_str(rest.get(..end).unwrap_or_default());
            self.at += end;
            match self.next() {
                Some(b'"') => return Ok(out),
                Some(b'\\') => out.push(self.escape()?),
                _ => return Err("quoted text of several lines"),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        Ok(match self.next() {
            Some(b'0') => '\0',
            Some(b'a') => '\u{7}',
            Some(b'b') => '\u{8}',
            Some(b't' | b'\t') => '\t',
            Some(b'n') => '\n',
            Some(b'v') => '\u{b}',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'e') => '\u{1b}',
            Some(b' ') => ' ',
            Some(b'"') => '"',
            Some(b'/') => '/',
            Some(b'\\') => '\\',
            Some(b'N') => '\u{85}',
            Some(b'_') => '\u{a0}',
            Some(b'L') => '\u{2028}',
            Some(b'P') => '\u{2029}',
            Some(b'x') => self.code(2)?,
            Some(b'u') => self.code(4)?,
            Some(b'U') => self.code(8)?,
            _ => return Err("unknown escape"),
        })
    }

    fn code(&mut self, digits: usize) -> Result<char> {
        let text = self.rest().get(..digits).ok_or("unfinished escape")?;
        if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("malformed escape");
        }
        self.at += digits;
        u32::from_str_radix(text, 16).ok().and_then(char::from_u32).ok_or("escape of no character")
    }

    /// `|` or `>` with its content; leaves the position after its last line.
    fn block_scalar(&mut self, parent: Option<usize>) -> Result<String> {
        let folded = self.next() == Some(b'>');
        let (mut hint, mut chomp) = (None, None);
        loop {
            match self.peek() {
                Some(digit @ b'1'..=b'9') if hint.is_none() => hint = Some(usize::from(digit - b'0')),
                Some(sign @ (b'-' | b'+')) if chomp.is_none() => chomp = Some(sign),
                _ => break,
            }
            self.at += 1;
        }
        self.end_line()?;
        let outer = parent.map_or(0, |column| column + 1);
        let mut indent = hint.map(|hint| parent.unwrap_or(0) + hint);
        let mut lines = Vec::new();
        while let Some(line) = self.rest().split_inclusive('\n').next() {
            let content = line.trim_end_matches('\n');
            let spaces = content.bytes().take_while(|b| *b == b' ').count();
            let blank = spaces == content.len();
            if !blank && indent.is_none() {
                if spaces < outer {
                    break;
                }
                indent = Some(spaces);
            }
            match indent {
                Some(indent) if !blank && spaces < indent => break,
                Some(indent) => lines.push(content.get(indent..).unwrap_or_default()),
                None => lines.push(""),
            }
            self.at += line.len();
            self.line_start = self.at;
        }
        let last = lines.iter().rposition(|line| !line.is_empty());
        let kept = last.map_or(0, |last| last + 1);
        let (content, trailing) = lines.split_at_checked(kept).unwrap_or_default();
        let mut out = if folded { fold(content) } else { content.join("\n") };
        match chomp {
            Some(b'-') => {}
            Some(_) => out.extend(std::iter::repeat_n('\n', trailing.len() + usize::from(kept > 0))),
            None => out.extend((kept > 0).then_some('\n')),
        }
        Ok(out)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn column(&self) -> usize {
        self.at - self.line_start
    }

    /// Whether a blank, a line break or the end stands this many bytes ahead.
    fn ends_token(&self, ahead: usize) -> bool {
        matches!(self.text.as_bytes().get(self.at + ahead), None | Some(b' ' | b'\n' | b'\t'))
    }

    fn ends_flow(&self, ahead: usize) -> bool {
        matches!(self.text.as_bytes().get(self.at + ahead), Some(b',' | b'[' | b']' | b'{' | b'}'))
    }

    fn at_marker(&self, marker: u8) -> bool {
        self.peek() == Some(marker) && self.ends_token(1)
    }

    fn skip_spaces(&mut self) {
        while self.take(b' ') {}
    }

    /// The rest of a line after a value: nothing, or a comment.
    fn end_line(&mut self) -> Result<()> {
        let start = self.at;
        self.skip_spaces();
        if self.peek() == Some(b'#') && (self.at > start || self.column() == 0) {
            self.skip_comment();
        }
        match self.next() {
            None => Ok(()),
            Some(b'\n') => {
                self.line_start = self.at;
                Ok(())
            }
            Some(_) => Err("text after a value"),
        }
    }

    /// Moves to the first non-blank of the next line that has one, unless the
    /// position is inside a line. `false` at the end of the document.
    fn skip_blank_lines(&mut self) -> bool {
        loop {
            self.skip_spaces();
            match self.peek() {
                None => return false,
                Some(b'\n') => {
                    self.at += 1;
                    self.line_start = self.at;
                }
                Some(b'#') => self.skip_comment(),
                Some(b'.') if self.column() == 0 && self.at_document_end() => {
                    self.at = self.text.len();
                    return false;
                }
                Some(_) => return true,
            }
        }
    }

    fn at_document_end(&self) -> bool {
        self.rest().strip_prefix("...").is_some_and(|rest| rest.trim_start().is_empty())
    }

    fn skip_comment(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn skip_flow_space(&mut self) {
        while let Some(byte @ (b' ' | b'\n' | b'\t')) = self.peek() {
            self.at += 1;
            if byte == b'\n' {
                self.line_start = self.at;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// `-`, `?`, or the `:` of a `?` key: a collection may start on this line.
    Item,
    /// The `:` of a simple key.
    Key,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Block,
    Flow,
}

/// One more collection around what follows.
fn deeper(depth: usize) -> Result<usize> {
    if depth < MAX_VALUE_DEPTH { Ok(depth + 1) } else { Err("nested too deep") }
}

fn scalar(text: &str) -> Result<Value> {
    match resolve(text) {
        Scalar::Null => Ok(Value::Null),
        Scalar::Bool(value) => Ok(Value::Bool(value)),
        Scalar::Number(value) => value.ok_or("number that JSON does not have"),
        Scalar::Timestamp | Scalar::Text => Ok(text.into()),
    }
}

/// Single breaks between lines become spaces; blank lines and breaks around
/// more-indented lines stay.
fn fold(lines: &[&str]) -> String {
    let mut out = String::new();
    let indented = |line: &str| line.starts_with([' ', '\t']);
    let mut previous: Option<&str> = None;
    let mut blank = 0;
    for line in lines {
        if line.is_empty() {
            blank += 1;
            continue;
        }
        if let Some(previous) = previous {
            if indented(previous) || indented(line) {
                out.push('\n');
            } else if blank == 0 {
                out.push(' ');
            }
        }
        out.extend(std::iter::repeat_n('\n', blank));
        out.push_str(line);
        previous = Some(line);
        blank = 0;
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_as_yaml() {
        for (text, expected) in [
            ("", json!(null)),
            ("\n# only a comment\n", json!(null)),
            ("plain text # comment\n", json!("plain text")),
            ("a#b: c\n", json!({"a#b": "c"})),
            ("---\na: 1\n...\n", json!({"a": 1})),
            ("a:\n- 1\n- 2\nb:\n", json!({"a": [1, 2], "b": null})),
            (
                "a:\n    - b: 1\n      c:\n        - d\n    -\n    - - e\n",
                json!({"a": [{"b": 1, "c": ["d"]}, null, ["e"]]}),
            ),
            ("- a:\n    b\n", json!([{"a": "b"}])),
            ("? long\n:   x: 1\n    y: 2\n", json!({"long": {"x": 1, "y": 2}})),
            ("? |-\n    two\n    lines\n: v\n", json!({"two\nlines": "v"})),
            ("'it''s': \"\\x41\\u00e9\\U0001F600\\_\\n\"\n", json!({"it's": "Aé😀\u{a0}\n"})),
            ("a: |\n    x\n      y\n\n    z\nb: 1\n", json!({"a": "x\n  y\n\nz\n", "b": 1})),
            ("a: |+\n    x\n\nb: |-\n    y\n\n", json!({"a": "x\n\n", "b": "y"})),
            ("a: |2\n    x\n", json!({"a": "  x\n"})),
            ("a: >\n    x\n    y\n\n    z\n", json!({"a": "x y\nz\n"})),
            (
                "{a: [1, two, \"3\"], 'b': {}, c: , d}",
                json!({"a": [1, "two", "3"], "b": {}, "c": null, "d": null}),
            ),
            ("[a,\n  b: c\n]", json!(null)),
            ("{\"a\":[1.5,true]}\n", json!({"a": [1.5, true]})),
            ("url: http://x:80/y\n", json!({"url": "http://x:80/y"})),
            ("t: 2024-01-02\n", json!({"t": "2024-01-02"})),
        ] {
            // A pair in a list without braces is YAML, but nothing writes it.
            if expected.is_null() && text.starts_with('[') {
                assert!(read(text).is_err(), "{text:?}");
            } else {
                assert_eq!(read(text), Ok(expected), "{text:?}");
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "&a b",
            "*a",
            "!!str 1",
            "%YAML 1.1",
            "@x",
            "a: b\n  c",
            "a: b: c",
            "- a\nb: c",
            "a: 1\na: 2",
            "[1",
            "{a: 1",
            "\"open",
            "'open",
            "\"\\q\"",
            "\"\\ud800\"",
            "a: |x\n",
            ".inf",
            "{a: 1, a: 2}",
            "a: 1\n b: 2",
            "? a\nb",
            "[a]]",
            "two\nlines",
            "a:\tb\n c",
        ] {
            assert!(read(text).is_err(), "{text:?} gave {:?}", read(text));
        }
    }

    #[test]
    fn values_nest_to_the_limit_and_no_further() {
        let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let block = |depth: usize| format!("{}x\n", "- ".repeat(depth));
        for text in [flow, block] {
            assert!(read(&text(MAX_VALUE_DEPTH)).is_ok());
            assert!(read(&text(MAX_VALUE_DEPTH + 1)).is_err());
        }
    }
}
