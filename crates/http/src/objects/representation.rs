//! Objects and lists as the client wants them: JSON, YAML, protobuf, a table,
//! or metadata only.

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

use super::{Answer, list_body::ListBody, whole};
use crate::{
    accept::Accept,
    body::Body,
    request::Request,
    response::{self, Format, JSON, Spacing, TYPES},
};

/// What the client accepts and we can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub format: Format,
    pub transform: Transform,
    pub version: MetaVersion,
}

/// Of `meta.k8s.io`, for what is transformed. Both have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1beta1,
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
            let Some(format) = Format::of(clause) else { continue };
            let version = match clause.param("v") {
                Some("v1beta1") => MetaVersion::V1beta1,
                _ => MetaVersion::V1,
            };
            let asked = clause.transforms().then(|| clause.param("as").unwrap_or_default());
            let transform = match asked {
                None => Transform::None,
                Some(kind) => {
                    let known = matches!(clause.param("v"), Some("v1" | "v1beta1"));
                    if !known || clause.param("g") != Some("meta.k8s.io") {
                        continue;
                    }
                    if kind == "Table"
                        && format != Format::Protobuf
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
            return Ok(Shape { format, transform, version });
        }
        Err(Status::not_acceptable(&TYPES))
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
        self.send(request, value, code)
    }

    /// One object as it is stored: bytes that are there already.
    pub fn stored(self, request: &Request, served: &Served, object: &Object) -> Answer {
        if !self.sends_stored_bytes(served) {
            return self.object(request, served, &object.value(), StatusCode::OK);
        }
        let head = served.head();
        let mut out = Vec::with_capacity(head.len() + object.size() + 1);
        out.extend_from_slice(head.as_bytes());
        object.write_fields(&mut out);
        out.push(b'\n');
        whole(response::json(Spacing::wanted_by(request), &out.into()))
    }

    /// Whether objects go out as they are stored.
    pub fn sends_stored_bytes(self, served: &Served) -> bool {
        self.transform == Transform::None && self.format == Format::Json && served.conversion.is_none()
    }

    pub fn list(self, request: &Request, served: &Served, listed: Listed) -> Answer {
        if self.sends_stored_bytes(served) {
            let list = ListBody::new(served, listed);
            return match Spacing::wanted_by(request) {
                Spacing::Compact => streamed(list),
                pretty @ Spacing::Pretty => whole(response::json(pretty, &list.collect())),
            };
        }
        let items: Vec<Value> = listed.items.iter().map(|object| item(served, object)).collect();
        self.items(request, served, &items, Some(listed.revision), &listed.continue_token, listed.remaining)
    }

    /// A list of values that are not stored any more.
    pub fn values(self, request: &Request, served: &Served, items: &[Value], revision: Revision) -> Answer {
        self.items(request, served, items, Some(revision), "", None)
    }

    /// A list of values that were never stored.
    pub fn computed(self, request: &Request, served: &Served, items: &[Value]) -> Answer {
        self.items(request, served, items, None, "", None)
    }

    fn items(
        self,
        request: &Request,
        served: &Served,
        items: &[Value],
        revision: Option<Revision>,
        continue_token: &str,
        remaining: Option<usize>,
    ) -> Answer {
        let version = revision.map(|revision| revision.to_string()).unwrap_or_default();
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
                if !version.is_empty() {
                    metadata.set("resourceVersion", version.as_str());
                }
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
        self.send(request, value, StatusCode::OK)
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

    fn send(self, request: &Request, mut value: Value, code: StatusCode) -> Answer {
        self.set_version(&mut value);
        whole(response::value(code, self.format, Spacing::wanted_by(request), &value))
    }

    /// Says the version that was asked for in a transformed value.
    pub fn set_version(self, value: &mut Value) {
        if self.transform == Transform::None || self.version == MetaVersion::V1 {
            return;
        }
        rename_version(value);
        for list in ["items", "rows"] {
            for item in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                rename_version(item);
                item.get_mut("object").into_iter().for_each(rename_version);
            }
        }
    }
}

fn rename_version(value: &mut Value) {
    if value.text("apiVersion") == "meta.k8s.io/v1" {
        value.set("apiVersion", "meta.k8s.io/v1beta1");
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
    if Accept::of(&request.headers).names_one_of(&TYPES) {
        return Ok(());
    }
    let streams: &[&str] = if streams {
        &["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
    } else {
        &[]
    };
    Err(response::no_representation(&[&TYPES, streams].concat()))
}

/// An error in a form that the client accepts, else in JSON for people.
pub fn error(request: &Request, status: &Status) -> Answer {
    whole(response::error(&request.headers, Spacing::wanted_by(request), status))
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

/// A `Status` that is not an error. It is never transformed.
pub fn status(request: &Request, value: &Value) -> Answer {
    let format = Format::wanted_by(&request.headers).unwrap_or(Format::Json);
    whole(response::value(StatusCode::OK, format, Spacing::wanted_by(request), value))
}

/// A list that is written while it is sent.
fn streamed(list: ListBody) -> Answer {
    let mut answer = Answer::new(Body::List(Box::new(list)));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    answer
}
