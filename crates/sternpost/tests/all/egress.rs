//! Where the server does not connect to, whoever names the place: each refusal says which flag lifts it.
//!
//! Nothing here leaves the machine: what is refused is not dialled.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use sternpost_testkit::server::{AT_LAST, Server};
use sternpost_testkit::webhook::{self, Reply};

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

const METADATA: &str =
    "169.254.169.254:443: refused: a link-local address; --egress-allow 169.254.169.254/32 allows it";

/// What comes of a write while a webhook at this place is asked about it.
async fn asked_at(server: &Server, config: &Value) -> sternpost_testkit::server::Answer {
    let object = json!({"metadata": {"name": "hook"}, "webhooks": [{
        "name": "hook.example.com", "clientConfig": config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["secrets"]}],
    }]});
    server.post(VALIDATING, &object).await.expect(201);
    let answer = server.post(SECRETS, &json!({"metadata": {"generateName": "s-"}})).await;
    server.delete(&format!("{VALIDATING}/hook")).await.expect(200);
    answer
}

#[tokio::test]
async fn webhooks_do_not_lead_to_the_machines_own_network_or_to_the_server() {
    let server = Server::start("egress-webhooks").await;
    for (name, external) in [("metadata", "169.254.169.254"), ("allowed", "127.0.0.1")] {
        let service =
            json!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": external}});
        server.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    }
    let own = format!(
        "{}: refused: the address of this server, which is reached through the Service default/kubernetes; --egress-allow 127.0.0.1/32 allows it",
        server.address()
    );
    for (config, expected) in [
        (json!({"url": "https://169.254.169.254/latest"}), METADATA),
        (json!({"url": "https://[::ffff:169.254.169.254]/latest"}), "refused: a link-local address"),
        (json!({"url": "https://100.100.100.200/latest"}), "refused: a metadata address"),
        (json!({"url": "https://0.0.0.0/"}), "refused: no address of a single host"),
        (json!({"service": {"namespace": "default", "name": "metadata"}}), METADATA),
        (server.own_config("/readyz"), own.as_str()),
    ] {
        let answer = asked_at(&server, &config).await;
        assert_eq!(answer.code, 500, "{config}");
        assert!(answer.message().contains(expected), "{config}: {}", answer.message());
    }
    // What is beside the server is asked as ever.
    let hook = webhook::Server::replying(Reply::ok("{}")).await;
    let answer = asked_at(&server, &hook.config("/")).await;
    assert_eq!(hook.calls().len(), 1, "{}", answer.message());
    server.stop();
}

#[tokio::test]
async fn conversion_and_other_servers_are_under_the_same_rule() {
    let server = Server::start("egress-others").await;
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    };
    server
        .define(&json!({
            "metadata": {"name": "buoys.sea.test"},
            "spec": {
                "group": "sea.test", "scope": "Cluster", "names": {"plural": "buoys", "kind": "Buoy"},
                "versions": [version("v1"), version("v2")],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "clientConfig": {"url": "https://169.254.169.254/"}, "conversionReviewVersions": ["v1"],
                }},
            },
        }))
        .await;
    let buoy = json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": "b"}});
    server.post("/apis/sea.test/v1/buoys", &buoy).await.expect(201);
    let answer = server.get("/apis/sea.test/v2/buoys/b").await;
    assert_eq!(answer.code, 500);
    assert!(answer.message().contains(METADATA), "{}", answer.message());

    for (group, annotations, service) in [
        ("address.example", json!({"aggregation.sternpost.dev/address": "169.254.169.254:443"}), "any"),
        ("service.example", json!({}), "metadata"),
    ] {
        let external = json!({
            "metadata": {"name": "metadata"},
            "spec": {"type": "ExternalName", "externalName": "169.254.169.254"},
        });
        server.post("/api/v1/namespaces/default/services", &external).await;
        let object = json!({
            "metadata": {"name": format!("v1.{group}"), "annotations": annotations},
            "spec": {
                "group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": service},
            },
        });
        server.post(API_SERVICES, &object).await.expect(201);
        let begun = Instant::now();
        loop {
            let object = server.get(&format!("{API_SERVICES}/v1.{group}")).await.expect(200);
            let condition = &object["status"]["conditions"][0];
            let message = condition["message"].as_str().unwrap_or_default();
            if condition["status"] == "False" && message.contains(METADATA) {
                break;
            }
            assert!(begun.elapsed() < AT_LAST, "{group}: {condition}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    server.stop();
}

#[tokio::test]
async fn loopback_ends_where_the_server_listens_beyond_it_unless_it_is_allowed() {
    let hook = webhook::Server::replying(Reply::ok("{}")).await;
    let everywhere = ["--listen", "0.0.0.0:0"];
    let server = Server::start_with("egress-everywhere", &everywhere).await;
    let answer = asked_at(&server, &hook.config("/")).await;
    let expected = format!(
        "127.0.0.1:{}: refused: a loopback address, while this server listens on others; --egress-allow 127.0.0.1/32 allows it",
        hook.port
    );
    assert_eq!(answer.code, 500);
    assert!(answer.message().contains(&expected), "{}", answer.message());
    assert_eq!(hook.calls().len(), 0);
    server.stop();

    let allowed = [&everywhere[..], &["--egress-allow", "10.0.0.0/8,127.0.0.0/8"]].concat();
    let server = Server::start_with("egress-allowed", &allowed).await;
    asked_at(&server, &hook.config("/")).await;
    assert_eq!(hook.calls().len(), 1);
    server.stop();
}
