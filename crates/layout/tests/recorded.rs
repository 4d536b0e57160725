//! What kube-apiserver 1.36.4 had in its etcd, below `/registry/`: read, and written again as the same bytes.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use sternpost_layout::{Customs, Layout, NODE_PORTS, Ports, ReadError};
use sternpost_testkit::etcd::recorded;

const RECORDED: &str = include_str!("recorded/kube-apiserver-1.36.4.tsv");

struct Sea;

impl Customs for Sea {
    fn kind(&self, group: &str, plural: &str) -> Option<String> {
        let kind = match (group, plural) {
            ("sea.example", "buoys") => "Buoy",
            ("sea.example", "lights") => "Light",
            ("sea.example", "tides") => "Tide",
            _ => return None,
        };
        Some(kind.to_owned())
    }
}

#[test]
fn what_was_recorded_is_written_again_as_the_same_bytes() {
    let layout = Layout::new(Arc::new(Sea));
    let mut problems = Vec::new();
    for (key, value) in recorded(RECORDED) {
        let Some(ours) = layout.our_key(key.as_bytes()) else {
            assert_eq!(key, NODE_PORTS);
            let ports = Ports::read(&value).unwrap();
            assert_eq!((ports.range(), ports.taken.len()), (&(30_000..=32_767), 1));
            assert_eq!(ports.value(), value);
            continue;
        };
        assert_eq!(layout.key(&ours).as_deref(), Ok(key.as_bytes()));
        let again = layout.stored(&ours, &value).map(|stored| layout.value(&ours, &stored));
        match again {
            Ok(Ok(again)) if again == value => {}
            Ok(Ok(again)) => problems.push(format!(
                "{key}\n  {}\n  {}",
                String::from_utf8_lossy(&value),
                String::from_utf8_lossy(&again)
            )),
            Ok(Err(error)) => problems.push(format!("{key}: {error}")),
            Err(error) => problems.push(format!("{key}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let layout = Layout::new(Arc::new(Sea));
    let stored = |value: &[u8]| layout.stored(b"/configmaps/a/b", value).map_err(|error| error.to_string());
    for (value, expected) in [
        (&b"k8s:enc:aescbc:v1:key1:xyz"[..], "the value is encrypted"),
        (b"\xd9\xd9\xf7\xa0", "the value is CBOR"),
        (
            br#"{"apiVersion":"v2","kind":"ConfigMap"}"#,
            "the value is a v2 ConfigMap, and this server reads v1 ConfigMap there",
        ),
        (
            br#"{"apiVersion":"v1","kind":"Secret"}"#,
            "the value is a v1 Secret, and this server reads v1 ConfigMap there",
        ),
        (b"[]", "the value is a value, and this server reads an object there"),
    ] {
        assert_eq!(stored(value).unwrap_err(), expected);
    }
    for damaged in [&b""[..], b"{", b"k8s\0\xff", b"k8s\0"] {
        assert!(stored(damaged).is_err(), "{damaged:?}");
    }
    let other = layout.stored(b"sea.example/buoys/a/b", br#"{"apiVersion":"sea.example/v1","kind":"Light"}"#);
    assert!(matches!(other, Err(ReadError::Kind { .. })));
    assert!(layout.value(b"internal.sternpost/serviceports//30080", b"").is_err());
    assert!(layout.value(b"/configmaps/a/b", b"").is_err());
}
