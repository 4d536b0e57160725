//! What field selectors look at, taken from each object when it enters the cache.

use std::collections::HashMap;

use sternpost_cache::{Indexer, Pairs, ResourceId, value_of};
use sternpost_registry::{field_selectors, kinds::strategy, strategy::Strategy};

/// Indexes the fields by which the built-in kinds can be selected.
#[derive(Debug)]
pub struct Selectable {
    /// The kinds that have selectable fields of their own, by where they are stored.
    kinds: HashMap<ResourceId, (&'static Strategy, Vec<&'static str>)>,
}

impl Selectable {
    pub fn built_in() -> Self {
        let mut kinds = HashMap::new();
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        for resource in versions.flat_map(|version| &version.resources) {
            let strategy = strategy(&resource.gv.group, &resource.kind);
            let names: Vec<&str> = field_selectors::names(strategy).collect();
            if !names.is_empty() {
                let id = ResourceId::new(resource.gv.group.clone(), resource.plural.clone());
                kinds.insert(id, (strategy, names));
            }
        }
        Self { kinds }
    }
}

impl Indexer for Selectable {
    fn fields(&self, id: &ResourceId, stored: &[u8]) -> Pairs {
        // Most kinds have none, and are not parsed.
        let Some((strategy, names)) = self.kinds.get(id) else { return Pairs::default() };
        let object = value_of(stored).unwrap_or_default();
        names.iter().map(|name| (*name, field_selectors::value(strategy, name, &object))).collect()
    }
}
