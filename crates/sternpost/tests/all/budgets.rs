//! Attacks on what the server has: connections, memory, patience. Whatever
//! goes on, `/readyz` and a second user are answered.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use sternpost_testkit::server::{AT_LAST, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What a server may need for an attack: the answers that are asked for are many times as much.
const MAX_GROWTH: usize = 64 << 20;

/// The charge of one request.
const REQUEST: usize = sternpost_http::limits::PIECE_BYTES;

/// Fails the test if it never happens.
async fn at_last<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(AT_LAST, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} does not happen"),
    }
}

/// A request of a user whom the admin is for its time.
fn request<B>(server: &Server, user: &str, method: &str, path: &str, body: B) -> Request<B> {
    Request::builder()
        .method(method)
        .uri(format!("https://{}{path}", server.address()))
        .header("authorization", format!("Bearer {}", server.token()))
        .header("impersonate-user", user)
        .header("impersonate-group", "system:masters")
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// Asks over a connection of its own.
async fn ask(server: &Server, user: &str, method: &str, path: &str, body: &str) -> (u16, HeaderMap, String) {
    let asked = async {
        let (_sender, answer) = connected(server, user, method, path, body).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
    };
    at_last(path, asked).await
}

/// A connection of its own, and the answer to its first request. A machine that is slow may be too
/// slow for the shortest of time-outs: then it begins again, as clients do.
async fn connected(
    server: &Server,
    user: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (SendRequest<Full<Bytes>>, Response<Incoming>) {
    loop {
        let mut sender = server.apart().await;
        let body = Full::new(Bytes::from(body.to_owned()));
        if let Ok(answer) = sender.send_request(request(server, user, method, path, body)).await {
            return (sender, answer);
        }
    }
}

/// Whoever does no harm is answered.
async fn others_are_served(server: &Server) {
    assert_eq!(ask(server, "bob", "GET", "/readyz", "").await.0, 200);
    assert_eq!(ask(server, "bob", "GET", "/api/v1/namespaces?limit=1", "").await.0, 200);
}

async fn exceeded(server: &Server, budget: &str) -> u64 {
    let (_, _, metrics) = ask(server, "bob", "GET", "/metrics", "").await;
    let prefix = format!("sternpost_budget_exceeded_total{{budget=\"{budget}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap_or_default()
}

fn told_to_wait(answer: &(u16, HeaderMap, String), flag: &str) {
    assert_eq!(answer.0, 429, "{}", answer.2);
    assert_eq!(answer.1["retry-after"], "1");
    assert!(answer.2.contains("TooManyRequests") && answer.2.contains(flag), "{}", answer.2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_keep_nobody_out() {
    let flags = ["--max-connections", "60", "--reserved-connections", "40"];
    let server = Server::start_with("idle-connections", &flags).await;
    server.get("/version").await.expect(200);
    let mut idle = Vec::new();
    for round in 0..10 {
        for _ in 0..10 {
            idle.push(TcpStream::connect(server.address()).await.unwrap());
        }
        // They stay, and those who come later get in all the same.
        others_are_served(&server).await;
        assert!(round < 3 || exceeded(&server, "connections").await > 0);
    }
    let mut sessions = Vec::new();
    for _ in 0..40 {
        sessions.push(server.raw().await);
    }
    others_are_served(&server).await;
    // The first of them had to go.
    let gone = at_last("the end of the oldest connection", idle[0].read(&mut [0])).await;
    assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
    // The one that was here before them and is known has not.
    server.get("/version").await.expect(200);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_streams_ends_though_it_answers_pings() {
    let flags = ["--idle-timeout", "4s", "--authentication-timeout", "3s"];
    let server = Server::start_with("idle-http2", &flags).await;
    // One that goes on asking, one that has asked, and one that never will.
    let watching = connected(&server, "ana", "GET", "/api/v1/namespaces?watch=1", "").await;
    let (_watching, mut watch) = (watching.0, watching.1.into_body());
    let (mut known, version) = connected(&server, "ana", "GET", "/version", "").await;
    version.into_body().collect().await.unwrap();
    let mut unknown = server.apart().await;
    let mut pinging = server.raw().await;
    let ends = async {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
        const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        pinging.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
        let mut read = [0; 4096];
        // Its own answers keep it no more than those to the server's questions.
        while pinging.write_all(PING).await.is_ok()
            && !matches!(pinging.read(&mut read).await, Ok(0) | Err(_))
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    at_last("the end of a connection that pings", ends).await;
    for (name, sender) in [("unknown", &mut unknown), ("known", &mut known)] {
        let ends = async {
            while !sender.is_closed() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        at_last(name, ends).await;
    }
    assert!(exceeded(&server, "authentication_timeout").await >= 2);
    assert!(exceeded(&server, "idle_timeout").await >= 1);
    others_are_served(&server).await;
    // A watch is no idling, whatever comes of it.
    assert_eq!(ask(&server, "bob", "POST", "/api/v1/namespaces", &namespace("late", 0)).await.0, 201);
    let event = async {
        loop {
            let data = watch.frame().await.unwrap().unwrap().into_data().unwrap();
            if String::from_utf8_lossy(&data).contains("\"late\"") {
                return;
            }
        }
    };
    at_last("an event", event).await;
    server.stop();
}

fn namespace(name: &str, filling: usize) -> String {
    json!({"metadata": {"name": name, "annotations": {"filling": "x".repeat(filling)}}}).to_string()
}

/// A client that lets no answer through.
async fn without_window<B>(server: &Server) -> SendRequest<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(server.raw().await))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_nobody_reads_take_little_and_end() {
    const STREAMS: usize = 100;
    let server = Server::start_with("unread", &["--write-timeout", "3s"]).await;
    for number in 0..40 {
        let body = namespace(&format!("large-{number}"), 200_000);
        assert_eq!(ask(&server, "ana", "POST", "/api/v1/namespaces", &body).await.0, 201);
    }
    let before = server.memory();
    for accept in ["application/vnd.kubernetes.protobuf", "application/yaml", "application/json"] {
        let mut sender = without_window(&server).await;
        let mut unread = Vec::new();
        for _ in 0..STREAMS {
            at_last("a stream", sender.ready()).await.unwrap();
            let mut list =
                request(&server, "ana", "GET", "/api/v1/namespaces?pretty=1", Full::<Bytes>::default());
            list.headers_mut().insert("accept", accept.parse().unwrap());
            let answer = at_last("an answer", sender.send_request(list)).await.unwrap();
            assert_eq!(answer.status(), 200);
            unread.push(answer.into_body());
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < MAX_GROWTH, "{grown} bytes more for {STREAMS} streams of {accept}");
        others_are_served(&server).await;
        for body in &mut unread {
            let cut = at_last("the end of a stream", body.frame()).await;
            assert!(matches!(cut, Some(Err(_))), "{cut:?}");
        }
        // The streams went, not the connection.
        at_last("a stream", sender.ready()).await.unwrap();
    }
    assert!(exceeded(&server, "write_timeout").await >= 3 * STREAMS as u64);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_has_so_much_memory_and_no_more() {
    const WATCHES: usize = 8;
    let limit = (WATCHES * REQUEST).to_string();
    let server = Server::start_with("memory", &["--max-memory-per-user", &limit]).await;
    let mut sender = server.apart().await;
    let mut watches = Vec::new();
    let watch = || request(&server, "ana", "GET", "/api/v1/namespaces?watch=1", Full::default());
    for _ in 0..WATCHES {
        let answer = at_last("a watch", sender.send_request(watch())).await.unwrap();
        assert_eq!(answer.status(), 200);
        watches.push(answer.into_body());
    }
    told_to_wait(&ask(&server, "ana", "GET", "/api/v1/namespaces", "").await, "--max-memory-per-user");
    told_to_wait(&ask(&server, "ana", "POST", "/api/v1/namespaces", "{}").await, "--max-memory-per-user");
    assert_eq!(ask(&server, "ana", "GET", "/readyz", "").await.0, 200);
    others_are_served(&server).await;
    assert_eq!(exceeded(&server, "memory_per_user").await, 2);
    // A place that is given up is free again.
    watches.pop();
    let free = async { while ask(&server, "ana", "GET", "/api/v1/namespaces", "").await.0 != 200 {} };
    at_last("room for one more", free).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_hold_up_only_who_sends_them() {
    const SHARE: usize = 256 << 10;
    let server =
        Server::start_with("slow-bodies", &["--max-request-body-bytes", &(4 * SHARE).to_string()]).await;
    let mut sender = {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(server.raw().await))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    };
    let body = namespace("second", 10);
    let refused = async {
        loop {
            // Exactly what one user may have, and no end.
            let (go, more) = tokio::sync::mpsc::channel::<Bytes>(1);
            let frames = stream::unfold(more, |mut more| async {
                let data = more.recv().await?;
                Some((Ok::<_, std::io::Error>(Frame::data(data)), more))
            });
            let endless = StreamBody::new(Box::pin(frames));
            let slow = request(&server, "ana", "POST", "/api/v1/namespaces", endless);
            let slow = tokio::spawn(sender.send_request(slow));
            go.send(Bytes::from(vec![b' '; SHARE])).await.unwrap();
            // Another body of the same user does not fit, from when that one is there. If one was there when
            // its last bytes came, it was that one which did not fit.
            while !slow.is_finished() {
                let answer = ask(&server, "ana", "POST", "/api/v1/namespaces?dryRun=All", &body).await;
                if answer.0 != 201 {
                    return (answer, go, slow);
                }
            }
            assert_eq!(slow.await.unwrap().unwrap().status(), 429);
        }
    };
    let (refused, go, slow) = at_last("a refusal", refused).await;
    told_to_wait(&refused, "--max-request-body-bytes");
    others_are_served(&server).await;
    assert_eq!(ask(&server, "bob", "POST", "/api/v1/namespaces?dryRun=All", &body).await.0, 201);
    assert!(exceeded(&server, "request_bodies").await >= 1);
    // The first one is still waited for; one byte more is one too many for it as well.
    assert!(!slow.is_finished());
    go.send(Bytes::from_static(b"{")).await.unwrap();
    let answer = at_last("a refusal", slow).await.unwrap().unwrap();
    assert_eq!(answer.status(), 429);
    let free =
        async { while ask(&server, "ana", "POST", "/api/v1/namespaces?dryRun=All", &body).await.0 != 201 {} };
    at_last("room for another", free).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_has_so_many_streams() {
    let server = Server::start_with("streams", &["--http2-max-streams-per-connection", "3"]).await;
    let mut sender = server.apart().await;
    let watch = || request(&server, "ana", "GET", "/api/v1/namespaces?watch=1", Full::default());
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(at_last("a watch", sender.send_request(watch())).await.unwrap());
    }
    // The client waits with the fourth until there is room for it.
    let mut fourth = std::pin::pin!(sender.send_request(watch()));
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut fourth).await.is_err());
    watches.pop();
    assert_eq!(at_last("the fourth", fourth).await.unwrap().status(), 200);
    others_are_served(&server).await;
    server.stop();
}
