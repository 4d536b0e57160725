//! What the server does on its own account, beside answering requests.
//!
//! [`definitions`] keeps the table of custom resources up with their
//! definitions, gives definitions their names and clears up behind them. [`start`]
//! runs what upstream has in its controller manager: the end of namespaces, garbage
//! collection, what every namespace has, quotas, aggregated roles, tokens in
//! secrets, storage that is in use, and the end of events. Each can be switched off ([`switches`]). Where several
//! servers write to one store, one of them runs these ([`leader_election`]).
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
pub mod leader_election;
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

use sternpost_tasks::Tasks;
use sternpost_verbs::Verbs;

pub use namespaces::Unserved;
use switches::{Controller, Switches};
pub use token_secrets::{SecretToken, Sign};

/// For how long events are kept, as upstream.
pub const EVENT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// What controllers need to know.
#[derive(Clone)]
pub struct Options {
    pub switches: Switches,
    /// How long a namespace that goes away is left to others first.
    pub namespace_delay: Duration,
    /// What of a namespace only others serve, where there are others.
    pub unserved: Option<Arc<dyn Unserved>>,
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

/// Starts the controllers that are on. All that they are is in `tasks`: when those have ended they can be started again.
pub fn start(verbs: &Arc<Verbs>, tasks: &Tasks, options: Options) {
    let Options { switches, namespace_delay, unserved, authority, event_lifetime, sign } = options;
    let start = Start { verbs, tasks, switches: &switches };
    start.run(switches::NAMESPACE, move |verbs| namespaces::run(verbs, namespace_delay, unserved.clone()));
    let events = tasks.clone();
    start.run(switches::GARBAGE, move |verbs| garbage::run(verbs, events.clone()));
    start.run(switches::SERVICE_ACCOUNT, per_namespace::service_accounts);
    let shown = authority.clone();
    start.run(switches::ROOT_CA, move |verbs| per_namespace::root_certificates(verbs, shown.clone()));
    start.run(switches::TOKEN, move |verbs| token_secrets::run(verbs, authority.clone(), sign.clone()));
    start.run(switches::QUOTA, quotas::run);
    start.run(switches::AGGREGATION, aggregation::run);
    start.run(switches::POLICY_STATUS, policies_status::run);
    start.run(switches::CLAIM_PROTECTION, protection::claims);
    start.run(switches::VOLUME_PROTECTION, protection::volumes);
    start.run(switches::ATTRIBUTES_CLASS_PROTECTION, protection::attributes_classes);
    if verbs.expires_events() {
        return;
    }
    start.run(switches::EVENT_TTL, move |verbs| event_ttl::run(verbs, event_lifetime));
}

struct Start<'a> {
    verbs: &'a Arc<Verbs>,
    tasks: &'a Tasks,
    switches: &'a Switches,
}

impl Start<'_> {
    /// A controller learns all it needs when it begins, so that it can begin again.
    fn run<Work>(&self, which: Controller, controller: impl Fn(Arc<Verbs>) -> Work + Send + 'static)
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        if self.switches.is_on(which) {
            let verbs = self.verbs.clone();
            self.tasks.forever(which.name, move || controller(verbs.clone()));
        }
    }
}
