//! What selectors look at, taken from each object when it enters the cache.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use sternpost_cache::{Index, Indexer, ResourceId};
use sternpost_registry::{field_selectors, object::Fields};

/// Indexes labels, and the fields by which the built-in kinds can be selected.
#[derive(Debug)]
pub struct Selectable {
    /// The kinds that have selectable fields of their own, by where they are stored.
    kinds: HashMap<ResourceId, (Arc<str>, Vec<&'static str>)>,
}

impl Selectable {
    pub fn built_in() -> Self {
        let mut kinds = HashMap::new();
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        for resource in versions.flat_map(|version| &version.resources) {
            let names: Vec<&str> = field_selectors::names(&resource.gv.group, &resource.kind).collect();
            if !names.is_empty() {
                let id = ResourceId::new(resource.gv.group.clone(), resource.plural.clone());
                kinds.insert(id, (resource.kind.clone(), names));
            }
        }
        Self { kinds }
    }
}

impl Indexer for Selectable {
    fn index(&self, id: &ResourceId, object: &Value) -> Index {
        let labels = object.field("metadata").entries("labels");
        let labels = labels.map(|(key, value)| (key.into(), value.as_str().unwrap_or_default().into()));
        let fields = self.kinds.get(id).into_iter().flat_map(|(kind, names)| {
            names.iter().map(|name| (*name, field_selectors::value(kind, name, object).into()))
        });
        Index { labels: labels.collect(), fields: fields.collect() }
    }
}
