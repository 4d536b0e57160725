//! One resource: its objects now, and what happened to them lately.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::VecDeque,
    ops::{Bound, RangeBounds},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{self, AtomicU64},
    },
};

use arc_swap::ArcSwap;
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};
use sternpost_clock::machine;
use sternpost_store::{Bytes, Revision};

use crate::{
    event::{Event, EventKind},
    key::ResourceId,
    labels::{LabelIndex, Labelled},
    object::Object,
    runs::{Composer, Encodings, Runs, Section, Stretch},
    waiters::{Waiter, Waiters},
};

/// Events kept for each resource. When there are more, the oldest go, and
/// watchers that have not read them are told that their place is gone.
pub const MAX_WINDOW_EVENTS: usize = 20_000;

/// Events whose bytes are kept once a watcher needed them. Those who are further
/// behind make them again.
const MAX_FRAMES: usize = 1024;

/// What happened at one place.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Object),
    Deleted {
        key: Bytes,
        place: usize,
        revision: Revision,
    },
    /// It cannot be read any more, and is not gone: nobody is told that it was deleted. Watches end, and those who
    /// look anew are told why.
    Lost {
        key: Bytes,
        place: usize,
        revision: Revision,
        /// Whether it may be read later as it is: what was there before stays until then, outdated.
        sealed: bool,
    },
    /// It is there for longer and could not be read. Nobody was told of it in its order, so watches end. The revision may
    /// be that of the state before: see [`Seen`].
    Regained {
        object: Object,
        revision: Revision,
    },
}

/// How much of a resource somebody has seen: all up to a revision, and what could be read again so far. A value that can be
/// read again changes what there is without a new revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub revision: Revision,
    /// How often values could be read again.
    pub(crate) regained: u64,
}

/// Of whoever has all that could ever be read again, or never goes by that.
impl From<Revision> for Seen {
    fn from(revision: Revision) -> Self {
        Self { revision, regained: u64::MAX }
    }
}

/// States that lists go on with, kept for each resource. A list whose state is gone makes it again.
const MAX_KEPT: usize = 4;

/// From this many objects on, a list is put together from runs. Fewer are copied as fast.
const MIN_IN_RUNS: usize = 100;

/// Objects in the order lists have.
pub(crate) type Objects = RedBlackTreeSetSync<ByPlace>;

/// How many objects a namespace has, if it has any.
type Counts = RedBlackTreeMapSync<Box<str>, usize>;

/// An object, known by its `NAMESPACE/NAME`.
#[derive(Debug, Clone)]
pub(crate) struct ByPlace(pub Arc<Object>);

#[derive(Debug)]
pub struct ResourceCache {
    pub id: ResourceId,
    snapshot: ArcSwap<Snapshot>,
    /// That of the snapshot, for those who look at many resources to find the few that changed.
    revision: AtomicU64,
    /// The same.
    regained: AtomicU64,
    /// What lists that have begun go on with, by the revision they call it by.
    kept: Mutex<VecDeque<(Revision, Arc<Snapshot>)>>,
    window: RwLock<Window>,
    labels: Mutex<LabelIndex>,
    runs: Mutex<Runs>,
    encodings: Arc<Encodings>,
    waiters: Arc<Waiters>,
}

/// All objects of a resource at one moment. Immutable.
#[derive(Debug, Clone)]
pub struct Snapshot {
    objects: Objects,
    counts: Counts,
    /// Of the last change of this resource.
    pub revision: Revision,
    /// How often values could be read again.
    regained: u64,
}

#[derive(Debug)]
struct Window {
    events: VecDeque<Arc<Event>>,
    /// Every event after this revision is there.
    oldest: Revision,
    /// Of whoever has seen less of what could be read again, the place is gone.
    regained: u64,
}

/// The revision asked for is no longer in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    pub asked: Revision,
    pub oldest: Revision,
}

impl ResourceCache {
    pub(crate) fn new(
        id: ResourceId,
        objects: Objects,
        revision: Revision,
        encodings: Arc<Encodings>,
    ) -> Self {
        let seen = Seen { revision, regained: 0 };
        Self {
            id,
            snapshot: ArcSwap::from_pointee(Snapshot::new(objects, revision)),
            revision: AtomicU64::new(revision.get()),
            regained: AtomicU64::new(0),
            kept: Mutex::default(),
            window: RwLock::new(Window { events: VecDeque::new(), oldest: revision, regained: 0 }),
            labels: Mutex::new(LabelIndex::new(seen)),
            runs: Mutex::new(Runs::new(seen, encodings.clone())),
            encodings,
            waiters: Waiters::new(seen),
        }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// For whoever goes on at a revision that is not of a snapshot.
    pub fn seen_at(&self, revision: Revision) -> Seen {
        Seen { revision, regained: self.snapshot.load().regained }
    }

    /// Whether anything of it changed after that, as a snapshot that is taken then shows.
    pub fn is_newer_than(&self, seen: Seen) -> bool {
        self.revision.load(atomic::Ordering::Acquire) > seen.revision.get()
            || self.regained.load(atomic::Ordering::Acquire) > seen.regained
    }

    /// The objects as they were at `revision`, by undoing what came after.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Arc<Snapshot>, Expired> {
        let now = self.snapshot();
        if now.revision <= revision {
            return Ok(now);
        }
        let oldest = self.oldest();
        if revision < oldest {
            return Err(Expired { asked: revision, oldest });
        }
        if let Some((_, kept)) = self.kept().iter().find(|(kept, _)| *kept == revision) {
            return Ok(kept.clone());
        }
        let Snapshot { mut objects, mut counts, regained, .. } = (*now).clone();
        for event in self.events_after(revision)?.iter().rev().filter(|event| event.revision <= now.revision)
        {
            match &event.previous {
                Some(previous) => {
                    if !objects.contains(previous.place_bytes()) {
                        add(&mut counts, previous.namespace());
                    }
                    objects.insert_mut(ByPlace(previous.clone()));
                }
                None => {
                    if objects.remove_mut(event.object.place_bytes()) {
                        subtract(&mut counts, event.object.namespace());
                    }
                }
            }
        }
        Ok(Arc::new(Snapshot { objects, counts, revision, regained }))
    }

    /// Keeps a state for the next page of a list, which calls it by `revision`.
    pub fn keep(&self, revision: Revision, snapshot: &Arc<Snapshot>) {
        let mut kept = self.kept();
        if kept.iter().any(|(known, _)| *known == revision) {
            return;
        }
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((revision, snapshot.clone()));
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Revision, Arc<Snapshot>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest state, and those of its objects that can be meant by labels:
    /// all that have one of the values of each, and perhaps some more.
    pub fn labelled(
        &self,
        labels: &[Labelled<'_>],
        namespace: Option<&str>,
        behind: Option<&str>,
    ) -> (Arc<Snapshot>, Vec<Arc<Object>>) {
        let mut index = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: the index is never newer than a snapshot taken from here on.
        let snapshot = self.snapshot();
        let missed = self.read_events(index.seen, |event| {
            if event.revision > snapshot.revision {
                return Reading::Stop;
            }
            index.apply(event);
            Reading::GoOn
        });
        if missed.is_err() {
            index.clear();
        }
        index.seen = snapshot.seen();
        let found = index.select(&snapshot, labels, namespace, behind);
        (snapshot, found)
    }

    /// Objects of a state of this resource in order, as [`Snapshot::iter`] has them, up to a limit; in runs,
    /// if there are many of them and it is not the first such list.
    pub fn sections(
        &self,
        snapshot: &Snapshot,
        namespace: Option<&str>,
        behind: Option<&str>,
        limit: usize,
    ) -> Vec<Section> {
        let at_once =
            || vec![Section::Objects(snapshot.iter(namespace, behind).take(limit).cloned().collect())];
        if snapshot.count(namespace).min(limit) < MIN_IN_RUNS {
            return at_once();
        }
        let stretch = Stretch::of(&Places::new(namespace, behind));
        let (runs, seen) = {
            let mut runs = self.runs();
            if !runs.ask() {
                return at_once();
            }
            self.bring_up_to_date(&mut runs);
            (runs.within(&stretch), runs.seen)
        };
        let encodings = (seen == snapshot.seen()).then(|| self.encodings.clone());
        let (sections, new) = Composer::new(snapshot, limit, encodings).compose(&stretch, &runs);
        if !new.is_empty() {
            let mut runs = self.runs();
            if runs.seen == seen {
                runs.add(new);
            }
        }
        sections
    }

    fn bring_up_to_date(&self, runs: &mut Runs) {
        // Under the lock, as for labels.
        let snapshot = self.snapshot();
        let missed = self.read_events(runs.seen, |event| {
            if event.revision > snapshot.revision || runs.is_empty() {
                return Reading::Stop;
            }
            runs.changed(event.object.place_bytes());
            Reading::GoOn
        });
        if missed.is_err() {
            runs.clear();
        }
        runs.seen = snapshot.seen();
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back runs that no list has used for long.
    pub(crate) fn sweep(&self) {
        // Somebody who has the lock is using them.
        if let Ok(mut runs) = self.runs.try_lock() {
            runs.sweep();
        }
    }

    /// Every event after what was seen, oldest first.
    pub fn events_after(&self, seen: impl Into<Seen>) -> Result<Vec<Arc<Event>>, Expired> {
        let mut events = Vec::new();
        self.read_events(seen, |event| {
            events.push(event.clone());
            Reading::GoOn
        })?;
        Ok(events)
    }

    /// Hands over every event after what was seen, oldest first, until told to stop: none that a snapshot
    /// taken then does not show. The window is locked meanwhile: `read` does no more than copy.
    pub fn read_events(
        &self,
        seen: impl Into<Seen>,
        mut read: impl FnMut(&Arc<Event>) -> Reading,
    ) -> Result<(), Expired> {
        let Seen { revision, regained } = seen.into();
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        if revision < window.oldest || regained < window.regained {
            return Err(Expired { asked: revision, oldest: window.oldest });
        }
        // Events are in the window before the state that they lead to is there for all.
        let shown = self.snapshot.load().revision;
        let first = window.events.partition_point(|event| event.revision <= revision);
        for event in window.events.range(first..) {
            if event.revision > shown || read(event) == Reading::Stop {
                break;
            }
        }
        Ok(())
    }

    /// Watches after a revision before this one cannot be served.
    pub fn oldest(&self) -> Revision {
        self.window.read().unwrap_or_else(PoisonError::into_inner).oldest
    }

    /// A place from which to wait for changes.
    pub fn waiter(&self) -> Waiter {
        self.waiters.join()
    }

    /// Applies the changes of some revisions, in order. Called by the feeder alone.
    pub(crate) fn apply(&self, changes: Vec<Change>) {
        let Snapshot { mut objects, mut counts, mut revision, mut regained } = (*self.snapshot()).clone();
        let mut events = Vec::with_capacity(changes.len());
        let mut begins = None;
        for change in changes {
            match change {
                Change::Put(object) => {
                    revision = object.revision;
                    let object = Arc::new(object);
                    let previous = objects.get(object.place_bytes()).map(|found| found.0.clone());
                    if previous.is_none() {
                        add(&mut counts, object.namespace());
                    }
                    objects.insert_mut(ByPlace(object.clone()));
                    if is_outdated(previous.as_ref()) {
                        events.clear();
                        begins = Some(revision);
                        continue;
                    }
                    let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                    events.push(Event::new(revision, kind, object, previous));
                }
                Change::Deleted { key, place, revision: deleted } => {
                    let place = key.get(place..).unwrap_or_default();
                    // What tells nobody anything is no revision that anybody has to see.
                    let Some(previous) = objects.get(place).map(|found| found.0.clone()) else { continue };
                    revision = deleted;
                    objects.remove_mut(place);
                    subtract(&mut counts, previous.namespace());
                    if is_outdated(Some(&previous)) {
                        events.clear();
                        begins = Some(revision);
                        continue;
                    }
                    let object = Arc::new(previous.at(revision));
                    events.push(Event::new(revision, EventKind::Deleted, object, Some(previous)));
                }
                Change::Lost { key, place, revision: lost, sealed } => {
                    let place = key.get(place..).unwrap_or_default();
                    let Some(previous) = objects.get(place).map(|found| found.0.clone()) else { continue };
                    revision = lost;
                    if sealed {
                        objects.insert_mut(ByPlace(Arc::new(previous.outdated())));
                    } else {
                        objects.remove_mut(place);
                        subtract(&mut counts, previous.namespace());
                    }
                    events.clear();
                    begins = Some(revision);
                }
                Change::Regained { object, revision: of_all } => {
                    revision = of_all.max(revision);
                    regained += 1;
                    if !objects.contains(object.place_bytes()) {
                        add(&mut counts, object.namespace());
                    }
                    objects.insert_mut(ByPlace(Arc::new(object)));
                    events.clear();
                    begins = Some(revision);
                }
            }
        }
        let oldest = {
            let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(begins) = begins {
                window.begin(begins);
                window.regained = regained;
            }
            window.extend(events);
            window.oldest
        };
        // Of what was kept before, something may be missing in the same revision.
        let are_outdated = regained > self.regained.load(atomic::Ordering::Acquire);
        self.snapshot.store(Arc::new(Snapshot { objects, counts, revision, regained }));
        self.revision.store(revision.get(), atomic::Ordering::Release);
        self.regained.store(regained, atomic::Ordering::Release);
        self.forget_labels(oldest);
        // What nobody may ask for any more holds old objects.
        self.kept().retain(|(kept, _)| *kept >= oldest && !are_outdated);
    }

    /// Takes another state for what there was, without knowing what led to it: watches end.
    pub(crate) fn replace(&self, objects: Objects, revision: Revision) {
        let regained = self.regained.load(atomic::Ordering::Acquire);
        let snapshot = Arc::new(Snapshot { regained, ..Snapshot::new(objects, revision) });
        self.window.write().unwrap_or_else(PoisonError::into_inner).begin(revision);
        self.snapshot.store(snapshot);
        self.revision.store(revision.get(), atomic::Ordering::Release);
        self.forget_labels(revision);
        self.kept().clear();
    }

    /// Whether announcing takes a while, or has to be put off.
    pub(crate) fn is_watched_by_many(&self) -> bool {
        self.waiters.are_many()
    }

    /// Tells those who wait that there is something new. If they were told too
    /// short ago, says when to call again instead.
    pub(crate) fn announce(&self, now: machine::Instant) -> Option<machine::Instant> {
        self.waiters.announce(self.snapshot.load().seen(), now)
    }

    /// An index that nobody used while the whole window went by is not worth the
    /// old objects it holds.
    fn forget_labels(&self, oldest: Revision) {
        // Somebody who has the lock is using it.
        if let Ok(mut index) = self.labels.try_lock()
            && !index.is_empty()
            && index.seen.revision < oldest
        {
            index.clear();
        }
    }
}

/// Whether to hand over the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    GoOn,
    Stop,
}

impl Window {
    /// Nothing is known of what was before.
    fn begin(&mut self, revision: Revision) {
        self.events.clear();
        self.oldest = revision;
    }

    fn extend(&mut self, events: Vec<Event>) {
        for event in events {
            self.events.push_back(Arc::new(event));
            let aged = self.events.len().checked_sub(MAX_FRAMES + 1);
            if let Some(event) = aged.and_then(|aged| self.events.get_mut(aged))
                && let Some(bare) = event.bare()
            {
                *event = Arc::new(bare);
            }
            if self.events.len() > MAX_WINDOW_EVENTS
                && let Some(gone) = self.events.pop_front()
            {
                self.oldest = gone.revision;
            }
        }
    }
}

impl Snapshot {
    fn new(objects: Objects, revision: Revision) -> Self {
        let mut counts = Counts::new_sync();
        for ByPlace(object) in &objects {
            add(&mut counts, object.namespace());
        }
        Self { objects, counts, revision, regained: 0 }
    }

    /// What whoever has this has seen.
    pub fn seen(&self) -> Seen {
        Seen { revision: self.revision, regained: self.regained }
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.at([namespace, name].join("/").as_bytes())
    }

    /// By `NAMESPACE/NAME`.
    pub(crate) fn at(&self, place: &[u8]) -> Option<&Arc<Object>> {
        self.objects.get(place).map(|found| &found.0)
    }

    pub fn len(&self) -> usize {
        self.objects.size()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How many objects there are in a namespace, or in all. Nothing is walked through.
    pub fn count(&self, namespace: Option<&str>) -> usize {
        match namespace {
            Some(namespace) => self.counts.get(namespace).copied().unwrap_or_default(),
            None => self.len(),
        }
    }

    /// Objects in order, of one namespace or of all, behind a place
    /// (`NAMESPACE/NAME`) if one is given.
    pub fn iter(&self, namespace: Option<&str>, behind: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let places = Places::new(namespace, behind);
        // Trees panic on a range that ends before it starts.
        let range = (!places.is_empty()).then(|| self.objects.range::<[u8], _>(places));
        range.into_iter().flatten().map(|object| &object.0)
    }

    /// Objects in order from one place to before another.
    pub(crate) fn between<'a>(
        &'a self,
        from: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let places = Places { start: Bound::Included(from.to_vec()), end: Bound::Excluded(end.to_vec()) };
        let range = (!places.is_empty()).then(|| self.objects.range::<[u8], _>(places));
        range.into_iter().flatten().map(|object| &object.0)
    }
}

/// Whether an event would tell those who select of a state that is not the one before it.
fn is_outdated(previous: Option<&Arc<Object>>) -> bool {
    previous.is_some_and(|previous| previous.outdated)
}

fn add(counts: &mut Counts, namespace: &str) {
    let count = counts.get(namespace).copied().unwrap_or_default();
    counts.insert_mut(namespace.into(), count + 1);
}

fn subtract(counts: &mut Counts, namespace: &str) {
    match counts.get(namespace).copied() {
        Some(count) if count > 1 => {
            counts.insert_mut(namespace.into(), count - 1);
        }
        _ => {
            counts.remove_mut(namespace);
        }
    }
}

/// The places of a namespace, or of all, behind one of them if one is given.
#[derive(Debug)]
pub(crate) struct Places {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl Places {
    pub fn new(namespace: Option<&str>, behind: Option<&str>) -> Self {
        let start = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let start = match behind {
            Some(place) if *place >= *start => Bound::Excluded(place.as_bytes().to_vec()),
            _ => Bound::Included(start.into_bytes()),
        };
        // `0` is what comes right behind `/`: every name of the namespace sorts before it.
        let end = namespace.map(|namespace| format!("{namespace}0").into_bytes());
        Self { start, end: end.map_or(Bound::Unbounded, Bound::Excluded) }
    }

    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            _ => false,
        }
    }
}

impl RangeBounds<[u8]> for Places {
    fn start_bound(&self) -> Bound<&[u8]> {
        self.start.as_ref().map(Vec::as_slice)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(Vec::as_slice)
    }
}

impl Borrow<[u8]> for ByPlace {
    fn borrow(&self) -> &[u8] {
        self.0.place_bytes()
    }
}

impl Ord for ByPlace {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.place_bytes().cmp(other.0.place_bytes())
    }
}

impl PartialOrd for ByPlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByPlace {
    fn eq(&self, other: &Self) -> bool {
        self.0.place_bytes() == other.0.place_bytes()
    }
}

impl Eq for ByPlace {}

#[cfg(test)]
mod tests {
    use sternpost_store::Entry;

    use super::*;
    use crate::{object::Indexer, pairs::Pairs};

    struct NoFields;

    impl Indexer for NoFields {
        fn fields(&self, _: &ResourceId, _: &[u8]) -> Pairs {
            Pairs::default()
        }
    }

    #[test]
    fn no_event_is_told_of_before_the_state_that_it_leads_to_is_shown() {
        let id = ResourceId::new("", "pods");
        let revision = |number| Revision::new(number).unwrap();
        let cache =
            ResourceCache::new(id.clone(), Objects::new_sync(), revision(1), Arc::new(Encodings::default()));
        let put = |number| {
            let entry = Entry::new("a/b", "{}", revision(2), revision(number));
            Change::Put(Object::new(&NoFields, &id, 0, revision(number), entry))
        };
        cache.apply(vec![put(2)]);
        let told = || -> Vec<u64> {
            cache.events_after(revision(1)).unwrap().iter().map(|event| event.revision.get()).collect()
        };
        assert_eq!(told(), [2]);

        // In the midst of `apply`.
        let object = cache.snapshot().get("a", "b").unwrap().clone();
        let next = Event::new(revision(3), EventKind::Modified, object, None);
        cache.window.write().unwrap().extend(vec![next]);
        assert_eq!(told(), [2]);
        let shown = Snapshot { revision: revision(3), ..(*cache.snapshot()).clone() };
        cache.snapshot.store(Arc::new(shown));
        assert_eq!(told(), [2, 3]);
    }
}
