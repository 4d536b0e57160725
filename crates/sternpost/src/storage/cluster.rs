//! What is below a prefix in etcd, as kube-apiserver keeps it.

use std::{collections::HashSet, num::NonZeroU32, time::Duration};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use sternpost_clock::machine;
use sternpost_store::{
    Bytes, CommitError, Compare, Entry, KeyRange, ReadError, Revision, Store, Transaction, Write,
};
use sternpost_store_etcd::Endpoint;
use sternpost_store_kube::MASTERS;

use super::{
    Contents, Form, Sum,
    unfinished::{self, Mark, Unfinished},
};
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
    store: Box<dyn Store>,
    prefix: String,
    /// Of one of several, its members.
    members: Option<String>,
}

/// What was found.
pub struct Found {
    pub contents: Contents,
    /// Servers that were running at that revision, by their keys.
    pub servers: Vec<String>,
    /// Whether it is only a part of something.
    is_unfinished: bool,
}

impl Cluster {
    /// Begins to connect, on the runtime that this is called on.
    pub fn connect(access: &AccessArgs) -> anyhow::Result<Self> {
        Ok(Self { store: Box::new(access.connect(None)?), prefix: access.prefix(), members: None })
    }

    /// As [`connect`](Self::connect), to one of several.
    pub fn connect_to(access: &AccessArgs, servers: &[Endpoint]) -> anyhow::Result<Self> {
        let members: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let store = Box::new(access.connect_to(servers, None)?);
        Ok(Self { store, prefix: access.prefix(), members: Some(members.join(",")) })
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// As messages call it.
    pub fn place(&self) -> String {
        match &self.members {
            Some(members) => format!("`{}` in the etcd {members}", self.prefix),
            None => format!("`{}` in etcd", self.prefix),
        }
    }

    /// Everything at one revision. Refuses what is only a part of something.
    pub async fn read(&self) -> anyhow::Result<Found> {
        let found = self.read_any().await?;
        if found.is_unfinished {
            return Err(unfinished::refused(&self.place()));
        }
        Ok(found)
    }

    async fn read_any(&self) -> anyhow::Result<Found> {
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
        let (mut entries, mut servers, mut is_unfinished) = (vec![], vec![], false);
        let (mut range, mut at) = (KeyRange::all(), None);
        loop {
            let page = self.store.range(range.clone(), at, usize::MAX).await?;
            for entry in &page.entries {
                if [MASTERS, PEERS].iter().any(|server| entry.key().starts_with(server.as_bytes())) {
                    servers.push(String::from_utf8_lossy(entry.key()).into_owned());
                } else if entry.key() == unfinished::KEY {
                    is_unfinished = true;
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
                    let contents = Contents {
                        form,
                        entries,
                        revision,
                        reserved: revision,
                        others: vec![],
                        files: vec![],
                    };
                    return Ok(Found { contents, servers, is_unfinished });
                }
            }
        }
    }

    pub async fn revision(&self) -> anyhow::Result<Revision> {
        self.store.current_revision().await.context("cannot read etcd")
    }

    /// Refuses to write where there is something, or where etcd would give out a revision that may have been given out, up
    /// to `given_out`. What was left when the same source was put there before is nothing.
    pub async fn want_empty(&self, given_out: Revision, source: &Sum) -> anyhow::Result<()> {
        let page = self.store.range(KeyRange::all(), None, 1).await.context("cannot read etcd")?;
        let mark = unfinished::find(&*self.store).await?;
        if mark.as_ref().is_some_and(|mark| mark.unfinished.source != source.sha256) {
            return Err(Hinted {
                message: format!(
                    "{} holds a part of something else: a `sternpost migrate` or `restore` to it was interrupted",
                    self.place()
                ),
                hint: format!(
                    "run that one again, or, if nobody uses what is there, empty it: `etcdctl del --prefix {}`",
                    self.prefix
                ),
            }
            .into());
        }
        if let Some(first) = page.entries.first().filter(|_| mark.is_none()) {
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
        let etcd = self.members.as_ref().map_or("etcd".to_owned(), |members| format!("the etcd {members}"));
        Err(Hinted {
            message: format!(
                "{etcd} is at revision {}, and resource versions up to {given_out} may have been given out: clients would see the \
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

    /// Writes keys and values, in key order, where there are none but those that were written of the same source before;
    /// then reads them again and compares. If that does not succeed, what was written is taken out. If it is
    /// interrupted, the mark stays.
    pub async fn fill(
        &self,
        pairs: &[(Bytes, Bytes)],
        source: &Sum,
        event_ttl: NonZeroU32,
        bar: &ProgressBar,
    ) -> anyhow::Result<Sum> {
        let mut filling = self.begin(pairs, source).await?;
        let filled = match filling.fill(event_ttl, bar).await {
            Ok(()) => filling.finish().await,
            Err(error) => Err(error),
        };
        match filled {
            Ok(()) => Ok(Sum::of(pairs.iter().map(|(key, value)| (&key[..], &value[..])))),
            Err(error) => Err(filling.undo(error).await),
        }
    }

    /// Marks that it is being filled; nothing else is written yet.
    pub async fn begin<'p>(
        &'p self,
        pairs: &'p [(Bytes, Bytes)],
        source: &'p Sum,
    ) -> anyhow::Result<Filling<'p>> {
        let mark = self.mark(pairs, source).await?;
        Ok(Filling { cluster: self, pairs, source, mark, written: vec![] })
    }

    /// Takes out what was written, and says what went wrong.
    async fn undo(
        &self,
        written: &[(&[(Bytes, Bytes)], Revision)],
        mark: Revision,
        error: anyhow::Error,
    ) -> anyhow::Error {
        let left = match self.remove(written).await {
            Ok(Left::Nothing) => {
                // If it stays, the next one finds nothing behind it.
                let _ = self.unmark(mark).await;
                return error;
            }
            Ok(Left::Ours(count)) => format!("{count} keys are left that were written"),
            Ok(Left::Others(key)) => {
                let hint = "take out by hand what was written; do not empty the prefix".into();
                let message = format!("{error:#}; and somebody else writes there: `{}{key}`", self.prefix);
                return Hinted { message, hint }.into();
            }
            Err(left) => format!("{left:#}"),
        };
        Hinted {
            message: format!("{error:#}; and what was written could not be taken out: {left}"),
            hint: format!("if nobody else uses it, `etcdctl del --prefix {}` empties it", self.prefix),
        }
        .into()
    }

    /// Makes the mark, or takes over that of one that was interrupted, whose keys are taken out. Gives its revision.
    async fn mark(&self, pairs: &[(Bytes, Bytes)], source: &Sum) -> anyhow::Result<Revision> {
        if let Some(mark) = unfinished::find(&*self.store).await? {
            return self.take_over(pairs, mark).await;
        }
        let made = [(unfinished::KEY, Unfinished { source: source.sha256.clone(), keys: 0 }.value())];
        let [(key, value)] = made.clone();
        self.commit(&Transaction::create(key, value), &made).await.context("cannot write to etcd")
    }

    async fn take_over(&self, pairs: &[(Bytes, Bytes)], mut mark: Mark) -> anyhow::Result<Revision> {
        let may_be_there: HashSet<&[u8]> =
            pairs.iter().take(mark.unfinished.keys).map(|(key, _)| &key[..]).collect();
        for _ in 0..ATTEMPTS {
            let Found { contents, servers, .. } = self.read_any().await?;
            let is_left = |entry: &Entry| {
                may_be_there.contains(entry.key())
                    && entry.created == entry.modified
                    && entry.created > mark.created
            };
            let foreign = contents.entries.iter().find(|entry| !is_left(entry));
            let foreign = foreign.map(|entry| String::from_utf8_lossy(entry.key()).into_owned());
            if let Some(key) = foreign.or_else(|| servers.into_iter().next()) {
                let message = format!(
                    "somebody else has written `{}{key}` since a `sternpost migrate` or `restore` was interrupted",
                    self.prefix
                );
                let hint = "nothing is taken out: what is there has to be looked at by hand".into();
                return Err(Hinted { message, hint }.into());
            }
            match self.take_out(&contents.entries, &mark).await {
                Ok(revision) => return Ok(revision),
                // Something expired, or may be gone.
                Err(
                    CommitError::Conflict { .. }
                    | CommitError::Uncertain { .. }
                    | CommitError::Unavailable { .. },
                ) => {}
                Err(error) => return Err(error.into()),
            }
            machine::sleep(PAUSE).await;
            let now = unfinished::find(&*self.store).await?;
            let ours = now.filter(|now| now.unfinished.source == mark.unfinished.source);
            mark = ours.context("somebody else writes there")?;
        }
        Err(anyhow!("it keeps changing"))
    }

    /// Takes out what one that was interrupted has left, and begins anew with its mark, whose revision is given.
    async fn take_out(&self, left: &[Entry], mark: &Mark) -> Result<Revision, CommitError> {
        let unchanged = |key: Bytes, revision| Compare::Modified { key, revision };
        let is_ours = || unchanged(unfinished::KEY, mark.modified);
        for batch in left.chunks(MAX_BATCH) {
            let keys = batch.iter().map(|entry| (Bytes::copy_from_slice(entry.key()), entry.modified));
            let mut transaction = Transaction { compares: vec![is_ours()], ..Transaction::default() };
            for (key, revision) in keys {
                transaction.writes.push(Write::delete(key.clone()));
                transaction.compares.push(unchanged(key, revision));
            }
            self.store.commit(transaction).await?;
        }
        let anew = Unfinished { keys: 0, ..mark.unfinished.clone() };
        let writes = vec![Write::put(unfinished::KEY, anew.value())];
        Ok(self.store.commit(Transaction { compares: vec![is_ours()], writes }).await?.revision)
    }

    /// The mark that it is being filled with that.
    pub async fn marked(&self, source: &Sum) -> anyhow::Result<Option<Mark>> {
        let mark = unfinished::find(&*self.store).await?;
        Ok(mark.filter(|mark| mark.unfinished.source == source.sha256))
    }

    pub async fn is_empty(&self) -> anyhow::Result<bool> {
        let page = self.store.range(KeyRange::all(), None, 1).await.context("cannot read etcd")?;
        Ok(page.entries.is_empty())
    }

    /// All of it is there, or nothing.
    pub async fn unmark(&self, mark: Revision) -> anyhow::Result<()> {
        let mut problem = None;
        for _ in 0..ATTEMPTS {
            match self.store.commit(Transaction::delete(unfinished::KEY, mark)).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { current, .. }) => {
                    // An attempt before may have done it.
                    let is_gone = problem.is_some() && current.iter().all(Option::is_none);
                    return if is_gone { Ok(()) } else { Err(anyhow!("somebody else writes there")) };
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

    /// What was written is noted, each batch with its revision, and counted in the mark.
    async fn write<'p>(
        &self,
        pairs: &'p [(Bytes, Bytes)],
        source: &Sum,
        event_ttl: NonZeroU32,
        mark: &mut Revision,
        written: &mut Vec<(&'p [(Bytes, Bytes)], Revision)>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        let mut keys = 0;
        for batch in batches(pairs) {
            let mut transaction = Transaction::default();
            keys += batch.len();
            for (key, value) in batch {
                transaction.compares.push(Compare::Absent { key: key.clone() });
                transaction.writes.push(match key.starts_with(EVENTS.as_bytes()) {
                    true => Write::expiring(key.clone(), value.clone(), event_ttl),
                    false => Write::put(key.clone(), value.clone()),
                });
            }
            // Behind those of the batch.
            transaction.compares.push(Compare::Modified { key: unfinished::KEY, revision: *mark });
            let counted = Unfinished { source: source.sha256.clone(), keys };
            transaction.writes.push(Write::put(unfinished::KEY, counted.value()));
            let revision = self.commit(&transaction, batch).await.with_context(|| {
                let first = batch.first().map(|(key, _)| String::from_utf8_lossy(key)).unwrap_or_default();
                format!("cannot write `{}{first}`", self.prefix)
            })?;
            written.push((batch, revision));
            *mark = revision;
            bar.inc(batch.len() as u64);
        }
        Ok(())
    }

    pub async fn compare(&self, pairs: &[(Bytes, Bytes)]) -> anyhow::Result<()> {
        let expected = Sum::of(pairs.iter().map(|(key, value)| (&key[..], &value[..])));
        let found = self.read_any().await?.contents.entries;
        expected.expect(&Sum::of_entries(&found), &self.place())
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
        let left = self.read_any().await?.contents.entries;
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

/// An etcd on its way from being empty to having everything.
pub struct Filling<'p> {
    cluster: &'p Cluster,
    pairs: &'p [(Bytes, Bytes)],
    source: &'p Sum,
    mark: Revision,
    /// Batches, each with its revision.
    written: Vec<(&'p [(Bytes, Bytes)], Revision)>,
}

impl Filling<'_> {
    /// Writes everything, reads it again and compares. The mark stays.
    pub async fn fill(&mut self, event_ttl: NonZeroU32, bar: &ProgressBar) -> anyhow::Result<()> {
        let Self { cluster, pairs, source, mark, written } = self;
        cluster.write(pairs, source, event_ttl, mark, written, bar).await?;
        cluster.compare(pairs).await
    }

    /// All of it is there.
    pub async fn finish(&self) -> anyhow::Result<()> {
        self.cluster.unmark(self.mark).await
    }

    /// Takes out what was written, and says what went wrong.
    pub async fn undo(&self, error: anyhow::Error) -> anyhow::Error {
        self.cluster.undo(&self.written, self.mark, error).await
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
pub(super) mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use sternpost_store::{
        BoxFuture, Committed, GetAnswer, Page, Stopped, Watch,
        memory::{self, MemoryStore},
    };
    use tokio::sync::Notify;

    use super::*;

    /// A store whose caller dies at a transaction: it is never answered.
    #[derive(Debug)]
    pub struct Deadly {
        pub store: Arc<MemoryStore>,
        /// So many are answered.
        pub left: Arc<AtomicUsize>,
        pub dies: Dies,
        pub died: Arc<Notify>,
    }

    impl Deadly {
        pub fn cluster(self) -> Cluster {
            Cluster { store: Box::new(self), prefix: "/registry/".into(), members: None }
        }
    }

    /// Whether the last transaction is made.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Dies {
        Before,
        After,
    }

    impl Store for Deadly {
        fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
            Box::pin(async move {
                let is_last = self.left.fetch_sub(1, Ordering::Relaxed) == 0;
                if is_last && self.dies == Dies::Before {
                    self.died.notify_one();
                    std::future::pending::<()>().await;
                }
                let committed = self.store.commit(transaction).await;
                if is_last {
                    self.died.notify_one();
                    std::future::pending::<()>().await;
                }
                committed
            })
        }

        fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
            self.store.current_revision()
        }

        fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
            self.store.get(key, at)
        }

        fn range(
            &self,
            range: KeyRange,
            at: Option<Revision>,
            limit: usize,
        ) -> BoxFuture<'_, Result<Page, ReadError>> {
            self.store.range(range, at, limit)
        }

        fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
            self.store.watch(range, after)
        }

        fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
            self.store.compact(to)
        }

        fn stopped(&self) -> BoxFuture<'static, Stopped> {
            self.store.stopped()
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            self.store.close()
        }
    }

    fn pairs() -> Vec<(Bytes, Bytes)> {
        let pair = |number| (Bytes::from(format!("configmaps/a/{number:03}")), Bytes::from("v"));
        (0..150).map(pair).collect()
    }

    pub fn source(name: &str) -> Sum {
        Sum::of([(name.as_bytes(), &b""[..])].into_iter())
    }

    /// Puts everything there, as a process that dies at a transaction; whether it lived.
    async fn fill(store: &Arc<MemoryStore>, answered: usize, dies: Dies) -> Option<anyhow::Result<Sum>> {
        let died = Arc::new(Notify::new());
        let left = Arc::new(AtomicUsize::new(answered));
        let cluster = Deadly { store: store.clone(), left, dies, died: died.clone() }.cluster();
        let work = async {
            cluster.want_empty(Revision::FIRST, &source("one")).await?;
            cluster.fill(&pairs(), &source("one"), NonZeroU32::MIN, &ProgressBar::hidden()).await
        };
        tokio::select! {
            biased;
            filled = work => Some(filled),
            () = died.notified() => None,
        }
    }

    pub fn empty() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::new(memory::Options::default()))
    }

    pub fn on(store: &Arc<MemoryStore>) -> Cluster {
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        Deadly { store: store.clone(), left, dies: Dies::Before, died: Arc::default() }.cluster()
    }

    async fn put(store: &MemoryStore, key: &'static str) {
        store.commit(Transaction::write([Write::put(key, "x")])).await.unwrap();
    }

    #[tokio::test]
    async fn one_that_dies_at_any_moment_is_made_good_by_the_next() {
        let expected = Sum::of(pairs().iter().map(|(key, value)| (&key[..], &value[..])));
        let moments = (0..9).flat_map(|answered| [(answered, Dies::Before), (answered, Dies::After)]);
        let mut died = 0;
        for (first, dies) in moments.clone() {
            for (second, again) in moments.clone() {
                let store = empty();
                put(&store, "x").await;
                store.commit(Transaction::write([Write::delete("x")])).await.unwrap();
                for (answered, dies) in [(first, dies), (second, again)] {
                    match fill(&store, answered, dies).await {
                        Some(filled) => {
                            // One that was done and did not say so is not begun again.
                            let is_done = filled.is_ok() || format!("{filled:?}").contains("is not empty");
                            assert!(is_done, "{first} {second}: {filled:?}");
                        }
                        None => died += 1,
                    }
                }
                let whole = match fill(&store, usize::MAX, Dies::Before).await.unwrap() {
                    Ok(sum) => sum,
                    Err(_) => Sum::of_entries(&on(&store).read().await.unwrap().contents.entries),
                };
                assert_eq!(whole, expected, "{first} {second}");
                let all = store.range(KeyRange::all(), None, usize::MAX).await.unwrap().entries;
                assert_eq!(Sum::of_entries(&all), expected, "{first} {second}");
            }
        }
        assert!(died > 100, "{died}");
    }

    #[tokio::test]
    async fn what_is_only_a_part_is_not_read_and_only_its_own_keys_are_taken_out() {
        for foreign in
            ["configmaps/a/140", "leases/kube-system/x", "masterleases/192.0.2.7", "configmaps/a/001"]
        {
            let store = empty();
            put(&store, "x").await;
            store.commit(Transaction::write([Write::delete("x")])).await.unwrap();
            assert!(fill(&store, 3, Dies::Before).await.is_none());
            let error = on(&store).read().await.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("holds a part of something: "), "{error}");
            let error = on(&store).want_empty(Revision::FIRST, &source("two")).await.unwrap_err().to_string();
            assert!(error.contains("holds a part of something else: "), "{error}");
            put(&store, foreign).await;
            let before = store.current_revision().await.unwrap();
            let error = fill(&store, usize::MAX, Dies::Before).await.unwrap().unwrap_err();
            assert!(
                format!("{error:#}").contains(&format!("has written `/registry/{foreign}` since")),
                "{error:#}"
            );
            assert_eq!(store.current_revision().await.unwrap(), before);
        }
    }

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
