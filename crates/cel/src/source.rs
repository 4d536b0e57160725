//! The text of an expression and where things are in it; compile errors and
//! the way they print.

use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc};

/// An error found before evaluation, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// 1-based; -1 where the error is about the text as a whole.
    pub line: i64,
    /// 1-based, in code points; 0 with no line.
    pub column: i64,
    pub message: String,
    /// The line the error is on, for the pointer below it.
    snippet: Option<Arc<str>>,
}

impl Error {
    pub(crate) fn whole(message: String) -> Self {
        Self { line: -1, column: 0, message, snippet: None }
    }
}

/// Prints as upstream does: the message, the line, and a pointer.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {}", self.line, self.column, self.message)?;
        let Some(snippet) = &self.snippet else { return Ok(()) };
        write!(f, "\n | {}\n | ", snippet.replace('\t', " "))?;
        let before = usize::try_from(self.column - 1).unwrap_or(0);
        if snippet.is_ascii() {
            return write!(f, "{:.<before$}^", "");
        }
        let mut characters = snippet.chars();
        for _ in 0..before {
            // Wide characters get wide dots, so that the pointer stays below.
            f.write_str(if characters.next().is_some_and(|c| c.len_utf8() > 1) { "．" } else { "." })?;
        }
        f.write_str(if characters.next().is_some_and(|c| c.len_utf8() > 1) { "＾" } else { "^" })
    }
}

impl std::error::Error for Error {}

/// Errors as one text, in the order of their places.
pub fn render(errors: &[Error]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// An expression's text as code points, with the starts of its lines.
#[derive(Debug)]
pub(crate) struct Source {
    pub characters: Vec<char>,
    lines: Vec<usize>,
    /// Lines that errors showed: a long one may hold many.
    shown: RefCell<HashMap<usize, Arc<str>>>,
}

impl Source {
    pub fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut lines = vec![0];
        lines.extend(characters.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at + 1));
        Self { characters, lines, shown: RefCell::default() }
    }

    pub fn error(&self, offset: usize, message: impl Into<String>) -> Error {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let snippet = self.shown.borrow_mut().entry(start).or_insert_with(|| self.line_at(start)).clone();
        // An empty text has no line to show and no first column.
        let empty = self.characters.is_empty();
        Error {
            line: i64::try_from(line).unwrap_or(i64::MAX),
            column: if empty { 0 } else { i64::try_from(offset - start + 1).unwrap_or(i64::MAX) },
            message: message.into(),
            snippet: (!empty).then_some(snippet),
        }
    }

    fn line_at(&self, start: usize) -> Arc<str> {
        let line: String = self.characters.iter().skip(start).take_while(|c| **c != '\n').collect();
        line.into()
    }
}
