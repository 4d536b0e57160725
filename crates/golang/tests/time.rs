//! Times against what Go's `time` package makes of them (recorded with Go 1.26).

use serde_json::{Value, json};
use sternpost_golang::time::{MAX_DURATION_SECONDS, Timestamp};

#[test]
fn texts_read_and_write_as_in_go() {
    let mut cases = 0;
    for line in include_str!("times.jsonl").lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let text = expected["text"].as_str().unwrap();
        let form = expected["form"].as_str().unwrap();
        let (parsed, write): (_, fn(Timestamp) -> String) = match form {
            "Time" => (Timestamp::parse_time(text), Timestamp::to_time),
            _ => (Timestamp::parse_micro_time(text), Timestamp::to_micro_time),
        };
        let actual = match parsed {
            Ok(time) => json!({
                "form": form, "text": text, "written": write(time),
                "seconds": time.seconds(), "nanos": time.nanos(),
            }),
            Err(error) => json!({"form": form, "text": text, "error": error.to_string()}),
        };
        assert_eq!(actual, expected);
        cases += 1;
    }
    assert_eq!(cases, 128);
}

#[test]
fn days_from_year_0_to_9999_survive_writing_and_reading() {
    let first = Timestamp::parse_time("0000-01-01T00:00:00Z").unwrap().seconds();
    let last = Timestamp::parse_time("9999-12-31T00:00:00Z").unwrap().seconds();
    let mut previous = String::new();
    // A step that meets every day of the year within a few years.
    for day in (first / 86_400..=last / 86_400).step_by(11) {
        let time = Timestamp::from_unix(day * 86_400 + day.rem_euclid(86_400), 0);
        let text = time.to_time();
        assert!(previous < text, "{previous} {text}");
        assert_eq!(Timestamp::parse_time(&text), Ok(time));
        previous = text;
    }
}

#[test]
fn moments_out_of_any_calendar_do_not_panic() {
    for seconds in [i64::MIN, i64::MIN + 1, i64::MAX] {
        let time = Timestamp::from_unix(seconds, u32::MAX);
        assert_eq!(time.nanos(), 999_999_999);
        assert!(time.to_time().ends_with('Z') && time.to_micro_time().ends_with(".999999Z"));
    }
    let (first, last) = (Timestamp::from_unix(i64::MIN, 0), Timestamp::from_unix(i64::MAX, 0));
    assert_eq!(last.seconds_since(first), MAX_DURATION_SECONDS);
    assert_eq!(first.seconds_since(last), -MAX_DURATION_SECONDS);
}

#[test]
fn spans_are_cut_towards_zero() {
    let at = Timestamp::from_unix;
    for (later, earlier, seconds) in [
        (at(10, 0), at(5, 0), 5),
        (at(10, 0), at(5, 1), 4),
        (at(10, 999_999_999), at(10, 0), 0),
        (at(10, 0), at(11, 999_999_999), -1),
        (at(10, 0), at(12, 0), -2),
        (at(-1, 500_000_000), at(-3, 0), 2),
    ] {
        assert_eq!(later.seconds_since(earlier), seconds, "{later:?} {earlier:?}");
    }
}

#[test]
fn only_go_s_zero_time_is_zero() {
    assert!(Timestamp::parse_time("0001-01-01T00:00:00Z").unwrap().is_zero());
    assert!(!Timestamp::parse_time("0001-01-01T00:00:00.1Z").unwrap().is_zero());
    assert!(!Timestamp::from_unix(0, 0).is_zero());
}

#[test]
fn system_times_before_and_after_the_epoch_convert() {
    use std::time::{Duration, UNIX_EPOCH};
    let after = UNIX_EPOCH + Duration::new(7, 5);
    let before = UNIX_EPOCH - Duration::new(7, 5);
    assert_eq!(Timestamp::from(after), Timestamp::from_unix(7, 5));
    assert_eq!(Timestamp::from(before), Timestamp::from_unix(-8, 999_999_995));
    assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(7)), Timestamp::from_unix(-7, 0));
}
