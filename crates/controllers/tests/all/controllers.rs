//! What the controllers write, as kube-controller-manager 1.36.4 was seen to write it.

use std::{sync::Arc, time::Duration};

use crate::running::Running;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sternpost_cache::ResourceId;
use sternpost_store::{Revision, Store, memory::MemoryStore};
use sternpost_verbs::Part;

fn pod(name: &str, finalizers: &[&str], resources: &Value) -> Value {
    json!({
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    })
}

/// Type, status, reason and message of the conditions of a namespace at each of its changes.
fn conditions(running: &Running, name: &str) -> Vec<Vec<[String; 4]>> {
    let cache = running.verbs.cache.resource(&ResourceId::new("", "namespaces"));
    let events = cache.events_after(Revision::FIRST).unwrap();
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
    let of = |object: Value| -> Vec<[String; 4]> {
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().map(|it| ["type", "status", "reason", "message"].map(|field| text(it, field))).collect()
    };
    let all = events.iter().filter(|event| event.object.name() == name);
    let mut all: Vec<_> = all.map(|event| of(event.object.value())).collect();
    all.dedup();
    all
}

const FINISHED: [[&str; 4]; 5] = [
    [
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    ["NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"],
    [
        "NamespaceFinalizersRemaining",
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ],
];

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_behind_its_content_and_pods_go_first() {
    let running = Running::start(&["namespace"]).await;
    running.namespace("end").await;
    let none = json!({});
    running.create("configmaps", "end", json!({"metadata": {"name": "plain"}})).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["a.test/x", "b.test/y"]}});
    running.create("configmaps", "end", held).await;
    running.create("pods", "end", pod("p", &["a.test/x"], &none)).await;
    running.create("pods", "end", pod("q", &[], &none)).await;
    running.create("configmaps", "default", json!({"metadata": {"name": "stays"}})).await;
    running.delete("namespaces", "", "end", None).await;
    running.until("one pod is gone", |it| it.names("pods", "end") == ["p"]).await;
    running.quiet().await;
    assert_eq!(running.names("configmaps", "end"), ["held", "plain"]);
    let refused = running.try_create("configmaps", "end", json!({"metadata": {"name": "late"}})).await;
    assert_eq!(refused.unwrap_err().code, 403);

    running.patch("pods", "end", "p", json!({"metadata": {"finalizers": null}})).await;
    running.until("one map is gone", |it| it.names("configmaps", "end") == ["held"]).await;
    running.quiet().await;
    running.patch("configmaps", "end", "held", json!({"metadata": {"finalizers": null}})).await;
    running.until("the namespace is gone", |it| it.get("namespaces", "", "end").is_none()).await;
    assert_eq!(running.names("configmaps", "default"), ["stays"]);

    let waiting = |resources: &str, finalizers: &str| {
        let mut conditions = FINISHED.map(|condition| condition.map(str::to_owned));
        conditions[3] = [
            "NamespaceContentRemaining".into(),
            "True".into(),
            "SomeResourcesRemain".into(),
            format!("Some resources are remaining: {resources}"),
        ];
        conditions[4] = [
            "NamespaceFinalizersRemaining".into(),
            "True".into(),
            "SomeFinalizersRemain".into(),
            format!("Some content in the namespace has finalizers remaining: {finalizers}"),
        ];
        conditions.to_vec()
    };
    let one = "in 1 resource instances";
    let found = conditions(&running, "end");
    assert_eq!(
        found,
        [
            vec![],
            waiting("pods. has 1 resource instances", &format!("a.test/x {one}")),
            waiting("configmaps. has 1 resource instances", &format!("a.test/x {one}, b.test/y {one}")),
            FINISHED.map(|condition| condition.map(str::to_owned)).to_vec(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_tells_that_it_is_and_ends() {
    let running = Running::start(&["namespace"]).await;
    running.namespace("end").await;
    running.delete("namespaces", "", "end", None).await;
    running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
    let finished = FINISHED.map(|condition| condition.map(str::to_owned)).to_vec();
    assert_eq!(conditions(&running, "end"), [vec![], finished]);
}

#[tokio::test(start_paused = true)]
async fn custom_objects_go_with_their_namespace_and_other_finalizers_keep_it() {
    let running = Running::start(&["namespace"]).await;
    running.define_buoys().await;
    let served = |it: &Running| it.verbs.served.get("sea.test", "v1", "buoys").is_some();
    running.until("it is served", served).await;
    let namespace = json!({"metadata": {"name": "end", "finalizers": ["a.test/x"]}});
    running.create("namespaces", "", namespace).await;
    let buoy = json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": "b", "finalizers": ["a.test/x"]}});
    running.create("sea.test/buoys", "end", buoy).await;
    running.delete("namespaces", "", "end", None).await;
    let told = "Some resources are remaining: buoys.sea.test has 1 resource instances";
    let is_told = |it: &Running| conditions(it, "end").iter().flatten().any(|condition| condition[3] == told);
    running.until("what is left is told", is_told).await;
    running.patch("sea.test/buoys", "end", "b", json!({"metadata": {"finalizers": null}})).await;
    let finalizers =
        |it: &Running| it.get("namespaces", "", "end").map(|it| it["spec"]["finalizers"].clone());
    let let_go = |it: &Running| finalizers(it).is_none_or(|found| found == json!([]) || found.is_null());
    running.until("it is let go", let_go).await;
    running.quiet().await;
    assert!(running.get("namespaces", "", "end").is_some());
    running.patch("namespaces", "", "end", json!({"metadata": {"finalizers": null}})).await;
    running.until("it is gone", |it| it.get("namespaces", "", "end").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_authority() {
    let running = Running::start(&["serviceaccount", "root-ca-cert-publisher", "namespace"]).await;
    running.namespace("x").await;
    let there = |it: &Running, namespace: &str| {
        it.get("serviceaccounts", namespace, "default").is_some()
            && it.get("configmaps", namespace, "kube-root-ca.crt").is_some()
    };
    running.until("both have both", |it| there(it, "x") && there(it, "default")).await;
    let map = running.get("configmaps", "x", "kube-root-ca.crt").unwrap();
    assert_eq!(map["data"], json!({"ca.crt": "PEM"}));
    let description = &map["metadata"]["annotations"]["kubernetes.io/description"];
    assert!(description.as_str().unwrap().starts_with("Contains a CA bundle"));
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "kube-controller-manager");

    // What others put there stays, but for the data.
    let change = json!({
        "data": {"ca.crt": "x", "more": "y"}, "binaryData": {"q": "eA=="},
        "metadata": {"labels": {"keep": "me"}, "annotations": {"kubernetes.io/description": null, "z": "z"}},
    });
    running.patch("configmaps", "x", "kube-root-ca.crt", change).await;
    let restored = |it: &Running| {
        let map = it.get("configmaps", "x", "kube-root-ca.crt").unwrap();
        map["data"] == json!({"ca.crt": "PEM"})
    };
    running.until("it is restored", restored).await;
    let map = running.get("configmaps", "x", "kube-root-ca.crt").unwrap();
    assert_eq!(map["metadata"]["labels"], json!({"keep": "me"}));
    assert_eq!(map["binaryData"], json!({"q": "eA=="}));
    assert_eq!(map["metadata"]["annotations"].as_object().unwrap().len(), 2);

    running.delete("configmaps", "x", "kube-root-ca.crt", None).await;
    running.delete("serviceaccounts", "x", "default", None).await;
    running.until("they are back", |it| there(it, "x")).await;
    running.delete("namespaces", "", "x", None).await;
    running.until("the namespace is gone", |it| it.get("namespaces", "", "x").is_none()).await;
    running.quiet().await;
    assert!(!there(&running, "x"));
}

#[tokio::test(start_paused = true)]
async fn aggregated_roles_have_the_rules_of_those_they_select() {
    let running = Running::start(&["clusterrole-aggregation"]).await;
    let kind = "rbac.authorization.k8s.io/clusterroles";
    let rule = |group: &str, resource: &str| json!({"verbs": ["get"], "apiGroups": [group], "resources": [resource]});
    let url = json!({"verbs": ["get"], "nonResourceURLs": ["/q"]});
    for (name, labels, rules) in [
        ("b", json!({"agg": "1"}), json!([rule("", "pods"), rule("", "secrets")])),
        ("a", json!({"agg": "1", "two": "1"}), json!([rule("", "pods"), rule("a", "x")])),
        ("c", json!({"two": "1"}), json!([url])),
    ] {
        running.create(kind, "", json!({"metadata": {"name": name, "labels": labels}, "rules": rules})).await;
    }
    let selectors = json!([{"matchLabels": {"two": "1"}}, {"matchLabels": {"agg": "1"}}]);
    let all = json!({
        "metadata": {"name": "all", "labels": {"agg": "1"}},
        "aggregationRule": {"clusterRoleSelectors": selectors},
        "rules": [rule("own", "x")],
    });
    running.create(kind, "", all).await;
    let rules = |it: &Running| it.get(kind, "", "all").unwrap()["rules"].clone();
    let expected = json!([rule("", "pods"), rule("a", "x"), url, rule("", "secrets")]);
    running.until("all rules are there", |it| rules(it) == expected).await;
    let managed = running.get(kind, "", "all").unwrap()["metadata"]["managedFields"][0].clone();
    assert_eq!(
        (&managed["manager"], &managed["operation"]),
        (&json!("clusterrole-aggregation-controller"), &json!("Apply"))
    );
    running.patch(kind, "", "c", json!({"metadata": {"labels": {"two": null}}})).await;
    let expected = json!([rule("", "pods"), rule("a", "x"), rule("", "secrets")]);
    running.until("one is no longer selected", |it| rules(it) == expected).await;
    for name in ["a", "b", "c"] {
        running.delete(kind, "", name, None).await;
    }
    running.until("none is left", |it| rules(it).is_null() || rules(it) == json!([])).await;
}

#[tokio::test(start_paused = true)]
async fn quotas_tell_what_is_used_of_them() {
    let running = Running::start(&["resourcequota"]).await;
    let hard = json!({
        "pods": "5", "count/pods": "10", "requests.cpu": "4", "limits.memory": "8Gi", "cpu": "4",
        "memory": "2048Mi", "services": "3", "services.nodeports": "2", "services.loadbalancers": "1",
        "persistentvolumeclaims": "2", "requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "5Gi", "configmaps": "9",
        "count/configmaps": "9", "secrets": "9", "count/deployments.apps": "3", "count/buoys.sea.test": "3",
        "requests.example.com/x": "4", "limits.cpu": "4", "requests.ephemeral-storage": "1Gi",
        "hugepages-2Mi": "8Mi",
    });
    let quotas = "resourcequotas";
    running.create("configmaps", "default", json!({"metadata": {"name": "m"}})).await;
    running.create(quotas, "default", json!({"metadata": {"name": "all"}, "spec": {"hard": hard}})).await;
    let scoped = |name: &str, scope: Value| json!({"metadata": {"name": name}, "spec": scope});
    let best_effort = json!({"hard": {"pods": "4"}, "scopes": ["BestEffort"]});
    running.create(quotas, "default", scoped("be", best_effort)).await;
    let expression = json!({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]});
    let by_class = json!({"hard": {"pods": "4"}, "scopeSelector": {"matchExpressions": [expression]}});
    running.create(quotas, "default", scoped("pc", by_class)).await;
    running.create(quotas, "default", json!({"metadata": {"name": "none"}, "spec": {}})).await;

    let one = json!({
        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Mi"},
        "limits": {"cpu": "1", "memory": "1.5Gi", "example.com/x": "2", "hugepages-2Mi": "2Mi", "ephemeral-storage": "1Mi"},
    });
    let other = json!({
        "requests": {"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "0"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    });
    running.create("pods", "default", pod("a", &[], &one)).await;
    running.create("pods", "default", pod("b", &[], &other)).await;
    let ports = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": ports}});
    running.create("services", "default", service).await;
    let claim = json!({
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "gold", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500Mi"}}},
    });
    running.create("persistentvolumeclaims", "default", claim).await;

    let used = |it: &Running, name: &str| {
        it.get("resourcequotas", "default", name).unwrap()["status"]["used"].clone()
    };
    // As upstream has it for the same objects.
    let mut expected = json!({
        "configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0", "count/pods": "2",
        "cpu": "750m", "gold.storageclass.storage.k8s.io/requests.storage": "1500Mi", "hugepages-2Mi": "2Mi",
        "limits.cpu": "2", "limits.memory": "2560Mi", "memory": "1536Mi", "persistentvolumeclaims": "1",
        "pods": "2", "requests.cpu": "750m", "requests.ephemeral-storage": "1Mi",
        "requests.example.com/x": "2", "requests.storage": "1500Mi", "secrets": "0", "services": "1",
        "services.loadbalancers": "1", "services.nodeports": "2",
    });
    running.until("all is counted", |it| used(it, "all") == expected).await;
    running.until("scopes are heeded", |it| used(it, "pc") == json!({"pods": "2"})).await;
    assert_eq!(used(&running, "be"), json!({"pods": "0"}));
    assert_eq!(running.get(quotas, "default", "none").unwrap()["status"], json!({}));
    let found = running.get(quotas, "default", "all").unwrap();
    assert_eq!(found["status"]["hard"], found["spec"]["hard"]);

    let phase = json!({"status": {"phase": "Succeeded"}});
    running.patch_part("pods", "default", "b", phase, Part::Status).await;
    for (name, amount) in [
        ("cpu", "500m"),
        ("limits.cpu", "1"),
        ("limits.memory", "1536Mi"),
        ("memory", "1Gi"),
        ("pods", "1"),
        ("requests.cpu", "500m"),
    ] {
        expected[name] = amount.into();
    }
    running.until("the finished pod uses nothing", |it| used(it, "all") == expected).await;
    running.delete("pods", "default", "a", None).await;
    for name in [
        "cpu",
        "hugepages-2Mi",
        "limits.cpu",
        "limits.memory",
        "memory",
        "pods",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.example.com/x",
    ] {
        expected[name] = "0".into();
    }
    expected["count/pods"] = "1".into();
    running.until("nothing is used", |it| used(it, "all") == expected).await;
    running.patch(quotas, "default", "all", json!({"spec": {"hard": {"cpu": null, "pods": "6"}}})).await;
    expected.as_object_mut().unwrap().remove("cpu");
    running.until("only what is limited is told", |it| used(it, "all") == expected).await;
    assert_eq!(running.get(quotas, "default", "all").unwrap()["status"]["hard"]["pods"], "6");
}

#[tokio::test(start_paused = true)]
async fn custom_objects_count_as_soon_as_they_are_served() {
    let running = Running::start(&["resourcequota"]).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/buoys.sea.test": "3"}}});
    running.create("resourcequotas", "default", quota).await;
    let status = |it: &Running| it.get("resourcequotas", "default", "q").unwrap()["status"].clone();
    running.until("the limit is told", |it| status(it)["hard"] == json!({"count/buoys.sea.test": "3"})).await;
    running.define_buoys().await;
    let used = |it: &Running, count: &str| status(it)["used"] == json!({"count/buoys.sea.test": count});
    running.until("none is counted", |it| used(it, "0")).await;
    let buoy = |name: &str| json!({"apiVersion": "sea.test/v1", "kind": "Buoy", "metadata": {"name": name}});
    running.create("sea.test/buoys", "default", buoy("a")).await;
    running.create("sea.test/buoys", "default", buoy("b")).await;
    running.until("two are counted", |it| used(it, "2")).await;
    running.delete("sea.test/buoys", "default", "a", None).await;
    running.until("one is counted", |it| used(it, "1")).await;
}

#[tokio::test(start_paused = true)]
async fn secrets_of_accounts_get_their_token_and_go_with_the_account() {
    let running = Running::start(&["serviceaccount-token"]).await;
    let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "tok"}, {"name": "z"}]});
    let account = running.create("serviceaccounts", "default", account).await;
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let secret = |name: &str, account: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": name, "annotations": annotations}})
    };
    for (name, account) in [("tok", "robot"), ("more", "robot"), ("lost", "nobody")] {
        running.create("secrets", "default", secret(name, account)).await;
    }
    let data = |it: &Running, name: &str, key: &str| {
        let secret = it.get("secrets", "default", name)?;
        let text = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
        Some(String::from_utf8(text).unwrap())
    };
    let token = format!("default/robot/{uid}/tok");
    running.until("it has its token", |it| data(it, "tok", "token") == Some(token.clone())).await;
    let found = running.get("secrets", "default", "tok").unwrap();
    assert_eq!(found["metadata"]["annotations"]["kubernetes.io/service-account.uid"], uid);
    assert_eq!(data(&running, "tok", "ca.crt").as_deref(), Some("PEM"));
    assert_eq!(data(&running, "tok", "namespace").as_deref(), Some("default"));
    running.until("the lost is gone", |it| it.get("secrets", "default", "lost").is_none()).await;

    let change = json!({"data": {"ca.crt": "eA==", "namespace": "eA==", "token": null}});
    running.patch("secrets", "default", "tok", change).await;
    running.until("it has its token again", |it| data(it, "tok", "token") == Some(token.clone())).await;
    assert_eq!(data(&running, "tok", "ca.crt").as_deref(), Some("PEM"));
    assert_eq!(data(&running, "tok", "namespace").as_deref(), Some("x"));

    running.delete("secrets", "default", "tok", None).await;
    let named = |it: &Running| it.get("serviceaccounts", "default", "robot").unwrap()["secrets"].clone();
    running.until("the account forgets it", |it| named(it) == json!([{"name": "z"}])).await;
    running.delete("serviceaccounts", "default", "robot", None).await;
    running.until("the other goes too", |it| it.get("secrets", "default", "more").is_none()).await;
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}})
}

#[tokio::test(start_paused = true)]
async fn events_end_after_their_time_and_writing_them_prolongs_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let running = Running::start_on(&store, &["event-ttl"], Duration::from_millis(400)).await;
    for name in ["a", "b"] {
        running.create("events", "default", event(name)).await;
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(700) {
        let count = begun.elapsed().as_millis();
        running.patch("events", "default", "b", json!({"count": count})).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.names("events", "default"), ["b"]);
    running.until("both are gone", |it| it.names("events", "default").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn events_end_across_a_restart_by_when_the_server_wrote_them() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let lifetime = Duration::from_secs(3600);
    let old = Running::start_on(&store, &["-*"], lifetime).await;
    // Times within the event do not count.
    let mut early = event("early");
    early["lastTimestamp"] = "2030-01-01T00:00:00Z".into();
    old.clock.set_wall(crate::running::BEGUN - 3601);
    old.create("events", "default", early).await;
    old.create("events", "default", event("written-again")).await;
    old.clock.advance(Duration::from_secs(3500));
    old.patch("events", "default", "written-again", json!({"message": "x"})).await;
    let running = Running::start_on(&store, &["event-ttl"], lifetime).await;
    let names = |it: &Running| it.names("events", "default");
    running.until("the early one is gone", |it| names(it) == ["written-again"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_off_does_nothing() {
    let running = Running::start(&["-*"]).await;
    running.namespace("x").await;
    running.delete("namespaces", "", "x", None).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    running.create("resourcequotas", "default", quota).await;
    running.quiet().await;
    assert!(running.get("namespaces", "", "x").is_some());
    assert!(running.names("serviceaccounts", "default").is_empty());
    assert!(running.names("configmaps", "default").is_empty());
    assert_eq!(running.get("resourcequotas", "default", "q").unwrap()["status"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_of_the_same_name_is_not_touched() {
    let running = Running::start(&["namespace", "serviceaccount"]).await;
    for round in 0..20 {
        running.namespace("again").await;
        for name in ["a", "b", "c"] {
            running.create("configmaps", "again", json!({"metadata": {"name": name}})).await;
        }
        tokio::time::sleep(Duration::from_millis(round)).await;
        assert_eq!(running.names("configmaps", "again"), ["a", "b", "c"], "round {round}");
        running.delete("namespaces", "", "again", None).await;
        running.until("it is gone", |it| it.get("namespaces", "", "again").is_none()).await;
        assert!(running.names("configmaps", "again").is_empty());
    }
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A pod that uses a claim, on a node or on none.
fn pod_with_claim(name: &str, claim: &str, node: Option<&str>) -> Value {
    let mut pod = pod(name, &[], &json!({}));
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

#[tokio::test]
async fn a_claim_goes_when_no_pod_on_a_node_uses_it() {
    let running = Running::start(&["pvc-protection"]).await;
    for name in ["free", "used", "unscheduled"] {
        let made = running.create("persistentvolumeclaims", "default", claim(name)).await;
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
    running.create("pods", "default", pod_with_claim("p", "used", Some("n"))).await;
    running.create("pods", "default", pod_with_claim("q", "used", Some("n"))).await;
    running.create("pods", "default", pod_with_claim("r", "unscheduled", None)).await;
    // One of the same name elsewhere is no business of theirs.
    running.namespace("other").await;
    running.create("persistentvolumeclaims", "other", claim("used")).await;
    for name in ["free", "used", "unscheduled"] {
        running.delete("persistentvolumeclaims", "default", name, None).await;
    }
    running.delete("persistentvolumeclaims", "other", "used", None).await;
    let left = |it: &Running| {
        [it.names("persistentvolumeclaims", "default"), it.names("persistentvolumeclaims", "other")]
    };
    running.until("two are gone", |it| left(it) == [vec!["used"], vec![]]).await;
    running.remove_pod("default", "p").await;
    running.quiet().await;
    assert_eq!(running.names("persistentvolumeclaims", "default"), ["used"]);
    running.remove_pod("default", "q").await;
    running.until("the last is gone", |it| left(it) == [Vec::<String>::new(), vec![]]).await;
}

#[tokio::test]
async fn a_claim_made_for_a_pod_goes_with_the_pod_it_was_made_for() {
    let running = Running::start(&["pvc-protection"]).await;
    let mut with_volume = pod("p", &["a.test/x"], &json!({}));
    with_volume["spec"]["nodeName"] = "n".into();
    let template = json!({"spec": claim("v")["spec"]});
    with_volume["spec"]["volumes"] = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]);
    let made = running.create("pods", "default", with_volume).await;
    let owner = |uid: &Value| json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]);
    // Of the pod, and of that name for another: only the first is in use.
    let mut its_own = claim("p-v");
    its_own["metadata"]["ownerReferences"] = owner(&made["metadata"]["uid"]);
    running.create("persistentvolumeclaims", "default", its_own).await;
    running.delete("persistentvolumeclaims", "default", "p-v", None).await;
    running.quiet().await;
    assert_eq!(running.names("persistentvolumeclaims", "default"), ["p-v"]);
    // Deleted with no grace period it is done with the claim, whoever still holds it.
    running.remove_pod("default", "p").await;
    running.until("it is gone", |it| it.names("persistentvolumeclaims", "default").is_empty()).await;
    assert_eq!(running.names("pods", "default"), ["p"]);

    let mut of_another = claim("p-v");
    of_another["metadata"]["ownerReferences"] = owner(&"another".into());
    running.create("persistentvolumeclaims", "default", of_another).await;
    running.delete("persistentvolumeclaims", "default", "p-v", None).await;
    running.until("it is gone", |it| it.names("persistentvolumeclaims", "default").is_empty()).await;
}

#[tokio::test]
async fn a_volume_goes_when_it_is_not_bound() {
    let running = Running::start(&["pv-protection"]).await;
    let volume = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}})
    };
    for name in ["bound", "free"] {
        let made = running.create("persistentvolumes", "", volume(name)).await;
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    }
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    running.patch_part("persistentvolumes", "", "bound", phase("Bound"), Part::Status).await;
    running.delete("persistentvolumes", "", "bound", None).await;
    running.delete("persistentvolumes", "", "free", None).await;
    running.until("one is gone", |it| it.names("persistentvolumes", "") == ["bound"]).await;
    running.patch_part("persistentvolumes", "", "bound", phase("Released"), Part::Status).await;
    running.until("both are gone", |it| it.names("persistentvolumes", "").is_empty()).await;
}

#[tokio::test]
async fn a_class_goes_when_neither_a_claim_nor_a_volume_names_it() {
    let running = Running::start(&["volumeattributesclass-protection-controller"]).await;
    const CLASSES: &str = "storage.k8s.io/volumeattributesclasses";
    for name in ["claimed", "free", "of-volume"] {
        let class = json!({"metadata": {"name": name}, "driverName": "d.test", "parameters": {"a": "b"}});
        let made = running.create(CLASSES, "", class).await;
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/vac-protection"]));
    }
    let mut claims = claim("c");
    claims["spec"]["volumeAttributesClassName"] = "claimed".into();
    running.create("persistentvolumeclaims", "default", claims).await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.test", "volumeHandle": "h"},
        "volumeAttributesClassName": "of-volume"}});
    running.create("persistentvolumes", "", volume).await;
    for name in ["claimed", "free", "of-volume"] {
        running.delete(CLASSES, "", name, None).await;
    }
    running.until("one is gone", |it| it.names(CLASSES, "") == ["claimed", "of-volume"]).await;
    let unheld = json!({"metadata": {"finalizers": null}});
    running.patch("persistentvolumeclaims", "default", "c", unheld.clone()).await;
    running.delete("persistentvolumeclaims", "default", "c", None).await;
    running.until("two are gone", |it| it.names(CLASSES, "") == ["of-volume"]).await;
    running.patch("persistentvolumes", "", "v", unheld).await;
    running.delete("persistentvolumes", "", "v", None).await;
    running.until("all are gone", |it| it.names(CLASSES, "").is_empty()).await;
}

#[tokio::test]
async fn what_has_lost_its_protection_gets_it_again() {
    let running = Running::start(&["pvc-protection", "pv-protection"]).await;
    running.create("persistentvolumeclaims", "default", claim("c")).await;
    let unprotected = json!({"metadata": {"finalizers": ["a.test/x"]}});
    running.patch("persistentvolumeclaims", "default", "c", unprotected).await;
    let finalizers = |it: &Running| {
        it.get("persistentvolumeclaims", "default", "c").map(|claim| claim["metadata"]["finalizers"].clone())
    };
    let both = json!(["a.test/x", "kubernetes.io/pvc-protection"]);
    running.until("it is protected", |it| finalizers(it) == Some(both.clone())).await;
    // Whoever deletes it and holds it is waited for, unprotected.
    running.delete("persistentvolumeclaims", "default", "c", None).await;
    running.until("only its own is left", |it| finalizers(it) == Some(json!(["a.test/x"]))).await;
    running.quiet().await;
    assert_eq!(finalizers(&running), Some(json!(["a.test/x"])));
}

#[tokio::test]
async fn protection_goes_on_where_it_ended() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let before = Running::start_on(&store, &["-*"], sternpost_controllers::EVENT_LIFETIME).await;
    before.create("persistentvolumeclaims", "default", claim("free")).await;
    before.create("persistentvolumeclaims", "default", claim("used")).await;
    before.create("pods", "default", pod_with_claim("p", "used", Some("n"))).await;
    for name in ["free", "used"] {
        before.delete("persistentvolumeclaims", "default", name, None).await;
    }
    before.quiet().await;
    // As kube-apiserver alone: protected, and nobody ends that.
    assert_eq!(before.names("persistentvolumeclaims", "default"), ["free", "used"]);
    let after = Running::start_on(&store, &["*"], sternpost_controllers::EVENT_LIFETIME).await;
    after.until("one is gone", |it| it.names("persistentvolumeclaims", "default") == ["used"]).await;
    after.remove_pod("default", "p").await;
    after.until("both are gone", |it| it.names("persistentvolumeclaims", "default").is_empty()).await;
}
