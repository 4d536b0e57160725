//! One object, changed by one patch.

use std::{collections::HashSet, mem};
use sternpost_golang::fmt as go;

use serde_json::{Map, Value};
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::{PatchStrategy, Type};

use super::{
    DELETE_FROM_PRIMITIVE_LIST, Error, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER, fields,
    list::{self, List},
};

/// What a patch is merged into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    /// An object: directives are obeyed.
    Object,
    /// Another patch: directives and nulls are kept for later.
    Patch,
}

/// Changes `target` in place. After an error it is in no useful state.
pub(super) fn merge(
    schema: &Type,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    into: Into,
) -> Result<(), Error> {
    if let Some(directive) = patch.get(PATCH) {
        return whole_map(target, patch, directive);
    }
    let mut ordered = Vec::new();
    if into == Into::Object {
        retain_keys(target, patch)?;
        ordered = set_element_orders(schema, target, patch)?;
    }
    let mut deletions = false;
    for (key, new) in patch {
        checkpoint();
        match Key::of(key)? {
            Key::RetainKeys | Key::SetElementOrder(_) if into == Into::Object => {}
            Key::Field(field) if ordered.binary_search(&field).is_ok() => {}
            Key::DeleteFromPrimitiveList(_) if into == Into::Object => deletions = true,
            Key::Field(field) => change(schema, target, field, new, Change::Merge(into))?,
            // Two patches made from the same object say the same here.
            Key::SetElementOrder(_) => match target.get(key) {
                Some(present) if present != new => return Err(Error::SetElementOrderFormat),
                _ => {
                    target.insert(key.clone(), new.clone());
                }
            },
            Key::RetainKeys | Key::DeleteFromPrimitiveList(_) => {
                target.insert(key.clone(), new.clone());
            }
        }
    }
    // Last, so that what a patch both adds and deletes is deleted; upstream leaves that to chance.
    for (key, gone) in patch.iter().filter(|_| deletions) {
        if let Key::DeleteFromPrimitiveList(field) = Key::of(key)? {
            change(schema, target, field, gone, Change::Delete)?;
        }
    }
    Ok(())
}

/// What a key of a patch is about.
enum Key<'a> {
    RetainKeys,
    SetElementOrder(&'a str),
    DeleteFromPrimitiveList(&'a str),
    Field(&'a str),
}

impl<'a> Key<'a> {
    fn of(key: &'a str) -> Result<Self, Error> {
        if !key.starts_with('$') {
            return Ok(Self::Field(key));
        }
        if key == RETAIN_KEYS {
            return Ok(Self::RetainKeys);
        }
        if let Some(rest) = key.strip_prefix(SET_ELEMENT_ORDER) {
            return rest.strip_prefix('/').map(Self::SetElementOrder).ok_or(Error::SetElementOrderFormat);
        }
        if let Some(rest) = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            return rest
                .strip_prefix('/')
                .map(Self::DeleteFromPrimitiveList)
                .ok_or(Error::PrimitiveListFormat);
        }
        Ok(Self::Field(key))
    }
}

/// `$patch` in an object: what the object is does not matter.
fn whole_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    directive: &Value,
) -> Result<(), Error> {
    match directive.as_str() {
        Some("replace") => {
            *target = patch.clone();
            target.remove(PATCH);
            Ok(())
        }
        Some("delete") => {
            target.clear();
            Ok(())
        }
        _ => Err(unknown_patch_type(directive, patch)),
    }
}

pub(super) fn unknown_patch_type(directive: &Value, patch: &Map<String, Value>) -> Error {
    Error::UnknownPatchType {
        directive: go::print_string(directive),
        map: go::print(&Value::Object(patch.clone())),
    }
}

/// Drops what `$retainKeys` does not name; the patch must not set such a thing.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Error> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let retained = retained.as_array().ok_or(Error::RetainKeysFormat)?;
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |key: &str| retained.contains(key);
    for (key, new) in patch {
        if let Key::Field(field) = Key::of(key)?
            && !new.is_null()
            && !is_retained(field)
        {
            return Err(Error::RetainKeysFormat);
        }
    }
    target.retain(|key, _| is_retained(key));
    Ok(())
}

/// Lists whose order the patch sets, merged and ordered; their names, sorted.
fn set_element_orders<'a>(
    schema: &Type,
    target: &mut Map<String, Value>,
    patch: &'a Map<String, Value>,
) -> Result<Vec<&'a str>, Error> {
    let mut ordered = Vec::new();
    for (key, order) in patch {
        let Key::SetElementOrder(name) = Key::of(key)? else { continue };
        let order = as_list(order)?;
        let (kind, strategy) = fields::field(schema, name)?;
        let new = patch.get(name).map(as_list).transpose()?;
        let old = match target.get_mut(name) {
            Some(Value::Array(old)) => Some(mem::take(old)),
            Some(other) => return Err(wrong_type(other)),
            None => None,
        };
        let list =
            List { items: fields::items(kind), key: strategy.merge_key.as_deref(), into: Into::Object };
        if let Some(new) = new {
            list.check_order(new, order)?;
        }
        if let Some(merged) = list.merge_ordered(old, new, order, strategy.merge)? {
            target.insert(name.to_owned(), Value::Array(merged));
        }
        ordered.push(name);
    }
    Ok(ordered)
}

#[derive(Clone, Copy)]
enum Change {
    Merge(Into),
    /// Remove these items from the list.
    Delete,
}

/// Changes one field.
fn change(
    schema: &Type,
    target: &mut Map<String, Value>,
    name: &str,
    new: &Value,
    how: Change,
) -> Result<(), Error> {
    let clean = |new: &Value| match how {
        Change::Merge(Into::Object) => without_directives(new, Nulls::Dropped),
        Change::Merge(Into::Patch) => without_directives(new, Nulls::Kept),
        Change::Delete => None,
    };
    let order = match (how, new) {
        (Change::Merge(Into::Patch), Value::Array(_)) => {
            target.get(&format!("{SET_ELEMENT_ORDER}/{name}")).and_then(Value::as_array).cloned()
        }
        _ => None,
    };
    let Some(old) = target.get_mut(name) else {
        let kept = match (new, how) {
            (Value::Null, Change::Merge(Into::Patch)) => Some(Value::Null),
            (Value::Null, _) => None,
            _ => clean(new),
        };
        if let Some(value) = kept {
            target.insert(name.to_owned(), value);
        }
        return Ok(());
    };
    match (&mut *old, new, how) {
        (_, Value::Null, _) => {
            target.remove(name);
        }
        (Value::Object(old), Value::Object(new), _) => {
            let (kind, strategy) = fields::field(schema, name)?;
            let into = if let Change::Merge(into) = how { into } else { Into::Object };
            change_map(kind, strategy, old, new, into)?;
        }
        (Value::Array(old), Value::Array(new), Change::Delete) => {
            fields::field(schema, name)?;
            list::delete_scalars(old, new)?;
        }
        (Value::Array(old), Value::Array(new), Change::Merge(into)) => {
            let (kind, strategy) = fields::field(schema, name)?;
            let list = List { items: fields::items(kind), key: strategy.merge_key.as_deref(), into };
            *old = match strategy.merge {
                true => list.merge(mem::take(old), new, order.as_deref())?,
                false => new.clone(),
            };
        }
        (_, _, Change::Delete) => {}
        (old, new, _) => match clean(new) {
            Some(value) => *old = value,
            None => {
                target.remove(name);
            }
        },
    }
    Ok(())
}

fn change_map(
    kind: &Type,
    strategy: &PatchStrategy,
    old: &mut Map<String, Value>,
    new: &Map<String, Value>,
    into: Into,
) -> Result<(), Error> {
    if strategy.replace {
        *old = new.clone();
        return Ok(());
    }
    merge(kind, old, new, into)
}

/// A value for a place where there is nothing to merge with: objects that
/// carry `$patch` are left out, and often nulls too; lists keep null items.
pub(super) fn without_directives(value: &Value, nulls: Nulls) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let members = map.iter().filter(|(_, value)| nulls == Nulls::Kept || !value.is_null());
            let members =
                members.filter_map(|(key, value)| Some((key.clone(), without_directives(value, nulls)?)));
            Some(Value::Object(members.collect()))
        }
        Value::Array(list) => {
            Some(Value::Array(list.iter().filter_map(|item| without_directives(item, nulls)).collect()))
        }
        scalar => Some(scalar.clone()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    Kept,
    Dropped,
}

fn as_list(value: &Value) -> Result<&[Value], Error> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(wrong_type(other)),
    }
}

fn wrong_type(found: &Value) -> Error {
    Error::WrongType { expected: "[]interface {}", found: go::print_type(found) }
}
