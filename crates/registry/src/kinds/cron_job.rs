//! `CronJob`

use serde_json::Value;
use sternpost_meta::field::{Errors, Path};

use super::job;
use crate::{
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, Strategy, Subresource},
    validation::{
        bounds::{none_negative, not_negative},
        cron_schedule,
        form::{named, pointer, same},
        time_zone,
        workload::{name_warning, selector_value},
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: reset_status,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    status_checks_again: &[],
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    columns: columns::COLUMNS,
    ..Strategy::of("batch", "CronJob")
};

/// Jobs get eleven bytes more.
pub const MAX_NAME_BYTES: usize = 52;

fn default(cron_job: &mut Value) {
    let spec = cron_job.object_mut("spec");
    spec.default_field("concurrencyPolicy", "Allow");
    spec.default_field("suspend", false);
    spec.default_field("successfulJobsHistoryLimit", 3);
    spec.default_field("failedJobsHistoryLimit", 1);
    job::default_nested(spec.object_mut("jobTemplate").object_mut("spec"));
}

fn validate(cron_job: &Value, errors: &mut Errors) {
    validate_spec(cron_job.field("spec"), None, errors);
    let name = cron_job.field("metadata").text("name");
    if name.len() > MAX_NAME_BYTES {
        errors.invalid(
            Path::new("metadata").child("name"),
            name,
            &format!("must be no more than {MAX_NAME_BYTES} characters"),
        );
    }
}

fn validate_update(cron_job: &Value, old: &Value, errors: &mut Errors) {
    validate_spec(cron_job.field("spec"), Some(old.field("spec")), errors);
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::new("spec");
    validate_schedule(spec, old, &path.child("schedule"), errors);
    not_negative(spec, "startingDeadlineSeconds", &path, errors);
    let changed = old.is_none_or(|old| old.field("timeZone") != spec.field("timeZone"));
    if let Some(zone) = spec.get_field("timeZone").filter(|_| changed) {
        for problem in time_zone::problems(zone.as_str().unwrap_or_default()) {
            errors.invalid(path.child("timeZone"), zone, &problem);
        }
    }
    match spec.text("concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.required(path.child("concurrencyPolicy"), ""),
        other => errors.not_supported(
            path.child("concurrencyPolicy"),
            named(other),
            &["Allow", "Forbid", "Replace"],
        ),
    }
    validate_job_template(spec, old.unwrap_or(&Value::Null), &path.child("jobTemplate"), errors);
    none_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], &path, errors);
}

/// A zone inside the schedule is tolerated where it is stored already.
fn validate_schedule(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let schedule = spec.text("schedule");
    if schedule.is_empty() {
        return errors.required(path, "");
    }
    if let Some(problem) = cron_schedule::problem(schedule) {
        errors.invalid(path, schedule, &problem);
    }
    if !schedule.contains("TZ") {
        return;
    }
    if !old.is_some_and(|old| old.text("schedule").contains("TZ")) {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(path, schedule, detail);
    } else if spec.has("timeZone") {
        errors.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn validate_job_template(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let job = spec.field("jobTemplate").field("spec");
    let path = path.child("spec");
    job::validate_spec(job, old.field("jobTemplate").field("spec"), &path, errors);
    if job.has("selector") {
        let bad = selector_value(job.field("selector"));
        errors.invalid(path.child("selector"), bad, "`selector` will be auto-generated");
    }
    if job.flag("manualSelector") {
        errors.not_supported(path.child("manualSelector"), pointer(job, "manualSelector"), &["nil", "false"]);
    }
}

fn warnings(cron_job: &Value, old: Option<&Value>) -> Vec<String> {
    let path = Path::new("spec");
    let path = path.child("jobTemplate");
    let path = path.child("spec");
    let spec = cron_job.field("spec");
    let job = spec.field("jobTemplate").field("spec");
    let mut warnings = Vec::new();
    match old {
        None => {
            warnings.extend(name_warning(cron_job));
            warnings.extend(job::spec_warnings(job, &path));
        }
        Some(old) => {
            if !same(spec, old.field("spec")) {
                warnings.extend(job::spec_warnings(job, &path));
            }
            if spec.text("schedule").contains("TZ") {
                warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".into());
            }
        }
    }
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, NONE, UNSET, column, computed, text,
            text::{each, selector},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        text("Schedule", "/spec/schedule", "When jobs start, in cron's notation."),
        column("Timezone", Cell::SetOr("/spec/timeZone", NONE), "The time zone of the schedule."),
        computed("Suspend", suspend, "Whether no more jobs start.").typed("boolean"),
        column("Active", Cell::Count("/status/active"), "Number of jobs that run now.").typed("integer"),
        column(
            "Last Schedule",
            Cell::AgeOr("/status/lastScheduleTime", NONE),
            "Time since a job was started last.",
        ),
        AGE,
        computed(
            "Containers",
            |job| each(job_spec(job).items("containers"), "name"),
            "Names of the containers.",
        )
        .wide(),
        computed(
            "Images",
            |job| each(job_spec(job).items("containers"), "image"),
            "Images of the containers.",
        )
        .wide(),
        computed(
            "Selector",
            |job| selector(job.field("spec").field("jobTemplate").field("spec").field("selector")),
            "Labels of the pods that the jobs count.",
        )
        .wide(),
    ];

    fn job_spec(cron_job: &Value) -> &Value {
        cron_job.field("spec").field("jobTemplate").field("spec").field("template").field("spec")
    }

    /// Text, though the column is boolean, so that `True` is spelled as for conditions.
    fn suspend(cron_job: &Value) -> Value {
        match cron_job.field("spec").field("suspend").as_bool() {
            Some(true) => "True".into(),
            Some(false) => "False".into(),
            None => UNSET.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Such schedules cannot be created any more, only stored from before.
    #[test]
    fn a_stored_zone_in_the_schedule_is_tolerated_without_another() {
        for (schedule, zone, expected) in [
            ("TZ=UTC 1 * * * *", Value::Null, ""),
            (
                "TZ=UTC 1 * * * *",
                json!("UTC"),
                "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            ),
            ("1 * * * *", json!("UTC"), ""),
        ] {
            let mut errors = Errors::default();
            let old = json!({"schedule": "TZ=UTC * * * * *"});
            let spec = json!({"schedule": schedule, "timeZone": zone});
            validate_schedule(&spec, Some(&old), &Path::new("s"), &mut errors);
            let found: Vec<&str> = errors.causes().iter().map(|cause| cause.message.as_str()).collect();
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{schedule} {zone}");
            assert!(found.iter().all(|message| message.ends_with(expected)), "{found:?}");
        }
    }
}
