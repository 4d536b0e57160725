//! `openapi fetch`, `info` and `convert` as programs, against a server that
//! counts what it is asked, servers that misbehave, and a real one.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use sternpost_testkit::server::Server;

/// What a fake server answers.
#[derive(Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    /// The connection is closed before all that was announced has come.
    Early,
    Never,
    /// Nothing comes at all.
    Silent,
}

pub fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Reply { status, headers, body: body.into(), end: End::Well }
}

pub fn ok(json: &Value) -> Reply {
    reply(200, &[("content-type", "application/json")], json.to_string())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What a request says: its path, and its headers by lower-case name.
pub struct Asked {
    pub path: String,
    headers: BTreeMap<String, String>,
}

type Answer = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server over plain HTTP/1.1.
pub struct Fake {
    address: String,
    /// Paths without their queries, in the order of arrival.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer): (_, Arc<Answer>) = (asked.clone(), Arc::new(answer));
        // Ends with the process: nobody connects after the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || {
                    // The client may leave whenever it likes.
                    let _ = serve(stream.unwrap(), &log, &*answer);
                });
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked since the last look, sorted.
    fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<String>>, answer: &Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let path = lines[0].split(' ').nth(1).unwrap().to_owned();
        log.lock().unwrap().push(path.split('?').next().unwrap().to_owned());
        let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let reply = answer(&Asked { path, headers });
        if reply.end == End::Silent {
            std::thread::sleep(Duration::from_secs(3600));
        }
        let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match reply.end {
            End::Never => head += "\r\n",
            End::Early => head += &format!("content-length: {}\r\n\r\n", reply.body.len() + 1),
            _ => head += &format!("content-length: {}\r\n\r\n", reply.body.len()),
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(&reply.body)?;
        match reply.end {
            End::Never => loop {
                stream.write_all(&[b' '; 1 << 16])?;
            },
            End::Early => return Ok(()),
            _ => {}
        }
    }
}

/// A directory of its own.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("openapi-fetch-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory.canonicalize().unwrap()
}

struct Ran {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_slice(&self.stdout).unwrap()
    }
}

/// Runs `sternpost openapi ...` with nothing of this machine's own configuration.
fn openapi(directory: &Path, words: &[&str], input: &[u8]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .arg("openapi")
        .args(words)
        .current_dir(directory)
        .env("HOME", directory)
        .env("XDG_CACHE_HOME", directory.join("cache"))
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("HTTP_PROXY")
        .env_remove("HTTPS_PROXY")
        .env_remove("http_proxy")
        .env_remove("https_proxy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn document(group: &str, kind: &str) -> Value {
    let gvk = json!({"group": group, "version": "v1", "kind": kind});
    let name = format!("{group}.v1.{kind}");
    let shared = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let reference = json!({"$ref": format!("#/components/schemas/{name}")});
    let path = format!("/apis/{group}/v1/{}s/{{name}}", kind.to_lowercase());
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Fake", "version": "v1"},
        "paths": {path: {"get": {"x-kubernetes-group-version-kind": gvk, "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}}}},
        "components": {"schemas": {
            name: {"type": "object", "x-kubernetes-group-version-kind": [gvk],
                   "properties": {"metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}]}}},
            "Meta": shared,
        }},
    })
}

/// Serves documents with hashes as kube-apiserver does; the hash is a counter's.
fn kube(generation: Arc<AtomicUsize>) -> impl Fn(&Asked) -> Reply + Send + Sync {
    move |asked: &Asked| {
        let current = generation.load(Ordering::Relaxed);
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let url =
            |key: &str, hash: usize| json!({"serverRelativeURL": format!("/openapi/v3/{key}?hash={hash}")});
        let (group, kind, hash) = match path {
            // Only the air changes.
            "/openapi/v3" => {
                return ok(&json!({"paths": {
                    "apis": url("apis", 0), "apis/sea/v1": url("apis/sea/v1", 0),
                    "apis/air/v1": url("apis/air/v1", current),
                }}));
            }
            "/openapi/v3/apis" => ("", "List", 0),
            "/openapi/v3/apis/sea/v1" => ("sea", "Ship", 0),
            "/openapi/v3/apis/air/v1" => ("air", "Kite", current),
            _ => return reply(404, &[], ""),
        };
        if query != format!("hash={hash}") {
            return reply(301, &[("location", &format!("{path}?hash={hash}"))], "");
        }
        let mut reply = ok(&document(group, kind));
        for (name, value) in [
            ("cache-control", "public, immutable"),
            ("etag", &format!("\"{hash}\"")),
            ("expires", "Mon, 15 Nov 2088 16:19:26 UTC"),
            ("vary", "Accept"),
        ] {
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
        reply
    }
}

#[test]
fn the_second_run_transfers_nothing_but_the_root() {
    let directory = directory("second");
    let generation = Arc::new(AtomicUsize::new(1));
    let server = Fake::start(kube(generation.clone()));
    let url = server.url();
    let fetch = || openapi(&directory, &["fetch", "--all", "--server", &url], b"");
    let first = fetch();
    let root = "/openapi/v3";
    let air = "/openapi/v3/apis/air/v1";
    assert_eq!(server.take(), [root, "/openapi/v3/apis", air, "/openapi/v3/apis/sea/v1"]);
    let schemas = &first.json()["components"]["schemas"];
    let names: Vec<&String> = schemas.as_object().unwrap().keys().collect();
    assert_eq!(names, [".v1.List", "Meta", "air.v1.Kite", "sea.v1.Ship"]);
    assert_eq!(first.json()["paths"].as_object().unwrap().len(), 3);
    assert!(first.stderr.contains(": 4 transferred, 0 unchanged, 0 from the cache; "), "{}", first.stderr);

    let second = fetch();
    assert_eq!(server.take(), [root]);
    assert_eq!(second.stdout, first.stdout);
    assert!(second.stderr.contains(": 1 transferred, 0 unchanged, 3 from the cache; "), "{}", second.stderr);

    generation.store(2, Ordering::Relaxed);
    assert_eq!(fetch().code, 0);
    assert_eq!(server.take(), [root, air], "only what has changed");

    // Another user of the same server starts anew, and so does a run without a cache.
    let other = openapi(&directory, &["fetch", "--all", "--server", &url, "--token", "x"], b"");
    assert_eq!((other.code, server.take().len()), (0, 4));
    let without = openapi(&directory, &["fetch", "--all", "--server", &url, "--no-cache"], b"");
    assert_eq!((without.code, server.take().len()), (0, 4));

    // Every entry harmed: everything is fetched anew, and kept again.
    for entry in fs::read_dir(directory.join("cache/sternpost/openapi")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let healed = fetch();
    assert_eq!((healed.code, server.take().len()), (0, 4), "{}", healed.stderr);
    assert_eq!(healed.stdout, first.stdout);
    assert_eq!((fetch().code, server.take()), (0, vec![root.to_owned()]));

    // A cache without room keeps nothing, and works.
    let tiny = openapi(&directory, &["fetch", "--all", "--server", &url, "--cache-size", "0"], b"");
    assert_eq!(tiny.code, 0);
    server.take();
    assert_eq!((fetch().code, server.take().len()), (0, 4));
}

#[test]
fn runs_at_the_same_time_do_not_harm_each_other() {
    let directory = directory("together");
    let server = Fake::start(kube(Arc::new(AtomicUsize::new(1))));
    let url = server.url();
    let runs: Vec<_> = (0..6)
        .map(|_| {
            let (directory, url) = (directory.clone(), url.clone());
            std::thread::spawn(move || openapi(&directory, &["fetch", "--all", "--server", &url], b""))
        })
        .collect();
    let mut outputs: Vec<Vec<u8>> = runs
        .into_iter()
        .map(|run| {
            let ran = run.join().unwrap();
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
            ran.stdout
        })
        .collect();
    outputs.dedup();
    assert_eq!(outputs.len(), 1);
    server.take();
    assert_eq!(openapi(&directory, &["fetch", "--all", "--server", &url], b"").code, 0);
    assert_eq!(server.take(), ["/openapi/v3"]);
}

#[test]
fn the_v2_document_is_asked_for_by_its_tag() {
    let directory = directory("v2");
    let body = json!({"swagger": "2.0", "paths": {}, "definitions": {"A": {}}}).to_string();
    let packed = gzip(body.as_bytes());
    let length = packed.len();
    let server = Fake::start(move |asked| {
        assert_eq!(asked.headers["accept-encoding"], "gzip");
        let headers =
            [("etag", "\"a\""), ("cache-control", "no-cache, private"), ("content-encoding", "gzip")];
        match asked.headers.get("if-none-match").map(String::as_str) {
            Some("\"a\"") => reply(304, &headers[..2], ""),
            _ => reply(200, &headers, packed.clone()),
        }
    });
    let words = ["fetch", "--v2", "--server", &server.url()];
    let first = openapi(&directory, &words, b"");
    assert_eq!(first.stdout, body.as_bytes(), "byte for byte");
    assert!(
        first.stderr.ends_with(&format!("1 transferred, 0 unchanged, 0 from the cache; {length} bytes\n"))
    );
    let second = openapi(&directory, &words, b"");
    assert_eq!(second.stdout, first.stdout);
    assert!(second.stderr.ends_with("0 transferred, 1 unchanged, 0 from the cache; 0 bytes\n"));
    let quiet = openapi(&directory, &[&words[..], &["--quiet", "-o", "yaml"]].concat(), b"");
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    assert_eq!(
        String::from_utf8(quiet.stdout).unwrap(),
        "definitions:\n  A: {}\npaths: {}\nswagger: \"2.0\"\n"
    );
}

#[test]
fn a_document_one_or_some_kinds() {
    let directory = directory("some");
    let server = Fake::start(kube(Arc::new(AtomicUsize::new(1))));
    let url = server.url();
    let run = |words: &[&str]| openapi(&directory, &[&["fetch", "--server", &url], words].concat(), b"");
    assert_eq!(run(&["sea/v1"]).stdout, document("sea", "Ship").to_string().as_bytes(), "byte for byte");
    assert_eq!(server.take(), ["/openapi/v3", "/openapi/v3/apis/sea/v1"]);
    let names = |ran: &Ran| -> Vec<String> {
        ran.json()["components"]["schemas"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&run(&["--kind", "kite"])), ["Meta", "air.v1.Kite"]);
    assert_eq!(names(&run(&["--group", "sea", "--group", "air"])), ["Meta", "air.v1.Kite", "sea.v1.Ship"]);
    let schemas = run(&["sea/v1", "air/v1", "--schemas-only"]);
    assert_eq!(schemas.json()["paths"], json!({}));
    assert_eq!(names(&schemas), ["Meta", "air.v1.Kite", "sea.v1.Ship"]);
    let list = String::from_utf8(run(&["--list"]).stdout).unwrap();
    assert_eq!(list, "apis         0\napis/air/v1  1\napis/sea/v1  0\n");
    for (words, expected) in [
        (&["--kind", "Tram"][..], "error: the documents have no kind `Tram`\n".to_owned()),
        (&["--group", "land"], format!("error: {url} has no document of the group `land`\n")),
        (&["sea/v9"], format!("error: {url} has no `sea/v9`\nhint: it has sea/v1\n")),
        (&["sea/v1", "--group", "air"], "error: the documents have no kind of the group `air`\n".to_owned()),
        (
            &["apis", "sea/v1", "--group", "air", "--group", "land"],
            "error: the documents have no kind of the group `air` or `land`\n".to_owned(),
        ),
    ] {
        let ran = run(words);
        assert_eq!((ran.code, ran.stdout.len(), ran.stderr), (1, 0, expected));
    }
    for words in [&[][..], &["--all", "sea/v1"], &["--v2", "--list"], &["--list", "--kind", "x"]] {
        assert_eq!(run(words).code, 2, "{words:?}");
    }
}

#[test]
fn a_file_is_written_as_a_whole_or_not_at_all() {
    let directory = directory("file");
    let server = Fake::start(kube(Arc::new(AtomicUsize::new(1))));
    let url = server.url();
    let run = |words: &[&str]| openapi(&directory, &[&["fetch", "--server", &url], words].concat(), b"");
    let ran = run(&["sea/v1", "--output-file", "out.json"]);
    assert_eq!((ran.code, ran.stdout.len()), (0, 0));
    let before = fs::read(directory.join("out.json")).unwrap();
    assert_eq!(before, document("sea", "Ship").to_string().as_bytes());
    let entries = || fs::read_dir(directory.join("cache/sternpost/openapi")).unwrap().count();
    assert_eq!(entries(), 1);
    for words in [&["--kind", "Tram"][..], &["apis", "sea/v1", "--group", "air", "--cache-size", "0"]] {
        assert_eq!(run(&[words, &["--output-file", "out.json"]].concat()).code, 1);
        assert_eq!(fs::read(directory.join("out.json")).unwrap(), before);
    }
    assert_eq!(entries(), 0, "a run that fails tidies up, too");
    let failed = run(&["sea/v1", "--output-file", "no/such/out.json"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.starts_with("error: cannot write `no/such/out.json`: "), "{}", failed.stderr);
    #[cfg(target_os = "linux")]
    {
        let full = run(&["sea/v1", "--output-file", "/dev/full"]);
        assert_eq!(full.code, 1);
        assert!(full.stderr.starts_with("error: cannot write `/dev/full`: No space left"), "{}", full.stderr);
    }
    // Where nothing can be kept, nothing is kept; the document still comes.
    fs::write(directory.join("taken"), "").unwrap();
    let ran = run(&["sea/v1", "--cache-dir", "taken/cache"]);
    assert_eq!((ran.code, ran.stdout), (0, before));
    assert!(ran.stderr.starts_with("warning: the cache cannot be used: taken/cache: "), "{}", ran.stderr);
}

#[test]
fn an_old_server_has_its_v2_converted() {
    let directory = directory("old");
    let operation = |name: &str| {
        json!({"get": {"produces": ["application/json"], "responses": {"200": {
            "description": "OK", "schema": {"$ref": format!("#/definitions/{name}")}}}}})
    };
    let document = json!({"swagger": "2.0", "info": {"title": "Old", "version": "1"},
        "paths": {"/apis/sea/v1/ships": operation("Ship"), "/apis/air/v1/kites": operation("Kite")},
        "definitions": {
            "Ship": {"properties": {"hull": {"$ref": "#/definitions/Hull"}}}, "Hull": {}, "Kite": {}}});
    let server = Fake::start(move |asked| match asked.path.as_str() {
        "/openapi/v2" => ok(&document),
        // A page for people, longer than anybody looks at.
        _ => reply(404, &[("content-type", "text/html")], vec![b' '; 100 << 10]),
    });
    let url = server.url();
    let run = |words: &[&str]| openapi(&directory, &[&["fetch", "--server", &url], words].concat(), b"");
    let all = run(&["--all"]);
    let note = format!("note: {url} has no OpenAPI v3; its v2 is converted\n");
    assert!(all.stderr.starts_with(&note), "{}", all.stderr);
    assert_eq!(all.json()["openapi"], "3.0.0");
    assert_eq!(all.json()["components"]["schemas"].as_object().unwrap().len(), 3);
    let one = run(&["sea/v1"]).json();
    let names: Vec<&String> = one["components"]["schemas"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["Hull", "Ship"]);
    assert_eq!(one["paths"].as_object().unwrap().len(), 1);
    assert_eq!(run(&["apis/sea/v1"]).json(), one, "by its key");
    assert_eq!(run(&["land/v1"]).stderr, format!("{note}error: {url} has no `land/v1`\n"));
    assert_eq!(run(&["--list"]).code, 1);
}

/// One line that says what is wrong, exit code 1, nothing written.
#[test]
fn servers_that_misbehave_are_told_of() {
    let directory = directory("bad");
    let status = |code: u16, message: &str| reply(code, &[], json!({"message": message}).to_string());
    let root = |url: &str| ok(&json!({"paths": {"api/v1": {"serverRelativeURL": url}}}));
    let ending = |end: End| Reply { end, ..reply(200, &[], "{") };
    let moved = |to: &str| reply(301, &[("location", to)], "");
    let coded = |coding: &str, body: Vec<u8>| reply(200, &[("content-encoding", coding)], body);
    let packed = gzip(b"{\"openapi\": \"3.0.0\"}");
    let bomb = gzip(&vec![b' '; 129 << 20]);
    let good = "/openapi/v3/api/v1?hash=A";
    let at_root = |reply: Reply| (reply, None);
    let at_document = |reply: Reply| (root(good), Some(reply));
    let answer = "the answer of URL to /openapi/v3/api/v1: ";
    let cannot = "cannot get /openapi/v3/api/v1?hash=A from URL: ";
    let entry = "URL: the address of `api/v1` in /openapi/v3: ";
    for ((first, second), expected) in [
        (
            at_root(status(401, "Unauthorized")),
            "URL answers 401 Unauthorized to /openapi/v3: Unauthorized\nhint: the token or certificate may have expired; sign in again",
        ),
        (
            at_root(status(403, "forbidden: no")),
            "URL answers 403 Forbidden to /openapi/v3: forbidden: no\nhint: the user needs the rights of the ClusterRole `system:discovery`",
        ),
        // What a terminal would obey is shown instead.
        (
            at_root(status(503, "\u{1b}[2J\u{1b}]0;title\u{7}\r\u{202e}x")),
            "URL answers 503 Service Unavailable to /openapi/v3: \\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{d}\\u{202e}x",
        ),
        (at_root(status(503, "later")), "URL answers 503 Service Unavailable to /openapi/v3: later"),
        (
            at_root(reply(500, &[], "<html>")),
            "URL answers 500 Internal Server Error to /openapi/v3: the server does not say why",
        ),
        (at_root(reply(404, &[], "")), "URL has no /openapi/v2"),
        (
            at_root(reply(200, &[], "nonsense")),
            "the answer of URL to /openapi/v3: no JSON: expected ident at line 1 column 2",
        ),
        (at_root(ok(&json!({"Paths": {}}))), "the answer of URL to /openapi/v3: `paths` is missing"),
        (
            at_root(root("https://elsewhere/openapi/v3/api/v1")),
            &format!("{entry}`https://elsewhere/openapi/v3/api/v1` leads to another server"),
        ),
        (at_root(root("/api/v1/secrets")), &format!("{entry}`/api/v1/secrets` leads out of /openapi")),
        (
            at_root(moved("https://elsewhere/openapi/v3")),
            "the answer of URL to /openapi/v3: `https://elsewhere/openapi/v3` leads to another server",
        ),
        (at_document(reply(404, &[], "")), "URL lists `api/v1` but does not have it"),
        (at_document(ok(&json!({"kind": "Pod"}))), &format!("{answer}this is no OpenAPI v3 document")),
        (at_document(moved(good)), &format!("{answer}more than 5 redirects")),
        (
            at_document(moved("/openapi/../api/v1/secrets")),
            &format!("{answer}`/openapi/../api/v1/secrets` leads out of /openapi"),
        ),
        (at_document(reply(302, &[], "")), &format!("{answer}a redirect to nowhere")),
        (at_document(ending(End::Early)), &format!("{cannot}end of file before message length reached")),
        (at_document(ending(End::Never)), &format!("{cannot}the answer has more than 134217728 bytes")),
        (at_document(ending(End::Silent)), &format!("{cannot}no whole answer within 5s")),
        (
            at_document(coded("gzip", b"text as it is".to_vec())),
            &format!("{answer}the gzip data is damaged: invalid gzip header"),
        ),
        (
            at_document(coded("gzip", packed[..packed.len() - 9].to_vec())),
            &format!("{answer}the gzip data is damaged: incomplete deflate stream"),
        ),
        (
            at_document(coded("gzip", bomb)),
            &format!("{answer}the answer unpacks to more than 134217728 bytes"),
        ),
        (at_document(coded("br", packed)), &format!("{answer}content coding `br` was not asked for")),
    ] {
        let server = Fake::start(move |asked| match asked.path.split('?').next().unwrap() {
            "/openapi/v3" => first.clone(),
            "/openapi/v3/api/v1" => second.clone().unwrap_or_else(|| reply(500, &[], "")),
            _ => reply(404, &[], ""),
        });
        let began = Instant::now();
        // Time enough for the endless one on a busy machine, except where time is the point.
        let limit = if expected.ends_with("within 5s") { "5" } else { "60" };
        let words = [
            "fetch",
            "v1",
            "--server",
            &server.url(),
            "--output-file",
            "out.json",
            "--request-timeout",
            limit,
        ];
        let ran = openapi(&directory, &words, b"");
        assert!(began.elapsed() < Duration::from_secs(100), "{expected}");
        let said: String = ran
            .stderr
            .lines()
            .filter(|line| !line.starts_with("note: "))
            .map(|line| format!("{line}\n"))
            .collect();
        let expected = format!("error: {}\n", expected.replace("URL", &server.url()));
        assert_eq!((ran.code, said), (1, expected));
        assert!(!directory.join("out.json").exists());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "only the cache");
    }
}

#[test]
fn documents_of_servers_that_are_away_can_be_left_out() {
    let directory = directory("away");
    let whole = kube(Arc::new(AtomicUsize::new(1)));
    let server = Fake::start(move |asked| match asked.path.split('?').next().unwrap() {
        "/openapi/v3/apis/air/v1" => reply(503, &[], "{\"message\": \"service unavailable\"}"),
        _ => whole(asked),
    });
    let url = server.url();
    let run = |words: &[&str]| openapi(&directory, &[&["fetch", "--server", &url], words].concat(), b"");
    let problem = format!(
        "{url} answers 503 Service Unavailable to /openapi/v3/apis/air/v1?hash=1: service unavailable\n"
    );
    let ran = run(&["--all"]);
    let expected = format!("error: {problem}hint: --skip-unavailable leaves it out\n");
    assert_eq!((ran.code, ran.stdout.len(), ran.stderr), (1, 0, expected));
    let ran = run(&["air/v1"]);
    assert_eq!((ran.code, ran.stderr), (1, format!("error: {problem}")));
    // Nothing is no document.
    fs::write(directory.join("good.json"), "{}").unwrap();
    let ran = run(&["air/v1", "--skip-unavailable", "--output-file", "good.json"]);
    let nothing = format!("error: {url} has none of the documents at the moment\n");
    assert_eq!((ran.code, ran.stderr.ends_with(&nothing)), (1, true), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(directory.join("good.json")).unwrap(), "{}");
    let ran = run(&["--all", "--skip-unavailable"]);
    assert!(
        ran.stderr.starts_with(&format!("warning: `apis/air/v1` is left out: {problem}")),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.json()["paths"].as_object().unwrap().len(), 2);
}

/// A pause that is longer than the time for an answer is not waited for.
#[test]
fn documents_of_servers_that_keep_us_waiting_can_be_left_out() {
    let directory = directory("waiting");
    let later = reply(503, &[("retry-after", "3600")], "{\"message\": \"later\"}");
    let silent = Reply { end: End::Silent, ..reply(200, &[], "") };
    let air = "/openapi/v3/apis/air/v1?hash=1";
    for (answer, limit, expected) in [
        (later, "60", format!("URL answers 503 Service Unavailable to {air}: later\n")),
        (silent, "5", format!("cannot get {air} from URL: no whole answer within 5s\n")),
    ] {
        let whole = kube(Arc::new(AtomicUsize::new(1)));
        let server = Fake::start(move |asked| match asked.path.split('?').next().unwrap() {
            "/openapi/v3/apis/air/v1" => answer.clone(),
            _ => whole(asked),
        });
        let url = server.url();
        let began = Instant::now();
        let words = ["fetch", "--server", &url, "--request-timeout", limit];
        let ran = openapi(&directory, &[&words[..], &["--all", "--skip-unavailable"]].concat(), b"");
        let expected = expected.replace("URL", &url);
        let warning = format!("warning: `apis/air/v1` is left out: {expected}");
        assert!(ran.stderr.starts_with(&warning), "{}", ran.stderr);
        assert_eq!(ran.json()["paths"].as_object().unwrap().len(), 2);
        let ran = openapi(&directory, &[&words[..], &["air/v1"]].concat(), b"");
        assert_eq!((ran.code, ran.stderr), (1, format!("error: {expected}")));
        assert!(began.elapsed() < Duration::from_secs(600));
    }
}

/// What says to be good for ever and is no document is asked for again.
#[test]
fn what_is_no_document_is_not_kept() {
    let directory = directory("poison");
    for (path, words) in [
        ("/openapi/v3", &["fetch", "sea/v1"][..]),
        ("/openapi/v3/apis/sea/v1", &["fetch", "sea/v1"]),
        ("/openapi/v2", &["fetch", "--v2"]),
    ] {
        let (whole, count) = (kube(Arc::new(AtomicUsize::new(1))), AtomicUsize::new(0));
        let headers = [("cache-control", "public, immutable"), ("etag", "\"a\"")];
        let server = Fake::start(move |asked| {
            let found = match asked.path.as_str() {
                "/openapi/v2" => reply(200, &headers, "{\"swagger\": \"2.0\"}"),
                _ => whole(asked),
            };
            if asked.path.split('?').next() != Some(path) {
                return found;
            }
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => reply(200, &headers, "{}"),
                _ if asked.headers.contains_key("if-none-match") => reply(304, &headers, ""),
                _ => found,
            }
        });
        let url = server.url();
        let run = || openapi(&directory, &[words, &["--server", &url]].concat(), b"");
        let (first, second) = (run(), run());
        assert!(first.stderr.starts_with(&format!("error: the answer of {url} to {path}: ")));
        assert_eq!((first.code, second.code), (1, 0), "{path}: {}", second.stderr);
    }
}

/// What was kept as something else is as good as not there.
#[test]
fn what_is_kept_is_looked_at_again() {
    let directory = directory("changed");
    let asked_for_v2 = AtomicUsize::new(0);
    let headers = [("cache-control", "public, immutable")];
    let server = Fake::start(move |asked| match asked.path.as_str() {
        "/openapi/v3" => ok(&json!({"paths": {"api/v1": {"serverRelativeURL": "/openapi/v2"}}})),
        "/openapi/v2" => match asked_for_v2.fetch_add(1, Ordering::Relaxed) {
            0 => reply(200, &headers, "{\"swagger\": \"2.0\"}"),
            _ => reply(200, &headers, "{\"openapi\": \"3.0.0\"}"),
        },
        _ => reply(404, &[], ""),
    });
    let url = server.url();
    let run = |what: &str| openapi(&directory, &["fetch", what, "--server", &url], b"").json();
    assert_eq!(run("--v2"), json!({"swagger": "2.0"}));
    assert_eq!(run("--v2"), json!({"swagger": "2.0"}), "from the cache");
    assert_eq!(run("v1"), json!({"openapi": "3.0.0"}));
}

#[test]
fn a_server_is_told_of_by_what_its_documents_hold() {
    let directory = directory("info");
    let generation = Arc::new(AtomicUsize::new(1));
    let (whole, gone) = (kube(generation.clone()), Arc::new(AtomicUsize::new(0)));
    let is_gone = gone.clone();
    let server = Fake::start(move |asked| match asked.path.split('?').next().unwrap() {
        "/version" => ok(&json!({"gitVersion": "v1.2.3"})),
        "/openapi/v3/apis/air/v1" if is_gone.load(Ordering::Relaxed) > 0 => reply(503, &[], ""),
        _ => whole(asked),
    });
    let url = server.url();
    let run = |words: &[&str]| openapi(&directory, &[&["info", "--server", &url], words].concat(), b"");
    let (none, sea) = (document("", "List").to_string().len(), document("sea", "Ship").to_string().len());
    let total = none + sea + document("air", "Kite").to_string().len();
    let expected = format!(
        "Server:          {url}\nVersion:         v1.2.3\nOpenAPI:         v3\nDocuments:       3\n\
         Group-versions:  2\nPaths:           3\nSchemas:         4\nKinds:           3\n\
         Bytes:           {total}\n\n\
         DOCUMENT     PATHS  SCHEMAS  KINDS      BYTES  HASH\n\
         apis             1        2      1  {none:>9}  0\n\
         apis/air/v1      1        2      1  {sea:>9}  1\n\
         apis/sea/v1      1        2      1  {sea:>9}  0\n"
    );
    assert_eq!(String::from_utf8(run(&[]).stdout).unwrap(), expected);
    server.take();
    let held = run(&["-o", "json"]).json();
    assert_eq!(server.take(), ["/openapi/v3", "/version"], "the rest is in the cache");
    assert_eq!((&held["schemas"], &held["bytes"]), (&json!(4), &json!(total)));
    let air = json!({"key": "apis/air/v1", "url": "/openapi/v3/apis/air/v1?hash=1", "hash": "1",
        "bytes": sea, "paths": 1, "schemas": 2, "kinds": 1});
    assert_eq!(held["documents"][1], air);
    // Nothing is told of an older document than the one that is listed.
    generation.store(2, Ordering::Relaxed);
    gone.store(1, Ordering::Relaxed);
    let ran = run(&["-o", "json"]);
    assert!(ran.stderr.starts_with("warning: `apis/air/v1` is left out: "), "{}", ran.stderr);
    let air = json!({"key": "apis/air/v1", "url": "/openapi/v3/apis/air/v1?hash=2", "hash": "2",
        "bytes": null, "paths": null, "schemas": null, "kinds": null});
    assert_eq!((&ran.json()["documents"][1], &ran.json()["paths"]), (&air, &json!(2)));
}

/// Two documents may have something else by the same name, and the same path.
#[test]
fn what_documents_differ_about_is_told() {
    let directory = directory("differ");
    let whole = kube(Arc::new(AtomicUsize::new(1)));
    let server = Fake::start(move |asked| {
        let mut reply = whole(asked);
        if asked.path.starts_with("/openapi/v3/apis/sea/v1") {
            let mut document: Value = serde_json::from_slice(&reply.body).unwrap();
            document["components"]["schemas"]["Meta"]["properties"]["name"]["type"] = "integer".into();
            reply.body = document.to_string().into_bytes();
        }
        reply
    });
    let words = ["fetch", "--server", &server.url(), "--kind", "Kite", "--kind", "Ship"];
    let ran = openapi(&directory, &words, b"");
    assert!(ran.stderr.starts_with("note: `Meta` of apis/sea/v1 is now `Meta_v2`\n"), "{}", ran.stderr);
    let schemas = &ran.json()["components"]["schemas"];
    assert_eq!(
        schemas["sea.v1.Ship"]["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/Meta_v2"
    );
    assert_eq!(schemas["Meta"]["properties"]["name"]["type"], "string");
}

/// Flow control sends clients away for a moment.
#[test]
fn a_busy_server_is_asked_again_a_few_times() {
    let directory = directory("busy");
    for (busy, code) in [(3, 0), (5, 0), (6, 1)] {
        let asked = AtomicUsize::new(0);
        let server = Fake::start(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            count if count < busy => reply(429, &[("retry-after", "0")], "{\"message\": \"later\"}"),
            _ => ok(&json!({"swagger": "2.0"})),
        });
        let ran = openapi(&directory, &["fetch", "--v2", "--server", &server.url()], b"");
        assert_eq!(ran.code, code, "{busy}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("answers 429 Too Many Requests"), code == 1, "{}", ran.stderr);
    }
}

#[test]
fn a_server_that_is_not_there_is_told_of() {
    let directory = directory("absent");
    // Nobody listens where somebody just did.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("https://{address}");
    let ran = openapi(&directory, &["fetch", "--v2", "--server", &url], b"");
    let expected =
        format!("error: cannot connect to {url}: tcp connect error: Connection refused (os error ");
    assert_eq!((ran.code, ran.stderr.lines().count()), (1, 1));
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    let ran = openapi(&directory, &["fetch", "--v2"], b"");
    let expected = "error: there is no kubeconfig\n\
                    hint: name one with --kubeconfig or $KUBECONFIG, or a server with --server\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (1, expected));
}

/// Lets a client through to where it wants to go, and remembers that.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let log = log.clone();
            std::thread::spawn(move || {
                let mut client = client.unwrap();
                let mut reader = BufReader::new(client.try_clone().unwrap());
                let mut head = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if line.trim().is_empty() {
                        break;
                    }
                    head.push(line.trim().to_lowercase());
                }
                let to = head[0].split(' ').nth(1).unwrap().to_owned();
                log.lock().unwrap().extend(head);
                let mut server = TcpStream::connect(to).unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut back, mut out) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut back, &mut out));
                let _ = std::io::copy(&mut reader, &mut server);
            });
        }
    });
    (address, asked)
}

/// The kubeconfig of a server, and what is in it.
fn config_of(server: &Server) -> (PathBuf, String) {
    let path = server.kubeconfig().to_owned();
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_is_read_and_the_second_run_transfers_only_its_root() {
    let directory = directory("real");
    let server = Server::start("openapi-fetch-real").await;
    let (config, text) = config_of(&server);
    let config = config.to_str().unwrap().to_owned();
    let run = |words: &[&str]| openapi(&directory, &[words, &["--kubeconfig", &config]].concat(), b"");

    let all = run(&["fetch", "--all"]);
    let listed = server.get("/openapi/v3").await.body["paths"].as_object().unwrap().len();
    assert!(
        all.stderr.contains(&format!(": {} transferred, 0 unchanged, 0 from", listed + 1)),
        "{}",
        all.stderr
    );
    let document = all.json();
    let paths = document["paths"].as_object().unwrap().len();
    let v2 = run(&["fetch", "--v2"]).json();
    assert_eq!(paths, v2["paths"].as_object().unwrap().len(), "v2 and all of v3 have the same paths");
    assert_eq!(sternpost_openapi::references::dangling(&document), Vec::<String>::new());

    let again = run(&["fetch", "--all"]);
    assert_eq!(again.stdout, all.stdout);
    let expected = format!(": 0 transferred, 1 unchanged, {listed} from the cache; 0 bytes\n");
    assert!(again.stderr.ends_with(&expected), "not even the root: {}", again.stderr);

    let same = server.get("/openapi/v3/apis/apps/v1").await.body;
    assert_eq!(run(&["fetch", "apps/v1"]).json(), same);
    let upstream = run(&["fetch", "apps/v1", "--names", "upstream"]).json();
    assert!(upstream["components"]["schemas"].get("io.k8s.api.apps.v1.Deployment").is_some());
    let some = run(&["fetch", "--kind", "Deployment.apps", "--kind", "configmap"]).json();
    assert_eq!(sternpost_openapi::references::dangling(&some), Vec::<String>::new());
    let schemas = some["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("core.v1.ConfigMap") && schemas.contains_key("core.v1.Container"));
    assert!(!schemas.contains_key("apps.v1.StatefulSet") && !schemas.contains_key("core.v1.Node"));

    // What was written reads back, tells the same, and converts.
    fs::write(directory.join("all.json"), &all.stdout).unwrap();
    let info = run(&["info", "all.json", "-o", "json"]).json();
    assert_eq!(info["paths"], paths);
    assert!(info["groupVersions"]["apps/v1"].as_array().unwrap().contains(&json!("Deployment")));
    let info = run(&["info", "-o", "json"]).json();
    let documents = info["documents"].as_array().unwrap();
    assert_eq!(documents.len(), listed);
    assert!(documents.iter().all(|document| document["bytes"].as_u64().unwrap() > 0), "{documents:?}");
    let back = openapi(&directory, &["convert", "all.json", "--to", "v2", "--quiet"], b"").json();
    assert_eq!(back["paths"].as_object().unwrap().len(), paths);
    assert_eq!(sternpost_openapi::references::dangling(&back), Vec::<String>::new());

    // The same through a proxy that the kubeconfig names.
    let (address, asked) = proxy();
    let proxied = text.replace(
        "  cluster:\n    server",
        &format!("  cluster:\n    proxy-url: http://u:p@{address}\n    server"),
    );
    fs::write(directory.join("proxied"), proxied).unwrap();
    let ran = openapi(&directory, &["fetch", "--list", "--kubeconfig", "proxied"], b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let asked = asked.lock().unwrap().clone();
    assert!(asked[0].starts_with("connect 127.0.0.1:"), "{asked:?}");
    assert!(asked.contains(&"proxy-authorization: basic dtpw".to_owned()), "{asked:?}");

    // Somebody else vouches for it, or nobody.
    let stranger = text.lines().filter(|line| !line.contains("certificate-authority-data"));
    fs::write(directory.join("stranger"), stranger.collect::<Vec<_>>().join("\n")).unwrap();
    let ran = openapi(&directory, &["fetch", "--list", "--kubeconfig", "stranger"], b"");
    assert_eq!(ran.code, 1);
    let expected =
        ": invalid peer certificate: UnknownIssuer\nhint: the kubeconfig names no certificate authority";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    let words = ["fetch", "--list", "--kubeconfig", "stranger", "--insecure-skip-tls-verify"];
    assert_eq!(openapi(&directory, &words, b"").code, 0);
    let ran = run(&["fetch", "--list", "--tls-server-name", "other.example"]);
    assert!(
        ran.stderr.contains("invalid peer certificate: certificate not valid for name"),
        "{}",
        ran.stderr
    );
    assert_eq!(run(&["fetch", "--list", "--tls-server-name", "localhost"]).code, 0);
    let ran = run(&["fetch", "--list", "--token", "wrong"]);
    assert!(ran.stderr.contains("answers 401 Unauthorized"), "{}", ran.stderr);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn exec_plugins_sign_in_once() {
    use std::os::unix::fs::PermissionsExt;

    let directory = directory("exec");
    let server = Server::start("openapi-fetch-exec").await;
    let (_, text) = config_of(&server);
    let token = text.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().trim_matches('"');
    let script = "#!/bin/sh\necho run >> runs\nprintf %s \"$KUBERNETES_EXEC_INFO\" > told\ncat \"$ANSWER\"\n";
    fs::create_dir(directory.join("bin")).unwrap();
    let plugin = directory.join("bin/plugin");
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let v1 = "client.authentication.k8s.io/v1";
    let answer =
        |status: &Value| json!({"kind": "ExecCredential", "apiVersion": v1, "status": status}).to_string();
    let later = json!({"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"});
    fs::write(directory.join("good"), answer(&later)).unwrap();
    let past = json!({"token": token, "expirationTimestamp": "2001-01-01T00:00:00Z"});
    fs::write(directory.join("past"), answer(&past)).unwrap();
    fs::write(directory.join("wrong"), answer(&json!({"token": "wrong"}))).unwrap();
    let run = |command: &str, answer: &str| {
        let exec = json!({"apiVersion": v1, "command": command, "interactiveMode": "Never", "args": ["a"],
            "env": [{"name": "ANSWER", "value": answer}], "provideClusterInfo": true,
            "installHint": "get it from a shop\n"});
        let config = text.replace(&format!("token: \"{token}\""), &format!("exec: {exec}"));
        fs::write(directory.join("config"), config).unwrap();
        openapi(&directory, &["fetch", "--all", "--kubeconfig", "config"], b"")
    };
    let ran = run("./bin/plugin", "good");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(directory.join("runs")).unwrap(), "run\n", "once for all requests");
    let told: Value = serde_json::from_slice(&fs::read(directory.join("told")).unwrap()).unwrap();
    assert_eq!((&told["apiVersion"], &told["spec"]["interactive"]), (&json!(v1), &json!(false)));
    assert!(told["spec"]["cluster"]["server"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    assert!(told["spec"]["cluster"]["certificate-authority-data"].is_string());
    // A new token of the same user finds what the last one left.
    let again = run("./bin/plugin", "good");
    assert!(again.stderr.ends_with(" 0 bytes\n"), "{}", again.stderr);
    for (command, answer, expected) in [
        (
            "./bin/plugin",
            "past",
            "exec plugin `./bin/plugin`: the answer is a credential that has expired at 2001-01-01T00:00:00Z\n",
        ),
        ("./bin/plugin", "no-such", "exec plugin `./bin/plugin`: it failed: exit status: 1\n"),
        ("./bin/plugin", "/dev/null", "exec plugin `./bin/plugin`: the answer is no JSON: "),
        ("./bin/plugin", "/dev/zero", "exec plugin `./bin/plugin`: the answer has more than 1048576 bytes\n"),
        (
            "./bin/none",
            "good",
            "exec plugin `./bin/none`: there is no such program\nhint: get it from a shop\n",
        ),
        ("./bin/plugin", "wrong", "answers 401 Unauthorized to /openapi/v3: Unauthorized\nhint: "),
    ] {
        let ran = run(command, answer);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains(expected), "{answer}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_sign_in() {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };

    let directory = directory("certificate");
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(directory.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    fs::write(directory.join("jane.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(directory.join("jane.key"), key.serialize_pem()).unwrap();
    let authority = directory.join("ca.crt").to_str().unwrap().to_owned();
    let server = Server::start_with("openapi-fetch-certificate", &["--client-ca-file", &authority]).await;
    let (_, text) = config_of(&server);
    let token = text.lines().find(|line| line.trim().starts_with("token: ")).unwrap();
    let run = |user: &str| {
        fs::write(directory.join("config"), text.replace(token, user)).unwrap();
        openapi(&directory, &["fetch", "--list", "--kubeconfig", "config"], b"")
    };
    let ran = run("    client-certificate: jane.crt\n    client-key: jane.key");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = run("    client-certificate: jane.crt\n    client-key: none.key");
    assert_eq!((ran.code, ran.stderr.lines().count()), (1, 1), "{}", ran.stderr);
    assert_eq!(run("    username: jane\n    password: p").code, 1);
}

#[test]
fn files_are_told_of_and_converted() {
    let directory = directory("files");
    let v2 = "swagger: '2.0'\ninfo: {title: T, version: '1'}\npaths:\n  /a:\n    get:\n      produces: [application/json]\n      \
              responses: {'200': {description: OK, schema: {$ref: '#/definitions/A'}}}\n\
              definitions:\n  A: {type: object, x-kubernetes-group-version-kind: [{group: g, version: v1, kind: A}]}\n";
    fs::write(directory.join("v2.yaml"), v2).unwrap();
    let info = openapi(&directory, &["info", "v2.yaml"], b"");
    let expected = "OpenAPI:         2.0\nTitle:           T\nVersion:         1\nPaths:           1\n\
                    Operations:      1\nSchemas:         1\nParameters:      0\nKinds:           1\n\
                    Group-versions:  1\n\nGROUP-VERSION  KINDS\ng/v1           1\n";
    assert_eq!((info.code, String::from_utf8(info.stdout).unwrap().as_str()), (0, expected));
    let v3 = openapi(&directory, &["convert", "-", "--to", "v3"], v2.as_bytes());
    assert_eq!((v3.code, v3.stderr.as_str()), (0, ""));
    let converted: Value = serde_json::from_slice(&v3.stdout).unwrap();
    assert_eq!(converted["components"]["schemas"]["A"]["type"], "object");
    // What v2 has no words for is told, with its place; strictly, that is a failure.
    let nullable = json!({"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "paths": {},
        "components": {"schemas": {"A": {"type": "string", "nullable": true}}}});
    let input = nullable.to_string();
    let ran = openapi(&directory, &["convert", "-", "--to", "v2", "-o", "yaml"], input.as_bytes());
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.starts_with("lost: /components/schemas/A"), "{}", ran.stderr);
    assert!(String::from_utf8(ran.stdout).unwrap().contains("swagger: \"2.0\"\n"));
    let words = ["convert", "-", "--to", "v2", "--strict", "--output-file", "out.json"];
    let ran = openapi(&directory, &words, input.as_bytes());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.ends_with("error: standard input: 1 things would be lost\n"), "{}", ran.stderr);
    assert!(!directory.join("out.json").exists());
    let same = openapi(&directory, &["convert", "v2.yaml", "--to", "v2", "--strict"], b"");
    assert_eq!(same.json()["definitions"]["A"]["type"], "object");
    for (words, input, expected) in [
        (&["info", "none"][..], "", "error: none: No such file or directory"),
        (&["info", "-"], "kind: Pod\n", "error: standard input: neither `swagger` nor `openapi` is said"),
        (&["convert", "-", "--to", "v3"], "{\"a\": ", "error: standard input:1:7: "),
        (
            &["convert", "-", "--to", "v3"],
            "[1]",
            "error: standard input: neither `swagger` nor `openapi` is said",
        ),
        (&["convert", "-", "--to", "v3"], "swagger: '1.2'\n", "error: standard input: "),
    ] {
        let ran = openapi(&directory, words, input.as_bytes());
        assert_eq!((ran.code, ran.stdout.len()), (1, 0), "{words:?}");
        assert!(ran.stderr.starts_with(expected), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn help_has_examples() {
    let directory = directory("help");
    for command in ["fetch", "info", "convert", "merge"] {
        let ran = openapi(&directory, &[command, "--help"], b"");
        let text = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(ran.code, 0);
        assert!(
            text.contains("Examples:\n") && text.contains(&format!("sternpost openapi {command} ")),
            "{text}"
        );
    }
}
