use serde_json::{Value, json};
use sternpost_meta::{gvk::GroupVersion, user::User};

use super::*;

fn form(api_version: &str, resource: &str) -> Form {
    let gv = GroupVersion::parse(api_version);
    Form { kind: gv.kind("Kind"), gv, resource: resource.into() }
}

/// `OPERATION API_VERSION RESOURCE[/SUBRESOURCE] [NAMESPACE]/NAME`
fn outcome(
    matcher: &Matcher,
    asked: &str,
    object: Option<&Value>,
    old: Option<&Value>,
    others: &[Form],
) -> String {
    let mut words = asked.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let operation = match word() {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        _ => Operation::Connect,
    };
    let (api_version, resource, place) = (word(), word(), word());
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (namespace, name) = place.split_once('/').unwrap();
    let asked = form(api_version, resource);
    let about_namespace = asked.gv.group.is_empty() && resource == "namespaces";
    let request = Request {
        operation,
        asked: &asked,
        subresource,
        name,
        namespace: if about_namespace { name } else { namespace },
        user: &User::default(),
        dry_run: false,
        options: &Value::Null,
    };
    let subject = Subject {
        namespaced: !namespace.is_empty(),
        object,
        old,
        namespace_labels: &|name| match name {
            "shop" => Some(json!({"team": "shop"})),
            "plain" => Some(Value::Null),
            _ => None,
        },
        equivalents: others,
    };
    match matcher.matches(&request, &subject) {
        Match::No => "no".into(),
        Match::Yes(form) => format!("{} {}", form.gv, form.resource),
        Match::NamespaceMissing(name) => format!("missing {name}"),
    }
}

fn rule(operations: &[&str], groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources})
}

#[test]
fn rules_look_at_operation_group_version_and_resource() {
    let all = |resources: &[&str]| rule(&["*"], &["*"], &["*"], resources);
    for (rule, asked, expected) in [
        (rule(&["CREATE"], &[""], &["v1"], &["pods"]), "CREATE v1 pods a/p", "v1 pods"),
        (rule(&["UPDATE", "CREATE"], &[""], &["v1"], &["pods"]), "CREATE v1 pods a/p", "v1 pods"),
        (rule(&["UPDATE"], &[""], &["v1"], &["pods"]), "CREATE v1 pods a/p", "no"),
        (rule(&["CREATE"], &["apps"], &["v1"], &["pods"]), "CREATE v1 pods a/p", "no"),
        (rule(&["CREATE"], &[""], &["v2"], &["pods"]), "CREATE v1 pods a/p", "no"),
        (all(&["pods"]), "UPDATE v1 pods/status a/p", "no"),
        (all(&["pods/status"]), "UPDATE v1 pods/status a/p", "v1 pods"),
        (all(&["pods/*"]), "UPDATE v1 pods/status a/p", "v1 pods"),
        (all(&["pods/*"]), "UPDATE v1 pods a/p", "v1 pods"),
        (all(&["*"]), "UPDATE v1 pods a/p", "v1 pods"),
        (all(&["*"]), "UPDATE v1 pods/status a/p", "no"),
        (all(&["*/*"]), "UPDATE v1 pods/status a/p", "v1 pods"),
        (all(&["*/*"]), "UPDATE v1 pods a/p", "v1 pods"),
        (all(&["*/scale"]), "UPDATE apps/v1 deployments/scale a/p", "apps/v1 deployments"),
        (all(&["*/scale"]), "UPDATE apps/v1 deployments a/p", "no"),
    ] {
        let matcher = Matcher::of_webhook(&json!({"rules": [rule]})).unwrap();
        assert_eq!(outcome(&matcher, asked, None, None, &[]), expected, "{rule} {asked}");
    }
}

#[test]
fn scopes_count_a_namespace_as_of_the_cluster() {
    for (scope, asked, expected) in [
        ("Namespaced", "CREATE v1 pods shop/p", "v1 pods"),
        ("Namespaced", "CREATE v1 nodes /n", "no"),
        ("Namespaced", "UPDATE v1 namespaces /shop", "no"),
        ("Cluster", "CREATE v1 pods shop/p", "no"),
        ("Cluster", "CREATE v1 nodes /n", "v1 nodes"),
        ("Cluster", "UPDATE v1 namespaces /shop", "v1 namespaces"),
    ] {
        let mut rule = rule(&["*"], &["*"], &["*"], &["*"]);
        rule["scope"] = scope.into();
        let matcher = Matcher::of_webhook(&json!({"rules": [rule]})).unwrap();
        assert_eq!(outcome(&matcher, asked, None, None, &[]), expected, "{scope} {asked}");
    }
}

#[test]
fn another_version_of_the_resource_counts_unless_the_match_is_exact() {
    let others = [form("autoscaling/v1", "hpas"), form("autoscaling/v3", "hpas")];
    let asked = "CREATE autoscaling/v2 hpas a/h";
    for (policy, versions, expected) in [
        ("Equivalent", vec!["v1"], "autoscaling/v1 hpas"),
        ("Equivalent", vec!["v3", "v1"], "autoscaling/v1 hpas"),
        ("Equivalent", vec!["v1", "v2"], "autoscaling/v2 hpas"),
        ("Equivalent", vec!["v9"], "no"),
        ("Exact", vec!["v1"], "no"),
        ("Exact", vec!["v2"], "autoscaling/v2 hpas"),
    ] {
        let rule = rule(&["*"], &["*"], &versions, &["*"]);
        let matcher = Matcher::of_webhook(&json!({"matchPolicy": policy, "rules": [rule]})).unwrap();
        assert_eq!(outcome(&matcher, asked, None, None, &others), expected, "{policy} {versions:?}");
    }
    // Rules come first, then versions.
    let rules = [rule(&["*"], &["*"], &["v3"], &["*"]), rule(&["*"], &["*"], &["v1"], &["*"])];
    let matcher = Matcher::of_webhook(&json!({"rules": rules})).unwrap();
    assert_eq!(outcome(&matcher, asked, None, None, &others), "autoscaling/v3 hpas");
}

#[test]
fn namespaces_are_selected_by_their_labels() {
    let matcher = Matcher::of_webhook(&json!({
        "namespaceSelector": {"matchLabels": {"team": "shop"}},
        "rules": [rule(&["*"], &["*"], &["*"], &["*", "namespaces/status"])],
    }))
    .unwrap();
    let namespace = |labels: Value| Some(json!({"metadata": {"labels": labels}}));
    for (asked, object, expected) in [
        ("CREATE v1 pods shop/p", None, "v1 pods"),
        ("CREATE v1 pods plain/p", None, "no"),
        ("CREATE v1 pods nowhere/p", None, "missing nowhere"),
        ("CREATE v1 pods/log nowhere/p", None, "no"),
        ("CREATE v1 nodes /n", None, "v1 nodes"),
        // Of a namespace what is written counts, and otherwise what is stored.
        ("CREATE v1 namespaces /new", namespace(json!({"team": "shop"})), "v1 namespaces"),
        ("UPDATE v1 namespaces /shop", namespace(json!({})), "no"),
        ("UPDATE v1 namespaces/status /shop", namespace(json!({})), "v1 namespaces"),
        ("DELETE v1 namespaces /shop", None, "v1 namespaces"),
        ("DELETE v1 namespaces /plain", None, "no"),
    ] {
        assert_eq!(outcome(&matcher, asked, object.as_ref(), None, &[]), expected, "{asked}");
    }
}

#[test]
fn objects_are_selected_by_the_labels_they_have_or_had() {
    let matcher = Matcher::of_webhook(&json!({
        "objectSelector": {"matchLabels": {"a": "b"}},
        "rules": [rule(&["*"], &["*"], &["*"], &["*"])],
    }))
    .unwrap();
    let labelled = || Some(json!({"metadata": {"labels": {"a": "b"}}}));
    let plain = || Some(json!({"metadata": {}}));
    for (object, old, expected) in [
        (labelled(), None, "v1 pods"),
        (plain(), None, "no"),
        (plain(), labelled(), "v1 pods"),
        (None, labelled(), "v1 pods"),
        (plain(), plain(), "no"),
        (Some(json!({"kind": "PodExecOptions"})), None, "no"),
    ] {
        let shown = format!("{object:?} {old:?}");
        assert_eq!(
            outcome(&matcher, "UPDATE v1 pods a/p", object.as_ref(), old.as_ref(), &[]),
            expected,
            "{shown}"
        );
    }
}

#[test]
fn policies_name_objects_and_exclude_some() {
    let mut one = rule(&["*"], &["*"], &["*"], &["*"]);
    one["resourceNames"] = json!(["x"]);
    let everything = rule(&["*"], &["*"], &["*"], &["*"]);
    for (constraints, asked, expected) in [
        (json!({"resourceRules": [one]}), "UPDATE v1 pods a/x", "v1 pods"),
        (json!({"resourceRules": [one]}), "UPDATE v1 pods a/y", "no"),
        (json!({"resourceRules": [one]}), "CREATE v1 pods a/", "no"),
        (json!({"resourceRules": [everything], "excludeResourceRules": [one]}), "UPDATE v1 pods a/x", "no"),
        (
            json!({"resourceRules": [everything], "excludeResourceRules": [one]}),
            "UPDATE v1 pods a/y",
            "v1 pods",
        ),
        (json!({}), "UPDATE v1 pods a/y", "no"),
    ] {
        let matcher = Matcher::of_constraints(&constraints).unwrap();
        assert_eq!(outcome(&matcher, asked, None, None, &[]), expected, "{constraints} {asked}");
    }
    let binding = Matcher::of_binding(&json!({"excludeResourceRules": [one]})).unwrap();
    assert_eq!(outcome(&binding, "UPDATE v1 pods a/y", None, None, &[]), "v1 pods");
    assert_eq!(outcome(&binding, "UPDATE v1 pods a/x", None, None, &[]), "no");
}
