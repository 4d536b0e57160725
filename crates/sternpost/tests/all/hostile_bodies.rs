//! Bodies made to be computed on for long, over the wire: they are answered, and others are answered meanwhile.

use std::fs;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sternpost_http::limits::MAX_BODY_BYTES;
use sternpost_meta::field::MAX_CAUSES;
use tokio::task::JoinHandle;

use sternpost_testkit::server::{AT_LAST, JSON_PATCH, MERGE, Server};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How often each is sent at once: more than there are threads to work on it on most machines.
const AT_ONCE: usize = 6;

/// What is sent, and what comes of it.
struct Attack {
    name: &'static str,
    /// Somebody without any role, or the admin.
    token: &'static str,
    method: &'static str,
    path: String,
    media: &'static str,
    body: String,
    code: u16,
}

fn create(name: &'static str, body: String, code: u16) -> Attack {
    let path = CONFIG_MAPS.to_owned();
    Attack { name, token: "", method: "POST", path, media: "application/json", body, code }
}

fn members(count: usize, member: impl Fn(usize) -> String) -> String {
    (0..count).map(member).collect::<Vec<_>>().join(",")
}

fn attacks() -> Vec<Attack> {
    let unknown = members(290_000, |index| format!("\"{index:x}\":1"));
    let of_nobody = |name, query: &str, code| Attack {
        token: "mallory",
        path: format!("{REVIEWS}{query}"),
        ..create(
            name,
            format!("{{\"spec\":{{\"resourceAttributes\":{{\"verb\":\"get\"}}}},{unknown}}}"),
            code,
        )
    };
    let metadata = |fields: &str| format!("{{\"metadata\":{{\"name\":\"a\",{fields}}}}}");
    let labels = |count| format!("\"labels\":{{{}}}", members(count, |index| format!("\"!{index:x}\":\"\"")));
    let owners = |count| members(count, |index| format!("{{\"uid\":\"{index:x}\"}}"));
    let finalizers = members(16_000, |index| format!("\"-bad {index}\""));
    let controllers = members(20_000, |index| format!("{{\"uid\":\"{index:x}\",\"controller\":true}}"));
    let keys = members(16_000, |index| format!("\"bad key {index}\":\"\""));
    let patch = |name, media, body, code| Attack {
        method: "PATCH",
        path: format!("{CONFIG_MAPS}/there"),
        media,
        ..create(name, body, code)
    };
    let operations =
        members(10_000, |index| format!("{{\"op\":\"add\",\"path\":\"/data/k{index}\",\"value\":\"\"}}"));
    vec![
        of_nobody("unknown fields", "", 201),
        of_nobody("unknown fields that are ignored", "?fieldValidation=Ignore", 201),
        of_nobody("unknown fields that are refused", "?fieldValidation=Strict", 400),
        create("owners", metadata(&format!("\"ownerReferences\":[{}]", owners(4_000))), 422),
        create("owners that all control", metadata(&format!("\"ownerReferences\":[{controllers}]")), 422),
        create("finalizers", metadata(&format!("\"finalizers\":[{finalizers}]")), 422),
        create("labels", metadata(&labels(8_000)), 422),
        create("keys", format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{{keys}}}}}"), 422),
        create(
            "labels and owners",
            metadata(&format!("{},\"ownerReferences\":[{}]", labels(150_000), owners(30_000))),
            422,
        ),
        patch("unknown fields of a patch", MERGE, format!("{{{unknown}}}"), 200),
        patch("operations of a patch", JSON_PATCH, format!("[{operations}]"), 200),
    ]
}

async fn start(name: &str) -> Server {
    let tokens = std::env::temp_dir().join(format!("sternpost-{name}-{}.csv", std::process::id()));
    fs::write(&tokens, "mallory,mallory,1\ncarol,carol,2\n").unwrap();
    // However slow the machine is, what is sent is answered and not given up.
    let flags = ["--token-auth-file", tokens.to_str().unwrap(), "--request-timeout", "1h"];
    let server = Server::start_with(name, &flags).await;
    fs::remove_file(&tokens).unwrap();
    server.post(CONFIG_MAPS, &json!({"metadata": {"name": "there"}, "data": {"k": ""}})).await.expect(201);
    server
}

/// Sends the attack on a connection of its own; its answer, if there is one.
async fn launch(server: &Server, attack: &Attack) -> JoinHandle<Option<(u16, Value)>> {
    let token = if attack.token.is_empty() { server.token() } else { attack.token };
    let request = Request::builder()
        .method(attack.method)
        .uri(format!("https://{}{}", server.address(), attack.path))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", attack.media)
        .body(Full::new(Bytes::from(attack.body.clone())))
        .unwrap();
    let mut sender = server.apart().await;
    tokio::spawn(async move {
        let answer = sender.send_request(request).await.ok()?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some((code, serde_json::from_slice(&body).unwrap_or_default()))
    })
}

async fn launch_many(server: &Server, attack: &Attack) -> Vec<JoinHandle<Option<(u16, Value)>>> {
    let mut flying = Vec::new();
    for _ in 0..AT_ONCE {
        flying.push(launch(server, attack).await);
    }
    flying
}

/// Health, and somebody else who asks something.
async fn others_are_answered(server: &Server) {
    let readiness = server.get("/readyz").await;
    assert_eq!(readiness.code, 200, "{:?}", readiness.body);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    let answer =
        server.send_as("carol", "test", "POST", REVIEWS, "application/json", review).await.expect(201);
    assert_eq!(answer["status"]["allowed"], false);
}

/// As long as one of them is not answered others are, and once more when all are.
async fn others_are_answered_meanwhile<T>(server: &Server, flying: &[JoinHandle<T>]) {
    loop {
        let over = flying.iter().all(JoinHandle::is_finished);
        others_are_answered(server).await;
        if over {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_made_to_hurt_are_answered_and_so_are_others_meanwhile() {
    let server = start("hostile-bodies").await;
    for attack in attacks() {
        let Attack { name, body, code, .. } = &attack;
        assert!(body.len() <= MAX_BODY_BYTES, "{name}: {}", body.len());
        let flying = launch_many(&server, &attack).await;
        others_are_answered_meanwhile(&server, &flying).await;
        for task in flying {
            let (found, body) = tokio::time::timeout(AT_LAST, task).await.expect(name).unwrap().unwrap();
            assert_eq!(found, *code, "{name}: {}", sternpost_testkit::server::short(&body));
            let causes = body["details"]["causes"].as_array().map_or(0, Vec::len);
            assert!(causes <= MAX_CAUSES, "{name}: {causes}");
        }
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_whose_time_is_over_is_answered_and_computes_no_longer() {
    let server = start("hostile-times").await;
    let mut attack = attacks().remove(0);
    attack.path += "?timeout=1ns";
    // Each would compute for a while.
    for _ in 0..20 {
        let task = launch(&server, &attack).await;
        let (code, body) = tokio::time::timeout(AT_LAST, task).await.unwrap().unwrap().unwrap();
        assert_eq!(
            (code, &body["reason"]),
            (504, &json!("Timeout")),
            "{}",
            sternpost_testkit::server::short(&body)
        );
    }
    others_are_answered(&server).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_computes_ends_when_it_is_told_to() {
    let server = start("hostile-end").await;
    let attack = attacks().into_iter().find(|attack| attack.name == "labels and owners").unwrap();
    let _flying = launch_many(&server, &attack).await;
    others_are_answered(&server).await;
    tokio::time::timeout(AT_LAST, server.terminate()).await.expect("it has not ended");
}

/// An expression that costs about 790,000 whatever it is about: much of what one may.
fn costly() -> String {
    let round = |within: String, name: char| format!("[0,1,2,3,4,5,6,7,8,9].all({name}, {within})");
    ['e', 'd', 'c', 'b', 'a'].into_iter().fold("true".to_owned(), round)
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const PLAIN_THINGS: &str = "/apis/example.com/v1/namespaces/default/plainthings";

fn things(plural: &str, rule: &str) -> Value {
    let rules = json!([{"rule": rule}]);
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": rules,
    }}});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Kind{plural}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A policy of a kind for one resource of the core group.
async fn bind(server: &Server, kind: &str, resource: &str, spec: Value) {
    let name = format!("costly-{resource}");
    let mut policy = json!({"metadata": {"name": name}, "spec": spec});
    policy["spec"]["matchConstraints"] = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]},
    ]});
    server.post(&format!("{ADMISSION}/{kind}policies"), &policy).await.expect(201);
    let mut binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    if kind == "validatingadmission" {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    server.post(&format!("{ADMISSION}/{kind}policybindings"), &binding).await.expect(201);
}

/// How many requests were worked on apart so far, and came to this.
async fn apart(server: &Server, outcome: &str) -> u64 {
    let metrics = server.get("/metrics").await.body;
    let start = format!("sternpost_cpu_pool_requests_total{{outcome=\"{outcome}\"}} ");
    let line = metrics.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn small_bodies_with_costly_expressions_are_worked_on_apart_and_others_are_answered_meanwhile() {
    let server = start("hostile-expressions").await;
    server.define(&things("things", &costly())).await;
    server.define(&things("plainthings", "self.a != 'b'")).await;
    // What is compiled with the first object is known from then on.
    let thing = |plural: &str, name: &str| {
        json!({"apiVersion": "example.com/v1", "kind": format!("Kind{plural}"),
            "metadata": {"generateName": name}, "spec": {"a": "a"}})
    };
    server.post(PLAIN_THINGS, &thing("plainthings", "first-")).await.expect(201);

    let create = |name: &'static str, path: &str, body: Value| Attack {
        path: path.to_owned(),
        ..create(name, body.to_string(), 201)
    };
    let named = || json!({"metadata": {"generateName": "a-"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    let endpoints = "/api/v1/namespaces/default/endpoints";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let validations = json!({"validations": [{"expression": costly()}]});
    bind(&server, "validatingadmission", "secrets", validations).await;
    let patch = "[JSONPatch{op: 'test', path: '/metadata/namespace', value: 'default'}]";
    let mutation = format!("{} ? {patch} : {patch}", costly());
    let mutations = json!({"reinvocationPolicy": "Never", "mutations": [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": mutation}},
    ]});
    bind(&server, "mutatingadmission", "endpoints", mutations).await;
    let condition = format!("!({})", costly());
    let webhook = json!({"metadata": {"name": "costly"}, "webhooks": [{
        "name": "costly.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "matchConditions": [{"name": "costly", "expression": condition}],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["serviceaccounts"]}],
    }]});
    server.post(&format!("{ADMISSION}/validatingwebhookconfigurations"), &webhook).await.expect(201);

    for attack in [
        create("a rule", THINGS, thing("things", "a-")),
        create("a validating policy", secrets, named()),
        create("a mutating policy", endpoints, named()),
        create("a condition of a webhook", accounts, named()),
    ] {
        let name = attack.name;
        // The first one also compiles what is new.
        launch(&server, &attack).await.await.unwrap().unwrap();
        let before = apart(&server, "done").await;
        let flying = launch_many(&server, &attack).await;
        others_are_answered_meanwhile(&server, &flying).await;
        for task in flying {
            let (found, body) = tokio::time::timeout(AT_LAST, task).await.expect(name).unwrap().unwrap();
            assert_eq!(found, attack.code, "{name}: {}", sternpost_testkit::server::short(&body));
        }
        assert_eq!(apart(&server, "done").await, before + AT_ONCE as u64, "{name}");

        // The time is looked at within an expression.
        let late = apart(&server, "timed_out").await;
        let attack = Attack { path: format!("{}?timeout=1ns", attack.path), ..attack };
        let (code, body) = launch(&server, &attack).await.await.unwrap().unwrap();
        assert_eq!(
            (code, &body["reason"]),
            (504, &json!("Timeout")),
            "{name}: {}",
            sternpost_testkit::server::short(&body)
        );
        assert_eq!(apart(&server, "timed_out").await, late + 1, "{name}");
    }

    // What costs little stays where it is.
    let before = apart(&server, "done").await;
    server.post(CONFIG_MAPS, &json!({"metadata": {"name": "plain"}, "data": {"k": "v"}})).await.expect(201);
    server.post(PLAIN_THINGS, &thing("plainthings", "second-")).await.expect(201);
    assert_eq!(apart(&server, "done").await, before);
    server.stop();
}
