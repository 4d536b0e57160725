//! Time and randomness: the only crate that reads clocks, sets timers and draws random bytes. Lints keep
//! everybody else from it (`clippy.toml`).
//!
//! There are two times. A server's [`Clock`] is what its clients see and what its rules are about: when an
//! object was created, when an event, a token or a lease expires, when history is compacted, when a bookmark
//! is due. It is handed down from whoever starts the server, so that two servers in one process can have
//! different times, and a test one that it moves by hand ([`manual::ManualClock`]).
//!
//! [`machine`] is the time in which processors, disks and networks work: how long a peer may be silent, how
//! soon something is tried again, how long a request took. It goes on where a server's clock stands still,
//! and does not leap where that one does.
//!
//! This crate does not know what is timed.

mod due;
pub mod machine;
pub mod manual;
pub mod seeded;
pub mod shift;

use std::{
    fmt,
    future::poll_fn,
    ops::{Add, Sub},
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pin_project_lite::pin_project;

pub use crate::due::DueQueue;
use crate::manual::{ManualClock, Waiting};

/// The time of one server, and its randomness. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// The machine's own, since this moment.
    System(machine::Instant),
    Manual(ManualClock),
}

impl Clock {
    /// The clock of the machine: for whoever starts a server, to be handed down.
    pub fn system() -> Self {
        Self(Source::System(machine::now()))
    }

    /// What the time is. It may leap in any direction, as clocks do that are set.
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            Source::System(_) => machine::wall(),
            Source::Manual(clock) => clock.wall(),
        }
    }

    /// The time since 1970; nothing before that.
    pub fn since_1970(&self) -> Duration {
        self.wall().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Seconds since 1970.
    pub fn unix_seconds(&self) -> i64 {
        i64::try_from(self.since_1970().as_secs()).unwrap_or(i64::MAX)
    }

    /// Milliseconds since 1970.
    pub fn unix_millis(&self) -> u64 {
        u64::try_from(self.since_1970().as_millis()).unwrap_or(u64::MAX)
    }

    /// How far this clock has gone. It never goes back.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System(begun) | Source::Manual(ManualClock { passing: Some(begun), .. }) => {
                Instant(machine::now().saturating_duration_since(*begun))
            }
            Source::Manual(clock) => clock.now(),
        }
    }

    pub fn elapsed(&self, since: Instant) -> Duration {
        self.now() - since
    }

    /// Ready when this clock has gone on for so long.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Ready when this clock shows `due`.
    pub fn sleep_until(&self, due: Instant) -> Sleep {
        match &self.0 {
            Source::System(begun) | Source::Manual(ManualClock { passing: Some(begun), .. }) => {
                Sleep::Machine { begun: *begun, sleep: machine::sleep_until(due.after(*begun)) }
            }
            Source::Manual(clock) => Sleep::Manual { waiting: Waiting::new(clock.clone(), due) },
        }
    }

    /// Ready when this clock shows `due`; never if nothing is due.
    pub async fn until(&self, due: Option<Instant>) {
        match due {
            Some(due) => self.sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// What `work` comes to, if that is before this clock shows `due`.
    pub async fn timeout_at<W: Future>(&self, due: Instant, work: W) -> Result<W::Output, Elapsed> {
        let mut work = pin!(work);
        let mut sleep = pin!(self.sleep_until(due));
        poll_fn(move |context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            ready!(sleep.as_mut().poll(context));
            Poll::Ready(Err(Elapsed))
        })
        .await
    }

    /// Fills `bytes` with random ones. A system that has none ends the process: nothing that has to be
    /// unique could be made.
    pub fn random(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::System(_) => machine::random(bytes),
            Source::Manual(clock) => clock.random(bytes),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self(Source::Manual(clock))
    }
}

/// How far a clock had gone at some moment. It means nothing to another clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// If the clock had gone as far.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// On the machine's clock, for a clock that begun then. What is too late for it is as late as it can be.
    fn after(self, begun: machine::Instant) -> machine::Instant {
        machine::after(begun, self.0)
    }
}

/// A sum that is too late for any clock is the latest there is.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Nothing lies between an instant and one before it.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// It took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it took too long")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// Ready at a moment of a [`Clock`].
    #[derive(Debug)]
    #[project = SleepProjection]
    #[must_use = "it waits only where it is awaited"]
    pub enum Sleep {
        Machine { begun: machine::Instant, #[pin] sleep: machine::Sleep },
        Manual { waiting: Waiting },
    }
}

impl Sleep {
    /// Lets it be ready at another moment of the same clock.
    pub fn reset(self: Pin<&mut Self>, due: Instant) {
        match self.project() {
            SleepProjection::Machine { begun, sleep } => sleep.reset(due.after(*begun)),
            SleepProjection::Manual { waiting } => waiting.reset(due),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.project() {
            SleepProjection::Machine { sleep, .. } => sleep.poll(context),
            SleepProjection::Manual { waiting } => waiting.poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_machine_s_clock_goes_on_by_itself() {
        let clock = Clock::system();
        let begun = clock.now();
        clock.sleep(SECOND).await;
        assert_eq!(clock.elapsed(begun), SECOND);
        clock.until(Some(begun + 2 * SECOND)).await;
        assert_eq!(clock.elapsed(begun), 2 * SECOND);
        let never = std::future::pending::<()>();
        assert_eq!(clock.timeout_at(begun + 3 * SECOND, never).await, Err(Elapsed));
        assert_eq!(clock.elapsed(begun), 3 * SECOND);
        assert_eq!(clock.timeout_at(begun, async { 7 }).await, Ok(7), "what is there is not too late");
        let mut sleep = Box::pin(clock.sleep(SECOND));
        sleep.as_mut().reset(clock.now() + 5 * SECOND);
        sleep.await;
        assert_eq!(clock.elapsed(begun), 8 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_after_all_time_is_waited_for() {
        let clock = Clock::system();
        let end = clock.now() + Duration::MAX;
        assert_eq!(end, end + SECOND);
        let mut sleep = pin!(clock.sleep_until(end));
        assert!(poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context))).await.is_pending());
    }

    #[test]
    fn random_bytes_differ() {
        let clock = Clock::system();
        let [mut one, mut other] = [[0; 16]; 2];
        clock.random(&mut one);
        clock.random(&mut other);
        assert_ne!(one, other);
        assert!(clock.unix_seconds() > 1_700_000_000);
    }
}
