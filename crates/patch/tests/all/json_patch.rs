//! JSON Patch: where upstream leaves the RFC, what is told of bodies and
//! failures, and the limits.

use serde_json::{Value, json};
use sternpost_patch::{
    MAX_DEPTH,
    body::Reading,
    json_patch::{
        ApplyError, DecodeError, MAX_COPIED, MAX_OPERATIONS, Patch, Reason, apply, apply_within, decode, read,
    },
};

fn patch(operations: &Value) -> Patch {
    decode(operations.to_string().as_bytes(), Reading::Checked).unwrap().patch
}

fn run(document: &Value, operations: &Value) -> Result<Value, ApplyError> {
    apply(document.clone(), &patch(operations))
}

/// The place of the document that an operation changes, afterwards.
#[track_caller]
fn check(operation: &Value, pointer: &str, expected: &Value) {
    let result = run(&document(), &json!([operation])).unwrap();
    assert_eq!(result.pointer(pointer), Some(expected), "{operation}");
}

#[track_caller]
fn check_fails(operation: &Value, reason: Reason) {
    let error =
        run(&document(), &json!([{"op": "test", "path": "/s", "value": "x"}, operation])).unwrap_err();
    assert_eq!((error.index, error.reason), (1, reason), "{operation}");
}

fn document() -> Value {
    json!({"a": {"b": 1, "n": null}, "l": [1, 2, 3], "s": "x", "e": {}, "": 5})
}

fn missing(path: &str) -> Reason {
    Reason::MissingPath(path.to_owned())
}

fn out_of_range(index: i64, length: usize) -> Reason {
    Reason::OutOfRange { index, length }
}

#[test]
fn replace_of_a_missing_key_adds_it() {
    check(&json!({"op": "replace", "path": "/z", "value": 2}), "/z", &json!(2));
    check(&json!({"op": "replace", "path": "/a/n", "value": 2}), "/a/n", &json!(2));
}

#[test]
fn only_replace_and_test_know_the_whole_document() {
    check(&json!({"op": "replace", "path": "", "value": {"z": 1}}), "", &json!({"z": 1}));
    check(&json!({"op": "replace", "path": "", "value": [1]}), "", &json!([1]));
    check(&json!({"op": "test", "path": "", "value": document()}), "", &document());
    check_fails(&json!({"op": "replace", "path": "", "value": 1}), Reason::NotADocument);
    check_fails(&json!({"op": "replace", "path": ""}), Reason::NotADocument);
    check_fails(&json!({"op": "test", "path": "", "value": {}}), Reason::TestFailed);
    check_fails(&json!({"op": "test", "path": ""}), Reason::TestFailed);
    check_fails(&json!({"op": "add", "path": "", "value": {}}), missing(""));
    check_fails(&json!({"op": "remove", "path": ""}), missing(""));
    check_fails(&json!({"op": "copy", "from": "", "path": "/z"}), missing(""));
    check_fails(&json!({"op": "move", "from": "/a", "path": ""}), missing(""));
}

#[test]
fn an_index_may_have_a_sign_and_leading_zeros_and_count_from_the_end() {
    for (operation, list) in [
        (json!({"op": "add", "path": "/l/00", "value": 9}), json!([9, 1, 2, 3])),
        (json!({"op": "add", "path": "/l/+1", "value": 9}), json!([1, 9, 2, 3])),
        (json!({"op": "add", "path": "/l/-1", "value": 9}), json!([1, 2, 3, 9])),
        (json!({"op": "add", "path": "/l/-4", "value": 9}), json!([9, 1, 2, 3])),
        (json!({"op": "add", "path": "/l/3", "value": 9}), json!([1, 2, 3, 9])),
        (json!({"op": "add", "path": "/l/-", "value": 9}), json!([1, 2, 3, 9])),
        (json!({"op": "replace", "path": "/l/-1", "value": 9}), json!([1, 2, 9])),
        (json!({"op": "remove", "path": "/l/-3"}), json!([2, 3])),
        (json!({"op": "move", "from": "/l/-1", "path": "/l/0"}), json!([3, 1, 2])),
        (json!({"op": "copy", "from": "/s", "path": "/l/-2"}), json!([1, 2, "x", 3])),
    ] {
        check(&operation, "/l", &list);
    }
    check_fails(&json!({"op": "add", "path": "/l/-5", "value": 9}), out_of_range(-5, 4));
    check_fails(&json!({"op": "add", "path": "/l/4", "value": 9}), out_of_range(4, 4));
    check_fails(&json!({"op": "replace", "path": "/l/-4", "value": 9}), out_of_range(-4, 3));
    check_fails(&json!({"op": "remove", "path": "/l/3"}), out_of_range(3, 3));
    check_fails(&json!({"op": "move", "from": "/l/2", "path": "/l/3"}), out_of_range(3, 3));
    for path in ["/l/1e0", "/l/", "/l/99999999999999999999"] {
        let key = path.rsplit('/').next().unwrap().to_owned();
        check_fails(&json!({"op": "add", "path": path, "value": 9}), Reason::NotAnIndex(key));
    }
    for op in ["remove", "replace", "test"] {
        check_fails(&json!({"op": op, "path": "/l/-"}), Reason::NotAnIndex("-".into()));
    }
}

#[test]
fn a_value_left_out_is_null() {
    check(&json!({"op": "add", "path": "/z"}), "/z", &Value::Null);
    check(&json!({"op": "replace", "path": "/s"}), "/s", &Value::Null);
    check(&json!({"op": "test", "path": "/a/n"}), "", &document());
}

#[test]
fn copy_from_a_missing_key_copies_null_but_move_fails() {
    check(&json!({"op": "copy", "from": "/q", "path": "/z"}), "/z", &Value::Null);
    check_fails(&json!({"op": "move", "from": "/q", "path": "/z"}), Reason::MissingKey("q".into()));
    check_fails(&json!({"op": "remove", "path": "/q"}), Reason::MissingKey("q".into()));
    check_fails(&json!({"op": "copy", "from": "/l/7", "path": "/z"}), out_of_range(7, 3));
    check_fails(&json!({"op": "copy", "from": "/q/q", "path": "/z"}), missing("/q/q"));
}

#[test]
fn test_of_a_missing_key_compares_with_null() {
    check(&json!({"op": "test", "path": "/q"}), "", &document());
    check(&json!({"op": "test", "path": "/q", "value": null}), "", &document());
    check_fails(&json!({"op": "test", "path": "/q", "value": 1}), Reason::TestFailed);
    check_fails(&json!({"op": "test", "path": "/l/7"}), out_of_range(7, 3));
}

#[test]
fn test_tells_integers_from_fractions_and_null_members_from_none() {
    check(&json!({"op": "test", "path": "/a", "value": {"n": null, "b": 1}}), "", &document());
    check_fails(&json!({"op": "test", "path": "/a/b", "value": 1.0}), Reason::TestFailed);
    check_fails(&json!({"op": "test", "path": "/a", "value": {"b": 1}}), Reason::TestFailed);
    check_fails(&json!({"op": "test", "path": "/e", "value": []}), Reason::TestFailed);
}

#[test]
fn scalars_and_nulls_contain_nothing() {
    for path in ["/s/x", "/a/n/x", "/a/b/c", "/q/x", "//x"] {
        for op in ["add", "remove", "replace", "test"] {
            check_fails(&json!({"op": op, "path": path, "value": 1}), missing(path));
        }
    }
}

#[test]
fn what_stands_before_the_first_slash_is_ignored() {
    check(&json!({"op": "add", "path": "any/q", "value": 1}), "/q", &json!(1));
    check_fails(&json!({"op": "add", "path": "q", "value": 1}), missing("q"));
    check(&json!({"op": "replace", "path": "/", "value": 1}), "/", &json!(1));
}

#[test]
fn keys_are_unescaped() {
    check(&json!({"op": "add", "path": "/e/~01~1~2", "value": 1}), "/e", &json!({"~1/~2": 1}));
}

#[test]
fn a_value_is_not_moved_into_itself_but_copied() {
    check(&json!({"op": "copy", "from": "/a", "path": "/a/b"}), "/a/b", &json!({"b": 1, "n": null}));
    check_fails(&json!({"op": "move", "from": "/a", "path": "/a/b"}), missing("/a/b"));
}

#[test]
fn incomplete_operations_fail_where_they_are_applied() {
    for (operation, reason) in [
        (json!({"op": "other", "path": "/a"}), Reason::UnknownOperation),
        (json!({"path": "/a"}), Reason::MissingMember("op")),
        (json!(null), Reason::MissingMember("op")),
        (json!({"op": "add", "value": 1}), Reason::MissingMember("path")),
        (json!({"op": "add", "path": null}), Reason::MissingMember("path")),
        (json!({"op": "copy", "path": "/z"}), Reason::MissingMember("from")),
        (json!({"op": "move", "path": "/z", "from": null}), Reason::MissingMember("from")),
    ] {
        check_fails(&operation, reason);
    }
    let lenient = decode(br#"[{"op":"add","path":7}]"#, Reading::Lenient).unwrap().patch;
    assert_eq!(apply(document(), &lenient).unwrap_err().reason, Reason::NotAString("path"));
}

#[test]
fn a_failure_tells_which_operation_and_why() {
    let operations = json!([{"op": "test", "path": "/s", "value": "x"}, {"op": "remove", "path": "/a/q"}]);
    let error = run(&document(), &operations).unwrap_err();
    assert_eq!(error.to_string(), r#"operation 1: remove "/a/q": there is no key "q""#);
}

/// As version 4.13.0 of the library, which both programs have, answers.
#[test]
fn failures_are_worded_as_the_library_words_them() {
    for (operation, expected) in [
        (
            json!({"op": "add", "path": "/q/z", "value": 1}),
            r#"add operation does not apply: doc is missing path: "/q/z": missing value"#,
        ),
        (
            json!({"op": "add", "path": "/q\"\t/z", "value": 1}),
            "add operation does not apply: doc is missing path: \"/q\"\t/z\": missing value",
        ),
        (
            json!({"op": "add", "path": "/l/x", "value": 1}),
            r#"error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            json!({"op": "add", "path": "/l/9223372036854775808", "value": 1}),
            r#"error in add for path: '/l/9223372036854775808': value was not a proper array index: '9223372036854775808': strconv.Atoi: parsing "9223372036854775808": value out of range"#,
        ),
        (
            json!({"op": "add", "path": "/l/+5", "value": 1}),
            r#"error in add for path: '/l/+5': Unable to access invalid index: 5: invalid index referenced"#,
        ),
        (
            json!({"op": "add", "path": "/l/-5", "value": 1}),
            r#"error in add for path: '/l/-5': Unable to access invalid index: -5: invalid index referenced"#,
        ),
        (json!({"op": "add", "value": 1}), r#"add operation failed to decode path: missing value"#),
        (json!({"op": "add", "path": 1}), r#"add operation failed to decode path: missing value"#),
        (
            json!({"op": "remove", "path": "/q/z"}),
            r#"remove operation does not apply: doc is missing path: "/q/z": missing value"#,
        ),
        (
            json!({"op": "remove", "path": "/q~1z"}),
            r#"error in remove for path: '/q~1z': Unable to remove nonexistent key: q/z: missing value"#,
        ),
        (
            json!({"op": "remove", "path": "/l/3"}),
            r#"error in remove for path: '/l/3': Unable to access invalid index: 3: invalid index referenced"#,
        ),
        (
            json!({"op": "remove", "path": "/l/-"}),
            r#"error in remove for path: '/l/-': strconv.Atoi: parsing "-": invalid syntax"#,
        ),
        (json!({"op": "remove", "path": null}), r#"remove operation failed to decode path: missing value"#),
        (
            json!({"op": "replace", "path": "/q/z", "value": 1}),
            r#"replace operation does not apply: doc is missing path: /q/z: missing value"#,
        ),
        (
            json!({"op": "replace", "path": "/l/7", "value": 1}),
            r#"replace operation does not apply: doc is missing key: /l/7: missing value"#,
        ),
        (
            json!({"op": "replace", "path": "/l/x", "value": 1}),
            r#"replace operation does not apply: doc is missing key: /l/x: missing value"#,
        ),
        (
            json!({"op": "replace", "value": 1}),
            r#"replace operation failed to decode path: operation missing path field: missing value"#,
        ),
        (
            json!({"op": "replace", "path": []}),
            r#"replace operation failed to decode path: json: cannot unmarshal array into Go value of type string"#,
        ),
        (
            json!({"op": "replace", "path": "", "value": 1}),
            r#"replace operation value must be object or array: %!w(<nil>)"#,
        ),
        (
            json!({"op": "move", "path": "/z"}),
            r#"move operation failed to decode from: operation, missing from field: missing value"#,
        ),
        (
            json!({"op": "move", "path": "/z", "from": {}}),
            r#"move operation failed to decode from: json: cannot unmarshal object into Go value of type string"#,
        ),
        (
            json!({"op": "move", "from": "/a"}),
            r#"move operation failed to decode path: operation missing path field: missing value"#,
        ),
        (
            json!({"op": "move", "from": "/a", "path": true}),
            r#"move operation failed to decode path: json: cannot unmarshal bool into Go value of type string"#,
        ),
        (
            json!({"op": "move", "from": "/q/z", "path": "/z"}),
            r#"move operation does not apply: doc is missing from path: /q/z: missing value"#,
        ),
        (
            json!({"op": "move", "from": "/q", "path": "/z"}),
            r#"error in move for path: 'q': Unable to remove nonexistent key: q: missing value"#,
        ),
        (
            json!({"op": "move", "from": "/l/+7", "path": "/z"}),
            r#"error in move for path: '+7': Unable to access invalid index: 7: invalid index referenced"#,
        ),
        (
            json!({"op": "move", "from": "/l/-", "path": "/z"}),
            r#"error in move for path: '-': strconv.Atoi: parsing "-": invalid syntax"#,
        ),
        (
            json!({"op": "move", "from": "/a", "path": "/q/z"}),
            r#"move operation does not apply: doc is missing destination path: /q/z: missing value"#,
        ),
        (
            json!({"op": "move", "from": "/a", "path": "/l/x"}),
            r#"error in move for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            json!({"op": "move", "from": "/a", "path": "/l/9"}),
            r#"error in move for path: '/l/9': Unable to access invalid index: 9: invalid index referenced"#,
        ),
        (
            json!({"op": "copy", "path": "/z"}),
            r#"copy operation failed to decode from: operation, missing from field: missing value"#,
        ),
        (
            json!({"op": "copy", "path": "/z", "from": 7}),
            r#"copy operation failed to decode from: json: cannot unmarshal number into Go value of type string"#,
        ),
        (json!({"op": "copy", "from": "/a"}), r#"copy operation failed to decode path: missing value"#),
        (
            json!({"op": "copy", "from": "/a", "path": 7}),
            r#"copy operation failed to decode path: missing value"#,
        ),
        (
            json!({"op": "copy", "from": "/q/z", "path": "/z"}),
            r#"copy operation does not apply: doc is missing from path: /q/z: missing value"#,
        ),
        (
            json!({"op": "copy", "from": "/l/7", "path": "/z"}),
            r#"error in copy for from: '/l/7': Unable to access invalid index: 7: invalid index referenced"#,
        ),
        (
            json!({"op": "copy", "from": "/l/x", "path": "/z"}),
            r#"error in copy for from: '/l/x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            json!({"op": "copy", "from": "/a", "path": "/q/z"}),
            r#"copy operation does not apply: doc is missing destination path: /q/z: missing value"#,
        ),
        (
            json!({"op": "copy", "from": "/a", "path": "/l/x"}),
            r#"error while adding value during copy: value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            json!({"op": "copy", "from": "/a", "path": "/l/9"}),
            r#"error while adding value during copy: Unable to access invalid index: 9: invalid index referenced"#,
        ),
        (
            json!({"op": "test", "value": 1}),
            r#"test operation failed to decode path: operation missing path field: missing value"#,
        ),
        (
            json!({"op": "test", "path": 1, "value": 1}),
            r#"test operation failed to decode path: json: cannot unmarshal number into Go value of type string"#,
        ),
        (
            json!({"op": "test", "path": "/q/z", "value": 1}),
            r#"test operation does not apply: is missing path: /q/z: missing value"#,
        ),
        (
            json!({"op": "test", "path": "/l/7", "value": 1}),
            r#"error in test for path: '/l/7': Unable to access invalid index: 7: invalid index referenced"#,
        ),
        (
            json!({"op": "test", "path": "/l/x", "value": 1}),
            r#"error in test for path: '/l/x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (json!({"op": "test", "path": "/s", "value": 1}), r#"testing value /s failed: test failed"#),
        (json!({"op": "test", "path": "", "value": {}}), r#"testing value  failed: test failed"#),
        (json!({"op": "zap", "path": "/s"}), r#"Unexpected kind: zap"#),
        (json!({"op": "zap"}), r#"Unexpected kind: zap"#),
        (json!({"op": "", "path": "/s"}), r#"Unexpected kind: "#),
        (json!({"op": 1, "path": "/s"}), r#"Unexpected kind: unknown"#),
        (json!({"path": "/s"}), r#"Unexpected kind: unknown"#),
        (json!(null), r#"Unexpected kind: unknown"#),
    ] {
        let error = apply(document(), &read(&json!([operation])).unwrap()).unwrap_err();
        assert_eq!(error.upstream(), expected, "{operation}");
    }
}

#[test]
fn values_are_read_as_the_library_reads_them() {
    assert!(read(&json!(null)).unwrap().is_empty());
    assert_eq!(read(&vec![json!({"op": 1}); MAX_OPERATIONS + 1].into()).unwrap().len(), MAX_OPERATIONS + 1);
    for (value, expected) in [
        (json!({}), "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (json!([{}, "a"]), "json: cannot unmarshal string into Go value of type jsonpatch.Operation"),
    ] {
        assert_eq!(read(&value).unwrap_err().to_string(), expected);
    }
}

#[test]
fn bodies_are_refused_in_upstreams_words() {
    for (body, checked, lenient) in [
        (
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            r#"[{"op":"test","path":"/s","value":"x"},1]"#,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
        (
            "[[]]",
            "error decoding patch: json: cannot unmarshal array into Go value of type handlers.jsonPatchOp",
            "json: cannot unmarshal array into Go value of type jsonpatch.Operation",
        ),
        (
            r#"[{"op":1}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            "",
        ),
        (
            r#"[{"path":{}}]"#,
            "error decoding patch: json: cannot unmarshal object into Go struct field jsonPatchOp.path of type string",
            "",
        ),
        (
            r#"[{"from":true}]"#,
            "error decoding patch: json: cannot unmarshal bool into Go struct field jsonPatchOp.from of type string",
            "",
        ),
        ("null", "", ""),
        ("[]", "", ""),
    ] {
        for (reading, expected) in [(Reading::Checked, checked), (Reading::Lenient, lenient)] {
            let found = decode(body.as_bytes(), reading).err().map(|error| error.to_string());
            assert_eq!(found.unwrap_or_default(), expected, "{body}");
        }
    }
    // That it is no JSON is told first.
    let error = decode(b"[1, }", Reading::Checked).unwrap_err().to_string();
    assert!(error.starts_with("error decoding patch: expected value"), "{error}");
}

#[test]
fn unknown_and_repeated_members_are_complained_of_once_in_order() {
    let body = br#"[{"op":"add","path":"/data/x","value":{"a":1,"a":2},"foo":1,"foo":2,"op":"add","bar":{"q":1,"q":2}},
        {"Op":"test","op":"test","path":"/a","value":1,"value":2,"value":3}]"#;
    let decoded = decode(body, Reading::Checked).unwrap();
    assert_eq!(
        decoded.complaints,
        [
            "json patch duplicate field \"[0].value.a\"",
            "json patch unknown field \"[0].foo\"",
            "json patch duplicate field \"[0].op\"",
            "json patch unknown field \"[0].bar\"",
            "json patch unknown field \"[1].Op\"",
            "json patch duplicate field \"[1].value\"",
        ]
    );
    let document = apply(json!({"data": {}, "a": 3}), &decoded.patch).unwrap();
    assert_eq!(document, json!({"data": {"x": {"a": 2}}, "a": 3}));
}

#[test]
fn operations_are_limited() {
    let body = |count: usize| format!("[{}]", vec![r#"{"op":"test","path":"/q"}"#; count].join(","));
    let patch = decode(body(MAX_OPERATIONS).as_bytes(), Reading::Checked).unwrap().patch;
    assert_eq!(patch.len(), MAX_OPERATIONS);
    assert!(apply(json!({}), &patch).is_ok());
    let error = decode(body(MAX_OPERATIONS + 1).as_bytes(), Reading::Checked).unwrap_err();
    assert_eq!(error, DecodeError::TooManyOperations(MAX_OPERATIONS + 1));
    assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copied_bytes_are_limited() {
    let copies =
        json!([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/a", "path": "/c"}]);
    let document = |size: usize| json!({"a": "x".repeat(size / 2 - 2)});
    assert!(run(&document(MAX_COPIED), &copies).is_ok());
    let error = run(&document(MAX_COPIED + 2), &copies).unwrap_err();
    assert_eq!(
        (error.index, error.reason),
        (1, Reason::TooMuchCopied { copied: MAX_COPIED + 2, limit: MAX_COPIED })
    );
    let within = |limit: usize| apply_within(document(8), &patch(&copies), limit);
    assert!(within(8).is_ok());
    assert_eq!(
        within(7).unwrap_err().upstream(),
        "Unable to complete the copy, the accumulated size increase of copy is 8, exceeding the limit 7"
    );
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    let (document, path) = (nested(10), "/a".repeat(10));
    let add = |depth: usize| json!([{"op": "add", "path": path, "value": nested(depth)}]);
    assert!(run(&document, &add(MAX_DEPTH - 10)).is_ok());
    assert_eq!(run(&document, &add(MAX_DEPTH - 9)).unwrap_err().reason, Reason::TooDeep);
    // Copied into its own innermost part a document doubles each time.
    let double = |power: u32| json!({"op": "copy", "from": "/a", "path": "/a".repeat((1 << power) + 1)});
    let error = run(&nested(2), &(0..20).map(double).collect()).unwrap_err();
    assert_eq!((error.index, error.reason), (6, Reason::TooDeep));
}

#[test]
fn a_long_path_and_a_huge_index_are_just_missing() {
    let path = "/a".repeat(1_000_000);
    let error = run(&document(), &json!([{"op": "add", "path": path, "value": 1}])).unwrap_err();
    assert!(matches!(error.reason, Reason::TooDeep));
    let error = run(&document(), &json!([{"op": "remove", "path": path}])).unwrap_err();
    assert!(matches!(error.reason, Reason::MissingPath(_)));
    check_fails(
        &json!({"op": "add", "path": format!("/l/{}", i64::MAX), "value": 1}),
        out_of_range(i64::MAX, 4),
    );
}
