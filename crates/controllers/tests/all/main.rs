//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod api_services;
mod controllers;
mod definitions;
mod divided;
mod garbage;
mod leader_election;
mod policies_status;
mod running;
