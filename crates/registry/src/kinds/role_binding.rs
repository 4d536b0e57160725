//! RoleBinding, and the subjects and the role reference that ClusterRoleBinding shares.

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{dns_subdomain, path_segment},
};

use super::role::{self, Scope};
use crate::{
    escalation,
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    strategy::{MetadataCheck, Strategy},
    validation::form::{must_be, not_empty, required},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate: |binding, errors| validate(binding, Scope::Namespaced, errors),
    validate_update: |new, old, errors| validate_update(new, old, Scope::Namespaced, errors),
    create_on_update: true,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: role::NAME,
    columns: columns::COLUMNS,
    authorize: escalation::check_binding,
    ..Strategy::of("rbac.authorization.k8s.io", "RoleBinding")
};

const GROUP: &str = "rbac.authorization.k8s.io";

const ROLE_REF: Form = Form::Message("io.k8s.api.rbac.v1.RoleRef");

pub fn default(binding: &mut Value) {
    binding.object_mut("roleRef").default_field("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.default_field("apiGroup", GROUP);
        }
    }
}

pub fn validate(binding: &Value, scope: Scope, errors: &mut Errors) {
    let role_ref = binding.field("roleRef");
    let path = Path::new("roleRef");
    if role_ref.text("apiGroup") != GROUP {
        errors.not_supported(path.child("apiGroup"), role_ref.text("apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    if !kinds.contains(&role_ref.text("kind")) {
        errors.not_supported(path.child("kind"), role_ref.text("kind"), kinds);
    }
    required(path_segment, role_ref.text("name"), path.child("name"), errors);
    let list = Path::new("subjects");
    for (index, subject) in binding.items("subjects").iter().enumerate() {
        validate_subject(subject, scope, &list.index(index), errors);
    }
}

pub fn validate_update(new: &Value, old: &Value, scope: Scope, errors: &mut Errors) {
    validate(new, scope, errors);
    if new.field("roleRef") != old.field("roleRef") {
        let value = internal(Shape::Struct(ROLE_REF), new.field("roleRef"));
        errors.invalid("roleRef", value, "cannot change roleRef");
    }
}

fn validate_subject(subject: &Value, scope: Scope, path: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    not_empty(name, path.child("name"), errors);
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                must_be(dns_subdomain, name, path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.not_supported(path.child("apiGroup"), group, &[""]);
            }
            if scope == Scope::Cluster {
                not_empty(subject.text("namespace"), path.child("namespace"), errors);
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{AGE, Column, NAME, computed},
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Role", role, "The role that is granted."),
        AGE,
        computed("Users", |binding| subjects(binding, "User"), "Users who get the role.").wide(),
        computed("Groups", |binding| subjects(binding, "Group"), "Groups whose members get the role.").wide(),
        computed(
            "ServiceAccounts",
            |binding| subjects(binding, "ServiceAccount"),
            "Service accounts that get the role.",
        )
        .wide(),
    ];

    fn role(binding: &Value) -> Value {
        let role = binding.field("roleRef");
        format!("{}/{}", role.text("kind"), role.text("name")).into()
    }

    fn subjects(binding: &Value, kind: &str) -> Value {
        let subjects = binding.items("subjects").iter().filter(|subject| subject.text("kind") == kind);
        let name = |subject: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        };
        subjects.map(name).collect::<Vec<_>>().join(", ").into()
    }
}
