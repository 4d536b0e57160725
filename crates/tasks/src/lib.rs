//! The tasks that a server runs on its own account, supervised.
//!
//! Every task belongs to a [`Tasks`] and says what its end means: [`Tasks::forever`] and
//! [`Tasks::until_done`] are begun again, [`Tasks::essential`] cannot be, so that the server is not
//! ready without it, and [`Tasks::once`] concerns nobody else. A panic is always in the log, with the
//! name of the task. All end with [`Tasks::end`], with the last clone of it, or with the
//! runtime.
//!
//! This crate does not know what the tasks do, nor who asks whether they run.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use sternpost_clock::machine;
use tokio::task::JoinSet;

/// Before a task is begun again; twice as long each time it fails soon.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A task that ran for this long has not failed soon.
const SOUND: Duration = Duration::from_secs(60);

/// The tasks of one server. Clones are the same tasks.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<State>);

#[derive(Debug)]
struct State {
    /// `None` when they have ended.
    running: Mutex<Option<JoinSet<()>>>,
    broken: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Default for State {
    fn default() -> Self {
        Self { running: Mutex::new(Some(JoinSet::new())), broken: Arc::default() }
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Panicked,
}

impl Tasks {
    /// Runs what goes on for as long as the server does. Whether it ends or panics, it is begun again: for
    /// what learns all it needs when it begins.
    pub fn forever<Work>(&self, name: &'static str, begin: impl Fn() -> Work + Send + 'static)
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        self.run(begun_again(name, begin, |_| true));
    }

    /// Runs what comes to an end. If it panics, it is begun again.
    pub fn until_done<Work>(&self, name: &'static str, begin: impl Fn() -> Work + Send + 'static)
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        self.run(begun_again(name, begin, |end| end == End::Panicked));
    }

    /// Runs what goes on for as long as the server does and cannot be begun again. If it ends or panics, it
    /// is among the [`Tasks::broken`].
    pub fn essential(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        // Not all of the state, which owns the task.
        let broken = self.0.broken.clone();
        self.run(async move {
            if watched(name, work).await == End::Done {
                tracing::error!(task = name, "a task that is needed has ended");
            }
            lock(&broken).insert(name);
        });
    }

    /// Runs what is done once and missed by nobody.
    pub fn once(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.run(async move {
            watched(name, work).await;
        });
    }

    /// The names of essential tasks that run no more.
    pub fn broken(&self) -> Vec<&'static str> {
        lock(&self.0.broken).iter().copied().collect()
    }

    /// Ends all tasks and waits until they have; what is begun later does not run. For a server that stops:
    /// what its tasks hold may itself hold a clone of this, and would never be dropped.
    pub async fn end(&self) {
        let running = lock(&self.0.running).take();
        if let Some(mut running) = running {
            running.shutdown().await;
        }
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.0.running);
        let Some(running) = running.as_mut() else { return };
        // Those that have ended are not kept.
        while running.try_join_next().is_some() {}
        running.spawn(task);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn begun_again<Work: Future<Output = ()>>(
    name: &'static str,
    begin: impl Fn() -> Work,
    restarts: impl Fn(End) -> bool,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = machine::now();
        // Boxed, so that what is begun anew takes the place of what was.
        if !restarts(watched(name, Box::pin(begin())).await) {
            return;
        }
        if machine::elapsed(begun) >= SOUND {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(task = name, seconds = pause.as_secs_f64(), "a task is begun again after a pause");
        machine::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

async fn watched(name: &'static str, work: impl Future<Output = ()>) -> End {
    match catch_panic(work).await {
        Some(()) => End::Done,
        None => {
            // What it said is in the log already, by the panic hook.
            tracing::error!(task = name, "a task has panicked");
            End::Panicked
        }
    }
}

/// What a future comes to; `None` if it panics.
pub async fn catch_panic<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    /// Counts how often it was begun, and panics or ends the first times.
    fn failing(
        times: usize,
        panics: bool,
    ) -> (impl Fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>, mpsc::Receiver<usize>) {
        let (send, receive) = mpsc::channel(100);
        let begun = Arc::new(AtomicUsize::new(0));
        let begin = move || -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            let (send, count) = (send.clone(), begun.fetch_add(1, Ordering::Relaxed) + 1);
            Box::pin(async move {
                send.send(count).await.unwrap();
                if count > times {
                    std::future::pending::<()>().await;
                }
                assert!(!panics, "on purpose");
            })
        };
        (begin, receive)
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_begun_again_after_longer_and_longer_pauses() {
        for panics in [true, false] {
            let (begin, mut begun) = failing(3, panics);
            let tasks = Tasks::default();
            tasks.forever("t", begin);
            let mut last = tokio::time::Instant::now();
            let mut pauses = Vec::new();
            for count in 1..=4 {
                assert_eq!(begun.recv().await, Some(count));
                pauses.push(last.elapsed().as_millis());
                last = tokio::time::Instant::now();
            }
            assert_eq!(pauses, [0, 100, 200, 400]);
            assert_eq!(tasks.broken(), [""; 0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_to_an_end_is_begun_again_only_after_a_panic() {
        let tasks = Tasks::default();
        let (begin, mut begun) = failing(2, true);
        tasks.until_done("t", begin);
        for count in 1..=3 {
            assert_eq!(begun.recv().await, Some(count));
        }
        let (begin, mut begun) = failing(2, false);
        tasks.until_done("t", begin);
        assert_eq!(begun.recv().await, Some(1));
        // Nobody is left who could send.
        assert_eq!(begun.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_essential_task_that_is_no_more_is_told_of() {
        let tasks = Tasks::default();
        tasks.essential("runs", std::future::pending());
        tasks.essential("ends", async {});
        tasks.essential("panics", async { panic!("on purpose") });
        tasks.once("is done", async {});
        tasks.once("is missed by nobody", async { panic!("on purpose") });
        while tasks.broken().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(tasks.broken(), ["ends", "panics"]);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_hold_their_owner_can_be_ended() {
        let (send, mut receive) = mpsc::channel::<()>(1);
        let tasks = Tasks::default();
        let owner = tasks.clone();
        tasks.essential("holds its owner", async move {
            let _held = (owner, send);
            std::future::pending::<()>().await;
        });
        tasks.end().await;
        assert_eq!(receive.recv().await, None);
        assert_eq!(tasks.broken(), [""; 0], "it was ended, and did not end");
        tasks.once("comes too late", async { panic!("on purpose") });
        assert_eq!(Arc::strong_count(&tasks.0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_end_with_their_owner() {
        let (send, mut receive) = mpsc::channel::<()>(1);
        let tasks = Tasks::default();
        tasks.essential("holds the sender", async move {
            let _send = send;
            std::future::pending::<()>().await;
        });
        drop(tasks);
        assert_eq!(receive.recv().await, None);
    }
}
