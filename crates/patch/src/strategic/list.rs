//! Lists whose items are merged: scalars by value, objects by their merge key.

use std::collections::HashSet;
use sternpost_golang::fmt as go;

use serde_json::Value;
use sternpost_meta::cancel::checkpoint;
use sternpost_schema::topology::Type;

use super::{
    Error, PATCH, fields,
    merge::{self, Into, Nulls},
    order::{Ids, Item, arrange},
};

/// What there is to know of a list.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) items: &'a Type,
    pub(super) key: Option<&'a str>,
    pub(super) into: Into,
}

/// What a list holds; the same throughout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nothing,
    Scalars,
    Maps,
}

impl List<'_> {
    /// Items that the patch has stand as there, the others as they did; then
    /// all as in `order`, if there is one.
    pub(super) fn merge(
        self,
        old: Vec<Value>,
        new: &[Value],
        order: Option<&[Value]>,
    ) -> Result<Vec<Value>, Error> {
        match kind(&old, new)? {
            Kind::Nothing => Ok(old),
            Kind::Scalars => self.merge_scalars(old, new, order),
            Kind::Maps => self.merge_maps(old, new, order),
        }
    }

    /// As [`Self::merge`], then ordered as `$setElementOrder` says.
    pub(super) fn merge_ordered(
        self,
        old: Option<Vec<Value>>,
        new: Option<&[Value]>,
        order: &[Value],
        merges: bool,
    ) -> Result<Option<Vec<Value>>, Error> {
        match (old, new) {
            (None, None) => Ok(None),
            (Some(old), Some(new)) if merges => self.merge(old, new, Some(order)).map(Some),
            (_, Some(new)) => {
                let fresh = new.iter().filter_map(|item| merge::without_directives(item, Nulls::Kept));
                self.reorder(fresh.collect(), order).map(Some)
            }
            (Some(old), None) => self.reorder(old, order).map(Some),
        }
    }

    /// What a patch sets must stand in the order that it asks for.
    pub(super) fn check_order(self, new: &[Value], order: &[Value]) -> Result<(), Error> {
        let mismatch = || Error::OrderMismatch { patch: go::print_list(new), order: go::print_list(order) };
        let mut keys = order.iter().map(|item| self.key_of(item).unwrap_or(item));
        for item in new {
            match item.get(PATCH).map(Value::as_str) {
                None => {
                    let wanted = self.key_of(item)?;
                    if !keys.any(|key| key == wanted) {
                        return Err(mismatch());
                    }
                }
                Some(Some("delete")) => {}
                // Upstream does not look behind the end of the order.
                Some(_) if keys.len() == 0 && !order.is_empty() => return Err(mismatch()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The same items in another order.
    fn reorder(self, list: Vec<Value>, order: &[Value]) -> Result<Vec<Value>, Error> {
        kind(&list, &[])?;
        let mut ids = Ids::new();
        let server = self.ids(&mut ids, &list)?;
        let order = self.ids(&mut ids, order)?;
        let items = list.into_iter().zip(&server).map(|(value, id)| Item { id: *id, value, deletes: false });
        Ok(arrange(items.collect(), &order, &server).into_iter().map(|item| item.value).collect())
    }

    /// What tells an item from the others: scalars are their own keys.
    fn key_of(self, item: &Value) -> Result<&Value, Error> {
        match (item, self.key) {
            (Value::Object(map), Some(key)) => map
                .get(key)
                .ok_or_else(|| Error::MissingMergeKey { map: go::print(item), key: key.to_owned() }),
            (Value::Object(_), None) => {
                Err(Error::NoMergeKey { items: fields::short_name(self.items).to_owned() })
            }
            (scalar, None) => Ok(scalar),
            (scalar, Some(_)) => {
                Err(Error::WrongType { expected: "map[string]interface {}", found: go::print_type(scalar) })
            }
        }
    }

    fn ids<'v>(
        self,
        ids: &mut Ids<'v>,
        list: impl IntoIterator<Item = &'v Value>,
    ) -> Result<Vec<usize>, Error> {
        list.into_iter().map(|item| Ok(ids.of(self.key_of(item)?))).collect()
    }

    /// Each value once.
    fn merge_scalars(
        self,
        old: Vec<Value>,
        new: &[Value],
        order: Option<&[Value]>,
    ) -> Result<Vec<Value>, Error> {
        let mut ids = Ids::new();
        let server = self.ids(&mut ids, &old)?;
        let wanted = self.ids(&mut ids, new)?;
        let order = order.map(|order| self.ids(&mut ids, order)).transpose()?;
        let mut seen = vec![false; ids.len()];
        let items = old.into_iter().chain(new.iter().cloned()).zip(server.iter().chain(&wanted));
        let items =
            items.filter(|(_, id)| seen.get_mut(**id).is_some_and(|seen| !std::mem::replace(seen, true)));
        let items: Vec<Item> = items.map(|(value, id)| Item { id: *id, value, deletes: false }).collect();
        Ok(finish(items, &wanted, &server, order.as_deref().map(|order| (order, &*server))))
    }

    fn merge_maps(
        self,
        old: Vec<Value>,
        new: &[Value],
        order: Option<&[Value]>,
    ) -> Result<Vec<Value>, Error> {
        let mut ids = Ids::new();
        let mut deleted = Vec::new();
        let mut replaced = false;
        for item in new {
            let Some(map) = item.as_object() else { continue };
            match map.get(PATCH).map(|directive| (directive, directive.as_str())) {
                None => {}
                Some((_, Some("delete"))) => deleted.push(ids.of(self.key_of(item)?)),
                Some((_, Some("replace"))) => replaced = true,
                Some((_, Some("merge"))) => return Err(Error::MergeInList),
                Some((directive, _)) => return Err(merge::unknown_patch_type(directive, map)),
            }
        }
        let new: Vec<&Value> = new.iter().filter(|item| !is_directive(item)).collect();
        let server = self.ids(&mut ids, &old)?;
        let wanted = self.ids(&mut ids, new.iter().copied())?;
        if replaced {
            let new = new.into_iter().cloned().collect();
            return match order {
                Some(order) => self.reorder(new, order),
                None => Ok(new),
            };
        }
        let order = order.map(|order| self.ids(&mut ids, order)).transpose()?;

        let mut is_deleted = vec![false; ids.len()];
        for id in deleted {
            if let Some(flag) = is_deleted.get_mut(id) {
                *flag = true;
            }
        }
        let mut first = vec![None; ids.len()];
        drop(ids);
        let mut items = Vec::with_capacity(old.len() + new.len());
        for (value, id) in old.into_iter().zip(&server) {
            if !is_deleted.get(*id).is_some_and(|deleted| *deleted) {
                note_first(&mut first, *id, items.len());
                items.push(Item { id: *id, deletes: is_directive(&value), value });
            }
        }
        let kept: Vec<usize> = items.iter().map(|item| item.id).collect();
        for (item, id) in new.into_iter().zip(&wanted) {
            checkpoint();
            let known = first.get(*id).copied().flatten().and_then(|position: usize| items.get_mut(position));
            match (known.map(|item| &mut item.value), item) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    merge::merge(self.items, old, new, self.into)?;
                }
                _ => {
                    note_first(&mut first, *id, items.len());
                    items.push(Item { id: *id, value: item.clone(), deletes: false });
                }
            }
        }
        let known = self.known(&items, server.len());
        Ok(finish(items, &wanted, &kept, order.as_deref().map(|order| (order, &*known))))
    }

    /// The server's order, when an order is asked for.
    ///
    /// Upstream looks for it in a list from which deleted items are gone, and
    /// in whose free places new ones stand. In a patch there is no such order:
    /// what has no place in the one asked for stands last.
    fn known(self, items: &[Item], places: usize) -> Vec<usize> {
        let places = if self.into == Into::Object { places } else { 0 };
        items.iter().map(|item| item.id).take(places).collect()
    }
}

fn note_first(first: &mut [Option<usize>], id: usize, position: usize) {
    if let Some(slot @ None) = first.get_mut(id) {
        *slot = Some(position);
    }
}

/// Orders as the patch has it, then as `$setElementOrder` has it.
fn finish(
    items: Vec<Item>,
    wanted: &[usize],
    server: &[usize],
    order: Option<(&[usize], &[usize])>,
) -> Vec<Value> {
    let mut items = arrange(items, wanted, server);
    if let Some((order, server)) = order {
        items = arrange(items, order, server);
    }
    items.into_iter().map(|item| item.value).collect()
}

/// Removes these values from a list, all copies of them.
pub(super) fn delete_scalars(list: &mut Vec<Value>, gone: &[Value]) -> Result<(), Error> {
    kind(list, gone)?;
    let gone: HashSet<&Value> = gone.iter().collect();
    list.retain(|item| !gone.contains(item));
    Ok(())
}

pub(super) fn is_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|map| map.contains_key(PATCH))
}

/// What two lists hold, if it is the same.
pub(super) fn kind(old: &[Value], new: &[Value]) -> Result<Kind, Error> {
    let mut types = old.iter().chain(new).map(go::print_type);
    let Some(first) = types.next() else { return Ok(Kind::Nothing) };
    if types.any(|other| other != first) {
        let lists = format!("[{} {}]", go::print_list(old), go::print_list(new));
        return Err(Error::MixedItems { lists });
    }
    match old.iter().chain(new).next() {
        Some(Value::Array(_)) => Err(Error::ListOfLists),
        Some(Value::Null) => Err(Error::NullItem),
        Some(Value::Object(_)) => Ok(Kind::Maps),
        _ => Ok(Kind::Scalars),
    }
}
