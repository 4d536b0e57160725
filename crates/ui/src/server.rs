//! The listener, and the way of a request.

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full, Limited, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Map, Value, json};
use sternpost_clock::machine;
use sternpost_meta::status::{RemoteStatus, Status};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::{
    assets::{self, Asset},
    guard::{self, DATA_POLICY, PAGE_POLICY, Place, SEC_FETCH_SITE},
    proxy::{self, HasBody},
    sessions::Sessions,
};

/// A browser has six to an origin for all of its tabs. More wait until some are closed.
pub const MAX_CONNECTIONS: usize = 128;

/// The largest body that goes on to a cluster: more than any API server takes.
pub const MAX_BODY_BYTES: u64 = 8 << 20;

/// Bytes of the head of a request.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// How long a connection may take for the head of its next request.
const IDLE: Duration = Duration::from_secs(90);

const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a cluster may take until it begins to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What the page says, and only it knows.
const TOKEN: HeaderName = HeaderName::from_static("x-sternpost-token");

/// On answers of this server in the place of a cluster that gave none.
const AWAY: HeaderName = HeaderName::from_static("x-sternpost-away");

pub type BoxError = Box<dyn Error + Send + Sync>;

/// Bodies of requests and answers, while they come.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// An answer, or what kept a cluster from giving one.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send>>;

/// Asks the cluster. The URI is the path and query of the API; credentials are added.
pub type Forward = Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>;

/// The configuration of TLS for the next connection.
pub type Tls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Builds the directory with this number. May take long.
pub type Build =
    Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// Directories that the user named, and nothing else that the page could.
#[derive(Clone)]
pub struct Kustomizations {
    pub names: Vec<String>,
    pub build: Build,
}

impl fmt::Debug for Kustomizations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kustomizations").field("names", &self.names).finish_non_exhaustive()
    }
}

/// What is served, and for whom.
#[derive(Clone)]
pub struct Settings {
    /// A host name that the user listens on, if it is none of the addresses.
    pub name: Option<String>,
    /// Beyond loopback.
    pub tls: Option<Tls>,
    pub is_read_only: bool,
    /// What the page is told: the names of cluster, context, server and namespace.
    pub about: Map<String, Value>,
    pub forward: Forward,
    pub kustomizations: Option<Kustomizations>,
    /// Gives a new link to the user. It is for nobody else, no log either.
    pub offer: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Settings").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Serves until `stop` is ready; nothing of it outlives that. The first link is offered at once.
pub async fn serve(
    listener: TcpListener,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let place = Place {
        address: listener.local_addr()?,
        name: settings.name.clone(),
        is_tls: settings.tls.is_some(),
    };
    let ui = Arc::new(Ui {
        place,
        settings,
        sessions: Mutex::new(Sessions::new(machine::random)),
        begun: machine::now(),
    });
    ui.offer();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let next = async {
            // Never closed.
            let permit = room.clone().acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            next = next => next,
        };
        while connections.try_join_next().is_some() {}
        match (permit, accepted) {
            (Some(permit), Ok((stream, _))) => {
                connections.spawn(accept(ui.clone(), stream, permit));
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "the explorer cannot accept a connection");
                machine::sleep(Duration::from_millis(100)).await;
            }
            (None, _) => {}
        }
    }
    connections.shutdown().await;
    Ok(())
}

async fn accept(ui: Arc<Ui>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
    // What is written is small and wanted at once.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &ui.settings.tls else { return connection(ui.clone(), stream).await };
    let mut config = ServerConfig::clone(&tls());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let handshake = TlsAcceptor::from(Arc::new(config)).accept(stream);
    if let Ok(Ok(stream)) = machine::timeout(HANDSHAKE, handshake).await {
        connection(ui.clone(), stream).await;
    }
}

async fn connection(ui: Arc<Ui>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(move |request| {
        let ui = ui.clone();
        async move { Ok::<_, Infallible>(ui.answer(request).await) }
    });
    // A connection that fails concerns nobody but its client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

struct Ui {
    place: Place,
    settings: Settings,
    sessions: Mutex<Sessions>,
    begun: machine::Instant,
}

impl Ui {
    /// The way of a request.
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        // First of all: to a name that is not ours nothing is said, not even who we are.
        if !self.place.is_host(request.headers()) {
            return plain(StatusCode::MISDIRECTED_REQUEST, "this host is not served here\n");
        }
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.splitn(4, '/').collect();
        match segments.as_slice() {
            // What is the same for everybody, and says nothing of the cluster.
            ["", ""] => get(&request, || {
                self.offer();
                plain(StatusCode::OK, WITHOUT_LINK)
            }),
            ["", "open"] => get(&request, || self.open(request.uri().query().unwrap_or_default())),
            ["", "assets", hash, name] => get(&request, || match assets::file(hash, name) {
                Some(file) => asset(&request, file, "public, max-age=31536000, immutable"),
                None => plain(StatusCode::NOT_FOUND, "no such file\n"),
            }),
            ["", "s", session, ""] if is_name(session) => {
                get(&request, || asset(&request, assets::page(), "no-store"))
            }
            ["", "s", session, rest] if is_name(session) => self.of_session(session, rest, request).await,
            _ => plain(StatusCode::NOT_FOUND, "no such page\n"),
        }
    }

    /// What pages ask for, and no page of another origin may.
    async fn of_session(&self, session: &str, rest: &str, request: Request<Incoming>) -> Response<Body> {
        if !self.place.is_own_page(request.method(), request.headers()) {
            return refuse(&forbidden("pages of other origins may not use the explorer"));
        }
        let cookie = guard::cookie(request.headers(), &self.cookie_name()).unwrap_or_default();
        if rest == "ui-api/session" {
            return self.begin(session, cookie, &request);
        }
        let token = request.headers().get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !lock(&self.sessions).is_permitted(session, cookie, token) {
            self.offer();
            return refuse(&Status::unauthorized());
        }
        if let Some(path) = rest.strip_prefix("k8s/") {
            return self.forward(&format!("/{path}"), request).await;
        }
        match rest {
            "ui-api/kustomize" => self.kustomize(&request).await,
            _ => refuse(&Status::no_such_resource()),
        }
    }

    /// A code for a cookie.
    fn open(&self, query: &str) -> Response<Body> {
        let code = query.strip_prefix("code=").unwrap_or_default();
        let Some(opened) = lock(&self.sessions).open(code, self.now()) else {
            self.offer();
            return plain(StatusCode::FORBIDDEN, USED_LINK);
        };
        let page = format!("/s/{}/", opened.path);
        let secure = if self.place.is_tls { "; Secure" } else { "" };
        let name = self.cookie_name();
        let cookie = format!("{name}={}; Path={page}; HttpOnly; SameSite=Strict{secure}", opened.cookie);
        let mut answer = plain(StatusCode::SEE_OTHER, "");
        if let (Ok(mut cookie), Ok(page)) = (HeaderValue::try_from(cookie), HeaderValue::try_from(page)) {
            cookie.set_sensitive(true);
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
            answer.headers_mut().insert(header::LOCATION, page);
        }
        answer
    }

    /// A cookie for a token, if it is our own page that asks, which the browser has to say.
    fn begin(&self, session: &str, cookie: &str, request: &Request<Incoming>) -> Response<Body> {
        let is_ours = request.headers().get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
        if request.method() != Method::POST || !is_ours {
            return refuse(&forbidden("only the page itself may ask for this"));
        }
        let Some(token) = lock(&self.sessions).token(session, cookie).map(str::to_owned) else {
            self.offer();
            return refuse(&Status::unauthorized());
        };
        let mut about = self.settings.about.clone();
        about.insert("token".into(), token.into());
        about.insert("readOnly".into(), self.settings.is_read_only.into());
        let names = self.settings.kustomizations.iter().flat_map(|all| &all.names);
        about.insert("features".into(), json!({"kustomize": names.collect::<Vec<_>>()}));
        data(StatusCode::OK, &Value::Object(about))
    }

    async fn forward(&self, path: &str, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        if head.headers.contains_key(header::UPGRADE) || head.method == Method::CONNECT {
            return refuse(&Status::bad_request("the explorer passes no upgrades on"));
        }
        if proxy::is_connection(path) {
            return refuse(&forbidden("the explorer passes nothing on to what runs in the cluster"));
        }
        let has_body = if body.is_end_stream() { HasBody::No } else { HasBody::Yes };
        if self.settings.is_read_only && !proxy::changes_nothing(&head.method, path, query, has_body) {
            return refuse(&forbidden("the explorer was started with --read-only: it changes nothing"));
        }
        if body.size_hint().lower() > MAX_BODY_BYTES {
            return refuse(&Status::request_entity_too_large(
                usize::try_from(MAX_BODY_BYTES).unwrap_or(usize::MAX),
            ));
        }
        let body: Body = match has_body {
            HasBody::No => Empty::new().map_err(|never| match never {}).boxed_unsync(),
            HasBody::Yes => {
                Limited::new(body, usize::try_from(MAX_BODY_BYTES).unwrap_or(usize::MAX)).boxed_unsync()
            }
        };
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut onward = Request::new(body);
        match target.parse() {
            Ok(uri) => *onward.uri_mut() = uri,
            Err(_) => return refuse(&Status::bad_request("this is no path")),
        }
        *onward.method_mut() = head.method;
        *onward.headers_mut() = proxy::request_headers(&head.headers);
        let answer = match machine::timeout(ANSWER_TIMEOUT, (self.settings.forward)(onward)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => return away(StatusCode::BAD_GATEWAY, &problem),
            Err(_) => return away(StatusCode::GATEWAY_TIMEOUT, "the server does not answer in time"),
        };
        let (head, body) = answer.into_parts();
        let mut answer = Response::new(body);
        *answer.status_mut() = head.status;
        *answer.headers_mut() = proxy::answer_headers(&head.headers);
        guard::protect(answer.headers_mut(), DATA_POLICY);
        answer
    }

    async fn kustomize(&self, request: &Request<Incoming>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let number = query.strip_prefix("directory=").and_then(|number| number.parse::<usize>().ok());
        let known = self.settings.kustomizations.as_ref().zip(number);
        let Some((all, number)) = known.filter(|(all, number)| *number < all.names.len()) else {
            return refuse(&Status::no_such_resource());
        };
        match (all.build)(number).await {
            Ok(built) => data(StatusCode::OK, &built),
            // What is wrong with the files is what the user wants to see.
            Err(problem) => data(StatusCode::OK, &json!({"problem": problem})),
        }
    }

    /// Gives the user a new link, if the last is of no use.
    fn offer(&self) {
        let code = lock(&self.sessions).offer(self.now());
        if let Some(code) = code {
            (self.settings.offer)(&format!("{}/open?code={code}", self.place.url()));
        }
    }

    /// Of this port: several explorers may run on one host.
    fn cookie_name(&self) -> String {
        format!("sternpost-ui-{}", self.place.address.port())
    }

    fn now(&self) -> Duration {
        machine::elapsed(self.begun)
    }
}

const WITHOUT_LINK: &str = "\
This is the explorer of sternpost. It opens by a link that works once, in one browser.
The program that runs it has written one to its terminal, or does now if that was used.
";

const USED_LINK: &str = "\
This link was used before, or has expired: it opens one browser once.
The program has written a new one to its terminal, or does when this is loaded again in a few seconds.
";

fn is_name(session: &str) -> bool {
    session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn get(request: &Request<Incoming>, answer: impl FnOnce() -> Response<Body>) -> Response<Body> {
    match *request.method() {
        Method::GET => answer(),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"),
    }
}

fn asset(request: &Request<Incoming>, file: &Asset, caching: &'static str) -> Response<Body> {
    let accepts = request.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip = accepts.is_some_and(|value| value.split(',').any(|coding| coding.trim() == "gzip"));
    let mut answer = Response::new(whole(if takes_gzip { file.gzipped.clone() } else { file.plain.clone() }));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if takes_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    guard::protect(headers, PAGE_POLICY);
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn data(status: StatusCode, value: &Value) -> Response<Body> {
    answer(status, "application/json", value.to_string().into())
}

/// In the form in which API servers refuse.
fn refuse(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(code, "application/json", serde_json::to_vec(status).unwrap_or_default().into())
}

fn forbidden(why: &str) -> Status {
    Status::told(403, why, RemoteStatus { reason: "Forbidden".into(), ..RemoteStatus::default() })
}

fn away(status: StatusCode, problem: &str) -> Response<Body> {
    let mut answer = answer(status, "text/plain; charset=utf-8", problem.to_owned().into());
    answer.headers_mut().insert(AWAY, HeaderValue::from_static("1"));
    answer
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guard::protect(headers, DATA_POLICY);
    answer
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
