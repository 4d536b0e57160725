//! Nobody grants what they do not have: who writes a role or a binding must hold
//! all that it grants, or be allowed to `escalate` the role or to `bind` it.
//!
//! Comes behind mutating admission, which may add to what is granted, and before
//! any other check. `old` on update.

use serde_json::Value;
use sternpost_golang::strconv::{go_quote, go_quote_list};
use sternpost_meta::{
    authorize::{Attributes, PolicyRule, ResourceAttributes, What, joined, uncovered},
    status::Status,
};

use crate::{
    context::Context,
    object::{Fields, FieldsMut},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Of a role or a cluster role.
pub fn check_role(object: &Value, old: Option<&Value>, context: &Context<'_>) -> Result<(), Status> {
    let name = object.field("metadata").text("name");
    if is_exempt(object, old, context)
        || may(context, "escalate", context.resource.resource, context.namespace, name)
    {
        return Ok(());
    }
    let aggregates = |role: &Value| role.get_field("aggregationRule").is_some_and(|rule| !rule.is_null());
    if aggregates(object) || old.is_some_and(aggregates) {
        // What is aggregated can be anything.
        let held = context.authorizer.rules(context.user, "").rules;
        let missing = uncovered(&held, &PolicyRule::everything());
        let why = "must have cluster-admin privileges to use the aggregationRule";
        let is_admin = missing.is_some_and(|missing| missing.is_empty());
        return if is_admin { Ok(()) } else { Err(refusal(context, name, why)) };
    }
    check_rules(context, name, &rules_of(object))
}

/// Of a binding or a cluster role's binding.
pub fn check_binding(object: &Value, old: Option<&Value>, context: &Context<'_>) -> Result<(), Status> {
    if is_exempt(object, old, context) {
        return Ok(());
    }
    let role = object.field("roleRef");
    let name = role.text("name");
    let (plural, namespace) = match role.text("kind") {
        "ClusterRole" => ("clusterroles", ""),
        "Role" => ("roles", context.namespace),
        kind => {
            let kind = go_quote(kind);
            return Err(Status::unexpected(format!("unsupported role reference kind: {kind}")));
        }
    };
    if may(context, "bind", plural, context.namespace, name) {
        return Ok(());
    }
    let Some(role) = context.cluster.get(GROUP, plural, namespace, name) else {
        return Err(Status::not_found(context.resource, name));
    };
    check_rules(context, object.field("metadata").text("name"), &rules_of(&role))
}

fn is_exempt(object: &Value, old: Option<&Value>, context: &Context<'_>) -> bool {
    let is_master = context.user.groups.iter().any(|group| group == "system:masters");
    is_master || old.is_some_and(|old| is_upkeep(object, old))
}

fn check_rules(context: &Context<'_>, name: &str, rules: &[PolicyRule]) -> Result<(), Status> {
    let held = context.authorizer.rules(context.user, context.namespace);
    let Some(missing) = uncovered(&held.rules, rules) else {
        return Err(refusal(context, name, "the rules are too many to see whether they are held"));
    };
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&context.user.name),
        go_quote_list(&context.user.groups),
        missing.join("\n")
    );
    if !held.unresolved.is_empty() {
        // Upstream calls them what the request is about.
        let not_found = |name: &str| Status::not_found(context.resource, name).message;
        let errors = joined(held.unresolved.iter().map(|role| not_found(&role.name)));
        why += &format!("; resolution errors: [{errors}]");
    }
    Err(refusal(context, name, &why))
}

fn may(context: &Context<'_>, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let what = ResourceAttributes { group: GROUP, version: "*", resource, namespace, name, subresource: "" };
    let attributes = Attributes { user: context.user, verb, what: What::Resource(what) };
    context.authorizer.authorize(&attributes).is_allowed()
}

fn refusal(context: &Context<'_>, name: &str, why: &str) -> Status {
    let mut status = Status::forbidden_because(context.resource, name, why);
    if name.is_empty() {
        // Not generated yet.
        status.message = format!("{} is forbidden: {why}", context.resource);
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
