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
