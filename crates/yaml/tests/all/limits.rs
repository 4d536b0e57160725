//! Each limit at its value and one past it, and inputs made to hurt.

// Helpers outside `#[test]` functions fail the test the same way.

use proptest::prelude::*;
use serde_json::{Value, json};
use sternpost_yaml::{Error, MAX_ALIASED_BYTES, MAX_DEPTH, Problem, documents, from_str, read};

fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> Problem {
    result.unwrap_err().problem
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[test]
fn depth_ends_where_serde_json_ends() {
    let deepest = from_str(&nested(MAX_DEPTH)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&deepest.to_string()).unwrap(), deepest);
    assert_eq!(problem(from_str(&nested(MAX_DEPTH + 1))), Problem::TooDeep);
    assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH + 1)).is_err());
}

#[test]
fn depth_counts_block_collections() {
    let block = |depth: usize| "- ".repeat(depth) + "a";
    assert!(from_str(&block(MAX_DEPTH)).is_ok());
    assert_eq!(problem(from_str(&block(MAX_DEPTH + 1))), Problem::TooDeep);
}

#[test]
fn depth_counts_what_aliases_bring_in() {
    let text = |depth: usize| format!("- &x {}\n- [*x]", nested(depth));
    assert!(from_str(&text(MAX_DEPTH - 2)).is_ok());
    let error = from_str(&text(MAX_DEPTH - 1)).unwrap_err();
    assert_eq!((error.line, error.column, error.problem), (2, 4, Problem::TooDeep));
}

#[test]
fn long_chains_of_aliases_and_merges_are_too_deep() {
    let chain = |length: usize, open: &str, close: &str| -> String {
        let link = |n: usize| format!("- &a{} {open}*a{n}{close}\n", n + 1);
        format!("- &a0 {{}}\n{}", (0..length).map(link).collect::<String>())
    };
    for (open, close) in [("[", "]"), ("{<<: ", "}")] {
        assert!(from_str(&chain(MAX_DEPTH - 2, open, close)).is_ok(), "{open}");
        for length in [MAX_DEPTH - 1, 100_000] {
            assert_eq!(problem(from_str(&chain(length, open, close))), Problem::TooDeep, "{open}");
        }
    }
}

#[test]
fn aliases_may_copy_so_much_text() {
    const COPIES: usize = 16;
    let long = "x".repeat(MAX_ALIASED_BYTES / COPIES);
    let at_limit = format!("- &x {long}\n{}", "- *x\n".repeat(COPIES));
    assert!(from_str(&at_limit).is_ok());
    let past = format!("{at_limit}- &y z\n- *y\n");
    assert_eq!(problem(from_str(&past)), Problem::AliasedTextTooLong);
    let in_next_document = format!("{at_limit}---\n- &y z\n- *y\n");
    assert_eq!(problem(documents(&in_next_document)), Problem::AliasedTextTooLong);
}

/// The count at which `sigs.k8s.io/yaml` v1.6.0 begins to refuse.
#[test]
fn aliases_may_make_up_so_much_of_a_document() {
    let text = |aliases: usize| format!("- &x [{}1]\n{}", "1,".repeat(199), "- *x\n".repeat(aliases));
    assert!(from_str(&text(197)).is_ok());
    assert_eq!(problem(from_str(&text(198))), Problem::ExcessiveAliasing);
}

#[test]
fn alias_bombs_are_refused() {
    let levels = |link: &dyn Fn(usize) -> String| -> String {
        (1..30).map(|level| format!("a{level}: &a{level} {}\n", link(level - 1))).collect()
    };
    let sequences = levels(&|below| format!("[{}]", vec![format!("*a{below}"); 9].join(",")));
    let mappings = levels(&|below| format!("{{a: *a{below}, b: *a{below}}}"));
    let merges = levels(&|below| format!("{{<<: [{}]}}", vec![format!("*a{below}"); 9].join(",")));
    for bomb in [sequences, mappings, merges] {
        let text = format!("a0: &a0 {{k: v}}\n{bomb}");
        assert_eq!(problem(from_str(&text)), Problem::ExcessiveAliasing);
    }
}

#[test]
fn long_repetitions_are_answered_without_a_panic() {
    const MIB: usize = 1024 * 1024;
    for unit in [
        "[", "{", "- ", "? ", "a: ", "a: 1\n", "- a\n", "!", "!,", "!a, ", "&a ", "*a ", "'", "\"", "|\n",
        " ", "\n", "#", "---\n", "%", "\t", "a,", "{a,", "[a: ", ": ", "\\", "é",
    ] {
        for prefix in ["", "[", "a: |\n  ", "\""] {
            let text = format!("{prefix}{}", unit.repeat(MIB / 64 / unit.len()));
            let _ = read(&text);
            let _ = documents(&text);
        }
    }
}

#[test]
fn errors_name_their_place() {
    for (text, expected) in [
        ("a: 1\nb: *x", "line 2, column 4: unknown anchor `x`"),
        ("a: &x\n  - *x", "line 2, column 5: anchor `x` contains itself"),
        ("a:\n  - .nan", "line 2, column 5: `.nan` has no form in JSON"),
        ("é: !!int x", "line 1, column 4: `x` is not a !!int"),
        ("a: !!binary '*'", "line 1, column 4: !!binary value is not valid base64"),
        ("a: 1\n~: 2", "line 2, column 1: null cannot be a key"),
        ("a:\n  <<: 1", "line 2, column 7: `<<` needs a mapping or a sequence of mappings"),
        ("a: b\nc: d: e", "line 2, column 5: mapping values are not allowed in this context"),
        ("a: é\n  \u{7}", "line 2, column 3: control characters are not allowed"),
        (
            "a: x\nb: [y,\n z, !t, u]",
            "line 3, column 7: did not find expected whitespace or line break while scanning a tag",
        ),
    ] {
        assert_eq!(from_str(text).unwrap_err().to_string(), expected, "{text:?}");
    }
}

#[test]
fn repeated_keys_are_all_reported_and_the_last_wins() {
    let document = read("a: 1\na:\n  b: 2\nx: &x {k: 1}\nz:\n  <<: *x\n  k: 2\n").unwrap();
    assert_eq!(document.value, json!({"a": {"b": 2}, "x": {"k": 1}, "z": {"k": 2}}));
    let problems: Vec<_> = document.repeated.into_iter().map(|e| (e.line, e.problem)).collect();
    let duplicate = Problem::DuplicateKey { key: "a".to_owned(), value_line: 3 };
    let merged = Problem::MergedKeySetAgain { key: "k".to_owned(), value_line: 7 };
    assert_eq!(problems, [(2, duplicate), (7, merged)]);
}

#[test]
fn a_key_may_override_a_merged_one() {
    let value = from_str("- &x {k: 1, l: 2}\n- {<<: *x, k: 3}").unwrap();
    assert_eq!(value, json!([{"k": 1, "l": 2}, {"k": 3, "l": 2}]));
}

#[test]
fn documents_skips_nulls_and_reads_to_the_end() {
    let text = "# head\n---\na: 1\n---\n# none\n---\n~\n--- {b: 2}\n...\n---\n- c\n";
    assert_eq!(documents(text).unwrap(), [json!({"a": 1}), json!({"b": 2}), json!(["c"])]);
    assert_eq!(documents("").unwrap(), Vec::<Value>::new());
    assert_eq!(documents("a: 1\n---\nb: [").unwrap_err().line, 3);
    assert_eq!(problem(documents("a: &x 1\n---\nb: *x")), Problem::UnknownAnchor("x".to_owned()));
    assert!(documents("{a: 1} x").is_err());
}

/// Pieces that get further into the grammar than random characters do.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[\\[\\]{},:?#&*!|>'\"%@`~<=.+_ \\t\\r\\n0-9a-z-]",
        Just("\n  ".to_owned()),
        Just("\n- ".to_owned()),
        Just(": ".to_owned()),
        Just("|\n  ".to_owned()),
        Just(">+2\n  ".to_owned()),
        Just("!!binary ".to_owned()),
        Just("!!timestamp 2001-01-01T".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("<<: ".to_owned()),
        Just("\n---\n".to_owned()),
        Just("%TAG ! a\n---\n".to_owned()),
        Just("\\u".to_owned()),
        Just("%f0".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), yaml_like()]) {
        let _ = documents(&text);
        if let Ok(value) = from_str(&text) {
            prop_assert_eq!(read(&text).unwrap().value, value);
        }
    }

    #[test]
    fn json_reads_as_itself(items in proptest::collection::vec(("[a-z\\\\\"\n\t é]{0,8}", any::<i64>(), any::<bool>()), 0..8)) {
        let value: Value = items.into_iter().map(|(text, number, flag)| json!({ "t": text, "n": number, "f": flag })).collect();
        prop_assert_eq!(from_str(&value.to_string()).unwrap(), value.clone());
        prop_assert_eq!(from_str(&format!("{value:#}")).unwrap(), value);
    }
}
