//! A resource version is of one change, is never used again, and says the same whoever shows it.

use std::collections::HashMap;

use super::{Findings, Truth, observations};
use crate::history::{History, Kind, Outcome};

const RULE: &str = "revisions";

pub fn revisions(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    for (one, next) in history.changes.iter().zip(history.changes.iter().skip(1)) {
        if one.revision >= next.revision {
            findings.add(RULE, format!("{one:?} and {next:?} have the same revision"));
        }
    }
    // Of writes: later ones have greater numbers than anything that was told before they began.
    for write in &history.writes {
        let revision = match &write.outcome {
            Outcome::Written(version) => Some(version.revision),
            _ => truth.of_token.get(&write.token).map(|change| change.revision),
        };
        let floor = truth.floor_of_all(write.span.begun);
        if let Some(revision) = revision.filter(|revision| *revision <= floor) {
            findings.add(RULE, format!("{revision} is not after {floor}, which was told before {write:?}"));
        }
    }
    for (resource, at, _, version) in observations(history) {
        let Some(version) = version else { continue };
        let first = truth.shown.get(&(resource, version.revision));
        if let Some(first) = first.filter(|first| **first != version) {
            findings.add(RULE, format!("{version:?}, at {at} ns, was shown as {first:?} elsewhere"));
        }
    }
    uids(history, findings);
}

/// An object keeps its uid until it is deleted, and no other object ever has it.
fn uids(history: &History, findings: &mut Findings) {
    let mut lives: HashMap<&str, (&str, Option<u64>)> = HashMap::new();
    let mut frames: Vec<_> = history.streams.iter().flat_map(|stream| &stream.frames).collect();
    frames.sort_by_key(|frame| frame.revision);
    for frame in frames {
        let Some(object) = frame.object.as_deref() else { continue };
        let life = lives.entry(&object.uid).or_insert((&object.name, None));
        let over = life.1.is_some_and(|end| end < frame.revision);
        if life.0 != object.name || over {
            findings.add(RULE, format!("uid of {object:?} was that of {life:?}"));
        }
        if frame.kind == Kind::Deleted {
            life.1 = Some(frame.revision);
        }
    }
}
