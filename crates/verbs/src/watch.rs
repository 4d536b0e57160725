//! Watching a collection: where to start, and what to send for each change.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use sternpost_cache::{Event, EventKind, Expired, Object, Reading, ResourceCache, Waiter};
use sternpost_meta::status::Status;
use sternpost_store::Revision;

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
    waiter: Waiter,
    selection: Selection,
    namespace: Option<String>,
    /// Everything up to here was delivered.
    place: Revision,
}

/// What a watcher is to be told.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    pub kind: EventKind,
    pub object: &'a Object,
    /// The event itself, when it is told as it happened, so that its bytes can be shared.
    pub shared: Option<&'a Event>,
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
        let waiter = cache.waiter();
        let namespace = target.scope().map(str::to_owned);
        let mut begin = None;
        if initial {
            let snapshot = cache.snapshot();
            place = place.max(snapshot.revision);
            let objects =
                snapshot.iter(namespace.as_deref(), None).filter(|object| selection.matches(object));
            begin = Some(objects.cloned().collect());
        }
        Ok((begin, Watch { cache, waiter, selection, namespace, place }))
    }
}

impl Watch {
    /// Everything up to here was delivered.
    pub fn place(&self) -> Revision {
        self.place
    }

    /// Tells what happened since the last call, in order, until `tell` says to
    /// stop; what is left comes with the next call. Changes of one revision
    /// are told together. `tell` does no more than copy: writers wait for it.
    pub fn read(&mut self, mut tell: impl FnMut(Told<'_>) -> Reading) -> Result<(), Expired> {
        let mut place = self.place;
        let mut stop = false;
        self.cache.read_events(self.place, |event| {
            if stop && event.revision != place {
                return Reading::Stop;
            }
            place = event.revision;
            stop |= self.tell(event, &mut tell) == Reading::Stop;
            Reading::GoOn
        })?;
        self.place = place;
        Ok(())
    }

    /// Ready when there may be something to read.
    pub fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waiter.poll(self.place, context)
    }

    /// A change seen through a selector: an object that begins to match is
    /// added, one that ends to is deleted.
    fn tell(&self, event: &Event, tell: &mut impl FnMut(Told<'_>) -> Reading) -> Reading {
        if self.namespace.as_deref().is_some_and(|namespace| namespace != event.object.namespace()) {
            return Reading::GoOn;
        }
        let matches = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        let matched = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        let kind = match (matched, matches) {
            (false, false) => return Reading::GoOn,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        if kind == event.kind {
            return tell(Told { kind, object: &event.object, shared: Some(event) });
        }
        // The last state that matched, under the revision at which it ended to.
        match (kind, &event.previous) {
            (EventKind::Deleted, Some(previous)) => {
                tell(Told { kind, object: &previous.at(event.revision), shared: None })
            }
            _ => tell(Told { kind, object: &event.object, shared: None }),
        }
    }
}
