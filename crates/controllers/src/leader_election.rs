//! Which of several servers runs the controllers: the one that holds a Lease.
//!
//! As client-go's leader election, with the same fields. No server compares its clock with that of another. One that
//! waits counts, by its own clock, from when it saw the Lease change last. One that leads counts from before it began
//! the renewal that succeeded last, and ends what it runs after a shorter time: so it has ended before another may begin.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sternpost_clock::{Clock, Instant};
use sternpost_golang::time::Timestamp;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_store::Revision;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Failure, Part, Target, Verbs, Writer, served::Served};
use tokio::sync::oneshot;

use crate::follow::Follow;

pub const NAMESPACE: &str = "kube-system";

/// Of the Lease.
pub const NAME: &str = "sternpost-controllers";

/// How long a leader leads without being heard of, and what it does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Another one may lead when the Lease has not changed for so long. Whole seconds, as it is written.
    pub lease_duration: Duration,
    /// A leader that has not renewed it for so long ends what it runs.
    pub renew_deadline: Duration,
    /// How often it renews, and how soon what failed is tried again.
    pub retry_period: Duration,
}

impl Default for Timing {
    /// As kube-controller-manager's.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Times with which two could lead at once, or none for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    #[error("the lease has to last for a second at least")]
    TooShort,
    #[error("the lease has to last longer than the renew deadline")]
    Deadline,
    #[error("the renew deadline has to be longer than the retry period, which cannot be zero")]
    Retry,
}

impl Timing {
    pub fn check(self) -> Result<Self, TimingError> {
        if self.lease_duration < Duration::from_secs(1) {
            Err(TimingError::TooShort)
        } else if self.lease_duration <= self.renew_deadline {
            Err(TimingError::Deadline)
        } else if self.renew_deadline <= self.retry_period || self.retry_period.is_zero() {
            Err(TimingError::Retry)
        } else {
            Ok(self)
        }
    }
}

/// Takes part until it is told to stop. `lead` starts what only the leader runs, each time that this server becomes
/// it; all of that ends when it is the leader no more. At the end the Lease is given back, so that the next one begins at
/// once, and that is said.
pub async fn run(
    verbs: Arc<Verbs>,
    identity: String,
    timing: Timing,
    lead: impl Fn(&Tasks),
    mut stopped: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let Some(served) = verbs.served.get("coordination.k8s.io", "v1", "leases") else { return };
    let (_, changes) = Follow::start_in(verbs.clone(), served.clone(), NAMESPACE).await;
    let clock = verbs.clock.clone();
    let mut candidate = Candidate { verbs, served, identity, timing, clock, changes, seen: None };
    let stop = loop {
        let since = tokio::select! {
            biased;
            stop = &mut stopped => break stop,
            since = candidate.acquire() => since,
        };
        tracing::info!(identity = candidate.identity, "this server runs the controllers from now on");
        let tasks = Tasks::default();
        lead(&tasks);
        let stop = tokio::select! {
            biased;
            stop = &mut stopped => Some(stop),
            () = candidate.hold(since) => None,
        };
        tasks.end().await;
        if let Some(stop) = stop {
            break stop;
        }
        tracing::warn!(identity = candidate.identity, "this server runs the controllers no more");
    };
    candidate.release().await;
    // Whoever asked may have gone.
    if let Ok(answer) = stop {
        let _ = answer.send(());
    }
}

struct Candidate {
    verbs: Arc<Verbs>,
    served: Arc<Served>,
    /// Another one for each process.
    identity: String,
    timing: Timing,
    clock: Clock,
    /// Of Leases, which say when to look.
    changes: Follow,
    /// The revision that the Lease has, and when it was first seen to have it.
    seen: Option<(Revision, Instant)>,
}

/// What came of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// This server leads.
    Leads,
    /// Another one does, until then if it is not heard of.
    Other {
        until: Instant,
    },
    Failed,
}

impl Candidate {
    fn target(&self) -> Target<'_> {
        Target { served: &self.served, namespace: NAMESPACE, name: NAME }
    }

    /// Waits until this server leads. Returns from when on that counts.
    async fn acquire(&mut self) -> Instant {
        loop {
            let began = self.clock.now();
            let due = began + self.timing.renew_deadline;
            let clock = self.clock.clone();
            let attempt = clock.timeout_at(due, self.attempt()).await.unwrap_or(Attempt::Failed);
            let again = match attempt {
                // One that took too long is worth nothing any more.
                Attempt::Leads if clock.now() < due => return began,
                Attempt::Leads | Attempt::Failed => clock.now() + self.timing.retry_period,
                Attempt::Other { until } => until,
            };
            // Where it failed, a change may be why, and is no reason to hurry.
            if attempt == Attempt::Failed {
                clock.sleep_until(again).await;
            } else {
                let _ = clock.timeout_at(again, self.changes.next()).await;
            }
        }
    }

    /// Renews the Lease for as long as that succeeds; the last time was begun at `renewed`.
    async fn hold(&mut self, mut renewed: Instant) {
        let clock = self.clock.clone();
        let mut next = renewed + self.timing.retry_period;
        loop {
            let due = renewed + self.timing.renew_deadline;
            if clock.now() >= due {
                return;
            }
            // Another one's Lease is seen before it is time to renew.
            if clock.timeout_at(next.min(due), self.changes.next()).await.is_ok() {
                if self.is_of_another() {
                    return;
                }
                continue;
            }
            let began = clock.now();
            match clock.timeout_at(due, self.attempt()).await {
                Ok(Attempt::Leads) if clock.now() < due => renewed = began,
                Ok(Attempt::Other { .. }) => return,
                Ok(Attempt::Leads | Attempt::Failed) | Err(_) => {}
            }
            next = began + self.timing.retry_period;
        }
    }

    fn is_of_another(&self) -> bool {
        let lease = self.verbs.get(self.target());
        lease.is_ok_and(|lease| lease.value().field("spec").text("holderIdentity") != self.identity)
    }

    /// Writes the Lease as that of this server, if it is nobody else's.
    async fn attempt(&mut self) -> Attempt {
        let written = match self.verbs.get(self.target()) {
            Ok(found) => {
                let mut lease = found.value();
                let spec = lease.field("spec");
                let at = match self.seen {
                    Some((seen, at)) if seen == found.revision => at,
                    _ => self.clock.now(),
                };
                self.seen = Some((found.revision, at));
                let until = at + self.lasts(spec);
                let holder = spec.text("holderIdentity");
                if !holder.is_empty() && holder != self.identity && self.clock.now() < until {
                    return Attempt::Other { until };
                }
                self.fill(lease.object_mut("spec"));
                // With the version that was found: who was faster, keeps it.
                self.verbs.update(self.target(), lease, Part::Main, Writer::server()).await
            }
            Err(_) => {
                let mut lease = json!({"metadata": {"name": NAME, "namespace": NAMESPACE}});
                self.fill(lease.object_mut("spec"));
                let target = Target { name: "", ..self.target() };
                self.verbs.create(target, lease, Writer::server()).await
            }
        };
        match written {
            Ok(_) => Attempt::Leads,
            Err(failure) => {
                self.tell(&failure);
                Attempt::Failed
            }
        }
    }

    /// For how long its holder is believed, as it says itself.
    fn lasts(&self, spec: &Value) -> Duration {
        let seconds = spec.field("leaseDurationSeconds").as_u64();
        seconds.map_or(self.timing.lease_duration, Duration::from_secs)
    }

    fn fill(&self, spec: &mut Value) {
        let mut now = self.now();
        // A renewal that changes nothing would not be written, and not be seen by others.
        if spec.text("renewTime") == now.to_micro_time() {
            now = match now.nanos().checked_add(1000).filter(|nanos| *nanos < 1_000_000_000) {
                Some(nanos) => Timestamp::from_unix(now.seconds(), nanos),
                None => Timestamp::from_unix(now.seconds().saturating_add(1), 0),
            };
        }
        let now = now.to_micro_time();
        if spec.text("holderIdentity") != self.identity {
            let transitions = spec.field("leaseTransitions").as_i64();
            // The first one is none.
            spec.set("leaseTransitions", transitions.map_or(0, |count| count.saturating_add(1)));
            spec.set("holderIdentity", self.identity.as_str());
            spec.set("acquireTime", now.as_str());
        }
        spec.set("leaseDurationSeconds", self.timing.lease_duration.as_secs());
        spec.set("renewTime", now);
    }

    /// Gives the Lease back, if it is this server's. Left as it is it ends by itself.
    async fn release(&self) {
        let Ok(found) = self.verbs.get(self.target()) else { return };
        let mut lease = found.value();
        let spec = lease.object_mut("spec");
        if spec.text("holderIdentity") != self.identity {
            return;
        }
        let now = self.now().to_micro_time();
        spec.set("holderIdentity", "");
        spec.set("leaseDurationSeconds", 1);
        spec.set("acquireTime", now.as_str());
        spec.set("renewTime", now);
        if let Err(failure) = self.verbs.update(self.target(), lease, Part::Main, Writer::server()).await {
            self.tell(&failure);
        }
    }

    fn now(&self) -> Timestamp {
        let now = self.clock.since_1970();
        Timestamp::from_unix(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
    }

    fn tell(&self, failure: &Failure) {
        // Another one was faster.
        if failure.code() != 409 {
            tracing::warn!(status = %failure, "the lease of the controllers cannot be written");
        }
    }
}
