//! What stands around a message: the magic bytes and `runtime.Unknown`, lists
//! written item by item, and the frames of a watch.

use serde_json::Value;
use sternpost_meta::gvk::{GroupVersion, GroupVersionKind};

use super::{
    CATALOGUE, DecodeError, EncodeError, MAGIC,
    decode::{self, Wire},
    descriptor::{Descriptor, Field},
    encode::{self, text, varint, varint_size},
};

/// One event of a watch; the object is in its envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEvent<'b> {
    pub kind: &'b str,
    pub object: &'b [u8],
}

pub(super) fn decode(
    bytes: &[u8],
    expected: Option<&GroupVersionKind>,
    form: Option<&GroupVersionKind>,
) -> Result<Value, DecodeError> {
    let envelope = open(bytes)?;
    let kind = match (envelope.kind, expected) {
        ("", Some(expected)) => &*expected.kind,
        (kind, _) => kind,
    };
    let api_version = match (envelope.api_version, expected) {
        ("", Some(expected)) => expected.group_version().to_string(),
        (api_version, _) => api_version.to_owned(),
    };
    if kind.is_empty() {
        return Err(DecodeError::Unnamed("kind"));
    }
    let Some(descriptor) = descriptor(&api_version, kind, form) else {
        if api_version.is_empty() {
            return Err(DecodeError::Unnamed("apiVersion"));
        }
        return Err(DecodeError::UnknownKind { api_version, kind: kind.to_owned() });
    };
    let mut object = decode::message(descriptor, envelope.message)?;
    if let Value::Object(members) = &mut object {
        members.insert("kind".to_owned(), kind.into());
        if !api_version.is_empty() {
            members.insert("apiVersion".to_owned(), api_version.into());
        }
    }
    Ok(object)
}

/// The message of a kind; that of `form` for another version of it that has none.
fn descriptor(api_version: &str, kind: &str, form: Option<&GroupVersionKind>) -> Option<&'static Descriptor> {
    let same_kind = |form: &&GroupVersionKind| {
        let (group, _) = GroupVersion::split(api_version);
        (group, kind) == (&*form.group, &*form.kind)
    };
    let other = || CATALOGUE.by_kind(&form.filter(same_kind)?.group_version().to_string(), kind);
    CATALOGUE.by_kind(api_version, kind).or_else(other)
}

pub(super) fn encode(object: &Value, form: Option<&GroupVersionKind>) -> Result<Vec<u8>, EncodeError> {
    let Named { api_version, kind, descriptor } = Named::of(object, form)?;
    let mut message = Vec::new();
    encode::message(descriptor, object, &mut message)?;
    let mut out = Vec::with_capacity(message.len() + api_version.len() + kind.len() + 32);
    head(&mut out, api_version, kind, message.len());
    out.extend_from_slice(&message);
    out.extend_from_slice(&TAIL);
    Ok(out)
}

/// What an object says it is.
struct Named<'v> {
    api_version: &'v str,
    kind: &'v str,
    descriptor: &'static Descriptor,
}

impl<'v> Named<'v> {
    fn of(object: &'v Value, form: Option<&GroupVersionKind>) -> Result<Self, EncodeError> {
        let Value::Object(members) = object else { return Err(EncodeError::NotAnObject) };
        let name = |member: &'static str| match members.get(member) {
            Some(Value::String(name)) => Ok(name.as_str()),
            Some(Value::Null) | None => Ok(""),
            Some(_) => Err(EncodeError::Unnamed(member)),
        };
        let (api_version, kind) = (name("apiVersion")?, name("kind")?);
        let Some(descriptor) = descriptor(api_version, kind, form) else {
            return Err(match (api_version, kind) {
                (_, "") => EncodeError::Unnamed("kind"),
                ("", _) => EncodeError::Unnamed("apiVersion"),
                _ => EncodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() },
            });
        };
        Ok(Self { api_version, kind, descriptor })
    }
}

/// A list in its envelope, written item by item: [`ListWriter::head`], every
/// [`ListWriter::item`], then [`ListWriter::TAIL`] are the bytes of [`encode()`].
#[derive(Debug)]
pub struct ListWriter {
    api_version: String,
    kind: String,
    /// What the message says before its items.
    metadata: Vec<u8>,
    items: &'static Field,
}

impl ListWriter {
    pub const TAIL: [u8; 4] = TAIL;

    /// `list` is the list without its items.
    pub fn new(list: &Value) -> Result<Self, EncodeError> {
        let Named { api_version, kind, descriptor } = Named::of(list, None)?;
        // Behind everything else, as in all lists: what is before them is the message of an empty list.
        let items = descriptor.fields.last().filter(|field| &*field.name == "items");
        let items = items.ok_or_else(|| EncodeError::UnknownMessage(descriptor.name.to_string()))?;
        let mut metadata = Vec::new();
        encode::message(descriptor, list, &mut metadata)?;
        Ok(Self { api_version: api_version.to_owned(), kind: kind.to_owned(), metadata, items })
    }

    /// Everything before the items, which take `size` bytes in all.
    pub fn head(&self, size: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.metadata.len() + self.api_version.len() + self.kind.len() + 32);
        head(&mut out, &self.api_version, &self.kind, self.metadata.len() + size);
        out.extend_from_slice(&self.metadata);
        out
    }

    /// Appends an item, with its length before it.
    pub fn item(&self, index: usize, item: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode::list_item(self.items, index, item, out)
    }
}

/// One event of a watch (`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`)
/// with its frame: the length in four bytes, big end first, then
/// `meta.v1.WatchEvent` around the object in its envelope.
pub fn encode_watch_event(kind: &str, object_envelope: &[u8]) -> Vec<u8> {
    let raw = 1 + varint_size(object_envelope.len() as u64) + object_envelope.len();
    let mut out = vec![0; 4];
    out.reserve(kind.len() + raw + 16);
    text(&mut out, 1, kind.as_bytes());
    out.push(OBJECT_KEY);
    varint(&mut out, raw as u64);
    text(&mut out, 1, object_envelope);
    // An object that large has been refused long before.
    let size = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    for (place, byte) in out.iter_mut().zip(size.to_be_bytes()) {
        *place = byte;
    }
    out
}

/// The first event of a stream and what follows it; `None` if its frame is
/// not all there yet.
pub fn decode_watch_event(stream: &[u8]) -> Result<Option<(WatchEvent<'_>, &[u8])>, DecodeError> {
    let Some((size, rest)) = stream.split_first_chunk::<4>() else { return Ok(None) };
    let size = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
    let Some((frame, rest)) = rest.split_at_checked(size) else { return Ok(None) };
    let mut event = WatchEvent { kind: "", object: &[] };
    let mut fields = Wire(frame);
    while let Some(field) = fields.field()? {
        match field.number {
            1 => event.kind = field.string()?,
            2 => {
                let mut extension = Wire(field.bytes()?);
                while let Some(field) = extension.field()? {
                    if field.number == 1 {
                        event.object = field.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Some((event, rest)))
}

/// `contentEncoding` and `contentType`, which are empty and yet written.
const TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];
/// Field 2, with a length.
const MESSAGE_KEY: u8 = 0x12;
const OBJECT_KEY: u8 = 0x12;

fn head(out: &mut Vec<u8>, api_version: &str, kind: &str, size: usize) {
    let mut names = Vec::with_capacity(api_version.len() + kind.len() + 8);
    text(&mut names, 1, api_version.as_bytes());
    text(&mut names, 2, kind.as_bytes());
    out.extend_from_slice(&MAGIC);
    text(out, 1, &names);
    out.push(MESSAGE_KEY);
    varint(out, size as u64);
}

struct Envelope<'b> {
    api_version: &'b str,
    kind: &'b str,
    message: &'b [u8],
}

fn open(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let rest = bytes.strip_prefix(&MAGIC).filter(|rest| !rest.is_empty()).ok_or(DecodeError::Magic)?;
    let mut envelope = Envelope { api_version: "", kind: "", message: &[] };
    let mut fields = Wire(rest);
    while let Some(field) = fields.field()? {
        match field.number {
            1 => {
                let mut names = Wire(field.bytes()?);
                while let Some(field) = names.field()? {
                    match field.number {
                        1 => envelope.api_version = field.string()?,
                        2 => envelope.kind = field.string()?,
                        _ => {}
                    }
                }
            }
            2 => envelope.message = field.bytes()?,
            3 | 4 => {
                field.bytes()?;
            }
            _ => {}
        }
    }
    Ok(envelope)
}
