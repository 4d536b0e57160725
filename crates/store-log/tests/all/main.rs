//! One binary, because linking each is slow; `cargo test --test all NAME::` runs a part of it.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod check;
mod conformance;
mod crash;
mod directory;
mod faults;
mod image;
mod import;
mod sealing;
mod snapshots;
mod support;
mod torn;
