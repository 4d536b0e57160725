//! All resources, and how they keep up with the store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use sternpost_store::{
    Delivery, Event as Change, KeyRange, ReadError, Revision, Store, Watch, WatchError, read::MAX_PAGE,
};
use tokio::sync::watch;

use crate::{
    key::{self, ResourceId},
    object::{Indexer, Object},
    resource::{Objects, Placed, ResourceCache},
};

pub struct Cache {
    resources: ArcSwap<HashMap<ResourceId, Arc<ResourceCache>>>,
    /// Everything up to this revision is in the cache.
    revision: watch::Sender<u64>,
    indexer: Box<dyn Indexer>,
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

/// Keeps a cache up with its store. Run it for as long as the cache is used.
#[derive(Debug)]
pub struct Feeder {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    watch: Watch,
}

impl Cache {
    /// Loads everything the store holds, its history included, so that a watch
    /// goes on across a restart. Done when the cache is as new as the store was.
    pub async fn start(
        store: Arc<dyn Store>,
        indexer: Box<dyn Indexer>,
    ) -> Result<(Arc<Cache>, Feeder), StartError> {
        // From the oldest state that is left, everything since is replayed.
        let oldest = match store.range(KeyRange::all(), Some(Revision::FIRST), 1).await {
            Ok(_) => Revision::FIRST,
            Err(ReadError::Compacted { oldest }) => oldest,
            Err(error) => return Err(error.into()),
        };
        let cache = Arc::new(Cache {
            resources: ArcSwap::from_pointee(load(&*store, oldest, &*indexer).await?),
            revision: watch::Sender::new(oldest.get()),
            indexer,
        });
        let watch = store.watch(KeyRange::all(), oldest).await?;
        let mut feeder = Feeder { cache: cache.clone(), store: store.clone(), watch };
        let current = store.current_revision().await?;
        while cache.revision().get() < current.get() {
            if feeder.step().await.is_err() {
                return Err(ReadError::Compacted { oldest: current }.into());
            }
        }
        Ok((cache, feeder))
    }

    /// The cache of a resource; empty for one that nothing was ever stored of.
    pub fn resource(&self, id: &ResourceId) -> Arc<ResourceCache> {
        if let Some(found) = self.resources.load().get(id) {
            return found.clone();
        }
        // Nothing of it existed when the cache started, and it would be there
        // had anything been stored since; so all of its history is empty.
        let revision = Revision::FIRST;
        let new = Arc::new(ResourceCache::new(id.clone(), Objects::new_sync(), revision));
        let mut found = new.clone();
        self.resources.rcu(|resources| {
            let mut resources = HashMap::clone(resources);
            found = resources.entry(id.clone()).or_insert_with(|| new.clone()).clone();
            resources
        });
        found
    }

    /// Everything up to this revision can be read.
    pub fn revision(&self) -> Revision {
        Revision::new(*self.revision.borrow()).unwrap_or(Revision::FIRST)
    }

    /// Waits until `revision` can be read; false if that takes longer than `patience`.
    pub async fn reaches(&self, revision: Revision, patience: Duration) -> bool {
        let mut seen = self.revision.subscribe();
        let reached = seen.wait_for(|seen| *seen >= revision.get());
        matches!(tokio::time::timeout(patience, reached).await, Ok(Ok(_)))
    }

    /// Wakes whenever anything changed.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn apply(&self, revision: Revision, changes: &[Change]) {
        let mut by_resource: HashMap<ResourceId, Vec<Placed>> = HashMap::new();
        for change in changes {
            let Some((group, resource, place)) = key::split(change.key()) else {
                tracing::warn!("a key in the store is not that of an object");
                continue;
            };
            let id = ResourceId::new(group, resource);
            let object = change
                .entry()
                .map(|entry| Object::new(&*self.indexer, &id, place, revision, entry.value.clone()));
            by_resource.entry(id).or_default().push((place.into(), object));
        }
        for (id, changes) in by_resource {
            self.resource(&id).apply(revision, changes);
        }
        self.revision.send_replace(revision.get());
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
        match self.watch.next().await {
            Ok(Delivery::Changes(changes)) => self.cache.apply(changes.revision(), changes.events()),
            Ok(Delivery::Progress(_)) => {}
            // Nothing is lost: the watch is taken up where it ended.
            Err(WatchError::Lagged { .. }) => {
                let after = self.cache.revision();
                self.watch = self.store.watch(KeyRange::all(), after).await.map_err(|error| match error {
                    ReadError::Compacted { oldest } => WatchError::Compacted { oldest },
                    ReadError::Stopped(stopped) => WatchError::Stopped(stopped),
                    other => WatchError::Unavailable { reason: other.to_string() },
                })?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

async fn load(
    store: &dyn Store,
    at: Revision,
    indexer: &dyn Indexer,
) -> Result<HashMap<ResourceId, Arc<ResourceCache>>, ReadError> {
    let mut objects: HashMap<ResourceId, Objects> = HashMap::new();
    let mut range = KeyRange::all();
    loop {
        let page = store.range(range.clone(), Some(at), MAX_PAGE).await?;
        for entry in &page.entries {
            if let Some((group, resource, place)) = key::split(&entry.key) {
                let id = ResourceId::new(group, resource);
                let object = Object::new(indexer, &id, place, entry.modified, entry.value.clone());
                let map = objects.entry(id).or_insert_with(Objects::new_sync);
                map.insert_mut(place.into(), Arc::new(object));
            }
        }
        match page.entries.last() {
            Some(last) if page.more => range = range.after(&last.key),
            _ => break,
        }
    }
    let resources =
        objects.into_iter().map(|(id, objects)| (id.clone(), Arc::new(ResourceCache::new(id, objects, at))));
    Ok(resources.collect())
}
