//! The checks behind `/healthz`, `/livez` and `/readyz`, by upstream's names and in its order.
//!
//! Each is about something that is here. Names of what is not here are left out: the loopback
//! certificate, the peers' endpoints, repairs of addresses, the tracking of old tokens, object counts.

use std::sync::Arc;

use sternpost_controllers::switches::SERVER_LEASE;
use sternpost_http::health::{Health, Hook, On};
use sternpost_tasks::Tasks;

use crate::{
    cli::{AuthorizationMode, ServeArgs},
    encryption::AtRest,
    logging,
    objects::StoreCheck,
};

/// The steps of the start. Each is done when what it is named for serves.
#[derive(Debug, Default)]
pub struct Start {
    /// The store, the cache, admission, and the objects that are there before any client comes.
    pub objects: Hook,
    /// Custom resources.
    pub definitions: Hook,
    /// Flow schemas and priority levels.
    pub flow: Hook,
    /// Other servers, and what they are told of this one.
    pub aggregation: Hook,
    /// The Lease of this server.
    pub lease: Hook,
}

/// `stores` are that of all objects, and those of resources that have one of their own. `at_rest` if values are encrypted by plugins, or may be when a file changes.
pub fn checks(
    args: &ServeArgs,
    stores: Vec<StoreCheck>,
    at_rest: Option<Arc<AtRest>>,
    tasks: &Tasks,
) -> (Health, Start) {
    let start = Start::default();
    let mut health = Health::default();
    health.add("log", On::All, Box::new(logging::check));
    for (number, StoreCheck { answering, refusing }) in stores.into_iter().enumerate() {
        let (answers, is_ready) = match number.checked_sub(1) {
            None => ("etcd".into(), "etcd-readiness".into()),
            Some(number) => {
                (format!("etcd-override-{number}").into(), format!("etcd-override-readiness-{number}").into())
            }
        };
        health.add_named(answers, On::All, answering);
        // A server that cannot write is not ready, though it answers reads.
        let writable =
            move || refusing().map_or(Ok(()), |reason| Err(format!("writes are refused: {reason}")));
        health.add_named(is_ready, On::ReadyzOnly, Box::new(writable));
    }
    // Reads and what is not encrypted by a plugin go on without it.
    if let Some(at_rest) = at_rest {
        health.add("kms-providers", On::AllButLivez, Box::new(move || at_rest.health()));
    }
    // Without the tasks that follow objects, what is answered grows old.
    let (synced, tasks) = (start.objects.clone(), tasks.clone());
    health.add("informer-sync", On::ReadyzOnly, Box::new(move || in_sync(&synced, &tasks)));

    let reloads = args.encryption_provider_config_automatic_reload;
    let flow = args.flow.enable_priority_and_fairness;
    let roles = args.authorization_mode == AuthorizationMode::Rbac;
    let lease = args.switches().is_ok_and(|switches| switches.is_on(SERVER_LEASE));
    let Start { objects, definitions, flow: flows, aggregation, lease: leases } = &start;
    for (name, step, there) in [
        ("poststarthook/start-apiserver-admission-initializer", objects, true),
        ("poststarthook/start-encryption-provider-config-automatic-reload", objects, reloads),
        ("poststarthook/generic-apiserver-start-informers", objects, true),
        ("poststarthook/priority-and-fairness-config-consumer", flows, flow),
        ("poststarthook/priority-and-fairness-filter", flows, flow),
        ("poststarthook/start-apiextensions-informers", definitions, true),
        ("poststarthook/start-apiextensions-controllers", definitions, true),
        ("poststarthook/crd-informer-synced", definitions, true),
        ("poststarthook/start-system-namespaces-controller", objects, true),
        ("poststarthook/start-cluster-authentication-info-controller", aggregation, true),
        ("poststarthook/start-kube-apiserver-identity-lease-controller", leases, lease),
        ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", leases, lease),
        ("poststarthook/storage-readiness", objects, true),
        ("poststarthook/rbac/bootstrap-roles", objects, roles),
        ("poststarthook/scheduling/bootstrap-system-priority-classes", objects, true),
        ("poststarthook/priority-and-fairness-config-producer", objects, flow),
        ("poststarthook/bootstrap-controller", objects, true),
        ("poststarthook/start-kubernetes-service-cidr-controller", objects, true),
        ("poststarthook/start-kube-aggregator-informers", aggregation, true),
        ("poststarthook/apiservice-status-local-available-controller", aggregation, true),
        ("poststarthook/apiservice-status-remote-available-controller", aggregation, true),
        ("poststarthook/apiservice-registration-controller", aggregation, true),
        ("poststarthook/apiservice-discovery-controller", aggregation, true),
        ("poststarthook/kube-apiserver-autoregistration", aggregation, true),
        ("autoregister-completion", aggregation, true),
        ("poststarthook/apiservice-openapi-controller", aggregation, true),
        ("poststarthook/apiservice-openapiv3-controller", aggregation, true),
    ] {
        if there {
            health.add_hook(name, On::All, step);
        }
    }
    (health, start)
}

fn in_sync(synced: &Hook, tasks: &Tasks) -> Result<(), String> {
    match tasks.broken().as_slice() {
        [] if synced.is_done() => Ok(()),
        [] => Err("not finished".to_owned()),
        broken => Err(format!("no longer running: {}", broken.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_without_an_essential_task_is_not_ready() {
        let (synced, tasks) = (Hook::default(), Tasks::default());
        assert_eq!(in_sync(&synced, &tasks), Err("not finished".into()));
        synced.done();
        assert_eq!(in_sync(&synced, &tasks), Ok(()));
        tasks.essential("definitions", async { panic!("on purpose") });
        while tasks.broken().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(in_sync(&synced, &tasks), Err("no longer running: definitions".into()));
    }
}
