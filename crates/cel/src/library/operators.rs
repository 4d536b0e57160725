//! Operators.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{
    ast::operator,
    estimate::{self, Operands, Price, scaled},
    evaluate::{EvalError, Meter},
    functions::{Call, Function, form, function, no_overload, plain_mismatch},
    library::cost,
    plan,
    types::{self, Type},
    value::{Entries, Key, Map, Value},
};

type Outcome<'a> = Result<Value<'a>, EvalError>;

const ORDERED: &str = "
    23 (bool,bool):bool (int,int):bool (uint,uint):bool (double,double):bool (string,string):bool
    (bytes,bytes):bool (timestamp,timestamp):bool (duration,duration):bool
    28 (int,uint):bool (int,double):bool (uint,int):bool (uint,double):bool (double,int):bool
    (double,uint):bool";

pub(crate) const FUNCTIONS: &[Function] = &[
    // These three have no signatures: the checker has rules of its own for them.
    form(operator::AND, "", plan::and, |of| of.price(0)),
    form(operator::OR, "", plan::or, |of| of.price(0)),
    form(operator::OPTIONAL_SELECT, "", plan::optional_index, estimate::one),
    form(operator::CONDITIONAL, "23 (bool,A,A):A", plan::conditional, |of| {
        Price::whole(of.cost(0).saturating_add(of.cost(1).max(of.cost(2)))).sized(of.size(1).or(of.size(2)))
    }),
    form(operator::NOT_STRICTLY_FALSE, "23 (bool):bool", plan::not_strictly_false, estimate::one),
    form(
        operator::INDEX,
        "23 (list(A),int):A (map(K,V),K):V
         28 (optional(list(A)),int):optional(A) (optional(map(K,V)),K):optional(V)",
        plan::index,
        |of| {
            let price = match of.ty(0) {
                Type::List(_) => of.price(1).part("@items"),
                Type::Map(..) => of.price(1).part("@values"),
                Type::Dyn if of.is_bounded() => of.price(1).part("@items"),
                _ => of.price(1),
            };
            match of.entry_size() {
                Some(size) => price.sized(size),
                None => price,
            }
        },
    ),
    form(
        operator::OPTIONAL_INDEX,
        "28 (list(A),int):optional(A) (optional(list(A)),int):optional(A) (map(K,V),K):optional(V)
         (optional(map(K,V)),K):optional(V)",
        plan::optional_index,
        estimate::one,
    ),
    function(
        operator::EQUALS,
        "23 (A,A):bool",
        |call, meter| match call.operands {
            [one, other] if one.refuses(other) => Some(Err(no_overload())),
            [one, other] => Some(one.equals(other, meter).map(Value::Bool)),
            _ => None,
        },
        |of| match of.ty(0) {
            Type::Opaque(types::NAMED_FORMAT) => of.price(7),
            Type::Opaque(types::URL) => of.price(of.tenth(1)),
            Type::Opaque(_) => of.price(1),
            _ => shorter_estimate(of),
        },
        equality_cost,
    ),
    function(
        operator::NOT_EQUALS,
        "23 (A,A):bool",
        |call, meter| match call.operands {
            [one, other] => Some(one.equals(other, meter).map(|equal| Value::Bool(!equal))),
            _ => None,
        },
        shorter_estimate,
        equality_cost,
    ),
    function(
        operator::LESS,
        ORDERED,
        |call, _| order(operator::LESS, call, Ordering::is_lt),
        order_estimate,
        order_cost,
    ),
    function(
        operator::LESS_EQUALS,
        ORDERED,
        |call, _| order(operator::LESS_EQUALS, call, Ordering::is_le),
        order_estimate,
        order_cost,
    ),
    function(
        operator::GREATER,
        ORDERED,
        |call, _| order(operator::GREATER, call, Ordering::is_gt),
        order_estimate,
        order_cost,
    ),
    function(
        operator::GREATER_EQUALS,
        ORDERED,
        |call, _| order(operator::GREATER_EQUALS, call, Ordering::is_ge),
        order_estimate,
        order_cost,
    ),
    function(
        operator::ADD,
        "23 (int,int):int (uint,uint):uint (double,double):double (string,string):string (bytes,bytes):bytes
         (list(A),list(A)):list(A) (duration,duration):duration (timestamp,duration):timestamp
         (duration,timestamp):timestamp",
        |call, meter| match call.operands {
            [Value::Map(_) | Value::Object(..) | Value::Message(_) | Value::Null, _] => {
                Some(no_operator(operator::ADD))
            }
            [one, other] => Some(add(one, other, meter)),
            _ => None,
        },
        |of| {
            let sum = of.size(0).and(of.size(1));
            if of.may_be_text(0) && of.may_be_text(1) {
                return of.price(at_least_one_if_dynamic(of, scaled(sum.max, 0.1))).sized(sum);
            }
            let listed = matches!(of.ty(0), Type::List(_)) || matches!(of.ty(1), Type::List(_));
            if listed { of.price(1).sized(sum) } else { of.price(1) }
        },
        |call, _| {
            if call.is_text(0) && call.is_text(1) {
                scaled(call.size(0).saturating_add(call.size(1)), 0.1)
            } else {
                1
            }
        },
    ),
    function(
        operator::SUBTRACT,
        "23 (int,int):int (uint,uint):uint (double,double):double (duration,duration):duration
         (timestamp,duration):timestamp (timestamp,timestamp):duration",
        |call, _| arithmetic(operator::SUBTRACT, call, subtract),
        estimate::one,
        cost::one,
    ),
    function(
        operator::MULTIPLY,
        "23 (int,int):int (uint,uint):uint (double,double):double",
        |call, _| {
            arithmetic(operator::MULTIPLY, call, |one, other| match (one, other) {
                (Value::Int(one), Value::Int(other)) => int(one.checked_mul(*other)),
                (Value::Uint(one), Value::Uint(other)) => uint(one.checked_mul(*other)),
                (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one * other)),
                _ => Err(no_overload()),
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        operator::DIVIDE,
        "23 (int,int):int (uint,uint):uint (double,double):double",
        |call, _| {
            arithmetic(operator::DIVIDE, call, |one, other| match (one, other) {
                (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                    Err(EvalError::new("division by zero"))
                }
                (Value::Int(one), Value::Int(other)) => int(one.checked_div(*other)),
                (Value::Uint(one), Value::Uint(other)) => uint(one.checked_div(*other)),
                (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one / other)),
                _ => Err(no_overload()),
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        operator::MODULO,
        "23 (int,int):int (uint,uint):uint",
        |call, _| {
            arithmetic(operator::MODULO, call, |one, other| match (one, other) {
                (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                    Err(EvalError::new("modulus by zero"))
                }
                (Value::Int(one), Value::Int(other)) => int(one.checked_rem(*other)),
                (Value::Uint(one), Value::Uint(other)) => uint(one.checked_rem(*other)),
                _ => Err(no_overload()),
            })
        },
        estimate::one,
        cost::one,
    ),
    function(
        operator::NEGATE,
        "23 (int):int (double):double",
        |call, _| match call.operands {
            [Value::Int(value)] => Some(int(value.checked_neg())),
            [Value::Double(value)] => Some(Ok(Value::Double(-value))),
            [Value::List(_) | Value::Map(_) | Value::Object(..) | Value::Null] => {
                Some(no_operator(operator::NEGATE))
            }
            _ => None,
        },
        estimate::one,
        cost::one,
    )
    .mismatch(plain_mismatch),
    function(
        operator::NOT,
        "23 (bool):bool",
        |call, _| match call.operands {
            [Value::Bool(value)] => Some(Ok(Value::Bool(!value))),
            _ => None,
        },
        estimate::one,
        cost::one,
    )
    .mismatch(plain_mismatch),
    function(
        operator::IN,
        "23 (A,list(A)):bool (A,map(A,B)):bool",
        |call, meter| match call.operands {
            [needle, Value::List(list)] => Some(list.contains(needle, meter).map(Value::Bool)),
            [needle, Value::Map(map)] => Some(map.get(needle).map(|found| Value::Bool(found.is_some()))),
            [Value::String(needle), Value::Object(entries, object)] => {
                let json = object.field(needle.as_str()).and_then(|field| entries.get(&*field.property));
                Some(Ok(Value::Bool(json.is_some_and(|json| !json.is_null()))))
            }
            _ => None,
        },
        |of| match of.ty(1) {
            Type::Map(..) => of.price(1),
            Type::List(_) => of.price(of.max(1)),
            _ => of.price(of.max(1).max(1)),
        },
        |call, _| match call.operands {
            [_, Value::List(_)] => call.size(1),
            _ => 1,
        },
    )
    .mismatch(plain_mismatch),
    function(
        operator::MAP_INSERT,
        "32 (map(K,V),K,V):map(K,V) (map(K,V),map(K,V)):map(K,V)",
        |call, _| match call.operands {
            [Value::Map(map), key, value] => Some(insert(map, vec![(key.clone(), value.clone())])),
            [Value::Map(map), Value::Map(more)] => {
                let more = more.entries().into_iter().map(|(key, value)| Ok((key, value?)));
                Some(more.collect::<Result<_, _>>().and_then(|more| insert(map, more)))
            }
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
];

/// The words for values that no such operator is for at all.
fn no_operator<'a>(operator: &str) -> Outcome<'a> {
    Err(EvalError::new(format!("no such overload: {operator}")))
}

fn order<'a>(name: &str, call: &Call<'_, 'a>, holds: fn(Ordering) -> bool) -> Option<Outcome<'a>> {
    match call.operands {
        [Value::List(_) | Value::Map(_) | Value::Object(..) | Value::Message(_) | Value::Null, _] => {
            Some(no_operator(name))
        }
        [one, other] => Some(one.order(other).map(|order| Value::Bool(holds(order)))),
        _ => None,
    }
}

/// Comparing two values, of which the shorter one is walked.
fn shorter_estimate(of: &Operands<'_>) -> Price {
    of.price(scaled(of.max(0).min(of.max(1)), 0.1))
}

fn at_least_one_if_dynamic(of: &Operands<'_>, cost: u64) -> u64 {
    let dynamic = *of.ty(0) == Type::Dyn && *of.ty(1) == Type::Dyn;
    if dynamic { cost.max(1) } else { cost }
}

fn order_estimate(of: &Operands<'_>) -> Price {
    if of.may_be_text(0) && of.may_be_text(1) {
        return of.price(at_least_one_if_dynamic(of, scaled(of.max(0).min(of.max(1)), 0.1)));
    }
    of.price(1)
}

fn equality_cost(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    match call.operands.first() {
        Some(
            Value::Url(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Quantity(_)
            | Value::Semver(_)
            | Value::Format(_),
        ) => 1,
        _ => scaled(call.size(0).min(call.size(1)), 0.1),
    }
}

fn order_cost(call: &Call<'_, '_>, _: Option<&Value<'_>>) -> u64 {
    if call.is_text(0) && call.is_text(1) { scaled(call.size(0).min(call.size(1)), 0.1) } else { 1 }
}

fn int<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Value::Int).ok_or_else(overflow)
}

fn uint<'a>(value: Option<u64>) -> Outcome<'a> {
    value.map(Value::Uint).ok_or_else(unsigned_overflow)
}

pub(crate) fn unsigned_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

pub(crate) fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn arithmetic<'a>(
    name: &str,
    call: &Call<'_, 'a>,
    compute: fn(&Value<'a>, &Value<'a>) -> Outcome<'a>,
) -> Option<Outcome<'a>> {
    match call.operands {
        [Value::List(_) | Value::Map(_) | Value::Object(..) | Value::Message(_) | Value::Null, _] => {
            Some(no_operator(name))
        }
        [one, other] => Some(compute(one, other)),
        _ => None,
    }
}

pub(crate) fn add<'a>(one: &Value<'a>, other: &Value<'a>, meter: &mut Meter<'_>) -> Outcome<'a> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_add(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_add(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) => {
            meter.allocate(one.as_str().len().saturating_add(other.as_str().len()))?;
            Ok(Value::text([one.as_str(), other.as_str()].concat()))
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            meter.allocate(one.len().saturating_add(other.len()))?;
            Ok(Value::Bytes([one.as_ref(), other.as_ref()].concat().into()))
        }
        (Value::List(one), Value::List(other)) => one.concatenated(other, meter).map(Value::List),
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_add(*other).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(instant), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(instant)) => {
            instant.plus(*duration).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        _ => Err(no_overload()),
    }
}

fn subtract<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_sub(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_sub(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one - other)),
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_sub(*other).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(instant), Value::Duration(duration)) => duration
            .checked_neg()
            .and_then(|duration| instant.plus(duration))
            .map(Value::Timestamp)
            .ok_or_else(timestamp_overflow),
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            one.minus(other).map(Value::Duration).ok_or_else(overflow)
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn timestamp_overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

fn insert<'a>(map: &Map<'a>, more: Vec<(Value<'a>, Value<'a>)>) -> Outcome<'a> {
    let mut entries = match &map.0 {
        Entries::Owned(entries) => (**entries).clone(),
        Entries::Json(..) => {
            let mut entries = BTreeMap::new();
            for (key, value) in map.entries() {
                entries.insert(key.key().ok_or_else(no_overload)?, (key, value?));
            }
            entries
        }
    };
    add_entries(&mut entries, more)?;
    Ok(Value::owned_map(entries))
}

pub(crate) fn add_entries<'a>(
    entries: &mut BTreeMap<Key, (Value<'a>, Value<'a>)>,
    more: Vec<(Value<'a>, Value<'a>)>,
) -> Result<(), EvalError> {
    for (key, value) in more {
        let id =
            key.key().ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
        if entries.contains_key(&id) {
            return Err(EvalError::new(format!("insert failed: key {} already exists", printed(&key))));
        }
        entries.insert(id, (key, value));
    }
    Ok(())
}

/// A scalar as messages show it.
pub(crate) fn printed(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => sternpost_golang::fmt::print_float(*value),
        Value::String(text) => text.as_str().to_owned(),
        other => other.type_name(),
    }
}
