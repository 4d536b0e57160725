//! What kube-apiserver 1.36.4 had in its etcd, below `/registry/`: read, and written again as the same bytes.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sternpost_layout::{Customs, Layout, NODE_PORTS, Ports, ReadError};
use sternpost_testkit::etcd::{recorded, recorded_kind};

const RECORDED: &str = include_str!("recorded/kube-apiserver-1.36.4.tsv");

struct Sea;

impl Customs for Sea {
    fn kind(&self, group: &str, plural: &str) -> Option<String> {
        recorded_kind(group, plural)
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
        (b"\xd9\xd9\xf7\xa0", "the value is a  , and this server reads v1 ConfigMap there"),
        (b"\xd9\xd9\xf7\xa1", "the value is no object: "),
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
        let error = stored(value).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    for damaged in [&b""[..], b"{", b"k8s\0\xff", b"k8s\0"] {
        assert!(stored(damaged).is_err(), "{damaged:?}");
    }
    let other = layout.stored(b"sea.example/buoys/a/b", br#"{"apiVersion":"sea.example/v1","kind":"Light"}"#);
    assert!(matches!(other, Err(ReadError::Kind { .. })));
    let old = br#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1beta3","kind":"FlowSchema"}"#;
    let old = layout.stored(b"flowcontrol.apiserver.k8s.io/flowschemas//old", old);
    assert!(matches!(old, Err(ReadError::Kind { .. })));
    assert!(layout.value(b"internal.sternpost/serviceports//30080", b"").is_err());
    assert!(layout.value(b"/configmaps/a/b", b"").is_err());
}

/// What kube-apiserver 1.36.4 reads as well: of a version that it serves and does not store, which it answered a client
/// as protobuf, and CBOR, which it stores with `CBORServingAndStorage`.
#[test]
fn values_in_other_versions_and_forms_are_read() {
    const AUTOSCALER_V1: &str = "azhzAAopCg5hdXRvc2NhbGluZy92MRIXSG9yaXpvbnRhbFBvZEF1dG9zY2FsZXISrQMKggMKAWgSABoHZGVmYXVsdCIAKiRhZjk3ZDRkMS05NWZmLTQxM2EtOWI2NS01NTY5MThlOWQ3OWUyAzIwOTgAQggIwfjz1wYQAGJ7CidhdXRvc2NhbGluZy5hbHBoYS5rdWJlcm5ldGVzLmlvL21ldHJpY3MSUFt7InR5cGUiOiJSZXNvdXJjZSIsInJlc291cmNlIjp7Im5hbWUiOiJtZW1vcnkiLCJ0YXJnZXRBdmVyYWdlVXRpbGl6YXRpb24iOjYwfX1digG6AQoEY3VybBIGVXBkYXRlGg5hdXRvc2NhbGluZy92MiIICMH489cGEAAyCEZpZWxkc1YxOoMBCoABeyJmOnNwZWMiOnsiZjptYXhSZXBsaWNhcyI6e30sImY6bWV0cmljcyI6e30sImY6bWluUmVwbGljYXMiOnt9LCJmOnNjYWxlVGFyZ2V0UmVmIjp7ImY6YXBpVmVyc2lvbiI6e30sImY6a2luZCI6e30sImY6bmFtZSI6e319fX1CABIgChgKCkRlcGxveW1lbnQSAWQaB2FwcHMvdjEQARgDIDIaBBgAIAAaACIA";
    const BUOY: &str = "2dn3pERraW5kREJ1b3lEc3BlY6lBZvk+AEFsgwFBYaBBbaBBbgFBc0lncsO8biAieCJBdPVBevZDYmlnGwAgAAAAAAABQ25lZyRIbWV0YWRhdGGnQ3VpZFgkMmU2YzhiYTgtMjBhNy00OGQ1LWE5NmEtMTFhMjc2Nzc5M2Q2RG5hbWVDcmVkRmxhYmVsc6FBYUFiSW5hbWVzcGFjZUdkZWZhdWx0SmdlbmVyYXRpb24BTW1hbmFnZWRGaWVsZHOBpkR0aW1lVDIwMjYtMTEtMThUMDE6MTU6NDVaR21hbmFnZXJEY3VybEhmaWVsZHNWMaJGZjpzcGVjqkEuoENmOmagQ2Y6bKBDZjptoENmOm6gQ2Y6c6BDZjp0oENmOnqgRWY6YmlnoEVmOm5lZ6BKZjptZXRhZGF0YaFIZjpsYWJlbHOiQS6gQ2Y6YaBJb3BlcmF0aW9uRlVwZGF0ZUphcGlWZXJzaW9uTnNlYS5leGFtcGxlL3YxSmZpZWxkc1R5cGVIRmllbGRzVjFRY3JlYXRpb25UaW1lc3RhbXBUMjAyNi0xMS0xOFQwMToxNTo0NVpKYXBpVmVyc2lvbk5zZWEuZXhhbXBsZS92MQ==";
    let layout = Layout::new(Arc::new(Sea));
    let read = |key: &str, value: &[u8]| -> Value {
        let stored = layout.stored(key.as_bytes(), value).unwrap_or_else(|error| panic!("{key}: {error}"));
        sternpost_cache::value_of(&stored).unwrap()
    };
    let found =
        read("autoscaling/horizontalpodautoscalers/default/h", &STANDARD.decode(AUTOSCALER_V1).unwrap());
    let utilization = |metric: &Value| {
        let resource = &metric["resource"];
        (resource["name"].clone(), resource["target"]["averageUtilization"].clone())
    };
    let metrics: Vec<_> = found["spec"]["metrics"].as_array().unwrap().iter().map(utilization).collect();
    assert_eq!(metrics, [(json!("memory"), json!(60)), (json!("cpu"), json!(50))]);
    assert_eq!(found["metadata"].get("annotations"), None);

    let found = read("sea.example/buoys/default/red", &STANDARD.decode(BUOY).unwrap());
    assert_eq!(found["metadata"]["labels"], json!({"a": "b"}));
    let spec = json!({"big": 9_007_199_254_740_993_i64, "f": 1.5, "l": [1, "a", {}], "m": {}, "n": 1, "neg": -5,
        "s": "grün \"x\"", "t": true, "z": null});
    assert_eq!(found["spec"], spec);

    // Served and stored are not the same here, and have the same fields.
    for (key, version, kind) in [
        (
            "apiextensions.k8s.io/customresourcedefinitions//b.c",
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
        ),
        (
            "admissionregistration.k8s.io/mutatingadmissionpolicies//p",
            "admissionregistration.k8s.io/v1",
            "MutatingAdmissionPolicy",
        ),
        ("/events/default/e", "events.k8s.io/v1", "Event"),
        ("/configmaps/default/c", "v1", "ConfigMap"),
    ] {
        let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "n"}, "spec": {"versions": [], "group": "c"}});
        assert_eq!(read(key, value.to_string().as_bytes())["metadata"]["name"], "n", "{key}");
    }
}
