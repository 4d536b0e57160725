//! One binary, so that what the tests share is built once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::needless_pass_by_value)]

#[path = "../kinds/mod.rs"]
mod kinds;
mod properties;
mod rules;
