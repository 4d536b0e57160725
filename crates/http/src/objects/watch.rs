//! Watches: events as they happen, one after the other, until the time is up.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sternpost_cache::{Coding, EventKind, Expired, Form, Object, Reading};
use sternpost_clock::{Clock, Instant, Sleep, machine};
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    field::{Errors, Path},
    status::Status,
};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    table::{self, Definitions, ListMeta},
};
use sternpost_verbs::{
    MAX_CONVERTED, StateChange, Target, Verbs, Watch, WatchEvent, WatchQuery, served::Served,
};

use super::{
    Answer, options,
    representation::{Shape, Transform},
};
use crate::{
    Api,
    body::Body,
    limits::{WATCH_BOOKMARK_INTERVAL, WATCH_MIN_TIMEOUT, WATCH_PIECE_BYTES},
    request::Request,
    response::{Format, JSON, json_line},
};

/// `served` is that of the target.
pub async fn serve(
    api: &Api,
    request: &Request,
    target: Target<'_>,
    served: &Arc<Served>,
) -> Result<Answer, Status> {
    let shape = match Shape::negotiate_watch(request, served) {
        // Upstream finds out with the first event, when all it can do is end.
        Err(status) if status.code == 500 => {
            return Ok(stream(Format::Json, Body::Whole(Bytes::new().into())));
        }
        shape => shape?,
    };
    let selection = options::selection(request, served)?;
    let query = query(request)?;
    let selection = if target.name.is_empty() {
        selection
    } else {
        // Whoever names an object in the path may select by no other name, nor by something else alone.
        let selects = !selection.fields.is_everything();
        if selects && selection.fields.exact("metadata.name") != Some(target.name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        selection.named(target.name)
    };
    let bookmarks = options::flag(request, "allowWatchBookmarks");
    let clock = &api.verbs.clock;
    let deadline = clock.now() + timeout(request);
    let writer = Writer {
        shape,
        head: served.head(),
        served: served.clone(),
        columns_sent: false,
        clock: clock.clone(),
    };
    let body = match api.verbs.watch(Target { name: "", ..target }, selection, &query).await {
        Ok((begin, watch)) => {
            let annotate = query.initial_events != Some(false) && begin.is_some();
            let mut stopping = api.stopping();
            let over = served.shown_otherwise();
            // The server's stop ends a watch as its timeout does, and so does the end of what
            // its objects are.
            let until = clock.clone();
            let end = async move {
                let stopped = async { drop(stopping.wait_for(|stopping| *stopping).await) };
                let any = async {
                    tokio::select! { () = over => {}, () = stopped => {} }
                };
                let _ = until.timeout_at(deadline, any).await;
            };
            Body::Watch(Box::new(WatchBody {
                writer,
                watch,
                verbs: api.verbs.clone(),
                converting: None,
                begin: begin.unwrap_or_default().into_iter(),
                first_bookmark: bookmarks && annotate,
                bookmarks: if bookmarks { Bookmarks::until(clock, deadline) } else { None },
                end: Box::pin(end),
                ended: false,
            }))
        }
        // After authorization a watch fails in the stream.
        Err(status) if matches!(status.code, 410 | 504) => Body::Whole(writer.error(&status).into()),
        Err(status) => return Err(status),
    };
    Ok(stream(shape.format, body))
}

fn stream(format: Format, body: Body) -> Answer {
    let mut answer = http::Response::new(body);
    *answer.status_mut() = StatusCode::OK;
    let media = match format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Format::Json | Format::Yaml => JSON,
    };
    answer.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// The events of one watch. It is driven by its connection: a client that does
/// not read is not asked for more, and loses its place in the window, nothing else.
pub struct WatchBody {
    writer: Writer,
    watch: Watch,
    verbs: Arc<Verbs>,
    /// Events that a webhook has to convert before anything else is sent.
    converting: Option<Converting>,
    begin: std::vec::IntoIter<Arc<Object>>,
    /// Whether the end of the first objects is still to be marked.
    first_bookmark: bool,
    bookmarks: Option<Bookmarks>,
    /// Ready when the time is up.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl std::fmt::Debug for WatchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchBody").field("watch", &self.watch).finish_non_exhaustive()
    }
}

impl WatchBody {
    /// The next events, as many as there are up to [`WATCH_PIECE_BYTES`] or a
    /// little more; `None` at the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(converting) = &mut self.converting {
                if let Poll::Ready(told) = converting.as_mut().poll(context) {
                    self.converting = None;
                    match self.converted(told) {
                        piece if piece.is_empty() => continue,
                        piece => return Poll::Ready(Some(piece)),
                    }
                }
                if self.end.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.ended = true;
                continue;
            }
            if !self.begin.as_slice().is_empty() {
                match self.first_objects() {
                    piece if piece.is_empty() => continue,
                    piece => return Poll::Ready(Some(piece)),
                }
            }
            if std::mem::take(&mut self.first_bookmark) {
                return Poll::Ready(Some(self.writer.bookmark(self.watch.place().get(), true)));
            }
            if self.watch.poll_changed(context).is_ready() {
                match self.changes() {
                    Ok(piece) if piece.is_empty() => continue,
                    Ok(piece) => return Poll::Ready(Some(piece)),
                    Err(expired) => {
                        self.ended = true;
                        return Poll::Ready(Some(self.writer.error(&Status::expired(expired.to_string()))));
                    }
                }
            }
            if self.end.as_mut().poll(context).is_ready() {
                self.ended = true;
                continue;
            }
            if let Some(bookmarks) = &mut self.bookmarks
                && bookmarks.next.as_mut().poll(context).is_ready()
            {
                if !bookmarks.set_next() {
                    self.bookmarks = None;
                }
                return Poll::Ready(Some(self.writer.bookmark(self.watch.place().get(), false)));
            }
            return Poll::Pending;
        }
    }

    fn first_objects(&mut self) -> Bytes {
        if self.writer.served.calls_webhook() {
            let some = self.begin.by_ref().take(MAX_CONVERTED).map(StateChange::first).collect();
            return self.convert(some);
        }
        let mut piece = Vec::new();
        for object in self.begin.by_ref() {
            self.writer.write(&mut piece, EventKind::Added, &object);
            if piece.len() >= WATCH_PIECE_BYTES {
                break;
            }
        }
        piece.into()
    }

    fn changes(&mut self) -> Result<Bytes, Expired> {
        if self.writer.served.calls_webhook() {
            let mut some = Vec::new();
            self.watch.read_changes(|change| {
                some.push(change);
                if some.len() < MAX_CONVERTED { Reading::GoOn } else { Reading::Stop }
            })?;
            return Ok(self.convert(some));
        }
        let Self { writer, watch, .. } = self;
        // One event alone, which is the usual case, goes out in the bytes that all watchers share.
        let (mut alone, mut piece) = (None::<Bytes>, Vec::new());
        watch.read(|told| {
            let shared = writer.shared_frame(&told);
            match (alone.take(), shared) {
                (None, Some(frame)) if piece.is_empty() => alone = Some(frame),
                (before, shared) => {
                    piece.extend_from_slice(&before.unwrap_or_default());
                    match shared {
                        Some(frame) => piece.extend_from_slice(&frame),
                        None => writer.write(&mut piece, told.kind, told.object),
                    }
                }
            }
            let size = alone.as_ref().map_or(piece.len(), Bytes::len);
            if size < WATCH_PIECE_BYTES { Reading::GoOn } else { Reading::Stop }
        })?;
        Ok(alone.unwrap_or_else(|| piece.into()))
    }
}

/// Events of which a webhook makes those of the version that is watched.
type Converting = Pin<Box<dyn Future<Output = Vec<(EventKind, Value)>> + Send>>;

/// How long a watch waits before it asks a webhook again that has failed. As upstream, nothing is
/// told meanwhile: what comes later must not come before.
const CONVERSION_PAUSE: Duration = Duration::from_secs(1);

impl WatchBody {
    /// Bytes of the events if they need no conversion; else nothing yet.
    fn convert(&mut self, changes: Vec<StateChange>) -> Bytes {
        let selection = self.watch.selection();
        let seen: Option<Vec<_>> = changes.iter().map(|change| selection.seen(change)).collect();
        let told = seen.map(|seen| seen.into_iter().flatten().collect::<Vec<_>>());
        let stored =
            told.filter(|told| told.iter().all(|(_, object)| self.writer.sends_stored_bytes(object)));
        if let Some(told) = stored {
            let mut piece = Vec::new();
            for (kind, object) in &told {
                self.writer.write_json(&mut piece, *kind, object);
            }
            return piece.into();
        }
        let (verbs, served, selection) = (self.verbs.clone(), self.writer.served.clone(), selection.clone());
        self.converting = Some(Box::pin(async move {
            loop {
                match verbs.told(&served, &selection, &changes).await {
                    Ok(told) => return told,
                    Err(status) => tracing::debug!(%status, "a watch waits for a conversion"),
                }
                machine::sleep(CONVERSION_PAUSE).await;
            }
        }));
        Bytes::new()
    }

    fn converted(&mut self, told: Vec<(EventKind, Value)>) -> Bytes {
        let mut piece = Vec::new();
        for (kind, value) in told {
            piece.extend_from_slice(&self.writer.value_frame(kind.as_str(), value));
        }
        piece.into()
    }
}

/// When to send bookmarks. As upstream: one in good time before the end, none
/// at the end itself.
struct Bookmarks {
    clock: Clock,
    next: Pin<Box<Sleep>>,
    last: Instant,
}

impl Bookmarks {
    fn until(clock: &Clock, deadline: Instant) -> Option<Self> {
        let now = clock.now();
        let last = deadline.checked_sub(WATCH_LAST_BOOKMARK).filter(|last| *last > now)?;
        let next = Box::pin(clock.sleep_until(last.min(now + WATCH_BOOKMARK_INTERVAL)));
        Some(Self { clock: clock.clone(), next, last })
    }

    /// False if there is no other one.
    fn set_next(&mut self) -> bool {
        let now = self.clock.now();
        if self.last <= now {
            return false;
        }
        self.next.as_mut().reset(self.last.min(now + WATCH_BOOKMARK_INTERVAL));
        true
    }
}

/// Makes the frames of one watch.
struct Writer {
    shape: Shape,
    head: String,
    served: Arc<Served>,
    columns_sent: bool,
    clock: Clock,
}

impl Writer {
    /// The event in bytes that are encoded by the first watcher that comes here; `None` if each makes its own.
    fn shared_frame(&mut self, told: &WatchEvent<'_>) -> Option<Bytes> {
        let event = told.shared?;
        let mut frame = Vec::new();
        if self.sends_stored_bytes(told.object) {
            let made = event.frame(|| {
                self.write_json(&mut frame, told.kind, told.object);
                frame.into()
            });
            return Some(made.clone());
        }
        if self.shape.transform != Transform::None || self.shape.format != Format::Protobuf {
            return None;
        }
        let form = Form { shown_as: self.served.number, encoding: "protobuf", coding: Coding::Identity };
        Some(event.frame_in(form, || {
            self.write(&mut frame, told.kind, told.object);
            frame.into()
        }))
    }

    fn write(&mut self, out: &mut Vec<u8>, kind: EventKind, object: &Object) {
        if self.sends_stored_bytes(object) {
            return self.write_json(out, kind, object);
        }
        let mut value = self.served.show(object);
        self.served.set_type(&mut value);
        out.extend_from_slice(&self.value_frame(kind.as_str(), value));
    }

    fn sends_stored_bytes(&self, object: &Object) -> bool {
        self.shape.transform == Transform::None
            && self.shape.format != Format::Protobuf
            && self.served.shows_stored(object)
    }

    /// `{"type":…,"object":…}` and a newline, from bytes that are there already.
    fn write_json(&self, out: &mut Vec<u8>, kind: EventKind, object: &Object) {
        out.reserve(object.size() + self.head.len() + 40);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_str().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        out.extend_from_slice(self.head.as_bytes());
        object.write_fields(out);
        out.extend_from_slice(b"}\n");
    }

    fn value_frame(&mut self, kind: &str, value: Value) -> Bytes {
        let mut value = match self.shape.transform {
            Transform::None => value,
            Transform::Metadata => table::partial_object_metadata(&value),
            Transform::Table(include) => {
                let definitions = if std::mem::replace(&mut self.columns_sent, true) {
                    Definitions::Omit
                } else {
                    Definitions::Send
                };
                let version = value.field("metadata").text("resourceVersion").to_owned();
                let meta =
                    ListMeta { resource_version: &version, continue_token: "", remaining_item_count: None };
                let now = Timestamp::from(self.clock.wall());
                self.served.table(std::iter::once(&value), &meta, include, definitions, now)
            }
        };
        self.shape.set_version(&mut value);
        self.encoded(kind, &value)
    }

    /// What protobuf cannot say is said in JSON.
    fn encoded(&self, kind: &str, value: &Value) -> Bytes {
        if self.shape.format == Format::Protobuf
            && let Ok(envelope) = sternpost_wire::object::encode(value)
        {
            return sternpost_wire::object::encode_watch_event(kind, &envelope).into();
        }
        let object = json_line(value);
        let object = object.strip_suffix(b"\n").unwrap_or(&object);
        [b"{\"type\":\"", kind.as_bytes(), b"\",\"object\":", object, b"}\n"].concat().into()
    }

    fn bookmark(&mut self, revision: u64, initial_events_end: bool) -> Bytes {
        let mut value = json!({"metadata": {"resourceVersion": revision.to_string()}});
        if initial_events_end {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            value.object_mut("metadata").set("annotations", annotations);
        }
        // As an object that nobody has filled in.
        self.served.settle(&mut value);
        self.served.set_type(&mut value);
        self.value_frame("BOOKMARK", value)
    }

    fn error(&self, status: &Status) -> Bytes {
        // A `Status` is strings and numbers: writing it cannot fail.
        self.encoded("ERROR", &serde_json::to_value(status).unwrap_or_default())
    }
}

fn query(request: &Request) -> Result<WatchQuery, Status> {
    let text = |name: &str| request.query.first(name).unwrap_or_default();
    let initial_events =
        request.query.has("sendInitialEvents").then(|| options::flag(request, "sendInitialEvents"));
    let mut errors = Errors::default();
    let path = Path::new("resourceVersionMatch");
    options::integer(request, "timeoutSeconds")?;
    options::integer(request, "limit")?;
    let matched = text("resourceVersionMatch");
    // A watch from the start is one with initial events to upstream.
    let from_start = initial_events.is_none() && matches!(text("resourceVersion"), "" | "0");
    if !text("continue").is_empty() && (from_start || !matched.is_empty()) {
        errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
    }
    match (initial_events, matched) {
        (Some(_), "NotOlderThan") | (None, "") => {}
        (Some(_), _) => {
            errors.forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        (None, _) => errors.forbidden(
            path,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    }
    if !matches!(matched, "" | "NotOlderThan") {
        errors.not_supported(path, matched, &["NotOlderThan"]);
    }
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors.into_causes()));
    }
    Ok(WatchQuery { resource_version: text("resourceVersion").into(), initial_events })
}

/// How long before its end a watch gets its last bookmark.
const WATCH_LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// What the client asked for, else between half an hour and an hour.
fn timeout(request: &Request) -> Duration {
    let asked = request.query.first("timeoutSeconds").and_then(|text| text.parse::<u64>().ok());
    match asked {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => {
            let mut byte = [0u8; 1];
            request.clock.random(&mut byte);
            let [byte] = byte;
            WATCH_MIN_TIMEOUT + WATCH_MIN_TIMEOUT * u32::from(byte) / 255
        }
    }
}

impl Shape {
    /// A watch has no form in YAML.
    fn negotiate_watch(request: &Request, served: &Served) -> Result<Self, Status> {
        let shape = Self::negotiate(request, served)?;
        match shape.format {
            Format::Yaml => Err(Status::not_acceptable(&[
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ])),
            _ => Ok(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http::Method;

    use super::*;
    use crate::testing;

    async fn send(api: &Api, method: Method, target: &str, body: &Value) {
        let mut request = testing::request(method, target, &[]);
        request.body = body.to_string().into();
        let answer = testing::handle(api, &request).await;
        assert!(answer.status().is_success(), "{target}: {}", answer.status());
    }

    async fn watch(api: &Api, query: &str) -> WatchBody {
        watch_as(api, query, "application/json").await
    }

    async fn watch_as(api: &Api, query: &str, accept: &str) -> WatchBody {
        let target = format!("/api/v1/namespaces?watch=1&{query}");
        let request = testing::request(Method::GET, &target, &[("accept", accept)]);
        match testing::handle(api, &request).await.into_body() {
            Body::Watch(watch) => *watch,
            other => panic!("{other:?}"),
        }
    }

    /// The pieces that are there, each as `TYPE NAME=VALUE` of its events.
    fn pieces(watch: &mut WatchBody) -> Vec<Vec<String>> {
        let mut pieces = Vec::new();
        while let Poll::Ready(Some(piece)) = watch.poll_next(&mut Context::from_waker(Waker::noop())) {
            let text = std::str::from_utf8(&piece).unwrap();
            assert!(text.ends_with('\n'));
            let events = text.lines().map(|line| {
                let event: Value = serde_json::from_str(line).unwrap();
                let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
                let metadata = &object["metadata"];
                let value = metadata["labels"]["v"].as_str().unwrap_or_default();
                format!("{kind} {}={value}", metadata["name"].as_str().unwrap_or_default())
            });
            pieces.push(events.collect());
        }
        pieces
    }

    fn namespace(name: &str, value: &str, filling: usize) -> Value {
        let annotations = json!({"filling": "x".repeat(filling)});
        json!({"metadata": {"name": name, "labels": {"v": value}, "annotations": annotations}})
    }

    async fn create(api: &Api, name: &str, value: &str, filling: usize) {
        send(api, Method::POST, "/api/v1/namespaces", &namespace(name, value, filling)).await;
    }

    async fn update(api: &Api, name: &str, value: &str) {
        let target = format!("/api/v1/namespaces/{name}");
        send(api, Method::PUT, &target, &namespace(name, value, 0)).await;
    }

    #[tokio::test]
    async fn an_event_is_encoded_once_for_all_watchers_of_a_form() {
        let api = testing::api();
        let next = |watch: &mut WatchBody| match watch.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(piece)) => piece,
            other => panic!("{other:?}"),
        };
        for (number, accept) in
            ["application/json", "application/vnd.kubernetes.protobuf;stream=watch"].into_iter().enumerate()
        {
            let (mut one, mut other) = (watch_as(&api, "", accept).await, watch_as(&api, "", accept).await);
            while one.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {}
            while other.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {}
            create(&api, &format!("first-{number}"), "1", 0).await;
            let (first, second) = (next(&mut one), next(&mut other));
            assert_eq!(first.as_ptr(), second.as_ptr(), "{accept}");
            // Several go together, and each is what it is alone.
            create(&api, &format!("second-{number}"), "1", 0).await;
            let alone = next(&mut one);
            create(&api, &format!("third-{number}"), "1", 0).await;
            assert_eq!(next(&mut other), [alone, next(&mut one)].concat(), "{accept}");
        }
    }

    #[tokio::test]
    async fn events_that_are_there_go_together_in_order() {
        let api = testing::api();
        create(&api, "a", "1", 0).await;
        let mut all = watch(&api, "").await;
        let mut selecting = watch(&api, "labelSelector=v%3D1").await;
        assert_eq!(pieces(&mut all), [["ADDED a=1"]]);
        assert_eq!(pieces(&mut selecting), [["ADDED a=1"]]);
        assert!(pieces(&mut all).is_empty());

        create(&api, "b", "1", 0).await;
        update(&api, "a", "2").await;
        create(&api, "c", "2", 0).await;
        update(&api, "a", "1").await;
        assert_eq!(pieces(&mut all), [["ADDED b=1", "MODIFIED a=2", "ADDED c=2", "MODIFIED a=1"]]);
        // What begins or ends to match is added or deleted.
        assert_eq!(pieces(&mut selecting), [["ADDED b=1", "DELETED a=1", "ADDED a=1"]]);
        update(&api, "c", "3").await;
        assert_eq!(pieces(&mut all), [["MODIFIED c=3"]]);
        assert!(pieces(&mut selecting).is_empty());
    }

    #[tokio::test]
    async fn many_events_are_cut_into_pieces_and_none_is_lost() {
        let api = testing::api();
        create(&api, "first", "", 0).await;
        let mut from_start = watch(&api, "resourceVersion=1").await;
        let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
        for name in &names {
            create(&api, name, "", WATCH_PIECE_BYTES / 10).await;
        }
        let expected: Vec<String> = std::iter::once("first")
            .chain(names.iter().map(String::as_str))
            .map(|name| format!("ADDED {name}="))
            .collect();
        let changes = pieces(&mut from_start);
        assert!(changes.len() > 3, "{}", changes.len());
        assert_eq!(changes.concat(), expected);
        // The same as first objects.
        let first = pieces(&mut watch(&api, "").await);
        assert!(first.len() > 3, "{}", first.len());
        assert_eq!(first.concat(), expected);
    }

    #[tokio::test]
    async fn the_end_of_the_first_objects_is_marked_for_those_who_ask() {
        let api = testing::api();
        create(&api, "a", "1", 0).await;
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        assert_eq!(pieces(&mut watch(&api, query).await), [["ADDED a=1"], ["BOOKMARK ="]]);
    }

    #[tokio::test]
    async fn a_watch_ends_when_the_server_stops() {
        let api = testing::api();
        let mut watch = watch(&api, "").await;
        let context = &mut Context::from_waker(Waker::noop());
        assert!(watch.poll_next(context).is_pending());
        api.begin_stopping();
        assert!(matches!(watch.poll_next(context), Poll::Ready(None)));
        assert!(matches!(watch.poll_next(context), Poll::Ready(None)));
    }
}
