//! What a `Job`'s status may say. Most checks look only at what a write
//! changes, so that an old status never blocks a controller.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::field::{Errors, Path};

use super::policies::invalid_without_value;
use crate::{
    internal_form::{Form, Shape, internal},
    object::Fields,
    validation::{
        bounds::none_negative,
        form::{named, pointer, same, texts},
    },
};

const UNCOUNTED: Form = Form::Message("io.k8s.api.batch.v1.UncountedTerminatedPods");

pub fn condition_is_true(status: &Value, name: &str) -> bool {
    condition_is(status, name, "True")
}

fn condition_is(status: &Value, name: &str, value: &str) -> bool {
    status
        .items("conditions")
        .iter()
        .any(|condition| condition.text("type") == name && condition.text("status") == value)
}

/// The states a job's conditions tell of.
struct States {
    complete: bool,
    failed: bool,
    failure_target: bool,
    criteria_met: bool,
}

impl States {
    fn of(status: &Value) -> Self {
        Self {
            complete: condition_is_true(status, "Complete"),
            failed: condition_is_true(status, "Failed"),
            failure_target: condition_is_true(status, "FailureTarget"),
            criteria_met: condition_is_true(status, "SuccessCriteriaMet"),
        }
    }

    fn finished(&self) -> bool {
        self.complete || self.failed
    }
}

pub fn validate_update(job: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let (spec, status, old) = (job.field("spec"), job.field("status"), old.field("status"));
    let (now, before) = (States::of(status), States::of(old));
    none_negative(status, &["active", "succeeded", "failed", "ready", "terminating"], &path, errors);
    validate_uncounted(status.field("uncountedTerminatedPods"), &path, errors);
    validate_completion(status, old, &now, &before, &path, errors);
    validate_finished(spec, status, old, &now, &before, &path, errors);
    validate_indexes(spec, status, old, &path, errors);
    validate_counters(spec, status, old, &now, &before, &path, errors);
    validate_transitions(spec, status, old, &now, &before, &path, errors);
}

fn validate_uncounted(uncounted: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for name in ["succeeded", "failed"] {
        let path = path.child(name);
        for (index, uid) in texts(uncounted, name).enumerate() {
            if uid.is_empty() {
                errors.invalid(path.index(index), named(uid), "must not be empty");
            } else if !seen.insert(uid) {
                errors.duplicate(path.index(index), named(uid));
            }
        }
    }
}

fn validate_completion(
    status: &Value,
    old: &Value,
    now: &States,
    before: &States,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let conditions = path.child("conditions");
    let completion = path.child("completionTime");
    let completed = now.complete != before.complete;
    let failed = now.failed != before.failed;
    let time_changed = status.field("completionTime") != old.field("completionTime");
    let start_changed = status.field("startTime") != old.field("startTime");
    if (completed || failed) && now.complete && now.failed {
        invalid_without_value(errors, &conditions, "cannot set Complete=True and Failed=true conditions");
    }
    if (completed || now.failure_target != before.failure_target) && now.complete && now.failure_target {
        invalid_without_value(
            errors,
            &conditions,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }
    if completed || time_changed {
        if status.has("completionTime") && !now.complete {
            errors.invalid(
                completion,
                pointer(status, "completionTime"),
                "cannot set completionTime when there is no Complete=True condition",
            );
        }
        if !status.has("completionTime") && now.complete {
            errors.required(completion, "completionTime is required for Complete jobs");
        }
    }
    // Both are in UTC and of one form, so that text order is time order.
    let (start, end) = (status.text("startTime"), status.text("completionTime"));
    if (start_changed || time_changed) && !start.is_empty() && !end.is_empty() && end < start {
        errors.invalid(
            completion,
            pointer(status, "completionTime"),
            "must be equal to or after `startTime`",
        );
    }
    let failed_indexes_changed = status.field("failedIndexes") != old.field("failedIndexes");
    if (failed || failed_indexes_changed) && now.failed && !now.failure_target {
        invalid_without_value(
            errors,
            &conditions,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    if (completed || now.criteria_met != before.criteria_met) && now.complete && !now.criteria_met {
        invalid_without_value(
            errors,
            &conditions,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }
}

fn validate_finished(
    spec: &Value,
    status: &Value,
    old: &Value,
    now: &States,
    before: &States,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if !now.finished() {
        return;
    }
    let finished = !before.finished();
    let active = status.int("active").unwrap_or_default();
    if (finished || active != old.int("active").unwrap_or_default()) && active > 0 {
        errors.invalid(path.child("active"), active, "active>0 is invalid for finished job");
    }
    let nothing_to_do = spec.flag("suspend") && spec.int("completions") == Some(0);
    if (finished || old.has("startTime")) && !status.has("startTime") && !nothing_to_do {
        errors.required(path.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = status.field("uncountedTerminatedPods");
    let any = !uncounted.items("succeeded").is_empty() || !uncounted.items("failed").is_empty();
    if (finished || !same(uncounted, old.field("uncountedTerminatedPods"))) && any {
        let bad = internal(Shape::Ptr(UNCOUNTED), uncounted);
        errors.invalid(path.child("uncountedTerminatedPods"), bad, "must be empty for finished job");
    }
}

fn validate_indexes(spec: &Value, status: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let completed = status.text("completedIndexes");
    let failed = status.get_field("failedIndexes").and_then(Value::as_str);
    let completed_changed = completed != old.text("completedIndexes");
    let failed_changed = status.field("failedIndexes") != old.field("failedIndexes");
    let completions = spec.int("completions");
    let per_index = spec.has("backoffLimitPerIndex");
    if let Some(completions) = completions {
        if completed_changed && let Err(problem) = count_indexes(completed, completions) {
            errors.invalid(completed_path, completed, &format!("error parsing completedIndexes: {problem}"));
        }
        if let Some(failed) = failed.filter(|_| failed_changed && per_index)
            && let Err(problem) = count_indexes(failed, completions)
        {
            errors.invalid(failed_path, failed, &format!("error parsing failedIndexes: {problem}"));
        }
    }
    if completed_changed && !completed.is_empty() && spec.text("completionMode") != "Indexed" {
        errors.invalid(
            completed_path,
            completed,
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        );
    }
    let Some(failed) = failed else { return };
    if failed_changed && !per_index {
        errors.invalid(
            failed_path,
            failed,
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        );
    }
    if let Some(completions) = completions.filter(|_| failed_changed || completed_changed)
        && let Some(index) = first_overlap(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(failed_path, failed, &detail);
    }
}

fn validate_counters(
    spec: &Value,
    status: &Value,
    old: &Value,
    now: &States,
    before: &States,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let conditions = path.child("conditions");
    let terminating = status.int("terminating");
    let finished_changed = now.finished() != before.finished();
    if let Some(number) = terminating.filter(|number| *number > 0 && now.finished())
        && (finished_changed || terminating != old.int("terminating"))
    {
        errors.invalid(path.child("terminating"), number, "terminating>0 is invalid for finished job");
    }
    let active = status.int("active").unwrap_or_default();
    let ready = status.int("ready");
    let changed = ready != old.int("ready") || active != old.int("active").unwrap_or_default();
    if let Some(ready) = ready.filter(|ready| changed && *ready > active) {
        errors.invalid(path.child("ready"), ready, "cannot set more ready pods than active");
    }
    if now.criteria_met && now.failed {
        let detail = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
        invalid_without_value(errors, &conditions, detail);
    }
    if now.criteria_met && now.failure_target {
        let detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        invalid_without_value(errors, &conditions, detail);
    }
    if spec.has("successPolicy") && now.complete && !now.criteria_met {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        invalid_without_value(errors, &conditions, detail);
    }
}

fn validate_transitions(
    spec: &Value,
    status: &Value,
    old: &Value,
    now: &States,
    before: &States,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let conditions = path.child("conditions");
    for (name, was, is) in [
        ("Failed", before.failed, now.failed),
        ("Complete", before.complete, now.complete),
        ("FailureTarget", before.failure_target, now.failure_target),
    ] {
        if was && !is {
            let detail = format!("cannot disable the terminal {name}=True condition");
            invalid_without_value(errors, &conditions, &detail);
        }
    }
    // An indexed job can be made smaller, and then has fewer that count.
    let elastic =
        spec.text("completionMode") == "Indexed" && spec.int("completions") == spec.int("parallelism");
    for (name, checked) in [("failed", true), ("succeeded", !elastic)] {
        let number = status.int(name).unwrap_or_default();
        if checked && number < old.int(name).unwrap_or_default() {
            errors.invalid(path.child(name), number, &format!("cannot decrease the {name} counter"));
        }
    }
    let changed = |name: &str| old.has(name) && status.field(name) != old.field(name);
    if changed("completionTime") && status.has("completionTime") {
        let path = path.child("completionTime");
        errors.invalid(path, pointer(status, "completionTime"), "field is immutable");
    }
    let resuming = condition_is_true(old, "Suspended") && condition_is(status, "Suspended", "False");
    if changed("startTime") && !resuming && !spec.flag("suspend") {
        errors.invalid(
            path.child("startTime"),
            pointer(status, "startTime"),
            "field is immutable for unsuspended job once set",
        );
    }
    if before.criteria_met && !now.criteria_met {
        let detail = "cannot disable the SuccessCriteriaMet=True condition";
        invalid_without_value(errors, &conditions, detail);
    }
    if before.complete && !before.criteria_met && now.criteria_met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        invalid_without_value(errors, &conditions, detail);
    }
}

/// How many indexes a list such as `1,3-5` names; each is below `completions`.
pub fn count_indexes(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let mut total = 0;
    let mut previous: Option<i64> = None;
    for text in list.split(',') {
        let (first, last) = interval(text, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", go_quote(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", go_quote(text))),
        Ok(index) => Ok(index),
    };
    match text.split_once('-') {
        None => index(text).map(|index| (index, index)),
        Some((_, rest)) if rest.contains('-') => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go_quote(text)
        )),
        Some((first, last)) => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
    }
}

/// The first index both lists name; what is no interval is passed over.
fn first_overlap(left: &str, right: &str, completions: i64) -> Option<i64> {
    let intervals = |list: &str| -> Vec<(i64, i64)> {
        list.split(',').filter_map(|text| interval(text, completions).ok()).collect()
    };
    let (left, right) = (intervals(left), intervals(right));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let (a, b) = (left.peek()?, right.peek()?);
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            left.next()
        } else {
            right.next()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_lists_are_counted_or_refused() {
        for (list, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("1,1", Err("non-increasing order, previous: 1, current: 1")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("10", Err("too large index: \"10\"")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("-1", Err("cannot convert string to integer for index: \"\"")),
            ("1,", Err("cannot convert string to integer for index: \"\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(
                count_indexes(list, 10).as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e),
                "{list}"
            );
        }
    }

    #[test]
    fn the_first_common_index_is_found() {
        for (left, right, expected) in
            [("0-2,5", "3,5-6", Some(5)), ("1", "2", None), ("x,4", "0-9", Some(4)), ("", "1", None)]
        {
            assert_eq!(first_overlap(left, right, 10), expected, "{left} {right}");
        }
    }
}
