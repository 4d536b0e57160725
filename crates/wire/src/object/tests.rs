use serde_json::{Value, json};
use sternpost_meta::{
    cancel::{Cancel, Cancelled, scope},
    gvk::GroupVersionKind,
};

use super::*;

const CORE: &str = "io.k8s.api.core.v1";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

fn read(message: &str, bytes: &[u8]) -> Result<Value, DecodeError> {
    decode_message(message, bytes)
}

#[test]
fn a_config_map_is_these_bytes() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let metadata = b"\x0a\x01a\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00";
    let mut bytes = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1b\x0a\x11".to_vec();
    bytes.extend_from_slice(metadata);
    bytes.extend_from_slice(b"\x12\x06\x0a\x01k\x12\x01v\x1a\x00\x22\x00");
    assert_eq!(encode(&object).unwrap(), bytes);
    assert_eq!(decode(&bytes, None).unwrap(), object);
}

#[test]
fn fields_read_as_protobuf_says() {
    for (message, bytes, expected) in [
        // A single value that comes twice has its last value.
        ("LocalObjectReference", &b"\x0a\x01a\x0a\x01b"[..], json!({"name": "b"})),
        // A message that comes in parts is one.
        (
            "SecretReference.parent",
            b"\x0a\x03\x0a\x01a\x0a\x03\x12\x01b",
            json!({"name": "a", "namespace": "b"}),
        ),
        // Items add up, packed or not, also in parts.
        ("PodSecurityContext", b"\x20\x01\x22\x02\x02\x03\x20\x04", json!({"supplementalGroups": [1, 2, 3, 4]})),
        // The last entry of a key counts.
        (
            "NodeSelectorEntry",
            b"\x0a\x06\x0a\x01k\x12\x01a\x0a\x06\x0a\x01k\x12\x01b",
            json!({"matchLabels": {"k": "b"}}),
        ),
        // An entry without key or value has empty ones.
        ("NodeSelectorEntry", b"\x0a\x00", json!({"matchLabels": {"": ""}})),
        // Unknown fields of every type, groups included, are passed over.
        (
            "LocalObjectReference",
            b"\xf8\x07\x05\xf9\x07\0\0\0\0\0\0\0\0\xfa\x07\x01x\xfd\x07\0\0\0\0\xfb\x07\x0b\x08\x01\x0c\xfc\x07\x0a\x01a",
            json!({"name": "a"}),
        ),
        // Zero values of `omitempty` fields are left out.
        ("LocalObjectReference", b"\x0a\x00", json!({})),
    ] {
        let result = match message {
            "SecretReference.parent" => read(&format!("{CORE}.CSIPersistentVolumeSource"), &renumber(bytes))
                .map(|value| value["controllerPublishSecretRef"].clone()),
            "NodeSelectorEntry" => read(&format!("{META}.LabelSelector"), bytes),
            message => read(&format!("{CORE}.{message}"), bytes),
        };
        assert_eq!(result, Ok(expected), "{message} {bytes:?}");
    }

    /// Field 1 as `controllerPublishSecretRef`.
    fn renumber(bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        out[0] = 0x32;
        out[5] = 0x32;
        out
    }
}

#[test]
fn special_types_read_from_partial_messages() {
    for (message, bytes, expected) in [
        (format!("{META}.Time"), &b""[..], json!(null)),
        (format!("{META}.Time"), b"\x08\x00", json!("1970-01-01T00:00:00Z")),
        (format!("{META}.Time"), b"\x08\x01\x10\xff\x93\xeb\xdc\x03", json!("1970-01-01T00:00:01Z")),
        (format!("{META}.MicroTime"), b"\x08\x01\x10\xe8\x07", json!("1970-01-01T00:00:01.000001Z")),
        (
            format!("{META}.MicroTime"),
            b"\x10\x98\xf8\xff\xff\xff\xff\xff\xff\xff\x01",
            json!("1969-12-31T23:59:59.999999Z"),
        ),
        (
            format!("{META}.Time"),
            b"\x08\x80\x88\xae\xb4\x98\xfe\xff\xff\xff\x01",
            json!("0000-01-01T00:00:00Z"),
        ),
        (format!("{META}.Time"), b"\x08\xff\x82\xd1\xff\xaf\x07", json!("9999-12-31T23:59:59Z")),
        (format!("{META}.Duration"), b"\x08\x80\x94\xeb\xdc\x03", json!("1s")),
        (format!("{META}.Verbs"), b"", json!([])),
        (format!("{CRD}.JSON"), b"", json!(null)),
        (format!("{CRD}.JSON"), b"\x0a\x02{}", json!({})),
        (format!("{CRD}.JSONSchemaPropsOrBool"), b"\x08\x01", json!(true)),
        (format!("{CRD}.JSONSchemaPropsOrBool"), b"", json!(false)),
        (format!("{CRD}.JSONSchemaPropsOrArray"), b"", json!(null)),
        ("io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(), b"", json!("0")),
        ("io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(), b"\x0a\x051000m", json!("1")),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(), b"", json!(0)),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(), b"\x08\x01\x1a\x01a", json!("a")),
    ] {
        assert_eq!(read(&message, bytes), Ok(expected), "{message} {bytes:?}");
    }
}

#[test]
fn malformed_bytes_are_refused() {
    let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    let int_or_string = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    let pod = format!("{CORE}.Pod");
    let reference = format!("{CORE}.LocalObjectReference");
    let context = format!("{CORE}.PodSecurityContext");
    let schema = format!("{CRD}.JSONSchemaProps");
    let time = format!("{META}.Time");
    let fields = format!("{META}.FieldsV1");
    for (message, bytes, expected) in [
        (reference.as_str(), &b"\x0a"[..], DecodeError::Truncated),
        (&reference, b"\x0a\x02a", DecodeError::Truncated),
        (&reference, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", DecodeError::Truncated),
        (&reference, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", DecodeError::Varint),
        (&reference, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", DecodeError::Varint),
        (&reference, b"\x02\x00", DecodeError::Key),
        (&reference, b"\xff\xff\xff\xff\x1f", DecodeError::Key),
        (&reference, b"\x08\x01", DecodeError::FieldType(1)),
        (&reference, b"\x0d\0\0\0\0", DecodeError::FieldType(1)),
        (&reference, b"\x0b\x0c", DecodeError::FieldType(1)),
        (&reference, b"\x0e", DecodeError::WireType(6)),
        (&reference, b"\x0c", DecodeError::Group),
        (&reference, b"\x7b\x7b\x7c", DecodeError::Group),
        (&reference, b"\x7d\0\0\0", DecodeError::Truncated),
        (&reference, b"\x0a\x01\xff", DecodeError::Utf8(1)),
        (&pod, b"\x12\x02\x3a\x05", DecodeError::Truncated),
        (&context, b"\x22\x01\x80", DecodeError::Truncated),
        (&context, b"\x25\0\0\0\0", DecodeError::FieldType(4)),
        (&schema, b"\x49\0\0\0\0\0\0\xf0\x7f", DecodeError::NotFinite(9)),
        (&schema, b"\x49\0\0\0", DecodeError::Truncated),
        (&time, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", DecodeError::Time),
        // One second before the year 0, one after the year 9999.
        (&time, b"\x08\xff\x87\xae\xb4\x98\xfe\xff\xff\xff\x01", DecodeError::Time),
        (&time, b"\x08\x80\x83\xd1\xff\xaf\x07", DecodeError::Time),
        (&fields, b"\x0a\x01{", DecodeError::Json),
        (&fields, b"\x0a\x04k8s\0", DecodeError::Json),
        (quantity, b"\x0a\x03one", DecodeError::Quantity),
        (quantity, b"\x0a\x00", DecodeError::Quantity),
        (int_or_string, b"\x08\x02", DecodeError::IntOrString),
        (
            "io.k8s.api.core.v1.Nothing",
            b"",
            DecodeError::UnknownMessage("io.k8s.api.core.v1.Nothing".to_owned()),
        ),
    ] {
        assert_eq!(read(message, bytes), Err(expected), "{message} {bytes:?}");
    }
}

#[test]
fn envelopes_name_their_kind_or_leave_it_to_the_caller() {
    let pod = GroupVersionKind::new("", "v1", "Pod");
    let deployment = GroupVersionKind::new("apps", "v1", "Deployment");
    let unknown = |api_version: &str, kind: &str| {
        Err(DecodeError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })
    };
    for (bytes, expected, result) in [
        (&b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod"[..], None, Ok(("v1", "Pod"))),
        (b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod", Some(&deployment), Ok(("v1", "Pod"))),
        (b"k8s\0\x12\x00", Some(&deployment), Ok(("apps/v1", "Deployment"))),
        (b"k8s\0\x0a\x05\x12\x03Pod", Some(&pod), Ok(("v1", "Pod"))),
        (b"k8s\0\x0a\x04\x0a\x02v1", Some(&pod), Ok(("v1", "Pod"))),
        (b"k8s\0\x0a\x0d\x12\x0bAPIVersions", None, Ok(("", "APIVersions"))),
        (b"k8s\0\x12\x00", None, Err(DecodeError::Unnamed("kind"))),
        (b"k8s\0\x0a\x05\x12\x03Pod", None, Err(DecodeError::Unnamed("apiVersion"))),
        (b"k8s\0\x0a\x08\x0a\x02v2\x12\x02Xx", None, unknown("v2", "Xx")),
        // A message is not yet a kind.
        (b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Container", None, unknown("v1", "Container")),
        (b"k8s\0", None, Err(DecodeError::Magic)),
        (b"k8s", None, Err(DecodeError::Magic)),
        (b"", None, Err(DecodeError::Magic)),
        (b"{}", None, Err(DecodeError::Magic)),
        (b"k8s\0\x08\x01", None, Err(DecodeError::FieldType(1))),
        (b"k8s\0\x0a\x04\x0a\x02\xff\xff", None, Err(DecodeError::Utf8(1))),
        (b"k8s\0\x12\x05", None, Err(DecodeError::Truncated)),
    ] {
        let found = decode(bytes, expected);
        let names = found.as_ref().map(|object| {
            (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default())
        });
        assert_eq!(names, result.as_ref().copied(), "{bytes:?}");
    }
}

#[test]
fn kinds_have_the_messages_that_clients_mean() {
    let meta = |kind: &str| Some(format!("{META}.{kind}"));
    for (api_version, kind, expected) in [
        ("v1", "Pod", Some(format!("{CORE}.Pod"))),
        ("v1", "PodList", Some(format!("{CORE}.PodList"))),
        ("v1", "Status", meta("Status")),
        ("v1", "List", meta("List")),
        ("v1", "DeleteOptions", meta("DeleteOptions")),
        ("apps/v1", "DeleteOptions", meta("DeleteOptions")),
        ("example.com/v1", "DeleteOptions", meta("DeleteOptions")),
        ("meta.k8s.io/v1", "DeleteOptions", meta("DeleteOptions")),
        ("meta.k8s.io/v1", "PartialObjectMetadataList", meta("PartialObjectMetadataList")),
        ("meta.k8s.io/v1beta1", "PartialObjectMetadata", meta("PartialObjectMetadata")),
        ("autoscaling/v1", "Scale", Some("io.k8s.api.autoscaling.v1.Scale".to_owned())),
        ("policy/v1", "Eviction", Some("io.k8s.api.policy.v1.Eviction".to_owned())),
        (
            "authentication.k8s.io/v1",
            "TokenRequest",
            Some("io.k8s.api.authentication.v1.TokenRequest".to_owned()),
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            Some(format!("{CRD}.CustomResourceDefinition")),
        ),
        ("apps/v1", "Status", None),
        ("apps/v1", "Pod", None),
        ("rbac.example.com/v1", "Role", None),
        ("v1", "ObjectMeta", None),
        ("meta.k8s.io/v1", "Table", None),
    ] {
        assert_eq!(message_name(api_version, kind), expected.as_deref(), "{api_version} {kind}");
    }
}

#[test]
fn every_served_kind_its_list_and_its_subresources_are_known() {
    use sternpost_meta::resource::Verb;
    for resource in sternpost_builtin::groups()
        .iter()
        .flat_map(|group| &group.versions)
        .flat_map(|version| &version.resources)
    {
        let mut kinds = vec![resource.gvk()];
        if resource.verbs.contains(&Verb::List) {
            kinds.push(resource.gv.kind(format!("{}List", resource.kind)));
        }
        kinds.extend(resource.subresources.iter().map(|subresource| subresource.kind.clone()));
        for kind in kinds {
            let api_version = kind.group_version().to_string();
            assert!(message_name(&api_version, &kind.kind).is_some(), "{api_version} {}", kind.kind);
        }
    }
}

#[test]
fn what_does_not_fit_says_where() {
    for (members, problem) in [
        (json!({"metadata": []}), "metadata: expected an object"),
        (json!({"metadata": {"name": 1}}), "metadata.name: expected a string"),
        (json!({"metadata": {"labels": {"a": 1}}}), "metadata.labels.a: expected a string"),
        (json!({"metadata": {"labels": []}}), "metadata.labels: expected an object"),
        (json!({"metadata": {"generation": "1"}}), "metadata.generation: expected an integer"),
        (json!({"metadata": {"generation": 1.0}}), "metadata.generation: not an integer of its range"),
        (
            json!({"metadata": {"generation": 9_223_372_036_854_775_808_u64}}),
            "metadata.generation: not an integer of its range",
        ),
        (
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
            "metadata.creationTimestamp: not a time of the years 0 to 9999",
        ),
        (json!({"metadata": {"creationTimestamp": 1}}), "metadata.creationTimestamp: expected a time"),
        (json!({"spec": {"containers": {}}}), "spec.containers: expected a list"),
        (
            json!({"spec": {"containers": [{}, {"ports": [{"containerPort": 2_147_483_648_u32}]}]}}),
            "spec.containers[1].ports[0].containerPort: not an integer of its range",
        ),
        (
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
            "spec.containers[0].resources.limits.cpu: not a quantity",
        ),
        (
            json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": true}}}]}}),
            "spec.containers[0].livenessProbe.httpGet.port: expected an integer or a string",
        ),
        (json!({"spec": {"hostNetwork": "true"}}), "spec.hostNetwork: expected a boolean"),
    ] {
        let mut object = members;
        object["apiVersion"] = "v1".into();
        object["kind"] = "Pod".into();
        let error = encode(&object).map_err(|error| error.to_string());
        assert_eq!(error, Err(problem.to_owned()), "{object}");
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "?"}});
    assert_eq!(encode(&secret).map_err(|error| error.to_string()), Err("data.a: not base64".to_owned()));
}

#[test]
fn what_is_no_kind_is_not_written() {
    for (object, expected) in [
        (json!([]), EncodeError::NotAnObject),
        (json!({}), EncodeError::Unnamed("kind")),
        (json!({"kind": "Pod"}), EncodeError::Unnamed("apiVersion")),
        (json!({"apiVersion": 1, "kind": "Pod"}), EncodeError::Unnamed("apiVersion")),
        (json!({"apiVersion": "v1"}), EncodeError::Unnamed("kind")),
        (json!({"apiVersion": "v1", "kind": 1}), EncodeError::Unnamed("kind")),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Pod"}),
            EncodeError::UnknownKind { api_version: "example.com/v1".to_owned(), kind: "Pod".to_owned() },
        ),
    ] {
        assert_eq!(encode(&object), Err(expected), "{object}");
    }
    assert_eq!(encode_message(&format!("{CORE}.Pod"), &Value::Null), Err(EncodeError::NotAnObject));
    assert_eq!(encode_message("x", &json!({})), Err(EncodeError::UnknownMessage("x".to_owned())));
}

#[test]
fn null_is_absent() {
    let null = json!({"apiVersion": "v1", "kind": "Pod", "metadata": null, "spec": {"containers": null, "nodeName": null}});
    let absent = json!({"apiVersion": "v1", "kind": "Pod", "spec": {}});
    assert_eq!(encode(&null), encode(&absent));
}

#[test]
fn depth_counts_objects_and_lists_of_the_json() {
    // A schema in `properties` is two levels, in `items` or `not` one.
    let nested = |levels: usize| {
        let (mut schema, mut depth) = (json!({"type": "a"}), 1);
        while depth < levels {
            (schema, depth) = if depth + 1 == levels || depth % 2 == 0 {
                (json!({"not": schema}), depth + 1)
            } else {
                (json!({"properties": {"a": schema}}), depth + 2)
            };
        }
        assert_eq!(depth, levels);
        schema
    };
    let name = format!("{CRD}.JSONSchemaProps");
    let deepest = nested(MAX_DEPTH);
    let bytes = encode_message(&name, &deepest).unwrap();
    let read = decode_message(&name, &bytes).unwrap();
    assert_eq!(read, deepest);
    assert_eq!(serde_json::from_str::<Value>(&read.to_string()).unwrap(), read);

    let error = encode_message(&name, &nested(MAX_DEPTH + 1)).unwrap_err();
    assert!(matches!(error, EncodeError::Field { problem: FieldProblem::TooDeep, .. }), "{error}");
    // `not` around the bytes of the deepest.
    let mut deeper = vec![0xe2, 0x01];
    encode::varint(&mut deeper, bytes.len() as u64);
    deeper.extend_from_slice(&bytes);
    assert_eq!(decode_message(&name, &deeper), Err(DecodeError::TooDeep));
}

#[test]
fn raw_json_counts_towards_the_depth() {
    let name = format!("{META}.ManagedFieldsEntry");
    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "f:a": inner }));
    let entry = |levels: usize| json!({"fieldsV1": nested(levels)});
    let bytes = encode_message(&name, &entry(MAX_DEPTH - 1)).unwrap();
    assert_eq!(decode_message(&name, &bytes).unwrap()["fieldsV1"], nested(MAX_DEPTH - 1));
    assert!(encode_message(&name, &entry(MAX_DEPTH)).is_err());
    let mut deeper = Vec::new();
    let raw = nested(MAX_DEPTH).to_string();
    let mut fields = Vec::new();
    encode::text(&mut fields, 1, raw.as_bytes());
    encode::text(&mut deeper, 7, &fields);
    assert_eq!(decode_message(&name, &deeper), Err(DecodeError::TooDeep));
}

#[test]
fn size_is_limited() {
    let name = format!("{CORE}.ConfigMap");
    let padded = |size: usize| {
        let mut bytes = vec![0xfa, 0x07, 0, 0, 0, 0];
        bytes.resize(size, 0);
        let length = (size - 6) as u32;
        for (index, byte) in bytes.iter_mut().skip(2).take(4).enumerate() {
            *byte = (length >> (7 * index)) as u8 & 0x7f | if index < 3 { 0x80 } else { 0 };
        }
        bytes
    };
    assert_eq!(decode_message(&name, &padded(MAX_BYTES)), Ok(json!({"metadata": {}})));
    assert_eq!(decode_message(&name, &padded(MAX_BYTES + 1)), Err(DecodeError::TooLarge));
}

#[test]
fn objects_are_limited_by_the_size_of_the_input() {
    // Each item is two bytes, and an object with one member; the list is one more.
    let name = format!("{CORE}.ConfigMapList");
    let items = |count: usize| [0x12, 0x00].repeat(count);
    let allowed = |count: usize| FREE_OBJECTS + 2 * count / BYTES_PER_OBJECT;
    let most = (1..).find(|count| count + 2 > allowed(count + 1)).unwrap();
    let list = decode_message(&name, &items(most)).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), most);
    assert_eq!(decode_message(&name, &items(most + 1)), Err(DecodeError::TooMany));
}

#[test]
fn a_list_written_item_by_item_equals_a_list_written_at_once() {
    let check = |list: Value| {
        let items = list["items"].as_array().unwrap();
        let mut without = list.clone();
        without["items"] = json!([]);
        let writer = ListWriter::new(&without).unwrap();
        let mut written = Vec::new();
        for (index, item) in items.iter().enumerate() {
            writer.item(index, item, &mut written).unwrap();
        }
        let all = [writer.head(written.len()), written, ListWriter::TAIL.to_vec()].concat();
        assert_eq!(all, encode(&list).unwrap());
    };
    let item = |name: &str| json!({"metadata": {"name": name}, "data": {"a": "YQ=="}});
    let metadata = json!({"resourceVersion": "7", "remainingItemCount": 3});
    for items in [json!([]), json!([item("a")]), json!([item("a"), item(&"b".repeat(300)), null])] {
        let list = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "items": items});
        check(list("v1", "SecretList"));
        check(list("meta.k8s.io/v1", "PartialObjectMetadataList"));
        check(list("meta.k8s.io/v1beta1", "PartialObjectMetadataList"));
    }
}

#[test]
fn what_cannot_be_written_of_a_list_is_named() {
    let list = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}});
    let writer = ListWriter::new(&list).unwrap();
    let item = json!({"metadata": {"name": 7}});
    let whole = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": [null, item]});
    assert_eq!(writer.item(1, &item, &mut Vec::new()), Err(encode(&whole).unwrap_err()));
    for list in [
        json!({"apiVersion": "v1", "kind": "Secret"}),
        json!({"apiVersion": "example.org/v1", "kind": "ThingList"}),
        json!([]),
    ] {
        assert!(ListWriter::new(&list).is_err(), "{list}");
    }
    // As deep as the list as a whole may be, and no deeper.
    for depth in [MAX_DEPTH - 5, MAX_DEPTH - 4, MAX_DEPTH - 3] {
        let deep = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let item = json!({"metadata": {"managedFields": [{"fieldsV1": deep}]}});
        let whole = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": [item]});
        let written = writer.item(0, &item, &mut Vec::new());
        assert_eq!(written.err(), encode(&whole).err(), "{depth}");
    }
}

#[test]
fn watch_events_are_framed() {
    let object = encode(&json!({"apiVersion": "v1", "kind": "Status", "code": 410})).unwrap();
    let size = object.len() as u8;
    let mut frame = vec![0, 0, 0, size + 11, 0x0a, 5];
    frame.extend_from_slice(b"ERROR");
    frame.extend_from_slice(&[0x12, size + 2, 0x0a, size]);
    frame.extend_from_slice(&object);
    assert_eq!(encode_watch_event("ERROR", &object), frame);
    // The same as the message by the tables, where the object is JSON.
    let json = json!({"type": "ADDED", "object": {"a": 1}});
    assert_eq!(
        encode_watch_event("ADDED", br#"{"a":1}"#).split_off(4),
        encode_message(&format!("{META}.WatchEvent"), &json).unwrap()
    );

    let stream = [encode_watch_event("ADDED", &[7; 300]), frame.clone()].concat();
    let (first, rest) = decode_watch_event(&stream).unwrap().unwrap();
    assert_eq!(first, WatchEvent { kind: "ADDED", object: &[7; 300] });
    let (second, rest) = decode_watch_event(rest).unwrap().unwrap();
    assert_eq!(second, WatchEvent { kind: "ERROR", object: &object });
    assert_eq!(decode_watch_event(rest), Ok(None));
    for end in 0..frame.len() {
        assert_eq!(decode_watch_event(&frame[..end]), Ok(None), "{end}");
    }
    assert_eq!(decode_watch_event(b"\0\0\0\x01\x0a"), Err(DecodeError::Truncated));
}

#[test]
fn lengths_take_the_bytes_they_need() {
    for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
        let object = json!({"stringData": {"k": "x".repeat(length)}});
        let name = format!("{CORE}.Secret");
        let bytes = encode_message(&name, &object).unwrap();
        assert_eq!(decode_message(&name, &bytes).unwrap()["stringData"], object["stringData"], "{length}");
    }
}

#[test]
fn reading_ends_when_it_is_cancelled() {
    let cancel = Cancel::default();
    cancel.cancel();
    for (message, bytes) in [
        ("ConfigMap", &b"\x12\x06\x0a\x01k\x12\x01v"[..]),
        // Only what no field is, and a group that goes on.
        ("ConfigMap", b"\xfb\x07\x08\x01\x08\x01\xfc\x07"),
        ("PodSecurityContext", b"\x22\x03\x01\x02\x03"),
    ] {
        let name = format!("{CORE}.{message}");
        assert!(decode_message(&name, bytes).is_ok(), "{message}");
        assert_eq!(scope(&cancel, || decode_message(&name, bytes)), Err(Cancelled), "{message}");
    }
}
