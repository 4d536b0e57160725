//! Paths to fields, and what `grep` asks of them: `spec.replicas>2`,
//! `spec.containers[name=web].image=nginx`.

use sternpost_meta::quantity::Quantity;
use sternpost_yaml::commented::{Content, Document, Node, write_flow};

use super::package::wrong_kind;

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// The item of a list that has this value under this key.
    Item {
        key: String,
        value: String,
    },
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Item { key, value } => write!(f, "[{key}={value}]"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Query {
    path: Vec<Step>,
    test: Test,
}

#[derive(Debug)]
enum Test {
    There,
    Matches(String),
    Compares(fn(&Quantity, &Quantity) -> bool, String),
}

impl Query {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut parts = split(text);
        let last = parts.pop().unwrap_or_default();
        if last.starts_with('[') || !last.contains(['<', '>', '=']) {
            return Ok(Self { path: steps(text), test: Test::There });
        }
        let ambiguous = || {
            format!("ambiguous match -- multiple of ['<', '>', '<=', '>=', '=' in final path element: {last}")
        };
        let at = last.find(['<', '>', '=']).unwrap_or_default();
        let (field, rest) = last.split_at_checked(at).unwrap_or((&last, ""));
        type Compare = fn(&Quantity, &Quantity) -> bool;
        let operators: [(&str, Option<Compare>); 5] = [
            ("<=", Some(|a, b| a <= b)),
            (">=", Some(|a, b| a >= b)),
            ("<", Some(|a, b| a < b)),
            (">", Some(|a, b| a > b)),
            ("=", None),
        ];
        let found = operators
            .into_iter()
            .find_map(|(operator, compare)| Some((compare, rest.strip_prefix(operator)?)));
        let (compare, value) = found.ok_or_else(ambiguous)?;
        if value.contains(['<', '>', '=']) {
            return Err(ambiguous());
        }
        let mut path: Vec<Step> = parts.iter().map(|part| step(part)).collect();
        path.push(Step::Key(field.to_owned()));
        let test = match compare {
            Some(compare) => Test::Compares(compare, value.to_owned()),
            None => Test::Matches(value.to_owned()),
        };
        Ok(Self { path, test })
    }

    pub(super) fn finds(&self, document: &Document) -> Result<bool, String> {
        let Some(node) = find(&document.root, &self.path)?.filter(|node| !node.is_null()) else {
            return Ok(false);
        };
        let text = node.as_text().map_or_else(|| write_flow(node), str::to_owned);
        match &self.test {
            Test::There => Ok(true),
            Test::Matches(pattern) => {
                let regex = crate::selector::regex(pattern).map_err(|error| {
                    format!(
                        "{error}
"
                    )
                })?;
                Ok(regex.is_match(&text))
            }
            Test::Compares(compare, with) => Ok(compare(&quantity(&text)?, &quantity(with)?)),
        }
    }
}

fn quantity(text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|error| format!("{text}: {error}\n"))
}

/// The steps of a path: keys parted by dots, `\.` being no such dot.
pub(super) fn steps(text: &str) -> Vec<Step> {
    split(text).iter().map(|part| step(part)).collect()
}

fn step(part: &str) -> Step {
    let inside = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
    match inside.and_then(|inside| inside.split_once('=')) {
        Some((key, value)) => Step::Item { key: key.to_owned(), value: value.to_owned() },
        None => Step::Key(part.to_owned()),
    }
}

fn split(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut in_brackets = false;
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => part.extend(rest.next()),
            '.' if !in_brackets => {
                if !part.is_empty() {
                    parts.push(std::mem::take(&mut part));
                }
            }
            // An operator before it makes it a part of the value.
            '[' if !part.contains(['<', '>', '=']) => {
                if !part.is_empty() {
                    parts.push(std::mem::take(&mut part));
                }
                part.push(char);
                in_brackets = true;
            }
            ']' if in_brackets => {
                part.push(char);
                parts.push(std::mem::take(&mut part));
                in_brackets = false;
            }
            char => part.push(char),
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// What a path leads to. A key of something that is no mapping is an error.
pub(super) fn find<'n>(node: &'n Node, path: &[Step]) -> Result<Option<&'n Node>, String> {
    let mut found = node;
    for step in path {
        if found.is_null() {
            return Ok(None);
        }
        let next = match step {
            Step::Key(key) => {
                let other = match &found.content {
                    Content::Mapping(_) => None,
                    Content::Sequence(_) => Some("SequenceNode"),
                    Content::Scalar { .. } | Content::Alias(_) => Some("ScalarNode"),
                };
                if let Some(other) = other {
                    let document = Document { root: found.clone(), head: vec![], foot: vec![] };
                    return Err(wrong_kind(other, &document));
                }
                found.get(key)
            }
            Step::Item { key, value } => {
                let is_it = |item: &&Node| item.get(key).and_then(Node::as_text) == Some(value);
                found.entries().iter().map(|entry| &entry.value).find(is_it)
            }
        };
        match next {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_dots_and_brackets() {
        let key = |key: &str| Step::Key(key.to_owned());
        let item = |key: &str, value: &str| Step::Item { key: key.to_owned(), value: value.to_owned() };
        for (text, expected) in [
            ("a.b", vec![key("a"), key("b")]),
            ("a\\.b", vec![key("a.b")]),
            ("a[b=c.d].e", vec![key("a"), item("b", "c.d"), key("e")]),
            ("", vec![]),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
    }
}
