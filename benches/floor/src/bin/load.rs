//! The client that measures: the same requests over HTTP/1.1 or HTTP/2 for every server.
//!
//! It connects, says `ready`, waits for a line, sends its requests, and says `done` with the seconds
//! that it took. Whoever runs it reads the server's CPU time before and after.

#![allow(clippy::disallowed_methods, reason = "what is measured is the machine's time")]

use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
    header,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sternpost_floor::{config_map, name};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

/// Takes one number to another far from it, so that what is read one after another does not lie together.
const STRIDE: usize = 1_000_003;

/// How the bytes of an event begin, whatever the server.
const EVENT: &[u8] = br#""type":"ADDED""#;

/// How a definition says that it is in effect: the servers differ in the order of fields.
const ESTABLISHED: &[&str] =
    &[r#""status":"True","type":"Established""#, r#""type":"Established","status":"True""#];

/// How often somebody who waits asks again: as tools do, and so rarely that asking is no part of the cost.
const POLL: Duration = Duration::from_millis(100);
const MAX_POLLS: usize = 600;

/// Sends requests of one kind.
#[derive(Parser, Clone)]
struct Options {
    /// Host and port of the server.
    #[arg(long)]
    address: String,

    #[arg(long, default_value = "")]
    token: String,

    #[arg(long)]
    operation: Operation,

    #[arg(long, default_value = "default")]
    namespace: String,

    /// How many requests, or, of a watch, how many events to each watcher.
    #[arg(long)]
    count: usize,

    /// How many objects there are to read; more requests begin anew.
    #[arg(long, default_value_t = 5000)]
    objects: usize,

    /// The number of the first that is written.
    #[arg(long, default_value_t = 0)]
    first: usize,

    /// How many objects a page has.
    #[arg(long, default_value_t = 500)]
    limit: usize,

    /// What `read` asks for and where `write` writes to; `NUMBER` is its number.
    #[arg(long, default_value = "")]
    path: String,

    /// What `write` sends; `NUMBER` is its number.
    #[arg(long, default_value = "")]
    body: String,

    /// HTTP/2 instead of HTTP/1.1.
    #[arg(long)]
    http2: bool,

    #[arg(long, default_value_t = 32)]
    connections: usize,

    /// Requests at a time on a connection of HTTP/2.
    #[arg(long, default_value_t = 1)]
    streams: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Create,
    Get,
    List,
    Page,
    Select,
    Update,
    Merge,
    Json,
    Deploy,
    Apply,
    Strategic,
    Define,
    /// A GET of any path, of objects here and there among all of them.
    Read,
    /// A POST of anything.
    Write,
    Watch,
    /// Watches, and the writes they tell of, by a connection of HTTP/1.1: one at a time, when all watchers
    /// have the one before. What one delivery costs is the same every time then.
    Deliver,
    /// A watch of what nobody writes: held until there is another line.
    Idle,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(options))
}

async fn run(options: Options) -> anyhow::Result<()> {
    let options = Arc::new(options);
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    let tls = connector(&options);
    for _ in 0..options.connections {
        clients.extend(connect(&options, &tls).await?);
    }
    let mut open = VecDeque::new();
    if matches!(options.operation, Operation::Watch | Operation::Deliver | Operation::Idle) {
        for client in &mut clients {
            open.push_back(client.send(&options, &Exchange::of(&options, 0, "")).await?);
        }
    }
    let writing = Options { operation: Operation::Create, http2: false, ..(*options).clone() };
    let writer = match options.operation {
        Operation::Deliver => connect(&writing, &connector(&writing)).await?.pop(),
        _ => None,
    };
    say("ready")?;
    wait()?;
    let begun = Instant::now();
    match options.operation {
        Operation::Idle => wait()?,
        Operation::Watch => {
            let (count, mut watchers) = (options.count, JoinSet::new());
            for answer in open {
                watchers.spawn(async move { Watcher::of(answer).read_until(count).await });
            }
            finish(watchers).await?;
        }
        Operation::Deliver => {
            let writer = writer.context("nobody writes")?;
            deliver(open.into_iter().map(Watcher::of).collect(), writer, &writing).await?;
        }
        _ => {
            let mut workers = JoinSet::new();
            for client in clients {
                workers.spawn(work(client, options.clone(), next.clone()));
            }
            finish(workers).await?;
        }
    }
    say(&format!("done {}", begun.elapsed().as_secs_f64()))
}

async fn finish(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// One request after another until all are sent.
async fn work(mut client: Client, options: Arc<Options>, next: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let mut token = String::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.count {
            return Ok(());
        }
        let number = options.first.saturating_add(number);
        let exchange = Exchange::of(&options, number, &token);
        if options.operation == Operation::Define {
            define(&mut client, &options, &exchange, number).await?;
            continue;
        }
        let answer = client.send(&options, &exchange).await?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        if options.operation == Operation::Page || status != exchange.expected {
            let body = body.collect().await?.to_bytes();
            ensure!(
                status == exchange.expected,
                "{} {}: {status}: {}",
                exchange.method,
                exchange.path,
                String::from_utf8_lossy(&body)
            );
            token = continuation(&body).unwrap_or_default();
        } else {
            while let Some(frame) = body.frame().await {
                frame?;
            }
        }
    }
}

/// Creates a definition and asks until all of it is served: it says so, objects are listed, discovery and
/// OpenAPI have it.
async fn define(
    client: &mut Client,
    options: &Options,
    creation: &Exchange,
    number: usize,
) -> anyhow::Result<()> {
    let (status, text) = client.exchange(options, creation).await?;
    ensure!(status == creation.expected, "{}: {status}: {text}", creation.path);
    let group = group(&options.namespace, number);
    let steps: [(String, &[&str]); 4] = [
        (format!("{}/widgets.{group}", creation.path), ESTABLISHED),
        (format!("/apis/{group}/v1/namespaces/{}/widgets", options.namespace), &[r#""kind":"WidgetList""#]),
        (format!("/apis/{group}/v1"), &[r#""name":"widgets""#]),
        (format!("/openapi/v3/apis/{group}/v1"), &[r#""kind":"Widget""#]),
    ];
    for (path, wanted) in steps {
        let step = Exchange { method: "GET", path, media: "", body: String::new(), expected: 200 };
        let mut polls = 0;
        loop {
            let (status, text) = client.exchange(options, &step).await?;
            if status == step.expected && wanted.iter().any(|wanted| text.contains(wanted)) {
                break;
            }
            polls += 1;
            ensure!(polls < MAX_POLLS, "{}: never {wanted:?}: {status}: {text}", step.path);
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Where a list goes on.
fn continuation(list: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""continue":""#;
    let head = list.get(..list.len().min(1000))?;
    let start = head.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let rest = head.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
}

/// One object after another, each when all watchers know of the one before.
async fn deliver(mut watchers: Vec<Watcher>, mut writer: Client, writing: &Options) -> anyhow::Result<()> {
    for number in 0..writing.count {
        let exchange = Exchange::of(writing, writing.first.saturating_add(number), "");
        let (status, text) = writer.exchange(writing, &exchange).await?;
        ensure!(status == exchange.expected, "{}: {status}: {text}", exchange.path);
        for watcher in &mut watchers {
            watcher.read_until(number + 1).await?;
        }
    }
    Ok(())
}

/// The answer to a watch, as far as it was read.
struct Watcher {
    body: Incoming,
    events: usize,
    /// What may be the beginning of an event.
    rest: Vec<u8>,
}

impl Watcher {
    fn of(answer: Response<Incoming>) -> Self {
        Self { body: answer.into_body(), events: 0, rest: Vec::new() }
    }

    /// Until so many events have come.
    async fn read_until(&mut self, events: usize) -> anyhow::Result<()> {
        while self.events < events {
            let frame = self.body.frame().await.context("a watch ended early")??;
            let Ok(data) = frame.into_data() else { continue };
            self.rest.extend_from_slice(&data);
            self.events += self.rest.windows(EVENT.len()).filter(|window| *window == EVENT).count();
            self.rest.drain(..self.rest.len().saturating_sub(EVENT.len() - 1));
        }
        Ok(())
    }
}

struct Exchange {
    method: &'static str,
    path: String,
    media: &'static str,
    body: String,
    expected: u16,
}

impl Exchange {
    fn of(options: &Options, number: usize, token: &str) -> Self {
        let namespace = &options.namespace;
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let map = || format!("{maps}/{}", name(number));
        let deployment = || format!("/apis/apps/v1/namespaces/{namespace}/deployments/{}", name(number));
        let read = |path| Self { method: "GET", path, media: "", body: String::new(), expected: 200 };
        let write = |method, path, media, body| Self { method, path, media, body, expected: 200 };
        let created = |exchange| Self { expected: 201, ..exchange };
        match options.operation {
            Operation::Create => created(write("POST", maps, "json", config_map(number, 'x'))),
            Operation::Get => read(format!("{maps}/{}", name(number % options.objects.max(1)))),
            Operation::List => read(maps),
            Operation::Page => read(format!("{maps}?limit={}&continue={token}", options.limit)),
            Operation::Read => {
                let number = number.wrapping_mul(STRIDE) % options.objects.max(1);
                read(filled(&options.path, number))
            }
            Operation::Write => {
                created(write("POST", filled(&options.path, number), "json", filled(&options.body, number)))
            }
            Operation::Select => read(format!("{maps}?labelSelector=pick%3Dyes")),
            Operation::Update => write("PUT", map(), "json", config_map(number, 'y')),
            Operation::Merge => write(
                "PATCH",
                map(),
                "merge-patch+json",
                format!(r#"{{"data":{{"value":"{}"}}}}"#, "z".repeat(1000)),
            ),
            Operation::Json => write(
                "PATCH",
                map(),
                "json-patch+json",
                format!(r#"[{{"op":"replace","path":"/data/value","value":"{}"}}]"#, "z".repeat(1000)),
            ),
            Operation::Deploy => created(write(
                "PATCH",
                deployment() + "?fieldManager=bench&force=true",
                "apply-patch+yaml",
                a_deployment(number, "nginx:1"),
            )),
            Operation::Apply => write(
                "PATCH",
                deployment() + "?fieldManager=bench&force=true",
                "apply-patch+yaml",
                a_deployment(number, "nginx:2"),
            ),
            Operation::Strategic => write(
                "PATCH",
                deployment(),
                "strategic-merge-patch+json",
                r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:3"}]}}}}"#
                    .to_owned(),
            ),
            Operation::Define => created(write(
                "POST",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
                "json",
                definition(namespace, number),
            )),
            Operation::Watch | Operation::Deliver | Operation::Idle => read(format!("{maps}?watch=1")),
        }
    }
}

fn filled(template: &str, number: usize) -> String {
    template.replace("NUMBER", &format!("{number:06}"))
}

fn a_deployment(number: usize, image: &str) -> String {
    let name = name(number);
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}","labels":{{"app":"{name}"}}}},"spec":{{"replicas":2,"selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{"containers":[{{"name":"web","image":"{image}","ports":[{{"containerPort":80}}],"env":[{{"name":"A","value":"1"}}]}},{{"name":"side","image":"side"}}]}}}}}}}}"#
    )
}

/// One of forty fields, in a group of its own.
fn definition(namespace: &str, number: usize) -> String {
    let group = group(namespace, number);
    let fields: Vec<String> = (0..40)
        .map(|field| format!(r#""field{field}":{{"type":"string","maxLength":{}}}"#, field + 10))
        .collect();
    let fields = fields.join(",");
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"widgets.{group}"}},"spec":{{"group":"{group}","scope":"Namespaced","names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{fields}}}}}}}}}}}}}]}}}}"#
    )
}

fn group(namespace: &str, number: usize) -> String {
    format!("{namespace}-{number:06}.example.com")
}

enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// The status of the answer, and its text.
    async fn exchange(&mut self, options: &Options, exchange: &Exchange) -> anyhow::Result<(u16, String)> {
        let answer = self.send(options, exchange).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn send(&mut self, options: &Options, exchange: &Exchange) -> anyhow::Result<Response<Incoming>> {
        let target = match self {
            Self::Http1(_) => exchange.path.clone(),
            Self::Http2(_) => format!("https://{}{}", options.address, exchange.path),
        };
        let mut request = Request::builder()
            .method(exchange.method)
            .uri(target)
            .header(header::AUTHORIZATION, format!("Bearer {}", options.token))
            .header(header::USER_AGENT, "load")
            .header(header::ACCEPT, "application/json");
        if let Self::Http1(_) = self {
            request = request.header(header::HOST, &options.address);
        }
        if !exchange.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, format!("application/{}", exchange.media));
        }
        let request = request.body(Full::new(Bytes::from(exchange.body.clone())))?;
        Ok(match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }
}

/// A connection, and as many clients as may use it at a time.
async fn connect(options: &Options, tls: &TlsConnector) -> anyhow::Result<Vec<Client>> {
    let stream = TcpStream::connect(&options.address).await?;
    stream.set_nodelay(true)?;
    let stream = TokioIo::new(tls.connect(ServerName::try_from("localhost")?, stream).await?);
    if !options.http2 {
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        return Ok(vec![Client::Http1(sender)]);
    }
    // Windows as Go's client has them, which never makes the server wait.
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(1 << 30)
        .handshake(stream)
        .await?;
    tokio::spawn(connection);
    Ok((0..options.streams).map(|_| Client::Http2(sender.clone())).collect())
}

fn connector(options: &Options) -> TlsConnector {
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    let protocol: &[u8] = if options.http2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// The servers are ones of this machine, started by whoever measures.
#[derive(Debug)]
struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

fn wait() -> anyhow::Result<()> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        bail!("nobody waits for the answer");
    }
    Ok(())
}
