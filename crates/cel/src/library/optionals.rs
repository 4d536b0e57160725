//! Optional values.

use crate::{
    estimate,
    evaluate::EvalError,
    functions::{Function, form, function},
    library::{cost, lists},
    plan,
    value::Value,
};

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "optional.of",
        "28 (A):optional(A)",
        |call, _| match call.operands {
            [value] => Some(Ok(Value::optional(Some(value.clone())))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "optional.ofNonZeroValue",
        "28 (A):optional(A)",
        |call, _| match call.operands {
            [value] => Some(Ok(Value::optional((!is_zero(value)).then(|| value.clone())))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "optional.none",
        "28 ():optional(A)",
        |call, _| call.operands.is_empty().then(|| Ok(Value::optional(None))),
        estimate::one,
        cost::one,
    ),
    function(
        "value",
        "28 optional(A).():A",
        |call, _| match call.operands {
            [Value::Optional(Some(inner))] => Some(Ok((**inner).clone())),
            [Value::Optional(None)] => Some(Err(EvalError::new("optional.none() dereference"))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "hasValue",
        "28 optional(A).():bool",
        |call, _| match call.operands {
            [Value::Optional(inner)] => Some(Ok(Value::Bool(inner.is_some()))),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    form("or", "28 optional(A).(optional(A)):optional(A)", plan::or_other, estimate::one),
    form("orValue", "28 optional(A).(A):A", plan::or_value, estimate::one),
    function(
        "first",
        "28 list(A).():optional(A)",
        |call, _| match call.operands {
            [Value::List(list)] => Some(list.get(0).transpose().map(Value::optional)),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "last",
        "28 list(A).():optional(A)",
        |call, _| match call.operands {
            [Value::List(list)] => {
                let last = list.len().checked_sub(1).and_then(|last| list.get(last));
                Some(last.transpose().map(Value::optional))
            }
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "optional.unwrap",
        "28 (list(optional(A))):list(A)",
        |call, _| match call.operands {
            [Value::List(list)] => Some(lists::unwrap(list)),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
    function(
        "unwrapOpt",
        "28 list(optional(A)).():list(A)",
        |call, _| match call.operands {
            [Value::List(list)] => Some(lists::unwrap(list)),
            _ => None,
        },
        estimate::one,
        cost::one,
    ),
];

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(entries, _) => entries.is_empty(),
        Value::Duration(value) => *value == 0,
        Value::Message(message) => message.fields.is_empty(),
        _ => false,
    }
}
