//! Which member of etcd is talked to.
//!
//! One task owns the choice: it connects to one endpoint after the other until one proves good, and publishes the
//! connection. Whoever finds it bad [retires](Members::retire) it; calls that are under way on it go on to their
//! end, new ones wait for the next.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::HeaderValue;
use rustls::ClientConfig;
use sternpost_clock::machine;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Bytes, Endpoint,
    grpc::{CallError, Client},
    messages::{
        AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, RANGE, RangeRequest, RangeResponse, STATUS,
        StatusRequest, StatusResponse,
    },
};

/// The oldest etcd whose answers about progress can be relied on: older ones may tell of revisions whose
/// changes they have not sent.
const OLDEST_VERSION: [u32; 3] = [3, 5, 13];

/// How long a member may take to prove that it is good.
const PROBE: Duration = Duration::from_secs(2);
/// Between two rounds through all endpoints.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How etcd is reached.
#[derive(Clone)]
pub struct Access {
    /// At least one.
    pub endpoints: Vec<Endpoint>,
    /// For endpoints with `https`.
    pub tls: Option<ClientConfig>,
    pub user: Option<User>,
}

/// A user of etcd's own.
#[derive(Clone)]
pub struct User {
    pub name: String,
    pub password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = (&self.endpoints, &self.user);
        f.debug_struct("Access").field("endpoints", fields.0).field("user", fields.1).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Members {
    current: watch::Sender<Choice>,
    /// The last connection that somebody found to be bad.
    retired: watch::Sender<u64>,
    /// The cluster that the first good member belonged to; zero before.
    cluster: AtomicU64,
}

#[derive(Clone, Debug)]
enum Choice {
    /// And why there is nothing yet.
    Choosing(String),
    Chosen(Connection),
}

/// A member that has proved good.
#[derive(Clone, Debug)]
pub struct Connection {
    pub client: Client,
    id: u64,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            current: watch::Sender::new(Choice::Choosing("nothing was tried yet".to_owned())),
            retired: watch::Sender::new(0),
            cluster: AtomicU64::new(0),
        }
    }
}

impl Members {
    /// A connection to use; why there is none, if there is none by then.
    pub async fn connection(&self, due: machine::Instant) -> Result<Connection, String> {
        let mut current = self.current.subscribe();
        let retired = self.retired.borrow().to_owned();
        let usable =
            |choice: &Choice| matches!(choice, Choice::Chosen(connection) if connection.id > retired);
        let waited = machine::timeout_at(due, current.wait_for(usable)).await;
        if let Ok(Ok(choice)) = waited
            && let Choice::Chosen(connection) = &*choice
        {
            return Ok(connection.clone());
        }
        match &*self.current.borrow() {
            Choice::Choosing(why) => Err(why.clone()),
            Choice::Chosen(_) => Err("the member in use does not answer".to_owned()),
        }
    }

    /// Nothing new goes to this connection.
    pub fn retire(&self, connection: &Connection) {
        self.retired.send_if_modified(|retired| {
            let is_newer = connection.id > *retired;
            *retired = connection.id.max(*retired);
            is_newer
        });
    }

    /// Resolves when nothing new goes to this connection any more.
    pub async fn retired(&self, connection: &Connection) {
        let mut retired = self.retired.subscribe();
        let id = connection.id;
        // The sender lives as long as this borrow of it.
        let _ = retired.wait_for(|retired| *retired >= id).await;
    }

    /// Connects and keeps connected. Goes on until it is dropped.
    pub async fn keep(&self, access: Access, probed: Bytes) {
        // Each runs one connection and names it at its end. Those that are retired end with the last call on them.
        let mut running: JoinSet<u64> = JoinSet::new();
        let mut pause = FIRST_PAUSE;
        let mut endpoints = access.endpoints.iter().cycle();
        let mut why = Vec::new();
        for id in 1.. {
            let Some(endpoint) = endpoints.next() else { return };
            let connected = async {
                let (client, drive) = endpoint.connect(access.tls.as_ref()).await?;
                running.spawn(async move {
                    drive.await;
                    id
                });
                self.proven(client, access.user.as_ref(), &probed).await
            };
            match connected.await {
                Ok(client) => {
                    tracing::info!(%endpoint, "connected to etcd");
                    self.current.send_replace(Choice::Chosen(Connection { client, id }));
                    let mut retired = self.retired.subscribe();
                    tokio::select! {
                        _ = retired.wait_for(|retired| *retired >= id) => {}
                        () = ended(&mut running, id) => {}
                    }
                    pause = FIRST_PAUSE;
                    why = vec![format!("{endpoint}: the connection has ended")];
                }
                Err(error) => {
                    why.push(format!("{endpoint}: {error}"));
                    // All were tried: from here on slower.
                    if why.len() >= access.endpoints.len() {
                        self.publish_choosing(&why.join("; "));
                        why.clear();
                        machine::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    continue;
                }
            }
            self.publish_choosing(&why.join("; "));
        }
    }

    /// Has a new connection show that its member can be used: new enough, of the same cluster, with a leader.
    async fn proven(&self, client: Client, user: Option<&User>, probed: &Bytes) -> Result<Client, String> {
        let said = |error: CallError| error.to_string();
        let client = match user {
            None => client,
            Some(User { name, password }) => {
                let ask = AuthenticateRequest { name: name.clone(), password: password.clone() };
                let answer: AuthenticateResponse =
                    client.call(AUTHENTICATE, &ask, PROBE).await.map_err(said)?;
                let token = HeaderValue::try_from(answer.token).map_err(|_| "the token cannot be sent")?;
                client.with("token", token)
            }
        };
        let status: StatusResponse = client.call(STATUS, &StatusRequest {}, PROBE).await.map_err(said)?;
        if !is_new_enough(&status.version) {
            let [major, minor, patch] = OLDEST_VERSION;
            return Err(format!("etcd {} is older than {major}.{minor}.{patch}", status.version));
        }
        // Through the leader, so a member that has lost it is not used.
        let probe = RangeRequest { key: probed.clone(), count_only: true, ..RangeRequest::default() };
        let answer: RangeResponse = client.call(RANGE, &probe, PROBE).await.map_err(said)?;
        let cluster = answer.header.ok_or("an answer without a header")?.cluster_id;
        match self.cluster.compare_exchange(0, cluster, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(client),
            Err(known) if known == cluster => Ok(client),
            Err(known) => {
                Err(format!("it is a member of cluster {cluster:x}, and the others are of {known:x}"))
            }
        }
    }

    fn publish_choosing(&self, why: &str) {
        self.current.send_if_modified(|choice| {
            let is_news = match choice {
                Choice::Choosing(before) => before != why,
                Choice::Chosen(_) => true,
            };
            if is_news {
                tracing::warn!("etcd is not reached: {why}");
                *choice = Choice::Choosing(why.to_owned());
            }
            is_news
        });
    }
}

/// Resolves when the connection has ended.
async fn ended(running: &mut JoinSet<u64>, id: u64) {
    loop {
        match running.join_next().await {
            Some(Ok(other)) if other != id => {}
            Some(_) => return,
            None => return std::future::pending().await,
        }
    }
}

/// Whether this is a version that the store can rely on; later major versions are another API.
fn is_new_enough(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Option<Vec<u32>> = release.split('.').map(|part| part.parse().ok()).collect();
    let [major, ..] = OLDEST_VERSION;
    numbers.is_some_and(|numbers| *numbers >= OLDEST_VERSION[..] && numbers.first() == Some(&major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, expected) in [
            ("3.5.13", true),
            ("3.5.12", false),
            ("3.4.40", false),
            ("3.10.0", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", false),
            ("3.6", true),
            ("", false),
            ("three", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
