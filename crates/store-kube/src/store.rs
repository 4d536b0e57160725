//! The store, and the watches of it.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use sternpost_cache::Share;
use sternpost_clock::machine;
use sternpost_layout::{NODE_PORTS, Ports};
use sternpost_store::{
    self as store, BoxFuture, Changes, CommitError, Committed, Compare, Delivery, Entry, GetAnswer, KeyRange,
    Page, ReadError, Revision, Stopped, Store, Transaction, Watch, WatchError, Watcher, Write, watch::Batch,
};

use crate::{
    Encrypting,
    view::{Unreadable, View, claim_entry, claimed_port},
};

const PORTS_KEY: Bytes = Bytes::from_static(NODE_PORTS.as_bytes());

/// Before a store that does not answer is asked again for a value.
const AGAIN: Duration = Duration::from_secs(1);

/// How often others may be faster with the node ports before a write is given up: each time one of them got on, so it is
/// more than may write at a time.
const ATTEMPTS: usize = 1000;

#[derive(Debug)]
pub struct Options {
    /// What stands before all keys in the store below, which does not show it: `/registry/`. Values are encrypted
    /// for their whole key.
    pub prefix: String,
    pub encryption: Arc<dyn Encrypting>,
    /// The range that is written where there is none yet.
    pub node_ports: RangeInclusive<u16>,
    /// Whether nothing is ever written.
    pub read_only: bool,
    /// Which resources are here; those of others are neither read nor written.
    pub share: Share,
}

/// See the [crate].
#[derive(Debug)]
pub struct KubeStore {
    inner: Arc<dyn Store>,
    view: Arc<View>,
    node_ports: RangeInclusive<u16>,
    read_only: bool,
}

impl KubeStore {
    pub fn new(inner: Arc<dyn Store>, options: Options) -> Self {
        let Options { prefix, encryption, node_ports, read_only, share } = options;
        Self { inner, view: Arc::new(View::new(prefix, encryption, share)), node_ports, read_only }
    }

    /// Says that values which could not be decrypted may be now.
    pub fn reopen(&self) {
        self.view.reopen();
    }

    /// Reads values again that could not be decrypted, whenever they may be now. Those that can be read then come with
    /// the watch at once ([`Watcher::regained`]). Runs for as long as the store is used.
    pub async fn reopening(self: Arc<Self>) {
        loop {
            for key in self.view.sealed().await {
                let found = loop {
                    match self.inner.get(key.clone(), None).await {
                        Ok(answer) => break answer.entry,
                        Err(error) => {
                            tracing::debug!(%error, "a value is not read again yet");
                            machine::sleep(AGAIN).await;
                        }
                    }
                };
                if let Some(Ok(entry)) = found.and_then(|theirs| self.view.object(&theirs)) {
                    self.view.regain(entry);
                }
            }
            // More may come all the time.
            machine::sleep(AGAIN).await;
        }
    }

    /// All values that could not be read when they were last seen.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.view.unreadable(&KeyRange::all())
    }

    /// Keys of a namespace that are no objects here: of kinds that are not served, one of each, and those whose values
    /// cannot be read. Complete as of the last revision that a watch of all keys has delivered.
    pub async fn unserved(&self, namespace: &str) -> Result<Vec<String>, ReadError> {
        let mut found = self.view.unreadable_in(namespace);
        let folders = self.view.foreign().ok_or_else(|| {
            let reason = "there are too many kinds that this server does not serve".to_owned();
            ReadError::Unavailable { reason }
        })?;
        for mut folder in folders {
            folder.extend_from_slice(b"/");
            folder.extend_from_slice(namespace.as_bytes());
            folder.extend_from_slice(b"/");
            let page = self.inner.range(KeyRange::prefix(folder), None, 1).await?;
            found.extend(page.entries.first().map(|entry| self.view.place(entry.key())));
        }
        found.dedup();
        Ok(found)
    }

    /// The node ports as they are kept; `None` if nobody has had any yet.
    pub async fn ports(&self) -> Result<Option<Ports>, CommitError> {
        Ok(self.ports_entry().await?.map(|(ports, _)| ports))
    }

    async fn ports_entry(&self) -> Result<Option<(Ports, Entry)>, CommitError> {
        let Some(entry) = self.inner.get(PORTS_KEY, None).await?.entry else {
            return Ok(None);
        };
        let ports = self.view.ports(&entry)?;
        Ok(Some((ports, entry)))
    }

    async fn write(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        transaction.check()?;
        for _ in 0..ATTEMPTS {
            let Plan { theirs, has_ports } = self.plan(&transaction).await?;
            let own: Vec<Bytes> = self.expect_back(&transaction, &theirs).collect();
            let answer = self.inner.commit(theirs).await;
            if answer.is_err() {
                own.iter().for_each(|key| self.view.own.forget(key));
            }
            match answer {
                Ok(committed) => return Ok(committed),
                Err(CommitError::Conflict { revision, mut current }) => {
                    // The ports' compare is the last one.
                    let ports_now = has_ports.then(|| current.pop().flatten());
                    let current = self.current(&transaction, &current, ports_now.flatten().as_ref())?;
                    let held = transaction.compares.iter().zip(&current);
                    if held.clone().any(|(compare, entry)| !compare.holds(entry.as_ref())) {
                        return Err(CommitError::Conflict { revision, current });
                    }
                    // Another server took or gave back a port meanwhile, and it was none of these.
                }
                Err(error) => return Err(error),
            }
        }
        Err(CommitError::Unavailable { reason: "node ports keep changing".to_owned() })
    }

    /// What is to be written for it, as things are.
    async fn plan(&self, transaction: &Transaction) -> Result<Plan, CommitError> {
        let keys = transaction.compares.iter().map(Compare::key);
        let has_ports =
            keys.chain(transaction.writes.iter().map(Write::key)).any(|key| claimed_port(key).is_some());
        let mut theirs = Transaction::default();
        for compare in &transaction.compares {
            if claimed_port(compare.key()).is_none() {
                theirs.compares.push(match compare {
                    Compare::Absent { key } => Compare::Absent { key: self.key(key)? },
                    Compare::Present { key } => Compare::Present { key: self.key(key)? },
                    Compare::Modified { key, revision } => {
                        Compare::Modified { key: self.key(key)?, revision: *revision }
                    }
                });
            }
        }
        for write in transaction.writes.iter().filter(|write| claimed_port(write.key()).is_none()) {
            theirs.writes.push(match write {
                Write::Put { key, value, ttl } => {
                    let their_key = self.key(key)?;
                    let value = self.view.value(key, &their_key, value);
                    let value = value.map_err(|reason| CommitError::Refused { reason })?;
                    Write::Put { key: their_key, value, ttl: *ttl }
                }
                Write::Delete { key } => Write::Delete { key: self.key(key)? },
            });
        }
        if has_ports {
            self.plan_ports(transaction, &mut theirs).await?;
        }
        Ok(Plan { theirs, has_ports })
    }

    /// Takes note of the objects that are about to be written, and tells their keys.
    fn expect_back<'a>(
        &'a self,
        ours: &'a Transaction,
        theirs: &'a Transaction,
    ) -> impl Iterator<Item = Bytes> + 'a {
        let objects = ours.writes.iter().filter(|write| claimed_port(write.key()).is_none());
        objects.zip(&theirs.writes).filter_map(|both| match both {
            (Write::Put { value: ours, .. }, Write::Put { key, value, .. }) => {
                self.view.own.add(key.clone(), value.clone(), ours.clone());
                Some(key.clone())
            }
            _ => None,
        })
    }

    /// Node ports as one value: read, changed, and compared with what was read.
    async fn plan_ports(
        &self,
        transaction: &Transaction,
        theirs: &mut Transaction,
    ) -> Result<(), CommitError> {
        let (mut ports, compare) = match self.ports_entry().await? {
            Some((ports, entry)) => (ports, Compare::Modified { key: PORTS_KEY, revision: entry.modified }),
            None => (Ports::free(self.node_ports.clone()), Compare::Absent { key: PORTS_KEY }),
        };
        let before = ports.taken.clone();
        for write in &transaction.writes {
            match (claimed_port(write.key()), write) {
                (Some(port), Write::Put { .. }) => {
                    if !ports.range().contains(&port) {
                        let (first, last) = (ports.range().start(), ports.range().end());
                        let reason = format!("node port {port} is not in the range {first}-{last}");
                        return Err(CommitError::Refused { reason });
                    }
                    ports.taken.insert(port);
                }
                (Some(port), Write::Delete { .. }) => drop(ports.taken.remove(&port)),
                (None, _) => {}
            }
        }
        let taken = |compare: &Compare| claimed_port(compare.key()).map(|port| before.contains(&port));
        // A port that is taken is not taken again: all but that holds, and this cannot.
        let fails = transaction.compares.iter().any(|compare| match (taken(compare), compare) {
            (Some(taken), Compare::Absent { .. }) => taken,
            (Some(taken), _) => !taken,
            (None, _) => false,
        });
        if fails {
            let revision = self.inner.current_revision().await?;
            let mut current = Vec::new();
            for compare in &transaction.compares {
                current.push(match claimed_port(compare.key()) {
                    Some(port) => before.contains(&port).then(|| claim_entry(port, revision, revision)),
                    None => self.get(compare.key().clone(), None).await?.entry,
                });
            }
            return Err(CommitError::Conflict { revision, current });
        }
        if ports.taken != before {
            theirs.writes.push(Write::put(PORTS_KEY, ports.value()));
        }
        theirs.compares.push(compare);
        Ok(())
    }

    /// Where that is which is at a key of ours.
    fn their_key(&self, ours: &[u8]) -> Option<Bytes> {
        match claimed_port(ours) {
            Some(_) => Some(PORTS_KEY),
            None => self.view.layout.place(ours),
        }
    }

    /// The same of an object that is written.
    fn key(&self, ours: &[u8]) -> Result<Bytes, CommitError> {
        self.view.layout.key(ours).map_err(|error| CommitError::Refused { reason: error.to_string() })
    }

    /// What is there for each compare of ours; of what cannot be read, that it is there.
    fn current(
        &self,
        transaction: &Transaction,
        theirs: &[Option<Entry>],
        ports: Option<&Entry>,
    ) -> Result<Vec<Option<Entry>>, CommitError> {
        let taken = match ports {
            Some(entry) => self.view.ports(entry)?.taken,
            None => BTreeSet::new(),
        };
        let mut theirs = theirs.iter();
        let mut current = Vec::new();
        for compare in &transaction.compares {
            current.push(match claimed_port(compare.key()) {
                Some(port) => ports
                    .filter(|_| taken.contains(&port))
                    .map(|entry| claim_entry(port, entry.created, entry.modified)),
                None => theirs.next().and_then(Option::as_ref).and_then(|entry| {
                    let unread = |_| Entry::new(compare.key(), b"", entry.created, entry.modified);
                    self.view.object(entry).map(|object| object.unwrap_or_else(unread))
                }),
            });
        }
        Ok(current)
    }

    /// The range of theirs for one of ours.
    fn range_of(&self, range: &KeyRange) -> Result<KeyRange, ReadError> {
        let unknown = || ReadError::Unavailable { reason: "only all keys can be read in order".to_owned() };
        match (range.start().split_last(), range.end()) {
            (None, None) => Ok(KeyRange::all()),
            // Behind one that was there.
            (Some((0, last)), None) => Ok(KeyRange::all().after(&self.their_key(last).ok_or_else(unknown)?)),
            _ => Err(unknown()),
        }
    }
}

/// A transaction of theirs.
struct Plan {
    theirs: Transaction,
    /// Whether it is about node ports; then the last compare is that of their value.
    has_ports: bool,
}

impl From<Unreadable> for CommitError {
    fn from(error: Unreadable) -> Self {
        Self::Refused { reason: error.to_string() }
    }
}

impl Store for KubeStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.inner.current_revision()
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        Box::pin(async move {
            let Some(theirs) = self.their_key(&key) else {
                let revision = match at {
                    Some(at) => at,
                    None => self.inner.current_revision().await?,
                };
                return Ok(GetAnswer { entry: None, revision, stale: false });
            };
            let GetAnswer { entry: theirs, revision, .. } = self.inner.get(theirs, at).await?;
            let entry = theirs.as_ref().map(|theirs| self.view.entry(&key, theirs)).transpose();
            let entry = entry.map_err(|error| ReadError::Unreadable(error.into()))?.flatten();
            let (entry, stale) = entry.map_or((None, false), |(entry, stale)| (Some(entry), stale));
            Ok(GetAnswer { entry, revision, stale })
        })
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let mut theirs = self.range_of(&range)?;
            let mut at = at;
            loop {
                let page = self.inner.range(theirs.clone(), at, limit).await?;
                let entries = self.view.page(&theirs, &page);
                match page.entries.last() {
                    // What is behind is asked for by the last that was answered, so there has to be one.
                    Some(last) if page.more && entries.is_empty() => {
                        theirs = theirs.after(last.key());
                        at = Some(page.revision);
                    }
                    _ => return Ok(Page { entries, revision: page.revision, more: page.more }),
                }
            }
        })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            if self.read_only {
                return Err(CommitError::ReadOnly);
            }
            self.write(transaction).await
        })
    }

    fn replayed(&self) -> u64 {
        self.inner.replayed()
    }

    fn expires(&self) -> bool {
        self.inner.expires()
    }

    fn has_unreadable(&self) -> bool {
        !self.view.is_all_readable()
    }

    fn unreadable(&self, range: &KeyRange) -> Vec<store::Unreadable> {
        self.view.unreadable(range).into_iter().map(Into::into).collect()
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        Box::pin(async move {
            let inner = self.inner.watch(self.range_of(&range)?, after).await?;
            let view = self.view.clone();
            Ok(Box::new(KubeWatch { inner, view, delivered: after, seen: Vec::new() }) as Watch)
        })
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        if self.read_only {
            let reason = CommitError::ReadOnly.to_string();
            return Box::pin(async { Err(ReadError::Unavailable { reason }) });
        }
        self.inner.compact(to)
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        self.inner.stopped()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

#[derive(Debug)]
struct KubeWatch {
    inner: Watch,
    view: Arc<View>,
    /// Everything up to here was.
    delivered: Revision,
    /// Changes after which the readability of keys is not what it was. It counts when whoever reads has seen them: an object
    /// is not to be missing in between.
    seen: Vec<(Bytes, Revision)>,
}

impl KubeWatch {
    fn delivery(&mut self, theirs: &Delivery) -> Delivery {
        let changes = match theirs {
            Delivery::Changes(changes) => changes,
            Delivery::Progress(revision) => {
                self.delivered = self.delivered.max(*revision);
                return Delivery::Progress(*revision);
            }
        };
        let revision = changes.revision();
        self.delivered = revision;
        let mut events: Vec<_> = changes.events().iter().flat_map(|event| self.view.events(event)).collect();
        if !self.view.is_all_readable() {
            let keys = changes.events().iter().map(|event| Bytes::copy_from_slice(event.key()));
            self.seen.extend(keys.map(|key| (key, revision)));
        }
        events.sort_by(|left, right| left.key().cmp(right.key()));
        let batch = Arc::new(Batch { revision, time: 0, events });
        match Changes::of(&batch, &KeyRange::all()) {
            Some(changes) => Delivery::Changes(changes),
            // Nothing of ours changed, and all up to here was delivered.
            None => Delivery::Progress(revision),
        }
    }
}

impl Watcher for KubeWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, WatchError>> {
        Box::pin(async {
            for (key, revision) in self.seen.drain(..) {
                self.view.forget(&key, revision);
            }
            tokio::select! {
                biased;
                theirs = self.inner.next() => {
                    let theirs = theirs?;
                    Ok(self.delivery(&theirs))
                }
                // Nothing may ever change again.
                () = self.view.is_regained() => Ok(Delivery::Progress(self.delivered)),
            }
        })
    }

    fn ready(&mut self) -> Option<Delivery> {
        let theirs = self.inner.ready()?;
        Some(self.delivery(&theirs))
    }

    fn regained(&mut self) -> Vec<Entry> {
        let found = self.view.regained();
        if found.is_empty() {
            return Vec::new();
        }
        let changed: HashMap<Bytes, Revision> = self.seen.iter().cloned().collect();
        let mut regained = Vec::new();
        for (theirs, entry) in found {
            // What has changed since then is told by that change.
            if changed.get(&theirs).is_none_or(|revision| *revision <= entry.modified) {
                self.seen.extend(entry.modified.plus(1).map(|behind| (theirs, behind)));
                regained.push(entry);
            }
        }
        regained
    }

    fn request_progress(&mut self) {
        self.inner.request_progress();
    }
}
