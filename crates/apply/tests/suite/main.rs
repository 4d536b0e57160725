//! One binary, so that what the tests share is built once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::needless_pass_by_value)]

mod properties;
mod recorded;
mod replay;
mod rules;
mod server;
