//! Durations as Go writes them.

/// Nanoseconds of a Go duration: `1h30m`, `1.5s`, `-20ms`, `0`.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (true, rest),
        Some(("+", rest)) => (false, rest),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let whole = digits(&mut rest);
        let part = rest.strip_prefix('.').map(|after| {
            rest = after;
            digits(&mut rest)
        });
        if whole.is_empty() && part.is_none_or(str::is_empty) {
            return None;
        }
        let unit = unit(&mut rest)?;
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(i128::from(whole) * unit)?;
        let mut scale = 1;
        for digit in part.unwrap_or_default().bytes() {
            scale *= 10;
            if scale > unit {
                break;
            }
            total += i128::from(digit - b'0') * unit / scale;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A duration as Go prints it.
pub(super) fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(size, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(size, 1_000_000)),
        _ => {
            let seconds = decimal(size % 60_000_000_000, 1_000_000_000);
            let minutes = size / 60_000_000_000;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

fn digits<'a>(rest: &mut &'a str) -> &'a str {
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at_checked(count).unwrap_or_default();
    *rest = after;
    digits
}

fn unit(rest: &mut &str) -> Option<i128> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (name, unit) = UNITS.iter().find(|(name, _)| rest.starts_with(name))?;
    *rest = rest.get(name.len()..)?;
    Some(*unit)
}

fn decimal(value: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelled_as_in_go() {
        for (text, nanos, printed) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("1ns", 1, "1ns"),
            ("1.5us", 1_500, "1.5µs"),
            ("20ms", 20_000_000, "20ms"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("90m", 5_400_000_000_000, "1h30m0s"),
            ("-1.25s", -1_250_000_000, "-1.25s"),
            ("+.5s", 500_000_000, "500ms"),
            ("61.000000001s", 61_000_000_001, "1m1.000000001s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
            assert_eq!(format(nanos), printed, "{text}");
        }
        for text in ["", "-", "1", "s", ".s", "1x", "1 s", "9223372036854775808h", "2562047h47m16.854775808s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
