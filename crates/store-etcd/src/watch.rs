//! A watch that goes on across connections.

use std::{pin::Pin, sync::Arc, time::Duration};

use sternpost_clock::machine;
use sternpost_store::{BoxFuture, Changes, Delivery, KeyRange, ReadError, Revision, WatchError, Watcher};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use crate::{
    batches::{BatchError, Batches},
    convert::{Bounds, number, of_header},
    grpc::{CallError, End, Streaming},
    messages::{WATCH, WatchAsk, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse},
    store::{PAUSE, Shared},
};

/// Deliveries that wait for whoever watches. When there are as many, no more are read from etcd, which keeps them.
const QUEUE: usize = 1024;

/// How often etcd is asked for progress while somebody waits for it. It does not answer while it is behind.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How often it is asked while nobody does, so that a watch that nothing happens on can go on elsewhere after
/// etcd has forgotten the revision it began at.
const ASK_IDLE: Duration = Duration::from_secs(60);

/// How long a watch waits for a member before it says so in the log, and waits on.
const MEMBER: Duration = Duration::from_secs(60);

/// The receiving end. Dropping it ends the watch.
#[derive(Debug)]
pub struct EtcdWatch {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Result<Delivery, WatchError>>,
    /// How often progress was asked for.
    asked: watch::Sender<u64>,
    ended: Option<WatchError>,
    task: Option<AbortHandle>,
}

impl EtcdWatch {
    /// A watch, and what has to run for it.
    pub fn new(
        shared: Arc<Shared>,
        range: KeyRange,
        after: Revision,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let asked = watch::Sender::new(0);
        // etcd refuses ranges without keys; of one key, which is then not in the range, nothing is delivered.
        let watched = if range.is_empty() { KeyRange::single(range.start().clone()) } else { range.clone() };
        let source = Source {
            bounds: shared.prefix.bounds(&watched),
            batches: Batches::new(shared.prefix.clone(), range, after),
            shared: shared.clone(),
            queue: sender,
            asked: asked.subscribe(),
            progress: Progress::Idle,
        };
        (Self { shared, queue, asked, ended: None, task: None }, source.run())
    }

    pub fn owning(mut self, task: AbortHandle) -> Self {
        self.task = Some(task);
        self
    }

    fn end(&mut self, error: WatchError) -> WatchError {
        self.ended.get_or_insert(error).clone()
    }
}

impl Watcher for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Delivery, WatchError>> {
        Box::pin(async {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            match self.queue.recv().await {
                Some(Ok(delivery)) => Ok(delivery),
                Some(Err(error)) => Err(self.end(error)),
                None => {
                    let stopped = self.shared.reason();
                    Err(self.end(stopped.into()))
                }
            }
        })
    }

    fn ready(&mut self) -> Option<Delivery> {
        match self.queue.try_recv().ok()? {
            Ok(delivery) => Some(delivery),
            Err(error) => {
                self.end(error);
                None
            }
        }
    }

    fn request_progress(&mut self) {
        self.asked.send_modify(|asked| *asked = asked.wrapping_add(1));
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The sending end.
struct Source {
    shared: Arc<Shared>,
    bounds: Bounds,
    batches: Batches,
    queue: mpsc::Sender<Result<Delivery, WatchError>>,
    asked: watch::Receiver<u64>,
    progress: Progress,
}

/// How far the answer to a request for progress is.
enum Progress {
    /// Nobody waits for it.
    Idle,
    /// What has happened so far is asked of etcd's leader: the member that is watched may be behind.
    Reading(BoxFuture<'static, Result<Revision, ReadError>>),
    /// Everything up to here has to be delivered first.
    Wanted(Revision),
}

/// Why a stream ended.
enum StreamEnd {
    /// The watch goes on with another one.
    Again(String),
    Over(WatchError),
    /// Nobody watches any more.
    Dropped,
}

impl Source {
    async fn run(mut self) {
        loop {
            match self.stream().await {
                StreamEnd::Again(why) => {
                    tracing::debug!("a watch of etcd is taken up again: {why}");
                    machine::sleep(PAUSE).await;
                }
                StreamEnd::Over(error) => {
                    // If nobody watches any more there is nobody to tell.
                    let _ = self.queue.send(Err(error)).await;
                    return;
                }
                StreamEnd::Dropped => return,
            }
        }
    }

    /// One stream, from the last revision that was delivered to wherever it breaks.
    async fn stream(&mut self) -> StreamEnd {
        let connection = match self.shared.members.connection(machine::within(MEMBER)).await {
            Ok(connection) => connection,
            Err(why) => return StreamEnd::Again(why),
        };
        let create = self.create();
        let opened = async {
            let mut stream = connection.client.begin(WATCH).await?;
            stream.send(&create, End::Open)?;
            Ok::<_, CallError>(stream)
        };
        let mut stream = match opened.await {
            Ok(stream) => stream,
            Err(error) => {
                self.shared.members.retire(&connection);
                return StreamEnd::Again(error.to_string());
            }
        };
        self.batches.restart();
        let shared = self.shared.clone();
        let mut moving = std::pin::pin!(shared.members.retired(&connection));
        let mut ask = std::pin::pin!(machine::sleep(ASK_IDLE));
        if matches!(self.progress, Progress::Wanted(_)) {
            ask.as_mut().reset(machine::now());
        }
        loop {
            tokio::select! {
                answer = stream.next::<WatchResponse>() => {
                    let answer = match answer {
                        Ok(Some(answer)) => answer,
                        Ok(None) => return StreamEnd::Again("the stream has ended".to_owned()),
                        Err(error) => {
                            self.shared.members.retire(&connection);
                            return StreamEnd::Again(error.to_string());
                        }
                    };
                    if let Err(end) = self.answered(answer).await {
                        return end;
                    }
                }
                seen = self.asked.changed(), if matches!(self.progress, Progress::Idle) => {
                    if seen.is_err() {
                        return StreamEnd::Dropped;
                    }
                    self.progress = Progress::Reading(read_current(self.shared.clone(), Duration::ZERO));
                }
                current = reading(&mut self.progress) => {
                    self.progress = match current {
                        Ok(current) => {
                            ask.as_mut().reset(machine::now());
                            Progress::Wanted(current)
                        }
                        Err(ReadError::Stopped(stopped)) => return StreamEnd::Over(stopped.into()),
                        Err(_) => Progress::Reading(read_current(self.shared.clone(), PAUSE)),
                    };
                    // It may have been delivered meanwhile.
                    if let Err(end) = self.progressed(self.batches.delivered()).await {
                        return end;
                    }
                }
                () = ask.as_mut() => {
                    if let Err(error) = ask_progress(&mut stream) {
                        return StreamEnd::Again(error.to_string());
                    }
                    let wanted = matches!(self.progress, Progress::Wanted(_));
                    ask.as_mut().reset(machine::within(if wanted { ASK_AGAIN } else { ASK_IDLE }));
                }
                () = moving.as_mut() => return StreamEnd::Again("the member is not in use any more".to_owned()),
            }
        }
    }

    /// Begins with the last revision again, which is then left out: so etcd says so if what is behind it was forgotten.
    fn create(&self) -> WatchRequest {
        let create = WatchCreateRequest {
            key: self.bounds.key.clone(),
            range_end: self.bounds.range_end.clone(),
            start_revision: number(self.batches.delivered()),
            prev_kv: true,
            fragment: true,
        };
        WatchRequest { request: Some(WatchAsk::Create(create)) }
    }

    async fn answered(&mut self, answer: WatchResponse) -> Result<(), StreamEnd> {
        if answer.canceled {
            return Err(match crate::convert::revision(answer.compact_revision) {
                Ok(oldest) => StreamEnd::Over(WatchError::Compacted { oldest }),
                Err(_) => StreamEnd::Again(answer.cancel_reason),
            });
        }
        if answer.created {
            return Ok(());
        }
        if answer.events.is_empty() && !answer.fragment {
            let revision = of_header(answer.header).map_err(|error| refused(&error))?;
            self.batches.skip_to(revision);
            return self.progressed(revision).await;
        }
        for event in &answer.events {
            match self.batches.push(event) {
                Ok(None) => {}
                Ok(Some(changes)) => self.deliver(changes).await?,
                Err(BatchError::Forgotten) => return Err(self.forgotten().await),
                Err(BatchError::Malformed(error)) => return Err(refused(&error)),
            }
        }
        if !answer.fragment
            && let Some(changes) = self.batches.complete()
        {
            self.deliver(changes).await?;
        }
        Ok(())
    }

    async fn deliver(&mut self, changes: Changes) -> Result<(), StreamEnd> {
        let revision = changes.revision();
        self.send(Delivery::Changes(changes)).await?;
        self.progressed(revision).await
    }

    /// Everything up to here was delivered.
    async fn progressed(&mut self, revision: Revision) -> Result<(), StreamEnd> {
        if !matches!(self.progress, Progress::Wanted(wanted) if wanted <= revision) {
            return Ok(());
        }
        self.progress = Progress::Idle;
        self.send(Delivery::Progress(revision)).await
    }

    async fn send(&mut self, delivery: Delivery) -> Result<(), StreamEnd> {
        self.queue.send(Ok(delivery)).await.map_err(|_| StreamEnd::Dropped)
    }

    async fn forgotten(&mut self) -> StreamEnd {
        match self.shared.oldest().await {
            Ok(oldest) => StreamEnd::Over(WatchError::Compacted { oldest }),
            Err(error) => StreamEnd::Again(error.to_string()),
        }
    }
}

fn refused(error: &dyn std::fmt::Display) -> StreamEnd {
    StreamEnd::Over(WatchError::Unavailable { reason: error.to_string() })
}

fn read_current(shared: Arc<Shared>, pause: Duration) -> BoxFuture<'static, Result<Revision, ReadError>> {
    Box::pin(async move {
        machine::sleep(pause).await;
        shared.current_revision().await
    })
}

/// Never resolves if nothing is read.
async fn reading(progress: &mut Progress) -> Result<Revision, ReadError> {
    match progress {
        Progress::Reading(reading) => Pin::as_mut(reading).await,
        Progress::Idle | Progress::Wanted(_) => std::future::pending().await,
    }
}

fn ask_progress(stream: &mut Streaming) -> Result<(), CallError> {
    let ask = WatchRequest { request: Some(WatchAsk::Progress(WatchProgressRequest {})) };
    stream.send(&ask, End::Open)
}
