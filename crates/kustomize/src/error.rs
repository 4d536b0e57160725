//! What stops a build. The words are kustomize's own, since people search for
//! them; what we know beyond goes into the hint.

/// A build's failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    cause: Cause,
    hint: Option<String>,
}

/// The few causes that decide how a build goes on or what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A file that is there and is not YAML: it is not tried as a directory.
    MalformedYaml,
    /// A directory without a kustomization file.
    NoKustomization,
    /// A server that does not have a file: it is not tried as a directory.
    HttpStatus,
    /// A schema that is asked for and cannot be read, whatever was to be read with it.
    UnreadableSchema,
    Other,
}

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: Cause::Other, hint: None }
    }

    pub(crate) fn caused(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, ..Self::new(message) }
    }

    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// What may help, with the place, for a line of its own.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The place that the hint begins with, a file with line and column, and what it says of it.
    pub fn place(&self) -> Option<(&str, u32, u32, &str)> {
        let hint = self.hint()?;
        let number = |text: &'_ str| -> Option<(u32, usize)> {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            Some((text.get(..digits)?.parse().ok()?, digits))
        };
        hint.match_indices(':').find_map(|(at, _)| {
            let (file, rest) = (hint.get(..at)?, hint.get(at + 1..)?);
            let (line, digits) = number(rest)?;
            let rest = rest.get(digits..)?.strip_prefix(':')?;
            let (column, digits) = number(rest)?;
            let rest = rest.get(digits..)?;
            Some((file, line, column, if rest.is_empty() { rest } else { rest.strip_prefix(": ")? }))
        })
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    /// A hint that is a place in a file gets the file before it.
    pub(crate) fn in_file(mut self, file: impl std::fmt::Display) -> Self {
        self.hint = self.hint.map(|place| format!("{file}:{place}"));
        self
    }

    /// `prefix: message`
    pub(crate) fn within(mut self, prefix: impl std::fmt::Display) -> Self {
        self.message = format!("{prefix}: {}", self.message);
        self
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_may_begin_with_a_place() {
        for (hint, expected) in [
            ("/a/k.yaml:3:14: there is no field", Some(("/a/k.yaml", 3, 14, "there is no field"))),
            ("k.yaml:3:14", Some(("k.yaml", 3, 14, ""))),
            ("c:/k.yaml:3:14: x: y", Some(("c:/k.yaml", 3, 14, "x: y"))),
            ("name the directory", None),
            ("a:1: b", None),
            ("a:1:2b", None),
        ] {
            assert_eq!(Error::new("").with_hint(hint).place(), expected, "{hint}");
        }
    }
}
