//! For how long a list can be continued.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beginning;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use serde_json::json;
use sternpost_meta::status::{Reason, Status};
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{
    COMPACTION_SECONDS, ListQuery, Listed, Registry, Selection, Target, Writer, environment::Environment,
};

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Clock(AtomicI64);

impl Environment for Clock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

async fn list(registry: &Registry, token: &str) -> Result<Listed, Status> {
    let served = registry.served.get("", "v1", "namespaces").unwrap();
    let target = Target { served: &served, namespace: "", name: "" };
    let query = ListQuery { limit: 1, continue_token: token.into(), ..ListQuery::default() };
    registry.list(target, &Selection::default(), &query).await
}

/// The token in a refusal.
fn goes_on_with(refused: &Status) -> String {
    let status = serde_json::to_value(refused).unwrap();
    status["metadata"]["continue"].as_str().unwrap().to_owned()
}

/// As kube-apiserver compacts: also where nothing is written, a token of a list is good for
/// between five and ten minutes, and gone after that; the token in the refusal goes on for ever.
#[tokio::test]
async fn a_token_of_a_quiet_resource_expires_within_ten_minutes() {
    let clock = Arc::new(Clock::default());
    let registry = beginning::registry(Arc::new(MemoryStore::default()), clock.clone()).await;
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name}});
        beginning::create(&registry, ("", "namespaces"), "", object, Writer::server()).await.unwrap();
    }
    // Whenever in a period a list begins, it can be continued for a whole one at least and two at most.
    for begun in [0, 1, COMPACTION_SECONDS - 1, COMPACTION_SECONDS, 7 * COMPACTION_SECONDS + 123] {
        clock.0.store(begun, Ordering::Relaxed);
        let first = list(&registry, "").await.unwrap();
        assert_eq!(first.items[0].name(), "a");
        clock.0.store(begun + COMPACTION_SECONDS, Ordering::Relaxed);
        let second = list(&registry, &first.continue_token).await.unwrap();
        assert_eq!((second.items[0].name(), second.revision), ("b", first.revision));

        clock.0.store(begun + 2 * COMPACTION_SECONDS, Ordering::Relaxed);
        // Going on does not make it last longer.
        for token in [&first.continue_token, &second.continue_token] {
            let expired = list(&registry, token).await.unwrap_err();
            assert_eq!((expired.code, expired.reason), (410, Some(Reason::Expired)));
            let rest = list(&registry, &goes_on_with(&expired)).await.unwrap();
            assert_eq!(rest.items[0].name(), if token == &first.continue_token { "b" } else { "c" });
        }
        let inconsistent = goes_on_with(&list(&registry, &first.continue_token).await.unwrap_err());
        clock.0.store(begun + 100 * COMPACTION_SECONDS, Ordering::Relaxed);
        assert_eq!(list(&registry, &inconsistent).await.unwrap().items[0].name(), "b");
    }
}
