//! Pages of lists: what they say of the rest, and for how long they can be continued.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use sternpost_clock::{machine, manual::ManualClock};
use sternpost_meta::status::{Reason, Status};
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{COMPACTION_SECONDS, ListQuery, Listed, Selection, Target, Verbs, Writer};

async fn list(verbs: &Verbs, token: &str) -> Result<Listed, Status> {
    let served = verbs.served.get("", "v1", "namespaces").unwrap();
    let target = Target { served: &served, namespace: "", name: "" };
    let query = ListQuery { limit: 1, continue_token: token.into(), ..ListQuery::default() };
    verbs.list(target, &Selection::default(), &query).await
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
    let clock = ManualClock::at(0);
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), clock.clock()).await;
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name}});
        crate::beginning::create(&verbs, ("", "namespaces"), "", object, Writer::server()).await.unwrap();
    }
    // Whenever in a period a list begins, it can be continued for a whole one at least and two at most.
    for begun in [0, 1, COMPACTION_SECONDS - 1, COMPACTION_SECONDS, 7 * COMPACTION_SECONDS + 123] {
        clock.set_wall((begun).try_into().unwrap());
        let first = list(&verbs, "").await.unwrap();
        assert_eq!(first.objects().next().unwrap().name(), "a");
        clock.set_wall((begun + COMPACTION_SECONDS).try_into().unwrap());
        let second = list(&verbs, &first.continue_token).await.unwrap();
        assert_eq!((second.objects().next().unwrap().name(), second.revision), ("b", first.revision));

        clock.set_wall((begun + 2 * COMPACTION_SECONDS).try_into().unwrap());
        // Going on does not make it last longer.
        for token in [&first.continue_token, &second.continue_token] {
            let expired = list(&verbs, token).await.unwrap_err();
            assert_eq!((expired.code, expired.reason), (410, Some(Reason::Expired)));
            let rest = list(&verbs, &goes_on_with(&expired)).await.unwrap();
            assert_eq!(
                rest.objects().next().unwrap().name(),
                if token == &first.continue_token { "b" } else { "c" }
            );
        }
        let inconsistent = goes_on_with(&list(&verbs, &first.continue_token).await.unwrap_err());
        clock.set_wall((begun + 100 * COMPACTION_SECONDS).try_into().unwrap());
        assert_eq!(list(&verbs, &inconsistent).await.unwrap().objects().next().unwrap().name(), "b");
    }
}

/// Page by page, while others write: the same objects, and what is left counts down to nothing.
#[tokio::test]
async fn pages_tell_how_much_is_left_of_the_state_they_began_with() {
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), ManualClock::at(0).clock()).await;
    let create = async |name: &str| {
        let object = json!({"metadata": {"name": name}});
        crate::beginning::create(&verbs, ("", "namespaces"), "", object, Writer::server()).await.unwrap();
    };
    let before = list(&verbs, "").await.unwrap();
    let there = before.len() + before.remaining.unwrap_or_default();
    for number in 0..10 {
        create(&format!("n{number}")).await;
    }
    let (mut token, mut seen, mut left) = (String::new(), Vec::new(), Vec::new());
    loop {
        let page = list(&verbs, &token).await.unwrap();
        seen.extend(page.objects().map(|object| object.name().to_owned()));
        left.push(page.remaining);
        create(&format!("later{}", seen.len())).await;
        if page.continue_token.is_empty() {
            break;
        }
        token = page.continue_token;
    }
    let all = there + 10;
    assert_eq!(seen.len(), all);
    assert!(!seen.iter().any(|name| name.starts_with("later")), "{seen:?}");
    let expected: Vec<Option<usize>> = (1..=all).map(|page| (page < all).then(|| all - page)).collect();
    assert_eq!(left, expected);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_revision_that_is_not_there_yet_is_waited_for() {
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), ManualClock::at(0).into()).await;
    let token = json!({"v": "meta.k8s.io/v1", "rv": 1000, "start": "/a\0"});
    let begun = machine::now();
    let refused = list(&verbs, &URL_SAFE_NO_PAD.encode(token.to_string())).await.unwrap_err();
    assert_eq!(machine::elapsed(begun), Duration::from_secs(3));
    assert_eq!(refused.code, 504);
    assert_eq!(refused.message, "Timeout: Too large resource version: 1000, current: 1");
}
