//! `crds`: files of OpenAPI definitions whose extensions say which fields of a
//! kind are names, labels, annotations and references.

use std::collections::HashSet;

use serde_json::{Map, Value};
use sternpost_golang::json::json_type;

use super::{NameReference, Tables};
use crate::error::{Error, Result};
use crate::field_spec::FieldSpec;
use crate::id::GvkPattern;
use crate::loader::Loader;

const ANNOTATION: &str = "x-kubernetes-annotation";
const LABEL_SELECTOR: &str = "x-kubernetes-label-selector";
const IDENTITY: &str = "x-kubernetes-identity";
const REFERENCE_KIND: &str = "x-kubernetes-object-ref-kind";
const REFERENCE_VERSION: &str = "x-kubernetes-object-ref-api-version";
const REFERENCE_NAME_KEY: &str = "x-kubernetes-object-ref-name-key";

pub(crate) fn read(loader: &Loader<'_>, paths: &[String]) -> Result<Tables> {
    let mut tables = Tables::default();
    for path in paths {
        let text = loader.load_text(path)?;
        let problem =
            |reason: &str| Error::new(format!("unable to parse open API definition from '{path}': {reason}"));
        let value = if text.trim_start().starts_with('{') {
            serde_json::from_str(&text).map_err(|error| match error.classify() {
                serde_json::error::Category::Eof => problem("unexpected end of JSON input"),
                _ => problem(&error.to_string()),
            })?
        } else {
            super::json_of(&text).map_err(|error| problem(&error.to_string()))?
        };
        let unmarshalling = |found: &Value, wanted: &str| {
            let message =
                format!("json: cannot unmarshal {} into Go value of type {wanted}", json_type(found));
            problem(&super::unmarshalling(message).to_string())
        };
        let Value::Object(definitions) = value else {
            return Err(unmarshalling(&value, "accumulator.nameToApiMap"));
        };
        if let Some((_, wrong)) = definitions.iter().find(|(_, definition)| !definition.is_object()) {
            return Err(unmarshalling(wrong, "accumulator.OpenAPIDefinition"));
        }
        for name in definitions.keys() {
            let Some(properties) = properties(&definitions, name) else { continue };
            if ["kind", "apiVersion", "metadata"].iter().all(|field| properties.contains_key(*field)) {
                let kind = name.rsplit('.').next().unwrap_or(name);
                let gvk = GvkPattern { kind: kind.to_owned(), ..GvkPattern::default() };
                let mut walk =
                    Walk { definitions: &definitions, gvk, tables: &mut tables, open: HashSet::new() };
                walk.properties(name, &[]);
            }
        }
    }
    Ok(tables)
}

fn properties<'d>(definitions: &'d Map<String, Value>, name: &str) -> Option<&'d Map<String, Value>> {
    let schema = definitions.get(name)?.get("Schema").or_else(|| definitions.get(name)?.get("schema"))?;
    schema.get("properties")?.as_object()
}

struct Walk<'d> {
    definitions: &'d Map<String, Value>,
    gvk: GvkPattern,
    tables: &'d mut Tables,
    /// Types on the way here, so that one that holds itself ends.
    open: HashSet<&'d str>,
}

impl<'d> Walk<'d> {
    fn properties(&mut self, name: &'d str, path: &[&'d str]) {
        if !self.open.insert(name) {
            return;
        }
        for (field, schema) in properties(self.definitions, name).into_iter().flatten() {
            let path: Vec<&str> = path.iter().copied().chain([field.as_str()]).collect();
            self.property(schema, &path);
            let reference = schema.get("$ref").or_else(|| schema.get("items")?.get("$ref"));
            if let Some(inner) = reference.and_then(Value::as_str) {
                self.properties(inner, &path);
            }
        }
        self.open.remove(name);
    }

    fn property(&mut self, schema: &Value, path: &[&str]) {
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let path = path.join("/");
        let spec = |path: &str| FieldSpec::new(self.gvk.clone(), path, false);
        if schema.get(ANNOTATION).is_some() {
            self.tables.common_annotations.push(spec(&path));
        }
        if schema.get(LABEL_SELECTOR).is_some() {
            self.tables.common_labels.push(spec(&path));
        }
        if schema.get(IDENTITY).is_some() {
            self.tables.name_prefix.push(spec(&path));
        }
        if let (Some(kind), Some(version)) = (text(REFERENCE_KIND), text(REFERENCE_VERSION)) {
            let key = text(REFERENCE_NAME_KEY).unwrap_or("name");
            let (group, version) = sternpost_meta::gvk::GroupVersion::split(version);
            self.tables.name_reference.push(NameReference {
                target: GvkPattern {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    kind: kind.to_owned(),
                },
                referrers: vec![spec(&format!("{path}/{key}"))],
            });
        }
    }
}
