//! Labels of nodes that have newer names, and what to say about the old ones.

use serde_json::Value;
use sternpost_meta::field::Path;

use crate::object::Fields;

/// Old name, since when, new name.
pub const DEPRECATED: [(&str, &str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
];

/// `deprecated since v1.17; use "…" instead`, for an old name.
pub fn advice(label: &str) -> Option<String> {
    let (_, since, newer) = DEPRECATED.iter().find(|(old, _, _)| *old == label)?;
    Some(format!("deprecated since {since}; use \"{newer}\" instead"))
}

/// Warnings for the expressions of the terms of a node selector at `path`.
pub fn warn_node_selector(selector: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let list = path.child("nodeSelectorTerms");
    for (index, term) in selector.items("nodeSelectorTerms").iter().enumerate() {
        warn_expressions(term, &list.index(index), warnings);
    }
}

/// Warnings for a label selector at `path`.
pub fn warn_label_selector(selector: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    warn_expressions(selector, path, warnings);
    for (label, _) in selector.entries("matchLabels") {
        if let Some(advice) = advice(label) {
            warnings.push(format!("{}: {advice}", path.child("matchLabels").child(label)));
        }
    }
}

fn warn_expressions(holder: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let list = path.child("matchExpressions");
    for (index, expression) in holder.items("matchExpressions").iter().enumerate() {
        let label = expression.text("key");
        if let Some(advice) = advice(label) {
            warnings.push(format!("{}: {label} is {advice}", list.index(index).child("key")));
        }
    }
}
