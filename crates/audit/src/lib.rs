//! The audit log: who asked for what, and what became of it, a JSON line each.
//!
//! [`Audit::begin`] asks the [`Policy`] how much is to be told of a request and returns a
//! [`Record`], which turns into one event for each stage of the request. Events are written by
//! one thread ([`log`]); a request waits only if the thread is far behind.
//!
//! Invariants: a line is one whole event; what the policy does not ask for is not collected; a
//! log that cannot be written is told of in the server's own log and stops nobody.
//!
//! It knows no HTTP: bodies come as JSON values.

pub mod event;
pub mod log;
pub mod policy;

pub use event::{Audit, Record, StageOutcome, Subject};
pub use log::{Log, LogOptions, Sink};
pub use policy::{Level, Policy, PolicyError, Stage};
