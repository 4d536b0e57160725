//! Connections to other servers: the one way out.
//!
//! Webhooks, other API servers and token issuers are reached through a
//! [`Connector`]: it finds the addresses of a host, asks [`Egress`] about each
//! of them just before it is dialled, and speaks TLS that believes a [`Trust`].
//! What goes wrong is a [`Cause`], in the words that upstream has for it.
//!
//! Invariants: nothing is dialled that was not checked, a name is looked up once
//! for a connection, and a handshake ends within its time. Redirects are never followed here.
//!
//! This crate does not know what is sent, nor what services there are: where one
//! is found is asked through [`Resolve`].

pub mod address;
pub mod cause;
pub mod connect;
pub mod egress;
pub mod tls;

pub use address::{Address, ClusterDns, Resolve};
pub use cause::Cause;
pub use connect::Connector;
pub use egress::{Egress, Network, Via};
pub use tls::{SetupError, Trust, client_tls};
