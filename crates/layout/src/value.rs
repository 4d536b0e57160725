//! Values.

use bytes::Bytes;
use serde_json::{Map, Value};
use sternpost_golang::json::go_json;
use sternpost_meta::gvk::GroupVersionKind;
use sternpost_registry::kinds;
use sternpost_wire::object as wire;

use crate::{
    cbor, definition, go_order,
    key::{BuiltIn, EXTENSIONS, KeyError, Layout, parts},
};

/// What begins a value that is encrypted at rest.
pub(crate) const ENCRYPTED: &[u8] = b"k8s:enc:";

/// A value that is not understood. Nothing of it may be overwritten.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the value is encrypted")]
    Encrypted,
    #[error("the value is no object: {0}")]
    Cbor(#[from] cbor::CborError),
    #[error("the value is no object: {0}")]
    Protobuf(#[from] wire::DecodeError),
    #[error("the value is no object: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the value is a {found}, and this server reads {expected} there")]
    Kind { found: String, expected: String },
}

/// An object that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("what is stored is no object")]
    NotAnObject,
    #[error(transparent)]
    Protobuf(#[from] wire::EncodeError),
}

impl Layout {
    /// The bytes that kube-apiserver would have for a stored object.
    pub fn value(&self, our_key: &[u8], stored: &[u8]) -> Result<Bytes, WriteError> {
        // Also says whether it has any.
        self.key(our_key)?;
        let (group, plural, ..) = parts(our_key).ok_or(WriteError::NotAnObject)?;
        let Some(Value::Object(mut object)) = sternpost_cache::value_of(stored) else {
            return Err(WriteError::NotAnObject);
        };
        let mut named = |api_version: &str, kind: &str| {
            object.insert("apiVersion".to_owned(), api_version.into());
            object.insert("kind".to_owned(), kind.into());
        };
        match self.built_in(group, plural) {
            Some(BuiltIn { kind, form, is_protobuf: true, .. }) => {
                named(&kind.group_version().to_string(), &kind.kind);
                Ok(wire::encode_stored(&Value::Object(object), form)?.into())
            }
            Some(BuiltIn { kind, .. }) => {
                named(&kind.group_version().to_string(), &kind.kind);
                let value = if group == EXTENSIONS { definition::to_v1beta1(object) } else { object };
                Ok(line(go_order::write(&kind.group, &Value::Object(value))))
            }
            None => {
                let version = sternpost_cache::version_of(stored).ok_or(WriteError::NotAnObject)?;
                let kind = self.customs.kind(group, plural).ok_or(WriteError::NotAnObject)?;
                named(&format!("{group}/{version}"), &kind);
                Ok(line(go_json(&Value::Object(object))))
            }
        }
    }

    /// The object that kube-apiserver has as these bytes, as it is stored here. Of a custom object the definition need
    /// not be known: objects are also read before their definitions.
    pub fn stored(&self, our_key: &[u8], value: &[u8]) -> Result<Bytes, ReadError> {
        let (group, plural, ..) = parts(our_key).ok_or_else(|| KeyError::new(our_key))?;
        if value.starts_with(ENCRYPTED) {
            return Err(ReadError::Encrypted);
        }
        let object = match self.built_in(group, plural) {
            Some(BuiltIn { form, .. }) if value.starts_with(&wire::MAGIC) => {
                wire::decode_stored(value, form)?
            }
            _ if value.starts_with(cbor::MAGIC) => cbor::decode(value)?,
            _ => serde_json::from_slice(value)?,
        };
        let Value::Object(object) = object else {
            return Err(ReadError::Kind { found: "value".to_owned(), expected: "an object".to_owned() });
        };
        let text = |object: &Map<String, Value>, name| {
            object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (api_version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
        let unexpected =
            |expected: String| ReadError::Kind { found: format!("{api_version} {kind}"), expected };
        match self.built_in(group, plural) {
            Some(BuiltIn { kind: stored, form, served, .. }) => {
                let is = |version: &GroupVersionKind| {
                    (&*api_version, &*kind) == (&*version.group_version().to_string(), &*version.kind)
                };
                let conversion = || {
                    let other = served.iter().find(|version| is(version))?;
                    kinds::strategy(&other.group, &other.kind).conversion(&other.version)
                };
                let mut object = if is(stored) && group == EXTENSIONS {
                    Value::Object(definition::from_v1beta1(object))
                } else if is(stored) || is(form) {
                    Value::Object(object)
                } else if let Some(conversion) = conversion() {
                    (conversion.to_stored)(&Value::Object(object))
                } else {
                    return Err(unexpected(format!("{} {}", stored.group_version(), stored.kind)));
                };
                // As upstream: what was not said when it was written, or could not be said yet.
                (kinds::strategy(&form.group, &form.kind).default)(&mut object);
                Ok(sternpost_cache::encode(&object))
            }
            None => {
                let defined = self.customs.kind(group, plural);
                let is_kind = defined.as_ref().is_none_or(|defined| *defined == kind) && !kind.is_empty();
                match api_version.split_once('/') {
                    Some((found, version)) if found == group && is_kind => {
                        Ok(sternpost_cache::encode_in(&Value::Object(object.clone()), version))
                    }
                    _ => Err(unexpected(format!("{group} {}", defined.as_deref().unwrap_or("object")))),
                }
            }
        }
    }
}

/// Go's encoder ends what it writes.
fn line(mut json: String) -> Bytes {
    json.push('\n');
    json.into()
}
