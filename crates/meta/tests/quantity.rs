//! Quantities against what the Go library of Kubernetes 1.36 answered:
//! `quantity.jsonl` has texts with their canonical form, thousandths or error,
//! and pairs with their order, sum and difference. `upstream_milli` is what it says of negative numbers that
//! it keeps as big decimals: their thousandths overflow, or are rounded up. Ours are exact.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use serde_json::Value;
use sternpost_meta::quantity::{Format, MAX_SUM_DIGITS, Quantity};

fn cases() -> impl Iterator<Item = Value> {
    include_str!("quantity.jsonl").lines().map(|line| serde_json::from_str(line).unwrap())
}

#[test]
fn texts_are_read_and_written_as_recorded() {
    let mut count = 0;
    for case in cases().filter(|case| case["text"].is_string()) {
        let text = case["text"].as_str().unwrap();
        match Quantity::parse(text) {
            Ok(quantity) => {
                assert_eq!(Some(quantity.to_string().as_str()), case["canonical"].as_str(), "{text:?}");
                if let Some(milli) = case["milli"].as_i64() {
                    assert_eq!(quantity.milli_value(), Some(milli), "{text:?}");
                    assert_ne!(case["upstream_milli"], milli, "{text:?}: it is no difference");
                }
            }
            Err(error) => assert_eq!(Some(error.to_string().as_str()), case["error"].as_str(), "{text:?}"),
        }
        count += 1;
    }
    assert!(count >= 400, "{count} cases");
}

#[test]
fn pairs_compare_add_and_subtract_as_recorded() {
    let mut count = 0;
    for case in cases().filter(|case| case["left"].is_string()) {
        let side = |name: &str| Quantity::parse(case[name].as_str().unwrap()).unwrap();
        let (left, right) = (side("left"), side("right"));
        let order = match case["compare"].as_i64().unwrap() {
            -1 => Ordering::Less,
            0 => Ordering::Equal,
            _ => Ordering::Greater,
        };
        assert_eq!(left.cmp(&right), order, "{case}");
        assert_eq!(left.plus(&right).to_string(), case["sum"].as_str().unwrap(), "{case}");
        assert_eq!(left.minus(&right).to_string(), case["difference"].as_str().unwrap(), "{case}");
        count += 1;
    }
    assert!(count >= 200, "{count} cases");
}

#[test]
fn reading_what_was_written_gives_the_same_amount_up_to_exa() {
    let limit = Quantity::parse("1E").unwrap();
    for case in cases() {
        let Some(text) = case["canonical"].as_str() else { continue };
        let quantity = Quantity::parse(case["text"].as_str().unwrap()).unwrap();
        if quantity < limit && quantity.negated() < limit {
            assert_eq!(Quantity::parse(text).unwrap(), quantity, "{case}");
        }
    }
}

#[test]
fn a_sum_of_too_many_digits_keeps_the_larger_number() {
    let one = Quantity::from_int(1, Format::DecimalExponent);
    let at_limit = Quantity::parse(&format!("1e{}", MAX_SUM_DIGITS - 1)).unwrap();
    assert!(at_limit.plus(&one) > at_limit);
    let past_limit = Quantity::parse(&format!("1e{MAX_SUM_DIGITS}")).unwrap();
    assert_eq!(past_limit.plus(&one), past_limit);
    assert_eq!(past_limit.minus(&one), past_limit);
    assert_eq!(one.minus(&past_limit), past_limit.negated());
}

#[test]
fn integers_are_none_where_64_bits_do_not_hold_them() {
    for (text, value, milli) in [
        ("9223372036854775807", Some(i64::MAX), None),
        ("9223372036854775808", None, None),
        ("-9223372036854775808", Some(i64::MIN), None),
        ("9223372036854775.807", Some(9_223_372_036_854_776), Some(i64::MAX)),
        ("1e2000000000", None, None),
        ("-1n", Some(-1), Some(-1)),
        ("0", Some(0), Some(0)),
    ] {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn numbers_and_padded_strings_of_objects_are_quantities() {
    for (json, expected) in [("1000", "1k"), ("0.5", "500m"), ("\" 1Gi \"", "1Gi"), ("-3", "-3")] {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(Quantity::from_json(&value).unwrap().to_string(), expected);
    }
    assert!(Quantity::from_json(&Value::Bool(true)).is_err());
}
