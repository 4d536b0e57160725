//! A process that writes under load, killed with SIGKILL at random moments.
//!
//! The test starts itself as the writer, reads from its output what was
//! acknowledged, kills it, opens the directory and compares. Few rounds by
//! default, as many as `STERNPOST_CRASH_ROUNDS` says otherwise;
//! `STERNPOST_CRASH_SEED` repeats a run as far as timing allows.

// It has a main of its own, so nothing here counts as a test for the lints. The
// environment is the only way to pass options through `cargo test`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use sternpost_store::{
    Bytes, CommitError, KeyRange, Revision, Store, Transaction, Write,
    conformance::{Rng, block_on, drain, list},
};
use sternpost_store_log::{LogStore, Options};

const ROUNDS: u64 = 8;
const WRITERS: u64 = 8;
const KEYS_PER_WRITER: u64 = 16;
const VALUE_BYTES: usize = 1024;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("writer") => writer(Path::new(&arguments[2]), &arguments[3]),
        Some("--list") => println!("kill: test"),
        _ => test(),
    }
}

fn test() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let rounds = number("STERNPOST_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("STERNPOST_CRASH_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    println!("kill: {rounds} rounds, seed {seed}");
    let mut rng = Rng::new(seed);
    let root = tempfile::tempdir().unwrap();
    let mut known = Known { revision: Revision::FIRST, state: BTreeMap::new(), values: BTreeSet::new() };
    let (mut acknowledged, mut unanswered) = (0, 0);
    for round in 0..rounds {
        // Sometimes before it has done anything, even made its file.
        let lines = if rng.one_in(6) { 0 } else { 1 + rng.below(300) };
        let lines = run_and_kill(root.path(), round, lines);
        acknowledged += lines.len();
        unanswered += known.check(root.path(), &lines);
    }
    println!("kill: {acknowledged} acknowledged and kept, {unanswered} kept without an answer, ok");
    assert!(rounds == 0 || acknowledged > 0);
}

/// What the writer had acknowledged when it died: revision, key, value.
type Acknowledged = Vec<(Revision, String, String)>;

fn run_and_kill(directory: &Path, round: u64, lines: u64) -> Acknowledged {
    let mut child: Child = Command::new(env::current_exe().unwrap())
        .args(["writer".as_ref(), directory.as_os_str(), round.to_string().as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut all = Vec::new();
    let mut line = String::new();
    while (all.len() as u64) < lines && output.read_line(&mut line).unwrap() > 0 {
        all.push(std::mem::take(&mut line));
    }
    assert!(all.len() as u64 == lines, "the writer ended by itself");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    // What it had said before it died counts; a line that was cut off does not.
    while output.read_line(&mut line).unwrap() > 0 {
        if line.ends_with('\n') {
            all.push(std::mem::take(&mut line));
        }
        line.clear();
    }
    all.iter().map(|line| parse(line)).collect()
}

fn parse(line: &str) -> (Revision, String, String) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [revision, key, value] = words[..] else { panic!("{line}") };
    (Revision::new(revision.parse().unwrap()).unwrap(), key.to_owned(), value.to_owned())
}

fn copied(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// What earlier rounds have shown.
struct Known {
    revision: Revision,
    state: BTreeMap<Bytes, Bytes>,
    values: BTreeSet<Bytes>,
}

impl Known {
    /// Gives the number of changes that were kept without having been acknowledged.
    fn check(&mut self, directory: &Path, acknowledged: &Acknowledged) -> usize {
        let store = LogStore::open(directory, Options::default()).unwrap();
        let all = KeyRange::all();
        let mut watch = block_on(store.watch(all.clone(), self.revision)).unwrap();
        let events = block_on(drain(&mut watch));
        let mut found = BTreeMap::new();
        for (revision, event) in &events {
            assert!(*revision > self.revision, "revisions go back or repeat");
            self.revision = *revision;
            let before = self.state.get(event.key());
            assert_eq!(
                event.previous().map(|entry| copied(entry.value())).as_ref(),
                before,
                "a change was lost before {revision}"
            );
            let entry = event.entry().unwrap();
            assert!(self.values.insert(copied(entry.value())), "a write happened twice");
            self.state.insert(copied(entry.key()), copied(entry.value()));
            found.insert(*revision, (copied(entry.key()), copied(entry.value())));
        }
        for (revision, key, value) in acknowledged {
            let expected = (Bytes::from(key.clone()), padded(value));
            assert_eq!(found.get(revision), Some(&expected), "an acknowledged write was lost");
        }
        let listed = block_on(list(&store, &all, None, 100)).entries;
        let listed: BTreeMap<_, _> =
            listed.into_iter().map(|entry| (copied(entry.key()), copied(entry.value()))).collect();
        assert!(listed == self.state, "the state is not what the changes add up to");
        let unanswered = found.len() - acknowledged.len();
        assert!(unanswered as u64 <= WRITERS, "{unanswered} writes were not acknowledged");
        block_on(store.close());
        unanswered
    }
}

/// Commits until it is killed.
fn writer(directory: &Path, round: &str) {
    // So that many are killed while a snapshot is written.
    let options = Options { snapshot_after: 64 << 10, ..Options::default() };
    let store = Arc::new(LogStore::open(directory, options).unwrap());
    std::thread::scope(|scope| {
        for id in 0..WRITERS {
            let store = Arc::clone(&store);
            scope.spawn(move || block_on(write_for_ever(store.as_ref(), round, id)));
        }
    });
}

async fn write_for_ever(store: &dyn Store, round: &str, id: u64) {
    let mut known: BTreeMap<String, Revision> = BTreeMap::new();
    for number in 0_u64.. {
        let key = format!("{id}/{}", number % KEYS_PER_WRITER);
        let value = format!("{round}-{id}-{number}");
        let transaction = match known.get(&key) {
            Some(revision) => Transaction::update(key.clone(), *revision, padded(&value)),
            None => Transaction::write([Write::put(key.clone(), padded(&value))]),
        };
        match store.commit(transaction).await {
            Ok(committed) => {
                known.insert(key.clone(), committed.revision);
                // One call, so that a line is not mixed with others.
                let line = format!("{} {key} {value}\n", committed.revision);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
            Err(CommitError::Conflict { .. }) => panic!("nobody else writes {key}"),
            Err(other) => panic!("{other}"),
        }
    }
}

fn padded(value: &str) -> Bytes {
    let mut bytes = value.as_bytes().to_vec();
    bytes.resize(VALUE_BYTES, b' ');
    bytes.into()
}
