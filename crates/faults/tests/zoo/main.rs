//! The bug zoo: a small server with one bug at a time, under the load of a campaign, written down and checked as in a
//! campaign. Every bug has to be found, by the rule that is about it; without one nothing may be.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod server;

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use server::{Bug, Server};
use sternpost_clock::{machine, seeded::Rng};
use sternpost_faults::{
    check::{self, Violation},
    history::{Recorder, Resource},
    load::{Client, Load, Watcher},
};
use sternpost_testkit::server::AT_LAST;

const FRONTS: usize = 2;
const CLIENTS: usize = 3;
const REQUESTS: u64 = 150;

/// What is wrong with what clients of a server saw.
async fn visit(bug: Bug) -> Vec<Violation> {
    let server = Server::new(bug);
    let recorder = Arc::new(Recorder::new(FRONTS));
    let load = Load::new(recorder.clone(), Duration::ZERO);
    let mut rng = Rng::new(1);
    let mut clients = tokio::task::JoinSet::new();
    let mut watchers = tokio::task::JoinSet::new();
    let until = Arc::new(AtomicU64::new(u64::MAX));
    for front in 0..FRONTS {
        let api = server.front(front);
        for resource in Resource::ALL {
            let watcher = Watcher {
                load: load.clone(),
                api: api.clone(),
                server: front,
                resource,
                rng: rng.fork(),
                place: Arc::default(),
                resumed: Arc::default(),
                relisted: Arc::default(),
            };
            watchers.spawn(watcher.run(until.clone()));
        }
        for _ in 0..CLIENTS {
            let client = Client {
                load: load.clone(),
                api: api.clone(),
                server: front,
                rng: rng.fork(),
                requests: REQUESTS,
            };
            clients.spawn(client.run());
        }
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    // Watches hear of everything: what they have not been told by then does not come.
    machine::sleep(Duration::from_millis(50)).await;
    until.store(0, std::sync::atomic::Ordering::SeqCst);
    load.end();
    while let Some(ended) = machine::timeout(AT_LAST, watchers.join_next()).await.unwrap() {
        ended.unwrap();
    }
    let mut changes = server.changes();
    changes.sort_by_key(|change| change.revision);
    assert!(changes.len() > 200 && server.revision() > 100, "{}", changes.len());
    let history = recorder.finish(changes, Vec::new());
    let events: usize = history.streams.iter().map(|stream| stream.frames.len()).sum();
    assert!(history.streams.len() > 8 && events > 400, "{} {events}", history.streams.len());
    check::all(&history)
}

#[tokio::test]
async fn nothing_is_found_without_a_bug() {
    assert_eq!(visit(Bug::None).await, []);
}

macro_rules! animals {
    ($($name:ident: $bug:ident is found by $rule:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let violations = visit(Bug::$bug).await;
            let rules: BTreeSet<&str> = violations.iter().map(|violation| violation.rule).collect();
            assert!(rules.contains($rule), "{rules:?}");
        }
    )*};
}

animals! {
    a_dropped_event: DropsEvent is found by "watches";
    a_repeated_event: RepeatsEvent is found by "watches";
    events_in_the_wrong_order: SwapsEvents is found by "watches";
    a_watch_that_resumes_late: ResumesLate is found by "watches";
    a_watch_that_resumes_early: ResumesEarly is found by "watches";
    a_bookmark_ahead_of_events: BookmarksAhead is found by "watches";
    an_event_of_another_kind: MistakesKind is found by "watches";
    servers_that_disagree: FrontsDisagree is found by "revisions";
    a_stale_list: StaleList is found by "reads";
    an_old_object_in_a_list: OldObjectInList is found by "reads";
    a_stale_get: StaleGet is found by "reads";
    a_get_that_finds_nothing: LosesSight is found by "reads";
    a_write_that_is_sent_again: SendsAgain is found by "writes";
    a_write_acknowledged_and_not_done: AcknowledgesNothing is found by "writes";
    a_write_done_and_refused: RefusesDone is found by "writes";
    an_update_of_another_version: IgnoresVersion is found by "writes";
    a_create_of_what_is_there: CreatesTwice is found by "writes";
    a_deletion_acknowledged_and_not_done: DeletesNothing is found by "writes";
    a_write_that_is_lost_later: ForgetsWrite is found by "writes";
    a_write_that_nobody_asked_for: WritesByItself is found by "writes";
    a_revision_used_twice: ReusesRevision is found by "revisions";
    a_revision_that_goes_back: RevisionGoesBack is found by "revisions";
    a_uid_used_twice: ReusesUid is found by "revisions";
    an_address_of_two_services: SharesAddress is found by "allocations";
    a_port_of_two_services: SharesPort is found by "allocations";
}
