//! What the tests of the registry begin with.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::sync::Arc;

use serde_json::Value;
use sternpost_cache::Cache;
use sternpost_clock::{Clock, manual::ManualClock};
use sternpost_meta::status::Status;
use sternpost_store::Store;
use sternpost_verbs::{Target, Verbs, Writer, index::Selectable, served::ServedResources};

/// No time passes.
pub fn still() -> Clock {
    ManualClock::at(0).into()
}

/// A registry of the built-in kinds whose cache follows the store.
pub async fn verbs(store: Arc<dyn Store>, clock: Clock) -> Verbs {
    let (cache, feeder) = Cache::start(store.clone(), Box::new(Selectable::built_in())).await.unwrap();
    tokio::spawn(feeder.run());
    Verbs::new(ServedResources::built_in(), cache, store, clock)
}

/// Creates an object of a kind in `v1`.
pub async fn create(
    verbs: &Verbs,
    (group, plural): (&str, &str),
    namespace: &str,
    object: Value,
    writer: Writer<'_>,
) -> Result<Value, Status> {
    let served = verbs.served.get(group, "v1", plural).unwrap();
    let target = Target { served: &served, namespace, name: "" };
    Ok(verbs.create(target, object, writer).await?.object)
}
