//! Which connections requests go over, and what becomes of them when a connection does not last.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod server;

use std::{error::Error, task::Poll, time::Duration};

use bytes::Bytes;
use futures_util::{future::join_all, stream};
use http::{Request, Response, Version, header};
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::TokioIo;
use server::{Bare, HTTP1, HTTP2, Manner, Server, Wire};
use sternpost_outbound::{Body, Cause, Client, empty, full, pool::STREAM_WINDOW};
use sternpost_tasks::Tasks;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

/// What happens at all happens within it.
const AT_LAST: Duration = Duration::from_secs(120);

async fn get(client: &Client, url: &str) -> Result<Response<Body>, Cause> {
    let request = Request::get(url).body(empty()).unwrap();
    timeout(AT_LAST, client.request(request)).await.expect("an answer")
}

async fn echo(client: &Client, server: &Server, text: &str) -> Result<Bytes, Cause> {
    let request = Request::post(server.url("/echo")).body(full(Bytes::from(text.to_owned()))).unwrap();
    let answer = timeout(AT_LAST, client.request(request)).await.expect("an answer")?;
    let read = timeout(AT_LAST, answer.into_body().read(1 << 20)).await.expect("a body")?;
    assert!(read.is_whole);
    Ok(read.bytes)
}

async fn event(watch: &mut Body) -> Result<Bytes, Cause> {
    let frame = timeout(AT_LAST, watch.frame()).await.expect("an event").expect("no end");
    Ok(frame?.into_data().unwrap())
}

/// As many watches at a time, each with its own answer.
async fn watches(client: &Client, url: &str, count: usize) -> Vec<Body> {
    let answers = join_all((0..count).map(|_| get(client, url))).await;
    answers.into_iter().map(|answer| answer.unwrap().into_body()).collect()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(AT_LAST, wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn watches_share_a_connection_of_http2() {
    let server = Server::start(HTTP2).await;
    let client = server.client();
    let mut watches = watches(&client, &server.url("/watch"), 100).await;
    for _ in 0..3 {
        server.tell();
        for watch in &mut watches {
            assert_eq!(event(watch).await.unwrap(), "event");
        }
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    }
    assert_eq!((server.made(), server.open()), (1, 1));
    assert!(server.calls().iter().all(|call| call.version == Version::HTTP_2));
    drop((watches, client));
    until("a connection that nobody has ends", || server.open() == 0).await;
}

#[tokio::test]
async fn a_server_of_http1_has_a_connection_for_each_request() {
    let server = Server::start(HTTP1).await;
    let client = server.client();
    let mut watches = watches(&client, &server.url("/watch"), 10).await;
    server.tell();
    for watch in &mut watches {
        assert_eq!(event(watch).await.unwrap(), "event");
    }
    assert_eq!(server.made(), 10);
    // What was read to its end leaves its connection to the next; what was not, does not.
    for _ in 0..5 {
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    }
    assert_eq!(server.made(), 11);
    drop(watches);
    until("watches end their connections", || server.open() == 1).await;
    assert!(server.calls().iter().all(|call| call.version == Version::HTTP_11));
}

#[tokio::test]
async fn nobody_waits_for_room_on_a_connection() {
    let server = Server::start(Manner { max_streams: 1, ..HTTP2 }).await;
    let client = server.client();
    let mut first = watches(&client, &server.url("/watch"), 1).await;
    let mut more = watches(&client, &server.url("/watch"), 7).await;
    assert_eq!(server.made(), 8);
    for text in ["a", "b", "c"] {
        assert_eq!(echo(&client, &server, text).await.unwrap(), text);
    }
    // One was enough for them, one after the other.
    assert_eq!(server.made(), 9);
    server.tell();
    for watch in first.iter_mut().chain(&mut more) {
        assert_eq!(event(watch).await.unwrap(), "event");
    }
    // All at a time, before the server has said what it allows, with bodies that cannot be sent twice.
    let other = server.client();
    let texts: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let answers = join_all(texts.iter().map(|text| echo(&other, &server, text))).await;
    for (text, answer) in texts.iter().zip(answers) {
        assert_eq!(answer.unwrap(), text);
    }
    assert!(server.calls().iter().all(|call| call.version == Version::HTTP_2));
}

#[tokio::test]
async fn a_limit_of_streams_makes_as_many_connections_as_it_takes() {
    let server = Server::start(Manner { max_streams: 10, ..HTTP2 }).await;
    let client = server.client();
    let mut open = Vec::new();
    for _ in 0..25 {
        open.extend(watches(&client, &server.url("/watch"), 1).await);
    }
    assert_eq!(server.made(), 3);
    // Room that becomes free is used.
    open.truncate(15);
    open.extend(watches(&client, &server.url("/watch"), 5).await);
    assert_eq!(server.made(), 3);
    server.tell();
    for watch in &mut open {
        assert_eq!(event(watch).await.unwrap(), "event");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_ends_what_is_on_it_and_nothing_else() {
    for manner in [HTTP2, HTTP1] {
        let server = Server::start(manner).await;
        let client = server.client();
        let mut watches = watches(&client, &server.url("/watch"), 5).await;
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        server.break_off();
        for watch in &mut watches {
            let ended = timeout(AT_LAST, watch.frame()).await.expect("an end");
            assert!(matches!(ended, Some(Err(_))), "what broke off does not look whole: {ended:?}");
        }
        // Whoever asks next has a new one, and need not ask twice.
        let mut again = get(&client, &server.url("/watch")).await.unwrap().into_body();
        server.tell();
        assert_eq!(event(&mut again).await.unwrap(), "event");
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    }
}

#[tokio::test]
async fn a_server_that_winds_up_gets_new_requests_on_a_new_connection() {
    let server = Server::start(HTTP2).await;
    let client = server.client();
    let mut watch = get(&client, &server.url("/watch")).await.unwrap().into_body();
    server.wind_up();
    for number in 0..20 {
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello", "{number}");
    }
    until("there is another connection", || server.made() > 1).await;
    // What was on the old one is not disturbed.
    server.tell();
    assert_eq!(event(&mut watch).await.unwrap(), "event");
    assert_eq!(server.calls()[0].connection, 0);
}

/// Nothing says that the other side is gone but its silence: 30 seconds, a ping, and 15 more.
#[tokio::test]
async fn silence_is_noticed() {
    let server = Server::start(HTTP2).await;
    let wire = Wire::to(server.port).await;
    let client = server.client();
    let url = format!("https://{}/watch", wire.address);
    let mut watch = get(&client, &url).await.unwrap().into_body();
    wire.cut();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let ended = watch.frame().await;
    assert!(matches!(ended, Some(Err(_))), "{ended:?}");
    let taken = begun.elapsed().as_secs();
    assert!((30..=60).contains(&taken), "{taken}");
    tokio::time::resume();
    let mut watch = get(&client, &url).await.unwrap().into_body();
    server.tell();
    assert_eq!(event(&mut watch).await.unwrap(), "event");
}

#[tokio::test]
async fn answers_that_nobody_reads_hold_up_no_other() {
    let server = Server::start(HTTP2).await;
    let client = server.client();
    let mut unread = watches(&client, &server.url("/endless"), 50).await;
    for _ in 0..10 {
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    }
    // They go on when they are read.
    let mut read = 0;
    while read < 4 * STREAM_WINDOW as usize {
        read += event(&mut unread[7]).await.unwrap().len();
    }
    assert_eq!(server.made(), 1);
}

#[tokio::test]
async fn another_protocol_has_a_connection_of_its_own() {
    let server = Server::start(HTTP2).await;
    let client = server.client();
    assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    let request = Request::get(server.url("/upgrade"))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "shout")
        .body(empty())
        .unwrap();
    let mut answer = timeout(AT_LAST, client.upgrade(request)).await.unwrap().unwrap();
    assert_eq!(answer.status(), 101);
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    timeout(AT_LAST, stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"HELLO");
    let calls = server.calls();
    assert_eq!((calls[0].version, calls[1].version), (Version::HTTP_2, Version::HTTP_11));
    assert_ne!(calls[0].connection, calls[1].connection);
    drop(stream);
    until("its connection is nobody else's", || server.open() == 1).await;
}

#[tokio::test]
async fn the_host_is_whom_the_request_means() {
    for (manner, authority, host) in [(HTTP2, "meant.example:1", None), (HTTP1, "", Some("meant.example:1"))]
    {
        let server = Server::start(manner).await;
        let client = server.client();
        let request = Request::get(server.url("/echo")).header(header::HOST, "meant.example:1");
        client.request(request.body(empty()).unwrap()).await.unwrap();
        client.request(Request::get(server.url("/echo")).body(empty()).unwrap()).await.unwrap();
        let calls = server.calls();
        assert_eq!(calls[0].authority, authority);
        assert_eq!(calls[0].headers.get(header::HOST).map(|host| host.to_str().unwrap()), host);
        let own = format!("127.0.0.1:{}", server.port);
        let told = calls[1].headers.get(header::HOST).map_or(&*calls[1].authority, |it| it.to_str().unwrap());
        assert_eq!(told, own);
    }
}

#[tokio::test]
async fn connections_that_are_retired_have_no_further_requests() {
    for manner in [HTTP2, HTTP1] {
        let server = Server::start(manner).await;
        let client = server.client();
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        let mut watch = get(&client, &server.url("/watch")).await.unwrap().into_body();
        let before = server.made();
        client.retire();
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        assert_eq!(server.made(), before + 1);
        server.tell();
        assert_eq!(event(&mut watch).await.unwrap(), "event");
    }
}

/// What a server of HTTP/2 does with the requests that come.
#[tokio::test]
async fn requests_go_on_when_their_client_has_gone() {
    for manner in [HTTP1, HTTP2] {
        let server = Server::start(manner).await;
        let client = server.client();
        let mut watches = watches(&client, &server.url("/watch"), 2).await;
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        drop(client);
        for _ in 0..2 {
            server.tell();
            for watch in &mut watches {
                assert_eq!(event(watch).await.unwrap(), "event");
            }
        }
        drop(watches);
        until("their connections end with them", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn connections_end_with_the_tasks_of_their_owner() {
    for manner in [HTTP1, HTTP2] {
        let server = Server::start(manner).await;
        let tasks = Tasks::default();
        let (replaced, client) = (server.client_of(&tasks), server.client_of(&tasks));
        let mut watches = watches(&replaced, &server.url("/watch"), 2).await;
        drop(replaced);
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        assert!(server.open() >= 2);
        timeout(AT_LAST, tasks.end()).await.expect("an end");
        for watch in &mut watches {
            assert!(event(watch).await.is_err());
        }
        until("nothing is left", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn a_panic_ends_one_request_and_not_the_client() {
    for manner in [HTTP1, HTTP2] {
        let server = Server::start(manner).await;
        let client = server.client();
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
        let panics = stream::poll_fn(|_| -> Poll<Option<Result<_, Box<dyn Error + Send + Sync>>>> {
            panic!("on purpose")
        });
        let body = StreamBody::new(panics).boxed_unsync();
        let request = Request::post(server.url("/echo")).body(body).unwrap();
        assert!(timeout(AT_LAST, client.request(request)).await.expect("an answer").is_err());
        assert_eq!(echo(&client, &server, "hello").await.unwrap(), "hello");
    }
}

async fn serve_bare(server: Bare, mut answer: impl FnMut(usize, h2::server::SendResponse<Bytes>)) {
    let mut seen = 0;
    let mut connections = Vec::new();
    loop {
        let mut connection = h2::server::handshake(server.accept().await).await.unwrap();
        let (_, respond) = connection.accept().await.unwrap().unwrap();
        answer(seen, respond);
        seen += 1;
        // Moves along until the client goes.
        connections.push(tokio::spawn(async move { while connection.accept().await.is_some() {} }));
    }
}

#[tokio::test]
async fn what_a_server_has_not_looked_at_is_asked_again() {
    let server = Bare::listen().await;
    let (client, url) = (server.client.clone(), server.url.clone());
    let answers = serve_bare(server, |seen, mut respond| match seen {
        0 | 2 => respond.send_reset(h2::Reason::REFUSED_STREAM),
        _ => drop(respond.send_response(Response::new(()), true).unwrap()),
    });
    let asks = async {
        assert_eq!(get(&client, &url).await.unwrap().status(), 200);
        client.retire();
        // Who knows what of a body was read.
        let request = Request::post(&url).body(full(Bytes::from_static(b"hello"))).unwrap();
        client.request(request).await.unwrap_err()
    };
    tokio::select! {
        () = answers => {}
        cause = asks => assert!(cause.to_string().contains("refused stream"), "{cause}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_reset_does_not_look_whole() {
    let server = Bare::listen().await;
    let (client, url) = (server.client.clone(), server.url.clone());
    let answers = serve_bare(server, |seen, mut respond| {
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"half"), false).unwrap();
        if seen == 0 {
            tokio::spawn(async move {
                // What was sent before a reset need not arrive.
                tokio::time::sleep(Duration::from_millis(50)).await;
                body.send_reset(h2::Reason::INTERNAL_ERROR);
            });
        }
    });
    let asks = async { get(&client, &url).await?.into_body().read(1000).await };
    tokio::select! {
        () = answers => {}
        read = asks => assert!(read.is_err(), "{read:?}"),
    }
}

#[tokio::test]
async fn a_head_has_a_largest_size() {
    let server = Bare::listen().await;
    let (client, url) = (server.client.clone(), server.url.clone());
    let answers = serve_bare(server, |_, mut respond| {
        let mut response = Response::new(());
        for number in 0..200 {
            let name: header::HeaderName = format!("x-{number}").parse().unwrap();
            response.headers_mut().insert(name, "y".repeat(8000).parse().unwrap());
        }
        drop(respond.send_response(response, true).unwrap());
    });
    let asks = get(&client, &url);
    tokio::select! {
        () = answers => {}
        answer = asks => assert!(answer.is_err(), "{answer:?}"),
    }
}

#[tokio::test]
async fn a_server_that_agrees_and_says_nothing_is_given_up() {
    let server = Bare::listen().await;
    let asks = get(&server.client, &server.url);
    let silence = async {
        let _stream = server.accept().await;
        tokio::time::pause();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = silence => {}
        answer = asks => assert_eq!(answer.unwrap_err(), Cause::HandshakeTimeout),
    }
}

#[tokio::test]
async fn those_who_wait_for_a_connection_fail_with_it() {
    let client = Server::start(HTTP2).await.client();
    // Nobody listens where somebody just did.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("https://{nobody}/watch");
    let answers = join_all((0..10).map(|_| get(&client, &url))).await;
    for answer in answers {
        let cause = answer.unwrap_err();
        assert_eq!(cause.to_string(), format!("dial tcp {nobody}: connect: connection refused"));
        assert!(cause.is_connect());
    }
}
