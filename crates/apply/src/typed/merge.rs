//! One object laid over another.

use std::{collections::BTreeMap, mem};

use serde_json::Value;
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{Node, Relation, Type};

use super::{
    Fields, MAX_DEPTH, Misfit, Shape, are_in_step, is_empty_or_null, item_elements, shape, too_deep,
};
use crate::path::Element;

/// `over` wins where both set a leaf; maps are united, associative lists
/// merged item by item.
pub fn merge(kind: &Type, mut under: Value, over: &Value) -> Result<Value, Misfit> {
    place(kind, &mut under, over, 0)?;
    Ok(under)
}

fn place(kind: &Type, under: &mut Value, over: &Value, depth: usize) -> Result<(), Misfit> {
    checkpoint();
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    if is_empty_or_null(under) {
        *under = over.clone();
        return Ok(());
    }
    if let Node::Deduced = kind.node() {
        match (under, over) {
            (Value::Object(under), Value::Object(over)) => map(Fields::DEDUCED, under, over, depth)?,
            // Null does not undo a map.
            (Value::Object(_), Value::Null) => {}
            (under, over) => leaf(under, over),
        }
        return Ok(());
    }
    match (shape(kind, over), under, over) {
        (Shape::Map(fields), Value::Object(_), Value::Null) if !fields.atomic => {}
        (Shape::Map(fields), Value::Object(under), Value::Object(over)) if !fields.atomic => {
            map(fields, under, over, depth)?;
        }
        (Shape::List(_, Relation::Set | Relation::Map(_)), Value::Array(_), Value::Null) => {}
        (
            Shape::List(items, relation @ (Relation::Set | Relation::Map(_))),
            Value::Array(under),
            Value::Array(over),
        ) => list(items, relation, under, over, depth)?,
        (_, under, over) => leaf(under, over),
    }
    Ok(())
}

fn leaf(under: &mut Value, over: &Value) {
    match (&*under, over) {
        // Most of what is applied is there already.
        (Value::String(under), Value::String(over)) if under == over => {}
        (_, over) => *under = over.clone(),
    }
}

type Object = serde_json::Map<String, Value>;

fn map(fields: Fields<'_>, under: &mut Object, over: &Object, depth: usize) -> Result<(), Misfit> {
    for (name, over) in over {
        match under.get_mut(name) {
            Some(below) => {
                let Some(child) = fields.child(name) else {
                    return Err(Misfit::at(&[Element::field(&**name)], "field not declared in schema"));
                };
                place(child.kind, below, over, depth + 1)?;
            }
            None => {
                under.insert(name.clone(), over.clone());
            }
        }
    }
    Ok(())
}

/// Items of `under` alone stay where they are; shared ones take the order of
/// `over`, and new ones the place that `over` gives them among the shared.
fn list(
    kind: &Type,
    relation: &Relation,
    under: &mut Vec<Value>,
    over: &[Value],
    depth: usize,
) -> Result<(), Misfit> {
    if are_in_step(relation, under, over) {
        return under.iter_mut().zip(over).try_for_each(|(under, over)| place(kind, under, over, depth + 1));
    }
    let under_elements = item_elements(kind, relation, under)?;
    let over_elements = item_elements(kind, relation, over)?;
    let places: BTreeMap<&Element, usize> =
        over_elements.iter().enumerate().map(|(place, element)| (element, place)).collect();
    let mut applied: Vec<Applied<'_>> =
        over.iter().map(|item| Applied { item, under: Under::None }).collect();
    let mut kept = Vec::with_capacity(under.len());
    for (item, element) in mem::take(under).into_iter().zip(&under_elements) {
        let place = places.get(element).copied();
        match place.and_then(|place| applied.get_mut(place)) {
            Some(shared) => {
                shared.under.add(item);
                kept.push(LowerItem::Shared(place));
            }
            None => kept.push(LowerItem::Alone(item)),
        }
    }

    let shared: Vec<usize> =
        applied.iter().enumerate().filter(|(_, one)| one.is_shared()).map(|(place, _)| place).collect();
    let mut shared = shared.into_iter().peekable();
    let mut applied = applied.into_iter().enumerate().peekable();
    let mut out = Vec::with_capacity(kept.len() + applied.len());
    for kept in kept {
        match kept {
            LowerItem::Alone(item) => out.push(item),
            LowerItem::Shared(place) => {
                // One that `over` moved is written where `over` has it; where only
                // further copies of a written one are left, each makes room for a new one.
                let until = match shared.next_if(|next| Some(*next) == place) {
                    None if shared.peek().is_none() => applied.peek().map(|(place, _)| *place),
                    next => next,
                };
                while let Some((_, one)) = applied.next_if(|(place, _)| Some(*place) <= until) {
                    out.push(one.merged(kind, depth)?);
                }
            }
        }
    }
    for (_, one) in applied {
        out.push(one.merged(kind, depth)?);
    }
    *under = out;
    Ok(())
}

/// An item of the lower list.
enum LowerItem {
    Alone(Value),
    /// Also in the upper list, at this place.
    Shared(Option<usize>),
}

/// An item of the upper list and what it is laid over.
struct Applied<'a> {
    item: &'a Value,
    under: Under,
}

enum Under {
    None,
    One(Value),
    /// Items that share a key give way to the one that is applied.
    Many,
}

impl Applied<'_> {
    fn is_shared(&self) -> bool {
        !matches!(self.under, Under::None)
    }

    fn merged(self, kind: &Type, depth: usize) -> Result<Value, Misfit> {
        match self.under {
            Under::One(mut under) => place(kind, &mut under, self.item, depth + 1).map(|()| under),
            Under::None | Under::Many => Ok(self.item.clone()),
        }
    }
}

impl Under {
    fn add(&mut self, item: Value) {
        *self = match self {
            Self::None => Self::One(item),
            Self::One(_) | Self::Many => Self::Many,
        };
    }
}
