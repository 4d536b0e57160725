//! The one thread that writes: takes what waits, commits it together, answers.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc as timer},
    time::Duration,
};

use sternpost_clock::Clock;
use sternpost_store::{
    CommitError, Committed, ReadError, Revision, Stopped, Transaction, Write,
    hub::Hub,
    mvcc::Pending,
    retention::Retention,
    transaction::{MAX_OPERATIONS, MAX_TRANSACTION_BYTES},
    watch::Batch,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    codec::MAX_FRAME,
    disk::WriteError,
    engine::{Engine, RESERVATION},
    sealing::MAX_SEALING,
    snapshot::Snapshots,
};

/// Transactions that may wait for the writer. A caller that finds the queue
/// full waits before it hands over; it holds nothing but its own transaction.
pub const QUEUE: usize = 1024;

/// Transactions and bytes that share one commit. What is left waits for the next one.
const MAX_GROUP: usize = 1024;
const MAX_GROUP_BYTES: usize = 16 << 20;

// A group uses only revisions that an earlier commit reserved.
const _: () = assert!((MAX_GROUP as u64) < RESERVATION / 2);

// A group is one frame, rows of its records and all. By how much sealing makes it longer is counted.
const _: () = assert!(
    MAX_GROUP_BYTES + MAX_TRANSACTION_BYTES + MAX_SEALING * MAX_OPERATIONS + 64 * MAX_GROUP * MAX_OPERATIONS
        <= MAX_FRAME
);

/// How often a store that nobody writes to forgets history that has expired.
pub const TICK: Duration = Duration::from_secs(15);

/// Batches that one tick forgets in one commit. It goes on as long as nobody waits.
const FORGET_PER_TICK: usize = 1000;

/// How long after the disk was full the next write tries again, in milliseconds.
/// Those in between are refused at once.
pub const RETRY_MILLIS: u64 = 1000;

#[derive(Debug)]
pub enum Command {
    Commit { transaction: Transaction, answer: oneshot::Sender<Result<Committed, CommitError>> },
    Compact { to: Revision, answer: oneshot::Sender<Result<(), ReadError>> },
    Close { answer: oneshot::Sender<()> },
    SnapshotEnded,
    Tick,
}

/// Why writes are refused now; nothing if they are not. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Refusing(Arc<Mutex<Option<Arc<str>>>>);

impl Refusing {
    pub fn reason(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reason: Option<Arc<str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

#[derive(Debug)]
pub struct Writer {
    pub engine: Engine,
    pub snapshots: Snapshots,
    pub hub: Arc<Hub>,
    pub retention: Retention,
    pub clock: Clock,
    pub refusing: Refusing,
    /// Before this time no write is tried, in milliseconds since 1970.
    pub retry_at: u64,
    /// What this thread is woken through. Weak, because it ends with the last sender.
    pub queue: mpsc::WeakSender<Command>,
    /// Ends the ticks when it is dropped.
    pub _ticks: timer::Sender<()>,
}

type Answer = oneshot::Sender<Result<Committed, CommitError>>;

/// Runs until the store is closed or dropped, or cannot go on.
pub fn run(mut writer: Writer, mut queue: mpsc::Receiver<Command>) {
    // If something below panics, nobody must wait for ever.
    let guard = PanicGuard(Arc::clone(&writer.hub));
    match writer.serve(&mut queue) {
        Ok(closing) => {
            let stopped = writer.close();
            refuse_rest(queue, &stopped);
            // Last, so that whoever waits for it may open the directory again.
            if let Some(answer) = closing {
                let _ = answer.send(());
            }
        }
        Err(stopped) => refuse_rest(queue, &stopped),
    }
    drop(guard);
}

/// Answers what was handed over too late. Waiting for the end of the queue, not
/// just until it is empty: a caller may be in the middle of handing over.
fn refuse_rest(mut queue: mpsc::Receiver<Command>, stopped: &Stopped) {
    queue.close();
    while let Some(command) = queue.blocking_recv() {
        refuse(command, stopped);
    }
}

impl Writer {
    /// Until the queue ends or a command closes the store.
    fn serve(&mut self, queue: &mut mpsc::Receiver<Command>) -> Result<Option<oneshot::Sender<()>>, Stopped> {
        let mut next = queue.blocking_recv();
        while let Some(command) = next.take() {
            match command {
                Command::Commit { transaction, answer } => {
                    let overhead = self.engine.cover().sealing.overhead();
                    let size = |one: &Transaction| one.size() + overhead * one.writes.len();
                    let mut bytes = size(&transaction);
                    let mut group = vec![(transaction, answer)];
                    while group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                        match queue.try_recv() {
                            Ok(Command::Commit { transaction, answer }) => {
                                bytes += size(&transaction);
                                group.push((transaction, answer));
                            }
                            Ok(other) => {
                                next = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.commit(group)?;
                }
                Command::Compact { to, answer } => {
                    let compacted = self.compact(to);
                    let stopped = match &compacted {
                        Err(ReadError::Stopped(stopped)) => Some(stopped.clone()),
                        _ => None,
                    };
                    let _ = answer.send(compacted);
                    if let Some(stopped) = stopped {
                        return Err(stopped);
                    }
                }
                Command::Close { answer } => return Ok(Some(answer)),
                Command::SnapshotEnded => self.see_to_snapshots()?,
                Command::Tick => self.tick(queue)?,
            }
            if next.is_none() {
                next = queue.blocking_recv();
            }
        }
        Ok(None)
    }

    /// The way of a write: decide, make durable, publish, answer.
    fn commit(&mut self, group: Vec<(Transaction, Answer)>) -> Result<(), Stopped> {
        let now = self.clock.unix_millis();

        // What cannot be sealed now is refused before it is decided on, and nothing rests on it.
        let group = self.without_unsealed(group);

        // Decide all in order, each on top of those before it.
        let mut pending = Pending::default();
        let mut answers = Vec::with_capacity(group.len());
        let mut expired = None;
        let planned = self.hub.read(|mvcc| {
            for (transaction, answer) in group {
                answers.push((mvcc.plan(&mut pending, transaction, now), answer));
            }
            // Forget as much as comes in and a little more.
            if !pending.batches().is_empty() {
                expired = mvcc.expired(&self.retention, pending.batches().len(), now);
            }
            Ok(())
        });

        // Make it durable. What changes nothing needs no commit, but its answer may
        // rest on what does, so all answers wait.
        let written = match (planned, pending.batches()) {
            (Err(error), _) => Err(WriteError::Final { reason: error.to_string() }),
            (Ok(()), []) => Ok(()),
            (Ok(()), batches) => self.write(batches, expired),
        };
        let refused = match &written {
            Err(WriteError::NoSpace { reason }) => Some(reason.to_string()),
            Err(WriteError::Unsealed { reason }) => Some(reason.clone()),
            _ => None,
        };
        if let Some(reason) = refused {
            for (answer, sender) in answers {
                // Also what was not to change anything: it may rest on what was.
                let _ = sender.send(Err(match answer {
                    Err(error @ CommitError::Invalid(_)) => error,
                    _ => CommitError::Unavailable { reason: reason.clone() },
                }));
            }
            return Ok(());
        }
        if let Err(WriteError::Final { reason }) = written {
            let stopped = self.fail(&reason);
            for (answer, sender) in answers {
                let _ = sender.send(Err(match answer {
                    Ok(committed) if committed.changed => CommitError::Uncertain { reason: reason.clone() },
                    Err(error @ CommitError::Invalid(_)) => error,
                    _ => stopped.clone().into(),
                }));
            }
            return Err(stopped);
        }

        // Publish, then answer: whoever has an answer can read what it says.
        self.hub.publish(pending.into_batches());
        if let Some(to) = expired {
            // Cannot be in the future: it came from the log.
            let _ = self.hub.compact(to);
        }
        for (answer, sender) in answers {
            // The caller may have gone; the change stays.
            let _ = sender.send(answer);
        }
        self.see_to_snapshots()
    }

    fn without_unsealed(&self, group: Vec<(Transaction, Answer)>) -> Vec<(Transaction, Answer)> {
        let sealing = &self.engine.cover().sealing;
        if sealing.overhead() == 0 {
            return group;
        }
        let can_seal = |transaction: &Transaction| {
            let mut puts = transaction.writes.iter().filter(|write| matches!(write, Write::Put { .. }));
            puts.try_for_each(|put| sealing.can_seal(put.key()))
        };
        let sorted = group.into_iter().filter_map(|(transaction, answer)| match can_seal(&transaction) {
            Ok(()) => Some((transaction, answer)),
            Err(reason) => {
                // The caller may have gone.
                let _ = answer.send(Err(CommitError::Unavailable { reason }));
                None
            }
        });
        sorted.collect()
    }

    fn see_to_snapshots(&mut self) -> Result<(), Stopped> {
        let queue = self.queue.clone();
        let wake = move || {
            // If there is no room, the writer is awake.
            queue.upgrade().map(|queue| queue.try_send(Command::SnapshotEnded));
        };
        let maintained = self.snapshots.maintain(&mut self.engine, &self.hub, wake);
        maintained.map_err(|reason| self.fail(&failure(&reason)))
    }

    fn compact(&mut self, to: Revision) -> Result<(), ReadError> {
        let needed = self.hub.read(|mvcc| match to > mvcc.current() {
            true => Err(ReadError::Future { current: mvcc.current() }),
            false => Ok(to > mvcc.compacted()),
        })?;
        if !needed {
            return Ok(());
        }
        match self.write(&[], Some(to)) {
            Ok(()) => self.hub.compact(to),
            Err(WriteError::NoSpace { reason }) => Err(ReadError::Unavailable { reason: reason.to_string() }),
            Err(WriteError::Unsealed { reason }) => Err(ReadError::Unavailable { reason }),
            Err(WriteError::Final { reason }) => Err(self.fail(&reason).into()),
        }
    }

    /// What is due without anybody asking: history that has expired is forgotten,
    /// and a disk that was full is looked at again.
    fn tick(&mut self, queue: &mpsc::Receiver<Command>) -> Result<(), Stopped> {
        if self.refusing.reason().is_some() {
            let opened = self.attempt(Engine::retry);
            if let Err(WriteError::Final { reason }) = opened {
                return Err(self.fail(&reason));
            }
        }
        self.see_to_snapshots()?;
        loop {
            let now = self.clock.unix_millis();
            let expired = self.hub.read(|mvcc| Ok(mvcc.expired(&self.retention, FORGET_PER_TICK, now)));
            let Ok(Some(to)) = expired else { return Ok(()) };
            match self.compact(to) {
                Ok(()) if queue.is_empty() => {}
                Err(ReadError::Stopped(stopped)) => return Err(stopped),
                // There is no hurry: the next tick, or the next commit, goes on.
                _ => return Ok(()),
            }
        }
    }

    fn write(&mut self, batches: &[Arc<Batch>], compacted: Option<Revision>) -> Result<(), WriteError> {
        self.attempt(|engine| engine.write(batches, compacted))
    }

    /// Writes, unless the disk was full a moment ago, and notes whether it is now.
    fn attempt(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let refused = self.refusing.reason();
        if let Some(reason) = &refused
            && self.clock.unix_millis() < self.retry_at
        {
            return Err(WriteError::NoSpace { reason: Arc::clone(reason) });
        }
        match work(&mut self.engine) {
            Ok(()) => {
                if refused.is_some() {
                    self.refusing.set(None);
                }
                Ok(())
            }
            Err(WriteError::NoSpace { reason }) => {
                self.retry_at = self.clock.unix_millis().saturating_add(RETRY_MILLIS);
                self.refusing.set(Some(Arc::clone(&reason)));
                Err(WriteError::NoSpace { reason })
            }
            Err(WriteError::Unsealed { reason }) => Err(WriteError::Unsealed { reason }),
            Err(WriteError::Final { reason }) => Err(WriteError::Final { reason: failure(&reason) }),
        }
    }

    fn fail(&self, reason: &str) -> Stopped {
        let stopped = Stopped::Failed { reason: reason.into() };
        self.hub.stop(stopped.clone());
        stopped
    }

    fn close(mut self) -> Stopped {
        self.snapshots.end();
        let stopped = match self.engine.close() {
            // Without space the reservation stays, and nothing else is lost.
            Ok(()) | Err(WriteError::NoSpace { .. } | WriteError::Unsealed { .. }) => Stopped::Closed,
            Err(WriteError::Final { reason }) => Stopped::Failed { reason: failure(&reason).into() },
        };
        self.hub.stop(stopped.clone());
        // Gives the directory free.
        drop(self.engine);
        stopped
    }
}

fn failure(reason: &str) -> String {
    format!("writing the database failed: {reason}")
}

struct PanicGuard(Arc<Hub>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Stopped::Failed { reason: "the writer panicked".into() });
        }
    }
}

fn refuse(command: Command, stopped: &Stopped) {
    match command {
        Command::Commit { answer, .. } => drop(answer.send(Err(stopped.clone().into()))),
        Command::Compact { answer, .. } => drop(answer.send(Err(stopped.clone().into()))),
        Command::Close { answer } => drop(answer.send(())),
        Command::SnapshotEnded | Command::Tick => {}
    }
}
