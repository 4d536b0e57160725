//! The one way out: a client for other servers.
//!
//! Webhooks, other API servers, token issuers, remote bases and the servers of the command line are asked with a
//! [`Client`]. It finds the addresses of a host, asks [`Egress`] about each of them just before it is
//! dialled, speaks TLS that believes a [`Trust`], over HTTP/2 or HTTP/1.1, and keeps connections for the
//! requests that follow. What goes wrong is a [`Cause`], in the words that upstream has for it.
//!
//! Invariants: nothing is dialled that was not checked, a name is looked up once for a connection, and a
//! handshake ends within its time. Bodies go through while they come; of one that nobody reads little is
//! taken. No request waits for room on a connection that others have. Redirects are never followed here.
//!
//! This crate does not know what is sent, how long an answer may take or what it may say, nor what services
//! there are: where one is found is asked through [`Resolve`].

pub mod address;
pub mod cause;
pub mod client;
pub mod connect;
pub mod egress;
pub mod pool;
pub mod proxy;
pub mod tls;

pub use address::{Address, ClusterDns, Resolve};
pub use cause::Cause;
pub use client::{Body, Client, Outgoing, Read, Settings, empty, full};
pub use connect::Protocols;
pub use egress::{Egress, Network, Via};
pub use proxy::{Proxy, ProxyError};
pub use tls::{SetupError, Trust, client_certificate, client_tls};
