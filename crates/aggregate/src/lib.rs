//! Other API servers behind this one.
//!
//! [`remote::Remotes`] is the table of them, made from APIService objects; each
//! [`remote::Remote`] is asked on the server's own account (`get`) or handed a
//! client's request (`forward`). What remotes serve is learned in the
//! background: [`discovery`] and [`openapi`].
//!
//! Invariants: nothing here takes a lock over I/O, and everything a remote sends
//! is bounded in time and size, so that a slow, dead or hostile one costs only
//! those who ask for it. A remote speaks for the group-version it is registered
//! for and for nothing else. Redirects are never followed nor passed on, and
//! credentials of callers are not forwarded: a remote learns who calls from
//! headers that this server vouches for with its certificate.
//!
//! This crate does not know how requests come in, nor how objects are stored:
//! where services are is asked through [`sternpost_outbound::Resolve`].

pub mod discovery;
pub mod openapi;
pub mod proxy;
pub mod remote;
