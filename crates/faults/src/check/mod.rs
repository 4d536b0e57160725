//! The rules. Each is a function from a history to what is wrong with it, and knows nothing of how it came about.
//!
//! Resource versions are the witness: a store gives every change one number, so the changes of an object in the
//! order of their numbers are the only order in which its writes can have happened. What is left to check is that
//! each write did what was asked to what was there, that nobody was told anything else, and that this order agrees
//! with the times at which clients asked and were answered.

use std::collections::HashMap;

use crate::history::{Change, History, Outcome, Resource, Span, Version};

mod allocations;
mod leads;
mod reads;
mod revisions;
mod watches;
mod writes;

pub use allocations::{Address, addresses, allocations};
pub use leads::leads;
pub use reads::reads;
pub use revisions::revisions;
pub use watches::watches;
pub use writes::writes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Of the rule: `writes`, `reads`, `watches`, `revisions`, `allocations` or `leads`.
    pub rule: &'static str,
    pub text: String,
}

/// All that is wrong, and how much was looked at.
pub fn all(history: &History) -> Vec<Violation> {
    let truth = Truth::new(history);
    let rules: [fn(&History, &Truth<'_>, &mut Findings); 6] =
        [revisions, writes, reads, watches, allocations, leads];
    rules.into_iter().flat_map(|rule| found(rule, history, &truth)).collect()
}

fn found(
    rule: fn(&History, &Truth<'_>, &mut Findings),
    history: &History,
    truth: &Truth<'_>,
) -> Vec<Violation> {
    let mut findings = Findings::default();
    rule(history, truth, &mut findings);
    findings.0
}

#[derive(Default)]
pub struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, rule: &'static str, text: String) {
        self.0.push(Violation { rule, text });
    }
}

/// What happened, to be asked in several ways.
pub struct Truth<'a> {
    /// By name, in order.
    chains: HashMap<Resource, HashMap<&'a str, Vec<&'a Change>>>,
    /// The change that each write made; the first, should there be several.
    pub of_token: HashMap<u64, &'a Change>,
    /// By the uid of what was deleted, which deletions have instead of a number.
    pub deletions: HashMap<&'a str, &'a Change>,
    /// What clients were shown of a change.
    pub shown: HashMap<(Resource, u64), &'a Version>,
    told: HashMap<Resource, Timeline>,
    begun: HashMap<Resource, Timeline>,
}

impl<'a> Truth<'a> {
    pub fn new(history: &'a History) -> Self {
        let mut chains: HashMap<Resource, HashMap<&str, Vec<&Change>>> = HashMap::new();
        let mut of_token = HashMap::new();
        for change in &history.changes {
            chains.entry(change.resource).or_default().entry(&change.name).or_default().push(change);
            if let Some(token) = change.token {
                of_token.entry(token).or_insert(change);
            }
        }
        let mut shown = HashMap::new();
        let mut told: HashMap<Resource, Vec<(u64, u64)>> = HashMap::new();
        for (resource, at, revision, version) in observations(history) {
            told.entry(resource).or_default().push((at, revision));
            if let Some(version) = version {
                shown.entry((resource, version.revision)).or_insert(version);
            }
        }
        let mut truth = Self {
            chains,
            of_token,
            deletions: HashMap::new(),
            shown,
            told: HashMap::new(),
            begun: HashMap::new(),
        };
        for change in history.changes.iter().filter(|change| change.token.is_none()) {
            if let Some(uid) = truth.deleted_uid(change) {
                truth.deletions.insert(uid, change);
            }
        }
        for write in &history.writes {
            if let Outcome::Deleted { uid } = &write.outcome
                && let Some(change) = truth.deletions.get(uid.as_str())
            {
                told.entry(write.resource).or_default().push((write.span.ended, change.revision));
            }
        }
        let mut begun: HashMap<Resource, Vec<(u64, u64)>> = HashMap::new();
        for write in &history.writes {
            if let Some(change) = truth.of_token.get(&write.token) {
                begun.entry(write.resource).or_default().push((write.span.begun, change.revision));
            }
        }
        truth.told = told.into_iter().map(|(of, points)| (of, Timeline::greatest_until(points))).collect();
        truth.begun = begun.into_iter().map(|(of, points)| (of, Timeline::least_since(points))).collect();
        truth
    }

    /// What there was of an object before a revision.
    pub fn before(&self, resource: Resource, name: &str, revision: u64) -> Option<&'a Change> {
        let chain = self.chain(resource, name);
        let end = chain.partition_point(|change| change.revision < revision);
        chain.get(..end)?.last().copied().filter(|change| change.token.is_some())
    }

    fn deleted_uid(&self, deletion: &Change) -> Option<&'a str> {
        let resource = deletion.resource;
        let previous = self.before(resource, &deletion.name, deletion.revision);
        let shown = |revision| self.shown.get(&(resource, revision));
        let shown =
            previous.and_then(|previous| shown(previous.revision)).or_else(|| shown(deletion.revision));
        shown.map(|version| version.uid.as_str())
    }

    /// The changes of an object, in order.
    pub fn chain(&self, resource: Resource, name: &str) -> &[&'a Change] {
        self.chains.get(&resource).and_then(|chains| chains.get(name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The newest revision of a resource that anybody had been told before `at`: what begins then is newer.
    pub fn floor(&self, resource: Resource, at: u64) -> u64 {
        self.told.get(&resource).and_then(|timeline| timeline.before(at)).unwrap_or_default()
    }

    /// As [`Truth::floor`], of any resource: for writes, which all take their numbers from one place.
    pub fn floor_of_all(&self, at: u64) -> u64 {
        Resource::ALL.into_iter().map(|resource| self.floor(resource, at)).max().unwrap_or_default()
    }

    /// The oldest revision that was asked for only after `at`: what ended then is older.
    fn ceiling(&self, resource: Resource, at: u64) -> u64 {
        self.begun.get(&resource).and_then(|timeline| timeline.after(at)).unwrap_or(u64::MAX)
    }

    /// Whether something was true of an object at a time between the two.
    pub fn possible(
        &self,
        resource: Resource,
        name: &str,
        span: Span,
        holds: impl Fn(Option<&Change>) -> bool,
    ) -> bool {
        let (floor, ceiling) = (self.floor(resource, span.begun), self.ceiling(resource, span.ended));
        let chain = self.chain(resource, name);
        let start = chain.partition_point(|change| change.revision <= floor);
        let (before, after) = chain.split_at(start);
        let left = |change: &&'a Change| change.token.is_some().then_some(*change);
        holds(before.last().and_then(left))
            || after.iter().take_while(|change| change.revision < ceiling).any(|change| holds(left(change)))
    }
}

/// Everything that clients were told: of which resource, when, which revision, and what of it.
fn observations(history: &History) -> impl Iterator<Item = (Resource, u64, u64, Option<&Version>)> {
    let writes = history.writes.iter().filter_map(|write| match &write.outcome {
        Outcome::Written(version) => {
            Some((write.resource, write.span.ended, version.revision, Some(version.as_ref())))
        }
        _ => None,
    });
    let gets = history.gets.iter().filter_map(|get| {
        let found = get.found.as_deref()?;
        Some((get.resource, get.span.ended, found.revision, Some(found)))
    });
    let lists = history.lists.iter().flat_map(|list| {
        let whole = (list.resource, list.span.ended, list.revision, None);
        let items = list.items.iter();
        let items = items.map(|item| (list.resource, list.span.ended, item.revision, Some(item.as_ref())));
        std::iter::once(whole).chain(items)
    });
    let frames = history.streams.iter().flat_map(|stream| {
        let frames = stream.frames.iter();
        frames.map(|frame| (stream.resource, frame.at, frame.revision, frame.object.as_deref()))
    });
    writes.chain(gets).chain(lists).chain(frames)
}

/// Revisions by time, each with the extreme of all on one side of it.
struct Timeline(Vec<(u64, u64)>);

impl Timeline {
    fn greatest_until(mut points: Vec<(u64, u64)>) -> Self {
        points.sort_unstable();
        let mut greatest = 0;
        for (_, revision) in &mut points {
            greatest = greatest.max(*revision);
            *revision = greatest;
        }
        Self(points)
    }

    fn least_since(mut points: Vec<(u64, u64)>) -> Self {
        points.sort_unstable();
        let mut least = u64::MAX;
        for (_, revision) in points.iter_mut().rev() {
            least = least.min(*revision);
            *revision = least;
        }
        Self(points)
    }

    fn before(&self, at: u64) -> Option<u64> {
        let end = self.0.partition_point(|(time, _)| *time < at);
        self.0.get(..end)?.last().map(|(_, revision)| *revision)
    }

    fn after(&self, at: u64) -> Option<u64> {
        let start = self.0.partition_point(|(time, _)| *time <= at);
        self.0.get(start).map(|(_, revision)| *revision)
    }
}

#[cfg(test)]
mod tests;
