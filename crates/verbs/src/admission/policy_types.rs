//! The kinds that a validating policy names, with their types.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use sternpost_admission::policy::type_check::{MAX_KINDS, type_checking};
use sternpost_cel::Declaration;
use sternpost_meta::gvk::{GroupVersion, GroupVersionKind};
use sternpost_registry::object::Fields;

use crate::verbs::Verbs;

impl Verbs {
    /// `status.typeChecking` of a validating policy. Kinds that are not built in are not looked at.
    pub fn type_check(&self, policy: &Value) -> Value {
        let spec = policy.field("spec");
        let params = spec.get_field("paramKind").map(|kind| {
            let kind = GroupVersion::parse(kind.text("apiVersion")).kind(kind.text("kind"));
            declaration(&kind).unwrap_or_else(|| Arc::new(Declaration::dynamic()))
        });
        let kinds: Vec<_> = self
            .kinds_of(spec.field("matchConstraints"))
            .into_iter()
            .filter_map(|kind| declaration(&kind).map(|declaration| (kind, declaration)))
            .collect();
        type_checking(policy, &kinds, params.as_ref())
    }

    /// The kinds that rules name in full, in order.
    fn kinds_of(&self, constraints: &Value) -> Vec<GroupVersionKind> {
        let texts = |rule: &'_ Value, field: &str| -> Vec<String> {
            rule.items(field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut kinds = BTreeMap::new();
        for rule in constraints.items("resourceRules") {
            let (groups, versions) = (texts(rule, "apiGroups"), texts(rule, "apiVersions"));
            if groups.iter().chain(&versions).any(|text| text == "*") {
                continue;
            }
            for resource in texts(rule, "resources").iter().filter(|text| !text.contains(['*', '/'])) {
                for (group, version) in
                    groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)))
                {
                    if let Some(served) = self.served.get(group, version, resource) {
                        let kind = served.resource.gvk();
                        let place = (kind.group.clone(), kind.version.clone(), kind.kind.clone());
                        kinds.insert(place, kind);
                    }
                }
            }
        }
        kinds.into_values().take(MAX_KINDS).collect()
    }
}

fn declaration(kind: &GroupVersionKind) -> Option<Arc<Declaration>> {
    let name = sternpost_builtin::definition_name(kind)?;
    let find = |name: &str| sternpost_builtin::definition(name).cloned();
    Declaration::from_definition(&name, &find).map(Arc::new)
}
