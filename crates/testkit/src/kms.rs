//! A plugin of KMS v2 for tests, which does as it is told. Its secrets are none: bytes are turned by the name of a key.

use std::{
    collections::BTreeMap,
    os::unix::net::UnixListener,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    thread::JoinHandle,
};

use bytes::{BufMut, Bytes, BytesMut};
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use tokio::{
    net::{UnixListener as Listener, UnixStream},
    sync::oneshot,
    task::JoinSet,
};

/// Ends when dropped; then nobody listens any more.
pub struct Plugin {
    state: Arc<Mutex<State>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What it answers, and what it was asked.
#[derive(Clone, Debug)]
pub struct State {
    pub version: String,
    pub healthz: String,
    /// Of the key that it encrypts with.
    pub key_id: String,
    /// The same as `Status` has it, if it is another.
    pub told_key_id: Option<String>,
    /// Keys that it no longer decrypts with.
    pub lost: Vec<String>,
    pub annotations: BTreeMap<String, Vec<u8>>,
    pub fault: Fault,
    /// Calls that have come, by method.
    pub calls: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// There is never an answer.
    Silence,
    /// A status of gRPC in place of an answer.
    Status(i32, String),
    /// The connection ends.
    Break,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: "v2".to_owned(),
            healthz: "ok".to_owned(),
            key_id: "1".to_owned(),
            told_key_id: None,
            lost: vec![],
            annotations: BTreeMap::new(),
            fault: Fault::None,
            calls: BTreeMap::new(),
        }
    }
}

/// Of any request or answer: the fields that plugins have, by their numbers in the message.
#[derive(Clone, PartialEq, Message)]
struct Two {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Texts {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Decrypt {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

impl Plugin {
    /// Listens on a socket, in place of one that may be there. A path that begins with `@` is in the abstract namespace.
    pub fn start(path: &Path, state: State) -> Self {
        let listener = match path.to_str().unwrap().strip_prefix('@') {
            Some(name) => {
                use std::os::linux::net::SocketAddrExt;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
                UnixListener::bind_addr(&address).unwrap()
            }
            None => {
                let _ = std::fs::remove_file(path);
                UnixListener::bind(path).unwrap()
            }
        };
        listener.set_nonblocking(true).unwrap();
        let state = Arc::new(Mutex::new(state));
        let (end, ended) = oneshot::channel();
        let serving = state.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = serve(&serving, listener) => {}
                    _ = ended => {}
                }
            });
        });
        Self { state, end: Some(end), thread: Some(thread) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How often a method was called.
    pub fn calls(&self, method: &str) -> usize {
        self.state().calls.get(method).copied().unwrap_or_default()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(state: &Arc<Mutex<State>>, listener: UnixListener) {
    let listener = Listener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(connection(state.clone(), socket));
    }
}

async fn connection(state: Arc<Mutex<State>>, socket: UnixStream) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    // They end with the connection.
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        if state.lock().unwrap().fault == Fault::Break {
            return;
        }
        calls.spawn(handle(state.clone(), request, respond));
    }
}

async fn handle(state: Arc<Mutex<State>>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let method = request.uri().path().strip_prefix("/v2.KeyManagementService/").unwrap().to_owned();
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let mut body = request.into_body();
    let mut received = vec![];
    while let Some(data) = body.data().await {
        let Ok(data) = data else { return };
        let _ = body.flow_control().release_capacity(data.len());
        received.extend_from_slice(&data);
    }
    let answer = {
        let mut state = state.lock().unwrap();
        *state.calls.entry(method.clone()).or_default() += 1;
        match state.fault.clone() {
            Fault::Silence => None,
            Fault::Status(code, message) => Some(Err((code, message))),
            Fault::None | Fault::Break => Some(state.answer(&method, &received[5..])),
        }
    };
    let status = |code: i32, message: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from(code));
        headers.insert("grpc-message", HeaderValue::from_str(&message.replace(' ', "%20")).unwrap());
        headers
    };
    // grpc-go reads no answer without it.
    let response = || {
        let mut response = Response::new(());
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        response
    };
    // Whoever asked may have gone.
    let _ = match answer {
        Some(Ok(message)) => respond.send_response(response(), false).and_then(|mut stream| {
            let mut framed = BytesMut::new();
            framed.put_u8(0);
            framed.put_u32(message.len().try_into().unwrap());
            framed.extend_from_slice(&message);
            stream.send_data(framed.freeze(), false)?;
            stream.send_trailers(status(0, ""))
        }),
        Some(Err((code, message))) => {
            let mut response = response();
            response.headers_mut().extend(status(code, &message));
            respond.send_response(response, true).map(|_| ())
        }
        None => std::future::pending().await,
    };
}

impl State {
    fn answer(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, (i32, String)> {
        match method {
            "Status" => {
                let (version, healthz) = (self.version.clone(), self.healthz.clone());
                let key_id = self.told_key_id.as_ref().unwrap_or(&self.key_id).clone();
                Ok(Texts { version, healthz, key_id }.encode_to_vec())
            }
            "Encrypt" => {
                let request = Two::decode(request).unwrap();
                assert!(!request.text.is_empty(), "a call without an identity");
                let (text, annotations) = (self.key_id.clone(), self.annotations.clone());
                let bytes = turned(&request.bytes, &self.key_id);
                Ok(Two { bytes, text, annotations }.encode_to_vec())
            }
            "Decrypt" => {
                let request = Decrypt::decode(request).unwrap();
                assert!(!request.uid.is_empty(), "a call without an identity");
                if self.lost.contains(&request.key_id) {
                    return Err((5, format!("no key {}", request.key_id)));
                }
                let bytes = turned(&request.ciphertext, &request.key_id);
                Ok(Two { bytes, ..Two::default() }.encode_to_vec())
            }
            other => Err((12, other.to_owned())),
        }
    }
}

/// A second time it is what it was.
fn turned(bytes: &[u8], key: &str) -> Vec<u8> {
    let by = key.bytes().fold(0x5a, |by, letter| by ^ letter);
    bytes.iter().map(|byte| byte ^ by).collect()
}
