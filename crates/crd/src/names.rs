//! Who may use a name: conditions `NamesAccepted` and `Established`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::definition::{Names, condition_is_true};

/// What becomes of a definition's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub accepted: Names,
    pub names_accepted: Condition,
    pub established: Condition,
}

/// A condition without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub status: bool,
    pub reason: String,
    pub message: String,
}

/// Decides on the names of a definition, given all definitions of its group, itself included.
///
/// Names that are taken stay with who has them; the others are accepted one by one. Once
/// established, a definition remains so. Repeat until nothing changes: what was accepted
/// counts in the next round, as upstream does it.
pub fn decide<'a>(crd: &Value, group: impl IntoIterator<Item = &'a Value>) -> Verdict {
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let status = crd.get("status").unwrap_or(&Value::Null);
    let wanted = Names::read(spec.get("names").unwrap_or(&Value::Null));
    let current = Names::read(status.get("acceptedNames").unwrap_or(&Value::Null));
    let taken = Taken::of(group);
    let mut accepted = current.clone();
    // The last conflict is the one that is told.
    let mut conflict: Option<(&str, String)> = None;

    if !gives(&taken.resources, &wanted.plural, &mut accepted.plural) {
        conflict = Some(("PluralConflict", in_use(&wanted.plural)));
    }
    if !gives(&taken.resources, &wanted.singular, &mut accepted.singular) {
        conflict = Some(("SingularConflict", in_use(&wanted.singular)));
    }
    if wanted.short_names != current.short_names {
        let problems: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !current.short_names.contains(name) && taken.resources.contains(*name))
            .map(|name| in_use(name))
            .collect();
        match problems.as_slice() {
            [] => accepted.short_names = wanted.short_names.clone(),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
    if !gives(&taken.kinds, &wanted.kind, &mut accepted.kind) {
        conflict = Some(("KindConflict", in_use(&wanted.kind)));
    }
    if !gives(&taken.kinds, &wanted.list_kind, &mut accepted.list_kind) {
        conflict = Some(("ListKindConflict", in_use(&wanted.list_kind)));
    }
    accepted.categories = wanted.categories;

    let good = conflict.is_none();
    let (reason, message) =
        conflict.map_or(("NoConflicts", "no conflicts found".to_owned()), |conflict| conflict);
    let established = good || condition_is_true(status, "Established");
    let (why, text) = if established {
        ("InitialNamesAccepted", "the initial names have been accepted")
    } else {
        ("NotAccepted", "not all names are accepted")
    };
    Verdict {
        accepted,
        names_accepted: Condition { kind: "NamesAccepted", status: good, reason: reason.into(), message },
        established: Condition {
            kind: "Established",
            status: established,
            reason: why.into(),
            message: text.into(),
        },
    }
}

impl Verdict {
    /// Writes the verdict into a definition's status; true if anything changed. `now` is the time
    /// of conditions that changed.
    pub fn apply(&self, crd: &mut Value, now: &str) -> bool {
        let Value::Object(fields) = crd else { return false };
        let status = fields.entry("status").or_insert_with(|| json!({}));
        let before = status.clone();
        let Value::Object(status) = status else { return false };
        status.insert("acceptedNames".into(), self.accepted.to_json());
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        if let Value::Array(conditions) = conditions {
            for condition in [&self.names_accepted, &self.established] {
                set_condition(conditions, condition, now);
            }
        }
        fields.get("status") != Some(&before)
    }
}

/// Sets one condition of a list; its time changes only with its status.
pub fn set_condition(conditions: &mut Vec<Value>, condition: &Condition, now: &str) {
    let status = if condition.status { "True" } else { "False" };
    let of_kind = |found: &&mut Value| found.get("type").and_then(Value::as_str) == Some(condition.kind);
    let mut fresh = json!({
        "type": condition.kind,
        "status": status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(of_kind) {
        None => conditions.push(fresh),
        Some(old) => {
            let same_status = old.get("status") == fresh.get("status");
            if let (true, Some(time), Value::Object(fields)) =
                (same_status, old.get("lastTransitionTime"), &mut fresh)
            {
                fields.insert("lastTransitionTime".into(), time.clone());
            }
            *old = fresh;
        }
    }
}

struct Taken {
    /// Plurals, singulars and short names.
    resources: HashSet<String>,
    /// Kinds and kinds of lists.
    kinds: HashSet<String>,
}

impl Taken {
    fn of<'a>(group: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut taken = Self { resources: HashSet::new(), kinds: HashSet::new() };
        for crd in group {
            let names = Names::read(crd.pointer("/status/acceptedNames").unwrap_or(&Value::Null));
            taken.resources.extend([names.plural, names.singular]);
            taken.resources.extend(names.short_names);
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }
}

/// Lets go of the current name for one that is free; false if it is not.
fn gives(taken: &HashSet<String>, wanted: &str, current: &mut String) -> bool {
    let free = wanted == current || !taken.contains(wanted);
    if free {
        *current = wanted.to_owned();
    }
    free
}

fn in_use(name: &str) -> String {
    format!("\"{name}\" is already in use")
}
