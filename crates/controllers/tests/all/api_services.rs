//! The availability of APIServices, and APIServices that are put back. Reasons, texts and rhythm are
//! those of kube-apiserver 1.36.4.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use crate::running::Running;
use serde_json::{Value, json};
use sternpost_controllers::api_services::{self, ATTEMPTS, INTERVAL, Servers};
use sternpost_store::BoxFuture;
use sternpost_verbs::{Part, Target, Verbs};
use tokio::time::Instant;

const API_SERVICES: &str = "apiregistration.k8s.io/apiservices";
const SLICES: &str = "discovery.k8s.io/endpointslices";

/// How long a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers that answer as the test wants.
#[derive(Default)]
struct Fake {
    answers: Mutex<BTreeMap<String, Answer>>,
    /// What is in the table.
    table: Mutex<BTreeMap<String, Value>>,
    /// Which was asked when.
    asked: Mutex<Vec<(String, Instant)>>,
    /// What was announced, and what the stored condition said by then.
    announced: Mutex<Vec<(Value, Option<String>)>>,
    verbs: OnceLock<Arc<Verbs>>,
}

#[derive(Clone)]
enum Answer {
    Well,
    Badly(&'static str),
    Never,
    /// Every other time.
    Now,
}

impl Servers for Fake {
    fn put(&self, name: &str, api_service: &Value) {
        self.table.lock().unwrap().insert(name.into(), api_service["spec"].clone());
    }

    fn remove(&self, name: &str) {
        self.table.lock().unwrap().remove(name);
    }

    fn announce(&self, name: &str, api_service: &Value) {
        let verbs = self.verbs.get().unwrap();
        let served = verbs.served.get("apiregistration.k8s.io", "v1", "apiservices").unwrap();
        let stored = verbs.get(Target { served: &served, namespace: "", name }).ok();
        let stored = stored.map(|object| object.value()["status"]["conditions"][0]["status"].to_string());
        let status = api_service["status"]["conditions"][0]["status"].clone();
        self.announced.lock().unwrap().push((status, stored));
    }

    fn has_address(&self, name: &str) -> bool {
        name.starts_with("v1.direct")
    }

    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), String>> {
        assert!(self.table.lock().unwrap().contains_key(name), "it is in the table before it is asked");
        let mut asked = self.asked.lock().unwrap();
        asked.push((name.into(), Instant::now()));
        let count = asked.iter().filter(|(asked, _)| asked == name).count();
        let answer = self.answers.lock().unwrap().get(name).cloned().unwrap_or(Answer::Well);
        Box::pin(async move {
            match answer {
                Answer::Well => Ok(()),
                Answer::Badly(why) => Err(why.into()),
                Answer::Never => {
                    tokio::time::sleep(CHECK_TIMEOUT).await;
                    Err("too late".into())
                }
                Answer::Now if count % 2 == 0 => Ok(()),
                Answer::Now => Err("not now".into()),
            }
        })
    }
}

impl Fake {
    fn answer(&self, name: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(name.into(), answer);
    }

    /// When it was asked, in milliseconds since `begun`.
    fn asked(&self, name: &str, begun: Instant) -> Vec<u128> {
        let asked = self.asked.lock().unwrap();
        let of = asked.iter().filter(|(asked, _)| asked == name);
        of.map(|(_, when)| when.duration_since(begun).as_millis()).collect()
    }
}

async fn start() -> (Running, Arc<Fake>) {
    let running = Running::start(&["-*"]).await;
    let servers = Arc::new(Fake { verbs: running.verbs.clone().into(), ..Fake::default() });
    api_services::start(running.verbs.clone(), &running.tasks, servers.clone()).await;
    running.namespace("ext").await;
    (running, servers)
}

fn api_service(group: &str, service: &str) -> Value {
    json!({
        "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "ext", "name": service},
        },
    })
}

impl Running {
    async fn register(&self, group: &str, service: &str) {
        self.create(API_SERVICES, "", api_service(group, service)).await;
    }

    /// A service that is elsewhere, so that nothing else is needed.
    async fn outside(&self, name: &str) {
        let spec = json!({"type": "ExternalName", "externalName": "localhost"});
        self.create("services", "ext", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    fn condition(&self, name: &str) -> Option<(String, String, String)> {
        let object = self.get(API_SERVICES, "", name)?;
        let condition = object["status"]["conditions"].as_array()?.first()?.clone();
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    async fn until_it_says(&self, name: &str, status: &str, reason: &str, message: &str) {
        let expected = Some((status.to_owned(), reason.to_owned(), message.to_owned()));
        let begun = Instant::now();
        while self.condition(name) != expected {
            let now = self.condition(name);
            assert!(begun.elapsed() < INTERVAL / 2, "{name} says {now:?}, not {expected:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_knows_that_a_server_is_available_before_anybody_reads_it() {
    let (running, servers) = start().await;
    running.outside("a").await;
    let name = "v1.a.example";
    servers.answer(name, Answer::Badly("no"));
    running.register("a.example", "a").await;
    running.until_it_says(name, "False", "FailedDiscoveryCheck", "no").await;
    assert_eq!(*servers.announced.lock().unwrap(), []);
    servers.answer(name, Answer::Well);
    running.until_it_says(name, "True", "Passed", "all checks passed").await;
    let (said, stored) = (json!("True"), Some("\"False\"".to_owned()));
    assert_eq!(*servers.announced.lock().unwrap(), [(said, stored)]);
}

#[tokio::test(start_paused = true)]
async fn conditions_follow_the_service_the_slices_and_the_answers() {
    let (running, servers) = start().await;
    let name = "v1.a.example";
    running.register("a.example", "a").await;
    running.until_it_says(name, "False", "ServiceNotFound", "service/a in \"ext\" is not present").await;

    let ports = |port: u16| json!({"spec": {"ports": [{"port": port, "name": "https"}]}});
    let mut service = ports(8443);
    service["metadata"] = json!({"name": "a"});
    running.create("services", "ext", service).await;
    let message = "service/a in \"ext\" is not listening on port 443";
    running.until_it_says(name, "False", "ServicePortError", message).await;

    running.patch("services", "ext", "a", ports(443)).await;
    let message = "cannot find endpointslices for service/a in \"ext\"";
    running.until_it_says(name, "False", "EndpointsNotFound", message).await;

    let slice = |ready: bool| {
        json!({
            "metadata": {"name": "a-1", "labels": {"kubernetes.io/service-name": "a"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": 9001}],
            "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": ready}}],
        })
    };
    running.create(SLICES, "ext", slice(false)).await;
    let message = "endpointslices for service/a in \"ext\" have no addresses with port name \"https\"";
    running.until_it_says(name, "False", "MissingEndpoints", message).await;
    assert!(servers.asked.lock().unwrap().is_empty(), "there is nobody to ask yet");

    servers.answer(name, Answer::Badly("no such thing"));
    running.patch(SLICES, "ext", "a-1", slice(true)).await;
    running.until_it_says(name, "False", "FailedDiscoveryCheck", "no such thing").await;

    servers.answer(name, Answer::Well);
    running.until_it_says(name, "True", "Passed", "all checks passed").await;

    running.delete(SLICES, "ext", "a-1", None).await;
    let message = "cannot find endpointslices for service/a in \"ext\"";
    running.until_it_says(name, "False", "EndpointsNotFound", message).await;
    running.delete("services", "ext", "a", None).await;
    running.until_it_says(name, "False", "ServiceNotFound", "service/a in \"ext\" is not present").await;

    // One that has an address needs no service, and one that names none is local.
    running.register("direct.example", "nowhere").await;
    running.until_it_says("v1.direct.example", "True", "Passed", "all checks passed").await;
    running
        .patch(API_SERVICES, "", name, json!({"spec": {"service": null, "insecureSkipTLSVerify": null}}))
        .await;
    running.until_it_says(name, "True", "Local", "Local APIServices are always available").await;
    running.patch(API_SERVICES, "", name, api_service("a.example", "b")).await;
    running.until_it_says(name, "False", "ServiceNotFound", "service/b in \"ext\" is not present").await;

    running.delete(API_SERVICES, "", name, None).await;
    running.until("it has left the table", |_| !servers.table.lock().unwrap().contains_key(name)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_is_asked_every_half_minute_and_one_that_does_not_sooner() {
    let (running, servers) = start().await;
    running.outside("a").await;
    servers.answer("v1.bad.example", Answer::Badly("no"));
    let begun = Instant::now();
    running.register("good.example", "a").await;
    running.register("bad.example", "a").await;
    tokio::time::sleep(Duration::from_secs(100)).await;

    let good = servers.asked("v1.good.example", begun);
    assert_eq!(good.len(), 4, "{good:?}");
    assert!(good.windows(2).all(|pair| (30_000..30_100).contains(&(pair[1] - pair[0]))), "{good:?}");

    let bad = servers.asked("v1.bad.example", begun);
    let rounds: Vec<u128> = bad.chunks(ATTEMPTS).map(|round| round[0]).collect();
    let pauses: Vec<u128> = rounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut expected = 5;
    for pause in pauses {
        assert!((expected..expected + 100).contains(&pause), "{pause} instead of {expected}: {rounds:?}");
        expected = (expected * 2).min(30_000);
    }
    assert!((14..18).contains(&rounds.len()), "{rounds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_when_it_changes_and_only_then() {
    let (running, servers) = start().await;
    running.outside("a").await;
    running.register("a.example", "a").await;
    servers.answer("v1.b.example", Answer::Badly("no"));
    running.register("b.example", "a").await;
    running.until_it_says("v1.a.example", "True", "Passed", "all checks passed").await;
    running.until_it_says("v1.b.example", "False", "FailedDiscoveryCheck", "no").await;
    let before = running.verbs.cache.main_line().revision();
    tokio::time::sleep(INTERVAL * 4).await;
    assert_eq!(running.verbs.cache.main_line().revision(), before);
    assert!(servers.asked.lock().unwrap().len() > 8);

    // The same answer in other words is written, and is as old as it was.
    let since = |running: &Running| {
        let object = running.get(API_SERVICES, "", "v1.b.example").unwrap();
        object["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    let first = since(&running);
    running.clock.advance(Duration::from_secs(60));
    servers.answer("v1.b.example", Answer::Badly("still no"));
    tokio::time::sleep(INTERVAL).await;
    running.until_it_says("v1.b.example", "False", "FailedDiscoveryCheck", "still no").await;
    assert_eq!(since(&running), first);
    servers.answer("v1.b.example", Answer::Well);
    tokio::time::sleep(INTERVAL).await;
    running.until_it_says("v1.b.example", "True", "Passed", "all checks passed").await;
    assert_ne!(since(&running), first);

    // Nobody else decides.
    let lie = json!({"status": {"conditions": [
        {"type": "Available", "status": "False", "reason": "Lie", "message": "no", "lastTransitionTime": first},
    ]}});
    running.patch_part(API_SERVICES, "", "v1.b.example", lie, Part::Status).await;
    running.until_it_says("v1.b.example", "True", "Passed", "all checks passed").await;
    let object = running.get(API_SERVICES, "", "v1.b.example").unwrap();
    let owners = object["metadata"]["managedFields"].as_array().unwrap();
    let owner = owners.iter().find(|owner| owner["subresource"] == "status").unwrap();
    assert_eq!((&owner["manager"], &owner["operation"]), (&json!("kube-apiserver"), &json!("Update")));
}

#[tokio::test(start_paused = true)]
async fn servers_that_hang_hold_up_nobody_else() {
    let (running, servers) = start().await;
    running.outside("a").await;
    for index in 0..100 {
        let group = format!("hang{index}.example");
        servers.answer(&format!("v1.{group}"), Answer::Never);
        running.register(&group, "a").await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    running.register("good.example", "a").await;
    running.until_it_says("v1.good.example", "True", "Passed", "all checks passed").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    running.until_it_says("v1.hang99.example", "False", "FailedDiscoveryCheck", "too late").await;
    // A second look at one that took its time is not worth it.
    assert_eq!(servers.asked("v1.hang99.example", begun).len(), 1);

    // What is asked about a server as it was is given up when it becomes another.
    tokio::time::sleep(Duration::from_secs(6)).await;
    servers.answer("v1.hang0.example", Answer::Well);
    let begun = Instant::now();
    running.patch(API_SERVICES, "", "v1.hang0.example", json!({"spec": {"versionPriority": 7}})).await;
    running.until_it_says("v1.hang0.example", "True", "Passed", "all checks passed").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_check_comes_to_its_end_however_often_its_surroundings_change() {
    let (running, servers) = start().await;
    running.outside("a").await;
    running.register("a.example", "a").await;
    running.until_it_says("v1.a.example", "True", "Passed", "all checks passed").await;
    servers.answer("v1.a.example", Answer::Never);
    let begun = Instant::now();
    let mut number = 0;
    while running.condition("v1.a.example").is_none_or(|(status, ..)| status == "True") {
        number += 1;
        assert!(begun.elapsed() < 3 * CHECK_TIMEOUT, "after {number} changes no check has ended");
        running
            .patch("services", "ext", "a", json!({"metadata": {"labels": {"n": number.to_string()}}}))
            .await;
        tokio::time::sleep(CHECK_TIMEOUT / 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_answer_of_several_is_enough() {
    let (running, servers) = start().await;
    running.outside("a").await;
    servers.answer("v1.a.example", Answer::Now);
    let before = running.verbs.cache.main_line().revision();
    running.register("a.example", "a").await;
    tokio::time::sleep(INTERVAL * 3).await;
    running.until_it_says("v1.a.example", "True", "Passed", "all checks passed").await;
    // Made, and written once: it never was otherwise.
    assert_eq!(running.verbs.cache.main_line().revision().get(), before.get() + 2);
    assert!(servers.asked.lock().unwrap().len() > 6);
}

#[tokio::test(start_paused = true)]
async fn the_api_services_of_definitions_are_put_back() {
    const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
    const MARK: &str = "kube-aggregator.kubernetes.io/automanaged";
    let (running, _servers) = start().await;
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let definition = json!({"metadata": {"name": "widgets.a.example"}, "spec": {
        "group": "a.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version("v1", true), version("v2", false)],
    }});
    running.create(DEFINITIONS, "", definition).await;
    let name = "v1.a.example";
    let spec = |running: &Running| Some(running.get(API_SERVICES, "", name)?["spec"].clone());
    running.until("it is there", |running| spec(running).is_some()).await;
    let wanted = spec(&running).unwrap();
    assert_eq!(wanted["groupPriorityMinimum"], 1000);

    let uid = |running: &Running| Some(running.get(API_SERVICES, "", name)?["metadata"]["uid"].clone());
    let first = uid(&running);
    running.delete(API_SERVICES, "", name, None).await;
    running.until("it is there again", |running| uid(running).is_some_and(|uid| Some(uid) != first)).await;

    running.patch(API_SERVICES, "", name, json!({"spec": {"groupPriorityMinimum": 7}})).await;
    running.until("it is as it was", |running| spec(running).as_ref() == Some(&wanted)).await;
    running.patch(API_SERVICES, "", name, api_service("a.example", "b")).await;
    running.until("it is as it was", |running| spec(running).as_ref() == Some(&wanted)).await;
    running.until_it_says(name, "True", "Local", "Local APIServices are always available").await;

    // Without the mark it is somebody else's.
    running.patch(API_SERVICES, "", name, json!({"metadata": {"labels": {MARK: null}}})).await;
    running.patch(API_SERVICES, "", name, json!({"spec": {"groupPriorityMinimum": 7}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(spec(&running).unwrap()["groupPriorityMinimum"], 7);

    running.delete(DEFINITIONS, "", "widgets.a.example", None).await;
    running
        .until("the other is gone", |running| running.get(API_SERVICES, "", "v2.a.example").is_none())
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(spec(&running).is_some());
}
