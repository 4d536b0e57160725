//! How fast it commits and opens on this machine's disk. Prints, asserts nothing.
//!
//! `cargo bench -p sternpost-store-redb [-- DIRECTORY]`

// A program that reports to a person, and stops at the first error.
#![allow(clippy::disallowed_methods, reason = "what is measured is the machine's time")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sternpost_store::{Bytes, Store, Transaction, Write, conformance::block_on, transaction::MAX_OPERATIONS};
use sternpost_store_redb::{Options, RedbStore};

const VALUE_BYTES: usize = 1024;
const TIME: Duration = Duration::from_secs(5);
const ENTRIES: usize = 100_000;

fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let parent = given.map_or_else(std::env::temp_dir, PathBuf::from);
    let root = tempfile::tempdir_in(parent).unwrap();
    for committers in [1, 32, 256] {
        let store = RedbStore::open(&root.path().join(committers.to_string()), Options::default()).unwrap();
        let (commits, cpu) = (commits(&Arc::new(store), committers), cpu_time());
        println!(
            "{committers:>3} committers: {:.0} commits/s of {VALUE_BYTES} bytes, process cpu so far {cpu:.1?}",
            commits as f64 / TIME.as_secs_f64()
        );
    }
    open(&root.path().join("open"));
}

fn commits(store: &Arc<RedbStore>, committers: u64) -> u64 {
    let (count, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for id in 0..committers {
            let (store, count) = (Arc::clone(store), &count);
            scope.spawn(move || {
                block_on(async {
                    for number in 0_u64.. {
                        if start.elapsed() > TIME {
                            break;
                        }
                        let key = format!("/registry/configmaps/default/{id}-{}", number % 1000);
                        let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
                        store.commit(Transaction::write([Write::put(key, value)])).await.unwrap();
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        }
    });
    count.into_inner()
}

/// User and system time of this process; zero where the system does not say.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn open(directory: &std::path::Path) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    let keys: Vec<usize> = (0..ENTRIES).collect();
    for chunk in keys.chunks(MAX_OPERATIONS) {
        let put =
            |n: &usize| Write::put(format!("/registry/configmaps/default/{n}"), vec![b'v'; VALUE_BYTES]);
        block_on(store.commit(Transaction::write(chunk.iter().map(put)))).unwrap();
    }
    // As a kill would leave it: copied while it is in use and idle.
    let killed = directory.with_extension("killed");
    std::fs::create_dir(&killed).unwrap();
    std::fs::copy(directory.join("store.redb"), killed.join("store.redb")).unwrap();
    block_on(store.close());
    for (name, directory) in [("closed", directory), ("killed", &killed)] {
        let size = std::fs::metadata(directory.join("store.redb")).unwrap().len() >> 20;
        let start = Instant::now();
        let store = RedbStore::open(directory, Options::default()).unwrap();
        println!("open {ENTRIES} entries, {size} MiB, after it was {name}: {:.0?}", start.elapsed());
        block_on(store.close());
    }
}
