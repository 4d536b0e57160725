//! Times as Go programs read and write them.
//!
//! Two textual forms exist: `Time` has whole seconds (`2026-01-02T03:04:05Z`),
//! `MicroTime` has exactly six digits after them. Both are read with Go's rules,
//! which are not quite RFC 3339: a `Time` may carry a fraction (kept when read,
//! dropped when written) and its hour may have one digit. What is wrong with a
//! text is said in Go's words, because clients see them.
//!
//! No clock is read here: the present moment is always an argument.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Seconds from year 1, where Go's zero time is, to the Unix epoch.
const ZERO_TIME: i64 = -62_135_596_800;

/// The longest span Go's nanosecond durations hold, in seconds; longer ones stop here.
pub const MAX_DURATION_SECONDS: i64 = i64::MAX / NANOS_PER_SECOND as i64;

/// A moment in UTC, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Timestamp {
    /// `nanos` past a second are cut off at the last one before the next second.
    pub const fn from_unix(seconds: i64, nanos: u32) -> Self {
        let nanos = if nanos < NANOS_PER_SECOND { nanos } else { NANOS_PER_SECOND - 1 };
        Self { seconds, nanos }
    }

    /// Seconds since the Unix epoch.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// Whether this is Go's zero time, which the API treats as no time at all.
    pub const fn is_zero(self) -> bool {
        self.seconds == ZERO_TIME && self.nanos == 0
    }

    /// Reads a `Time`.
    pub fn parse_time(text: &str) -> Result<Self, ParseError> {
        parse(&TIME, text)
    }

    /// Reads a `MicroTime`.
    pub fn parse_micro_time(text: &str) -> Result<Self, ParseError> {
        parse(&MICRO_TIME, text)
    }

    /// Writes a `Time`: whole seconds, the fraction dropped.
    pub fn to_time(self) -> String {
        let mut out = self.civil();
        out.push('Z');
        out
    }

    /// Writes a `MicroTime`: six digits after the seconds, the rest dropped.
    pub fn to_micro_time(self) -> String {
        let mut out = self.civil();
        out.push('.');
        push_digits(&mut out, 6, i64::from(self.nanos / 1000));
        out.push('Z');
        out
    }

    /// Whole seconds since `earlier`, cut towards zero, within what a Go duration holds.
    pub fn seconds_since(self, earlier: Self) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        let nanos = i128::from(self.nanos) - i128::from(earlier.nanos);
        let whole = (seconds * i128::from(NANOS_PER_SECOND) + nanos) / i128::from(NANOS_PER_SECOND);
        let limit = i128::from(MAX_DURATION_SECONDS);
        i64::try_from(whole.clamp(-limit, limit)).unwrap_or_default()
    }

    /// Digit by digit: every write has several times, and formatting machinery costs more than the text.
    fn civil(self) -> String {
        let (year, month, day) = date_of(self.seconds.div_euclid(SECONDS_PER_DAY));
        let second = self.seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut out = String::with_capacity("2006-01-02T15:04:05.000000Z".len());
        if (0..10_000).contains(&year) {
            push_digits(&mut out, 4, year);
        } else {
            let sign = if year < 0 { "-" } else { "" };
            out.push_str(&format!("{sign}{:04}", year.unsigned_abs()));
        }
        for (before, number) in [('-', month), ('-', day), ('T', hour), (':', minute), (':', second)] {
            out.push(before);
            push_digits(&mut out, 2, number);
        }
        out
    }
}

/// So many digits of a number that has no more, with zeros in front.
fn push_digits(out: &mut String, digits: u32, number: i64) {
    for place in (0..digits).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + u8::try_from(digit).unwrap_or_default()));
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => {
                Self::from_unix(i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos())
            }
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => Self::from_unix(-seconds, 0),
                    nanos => Self::from_unix(-seconds - 1, NANOS_PER_SECOND - nanos),
                }
            }
        }
    }
}

/// Why a text is not a time. Displays as Go's `time.Parse` puts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// The rest of the text does not start with what the layout has there.
    Mismatch {
        layout: &'static str,
        rest: String,
        element: &'static str,
    },
    OutOfRange(&'static str),
    ExtraText(String),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsing time {}", Quoted(&self.text))?;
        match &self.problem {
            Problem::Mismatch { layout, rest, element } => {
                write!(f, " as {}: cannot parse {} as {}", Quoted(layout), Quoted(rest), Quoted(element))
            }
            Problem::OutOfRange(what) => write!(f, ": {what} out of range"),
            Problem::ExtraText(rest) => write!(f, ": extra text: {}", Quoted(rest)),
        }
    }
}

impl std::error::Error for ParseError {}

/// In double quotes, with everything outside printable ASCII as `\xNN` bytes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=0x7f => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

struct Layout {
    text: &'static str,
    /// A `MicroTime` has its six digits; a `Time` may have any number.
    fraction: Option<&'static str>,
}

const TIME: Layout = Layout { text: "2006-01-02T15:04:05Z07:00", fraction: None };
const MICRO_TIME: Layout = Layout { text: "2006-01-02T15:04:05.000000Z07:00", fraction: Some(".000000") };

fn parse(layout: &Layout, text: &str) -> Result<Timestamp, ParseError> {
    parse_parts(layout, text).map_err(|problem| ParseError { text: text.into(), problem })
}

fn parse_parts(layout: &Layout, text: &str) -> Result<Timestamp, Problem> {
    let mut rest = Rest { text, layout: layout.text };
    let year = rest.number("2006", 4..=4)?;
    rest.literal("-")?;
    let month = in_range("month", rest.number("01", 2..=2)?, 1..=12)?;
    rest.literal("-")?;
    let day = rest.number("02", 2..=2)?;
    rest.literal("T")?;
    let hour = in_range("hour", rest.number("15", 1..=2)?, 0..=23)?;
    rest.literal(":")?;
    let minute = in_range("minute", rest.number("04", 2..=2)?, 0..=59)?;
    rest.literal(":")?;
    let second = in_range("second", rest.number("05", 2..=2)?, 0..=59)?;
    let nanos = match layout.fraction {
        Some(element) => rest.micros(element)?,
        None => rest.any_fraction(),
    };
    let offset = rest.zone()?;
    if !rest.text.is_empty() {
        return Err(Problem::ExtraText(rest.text.into()));
    }
    // Only now, as the length of a month depends on the year.
    in_range("day", day, 1..=days_in(year, month))?;
    let seconds = day_number(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    Ok(Timestamp::from_unix(seconds - offset, nanos))
}

/// What is still to be read.
struct Rest<'a> {
    text: &'a str,
    layout: &'static str,
}

impl<'a> Rest<'a> {
    fn mismatch(&self, element: &'static str) -> Problem {
        Problem::Mismatch { layout: self.layout, rest: self.text.into(), element }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), Problem> {
        self.text = self.text.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    /// Takes as many digits as allowed; fewer than that is a mismatch.
    fn number(
        &mut self,
        element: &'static str,
        digits: std::ops::RangeInclusive<usize>,
    ) -> Result<i64, Problem> {
        let found = digits_at_start(self.text).min(*digits.end());
        if found < *digits.start() {
            return Err(self.mismatch(element));
        }
        let number = self.text.get(..found).and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| self.mismatch(element))?;
        self.skip(found);
        Ok(number)
    }

    fn micros(&mut self, element: &'static str) -> Result<u32, Problem> {
        let digits = self.text.strip_prefix(['.', ',']).and_then(|text| text.get(..6));
        let micros = digits.filter(|digits| digits_at_start(digits) == 6);
        let micros: u32 =
            micros.and_then(|micros| micros.parse().ok()).ok_or_else(|| self.mismatch(element))?;
        self.skip(7);
        Ok(micros * 1000)
    }

    /// A fraction where the layout has none: any number of digits, nine of them count.
    fn any_fraction(&mut self) -> u32 {
        let Some(text) = self.text.strip_prefix(['.', ',']) else { return 0 };
        let found = digits_at_start(text);
        if found > 0 {
            self.skip(1 + found);
        }
        let digits = text.bytes().take(found).chain(std::iter::repeat(b'0')).take(9);
        digits.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, Problem> {
        const ELEMENT: &str = "Z07:00";
        if let Some(text) = self.text.strip_prefix('Z') {
            self.text = text;
            return Ok(0);
        }
        let number = |range: std::ops::Range<usize>| {
            let digits = self.text.get(range)?;
            digits.parse::<i64>().ok().filter(|_| digits_at_start(digits) == 2)
        };
        let (hour, colon, minute) = (number(1..3), self.text.get(3..4), number(4..6));
        let (Some(hour), Some(":"), Some(minute)) = (hour, colon, minute) else {
            return Err(self.mismatch(ELEMENT));
        };
        // 24 hours and 60 minutes pass: some people write them. Of two that are
        // out of range, the minute is reported.
        in_range("time zone offset minute", minute, 0..=60)?;
        in_range("time zone offset hour", hour, 0..=24)?;
        let offset = hour * 3600 + minute * 60;
        let offset = match self.text.get(..1) {
            Some("+") => offset,
            Some("-") => -offset,
            _ => return Err(self.mismatch(ELEMENT)),
        };
        self.skip(6);
        Ok(offset)
    }

    fn skip(&mut self, bytes: usize) {
        self.text = self.text.get(bytes..).unwrap_or_default();
    }
}

fn digits_at_start(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn in_range(what: &'static str, number: i64, range: std::ops::RangeInclusive<i64>) -> Result<i64, Problem> {
    if range.contains(&number) { Ok(number) } else { Err(Problem::OutOfRange(what)) }
}

/// Of a month from 1 to 12.
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

// Dates are counted in years that start in March: the leap day is then the last
// day of its year, and the days before a month follow one linear formula.
const DAYS_PER_400_YEARS: i64 = 146_097;
/// From 1 March of year 0 to 1 January 1970.
const EPOCH_DAY: i64 = 719_468;

/// Days from the Unix epoch to a date.
pub fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * DAYS_PER_400_YEARS + year * 365 + year / 4 - year / 100 + day_of_year - EPOCH_DAY
}

/// Year, month and day of a number of days since the Unix epoch.
pub fn date_of(day_number: i64) -> (i64, i64, i64) {
    let days = day_number + EPOCH_DAY;
    let (era, day) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
    // Leap days before this day: one in 4 years, none in 100, one in 400.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (year * 365 + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}
