//! The texts of cron schedules: `*/5 * * * mon-fri`, `@daily`, `@every 1h30m`.
//!
//! Only whether a text is a schedule is decided here, with the words of the
//! parser upstream uses; when it fires is a controller's business.

use sternpost_golang::{duration, strconv::NumberError};

use super::time_zone;

/// What is wrong with the text, if anything.
pub fn problem(schedule: &str) -> Option<String> {
    parse(schedule).err()
}

/// One of the five fields: its lowest and highest number, and names from the lowest on.
struct Bounds {
    low: i64,
    high: i64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds {
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, after) = schedule
            .split_once(' ')
            .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        // The empty name and this one are what the clock of the server says.
        if !matches!(zone, "" | "Local") && !time_zone::is_known(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return parse_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (expected, found) = (FIELDS.len(), fields.len());
        return Err(format!("expected exactly {expected} fields, found {found}: [{}]", fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            parse_range(range, bounds)?;
        }
    }
    Ok(())
}

fn parse_descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(every) => duration::parse(every)
                .map(|_| ())
                .map_err(|problem| format!("failed to parse duration {text}: time: {problem}")),
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

fn parse_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let (range, step) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [range] => (*range, Ok(None)),
        [range, step] => (*range, Ok(Some(*step))),
        [range, ..] => (*range, Err(format!("too many slashes: {text}"))),
        [] => (text, Ok(None)),
    };
    let parts: Vec<&str> = range.split('-').collect();
    let (start, mut end) = match parts.as_slice() {
        ["*" | "?", ..] => (bounds.low, bounds.high),
        [only] => {
            let number = parse_number_or_name(only, bounds)?;
            (number, number)
        }
        [first, last] => (parse_number_or_name(first, bounds)?, parse_number_or_name(last, bounds)?),
        [first, ..] => {
            parse_number_or_name(first, bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => (bounds.low, bounds.high),
    };
    let step = match step? {
        Some(step) => {
            let step = parse_number(step)?;
            if parts.len() == 1 {
                end = bounds.high;
            }
            step
        }
        None => 1,
    };
    let (low, high) = (bounds.low, bounds.high);
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {text}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn parse_number_or_name(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let named = bounds.names.iter().zip(bounds.low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    match named {
        Some((_, number)) => Ok(number),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(error) => {
            let problem = NumberError::from(error).text("Atoi", text);
            Err(format!("failed to parse int from {text}: {problem}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream_reads_them() {
        for (schedule, expected) in [
            ("* * * * *", ""),
            ("*/5 0-23/2 1,15 jan-DEC sun", ""),
            ("? ? ? ? ?", ""),
            (", * * * *", ""),
            ("@hourly", ""),
            ("@every 1h30.5m", ""),
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every 1", "failed to parse duration @every 1: time: missing unit in duration \"1\""),
            ("@every 1y", "failed to parse duration @every 1y: time: unknown unit \"y\" in duration \"1y\""),
            ("TZ=UTC * * * * *", ""),
            ("TZ=No/Where * * * * *", "provided bad location No/Where: unknown time zone No/Where"),
        ] {
            assert_eq!(problem(schedule).unwrap_or_default(), expected, "{schedule}");
        }
    }
}
