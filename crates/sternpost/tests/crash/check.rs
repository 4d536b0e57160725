//! The rules, checked against the history that the restarted server tells.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{Action, Life, Outcome, Read, Resource, Start, Stream, Version, Write};

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Killed,
    /// Asked to stop: what was not answered did not happen.
    Stopped,
}

/// Everything that ever happened in one data directory.
#[derive(Debug, Default)]
pub struct Ledger {
    events: BTreeMap<Resource, Vec<Event>>,
    state: BTreeMap<Resource, State>,
    tokens: HashSet<String>,
    uids: HashSet<String>,
    revisions: HashSet<u64>,
    /// Lives that ended and are not settled yet.
    open: Vec<(Life, Ending)>,
    /// Every change before this one was asked for by a life that is settled.
    settled: BTreeMap<Resource, u64>,
    /// The newest revision that anybody was ever told.
    pub told: u64,
    pub counts: Counts,
}

/// For the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub acknowledged: usize,
    pub refused: usize,
    pub lost: usize,
    pub appeared: usize,
    pub reads: usize,
    pub watched: usize,
    pub resumed: usize,
}

/// By name.
type State = BTreeMap<String, Version>;

#[derive(Clone, Debug)]
struct Event {
    revision: u64,
    kind: String,
    object: Version,
    previous: Option<Version>,
}

impl Event {
    /// What there is after it.
    fn left(&self) -> Option<&Version> {
        (self.kind != "DELETED").then_some(&self.object)
    }
}

type Checked = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

impl Ledger {
    /// Where the history that was looked at ends.
    pub fn place(&self, resource: Resource) -> Option<u64> {
        self.events.get(&resource).and_then(|events| events.last()).map(|event| event.revision)
    }

    pub fn now(&self, resource: Resource) -> Vec<Version> {
        self.state.get(&resource).map(|state| state.values().cloned().collect()).unwrap_or_default()
    }

    /// A node port that some service had and none has now.
    pub fn free_port(&self) -> Option<u64> {
        let used: HashSet<u64> =
            self.now(Resource::Services).iter().flat_map(|service| service.ports.clone()).collect();
        let events = self.events.get(&Resource::Services)?;
        events.iter().flat_map(|event| event.object.ports.clone()).find(|port| !used.contains(port))
    }

    /// A life has ended; its writes are settled by the next [`Ledger::settle`].
    pub fn ended(&mut self, life: Life, ending: Ending) -> Checked {
        self.told = self.told.max(life.told());
        let violations = std::mem::take(&mut *life.violations.lock().unwrap());
        self.open.push((life, ending));
        ensure!(violations.is_empty(), "{}", violations.join("\n"));
        Ok(())
    }

    /// Adds what the server tells of the time since [`Ledger::place`].
    pub fn extend(&mut self, resource: Resource, told: Vec<(String, Version)>) -> Checked {
        for (kind, object) in told {
            let revision = object.revision;
            let last = self.place(resource).unwrap_or_default();
            ensure!(revision > last, "revision {revision} of {object:?} comes after {last}");
            ensure!(self.revisions.insert(revision), "two changes have revision {revision}");
            let state = self.state.entry(resource).or_default();
            let previous = state.get(&object.name).cloned();
            match (kind.as_str(), &previous) {
                ("ADDED", None) => {
                    ensure!(self.uids.insert(object.uid.clone()), "uid of {object:?} was used before");
                }
                ("MODIFIED", Some(previous)) | ("DELETED", Some(previous)) => {
                    let same = (&object.uid, &object.created) == (&previous.uid, &previous.created);
                    ensure!(same, "{object:?} is not the object that was there: {previous:?}");
                }
                _ => return Err(format!("{kind} of {object:?} where there was {previous:?}")),
            }
            if kind == "DELETED" {
                let last = previous.clone().map(|previous| Version { revision, ..previous });
                ensure!(last.as_ref() == Some(&object), "deleted was {object:?}, not {last:?}");
                state.remove(&object.name);
            } else {
                let token = &object.token;
                ensure!(self.tokens.insert(token.clone()), "write {token} happened twice: {object:?}");
                state.insert(object.name.clone(), object.clone());
                for other in state.values().filter(|other| other.name != object.name) {
                    let address = !object.address.is_empty() && other.address == object.address;
                    let port = object.ports.iter().any(|port| other.ports.contains(port));
                    ensure!(!address && !port, "{object:?} and {other:?} have the same address or port");
                }
            }
            self.events.entry(resource).or_default().push(Event { revision, kind, object, previous });
        }
        Ok(())
    }

    /// Compares all that clients were told, in lives that have ended, with what
    /// happened. The last change of each resource belongs to the life that begins.
    pub fn settle(&mut self) -> Checked {
        let open = std::mem::take(&mut self.open);
        let mut counts = self.counts;
        let index = self.index();
        let mut expected: HashMap<&str, &Write> = HashMap::new();
        for (life, ending) in &open {
            let (writes, reads) = (life.writes.lock().unwrap().clone(), life.reads.lock().unwrap());
            for write in &writes {
                self.settle_write(&index, write, *ending)?;
            }
            for read in reads.iter() {
                self.settle_read(&index, read)?;
            }
            for stream in life.streams.lock().unwrap().iter() {
                self.settle_stream(stream)?;
                counts.watched += stream.frames.len();
                counts.resumed += usize::from(matches!(stream.start, Start::After(_)));
            }
            counts.reads += reads.len();
        }
        let guards: Vec<_> = open.iter().map(|(life, _)| life.writes.lock().unwrap()).collect();
        expected.extend(guards.iter().flat_map(|writes| writes.iter()).map(|write| (&*write.token, write)));
        self.settle_events(&expected)?;
        self.settled = self.events.keys().filter_map(|of| Some((*of, self.place(*of)?))).collect();
        for write in expected.values() {
            match write.outcome {
                Outcome::Written(_) | Outcome::Deleted { .. } => counts.acknowledged += 1,
                Outcome::Refused { .. } => counts.refused += 1,
                Outcome::Lost => {
                    counts.lost += 1;
                    counts.appeared += usize::from(self.tokens.contains(&write.token));
                }
            }
        }
        self.counts = counts;
        Ok(())
    }

    fn index(&self) -> Index<'_> {
        let mut index = Index::default();
        for (resource, events) in &self.events {
            for event in events {
                index.by_name.entry((*resource, &event.object.name)).or_default().push(event);
                if event.kind == "DELETED" {
                    index.deleted.insert(&event.object.uid, event.revision);
                }
            }
        }
        index
    }

    fn settle_write(&self, index: &Index<'_>, write: &Write, ending: Ending) -> Checked {
        let events = index.of(write.resource, &write.name);
        let floor = write.floor;
        match &write.outcome {
            Outcome::Written(version) => {
                let event = index
                    .of(write.resource, &version.name)
                    .iter()
                    .find(|event| event.revision == version.revision && event.kind != "DELETED");
                let found = event.map(|event| &event.object);
                ensure!(found == Some(version), "acknowledged and lost: {write:?}, found {found:?}");
                ensure!(version.token == write.token, "answered with another's version: {write:?}");
                ensure!(version.revision > floor, "revision went back: {write:?}");
            }
            Outcome::Deleted { uid } => {
                let revision = index.deleted.get(uid.as_str());
                ensure!(revision.is_some_and(|revision| *revision > floor), "deleted and there: {write:?}");
            }
            Outcome::Refused { code, reason } => {
                ensure!(!self.tokens.contains(&write.token), "refused and done: {write:?}");
                let true_at_some_time = match (code, reason.as_str(), &write.action) {
                    (404, ..) => possible(events, floor, |version| version.is_none()),
                    (409, "AlreadyExists", _) => possible(events, floor, |version| version.is_some()),
                    (409, _, Action::Update { of: Some(of) } | Action::Delete { of: Some(of) }) => {
                        possible(events, floor, |version| version.is_none_or(|now| now.revision != *of))
                    }
                    // A port that another service has.
                    (422, ..) => true,
                    // Without a version to compare there is nothing to conflict with.
                    _ => false,
                };
                ensure!(true_at_some_time, "refused for what was never so: {write:?}");
            }
            Outcome::Lost => {
                let done = self.tokens.contains(&write.token);
                ensure!(
                    !done || ending == Ending::Killed,
                    "not answered by a clean stop, yet done: {write:?}"
                );
            }
        }
        Ok(())
    }

    /// Every change was asked for, and did what was asked.
    fn settle_events(&self, writes: &HashMap<&str, &Write>) -> Checked {
        let mut deletes: HashMap<(Resource, &str), usize> = HashMap::new();
        let mut settled: HashMap<(Resource, &str), usize> = HashMap::new();
        for write in writes.values() {
            if let (Action::Delete { .. }, Outcome::Deleted { .. } | Outcome::Lost) =
                (&write.action, &write.outcome)
            {
                *deletes.entry((write.resource, write.name.as_str())).or_default() += 1;
            }
        }
        for (resource, events) in &self.events {
            let Some((_, ended)) = events.split_last() else { continue };
            let since = self.settled.get(resource).copied().unwrap_or_default();
            for event in ended.iter().filter(|event| event.revision >= since) {
                let object = &event.object;
                if event.kind == "DELETED" {
                    let key = (*resource, object.name.as_str());
                    *settled.entry(key).or_default() += 1;
                    ensure!(
                        settled[&key] <= deletes.get(&key).copied().unwrap_or(0),
                        "nobody deleted {object:?}"
                    );
                    continue;
                }
                let Some(write) = writes.get(object.token.as_str()) else {
                    return Err(format!("nobody wrote {object:?}"));
                };
                let named = match write.action {
                    Action::Generate => object.name.starts_with(&write.name) && object.name != write.name,
                    _ => object.name == write.name,
                };
                ensure!(named && write.resource == *resource, "{write:?} wrote {object:?}");
                let previous = event.previous.as_ref().map(|previous| previous.revision);
                let right = match (&write.action, previous) {
                    (Action::Create | Action::Generate, None) => true,
                    (Action::Update { of: Some(of) }, Some(previous)) => *of == previous,
                    (Action::Update { of: None }, Some(_)) => true,
                    // A PUT makes a service that is not there, whatever version it names.
                    (Action::Update { .. }, None) => *resource == Resource::Services,
                    _ => false,
                };
                ensure!(right, "{write:?} was done to version {previous:?}");
                ensure!(object.revision > write.floor, "{write:?} got an old revision: {object:?}");
            }
        }
        Ok(())
    }

    fn settle_read(&self, index: &Index<'_>, read: &Read) -> Checked {
        match read {
            Read::Get { resource, name, floor, found } => {
                let events = index.of(*resource, name);
                if let Some(found) = found {
                    let known = events.iter().any(|event| event.object == *found && event.kind != "DELETED");
                    ensure!(known, "read and lost: {found:?}");
                }
                let revision = found.as_ref().map(|found| found.revision);
                let so =
                    possible(events, *floor, |version| version.map(|version| version.revision) == revision);
                ensure!(so, "stale: {read:?} in {events:?}");
            }
            Read::List { resource, floor, revision, asked, items } => {
                match asked {
                    Some(asked) => ensure!(revision == asked, "asked for a list at {asked}, got {revision}"),
                    None => ensure!(revision >= floor, "{floor} was told before a list at {revision}"),
                }
                self.compare(*resource, *revision, None, items)?;
            }
        }
        Ok(())
    }

    /// `items` are what there was at a revision.
    pub fn compare(
        &self,
        resource: Resource,
        revision: u64,
        color: Option<&str>,
        items: &[Version],
    ) -> Checked {
        let mut state: BTreeMap<&str, &Version> = BTreeMap::new();
        for event in self.after(resource, 0).take_while(|event| event.revision <= revision) {
            let name = event.object.name.as_str();
            match event.left() {
                None => state.remove(name),
                Some(version) => state.insert(name, version),
            };
        }
        state.retain(|_, version| color.is_none_or(|color| color == version.color));
        let differs = |(left, right): &(&Version, &Version)| left != right;
        let first = state.values().copied().zip(items).find(differs);
        let same = first.is_none() && state.len() == items.len();
        let (expected, found) = (state.len(), items.len());
        ensure!(
            same,
            "{found} objects listed at {revision} instead of {expected}, the first difference {first:?}"
        );
        Ok(())
    }

    fn settle_stream(&self, stream: &Stream) -> Checked {
        let color = stream.color.as_deref();
        let after = match &stream.start {
            Start::After(after) => *after,
            Start::State { floor, state, complete: Some(complete) } => {
                ensure!(complete >= floor, "a watch begins with an old state: {stream:?}");
                self.compare(stream.resource, *complete, color, state)?;
                *complete
            }
            // It ended before all was there.
            Start::State { .. } => return Ok(()),
        };
        let mut expected =
            self.after(stream.resource, after).filter_map(|event| seen(event, color)).peekable();
        let mut last = after;
        for (kind, version) in &stream.frames {
            if kind == "BOOKMARK" {
                let early = expected.peek().is_some_and(|(_, next)| next.revision <= version.revision);
                ensure!(!early && version.revision >= last, "a bookmark too far: {version:?} in {stream:?}");
                last = version.revision;
                continue;
            }
            let (wanted_kind, wanted) =
                expected.next().ok_or_else(|| format!("a watch told what never happened: {version:?}"))?;
            let same = (kind.as_str(), version) == (wanted_kind, &wanted);
            ensure!(
                same,
                "a watch after {after} told {kind} {version:?} instead of {wanted_kind} {wanted:?}"
            );
            last = version.revision;
        }
        Ok(())
    }

    fn after(&self, resource: Resource, revision: u64) -> impl Iterator<Item = &Event> {
        let events = self.events.get(&resource).map(Vec::as_slice).unwrap_or_default();
        let start = events.partition_point(|event| event.revision <= revision);
        events[start..].iter()
    }
}

#[derive(Default)]
struct Index<'a> {
    by_name: HashMap<(Resource, &'a str), Vec<&'a Event>>,
    deleted: HashMap<&'a str, u64>,
}

impl<'a> Index<'a> {
    fn of(&self, resource: Resource, name: &'a str) -> &[&'a Event] {
        self.by_name.get(&(resource, name)).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether something was true of an object at `floor` or at some time after it.
fn possible(events: &[&Event], floor: u64, holds: impl Fn(Option<&Version>) -> bool) -> bool {
    let start = events.partition_point(|event| event.revision <= floor);
    let at_floor = events[..start].last().and_then(|event| event.left());
    holds(at_floor) || events[start..].iter().any(|event| holds(event.left()))
}

/// An event as a watch with a selector shows it.
fn seen<'a>(event: &'a Event, color: Option<&str>) -> Option<(&'a str, Version)> {
    let Some(color) = color else { return Some((&event.kind, event.object.clone())) };
    let before = event.previous.as_ref().filter(|previous| previous.color == color);
    let is = event.kind != "DELETED" && event.object.color == color;
    match (before, is) {
        (None, false) => None,
        (None, true) => Some(("ADDED", event.object.clone())),
        (Some(_), true) => Some(("MODIFIED", event.object.clone())),
        (Some(before), false) => Some(("DELETED", Version { revision: event.revision, ..before.clone() })),
    }
}
