//! Definitions and objects made to hurt, over the wire: a precise refusal or a plain success, in bounded time and
//! memory, while others are served.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use sternpost_http::limits::MAX_BODY_BYTES;

use sternpost_testkit::server::{DEFINITIONS, MERGE, Server, short};

/// What nothing here may make of the server: a debug build that has read and published all of it.
const MOST_MEMORY: usize = 3 << 30;

/// How deeply schemas may nest (`docs/custom-resources.md`).
const DEEPEST: usize = 100;

/// Items of a list: what takes the square of it in time takes too long.
const MANY: usize = 40_000;

const GROUP: &str = "hostile.example.com";

/// However slow the machine is, it is the work that is judged.
const PATIENT: [&str; 2] = ["--request-timeout", "1h"];

/// Besides, objects of any size.
const LARGE: [&str; 4] = ["--object-size-limit", "none", "--request-timeout", "1h"];

/// More of everything, for campaigns.
fn is_long() -> bool {
    std::env::var_os("STERNPOST_LONG_TESTS").is_some()
}

fn crd(plural: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Kind{plural}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn under_spec(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": schema}})
}

fn object(plural: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": format!("Kind{plural}"), "metadata": {"name": name}, "spec": spec})
}

fn objects(plural: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/{plural}")
}

fn wide(count: usize, property: &Value) -> Value {
    let properties: Map<String, Value> =
        (0..count).map(|index| (format!("p{index:06}"), property.clone())).collect();
    under_spec(&json!({"type": "object", "properties": properties}))
}

fn nested(levels: usize) -> Value {
    let inner =
        (0..levels - 2).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
    under_spec(&inner)
}

fn ruled(rules: &[String]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    under_spec(&json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules}))
}

/// Somebody else, who asks for other things all the time. Returns how often there was an answer.
fn others(server: &Arc<Server>, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<usize> {
    let (server, stop) = (Arc::clone(server), Arc::clone(stop));
    tokio::spawn(async move {
        let mut answers = 0;
        while !stop.load(Ordering::Relaxed) {
            let name = format!("other{answers}");
            let map = json!({"metadata": {"name": name}, "data": {"a": "b"}});
            server.post("/api/v1/namespaces/default/configmaps", &map).await.expect(201);
            server.get(&format!("/api/v1/namespaces/default/configmaps/{name}")).await.expect(200);
            server.delete(&format!("/api/v1/namespaces/default/configmaps/{name}")).await.expect(200);
            answers += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        answers
    })
}

/// A definition, and the code and some words of the answer.
type Case = (&'static str, Value, u16, &'static str);

fn hostile() -> Vec<Case> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut crd = crd("changes", &json!({"type": "object"}));
        change(&mut crd);
        crd
    };
    let string = json!({"type": "string"});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v0", "schema": {"openAPIV3Schema": {"type": "object"}}});
    let pattern =
        |pattern: &str| crd("patterns", &under_spec(&json!({"type": "string", "pattern": pattern})));
    let names = |names: Value| {
        with(&|crd| {
            for (name, value) in names.as_object().unwrap() {
                crd["spec"]["names"][name] = value.clone();
            }
        })
    };
    let many = |count: usize| vec!["self != 'a'".to_owned(); count];
    vec![
        ("many properties", crd("wides", &wide(if is_long() { 28_000 } else { 8_000 }, &string)), 201, ""),
        ("nested to the limit", crd("deeps", &nested(DEEPEST)), 201, ""),
        ("nested beyond the limit", crd("deepers", &nested(DEEPEST + 1)), 400, "schemas nest more than"),
        (
            "a reference to itself",
            crd("refs", &under_spec(&json!({"$ref": "#"}))),
            422,
            "Forbidden: $ref is not supported",
        ),
        (
            "references within",
            crd("refs", &json!({"type": "object", "definitions": {"a": {"$ref": "#/definitions/a"}}})),
            422,
            "Forbidden: definitions is not supported",
        ),
        ("three thousand rules", crd("rules", &ruled(&many(3_000))), 201, ""),
        (
            "thousands of wrong rules",
            crd("rules", &ruled(&vec!["zz".to_owned(); 3_000])),
            422,
            "undeclared reference to 'zz'",
        ),
        (
            "a rule too long",
            crd("rules", &ruled(&[format!("self == '{}'", "a".repeat(1_000_000))])),
            422,
            "code point size exceeds limit",
        ),
        (
            "a rule too deep",
            crd("rules", &ruled(&[format!("{}true{}", "(".repeat(40_000), ")".repeat(40_000))])),
            422,
            "recursion limit exceeded",
        ),
        (
            "a rule too dear",
            crd(
                "rules",
                &under_spec(
                    &json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.split('').all(a, self.split('').all(b, a == b))"}]}),
                ),
            ),
            422,
            "exceeds budget by factor of more than 100x",
        ),
        (
            "a rule of rules",
            crd("rules", &ruled(&["[1, 2].all(a, ".repeat(60) + "self.size() > 0" + &")".repeat(60)])),
            422,
            "exceeds budget by factor of more than 100x",
        ),
        ("a pattern that repeats too much", pattern("(a{1000}){1000}"), 422, "invalid repeat count"),
        ("a pattern that is too large", pattern(&"(\\pL{500}|\\pN{500})".repeat(2_000)), 422, "expression"),
        (
            "a pattern that is deep",
            pattern(&("(".repeat(5_000) + &")".repeat(5_000))),
            422,
            "expression nests too deeply",
        ),
        ("a pattern that backtracks elsewhere", pattern("^(a+)+$|^(a|aa)+$"), 201, ""),
        (
            "an enum of many",
            crd("enums", &under_spec(&json!({"type": "integer", "enum": (0..MANY).collect::<Vec<_>>()}))),
            201,
            "",
        ),
        (
            "an enum of the same",
            crd("enums", &under_spec(&json!({"type": "integer", "enum": vec![1; MANY]}))),
            201,
            "",
        ),
        (
            "a default of a megabyte",
            crd("defaults", &under_spec(&json!({"type": "string", "default": "x".repeat(1 << 20)}))),
            201,
            "",
        ),
        (
            "a default that does not fit",
            crd(
                "defaults",
                &under_spec(
                    &json!({"type": "array", "items": {"type": "string"}, "default": vec![1; 50_000]}),
                ),
            ),
            422,
            "must be of type string",
        ),
        (
            "two thousand columns",
            with(&|crd| {
                crd["spec"]["versions"][0]["additionalPrinterColumns"] = (0..2_000)
                    .map(
                        |index| json!({"name": format!("c{index}"), "type": "string", "jsonPath": ".spec.a"}),
                    )
                    .collect();
            }),
            201,
            "",
        ),
        (
            "columns that are no paths",
            with(&|crd| {
                crd["spec"]["versions"][0]["additionalPrinterColumns"] = (0..2_000).map(|index| json!({"name": format!("c{index}"), "type": "string", "jsonPath": "..[".repeat(100)})).collect();
            }),
            201,
            "",
        ),
        (
            "a thousand versions",
            with(&|crd| {
                crd["spec"]["versions"] = (0..1_000).map(|index| version(&format!("v{index}"))).collect();
            }),
            201,
            "",
        ),
        (
            "a version twice",
            with(&|crd| crd["spec"]["versions"] = json!([version("v0"), version("v0")])),
            422,
            "must contain unique version names",
        ),
        (
            "too many selectable fields",
            with(&|crd| {
                crd["spec"]["versions"][0]["selectableFields"] =
                    (0..1_000).map(|index| json!({"jsonPath": format!(".spec.a{index}")})).collect();
            }),
            422,
            "selectableFields",
        ),
        ("a kind that looks like another", names(json!({"kind": "\u{421}onfigMap"})), 422, "spec.names.kind"),
        ("a kind with nothing in it", names(json!({"kind": "A\u{200b}b"})), 422, "spec.names.kind"),
        ("a kind from right to left", names(json!({"kind": "\u{202e}Kind"})), 422, "spec.names.kind"),
        ("a short name that is a path", names(json!({"shortNames": ["../x"]})), 422, "spec.names.shortNames"),
        (
            "a short name too long",
            names(json!({"shortNames": ["x".repeat(100_000)]})),
            422,
            "spec.names.shortNames",
        ),
        (
            "a plural with a capital",
            with(&|crd| crd["spec"]["names"]["plural"] = "\u{130}s".into()),
            422,
            "spec.names.plural",
        ),
        (
            "a group of many parts",
            with(&|crd| crd["spec"]["group"] = "a.".repeat(200).into()),
            422,
            "spec.group",
        ),
        (
            "a group of the server's own",
            with(&|crd| {
                crd["spec"]["group"] = "apps.k8s.io".into();
                crd["metadata"]["name"] = "changes.apps.k8s.io".into();
            }),
            422,
            "api-approved.kubernetes.io",
        ),
        (
            "a name that is not its own",
            with(&|crd| crd["metadata"]["name"] = "others.example.com".into()),
            422,
            "must be spec.names.plural+\\\".\\\"+spec.group",
        ),
    ]
}

#[tokio::test]
async fn definitions_made_to_hurt_are_answered() {
    let server = Arc::new(Server::start_with("hostile-definitions", &PATIENT).await);
    let stop = Arc::new(AtomicBool::new(false));
    let others = others(&server, &stop);
    for (what, crd, code, words) in hostile() {
        let started = std::time::Instant::now();
        let answer = server.post(DEFINITIONS, &crd).await;
        let took = started.elapsed();
        if std::env::var_os("STERNPOST_TIMES").is_some() {
            println!("{what}: {} in {took:?}, {} MB", answer.code, server.memory() >> 20);
        }
        assert_eq!(answer.code, code, "{what}: {}", short(&answer.body));
        assert!(answer.body.to_string().contains(words), "{what}: {}", short(&answer.body));
        if code == 201 {
            let name = crd["metadata"]["name"].as_str().unwrap();
            server.established(name).await;
            server.get(&format!("/apis/{GROUP}/v1")).await.expect(200);
            server.get(&format!("/openapi/v3/apis/{GROUP}/v1")).await.expect(200);
            server.delete(&format!("{DEFINITIONS}/{name}")).await.expect(200);
            while server.get(&format!("{DEFINITIONS}/{name}")).await.code != 404 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert!(server.memory() < MOST_MEMORY, "{what}: {} bytes", server.memory());
    }
    // Text that is no definition at all.
    for (what, body, code) in [
        ("too much", vec![b' '; MAX_BODY_BYTES + 1], 413),
        ("deep JSON", "[".repeat(MAX_BODY_BYTES - 1).into_bytes(), 400),
        ("deep YAML", "- ".repeat(500_000).into_bytes(), 400),
        ("a bomb of aliases", yaml_bomb().into_bytes(), 400),
    ] {
        let media = if what.contains("YAML") || what.contains("bomb") {
            "application/yaml"
        } else {
            "application/json"
        };
        let answer = server.send("POST", DEFINITIONS, media, body).await;
        assert_eq!(answer.code, code, "{what}: {}", short(&answer.body));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(others.await.unwrap() > 0);
    assert_eq!(server.get(DEFINITIONS).await.expect(200)["items"], json!([]));
    assert_eq!(server.get(&format!("/apis/{GROUP}")).await.code, 404);
    ended(server);
}

/// Nine levels, each of nine times the one before.
fn yaml_bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        text += &format!("a{level}: &a{level} [{before}]\n");
    }
    text
}

#[tokio::test]
async fn a_schema_as_large_as_a_request_is_served() {
    let server = Server::start_with("hostile-large", &LARGE).await;
    // Not a byte of it is left for anything else.
    let property = json!({"type": "string", "description": "d".repeat(1000)});
    let length = |count: usize| crd("larges", &wide(count, &property)).to_string().len();
    let (one, two) = (length(1), length(2));
    let body = crd("larges", &wide(1 + (MAX_BODY_BYTES - one) / (two - one), &property)).to_string();
    assert!(body.len() <= MAX_BODY_BYTES);
    assert!(body.len() > MAX_BODY_BYTES - 4096, "{}", body.len());
    let answer = server.send("POST", DEFINITIONS, "application/json", body).await;
    if answer.code == 201 {
        server.established(&format!("larges.{GROUP}")).await;
        server.post(&objects("larges"), &object("larges", "a", &json!({"p000001": "x"}))).await.expect(201);
    } else {
        assert_eq!(answer.code, 413, "{}", short(&answer.body));
    }
    assert!(server.memory() < MOST_MEMORY);
    server.stop();
}

#[tokio::test]
async fn objects_made_to_hurt_are_answered() {
    let server = Arc::new(Server::start_with("hostile-objects", &LARGE).await);
    let stop = Arc::new(AtomicBool::new(false));
    let others = others(&server, &stop);
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}}});
    let schema = under_spec(&json!({
        "type": "object",
        "properties": {
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "map": keyed,
            "pattern": {"type": "string", "pattern": "^(a+)+$|^(a|aa)+$"},
            "rule": {"type": "array", "maxItems": 1400, "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == x))"}]},
            "number": {"type": "integer"},
        },
    }));
    let mut definition = crd("things", &schema);
    definition["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.pattern"}, {"jsonPath": ".spec.number"}]);
    server.define(&definition).await;
    let deep = |levels: usize| format!("{{\"any\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    let pairs = |count: usize| (0..count).map(|k| json!({"k": k})).collect::<Vec<_>>();
    let long = "a".repeat(1_000_000);
    let large = "x".repeat(MAX_BODY_BYTES - 300);
    let twice = |mut items: Vec<Value>| {
        items.push(items[0].clone());
        items
    };
    for (what, spec, code, words) in [
        ("three megabytes", json!({"any": large}).to_string(), 201, ""),
        ("a deep value", deep(100), 201, ""),
        ("a value too deep", deep(100_000), 400, ""),
        ("a large set", json!({"set": (0..MANY).collect::<Vec<_>>()}).to_string(), 201, ""),
        (
            "a large set with one twice",
            json!({"set": twice((0..MANY).map(Value::from).collect())}).to_string(),
            422,
            "spec.set[40000]: Duplicate value: 0",
        ),
        ("a large map", json!({"map": pairs(MANY)}).to_string(), 201, ""),
        (
            "a large map with one twice",
            json!({"map": twice(pairs(MANY))}).to_string(),
            422,
            "spec.map[40000]: Duplicate value",
        ),
        ("a large set of one", json!({"set": vec![1; MANY]}).to_string(), 422, "Duplicate value"),
        ("a long text that fits", json!({"pattern": long}).to_string(), 201, ""),
        (
            "a long text that does not",
            json!({"pattern": format!("{long}b")}).to_string(),
            422,
            "should match '^(a+)+$|^(a|aa)+$'",
        ),
        ("a rule without end", json!({"rule": vec![1; 1400]}).to_string(), 422, "actual cost limit exceeded"),
        ("many wrong items", json!({"set": vec!["x"; MANY]}).to_string(), 422, "must be of type integer"),
        (
            "many unknown fields",
            json!((0..50_000).map(|index| (format!("u{index}"), json!(1))).collect::<Map<_, _>>())
                .to_string(),
            201,
            "",
        ),
    ] {
        let body = format!(
            "{{\"apiVersion\":\"{GROUP}/v1\",\"kind\":\"Kindthings\",\"metadata\":{{\"name\":\"a\"}},\"spec\":{spec}}}"
        );
        let started = std::time::Instant::now();
        let answer = server.send("POST", &objects("things"), "application/json", body.clone()).await;
        if std::env::var_os("STERNPOST_TIMES").is_some() {
            println!("{what}: {} in {:?}, {} MB", answer.code, started.elapsed(), server.memory() >> 20);
        }
        assert_eq!(answer.code, code, "{what}: {}", short(&answer.body));
        assert!(answer.body.to_string().contains(words), "{what}: {}", short(&answer.body));
        if code == 201 {
            let path = format!("{}/a", objects("things"));
            let found = server.get(&path).await.expect(200);
            assert_eq!(found["metadata"]["uid"], answer.body["metadata"]["uid"], "{what}");
            let patched = server.patch(&path, MERGE, &json!({"spec": {"number": 7}})).await.expect(200);
            assert_eq!(patched["spec"]["number"], 7, "{what}");
            server.delete(&path).await.expect(200);
        }
        assert!(server.memory() < MOST_MEMORY, "{what}");
    }
    server
        .post(&objects("things"), &object("things", "b", &json!({"number": 5, "pattern": "aa"})))
        .await
        .expect(201);
    let terms = |count: usize| vec!["spec.number!%3D6"; count].join(",");
    for (what, query, code, found) in [
        ("what there is", "fieldSelector=spec.number%3D5".to_owned(), 200, 1),
        ("what there is not", "fieldSelector=spec.number%3D6".to_owned(), 200, 0),
        ("a number like another", "fieldSelector=spec.number%3D5.0".to_owned(), 200, 0),
        ("a nothing", "fieldSelector=spec.number%3D%00".to_owned(), 200, 0),
        ("half a letter", "fieldSelector=spec.pattern%3D%ff%fe".to_owned(), 200, 0),
        ("many terms", format!("fieldSelector={}", terms(2_000)), 200, 1),
        ("a long value", format!("fieldSelector=spec.pattern%3D{}", "a".repeat(40_000)), 200, 0),
        ("another field", "fieldSelector=spec.any%3D1".to_owned(), 400, 0),
        ("a path", "fieldSelector=spec..number%3D1".to_owned(), 400, 0),
        ("no operator", "fieldSelector=spec.number".to_owned(), 400, 0),
        ("many labels", format!("labelSelector=a+notin+({})", vec!["x"; 10_000].join(",")), 200, 1),
        ("open brackets", format!("labelSelector=a+in+{}", "(".repeat(20_000)), 400, 0),
    ] {
        let answer = server.get(&format!("{}?{query}", objects("things"))).await;
        assert_eq!(answer.code, code, "{what}: {}", short(&answer.body));
        assert_eq!(answer.body["items"].as_array().map_or(0, Vec::len), found, "{what}");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(others.await.unwrap() > 0);
    ended(server);
}

#[tokio::test]
async fn names_that_clash_do_not_get_in_each_others_way() {
    let server = Server::start("hostile-clashes").await;
    server.define(&crd("firsts", &json!({"type": "object"}))).await;
    server.post(&objects("firsts"), &object("firsts", "a", &json!({}))).await.expect(201);
    for (plural, names) in [
        ("seconds", json!({"kind": "Kindfirsts"})),
        ("thirds", json!({"singular": "firsts"})),
        ("fourths", json!({"shortNames": ["firsts"]})),
        ("fifths", json!({"listKind": "KindfirstsList"})),
    ] {
        let mut second = crd(plural, &json!({"type": "object"}));
        for (name, value) in names.as_object().unwrap() {
            second["spec"]["names"][name] = value.clone();
        }
        server.post(DEFINITIONS, &second).await.expect(201);
        let path = format!("{DEFINITIONS}/{plural}.{GROUP}");
        let refused = loop {
            let crd = server.get(&path).await.expect(200);
            let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if let Some(condition) =
                conditions.into_iter().find(|condition| condition["type"] == "NamesAccepted")
            {
                break condition;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(refused["status"], "False", "{plural}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("is already in use"), "{plural}: {refused}");
        assert_eq!(server.get(&objects(plural)).await.code, 404, "{plural}");
        assert_eq!(server.get(&objects("firsts")).await.expect(200)["items"].as_array().unwrap().len(), 1);
    }
    // The name that was in the way is free, and who waited for it gets it.
    server.delete(&format!("{DEFINITIONS}/firsts.{GROUP}")).await.expect(200);
    server.established(&format!("seconds.{GROUP}")).await;
    assert_eq!(server.get(&objects("seconds")).await.expect(200)["items"], json!([]));
    server.stop();
}

#[tokio::test]
async fn definitions_come_and_go_in_crowds() {
    let server = Arc::new(Server::start("hostile-crowd").await);
    let stop = Arc::new(AtomicBool::new(false));
    let others = others(&server, &stop);
    let (count, at_once) = (if is_long() { 1_000 } else { 150 }, 16);
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..at_once).map(|_| {
        let (server, next) = (Arc::clone(&server), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                let plural = format!("crowd{index}s");
                let schema = under_spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
                server.define(&crd(&plural, &schema)).await;
                let made = object(&plural, "a", &json!({"n": index, "gone": 1}));
                let made = server.post(&objects(&plural), &made).await.expect(201);
                assert_eq!(made["spec"], json!({"n": index}));
                server.delete(&format!("{DEFINITIONS}/{plural}.{GROUP}")).await.expect(200);
            }
        })
    });
    for worker in join_all(workers).await {
        worker.unwrap();
    }
    while server.get(DEFINITIONS).await.expect(200)["items"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(others.await.unwrap() > 0);
    assert_eq!(server.get(&format!("/apis/{GROUP}/v1")).await.code, 404);
    assert_eq!(server.get(&format!("/openapi/v3/apis/{GROUP}/v1")).await.code, 404);
    // The same names again find nothing of what was.
    server.define(&crd("crowd0s", &json!({"type": "object"}))).await;
    assert_eq!(server.get(&objects("crowd0s")).await.expect(200)["items"], json!([]));
    ended(server);
}

/// Only the number that the definition names is let in.
fn naming(number: usize) -> Value {
    let schema =
        under_spec(&json!({"type": "object", "properties": {"n": {"type": "integer", "enum": [number]}}}));
    crd("turns", &schema)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn nothing_is_lost_or_misjudged_while_a_definition_keeps_changing() {
    let server = Arc::new(Server::start("hostile-turns").await);
    let name = format!("{DEFINITIONS}/turns.{GROUP}");
    let turns = if is_long() { 1_000 } else { 60 };
    let mut history = server.watch(&format!("{DEFINITIONS}?watch=1")).await;
    server.define(&naming(0)).await;
    let current = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let let_in = Arc::new(AtomicUsize::new(0));

    let writers = (0..4).map(|writer| {
        let (server, current, done) = (Arc::clone(&server), Arc::clone(&current), Arc::clone(&done));
        let let_in = Arc::clone(&let_in);
        tokio::spawn(async move {
            let (mut made, mut refused) = (Vec::new(), 0);
            while !done.load(Ordering::Relaxed) {
                let number = current.load(Ordering::Relaxed);
                let body =
                    object("turns", &format!("w{writer}-{}", made.len() + refused), &json!({"n": number}));
                let answer = server.post(&objects("turns"), &body).await;
                match answer.code {
                    201 => {
                        made.push(answer.body);
                        let_in.fetch_add(1, Ordering::Relaxed);
                    }
                    422 => refused += 1,
                    _ => panic!("{}: {}", answer.code, short(&answer.body)),
                }
            }
            made
        })
    });
    let watchers = (0..3).map(|_| {
        let (server, done) = (Arc::clone(&server), Arc::clone(&done));
        tokio::spawn(async move {
            // As clients do: list, watch from there, and again when the watch ends.
            let mut seen: BTreeMap<String, Value> = BTreeMap::new();
            let mut watches = 0;
            loop {
                let last = done.load(Ordering::Relaxed);
                let list = server.get(&objects("turns")).await;
                assert!(matches!(list.code, 200 | 404), "{}", short(&list.body));
                if list.code == 404 {
                    return (seen, watches);
                }
                for item in list.body["items"].as_array().unwrap() {
                    seen.insert(item["metadata"]["name"].as_str().unwrap().into(), item["spec"].clone());
                }
                if last {
                    return (seen, watches);
                }
                let from = list.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                let mut watch =
                    server.watch(&format!("{}?watch=1&resourceVersion={from}", objects("turns"))).await;
                watches += 1;
                while let Some((kind, name, spec)) = watch.told().await {
                    assert!(matches!(kind.as_str(), "ADDED" | "MODIFIED"), "{kind} {name}");
                    seen.insert(name, spec);
                }
            }
        })
    });
    let (writers, watchers): (Vec<_>, Vec<_>) = (writers.collect(), watchers.collect());
    for turn in 1..=turns {
        let schema = naming(turn)["spec"]["versions"].clone();
        server.patch(&name, MERGE, &json!({"spec": {"versions": schema}})).await.expect(200);
        current.store(turn, Ordering::Relaxed);
        // The next turn comes when somebody has got something in.
        let before = let_in.load(Ordering::Relaxed);
        while let_in.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    let mut made: Vec<Value> = Vec::new();
    for writer in writers {
        made.extend(writer.await.unwrap());
    }
    // One more change ends the watches that are open.
    server
        .patch(&name, MERGE, &json!({"spec": {"versions": naming(0)["spec"]["versions"]}}))
        .await
        .expect(200);
    assert!(made.len() >= turns, "{} objects were let in", made.len());

    // Each was let in by the definition of its time.
    let mut definitions = BTreeMap::new();
    while definitions.len() < turns + 2 {
        let event = history.next().await.unwrap();
        let pointer = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/enum/0";
        let number = event["object"].pointer(pointer).unwrap().as_u64().unwrap();
        let generation = event["object"]["metadata"]["generation"].as_u64().unwrap();
        definitions.entry(generation).or_insert((version(&event["object"]), number));
    }
    let mut changes: Vec<(u64, u64)> = definitions.into_values().collect();
    changes.sort_unstable();
    for object in &made {
        let at = version(object);
        let (_, number) = changes.iter().rev().find(|(since, _)| *since < at).unwrap();
        assert_eq!(object["spec"]["n"], *number, "{} at {at}", object["metadata"]["name"]);
    }
    let list = server.get(&objects("turns")).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), made.len());
    for watcher in watchers {
        let (seen, watches) = watcher.await.unwrap();
        assert!(watches > 0);
        for object in &made {
            let name = object["metadata"]["name"].as_str().unwrap();
            assert_eq!(seen.get(name), Some(&object["spec"]), "{name} was not told");
        }
    }

    // And its end leaves nothing behind.
    let mut watch = server.watch(&format!("{}?watch=1", objects("turns"))).await;
    server.delete(&name).await.expect(200);
    while watch.next().await.is_some() {}
    while server.get(&name).await.code != 404 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.get(&objects("turns")).await.code, 404);
    server.define(&naming(0)).await;
    assert_eq!(server.get(&objects("turns")).await.expect(200)["items"], json!([]));
    drop(history);
    ended(server);
}

fn ended(server: Arc<Server>) {
    let Ok(server) = Arc::try_unwrap(server) else { panic!("a request is under way") };
    server.stop();
}
