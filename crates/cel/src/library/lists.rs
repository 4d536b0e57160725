//! Functions on lists.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ast::operator,
    estimate::{self, Operands, Price, scaled},
    evaluate::{EvalError, Meter},
    functions::{Call, Function, function, named_mismatch, plain_mismatch},
    library::{cost, operators},
    types::Type,
    value::{List, Value},
};

/// Lists nested deeper than this are not flattened.
pub const MAX_FLATTEN_DEPTH: i64 = 250;

/// Numbers up to this have keys of their own: they are 128-bit integers.
const MAX_KEY: f64 = 1e38;

/// What functions that make a list cost beside its items.
const NEW_LIST: u64 = 11;

const OF_ORDERED: &str = "
    23 list(int).():int list(uint).():uint list(double).():double list(bool).():bool
    list(duration).():duration list(timestamp).():timestamp list(string).():string list(bytes).():bytes";

pub(crate) const FUNCTIONS: &[Function] = &[
    function(
        "sum",
        "23 list(int).():int list(uint).():uint list(double).():double list(duration).():duration",
        |call, meter| of_list(call, |list| sum(list, meter)),
        estimate::traversal,
        cost::traversal,
    ),
    function(
        "min",
        OF_ORDERED,
        |call, _| of_list(call, |list| extreme("min", list)),
        estimate::traversal,
        cost::traversal,
    ),
    function(
        "max",
        OF_ORDERED,
        |call, _| of_list(call, |list| extreme("max", list)),
        estimate::traversal,
        cost::traversal,
    ),
    function(
        "isSorted",
        "23 list(int).():bool list(uint).():bool list(double).():bool list(bool).():bool
         list(duration).():bool list(timestamp).():bool list(string).():bool list(bytes).():bool",
        |call, _| of_list(call, |list| is_sorted(list).map(Value::Bool)),
        estimate::traversal,
        cost::traversal,
    ),
    function(
        "slice",
        "34 list(T).(int,int):list(T)",
        |call, _| match call.operands {
            [Value::List(list), Value::Int(start), Value::Int(end)] => Some(slice(list, *start, *end)),
            _ => None,
        },
        |of| {
            let (start, end) = (of.integer(1).unwrap_or(0), of.integer(2).unwrap_or(of.max(0)));
            // Upstream's subtraction wraps, too.
            let length = end.wrapping_sub(start);
            of.price(length.saturating_add(NEW_LIST)).at_most(length)
        },
        |_, result| result.map_or(1, Value::cost_size).saturating_add(NEW_LIST),
    ),
    function(
        "flatten",
        "34 list(list(T)).():list(T) list(dyn).(int):list(dyn)",
        |call, meter| match call.operands {
            [Value::List(list)] => Some(flatten(list, 1, meter)),
            [Value::List(list), Value::Int(depth)] => Some(flatten(list, *depth, meter)),
            _ => None,
        },
        |of| {
            let depth = if of.len() == 2 { of.integer(1).unwrap_or(u64::MAX) } else { 1 };
            of.price(of.max(0).saturating_mul(depth).saturating_add(NEW_LIST)).sized(of.size(0))
        },
        |call, _| {
            let depth = match call.operands {
                [_, Value::Int(depth)] => *depth,
                _ => 1,
            };
            let visits = i64::try_from(call.size(0)).unwrap_or(i64::MAX).saturating_mul(depth);
            u64::try_from(visits.saturating_add(11)).unwrap_or(0)
        },
    )
    .mismatch(|name, operands| {
        let mut kinds = operands.iter().map(|operand| operand.ty().to_string());
        let list = kinds.next().unwrap_or_default();
        let rest: Vec<String> = kinds.collect();
        EvalError::new(format!("no such overload: {list}.{name}({})", rest.join(", ")))
    }),
    function(
        "distinct",
        "34 list(T).():list(T)",
        |call, meter| of_list(call, |list| distinct(list, meter)),
        |of| squared(of, 2.0),
        |call, _| squared_cost(call, call.operands.first()),
    ),
    function(
        "sort",
        "34 list(int).():list(int) list(uint).():list(uint) list(double).():list(double)
         list(bool).():list(bool) list(duration).():list(duration) list(timestamp).():list(timestamp)
         list(string).():list(string) list(bytes).():list(bytes)",
        |call, _| of_list(call, |list| sort_by_keys(list, list)),
        |of| squared(of, sort_factor(of.ty(0))),
        |call, _| squared_cost(call, call.operands.first()),
    )
    .mismatch(named_mismatch),
    function(
        operator::SORT_BY_KEYS,
        "34 list(T).(list(int)):list(T) list(T).(list(uint)):list(T) list(T).(list(double)):list(T)
         list(T).(list(bool)):list(T) list(T).(list(duration)):list(T) list(T).(list(timestamp)):list(T)
         list(T).(list(string)):list(T) list(T).(list(bytes)):list(T)",
        |call, _| match call.operands {
            [Value::List(list), Value::List(keys)] => Some(sort_by_keys(list, keys)),
            _ => None,
        },
        |of| squared(of, sort_factor(of.ty(1))),
        |call, _| squared_cost(call, call.operands.get(1)),
    )
    .mismatch(plain_mismatch),
    function(
        "reverse",
        "34 list(T).():list(T)",
        |call, _| {
            of_list(call, |list| {
                let mut items = list.collect()?;
                items.reverse();
                Ok(Value::list(items))
            })
        },
        |of| of.price(of.max(0).saturating_add(NEW_LIST)).sized(of.size(0)),
        |call, _| call.size(0).saturating_add(NEW_LIST),
    ),
    function(
        "lists.range",
        "34 (int):list(int)",
        |call, meter| match call.operands {
            // What makes its result from a number is charged before it does.
            [Value::Int(count)] => Some(
                meter
                    .charge(u64::try_from(*count).unwrap_or(0).saturating_add(NEW_LIST))
                    .map(|()| Value::list((0..*count).map(Value::Int).collect())),
            ),
            _ => None,
        },
        |of| {
            let count = of.integer(0).unwrap_or(u64::MAX);
            of.price(count.saturating_add(NEW_LIST)).at_most(count)
        },
        |call, _| if matches!(call.operands, [Value::Int(_)]) { 0 } else { 1 + NEW_LIST },
    ),
    function(
        "sets.contains",
        "29 (list(T),list(T)):bool",
        |call, meter| of_lists(call, |one, other| contains_all(one, other, meter)),
        |of| of.price(pairs(of.max(0), of.max(1), 1)),
        |call, _| pairs(call.size(0), call.size(1), 1),
    ),
    function(
        "sets.intersects",
        "29 (list(T),list(T)):bool",
        |call, meter| of_lists(call, |one, other| intersects(one, other, meter)),
        |of| of.price(pairs(of.max(0), of.max(1), 1)),
        |call, _| pairs(call.size(0), call.size(1), 1),
    ),
    function(
        "sets.equivalent",
        "29 (list(T),list(T)):bool",
        |call, meter| {
            of_lists(call, |one, other| {
                Ok(contains_all(one, other, meter)? && contains_all(other, one, meter)?)
            })
        },
        |of| of.price(pairs(of.max(0), of.max(1), 2)),
        |call, _| pairs(call.size(0), call.size(1), 2),
    ),
];

fn of_list<'a>(
    call: &Call<'_, 'a>,
    answer: impl FnOnce(&List<'a>) -> Result<Value<'a>, EvalError>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::List(list)] => Some(answer(list)),
        _ => None,
    }
}

fn of_lists<'a>(
    call: &Call<'_, 'a>,
    answer: impl FnOnce(&List<'a>, &List<'a>) -> Result<bool, EvalError>,
) -> Option<Result<Value<'a>, EvalError>> {
    match call.operands {
        [Value::List(one), Value::List(other)] => Some(answer(one, other).map(Value::Bool)),
        _ => None,
    }
}

/// Comparing every item of one list with every one of another, so many times.
fn pairs(one: u64, other: u64, times: u64) -> u64 {
    one.saturating_mul(other).saturating_mul(times).saturating_add(1)
}

/// Comparing every item with every other.
fn squared(of: &Operands<'_>, factor: f64) -> Price {
    let squared = of.max(0).saturating_mul(of.max(0));
    of.price(scaled(squared, factor).saturating_add(NEW_LIST)).at_most(squared)
}

/// Texts take longer to compare.
fn sort_factor(keys: &Type) -> f64 {
    let text = match keys {
        Type::List(inner) => matches!(**inner, Type::String | Type::Bytes | Type::Dyn),
        other => *other == Type::Dyn,
    };
    if text { 2.1 } else { 2.0 }
}

fn squared_cost(call: &Call<'_, '_>, keys: Option<&Value<'_>>) -> u64 {
    if !matches!(call.operands.first(), Some(Value::List(_))) {
        return 1;
    }
    let texts = match keys {
        Some(Value::List(list)) => matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_)))),
        _ => false,
    };
    let squared = call.size(0).saturating_mul(call.size(0));
    let cost = if texts { squared.saturating_mul(21) / 10 } else { squared.saturating_mul(2) };
    cost.saturating_add(NEW_LIST)
}

fn sum<'a>(list: &List<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let mut total = Value::Int(0);
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        total = if index == 0 { item } else { operators::add(&total, &item, meter)? };
    }
    Ok(total)
}

fn extreme<'a>(function: &str, list: &List<'a>) -> Result<Value<'a>, EvalError> {
    let mut found: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        let better = match &found {
            None => true,
            Some(found) if function == "min" => item.order(found)?.is_lt(),
            Some(found) => item.order(found)?.is_gt(),
        };
        if better {
            found = Some(item);
        }
    }
    found.ok_or_else(|| EvalError::new(format!("{function} called on empty list")))
}

fn is_sorted(list: &List<'_>) -> Result<bool, EvalError> {
    let mut before: Option<Value<'_>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(before) = &before
            && before.order(&item)?.is_gt()
        {
            return Ok(false);
        }
        before = Some(item);
    }
    Ok(true)
}

pub(crate) fn index_of<'a>(
    list: &List<'a>,
    needle: &Value<'a>,
    last: bool,
    meter: &mut Meter<'_>,
) -> Result<Value<'a>, EvalError> {
    let mut found = -1;
    for (index, item) in list.iter().enumerate() {
        if item?.equals(needle, meter)? {
            found = i64::try_from(index).unwrap_or(-1);
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Result<Value<'a>, EvalError> {
    let fail = |why: &str| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let length = list.len();
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return fail("negative indexes not supported");
    };
    if from > to {
        return fail("start index must be less than or equal to end index");
    }
    if to > length {
        return fail(&format!("list is length {length}"));
    }
    (from..to).filter_map(|index| list.get(index)).collect::<Result<_, _>>().map(Value::list)
}

fn flatten<'a>(list: &List<'a>, depth: i64, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    fn add<'a>(
        list: &List<'a>,
        depth: i64,
        out: &mut Vec<Value<'a>>,
        meter: &mut Meter<'_>,
    ) -> Result<(), EvalError> {
        for item in list.iter() {
            meter.work(1)?;
            match item? {
                Value::List(inner) if depth > 0 => add(&inner, depth - 1, out, meter)?,
                other => out.push(other),
            }
        }
        Ok(())
    }
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    add(list, depth.min(MAX_FLATTEN_DEPTH), &mut out, meter)?;
    Ok(Value::list(out))
}

fn distinct<'a>(list: &List<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let mut out: Vec<Value<'a>> = Vec::new();
    // What has a key equals only what has the same one. What has none is compared with its like.
    let (mut keys, mut without_keys) = (BTreeSet::new(), Vec::new());
    for item in list.iter() {
        let item = item?;
        // Larger ones have one key for all of them.
        let is_large = matches!(item, Value::Double(number) if number.abs() >= MAX_KEY);
        let is_new = match item.key().filter(|_| !is_large) {
            Some(key) => {
                meter.work(1)?;
                keys.insert(key)
            }
            None => {
                let is_new = !is_among(&without_keys, &item, meter)?;
                without_keys.extend(is_new.then(|| item.clone()));
                is_new
            }
        };
        out.extend(is_new.then_some(item));
    }
    Ok(Value::list(out))
}

fn is_among<'a>(others: &[Value<'a>], item: &Value<'a>, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
    for other in others {
        if other.equals(item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sort_by_keys<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, EvalError> {
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(list.len());
    for (item, key) in list.iter().zip(keys.iter()) {
        let (item, key) = (item?, key?);
        // Keys must be of one kind; checking against the first keeps the order total.
        if let Some((_, first)) = pairs.first()
            && std::mem::discriminant(first) != std::mem::discriminant(&key)
        {
            return Err(EvalError::new("list elements must have the same type"));
        }
        key.order(&key)?;
        pairs.push((item, key));
    }
    pairs.sort_by(|one, other| one.1.order(&other.1).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(item, _)| item).collect()))
}

/// Whether every item of `inner` is in `outer`.
fn contains_all<'a>(outer: &List<'a>, inner: &List<'a>, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
    for item in inner.iter() {
        if !outer.contains(&item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(one: &List<'a>, other: &List<'a>, meter: &mut Meter<'_>) -> Result<bool, EvalError> {
    for item in other.iter() {
        if one.contains(&item?, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn join(
    list: &List<'_>,
    separator: &str,
    meter: &mut Meter<'_>,
) -> Result<Value<'static>, EvalError> {
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = item? else { return Err(EvalError::new("no such overload: join(list)")) };
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text.as_str());
        meter.within(out.len())?;
    }
    meter.allocate(out.len())?;
    Ok(Value::text(out))
}

pub(crate) fn unwrap<'a>(list: &List<'a>) -> Result<Value<'a>, EvalError> {
    let mut out = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inner)) => out.push(Arc::unwrap_or_clone(inner)),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {} is not an optional", other.type_name()))),
        }
    }
    Ok(Value::list(out))
}
