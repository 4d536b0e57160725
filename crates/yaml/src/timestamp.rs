//! Which texts `!!timestamp` accepts. Timestamps stay strings, so nothing else
//! needs their meaning.

use sternpost_golang::time::days_in;

/// `2006-1-2`, then nothing, or a time: after `T` or `t` with a zone, after
/// spaces without one.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let mut rest = Rest(text);
    date_and_time(&mut rest).is_some() && rest.0.is_empty()
}

/// The time as Go's `time.RFC3339Nano` writes it.
pub(crate) fn rfc3339(text: &str) -> Option<String> {
    if !is_timestamp(text) {
        return None;
    }
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let two = |part: &str| format!("{part:0>2}");
    let date: Vec<String> = date.split('-').map(two).collect();
    let date = date.join("-");
    let rest = rest.trim_start_matches(['T', 't', ' ']);
    if rest.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let (time, zone) = match rest.find(['Z', '+', '-']) {
        Some(at) => rest.split_at_checked(at)?,
        None => (rest, "Z"),
    };
    let (whole, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let whole: Vec<String> = whole.split(':').map(two).collect();
    // Nanoseconds; what is behind them is cut.
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let zone = if matches!(zone, "+00:00" | "-00:00") { "Z" } else { zone };
    Some(format!("{date}T{}{point}{fraction}{zone}", whole.join(":")))
}

struct Rest<'t>(&'t str);

impl Rest<'_> {
    fn take(&mut self, c: char) -> Option<()> {
        self.0 = self.0.strip_prefix(c)?;
        Some(())
    }

    /// A run of digits, at most `most` of them, and how many they were.
    fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let run = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(run)?;
        self.0 = rest;
        Some((digits.parse().ok()?, run))
    }

    fn one_or_two(&mut self) -> Option<u32> {
        self.digits(2).map(|(value, _)| value)
    }

    fn exactly(&mut self, length: usize) -> Option<u32> {
        self.digits(length).filter(|(_, run)| *run == length).map(|(value, _)| value)
    }
}

fn date_and_time(rest: &mut Rest<'_>) -> Option<()> {
    let year = rest.exactly(4)?;
    rest.take('-')?;
    let month = rest.one_or_two()?;
    rest.take('-')?;
    let day = rest.one_or_two()?;
    if !(1..=12).contains(&month) || day < 1 || i64::from(day) > days_in(year.into(), month.into()) {
        return None;
    }
    match rest.0.chars().next() {
        None => Some(()),
        Some(' ') => {
            rest.0 = rest.0.trim_start_matches(' ');
            time(rest)
        }
        Some('T' | 't') => {
            rest.0 = rest.0.get(1..)?;
            time(rest)?;
            zone(rest)
        }
        Some(_) => None,
    }
}

fn time(rest: &mut Rest<'_>) -> Option<()> {
    let hour = rest.one_or_two()?;
    rest.take(':')?;
    let minute = rest.one_or_two()?;
    rest.take(':')?;
    let second = rest.one_or_two()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if let Some(fraction) = rest.0.strip_prefix(['.', ',']) {
        let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < fraction.len() {
            rest.0 = after;
        }
    }
    Some(())
}

fn zone(rest: &mut Rest<'_>) -> Option<()> {
    if rest.take('Z').is_some() {
        return Some(());
    }
    rest.0 = rest.0.strip_prefix(['+', '-'])?;
    let hours = rest.exactly(2)?;
    rest.take(':')?;
    let minutes = rest.exactly(2)?;
    // Go's own bounds.
    (hours <= 24 && minutes <= 60).then_some(())
}
