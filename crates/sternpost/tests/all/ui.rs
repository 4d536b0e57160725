//! `sternpost ui` and `serve --ui`, as far as no browser is needed; the page itself is looked at in tests/explorer.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;
use sternpost_testkit::{
    process::{self, Process},
    scratch::Scratch,
};

const LINK: &str = ", opens once: http://";

/// A program whose link is read from stderr, ended when dropped.
struct Page {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
    code: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn page(command: &mut Command) -> Page {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut page = Page { child, stderr, address: String::new(), code: String::new() };
    let mut text = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(page.stderr.read_line(&mut line).unwrap(), 0, "no link: {text}");
        if let Some((_, link)) = line.trim_end().split_once(LINK) {
            let (address, code) = link.split_once('/').unwrap();
            (page.address, page.code) = (address.into(), format!("/{code}"));
            return page;
        }
        text += &line;
    }
}

/// Head and body, over a connection of its own.
fn ask(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

struct Session {
    path: String,
    cookie: String,
    token: String,
}

impl Page {
    fn enter(&self) -> Session {
        let (head, _) = ask(&self.address, "GET", &self.code, &[], "");
        assert!(head.starts_with("HTTP/1.1 303"), "{head}");
        let path = header(&head, "location").to_owned();
        let cookie = header(&head, "set-cookie").split(';').next().unwrap().to_owned();
        let origin = format!("http://{}", self.address);
        let headers = [("origin", origin.as_str()), ("sec-fetch-site", "same-origin"), ("cookie", &cookie)];
        let (head, body) = ask(&self.address, "POST", &format!("{path}ui-api/session"), &headers, "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let about: Value = serde_json::from_str(&body).unwrap();
        Session { path, cookie, token: about["token"].as_str().unwrap().to_owned() }
    }

    fn cluster(&self, session: &Session, method: &str, path: &str, body: &str) -> (String, String) {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("cookie", session.cookie.as_str()),
            ("x-sternpost-token", &session.token),
            ("origin", &origin),
            ("content-type", "application/json"),
        ];
        ask(&self.address, method, &format!("{}k8s{path}", session.path), &headers, body)
    }
}

fn ui(kubeconfig: &str, words: &[&str]) -> Command {
    let mut command = Command::new(process::program());
    command.args(["ui", "--no-open", "--kubeconfig", kubeconfig]).args(words).env("NO_COLOR", "1");
    command
}

#[test]
fn the_page_asks_the_cluster_of_the_kubeconfig() {
    let scratch = Scratch::new("ui");
    let kubeconfig = scratch.path("kubeconfig");
    let mut command = process::serve();
    command.args(["--in-memory", "--controllers=-*", "--kubeconfig", &kubeconfig]);
    let (mut server, _) = Process::start(command);
    let page = page(&mut ui(&kubeconfig, &[]));
    let session = page.enter();
    let (head, body) = page.cluster(&session, "GET", "/api/v1/namespaces/default", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("\"kind\":\"Namespace\""), "{body}");
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let (head, _) = page.cluster(&session, "POST", "/api/v1/namespaces/default/configmaps", map);
    assert!(head.starts_with("HTTP/1.1 201"), "{head}");
    // As whom the page says, and the cluster permits.
    let headers = [
        ("cookie", session.cookie.as_str()),
        ("x-sternpost-token", &session.token),
        ("impersonate-user", "ann"),
    ];
    let (head, body) =
        ask(&page.address, "GET", &format!("{}k8s/api/v1/secrets", session.path), &headers, "");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(body.contains("User \\\"ann\\\" cannot list"), "{body}");

    let reader = self::page(&mut ui(&kubeconfig, &["--read-only"]));
    let session = reader.enter();
    let (head, body) = reader.cluster(&session, "DELETE", "/api/v1/namespaces/default/configmaps/a", "");
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("--read-only"), "{head} {body}");
    assert!(
        reader
            .cluster(&session, "GET", "/api/v1/namespaces/default/configmaps/a", "")
            .0
            .starts_with("HTTP/1.1 200")
    );

    server.terminate();
    server.end();
    let (head, _) = reader.cluster(&session, "GET", "/version", "");
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    assert_eq!(header(&head, "x-sternpost-away"), "1");
}

#[test]
fn a_server_has_a_page_only_if_it_is_asked_for() {
    let scratch = Scratch::new("serve-ui");
    let kubeconfig = scratch.path("kubeconfig");
    let mut command = process::serve();
    command.args([
        "--in-memory",
        "--controllers=-*",
        "--kubeconfig",
        &kubeconfig,
        "--ui",
        "--ui-read-only",
        "--log-level=trace",
    ]);
    let mut page = page(&mut command);
    let session = page.enter();
    let (head, body) = page.cluster(&session, "GET", "/api/v1/namespaces/kube-system", "");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("\"Namespace\""), "{head}");
    let (head, _) = page.cluster(&session, "DELETE", "/api/v1/namespaces/kube-system", "");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    // The cookie is nothing to the API, and `/ui` there leads to the page.
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let server = text.split("https://").nth(1).unwrap().split(['"', '\n']).next().unwrap().to_owned();
    let curl = |path: &str, more: &[&str]| {
        let url = format!("https://{server}{path}");
        let output = Command::new("curl")
            .args(["-sk", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", &url])
            .args(more)
            .output();
        output.ok().map(|output| String::from_utf8(output.stdout).unwrap())
    };
    if let Some(found) = curl("/ui", &[]) {
        assert_eq!(found, format!("307 http://{}/", page.address));
        assert_eq!(curl("/api", &["-H", &format!("cookie: {}", session.cookie)]).unwrap(), "403 ");
    }
    // Neither the code nor the token is in the log, at any level.
    page.child.kill().unwrap();
    let mut log = String::new();
    page.stderr.read_to_string(&mut log).unwrap();
    let code = page.code.rsplit('=').next().unwrap();
    assert!(!log.contains(code) && !log.contains(&session.token) && !log.contains(&session.cookie), "{log}");

    let mut command = process::serve();
    command.args(["--in-memory", "--controllers=-*"]);
    let (mut server, _) = Process::start(command);
    server.terminate();
    let (_, log) = server.end();
    assert!(!log.contains("explorer"), "{log}");
}

#[test]
fn wrong_uses_are_told() {
    let scratch = Scratch::new("ui-wrong");
    let kubeconfig = scratch.write(
        "kubeconfig",
        "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n",
    );
    for (words, code, message) in [
        (
            vec!["--listen", "0.0.0.0:0"],
            1,
            "hint: listen on 127.0.0.1, and reach it from elsewhere by `ssh -L`",
        ),
        (vec!["--context", "b"], 1, "there is no context `b`"),
        (vec!["/no/such/directory"], 1, "/no/such/directory"),
        (vec!["--listen", "nonsense"], 2, "want ADDRESS:PORT"),
    ] {
        let output = ui(&kubeconfig, &words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    let output = process::serve().args(["--in-memory", "--ui-listen", ":0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--ui"));
}
