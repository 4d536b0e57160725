//! The store as callers see it.

use std::{
    borrow::Cow,
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc as timer,
    },
    time::Duration,
};

use bytes::Bytes;
use sternpost_clock::Clock;
use sternpost_store::{
    BoxFuture, CommitError, Committed, Follower, GetAnswer, KeyRange, Page, ReadError, Revision, Stopped,
    Store, Transaction, Watch,
    hub::{DEFAULT_WATCH_QUEUE, Hub},
    retention::Retention,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    codec::Mask,
    directory::Directory,
    disk::{Disk, WriteError},
    engine::Engine,
    load::Loaded,
    open,
    sealing::{Cover, Plain, Sealing},
    snapshot::Snapshots,
    writer::{self, Command, QUEUE, Refusing, TICK, Writer},
};

/// By how much a log grows.
pub const DEFAULT_ALLOCATION: u64 = 1 << 20;

/// Bytes of log after which a snapshot is written at the earliest.
pub const DEFAULT_SNAPSHOT_AFTER: u64 = 16 << 20;

/// A store in a directory. Dropping it closes it in the background;
/// [`Store::close`] waits until the directory is free.
#[derive(Debug)]
pub struct LogStore {
    hub: Arc<Hub>,
    queue: mpsc::Sender<Command>,
    refusing: Refusing,
    /// Asks for a snapshot.
    asked: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// How much history is kept, in memory and on disk.
    pub retention: Retention,
    /// Deliveries that may wait for one watcher before it is cut off.
    pub watch_queue: NonZeroUsize,
    /// By which history is kept: wall time, because ages must survive a restart. It decides no order: a
    /// leap can do no more than drop history early, or keep it until its other bounds are reached.
    pub clock: Clock,
    /// How often the store looks for expired history, and for space on a disk
    /// that was full, when nobody writes.
    pub tick: Duration,
    /// By how many bytes a log grows.
    pub allocation: u64,
    /// Bytes of log after which a snapshot is written at the earliest. Later if the last snapshot is
    /// larger than this: then when the log is as large.
    pub snapshot_after: u64,
    /// What stands on the disk of values.
    pub sealing: Arc<dyn Sealing>,
}

/// Why a store could not be opened. What is not understood was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is in use by another process", path.display())]
    InUse { path: PathBuf },
    #[error("`{}` is not a sternpost store: {reason}", path.display())]
    Foreign { path: PathBuf, reason: &'static str },
    #[error(
        "`{}` has format version {found}, this program knows version {}",
        path.display(),
        crate::codec::FORMAT_VERSION
    )]
    UnknownVersion { path: PathBuf, found: u32 },
    #[error("`{}` is corrupt: {reason}", path.display())]
    Corrupt { path: PathBuf, reason: Cow<'static, str> },
    #[error("cannot read the value of `{key}` in `{}`: {reason}", path.display())]
    Sealed { path: PathBuf, key: String, reason: String },
    #[error("cannot use `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot open `{}`", path.display())]
    Database { path: PathBuf, source: sternpost_store_redb::Error },
    #[error("cannot start the writer: {0}")]
    Thread(io::Error),
}

impl OpenError {
    pub(crate) fn write(path: &Path, error: WriteError) -> Self {
        let reason = match error {
            WriteError::NoSpace { reason } => reason.to_string(),
            WriteError::Unsealed { reason } | WriteError::Final { reason } => reason,
        };
        Self::Io { path: path.to_owned(), source: io::Error::other(reason) }
    }

    /// Of a store of format version 1.
    pub(crate) fn old(path: &Path, error: sternpost_store_redb::Error) -> Self {
        use sternpost_store_redb::Error;
        let path = path.to_owned();
        match error {
            Error::Foreign(reason) => Self::Foreign { path, reason },
            Error::UnknownVersion(found) => Self::UnknownVersion { path, found },
            Error::Corrupt(reason) => Self::Corrupt { path, reason },
            Error::Io(source) => Self::Io { path, source },
            source @ Error::Database(_) => Self::Database { path, source },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            watch_queue: DEFAULT_WATCH_QUEUE,
            clock: Clock::system(),
            tick: TICK,
            allocation: DEFAULT_ALLOCATION,
            snapshot_after: DEFAULT_SNAPSHOT_AFTER,
            sealing: Arc::new(Plain),
        }
    }
}

impl LogStore {
    /// Opens the store in a directory, which is made if it does not exist.
    /// Blocks while everything is read into memory.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_in(Arc::new(Directory::lock(directory)?), directory, options)
    }

    /// Opens the store on something else than a directory: the place for faults in tests.
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Self, OpenError> {
        Self::open_in(disk, Path::new("disk"), options)
    }

    fn open_in(disk: Arc<dyn Disk>, path: &Path, options: Options) -> Result<Self, OpenError> {
        let cover = Cover { mask: mask(&options.clock), sealing: Arc::clone(&options.sealing) };
        let loaded = open::open(&*disk, path, &cover, options.allocation)?;
        let engine = Engine::open(Arc::clone(&disk), path, &loaded, cover, options.allocation)?;
        open::tidy(&*disk, &loaded);
        // The writer has it alone, and gives it back when it ends.
        drop(disk);
        Self::start(engine, loaded, options)
    }

    fn start(engine: Engine, loaded: Loaded, options: Options) -> Result<Self, OpenError> {
        let hub = Hub::new(loaded.mvcc, options.watch_queue);
        let (queue, commands) = mpsc::channel(QUEUE);
        let Options { retention, clock, tick, snapshot_after, .. } = options;
        let refusing = Refusing::default();
        let (ticks, ended) = timer::channel();
        // Weak, because the writer ends with the last sender.
        let ticker = queue.downgrade();
        let snapshots = match loaded.stale {
            // With that everything is sealed as it should be.
            true => Snapshots::at_once(snapshot_after),
            false => Snapshots::new(snapshot_after, loaded.snapshot_bytes),
        };
        let asked = snapshots.asked();
        let writer = Writer {
            engine,
            snapshots,
            hub: Arc::clone(&hub),
            retention,
            clock,
            refusing: refusing.clone(),
            retry_at: 0,
            queue: ticker.clone(),
            _ticks: ticks,
        };
        // Ends with the writer.
        std::thread::Builder::new()
            .name("store-timer".to_owned())
            .spawn(move || {
                while ended.recv_timeout(tick) == Err(timer::RecvTimeoutError::Timeout) {
                    // A full queue is no idle store: the tick may be left out.
                    let Some(queue) = ticker.upgrade() else { return };
                    let _ = queue.try_send(Command::Tick);
                }
            })
            .map_err(OpenError::Thread)?;
        // The thread ends when the store is closed or dropped, or fails.
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(writer, commands))
            .map_err(OpenError::Thread)?;
        Ok(Self { hub, queue, refusing, asked })
    }

    /// Says, whenever it is asked, why writes are refused for now.
    pub fn refusing(&self) -> impl Fn() -> Option<Arc<str>> + Send + Sync + 'static {
        let refusing = self.refusing.clone();
        move || refusing.reason()
    }

    /// Lets everything be sealed anew, whenever it is called: a snapshot is written, and then the files before it
    /// are removed. For a [`Sealing`] that has changed.
    pub fn resealing(&self) -> impl Fn() + Send + Sync + 'static {
        // Weak, because the writer ends with the last sender.
        let (asked, queue) = (Arc::clone(&self.asked), self.queue.downgrade());
        move || {
            asked.store(true, Ordering::Release);
            // If there is no room, the writer is awake and sees that it is asked.
            queue.upgrade().map(|queue| queue.try_send(Command::Tick));
        }
    }

    /// Why nothing can be handed to the writer any more.
    fn gone(&self) -> Stopped {
        match self.hub.read(|_| Ok(())) {
            Err(ReadError::Stopped(stopped)) => stopped,
            _ => Stopped::Failed { reason: "the writer is gone".into() },
        }
    }
}

/// Fresh for every use of a store: nobody outside knows it before it is on the disk.
pub(crate) fn mask(clock: &Clock) -> Mask {
    let mut random = [0; 8];
    clock.random(&mut random);
    Mask::new(random)
}

impl Store for LogStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(async { self.hub.read(|mvcc| Ok(mvcc.current())) })
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        Box::pin(async move { self.hub.read(|mvcc| mvcc.get(&key, at)) })
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.hub.read(|mvcc| mvcc.range(&range, at, limit)) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            let (answer, receiver) = oneshot::channel();
            if self.queue.send(Command::Commit { transaction, answer }).await.is_err() {
                return Err(self.gone().into());
            }
            match receiver.await {
                Ok(answer) => answer,
                // The writer ended without an answer. If it was closed, this was
                // behind the closing; otherwise it may have got as far as the disk.
                Err(_) => Err(match self.gone() {
                    Stopped::Closed => Stopped::Closed.into(),
                    failed @ Stopped::Failed { .. } => CommitError::Uncertain { reason: failed.to_string() },
                }),
            }
        })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        Box::pin(async move { self.hub.watch(range, after) })
    }

    fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Option<Result<(), ReadError>> {
        Some(self.hub.follow(after, follower))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let (answer, receiver) = oneshot::channel();
            if self.queue.send(Command::Compact { to, answer }).await.is_err() {
                return Err(self.gone().into());
            }
            receiver.await.unwrap_or_else(|_| Err(self.gone().into()))
        })
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        self.hub.failed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let (answer, receiver) = oneshot::channel();
            if self.queue.send(Command::Close { answer }).await.is_ok() {
                // Without an answer the writer has already ended.
                let _ = receiver.await;
            }
        })
    }
}
