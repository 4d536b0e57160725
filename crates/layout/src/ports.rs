//! Node ports: one value says which are taken.
//!
//! It is a `RangeAllocation`, which nobody is served: a range and a number whose bit n stands for the nth port of
//! the range. All else that it holds is kept as it is.

use std::{collections::BTreeSet, ops::RangeInclusive};

use bytes::Bytes;
use prost::Message;
use sternpost_registry::kinds::service::allocation;
use sternpost_wire::object::MAGIC;

/// As which a claim of a port is known here: group and plural. Its name is the port.
pub const PORT_CLAIMS: (&str, &str) = (allocation::GROUP, allocation::PORTS);

/// Where it is, below the prefix.
pub const NODE_PORTS: &str = "ranges/servicenodeports";

const API_VERSION: &str = "v1";
const KIND: &str = "RangeAllocation";
/// Metadata in which nothing is said, as Go writes it.
const NO_METADATA: &[u8] = b"\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0";

/// Which node ports are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    range: RangeInclusive<u16>,
    pub taken: BTreeSet<u16>,
    metadata: Bytes,
}

/// A value that is no such allocation. It may not be overwritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    #[error("the value is no {KIND}")]
    Unreadable,
    #[error("the range of ports is `{0}`")]
    Range(String),
    #[error("more ports are taken than the range has")]
    TooMany,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Envelope {
    #[prost(message, optional, tag = "1")]
    pub type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    raw: Option<Bytes>,
    #[prost(string, optional, tag = "3")]
    content_encoding: Option<String>,
    #[prost(string, optional, tag = "4")]
    content_type: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMeta {
    #[prost(string, optional, tag = "1")]
    pub api_version: Option<String>,
    #[prost(string, optional, tag = "2")]
    kind: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct RangeAllocation {
    #[prost(bytes = "bytes", optional, tag = "1")]
    metadata: Option<Bytes>,
    #[prost(string, optional, tag = "2")]
    range: Option<String>,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

impl Ports {
    /// None of them is taken.
    pub fn free(range: RangeInclusive<u16>) -> Self {
        Self { range, taken: BTreeSet::new(), metadata: Bytes::from_static(NO_METADATA) }
    }

    pub fn range(&self) -> &RangeInclusive<u16> {
        &self.range
    }

    pub fn read(value: &[u8]) -> Result<Self, PortsError> {
        let unreadable = |_| PortsError::Unreadable;
        let envelope = value.strip_prefix(&MAGIC).ok_or(PortsError::Unreadable)?;
        let envelope = Envelope::decode(envelope).map_err(unreadable)?;
        let kind = envelope.type_meta.unwrap_or_default();
        if (kind.api_version.as_deref(), kind.kind.as_deref()) != (Some(API_VERSION), Some(KIND)) {
            return Err(PortsError::Unreadable);
        }
        let raw = envelope.raw.unwrap_or_default();
        let RangeAllocation { metadata, range, data } = RangeAllocation::decode(raw).map_err(unreadable)?;
        let range = range.unwrap_or_default();
        let (first, last) = range
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?)))
            .filter(|(first, last)| first <= last)
            .ok_or(PortsError::Range(range))?;
        let mut taken = BTreeSet::new();
        // The last byte has the lowest bits.
        for (index, byte) in data.unwrap_or_default().iter().rev().enumerate() {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                let port = index.checked_mul(8).and_then(|at| usize::from(first).checked_add(at + bit));
                let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port <= last);
                taken.insert(port.ok_or(PortsError::TooMany)?);
            }
        }
        Ok(Self { range: first..=last, taken, metadata: metadata.unwrap_or_default() })
    }

    /// The bytes that kube-apiserver would have. What is not in the range is left out.
    pub fn value(&self) -> Bytes {
        let (first, last) = (*self.range.start(), *self.range.end());
        let mut data = Vec::new();
        for port in self.taken.range(first..=last) {
            let at = usize::from(port - first);
            if data.len() <= at / 8 {
                data.resize(at / 8 + 1, 0_u8);
            }
            if let Some(byte) = data.get_mut(at / 8) {
                *byte |= 1 << (at % 8);
            }
        }
        data.reverse();
        let allocation = RangeAllocation {
            metadata: Some(self.metadata.clone()),
            range: Some(format!("{first}-{last}")),
            data: Some(data),
        };
        let envelope = Envelope {
            type_meta: Some(TypeMeta {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some(KIND.to_owned()),
            }),
            raw: Some(allocation.encode_to_vec().into()),
            content_encoding: Some(String::new()),
            content_type: Some(String::new()),
        };
        [&MAGIC[..], &envelope.encode_to_vec()].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_go_has_them() {
        let mut ports = Ports::free(30_000..=32_767);
        assert_eq!(Ports::read(&ports.value()).as_ref(), Ok(&ports));
        for (taken, data) in [
            (&[30_000][..], &b"\x01"[..]),
            (&[30_007], b"\x80"),
            (&[30_008], b"\x01\0"),
            (&[30_001, 30_017], b"\x02\0\x02"),
        ] {
            ports.taken = taken.iter().copied().collect();
            let value = ports.value();
            let text = [&b"30000-32767\x1a"[..], &[u8::try_from(data.len()).unwrap()], data].concat();
            assert!(value.windows(text.len()).any(|part| part == text), "{taken:?}: {value:?}");
            assert_eq!(Ports::read(&value).as_ref(), Ok(&ports));
        }
        ports.taken = (30_000..=32_767).collect();
        assert_eq!(Ports::read(&ports.value()), Ok(ports));
    }

    #[test]
    fn what_is_no_allocation_is_refused() {
        let other = |range: &str, data: Vec<u8>| {
            let allocation =
                RangeAllocation { metadata: None, range: Some(range.to_owned()), data: Some(data) };
            let kind = |text: &str| Some(text.to_owned());
            let type_meta = Some(TypeMeta { api_version: kind(API_VERSION), kind: kind(KIND) });
            let raw = Some(allocation.encode_to_vec().into());
            let envelope = Envelope { type_meta, raw, content_encoding: None, content_type: None };
            Ports::read(&[&MAGIC[..], &envelope.encode_to_vec()].concat())
        };
        assert_eq!(other("10.0.0.0/24", vec![]), Err(PortsError::Range("10.0.0.0/24".into())));
        assert_eq!(other("9-8", vec![]), Err(PortsError::Range("9-8".into())));
        assert_eq!(other("30000-30003", vec![0x10]), Err(PortsError::TooMany));
        assert_eq!(other("65530-65535", vec![0x40]), Err(PortsError::TooMany));
        assert_eq!(other("65530-65535", vec![1; 1 << 16]), Err(PortsError::TooMany));
        for value in [&b""[..], b"{}", b"k8s\0\xff", b"k8s\0"] {
            assert_eq!(Ports::read(value), Err(PortsError::Unreadable));
        }
    }
}
