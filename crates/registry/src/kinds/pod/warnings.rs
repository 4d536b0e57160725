//! What the author of a pod should know, though nothing is wrong.

use serde_json::Value;
use sternpost_meta::format::dns_label;

use crate::{object::Fields, validation::pod_warnings};

/// Only on creation: later it is mostly controllers that write to pods.
pub fn warnings(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = hostname(pod.field("metadata").text("name")).into_iter().collect();
    warnings.extend(pod_warnings::of_pod(pod));
    warnings
}

/// The name becomes the host name, which is a label.
fn hostname(name: &str) -> Option<String> {
    let problems = dns_label(name);
    (!name.is_empty() && !problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_pods_are_warned_about_in_order() {
        let pod = json!({
            "metadata": {"name": "a.b"},
            "spec": {"containers": [{"name": "c"}], "nodeSelector": {"beta.kubernetes.io/arch": "x"}},
        });
        assert_eq!(
            warnings(&pod, None),
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            ]
        );
        assert_eq!(warnings(&pod, Some(&pod)), Vec::<String>::new());
    }
}
