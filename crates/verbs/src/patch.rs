//! PATCH: three kinds of patches, and apply.

use std::sync::Arc;

use serde_json::{Map, Value};
use sternpost_apply::{ApplyError, Conflict};
use sternpost_cache::Object;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::status::{Cause, CauseReason, Status};
use sternpost_patch::{json_patch, merge_patch, strategic};
use sternpost_registry::object::{Fields, FieldsMut};

use crate::{
    create::Request,
    failure::Failure,
    ownership::Ownership,
    served::Served,
    typed::MAX_COMPLAINTS,
    update::{Live, Part, check_named, seen_version},
    verbs::{Target, Verbs, Writer, Written},
};

/// How unknown and duplicate fields are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    Ignore,
    Warn,
    Strict,
}

/// A change to whatever is there.
#[derive(Debug, Clone)]
pub enum Patch {
    Json(json_patch::Patch),
    Merge(Map<String, Value>),
    Strategic(Map<String, Value>),
    /// What its manager wants; other fields are others' business.
    Apply {
        config: Value,
        force: bool,
    },
}

/// The kinds of patches, as their media types name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A patch as a request brings it.
#[derive(Debug, Clone)]
pub struct PatchRequest {
    pub patch: Patch,
    /// What is wrong with the fields of the body itself.
    pub complaints: Vec<String>,
    pub validation: Validation,
}

impl Verbs {
    pub async fn patch(
        &self,
        target: Target<'_>,
        request: &PatchRequest,
        part: Part,
        writer: Writer<'_>,
    ) -> Result<Written, Failure> {
        // What is handed on is borrowed: each step keeps what it is given for as long as it lasts.
        let (target, writer) = (&target, &writer);
        self.attempting(*target, move |old| self.patch_once(old, target, request, part, writer)).await
    }

    /// `None` if another writer was faster.
    async fn patch_once(
        &self,
        old: Option<Arc<Object>>,
        target: &Target<'_>,
        request: &PatchRequest,
        part: Part,
        writer: &Writer<'_>,
    ) -> Result<Option<Written>, Failure> {
        let Some(old) = &old else {
            let (Patch::Apply { config, force }, Part::Main) = (&request.patch, part) else {
                return Err(target.not_found().into());
            };
            target.check_name()?;
            return match self.apply_new(target, config, *force, request, writer).await {
                // Somebody else has created it: apply to that.
                Err(failure) if failure.is_already_there() => Ok(None),
                written => written.map(Some),
            };
        };
        let served = target.served;
        let current = self.loaded(served, old).await?;
        let (current, object) = match &request.patch {
            // What is applied is laid over a copy, so that there need not be another.
            Patch::Apply { config, force } if served.is_stored_as_served() => {
                let shown = served.complete(current, Some(old.revision));
                let object = self.applied(served, Some(&shown), config, *force, request, *writer).await?;
                (served.without_type(shown), object)
            }
            _ => {
                let shown = served.in_served_version(&current).into_owned();
                let shown = served.complete(shown, Some(old.revision));
                let object = self.changed(served, shown, request, *writer).await?;
                (current, object)
            }
        };
        check_named(*target, &object)?;
        let version = object.field("metadata").text("resourceVersion");
        if matches!(version, "" | "0") && !served.strategy.unconditional_update {
            return Err(Status::version_required(target.resource_name(), target.name).into());
        }
        seen_version(*target, &object, old)?;
        let object = served.to_stored(object);
        let ownership = match request.patch {
            Patch::Apply { .. } => Ownership::Settled,
            _ => Ownership::Track,
        };
        let live = Live { object: old, value: &current, shown_as: None };
        self.update_once(*target, object, ownership, live, part, *writer).await
    }

    /// Apply where nothing is there yet.
    async fn apply_new(
        &self,
        target: &Target<'_>,
        config: &Value,
        force: bool,
        request: &PatchRequest,
        writer: &Writer<'_>,
    ) -> Result<Written, Failure> {
        let served = target.served;
        let mut object = self.applied(served, None, config, force, request, *writer).await?;
        let uid = object.field("metadata").text("uid");
        if !uid.is_empty() {
            return Err(Status::conflict(
                target.resource_name(),
                target.name,
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            )
            .into());
        }
        let metadata = object.object_mut("metadata");
        metadata.remove("resourceVersion");
        check_named(*target, &object)?;
        let object = served.to_stored(object);
        self.create_by(Request::CreateOnUpdate, *target, object, Ownership::Settled, *writer).await
    }

    /// What the patch makes of `live`, typed. The client is warned of fields that the kind does not have.
    pub(crate) async fn changed(
        &self,
        served: &Served,
        live: Value,
        request: &PatchRequest,
        writer: Writer<'_>,
    ) -> Result<Value, Failure> {
        let patched = match &request.patch {
            Patch::Apply { config, force } => {
                return self.applied(served, Some(&live), config, *force, request, writer).await;
            }
            Patch::Json(patch) => {
                json_patch::apply(live, patch).map_err(|error| Status::rejected(&error.to_string()))?
            }
            Patch::Merge(patch) => merge_patch::apply(live, patch),
            Patch::Strategic(patch) => {
                strategic::apply(&served.topology(), live, patch).map_err(|error| strategic_status(&error))?
            }
        };
        Ok(retyped(served, patched, request, writer)?)
    }

    async fn applied(
        &self,
        served: &Served,
        live: Option<&Value>,
        config: &Value,
        force: bool,
        request: &PatchRequest,
        writer: Writer<'_>,
    ) -> Result<Value, Failure> {
        let api_version = served.resource.gv.to_string();
        let now = self.now();
        let manager = self.manager(served, writer, &api_version, &now);
        let applied = self
            .converting(served, |versions| sternpost_apply::apply(live, config, &manager, force, versions))
            .await
            .map_err(|error| apply_status(&error))?;
        let object = served.decode_applied(applied.object).map_err(|error| Status::bad_request(error.0))?;
        match request.validation {
            Validation::Ignore => {}
            Validation::Strict if !request.complaints.is_empty() => {
                let all = request.complaints.join("\n  ");
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {all}"
                )).into());
            }
            Validation::Strict | Validation::Warn => writer.warn_all(request.complaints.iter().cloned()),
        }
        Ok(object)
    }
}

/// Reads the outcome of a patch as an object of its kind.
fn retyped(
    served: &Served,
    patched: Value,
    request: &PatchRequest,
    writer: Writer<'_>,
) -> Result<Value, Status> {
    let invalid = |why: &str| {
        let shown = match &request.patch {
            Patch::Strategic(patch) => sternpost_golang::fmt::print(&Value::Object(patch.clone())),
            _ => patched.to_string(),
        };
        let message = format!("Invalid value: {}: {why}", go_quote(&shown));
        let cause = Cause { reason: Some(CauseReason::FieldValueInvalid), message, field: "patch".into() };
        Status::invalid("", "", "", vec![cause])
    };
    // A strategic patch is applied to an object of the kind, which it stays whatever is said.
    if !matches!(request.patch, Patch::Strategic(_)) {
        served.check_type(&patched).map_err(|why| invalid(&why))?;
    }
    // Most patches leave an object as it would be read.
    if request.complaints.is_empty() && served.is_decoded(&patched) {
        return Ok(patched);
    }
    let decoded = match request.patch {
        Patch::Strategic(_) => served.decode_converted(&patched),
        _ => served.decode_borrowed(&patched),
    };
    let decoded = decoded.map_err(|error| invalid(&error.0))?;
    let mut complaints = request.complaints.clone();
    // Upstream counts only where it reads JSON again.
    let most = if matches!(request.patch, Patch::Strategic(_)) { usize::MAX } else { MAX_COMPLAINTS };
    complaints.extend(decoded.complaints.into_iter().take(most));
    match request.validation {
        Validation::Ignore => {}
        Validation::Strict if !complaints.is_empty() => {
            return Err(invalid(&format!("strict decoding error: {}", complaints.join(", "))));
        }
        Validation::Strict | Validation::Warn => writer.warn_all(complaints),
    }
    Ok(decoded.object)
}

fn strategic_status(error: &strategic::Error) -> Status {
    let why = error.to_string();
    match error.class() {
        strategic::Class::BadRequest => Status::bad_request(why),
        strategic::Class::Unprocessable => Status::rejected(&why),
        // To upstream this is a failure of its own.
        strategic::Class::Unclassified => {
            let mut status = Status::rejected(&why);
            status.message = why;
            status
        }
    }
}

fn apply_status(error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &Conflict| Cause {
                reason: Some(CauseReason::FieldManagerConflict),
                message: conflict.message(),
                field: conflict.field.clone(),
            };
            Status::apply_conflict(&error.message(), conflicts.iter().map(cause).collect())
        }
        ApplyError::Typed(why) => Status::bad_request(why.clone()),
        other => Status::internal_error(&other.to_string()),
    }
}
