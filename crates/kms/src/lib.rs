//! Plugins of KMS v2: gRPC on a Unix socket.
//!
//! Entry point: [`Client::new`], which connects to nothing yet; then it is a [`Service`].
//!
//! Invariants: a call ends when its time is over, whatever the plugin does; each has a connection of its own, because there
//! is one a minute, and so a plugin that was started again is no special case; while there is no socket, or nobody
//! listens, a call waits for it, because a plugin may be starting.
//!
//! The crate does not know what is encrypted, nor when a plugin is asked.

mod messages;

use std::time::Duration;

use http::{HeaderMap, uri};
use prost::Message;
use sternpost_clock::machine;
use sternpost_encryption::kms::{Encrypted, Service, Settings, Status};
use sternpost_grpc as grpc;
use tokio::runtime::{Handle, RuntimeFlavor};

use messages::{
    DECRYPT, DecryptRequest, DecryptResponse, ENCRYPT, EncryptRequest, EncryptResponse, STATUS,
    StatusRequest, StatusResponse,
};

/// How long it is until a socket is tried again on which nobody listened.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// One plugin. Calls block. They may be made on a thread of whatever runtime, whose other tasks go on meanwhile if it has
/// several threads.
#[derive(Debug)]
pub struct Client {
    runtime: Handle,
    settings: Settings,
}

impl Client {
    /// Calls run on this runtime.
    pub fn new(runtime: Handle, settings: Settings) -> Self {
        Self { runtime, settings }
    }

    fn call<Answer: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Answer, String> {
        let work = || self.runtime.block_on(call(&self.settings, method, request));
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            // Its only thread is not to be entered twice.
            Ok(_) => std::thread::scope(|scope| {
                let called = scope.spawn(work).join();
                called.unwrap_or_else(|_| Err("the call has panicked".to_owned()))
            }),
            Err(_) => work(),
        }
    }
}

impl Service for Client {
    fn status(&self) -> Result<Status, String> {
        let StatusResponse { version, healthz, key_id } = self.call(STATUS, &StatusRequest {})?;
        Ok(Status { version, healthz, key_id })
    }

    fn encrypt(&self, uid: &str, plaintext: &[u8]) -> Result<Encrypted, String> {
        let request = EncryptRequest { plaintext: plaintext.to_vec(), uid: uid.to_owned() };
        let EncryptResponse { ciphertext, key_id, annotations } = self.call(ENCRYPT, &request)?;
        Ok(Encrypted { ciphertext, key_id, annotations })
    }

    fn decrypt(&self, uid: &str, encrypted: &Encrypted) -> Result<Vec<u8>, String> {
        let Encrypted { ciphertext, key_id, annotations } = encrypted.clone();
        let request = DecryptRequest { ciphertext, uid: uid.to_owned(), key_id, annotations };
        let DecryptResponse { plaintext } = self.call(DECRYPT, &request)?;
        Ok(plaintext)
    }
}

async fn call<Answer: Message + Default>(
    settings: &Settings,
    method: &'static str,
    request: &impl Message,
) -> Result<Answer, String> {
    let due = machine::within(settings.timeout);
    let connecting = machine::timeout_at(due, async {
        let socket = connect(settings, due).await?;
        h2::client::handshake(socket).await.map_err(|error| error.to_string())
    });
    let connected = connecting.await.unwrap_or_else(|_| Err(format!("no answer in {:?}", settings.timeout)));
    let (send, connection) =
        connected.map_err(|error| format!("cannot connect to `{}`: {error}", settings.path))?;
    let authority = uri::Authority::from_static("localhost");
    let client = grpc::Client::new(send, uri::Scheme::HTTP, authority, HeaderMap::new());
    tokio::select! {
        answer = client.call(method, request, machine::left(due)) => answer.map_err(|error| error.to_string()),
        // Without it nothing is answered any more.
        ended = connection => Err(match ended {
            Ok(()) => "the connection ended before the answer".to_owned(),
            Err(error) => error.to_string(),
        }),
    }
}

/// Waits for somebody to listen, but not for long enough to be told nothing but that it took too long.
#[cfg(unix)]
async fn connect(settings: &Settings, due: machine::Instant) -> Result<tokio::net::UnixStream, String> {
    let path = match settings.path.strip_prefix('@') {
        // As the system wants to have names that are no files.
        Some(name) => format!("\0{name}"),
        None => settings.path.clone(),
    };
    loop {
        match tokio::net::UnixStream::connect(&path).await {
            Ok(socket) => return Ok(socket),
            Err(error) if machine::left(due) <= TRY_AGAIN => return Err(error.to_string()),
            Err(_) => machine::sleep(TRY_AGAIN).await,
        }
    }
}

#[cfg(not(unix))]
async fn connect(_: &Settings, _: machine::Instant) -> Result<tokio::io::DuplexStream, String> {
    Err("this system has no Unix sockets".to_owned())
}
