//! What each built-in kind does beyond its schema.
//!
//! A kind's [`strategy::Strategy`] says all of it: defaults, preparation before a
//! write, validation, warnings, how it is written and deleted, by which fields it
//! can be selected, what can be done through its subresources. It stands in
//! `kinds/KIND.rs`; [`kinds::strategy`] finds it. Its functions work on the JSON of
//! the object with the helpers of [`object`]; errors are collected as
//! [`sternpost_meta::field::Errors`] with upstream's texts.
//! What they cannot know (who writes, the time, other objects) comes in as a
//! [`context::Context`].
//! [`validation`] has what several kinds contain or check alike.
//! [`field_selectors`] resolves selectors by what strategies offer.
//! [`table`] shows objects as the rows that `kubectl get` prints.
//!
//! Invariants: strategies are pure and total: any JSON of the right types goes in,
//! nothing panics, and the same object gives the same answer.
//!
//! This crate does not know HTTP, TLS, tokens or how objects are stored.

pub mod context;
mod escalation;
pub mod field_selectors;
pub mod internal_form;
pub mod kinds;
pub mod node_connection;
pub mod object;
pub mod status_subresource;
pub mod strategy;
pub mod table;
pub mod unified_diff;
pub mod validation;
