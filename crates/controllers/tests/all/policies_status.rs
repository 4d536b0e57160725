//! The status of validating policies.

use crate::running::Running;
use serde_json::json;

const POLICIES: &str = "admissionregistration.k8s.io/validatingadmissionpolicies";

#[tokio::test(start_paused = true)]
async fn every_generation_of_a_policy_is_checked_once() {
    let running = Running::start(&["validatingadmissionpolicy-status"]).await;
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["*"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.nope == 1"}],
    }});
    running.create(POLICIES, "", policy).await;
    let status = |running: &Running| running.get(POLICIES, "", "p").unwrap()["status"].clone();
    running.until("it was looked at", |running| status(running)["observedGeneration"] == 1).await;
    let warnings = status(&running)["typeChecking"]["expressionWarnings"].clone();
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
    let fine = json!({"spec": {"validations": [{"expression": "object.spec.replicas == 1"}]}});
    running.patch(POLICIES, "", "p", fine).await;
    running.until("it was looked at again", |running| status(running)["observedGeneration"] == 2).await;
    // What was applied before and is no longer goes, and what held it, too; so it does upstream.
    assert_eq!(status(&running), json!({"observedGeneration": 2}));
    let owners = running.get(POLICIES, "", "p").unwrap()["metadata"]["managedFields"].clone();
    let manager = owners.as_array().unwrap().iter().find(|owner| owner["subresource"] == "status").unwrap();
    assert_eq!(
        (&manager["manager"], &manager["operation"]),
        (&json!("validatingadmissionpolicy-status"), &json!("Apply"))
    );
}
