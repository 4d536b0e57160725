//! The rules on histories made by hand: a good one, and what is found when one thing in it is otherwise.

use std::sync::Arc;

use super::*;
use crate::{
    cluster::LEASE_SECONDS,
    history::{Action, Frame, Get, Kind, Lead, List, Stream, Write},
};

const MAP: Resource = Resource::ConfigMaps;
const SERVICE: Resource = Resource::Services;

fn span(begun: u64) -> Span {
    Span { begun, ended: begun + 5 }
}

fn version(revision: u64, name: &str, uid: &str, token: u64) -> Arc<Version> {
    let (name, uid) = (name.to_owned(), uid.to_owned());
    Arc::new(Version { revision, name, uid, token, address: String::new(), ports: Vec::new() })
}

fn service(revision: u64, name: &str, token: u64, address: &str, port: u64) -> Arc<Version> {
    let (address, ports) = (address.to_owned(), vec![port]);
    Arc::new(Version { address, ports, ..(*version(revision, name, name, token)).clone() })
}

fn write(token: u64, resource: Resource, name: &str, action: Action, begun: u64, outcome: Outcome) -> Write {
    Write { token, server: 0, resource, name: name.to_owned(), action, span: span(begun), outcome }
}

fn change(revision: u64, resource: Resource, name: &str, token: impl Into<Option<u64>>) -> Change {
    Change { revision, resource, name: name.to_owned(), token: token.into() }
}

fn frame(at: u64, kind: Kind, object: &Arc<Version>) -> Frame {
    Frame { at, kind, revision: object.revision, object: Some(object.clone()) }
}

/// Two maps and two services: made, changed, deleted, made anew; seen by two servers.
fn good() -> History {
    let [one, two, gone, anew] = [
        version(11, "a", "u1", 1),
        version(12, "a", "u1", 2),
        version(13, "a", "u1", 2),
        version(15, "a", "u2", 5),
    ];
    let services = [service(14, "s", 4, "10.0.0.1", 30_000), service(17, "t", 7, "10.0.0.2", 30_001)];
    let refused = |code, reason: &str| Outcome::Refused { code, reason: reason.to_owned() };
    let writes = vec![
        write(1, MAP, "a", Action::Create, 0, Outcome::Written(one.clone())),
        write(2, MAP, "a", Action::Update { of: Some(11) }, 10, Outcome::Written(two.clone())),
        write(3, MAP, "a", Action::Delete { of: None }, 20, Outcome::Deleted { uid: "u1".to_owned() }),
        write(4, SERVICE, "s", Action::Create, 30, Outcome::Written(services[0].clone())),
        // Nobody was told of it, and it happened.
        write(5, MAP, "a", Action::Create, 40, Outcome::Uncertain),
        write(6, MAP, "a", Action::Update { of: Some(12) }, 55, refused(409, "Conflict")),
        write(7, SERVICE, "t", Action::Create, 60, Outcome::Written(services[1].clone())),
        write(8, MAP, "b", Action::Update { of: None }, 70, refused(404, "NotFound")),
        write(9, MAP, "a", Action::Create, 80, refused(409, "AlreadyExists")),
        // Nobody was told of it, and it did not happen.
        write(10, MAP, "a", Action::Delete { of: None }, 90, Outcome::Uncertain),
    ];
    let changes = vec![
        change(11, MAP, "a", 1),
        change(12, MAP, "a", 2),
        change(13, MAP, "a", None),
        change(14, SERVICE, "s", 4),
        change(15, MAP, "a", 5),
        change(17, SERVICE, "t", 7),
    ];
    let got = |begun, found: Option<&Arc<Version>>| Get {
        server: 0,
        resource: MAP,
        name: "a".to_owned(),
        span: span(begun),
        found: found.cloned(),
    };
    let listed = |begun, revision, items: &[&Arc<Version>]| List {
        server: 1,
        resource: MAP,
        span: span(begun),
        revision,
        items: items.iter().map(|item| (*item).clone()).collect(),
    };
    let frames = [(Kind::Added, &one), (Kind::Modified, &two), (Kind::Deleted, &gone), (Kind::Added, &anew)];
    let frames: Vec<Frame> =
        frames.iter().zip(100..).map(|((kind, object), at)| frame(at, *kind, object)).collect();
    let bookmark = Frame { at: 110, kind: Kind::Bookmark, revision: 17, object: None };
    let whole = [&frames[..], &[bookmark]].concat();
    History {
        writes,
        gets: vec![got(4, Some(&one)), got(26, None), got(46, Some(&anew)), got(65, Some(&anew))],
        lists: vec![listed(17, 12, &[&two]), listed(32, 14, &[]), listed(95, 17, &[&anew])],
        streams: vec![
            Stream { server: 0, resource: MAP, after: 10, frames: whole },
            Stream { server: 1, resource: MAP, after: 12, frames: frames[2..].to_vec() },
        ],
        changes,
        // Renewed, taken when that was long ago, given back and taken at once.
        leads: vec![
            lead(1, 0, "a"),
            lead(2, 1, "a"),
            lead(3, LEASE_SECONDS + 1, "b"),
            lead(4, LEASE_SECONDS + 2, ""),
            lead(5, LEASE_SECONDS + 2, "a"),
        ],
    }
}

fn lead(revision: u64, seconds: u64, holder: &str) -> Lead {
    Lead { revision, at: seconds * 1_000_000_000, holder: holder.to_owned() }
}

#[test]
fn nothing_is_wrong_with_a_good_history() {
    assert_eq!(all(&good()), []);
    assert_eq!(all(&History::default()), []);
}

/// What is found when something is otherwise: by which rule, with which words.
#[track_caller]
fn found(rule: &str, words: &str, otherwise: impl FnOnce(&mut History)) {
    let mut history = good();
    otherwise(&mut history);
    let violations = all(&history);
    let is_it = |violation: &&Violation| violation.rule == rule && violation.text.contains(words);
    assert!(violations.iter().any(|violation| is_it(&violation)), "{violations:#?}");
}

fn refuse(code: u16, reason: &str) -> Outcome {
    Outcome::Refused { code, reason: reason.to_owned() }
}

#[test]
fn writes_that_are_not_what_was_answered() {
    found("writes", "acknowledged and not there", |history| {
        history.changes.retain(|change| change.token != Some(7));
    });
    found("writes", "refused and done", |history| history.writes[1].outcome = refuse(409, "Conflict"));
    found("writes", "acknowledged as another change", |history| {
        history.writes[6].outcome = Outcome::Written(service(18, "t", 7, "10.0.0.2", 30_001));
    });
    found("writes", "answered with what another wrote", |history| {
        history.writes[0].outcome = Outcome::Written(version(11, "a", "u1", 9));
    });
    found("writes", "acknowledged and still there", |history| {
        history.writes[9].outcome = Outcome::Deleted { uid: "u2".to_owned() };
    });
    found("writes", "acknowledged 2 times", |history| {
        history.writes[9].outcome = Outcome::Deleted { uid: "u1".to_owned() };
    });
}

#[test]
fn writes_that_nobody_asked_for() {
    found("writes", "has happened before", |history| history.changes.push(change(20, MAP, "a", 5)));
    found("writes", "nobody wrote", |history| history.changes.push(change(20, MAP, "a", 99)));
    found("writes", "has changed another object", |history| history.changes[4].name = "c".to_owned());
    found("writes", "nobody deleted", |history| history.changes.push(change(20, SERVICE, "s", None)));
    found("writes", "deletes what was not there", |history| history.changes.push(change(20, MAP, "b", None)));
}

#[test]
fn writes_to_what_was_not_there() {
    found("writes", "was made to", |history| history.writes[1].action = Action::Update { of: Some(9) });
    found("writes", "was made to", |history| history.writes[4].action = Action::Update { of: None });
    found("writes", "was made to", |history| {
        // The deletion between the two creates is missing.
        history.changes.remove(2);
    });
}

#[test]
fn refusals_for_what_was_never_so() {
    found("writes", "never so", |history| history.writes[5].action = Action::Update { of: Some(15) });
    found("writes", "never so", |history| history.writes[7].outcome = refuse(409, "AlreadyExists"));
    found("writes", "never so", |history| history.writes[8].outcome = refuse(404, "NotFound"));
}

#[test]
fn reads_that_are_stale_or_made_up() {
    found("reads", "not what there was", |history| history.gets[1].found = Some(version(12, "a", "u1", 2)));
    found("reads", "not what there was", |history| history.gets[3].found = None);
    found("reads", "not what there was", |history| {
        // From the future: asked and answered before the write of it began.
        history.gets[0].found = Some(version(12, "a", "u1", 2));
    });
    found("reads", "never was", |history| history.gets[0].found = Some(version(11, "a", "u1", 8)));
    found("reads", "was told", |history| history.lists[2].revision = 12);
    found("reads", "instead of", |history| history.lists[0].items.clear());
    found("reads", "instead of", |history| history.lists[1].items.push(version(12, "a", "u1", 2)));
}

#[test]
fn a_list_after_an_acknowledged_deletion_is_as_new() {
    found("reads", "was told", |history| {
        history.streams.clear();
        history.lists[1].revision = 12;
        history.lists[1].items = history.lists[0].items.clone();
    });
}

#[test]
fn watches_that_do_not_tell_what_happened() {
    for index in 0..3 {
        found("watches", "instead of", |history| {
            history.streams[0].frames.remove(index);
        });
    }
    found("watches", "was left out", |history| {
        history.streams[0].frames.remove(3);
    });
    found("watches", "instead of", |history| {
        let again = history.streams[0].frames[1].clone();
        history.streams[0].frames.insert(1, again);
    });
    found("watches", "instead of", |history| history.streams[0].frames.swap(0, 1));
    found("watches", "instead of", |history| history.streams[1].after = 11);
    found("watches", "instead of", |history| history.streams[1].after = 13);
    found("watches", "kind of event", |history| history.streams[0].frames[0].kind = Kind::Modified);
    found("watches", "comes after", |history| history.streams[0].frames[4].revision = 14);
    found("watches", "never happened", |history| {
        let made_up = version(18, "a", "u2", 5);
        history.streams[1].frames.push(frame(120, Kind::Modified, &made_up));
    });
}

#[test]
fn revisions_that_go_back_or_say_two_things() {
    found("revisions", "the same revision", |history| history.changes[4].revision = 14);
    found("revisions", "is not after", |history| history.writes[1].span = Span { begun: 200, ended: 205 });
    found("revisions", "elsewhere", |history| {
        history.streams[1].frames[1].object = Some(version(15, "a", "another", 5));
    });
    found("revisions", "uid of", |history| {
        for stream in &mut history.streams {
            let last = stream.frames.iter_mut().rfind(|frame| frame.object.is_some()).unwrap();
            last.object = Some(version(15, "a", "u1", 5));
        }
    });
}

#[test]
fn addresses_and_ports_that_two_services_have() {
    for other in [service(17, "t", 7, "10.0.0.1", 30_001), service(17, "t", 7, "10.0.0.2", 30_000)] {
        found("allocations", "of s, too", |history| history.writes[6].outcome = Outcome::Written(other));
    }
    let mut history = good();
    history.writes[6].outcome = Outcome::Written(service(17, "t", 7, "10.0.0.1", 30_000));
    history.changes.insert(5, change(16, SERVICE, "s", None));
    history.writes.push(write(11, SERVICE, "s", Action::Delete { of: None }, 50, Outcome::Uncertain));
    assert_eq!(all(&history), [], "what was given back may be given again");
}

#[test]
fn addresses_at_rest_are_those_of_services() {
    let pair = |address: &str, service: &str| (address.to_owned(), service.to_owned());
    let check = |services: &[Address], taken: &[Address]| {
        let mut findings = Findings::default();
        addresses(services, taken, &mut findings);
        findings.into_violations().len()
    };
    assert_eq!(check(&[pair("1", "a")], &[pair("1", "a")]), 0);
    assert_eq!(check(&[], &[pair("1", "a")]), 1);
    assert_eq!(check(&[pair("1", "a")], &[]), 1);
    assert_eq!(check(&[pair("1", "a"), pair("1", "b")], &[pair("1", "a"), pair("1", "b")]), 1);
}

#[test]
fn a_lead_that_is_taken_from_one_that_is_heard_of() {
    found("leads", "took what", |history| history.leads[2].at = history.leads[1].at + 1);
    found("leads", "took what", |history| history.leads[3].holder = "c".to_owned());
    let mut history = good();
    history.leads[2].at = 0;
    assert_eq!(all(&history), [], "who heard of a renewal late knows nothing of when it was");
}
