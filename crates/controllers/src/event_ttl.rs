//! Events end by themselves, some time after they were last written.
//!
//! They wait in one queue, by when they end, and have no timer each.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use sternpost_cache::Object;
use sternpost_clock::{DueQueue, Instant};
use sternpost_golang::time::Timestamp;
use sternpost_store::Revision;
use sternpost_verbs::{DeleteOptions, Failure, Target, Verbs, served::Served};
use tokio::task::JoinSet;

use crate::follow::{Follow, News, ObjectChange};

/// Deletions under way at a time: enough to share the store's commits.
const MAX_WRITES: usize = 64;

/// Ends events that were not written for `lifetime`, until the process ends.
pub(crate) async fn run(verbs: Arc<Verbs>, lifetime: Duration) {
    let Some(served) = verbs.served.get("", "v1", "events") else { return };
    let (objects, mut follow) = Follow::start(verbs.clone(), served.clone()).await;
    let mut expiry = Expiry { verbs, served, lifetime, queue: DueQueue::default() };
    let clock = expiry.verbs.clock.clone();
    expiry.all(&objects);
    loop {
        expiry.end_due().await;
        let next = expiry.queue.next();
        tokio::select! {
            news = follow.next() => match news {
                News::All(objects) => expiry.all(&objects),
                News::Changes(changes) => {
                    for change in changes {
                        match change {
                            ObjectChange::Now(object) => expiry.written(&object),
                            ObjectChange::Gone(object) => drop(expiry.queue.remove(&object.place().into())),
                        }
                    }
                }
            },
            () = clock.until(next) => {}
        }
    }
}

struct Expiry {
    verbs: Arc<Verbs>,
    served: Arc<Served>,
    lifetime: Duration,
    /// By `NAMESPACE/NAME`: as many as there are events, each as it was last written.
    queue: DueQueue<Instant, Arc<str>, Revision>,
}

impl Expiry {
    fn all(&mut self, objects: &[Arc<Object>]) {
        self.queue = DueQueue::default();
        for object in objects {
            self.written(object);
        }
    }

    /// It lives on for what is left of its time since it was written, however late that is noticed.
    fn written(&mut self, object: &Object) {
        let clock = &self.verbs.clock;
        let now = Timestamp::from_unix(clock.unix_seconds(), 0);
        let age = last_written(object).map_or(0, |then| now.seconds_since(then));
        let age = Duration::from_secs(u64::try_from(age).unwrap_or_default());
        let due = clock.now() + self.lifetime.saturating_sub(age);
        self.queue.insert(object.place().into(), due, object.revision);
    }

    async fn end_due(&mut self) {
        let mut writes: JoinSet<Result<(), Failure>> = JoinSet::new();
        while let Some((place, revision)) = self.queue.pop(self.verbs.clock.now()) {
            while writes.len() >= MAX_WRITES {
                note(writes.join_next().await);
            }
            let (verbs, served) = (self.verbs.clone(), self.served.clone());
            writes.spawn(async move {
                let (namespace, name) = place.split_once('/').unwrap_or_default();
                let target = Target { served: &served, namespace, name };
                let options = DeleteOptions {
                    resource_version: Some(revision.to_string()),
                    ..DeleteOptions::default()
                };
                verbs.delete_own(target, &options).await
            });
        }
        while let Some(done) = writes.join_next().await {
            note(Some(done));
        }
    }
}

fn note(done: Option<Result<Result<(), Failure>, tokio::task::JoinError>>) {
    match done {
        // Gone, or written again: another entry tells when that ends.
        Some(Ok(Err(status))) if !matches!(status.code(), 404 | 409) => {
            tracing::warn!(%status, "an event that has had its time cannot be deleted");
        }
        Some(Err(error)) => tracing::error!(%error, "the end of an event was cut off"),
        _ => {}
    }
}

/// When the server last wrote the event, by its own account: times within the event are its author's.
fn last_written(object: &Object) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Event {
        metadata: Metadata,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        creation_timestamp: String,
        managed_fields: Vec<Managed>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Managed {
        time: String,
    }
    let Event { metadata } = object.read()?;
    let managed = metadata.managed_fields.iter().map(|managed| managed.time.as_str());
    let times = managed.chain([metadata.creation_timestamp.as_str()]);
    times.filter_map(|time| Timestamp::parse_time(time).ok()).max_by(|a, b| a.seconds_since(*b).cmp(&0))
}
