//! Trees by yaml.v3's rules, and what is left of them as JSON. The expected
//! values are what kustomize 5.8.1 prints for the same text.

// Helpers outside `#[test]` functions fail the test the same way.

use serde_json::{Value, json};
use sternpost_yaml::node::{MAX_ALIASED_NODES, Node, read_node};
use sternpost_yaml::{MAX_DEPTH, Problem};

fn read(text: &str) -> Value {
    read_node(text).unwrap().unwrap().to_json().unwrap()
}

#[test]
fn plain_scalars_have_the_types_of_yaml_v3() {
    let cases = [
        ("yes", json!("yes")),
        ("012", json!(10)),
        ("0o14", json!(12)),
        ("08", json!(8)),
        ("1_000", json!(1000)),
        ("-0b11", json!(-3)),
        ("-0.0", json!(0)),
        ("True", json!(true)),
        ("2020-1-1", json!("2020-01-01T00:00:00Z")),
        ("2001-12-14t21:59:43.10-05:00", json!("2001-12-14T21:59:43.1-05:00")),
        ("2001-02-30", json!("2001-02-30")),
        ("!!int \"1\"", json!(1)),
        ("!!binary aGVsbG8=", json!("hello")),
        ("190:20:30", json!("190:20:30")),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&format!("v: {text}\n"))["v"], expected, "{text}");
    }
}

#[test]
fn a_time_between_braces_is_text() {
    let value = read("v: {a: 2020-01-01, b: 2001-12-14 21:59:43}");
    assert_eq!(value["v"], json!({"a": "2020-01-01T00:00:00Z", "b": "2001-12-14 21:59:43"}));
}

#[test]
fn folded_text_gains_breaks_before_indented_lines() {
    let cases = [
        (">\n  one\n    two\n  three\n", "one\n\n  two\nthree\n"),
        (">\n  x\n    y\n    z\n  w\n", "x\n\n  y\n  z\nw\n"),
        (">+\n  k\n\n", "k\n\n\n"),
        (">\n  a\n  b\n", "a b\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&format!("v: {text}"))["v"], json!(expected), "{text}");
    }
}

#[test]
fn own_keys_win_over_merged_ones_and_earlier_over_later() {
    assert_eq!(read("a: &a {x: 1, y: 1}\nb: {x: 2, <<: *a}")["b"], json!({"x": 2, "y": 1}));
    assert_eq!(read("e: {<<: [{a: 1}, {a: 2}]}")["e"], json!({"a": 1}));
}

#[test]
fn syntax_errors_are_told_in_the_words_of_go() {
    let cases = [
        ("a: b: c", "mapping values are not allowed in this context"),
        ("x: y\na: b: c", "line 2: mapping values are not allowed in this context"),
        ("a: [\n", "line 1: did not find expected node content"),
        ("a: *x", "unknown anchor 'x' referenced"),
        ("a: |\n  x\n y\n", "line 2: did not find expected key"),
    ];
    for (text, expected) in cases {
        assert_eq!(read_node(text).unwrap_err().upstream, expected, "{text}");
    }
}

#[test]
fn repeated_keys_are_told_with_their_lines() {
    let error = read_node("d:\n  a: 1\n  a: 2\n  a: 3\n").unwrap().unwrap().to_json().unwrap_err();
    let expected = "unmarshal errors:\n  line 3: mapping key \"a\" already defined at line 2\n  line 4: mapping key \"a\" already defined at line 2\n  line 4: mapping key \"a\" already defined at line 3";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn depth_ends_where_the_other_readers_end() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(read_node(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(read_node(&nested(MAX_DEPTH + 1)).unwrap_err().error.problem, Problem::TooDeep);
}

#[test]
fn aliases_may_copy_so_many_nodes() {
    // Each alias copies a list of 1000 nodes and itself.
    let list = format!("- &a [{}]\n", "x, ".repeat(999));
    let copies = |count: usize| format!("{list}{}", "- *a\n".repeat(count));
    assert!(read_node(&copies(MAX_ALIASED_NODES / 1000)).is_ok());
    let error = read_node(&copies(MAX_ALIASED_NODES / 1000 + 1)).unwrap_err();
    assert_eq!(error.error.problem, Problem::ExcessiveAliasing);
}

#[test]
fn a_new_key_has_the_type_of_its_text() {
    let mut node = Node::mapping();
    node.set("inner", Node::mapping());
    node.get_mut("inner").unwrap().set("1", Node::string("x"));
    assert!(node.to_json().is_err());
}
