//! Conditions in the status of a pod.

use serde_json::Value;

use crate::object::{Fields, FieldsMut};

pub fn find<'a>(pod: &'a Value, condition_type: &str) -> Option<&'a Value> {
    let conditions = pod.field("status").items("conditions");
    conditions.iter().find(|condition| condition.text("type") == condition_type)
}

/// Adds the condition, or replaces the one of its type. The time of transition
/// is `now`, unless the status stays what it was.
pub fn set(status: &mut Value, mut condition: Value, now: &str) {
    let mut conditions = status.items("conditions").to_vec();
    let same_type = |other: &&mut Value| other.text("type") == condition.text("type");
    match conditions.iter_mut().find(same_type) {
        Some(old) => {
            let since = if old.text("status") == condition.text("status") {
                old.field("lastTransitionTime").clone()
            } else {
                now.into()
            };
            condition.set("lastTransitionTime", since);
            *old = condition;
        }
        None => {
            condition.set("lastTransitionTime", now);
            conditions.push(condition);
        }
    }
    status.set("conditions", conditions);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_time_moves_only_with_the_status() {
        let mut status = json!({});
        set(&mut status, json!({"type": "A", "status": "True"}), "t1");
        set(&mut status, json!({"type": "A", "status": "True", "reason": "R"}), "t2");
        assert_eq!(
            status["conditions"],
            json!([{"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "t1"}])
        );
        set(&mut status, json!({"type": "A", "status": "False"}), "t3");
        set(&mut status, json!({"type": "B", "status": "True"}), "t4");
        assert_eq!(
            status["conditions"],
            json!([
                {"type": "A", "status": "False", "lastTransitionTime": "t3"},
                {"type": "B", "status": "True", "lastTransitionTime": "t4"},
            ])
        );
    }
}
