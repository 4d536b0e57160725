//! All resources, and how they keep up with the store.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use rpds::HashTrieMapSync;
use sternpost_clock::{DueQueue, machine};
use sternpost_store::{
    Bytes, Changes, Delivery, Entry, Follower, KeyRange, ReadError, Revision, Store, Unreadable, Watch,
    WatchError, read::MAX_PAGE,
};
use tokio::sync::{Notify, watch};

use crate::{
    key::{self, ResourceId},
    newest::{Asker, Newest},
    object::{Indexer, Object},
    resource::{ByPlace, Change, Objects, ResourceCache},
    runs::Encodings,
};

/// Changes that are remembered by their resource, for those who follow all resources. Who is further behind
/// looks at every one.
const MAX_RECENT: usize = 4096;

/// Transactions that are applied together, if as many are there already. More
/// would only make the first of them wait.
const MAX_GROUP: usize = 1024;

/// How often loading begins again because history was compacted meanwhile. That happens minutes apart: whoever
/// needs longer than that so often has more objects than can be loaded.
const MAX_LOADS: usize = 5;

/// Before a store that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

pub struct Cache {
    /// Persistent: with every definition another one comes, whatever the number of those that are there.
    resources: ArcSwap<HashTrieMapSync<ResourceId, Arc<ResourceCache>>>,
    /// Where the history begins that the cache has.
    oldest: AtomicU64,
    /// Everything up to this revision is in the cache.
    revision: watch::Sender<u64>,
    indexer: Box<dyn Indexer>,
    recent: Mutex<Recent>,
    /// Resources whose watchers have not been told yet what happened.
    unannounced: Mutex<Vec<Arc<ResourceCache>>>,
    /// Wakes the feeder when there are some.
    announcing: Notify,
    /// Wakes the feeder when somebody waits for a revision: the store is asked how far it is, for what took that
    /// revision may be none of the cache's keys.
    asking: Notify,
    /// How new the store is, if others write to it as well.
    newest: OnceLock<Arc<Newest>>,
    /// What lists are sent from.
    encodings: Arc<Encodings>,
}

/// Which resources changed lately.
struct Recent {
    /// With the revision of the last change, oldest first. Changes of one resource in a row are one.
    changes: VecDeque<(u64, Arc<ResourceCache>)>,
    /// Every change after this revision is there.
    oldest: u64,
}

impl Recent {
    fn push(&mut self, revision: u64, resource: &Arc<ResourceCache>) {
        match self.changes.back_mut() {
            Some((last, known)) if Arc::ptr_eq(known, resource) => *last = revision,
            _ => self.changes.push_back((revision, resource.clone())),
        }
        if self.changes.len() > MAX_RECENT
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.oldest = gone;
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("revision", &*self.revision.borrow()).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot read the store: {0}")]
    Read(#[from] ReadError),
}

/// Why it is not certain that the cache has what others were answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Behind {
    /// The store does not say how new it is.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store is as new as that, and the cache did not get there in time.
    #[error("revision {newest} is not in the cache yet")]
    Slow { newest: Revision },
}

/// Keeps a cache up with its store. Run it for as long as the cache is used.
#[derive(Debug)]
pub struct Feeder {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    /// `None` if the store hands over its changes by itself.
    watch: Option<Watch>,
    /// `None` if nobody else writes to the store.
    asker: Option<Asker>,
    /// Resources whose watchers have to be told, and when.
    due: DueQueue<machine::Instant, ResourceId, Arc<ResourceCache>>,
}

impl Cache {
    /// Loads everything the store holds, its history included, so that a watch
    /// goes on across a restart. Done when the cache is as new as the store was.
    pub async fn start(
        store: Arc<dyn Store>,
        indexer: Box<dyn Indexer>,
    ) -> Result<(Arc<Cache>, Feeder), StartError> {
        let encodings = Arc::new(Encodings::default());
        let (oldest, resources) = load_oldest(&*store, &*indexer, &encodings).await?;
        let cache = Arc::new(Cache {
            resources: ArcSwap::from_pointee(resources),
            oldest: AtomicU64::new(oldest.get()),
            revision: watch::Sender::new(oldest.get()),
            indexer,
            recent: Mutex::new(Recent { changes: VecDeque::new(), oldest: oldest.get() }),
            unannounced: Mutex::default(),
            announcing: Notify::new(),
            asking: Notify::new(),
            newest: OnceLock::new(),
            encodings,
        });
        let (watch, asker) = match store.follow(oldest, cache.clone()) {
            Some(following) => {
                following?;
                (None, None)
            }
            None => {
                let (newest, asker) = Newest::of(store.clone());
                cache.newest.get_or_init(|| newest);
                (Some(store.watch(KeyRange::all(), oldest).await?), Some(asker))
            }
        };
        let due = DueQueue::default();
        let mut feeder = Feeder { cache: cache.clone(), store: store.clone(), watch, asker, due };
        let current = store.current_revision().await?;
        feeder.ask();
        while cache.revision().get() < current.get() {
            feeder.step().await.map_err(|error| match error {
                WatchError::Compacted { oldest } => ReadError::Compacted { oldest },
                WatchError::Stopped(stopped) => ReadError::Stopped(stopped),
                other => ReadError::Unavailable { reason: other.to_string() },
            })?;
        }
        Ok((cache, feeder))
    }

    /// The cache of a resource; empty for one that nothing was ever stored of.
    pub fn resource(&self, id: &ResourceId) -> Arc<ResourceCache> {
        if let Some(found) = self.resources.load().get(id) {
            return found.clone();
        }
        // Nothing of it existed in the oldest state that is left, and it would be
        // there had anything been stored since; what was before nobody knows.
        let new = Arc::new(ResourceCache::new(
            id.clone(),
            Objects::new_sync(),
            Revision::new(self.oldest.load(Ordering::Acquire)).unwrap_or(Revision::FIRST),
            self.encodings.clone(),
        ));
        let mut found = new.clone();
        self.resources.rcu(|resources| match resources.get(id) {
            Some(before) => {
                found = before.clone();
                resources.clone()
            }
            None => {
                found = new.clone();
                Arc::new(resources.insert(id.clone(), new.clone()))
            }
        });
        found
    }

    /// All resources of which there is, or was, anything.
    pub fn resources(&self) -> Vec<Arc<ResourceCache>> {
        self.resources.load().values().cloned().collect()
    }

    /// The bytes that lists are sent from.
    pub fn encodings(&self) -> &Encodings {
        &self.encodings
    }

    /// Everything up to this revision can be read.
    pub fn revision(&self) -> Revision {
        Revision::new(*self.revision.borrow()).unwrap_or(Revision::FIRST)
    }

    /// Waits until `revision` can be read; false if that takes longer than `patience`.
    pub async fn reaches(&self, revision: Revision, patience: Duration) -> bool {
        // So it is after a commit to a store that hands over its changes.
        if *self.revision.borrow() >= revision.get() {
            return true;
        }
        self.asking.notify_one();
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|seen| *seen >= revision.get());
        matches!(machine::timeout(patience, reached).await, Ok(Ok(_)))
    }

    /// Whether others write to the store as well: they may have been answered what is not here yet.
    pub fn others_write(&self) -> bool {
        self.newest.get().is_some()
    }

    /// Waits until everything can be read that anybody was answered before this was called; not longer than
    /// `patience` until the store has said how new it is, and from then on. Where nobody else writes it is always so.
    pub async fn catches_up(&self, patience: Duration) -> Result<(), Behind> {
        let Some(newest) = self.newest.get() else { return Ok(()) };
        let newest = machine::timeout(patience, newest.revision()).await.unwrap_or_else(|_| {
            Err(ReadError::Unavailable { reason: format!("it has not said in {patience:?} how new it is") })
        })?;
        if self.reaches(newest, patience).await { Ok(()) } else { Err(Behind::Slow { newest }) }
    }

    /// Wakes whenever anything changed.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The resources that changed after `revision`, those that changed up to [`Cache::revision`] among them;
    /// one may be there several times. `None` if that is too long ago to know.
    pub fn changed_after(&self, revision: u64) -> Option<Vec<Arc<ResourceCache>>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if revision < recent.oldest {
            return None;
        }
        let first = recent.changes.partition_point(|(changed, _)| *changed <= revision);
        Some(recent.changes.range(first..).map(|(_, resource)| resource.clone()).collect())
    }

    /// Applies transactions in order. What is said to be lost is among what they delete.
    fn apply(&self, group: &[Changes], readability: Readability) {
        let Readability { lost, regained, reached } = readability;
        let mut by_resource: Vec<(Arc<ResourceCache>, Vec<Change>)> = Vec::new();
        for changes in group {
            let revision = changes.revision();
            for event in changes.events() {
                let Some((group, resource, place)) = key::split(event.key()) else {
                    tracing::warn!("a key in the store is not that of an object");
                    continue;
                };
                let Some((cache, changes)) = self.changes_of(&mut by_resource, group, resource) else {
                    continue;
                };
                changes.push(match event.entry() {
                    Some(entry) => {
                        Change::Put(Object::new(&*self.indexer, &cache.id, place, revision, entry.clone()))
                    }
                    None => {
                        let key = Bytes::copy_from_slice(event.key());
                        match lost.iter().find(|lost| lost.modified == revision && lost.key == key) {
                            Some(Unreadable { sealed, .. }) => {
                                Change::Lost { key, place, revision, sealed: *sealed }
                            }
                            None => Change::Deleted { key, place, revision },
                        }
                    }
                });
            }
        }
        let last = group.last().map_or(0, |changes| changes.revision().get()).max(reached);
        for entry in regained {
            let (Some((group, resource, place)), Some(revision)) =
                (key::split(entry.key()), Revision::new(last))
            else {
                continue;
            };
            let Some((cache, changes)) = self.changes_of(&mut by_resource, group, resource) else { continue };
            let object = Object::new(&*self.indexer, &cache.id, place, entry.modified, entry.clone());
            changes.push(Change::Regained { object, revision });
        }
        let mut watched = Vec::new();
        for (cache, changes) in by_resource {
            cache.apply(changes);
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(last, &cache);
            if cache.is_watched_by_many() {
                watched.push(cache);
            } else {
                cache.announce(machine::now());
            }
        }
        self.progressed(last);
        if self.encodings.sweep(machine::now()) {
            self.resources.load().values().for_each(|resource| resource.sweep());
        }
        // Waking many is for the feeder: this may be the thread that writes.
        if !watched.is_empty() {
            self.unannounced.lock().unwrap_or_else(PoisonError::into_inner).extend(watched);
            self.announcing.notify_one();
        }
    }
}

/// What else has come with some transactions.
#[derive(Default)]
struct Readability {
    /// Values that cannot be read any more.
    lost: Vec<Unreadable>,
    /// Values that can be read again, as of the last revision, which is greater than the one before.
    regained: Vec<Entry>,
    /// All changes up to this revision are there, behind the last transaction as well.
    reached: u64,
}

impl Cache {
    /// The changes of a resource among those of all.
    fn changes_of<'a>(
        &self,
        all: &'a mut Vec<(Arc<ResourceCache>, Vec<Change>)>,
        group: &str,
        resource: &str,
    ) -> Option<&'a mut (Arc<ResourceCache>, Vec<Change>)> {
        // Few resources change together: walking is faster than hashing.
        let is_this = |id: &ResourceId| (&*id.group, &*id.resource) == (group, resource);
        let found = all.iter().position(|(cache, _)| is_this(&cache.id));
        let found = found.unwrap_or_else(|| {
            all.push((self.resource(&ResourceId::new(group, resource)), Vec::new()));
            all.len() - 1
        });
        all.get_mut(found)
    }

    /// Everything up to this revision is in the cache.
    fn progressed(&self, to: u64) {
        self.revision.send_if_modified(|revision| {
            let is_newer = to > *revision;
            *revision = to.max(*revision);
            is_newer
        });
    }
}

impl Follower for Cache {
    fn changed(&self, group: &[Changes]) {
        self.apply(group, Readability::default());
    }
}

impl Feeder {
    /// Ends only when the store does.
    pub async fn run(mut self) -> WatchError {
        loop {
            if let Err(error) = self.step().await {
                return error;
            }
        }
    }

    async fn step(&mut self) -> Result<(), WatchError> {
        let delivery = tokio::select! {
            biased;
            () = self.cache.announcing.notified() => {
                self.announce();
                return Ok(());
            }
            () = until(self.due.next()) => {
                self.announce();
                return Ok(());
            }
            () = self.cache.asking.notified() => {
                self.ask();
                return Ok(());
            }
            never = asking(&mut self.asker) => match never {},
            delivery = next(&mut self.watch) => delivery,
        };
        match delivery {
            Ok(Delivery::Changes(changes)) => {
                // Whatever else is there goes with it: one snapshot, one wake-up for all.
                let mut lost = self.lost(&changes);
                let mut group = vec![changes];
                let mut reached = 0;
                while group.len() < MAX_GROUP
                    && let Some(delivery) = self.watch.as_mut().and_then(|watch| watch.ready())
                {
                    match delivery {
                        Delivery::Changes(changes) => {
                            lost.extend(self.lost(&changes));
                            group.push(changes);
                        }
                        Delivery::Progress(revision) => reached = revision.get(),
                    }
                }
                let regained = self.regained();
                self.cache.apply(&group, Readability { lost, regained, reached });
            }
            // Whoever follows what changes looks at what is behind the revision that they saw.
            Ok(Delivery::Progress(revision)) if revision > self.cache.revision() => {
                let (regained, reached) = (self.regained(), revision.get());
                self.cache.apply(&[], Readability { regained, reached, ..Readability::default() });
            }
            Ok(Delivery::Progress(_)) => {}
            Err(ended) => {
                let (cache, store) = (self.cache.clone(), self.store.clone());
                let mut taking_up = pin!(take_up(&cache, &*store, ended));
                // It may take long: what was read before is announced meanwhile, and whoever wants to know how new the
                // store is, is answered.
                let watch = loop {
                    tokio::select! {
                        biased;
                        () = self.cache.announcing.notified() => self.announce(),
                        () = until(self.due.next()) => self.announce(),
                        never = asking(&mut self.asker) => match never {},
                        watch = &mut taking_up => break watch?,
                    }
                };
                self.watch = Some(watch);
                // What was asked of the one that ended is not answered any more.
                self.ask();
            }
        }
        Ok(())
    }

    /// What is deleted by these changes only because the store cannot read it any more. Asked before the next are
    /// taken from the store, which may have it readable again. One that was unreadable before is really deleted.
    fn lost(&self, changes: &Changes) -> Vec<Unreadable> {
        let deleted = changes.events().iter().filter(|event| event.entry().is_none());
        deleted
            .flat_map(|event| self.store.unreadable(&KeyRange::single(Bytes::copy_from_slice(event.key()))))
            .filter(|unreadable| unreadable.modified == changes.revision())
            .collect()
    }

    /// What the store can read again, as of what it has delivered.
    fn regained(&mut self) -> Vec<Entry> {
        self.watch.as_mut().map(|watch| watch.regained()).unwrap_or_default()
    }

    /// Asks a store that is watched how far it is.
    fn ask(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.request_progress();
        }
    }

    /// Tells those who wait for something that changed, unless it is too soon.
    fn announce(&mut self) {
        let now = machine::now();
        let changed =
            std::mem::take(&mut *self.cache.unannounced.lock().unwrap_or_else(PoisonError::into_inner));
        for resource in changed {
            self.due.insert_earlier(resource.id.clone(), now, resource);
        }
        while let Some((id, resource)) = self.due.pop(now) {
            if let Some(later) = resource.announce(now) {
                self.due.insert(id, later, resource);
            }
        }
    }
}

async fn until(due: Option<machine::Instant>) {
    match due {
        Some(due) => machine::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn asking(asker: &mut Option<Asker>) -> Infallible {
    match asker {
        Some(asker) => asker.ask().await,
        None => std::future::pending().await,
    }
}

async fn next(watch: &mut Option<Watch>) -> Result<Delivery, WatchError> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

/// Goes on with a watch where it ended. If what happened since then is forgotten, the cache takes the state that there
/// is now, and begins with it.
async fn take_up(cache: &Cache, store: &dyn Store, ended: WatchError) -> Result<Watch, WatchError> {
    let mut forgotten = match ended {
        WatchError::Compacted { oldest } => Some(oldest),
        WatchError::Stopped(stopped) => return Err(stopped.into()),
        WatchError::Unavailable { reason } => {
            tracing::warn!("the store is not watched any more: {reason}");
            machine::sleep(AGAIN).await;
            None
        }
        // Nothing is lost.
        WatchError::Lagged { .. } => None,
    };
    loop {
        let taken_up = async {
            if let Some(oldest) = forgotten.take() {
                tracing::warn!(
                    "history up to {oldest} was forgotten before it was read; reading everything anew"
                );
                begin_again(cache, store).await?;
            }
            store.watch(KeyRange::all(), cache.revision()).await
        };
        match taken_up.await {
            Ok(watch) => return Ok(watch),
            Err(ReadError::Compacted { oldest }) => forgotten = Some(oldest),
            Err(ReadError::Stopped(stopped)) => return Err(stopped.into()),
            // Revisions never go back: it is not the store that it was.
            Err(error @ ReadError::Future { .. }) => {
                return Err(WatchError::Unavailable { reason: error.to_string() });
            }
            Err(error) => {
                tracing::warn!("cannot watch the store: {error}");
                machine::sleep(AGAIN).await;
            }
        }
    }
}

/// Takes the state of the store for that of the cache, without knowing what led to it: all watches end, and lists of
/// older states.
async fn begin_again(cache: &Cache, store: &dyn Store) -> Result<(), ReadError> {
    let at = store.current_revision().await?;
    let mut objects = load(store, at, &*cache.indexer).await?;
    cache.oldest.store(at.get(), Ordering::Release);
    let known: Vec<Arc<ResourceCache>> = cache.resources.load().values().cloned().collect();
    for resource in &known {
        resource.replace(objects.remove(&resource.id).unwrap_or_else(Objects::new_sync), at);
    }
    for (id, objects) in objects {
        cache.resource(&id).replace(objects, at);
    }
    {
        let mut recent = cache.recent.lock().unwrap_or_else(PoisonError::into_inner);
        *recent = Recent { changes: VecDeque::new(), oldest: at.get() };
    }
    cache.progressed(at.get());
    let all = cache.resources.load().values().cloned().collect::<Vec<_>>();
    cache.unannounced.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
    cache.announcing.notify_one();
    Ok(())
}

/// The oldest state that is left; everything since is replayed on it. On a store that others compact it may be
/// forgotten while it is read, and then the next is taken.
async fn load_oldest(
    store: &dyn Store,
    indexer: &dyn Indexer,
    encodings: &Arc<Encodings>,
) -> Result<(Revision, HashTrieMapSync<ResourceId, Arc<ResourceCache>>), ReadError> {
    let mut oldest = Revision::FIRST;
    for _ in 0..MAX_LOADS {
        match load(store, oldest, indexer).await {
            Ok(objects) => {
                let resources = objects.into_iter().map(|(id, objects)| {
                    let resource = ResourceCache::new(id.clone(), objects, oldest, encodings.clone());
                    (id, Arc::new(resource))
                });
                return Ok((oldest, resources.collect()));
            }
            Err(ReadError::Compacted { oldest: left }) => oldest = left,
            Err(error) => return Err(error),
        }
    }
    Err(ReadError::Compacted { oldest })
}

async fn load(
    store: &dyn Store,
    at: Revision,
    indexer: &dyn Indexer,
) -> Result<HashMap<ResourceId, Objects>, ReadError> {
    let mut objects: HashMap<ResourceId, Objects> = HashMap::new();
    let mut range = KeyRange::all();
    loop {
        let page = store.range(range.clone(), Some(at), MAX_PAGE).await?;
        for entry in &page.entries {
            if let Some((group, resource, place)) = key::split(entry.key()) {
                let id = ResourceId::new(group, resource);
                let object = Object::new(indexer, &id, place, entry.modified, entry.clone());
                let set = objects.entry(id).or_insert_with(Objects::new_sync);
                set.insert_mut(ByPlace(Arc::new(object)));
            }
        }
        match page.entries.last() {
            // Of all: a store may have its keys in another order.
            Some(last) if page.more => range = KeyRange::all().after(last.key()),
            _ => return Ok(objects),
        }
    }
}
