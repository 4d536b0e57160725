//! The processor, kept free of requests that take long.
//!
//! Threads that answer requests also read and write connections. A request with a large body, about a
//! large object, or for which expressions may be evaluated for long, is worked on apart from them: in a
//! task of its own, on a thread that the others do not wait for, and of such threads there are few. What
//! it computes ends when its time is over, or when its client or the server has gone: see
//! [`sternpost_meta::cancel`].
//!
//! A request waits for such a thread only while it computes, not while it waits for the store or a
//! webhook.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    thread::available_parallelism,
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, family::Family};
use sternpost_clock::machine;
use sternpost_flow::{Owner, Turns};
use sternpost_meta::cancel::{self, Cancel, Cancelled};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::{JoinHandle, block_in_place},
};

use crate::metrics::{Metrics, OutcomeLabels};

/// Bodies and stored objects below this are worked on where they come in: to hand them over would
/// cost more than they do.
pub const INLINE_BYTES: usize = 64 * 1024;

/// Expressions that cost no more than this, as they are estimated before they run, are evaluated where the
/// request comes in. It is some milliseconds.
pub const INLINE_COST: u64 = 50_000;

/// Large requests that wait for a thread or have one. Further ones are told to come back.
pub const MAX_LARGE_REQUESTS: usize = 256;

/// Threads that work on large requests, if there are as many processors.
pub const MAX_THREADS: usize = 4;

/// What becomes of work.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    Done(T),
    /// It panicked, which is a bug.
    Broken,
    /// Its time is over. Whether anything was written is not known.
    TimedOut,
    /// There is too much of it already.
    TooMuch,
}

impl<T> Outcome<T> {
    fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Broken => "broken",
            Self::TimedOut => "timed_out",
            Self::TooMuch => "refused",
        }
    }
}

/// What a request has in memory while it waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Less than [`INLINE_BYTES`]: as many may wait as are let in.
    Small,
    /// More than that: there is place for [`MAX_LARGE_REQUESTS`].
    Large,
}

/// Who may compute for long, and how many at once, in fair order among users.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    places: Arc<Semaphore>,
    turns: Arc<Turns>,
    outcomes: Family<OutcomeLabels, Counter>,
}

impl Pool {
    /// With as many threads as the machine has use for.
    pub fn new(metrics: &Metrics) -> Self {
        let threads = available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let outcomes = metrics.pool_outcomes();
        for outcome in [Outcome::Done(()), Outcome::Broken, Outcome::TimedOut, Outcome::TooMuch] {
            // What has not happened yet is told, too.
            drop(outcomes.get_or_create(&OutcomeLabels { outcome: outcome.name() }));
        }
        Self { outcomes, ..Self::of(threads, MAX_LARGE_REQUESTS) }
    }

    fn of(threads: usize, places: usize) -> Self {
        let (places, turns) = (Arc::new(Semaphore::new(places)), Turns::new(threads));
        Self { threads, places, turns, outcomes: Family::default() }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How many threads are computing now.
    pub fn busy(&self) -> usize {
        self.turns.taken()
    }

    /// How many requests could go on if there were a thread for them.
    pub fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// Does `work` for a user, apart from whatever else the caller's thread has to do, for at most
    /// `allotted`.
    pub async fn run<F>(&self, load: Load, user: &str, allotted: Duration, work: F) -> Outcome<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let outcome = self.finish(load, user, allotted, work).await;
        self.outcomes.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
        outcome
    }

    async fn finish<F>(&self, load: Load, user: &str, allotted: Duration, work: F) -> Outcome<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let place = match load {
            Load::Small => None,
            Load::Large => match self.places.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => return Outcome::TooMuch,
            },
        };
        let cancel = Cancel::default();
        let (turns, owner, seen) = (self.turns.clone(), Arc::new(Owner::new(&user)), cancel.clone());
        let task = tokio::spawn(async move {
            let outcome = turns.run(owner, cancellable(&seen, work)).await;
            drop(place);
            outcome
        });
        let mut task = Owned { task, cancel };
        match machine::timeout(allotted, &mut task.task).await {
            Ok(Ok(outcome)) => outcome,
            // Whoever ends tasks ends this one with them.
            Ok(Err(_)) => Outcome::Broken,
            Err(_) => Outcome::TimedOut,
        }
    }
}

/// A task that ends with whoever waits for it.
struct Owned<T> {
    task: JoinHandle<T>,
    cancel: Cancel,
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// Work that computes apart, until it is cancelled.
async fn cancellable<F: Future>(cancel: &Cancel, work: F) -> Outcome<F::Output> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let poll = || cancel::scope(cancel, || work.as_mut().poll(context));
        match catch_unwind(AssertUnwindSafe(|| apart(poll))) {
            Ok(Ok(poll)) => poll.map(Outcome::Done),
            Ok(Err(Cancelled)) => Poll::Ready(Outcome::TimedOut),
            Err(_) => Poll::Ready(Outcome::Broken),
        }
    })
    .await
}

/// Computes while another thread takes over what this one has to do besides, where there is one.
fn apart<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(compute),
        _ => compute(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{sync::oneshot, task::yield_now};

    use super::*;

    /// Long enough to be no part of a test's outcome.
    const LONG: Duration = Duration::from_secs(600);

    /// Computes until it is told to stop.
    async fn for_ever() {
        loop {
            cancel::checkpoint();
        }
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_thread_is_free_again_when_the_time_of_what_it_computes_is_over() {
        let pool = Pool::of(1, 2);
        assert_eq!(pool.run(Load::Large, "u", Duration::from_millis(1), for_ever()).await, Outcome::TimedOut);
        until(|| pool.busy() == 0).await;
        assert_eq!(pool.run(Load::Large, "u", LONG, async { 7 }).await, Outcome::Done(7));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_threads_of_the_runtime_go_on_while_all_others_compute() {
        let pool = Arc::new(Pool::of(2, 4));
        let busy: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.run(Load::Large, "u", LONG, for_ever()).await })
            })
            .collect();
        until(|| pool.busy() == 2).await;
        // The only worker of the runtime has time for this.
        let (send, receive) = oneshot::channel();
        tokio::spawn(async move { send.send(7) });
        assert_eq!(receive.await, Ok(7));
        // Whoever waits no longer, does not compute either.
        for task in busy {
            task.abort();
        }
        until(|| pool.busy() == 0).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_waits_holds_no_thread() {
        let pool = Arc::new(Pool::of(1, 8));
        let (send, receive) = oneshot::channel();
        let waiting = pool.clone();
        let waits = tokio::spawn(async move { waiting.run(Load::Large, "u", LONG, receive).await });
        until(|| pool.places.available_permits() == 7).await;
        assert_eq!(pool.run(Load::Large, "u", LONG, async { 7 }).await, Outcome::Done(7));
        send.send(8).unwrap();
        assert_eq!(waits.await.unwrap(), Outcome::Done(Ok(8)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn more_than_there_is_place_for_is_refused_and_a_panic_costs_one_request() {
        let pool = Arc::new(Pool::of(1, 1));
        let (send, receive) = oneshot::channel::<()>();
        let waiting = pool.clone();
        let waits = tokio::spawn(async move { waiting.run(Load::Large, "u", LONG, receive).await });
        until(|| pool.places.available_permits() == 0).await;
        assert_eq!(pool.run(Load::Large, "u", LONG, async { 7 }).await, Outcome::TooMuch);
        // What is small needs no place.
        assert_eq!(pool.run(Load::Small, "u", LONG, async { 7 }).await, Outcome::Done(7));
        drop(send);
        waits.await.unwrap();
        assert_eq!(pool.run(Load::Large, "u", LONG, async { panic!("a bug") }).await, Outcome::<()>::Broken);
        assert_eq!(pool.run(Load::Large, "u", LONG, async { 7 }).await, Outcome::Done(7));
    }

    #[tokio::test]
    async fn on_one_thread_work_is_done_there() {
        let (pool, count) = (Pool::of(1, 1), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        let work = async move {
            for _ in 0..3 {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        };
        assert_eq!(pool.run(Load::Large, "u", LONG, work).await, Outcome::Done(()));
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
