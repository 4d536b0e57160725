//! JSON Patch (RFC 6902), as the library of kube-apiserver and kustomize has it.
//!
//! [`decode()`] reads a body and [`read`] a value, [`apply`] changes a document,
//! [`ApplyError::upstream`] words a failure as the library does. Where the library
//! leaves the RFC, clients have come to depend on it:
//!
//! - `replace` of a key that is not there adds it;
//! - an index may have a sign and leading zeros, and a negative one counts
//!   from the end;
//! - `value` may be left out and is then null; `copy` from a key that is not
//!   there copies null, and `test` of one compares with null;
//! - `test` tells `1` from `1.0`;
//! - only `replace` and `test` know the whole document (path `""`);
//! - what stands before the first slash of a path is ignored.

use serde_json::{Value, map::Entry};
use sternpost_meta::cancel::checkpoint;

mod decode;
mod pointer;
mod words;

pub use decode::{DecodeError, decode, read};
pub use pointer::unescape;
use pointer::{Container, Pointer};

use crate::MAX_DEPTH;

/// How many operations a patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// How many bytes of JSON all `copy` operations of a request's patch together may copy.
pub const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Operations, not yet known to make sense: that shows when they are applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    op: Member,
    path: Member,
    from: Member,
    /// Null if left out.
    value: Value,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum Member {
    #[default]
    Absent,
    Text(String),
    /// There, but not a string: what Go calls it.
    Wrong(&'static str),
}

/// Which operation failed, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("operation {index}: {} {:?}: {reason}", .operation.op().unwrap_or_default(), .operation.path().unwrap_or_default())]
pub struct ApplyError {
    /// Of the operation, from zero.
    pub index: usize,
    /// Without its value.
    operation: Box<Operation>,
    /// Which of its pointers the reason is about.
    about: About,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Path,
    From,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("unknown operation")]
    UnknownOperation,
    #[error("the operation has no `{0}`")]
    MissingMember(&'static str),
    #[error("`{0}` is not a string")]
    NotAString(&'static str),
    /// Nothing there, or a scalar where an object or list would have to be.
    #[error("the document has no {0:?}")]
    MissingPath(String),
    #[error("there is no key {0:?}")]
    MissingKey(String),
    #[error("{0:?} is not an index")]
    NotAnIndex(String),
    #[error("index {index} is not within a list of {length}")]
    OutOfRange { index: i64, length: usize },
    #[error("the whole document can only become an object or a list")]
    NotADocument,
    #[error("the value found is not the value expected")]
    TestFailed,
    #[error("copied values have more than {limit} bytes")]
    TooMuchCopied { copied: usize, limit: usize },
    #[error("the result would nest deeper than {MAX_DEPTH}")]
    TooDeep,
}

/// All operations, one after the other, or none of them.
pub fn apply(document: Value, patch: &Patch) -> Result<Value, ApplyError> {
    apply_within(document, patch, MAX_COPIED)
}

/// As [`apply`], with another limit for what is copied.
pub fn apply_within(mut document: Value, patch: &Patch, max_copied: usize) -> Result<Value, ApplyError> {
    let mut copies = Copies { copied: 0, limit: max_copied };
    for (index, operation) in patch.operations.iter().enumerate() {
        operation.run(&mut document, &mut copies).map_err(|Failure { about, reason }| {
            let Operation { op, path, from, .. } = operation;
            let members =
                Operation { op: op.clone(), path: path.clone(), from: from.clone(), value: Value::Null };
            let operation = Box::new(members);
            ApplyError { index, operation, about, reason }
        })?;
    }
    Ok(document)
}

/// What a path leads to, if there is something.
pub fn get<'d>(document: &'d Value, path: &str) -> Option<&'d Value> {
    Pointer(path).get(document).ok().flatten()
}

impl Patch {
    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

impl FromIterator<Operation> for Patch {
    fn from_iter<T: IntoIterator<Item = Operation>>(operations: T) -> Self {
        Self { operations: operations.into_iter().collect() }
    }
}

impl Member {
    fn get(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Wrong(_) => None,
        }
    }

    fn text(&self, name: &'static str) -> Result<&str, Reason> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Absent => Err(Reason::MissingMember(name)),
            Self::Wrong(_) => Err(Reason::NotAString(name)),
        }
    }
}

/// A reason, and which pointer of the operation it is about.
struct Failure {
    about: About,
    reason: Reason,
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self { about: About::Path, reason }
    }
}

fn about_from(reason: Reason) -> Failure {
    Failure { about: About::From, reason }
}

/// What `copy` operations have copied, in bytes of JSON, and how much they may.
struct Copies {
    copied: usize,
    limit: usize,
}

impl Operation {
    pub fn new(op: &str, path: &str, value: Value) -> Self {
        let text = |text: &str| Member::Text(text.to_owned());
        Self { op: text(op), path: text(path), from: Member::Absent, value }
    }

    /// Nothing if it is left out, or no string; so are the others.
    pub fn op(&self) -> Option<&str> {
        self.op.get()
    }

    pub fn path(&self) -> Option<&str> {
        self.path.get()
    }

    pub fn from(&self) -> Option<&str> {
        self.from.get()
    }

    fn run(&self, document: &mut Value, copies: &mut Copies) -> Result<(), Failure> {
        checkpoint();
        let path = || self.path.text("path").map(Pointer);
        let from = || self.from.text("from").map(Pointer).map_err(about_from);
        match self.op.text("op")? {
            "add" => add(document, path()?, self.value.clone())?,
            "remove" => remove(document, path()?).map(drop)?,
            "replace" => self.replace(document, path()?)?,
            "move" => {
                let value = remove(document, from()?).map_err(about_from)?;
                add(document, path()?, value)?;
            }
            "copy" => {
                let value = from()?.get(document).map_err(about_from)?.unwrap_or(&Value::Null);
                let path = path()?;
                copies.copied = copies.copied.saturating_add(size(value));
                let Copies { copied, limit } = *copies;
                if copied > limit {
                    return Err(Reason::TooMuchCopied { copied, limit }.into());
                }
                let value = value.clone();
                add(document, path, value)?;
            }
            "test" => self.test(document, path()?)?,
            _ => return Err(Reason::UnknownOperation.into()),
        }
        Ok(())
    }

    fn replace(&self, document: &mut Value, path: Pointer<'_>) -> Result<(), Reason> {
        if path.is_root() {
            return match &self.value {
                value @ (Value::Object(_) | Value::Array(_)) => {
                    *document = value.clone();
                    Ok(())
                }
                _ => Err(Reason::NotADocument),
            };
        }
        check_depth(path, &self.value)?;
        let (container, key) = path.container(document)?;
        match container {
            Container::Object(map) => {
                map.insert(key.into_owned(), self.value.clone());
            }
            Container::List(list) => {
                let index = pointer::existing(&key, list.len())?;
                if let Some(item) = list.get_mut(index) {
                    *item = self.value.clone();
                }
            }
        }
        Ok(())
    }

    fn test(&self, document: &Value, path: Pointer<'_>) -> Result<(), Reason> {
        let found = match path.is_root() {
            true => document,
            false => path.get(document)?.unwrap_or(&Value::Null),
        };
        if *found == self.value { Ok(()) } else { Err(Reason::TestFailed) }
    }
}

fn add(document: &mut Value, path: Pointer<'_>, value: Value) -> Result<(), Reason> {
    check_depth(path, &value)?;
    let (container, key) = path.container(document)?;
    match container {
        Container::Object(map) => {
            map.insert(key.into_owned(), value);
        }
        Container::List(list) if key == "-" => list.push(value),
        // One more place than there are items: behind the last one.
        Container::List(list) => {
            let index = pointer::existing(&key, list.len().saturating_add(1))?;
            list.insert(index, value);
        }
    }
    Ok(())
}

fn remove(document: &mut Value, path: Pointer<'_>) -> Result<Value, Reason> {
    let (container, key) = path.container(document)?;
    match container {
        Container::Object(map) => match map.entry(key.into_owned()) {
            Entry::Occupied(entry) => Ok(entry.remove()),
            Entry::Vacant(entry) => Err(Reason::MissingKey(entry.key().clone())),
        },
        Container::List(list) => {
            let index = pointer::existing(&key, list.len())?;
            Ok(list.remove(index))
        }
    }
}

/// Values are put into values: without a limit a document could become too
/// deep to be walked, or even freed.
fn check_depth(path: Pointer<'_>, value: &Value) -> Result<(), Reason> {
    match path.depth().saturating_add(depth(value)) {
        0..=MAX_DEPTH => Ok(()),
        _ => Err(Reason::TooDeep),
    }
}

/// How many objects and lists are nested in it, itself included.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The length of its JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}
