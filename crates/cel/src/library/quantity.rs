//! Quantities.

use sternpost_meta::quantity::{Format, Quantity};

use crate::{evaluate::EvalError, value::Value};

/// A quantity, and whether arithmetic made it: those can only stand on the
/// left of `==`, as upstream has it.
#[derive(Debug, Clone)]
pub struct Amount {
    quantity: std::sync::Arc<Quantity>,
    computed: bool,
}

impl Amount {
    pub(crate) fn equals(&self, other: &Self) -> Result<bool, EvalError> {
        if other.computed {
            return Err(EvalError::new("no such overload"));
        }
        Ok(self.quantity == other.quantity)
    }
}

fn of(quantity: Quantity, computed: bool) -> Value<'static> {
    Value::Quantity(Amount { quantity: quantity.into(), computed })
}

pub(crate) fn parse(text: &str) -> Result<Value<'static>, EvalError> {
    Quantity::parse(text)
        .map(|quantity| of(quantity, false))
        .map_err(|error| EvalError::new(error.to_string()))
}

pub(crate) fn call<'a>(
    function: &str,
    amount: &Amount,
    argument: Option<&Value<'a>>,
) -> Option<Result<Value<'a>, EvalError>> {
    let quantity = &amount.quantity;
    let other = match argument {
        Some(Value::Quantity(other)) => Some((*other.quantity).clone()),
        Some(Value::Int(other)) if matches!(function, "add" | "sub") => {
            Some(Quantity::from_int(*other, Format::DecimalSi))
        }
        _ => None,
    };
    let order = other.as_ref().map(|other| quantity.as_ref().cmp(other));
    // An integer to CEL is one that 64 bits hold.
    let integer = quantity.value().filter(|_| quantity.is_integer());
    Some(Ok(match (function, other) {
        ("sign", None) => Value::Int(if quantity.is_zero() {
            0
        } else if quantity.is_negative() {
            -1
        } else {
            1
        }),
        ("isInteger", None) => Value::Bool(integer.is_some()),
        ("asInteger", None) => match integer {
            Some(value) => Value::Int(value),
            None => return Some(Err(EvalError::new("cannot convert value to integer"))),
        },
        ("asApproximateFloat", None) => Value::Double(approximate(quantity)),
        ("isGreaterThan", Some(_)) => Value::Bool(order?.is_gt()),
        ("isLessThan", Some(_)) => Value::Bool(order?.is_lt()),
        ("compareTo", Some(_)) => Value::Int(order? as i64),
        ("add", Some(other)) => of(quantity.plus(&other), true),
        ("sub", Some(other)) => of(quantity.minus(&other), true),
        _ => return None,
    }))
}

fn approximate(quantity: &Quantity) -> f64 {
    // Its exact decimal spelling, read as a double.
    let text = quantity.to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().unwrap_or(f64::NAN);
    let binary = |power: i32| 1024_f64.powi(power);
    let suffix = text.get(digits.len()..).unwrap_or_default();
    if let Some(exponent) = text.find(['e', 'E']).filter(|at| text.len() > at + 1) {
        return text
            .get(..exponent)
            .zip(text.get(exponent..))
            .and_then(|(number, power)| format!("{number}{power}").parse().ok())
            .unwrap_or(number);
    }
    match suffix {
        "n" => number / 1e9,
        "u" => number / 1e6,
        "m" => number / 1e3,
        "k" => number * 1e3,
        "M" => number * 1e6,
        "G" => number * 1e9,
        "T" => number * 1e12,
        "P" => number * 1e15,
        "E" => number * 1e18,
        "Ki" => number * binary(1),
        "Mi" => number * binary(2),
        "Gi" => number * binary(3),
        "Ti" => number * binary(4),
        "Pi" => number * binary(5),
        "Ei" => number * binary(6),
        _ => number,
    }
}
