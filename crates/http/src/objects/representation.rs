//! Objects and lists as the client wants them: JSON, YAML, protobuf, a table,
//! or metadata only.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use sternpost_cache::Object;
use sternpost_meta::{status::Status, time::Timestamp};
use sternpost_registry::{
    object::{Fields, FieldsMut},
    table::{self, Definitions, IncludeObject, ListMeta},
};
use sternpost_store::Revision;
use sternpost_verbs::{Listed, served::Served, typed};

use super::{Answer, whole};
use crate::{
    accept::{Accept, Clause},
    request::Request,
    response::{self, Spacing},
};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What the client accepts and we can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub format: Format,
    pub transform: Transform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    /// Written as JSON, which is YAML.
    Yaml,
    Protobuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    None,
    Table(IncludeObject),
    Metadata,
}

impl Shape {
    pub fn negotiate(request: &Request, served: &Served) -> Result<Self, Status> {
        Self::choose(request, served, Extent::One)
    }

    pub fn negotiate_list(request: &Request, served: &Served) -> Result<Self, Status> {
        Self::choose(request, served, Extent::List)
    }

    fn choose(request: &Request, served: &Served, extent: Extent) -> Result<Self, Status> {
        for clause in Accept::of(&request.headers).clauses() {
            let format = if clause.covers(JSON) {
                Format::Json
            } else if clause.covers(PROTOBUF) {
                Format::Protobuf
            } else if clause.covers(YAML) {
                Format::Yaml
            } else {
                continue;
            };
            let transform = match clause.param("as") {
                None => Transform::None,
                Some(kind) => {
                    let known = clause.param("g") == Some("meta.k8s.io") && clause.param("v") == Some("v1");
                    if !known {
                        continue;
                    }
                    if kind == "Table"
                        && format == Format::Json
                        && table::is_tabular(served.group(), served.kind())
                    {
                        let include = request.query.first("includeObject").unwrap_or_default();
                        Transform::Table(IncludeObject::parse(include).map_err(Status::bad_request)?)
                    } else {
                        match (kind, extent) {
                            ("PartialObjectMetadata", Extent::One)
                            | ("PartialObjectMetadataList", Extent::List) => Transform::Metadata,
                            ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => {
                                return Err(wrong_extent(kind, served, extent));
                            }
                            _ => continue,
                        }
                    }
                }
            };
            return Ok(Shape { format, transform });
        }
        Err(Status::not_acceptable(&[JSON, YAML, PROTOBUF]))
    }

    /// One object, from the value a verb answered.
    pub fn object(self, request: &Request, served: &Served, object: &Value, code: StatusCode) -> Answer {
        let object = from_stored(served, object);
        let value = match self.transform {
            Transform::None => object,
            Transform::Metadata => table::partial_object_metadata(&object),
            Transform::Table(include) => {
                let version = object.field("metadata").text("resourceVersion").to_owned();
                let meta =
                    ListMeta { resource_version: &version, continue_token: "", remaining_item_count: None };
                self.table(served, std::iter::once(&object), &meta, include)
            }
        };
        self.send(request, &value, code)
    }

    /// One object as it is stored: bytes that are there already.
    pub fn stored(self, request: &Request, served: &Served, object: &Object) -> Answer {
        let plain =
            self.transform == Transform::None && self.format == Format::Json && served.conversion.is_none();
        if !plain || request.wants_pretty() {
            return self.object(request, served, &object.value(), StatusCode::OK);
        }
        let head = served.head();
        let mut out = Vec::with_capacity(head.len() + object.size() + 1);
        out.extend_from_slice(head.as_bytes());
        object.write_fields(&mut out);
        out.push(b'\n');
        whole(response::with_type(StatusCode::OK, HeaderValue::from_static(JSON), out.into()))
    }

    pub fn list(self, request: &Request, served: &Served, listed: &Listed) -> Answer {
        if self.transform == Transform::None && self.format != Format::Protobuf && served.conversion.is_none()
        {
            let bytes = list_bytes(served, listed);
            let spaced = Spacing::wanted_by(request).apply(&bytes);
            let media = if self.format == Format::Yaml { YAML } else { JSON };
            return whole(response::with_type(StatusCode::OK, HeaderValue::from_static(media), spaced));
        }
        let items: Vec<Value> = listed.items.iter().map(|object| item(served, object)).collect();
        self.items(request, served, &items, listed.revision, &listed.continue_token, listed.remaining)
    }

    /// A list of values that are not stored any more.
    pub fn values(self, request: &Request, served: &Served, items: &[Value], revision: Revision) -> Answer {
        self.items(request, served, items, revision, "", None)
    }

    fn items(
        self,
        request: &Request,
        served: &Served,
        items: &[Value],
        revision: Revision,
        continue_token: &str,
        remaining: Option<usize>,
    ) -> Answer {
        let version = revision.to_string();
        let remaining_item_count = remaining.and_then(|count| i64::try_from(count).ok());
        let meta = ListMeta { resource_version: &version, continue_token, remaining_item_count };
        let value = match self.transform {
            Transform::Table(IncludeObject::Object) => {
                let whole: Vec<Value> = items.iter().map(|item| in_full(served, item.clone())).collect();
                self.table(served, whole.iter(), &meta, IncludeObject::Object)
            }
            Transform::Table(include) => self.table(served, items.iter(), &meta, include),
            Transform::Metadata => table::partial_object_metadata_list(items.iter(), &meta),
            Transform::None => {
                let mut metadata = Value::Object(serde_json::Map::new());
                metadata.set("resourceVersion", version.as_str());
                if !continue_token.is_empty() {
                    metadata.set("continue", continue_token);
                }
                if let Some(count) = remaining_item_count {
                    metadata.set("remainingItemCount", count);
                }
                let mut list = Value::Object(serde_json::Map::new());
                list.set("kind", format!("{}List", served.resource.kind));
                list.set("apiVersion", served.resource.gv.to_string());
                list.set("metadata", metadata);
                list.set("items", items.to_vec());
                list
            }
        };
        self.send(request, &value, StatusCode::OK)
    }

    fn table<'a>(
        self,
        served: &Served,
        items: impl Iterator<Item = &'a Value>,
        meta: &ListMeta<'_>,
        include: IncludeObject,
    ) -> Value {
        let now = Timestamp::from(std::time::SystemTime::now());
        table::table(served.group(), served.kind(), items, meta, include, Definitions::Send, now)
    }

    fn send(self, request: &Request, value: &Value, code: StatusCode) -> Answer {
        if self.format == Format::Protobuf
            && let Ok(bytes) = sternpost_wire::object::encode(value)
        {
            return whole(response::with_type(code, HeaderValue::from_static(PROTOBUF), bytes.into()));
        }
        // What protobuf cannot say is said in JSON: clients go by the content type.
        let media = if self.format == Format::Yaml { YAML } else { JSON };
        whole(response::with_type(code, HeaderValue::from_static(media), spaced(request, value)))
    }
}

/// What is answered: one object or a list of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    One,
    List,
}

fn wrong_extent(asked: &str, served: &Served, extent: Extent) -> Status {
    let found = format!("*{}.{}", super::body_in::go_package(served.group()), served.kind());
    let what = match extent {
        Extent::One => format!("is not a list ({found})"),
        Extent::List => format!("is a list ({found}List)"),
    };
    let mut status = Status::not_acceptable(&[]);
    status.message = format!("you requested {asked}, but the requested object {what}");
    status
}

/// As upstream's router, which knows whole types and `*/*`, and looks at
/// nothing else before it refuses.
pub fn check_accept(request: &Request, streams: bool) -> Result<(), Status> {
    let accept = Accept::of(&request.headers);
    let knows = |clause: &Clause| {
        let is_range = clause.covers("application/unheard-of");
        clause.covers("unheard/of") || (!is_range && TYPES.iter().any(|known| clause.covers(known)))
    };
    if accept.clauses().iter().any(knows) {
        return Ok(());
    }
    let mut types = TYPES.join(", ");
    if streams {
        types += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    }
    let mut status = Status::not_acceptable(&[]);
    status.message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    status.details = Some(Box::default());
    Err(status)
}

const TYPES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// An error in a form that the client accepts, else in JSON for people.
pub fn error(request: &Request, status: &Status) -> Answer {
    let accept = Accept::of(&request.headers);
    let clause = accept
        .clauses()
        .iter()
        .find(|clause| clause.param("as").is_none() && TYPES.iter().any(|known| clause.covers(known)));
    let Some(clause) = clause else { return whole(response::not_acceptable(status)) };
    let mut answer = response::status(Spacing::wanted_by(request), status);
    if !clause.covers(JSON) && clause.covers(PROTOBUF) {
        // A `Status` is strings and numbers: writing it cannot fail.
        let value = serde_json::to_value(status).unwrap_or_default();
        if let Ok(bytes) = sternpost_wire::object::encode(&value) {
            *answer.body_mut() = Bytes::from(bytes).into();
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        }
    } else if !clause.covers(JSON) {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
    }
    whole(answer)
}

/// A stored object as this version shows it, in full.
pub fn from_stored(served: &Served, object: &Value) -> Value {
    let object = match served.conversion {
        Some(conversion) => {
            let mut converted = conversion.show(object);
            typed::settle(&mut converted, &served.definition);
            converted
        }
        None => object.clone(),
    };
    in_full(served, object)
}

fn in_full(served: &Served, mut object: Value) -> Value {
    object.set("kind", &*served.resource.kind);
    object.set("apiVersion", served.resource.gv.to_string());
    object
}

/// As an item of a list, which has no kind of its own.
fn item(served: &Served, object: &Object) -> Value {
    match served.conversion {
        Some(_) => {
            let mut value = from_stored(served, &object.value());
            value.remove("kind");
            value.remove("apiVersion");
            value
        }
        None => object.value(),
    }
}

/// A `Status` that is not an error.
pub fn status(request: &Request, value: &Value) -> Answer {
    whole(response::with_type(StatusCode::OK, HeaderValue::from_static(JSON), spaced(request, value)))
}

fn spaced(request: &Request, value: &Value) -> Bytes {
    let mut text = value.to_string().into_bytes();
    text.push(b'\n');
    Spacing::wanted_by(request).apply(&text.into())
}

fn list_bytes(served: &Served, listed: &Listed) -> Bytes {
    let size: usize = listed.items.iter().map(|object| object.size()).sum();
    let mut out = Vec::with_capacity(size + 256);
    let gv = &served.resource.gv;
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{gv}\",\"metadata\":{{\"resourceVersion\":\"{}\"",
        served.resource.kind, listed.revision
    );
    out.extend_from_slice(head.as_bytes());
    if !listed.continue_token.is_empty() {
        out.extend_from_slice(format!(",\"continue\":\"{}\"", listed.continue_token).as_bytes());
    }
    if let Some(remaining) = listed.remaining {
        out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
    }
    out.extend_from_slice(b"},\"items\":[");
    for (index, object) in listed.items.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
        object.write_fields(&mut out);
    }
    out.extend_from_slice(b"]}\n");
    out.into()
}
