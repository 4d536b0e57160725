//! How fast it commits and opens on this machine's disk, and what that costs. Prints, asserts nothing.
//!
//! `cargo bench -p sternpost-store-log [-- DIRECTORY]`

// A program that reports to a person, and stops at the first error.
#![allow(clippy::disallowed_methods, reason = "what is measured is the machine's time")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sternpost_store::{Bytes, Store, Transaction, Write, conformance::block_on, transaction::MAX_OPERATIONS};
use sternpost_store_log::{LogStore, Options};

const VALUE_BYTES: usize = 1024;
const TIME: Duration = Duration::from_secs(5);
const ENTRIES: usize = 100_000;

fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let parent = given.map_or_else(std::env::temp_dir, PathBuf::from);
    let root = tempfile::tempdir_in(parent).unwrap();
    for committers in [1, 8, 32, 256] {
        let store = LogStore::open(&root.path().join(committers.to_string()), Options::default()).unwrap();
        let before = cpu_time();
        let commits = commits(&Arc::new(store), committers);
        let cpu = cpu_time().saturating_sub(before).as_secs_f64() * 1e6 / commits as f64;
        let (bare, bare_cpu) = bare(&root.path().join("bare"), committers);
        println!(
            "{committers:>3} committers: {:.0} commits/s of {VALUE_BYTES} bytes, {cpu:.1} us of cpu each; \
             as many bytes appended and synced together: {bare:.0}/s, {bare_cpu:.1} us",
            commits as f64 / TIME.as_secs_f64()
        );
    }
    open(&root.path().join("open"));
}

fn commits(store: &Arc<LogStore>, committers: u64) -> u64 {
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

/// What a log cannot be cheaper than: values a second, and the cost of each.
fn bare(path: &Path, together: u64) -> (f64, f64) {
    let mut file = std::fs::File::create(path).unwrap();
    let group = vec![b'v'; VALUE_BYTES * usize::try_from(together).unwrap()];
    let (start, before, mut count) = (Instant::now(), cpu_time(), 0);
    while start.elapsed() < TIME {
        file.write_all(&group).unwrap();
        file.sync_data().unwrap();
        count += together;
    }
    let cpu = cpu_time().saturating_sub(before).as_secs_f64() * 1e6 / count as f64;
    (count as f64 / start.elapsed().as_secs_f64(), cpu)
}

/// User and system time of this process; zero where the system does not say.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn open(directory: &Path) {
    let store = LogStore::open(directory, Options::default()).unwrap();
    let keys: Vec<usize> = (0..ENTRIES).collect();
    for chunk in keys.chunks(MAX_OPERATIONS) {
        let put =
            |n: &usize| Write::put(format!("/registry/configmaps/default/{n}"), vec![b'v'; VALUE_BYTES]);
        block_on(store.commit(Transaction::write(chunk.iter().map(put)))).unwrap();
    }
    // As a kill would leave it: copied while it is in use and idle.
    let killed = directory.with_extension("killed");
    std::fs::create_dir(&killed).unwrap();
    for file in files(directory) {
        std::fs::copy(&file, killed.join(file.file_name().unwrap())).unwrap();
    }
    block_on(store.close());
    for (name, directory) in [("closed", directory), ("killed", &killed)] {
        let size: u64 = files(directory).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
        let start = Instant::now();
        let store = LogStore::open(directory, Options::default()).unwrap();
        println!("open {ENTRIES} entries, {} MiB, after it was {name}: {:.0?}", size >> 20, start.elapsed());
        block_on(store.close());
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}
