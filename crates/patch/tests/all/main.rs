//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod json_patch;
mod merge_patch;
mod properties;
mod strategic;
