//! Those who wait for the next change of a resource.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use sternpost_clock::machine;

use crate::resource::Seen;

/// For every waiter this much time passes between two announcements; the first
/// after a quiet time is never late. A watcher costs about five microseconds
/// each time it is woken, however many events it then finds: so waking takes no
/// more than a tenth of a processor, whatever the rate of changes.
const PACE_PER_WAITER: Duration = Duration::from_micros(50);

/// Below this there is no pacing: a few watchers hear of a change at once.
const MIN_PACE: Duration = Duration::from_millis(1);

/// The longest time by which an event is delayed, with any number of watchers.
const MAX_PACE: Duration = Duration::from_millis(10);

/// As many are woken by whoever makes a change, more by a task of their own.
const MAX_FEW: usize = 8;

// Few are never put off.
const _: () = assert!(PACE_PER_WAITER.as_micros() * (MAX_FEW as u128) < MIN_PACE.as_micros());

#[derive(Debug)]
pub(crate) struct Waiters {
    /// Changes up to this revision were announced.
    announced: AtomicU64,
    /// And as much of what could be read again.
    regained: AtomicU64,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// One for each waiter; `None` for one that is not waiting now.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    last: Option<machine::Instant>,
}

/// A place among those who wait.
#[derive(Debug)]
pub struct Waiter {
    waiters: Arc<Waiters>,
    slot: usize,
}

impl Waiters {
    pub fn new(seen: Seen) -> Arc<Self> {
        let Seen { revision, regained } = seen;
        Arc::new(Self {
            announced: AtomicU64::new(revision.get()),
            regained: AtomicU64::new(regained),
            slots: Mutex::default(),
        })
    }

    pub fn join(self: &Arc<Self>) -> Waiter {
        let mut slots = self.slots();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.wakers.push(None);
            slots.wakers.len() - 1
        });
        Waiter { waiters: self.clone(), slot }
    }

    pub fn are_many(&self) -> bool {
        self.slots().count() > MAX_FEW
    }

    /// Wakes all who wait for a change up to that. If the last time was
    /// too short ago, does nothing and says when to come again.
    pub fn announce(&self, seen: Seen, now: machine::Instant) -> Option<machine::Instant> {
        let wakers: Vec<Waker> = {
            let mut slots = self.slots();
            if let Some(due) = slots.due().filter(|due| *due > now) {
                return Some(due);
            }
            slots.last = Some(now);
            // Before the wakers are taken: whoever comes behind this sees it.
            self.announced.store(seen.revision.get(), Ordering::SeqCst);
            self.regained.store(seen.regained, Ordering::SeqCst);
            slots.wakers.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
        None
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn count(&self) -> usize {
        self.wakers.len() - self.free.len()
    }

    fn due(&self) -> Option<machine::Instant> {
        let waiters = u32::try_from(self.count()).unwrap_or(u32::MAX);
        let pace = PACE_PER_WAITER.saturating_mul(waiters).min(MAX_PACE);
        (pace >= MIN_PACE).then(|| self.last.map(|last| last + pace)).flatten()
    }
}

impl Waiter {
    /// Ready when something was announced that is newer than `after`.
    pub fn poll(&self, after: Seen, context: &mut Context<'_>) -> Poll<()> {
        let Waiters { announced, regained, .. } = &*self.waiters;
        let is_there = || {
            announced.load(Ordering::SeqCst) > after.revision.get()
                || regained.load(Ordering::SeqCst) > after.regained
        };
        if is_there() {
            return Poll::Ready(());
        }
        let mut slots = self.waiters.slots();
        // Under the lock, so that nothing is announced between this and the waiting.
        if is_there() {
            return Poll::Ready(());
        }
        if let Some(slot) = slots.wakers.get_mut(self.slot) {
            match slot {
                Some(waker) => waker.clone_from(context.waker()),
                None => *slot = Some(context.waker().clone()),
            }
        }
        Poll::Pending
    }

    /// Waits for something newer than `after`.
    pub async fn changed(&self, after: Seen) {
        std::future::poll_fn(|context| self.poll(after, context)).await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut slots = self.waiters.slots();
        if let Some(slot) = slots.wakers.get_mut(self.slot) {
            *slot = None;
        }
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use sternpost_store::Revision;

    use super::*;

    fn revision(number: u64) -> Seen {
        Seen { revision: Revision::new(number).unwrap(), regained: 0 }
    }

    #[tokio::test]
    async fn a_waiter_is_woken_by_what_is_newer_and_by_nothing_else() {
        let waiters = Waiters::new(revision(1));
        let waiter = waiters.join();
        let mut waiting = Box::pin(waiter.changed(revision(2)));
        assert!(futures_poll(&mut waiting).is_pending());
        assert_eq!(waiters.announce(revision(2), machine::now()), None);
        assert!(futures_poll(&mut waiting).is_pending());
        assert_eq!(waiters.announce(revision(3), machine::now()), None);
        assert!(futures_poll(&mut waiting).is_ready());
        // What was announced before one began to wait is not waited for.
        waiter.changed(revision(2)).await;
        let mut waiting = Box::pin(waiter.changed(revision(3)));
        assert!(futures_poll(&mut waiting).is_pending());
        let regained = Seen { regained: 1, ..revision(3) };
        assert_eq!(waiters.announce(regained, machine::now()), None);
        assert!(futures_poll(&mut waiting).is_ready());
        assert!(futures_poll(&mut Box::pin(waiter.changed(regained))).is_pending());
    }

    #[tokio::test]
    async fn many_waiters_are_woken_at_a_bounded_pace_and_few_at_once() {
        let now = machine::now();
        let few = (MIN_PACE.as_micros() / PACE_PER_WAITER.as_micros()) as usize;
        for (count, delay) in
            [(0, None), (few - 1, None), (few, Some(MIN_PACE)), (1000 * few, Some(MAX_PACE))]
        {
            let waiters = Waiters::new(revision(1));
            let joined: Vec<Waiter> = (0..count).map(|_| waiters.join()).collect();
            assert_eq!(waiters.announce(revision(2), now), None, "the first is never late");
            assert_eq!(waiters.announce(revision(3), now), delay.map(|delay| now + delay), "{count}");
            assert_eq!(waiters.announce(revision(3), now + MAX_PACE), None);
            drop(joined);
            assert_eq!(waiters.announce(revision(4), now), None, "nobody is left");
        }
    }

    #[tokio::test]
    async fn a_place_that_was_left_is_taken_again() {
        let waiters = Waiters::new(revision(1));
        let first = waiters.join();
        drop(first);
        let second = waiters.join();
        assert_eq!(second.slot, 0);
        let mut waiting = Box::pin(second.changed(revision(1)));
        assert!(futures_poll(&mut waiting).is_pending());
        assert_eq!(waiters.announce(revision(2), machine::now()), None);
        assert!(futures_poll(&mut waiting).is_ready());
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }
}
