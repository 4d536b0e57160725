//! The resources that are served, as the verbs need them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use sternpost_apply::ResetFields;
use sternpost_cache::{ResourceId, object_key};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    gvk::{GroupVersion, GroupVersionKind},
    resource::{Resource, Scope},
    status::ResourceName,
};
use sternpost_registry::{kinds::strategy, strategy::Strategy};

use crate::{
    admission::{policy_rules, webhook_rules},
    custom::{Custom, Customs},
    definitions,
    form::{BuiltIn, Form},
};

/// One resource of one version, with all that its verbs need to know.
#[derive(Debug)]
pub struct Served {
    pub resource: Arc<Resource>,
    /// Of its objects.
    pub api_version: Arc<str>,
    /// Where its objects are; versions of one resource share it.
    pub id: ResourceId,
    pub(crate) form: Form,
    pub strategy: &'static Strategy,
    /// What cannot be owned, by the subresource that is written through.
    resets: Vec<(&'static str, ResetFields)>,
    /// No other has it: what is kept of objects as this one shows them is known by it.
    pub number: u64,
}

fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

impl Served {
    pub(crate) fn custom_of(resource: Arc<Resource>, id: ResourceId, custom: Custom) -> Self {
        let strategy = custom.strategy();
        let api_version = resource.gv.to_string().into();
        let form = Form::Custom(Arc::new(custom));
        Self { resource, api_version, id, form, strategy, resets: resets(strategy), number: next_number() }
    }

    pub fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub fn group(&self) -> &str {
        &self.resource.gv.group
    }

    /// What messages call it.
    pub fn resource_name(&self) -> ResourceName<'_> {
        ResourceName { group: self.group(), resource: &self.resource.plural }
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
    // Upstream still converts what definitions were before.
    let is_old = (&*gvk.group, &*gvk.version, &*gvk.kind)
        == (definitions::GROUP, "v1beta1", definitions::STRATEGY.kind);
    is_old || sternpost_builtin::definition_name(gvk).is_some()
}

/// Whether a group is built in. To upstream all paths below it belong to what is: definitions in it are
/// hidden.
pub fn is_built_in(group: &str) -> bool {
    sternpost_builtin::groups().iter().any(|built_in| *built_in.name == *group)
}

/// Where a CustomResourceDefinition is in the store.
pub(crate) fn definition_key(name: &str) -> Bytes {
    object_key(&ResourceId::new(definitions::GROUP, definitions::PLURAL), "", name)
}

/// All resources, by group, version and plural.
#[derive(Debug, Default)]
pub struct ServedResources {
    /// By [`key`].
    built_in: HashMap<String, Arc<Served>>,
    pub customs: Customs,
}

/// `GROUP/VERSION/PLURAL`: none of them has a slash.
pub(crate) fn key(group: &str, version: &str, plural: &str) -> String {
    [group, version, plural].join("/")
}

impl ServedResources {
    /// The built-in ones that are stored.
    pub fn built_in() -> Self {
        let mut all = HashMap::new();
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        for resource in versions.flat_map(|version| &version.resources) {
            let gv = &resource.gv;
            let Some(definition) = sternpost_builtin::definition_name(&resource.gvk()) else { continue };
            let strategy = strategy_of(&gv.group, &resource.kind);
            let conversion = strategy.conversion(&gv.version).copied();
            let stored_version =
                conversion.map_or_else(|| gv.clone(), |it| GroupVersion::parse(it.stored_as));
            let id = ResourceId::new(stored_version.group.clone(), resource.plural.clone());
            let stored_as = stored_version.kind(resource.kind.clone());
            let Some(stored_definition) = sternpost_builtin::definition_name(&stored_as) else { continue };
            let served = Served {
                resource: resource.clone(),
                api_version: gv.to_string().into(),
                id,
                form: Form::BuiltIn(BuiltIn { definition, stored_definition, conversion, of_custom: false }),
                strategy,
                resets: resets(strategy),
                number: next_number(),
            };
            all.insert(key(&gv.group, &gv.version, &resource.plural), Arc::new(served));
        }
        Self { built_in: all, customs: Customs::default() }
    }

    /// A kind that is not stored, of a subresource: `autoscaling/v1 Scale`.
    pub fn of_subresource(parent: &Served, kind: &GroupVersionKind) -> Option<Served> {
        let definition = sternpost_builtin::definition_name(kind)?;
        let resource =
            Resource { gv: kind.group_version(), kind: kind.kind.clone(), ..(*parent.resource).clone() };
        let stored_definition = definition.clone();
        Some(Served {
            api_version: resource.gv.to_string().into(),
            resource: Arc::new(resource),
            id: parent.id.clone(),
            form: Form::BuiltIn(BuiltIn {
                definition,
                stored_definition,
                conversion: None,
                of_custom: parent.is_unstructured(),
            }),
            strategy: strategy(&kind.group, &kind.kind),
            resets: Vec::new(),
            number: next_number(),
        })
    }

    /// The built-in ones, in no order.
    pub fn all_built_in(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.built_in.values()
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Served>> {
        let key = key(group, version, plural);
        self.built_in.get(&key).cloned().or_else(|| self.customs.get(&key))
    }

    /// The other versions of the same resource: in the order of its definition, or of their names.
    pub(crate) fn other_versions(&self, served: &Served) -> Vec<Arc<Served>> {
        let own = &served.resource;
        let is_other = |other: &Arc<Served>| other.id == served.id && other.resource.gv != own.gv;
        match &served.form {
            Form::Custom(custom) => {
                let versions = custom.definition.versions.iter();
                let all = versions.filter_map(|version| self.get(&own.gv.group, &version.name, &own.plural));
                all.filter(is_other).collect()
            }
            Form::BuiltIn(_) => {
                let mut others: Vec<_> = self.all_built_in().filter(|it| is_other(it)).cloned().collect();
                others.sort_by(|a, b| a.api_version.cmp(&b.api_version));
                others
            }
        }
    }
}

/// Of kinds whose strategy takes what `registry` does not know: definitions and expressions.
const HERE: [&Strategy; 5] = [
    &definitions::STRATEGY,
    &webhook_rules::MUTATING,
    &webhook_rules::VALIDATING,
    &policy_rules::MUTATING,
    &policy_rules::VALIDATING,
];

fn strategy_of(group: &str, kind: &str) -> &'static Strategy {
    let mut here = HERE.into_iter();
    let here = here.find(|strategy| (strategy.group, strategy.kind) == (group, kind));
    here.unwrap_or_else(|| strategy(group, kind))
}

fn resets(strategy: &Strategy) -> Vec<(&'static str, ResetFields)> {
    let subresources = strategy.subresources.iter().map(|it| (it.name, it.reset_fields));
    let all = std::iter::once(("", strategy.reset_fields)).chain(subresources);
    let written = all.filter(|(_, fields)| !fields.is_empty());
    written.map(|(name, fields)| (name, ResetFields::except(fields.iter().copied()))).collect()
}
