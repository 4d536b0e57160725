//! Functions on lists.

use std::sync::Arc;

use crate::{
    evaluate::{EvalError, Meter},
    value::{List, Value},
};

/// Lists nested deeper than this are not flattened.
pub const MAX_FLATTEN_DEPTH: i64 = 250;

pub(crate) fn sum<'a>(list: &List<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let mut total = Value::Int(0);
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        total = if index == 0 { item } else { super::standard::arithmetic("_+_", &total, &item, meter)? };
    }
    Ok(total)
}

pub(crate) fn extreme<'a>(function: &str, list: &List<'a>) -> Result<Value<'a>, EvalError> {
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

pub(crate) fn is_sorted(list: &List<'_>) -> Result<bool, EvalError> {
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

pub(crate) fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Result<Value<'a>, EvalError> {
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

pub(crate) fn flatten<'a>(
    list: &List<'a>,
    depth: i64,
    meter: &mut Meter<'_>,
) -> Result<Value<'a>, EvalError> {
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

pub(crate) fn distinct<'a>(list: &List<'a>, meter: &mut Meter<'_>) -> Result<Value<'a>, EvalError> {
    let mut out: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut known = false;
        for other in &out {
            if other.equals(&item, meter)? {
                known = true;
                break;
            }
        }
        if !known {
            out.push(item);
        }
    }
    Ok(Value::list(out))
}

pub(crate) fn sort_by_keys<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>, EvalError> {
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
pub(crate) fn contains_all<'a>(
    outer: &List<'a>,
    inner: &List<'a>,
    meter: &mut Meter<'_>,
) -> Result<bool, EvalError> {
    for item in inner.iter() {
        if !outer.contains(&item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn intersects<'a>(
    one: &List<'a>,
    other: &List<'a>,
    meter: &mut Meter<'_>,
) -> Result<bool, EvalError> {
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
