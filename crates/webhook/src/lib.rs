//! Calling webhooks.
//!
//! [`Client::post`] sends a review to what a [`ClientConfig`] names (read once
//! from the JSON of a `clientConfig`) and gives back the answer's bytes, or a
//! [`CallError`] with the text upstream would show. What a review says is the
//! caller's business: conversion, admission.
//!
//! Invariants: a call ends within its timeout, whatever the other side does
//! with the connection, the handshake, the headers or the body; an answer is at
//! most [`client::MAX_ANSWER`] bytes; certificates of webhooks are always verified. Calls
//! share nothing but idle connections, and those only with calls of the same
//! configuration, so a webhook that hangs holds up nobody else.
//!
//! Deliberately not done: redirects are not followed (a webhook must not choose
//! where the server sends objects), proxies are not used and answers are not
//! compressed. This crate does not know what services there are, nor how a connection is made: that is
//! `sternpost-outbound`.

pub mod client;
pub mod config;
pub mod error;

pub use client::Client;
pub use config::{ClientConfig, ConfigError};
pub use error::CallError;
