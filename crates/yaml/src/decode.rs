//! The tree into a JSON value: aliases copied, merges done, keys made strings.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sternpost_meta::cancel::checkpoint;

use crate::Document;
use crate::error::{Error, Problem};
use crate::parse::{Content, Node};
use crate::scalar;

/// How much scalar text aliases may copy in one call. Upstream bounds only the
/// number of nodes, and one long text under many aliases stays below that.
pub const MAX_ALIASED_BYTES: usize = 16 * 1024 * 1024;

/// Upstream's rule against alias bombs: once there were this many nodes in
/// aliases and in all, the aliases' share must stay within [`allowed_share`].
const UNCHECKED_ALIASED_NODES: u32 = 100;
const UNCHECKED_NODES: u32 = 1000;
const SMALL_DOCUMENT_NODES: f64 = 400_000.0;
const SMALL_DOCUMENT_SHARE: f64 = 0.99;
const LARGE_DOCUMENT_NODES: f64 = 4_000_000.0;
const LARGE_DOCUMENT_SHARE: f64 = 0.10;

/// What aliases have copied so far; one for all documents of a stream.
#[derive(Debug, Default)]
pub(crate) struct AliasedBytes(usize);

pub(crate) fn decode(root: &Node, aliased_bytes: &mut AliasedBytes) -> Result<Document, Error> {
    // Upstream counts the document itself as a node.
    let mut decoder =
        Decoder { nodes: 1, aliased_nodes: 0, open_aliases: 0, aliased_bytes, repeated: Vec::new() };
    let value = decoder.value(root)?;
    Ok(Document { value, repeated: decoder.repeated, escaped_slash: None })
}

struct Decoder<'b> {
    nodes: u32,
    aliased_nodes: u32,
    open_aliases: u32,
    aliased_bytes: &'b mut AliasedBytes,
    repeated: Vec<Error>,
}

/// A mapping being filled, and which of its keys came in by `<<`.
#[derive(Default)]
struct Filled {
    entries: Map<String, Value>,
    merged: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Own,
    Merge,
}

impl Filled {
    fn set(&mut self, key: String, value: Value, origin: Origin) {
        match origin {
            Origin::Own => {
                self.merged.remove(&key);
            }
            Origin::Merge if self.entries.contains_key(&key) => {}
            Origin::Merge => {
                self.merged.insert(key.clone());
            }
        }
        self.entries.insert(key, value);
    }
}

impl Decoder<'_> {
    fn value(&mut self, node: &Node) -> Result<Value, Error> {
        self.count(node)?;
        match &node.content {
            Content::Scalar(scalar) => {
                self.count_text(node, &scalar.text)?;
                let resolved = scalar::resolve(scalar).map_err(|problem| node.error(problem))?;
                resolved.into_value().map_err(|problem| node.error(problem))
            }
            Content::Sequence(items) => {
                let values: Result<Vec<Value>, Error> = items.iter().map(|item| self.value(item)).collect();
                values.map(Value::Array)
            }
            Content::Mapping(_) => {
                let mut filled = Filled::default();
                self.fill(node, Origin::Own, &mut filled)?;
                Ok(Value::Object(filled.entries))
            }
            Content::Alias(target) => {
                self.open_aliases += 1;
                let value = self.value(target);
                self.open_aliases -= 1;
                value
            }
        }
    }

    fn key(&mut self, node: &Node) -> Result<String, Error> {
        self.count(node)?;
        match &node.content {
            Content::Scalar(scalar) => {
                self.count_text(node, &scalar.text)?;
                let resolved = scalar::resolve(scalar).map_err(|problem| node.error(problem))?;
                resolved.into_key().map_err(|problem| node.error(problem))
            }
            Content::Sequence(_) => Err(node.error(Problem::UnsupportedKey("a sequence"))),
            Content::Mapping(_) => Err(node.error(Problem::UnsupportedKey("a mapping"))),
            Content::Alias(target) => {
                self.open_aliases += 1;
                let key = self.key(target);
                self.open_aliases -= 1;
                key
            }
        }
    }

    /// Sets a mapping's entries in document order, a merge at its place, so
    /// that the last one to set a key wins.
    fn fill(&mut self, mapping: &Node, origin: Origin, filled: &mut Filled) -> Result<(), Error> {
        let Content::Mapping(pairs) = &mapping.content else {
            return Err(mapping.error(Problem::MergeNeedsMapping));
        };
        let mut written = BTreeSet::new();
        for (key_node, value_node) in pairs {
            if matches!(&key_node.content, Content::Scalar(key) if scalar::is_merge_key(key)) {
                self.merge(value_node, filled)?;
                continue;
            }
            let key = self.key(key_node)?;
            let value = self.value(value_node)?;
            // For a mapping of its own, `filled` tells; a merged one goes into
            // what others have filled.
            let written_twice = origin == Origin::Merge && !written.insert(key.clone());
            let problem = if written_twice { self.duplicate(&key, value_node) } else { None };
            match problem {
                Some(problem) => self.repeated.push(key_node.error(problem)),
                None => self.check_set_before(filled, &key, origin, key_node, value_node),
            }
            filled.set(key, value, origin);
        }
        Ok(())
    }

    /// A mapping under an anchor has been looked at where it stands.
    fn duplicate(&self, key: &str, value: &Node) -> Option<Problem> {
        (self.open_aliases == 0)
            .then(|| Problem::DuplicateKey { key: key.to_owned(), value_line: value.line })
    }

    fn check_set_before(
        &mut self,
        filled: &Filled,
        key: &str,
        origin: Origin,
        key_node: &Node,
        value: &Node,
    ) {
        if !filled.entries.contains_key(key) {
            return;
        }
        let problem = if origin == Origin::Own && !filled.merged.contains(key) {
            self.duplicate(key, value)
        } else {
            Some(Problem::MergedKeySetAgain { key: key.to_owned(), value_line: value.line })
        };
        self.repeated.extend(problem.map(|problem| key_node.error(problem)));
    }

    fn merge(&mut self, node: &Node, filled: &mut Filled) -> Result<(), Error> {
        match &node.content {
            // Backwards, because the first of several mappings wins.
            Content::Sequence(items) => {
                items.iter().rev().try_for_each(|item| self.merge_mapping(item, filled))
            }
            _ => self.merge_mapping(node, filled),
        }
    }

    fn merge_mapping(&mut self, node: &Node, filled: &mut Filled) -> Result<(), Error> {
        self.count(node)?;
        match &node.content {
            Content::Alias(target) => {
                self.open_aliases += 1;
                let merged = self.count(target).and_then(|()| self.fill(target, Origin::Merge, filled));
                self.open_aliases -= 1;
                merged
            }
            _ => self.fill(node, Origin::Merge, filled),
        }
    }

    fn count(&mut self, node: &Node) -> Result<(), Error> {
        checkpoint();
        self.nodes = self.nodes.saturating_add(1);
        if self.open_aliases == 0 {
            return Ok(());
        }
        self.aliased_nodes = self.aliased_nodes.saturating_add(1);
        let (aliased, nodes) = (self.aliased_nodes, self.nodes);
        let checked = aliased > UNCHECKED_ALIASED_NODES && nodes > UNCHECKED_NODES;
        if checked && f64::from(aliased) / f64::from(nodes) > allowed_share(f64::from(nodes)) {
            return Err(node.error(Problem::ExcessiveAliasing));
        }
        Ok(())
    }

    fn count_text(&mut self, node: &Node, text: &str) -> Result<(), Error> {
        if self.open_aliases > 0 {
            self.aliased_bytes.0 = self.aliased_bytes.0.saturating_add(text.len());
            if self.aliased_bytes.0 > MAX_ALIASED_BYTES {
                return Err(node.error(Problem::AliasedTextTooLong));
            }
        }
        Ok(())
    }
}

/// From 99 % for small documents down to 10 % for very large ones, in a line.
fn allowed_share(nodes: f64) -> f64 {
    let along = (nodes - SMALL_DOCUMENT_NODES) / (LARGE_DOCUMENT_NODES - SMALL_DOCUMENT_NODES);
    SMALL_DOCUMENT_SHARE - (SMALL_DOCUMENT_SHARE - LARGE_DOCUMENT_SHARE) * along.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use sternpost_meta::cancel::{Cancel, Cancelled, scope};

    use super::*;
    use crate::parse::Parser;

    /// What is large in a different way each.
    const TEXTS: [&str; 5] =
        ["a: 1\nb: 2\n", "[1, 2]", "- &a x\n- *a\n", "a: &m {b: 1}\nc:\n  <<: *m\n", "[!t , a]"];

    #[test]
    fn reading_ends_when_it_is_cancelled() {
        let cancel = Cancel::default();
        cancel.cancel();
        for text in TEXTS {
            // Each of the passes, of which an earlier one is not to answer for a later one.
            assert!(matches!(scope(&cancel, || crate::read(text)), Err(Cancelled)), "{text}");
            let root = Parser::new(text).unwrap().next_document().unwrap().unwrap();
            let decoded = scope(&cancel, || decode(&root, &mut AliasedBytes::default()));
            assert!(matches!(decoded, Err(Cancelled)), "{text}");
        }
        // Tags before commas have a pass of their own.
        let tagged = scope(&cancel, || Parser::new("[!<t>, a, !t]").map(drop));
        assert!(matches!(tagged, Err(Cancelled)), "{tagged:?}");
    }

    #[test]
    fn reading_ends_amid_a_document() {
        let text = format!("[{}]", vec!["1"; 1 << 16].join(","));
        let cancel = Cancel::default();
        // Nothing but the reader looks whether it is to end.
        let outcome = std::thread::scope(|threads| {
            threads.spawn(|| cancel.cancel());
            scope(&cancel, || {
                loop {
                    crate::read(&text).unwrap();
                }
            })
        });
        assert_eq!(outcome, Err::<(), _>(Cancelled));
    }
}
