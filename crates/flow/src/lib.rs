//! Flow control: how many requests are worked on at once, and whose.
//!
//! [`Control::enter`] finds the first flow schema that is about a request and waits for a seat of
//! its priority level. A level has so many seats; requests that find none wait in queues, and
//! whoever used the least gets the next seat, so that a user who floods the server waits for
//! himself. [`Control::turn`] does the same for the processor: as many requests as there are
//! turns are computed at once, in fair order.
//!
//! Invariants: no lock is held while anybody waits; a request that goes away gives back what it
//! has and what it waits for; what is exempt never waits.
//!
//! It knows no HTTP and no storage: schemas and levels come as JSON.

mod control;
mod fair;
mod schema;

pub use control::{Control, Limits, Pass, Refused, Turn};
pub use fair::{FairQueue, Full, Seat};
pub use schema::{Level, Schema};
