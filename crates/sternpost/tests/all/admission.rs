//! `--admission-control-config-file`: what plugins are told, and what they make of it.
//!
//! The answers in `admission/*.jsonl` are kube-apiserver 1.36.4's, run with the same configuration: one
//! request a line, with its user, the code, the message, warnings and the notes of PodSecurity for the
//! audit log.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sternpost_testkit::server::{AT_LAST, Server};

const POD_SECURITY: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults:
      enforce: baseline
      enforce-version: v1.30
      audit: restricted
      warn: restricted
      warn-version: latest
    exemptions:
      usernames: [bob]
      runtimeClasses: [trusted]
      namespaces: [exempt]
";

/// In the older form, and with a path beside the file. What comes after the first entry of a name, is for
/// a plugin that is off or for one that needs no telling is not looked at.
const QUOTA: &str = "
apiVersion: apiserver.k8s.io/v1alpha1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  path: limited.yaml
- name: ResourceQuota
  path: gone.yaml
- name: NamespaceExists
  path: gone.yaml
- name: Priority
  configuration: {apiVersion: v1, kind: X}
";

const LIMITED: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: persistentvolumeclaims
  matchContains: [.storageclass.storage.k8s.io/requests.storage]
- resource: services
  matchContains: [services.loadbalancers, services.nodeports]
- apiGroup: apps
  resource: deployments
  matchContains: [count/]
- resource: pods
  matchContains: [requests.cpu]
  matchScopes:
  - {scopeName: PriorityClass, operator: In, values: [top, over]}
";

const AUDIT: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: '', resources: [pods, namespaces]}, {group: apps, resources: [deployments]}]
";

fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("sternpost-admission-files-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

async fn start(name: &str, folder: &Path) -> Server {
    let path = |file: &str| folder.join(file).to_str().unwrap().to_owned();
    let flags = [
        &format!("--admission-control-config-file={}", path("admission.yaml")),
        &format!("--token-auth-file={}", path("users.csv")),
        &format!("--audit-policy-file={}", path("policy.yaml")),
        &format!("--audit-log-path={}", path("audit.log")),
        "--controllers=-*",
        "--disable-admission-plugins=ServiceAccount",
    ];
    Server::start_with(name, &flags).await
}

const USERS: &str = "t-bob,bob,2\nt-carol,carol,3\n";

/// Everything of the recorded answers that differs.
async fn replay(server: &Server, folder: &Path, recorded: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let mut noted: Vec<(String, Value, String)> = Vec::new();
    for line in recorded.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        let token = match text("user") {
            "admin" => server.token().to_owned(),
            user => format!("t-{user}"),
        };
        let media = match text("method") {
            "PATCH" => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let body = case.get("body").map(Value::to_string).unwrap_or_default();
        let answer = server.send_as(&token, "test", text("method"), text("path"), media, body).await;
        let warnings: Vec<&str> =
            answer.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap()).collect();
        let message = if answer.code < 400 { "" } else { answer.message() };
        let found = json!([answer.code, message, warnings]);
        let expected = json!([case["code"], text("message"), case["warnings"]]);
        let what = format!("{} {} {} {}", text("user"), text("method"), text("path"), case["body"]);
        if found != expected {
            differences.push(format!("{what}\n  expected {expected}\n  found    {found}"));
        }
        if let Some(annotations) = case.get("annotations") {
            let id = answer.headers["audit-id"].to_str().unwrap();
            noted.push((id.to_owned(), annotations.clone(), what));
        }
    }
    if noted.is_empty() {
        return differences;
    }
    let begun = Instant::now();
    let mut notes = annotations(folder);
    let last = &noted.last().unwrap().0;
    while !notes.contains_key(last) {
        assert!(begun.elapsed() < AT_LAST, "the last request is not in the audit log");
        tokio::time::sleep(Duration::from_millis(10)).await;
        notes = annotations(folder);
    }
    for (id, expected, what) in &noted {
        let found = notes.get(id).cloned().unwrap_or_else(|| json!({}));
        if found != *expected {
            differences.push(format!("{what}\n  expected {expected}\n  found    {found}"));
        }
    }
    differences
}

/// What PodSecurity noted, by the id of the request.
fn annotations(folder: &Path) -> BTreeMap<String, Value> {
    let log = fs::read_to_string(folder.join("audit.log")).unwrap();
    // The last line may still be written.
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_plugin = |event: &Value| {
        let all = event["annotations"].as_object().into_iter().flatten();
        all.filter(|(name, _)| name.starts_with("pod-security."))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    events.map(|event| (event["auditID"].as_str().unwrap().to_owned(), of_plugin(&event))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_held_against_the_defaults_unless_they_are_exempt() {
    let files = [("admission.yaml", POD_SECURITY), ("users.csv", USERS), ("policy.yaml", AUDIT)];
    let folder = folder("pods", &files);
    let server = start("admission-pods", &folder).await;
    let recorded = include_str!("../admission/pod_security_configuration.jsonl");
    assert!(recorded.lines().count() > 60);
    let differences = replay(&server, &folder, recorded).await;
    server.stop();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limited_resources_are_used_only_where_a_quota_counts_them() {
    let files =
        [("admission.yaml", QUOTA), ("limited.yaml", LIMITED), ("users.csv", USERS), ("policy.yaml", AUDIT)];
    let folder = folder("quota", &files);
    let server = start("admission-quota", &folder).await;
    let recorded = include_str!("../admission/limited_resources.jsonl");
    assert!(recorded.lines().count() > 30);
    let differences = replay(&server, &folder, recorded).await;
    server.stop();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// What is told of a file that is refused; as upstream the program ends with 1.
fn refusal(folder: &Path, file: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .current_dir(folder)
        .args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--admission-control-config-file", file])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{file}: {said}");
    said
}

/// kube-apiserver 1.36.4 refuses all of these but configurations for plugins that it does not know, that
/// are off there, or that take none here.
#[test]
fn configurations_that_cannot_be_used_are_told_with_their_place() {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    let pods = "plugins:\n- name: PodSecurity\n  configuration:\n    apiVersion: pod-security.admission.config.k8s.io/v1\n    kind: PodSecurityConfiguration\n";
    let folder = folder("refused", &[("inner.yaml", "kind: [\n")]);
    for (name, text, expected) in [
        ("malformed", "a: [".to_owned(), "malformed.yaml:"),
        ("empty", String::new(), "empty.yaml:1:1: apiVersion: Unsupported value: \"\""),
        (
            "kind",
            head.replace("Admission", "Other"),
            "kind.yaml:2:1: kind: Unsupported value: \"OtherConfiguration\": supported values: \"AdmissionConfiguration\"",
        ),
        (
            "version",
            head.replace("/v1", "/v9"),
            "version.yaml:1:1: apiVersion: Unsupported value: \"apiserver.config.k8s.io/v9\"",
        ),
        ("twice", format!("{head}{head}"), "twice.yaml:3:1: key `apiVersion` is already set"),
        ("field", format!("{head}plugins: []\nmore: 1\n"), "field.yaml:4:1: more: Forbidden: unknown field"),
        (
            "type",
            format!("{head}plugins: 7\n"),
            "type.yaml:3:1: plugins: Invalid value: 7: must be a list, not number",
        ),
        (
            "within",
            format!("{head}plugins:\n- name: PodSecurity\n  confguration: {{}}\n"),
            "within.yaml:5:3: plugins[0].confguration: Forbidden: unknown field",
        ),
        (
            "unknown",
            format!("{head}plugins:\n- name: Nothing\n"),
            "unknown.yaml:4:3: plugins[0].name: Invalid value: \"Nothing\": admission plugin `Nothing` is unknown; known: ",
        ),
        (
            "absent",
            format!("{head}plugins:\n- name: EventRateLimit\n  path: x\n"),
            "absent.yaml:4:3: plugins[0].name: Invalid value: \"EventRateLimit\": admission plugin `EventRateLimit` is not available; available: ",
        ),
        (
            "webhooks",
            format!(
                "{head}plugins:\n- name: ValidatingAdmissionWebhook\n  configuration: {{kubeConfigFile: x}}\n"
            ),
            "webhooks.yaml:5:3: plugins[0].configuration: Forbidden: admission plugin `ValidatingAdmissionWebhook` takes no configuration here",
        ),
        (
            "nothing",
            format!("{head}plugins:\n- name: PodSecurity\n  configuration: {{}}\n"),
            "nothing.yaml:5:3: plugins[0].configuration.apiVersion: Unsupported value: \"\"",
        ),
        (
            "level",
            format!("{head}{pods}    defaults: {{enforce: strict, warn-version: v2}}\n"),
            "level.yaml:8:16: plugins[0].configuration.defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted\nlevel.yaml:8:33: plugins[0].configuration.defaults.warn-version: Invalid value: \"v2\": must be \"latest\" or \"v1.x\"\n",
        ),
        (
            "mode",
            format!("{head}{pods}    defaults: {{enforced: baseline}}\n"),
            "mode.yaml:8:16: plugins[0].configuration.defaults.enforced: Forbidden: unknown field",
        ),
        (
            "number",
            format!("{head}{pods}    defaults: {{enforce: 7}}\n"),
            "plugins[0].configuration.defaults.enforce: Invalid value: 7: must be a string, not number",
        ),
        (
            "names",
            format!(
                "{head}{pods}    exemptions:\n      namespaces: [A_, a, a]\n      runtimeClasses: [X_]\n      usernames: ['', b, b]\n"
            ),
            "names.yaml:9:27: plugins[0].configuration.exemptions.namespaces[2]: Duplicate value: \"a\"\nnames.yaml:10:24: plugins[0].configuration.exemptions.runtimeClasses[0]: Invalid value: \"X_\": a lowercase RFC 1123 subdomain must consist of",
        ),
        (
            "user",
            format!("{head}{pods}    exemptions: {{usernames: ['']}}\n"),
            "usernames[0]: Invalid value: \"\": username must not be empty",
        ),
        (
            "limited",
            format!(
                "{head}plugins:\n- name: ResourceQuota\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    kind: ResourceQuotaConfiguration\n    limitedResources: [{{matchContains: [a]}}]\n"
            ),
            "plugins[0].configuration.limitedResources[0].resource: Required value",
        ),
        (
            "gone",
            format!("{head}plugins:\n- name: PodSecurity\n  path: gone.txt\n"),
            "cannot read `gone.txt`",
        ),
        ("outer", format!("{head}plugins:\n- name: PodSecurity\n  path: inner.yaml\n"), "inner.yaml:"),
    ] {
        let file = format!("{name}.yaml");
        fs::write(folder.join(&file), &text).unwrap();
        let said = refusal(&folder, &file);
        assert!(said.contains(expected), "{name}: {said}");
    }
    let said = refusal(&folder, "missing.yaml");
    assert!(said.contains("cannot read `missing.yaml`"), "{said}");
}
