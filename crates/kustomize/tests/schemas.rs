//! What `openapi` and the options beyond kustomize make of custom resources:
//! the schemas that decide how a patch merges lists.

use sternpost_kustomize::files::{MemoryFiles, Nothing};
use sternpost_kustomize::{Environment, Options, SchemaOptions, build};

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
    let schema = SchemaOptions { texts: vec![DEFINITION.to_owned()], ..SchemaOptions::default() };
    assert_eq!(kept(&built(PLAIN, FILES, schema)), (true, true, true));
    let v3 = r##"{"openapi":"3.0.0","components":{"schemas":{
        "Rollout":{"x-kubernetes-group-version-kind":[{"group":"example.com","version":"v1","kind":"Rollout"}],
          "properties":{"spec":{"allOf":[{"$ref":"#/components/schemas/Spec"}]}}},
        "Spec":{"properties":{"steps":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],
          "items":{"type":"object"}}}}}}}"##;
    let schema = SchemaOptions { texts: vec![v3.to_owned()], ..SchemaOptions::default() };
    assert_eq!(kept(&built(PLAIN, FILES, schema)), (true, false, false));
}

#[test]
fn a_file_that_is_no_schema_is_an_error() {
    for text in ["x: [", "a: b\n", "- 1\n"] {
        let schema = SchemaOptions { texts: vec![text.to_owned()], ..SchemaOptions::default() };
        let answer = built(PLAIN, FILES, schema);
        assert!(answer.starts_with("Error: "), "{text}: {answer}");
    }
}
