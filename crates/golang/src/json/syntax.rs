//! Whether a text is JSON, with the messages of Go's decoder.
//!
//! Some kinds hold JSON inside a string and report what the decoder says.

use crate::strconv::go_quote;

/// Go's decoder gives up below this many open brackets.
pub const MAX_DEPTH: usize = 10_000;

/// What stands at the top of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Top {
    /// As Go names it in `json: cannot unmarshal … into …`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// What [`check`] finds in a text without syntax errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub top: Top,
    /// The first number no 64-bit float holds.
    pub overflow: Option<String>,
}

/// An object, or `null`; else Go's message for decoding into `map[string]interface {}`.
pub fn check_object(text: &[u8]) -> Result<(), String> {
    let document = check(text)?;
    match (document.top, document.overflow) {
        (Top::Object, Some(number)) => {
            Err(format!("json: cannot unmarshal number {number} into Go value of type float64"))
        }
        (Top::Object | Top::Null, _) => Ok(()),
        (other, _) => {
            let found = other.name();
            Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
    }
}

/// Reads the whole text; the error is Go's.
pub fn check(text: &[u8]) -> Result<Document, String> {
    let mut scanner = Scanner { text, next: 0, overflow: None };
    let top = scanner.document()?;
    Ok(Document { top, overflow: scanner.overflow })
}

struct Scanner<'a> {
    text: &'a [u8],
    next: usize,
    overflow: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Array,
    Object,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<Top, String> {
        self.blanks();
        let top = match self.peek() {
            Some(b'n') => Top::Null,
            Some(b't' | b'f') => Top::Bool,
            Some(b'"') => Top::String,
            Some(b'[') => Top::Array,
            Some(b'{') => Top::Object,
            _ => Top::Number,
        };
        let mut open = Vec::new();
        loop {
            // Where a value is due. Opening brackets nest without recursion.
            match self.value_start()? {
                Some(bracket) => {
                    open.push(bracket);
                    if open.len() > MAX_DEPTH {
                        return Err("exceeded max depth".into());
                    }
                    self.blanks();
                    match (bracket, self.peek()) {
                        (Open::Array, Some(b']')) | (Open::Object, Some(b'}')) => {}
                        (Open::Array, _) => continue,
                        (Open::Object, _) => {
                            self.key()?;
                            continue;
                        }
                    }
                }
                None => self.blanks(),
            }
            // After a value, or before the bracket that closes an empty one.
            loop {
                self.blanks();
                match (open.last(), self.peek()) {
                    (None, None) => return Ok(top),
                    (None, Some(_)) => return Err(self.unexpected("after top-level value")),
                    (Some(Open::Array), Some(b']')) | (Some(Open::Object), Some(b'}')) => {
                        self.next += 1;
                        open.pop();
                    }
                    (Some(Open::Array), Some(b',')) => {
                        self.next += 1;
                        break;
                    }
                    (Some(Open::Object), Some(b',')) => {
                        self.next += 1;
                        self.key()?;
                        break;
                    }
                    (Some(Open::Array), _) => return Err(self.unexpected_or_end("after array element")),
                    (Some(Open::Object), _) => {
                        return Err(self.unexpected_or_end("after object key:value pair"));
                    }
                }
            }
        }
    }

    /// Reads a scalar, or steps over an opening bracket and returns it.
    fn value_start(&mut self) -> Result<Option<Open>, String> {
        self.blanks();
        match self.peek() {
            Some(b'[') => {
                self.next += 1;
                return Ok(Some(Open::Array));
            }
            Some(b'{') => {
                self.next += 1;
                return Ok(Some(Open::Object));
            }
            Some(b'"') => self.string()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return Err(self.unexpected_or_end("looking for beginning of value")),
        }
        Ok(None)
    }

    fn key(&mut self) -> Result<(), String> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected_or_end("looking for beginning of object key string"));
        }
        self.string()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected_or_end("after object key"));
        }
        self.next += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.next += 1;
        loop {
            match self.peek() {
                None => return Err(END.into()),
                Some(b'"') => {
                    self.next += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(_) => self.next += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        self.next += 1;
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.next += 1,
            Some(b'u') => {
                self.next += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.next += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{expected}')")));
            }
            self.next += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let start = self.next;
        if self.peek() == Some(b'-') {
            self.next += 1;
        }
        match self.peek() {
            Some(b'0') => self.next += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.peek() == Some(b'.') {
            self.next += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.next += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.next += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = self.text.get(start..self.next).and_then(|text| std::str::from_utf8(text).ok());
        let overflows = |text: &&str| text.parse::<f64>().is_ok_and(f64::is_infinite);
        if let (None, Some(text)) = (&self.overflow, text.filter(overflows)) {
            self.overflow = Some(text.to_owned());
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected(context));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.next += 1;
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.next).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.next += 1;
        }
    }

    fn unexpected_or_end(&self, context: &str) -> String {
        if self.peek().is_none() { END.into() } else { self.unexpected(context) }
    }

    /// At the end Go feeds its scanner a blank, which is what the message then names.
    fn unexpected(&self, context: &str) -> String {
        let found = match self.peek().unwrap_or(b' ') {
            b'\'' => "\\'".into(),
            b'"' => "\"".into(),
            byte => {
                let quoted = go_quote(char::from(byte).encode_utf8(&mut [0; 4]));
                quoted.trim_matches('"').to_owned()
            }
        };
        format!("invalid character '{found}' {context}")
    }
}

const END: &str = "unexpected end of JSON input";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_ends_at_its_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(check(nested(MAX_DEPTH + 1).as_bytes()), Err("exceeded max depth".into()));
    }

    #[test]
    fn errors_read_as_gos_do() {
        for (text, expected) in [
            ("", END),
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("\"\\u12", "invalid character ' ' in \\u hexadecimal character escape"),
            ("{} {", "invalid character '{' after top-level value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{\"a\":}", "invalid character '}' looking for beginning of value"),
        ] {
            assert_eq!(check(text.as_bytes()), Err(expected.into()), "{text}");
        }
        for text in ["{}", " [ ] ", "{\"a\":[{},{\"b\":null}],\"c\":-0.5e+3}", "\"\\u12aF\"", "0"] {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
