//! Reads on a store that another server writes to as well.

use std::{pin::pin, sync::Arc, time::Duration};

use http::Method;
use serde_json::json;
use sternpost_cache::{ResourceId, encode, object_key};
use sternpost_clock::machine;
use sternpost_store::{Store, Transaction, memory::MemoryStore};
use sternpost_testkit::shared_store::{SharedStore, Writers};

use crate::testing;

/// What a GET is answered once the server hears of what another has written, and whether it has waited for that.
async fn get(target: &str) -> (u16, bool) {
    let memory = Arc::new(MemoryStore::default());
    let store = SharedStore::of(memory.clone(), Writers::Several);
    let (api, feeder) = testing::api_on(store.clone()).await;
    let feeder = tokio::spawn(feeder.run());
    store.hold_deliveries();
    for (group, plural) in [("", "pods"), ("apps", "deployments")] {
        let key = object_key(&ResourceId::new(group, plural), "default", "a");
        let object = json!({
            "metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]},
        });
        memory.commit(Transaction::create(key, encode(&object))).await.unwrap();
    }
    let request = testing::request(Method::GET, target, &[]);
    let mut answer = pin!(testing::handle(&api, &request));
    // Time stands still while anything can go on: this is over when all the rest waits.
    let early = tokio::select! {
        biased;
        answer = &mut answer => Some(answer),
        () = machine::sleep(Duration::from_millis(1)) => None,
    };
    let has_waited = early.is_none();
    store.deliver();
    let answer = match early {
        Some(early) => early,
        None => answer.await,
    };
    feeder.abort();
    (answer.status().as_u16(), has_waited)
}

#[tokio::test(start_paused = true)]
async fn reads_of_an_object_without_a_version_wait_for_what_another_server_has_acknowledged() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let cases = [
        (format!("{PODS}/a"), (200, true)),
        (format!("{PODS}/a?resourceVersion=0"), (404, false)),
        (format!("{PODS}/a?resourceVersion=2"), (200, true)),
        (format!("{PODS}/a/status"), (200, true)),
        (format!("{PODS}/a/log"), (204, true)),
        (format!("{DEPLOYMENTS}/a/scale"), (200, true)),
    ];
    for (target, expected) in cases {
        assert_eq!(get(&target).await, expected, "{target}");
    }
}
