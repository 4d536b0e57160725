//! A small API server in memory, with room for one bug. It has ConfigMaps and Services, several fronts that clients
//! can tell apart, answers that are lost now and then and watches that end: all that a campaign does to real ones.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::{Value, json};
use sternpost_faults::{
    api::{Api, BoxFuture, Events, Session},
    history::{Change, Resource, token_in},
};
use sternpost_testkit::client::Reply;
use tokio::sync::Notify;

/// What is wrong with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A watch leaves an event out.
    DropsEvent,
    /// A watch delivers an event twice.
    RepeatsEvent,
    /// A watch delivers two events in the wrong order.
    SwapsEvents,
    /// A watch that is taken up begins one event too late.
    ResumesLate,
    /// A watch that is taken up begins with what it had told already.
    ResumesEarly,
    /// A bookmark is ahead of what was delivered.
    BookmarksAhead,
    /// A change of an object is told as its creation.
    MistakesKind,
    /// One front shows another object than the other in an event.
    FrontsDisagree,
    /// A list is an older one.
    StaleList,
    /// A list says that it is new, and has an old object.
    OldObjectInList,
    /// A get is an older one.
    StaleGet,
    /// A get does not find what is there.
    LosesSight,
    /// A write whose answer was lost is done a second time.
    SendsAgain,
    /// A write that was not done is acknowledged.
    AcknowledgesNothing,
    /// A write that was done is refused as a conflict.
    RefusesDone,
    /// The version that an update names is not looked at.
    IgnoresVersion,
    /// A create replaces what is there.
    CreatesTwice,
    /// A deletion is acknowledged, and the object stays.
    DeletesNothing,
    /// An acknowledged write is gone later, as if the disk had lost it.
    ForgetsWrite,
    /// Two changes have one revision.
    ReusesRevision,
    /// Revisions begin anew from an earlier one.
    RevisionGoesBack,
    /// A new object has the uid of one that was deleted.
    ReusesUid,
    /// Two services have one address.
    SharesAddress,
    /// Two services have one node port.
    SharesPort,
    /// Something is written that nobody asked for.
    WritesByItself,
}

/// How often the bug shows: once in so many times that it could.
const SHOWS: u64 = 7;

/// Every so many writes the answer is lost: of one that was done, or of one that was not.
const LOST: u64 = 11;

/// Events that a watch delivers before it ends.
const STREAM: usize = 25;

/// Events between two bookmarks.
const BOOKMARK: usize = 6;

/// Clones are the same server.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    bug: Bug,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<(Resource, String), Value>,
    /// Every event with its kind, in the order in which they happened.
    log: Vec<Event>,
    writes: u64,
    chances: u64,
    made: u64,
    /// The list before the last change, and what each object was before it is what it is.
    before: HashMap<(Resource, String), Value>,
    last_uid: Option<String>,
}

#[derive(Clone)]
struct Event {
    revision: u64,
    resource: Resource,
    kind: &'static str,
    object: Value,
}

impl Server {
    pub fn new(bug: Bug) -> Self {
        let state = State { revision: 100, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default(), bug }
    }

    pub fn front(&self, number: usize) -> Arc<dyn Api> {
        Arc::new(Front { server: self.clone(), number })
    }

    /// What really happened.
    pub fn changes(&self) -> Vec<Change> {
        let change = |event: &Event| {
            let name = event.object["metadata"]["name"].as_str().unwrap().to_owned();
            let token = (event.kind != "DELETED").then(|| token_of(&event.object));
            Change { revision: event.revision, resource: event.resource, name, token }
        };
        self.state().log.iter().map(change).collect()
    }

    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }
}

fn token_of(object: &Value) -> u64 {
    token_in(object["metadata"]["annotations"]["token"].as_str().unwrap().as_bytes()).unwrap()
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn refused(code: u16, reason: &str) -> Reply {
    Reply::Answer(code, json!({"reason": reason, "message": reason, "code": code}))
}

impl State {
    /// Whether a bug shows that could show now.
    fn shows(&mut self) -> bool {
        self.chances += 1;
        self.chances.is_multiple_of(SHOWS)
    }

    fn advance(&mut self, bug: Bug) -> u64 {
        let reuses = bug == Bug::ReusesRevision && self.shows();
        if bug == Bug::RevisionGoesBack && self.revision > 140 && self.chances == 0 {
            self.chances = 1;
            self.revision -= 20;
        }
        if !reuses {
            self.revision += 1;
        }
        self.revision
    }

    fn put(&mut self, bug: Bug, resource: Resource, name: &str, mut object: Value) -> Value {
        let revision = self.advance(bug);
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        let key = (resource, name.to_owned());
        let kind = if self.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        if let Some(old) = self.objects.insert(key.clone(), object.clone()) {
            self.before.insert(key, old);
        }
        self.log.push(Event { revision, resource, kind, object: object.clone() });
        object
    }

    fn remove(&mut self, bug: Bug, resource: Resource, name: &str) {
        let key = (resource, name.to_owned());
        if let Some(mut object) = self.objects.remove(&key) {
            let revision = self.advance(bug);
            self.before.insert(key, object.clone());
            self.last_uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            self.log.push(Event { revision, resource, kind: "DELETED", object });
        }
    }

    /// Gives a new or changed object what the server decides.
    fn complete(&mut self, bug: Bug, resource: Resource, old: Option<&Value>, object: &mut Value) -> bool {
        let uid = match old {
            Some(old) => old["metadata"]["uid"].as_str().unwrap().to_owned(),
            None => {
                self.made += 1;
                let reused = self.last_uid.clone().filter(|_| bug == Bug::ReusesUid);
                reused.filter(|_| self.shows()).unwrap_or_else(|| format!("uid-{}", self.made))
            }
        };
        object["metadata"]["uid"] = uid.into();
        if resource != Resource::Services || object["spec"]["type"] == "ExternalName" {
            return true;
        }
        let address = old.map(|old| old["spec"]["clusterIP"].clone());
        object["spec"]["clusterIP"] = address.filter(Value::is_string).unwrap_or_else(|| {
            self.made += 1;
            let shared = bug == Bug::SharesAddress && self.shows();
            let other = self.objects.values().find_map(|other| other["spec"]["clusterIP"].as_str());
            match other.filter(|_| shared) {
                Some(other) => other.into(),
                None => format!("10.0.{}.{}", self.made / 250, self.made % 250).into(),
            }
        });
        if object["spec"]["type"] != "NodePort" {
            return true;
        }
        let own = object["metadata"]["name"].clone();
        let others = self.objects.values().filter(|other| other["metadata"]["name"] != own);
        let taken: Vec<u64> =
            others.filter_map(|other| other["spec"]["ports"][0]["nodePort"].as_u64()).collect();
        match object["spec"]["ports"][0]["nodePort"].as_u64() {
            Some(port) if taken.contains(&port) => return bug == Bug::SharesPort && self.shows(),
            Some(_) => {}
            None => {
                let free = (30_000..).find(|port| !taken.contains(port)).unwrap();
                object["spec"]["ports"][0]["nodePort"] = free.into();
            }
        }
        true
    }
}

/// What clients of one front talk to.
struct Front {
    server: Server,
    number: usize,
}

impl Api for Front {
    fn connect(&self) -> BoxFuture<'_, Option<Box<dyn Session>>> {
        let (server, front) = (self.server.clone(), self.number);
        Box::pin(async move { Some(Box::new(Connection { server, front }) as Box<dyn Session>) })
    }
}

struct Connection {
    server: Server,
    front: usize,
}

impl Session for Connection {
    fn call<'a>(
        &'a mut self,
        method: &'a str,
        path: &'a str,
        body: Option<&'a Value>,
    ) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            // Others go on between a question and its answer.
            tokio::task::yield_now().await;
            let reply = self.server.answer(method, path, body);
            tokio::task::yield_now().await;
            reply
        })
    }

    fn watch<'a>(self: Box<Self>, path: &'a str) -> BoxFuture<'a, Result<Box<dyn Events>, Reply>> {
        Box::pin(async move {
            let (resource, _) = named(path.split('?').next().unwrap());
            let mut after: u64 = path.rsplit_once("resourceVersion=").unwrap().1.parse().unwrap();
            let mut state = self.server.state();
            let behind =
                |revision: u64| move |event: &&Event| event.resource == resource && event.revision > revision;
            let next = state.log.iter().find(behind(after)).map(|event| event.revision);
            let last = state.log.iter().rfind(|event| event.resource == resource && event.revision <= after);
            let last = last.map(|event| event.revision);
            match (self.server.bug, next, last) {
                (Bug::ResumesLate, Some(next), _) if state.shows() => after = next,
                (Bug::ResumesEarly, _, Some(last)) if state.shows() => after = last - 1,
                _ => {}
            }
            drop(state);
            let (server, front) = (self.server, self.front);
            let watch = Watch { server, front, resource, after, delivered: 0, next: Vec::new() };
            Ok(Box::new(watch) as Box<dyn Events>)
        })
    }
}

/// The resource of a path, and the name in it.
fn named(path: &str) -> (Resource, Option<String>) {
    let resource = Resource::ALL.into_iter().find(|resource| path.starts_with(&resource.path())).unwrap();
    (resource, path.strip_prefix(&resource.path()).unwrap().strip_prefix('/').map(str::to_owned))
}

impl Server {
    fn answer(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let (resource, name) = named(path);
        let mut state = self.state();
        match (method, name, body) {
            ("GET", Some(name), _) => self.get(&mut state, resource, &name),
            ("GET", None, _) => self.list(&mut state, resource),
            (_, name, Some(body)) => {
                state.writes += 1;
                let name = name.unwrap_or_else(|| body["metadata"]["name"].as_str().unwrap().to_owned());
                if state.writes % (2 * LOST) == LOST {
                    return Reply::Lost;
                }
                let mut reply = self.write(&mut state, method, resource, &name, body);
                if state.writes.is_multiple_of(2 * LOST) {
                    if self.is(Bug::SendsAgain) && matches!(reply, Reply::Answer(200..=202, _)) {
                        self.write(&mut state, method, resource, &name, body);
                    }
                    reply = Reply::Lost;
                }
                if self.is(Bug::ForgetsWrite) && matches!(reply, Reply::Answer(200..=202, _)) && state.shows()
                {
                    let forgotten = state.log.pop().unwrap();
                    let key = (resource, name);
                    let before = state.before.get(&key).cloned().filter(|_| forgotten.kind != "ADDED");
                    match before {
                        Some(before) => state.objects.insert(key, before),
                        None => state.objects.remove(&key),
                    };
                }
                if self.is(Bug::WritesByItself) && resource == Resource::ConfigMaps && state.shows() {
                    let token = json!({"token": "<op:999999>"});
                    let own = json!({"metadata": {"name": "f-own", "uid": "own", "annotations": token}});
                    state.put(self.bug, resource, "f-own", own);
                }
                self.changed.notify_waiters();
                reply
            }
            other => panic!("{other:?}"),
        }
    }

    fn get(&self, state: &mut State, resource: Resource, name: &str) -> Reply {
        let key = (resource, name.to_owned());
        let (old, object) = (state.before.get(&key).cloned(), state.objects.get(&key).cloned());
        match (self.bug, old, object) {
            (Bug::StaleGet, Some(old), _) if state.shows() => Reply::Answer(200, old),
            (Bug::LosesSight, _, Some(_)) if state.shows() => refused(404, "NotFound"),
            (_, _, Some(object)) => Reply::Answer(200, object),
            _ => refused(404, "NotFound"),
        }
    }

    fn list(&self, state: &mut State, resource: Resource) -> Reply {
        let mut revision = state.revision;
        let of_it = state.objects.iter().filter(|((of, _), _)| *of == resource);
        let mut items: BTreeMap<String, Value> =
            of_it.map(|((_, name), object)| (name.clone(), object.clone())).collect();
        let last = state.log.iter().rfind(|event| event.resource == resource).cloned();
        let Some(last) = last else {
            return Reply::Answer(200, list_of(revision, items));
        };
        let stale = (self.is(Bug::StaleList) || self.is(Bug::OldObjectInList)) && state.shows();
        if stale {
            let name = last.object["metadata"]["name"].as_str().unwrap().to_owned();
            match state.before.get(&(resource, name.clone())).filter(|_| last.kind != "ADDED") {
                Some(before) => items.insert(name, before.clone()),
                None => items.remove(&name),
            };
            if self.is(Bug::StaleList) {
                revision = last.revision - 1;
            }
        }
        Reply::Answer(200, list_of(revision, items))
    }

    fn write(&self, state: &mut State, method: &str, resource: Resource, name: &str, body: &Value) -> Reply {
        let key = (resource, name.to_owned());
        let old = state.objects.get(&key).cloned();
        let of = match method {
            "DELETE" => body["preconditions"]["resourceVersion"].as_str().map(str::to_owned),
            _ => body["metadata"]["resourceVersion"].as_str().map(str::to_owned),
        };
        let conflicts =
            of.is_some_and(|of| old.as_ref().is_some_and(|old| old["metadata"]["resourceVersion"] != of));
        match (method, &old) {
            ("POST", Some(_)) if self.is(Bug::CreatesTwice) && state.shows() => {}
            ("POST", Some(_)) => return refused(409, "AlreadyExists"),
            ("PUT", None) if resource == Resource::ConfigMaps => return refused(404, "NotFound"),
            ("DELETE", None) => return refused(404, "NotFound"),
            _ if conflicts && !self.is(Bug::IgnoresVersion) => return refused(409, "Conflict"),
            _ => {}
        }
        if method == "DELETE" {
            let uid = old.unwrap()["metadata"]["uid"].clone();
            if !self.is(Bug::DeletesNothing) || !state.shows() {
                state.remove(self.bug, resource, name);
            }
            return Reply::Answer(200, json!({"details": {"uid": uid}}));
        }
        let mut object = body.clone();
        if !state.complete(self.bug, resource, old.as_ref(), &mut object) {
            return refused(422, "Invalid");
        }
        if self.is(Bug::AcknowledgesNothing) && state.shows() {
            object["metadata"]["resourceVersion"] = (state.revision + 1).to_string().into();
            return Reply::Answer(200, object);
        }
        let object = state.put(self.bug, resource, name, object);
        if self.is(Bug::RefusesDone) && state.shows() {
            return refused(409, "Conflict");
        }
        Reply::Answer(200, object)
    }
}

fn list_of(revision: u64, items: BTreeMap<String, Value>) -> Value {
    let items: Vec<Value> = items.into_values().collect();
    json!({"metadata": {"resourceVersion": revision.to_string()}, "items": items})
}

struct Watch {
    server: Server,
    front: usize,
    resource: Resource,
    after: u64,
    delivered: usize,
    /// What is delivered before anything else, the last first.
    next: Vec<Value>,
}

impl Events for Watch {
    fn next(&mut self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async {
            loop {
                if let Some(next) = self.next.pop() {
                    self.delivered += 1;
                    return (self.delivered < STREAM).then_some(next);
                }
                // Before the state is looked at, so that no change is missed between the two.
                let changed = self.server.changed.clone();
                let mut changed = std::pin::pin!(changed.notified());
                changed.as_mut().enable();
                if !self.look() {
                    changed.await;
                }
            }
        })
    }
}

impl Watch {
    /// Takes the next event, if there is one.
    fn look(&mut self) -> bool {
        let server = self.server.clone();
        let mut state = server.state();
        let log = state.log.iter();
        let mut behind =
            log.filter(|event| event.resource == self.resource && event.revision > self.after).cloned();
        let Some(mut event) = behind.next() else { return false };
        let second = behind.next();
        drop(behind);
        let could = match server.bug {
            Bug::DropsEvent | Bug::SwapsEvents | Bug::BookmarksAhead => second.is_some(),
            Bug::RepeatsEvent => true,
            Bug::MistakesKind => event.kind == "MODIFIED",
            Bug::FrontsDisagree => self.front == 1,
            _ => false,
        };
        let shows = could && state.shows();
        drop(state);
        let line = |event: &Event| json!({"type": event.kind, "object": event.object});
        let bookmark = |revision: u64| {
            let metadata = json!({"resourceVersion": revision.to_string()});
            json!({"type": "BOOKMARK", "object": {"metadata": metadata}})
        };
        self.after = event.revision;
        match (server.bug, second) {
            (Bug::DropsEvent, Some(second)) if shows => {
                self.after = second.revision;
                self.next.push(line(&second));
                return true;
            }
            (Bug::SwapsEvents, Some(second)) if shows => {
                self.after = second.revision;
                self.next = vec![line(&event), line(&second)];
                return true;
            }
            (Bug::BookmarksAhead, Some(second)) if shows => {
                self.next = vec![bookmark(second.revision), line(&event)];
                return true;
            }
            (Bug::RepeatsEvent, _) if shows => self.next.push(line(&event)),
            (Bug::MistakesKind, _) if shows => event.kind = "ADDED",
            (Bug::FrontsDisagree, _) if shows => event.object["metadata"]["uid"] = "another".into(),
            _ => {}
        }
        if self.delivered % BOOKMARK == BOOKMARK - 1 {
            self.next.insert(0, bookmark(event.revision));
        }
        self.next.push(line(&event));
        assert_eq!(revision_of(&event.object), event.revision);
        true
    }
}
