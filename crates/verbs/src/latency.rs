//! How long a request waited for others: what is no part of the time that the server itself took.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The time that webhooks took of one request, as upstream's latency trackers have it.
#[derive(Debug, Default)]
pub struct LatencyTracker(AtomicU64);

impl LatencyTracker {
    pub fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
