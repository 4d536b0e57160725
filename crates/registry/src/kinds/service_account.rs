//! `ServiceAccount`

use serde_json::{Map, Value};

use crate::{
    object::{Fields, FieldsMut},
    strategy::{Action, DeleteAnswer, MetadataCheck, Strategy, Subresource},
    table,
};

pub const STRATEGY: Strategy = Strategy {
    prepare_create: keep_only_names,
    prepare_update: |object, _| keep_only_names(object),
    warnings,
    delete_answer: DeleteAnswer::Object,
    checks_again: &[MetadataCheck::Changed, MetadataCheck::Written],
    columns: table::NAME_AND_AGE,
    subresources: &[Subresource::other("token", Action::Token)],
    ..Strategy::of("", "ServiceAccount")
};

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// References to secrets are of the account's own namespace: nothing but the name is kept.
fn keep_only_names(object: &mut Value) {
    for reference in object.items_mut("secrets") {
        let name = reference.get_field("name").cloned();
        *reference = Value::Object(Map::from_iter(name.map(|name| ("name".to_owned(), name))));
    }
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let has = |object: &Value| object.field("metadata").field("annotations").has(MOUNTABLE_SECRETS);
    let text = || {
        format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )
    };
    let added = has(object) && !old.is_some_and(has);
    added.then(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_deprecated_annotation_is_warned_of_once() {
        let with = json!({"metadata": {"annotations": {MOUNTABLE_SECRETS: "true"}}});
        let without = json!({"metadata": {}});
        for (object, old, expected) in
            [(&with, None, 1), (&with, Some(&without), 1), (&with, Some(&with), 0), (&without, None, 0)]
        {
            assert_eq!(warnings(object, old).len(), expected);
        }
    }
}
