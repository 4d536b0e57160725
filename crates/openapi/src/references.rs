//! The references within a document, v2 or v3.
//!
//! Only keywords that can hold references are looked into: a `$ref` in a default
//! or an example is none, nor is a property that happens to be called so. What a
//! discriminator maps to is a reference if it begins with `#`; a plain name there
//! may as well be a file, and is left alone.

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

/// Shows every reference of a document, of a path or of a schema.
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
    /// Chosen names and extensions side by side.
    Mixed,
    /// Codes of responses and extensions.
    Codes,
    /// Keywords of a response: what v2 calls `examples` there is data.
    Response,
    /// Names of examples of v3.
    Examples,
    /// Keywords of which none but `$ref` counts.
    Example,
    /// Names of callbacks.
    Callbacks,
    /// Addresses that are called back and extensions, or a reference to such.
    Callback,
    /// Keywords of a discriminator.
    Discriminator,
    /// Values of the property that discriminates.
    Mapping,
}

impl Keys {
    /// The keys of an entry of `section`.
    pub(crate) fn of_part(section: &str) -> Keys {
        let below = |keys: Option<Keys>, key: &str| keys?.below(key);
        let entries = section.split('/').skip(1).fold(Some(Keys::Words), below);
        below(entries, "name").unwrap_or(Keys::Words)
    }

    /// Whether the text at `key` is a reference.
    pub(crate) fn is_reference(self, key: &str, text: &str) -> bool {
        match self {
            Keys::Words | Keys::Response | Keys::Example | Keys::Callback => key == "$ref",
            Keys::Mapping => text.starts_with('#'),
            _ => false,
        }
    }

    /// What is below `key`, if it can hold references.
    pub(crate) fn below(self, key: &str) -> Option<Keys> {
        match (self, key) {
            (Keys::Names, _) => Some(Keys::Words),
            (Keys::Examples, _) => Some(Keys::Example),
            (Keys::Callbacks, _) => Some(Keys::Callback),
            (Keys::Discriminator, "mapping") => Some(Keys::Mapping),
            (Keys::Example | Keys::Discriminator | Keys::Mapping, _) => None,
            (_, key) if key.starts_with("x-") => None,
            (Keys::Mixed | Keys::Callback, _) => Some(Keys::Words),
            (Keys::Codes, _) => Some(Keys::Response),
            (Keys::Response, "examples") => None,
            (Keys::Words | Keys::Response, key) => below_word(key),
        }
    }

    /// What the items of a list are, if one can stand here: of schemas or of parameters.
    pub(crate) fn in_list(self) -> Option<Keys> {
        matches!(self, Keys::Words | Keys::Names).then_some(Keys::Words)
    }
}

fn below_word(key: &str) -> Option<Keys> {
    match key {
        "properties" | "patternProperties" | "definitions" | "schemas" | "parameters" | "headers"
        | "content" | "requestBodies" | "links" | "encoding" => Some(Keys::Names),
        "paths" => Some(Keys::Mixed),
        "responses" => Some(Keys::Codes),
        "examples" => Some(Keys::Examples),
        "callbacks" => Some(Keys::Callbacks),
        "discriminator" => Some(Keys::Discriminator),
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
        | "trace" => Some(Keys::Words),
        _ => None,
    }
}

fn walk(value: &Value, keys: Keys, see: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if keys.is_reference(key, text) => see(text),
                    value => {
                        if let Some(keys) = keys.below(key) {
                            walk(value, keys, see);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(keys) = keys.in_list() {
                items.iter().for_each(|item| walk(item, keys, see));
            }
        }
        _ => {}
    }
}

fn rewrite_in(value: &mut Value, keys: Keys, to: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if keys.is_reference(key, text) => {
                        if let Some(new) = to(text) {
                            *text = new;
                        }
                    }
                    value => {
                        if let Some(keys) = keys.below(key) {
                            rewrite_in(value, keys, to);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(keys) = keys.in_list() {
                items.iter_mut().for_each(|item| rewrite_in(item, keys, to));
            }
        }
        _ => {}
    }
}

/// Where v2 keeps what is referred to by name, definitions first.
pub const V2: &[&str] = &["/definitions", "/parameters", "/responses"];
/// Where v3 does, schemas first. Security schemes are named, not referred to.
pub const V3: &[&str] = &[
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
pub type Part = (usize, String);

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

/// Shows every reference of one part.
pub(crate) fn each_of_part(
    document: &Value,
    sections: &[&str],
    (section, name): &Part,
    see: &mut impl FnMut(&str),
) {
    let Some(section) = sections.get(*section) else { return };
    if let Some(value) = document.pointer(section).and_then(|entries| entries.get(name)) {
        walk(value, Keys::of_part(section), see);
    }
}

/// Every part that paths need, directly or not, and `parts` with what they need.
pub fn closure<'a>(
    document: &Value,
    sections: &[&str],
    paths: impl IntoIterator<Item = &'a Value>,
    parts: impl IntoIterator<Item = Part>,
) -> BTreeSet<Part> {
    let mut found: BTreeSet<Part> = parts.into_iter().collect();
    let mut new: Vec<Part> = found.iter().cloned().collect();
    let mut see = |reference: &str, new: &mut Vec<Part>| {
        if let Some(part) = part(document, sections, reference)
            && found.insert(part.clone())
        {
            new.push(part);
        }
    };
    paths.into_iter().for_each(|item| each(item, &mut |reference| see(reference, &mut new)));
    while let Some(part) = new.pop() {
        each_of_part(document, sections, &part, &mut |reference| see(reference, &mut new));
    }
    found
}

/// Takes away the parts that `keep` does not want, and sections left empty.
pub fn retain(document: &mut Value, sections: &[&str], keep: impl Fn(&Part) -> bool) {
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
    fn examples_callbacks_and_discriminators_refer_too() {
        let refer = |to: &str| json!({"$ref": to});
        let callback =
            json!({"{$request.body#/url}": {"post": {"requestBody": refer("#/body")}}, "x-a": refer("#/no")});
        let media = json!({"a/b": {
            "examples": {"x-a": refer("#/example"), "b": {"value": refer("#/no"), "x-c": refer("#/no")}},
            "example": refer("#/no"),
        }});
        let mapping = json!({"a": "#/mapped", "$ref": "#/too", "c": "Name", "d": "file.json"});
        let document = json!({
            "paths": {"/a": {"post": {
                "requestBody": {"content": media},
                "callbacks": {"by-name": refer("#/callback"), "here": callback},
                // In v2 this is data.
                "responses": {"200": {"examples": {"a/b": refer("#/no")}}},
            }}},
            "responses": {"R": {"examples": {"a/b": refer("#/no")}, "schema": refer("#/schema")}},
            "components": {
                "callbacks": {"C": {"/c": {"get": {"parameters": [refer("#/parameter")]}}}, "D": refer("#/callback")},
                "examples": {"E": refer("#/example"), "F": {"value": {"schema": refer("#/no")}}},
                "schemas": {"S": {
                    "discriminator": {"propertyName": "#/no", "mapping": mapping, "x-a": refer("#/no")},
                    "properties": {"discriminator": {"mapping": {"a": "#/no"}}},
                    "examples": [refer("#/no")],
                }},
            },
        });
        let expected = ["body", "callback", "example", "mapped", "parameter", "schema", "too"]
            .map(|to| format!("#/{to}"));
        assert_eq!(dangling(&document), expected);
        let mut moved = document;
        rewrite(&mut moved, &|reference| Some(format!("{reference}/on")));
        assert_eq!(dangling(&moved), expected.map(|to| format!("{to}/on")));
        let mapping = &moved["components"]["schemas"]["S"]["discriminator"]["mapping"];
        assert_eq!(*mapping, json!({"a": "#/mapped/on", "$ref": "#/too/on", "c": "Name", "d": "file.json"}));
    }

    #[test]
    fn parts_are_read_as_what_their_section_holds() {
        let refer = |section: &str, name: &str| json!({"$ref": format!("#/components/{section}/{name}")});
        let document = json!({"components": {
            "callbacks": {"C": {"{$url}": {"post": {"requestBody": refer("requestBodies", "B")}}}, "D": {}},
            "requestBodies": {"B": {"content": {"a/b": {"examples": {"e": refer("examples", "E")}}}}},
            "examples": {"E": refer("examples", "F"), "F": {"value": refer("examples", "G")}, "G": {}},
            "schemas": {"S": {"discriminator": {"mapping": {"t": "#/components/schemas/T"}}}, "T": {}, "U": {}},
        }});
        let item = json!({"post": {"callbacks": {"c": refer("callbacks", "C")}}});
        let found = closure(&document, V3, [&item], [(0, "S".to_owned())]);
        let found: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["S", "T", "B", "E", "F", "C"]);
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
