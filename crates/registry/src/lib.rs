//! What each built-in kind does beyond its schema.
//!
//! [`kinds`] holds what each built-in kind does beyond its schema: defaults,
//! preparation before a write, validation, warnings. A kind's own rules are in
//! `kinds/KIND.rs`, written over the JSON of the object with the helpers of
//! [`object`]; errors are collected as [`sternpost_meta::field::Errors`] with
//! upstream's texts.
//! [`field_selectors`] says which fields lists can be filtered by.
//! [`table`] shows objects as the rows that `kubectl get` prints.
//!
//! Invariants: rules are pure and total: any JSON of the right types goes in,
//! nothing panics, and the same object gives the same answer.
//!
//! This crate does not know HTTP, TLS, tokens or how objects are stored.

pub mod field_selectors;
pub mod kinds;
pub mod object;
pub mod table;
