//! Where in the text of a file something stands. Looked up only for messages,
//! by reading the text once more, so that documents of megabytes need not
//! carry their places along.

use sternpost_yaml::node::{Node, read_node};

use crate::documents;
use crate::error::Error;

/// The way from the root of a document.
pub(crate) type Path = Vec<Step>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// `file:line:column`, as near as can be told.
pub(crate) fn find(name: &str, text: &str, document: usize, path: &[Step]) -> String {
    let held = documents::split(text).ok();
    let held = held.unwrap_or_default().into_iter().filter_map(|(lines, text)| {
        let node = read_node(text).ok().flatten()?;
        (!documents::is_nothing(&node)).then_some((lines, node))
    });
    let Some((lines, node)) = held.into_iter().nth(document) else { return format!("{name}:1:1") };
    let (line, column) = walk(&node, path);
    format!("{name}:{}:{column}", usize::try_from(line).unwrap_or_default() + lines)
}

/// The key if the last step is one, otherwise the value.
fn walk(mut node: &Node, path: &[Step]) -> (u32, u32) {
    let mut place = (node.line, node.column);
    for step in path {
        let next = match step {
            Step::Key(name) => {
                // Of keys that repeat the last counts.
                node.pairs()
                    .iter()
                    .rev()
                    .find(|(key, _)| key.as_text() == Some(name))
                    .map(|(key, value)| ((key.line, key.column), value))
            }
            Step::Index(at) => node.items().get(*at).map(|item| ((item.line, item.column), item)),
        };
        let Some((found, value)) = next else { return place };
        (place, node) = (found, value);
    }
    place
}

/// The way for people: `definitions.Widget.properties.spec`.
pub(crate) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(name) if text.is_empty() => text.push_str(name),
            Step::Key(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}

/// What is said of a schema file.
pub(crate) fn problem(path: &[Step], problem: &str, place: &str) -> Error {
    let way = shown(path);
    let way = if way.is_empty() { way } else { format!("{way}: ") };
    Error::new(format!("invalid schema file: {place}: {way}{problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_file() {
        let text = "a:\n- b\n- {c: d}\n---\n# nothing\n---\nx: {y: 1}\n";
        let key = |name: &str| Step::Key(name.to_owned());
        for (document, path, expected) in [
            (0, vec![key("a"), Step::Index(1), key("c")], "f:3:4"),
            (0, vec![key("a"), Step::Index(7)], "f:1:1"),
            (1, vec![key("x"), key("y")], "f:7:5"),
            (1, vec![], "f:7:1"),
            (2, vec![], "f:1:1"),
        ] {
            assert_eq!(find("f", text, document, &path), expected, "{path:?}");
        }
        assert_eq!(find("f", "{\"a\":", 0, &[]), "f:1:1");
    }
}
