//! `PriorityClass`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{Generation, Strategy},
    validation::form::{immutable, named},
};

pub const STRATEGY: Strategy = Strategy {
    default,
    validate,
    validate_update,
    generation: Generation::Tracks(&[]),
    columns: columns::COLUMNS,
    ..Strategy::of("scheduling.k8s.io", "PriorityClass")
};

/// The highest value users may give.
pub const MAX_USER_PRIORITY: i64 = 1_000_000_000;

/// Names with this prefix belong to the system.
pub const SYSTEM_PREFIX: &str = "system-";

/// The classes the system has, none of them the default.
pub const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Why another class cannot be the default: one of `others` is. Said in a 403.
pub fn default_conflict<'a>(class: &Value, others: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let name = |class: &'a Value| class.field("metadata").text("name");
    let is_other = |other: &&Value| {
        other.flag("globalDefault")
            && other.field("metadata").text("name") != class.field("metadata").text("name")
    };
    let other = others.into_iter().find(is_other).filter(|_| class.flag("globalDefault"))?;
    Some(format!("PriorityClass {} is already marked as default. Only one default can exist", name(other)))
}

/// Why a class cannot be deleted. Said in a 403.
pub fn undeletable(name: &str) -> Option<&'static str> {
    let system = SYSTEM_CLASSES.iter().any(|(known, _)| *known == name);
    system.then_some("this is a system priority class and cannot be deleted")
}

fn default(class: &mut Value) {
    class.default_field("preemptionPolicy", "PreemptLowerPriority");
}

fn validate(class: &Value, errors: &mut Errors) {
    let name = class.field("metadata").text("name");
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(problem) = difference_from_system_class(class, name) {
            errors.forbidden(
                Path::new("metadata").child("name"),
                &format!("priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"),
            );
        }
    } else if class.int("value").unwrap_or_default() > MAX_USER_PRIORITY {
        errors.forbidden(
            Path::new("value"),
            &format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"),
        );
    }
    if let Some(policy) = class.get_field("preemptionPolicy") {
        let policy = policy.as_str().unwrap_or_default();
        if !matches!(policy, "PreemptLowerPriority" | "Never") {
            errors.not_supported(
                Path::new("preemptionPolicy"),
                named(policy),
                &["PreemptLowerPriority", "Never"],
            );
        }
    }
}

fn difference_from_system_class(class: &Value, name: &str) -> Option<String> {
    let Some((_, value)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.int("value").unwrap_or_default() != *value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    class.flag("globalDefault").then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn validate_update(class: &Value, old: &Value, errors: &mut Errors) {
    if class.int("value").unwrap_or_default() != old.int("value").unwrap_or_default() {
        errors.forbidden(Path::new("value"), "may not be changed in an update.");
    }
    immutable(class, old, "preemptionPolicy", Path::new("preemptionPolicy"), errors);
}

/// What `kubectl get` shows.
mod columns {
    use crate::table::{AGE, Cell, Column, NAME, flag, integer, text};

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        integer("Value", "/value", "The priority that pods of the class get."),
        flag(
            "Global-Default",
            Cell::Flag("/globalDefault", false),
            "Whether pods that name no class get this one.",
        ),
        AGE,
        text("PreemptionPolicy", "/preemptionPolicy", "Whether pods of the class may push out others."),
    ];
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_one_class_is_the_default() {
        let class = |name: &str, default: bool| json!({"metadata": {"name": name}, "globalDefault": default});
        let others = [class("a", false), class("b", true)];
        assert_eq!(
            default_conflict(&class("c", true), &others).as_deref(),
            Some("PriorityClass b is already marked as default. Only one default can exist")
        );
        assert_eq!(default_conflict(&class("c", false), &others), None);
        assert_eq!(default_conflict(&class("b", true), &others), None);
        assert!(undeletable("system-node-critical").is_some() && undeletable("b").is_none());
    }
}
