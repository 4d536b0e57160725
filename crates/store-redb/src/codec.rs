//! Records as bytes, as `FORMAT.md` has them.

use bytes::Bytes;
use sternpost_store::{Revision, load::Version};

pub const FORMAT_VERSION: u32 = 1;
const FORMAT_NAME: &[u8] = b"sternpost-store";

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// The `state` record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub revision: Revision,
    pub compacted: Revision,
    pub reserved: Revision,
    pub records: u64,
}

/// The version; `None` if this is not our mark.
pub fn decode_format(bytes: &[u8]) -> Option<u32> {
    bytes.strip_prefix(FORMAT_NAME)?.try_into().ok().map(u32::from_be_bytes)
}

pub fn decode_state(bytes: &[u8]) -> Option<State> {
    let mut rest = unsealed(&[], bytes)?;
    let state = State {
        revision: take_revision(&mut rest)?,
        compacted: take_revision(&mut rest)?,
        reserved: take_revision(&mut rest)?,
        records: take_u64(&mut rest)?,
    };
    let ordered = state.compacted <= state.revision && state.revision <= state.reserved;
    (rest.is_empty() && ordered).then_some(state)
}

/// `None` if the bytes are not what was written.
pub fn decode_version(key: &[u8], value: &[u8]) -> Option<Version> {
    let mut rest = unsealed(key, value)?;
    let mut name = key;
    let revision = take_revision(&mut name)?;
    let (kind, after_kind) = rest.split_first()?;
    rest = after_kind;
    let created = take_revision(&mut rest)?;
    let time = take_u64(&mut rest)?;
    let value = match *kind {
        PUT => Some(Bytes::copy_from_slice(rest)),
        DELETE if rest.is_empty() => None,
        _ => return None,
    };
    (!name.is_empty()).then(|| Version { revision, key: Bytes::copy_from_slice(name), created, time, value })
}

fn unsealed<'a>(prefix: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, expected) = bytes.split_last_chunk()?;
    (checksum(prefix, bytes) == u32::from_be_bytes(*expected)).then_some(bytes)
}

fn checksum(prefix: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(prefix);
    hasher.update(bytes);
    hasher.finalize()
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

fn take_revision(bytes: &mut &[u8]) -> Option<Revision> {
    take_u64(bytes).and_then(Revision::new)
}

#[cfg(test)]
mod tests {
    use sternpost_store::{Entry, Event, watch::Batch};

    use super::*;

    fn encode_format() -> Vec<u8> {
        [FORMAT_NAME, &FORMAT_VERSION.to_be_bytes()].concat()
    }

    fn encode_state(state: &State) -> Vec<u8> {
        let numbers = [state.revision.get(), state.compacted.get(), state.reserved.get(), state.records];
        sealed(&[], numbers.map(u64::to_be_bytes).concat())
    }

    fn version_key(revision: Revision, key: &[u8]) -> Vec<u8> {
        [&revision.get().to_be_bytes(), key].concat()
    }

    /// Key and value of the record for an event.
    fn encode_event(batch: &Batch, event: &Event) -> (Vec<u8>, Vec<u8>) {
        let (kind, created, value) = match event {
            Event::Put { entry, .. } => (PUT, entry.created, entry.value()),
            Event::Delete { previous } => (DELETE, previous.created, &[][..]),
        };
        let key = version_key(batch.revision, event.key());
        let mut bytes = Vec::with_capacity(1 + 8 + 8 + value.len() + 4);
        bytes.push(kind);
        bytes.extend_from_slice(&created.get().to_be_bytes());
        bytes.extend_from_slice(&batch.time.to_be_bytes());
        bytes.extend_from_slice(value);
        let value = sealed(&key, bytes);
        (key, value)
    }

    /// Appends the checksum over a prefix that is stored elsewhere and the bytes.
    fn sealed(prefix: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.extend_from_slice(&checksum(prefix, &bytes).to_be_bytes());
        bytes
    }

    fn revision(number: u64) -> Revision {
        Revision::new(number).unwrap()
    }

    fn entry(value: &'static str) -> Entry {
        Entry::new("a/b", value, revision(3), revision(7))
    }

    #[test]
    fn records_read_back_as_written_and_no_changed_byte_goes_unnoticed() {
        let events = [
            (Event::Put { entry: entry("value"), previous: None }, Some("value")),
            (Event::Put { entry: entry(""), previous: None }, Some("")),
            (Event::Delete { previous: entry("value") }, None),
        ];
        for (event, value) in events {
            let batch = Batch { revision: revision(7), time: 1234, events: vec![event.clone()] };
            let (key, bytes) = encode_event(&batch, &event);
            let expected = Version {
                revision: revision(7),
                key: "a/b".into(),
                created: revision(3),
                time: 1234,
                value: value.map(Bytes::from),
            };
            assert_eq!(decode_version(&key, &bytes), Some(expected));
            check_damage(&bytes, |bytes| decode_version(&key, bytes).is_some());
            check_damage(&key, |key| decode_version(key, &bytes).is_some());
        }
    }

    #[test]
    fn state_reads_back_as_written_and_only_in_order() {
        let state = |compacted, last, reserved| State {
            revision: revision(last),
            compacted: revision(compacted),
            reserved: revision(reserved),
            records: 9,
        };
        let good = state(2, 5, 5);
        assert_eq!(decode_state(&encode_state(&good)), Some(good));
        check_damage(&encode_state(&good), |bytes| decode_state(bytes).is_some());
        for wrong in [state(6, 5, 5), state(2, 5, 4)] {
            assert_eq!(decode_state(&encode_state(&wrong)), None);
        }
    }

    #[test]
    fn the_format_mark_names_its_version() {
        assert_eq!(decode_format(&encode_format()), Some(FORMAT_VERSION));
        assert_eq!(decode_format(b"sternpost-store\0\0\0\x02"), Some(2));
        for other in
            [&b""[..], b"sternpost-store", b"another-store\0\0\0\x01", b"sternpost-store\0\0\0\x01\0"]
        {
            assert_eq!(decode_format(other), None);
        }
    }

    fn check_damage(bytes: &[u8], accepts: impl Fn(&[u8]) -> bool) {
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.to_vec();
                damaged[index] ^= 1 << bit;
                assert!(!accepts(&damaged), "byte {index} bit {bit}");
            }
            assert!(!accepts(&bytes[..index]), "cut at {index}");
        }
    }
}
