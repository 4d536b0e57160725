//! A store that several servers write to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use sternpost_store::{
    BoxFuture, CommitError, Committed, Delivery, Follower, GetAnswer, KeyRange, Page, ReadError, Revision,
    Stopped, Store, Transaction, Watch, WatchError, Watcher, memory::MemoryStore,
};
use tokio::sync::watch;

/// What one server has of a store in memory: it hears of changes, and gets its answers, when the test lets it.
#[derive(Debug)]
pub struct SharedStore {
    store: Arc<MemoryStore>,
    writers: Writers,
    /// Whether nothing is delivered to watches.
    holds_deliveries: watch::Sender<bool>,
    /// Whether nobody is told how new the store is. What is told is what was true when it was asked.
    holds_answers: watch::Sender<bool>,
    /// Whether nothing is committed.
    holds_commits: watch::Sender<bool>,
    is_down: AtomicBool,
    /// Whether a transaction is done and its answer lost.
    loses_answers: AtomicBool,
    /// How often it was asked how new it is.
    questions: watch::Sender<usize>,
    /// Watches of what was before end.
    forgotten: watch::Sender<Revision>,
}

/// Who writes to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// The server that has it, which follows it.
    One,
    /// Others too, so that it has to be watched.
    Several,
}

impl SharedStore {
    pub fn of(store: Arc<MemoryStore>, writers: Writers) -> Arc<Self> {
        Arc::new(Self {
            store,
            writers,
            holds_deliveries: watch::Sender::new(false),
            holds_answers: watch::Sender::new(false),
            holds_commits: watch::Sender::new(false),
            is_down: AtomicBool::new(false),
            loses_answers: AtomicBool::new(false),
            questions: watch::Sender::new(0),
            forgotten: watch::Sender::new(Revision::FIRST),
        })
    }

    pub fn hold_deliveries(&self) {
        self.holds_deliveries.send_replace(true);
    }

    pub fn deliver(&self) {
        self.holds_deliveries.send_replace(false);
    }

    pub fn hold_answers(&self) {
        self.holds_answers.send_replace(true);
    }

    pub fn answer(&self) {
        self.holds_answers.send_replace(false);
    }

    /// Compacts to what there is now, and whatever was not delivered never is.
    pub async fn forget(&self) {
        let now = self.store.current_revision().await.unwrap();
        self.store.compact(now).await.unwrap();
        self.forgotten.send_replace(now);
    }

    /// From now on what is to be written waits.
    pub fn hold_commits(&self) {
        self.holds_commits.send_replace(true);
    }

    pub fn let_commit(&self) {
        self.holds_commits.send_replace(false);
    }

    /// From now on nothing is read any more.
    pub fn go_down(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    /// From now on transactions are done, and nobody is told.
    pub fn lose_answers(&self) {
        self.loses_answers.store(true, Ordering::SeqCst);
    }

    /// How often it was asked how new it is.
    pub fn questions(&self) -> usize {
        *self.questions.borrow()
    }

    fn check_up(&self) -> Result<(), ReadError> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(ReadError::Unavailable { reason: "it is down".into() }),
            false => Ok(()),
        }
    }
}

impl Store for SharedStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        Box::pin(async {
            self.questions.send_modify(|questions| *questions += 1);
            let revision = self.store.current_revision().await;
            // The sender is here: this does not end.
            let _ = self.holds_answers.subscribe().wait_for(|holds| !holds).await;
            self.check_up()?;
            revision
        })
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        Box::pin(async move {
            self.check_up()?;
            self.store.get(key, at).await
        })
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        self.store.range(range, at, limit)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async {
            let _ = self.holds_commits.subscribe().wait_for(|holds| !holds).await;
            let committed = self.store.commit(transaction).await;
            match committed {
                Ok(_) if self.loses_answers.load(Ordering::SeqCst) => {
                    Err(CommitError::Uncertain { reason: "the answer is lost".to_owned() })
                }
                committed => committed,
            }
        })
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        Box::pin(async move {
            let watch = self.store.watch(range, after).await?;
            let holds = self.holds_deliveries.subscribe();
            let forgotten = self.forgotten.subscribe();
            Ok(Box::new(HeldWatch { watch, after, forgotten, holds, held: None }) as Watch)
        })
    }

    fn follow(&self, after: Revision, follower: Arc<dyn Follower>) -> Option<Result<(), ReadError>> {
        match self.writers {
            Writers::One => self.store.follow(after, follower),
            Writers::Several => None,
        }
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.compact(to)
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        self.store.stopped()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}

/// A watch whose deliveries the test holds back.
#[derive(Debug)]
struct HeldWatch {
    watch: Watch,
    after: Revision,
    forgotten: watch::Receiver<Revision>,
    holds: watch::Receiver<bool>,
    /// What came while deliveries were held back.
    held: Option<Delivery>,
}

impl Watcher for HeldWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, WatchError>> {
        Box::pin(async {
            let delivery = async {
                if self.held.is_none() {
                    self.held = Some(self.watch.next().await?);
                }
                // Without a store there is nobody left to hold anything.
                let _ = self.holds.wait_for(|holds| !holds).await;
                match self.held.take() {
                    Some(delivery) => Ok(delivery),
                    None => self.watch.next().await,
                }
            };
            tokio::select! {
                biased;
                Ok(oldest) = self.forgotten.wait_for(|oldest| *oldest > self.after) => {
                    Err(WatchError::Compacted { oldest: *oldest })
                }
                delivery = delivery => delivery,
            }
        })
    }

    fn request_progress(&mut self) {
        self.watch.request_progress();
    }
}
