//! Connections of HTTP/2 that are made to hurt.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and does not use all of what tests share"
)]

mod running;

use std::time::Duration;

use http::HeaderValue;
use running::Server;

/// Far more than any client gives up on.
const RESETS: usize = 5_000;

/// About as long as a request needs to arrive; some are even answered.
const PATIENCE: Duration = Duration::from_micros(300);

/// What a server may need for connections that are gone.
const MAX_GROWTH: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_given_up_at_once_leave_nothing_behind() {
    let server = Server::start("resets").await;
    server.get("/api/v1/namespaces").await.expect(200);
    let before = server.memory();
    let (mut sent, mut connections, mut begun) = (0, 0, 0);
    while sent < RESETS {
        let mut sender = server.apart().await;
        connections += 1;
        assert!(connections < 1000, "every connection is cut after {} requests", sent / connections);
        while sent < RESETS && sender.ready().await.is_ok() {
            // Given up before there is an answer, or when it has just begun.
            let asked = sender.send_request(server.request("/api/v1/pods?watch=1"));
            begun += usize::from(tokio::time::timeout(PATIENCE, asked).await.is_ok());
            sent += 1;
        }
        // Others are served all the while.
        server.get("/version").await.expect(200);
    }
    assert!(begun > 0, "nothing has arrived");
    server.get("/api/v1/namespaces").await.expect(200);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < MAX_GROWTH, "{grown} bytes more after {sent} resets");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_have_a_limit_that_costs_only_their_sender() {
    let server = Server::start("headers").await;
    for (size, code) in [(60 << 10, Some(200)), (65 << 10, None)] {
        let mut sender = server.apart().await;
        let mut request = server.request("/version");
        for number in 0..size / 1000 {
            let name: http::HeaderName = format!("x-filler-{number}").parse().unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(&"x".repeat(950)).unwrap());
        }
        let answer = sender.send_request(request).await;
        match code {
            Some(code) => assert_eq!(answer.unwrap().status(), code, "{size}"),
            None => assert!(answer.map_or(true, |answer| answer.status() == 431), "{size}"),
        }
        server.get("/version").await.expect(200);
    }
    server.stop();
}
