//! What tests of several crates need, and nothing else uses.
//!
//! - [`recorded::Suite`] makes every recorded case a test with a name of its own.
//! - `process::Process` is `sternpost serve` in a process of its own, `server::Server` is one with a client.
//! - `webhook::Server` is a webhook that does as it is told.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    missing_debug_implementations,
    reason = "a test fails by panicking, and waits in the machine's time"
)]

#[cfg(feature = "servers")]
pub mod process;
pub mod recorded;
#[cfg(feature = "servers")]
pub mod server;
#[cfg(feature = "servers")]
pub mod tls;
#[cfg(feature = "servers")]
pub mod webhook;
