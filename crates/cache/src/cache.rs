//! All resources, and how they keep up with the stores.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use arc_swap::ArcSwap;
use rpds::HashTrieMapSync;
use sternpost_clock::{DueQueue, machine};
use sternpost_store::{
    Bytes, Changes, Delivery, Entry, Follower, KeyRange, ReadError, Revision, Store, Unreadable, Watch,
    WatchError, read::MAX_PAGE,
};
use tokio::sync::watch;

use crate::{
    key::{self, ResourceId},
    line::{Behind, Divided, Line, Overrides},
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
    /// The main one is that of all resources that have no store of their own.
    lines: Divided<Arc<Line>>,
    overrides: Overrides,
    indexer: Box<dyn Indexer>,
    recent: Mutex<Recent>,
    /// What lists are sent from.
    encodings: Arc<Encodings>,
}

/// A place among the changes that the cache has taken in, of whichever line they are; the first is before all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// Which resources changed lately.
#[derive(Default)]
struct Recent {
    /// When each changed last, oldest first. Changes of one resource in a row are one.
    changes: VecDeque<(Moment, Arc<ResourceCache>)>,
    /// Every change after this moment is there.
    oldest: Moment,
    /// That of the last change.
    now: Moment,
}

impl Recent {
    fn push(&mut self, resource: &Arc<ResourceCache>) {
        self.now = Moment(self.now.0 + 1);
        match self.changes.back_mut() {
            Some((last, known)) if Arc::ptr_eq(known, resource) => *last = self.now,
            _ => self.changes.push_back((self.now, resource.clone())),
        }
        if self.changes.len() > MAX_RECENT
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.oldest = gone;
        }
    }

    /// Whoever has looked before looks at everything.
    fn forget(&mut self) {
        self.now = Moment(self.now.0 + 1);
        self.changes.clear();
        self.oldest = self.now;
    }
}

/// Wakes whenever the cache got further on any line.
#[derive(Debug)]
pub struct Progress(Vec<watch::Receiver<u64>>);

impl Progress {
    /// Waits until the cache is further than when [`seen`](Self::seen) was called last; false if it has ended.
    pub async fn changed(&mut self) -> bool {
        // So it is for nearly all servers, and often.
        if let [line] = self.0.as_mut_slice() {
            return line.changed().await.is_ok();
        }
        let mut lines: Vec<_> = self.0.iter_mut().map(|line| Box::pin(line.changed())).collect();
        poll_fn(|context| {
            let mut ready = lines.iter_mut().filter_map(|line| match line.as_mut().poll(context) {
                Poll::Ready(changed) => Some(changed.is_ok()),
                Poll::Pending => None,
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Notes how far the cache is.
    pub fn seen(&mut self) {
        self.0.iter_mut().for_each(|line| drop(line.borrow_and_update()));
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("lines", &self.lines).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot read the store: {0}")]
    Read(#[from] ReadError),
}

/// Keeps a cache up with one store. Run it for as long as the cache is used.
#[derive(Debug)]
pub struct Feeder {
    cache: Arc<Cache>,
    line: Arc<Line>,
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
        let (cache, mut feeders) =
            Self::start_divided(Divided::new(store, Vec::new()), Overrides::default(), indexer).await?;
        Ok((cache, feeders.remove(0)))
    }

    /// As [`Cache::start`], of several stores, each with resources of its own: the main one, and those that the
    /// overrides call by the numbers from one on. No store shows what another has. Each has its feeder.
    pub async fn start_divided(
        stores: Divided<Arc<dyn Store>>,
        overrides: Overrides,
        indexer: Box<dyn Indexer>,
    ) -> Result<(Arc<Cache>, Vec<Feeder>), StartError> {
        let encodings = Arc::new(Encodings::default());
        let mut resources = HashTrieMapSync::new_sync();
        let mut lines = Vec::new();
        for store in stores.iter() {
            lines.push(Line::new(load_oldest(&**store, &*indexer, &encodings, &mut resources).await?));
        }
        let cache = Arc::new(Cache {
            resources: ArcSwap::from_pointee(resources),
            lines: Divided::new(lines.remove(0), lines),
            overrides,
            indexer,
            recent: Mutex::default(),
            encodings,
        });
        let mut feeders = Vec::new();
        for (store, line) in stores.iter().zip(cache.lines.iter()) {
            feeders.push(cache.fed(store.clone(), line).await?);
        }
        Ok((cache, feeders))
    }

    /// Follows a store from where it was loaded, up to what it has now.
    async fn fed(self: &Arc<Self>, store: Arc<dyn Store>, line: &Arc<Line>) -> Result<Feeder, StartError> {
        let oldest = line.oldest();
        let follower = Arc::new(LineFollower { cache: self.clone(), line: line.clone() });
        let (watch, asker) = match store.follow(oldest, follower) {
            Some(following) => {
                following?;
                (None, None)
            }
            None => {
                let (newest, asker) = Newest::of(store.clone());
                line.newest.get_or_init(|| newest);
                (Some(store.watch(KeyRange::all(), oldest).await?), Some(asker))
            }
        };
        let due = DueQueue::default();
        let (cache, line) = (self.clone(), line.clone());
        let mut feeder = Feeder { cache, line, store: store.clone(), watch, asker, due };
        let current = store.current_revision().await?;
        feeder.ask();
        while feeder.line.revision().get() < current.get() {
            feeder.step().await.map_err(|error| match error {
                WatchError::Compacted { oldest } => ReadError::Compacted { oldest },
                WatchError::Stopped(stopped) => ReadError::Stopped(stopped),
                other => ReadError::Unavailable { reason: other.to_string() },
            })?;
        }
        Ok(feeder)
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
            self.line(id).oldest(),
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

    /// The line that revisions of a resource are on.
    pub fn line(&self, id: &ResourceId) -> &Arc<Line> {
        // So it is for nearly all servers.
        if self.lines.is_one() {
            return &self.lines.main;
        }
        self.lines.numbered(self.overrides.number_of(&id.group, &id.resource))
    }

    /// That of all resources that have no store of their own.
    pub fn main_line(&self) -> &Arc<Line> {
        &self.lines.main
    }

    /// The main line, and those that have any of the resources that are in stores of their own.
    pub fn lines_of(&self, has: impl Fn(&ResourceId) -> bool) -> Vec<&Arc<Line>> {
        let mut numbers: Vec<usize> =
            self.overrides.iter().filter(|(id, _)| has(id)).map(|(_, number)| *number).collect();
        numbers.push(0);
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| self.lines.numbered(number)).collect()
    }

    /// Which resources are in stores of their own.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Whether there are several lines.
    pub fn is_divided(&self) -> bool {
        !self.lines.is_one()
    }

    /// Whether others write to the store as well: they may have been answered what is not here yet.
    pub fn others_write(&self) -> bool {
        self.lines.main.newest.get().is_some()
    }

    /// As [`Line::catches_up`], of all lines.
    pub async fn catches_up(&self, patience: Duration) -> Result<(), Behind> {
        for line in self.lines.iter() {
            line.catches_up(patience).await?;
        }
        Ok(())
    }

    /// Wakes whenever anything changed.
    pub fn progress(&self) -> Progress {
        Progress(self.lines.iter().map(|line| line.revision.subscribe()).collect())
    }

    /// How many changes there were.
    pub fn moment(&self) -> Moment {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    /// The resources that changed after a moment, those of which that can be read among them; one may be there several
    /// times. `None` if that is too long ago to know.
    pub fn changed_after(&self, moment: Moment) -> Option<Vec<Arc<ResourceCache>>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if moment < recent.oldest {
            return None;
        }
        let first = recent.changes.partition_point(|(changed, _)| *changed <= moment);
        Some(recent.changes.range(first..).map(|(_, resource)| resource.clone()).collect())
    }

    /// Applies transactions of a line in order. What is said to be lost is among what they delete.
    fn apply(&self, line: &Line, group: &[Changes], readability: Readability) {
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
        let is_any_regained = !regained.is_empty();
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
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).push(&cache);
            if cache.is_watched_by_many() {
                watched.push(cache);
            } else {
                cache.announce(machine::now());
            }
        }
        line.progressed(last);
        if is_any_regained {
            line.regained();
        }
        if self.encodings.sweep(machine::now()) {
            self.resources.load().values().for_each(|resource| resource.sweep());
        }
        // Waking many is for the feeder: this may be the thread that writes.
        if !watched.is_empty() {
            line.unannounced.lock().unwrap_or_else(PoisonError::into_inner).extend(watched);
            line.announcing.notify_one();
        }
    }
}

/// What else has come with some transactions.
#[derive(Default)]
struct Readability {
    /// Values that cannot be read any more.
    lost: Vec<Unreadable>,
    /// Values that can be read again, as of the last revision; which may be the one before, if nothing changed since.
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
}

/// Takes in what a store makes of its changes by itself.
#[derive(Debug)]
struct LineFollower {
    cache: Arc<Cache>,
    line: Arc<Line>,
}

impl Follower for LineFollower {
    fn changed(&self, group: &[Changes]) {
        self.cache.apply(&self.line, group, Readability::default());
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
            () = self.line.announcing.notified() => {
                self.announce();
                return Ok(());
            }
            () = until(self.due.next()) => {
                self.announce();
                return Ok(());
            }
            () = self.line.asking.notified() => {
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
                self.cache.apply(&self.line, &group, Readability { lost, regained, reached });
            }
            Ok(Delivery::Progress(revision)) => {
                let (regained, known) = (self.regained(), self.line.revision());
                if revision > known || !regained.is_empty() {
                    let reached = revision.max(known).get();
                    let readability = Readability { regained, reached, ..Readability::default() };
                    self.cache.apply(&self.line, &[], readability);
                }
            }
            Err(ended) => {
                let (cache, line, store) = (self.cache.clone(), self.line.clone(), self.store.clone());
                let mut taking_up = pin!(take_up(&cache, &line, &*store, ended));
                // It may take long: what was read before is announced meanwhile, and whoever wants to know how new the
                // store is, is answered.
                let watch = loop {
                    tokio::select! {
                        biased;
                        () = self.line.announcing.notified() => self.announce(),
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
            std::mem::take(&mut *self.line.unannounced.lock().unwrap_or_else(PoisonError::into_inner));
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
async fn take_up(
    cache: &Cache,
    line: &Arc<Line>,
    store: &dyn Store,
    ended: WatchError,
) -> Result<Watch, WatchError> {
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
                begin_again(cache, line, store).await?;
            }
            store.watch(KeyRange::all(), line.revision()).await
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
async fn begin_again(cache: &Cache, line: &Arc<Line>, store: &dyn Store) -> Result<(), ReadError> {
    let at = store.current_revision().await?;
    let mut objects = load(store, at, &*cache.indexer).await?;
    // What may be read later stays as it was until then.
    for found in store.unreadable(&KeyRange::all()).iter().filter(|found| found.sealed) {
        let Some((group, resource, place)) = key::split(&found.key) else { continue };
        let id = ResourceId::new(group, resource);
        let snapshot = cache.resource(&id).snapshot();
        if let Some(kept) = found.key.get(place..).and_then(|place| snapshot.at(place)) {
            let set = objects.entry(id).or_insert_with(Objects::new_sync);
            set.insert_mut(ByPlace(Arc::new(kept.outdated())));
        }
    }
    line.oldest.store(at.get(), Ordering::Release);
    let on_line = || {
        let mut all = cache.resources();
        all.retain(|resource| Arc::ptr_eq(cache.line(&resource.id), line));
        all
    };
    for resource in on_line() {
        resource.replace(objects.remove(&resource.id).unwrap_or_else(Objects::new_sync), at);
    }
    for (id, objects) in objects {
        cache.resource(&id).replace(objects, at);
    }
    cache.recent.lock().unwrap_or_else(PoisonError::into_inner).forget();
    line.progressed(at.get());
    line.unannounced.lock().unwrap_or_else(PoisonError::into_inner).extend(on_line());
    line.announcing.notify_one();
    Ok(())
}

/// The oldest state that is left, or that the store would have replayed; everything since is replayed on it. On a store
/// that others compact it may be forgotten while it is read, and then the next is taken.
async fn load_oldest(
    store: &dyn Store,
    indexer: &dyn Indexer,
    encodings: &Arc<Encodings>,
    resources: &mut HashTrieMapSync<ResourceId, Arc<ResourceCache>>,
) -> Result<Revision, ReadError> {
    let newest = store.current_revision().await?;
    let begin = newest.get().saturating_sub(store.replayed());
    let mut oldest = Revision::new(begin).unwrap_or(Revision::FIRST);
    for _ in 0..MAX_LOADS {
        match load(store, oldest, indexer).await {
            Ok(objects) => {
                for (id, objects) in objects {
                    let resource = ResourceCache::new(id.clone(), objects, oldest, encodings.clone());
                    resources.insert_mut(id, Arc::new(resource));
                }
                return Ok(oldest);
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
