//! CustomResourceDefinitions between `v1`, in which they are served, and `v1beta1`, in which kube-apiserver stores
//! them: what all versions have in common stands once, and the webhook of a conversion has no level of its own.

use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// What may stand with each version or once for all; as versions and as the definition name it.
const COMMON: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The path of a column, as `v1` and as `v1beta1` name it.
const PATH: (&str, &str) = ("jsonPath", "JSONPath");

pub fn to_v1beta1(mut definition: Fields) -> Fields {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return definition };
    let mut once = Fields::new();
    if let Some(versions) = spec.get_mut("versions").and_then(Value::as_array_mut) {
        if let Some(first) = versions.first() {
            once.insert("version".to_owned(), first.get("name").cloned().unwrap_or_default());
        }
        for (of_version, of_all) in COMMON {
            let first = versions.first().and_then(|version| version.get(of_version)).cloned();
            if versions.iter().any(|version| version.get(of_version) != first.as_ref()) {
                continue;
            }
            versions.iter_mut().filter_map(Value::as_object_mut).for_each(|version| {
                version.remove(of_version);
            });
            once.extend(first.map(|first| (of_all.to_owned(), first)));
        }
    }
    spec.extend(once);
    rename_paths(spec, PATH);
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(Value::Object(mut webhook)) = conversion.remove("webhook")
    {
        let reviews = webhook.remove("conversionReviewVersions");
        conversion
            .extend(webhook.remove("clientConfig").map(|config| ("webhookClientConfig".to_owned(), config)));
        conversion.extend(reviews.map(|reviews| ("conversionReviewVersions".to_owned(), reviews)));
    }
    // `false` is set here, and not the same as unset: without it a `v1beta1` keeps unknown fields.
    spec.entry("preserveUnknownFields").or_insert(json!(false));
    definition
}

pub fn from_v1beta1(mut definition: Fields) -> Fields {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return definition };
    rename_paths(spec, (PATH.1, PATH.0));
    if let Some(version) = spec.remove("version")
        && spec.get("versions").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        spec.insert("versions".to_owned(), json!([{"name": version, "served": true, "storage": true}]));
    }
    for (of_version, of_all) in COMMON {
        let Some(common) = spec.remove(of_all) else { continue };
        let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
        for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
            version.insert(of_version.to_owned(), common.clone());
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let config = conversion.remove("webhookClientConfig");
        let reviews = conversion.remove("conversionReviewVersions");
        if config.is_some() || reviews.is_some() {
            let mut webhook = Fields::new();
            webhook.extend(config.map(|config| ("clientConfig".to_owned(), config)));
            webhook.insert("conversionReviewVersions".to_owned(), reviews.unwrap_or_default());
            conversion.insert("webhook".to_owned(), Value::Object(webhook));
        }
    }
    if spec.get("preserveUnknownFields") == Some(&json!(false)) {
        spec.remove("preserveUnknownFields");
    }
    definition
}

/// In the columns of the definition and of its versions.
fn rename_paths(spec: &mut Fields, (from, to): (&str, &str)) {
    rename_in_columns(spec, (from, to));
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        rename_in_columns(version, (from, to));
    }
}

fn rename_in_columns(fields: &mut Fields, (from, to): (&str, &str)) {
    let columns = fields.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to.to_owned(), path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(v1: &Value, v1beta1: &Value) {
        let fields = |spec: &Value| Fields::from_iter([("spec".to_owned(), spec.clone())]);
        assert_eq!(to_v1beta1(fields(v1)), fields(v1beta1));
        assert_eq!(from_v1beta1(fields(v1beta1)), fields(v1));
    }

    #[test]
    fn what_all_versions_have_stands_once() {
        let column = |name: &str| json!([{"name": "C", name: ".x"}]);
        check(
            &json!({"versions": [{"name": "v1", "schema": {"a": 1}, "additionalPrinterColumns": column("jsonPath")}]}),
            &json!({"version": "v1", "versions": [{"name": "v1"}], "validation": {"a": 1},
                "additionalPrinterColumns": column("JSONPath"), "preserveUnknownFields": false}),
        );
        check(
            &json!({"versions": [{"name": "v2", "schema": {"a": 1}, "subresources": {"status": {}}},
                {"name": "v1", "additionalPrinterColumns": column("jsonPath"), "schema": {"a": 2}, "subresources": {"status": {}}}]}),
            &json!({"version": "v2", "versions": [{"name": "v2", "schema": {"a": 1}},
                {"name": "v1", "additionalPrinterColumns": column("JSONPath"), "schema": {"a": 2}}],
                "subresources": {"status": {}}, "preserveUnknownFields": false}),
        );
    }

    #[test]
    fn the_webhook_of_a_conversion_has_no_level_of_its_own() {
        check(
            &json!({"versions": [], "conversion": {"strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "u"}, "conversionReviewVersions": ["v1"]}}}),
            &json!({"versions": [], "preserveUnknownFields": false, "conversion": {"strategy": "Webhook",
                "webhookClientConfig": {"url": "u"}, "conversionReviewVersions": ["v1"]}}),
        );
        check(
            &json!({"versions": [], "conversion": {"strategy": "None"}, "preserveUnknownFields": true}),
            &json!({"versions": [], "conversion": {"strategy": "None"}, "preserveUnknownFields": true}),
        );
    }

    #[test]
    fn the_oldest_definitions_have_one_version_and_no_list() {
        let old = Fields::from_iter([("spec".to_owned(), json!({"version": "v1", "validation": {"a": 1}}))]);
        let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"a": 1}}]);
        assert_eq!(from_v1beta1(old)["spec"], json!({"versions": versions}));
    }
}
