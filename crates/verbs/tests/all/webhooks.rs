//! What webhooks leave in an audit log, and of whom they do not hear. All else about them is compared with
//! kube-apiserver where the whole server runs.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::beginning::still;
use bytes::Bytes;
use serde_json::{Value, json};
use sternpost_meta::{audit::Annotations, user::User};
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{
    LatencyTracker, Verbs, Writer,
    custom::{Called, Callouts},
};

/// Webhooks that do what the host of their URL says.
#[derive(Debug, Default)]
struct Hooks {
    called: Mutex<Vec<String>>,
}

impl Callouts for Hooks {
    fn post(&self, config: &Value, body: Bytes, _: Duration) -> Called {
        let does = config["url"].as_str().unwrap().trim_start_matches("https://").to_owned();
        self.called.lock().unwrap().push(does.clone());
        let review: Value = serde_json::from_slice(&body).unwrap();
        let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
        match does.as_str() {
            "fails" => return Box::pin(async { Err("it is not there".into()) }),
            "takes" | "takes-too" => {
                let answer = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
                return Box::pin(async move {
                    sternpost_clock::machine::sleep(Duration::from_secs(2)).await;
                    Ok(answer.to_string().into())
                });
            }
            "notes" => response["auditAnnotations"] = json!({"why": "because"}),
            "labels" => {
                response["patchType"] = "JSONPatch".into();
                // [{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]
                response["patch"] =
                    "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImEiOiJiIn19XQ==".into();
            }
            _ => {}
        }
        let answer =
            json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
        Box::pin(async move { Ok(answer.to_string().into()) })
    }
}

async fn verbs() -> (Verbs, Arc<Hooks>) {
    let hooks = Arc::new(Hooks::default());
    let verbs =
        crate::beginning::verbs(Arc::new(MemoryStore::default()), still()).await.with_callouts(hooks.clone());
    write(&verbs, "", "namespaces", "", json!({"metadata": {"name": "default"}}), Writer::server())
        .await
        .unwrap();
    (verbs, hooks)
}

async fn write(
    verbs: &Verbs,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
    writer: Writer<'_>,
) -> Result<Value, String> {
    let created = crate::beginning::create(verbs, (group, plural), namespace, object, writer).await;
    created.map_err(|status| status.message)
}

/// One configuration with a webhook for each that is named.
async fn configure(verbs: &Verbs, plural: &str, names: &[(&str, &str)]) {
    let webhook = |(does, failure): &(&str, &str)| {
        json!({
            "name": format!("{does}.example.com"), "clientConfig": {"url": format!("https://{does}")},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": failure,
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        })
    };
    let webhooks: Vec<Value> = names.iter().map(webhook).collect();
    let object = json!({"metadata": {"name": "c"}, "webhooks": webhooks});
    write(verbs, "admissionregistration.k8s.io", plural, "", object, Writer::server()).await.unwrap();
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn an_audit_log_learns_who_was_asked_and_what_they_changed() {
    let (verbs, _) = verbs().await;
    configure(&verbs, "mutatingwebhookconfigurations", &[("labels", "Fail"), ("fails", "Ignore")]).await;
    configure(&verbs, "validatingwebhookconfigurations", &[("notes", "Fail"), ("fails", "Ignore")]).await;
    let (notes, user) = (Annotations::default(), User::admin());
    let writer = Writer { user: &user, audit: Some(&notes), ..Writer::server() };
    let made = write(&verbs, "", "configmaps", "default", config_map("a"), writer).await.unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
    let of = |name: &str, changed: bool| {
        format!("{{\"configuration\":\"c\",\"webhook\":\"{name}.example.com\",\"mutated\":{changed}}}")
    };
    let patch = "{\"configuration\":\"c\",\"webhook\":\"labels.example.com\",\"patch\":[{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"a\":\"b\"}}],\"patchType\":\"JSONPatch\"}";
    let expected = [
        ("failed-open.mutation.webhook.admission.k8s.io/round_0_index_1", "fails.example.com".to_owned()),
        ("failed-open.validating.webhook.admission.k8s.io/round_0_index_1", "fails.example.com".to_owned()),
        ("mutation.webhook.admission.k8s.io/round_0_index_0", of("labels", true)),
        ("mutation.webhook.admission.k8s.io/round_0_index_1", of("fails", false)),
        ("notes.example.com/why", "because".to_owned()),
        ("patch.webhook.admission.k8s.io/round_0_index_0", patch.to_owned()),
    ];
    let expected: Vec<(String, String)> = expected.map(|(key, value)| (key.to_owned(), value)).into();
    assert_eq!(notes.take().into_iter().collect::<Vec<_>>(), expected);
}

/// Mutating ones are asked one after the other, validating ones at once.
#[tokio::test(start_paused = true)]
async fn the_time_of_webhooks_is_counted() {
    let (verbs, _) = verbs().await;
    let user = User::admin();
    let (mutating, validating) = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations");
    for (plural, name, seconds) in [(mutating, "a", 4), (validating, "b", 6)] {
        configure(&verbs, plural, &[("takes", "Fail"), ("takes-too", "Fail")]).await;
        let latency = LatencyTracker::default();
        let writer = Writer { user: &user, latency: Some(&latency), ..Writer::server() };
        write(&verbs, "", "configmaps", "default", config_map(name), writer).await.unwrap();
        assert_eq!(latency.total().as_secs(), seconds);
    }
}

#[tokio::test]
async fn the_server_asks_nobody_on_its_own_account() {
    let (verbs, hooks) = verbs().await;
    configure(&verbs, "validatingwebhookconfigurations", &[("fails", "Fail")]).await;
    write(&verbs, "", "configmaps", "default", config_map("a"), Writer::server()).await.unwrap();
    assert_eq!(*hooks.called.lock().unwrap(), Vec::<String>::new());

    let user = User::admin();
    let writer = Writer { user: &user, ..Writer::server() };
    let refused = write(&verbs, "", "configmaps", "default", config_map("b"), writer).await.unwrap_err();
    assert_eq!(
        refused,
        "Internal error occurred: failed calling webhook \"fails.example.com\": failed to call webhook: it is not there"
    );
    assert_eq!(*hooks.called.lock().unwrap(), ["fails"]);
}

#[tokio::test]
async fn a_configuration_counts_from_the_next_write_on() {
    let (verbs, hooks) = verbs().await;
    let user = User::admin();
    let writer = Writer { user: &user, ..Writer::server() };
    write(&verbs, "", "configmaps", "default", config_map("a"), writer).await.unwrap();
    configure(&verbs, "validatingwebhookconfigurations", &[("notes", "Fail")]).await;
    write(&verbs, "", "configmaps", "default", config_map("b"), writer).await.unwrap();
    assert_eq!(*hooks.called.lock().unwrap(), ["notes"]);
}
