//! The words of the language.

use std::sync::Arc;

use crate::{
    parse::MAX_ERRORS,
    source::{Error, Source},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Symbol(&'static str),
    Ident(Arc<str>),
    Quoted,
    Int(String),
    Uint(String),
    Float(String),
    Text(String),
    Bytes(String),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// Longest first, so that `==` is not read as two of something.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]",
    "{", "}", ".", ",", "in", "true",
];

/// All tokens, `End` last; what is no token is skipped and reported.
pub(crate) fn tokens(source: &Source, errors: &mut Vec<Error>) -> Vec<Spanned> {
    let mut lexer = Lexer { text: &source.characters, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        let Some(c) = lexer.peek(0) else { break };
        match lexer.token(c) {
            Ok(token) => found.push(Spanned { token, start, end: lexer.at }),
            Err(bad_end) => {
                let end = bad_end.max(start + 1).min(lexer.text.len());
                let text: String = lexer.text.get(start..end).unwrap_or_default().iter().collect();
                if errors.len() < MAX_ERRORS {
                    errors.push(source.error(
                        start,
                        format!("Syntax error: token recognition error at: '{}'", visible(&text)),
                    ));
                }
                lexer.at = end;
            }
        }
    }
    let end = lexer.text.len();
    found.push(Spanned { token: Token::End, start: end, end });
    found
}

/// Line breaks and tabs as the message spells them.
pub(crate) fn visible(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

struct Lexer<'a> {
    text: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.at += 1;
            } else if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    /// The token at this place, or the end of what cannot be one.
    fn token(&mut self, c: char) -> Result<Token, usize> {
        if let Some(token) = self.string()? {
            return Ok(token);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Ok(self.number());
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let start = self.at;
            while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                self.at += 1;
            }
            let word: String = self.text.get(start..self.at).unwrap_or_default().iter().collect();
            return Ok(match word.as_str() {
                "in" => Token::Symbol("in"),
                "true" => Token::Symbol("true"),
                "false" => Token::Symbol("false"),
                "null" => Token::Symbol("null"),
                _ => Token::Ident(word.into()),
            });
        }
        if c == '`' {
            return self.quoted();
        }
        for symbol in SYMBOLS {
            if !symbol.starts_with(char::is_alphabetic)
                && symbol.chars().enumerate().all(|(n, c)| self.peek(n) == Some(c))
            {
                self.at += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        // `=`, `&` and `|` begin a token whose next character is then wrong.
        Err(if matches!(c, '=' | '&' | '|') { self.at + 2 } else { self.at + 1 })
    }

    fn quoted(&mut self) -> Result<Token, usize> {
        let mut end = self.at + 1;
        while self
            .text
            .get(end)
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '))
        {
            end += 1;
        }
        if self.text.get(end) == Some(&'`') && end > self.at + 1 {
            self.at = end + 1;
            return Ok(Token::Quoted);
        }
        Err(end + 1)
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        if self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
            return self.integer(start);
        }
        digits(self);
        let mut float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                float = true;
                self.at += 1 + sign;
                digits(self);
            }
        }
        if float { Token::Float(self.since(start)) } else { self.integer(start) }
    }

    fn integer(&mut self, start: usize) -> Token {
        let text = self.since(start);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint(text);
        }
        Token::Int(text)
    }

    fn since(&self, start: usize) -> String {
        self.text.get(start..self.at).unwrap_or_default().iter().collect()
    }

    /// A string or bytes literal, prefix and quotes included: they are taken
    /// apart by [`unescape`].
    fn string(&mut self) -> Result<Option<Token>, usize> {
        let (mut raw, mut bytes, mut at) = (false, false, self.at);
        loop {
            match self.text.get(at) {
                Some('r' | 'R') if !raw => raw = true,
                Some('b' | 'B') if !bytes && !raw => bytes = true,
                Some('\'' | '"') => break,
                _ => return Ok(None),
            }
            at += 1;
        }
        let Some(quote) = self.text.get(at).copied() else { return Ok(None) };
        let prefix = at;
        match self.string_end(at, quote, raw) {
            Ok(end) => at = end,
            // What cannot be a literal leaves its prefix as a name.
            Err(_) if prefix > self.at => return Ok(None),
            Err(end) => return Err(end),
        }
        let start = self.at;
        self.at = at;
        let text = self.since(start);
        Ok(Some(if bytes { Token::Bytes(text) } else { Token::Text(text) }))
    }

    /// The end of the literal whose first quote is at `at`.
    fn string_end(&self, mut at: usize, quote: char, raw: bool) -> Result<usize, usize> {
        let long = self.text.get(at + 1) == Some(&quote) && self.text.get(at + 2) == Some(&quote);
        let width = if long { 3 } else { 1 };
        at += width;
        loop {
            let Some(c) = self.text.get(at).copied() else { return Err(at) };
            if c == quote && (1..width).all(|n| self.text.get(at + n) == Some(&quote)) {
                return Ok(at + width);
            }
            if !long && matches!(c, '\n' | '\r') {
                return Err(at + 1);
            }
            if c == '\\' && !raw {
                at = self.escape(at)?;
            } else {
                at += 1;
            }
        }
    }

    /// The end of the escape at `at`, or where it stops being one.
    fn escape(&self, at: usize) -> Result<usize, usize> {
        let hex = |count: usize| {
            for n in 0..count {
                if !self.text.get(at + 2 + n).is_some_and(char::is_ascii_hexdigit) {
                    return Err(at + 3 + n);
                }
            }
            Ok(at + 2 + count)
        };
        match self.text.get(at + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '\'' | '"' | '`' | '?') => Ok(at + 2),
            Some('x' | 'X') => hex(2),
            Some('u') => hex(4),
            Some('U') => hex(8),
            Some('0'..='3') => {
                for n in 2..4 {
                    if !matches!(self.text.get(at + n), Some('0'..='7')) {
                        return Err(at + n + 1);
                    }
                }
                Ok(at + 4)
            }
            _ => Err(at + 2),
        }
    }
}

/// What a literal's text stands for. `Err` carries upstream's message.
pub(crate) fn unescape(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let prefix = literal.find(['\'', '"']).unwrap_or(0);
    let (flags, body) = literal.split_at(prefix);
    let raw = flags.contains(['r', 'R']);
    let width =
        if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let body = body.get(width..body.len().saturating_sub(width)).unwrap_or_default();
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    if raw {
        return Ok(body.into_bytes());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.chars();
    let mut utf8 = [0; 4];
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            continue;
        }
        let escape = rest.next().ok_or("unable to unescape string")?;
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(escape).unwrap_or(b'?'),
            _ => 0,
        };
        if simple != 0 {
            out.push(simple);
            continue;
        }
        let (radix, mut code, digits) = match escape {
            'x' | 'X' => (16, 0, 2),
            'u' => (16, 0, 4),
            'U' => (16, 0, 8),
            _ => (8, escape.to_digit(8).ok_or("unable to unescape string")?, 2),
        };
        if bytes && matches!(escape, 'u' | 'U') {
            return Err("unable to unescape string");
        }
        for _ in 0..digits {
            let digit = rest.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
            code = code.wrapping_mul(radix).wrapping_add(digit);
        }
        if bytes {
            out.push(u8::try_from(code).map_err(|_| "unable to unescape string")?);
        } else {
            let c = char::from_u32(code).ok_or("invalid unicode code point")?;
            out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
        }
    }
    Ok(out)
}
