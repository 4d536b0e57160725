//! Several servers on one store, of which one runs the controllers. Time passes only where all wait for it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::running::{Running, options};
use serde_json::{Value, json};
use sternpost_controllers::{
    Unserved,
    leader_election::{self, NAME, NAMESPACE, Timing},
};
use sternpost_store::{BoxFuture, Store, memory::MemoryStore};
use sternpost_tasks::Tasks;
use sternpost_testkit::shared_store::{SharedStore, Writers};
use tokio::{sync::oneshot, time::Instant};

/// Who began and ended to lead, and when.
type Log = Arc<Mutex<Vec<(Instant, String, bool)>>>;

/// A server that takes part.
struct Candidate {
    running: Running,
    store: Arc<SharedStore>,
    stop: oneshot::Sender<oneshot::Sender<()>>,
    election: tokio::task::JoinHandle<()>,
}

/// Tells when it is dropped, as tasks are when they end.
struct Leading(Log, String);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.lock().unwrap().push((Instant::now(), self.1.clone(), false));
    }
}

async fn candidate(store: &Arc<MemoryStore>, name: &str, log: &Log) -> Candidate {
    let store = SharedStore::of(store.clone(), Writers::Several);
    let running = Running::idle(&(store.clone() as Arc<dyn Store>)).await;
    if running.get("namespaces", "", NAMESPACE).is_none() {
        running.namespace(NAMESPACE).await;
    }
    let (verbs, log, leader) = (running.verbs.clone(), log.clone(), name.to_owned());
    let lead = move |tasks: &Tasks| {
        log.lock().unwrap().push((Instant::now(), leader.clone(), true));
        let leading = Leading(log.clone(), leader.clone());
        tasks.essential("leads", async move {
            let _leading = leading;
            std::future::pending::<()>().await;
        });
        sternpost_controllers::start(&verbs, tasks, options(&["namespace"]));
    };
    let (stop, stopped) = oneshot::channel();
    let election =
        leader_election::run(running.verbs.clone(), name.to_owned(), Timing::default(), lead, stopped);
    let election = tokio::spawn(election);
    Candidate { running, store, stop, election }
}

fn leaders(log: &Log) -> Vec<(String, bool)> {
    log.lock().unwrap().iter().map(|(_, name, leads)| (name.clone(), *leads)).collect()
}

fn lease(running: &Running) -> Value {
    running.get("coordination.k8s.io/leases", NAMESPACE, NAME).unwrap_or_default()["spec"].clone()
}

async fn until_leads(running: &Running, log: &Log, name: &str) {
    let leads = |_: &Running| leaders(log).last() == Some(&(name.to_owned(), true));
    running.until(&format!("{name} leads"), leads).await;
}

/// Two servers of which the first leads.
async fn two(log: &Log) -> (Candidate, Candidate) {
    let store = Arc::new(MemoryStore::default());
    let first = candidate(&store, "first", log).await;
    until_leads(&first.running, log, "first").await;
    let second = candidate(&store, "second", log).await;
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_runs_the_controllers_and_the_lease_says_which() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(leaders(&log), [("first".to_owned(), true)]);
    let spec = lease(&second.running);
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("first"), &json!(0)));
    assert_eq!(spec["leaseDurationSeconds"], 15);
    second.running.namespace("end").await;
    second.running.delete("namespaces", "", "end", None).await;
    second.running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_is_gone_another_leads_within_the_time_of_the_lease() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let killed = Instant::now();
    first.election.abort();
    first.running.tasks.end().await;
    second.running.namespace("end").await;
    second.running.delete("namespaces", "", "end", None).await;
    until_leads(&second.running, &log, "second").await;
    let took = killed.elapsed();
    assert!(took <= Duration::from_secs(15), "{took:?}");
    assert!(took > Duration::from_secs(12), "{took:?}");
    let spec = lease(&second.running);
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("second"), &json!(1)));
    second.running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_write_ends_its_controllers_before_another_begins() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    first.store.hold_commits();
    let held = Instant::now();
    until_leads(&second.running, &log, "second").await;
    assert_eq!(
        leaders(&log),
        [("first".to_owned(), true), ("first".to_owned(), false), ("second".to_owned(), true)]
    );
    let [_, (ended, ..), (begun, ..)] = log.lock().unwrap().clone().try_into().unwrap();
    assert!(ended - held <= Duration::from_secs(10), "{:?}", ended - held);
    assert!(begun - ended >= Duration::from_secs(4), "{:?}", begun - ended);
    // It waits from now on, and leads again when the other has gone: in the same process.
    first.store.let_commit();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(leaders(&log).len(), 3);
    second.election.abort();
    until_leads(&first.running, &log, "first").await;
    assert_eq!(lease(&first.running)["leaseTransitions"], 2);
    first.running.namespace("end").await;
    first.running.delete("namespaces", "", "end", None).await;
    first.running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_hears_nothing_does_not_take_what_is_renewed() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // To it the lease is as old as that.
    second.store.hold_deliveries();
    tokio::time::sleep(Duration::from_secs(60)).await;
    second.store.deliver();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(leaders(&log), [("first".to_owned(), true)]);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn at_its_end_a_leader_gives_the_lease_back_and_another_leads_at_once() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let stopped = Instant::now();
    let (answer, released) = oneshot::channel();
    first.stop.send(answer).unwrap();
    released.await.unwrap();
    until_leads(&second.running, &log, "second").await;
    assert!(stopped.elapsed() < Duration::from_secs(1), "{:?}", stopped.elapsed());
    assert_eq!(leaders(&log)[1], ("first".to_owned(), false));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_another_has_ends_at_once() {
    let log = Log::default();
    let (first, second) = two(&log).await;
    let patch = json!({"spec": {"holderIdentity": "somebody"}});
    second.running.patch("coordination.k8s.io/leases", NAMESPACE, NAME, patch).await;
    let told = Instant::now();
    first.running.until("it has ended", |_| leaders(&log).len() == 2).await;
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    // Somebody is not heard of again.
    first.running.until("one of both leads", |_| leaders(&log).len() == 3).await;
}

#[test]
fn times_with_which_two_could_lead_are_refused() {
    for (lease, renew, retry, fits) in
        [(15, 10, 2, true), (2, 1, 0, false), (10, 10, 2, false), (15, 2, 2, false), (0, 0, 0, false)]
    {
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_secs);
        let timing = Timing { lease_duration, renew_deadline, retry_period };
        assert_eq!(timing.check().is_ok(), fits, "{timing:?}");
    }
}

/// What only another server serves.
#[derive(Default)]
pub(crate) struct Others(Mutex<Vec<String>>);

impl Unserved for Others {
    fn in_namespace<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let keys = self.0.lock().unwrap().iter().map(|key| format!("{key}/{namespace}/a")).collect();
        Box::pin(async { Ok(keys) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_stays_for_as_long_as_it_holds_what_is_not_served_here() {
    let store: Arc<dyn Store> = SharedStore::of(Arc::new(MemoryStore::default()), Writers::Several);
    let running = Running::idle(&store).await;
    let others = Arc::new(Others(Mutex::new(vec!["/registry/widgets".to_owned()])));
    let options =
        sternpost_controllers::Options { unserved: Some(others.clone()), ..options(&["namespace"]) };
    sternpost_controllers::start(&running.verbs, &running.tasks, options);
    running.namespace("end").await;
    running.create("configmaps", "end", json!({"metadata": {"name": "a"}})).await;
    running.delete("namespaces", "", "end", None).await;
    running.until("its content is gone", |it| it.names("configmaps", "end").is_empty()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let conditions = running.get("namespaces", "", "end").unwrap()["status"]["conditions"].clone();
    let failure = conditions.as_array().unwrap().iter().find(|it| it["reason"] == "ContentDeletionFailed");
    assert_eq!(
        failure.unwrap()["message"],
        "Failed to delete all resource types, 1 remaining: `/registry/widgets/end/a` is of no kind that this server serves"
    );
    others.0.lock().unwrap().clear();
    running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
}
