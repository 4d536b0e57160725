//! Request bodies: JSON, YAML or protobuf, to a typed object.

use http::header;
use serde_json::Value;
use sternpost_golang::json::syntax::{self as json_syntax, Top};
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::{Errors, Path},
    gvk::GroupVersion,
    status::Status,
};
use sternpost_registry::object::{Fields, FieldsMut};
use sternpost_verbs::{
    DeleteOptions, Propagation,
    served::{Served, is_known_kind, no_kind},
    typed,
};

use sternpost_yaml::Problem;

use super::options::{Validation, check_dry_run};
use crate::request::Request;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The object in the body. The client is warned of fields that the kind does not have.
pub fn object(request: &Request, served: &Served, validation: Validation) -> Result<Value, Status> {
    let kind = served.kind();
    let media = media_type(request)?;
    if media == PROTOBUF && served.is_unstructured() {
        return Err(Status::unsupported_media_type(&[JSON, YAML]));
    }
    let (value, complaints) = match media {
        JSON => decode_json(&request.body, served)?,
        YAML => decode_yaml(&request.body, served, validation)?,
        _ => {
            let expected = served.resource.gvk();
            let value = sternpost_wire::object::decode(&request.body, Some(&expected))
                .map_err(|error| unreadable(served, &protobuf_text(&error), &request.body))?;
            check_kind(&value, served, &request.body)?;
            (value, Vec::new())
        }
    };
    match validation {
        Validation::Ignore => {}
        Validation::Warn => request.warnings.extend(complaints),
        Validation::Strict if complaints.is_empty() => {}
        Validation::Strict => {
            return Err(Status::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {}",
                go_quote(&served.resource.gv.version),
                complaints.join(", ")
            )));
        }
    }
    Ok(served.to_stored(value))
}

fn decode_json(bytes: &[u8], served: &Served) -> Result<(Value, Vec<String>), Status> {
    // What can be read as the kind is read once. Whatever else a body is, upstream asks
    // first whether it is JSON, then what it says it is.
    if !served.is_unstructured()
        && let Ok(decoded) = served.decode(bytes)
        && decoded.object.is_object()
    {
        check_kind(&decoded.object, served, bytes)?;
        return Ok((decoded.object, decoded.complaints));
    }
    let type_meta = type_meta(bytes).map_err(|why| unreadable(served, &why, bytes))?;
    let text = || String::from_utf8_lossy(bytes).into_owned();
    check_type_meta(type_meta.api_version.as_deref(), type_meta.kind.as_deref(), served, bytes, text)?;
    // To Go `null` is an object without fields.
    let bytes = if bytes.trim_ascii() == b"null" { b"{}".as_slice() } else { bytes };
    let decoded = served.decode(bytes).map_err(|error| unfit(served, &error.0))?;
    Ok((decoded.object, decoded.complaints))
}

/// What a body says of itself, before it is read as the kind. `json` is its text in JSON.
fn check_type_meta(
    api_version: Option<&str>,
    kind: Option<&str>,
    served: &Served,
    body: &[u8],
    json: impl FnOnce() -> String,
) -> Result<(), Status> {
    if !served.is_unstructured() {
        return check_type(api_version, kind, served, body);
    }
    // It must say what it is. One of another kind is for validation to refuse.
    if kind.unwrap_or_default().is_empty() {
        return Err(unreadable(served, &format!("Object 'Kind' is missing in '{}'", json()), body));
    }
    let found = GroupVersion::read(api_version.unwrap_or_default())
        .map_err(|error| unreadable(served, &error.to_string(), body))?;
    let expected = &served.resource.gv;
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    let found = found.map(|found| found.to_string()).unwrap_or_default();
    Err(Status::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    )))
}

/// What a JSON document says of itself.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: Option<String>,
    kind: Option<String>,
}

/// The error is that of Go's decoder.
fn type_meta(bytes: &[u8]) -> Result<TypeMeta, String> {
    const GO_TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let prefix = "couldn't get version/kind; json parse error";
    let document = json_syntax::check(bytes).map_err(|error| format!("{prefix}: {error}"))?;
    match document.top {
        Top::Null => return Ok(TypeMeta::default()),
        Top::Object => {}
        other => {
            let found = other.name();
            return Err(format!("{prefix}: json: cannot unmarshal {found} into Go value of type {GO_TYPE}"));
        }
    }
    serde_json::from_slice(bytes).map_err(|error| {
        // The syntax is right, so one of the two is not a string.
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let wrong = ["apiVersion", "kind"].into_iter().find_map(|field| {
            let found = match value.get(field)? {
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
                Value::Null | Value::String(_) => return None,
            };
            Some(format!("json: cannot unmarshal {found} into Go struct field .{field} of type string"))
        });
        format!("{prefix}: {}", wrong.unwrap_or_else(|| error.to_string()))
    })
}

fn decode_yaml(
    bytes: &[u8],
    served: &Served,
    validation: Validation,
) -> Result<(Value, Vec<String>), Status> {
    let text = std::str::from_utf8(bytes).map_err(|_| unreadable(served, "yaml: invalid UTF-8", bytes))?;
    let document =
        sternpost_yaml::read(text).map_err(|error| unreadable(served, &format!("yaml: {error}"), bytes))?;
    if let Some(line) = document.escaped_slash {
        let place = if line > 1 { format!("line {line}: ") } else { String::new() };
        return Err(unreadable(served, &format!("yaml: {place}found unknown escape character"), bytes));
    }
    let (api_version, kind) = (document.value.text("apiVersion"), document.value.text("kind"));
    check_type_meta(Some(api_version), Some(kind), served, bytes, || document.value.to_string())?;
    let mut complaints: Vec<String> = document.repeated.iter().map(repeated_key).collect();
    if validation == Validation::Strict && !complaints.is_empty() {
        // What the reader of YAML finds is one error, and many warnings.
        complaints = vec![format!("yaml: unmarshal errors:\n  {}", complaints.join("\n  "))];
    }
    let decoded = served.decode_value(document.value.clone()).map_err(|error| unfit(served, &error.0))?;
    complaints.extend(decoded.complaints);
    Ok((decoded.object, complaints))
}

/// A key that stands twice in a mapping, in upstream's words.
pub fn repeated_key(error: &sternpost_yaml::Error) -> String {
    match &error.problem {
        Problem::DuplicateKey { key, value_line } => {
            format!("line {value_line}: key {} already set in map", go_quote(key))
        }
        other => format!("line {}: {other}", error.line),
    }
}

/// What a body says of itself must be what the URL says.
fn check_kind(value: &Value, served: &Served, body: &[u8]) -> Result<(), Status> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    check_type(text("apiVersion"), text("kind"), served, body)
}

fn check_type(
    api_version: Option<&str>,
    kind: Option<&str>,
    served: &Served,
    body: &[u8],
) -> Result<(), Status> {
    let expected = &served.resource.gv;
    let found = GroupVersion::read(api_version.unwrap_or_default())
        .map_err(|error| unreadable(served, &error.to_string(), body))?;
    let found = found.as_ref().unwrap_or(expected);
    let wanted = served.kind();
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or(wanted);
    if (found, kind) == (expected, wanted) {
        return Ok(());
    }
    let GroupVersion { group, version } = found;
    if version.is_empty() {
        let body = String::from_utf8_lossy(body);
        return Err(Status::bad_request(format!(
            "{kind} in version \"\" cannot be handled as a {wanted}: Object 'apiVersion' is missing in '{body}'"
        )));
    }
    let gvk = found.kind(kind);
    let known = is_known_kind(&gvk);
    // Versions of one kind, and the two groups of events, are one thing to upstream.
    let family = |group: &str| if group == "events.k8s.io" { String::new() } else { group.to_owned() };
    if known && kind == wanted && family(group) == family(served.group()) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({found}) does not match the expected API version ({expected})"
        )));
    }
    let why = if known {
        let package = go_package(served.group());
        format!("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion")
    } else {
        no_kind(kind, &found.to_string())
    };
    Err(Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {wanted}: {why}",
        go_quote(version)
    )))
}

/// What upstream's code calls a group, which its texts show.
pub fn go_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        first => first,
    }
}

/// Upstream's words where it has them.
fn protobuf_text(error: &sternpost_wire::object::DecodeError) -> String {
    use sternpost_wire::object::DecodeError;
    match error {
        DecodeError::Magic => {
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".into()
        }
        DecodeError::Truncated => "unexpected EOF".into(),
        other => other.to_string(),
    }
}

fn unfit(served: &Served, why: &str) -> Status {
    let kind = served.kind();
    let version = &served.resource.gv.version;
    Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {kind}: {why}",
        go_quote(version)
    ))
}

/// Nothing could be told of the body; upstream shows its beginning.
fn unreadable(served: &Served, why: &str, body: &[u8]) -> Status {
    const SHOWN: usize = 30;
    let head = body.get(..SHOWN.min(body.len())).unwrap_or_default();
    let shown = match std::str::from_utf8(head) {
        Ok("") => "<empty>".to_owned(),
        Ok(text) if text.starts_with('{') => text.to_owned(),
        _ => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let more = if body.len() > SHOWN { " ..." } else { "" };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({shown}{more})",
        served.kind()
    ))
}

fn media_type(request: &Request) -> Result<&'static str, Status> {
    let header =
        request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = header.split(';').next().unwrap_or_default().trim();
    [JSON, YAML, PROTOBUF]
        .into_iter()
        .find(|known| media.is_empty() || media.eq_ignore_ascii_case(known))
        .ok_or_else(|| Status::unsupported_media_type(&[JSON, YAML, PROTOBUF]))
}

/// Of a deletion: whether what cannot be read is deleted, too.
const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// DELETE takes its options from the body, or from the query if there is none.
pub fn delete_options(request: &Request) -> Result<DeleteOptions, Status> {
    let value = if request.body.is_empty() { from_query(request)? } else { from_body(request)? };
    let ignore_read_error = value.flag(IGNORE_READ_ERROR);
    Ok(DeleteOptions { ignore_read_error, ..read_delete_options(&value)? })
}

/// Options of a deletion, wherever they stood, but for what only a DELETE may ask for.
pub fn read_delete_options(value: &Value) -> Result<DeleteOptions, Status> {
    let mut errors = Errors::default();
    let dry_run: Vec<&str> = value.items("dryRun").iter().filter_map(Value::as_str).collect();
    check_dry_run(&dry_run, &mut errors);
    let path = Path::new("propagationPolicy");
    let mut propagation = match value.text("propagationPolicy") {
        "" => None,
        "Orphan" => Some(Propagation::Orphan),
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        other => {
            errors.not_supported(path, other, &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
    };
    if let Some(orphan) = value.field("orphanDependents").as_bool() {
        if value.has("propagationPolicy") {
            errors.invalid(
                path,
                value.field("propagationPolicy"),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        propagation = Some(if orphan { Propagation::Orphan } else { Propagation::Background });
    }
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors.into_causes()));
    }
    let precondition = |name: &str| value.field("preconditions").get_field(name)?.as_str().map(str::to_owned);
    Ok(DeleteOptions {
        orphan_dependents: value.field("orphanDependents").as_bool(),
        grace_period_seconds: value.int("gracePeriodSeconds"),
        propagation,
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        dry_run: !dry_run.is_empty(),
        ignore_read_error: false,
    })
}

fn from_body(request: &Request) -> Result<Value, Status> {
    match media_type(request)? {
        JSON => {
            let type_meta = type_meta(&request.body).map_err(Status::bad_request)?;
            match type_meta.kind.as_deref().unwrap_or_default() {
                "" | "DeleteOptions" => {}
                other => {
                    let version = type_meta.api_version.as_deref().unwrap_or_default();
                    return Err(Status::bad_request(no_kind(other, version)));
                }
            }
            typed::decode(&request.body, DELETE_OPTIONS)
                .map(|decoded| decoded.object)
                .map_err(|error| Status::bad_request(error.0))
        }
        YAML => {
            let text = std::str::from_utf8(&request.body).unwrap_or_default();
            sternpost_yaml::from_str(text).map_err(|error| Status::bad_request(error.to_string()))
        }
        _ => sternpost_wire::object::decode(&request.body, None)
            .map_err(|error| Status::bad_request(error.to_string())),
    }
}

fn from_query(request: &Request) -> Result<Value, Status> {
    let mut value = Value::Object(serde_json::Map::new());
    let query = &request.query;
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    value.set("dryRun", dry_run);
    if let Some(policy) = query.first("propagationPolicy") {
        value.set("propagationPolicy", policy);
    }
    if let Some(seconds) = super::options::integer(request, "gracePeriodSeconds")? {
        value.set("gracePeriodSeconds", seconds);
    }
    if query.has("orphanDependents") {
        value.set("orphanDependents", super::options::flag(request, "orphanDependents"));
    }
    if query.has(IGNORE_READ_ERROR) {
        value.set(IGNORE_READ_ERROR, super::options::flag(request, IGNORE_READ_ERROR));
    }
    Ok(value)
}
