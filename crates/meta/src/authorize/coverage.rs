//! What of some rules others do not cover.

use std::{borrow::Borrow, collections::HashMap};

use super::PolicyRule;
use crate::cancel::checkpoint;

/// Rules are compared one group, resource, name and verb at a time. A role that
/// comes to more of these is not looked at: it would cost more than it is worth.
pub const MAX_COMBINATIONS: usize = 50_000;

/// The parts of `wanted` that no rule of `held` covers, as upstream prints them: in
/// order, with the verbs of one thing together. `None` if there are too many.
pub fn uncovered<Rule: Borrow<PolicyRule>>(held: &[Rule], wanted: &[PolicyRule]) -> Option<Vec<PolicyRule>> {
    let count = wanted.iter().map(combinations).fold(0usize, usize::saturating_add);
    if count > MAX_COMBINATIONS {
        return None;
    }
    let parts = wanted.iter().flat_map(parts);
    let missing = parts.filter(|part| !held.iter().any(|rule| covers(rule.borrow(), part))).collect();
    Some(compact(missing))
}

fn combinations(rule: &PolicyRule) -> usize {
    let names = rule.resource_names.len().max(1);
    let resources = rule.api_groups.len().saturating_mul(rule.resources.len()).saturating_mul(names);
    rule.verbs.len().saturating_mul(resources.saturating_add(rule.non_resource_urls.len()))
}

/// Rules that say one thing each.
fn parts(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |text: &String| vec![text.clone()];
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            let base =
                PolicyRule { api_groups: one(group), resources: one(resource), ..PolicyRule::default() };
            let named = rule.resource_names.iter().map(|name| vec![name.clone()]);
            let names: Vec<Vec<String>> =
                if rule.resource_names.is_empty() { vec![vec![]] } else { named.collect() };
            for resource_names in names {
                for verb in &rule.verbs {
                    parts.push(PolicyRule {
                        verbs: one(verb),
                        resource_names: resource_names.clone(),
                        ..base.clone()
                    });
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            parts.push(PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() });
        }
    }
    parts
}

/// Whether whoever holds `rule` holds `part`. A star is covered by a star only.
fn covers(rule: &PolicyRule, part: &PolicyRule) -> bool {
    checkpoint();
    let all = |list: &[String], wanted: &[String]| {
        list.iter().any(|item| item == "*") || wanted.iter().all(|item| list.contains(item))
    };
    all(&rule.verbs, &part.verbs)
        && all(&rule.api_groups, &part.api_groups)
        && part.resources.iter().all(|resource| has_resource(&rule.resources, resource))
        && part.non_resource_urls.iter().all(|url| has_path(&rule.non_resource_urls, url))
        && (rule.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| rule.resource_names.contains(name))))
}

/// Whether a list of URLs has a path; a star at the end stands for anything.
pub fn has_path(list: &[String], path: &str) -> bool {
    list.iter()
        .any(|item| item == path || item.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix)))
}

fn has_resource(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| {
        let of_any = || item.strip_prefix("*/").zip(wanted.split_once('/'));
        item == "*" || item == wanted || of_any().is_some_and(|(one, (_, other))| one == other)
    })
}

fn compact(parts: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let mut places: HashMap<PolicyRule, usize> = HashMap::new();
    for part in parts {
        if !part.non_resource_urls.is_empty() {
            rules.push(part);
            continue;
        }
        let key = PolicyRule { verbs: Vec::new(), ..part.clone() };
        let place = *places.entry(key).or_insert(rules.len());
        match rules.get_mut(place) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => rules.push(part),
        }
    }
    rules.sort_by_cached_key(ToString::to_string);
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(json: Value) -> Vec<PolicyRule> {
        serde_json::from_value(json).unwrap()
    }

    fn missing(held: Value, wanted: Value) -> String {
        let missing = uncovered(&rules(held), &rules(wanted)).unwrap();
        missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn only_what_is_not_held_is_told_in_order_with_its_verbs_together() {
        let pods = json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
            {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*"]},
        ]);
        for (wanted, expected) in [
            (json!([]), ""),
            (json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]), ""),
            (
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}]),
                "",
            ),
            (
                json!([{"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"]}]),
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
                 {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"delete\"]}",
            ),
            (
                json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["z", "a"]}]),
                "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"*\"]}\n\
                 {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"z\"], Verbs:[\"*\"]}",
            ),
            (
                json!([{"verbs": ["get", "put"], "nonResourceURLs": ["/api/x", "/b", "/a"]}]),
                "{NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}\n\
                 {NonResourceURLs:[\"/a\"], Verbs:[\"put\"]}\n\
                 {NonResourceURLs:[\"/api/x\"], Verbs:[\"put\"]}\n\
                 {NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}\n\
                 {NonResourceURLs:[\"/b\"], Verbs:[\"put\"]}",
            ),
            (
                json!([
                    {"verbs": ["watch"], "apiGroups": [""], "resources": ["pods"]},
                    {"verbs": ["delete", "delete"], "apiGroups": [""], "resources": ["pods"]},
                ]),
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\" \"delete\" \"delete\"]}",
            ),
        ] {
            assert_eq!(missing(pods.clone(), wanted.clone()), expected, "{wanted}");
        }
    }

    #[test]
    fn stars_and_names_cover_what_they_say() {
        let rule = |verbs: &str, groups: &str, resources: &str, names: &[&str]| json!([{"verbs": [verbs], "apiGroups": [groups], "resources": [resources], "resourceNames": names}]);
        let all = rule("*", "*", "*", &[]);
        for (held, wanted, expected) in [
            (all.clone(), all.clone(), true),
            (all.clone(), rule("get", "apps", "deployments/scale", &["x"]), true),
            (rule("get", "*", "*", &[]), all.clone(), false),
            (rule("get", "", "*/log", &[]), rule("get", "", "pods/log", &[]), true),
            (rule("get", "", "*/log", &[]), rule("get", "", "*/log", &[]), true),
            (rule("get", "", "*/log", &[]), rule("get", "", "pods", &[]), false),
            (rule("get", "", "pods", &[]), rule("get", "", "pods/log", &[]), false),
            (rule("get", "", "pods", &["a"]), rule("get", "", "pods", &[]), false),
            (rule("get", "", "pods", &["a"]), rule("get", "", "pods", &["a"]), true),
            (rule("get", "", "pods", &["a"]), rule("get", "", "pods", &["b"]), false),
            (rule("get", "", "pods", &[]), rule("get", "", "pods", &["a"]), true),
            (json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]), rule("get", "", "pods", &[]), false),
            (all, json!([{"verbs": ["get"], "nonResourceURLs": ["/"]}]), false),
        ] {
            assert_eq!(missing(held.clone(), wanted.clone()).is_empty(), expected, "{held} {wanted}");
        }
    }

    #[test]
    fn the_number_of_combinations_is_limited() {
        let wanted = |verbs: usize| PolicyRule {
            verbs: (0..verbs).map(|number| number.to_string()).collect(),
            api_groups: vec!["a".into(); 100],
            resources: vec!["b".into(); 100],
            ..PolicyRule::default()
        };
        assert!(uncovered::<PolicyRule>(&[], &[wanted(MAX_COMBINATIONS / 10_000)]).is_some());
        assert_eq!(uncovered::<PolicyRule>(&[], &[wanted(MAX_COMBINATIONS / 10_000 + 1)]), None);
    }
}
