//! Raw requests: the OpenAPI documents, compressed and not.

use std::collections::BTreeSet;

use http::Request;
use kube::Client;
use serde_json::Value;

use crate::{checks::Checks, recorded::Row};

pub async fn check(checks: &mut Checks, client: &Client, plain: &Client, rows: &[Row], keys: &[String]) {
    let Some(root) = get(checks, client, "/openapi/v3").await else { return };
    let Some(paths) = root.get("paths").and_then(Value::as_object) else {
        checks.check(false, || "/openapi/v3 has no `paths`".into());
        return;
    };
    checks.same_lines("openapi-v3-keys.txt", &paths.keys().cloned().collect::<Vec<_>>(), keys);

    for (key, group_version) in [("api/v1", "v1"), ("apis/apps/v1", "apps/v1")] {
        let url = paths.get(key).and_then(|path| path.get("serverRelativeURL")).and_then(Value::as_str);
        checks.check(url.is_some(), || format!("/openapi/v3 has no URL for {key}"));
        let Some(url) = url else { continue };
        let Some(document) = get(checks, client, url).await else { continue };
        if let Some(uncompressed) = get(checks, plain, url).await {
            checks.check(uncompressed == document, || format!("{key} differs when it is not compressed"));
        }
        let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
        checks.check(version.starts_with("3."), || format!("{key} is of OpenAPI version {version:?}"));
        let schemas = document.pointer("/components/schemas");
        kinds(checks, key, schemas, rows.iter().filter(|row| row.group_version == group_version));
    }

    if let Some(document) = get(checks, client, "/openapi/v2").await {
        checks.equal("/openapi/v2", document.get("swagger").and_then(Value::as_str), Some("2.0"));
        kinds(checks, "/openapi/v2", document.get("definitions"), rows.iter());
    }
}

async fn get(checks: &mut Checks, client: &Client, url: &str) -> Option<Value> {
    let request = checks.ok(url, Request::get(url).body(Vec::new()))?;
    checks.ok(url, client.request::<Value>(request).await)
}

/// Every resource's kind has a schema, whatever its name.
fn kinds<'a>(checks: &mut Checks, what: &str, schemas: Option<&Value>, rows: impl Iterator<Item = &'a Row>) {
    let defined: BTreeSet<(&str, &str, &str)> = schemas
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|schemas| schemas.values())
        .filter_map(|schema| schema.get("x-kubernetes-group-version-kind")?.as_array())
        .flatten()
        .map(|gvk| (text(gvk, "group"), text(gvk, "version"), text(gvk, "kind")))
        .collect();
    for row in rows.filter(|row| !row.is_subresource()) {
        let gvk = (row.group.as_str(), row.version.as_str(), row.kind.as_str());
        checks.check(defined.contains(&gvk), || format!("{what} has no schema of {gvk:?}"));
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
