//! What the server does on its own account, beside answering requests.
//!
//! [`definitions`] keeps the table of custom resources up with their
//! definitions, gives definitions their names and clears up behind them.
//!
//! Invariants: a controller learns of the world by watching the cache and changes
//! it by the same verbs as everybody else; whatever it has not finished when the
//! process ends it begins again when the next one starts.
//!
//! This crate does not know HTTP, nor what is published of what it installs.

pub mod definitions;
mod follow;
