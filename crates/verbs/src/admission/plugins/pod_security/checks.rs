//! The checks of a level, by version, and what pods look like to them.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;
use sternpost_registry::object::Fields;

use super::{
    baseline,
    policy::{Level, Standard, Version},
    restricted,
};

/// What a check finds wrong: `reason (detail)`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: impl Into<String>) -> Option<Self> {
        Some(Self { reason: reason.into(), detail: detail.into() })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

/// What a rule finds wrong, if anything.
pub(super) type Rule = fn(&Pod<'_>) -> Option<Violation>;

/// One rule of a level.
pub(super) struct Check {
    /// Since which minor version it reads so; the newest that is not newer than
    /// the one asked for counts, before the first there is no such rule.
    pub(super) since: &'static [(u32, Rule)],
    /// The rule of the level below that it is the stricter form of.
    pub(super) instead_of: Option<&'static Check>,
}

impl Check {
    fn at(&self, version: Version) -> Option<Rule> {
        let known = self.since.iter().rev().find(|(since, _)| Version::Minor(*since) <= version);
        known.map(|(_, check)| *check)
    }
}

/// Everything that is wrong with a pod, in upstream's order.
pub(super) fn evaluate(standard: &Standard, pod: &Pod<'_>) -> Vec<Violation> {
    let (baseline, restricted): (&[&Check], &[&Check]) = match standard.level {
        Level::Privileged => (&[], &[]),
        Level::Baseline => (&baseline::CHECKS, &[]),
        Level::Restricted => (&baseline::CHECKS, &restricted::CHECKS),
    };
    let replaced = |check: &Check| {
        restricted.iter().any(|other| {
            other.at(standard.version).is_some()
                && other.instead_of.is_some_and(|replaced| std::ptr::eq(replaced, check))
        })
    };
    let checks = baseline.iter().filter(|check| !replaced(check)).chain(restricted);
    checks.filter_map(|check| check.at(standard.version)).filter_map(|check| check(pod)).collect()
}

/// A pod, or a template of pods.
pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
    pub(super) security: &'a Value,
}

/// A container with its security context.
pub(super) struct Container<'a> {
    pub(super) name: &'a str,
    pub(super) whole: &'a Value,
    pub(super) security: &'a Value,
}

impl<'a> Pod<'a> {
    pub(super) fn new(object: &'a Value) -> Self {
        let spec = object.field("spec");
        Self {
            annotations: object.field("metadata").field("annotations"),
            spec,
            security: spec.field("securityContext"),
        }
    }

    /// In the order in which texts name them.
    pub(super) fn containers(&self) -> impl Iterator<Item = Container<'a>> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let spec = self.spec;
        lists.into_iter().flat_map(move |list| spec.items(list)).map(|whole| Container {
            name: whole.text("name"),
            whole,
            security: whole.field("securityContext"),
        })
    }

    /// The names of containers of which something holds.
    pub(super) fn containers_where(&self, holds: impl Fn(&Container<'a>) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| holds(container)).map(|container| container.name).collect()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec.field("os").text("name") == "windows"
    }

    /// Whether the pod's users are its own and mean nothing on the host.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.field("hostUsers") == &Value::Bool(false)
    }
}

/// `container "a"`, `containers "a", "b"`
pub(super) fn containers(names: &[&str]) -> String {
    format!("container{} {}", plural(names.len()), quoted(names))
}

/// `pod`, `container "a"` or `pod and container "a"`
pub(super) fn pod_and_containers(pod: bool, names: &[&str]) -> String {
    match (pod, names.is_empty()) {
        (true, true) => "pod".into(),
        (true, false) => format!("pod and {}", containers(names)),
        (false, _) => containers(names),
    }
}

pub(super) fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("\"{}\"", name.as_ref())).collect();
    names.join(", ")
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Sorted, each once.
pub(super) fn set<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    values.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The server lets no such pod in, so recorded answers have none.
    #[test]
    fn what_only_a_privileged_cluster_lets_in_is_told_by_level_and_version() {
        let privileged = |name: &str| {
            json!({"name": name, "securityContext": {
                "privileged": true, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }})
        };
        let process = json!({"windowsOptions": {"hostProcess": true}, "runAsNonRoot": true});
        let windows = json!({
            "hostNetwork": true, "os": {"name": "windows"}, "securityContext": process,
            "containers": [{"name": "c", "securityContext": process}],
        });
        let two = json!({"containers": [privileged("c"), privileged("e")]});
        let namespaces = "host namespaces (hostNetwork=true)";
        let host_process = "hostProcess (pod and container \"c\" must not set securityContext.windowsOptions.hostProcess=true)";
        let escalation = |who: &str| {
            format!(
                "allowPrivilegeEscalation != false ({who} must set securityContext.allowPrivilegeEscalation=false)"
            )
        };
        let no_privileges =
            "privileged (containers \"c\", \"e\" must not set securityContext.privileged=true)".to_owned();
        let both = "containers \"c\", \"e\"";
        for (spec, level, version, expected) in [
            (&two, Level::Privileged, Version::Latest, vec![]),
            (&two, Level::Baseline, Version::Minor(0), vec![no_privileges.clone()]),
            (&two, Level::Restricted, Version::Latest, vec![no_privileges, escalation(both)]),
            (&windows, Level::Baseline, Version::Latest, vec![namespaces.into(), host_process.into()]),
            (&windows, Level::Restricted, Version::Minor(34), vec![namespaces.into(), host_process.into()]),
            (
                &windows,
                Level::Restricted,
                Version::Minor(18),
                vec![namespaces.into(), host_process.into(), escalation("container \"c\"")],
            ),
        ] {
            let pod = json!({"spec": spec});
            let found = evaluate(&Standard { level, version }, &Pod::new(&pod));
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{level:?} {version:?}");
        }
    }
}
