//! The way of a request, from the end of its headers to the response.

use std::{
    ops::Deref,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use sternpost_auth::authenticate::{Refusal, User};
use sternpost_clock::machine;
use sternpost_meta::status::Status;
use sternpost_tasks::catch_panic;
use sternpost_verbs::{InEffect, LatencyTracker};

use crate::{
    Anonymous, Api,
    audit::{self, Audited},
    body::{Body as AnswerBody, Counting, Metered},
    budgets::{BodyInFlight, Budget, Charge},
    connections::{Origin, Stream},
    cpu::{self, Load, Outcome},
    explorer, flow, gzip, identity, impersonation,
    limits::{
        BODY_READ_TIMEOUT, MAX_AUDIT_ID_BYTES, MAX_BODY_BYTES, MAX_DISCARDED_BODY_BYTES,
        MAX_LOGGED_PATH_BYTES, PIECE_BYTES, REFUSED_BODY_TIMEOUT,
    },
    objects::{self, Routed},
    openapi,
    proxied::{self, Passing},
    request::{Query, Request, decode_path, wants_pretty},
    request_info::{RequestInfo, Unclear},
    request_metrics::{Authentication, Counted},
    response::{self, Spacing},
    route::{Route, dispatch},
    websocket::Upgrade,
};

/// Answers one request. Never fails: whatever goes wrong is a response.
///
/// `open` gives the stream that the request is, when it begins.
pub async fn respond<A, O, B>(
    api: A,
    origin: O,
    open: impl FnOnce() -> Arc<Stream>,
    request: http::Request<B>,
) -> objects::Answer
where
    A: Deref<Target = Api>,
    O: Deref<Target = Origin>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (api, origin) = (&*api, &*origin);
    let started = machine::now();
    let (mut parts, body) = request.into_parts();
    let stream = open();
    let (method, raw_path) = (parts.method.clone(), parts.uri.path().to_owned());

    // Request info: path and query are decoded and understood, once.
    let query = Query::parse(parts.uri.query());
    let info = decode_path(parts.uri.path()).map(|path| RequestInfo::new(&method, path, &query));
    let info = info.transpose().map(|info| info.map(Arc::new));

    // An id for the response and the log, first, so that both always have one.
    let audit_id = audit_id(api, &parts.headers);

    // Web pages from other origins. Browsers ask for preflight first, without a
    // credential, so that is answered before anybody is known.
    let cors = api.cors.as_ref().and_then(|cors| cors.headers(&parts.headers));
    let asks_for_leave = cors.is_some() && method == Method::OPTIONS;

    // A client that would rather go on in websocket, if this is a watch.
    let route = info.as_ref().ok().and_then(Option::as_deref).map_or(Route::Unknown, Route::of);
    let is_elsewhere = proxied::upgrades_elsewhere(api, &parts.headers, route);
    let upgrade = if is_elsewhere { None } else { Upgrade::of(&mut parts) };

    let Answer { mut response, user, counted, charge } = if asks_for_leave {
        preflight()
    } else {
        let asked = RequestHead { origin, parts, query, info: &info, route };
        answer(api, asked, body, &audit_id, upgrade.as_ref(), &stream).await
    };
    if let Some(charge) = charge {
        response = charged(api, &method, charge, user.as_deref(), &stream, response);
    }
    if let Some(upgrade) = upgrade {
        response = upgrade.answer(response);
    }

    // Headers that every response has, unless the handler knew better.
    default_headers(response.headers_mut(), &audit_id);
    if let Some(directives) = &api.strict_transport_security {
        // What a server behind this one says of itself is about this one's name, too.
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, directives.clone());
    }
    response.headers_mut().extend(cors.into_iter().flatten());

    // A HEAD response is the GET response without its body.
    if method == Method::HEAD {
        remove_body(&mut response);
    }

    // From here on it is the client that is waited for, and what happened is counted when it has all.
    let code = response.status();
    let counting = counted.map(|counted| Counting { counted, code, started, bytes: 0 });
    response = response.map(|body| AnswerBody::Metered(Box::new(Metered::new(body, stream, counting))));

    // What happened, for the log: no headers, query or body.
    let took = machine::elapsed(started);
    let code = code.as_u16();
    let path = logged(&raw_path);
    let user = user.as_ref().map_or("", |user| user.name.as_str());
    let audit_id = audit_id.to_str().unwrap_or_default();
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    if code >= 500 {
        tracing::info!(%method, path, code, micros, user, audit_id, "request");
    } else {
        tracing::debug!(%method, path, code, micros, user, audit_id, "request");
    }
    response
}

struct Answer {
    response: objects::Answer,
    user: Option<Arc<User>>,
    /// What it is counted as; `None` if it found no handler.
    counted: Option<Counted>,
    /// The memory of the user's that the request has.
    charge: Option<Charge>,
}

/// Accounts for what is held of an answer. What was only read is not sent without memory for it.
fn charged(
    api: &Api,
    method: &Method,
    mut charge: Charge,
    user: Option<&User>,
    stream: &Stream,
    mut response: objects::Answer,
) -> objects::Answer {
    let beyond = response.body().held().saturating_sub(PIECE_BYTES);
    if beyond > 0 && !charge.grow(beyond) {
        if matches!(*method, Method::GET | Method::HEAD) {
            api.budgets.exceeded(Budget::MemoryPerUser, &user.map_or("", |user| &user.name));
            let status = Budget::MemoryPerUser.status();
            response = objects::whole(response::status(Spacing::Compact, &status));
        } else {
            charge.overdraw(beyond);
        }
    }
    stream.charge_to(charge);
    response
}

/// The answer to a preflight request; its headers say the rest.
fn preflight() -> Answer {
    let response = objects::whole(response::empty(StatusCode::NO_CONTENT));
    Answer { response, user: None, counted: None, charge: None }
}

/// All of a request but its body.
struct RequestHead<'a> {
    origin: &'a Origin,
    parts: Parts,
    query: Query,
    /// `None` if the path cannot be read.
    info: &'a Result<Option<Arc<RequestInfo>>, Unclear>,
    route: Route<'a>,
}

async fn answer<B>(
    api: &Api,
    asked: RequestHead<'_>,
    body: B,
    audit_id: &HeaderValue,
    upgrade: Option<&Upgrade>,
    stream: &Stream,
) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let RequestHead { origin, mut parts, query, info, route } = asked;
    let spacing = if wants_pretty(&query, &parts.headers) { Spacing::Pretty } else { Spacing::Compact };
    // There is one kind of path that says too little.
    let unclear = info.as_ref().err().copied();
    let info = info.as_ref().ok().and_then(Option::as_ref);
    let failed =
        |response, user| Answer { response: objects::whole(response), user, counted: None, charge: None };
    if let Some(unclear) = unclear {
        discard(&parts.headers, body).await;
        let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
        return failed(response::plain_text(StatusCode::INTERNAL_SERVER_ERROR, unclear.text(target)), None);
    }
    // Before the objects are known nobody is, nor what anybody may do.
    if let Some(what) = api.waits_for.filter(|_| !route.is_health()) {
        // Apart: every other request would carry about what this one remembers.
        Box::pin(discard(&parts.headers, body)).await;
        let status = Status::not_yet_serving(what);
        return failed(response::error(&parts.headers, spacing, &status), None);
    }
    let audit_id = audit_id.to_str().unwrap_or_default();

    // How long the request may take, unless it is long-running: whoever asks for what is no time
    // is told so before anybody looks who asks, and for what.
    let nobody = User::default();
    let most = api.budgets.limits.request;
    let short = info.filter(|info| !info.is_long_running());
    let timeout = match short.map(|_| objects::options::allotted(&query, most)).transpose() {
        Ok(timeout) => timeout.unwrap_or(most),
        Err(status) => {
            discard(&parts.headers, body).await;
            let mut refused = failed(response::error(&parts.headers, spacing, &status), None);
            if let Some(info) = info
                && let Some(audited) = audit::begin(api, &info.attributes(&nobody), origin, &parts, audit_id)
            {
                refused.response = Box::pin(audited.refused(refused.response)).await;
            }
            return refused;
        }
    };

    // Authentication, before anything is told about what exists. A credential
    // that is wrong is refused on public paths too, as upstream does.
    let nobody_may = api.anonymous == Anonymous::OnPublicPaths && !route.is_public()
        || !api.authenticator.anonymous_reaches(info.map_or("", |info| info.path()));
    let caller = identity::authenticate(api, origin, &parts).await;
    identity::forget_front_proxy(api, &mut parts.headers);
    let attempts = &api.metrics.attempts;
    let mut user = match caller {
        Ok(user) => {
            attempts.authenticated(Authentication::Success);
            stream.is_known();
            user
        }
        Err(Refusal::NoCredential) if !nobody_may => {
            attempts.authenticated(Authentication::Success);
            Arc::new(User::anonymous().clone())
        }
        Err(refusal) => {
            attempts.authenticated(match refusal {
                Refusal::NoCredential => Authentication::Failure,
                Refusal::BadCredential => Authentication::Error,
            });
            discard(&parts.headers, body).await;
            let led = explorer::redirect(api, &parts.method, parts.uri.path());
            let refusal =
                led.unwrap_or_else(|| response::error(&parts.headers, spacing, &Status::unauthorized()));
            let mut refused = failed(refusal, None);
            if let Some(info) = info
                && let Some(audited) = audit::begin(api, &info.attributes(&nobody), origin, &parts, audit_id)
            {
                refused.response = Box::pin(audited.refused(refused.response)).await;
            }
            return refused;
        }
    };
    let Some(info) = info else {
        let status = Status::bad_request("the path of the request URL is not valid");
        return failed(response::error(&parts.headers, spacing, &status), Some(user));
    };

    // What the audit log is told, of whoever sent the credential.
    let mut audited = audit::begin(api, &info.attributes(&user), origin, &parts, audit_id);
    if let Some(audited) = &mut audited {
        Box::pin(audited.received()).await;
        if upgrade.is_some_and(Upgrade::is_accepted) {
            audited.switches();
        }
        if audited.wants_answer() {
            parts.headers.remove(header::ACCEPT_ENCODING);
        }
    }

    // Impersonation and authorization, before anything is said about what exists,
    // and before a body costs anything. From here on the user is who counts.
    let authorizer = &*api.verbs.authorizer;
    let impersonated = impersonation::impersonated(authorizer, &user, &mut parts.headers, info);
    let allowed = impersonated.and_then(|impersonated| {
        if let (Some(audited), Some(impersonated)) = (&mut audited, &impersonated) {
            audited.impersonates(impersonated);
        }
        user = impersonated.map_or_else(|| user.clone(), |impersonated| Arc::new(impersonated.user));
        let attributes = info.attributes(&user);
        let decision = authorizer.authorize(&attributes);
        attempts.authorized(&decision);
        if let Some(audited) = &audited {
            audited.decided(&decision);
        }
        if decision.is_allowed() { Ok(()) } else { Err(attributes.forbidden(decision.reason())) }
    });
    // The connection goes on when it is the turn of whoever asks by it.
    if let Some(owner) = &origin.owner {
        owner.set(&user.name);
    }
    if let Err(status) = allowed {
        discard(&parts.headers, body).await;
        let led = explorer::redirect(api, &parts.method, parts.uri.path());
        let refusal = led.unwrap_or_else(|| response::refusal(&parts.headers, spacing, &status));
        return told(audited, None, failed(refusal, Some(user))).await;
    }

    // What a user has under way is bounded. What is public is small, and told to everybody.
    let begun = (!route.is_public()).then(|| api.budgets.begin(&user.name)).transpose();
    let charge = match begun {
        Ok(charge) => charge,
        Err(budget) => {
            discard(&parts.headers, body).await;
            let refused = failed(response::error(&parts.headers, spacing, &budget.status()), Some(user));
            return told(audited, None, refused).await;
        }
    };

    // Another server's: passed on as it comes.
    if let Some(remote) = proxied::remote(api, route) {
        let passing = Passing { info, user: &user, query: &query, origin, parts, audit_id };
        let response = Box::pin(proxied::pass_on(api, &remote, passing, body)).await;
        let answer = Answer { response, user: Some(user.clone()), counted: None, charge };
        return told(audited, None, answer).await;
    }

    // A document of another server's, likewise.
    if let Some(elsewhere) = openapi::elsewhere(api, route, &parts.method, &query) {
        let passing = Passing { info, user: &user, query: &query, origin, parts, audit_id };
        let response = Box::pin(openapi::pass_on(api, elsewhere, passing, body)).await;
        let answer = Answer { response, user: Some(user.clone()), counted: None, charge };
        return told(audited, None, answer).await;
    }

    let mut request = Request {
        method: parts.method,
        info: info.clone(),
        query,
        headers: parts.headers,
        body: Bytes::new(),
        user: Some(user.clone()),
        audit: audited.as_ref().map(|audited| audited.notes()),
        warnings: Arc::default(),
        latency: None,
        timeout,
        clock: api.verbs.clock.clone(),
    };
    // Reads of objects and paths ask no webhooks.
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    if request.info.resource().is_some_and(|what| !is_read || !what.subresource.is_empty()) {
        request.latency = Some(Arc::default());
    }
    let count =
        |request: &Request, routed: Option<&Routed>| api.metrics.requests.begin(request, route, routed);

    // The body, whole and bounded. What is public has no use for one.
    let mut in_flight = charge.as_ref().map(|charge| BodyInFlight::new(&api.budgets, charge));
    if !route.is_public() {
        request.body = match read_body(&request.headers, body, in_flight.as_mut()).await {
            Ok(body) => body,
            Err(not_read) => {
                let status = match not_read {
                    NotRead::Refused(status) => status,
                    NotRead::Over(budget) => {
                        api.budgets.exceeded(budget, &user.name);
                        budget.status()
                    }
                };
                let counted = count(&request, objects::route(&api.verbs, &request).as_ref());
                let failed = failed(response::error(&request.headers, spacing, &status), Some(user));
                return told(audited, None, Answer { counted, ..failed }).await;
            }
        };
    }

    // The handler. A panic in it is a bug that costs this request only.
    // When there is a seat for it.
    let asked = machine::now();
    let pass = flow::enter(api.flow.as_deref(), &request.info, &user).await;
    let queued = machine::elapsed(asked);
    let pass = match pass {
        Ok(pass) => pass,
        Err(response) => {
            // Whoever is told to come back has no handler yet.
            let mut counted = count(&request, objects::route(&api.verbs, &request).as_ref());
            if let Some(counted) = &mut counted {
                counted.waited = queued;
            }
            let answer = Answer { response, user: Some(user), counted, charge };
            return told(audited, Some(&request), answer).await;
        }
    };
    let (mut response, mut counted) = {
        let _inflight = api.metrics.requests.work_on(&request.info);
        let routed = routed(api, &request, route).await;
        let counted = count(&request, routed.as_ref());
        // What may compute for long does so elsewhere.
        let load = load(api, &request, routed.as_ref());
        let outcome = match load.zip(api.shared.get().and_then(Weak::upgrade)) {
            Some((load, api)) => Box::pin(handle_apart(api, load, request.clone(), routed)).await,
            None => {
                let handled = pin!(handle(api, &request, route, routed));
                catch_panic(handled).await.map_or(Outcome::Broken, Outcome::Done)
            }
        };
        let response = match outcome {
            Outcome::Done(answer) => answer,
            Outcome::Broken => {
                tracing::error!(path = logged(request.info.path()), "a handler panicked");
                let status = Status::internal_error("the request caused a panic, see the log");
                objects::whole(response::status(spacing, &status))
            }
            Outcome::TimedOut => objects::timed_out(&request),
            Outcome::TooMuch => flow::come_back(),
        };
        (response, counted)
    };
    if let Some(counted) = &mut counted {
        counted.waited = queued + request.latency.as_deref().map_or(Duration::ZERO, LatencyTracker::total);
    }
    flow::mark_seat(&mut response, pass.as_ref());
    drop(pass);
    told(audited, Some(&request), Answer { response, user: Some(user.clone()), counted, charge }).await
}

/// The same answer, told to whom it is to be told.
async fn told(audited: Option<Box<Audited>>, request: Option<&Request>, mut answer: Answer) -> Answer {
    if let Some(audited) = audited {
        let body = request.map(|request| (&request.headers, &request.body));
        answer.response = Box::pin(audited.finish(body, answer.response)).await;
    }
    answer
}

/// Whether a request has the server go through much: what it sent, what it changes, or what expressions
/// make of either.
fn load(api: &Api, request: &Request, routed: Option<&Routed>) -> Option<Load> {
    let sent = request.body.len();
    if sent >= cpu::INLINE_BYTES {
        return Some(Load::Large);
    }
    if matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    let served = &routed?.served;
    let stored = objects::stored_bytes(&api.verbs, request, served);
    if stored >= cpu::INLINE_BYTES {
        return Some(Load::Large);
    }
    let cost = api.verbs.expression_cost(served, sent.saturating_add(stored));
    (cost > cpu::INLINE_COST).then_some(Load::Small)
}

async fn handle_apart(
    api: Arc<Api>,
    load: Load,
    request: Request,
    routed: Option<Routed>,
) -> Outcome<objects::Answer> {
    let (own, user, timeout) = (api.clone(), request.user.clone(), request.timeout);
    let work = async move { handle(&api, &request, Route::of(&request.info), routed).await };
    own.cpu.run(load, user.as_ref().map_or("", |user| &user.name), timeout, work).await
}

/// The handler of a resource request. What was defined a moment ago, and told to be, is waited for,
/// also by those who ask what there is.
async fn routed(api: &Api, request: &Request, route: Route<'_>) -> Option<Routed> {
    let find = || objects::route(&api.verbs, request);
    if let Some(found) = find() {
        return Some(found);
    }
    let since = api.verbs.definitions_in_effect().await;
    if matches!(route, Route::Resource(..)) && since == InEffect::Since { find() } else { None }
}

/// Objects wait for the store; everything else is there already.
async fn handle(api: &Api, request: &Request, route: Route<'_>, routed: Option<Routed>) -> objects::Answer {
    if let Some(routed) = routed
        && let Some(answer) = objects::handle(api, request, routed).await
    {
        return gzip::apply(&request.headers, answer);
    }
    if let Route::OpenApi(target) = route {
        openapi::prepare(api, target).await;
    }
    objects::whole(dispatch(api, request, route))
}

/// Why there is no body.
#[derive(Debug, PartialEq, Eq)]
enum NotRead {
    Refused(Status),
    Over(Budget),
}

impl From<Status> for NotRead {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

async fn read_body<B>(
    headers: &HeaderMap,
    body: B,
    in_flight: Option<&mut BodyInFlight<'_>>,
) -> Result<Bytes, NotRead>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    // A client that waits for our word sends nothing when it is refused.
    let announced = body.size_hint().lower();
    if announced > MAX_BODY_BYTES as u64 && headers.contains_key(header::EXPECT) {
        return Err(Status::request_entity_too_large(MAX_BODY_BYTES).into());
    }
    match machine::timeout(BODY_READ_TIMEOUT, read_within_limit(body, in_flight)).await {
        Ok(result) => result,
        Err(_) => Err(Status::timeout("the request body did not arrive in time").into()),
    }
}

/// Lets a caller who is refused finish sending: one that is cut off while it
/// sends may never look at the answer. Nothing is kept.
async fn discard<B>(headers: &HeaderMap, body: B)
where
    B: Body<Data = Bytes>,
{
    // A client that waits for our word sends nothing when it is refused.
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    let mut body = std::pin::pin!(body);
    let reading = async {
        let mut size = 0usize;
        while let Some(Ok(frame)) = body.frame().await {
            size = size.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            if size > MAX_DISCARDED_BODY_BYTES {
                break;
            }
        }
    };
    // Too slow: the answer goes out all the same.
    let _ = machine::timeout(REFUSED_BODY_TIMEOUT, reading).await;
}

/// Past the limit some more is read and thrown away: a client on HTTP/1.1 that
/// is still sending would otherwise see a broken connection, not the answer.
async fn read_within_limit<B>(body: B, mut in_flight: Option<&mut BodyInFlight<'_>>) -> Result<Bytes, NotRead>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    let mut size = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Status::bad_request("the request body could not be read"))?;
        let Ok(data) = frame.into_data() else { continue };
        size = size.saturating_add(data.len());
        if size <= MAX_BODY_BYTES
            && let Some(in_flight) = &mut in_flight
        {
            in_flight.grow(data.len()).map_err(NotRead::Over)?;
        }
        if size <= MAX_BODY_BYTES {
            read.extend_from_slice(&data);
        } else if size <= MAX_BODY_BYTES + MAX_DISCARDED_BODY_BYTES {
            read = BytesMut::new();
        } else {
            break;
        }
    }
    if size > MAX_BODY_BYTES {
        Err(Status::request_entity_too_large(MAX_BODY_BYTES).into())
    } else {
        Ok(read.freeze())
    }
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The client's own id, if it is short and printable, else a new one.
fn audit_id(api: &Api, headers: &HeaderMap) -> HeaderValue {
    let usable = |id: &&HeaderValue| !id.is_empty() && id.len() <= MAX_AUDIT_ID_BYTES && id.to_str().is_ok();
    headers.get(AUDIT_ID).filter(usable).cloned().unwrap_or_else(|| api.audit_ids.next())
}

fn default_headers(headers: &mut HeaderMap, audit_id: &HeaderValue) {
    headers.insert(AUDIT_ID, audit_id.clone());
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
}

fn remove_body(response: &mut objects::Answer) {
    let length = response.body().size_hint().exact().unwrap_or_default();
    if length > 0 {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = crate::body::Body::Whole(Full::default());
}

/// Paths are still percent-encoded when they get here, or quoted by the
/// logger: a client cannot write lines of its own.
fn logged(path: &str) -> &str {
    path.get(..MAX_LOGGED_PATH_BYTES).unwrap_or_else(|| {
        let end = (0..=MAX_LOGGED_PATH_BYTES.min(path.len())).rev().find(|end| path.is_char_boundary(*end));
        path.get(..end.unwrap_or(0)).unwrap_or_default()
    })
}

/// Answers a request of no connection.
pub async fn alone<B>(api: &Api, origin: &Origin, request: http::Request<B>) -> objects::Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    respond(api, origin, || Arc::new(Stream::apart()), request).await
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use sternpost_flow::Owner;

    use super::*;
    use crate::{
        health::{Health, On},
        testing::{self, TOKEN},
    };

    async fn send(
        api: &Api,
        method: &str,
        target: &str,
        pairs: &[(&str, &str)],
        body: Bytes,
    ) -> objects::Answer {
        let mut request = http::Request::builder().method(method).uri(target).body(Full::new(body)).unwrap();
        *request.headers_mut() = testing::headers(pairs);
        alone(api, &Origin::default(), request).await
    }

    fn bearer() -> String {
        format!("Bearer {TOKEN}")
    }

    #[tokio::test]
    async fn everything_but_health_and_version_wants_the_credential() {
        let api = testing::api();
        let good = bearer();
        for (target, nothing, wrong, right) in [
            ("/healthz", 200, 401, 200),
            ("/livez/ping", 200, 401, 200),
            ("/readyz", 200, 401, 200),
            ("/version", 200, 401, 200),
            ("/", 401, 401, 200),
            ("/metrics", 401, 401, 200),
            ("/api", 401, 401, 200),
            ("/apis/apps/v1", 401, 401, 200),
            ("/api/v1/pods", 401, 401, 200),
            ("/openapi/v2", 401, 401, 200),
            ("/nonsense", 401, 401, 404),
            ("/%zz", 401, 401, 400),
        ] {
            for (pairs, code) in [
                (&[][..], nothing),
                (&[("authorization", "Bearer wrong")][..], wrong),
                (&[("authorization", good.as_str())][..], right),
            ] {
                let response = send(&api, "GET", target, pairs, Bytes::new()).await;
                assert_eq!(response.status(), code, "{target} {pairs:?}");
                if code == 401 {
                    assert_eq!(
                        testing::body(&response),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn who_may_not_is_told_so_before_anything_else() {
        let api = testing::api_by_rbac();
        let long = Bytes::from(vec![b' '; MAX_BODY_BYTES + 1]);
        for (token, method, target, body, code) in [
            (Some(TOKEN), "GET", "/api/v1/pods", Bytes::new(), 200),
            (Some(TOKEN), "POST", "/api/v1/namespaces", long.clone(), 413),
            (Some("carol"), "POST", "/api/v1/namespaces", long.clone(), 403),
            (Some("carol"), "POST", "/api/v1/namespaces", Bytes::from("garbage"), 403),
            (Some("carol"), "GET", "/api/v1/pods", Bytes::new(), 403),
            (Some("carol"), "GET", "/nonsense", Bytes::new(), 403),
            (Some("carol"), "GET", "/apis/none/v1/such", Bytes::new(), 403),
            (Some("carol"), "GET", "/version", Bytes::new(), 403),
            (Some("carol"), "GET", "/api/v1/watch", Bytes::new(), 500),
            (Some("wrong"), "GET", "/version", Bytes::new(), 401),
            (None, "GET", "/version", Bytes::new(), 403),
            (None, "GET", "/api/v1/pods", Bytes::new(), 403),
            (None, "POST", "/api/v1/namespaces", long, 403),
        ] {
            let token = token.map(|token| format!("Bearer {token}"));
            let pairs: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
            let response = send(&api, method, target, &pairs, body).await;
            assert_eq!(response.status(), code, "{token:?} {method} {target}");
            let nosniff = testing::header(&response, "x-content-type-options");
            assert_eq!(nosniff.is_some(), code == 403 || code == 500, "{token:?} {method} {target}");
        }
    }

    #[tokio::test]
    async fn who_is_impersonated_counts() {
        let api = testing::api_by_rbac();
        let (admin, carol) = (bearer(), "Bearer carol");
        for (token, name, group, code) in [
            (admin.as_str(), "carol", "", 403),
            (admin.as_str(), "carol", "system:masters", 200),
            (admin.as_str(), "", "system:masters", 400),
            (carol, "kubernetes-admin", "system:masters", 403),
            (carol, "", "system:masters", 400),
        ] {
            let pairs = [("authorization", token), ("impersonate-user", name), ("impersonate-group", group)];
            let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let response = send(&api, "GET", "/api/v1/pods", &pairs, Bytes::new()).await;
            assert_eq!(response.status(), code, "{pairs:?}");
            let nosniff = testing::header(&response, "x-content-type-options");
            assert_eq!(nosniff.is_some(), code != 200, "{pairs:?}");
        }
    }

    #[tokio::test]
    async fn the_body_limit_is_exact() {
        let api = testing::api();
        let pairs = [("authorization", bearer())];
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for (size, code) in [(0, 400), (MAX_BODY_BYTES, 400), (MAX_BODY_BYTES + 1, 413)] {
            let body = Bytes::from(vec![b' '; size]);
            let response = send(&api, "POST", "/api/v1/namespaces", &pairs, body).await;
            assert_eq!(response.status(), code, "{size}");
        }
    }

    #[tokio::test]
    async fn an_unannounced_body_is_cut_at_the_limit() {
        // Never ends, and hides it, like a chunked body.
        struct Endless(Arc<std::sync::atomic::AtomicUsize>);
        impl Body for Endless {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
                let data = Bytes::from_static(&[0; 4096]);
                self.0.fetch_add(data.len(), std::sync::atomic::Ordering::Relaxed);
                Poll::Ready(Some(Ok(hyper::body::Frame::data(data))))
            }
        }
        let sent = Arc::default();
        discard(&HeaderMap::new(), Endless(Arc::clone(&sent))).await;
        assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), MAX_DISCARDED_BODY_BYTES + 4096);
        let sent = Arc::default();
        let result = read_body(&HeaderMap::new(), Endless(Arc::clone(&sent)), None).await;
        assert_eq!(result, Err(Status::request_entity_too_large(MAX_BODY_BYTES).into()));
        let sent = sent.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(sent, MAX_BODY_BYTES + MAX_DISCARDED_BODY_BYTES + 4096);
    }

    #[tokio::test]
    async fn a_connection_is_of_whoever_asked_last_by_it() {
        let api = testing::api();
        let (owner, good) = (Arc::new(Owner::new(&"an address")), bearer());
        let admin = User::admin().name;
        for (pairs, code, expected) in [
            (&[("authorization", "Bearer wrong")][..], 401, "an address"),
            (&[], 200, "system:anonymous"),
            (&[("authorization", good.as_str())], 200, admin.as_str()),
            (&[("authorization", good.as_str()), ("impersonate-user", "ana")], 200, "ana"),
            (&[("authorization", "Bearer wrong")], 401, "ana"),
        ] {
            let mut request = http::Request::get("/version").body(Full::new(Bytes::new())).unwrap();
            *request.headers_mut() = testing::headers(pairs);
            let origin = Origin { owner: Some(owner.clone()), ..Origin::default() };
            assert_eq!(alone(&api, &origin, request).await.status(), code, "{pairs:?}");
            assert!(owner.is(&expected), "{expected}");
        }
    }

    #[tokio::test]
    async fn a_panic_costs_one_request() {
        let mut health = Health::default();
        health.add("bug", On::All, Box::new(|| panic!("a bug")));
        let api = testing::api_with(health);
        let broken = send(&api, "GET", "/healthz", &[], Bytes::new()).await;
        assert_eq!(broken.status(), 500);
        assert!(testing::body(&broken).contains("InternalError"));
        assert!(broken.headers().contains_key("audit-id"));
        assert_eq!(send(&api, "GET", "/version", &[], Bytes::new()).await.status(), 200);
    }

    #[tokio::test]
    async fn strict_transport_security_is_asked_for_on_every_response() {
        let mut api = testing::api();
        let name = "strict-transport-security";
        assert_eq!(testing::header(&send(&api, "GET", "/version", &[], Bytes::new()).await, name), None);
        // As kube-apiserver 1.36.4 sent it for `max-age=31536000,includeSubDomains`.
        let directives = "max-age=31536000; includeSubDomains";
        api.strict_transport_security = Some(HeaderValue::from_static(directives));
        for (path, code) in [("/version", 200), ("/api", 401), ("/healthz/nonsense", 404)] {
            let response = send(&api, "GET", path, &[], Bytes::new()).await;
            assert_eq!(response.status(), code, "{path}");
            assert_eq!(testing::header(&response, name), Some(directives), "{path}");
        }
    }

    #[tokio::test]
    async fn audit_ids_are_echoed_if_usable() {
        let api = testing::api();
        let (at, past) = ("a".repeat(MAX_AUDIT_ID_BYTES), "a".repeat(MAX_AUDIT_ID_BYTES + 1));
        for (sent, echoed) in [("my-id", true), ("bad id!", true), ("", false), (&at, true), (&past, false)] {
            let response = send(&api, "GET", "/version", &[("audit-id", sent)], Bytes::new()).await;
            assert_eq!(testing::header(&response, "audit-id") == Some(sent), echoed, "{sent}");
            assert_eq!(testing::header(&response, "cache-control"), Some("no-cache, private"));
        }
    }

    #[tokio::test]
    async fn head_keeps_the_length_and_drops_the_body() {
        let api = testing::api();
        let good = bearer();
        let pairs = [("authorization", good.as_str())];
        let get = send(&api, "GET", "/apis", &pairs, Bytes::new()).await;
        let head = send(&api, "HEAD", "/apis", &pairs, Bytes::new()).await;
        assert_eq!((head.status().as_u16(), testing::body(&head).as_str()), (200, ""));
        let length = testing::body(&get).len().to_string();
        assert_eq!(testing::header(&head, "content-length"), Some(length.as_str()));
    }

    #[test]
    fn long_paths_are_cut_between_characters() {
        assert_eq!(logged("/a"), "/a");
        assert_eq!(logged(&"a".repeat(MAX_LOGGED_PATH_BYTES + 1)).len(), MAX_LOGGED_PATH_BYTES);
        assert_eq!(logged(&"é".repeat(MAX_LOGGED_PATH_BYTES)).len(), MAX_LOGGED_PATH_BYTES);
        assert_eq!(
            logged(&format!("a{}", "é".repeat(MAX_LOGGED_PATH_BYTES))).len(),
            MAX_LOGGED_PATH_BYTES - 1
        );
    }

    mod hostile_input {
        use http::HeaderName;
        use proptest::prelude::*;

        use super::*;

        proptest! {
            /// Whatever a client sends, there is an answer, and it is not 500.
            #[test]
            fn is_answered(
                method in "[A-Z]{1,8}",
                path in prop_oneof![
                    "(/[a-z0-9.%]{0,6}){0,5}/?",
                    "/(api|apis|openapi|livez)(/[!-~&&[^?#]]{0,8}){0,4}",
                ],
                query in "[a-z=&%+]{0,16}",
                name in prop::sample::select(vec![
                    "accept", "accept-encoding", "range", "if-range", "if-match", "if-none-match",
                    "if-modified-since", "if-unmodified-since", "user-agent", "audit-id",
                ]),
                value in prop::collection::vec(any::<u8>(), 0..40),
                known in any::<bool>(),
            ) {
                let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
                let request = http::Request::builder().method(method.as_str()).uri(format!("{path}?{query}"));
                let Ok(mut request) = request.body(Full::new(Bytes::new())) else { return Ok(()) };
                request.headers_mut().insert(HeaderName::from_static(name), value);
                if known {
                    let credential = HeaderValue::from_str(&bearer()).unwrap();
                    request.headers_mut().insert(header::AUTHORIZATION, credential);
                }
                let response = testing::now(alone(&testing::api(), &Origin::default(), request));
                prop_assert!(response.status().as_u16() < 500, "{}", response.status());
            }
        }
    }
}
