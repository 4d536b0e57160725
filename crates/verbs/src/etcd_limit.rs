//! What etcd would refuse as too large is refused here, in the same words. It is measured as kube-apiserver
//! would send it: one transaction that compares the object's version and puts key and value, and within it
//! the value as it would be stored. That is protobuf for built-in kinds and JSON for custom resources, for
//! definitions and for APIServices.

use bytes::Bytes;
use serde_json::Value;
use sternpost_cache::Object;
use sternpost_meta::status::Status;
use sternpost_registry::object::FieldsMut;

use crate::{served::Served, verbs::Verbs};

/// What a request may be to etcd (`--max-request-bytes`).
pub const MAX_REQUEST_BYTES: usize = 3 * 1024 * 1024 / 2;

/// What a message may be to the client that kube-apiserver talks to etcd with.
pub const MAX_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// Whatever is smaller as JSON is not measured: nothing grows to [`MAX_REQUEST_BYTES`] from it.
const SURELY_SMALL_BYTES: usize = MAX_REQUEST_BYTES / 8;

/// What etcd puts around a transaction before it measures: the header with the request's id, of ten bytes
/// in one half of all clusters and of nine in the other, and the transaction's own length.
const ENVELOPE_BYTES: usize = 15;

/// The id of a lease, and its tag. What expires is put with one.
const LEASE_BYTES: usize = 10;

/// How large objects may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObjectSize {
    /// As large as etcd would let them be.
    #[default]
    AsInEtcd,
    /// As large as requests may be.
    Unlimited,
}

impl Verbs {
    /// The stored form of an object, and the object, as etcd would take them: what is too large with the
    /// owners of its fields is stored without them.
    pub(crate) async fn within_limit(
        &self,
        served: &Served,
        place: (&str, &str),
        (kept, mut object): (Bytes, Value),
        old: Option<&Object>,
    ) -> Result<(Bytes, Value), Status> {
        if self.check_size(served, place, &kept, old).is_ok() {
            return Ok((kept, object));
        }
        object.object_mut("metadata").remove("managedFields");
        let (kept, object) = self.kept(served, object).await?;
        self.check_size(served, place, &kept, old)?;
        Ok((kept, object))
    }

    /// Whether an object may be stored, in place of `old` if there is one. What is stored already, and is
    /// not made larger, may stay, however it came there.
    fn check_size(
        &self,
        served: &Served,
        place: (&str, &str),
        kept: &[u8],
        old: Option<&Object>,
    ) -> Result<(), Status> {
        if self.object_size == ObjectSize::Unlimited || kept.len() < SURELY_SMALL_BYTES {
            return Ok(());
        }
        let write = Write {
            key_bytes: key_bytes(served, place),
            value_bytes: value_bytes(served, kept),
            lease_bytes: if served.strategy.expires { LEASE_BYTES } else { 0 },
            revision: old.map_or(0, |old| old.revision.get()),
        };
        let checked = write.check();
        let is_no_larger = |old: &Object| write.value_bytes <= value_bytes(served, old.stored());
        if checked.is_err() && old.is_some_and(is_no_larger) { Ok(()) } else { checked }
    }
}

/// A write, as far as its size goes.
#[derive(Debug, Clone, Copy)]
struct Write {
    key_bytes: usize,
    value_bytes: usize,
    lease_bytes: usize,
    /// That of the object that is replaced, or 0.
    revision: u64,
}

impl Write {
    fn check(self) -> Result<(), Status> {
        let transaction = self.transaction_bytes();
        if transaction > MAX_MESSAGE_BYTES {
            return Err(Status::storage_error(&format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({transaction} vs. {MAX_MESSAGE_BYTES})"
            )));
        }
        if ENVELOPE_BYTES + varint_bytes(transaction) + transaction > MAX_REQUEST_BYTES {
            return Err(Status::storage_error("etcdserver: request is too large"));
        }
        Ok(())
    }

    /// A TxnRequest.
    fn transaction_bytes(self) -> usize {
        let key = field(self.key_bytes);
        let revision = usize::try_from(self.revision).unwrap_or(usize::MAX);
        // Whether the version is still the same; its comparison has two bytes.
        let compare = field(2 + key + 1 + varint_bytes(revision));
        let put = field(field(key + field(self.value_bytes) + self.lease_bytes));
        // Who replaces an object asks for the one that is there if it is another.
        let get = if self.revision == 0 { 0 } else { field(field(key)) };
        compare + put + get
    }
}

/// A field of so many bytes, with its tag and its length.
fn field(bytes: usize) -> usize {
    1 + varint_bytes(bytes) + bytes
}

fn varint_bytes(number: usize) -> usize {
    let bits = usize::BITS - number.leading_zeros();
    usize::try_from(bits.div_ceil(7).max(1)).unwrap_or_default()
}

/// `place` is namespace and name.
fn key_bytes(served: &Served, (namespace, name): (&str, &str)) -> usize {
    let namespace = if namespace.is_empty() { 0 } else { namespace.len() + 1 };
    "/registry/".len() + served.storage_prefix().len() + 1 + namespace + name.len()
}

/// The stored form of an object as etcd would hold it.
fn value_bytes(served: &Served, kept: &[u8]) -> usize {
    let Some(mut object) = sternpost_cache::value_of(kept) else { return kept.len() };
    object.set("kind", served.kind());
    object.set("apiVersion", served.stored_api_version());
    let encoded =
        if served.is_stored_as_protobuf() { sternpost_wire::object::encode(&object).ok() } else { None };
    // A line of its own, in JSON.
    encoded.map_or_else(|| json_bytes(&object) + 1, |encoded| encoded.len())
}

/// How much Go writes of a value as compact JSON: as everybody does, but for what could be taken for HTML
/// and for two separators of lines, of which each takes six bytes.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            let all: usize = fields.iter().map(|(key, value)| text_bytes(key) + 1 + json_bytes(value)).sum();
            2 + all + fields.len().saturating_sub(1)
        }
        Value::Array(items) => {
            2 + items.iter().map(json_bytes).sum::<usize>() + items.len().saturating_sub(1)
        }
        Value::String(text) => text_bytes(text),
        other => other.to_string().len(),
    }
}

fn text_bytes(text: &str) -> usize {
    let of_char = |char: char| match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..'\u{20}' => 6,
        other => other.len_utf8(),
    };
    2 + text.chars().map(of_char).sum::<usize>()
}
