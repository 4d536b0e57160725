//! Who may use a name: conditions `NamesAccepted` and `Established`.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{definition::Names, validate::CheckBundle};
use sternpost_golang::strconv::go_quote;

/// What becomes of a definition's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub accepted: Names,
    pub names_accepted: Condition,
    pub established: Condition,
    /// Of a definition in a group that is protected.
    pub approved: Option<Condition>,
}

/// A condition without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub status: bool,
    pub reason: String,
    pub message: String,
}

/// What is to be known of a definition to decide on its names. Read from JSON without the rest of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Outline {
    pub metadata: OutlineMetadata,
    pub spec: OutlineSpec,
    pub status: OutlineStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutlineMetadata {
    pub uid: String,
    pub deletion_timestamp: Option<String>,
    annotations: Option<HashMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OutlineSpec {
    group: String,
    pub names: Names,
    conversion: Option<OutlineConversion>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct OutlineConversion {
    webhook: Option<OutlineWebhook>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OutlineWebhook {
    client_config: Option<OutlineClientConfig>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OutlineClientConfig {
    ca_bundle: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutlineStatus {
    pub accepted_names: Names,
    conditions: Option<Vec<OutlineCondition>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct OutlineCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

impl Outline {
    /// Of a definition that was typed; anything else has an empty one.
    pub fn of(crd: &Value) -> Self {
        Self::deserialize(crd).unwrap_or_default()
    }

    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn has(&self, condition: &Condition) -> bool {
        let status = if condition.status { "True" } else { "False" };
        self.status.conditions.iter().flatten().any(|found| {
            (found.kind.as_str(), found.status.as_str()) == (condition.kind, status)
                && (&found.reason, &found.message) == (&condition.reason, &condition.message)
        })
    }

    /// The certificates of its conversion webhook, in base64.
    fn ca_bundle(&self) -> Option<&str> {
        let webhook = self.spec.conversion.as_ref()?.webhook.as_ref()?;
        let bundle = webhook.client_config.as_ref()?.ca_bundle.as_deref()?;
        Some(bundle).filter(|bundle| !bundle.is_empty())
    }

    fn is_established(&self) -> bool {
        let conditions = self.status.conditions.iter().flatten();
        conditions.into_iter().any(|found| found.kind == "Established" && found.status == "True")
    }
}

/// Decides on the names of a definition, given those that definitions of its group have, itself
/// included.
///
/// Names that are taken stay with who has them; the others are accepted one by one. Once
/// established, a definition remains so. Repeat until nothing changes: what was accepted
/// counts in the next round, as upstream does it.
pub fn decide(crd: &Outline, taken: &Taken, bundle: CheckBundle) -> Verdict {
    let (wanted, current) = (&crd.spec.names, &crd.status.accepted_names);
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
        let own: HashSet<&String> = current.short_names.iter().collect();
        let problems: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !own.contains(name) && taken.resources.contains_key(*name))
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
    accepted.categories = wanted.categories.clone();

    let good = conflict.is_none();
    let (reason, message) =
        conflict.map_or(("NoConflicts", "no conflicts found".to_owned()), |conflict| conflict);
    // Certificates that turn bad later are refused when they are written.
    let has_bad_bundle = || crd.ca_bundle().is_some_and(|given| bundle(given).is_err());
    let (established, why, text) = if crd.is_established() || (good && !has_bad_bundle()) {
        (true, "InitialNamesAccepted", "the initial names have been accepted")
    } else if good {
        (false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        (false, "NotAccepted", "not all names are accepted")
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
        approved: approval(crd),
    }
}

impl Verdict {
    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        [&self.names_accepted, &self.established].into_iter().chain(&self.approved)
    }

    /// Whether a definition says all this already.
    pub fn is_told_by(&self, crd: &Outline) -> bool {
        crd.status.accepted_names == self.accepted && self.conditions().all(|condition| crd.has(condition))
    }

    /// Writes the verdict into a definition's status. `now` is the time of conditions that changed.
    pub fn apply(&self, crd: &mut Value, now: &str) {
        let Value::Object(fields) = crd else { return };
        let status = fields.entry("status").or_insert_with(|| json!({}));
        let Value::Object(status) = status else { return };
        status.insert("acceptedNames".into(), self.accepted.to_json());
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        if let Value::Array(conditions) = conditions {
            for condition in self.conditions() {
                set_condition(conditions, condition, now);
            }
        }
    }
}

/// Whether a definition of a protected group has been approved; none of any other.
fn approval(crd: &Outline) -> Option<Condition> {
    let group = &crd.spec.group;
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !protected {
        return None;
    }
    let annotations = crd.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get("api-approved.kubernetes.io"));
    let annotation = annotation.map(String::as_str).unwrap_or_default();
    let (status, reason, message) = if annotation.starts_with("unapproved") {
        (false, "UnapprovedAnnotation", format!("not approved: {}", go_quote(annotation)))
    } else {
        (true, "ApprovedAnnotation", format!("approved in {annotation}"))
    };
    Some(Condition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason: reason.into(), message })
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

/// The names that are in use in a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Plurals, singulars and short names, and how many definitions have each.
    resources: HashMap<String, usize>,
    /// Kinds and kinds of lists.
    kinds: HashMap<String, usize>,
}

impl Taken {
    /// The names that were accepted of some definitions.
    pub fn of<'a>(definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut taken = Self::default();
        for crd in definitions {
            taken.add(&Names::read(crd.pointer("/status/acceptedNames").unwrap_or(&Value::Null)));
        }
        taken
    }

    pub fn add(&mut self, names: &Names) {
        let count = |all: &mut HashMap<String, usize>, name: &str| {
            if !name.is_empty() {
                *all.entry(name.to_owned()).or_default() += 1;
            }
        };
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        resources.for_each(|name| count(&mut self.resources, name));
        [&names.kind, &names.list_kind].into_iter().for_each(|name| count(&mut self.kinds, name));
    }

    /// Undoes [`Taken::add`].
    pub fn remove(&mut self, names: &Names) {
        let forget = |all: &mut HashMap<String, usize>, name: &str| {
            if let Some(count) = all.get_mut(name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    all.remove(name);
                }
            }
        };
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        resources.for_each(|name| forget(&mut self.resources, name));
        [&names.kind, &names.list_kind].into_iter().for_each(|name| forget(&mut self.kinds, name));
    }

    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.kinds.is_empty()
    }
}

/// Lets go of the current name for one that is free; false if it is not.
fn gives(taken: &HashMap<String, usize>, wanted: &str, current: &mut String) -> bool {
    let free = wanted == current || !taken.contains_key(wanted);
    if free {
        *current = wanted.to_owned();
    }
    free
}

fn in_use(name: &str) -> String {
    format!("\"{name}\" is already in use")
}
