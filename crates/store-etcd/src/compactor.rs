//! Has etcd forget its history, in turn with all others that do: replicas of this server, and kube-apiservers.
//!
//! They agree by a key. Its version, which counts its puts, is a clock that all of them share: whoever puts the key
//! while the version is still the one that he saw last has the turn, and lets etcd forget all that is older than
//! the revision that he saw then. The others see that somebody was faster, and wait for the next turn. So there is
//! one compaction in an interval, and everything is remembered for one interval at least. The key's value is the
//! revision that etcd was let forget to.

use std::{sync::Arc, time::Duration};

use sternpost_clock::{Clock, machine};
use sternpost_store::{CommitError, ReadError, Revision, Stopped};
use tokio::task::AbortHandle;

use crate::{
    Bytes, EtcdStore,
    convert::{number, of_header},
    messages::{
        Compare, CompareResult, CompareTarget, PutRequest, RangeRequest, Request, RequestOp, Response,
        TxnRequest, TxnResponse,
    },
    store::Shared,
};

/// How often kube-apiserver compacts if nobody says otherwise.
pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// kube-apiserver's, outside of every prefix.
const KEY: Bytes = Bytes::from_static(b"compact_rev_key");

/// Compacts until it is dropped.
#[derive(Debug)]
pub struct Compactor {
    /// None if it is off.
    task: Option<AbortHandle>,
}

impl Compactor {
    /// Takes the first turn after one interval. One of no length is none: nothing is compacted.
    pub fn start(store: &EtcdStore, clock: Clock, interval: Duration) -> Result<Self, Stopped> {
        if interval.is_zero() {
            return Ok(Self { task: None });
        }
        let task = store.spawn(compact(store.shared(), clock, interval))?;
        Ok(Self { task: Some(task) })
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn compact(shared: Arc<Shared>, clock: Clock, interval: Duration) {
    let mut seen = Seen::default();
    loop {
        clock.sleep(interval).await;
        if let Err(error) = seen.turn(&shared).await {
            tracing::warn!("etcd was not compacted: {error}");
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error(transparent)]
    Transaction(#[from] CommitError),
    #[error(transparent)]
    Compaction(#[from] ReadError),
}

/// What there was in the last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Of the key; zero if it is absent.
    version: i64,
    /// Of everything.
    revision: Option<Revision>,
}

impl Seen {
    /// A transaction that fails leaves this as it is: if it has happened, the next turn is somebody else's.
    async fn turn(&mut self, shared: &Shared) -> Result<(), TurnError> {
        let before = *self;
        let answer = shared.transact(&before.request(), machine::within(shared.patience)).await;
        let answer = answer.map_err(CommitError::from)?;
        let uncertain =
            |error: crate::convert::Malformed| CommitError::Uncertain { reason: error.to_string() };
        let revision = of_header(answer.header).map_err(uncertain)?;
        *self = Self { version: before.version_after(&answer), revision: Some(revision) };
        match before.revision {
            Some(to) if answer.succeeded => Ok(shared.compact(to).await?),
            // Somebody was faster, or this is the first turn there is: nothing is old enough.
            _ => Ok(()),
        }
    }

    fn request(&self) -> TxnRequest {
        let op = |request| RequestOp { request: Some(request) };
        let value = self.revision.map_or(0, number).to_string();
        TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Version.into(),
                key: KEY,
                version: Some(self.version),
                mod_revision: None,
            }],
            success: vec![op(Request::Put(PutRequest {
                key: KEY,
                value: value.into(),
                ..PutRequest::default()
            }))],
            failure: vec![op(Request::Range(RangeRequest { key: KEY, ..RangeRequest::default() }))],
        }
    }

    fn version_after(&self, answer: &TxnResponse) -> i64 {
        if answer.succeeded {
            return self.version.saturating_add(1);
        }
        match answer.responses.first().and_then(|answer| answer.response.as_ref()) {
            Some(Response::Range(found)) => found.kvs.first().map_or(0, |found| found.version),
            _ => 0,
        }
    }
}
