//! Making a patch from an old and a new object.

use std::cmp::Ordering;
use sternpost_golang::fmt as go;

use serde_json::{Map, Value, json};
use sternpost_schema::topology::{PatchStrategy, Type};

use super::{
    DELETE_FROM_PRIMITIVE_LIST, Error, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER, fields,
    list::{Kind, kind},
    order::{Ids, Item, arrange},
};

/// The patch that makes `new` of `old`, both of this schema.
pub fn diff(
    schema: &Type,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    diff_maps(schema, old, new, Wanted::All)
}

/// Which part of the difference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Deletions,
    AdditionsAndChanges,
    /// All, but without `$setElementOrder` and `$retainKeys`: to compare with, not to apply.
    Plain,
}

impl Wanted {
    fn deletions(self) -> bool {
        self != Self::AdditionsAndChanges
    }

    fn changes(self) -> bool {
        self != Self::Deletions
    }
}

pub(super) fn diff_maps(
    schema: &Type,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    wanted: Wanted,
) -> Result<Map<String, Value>, Error> {
    let mut patch = Map::new();
    for (key, new) in new {
        let changed = match (old.get(key), new) {
            (Some(Value::Object(old)), Value::Object(new)) => diff_field(schema, key, old, new, wanted)?,
            (Some(old), new) if old == new => None,
            (Some(Value::Array(old)), Value::Array(new)) => {
                diff_list(schema, key, old, new, wanted, &mut patch)?;
                None
            }
            _ => wanted.changes().then(|| new.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    if wanted.deletions() {
        patch.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    }
    Ok(patch)
}

fn diff_field(
    schema: &Type,
    key: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    wanted: Wanted,
) -> Result<Option<Value>, Error> {
    let (kind, strategy) = match fields::field(schema, key) {
        Ok(found) => found,
        // Nobody has to know what did not change.
        Err(_) if old == new => return Ok(None),
        Err(error) => return Err(error),
    };
    if strategy.replace {
        // Even if it is equal, as upstream has it.
        return Ok(wanted.changes().then(|| Value::Object(new.clone())));
    }
    let mut patch = diff_maps(kind, old, new, wanted)?;
    add_retain_keys(strategy, &mut patch, old, new, wanted);
    Ok((!patch.is_empty()).then_some(Value::Object(patch)))
}

/// `$retainKeys`, where something changes or goes.
fn add_retain_keys(
    strategy: &PatchStrategy,
    patch: &mut Map<String, Value>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    wanted: Wanted,
) {
    let goes = |(key, value): (&String, &Value)| !value.is_null() && new.get(key).is_none_or(Value::is_null);
    if strategy.retain_keys && wanted != Wanted::Plain && (!patch.is_empty() || old.iter().any(goes)) {
        let keys = new.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| json!(key));
        let keys: Vec<Value> = keys.collect();
        if !keys.is_empty() {
            patch.insert(RETAIN_KEYS.to_owned(), Value::Array(keys));
        }
    }
}

fn diff_list(
    schema: &Type,
    key: &str,
    old: &[Value],
    new: &[Value],
    wanted: Wanted,
    patch: &mut Map<String, Value>,
) -> Result<(), Error> {
    let (kind_of_field, strategy) = fields::field(schema, key)?;
    if !strategy.merge || old.is_empty() {
        if wanted.changes() {
            patch.insert(key.to_owned(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    let difference = match kind(old, new)? {
        Kind::Nothing => return Ok(()),
        Kind::Scalars => diff_scalars(old, new, wanted),
        Kind::Maps => diff_items(fields::items(kind_of_field), strategy, old, new, wanted)?,
    };
    let mut put = |key: String, list: Vec<Value>| {
        if !list.is_empty() {
            patch.insert(key, Value::Array(list));
        }
    };
    put(key.to_owned(), difference.list);
    put(format!("{DELETE_FROM_PRIMITIVE_LIST}/{key}"), difference.deleted);
    put(format!("{SET_ELEMENT_ORDER}/{key}"), difference.order);
    Ok(())
}

struct Difference {
    list: Vec<Value>,
    /// Scalars.
    deleted: Vec<Value>,
    order: Vec<Value>,
}

fn diff_scalars(old: &[Value], new: &[Value], wanted: Wanted) -> Difference {
    let mut ids = Ids::new();
    let old_ids: Vec<usize> = old.iter().map(|value| ids.of(value)).collect();
    let new_ids: Vec<usize> = new.iter().map(|value| ids.of(value)).collect();
    let (mut list, mut deleted) = (Vec::new(), Vec::new());
    for pair in pairs(sorted(old, go::print), sorted(new, go::print)) {
        match pair {
            Pair::Old(old) if wanted.deletions() && deleted.last() != Some(old) => deleted.push(old.clone()),
            Pair::New(new) if wanted.changes() => list.push(new),
            _ => {}
        }
    }
    let changed = !list.is_empty() || !deleted.is_empty();
    let items =
        list.into_iter().map(|value| Item { id: ids.of(value), value: value.clone(), deletes: false });
    let list = arrange(items.collect(), &new_ids, &[]).into_iter().map(|item| item.value).collect();
    let ordered = is_ordered(changed, &old_ids, &new_ids, wanted);
    Difference { list, deleted, order: if ordered { new.to_vec() } else { Vec::new() } }
}

fn diff_items(
    items: &Type,
    strategy: &PatchStrategy,
    old: &[Value],
    new: &[Value],
    wanted: Wanted,
) -> Result<Difference, Error> {
    let Some(key) = strategy.merge_key.as_deref() else {
        return Err(Error::NoMergeKey { items: fields::short_name(items).to_owned() });
    };
    let old_items = Keyed::all(old, key)?;
    let new_items = Keyed::all(new, key)?;
    let mut ids = Ids::new();
    let old_ids: Vec<usize> = old_items.iter().map(|item| ids.of(item.key)).collect();
    let new_ids: Vec<usize> = new_items.iter().map(|item| ids.of(item.key)).collect();

    let mut list = Vec::new();
    for pair in pairs(sorted(&old_items, Keyed::text), sorted(&new_items, Keyed::text)) {
        let (found, item, deletes) = match pair {
            Pair::Both(old, new) => {
                let mut patch = diff_maps(items, old.map, new.map, wanted)?;
                add_retain_keys(strategy, &mut patch, old.map, new.map, wanted);
                (new, patch, false)
            }
            Pair::New(new) if wanted.changes() => (new, new.map.clone(), false),
            Pair::Old(old) if wanted.deletions() => {
                (old, Map::from_iter([(PATCH.to_owned(), json!("delete"))]), true)
            }
            _ => continue,
        };
        if !item.is_empty() {
            let mut item = item;
            item.insert(key.to_owned(), found.key.clone());
            list.push(Item { id: ids.of(found.key), value: Value::Object(item), deletes });
        }
    }
    let ordered = is_ordered(!list.is_empty(), &old_ids, &new_ids, wanted);
    let (deletions, changes): (Vec<Item>, Vec<Item>) = list.into_iter().partition(|item| item.deletes);
    let list = arrange(changes, &new_ids, &[]).into_iter().chain(deletions).map(|item| item.value);
    Ok(Difference {
        list: list.collect(),
        deleted: Vec::new(),
        order: match ordered {
            true => new_items.iter().map(|item| json!({key: item.key})).collect(),
            false => Vec::new(),
        },
    })
}

/// Whether the order has to be said: with every change, and if it differs.
///
/// Upstream compares scalars with the old list sorted; then an order that
/// happens to be the alphabetical one is lost, and others are repeated in vain.
fn is_ordered(changed: bool, old: &[usize], new: &[usize], wanted: Wanted) -> bool {
    match wanted {
        Wanted::Plain => false,
        Wanted::Deletions => changed,
        Wanted::All | Wanted::AdditionsAndChanges => changed || old != new,
    }
}

/// An item of a list of objects.
struct Keyed<'a> {
    map: &'a Map<String, Value>,
    key: &'a Value,
}

impl<'a> Keyed<'a> {
    fn all(list: &'a [Value], key: &str) -> Result<Vec<Self>, Error> {
        let keyed = |item: &'a Value| {
            let missing = || Error::MissingMergeKey { map: go::print(item), key: key.to_owned() };
            let map = item.as_object().ok_or_else(missing)?;
            Ok(Self { map, key: map.get(key).ok_or_else(missing)? })
        };
        list.iter().map(keyed).collect()
    }

    fn text(&self) -> String {
        go::print(self.key)
    }
}

/// Sorted by text, which goes along.
fn sorted<T>(list: &[T], text: impl Fn(&T) -> String) -> Vec<(String, &T)> {
    let mut sorted: Vec<(String, &T)> = list.iter().map(|item| (text(item), item)).collect();
    sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
    sorted
}

enum Pair<'a, T> {
    Both(&'a T, &'a T),
    Old(&'a T),
    New(&'a T),
}

/// What two sorted lists have in common, and what only one of them has.
fn pairs<'a, T>(old: Vec<(String, &'a T)>, new: Vec<(String, &'a T)>) -> impl Iterator<Item = Pair<'a, T>> {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    std::iter::from_fn(move || {
        let ordering = match (old.peek(), new.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        match ordering {
            Ordering::Less => old.next().map(|(_, old)| Pair::Old(old)),
            Ordering::Greater => new.next().map(|(_, new)| Pair::New(new)),
            Ordering::Equal => Some(Pair::Both(old.next()?.1, new.next()?.1)),
        }
    })
}
