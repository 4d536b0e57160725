//! How quotas are charged when others write them too. What is refused, and how, is compared with
//! kube-apiserver in the corpus of recorded answers.

// Helpers outside `#[test]` functions fail the test the same way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::beginning::still;
use serde_json::{Value, json};
use sternpost_meta::status::Status;
use sternpost_store::{Store, Transaction, Write};
use sternpost_testkit::store::DifficultStore;
use sternpost_verbs::{Part, Target, Verbs, Writer};

/// A store where somebody else writes a quota just before it is charged, so many times.
fn contended(times: Arc<AtomicUsize>) -> DifficultStore {
    DifficultStore::before_commit(move |store, transaction| {
        let charged = transaction.writes.iter().find_map(|write| match write {
            Write::Put { key, .. } if key.windows(14).any(|part| part == b"resourcequotas") => {
                Some(key.clone())
            }
            _ => None,
        });
        let fewer = |times: usize| times.checked_sub(1);
        let contended =
            charged.filter(|_| times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok());
        Box::pin(async move {
            if let Some(key) = contended {
                let value = store.get(key.clone(), None).await.unwrap().entry.unwrap();
                let value = sternpost_store::Bytes::copy_from_slice(value.value());
                store.commit(Transaction::write([Write::put(key, value)])).await.unwrap();
            }
        })
    })
}

async fn create(verbs: &Verbs, plural: &str, namespace: &str, object: Value) -> Result<Value, Status> {
    crate::beginning::create(verbs, ("", plural), namespace, object, Writer::server()).await
}

/// What becomes of a map in a namespace with room for it, if the quota is written so often by others.
async fn create_contended(times: usize) -> (Result<Value, Status>, Value) {
    let by_others = Arc::new(AtomicUsize::new(0));
    let store = Arc::new(contended(by_others.clone()));
    let verbs = crate::beginning::verbs(store, still()).await;
    create(&verbs, "namespaces", "", json!({"metadata": {"name": "n"}})).await.unwrap();
    let hard = json!({"configmaps": "5"});
    let mut quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    create(&verbs, "resourcequotas", "n", quota.clone()).await.unwrap();
    quota["status"] = json!({"hard": hard, "used": {"configmaps": "0"}});
    let served = verbs.served.get("", "v1", "resourcequotas").unwrap();
    let target = Target { served: &served, namespace: "n", name: "q" };
    let writer = Writer { subresource: "status", ..Writer::server() };
    verbs.update(target, quota, Part::Status, writer).await.unwrap();

    by_others.store(times, Ordering::SeqCst);
    let made = create(&verbs, "configmaps", "n", json!({"metadata": {"name": "m"}})).await;
    assert!(!verbs.has_unstored_charges("n"));
    (made, verbs.get(target).unwrap().value()["status"]["used"].clone())
}

#[tokio::test]
async fn a_quota_that_others_write_is_charged_at_the_fourth_attempt_at_the_latest() {
    for times in [0, 1, 3] {
        let (made, used) = create_contended(times).await;
        assert!(made.is_ok(), "{times}: {made:?}");
        assert_eq!(used, json!({"configmaps": "1"}), "{times}");
    }
    let (refused, used) = create_contended(4).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message,
        "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(used, json!({"configmaps": "0"}));
}
