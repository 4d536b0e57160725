//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limits;
mod node;
mod written;
