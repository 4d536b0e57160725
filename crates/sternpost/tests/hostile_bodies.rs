//! Bodies made to be computed on for long, over the wire: they are answered, and others are answered meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    dead_code,
    reason = "a test fails by panicking; the helpers are shared"
)]

use std::fs;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sternpost_http::limits::MAX_BODY_BYTES;
use sternpost_meta::field::MAX_CAUSES;
use tokio::task::JoinHandle;

mod running;

use running::{AT_LAST, JSON_PATCH, MERGE, Server};

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
    let server = Server::start_with(name, &["--token-auth-file", tokens.to_str().unwrap()]).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn bodies_made_to_hurt_are_answered_and_so_are_others_meanwhile() {
    let server = start("hostile-bodies").await;
    for attack in attacks() {
        let Attack { name, body, code, .. } = &attack;
        assert!(body.len() <= MAX_BODY_BYTES, "{name}: {}", body.len());
        let flying = launch_many(&server, &attack).await;
        // As long as one of them is not answered others are, and once more when all are.
        loop {
            let over = flying.iter().all(JoinHandle::is_finished);
            others_are_answered(&server).await;
            if over {
                break;
            }
        }
        for task in flying {
            let (found, body) = tokio::time::timeout(AT_LAST, task).await.expect(name).unwrap().unwrap();
            assert_eq!(found, *code, "{name}: {}", running::short(&body));
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
        assert_eq!((code, &body["reason"]), (504, &json!("Timeout")), "{}", running::short(&body));
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
