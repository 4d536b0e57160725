//! Role bindings.

use serde_json::Value;

use super::{AGE, Column, NAME, computed};
use crate::object::Fields;

pub(super) static BINDING: &[Column] = &[
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
