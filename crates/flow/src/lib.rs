//! Flow control: how many requests are worked on at once, and whose.
//!
//! [`Control::enter`] finds the first flow schema that is about a request and waits for a seat of
//! its priority level. A level has so many seats; requests that find none wait in queues, and
//! whoever used the least gets the next seat, so that a user who floods the server waits for
//! himself. [`Turns`] does the same for the processor: connections go on in fair order among those
//! whose they are, and what they sent is not even read before.
//!
//! Invariants: no lock is held while anybody waits; a request that goes away gives back what it
//! has and what it waits for; what is exempt never waits for a seat.
//!
//! It knows no HTTP and no storage: schemas and levels come as JSON.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

mod control;
mod counts;
mod fair;
mod order;
mod schema;
mod turns;

pub use control::{Control, LevelReport, Limits, Pass, Refused};
pub use counts::{Counted, Reason, WAIT_BOUNDS, WaitsCounted};
pub use fair::{Asked, FairQueue, Full, Seat, Waiting};
pub use schema::{Level, Schema};
pub use turns::{EVENT_INTERVAL, Owner, Turns};
