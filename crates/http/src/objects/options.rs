//! Query parameters of object requests.

use std::{borrow::Cow, time::Duration};

use http::header;
use serde_json::json;
use sternpost_clock::machine;
use sternpost_golang::{
    duration,
    strconv::{NumberError, is_go_printable},
};
use sternpost_meta::{
    audit::Annotations,
    field::{BadValue, Errors, MAX_FIELD_MANAGER_BYTES, Path},
    selector::{FieldSelector, LabelSelector},
    status::Status,
    user::User,
    warning::Warnings,
};
use sternpost_verbs::{
    DryRun, LatencyTracker, ListQuery, Selection, SentOptions, VersionMatch, Writer, served::Served,
};

use super::dry_run;
use crate::request::{Query, Request};

pub use sternpost_verbs::Validation;

pub struct WriteOptions<'a> {
    pub dry_run: DryRun,
    pub validation: Validation,
    manager: Cow<'a, str>,
    user: &'a User,
    sent: SentOptions<'a>,
    audit: Option<&'a Annotations>,
    warnings: &'a Warnings,
    latency: Option<&'a LatencyTracker>,
    deadline: machine::Instant,
}

impl<'a> WriteOptions<'a> {
    pub fn writer(&'a self, subresource: &'a str) -> Writer<'a> {
        Writer {
            dry_run: self.dry_run,
            manager: &self.manager,
            subresource,
            user: self.user,
            sent: self.sent,
            audit: self.audit,
            warnings: Some(self.warnings),
            latency: self.latency,
            deadline: Some(self.deadline),
        }
    }
}

/// The field manager that a request names, or else its client.
fn manager(request: &Request) -> Cow<'_, str> {
    if let Some(named) = request.query.first("fieldManager").filter(|named| !named.is_empty()) {
        return Cow::Borrowed(named);
    }
    let agent = request.headers.get(header::USER_AGENT).map_or(b"".as_slice(), |agent| agent.as_bytes());
    let agent = String::from_utf8_lossy(agent);
    let mut name: String = agent.split('/').next().unwrap_or_default().chars().filter(is_printable).collect();
    while name.len() > MAX_FIELD_MANAGER_BYTES {
        name.pop();
    }
    if name.is_empty() { Cow::Borrowed("unknown") } else { Cow::Owned(name) }
}

/// Bytes that are no text are left out too.
fn is_printable(char: &char) -> bool {
    is_go_printable(*char) && *char != char::REPLACEMENT_CHARACTER
}

/// Options of a write; `kind` is what an error calls them.
pub fn write<'a>(request: &'a Request, kind: &str) -> Result<WriteOptions<'a>, Status> {
    write_checked(request, kind, Errors::default())
}

/// Who deletes. Nobody owns a field that is gone, so there is no manager.
pub fn deleter(request: &Request) -> Writer<'_> {
    let deadline = Some(deadline(request));
    let (audit, warnings) = (request.audit.as_deref(), Some(&*request.warnings));
    let latency = request.latency.as_deref();
    Writer { user: request.user(), audit, warnings, latency, deadline, ..Writer::server() }
}

/// Options of a patch, and whether an apply may take fields from others.
pub fn patch(request: &Request, is_apply: bool) -> Result<(WriteOptions<'_>, bool), Status> {
    let mut errors = Errors::default();
    if is_apply && request.query.first("fieldManager").unwrap_or_default().is_empty() {
        errors.required(Path::new("fieldManager"), "is required for apply patch");
    }
    if !is_apply && request.query.has("force") {
        errors.forbidden(Path::new("force"), "may not be specified for non-apply patch");
    }
    Ok((write_checked(request, "PatchOptions", errors)?, flag(request, "force")))
}

fn write_checked<'a>(
    request: &'a Request,
    kind: &str,
    mut errors: Errors,
) -> Result<WriteOptions<'a>, Status> {
    let dry_run_values: Vec<&str> = request.query.all("dryRun").collect();
    if let Some(manager) = request.query.first("fieldManager") {
        errors.field_manager(Path::new("fieldManager"), manager);
    }
    check_dry_run(&dry_run_values, &mut errors);
    let validation = match request.query.first("fieldValidation").unwrap_or_default() {
        "" | "Warn" => Validation::Warn,
        "Ignore" => Validation::Ignore,
        "Strict" => Validation::Strict,
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.not_supported(Path::new("fieldValidation"), other, &supported);
            Validation::Warn
        }
    };
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", kind, "", errors.into_causes()));
    }
    Ok(WriteOptions {
        dry_run: dry_run(!dry_run_values.is_empty()),
        validation,
        manager: manager(request),
        user: request.user(),
        sent: SentOptions {
            field_manager: request.query.first("fieldManager").unwrap_or_default(),
            field_validation: request.query.first("fieldValidation").unwrap_or_default(),
        },
        audit: request.audit.as_deref(),
        warnings: &request.warnings,
        latency: request.latency.as_deref(),
        deadline: deadline(request),
    })
}

/// When a request that has been read must be done.
fn deadline(request: &Request) -> machine::Instant {
    machine::now() + request.timeout
}

pub fn check_dry_run(values: &[&str], errors: &mut Errors) {
    if values.iter().any(|value| *value != "All") {
        errors.not_supported(Path::new("dryRun"), BadValue::Json(json!(values)), &["All"]);
    }
}

pub fn selection(request: &Request, served: &Served) -> Result<Selection, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let labels = LabelSelector::parse(request.query.first("labelSelector").unwrap_or_default())
        .map_err(|error| bad(&error))?;
    let fields = FieldSelector::parse(request.query.first("fieldSelector").unwrap_or_default())
        .map_err(|error| bad(&error))?;
    Selection::of(served, labels, fields).map_err(|error| bad(&error))
}

/// Of a get nothing is left to choose but what was taken away.
pub fn check_export(request: &Request) -> Result<(), Status> {
    if flag(request, "export") {
        return Err(Status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    Ok(())
}

pub fn list(request: &Request) -> Result<ListQuery, Status> {
    let query = &request.query;
    let text = |name: &str| query.first(name).unwrap_or_default();
    let limit = integer(request, "limit")?.unwrap_or_default();
    integer(request, "timeoutSeconds")?;
    let mut errors = Errors::default();
    let path = Path::new("resourceVersionMatch");
    let matched = text("resourceVersionMatch");
    if !matched.is_empty() && text("resourceVersion").is_empty() {
        errors.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if !matched.is_empty() && !text("continue").is_empty() {
        errors.forbidden(path, "resourceVersionMatch is forbidden when continue is provided");
    }
    let version_match = match matched {
        "" => None,
        "Exact" => Some(VersionMatch::Exact),
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        other => {
            errors.not_supported(path, other, &["Exact", "NotOlderThan", ""]);
            None
        }
    };
    if version_match == Some(VersionMatch::Exact) && text("resourceVersion") == "0" {
        errors.forbidden(path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    if query.has("sendInitialEvents") {
        errors.forbidden(Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors.into_causes()));
    }
    if !text("continue").is_empty() && !matches!(text("resourceVersion"), "" | "0") {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(ListQuery {
        resource_version: text("resourceVersion").into(),
        version_match,
        limit: usize::try_from(limit).unwrap_or_default(),
        continue_token: text("continue").into(),
    })
}

/// A number in the query; the error is that of Go's `strconv.ParseInt`.
pub fn integer(request: &Request, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = request.query.first(name) else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|error| Status::bad_request(NumberError::from(error).text("ParseInt", text)))
}

/// How long a request may take: `timeout`, a duration as Go writes it, or `most` if that is less.
pub fn allotted(query: &Query, most: Duration) -> Result<Duration, Status> {
    let text = query.first("timeout").unwrap_or_default();
    if text.is_empty() {
        return Ok(most);
    }
    let asked = duration::parse(text).map_err(|problem| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: {problem}"))
    })?;
    // None at all, and less, is as if nothing was asked for.
    let asked = u64::try_from(asked).ok().filter(|asked| *asked > 0).map(Duration::from_nanos);
    Ok(asked.map_or(most, |asked| asked.min(most)))
}

/// A boolean in the query.
pub fn flag(request: &Request, name: &str) -> bool {
    request.query.flag(name)
}
