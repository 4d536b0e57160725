//! The contract, on the in-memory disk and on a real one.

use std::sync::Arc;

use crate::support::{fresh, open, options};
use sternpost_store::{conformance, retention::Retention};
use sternpost_store_log::{LogStore, Options};

fn unbounded() -> Options {
    Options { retention: Retention::UNBOUNDED, ..options() }
}

#[test]
fn conforms_in_memory() {
    conformance::run(&|| Arc::new(open(&fresh(), unbounded())), 0..30);
}

#[test]
fn conforms_while_snapshots_are_written_all_the_time() {
    let options = || Options { retention: Retention::UNBOUNDED, snapshot_after: 1, ..options() };
    conformance::run(&|| Arc::new(open(&fresh(), options())), 0..30);
}

#[test]
fn conforms_in_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    let make = || -> Arc<dyn sternpost_store::Store> {
        count.set(count.get() + 1);
        let directory = root.path().join(count.get().to_string());
        Arc::new(LogStore::open(&directory, unbounded()).unwrap())
    };
    conformance::run(&make, 0..1);
}
