//! What is told of flow control: counted where requests pass, and read when somebody asks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the times that requests wait, in milliseconds; as upstream has them.
pub const WAIT_BOUNDS: [u64; 13] = [0, 5, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000];

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All seats are taken, and nobody waits for one.
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
}

impl Reason {
    pub const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    /// As upstream calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// Requests of one flow schema at one priority level.
#[derive(Debug, Default)]
pub struct Counts {
    executing: AtomicU64,
    waiting: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    /// Of those that got a seat.
    waited: Waits,
    /// Of those that did not.
    waited_in_vain: Waits,
}

/// How long requests waited.
#[derive(Debug, Default)]
struct Waits {
    /// How many waited no longer than a bound and longer than the one before; last those beyond all.
    by_bound: [AtomicU64; WAIT_BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// What there was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    pub executing: u64,
    pub waiting: u64,
    pub refused: [(Reason, u64); Reason::ALL.len()],
    pub waited: WaitsCounted,
    pub waited_in_vain: WaitsCounted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitsCounted {
    /// As many as there are bounds, and one.
    pub by_bound: Vec<u64>,
    pub sum: Duration,
}

impl WaitsCounted {
    pub fn count(&self) -> u64 {
        self.by_bound.iter().sum()
    }
}

impl Counts {
    pub(crate) fn refuse(&self, reason: Reason, waited: Duration) {
        let at = Reason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.refused.get(at)) {
            count.fetch_add(1, Relaxed);
        }
        self.waited_in_vain.add(waited);
    }

    pub(crate) fn read(&self) -> Counted {
        let mut refused = Reason::ALL.map(|reason| (reason, 0));
        for ((_, told), count) in refused.iter_mut().zip(&self.refused) {
            *told = count.load(Relaxed);
        }
        Counted {
            executing: self.executing.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            refused,
            waited: self.waited.read(),
            waited_in_vain: self.waited_in_vain.read(),
        }
    }
}

impl Waits {
    fn add(&self, waited: Duration) {
        let at = match waited {
            // Nearly all.
            Duration::ZERO => 0,
            _ => WAIT_BOUNDS.partition_point(|bound| Duration::from_millis(*bound) < waited),
        };
        if let Some(count) = self.by_bound.get(at) {
            count.fetch_add(1, Relaxed);
        }
        if !waited.is_zero() {
            self.micros.fetch_add(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    fn read(&self) -> WaitsCounted {
        WaitsCounted {
            by_bound: self.by_bound.iter().map(|count| count.load(Relaxed)).collect(),
            sum: Duration::from_micros(self.micros.load(Relaxed)),
        }
    }
}

/// A request that is worked on, until this is dropped.
#[derive(Debug)]
pub(crate) struct Executing(Arc<Counts>);

impl Executing {
    pub fn begin(counts: Arc<Counts>, waited: Duration) -> Self {
        counts.executing.fetch_add(1, Relaxed);
        counts.waited.add(waited);
        Self(counts)
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.0.executing.fetch_sub(1, Relaxed);
    }
}

/// A request that waits, until this is dropped.
#[derive(Debug)]
pub(crate) struct InQueue<'a>(&'a Counts);

impl<'a> InQueue<'a> {
    pub fn begin(counts: &'a Counts) -> Self {
        counts.waiting.fetch_add(1, Relaxed);
        Self(counts)
    }
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_at_the_first_bound_that_it_does_not_exceed() {
        let waits = Waits::default();
        for (millis, at) in [(0, 0), (1, 1), (5, 1), (6, 2), (30_000, 12), (30_001, 13)] {
            let before = waits.read().by_bound[at];
            waits.add(Duration::from_millis(millis));
            assert_eq!(waits.read().by_bound[at], before + 1, "{millis}");
        }
        assert_eq!((waits.read().count(), waits.read().sum), (6, Duration::from_millis(60_013)));
    }
}
