//! Objects and lists as the client wants them: JSON, YAML, protobuf, a table,
//! or metadata only.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use sternpost_cache::{Coding, Form, Object, Section};
use sternpost_clock::Clock;
use sternpost_golang::time::Timestamp;
use sternpost_meta::status::Status;
use sternpost_registry::{
    object::{Fields, FieldsMut},
    table::{self, Definitions, IncludeObject, ListMeta},
};
use sternpost_store::Revision;
use sternpost_verbs::{Listed, Verbs, served::Served};

use super::{
    Answer,
    list_body::{Items, ListBody},
    whole,
};
use crate::{
    accept::Accept,
    request::Request,
    response::{self, Format, Spacing, TYPES},
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
            if format == Format::Protobuf && !clause.transforms() && !served.encodes_protobuf() {
                continue;
            }
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
                    if kind == "Table" && format != Format::Protobuf && served.strategy.tabular {
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
        let object = served.show_value(object.clone());
        let value = match self.transform {
            Transform::None => object,
            Transform::Metadata => table::partial_object_metadata(&object),
            Transform::Table(include) => {
                let version = object.field("metadata").text("resourceVersion").to_owned();
                let meta =
                    ListMeta { resource_version: &version, continue_token: "", remaining_item_count: None };
                let items = std::iter::once(&object);
                served.table(items, &meta, include, Definitions::Send, now(&request.clock))
            }
        };
        self.send(request, value, code)
    }

    /// One object as it is stored.
    pub async fn stored(
        self,
        verbs: &Verbs,
        request: &Request,
        served: &Served,
        object: &Arc<Object>,
    ) -> Result<Answer, Status> {
        if self.sends_stored_bytes(served, object) {
            return Ok(self.bytes(request, served, object));
        }
        let value = verbs.loaded(served, object).await?;
        Ok(self.object(request, served, &value, StatusCode::OK))
    }

    /// One object, in bytes that are there already.
    pub fn bytes(self, request: &Request, served: &Served, object: &Object) -> Answer {
        let head = served.head();
        let mut out = Vec::with_capacity(head.len() + object.size() + 1);
        out.extend_from_slice(head.as_bytes());
        object.write_fields(&mut out);
        out.push(b'\n');
        whole(response::json(Spacing::wanted_by(request), &out.into()))
    }

    /// Whether an object goes out as it is stored.
    pub fn sends_stored_bytes(self, served: &Served, object: &Object) -> bool {
        self.transform == Transform::None && self.format == Format::Json && served.shows_stored(object)
    }

    pub async fn list(
        self,
        verbs: &Verbs,
        request: &Request,
        served: &Arc<Served>,
        listed: Listed,
    ) -> Result<Answer, Status> {
        let spacing = Spacing::wanted_by(request);
        let as_stored = self.transform == Transform::None && self.format == Format::Json;
        if as_stored && listed.sections.iter().all(|section| shows_stored(served, section)) {
            return Ok(ListBody::of_stored(served, listed, spacing).answer().await);
        }
        let Listed { sections, revision, continue_token, remaining } = listed;
        let meta = Meta { revision: Some(revision), continue_token, remaining };
        self.objects(verbs, request, served, sections, meta).await
    }

    /// A list of objects, whatever their stored form.
    pub async fn objects(
        self,
        verbs: &Verbs,
        request: &Request,
        served: &Arc<Served>,
        sections: Vec<Section>,
        meta: Meta,
    ) -> Result<Answer, Status> {
        let all = || sections.iter().flat_map(Section::objects).cloned().collect::<Vec<_>>();
        let items = if served.calls_webhook() {
            let objects = all();
            // It is asked for all of them before anything is said: it may refuse.
            let shown = verbs.shown(served, &objects).await?;
            // As text they take a fraction of the memory; into memory, writing cannot fail.
            let texts = shown.iter().map(|item| serde_json::to_vec(item).unwrap_or_default().into());
            Items::Made(texts.collect::<Vec<Bytes>>().into_iter())
        } else {
            let is_table = matches!(self.transform, Transform::Table(_));
            match served.strategy.row_order.filter(|_| is_table) {
                Some(order) => {
                    let mut objects = all();
                    objects.sort_by_cached_key(|object| order(&object.value()));
                    Items::stored(vec![Section::Objects(objects)])
                }
                None => Items::stored(sections),
            }
        };
        let listing = Listing { shape: self, served: served.clone(), now: now(&request.clock) };
        Ok(ListBody::of_values(listing, &meta, items, Spacing::wanted_by(request)).await.answer().await)
    }

    /// A list of values that were never stored.
    pub fn computed(self, request: &Request, served: &Arc<Served>, items: &[Value]) -> Answer {
        let listing = Listing { shape: self, served: served.clone(), now: now(&request.clock) };
        self.send(request, listing.list(items, &Meta::default(), Definitions::Send), StatusCode::OK)
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

/// The form of runs whose stored bytes are what is shown.
pub fn stored_form(served: &Served) -> Form {
    Form { shown_as: served.number, encoding: "json", coding: Coding::Identity }
}

/// Whether all of it goes out as it is stored. Runs are only kept so if it does.
fn shows_stored(served: &Served, section: &Section) -> bool {
    if let Section::Run(run) = section
        && run.size_in(stored_form(served)).is_some()
    {
        return true;
    }
    let all = section.objects().iter().all(|object| served.shows_stored(object));
    if all && let Section::Run(run) = section {
        run.note_size(stored_form(served), run.size());
    }
    all
}

fn now(clock: &Clock) -> Timestamp {
    Timestamp::from(clock.wall())
}

/// What a list says of itself.
#[derive(Debug, Default)]
pub struct Meta {
    pub revision: Option<Revision>,
    pub continue_token: String,
    pub remaining: Option<usize>,
}

/// How the items of a list are shown.
#[derive(Debug)]
pub struct Listing {
    pub shape: Shape,
    pub served: Arc<Served>,
    pub now: Timestamp,
}

impl Listing {
    /// The list around `items`, which are as the served version has them.
    pub fn list(&self, items: &[Value], meta: &Meta, definitions: Definitions) -> Value {
        let served = &*self.served;
        let version = meta.revision.map(|revision| revision.to_string()).unwrap_or_default();
        let remaining_item_count = meta.remaining.and_then(|count| i64::try_from(count).ok());
        let continue_token = meta.continue_token.as_str();
        let meta = ListMeta { resource_version: &version, continue_token, remaining_item_count };
        let mut value = match self.shape.transform {
            Transform::Table(IncludeObject::Object) => {
                let mut whole = items.to_vec();
                whole.iter_mut().for_each(|item| served.set_type(item));
                served.table(whole.iter(), &meta, IncludeObject::Object, definitions, self.now)
            }
            Transform::Table(include) => served.table(items.iter(), &meta, include, definitions, self.now),
            Transform::Metadata => table::partial_object_metadata_list(items.iter(), &meta),
            Transform::None => {
                let mut metadata = Value::Object(serde_json::Map::new());
                if !version.is_empty() {
                    metadata.set("resourceVersion", version.as_str());
                }
                if served.lists_continue(continue_token) {
                    metadata.set("continue", continue_token);
                }
                if let Some(count) = remaining_item_count {
                    metadata.set("remainingItemCount", count);
                }
                let mut list = Value::Object(serde_json::Map::new());
                list.set("kind", served.list_kind());
                list.set("apiVersion", served.resource.gv.to_string());
                list.set("metadata", metadata);
                list.set("items", items.to_vec());
                list
            }
        };
        self.shape.set_version(&mut value);
        value
    }

    /// The form of runs of the list; `None` if an item changes with the time, or is made by lines.
    pub fn run_form(&self) -> Option<Form> {
        let encoding = match (self.shape.format, self.shape.transform, self.shape.version) {
            (Format::Yaml, ..) | (_, Transform::Table(_), _) => return None,
            (Format::Json, Transform::None, _) => "json;converted",
            (Format::Json, Transform::Metadata, MetaVersion::V1) => "json;as=metadata;v=v1",
            (Format::Json, Transform::Metadata, MetaVersion::V1beta1) => "json;as=metadata;v=v1beta1",
            (Format::Protobuf, Transform::None, _) => "protobuf",
            (Format::Protobuf, Transform::Metadata, MetaVersion::V1) => "protobuf;as=metadata;v=v1",
            (Format::Protobuf, Transform::Metadata, MetaVersion::V1beta1) => "protobuf;as=metadata;v=v1beta1",
        };
        Some(Form { shown_as: self.served.number, encoding, coding: Coding::Identity })
    }

    /// The member of the list that its items are in.
    pub fn member(&self) -> &'static str {
        match self.shape.transform {
            Transform::Table(_) => "rows",
            Transform::Metadata | Transform::None => "items",
        }
    }

    /// A stored object as the served version has it, for [`Listing::shown`].
    pub fn stored(&self, object: &Object) -> Value {
        self.served.show(object)
    }

    /// One item as it stands in the list.
    pub fn shown(&self, item: Value) -> Value {
        if self.shape.transform == Transform::None {
            return item;
        }
        // Definitions of columns are said once, around all rows.
        let mut alone = self.list(&[item], &Meta::default(), Definitions::Omit);
        let items = alone.get_mut(self.member()).and_then(Value::as_array_mut);
        items.and_then(Vec::pop).unwrap_or_default()
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
    let found = if !served.is_unstructured() {
        format!("*{}.{}", super::body_in::go_package(served.group()), served.kind())
    } else if extent == Extent::List {
        "*unstructured.Unstructured".into()
    } else {
        return Status::unexpected("content is not a list");
    };
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

/// A `Status` that is not an error. It is never transformed.
pub fn status(request: &Request, value: &Value) -> Answer {
    let format = Format::wanted_by(&request.headers).unwrap_or(Format::Json);
    whole(response::value(StatusCode::OK, format, Spacing::wanted_by(request), value))
}
