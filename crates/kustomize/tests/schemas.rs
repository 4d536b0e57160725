//! What `openapi` and the options beyond kustomize make of custom resources:
//! the schemas that decide how a patch merges lists.

use sternpost_kustomize::files::{MemoryFiles, Nothing};
use sternpost_kustomize::{
    Conflicts, Environment, ListOrder, Options, SchemaOptions, Source, build, merge_schemas,
};

const ROLLOUT: &str = "apiVersion: example.com/v1
kind: Rollout
metadata: {name: r}
spec:
  steps: [{id: a, weight: 1}, {id: b, weight: 2}]
  zones: [x]
  template:
    spec:
      containers: [{name: main, image: m:1}, {name: side, image: s:1}]
";
const PATCH: &str = "apiVersion: example.com/v1
kind: Rollout
metadata: {name: r}
spec:
  steps: [{id: b, weight: 9}]
  zones: [y]
  template:
    spec:
      containers: [{name: side, image: s:2}]
";
const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.example.com}
spec:
  group: example.com
  names: {kind: Rollout, plural: rollouts}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              steps:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [id]
                items: {type: object, properties: {id: {type: string}, weight: {type: integer}}}
              zones: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              template:
                type: object
                properties:
                  spec:
                    type: object
                    properties:
                      containers:
                        type: array
                        items: {type: object, properties: {name: {type: string}, image: {type: string}}}
";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {containers: [{name: main, image: m:1}, {name: side, image: s:1}]}}}
";
const DEPLOYMENT_PATCH: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {containers: [{name: side, image: s:2}]}}}
";

fn built(kustomization: &str, files: &[(&str, &str)], schema: SchemaOptions) -> String {
    let mut held = MemoryFiles::default();
    held.add("/k/kustomization.yaml", kustomization);
    for (name, content) in files {
        held.add(format!("/k/{name}"), *content);
    }
    let options = Options { shown: "/k".into(), directory: "/k".into(), schema, ..Options::default() };
    let environment = Environment { files: &held, fetcher: &Nothing, runner: &Nothing };
    build(environment, &options).map_or_else(|failed| format!("Error: {failed}"), |built| built.yaml())
}

fn source(text: &str) -> Source {
    Source { name: "s.yaml".to_owned(), text: text.to_owned() }
}

/// How often the lists' elements that the patch does not name are there.
fn kept(yaml: &str) -> (bool, bool, bool) {
    (yaml.contains("id: a"), yaml.contains("- x\n"), yaml.contains("image: m:1"))
}

const FILES: &[(&str, &str)] = &[("r.yaml", ROLLOUT), ("p.yaml", PATCH), ("crd.yaml", DEFINITION)];
const PLAIN: &str = "resources: [r.yaml]\npatches: [{path: p.yaml}]\n";

#[test]
fn without_a_schema_a_patch_replaces_the_lists_of_a_custom_resource() {
    assert_eq!(kept(&built(PLAIN, FILES, SchemaOptions::default())), (false, false, false));
    let ignored = format!("{PLAIN}openapi: {{path: crd.yaml}}\n");
    assert_eq!(kept(&built(&ignored, FILES, SchemaOptions::default())), (false, false, false));
}

#[test]
fn a_definition_is_a_schema_if_the_kustomization_says_so() {
    for openapi in ["{schemas: crd.yaml}", "{path: crd.yaml, merge: 'true'}"] {
        let kustomization = format!("{PLAIN}openapi: {openapi}\n");
        let yaml = built(&kustomization, FILES, SchemaOptions::default());
        assert_eq!(kept(&yaml), (true, true, true), "{openapi}\n{yaml}");
    }
}

#[test]
fn merged_schemas_keep_the_built_in_ones() {
    let files = [("d.yaml", DEPLOYMENT), ("p.yaml", DEPLOYMENT_PATCH), ("crd.yaml", DEFINITION)];
    let with = |openapi: &str| {
        let kustomization = format!("resources: [d.yaml]\npatches: [{{path: p.yaml}}]\nopenapi: {openapi}\n");
        built(&kustomization, &files, SchemaOptions::default()).contains("m:1")
    };
    assert!(!with("{path: crd.yaml}"), "as kustomize: a path takes the place of what is built in");
    assert!(with("{schemas: crd.yaml}"));
}

#[test]
fn auto_learns_from_the_definitions_among_the_objects() {
    let kustomization = "namespace: prod\nresources: [r.yaml, crd.yaml]\npatches: [{path: p.yaml}]\n";
    let auto = SchemaOptions { auto: true, ..SchemaOptions::default() };
    let yaml = built(kustomization, FILES, auto);
    assert_eq!(kept(&yaml), (true, true, true), "{yaml}");
    assert!(!yaml.contains("namespace: prod"), "the kind has no namespaces: {yaml}");
}

#[test]
fn auto_knows_pods_in_kinds_that_nobody_has_defined() {
    let auto = SchemaOptions { auto: true, ..SchemaOptions::default() };
    assert_eq!(kept(&built(PLAIN, FILES, auto)), (false, false, true));
}

#[test]
fn files_named_by_an_option_are_merged() {
    let schema = SchemaOptions { files: vec![source(DEFINITION)], ..SchemaOptions::default() };
    assert_eq!(kept(&built(PLAIN, FILES, schema)), (true, true, true));
    let v3 = r##"{"openapi":"3.0.0","components":{"schemas":{
        "Rollout":{"x-kubernetes-group-version-kind":[{"group":"example.com","version":"v1","kind":"Rollout"}],
          "properties":{"spec":{"allOf":[{"$ref":"#/components/schemas/Spec"}]}}},
        "Spec":{"properties":{"steps":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],
          "items":{"type":"object"}}}}}}}"##;
    let schema = SchemaOptions { files: vec![source(v3)], ..SchemaOptions::default() };
    assert_eq!(kept(&built(PLAIN, FILES, schema)), (true, false, false));
}

#[test]
fn a_file_that_is_no_schema_is_an_error() {
    for text in ["x: [", "a: b\n", "- 1\n"] {
        let schema = SchemaOptions { files: vec![source(text)], ..SchemaOptions::default() };
        let answer = built(PLAIN, FILES, schema);
        assert!(answer.starts_with("Error: "), "{text}: {answer}");
    }
}

fn merged(files: &[(&str, &str)], builtin: Option<&str>) -> Result<(String, Vec<String>), String> {
    let source = |(name, text): &(&str, &str)| Source { name: (*name).to_owned(), text: (*text).to_owned() };
    let sources: Vec<Source> = files.iter().map(source).collect();
    merge_schemas(&sources, builtin, Conflicts::LastWins)
        .map(|merged| (merged.document.to_string(), merged.warnings))
        .map_err(|error| error.to_string())
}

#[test]
fn a_merged_document_says_what_its_parts_do() {
    let deployment = [DEPLOYMENT, "---\n", ROLLOUT].concat();
    let patch = [DEPLOYMENT_PATCH, "---\n", PATCH].concat();
    let (document, warnings) = merged(&[("crd.yaml", DEFINITION)], Some("1.21")).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let files =
        [("a.yaml", &*deployment), ("p.yaml", &patch), ("crd.yaml", DEFINITION), ("m.json", &document)];
    let of = |openapi: &str| {
        let kustomization = format!(
            "namespace: prod\nresources: [a.yaml]\npatches: [{{path: p.yaml}}]\nopenapi: {openapi}\n"
        );
        built(&kustomization, &files, SchemaOptions::default())
    };
    let (explicit, merged) = (of("{path: m.json}"), of("{schemas: crd.yaml}"));
    assert_eq!(explicit, merged);
    assert_eq!(kept(&explicit), (true, true, true), "{explicit}");
    assert_eq!(explicit.matches("namespace: prod").count(), 1, "Rollouts have no namespaces: {explicit}");
}

/// Neither is in the v2 document of a server.
#[test]
fn lists_of_several_keys_and_beside_unknown_fields_are_merged() {
    let definition = "spec:
  group: x.io
  names: {kind: Widget}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            x-kubernetes-preserve-unknown-fields: true
            properties:
              ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [port, protocol], items: {type: object}}
";
    let widget = |ports: &str| {
        format!("apiVersion: x.io/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {{ports: {ports}}}\n")
    };
    let base = widget("[{port: 1, protocol: TCP, v: a}, {port: 1, protocol: UDP, v: b}]");
    let patch = widget("[{port: 1, protocol: UDP, v: c}]");
    let files = [("a.yaml", &*base), ("p.yaml", &*patch), ("crd.yaml", definition)];
    let kustomization = "resources: [a.yaml]\npatches: [{path: p.yaml}]\nopenapi: {schemas: crd.yaml}\n";
    let yaml = built(kustomization, &files, SchemaOptions::default());
    let kept = |text: &str| yaml.contains(text);
    assert!(kept("v: a") && kept("v: c") && !kept("v: b"), "{yaml}");
}

#[test]
fn references_find_definitions_of_other_files_and_built_in_ones() {
    let own = r##"{"definitions": {"x.Rollout": {
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Rollout"}],
        "properties": {"spec": {"properties": {
          "template": {"$ref": "#/definitions/io.k8s.api.core.v1.PodTemplateSpec"},
          "steps": {"$ref": "#/definitions/x.Steps"}}}}}}}"##;
    let steps = r#"{"definitions": {"x.Steps": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"], "items": {"type": "object"}}}}"#;
    let files = [FILES, &[("own.json", own), ("steps.json", steps)]].concat();
    let kustomization = format!("{PLAIN}openapi: {{schemas: 'own.json, steps.json'}}\n");
    let yaml = built(&kustomization, &files, SchemaOptions::default());
    assert_eq!(kept(&yaml), (true, false, true), "{yaml}");
    let (_, warnings) = merged(&[("own.json", own)], None).unwrap();
    assert_eq!(
        warnings,
        [
            "own.json:1:18: `io.k8s.api.core.v1.PodTemplateSpec` is referred to and nowhere defined; --builtin adds those of Kubernetes",
            "own.json:1:18: `x.Steps` is referred to and nowhere defined",
        ]
    );
}

#[test]
fn of_definitions_in_conflict_the_later_counts_and_both_places_are_told() {
    let widget = |name: &str, key: &str| {
        format!(
            "definitions:\n  {name}:\n    x-kubernetes-group-version-kind: [{{group: x.io, version: v1, kind: Widget}}]\n    \
             properties: {{list: {{type: array, x-kubernetes-patch-strategy: merge, x-kubernetes-patch-merge-key: {key}}}}}\n"
        )
    };
    let (first, same_name, same_kind) = (widget("W", "a"), widget("W", "b"), widget("V", "c"));
    let (document, warnings) = merged(&[("1.yaml", &first), ("2.yaml", &same_name)], None).unwrap();
    assert!(document.contains(r#""x-kubernetes-patch-merge-key":"b""#) && !document.contains(r#":"a""#));
    assert_eq!(warnings, ["2.yaml:2:3: definition `W` is also at 1.yaml:2:3; this one counts",]);
    let (document, warnings) = merged(&[("1.yaml", &first), ("2.yaml", &same_kind)], None).unwrap();
    assert_eq!(document.matches(r#""kind":"Widget""#).count(), 1, "kustomize would pick one by chance");
    assert_eq!(
        warnings,
        ["2.yaml:2:3: x.io/v1 Widget is also described by `W` at 1.yaml:2:3; this one counts"]
    );
    assert_eq!(merged(&[("1.yaml", &first), ("2.yaml", &first)], None).unwrap().1, Vec::<String>::new());
    let sources = [("1.yaml", &first), ("2.yaml", &same_name)]
        .map(|(name, text)| Source { name: name.to_owned(), text: text.clone() });
    assert_eq!(
        merge_schemas(&sources, None, Conflicts::Refused).unwrap_err().to_string(),
        "2.yaml:2:3: definition `W` is also at 1.yaml:2:3"
    );
}

#[test]
fn releases_of_kubernetes_differ_in_how_lists_merge() {
    let policy = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec: {variables: [{name: a, expression: '1'}, {name: b, expression: '2'}]}
";
    let patch = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec: {variables: [{name: b, expression: '3'}]}
";
    let files = [("a.yaml", policy), ("p.yaml", patch)];
    let plain = "resources: [a.yaml]\npatches: [{path: p.yaml}]\n";
    let merges = |openapi: &str, version: Option<&str>| {
        let schema = SchemaOptions { version: version.map(str::to_owned), ..SchemaOptions::default() };
        let yaml = built(&format!("{plain}openapi: {openapi}\n"), &files, schema);
        assert!(!yaml.starts_with("Error"), "{yaml}");
        yaml.contains("name: a")
    };
    for (openapi, version, expected) in [
        ("{}", None, false),
        ("{version: v1.21.2}", None, false),
        ("{}", Some("1.29"), false),
        ("{}", Some("1.30"), true),
        ("{}", Some("v1.36.4"), true),
        ("{merge: 'true', version: v1.36.0}", None, true),
        ("{merge: 'true', version: v1.29.0}", None, false),
    ] {
        assert_eq!(merges(openapi, version), expected, "{openapi} {version:?}");
    }
}

#[test]
fn a_version_that_is_not_built_in_is_refused_in_the_words_of_kustomize() {
    let with = |openapi: &str, version: Option<&str>| {
        let schema = SchemaOptions { version: version.map(str::to_owned), ..SchemaOptions::default() };
        built(&format!("{PLAIN}openapi: {openapi}\n"), FILES, schema)
    };
    for (openapi, version) in [
        ("{version: v1.36.0}", None),
        ("{version: v1.99.0, merge: 'true'}", None),
        ("{}", Some("1.20")),
        ("{}", Some("latest")),
    ] {
        let answer = with(openapi, version);
        assert_eq!(answer, "Error: the specified OpenAPI version is not built in", "{openapi} {version:?}");
    }
}

/// The `name`s in the order of the output.
fn names(yaml: &str) -> Vec<&str> {
    yaml.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("name: ")).collect()
}

#[test]
fn lists_keep_their_order_if_asked_to() {
    let pod = |containers: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: {containers}}}\n")
    };
    let base = "[{name: a, image: i}, {name: b, image: i}, {name: c, image: i}]";
    for (patch, kustomize, keep) in [
        ("[{name: c, image: j}]", vec!["c", "a", "b"], vec!["a", "b", "c"]),
        ("[{name: z}, {name: b, image: j}]", vec!["z", "b", "a", "c"], vec!["a", "b", "c", "z"]),
        ("[{name: a, $patch: delete}]", vec!["b", "c"], vec!["b", "c"]),
        ("[{image: j}]", vec![], vec!["a", "b", "c"]),
        ("[{name: b, $patch: replace, args: [x]}]", vec!["b", "a", "c"], vec!["a", "b", "c"]),
        ("[{$patch: replace}, {name: w}]", vec!["w"], vec!["w"]),
        ("[{name: w}, {name: w, image: k}]", vec!["w", "a", "b", "c"], vec!["a", "b", "c", "w"]),
    ] {
        let (base, patch) = (pod(base), pod(patch));
        let files = [("a.yaml", &*base), ("p.yaml", &*patch)];
        let with = |openapi: &str, order: Option<ListOrder>| {
            let kustomization =
                format!("resources: [a.yaml]\npatches: [{{path: p.yaml}}]\nopenapi: {openapi}\n");
            built(&kustomization, &files, SchemaOptions { order, ..SchemaOptions::default() })
        };
        let ordered = |yaml: &str| {
            names(yaml).into_iter().filter(|name| *name != "p").map(str::to_owned).collect::<Vec<_>>()
        };
        let kept = with("{}", Some(ListOrder::Keep));
        assert_eq!(ordered(&kept), keep, "{patch}\n{kept}");
        assert_eq!(with("{order: keep}", None), kept, "{patch}");
        assert_eq!(with("{order: keep}", Some(ListOrder::Patch)), with("{}", None), "{patch}");
        assert_eq!(ordered(&with("{}", None)), kustomize, "{patch}");
    }
    let plain = "resources: [a.yaml]\nopenapi: {order: sideways}\n";
    let base = pod(base);
    assert_eq!(
        built(plain, &[("a.yaml", &base)], SchemaOptions::default()),
        "Error: the field 'openapi.order' must be one of [keep, patch], not 'sideways'"
    );
}

#[test]
fn sets_and_ports_keep_their_order_too() {
    let pod = |finalizers: &str, ports: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, finalizers: {finalizers}}}\nspec: {{containers: [{{name: c, ports: {ports}}}]}}\n"
        )
    };
    let base = pod("[x, y]", "[{containerPort: 80, protocol: TCP}, {containerPort: 81, protocol: TCP}]");
    let patch = pod("[z, y]", "[{containerPort: 90}, {containerPort: 81, name: web}]");
    let files = [("a.yaml", &*base), ("p.yaml", &*patch)];
    let schema = SchemaOptions { order: Some(ListOrder::Keep), ..SchemaOptions::default() };
    let yaml = built("resources: [a.yaml]\npatches: [{path: p.yaml}]\n", &files, schema);
    assert!(yaml.contains("- x\n  - \"y\"\n  - z\n"), "{yaml}");
    let ports = "- containerPort: 80\n      protocol: TCP\n    - containerPort: 81\n      name: web\n      protocol: TCP\n    - containerPort: 90\n";
    assert!(yaml.contains(ports), "{yaml}");
}

#[test]
fn what_is_wrong_with_a_schema_is_told_with_its_place() {
    for (text, expected) in [
        ("", "s.yaml:1:1: the file is empty"),
        ("# nothing\n---\n", "s.yaml:1:1: the file is empty"),
        ("a: b\n", "s.yaml:1:1: neither OpenAPI nor a CustomResourceDefinition"),
        ("- 1\n", "s.yaml:1:1: neither OpenAPI nor a CustomResourceDefinition"),
        ("definitions: {}\n---\na: b\n", "s.yaml:3:1: neither OpenAPI nor a CustomResourceDefinition"),
        ("definitions: []\n", "s.yaml:1:1: definitions: expected an object, found a list"),
        ("{\"definitions\":\n {\"A\": 5}}", "s.yaml:2:3: definitions.A: expected an object, found a number"),
        (
            "definitions:\n  A:\n    properties:\n      b: [1]\n",
            "s.yaml:4:7: definitions.A.properties.b: expected an object, found a list",
        ),
        (
            "definitions:\n  A:\n    allOf:\n    - {}\n    - x\n",
            "s.yaml:5:7: definitions.A.allOf[1]: expected an object, found a text",
        ),
        (
            "definitions: {A: {$ref: '#/%zz'}}\n",
            "s.yaml:1:19: definitions.A.$ref: \"#/%zz\" is no reference: `%` is not followed by two hexadecimal digits",
        ),
        (
            "definitions: {A: {x-kubernetes-group-version-kind: [{group: a, version: v1}]}}\n",
            "s.yaml:1:53: definitions.A.x-kubernetes-group-version-kind[0]: `kind` is missing",
        ),
        (
            "openapi: 3.0.0\ncomponents:\n  schemas: {A: 1}\n",
            "s.yaml:3:13: components.schemas.A: expected an object, found a number",
        ),
        ("kind: CustomResourceDefinition\nspec: {}\n", "s.yaml:1:1: `spec.group` is missing"),
        (
            "kind: CustomResourceDefinition\nspec:\n  group: 5\n",
            "s.yaml:3:3: spec.group: expected a text, found a number",
        ),
        (
            "spec: {group: g, names: {kind: K}, versions: {}}\n",
            "s.yaml:1:36: spec.versions: expected a list, found an object",
        ),
        (
            "spec: {group: g, names: {kind: K}, versions: [{name: v1, schema: {openAPIV3Schema: {type: 5}}}]}\n",
            "s.yaml:1:85: spec.versions[0].schema.openAPIV3Schema.type: expected a text or a list of texts, found a number",
        ),
        ("definitions: {", "s.yaml:1:15: did not find expected node content while parsing a flow node"),
    ] {
        let message = merged(&[("s.yaml", text)], None).unwrap_err();
        let shown = text.get(..60).unwrap_or(text);
        assert_eq!(message, format!("invalid schema file: {expected}"), "{shown}");
        let schema = SchemaOptions { files: vec![source(text)], ..SchemaOptions::default() };
        assert_eq!(built(PLAIN, FILES, schema), format!("Error: {message}"), "{shown}");
    }
}

#[test]
fn documents_nest_no_deeper_than_can_be_read() {
    let nested = |levels: usize| {
        format!("{{\"definitions\": {}{{}}{}}}", "{\"a\": ".repeat(levels), "}".repeat(levels))
    };
    assert!(merged(&[("s.json", &nested(20))], None).is_ok());
    let message = merged(&[("s.json", &nested(5000))], None).unwrap_err();
    assert!(message.starts_with("invalid schema file: s.json:1:"), "{message}");
    assert!(message.ends_with("nested deeper than 127 levels"), "{message}");
}

#[test]
fn references_that_lead_to_themselves_stop_only_who_follows_them() {
    let schema = |to: &str| {
        format!(
            "definitions:\n  R:\n    x-kubernetes-group-version-kind: [{{group: example.com, version: v1, kind: Rollout}}]\n    \
             properties:\n      {to}: {{$ref: '#/definitions/A'}}\n  A: {{$ref: '#/definitions/B'}}\n  B: {{$ref: '#/definitions/A'}}\n"
        )
    };
    for (openapi, name) in [("{path: s.yaml}", "s.yaml"), ("{schemas: s.yaml}", "s.yaml")] {
        for (to, fails) in [("spec", true), ("elsewhere", false)] {
            let text = schema(to);
            let files = [FILES, &[("s.yaml", &*text)]].concat();
            let answer = built(&format!("{PLAIN}openapi: {openapi}\n"), &files, SchemaOptions::default());
            let message = format!(
                "Error: invalid schema file: {name}:5:7: definitions.R.properties.spec: the reference leads to itself"
            );
            assert_eq!(answer == message, fails, "{openapi} {to}: {answer}");
        }
    }
}

#[test]
fn types_may_hold_themselves() {
    let text = "definitions:
  R:
    x-kubernetes-group-version-kind: [{group: example.com, version: v1, kind: Rollout}]
    properties:
      spec: {$ref: '#/definitions/R'}
      steps: {type: array, x-kubernetes-patch-strategy: merge, x-kubernetes-patch-merge-key: id}
";
    let files = [FILES, &[("s.yaml", text)]].concat();
    let yaml = built(&format!("{PLAIN}openapi: {{path: s.yaml}}\n"), &files, SchemaOptions::default());
    assert_eq!(kept(&yaml), (true, false, false), "{yaml}");
}
