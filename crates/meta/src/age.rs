//! Ages as people read them.

/// How long something took or is ago, in at most two units: `5d`, `3h2m`.
///
/// The longer the span, the coarser the unit. Moments up to a second in the
/// future are put down to clocks that disagree; later ones are `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // Two neighbouring units; the smaller one is left out when it is zero.
    let pair = |big: i64, big_name: char, small: i64, small_name: char| match seconds % big / small {
        0 => format!("{}{big_name}", seconds / big),
        rest => format!("{}{big_name}{rest}{small_name}", seconds / big),
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => pair(MINUTE, 'm', 1, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => pair(HOUR, 'h', MINUTE, 'm'),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => pair(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use sternpost_golang::time::MAX_DURATION_SECONDS;

    use super::*;

    #[test]
    fn ages_change_unit_at_upstream_s_borders() {
        for (seconds, text) in [
            (i64::MIN, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_859, "3h"),
            (10_860, "3h1m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_287_999, "7y364d"),
            (252_288_000, "8y"),
            (MAX_DURATION_SECONDS, "292y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }
}
