//! What policies leave behind beside their answers, which are compared with kube-apiserver's in the corpus.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{collections::BTreeMap, sync::Arc};

use crate::beginning::still;
use serde_json::{Value, json};
use sternpost_meta::audit::Annotations;
use sternpost_store::memory::MemoryStore;
use sternpost_verbs::{Verbs, Writer, admission::Chain};

const GROUP: &str = "admissionregistration.k8s.io";

async fn without(plugins: &[&str]) -> Verbs {
    let off: Vec<String> = plugins.iter().map(|name| (*name).to_owned()).collect();
    let verbs = crate::beginning::verbs(Arc::new(MemoryStore::default()), still())
        .await
        .with_admission(Chain::new(&[], &off).unwrap());
    create(&verbs, "", "namespaces", json!({"metadata": {"name": "default"}}), None).await.unwrap();
    verbs
}

async fn create(
    verbs: &Verbs,
    group: &str,
    plural: &str,
    object: Value,
    audit: Option<&Annotations>,
) -> Result<Value, String> {
    let served = verbs.served.get(group, "v1", plural).unwrap();
    let namespace = if served.is_namespaced() { "default" } else { "" };
    let writer = Writer { audit, ..Writer::server() };
    let created = crate::beginning::create(verbs, (group, plural), namespace, object, writer).await;
    created.map_err(|status| status.message)
}

async fn policy(verbs: &Verbs, name: &str, spec: Value, actions: &[&str]) {
    let mut spec = spec;
    spec["matchConstraints"] = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
    ]});
    let object = json!({"metadata": {"name": name}, "spec": spec});
    create(verbs, GROUP, "validatingadmissionpolicies", object, None).await.unwrap();
    for (binding, action) in actions.iter().enumerate() {
        let spec = json!({"policyName": name, "validationActions": [action]});
        let object = json!({"metadata": {"name": format!("{name}-{binding}")}, "spec": spec});
        create(verbs, GROUP, "validatingadmissionpolicybindings", object, None).await.unwrap();
    }
}

#[tokio::test]
async fn what_policies_say_is_noted_for_the_audit_log() {
    let verbs = without(&[]).await;
    let annotations = json!([
        {"key": "who", "valueExpression": "' made by ' + object.metadata.name"},
        {"key": "none", "valueExpression": "null"},
    ]);
    let validations = json!([{"expression": "true"}, {"expression": "false", "message": "never"}]);
    let spec = json!({"validations": validations, "auditAnnotations": annotations});
    policy(&verbs, "p", spec, &["Audit", "Audit"]).await;
    let audit = Annotations::default();
    let map = json!({"metadata": {"name": "a"}});
    create(&verbs, "", "configmaps", map, Some(&audit)).await.unwrap();
    let failure = |binding: &str| {
        format!(
            "{{\"message\":\"never\",\"policy\":\"p\",\"binding\":\"{binding}\",\"expressionIndex\":1,\"validationActions\":[\"Audit\"]}}"
        )
    };
    let expected = BTreeMap::from([
        ("p/who".to_owned(), "made by a".to_owned()),
        (
            "validation.policy.admission.k8s.io/validation_failure".to_owned(),
            format!("[{},{}]", failure("p-0"), failure("p-1")),
        ),
    ]);
    assert_eq!(audit.take(), expected);
}

#[tokio::test]
async fn policies_that_are_switched_off_say_nothing() {
    for (off, is_refused) in [(vec![], true), (vec!["ValidatingAdmissionPolicy"], false)] {
        let verbs = without(&off).await;
        policy(&verbs, "p", json!({"validations": [{"expression": "false"}]}), &["Deny"]).await;
        let refused = create(&verbs, "", "configmaps", json!({"metadata": {"name": "a"}}), None).await;
        assert_eq!(refused.is_err(), is_refused, "{off:?}");
    }
}

/// As the controller of kube-controller-manager 1.36.4 wrote it.
#[tokio::test]
async fn validations_are_checked_against_the_kinds_that_rules_name() {
    let verbs = without(&[]).await;
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": ["*"]});
    let (deployments, pods) = (rule("apps", "deployments"), rule("", "pods"));
    let place = |kind: &str, at: usize, why: &str, text: &str| {
        format!("{kind}: ERROR: <input>:1:{at}: {why}\n | {text}\n | {}^\n", ".".repeat(at - 1))
    };
    let of_deployment =
        |at: usize, why: &str, text: &str| Some(place("apps/v1, Kind=Deployment", at, why, text));
    let of_pod = |at: usize, why: &str, text: &str| Some(place("/v1, Kind=Pod", at, why, text));
    let overload = |types: &str| format!("found no matching overload for '_==_' applied to '{types}'");
    let text = "object.spec.nope > 1";
    let of_both =
        [of_pod(12, "undefined field 'nope'", text), of_deployment(12, "undefined field 'nope'", text)];
    let of_both = of_both.map(Option::unwrap).join("\n");
    for (expression, rules, expected) in [
        ("object.spec.replicas > 1", vec![&deployments], None),
        (
            "object.spec.replicass > 1",
            vec![&deployments],
            of_deployment(12, "undefined field 'replicass'", "object.spec.replicass > 1"),
        ),
        ("object.metadata.labels['a'] == 'b' && object.metadata.uid == 'x'", vec![&deployments], None),
        (text, vec![&deployments, &pods], Some(of_both)),
        ("object.spec.strategy.rollingUpdate.maxSurge == 1", vec![&deployments], None),
        ("object.spec.strategy.rollingUpdate.maxSurge == '1'", vec![&deployments], None),
        (
            "object.spec.containers[0].resources.limits['cpu'] == 1",
            vec![&pods],
            of_pod(36, "undefined field 'limits'", "object.spec.containers[0].resources.limits['cpu'] == 1"),
        ),
        (
            "object.metadata.creationTimestamp == 'x'",
            vec![&pods],
            of_pod(35, &overload("(timestamp, string)"), "object.metadata.creationTimestamp == 'x'"),
        ),
        ("object.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')", vec![&pods], None),
        ("variables.unknown > 1", vec![&deployments], None),
        (
            "variables.replicas == 'x'",
            vec![&deployments],
            of_deployment(20, &overload("(int, string)"), "variables.replicas == 'x'"),
        ),
        (text, vec![&rule("*", "deployments")], None),
        (text, vec![&rule("apps", "*")], None),
        (text, vec![&rule("apps", "deployments/scale")], None),
        (text, vec![&rule("example.com", "things")], None),
        (
            "params.data.x == 1",
            vec![&deployments],
            of_deployment(15, &overload("(string, int)"), "params.data.x == 1"),
        ),
        (
            "oldObject.spec.nope == 1",
            vec![&deployments],
            of_deployment(15, "undefined field 'nope'", "oldObject.spec.nope == 1"),
        ),
    ] {
        let policy = json!({"spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": rules},
            "variables": [
                {"name": "unknown", "expression": "object.spec.nope"},
                {"name": "replicas", "expression": "object.spec.replicas"},
            ],
            "validations": [{"expression": expression}],
        }});
        let expected = match expected {
            None => json!({}),
            Some(warning) => {
                json!({"expressionWarnings": [{"fieldRef": "spec.validations[0].expression", "warning": warning}]})
            }
        };
        assert_eq!(verbs.type_check(&policy), expected, "{expression}");
    }
}
