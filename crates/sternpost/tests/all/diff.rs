//! `sternpost diff`: exit code, stdout and stderr, for files and for servers.

use std::{
    ffi::OsString,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sternpost_testkit::{
    scratch::Scratch,
    server::{APPLY, Server},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// With everything that can be left out left out.
const SHORT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: 'nginx:1', env: [{name: A, value: a}, {name: B, value: b}]}
      - {name: side, image: 'busybox:1', resources: {limits: {cpu: 1000m}}}
";

/// The same to a server: defaults are written down, and lists that are maps are in another order.
const LONG: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      restartPolicy: Always
      containers:
      - {name: side, image: 'busybox:1', imagePullPolicy: IfNotPresent, resources: {limits: {cpu: '1'}}}
      - name: app
        image: nginx:1
        terminationMessagePath: /dev/termination-log
        env:
        - {name: B, value: b}
        - {name: A, value: a}
";

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn diff_with(kubeconfig: &[&Path], words: &[&str], stdin: &str) -> Ran {
    let kubeconfig: OsString = std::env::join_paths(kubeconfig).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    command.arg("diff").args(words).env("KUBECONFIG", kubeconfig);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that fails early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn diff(words: &[&str], stdin: &str) -> Ran {
    diff_with(&[], words, stdin)
}

/// `path: left right` of every field that is different; objects on one side are `+Kind/name` and `-Kind/name`.
#[track_caller]
fn changes(kubeconfig: &[&Path], words: &[&str]) -> Vec<String> {
    let Ran { code, stdout, stderr } = diff_with(kubeconfig, &[words, &["-o", "json"]].concat(), "");
    assert!(code < 2, "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let objects = found["objects"].as_array().unwrap();
    assert_eq!(code, i32::from(!objects.is_empty()));
    let shown = |value: &Value| if value.is_null() { "-".to_owned() } else { value.to_string() };
    objects
        .iter()
        .flat_map(|object| {
            let name = format!("{}/{}", object["kind"].as_str().unwrap(), object["name"].as_str().unwrap());
            match object["change"].as_str().unwrap() {
                "added" => vec![format!("+{name}")],
                "removed" => vec![format!("-{name}")],
                _ => {
                    let changes = object["changes"].as_array().unwrap().iter();
                    changes
                        .map(|change| {
                            let path = change["path"].as_str().unwrap();
                            format!("{path}: {} {}", shown(&change["left"]), shown(&change["right"]))
                        })
                        .collect()
                }
            }
        })
        .collect()
}

#[test]
fn what_is_the_same_to_a_server_is_the_same() {
    let files = Scratch::new("diff-same");
    let (short, long) = (files.write("short.yaml", SHORT), files.write("long.yaml", LONG));
    let Ran { code, stdout, stderr } = diff(&[&short, &long], "");
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", ""));
    let Ran { code, stdout, .. } = diff(&[&short, "-", "-o", "json"], LONG);
    assert_eq!((code, stdout.as_str()), (0, "{\n  \"objects\": []\n}\n"));
}

#[test]
fn what_is_different_is_told_by_the_keys_of_lists() {
    let files = Scratch::new("diff-text");
    let short = files.write("short.yaml", SHORT);
    let changed = LONG.replace("value: b}", "value: c}").replace("image: nginx:1", "image: nginx:2");
    let Ran { code, stdout, stderr } = diff(&[&short, "-"], &changed);
    assert_eq!((code, stderr.as_str()), (1, ""));
    let expected = format!(
        "\
--- {short}:1:1 Deployment/web in default
+++ <stdin>:1:1 Deployment/web in default
@@ -25,8 +25,8 @@ spec.template.spec.containers[name=app].env[name=B].value
         - name: A
           value: a
         - name: B
-          value: b
+          value: c
-        image: nginx:1
+        image: nginx:2
         imagePullPolicy: IfNotPresent
         name: app
         resources: {{}}
"
    );
    assert_eq!(stdout, expected);
}

#[test]
fn objects_on_one_side_are_added_or_removed() {
    let files = Scratch::new("diff-sides");
    std::fs::create_dir(files.path("k")).unwrap();
    files.write("k/kustomization.yaml", "namespace: team\nresources: [maps.yaml]\n");
    files.write(
        "k/maps.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
    );
    let right = files.write(
        "right.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: team}\ndata: {x: \"one\\ntwo\\nthree\\n\"}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: team}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: d-, namespace: team}\n",
    );
    let left = files.path("k");
    assert_eq!(
        changes(&[], &[&left, &right]),
        ["-ConfigMap/a", "data: - {\"x\":\"one\\ntwo\\nthree\\n\"}", "+ConfigMap/c", "+ConfigMap/d-*"]
    );
    assert_eq!(changes(&[], &[&right, &right]), [""; 0]);
    let Ran { stdout, .. } = diff(&[&left, &right], "");
    let removed = format!(
        "--- {left}/maps.yaml:3:18 ConfigMap/a in team\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-apiVersion: v1\n"
    );
    assert!(stdout.starts_with(&removed), "{stdout}");
}

#[test]
fn secrets_are_not_shown() {
    let files = Scratch::new("diff-secrets");
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{a: {value}, b: same}}\n")
    };
    let (left, right) = (files.write("left.yaml", &secret("one")), files.write("right.yaml", &secret("two")));
    assert_eq!(changes(&[], &[&left, &right]), ["data.a: \"*** (before)\" \"*** (after)\""]);
}

#[test]
fn kinds_are_known_by_the_definitions_of_either_side_or_of_others() {
    let files = Scratch::new("diff-definitions");
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
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
          spec:
            type: object
            properties:
              colour: {type: string, default: red}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [id]
                items: {type: object, required: [id], properties: {id: {type: integer}, size: {type: integer}}}
";
    let widget = |spec: &str| {
        format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {{{spec}}}\n")
    };
    let definitions = files.write("definitions.yaml", definition);
    let left = files.write("left.yaml", &widget("parts: [{id: 1, size: 1}, {id: 2}]"));
    let right = files.write("right.yaml", &widget("colour: red, parts: [{id: 2}, {id: 1, size: 2}]"));
    let both = files.write("both.yaml", &format!("{definition}---\n{}", widget("")));
    assert_eq!(changes(&[], &[&left, &right, "--schema-file", &definitions]), ["spec.parts[id=1].size: 1 2"]);
    assert_eq!(
        changes(&[], &[&left, &both]),
        ["+CustomResourceDefinition/widgets.example.com", "spec.parts: [{\"id\":1,\"size\":1},{\"id\":2}] -"]
    );
    let Ran { code, stdout, stderr } = diff(&[&left, &right], "");
    assert_eq!((code, stdout.as_str()), (2, ""));
    let expected = format!("error: {left}:1:1: Widget/w: there is no kind Widget in example.com/v1; ");
    assert!(stderr.starts_with(&expected), "{stderr}");
}

#[test]
fn what_is_wrong_is_told_where_it_is_written_and_exits_2() {
    let files = Scratch::new("diff-wrong");
    let right =
        files.write("right.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: [\n");
    let wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports:\n  - port: 99999\n";
    let good = files.write("good.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let absent = files.path("absent");
    for (words, expected) in [
        (
            [good.as_str(), "-"],
            "error: <stdin>:6:5: Service/s: spec.ports[0].port: Invalid value: 99999: ".to_owned(),
        ),
        ([&good, &right], format!("error: {right}:6:1: ")),
        ([&absent, &good], format!("error: {absent}: cannot be read: ")),
        (["-", "-"], "error: standard input can only be one side\n".to_owned()),
        (["context:nosuch", &good], "error: there is no kubeconfig, so no context `nosuch`\n".to_owned()),
    ] {
        let Ran { code, stdout, stderr } = diff_with(&[Path::new(&absent)], &words, wrong);
        assert_eq!((code, stdout.as_str()), (2, ""), "{words:?}");
        assert!(stderr.starts_with(&expected), "{stderr}");
    }
    assert_eq!(diff(&[&good], "").code, 2);
}

/// A server with a Deployment that is applied by kubectl and scaled by somebody else.
async fn scaled() -> Server {
    let server = Server::start("diff-scaled").await;
    let object: Value = sternpost_yaml::from_str(SHORT).unwrap();
    server.patch(&format!("{DEPLOYMENTS}/web?fieldManager=kubectl"), APPLY, &object).await.expect(201);
    let scale = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
    server
        .patch(&format!("{DEPLOYMENTS}/web?fieldManager=scaler&force=true"), APPLY, &scale)
        .await
        .expect(200);
    server
}

#[tokio::test]
async fn fields_of_others_are_no_difference_on_a_server() {
    let server = scaled().await;
    let files = Scratch::new("diff-server");
    let same = files.write("same.yaml", SHORT);
    let kubeconfig = [server.kubeconfig()];
    assert_eq!(changes(&kubeconfig, &["context:", &same]), [""; 0]);
    // What the manager had set and does not mention any more goes away; others' fields stay.
    let less =
        files.write("less.yaml", &SHORT.replace("{name: A, value: a}, ", "").replace("nginx:1", "nginx:2"));
    let expected = [
        "spec.template.spec.containers[name=app].env[name=A]: {\"name\":\"A\",\"value\":\"a\"} -",
        "spec.template.spec.containers[name=app].image: \"nginx:1\" \"nginx:2\"",
    ];
    assert_eq!(changes(&kubeconfig, &["context:sternpost", &less]), expected);
    let back = [
        "spec.template.spec.containers[name=app].env[name=A]: - {\"name\":\"A\",\"value\":\"a\"}",
        "spec.template.spec.containers[name=app].image: \"nginx:2\" \"nginx:1\"",
    ];
    assert_eq!(changes(&kubeconfig, &[&less, "context:sternpost"]), back);
    // Another manager has set nothing so far.
    let by_another = changes(&kubeconfig, &["context:", &less, "--field-manager", "another"]);
    assert_eq!(by_another, expected[1..]);
    // It has scaled itself, and so the file takes it back.
    let written = files.write("written.yaml", LONG);
    assert_eq!(changes(&kubeconfig, &["context:", &written]), ["spec.replicas: 5 1"]);
    assert_eq!(server.get(&format!("{DEPLOYMENTS}/web")).await.expect(200)["spec"]["replicas"], 5);
    server.stop();
}

#[tokio::test]
async fn what_kubectl_has_applied_by_itself_goes_away_too() {
    let server = Server::start("diff-client-side").await;
    let object: Value = sternpost_yaml::from_str(SHORT).unwrap();
    server.post(&format!("{DEPLOYMENTS}?fieldManager=kubectl-client-side-apply"), &object).await.expect(201);
    let files = Scratch::new("diff-client-side-files");
    let less = files.write("less.yaml", &SHORT.replace("{name: A, value: a}, ", ""));
    let kubeconfig = [server.kubeconfig()];
    let expected =
        ["spec.template.spec.containers[name=app].env[name=A]: {\"name\":\"A\",\"value\":\"a\"} -"];
    assert_eq!(changes(&kubeconfig, &["context:", &less]), expected);
    server.stop();
}

#[tokio::test]
async fn who_may_only_read_is_told_what_would_change_all_the_same() {
    let files = Scratch::new("diff-reader");
    let tokens = files.write("tokens.csv", "only-reads,reader,1\n");
    let objects = files.write(
        "objects.yaml",
        &format!(
            "{SHORT}---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: reader}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}\n\
             subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}}]\n"
        ),
    );
    let server = Server::start_with("diff-reader", &["--token-auth-file", &tokens, "--load", &objects]).await;
    let kubeconfig = files.write(
        "kubeconfig",
        &format!(
            "current-context: r\ncontexts: [{{name: r, context: {{cluster: r, user: r}}}}]\n\
             clusters: [{{name: r, cluster: {{server: 'https://{}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: r, user: {{token: only-reads}}}}]\n",
            server.address()
        ),
    );
    let changed = files.write("changed.yaml", &SHORT.replace("nginx:1", "nginx:2"));
    let ran = diff_with(&[Path::new(&kubeconfig)], &["context:", &changed], "");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let warning = "warning: context: is not asked what it would do: deployments.apps \"web\" is forbidden: ";
    assert!(ran.stderr.starts_with(warning), "{}", ran.stderr);
    let found =
        changes(&[Path::new(&kubeconfig)], &["context:", &changed, "--field-manager", "sternpost-load"]);
    assert_eq!(found, ["spec.template.spec.containers[name=app].image: \"nginx:1\" \"nginx:2\""]);
    server.stop();
}

#[tokio::test]
async fn what_comes_with_its_namespace_and_its_kind_is_added() {
    let server = Server::start("diff-new").await;
    let kubeconfig = [server.kubeconfig()];
    let objects = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/export/objects.yaml");
    let found = changes(&kubeconfig, &["context:", objects]);
    let added = found.iter().filter(|change| change.starts_with('+')).count();
    assert_eq!(added, 22, "{found:?}");
    let rest: Vec<&String> = found.iter().filter(|change| !change.starts_with('+')).collect();
    assert_eq!(rest, ["metadata.labels: - {\"changed\":\"by-somebody\"}"]);
    server.stop();
}

#[tokio::test]
async fn two_servers_are_compared_by_what_somebody_has_put_there() {
    let files = Scratch::new("diff-two");
    let one = files.write("one.yaml", SHORT);
    let two = files.write("two.yaml", &LONG.replace("image: nginx:1", "image: nginx:2"));
    let start = |name: &'static str, file: String| async move {
        Server::start_with(&format!("diff-{name}"), &["--context-name", name, "--load", &file]).await
    };
    let (one, two) = (start("one", one).await, start("two", two).await);
    let kubeconfigs = [one.kubeconfig(), two.kubeconfig()];
    assert_eq!(
        changes(&kubeconfigs, &["context:one", "context:two"]),
        ["spec.template.spec.containers[name=app].image: \"nginx:1\" \"nginx:2\""]
    );
    assert_eq!(changes(&kubeconfigs, &["context:one", "context:one"]), [""; 0]);
    one.stop();
    two.stop();
}
