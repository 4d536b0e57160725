//! Schemas from end to end: `openapi merge`, and the story of a custom resource
//! whose containers are patched by name, with the schema of a running server,
//! with a merged one, and with none at all.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use sternpost_testkit::server::{AT_LAST, DEFINITIONS, Server};

fn sternpost(directory: &Path, words: &[&str]) -> (i32, String, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(words)
        .current_dir(directory)
        .env("PATH", format!("{}:{path}", directory.display()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A directory of its own with these files.
fn directory(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("openapi-{name}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    for (name, text) in files {
        std::fs::write(directory.join(name), text).unwrap();
    }
    directory.canonicalize().unwrap()
}

const OBJECT: &str = "apiVersion: example.com/v1alpha1
kind: MyCRD
metadata:
  name: service
spec:
  template:
    spec:
      containers:
      - name: server
        image: server
        command: example
        ports:
        - name: grpc
          protocol: TCP
          containerPort: 8080
";

const KUSTOMIZATION: &str = "resources:
- mycrd.yaml
patches:
- patch: |-
    apiVersion: example.com/v1alpha1
    kind: MyCRD
    metadata:
      name: service
    spec:
      template:
        spec:
          containers:
          - name: server
            image: nginx
";

/// What kustomize 5.8.1 builds of it with a schema that says how containers merge.
const PATCHED: &str = "apiVersion: example.com/v1alpha1
kind: MyCRD
metadata:
  name: service
spec:
  template:
    spec:
      containers:
      - command: example
        image: nginx
        name: server
        ports:
        - containerPort: 8080
          name: grpc
          protocol: TCP
";

/// And with none.
const REPLACED: &str = "apiVersion: example.com/v1alpha1
kind: MyCRD
metadata:
  name: service
spec:
  template:
    spec:
      containers:
      - image: nginx
        name: server
";

/// The definition, with or without what its lists are merged by.
fn definition(keys: bool) -> Value {
    let ports = json!({"type": "array", "items": {"type": "object", "properties": {
        "name": {"type": "string"}, "protocol": {"type": "string"}, "containerPort": {"type": "integer"}}}});
    let mut containers = json!({"type": "array", "items": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "image": {"type": "string"}, "command": {"type": "string"}, "ports": ports}}});
    if keys {
        containers["x-kubernetes-list-type"] = "map".into();
        containers["x-kubernetes-list-map-keys"] = json!(["name"]);
    }
    let object = |name: &str, held: Value| json!({"type": "object", "properties": {name: held}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "mycrds.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "MyCRD", "plural": "mycrds", "singular": "mycrd", "shortNames": ["mc"]},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                object("spec", object("template", object("spec", object("containers", containers))))}}],
        },
    })
}

fn with_path(path: &str) -> String {
    format!("{KUSTOMIZATION}openapi:\n  path: {path}\n")
}

#[test]
fn a_custom_resource_is_patched_by_name_with_nothing_configured() {
    let definition = definition(false).to_string();
    let files = [("mycrd.yaml", OBJECT), ("crd.yaml", &definition)];
    let directory = directory("auto", &files);
    let build = |kustomization: &str, words: &[&str]| {
        std::fs::write(directory.join("kustomization.yaml"), kustomization).unwrap();
        sternpost(&directory, &[&["build"], words].concat())
    };
    assert_eq!(build(KUSTOMIZATION, &[]), (0, REPLACED.into(), String::new()), "as kustomize does");
    assert_eq!(build(KUSTOMIZATION, &["--schema", "auto"]), (0, PATCHED.into(), String::new()));
    let with_definition = KUSTOMIZATION.replace("- mycrd.yaml\n", "- mycrd.yaml\n- crd.yaml\n");
    let (code, stdout, stderr) = build(&with_definition, &["--schema", "auto"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.ends_with(PATCHED), "{stdout}");
}

#[test]
fn a_custom_resource_is_patched_by_name_with_a_merged_schema() {
    for keys in [false, true] {
        let files = [
            ("mycrd.yaml", OBJECT),
            ("kustomization.yaml", &*with_path("schema.json")),
            ("crd.yaml", &definition(keys).to_string()),
        ];
        let directory = directory(&format!("merged-{keys}"), &files);
        for words in [
            &["crd.yaml"][..],
            &["--builtin", "1.36", "crd.yaml"],
            &["--builtin", "v1.21.2", "--format=yaml", "crd.yaml"],
        ] {
            let merge = [&["openapi", "merge", "-o", "schema.json"], words].concat();
            assert_eq!(sternpost(&directory, &merge), (0, String::new(), String::new()), "{words:?}");
            assert_eq!(sternpost(&directory, &["build"]), (0, PATCHED.into(), String::new()), "{words:?}");
        }
    }
}

/// `openapi fetch` asks kubectl, which here is a script with a server's answer.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_patched_by_name_with_the_schema_of_a_server() {
    use std::os::unix::fs::PermissionsExt;

    let server = Server::start("openapi-fetch").await;
    let made = server.post(DEFINITIONS, &definition(true)).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    let name = "com.example.v1alpha1.MyCRD";
    let published = async {
        loop {
            let answer = server.get("/openapi/v2").await;
            if answer.body["definitions"].get(name).is_some() {
                break answer.body;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let document = tokio::time::timeout(AT_LAST, published).await.unwrap();
    let script =
        "#!/bin/sh\n[ \"$*\" = 'get --raw /openapi/v2' ] || exit 1\nexec cat \"${0%/*}/answer.json\"\n";
    let files = [
        ("mycrd.yaml", OBJECT),
        ("kustomization.yaml", &*with_path("schema.json")),
        ("answer.json", &document.to_string()),
        ("kubectl", script),
    ];
    let directory = directory("fetch", &files);
    let kubectl = directory.join("kubectl");
    std::fs::set_permissions(kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, fetched, stderr) = sternpost(&directory, &["kustomize", "openapi", "fetch"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    std::fs::write(directory.join("schema.json"), fetched).unwrap();
    assert_eq!(sternpost(&directory, &["build"]), (0, PATCHED.into(), String::new()));
    std::fs::remove_file(directory.join("schema.json")).unwrap();
    let (code, _, stderr) = sternpost(&directory, &["kustomize", "openapi", "fetch", "schema.json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(sternpost(&directory, &["build"]), (0, PATCHED.into(), String::new()));
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_its_place() {
    let files = [
        ("bad.yaml", "definitions:\n  A: 5\n"),
        ("bytes.yaml", "a: b\n"),
        ("one.yaml", "definitions: {A: {type: object}}\n"),
        ("two.yaml", "definitions:\n  A: {type: string}\n"),
        ("mycrd.yaml", OBJECT),
        ("kustomization.yaml", &*with_path("bad.yaml")),
    ];
    let directory = directory("wrong", &files);
    std::fs::write(directory.join("bytes.yaml"), b"a: b\nc: \xff\n").unwrap();
    for (words, code, expected) in [
        (
            &["openapi", "merge", "bad.yaml"][..],
            1,
            "error: invalid schema file: bad.yaml:2:3: definitions.A: expected an object, found a number\n",
        ),
        (&["openapi", "merge", "none.yaml"], 1, "error: none.yaml: No such file or directory (os error 2)\n"),
        (&["openapi", "merge", "bytes.yaml"], 1, "error: bytes.yaml:2:4: not valid UTF-8\n"),
        (
            &["openapi", "merge", "--builtin", "1.3"],
            1,
            "error: the specified OpenAPI version is not built in: `1.3`; 1.21 to 1.36 are\n",
        ),
        (
            &["openapi", "merge", "one.yaml", "two.yaml", "-o", "out.json"],
            0,
            "warning: two.yaml:2:3: definition `A` is also at one.yaml:1:15; this one counts\n",
        ),
        (
            &["openapi", "merge", "--on-conflict", "error", "one.yaml", "two.yaml"],
            1,
            "error: two.yaml:2:3: definition `A` is also at one.yaml:1:15\n",
        ),
        (
            &["build"],
            1,
            "Error: accumulating resources: accumulating resources from 'mycrd.yaml': invalid schema file: bad.yaml:2:3: definitions.A: expected an object, found a number\n",
        ),
        (
            &["build", "--schema-file", "bad.yaml"],
            1,
            "Error: invalid schema file: bad.yaml:2:3: definitions.A: expected an object, found a number\n",
        ),
        (
            &["build", "--schema-version", "1.99"],
            1,
            "Error: the specified OpenAPI version is not built in\nhint: 1.21 to 1.36 are built in\n",
        ),
    ] {
        let (found, stdout, stderr) = sternpost(&directory, words);
        assert_eq!((found, stdout.as_str()), (code, ""), "{words:?} {stderr}");
        assert!(stderr.starts_with(expected), "{words:?}: {stderr}");
    }
    assert_eq!(sternpost(&directory, &["openapi", "merge"]).0, 2, "nothing to merge");
}
