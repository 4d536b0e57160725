//! Several documents as one.
//!
//! The first document is kept as it is; each further one adds its paths and
//! what they need. A path that is there already stays. A definition that is
//! there already under the same name and says the same is shared; one that says
//! something else is called `NAME_v2`, `NAME_v3` and so on, and references to it
//! follow. What a definition says includes what it refers to. No kind
//! (group, version and kind) is claimed by two definitions: readers of v2 give
//! up on such a document.
//!
//! What a later document says of all its operations (media types, schemes,
//! security, servers) and the first does not is said of each of them. Where it
//! says nothing, its operations have no media types but their own; the rest is
//! then the first's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use sternpost_schema::extension::GROUP_VERSION_KIND;

use crate::{
    convert::{METHODS, count},
    references::{self, Keys, Part},
};

/// Documents in one, and what could not stay as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub document: Value,
    pub conflicts: Vec<Conflict>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// The path is another document's, and differs.
    Path { document: usize, path: String },
    /// Another document has something else by that name.
    Renamed { document: usize, section: &'static str, from: String, to: String },
}

/// Merges v2 documents, the first of which counts most.
pub fn v2(documents: impl IntoIterator<Item = Value>) -> Merged {
    merge(documents, references::V2, "/securityDefinitions")
}

/// Merges v3 documents, the first of which counts most.
pub fn v3(documents: impl IntoIterator<Item = Value>) -> Merged {
    merge(documents, references::V3, "/components/securitySchemes")
}

/// Values written to say of each operation of a document what it says of all.
/// What would need more stays unsaid: a small document could make a huge one.
pub const MAX_DEFAULTS: usize = 1_000_000;

fn merge(
    documents: impl IntoIterator<Item = Value>,
    sections: &'static [&'static str],
    security: &'static str,
) -> Merged {
    let mut merger =
        Merger { sections, security, document: Value::Null, claimed: BTreeMap::new(), conflicts: Vec::new() };
    for (index, document) in documents.into_iter().enumerate() {
        merger.add(index, document);
    }
    Merged { document: merger.document, conflicts: merger.conflicts }
}

struct Merger {
    sections: &'static [&'static str],
    security: &'static str,
    document: Value,
    /// Which definition each kind belongs to.
    claimed: BTreeMap<Gvk, String>,
    conflicts: Vec<Conflict>,
}

type Gvk = [String; 3];

impl Merger {
    fn add(&mut self, index: usize, mut document: Value) {
        if !document.is_object() {
            return;
        }
        let is_first = self.document.is_null();
        if is_first {
            let rest = document.as_object().into_iter().flatten();
            let is_kept = |key: &str| {
                key != "paths" && key != "components" && !self.sections.contains(&&*format!("/{key}"))
            };
            let rest = rest.filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.clone(), value.clone()));
            self.document = Value::Object(rest.collect());
        } else {
            self.keep_defaults(&mut document);
        }
        let spoken_for = self.parts(&document);
        self.drop_known_paths(index, &mut document);
        let names = self.choose_names(&document, &spoken_for);
        let mut moved = BTreeMap::new();
        references::each(&document, &mut |reference| {
            if let Some(part) = references::part(&document, self.sections, reference)
                && let Some(name) = names.get(&part).filter(|name| **name != part.1)
                && let Some(section) = self.sections.get(part.0)
            {
                moved.insert(reference.to_owned(), moved_to(reference, section, &part.1, name));
            }
        });
        if !moved.is_empty() {
            references::rewrite(&mut document, &|reference| moved.get(reference).cloned());
        }
        for ((section, from), to) in &names {
            let Some(pointer) = self.sections.get(*section).copied() else { continue };
            let Some(value) = document.pointer_mut(pointer).and_then(|entries| entries.get_mut(from)) else {
                continue;
            };
            let value = value.take();
            if self.insert(pointer, to, value) && from != to {
                let (from, to) = (from.clone(), to.clone());
                self.conflicts.push(Conflict::Renamed { document: index, section: pointer, from, to });
            }
        }
        for pointer in ["/paths", self.security] {
            let entries = document.pointer_mut(pointer).map(Value::take);
            if let (Some(Value::Object(entries)), Some(known)) =
                (entries, section(&mut self.document, pointer))
            {
                for (name, value) in entries {
                    known.entry(name).or_insert(value);
                }
            }
        }
        self.add_tags(&document);
    }

    /// Says of each operation what its document says of all of them.
    fn keep_defaults(&self, document: &mut Value) {
        let none = Value::Array(Vec::new());
        let mut left = MAX_DEFAULTS;
        for key in ["consumes", "produces", "schemes", "security", "servers"] {
            let is_media = ["consumes", "produces"].contains(&key);
            let known = self.document.get(key).or_else(|| is_media.then_some(&none));
            let own = document.get(key).or_else(|| is_media.then_some(&none));
            let Some(own) = own.filter(|own| known != Some(*own)).cloned() else { continue };
            let values = holders(document, key).count().saturating_mul(count(&own));
            if values > left {
                continue;
            }
            left -= values;
            for holder in holders(document, key) {
                holder.entry(key).or_insert_with(|| own.clone());
            }
        }
    }

    /// Paths that an earlier document has go, with what only they needed.
    fn drop_known_paths(&mut self, index: usize, document: &mut Value) {
        let known = self.document.get("paths").and_then(Value::as_object);
        let Some(known) = known else { return };
        let Some(paths) = document.get("paths").and_then(Value::as_object) else { return };
        let is_known = |path: &String| known.contains_key(path);
        let dropped: BTreeSet<String> = paths.keys().filter(|path| is_known(path)).cloned().collect();
        if dropped.is_empty() {
            return;
        }
        for path in &dropped {
            if known.get(path) != paths.get(path) {
                self.conflicts.push(Conflict::Path { document: index, path: path.clone() });
            }
        }
        let (gone, kept): (Vec<_>, Vec<_>) = paths.iter().partition(|(path, _)| is_known(path));
        let gone = references::closure(document, self.sections, gone.into_iter().map(|(_, item)| item), []);
        // What no path needs at all stays, with what it needs.
        let sections = self.sections.iter().enumerate();
        let loose = sections.flat_map(|(index, section)| {
            let entries = document.pointer(section).and_then(Value::as_object).into_iter().flatten();
            entries.map(move |(name, _)| (index, name.clone()))
        });
        let loose = loose.filter(|part| !gone.contains(part));
        let kept = kept.into_iter().map(|(_, item)| item);
        let needed = references::closure(document, self.sections, kept, loose);
        if let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) {
            paths.retain(|path, _| !dropped.contains(path));
        }
        references::retain(document, self.sections, |part| !gone.contains(part) || needed.contains(part));
    }

    fn parts(&self, document: &Value) -> BTreeSet<Part> {
        let sections = self.sections.iter().enumerate();
        let parts = sections.flat_map(|(index, section)| {
            let entries = document.pointer(section).and_then(Value::as_object).into_iter().flatten();
            entries.map(move |(name, _)| (index, name.clone()))
        });
        parts.collect()
    }

    /// What each part of `document` is called here: what it is called there,
    /// unless something else has that name. What is referred to is named first,
    /// so that two parts are compared with what they refer to; parts that refer
    /// to each other keep their names together, or lose them together.
    /// None takes a name that the document had for something else, even if that has been dropped.
    fn choose_names(&self, document: &Value, spoken_for: &BTreeSet<Part>) -> BTreeMap<Part, String> {
        let parts: Vec<Part> = self.parts(document).into_iter().collect();
        let mut names: BTreeMap<Part, String> =
            parts.iter().map(|part| (part.clone(), part.1.clone())).collect();
        let index: BTreeMap<&Part, usize> =
            parts.iter().enumerate().map(|(index, part)| (part, index)).collect();
        let uses: Vec<Vec<usize>> = parts
            .iter()
            .map(|part| {
                let mut used = BTreeSet::new();
                references::each_of_part(document, self.sections, part, &mut |reference| {
                    let part = references::part(document, self.sections, reference);
                    used.extend(part.and_then(|part| index.get(&part).copied()));
                });
                used.into_iter().collect()
            })
            .collect();
        for group in cycles(&uses) {
            let members: Vec<&Part> = group.iter().filter_map(|index| parts.get(*index)).collect();
            let mut number = 1_usize;
            while !members.iter().all(|part| self.fits(document, part, &names, spoken_for)) {
                number += 1;
                for part in &members {
                    names.insert((*part).clone(), format!("{}_v{number}", part.1));
                }
            }
        }
        names
    }

    /// Whether a part may have the name chosen for it: nothing has it, or the same thing.
    fn fits(
        &self,
        document: &Value,
        part: &Part,
        names: &BTreeMap<Part, String>,
        spoken_for: &BTreeSet<Part>,
    ) -> bool {
        let Some(section) = self.sections.get(part.0) else { return true };
        let Some(name) = names.get(part) else { return true };
        if *name != part.1 && spoken_for.contains(&(part.0, name.clone())) {
            return false;
        }
        let known = self.document.pointer(section).and_then(|entries| entries.get(name));
        let own = document.pointer(section).and_then(|entries| entries.get(&part.1));
        let (Some(known), Some(own)) = (known, own) else { return true };
        let new_name = |reference: &str| {
            let part = references::part(document, self.sections, reference)?;
            let name = names.get(&part).filter(|name| **name != part.1)?;
            Some(moved_to(reference, self.sections.get(part.0)?, &part.1, name))
        };
        let keys = Keys::of_part(section);
        match (known, own) {
            (Value::Object(known), Value::Object(own)) => {
                let fields = |fields: &Map<String, Value>| {
                    fields.iter().filter(|(key, _)| *key != GROUP_VERSION_KIND).count()
                };
                fields(known) == fields(own)
                    && known.iter().filter(|(key, _)| *key != GROUP_VERSION_KIND).all(|(key, value)| {
                        own.get(key).is_some_and(|own| is_field_equal(key, value, own, keys, &new_name))
                    })
            }
            _ => known == own,
        }
    }

    /// Puts a part in its place, or adds its kinds to the one that is there.
    /// Tells whether it was new.
    fn insert(&mut self, pointer: &'static str, name: &str, mut value: Value) -> bool {
        let is_kind = pointer == "/definitions" || pointer == "/components/schemas";
        let mut gvks = if is_kind { take_gvks(&mut value) } else { None };
        if let Some(list) = &mut gvks {
            list.retain(|gvk| {
                let Some(key) = gvk_of(gvk) else { return true };
                self.claimed.entry(key).or_insert_with(|| name.to_owned()) == name
            });
        }
        let Some(entries) = section(&mut self.document, pointer) else { return false };
        let is_new = !entries.contains_key(name);
        let known = entries.entry(name.to_owned()).or_insert(value);
        if let (Some(list), Some(known)) = (gvks, known.as_object_mut()) {
            add_gvks(known, list);
        }
        is_new
    }

    fn add_tags(&mut self, document: &Value) {
        let Some(new) = document.get("tags").and_then(Value::as_array) else { return };
        let Some(fields) = self.document.as_object_mut() else { return };
        let known = fields.entry("tags").or_insert_with(|| Value::Array(Vec::new()));
        let Some(known) = known.as_array_mut() else { return };
        for tag in new {
            if !known.iter().any(|known| known.get("name") == tag.get("name")) {
                known.push(tag.clone());
            }
        }
    }
}

/// What can say for itself what its document says of all: operations, and for
/// servers paths, since an operation would overrule those of its path.
fn holders<'a>(
    document: &'a mut Value,
    key: &str,
) -> Box<dyn Iterator<Item = &'a mut Map<String, Value>> + 'a> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let paths = paths.filter(|(path, _)| !path.starts_with("x-"));
    let items = paths.filter_map(|(_, item)| item.as_object_mut());
    if key == "servers" {
        return Box::new(items);
    }
    let operations = items.flatten().filter(|(key, _)| METHODS.contains(&key.as_str()) || *key == "trace");
    Box::new(operations.filter_map(|(_, operation)| operation.as_object_mut()))
}

/// Groups of nodes that lead to each other, each after those it leads to.
fn cycles(leads_to: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut led_from = vec![Vec::new(); leads_to.len()];
    for (from, targets) in leads_to.iter().enumerate() {
        for to in targets {
            if let Some(sources) = led_from.get_mut(*to) {
                sources.push(from);
            }
        }
    }
    let mut seen = vec![false; leads_to.len()];
    let mut finished = Vec::with_capacity(leads_to.len());
    for start in 0..leads_to.len() {
        visit(start, &led_from, &mut seen, &mut finished);
    }
    let mut seen = vec![false; leads_to.len()];
    let mut groups = Vec::new();
    // What finished last, walking backwards, is led to by nothing that is still to come.
    for start in finished.into_iter().rev() {
        let mut group = Vec::new();
        visit(start, leads_to, &mut seen, &mut group);
        if !group.is_empty() {
            groups.push(group);
        }
    }
    groups
}

/// Depth first from `start`; nodes go to `out` when all below them have. Without
/// recursion: a chain of definitions may be long.
fn visit(start: usize, edges: &[Vec<usize>], seen: &mut [bool], out: &mut Vec<usize>) {
    let mut first_visit = |node: usize| seen.get_mut(node).is_some_and(|seen| !std::mem::replace(seen, true));
    if !first_visit(start) {
        return;
    }
    let mut stack = vec![(start, 0_usize)];
    while let Some((node, next)) = stack.last_mut() {
        match edges.get(*node).and_then(|edges| edges.get(*next)).copied() {
            Some(target) => {
                *next += 1;
                if first_visit(target) {
                    stack.push((target, 0));
                }
            }
            None => {
                out.push(*node);
                stack.pop();
            }
        }
    }
}

/// The entries of a section, which is made if it is not there.
fn section<'a>(document: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    let mut value = document;
    for key in pointer.split('/').skip(1) {
        value = value.as_object_mut()?.entry(key).or_insert_with(|| Value::Object(Map::new()));
    }
    value.as_object_mut()
}

fn is_equal(known: &Value, own: &Value, keys: Keys, new_name: &impl Fn(&str) -> Option<String>) -> bool {
    match (known, own) {
        (Value::Object(known), Value::Object(own)) => {
            known.len() == own.len()
                && known.iter().all(|(key, value)| {
                    own.get(key).is_some_and(|own| is_field_equal(key, value, own, keys, new_name))
                })
        }
        (Value::Array(known), Value::Array(own)) => {
            let is_item_equal = |known: &Value, own: &Value| match keys.in_list() {
                Some(keys) => is_equal(known, own, keys, new_name),
                None => known == own,
            };
            known.len() == own.len() && known.iter().zip(own).all(|(known, own)| is_item_equal(known, own))
        }
        _ => known == own,
    }
}

fn is_field_equal(
    key: &str,
    known: &Value,
    own: &Value,
    keys: Keys,
    new_name: &impl Fn(&str) -> Option<String>,
) -> bool {
    if let (Value::String(known), Value::String(own)) = (known, own)
        && keys.is_reference(key, own)
    {
        return new_name(own).map_or(known == own, |own| *known == own);
    }
    match keys.below(key) {
        Some(keys) => is_equal(known, own, keys, new_name),
        None => known == own,
    }
}

fn take_gvks(schema: &mut Value) -> Option<Vec<Value>> {
    let fields = schema.as_object_mut()?;
    match fields.remove(GROUP_VERSION_KIND)? {
        Value::Array(list) => Some(list),
        // Not what it should be, so it claims nothing.
        other => {
            fields.insert(GROUP_VERSION_KIND.into(), other);
            None
        }
    }
}

fn add_gvks(schema: &mut Map<String, Value>, new: Vec<Value>) {
    if new.is_empty() && !schema.contains_key(GROUP_VERSION_KIND) {
        return;
    }
    let list = schema.entry(GROUP_VERSION_KIND).or_insert_with(|| Value::Array(Vec::new()));
    let Some(list) = list.as_array_mut() else { return };
    let is_first = list.is_empty();
    let before = list.len();
    for gvk in new {
        if !list.contains(&gvk) {
            list.push(gvk);
        }
    }
    // A list nobody added to stays in the order it was written in.
    if !is_first && list.len() > before {
        list.sort_by_key(gvk_of);
    }
}

fn gvk_of(gvk: &Value) -> Option<Gvk> {
    let text = |key: &str| Some(gvk.get(key)?.as_str()?.to_owned());
    Some([text("group")?, text("version")?, text("kind")?])
}

/// A reference to, or into, what was called `from` and is called `to`.
fn moved_to(reference: &str, section: &str, from: &str, to: &str) -> String {
    let rest = reference.get(section.len() + 2..).unwrap_or_default();
    let is_whole = rest == from || references::unescape(&references::decode(rest)) == from;
    let into = rest.split_once('/').filter(|_| !is_whole).map(|(_, into)| format!("/{into}"));
    format!("#{section}/{}{}", escape(to), into.unwrap_or_default())
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1").replace('%', "%25")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_come_after_those_they_lead_to() {
        // 0 → 1 ⇄ 2 → 3, 4 → 4, 5 → 0
        let groups = cycles(&[vec![1], vec![2], vec![1, 3], vec![], vec![4], vec![0]]);
        let at = |node: usize| groups.iter().position(|group| group.contains(&node)).unwrap();
        assert_eq!(at(1), at(2));
        assert_eq!(groups.len(), 5);
        assert!(at(3) < at(1) && at(1) < at(0) && at(0) < at(5));
        let long: Vec<Vec<usize>> = (0..200_000).map(|node| vec![(node + 1) % 200_000]).collect();
        assert_eq!(cycles(&long).len(), 1);
    }

    fn gvk(kind: &str) -> Value {
        json!({"group": "g", "version": "v1", "kind": kind})
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` gives values")]
    fn document(path: &str, name: &str, definitions: Value) -> Value {
        let schema = json!({"$ref": format!("#/definitions/{name}")});
        json!({"swagger": "2.0", "definitions": definitions,
            "paths": {path: {"get": {"responses": {"200": {"schema": schema}}}}}})
    }

    fn reference(name: &str) -> Value {
        json!({"$ref": format!("#/definitions/{name}")})
    }

    #[test]
    fn equal_definitions_are_one_with_the_kinds_of_both() {
        let one = document("/a", "D", json!({"D": {"type": "object", GROUP_VERSION_KIND: [gvk("B")]}}));
        let two =
            document("/b", "D", json!({"D": {"type": "object", GROUP_VERSION_KIND: [gvk("A"), gvk("B")]}}));
        let merged = merge_of([one, two]);
        assert_eq!(merged.conflicts, []);
        assert_eq!(
            merged.document["definitions"],
            json!({"D": {"type": "object", GROUP_VERSION_KIND: [gvk("A"), gvk("B")]}})
        );
    }

    #[test]
    fn different_definitions_are_renamed_with_what_refers_to_them_and_lose_claimed_kinds() {
        let first = document(
            "/a",
            "D",
            json!({"D": {"type": "object", GROUP_VERSION_KIND: [gvk("K")]}, "Leaf": {}, "User": {"items": reference("Leaf")}}),
        );
        let second = json!({"D": {"type": "string", GROUP_VERSION_KIND: [gvk("K"), gvk("L")]}, "Leaf": {"type": "string"}, "User": {"items": reference("Leaf")}});
        let third = document("/c", "D", second.clone());
        let second = document("/b", "D", second);
        let merged = merge_of([first, second, third]);
        let definitions = &merged.document["definitions"];
        assert_eq!(definitions["D"][GROUP_VERSION_KIND], json!([gvk("K")]));
        assert_eq!(definitions["D_v2"], json!({"type": "string", GROUP_VERSION_KIND: [gvk("L")]}));
        // Its text is the same, what it refers to is not.
        assert_eq!(definitions["User_v2"], json!({"items": reference("Leaf_v2")}));
        assert_eq!(definitions["User"], json!({"items": reference("Leaf")}));
        // The third document's are the second's.
        let names: Vec<&String> = definitions.as_object().unwrap().keys().collect();
        assert_eq!(names, ["D", "D_v2", "Leaf", "Leaf_v2", "User", "User_v2"]);
        for (path, name) in [("/a", "D"), ("/b", "D_v2"), ("/c", "D_v2")] {
            let schema = &merged.document["paths"][path]["get"]["responses"]["200"]["schema"];
            assert_eq!(*schema, reference(name), "{path}");
        }
        let renamed: Vec<String> = merged
            .conflicts
            .iter()
            .map(|conflict| match conflict {
                Conflict::Renamed { document, from, to, .. } => format!("{document} {from} {to}"),
                Conflict::Path { path, .. } => path.clone(),
            })
            .collect();
        assert_eq!(renamed, ["1 D D_v2", "1 Leaf Leaf_v2", "1 User User_v2"]);
    }

    #[test]
    fn the_earlier_path_wins_and_what_only_the_later_needed_is_gone() {
        let first = document("/a", "D", json!({"D": {}}));
        let mut second =
            document("/a", "E", json!({"E": {"items": reference("F")}, "F": {}, "G": {}, "Loose": {}}));
        second["paths"]["/b"] = json!({"get": {"responses": {"200": {"schema": reference("G")}}}});
        let merged = merge_of([first.clone(), second]);
        assert_eq!(merged.conflicts, [Conflict::Path { document: 1, path: "/a".into() }]);
        assert_eq!(merged.document["paths"]["/a"], first["paths"]["/a"]);
        let names: Vec<&String> = merged.document["definitions"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["D", "G", "Loose"]);
    }

    #[test]
    fn parameters_and_responses_are_renamed_alike() {
        let with = |path: &str, kind: &str| {
            json!({"swagger": "2.0",
                "parameters": {"p": {"name": "p", "in": "query", "type": kind}},
                "responses": {"r": {"description": kind}},
                "paths": {path: {"get": {"parameters": [{"$ref": "#/parameters/p"}], "responses": {"200": {"$ref": "#/responses/r"}}}}}})
        };
        let merged = merge_of([with("/a", "string"), with("/b", "integer"), with("/c", "string")]).document;
        let used = |path: &str| merged["paths"][path]["get"].clone();
        assert_eq!(used("/b")["parameters"], json!([{"$ref": "#/parameters/p_v2"}]));
        assert_eq!(used("/b")["responses"], json!({"200": {"$ref": "#/responses/r_v2"}}));
        assert_eq!(used("/c"), used("/a"));
        assert_eq!(merged["parameters"]["p_v2"]["type"], "integer");
    }

    #[test]
    fn what_a_later_document_says_of_all_its_operations_is_said_of_each() {
        let with = |path: &str, fields: Value| {
            let mut document = json!({"swagger": "2.0", "paths": {path: {"get": {}, "put": {
                "consumes": ["own"], "produces": ["own"], "schemes": ["ws"], "security": [{"own": []}]},
                "parameters": [], "x-get": {}}}});
            document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            document
        };
        let of = |what: &str| json!({"consumes": [what], "produces": [what], "schemes": [what], "security": [{what: []}]});
        let nothing = json!({});
        let media_only = json!({"consumes": [], "produces": []});
        for (first, second, expected) in [
            (&of("a"), &of("b"), &of("b")),
            (&nothing, &of("b"), &of("b")),
            (&of("a"), &of("a"), &nothing),
            (&of("a"), &nothing, &media_only),
            (&nothing, &media_only, &nothing),
            (&media_only, &nothing, &nothing),
        ] {
            let (one, two) = (with("/a", first.clone()), with("/b", second.clone()));
            let merged = merge_of([one.clone(), two.clone(), two.clone()]);
            assert_eq!(merged.conflicts, []);
            let paths = &merged.document["paths"];
            assert_eq!(paths["/b"]["get"], *expected, "{first} {second}");
            assert_eq!(paths["/b"]["put"], two["paths"]["/b"]["put"]);
            assert_eq!(paths["/b"]["x-get"], nothing);
            assert_eq!(paths["/a"], one["paths"]["/a"]);
            assert_eq!(merged.document.get("security"), first.get("security"));
        }
        let servers = json!([{"url": "/sub"}]);
        let one = json!({"openapi": "3.0.0", "paths": {"/a": {"get": {}}}});
        let own = json!({"get": {}, "servers": [{"url": "/path"}]});
        let two = json!({"openapi": "3.0.0", "servers": servers, "paths": {"/b": own, "/c": {"get": {}}}});
        let paths = &v3([one, two]).document["paths"];
        let expected = json!({"/a": {"get": {}}, "/b": own, "/c": {"get": {}, "servers": servers}});
        assert_eq!(*paths, expected);
    }

    #[test]
    fn what_is_said_of_each_operation_is_bounded() {
        const OPERATIONS: usize = 1000;
        let paths: Map<String, Value> =
            (0..OPERATIONS).map(|index| (format!("/{index}"), json!({"get": {}}))).collect();
        // The list is a value too.
        for (texts, is_written) in [(MAX_DEFAULTS / OPERATIONS - 1, true), (MAX_DEFAULTS / OPERATIONS, false)]
        {
            let document = json!({"swagger": "2.0", "schemes": vec!["s"; texts], "paths": paths});
            let merged = merge_of([json!({"swagger": "2.0"}), document]).document;
            assert_eq!(merged["paths"]["/7"]["get"].get("schemes").is_some(), is_written, "{texts}");
        }
    }

    #[test]
    fn tags_are_those_of_all() {
        let with = |tags: Value| json!({"swagger": "2.0", "tags": tags, "paths": {}});
        let (a, b) = (json!({"name": "a"}), json!({"name": "b"}));
        let other = json!({"name": "a", "description": "d"});
        let merged =
            merge_of([json!({"swagger": "2.0"}), with(json!([a])), with(json!([other, b]))]).document;
        assert_eq!(merged["tags"], json!([a, b]));
        assert_eq!(merge_of([json!({"swagger": "2.0"})]).document.get("tags"), None);
    }

    #[test]
    fn what_a_discriminator_maps_to_follows_and_counts() {
        let with = |path: &str, kind: &str| {
            let refer = |name: &str| format!("#/components/schemas/{name}");
            json!({"openapi": "3.0.0", "components": {
                "schemas": {"Dog": {"type": kind}, "Pet": {"discriminator": {"mapping": {"dog": refer("Dog")}}}},
                "examples": {"E": {"value": kind}},
                "callbacks": {"C": {"{$url}": {"get": {"parameters": [{"schema": {"$ref": refer("Pet")}}]}}}},
            }, "paths": {path: {"get": {
                "callbacks": {"c": {"$ref": "#/components/callbacks/C"}},
                "requestBody": {"content": {"a/b": {"examples": {"e": {"$ref": "#/components/examples/E"}}}}},
            }}}})
        };
        let merged = v3([with("/a", "string"), with("/b", "object")]).document;
        assert_eq!(references::dangling(&merged), Vec::<String>::new());
        let at = |pointer: &str| merged.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        for (pointer, expected) in [
            ("/components/schemas/Pet/discriminator/mapping/dog", "#/components/schemas/Dog"),
            ("/components/schemas/Pet_v2/discriminator/mapping/dog", "#/components/schemas/Dog_v2"),
            ("/components/callbacks/C_v2/{$url}/get/parameters/0/schema/$ref", "#/components/schemas/Pet_v2"),
            ("/paths/~1b/get/callbacks/c/$ref", "#/components/callbacks/C_v2"),
            ("/paths/~1b/get/requestBody/content/a~1b/examples/e/$ref", "#/components/examples/E_v2"),
            ("/paths/~1a/get/callbacks/c/$ref", "#/components/callbacks/C"),
        ] {
            assert_eq!(at(pointer), expected, "{pointer}");
        }
    }

    fn merge_of<const N: usize>(documents: [Value; N]) -> Merged {
        let merged = v2(documents);
        assert_eq!(references::dangling(&merged.document), Vec::<String>::new());
        merged
    }
}
