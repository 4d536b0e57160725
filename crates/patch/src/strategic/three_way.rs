//! The patch of `kubectl apply`: from what was applied before, what is to be
//! applied now, and what there is.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sternpost_schema::topology::{PatchStrategy, Type};

use super::{
    Error, PATCH,
    diff::{Wanted, diff_maps},
    fields,
    merge::{Into, merge},
};

/// Whether the patch may undo what others have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    Allowed,
    /// Then it is a conflict.
    Refused,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThreeWayError {
    #[error(transparent)]
    Patch(#[from] Error),
    /// Both change the same thing, and not in the same way.
    #[error(
        "patch:\n{}\nconflicts with changes made from original to current:\n{}\n",
        Value::Object(.patch.clone()),
        Value::Object(.changes.clone())
    )]
    Conflict { patch: Map<String, Value>, changes: Map<String, Value> },
}

/// The patch that brings `current` to `modified`, and deletes what is in
/// `original` and no longer in `modified`; what neither mentions stays.
pub fn three_way(
    schema: &Type,
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
    overwrite: Overwrite,
) -> Result<Map<String, Value>, ThreeWayError> {
    let additions = diff_maps(schema, current, modified, Wanted::AdditionsAndChanges)?;
    let mut patch = diff_maps(schema, original, modified, Wanted::Deletions)?;
    merge(schema, &mut patch, &additions, Into::Patch)?;
    if overwrite == Overwrite::Refused {
        let changes = diff_maps(schema, original, current, Wanted::Plain)?;
        if maps_conflict(schema, &patch, &changes) {
            return Err(ThreeWayError::Conflict { patch, changes });
        }
    }
    Ok(patch)
}

fn maps_conflict(schema: &Type, left: &Map<String, Value>, right: &Map<String, Value>) -> bool {
    if left.contains_key(PATCH) || right.contains_key(PATCH) {
        return left.get(PATCH) != right.get(PATCH);
    }
    left.iter().any(|(key, left)| match right.get(key) {
        // Directives say how to change, not what.
        Some(right) if !key.starts_with('$') => match fields::field(schema, key) {
            // What is always replaced is in every patch, whoever changed what.
            Ok((_, strategy)) if strategy.replace && left.is_object() && right.is_object() => false,
            Ok((kind, strategy)) => values_conflict(kind, strategy, left, right),
            Err(_) => left != right,
        },
        _ => false,
    })
}

fn values_conflict(kind: &Type, strategy: &PatchStrategy, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => maps_conflict(kind, left, right),
        (Value::Array(left), Value::Array(right)) if strategy.merge => {
            items_conflict(fields::items(kind), strategy.merge_key.as_deref(), left, right)
        }
        (Value::Array(left), Value::Array(right)) => {
            let items = fields::items(kind);
            let conflict = |(left, right)| values_conflict(items, &PatchStrategy::default(), left, right);
            left.len() != right.len() || left.iter().zip(right).any(conflict)
        }
        (left, right) => left != right,
    }
}

/// Scalars can be added by both; objects are compared with their like.
fn items_conflict(items: &Type, key: Option<&str>, left: &[Value], right: &[Value]) -> bool {
    let Some(key) = key else { return false };
    let right = right.iter().rev().filter_map(Value::as_object);
    let known: HashMap<&Value, &Map<String, Value>> =
        right.filter_map(|right| Some((right.get(key)?, right))).collect();
    left.iter().filter_map(Value::as_object).any(|left| {
        left.get(key).and_then(|key| known.get(key)).is_some_and(|right| maps_conflict(items, left, right))
    })
}
