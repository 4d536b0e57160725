//! Objects that a server begins with.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use sternpost_testkit::{scratch::Scratch, server::Server};

const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, maximum: 5}}}
";

const WIDGET: &str = "\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: team}
spec:
  size: 3
";

/// What a server says that cannot begin with these.
fn refused(sources: &[&str], stdin: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    command.args(["run"]).args(sources.iter().flat_map(|source| ["--load", source])).args(["--", "true"]);
    let mut child =
        command.env("NO_COLOR", "1").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr
}

#[tokio::test]
async fn what_others_need_comes_first_whatever_the_order_of_files() {
    let files = Scratch::new("load-order");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\nspec: {containers: [{name: c, image: i}]}\n";
    files.write("a.yaml", &format!("{WIDGET}---\n{pod}"));
    fs::create_dir(files.path("b")).unwrap();
    files.write("b/namespace.yml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n");
    files.write(
        "b/definition.json",
        &serde_json::to_string(&sternpost_yaml::from_str(DEFINITION).unwrap()).unwrap(),
    );
    files.write("b/values.txt", "not: looked at");
    files.write(".hidden.yaml", "not: looked at");
    let folder = files.0.to_str().unwrap();
    let server = Server::start_with("load-order", &["--load", folder]).await;
    let widget = server.get("/apis/example.com/v1/namespaces/team/widgets/w").await.expect(200);
    assert_eq!(widget["spec"]["size"], 3);
    assert_eq!(widget["metadata"]["managedFields"][0]["manager"], "sternpost-load");
    assert_eq!(widget["metadata"]["managedFields"][0]["operation"], "Apply");
    let pod = server.get("/api/v1/namespaces/team/pods/p").await.expect(200);
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    server.stop();
}

#[tokio::test]
async fn lists_kustomizations_and_names_to_come_are_loaded() {
    let files = Scratch::new("load-kinds");
    let list = files.write(
        "list.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: one}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {generateName: two-}\n",
    );
    fs::create_dir(files.path("k")).unwrap();
    files.write("k/kustomization.yaml", "namePrefix: my-\nresources: [three.yaml]\n");
    files.write("k/three.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\n");
    let server = Server::start_with("load-kinds", &["--load", &list, "--load", &files.path("k")]).await;
    let found = server.get("/api/v1/namespaces/default/configmaps").await.expect(200);
    let names: Vec<&str> = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"one") && names.contains(&"my-three"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("two-")), "{names:?}");
    server.stop();
}

#[tokio::test]
async fn a_server_that_keeps_its_data_takes_the_same_objects_again() {
    let files = Scratch::new("load-again");
    let data = files.path("data");
    let objects =
        files.write("objects.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b}\n");
    let path = "/api/v1/namespaces/default/configmaps/one";
    let server = Server::start_on("load-again", &data, &["--load", &objects]).await;
    let first = server.get(path).await.expect(200);
    server.terminate().await;
    let server = Server::start_on("load-again", &data, &["--load", &objects]).await;
    assert_eq!(server.get(path).await.expect(200), first);
    server.stop();
}

#[test]
fn everything_that_is_wrong_is_told_where_it_is_written() {
    let files = Scratch::new("load-wrong");
    let text = "\
apiVersion: v1
kind: Service
metadata: {name: s}
spec:
  ports:
  - name: web
    port: 99999
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: c
        image: i
        imagePullPolicie: Always
---
apiVersion: example.com/v1
kind: Unknown
metadata: {name: u}
---
just: text
";
    let wrong = files.write("wrong.yaml", text);
    let expected = format!(
        "error: {wrong}:7:5: Service/s: spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive\n\
         error: {wrong}:6:5: Service/s: spec.ports[0].targetPort: Invalid value: 99999: must be between 1 and 65535, inclusive\n\
         error: {wrong}:20:9: Deployment/d: spec.template.spec.containers[name=\"c\"].imagePullPolicie: field not declared in schema; did you mean `imagePullPolicy`?\n\
         error: {wrong}:22:1: Unknown/u: there is no kind Unknown in example.com/v1, and no definition of it among what is loaded\n\
         error: {wrong}:26:1: object: this is no object: it has no `apiVersion` or no `kind`\n"
    );
    assert_eq!(refused(&[&wrong], ""), expected);
}

#[test]
fn what_cannot_be_read_is_told_where_it_ends() {
    let files = Scratch::new("load-unreadable");
    let cut = files.write("cut.yaml", "a: b\n---\nc: [\n");
    let twice = files.write("twice.yaml", "apiVersion: v1\nkind: ConfigMap\nkind: Secret\n");
    fs::write(files.path("bytes.yaml"), b"a: b\nc: \xff\n").unwrap();
    let absent = files.path("absent");
    let told = refused(&[&cut, &twice, &files.path("bytes.yaml"), &absent, "-"], "x: {\n");
    let lines: Vec<&str> = told.lines().collect();
    for (line, expected) in lines.iter().zip([
        format!("error: {absent}: cannot be read: No such file or directory"),
        format!("error: {cut}:4:1: "),
        format!("error: {twice}:3:1: key `kind` is already set in this mapping"),
        format!("error: {}:2:4: this is no text in UTF-8", files.path("bytes.yaml")),
        "error: <stdin>:2:1: ".to_owned(),
    ]) {
        assert!(line.starts_with(&expected), "{line}\nand not\n{expected}");
    }
    assert_eq!(lines.len(), 5, "{told}");
}

#[test]
fn what_a_kustomization_gets_wrong_is_told_where_it_is_written() {
    let files = Scratch::new("load-kustomization");
    files.write("kustomization.yaml", "resources: [service.yaml]\npatches:\n- path: patch.yaml\n");
    files.write(
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n",
    );
    files
        .write("patch.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  type: Nonsense\n");
    let told = refused(&[files.0.to_str().unwrap()], "");
    let expected = format!(
        "error: {}:5:9: Service/s: spec.type: Unsupported value: \"Nonsense\"",
        files.path("patch.yaml")
    );
    assert!(told.starts_with(&expected), "{told}");
}
