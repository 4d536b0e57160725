//! Any text is read or refused, as a tree with places and as one with comments. What a tree says is the same after it
//! was written and read again, with comments or without.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sternpost_yaml::commented::{self, Content, Node};
use sternpost_yaml::node::{self, Style};

fuzz_target!(|text: &str| {
    if let Ok(Some(tree)) = node::read_node(text)
        && let Ok(value) = tree.to_json()
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
    if let Ok(Some(document)) = commented::read(text) {
        let written = commented::write(&document);
        let read = match commented::read(&written) {
            Ok(read) => read.expect("a document was written"),
            Err(error) => panic!("{error}: {written}"),
        };
        assert_eq!(bare(&read.root), bare(&document.root), "{written}");
    }
});

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
