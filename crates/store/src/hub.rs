//! One [`Mvcc`] shared by readers, one writer and many watchers.
//!
//! A single lock holds the state together with the list of watchers, so that a
//! watcher is added exactly between two changes. It is held for memory work
//! only. A watch first reads the log in steps, then joins the list and gets
//! what is published pushed into its own bounded queue.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use tokio::sync::{mpsc, watch};

use crate::{
    BoxFuture, Changes, CommitError, Committed, Delivery, Follower, KeyRange, ReadError, Revision, Stopped,
    Transaction, Watch, WatchError, Watcher,
    mvcc::{Mvcc, Pending},
    retention::Retention,
    watch::Batch,
};

/// Commits of the writer, each with all its deliveries, that may wait for one
/// watcher. When there are more, the watch ends as lagged. What waits is shared
/// with the history and other watchers.
pub const DEFAULT_WATCH_QUEUE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Batches a starting watch looks at while it holds the lock.
const CATCH_UP_STEP: usize = 1024;

#[derive(Debug)]
pub struct Hub {
    shared: RwLock<Shared>,
    stopped: watch::Sender<Option<Stopped>>,
    watch_queue: NonZeroUsize,
}

#[derive(Debug)]
struct Shared {
    mvcc: Mvcc,
    watchers: BTreeMap<u64, Listener>,
    next_watcher: u64,
    followers: Vec<Arc<dyn Follower>>,
    stopped: Option<Stopped>,
}

#[derive(Debug)]
struct Listener {
    range: KeyRange,
    /// What one commit has for this watch goes together: it is woken once.
    queue: mpsc::Sender<Vec<Delivery>>,
}

impl Hub {
    pub fn new(mvcc: Mvcc, watch_queue: NonZeroUsize) -> Arc<Self> {
        let shared =
            Shared { mvcc, watchers: BTreeMap::new(), next_watcher: 0, followers: Vec::new(), stopped: None };
        Arc::new(Self { shared: RwLock::new(shared), stopped: watch::Sender::new(None), watch_queue })
    }

    /// Reads from the newest published state.
    pub fn read<T>(&self, read: impl FnOnce(&Mvcc) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let shared = self.shared();
        match &shared.stopped {
            Some(stopped) => Err(stopped.clone().into()),
            None => read(&shared.mvcc),
        }
    }

    /// Decides, publishes and forgets in one step; for a store that has nothing to wait for.
    pub fn commit(
        &self,
        transaction: Transaction,
        retention: &Retention,
        now: u64,
    ) -> Result<Committed, CommitError> {
        let mut shared = self.exclusive();
        if let Some(stopped) = &shared.stopped {
            return Err(stopped.clone().into());
        }
        let mut pending = Pending::default();
        let committed = shared.mvcc.plan(&mut pending, transaction, now)?;
        let batches = pending.into_batches();
        let expired = shared.mvcc.expired(retention, batches.len(), now);
        shared.publish(batches);
        match expired {
            Some(to) => shared.mvcc.compact(to).map(|()| committed).map_err(CommitError::from),
            None => Ok(committed),
        }
    }

    /// Makes durable batches readable and tells the watchers.
    pub fn publish(&self, batches: Vec<Arc<Batch>>) {
        self.exclusive().publish(batches);
    }

    pub fn compact(&self, to: Revision) -> Result<(), ReadError> {
        let mut shared = self.exclusive();
        match &shared.stopped {
            Some(stopped) => Err(stopped.clone().into()),
            None => shared.mvcc.compact(to),
        }
    }

    pub fn watch(self: &Arc<Self>, range: KeyRange, after: Revision) -> Result<Watch, ReadError> {
        self.read(|mvcc| mvcc.watchable(after))?;
        Ok(Box::new(HubWatch {
            hub: Arc::clone(self),
            range,
            delivered: after,
            phase: Phase::CatchingUp { ready: VecDeque::new() },
            progress: false,
        }))
    }

    /// The lock is held meanwhile, so that nothing is missed or handed over twice.
    pub fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Result<(), ReadError> {
        let mut shared = self.exclusive();
        if let Some(stopped) = &shared.stopped {
            return Err(stopped.clone().into());
        }
        shared.mvcc.watchable(after)?;
        let history: Vec<Changes> = shared.mvcc.after(after).filter_map(everything).collect();
        history.chunks(CATCH_UP_STEP).for_each(|group| follower.changed(group));
        shared.followers.push(follower);
        Ok(())
    }

    /// Ends everything. The first reason stays.
    pub fn stop(&self, stopped: Stopped) {
        let mut shared = self.exclusive();
        let reason = shared.stopped.get_or_insert(stopped).clone();
        shared.watchers.clear();
        drop(shared);
        self.stopped.send_replace(Some(reason));
    }

    /// Resolves when the store fails; never if it is only closed.
    pub fn failed(&self) -> BoxFuture<'static, Stopped> {
        let mut receiver = self.stopped.subscribe();
        Box::pin(async move {
            let failed = |stopped: &Option<Stopped>| matches!(stopped, Some(Stopped::Failed { .. }));
            if let Ok(stopped) = receiver.wait_for(failed).await
                && let Some(stopped) = stopped.clone()
            {
                return stopped;
            }
            std::future::pending().await
        })
    }

    // A panic under the lock is a bug of ours and is reported where it happens;
    // the state itself is then still what was published before.
    fn shared(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Shared> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn publish(&mut self, batches: Vec<Arc<Batch>>) {
        self.watchers.retain(|_, listener| {
            let changes = batches.iter().filter_map(|batch| Changes::of(batch, &listener.range));
            let deliveries: Vec<Delivery> = changes.map(Delivery::Changes).collect();
            // A full queue ends the watch: it is dropped here, and the
            // watcher finds the end of its queue behind what it already has.
            deliveries.is_empty() || listener.queue.try_send(deliveries).is_ok()
        });
        if !self.followers.is_empty() {
            let group: Vec<Changes> = batches.iter().filter_map(everything).collect();
            self.followers.iter().for_each(|follower| follower.changed(&group));
        }
        for batch in batches {
            self.mvcc.apply(batch);
        }
    }
}

/// All changes of a batch.
fn everything(batch: &Arc<Batch>) -> Option<Changes> {
    Changes::of(batch, &KeyRange::all())
}

#[derive(Debug)]
struct HubWatch {
    hub: Arc<Hub>,
    range: KeyRange,
    /// Everything in the range up to here was handed to the caller.
    delivered: Revision,
    phase: Phase,
    /// Asked for while catching up.
    progress: bool,
}

#[derive(Debug)]
enum Phase {
    CatchingUp { ready: VecDeque<Changes> },
    Live { id: u64, queue: mpsc::Receiver<Vec<Delivery>>, ready: VecDeque<Delivery> },
    Ended(WatchError),
}

impl Watcher for HubWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, WatchError>> {
        Box::pin(async {
            loop {
                match &mut self.phase {
                    Phase::CatchingUp { ready } => match ready.pop_front() {
                        Some(changes) => {
                            self.delivered = changes.revision();
                            return Ok(Delivery::Changes(changes));
                        }
                        None => self.catch_up(),
                    },
                    Phase::Live { queue, ready, .. } => {
                        if let Some(delivery) = ready.pop_front() {
                            self.delivered = delivery.revision();
                            return Ok(delivery);
                        }
                        match queue.recv().await {
                            Some(deliveries) => ready.extend(deliveries),
                            None => self.phase = Phase::Ended(self.end()),
                        }
                    }
                    Phase::Ended(error) => return Err(error.clone()),
                }
            }
        })
    }

    fn ready(&mut self) -> Option<Delivery> {
        let Phase::Live { queue, ready, .. } = &mut self.phase else { return None };
        if ready.is_empty() {
            ready.extend(queue.try_recv().ok()?);
        }
        let delivery = ready.pop_front()?;
        self.delivered = delivery.revision();
        Some(delivery)
    }

    fn request_progress(&mut self) {
        match &self.phase {
            Phase::CatchingUp { .. } => self.progress = true,
            Phase::Live { id, .. } => {
                // Under the lock no change can come between the revision and its place in the queue.
                let mut shared = self.hub.exclusive();
                let current = shared.mvcc.current();
                if let Some(listener) = shared.watchers.get(id)
                    && listener.queue.try_send(vec![Delivery::Progress(current)]).is_err()
                {
                    shared.watchers.remove(id);
                }
            }
            Phase::Ended(_) => {}
        }
    }
}

impl HubWatch {
    /// Takes the next step through the log, or joins the listeners at its end.
    fn catch_up(&mut self) {
        self.phase = match self.look_back() {
            Ok(Some(ready)) => Phase::CatchingUp { ready },
            Ok(None) => self.join(),
            Err(error) => Phase::Ended(error),
        };
    }

    /// What the next batches have for this watch; `None` when few are left.
    fn look_back(&mut self) -> Result<Option<VecDeque<Changes>>, WatchError> {
        let shared = self.hub.shared();
        shared.check(self.delivered)?;
        let log = shared.mvcc.after(self.delivered);
        if log.len() <= CATCH_UP_STEP {
            return Ok(None);
        }
        let mut seen = self.delivered;
        let step = log.take(CATCH_UP_STEP).inspect(|batch| seen = batch.revision);
        let ready: VecDeque<Changes> = step.filter_map(|batch| Changes::of(batch, &self.range)).collect();
        if ready.is_empty() {
            self.delivered = seen;
        }
        Ok(Some(ready))
    }

    fn join(&self) -> Phase {
        let (sender, queue) = mpsc::channel(self.hub.watch_queue.get());
        let mut shared = self.hub.exclusive();
        if let Err(error) = shared.check(self.delivered) {
            return Phase::Ended(error);
        }
        let rest = shared.mvcc.after(self.delivered);
        let mut ready: VecDeque<Delivery> =
            rest.filter_map(|batch| Changes::of(batch, &self.range)).map(Delivery::Changes).collect();
        if self.progress {
            ready.push_back(Delivery::Progress(shared.mvcc.current()));
        }
        let id = shared.next_watcher;
        shared.next_watcher += 1;
        shared.watchers.insert(id, Listener { range: self.range.clone(), queue: sender });
        Phase::Live { id, queue, ready }
    }

    /// Why the queue has ended.
    fn end(&self) -> WatchError {
        match &self.hub.shared().stopped {
            Some(stopped) => stopped.clone().into(),
            None => WatchError::Lagged { delivered: self.delivered },
        }
    }
}

impl Shared {
    fn check(&self, delivered: Revision) -> Result<(), WatchError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone().into());
        }
        match self.mvcc.compacted() {
            oldest if delivered < oldest => Err(WatchError::Compacted { oldest }),
            _ => Ok(()),
        }
    }
}

impl Drop for HubWatch {
    fn drop(&mut self) {
        if let Phase::Live { id, .. } = &self.phase {
            self.hub.exclusive().watchers.remove(id);
        }
    }
}

impl Delivery {
    /// Everything in the watched range up to here has been delivered with this.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Changes(changes) => changes.revision(),
            Self::Progress(revision) => *revision,
        }
    }
}
