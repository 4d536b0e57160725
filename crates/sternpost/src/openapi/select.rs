//! What of a document some kinds need.
//!
//! Those are their schemas, the paths that are about them, and everything these
//! refer to.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sternpost_openapi::references::{self, Part};

/// Which kinds; an empty list is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// `KIND`, in any case, or `KIND.GROUP`.
    pub kinds: Vec<String>,
    /// Empty or `core` is the one without a name.
    pub groups: Vec<String>,
}

/// What to keep of the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    CachedAnswer,
    Dropped,
}

impl Selection {
    pub fn is_everything(&self) -> bool {
        self.kinds.is_empty() && self.groups.is_empty()
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|wanted| is_same_group(wanted, group))
    }

    fn has(&self, gvk: &Value) -> bool {
        let text = |key| gvk.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("group"), text("kind"));
        self.has_group(group)
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| is_kind(wanted, kind, group)))
    }

    /// Takes away what is not needed, and says which of the kinds (by index) were there.
    pub fn apply(&self, document: &mut Value, paths: Paths) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        if self.is_everything() {
            if paths == Paths::Dropped
                && let Some(all) = document.get_mut("paths").and_then(Value::as_object_mut)
            {
                all.clear();
            }
            return found;
        }
        let sections = if document.get("swagger").is_some() { references::V2 } else { references::V3 };
        let schemas = self.schemas(document, sections, &mut found);
        if let Some(all) = document.get_mut("paths").and_then(Value::as_object_mut) {
            let kept = match paths {
                Paths::CachedAnswer => self.paths(all),
                Paths::Dropped => BTreeSet::new(),
            };
            all.retain(|path, _| kept.contains(path));
        }
        let items = document.get("paths").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let needed = references::closure(document, sections, items, schemas);
        references::retain(document, sections, |part| needed.contains(part));
        found
    }

    /// The schemas of the kinds, which are in the first of the sections.
    fn schemas(&self, document: &Value, sections: &[&str], found: &mut BTreeSet<usize>) -> BTreeSet<Part> {
        let mut schemas = BTreeSet::new();
        let all = sections.first().and_then(|section| document.pointer(section)).and_then(Value::as_object);
        for (name, schema) in all.into_iter().flatten() {
            for gvk in kinds_of(schema).filter(|gvk| self.has(gvk)) {
                schemas.insert((0, name.clone()));
                let text = |key| gvk.get(key).and_then(Value::as_str).unwrap_or_default();
                let is_this = |kind: &str| is_kind(kind, text("kind"), text("group"));
                let named = self.kinds.iter().enumerate().filter(|(_, kind)| is_this(kind));
                found.extend(named.map(|(index, _)| index));
            }
        }
        schemas
    }

    /// The paths of operations on the kinds, with those below them: a subresource may have a kind
    /// of its own.
    fn paths(&self, paths: &Map<String, Value>) -> BTreeSet<String> {
        let is_about = |item: &Value| {
            let operations = item.as_object().into_iter().flat_map(|item| item.values());
            operations.filter_map(|operation| operation.get(GVK)).any(|gvk| self.has(gvk))
        };
        let own: Vec<&String> =
            paths.iter().filter(|(_, item)| is_about(item)).map(|(path, _)| path).collect();
        let objects: Vec<String> =
            own.iter().filter(|path| path.ends_with("/{name}")).map(|path| format!("{path}/")).collect();
        let below = paths.keys().filter(|path| objects.iter().any(|object| path.starts_with(object)));
        own.iter().copied().chain(below).cloned().collect()
    }
}

pub const GVK: &str = "x-kubernetes-group-version-kind";

/// The kinds a schema is for.
pub fn kinds_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get(GVK).and_then(Value::as_array).into_iter().flatten()
}

fn is_kind(wanted: &str, kind: &str, group: &str) -> bool {
    match wanted.split_once('.') {
        Some((name, of)) => name.eq_ignore_ascii_case(kind) && is_same_group(of, group),
        None => wanted.eq_ignore_ascii_case(kind),
    }
}

fn is_same_group(wanted: &str, group: &str) -> bool {
    wanted == group || (group.is_empty() && wanted == "core")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gvk(group: &str, kind: &str) -> Value {
        json!({"group": group, "version": "v1", "kind": kind})
    }

    fn document() -> Value {
        let refer = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let operation = |group: &str, kind: &str, answer: &str| {
            json!({"get": {GVK: gvk(group, kind), "responses": {"200": {"content": {"x": {"schema": refer(answer)}}}},
                   "parameters": [{"$ref": "#/components/parameters/p"}]}})
        };
        json!({
            "openapi": "3.0.0",
            "info": {"title": "t"},
            "paths": {
                "/apis/sea/v1/": {"get": {"responses": {"200": {"content": {"x": {"schema": refer("List")}}}}}},
                "/apis/sea/v1/ships": operation("sea", "Ship", "ShipList"),
                "/apis/sea/v1/ships/{name}": operation("sea", "Ship", "Ship"),
                "/apis/sea/v1/ships/{name}/scale": operation("autoscaling", "Scale", "Scale"),
                "/apis/sea/v1/docks/{name}": operation("sea", "Dock", "Dock"),
                "/apis/air/v1/ships/{name}": operation("air", "Ship", "Airship"),
            },
            "components": {
                "schemas": {
                    "List": {}, "ShipList": {"items": refer("Ship")},
                    "Ship": {GVK: [gvk("sea", "Ship")], "properties": {"hull": refer("Hull"), "$ref": refer("Odd")}},
                    "Airship": {GVK: [gvk("air", "Ship")]},
                    "Hull": {"properties": {"part": refer("Hull")}}, "Odd": {},
                    "Dock": {GVK: [gvk("sea", "Dock")], "properties": {"ships": {"items": refer("Ship")}}},
                    "Scale": {GVK: [gvk("autoscaling", "Scale")]},
                },
                "parameters": {"p": {}, "q": {}},
                "securitySchemes": {"Bearer": {}},
            },
        })
    }

    fn check(kinds: &[&str], groups: &[&str], paths: Paths, expected: (&[&str], &[&str], &[usize])) {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection { kinds: texts(kinds), groups: texts(groups) };
        let mut document = document();
        let found: Vec<usize> = selection.apply(&mut document, paths).into_iter().collect();
        let names = |value: &Value| -> Vec<String> {
            value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let short: Vec<String> =
            names(&document["paths"]).iter().map(|path| path.replace("/apis/", "")).collect();
        assert_eq!(short, expected.0, "paths of {kinds:?} {groups:?}");
        assert_eq!(names(&document["components"]["schemas"]), expected.1, "schemas of {kinds:?} {groups:?}");
        assert_eq!(found, expected.2, "{kinds:?} {groups:?}");
        assert!(document["components"]["securitySchemes"].get("Bearer").is_some());
        let parameters: &[&str] = if expected.0.is_empty() { &[] } else { &["p"] };
        assert_eq!(names(&document["components"]["parameters"]), parameters);
        assert_eq!(references::dangling(&document), Vec::<String>::new());
    }

    #[test]
    fn kinds_keep_what_they_need() {
        let ship = ["sea/v1/ships", "sea/v1/ships/{name}", "sea/v1/ships/{name}/scale"];
        let schemas = ["Hull", "Odd", "Scale", "Ship", "ShipList"];
        check(&["ship"], &["sea"], Paths::CachedAnswer, (&ship, &schemas, &[0]));
        check(&["Ship.sea"], &[], Paths::CachedAnswer, (&ship, &schemas, &[0]));
        check(&["Ship.sea"], &[], Paths::Dropped, (&[], &["Hull", "Odd", "Ship"], &[0]));
        check(&["Tram", "Dock"], &[], Paths::Dropped, (&[], &["Dock", "Hull", "Odd", "Ship"], &[1]));
        check(&[], &["air"], Paths::CachedAnswer, (&["air/v1/ships/{name}"], &["Airship"], &[]));
        check(&["Ship"], &["core"], Paths::CachedAnswer, (&[], &[], &[]));
    }

    #[test]
    fn schemas_of_no_kind_stay_when_only_paths_go() {
        let mut document = document();
        let before = document["components"].clone();
        Selection::default().apply(&mut document, Paths::Dropped);
        assert_eq!((&document["paths"], &document["components"]), (&json!({}), &before));
    }

    /// Others than Kubernetes escape names, and refer from discriminators and examples.
    #[test]
    fn references_are_followed_however_they_are_written() {
        let mut document = json!({"openapi": "3.0.0", "paths": {}, "components": {
            "schemas": {
                "Ship": {GVK: [gvk("sea", "Ship")], "properties": {"hull": {"$ref": "#/components/schemas/a%2Fb"}},
                         "discriminator": {"propertyName": "p", "mapping": {"m": "#/components/schemas/Mapped"}}},
                "a/b": {}, "Mapped": {}, "Other": {},
            },
        }});
        let selection = Selection { kinds: vec!["Ship".into()], groups: Vec::new() };
        selection.apply(&mut document, Paths::CachedAnswer);
        let names: Vec<&String> = document["components"]["schemas"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["Mapped", "Ship", "a/b"]);
    }

    #[test]
    fn the_group_without_a_name_is_also_called_core() {
        for (wanted, group, expected) in
            [("core", "", true), ("", "", true), ("core", "core", true), ("apps", "", false)]
        {
            assert_eq!(is_same_group(wanted, group), expected, "{wanted} {group}");
        }
    }
}
