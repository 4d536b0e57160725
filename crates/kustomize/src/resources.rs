//! The objects of a build in their order, found by id in constant time.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::id::ResId;
use crate::resource::{Behavior, Resource};

/// An ordered list. Any mutable look at the objects drops the index, which is
/// made again when somebody asks for an id.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    list: Vec<Resource>,
    index: RefCell<Option<Index>>,
}

/// Positions by name and namespace, for every id an object has or had, in
/// list order.
#[derive(Debug, Default)]
struct Index {
    positions: HashMap<(String, String), Vec<usize>>,
}

impl Index {
    fn add(&mut self, at: usize, resource: &Resource) {
        let id = resource.id();
        self.add_key(at, (id.name.clone(), id.effective_namespace().to_owned()));
        for id in resource.previous_ids() {
            let namespace = id.effective_namespace().to_owned();
            self.add_key(at, (id.name, namespace));
        }
    }

    fn add_key(&mut self, at: usize, key: (String, String)) {
        let held = self.positions.entry(key).or_default();
        if held.last() != Some(&at) {
            held.push(at);
        }
    }
}

impl Resources {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Resource> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Resource> {
        self.list.get(at)
    }

    /// One object; its id must be the same afterwards, or [`Resources::changed`]
    /// be called.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Resource> {
        self.list.get_mut(at)
    }

    /// Says that ids may have changed.
    pub(crate) fn changed(&mut self) {
        self.index.replace(None);
    }

    pub(crate) fn all_mut(&mut self) -> &mut Vec<Resource> {
        self.index.replace(None);
        &mut self.list
    }

    pub(crate) fn into_list(self) -> Vec<Resource> {
        self.list
    }

    /// Positions of the objects that have or had that name and namespace.
    fn near(&self, id: &ResId) -> Vec<usize> {
        let mut index = self.index.borrow_mut();
        let index = index.get_or_insert_with(|| {
            let mut index = Index::default();
            self.list.iter().enumerate().for_each(|(at, resource)| index.add(at, resource));
            index
        });
        let key = (id.name.clone(), id.effective_namespace().to_owned());
        index.positions.get(&key).cloned().unwrap_or_default()
    }

    /// Positions of the objects that are called so now.
    pub(crate) fn with_current_id(&self, id: &ResId) -> Vec<usize> {
        let mut at = self.near(id);
        at.retain(|at| self.list.get(*at).is_some_and(|resource| resource.id().same(id)));
        at
    }

    /// Positions of the objects that are or were called so.
    pub(crate) fn with_any_id(&self, id: &ResId) -> Vec<usize> {
        let mut at = self.near(id);
        at.retain(|at| self.list.get(*at).is_some_and(|resource| resource.has_id(id)));
        at
    }

    pub(crate) fn append(&mut self, resource: Resource) -> Result<()> {
        if !self.with_current_id(resource.id()).is_empty() {
            let id = resource.id();
            return Err(Error::new(format!("may not add resource with an already registered id: {id}")));
        }
        if let Some(index) = self.index.get_mut() {
            index.add(self.list.len(), &resource);
        }
        self.list.push(resource);
        Ok(())
    }

    pub(crate) fn append_all(&mut self, others: Self) -> Result<()> {
        others.list.into_iter().try_for_each(|resource| self.append(resource))
    }

    /// Takes generated objects in, each by its behaviour.
    pub(crate) fn absorb(&mut self, others: Self) -> Result<()> {
        others.list.into_iter().try_for_each(|resource| self.absorb_one(resource))
    }

    fn absorb_one(&mut self, mut new: Resource) -> Result<()> {
        let id = new.id().clone();
        let mut found = self.with_any_id(&id);
        match (found.pop(), found.is_empty()) {
            (None, _) => match new.behavior {
                Behavior::Merge | Behavior::Replace => {
                    Err(Error::new(format!("id {} does not exist; cannot merge or replace", id.go_syntax())))
                }
                _ => self.append(new),
            },
            (Some(at), true) => {
                let Some(old) = self.list.get_mut(at) else { return Ok(()) };
                match new.behavior {
                    Behavior::Replace => crate::generate::replace(old, &mut new),
                    Behavior::Merge => crate::generate::merge(old, &mut new),
                    behavior => {
                        return Err(Error::new(format!(
                            "id {} exists; can not use behavior: '{}', behavior must be merge or replace",
                            id.go_syntax(),
                            behavior.as_str()
                        )));
                    }
                }
                *old = new;
                self.changed();
                Ok(())
            }
            (Some(_), false) => Err(Error::new(format!(
                "found multiple objects {} that could accept merge of {id}",
                found.len() + 1
            ))),
        }
    }

    /// Leaves out what a patch has deleted.
    pub(crate) fn drop_empty(&mut self) {
        if self.list.iter().any(Resource::is_empty) {
            self.list.retain(|resource| !resource.is_empty());
            self.changed();
        }
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        Self { list: resources.into_iter().collect(), index: RefCell::new(None) }
    }
}
