//! Watching a collection: where to start, and what to send for each change.

use std::sync::Arc;

use sternpost_cache::{Event, EventKind, Expired, Object, ResourceCache};
use sternpost_meta::status::Status;
use sternpost_store::Revision;
use tokio::sync::watch::Receiver;

use crate::{
    list::{Selection, parse_exact_version},
    registry::{Registry, Target},
};

/// What a watch begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchQuery {
    /// As sent; empty for the latest.
    pub resource_version: String,
    /// `sendInitialEvents`, if it was sent.
    pub initial_events: Option<bool>,
}

/// A running watch. Holds a place in the window of events, and nothing else.
#[derive(Debug)]
pub struct Watch {
    cache: Arc<ResourceCache>,
    changes: Receiver<u64>,
    selection: Selection,
    namespace: Option<String>,
    /// Everything up to here was delivered.
    place: Revision,
}

/// What a watcher is to be told.
#[derive(Debug, Clone)]
pub struct Told {
    pub kind: EventKind,
    pub object: Arc<Object>,
    /// The event itself, when it is told as it happened, so that its bytes can be shared.
    pub shared: Option<Arc<Event>>,
}

impl Registry {
    /// The objects to begin with, if any, and the watch that goes on behind them.
    pub async fn watch(
        &self,
        target: Target<'_>,
        selection: Selection,
        query: &WatchQuery,
    ) -> Result<(Option<Vec<Arc<Object>>>, Watch), Status> {
        let cache = self.cache.resource(&target.served.id);
        let from_start = matches!(query.resource_version.as_str(), "" | "0");
        let initial = query.initial_events.unwrap_or(from_start);
        let mut place = self.cache.revision();
        if !from_start {
            let revision = parse_exact_version(&query.resource_version)?;
            if initial {
                self.await_revision(revision).await?;
                place = self.cache.revision();
            } else {
                place = revision;
            }
        }
        let changes = cache.changes();
        let namespace = target.scope().map(str::to_owned);
        let mut begin = None;
        if initial {
            let snapshot = cache.snapshot();
            place = place.max(snapshot.revision);
            let objects =
                snapshot.iter(namespace.as_deref(), None).filter(|object| selection.matches(object));
            begin = Some(objects.cloned().collect());
        }
        Ok((begin, Watch { cache, changes, selection, namespace, place }))
    }
}

impl Watch {
    /// Everything up to here was delivered.
    pub fn place(&self) -> Revision {
        self.place
    }

    /// What happened since the last call; empty if nothing that concerns this watcher.
    pub fn read(&mut self) -> Result<Vec<Told>, Expired> {
        let events = self.cache.events_after(self.place)?;
        if let Some(last) = events.last() {
            self.place = last.revision;
        }
        Ok(events.into_iter().filter_map(|event| self.told(event)).collect())
    }

    /// Waits until there may be something to read. False if there never will be.
    pub async fn changed(&mut self) -> bool {
        self.changes.changed().await.is_ok()
    }

    /// A change seen through a selector: an object that begins to match is
    /// added, one that ends to is deleted.
    fn told(&self, event: Arc<Event>) -> Option<Told> {
        if self.namespace.as_deref().is_some_and(|namespace| namespace != &*event.object.namespace) {
            return None;
        }
        let matches = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        let matched = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        let kind = match (matched, matches) {
            (false, false) => return None,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        if kind == event.kind {
            return Some(Told { kind, object: event.object.clone(), shared: Some(event) });
        }
        // The last state that matched, under the revision at which it ended to.
        let object = match (kind, &event.previous) {
            (EventKind::Deleted, Some(previous)) => Arc::new(previous.at(event.revision)),
            _ => event.object.clone(),
        };
        Some(Told { kind, object, shared: None })
    }
}
