//! A wall clock that leaps, as one does that is set: for fault campaigns, which want it of one server on a machine whose
//! clock they leave alone.
//!
//! Only in development builds, and there only if the environment names a file ([`FILE`]). In a release build there is
//! nothing to be turned on.

use std::time::SystemTime;

/// Names the file that says by how many milliseconds a process's wall clock is ahead; behind, if negative. It is read
/// each time that the clock is.
pub const FILE: &str = "STERNPOST_TEST_CLOCK_SHIFT";

#[cfg(not(debug_assertions))]
pub(crate) fn shifted(time: SystemTime) -> SystemTime {
    time
}

#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "whoever starts the process says it to no other part of it")]
pub(crate) fn shifted(time: SystemTime) -> SystemTime {
    use std::{ffi::OsString, fs, sync::OnceLock};

    static NAMED: OnceLock<Option<OsString>> = OnceLock::new();
    match NAMED.get_or_init(|| std::env::var_os(FILE)) {
        Some(file) => by(time, &fs::read_to_string(file).unwrap_or_default()),
        None => time,
    }
}

/// What is no number shifts nothing, nor does one that leads beyond all time.
#[cfg(debug_assertions)]
fn by(time: SystemTime, text: &str) -> SystemTime {
    let millis: i64 = text.trim().parse().unwrap_or_default();
    let distance = std::time::Duration::from_millis(millis.unsigned_abs());
    let shifted = if millis < 0 { time.checked_sub(distance) } else { time.checked_add(distance) };
    shifted.unwrap_or(time)
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_file_says_how_far_a_clock_is_off() {
        let time = UNIX_EPOCH + Duration::from_secs(1_000);
        let after = |text| by(time, text).duration_since(UNIX_EPOCH).unwrap().as_millis();
        assert_eq!(after("1500\n"), 1_001_500);
        assert_eq!(after("-999000"), 1_000);
        for nothing in ["", "x", "9223372036854775808"] {
            assert_eq!(after(nothing), 1_000_000);
        }
    }
}
