//! Requests for the group-versions of other servers, passed on to them.
//!
//! What comes back is sent on while it comes. A server that does not answer costs those who ask it:
//! while it is waited for, a request has no seat in flow control, and is not read into memory.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body_util::BodyExt;
use hyper::{
    body::{Body as _, Frame, SizeHint},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use sternpost_aggregate::{
    proxy::{self, Forward, ForwardError, Forwarded, asks_to_upgrade},
    remote::{Permit, Remote},
};
use sternpost_clock::machine;
use sternpost_meta::user::User;
use tokio::{io::copy_bidirectional, sync::watch};

use crate::{
    Api,
    body::{Body, Broken},
    connections::Origin,
    flow,
    objects::{self, Answer, options},
    request::{Query, wants_pretty},
    request_info::RequestInfo,
    response::{self, Response, Spacing},
    route::Route,
    websocket::Handover,
};

/// The server that a path belongs to, if it is not this one.
pub fn remote(api: &Api, route: Route<'_>) -> Option<Arc<Remote>> {
    match route {
        Route::GroupVersion(group, version) | Route::Resource(group, version) => {
            api.remotes.get(group, version)
        }
        _ => None,
    }
}

/// Whether a request to go on in another protocol is for another server to answer.
pub fn upgrades_elsewhere(api: &Api, headers: &HeaderMap, route: Route<'_>) -> bool {
    headers.contains_key(header::UPGRADE) && remote(api, route).is_some()
}

/// A request that may be passed on.
pub struct Passing<'a> {
    pub info: &'a RequestInfo,
    pub user: &'a User,
    pub query: &'a Query,
    pub origin: &'a Origin,
    pub parts: Parts,
    pub audit_id: &'a str,
}

/// Passes a request on, and the answer back.
pub async fn pass_on<B>(api: &Api, remote: &Remote, passing: Passing<'_>, body: B) -> Answer
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Passing { info, user, query, origin, mut parts, audit_id } = passing;
    let spacing = if wants_pretty(query, &parts.headers) { Spacing::Pretty } else { Spacing::Compact };
    // One leads elsewhere than its path says, the other shows what is only for the other server.
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return objects::whole(response::plain_text(
            StatusCode::METHOD_NOT_ALLOWED,
            "405: Method Not Allowed",
        ));
    }
    let end = match options::allotted(query, api.budgets.limits.request) {
        _ if info.is_long_running() => None,
        Ok(time) => Some(machine::now() + time),
        Err(status) => return objects::whole(response::error(&parts.headers, spacing, &status)),
    };

    // Its turn, and then not a seat for as long as another server takes.
    let mut pass = match flow::enter(api.flow.as_deref(), info, user).await {
        Ok(pass) => pass,
        Err(refused) => return refused,
    };
    if let Some(pass) = &mut pass {
        pass.give_back_seat();
    }

    let upgrade = Upgrade::of(&mut parts);
    let forward = Forward {
        method: parts.method,
        path: info.path(),
        query: query.raw(),
        headers: parts.headers,
        body: WithoutTrailers(Box::pin(body)).map_err(Into::into).boxed_unsync(),
        user,
        peer: origin.peer,
        audit_id,
        upgrades: upgrade.is_some(),
        is_long_running: info.is_long_running(),
    };
    let forwarded = match end {
        Some(end) => match machine::timeout_at(end, remote.forward(forward)).await {
            Ok(forwarded) => forwarded,
            Err(_) => return objects::whole(too_late()),
        },
        None => remote.forward(forward).await,
    };
    let mut answer = match (forwarded, upgrade) {
        (Err(error), _) => objects::whole(refused(&error)),
        (Ok(Forwarded { response, permit }), Some(upgrade))
            if response.status() == StatusCode::SWITCHING_PROTOCOLS =>
        {
            upgrade.join(api, response, permit)
        }
        (Ok(Forwarded { response, permit }), _) => {
            let until = end.map_or_else(|| Until::stopped(api.stopping()), Until::deadline);
            let (mut head, body) = response.into_parts();
            head.version = http::Version::default();
            head.extensions = http::Extensions::default();
            Answer::from_parts(head, Body::Remote(Box::new(Passed { body, until, _permit: permit })))
        }
    };
    not_to_be_kept(answer.headers_mut());
    flow::mark_seat(&mut answer, pass.as_ref());
    answer
}

/// A body that ends with its bytes: nobody has looked at what a client says behind them.
struct WithoutTrailers<B>(Pin<Box<B>>);

impl<B: hyper::body::Body<Data = Bytes>> hyper::body::Body for WithoutTrailers<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = self.0.as_mut().poll_frame(context);
        frame.map(|frame| frame.filter(|frame| frame.as_ref().map_or(true, Frame::is_data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    /// As it was announced, so that it can be announced again.
    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// What upstream says, which is neither the form of an error nor of its text.
fn too_late() -> Response {
    const TEXT: &str = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
    response::text(StatusCode::GATEWAY_TIMEOUT, TEXT)
}

fn refused(error: &ForwardError) -> Response {
    let mut refusal = match error {
        ForwardError::Redirect => response::text(error.code(), error.to_string()),
        error => response::plain_text(error.code(), format!("{error}\n")),
    };
    if matches!(error, ForwardError::Busy) {
        refusal.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    refusal
}

/// Caches on the way are told as for every answer, whatever another server says besides.
fn not_to_be_kept(headers: &mut HeaderMap) {
    const OURS: HeaderValue = HeaderValue::from_static("no-cache, private");
    let theirs: Vec<HeaderValue> = headers.get_all(header::CACHE_CONTROL).iter().cloned().collect();
    headers.insert(header::CACHE_CONTROL, OURS);
    for value in theirs.into_iter().filter(|value| *value != OURS) {
        headers.append(header::CACHE_CONTROL, value);
    }
}

/// A client that asked to go on in another protocol, over HTTP/1.1: HTTP/2 has no such thing.
struct Upgrade {
    connection: OnUpgrade,
    handover: Handover,
}

impl Upgrade {
    fn of(parts: &mut Parts) -> Option<Self> {
        if !asks_to_upgrade(&parts.headers) {
            return None;
        }
        let handover = parts.extensions.remove::<Handover>()?;
        let connection = parts.extensions.remove::<OnUpgrade>()?;
        Some(Self { connection, handover })
    }

    /// From now on bytes go through as they come. Only ever behind a 101: whatever else a server
    /// answers is an answer, and the end of its connection.
    fn join(self, api: &Api, mut response: http::Response<proxy::Body>, permit: Permit) -> Answer {
        let theirs = hyper::upgrade::on(&mut response);
        let mut stopping = api.stopping();
        let rest = async move {
            let through = async {
                let (Ok(ours), Ok(theirs)) = tokio::join!(self.connection, theirs) else { return };
                // Whichever side ends, and however, the other one is told by the end of its own.
                let _ = copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
            };
            tokio::select! {
                () = through => {}
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
            drop(permit);
        };
        if !self.handover.give(Box::pin(rest)) {
            return objects::whole(response::empty(StatusCode::BAD_REQUEST));
        }
        let mut switching = response::empty(StatusCode::SWITCHING_PROTOCOLS);
        *switching.headers_mut() = std::mem::take(response.headers_mut());
        objects::whole(switching)
    }
}

/// The body of another server's answer, while it comes.
pub struct Passed {
    body: proxy::Body,
    until: Until,
    /// Its place among those who wait for that server.
    _permit: Permit,
}

enum Until {
    /// Broken off then: the client must not take what it has for everything.
    Deadline(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Ends then, as watches do.
    Stopped(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl Until {
    fn deadline(end: machine::Instant) -> Self {
        Self::Deadline(Box::pin(machine::sleep_until(end)))
    }

    fn stopped(mut stopping: watch::Receiver<bool>) -> Self {
        Self::Stopped(Box::pin(async move {
            // Fails only when the server is gone.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }))
    }
}

impl Passed {
    /// Whether it has no time of its own to end.
    pub fn is_long_running(&self) -> bool {
        matches!(self.until, Until::Stopped(_))
    }

    pub fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        // First: a body that always has more would never get to it.
        let last = match &mut self.until {
            Until::Deadline(end) => end.as_mut().poll(context).map(|_| Some(Err(Broken))),
            Until::Stopped(end) => end.as_mut().poll(context).map(|_| None),
        };
        if last.is_ready() {
            return last;
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(|_| Broken)))
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Passed")
            .field("is_long_running", &self.is_long_running())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn caches_are_told_as_for_every_answer() {
        for (theirs, expected) in [
            (&[][..], &["no-cache, private"][..]),
            (&["no-cache, private"], &["no-cache, private"]),
            (&["public", "max-age=5"], &["no-cache, private", "public", "max-age=5"]),
        ] {
            let pairs: Vec<_> = theirs.iter().map(|value| ("cache-control", *value)).collect();
            let mut headers = testing::headers(&pairs);
            not_to_be_kept(&mut headers);
            let told: Vec<_> = headers.get_all(header::CACHE_CONTROL).iter().collect();
            assert_eq!(told, expected, "{theirs:?}");
        }
    }

    /// Recorded from kube-apiserver 1.36.4.
    #[test]
    fn refusals_are_text_as_upstream_has_it() {
        for (error, code, text, nosniff) in [
            (ForwardError::Unavailable, 503, "service unavailable\n", true),
            (ForwardError::NoUpgrade(200), 503, "invalid upgrade response: status code 200\n", true),
            (
                ForwardError::Redirect,
                502,
                "the backend attempted to redirect this request, which is not permitted",
                false,
            ),
            (ForwardError::Busy, 429, "Too many requests, please try again later.\n", true),
        ] {
            let refusal = refused(&error);
            assert_eq!((refusal.status().as_u16(), testing::body(&refusal).as_str()), (code, text));
            assert_eq!(testing::header(&refusal, "content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(testing::header(&refusal, "x-content-type-options").is_some(), nosniff, "{error}");
            assert_eq!(testing::header(&refusal, "retry-after").is_some(), code == 429, "{error}");
        }
        assert_eq!(too_late().status(), 504);
        assert_eq!(testing::body(&too_late()).len(), 152);
    }

    #[test]
    fn a_body_ends_with_its_bytes_and_keeps_its_length() {
        let frames =
            [Frame::data(Bytes::from("a")), Frame::trailers(testing::headers(&[("x-remote-group", "b")]))];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, Broken>));
        let body = WithoutTrailers(Box::pin(http_body_util::StreamBody::new(frames)));
        let read = testing::now(body.collect()).unwrap();
        assert!(read.trailers().is_none());
        assert_eq!(read.to_bytes(), "a");
        let whole = WithoutTrailers(Box::pin(http_body_util::Full::new(Bytes::from("abc"))));
        assert_eq!(whole.size_hint().exact(), Some(3));
    }

    #[test]
    fn only_paths_of_a_group_version_may_be_another_servers() {
        let api = testing::api();
        let object = serde_json::json!({
            "spec": {"group": "a.example", "version": "v1", "service": {"namespace": "ns", "name": "x"}},
        });
        api.remotes.put("v1.a.example", &object);
        for (path, expected) in [
            ("/apis/a.example/v1", true),
            ("/apis/a.example/v1/", true),
            ("/apis/a.example/v1/things/x", true),
            ("/apis/a.example/v1//x", true),
            ("/apis/a.example", false),
            ("/apis/a.example/v2/things", false),
            ("/apis/a.example/v11", false),
            ("/apis/b.example/v1/things", false),
            ("/apis/a.example/openapi/v3", false),
            ("/api/v1/pods", false),
            ("/apis", false),
            ("//apis/a.example/v1", false),
        ] {
            assert_eq!(remote(&api, Route::of(&testing::info(path))).is_some(), expected, "{path}");
        }
    }
}
