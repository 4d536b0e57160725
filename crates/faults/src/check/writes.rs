//! Writes are linearizable: what was acknowledged happened, what was refused did not, what is uncertain did at most
//! once, and each did what was asked to what was there.

use std::collections::{HashMap, HashSet};

use super::{Findings, Truth};
use crate::history::{Action, Change, History, Outcome, Resource, Write};

const RULE: &str = "writes";

pub fn writes(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    let by_token: HashMap<u64, &Write> = history.writes.iter().map(|write| (write.token, write)).collect();
    for write in &history.writes {
        if let Err(text) = answered(write, truth) {
            findings.add(RULE, text);
        }
    }
    let mut seen = HashSet::new();
    for change in &history.changes {
        let Some(token) = change.token else { continue };
        if !seen.insert(token) {
            findings.add(RULE, format!("{change:?} has happened before: {:?}", by_token.get(&token)));
        }
        match by_token.get(&token) {
            None => findings.add(RULE, format!("nobody wrote {change:?}")),
            Some(write) => {
                if let Err(text) = done(write, change, truth) {
                    findings.add(RULE, text);
                }
            }
        }
    }
    deletions(history, truth, findings);
}

/// Whether what a client was told is so.
fn answered(write: &Write, truth: &Truth<'_>) -> Result<(), String> {
    let happened = truth.of_token.get(&write.token);
    match &write.outcome {
        Outcome::Written(version) => match happened {
            None => Err(format!("acknowledged and not there: {write:?}")),
            Some(change) if change.revision != version.revision => {
                Err(format!("acknowledged as another change than {change:?}: {write:?}"))
            }
            Some(_) if (version.token, &version.name) != (write.token, &write.name) => {
                Err(format!("answered with what another wrote: {write:?}"))
            }
            Some(_) => Ok(()),
        },
        Outcome::Deleted { uid } => {
            let floor = truth.floor(write.resource, write.span.begun);
            match truth.deletions.get(uid.as_str()) {
                Some(change) if change.revision > floor && change.name == write.name => Ok(()),
                Some(change) => Err(format!("{change:?} is not what was done by {write:?}")),
                None => Err(format!("acknowledged and still there: {write:?}")),
            }
        }
        Outcome::Refused { .. } if happened.is_some() => {
            Err(format!("refused and done as {happened:?}: {write:?}"))
        }
        Outcome::Refused { code, reason } => {
            let possible = |holds: &dyn Fn(Option<&Change>) -> bool| {
                truth.possible(write.resource, &write.name, write.span, holds)
            };
            let so = match (code, reason.as_str(), write.action) {
                (404, ..) => possible(&|there| there.is_none()),
                (409, "AlreadyExists", Action::Create) => possible(&|there| there.is_some()),
                (409, _, Action::Update { of: Some(of) } | Action::Delete { of: Some(of) }) => {
                    possible(&|there| there.is_none_or(|now| now.revision != of))
                }
                (409, ..) => false,
                // Ports that others have, no space, too many requests: nothing that the history tells.
                _ => true,
            };
            if so { Ok(()) } else { Err(format!("refused for what was never so: {write:?}")) }
        }
        Outcome::Uncertain => Ok(()),
    }
}

/// Whether a change is what its write asked for, and was made to what it asked for.
fn done(write: &Write, change: &Change, truth: &Truth<'_>) -> Result<(), String> {
    if (write.resource, &write.name) != (change.resource, &change.name) {
        return Err(format!("{write:?} has changed another object: {change:?}"));
    }
    let previous = truth.before(change.resource, &change.name, change.revision);
    let right = match (write.action, previous.map(|previous| previous.revision)) {
        (Action::Create, None) => true,
        (Action::Update { of: Some(of) }, Some(previous)) => of == previous,
        (Action::Update { of: None }, Some(_)) => true,
        // A PUT makes a service that is not there, whatever version it names.
        (Action::Update { .. }, None) => write.resource == Resource::Services,
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("{change:?} was made to {previous:?} by {write:?}")) }
}

/// Every deletion was asked for: by one who was told so, or by one of those who were told nothing.
fn deletions(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    let mut acknowledged: HashMap<u64, u64> = HashMap::new();
    let mut uncertain: HashMap<(Resource, &str), Vec<Option<u64>>> = HashMap::new();
    for write in &history.writes {
        match (&write.outcome, write.action) {
            (Outcome::Deleted { uid }, _) => {
                if let Some(change) = truth.deletions.get(uid.as_str()) {
                    *acknowledged.entry(change.revision).or_default() += 1;
                }
            }
            (Outcome::Uncertain, Action::Delete { of }) => {
                uncertain.entry((write.resource, &write.name)).or_default().push(of);
            }
            _ => {}
        }
    }
    for change in history.changes.iter().filter(|change| change.token.is_none()) {
        let previous = truth.before(change.resource, &change.name, change.revision);
        if previous.is_none() {
            findings.add(RULE, format!("{change:?} deletes what was not there"));
        }
        match acknowledged.get(&change.revision) {
            Some(1) => continue,
            Some(times) => findings.add(RULE, format!("{change:?} was acknowledged {times} times")),
            None => {}
        }
        let candidates = uncertain.get_mut(&(change.resource, change.name.as_str()));
        // Those that name the version first: they can explain nothing else.
        let explained = candidates.and_then(|all| {
            let exact = |of: &Option<u64>| of.is_some() && *of == previous.map(|change| change.revision);
            let chosen = all.iter().position(exact).or_else(|| all.iter().position(Option::is_none))?;
            Some(all.swap_remove(chosen))
        });
        if explained.is_none() {
            findings.add(RULE, format!("nobody deleted what {change:?} deletes"));
        }
    }
}
