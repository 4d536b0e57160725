//! Amounts of resources: `500m`, `1.5Gi`, `2e3`.
//!
//! Start with [`Quantity::parse`]; [`canonical`] is what the server writes back
//! for what a user wrote. Arithmetic is exact and decimal, without floating
//! point: a quantity has as many digits as its text.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

/// Nothing finer is kept: parsing rounds away from zero to a multiple of 10⁻⁹.
pub const FINEST_SCALE: i64 = -9;

/// The largest quantity with a binary suffix; what is larger becomes this.
pub const MAX_BINARY: i64 = i64::MAX;

/// Sums of more digits than this keep only the larger number, so that
/// `1e2000000000 + 1n` costs no memory.
pub const MAX_SUM_DIGITS: i64 = 65_536;

/// What the server writes back when given `text`.
pub fn canonical(text: &str) -> Result<String, ParseError> {
    Ok(Quantity::parse(text)?.to_string())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseError {
    Format,
    Number,
    Suffix,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Number => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseError {}

/// The family of suffixes a quantity prints with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `n`, `u`, `m`, nothing, `k` … `E`
    DecimalSi,
    /// `Ki` … `Ei`
    BinarySi,
    /// `e3`
    DecimalExponent,
}

/// An exact amount. Equal and ordered by value, whatever the spelling:
/// `1 == 1000m`.
#[derive(Debug, Clone)]
pub struct Quantity {
    negative: bool,
    magnitude: Decimal,
    format: Format,
    /// The user's spelling, where the server keeps it.
    spelling: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity {
        negative: false,
        magnitude: Decimal { digits: Vec::new(), exponent: 0 },
        format: Format::DecimalSi,
        spelling: None,
    };

    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let parts = split(text)?;
        let (factor, format) = interpret(parts.suffix).ok_or(ParseError::Suffix)?;
        // What fits 64 bits takes another way upstream, where small numbers may
        // keep the user's spelling and large ones are not capped.
        if let Some(quantity) = parse_small(text, &parts, factor, format) {
            return Ok(quantity);
        }
        // Without any digit there is no number on this way.
        if !parts.number.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(ParseError::Number);
        }
        let places = i32::try_from(parts.decimals.len()).map_err(|_| ParseError::Number)?;
        let mut magnitude = Decimal::from_text([parts.whole, parts.decimals]);
        match factor {
            // Exponents are 32 bits wide and wrap around upstream.
            Factor::Ten(exponent) => {
                magnitude.shift(-i64::from(places.wrapping_add(exponent.wrapping_neg())));
            }
            Factor::Two(exponent) => {
                magnitude = magnitude.times(1 << exponent);
                magnitude.shift(-i64::from(places));
            }
        }
        magnitude = magnitude.rounded_up_to(FINEST_SCALE);
        let mut format = format;
        if format == Format::BinarySi {
            magnitude = magnitude.min(Decimal::from(MAX_BINARY.unsigned_abs()));
            if !magnitude.is_zero() && magnitude < Decimal::from(1) {
                format = Format::DecimalSi;
            }
        }
        Ok(Self::new(parts.negative, magnitude, format))
    }

    /// A string or a number, as objects hold quantities.
    pub fn from_json(value: &Value) -> Result<Self, ParseError> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(ParseError::Format),
        }
    }

    pub fn from_int(value: i64, format: Format) -> Self {
        Self::new(value < 0, Decimal::from(value.unsigned_abs()), format)
    }

    pub fn from_milli(value: i64, format: Format) -> Self {
        let mut magnitude = Decimal::from(value.unsigned_abs());
        magnitude.shift(-3);
        Self::new(value < 0, magnitude, format)
    }

    fn new(negative: bool, magnitude: Decimal, format: Format) -> Self {
        Self { negative: negative && !magnitude.is_zero(), magnitude, format, spelling: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.magnitude.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn is_integer(&self) -> bool {
        self.magnitude.exponent >= 0
    }

    /// The whole number, rounded away from zero, if 64 bits hold it.
    pub fn value(&self) -> Option<i64> {
        self.scaled_value(0)
    }

    /// Thousandths, rounded away from zero, if 64 bits hold them.
    pub fn milli_value(&self) -> Option<i64> {
        self.scaled_value(-3)
    }

    fn scaled_value(&self, scale: i64) -> Option<i64> {
        let mut magnitude = self.magnitude.rounded_up_to(scale);
        magnitude.shift(-scale);
        let magnitude = magnitude.to_integer()?;
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// As it stands if it has whole thousandths, else rounded away from zero.
    #[must_use]
    pub fn rounded_up_to_milli(self) -> Self {
        if self.magnitude.exponent >= -3 {
            return self;
        }
        Self::new(self.negative, self.magnitude.rounded_up_to(-3), self.format)
    }

    /// The sum, in the format of `self` unless that is zero.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, self.magnitude.plus(&other.magnitude))
        } else if self.magnitude >= other.magnitude {
            (self.negative, self.magnitude.minus_smaller(&other.magnitude))
        } else {
            (other.negative, other.magnitude.minus_smaller(&self.magnitude))
        };
        Self::new(negative, magnitude, format)
    }

    /// The difference, in the format of `self` unless that is zero.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.negated())
    }

    #[must_use]
    pub fn negated(&self) -> Self {
        Self::new(!self.negative, self.magnitude.clone(), self.format)
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude.cmp(&other.magnitude),
            (true, true) => other.magnitude.cmp(&self.magnitude),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

/// As the server writes it.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spelling) = &self.spelling {
            return f.write_str(spelling);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.negative {
            f.write_str("-")?;
        }
        let below_ki = self.magnitude < Decimal::from(1024);
        match self.format {
            Format::BinarySi if !below_ki && self.is_integer() => {
                let (magnitude, times) = self.magnitude.without_factor_1024();
                write!(f, "{magnitude}{}", binary_suffix(times))
            }
            format => {
                let exponent = self.magnitude.exponent - self.magnitude.exponent.rem_euclid(3);
                let mut magnitude = self.magnitude.clone();
                magnitude.shift(-exponent);
                write!(f, "{magnitude}")?;
                match format {
                    Format::DecimalExponent if exponent == 0 => Ok(()),
                    Format::DecimalExponent => write!(f, "e{exponent}"),
                    // Beyond `E` upstream prints no suffix at all.
                    Format::DecimalSi | Format::BinarySi => f.write_str(decimal_suffix(exponent)),
                }
            }
        }
    }
}

/// A quantity's text, cut where its parts meet.
struct Parts<'a> {
    negative: bool,
    /// Sign, digits and point.
    number: &'a str,
    /// Digits before the point, without leading zeros.
    whole: &'a str,
    /// Digits after the point.
    decimals: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let significant = unsigned.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(Parts { negative, number: "0", whole: "0", decimals: "", suffix: "" });
    }
    let (whole, rest) = split_digits(significant);
    let (decimals, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let number = text.strip_suffix(suffix).unwrap_or(text);
    let after_letters =
        suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::Format);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { negative, number, whole, decimals, suffix })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// What a suffix multiplies by: a power of ten or of two.
#[derive(Debug, Clone, Copy)]
enum Factor {
    Ten(i32),
    Two(u32),
}

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn interpret(suffix: &str) -> Option<(Factor, Format)> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Factor::Ten(*exponent), Format::DecimalSi));
    }
    if let Some((exponent, _)) = (0..).step_by(10).zip(BINARY_SUFFIXES).find(|(_, name)| *name == suffix) {
        return Some((Factor::Two(exponent), Format::BinarySi));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, reason = "upstream keeps the low 32 bits")]
    let exponent = exponent as i32;
    Some((Factor::Ten(exponent), Format::DecimalExponent))
}

fn decimal_suffix(exponent: i64) -> &'static str {
    DECIMAL_SUFFIXES.iter().find(|(_, known)| i64::from(*known) == exponent).map_or("", |(name, _)| name)
}

fn binary_suffix(times: usize) -> &'static str {
    BINARY_SUFFIXES.get(times).copied().unwrap_or_default()
}

/// Most digits that always fit 64 bits.
const SMALL_DIGITS: usize = 18;

/// The way of numbers that surely fit 64 bits; `None` sends to the long way.
fn parse_small(text: &str, parts: &Parts<'_>, factor: Factor, format: Format) -> Option<Quantity> {
    let mut magnitude = Decimal::from_text([parts.whole, parts.decimals]);
    let keeps_spelling = match factor {
        Factor::Ten(exponent) => {
            if parts.whole.len() + parts.decimals.len() > SMALL_DIGITS {
                return None;
            }
            let places = i32::try_from(parts.decimals.len()).ok()?;
            let scale = exponent.wrapping_sub(places);
            if i64::from(scale) < FINEST_SCALE {
                return None;
            }
            magnitude.shift(i64::from(scale));
            let last_three_are_zeros = [parts.whole, parts.decimals].concat().ends_with("000");
            scale % 3 == 0 && !last_three_are_zeros && !parts.whole.starts_with('0')
        }
        Factor::Two(exponent) => {
            // Three digits stand for ten bits here.
            let digits = parts.whole.len() + usize::try_from(exponent).ok()? * 3 / 10 + 1;
            if !parts.decimals.is_empty() || digits > 15 {
                return None;
            }
            let whole: u64 = parts.whole.parse().ok()?;
            magnitude = magnitude.times(1 << exponent);
            !whole.is_multiple_of(8)
        }
    };
    let spelling = keeps_spelling.then(|| text.into());
    Some(Quantity { spelling, ..Quantity::new(parts.negative, magnitude, format) })
}

/// A number of at least zero: `digits` × 10^`exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    /// Most significant first, neither beginning nor ending with 0; none for zero.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn new(mut digits: Vec<u8>, mut exponent: i64) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
            exponent += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        if digits.is_empty() {
            exponent = 0;
        }
        Self { digits, exponent }
    }

    fn from_text(parts: [&str; 2]) -> Self {
        Self::new(
            parts.iter().flat_map(|part| part.bytes()).map(|byte| byte.saturating_sub(b'0')).collect(),
            0,
        )
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    fn shift(&mut self, exponent: i64) {
        if !self.is_zero() {
            self.exponent += exponent;
        }
    }

    fn times(&self, factor: u64) -> Self {
        let mut carry = 0u128;
        let mut digits: Vec<u8> = Vec::with_capacity(self.digits.len() + 20);
        for digit in self.digits.iter().rev() {
            carry += u128::from(*digit) * u128::from(factor);
            digits.push(low_digit(carry));
            carry /= 10;
        }
        while carry > 0 {
            digits.push(low_digit(carry));
            carry /= 10;
        }
        digits.reverse();
        Self::new(digits, self.exponent)
    }

    /// Away from zero, to a multiple of 10^`scale`.
    fn rounded_up_to(&self, scale: i64) -> Self {
        if self.is_zero() || self.exponent >= scale {
            return self.clone();
        }
        let dropped = usize::try_from(scale - self.exponent).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(dropped);
        // The last digit is not zero, so something was dropped.
        let kept = Self::new(self.digits.iter().take(kept).copied().collect(), scale);
        kept.plus(&Self { digits: vec![1], exponent: scale })
    }

    /// One more than the exponent of the first digit.
    fn top(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX).saturating_add(self.exponent)
    }

    /// The digit that counts 10^`exponent`.
    fn digit_at(&self, exponent: i64) -> u8 {
        usize::try_from(self.top() - 1 - exponent)
            .ok()
            .and_then(|index| self.digits.get(index))
            .copied()
            .unwrap_or(0)
    }

    fn plus(&self, other: &Self) -> Self {
        let Some((low, high)) = self.span(other) else {
            return self.max(other).clone();
        };
        let mut carry = 0;
        let mut digits = Vec::new();
        for exponent in low..=high {
            let sum = self.digit_at(exponent) + other.digit_at(exponent) + carry;
            digits.push(sum % 10);
            carry = sum / 10;
        }
        digits.reverse();
        Self::new(digits, low)
    }

    /// `other` is at most `self`.
    fn minus_smaller(&self, other: &Self) -> Self {
        let Some((low, high)) = self.span(other) else {
            return self.clone();
        };
        let mut borrow = 0;
        let mut digits = Vec::new();
        for exponent in low..=high {
            let taken = other.digit_at(exponent) + borrow;
            let digit = self.digit_at(exponent);
            borrow = u8::from(digit < taken);
            digits.push((digit + 10 * borrow).saturating_sub(taken));
        }
        digits.reverse();
        Self::new(digits, low)
    }

    /// The exponents of the lowest digit and of a carry out of the highest;
    /// `None` if one number is zero or they are too far apart.
    fn span(&self, other: &Self) -> Option<(i64, i64)> {
        let low = self.exponent.min(other.exponent);
        let high = self.top().max(other.top());
        (!self.is_zero() && !other.is_zero() && high - low <= MAX_SUM_DIGITS).then_some((low, high))
    }

    /// Divided by 1024 as often as that leaves a whole number, and how often.
    fn without_factor_1024(&self) -> (Self, usize) {
        let mut times = 0;
        let mut number = self.clone();
        while let Some(quotient) = number.divided_by_1024() {
            number = quotient;
            times += 1;
        }
        (number, times)
    }

    /// `None` if something remains.
    fn divided_by_1024(&self) -> Option<Self> {
        let mut remainder = 0u32;
        let mut digits = Vec::with_capacity(self.digits.len());
        for exponent in (0..self.top().min(MAX_SUM_DIGITS)).rev() {
            remainder = remainder * 10 + u32::from(self.digit_at(exponent));
            digits.push(low_digit(u128::from(remainder / 1024)));
            remainder %= 1024;
        }
        (remainder == 0).then(|| Self::new(digits, 0)).filter(|quotient| !quotient.is_zero())
    }

    fn to_integer(&self) -> Option<i128> {
        let mut value = 0i128;
        for digit in &self.digits {
            value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
        }
        if value == 0 {
            return Some(0);
        }
        value.checked_mul(10i128.checked_pow(u32::try_from(self.exponent).ok()?)?)
    }
}

fn low_digit(number: u128) -> u8 {
    u8::try_from(number % 10).unwrap_or(0)
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        Self::from_text([&number.to_string(), ""])
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.top().cmp(&other.top()).then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// All digits of a whole number. The exponent is at most two where this is used
/// on user input, or what the digits of a binary quantity end in.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in &self.digits {
            write!(f, "{digit}")?;
        }
        for _ in 0..self.exponent.min(MAX_SUM_DIGITS) {
            f.write_str("0")?;
        }
        Ok(())
    }
}
