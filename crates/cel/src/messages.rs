//! Protobuf's well-known messages, as expressions make them: `google.protobuf.Duration{seconds: 1}`.
//!
//! What is made is no message but the value that it stands for, but for `Empty`. Fields are filled as Go
//! converts values to the fields' types, with the words of what does not convert.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use base64::Engine as _;
use sternpost_golang::strconv::go_quote;

use crate::{
    declare::Object,
    evaluate::{EvalError, Meter},
    library::{
        operators::{overflow, unsigned_overflow},
        time::{Timestamp, duration_text},
    },
    types::Type,
    value::{Entries, Items, Key, List, Map, Message, Text, Value},
};

/// The largest integer that every double below is exact for: JSON has larger ones as text.
const LARGEST_JSON_INTEGER: u64 = (1 << 53) - 1;

pub(crate) struct WellKnown {
    pub name: &'static str,
    /// What its values are to expressions.
    ty: fn() -> Type,
    /// By their number, from 1.
    fields: &'static [(&'static str, Native)],
    make: Make,
}

/// From the fields that are set, converted.
type Make = for<'a> fn(&Fields<'a>) -> Result<Value<'a>, EvalError>;
type Fields<'a> = BTreeMap<&'static str, Value<'a>>;

/// The type that a field has in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Native {
    Bool,
    Bytes,
    Byte,
    Float64,
    Float32,
    Int32,
    Int64,
    Enum,
    String,
    Uint32,
    Uint64,
    /// Any JSON; what `Struct` and `ListValue` hold.
    Json,
    JsonStruct,
    JsonList,
    /// The `fields` of a `Struct` and the `values` of a `ListValue`.
    Fields,
    Values,
}

static MESSAGES: [WellKnown; 16] = [
    WellKnown {
        name: "google.protobuf.Timestamp",
        ty: || Type::Timestamp,
        fields: &[("seconds", Native::Int64), ("nanos", Native::Int32)],
        make: |fields| {
            Ok(Value::Timestamp(Timestamp::from_unix(int(fields, "seconds"), int(fields, "nanos"))))
        },
    },
    WellKnown {
        name: "google.protobuf.Duration",
        ty: || Type::Duration,
        fields: &[("seconds", Native::Int64), ("nanos", Native::Int32)],
        make: |fields| {
            let nanos = int(fields, "seconds").saturating_mul(1_000_000_000);
            Ok(Value::Duration(nanos.saturating_add(int(fields, "nanos"))))
        },
    },
    WellKnown {
        name: "google.protobuf.BoolValue",
        ty: || Type::wrapper(Type::Bool),
        fields: &[("value", Native::Bool)],
        make: |fields| Ok(value_or(fields, Value::Bool(false))),
    },
    WellKnown {
        name: "google.protobuf.BytesValue",
        ty: || Type::wrapper(Type::Bytes),
        fields: &[("value", Native::Bytes)],
        make: |fields| Ok(value_or(fields, Value::Bytes([].into()))),
    },
    WellKnown {
        name: "google.protobuf.DoubleValue",
        ty: || Type::wrapper(Type::Double),
        fields: &[("value", Native::Float64)],
        make: |fields| Ok(value_or(fields, Value::Double(0.0))),
    },
    WellKnown {
        name: "google.protobuf.FloatValue",
        ty: || Type::wrapper(Type::Double),
        fields: &[("value", Native::Float32)],
        make: |fields| Ok(value_or(fields, Value::Double(0.0))),
    },
    WellKnown {
        name: "google.protobuf.Int32Value",
        ty: || Type::wrapper(Type::Int),
        fields: &[("value", Native::Int32)],
        make: |fields| Ok(value_or(fields, Value::Int(0))),
    },
    WellKnown {
        name: "google.protobuf.Int64Value",
        ty: || Type::wrapper(Type::Int),
        fields: &[("value", Native::Int64)],
        make: |fields| Ok(value_or(fields, Value::Int(0))),
    },
    WellKnown {
        name: "google.protobuf.StringValue",
        ty: || Type::wrapper(Type::String),
        fields: &[("value", Native::String)],
        make: |fields| Ok(value_or(fields, Value::text(""))),
    },
    WellKnown {
        name: "google.protobuf.UInt32Value",
        ty: || Type::wrapper(Type::Uint),
        fields: &[("value", Native::Uint32)],
        make: |fields| Ok(value_or(fields, Value::Uint(0))),
    },
    WellKnown {
        name: "google.protobuf.UInt64Value",
        ty: || Type::wrapper(Type::Uint),
        fields: &[("value", Native::Uint64)],
        make: |fields| Ok(value_or(fields, Value::Uint(0))),
    },
    WellKnown {
        name: "google.protobuf.Struct",
        ty: || Type::map(Type::String, Type::Dyn),
        fields: &[("fields", Native::Fields)],
        make: |fields| Ok(fields.get("fields").cloned().unwrap_or_else(|| Value::owned_map(BTreeMap::new()))),
    },
    WellKnown {
        name: "google.protobuf.ListValue",
        ty: || Type::list(Type::Dyn),
        fields: &[("values", Native::Values)],
        make: |fields| Ok(fields.get("values").cloned().unwrap_or_else(|| Value::list(Vec::new()))),
    },
    WellKnown {
        name: "google.protobuf.Value",
        ty: || Type::Dyn,
        fields: &[
            ("null_value", Native::Enum),
            ("number_value", Native::Float64),
            ("string_value", Native::String),
            ("bool_value", Native::Bool),
            ("struct_value", Native::JsonStruct),
            ("list_value", Native::JsonList),
        ],
        // One of them is set.
        make: |fields| {
            let set = fields.iter().find(|(name, _)| **name != "null_value");
            Ok(set.map_or(Value::Null, |(_, value)| value.clone()))
        },
    },
    WellKnown {
        name: "google.protobuf.Any",
        ty: || Type::Any,
        fields: &[("type_url", Native::String), ("value", Native::Bytes)],
        make: unpack,
    },
    WellKnown {
        name: "google.protobuf.Empty",
        ty: || Type::Object(EMPTY.clone()),
        fields: &[],
        make: |_| Ok(Value::Message(Arc::new(Message { object: EMPTY.clone(), fields: BTreeMap::new() }))),
    },
];

static EMPTY: LazyLock<Arc<Object>> =
    LazyLock::new(|| Arc::new(Object { name: "google.protobuf.Empty".into(), fields: BTreeMap::new() }));

/// An enumeration of one value.
pub(crate) const NULL_VALUE: &str = "google.protobuf.NullValue.NULL_VALUE";

pub(crate) fn named(name: &str) -> Option<&'static WellKnown> {
    MESSAGES.iter().find(|message| message.name == name)
}

impl WellKnown {
    pub fn ty(&self) -> Type {
        (self.ty)()
    }

    /// Whether the name is that of a type of values: values of the others have other types.
    pub fn is_type(&self) -> bool {
        self.ty().runtime_name() == self.name && self.ty() != Type::Any
    }

    pub fn field_type(&self, name: &str) -> Option<Type> {
        self.native(name).map(|(_, native)| native.ty())
    }

    fn native(&self, name: &str) -> Option<(&'static str, Native)> {
        self.fields.iter().find(|(field, _)| *field == name).copied()
    }

    pub fn make<'a>(
        &self,
        fields: BTreeMap<Arc<str>, Value<'a>>,
        meter: &mut Meter<'_>,
    ) -> Result<Value<'a>, EvalError> {
        let mut converted = Fields::new();
        for (name, value) in fields {
            let (name, native) =
                self.native(&name).ok_or_else(|| EvalError::new(format!("no such field: {name}")))?;
            let is_collection = match native {
                Native::Fields => matches!(value, Value::Map(_) | Value::Object(..)),
                Native::Values => matches!(value, Value::List(_)),
                _ => true,
            };
            if !is_collection {
                let found = value.ty();
                let found = match &found {
                    Type::List(_) | Type::Map(..) => found.to_string(),
                    other => other.runtime_name().to_owned(),
                };
                let message = format!("unsupported field type for {}.{name}: {found}", self.name);
                return Err(EvalError::new(message));
            }
            let value = native.convert(&value, meter).map_err(|error| {
                if error.is_limit() {
                    return error;
                }
                EvalError::new(format!(
                    "field type conversion error for {}.{name} value type: {}",
                    self.name,
                    error.message()
                ))
            })?;
            converted.insert(name, value);
        }
        (self.make)(&converted)
    }
}

impl std::fmt::Debug for WellKnown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn int(fields: &Fields<'_>, name: &str) -> i64 {
    match fields.get(name) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    }
}

fn value_or<'a>(fields: &Fields<'a>, default: Value<'a>) -> Value<'a> {
    fields.get("value").cloned().unwrap_or(default)
}

impl Native {
    fn ty(self) -> Type {
        match self {
            Self::Bool => Type::Bool,
            Self::Bytes => Type::Bytes,
            Self::Float64 | Self::Float32 => Type::Double,
            Self::Int32 | Self::Int64 | Self::Enum => Type::Int,
            Self::String => Type::String,
            Self::Uint32 | Self::Uint64 | Self::Byte => Type::Uint,
            Self::Json => Type::Dyn,
            Self::JsonStruct | Self::Fields => Type::map(Type::String, Type::Dyn),
            Self::JsonList | Self::Values => Type::list(Type::Dyn),
        }
    }

    /// As Go prints it.
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytes => "[]uint8",
            Self::Byte => "uint8",
            Self::Float64 => "float64",
            Self::Float32 => "float32",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Enum => "protoreflect.EnumNumber",
            Self::String => "string",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Json => "*structpb.Value",
            Self::JsonStruct | Self::Fields => "*structpb.Struct",
            Self::JsonList | Self::Values => "*structpb.ListValue",
        }
    }

    /// The value as the field holds it and gives it back.
    fn convert<'a>(self, value: &Value<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
        // Values can share parts, and what they are converted to does not.
        meter.work(1)?;
        meter.allocate(size_of::<Value<'a>>())?;
        if let Value::Optional(inner) = value {
            return match inner {
                Some(inner) => self.convert(inner, meter),
                None => Err(EvalError::new("optional.none() dereference")),
            };
        }
        match (self, value) {
            (Self::Bool | Self::Json, Value::Bool(_))
            | (Self::Bytes, Value::Bytes(_))
            | (Self::Float64 | Self::Json, Value::Double(_))
            | (Self::Int64, Value::Int(_))
            | (Self::Uint64, Value::Uint(_))
            | (Self::String | Self::Json, Value::String(_))
            | (Self::Json, Value::Null) => Ok(value.clone()),
            #[expect(clippy::cast_possible_truncation, reason = "so are values of such fields")]
            (Self::Float32, Value::Double(value)) => Ok(Value::Double(f64::from(*value as f32))),
            (Self::Int32 | Self::Enum, Value::Int(number)) => match i32::try_from(*number) {
                Ok(_) => Ok(value.clone()),
                Err(_) => Err(overflow()),
            },
            (Self::Uint32, Value::Uint(number)) => match u32::try_from(*number) {
                Ok(_) => Ok(value.clone()),
                Err(_) => Err(unsigned_overflow()),
            },
            (Self::String, Value::Ip(address)) => Ok(Value::text(address.to_string())),
            (Self::String, Value::Cidr(network)) => Ok(Value::text(network.to_string())),
            (Self::String, Value::Url(url)) => Ok(Value::text(url.text.as_str())),
            (Self::String, Value::Semver(version)) => Ok(Value::text(version.text.as_str())),
            (Self::String, Value::Quantity(amount)) => Ok(Value::text(amount.to_string())),
            (Self::Json, Value::Int(_) | Value::Uint(_)) => Ok(json_integer(value)),
            (Self::Json, Value::Bytes(bytes)) => {
                Ok(Value::text(base64::engine::general_purpose::STANDARD.encode(bytes)))
            }
            (Self::Json, Value::Timestamp(instant)) => Ok(Value::text(instant.to_string())),
            (Self::Json, Value::Duration(nanos)) => Ok(Value::text(duration_text(*nanos))),
            (Self::Json, Value::Message(_)) => Ok(Value::owned_map(BTreeMap::new())),
            // Lists and maps of a schema convert only where their elements are asked for one by one.
            (Self::Values, Value::List(list)) => json_list(list, meter),
            (Self::Json | Self::JsonList, Value::List(list @ List(Items::Owned(..)))) => {
                json_list(list, meter)
            }
            (Self::Bytes, Value::List(list @ List(Items::Owned(..)))) => {
                for item in list.iter() {
                    Self::Byte.convert(&item?, meter)?;
                }
                Ok(Value::Bytes([].into()))
            }
            (Self::Fields, Value::Map(map)) => json_map(map, meter),
            (Self::Json | Self::JsonStruct, Value::Map(map @ Map(Entries::Owned(_)))) => json_map(map, meter),
            (Self::Fields, Value::Object(entries, object)) => {
                let mut converted = BTreeMap::new();
                for (property, json) in *entries {
                    let value = match object.spelled(property) {
                        Some(field) => Value::declared(json, &field.declaration),
                        None => Ok(Value::from_json(json)),
                    };
                    let value = Self::Json.convert(&value?, meter)?;
                    converted.insert(Key::Text(property.as_str().into()), (text(property), value));
                }
                Ok(Value::owned_map(converted))
            }
            _ => Err(EvalError::new(self.refusal(value))),
        }
    }

    fn refusal(self, value: &Value<'_>) -> String {
        let to = self.name();
        let quoted = |from: &str| format!("type conversion error from '{from}' to '{to}'");
        let plain = |from: &str| format!("type conversion error from {from} to '{to}'");
        match value {
            Value::Null => quoted("null_type"),
            Value::Bool(_) => plain("bool"),
            Value::Int(_) => format!("unsupported type conversion from 'int' to {to}"),
            Value::Uint(_) => format!("unsupported type conversion from 'uint' to {to}"),
            Value::Double(_) => plain("Double"),
            Value::String(_) => format!("unsupported native conversion from string to '{to}'"),
            Value::Bytes(_) => plain("Bytes"),
            Value::Timestamp(_) => quoted("Timestamp"),
            Value::Duration(_) => quoted("Duration"),
            Value::List(List(Items::Owned(..))) => plain("list"),
            Value::Map(Map(Entries::Owned(_))) => plain("map"),
            Value::List(_) | Value::Map(_) | Value::Object(..) => quoted(&value.ty().to_string()),
            Value::Type(_) => "type conversion not supported for 'type'".into(),
            Value::Url(_) => quoted("URL"),
            Value::Quantity(_) => quoted("Quantity"),
            Value::Semver(_) => quoted("Semver"),
            Value::Ip(_) => quoted("IP"),
            Value::Cidr(_) => quoted("CIDR"),
            Value::Format(_) => quoted("Format"),
            Value::Message(message) => match self {
                Self::JsonStruct | Self::JsonList => {
                    let message_name = if self == Self::JsonStruct { "Struct" } else { "ListValue" };
                    format!(
                        "type conversion error: pb.Merge() arguments must be the same type. got: google.protobuf.{message_name}, {}",
                        message.type_name()
                    )
                }
                _ => quoted("*dynamicpb.Message"),
            },
            Value::Optional(_) | Value::Authorizer(_) | Value::Check(_) | Value::Decision(_) => {
                quoted(&value.type_name())
            }
        }
    }

    /// A field's value as its bytes have it, of the kinds that one needs no further messages for.
    fn decode<'a>(self, encoded: &Encoded<'_>) -> Option<Value<'a>> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            reason = "smaller types take the lower bits"
        )]
        Some(match (self, encoded) {
            (Self::Bool, Encoded::Varint(number)) => Value::Bool(*number != 0),
            (Self::Int64, Encoded::Varint(number)) => Value::Int(*number as i64),
            (Self::Int32 | Self::Enum, Encoded::Varint(number)) => Value::Int((*number as i32).into()),
            (Self::Uint64, Encoded::Varint(number)) => Value::Uint(*number),
            (Self::Uint32, Encoded::Varint(number)) => Value::Uint((*number as u32).into()),
            (Self::Float64, Encoded::Fixed64(bits)) => Value::Double(f64::from_bits(*bits)),
            (Self::Float32, Encoded::Fixed32(bits)) => Value::Double(f32::from_bits(*bits).into()),
            (Self::String, Encoded::Bytes(bytes)) => Value::text(std::str::from_utf8(bytes).ok()?),
            (Self::Bytes, Encoded::Bytes(bytes)) => Value::Bytes((*bytes).into()),
            _ => return None,
        })
    }
}

fn text<'a>(text: &'a str) -> Value<'a> {
    Value::String(Text::Borrowed(text))
}

/// As JSON has integers: doubles, as long as those are exact.
#[expect(clippy::cast_precision_loss, reason = "checked to be exact")]
fn json_integer<'a>(value: &Value<'a>) -> Value<'a> {
    match value {
        Value::Int(number) if number.unsigned_abs() <= LARGEST_JSON_INTEGER => Value::Double(*number as f64),
        Value::Uint(number) if *number <= LARGEST_JSON_INTEGER => Value::Double(*number as f64),
        Value::Int(number) => Value::text(number.to_string()),
        Value::Uint(number) => Value::text(number.to_string()),
        other => other.clone(),
    }
}

fn json_list<'a>(list: &List<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let items = list.iter().map(|item| Native::Json.convert(&item?, meter));
    items.collect::<Result<_, _>>().map(Value::list)
}

fn json_map<'a>(map: &Map<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let mut converted = BTreeMap::new();
    for (key, value) in map.entries() {
        let name = Native::String.convert(&key, meter)?;
        let value = Native::Json.convert(&value?, meter)?;
        if let Some(key) = name.key() {
            converted.insert(key, (name, value));
        }
    }
    Ok(Value::owned_map(converted))
}

/// What an `Any` holds: a message by its name, encoded.
fn unpack<'a>(fields: &Fields<'a>) -> Result<Value<'a>, EvalError> {
    let url = match fields.get("type_url") {
        Some(Value::String(url)) => url.as_str(),
        _ => "",
    };
    let bytes: &[u8] = match fields.get("value") {
        Some(Value::Bytes(bytes)) => bytes,
        _ => &[],
    };
    let held = named(url.rsplit('/').next().unwrap_or_default());
    held.and_then(|held| held.decode(bytes)).unwrap_or_else(|| {
        let mut shown = Vec::new();
        if !url.is_empty() {
            shown.push(format!("type_url:{}", go_quote(url)));
        }
        if !bytes.is_empty() {
            shown.push(format!("value:{}", go_quote(&String::from_utf8_lossy(bytes))));
        }
        let shown = shown.join("  ");
        Err(EvalError::new(format!("unsupported conversion to ref.Val: (*dynamicpb.Message){shown}")))
    })
}

enum Encoded<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
}

impl WellKnown {
    fn decode<'a>(&self, bytes: &[u8]) -> Option<Result<Value<'a>, EvalError>> {
        let mut fields = Fields::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            let encoded = match tag & 7 {
                0 => Encoded::Varint(varint(&mut rest)?),
                1 => Encoded::Fixed64(u64::from_le_bytes(fixed(&mut rest)?)),
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    let (bytes, after) = rest.split_at_checked(length)?;
                    rest = after;
                    Encoded::Bytes(bytes)
                }
                5 => Encoded::Fixed32(u32::from_le_bytes(fixed(&mut rest)?)),
                _ => return None,
            };
            let index = usize::try_from(tag >> 3).ok()?.checked_sub(1)?;
            // Fields of other numbers are nobody's.
            if let Some((name, native)) = self.fields.get(index) {
                fields.insert(name, native.decode(&encoded)?);
            }
        }
        // An Any within one is never looked into.
        (self.ty() != Type::Any).then(|| (self.make)(&fields))
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_at_checked(N)?;
    *rest = after;
    bytes.try_into().ok()
}
