//! The end of a definition: first its objects go, then it does.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use sternpost_clock::machine;
use sternpost_crd::{definition::is_established, names::Condition};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{
    DeleteOptions, Failure, Selection, Target, Verbs, Writer, definitions, served::Served,
};

use super::{naming::writer, target};

/// How long to wait before trying again what failed or is not finished: objects
/// may wait for their own finalizers for as long as they like.
const AGAIN: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);

pub(super) async fn run(verbs: Arc<Verbs>, served: Arc<Served>, name: String) {
    let mut waited = Duration::ZERO;
    while let Err(problem) = step(&verbs, &served, &name).await {
        match problem {
            Unfinished::Gone => return,
            Unfinished::Waiting => {}
            Unfinished::Failed(status) if status.code() == 409 || status == Failure::Superseded => {}
            Unfinished::Failed(status) => {
                tracing::warn!(name, %status, "a definition cannot be cleared up yet");
            }
        }
        let pause = if waited < LATER { AGAIN } else { LATER };
        waited += pause;
        machine::sleep(pause).await;
    }
}

/// Built-in resources that upstream keeps where it would keep the objects of a definition of this name.
const OVERLAPPING: [(&str, &str); 2] =
    [("apiregistration.k8s.io", "apiservices"), (definitions::GROUP, definitions::PLURAL)];

enum Unfinished {
    /// Nothing is left to do.
    Gone,
    /// Objects are still there.
    Waiting,
    Failed(Failure),
}

impl<F: Into<Failure>> From<F> for Unfinished {
    fn from(failure: F) -> Self {
        let failure = failure.into();
        if failure.code() == 404 { Self::Gone } else { Self::Failed(failure) }
    }
}

async fn step(verbs: &Verbs, served: &Served, name: &str) -> Result<(), Unfinished> {
    let crd = verbs.get(target(served, name))?.value();
    let metadata = crd.field("metadata");
    if !metadata.items("finalizers").iter().any(|finalizer| finalizer == definitions::FINALIZER) {
        // Whatever else it waits for is not our business.
        return Err(Unfinished::Gone);
    }
    // Whoever deletes objects does it under the definition as it is now: going away.
    verbs.definitions_in_effect().await;
    let objects = verbs.served.customs.installed(name).and_then(|installed| installed.stored.clone());
    if let Some(objects) = objects {
        delete_all(verbs, &objects).await?;
        verbs.check_all_readable(&objects.id, None)?;
        if !verbs.cache.resource(&objects.id).snapshot().is_empty() {
            // They wait for somebody else, which is worth telling.
            let why = "CustomResource deletion is in progress";
            let condition = terminating(true, "InstanceDeletionInProgress", why);
            let now = verbs.now();
            let change = |crd: &mut Value| definitions::set_condition_of(crd, &condition, &now);
            verbs.change_own(target(served, name), change, writer()).await?;
            return Err(Unfinished::Waiting);
        }
    }
    let now = verbs.now();
    let let_go = |crd: &mut Value| {
        let all = crd.field("metadata").items("finalizers").iter();
        let others: Vec<Value> = all.filter(|name| *name != definitions::FINALIZER).cloned().collect();
        if !others.is_empty() {
            // It stays for somebody else, and so does what became of its objects. In one write:
            // whoever sees that they are gone finds no finalizer of ours.
            definitions::set_condition_of(crd, &outcome(crd), &now);
        }
        crd.object_mut("metadata").set("finalizers", others);
    };
    verbs.change_own(target(served, name), let_go, writer()).await?;
    Ok(())
}

/// What a definition says of its objects when none is left.
fn outcome(crd: &Value) -> Condition {
    let (group, plural) = (crd.field("spec").text("group"), crd.field("spec").field("names").text("plural"));
    let (reason, message) = if OVERLAPPING.contains(&(group, plural)) {
        ("OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
    } else if is_established(crd) {
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    terminating(false, reason, message)
}

fn terminating(status: bool, reason: &str, message: &str) -> Condition {
    Condition { kind: "Terminating", status, reason: reason.into(), message: message.into() }
}

async fn delete_all(verbs: &Verbs, objects: &Served) -> Result<(), Failure> {
    let all = Target { served: objects, namespace: "", name: "" };
    let options = DeleteOptions::default();
    verbs.delete_collection(all, &Selection::default(), 0, &options, Writer::server()).await.map(|_| ())
}
