//! The references within a document, v2 or v3.
//!
//! Only keywords that can hold references are looked into: a `$ref` in a default
//! or an example is none, nor is a property that happens to be called so.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// References to places that are not there, each once, sorted.
pub fn dangling(document: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    each(document, &mut |reference| {
        if let Some(pointer) = reference.strip_prefix('#')
            && !leads_somewhere(document, pointer)
        {
            found.insert(reference.to_owned());
        }
    });
    found.into_iter().collect()
}

/// Kubernetes writes names as they are; others escape them.
fn leads_somewhere(document: &Value, pointer: &str) -> bool {
    let decoded = decode(pointer);
    let literal = pointer.rsplit_once('/').and_then(|(section, name)| document.pointer(section)?.get(name));
    literal.is_some() || document.pointer(&decoded).is_some()
}

/// Shows every reference of a document or of a part that stands for itself.
pub fn each(value: &Value, see: &mut impl FnMut(&str)) {
    walk(value, Keys::Words, see);
}

/// Rewrites every reference for which `to` has something else.
pub fn rewrite(value: &mut Value, to: &impl Fn(&str) -> Option<String>) {
    rewrite_in(value, Keys::Words, to);
}

/// What the keys of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Keywords of the specification, and extensions.
    Words,
    /// Names that somebody chose.
    Names,
    /// Names that somebody chose, and below them again.
    NamesOfNames,
    /// Chosen names and extensions side by side.
    Mixed,
}

impl Keys {
    /// What is below `key`, if it can hold references.
    pub(crate) fn below(self, key: &str) -> Option<Keys> {
        match (self, key) {
            (Keys::Names, _) => Some(Keys::Words),
            (Keys::NamesOfNames, _) => Some(Keys::Names),
            (_, key) if key.starts_with("x-") => None,
            (Keys::Mixed, _) => Some(Keys::Words),
            (
                Keys::Words,
                "properties" | "patternProperties" | "definitions" | "schemas" | "parameters" | "headers"
                | "content" | "requestBodies" | "links" | "encoding",
            ) => Some(Keys::Names),
            (Keys::Words, "callbacks") => Some(Keys::NamesOfNames),
            (Keys::Words, "paths" | "responses") => Some(Keys::Mixed),
            (
                Keys::Words,
                "components"
                | "schema"
                | "items"
                | "additionalProperties"
                | "allOf"
                | "anyOf"
                | "oneOf"
                | "not"
                | "requestBody"
                | "delete"
                | "get"
                | "head"
                | "options"
                | "patch"
                | "post"
                | "put"
                | "trace",
            ) => Some(Keys::Words),
            (Keys::Words, _) => None,
        }
    }
}

fn walk(value: &Value, keys: Keys, see: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (keys, key.as_str(), value) {
                    (Keys::Words, "$ref", Value::String(reference)) => see(reference),
                    (keys, key, value) => {
                        if let Some(keys) = keys.below(key) {
                            walk(value, keys, see);
                        }
                    }
                }
            }
        }
        // A list of names is a list of schemas or parameters after all.
        Value::Array(items) => items.iter().for_each(|item| walk(item, Keys::Words, see)),
        _ => {}
    }
}

fn rewrite_in(value: &mut Value, keys: Keys, to: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (keys, key.as_str(), value) {
                    (Keys::Words, "$ref", Value::String(reference)) => {
                        if let Some(new) = to(reference) {
                            *reference = new;
                        }
                    }
                    (keys, key, value) => {
                        if let Some(keys) = keys.below(key) {
                            rewrite_in(value, keys, to);
                        }
                    }
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_in(item, Keys::Words, to)),
        _ => {}
    }
}

/// Where v2 keeps what is referred to by name.
pub(crate) const V2: &[&str] = &["/definitions", "/parameters", "/responses"];
/// Where v3 does. Security schemes are named, not referred to.
pub(crate) const V3: &[&str] = &[
    "/components/schemas",
    "/components/parameters",
    "/components/responses",
    "/components/requestBodies",
    "/components/headers",
    "/components/examples",
    "/components/links",
    "/components/callbacks",
];

/// A named part of a document: the index of its section, and its name.
pub(crate) type Part = (usize, String);

/// The part that `reference` leads to or into.
pub(crate) fn part(document: &Value, sections: &[&str], reference: &str) -> Option<Part> {
    let pointer = reference.strip_prefix('#')?;
    sections.iter().enumerate().find_map(|(index, section)| {
        let rest = pointer.strip_prefix(section)?.strip_prefix('/')?;
        let entries = document.pointer(section)?;
        let decoded = decode(rest);
        let first = decoded.split('/').next().unwrap_or_default();
        let names = [rest.to_owned(), unescape(&decoded), unescape(first)];
        Some((index, names.into_iter().find(|name| entries.get(name).is_some())?))
    })
}

pub(crate) fn decode(pointer: &str) -> String {
    percent_decode_str(pointer).decode_utf8_lossy().into_owned()
}

pub(crate) fn unescape(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

/// Every part that `from` needs, directly or not.
pub(crate) fn closure<'a>(
    document: &Value,
    sections: &[&str],
    from: impl IntoIterator<Item = &'a Value>,
) -> BTreeSet<Part> {
    let mut found = BTreeSet::new();
    let mut new = Vec::new();
    let mut look = |value: &Value, new: &mut Vec<Part>| {
        each(value, &mut |reference| {
            if let Some(part) = part(document, sections, reference)
                && found.insert(part.clone())
            {
                new.push(part);
            }
        });
    };
    from.into_iter().for_each(|value| look(value, &mut new));
    while let Some((section, name)) = new.pop() {
        let entries = sections.get(section).and_then(|section| document.pointer(section));
        if let Some(value) = entries.and_then(|entries| entries.get(&name)) {
            look(value, &mut new);
        }
    }
    found
}

/// Takes away the parts that `keep` does not want, and sections left empty.
pub(crate) fn retain(document: &mut Value, sections: &[&str], keep: impl Fn(&Part) -> bool) {
    for (index, section) in sections.iter().enumerate() {
        let Some((parent, key)) = section.rsplit_once('/') else { continue };
        let Some(parent) = document.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        if let Some(Value::Object(entries)) = parent.get_mut(key) {
            entries.retain(|name, _| keep(&(index, name.clone())));
            if entries.is_empty() {
                parent.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_a_reference_is_one() {
        let document = json!({
            "definitions": {
                "A": {"properties": {
                    "$ref": {"$ref": "#/definitions/B"},
                    "default": {"$ref": "#/definitions/C"},
                    "x-y": {"$ref": "#/definitions/D"},
                    "enum": {"items": {"$ref": "#/definitions/E"}},
                }},
                "B": {"default": {"$ref": "#/no"}, "enum": [{"$ref": "#/no"}], "x-a": {"$ref": "#/no"}},
            },
            "paths": {"x-a": {"$ref": "#/no"}, "/a": {"get": {"parameters": [{"$ref": "#/parameters/F"}]}}},
        });
        let mut seen = Vec::new();
        each(&document, &mut |reference| seen.push(reference.to_owned()));
        seen.sort();
        let expected: Vec<String> = "BCDE".chars().map(|name| format!("#/definitions/{name}")).collect();
        assert_eq!(seen, [expected, vec!["#/parameters/F".to_owned()]].concat());
        assert_eq!(dangling(&document).len(), 4);
    }

    #[test]
    fn names_are_found_as_they_are_and_escaped() {
        let document =
            json!({"definitions": {"a/b": {}, "c~d": {}, "e": {"properties": {"f": {}}}, "g%41": {}}});
        for (reference, name) in [
            ("#/definitions/a/b", "a/b"),
            ("#/definitions/a~1b", "a/b"),
            ("#/definitions/a%2Fb", "a/b"),
            ("#/definitions/c~d", "c~d"),
            ("#/definitions/c~0d", "c~d"),
            ("#/definitions/e/properties/f", "e"),
            ("#/definitions/g%41", "g%41"),
            ("#/definitions/g%2541", "g%41"),
        ] {
            assert_eq!(part(&document, V2, reference), Some((0, name.to_owned())), "{reference}");
        }
        for reference in ["#/definitions/h", "#/parameters/e", "e", "http://a/#/definitions/e", "#"] {
            assert_eq!(part(&document, V2, reference), None, "{reference}");
        }
    }
}
