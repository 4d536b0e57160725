//! The controllers of a running server, as clients see them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sternpost_testkit::server::{MERGE, Server};

async fn map(server: &Server, namespace: &str, name: &str, owner: Option<&Value>) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(owner) = owner {
        let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true,
        }]);
    }
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    server.post(&path, &json!({"metadata": metadata})).await.expect(201)
}

async fn delete_with(server: &Server, path: &str, propagation: &str) {
    let options = json!({"propagationPolicy": propagation}).to_string();
    server.send("DELETE", path, "application/json", options).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_have_what_they_need_and_end_with_all_of_it() {
    let server = Server::start("controllers-namespaces").await;
    server.namespace("sea").await;
    let within = "/api/v1/namespaces/sea";
    let map = server.until(&format!("{within}/configmaps/kube-root-ca.crt"), |code, _| code == 200).await;
    assert!(map["data"]["ca.crt"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    server.until(&format!("{within}/serviceaccounts/default"), |code, _| code == 200).await;

    let mut watch = server.watch("/api/v1/namespaces?watch=true&fieldSelector=metadata.name=sea").await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    let held = json!({"metadata": {"name": "held", "finalizers": ["a.test/x"]}});
    server.post(&format!("{within}/secrets"), &held).await.expect(201);
    let body = server.delete(within).await.expect(200);
    assert_eq!(body["status"]["phase"], "Terminating");
    let message = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|it| it["type"] == "NamespaceContentRemaining").cloned();
        found.map(|condition| condition["message"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    let left = "Some resources are remaining: secrets. has 1 resource instances";
    server.until(within, |_, namespace| message(namespace) == left).await;
    server.gone(&format!("{within}/serviceaccounts/default")).await;
    let free = json!({"metadata": {"finalizers": null}});
    server.patch(&format!("{within}/secrets/held"), MERGE, &free).await.expect(200);
    server.gone(within).await;
    let mut last = Value::Null;
    while last["type"] != "DELETED" {
        last = watch.next().await.unwrap();
    }
    assert_eq!(message(&last["object"]), "All content successfully removed");
    // The name is free again, and has all it needs again.
    server.namespace("sea").await;
    server.until(&format!("{within}/configmaps/kube-root-ca.crt"), |code, _| code == 200).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_follow_their_owners_in_each_way_of_deletion() {
    let server = Server::start("controllers-garbage").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (propagation, child_stays) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let owner = map(&server, "default", "owner", None).await;
        let child = map(&server, "default", "child", Some(&owner)).await;
        map(&server, "default", "grandchild", Some(&child)).await;
        delete_with(&server, &format!("{maps}/owner"), propagation).await;
        server.gone(&format!("{maps}/owner")).await;
        if child_stays {
            let child = server.get(&format!("{maps}/child")).await.expect(200);
            assert_eq!(child["metadata"].get("ownerReferences"), None);
            delete_with(&server, &format!("{maps}/child"), "Background").await;
        }
        for name in ["child", "grandchild"] {
            server.gone(&format!("{maps}/{name}")).await;
        }
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_a_secret_is_good_until_the_secret_goes() {
    let server = Server::start("controllers-tokens").await;
    let within = "/api/v1/namespaces/default";
    server
        .post(&format!("{within}/serviceaccounts"), &json!({"metadata": {"name": "robot"}}))
        .await
        .expect(201);
    let secret = json!({
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "tok", "annotations": {"kubernetes.io/service-account.name": "robot"}},
    });
    server.post(&format!("{within}/secrets"), &secret).await.expect(201);
    let path = format!("{within}/secrets/tok");
    let secret = server.until(&path, |_, secret| secret["data"]["token"].is_string()).await;
    let token = STANDARD.decode(secret["data"]["token"].as_str().unwrap()).unwrap();
    let review = json!({"spec": {"token": String::from_utf8(token).unwrap()}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let status = server.post(reviews, &review).await.expect(201)["status"].clone();
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(status["user"]["groups"], groups);

    server.delete(&path).await.expect(200);
    let status = server.post(reviews, &review).await.expect(201)["status"].clone();
    assert_eq!(status["error"], "[invalid bearer token, Token has been invalidated]");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_are_off_do_nothing() {
    let server = Server::start_with("controllers-off", &["--controllers=*,-garbagecollector"]).await;
    let owner = map(&server, "default", "owner", None).await;
    map(&server, "default", "child", Some(&owner)).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    delete_with(&server, &format!("{maps}/owner"), "Background").await;
    // The others run, and this one would have been as fast.
    server.namespace("sea").await;
    server.until("/api/v1/namespaces/sea/serviceaccounts/default", |code, _| code == 200).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.get(&format!("{maps}/child")).await.expect(200);
    server.stop();
}

/// With no flags at all: nothing that admission protects is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_that_nobody_uses_ends_when_it_is_deleted() {
    let server = Server::start("controllers-storage").await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp"}});
    for (path, object) in [
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"metadata": {"name": "it"}, "spec": spec}),
        ),
        ("/api/v1/persistentvolumes", json!({"metadata": {"name": "it"}, "spec": volume})),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"metadata": {"name": "it"}, "driverName": "d.test", "parameters": {"a": "b"}}),
        ),
    ] {
        let made = server.post(path, &object).await.expect(201);
        assert_eq!(made["metadata"]["finalizers"].as_array().map(Vec::len), Some(1), "{path}");
        server.delete(&format!("{path}/it")).await.expect(200);
        server.gone(&format!("{path}/it")).await;
    }
    server.stop();
}
