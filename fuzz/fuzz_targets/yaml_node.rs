//! Any text is read or refused, as a tree with places and as one with comments. What a tree says is the same after it
//! was written and read again, with comments or without.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sternpost_yaml::commented::{self, Content, Node};
use sternpost_yaml::node::{self, Style};

fuzz_target!(|text: &str| {
    if let Ok(Some(tree)) = node::read_node(text)
        && let Ok(value) = tree.to_json()
        && !has_merge_key(&value)
    {
        let written = sternpost_yaml::write(&value);
        let read = match node::read_node(&written) {
            Ok(read) => read.expect("a value was written"),
            Err(error) => panic!("{error}: {written}"),
        };
        assert_eq!(read.to_json().as_ref(), Ok(&value), "{written}");
        let made = node::Node::from_json(&value);
        assert_eq!(made.to_json().as_ref(), Ok(&value));
    }
    // What yaml.v3 makes of `!%21` it cannot read itself.
    if let Ok(Some(document)) = commented::read(text)
        && !has(&document.root, is_tagged_with_nothing)
    {
        let written = commented::write(&document);
        let read = match commented::read(&written) {
            Ok(read) => read.expect("a document was written"),
            Err(error) => panic!("{error}: {written}"),
        };
        // yaml.v3 gives folded text more breaks each time it writes it.
        if !has(&document.root, is_folded) {
            assert_eq!(bare(&read.root), bare(&document.root), "{written}");
        }
    }
});

/// yaml.v3 drops such a key of a text without a tag, even in quotes.
fn has_merge_key(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_merge_key),
        Value::Object(fields) => fields.iter().any(|(key, value)| key == "<<" || has_merge_key(value)),
        _ => false,
    }
}

/// Whether some node is what is asked for.
fn has(node: &Node, asked: fn(&Node) -> bool) -> bool {
    let inside = match &node.content {
        Content::Scalar { .. } | Content::Alias(_) => &[][..],
        Content::Sequence(entries) | Content::Mapping(entries) => entries,
    };
    let mut nodes = inside.iter().flat_map(|entry| entry.key.iter().chain([&entry.value]));
    asked(node) || nodes.any(|node| has(node, asked))
}

fn is_folded(node: &Node) -> bool {
    matches!(node.content, Content::Scalar { style: Style::Folded, .. })
}

fn is_tagged_with_nothing(node: &Node) -> bool {
    node.tag.as_deref() == Some("!!")
}

/// Without comments, whose place may change when they are written, and with scalars that are
/// quoted only because they must be as good as plain ones.
fn bare(node: &Node) -> Node {
    let mut node = node.clone();
    node.strip_comments();
    plain(&mut node);
    node
}

fn plain(node: &mut Node) {
    match &mut node.content {
        Content::Scalar { style, .. } => *style = Style::Plain,
        Content::Alias(_) => {}
        Content::Sequence(entries) | Content::Mapping(entries) => {
            for entry in entries {
                entry.key.iter_mut().for_each(plain);
                plain(&mut entry.value);
            }
        }
    }
}
