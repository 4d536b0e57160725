//! The resources that are served, as the verbs need them.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use sternpost_apply::ResetFields;
use sternpost_cache::ResourceId;
use sternpost_meta::{
    field::go_quote,
    gvk::GroupVersionKind,
    resource::{Resource, Scope},
};
use sternpost_registry::{
    kinds::{Rules, event, horizontal_pod_autoscaler_v1, rules},
    object::FieldsMut,
};

use crate::{
    policy::{Policy, policy},
    reset_fields::{PLACES, reset},
};

/// One resource of one version, with all that its verbs need to know.
#[derive(Debug)]
pub struct Served {
    pub resource: Arc<Resource>,
    /// Where its objects are; versions of one resource share it.
    pub id: ResourceId,
    /// The name of its type in the catalogue.
    pub definition: Arc<str>,
    /// The type of its objects as they are stored.
    pub stored_definition: Arc<str>,
    /// How to get from one to the other, if they are not the same.
    pub conversion: Option<Conversion>,
    pub policy: Policy,
    pub rules: Rules,
    /// What cannot be owned, by the subresource that is written through.
    resets: Vec<(&'static str, ResetFields)>,
}

impl Served {
    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub fn group(&self) -> &str {
        &self.resource.gv.group
    }

    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// Fields that a writer through `subresource` cannot own.
    pub fn resets(&self, subresource: &str) -> &ResetFields {
        static NONE: ResetFields = ResetFields::None;
        self.resets.iter().find(|(place, _)| *place == subresource).map_or(&NONE, |(_, reset)| reset)
    }

    /// `{"kind":…,"apiVersion":…,`: what stands before an object's fields.
    pub fn head(&self) -> String {
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.resource.kind, self.resource.gv)
    }
}

/// Between a version that is served and the one that is stored.
#[derive(Debug, Clone, Copy)]
pub struct Conversion {
    /// The `apiVersion` objects are stored as.
    pub stored_as: &'static str,
    pub to_stored: fn(&Value) -> Value,
    from_stored: fn(&Value) -> Value,
}

impl Conversion {
    /// A stored object as the served version has it.
    pub fn show(&self, stored: &Value) -> Value {
        let mut stored = stored.clone();
        stored.set("apiVersion", self.stored_as);
        (self.from_stored)(&stored)
    }
}

/// What upstream says of a kind that it does not know.
pub fn no_kind(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind),
        go_quote(api_version)
    )
}

/// Whether there is such a kind at all, served or not.
pub fn is_known_kind(gvk: &GroupVersionKind) -> bool {
    sternpost_builtin::definition_name(gvk).is_some()
}

/// All resources, by group, version and plural.
#[derive(Debug, Default)]
pub struct ServedResources(HashMap<ServedKey, Arc<Served>>);

/// Group, version and plural.
type ServedKey = (Arc<str>, Arc<str>, Arc<str>);

impl ServedResources {
    /// The built-in ones that are stored.
    pub fn built_in() -> Self {
        let mut all = HashMap::new();
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        for resource in versions.flat_map(|version| &version.resources) {
            let gv = &resource.gv;
            let Some(definition) = sternpost_builtin::definition_name(&resource.gvk()) else { continue };
            let (conversion, stored_as) = match (&*gv.group, &*gv.version, &*resource.kind) {
                ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
                    let (to_stored, from_stored) = (
                        horizontal_pod_autoscaler_v1::to_v2 as fn(&Value) -> Value,
                        horizontal_pod_autoscaler_v1::to_v1 as fn(&Value) -> Value,
                    );
                    let stored = GroupVersionKind::new("autoscaling", "v2", "HorizontalPodAutoscaler");
                    (Some(Conversion { stored_as: "autoscaling/v2", to_stored, from_stored }), stored)
                }
                ("events.k8s.io", ..) => {
                    let (to_stored, from_stored) =
                        (event::to_core as fn(&Value) -> Value, event::from_core as fn(&Value) -> Value);
                    let stored = GroupVersionKind::new("", "v1", "Event");
                    (Some(Conversion { stored_as: "v1", to_stored, from_stored }), stored)
                }
                _ => (None, resource.gvk()),
            };
            let Some(stored_definition) = sternpost_builtin::definition_name(&stored_as) else { continue };
            let served = Served {
                resource: resource.clone(),
                id: storage_id(resource),
                definition,
                stored_definition,
                conversion,
                policy: policy(&gv.group, &resource.kind),
                rules: rules(&gv.group, &resource.kind),
                resets: resets(resource),
            };
            all.insert((gv.group.clone(), gv.version.clone(), resource.plural.clone()), Arc::new(served));
        }
        Self(all)
    }

    /// A kind that is not stored, of a subresource: `autoscaling/v1 Scale`.
    pub fn of_subresource(parent: &Served, kind: &GroupVersionKind) -> Option<Served> {
        let definition = sternpost_builtin::definition_name(kind)?;
        let resource =
            Resource { gv: kind.group_version(), kind: kind.kind.clone(), ..(*parent.resource).clone() };
        Some(Served {
            resource: Arc::new(resource),
            id: parent.id.clone(),
            stored_definition: definition.clone(),
            definition,
            conversion: None,
            policy: parent.policy,
            rules: rules(&kind.group, &kind.kind),
            resets: Vec::new(),
        })
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.0.get(&(group.into(), version.into(), plural.into()))
    }
}

fn resets(resource: &Resource) -> Vec<(&'static str, ResetFields)> {
    let has_status = resource.subresources.iter().any(|subresource| &*subresource.name == "status");
    let at = |place| match reset(&resource.gv.group, &resource.kind, has_status, place) {
        [] => ResetFields::None,
        paths => ResetFields::except(paths.iter().copied()),
    };
    PLACES.iter().map(|place| (*place, at(place))).collect()
}

/// Events are one resource under two groups.
fn storage_id(resource: &Resource) -> ResourceId {
    let group = if &*resource.gv.group == "events.k8s.io" { "".into() } else { resource.gv.group.clone() };
    ResourceId::new(group, resource.plural.clone())
}
