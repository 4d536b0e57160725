//! What is below a prefix in etcd, as kube-apiserver keeps it.

use std::{collections::HashSet, num::NonZeroU32, time::Duration};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use sternpost_clock::machine;
use sternpost_store::{
    Bytes, CommitError, Compare, Entry, KeyRange, ReadError, Revision, Store, Transaction, Write,
};
use sternpost_store_etcd::EtcdStore;
use sternpost_store_kube::MASTERS;

use super::{Contents, Form, Sum};
use crate::{error::Hinted, etcd::AccessArgs};

/// Keys by which servers that run know each other. They go with their servers, and are of no use to others.
const PEERS: &str = "peerserverleases/";

/// Keys that go after a time.
const EVENTS: &str = "events/";

/// The most keys and bytes that are written at once. etcd takes 128 operations and 1.5 MiB.
const MAX_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 1 << 20;

/// How often something is tried, and how long is waited in between.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// An etcd, and the prefix below which everything is.
pub struct Cluster {
    store: EtcdStore,
    prefix: String,
}

/// What was found.
pub struct Found {
    pub contents: Contents,
    /// Servers that were running at that revision, by their keys.
    pub servers: Vec<String>,
}

impl Cluster {
    /// Begins to connect, on the runtime that this is called on.
    pub fn connect(access: &AccessArgs) -> anyhow::Result<Self> {
        Ok(Self { store: access.connect(None)?, prefix: access.prefix() })
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// As messages call it.
    pub fn place(&self) -> String {
        format!("`{}` in etcd", self.prefix)
    }

    /// Everything at one revision.
    pub async fn read(&self) -> anyhow::Result<Found> {
        for _ in 1..ATTEMPTS {
            match self.read_once().await {
                // History was forgotten that it was read from.
                Err(ReadError::Compacted { .. }) => {}
                read => return read.context("cannot read etcd"),
            }
        }
        self.read_once().await.context("cannot read etcd")
    }

    async fn read_once(&self) -> Result<Found, ReadError> {
        let (mut entries, mut servers) = (vec![], vec![]);
        let (mut range, mut at) = (KeyRange::all(), None);
        loop {
            let page = self.store.range(range.clone(), at, usize::MAX).await?;
            for entry in &page.entries {
                if [MASTERS, PEERS].iter().any(|server| entry.key().starts_with(server.as_bytes())) {
                    servers.push(String::from_utf8_lossy(entry.key()).into_owned());
                } else {
                    entries.push(entry.clone());
                }
            }
            match page.entries.last() {
                Some(last) if page.more => {
                    range = range.after(last.key());
                    at = Some(page.revision);
                }
                _ => {
                    let form = Form::Etcd { prefix: self.prefix.clone() };
                    let revision = at.unwrap_or(page.revision);
                    let contents = Contents { form, entries, revision, reserved: revision, files: vec![] };
                    return Ok(Found { contents, servers });
                }
            }
        }
    }

    pub async fn revision(&self) -> anyhow::Result<Revision> {
        self.store.current_revision().await.context("cannot read etcd")
    }

    /// Refuses to write where there is something, or where etcd would give out a revision that may have been given out, up
    /// to `given_out`.
    pub async fn want_empty(&self, given_out: Revision) -> anyhow::Result<()> {
        let page = self.store.range(KeyRange::all(), None, 1).await.context("cannot read etcd")?;
        if let Some(first) = page.entries.first() {
            let key = format!("{}{}", self.prefix, String::from_utf8_lossy(first.key()));
            return Err(Hinted {
                message: format!("{} is not empty: there is `{key}`", self.place()),
                hint: "choose another --etcd-prefix, or an etcd that is empty; nothing is replaced".into(),
            }
            .into());
        }
        if page.revision > given_out {
            return Ok(());
        }
        Err(Hinted {
            message: format!(
                "etcd is at revision {}, and resource versions up to {given_out} may have been given out: clients would see the \
                 same versions again, for other objects",
                page.revision
            ),
            hint: format!(
                "let etcd begin above that: `etcdctl snapshot save empty.db`, then `etcdutl snapshot restore empty.db \
                 --bump-revision {given_out} --mark-compacted --data-dir NEW-DIR`, and start etcd on NEW-DIR"
            ),
        }
        .into())
    }

    /// Writes keys and values, in key order, where there are none; then reads them again and compares. If that does not
    /// succeed, what was written is taken out.
    pub async fn fill(
        &self,
        pairs: &[(Bytes, Bytes)],
        event_ttl: NonZeroU32,
        bar: &ProgressBar,
    ) -> anyhow::Result<Sum> {
        let mut written = vec![];
        let filled = self.write(pairs, event_ttl, &mut written, bar).await;
        let filled = match filled {
            Ok(()) => self.compare(pairs).await,
            Err(error) => Err(error),
        };
        let Err(error) = filled else { return filled };
        let left = match self.remove(&written).await {
            Ok(Left::Nothing) => return Err(error),
            Ok(Left::Ours(count)) => format!("{count} keys are left that were written"),
            Ok(Left::Others(key)) => {
                let hint = "take out by hand what was written; do not empty the prefix".into();
                let message = format!("{error:#}; and somebody else writes there: `{}{key}`", self.prefix);
                return Err(Hinted { message, hint }.into());
            }
            Err(left) => format!("{left:#}"),
        };
        Err(Hinted {
            message: format!("{error:#}; and what was written could not be taken out: {left}"),
            hint: format!("if nobody else uses it, `etcdctl del --prefix {}` empties it", self.prefix),
        }
        .into())
    }

    /// What was written is noted, each batch with its revision.
    async fn write<'p>(
        &self,
        pairs: &'p [(Bytes, Bytes)],
        event_ttl: NonZeroU32,
        written: &mut Vec<(&'p [(Bytes, Bytes)], Revision)>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        for batch in batches(pairs) {
            let mut transaction = Transaction::default();
            for (key, value) in batch {
                transaction.compares.push(Compare::Absent { key: key.clone() });
                transaction.writes.push(match key.starts_with(EVENTS.as_bytes()) {
                    true => Write::expiring(key.clone(), value.clone(), event_ttl),
                    false => Write::put(key.clone(), value.clone()),
                });
            }
            let revision = self.commit(&transaction, batch).await.with_context(|| {
                let first = batch.first().map(|(key, _)| String::from_utf8_lossy(key)).unwrap_or_default();
                format!("cannot write `{}{first}`", self.prefix)
            })?;
            written.push((batch, revision));
            bar.inc(batch.len() as u64);
        }
        Ok(())
    }

    async fn compare(&self, pairs: &[(Bytes, Bytes)]) -> anyhow::Result<Sum> {
        let expected = Sum::of(pairs.iter().map(|(key, value)| (&key[..], &value[..])));
        let found = self.read().await?.contents.entries;
        expected.expect(&Sum::of_entries(&found), &self.place())?;
        Ok(expected)
    }

    /// Takes out what was written, unless somebody else has changed it, and says what is left.
    async fn remove(&self, written: &[(&[(Bytes, Bytes)], Revision)]) -> anyhow::Result<Left> {
        for (batch, revision) in written {
            // Those that changed meanwhile, or have expired, are left out, and the others go.
            for part in [batch.len(), 1] {
                let mut is_done = true;
                for pairs in batch.chunks(part) {
                    let compare = |key: &Bytes| Compare::Modified { key: key.clone(), revision: *revision };
                    let transaction = Transaction {
                        compares: pairs.iter().map(|(key, _)| compare(key)).collect(),
                        writes: pairs.iter().map(|(key, _)| Write::delete(key.clone())).collect(),
                    };
                    match self.store.commit(transaction).await {
                        Ok(_) => {}
                        Err(CommitError::Conflict { .. }) => is_done = false,
                        Err(error) => return Err(error.into()),
                    }
                }
                if is_done {
                    break;
                }
            }
        }
        let left = self.read().await?.contents.entries;
        let ours: HashSet<&[u8]> =
            written.iter().flat_map(|(batch, _)| batch.iter()).map(|(key, _)| &key[..]).collect();
        Ok(match left.iter().find(|entry| !ours.contains(entry.key())) {
            Some(entry) => Left::Others(String::from_utf8_lossy(entry.key()).into_owned()),
            None if left.is_empty() => Left::Nothing,
            None => Left::Ours(left.len()),
        })
    }

    /// Commits what makes the keys of a batch, and tries again where that can help. Gives its revision.
    async fn commit(&self, transaction: &Transaction, batch: &[(Bytes, Bytes)]) -> anyhow::Result<Revision> {
        let mut problem = None;
        for _ in 0..ATTEMPTS {
            match self.store.commit(transaction.clone()).await {
                Ok(committed) => return Ok(committed.revision),
                // If it may have been written by an attempt before, nobody said so.
                Err(CommitError::Conflict { current, .. }) => {
                    let made = problem.and_then(|_: CommitError| made(&current, batch));
                    return made.ok_or_else(|| anyhow!("somebody else writes there"));
                }
                Err(error @ (CommitError::Uncertain { .. } | CommitError::Unavailable { .. })) => {
                    problem = Some(error);
                    machine::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(problem.map_or_else(|| anyhow!("it was not tried"), Into::into))
    }
}

/// What is there after everything was to be taken out.
enum Left {
    Nothing,
    Ours(usize),
    /// A key that somebody else has written.
    Others(String),
}

/// The revision at which a batch was made, if what is there is all of it.
fn made(current: &[Option<Entry>], batch: &[(Bytes, Bytes)]) -> Option<Revision> {
    let revision = current.first()?.as_ref()?.modified;
    let mut both = current.iter().zip(batch);
    let is_made = both.all(|(entry, (_, value))| {
        entry.as_ref().is_some_and(|entry| entry.value() == &value[..] && entry.modified == revision)
    });
    is_made.then_some(revision)
}

/// As many as go together.
fn batches(pairs: &[(Bytes, Bytes)]) -> impl Iterator<Item = &[(Bytes, Bytes)]> {
    let mut rest = pairs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(MAX_BATCH).take_while(|(key, value)| {
            bytes += key.len() + value.len();
            bytes <= MAX_BATCH_BYTES
        });
        // One that is larger is written alone; etcd says what it thinks of it.
        let (batch, after) = rest.split_at_checked(fits.count().max(1))?;
        rest = after;
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_large_as_etcd_takes() {
        let pairs = |sizes: &[usize]| -> Vec<(Bytes, Bytes)> {
            sizes.iter().map(|size| (Bytes::from("k"), Bytes::from(vec![0; size - 1]))).collect()
        };
        let counts = |sizes: &[usize]| batches(&pairs(sizes)).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(counts(&[]), [0; 0]);
        assert_eq!(counts(&[1; 64]), [64]);
        assert_eq!(counts(&[1; 65]), [64, 1]);
        assert_eq!(counts(&[MAX_BATCH_BYTES / 2, MAX_BATCH_BYTES / 2, 1]), [2, 1]);
        assert_eq!(counts(&[2 * MAX_BATCH_BYTES, 1, 2 * MAX_BATCH_BYTES]), [1, 1, 1]);
    }
}
