//! Called as `etcd`: what envtest waits for before it starts the API server.
//!
//! Objects are not kept here: the API server has its own store. This answers
//! the health check and lives until it is asked to end.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use sternpost_tasks::Tasks;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    cli::{LogFormat, LogLevel},
    error, logging,
    serve::Signals,
};
use sternpost_clock::machine;

/// The flag with the addresses to answer on, and what it is without one.
const LISTEN: &str = "listen-client-urls";
const DEFAULT_LISTEN: &str = "http://localhost:2379";

/// What stands for the version of etcd where one is asked for.
const VERSION: &str = "3.6.0";

/// By which the API server knows that nothing is kept here.
const MARK: &str = "sternpost";

/// How long a stand-in may take to say what it is.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// No answer of a stand-in is longer.
const LONGEST_ANSWER: u64 = 4096;

/// Whether a stand-in answers at this URL.
pub fn stands_in(url: &str) -> bool {
    let Some(address) = url.strip_prefix("http://") else { return false };
    version_at(address.trim_end_matches('/')).is_ok_and(|version| version.get(MARK).is_some())
}

fn version_at(address: &str) -> io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
    stream.set_write_timeout(Some(ANSWERED_WITHIN))?;
    write!(stream, "GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    Ok(serde_json::from_str(body)?)
}

const HELP: &str = "\
sternpost in the place of etcd, for envtest: it answers the health check and keeps nothing

Usage:
  etcd [flags]

  --listen-client-urls URLS   where to answer, http only [default: http://localhost:2379]
  --unsafe-no-fsync           accepted: nothing is written
  --version                   print the version
  --help                      print this

All other flags are accepted and change nothing.
";

/// `words` are those after the program's name.
pub fn run(words: &[String]) -> ExitCode {
    let asked = read(words);
    let result = match &asked {
        Invocation::Help => write!(io::stdout(), "{HELP}").map_err(Into::into),
        Invocation::Version => {
            writeln!(io::stdout(), "etcd Version: {VERSION}\nsternpost: {}", env!("CARGO_PKG_VERSION"))
                .map_err(Into::into)
        }
        Invocation::Serve(urls) => serve(urls),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::tell(&error);
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Invocation {
    Help,
    Version,
    /// Answer on these URLs.
    Serve(String),
}

/// Go's flags: one dash is as good as two. What a flag means that is not known
/// is not known either, so a word behind it that is no flag is its value.
fn read(words: &[String]) -> Invocation {
    let mut urls = DEFAULT_LISTEN.to_owned();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-') else { continue };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, words.next_if(|next| !next.starts_with('-')).cloned()),
        };
        match (name, value) {
            ("help" | "h", _) => return Invocation::Help,
            ("version", _) => return Invocation::Version,
            (LISTEN, Some(value)) => urls = value,
            _ => {}
        }
    }
    Invocation::Serve(urls)
}

fn serve(urls: &str) -> anyhow::Result<()> {
    logging::init(LogFormat::Text, LogLevel::Info);
    let addresses = addresses(urls)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(async {
            let tasks = Tasks::default();
            let stop = Signals::new().context("cannot listen for signals")?;
            let mut listeners = JoinSet::new();
            for address in addresses {
                let listener = TcpListener::bind(address)
                    .await
                    .with_context(|| format!("cannot listen on {address}"))?;
                listeners.spawn(answer_on(listener));
            }
            tracing::info!(%urls, "standing in for etcd; objects are kept by the API server");
            stop.first(&tasks).await;
            // Connections end with the runtime: nothing is lost with them.
            Ok(())
        })
}

/// Of a list of URLs. A name may have more than one address; one that cannot
/// be used is the user's mistake.
fn addresses(urls: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let mut addresses = vec![];
    for url in urls.split(',') {
        let authority = url.strip_prefix("http://").ok_or_else(|| {
            anyhow!("`{url}` in --{LISTEN} does not begin with http://, and nothing else is served")
        })?;
        let authority = authority.trim_end_matches('/');
        let found = authority
            .to_socket_addrs()
            .with_context(|| format!("`{url}` in --{LISTEN} is no address and port"))?;
        addresses.extend(found);
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Accepts until the process ends.
async fn answer_on(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, mostly: somebody must close one first.
            machine::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(
            TokioIo::new(stream),
            service_fn(async |request| Ok::<_, http::Error>(answer(&request)?)),
        );
        connections.spawn(connection);
    }
}

fn answer(request: &Request<Incoming>) -> http::Result<Response<Full<Bytes>>> {
    let (status, body) = reply(request.method(), request.uri().path());
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
}

fn reply(method: &Method, path: &str) -> (StatusCode, String) {
    let body = match path {
        "/health" | "/livez" | "/readyz" => r#"{"health":"true","reason":""}"#.into(),
        "/version" => {
            format!(
                r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"{VERSION}","{MARK}":"{}"}}"#,
                env!("CARGO_PKG_VERSION")
            )
        }
        _ => {
            return (
                StatusCode::NOT_FOUND,
                r#"{"error":"this is sternpost in the place of etcd: it keeps nothing"}"#.into(),
            );
        }
    };
    if method == Method::GET || method == Method::HEAD {
        (StatusCode::OK, body)
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, r#"{"error":"method not allowed"}"#.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let serve = |urls: &str| Invocation::Serve(urls.into());
        for (words, expected) in [
            (&[][..], serve(DEFAULT_LISTEN)),
            (&["--listen-client-urls=http://127.0.0.1:1"], serve("http://127.0.0.1:1")),
            (&["-listen-client-urls", "http://127.0.0.1:1"], serve("http://127.0.0.1:1")),
            (
                &["--unsafe-no-fsync", "--listen-client-urls=http://[::1]:1", "--data-dir", "/x"],
                serve("http://[::1]:1"),
            ),
            (&["--data-dir", "/x", "--version"], Invocation::Version),
            (&["-h"], Invocation::Help),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(read(&words), expected, "{words:?}");
        }
    }

    #[test]
    fn only_http_urls_with_a_port_are_listened_on() {
        for (urls, expected) in [
            ("http://127.0.0.1:1", Some(vec!["127.0.0.1:1"])),
            ("http://127.0.0.1:2/,http://[::1]:1", Some(vec!["127.0.0.1:2", "[::1]:1"])),
            ("http://127.0.0.1:1,http://127.0.0.1:1", Some(vec!["127.0.0.1:1"])),
            ("https://127.0.0.1:1", None),
            ("unix://x:1", None),
            ("http://127.0.0.1", None),
            ("", None),
        ] {
            let found = addresses(urls).ok();
            let found = found.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(found, expected.map(|list| list.into_iter().map(Into::into).collect()), "{urls}");
        }
    }

    #[test]
    fn health_and_version_are_all_there_is() {
        for (method, path, code) in [
            (Method::GET, "/health", 200),
            (Method::HEAD, "/health", 200),
            (Method::POST, "/health", 405),
            (Method::GET, "/version", 200),
            (Method::POST, "/v3/kv/range", 404),
            (Method::GET, "/", 404),
        ] {
            assert_eq!(reply(&method, path).0.as_u16(), code, "{method} {path}");
        }
    }
}
