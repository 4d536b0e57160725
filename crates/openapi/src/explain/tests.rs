use serde_json::json;

use super::{
    names::{FindError, ResolvedName, find},
    sources::Sources,
    *,
};

fn document(schemas: &Value) -> Sources {
    let mut sources = Sources::default();
    let json = json!({"openapi": "3.0.0", "paths": {}, "components": {"schemas": schemas}});
    sources.add(&json).unwrap();
    sources
}

fn kind(name: &str, mut schema: Value) -> Value {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": "sea.example.com", "version": "v1", "kind": name}]);
    schema
}

fn names(explanation: &Explanation) -> Vec<&str> {
    explanation.fields.iter().map(|field| &*field.name).collect()
}

fn explained(sources: &Sources, argument: &str, depth: Depth) -> Result<Explanation, ExplainError> {
    let found = find(sources.names(), argument, None).unwrap();
    explain(&sources.subject(found.index).unwrap(), &found.path, depth)
}

/// Group/version of what was found, and the fields after it.
fn check_find(argument: &str, expected: Result<(&str, &str, &[&str]), &str>) {
    let sources = Sources::built_in();
    let found = find(sources.names(), argument, None).map(|found| {
        let names = &sources.names()[found.index];
        (names.gv.to_string(), names.plural.to_string(), found.path)
    });
    let expected = expected
        .map(|(gv, plural, path)| {
            (gv.to_owned(), plural.to_owned(), path.iter().map(|name| (*name).to_owned()).collect())
        })
        .map_err(ToOwned::to_owned);
    assert_eq!(found.map_err(|error| error.to_string()), expected, "{argument}");
}

#[test]
fn resources_go_by_any_of_their_names() {
    fn deployments<'a>(path: &'a [&'a str]) -> Result<(&'a str, &'a str, &'a [&'a str]), &'a str> {
        Ok(("apps/v1", "deployments", path))
    }
    for argument in [
        "deployments",
        "deployment",
        "Deployment",
        "DEPLOYMENTS",
        "deploy",
        "deployments.apps",
        "deployments.v1.apps",
        "deploy.v1.apps",
        "deployments.",
    ] {
        check_find(argument, deployments(&[]));
    }
    for argument in [
        "deploy.spec.replicas",
        "deployments.apps.spec.replicas",
        "deploy.v1.apps.spec.replicas",
        "deploy..spec.replicas.",
        "deploy['spec'].replicas",
    ] {
        check_find(argument, deployments(&["spec", "replicas"]));
    }
    check_find("events", Ok(("v1", "events", &[])));
    check_find("events.events.k8s.io.note", Ok(("events.k8s.io/v1", "events", &["note"])));
    check_find("hpa", Ok(("autoscaling/v2", "horizontalpodautoscalers", &[])));
    check_find("hpa.v1.autoscaling", Ok(("autoscaling/v1", "horizontalpodautoscalers", &[])));
    check_find("pods.v1", Ok(("v1", "pods", &[])));
    check_find("cm.data['a.b']", Ok(("v1", "configmaps", &["data", "a.b"])));
}

#[test]
fn what_is_not_found_is_told_in_kubectls_words() {
    for (argument, message) in [
        ("nosuch", "the server doesn't have a resource type \"nosuch\""),
        ("nosuch.spec", "the server doesn't have a resource type \"nosuch\""),
        ("", "the server doesn't have a resource type \"\""),
        ("pods/status", "the server doesn't have a resource type \"pods/status\""),
        // Short names are as they are.
        ("Po", "the server doesn't have a resource type \"Po\""),
        (".spec", "invalid jsonpath syntax, first node must be field node"),
        ("po.spec.containers[0].name", "invalid jsonpath syntax, first node must be field node"),
        ("po['spec", "invalid jsonpath syntax, first node must be field node"),
    ] {
        check_find(argument, Err(message));
    }
    let sources = Sources::built_in();
    for (version, message) in [
        ("v2", "couldn't find resource for \"/v2, Resource=pods\""),
        ("apps/v1", "GVR (apps/v1, Resource=pods) not found in OpenAPI schema"),
        ("a/b/c", "unexpected GroupVersion string: a/b/c"),
    ] {
        assert_eq!(find(sources.names(), "po", Some(version)).unwrap_err().to_string(), message);
    }
    assert_eq!(
        find(&[], "pods", None),
        Err(FindError::NoResource("pods".to_owned())),
        "nothing is known without sources"
    );
}

#[test]
fn a_short_name_of_two_resources_is_told() {
    let sources = Sources::built_in();
    let also = |argument| -> ResolvedName { find(sources.names(), argument, None).unwrap() };
    assert_eq!(also("ev").also, ["events.events.k8s.io"]);
    assert!(also("events").also.is_empty());
    assert!(also("ev.v1").also.is_empty());
}

#[test]
fn versions_of_a_group_are_preferred_as_discovery_prefers_them() {
    let mut sources = Sources::default();
    for version in ["v1beta1", "v1", "v2alpha1"] {
        let gvk = json!([{"group": "sea.example.com", "version": version, "kind": "Ship"}]);
        let ship = json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-group-version-kind": gvk});
        let json = json!({"swagger": "2.0", "paths": {}, "definitions": {"Ship": ship}});
        assert_eq!(sources.add(&json).unwrap(), 1);
    }
    let versions: Vec<&str> = sources.names().iter().map(|names| &*names.gv.version).collect();
    assert_eq!(versions, ["v1", "v1beta1", "v2alpha1"]);
}

#[test]
fn definitions_alone_name_resources_by_their_kinds() {
    let object = |name| kind(name, json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let sources = document(&json!({
        "A": object("Ferry"), "B": object("Compass"), "C": object("Ship"), "D": object("ShipList"),
    }));
    let plurals: Vec<&str> = sources.names().iter().map(|names| &*names.plural).collect();
    assert_eq!(plurals, ["ferries", "compasses", "ships"]);
}

#[test]
fn other_objects_describe_nothing() {
    let mut sources = Sources::default();
    for json in [json!({}), json!(null), json!([1]), json!({"kind": "ConfigMap", "apiVersion": "v1"})] {
        assert_eq!(sources.add(&json).unwrap(), 0, "{json}");
    }
    let crd = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"});
    for (spec, message) in [
        (json!(null), "custom resource definition: spec: expected an object, found null"),
        (json!({}), "custom resource definition: document: `spec.group` is missing"),
        (
            json!({"group": "g", "names": {"kind": "K", "plural": "ks"}, "versions": [
                {"name": "v1", "schema": {"openAPIV3Schema": {"type": "objct"}}},
            ]}),
            "custom resource definition: spec.versions.0.schema.openAPIV3Schema.type: `objct` is not a schema type; \
             one of array, boolean, integer, number, object, string",
        ),
    ] {
        let mut crd = crd.clone();
        crd["spec"] = spec;
        let list = json!({"kind": "List", "items": [crd]});
        assert_eq!(sources.add(&list).unwrap_err().to_string(), message);
    }
}

#[test]
fn definitions_of_v1beta1_share_one_schema() {
    let mut sources = Sources::default();
    let crd = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": {
        "group": "g.example.com", "version": "v1", "names": {"kind": "Ship", "plural": "ships"},
        "validation": {"openAPIV3Schema": {"properties": {"spec": {"type": "string"}}}},
    }});
    assert_eq!(sources.add(&crd).unwrap(), 1);
    let ship = explained(&sources, "ships", Depth::Fields).unwrap();
    assert_eq!(names(&ship), ["apiVersion", "kind", "metadata", "spec"]);
}

#[test]
fn where_kubectl_stops_this_goes_on() {
    let sources = document(&json!({
        "Ship": kind("Ship", json!({"type": "object", "properties": {
            "bare": {}, "$ref": {"type": "string"}, "chained": {"$ref": "#/components/schemas/Chain"},
        }})),
        "Chain": {"$ref": "#/components/schemas/Link"},
        "Link": {"type": "object", "properties": {"forged": {"type": "string"}}},
    }));
    let ship = explained(&sources, "ships", Depth::Recursive).unwrap();
    assert_eq!(names(&ship), ["$ref", "bare", "chained"]);
    assert_eq!(ship.fields[1].kind, "Object");
    assert_eq!(&*ship.fields[2].fields[0].name, "forged");
    assert_eq!(explained(&sources, "ships.$ref", Depth::Fields).unwrap().field.unwrap().kind, "string");
}

#[test]
fn references_that_lead_nowhere_or_round_in_circles_end() {
    let sources = document(&json!({
        "Ship": kind("Ship", json!({"type": "object", "properties": {
            "lost": {"$ref": "#/components/schemas/Nowhere"},
            "loop": {"$ref": "#/components/schemas/Loop"},
        }})),
        "Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}, {"items": {"$ref": "#/components/schemas/Loop"}}]},
    }));
    let ship = explained(&sources, "ships", Depth::Recursive).unwrap();
    assert_eq!(names(&ship), ["loop", "lost"]);
    let no_field = Err(ExplainError::NoField("deeper".to_owned()));
    assert_eq!(explained(&sources, "ships.loop.deeper", Depth::Fields), no_field);
    assert_eq!(explained(&sources, "ships.lost.not.deeper", Depth::Fields), no_field);
}

/// Definitions D0, D1, … of which each has two fields of the next.
fn tower(height: usize, fields: &[&str]) -> Sources {
    let mut schemas = serde_json::Map::new();
    for level in 0..height {
        let next = json!({"$ref": format!("#/components/schemas/D{}", level + 1)});
        let properties: serde_json::Map<String, Value> =
            fields.iter().map(|name| ((*name).to_owned(), next.clone())).collect();
        schemas.insert(format!("D{level}"), json!({"type": "object", "properties": properties}));
    }
    schemas.insert(format!("D{height}"), json!({"type": "string"}));
    let first = json!({"type": "object", "properties": {"first": {"$ref": "#/components/schemas/D0"}}});
    schemas.insert("Ship".to_owned(), kind("Ship", first));
    document(&Value::Object(schemas))
}

#[test]
fn a_schema_of_too_many_parts_is_refused() {
    // Each definition is visited twice for each visit of the one above: as the
    // reference and as what it leads to.
    let parts = |height: u32| (2usize << (height + 1)) + 1;
    let most = (1..).take_while(|height| parts(*height) <= MAX_NODES).last().unwrap();
    let most = usize::try_from(most).unwrap();
    assert!(explained(&tower(most, &["a", "b"]), "ships", Depth::Recursive).is_ok());
    assert_eq!(
        explained(&tower(most + 1, &["a", "b"]), "ships", Depth::Recursive),
        Err(ExplainError::TooLarge)
    );
    assert!(explained(&tower(most + 1, &["a", "b"]), "ships", Depth::Fields).is_ok());
}

#[test]
fn a_schema_of_too_many_levels_is_refused() {
    // The kind, then a field and its definition each.
    let most = (MAX_NESTING - 1) / 2 - 1;
    assert!(explained(&tower(most, &["a"]), "ships", Depth::Recursive).is_ok());
    assert_eq!(explained(&tower(most + 1, &["a"]), "ships", Depth::Recursive), Err(ExplainError::TooDeep));
    assert!(explained(&tower(most + 1, &["a"]), "ships", Depth::Fields).is_ok());
    let path = format!("ships.first{}", ".a".repeat(MAX_NESTING));
    assert_eq!(explained(&tower(MAX_NESTING, &["a"]), &path, Depth::Fields), Err(ExplainError::TooDeep));
}

fn ship() -> Sources {
    document(&json!({
        "Ship": kind("Ship", json!({
            "type": "object", "description": "Ship floats.", "required": ["rig"],
            "properties": {
                "rig": {"type": "string", "enum": ["sloop", "ketch"], "description": "How <masts> stand, see `a_b`."},
                "crew": {"type": "array", "description": "All *aboard*.", "items": {"$ref": "#/components/schemas/Person"}},
            },
        })),
        "Person": {"type": "object", "description": "One person.", "properties": {
            "name": {"type": "string", "default": "N.N."},
        }},
    }))
}

#[test]
fn json_says_what_is_known_and_nothing_else() {
    let sources = ship();
    assert_eq!(
        render::json(&explained(&sources, "ships", Depth::Recursive).unwrap()),
        json!({
            "group": "sea.example.com", "version": "v1", "kind": "Ship", "path": [],
            "description": "Ship floats.",
            "fields": [
                {
                    "name": "crew", "type": "[]Person", "required": false, "description": "All *aboard*.",
                    "fields": [{"name": "name", "type": "string", "required": false, "default": "N.N."}],
                },
                {
                    "name": "rig", "type": "string", "required": true, "enum": ["sloop", "ketch"],
                    "description": "How <masts> stand, see `a_b`.",
                },
            ],
        })
    );
    assert_eq!(
        render::json(&explained(&sources, "ships.crew", Depth::Fields).unwrap()),
        json!({
            "group": "sea.example.com", "version": "v1", "kind": "Ship", "path": ["crew"],
            "name": "crew", "type": "[]Person", "required": false,
            "description": "All *aboard*.\n\nOne person.",
            "fields": [{"name": "name", "type": "string", "required": false, "default": "N.N."}],
        })
    );
}

#[test]
fn markdown_is_a_page_in_which_prose_is_no_markup() {
    let sources = ship();
    assert_eq!(
        render::markdown(&explained(&sources, "ships", Depth::Fields).unwrap()),
        "# Ship\n\n`sea.example.com/v1`\n\nShip floats.\n\n## Fields\n\n\
         ### crew\n\n`[]Person`\n\nAll \\*aboard\\*.\n\n\
         ### rig\n\n`string`, required\n\nOne of `\"sloop\"`, `\"ketch\"`.\n\nHow &lt;masts> stand, see `a_b`.\n"
    );
    assert_eq!(
        render::markdown(&explained(&sources, "ships", Depth::Recursive).unwrap()),
        "# Ship\n\n`sea.example.com/v1`\n\nShip floats.\n\n## Fields\n\n\
         - **crew** `[]Person`\n  - **name** `string`\n- **rig** `string`, required. One of `\"sloop\"`, `\"ketch\"`.\n"
    );
    assert_eq!(
        render::markdown(&explained(&sources, "ships.crew.name", Depth::Fields).unwrap()),
        "# Ship.crew.name\n\n`sea.example.com/v1`: `string`\n"
    );
}
