//! JSON Patch (RFC 6902), as kube-apiserver's library has it.
//!
//! [`decode()`] reads a body, [`apply`] changes a document. Where the library
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

pub use decode::{DecodeError, decode};
use pointer::{Container, Pointer};

use crate::MAX_DEPTH;

/// How many operations a patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// How many bytes of JSON all `copy` operations of a patch together may copy.
pub const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Operations, not yet known to make sense: that shows when they are applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Operation {
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
    /// There, but not a string.
    Wrong,
}

/// Which operation failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operation {index}: {op} {path:?}: {reason}")]
pub struct ApplyError {
    /// Of the operation, from zero.
    pub index: usize,
    pub op: String,
    pub path: String,
    pub reason: Reason,
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
    #[error("copied values have more than {MAX_COPIED} bytes")]
    TooMuchCopied,
    #[error("the result would nest deeper than {MAX_DEPTH}")]
    TooDeep,
}

/// All operations, one after the other, or none of them.
pub fn apply(mut document: Value, patch: &Patch) -> Result<Value, ApplyError> {
    let mut copied = 0;
    for (index, operation) in patch.operations.iter().enumerate() {
        operation.apply(&mut document, &mut copied).map_err(|reason| ApplyError {
            index,
            op: operation.op.text("op").unwrap_or_default().to_owned(),
            path: operation.path.text("path").unwrap_or_default().to_owned(),
            reason,
        })?;
    }
    Ok(document)
}

impl Patch {
    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

impl Member {
    fn text(&self, name: &'static str) -> Result<&str, Reason> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Absent => Err(Reason::MissingMember(name)),
            Self::Wrong => Err(Reason::NotAString(name)),
        }
    }
}

impl Operation {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), Reason> {
        checkpoint();
        let path = || Ok(Pointer(self.path.text("path")?));
        match self.op.text("op")? {
            "add" => add(document, path()?, self.value.clone()),
            "remove" => remove(document, path()?).map(drop),
            "replace" => self.replace(document, path()?),
            "move" => {
                let from = Pointer(self.from.text("from")?);
                let value = remove(document, from)?;
                add(document, path()?, value)
            }
            "copy" => {
                let from = Pointer(self.from.text("from")?);
                let value = get(document, from)?.unwrap_or(&Value::Null);
                *copied = copied.saturating_add(size(value));
                if *copied > MAX_COPIED {
                    return Err(Reason::TooMuchCopied);
                }
                let value = value.clone();
                add(document, path()?, value)
            }
            "test" => self.test(document, path()?),
            _ => Err(Reason::UnknownOperation),
        }
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

    fn test(&self, document: &mut Value, path: Pointer<'_>) -> Result<(), Reason> {
        let found = match path.is_root() {
            true => &*document,
            false => get(document, path)?.unwrap_or(&Value::Null),
        };
        if *found == self.value { Ok(()) } else { Err(Reason::TestFailed) }
    }
}

/// `None` if an object has no such key; an index must exist.
fn get<'a>(document: &'a mut Value, path: Pointer<'_>) -> Result<Option<&'a Value>, Reason> {
    let (container, key) = path.container(document)?;
    match container {
        Container::Object(map) => Ok(map.get(&*key)),
        Container::List(list) => {
            let index = pointer::existing(&key, list.len())?;
            Ok(list.get(index))
        }
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
