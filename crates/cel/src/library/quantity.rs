//! Quantities.

use std::cmp::Ordering;

use sternpost_meta::quantity::{Format, Quantity};

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Call, Function, function},
    library::{cost, strings::of_text},
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "quantity",
        "28 (string):quantity",
        |call, _| match call.operands {
            [Value::String(text)] => Some(parse(text.as_str())),
            _ => None,
        },
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "isQuantity",
        "28 (string):bool",
        |call, _| of_text(call, |text| Value::Bool(parse(text).is_ok())),
        estimate::tenth,
        cost::tenth,
    ),
    function(
        "sign",
        "28 (quantity):int",
        |call, _| {
            of_quantity(call, |quantity| {
                Ok(Value::Int(if quantity.is_zero() {
                    0
                } else if quantity.is_negative() {
                    -1
                } else {
                    1
                }))
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        "isGreaterThan",
        "28 quantity.(quantity):bool 33 semver.(semver):bool",
        |call, _| compared(call, |order| Value::Bool(order.is_gt())),
        estimate::one,
        cost::one,
    ),
    function(
        "isLessThan",
        "28 quantity.(quantity):bool 33 semver.(semver):bool",
        |call, _| compared(call, |order| Value::Bool(order.is_lt())),
        estimate::one,
        cost::one,
    ),
    function(
        "compareTo",
        "28 quantity.(quantity):int 33 semver.(semver):int",
        |call, _| compared(call, |order| Value::Int(order as i64)),
        estimate::one,
        cost::one,
    ),
    function(
        "asApproximateFloat",
        "28 quantity.():double",
        |call, _| of_quantity(call, |quantity| Ok(Value::Double(approximate(quantity)))),
        estimate::one,
        cost::one,
    ),
    function(
        "asInteger",
        "28 quantity.():int",
        |call, _| {
            of_quantity(call, |quantity| {
                let value = integer(quantity).map(Value::Int);
                value.ok_or_else(|| EvalError::new("cannot convert value to integer"))
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        "isInteger",
        "28 quantity.():bool",
        |call, _| of_quantity(call, |quantity| Ok(Value::Bool(integer(quantity).is_some()))),
        estimate::one,
        cost::one,
    ),
    function(
        "add",
        "28 quantity.(quantity):quantity quantity.(int):quantity",
        |call, _| computed(call, Quantity::plus),
        estimate::one,
        cost::one,
    ),
    function(
        "sub",
        "28 quantity.(quantity):quantity quantity.(int):quantity",
        |call, _| computed(call, Quantity::minus),
        estimate::one,
        cost::one,
    ),
];

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

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.quantity.fmt(f)
    }
}

fn of(quantity: Quantity, computed: bool) -> Value<'static> {
    Value::Quantity(Amount { quantity: quantity.into(), computed })
}

fn parse(text: &str) -> Result<Value<'static>, EvalError> {
    Quantity::parse(text)
        .map(|quantity| of(quantity, false))
        .map_err(|error| EvalError::new(error.to_string()))
}

fn of_quantity<'a>(
    call: &Call<'_, 'a>,
    answer: fn(&Quantity) -> Result<Value<'a>, EvalError>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Quantity(amount)] => Some(answer(&amount.quantity)),
        _ => None,
    }
}

/// Comparisons, of quantities and of versions.
fn compared<'a>(
    call: &Call<'_, 'a>,
    answer: fn(Ordering) -> Value<'a>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::Quantity(one), Value::Quantity(other)] => Some(Ok(answer(one.quantity.cmp(&other.quantity)))),
        [Value::Semver(one), Value::Semver(other)] => Some(Ok(answer(one.compare(other)))),
        _ => None,
    }
}

fn computed<'a>(
    call: &Call<'_, 'a>,
    compute: fn(&Quantity, &Quantity) -> Quantity,
) -> Option<Result<Value<'a>, EvalError>> {
    let (one, other) = match call.operands {
        [Value::Quantity(one), Value::Quantity(other)] => (one, other.quantity.clone()),
        [Value::Quantity(one), Value::Int(other)] => {
            (one, Quantity::from_int(*other, Format::DecimalSi).into())
        }
        _ => return None,
    };
    Some(Ok(of(compute(&one.quantity, &other), true)))
}

/// An integer to CEL is one that 64 bits hold.
fn integer(quantity: &Quantity) -> Option<i64> {
    quantity.value().filter(|_| quantity.is_integer())
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
