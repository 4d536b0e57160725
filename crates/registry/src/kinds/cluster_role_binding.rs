//! ClusterRoleBinding: a RoleBinding that knows only ClusterRoles.

use super::{Rules, role::Scope, role_binding};

pub const RULES: Rules = Rules {
    default: role_binding::default,
    validate: |binding, errors| role_binding::validate(binding, Scope::Cluster, errors),
    validate_update: |new, old, errors| role_binding::validate_update(new, old, Scope::Cluster, errors),
    ..Rules::NONE
};
