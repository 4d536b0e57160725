//! Admission webhooks and the whole server.
//!
//! `recorded.jsonl` holds what kube-apiserver 1.36.4 answered, and what it told webhooks that are
//! scripted here as they were there. Ids, versions and times are told apart but not compared.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking; the helpers are shared"
)]

use std::{
    collections::HashMap,
    fs,
    process::ExitCode,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use sternpost_testkit::recorded::Suite;
use tokio::runtime::Runtime;

use sternpost_testkit::server::{Answer, Server, short};
use sternpost_testkit::webhook::{self, Call, Identity, Reply};

const RECORDED: &str = include_str!("recorded.jsonl");

/// What this server does otherwise, on purpose: the case, and the message it has instead.
const OTHERWISE: [(&str, &str); 4] = [
    // Redirects are not followed.
    (
        "wrong-24",
        "Internal error occurred: failed calling webhook \"v.hooks.example.com\": failed to call webhook: the server responded with the status code 302 but did not return more information",
    ),
    // Answers are JSON.
    (
        "wrong-36",
        "Internal error occurred: failed calling webhook \"v.hooks.example.com\": failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
    ),
    // Which character is wrong is told by its place.
    (
        "wrong-23",
        "Internal error occurred: failed calling webhook \"v.hooks.example.com\": failed to call webhook: couldn't get version/kind; json parse error: trailing characters at line 1 column 136",
    ),
    // The server that did not know the name is not told.
    (
        "fail-dns",
        "Internal error occurred: failed calling webhook \"v.hooks.example.com\": failed to call webhook: Post \"https://no-such-host.invalid/x?timeout=5s\": dial tcp: lookup no-such-host.invalid: no such host",
    ),
];

/// What is not as upstream has it, or not quite: the case, and what of it is not compared.
const NOT_COMPARED: [(&str, &str); 9] = [
    // What a webhook adds to a custom resource and its schema does not have is gone before others look.
    ("cr-patched", "reviews"),
    // A version that a webhook gives a new object is shown to nobody.
    ("patch-22", "reviews"),
    // Upstream does not warn where its reason has a character that no header can have.
    ("owners-key-value", "warnings"),
    // A path element of a form that is not known goes at once, and not with the next write.
    ("owners-unknown-key", "body"),
    ("owners-unknown-key", "reviews"),
    // The answer does not say who wrote what of the question.
    ("op-review-kinds", "body"),
    // That time is up is told in a status that says what it is.
    ("fail-request-timeout", "body"),
    ("fail-request-timeout-ignored", "body"),
    ("fail-request-timeout-mutating", "body"),
];

/// What hooks do, by their names; a list is for one call after the other.
type Scripts = Arc<Mutex<HashMap<String, Value>>>;

struct Hooks {
    server: webhook::Server,
    scripts: Scripts,
    /// A certificate that has nothing to do with this server.
    stranger: String,
    seen: usize,
}

impl Hooks {
    /// `stranger` has nothing to do with them.
    async fn start(stranger: &Value) -> Self {
        let scripts = Scripts::default();
        let current = Arc::clone(&scripts);
        let server = webhook::Server::start(Identity::default(), &["http/1.1"], move |call| {
            let name = hook_of(call);
            let script = match current.lock().unwrap().get_mut(&name) {
                None => json!({}),
                Some(Value::Array(scripts)) if scripts.len() > 1 => scripts.remove(0),
                Some(Value::Array(scripts)) => scripts[0].clone(),
                Some(script) => script.clone(),
            };
            reply(&script, call)
        })
        .await;
        let stranger = stranger.as_str().unwrap().to_owned();
        Self { server, scripts, stranger, seen: 0 }
    }

    fn play(&self, scripts: &Value) {
        let mut current = self.scripts.lock().unwrap();
        current.clear();
        for (name, script) in scripts.as_object().into_iter().flatten() {
            current.insert(name.clone(), script.clone());
        }
    }

    /// The calls since the last time, in an order that does not depend on chance: those that change first, as
    /// they came, then the others by name.
    fn calls(&mut self) -> Vec<Call> {
        let all = self.server.calls();
        let mut calls: Vec<Call> = all[self.seen..].to_vec();
        self.seen = all.len();
        calls.sort_by_key(|call| {
            let name = hook_of(call);
            if name.starts_with('m') { String::new() } else { name }
        });
        calls
    }

    /// A configuration as it is sent.
    fn configuration(&self, case: &str, index: usize, short: &Value) -> (String, Value) {
        let kind = short["kind"].as_str().unwrap();
        let mut webhooks = short["webhooks"].clone();
        for webhook in webhooks.as_array_mut().unwrap() {
            let webhook = webhook.as_object_mut().unwrap();
            if let Some(hook) = webhook.remove("hook") {
                let mut config = self.server.config(&format!("/{}", hook.as_str().unwrap()));
                if webhook.remove("otherCA").is_some() {
                    config["caBundle"] = self.stranger.clone().into();
                }
                webhook.entry("clientConfig").or_insert(config);
            }
            webhook.entry("sideEffects").or_insert("None".into());
            webhook.entry("admissionReviewVersions").or_insert(json!(["v1"]));
            webhook.entry("namespaceSelector").or_insert(json!({"matchLabels": {"case": case}}));
        }
        let name = short["name"].as_str().map_or_else(|| format!("{case}-{index}"), str::to_owned);
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations",
            kind.to_ascii_lowercase()
        );
        (path, json!({"metadata": {"name": name}, "webhooks": webhooks}))
    }
}

fn hook_of(call: &Call) -> String {
    let path = call.target.split('?').next().unwrap();
    path.rsplit('/').next().unwrap().to_owned()
}

fn reply(script: &Value, call: &Call) -> Reply {
    let review: Value = serde_json::from_slice(&call.body).unwrap();
    let late = |reply: Reply| match script["sleep"].as_f64() {
        // Later than it was recorded: it has to come behind the others on a busy machine too.
        Some(seconds) => {
            Reply::Late { after: Duration::from_secs_f64(seconds * 8.0), reply: Box::new(reply) }
        }
        None => reply,
    };
    if script["hang"] == true {
        return Reply::Hang;
    }
    if script["drop"] == true {
        return Reply::Drop;
    }
    if let Some(raw) = script.get("raw") {
        let text = |name: &str, default: &str| raw[name].as_str().unwrap_or(default).to_owned();
        let mut headers = vec![("content-type", text("media", "application/json"))];
        if let Some(location) = raw["headers"]["location"].as_str() {
            let host = call.headers["host"].to_str().unwrap();
            headers.push(("location", location.replace("$HOOK", &format!("https://{host}"))));
        }
        let body = text("body", "").replace("$UID", review["request"]["uid"].as_str().unwrap());
        let code = u16::try_from(raw["code"].as_u64().unwrap_or(200)).unwrap();
        return late(Reply::Answer { code, headers, body: body.into() });
    }
    let mut response = Map::from_iter([
        ("uid".to_owned(), review["request"]["uid"].clone()),
        ("allowed".to_owned(), true.into()),
    ]);
    let mut given = script["response"].as_object().cloned().unwrap_or_default();
    let patch = match (given.remove("patchText"), given.get("patch")) {
        (Some(text), _) => Some(text.as_str().unwrap().to_owned()),
        (None, Some(patch)) if !patch.is_string() => Some(patch.to_string()),
        _ => None,
    };
    if let Some(patch) = patch {
        given.insert("patch".into(), STANDARD.encode(patch).into());
        given.entry("patchType").or_insert("JSONPatch".into());
    }
    response.extend(given);
    response.retain(|_, value| !value.is_null());
    let mut answer =
        json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    let answer = answer.as_object_mut().unwrap();
    answer.extend(script["review"].as_object().cloned().unwrap_or_default());
    answer.retain(|_, value| !value.is_null());
    late(Reply::ok(Value::Object(answer.clone()).to_string()))
}

/// Gives what differs from run to run names in the order of its appearance.
#[derive(Default)]
struct Names {
    ids: Vec<String>,
    versions: Vec<String>,
    hook: String,
}

impl Names {
    fn value(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::String(text) => self.text(text, key).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item, "")).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), self.value(field, name))).collect()
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, key: &str) -> String {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_time(text) {
            return "$T".into();
        }
        if key == "resourceVersion" && digits(text) && text != "0" {
            return format!("$V{}", place(&mut self.versions, text));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            if let Some(id) = rest.get(..36).filter(|id| is_uuid(id)) {
                out += &format!("$U{}", place(&mut self.ids, id));
                rest = &rest[36..];
            } else if rest.get(..9).is_some_and(is_generated) {
                out += "gen-$G";
                rest = &rest[9..];
            } else {
                out.push(char);
                rest = &rest[char.len_utf8()..];
            }
        }
        out.replace(&self.hook, "$HOOK")
    }
}

fn place(known: &mut Vec<String>, text: &str) -> usize {
    let found = known.iter().position(|known| known == text);
    found.unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    }) + 1
}

fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z')
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
}

fn is_generated(text: &str) -> bool {
    let letters = "bcdfghjklmnpqrstvwxz2456789";
    text.strip_prefix("gen-").is_some_and(|rest| rest.chars().all(|char| letters.contains(char)))
}

async fn send(server: &Server, case: &str, step: &Value) -> Answer {
    let text = |name: &str| step[name].as_str().unwrap_or_default().replace("$NS", case);
    let body = match &step["body"] {
        Value::Null => String::new(),
        body => body.to_string().replace("$NS", case),
    };
    let media = match text("media") {
        media if media.is_empty() => "application/json".to_owned(),
        media => media,
    };
    let user = match text("user") {
        user if user.is_empty() => "oracle".to_owned(),
        user => user,
    };
    server.send_as(&user, "recorder/1", &text("method"), &text("path"), &media, body).await
}

/// A server whose users, plugins and controllers are those of the recording.
async fn started(name: &str) -> Server {
    let tokens = std::env::temp_dir().join(format!("sternpost-{name}-tokens-{}", std::process::id()));
    fs::write(&tokens, "oracle,admin,1,\"system:masters\"\nana,ana,ana-uid,\"devs\"\n").unwrap();
    let flags = [
        "--token-auth-file",
        tokens.to_str().unwrap(),
        "--authorization-mode",
        "AlwaysAllow",
        "--disable-admission-plugins",
        "ServiceAccount",
        "--controllers",
        "-*",
    ];
    let server = Server::start_with(name, &flags).await;
    let _ = fs::remove_file(tokens);
    server
}

/// Cases that run side by side: they wait more than they work.
const AT_A_TIME: usize = 4;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Servers that no case is using, with the webhooks that they call.
static FREE: Mutex<Vec<(Server, Hooks)>> = Mutex::new(Vec::new());

/// Every recorded case is a test by its name.
fn main() -> ExitCode {
    let mut suite = Suite::default();
    let cases = RECORDED.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap().to_owned();
        (name.clone(), move || RUNTIME.block_on(recorded(&name, &case)))
    });
    suite.group("recorded", 350, cases);
    suite.test("a_webhook_that_hangs_holds_up_nobody_else", || {
        RUNTIME.block_on(a_webhook_that_hangs_holds_up_nobody_else());
    });
    suite.test("answers_without_end_and_patches_without_measure_are_refused", || {
        RUNTIME.block_on(answers_without_end_and_patches_without_measure_are_refused());
    });
    suite.test("a_webhook_does_not_choose_where_objects_go", || {
        RUNTIME.block_on(a_webhook_does_not_choose_where_objects_go());
    });
    suite.test("a_webhook_for_everything_can_be_got_rid_of", || {
        RUNTIME.block_on(a_webhook_for_everything_can_be_got_rid_of());
    });
    suite.test("webhooks_that_are_switched_off_are_not_asked", || {
        RUNTIME.block_on(webhooks_that_are_switched_off_are_not_asked());
    });
    let code = suite.at_a_time(AT_A_TIME).run();
    FREE.lock().unwrap().drain(..).for_each(|(server, _)| server.stop());
    code
}

/// Plays a case on a server that no other is using.
async fn recorded(name: &str, case: &Value) -> Result<(), String> {
    let free = FREE.lock().unwrap().pop();
    let (server, mut hooks) = match free {
        Some(free) => free,
        None => {
            let server = started(&format!("webhooks-{name}")).await;
            let hooks = Hooks::start(&server.own_config("")["caBundle"]).await;
            (server, hooks)
        }
    };
    let wrong = play(&server, &mut hooks, name, case).await;
    FREE.lock().unwrap().push((server, hooks));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What came otherwise than it was recorded.
async fn play(server: &Server, hooks: &mut Hooks, name: &str, case: &Value) -> Vec<String> {
    let mut labels = case["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("case".into(), name.into());
    let namespace = json!({"method": "POST", "path": "/api/v1/namespaces",
        "body": {"metadata": {"name": name, "labels": labels}}});
    assert_eq!(send(server, name, &namespace).await.code, 201, "{name}");
    let list = |field: &str| case[field].as_array().cloned().unwrap_or_default();
    for step in list("setup") {
        let made = send(server, name, &step).await;
        assert!(made.code < 300, "{name}: {}", short(&made.body));
        if step["path"].as_str().unwrap().ends_with("/customresourcedefinitions") {
            server.established(made.body["metadata"]["name"].as_str().unwrap()).await;
        }
    }
    hooks.play(&case["hooks"]);
    let mut made = Vec::new();
    for (index, configuration) in list("configurations").iter().enumerate() {
        let (path, body) = hooks.configuration(name, index, configuration);
        let step = json!({"method": "POST", "path": path, "body": body});
        let answer = send(server, name, &step).await;
        assert_eq!(answer.code, 201, "{name}: {}", short(&answer.body));
        made.push(format!("{path}/{}", body["metadata"]["name"].as_str().unwrap()));
    }
    hooks.calls();
    let mut names = Names { hook: format!("127.0.0.1:{}", hooks.server.port), ..Names::default() };
    let mut wrong = Vec::new();
    for (index, (step, expected)) in list("steps").iter().zip(list("expected")).enumerate() {
        let answer = send(server, name, step).await;
        let reviews: Vec<Value> = hooks.calls().iter().map(seen).collect();
        let reviews = names.value(&Value::Array(reviews), "");
        let body = names.value(&answer.body, "");
        let warnings: Vec<Value> = answer
            .headers
            .get_all("warning")
            .iter()
            .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned().into())
            .collect();
        let warnings = names.value(&Value::Array(warnings), "");
        let otherwise = OTHERWISE.iter().find(|(case, _)| *case == name);
        let mut differs = |what: &str, found: &Value, expected: &Value| {
            let (found, expected) = (&unordered(found), &unordered(expected));
            if found != expected && !NOT_COMPARED.contains(&(name, what)) {
                wrong.push(format!("{name}[{index}] {what}: {}", difference(found, expected)));
            }
        };
        if let Some((_, message)) = otherwise {
            differs("message", &body["message"], &Value::from(*message));
            assert_ne!(body, expected["body"], "{name} is as upstream has it");
            continue;
        }
        differs("code", &answer.code.into(), &expected["code"]);
        differs("body", &body, &expected["body"]);
        differs("reviews", &reviews, &expected["reviews"]);
        differs("warnings", &warnings, expected.get("warnings").unwrap_or(&json!([])));
    }
    for path in made {
        send(server, name, &json!({"method": "DELETE", "path": path})).await;
    }
    wrong
}

fn seen(call: &Call) -> Value {
    let mut review: Value = serde_json::from_slice(&call.body).unwrap();
    review["request"]["uid"] = "$uid".into();
    let query = call.target.split_once('?').map_or("", |(_, query)| query);
    json!({"hook": hook_of(call), "query": query, "review": review})
}

/// Owners of fields are in the order of time, which here all is one.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, field): (&String, &Value)| {
                let mut field = unordered(field);
                if let (Value::Array(owners), "managedFields") = (&mut field, name.as_str()) {
                    owners.sort_by_key(Value::to_string);
                }
                (name.clone(), field)
            };
            fields.iter().map(field).collect()
        }
        Value::Array(items) => items.iter().map(unordered).collect(),
        other => other.clone(),
    }
}

/// The first places at which two values differ.
fn difference(found: &Value, expected: &Value) -> String {
    fn walk(path: &str, found: &Value, expected: &Value, out: &mut Vec<String>) {
        match (found, expected) {
            (Value::Object(one), Value::Object(other)) => {
                let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
                keys.sort();
                keys.dedup();
                for key in keys {
                    let null = Value::from("(absent)");
                    let (one, other) = (one.get(key).unwrap_or(&null), other.get(key).unwrap_or(&null));
                    walk(&format!("{path}.{key}"), one, other, out);
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (index, (one, other)) in one.iter().zip(other).enumerate() {
                    walk(&format!("{path}[{index}]"), one, other, out);
                }
            }
            (one, other) if one != other => out.push(format!("{path}: {} not {}", short(one), short(other))),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk("", found, expected, &mut out);
    out.truncate(4);
    out.join(" | ")
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// One webhook for everything of these resources.
fn one(name: &str, config: &Value, resources: &[&str], more: &Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.hooks.example.com"), "clientConfig": config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "webhooks": [webhook]})
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

async fn a_webhook_that_hangs_holds_up_nobody_else() {
    let server = Server::start("webhooks-hang").await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let held = Reply::Held { gate, reply: Box::new(Reply::code(418, "text/plain", "tea")) };
    let hook = webhook::Server::replying(held).await;
    let config = one("hang", &hook.config("/"), &["configmaps"], &json!({"timeoutSeconds": 30}));
    server.post(VALIDATING, &config).await.expect(201);
    server.post(MUTATING, &config).await.expect(201);
    let before = server.memory();
    let names: Vec<Value> = (0..200).map(|index| named(&format!("stuck-{index}"))).collect();
    let others_are_done = AtomicBool::new(false);
    let stuck = join_all(names.iter().map(async |object| {
        let answer = server.post(CONFIG_MAPS, object).await;
        (answer, others_are_done.load(Ordering::Relaxed))
    }));
    let others = async {
        let begun = Instant::now();
        while hook.calls().len() < 200 {
            assert!(begun.elapsed() < sternpost_testkit::server::AT_LAST, "only {} wait", hook.calls().len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for index in 0..50 {
            let secret = named(&format!("free-{index}"));
            assert_eq!(server.post_apart("/api/v1/namespaces/default/secrets", &secret).await, 201);
        }
        others_are_done.store(true, Ordering::Relaxed);
        open.send_replace(true);
    };
    let (stuck, ()) = tokio::join!(stuck, others);
    assert!(
        stuck.iter().any(|(_, others_were_done)| *others_were_done),
        "nobody waited as long as the others"
    );
    for (answer, _) in stuck {
        assert_eq!(answer.code, 500, "{}", short(&answer.body));
        let said = answer.message();
        let is_late = said.ends_with("?timeout=30s\": context deadline exceeded");
        assert!(is_late || said.contains("the server responded with the status code 418"), "{said}");
    }
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes");
    server.stop();
}

async fn answers_without_end_and_patches_without_measure_are_refused() {
    let server = Server::start("webhooks-huge").await;
    let failed = "Internal error occurred: failed calling webhook \"huge.hooks.example.com\": ";
    let patch = |operations: &Value| {
        let patch = STANDARD.encode(operations.to_string());
        let answer = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": "$UID", "allowed": true, "patchType": "JSONPatch", "patch": patch}});
        answer.to_string()
    };
    let add =
        |index: usize| json!({"op": "add", "path": format!("/metadata/annotations/{index}"), "value": ""});
    let many: Vec<Value> = (0..10_001).map(add).collect();
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    let deeper = json!([
        {"op": "add", "path": "/metadata/annotations", "value": deep},
        {"op": "copy", "from": "/metadata", "path": "/data"},
        {"op": "copy", "from": "/data", "path": "/metadata/labels"},
    ]);
    for (body, expected) in [
        (
            " ".repeat(33 << 20),
            format!("{failed}failed to call webhook: the response is larger than 33554432 bytes"),
        ),
        (
            patch(&json!(many)),
            format!(
                "{failed}received undecodable patch in webhook response: The allowed maximum operations in a JSON patch is 10000, got 10001"
            ),
        ),
        (patch(&deeper), "Internal error occurred: ".to_owned()),
    ] {
        let hook = webhook::Server::start(Identity::default(), &["http/1.1"], move |call| {
            let review: Value = serde_json::from_slice(&call.body).unwrap();
            Reply::ok(body.replace("$UID", review["request"]["uid"].as_str().unwrap()))
        })
        .await;
        let config = one("huge", &hook.config("/"), &["configmaps"], &json!({}));
        server.post(MUTATING, &config).await.expect(201);
        let answer = server.post(CONFIG_MAPS, &named("a")).await;
        assert_eq!(answer.code, 500, "{}", short(&answer.body));
        assert!(answer.message().starts_with(&expected), "{}", answer.message());
        server.delete(&format!("{MUTATING}/huge")).await.expect(200);
    }
    server.post(CONFIG_MAPS, &named("a")).await.expect(201);
    server.stop();
}

async fn a_webhook_does_not_choose_where_objects_go() {
    let server = Server::start("webhooks-redirect").await;
    let elsewhere = webhook::Server::replying(Reply::ok("{}")).await;
    for code in [301, 302, 303, 307, 308] {
        let headers = vec![("location", elsewhere.url("/stolen"))];
        let hook = webhook::Server::replying(Reply::Answer { code, headers, body: "".into() }).await;
        for (path, name) in [(VALIDATING, "v"), (MUTATING, "m")] {
            let config = one(name, &hook.config("/"), &["secrets"], &json!({}));
            server.post(path, &config).await.expect(201);
            let answer = server.post("/api/v1/namespaces/default/secrets", &named("s")).await;
            assert_eq!(answer.code, 500);
            server.delete(&format!("{path}/{name}")).await.expect(200);
        }
        assert_eq!(hook.calls().len(), 2);
    }
    assert_eq!(elsewhere.calls().len(), 0);
    server.stop();
}

async fn a_webhook_for_everything_can_be_got_rid_of() {
    let server = Server::start_with("webhooks-all", &["--egress-allow", "127.0.0.1/32"]).await;
    let refused = json!({"url": "https://127.0.0.1:1/"});
    for (path, config, text) in [
        (VALIDATING, refused.clone(), "connection refused"),
        (MUTATING, refused, "connection refused"),
        // The server itself, which does not know who calls.
        (VALIDATING, server.own_config("/readyz"), "User \"system:anonymous\" cannot post path \"/readyz\""),
        (MUTATING, server.own_config(CONFIG_MAPS), "User \"system:anonymous\" cannot create resource"),
    ] {
        server.post(path, &one("all", &config, &["*/*"], &json!({}))).await.expect(201);
        for write in
            [CONFIG_MAPS, "/api/v1/namespaces", "/apis/coordination.k8s.io/v1/namespaces/default/leases"]
        {
            let answer = server.post(write, &named("x")).await;
            assert_eq!(answer.code, 500, "{write}");
            assert!(answer.message().contains(text), "{write}: {}", answer.message());
        }
        server.get(CONFIG_MAPS).await.expect(200);
        // Of itself it does not hear, so that it can be changed and goes.
        let more = json!({"failurePolicy": "Ignore"});
        let found = server.get(&format!("{path}/all")).await.expect(200);
        let mut milder = one("all", &config, &["*/*"], &more);
        milder["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        server.put(&format!("{path}/all"), &milder).await.expect(200);
        server.post(CONFIG_MAPS, &named("x")).await.expect(201);
        server.delete(&format!("{CONFIG_MAPS}/x")).await.expect(200);
        server.delete(&format!("{path}/all")).await.expect(200);
    }
    server.stop();
}

async fn webhooks_that_are_switched_off_are_not_asked() {
    let flags = ["--disable-admission-plugins", "MutatingAdmissionWebhook,ValidatingAdmissionWebhook"];
    let server = Server::start_with("webhooks-off", &flags).await;
    let hook = webhook::Server::replying(Reply::Drop).await;
    for path in [VALIDATING, MUTATING] {
        server.post(path, &one("off", &hook.config("/"), &["*/*"], &json!({}))).await.expect(201);
    }
    server.post(CONFIG_MAPS, &named("a")).await.expect(201);
    assert_eq!(hook.calls().len(), 0);
    server.stop();
}
