//! Clients that write, read and watch until the server is gone.

use std::{collections::HashMap, sync::Arc, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use sternpost_clock::seeded::Rng;
use sternpost_testkit::client::{ANSWER_TIMEOUT, Client, Connector, Next, Reply};

use crate::history::{
    Action, COLOR, Life, Outcome, Read, Resource, Start, Stream, TOKEN, Version, Write, revision,
};

pub const WRITERS: usize = 8;
pub const WATCHERS: usize = 8;

const COLORS: [&str; 2] = ["red", "blue"];

/// Names that all writers fight for, and names each has for itself.
const SHARED_NAMES: u64 = 6;
const OWN_NAMES: u64 = 3;

/// What generated names begin with, and how many there may be.
const GENERATED: &str = "gen-";
const MAX_GENERATED: usize = 60;

/// Node ports that services ask for by number: the first, and how many.
const WANTED_PORTS: (u64, u64) = (30_000, 6);

/// Most objects are small; one in [`LARGE_ONE_IN`] takes many pages.
const SMALL_BYTES: u64 = 600;
const LARGE_BYTES: u64 = 300_000;
const LARGE_ONE_IN: u64 = 60;

/// What the writers have last seen of objects, to base updates on. Often stale.
pub type Known = Arc<Mutex<HashMap<(Resource, String), Value>>>;

pub struct Writer {
    pub life: Arc<Life>,
    pub connector: Connector,
    pub known: Known,
    pub rng: Rng,
    /// The start of every token of this writer in this life.
    pub id: String,
    pub number: usize,
}

impl Writer {
    /// Works until the connection is lost.
    pub async fn run(mut self) {
        let Some(mut client) = self.connector.connect().await else {
            return self.life.lost("a writer that connects");
        };
        for count in 0_u64.. {
            let token = format!("{}-{count}", self.id);
            let resource = if self.rng.one_in(4) { Resource::Services } else { Resource::ConfigMaps };
            let alive = match self.rng.below(16) {
                0..=2 => self.create(&mut client, resource, token).await,
                // The addresses of services must not run out.
                3..=4 if self.generated(resource).len() >= MAX_GENERATED => {
                    self.delete(&mut client, resource, token).await
                }
                3..=4 => self.generate(&mut client, resource, token).await,
                5..=9 => self.update(&mut client, resource, token).await,
                10..=12 => self.delete(&mut client, resource, token).await,
                13..=14 => self.get(&mut client, resource).await,
                _ => self.list(&mut client, resource).await,
            };
            if !alive {
                return;
            }
        }
    }

    /// One that was generated, once in `generated` times if there is any.
    fn name(&mut self, resource: Resource, generated: u64) -> String {
        if self.rng.one_in(generated) {
            let mut names = self.generated(resource);
            if !names.is_empty() {
                let chosen = self.rng.below(names.len() as u64) as usize;
                return names.swap_remove(chosen);
            }
        }
        match self.rng.below(2) {
            0 => format!("shared-{}", self.rng.below(SHARED_NAMES)),
            _ => format!("own-{}-{}", self.number, self.rng.below(OWN_NAMES)),
        }
    }

    /// Generated names of objects that may be there, in order.
    fn generated(&self, resource: Resource) -> Vec<String> {
        let known = self.known.lock().unwrap();
        let names = known.keys().filter(|(of, name)| *of == resource && name.starts_with(GENERATED));
        let mut names: Vec<String> = names.map(|(_, name)| name.clone()).collect();
        names.sort();
        names
    }

    fn body(&mut self, resource: Resource, token: &str) -> Value {
        let color = COLORS[self.rng.below(2) as usize];
        let metadata = json!({"annotations": {TOKEN: token}, "labels": {COLOR: color}});
        match resource {
            Resource::ConfigMaps => {
                let most = if self.rng.one_in(LARGE_ONE_IN) { LARGE_BYTES } else { SMALL_BYTES };
                let padding = "x".repeat(self.rng.below(most) as usize);
                json!({"metadata": metadata, "data": {"padding": padding}})
            }
            Resource::Services => {
                let mut spec = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
                if !self.rng.one_in(3) {
                    spec["type"] = "NodePort".into();
                    // Half of them want one of few, the others any.
                    if self.rng.one_in(2) {
                        spec["ports"][0]["nodePort"] =
                            (WANTED_PORTS.0 + self.rng.below(WANTED_PORTS.1)).into();
                    }
                }
                json!({"metadata": metadata, "spec": spec})
            }
        }
    }

    async fn create(&mut self, client: &mut Client, resource: Resource, token: String) -> bool {
        let name = self.name(resource, 4);
        let mut body = self.body(resource, &token);
        body["metadata"]["name"] = name.clone().into();
        let write = write(&self.life, resource, token, name, Action::Create);
        self.send(client, write, "POST", &resource.path(), &body).await
    }

    async fn generate(&mut self, client: &mut Client, resource: Resource, token: String) -> bool {
        let mut body = self.body(resource, &token);
        body["metadata"]["generateName"] = GENERATED.into();
        let write = write(&self.life, resource, token, GENERATED.into(), Action::Generate);
        self.send(client, write, "POST", &resource.path(), &body).await
    }

    async fn update(&mut self, client: &mut Client, resource: Resource, token: String) -> bool {
        let name = self.name(resource, 4);
        let known = self.known.lock().unwrap().get(&(resource, name.clone())).cloned();
        let mut body = self.body(resource, &token);
        let mut of = None;
        if let Some(known) = known.filter(|_| self.rng.one_in(2)) {
            of = Some(revision(&known["metadata"]["resourceVersion"]));
            body["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
        }
        body["metadata"]["name"] = name.clone().into();
        let path = format!("{}/{name}", resource.path());
        let write = write(&self.life, resource, token, name, Action::Update { of });
        self.send(client, write, "PUT", &path, &body).await
    }

    async fn delete(&mut self, client: &mut Client, resource: Resource, token: String) -> bool {
        let name = self.name(resource, 2);
        let known = self.known.lock().unwrap().get(&(resource, name.clone())).cloned();
        let (mut of, mut body) = (None, json!({}));
        if let Some(known) = known.filter(|_| self.rng.one_in(2)) {
            of = Some(revision(&known["metadata"]["resourceVersion"]));
            body["preconditions"] = json!({"resourceVersion": known["metadata"]["resourceVersion"]});
        }
        let path = format!("{}/{name}", resource.path());
        let write = write(&self.life, resource, token, name, Action::Delete { of });
        self.send(client, write, "DELETE", &path, &body).await
    }

    async fn send(&self, client: &mut Client, write: Write, method: &str, path: &str, body: &Value) -> bool {
        send(&self.life, &self.known, client, write, method, path, body).await
    }

    async fn get(&mut self, client: &mut Client, resource: Resource) -> bool {
        let (name, floor) = (self.name(resource, 4), self.life.told_of(resource));
        let found = match client.call("GET", &format!("{}/{name}", resource.path()), None).await {
            Reply::Answer(200, object) => {
                let version = Version::of(&object);
                self.life.tell(resource, version.revision);
                self.known.lock().unwrap().insert((resource, name.clone()), object);
                Some(version)
            }
            Reply::Answer(404, _) => None,
            Reply::Answer(code, body) => {
                self.life.violation(format!("GET {name} answered {code}: {body}"));
                return true;
            }
            Reply::Lost => {
                self.life.lost("a GET");
                return false;
            }
        };
        self.life.reads.lock().unwrap().push(Read::Get { resource, name, floor, found });
        true
    }

    async fn list(&mut self, client: &mut Client, resource: Resource) -> bool {
        let floor = self.life.told_of(resource);
        let query = match self.rng.below(3) {
            0 => Query::Latest,
            1 => Query::Pages,
            // Perhaps newer than what the server has of this resource: it waits.
            _ => Query::Exact(self.life.told()),
        };
        match list(client, resource, query).await {
            Ok((revision, items)) => {
                self.life.tell(resource, revision);
                let asked = if let Query::Exact(asked) = query { Some(asked) } else { None };
                let read = Read::List { resource, floor, revision, asked, items };
                self.life.reads.lock().unwrap().push(read);
                true
            }
            Err(Reply::Answer(code, body)) => {
                self.life.violation(format!("a list ({query:?}) answered {code}: {body}"));
                true
            }
            Err(Reply::Lost) => {
                self.life.lost("a list");
                false
            }
        }
    }
}

pub fn write(life: &Life, resource: Resource, token: String, name: String, action: Action) -> Write {
    Write { resource, token, name, action, floor: life.told(), outcome: Outcome::Lost }
}

/// Sends a write and notes what came of it; false if the connection was lost.
pub async fn send(
    life: &Life,
    known: &Known,
    client: &mut Client,
    mut write: Write,
    method: &str,
    path: &str,
    body: &Value,
) -> bool {
    let reply = client.call(method, path, Some(body)).await;
    let key = (write.resource, write.name.clone());
    write.outcome = match reply {
        Reply::Answer(200..=202, answer) => {
            if let Action::Delete { .. } = write.action {
                known.lock().unwrap().remove(&key);
                let (status, object) = (&answer["details"]["uid"], &answer["metadata"]["uid"]);
                Outcome::Deleted { uid: status.as_str().or(object.as_str()).unwrap_or_default().to_owned() }
            } else {
                let version = Version::of(&answer);
                life.tell(write.resource, version.revision);
                known.lock().unwrap().insert((write.resource, version.name.clone()), answer);
                Outcome::Written(version)
            }
        }
        Reply::Answer(code, answer) => {
            let reason = answer["reason"].as_str().unwrap_or_default().to_owned();
            let taken = write.resource == Resource::Services
                && code == 422
                && answer["message"]
                    .as_str()
                    .is_some_and(|text| text.ends_with("provided port is already allocated"));
            let expected =
                matches!((code, reason.as_str()), (404, "NotFound") | (409, "Conflict" | "AlreadyExists"));
            if !expected && !taken {
                life.violation(format!("{method} {path} answered {code}: {answer}"));
            }
            if code == 404 {
                known.lock().unwrap().remove(&key);
            }
            Outcome::Refused { code: code.into(), reason }
        }
        Reply::Lost => {
            life.lost(method);
            Outcome::Lost
        }
    };
    let alive = !matches!(write.outcome, Outcome::Lost);
    life.writes.lock().unwrap().push(write);
    alive
}

#[derive(Clone, Copy, Debug)]
pub enum Query {
    Latest,
    Pages,
    Exact(u64),
}

/// The whole collection and its revision.
pub async fn list(
    client: &mut Client,
    resource: Resource,
    query: Query,
) -> Result<(u64, Vec<Version>), Reply> {
    let path = resource.path();
    let first = match query {
        Query::Latest => path.clone(),
        Query::Pages => format!("{path}?limit=3"),
        Query::Exact(at) => format!("{path}?resourceVersion={at}&resourceVersionMatch=Exact"),
    };
    let (mut next, mut all, mut revisions) = (first, Vec::new(), Vec::new());
    loop {
        let page = match client.call("GET", &next, None).await {
            Reply::Answer(200, page) => page,
            other => return Err(other),
        };
        revisions.push(revision(&page["metadata"]["resourceVersion"]));
        all.extend(page["items"].as_array().unwrap().iter().map(Version::of));
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => next = format!("{path}?limit=3&continue={token}"),
            _ => break,
        }
    }
    revisions.dedup();
    match revisions[..] {
        [revision] => Ok((revision, all)),
        _ => Err(Reply::Answer(200, format!("pages of different revisions: {revisions:?}").into())),
    }
}

/// A watch that is taken up in the next life where it ended in this one.
#[derive(Clone, Debug)]
pub struct Watcher {
    pub resource: Resource,
    pub color: Option<&'static str>,
    /// The last revision it has seen.
    pub place: Option<u64>,
}

impl Watcher {
    /// Every kind of watch on both resources.
    pub fn all() -> Vec<Self> {
        let colors = [None, None, Some(COLORS[0]), Some(COLORS[1])];
        let of = |resource| colors.into_iter().map(move |color| Self { resource, color, place: None });
        Resource::ALL.into_iter().flat_map(of).take(WATCHERS).collect()
    }

    /// Watches until the connection is lost; then knows where to go on.
    pub async fn run(mut self, life: Arc<Life>, connector: Connector) -> Self {
        let floor = life.told_of(self.resource);
        let Some(client) = connector.connect().await else {
            life.lost("a watcher that connects");
            return self;
        };
        let query = match self.place {
            Some(place) => format!("resourceVersion={place}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let selector =
            self.color.map(|color| format!("&labelSelector={COLOR}%3D{color}")).unwrap_or_default();
        let path = format!("{}?watch=true&allowWatchBookmarks=true&{query}{selector}", self.resource.path());
        let mut lines = match client.watch(&path).await {
            Ok(lines) => lines,
            Err(Reply::Lost) => {
                life.lost("the start of a watch");
                return self;
            }
            Err(Reply::Answer(code, body)) => {
                life.violation(format!("GET {path} answered {code}: {body}"));
                return self;
            }
        };
        let start = match self.place {
            Some(place) => Start::After(place),
            None => Start::State { floor, state: Vec::new(), complete: None },
        };
        let color = self.color.map(str::to_owned);
        let mut stream = Stream { resource: self.resource, color, start, frames: Vec::new() };
        loop {
            let line = match lines.next(Duration::from_secs(3600)).await {
                Next::Line(line) => line,
                Next::End { .. } | Next::Silence => break,
            };
            self.note(&life, &mut stream, &line);
        }
        life.lost("a watch");
        life.streams.lock().unwrap().push(stream);
        self
    }

    fn note(&mut self, life: &Life, stream: &mut Stream, line: &Value) {
        let kind = line["type"].as_str().unwrap_or_default();
        let version = Version::of(&line["object"]);
        match (kind, &mut stream.start) {
            ("ADDED", Start::State { state, complete: None, .. }) => state.push(version),
            ("BOOKMARK", Start::State { complete: complete @ None, .. }) => {
                *complete = Some(version.revision);
                self.place = Some(version.revision);
            }
            ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", _) => {
                life.tell(self.resource, version.revision);
                self.place = Some(version.revision);
                stream.frames.push((kind.to_owned(), version));
            }
            _ => life.violation(format!("a watch of {:?} got {line}", self.resource)),
        }
    }
}

/// All that happened to a resource after a revision, up to another.
pub async fn replay(
    connector: &Connector,
    resource: Resource,
    after: u64,
    to: u64,
) -> Result<Vec<(String, Version)>, String> {
    let client = connector.connect().await.ok_or("the server does not accept connections")?;
    let path = format!("{}?watch=true&resourceVersion={after}", resource.path());
    let mut lines = client.watch(&path).await.map_err(|reply| format!("GET {path}: {reply:?}"))?;
    let mut all = Vec::new();
    loop {
        match lines.next(ANSWER_TIMEOUT).await {
            Next::Line(line) => {
                let kind = line["type"].as_str().unwrap_or_default().to_owned();
                if kind == "ERROR" {
                    return Err(format!("a watch after {after} got {line}"));
                }
                let version = Version::of(&line["object"]);
                let last = version.revision >= to;
                all.push((kind, version));
                if last {
                    return Ok(all);
                }
            }
            Next::End { whole } => return Err(format!("a watch after {after} ended (whole: {whole})")),
            Next::Silence => return Err(format!("a watch after {after} never came to {to}: {all:?}")),
        }
    }
}
