//! A custom resource definition as its published schema would show it.

use std::sync::Arc;

use serde_json::{Value, json};
use sternpost_meta::gvk::GroupVersion;
use sternpost_schema::{
    Schema, Type,
    read::{self, Path, ReadError},
    write::Dialect,
};

use super::{Definitions, Subject, names::Names};
use crate::custom;

/// One subject for each served version.
pub fn subjects(crd: &Value) -> Result<Vec<(Names, Subject)>, ReadError> {
    let mut path = Path::default();
    let spec = path.at("spec", |path| {
        let spec = crd.get("spec").unwrap_or(&Value::Null);
        read::object(spec, path).map(|_| spec)
    })?;
    let text = |json: &Value, key: &str| json.get(key).and_then(Value::as_str).map(Arc::<str>::from);
    let names = spec.get("names").unwrap_or(&Value::Null);
    let missing = |what: &str| Path::default().error(read::Problem::Other(format!("`{what}` is missing")));
    let group = text(spec, "group").ok_or_else(|| missing("spec.group"))?;
    let kind = text(names, "kind").ok_or_else(|| missing("spec.names.kind"))?;
    let plural = text(names, "plural").ok_or_else(|| missing("spec.names.plural"))?;
    let singular = text(names, "singular").unwrap_or_else(|| kind.to_lowercase().into());
    let shorts = names.get("shortNames").and_then(Value::as_array);
    let short_names: Vec<Arc<str>> =
        shorts.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect();

    let mut subjects = Vec::new();
    // v1beta1 could say version and schema once, for all.
    let only = spec.get("version").map(|name| vec![json!({"name": name})]).unwrap_or_default();
    let versions = spec.get("versions").and_then(Value::as_array).unwrap_or(&only);
    if versions.is_empty() {
        return Err(missing("spec.versions"));
    }
    for (index, version) in versions.iter().enumerate() {
        if version.get("served").and_then(Value::as_bool) == Some(false) {
            continue;
        }
        let index = index.to_string();
        let name = text(version, "name").ok_or_else(|| missing(&format!("spec.versions.{index}.name")))?;
        let own = version.pointer("/schema/openAPIV3Schema");
        let shared = spec.pointer("/validation/openAPIV3Schema");
        let schema = match (own, shared) {
            (Some(own), _) => schema_at(own, &["spec", "versions", &index, "schema", "openAPIV3Schema"])?,
            (None, Some(shared)) => schema_at(shared, &["spec", "validation", "openAPIV3Schema"])?,
            (None, None) => Schema::of(Type::Object),
        };
        let gv = GroupVersion::new(group.clone(), name);
        let subject = Subject {
            gvk: gv.kind(kind.clone()),
            schema: Arc::new(schema),
            definitions: Definitions::BuiltIn,
        };
        let names = Names {
            gv,
            kind: kind.clone(),
            plural: plural.clone(),
            singular: singular.clone(),
            short_names: short_names.clone(),
        };
        subjects.push((names, subject));
    }
    Ok(subjects)
}

/// As publishing shows it.
fn schema_at(json: &Value, steps: &[&str]) -> Result<Schema, ReadError> {
    read_at(json, &mut Path::default(), steps).map(custom::published)
}

fn read_at(json: &Value, path: &mut Path, steps: &[&str]) -> Result<Schema, ReadError> {
    match steps {
        [] => read::schema_at(json, Dialect::V3, path),
        [first, rest @ ..] => path.at(first, |path| read_at(json, path, rest)),
    }
}
