//! A key that is there for as long as somebody keeps it, and goes by itself when its keeper is gone: as the one
//! that each kube-apiserver has under `masterleases`.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use sternpost_clock::Clock;
use sternpost_store::{CommitError, Stopped, Transaction, Write};
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    Bytes, EtcdStore,
    leases::Sharing,
    store::{PAUSE, Shared},
};

/// Before a put that failed is made again, which is before the key is gone.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps its key until it is dropped. The key then goes when its time is over.
#[derive(Debug)]
pub struct Kept {
    end: Option<oneshot::Sender<Ended>>,
    task: AbortHandle,
}

type Ended = oneshot::Sender<Result<(), CommitError>>;

impl EtcdStore {
    /// Puts the key with a lease of its own, and again with a new one whenever two thirds of the time are over.
    /// What others write to it is replaced.
    pub fn keep(
        &self,
        clock: Clock,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        ttl: NonZeroU32,
    ) -> Result<Kept, Stopped> {
        let (end, ending) = oneshot::channel();
        let task = self.spawn(keep(self.shared(), clock, key.into(), value.into(), ttl, ending))?;
        Ok(Kept { end: Some(end), task })
    }
}

impl Kept {
    /// Deletes the key, behind every put of it.
    pub async fn end(mut self) -> Result<(), CommitError> {
        let (ended, answer) = oneshot::channel();
        let is_told = self.end.take().is_some_and(|end| end.send(ended).is_ok());
        match answer.await {
            Ok(answer) if is_told => answer,
            // The store was closed meanwhile, and the task with it.
            _ => Err(Stopped::Closed.into()),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(
    shared: Arc<Shared>,
    clock: Clock,
    key: Bytes,
    value: Bytes,
    ttl: NonZeroU32,
    mut ending: oneshot::Receiver<Ended>,
) {
    let every = Duration::from_secs(ttl.get().into()) * 2 / 3;
    let put = Transaction::write([Write::expiring(key.clone(), value, ttl)]);
    let ended = loop {
        let begun = clock.now();
        let pause = match shared.commit(&put, Sharing::Alone).await {
            Ok(_) => every,
            Err(error) => {
                tracing::warn!(key = %key.escape_ascii(), "a key is not kept: {error}");
                AGAIN.min(every).max(PAUSE)
            }
        };
        tokio::select! {
            () = clock.sleep_until(begun + pause) => {}
            ended = &mut ending => break ended,
        }
    };
    if let Ok(ended) = ended {
        let delete = Transaction::write([Write::delete(key)]);
        // Whoever ended it may have gone.
        let _ = ended.send(shared.commit(&delete, Sharing::Alone).await.map(|_| ()));
    }
}
