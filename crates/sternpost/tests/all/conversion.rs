//! Conversion webhooks and the whole server: one that works, one that hangs, one that lies, one that goes away.
//!
//! Texts are those that kube-apiserver 1.36.4 gave when the same was done to it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use sternpost_testkit::server::{APPLY, AT_LAST, DEFINITIONS, JSON_PATCH, MERGE, Server, short};
use sternpost_testkit::webhook::{self, Call, Identity, Reply, Signer};

const GROUP: &str = "hooks.example.com";
const WIDGETS: &str = "widgets.hooks.example.com";

/// What a webhook does with a review; changed while it runs.
type Behaviour = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

struct Hook {
    server: webhook::Server,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Hook {
    async fn start() -> Self {
        let behaviour: Arc<Mutex<Behaviour>> = Arc::new(Mutex::new(Arc::new(good)));
        let current = Arc::clone(&behaviour);
        let reply = move |call: &Call| {
            let review = serde_json::from_slice(&call.body).unwrap();
            let behaviour = Arc::clone(&current.lock().unwrap());
            behaviour(&review)
        };
        let server = webhook::Server::start(Identity::default(), &["http/1.1"], reply).await;
        Self { server, behaviour }
    }

    fn does(&self, behaviour: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap() = Arc::new(behaviour);
    }

    fn works(&self) {
        self.does(good);
    }

    /// How many objects each call since the first `seen` brought, and how many calls there were.
    fn calls_since(&self, seen: usize) -> Vec<(String, usize)> {
        let calls = self.server.calls();
        let review = |call: &Call| serde_json::from_slice::<Value>(&call.body).unwrap()["request"].clone();
        let reviews = calls.iter().skip(seen).map(review);
        reviews
            .map(|request| {
                let wanted = request["desiredAPIVersion"].as_str().unwrap().rsplit('/').next().unwrap();
                (wanted.to_owned(), request["objects"].as_array().unwrap().len())
            })
            .collect()
    }

    fn count(&self) -> usize {
        self.server.calls().len()
    }
}

/// What a good webhook answers.
fn answered(review: &Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let objects: Vec<Value> =
        request["objects"].as_array().unwrap().iter().map(|object| converted(object, wanted)).collect();
    json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
    })
}

fn good(review: &Value) -> Reply {
    Reply::ok(answered(review).to_string())
}

/// v2 writes `colour` what the others write `color`.
fn converted(object: &Value, wanted: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = wanted.into();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let (from, to) = if wanted.ends_with("/v2") { ("color", "colour") } else { ("colour", "color") };
        if let Some(value) = spec.remove(from) {
            spec.insert(to.into(), value);
        }
    }
    object
}

fn crd(plural: &str, config: &Value) -> Value {
    let kind = kind_of(plural);
    let version = |name: &str| {
        let field = if name == "v2" { "colour" } else { "color" };
        let spec = json!({
            "type": "object",
            "properties": {
                field: {"type": "string", "enum": ["red", "green", "blue"]},
                "replicas": {"type": "integer"},
                "d": {"type": "string", "default": format!("dflt-{field}")},
                "size": {"type": "integer", "maximum": 10},
            },
        });
        let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1"), version("v2"), version("v3")],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}},
        },
    })
}

fn kind_of(plural: &str) -> String {
    let (first, rest) = plural.trim_end_matches('s').split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn widgets(version: &str) -> String {
    of("widgets", version)
}

fn of(plural: &str, version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/{plural}")
}

fn widget(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// A server that serves widgets, and their webhook.
async fn started(name: &str) -> (Server, Hook) {
    let (server, hook) = (Server::start(name).await, Hook::start().await);
    server.define(&crd("widgets", &hook.server.config("/convert"))).await;
    (server, hook)
}

/// Upstream fills in defaults when it reads a body or a stored object, not on the way to the store. What
/// is expected here is what kube-apiserver 1.36.4 sent to the same webhook.
#[tokio::test]
async fn a_write_of_the_status_stores_no_defaults_of_its_version() {
    let (server, hook) = started("conversion-status-defaults").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    // In v2 nobody has said anything about `d`, which has a default there.
    hook.does(|review| {
        let mut answer = answered(review);
        for object in answer["response"]["convertedObjects"].as_array_mut().unwrap() {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.remove("d");
            }
        }
        Reply::ok(answer.to_string())
    });
    let mut body = widget("v1", "a", &json!({"color": "red"}));
    body["metadata"]["finalizers"] = json!(["example.com/f"]);
    server.post(&v1, &body).await.expect(201);
    let sent_to_storage = |seen: usize| {
        let calls = hook.server.calls();
        let requests = calls
            .iter()
            .skip(seen)
            .map(|call| serde_json::from_slice::<Value>(&call.body).unwrap()["request"].clone());
        let to_v1 = requests.filter(|request| request["desiredAPIVersion"] == format!("{GROUP}/v1"));
        to_v1.last().unwrap()["objects"][0]["spec"].clone()
    };

    let seen = hook.count();
    let status = json!({"status": {"seen": "x"}});
    server.patch(&format!("{v2}/a/status"), MERGE, &status).await.expect(200);
    assert_eq!(sent_to_storage(seen), json!({"colour": "red"}), "merge patch");

    let seen = hook.count();
    let mut applied = widget("v2", "a", &json!({}));
    applied["status"] = json!({"seen": "y"});
    let path = format!("{v2}/a/status?fieldManager=m&force=true");
    server.patch(&path, APPLY, &applied).await.expect(200);
    assert_eq!(sent_to_storage(seen), json!({"colour": "red"}), "apply");

    let seen = hook.count();
    assert_eq!(server.send("DELETE", &format!("{v2}/a"), "application/json", "").await.code, 200);
    assert_eq!(sent_to_storage(seen), json!({"colour": "red"}), "delete");
    server.stop();
}

#[tokio::test]
async fn every_verb_works_in_every_version() {
    let (server, hook) = started("conversion-verbs").await;
    let (v1, v2, v3) = (widgets("v1"), widgets("v2"), widgets("v3"));
    let mut watch = server.watch(&format!("{v2}?watch=1")).await;

    // The default is that of the version it was sent in, before it was converted; what no version knows goes.
    let body = widget("v2", "a", &json!({"colour": "red", "nonsense": 1}));
    let made = server.post(&v2, &body).await.expect(201);
    assert_eq!(made["spec"], json!({"colour": "red", "d": "dflt-colour"}));
    assert_eq!(made["apiVersion"], format!("{GROUP}/v2"));
    for (path, spec) in [
        (&v1, json!({"color": "red", "d": "dflt-colour"})),
        (&v2, json!({"colour": "red", "d": "dflt-colour"})),
        (&v3, json!({"color": "red", "d": "dflt-colour"})),
    ] {
        let found = server.get(&format!("{path}/a")).await.expect(200);
        assert_eq!(found["spec"], spec, "{path}");
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            assert_eq!(found["metadata"][field], made["metadata"][field], "{path} {field}");
        }
        let list = server.get(path).await.expect(200);
        assert_eq!(list["items"][0]["spec"], spec, "{path}");
        assert_eq!(list["kind"], "WidgetList");
    }
    let refused = server.post(&v2, &widget("v2", "b", &json!({"colour": "pink"}))).await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.colour");

    let mut put = widget("v3", "a", &json!({"color": "green"}));
    put["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let put = server.put(&format!("{v3}/a"), &put).await.expect(200);
    assert_eq!(
        (&put["spec"], &put["metadata"]["generation"]),
        (&json!({"color": "green", "d": "dflt-color"}), &json!(2))
    );
    let stale = widget("v2", "a", &json!({"colour": "blue"}));
    let mut stale_body = stale.clone();
    stale_body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    assert_eq!(server.put(&format!("{v2}/a"), &stale_body).await.code, 409);

    let patched =
        server.patch(&format!("{v2}/a"), MERGE, &json!({"spec": {"colour": "blue"}})).await.expect(200);
    assert_eq!(patched["spec"]["colour"], "blue");
    let patch = json!([{"op": "test", "path": "/spec/color", "value": "blue"}, {"op": "add", "path": "/spec/replicas", "value": 2}]);
    let patched = server.patch(&format!("{v1}/a"), JSON_PATCH, &patch).await.expect(200);
    assert_eq!(patched["spec"], json!({"color": "blue", "d": "dflt-color", "replicas": 2}));
    let applied = widget("v2", "a", &json!({"size": 3}));
    let applied = server.patch(&format!("{v2}/a?fieldManager=m"), APPLY, &applied).await.expect(200);
    assert_eq!(applied["spec"], json!({"colour": "blue", "d": "dflt-color", "replicas": 2, "size": 3}));

    let status = json!({"status": {"replicas": 1, "seen": "x"}});
    let status = server.patch(&format!("{v2}/a/status"), MERGE, &status).await.expect(200);
    assert_eq!((&status["status"]["seen"], &status["spec"]["colour"]), (&json!("x"), &json!("blue")));
    let scale = server.get(&format!("{v3}/a/scale")).await.expect(200);
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(1)));
    let scale =
        server.patch(&format!("{v2}/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 5);
    assert_eq!(server.get(&format!("{v1}/a")).await.expect(200)["spec"]["replicas"], 5);

    let table = server.send("GET", &format!("{v2}/a"), "application/json", "").await;
    assert_eq!(table.code, 200);
    let gone = server.delete(&format!("{v2}/a")).await;
    assert_eq!(gone.code, 200, "{}", short(&gone.body));
    assert_eq!(server.get(&format!("{v1}/a")).await.code, 404);

    // The same as told to who watched in v2 all the time.
    let mut told = Vec::new();
    while told.last().is_none_or(|(kind, _): &(String, Value)| kind != "DELETED") {
        let (kind, name, spec) = watch.told().await.unwrap();
        assert_eq!(name, "a");
        assert!(spec.get("color").is_none(), "{spec}");
        told.push((kind, spec));
    }
    let colours: Vec<(&str, &str)> =
        told.iter().map(|(kind, spec)| (kind.as_str(), spec["colour"].as_str().unwrap())).collect();
    let changes = [("ADDED", "red"), ("MODIFIED", "green"), ("MODIFIED", "blue"), ("MODIFIED", "blue")];
    assert_eq!(colours[..4], changes);
    assert_eq!(colours.len(), 8, "{colours:?}");

    for name in ["x", "y", "z"] {
        server.post(&v3, &widget("v3", name, &json!({"color": "red"}))).await.expect(201);
    }
    server.delete(&v2).await.expect(200);
    assert_eq!(server.get(&v1).await.expect(200)["items"], json!([]));
    assert!(hook.count() > 10);
    server.stop();
}

#[tokio::test]
async fn lists_are_converted_in_one_call_and_what_fits_is_not_sent() {
    let (server, hook) = started("conversion-lists").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    for name in ["a", "b", "c", "d", "e"] {
        server.post(&v1, &widget("v1", name, &json!({"color": "red"}))).await.expect(201);
    }
    assert_eq!(hook.calls_since(0), [], "the storage version needs no webhook");
    server.get(&v1).await.expect(200);
    server.get(&format!("{v1}/a")).await.expect(200);
    assert_eq!(hook.calls_since(0), []);

    let list = server.get(&v2).await.expect(200);
    assert_eq!(hook.calls_since(0), [("v2".into(), 5)]);
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);

    // Another storage version: what is stored stays, and is known for what it is.
    let patch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    let changed = server.patch(&format!("{DEFINITIONS}/{WIDGETS}"), JSON_PATCH, &patch).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    let seen = hook.count();
    assert_eq!(server.get(&v1).await.expect(200)["items"].as_array().unwrap().len(), 5);
    assert_eq!(hook.calls_since(seen), []);

    // A write that changes nothing rewrites what is stored in the old version, once.
    for name in ["a", "b"] {
        let path = format!("{v1}/{name}");
        let before = server.get(&path).await.expect(200);
        let after = server.put(&path, &before).await.expect(200);
        assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
        assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
        assert_eq!(after["spec"], before["spec"]);
        let again = server.put(&path, &after).await.expect(200);
        assert_eq!(again["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    }
    for (path, version, sent) in [(&v1, "v1", 2), (&v2, "v2", 3)] {
        let seen = hook.count();
        let list = server.get(path).await.expect(200);
        assert_eq!(hook.calls_since(seen), [(version.to_owned(), sent)]);
        let field = if version == "v2" { "colour" } else { "color" };
        for item in list["items"].as_array().unwrap() {
            assert_eq!(item["spec"], json!({field: "red", "d": "dflt-color"}), "{path}");
        }
    }

    // Pages of a list are converted page by page.
    let seen = hook.count();
    let page = server.get(&format!("{v1}?limit=2")).await.expect(200);
    assert_eq!(hook.calls_since(seen), [("v1".into(), 2)]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{v1}?limit=10&continue={token}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
    assert_eq!(hook.count(), seen + 1);
    server.stop();
}

#[tokio::test]
async fn managers_of_different_versions_share_an_object() {
    let (server, _hook) = started("conversion-apply").await;
    let apply = async |version: &str, manager: &str, spec: Value| {
        let path = format!("{}/a?fieldManager={manager}", widgets(version));
        server.patch(&path, APPLY, &widget(version, "a", &spec)).await
    };
    apply("v1", "one", json!({"color": "red", "size": 1})).await.expect(201);
    let both = apply("v2", "two", json!({"replicas": 2, "colour": "red"})).await.expect(200);
    assert_eq!(both["spec"], json!({"colour": "red", "d": "dflt-color", "replicas": 2, "size": 1}));
    let owners: Map<String, Value> = both["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap().into(),
                json!([entry["apiVersion"], entry["fieldsV1"]["f:spec"]]),
            )
        })
        .collect();
    assert_eq!(owners["one"], json!([format!("{GROUP}/v1"), {"f:color": {}, "f:size": {}}]));
    assert_eq!(owners["two"], json!([format!("{GROUP}/v2"), {"f:colour": {}, "f:replicas": {}}]));

    // A field has one owner whatever a version calls it.
    let refused = apply("v3", "three", json!({"color": "blue"})).await;
    assert_eq!(refused.code, 409);
    let causes: Vec<String> = refused.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| format!("{} {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect();
    assert_eq!(causes, [".spec.color conflict with \"one\"", ".spec.colour conflict with \"two\""]);
    // What one no longer applies stays while another does, and goes with the last.
    let left = apply("v1", "one", json!({"size": 1})).await.expect(200);
    assert_eq!(left["spec"], json!({"color": "red", "d": "dflt-color", "replicas": 2, "size": 1}));
    let left = apply("v2", "two", json!({"replicas": 2})).await.expect(200);
    assert_eq!(left["spec"], json!({"d": "dflt-color", "replicas": 2, "size": 1}));
    server.stop();
}

/// A lie: what a good answer becomes, and the error of a read of `a` in v2.
type Lie = (&'static str, fn(&mut Value), &'static str);

const LIES: [Lie; 24] = [
    (
        "wrong uid",
        |answer| answer["response"]["uid"] = "wrong".into(),
        "failed: expected response.uid=\"UID\", got \"wrong\"",
    ),
    ("no response", |answer| answer["response"] = Value::Null, "failed: no response provided"),
    (
        "a string for a response",
        |answer| answer["response"] = "x".into(),
        "failed: json: cannot unmarshal string into Go struct field ConversionReview.response of type v1.ConversionResponse",
    ),
    (
        "no result",
        |answer| answer["response"]["result"] = Value::Null,
        "failed: response.result.status was '', not 'Success'",
    ),
    (
        "a failure",
        |answer| answer["response"]["result"] = json!({"status": "Failure", "message": "my message"}),
        "failed: my message",
    ),
    (
        "another review",
        |answer| answer["kind"] = "AdmissionReview".into(),
        "failed: no kind \"AdmissionReview\" is registered for version \"apiextensions.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
    ),
    (
        "no kind of review",
        |answer| answer["kind"] = Value::Null,
        "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=",
    ),
    (
        "an old review",
        |answer| answer["apiVersion"] = "apiextensions.k8s.io/v1beta1".into(),
        "failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
    ),
    (
        "no objects",
        |answer| answer["response"]["convertedObjects"] = json!([]),
        "returned 0 objects, expected 1",
    ),
    (
        "too many objects",
        |answer| {
            let first = first(answer).clone();
            answer["response"]["convertedObjects"] = json!([first, first]);
        },
        "returned 2 objects, expected 1",
    ),
    (
        "an object for objects",
        |answer| answer["response"]["convertedObjects"] = json!({}),
        "failed: json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension",
    ),
    ("null for an object", |answer| *first(answer) = Value::Null, "=unexpected end of JSON input"),
    (
        "a string for an object",
        |answer| *first(answer) = "x".into(),
        "=json: cannot unmarshal string into Go value of type map[string]interface {}",
    ),
    ("an empty object", |answer| *first(answer) = json!({}), "=Object 'Kind' is missing in '{}'"),
    (
        "the old version",
        |answer| first(answer)["apiVersion"] = format!("{GROUP}/v1").into(),
        "returned invalid object at index 0: invalid groupVersion (expected hooks.example.com/v2, received hooks.example.com/v1)",
    ),
    (
        "another kind",
        |answer| first(answer)["kind"] = "Gadget".into(),
        "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
    ),
    (
        "no metadata",
        |answer| first(answer)["metadata"] = Value::Null,
        "returned invalid object: must have the same name: a != ",
    ),
    (
        "another name",
        |answer| first(answer)["metadata"]["name"] = "zz".into(),
        "returned invalid object: must have the same name: a != zz",
    ),
    (
        "another namespace",
        |answer| first(answer)["metadata"]["namespace"] = "kube-system".into(),
        "returned invalid object: must have the same namespace: default != kube-system",
    ),
    (
        "another uid of the object",
        |answer| first(answer)["metadata"]["uid"] = "u".into(),
        "returned invalid object: must have the same UID: OBJECT != u",
    ),
    (
        "a number for a label",
        |answer| first(answer)["metadata"]["labels"] = json!({"a": 1}),
        "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
    ),
    (
        "a string for labels",
        |answer| first(answer)["metadata"]["labels"] = "x".into(),
        "returned invalid metadata: invalid metadata.labels of type string in converted object",
    ),
    (
        "a list for annotations",
        |answer| first(answer)["metadata"]["annotations"] = json!([]),
        "returned invalid metadata: invalid metadata.annotations of type []interface {} in converted object",
    ),
    (
        "a number for the status",
        |answer| answer["response"]["result"]["status"] = 1.into(),
        "failed: json: cannot unmarshal number into Go struct field Status.response.result.status of type string",
    ),
];

fn first(answer: &mut Value) -> &mut Value {
    &mut answer["response"]["convertedObjects"][0]
}

#[tokio::test]
async fn a_webhook_that_lies_is_not_believed() {
    let (server, hook) = started("conversion-lies").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    let object = server.post(&v1, &widget("v1", "a", &json!({"color": "red"}))).await.expect(201);
    let kept = server.get(&format!("{v1}/a")).await.expect(200);
    let failed = |from: &str, text: &str| match text.strip_prefix('=') {
        Some(whole) => whole.to_owned(),
        None => format!("conversion webhook for {GROUP}/{from}, Kind=Widget {text}"),
    };
    for (lie, change, text) in LIES {
        hook.does(move |review| {
            let mut answer = answered(review);
            change(&mut answer);
            Reply::ok(answer.to_string())
        });
        let seen = hook.count();
        let found = server.get(&format!("{v2}/a")).await;
        let review: Value = serde_json::from_slice(&hook.server.calls()[seen].body).unwrap();
        let text = text
            .replace("UID", review["request"]["uid"].as_str().unwrap())
            .replace("OBJECT", object["metadata"]["uid"].as_str().unwrap())
            .replace(&format!("the same {}", review["request"]["uid"].as_str().unwrap()), "the same UID");
        assert_eq!((found.code, found.message()), (500, failed("v1", &text).as_str()), "{lie}");
        assert_eq!((found.body.get("reason"), &found.body["status"]), (None, &json!("Failure")), "{lie}");
        let listed = server.get(&v2).await;
        assert_eq!(listed.code, 500, "{lie}: a list");
        let shown = failed("v1", text.split(['"', ':']).next().unwrap());
        assert!(listed.message().starts_with(&shown), "{lie}: {} for {shown}", listed.message());
        // Nothing is written on a liar's word.
        let body = widget("v2", "a", &json!({"colour": "blue"}));
        let put = server.put(&format!("{v2}/a"), &body).await;
        assert_eq!(put.code, 500, "{lie}: {}", put.message());
        let patched = server.patch(&format!("{v2}/a"), MERGE, &json!({"spec": {"colour": "blue"}})).await;
        assert_eq!(patched.code, 500, "{lie}: {}", patched.message());
        let applied = server.patch(&format!("{v2}/a?fieldManager=m"), APPLY, &body).await;
        assert_eq!(applied.code, 500, "{lie}: {}", applied.message());
        assert_eq!(server.get(&format!("{v1}/a")).await.expect(200), kept, "{lie}");
    }
    hook.works();
    assert_eq!(server.get(&format!("{v2}/a")).await.expect(200)["spec"]["colour"], "red");
    server.stop();
}

#[tokio::test]
async fn answers_that_are_none_are_told_as_such() {
    let (server, hook) = started("conversion-answers").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    for name in ["a", "b"] {
        server.post(&v1, &widget("v1", name, &json!({"color": "red"}))).await.expect(201);
    }
    let url = hook.server.url("/convert?timeout=30s");
    let dropped = format!("Post \"{url}\": ");
    for (what, reply, text) in [
        ("text", Reply::code(200, "text/plain", "hello"), "couldn't get version/kind; json parse error: "),
        (
            "half an answer",
            Reply::ok("{\"kind\":"),
            "couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
        (
            "nothing",
            Reply::ok(""),
            "0-length response with status code: 200 and content type: application/json",
        ),
        (
            "a page that is not there",
            Reply::code(404, "text/plain", "no"),
            "the server could not find the requested resource",
        ),
        (
            "its own error",
            Reply::code(500, "text/plain", "oops"),
            "an error on the server (\"oops\") has prevented the request from succeeding",
        ),
        (
            "an end in the middle",
            Reply::Short("{".into()),
            "unexpected error when reading response body. Please retry. Original error: unexpected EOF",
        ),
        ("no answer", Reply::Drop, dropped.as_str()),
        ("deep JSON", Reply::ok("[".repeat(1_000_000)), "couldn't get version/kind; json parse error: "),
        (
            "more than is read",
            Reply::ok(vec![b' '; sternpost_webhook::client::MAX_ANSWER + 1]),
            "the response is larger than 33554432 bytes",
        ),
    ] {
        hook.does(move |_| reply.clone());
        let found = server.get(&format!("{v2}/a")).await;
        let expected = format!("conversion webhook for {GROUP}/v1, Kind=Widget failed: {text}");
        assert_eq!(found.code, 500, "{what}");
        assert!(found.message().starts_with(&expected), "{what}: {}", found.message());
    }
    // Two that have changed places are two with other names.
    hook.does(|review| {
        let mut answer = answered(review);
        answer["response"]["convertedObjects"].as_array_mut().unwrap().reverse();
        Reply::ok(answer.to_string())
    });
    let listed = server.get(&v2).await;
    assert_eq!(listed.code, 500);
    assert_eq!(
        listed.message(),
        format!(
            "conversion webhook for {GROUP}/v1, Kind=Widget returned invalid object: must have the same name: a != b"
        )
    );
    // Where nothing is converted nothing is asked.
    assert_eq!(server.get(&format!("{v1}?limit=1")).await.code, 200);
    // What a webhook adds beside labels and annotations is not taken, what the schema does not know neither.
    hook.does(|review| {
        let mut answer = answered(review);
        let object = first(&mut answer);
        for (field, value) in [
            ("finalizers", json!(["x/y"])),
            ("generation", json!(77)),
            ("resourceVersion", json!("1")),
            ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            ("managedFields", json!([])),
            ("labels", json!({"new": "label"})),
        ] {
            object["metadata"][field] = value;
        }
        object["spec"]["nonsense"] = json!({"deep": [1]});
        Reply::ok(answer.to_string())
    });
    let stored = server.get(&format!("{v1}/a")).await.expect(200);
    let mut expected = stored["metadata"].clone();
    expected["labels"] = json!({"new": "label"});
    let found = server.get(&format!("{v2}/a")).await.expect(200);
    assert_eq!(
        (&found["metadata"], &found["spec"]),
        (&expected, &json!({"colour": "red", "d": "dflt-color"}))
    );
    server.stop();
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_up_only_who_needs_it() {
    let (server, hook) = started("conversion-hang").await;
    let other = Hook::start().await;
    server.define(&crd("gadgets", &other.server.config("/"))).await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    let gadget = |name: &str| json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": {"name": name}, "spec": {"color": "red"}});
    server.post(&of("gadgets", "v1"), &gadget("g")).await.expect(201);
    server.post(&v1, &widget("v1", "a", &json!({"color": "red"}))).await.expect(201);
    // Owned in v2 as well, so that a write in v1 needs the webhook to tell the owners apart.
    let applied = widget("v2", "a", &json!({"size": 1}));
    server.patch(&format!("{v2}/a?fieldManager=two"), APPLY, &applied).await.expect(200);
    let kept = server.get(&format!("{v1}/a")).await.expect(200);

    hook.does(|_| Reply::Hang);
    let seen = hook.count();
    let server = Arc::new(server);
    // More than there are threads of any kind.
    let waiting: Vec<_> = (0..700)
        .map(|index| {
            let server = Arc::clone(&server);
            let (v1, v2) = (v1.clone(), v2.clone());
            tokio::spawn(async move {
                let spec = json!({"spec": {"replicas": index}});
                let answer = match index % 4 {
                    0 => server.get(&format!("{v2}/a")).await,
                    1 => server.get(&v2).await,
                    _ => server.patch(&format!("{v1}/a"), MERGE, &spec).await,
                };
                (index, answer)
            })
        })
        .collect();
    while hook.count() < seen + 700 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if waiting.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    assert!(hook.count() >= seen + 350, "{} calls are under way", hook.count() - seen);
    // All of them wait. Meanwhile:
    for turn in 0..3 {
        server.get("/api/v1/namespaces").await.expect(200);
        server.get(&v1).await.expect(200);
        server.get(&format!("{v1}/a")).await.expect(200);
        let name = format!("new{turn}");
        server.post(&v1, &widget("v1", &name, &json!({"color": "green"}))).await.expect(201);
        server.delete(&format!("{v1}/{name}")).await.expect(200);
        let found = server.get(&format!("{}/g", of("gadgets", "v2"))).await.expect(200);
        assert_eq!(found["spec"]["colour"], "red");
    }
    assert!(!waiting.iter().all(tokio::task::JoinHandle::is_finished), "nobody waits any more");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    let late = "Timeout: request did not complete within the allotted timeout";
    // Those that did not wait for our patience have come to the end of the server's.
    for (index, answer) in join_all(waiting).await.into_iter().flatten() {
        assert_eq!((answer.code, answer.message()), (504, late), "{index}");
    }
    for (method, path, media, body) in [
        ("POST", v2.clone(), "application/json", widget("v2", "b", &json!({}))),
        ("PUT", format!("{v2}/a"), "application/json", widget("v2", "a", &json!({"colour": "blue"}))),
        ("PATCH", format!("{v2}/a"), APPLY, widget("v2", "a", &json!({"colour": "blue"}))),
        ("PATCH", format!("{v2}/a/status"), MERGE, json!({"status": {"replicas": 1}})),
        ("GET", format!("{v2}/a/scale"), MERGE, json!({})),
        ("DELETE", v2.clone(), "application/json", json!({})),
    ] {
        let asked = format!("{path}?timeout=200ms&fieldManager=x");
        let answer = server.send(method, &asked, media, body.to_string()).await;
        let found = (answer.code, answer.message(), &answer.body["reason"]);
        assert_eq!(found, (504, late, &json!("Timeout")), "{method} {path}");
    }
    hook.works();
    let now = server.get(&format!("{v1}/a")).await.expect(200);
    assert_eq!(now, kept, "nothing was written");
    assert_eq!(server.get(&v2).await.expect(200)["items"].as_array().unwrap().len(), 1);
    let Ok(server) = Arc::try_unwrap(server) else { panic!("a request is under way") };
    server.stop();
}

#[tokio::test]
#[ignore = "takes as long as it says"]
async fn a_webhook_has_thirty_seconds() {
    let (server, hook) = started("conversion-deadline").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    server.post(&v1, &widget("v1", "a", &json!({"color": "red"}))).await.expect(201);
    hook.does(|_| Reply::Hang);
    let hung = server.get(&format!("{v2}/a")).await;
    let url = hook.server.url("/convert?timeout=30s");
    let expected = format!(
        "conversion webhook for {GROUP}/v1, Kind=Widget failed: Post \"{url}\": context deadline exceeded"
    );
    assert_eq!((hung.code, hung.message()), (500, expected.as_str()));
    hook.does(|review| Reply::Drip {
        body: answered(review).to_string().into(),
        pause: Duration::from_secs(1),
    });
    let slow = server.get(&format!("{v2}/a")).await;
    let expected = format!(
        "conversion webhook for {GROUP}/v1, Kind=Widget failed: unexpected error when reading response body. Please retry. Original error: net/http: request canceled (Client.Timeout or context cancellation while reading body)"
    );
    assert_eq!((slow.code, slow.message()), (500, expected.as_str()));
    server.stop();
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_when_its_webhook_comes_back() {
    let (server, hook) = started("conversion-watch").await;
    let (v1, v2) = (widgets("v1"), widgets("v2"));
    server.post(&v1, &widget("v1", "a", &json!({"color": "red"}))).await.expect(201);
    let mut watch = server.watch(&format!("{v2}?watch=1")).await;
    let mut plain = server.watch(&format!("{v1}?watch=1")).await;
    assert_eq!(watch.told().await.unwrap().0, "ADDED");
    plain.told().await.unwrap();

    hook.does(|_| Reply::code(503, "text/plain", "away"));
    for size in 0..10 {
        let patch = json!({"spec": {"size": size}});
        server.patch(&format!("{v1}/a"), MERGE, &patch).await.expect(200);
    }
    server.post(&v1, &widget("v1", "b", &json!({"color": "blue"}))).await.expect(201);
    server.delete(&format!("{v1}/a")).await.expect(200);
    // Who watches the version that is stored sees all of it, who needs the webhook nothing yet.
    for _ in 0..12 {
        plain.told().await.unwrap();
    }
    assert!(watch.is_silent(Duration::from_millis(300)).await);
    hook.works();
    let mut sizes = Vec::new();
    for _ in 0..10 {
        let (kind, name, spec) = watch.told().await.unwrap();
        assert_eq!((kind.as_str(), name.as_str(), &spec["colour"]), ("MODIFIED", "a", &json!("red")));
        sizes.push(spec["size"].as_i64().unwrap());
    }
    assert_eq!(sizes, (0..10).collect::<Vec<_>>());
    let (kind, name, spec) = watch.told().await.unwrap();
    assert_eq!((kind.as_str(), name.as_str(), &spec["colour"]), ("ADDED", "b", &json!("blue")));
    assert_eq!(watch.told().await.unwrap().0, "DELETED");

    // A definition that ends while its webhook hangs ends the watch, and is not held up by it.
    hook.does(|_| Reply::Hang);
    server.patch(&format!("{v1}/b"), MERGE, &json!({"spec": {"size": 1}})).await.expect(200);
    server.delete(&format!("{DEFINITIONS}/{WIDGETS}")).await.expect(200);
    while watch.next().await.is_some() {}
    while plain.next().await.is_some() {}
    let begun = Instant::now();
    while server.get(&format!("{DEFINITIONS}/{WIDGETS}")).await.code != 404 {
        assert!(begun.elapsed() < AT_LAST, "the definition stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.get(&v1).await.code, 404);
    server.stop();
}

#[tokio::test]
async fn certificates_and_services_that_do_not_fit_are_told_apart() {
    let server = Server::start("conversion-tls").await;
    let good_bundle = Hook::start().await;
    let with = async |identity: Identity| webhook::Server::start(identity, &["h2"], |_| Reply::Hang).await;
    let stranger = with(Identity { signer: Signer::Stranger, ..Identity::default() }).await;
    let misnamed = with(Identity { names: vec!["else.example.com"], ..Identity::default() }).await;
    let expired = with(Identity { not_before: -2, not_after: -1, ..Identity::default() }).await;
    for (name, spec) in [
        ("plain", json!({"clusterIP": "127.0.0.1", "ports": [{"port": 443}]})),
        ("headless", json!({"clusterIP": "None", "ports": [{"port": 443}]})),
        ("outside", json!({"type": "ExternalName", "externalName": "localhost"})),
    ] {
        // Where the address of a service may not be chosen it is one of another range.
        let made = server
            .post("/api/v1/namespaces/default/services", &json!({"metadata": {"name": name}, "spec": spec}))
            .await;
        assert!(matches!(made.code, 201 | 422), "{name}: {}", short(&made.body));
    }
    let url = |server: &webhook::Server| (server.url("/a"), server.config("/a"));
    let service = |name: &str, port: u16| {
        let config = json!({"service": {"namespace": "default", "name": name, "port": port, "path": "/a"}, "caBundle": good_bundle.server.bundle});
        (format!("https://{name}.default.svc:{port}/a"), config)
    };
    let refused = (
        "https://127.0.0.1:1/a".to_owned(),
        json!({"url": "https://127.0.0.1:1/a", "caBundle": good_bundle.server.bundle}),
    );
    let verify = "tls: failed to verify certificate: x509: ";
    for (plural, (address, config), problem) in [
        ("strangers", url(&stranger), format!("{verify}certificate signed by unknown authority")),
        (
            "misnameds",
            url(&misnamed),
            format!(
                "{verify}cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
            ),
        ),
        (
            "expireds",
            url(&expired),
            format!("{verify}certificate has expired or is not yet valid: current time "),
        ),
        ("refuseds", refused, "dial tcp 127.0.0.1:1: connect: connection refused".into()),
        ("missings", service("nope", 443), "service \"nope\" not found".into()),
        ("headlesses", service("headless", 443), "cannot route to service with ClusterIP \"None\"".into()),
        (
            "outsides",
            service("outside", good_bundle.server.port),
            format!("{verify}certificate is valid for localhost, hook.ns.svc, not outside.default.svc"),
        ),
    ] {
        server.define(&crd(plural, &config)).await;
        let kind = kind_of(plural);
        let object =
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "a"}, "spec": {}});
        server.post(&of(plural, "v1"), &object).await.expect(201);
        let found = server.get(&format!("{}/a", of(plural, "v2"))).await;
        let text = format!(
            "conversion webhook for {GROUP}/v1, Kind={kind} failed: Post \"{address}?timeout=30s\": {problem}"
        );
        assert_eq!(found.code, 500, "{plural}");
        assert!(found.message().starts_with(&text), "{plural}: {}\nnot {text}", found.message());
    }
    // A service that is there and is what it says it is.
    server.namespace("ns").await;
    let hook =
        json!({"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    server.post("/api/v1/namespaces/ns/services", &hook).await.expect(201);
    let config = json!({"service": {"namespace": "ns", "name": "hook", "port": good_bundle.server.port}, "caBundle": good_bundle.server.bundle});
    server.define(&crd("widgets", &config)).await;
    server.post(&widgets("v2"), &widget("v2", "a", &json!({"colour": "red"}))).await.expect(201);
    assert_eq!(server.get(&format!("{}/a", widgets("v1"))).await.expect(200)["spec"]["color"], "red");
    server.stop();
}

/// The widgets of a webhook that also says in a label what it has converted to.
async fn selectable(name: &str) -> (Server, Hook) {
    let (server, hook) = (Server::start(name).await, Hook::start().await);
    hook.does(|review| {
        let mut answer = answered(review);
        let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
        let version = wanted.rsplit('/').next().unwrap();
        for object in answer["response"]["convertedObjects"].as_array_mut().unwrap() {
            object["metadata"]["labels"]["converted-to"] = version.into();
        }
        Reply::ok(answer.to_string())
    });
    let mut crd = crd("widgets", &hook.server.config("/convert"));
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        let field = if version["name"] == "v2" { "colour" } else { "color" };
        version["selectableFields"] = json!([{"jsonPath": format!(".spec.{field}")}]);
    }
    server.define(&crd).await;
    (server, hook)
}

async fn selected(server: &Server, path: &str) -> Vec<String> {
    let list = server.get(path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn selectors_of_lists_see_what_the_webhook_made() {
    let (server, hook) = selectable("conversion-selectors").await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        server.post(&widgets("v1"), &widget("v1", name, &json!({"color": color}))).await.expect(201);
    }
    for (version, query, expected) in [
        ("v2", "fieldSelector=spec.colour%3Dred", vec!["a", "c"]),
        ("v2", "fieldSelector=spec.colour%21%3Dred", vec!["b"]),
        ("v2", "fieldSelector=spec.colour%3Dred,metadata.name%3Dc", vec!["c"]),
        ("v2", "fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("v1", "fieldSelector=spec.color%3Dred", vec!["a", "c"]),
        ("v2", "labelSelector=converted-to%3Dv2", vec!["a", "b", "c"]),
        ("v2", "labelSelector=%21converted-to", vec![]),
        ("v1", "labelSelector=converted-to", vec![]),
        ("v1", "labelSelector=%21converted-to", vec!["a", "b", "c"]),
        ("v2", "labelSelector=converted-to%3Dv2&fieldSelector=spec.colour%3Dblue", vec!["b"]),
        ("v2", "fieldSelector=spec.colour%3Dred&resourceVersion=0", vec!["a", "c"]),
    ] {
        let path = format!("{}?{query}", widgets(version));
        assert_eq!(selected(&server, &path).await, expected, "{version} {query}");
    }
    let other = server.get(&format!("{}?fieldSelector=spec.color%3Dred", widgets("v2"))).await;
    assert_eq!((other.code, other.message()), (400, "field label not supported: spec.color"));

    // Pages are of what is selected.
    let path = format!("{}?fieldSelector=spec.colour%3Dred&limit=1", widgets("v2"));
    let first = server.get(&path).await.expect(200);
    assert_eq!(first["items"][0]["metadata"]["name"], "a");
    assert_eq!(first["metadata"].get("remainingItemCount"), None);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server.get(&format!("{path}&continue={token}")).await.expect(200);
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(second["metadata"]["continue"], "");

    // Whoever asks by name does not wait for others, and whoever asks for what is stored for nobody.
    hook.does(|_| Reply::code(503, "text/plain", "away"));
    assert_eq!(selected(&server, &format!("{}?labelSelector=x", widgets("v1"))).await, Vec::<String>::new());
    let none = format!("{}?fieldSelector=metadata.name%3Dnone,spec.colour%3Dred", widgets("v2"));
    assert_eq!(selected(&server, &none).await, Vec::<String>::new());
    assert_eq!(server.get(&path).await.code, 500);
    server.stop();
}

#[tokio::test]
async fn selectors_of_deletions_see_what_the_webhook_made() {
    let (server, _hook) = selectable("conversion-selected-deletions").await;
    for (name, color) in [("a", "blue"), ("b", "red"), ("d", "blue")] {
        server.post(&widgets("v1"), &widget("v1", name, &json!({"color": color}))).await.expect(201);
    }
    let all = |query: &str| format!("{}?{query}", widgets("v2"));
    let deleted = server.delete(&all("fieldSelector=spec.colour%3Dblue")).await.expect(200);
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    assert_eq!(selected(&server, &widgets("v1")).await, ["b"]);
    server.delete(&all("labelSelector=%21converted-to")).await.expect(200);
    assert_eq!(selected(&server, &widgets("v1")).await, ["b"]);
    server.delete(&all("labelSelector=converted-to%3Dv2")).await.expect(200);
    assert_eq!(selected(&server, &widgets("v1")).await, Vec::<String>::new());
    server.stop();
}

#[tokio::test]
async fn selectors_of_watches_see_what_the_webhook_made() {
    let (server, _hook) = selectable("conversion-selected-watches").await;
    let v1 = widgets("v1");
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        server.post(&v1, &widget("v1", name, &json!({"color": color}))).await.expect(201);
    }
    let mut watches = Vec::new();
    for (version, query, expected) in [
        (
            "v2",
            "fieldSelector=spec.colour%3Dred",
            "+a red, +c red, -a red, +b red, ~c red, -c red, -b red, +e red, +end red",
        ),
        (
            "v1",
            "fieldSelector=spec.color%3Dred",
            "+a red, +c red, -a red, +b red, ~c red, -c red, -b red, +e red, +end red",
        ),
        (
            "v2",
            "labelSelector=converted-to%3Dv2",
            "+a red, +b blue, +c red, ~a blue, ~b red, ~c red, -c red, +d blue, -b red, +e red, +end red",
        ),
        ("v1", "labelSelector=converted-to", "+e red, +end red"),
        ("v2", "fieldSelector=metadata.name%3Da", "+a red, ~a blue"),
        ("v2", "labelSelector=%21converted-to", ""),
    ] {
        let path = format!("{}?watch=1&timeoutSeconds=600&{query}", widgets(version));
        let mut watch = server.watch(&path).await;
        // What is there is told before anything changes.
        let expected: Vec<&str> = expected.split(", ").filter(|told| !told.is_empty()).collect();
        let mut told = Vec::new();
        let there = expected.iter().take_while(|told| told.starts_with('+') && !told.contains("+e")).count();
        for _ in 0..there {
            told.push(shortly(&mut watch).await);
        }
        watches.push((watch, expected, told, format!("{version} {query}")));
    }
    server.patch(&format!("{v1}/a"), MERGE, &json!({"spec": {"color": "blue"}})).await.expect(200);
    server.patch(&format!("{v1}/b"), MERGE, &json!({"spec": {"color": "red"}})).await.expect(200);
    server.patch(&format!("{v1}/c"), MERGE, &json!({"spec": {"size": 1}})).await.expect(200);
    server.delete(&format!("{v1}/c")).await.expect(200);
    server.post(&v1, &widget("v1", "d", &json!({"color": "blue"}))).await.expect(201);
    server.delete(&format!("{v1}/b")).await.expect(200);
    for name in ["e", "end"] {
        server.post(&widgets("v2"), &widget("v2", name, &json!({"colour": "red"}))).await.expect(201);
    }
    for (watch, expected, told, of) in &mut watches {
        while told.len() < expected.len() {
            told.push(shortly(watch).await);
        }
        assert_eq!(told, expected, "{of}");
    }
    server.stop();
}

/// `+a red`: what the next event is, of which widget, and its colour.
async fn shortly(watch: &mut sternpost_testkit::server::Watch) -> String {
    let (kind, name, spec) = watch.told().await.unwrap();
    let sign = match kind.as_str() {
        "ADDED" => "+",
        "MODIFIED" => "~",
        "DELETED" => "-",
        other => panic!("{other}"),
    };
    let colour = spec.get("colour").or(spec.get("color")).unwrap();
    format!("{sign}{name} {}", colour.as_str().unwrap())
}
