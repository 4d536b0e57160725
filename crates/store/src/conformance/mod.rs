//! One suite that every [`Store`] passes, for use in tests.
//!
//! [`run`] takes a function that makes an empty store whose history is not
//! bounded by age or size. [`model::Model`] is what the suite compares with: it
//! keeps every state in full and is too simple to be wrong. A failure in the
//! random parts names the seed, which repeats it.

// The suite is test code that lives in a library so that others can call it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::missing_panics_doc)]

use std::sync::Arc;

pub use sternpost_clock::seeded::Rng;

use crate::{Bytes, Delivery, Entry, Event, KeyRange, Page, Revision, Store, Watch};

pub mod concurrent;
pub mod model;
pub mod random;
mod rules;

/// Makes an empty store.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Store>;

/// Runs everything; panics with the name of the rule that does not hold.
pub fn run(make: Make<'_>, seeds: std::ops::Range<u64>) {
    for (name, rule) in rules::RULES {
        let store = make();
        let run = std::panic::AssertUnwindSafe(|| block_on(rule(Arc::clone(&store))));
        if let Err(cause) = std::panic::catch_unwind(run) {
            panic!("rule `{name}` does not hold: {}", message(cause.as_ref()));
        }
    }
    for seed in seeds {
        let case = std::panic::AssertUnwindSafe(|| {
            block_on(random::check(make(), seed));
            concurrent::check(&make(), seed);
        });
        if let Err(cause) = std::panic::catch_unwind(case) {
            panic!("seed {seed}: {}", message(cause.as_ref()));
        }
    }
}

/// Runs a future on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Everything a watch has to say up to now.
pub async fn drain(watch: &mut Watch) -> Vec<(Revision, Event)> {
    watch.request_progress();
    let mut events = Vec::new();
    loop {
        match watch.next().await.unwrap() {
            Delivery::Changes(changes) => {
                events.extend(changes.events().iter().map(|event| (changes.revision(), event.clone())));
            }
            Delivery::Progress(revision) => {
                assert!(events.last().is_none_or(|(last, _)| *last <= revision));
                return events;
            }
        }
    }
}

/// All entries of a range at one revision, read in pages.
pub async fn list(store: &dyn Store, range: &KeyRange, at: Option<Revision>, limit: usize) -> Page {
    let mut all = store.range(range.clone(), at, limit).await.unwrap();
    while all.more {
        let rest = range.after(all.entries.last().unwrap().key());
        let page = store.range(rest, Some(all.revision), limit).await.unwrap();
        assert_eq!(page.revision, all.revision);
        all.entries.extend(page.entries);
        all.more = page.more;
    }
    all
}

fn message(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn entry(key: &'static str, value: &'static str, created: Revision, modified: Revision) -> Entry {
    Entry::new(Bytes::from(key), Bytes::from(value), created, modified)
}
