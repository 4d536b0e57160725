//! What the library says of an operation that fails.

use sternpost_golang::strconv::NumberError;

use super::{About, ApplyError, Member, Pointer, Reason};

/// What the library says of everything that is not there.
const MISSING: &str = "missing value";

impl ApplyError {
    /// The failure in the words of the library. It has none for what nests too deep.
    pub fn upstream(&self) -> String {
        let op = self.operation.op().unwrap_or("unknown");
        match &self.reason {
            Reason::UnknownOperation | Reason::MissingMember("op") | Reason::NotAString("op") => {
                format!("Unexpected kind: {op}")
            }
            Reason::MissingMember(member) | Reason::NotAString(member) => {
                format!("{op} operation failed to decode {member}: {}", self.unreadable(op, member))
            }
            Reason::MissingPath(path) => {
                let missing = match (op, self.about) {
                    ("add" | "remove", _) => format!("doc is missing path: \"{path}\""),
                    ("test", _) => format!("is missing path: {path}"),
                    ("replace", _) => format!("doc is missing path: {path}"),
                    (_, About::From) => format!("doc is missing from path: {path}"),
                    (_, About::Path) => format!("doc is missing destination path: {path}"),
                };
                format!("{op} operation does not apply: {missing}: {MISSING}")
            }
            Reason::MissingKey(key) => {
                self.within(op, &format!("Unable to remove nonexistent key: {key}: {MISSING}"))
            }
            Reason::OutOfRange { index, .. } => {
                self.within(op, &format!("Unable to access invalid index: {index}: invalid index referenced"))
            }
            Reason::NotAnIndex(key) => self.within(op, &self.not_an_index(op, key)),
            // Upstream wraps an error that it does not have.
            Reason::NotADocument => "replace operation value must be object or array: %!w(<nil>)".to_owned(),
            Reason::TestFailed => {
                format!("testing value {} failed: test failed", self.operation.path().unwrap_or_default())
            }
            Reason::TooMuchCopied { copied, limit } => format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {limit}"
            ),
            Reason::TooDeep => self.reason.to_string(),
        }
    }

    /// Why a member cannot be read. Some operations do not pass on what they are told.
    fn unreadable(&self, op: &str, member: &str) -> String {
        let found = if member == "path" { &self.operation.path } else { &self.operation.from };
        match (found, op, member) {
            (_, "add" | "remove" | "copy", "path") => MISSING.to_owned(),
            (Member::Wrong(found), ..) => {
                format!("json: cannot unmarshal {found} into Go value of type string")
            }
            (_, _, "path") => format!("operation missing path field: {MISSING}"),
            _ => format!("operation, missing from field: {MISSING}"),
        }
    }

    fn not_an_index(&self, op: &str, key: &str) -> String {
        let error = key.parse::<i64>().map_or_else(NumberError::from, |_| NumberError::Syntax);
        let error = error.text("Atoi", key);
        match (op, self.about) {
            ("add" | "move" | "copy", About::Path) => {
                format!("value was not a proper array index: '{key}': {error}")
            }
            _ => error,
        }
    }

    /// What an object or a list says, by what was to be done there.
    fn within(&self, op: &str, problem: &str) -> String {
        let path = self.operation.path().unwrap_or_default();
        let from = self.operation.from().unwrap_or_default();
        match (op, self.about) {
            // Upstream drops what it was told here.
            ("replace", _) => {
                format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
            }
            ("copy", About::Path) => format!("error while adding value during copy: {problem}"),
            ("copy", About::From) => format!("error in copy for from: '{from}': {problem}"),
            ("move", About::From) => format!("error in move for path: '{}': {problem}", Pointer(from).key()),
            _ => format!("error in {op} for path: '{path}': {problem}"),
        }
    }
}
