//! The audit log of a running server.

use std::{fs, path::Path, process::Command, time::Instant};

use serde_json::{Value, json};
use sternpost_testkit::server::{AT_LAST, MERGE, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["system:apiserver"]
- level: RequestResponse
  resources: [{group: "", resources: ["configmaps"]}]
- level: Request
  resources: [{group: "", resources: ["pods"]}]
- level: None
  resources: [{group: "", resources: ["secrets"]}]
- level: Metadata
"#;

/// `stage level verb uri code` of each event that is not about ourselves.
fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    // What is behind the last end of a line is still being written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told(events: &[Value], uri: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = events.iter().filter(|event| event["requestURI"] == uri);
    of.map(|event| {
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let (stage, level, verb) = (text(&event["stage"]), text(&event["level"]), text(&event["verb"]));
        format!("{stage} {level} {verb} {code}")
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_policy_wants_told_is_told() {
    let dir = std::env::temp_dir().join(format!("sternpost-audit-log-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (policy, log, users) = (dir.join("policy.yaml"), dir.join("audit.log"), dir.join("users.csv"));
    fs::write(&policy, POLICY).unwrap();
    fs::write(&users, "bobs-token,bob,2,\"devs\"\n").unwrap();
    let flags = ["--audit-policy-file", policy.to_str().unwrap(), "--audit-log-path", log.to_str().unwrap()];
    let flags = [
        &flags[..],
        &[
            "--token-auth-file",
            users.to_str().unwrap(),
            "--controllers=-*",
            "--disable-admission-plugins=ServiceAccount",
        ],
    ]
    .concat();
    let server = Server::start_with("audit", &flags).await;

    let maps = "/api/v1/namespaces/default/configmaps";
    server.post(maps, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    server.patch(&format!("{maps}/a"), MERGE, &json!({"data": {"k": "w"}})).await.expect(200);
    server.get(&format!("{maps}?limit=9")).await.expect(200);
    server.post(&format!("{maps}?x=1"), &json!({"metadata": {"name": "a"}})).await.expect(409);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.post("/api/v1/namespaces/default/pods", &pod).await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hidden"}});
    server.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    server.send_as("bobs-token", "curl", "GET", "/api/v1/nodes", "application/json", "").await.expect(403);
    server.send_as("wrong", "curl", "GET", "/api/v1/nodes?no=1", "application/json", "").await.expect(401);
    server.get("/version").await.expect(200);
    let watched = format!("{maps}?watch=1&timeoutSeconds=1");
    let mut watch = server.watch(&watched).await;
    while watch.next().await.is_some() {}

    // The end of a watch is told when the server has noticed it.
    let begun = Instant::now();
    let mut events = lines(&log);
    while told(&events, &watched).len() < 3 {
        assert!(begun.elapsed() < AT_LAST, "{:?}", told(&events, &watched));
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        events = lines(&log);
    }
    server.stop();

    for (uri, expected) in [
        (
            maps,
            vec!["RequestReceived RequestResponse create 0", "ResponseComplete RequestResponse create 201"],
        ),
        (
            &format!("{maps}?x=1"),
            vec!["RequestReceived RequestResponse create 0", "ResponseComplete RequestResponse create 409"],
        ),
        (
            &format!("{maps}/a"),
            vec!["RequestReceived RequestResponse patch 0", "ResponseComplete RequestResponse patch 200"],
        ),
        (
            "/api/v1/namespaces/default/pods",
            vec!["RequestReceived Request create 0", "ResponseComplete Request create 201"],
        ),
        ("/api/v1/namespaces/default/secrets", vec![]),
        ("/api/v1/nodes", vec!["RequestReceived Metadata list 0", "ResponseComplete Metadata list 403"]),
        ("/api/v1/nodes?no=1", vec!["ResponseStarted Metadata list 401"]),
        ("/version", vec!["RequestReceived Metadata get 0", "ResponseComplete Metadata get 200"]),
        (
            &watched,
            vec![
                "RequestReceived RequestResponse watch 0",
                "ResponseStarted RequestResponse watch 200",
                "ResponseComplete RequestResponse watch 200",
            ],
        ),
    ] {
        assert_eq!(told(&events, uri), expected, "{uri}");
    }
    let last = |uri: &str| events.iter().rev().find(|event| event["requestURI"] == uri).unwrap().clone();

    let made = last(maps);
    assert_eq!(
        made["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"})
    );
    assert_eq!(made["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(made["responseObject"]["metadata"]["name"], "a");
    assert_eq!(made["user"]["username"], "kubernetes-admin");
    assert_eq!(made["sourceIPs"], json!(["127.0.0.1"]));
    let decision = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
    assert_eq!(made["annotations"], decision);
    assert_eq!(last(&format!("{maps}/a"))["requestObject"], json!({"data": {"k": "w"}}));
    let listed = last(&format!("{maps}?limit=9"));
    assert_eq!(listed["responseObject"]["items"][0]["metadata"]["name"], "a");
    let refused = last("/api/v1/nodes");
    assert_eq!(refused["responseStatus"]["reason"], "Forbidden");
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(last("/api/v1/nodes?no=1")["user"], json!({}));
    assert!(last("/api/v1/namespaces/default/pods").get("responseObject").is_none());
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("bobs-token") && !text.contains("hidden"), "{text}");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_no_policy_stops_the_start() {
    let dir = std::env::temp_dir().join(format!("sternpost-audit-policy-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let policy = dir.join("policy.yaml");
    for (text, expected) in [
        ("kind: Pod\napiVersion: v1\n", "expected a Policy of audit.k8s.io/v1, got \"Pod\" of \"v1\""),
        ("a: [", "did not find expected"),
    ] {
        fs::write(&policy, text).unwrap();
        let run = Command::new(env!("CARGO_BIN_EXE_sternpost"))
            .args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--audit-log-path", "-"])
            .arg("--audit-policy-file")
            .arg(&policy)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains("policy.yaml") && said.contains(expected), "{said}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// The code of the answer to a request with these headers, on a connection of its own that is read until
/// the server ends it.
async fn code_with(server: &Server, path: &str, headers: &str) -> u16 {
    let mut connection = server.raw_http1().await;
    let (address, token) = (server.address(), server.token());
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{headers}\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(AT_LAST, connection.read_to_end(&mut answer)).await.unwrap();
    // Whoever ends a websocket need not say goodbye to TLS.
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("{read:?}: {answer}"))
}

/// Annotations, constraints and codes as kube-apiserver 1.36.4 told them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_impersonation_and_websockets_are_told_as_upstream_tells_them() {
    let dir = std::env::temp_dir().join(format!("sternpost-audit-notes-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (policy, log) = (dir.join("policy.yaml"), dir.join("audit.log"));
    fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n").unwrap();
    let flags = [
        "--audit-policy-file",
        policy.to_str().unwrap(),
        "--audit-log-path",
        log.to_str().unwrap(),
        "--controllers=-*",
        "--disable-admission-plugins=ServiceAccount",
    ];
    let server = Server::start_with("audit-more", &flags).await;

    // Whatever a namespace says of its pods.
    let label = |name: &str| format!("pod-security.kubernetes.io/{name}");
    let spec = json!({"hostPID": true, "containers": [{"name": "c", "image": "i"}]});
    let restricted = "would violate PodSecurity \"restricted:v1.30\": host namespaces (hostPID=true), allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    let baseline = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let cases = [
        ("none", vec![], 201, Some("privileged:latest"), None),
        (
            "audit",
            vec![("audit", "restricted"), ("audit-version", "v1.30")],
            201,
            Some("privileged:latest"),
            Some(restricted),
        ),
        ("enforce", vec![("enforce", "baseline")], 403, Some("baseline:latest"), None),
        (
            "both",
            vec![("enforce", "baseline"), ("audit", "baseline")],
            403,
            Some("baseline:latest"),
            Some(baseline),
        ),
    ];
    for (name, labels, code, ..) in &cases {
        let labels: Value = labels.iter().map(|(name, value)| (label(name), Value::from(*value))).collect();
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        server.post("/api/v1/namespaces", &namespace).await.expect(201);
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        server.post(&format!("/api/v1/namespaces/{name}/pods"), &pod).await.expect(*code);
        let template = json!({"metadata": {"name": "t"}, "template": {"spec": spec}});
        server.post(&format!("/api/v1/namespaces/{name}/podtemplates"), &template).await.expect(201);
    }
    // An update that runs nothing else is looked at only where everything is let in.
    for name in ["none", "audit"] {
        let path = format!("/api/v1/namespaces/{name}/pods/p");
        server.patch(&path, MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    }

    let users = ["ana", "system:serviceaccount:default:robot", "system:node:n1"];
    for user in users {
        let headers = format!("impersonate-user: {user}\r\nconnection: close\r\n");
        let code = code_with(&server, &format!("/api/v1/nodes?as={user}"), &headers).await;
        assert_eq!(code, 403, "{user}");
    }
    let watched = "/api/v1/configmaps?watch=1&timeoutSeconds=1";
    let headers = "origin: http://a.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(code_with(&server, watched, headers).await, 101);
    // Refused before anybody knows who asks.
    server.get("/version?timeout=abc").await.expect(400);

    let begun = Instant::now();
    let mut events = lines(&log);
    while told(&events, watched).len() < 3 || told(&events, "/version?timeout=abc").is_empty() {
        assert!(begun.elapsed() < AT_LAST, "{events:?}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        events = lines(&log);
    }
    server.stop();
    let expected = [
        "RequestReceived Metadata watch 0",
        "ResponseStarted Metadata watch 101",
        "ResponseComplete Metadata watch 101",
    ];
    assert_eq!(told(&events, watched), expected);
    assert_eq!(told(&events, "/version?timeout=abc"), ["ResponseStarted Metadata get 400"]);

    let last = |uri: &str| events.iter().rev().find(|event| event["requestURI"] == uri).unwrap().clone();
    let noted = |uri: &str, name: &str| last(uri)["annotations"].get(label(name)).cloned();
    for (name, _, _, enforced, violations) in &cases {
        let within = format!("/api/v1/namespaces/{name}");
        let (pods, templates) = (format!("{within}/pods"), format!("{within}/podtemplates"));
        assert_eq!(noted(&pods, "enforce-policy"), enforced.map(Value::from), "{name}");
        assert_eq!(noted(&templates, "enforce-policy"), None, "{name}");
        for path in [&pods, &templates] {
            assert_eq!(noted(path, "audit-violations"), violations.map(Value::from), "{path}");
        }
    }
    let updated = |name: &str| noted(&format!("/api/v1/namespaces/{name}/pods/p"), "enforce-policy");
    assert_eq!([updated("none"), updated("audit")], [Some("privileged:latest".into()), None]);
    for (user, mode) in users.into_iter().zip(["user-info", "serviceaccount", "arbitrary-node"]) {
        let event = last(&format!("/api/v1/nodes?as={user}"));
        let expected = json!({"impersonationConstraint": format!("impersonate:{mode}")});
        assert_eq!(event["authenticationMetadata"], expected, "{user}");
    }
    fs::remove_dir_all(&dir).unwrap();
}
