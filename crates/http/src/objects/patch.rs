//! PATCH requests: what the body is, and what became of it.

use http::header;
use serde_json::Value;
use sternpost_golang::json::json_type;
use sternpost_golang::json::syntax as json_syntax;
use sternpost_meta::{gvk::GroupVersion, status::Status};
use sternpost_patch::{
    body::{self, BodyError, Reading},
    json_patch,
};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{
    Failure, Part, Patch, PatchRequest, PatchType, ScaleChange, Target, Validation, Verbs, served::Served,
};

use super::{Answer, body_in::repeated_key, options, representation::Shape, write_answer};
use crate::request::Request;

/// What kind of patch the body is.
pub fn media_type(request: &Request, served: &Served) -> Result<PatchType, Status> {
    let header = request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = header.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let types = served.patch_types();
    types.iter().copied().find(|known| known.media_type() == media).ok_or_else(|| {
        if !served.is_installed() {
            let types: Vec<&str> = types.iter().map(|known| known.media_type()).collect();
            return Status::unsupported_media_type(&types);
        }
        // Upstream's router says no more.
        let mut status = Status::unsupported_media_type(&[]);
        status.message = "415: Unsupported Media Type".into();
        status.details = Some(Box::default());
        status
    })
}

/// Answers a PATCH of an object, itself or through a subresource.
pub async fn respond(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    subresource: &str,
    part: Part,
) -> Result<Answer, Failure> {
    let kind = media_type(request, target.served)?;
    let shape = Shape::negotiate(request, target.served)?;
    let (options, force) = options::patch(request, kind == PatchType::Apply)?;
    let patch = read(request, kind, target.served, options.validation, force)?;
    let written = verbs.patch(target, &patch, part, options.writer(subresource)).await?;
    Ok(write_answer(request, target.served, shape, &written))
}

/// Answers a PATCH of the scale of an object.
pub async fn respond_scale(
    verbs: &Verbs,
    request: &Request,
    target: Target<'_>,
    scale: &Served,
) -> Result<Answer, Failure> {
    let kind = media_type(request, target.served)?;
    let shape = Shape::negotiate(request, scale)?;
    let (options, force) = options::patch(request, kind == PatchType::Apply)?;
    let patch = read(request, kind, scale, options.validation, force)?;
    let change = ScaleChange::Patch(&patch);
    let written = verbs.write_scale(target, scale, change, options.writer("scale")).await?;
    Ok(write_answer(request, scale, shape, &written))
}

fn read(
    request: &Request,
    kind: PatchType,
    served: &Served,
    validation: Validation,
    force: bool,
) -> Result<PatchRequest, Status> {
    let reading = if validation == Validation::Ignore { Reading::Lenient } else { Reading::Checked };
    let bytes = &request.body;
    let (patch, complaints) = match kind {
        PatchType::Json => {
            let body = json_patch::decode(bytes, reading).map_err(|error| match error {
                json_patch::DecodeError::TooManyOperations(_) => Status::too_large(&error.to_string()),
                json_patch::DecodeError::Body(error) => unreadable(error, bytes),
            })?;
            (Patch::Json(body.patch), body.complaints)
        }
        PatchType::Merge => {
            let body = body::merge_patch(bytes, reading).map_err(|error| unreadable(error, bytes))?;
            (Patch::Merge(body.patch), body.complaints)
        }
        PatchType::Strategic => {
            let body = body::strategic(bytes).map_err(|error| unreadable(error, bytes))?;
            (Patch::Strategic(body.patch), body.complaints)
        }
        PatchType::Apply => {
            let (config, complaints) = configuration(bytes, served)?;
            (Patch::Apply { config, force }, complaints)
        }
    };
    Ok(PatchRequest { patch, complaints, validation })
}

/// The syntax is described as Go's decoder does.
fn unreadable(error: BodyError, bytes: &[u8]) -> Status {
    let error = match error {
        BodyError::Syntax { reading, error } => {
            BodyError::Syntax { reading, error: json_syntax::check(bytes).err().unwrap_or(error) }
        }
        other => other,
    };
    Status::bad_request(error.to_string())
}

/// What a manager applies: YAML, and so JSON too.
fn configuration(bytes: &[u8], served: &Served) -> Result<(Value, Vec<String>), Status> {
    // Most clients send JSON, which is read much faster as what it is. Whatever is not
    // plain about it is left to the reader of YAML, whose words these errors are in.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(read) = body::strategic(bytes)
        && read.complaints.is_empty()
    {
        return checked(Value::Object(read.patch), served).map(|config| (config, Vec::new()));
    }
    let bad = |why: &str| Status::bad_request(format!("error decoding YAML: {why}"));
    let text =
        std::str::from_utf8(bytes).map_err(|_| bad("error converting YAML to JSON: yaml: invalid UTF-8"))?;
    let document = sternpost_yaml::read(text)
        .map_err(|error| bad(&format!("error converting YAML to JSON: yaml: {error}")))?;
    if !matches!(document.value, Value::Object(_) | Value::Null) {
        let found = json_type(&document.value);
        return Err(bad(&format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    let repeated: Vec<String> = document.repeated.iter().map(repeated_key).collect();
    checked(document.value, served).map(|config| (config, repeated))
}

/// Says what the URL says, and not who owns what.
fn checked(mut config: Value, served: &Served) -> Result<Value, Status> {
    // What cannot be read as a version is of no type at all.
    let (found, kind) = match GroupVersion::read(config.text("apiVersion")) {
        Ok(found) => (found.unwrap_or_else(|| GroupVersion::new("", "")), config.text("kind")),
        Err(_) => (GroupVersion::new("", ""), ""),
    };
    if (&found, kind) != (&served.resource.gv, served.kind()) {
        let GroupVersion { group, version } = found;
        return Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    config.set("apiVersion", found.to_string());
    if config.field("metadata").get_field("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(config)
}
