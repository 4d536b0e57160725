//! The roles and bindings that are there from the start, and what is done about
//! those that somebody has changed: what is missing is added, what is more stays.

use serde_json::{Value, json};
use sternpost_meta::authorize::{PolicyRule, uncovered};
use sternpost_registry::object::{Fields, FieldsMut};

pub const GROUP: &str = "rbac.authorization.k8s.io";

static TABLE: &str = include_str!("roles");

/// Says, as `false`, that the server keeps its hands off.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What has to be done to an object that is there.
#[derive(Debug, PartialEq)]
pub enum Upkeep {
    Nothing,
    Change(Value),
    /// A binding cannot be made to bind another role.
    MakeAnew,
}

/// All of them, as the plural of their resource and the object; a role comes before its binding.
pub fn objects() -> Vec<(&'static str, Value)> {
    let mut objects: Vec<(&str, Value)> = Vec::new();
    // The role that lines are about: its kind, namespace, name, and place in the list.
    let mut current: Option<(&str, &str, &str, usize)> = None;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), current) {
            (["clusterrole", name, labels @ ..], _) => {
                current = Some(("ClusterRole", "", name, objects.len()));
                objects.push(("clusterroles", cluster_role(name, labels)));
            }
            (["role", place, ..], _) => {
                let (namespace, name) = place.split_once('/').unwrap_or_default();
                current = Some(("Role", namespace, name, objects.len()));
                objects.push(("roles", json!({"metadata": metadata(namespace, name), "rules": []})));
            }
            (["bound", subjects @ ..], Some((kind, namespace, role, _))) => {
                objects.push(binding(kind, namespace, role, role, subjects));
            }
            (["bound-as", name, subjects @ ..], Some((kind, namespace, role, _))) => {
                objects.push(binding(kind, namespace, role, name, subjects));
            }
            (rule, Some((.., place))) => {
                let rules = objects.get_mut(place).and_then(|(_, role)| role.get_mut("rules"));
                if let (Some(rules), Some(rule)) = (rules.and_then(Value::as_array_mut), policy_rule(rule)) {
                    rules.push(rule);
                }
            }
            _ => {}
        }
    }
    objects
}

fn metadata(namespace: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTOUPDATE: "true"},
    });
    if !namespace.is_empty() {
        metadata.set("namespace", namespace);
    }
    metadata
}

fn cluster_role(name: &str, labels: &[&str]) -> Value {
    let mut role = json!({"metadata": metadata("", name), "rules": []});
    for pair in labels.chunks(2) {
        let [what, label] = pair else { continue };
        let label = format!("{GROUP}/aggregate-to-{label}");
        if *what == "collects" {
            role.set("aggregationRule", json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}));
        } else {
            role.object_mut("metadata").object_mut("labels").set(&label, "true");
        }
    }
    if role.has("aggregationRule") {
        role.remove("rules");
    }
    role
}

fn policy_rule(words: &[&str]) -> Option<Value> {
    let list = |words: &str| -> Value {
        words.split(',').map(|word| if word == "core" { "" } else { word }).collect::<Vec<_>>().into()
    };
    Some(match words {
        [verbs, paths] => json!({"verbs": list(verbs), "nonResourceURLs": list(paths)}),
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => json!({
            "verbs": list(verbs),
            "apiGroups": list(groups),
            "resources": list(resources),
            "resourceNames": list(names),
        }),
        _ => return None,
    })
}

fn binding(kind: &str, namespace: &str, role: &str, name: &str, subjects: &[&str]) -> (&'static str, Value) {
    let subject = |subject: &&str| {
        let (kind, name) = subject.split_once(':').unwrap_or_default();
        match (kind, name.split_once('/')) {
            ("ServiceAccount", Some((namespace, name))) => {
                json!({"kind": kind, "namespace": namespace, "name": name})
            }
            _ => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
        }
    };
    let mut object = json!({
        "metadata": metadata(namespace, name),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    });
    if !subjects.is_empty() {
        object.set("subjects", subjects.iter().map(subject).collect::<Vec<_>>());
    }
    (if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" }, object)
}

/// What to do about `current` where `wanted` should be.
pub fn upkeep(current: &Value, wanted: &Value) -> Upkeep {
    if current.field("metadata").field("annotations").text(AUTOUPDATE) == "false" {
        return Upkeep::Nothing;
    }
    if wanted.has("roleRef") && current.field("roleRef") != wanted.field("roleRef") {
        return Upkeep::MakeAnew;
    }
    let mut object = current.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted.field("metadata").entries(field) {
            let entries = object.object_mut("metadata").object_mut(field);
            if !entries.has(key) {
                entries.set(key, value.clone());
            }
        }
    }
    let missing = missing_rules(current, wanted);
    append(&mut object, "rules", missing);
    let subjects = current.items("subjects");
    let missing = wanted.items("subjects").iter().filter(|subject| !subjects.contains(subject));
    append(&mut object, "subjects", missing.cloned().collect());
    if let Some(aggregation) = wanted.get_field("aggregationRule") {
        let selectors = current.field("aggregationRule").items("clusterRoleSelectors");
        let wanted = aggregation.items("clusterRoleSelectors").iter();
        let missing: Vec<Value> = wanted.filter(|selector| !selectors.contains(selector)).cloned().collect();
        if !missing.is_empty() {
            append(object.object_mut("aggregationRule"), "clusterRoleSelectors", missing);
        }
    }
    if object == *current { Upkeep::Nothing } else { Upkeep::Change(object) }
}

fn missing_rules(current: &Value, wanted: &Value) -> Vec<Value> {
    let read = |role: &Value| -> Vec<PolicyRule> {
        let read = |rule: &Value| serde_json::from_value(rule.clone()).unwrap_or_default();
        role.items("rules").iter().map(read).collect()
    };
    let missing = uncovered(&read(current), &read(wanted)).unwrap_or_default();
    missing.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect()
}

fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut all = object.items(field).to_vec();
    all.extend(items);
    object.set(field, all);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_table_is_whole() {
        let objects = objects();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (plural, object) in &objects {
            *counts.entry(plural).or_default() += 1;
            let rules = object.items("rules");
            let read: Result<Vec<PolicyRule>, _> =
                rules.iter().cloned().map(serde_json::from_value).collect();
            assert!(read.unwrap().iter().all(|rule| !rule.verbs.is_empty()), "{object}");
        }
        let expected = [("clusterrolebindings", 50), ("clusterroles", 69), ("rolebindings", 7), ("roles", 7)];
        assert_eq!(counts, BTreeMap::from(expected));
        let lines = TABLE.lines().filter(|line| {
            let first = line.split_whitespace().next().unwrap_or("#");
            !["#", "clusterrole", "role", "bound", "bound-as"].contains(&first)
        });
        let rules: usize = objects.iter().map(|(_, object)| object.items("rules").len()).sum();
        assert_eq!(rules, lines.count());
    }

    #[test]
    fn what_is_missing_is_added_and_what_is_more_stays() {
        let wanted = json!({
            "metadata": metadata("", "r"),
            "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}],
        });
        let with = |change: &dyn Fn(&mut Value)| {
            let mut object = wanted.clone();
            change(&mut object);
            object
        };
        let get = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let list = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        for (current, expected) in [
            (wanted.clone(), None),
            (with(&|role| role.set("rules", json!([all]))), None),
            (with(&|role| role.set("rules", json!([get, list]))), None),
            (
                with(&|role| role.set("rules", json!([get]))),
                Some(with(&|role| role.set("rules", json!([get, list])))),
            ),
            (
                with(&|role| {
                    role.remove("rules");
                }),
                Some(wanted.clone()),
            ),
            (
                with(&|role| {
                    role.object_mut("metadata").remove("labels");
                }),
                Some(wanted.clone()),
            ),
            (
                with(&|role| {
                    role.object_mut("metadata").object_mut("annotations").set(AUTOUPDATE, "false");
                    role.remove("rules");
                }),
                None,
            ),
            (
                with(&|role| {
                    role.object_mut("metadata").object_mut("annotations").set(AUTOUPDATE, "no");
                }),
                None,
            ),
        ] {
            let expected = expected.map_or(Upkeep::Nothing, Upkeep::Change);
            assert_eq!(upkeep(&current, &wanted), expected, "{current}");
        }
    }

    #[test]
    fn bindings_get_their_subjects_back_and_never_another_role() {
        let (_, wanted) = binding("ClusterRole", "", "r", "r", &["Group:a", "ServiceAccount:n/b"]);
        let mut current = wanted.clone();
        current.set(
            "subjects",
            json!([{"kind": "User", "apiGroup": GROUP, "name": "x"}, wanted["subjects"][1]]),
        );
        let mut expected = wanted.clone();
        expected
            .set("subjects", json!([current["subjects"][0], wanted["subjects"][1], wanted["subjects"][0]]));
        assert_eq!(upkeep(&current, &wanted), Upkeep::Change(expected));
        current.object_mut("roleRef").set("name", "other");
        assert_eq!(upkeep(&current, &wanted), Upkeep::MakeAnew);
        current.object_mut("metadata").object_mut("annotations").set(AUTOUPDATE, "false");
        assert_eq!(upkeep(&current, &wanted), Upkeep::Nothing);
    }

    #[test]
    fn selectors_of_aggregation_come_back() {
        let wanted = cluster_role("edit", &["collects", "edit", "adds-to", "admin"]);
        let mut current = wanted.clone();
        assert_eq!(upkeep(&current, &wanted), Upkeep::Nothing);
        current.set("rules", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        let expected = current.clone();
        current.remove("aggregationRule");
        assert_eq!(upkeep(&current, &wanted), Upkeep::Change(expected));
    }
}
