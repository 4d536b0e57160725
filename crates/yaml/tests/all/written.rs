//! What is written: upstream's bytes, and a value that comes back.

use proptest::{collection, prelude::*};
use serde_json::{Map, Value, json};
use sternpost_yaml::{from_str, write};

#[test]
fn a_merge_key_is_quoted_so_that_it_stays_a_key() {
    assert_eq!(write(&json!({"<<": "<<"})), "\"<<\": <<\n");
    assert_eq!(from_str("\"<<\": <<\n").unwrap(), json!({"<<": "<<"}));
}

#[test]
fn keys_of_up_to_128_bytes_stand_on_one_line() {
    for (length, expected) in [(128, "k: 1\n"), (129, "? k\n: 1\n")] {
        let key = "k".repeat(length);
        assert_eq!(write(&json!({ (key.as_str()): 1 })), expected.replace('k', &key));
    }
}

#[test]
fn lines_are_folded_behind_column_80() {
    for (length, folded) in [(80, false), (81, true)] {
        let text = format!("{} b", "a".repeat(length));
        assert_eq!(write(&text.as_str().into()).contains("\n  b"), folded, "{length}");
        assert_eq!(from_str(&write(&text.as_str().into())).unwrap(), text);
    }
}

#[test]
fn keys_whose_numbers_overflow_are_sorted_somehow() {
    let keys = ["\t", "1.0", "99999999999999999999", "a9223372036854775808", "a9223372036854775807", "a1"];
    let object: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    let object = Value::Object(object);
    assert_eq!(from_str(&write(&object)).unwrap(), object);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_written_reads_back(value in value()) {
        let text = write(&value);
        prop_assert_eq!(from_str(&text).map_err(|error| error.to_string()), Ok(value), "{}", text);
    }
}

/// Any JSON without floats that are whole numbers, which YAML does not tell
/// from integers.
fn value() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter("whole", |value| value.fract() != 0.0 && value.is_finite());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        float.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            collection::btree_map(text(), inner, 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Mostly of what means something to YAML.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        "[-?:,#&*!|>'\"%@`{}\\[\\] ab0-9.\n\t~<=_+]{0,8}",
        "([a-z]{1,9}[ \n]{1,2}){0,40}",
        "[0-9.:_eE+xob-]{1,10}",
        "[\u{0}-\u{20}\u{7f}-\u{a1}\u{2027}-\u{202a}\u{feff}\u{ffff}\u{1f600}a \n]{0,8}",
    ]
}
