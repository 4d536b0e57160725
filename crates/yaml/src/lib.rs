//! Reads YAML into JSON values the way `sigs.k8s.io/yaml` v1.6 does, so that a
//! manifest means here what it means to kubectl and kube-apiserver.
//!
//! Entry points: [`from_str`] for one object, [`documents`] for a file,
//! [`read`] when repeated keys are to be reported rather than refused.
//!
//! For every text that both accept, the value equals `YAMLToJSON`'s output
//! parsed by `serde_json`: YAML 1.1 booleans (`y`, `no`, `on`), `012` octal,
//! `1_000`, dates as strings, keys turned into strings, tags on collections
//! ignored, `<<` merged in document order (a later merge wins over the mapping's
//! own key), the stream read no further than asked.
//!
//! Chosen differences, each pinned in `tests/data/differences.txt`:
//! - [`from_str`] and [`documents`] refuse a key written twice in one mapping
//!   (`YAMLToJSON` keeps the last), but let a key override a merged one
//!   (`YAMLToJSONStrict` does not); `1` and `"1"` are the same key;
//! - nesting ends at [`MAX_DEPTH`], text copied by aliases at [`MAX_ALIASED_BYTES`];
//! - libyaml's grammar where go-yaml's is older: `%YAML 1.2`, `[b? c]` and a
//!   byte order mark within the text are read; `{a:}`, `[!t, a]`, `"\'"` are not.
//!
//! [`node`] reads by yaml.v3's rules instead, into trees that keep styles and
//! places; [`commented`] keeps comments too. [`write()`] is the way back, byte for byte as upstream writes. Work
//! and memory are bounded by the input's size and those limits, and reading ends
//! early when it is cancelled; no input panics. This crate does not know kinds or files.

pub mod commented;
mod decode;
mod error;
pub mod node;
mod number;
mod parse;
mod scalar;
mod timestamp;
mod write;

pub use decode::MAX_ALIASED_BYTES;
pub use error::{Error, Problem};
pub use parse::MAX_DEPTH;
pub use write::{sorted, write};

use serde_json::Value;

/// Reads the first document; like upstream, it looks at nothing after it. Text
/// without a document is `null`.
pub fn from_str(text: &str) -> Result<Value, Error> {
    read(text)?.refuse_duplicates()
}

/// Reads every document of a stream. Documents that are `null` (empty, or only
/// comments) are skipped, as kubectl skips them.
///
/// Unlike kubectl, which cuts the text at lines starting with `---` and drops
/// the rest of such a line, this reads the stream by YAML's own rules.
pub fn documents(text: &str) -> Result<Vec<Value>, Error> {
    let (documents, failed) = read_all(text);
    let values = documents.into_iter().map(Document::refuse_duplicates).collect::<Result<Vec<_>, _>>()?;
    failed.map_or(Ok(values), Err)
}

/// As [`documents`], keeping the last value of a key set twice and reporting each such key. All documents up to
/// what cannot be read, and what is wrong with that.
pub fn read_all(text: &str) -> (Vec<Document>, Option<Error>) {
    let mut found = Vec::new();
    let read = (|| {
        let mut parser = parse::Parser::new(text)?;
        let mut budget = decode::AliasedBytes::default();
        while let Some(root) = parser.next_document()? {
            let document = decode::decode(&root, &mut budget)?;
            if !document.value.is_null() {
                found.push(document);
            }
        }
        Ok(())
    })();
    (found, read.err())
}

/// Reads the first document, keeping the last value of a key set twice and
/// reporting each such key, for callers that warn about them or ignore them.
pub fn read(text: &str) -> Result<Document, Error> {
    let mut parser = parse::Parser::new(text)?;
    match parser.next_document()? {
        Some(root) => {
            let document = decode::decode(&root, &mut decode::AliasedBytes::default())?;
            Ok(Document { escaped_slash: parser.escaped_slash, ..document })
        }
        None => Ok(Document { value: Value::Null, repeated: Vec::new(), escaped_slash: None }),
    }
}

/// A document and the keys it set more than once, in document order.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub value: Value,
    /// [`Problem::DuplicateKey`] and [`Problem::MergedKeySetAgain`] only.
    pub repeated: Vec<Error>,
    /// The line of the first `\/` in double quotes: JSON's, and not known to upstream's YAML.
    pub escaped_slash: Option<u64>,
}

impl Document {
    fn refuse_duplicates(self) -> Result<Value, Error> {
        let duplicate =
            self.repeated.into_iter().find(|error| matches!(error.problem, Problem::DuplicateKey { .. }));
        match duplicate {
            Some(error) => Err(error),
            None => Ok(self.value),
        }
    }
}
