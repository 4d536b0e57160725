//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod beginning;
mod changes;
mod large_objects;
mod lists;
mod policies;
mod quota;
mod servers;
mod startup;
mod strategies;
mod webhooks;
