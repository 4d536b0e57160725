//! ClusterRoleBinding: a RoleBinding that knows only ClusterRoles.

use super::{
    role::{self, Scope},
    role_binding,
};
use crate::{
    escalation,
    strategy::{MetadataCheck, Strategy},
};

pub const STRATEGY: Strategy = Strategy {
    default: role_binding::default,
    validate: |binding, errors| role_binding::validate(binding, Scope::Cluster, errors),
    validate_update: |new, old, errors| role_binding::validate_update(new, old, Scope::Cluster, errors),
    create_on_update: true,
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    name: role::NAME,
    columns: role_binding::STRATEGY.columns,
    authorize: escalation::check_binding,
    ..Strategy::of("rbac.authorization.k8s.io", "ClusterRoleBinding")
};
