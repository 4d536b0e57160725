//! How much history is kept.

use std::time::Duration;

pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(5 * 60);
pub const DEFAULT_MAX_EVENTS: usize = 100_000;
pub const DEFAULT_MAX_BYTES: usize = 256 << 20;

/// Bounds of the history. A change is forgotten when it is past any of them;
/// forgetting happens with later commits, a few changes at a time, and in a
/// store on disk from time to time without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Changes older than this may go.
    pub max_age: Duration,
    /// Changes with this many newer events may go.
    pub max_events: usize,
    /// Old values are in memory only for the history; this bounds their size.
    pub max_bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_age: DEFAULT_MAX_AGE, max_events: DEFAULT_MAX_EVENTS, max_bytes: DEFAULT_MAX_BYTES }
    }
}

impl Retention {
    /// No bounds; for tests that compact by hand.
    pub const UNBOUNDED: Self =
        Self { max_age: Duration::MAX, max_events: usize::MAX, max_bytes: usize::MAX };
}
