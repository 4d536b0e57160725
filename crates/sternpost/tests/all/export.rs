//! `sternpost export`: what a server has, in a form in which another takes it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use sternpost_testkit::{scratch::Scratch, server::Server};

use crate::openapi_fetch::{Asked, Fake, Reply, ok, reply};

const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/export/objects.yaml");
const EXPORTED: &str = include_str!("export/exported.yaml");

/// Exit code, stdout and stderr of an export of a server.
fn export(kubeconfig: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    let Output { status, stdout, stderr } =
        command.arg("export").arg("--kubeconfig").arg(kubeconfig).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// `Kind/name` of all objects, in their order.
#[track_caller]
fn names(kubeconfig: &Path, words: &[&str]) -> String {
    let (code, stdout, stderr) = export(kubeconfig, &[words, &["-o", "json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let name = |object: &Value| {
        format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
    };
    list["items"].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn what_is_loaded_is_exported_and_loaded_again_without_a_difference() {
    let files = Scratch::new("export-round-trip");
    let one = Server::start_with("export-one", &["--load", OBJECTS]).await;
    let (code, first, summary) = export(one.kubeconfig(), &[]);
    assert_eq!((code, first.as_str()), (0, EXPORTED));
    let begin = "23 objects; left out: ";
    assert!(
        summary.starts_with(begin) && summary.ends_with(" made by the server (--include server-made)\n"),
        "{summary}"
    );
    one.stop();

    let file = files.write("exported.yaml", &first);
    let two = Server::start_with("export-two", &["--load", &file]).await;
    assert_eq!(export(two.kubeconfig(), &["-q"]), (0, first.clone(), String::new()));
    let (folder, json) = (files.path("folder/"), files.path("objects.json"));
    for words in [["--output-file", &folder], ["--output-file", &json]] {
        let form = if words[1] == json { "json" } else { "yaml" };
        assert_eq!(
            export(two.kubeconfig(), &[&words[..], &["-q", "-o", form]].concat()),
            (0, String::new(), String::new())
        );
    }
    two.stop();
    assert!(Path::new(&files.path("folder/team/deployment.apps-web.yaml")).is_file());

    for source in [folder, json] {
        let three = Server::start_with("export-three", &["--load", &source]).await;
        assert_eq!(export(three.kubeconfig(), &["-q"]), (0, first.clone(), String::new()), "{source}");
        three.stop();
    }
}

#[tokio::test]
async fn some_objects_are_chosen_in_kubectls_words() {
    let server = Server::start_with("export-chosen", &["--load", OBJECTS]).await;
    let kubeconfig = server.kubeconfig();
    for (words, expected) in [
        (&["deploy/web"][..], "Deployment/web"),
        (&["wd,plains.example.com"], "Plain/p Widget/w"),
        (&["services", "-l", "app=web"], "Service/web"),
        (&["-l", "app=web"], "Service/web Deployment/web"),
        (&["svc", "--exclude", "svc/web,service/fixed"], "Service/headless"),
        (&["deployments,namespaces", "-n", "team"], "Namespace/default Namespace/team Deployment/web"),
        (&["deploy", "-n", "default"], ""),
        // Without a selection a namespace is what is in it, and itself.
        (
            &["-n", "team", "--exclude", "all,secrets,rolebindings,roles,ingresses,pvc,widgets"],
            "Namespace/team ServiceAccount/web",
        ),
        // Whoever names an object means it.
        (
            &["ns/kube-system", "cm/kube-root-ca.crt", "-n", "team"],
            "Namespace/kube-system ConfigMap/kube-root-ca.crt",
        ),
        (&["leases", "--include", "server-made", "-n", "default"], ""),
    ] {
        assert_eq!(names(kubeconfig, words), expected, "{words:?}");
    }
    let (_, stdout, _) = export(kubeconfig, &["svc/web", "--include", "allocated"]);
    assert!(stdout.contains("\n  clusterIP: 10.0.0.") && stdout.contains("\n    nodePort: 3"), "{stdout}");
    for (words, code, message) in [
        (&["deploy/nosuch"][..], 1, "error: deployments.apps \"nosuch\" not found\n"),
        (&["nosuch"], 1, "error: the server doesn't have a resource type \"nosuch\"\n"),
        (
            &["tokenreviews"],
            1,
            "error: `tokenreviews` cannot be exported: objects of it cannot be listed and created\n",
        ),
    ] {
        assert_eq!(export(kubeconfig, words), (code, String::new(), message.to_owned()), "{words:?}");
    }
    let (code, _, stderr) = export(kubeconfig, &["-A", "-n", "x"]);
    assert!(code == 2 && stderr.contains("cannot be used with"), "{stderr}");
    server.stop();
}

#[tokio::test]
async fn what_controllers_own_and_what_is_ending_is_left_out() {
    let server = Server::start("export-owned").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, more: Value| {
        let mut object = json!({"metadata": more, "data": {"a": "b"}});
        object["metadata"]["name"] = name.into();
        object
    };
    let owner = server.post(maps, &map("owner", json!({}))).await.expect(201);
    let reference = |controller: bool| {
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                                    "uid": owner["metadata"]["uid"], "controller": controller}]})
    };
    server.post(maps, &map("owned", reference(true))).await.expect(201);
    server.post(maps, &map("dependent", reference(false))).await.expect(201);
    server.post(maps, &map("ending", json!({"finalizers": ["example.com/wait"]}))).await.expect(201);
    server.delete(&format!("{maps}/ending")).await.expect(200);
    let kubeconfig = server.kubeconfig();
    assert_eq!(names(kubeconfig, &[]), "ConfigMap/dependent ConfigMap/owner");
    assert_eq!(names(kubeconfig, &["cm/owned"]), "ConfigMap/owned");
    let (_, stdout, stderr) = export(kubeconfig, &["cm", "--include", "owned"]);
    assert_eq!(stdout.matches("kind: ConfigMap\n").count(), 3, "{stdout}");
    assert!(!stdout.contains("ownerReferences"), "{stdout}");
    assert!(stderr.contains(", 1 being deleted\n"), "{stderr}");
    server.stop();
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let server = Server::start("export-pages").await;
    for number in 0..170 {
        let object = json!({"metadata": {"name": format!("map-{number:03}")}});
        server.post("/api/v1/namespaces/default/configmaps", &object).await.expect(201);
    }
    let found = names(server.kubeconfig(), &["cm"]);
    let expected: Vec<String> = (0..170).map(|number| format!("ConfigMap/map-{number:03}")).collect();
    assert_eq!(found, expected.join(" "));
    server.stop();
}

/// A server with ConfigMaps, whose lists are answered by `list`.
fn maps(list: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Fake {
    Fake::start(move |asked: &Asked| match asked.path.as_str() {
        "/api" => ok(&json!({"versions": ["v1"]})),
        "/apis" => ok(&json!({"groups": [{"versions": [{"groupVersion": "away.example.com/v1"}]}]})),
        "/api/v1" => ok(&json!({"resources": [
            {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["create", "list"]},
        ]})),
        path if path.starts_with("/api/v1/configmaps?") => list(path),
        _ => reply(503, &[], "away"),
    })
}

/// Of such a server.
fn export_maps(fake: &Fake, words: &[&str]) -> (i32, String, String) {
    let files = Scratch::new(&format!("export-{}", fake.url().rsplit(':').next().unwrap()));
    let kubeconfig = files.write("config", "{}");
    export(Path::new(&kubeconfig), &[&["--server", &fake.url()], words].concat())
}

fn page(names: &[&str], next: &str) -> Reply {
    let items: Vec<Value> =
        names.iter().map(|name| json!({"metadata": {"name": name, "uid": name}})).collect();
    ok(&json!({"kind": "ConfigMapList", "metadata": {"continue": next}, "items": items}))
}

#[test]
fn pages_that_are_forgotten_are_had_at_once() {
    let fake = maps(|path| match path.split_once("limit=").unwrap().1 {
        "80" => page(&["a", "b"], "next/one"),
        "80&continue=next%2Fone" => reply(410, &[("content-type", "application/json")], "{}"),
        "0" => page(&["a", "b", "c"], ""),
        other => panic!("{other}"),
    });
    let (code, stdout, stderr) = export_maps(&fake, &[]);
    let expected =
        ["a", "b", "c"].map(|name| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"));
    assert_eq!((code, stdout), (0, expected.join("---\n")));
    assert_eq!(stderr, "warning: away.example.com/v1 is left out: its server is away\n3 objects\n");
}

#[test]
fn what_may_not_be_listed_ends_the_export() {
    let fake = maps(|_| {
        reply(403, &[("content-type", "application/json")], "{\"message\": \"configmaps is forbidden\"}")
    });
    let (code, stdout, stderr) = export_maps(&fake, &["cm,configmaps"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(stderr, "error: the server doesn't have a resource type \"cm\"\n");
    let (code, stdout, stderr) = export_maps(&fake, &["configmaps"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(stderr, "error: configmaps is forbidden\nhint: leave them out with --exclude configmaps\n");
}
