//! What the server does on its own account, beside answering requests.
//!
//! [`definitions`] keeps the table of custom resources up with their
//! definitions, gives definitions their names and clears up behind them. [`start`]
//! runs what upstream has in its controller manager: the end of namespaces, garbage
//! collection, what every namespace has, quotas, aggregated roles, tokens in
//! secrets, storage that is in use, and the end of events. Each can be switched off ([`switches`]).
//!
//! Invariants: a controller learns of the world by watching the cache and changes
//! it by the same verbs as everybody else; it writes only on condition that what it
//! decided about is still so; whatever it has not finished when the process ends it
//! begins again when the next one starts.
//!
//! This crate does not know HTTP, nor what is published of what it installs.

mod aggregation;
pub mod api_services;
pub mod definitions;
mod event_ttl;
mod follow;
mod garbage;
mod identity;
mod namespaces;
mod per_namespace;
mod policies_status;
mod protection;
mod quotas;
pub mod server_lease;
mod streams;
pub mod switches;
mod token_secrets;

use std::{sync::Arc, time::Duration};

use sternpost_verbs::Registry;

use switches::Switches;
pub use token_secrets::{SecretToken, Sign};

/// For how long events are kept, as upstream.
pub const EVENT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// What controllers need to know.
pub struct Options {
    pub switches: Switches,
    /// How long a namespace that goes away is left to others first.
    pub namespace_delay: Duration,
    /// The authority that vouches for this server, in PEM.
    pub authority: String,
    /// How long an event stays after it was last written.
    pub event_lifetime: Duration,
    /// Makes tokens for secrets.
    pub sign: Arc<Sign>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Options").field("switches", &self.switches).finish_non_exhaustive()
    }
}

/// Starts the controllers that are on. They end with the runtime.
pub fn start(registry: &Arc<Registry>, options: Options) {
    let Options { switches, namespace_delay, authority, event_lifetime, sign } = options;
    let registry = || registry.clone();
    if switches.is_on(switches::NAMESPACE) {
        tokio::spawn(namespaces::run(registry(), namespace_delay));
    }
    if switches.is_on(switches::GARBAGE) {
        tokio::spawn(garbage::run(registry()));
    }
    if switches.is_on(switches::SERVICE_ACCOUNT) {
        tokio::spawn(per_namespace::service_accounts(registry()));
    }
    if switches.is_on(switches::ROOT_CA) {
        tokio::spawn(per_namespace::root_certificates(registry(), authority.clone()));
    }
    if switches.is_on(switches::TOKEN) {
        tokio::spawn(token_secrets::run(registry(), authority, sign));
    }
    if switches.is_on(switches::QUOTA) {
        tokio::spawn(quotas::run(registry()));
    }
    if switches.is_on(switches::AGGREGATION) {
        tokio::spawn(aggregation::run(registry()));
    }
    if switches.is_on(switches::POLICY_STATUS) {
        tokio::spawn(policies_status::run(registry()));
    }
    if switches.is_on(switches::CLAIM_PROTECTION) {
        tokio::spawn(protection::claims(registry()));
    }
    if switches.is_on(switches::VOLUME_PROTECTION) {
        tokio::spawn(protection::volumes(registry()));
    }
    if switches.is_on(switches::ATTRIBUTES_CLASS_PROTECTION) {
        tokio::spawn(protection::attributes_classes(registry()));
    }
    if switches.is_on(switches::EVENT_TTL) {
        tokio::spawn(event_ttl::run(registry(), event_lifetime));
    }
}
