//! Lines of revisions: each store has one of its own, and places on two of them cannot be compared.
//!
//! Most servers have one store, and all resources are on its line. Where resources are in stores of their own
//! ([`Overrides`]), whoever has a revision asks [`Cache::line`](crate::Cache::line) for the line of the resource that it is
//! of: there is no revision of the whole cache.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sternpost_clock::machine;
use sternpost_store::{ReadError, Revision};
use tokio::sync::{Notify, watch};

use crate::{key::ResourceId, newest::Newest, resource::ResourceCache};

/// How far the cache is with one store.
#[derive(Debug)]
pub struct Line {
    /// Where the history begins that the cache has.
    pub(crate) oldest: AtomicU64,
    /// Everything up to this revision is in the cache.
    pub(crate) revision: watch::Sender<u64>,
    /// Resources whose watchers have not been told yet what happened.
    pub(crate) unannounced: Mutex<Vec<Arc<ResourceCache>>>,
    /// Wakes the feeder when there are some.
    pub(crate) announcing: Notify,
    /// Wakes the feeder when somebody waits for a revision: the store is asked how far it is, for what took that
    /// revision may be none of the cache's keys.
    pub(crate) asking: Notify,
    /// How new the store is, if others write to it as well.
    pub(crate) newest: OnceLock<Arc<Newest>>,
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

impl Line {
    pub(crate) fn new(oldest: Revision) -> Arc<Self> {
        Arc::new(Self {
            oldest: AtomicU64::new(oldest.get()),
            revision: watch::Sender::new(oldest.get()),
            unannounced: Mutex::default(),
            announcing: Notify::new(),
            asking: Notify::new(),
            newest: OnceLock::new(),
        })
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

    /// Waits until everything can be read that anybody was answered before this was called; not longer than
    /// `patience` until the store has said how new it is, and from then on. Where nobody else writes it is always so.
    pub async fn catches_up(&self, patience: Duration) -> Result<(), Behind> {
        let Some(newest) = self.newest.get() else { return Ok(()) };
        let newest = machine::timeout(patience, newest.revision()).await.unwrap_or_else(|_| {
            Err(ReadError::Unavailable { reason: format!("it has not said in {patience:?} how new it is") })
        })?;
        if self.reaches(newest, patience).await { Ok(()) } else { Err(Behind::Slow { newest }) }
    }

    pub(crate) fn oldest(&self) -> Revision {
        Revision::new(self.oldest.load(Ordering::Acquire)).unwrap_or(Revision::FIRST)
    }

    /// Everything up to this revision is in the cache.
    pub(crate) fn progressed(&self, to: u64) {
        self.revision.send_if_modified(|revision| {
            let is_newer = to > *revision;
            *revision = to.max(*revision);
            is_newer
        });
    }

    /// Wakes whoever follows the line: there is something that could not be read before.
    pub(crate) fn regained(&self) {
        self.revision.send_modify(|_| {});
    }
}

/// Something of each store: that with the number zero, and the others from one on.
#[derive(Debug, Clone)]
pub struct Divided<T> {
    pub main: T,
    others: Vec<T>,
}

impl<T> Divided<T> {
    pub fn new(main: T, others: Vec<T>) -> Self {
        Self { main, others }
    }

    /// Whether there is one store alone, as nearly all servers have it.
    pub fn is_one(&self) -> bool {
        self.others.is_empty()
    }

    /// What has that number.
    pub fn numbered(&self, number: usize) -> &T {
        number.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.main)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.main).chain(&self.others)
    }

    pub fn map<U>(&self, mut each: impl FnMut(&T) -> U) -> Divided<U> {
        Divided { main: each(&self.main), others: self.others.iter().map(each).collect() }
    }
}

/// Which resources are in stores of their own, by the number of the store: from one, for all others are in that with the
/// number zero. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Overrides(Arc<[(ResourceId, usize)]>);

impl Overrides {
    /// Of a resource that is named twice, one counts.
    pub fn new(all: impl IntoIterator<Item = (ResourceId, usize)>) -> Self {
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort();
        all.dedup_by(|(later, _), (first, _)| later == first);
        Self(all.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of the store that has the objects of a resource.
    pub fn number_of(&self, group: &str, resource: &str) -> usize {
        let found = self.0.binary_search_by(|(id, _)| (&*id.group, &*id.resource).cmp(&(group, resource)));
        found.ok().and_then(|at| self.0.get(at)).map_or(0, |(_, number)| *number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(ResourceId, usize)> {
        self.0.iter()
    }
}

/// The resources of each store, the same however the stores are numbered: `/events;apps/deployments,apps/replicasets`.
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stores: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (ResourceId { group, resource }, number) in self.iter() {
            stores.entry(*number).or_default().push(format!("{group}/{resource}"));
        }
        let mut stores: Vec<String> = stores.into_values().map(|resources| resources.join(",")).collect();
        stores.sort();
        f.write_str(&stores.join(";"))
    }
}

/// The resources of one of several stores; by default there is one, which has all.
#[derive(Debug, Clone, Default)]
pub struct Share {
    overrides: Overrides,
    number: usize,
}

impl Share {
    /// That of the store which the overrides call by this number.
    pub fn of(overrides: Overrides, number: usize) -> Self {
        Self { overrides, number }
    }

    /// Whether nothing is elsewhere.
    pub fn is_all(&self) -> bool {
        self.overrides.is_empty() && self.number == 0
    }

    pub fn has(&self, (group, resource): (&str, &str)) -> bool {
        self.overrides.number_of(group, resource) == self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_are_not_named_are_in_the_first_store() {
        let overrides = Overrides::new([
            (ResourceId::new("coordination.k8s.io", "leases"), 2),
            (ResourceId::new("", "events"), 1),
            (ResourceId::new("", "events"), 1),
        ]);
        assert_eq!(overrides.number_of("", "events"), 1);
        assert_eq!(overrides.number_of("coordination.k8s.io", "leases"), 2);
        assert_eq!(overrides.number_of("", "leases"), 0);
        assert_eq!(overrides.number_of("", "pods"), 0);
        assert_eq!(overrides.iter().count(), 2);
        assert_eq!(overrides.to_string(), "/events;coordination.k8s.io/leases");
        assert!(Overrides::default().is_empty());
        let share = Share::of(overrides, 2);
        assert!(share.has(("coordination.k8s.io", "leases")) && !share.has(("", "events")));
        assert!(Share::default().is_all() && Share::default().has(("", "events")));
        let nothing = Share::of(Overrides::default(), 1);
        assert!(!nothing.is_all() && !nothing.has(("", "events")));
    }
}
