//! Clients that write, read and watch through one server each, whatever becomes of it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sternpost_clock::{machine, seeded::Rng};
use sternpost_testkit::client::Reply;

use crate::{
    api::{Api, Session},
    history::{
        Action, Frame, Get, Kind, List, Outcome, PREFIX, Recorder, Resource, Stream, TOKEN, Write, lock,
        revision, token,
    },
};

/// Few, so that clients of all servers write to the same ones.
const CONFIG_MAPS: u64 = 8;
const SERVICES: u64 = 8;

/// Node ports that services ask for by number: the first, and how many. Others take what they get.
const WANTED_PORTS: (u64, u64) = (30_000, 6);

/// Before a client tries again to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// How long a watch listens before it looks whether the load is over.
const LOOK_UP: Duration = Duration::from_millis(250);

/// What clients have last seen of objects, to base updates on. Often stale, and seen through another server.
pub type Known = Arc<Mutex<HashMap<(Resource, String), Value>>>;

/// What all clients have in common.
#[derive(Clone)]
pub struct Load {
    pub recorder: Arc<Recorder>,
    pub known: Known,
    /// Set when clients are to end with what they are doing.
    pub over: Arc<AtomicBool>,
    /// Between two requests of a client, at most.
    pub pace: Duration,
}

impl Load {
    pub fn new(recorder: Arc<Recorder>, pace: Duration) -> Self {
        Self { recorder, known: Known::default(), over: Arc::default(), pace }
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// Writes and reads objects through one server until the load is over, or for so many requests.
pub struct Client {
    pub load: Load,
    pub api: Arc<dyn Api>,
    pub server: usize,
    pub rng: Rng,
    pub requests: u64,
}

impl Client {
    pub async fn run(mut self) {
        let mut session = None;
        for _ in 0..self.requests {
            let mut open = loop {
                if self.load.is_over() {
                    return;
                }
                if let Some(open) = session.take() {
                    break open;
                }
                session = self.api.connect().await;
                if session.is_none() {
                    machine::sleep(AGAIN).await;
                }
            };
            if self.request(open.as_mut()).await {
                session = Some(open);
            }
            let pause = self.rng.below(1 + u64::try_from(self.load.pace.as_micros()).unwrap_or_default());
            if pause > 0 {
                machine::sleep(Duration::from_micros(pause)).await;
            }
        }
    }

    /// Whether the connection is still of use.
    async fn request(&mut self, session: &mut dyn Session) -> bool {
        let (resource, names) = match self.rng.below(3) {
            0 => (Resource::Services, SERVICES),
            _ => (Resource::ConfigMaps, CONFIG_MAPS),
        };
        let name = format!("{PREFIX}{}", self.rng.below(names));
        match self.rng.below(16) {
            0..=3 => self.create(session, resource, name).await,
            4..=8 => self.update(session, resource, name).await,
            9..=10 => self.delete(session, resource, name).await,
            11..=13 => self.get(session, resource, name).await,
            _ => list(&self.load.recorder, session, self.server, resource).await.is_some(),
        }
    }

    /// The version to change, which half of the writes name.
    fn base(&mut self, resource: Resource, name: &str) -> Option<u64> {
        let known = lock(&self.load.known).get(&(resource, name.to_owned())).cloned();
        known.filter(|_| self.rng.one_in(2)).map(|known| revision(&known["metadata"]["resourceVersion"]))
    }

    async fn create(&mut self, session: &mut dyn Session, resource: Resource, name: String) -> bool {
        let number = self.load.recorder.token();
        let body = self.body(resource, &name, number);
        let path = resource.path();
        let asked = Asked { resource, name, number, action: Action::Create };
        self.write(session, asked, "POST", &path, &body).await
    }

    async fn update(&mut self, session: &mut dyn Session, resource: Resource, name: String) -> bool {
        let number = self.load.recorder.token();
        let mut body = self.body(resource, &name, number);
        let of = self.base(resource, &name);
        if let Some(of) = of {
            body["metadata"]["resourceVersion"] = of.to_string().into();
        }
        let path = format!("{}/{name}", resource.path());
        let asked = Asked { resource, name, number, action: Action::Update { of } };
        self.write(session, asked, "PUT", &path, &body).await
    }

    async fn delete(&mut self, session: &mut dyn Session, resource: Resource, name: String) -> bool {
        let number = self.load.recorder.token();
        let of = self.base(resource, &name);
        let body = match of {
            Some(of) => json!({"preconditions": {"resourceVersion": of.to_string()}}),
            None => json!({}),
        };
        let path = format!("{}/{name}", resource.path());
        let asked = Asked { resource, name, number, action: Action::Delete { of } };
        self.write(session, asked, "DELETE", &path, &body).await
    }

    fn body(&mut self, resource: Resource, name: &str, number: u64) -> Value {
        let metadata = json!({"name": name, "annotations": {TOKEN: token(number)}});
        match resource {
            Resource::ConfigMaps => {
                let padding = "x".repeat(usize::try_from(self.rng.below(600)).unwrap_or_default());
                json!({"metadata": metadata, "data": {"padding": padding}})
            }
            Resource::Services => {
                let mut spec = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
                if !self.rng.one_in(3) {
                    spec["type"] = "NodePort".into();
                    if self.rng.one_in(2) {
                        let (first, count) = WANTED_PORTS;
                        spec["ports"][0]["nodePort"] = (first + self.rng.below(count)).into();
                    }
                }
                json!({"metadata": metadata, "spec": spec})
            }
        }
    }

    async fn write(
        &self,
        session: &mut dyn Session,
        asked: Asked,
        method: &str,
        path: &str,
        body: &Value,
    ) -> bool {
        let (load, server) = (&self.load, self.server);
        let begun = load.recorder.now();
        let reply = session.call(method, path, Some(body)).await;
        let outcome = outcome(&load.recorder, &asked, &reply);
        let key = (asked.resource, asked.name.clone());
        if let (Outcome::Written(_), Reply::Answer(_, object)) = (&outcome, &reply) {
            lock(&load.known).insert(key, object.clone());
        } else if matches!(outcome, Outcome::Deleted { .. } | Outcome::Refused { code: 404, .. }) {
            lock(&load.known).remove(&key);
        }
        let Asked { resource, name, number, action } = asked;
        let span = load.recorder.since(begun);
        load.recorder.write(Write { token: number, server, resource, name, action, span, outcome });
        matches!(reply, Reply::Answer(..))
    }

    async fn get(&self, session: &mut dyn Session, resource: Resource, name: String) -> bool {
        let recorder = &self.load.recorder;
        let begun = recorder.now();
        let found = match session.call("GET", &format!("{}/{name}", resource.path()), None).await {
            Reply::Answer(200, object) => {
                let version = recorder.version(resource, &object);
                lock(&self.load.known).insert((resource, name.clone()), object);
                Some(version)
            }
            Reply::Answer(404, _) => None,
            other => {
                recorder.failure(&failure("get", &other));
                return matches!(other, Reply::Answer(..));
            }
        };
        recorder.get(Get { server: self.server, resource, name, span: recorder.since(begun), found });
        true
    }
}

/// A write before it is answered.
pub struct Asked {
    pub resource: Resource,
    pub name: String,
    pub number: u64,
    pub action: Action,
}

/// What the store says by which nothing was written; see `CommitError` in `crates/store`.
const NOT_WRITTEN: [&str; 2] = ["store is not available: ", "store refuses the transaction: "];

/// What a client knows of a write by its answer.
pub fn outcome(recorder: &Recorder, asked: &Asked, reply: &Reply) -> Outcome {
    let (code, answer) = match reply {
        Reply::Answer(code, answer) => (*code, answer),
        Reply::Lost => {
            recorder.failure(&failure("write", reply));
            return Outcome::Uncertain;
        }
    };
    match code {
        200..=202 if matches!(asked.action, Action::Delete { .. }) => {
            let (status, object) = (&answer["details"]["uid"], &answer["metadata"]["uid"]);
            Outcome::Deleted { uid: status.as_str().or(object.as_str()).unwrap_or_default().to_owned() }
        }
        200..=202 => Outcome::Written(recorder.version(asked.resource, answer)),
        _ => {
            let reason = answer["reason"].as_str().unwrap_or_default().to_owned();
            if !matches!(code, 404 | 409 | 422) {
                recorder.failure(&failure("write", reply));
            }
            let message = answer["message"].as_str().unwrap_or_default();
            let definite = code < 500 || NOT_WRITTEN.iter().any(|text| message.contains(text));
            if definite { Outcome::Refused { code, reason } } else { Outcome::Uncertain }
        }
    }
}

/// In few words: the figures in messages differ from one to the next.
fn failure(what: &str, reply: &Reply) -> String {
    match reply {
        Reply::Lost => format!("{what}: no answer"),
        Reply::Answer(code, answer) => {
            let message = answer["message"].as_str().unwrap_or_default();
            let words: String =
                message.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect();
            let mut words = words.replace('\n', " ");
            while words.contains("##") {
                words = words.replace("##", "#");
            }
            let short: String = words.chars().take(120).collect();
            format!("{what}: {code} {short}")
        }
    }
}

/// A whole list as new as it gets, written down. `None` if the connection is of no more use.
pub async fn list(
    recorder: &Recorder,
    session: &mut dyn Session,
    server: usize,
    resource: Resource,
) -> Option<Option<u64>> {
    let begun = recorder.now();
    match session.call("GET", &resource.path(), None).await {
        Reply::Answer(200, page) => {
            let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ours = items.iter().filter(|item| is_ours(item));
            let items = ours.map(|item| recorder.version(resource, item)).collect();
            let revision = revision(&page["metadata"]["resourceVersion"]);
            recorder.list(List { server, resource, span: recorder.since(begun), revision, items });
            Some(Some(revision))
        }
        other => {
            recorder.failure(&failure("list", &other));
            matches!(other, Reply::Answer(..)).then_some(None)
        }
    }
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(PREFIX))
}

/// Watches a resource through one server, and goes on where it was after each end.
pub struct Watcher {
    pub load: Load,
    pub api: Arc<dyn Api>,
    pub server: usize,
    pub resource: Resource,
    pub rng: Rng,
    /// How far it has come.
    pub place: Arc<AtomicU64>,
    pub resumed: Arc<AtomicU64>,
    pub relisted: Arc<AtomicU64>,
}

impl Watcher {
    /// Until it is aborted, or has come to `until` when the load is over.
    pub async fn run(mut self, until: Arc<AtomicU64>) {
        let mut after = None;
        while !self.is_done(&until) {
            let Some(mut session) = self.api.connect().await else {
                machine::sleep(AGAIN).await;
                continue;
            };
            match after {
                Some(_) => self.resumed.fetch_add(1, Ordering::SeqCst),
                None => self.relisted.fetch_add(1, Ordering::SeqCst),
            };
            let from = match after {
                Some(from) => from,
                None => match list(&self.load.recorder, session.as_mut(), self.server, self.resource).await {
                    Some(Some(revision)) => revision,
                    Some(None) | None => {
                        machine::sleep(AGAIN).await;
                        continue;
                    }
                },
            };
            after = self.stream(session, from, &until).await;
            if after.is_none() {
                self.load.recorder.failure("watch: 410");
            }
            machine::sleep(AGAIN.min(self.load.pace)).await;
        }
    }

    fn is_done(&self, until: &AtomicU64) -> bool {
        self.load.is_over() && self.place.load(Ordering::SeqCst) >= until.load(Ordering::SeqCst)
    }

    /// Where to go on; `None` if that is with a list.
    async fn stream(&mut self, session: Box<dyn Session>, after: u64, until: &AtomicU64) -> Option<u64> {
        // Most end by a fault; some because they asked for it.
        let seconds = 20 + self.rng.below(100);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={after}",
            self.resource.path()
        );
        let mut events = match session.watch(&path).await {
            Ok(events) => events,
            Err(Reply::Answer(410, _)) => return None,
            Err(other) => {
                self.load.recorder.failure(&failure("watch", &other));
                return Some(after);
            }
        };
        let mut stream = Stream { server: self.server, resource: self.resource, after, frames: Vec::new() };
        self.place.fetch_max(after, Ordering::SeqCst);
        let mut last = Some(after);
        while !self.is_done(until) {
            // Looks up now and then: a watch that has nothing more to tell does not say so.
            let Ok(event) = machine::timeout(LOOK_UP, events.next()).await else { continue };
            let Some(event) = event else { break };
            let Some(frame) = self.frame(&event) else {
                // An error: the place is gone, or the server is not well.
                last = last.filter(|_| event["object"]["code"] != 410);
                break;
            };
            last = Some(frame.revision);
            self.place.fetch_max(frame.revision, Ordering::SeqCst);
            stream.frames.push(frame);
        }
        self.load.recorder.stream(stream);
        last
    }

    fn frame(&self, event: &Value) -> Option<Frame> {
        let kind = match event["type"].as_str()? {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" => Kind::Bookmark,
            _ => {
                let code = &event["object"]["code"];
                self.load.recorder.failure(&format!("watch: event {code}"));
                return None;
            }
        };
        let object = &event["object"];
        let ours = kind != Kind::Bookmark && is_ours(object);
        let version = ours.then(|| self.load.recorder.version(self.resource, object));
        let revision = revision(&object["metadata"]["resourceVersion"]);
        Some(Frame { at: self.load.recorder.now(), kind, revision, object: version })
    }
}
