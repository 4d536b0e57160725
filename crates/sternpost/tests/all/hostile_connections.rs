//! Connections of HTTP/2 that are made to hurt.

use std::time::Duration;

use http::HeaderValue;
use sternpost_testkit::server::{AT_LAST, Server};
use tokio::{io::AsyncWriteExt, time::timeout};

/// Far more than any client gives up on.
const RESETS: usize = 5_000;

/// About as long as a request needs to arrive; some are even answered.
const ANSWER_TIMEOUT: Duration = Duration::from_micros(300);

/// Of this many requests one is waited for.
const WAITED_FOR: usize = 50;

/// Frames that ask for an answer each, far more than a connection's buffers hold.
const QUESTIONS: usize = 3_000_000;

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
            // Some are waited for, so that answers have begun however slow the machine is.
            let patience = if sent % WAITED_FOR == 0 { AT_LAST } else { ANSWER_TIMEOUT };
            begun += usize::from(timeout(patience, asked).await.is_ok_and(|answer| answer.is_ok()));
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
async fn questions_whose_answers_nobody_reads_do_not_pile_up() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let server = Server::start("questions").await;
    server.get("/api/v1/namespaces").await.expect(200);
    for question in [PING, SETTINGS] {
        let before = server.memory();
        let mut connection = server.raw().await;
        connection.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
        let many = question.repeat(QUESTIONS / 100);
        let mut sent = 0;
        for _ in 0..100 {
            // Held up, or cut off: either will do, and one of them has to come.
            let written = timeout(Duration::from_millis(200), connection.write_all(&many)).await;
            if !matches!(written, Ok(Ok(()))) {
                break;
            }
            sent += QUESTIONS / 100;
            server.get("/version").await.expect(200);
        }
        assert!(sent < QUESTIONS, "all are taken though no answer is read");
        server.get("/api/v1/namespaces").await.expect(200);
        let grown = server.memory().saturating_sub(before);
        assert!(grown < MAX_GROWTH, "{grown} bytes more after {sent} questions");
    }
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
