//! Which fields a caller wants to know about.

use serde_json::Value;

use super::Field;
use crate::output::Written;

/// `OBJECT:PATH`, either of them perhaps missing.
///
/// An object is `Kind`, `Kind/name` or `Kind/name.namespace`, by its name or
/// one that it had in the course of the build. A path stands for all that is
/// below it, too. `*` is any text in both.
#[derive(Debug, Clone, Default)]
pub struct Pattern(String);

/// Nothing is of that pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("nothing in this build is called `{0}`")]
    NoObject(String),
    #[error("no object that `{0}` names has such a field")]
    NoField(String),
}

impl Pattern {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The fields of this pattern, each with its object; all of them if the
    /// pattern is empty.
    pub fn select<'o>(&self, objects: &'o [Written]) -> Result<Vec<(&'o Written, &'o Field)>, PatternError> {
        if self.0.is_empty() {
            let fields = |object: &'o Written| object.why.iter().map(move |field| (object, field));
            return Ok(objects.iter().flat_map(fields).collect());
        }
        let mut selected = Vec::new();
        let mut known = false;
        for object in objects {
            let ids = object_ids(object);
            let paths: Vec<&str> =
                self.splits().filter(|(id, _)| is_called(&ids, id)).map(|(_, path)| path).collect();
            known |= !paths.is_empty();
            let wanted = |field: &&Field| paths.iter().any(|path| is_below(field, path));
            selected.extend(object.why.iter().filter(wanted).map(|field| (object, field)));
        }
        match (selected.is_empty(), known) {
            (false, _) => Ok(selected),
            (true, true) => Err(PatternError::NoField(self.0.clone())),
            (true, false) => Err(PatternError::NoObject(self.0.clone())),
        }
    }

    /// Names and keys may have colons, so each may be the one in the middle.
    fn splits(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = self.0.as_str();
        let middle = |(at, _): (usize, &str)| Some((text.get(..at)?, text.get(at + 1..)?));
        text.match_indices(':').filter_map(middle).chain([(text, "")])
    }
}

fn object_ids(object: &Written) -> Vec<String> {
    let (kind, namespace) = (&object.id.gvk.kind, &object.id.namespace);
    let names = object.names.iter().chain([&object.id.name]);
    let id = |name: &String| {
        let short = format!("{kind}/{name}");
        if namespace.is_empty() { vec![short] } else { vec![format!("{short}.{namespace}"), short] }
    };
    names.flat_map(id).chain([kind.clone()]).collect()
}

fn is_called(ids: &[String], wanted: &str) -> bool {
    // Kinds are known by their capitals, and may be written without.
    wanted.is_empty() || ids.iter().any(|id| matches(&wanted.to_lowercase(), &id.to_lowercase()))
}

fn is_below(field: &Field, wanted: &str) -> bool {
    let dotted = || {
        let segment = |segment: &super::Segment| match segment {
            super::Segment::Key(key) => key.clone(),
            super::Segment::Element { at, .. } => at.to_string(),
        };
        field.path.iter().map(segment).collect::<Vec<_>>().join(".")
    };
    wanted.is_empty()
        || [field.path_text(), field.numbered(), dotted()].iter().any(|path| starts(path, wanted))
}

/// Whether the pattern is that of the whole path or of a first part of it.
fn starts(path: &str, pattern: &str) -> bool {
    let ends = path.match_indices(['.', '[']).map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end)).any(|part| matches(pattern, part))
}

/// `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part).and_then(|at| text.get(at + part.len()..)) {
            Some(after) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

impl Written {
    /// The object as lines of why name it.
    pub fn shown(&self) -> String {
        super::report::id_text(&self.id)
    }

    /// One field of this object as a line of text.
    pub fn why_text(&self, field: &Field) -> String {
        format!("{} {}", self.shown(), field.line())
    }

    /// The same as a JSON object.
    pub fn why_json(&self, field: &Field) -> Value {
        let mut line = field.json();
        let id = &self.id;
        let mut object = serde_json::json!({
            "apiVersion": id.gvk.api_version(),
            "kind": id.gvk.kind,
            "name": id.name,
        });
        if let (Some(object), false) = (object.as_object_mut(), id.namespace.is_empty()) {
            object.insert("namespace".to_owned(), id.namespace.as_str().into());
        }
        line.insert("object".to_owned(), object);
        Value::Object(line)
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, starts};

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c", "abbc", true),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axcxb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_path_stands_for_what_is_below_it() {
        for (path, pattern, expected) in [
            ("spec.replicas", "spec", true),
            ("spec.replicas", "spec.rep", false),
            ("spec.ports[0].port", "spec.ports", true),
            ("spec.ports[0].port", "spec.ports[*].port", true),
            ("metadata.labels[\"a.b\"]", "metadata.labels[\"a.b\"]", true),
        ] {
            assert_eq!(starts(path, pattern), expected, "{path} {pattern}");
        }
    }
}
