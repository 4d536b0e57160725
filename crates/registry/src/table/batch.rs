//! Jobs and cron jobs.

use serde_json::Value;
use sternpost_golang::time::Timestamp;
use sternpost_meta::age::human_duration;

use super::apps::SELECTOR;
use super::core::{TEMPLATE_CONTAINERS, TEMPLATE_IMAGES};
use super::text::{each, selector};
use super::{AGE, Cell, Column, NAME, NONE, UNSET, age, column, computed, moment, text};
use crate::object::Fields;

pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    Some(match kind {
        "CronJob" => CRON_JOB,
        "Job" => JOB,
        _ => return None,
    })
}

static CRON_JOB: &[Column] = &[
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
    computed("Containers", |job| each(job_spec(job).items("containers"), "name"), "Names of the containers.")
        .wide(),
    computed("Images", |job| each(job_spec(job).items("containers"), "image"), "Images of the containers.")
        .wide(),
    computed(
        "Selector",
        |job| selector(job.field("spec").field("jobTemplate").field("spec").field("selector")),
        "Labels of the pods that the jobs count.",
    )
    .wide(),
];

static JOB: &[Column] = &[
    NAME,
    computed("Status", status, "How far the job is."),
    computed("Completions", completions, "Pods that succeeded, of those that should."),
    column("Duration", Cell::Timed(duration), "How long the job took, or runs so far."),
    AGE,
    TEMPLATE_CONTAINERS,
    TEMPLATE_IMAGES,
    SELECTOR,
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

fn status(job: &Value) -> Value {
    let conditions = job.field("status").items("conditions");
    let has = |kind: &str| {
        let is = |condition: &Value| condition.text("type") == kind && condition.text("status") == "True";
        conditions.iter().any(is)
    };
    let ended = ["Complete", "Failed"].into_iter().find(|kind| has(kind));
    if let Some(ended) = ended {
        return ended.into();
    }
    if job.field("metadata").has("deletionTimestamp") {
        return "Terminating".into();
    }
    let going = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(|kind| has(kind));
    going.unwrap_or("Running").into()
}

fn completions(job: &Value) -> Value {
    let succeeded = job.field("status").int("succeeded").unwrap_or(0);
    let spec = job.field("spec");
    match (spec.int("completions"), spec.int("parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
    .into()
}

fn duration(job: &Value, now: Timestamp) -> Value {
    let status = job.field("status");
    match (moment(status.field("startTime")), moment(status.field("completionTime"))) {
        (None, _) => "".into(),
        (Some(_), None) => age(status.field("startTime"), now).into(),
        (Some(start), Some(end)) => human_duration(end.seconds_since(start)).into(),
    }
}
