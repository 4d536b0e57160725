//! The Lease by which others see that this server lives, and where it is.
//!
//! As upstream: made anew at every start, renewed every ten seconds, deleted at the end, and those
//! of servers that ended without doing so are deleted when they have expired.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_golang::time::Timestamp;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{DeleteOptions, Failure, Part, Target, Verbs, Writer, served::Served};
use tokio::sync::oneshot;

const NAMESPACE: &str = "kube-system";

/// Says whose a Lease is.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const HOSTNAME: &str = "kubernetes.io/hostname";
const ADDRESS: &str = "kubernetes.io/peer-advertise-address";

/// Whose tokens the server accepts, in JSON: for others of its kind. kube-apiserver does not say it.
pub const TRUST: &str = "sternpost.dev/service-account-trust";

/// Which resources the server has in an etcd of their own, if any: for others of its kind.
pub const OVERRIDES: &str = "sternpost.dev/etcd-servers-overrides";

/// A server whose Lease was not renewed for so long is gone.
const SILENCE_SECONDS: i64 = 60;

const DURATION_SECONDS: i64 = 3600;
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// How often Leases of other servers are looked at.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(3600);

/// Who the server is.
#[derive(Debug, Clone)]
pub struct ServerIdentity {
    /// Of the Lease, the same after a restart.
    pub name: String,
    /// Another one for each process.
    pub holder: String,
    pub hostname: String,
    /// `HOST:PORT`.
    pub address: String,
    /// What it says at [`TRUST`]; nothing where there are no others.
    pub trust: Option<String>,
}

/// Keeps the Lease until it is told to stop; then deletes it, and says when it has.
pub async fn run(
    verbs: Arc<Verbs>,
    identity: ServerIdentity,
    mut stopped: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let Some(served) = verbs.served.get("coordination.k8s.io", "v1", "leases") else { return };
    let lease = ServerLease { verbs, served, identity };
    // Of the process before: nobody is to look for that one.
    lease.delete(&lease.identity.name).await;
    let clock = lease.verbs.clock.clone();
    let mut look = clock.now();
    loop {
        if let Err(status) = lease.renew().await {
            tracing::warn!(%status, "the lease of this server cannot be renewed");
        }
        if look <= clock.now() {
            lease.delete_expired().await;
            look = clock.now() + GARBAGE_INTERVAL;
        }
        let stop = clock.timeout_at(clock.now() + RENEW_INTERVAL, &mut stopped).await;
        if let Ok(stop) = stop {
            lease.delete(&lease.identity.name).await;
            // Whoever asked may have gone; without one the process ends.
            if let Ok(answer) = stop {
                let _ = answer.send(());
            }
            return;
        }
    }
}

struct ServerLease {
    verbs: Arc<Verbs>,
    served: Arc<Served>,
    identity: ServerIdentity,
}

impl ServerLease {
    async fn renew(&self) -> Result<(), Failure> {
        let target = Target { served: &self.served, namespace: NAMESPACE, name: &self.identity.name };
        match self.verbs.get(target) {
            Ok(found) => {
                let mut object = found.value();
                self.complete(&mut object);
                self.verbs.update(target, object, Part::Main, Writer::server()).await?;
            }
            Err(_) => {
                let mut object = json!({"metadata": {"name": self.identity.name, "namespace": NAMESPACE}});
                self.complete(&mut object);
                self.verbs.create(Target { name: "", ..target }, object, Writer::server()).await?;
            }
        }
        Ok(())
    }

    /// What upstream sets each time, whatever others have written.
    fn complete(&self, lease: &mut Value) {
        let metadata = lease.object_mut("metadata");
        let labels = metadata.object_mut("labels");
        labels.set(IDENTITY.0, IDENTITY.1);
        labels.set(HOSTNAME, self.identity.hostname.as_str());
        let annotations = metadata.object_mut("annotations");
        annotations.set(ADDRESS, self.identity.address.as_str());
        if let Some(trust) = &self.identity.trust {
            annotations.set(TRUST, trust.as_str());
        }
        if self.verbs.cache.is_divided() {
            annotations.set(OVERRIDES, self.verbs.cache.overrides().to_string());
        } else {
            annotations.remove(OVERRIDES);
        }
        let spec = lease.object_mut("spec");
        spec.set("holderIdentity", self.identity.holder.as_str());
        spec.set("leaseDurationSeconds", DURATION_SECONDS);
        if let Some(now) = now(&self.verbs) {
            spec.set("renewTime", now.to_micro_time());
        }
    }

    async fn delete_expired(&self) {
        let Some(now) = now(&self.verbs) else { return };
        let snapshot = self.verbs.cache.resource(&self.served.id).snapshot();
        let leases = snapshot.iter(None, None).filter(|lease| lease.namespace() == NAMESPACE);
        let expired =
            leases.filter(|lease| is_expired(&lease.value(), now)).map(|lease| lease.name().to_owned());
        for name in expired.collect::<Vec<_>>() {
            self.delete(&name).await;
        }
    }

    async fn delete(&self, name: &str) {
        let target = Target { served: &self.served, namespace: NAMESPACE, name };
        match self.verbs.delete(target, &DeleteOptions::default(), Writer::server()).await {
            Err(status) if status.code() != 404 => {
                tracing::warn!(name, %status, "the lease of a server cannot be deleted");
            }
            _ => {}
        }
    }
}

/// Whether a Lease is that of a server which lives.
pub fn is_renewed(lease: &Value, now: Timestamp) -> bool {
    let renewed = Timestamp::parse_micro_time(lease.field("spec").text("renewTime"));
    lease.field("metadata").field("labels").text(IDENTITY.0) == IDENTITY.1
        && renewed.is_ok_and(|renewed| now.seconds_since(renewed) <= SILENCE_SECONDS)
}

/// Whether a Lease is that of a server, and was not renewed for as long as it says.
fn is_expired(lease: &Value, now: Timestamp) -> bool {
    let labels = lease.field("metadata").field("labels");
    let spec = lease.field("spec");
    let renewed = spec.text("renewTime");
    let lasts = spec.field("leaseDurationSeconds").as_i64();
    labels.text(IDENTITY.0) == IDENTITY.1
        && match (Timestamp::parse_micro_time(renewed), lasts) {
            (Ok(renewed), Some(lasts)) => now.seconds_since(renewed) > lasts,
            // Without them nobody renews it.
            _ => true,
        }
}

fn now(verbs: &Verbs) -> Option<Timestamp> {
    Timestamp::parse_time(&verbs.now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_servers_expire_and_others_do_not() {
        let now = Timestamp::parse_time("2026-01-01T01:00:01Z").unwrap();
        let lease = |identity: &str, spec: Value| json!({"metadata": {"labels": {"apiserver.kubernetes.io/identity": identity}}, "spec": spec});
        let renewed = |time: &str| json!({"renewTime": time, "leaseDurationSeconds": 3600});
        for (identity, spec, expected) in [
            ("kube-apiserver", renewed("2026-01-01T00:00:00.000000Z"), true),
            ("kube-apiserver", renewed("2026-01-01T00:00:01.000000Z"), false),
            ("kube-apiserver", json!({}), true),
            ("another", renewed("2020-01-01T00:00:00.000000Z"), false),
            ("", json!({}), false),
        ] {
            assert_eq!(is_expired(&lease(identity, spec.clone()), now), expected, "{identity} {spec}");
        }
    }
}
