//! A server that answers as etcd does, from a store in memory, and fails as it is told.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, BytesMut};
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use sternpost_clock::Clock;
use sternpost_store::{
    Bytes, CommitError, Compare, Delivery, Entry, Event, KeyRange, ReadError, Revision, Store, Transaction,
    Write,
    memory::{self, MemoryStore},
    retention::Retention,
    transaction::MAX_OPERATIONS,
};
use sternpost_store_etcd::{
    Access, Endpoint, EtcdStore, Options,
    grpc::{code, frame},
    messages::*,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Handle, Runtime},
    sync::watch,
    task::JoinSet,
};

/// Long enough for a busy machine, and what a test waits that finds nobody.
pub const PATIENCE: Duration = Duration::from_secs(3);

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// With [`PATIENCE`].
pub fn open(access: Access) -> EtcdStore {
    open_for(access, PATIENCE)
}

pub fn open_for(access: Access, patience: Duration) -> EtcdStore {
    EtcdStore::new(Options { access, prefix: "/registry/".into(), patience }, Handle::current())
}

/// A fake with a store on it.
pub fn pair(faults: Faults) -> (Fake, EtcdStore) {
    let fake = Fake::start(&Handle::current(), memory(), faults);
    let store = open(fake.access());
    (fake, store)
}

pub async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let write = Write::put(key.to_owned(), value.to_owned());
    store.commit(Transaction::write([write])).await.unwrap().revision
}

pub async fn value(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    store.get(Bytes::from(key.to_owned()), None).await.unwrap().entry.map(|entry| entry.value().to_vec())
}

/// Ends with the value.
pub struct Fake {
    pub state: Arc<State>,
    port: u16,
    task: JoinSet<()>,
}

pub struct State {
    store: Mutex<Arc<MemoryStore>>,
    pub faults: Mutex<Faults>,
    /// Whoever is connected when it changes is not any more.
    broken: watch::Sender<u64>,
    /// Held by all connections since it last changed, and by their calls.
    connected: Mutex<Arc<()>>,
    /// Transactions that have arrived.
    pub transactions: AtomicUsize,
    token: AtomicU64,
    /// By which leases are over.
    clock: Clock,
    /// What compactions were asked for, whether they were made or not.
    pub compactions: Mutex<Vec<i64>>,
    /// Held while a transaction is made.
    leases: tokio::sync::Mutex<Leases>,
    /// Wait for the end of a lease each, and end with the server.
    expiring: Mutex<JoinSet<()>>,
}

/// What etcd knows of keys and a store does not.
#[derive(Debug, Default)]
struct Leases {
    /// Of each that was granted for how many seconds, and whether it is over. They count from one.
    granted: Vec<(i64, bool)>,
    /// The lease of each key that has one.
    keys: BTreeMap<Bytes, i64>,
    /// How often each key was put since it was made, by transactions that came over the wire.
    versions: BTreeMap<Bytes, i64>,
}

/// What goes wrong, or is difficult.
pub struct Faults {
    /// What happens to the next transactions.
    pub transactions: VecDeque<Fault>,
    /// Every event comes in a part of its own.
    pub fragments: bool,
    /// Requests for progress that are not heard; a member that is behind hears none.
    pub deaf: usize,
    pub version: &'static str,
    pub cluster: u64,
    /// Calls need a token.
    pub users: bool,
    /// Every call is refused: the member has lost its leader.
    pub leaderless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before anything is done.
    BreakBefore,
    /// The connection breaks when it is done, before the answer.
    BreakAfter,
    /// The stream is refused.
    Refuse,
    /// There is never an answer.
    Silence,
    Status(i32, &'static str),
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            transactions: VecDeque::new(),
            fragments: false,
            deaf: 0,
            version: "3.6.0",
            cluster: 7,
            users: false,
            leaderless: false,
        }
    }
}

pub fn memory() -> Arc<MemoryStore> {
    let options = memory::Options { retention: Retention::UNBOUNDED, ..memory::Options::default() };
    Arc::new(MemoryStore::new(options))
}

impl Fake {
    pub fn start(runtime: &Handle, store: Arc<MemoryStore>, faults: Faults) -> Self {
        Self::with_clock(runtime, store, faults, Clock::system())
    }

    pub fn with_clock(runtime: &Handle, store: Arc<MemoryStore>, faults: Faults, clock: Clock) -> Self {
        let state = Arc::new(State {
            store: Mutex::new(store),
            faults: Mutex::new(faults),
            broken: watch::Sender::new(0),
            connected: Mutex::default(),
            transactions: AtomicUsize::new(0),
            token: AtomicU64::new(1),
            clock,
            compactions: Mutex::default(),
            leases: tokio::sync::Mutex::default(),
            expiring: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut task = JoinSet::new();
        let serving = state.clone();
        task.spawn_on(async move { serve(serving, TcpListener::from_std(listener).unwrap()).await }, runtime);
        Self { state, port, task }
    }

    /// When it comes back no call is answered any more. A value that is dropped may still answer one.
    pub async fn end(mut self) {
        self.task.shutdown().await;
        // Connections and calls, which hold it, are told to end and end when they run next.
        while Arc::strong_count(&self.state) > 1 {
            tokio::task::yield_now().await;
        }
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&format!("http://127.0.0.1:{}", self.port)).unwrap()
    }

    pub fn access(&self) -> Access {
        Access { endpoints: vec![self.endpoint()], tls: None, user: None }
    }

    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.faults.lock().unwrap());
    }

    /// When it comes back nothing more is sent on them.
    pub async fn break_connections(&self) {
        let before = self.state.break_connections();
        while Arc::strong_count(&before) > 1 {
            tokio::task::yield_now().await;
        }
    }

    pub fn store(&self) -> Arc<MemoryStore> {
        self.state.store()
    }

    /// As if another state were put back.
    pub fn replace_store(&self, store: Arc<MemoryStore>) {
        *self.state.store.lock().unwrap() = store;
    }

    /// For how many seconds leases were granted.
    pub async fn granted(&self) -> Vec<i64> {
        self.state.leases.lock().await.granted.iter().map(|(ttl, _)| *ttl).collect()
    }

    /// The lease of a key.
    pub async fn lease(&self, key: &str) -> Option<i64> {
        self.state.leases.lock().await.keys.get(key.as_bytes()).copied()
    }

    /// Every lease is over, before its time.
    pub async fn end_leases(&self) {
        let count = self.state.leases.lock().await.granted.len();
        for id in 1..=i64::try_from(count).unwrap() {
            self.state.expire(id).await;
        }
    }

    /// No token from before is good any more.
    pub fn forget_tokens(&self) {
        self.state.token.fetch_add(1, Ordering::SeqCst);
    }
}

async fn serve(state: Arc<State>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        connections.spawn(connection(state.clone(), tcp));
    }
}

async fn connection(state: Arc<State>, tcp: TcpStream) {
    // Together, so that whoever holds it is told.
    let (connected, mut broken) = {
        let connected = state.connected.lock().unwrap();
        (connected.clone(), state.broken.subscribe())
    };
    tcp.set_nodelay(true).unwrap();
    let Ok(mut connection) = h2::server::handshake(tcp).await else { return };
    // They end with the connection.
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            call = connection.accept() => match call {
                Some(Ok((request, respond))) => {
                    let (state, connected) = (state.clone(), connected.clone());
                    calls.spawn(async move {
                        handle(state, request, respond).await;
                        drop(connected);
                    });
                }
                _ => return,
            },
            _ = broken.changed() => return,
        }
    }
}

/// What a call comes to.
enum Answer {
    Message(Bytes),
    Status(i32, String),
    Reset(Reason),
    Nothing,
}

impl Answer {
    fn of(message: &impl Message) -> Self {
        Self::Message(frame(message))
    }
}

async fn handle(state: Arc<State>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let token = request.headers().get("token").and_then(|token| token.to_str().ok()?.parse().ok());
    assert_eq!(request.headers().get("hasleader").unwrap(), "true");
    let mut messages = Messages { body: request.into_body(), buffer: BytesMut::new() };
    let (users, leaderless) = {
        let faults = state.faults.lock().unwrap();
        (faults.users, faults.leaderless)
    };
    let refused = if users && path != AUTHENTICATE && token != Some(state.token.load(Ordering::SeqCst)) {
        Some(Answer::Status(code::UNAUTHENTICATED, "etcdserver: invalid auth token".to_owned()))
    } else if leaderless && path != STATUS {
        Some(Answer::Status(code::UNAVAILABLE, "etcdserver: no leader".to_owned()))
    } else {
        None
    };
    let answer = match (refused, path.as_str()) {
        (Some(refused), _) => refused,
        (None, WATCH) => return watching(&state, messages, respond).await,
        (None, RANGE) => range(&state, messages.next().await).await,
        (None, TXN) => txn(&state, messages.next().await).await,
        (None, COMPACT) => compact(&state, messages.next().await).await,
        (None, LEASE_GRANT) => grant(&state, messages.next().await).await,
        (None, STATUS) => {
            let version = state.faults.lock().unwrap().version.to_owned();
            Answer::of(&StatusResponse { header: Some(state.header().await), version, db_size: 4096 })
        }
        (None, AUTHENTICATE) => {
            let request: AuthenticateRequest = messages.next().await;
            if (request.name.as_str(), request.password.as_str()) == ("root", "secret") {
                Answer::of(&AuthenticateResponse { token: state.token.load(Ordering::SeqCst).to_string() })
            } else {
                Answer::Status(code::INVALID_ARGUMENT, "etcdserver: authentication failed".to_owned())
            }
        }
        (None, other) => Answer::Status(code::UNIMPLEMENTED, other.to_owned()),
    };
    let status = |code: i32, message: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from(code));
        headers.insert("grpc-message", HeaderValue::from_str(&message.replace(' ', "%20")).unwrap());
        headers
    };
    // Whoever asked may have gone, which is the point of most tests here.
    let _ = match answer {
        Answer::Message(message) => respond.send_response(Response::new(()), false).and_then(|mut stream| {
            stream.send_data(message, false)?;
            stream.send_trailers(status(code::OK, ""))
        }),
        Answer::Status(code, message) => {
            let mut response = Response::new(());
            *response.headers_mut() = status(code, &message);
            respond.send_response(response, true).map(|_| ())
        }
        Answer::Reset(reason) => {
            respond.send_reset(reason);
            Ok(())
        }
        Answer::Nothing => std::future::pending().await,
    };
}

impl State {
    fn store(&self) -> Arc<MemoryStore> {
        self.store.lock().unwrap().clone()
    }

    async fn header(&self) -> ResponseHeader {
        let revision = self.store().current_revision().await.unwrap();
        self.header_at(revision)
    }

    /// Held by those that are connected no more until they have ended.
    fn break_connections(&self) -> Arc<()> {
        let mut connected = self.connected.lock().unwrap();
        self.broken.send_modify(|count| *count += 1);
        std::mem::take(&mut *connected)
    }

    async fn expire(&self, id: i64) {
        let mut leases = self.leases.lock().await;
        leases.end(id);
        let gone: Vec<Bytes> =
            leases.keys.extract_if(.., |_, lease| *lease == id).map(|(key, _)| key).collect();
        for keys in gone.chunks(MAX_OPERATIONS) {
            let deletes = keys.iter().map(|key| Write::delete(key.clone()));
            self.store().commit(Transaction::write(deletes)).await.unwrap();
        }
    }

    fn header_at(&self, revision: Revision) -> ResponseHeader {
        ResponseHeader { cluster_id: self.faults.lock().unwrap().cluster, revision: number(revision) }
    }
}

impl Leases {
    fn of(&mut self, id: i64) -> Option<&mut (i64, bool)> {
        self.granted.get_mut(usize::try_from(id - 1).unwrap())
    }

    fn is_over(&mut self, id: i64) -> bool {
        self.of(id).is_none_or(|(_, over)| *over)
    }

    fn end(&mut self, id: i64) {
        if let Some((_, over)) = self.of(id) {
            *over = true;
        }
    }
}

fn number(revision: Revision) -> i64 {
    revision.get().try_into().unwrap()
}

fn revision(number: i64) -> Option<Revision> {
    Revision::new(number.try_into().unwrap())
}

fn key_value(entry: &Entry) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(entry.key()),
        create_revision: number(entry.created),
        mod_revision: number(entry.modified),
        version: 0,
        value: Bytes::copy_from_slice(entry.value()),
    }
}

fn key_range(key: &Bytes, end: &Bytes) -> KeyRange {
    match (&key[..], &end[..]) {
        (_, b"") => KeyRange::single(key.clone()),
        (b"\0", b"\0") => KeyRange::all(),
        ([before @ .., 0], b"\0") => KeyRange::all().after(before),
        (_, b"\0") => panic!("no such range is asked for: {key:?}"),
        _ => KeyRange::between(key.clone(), end.clone()),
    }
}

fn refusal(error: &ReadError) -> Answer {
    let why = match error {
        ReadError::Compacted { .. } => "required revision has been compacted",
        ReadError::Future { .. } => "required revision is a future revision",
        other => panic!("{other}"),
    };
    Answer::Status(code::OUT_OF_RANGE, format!("etcdserver: mvcc: {why}"))
}

async fn range(state: &State, request: RangeRequest) -> Answer {
    let store = state.store();
    let range = key_range(&request.key, &request.range_end);
    let limit = if request.limit == 0 { usize::MAX } else { request.limit.try_into().unwrap() };
    match store.range(range, revision(request.revision), limit).await {
        Ok(page) => {
            let count = i64::try_from(page.entries.len()).unwrap();
            let kvs = if request.count_only { vec![] } else { page.entries.iter().map(key_value).collect() };
            let header = match request.revision {
                0 => state.header_at(page.revision),
                _ => state.header().await,
            };
            Answer::of(&RangeResponse { header: Some(header), kvs, more: page.more, count })
        }
        Err(error) => refusal(&error),
    }
}

async fn compact(state: &State, request: CompactionRequest) -> Answer {
    let store = state.store();
    let to = revision(request.revision).unwrap();
    state.compactions.lock().unwrap().push(request.revision);
    // The contract's second time does nothing; etcd's is refused.
    if let Err(error) = store.range(KeyRange::all(), Some(to), 1).await {
        return refusal(&error);
    }
    store.compact(to).await.unwrap();
    Answer::of(&CompactionResponse { header: Some(state.header().await) })
}

async fn grant(state: &Arc<State>, request: LeaseGrantRequest) -> Answer {
    assert_eq!(request.id, 0, "a lease that etcd chooses");
    let mut leases = state.leases.lock().await;
    leases.granted.push((request.ttl, false));
    let id = i64::try_from(leases.granted.len()).unwrap();
    let ends = state.clock.sleep(Duration::from_secs(request.ttl.try_into().unwrap()));
    let granting: Weak<State> = Arc::downgrade(state);
    state.expiring.lock().unwrap().spawn(async move {
        ends.await;
        if let Some(state) = granting.upgrade() {
            state.expire(id).await;
        }
    });
    drop(leases);
    let header = Some(state.header().await);
    Answer::of(&LeaseGrantResponse { header, id, ttl: request.ttl, error: String::new() })
}

async fn txn(state: &State, request: TxnRequest) -> Answer {
    state.transactions.fetch_add(1, Ordering::SeqCst);
    let fault = state.faults.lock().unwrap().transactions.pop_front();
    match fault {
        Some(Fault::BreakBefore) => {
            state.break_connections();
            return Answer::Nothing;
        }
        Some(Fault::Refuse) => return Answer::Reset(Reason::REFUSED_STREAM),
        Some(Fault::Silence) => return Answer::Nothing,
        Some(Fault::Status(code, message)) => return Answer::Status(code, message.to_owned()),
        Some(Fault::BreakAfter) | None => {}
    }
    let mut leases = state.leases.lock().await;
    let mut compares = Vec::new();
    for compare in &request.compare {
        compares.push(condition(state, &leases, compare).await);
    }
    let mut given = Vec::new();
    let writes = request.success.iter().map(|op| match op.request.as_ref().unwrap() {
        messages_request::Put(put) => {
            given.push((put.key.clone(), put.lease));
            Write::put(put.key.clone(), put.value.clone())
        }
        messages_request::DeleteRange(delete) => {
            given.push((delete.key.clone(), 0));
            Write::delete(delete.key.clone())
        }
        messages_request::Range(_) => panic!("reads come with compares that do not hold"),
    });
    let mut transaction = Transaction { compares, writes: writes.collect() };
    let is_gone = given.iter().any(|(_, lease)| *lease != 0 && leases.is_over(*lease));
    if is_gone {
        transaction.writes.clear();
    }
    let mut were_there = Vec::new();
    for write in &transaction.writes {
        were_there.push(state.store().get(write.key().clone(), None).await.unwrap().entry.is_some());
    }
    let answer = match state.store().commit(transaction.clone()).await {
        Ok(_) if is_gone => {
            return Answer::Status(code::NOT_FOUND, "etcdserver: requested lease not found".to_owned());
        }
        Ok(committed) => {
            for ((key, lease), (write, was_there)) in
                given.into_iter().zip(transaction.writes.iter().zip(&were_there))
            {
                match (write, was_there) {
                    (Write::Put { .. }, true) => *leases.versions.entry(key.clone()).or_default() += 1,
                    (Write::Put { .. }, false) => drop(leases.versions.insert(key.clone(), 1)),
                    (Write::Delete { .. }, _) => drop(leases.versions.remove(&key)),
                }
                match lease {
                    0 => leases.keys.remove(&key),
                    lease => leases.keys.insert(key, lease),
                };
            }
            let responses = transaction.writes.iter().zip(were_there).map(|(write, was_there)| {
                let deleted = i64::from(was_there);
                ResponseOp {
                    response: Some(match write {
                        Write::Put { .. } => messages_response::Put(PutResponse {}),
                        Write::Delete { .. } => {
                            messages_response::DeleteRange(DeleteRangeResponse { deleted })
                        }
                    }),
                }
            });
            let header = Some(state.header_at(committed.revision));
            TxnResponse { header, succeeded: true, responses: responses.collect() }
        }
        Err(CommitError::Conflict { revision, current }) => {
            let responses = current.iter().map(|found| {
                let version = |entry: &Entry| leases.versions.get(entry.key()).copied().unwrap_or_default();
                let kvs = found.iter().map(|entry| KeyValue { version: version(entry), ..key_value(entry) });
                let kvs = kvs.collect();
                let answer = RangeResponse { kvs, ..RangeResponse::default() };
                ResponseOp { response: Some(messages_response::Range(answer)) }
            });
            let header = Some(state.header_at(revision));
            TxnResponse { header, succeeded: false, responses: responses.collect() }
        }
        Err(other) => panic!("{other}"),
    };
    drop(leases);
    if fault == Some(Fault::BreakAfter) {
        state.break_connections();
        return Answer::Nothing;
    }
    Answer::of(&answer)
}

/// A comparison in the contract's words.
async fn condition(
    state: &State,
    leases: &Leases,
    compare: &sternpost_store_etcd::messages::Compare,
) -> Compare {
    let key = compare.key.clone();
    let result = CompareResult::try_from(compare.result).unwrap();
    match CompareTarget::try_from(compare.target).unwrap() {
        CompareTarget::Mod => match (result, compare.mod_revision.unwrap()) {
            (CompareResult::Equal, 0) => Compare::Absent { key },
            (CompareResult::Greater, 0) => Compare::Present { key },
            (CompareResult::Equal, at) => Compare::Modified { key, revision: revision(at).unwrap() },
            other => panic!("{other:?}"),
        },
        CompareTarget::Version => {
            assert_eq!(result, CompareResult::Equal);
            let version = compare.version.unwrap();
            let found = state.store().get(key.clone(), None).await.unwrap().entry;
            let revision = match found {
                _ if version == 0 => return Compare::Absent { key },
                Some(found) if leases.versions.get(&key) == Some(&version) => found.modified,
                // What nothing was written at: it does not hold.
                _ => Revision::FIRST,
            };
            Compare::Modified { key, revision }
        }
        other => panic!("{other:?}"),
    }
}

use sternpost_store_etcd::messages::{Request as messages_request, Response as messages_response};

async fn watching(state: &State, mut messages: Messages, mut respond: SendResponse<Bytes>) {
    let Some(WatchAsk::Create(create)) = messages.next::<WatchRequest>().await.request else {
        panic!("no watch")
    };
    let store = state.store();
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    let created =
        WatchResponse { header: Some(state.header().await), created: true, ..WatchResponse::default() };
    if stream.send_data(frame(&created), false).is_err() {
        return;
    }
    let range = key_range(&create.key, &create.range_end);
    let start = revision(create.start_revision).unwrap();
    if let Err(ReadError::Compacted { oldest }) = store.range(range.clone(), Some(start), 1).await {
        let compacted = WatchResponse {
            header: Some(state.header().await),
            canceled: true,
            compact_revision: number(oldest),
            ..WatchResponse::default()
        };
        let _ = stream.send_data(frame(&compacted), false);
        return std::future::pending().await;
    }
    let before = revision(create.start_revision - 1).unwrap_or(Revision::FIRST);
    let mut watch = match store.watch(range.clone(), before).await {
        Ok(watch) => watch,
        // What `start` itself changed is then not to be had, and not asked for by any test.
        Err(ReadError::Compacted { .. }) => store.watch(range, start).await.unwrap(),
        Err(other) => panic!("{other}"),
    };
    loop {
        let delivery = tokio::select! {
            delivery = watch.next() => delivery.unwrap(),
            request = messages.read::<WatchRequest>() => match request {
                Some(WatchRequest { request: Some(WatchAsk::Progress(_)) }) => {
                    let mut faults = state.faults.lock().unwrap();
                    match faults.deaf.checked_sub(1) {
                        Some(left) => faults.deaf = left,
                        None => watch.request_progress(),
                    }
                    continue;
                }
                _ => return,
            },
        };
        let header = Some(state.header_at(delivery.revision()));
        let answer = WatchResponse { header, ..WatchResponse::default() };
        let answers = match delivery {
            Delivery::Progress(_) => vec![answer],
            Delivery::Changes(changes) => {
                // In the order of the transaction, which is none that a client may rely on.
                let events: Vec<_> =
                    changes.events().iter().rev().map(|event| of_event(event, changes.revision())).collect();
                if state.faults.lock().unwrap().fragments {
                    let last = events.len() - 1;
                    let part = |(index, event)| WatchResponse {
                        fragment: index < last,
                        events: vec![event],
                        ..answer.clone()
                    };
                    events.into_iter().enumerate().map(part).collect()
                } else {
                    vec![WatchResponse { events, ..answer }]
                }
            }
        };
        for answer in answers {
            if stream.send_data(frame(&answer), false).is_err() {
                return;
            }
        }
    }
}

fn of_event(event: &Event, at: Revision) -> sternpost_store_etcd::messages::Event {
    let prev_kv = event.previous().map(key_value);
    let (kind, kv) = match event {
        Event::Put { entry, .. } => (EventType::Put, key_value(entry)),
        Event::Delete { previous } => {
            let key = Bytes::copy_from_slice(previous.key());
            (EventType::Delete, KeyValue { key, mod_revision: number(at), ..KeyValue::default() })
        }
    };
    sternpost_store_etcd::messages::Event { r#type: kind.into(), kv: Some(kv), prev_kv }
}

/// What a client sends.
struct Messages {
    body: RecvStream,
    buffer: BytesMut,
}

impl Messages {
    async fn next<M: Message + Default>(&mut self) -> M {
        match self.read().await {
            Some(message) => message,
            // The connection broke; the task ends with it.
            None => std::future::pending().await,
        }
    }

    async fn read<M: Message + Default>(&mut self) -> Option<M> {
        loop {
            if let Some(mut prefix) = self.buffer.get(1..5) {
                let length = prefix.get_u32() as usize;
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    return Some(M::decode(self.buffer.split_to(length)).unwrap());
                }
            }
            let data = self.body.data().await?.ok()?;
            let _ = self.body.flow_control().release_capacity(data.len());
            self.buffer.extend_from_slice(&data);
        }
    }
}
