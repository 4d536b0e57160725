//! Expressions of policies: what they are for, what may be wrong with them, and how what they name may be called.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Of `matchConditions`, which do not see `variables`.
    Condition,
    Validation,
    /// Does not see the authorizer.
    Message,
    AuditAnnotation,
    ApplyConfiguration,
    JsonPatch,
}

/// Why an expression cannot be used, as upstream tells who writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    Invalid(String),
    /// It is fine, and yet cannot run.
    Internal(String),
}

impl Problem {
    pub fn text(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Internal(text) => text,
        }
    }
}

/// Words that are tokens of CEL of their own.
const TOKENS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that CEL keeps for itself although they mean nothing.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether CEL keeps a word for itself: no variable is called so, and a property that is, is escaped.
pub fn is_reserved(word: &str) -> bool {
    TOKENS.contains(&word) || RESERVED.contains(&word)
}

/// Whether a variable may have this name.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_reserved(name)
}
