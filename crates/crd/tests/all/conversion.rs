//! Answers of conversion webhooks and what becomes of them. The texts are what kube-apiserver 1.36.4 says
//! when a webhook answers so.

use serde_json::{Value, json};
use sternpost_crd::{
    conversion::{Review, review_version},
    definition::Definition,
    object::{convert, trim},
};
use sternpost_meta::review::ReviewVersion;

const UID: &str = "a27f5606-c436-419f-86ae-e76e6ebea051";
const FAILED: &str = "conversion webhook for stable.example.com/v1, Kind=Widget failed: ";
const INVALID: &str = "conversion webhook for stable.example.com/v1, Kind=Widget returned invalid ";
const HEAD: &str = "couldn't get version/kind; json parse error: ";

fn sent() -> Vec<Value> {
    ["a", "b"]
        .map(|name| {
            json!({
                "apiVersion": "stable.example.com/v1",
                "kind": "Widget",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": format!("u-{name}"),
                    "generation": 3,
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {"x": "y"},
                    "managedFields": [{"manager": "m"}],
                },
                "spec": {"color": "red"},
            })
        })
        .to_vec()
}

/// What a good webhook would answer.
fn answer(version: &str) -> Value {
    let converted: Vec<Value> = sent()
        .into_iter()
        .map(|mut object| {
            object["apiVersion"] = "stable.example.com/v2".into();
            object["spec"] = json!({"colour": "red"});
            object
        })
        .collect();
    json!({
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "kind": "ConversionReview",
        "response": {"uid": UID, "convertedObjects": converted, "result": {"status": "Success"}},
    })
}

fn read(version: ReviewVersion, answer: &[u8]) -> Result<Vec<Value>, String> {
    let sent = sent();
    let review = Review::new(version, UID, "stable.example.com/v2", &sent);
    review.read(answer).map_err(|error| error.to_string())
}

/// The good answer with some of it changed; `null` at a path removes nothing, `REMOVE` does.
fn lie(version: &str, changes: &[(&str, Value)]) -> Vec<u8> {
    let mut answer = answer(version);
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match answer.pointer_mut(parent).unwrap() {
            Value::Object(fields) if value == "REMOVE" => {
                fields.remove(name);
            }
            Value::Object(fields) => {
                fields.insert(name.into(), value.clone());
            }
            Value::Array(items) => match name.parse::<usize>() {
                Ok(index) if value == "REMOVE" => {
                    items.remove(index);
                }
                Ok(index) => items[index] = value.clone(),
                Err(_) => items.push(value.clone()),
            },
            other => panic!("{other}"),
        }
    }
    answer.to_string().into_bytes()
}

#[test]
fn a_review_is_what_upstream_sends() {
    let sent = sent();
    for (version, name) in [(ReviewVersion::V1, "v1"), (ReviewVersion::V1beta1, "v1beta1")] {
        let body = Review::new(version, UID, "stable.example.com/v2", &sent).body();
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap(),
            json!({
                "kind": "ConversionReview",
                "apiVersion": format!("apiextensions.k8s.io/{name}"),
                "request": {"uid": UID, "desiredAPIVersion": "stable.example.com/v2", "objects": sent},
                "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
            })
        );
    }
}

#[test]
fn the_first_review_version_that_there_is_counts() {
    for (versions, expected) in [
        (json!(["v1"]), Some(ReviewVersion::V1)),
        (json!(["v1beta1", "v1"]), Some(ReviewVersion::V1beta1)),
        (json!(["v9", "v1", "v1beta1"]), Some(ReviewVersion::V1)),
        (json!(["v9"]), None),
        (json!(null), None),
    ] {
        let definition = Definition::read(&json!({
            "metadata": {"name": "widgets.stable.example.com"},
            "spec": {
                "group": "stable.example.com",
                "versions": [],
                "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": versions}},
            },
        }));
        assert_eq!(review_version(&definition.unwrap()), expected, "{versions}");
    }
}

#[test]
fn answers_are_refused_with_upstreams_words() {
    let o = "/response/convertedObjects/1";
    let m = |name: &str| format!("{o}/metadata/{name}");
    let value = |text: &str| Value::from(text);
    let remove = || value("REMOVE");
    let unmarshal = |what: &str| format!("{FAILED}json: cannot unmarshal {what}");
    let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let label_value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for (changes, expected) in [
        // The review.
        (
            vec![("/response/uid", value("wrong"))],
            format!("{FAILED}expected response.uid=\"{UID}\", got \"wrong\""),
        ),
        (vec![("/response/uid", remove())], format!("{FAILED}expected response.uid=\"{UID}\", got \"\"")),
        (
            vec![("/response/uid", json!(5))],
            unmarshal("number into Go struct field ConversionResponse.response.uid of type types.UID"),
        ),
        (vec![("/response", remove())], format!("{FAILED}no response provided")),
        (vec![("/response", json!(null))], format!("{FAILED}no response provided")),
        (
            vec![("/response", value("x"))],
            unmarshal("string into Go struct field ConversionReview.response of type v1.ConversionResponse"),
        ),
        (
            vec![("/response/result", remove())],
            format!("{FAILED}response.result.status was '', not 'Success'"),
        ),
        (
            vec![("/response/result", json!(null))],
            format!("{FAILED}response.result.status was '', not 'Success'"),
        ),
        (
            vec![("/response/result", value("Success"))],
            unmarshal("string into Go struct field ConversionResponse.response.result of type v1.Status"),
        ),
        (
            vec![("/response/result/status", json!(5))],
            unmarshal("number into Go struct field Status.response.result.status of type string"),
        ),
        (
            vec![("/response/result/message", json!(5))],
            unmarshal("number into Go struct field Status.response.result.message of type string"),
        ),
        (
            vec![("/response/result/status", value("success"))],
            format!("{FAILED}response.result.status was 'success', not 'Success'"),
        ),
        (
            vec![("/response/result", json!({"status": "Failure"}))],
            format!("{FAILED}response.result.status was 'Failure', not 'Success'"),
        ),
        (
            vec![(
                "/response/result",
                json!({"status": "Failure", "message": "a\nb", "reason": "Forbidden", "code": 403}),
            )],
            format!("{FAILED}a\nb"),
        ),
        (vec![("/response/result", json!({"status": "Failed", "message": "m"}))], format!("{FAILED}m")),
        (
            vec![("/response/uid", value("x")), ("/response/result", json!({"message": "m"}))],
            format!("{FAILED}expected response.uid=\"{UID}\", got \"x\""),
        ),
        (
            vec![("/apiVersion", remove())],
            format!(
                "{FAILED}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=ConversionReview"
            ),
        ),
        (
            vec![("/kind", remove())],
            format!(
                "{FAILED}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind="
            ),
        ),
        (
            vec![("/kind", remove()), ("/response", remove())],
            format!(
                "{FAILED}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind="
            ),
        ),
        (
            vec![("/kind", remove()), ("/response", json!(5))],
            unmarshal("number into Go struct field ConversionReview.response of type v1.ConversionResponse"),
        ),
        (
            vec![("/kind", json!(5))],
            format!("{FAILED}{HEAD}json: cannot unmarshal number into Go struct field .kind of type string"),
        ),
        (
            vec![("/apiVersion", json!(5))],
            format!(
                "{FAILED}{HEAD}json: cannot unmarshal number into Go struct field .apiVersion of type string"
            ),
        ),
        (vec![("/apiVersion", value("a/b/c"))], format!("{FAILED}unexpected GroupVersion string: a/b/c")),
        (
            vec![("/kind", value("AdmissionReview"))],
            format!(
                "{FAILED}no kind \"AdmissionReview\" is registered for version \"apiextensions.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
        ),
        (
            vec![("/apiVersion", value("apiextensions.k8s.io/v1beta1"))],
            format!(
                "{FAILED}converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"
            ),
        ),
        (
            vec![("/apiVersion", value("apiextensions.k8s.io/v2"))],
            format!(
                "{FAILED}no kind \"ConversionReview\" is registered for version \"apiextensions.k8s.io/v2\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
        ),
        (
            vec![("/apiVersion", value("example.com/v1"))],
            format!(
                "{FAILED}no kind \"ConversionReview\" is registered for version \"example.com/v1\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
        ),
        (
            vec![("/apiVersion", value("v1")), ("/kind", value("Status"))],
            format!("{FAILED}converting (v1.Status) to (v1.ConversionReview): unknown conversion"),
        ),
        // The objects.
        (
            vec![("/response/convertedObjects", remove())],
            "conversion webhook for stable.example.com/v1, Kind=Widget returned 0 objects, expected 2".into(),
        ),
        (
            vec![("/response/convertedObjects", json!(null))],
            "conversion webhook for stable.example.com/v1, Kind=Widget returned 0 objects, expected 2".into(),
        ),
        (
            vec![("/response/convertedObjects/-", json!(null))],
            "conversion webhook for stable.example.com/v1, Kind=Widget returned 3 objects, expected 2".into(),
        ),
        (
            vec![(o, remove())],
            "conversion webhook for stable.example.com/v1, Kind=Widget returned 1 objects, expected 2".into(),
        ),
        (
            vec![("/response/convertedObjects", json!({}))],
            unmarshal(
                "object into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension",
            ),
        ),
        (vec![(o, json!(null))], "unexpected end of JSON input".into()),
        (
            vec![(o, value("x"))],
            "json: cannot unmarshal string into Go value of type map[string]interface {}".into(),
        ),
        (
            vec![(o, json!([]))],
            "json: cannot unmarshal array into Go value of type map[string]interface {}".into(),
        ),
        (vec![(o, json!({}))], "Object 'Kind' is missing in '{}'".into()),
        (
            vec![(o, json!({"apiVersion": "a/b/c", "kind": "Widget"}))],
            "Object 'Kind' is missing in '{\"apiVersion\":\"a/b/c\",\"kind\":\"Widget\"}'".into(),
        ),
        (vec![(o, json!({"kind": 5}))], "Object 'Kind' is missing in '{\"kind\":5}'".into()),
        (
            vec![(&format!("{o}/apiVersion"), value("stable.example.com/v1"))],
            format!(
                "{INVALID}object at index 1: invalid groupVersion (expected stable.example.com/v2, received stable.example.com/v1)"
            ),
        ),
        (
            vec![(&format!("{o}/apiVersion"), value("x.com/v2"))],
            format!(
                "{INVALID}object at index 1: invalid groupVersion (expected stable.example.com/v2, received x.com/v2)"
            ),
        ),
        (
            vec![(&format!("{o}/apiVersion"), remove())],
            format!(
                "{INVALID}object at index 1: invalid groupVersion (expected stable.example.com/v2, received )"
            ),
        ),
        (
            vec![(&format!("{o}/kind"), value("Gadget"))],
            format!("{INVALID}object at index 1: invalid kind (expected Widget, received Gadget)"),
        ),
        (
            vec![(&format!("{o}/apiVersion"), value("v1")), (&format!("{o}/kind"), value("List"))],
            format!(
                "{INVALID}object at index 1: invalid groupVersion (expected stable.example.com/v2, received v1)"
            ),
        ),
        // Their metadata.
        (
            vec![(&format!("{o}/metadata"), remove())],
            format!("{INVALID}object: must have the same name: b != "),
        ),
        (
            vec![(&format!("{o}/metadata"), value("x"))],
            format!("{INVALID}object: must have the same name: b != "),
        ),
        (vec![(&m("name"), value("zz"))], format!("{INVALID}object: must have the same name: b != zz")),
        (vec![(&m("name"), json!(5))], format!("{INVALID}object: must have the same name: b != ")),
        (
            vec![(&m("namespace"), value("kube-system"))],
            format!("{INVALID}object: must have the same namespace: default != kube-system"),
        ),
        (
            vec![(&m("namespace"), remove()), (&m("uid"), remove())],
            format!("{INVALID}object: must have the same namespace: default != "),
        ),
        (vec![(&m("uid"), value("u"))], format!("{INVALID}object: must have the same UID: u-b != u")),
        (
            vec![(&m("uid"), remove()), (&m("labels"), json!(5))],
            format!("{INVALID}object: must have the same UID: u-b != "),
        ),
        (
            vec![(&m("labels"), json!({"a": 5})), (&m("annotations"), json!(5))],
            format!(
                "{INVALID}metadata: metadata.labels[a] must be a string, but is int64 in converted object"
            ),
        ),
        (
            vec![(&m("labels"), json!({"a": 1.5}))],
            format!(
                "{INVALID}metadata: metadata.labels[a] must be a string, but is float64 in converted object"
            ),
        ),
        (
            vec![(&m("labels"), json!({"a": null}))],
            format!(
                "{INVALID}metadata: metadata.labels[a] must be a string, but is <nil> in converted object"
            ),
        ),
        (
            vec![(&m("labels"), value("x"))],
            format!("{INVALID}metadata: invalid metadata.labels of type string in converted object"),
        ),
        (
            vec![(&m("annotations"), json!([]))],
            format!(
                "{INVALID}metadata: invalid metadata.annotations of type []interface {{}} in converted object"
            ),
        ),
        (
            vec![(&m("annotations"), json!({"a": true}))],
            format!(
                "{INVALID}metadata: metadata.annotations[a] must be a string, but is bool in converted object"
            ),
        ),
        (
            vec![(&m("labels"), json!({"-bad-": "v v"})), (&m("annotations"), json!(5))],
            format!(
                "{INVALID}metadata: [metadata.labels: Invalid value: \"-bad-\": {name_part}, metadata.labels: Invalid value: \"v v\": {label_value}]"
            ),
        ),
        (
            vec![(&m("annotations"), json!({"b@d": "x"}))],
            format!("{INVALID}metadata: metadata.annotation: Invalid value: \"b@d\": {name_part}"),
        ),
        (
            vec![(&m("annotations"), json!({"a": "x".repeat(262_144)}))],
            format!("{INVALID}metadata: metadata.annotation: Too long: may not be more than 262144 bytes"),
        ),
    ] {
        assert_eq!(read(ReviewVersion::V1, &lie("v1", &changes)), Err(expected), "{changes:?}");
    }
}

#[test]
fn answers_that_are_no_review_are_refused() {
    let into = "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let nobody = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=";
    for (answer, expected) in [
        ("not json", format!("{HEAD}json: cannot unmarshal string {into}")),
        ("<html></html>", format!("{HEAD}json: cannot unmarshal string {into}")),
        ("\"x\"", format!("{HEAD}json: cannot unmarshal string {into}")),
        ("[]", format!("{HEAD}json: cannot unmarshal array {into}")),
        ("null", nobody.into()),
        ("{}", nobody.into()),
        ("{\"APIVERSION\":\"apiextensions.k8s.io/v1\",\"Kind\":\"ConversionReview\"}", nobody.into()),
        ("{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"resp", format!("{HEAD}unexpected end of JSON input")),
    ] {
        assert_eq!(
            read(ReviewVersion::V1, answer.as_bytes()),
            Err(format!("{FAILED}{expected}")),
            "{answer}"
        );
    }
    for answer in ["{\"a\" 1}", "{} x", "{\"a\":1,}"] {
        let found = read(ReviewVersion::V1, answer.as_bytes()).unwrap_err();
        assert!(found.starts_with(&format!("{FAILED}{HEAD}")), "{found}");
    }
}

#[test]
fn the_old_version_asks_for_less() {
    for (changes, expected) in [
        (vec![("/response/uid", Value::from("REMOVE"))], None),
        (vec![("/response/uid", "zz".into())], None),
        (vec![("/kind", "REMOVE".into())], None),
        (vec![("/apiVersion", "REMOVE".into()), ("/kind", "REMOVE".into())], None),
        (
            vec![("/apiVersion", "apiextensions.k8s.io/v1".into())],
            Some("converting (v1.ConversionReview) to (v1beta1.ConversionReview): unknown conversion"),
        ),
        (vec![("/response", "REMOVE".into())], Some("no response provided")),
        (
            vec![("/response", json!(5))],
            Some(
                "json: cannot unmarshal number into Go struct field ConversionReview.response of type v1beta1.ConversionResponse",
            ),
        ),
        (
            vec![("/response/result", json!({"status": "Failure"}))],
            Some("response.result.status was 'Failure', not 'Success'"),
        ),
        (
            vec![("/kind", "Foo".into())],
            Some(
                "no kind \"Foo\" is registered for version \"apiextensions.k8s.io/v1beta1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
        ),
    ] {
        let found = read(ReviewVersion::V1beta1, &lie("v1beta1", &changes)).map(|objects| objects.len());
        assert_eq!(found, expected.map_or(Ok(2), |text| Err(format!("{FAILED}{text}"))), "{changes:?}");
    }
}

#[test]
fn of_the_metadata_only_labels_and_annotations_change() {
    let m = |name: &str| format!("/response/convertedObjects/0/metadata/{name}");
    let read = |changes: &[(&str, Value)]| {
        let mut objects = read(ReviewVersion::V1, &lie("v1", changes)).unwrap();
        assert_eq!(objects[0]["spec"], json!({"colour": "red"}));
        assert_eq!(objects[0]["apiVersion"], "stable.example.com/v2");
        objects[0]["metadata"].take()
    };
    let before = sent()[0]["metadata"].clone();
    for (name, value) in [
        ("resourceVersion", json!("1")),
        ("generation", json!(77)),
        ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
        ("creationTimestamp", json!("REMOVE")),
        ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
        ("finalizers", json!(["a.b/c"])),
        ("ownerReferences", json!([{"uid": "u"}])),
        ("managedFields", json!("REMOVE")),
        ("generateName", json!("g-")),
        ("foo", json!("bar")),
    ] {
        assert_eq!(read(&[(&m(name), value)]), before, "{name}");
    }
    let with = |name: &str, value: Option<Value>| {
        let mut metadata = before.clone();
        let fields = metadata.as_object_mut().unwrap();
        match value {
            Some(value) => fields.insert(name.into(), value),
            None => fields.remove(name),
        };
        metadata
    };
    for (name, value, expected) in [
        ("labels", json!({"l": "1"}), Some(json!({"l": "1"}))),
        ("labels", json!(null), None),
        ("labels", json!("REMOVE"), None),
        ("labels", json!({}), None),
        ("annotations", json!({"a": "1"}), Some(json!({"a": "1"}))),
        ("annotations", json!({}), None),
        ("annotations", json!({"a": "x".repeat(262_143)}), Some(json!({"a": "x".repeat(262_143)}))),
    ] {
        assert_eq!(read(&[(&m(name), value)]), with(name, expected), "{name}");
    }
}

#[test]
fn the_rest_of_an_object_is_the_webhooks_business() {
    for (changes, expected) in [
        (vec![("/response/convertedObjects/0/spec", json!("x"))], json!("x")),
        (vec![("/response/convertedObjects/0/spec", json!("REMOVE"))], json!(null)),
        (
            vec![
                ("/foo", json!(1)),
                ("/request", json!({"uid": "x"})),
                ("/response/result/message", json!("hi")),
            ],
            json!({"colour": "red"}),
        ),
    ] {
        let objects = read(ReviewVersion::V1, &lie("v1", &changes)).unwrap();
        assert_eq!(objects[0].get("spec").cloned().unwrap_or_default(), expected);
    }
}

#[test]
fn a_failed_call_has_the_same_beginning() {
    let sent = sent();
    let review = Review::new(ReviewVersion::V1, UID, "stable.example.com/v2", &sent);
    assert_eq!(
        review.failed("Post \"https://x\": EOF").to_string(),
        format!("{FAILED}Post \"https://x\": EOF")
    );
}

#[test]
fn what_came_back_is_trimmed_and_not_defaulted() {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
        "d": {"type": "string", "default": "dd"},
        "n": {"type": "string", "nullable": true},
        "nd": {"type": "string", "nullable": true, "default": "ndd"},
        "e": text,
        "l": {"type": "array", "items": text},
        "m": {"type": "object", "additionalProperties": text},
        "o": {"type": "object", "properties": {"p": {"type": "string", "default": "pp"}, "q": text}},
    }}}});
    let definition = Definition::read(&json!({
        "metadata": {"name": "widgets.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "names": {"kind": "Widget"},
            "versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap();
    for (spec, expected) in [
        (json!({}), json!({})),
        (
            json!({
                "d": null, "n": null, "nd": null, "e": null, "u": 1, "l": ["a", null], "m": {"a": null},
                "o": {"p": null, "q": null, "r": 1},
            }),
            json!({"d": null, "l": ["a", null], "m": {}, "n": null, "nd": null, "o": {"p": null}}),
        ),
    ] {
        let mut object = json!({"apiVersion": "stable.example.com/v2", "kind": "Widget", "metadata": {}, "spec": spec, "top": 1});
        trim(definition.version("v2").unwrap(), &mut object);
        let fields = json!({"apiVersion": "stable.example.com/v2", "kind": "Widget", "metadata": {}, "spec": expected});
        assert_eq!(object, fields);
    }
}

#[test]
fn without_a_webhook_too_only_the_version_an_object_is_in_gives_defaults() {
    let version = |name: &str| {
        let fields = json!({
            "a": {"type": "string", "default": format!("a-{name}")},
            name: {"type": "string", "default": format!("only-{name}")},
            "both": {"type": "string"},
        });
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    };
    let definition = Definition::read(&json!({
        "metadata": {"name": "widgets.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "names": {"kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    }))
    .unwrap();
    for (given, wanted, expected) in [
        ("v1", "v1", json!({"a": "a-v1", "both": "x", "v1": "only-v1"})),
        ("v1", "v2", json!({"a": "a-v1", "both": "x"})),
        ("v2", "v1", json!({"a": "a-v2", "both": "x"})),
    ] {
        let mut object = json!({
            "apiVersion": format!("stable.example.com/{given}"), "kind": "Widget", "metadata": {}, "spec": {"both": "x"},
        });
        convert(&definition, definition.version(wanted).unwrap(), &mut object);
        assert_eq!(object["apiVersion"], format!("stable.example.com/{wanted}"));
        assert_eq!(object["spec"], expected, "{given} {wanted}");
    }
}
