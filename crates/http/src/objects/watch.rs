//! Watches: events as they happen, one after the other, until the time is up.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sternpost_cache::{EventKind, Object};
use sternpost_meta::{
    field::{Errors, Path},
    status::Status,
    time::Timestamp,
};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    table::{self, Definitions, ListMeta},
};
use sternpost_verbs::{
    Target, Told, Watch, WatchQuery,
    served::{Conversion, Served},
    typed,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Answer, options,
    representation::{Format, Shape, Transform},
};
use crate::{
    Api,
    body::Body,
    limits::{WATCH_BOOKMARK_INTERVAL, WATCH_MIN_TIMEOUT, WATCH_QUEUE_FRAMES},
    request::Request,
    response::JSON,
};

pub async fn serve(api: &Api, request: &Request, target: Target<'_>) -> Result<Answer, Status> {
    let served = target.served;
    let shape = Shape::negotiate_watch(request, served)?;
    let selection = options::selection(request, served)?;
    let selection = if target.name.is_empty() { selection } else { selection.named(target.name) };
    let query = query(request)?;
    let bookmarks = options::flag(request, "allowWatchBookmarks");
    let deadline = Instant::now() + timeout(request);
    let writer = Writer {
        shape,
        head: served.head(),
        group: served.group().into(),
        kind: served.kind().into(),
        api_version: served.resource.gv.to_string().into(),
        conversion: served.conversion,
        definition: served.definition.clone(),
        columns_sent: false,
    };

    // A bound of frames: a client that does not read blocks its own task here,
    // and loses its place in the window, nothing else.
    let (sender, receiver) = mpsc::channel(WATCH_QUEUE_FRAMES);
    match api.registry.watch(Target { name: "", ..target }, selection, &query).await {
        Ok((begin, watch)) => {
            let annotate = query.initial_events != Some(false) && begin.is_some();
            let run = run(writer, sender, begin, watch, bookmarks, annotate, deadline);
            let mut stopping = api.stopping();
            tokio::spawn(async move {
                tokio::select! {
                    () = run => {}
                    // The server stops: the stream ends as at its timeout.
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                }
            });
        }
        // After authorization a watch fails in the stream.
        Err(status) if matches!(status.code, 410 | 504) => {
            let frame = writer.error(&status);
            let _ = sender.try_send(frame);
        }
        Err(status) => return Err(status),
    }
    let mut answer = http::Response::new(Body::Stream(receiver));
    *answer.status_mut() = StatusCode::OK;
    let media = match shape.format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Format::Json | Format::Yaml => JSON,
    };
    answer.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(answer)
}

async fn run(
    mut writer: Writer,
    sender: mpsc::Sender<Bytes>,
    begin: Option<Vec<std::sync::Arc<Object>>>,
    mut watch: Watch,
    bookmarks: bool,
    annotate: bool,
    deadline: Instant,
) {
    for object in begin.iter().flatten() {
        let frame = writer.frame(EventKind::Added, object);
        if sender.send(frame).await.is_err() {
            return;
        }
    }
    if bookmarks && annotate && sender.send(writer.bookmark(watch.place().get(), true)).await.is_err() {
        return;
    }
    // As upstream: one in good time before the end, none at the end itself.
    let last_bookmark = deadline.checked_sub(WATCH_LAST_BOOKMARK);
    let following = |now: Instant| match last_bookmark {
        Some(last) if last > now => Some(last.min(now + WATCH_BOOKMARK_INTERVAL)),
        _ => None,
    };
    let mut next_bookmark = following(Instant::now());
    loop {
        let told = match watch.read() {
            Ok(told) => told,
            Err(expired) => {
                let _ = sender.send(writer.error(&Status::expired(expired.to_string()))).await;
                return;
            }
        };
        for told in &told {
            if sender.send(writer.told(told)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = watch.changed() => {
                if !changed {
                    return;
                }
            }
            () = tokio::time::sleep_until(next_bookmark.unwrap_or(deadline)), if bookmarks && next_bookmark.is_some() => {
                next_bookmark = following(Instant::now());
                if sender.send(writer.bookmark(watch.place().get(), false)).await.is_err() {
                    return;
                }
            }
            // The client went away.
            () = sender.closed() => return,
            () = tokio::time::sleep_until(deadline) => return,
        }
    }
}

/// Makes the frames of one watch.
struct Writer {
    shape: Shape,
    head: String,
    group: Box<str>,
    kind: Box<str>,
    api_version: Box<str>,
    conversion: Option<Conversion>,
    definition: std::sync::Arc<str>,
    columns_sent: bool,
}

impl Writer {
    fn told(&mut self, told: &Told) -> Bytes {
        match &told.shared {
            Some(event) if self.sends_stored_bytes() => {
                event.frame(|| self.json_frame(told.kind, &told.object))
            }
            _ => self.frame(told.kind, &told.object),
        }
    }

    fn frame(&mut self, kind: EventKind, object: &Object) -> Bytes {
        if self.sends_stored_bytes() {
            return self.json_frame(kind, object);
        }
        let mut value = object.value();
        if let Some(conversion) = self.conversion {
            value = conversion.show(&value);
            typed::settle(&mut value, &self.definition);
        }
        self.complete(&mut value);
        self.value_frame(kind.as_str(), value)
    }

    fn sends_stored_bytes(&self) -> bool {
        self.shape.transform == Transform::None
            && self.shape.format != Format::Protobuf
            && self.conversion.is_none()
    }

    /// `{"type":…,"object":…}` and a newline, from bytes that are there already.
    fn json_frame(&self, kind: EventKind, object: &Object) -> Bytes {
        let mut out = Vec::with_capacity(object.size() + self.head.len() + 40);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_str().as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        out.extend_from_slice(self.head.as_bytes());
        object.write_fields(&mut out);
        out.extend_from_slice(b"}\n");
        out.into()
    }

    fn value_frame(&mut self, kind: &str, value: Value) -> Bytes {
        let value = match self.shape.transform {
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
                let now = Timestamp::from(SystemTime::now());
                table::table(
                    &self.group,
                    &self.kind,
                    std::iter::once(&value),
                    &meta,
                    include,
                    definitions,
                    now,
                )
            }
        };
        self.encoded(kind, &value)
    }

    /// What protobuf cannot say is said in JSON.
    fn encoded(&self, kind: &str, value: &Value) -> Bytes {
        if self.shape.format == Format::Protobuf
            && let Ok(envelope) = sternpost_wire::object::encode(value)
        {
            return sternpost_wire::object::encode_watch_event(kind, &envelope).into();
        }
        let mut text = json!({"type": kind, "object": value}).to_string();
        text.push('\n');
        text.into()
    }

    fn bookmark(&mut self, revision: u64, initial_events_end: bool) -> Bytes {
        let mut value = json!({"metadata": {"resourceVersion": revision.to_string()}});
        if initial_events_end {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            value.object_mut("metadata").set("annotations", annotations);
        }
        self.complete(&mut value);
        self.value_frame("BOOKMARK", value)
    }

    fn error(&self, status: &Status) -> Bytes {
        // A `Status` is strings and numbers: writing it cannot fail.
        self.encoded("ERROR", &serde_json::to_value(status).unwrap_or_default())
    }

    fn complete(&self, value: &mut Value) {
        value.set("kind", &*self.kind);
        value.set("apiVersion", &*self.api_version);
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
            // Without randomness all watches end together, which is only less nice.
            let _ = aws_lc_rs::rand::fill(&mut byte);
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
