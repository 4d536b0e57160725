//! Quotas and accounts of a running server with all its controllers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sternpost_testkit::server::{AT_LAST, Server};

const AT_ONCE: usize = 50;
const ALLOWED: usize = 20;

async fn quota(server: &Server, namespace: &str, hard: Value) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    server.post(&path, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.expect(201);
    // What is allowed may be told before it is known how much is used; until then nothing is let in.
    let names: Vec<String> = hard.as_object().unwrap().keys().cloned().collect();
    let is_counted = |status: &Value| names.iter().all(|name| status["used"].get(name).is_some());
    quota_until(server, namespace, |status| status["hard"] == hard && is_counted(status)).await
}

async fn quota_until(server: &Server, namespace: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/q");
    let quota = server.until(&path, |code, quota| {
        assert_eq!(code, 200);
        is_so(&quota["status"])
    });
    quota.await["status"].clone()
}

/// The codes of that many creates at once.
async fn create_many(server: &Arc<Server>, path: &str, head: &Value, prefix: &str) -> Vec<u16> {
    let creates: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let (server, path, mut body) = (server.clone(), path.to_owned(), head.clone());
            body["metadata"] = json!({"name": format!("{prefix}{number}")});
            tokio::spawn(async move { server.post_apart(&path, &body).await })
        })
        .collect();
    let mut codes = Vec::new();
    for create in creates {
        codes.push(create.await.unwrap());
    }
    codes
}

fn count(codes: &[u16], code: u16) -> usize {
    codes.iter().filter(|found| **found == code).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creates_at_once_as_many_are_let_in_as_the_quota_allows() {
    let server = Arc::new(Server::start("quota-many").await);
    server
        .define(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "buoys.sea.test"},
            "spec": {
                "group": "sea.test", "scope": "Namespaced", "names": {"plural": "buoys", "kind": "Buoy"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        }))
        .await;
    server.established("buoys.sea.test").await;
    for (namespace, name, path, head) in [
        ("plain", "count/secrets", "/api/v1/namespaces/plain/secrets", json!({})),
        (
            "custom",
            "count/buoys.sea.test",
            "/apis/sea.test/v1/namespaces/custom/buoys",
            json!({"apiVersion": "sea.test/v1", "kind": "Buoy"}),
        ),
    ] {
        server.namespace(namespace).await;
        quota(&server, namespace, json!({name: ALLOWED.to_string()})).await;
        let codes = create_many(&server, path, &head, "o").await;
        assert_eq!(
            (count(&codes, 201), count(&codes, 403)),
            (ALLOWED, AT_ONCE - ALLOWED),
            "{name} {codes:?}"
        );
        let listed = server.get(path).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), ALLOWED, "{name}");
        let status = quota_until(&server, namespace, |status| {
            status["used"][name].as_str() == Some(&*ALLOWED.to_string())
        })
        .await;
        assert_eq!(status["hard"][name], ALLOWED.to_string(), "{name}");

        // What goes makes room.
        let first = listed["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        server.delete(&format!("{path}/{first}")).await.expect(200);
        quota_until(&server, namespace, |status| {
            status["used"][name].as_str() == Some(&*(ALLOWED - 1).to_string())
        })
        .await;
        let codes = create_many(&server, path, &head, "again").await;
        assert_eq!(count(&codes, 201), 1, "{name} {codes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_in_a_new_namespace_waits_for_its_account() {
    let server = Server::start("quota-account").await;
    let begun = Instant::now();
    // A pod waits for a second, in which a machine that is busy may not get to the account: so many are to
    // be let in one after the other, sooner or later.
    let (mut in_turn, mut number) = (0, 0);
    while in_turn < 5 {
        let namespace = format!("new{number}");
        number += 1;
        server.namespace(&namespace).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let answer = server.post(&path, &pod).await;
        if answer.code == 403 {
            assert!(begun.elapsed() < AT_LAST, "{}", answer.message());
            in_turn = 0;
            continue;
        }
        in_turn += 1;
        let pod = answer.expect(201);
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        let sources = &pod["spec"]["volumes"][0]["projected"]["sources"];
        assert_eq!(sources[0]["serviceAccountToken"]["expirationSeconds"], 3607);
        assert_eq!(
            pod["spec"]["volumes"][0]["name"],
            pod["spec"]["containers"][0]["volumeMounts"][0]["name"],
        );
    }
    // Who is not there for a second is not there.
    let pod = json!({
        "metadata": {"name": "q"},
        "spec": {"serviceAccountName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    });
    let begun = Instant::now();
    let answer = server.post("/api/v1/namespaces/new0/pods", &pod).await;
    let why = "error looking up service account new0/nobody: serviceaccount \"nobody\" not found";
    assert_eq!(answer.message(), format!("pods \"q\" is forbidden: {why}"));
    assert!(begun.elapsed() >= Duration::from_secs(1));
}
