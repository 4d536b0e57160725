use serde_json::json;
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    user::User,
};

use super::*;
use crate::request::Operation;

fn form() -> Form {
    Form {
        gv: GroupVersion::new("", "v1"),
        resource: "configmaps".into(),
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
    }
}

fn with<T>(version: ReviewVersion, test: impl FnOnce(&Review<'_>) -> T) -> T {
    let (asked, options) = (form(), json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
    let user = User { name: "ana".into(), ..User::default() };
    let request = Request {
        operation: Operation::Create,
        asked: &asked,
        subresource: "",
        name: "a",
        namespace: "shop",
        user: &user,
        dry_run: false,
        options: &options,
    };
    let object = json!({"kind": "ConfigMap"});
    test(&Review {
        version,
        uid: "u-1",
        request: &request,
        matched: &asked,
        object: Some(&object),
        old: None,
    })
}

#[test]
fn a_review_has_its_fields_in_upstreams_order() {
    let body = with(ReviewVersion::V1, |review| String::from_utf8(review.body()).unwrap());
    let kind = r#"{"group":"","kind":"ConfigMap","version":"v1"}"#;
    let resource = r#"{"group":"","resource":"configmaps","version":"v1"}"#;
    let expected = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u-1","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"a","namespace":"shop","operation":"CREATE","userInfo":{{"username":"ana"}},"object":{{"kind":"ConfigMap"}},"oldObject":null,"dryRun":false,"options":{{"apiVersion":"meta.k8s.io/v1","kind":"CreateOptions"}}}}}}"#
    );
    assert_eq!(body, expected);
}

/// What becomes of a response: `yes`, `patch TEXT`, `CODE MESSAGE`, or why it cannot be used.
fn outcome(version: ReviewVersion, pass: Pass, answer: &str) -> String {
    match with(version, |review| review.read(pass, "h.example.com", answer.as_bytes())) {
        Err(why) => why.to_string(),
        Ok(answer) => match answer.verdict {
            Verdict::Allowed(None) => "yes".into(),
            Verdict::Allowed(Some(patch)) => format!("patch {}", String::from_utf8_lossy(&patch)),
            Verdict::Denied(status) => format!("{} {}", status.code, status.message),
        },
    }
}

fn answered(version: &str, response: &Value) -> String {
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "response": response})
        .to_string()
}

#[test]
fn answers_are_checked() {
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let call = |why: &str| format!("failed to call webhook: {why}");
    let denied = "admission webhook \"h.example.com\" denied the request";
    // "W10=" is [].
    for (pass, response, expected) in [
        (Pass::Validating, json!({"uid": "u-1", "allowed": true}), "yes".to_owned()),
        (Pass::Validating, json!({"uid": "u-1"}), format!("400 {denied} without explanation")),
        (
            Pass::Validating,
            json!({"uid": "u-1", "status": {"code": 403, "message": "no"}}),
            format!("403 {denied}: no"),
        ),
        (
            Pass::Validating,
            json!({"uid": "u-1", "status": {"code": 302, "reason": "Why"}}),
            format!("400 {denied}: Why"),
        ),
        (
            Pass::Validating,
            json!({"uid": "u-1", "status": {"code": 1000}}),
            format!("400 {denied} without explanation"),
        ),
        (
            Pass::Validating,
            json!({"uid": "u-2", "allowed": true}),
            invalid("expected response.uid=\"u-1\", got \"u-2\""),
        ),
        (
            Pass::Validating,
            json!({"uid": "u-1", "allowed": true, "patch": "W10="}),
            invalid("validating webhook may not return response.patch"),
        ),
        (
            Pass::Validating,
            json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch"}),
            invalid("validating webhook may not return response.patchType"),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": "W10="}),
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch"}),
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": "W10=", "patchType": "X"}),
            "unsupported patch type \"X\"".into(),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"}),
            "patch []".into(),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": [91, null, 93], "patchType": "JSONPatch"}),
            "patch [\u{0}]".into(),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": [91, 256], "patchType": "JSONPatch"}),
            call(
                "json: cannot unmarshal number 256 into Go struct field AdmissionResponse.response.patch of type uint8",
            ),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": ["a"], "patchType": "JSONPatch"}),
            call(
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.patch of type uint8",
            ),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": true, "patch": "!", "patchType": "JSONPatch"}),
            call("illegal base64 data at input byte 0"),
        ),
        (
            Pass::Mutating,
            json!({"uid": "u-1", "allowed": "yes"}),
            call(
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            ),
        ),
        (Pass::Mutating, json!(null), invalid("webhook response was absent")),
    ] {
        let answer = answered("v1", &response);
        assert_eq!(outcome(ReviewVersion::V1, pass, &answer), expected, "{response}");
    }
}

#[test]
fn the_old_version_asks_for_less() {
    for (response, expected) in [
        (json!({"allowed": true}), "yes"),
        (json!({"uid": "other", "allowed": true, "patch": "W10="}), "patch []"),
        (json!({"allowed": true, "patchType": "X"}), "yes"),
    ] {
        let answer = answered("v1beta1", &response);
        assert_eq!(outcome(ReviewVersion::V1beta1, Pass::Mutating, &answer), expected, "{response}");
    }
}

#[test]
fn what_is_no_review_is_not_read_as_one() {
    let typed = "json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    for (answer, expected) in [
        ("{}", "received invalid webhook response: webhook response was absent".to_owned()),
        ("text", format!("failed to call webhook: couldn't get version/kind; json parse error: {typed}")),
        (
            "{\"kind\"",
            "failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input".into(),
        ),
        (
            r#"{"kind":"Review","apiVersion":"admission.k8s.io/v1"}"#,
            "failed to call webhook: no kind \"Review\" is registered for version \"admission.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"".into(),
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion".into(),
        ),
        (
            r#"{"response":{"uid":"u-1","allowed":true}}"#,
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=".into(),
        ),
    ] {
        assert_eq!(outcome(ReviewVersion::V1, Pass::Validating, answer), expected, "{answer}");
    }
}

#[test]
fn patches_are_applied_and_their_failures_told_as_upstream_does() {
    let object = json!({"data": {"k": "v"}, "list": [1, 2]});
    for (patch, expected) in [
        (json!([{"op": "add", "path": "/data/x", "value": "y"}]), Ok(json!({"k": "v", "x": "y"}))),
        (
            json!([{"op": "remove", "path": "/data/no"}]),
            Err("error in remove for path: '/data/no': Unable to remove nonexistent key: no: missing value"),
        ),
        (
            json!([{"op": "replace", "path": "/no/x", "value": 1}]),
            Err("replace operation does not apply: doc is missing path: /no/x: missing value"),
        ),
        (
            json!([{"op": "test", "path": "/data/k", "value": 1}]),
            Err("testing value /data/k failed: test failed"),
        ),
        (json!([{"op": "zap", "path": "/data/k"}]), Err("Unexpected kind: zap")),
        (json!([{"op": "remove"}]), Err("remove operation failed to decode path: missing value")),
    ] {
        let read = read_patch(patch.to_string().as_bytes()).unwrap();
        let found = apply_patch(object.clone(), &read).map(|object| object["data"].clone());
        let found = found.map_err(|status| status.message);
        let expected = expected.map_err(|why| format!("Internal error occurred: {why}"));
        assert_eq!(found, expected, "{patch}");
    }
    for (patch, expected) in [
        ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ("[", "unexpected end of JSON input"),
        ("%", "invalid character '%' looking for beginning of value"),
    ] {
        let found = read_patch(patch.as_bytes()).unwrap_err().to_string();
        assert_eq!(found, format!("received undecodable patch in webhook response: {expected}"), "{patch}");
    }
    assert!(read_patch(b"null").unwrap().is_empty());
}

#[test]
fn answers_with_any_byte_wrong_or_missing_are_read_or_refused() {
    let response = json!({
        "uid": "u-1", "allowed": true, "patch": "W10=", "patchType": "JSONPatch", "warnings": ["w"],
        "auditAnnotations": {"a": "b"}, "status": {"code": 403, "message": "m", "details": {"causes": [{"field": "f"}]}},
    });
    let answer = answered("v1", &response).into_bytes();
    let read = |bytes: &[u8]| with(ReviewVersion::V1, |review| review.read(Pass::Mutating, "h", bytes));
    assert!(read(&answer).is_ok());
    for place in 0..answer.len() {
        assert!(read(&answer[..place]).is_err(), "{place}");
        for byte in [0, b'"', b'{', b'}', b'[', b'0', b'n', 0xff] {
            let mut wrong = answer.clone();
            wrong[place] = byte;
            // Whatever it is now, nothing breaks over it.
            if let Ok(Answer { verdict: Verdict::Allowed(Some(patch)), .. }) = read(&wrong) {
                let _ = read_patch(&patch);
            }
        }
    }
}
