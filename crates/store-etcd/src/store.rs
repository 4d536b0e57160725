//! The store's calls, and reads.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sternpost_clock::machine;
use sternpost_store::{
    BoxFuture, CommitError, Committed, GetAnswer, KeyRange, Page, ReadError, Revision, Stopped, Store,
    Transaction, Watch, read::MAX_PAGE,
};
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    task::{AbortHandle, JoinSet},
};

use crate::{
    Access, Bytes, Observe,
    convert::{Malformed, Prefix, number, of_header, revision},
    grpc::{CallError, End, code},
    leases::{Leases, Sharing},
    members::Members,
    messages::{
        COMPACT, CompactionRequest, CompactionResponse, RANGE, RangeRequest, RangeResponse, ResponseHeader,
        STATUS, StatusRequest, StatusResponse, WATCH, WatchAsk, WatchCreateRequest, WatchRequest,
        WatchResponse,
    },
    watch::EtcdWatch,
};

/// How long a read is tried, at whichever member, and how long a transaction may take. etcd itself gives up after
/// seven seconds by default, and then says so.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// Before something is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What may be asked for at once on any connection.
const FEWEST: usize = 500;

/// etcd hands out what happened before a watch began by 1,000 revisions each tenth of a second.
const REPLAYED: u64 = 5_000;

/// A key that is looked at and never written, as kube-apiserver does to learn whether etcd answers.
const PROBED: &[u8] = b"health";

#[derive(Clone, Debug)]
pub struct Options {
    pub access: Access,
    /// What stands before all keys. Should end in a separator.
    pub prefix: Bytes,
    /// How long whoever asks for something waits for it; [`DEFAULT_PATIENCE`] unless there is a reason.
    pub patience: Duration,
}

/// A store in etcd.
pub struct EtcdStore {
    shared: Arc<Shared>,
    runtime: Handle,
    running: Mutex<Running>,
}

/// The tasks of a store. All end with it.
#[derive(Default)]
struct Running {
    /// What somebody waits for, each bounded in time.
    calls: JoinSet<()>,
    /// Watches and whatever else goes on until it is aborted, and what keeps the store connected.
    others: JoinSet<()>,
}

/// What the tasks share.
pub(crate) struct Shared {
    pub members: Members,
    pub prefix: Prefix,
    pub leases: Leases,
    pub observer: Option<Arc<dyn Observe>>,
    pub patience: Duration,
    /// The newest revision that any answer was made at.
    pub newest: AtomicU64,
    /// The most entries that are asked for at once: as many as a page may have, for etcd walks through all that follow
    /// to answer one, and fewer while that many are too large for an answer or take too long.
    page: AtomicUsize,
    stopped: watch::Sender<Option<Stopped>>,
}

impl EtcdStore {
    /// Begins to connect; what is asked meanwhile waits.
    pub fn new(options: Options, runtime: Handle) -> Self {
        Self::begin(options, None, runtime)
    }

    /// The same, and the observer is told how long etcd takes.
    pub fn observed(options: Options, observer: Arc<dyn Observe>, runtime: Handle) -> Self {
        Self::begin(options, Some(observer), runtime)
    }

    /// Whether etcd answers: a read of one key, which need not be there, through the leader. Not told to the
    /// observer.
    pub async fn health(&self, key: impl Into<Bytes>, patience: Duration) -> Result<(), ReadError> {
        let (shared, key) = (self.shared.clone(), key.into());
        self.read(async move {
            let due = machine::within(patience);
            let request = RangeRequest { key: shared.prefix.key(&key), ..RangeRequest::default() };
            let header = |answer: &RangeResponse| answer.header;
            let answer = shared.read_until(due, RANGE, &request, header).await;
            shared.understood(None, answer).await.map(|_| ())
        })
        .await
    }

    /// How many bytes the file has in which the member in use keeps everything.
    pub async fn size(&self) -> Result<u64, ReadError> {
        let shared = self.shared.clone();
        self.read(async move {
            let due = machine::within(shared.patience);
            // A member's own word: it is no newer than that member is.
            let no_header = |_: &StatusResponse| None;
            let answer = shared.read_until(due, STATUS, &StatusRequest {}, no_header).await;
            let unavailable = |error: CallError| ReadError::Unavailable { reason: error.to_string() };
            answer.map(|status| u64::try_from(status.db_size).unwrap_or_default()).map_err(unavailable)
        })
        .await
    }

    fn begin(options: Options, observer: Option<Arc<dyn Observe>>, runtime: Handle) -> Self {
        let Options { access, prefix, patience } = options;
        let shared = Arc::new(Shared {
            members: Members::default(),
            prefix: Prefix::new(prefix),
            leases: Leases::default(),
            observer,
            patience,
            newest: AtomicU64::new(0),
            page: AtomicUsize::new(MAX_PAGE),
            stopped: watch::Sender::new(None),
        });
        let mut running = Running::default();
        let keeping = shared.clone();
        running.others.spawn_on(
            async move { keeping.members.keep(access, keeping.prefix.key(PROBED)).await },
            &runtime,
        );
        Self { shared, runtime, running: Mutex::new(running) }
    }

    /// What `work` comes to, on the store's own runtime.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        {
            // Under the lock, so that whoever closes the store waits for all that were let in.
            let mut running = self.running();
            self.shared.check()?;
            while running.calls.try_join_next().is_some() {}
            let work = async move {
                // Whoever asked may have gone.
                let _ = answer.send(work.await);
            };
            running.calls.spawn_on(work, &self.runtime);
        }
        answered.await.map_err(|_| self.shared.reason())
    }

    /// The same for what need not be finished when the store is closed.
    async fn read<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ReadError>> + Send + 'static,
    ) -> Result<T, ReadError> {
        let mut stopped = self.shared.stopped.subscribe();
        let work = async move {
            tokio::select! {
                answer = work => answer,
                stopped = async { stopped.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()) } => {
                    Err(stopped.unwrap_or(Stopped::Closed).into())
                }
            }
        };
        self.run(work).await?
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Runs something that nobody waits for, until it is aborted or the store ends.
    pub(crate) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<AbortHandle, Stopped> {
        let mut running = self.running();
        self.shared.check()?;
        while running.others.try_join_next().is_some() {}
        Ok(running.others.spawn_on(work, &self.runtime))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for EtcdStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(self.read(async move { shared.current_revision().await }))
    }

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<GetAnswer, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(
            self.read(
                async move { shared.observed(("get", &key), Result::is_ok, shared.get(&key, at)).await },
            ),
        )
    }

    fn range(
        &self,
        range: KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(self.read(async move {
            let page = shared.page(&range, at, limit);
            shared.observed(("list", range.start()), Result::is_ok, page).await
        }))
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, CommitError>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            self.run(async move { shared.commit(&transaction, Sharing::WithOthers).await }).await?
        })
    }

    fn replayed(&self) -> u64 {
        REPLAYED
    }

    fn expires(&self) -> bool {
        true
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<Watch, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let checking = shared.clone();
            self.read(async move { checking.check_retained(after).await }).await?;
            let (watch, work) = EtcdWatch::new(shared, range, after);
            let task = self.spawn(work)?;
            Ok(Box::new(watch.owning(task)) as Watch)
        })
    }

    fn compact(&self, to: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        let shared = self.shared.clone();
        Box::pin(self.read(async move { shared.compact(to).await }))
    }

    fn stopped(&self) -> BoxFuture<'static, Stopped> {
        let mut stopped = self.shared.stopped.subscribe();
        Box::pin(async move {
            let failed = |stopped: &Option<Stopped>| matches!(stopped, Some(Stopped::Failed { .. }));
            if let Ok(stopped) = stopped.wait_for(failed).await
                && let Some(stopped) = stopped.clone()
            {
                return stopped;
            }
            std::future::pending().await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut running = {
                let mut running = self.running();
                self.shared.stop(Stopped::Closed);
                std::mem::take(&mut *running)
            };
            while running.calls.join_next().await.is_some() {}
            // The others are aborted: nobody waits for them.
        })
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("prefix", &self.shared.prefix).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn reason(&self) -> Stopped {
        self.stopped.borrow().clone().unwrap_or(Stopped::Closed)
    }

    fn check(&self) -> Result<(), Stopped> {
        match &*self.stopped.borrow() {
            Some(stopped) => Err(stopped.clone()),
            None => Ok(()),
        }
    }

    /// The first reason stays.
    fn stop(&self, stopped: Stopped) {
        self.stopped.send_if_modified(|reason| {
            let is_first = reason.is_none();
            reason.get_or_insert(stopped);
            is_first
        });
    }

    /// How long one member has for a read: another may do better.
    fn once(&self, due: machine::Instant) -> Duration {
        machine::left(due).min(self.patience / 2)
    }

    pub async fn current_revision(&self) -> Result<Revision, ReadError> {
        let answer = self.range(&self.probe(None)).await?;
        of_header(answer.header).map_err(unreadable)
    }

    /// What costs etcd least of all reads.
    fn probe(&self, at: Option<Revision>) -> RangeRequest {
        RangeRequest {
            key: self.prefix.key(PROBED),
            revision: at.map_or(0, number),
            count_only: true,
            ..RangeRequest::default()
        }
    }

    async fn get(&self, key: &[u8], at: Option<Revision>) -> Result<GetAnswer, ReadError> {
        let request = RangeRequest {
            key: self.prefix.key(key),
            revision: at.map_or(0, number),
            ..RangeRequest::default()
        };
        let answer = self.range(&request).await?;
        let entry = answer.kvs.first().map(|found| self.prefix.entry(found)).transpose();
        let revision = answered_at(at, &answer)?;
        Ok(GetAnswer { entry: entry.map_err(unreadable)?, revision, stale: false })
    }

    async fn page(&self, range: &KeyRange, at: Option<Revision>, limit: usize) -> Result<Page, ReadError> {
        if range.is_empty() {
            let answer = self.range(&self.probe(at)).await?;
            return Ok(Page { entries: Vec::new(), revision: answered_at(at, &answer)?, more: false });
        }
        let bounds = self.prefix.bounds(range);
        let mut limit = limit.min(self.page.load(Ordering::Relaxed));
        loop {
            let request = RangeRequest {
                key: bounds.key.clone(),
                range_end: bounds.range_end.clone(),
                limit: i64::try_from(limit.max(1)).unwrap_or(i64::MAX),
                revision: at.map_or(0, number),
                count_only: limit == 0,
            };
            let answer = match self.read(RANGE, &request, |answer: &RangeResponse| answer.header).await {
                // What is there is larger than most: fewer at once.
                Err(CallError::TooLarge(_)) if limit > 1 => {
                    limit /= 2;
                    self.page.fetch_min(limit, Ordering::Relaxed);
                    continue;
                }
                answer => {
                    if matches!(answer, Err(CallError::Broken(_))) {
                        // So many may take longer than a call may: whoever tries again asks for fewer.
                        self.page.fetch_min((limit / 4).max(FEWEST), Ordering::Relaxed);
                    }
                    self.understood(at, answer).await?
                }
            };
            if answer.kvs.len() == self.page.load(Ordering::Relaxed) {
                self.page.store((limit + limit / 4).min(MAX_PAGE), Ordering::Relaxed);
            }
            let entries = answer.kvs.iter().map(|found| self.prefix.entry(found)).collect::<Result<_, _>>();
            return Ok(Page {
                entries: entries.map_err(unreadable)?,
                revision: answered_at(at, &answer)?,
                more: if limit == 0 { answer.count > 0 } else { answer.more },
            });
        }
    }

    async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, ReadError> {
        let answer = self.read(RANGE, request, |answer: &RangeResponse| answer.header).await;
        self.understood(revision(request.revision).ok(), answer).await
    }

    pub async fn compact(&self, to: Revision) -> Result<(), ReadError> {
        let request = CompactionRequest { revision: number(to) };
        let answer = self.read(COMPACT, &request, |_: &CompactionResponse| None).await;
        match self.understood(Some(to), answer).await {
            // So it was compacted before.
            Ok(_) | Err(ReadError::Compacted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether a watch may begin behind this revision.
    async fn check_retained(&self, after: Revision) -> Result<(), ReadError> {
        self.range(&self.probe(Some(after))).await.map(|_| ())
    }

    /// A call that may be made again, at any member. Its answer shows the newest state.
    async fn read<Answer: prost::Message + Default>(
        &self,
        path: &'static str,
        request: &impl prost::Message,
        header: impl Fn(&Answer) -> Option<ResponseHeader>,
    ) -> Result<Answer, CallError> {
        self.read_until(machine::within(self.patience), path, request, header).await
    }

    /// The same, with less time.
    pub async fn read_until<Answer: prost::Message + Default>(
        &self,
        due: machine::Instant,
        path: &'static str,
        request: &impl prost::Message,
        header: impl Fn(&Answer) -> Option<ResponseHeader>,
    ) -> Result<Answer, CallError> {
        loop {
            let connection = self.members.connection(due).await.map_err(CallError::NotSent)?;
            let before = self.newest.load(Ordering::SeqCst);
            let error = match connection.client.call(path, request, self.once(due)).await {
                Ok(answer) => {
                    self.saw(before, header(&answer))?;
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let is_the_members = match &error {
                CallError::NotSent(_) | CallError::Broken(_) => true,
                CallError::TooLarge(_) => false,
                CallError::Status(status) => {
                    matches!(status.code, code::UNAVAILABLE | code::UNAUTHENTICATED)
                }
            };
            if !is_the_members {
                return Err(error);
            }
            self.members.retire(&connection);
            if machine::left(due) < PAUSE {
                return Err(error);
            }
            machine::sleep(PAUSE).await;
        }
    }

    /// Takes note of the state that an answer shows, which cannot be older than what was seen when it was asked for.
    pub fn saw(&self, before: u64, header: Option<ResponseHeader>) -> Result<(), CallError> {
        let Some(header) = header else { return Ok(()) };
        let revision = u64::try_from(header.revision).unwrap_or_default();
        if revision < before {
            let reason = format!(
                "etcd is at revision {revision} and was at {before}: an older state was put back. Start again to go on from it"
            );
            self.stop(Stopped::Failed { reason: reason.clone().into() });
            return Err(CallError::Broken(reason));
        }
        self.newest.fetch_max(revision, Ordering::SeqCst);
        Ok(())
    }

    /// An answer, or what its refusal means.
    async fn understood<Answer>(
        &self,
        at: Option<Revision>,
        answer: Result<Answer, CallError>,
    ) -> Result<Answer, ReadError> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        self.check()?;
        if let CallError::Status(status) = &error
            && status.code == code::OUT_OF_RANGE
            && at.is_some()
        {
            if status.message.contains("has been compacted") {
                return Err(ReadError::Compacted { oldest: self.oldest().await? });
            }
            if status.message.contains("is a future revision") {
                let current = Box::pin(self.current_revision()).await?;
                return Err(ReadError::Future { current });
            }
        }
        Err(ReadError::Unavailable { reason: error.to_string() })
    }

    /// The oldest revision that is left. Reads are refused without it; a watch that begins too early is told.
    pub async fn oldest(&self) -> Result<Revision, ReadError> {
        let due = machine::within(self.patience);
        loop {
            let connection = self.members.connection(due).await;
            let connection = connection.map_err(|reason| ReadError::Unavailable { reason })?;
            let ask = async {
                let mut stream = connection.client.begin(WATCH).await?;
                let create = WatchCreateRequest {
                    key: self.prefix.key(PROBED),
                    start_revision: 1,
                    ..WatchCreateRequest::default()
                };
                let create = WatchRequest { request: Some(WatchAsk::Create(create)) };
                stream.send(&create, End::Open)?;
                while let Some(answer) = stream.next::<WatchResponse>().await? {
                    if answer.compact_revision > 0 {
                        return Ok(answer.compact_revision);
                    }
                }
                Err(CallError::Broken("the watch has ended".to_owned()))
            };
            let error = match machine::timeout(self.once(due), ask).await {
                Ok(Ok(oldest)) => return revision(oldest).map_err(unreadable),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "etcd does not say what is compacted".to_owned(),
            };
            self.members.retire(&connection);
            if machine::left(due) < PAUSE {
                return Err(ReadError::Unavailable { reason: error });
            }
            machine::sleep(PAUSE).await;
        }
    }
}

fn unreadable(error: Malformed) -> ReadError {
    ReadError::Unavailable { reason: error.to_string() }
}

/// The revision that an answer is true at.
fn answered_at(at: Option<Revision>, answer: &RangeResponse) -> Result<Revision, ReadError> {
    match at {
        Some(at) => Ok(at),
        None => of_header(answer.header).map_err(unreadable),
    }
}
