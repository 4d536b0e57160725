//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod asked;
mod compare;
mod convert;
mod custom;
mod explain;
mod upstream;
