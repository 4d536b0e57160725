//! Nobody grants what they do not have: who writes a role or a binding must hold
//! all that it grants, or be allowed to `escalate` the role or to `bind` it.

use serde_json::Value;
use sternpost_cache::ResourceId;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, PolicyRule, ResourceAttributes, What, joined, quoted, uncovered},
    status::{ResourceName, Status},
};
use sternpost_registry::object::{Fields, FieldsMut};

use crate::registry::{Registry, Target, Writer};

const GROUP: &str = "rbac.authorization.k8s.io";

impl Registry {
    /// Comes behind mutating admission, which may add to what is granted, and
    /// before any other check. `old` on update.
    pub(crate) fn check_escalation(
        &self,
        target: Target<'_>,
        object: &Value,
        old: Option<&Value>,
        writer: Writer<'_>,
    ) -> Result<(), Status> {
        let is_master = || writer.user.groups.iter().any(|group| group == "system:masters");
        if target.served.group() != GROUP || is_master() || old.is_some_and(|old| is_upkeep(object, old)) {
            return Ok(());
        }
        match target.served.kind() {
            "Role" | "ClusterRole" => self.check_role(target, object, old, writer),
            "RoleBinding" | "ClusterRoleBinding" => self.check_binding(target, object, writer),
            _ => Ok(()),
        }
    }

    fn check_role(
        &self,
        target: Target<'_>,
        object: &Value,
        old: Option<&Value>,
        writer: Writer<'_>,
    ) -> Result<(), Status> {
        let plural = &target.served.resource.plural;
        let name = object.field("metadata").text("name");
        if self.may(writer, "escalate", plural, target.namespace, name) {
            return Ok(());
        }
        let aggregates = |role: &Value| role.get_field("aggregationRule").is_some_and(|rule| !rule.is_null());
        if aggregates(object) || old.is_some_and(aggregates) {
            // What is aggregated can be anything.
            let held = self.authorizer.rules(writer.user, "").rules;
            let missing = uncovered(&held, &PolicyRule::everything());
            let why = "must have cluster-admin privileges to use the aggregationRule";
            let is_admin = missing.is_some_and(|missing| missing.is_empty());
            return if is_admin { Ok(()) } else { Err(refusal(target, name, why)) };
        }
        self.check_rules(target, name, &rules_of(object), writer)
    }

    fn check_binding(&self, target: Target<'_>, object: &Value, writer: Writer<'_>) -> Result<(), Status> {
        let role = object.field("roleRef");
        let name = role.text("name");
        let (plural, namespace) = match role.text("kind") {
            "ClusterRole" => ("clusterroles", ""),
            "Role" => ("roles", target.namespace),
            kind => {
                let kind = go_quote(kind);
                return Err(Status::unexpected(format!("unsupported role reference kind: {kind}")));
            }
        };
        if self.may(writer, "bind", plural, target.namespace, name) {
            return Ok(());
        }
        let roles = self.cache.resource(&ResourceId::new(GROUP, plural)).snapshot();
        let Some(role) = roles.get(namespace, name) else {
            return Err(Status::not_found(target.resource_name(), name));
        };
        let binding = object.field("metadata").text("name");
        self.check_rules(target, binding, &rules_of(&role.value()), writer)
    }

    fn check_rules(
        &self,
        target: Target<'_>,
        name: &str,
        rules: &[PolicyRule],
        writer: Writer<'_>,
    ) -> Result<(), Status> {
        let held = self.authorizer.rules(writer.user, target.namespace);
        let Some(missing) = uncovered(&held.rules, rules) else {
            return Err(refusal(target, name, "the rules are too many to see whether they are held"));
        };
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&writer.user.name),
            quoted(&writer.user.groups),
            missing.join("\n")
        );
        if !held.unresolved.is_empty() {
            // Upstream calls them what the request is about.
            let not_found = |name: &str| Status::not_found(target.resource_name(), name).message;
            let errors = joined(held.unresolved.iter().map(|role| not_found(&role.name)));
            why += &format!("; resolution errors: [{errors}]");
        }
        Err(refusal(target, name, &why))
    }

    fn may(&self, writer: Writer<'_>, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let what =
            ResourceAttributes { group: GROUP, version: "*", resource, namespace, name, subresource: "" };
        let attributes = Attributes { user: writer.user, verb, what: What::Resource(what) };
        self.authorizer.authorize(&attributes).is_allowed()
    }
}

fn refusal(target: Target<'_>, name: &str, why: &str) -> Status {
    let resource: ResourceName<'_> = target.resource_name();
    let mut status = Status::forbidden_because(resource, name, why);
    if name.is_empty() {
        // Not generated yet.
        status.message = format!("{resource} is forbidden: {why}");
    }
    status
}

/// Rules that cannot be read grant nothing; validation has its say about them.
fn rules_of(role: &Value) -> Vec<PolicyRule> {
    let read = |rule: &Value| serde_json::from_value(rule.clone()).unwrap_or_default();
    role.items("rules").iter().map(read).collect()
}

/// Whether only what the garbage collector needs is changed.
fn is_upkeep(object: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for field in ["kind", "apiVersion"] {
            rest.remove(field);
        }
        // No rules are no rules, however that is said.
        for field in ["rules", "subjects"] {
            if rest.items(field).is_empty() {
                rest.remove(field);
            }
        }
        let metadata = rest.object_mut("metadata");
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.remove(field);
        }
        rest
    };
    rest(object) == rest(old)
}
