//! The time in which the machine works, the same for all servers of a process.
//!
//! For how long something may take or took, and how soon it is tried again; never for what a client is
//! shown. The timers are the runtime's: a test that pauses its runtime's time has them wait for nothing.

#![allow(clippy::disallowed_methods, reason = "this is where clocks are read")]

use std::{
    io::Write,
    time::{Duration, SystemTime},
};

pub use tokio::time::{Instant, Sleep, Timeout};

use crate::shift;

/// Later than anybody waits, and not so late that it could not be added to: as tokio has it.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

pub fn now() -> Instant {
    Instant::now()
}

/// What the time is outside: for certificates and files, which others judge by theirs.
pub fn wall() -> SystemTime {
    shift::shifted(SystemTime::now())
}

/// What is too late for this clock is as late as it can be.
pub fn after(from: Instant, duration: Duration) -> Instant {
    from.checked_add(duration).unwrap_or_else(|| from + FAR)
}

/// So long from now.
pub fn within(duration: Duration) -> Instant {
    after(now(), duration)
}

pub fn elapsed(since: Instant) -> Duration {
    since.elapsed()
}

/// How long it is until then; nothing if that is past.
pub fn left(until: Instant) -> Duration {
    until.saturating_duration_since(now())
}

pub fn sleep(duration: Duration) -> Sleep {
    tokio::time::sleep(duration)
}

pub fn sleep_until(due: Instant) -> Sleep {
    tokio::time::sleep_until(due)
}

/// Ready then; never if nothing is due.
pub async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// What `work` comes to, if it takes no longer than that.
pub fn timeout<W: Future>(duration: Duration, work: W) -> Timeout<W> {
    tokio::time::timeout(duration, work)
}

/// What `work` comes to, if that is before then.
pub fn timeout_at<W: Future>(due: Instant, work: W) -> Timeout<W> {
    tokio::time::timeout_at(due, work)
}

/// Blocks the thread: for programs that have no runtime.
pub fn block(duration: Duration) {
    std::thread::sleep(duration);
}

/// Fills `bytes` with random ones, fit for secrets. A system that has none ends the process: nothing that
/// has to be unique, or secret, could be made.
pub fn random(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        // If nobody reads it there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "error: the system has no randomness: {error}");
        std::process::exit(1);
    }
}
