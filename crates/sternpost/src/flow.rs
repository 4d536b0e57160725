//! Flow control, from its flags and from the objects that describe it.

use std::{sync::Arc, time::Duration};

use clap::Args;
use serde_json::Value;
use sternpost_cache::{Cache, ResourceCache, ResourceId, Snapshot};
use sternpost_flow::{Control, Limits};
use sternpost_tasks::Tasks;

use crate::serve;

/// How many requests are worked on at once, in the spelling of kube-apiserver.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flow control")]
pub struct FlowArgs {
    /// Whether requests wait for each other by flow schemas and priority levels
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_priority_and_fairness: bool,

    /// Together with --max-mutating-requests-inflight: requests worked on at once
    #[arg(long, value_name = "NUMBER", default_value_t = 400)]
    pub max_requests_inflight: usize,

    /// Together with --max-requests-inflight: requests worked on at once
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
}

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// How long a request waits for its turn before it is sent away: a quarter of the time it has.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts following the schemas and levels. `None` if there is to be no flow control.
pub fn start(args: &FlowArgs, cache: &Arc<Cache>, tasks: &Tasks) -> Option<Arc<Control>> {
    if !args.enable_priority_and_fairness {
        return None;
    }
    let limits = Limits {
        requests: args.max_requests_inflight.saturating_add(args.max_mutating_requests_inflight).max(1),
        turns: serve::workers(),
        patience: QUEUE_TIMEOUT,
    };
    let control = Arc::new(Control::new(limits));
    let [schemas, levels] = ["flowschemas", "prioritylevelconfigurations"]
        .map(|plural| cache.resource(&ResourceId::new(GROUP, plural)));
    let follower = control.clone();
    tasks.forever("flow-control", move || follow(follower.clone(), schemas.clone(), levels.clone()));
    Some(control)
}

async fn follow(control: Arc<Control>, schemas: Arc<ResourceCache>, levels: Arc<ResourceCache>) {
    let (new_schemas, new_levels) = (schemas.waiter(), levels.waiter());
    loop {
        let (now, levels) = (schemas.snapshot(), levels.snapshot());
        control.configure(&values(&now), &values(&levels));
        tokio::select! {
            () = new_schemas.changed(now.seen()) => {}
            () = new_levels.changed(levels.seen()) => {}
        }
    }
}

fn values(snapshot: &Snapshot) -> Vec<Value> {
    snapshot.iter(None, None).map(|object| object.value()).collect()
}
