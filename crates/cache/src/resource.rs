//! One resource: its objects now, and what happened to them lately.

use std::{
    collections::VecDeque,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use arc_swap::ArcSwap;
use rpds::RedBlackTreeMapSync;
use sternpost_store::Revision;
use tokio::sync::watch;

use crate::{
    event::{Event, EventKind},
    key::ResourceId,
    object::Object,
};

/// Events kept for each resource. When there are more, the oldest go, and
/// watchers that have not read them are told that their place is gone.
pub const MAX_WINDOW_EVENTS: usize = 20_000;

/// What stands at a place from now on; nothing if it was deleted.
pub(crate) type Placed = (Arc<str>, Option<Object>);

/// Objects by `NAMESPACE/NAME`, in the order lists have.
pub(crate) type Objects = RedBlackTreeMapSync<Arc<str>, Arc<Object>>;

#[derive(Debug)]
pub struct ResourceCache {
    pub id: ResourceId,
    snapshot: ArcSwap<Snapshot>,
    window: RwLock<Window>,
    /// The revision of the last change; watchers wait on it.
    changed: watch::Sender<u64>,
}

/// All objects of a resource at one moment. Immutable.
#[derive(Debug, Clone)]
pub struct Snapshot {
    objects: Objects,
    /// Of the last change of this resource.
    pub revision: Revision,
}

#[derive(Debug)]
struct Window {
    events: VecDeque<Arc<Event>>,
    /// Every event after this revision is there.
    oldest: Revision,
}

/// The revision asked for is no longer in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    pub asked: Revision,
    pub oldest: Revision,
}

impl ResourceCache {
    pub(crate) fn new(id: ResourceId, objects: Objects, revision: Revision) -> Self {
        Self {
            id,
            snapshot: ArcSwap::from_pointee(Snapshot { objects, revision }),
            window: RwLock::new(Window { events: VecDeque::new(), oldest: revision }),
            changed: watch::Sender::new(revision.get()),
        }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The objects as they were at `revision`, by undoing what came after.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Arc<Snapshot>, Expired> {
        let now = self.snapshot();
        if now.revision <= revision {
            return Ok(now);
        }
        let mut objects = now.objects.clone();
        for event in self.events_after(revision)?.iter().rev().filter(|event| event.revision <= now.revision)
        {
            let place: Arc<str> = place(&event.object).into();
            match &event.previous {
                Some(previous) => objects.insert_mut(place, previous.clone()),
                None => {
                    objects.remove_mut(&place);
                }
            }
        }
        Ok(Arc::new(Snapshot { objects, revision }))
    }

    /// Every event after `revision`, oldest first.
    pub fn events_after(&self, revision: Revision) -> Result<Vec<Arc<Event>>, Expired> {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        if revision < window.oldest {
            return Err(Expired { asked: revision, oldest: window.oldest });
        }
        let first = window.events.partition_point(|event| event.revision <= revision);
        Ok(window.events.range(first..).cloned().collect())
    }

    /// Watches after a revision before this one cannot be served.
    pub fn oldest(&self) -> Revision {
        self.window.read().unwrap_or_else(PoisonError::into_inner).oldest
    }

    /// Wakes whenever something changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Applies all changes of one revision. Called by the feeder alone.
    pub(crate) fn apply(&self, revision: Revision, changes: Vec<Placed>) {
        let mut objects = self.snapshot().objects.clone();
        let mut events = Vec::with_capacity(changes.len());
        for (place, object) in changes {
            let previous = objects.get(&place).cloned();
            let event = match (object, previous) {
                (Some(object), previous) => {
                    let object = Arc::new(object);
                    objects.insert_mut(place, object.clone());
                    let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                    Event::new(revision, kind, object, previous)
                }
                (None, Some(previous)) => {
                    objects.remove_mut(&place);
                    let object = Arc::new(previous.at(revision));
                    Event::new(revision, EventKind::Deleted, object, Some(previous))
                }
                (None, None) => continue,
            };
            events.push(Arc::new(event));
        }
        {
            let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
            window.events.extend(events);
            while window.events.len() > MAX_WINDOW_EVENTS
                && let Some(gone) = window.events.pop_front()
            {
                window.oldest = gone.revision;
            }
        }
        self.snapshot.store(Arc::new(Snapshot { objects, revision }));
        self.changed.send_replace(revision.get());
    }
}

impl Snapshot {
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&*format!("{namespace}/{name}"))
    }

    pub fn len(&self) -> usize {
        self.objects.size()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Objects in order, of one namespace or of all, behind a place
    /// (`NAMESPACE/NAME`) if one is given.
    pub fn iter<'a>(
        &'a self,
        namespace: Option<&'a str>,
        behind: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let start = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let bounds = match behind {
            Some(place) if *place >= *start => (Bound::Excluded(place.to_owned()), Bound::Unbounded),
            _ => (Bound::Included(start.clone()), Bound::<String>::Unbounded),
        };
        let bounds = (bounds.0.map(Arc::<str>::from), bounds.1.map(Arc::<str>::from));
        let mine = move |place: &Arc<str>| place.starts_with(&start);
        self.objects.range(bounds).take_while(move |(place, _)| mine(place)).map(|(_, object)| object)
    }
}

pub(crate) fn place(object: &Object) -> String {
    format!("{}/{}", object.namespace, object.name)
}
