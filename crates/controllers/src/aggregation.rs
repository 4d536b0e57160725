//! Cluster roles that are made of others: their rules are those of the roles that they select.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_cache::Snapshot;
use sternpost_meta::selector::LabelSelector;
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{Failure, Part, Target, Verbs, Writer, served::Served};

use crate::{follow::Follow, identity};

const GROUP: &str = "rbac.authorization.k8s.io";

/// In whose name the rules are owned.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Aggregates until the process ends.
pub(crate) async fn run(verbs: Arc<Verbs>) {
    let Some(served) = verbs.served.get(GROUP, "v1", "clusterroles") else { return };
    let (_, mut follow) = Follow::start(verbs.clone(), served.clone()).await;
    loop {
        let is_left = settle(&verbs, &served).await;
        follow.changed(is_left).await;
    }
}

/// Whether something is left to do.
async fn settle(verbs: &Verbs, served: &Served) -> bool {
    let roles = verbs.cache.resource(&served.id).snapshot();
    let mut failed = false;
    for role in roles.iter(None, None).filter(|role| role.mentions("\"aggregationRule\"")) {
        let value = role.value();
        let selectors = value.field("aggregationRule").items("clusterRoleSelectors");
        if !value.has("aggregationRule") {
            continue;
        }
        let rules = rules(&roles, role.name(), selectors);
        if rules == value.items("rules") {
            continue;
        }
        if let Err(status) = write(verbs, served, role.name(), rules).await
            && status.code() != 404
        {
            tracing::warn!(role = role.name(), %status, "the rules of a role cannot be aggregated yet");
            failed = true;
        }
    }
    failed
}

/// The rules of all roles that a selector selects, by selector and then by name, each rule once.
fn rules(roles: &Snapshot, name: &str, selectors: &[Value]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| LabelSelector::from_object(selector).ok()) {
        let selected = roles.iter(None, None).filter(|role| role.name() != name);
        for role in selected.filter(|role| selector.matches_with(|key| role.label(key))) {
            for rule in role.value().items("rules") {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

async fn write(verbs: &Verbs, served: &Served, name: &str, rules: Vec<Value>) -> Result<(), Failure> {
    let mut config = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name},
    });
    if !rules.is_empty() {
        config.set("rules", rules);
    }
    // The server itself: nobody else may grant what it does not have.
    let writer = Writer { manager: MANAGER, ..Writer::server() };
    let target = Target { served, namespace: "", name };
    identity::apply(verbs, target, config, Part::Main, writer).await
}
