//! Expressions of policies: what they are for, and what may be wrong with them.

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
