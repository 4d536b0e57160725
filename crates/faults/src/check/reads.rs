//! Reads are as new as anything that anybody was told before they began, and show what there was.

use std::collections::BTreeMap;

use super::{Findings, Truth};
use crate::history::{Change, Get, History, List, Resource};

const RULE: &str = "reads";

pub fn reads(history: &History, truth: &Truth<'_>, findings: &mut Findings) {
    for get in &history.gets {
        if let Err(text) = got(get, truth) {
            findings.add(RULE, text);
        }
    }
    // In the order of their revisions, so that the state goes forward only.
    let mut lists: Vec<&List> = history.lists.iter().collect();
    lists.sort_by_key(|list| list.revision);
    let mut states: BTreeMap<Resource, State<'_>> = BTreeMap::new();
    let mut changes = history.changes.iter().peekable();
    for list in lists {
        while let Some(change) = changes.next_if(|change| change.revision <= list.revision) {
            let state = states.entry(change.resource).or_default();
            match change.token {
                Some(_) => state.insert(&change.name, change),
                None => state.remove(change.name.as_str()),
            };
        }
        let state = states.entry(list.resource).or_default();
        if let Err(text) = listed(list, state, truth) {
            findings.add(RULE, text);
        }
    }
}

type State<'a> = BTreeMap<&'a str, &'a Change>;

fn got(get: &Get, truth: &Truth<'_>) -> Result<(), String> {
    if let Some(found) = &get.found {
        let chain = truth.chain(get.resource, &get.name);
        let is_it =
            |change: &&&Change| change.revision == found.revision && change.token == Some(found.token);
        if found.name != get.name || chain.iter().find(is_it).is_none() {
            return Err(format!("never was: {get:?}"));
        }
    }
    let revision = get.found.as_ref().map(|found| found.revision);
    let so = truth
        .possible(get.resource, &get.name, get.span, |there| there.map(|change| change.revision) == revision);
    if so {
        return Ok(());
    }
    let floor = truth.floor(get.resource, get.span.begun);
    Err(format!("not what there was while it was asked for, after {floor} was told: {get:?}"))
}

fn listed(list: &List, state: &State<'_>, truth: &Truth<'_>) -> Result<(), String> {
    let floor = truth.floor(list.resource, list.span.begun);
    let (server, revision) = (list.server, list.revision);
    if revision < floor {
        return Err(format!("a list of server {server} at {revision} after {floor} was told: {list:?}"));
    }
    let mut items: Vec<_> =
        list.items.iter().map(|item| (item.name.as_str(), item.revision, item.token)).collect();
    items.sort_unstable();
    let expected: Vec<_> = state
        .iter()
        .map(|(name, change)| (*name, change.revision, change.token.unwrap_or_default()))
        .collect();
    if items != expected {
        return Err(format!(
            "a list of server {server} at {revision} ({:?}) shows {items:?} instead of {expected:?}",
            list.span
        ));
    }
    Ok(())
}
