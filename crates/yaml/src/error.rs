//! What can be wrong with a text, and where.

/// A problem and the place of the text that caused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct Error {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is not YAML; the words are the scanner's.
    #[error("{0}")]
    Syntax(String),
    #[error("nested deeper than {} levels", crate::MAX_DEPTH)]
    TooDeep,
    #[error("unknown anchor `{0}`")]
    UnknownAnchor(String),
    #[error("anchor `{0}` contains itself")]
    RecursiveAnchor(String),
    /// Aliases make up more of the document than upstream allows.
    #[error("document contains excessive aliasing")]
    ExcessiveAliasing,
    #[error("aliases copy more than {} bytes of text", crate::MAX_ALIASED_BYTES)]
    AliasedTextTooLong,
    /// The place is the second key's. `value_line` is where that key's value
    /// starts: the line upstream names in `key "k" already set in map`.
    #[error("key `{key}` is already set in this mapping")]
    DuplicateKey { key: String, value_line: usize },
    /// As above, where one of the two came in by `<<`. Only upstream's strict
    /// reading minds.
    #[error("key `{key}` is already set by a merge")]
    MergedKeySetAgain { key: String, value_line: usize },
    /// A key that is null, a collection, or an integer of 2^63 or more.
    #[error("{0} cannot be a key")]
    UnsupportedKey(&'static str),
    #[error("`<<` needs a mapping or a sequence of mappings")]
    MergeNeedsMapping,
    /// Two `<<` in one mapping, where that is minded.
    #[error("`<<` stands twice in this mapping")]
    MergeTwice,
    #[error("`{text}` is not a {tag}")]
    TagMismatch { tag: &'static str, text: String },
    #[error("!!binary value is not valid base64")]
    InvalidBase64,
    #[error("`{0}` has no form in JSON")]
    NotInJson(String),
}
