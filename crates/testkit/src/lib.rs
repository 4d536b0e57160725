//! What tests of several crates need, and nothing else uses.
//!
//! - [`recorded::Suite`] makes every recorded case a test with a name of its own.
//! - [`etcd::Etcd`] is a real etcd, if there is one.
//! - `process::Process` is `sternpost serve` in a process of its own, `server::Server` is one with a client.
//! - `peer::KubeApiserver` is a real kube-apiserver, if there is one, with the same client.
//! - `client::Connector` opens connections to a server that may end at any time.
//! - `http2::Http2Server` is any other server, whose connections can be counted and broken.
//! - `kms::Plugin` is a plugin of KMS v2 that does as it is told.
//! - [`scratch::Scratch`] is a directory, `authority::Authority` issues certificates.
//! - `store::DifficultStore` is a store that hesitates, or is written by others.
//! - `shared_store::SharedStore` is what one of several servers has of a store.
//! - `webhook::Server` is a webhook that does as it is told.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    missing_debug_implementations,
    reason = "a test fails by panicking, and waits in the machine's time"
)]

#[cfg(feature = "servers")]
pub mod authority;
#[cfg(feature = "servers")]
pub mod client;
pub mod etcd;
#[cfg(feature = "servers")]
pub mod http2;
#[cfg(all(feature = "kms", target_os = "linux"))]
pub mod kms;
#[cfg(feature = "servers")]
pub mod peer;
#[cfg(feature = "servers")]
pub mod process;
pub mod recorded;
pub mod scratch;
#[cfg(feature = "servers")]
pub mod server;
#[cfg(feature = "store")]
pub mod shared_store;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "servers")]
pub mod tls;
#[cfg(feature = "servers")]
pub mod webhook;
