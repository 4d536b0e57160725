//! What discovery and OpenAPI say of custom resources.

use std::{collections::BTreeMap, sync::Arc};

use sternpost_crd::definition::Definition;
use sternpost_meta::{
    gvk::compare_versions,
    resource::{Group, Resource, Version},
};
use sternpost_openapi::custom::{CustomResource, Facts};
use sternpost_verbs::{
    custom::Change,
    served::{Served, is_built_in},
};

use crate::Api;

impl Api {
    /// Publishes a definition of this name and its group as the table of custom resources has
    /// them now.
    pub fn publish_definition(&self, name: &str, group: &str, change: Change) {
        self.discovery.rcu(|discovery| {
            let first = discovery.first(group);
            let customs = &self.verbs.served.customs;
            let resources: Vec<Arc<Resource>> = if is_built_in(group) {
                customs.told_in(group)
            } else {
                customs.in_group(group).iter().map(|served| served.resource.clone()).collect()
            };
            if resources.is_empty() {
                discovery.without(group)
            } else {
                discovery.with(with_custom(group, first, &resources))
            }
        });
        // Documents do not tell what may be done to a definition that is going away.
        if change != Change::All {
            return;
        }
        let installed = self.verbs.served.customs.installed(name);
        let documented = installed.iter().flat_map(|installed| {
            installed.served.iter().filter_map(|served| documented(&installed.definition, served))
        });
        self.openapi.define(name, documented.collect());
    }
}

/// A group with the custom resources in it.
fn with_custom(name: &str, first: Option<&Group>, resources: &[Arc<Resource>]) -> Group {
    let mut versions: BTreeMap<Arc<str>, Vec<Arc<Resource>>> = BTreeMap::new();
    for version in first.into_iter().flat_map(|group| &group.versions) {
        versions.entry(version.name.clone()).or_default().extend(version.resources.iter().cloned());
    }
    for resource in resources {
        versions.entry(resource.gv.version.clone()).or_default().push(resource.clone());
    }
    let mut versions: Vec<Version> =
        versions.into_iter().map(|(name, resources)| Version { name, resources }).collect();
    versions.sort_by(|a, b| compare_versions(&a.name, &b.name));
    Group { name: name.into(), versions }
}

fn documented(definition: &Definition, served: &Served) -> Option<CustomResource> {
    let resource = &served.resource;
    let version = definition.version(&resource.gv.version)?;
    let facts = Facts {
        gv: resource.gv.clone(),
        kind: resource.kind.clone(),
        list_kind: served.list_kind().into(),
        plural: resource.plural.clone(),
        scope: resource.scope,
        status: version.status,
        scale: version.scale.is_some(),
        selectable_fields: version.selectable_fields.clone(),
        deprecated: version.deprecated,
    };
    Some(CustomResource::of_text(facts, version.text().clone()))
}
