//! Objects that etcd would not take.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_meta::status::Status;
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_verbs::{DeleteOptions, Deleted, ObjectSize, Part, Target, Verbs, Writer, admission::Chain};

const RESOURCE: (&str, &str) = ("", "podtemplates");

/// `size` bytes and some more.
fn object(size: usize, finalizers: &[&str]) -> Value {
    let container = json!({"name": "c", "image": "i", "args": ["a".repeat(size)]});
    json!({
        "metadata": {"name": "it", "finalizers": finalizers},
        "template": {"spec": {"containers": [container]}},
    })
}

async fn verbs(store: &Arc<dyn Store>, size: ObjectSize) -> Verbs {
    let off = ["NamespaceLifecycle", "ServiceAccount"].map(str::to_owned);
    let verbs = crate::beginning::verbs(store.clone(), crate::beginning::still()).await;
    verbs.with_admission(Chain::new(&[], &off).unwrap()).with_object_size(size)
}

async fn update(verbs: &Verbs, object: Value) -> Result<Value, Status> {
    let served = verbs.served.get("", "v1", "podtemplates").unwrap();
    let target = Target { served: &served, namespace: "default", name: "it" };
    let written = verbs.update(target, object, Part::Main, Writer::server()).await;
    Ok(written?.object)
}

#[tokio::test]
async fn what_is_stored_already_stays_readable_and_deletable() {
    const LARGE: usize = 1_700_000;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let unlimited = verbs(&store, ObjectSize::Unlimited).await;
    let finalizers = ["a.test/x", "a.test/y"];
    let made = object(LARGE, &finalizers);
    crate::beginning::create(&unlimited, RESOURCE, "default", made, Writer::server()).await.unwrap();

    let limited = verbs(&store, ObjectSize::AsInEtcd).await;
    let served = limited.served.get("", "v1", "podtemplates").unwrap();
    let target = Target { served: &served, namespace: "default", name: "it" };
    assert!(limited.get(target).is_ok());
    // It may be made smaller, though not small enough yet, and not larger.
    update(&limited, object(LARGE - 1000, &finalizers)).await.unwrap();
    let refused = update(&limited, object(LARGE, &finalizers)).await.unwrap_err();
    assert_eq!((refused.code, refused.reason), (500, None));
    assert_eq!(refused.message, "etcdserver: request is too large");

    let deleted = limited.delete(target, &DeleteOptions::default(), Writer::server()).await.unwrap();
    assert!(matches!(deleted, Deleted::Pending(_)));
    update(&limited, object(LARGE - 1000, &["a.test/y"])).await.unwrap();
    update(&limited, object(LARGE - 1000, &[])).await.unwrap();
    assert_eq!(limited.get(target).unwrap_err().code, 404);
}
