//! What a value looks like, whether this server reads it or not.

use prost::Message;
use serde_json::{Map, Value};
use sternpost_wire::object::MAGIC;

use crate::{cbor, ports::Envelope, value::ENCRYPTED};

/// In which form a value is, as its first bytes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredForm {
    /// By whom: provider and name of the key, such as `aescbc` and `key1`.
    Encrypted {
        provider: String,
        key: String,
    },
    /// With the version that it says it has, such as `apps/v1`.
    Protobuf {
        api_version: String,
    },
    Json {
        api_version: String,
    },
    Cbor,
    Unknown,
}

impl StoredForm {
    pub fn of(value: &[u8]) -> Self {
        if let Some(rest) = value.strip_prefix(ENCRYPTED) {
            // PROVIDER:VERSION:KEY:
            let mut parts =
                rest.split(|byte| *byte == b':').map(|part| String::from_utf8_lossy(part).into_owned());
            let (provider, _, key) = (parts.next(), parts.next(), parts.next());
            // What follows is encrypted, if there is no key.
            let key = key.filter(|_| parts.next().is_some());
            return Self::Encrypted { provider: provider.unwrap_or_default(), key: key.unwrap_or_default() };
        }
        if value.starts_with(cbor::MAGIC) {
            return Self::Cbor;
        }
        if let Some(envelope) = value.strip_prefix(&MAGIC) {
            let kind = Envelope::decode(envelope).ok().and_then(|envelope| envelope.type_meta);
            let api_version = kind.and_then(|kind| kind.api_version);
            return api_version.map_or(Self::Unknown, |api_version| Self::Protobuf { api_version });
        }
        match serde_json::from_slice::<Map<String, Value>>(value) {
            Ok(object) => {
                let api_version =
                    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
                Self::Json { api_version }
            }
            Err(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_known_by_their_first_bytes() {
        let encrypted =
            |provider: &str, key: &str| StoredForm::Encrypted { provider: provider.into(), key: key.into() };
        for (value, form) in [
            (&b"k8s:enc:aescbc:v1:key1:\xff:\xff"[..], encrypted("aescbc", "key1")),
            (b"k8s:enc:kms:v2:vault:\x01", encrypted("kms", "vault")),
            (b"k8s:enc:", encrypted("", "")),
            (b"k8s:enc:\xff:v1:\xff\xff", encrypted("\u{fffd}", "")),
            (b"k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12\0", StoredForm::Protobuf { api_version: "v1".into() }),
            (b"k8s\0\xff\xff", StoredForm::Unknown),
            (b"k8s\0", StoredForm::Unknown),
            (b"{\"kind\":\"A\",\"apiVersion\":\"b/v1\"}\n", StoredForm::Json { api_version: "b/v1".into() }),
            (b"{}", StoredForm::Json { api_version: String::new() }),
            (b"\xd9\xd9\xf7\xa0", StoredForm::Cbor),
            (b"", StoredForm::Unknown),
            (b"text", StoredForm::Unknown),
        ] {
            assert_eq!(StoredForm::of(value), form, "{value:?}");
        }
    }
}
