//! What `kubectl get` shows.

use serde_json::{Value, json};
use sternpost_golang::time::Timestamp;
use sternpost_meta::age::human_duration;

use crate::{
    object::Fields,
    table::{
        AGE, Cell, Column, NAME, NONE, column, computed, moment,
        text::{condition, or},
    },
};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    computed(
        "Ready",
        |pod| {
            let summary = Summary::of(pod);
            format!("{}/{}", summary.ready, summary.total).into()
        },
        "Containers that are ready, of those that should be.",
    ),
    computed(
        "Status",
        |pod| Summary::of(pod).status.into(),
        "The phase of the pod, or what keeps it from going on.",
    ),
    column(
        "Restarts",
        Cell::Timed(|pod, now| Summary::of(pod).restarts.text(now).into()),
        "How often containers were started again, and when last.",
    ),
    AGE,
    computed("IP", ip, "The first address of the pod.").wide(),
    column("Node", Cell::TextOr("/spec/nodeName", NONE), "The node the pod is bound to.").wide(),
    column(
        "Nominated Node",
        Cell::TextOr("/status/nominatedNodeName", NONE),
        "The node where room is being made for the pod.",
    )
    .wide(),
    computed("Readiness Gates", readiness_gates, "Extra conditions that are true, of those asked for.")
        .wide(),
];

/// Tells a watcher that the pod will not run again.
pub(super) fn row_condition(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.field("status").text("phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn ip(pod: &Value) -> Value {
    let ip = pod.field("status").items("podIPs").first().map_or("", |ip| ip.text("ip"));
    or(ip.into(), NONE).into()
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = pod.field("spec").items("readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let passed = gates.iter().filter(|gate| is_true(pod, gate.text("conditionType"))).count();
    format!("{passed}/{}", gates.len()).into()
}

fn is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| condition.text("status") == "True")
}

/// What the statuses of all containers come to.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars = pod.field("spec").items("initContainers").iter().filter(|init| is_sidecar(init));
        let mut summary = Self {
            ready: 0,
            total: pod.field("spec").items("containers").len() + sidecars.count(),
            status: before_containers(pod),
            restarts: Restarts::default(),
        };
        let (done, sidecar_restarts) = summary.initialise(pod);
        if done || is_true(pod, "Initialized") {
            // Restarts of finished init containers no longer matter.
            summary.restarts = sidecar_restarts;
            summary.run(pod);
        }
        if pod.field("metadata").has("deletionTimestamp") {
            let status = pod.field("status");
            if status.text("reason") == "NodeLost" {
                summary.status = "Unknown".into();
            } else if !matches!(status.text("phase"), "Succeeded" | "Failed") {
                summary.status = "Terminating".into();
            }
        }
        summary
    }

    /// Goes through the init containers up to the first that is not done. Says
    /// whether all are, and how often the sidecars among those seen restarted.
    fn initialise(&mut self, pod: &Value) -> (bool, Restarts) {
        let mut sidecar_restarts = Restarts::default();
        let statuses = pod.field("status").items("initContainerStatuses");
        for (index, status) in statuses.iter().enumerate() {
            let is_sidecar = has_sidecar(pod, status.text("name"));
            self.restarts.add(status);
            if is_sidecar {
                sidecar_restarts.add(status);
            }
            let (waiting, terminated) = (status.state("waiting"), status.state("terminated"));
            if terminated.is_some_and(|terminated| terminated.int("exitCode").unwrap_or(0) == 0) {
                continue;
            }
            if is_sidecar && status.flag("started") {
                self.ready += usize::from(status.flag("ready"));
                continue;
            }
            let waits_for = waiting.map_or("", |waiting| waiting.text("reason"));
            self.status = match terminated {
                Some(terminated) => format!("Init:{}", end_of(terminated)),
                None if !matches!(waits_for, "" | "PodInitializing") => format!("Init:{waits_for}"),
                None => format!("Init:{index}/{}", pod.field("spec").items("initContainers").len()),
            };
            return (false, sidecar_restarts);
        }
        (true, sidecar_restarts)
    }

    /// Goes through the containers; the first one that has something to say wins.
    fn run(&mut self, pod: &Value) {
        let mut any_runs = false;
        let mut failure = None;
        for status in pod.field("status").items("containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waits_for = status.state("waiting").map_or("", |waiting| waiting.text("reason"));
            if !waits_for.is_empty() {
                self.status = waits_for.into();
            } else if let Some(terminated) = status.state("terminated") {
                self.status = end_of(terminated);
                if terminated.int("exitCode").unwrap_or(0) != 0 {
                    failure = Some(self.status.clone());
                }
            } else if status.flag("ready") && status.state("running").is_some() {
                any_runs = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            // One container is done, but that need not be all there is to say.
            if any_runs && is_true(pod, "Ready") {
                self.status = "Running".into();
            } else if let Some(failure) = failure {
                self.status = failure;
            } else if any_runs {
                self.status = "NotReady".into();
            }
        }
    }
}

/// What is to say of a pod as long as its containers say nothing.
fn before_containers(pod: &Value) -> String {
    let status = pod.field("status");
    let gated = |condition: &Value| {
        condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated"
    };
    if status.items("conditions").iter().any(gated) {
        return "SchedulingGated".into();
    }
    or(status.text("reason").into(), status.text("phase"))
}

fn end_of(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.int("signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated.int("exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

/// An init container that keeps running beside the others.
fn is_sidecar(init: &Value) -> bool {
    init.text("restartPolicy") == "Always"
}

fn has_sidecar(pod: &Value, name: &str) -> bool {
    let inits = pod.field("spec").items("initContainers");
    inits.iter().any(|init| init.text("name") == name && is_sidecar(init))
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(status.int("restartCount").unwrap_or(0));
        let finished = moment(status.field("lastState").field("terminated").field("finishedAt"));
        self.last = self.last.max(finished);
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count > 0 => {
                format!("{} ({} ago)", self.count, human_duration(now.seconds_since(last)))
            }
            _ => self.count.to_string(),
        }
    }
}

trait ContainerStatus {
    fn state(&self, name: &str) -> Option<&Value>;
}

impl ContainerStatus for Value {
    fn state(&self, name: &str) -> Option<&Value> {
        self.field("state").get_field(name)
    }
}
