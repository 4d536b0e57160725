//! `sternpost explain`: exit code, stdout and stderr, from each source.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::Value;
use sternpost_testkit::{
    process::{self, Process},
    scratch::Scratch,
};

const SHIPS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: unrelated}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship, shortNames: [shp]}
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
            description: What the owner wants.
            required: [rig]
            properties:
              rig: {type: string, enum: [sloop, ketch], description: How the masts stand.}
";

const SPEC: &str = "\
GROUP:      sea.example.com
KIND:       Ship
VERSION:    v1

FIELD: spec <Object>


DESCRIPTION:
    What the owner wants.
    
FIELDS:
  rig\t<string> -required-
  enum: sloop, ketch
    How the masts stand.


";

#[test]
fn built_in_kinds_need_no_server() {
    let (code, stdout, stderr) = explain(&["deploy.spec.replicas"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n\nFIELD: replicas <integer>\n\n\nDESCRIPTION:\n"), "{stdout}");

    let (code, stdout, _) = explain(&["pods.spec.dnsPolicy", "-o", "json"]);
    let json: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["path"], serde_json::json!(["spec", "dnsPolicy"]));
    assert_eq!(json["enum"].as_array().unwrap().len(), 4);

    let (code, stdout, _) = explain(&["pods", "--recursive", "-o", "markdown"]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("# Pod\n\n`v1`\n"), "{stdout}");
    assert!(stdout.contains("\n  - **containers** `[]Container`, required\n"), "{stdout}");
    assert_eq!(explain(&["pods", "--recursive=false"]), explain(&["pods"]));
}

#[test]
fn what_is_not_there_exits_1() {
    for (args, stdout, stderr) in [
        (&["nosuch"][..], "", "error: the server doesn't have a resource type \"nosuch\"\n"),
        (&["pods.nope"], "KIND:       Pod\nVERSION:    v1\n\n", "error: field \"nope\" does not exist\n"),
        (&["pods.nope", "-o", "json"], "", "error: field \"nope\" does not exist\n"),
        (&["pods", "--api-version", "v2"], "", "error: couldn't find resource for \"/v2, Resource=pods\"\n"),
        (
            &["pods", "--api-version", "apps/v1"],
            "",
            "error: GVR (apps/v1, Resource=pods) not found in OpenAPI schema\n",
        ),
        (
            &["pods", "--file", "/no/such"],
            "",
            "error: cannot read `/no/such`: No such file or directory (os error 2)\n",
        ),
        (
            &["pods", "--file", "/dev/null"],
            "",
            "error: `/dev/null` holds neither a CustomResourceDefinition nor an OpenAPI document that describes a \
             resource\n",
        ),
    ] {
        assert_eq!(explain(args), (1, stdout.to_owned(), stderr.to_owned()), "{args:?}");
    }
}

#[test]
fn wrong_usage_exits_2() {
    for (args, message) in [
        (&[][..], "<RESOURCE[.FIELD...]>"),
        (&["pods", "services"], "unexpected argument 'services'"),
        (&["pods", "-o", "xml"], "invalid value 'xml'"),
        (&["pods", "--recursive=maybe"], "invalid value 'maybe'"),
        (&["pods", "--context", "x"], "--kubeconfig <FILE>"),
        (&["pods", "--kubeconfig", "x", "--file", "y"], "cannot be used with"),
        (&["--file", "/dev/null"], "the resource to explain is missing"),
    ] {
        let (code, stdout, stderr) = explain(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn help_shows_examples() {
    let (code, stdout, stderr) = explain(&["--help"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["--file <FILE|DIR>", "--kubeconfig <FILE>", "--api-version <GROUP/VERSION>", "Examples:"] {
        assert!(stdout.contains(part), "{part}\nis not in\n{stdout}");
    }
}

#[test]
fn files_directories_and_standard_input_are_read() {
    let folder = Scratch::new("explain-files");
    let below = folder.0.join("crds/deeper");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("ships.yaml"), SHIPS).unwrap();
    fs::write(below.join("README.md"), "{").unwrap();
    let file = below.join("ships.yaml").display().to_string();
    let directory = folder.0.display().to_string();
    for args in [
        &["ships.spec", "--file", &file][..],
        &["--file", &file, "shp.spec"],
        &["ships.sea.example.com.spec", "-f", &directory],
        &["Ship.v1.sea.example.com.spec", "-f", &directory, &file],
    ] {
        assert_eq!(explain(args), (0, SPEC.to_owned(), String::new()), "{args:?}");
    }
    assert_eq!(explain_with_input(&["ship.spec", "-f", "-"], SHIPS), (0, SPEC.to_owned(), String::new()));

    let (code, stdout, stderr) = explain(&["boats", "-f", &file]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(
        stderr,
        "error: the server doesn't have a resource type \"boats\"\nhint: the files describe ships.sea.example.com\n"
    );

    fs::write(below.join("broken.yaml"), "a: [").unwrap();
    let (code, _, stderr) = explain(&["ships", "-f", &directory]);
    assert_eq!(code, 1);
    assert!(stderr.starts_with("error: /") && stderr.contains("deeper/broken.yaml:1:5: "), "{stderr}");
}

#[test]
fn a_server_explains_what_the_catalogue_explains() {
    let folder = Scratch::new("explain-server");
    let kubeconfig = folder.0.join("kubeconfig").display().to_string();
    let _server = server(&kubeconfig);
    for resource in ["pods", "deployments.spec.template", "hpa.v1.autoscaling", "ev", "pods.nope", "nosuch"] {
        let asked = explain(&[resource, "--kubeconfig", &kubeconfig]);
        assert_eq!(asked, explain(&[resource]), "{resource}");
    }
    let args = ["netpol", "--recursive", "--kubeconfig", &kubeconfig, "--context", "sternpost"];
    assert_eq!(explain(&args), explain(&["netpol", "--recursive"]));

    let text = fs::read_to_string(&kubeconfig).unwrap();
    for (from, to, message) in [
        ("token: \"", "token: \"x", "401 Unauthorized"),
        ("certificate-authority-data: ", "unused: ", "the kubeconfig names no certificate authority"),
        ("current-context: ", "unused: ", "hint: choose one with --context"),
        ("https://", "ftp://", "the URL begins with neither https:// nor http://"),
    ] {
        let changed = folder.0.join("changed").display().to_string();
        fs::write(&changed, text.replace(from, to)).unwrap();
        let (code, stdout, stderr) = explain(&["pods", "--kubeconfig", &changed]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(message), "{message}: {stderr}");
    }
}

fn explain(args: &[&str]) -> (i32, String, String) {
    explain_with_input(args, "")
}

fn explain_with_input(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = sternpost()
        .arg("explain")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Most ways of failing leave standard input unread.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn sternpost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    command.env("NO_COLOR", "1");
    command
}

/// A server that is ready, and writes this kubeconfig.
fn server(kubeconfig: &str) -> Process {
    let mut command = process::serve();
    command.args(["--in-memory", "--kubeconfig", kubeconfig]);
    Process::start(command).0
}
