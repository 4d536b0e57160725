//! Watching a collection: where to start, and what to send for each change.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use serde_json::Value;
use sternpost_cache::{Event, EventKind, Expired, Object, Reading, ResourceCache, Seen, Waiter};
use sternpost_meta::status::Status;
use sternpost_store::Revision;

use crate::{
    list::{Selection, parse_exact_version},
    served::Served,
    verbs::{Target, Verbs},
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
    seen: Seen,
}

/// What a watcher is to be told.
#[derive(Debug, Clone, Copy)]
pub struct WatchEvent<'a> {
    pub kind: EventKind,
    pub object: &'a Object,
    /// The event itself, when it is told as it happened, so that its bytes can be shared.
    pub shared: Option<&'a Event>,
}

/// A change before it is known what a watcher is told of it.
#[derive(Debug, Clone)]
pub struct StateChange {
    pub kind: EventKind,
    /// What is there now; for a deletion what was there, under the deletion's revision.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

impl StateChange {
    /// An object to begin with.
    pub fn first(object: Arc<Object>) -> Self {
        Self { kind: EventKind::Added, object, previous: None }
    }

    /// The last state before it, under the revision at which it ended.
    fn last(&self) -> Option<Arc<Object>> {
        match self.kind {
            EventKind::Added => None,
            EventKind::Deleted => Some(self.object.clone()),
            EventKind::Modified => {
                self.previous.as_ref().map(|previous| Arc::new(previous.at(self.object.revision)))
            }
        }
    }
}

/// A change seen through a selector: an object that begins to match is added, one that ends to is
/// deleted.
fn seen(matched: bool, matches: bool) -> Option<EventKind> {
    match (matched, matches) {
        (false, false) => None,
        (false, true) => Some(EventKind::Added),
        (true, true) => Some(EventKind::Modified),
        (true, false) => Some(EventKind::Deleted),
    }
}

impl Selection {
    /// What a watcher is told of a change, if anything; `None` if a webhook has to convert its states first.
    pub fn seen(&self, change: &StateChange) -> Option<Option<(EventKind, Arc<Object>)>> {
        let last = change.last();
        let matched = match &last {
            Some(last) => self.judge(last)?,
            None => false,
        };
        let matches = change.kind != EventKind::Deleted && self.judge(&change.object)?;
        Some(seen(matched, matches).and_then(|kind| {
            let object = if kind == EventKind::Deleted { last? } else { change.object.clone() };
            Some((kind, object))
        }))
    }
}

impl Verbs {
    /// What a watcher is told of changes, as its version shows the objects.
    pub async fn told(
        &self,
        served: &Served,
        selection: &Selection,
        changes: &[StateChange],
    ) -> Result<Vec<(EventKind, Value)>, Status> {
        // What has to be shown: what is told, or the states on which it depends whether it is.
        let mut objects = Vec::new();
        let mut asked = Vec::new();
        for change in changes {
            match selection.seen(change) {
                Some(None) => {}
                Some(Some((kind, object))) => {
                    asked.push(EventDecision::Certain(kind));
                    objects.push(object);
                }
                None => {
                    let last = change.last();
                    let now = Some(change.object.clone()).filter(|_| change.kind != EventKind::Deleted);
                    asked.push(EventDecision::Depends { last: last.is_some(), now: now.is_some() });
                    objects.extend(last.into_iter().chain(now));
                }
            }
        }
        let values = self.shown(served, &objects).await?;
        let mut shown = objects.iter().zip(values);
        let mut told = Vec::with_capacity(asked.len());
        for asked in asked {
            match asked {
                EventDecision::Certain(kind) => told.extend(shown.next().map(|(_, value)| (kind, value))),
                EventDecision::Depends { last, now } => {
                    let mut state = || {
                        let (object, value) = shown.next()?;
                        Some((selection.matches_shown(object, &value), value))
                    };
                    let last = if last { state() } else { None };
                    let now = if now { state() } else { None };
                    let matches =
                        |state: &Option<(bool, Value)>| state.as_ref().is_some_and(|(matches, _)| *matches);
                    let kind = seen(matches(&last), matches(&now));
                    let value = if kind == Some(EventKind::Deleted) { last } else { now };
                    told.extend(kind.zip(value).map(|(kind, (_, value))| (kind, value)));
                }
            }
        }
        Ok(told)
    }
}

/// What is shown for a change.
enum EventDecision {
    /// What is told of it.
    Certain(EventKind),
    /// The states that decide what is told.
    Depends { last: bool, now: bool },
}

impl Verbs {
    /// The objects to begin with, if any, and the watch that goes on behind them. As a list, it is refused where an object
    /// that it would begin with cannot be read.
    pub async fn watch(
        &self,
        target: Target<'_>,
        selection: Selection,
        query: &WatchQuery,
    ) -> Result<(Option<Vec<Arc<Object>>>, Watch), Status> {
        let (begin, watch) = Box::pin(self.follow(target, selection, query)).await?;
        if begin.is_some() {
            self.check_listed(target, &watch.selection)?;
        }
        Ok((begin, watch))
    }

    /// The same of all that can be read.
    pub async fn follow(
        &self,
        target: Target<'_>,
        selection: Selection,
        query: &WatchQuery,
    ) -> Result<(Option<Vec<Arc<Object>>>, Watch), Status> {
        let cache = self.cache.resource(&target.served.id);
        let from_start = matches!(query.resource_version.as_str(), "" | "0");
        let initial = query.initial_events.unwrap_or(from_start);
        if query.resource_version.is_empty()
            && let Some(catching_up) = self.catching_up(&target.served.id)
        {
            catching_up.await?;
        }
        let line = self.cache.line(&target.served.id);
        let mut place = line.revision();
        if !from_start {
            let revision = parse_exact_version(&query.resource_version)?;
            if initial {
                self.await_revision(&target.served.id, revision).await?;
                place = line.revision();
            } else {
                place = revision;
            }
        }
        let waiter = cache.waiter();
        let namespace = target.scope().map(str::to_owned);
        let mut begin = None;
        let mut seen = cache.seen_at(place);
        if initial {
            let snapshot = cache.snapshot();
            seen = snapshot.seen();
            seen.revision = place.max(seen.revision);
            // What a webhook has to say is asked when they are told.
            let may_match = |object: &&Arc<Object>| selection.judge(object) != Some(false);
            let objects = snapshot.iter(namespace.as_deref(), None).filter(may_match);
            begin = Some(objects.cloned().collect());
        }
        Ok((begin, Watch { cache, waiter, selection, namespace, seen }))
    }
}

impl Watch {
    /// Everything up to here was delivered.
    pub fn place(&self) -> Revision {
        self.seen.revision
    }

    /// Tells what happened since the last call, in order, until `tell` says to
    /// stop; what is left comes with the next call. Changes of one revision
    /// are told together. `tell` does no more than copy: writers wait for it.
    pub fn read(&mut self, mut tell: impl FnMut(WatchEvent<'_>) -> Reading) -> Result<(), Expired> {
        let mut place = self.seen.revision;
        let mut stop = false;
        self.cache.read_events(self.seen, |event| {
            if stop && event.revision != place {
                return Reading::Stop;
            }
            place = event.revision;
            stop |= self.tell(event, &mut tell) == Reading::Stop;
            Reading::GoOn
        })?;
        self.seen.revision = place;
        Ok(())
    }

    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// As [`Watch::read`], of all changes in the namespace, whatever is selected.
    pub fn read_changes(&mut self, mut tell: impl FnMut(StateChange) -> Reading) -> Result<(), Expired> {
        let mut place = self.seen.revision;
        let mut stop = false;
        self.cache.read_events(self.seen, |event| {
            if stop && event.revision != place {
                return Reading::Stop;
            }
            place = event.revision;
            if self.is_elsewhere(event) {
                return Reading::GoOn;
            }
            let Event { kind, object, previous, .. } = &**event;
            let change = StateChange { kind: *kind, object: object.clone(), previous: previous.clone() };
            stop |= tell(change) == Reading::Stop;
            Reading::GoOn
        })?;
        self.seen.revision = place;
        Ok(())
    }

    fn is_elsewhere(&self, event: &Event) -> bool {
        self.namespace.as_deref().is_some_and(|namespace| namespace != event.object.namespace())
    }

    /// Ready when there may be something to read.
    pub fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waiter.poll(self.seen, context)
    }

    fn tell(&self, event: &Event, tell: &mut impl FnMut(WatchEvent<'_>) -> Reading) -> Reading {
        if self.is_elsewhere(event) {
            return Reading::GoOn;
        }
        let matches = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        let matched = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        let Some(kind) = seen(matched, matches) else { return Reading::GoOn };
        if kind == event.kind {
            return tell(WatchEvent { kind, object: &event.object, shared: Some(event) });
        }
        // The last state that matched, under the revision at which it ended to.
        match (kind, &event.previous) {
            (EventKind::Deleted, Some(previous)) => {
                tell(WatchEvent { kind, object: &previous.at(event.revision), shared: None })
            }
            _ => tell(WatchEvent { kind, object: &event.object, shared: None }),
        }
    }
}
