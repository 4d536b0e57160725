//! What is there before any client comes, compared with what kube-apiserver
//! 1.36.4 makes on empty storage: `startup/RESOURCE[.GROUP].json`, recorded with
//! `kubectl get -o json` and without uids, times, versions, managers,
//! descriptions and objects that a client made.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use sternpost_clock::manual::ManualClock;
use sternpost_store::{Store, memory::MemoryStore};
use sternpost_verbs::{DeleteOptions, Part, Target, Verbs, Writer, served::Served, startup};

const PORT: u16 = 6443;
/// 2026-11-15, the day of the recording.
const NOW: u64 = 1_794_700_800;

async fn verbs(store: &Arc<dyn Store>) -> Verbs {
    crate::beginning::verbs(store.clone(), ManualClock::at(NOW).into()).await
}

fn empty_store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Kept for the rest of the test, whoever else lets go of it.
fn served(verbs: &Verbs, group: &str, plural: &str) -> &'static Served {
    Box::leak(Box::new(verbs.served.get(group, "v1", plural).unwrap()))
}

fn all(verbs: &Verbs, served: &Served) -> Vec<Value> {
    let snapshot = verbs.cache.resource(&served.id).snapshot();
    let full = |mut object: Value| {
        object["kind"] = served.kind().into();
        object["apiVersion"] = served.resource.gv.to_string().into();
        object
    };
    snapshot.iter(None, None).map(|object| full(object.value())).collect()
}

fn target<'a>(verbs: &'a Verbs, group: &str, plural: &str, namespace: &'a str, name: &'a str) -> Target<'a> {
    Target { served: served(verbs, group, plural), namespace, name }
}

fn masked(mut object: Value) -> Value {
    let map = object.as_object_mut().unwrap();
    map.remove("description");
    let metadata = map["metadata"].as_object_mut().unwrap();
    for field in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
        metadata.remove(field);
    }
    for condition in
        object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        condition["lastTransitionTime"] = json!("");
    }
    object
}

async fn change(verbs: &Verbs, target: Target<'_>, change: impl FnOnce(&mut Value)) {
    let mut object = verbs.get(target).unwrap().value();
    change(&mut object);
    verbs.update(target, object, Part::Main, Writer::server()).await.unwrap();
}

#[tokio::test]
async fn every_start_up_object_equals_the_recorded_one() {
    let verbs = verbs(&empty_store()).await;
    let written = startup::ensure(&verbs, PORT).await.unwrap();
    let mut compared = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/startup");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (plural, group) = name.split_once('.').unwrap_or((&name, ""));
        let recorded: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let found: Vec<Value> = all(&verbs, served(&verbs, group, plural)).into_iter().map(masked).collect();
        compared += found.len();
        for (found, recorded) in found.iter().zip(&recorded) {
            assert_eq!(found, recorded, "{name}");
        }
        assert_eq!(found.len(), recorded.len(), "{name}");
    }
    assert_eq!(compared, written, "an object is made that nobody recorded");
}

#[tokio::test]
async fn every_served_group_version_has_an_api_service() {
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let services = served(&verbs, "apiregistration.k8s.io", "apiservices");
    let mut found: Vec<String> = all(&verbs, services)
        .iter()
        .map(|service| service["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let mut expected: Vec<String> = sternpost_builtin::groups()
        .iter()
        .flat_map(|group| &group.versions)
        .filter_map(|version| version.resources.first())
        .map(|resource| format!("{}.{}", resource.gv.version, resource.gv.group))
        // The group that serves them is not one of them.
        .filter(|name| name != "v1.apiregistration.k8s.io")
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_second_start_writes_nothing() {
    let store = empty_store();
    assert!(startup::ensure(&verbs(&store).await, PORT).await.unwrap() > 0);
    let before = store.current_revision().await.unwrap();
    assert_eq!(startup::ensure(&verbs(&store).await, PORT).await.unwrap(), 0);
    assert_eq!(store.current_revision().await.unwrap(), before);
}

#[tokio::test]
async fn all_are_made_in_two_revisions() {
    let store = empty_store();
    let before = store.current_revision().await.unwrap();
    startup::ensure(&verbs(&store).await, PORT).await.unwrap();
    assert_eq!(store.current_revision().await.unwrap().get(), before.get() + 2);
}

#[tokio::test]
async fn what_was_deleted_comes_back_at_the_next_start() {
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let service = target(&verbs, "", "services", "default", "kubernetes");
    let uid = verbs.get(service).unwrap().value()["metadata"]["uid"].clone();
    verbs.delete(service, &DeleteOptions::default(), Writer::server()).await.unwrap();
    // Its address went with it.
    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 2);
    assert_ne!(verbs.get(service).unwrap().value()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn a_service_that_lost_its_address_has_it_again_at_the_next_start() {
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let services = target(&verbs, "", "services", "default", "");
    let object = json!({
        "metadata": {"name": "a"},
        "spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]},
    });
    verbs.create(services, object, Writer::server()).await.unwrap();
    let address = target(&verbs, "networking.k8s.io", "ipaddresses", "", "10.0.0.7");
    verbs.delete(address, &DeleteOptions::default(), Writer::server()).await.unwrap();
    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 1);
    let parent = &verbs.get(address).unwrap().value()["spec"]["parentRef"];
    assert_eq!(parent, &json!({"resource": "services", "namespace": "default", "name": "a"}));
}

#[tokio::test]
async fn a_start_restores_what_is_the_servers_and_nothing_else() {
    const FLOW: &str = "flowcontrol.apiserver.k8s.io";
    const REGISTRATION: &str = "apiregistration.k8s.io";
    // resource, namespace, name, what a user sets, whether it stays
    let cases = [
        ("", "services", "default", "kubernetes", "/spec/ports/0/targetPort", json!(1), false),
        ("", "services", "default", "kubernetes", "/metadata/labels/component", json!("x"), true),
        (
            "",
            "configmaps",
            "kube-system",
            "kube-apiserver-legacy-service-account-token-tracking",
            "/data/since",
            json!("2020-01-01"),
            true,
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            "",
            "system-node-critical",
            "/description",
            json!("x"),
            true,
        ),
        (FLOW, "flowschemas", "", "service-accounts", "/spec/matchingPrecedence", json!(77), false),
        (
            FLOW,
            "flowschemas",
            "",
            "catch-all",
            "/metadata/annotations/apf.kubernetes.io~1autoupdate-spec",
            json!("false"),
            false,
        ),
        (
            FLOW,
            "flowschemas",
            "",
            "probes",
            "/metadata/annotations/apf.kubernetes.io~1autoupdate-spec",
            json!("false"),
            true,
        ),
        (
            FLOW,
            "prioritylevelconfigurations",
            "",
            "workload-low",
            "/spec/limited/nominalConcurrencyShares",
            json!(7),
            false,
        ),
        (
            FLOW,
            "prioritylevelconfigurations",
            "",
            "exempt",
            "/spec/exempt/nominalConcurrencyShares",
            json!(7),
            true,
        ),
        (REGISTRATION, "apiservices", "", "v1.apps", "/spec/groupPriorityMinimum", json!(7), false),
        (
            REGISTRATION,
            "apiservices",
            "",
            "v1.apps",
            "/metadata/labels/kube-aggregator.kubernetes.io~1automanaged",
            json!("mine"),
            true,
        ),
    ];
    for (group, plural, namespace, name, place, value, stays) in cases {
        let verbs = verbs(&empty_store()).await;
        startup::ensure(&verbs, PORT).await.unwrap();
        let target = target(&verbs, group, plural, namespace, name);
        let before = verbs.get(target).unwrap().value().pointer(place).unwrap().clone();
        change(&verbs, target, |object| *object.pointer_mut(place).unwrap() = value.clone()).await;
        startup::ensure(&verbs, PORT).await.unwrap();
        let expected = if stays { &value } else { &before };
        assert_eq!(verbs.get(target).unwrap().value().pointer(place), Some(expected), "{name} {place}");
    }
}

#[tokio::test]
async fn an_api_service_without_the_servers_mark_stays_changed() {
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let policy = target(&verbs, "apiregistration.k8s.io", "apiservices", "", "v1.policy");
    change(&verbs, policy, |service| {
        service["metadata"]["labels"] = json!({});
        service["spec"]["versionPriority"] = json!(7);
    })
    .await;
    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 0);
    assert_eq!(verbs.get(policy).unwrap().value()["spec"]["versionPriority"], 7);
}

#[tokio::test]
async fn a_flow_schema_that_the_user_took_over_stays_changed() {
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let target = target(&verbs, "flowcontrol.apiserver.k8s.io", "flowschemas", "", "probes");
    change(&verbs, target, |object| {
        object["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] = json!("false");
        object["spec"]["matchingPrecedence"] = json!(77);
    })
    .await;
    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 0);
    assert_eq!(verbs.get(target).unwrap().value()["spec"]["matchingPrecedence"], 77);
}

#[tokio::test]
async fn the_service_follows_the_port() {
    let store = empty_store();
    startup::ensure(&verbs(&store).await, PORT).await.unwrap();
    let verbs = verbs(&store).await;
    assert_eq!(startup::ensure(&verbs, PORT + 1).await.unwrap(), 1);
    let service = target(&verbs, "", "services", "default", "kubernetes");
    assert_eq!(verbs.get(service).unwrap().value()["spec"]["ports"][0]["targetPort"], PORT + 1);
}

#[tokio::test]
async fn replicas_that_start_together_agree() {
    let store = empty_store();
    let (one, two) = (verbs(&store).await, verbs(&store).await);
    let (first, second) = tokio::join!(startup::ensure(&one, PORT), startup::ensure(&two, PORT));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.min(second) == 0 && first.max(second) > 0, "{first} and {second}");
}

#[tokio::test]
async fn roles_and_bindings_are_brought_back_at_the_next_start() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let verbs = verbs(&empty_store()).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    let role = target(&verbs, GROUP, "clusterroles", "", "system:discovery");
    let hands_off = target(&verbs, GROUP, "clusterroles", "", "system:basic-user");
    let binding = target(&verbs, GROUP, "clusterrolebindings", "", "system:discovery");
    let other = target(&verbs, GROUP, "clusterrolebindings", "", "system:monitoring");
    let (wanted, bound) = (verbs.get(role).unwrap().value(), verbs.get(binding).unwrap().value());
    change(&verbs, role, |role| role["rules"] = json!([])).await;
    change(&verbs, hands_off, |role| {
        role["rules"] = json!([]);
        role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
    })
    .await;
    change(&verbs, binding, |binding| binding["subjects"] = json!([])).await;
    let uid = verbs.get(other).unwrap().value()["metadata"]["uid"].clone();
    verbs.delete(other, &DeleteOptions::default(), Writer::server()).await.unwrap();
    let mut changed = json!({"metadata": {"name": "system:monitoring"}});
    changed["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"});
    verbs.create(Target { name: "", ..other }, changed, Writer::server()).await.unwrap();

    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 3);
    let urls = |role: &Value| {
        let rules = role["rules"].as_array().unwrap().iter();
        let mut urls: Vec<String> = rules
            .flat_map(|rule| rule["nonResourceURLs"].as_array().unwrap())
            .map(Value::to_string)
            .collect();
        urls.sort();
        urls
    };
    assert_eq!(urls(&verbs.get(role).unwrap().value()), urls(&wanted));
    assert!(verbs.get(hands_off).unwrap().value()["rules"].as_array().is_none_or(Vec::is_empty));
    assert_eq!(verbs.get(binding).unwrap().value()["subjects"], bound["subjects"]);
    let other = verbs.get(other).unwrap().value();
    assert_eq!(other["roleRef"]["name"], "system:monitoring");
    assert_ne!(other["metadata"]["uid"], uid);
    assert_eq!(startup::ensure(&verbs, PORT).await.unwrap(), 0);
}

#[tokio::test]
async fn start_up_objects_have_the_owners_that_upstream_notes() {
    let store = empty_store();
    let verbs = verbs(&store).await;
    startup::ensure(&verbs, PORT).await.unwrap();
    // As kube-apiserver 1.36.4 had them, but for the times.
    for (group, plural, namespace, name, expected) in [
        (
            "",
            "namespaces",
            "",
            "default",
            json!([["kube-apiserver", "Update", null,
            {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}]]),
        ),
        (
            "",
            "services",
            "default",
            "kubernetes",
            json!([["kube-apiserver", "Update", null, {
                "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
                "f:spec": {"f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {}, "f:ports": {".": {},
                    "k:{\"port\":443,\"protocol\":\"TCP\"}":
                        {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
                    "f:sessionAffinity": {}, "f:type": {}},
            }]]),
        ),
        (
            "apiregistration.k8s.io",
            "apiservices",
            "",
            "v1.",
            json!([["kube-apiserver", "Update", null, {
                "f:metadata": {"f:labels": {".": {}, "f:kube-aggregator.kubernetes.io/automanaged": {}}},
                "f:spec": {"f:groupPriorityMinimum": {}, "f:version": {}, "f:versionPriority": {}},
            }]]),
        ),
        (
            "networking.k8s.io",
            "servicecidrs",
            "",
            "kubernetes",
            json!([
                ["kubernetes-service-cidr-controller", "Apply", "status", {"f:status": {"f:conditions":
                    {"k:{\"type\":\"Ready\"}":
                        {".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {}}}}}],
                ["kube-apiserver", "Update", null, {"f:spec": {"f:cidrs": {}}}],
            ]),
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "flowschemas",
            "",
            "catch-all",
            json!([
                ["api-priority-and-fairness-config-consumer-v1", "Apply", "status", {"f:status": {"f:conditions":
                    {"k:{\"type\":\"Dangling\"}": {".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {},
                        "f:status": {}, "f:type": {}}}}}],
                ["api-priority-and-fairness-config-producer-v1", "Update", null, {
                    "f:metadata": {"f:annotations": {".": {}, "f:apf.kubernetes.io/autoupdate-spec": {}}},
                    "f:spec": {"f:distinguisherMethod": {".": {}, "f:type": {}}, "f:matchingPrecedence": {},
                        "f:priorityLevelConfiguration": {"f:name": {}}, "f:rules": {}},
                }],
            ]),
        ),
    ] {
        let found = verbs.get(target(&verbs, group, plural, namespace, name)).unwrap().value();
        let owners = found["metadata"]["managedFields"].as_array().unwrap().iter();
        let owners: Vec<Value> = owners
            .map(|it| json!([it["manager"], it["operation"], it.get("subresource"), it["fieldsV1"]]))
            .collect();
        assert_eq!(Value::from(owners), expected, "{plural} {name}");
    }
}
