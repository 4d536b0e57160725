//! How large an object may be, to the byte, as kube-apiserver 1.36.4 with etcd 3.6 answered.

use serde_json::{Value, json};
use sternpost_testkit::server::Server;

const TOO_LARGE: &str = "etcdserver: request is too large";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";
const BIGS: &str = "/apis/size.test/v1/namespaces/default/bigs";

/// Makes an object of a size.
type Make = fn(usize) -> Value;

fn revision(size: usize) -> Value {
    json!({"metadata": {"name": "it"}, "revision": 1, "data": {"x": "a".repeat(size)}})
}

fn template(container: &Value) -> Value {
    let mut container = container.clone();
    container["name"] = "c".into();
    container["image"] = "i".into();
    json!({"metadata": {"name": "it"}, "template": {"spec": {"containers": [container]}}})
}

fn args(size: usize) -> Value {
    template(&json!({"args": ["a".repeat(size)]}))
}

fn variables(count: usize) -> Value {
    let variable = |number| json!({"name": format!("N{number:05}"), "value": "v".repeat(50)});
    template(&json!({"env": (0..count).map(variable).collect::<Vec<_>>()}))
}

fn big(text: &str) -> Value {
    json!({"apiVersion": "size.test/v1", "kind": "Big", "metadata": {"name": "it"}, "x": text})
}

async fn define(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let crd = json!({
        "metadata": {"name": "bigs.size.test"},
        "spec": {"group": "size.test", "scope": "Namespaced", "names": {"plural": "bigs", "kind": "Big"},
            "versions": [version]},
    });
    server.define(&crd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_as_large_as_in_etcd() {
    let server = Server::start("large-objects").await;
    define(&server).await;
    let cases: [(&str, usize, Make); 6] = [
        (REVISIONS, 1_572_612, revision),
        (TEMPLATES, 1_572_499, args),
        (TEMPLATES, 25_362, variables),
        (BIGS, 1_572_554, |size| big(&"a".repeat(size))),
        // Go escapes what could be HTML.
        (BIGS, 262_092, |size| big(&"<".repeat(size))),
        (BIGS, 393_138, |size| big(&"é\n".repeat(size))),
    ];
    for (path, largest, object) in cases {
        let create = format!("{path}?fieldManager=t");
        let refused = server.post(&create, &object(largest + 1)).await;
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": TOO_LARGE, "code": 500});
        assert_eq!(refused.body, expected, "{path} {largest}");
        server.post(&create, &object(largest)).await.expect(201);
        server.delete(&format!("{path}/it")).await.expect(200);
    }

    // An update compares a version, and asks for what is there if that is another.
    let made = server.post(&format!("{TEMPLATES}?fieldManager=t"), &args(1)).await.expect(201);
    // Recorded with a version of two bytes, as protobuf counts.
    let version: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let largest = if version < 1 << 7 { 1_572_460 } else { 1_572_459 };
    let update = format!("{TEMPLATES}/it?fieldManager=t");
    let refused = server.put(&update, &args(largest + 1)).await;
    assert_eq!((refused.code, refused.message()), (500, TOO_LARGE));
    server.put(&update, &args(largest)).await.expect(200);
    server.delete(&format!("{TEMPLATES}/it")).await.expect(200);

    // What no message to etcd may hold is not sent.
    for (path, object, bytes) in [
        (REVISIONS, revision(2_097_000), 2_097_236),
        (BIGS, big(&"a".repeat(2_097_100)), 2_097_395),
        (TEMPLATES, args(2_100_000), 2_100_355),
    ] {
        let refused = server.post(&format!("{path}?fieldManager=t"), &object).await;
        let expected = format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({bytes} vs. 2097152)"
        );
        assert_eq!((refused.code, refused.message()), (500, expected.as_str()));
    }
    let refused = server.post(&format!("{REVISIONS}?fieldManager=t"), &revision(2_096_900)).await;
    assert_eq!((refused.code, refused.message()), (500, TOO_LARGE));
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_can_be_lifted() {
    let server = Server::start_with("large-objects-lifted", &["--object-size-limit", "none"]).await;
    server.post(REVISIONS, &revision(2_500_000)).await.expect(201);
    let found = server.get(&format!("{REVISIONS}/it")).await.expect(200);
    assert_eq!(found["data"]["x"].as_str().map(str::len), Some(2_500_000));
    server.delete(&format!("{REVISIONS}/it")).await.expect(200);
    server.stop();
}
