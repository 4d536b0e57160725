//! Which admission plugins run. What each of them does is compared with
//! kube-apiserver in the corpus of recorded answers.

// Helpers outside `#[test]` functions fail the test the same way.

use std::sync::Arc;

use crate::beginning::still;
use serde_json::{Value, json};
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{DeleteOptions, Target, Verbs, Writer, admission::Chain};

async fn without(plugins: &[&str]) -> Verbs {
    let off: Vec<String> = plugins.iter().map(|name| (*name).to_owned()).collect();
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), still())
        .await
        .with_admission(Chain::new(&[], &off).unwrap());
    let restricted = json!({"metadata": {
        "name": "default",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
    }});
    create(&verbs, "namespaces", "", restricted).await.unwrap();
    let account = json!({"metadata": {"name": "default"}});
    create(&verbs, "serviceaccounts", "default", account).await.unwrap();
    verbs
}

async fn create(verbs: &Verbs, plural: &str, namespace: &str, object: Value) -> Result<Value, String> {
    let created = crate::beginning::create(verbs, ("", plural), namespace, object, Writer::server()).await;
    created.map_err(|status| status.message)
}

fn pod() -> Value {
    let container = json!({
        "name": "c",
        "image": "i",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
}

#[tokio::test]
async fn a_plugin_that_is_off_neither_writes_nor_refuses() {
    let mut bad = pod();
    bad["spec"]["hostPID"] = true.into();

    let all = without(&[]).await;
    let made = create(&all, "pods", "default", pod()).await.unwrap();
    assert_eq!(made["spec"]["priority"], 0);
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let refused = create(&all, "pods", "default", bad.clone()).await.unwrap_err();
    assert_eq!(
        refused,
        "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces (hostPID=true)"
    );

    let fewer = without(&["Priority", "PodSecurity"]).await;
    let made = create(&fewer, "pods", "default", bad).await.unwrap();
    assert_eq!(made["spec"].get("priority"), None);
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn without_namespace_lifecycle_namespaces_need_not_be_there_and_may_all_go() {
    let on = without(&[]).await;
    assert_eq!(create(&on, "pods", "none", pod()).await.unwrap_err(), "namespaces \"none\" not found");
    let off = without(&["NamespaceLifecycle", "ServiceAccount"]).await;
    assert!(create(&off, "pods", "none", pod()).await.is_ok());

    for (verbs, goes) in [(on, false), (off, true)] {
        let served = verbs.served.get("", "v1", "namespaces").unwrap();
        let target = Target { served: &served, namespace: "", name: "default" };
        assert_eq!(verbs.delete(target, &DeleteOptions::default(), Writer::server()).await.is_ok(), goes);
    }
}
