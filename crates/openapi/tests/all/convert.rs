//! v2 into v3 and back: rules as data, and nothing refers to nothing.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sternpost_openapi::{
    convert::{self, ConvertError, MAX_DEPTH, MAX_HOPS, MAX_LOSSES},
    filter, merge,
    names::Naming,
    publisher::{Coding, Format, Publisher, Unobserved},
    references::dangling,
};
use sternpost_wire::gnostic;

fn v2(fields: Value) -> Value {
    with(json!({"swagger": "2.0", "info": {"title": "t", "version": "1"}, "paths": {}}), fields)
}

fn v3(fields: Value) -> Value {
    with(json!({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}}), fields)
}

fn with(mut document: Value, fields: Value) -> Value {
    document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    document
}

/// Converts, and compares what is at `pointer` and where something was lost.
fn check_v3(input: Value, pointer: &str, expected: Value, lost: &[&str]) {
    let converted = convert::to_v3(&input).unwrap();
    assert_eq!(converted.document.pointer(pointer), Some(&expected), "of {input}");
    let places: Vec<&str> = converted.lost.iter().map(|loss| loss.place.as_str()).collect();
    assert_eq!(places, lost, "of {input}: {:?}", converted.lost);
    assert_eq!(dangling(&converted.document), Vec::<String>::new());
}

fn check_v2(input: Value, pointer: &str, expected: Value, lost: &[&str]) {
    let converted = convert::to_v2(&input).unwrap();
    assert_eq!(converted.document.pointer(pointer), Some(&expected), "of {input}");
    let places: Vec<&str> = converted.lost.iter().map(|loss| loss.place.as_str()).collect();
    assert_eq!(places, lost, "of {input}: {:?}", converted.lost);
    assert_eq!(dangling(&converted.document), Vec::<String>::new());
}

#[test]
fn schemas_of_v2_become_schemas_of_v3() {
    let a = "#/components/schemas/A";
    for (schema, expected, lost) in [
        (json!({"$ref": "#/definitions/A"}), json!({"$ref": a}), &[][..]),
        (
            json!({"$ref": "#/definitions/A", "description": "d", "x-kubernetes-map-type": "atomic"}),
            json!({"allOf": [{"$ref": a}], "description": "d", "x-kubernetes-map-type": "atomic"}),
            &[],
        ),
        (
            json!({"$ref": "#/definitions/A", "allOf": [{"$ref": "#/definitions/A"}]}),
            json!({"allOf": [{"$ref": a}, {"$ref": a}]}),
            &[],
        ),
        (
            json!({"items": {"$ref": "#/definitions/A"}, "type": "array"}),
            json!({"items": {"$ref": a}, "type": "array"}),
            &[],
        ),
        (
            json!({"additionalProperties": {"$ref": "#/definitions/A"}}),
            json!({"additionalProperties": {"$ref": a}}),
            &[],
        ),
        (json!({"additionalProperties": false}), json!({"additionalProperties": false}), &[]),
        (
            json!({"properties": {"$ref": {"type": "string"}, "x-a": {"$ref": "#/definitions/A"}}}),
            json!({"properties": {"$ref": {"type": "string"}, "x-a": {"$ref": a}}}),
            &[],
        ),
        (
            json!({"default": {"$ref": "#/definitions/A"}, "enum": [{"$ref": "x"}]}),
            json!({"default": {"$ref": "#/definitions/A"}, "enum": [{"$ref": "x"}]}),
            &[],
        ),
        (
            json!({"type": "string", "format": "int-or-string", "description": "d"}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string",
                "x-kubernetes-int-or-string": true, "description": "d"}),
            &[],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}),
            &[],
        ),
        (json!({"type": "file"}), json!({"type": "string", "format": "binary"}), &[]),
        (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true}), &[]),
        (
            json!({"type": ["string", "integer"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            &[],
        ),
        (json!({"type": "string", "x-nullable": true}), json!({"type": "string", "nullable": true}), &[]),
        (json!({"discriminator": "kind"}), json!({"discriminator": {"propertyName": "kind"}}), &[]),
        (
            json!({"items": [{"type": "string"}, {"$ref": "#/definitions/A"}]}),
            json!({"items": {"anyOf": [{"type": "string"}, {"$ref": a}]}}),
            &["/definitions/S/items"],
        ),
        (
            json!({"patternProperties": {}, "minimum": 1}),
            json!({"minimum": 1}),
            &["/definitions/S/patternProperties"],
        ),
        (
            json!({"$ref": "#/definitions/Nope", "description": "d"}),
            json!({"description": "d"}),
            &["/definitions/S/$ref"],
        ),
        (json!({"$ref": "other.json"}), json!({"$ref": "other.json"}), &["/definitions/S/$ref"]),
        (
            json!({"$ref": 5, "items": 5, "properties": []}),
            json!({}),
            &["/definitions/S/$ref", "/definitions/S/items", "/definitions/S/properties"],
        ),
        (json!(5), json!({}), &["/definitions/S"]),
        (
            json!({"properties": {"a~/b": 5}}),
            json!({"properties": {"a~/b": {}}}),
            &["/definitions/S/properties/a~0~1b"],
        ),
    ] {
        let input = v2(json!({"definitions": {"A": {"type": "object"}, "S": schema}}));
        check_v3(input, "/components/schemas/S", expected, lost);
    }
}

#[test]
fn quantities_are_numbers_or_strings_and_known_by_name() {
    for (name, is_quantity) in [
        ("io.k8s.apimachinery.pkg.api.resource.Quantity", true),
        ("com.example.resource.Quantity", true),
        ("com.example.v1.Quantity", false),
        ("com.example.v1.ResourceQuantity", false),
    ] {
        let input = v2(json!({"definitions": {name: {"type": "string", "description": "d"}}}));
        let expected = if is_quantity {
            json!({"anyOf": [{"type": "string"}, {"type": "number"}], "description": "d"})
        } else {
            json!({"type": "string", "description": "d"})
        };
        check_v3(input, &format!("/components/schemas/{name}"), expected, &[]);
        let lost = format!("/components/schemas/{name}/oneOf");
        let union = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
        let (expected, lost) = if is_quantity {
            (json!({"type": "string"}), &[][..])
        } else {
            (json!({}), &[lost.as_str()][..])
        };
        let input = v3(json!({"components": {"schemas": {name: union}}}));
        check_v2(input, &format!("/definitions/{name}"), expected, lost);
        // Only the definition has the name.
        let property = json!({"properties": {name: union}});
        check_v2(
            v3(json!({"components": {"schemas": {"S": property}}})),
            "/definitions/S",
            json!({"properties": {name: {}}}),
            &[&format!("/components/schemas/S/properties/{name}/oneOf")],
        );
    }
}

#[test]
fn parameters_and_bodies_of_v2_go_where_v3_has_them() {
    let shared = json!({
        "pretty": {"name": "pretty", "in": "query", "type": "string", "uniqueItems": true, "description": "d"},
        "validation": {"name": "fieldValidation", "in": "query", "type": "string"},
        "body-1": {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/A"}},
        "form": {"name": "f", "in": "formData", "type": "file", "required": true},
        "again": {"$ref": "#/parameters/pretty"},
        "round": {"$ref": "#/parameters/round"},
    });
    let schema = json!({"schema": {"$ref": "#/components/schemas/A"}});
    for (method, operation, at, expected, lost) in [
        (
            "get",
            json!({"parameters": [{"$ref": "#/parameters/pretty"}]}),
            "parameters",
            json!([{"$ref": "#/components/parameters/pretty"}]),
            &[][..],
        ),
        (
            "put",
            json!({"parameters": [{"$ref": "#/parameters/validation"}]}),
            "parameters",
            json!([{"$ref": "#/components/parameters/validation"}]),
            &[],
        ),
        // kubectl follows no reference here.
        (
            "patch",
            json!({"parameters": [{"$ref": "#/parameters/validation"}]}),
            "parameters",
            json!([{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]),
            &[],
        ),
        (
            "get",
            json!({"parameters": [{"$ref": "#/parameters/nope"}, {"$ref": "#/parameters/again"}]}),
            "parameters",
            json!([{"$ref": "#/components/parameters/again"}]),
            &["/paths/~1p/get/parameters/0"],
        ),
        (
            "get",
            json!({"parameters": [{"$ref": "#/parameters/round"}, 5, {"in": "moon", "name": "a"}],
                "description": "d"}),
            "description",
            json!("d"),
            &["/paths/~1p/get/parameters/0", "/paths/~1p/get/parameters/1", "/paths/~1p/get/parameters/2"],
        ),
        (
            "get",
            json!({"parameters": [{"name": "a", "in": "query", "type": "array", "items": {"type": "string", "enum": ["x"]},
                "collectionFormat": "pipes", "default": ["x"], "x-e": 1}]}),
            "parameters",
            json!([{"name": "a", "in": "query", "style": "pipeDelimited", "explode": false, "x-e": 1,
                "schema": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "default": ["x"]}}]),
            &[],
        ),
        (
            "get",
            json!({"parameters": [{"name": "a", "in": "query", "type": "array", "items": {"type": "string"}}]}),
            "parameters",
            json!([{"name": "a", "in": "query", "style": "form", "explode": false,
                "schema": {"type": "array", "items": {"type": "string"}}}]),
            &[],
        ),
        (
            "get",
            json!({"parameters": [{"name": "a", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}]}),
            "parameters",
            json!([{"name": "a", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}]),
            &[],
        ),
        (
            "get",
            json!({"parameters": [{"name": "a", "in": "header", "type": "array", "items": {"type": "string"}, "collectionFormat": "tsv"}]}),
            "parameters",
            json!([{"name": "a", "in": "header", "schema": {"type": "array", "items": {"type": "string"}}}]),
            &["/paths/~1p/get/parameters/0/collectionFormat"],
        ),
        (
            "post",
            json!({"consumes": ["application/json", "application/yaml"], "parameters": [{"$ref": "#/parameters/body-1"}]}),
            "requestBody",
            json!({"required": true, "content": {"application/json": schema, "application/yaml": schema}}),
            &[],
        ),
        (
            "post",
            json!({"parameters": [{"$ref": "#/parameters/body-1"}]}),
            "requestBody",
            json!({"required": true, "content": {"text/of-the-document": schema}}),
            &[],
        ),
        (
            "post",
            json!({"consumes": [], "parameters": [{"name": "thing", "in": "body", "schema": {"$ref": "#/definitions/A"}}]}),
            "requestBody",
            json!({"content": {"*/*": schema}}),
            &["/paths/~1p/post/parameters/name"],
        ),
        (
            "post",
            json!({"consumes": ["multipart/form-data", "application/x-www-form-urlencoded"], "parameters": [
                {"$ref": "#/parameters/form"}, {"name": "n", "in": "formData", "type": "integer", "description": "d"}]}),
            "requestBody",
            json!({"required": true, "content": {"multipart/form-data": {"schema": {"type": "object", "required": ["f"],
                "properties": {"f": {"type": "string", "format": "binary"}, "n": {"type": "integer", "description": "d"}}}}}}),
            &[],
        ),
    ] {
        let lost: Vec<&str> = lost.iter().copied().chain(["/parameters/round"]).collect();
        let input =
            v2(json!({"consumes": ["text/of-the-document"], "definitions": {"A": {}}, "parameters": shared,
            "paths": {"/p": {method: operation}}}));
        let converted = convert::to_v3(&input).unwrap();
        let found = converted.document.pointer(&format!("/paths/~1p/{method}/{at}"));
        assert_eq!(found, Some(&expected), "of {operation}");
        let places: Vec<&str> = converted.lost.iter().map(|loss| loss.place.as_str()).collect();
        assert_eq!(places, lost, "of {operation}");
        assert_eq!(dangling(&converted.document), Vec::<String>::new());
        let shared = converted.document.pointer("/components/parameters").unwrap().as_object().unwrap();
        assert_eq!(shared.keys().collect::<Vec<_>>(), ["again", "pretty", "validation"]);
    }
}

#[test]
fn a_body_of_all_operations_of_a_path_is_each_ones() {
    let input = v2(json!({"paths": {"/p": {
        "parameters": [{"name": "body", "in": "body", "schema": {}}, {"name": "n", "in": "path", "type": "string"}],
        "post": {"responses": {}},
        "put": {"parameters": [{"name": "body", "in": "body", "schema": {"type": "string"}}]},
    }}}));
    let expected = json!({
        "parameters": [{"name": "n", "in": "path", "required": true, "schema": {"type": "string"}}],
        "post": {"requestBody": {"content": {"*/*": {"schema": {}}}}, "responses": {}},
        "put": {"requestBody": {"content": {"*/*": {"schema": {"type": "string"}}}}, "responses": {}},
    });
    check_v3(input, "/paths/~1p", expected, &[]);
}

#[test]
fn responses_have_the_media_types_their_operation_produces() {
    let a = json!({"schema": {"$ref": "#/components/schemas/A"}});
    let document = |operation: Value| {
        v2(json!({"produces": ["application/json"], "definitions": {"A": {}},
            "responses": {"R": {"description": "d", "schema": {"$ref": "#/definitions/A"}}},
            "paths": {"/p": {"get": operation}}}))
    };
    let own = json!({"responses": {"200": {"schema": {"$ref": "#/definitions/A"},
        "headers": {"H": {"type": "integer", "description": "h"}}, "examples": {"text/plain": "e"}}}});
    check_v3(
        document(own),
        "/paths/~1p/get/responses/200",
        json!({"description": "", "headers": {"H": {"description": "h", "schema": {"type": "integer"}}},
            "content": {"application/json": a,
                "text/plain": {"example": "e", "schema": {"$ref": "#/components/schemas/A"}}}}),
        &[],
    );
    let shared = json!({"responses": {"200": {"$ref": "#/responses/R"}}});
    let reference = json!({"$ref": "#/components/responses/R"});
    check_v3(document(shared.clone()), "/paths/~1p/get/responses/200", reference, &[]);
    check_v3(
        document(with(shared, json!({"produces": ["application/yaml"]}))),
        "/paths/~1p/get/responses/200",
        json!({"description": "d", "content": {"application/yaml": a}}),
        &[],
    );
    let nowhere = json!({"responses": {"200": {"$ref": "#/responses/Nope"}}});
    check_v3(
        document(nowhere),
        "/paths/~1p/get/responses/200",
        json!({"description": ""}),
        &["/paths/~1p/get/responses/200"],
    );
}

#[test]
fn the_rest_of_a_document_finds_its_place() {
    for (fields, pointer, expected) in [
        (
            json!({"host": "h", "basePath": "/b", "schemes": ["https", "http"]}),
            "/servers",
            json!([{"url": "https://h/b"}, {"url": "http://h/b"}]),
        ),
        (json!({"host": "h", "basePath": "/"}), "/servers", json!([{"url": "//h"}])),
        (json!({"basePath": "/b"}), "/servers", json!([{"url": "/b"}])),
        (
            json!({"securityDefinitions": {"B": {"type": "basic"}}}),
            "/components/securitySchemes/B",
            json!({"type": "http", "scheme": "basic"}),
        ),
        (
            json!({"securityDefinitions": {"B": {"type": "apiKey", "in": "header", "name": "authorization"}}}),
            "/components/securitySchemes/B",
            json!({"type": "apiKey", "in": "header", "name": "authorization"}),
        ),
        (
            json!({"securityDefinitions": {"B": {"type": "oauth2", "flow": "accessCode", "tokenUrl": "t", "scopes": {"s": "d"}}}}),
            "/components/securitySchemes/B",
            json!({"type": "oauth2", "flows": {"authorizationCode": {"tokenUrl": "t", "scopes": {"s": "d"}}}}),
        ),
        (json!({"security": [{"B": []}], "x-a": 1}), "/security", json!([{"B": []}])),
    ] {
        let there = convert::to_v3(&v2(fields.clone())).unwrap();
        assert_eq!(there.document.pointer(pointer), Some(&expected), "{fields}");
        assert_eq!(there.lost, []);
        let back = convert::to_v2(&there.document).unwrap();
        if fields != json!({"host": "h", "basePath": "/"}) {
            assert_eq!(back.document, v2(fields));
        }
    }
}

#[test]
fn names_that_v3_cannot_have_and_references_into_definitions_are_kept_apart() {
    let input = v2(json!({"definitions": {
        "a/b": {"type": "string"}, "a_b": {"type": "integer"},
        "T": {"properties": {"p": {"type": "boolean"}, "up": {"$ref": "#/definitions/T/properties/up"}}},
        "U": {"properties": {
            "a": {"$ref": "#/definitions/a~1b"}, "b": {"$ref": "#/definitions/a/b"}, "c": {"$ref": "#/definitions/a%2Fb"},
            "d": {"$ref": "#/definitions/T/properties/p"}, "e": {"$ref": "#/definitions/T/properties/up"}}},
    }}));
    let converted = convert::to_v3(&input).unwrap().document;
    assert_eq!(dangling(&converted), Vec::<String>::new());
    let schemas = &converted["components"]["schemas"];
    assert_eq!(schemas["a_b_2"], json!({"type": "string"}));
    for (property, name) in
        [("a", "a_b_2"), ("b", "a_b_2"), ("c", "a_b_2"), ("d", "T.properties.p"), ("e", "T.properties.up")]
    {
        let reference = format!("#/components/schemas/{name}");
        assert_eq!(schemas["U"]["properties"][property], json!({"$ref": reference}), "{property}");
    }
    assert_eq!(schemas["T.properties.p"], json!({"type": "boolean"}));
    assert_eq!(schemas["T.properties.up"], json!({"$ref": "#/components/schemas/T.properties.up"}));
}

#[test]
fn schemas_of_v3_become_schemas_of_v2_and_what_cannot_be_said_is_listed() {
    for (schema, expected, lost) in [
        (json!({"$ref": "#/components/schemas/A"}), json!({"$ref": "#/definitions/A"}), &[][..]),
        (
            json!({"allOf": [{"$ref": "#/components/schemas/A"}], "description": "d", "default": {}}),
            json!({"$ref": "#/definitions/A", "description": "d", "default": {}}),
            &[],
        ),
        (
            json!({"allOf": [{"$ref": "#/components/schemas/A"}], "minimum": 1}),
            json!({"allOf": [{"$ref": "#/definitions/A"}], "minimum": 1}),
            &[],
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string", "x-kubernetes-int-or-string": true}),
            json!({"type": "string", "format": "int-or-string"}),
            &[],
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true}),
            &[],
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "number"}], "description": "d"}),
            json!({"description": "d"}),
            &["/components/schemas/S/oneOf"],
        ),
        (
            json!({"anyOf": [{"minimum": 1}], "oneOf": [], "not": {}, "type": "integer"}),
            json!({"type": "integer"}),
            &["/components/schemas/S/anyOf", "/components/schemas/S/not", "/components/schemas/S/oneOf"],
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!({"type": "string", "x-nullable": true}),
            &["/components/schemas/S/nullable"],
        ),
        (
            json!({"type": "string", "writeOnly": true, "deprecated": true}),
            json!({"type": "string"}),
            &["/components/schemas/S/deprecated", "/components/schemas/S/writeOnly"],
        ),
        (
            json!({"discriminator": {"propertyName": "p", "mapping": {}}}),
            json!({"discriminator": "p"}),
            &["/components/schemas/S/discriminator"],
        ),
        (json!({"$ref": "#/components/schemas/Nope"}), json!({}), &["/components/schemas/S/$ref"]),
    ] {
        let input = v3(json!({"components": {"schemas": {"A": {"type": "object"}, "S": schema}}}));
        check_v2(input, "/definitions/S", expected, lost);
    }
}

#[test]
fn operations_of_v3_become_operations_of_v2() {
    let components = json!({
        "schemas": {"A": {}, "E": {"type": "string", "enum": ["x"]}},
        "parameters": {"p": {"name": "p", "in": "query", "schema": {"type": "string"}}, "c": {"name": "c", "in": "cookie", "schema": {}}},
        "requestBodies": {"b": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}},
        "links": {"l": {}},
    });
    for (operation, expected, lost) in [
        (
            json!({"requestBody": {"$ref": "#/components/requestBodies/b"}, "responses": {}}),
            json!({"consumes": ["application/json"], "responses": {}, "parameters": [
                {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/A"}}]}),
            &[][..],
        ),
        (
            json!({"parameters": [{"$ref": "#/components/parameters/p"}, {"$ref": "#/components/parameters/c"},
                {"name": "e", "in": "query", "schema": {"$ref": "#/components/schemas/E"}},
                {"name": "m", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}], "responses": {}}),
            json!({"parameters": [{"$ref": "#/parameters/p"}, {"name": "e", "in": "query", "type": "string", "enum": ["x"]},
                {"name": "m", "in": "query", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"}], "responses": {}}),
            &["/paths/~1p/post/parameters/1"],
        ),
        (
            json!({"callbacks": {}, "servers": [], "responses": {"200": {"description": "d", "links": {}, "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/A"}},
                "text/plain": {"schema": {"type": "string"}, "example": "e"}}}}}),
            json!({"produces": ["application/json", "text/plain"], "responses": {"200": {"description": "d",
                "schema": {"$ref": "#/definitions/A"}, "examples": {"text/plain": "e"}}}}),
            &[
                "/paths/~1p/post/callbacks",
                "/paths/~1p/post/responses/200/content/text~1plain/schema",
                "/paths/~1p/post/responses/200/links",
                "/paths/~1p/post/servers",
            ],
        ),
        (
            json!({"requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object", "required": ["f"],
                "properties": {"f": {"type": "string", "format": "binary", "description": "d"}}}}}}, "responses": {}}),
            json!({"consumes": ["multipart/form-data"], "responses": {}, "parameters": [
                {"name": "f", "in": "formData", "type": "file", "required": true, "description": "d"}]}),
            &[],
        ),
    ] {
        let shared = ["/components/links", "/components/parameters/c"];
        let is_unused = operation.pointer("/requestBody/$ref").is_none();
        let unused = is_unused.then_some("/components/requestBodies/b");
        let lost: Vec<&str> = lost.iter().copied().chain(shared).chain(unused).collect();
        let input = v3(json!({"components": components, "paths": {"/p": {"post": operation}}}));
        check_v2(input, "/paths/~1p/post", expected, &lost);
    }
}

/// Where an operation of v3 loses something, with `post` and below left out.
fn check_losses(operation: Value, expected: &[&str]) -> Value {
    let components = json!({"responses": {
        "R": {"description": "", "content": {"a/json": {"schema": {}}}},
    }, "schemas": {"D": {"type": "string", "description": "of D", "title": "t"}}});
    let converted =
        convert::to_v2(&v3(json!({"components": components, "paths": {"/p": {"post": operation}}}))).unwrap();
    let places: Vec<&str> = converted
        .lost
        .iter()
        .map(|loss| loss.place.strip_prefix("/paths/~1p/post/").unwrap_or(&loss.place))
        .collect();
    assert_eq!(places, expected, "of {operation}: {:?}", converted.lost);
    assert_eq!(dangling(&converted.document), Vec::<String>::new());
    converted.document.pointer("/paths/~1p/post").unwrap().clone()
}

#[test]
fn media_types_that_only_some_responses_have_are_lost() {
    let json = json!({"a/json": {"schema": {}}});
    let both = json!({"a/json": {"schema": {}}, "a/yaml": {"schema": {}}});
    for (responses, lost) in [
        (json!({"200": {"content": json}, "201": {"content": json}, "401": {"description": "d"}}), &[][..]),
        (json!({"200": {"content": both}, "201": {"content": both}, "default": {"content": {}}}), &[]),
        (json!({"200": {"content": both}, "201": {"content": json}}), &["responses/201/content"]),
        (
            json!({"200": {"content": both}, "201": {"$ref": "#/components/responses/R"}}),
            &["responses/201/content"],
        ),
        (json!({"200": {"content": json}, "201": {"$ref": "#/components/responses/R"}}), &[]),
        (
            json!({"200": {"content": {"a/json": {"schema": {}}, "a/yaml": {}}}}),
            &["responses/200/content/a~1yaml"],
        ),
        (json!({"200": {"content": {"a/json": {}}}}), &["responses/200/content/a~1json"]),
        (json!({"200": {"content": {"a/json": {"example": 1}}}}), &[]),
        (
            json!({"200": {"headers": {"H": {"required": true, "style": "form", "schema": {"type": "string"}},
                "I": {"required": false, "style": "simple", "schema": {"type": "string"}}}}}),
            &["responses/200/headers/H/style", "responses/200/headers/H/required"],
        ),
    ] {
        check_losses(json!({"responses": responses}), lost);
    }
}

#[test]
fn what_is_said_of_a_form_beside_its_fields_is_lost() {
    let schema = json!({"type": "object", "properties": {"f": {"type": "string"}}});
    let form = |body: Value| json!({"requestBody": body, "responses": {}});
    let urlencoded = "application/x-www-form-urlencoded";
    let multipart = "multipart/form-data";
    let at = |media: &str, rest: &str| format!("requestBody/content/{}{rest}", media.replace('/', "~1"));
    for (body, lost) in [
        (json!({"content": {urlencoded: {"schema": schema}, multipart: {"schema": schema}}}), vec![]),
        (
            json!({"description": "d", "x-a": 1, "required": false, "content": {multipart: {"schema": schema}}}),
            vec!["requestBody/description".to_owned(), "requestBody/x-a".to_owned()],
        ),
        (
            json!({"required": true, "content": {multipart: {"schema": schema}}}),
            vec!["requestBody/required".to_owned()],
        ),
        (
            json!({"required": true, "content": {multipart: {"schema": with(schema.clone(), json!({"required": ["f"]}))}}}),
            vec![],
        ),
        (
            json!({"content": {multipart: {"schema": schema, "encoding": {}, "example": {}}}}),
            vec![at(multipart, "/encoding"), at(multipart, "/example")],
        ),
        (
            json!({"content": {urlencoded: {"schema": schema}, multipart: {"schema": {"type": "object"}}}}),
            vec![at(multipart, "/schema")],
        ),
        (json!({"content": {urlencoded: {"schema": schema}, multipart: {}}}), vec![at(multipart, "")]),
        (
            json!({"content": {multipart: {"schema": with(schema.clone(),
                json!({"required": ["f", "g"], "additionalProperties": false, "description": "d", "type": "array"}))}}}),
            ["additionalProperties", "description", "required", "type"]
                .map(|key| at(multipart, &format!("/schema/{key}")))
                .into(),
        ),
        (
            json!({"content": {multipart: {"schema": {"properties": {"f": {"type": "string", "title": "t"}}}}}}),
            vec![at(multipart, "/schema/properties/f/title")],
        ),
    ] {
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        let operation = check_losses(form(body), &lost);
        let parameters = operation["parameters"].as_array().unwrap();
        assert_eq!((parameters.len(), &parameters[0]["in"]), (1, &json!("formData")));
    }
}

#[test]
fn what_a_parameter_of_v2_has_no_words_for_is_lost() {
    let string = json!({"type": "string"});
    for (parameter, expected, lost) in [
        (json!({"in": "query", "style": "form", "explode": true, "schema": string}), json!({}), &[][..]),
        (json!({"in": "path", "style": "simple", "explode": false, "schema": string}), json!({}), &[]),
        (
            json!({"in": "query", "style": "deepObject", "schema": {"type": "object"}}),
            json!({}),
            &["schema/type", "style"],
        ),
        (
            json!({"in": "path", "style": "label", "explode": true, "schema": string}),
            json!({}),
            &["explode", "style"],
        ),
        (
            json!({"in": "query", "schema": {"type": "string", "title": "t", "externalDocs": {}, "readOnly": true}}),
            json!({}),
            &["schema/externalDocs", "schema/readOnly", "schema/title"],
        ),
        (
            json!({"in": "query", "schema": {"type": "string", "description": "of the type"}}),
            json!({"description": "of the type"}),
            &[],
        ),
        (
            json!({"in": "query", "description": "d", "schema": {"type": "string", "description": "d"}}),
            json!({"description": "d"}),
            &[],
        ),
        (
            json!({"in": "query", "description": "d", "schema": {"$ref": "#/components/schemas/D"}}),
            json!({"description": "d"}),
            &["schema/title", "schema/description"],
        ),
        (
            json!({"in": "header", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/D"}}}),
            json!({"type": "array", "items": string}),
            &["schema/items/title", "schema/items/description"],
        ),
        (json!({"in": "query", "schema": 5}), json!({}), &["schema"]),
    ] {
        let lost: Vec<String> = lost.iter().map(|place| format!("parameters/0/{place}")).collect();
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        let named = with(parameter.clone(), json!({"name": "p"}));
        let operation = check_losses(json!({"parameters": [named], "responses": {}}), &lost);
        let expected = with(json!({"name": "p", "in": parameter["in"], "type": "string"}), expected);
        assert_eq!(operation["parameters"], json!([expected]));
    }
}

#[test]
fn a_parameter_that_is_a_list_of_itself_ends() {
    let schemas = json!({"L": {"type": "array", "items": {"$ref": "#/components/schemas/L"}}});
    let parameter = json!({"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/L"}});
    let input = v3(json!({"components": {"schemas": schemas},
        "paths": {"/p": {"get": {"parameters": [parameter], "responses": {}}}}}));
    let converted = convert::to_v2(&input).unwrap();
    let mut level = converted.document.pointer("/paths/~1p/get/parameters/0").unwrap();
    let mut lists = 0;
    while let Some(items) = level.get("items") {
        level = items;
        lists += 1;
    }
    assert_eq!((lists, level), (MAX_HOPS, &json!({"type": "string"})));
    let place = format!("/paths/~1p/get/parameters/0/schema{}", "/items".repeat(MAX_HOPS));
    assert_eq!(converted.lost.iter().map(|loss| &loss.place).collect::<Vec<_>>(), [&place]);
}

#[test]
fn components_that_nothing_in_v2_can_use_are_lost() {
    let header = json!({"schema": {"type": "string"}});
    let headers = |name: &str| json!({"headers": {"H": {"$ref": format!("#/components/headers/{name}")}}});
    let components = json!({
        "x-a": 1,
        "headers": {"by-shared": header, "by-response": header, "by-nobody": header},
        "requestBodies": {"used": {"$ref": "#/components/requestBodies/through"}, "through": {}, "unused": {}},
        "responses": {"R": headers("by-shared")},
    });
    let operation = json!({"requestBody": {"$ref": "#/components/requestBodies/used"},
        "responses": {"200": headers("by-response")}});
    check_v2(
        v3(json!({"components": components, "paths": {"/p": {"post": operation}}})),
        "/responses/R/headers/H",
        json!({"type": "string"}),
        &["/components/headers/by-nobody", "/components/requestBodies/unused", "/components/x-a"],
    );
}

#[test]
fn depth_is_bounded_and_only_the_right_version_is_taken() {
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"items": inner}));
    // The document, the definitions, and the innermost object are levels too.
    let document = |depth: usize| v2(json!({"definitions": {"A": nested(depth)}}));
    assert!(convert::to_v3(&document(MAX_DEPTH - 2)).is_ok());
    assert_eq!(convert::to_v3(&document(MAX_DEPTH - 1)), Err(ConvertError::TooDeep));
    for (input, expected) in [
        (json!([]), ConvertError::NotAnObject),
        (json!({}), ConvertError::OtherVersion { wanted: "swagger: \"2.0\"" }),
        (v3(json!({})), ConvertError::OtherVersion { wanted: "swagger: \"2.0\"" }),
    ] {
        assert_eq!(convert::to_v3(&input), Err(expected));
    }
    for input in [v2(json!({})), json!({"openapi": "3.1.0"}), json!({"openapi": 3})] {
        assert_eq!(convert::to_v2(&input), Err(ConvertError::OtherVersion { wanted: "openapi: 3.0.x" }));
    }
}

#[test]
fn a_small_document_that_would_become_a_huge_one_is_refused() {
    let properties: Map<String, Value> = (0..3000).map(|index| (index.to_string(), json!({}))).collect();
    let types: Vec<String> = (0..3000).map(|index| format!("a/{index}")).collect();
    let input = v2(json!({"paths": {"/p": {"post": {"consumes": types,
        "parameters": [{"name": "body", "in": "body", "schema": {"properties": properties}}]}}}}));
    assert_eq!(convert::to_v3(&input), Err(ConvertError::TooLarge));
}

#[test]
fn losses_are_listed_up_to_a_limit_and_then_counted() {
    for (count, unlisted) in [(MAX_LOSSES, 0), (MAX_LOSSES + 1, 1)] {
        let definitions: Map<String, Value> = (0..count).map(|index| (index.to_string(), json!(5))).collect();
        let converted = convert::to_v3(&v2(json!({"definitions": definitions}))).unwrap();
        assert_eq!((converted.lost.len(), converted.unlisted), (MAX_LOSSES, unlisted));
    }
}

#[test]
fn references_to_references_are_followed_so_far() {
    for (hops, is_found) in [(MAX_HOPS - 1, true), (MAX_HOPS, false)] {
        let mut parameters: Map<String, Value> = (1..hops)
            .map(|hop| (hop.to_string(), json!({"$ref": format!("#/parameters/{}", hop + 1)})))
            .collect();
        parameters.insert(hops.to_string(), json!({"name": "n", "in": "query", "type": "string"}));
        let operation = json!({"parameters": [{"$ref": "#/parameters/1"}]});
        let input = v2(json!({"parameters": parameters, "paths": {"/p": {"get": operation}}}));
        let converted = convert::to_v3(&input).unwrap();
        assert_eq!(converted.document.pointer("/paths/~1p/get/parameters").is_some(), is_found, "{hops}");
        assert_eq!(dangling(&converted.document), Vec::<String>::new());
    }
}

fn own(naming: Naming) -> (Value, Vec<Value>) {
    let snapshot = Publisher::new(sternpost_builtin::groups(), naming, Arc::new(Unobserved)).snapshot();
    let read = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    let v2 = read(&snapshot.v2().form(Format::Json, Coding::Identity).unwrap().bytes);
    let v3 = snapshot
        .keys()
        .map(|key| {
            read(&snapshot.document(key, naming).unwrap().form(Format::Json, Coding::Identity).unwrap().bytes)
        })
        .collect();
    (v2, v3)
}

#[test]
fn our_own_documents_go_there_and_back() {
    let (v2, v3) = own(Naming::Upstream);
    assert_eq!(dangling(&v2), Vec::<String>::new());
    check_both_ways(&v2);
    for document in v3 {
        let converted = convert::to_v2(&document).unwrap();
        assert_eq!(dangling(&converted.document), Vec::<String>::new());
        gnostic::encode_v2(&converted.document).unwrap();
    }
}

fn check_both_ways(v2: &Value) {
    let converted = convert::to_v3(v2).unwrap();
    assert_eq!(dangling(&converted.document), Vec::<String>::new());
    let lost: Vec<_> = converted.lost.iter().filter(|loss| !loss.place.ends_with("/schemes")).collect();
    assert!(lost.is_empty(), "{lost:?}");
    gnostic::encode_v3(&converted.document).unwrap();
    let back = convert::to_v2(&converted.document).unwrap();
    assert_eq!(back.lost, []);
    assert_eq!(back.document["definitions"], v2["definitions"]);
    let paths = v2["paths"].as_object().unwrap();
    assert_eq!(back.document["paths"].as_object().unwrap().len(), paths.len());
}

/// Even if what had the name in its document is dropped with a path that is known.
#[test]
fn a_name_that_looks_like_a_renaming_stays_its_owners() {
    let first = v2(json!({"definitions": {"A": {"properties": {}}, "A_v2": {}, "C": {}}}));
    let second = v2(json!({
        "definitions": {"A": {}, "A_v2": {}, "C": {"properties": {"p": {"$ref": "#/definitions/A"}}}},
        "paths": {"/a": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/A_v2"}}}}}},
    }));
    let merged = merge::v2([first.clone(), second.clone()]).document;
    let names: Vec<&String> = merged["definitions"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["A", "A_v2", "A_v3", "C", "C_v2"]);
    assert_eq!(merge::v2([merged.clone(), first, second]).document["definitions"], merged["definitions"]);
}

/// Any v2 document of Kubernetes: `STERNPOST_OPENAPI_V2=FILE`.
#[test]
#[ignore = "needs a document"]
#[expect(clippy::disallowed_methods, reason = "a test is told what to run by the environment")]
fn a_document_of_somebody_else_goes_there_and_back() {
    let path = std::env::var_os("STERNPOST_OPENAPI_V2").unwrap();
    let v2: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    check_both_ways(&v2);
}

#[test]
fn all_our_v3_documents_are_one_without_conflict() {
    for naming in Naming::ALL {
        let (_, documents) = own(naming);
        let paths: usize =
            documents.iter().map(|document| document["paths"].as_object().unwrap().len()).sum();
        let merged = merge::v3(documents);
        assert_eq!(merged.conflicts, []);
        assert_eq!(merged.document["paths"].as_object().unwrap().len(), paths);
        assert_eq!(dangling(&merged.document), Vec::<String>::new());
    }
}

#[test]
fn our_v2_document_taken_apart_and_merged_is_the_same() {
    let (v2, _) = own(Naming::Upstream);
    let parts = ["/api/", "/apis/apps/v1/", "/apis/batch/v1/"].map(|prefix| filter::v2(v2.clone(), prefix));
    let merged = merge::v2(std::iter::once(v2.clone()).chain(parts.clone()));
    assert_eq!(merged.conflicts, []);
    assert_eq!(merged.document, v2);
    // Whatever comes first: the same definitions.
    let [a, b, c] = parts;
    let one = merge::v2([a.clone(), b.clone(), c.clone()]).document;
    let other = merge::v2([c, b, a]).document;
    assert_eq!(one, other);
}

/// Documents with references to everywhere and nowhere, in shapes that may be wrong.
fn any_document() -> impl Strategy<Value = Value> {
    let name = prop_oneof![3 => "[AB]", 1 => "[A-C~/% ]{0,3}"];
    let reference = (
        prop_oneof![
            "#/definitions/",
            "#/parameters/",
            "#/responses/",
            "#/components/schemas/",
            "#/components/requestBodies/",
            "#/components/callbacks/",
            "#/paths/",
            "http://a/"
        ],
        name.clone(),
        prop_oneof![4 => Just(""), 1 => Just("/properties/A"), 1 => Just("/schema")],
    )
        .prop_map(|(section, name, rest)| json!(format!("{section}{name}{rest}")));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        prop_oneof![
            "string",
            "array",
            "object",
            "file",
            "int-or-string",
            "query",
            "body",
            "formData",
            "path",
            "a/b"
        ]
        .prop_map(Value::from),
        reference.clone(),
        Just(json!({})),
    ];
    let key = prop_oneof![
        6 => prop::sample::select(vec![
            "$ref", "properties", "items", "allOf", "anyOf", "additionalProperties", "type", "format", "schema",
            "parameters", "responses", "get", "post", "in", "name", "default", "content", "headers", "required",
            "nullable", "x-a", "description", "requestBody", "discriminator", "200", "examples", "callbacks", "mapping",
            "style", "multipart/form-data",
        ]).prop_map(str::to_owned),
        1 => name.clone(),
    ];
    let tree = leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            4 => prop::collection::btree_map(key.clone(), inner.clone(), 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            2 => reference.clone().prop_map(|reference| json!({"$ref": reference})),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    });
    let section = prop::collection::btree_map(name, tree, 0..4);
    prop::array::uniform4(section).prop_map(|[definitions, parameters, responses, paths]| {
        json!({
            "swagger": "2.0", "openapi": "3.0.0", "info": {},
            "definitions": definitions, "parameters": parameters, "responses": responses, "paths": paths,
            "components": {"schemas": definitions, "parameters": parameters, "responses": responses,
                "requestBodies": parameters, "headers": parameters, "examples": responses, "callbacks": paths},
        })
    })
}

fn has_no_duplicate_kinds(document: &Value, pointer: &str) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let schemas = document.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let mut kinds =
        schemas.filter_map(|(_, schema)| schema.get("x-kubernetes-group-version-kind")?.as_array()).flatten();
    kinds.all(|kind| seen.insert(kind.to_string()))
}

/// Documents whose names and kinds collide with each other's.
fn colliding_documents() -> impl Strategy<Value = Vec<Value>> {
    let name = || prop::sample::select(vec!["A", "B", "C", "A_v2"]);
    let schema = (prop::option::of(name()), 0..3_u8, prop::collection::vec(0..4_u8, 0..3)).prop_map(|(to, text, kinds)| {
        let kinds: Vec<Value> =
            kinds.into_iter().map(|kind| json!({"group": "g", "version": "v", "kind": format!("K{kind}")})).collect();
        json!({
            "description": text.to_string(),
            "properties": to.map(|to| json!({"p": {"$ref": format!("#/definitions/{to}")}})).unwrap_or(json!({})),
            "x-kubernetes-group-version-kind": kinds,
        })
    });
    let definitions = prop::collection::btree_map(name(), schema, 0..5);
    let paths = prop::collection::btree_map("/[a-d]", name(), 0..4);
    let document = (definitions, paths).prop_map(|(mut definitions, paths)| {
        for name in ["A", "B", "C", "A_v2"] {
            definitions.entry(name).or_insert_with(|| json!({"description": "0"}));
        }
        let item = |name: &str| json!({"get": {"responses": {"200": {"schema": {"$ref": format!("#/definitions/{name}")}}}}});
        let paths: Map<String, Value> = paths.into_iter().map(|(path, name)| (path, item(name))).collect();
        v2(json!({"definitions": definitions, "paths": paths}))
    });
    prop::collection::vec(document, 1..5)
}

/// What a path's schema says, all references followed to some depth.
fn unfolded(document: &Value, schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return json!("deep");
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap();
        return unfolded(document, target, depth - 1);
    }
    let mut out = schema.clone();
    out.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
    if let Some(property) = schema.pointer("/properties/p") {
        out["properties"]["p"] = unfolded(document, property, depth - 1);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_converted_refers_to_nothing(document in any_document()) {
        let v3 = convert::to_v3(&document).unwrap();
        prop_assert_eq!(dangling(&v3.document), Vec::<String>::new());
        let v2 = convert::to_v2(&document).unwrap();
        prop_assert_eq!(dangling(&v2.document), Vec::<String>::new());
        // What was converted converts again.
        let again = convert::to_v2(&v3.document).unwrap();
        prop_assert_eq!(dangling(&again.document), Vec::<String>::new());
        filter::v2(document.clone(), "/");
        merge::v2([document.clone(), v2.document, document.clone()]);
        // Filtering takes nothing away that is referred to.
        let mut pure = document.clone();
        pure.as_object_mut().unwrap().retain(|key, _| ["openapi", "paths", "components"].contains(&key.as_str()));
        let known = dangling(&pure);
        let filtered = filter::v3(pure, "/");
        let is_new = |reference: &String| reference.starts_with("#/components/") && !known.contains(reference);
        prop_assert!(!dangling(&filtered).iter().any(is_new), "{}", filtered);
        merge::v3([v3.document, document]);
    }

    #[test]
    fn merged_documents_say_what_each_said_and_claim_no_kind_twice(documents in colliding_documents()) {
        let merged = merge::v2(documents.clone()).document;
        prop_assert_eq!(dangling(&merged), Vec::<String>::new());
        prop_assert!(has_no_duplicate_kinds(&merged, "/definitions"), "{}", merged);
        let mut seen = std::collections::BTreeSet::new();
        for document in &documents {
            for (path, item) in document["paths"].as_object().unwrap() {
                if seen.insert(path.clone()) {
                    let at = "/get/responses/200/schema";
                    let own = unfolded(document, item.pointer(at).unwrap(), 8);
                    let there = unfolded(&merged, merged["paths"][path].pointer(at).unwrap(), 8);
                    prop_assert_eq!(own, there, "{}", path);
                }
            }
        }
        // Again and again the same, and once more nothing new.
        prop_assert_eq!(&merge::v2(documents.clone()).document, &merged);
        let again = merge::v2([merged.clone()].into_iter().chain(documents)).document;
        prop_assert_eq!(again["definitions"].as_object().unwrap().len(), merged["definitions"].as_object().unwrap().len());
        prop_assert_eq!(&again["paths"], &merged["paths"]);
    }
}
