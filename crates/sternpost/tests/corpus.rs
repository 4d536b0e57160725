//! Recorded answers of kube-apiserver, compared with ours field by field.
//!
//! Every `corpus/*.jsonl` is a scenario: steps that run in order against a fresh
//! server, each with what kube-apiserver 1.36.4 answered. `corpus/record.py` says
//! what a step consists of, records the answers, and masks them as this does:
//! uids and resource versions become numbered symbols, so that what was equal
//! there must be equal here; times, ages and generated names are blanked. Where
//! this server makes a version more or less on purpose, numbers move: each of its
//! symbols is held to the one that it first met.

#![allow(clippy::disallowed_methods, reason = "tests wait and measure in the machine's time")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sternpost_testkit::{
    etcd::Etcd,
    process::{self, Place, Process},
    recorded::Suite,
    tls::{self, HTTP_1},
};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

/// The headers that are compared.
const HEADERS: [&str; 5] = ["allow", "content-type", "location", "retry-after", "warning"];

/// Scenarios that run side by side. Starting a server keeps a thread, and the
/// servers that run already give clients only so long to shake hands.
const AT_A_TIME: usize = 4;

/// What admission_optional was recorded with, beside what is on by default.
const OPTIONAL: &str = "AlwaysAdmit,AlwaysPullImages,DenyServiceExternalIPs,NamespaceExists,OwnerReferencesPermissionEnforcement";

/// How long a scenario waits, in all, for what the server does later.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Every scenario is a test by the name of its file.
fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut scenarios: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    // The longest first, so that none is left to run alone.
    scenarios.sort_by_cached_key(|path| (Reverse(fs::metadata(path).unwrap().len()), path.clone()));
    let mut suite = Suite::default();
    let mut steps = 0;
    for path in scenarios {
        let text = fs::read_to_string(&path).unwrap();
        steps += text.lines().count();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        suite.case(&name.clone(), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let complaints = runtime.block_on(run(&name, &text));
            if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
        });
    }
    suite.test("the corpus has at least 11,000 steps", move || assert!(steps >= 11_000, "{steps}"));
    suite.at_a_time(AT_A_TIME).run()
}

/// Every difference.
async fn run(name: &str, text: &str) -> Vec<String> {
    let server = Server::start(name);
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let owners = name.starts_with("change_") || name.ends_with("_owners");
    let mut scenario = Scenario { owners, ..Scenario::default() };
    let mut known = Symbols::default();
    let mut complaints = Vec::new();
    let mut timeout = STEP_TIMEOUT;
    // To show what depends on the second that a step falls into.
    #[expect(clippy::disallowed_methods, reason = "a test is told what to run by the environment")]
    let everywhere = std::env::var("STERNPOST_CORPUS_PAUSE").ok().map(|seconds| seconds.parse().unwrap());
    for step in &steps {
        if let Some(until) = step.get("until") {
            let begun = Instant::now();
            if let Err(last) = scenario.wait(&server, step, until, timeout).await {
                complaints.push(format!("{name}: {} ({}): still {last}", step["name"], step["path"]));
            }
            timeout = timeout.saturating_sub(begun.elapsed());
            continue;
        }
        if let Some(seconds) = step["pause"].as_f64().or(everywhere) {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let mut got = scenario.play(&server, step).await;
        let ours = step.get("ours").map(|ours| &ours["expect"]);
        let is_stale = ours.is_some_and(|ours| *ours == step["expect"]);
        assert!(!is_stale, "{name}: {} does not differ any more", step["name"]);
        let mut expected = ours.unwrap_or(&step["expect"]).clone();
        for ignored in step["ignore"].as_array().into_iter().flatten() {
            let path: Vec<&str> = ignored["at"].as_str().unwrap().split('/').skip(1).collect();
            remove(&mut got, &path);
            remove(&mut expected, &path);
        }
        let mut found = Vec::new();
        compare("", &expected, &got, &mut known, &mut found);
        let place = format!("{name}: {} ({} {})", step["name"], step["method"], step["path"]);
        complaints.extend(found.into_iter().map(|difference| format!("{place}\n    {difference}")));
    }
    complaints
}

/// What is remembered from step to step.
#[derive(Clone, Default)]
struct Scenario {
    captured: BTreeMap<String, String>,
    symbols: HashMap<(&'static str, String), usize>,
    /// What a client sent is not masked when it comes back.
    sent: String,
    /// Beginnings of generated names.
    bases: Vec<String>,
    /// Whether it is about who owns which field.
    owners: bool,
}

impl Scenario {
    async fn play(&mut self, server: &Server, step: &Value) -> Value {
        let (method, path) = (step["method"].as_str().unwrap(), step["path"].as_str().unwrap());
        let mut headers: BTreeMap<&str, &str> =
            [("Content-Type", "application/json"), ("Accept", "application/json")].into();
        for (name, value) in step["headers"].as_object().into_iter().flatten() {
            headers.insert(name, value.as_str().unwrap());
        }
        let body = self.body(step);
        let mut request =
            Request::builder().method(method).uri(self.fill(path)).header("host", &server.place.address);
        if !headers.contains_key("Authorization") {
            request = request.header("authorization", format!("Bearer {}", server.place.token));
        }
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, self.fill(value));
        }
        let response = server.send(request.body(Full::new(body.into())).unwrap()).await;
        self.answer(step, path, &response)
    }

    /// Repeats a step until its answer matches, or gives the last answer.
    async fn wait(
        &self,
        server: &Server,
        step: &Value,
        until: &Value,
        timeout: Duration,
    ) -> Result<(), Value> {
        let end = Instant::now() + timeout;
        loop {
            // Nothing that is seen on the way counts.
            let got = self.clone().play(server, step).await;
            if matches(until, &got) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(got);
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    fn body(&mut self, step: &Value) -> Vec<u8> {
        if let Some(bytes) = step["base64"].as_str() {
            return STANDARD.decode(bytes).unwrap();
        }
        let body = &step["body"];
        let text = match body {
            Value::Null => return Vec::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.sent += &text;
        let metadata = &body["metadata"];
        if let (Some(base), None) = (metadata["generateName"].as_str(), metadata.get("name")) {
            self.bases.push(base.chars().take(58).collect());
        }
        self.fill(&text).into_bytes()
    }

    fn fill(&self, text: &str) -> String {
        self.captured
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    fn answer(&mut self, step: &Value, path: &str, response: &Response<Bytes>) -> Value {
        let mut got = json!({"code": response.status().as_u16()});
        for name in HEADERS {
            let values = response.headers().get_all(name).iter();
            let values: Vec<String> = values.map(|value| self.text(value.to_str().unwrap())).collect();
            if !values.is_empty() {
                got["headers"][name] = json!(values);
            }
        }
        let media = response.headers().get("content-type").map_or("", |media| media.to_str().unwrap());
        let bytes = response.body();
        if step["compare"] == "sha256" {
            let hash = Sha256::digest(bytes);
            got["sha256"] = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
            return got;
        }
        let as_text = media.contains("yaml") && step["compare"] == "text";
        if bytes.is_empty() || media.contains("protobuf") || (media.contains("yaml") && !as_text) {
            return got;
        }
        let text = std::str::from_utf8(bytes).unwrap();
        if as_text {
            got["text"] = self.yaml(text).into();
            return got;
        }
        if !media.contains("json") {
            got["text"] = self.text(text).into();
            return got;
        }
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let is_watch = path.contains("/watch/")
            || query
                .split('&')
                .filter_map(|pair| pair.strip_prefix("watch="))
                .any(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
        if is_watch && response.status() == 200 {
            let events: Value =
                text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
            self.capture(step, &events);
            got["events"] = self.value(&events);
            return got;
        }
        let mut value: Value = serde_json::from_str(text).unwrap();
        if text.starts_with("{\n") {
            got["pretty"] = true.into();
        }
        self.capture(step, &value);
        if response.status().is_success() {
            keep(step, &mut value);
        }
        got["body"] = self.value(&value);
        got
    }

    /// Masked without looking at its structure: the bytes are what counts.
    fn yaml(&self, text: &str) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut skipped: Option<usize> = None;
        for line in text.split('\n') {
            let content = line.trim_start_matches(' ');
            let indent = line.len() - content.len();
            if skipped.is_some_and(|at| indent > at || (indent == at && content.starts_with("- "))) {
                continue;
            }
            skipped = (line.trim() == "managedFields:").then_some(indent);
            if skipped.is_some() {
                continue;
            }
            let mut line = line.to_owned();
            for (key, quote, mask) in
                [("resourceVersion: ", "\"", "\"<version>\""), ("continue: ", "", "<continue>")]
            {
                let is_key = |at: usize| line[at + key.len()..].starts_with(quote);
                if let Some(at) = line.find(key).filter(|at| is_key(*at)) {
                    line.replace_range(at + key.len().., mask);
                }
            }
            let keep = |text: &str| self.sent.contains(text);
            let line =
                substitute(&line, uid_at, |uid| if keep(uid) { uid.to_owned() } else { "<uid>".into() });
            lines.push(substitute(&line, time_at, |time| {
                if keep(time) { time.to_owned() } else { "<time>".into() }
            }));
        }
        lines.join("\n")
    }

    fn capture(&mut self, step: &Value, value: &Value) {
        for (name, pointer) in step["capture"].as_object().into_iter().flatten() {
            let found = value.pointer(pointer.as_str().unwrap()).and_then(Value::as_str).unwrap_or_default();
            self.captured.insert(name.clone(), found.to_owned());
        }
    }

    fn symbol(&mut self, kind: &'static str, value: &str) -> String {
        let next = self.symbols.keys().filter(|(known, _)| *known == kind).count() + 1;
        let number = self.symbols.entry((kind, value.to_owned())).or_insert(next);
        format!("<{kind} {number}>")
    }

    /// Keys in order, so that symbols are numbered alike everywhere.
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let shown = fields.iter().filter(|(key, _)| self.owners || *key != "managedFields");
                let shown: Vec<_> = shown.collect();
                shown.into_iter().map(|(key, value)| (key.clone(), self.field(fields, key, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn field(&mut self, owner: &Map<String, Value>, key: &str, value: &Value) -> Value {
        match (key, value) {
            ("metadata", Value::Object(metadata)) => self.metadata(owner, metadata),
            // Their order follows the second in which a step ran.
            ("managedFields", Value::Array(entries)) => {
                let who = |entry: &Value| {
                    ["operation", "manager", "apiVersion", "subresource"]
                        .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
                };
                let mut entries = entries.clone();
                entries.sort_by_key(who);
                self.value(&entries.into())
            }
            // Upstream takes the managers from a map.
            ("causes", Value::Array(causes))
                if causes.iter().any(|cause| cause["reason"] == "FieldManagerConflict") =>
            {
                let mut causes = causes.clone();
                causes.sort_by_key(|cause| {
                    ["field", "message"].map(|key| cause[key].as_str().unwrap().to_owned())
                });
                causes.into()
            }
            ("cells", Value::Array(cells)) => {
                let cell = |cell: &Value| match cell.as_str() {
                    Some(text) if is_age(text) => "<age>".into(),
                    _ => self.value(cell),
                };
                cells.iter().map(cell).collect()
            }
            ("columnDefinitions", Value::Array(columns)) => {
                let prose = |column: &Value| {
                    let mut column = column.clone();
                    column["description"] = "<prose>".into();
                    column
                };
                columns.iter().map(prose).collect()
            }
            _ => self.value(value),
        }
    }

    fn metadata(&mut self, owner: &Map<String, Value>, metadata: &Map<String, Value>) -> Value {
        let apart = ["resourceVersion", "continue", "name"];
        let rest: Map<String, Value> = metadata
            .iter()
            .filter(|(key, _)| !apart.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut masked = self.value(&Value::Object(rest));
        let kind = owner.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_collection = owner.contains_key("items")
            || owner.contains_key("rows")
            || kind.ends_with("List")
            || kind.ends_with("Table");
        if let Some(version) = metadata.get("resourceVersion") {
            let is_object = !is_collection && metadata.contains_key("name");
            masked["resourceVersion"] = match version.as_str() {
                Some(version) if is_object => self.symbol("version", version).into(),
                _ => "<version>".into(),
            };
        }
        if metadata.get("continue").and_then(Value::as_str).is_some_and(|token| !token.is_empty()) {
            masked["continue"] = "<continue>".into();
        }
        if let Some(name) = metadata.get("name") {
            masked["name"] = self.value(name);
        }
        masked
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for base in &self.bases {
            text = blank_generated(&text, base);
        }
        for (name, value) in &self.captured {
            if value.len() > 5 && !value.bytes().all(|byte| byte.is_ascii_digit()) {
                text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        let sent = self.sent.clone();
        text = substitute(&text, uid_at, |uid| {
            if sent.contains(uid) { uid.to_owned() } else { self.symbol("uid", uid) }
        });
        text =
            substitute(
                &text,
                time_at,
                |time| {
                    if sent.contains(time) { time.to_owned() } else { "<time>".into() }
                },
            );
        if !self.owners {
            text = without_owners(&text);
        }
        if text.contains("esource version") || text.contains("esourceVersion") {
            text = blank_numbers(&text);
        }
        text
    }
}

/// An object that is quoted, as the others without `managedFields`.
fn without_owners(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("\\\"managedFields\\\":[") {
        let mut depth = 1;
        let end = behind.find(|char| {
            depth += match char {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            depth == 0
        });
        let behind = end.map_or("", |end| &behind[end + 1..]);
        rest = match behind.strip_prefix(',') {
            Some(behind) => {
                out += before;
                behind
            }
            None => {
                out += before.trim_end_matches(',');
                behind
            }
        };
    }
    out + rest
}

/// Replaces what `find` measures at a place; it gives a length in bytes.
fn substitute(
    text: &str,
    find: fn(&str) -> Option<usize>,
    mut replace: impl FnMut(&str) -> String,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let length = match find(rest) {
            Some(length) => {
                out += &replace(&rest[..length]);
                length
            }
            None => {
                out.push(char);
                char.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// Whether a text begins with a pattern: `x` is a hexadecimal digit, `9` a
/// decimal one, anything else itself.
fn begins(text: &str, pattern: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= pattern.len()
        && pattern.bytes().zip(bytes).all(|(wanted, byte)| match wanted {
            b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
            b'9' => byte.is_ascii_digit(),
            other => other == *byte,
        })
}

fn uid_at(text: &str) -> Option<usize> {
    const UID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    begins(text, UID).then_some(UID.len())
}

fn time_at(text: &str) -> Option<usize> {
    const TIME: &str = "2099-99-99T99:99:99";
    // Go's own layout is of the year 2006.
    if !begins(text, TIME) || text.as_bytes()[2] < b'2' {
        return None;
    }
    let behind = &text[TIME.len()..];
    let fraction =
        behind.strip_prefix('.').map_or(behind, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    fraction.starts_with('Z').then(|| text.len() - fraction.len() + 1)
}

/// Numbers that stand alone.
fn blank_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let word = rest.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(word.max(char.len_utf8()));
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        out += if is_number { "<n>" } else { word };
        rest = behind;
    }
    out
}

fn blank_generated(text: &str, base: &str) -> String {
    const SUFFIX: usize = 5;
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(base) {
        let (before, behind) = rest.split_at(at + base.len());
        out += before;
        let suffix = behind.get(..SUFFIX).unwrap_or_default();
        let is_generated = suffix.len() == SUFFIX
            && suffix.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
        rest = behind;
        if is_generated {
            out += "<generated>";
            rest = &behind[SUFFIX..];
        }
    }
    out + rest
}

/// As tables show them: `5s`, `2m10s`.
fn is_age(text: &str) -> bool {
    let parts = text.split_inclusive(|char: char| char.is_ascii_alphabetic());
    text == "<invalid>"
        || (!text.is_empty()
            && parts.into_iter().all(|part| {
                let digits = part.trim_end_matches(['s', 'm', 'h', 'd', 'y']);
                digits.len() + 1 == part.len()
                    && !digits.is_empty()
                    && digits.bytes().all(|byte| byte.is_ascii_digit())
            }))
}

/// Null is what is missing; a list has something for each that is asked.
fn matches(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::Object(wanted), Value::Object(had)) => {
            wanted.iter().all(|(key, pattern)| matches(pattern, had.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(had)) => {
            wanted.iter().all(|pattern| had.iter().any(|value| matches(pattern, value)))
        }
        _ => pattern == value,
    }
}

/// Of some lists only what the step is about, and some in an order of their own.
fn keep(step: &Value, value: &mut Value) {
    for (pointer, pattern) in step["keep"].as_object().into_iter().flatten() {
        if let Some(Value::Array(items)) = value.pointer_mut(pointer) {
            items.retain(|item| matches(pattern, item));
        }
    }
    for (pointer, key) in step["sorted"].as_object().into_iter().flatten() {
        if let Some(Value::Array(items)) = value.pointer_mut(pointer) {
            items.sort_by_key(|item| item[key.as_str().unwrap()].as_str().map(str::to_owned));
        }
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let [head, rest @ ..] = path else { return };
    let head = head.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(fields) if rest.is_empty() => fields.retain(|key, _| head != "*" && *key != head),
        Value::Object(fields) => {
            let chosen = fields.iter_mut().filter(|(key, _)| head == "*" || **key == head);
            chosen.for_each(|(_, value)| remove(value, rest));
        }
        Value::Array(items) => {
            let chosen = items.iter_mut().enumerate();
            let chosen = chosen.filter(|(index, _)| head == "*" || index.to_string() == head);
            chosen.for_each(|(_, value)| remove(value, rest));
        }
        _ => {}
    }
}

/// Which of our symbols stands for which of upstream's.
#[derive(Default)]
struct Symbols {
    theirs: HashMap<String, String>,
    ours: HashMap<String, String>,
}

impl Symbols {
    /// What was got, in the symbols of what was expected.
    fn translate(&mut self, expected: &str, got: &str) -> String {
        let mut wanted = symbols(expected).into_iter();
        let mut out = String::new();
        let mut rest = got;
        for symbol in symbols(got) {
            let (before, behind) = rest.split_once(symbol).unwrap();
            out += before;
            rest = behind;
            let meets = wanted.next().filter(|wanted| kind_of(wanted) == kind_of(symbol));
            if let Some(meets) = meets
                && !self.theirs.contains_key(symbol)
                && !self.ours.contains_key(meets)
            {
                self.theirs.insert(symbol.to_owned(), meets.to_owned());
                self.ours.insert(meets.to_owned(), symbol.to_owned());
            }
            match self.theirs.get(symbol) {
                Some(theirs) => out += theirs,
                None => out += &symbol.replace(' ', " of no step "),
            }
        }
        out + rest
    }
}

/// `<uid 1>` and `<version 1>`, in order; what only sternpost makes has a word before the number.
fn symbols(text: &str) -> Vec<&str> {
    let starts = text.match_indices('<').filter(|(at, _)| {
        let behind = &text[*at..];
        behind.starts_with("<uid ") || behind.starts_with("<version ")
    });
    starts.filter_map(|(at, _)| Some(&text[at..at + text[at..].find('>')? + 1])).collect()
}

fn kind_of(symbol: &str) -> &str {
    symbol.split(' ').next().unwrap()
}

fn compare(path: &str, expected: &Value, got: &Value, known: &mut Symbols, found: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(wanted), Value::Object(had)) => {
            let keys: BTreeSet<&String> = wanted.keys().chain(had.keys()).collect();
            for key in keys {
                let path = format!("{path}/{key}");
                match (wanted.get(key), had.get(key)) {
                    (Some(expected), Some(got)) => compare(&path, expected, got, known, found),
                    (Some(expected), None) => found.push(format!("{path}: missing, expected {expected}")),
                    (None, got) => found.push(format!("{path}: unexpected {}", got.unwrap())),
                }
            }
        }
        (Value::Array(wanted), Value::Array(had)) if wanted.len() == had.len() => {
            for (index, (expected, got)) in wanted.iter().zip(had).enumerate() {
                compare(&format!("{path}/{index}"), expected, got, known, found);
            }
        }
        (Value::String(expected), Value::String(got)) => {
            let got = known.translate(expected, got);
            if *expected != got {
                found.push(format!("{path}:\n      expected {expected:?}\n      got      {got:?}"));
            }
        }
        _ if expected == got => {}
        _ => found.push(format!("{path}:\n      expected {expected}\n      got      {got}")),
    }
}

/// A server in a process of its own, and a connection to it.
struct Server {
    _process: Process,
    _etcd: Option<Etcd>,
    _dir: tempfile::TempDir,
    place: Place,
    connector: TlsConnector,
    /// Kept from request to request, as long as the server keeps it.
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Server {
    fn start(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = process::serve();
        // The answers were recorded without a controller manager.
        command.args(["--controllers=-*", "--kubeconfig"]).arg(dir.path().join("kubeconfig"));
        // The same answers whatever objects are kept in.
        #[expect(clippy::disallowed_methods, reason = "a test is told what to run by the environment")]
        let etcd =
            std::env::var_os("STERNPOST_CORPUS_ETCD").map(|program| Etcd::start(program.as_ref(), &[]));
        match &etcd {
            Some(etcd) => {
                command.args(["--etcd-servers", &etcd.url(), "--data-dir"]).arg(dir.path().join("data"))
            }
            None => command.arg("--in-memory"),
        };
        // Where nobody makes accounts, pods that need one are only in the way.
        if !name.starts_with("admission_service_account") {
            command.arg("--disable-admission-plugins=ServiceAccount");
        }
        if name == "admission_optional" {
            command.arg(format!("--enable-admission-plugins={OPTIONAL}"));
        }
        let users = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/users.csv");
        command.arg("--token-auth-file").arg(users);
        let (process, place) = Process::start(command);
        let connector = tls::connector(&place.authority_pem(), HTTP_1, None);
        Self { _process: process, _etcd: etcd, _dir: dir, place, connector, sender: Mutex::new(None) }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        let mut kept = self.sender.lock().await;
        let mut sender = kept.take();
        if let Some(open) = &mut sender
            && open.ready().await.is_err()
        {
            sender = None;
        }
        let mut sender = match sender {
            Some(sender) => sender,
            None => self.connect().await,
        };
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // Whether a connection goes on after a request that was not read to its end is not said.
        if parts.status.as_u16() < 400 || parts.status == 404 || parts.status == 409 || parts.status == 422 {
            *kept = Some(sender);
        }
        Response::from_parts(parts, body)
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = tls::connect(&self.place.address, &self.connector).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}
