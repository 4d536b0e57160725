//! How one message is described. The descriptions themselves, one per message
//! of the public `.proto` files, stand in `v2.rs` and `v3.rs`; encoder and
//! decoder are the same for both.

/// How a JSON value and a protobuf message stand for each other.
#[derive(Debug)]
pub(super) enum Message {
    /// A JSON object; each key is a field or an entry of a repeated field.
    Record { required: &'static [&'static str], fields: &'static [Field], unknown: Unknown },
    /// A protobuf `oneof` of messages. The first alternative that fits is taken.
    OneOf(&'static [Alternative]),
    /// A message (field 1) or a boolean (field 2).
    BooleanOr(&'static Message),
    /// `repeated X = 1`, written in JSON as one X or as a list of them.
    OneOrMany(&'static Message),
    /// `repeated string value = 1`, written in JSON as a string or as a list.
    StringOrStrings,
    /// `repeated string value = 1`, written in JSON as a list.
    Strings,
    /// Any JSON value, as YAML text (field 2).
    Any,
    /// A number (field 1), boolean (field 2) or string (field 3). Any other
    /// JSON value is an empty message.
    Scalar,
    /// `Any` (field 1) or a message of named values (field 2). Readers accept
    /// both; only the second is ever written, as every value fits it.
    AnyOrExpression(&'static Message),
}

pub(super) static ANY: Message = Message::Any;

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) kind: Kind,
    /// The values a closed string field may take; empty for an open one.
    pub(super) allowed: &'static [&'static str],
}

#[derive(Debug)]
pub(super) enum Kind {
    String(&'static str),
    Strings(&'static str),
    Boolean(&'static str),
    Integer(&'static str),
    Double(&'static str),
    Message(&'static str, &'static Message),
    Messages(&'static str, &'static Message),
    /// Every key that matches becomes one `{name = 1, value = 2}` entry.
    Named(Keys, &'static Message),
    NamedStrings(Keys),
}

/// Which keys of an object belong to a `repeated NamedX` field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    Every,
    /// `x-…`
    Extension,
    NotExtension,
    /// `/…`
    Path,
    /// Three digits, each of which may be `X`.
    ResponseCode,
    /// Three digits, or `default`.
    ResponseCodeOrDefault,
}

/// What happens to a key that no field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Reject,
    /// Only beside `$ref`, where siblings have no meaning.
    Drop,
}

#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) number: u32,
    pub(super) when: When,
    pub(super) message: &'static Message,
}

#[derive(Debug)]
pub(super) enum When {
    HasRef,
    /// Each key has exactly this string as its value.
    Equals(&'static [(&'static str, &'static str)]),
    Otherwise,
}

impl Keys {
    pub(super) fn admit(self, key: &str) -> bool {
        let code = |digit: fn(&u8) -> bool| key.len() == 3 && key.as_bytes().iter().all(digit);
        match self {
            Keys::Every => true,
            Keys::Extension => key.starts_with("x-"),
            Keys::NotExtension => !key.starts_with("x-"),
            Keys::Path => key.starts_with('/'),
            Keys::ResponseCode => code(|b| b.is_ascii_digit() || *b == b'X'),
            Keys::ResponseCodeOrDefault => key == "default" || code(u8::is_ascii_digit),
        }
    }
}

impl Field {
    pub(super) fn takes(&self, key: &str) -> bool {
        match self.kind {
            Kind::Named(keys, _) | Kind::NamedStrings(keys) => keys.admit(key),
            Kind::String(name)
            | Kind::Strings(name)
            | Kind::Boolean(name)
            | Kind::Integer(name)
            | Kind::Double(name)
            | Kind::Message(name, _)
            | Kind::Messages(name, _) => name == key,
        }
    }

    pub(super) const fn one_of(mut self, allowed: &'static [&'static str]) -> Self {
        self.allowed = allowed;
        self
    }
}

pub(super) const fn record(required: &'static [&'static str], fields: &'static [Field]) -> Message {
    Message::Record { required, fields, unknown: Unknown::Reject }
}

pub(super) const fn reference(required: &'static [&'static str], fields: &'static [Field]) -> Message {
    Message::Record { required, fields, unknown: Unknown::Drop }
}

const fn field(number: u32, kind: Kind) -> Field {
    Field { number, kind, allowed: &[] }
}

pub(super) const fn string(number: u32, key: &'static str) -> Field {
    field(number, Kind::String(key))
}

pub(super) const fn strings(number: u32, key: &'static str) -> Field {
    field(number, Kind::Strings(key))
}

pub(super) const fn boolean(number: u32, key: &'static str) -> Field {
    field(number, Kind::Boolean(key))
}

pub(super) const fn integer(number: u32, key: &'static str) -> Field {
    field(number, Kind::Integer(key))
}

pub(super) const fn double(number: u32, key: &'static str) -> Field {
    field(number, Kind::Double(key))
}

pub(super) const fn message(number: u32, key: &'static str, message: &'static Message) -> Field {
    field(number, Kind::Message(key, message))
}

pub(super) const fn messages(number: u32, key: &'static str, message: &'static Message) -> Field {
    field(number, Kind::Messages(key, message))
}

pub(super) const fn named(number: u32, keys: Keys, message: &'static Message) -> Field {
    field(number, Kind::Named(keys, message))
}

pub(super) const fn named_strings(number: u32, keys: Keys) -> Field {
    field(number, Kind::NamedStrings(keys))
}

pub(super) const fn extensions(number: u32) -> Field {
    field(number, Kind::Named(Keys::Extension, &ANY))
}

pub(super) const fn alternative(number: u32, when: When, message: &'static Message) -> Alternative {
    Alternative { number, when, message }
}
