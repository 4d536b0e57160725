//! Objects as tables: what `kubectl get` shows.
//!
//! [`table`] makes a whole `Table`; [`cells`], [`row`] and [`assemble`] are its
//! parts, for callers that stream or bring columns of their own. A kind's columns
//! are part of its strategy; a column says where its cell comes from, by a path or
//! by a small function.
//!
//! Every column is always sent, those of priority 1 too: hiding them unless
//! `-o wide` is asked for is the client's work. Kinds without columns of their
//! own show their name and when they were made.
//!
//! Cells of a HorizontalPodAutoscaler are best made from the `autoscaling/v2`
//! form: the v1 form does not say where among the metrics its CPU target stood.

pub(crate) mod admission_policy;
pub(crate) mod text;
pub(crate) mod volume;
pub(crate) mod workload;

use serde_json::{Map, Value, json};
use sternpost_golang::time::Timestamp;
use sternpost_meta::age::human_duration;

use crate::{object::Fields, strategy::Strategy};

const META_API_VERSION: &str = "meta.k8s.io/v1";

/// A column definition, and where the cells below it come from.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`. Cells do not always
    /// keep to it: counts of a `string` column are numbers, as upstream.
    pub kind: &'static str,
    /// `name` marks the column that identifies the object.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown, 1 only in wide output.
    pub priority: i32,
    cell: Cell,
}

impl Column {
    /// As it stands in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// What rows are sorted by.
pub type RowOrder = fn(&Value) -> (i64, String);

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the `includeObject` parameter; the error is the text of the 400 answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            _ => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                sternpost_golang::strconv::go_quote(text)
            )),
        }
    }
}

/// Whether a table brings its column definitions. A watch sends them only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definitions {
    Send,
    Omit,
}

/// The metadata of the list that a table shows. For a single object, only its
/// resource version is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListMeta<'a> {
    pub resource_version: &'a str,
    pub continue_token: &'a str,
    pub remaining_item_count: Option<i64>,
}

/// The `Table` of objects of one built-in kind.
pub fn table<'a>(
    strategy: &Strategy,
    items: impl IntoIterator<Item = &'a Value>,
    list_meta: &ListMeta<'_>,
    include: IncludeObject,
    definitions: Definitions,
    now: Timestamp,
) -> Value {
    let mut items: Vec<&Value> = items.into_iter().collect();
    if let Some(order) = strategy.row_order {
        items.sort_by_cached_key(|item| order(item));
    }
    let rows = items.into_iter().map(|item| row(strategy, item, cells(strategy, item, now), include));
    let rows = rows.collect();
    let definitions = match definitions {
        Definitions::Send => strategy.columns.iter().map(Column::definition).collect(),
        Definitions::Omit => Value::Null,
    };
    assemble(definitions, rows, list_meta)
}

/// The cells of one object's row.
pub fn cells(strategy: &Strategy, object: &Value, now: Timestamp) -> Vec<Value> {
    let all = strategy.columns.iter().chain(strategy.cells_without_column);
    all.map(|column| column.cell.of(object, now)).collect()
}

/// One row. `object` is in the version that was asked for.
pub fn row(strategy: &Strategy, object: &Value, cells: Vec<Value>, include: IncludeObject) -> Value {
    let mut row = Map::new();
    row.insert("cells".into(), Value::Array(cells));
    let included = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(object),
        IncludeObject::Object => object.clone(),
    };
    row.insert("object".into(), included);
    if let Some(condition) = (strategy.row_condition)(object) {
        row.insert("conditions".into(), Value::Array(vec![condition]));
    }
    Value::Object(row)
}

/// A `Table` from its parts. `definitions` is a list, or `null` where a watch omits them.
pub fn assemble(definitions: Value, rows: Vec<Value>, list_meta: &ListMeta<'_>) -> Value {
    let mut table = of_meta_kind("Table", list_meta.to_value());
    table.insert("columnDefinitions".into(), definitions);
    table.insert("rows".into(), Value::Array(rows));
    Value::Object(table)
}

/// An object with nothing but its metadata.
pub fn partial_object_metadata(object: &Value) -> Value {
    let metadata = object.get_field("metadata").cloned().unwrap_or_else(|| json!({}));
    Value::Object(of_meta_kind("PartialObjectMetadata", metadata))
}

/// A list of objects with nothing but their metadata.
pub fn partial_object_metadata_list<'a>(
    items: impl IntoIterator<Item = &'a Value>,
    list_meta: &ListMeta<'_>,
) -> Value {
    let mut list = of_meta_kind("PartialObjectMetadataList", list_meta.to_value());
    list.insert("items".into(), items.into_iter().map(partial_object_metadata).collect());
    Value::Object(list)
}

fn of_meta_kind(kind: &str, metadata: Value) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), META_API_VERSION.into());
    object.insert("metadata".into(), metadata);
    object
}

impl ListMeta<'_> {
    fn to_value(self) -> Value {
        let mut metadata = Map::new();
        for (name, value) in [("resourceVersion", self.resource_version), ("continue", self.continue_token)] {
            if !value.is_empty() {
                metadata.insert(name.into(), value.into());
            }
        }
        if let Some(count) = self.remaining_item_count {
            metadata.insert("remainingItemCount".into(), count.into());
        }
        Value::Object(metadata)
    }
}

/// Where a cell comes from. Paths are JSON pointers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// A text, empty if there is none.
    Text(&'static str),
    /// A text; the second if the field is missing or empty.
    TextOr(&'static str, &'static str),
    /// A text; the second if the field is missing. An empty text stays.
    SetOr(&'static str, &'static str),
    /// A whole number, 0 if there is none.
    Integer(&'static str),
    /// A boolean, with what a missing one means.
    Flag(&'static str, bool),
    /// How many entries a list or a map has.
    Count(&'static str),
    /// The time since a moment, with what stands there if it is missing.
    AgeOr(&'static str, &'static str),
    Computed(fn(&Value) -> Value),
    /// As `Computed`, but the present moment matters.
    Timed(fn(&Value, Timestamp) -> Value),
}

impl Cell {
    fn of(self, object: &Value, now: Timestamp) -> Value {
        let at = |path| object.pointer(path).filter(|value| !value.is_null());
        let text = |path| at(path).and_then(Value::as_str);
        match self {
            Self::Text(path) => text(path).unwrap_or_default().into(),
            Self::TextOr(path, fallback) => {
                text(path).filter(|text| !text.is_empty()).unwrap_or(fallback).into()
            }
            Self::SetOr(path, fallback) => text(path).unwrap_or(fallback).into(),
            Self::Integer(path) => at(path).and_then(Value::as_i64).unwrap_or_default().into(),
            Self::Flag(path, missing) => at(path).and_then(Value::as_bool).unwrap_or(missing).into(),
            Self::Count(path) => match at(path) {
                Some(Value::Array(items)) => items.len().into(),
                Some(Value::Object(entries)) => entries.len().into(),
                _ => 0.into(),
            },
            Self::AgeOr(path, fallback) => {
                at(path).map_or_else(|| fallback.into(), |time| age(time, now).into())
            }
            Self::Computed(cell) => cell(object),
            Self::Timed(cell) => cell(object, now),
        }
    }
}

/// The time since the moment in a field, for people.
pub(crate) fn age(time: &Value, now: Timestamp) -> String {
    moment(time).map_or_else(|| UNKNOWN.into(), |time| human_duration(now.seconds_since(time)))
}

/// The moment in a field, `Time` or `MicroTime`; none if there is no time in it.
pub(crate) fn moment(time: &Value) -> Option<Timestamp> {
    Timestamp::parse_time(time.as_str()?).ok().filter(|time| !time.is_zero())
}

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";
pub(crate) const UNKNOWN: &str = "<unknown>";

pub(crate) const fn column(name: &'static str, cell: Cell, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0, cell }
}

pub(crate) const fn text(name: &'static str, path: &'static str, description: &'static str) -> Column {
    column(name, Cell::Text(path), description)
}

pub(crate) const fn computed(
    name: &'static str,
    cell: fn(&Value) -> Value,
    description: &'static str,
) -> Column {
    column(name, Cell::Computed(cell), description)
}

impl Column {
    pub(crate) const fn typed(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    /// Shown in wide output only.
    pub(crate) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// Marks the column as the name of the object.
    pub(crate) const fn identifying(self) -> Self {
        Self { format: "name", ..self }
    }
}

/// A whole number in a column that says so.
pub(crate) const fn integer(name: &'static str, path: &'static str, description: &'static str) -> Column {
    column(name, Cell::Integer(path), description).typed("integer")
}

pub(crate) const fn flag(name: &'static str, cell: Cell, description: &'static str) -> Column {
    column(name, cell, description).typed("boolean")
}

pub(crate) const NAME: Column =
    text("Name", "/metadata/name", "Name of the object, unique among those of its kind and namespace.")
        .identifying();

pub(crate) const AGE: Column = column(
    "Age",
    Cell::AgeOr("/metadata/creationTimestamp", UNKNOWN),
    "Time since the server created the object.",
);

pub(crate) const GENERIC: &[Column] = &[
    NAME,
    column(
        "Created At",
        Cell::TextOr("/metadata/creationTimestamp", "0001-01-01T00:00:00Z"),
        "When the server created the object, in UTC.",
    )
    .typed("date"),
];

pub(crate) const NAME_AND_AGE: &[Column] = &[NAME, AGE];
