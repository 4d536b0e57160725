//! The annotation of client-side apply, while `kubectl` moves to the server.

use serde_json::{Map, Value};
use sternpost_golang::json::go_json;
use sternpost_schema::topology::Type;

use crate::{
    set::Set,
    typed::{self, Duplicates},
};

/// Only this manager is moved.
pub(crate) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together, names and values.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Fields that the annotation of `live` has and that are still as it has them.
pub(crate) fn allowed(kind: &Type, live: &Value) -> Set {
    let last_applied =
        || -> Option<Value> { serde_json::from_str(annotations(live)?.get(ANNOTATION)?.as_str()?).ok() };
    let Some(last_applied) = last_applied() else { return Set::new() };
    let fields = || -> Result<Set, typed::Misfit> {
        typed::validate(kind, &last_applied, Duplicates::Forbidden)?;
        let changed = typed::compare(kind, &last_applied, live)?;
        Ok(typed::field_set(kind, &last_applied)?
            .difference(&changed.modified)
            .difference(&changed.added)
            .difference(&changed.removed))
    };
    fields().unwrap_or_default()
}

/// What the annotation says after this configuration was applied.
pub(crate) fn annotation(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let mut text = go_json(&config);
    text.push('\n');
    text
}

/// Writes the annotation of an object that has one already. Says whether it changed.
pub(crate) fn rewrite(object: &mut Value, text: String) -> bool {
    let Some(annotations) = annotations_mut(object) else { return false };
    let others: usize = annotations
        .iter()
        .filter(|(name, _)| *name != ANNOTATION)
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    match annotations.get_mut(ANNOTATION) {
        Some(Value::String(known)) if !known.is_empty() => {
            if others + ANNOTATION.len() + text.len() > MAX_ANNOTATIONS {
                annotations.remove(ANNOTATION);
                true
            } else if *known == text {
                false
            } else {
                *known = text;
                true
            }
        }
        _ => false,
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
