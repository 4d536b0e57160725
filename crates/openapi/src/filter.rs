//! A document restricted to some of its paths.

use serde_json::Value;

use crate::references;

/// What of a v2 document is below `prefix` (as in `/apis/GROUP/VERSION/`): those
/// paths, and exactly the definitions, parameters and responses they need.
pub fn v2(document: Value, prefix: &str) -> Value {
    filter(document, references::V2, |path| is_below(path, prefix))
}

/// The same for a v3 document.
pub fn v3(document: Value, prefix: &str) -> Value {
    filter(document, references::V3, |path| is_below(path, prefix))
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.starts_with(prefix) || prefix.strip_suffix('/') == Some(path)
}

fn filter(mut document: Value, sections: &[&str], keep: impl Fn(&str) -> bool) -> Value {
    if let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) {
        paths.retain(|path, _| path.starts_with("x-") || keep(path));
    }
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let items = paths.filter(|(path, _)| !path.starts_with("x-")).map(|(_, item)| item);
    let needed = references::closure(&document, sections, items, []);
    references::retain(&mut document, sections, |part| needed.contains(part));
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_callbacks_and_mapped_schemas_stay() {
        let refer = |section: &str, name: &str| json!({"$ref": format!("#/components/{section}/{name}")});
        let media = json!({"schema": refer("schemas", "Pet"), "examples": {"e": refer("examples", "E")}});
        let document = json!({
            "openapi": "3.0.0",
            "paths": {"/a": {"post": {
                "requestBody": {"content": {"application/json": media}},
                "callbacks": {"c": refer("callbacks", "C")},
            }}},
            "components": {
                "schemas": {
                    "Pet": {"discriminator": {"propertyName": "p", "mapping": {"dog": "#/components/schemas/Dog"}}},
                    "Dog": {}, "Called": {}, "Other": {},
                },
                "examples": {"E": {"value": 1}, "F": {"value": 2}},
                "callbacks": {"C": {"{$url}": {"get": {"responses": {"200": {"content": {"a/b": {"schema": refer("schemas", "Called")}}}}}}}, "D": {}},
            },
        });
        let filtered = v3(document, "/a");
        let names: Vec<String> = ["schemas", "examples", "callbacks"]
            .map(|section| {
                filtered["components"][section].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
            })
            .concat();
        assert_eq!(names, ["Called", "Dog", "Pet", "E", "C"]);
        assert!(references::dangling(&filtered).is_empty());
    }

    #[test]
    fn only_what_the_paths_need_stays() {
        let reference = |name: &str| json!({"$ref": name});
        let operation = |name: &str| {
            json!({"get": {"parameters": [reference("#/parameters/p")],
                "responses": {"200": {"schema": reference(name)}, "401": reference("#/responses/r")}}})
        };
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "t"},
            "paths": {
                "/apis/a/v1": operation("#/definitions/Root"),
                "/apis/a/v1/things": operation("#/definitions/Thing"),
                "/apis/a/v10/things": operation("#/definitions/Other"),
                "/apis/a/": operation("#/definitions/Group"),
                "/version": operation("#/definitions/Info"),
            },
            "definitions": {
                "Root": {}, "Other": {}, "Group": {}, "Info": {},
                "Thing": {"properties": {"self": reference("#/definitions/Thing"), "part": {"items": reference("#/definitions/Part")}}},
                "Part": {"additionalProperties": {"allOf": [reference("#/definitions/Leaf")]}},
                "Leaf": {"type": "string"},
            },
            "parameters": {"p": {}, "q": {"schema": reference("#/definitions/Other")}},
            "responses": {"r": {}, "s": {}},
        });
        let filtered = v2(document, "/apis/a/v1/");
        let keys = |pointer: &str| -> Vec<String> {
            filtered.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys("/paths"), ["/apis/a/v1", "/apis/a/v1/things"]);
        assert_eq!(keys("/definitions"), ["Leaf", "Part", "Root", "Thing"]);
        assert_eq!(keys("/parameters"), ["p"]);
        assert_eq!(keys("/responses"), ["r"]);
        assert_eq!(filtered["info"]["title"], "t");
        assert!(references::dangling(&filtered).is_empty());
        assert_eq!(v2(filtered.clone(), "/apis/a/v1/"), filtered);
        let nothing = v2(filtered, "/apis/b/v1/");
        assert_eq!(nothing, json!({"swagger": "2.0", "info": {"title": "t"}, "paths": {}}));
    }
}
