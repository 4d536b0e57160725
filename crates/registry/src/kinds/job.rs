//! `Job`. Its policies are in [`policies`], what its status may say
//! in [`status`].

pub mod policies;
pub mod status;

use serde_json::Value;
use sternpost_meta::{
    field::{BadValue, Errors, Path},
    format,
    selector::LabelSelector,
};

use self::{
    policies::{POD_FAILURE_POLICY, SUCCESS_POLICY, validate_failure_policy, validate_success_policy},
    status::condition_is_true,
};
use crate::{
    field_selectors::{NAME, NAMESPACE, SelectableFields, number, stored_value},
    internal_form::{Form, Shape, internal},
    object::{Fields, FieldsMut},
    status_subresource::{keep_spec, keep_status, reset_status},
    strategy::{Generation, MetadataCheck, Strategy, Subresource},
    validation::{
        bounds::none_negative,
        form::{immutable, named, pointer, same},
        label_selector,
        pod_spec::{internal_spec, internal_template, same_spec},
        pod_template_spec, pod_warnings,
        workload::{
            default_template, name_warning, same_template, selector_does_not_match, selector_is_immutable,
            selector_value,
        },
    },
};

pub const STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_status_update: keep_spec,
    validate,
    validate_update,
    validate_status_update: status::validate_update,
    warnings,
    generation: Generation::Tracks(&["spec"]),
    checks_again: &[MetadataCheck::Written, MetadataCheck::Changed],
    reset_fields: &[".status"],
    subresources: &[Subresource::STATUS],
    selectable_fields: Some(SelectableFields {
        fields: &[NAME, NAMESPACE, ("status.successful", "status.successful")],
        unsupported: |label| format!("field label \"{label}\" not supported for Job"),
        value: |field, job| match field {
            "status.successful" => number("status.succeeded", job),
            _ => stored_value(field, job),
        },
    }),
    columns: columns::COLUMNS,
    orphans_dependents: true,
    orphan_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
    ),
    ..Strategy::of("batch", "Job")
};

/// Labels of a job's pods: in the template they carry its uid and its name.
const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

pub const MAX_MANAGED_BY_BYTES: usize = 63;
pub const MAX_PARALLELISM_INDEXED: i64 = 100_000;
pub const MAX_FAILED_INDEXES: i64 = 100_000;
/// Jobs with more completions and a limit per index have the lower limits below.
pub const MANY_COMPLETIONS: i64 = 100_000;
pub const MAX_PARALLELISM_MANY_COMPLETIONS: i64 = 10_000;
pub const MAX_FAILED_INDEXES_MANY_COMPLETIONS: i64 = 10_000;

fn default(job: &mut Value) {
    let spec = job.object_mut("spec");
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.set("completions", 1);
    }
    spec.default_field("parallelism", 1);
    let backoff_limit = if spec.has("backoffLimitPerIndex") { i32::MAX } else { 6 };
    spec.default_field("backoffLimit", backoff_limit);
    spec.default_field("completionMode", "NonIndexed");
    spec.default_field("suspend", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    if !spec.has("podReplacementPolicy") {
        spec.set("podReplacementPolicy", replacement);
    }
    spec.default_field("manualSelector", false);
    default_nested(spec);
    // A new job gets labels of its own into its template before these are copied.
    let [_, generated] = CONTROLLER_UID;
    let labels = spec.field("template").field("metadata").field("labels");
    if spec.flag("manualSelector") || labels.has(generated) {
        default_labels(job);
    }
}

/// A job without labels has those of its pods.
fn default_labels(job: &mut Value) {
    let labels = job.field("spec").field("template").field("metadata").field("labels").clone();
    let metadata = job.object_mut("metadata");
    if metadata.entries("labels").next().is_none() && !labels.is_null() {
        metadata.set("labels", labels);
    }
}

/// What also the job template of a cron job gets.
pub fn default_nested(spec: &mut Value) {
    default_template(spec);
    if spec.has("podFailurePolicy") {
        for rule in spec.object_mut("podFailurePolicy").items_mut("rules") {
            for condition in rule.items_mut("onPodConditions") {
                condition.default_field("status", "True");
            }
        }
    }
}

/// The uid and the name must be in place by now.
fn prepare_create(job: &mut Value) {
    reset_status(job);
    if job.field("spec").flag("manualSelector") {
        return;
    }
    let name = job.field("metadata").text("name").to_owned();
    let uid = job.field("metadata").text("uid").to_owned();
    let spec = job.object_mut("spec");
    let labels = spec.object_mut("template").object_mut("metadata").object_mut("labels");
    for (keys, value) in [(JOB_NAME, &name), (CONTROLLER_UID, &uid)] {
        for key in keys {
            if !labels.has(key) {
                labels.set(key, value.as_str());
            }
        }
    }
    let selected = spec.object_mut("selector").object_mut("matchLabels");
    let [_, key] = CONTROLLER_UID;
    if !selected.has(key) {
        selected.set(key, uid);
    }
    default_labels(job);
}

fn validate(job: &Value, errors: &mut Errors) {
    validate_job(job, &Value::Null, errors);
}

fn validate_update(job: &Value, old: &Value, errors: &mut Errors) {
    validate_job(job, old, errors);
    let path = Path::new("spec");
    let (spec, old_spec) = (job.field("spec"), old.field("spec"));
    validate_spec_and_selector(spec, old_spec, &path, errors);
    validate_completions_update(spec, old_spec, &path, errors);
    selector_is_immutable(spec, old_spec, &path, errors);
    validate_template_update(job, old, &path, errors);
    immutable(spec, old_spec, "completionMode", path.child("completionMode"), errors);
    immutable_policy(spec, old_spec, "podFailurePolicy", POD_FAILURE_POLICY, &path, errors);
    immutable(spec, old_spec, "backoffLimitPerIndex", path.child("backoffLimitPerIndex"), errors);
    immutable(spec, old_spec, "managedBy", path.child("managedBy"), errors);
    immutable_policy(spec, old_spec, "successPolicy", SUCCESS_POLICY, &path, errors);
}

fn immutable_policy(spec: &Value, old: &Value, name: &str, form: Form, path: &Path<'_>, errors: &mut Errors) {
    let policy = spec.field(name);
    if !same(policy, old.field(name)) {
        errors.invalid(path.child(name), internal(Shape::Ptr(form), policy), IMMUTABLE);
    }
}

const IMMUTABLE: &str = "field is immutable";

/// `old` is `null` on create.
fn validate_job(job: &Value, old: &Value, errors: &mut Errors) {
    validate_generated_selector(job, old, errors);
    let spec = job.field("spec");
    validate_spec_and_selector(spec, old.field("spec"), &Path::new("spec"), errors);
    let completions = spec.int("completions").filter(|completions| *completions > 0);
    if let Some(completions) = completions.filter(|_| is_indexed(spec)) {
        let name = job.field("metadata").text("name");
        let last_pod = format!("{name}-{}", completions - 1);
        if !format::dns_label(&last_pod).is_empty() {
            errors.invalid(
                Path::new("metadata").child("name"),
                name,
                &format!("will not able to create pod with invalid DNS label: {last_pod}"),
            );
        }
    }
}

fn validate_generated_selector(job: &Value, old: &Value, errors: &mut Errors) {
    let spec = job.field("spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let metadata = job.field("metadata");
    let (uid, name) = (metadata.text("uid"), metadata.text("name"));
    if uid.is_empty() {
        errors.required(Path::new("metadata").child("uid"), "");
    }
    let [uid_label, prefixed_uid_label] = CONTROLLER_UID;
    let [name_label, prefixed_name_label] = JOB_NAME;
    let mut expected = vec![(uid_label, uid), (name_label, name)];
    // Jobs from before these labels do not have to get them.
    let old_labels = old.field("spec").field("template").field("metadata").field("labels");
    if old.is_null() || (old_labels.has(prefixed_uid_label) && old_labels.has(prefixed_name_label)) {
        expected.extend([(prefixed_uid_label, uid), (prefixed_name_label, name)]);
    }
    let path = Path::new("spec");
    let template = path.child("template");
    let labels_path = template.child("metadata");
    let labels_path = labels_path.child("labels");
    let labels = spec.field("template").field("metadata").field("labels");
    for (key, value) in &expected {
        match labels.get_field(key) {
            None => errors.required(labels_path.key(key), &format!("must be '{value}'")),
            Some(actual) if actual.as_str() == Some(value) => {}
            Some(_) => errors.invalid(
                labels_path.key(key),
                BadValue::Json(labels.clone()),
                &format!("must be '{value}'"),
            ),
        }
    }
    let selector = spec.field("selector");
    if let Ok(compiled) = LabelSelector::from_object(selector) {
        let find = |key: &str| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        if !compiled.matches_with(find) {
            errors.invalid(path.child("selector"), selector_value(selector), "`selector` not auto-generated");
        }
    }
}

fn validate_spec_and_selector(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    validate_spec(spec, old, path, errors);
    let selector = spec.field("selector");
    if selector.is_null() {
        errors.required(path.child("selector"), "");
    } else {
        label_selector::validate_update(selector, old.field("selector"), &path.child("selector"), errors);
    }
    let labels = spec.field("template").field("metadata").field("labels");
    if LabelSelector::from_object(selector).is_ok_and(|selector| !selector.matches(labels)) {
        selector_does_not_match(labels, &path.child("template"), errors);
    }
}

/// All but the selector, for jobs and for the templates of cron jobs. `old` is `null` on create.
pub fn validate_spec(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    none_negative(
        spec,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
        path,
        errors,
    );
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.get_field("managedBy") {
        validate_managed_by(manager.as_str().unwrap_or_default(), &path.child("managedBy"), errors);
    }
    validate_completion_mode(spec, path, errors);
    if let Some(policy) = spec.get_field("podFailurePolicy") {
        validate_failure_policy(spec, policy, &path.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = spec.get_field("successPolicy") {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            validate_success_policy(spec, policy, &path, errors);
        } else {
            let bad = internal(Shape::Struct(SUCCESS_POLICY), policy);
            errors.invalid(path, bad, "requires indexed completion mode");
        }
    }
    validate_replacement_policy(spec, &path.child("podReplacementPolicy"), errors);
    let template = spec.field("template");
    pod_template_spec::validate_update(template, old.field("template"), &path.child("template"), errors);
    validate_restart_policy(spec, path, errors);
}

fn is_indexed(spec: &Value) -> bool {
    spec.text("completionMode") == "Indexed"
}

fn validate_managed_by(manager: &str, path: &Path<'_>, errors: &mut Errors) {
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            for problem in format::dns_subdomain(domain) {
                errors.invalid(path, domain, &problem);
            }
            let allowed = |char: char| char.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(char);
            if !rest.chars().all(allowed) {
                errors.invalid(
                    path,
                    rest,
                    r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')",
                );
            }
        }
        _ => errors.invalid(path, manager, r#"must be a domain-prefixed path (such as "acme.io/foo")"#),
    }
    if manager.len() > MAX_MANAGED_BY_BYTES {
        errors.too_long(path, MAX_MANAGED_BY_BYTES);
    }
}

fn validate_completion_mode(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    match spec.get_field("completionMode").map(|mode| mode.as_str().unwrap_or_default()) {
        Some("Indexed") => validate_indexed(spec, path, errors),
        None | Some("NonIndexed") => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.int(name) {
                    errors.invalid(path.child(name), number, "requires indexed completion mode");
                }
            }
        }
        Some(other) => {
            errors.not_supported(path.child("completionMode"), named(other), &["NonIndexed", "Indexed"]);
        }
    }
}

fn validate_indexed(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (parallelism_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    let parallelism = spec.int("parallelism");
    let completions = spec.int("completions");
    let max_failed = spec.int("maxFailedIndexes");
    if completions.is_none() {
        errors.required(path.child("completions"), "when completion mode is Indexed");
    }
    if let Some(number) = parallelism.filter(|number| *number > MAX_PARALLELISM_INDEXED) {
        errors.invalid(
            parallelism_path,
            number,
            &format!(
                "must be less than or equal to {MAX_PARALLELISM_INDEXED} when completion mode is Indexed"
            ),
        );
    }
    if let Some(number) = max_failed {
        if completions.is_some_and(|completions| number > completions) {
            errors.invalid(failed_path, number, "must be less than or equal to completions");
        }
        if number > MAX_FAILED_INDEXES {
            errors.invalid(
                failed_path,
                number,
                &format!("must be less than or equal to {MAX_FAILED_INDEXES}"),
            );
        }
    }
    let many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !many || !spec.has("backoffLimitPerIndex") {
        return;
    }
    if max_failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(failed_path, &detail);
    }
    for (number, most, path) in [
        (parallelism, MAX_PARALLELISM_MANY_COMPLETIONS, parallelism_path),
        (max_failed, MAX_FAILED_INDEXES_MANY_COMPLETIONS, failed_path),
    ] {
        if let Some(number) = number.filter(|number| *number > most) {
            errors.invalid(path, number, &format!("must be less than or equal to {most} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"));
        }
    }
}

fn validate_replacement_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(policy) = spec.get_field("podReplacementPolicy") else { return };
    let policy = policy.as_str().unwrap_or_default();
    let supported: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !supported.contains(&policy) {
        errors.not_supported(path, named(policy), supported);
    }
}

fn validate_restart_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let template = path.child("template");
    let pod = template.child("spec");
    let path = pod.child("restartPolicy");
    match spec.field("template").field("spec").text("restartPolicy") {
        "" | "Always" => errors.required(path, r#"valid values: "OnFailure", "Never""#),
        "Never" => {}
        "OnFailure" if !spec.has("podFailurePolicy") => {}
        policy @ "OnFailure" => {
            let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.invalid(path, named(policy), detail);
        }
        other => errors.not_supported(path, named(other), &["OnFailure", "Never"]),
    }
}

fn validate_completions_update(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("completions");
    if !is_indexed(spec) {
        return immutable(spec, old, "completions", path, errors);
    }
    let completions = spec.int("completions");
    if completions.is_some()
        && completions != old.int("completions")
        && completions != spec.int("parallelism")
    {
        let bad = pointer(spec, "completions");
        errors.invalid(path, bad, "can only be modified in tandem with spec.parallelism");
    }
}

/// A job that was not let run yet may still change where its pods go and what they ask for.
fn validate_template_update(job: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let template = job.field("spec").field("template");
    let mut before = old.field("spec").field("template").clone();
    let suspended = old.field("spec").flag("suspend");
    let status = old.field("status");
    let idle = !status.has("startTime") || condition_is_true(status, "Suspended");
    let mutable = suspended && idle && status.int("active").unwrap_or_default() == 0;
    if !mutable {
        if !same_template(template, &before) {
            errors.invalid(path.child("template"), internal_template(template), IMMUTABLE);
        }
        return;
    }
    let spec = template.field("spec");
    let old_spec = before.object_mut("spec");
    allow_node_affinity(old_spec, spec);
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        old_spec.set(name, spec.field(name).clone());
    }
    for list in ["containers", "initContainers"] {
        allow_resources(old_spec, spec, list);
    }
    if !same_spec(spec, old_spec) {
        errors.invalid(path.child("template.spec"), internal_spec(spec), IMMUTABLE);
    }
}

fn allow_node_affinity(old: &mut Value, new: &Value) {
    match (new.get_field("affinity"), old.has("affinity")) {
        (None, true) => {
            old.object_mut("affinity").remove("nodeAffinity");
        }
        (Some(affinity), _) => {
            let wanted = affinity.field("nodeAffinity").clone();
            old.object_mut("affinity").set("nodeAffinity", wanted);
        }
        (None, false) => {}
    }
}

fn allow_resources(old: &mut Value, new: &Value, list: &str) {
    let containers = new.items(list);
    if containers.len() != old.items(list).len() {
        return;
    }
    for (before, container) in old.items_mut(list).iter_mut().zip(containers) {
        if before.text("name") == container.text("name") {
            before.set("resources", container.field("resources").clone());
        }
    }
}

fn warnings(job: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = job.field("spec");
    let mut warnings = Vec::new();
    match old {
        None => {
            warnings.extend(name_warning(job));
            warnings.extend(spec_warnings(spec, &Path::new("spec")));
        }
        Some(old) if !same(spec, old.field("spec")) => {
            warnings.extend(spec_warnings(spec, &Path::new("spec")));
        }
        Some(_) => {}
    }
    warnings
}

/// `path` is where the spec of the job stands.
pub fn spec_warnings(spec: &Value, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_indexed(spec)
        && spec.int("completions").is_some_and(|completions| completions > MANY_COMPLETIONS)
        && spec.int("parallelism").is_some_and(|parallelism| parallelism > MAX_PARALLELISM_MANY_COMPLETIONS)
    {
        warnings.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    warnings.extend(pod_warnings::of_template(spec.field("template"), &path.child("template")));
    warnings
}

/// What `kubectl get` shows.
mod columns {
    use serde_json::Value;
    use sternpost_golang::time::Timestamp;
    use sternpost_meta::age::human_duration;

    use crate::{
        object::Fields,
        table::{
            AGE, Cell, Column, NAME, age, column, computed, moment,
            workload::{SELECTOR, TEMPLATE_CONTAINERS, TEMPLATE_IMAGES},
        },
    };

    pub(super) const COLUMNS: &[Column] = &[
        NAME,
        computed("Status", status, "How far the job is."),
        computed("Completions", completions, "Pods that succeeded, of those that should."),
        column("Duration", Cell::Timed(duration), "How long the job took, or runs so far."),
        AGE,
        TEMPLATE_CONTAINERS,
        TEMPLATE_IMAGES,
        SELECTOR,
    ];

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
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_meta::status::CauseReason;

    use super::{
        policies::{
            MAX_EXIT_CODES, MAX_FAILURE_RULES, MAX_POD_CONDITIONS, MAX_SUCCEEDED_INDEXES_BYTES,
            MAX_SUCCESS_RULES,
        },
        *,
    };

    fn count(field: &str, reason: CauseReason, spec: &Value) -> usize {
        let mut errors = Errors::default();
        validate_spec(spec, &Value::Null, &Path::new("spec"), &mut errors);
        errors.causes().iter().filter(|cause| cause.field == field && cause.reason == Some(reason)).count()
    }

    #[test]
    fn lists_and_texts_end_at_their_limits() {
        let indexed =
            |policy: Value| json!({"completionMode": "Indexed", "completions": 5, "successPolicy": policy});
        let failure = |rules: Value| json!({"podFailurePolicy": {"rules": rules}});
        type Case<'a> = (&'a str, CauseReason, usize, &'a dyn Fn(usize) -> Value);
        let cases: [Case<'_>; 6] = [
            (
                "spec.managedBy",
                CauseReason::FieldValueTooLong,
                MAX_MANAGED_BY_BYTES,
                &|size| json!({"managedBy": format!("a.b/{}", "x".repeat(size - 4))}),
            ),
            ("spec.podFailurePolicy.rules", CauseReason::FieldValueTooMany, MAX_FAILURE_RULES, &|size| {
                failure(vec![json!({}); size].into())
            }),
            (
                "spec.podFailurePolicy.rules[0].onExitCodes.values",
                CauseReason::FieldValueTooMany,
                MAX_EXIT_CODES,
                &|size| failure(json!([{"onExitCodes": {"values": vec![1; size]}}])),
            ),
            (
                "spec.podFailurePolicy.rules[0].onPodConditions",
                CauseReason::FieldValueTooMany,
                MAX_POD_CONDITIONS,
                &|size| failure(json!([{"onPodConditions": vec![json!({}); size]}])),
            ),
            ("spec.successPolicy.rules", CauseReason::FieldValueTooMany, MAX_SUCCESS_RULES, &|size| {
                indexed(json!({"rules": vec![json!({}); size]}))
            }),
            (
                "spec.successPolicy.rules[0].succeededIndexes",
                CauseReason::FieldValueTooLong,
                MAX_SUCCEEDED_INDEXES_BYTES,
                &|size| indexed(json!({"rules": [{"succeededIndexes": "1".repeat(size)}]})),
            ),
        ];
        for (field, reason, limit, spec) in cases {
            assert_eq!(count(field, reason, &spec(limit)), 0, "{field} at the limit");
            assert_eq!(count(field, reason, &spec(limit + 1)), 1, "{field} past the limit");
        }
    }

    #[test]
    fn numbers_end_at_their_limits() {
        for (name, limit, more) in [
            ("parallelism", MAX_PARALLELISM_INDEXED, json!({"completions": 5})),
            ("maxFailedIndexes", MAX_FAILED_INDEXES, json!({"completions": 1_000_000})),
            (
                "parallelism",
                MAX_PARALLELISM_MANY_COMPLETIONS,
                json!({"completions": MANY_COMPLETIONS + 1, "backoffLimitPerIndex": 1}),
            ),
            (
                "maxFailedIndexes",
                MAX_FAILED_INDEXES_MANY_COMPLETIONS,
                json!({"completions": MANY_COMPLETIONS + 1, "backoffLimitPerIndex": 1}),
            ),
        ] {
            let spec = |number: i64| {
                let mut spec = more.clone();
                spec.set("completionMode", "Indexed");
                spec.set(name, number);
                spec
            };
            let field = format!("spec.{name}");
            let invalid = CauseReason::FieldValueInvalid;
            assert_eq!(count(&field, invalid, &spec(limit)), 0, "{name} at {limit}");
            assert_eq!(count(&field, invalid, &spec(limit + 1)), 1, "{name} past {limit}");
        }
    }
}
