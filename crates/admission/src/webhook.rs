//! What a webhook is told, and what its answer means.
//!
//! Texts are upstream's: people search for them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use sternpost_golang::{json::json_type, strconv::go_quote};
use sternpost_meta::{
    review::ReviewVersion,
    status::{RemoteStatus, Status},
};
use sternpost_patch::{
    body::Reading,
    json_patch::{self, Patch},
};

use crate::request::{Form, Request};

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// Which of the two passes a webhook belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Mutating,
    Validating,
}

/// A question to a webhook.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    pub version: ReviewVersion,
    pub uid: &'a str,
    pub request: &'a Request<'a>,
    pub matched: &'a Form,
    /// In full and in the version that was matched; `None` is null.
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

/// An answer that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    pub warnings: Vec<String>,
    pub audit_annotations: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// With what is to be changed, as it came: see [`read_patch`].
    Allowed(Option<Vec<u8>>),
    Denied(Box<Status>),
}

/// Why there is no answer that could be used: what follows `failed calling webhook "NAME": `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There was none, or none that can be read.
    #[error("failed to call webhook: {0}")]
    Call(String),
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    #[error("unsupported patch type {}", go_quote(.0))]
    PatchType(String),
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
}

fn review_type(version: ReviewVersion) -> String {
    format!("{GROUP}/{}", version.name())
}

impl Review<'_> {
    /// The review as it is sent, its own fields in upstream's order.
    pub fn body(&self) -> Vec<u8> {
        const FIELDS: [&str; 10] = [
            "kind",
            "resource",
            "subResource",
            "requestKind",
            "requestResource",
            "requestSubResource",
            "name",
            "namespace",
            "operation",
            "userInfo",
        ];
        let fields = self.request.to_json(self.matched);
        let mut body = format!(
            "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{}\",\"request\":{{\"uid\":\"{}\"",
            review_type(self.version),
            self.uid
        );
        let mut put = |name: &str, value: &Value| body += &format!(",\"{name}\":{value}");
        for name in FIELDS {
            if let Some(value) = fields.get(name) {
                put(name, value);
            }
        }
        put("object", self.object.unwrap_or(&Value::Null));
        put("oldObject", self.old.unwrap_or(&Value::Null));
        put("dryRun", &self.request.dry_run.into());
        put("options", self.request.options);
        body += "}}";
        body.into_bytes()
    }

    /// Reads what the webhook called `name` answered.
    pub fn read(&self, pass: Pass, name: &str, answer: &[u8]) -> Result<Answer, Unusable> {
        let review = self.read_review(answer).map_err(Unusable::Call)?;
        let response = self.read_response(&review).map_err(Unusable::Call)?;
        self.check(pass, &review, response.as_ref()).map_err(Unusable::Invalid)?;
        let Some(response) = response else {
            return Err(Unusable::Invalid("webhook response was absent".into()));
        };
        let (warnings, audit_annotations) = (response.warnings, response.audit_annotations);
        if !response.allowed {
            let verdict = Verdict::Denied(Box::new(denial(name, response.status)));
            return Ok(Answer { verdict, warnings, audit_annotations });
        }
        let patch = response.patch.filter(|patch| pass == Pass::Mutating && !patch.is_empty());
        if self.version == ReviewVersion::V1 && patch.is_some() && response.patch_type != "JSONPatch" {
            return Err(Unusable::PatchType(response.patch_type));
        }
        Ok(Answer { verdict: Verdict::Allowed(patch), warnings, audit_annotations })
    }

    /// What calls itself something else is not read as a review; what does not say is.
    fn read_review(&self, answer: &[u8]) -> Result<Map<String, Value>, String> {
        let parsed = "couldn't get version/kind; json parse error: ";
        let review = match serde_json::from_slice(answer) {
            Ok(review) => review,
            Err(error) if error.is_eof() => return Err(format!("{parsed}unexpected end of JSON input")),
            // Upstream reads what does not begin like an object as YAML, to which it is a string.
            Err(_) if answer.trim_ascii_start().first() != Some(&b'{') => Value::from(""),
            Err(error) => return Err(format!("{parsed}{error}")),
        };
        let review = match review {
            Value::Object(review) => review,
            Value::Null => Map::new(),
            other => {
                return Err(format!(
                    "{parsed}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string {}; Kind string {} }}",
                    json_type(&other),
                    go_quote("json:\"apiVersion,omitempty\""),
                    go_quote("json:\"kind,omitempty\""),
                ));
            }
        };
        let (api_version, kind) =
            (text(&review, "apiVersion", "", "string"), text(&review, "kind", "", "string"));
        let read = |found: Result<String, String>| found.map_err(|problem| format!("{parsed}{problem}"));
        let wanted = review_type(self.version);
        let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
        let (api_version, kind) = (or(read(api_version)?, &wanted), or(read(kind)?, KIND));
        if (api_version.as_str(), kind.as_str()) == (wanted.as_str(), KIND) {
            return Ok(review);
        }
        Err(match (api_version.as_str(), kind.as_str()) {
            ("v1", "Status") => {
                format!("converting (v1.Status) to ({}.{KIND}): unknown conversion", self.version.name())
            }
            ("admission.k8s.io/v1" | "admission.k8s.io/v1beta1", KIND) => {
                let found = api_version.rsplit('/').next().unwrap_or_default();
                format!("converting ({found}.{KIND}) to ({}.{KIND}): unknown conversion", self.version.name())
            }
            _ => format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                go_quote(&kind),
                go_quote(&api_version)
            ),
        })
    }

    fn read_response(&self, review: &Map<String, Value>) -> Result<Option<Response>, String> {
        let version = self.version.name();
        let Some(response) = typed(
            review,
            "response",
            "AdmissionReview",
            &format!("{version}.AdmissionResponse"),
            Value::as_object,
        )?
        else {
            return Ok(None);
        };
        let place = "AdmissionResponse.response";
        let texts = |values: &[Value], name: &str| {
            let text = |value: &Value| element(value, place, name);
            values.iter().map(text).collect::<Result<Vec<String>, String>>()
        };
        let patch = match response.get("patch") {
            // Webhooks of kube-rs write bytes so; Go reads them.
            Some(Value::Array(bytes)) => {
                Some(bytes.iter().map(|value| byte(value, place, "patch")).collect::<Result<_, _>>()?)
            }
            _ => typed(response, "patch", place, "[]uint8", Value::as_str)?.map(decode_base64).transpose()?,
        };
        let warnings = typed(response, "warnings", place, "[]string", Value::as_array)?;
        let annotations = typed(response, "auditAnnotations", place, "map[string]string", Value::as_object)?;
        let annotation =
            |(key, value): (&String, &Value)| Ok((key.clone(), element(value, place, "auditAnnotations")?));
        let status = typed(response, "status", place, "v1.Status", Value::as_object)?;
        Ok(Some(Response {
            uid: text(response, "uid", place, "types.UID")?,
            allowed: typed(response, "allowed", place, "bool", Value::as_bool)?.unwrap_or_default(),
            patch,
            has_patch_type: response.get("patchType").is_some_and(|value| !value.is_null()),
            patch_type: text(response, "patchType", place, &format!("{version}.PatchType"))?,
            status: status.map(read_status).transpose()?.unwrap_or_default(),
            warnings: warnings.map(|values| texts(values, "warnings")).transpose()?.unwrap_or_default(),
            audit_annotations: annotations
                .map(|values| values.iter().map(annotation).collect::<Result<_, String>>())
                .transpose()?
                .unwrap_or_default(),
        }))
    }

    /// The old version asks for little.
    fn check(
        &self,
        pass: Pass,
        review: &Map<String, Value>,
        response: Option<&Response>,
    ) -> Result<(), String> {
        let Some(response) = response else { return Err("webhook response was absent".into()) };
        let has_patch = response.patch.as_ref().is_some_and(|patch| !patch.is_empty());
        if self.version == ReviewVersion::V1beta1 {
            return Ok(());
        }
        if response.uid != self.uid {
            return Err(format!(
                "expected response.uid={}, got {}",
                go_quote(self.uid),
                go_quote(&response.uid)
            ));
        }
        let said = |name: &str| review.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (said("apiVersion"), said("kind"));
        let wanted = review_type(self.version);
        if (api_version, kind) != (wanted.as_str(), KIND) {
            let found =
                if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
            return Err(format!(
                "expected webhook response of {wanted}, Kind={KIND}, got {found}, Kind={kind}"
            ));
        }
        match (pass, has_patch, response.has_patch_type) {
            (Pass::Validating, true, _) => Err("validating webhook may not return response.patch".into()),
            (Pass::Validating, false, true) => {
                Err("validating webhook may not return response.patchType".into())
            }
            (Pass::Mutating, true, false) => {
                Err("webhook returned response.patch but not response.patchType".into())
            }
            (Pass::Mutating, false, true) => {
                Err("webhook returned response.patchType but not response.patch".into())
            }
            _ => Ok(()),
        }
    }
}

/// Reads the patch of an answer.
pub fn read_patch(patch: &[u8]) -> Result<Patch, Unusable> {
    // Upstream's library reads it whole before it looks at the operations.
    let value: Value =
        serde_json::from_slice(patch).map_err(|error| Unusable::Patch(syntax_error(patch, &error)))?;
    match value {
        Value::Null => return Ok(Patch::default()),
        Value::Array(_) => {}
        other => {
            let found = json_type(&other);
            let problem = format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch");
            return Err(Unusable::Patch(problem));
        }
    }
    let body = json_patch::decode(patch, Reading::Lenient);
    body.map(|body| body.patch).map_err(|error| Unusable::Patch(error.to_string()))
}

/// Applies the patch of an answer to the object that was sent. What does not apply is the fault
/// of the server, as upstream sees it.
pub fn apply_patch(object: Value, patch: &Patch) -> Result<Value, Status> {
    json_patch::apply(object, patch).map_err(|error| Status::internal_error(&error.upstream()))
}

/// What Go says of JSON that is none. Only the commonest are told as Go does.
fn syntax_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let trimmed = text.trim_ascii_start();
    for literal in ["true", "false", "null"] {
        if trimmed.first() != literal.as_bytes().first() {
            continue;
        }
        let mut pairs = trimmed.iter().zip(literal.bytes());
        if let Some((found, expected)) = pairs.find(|(found, expected)| **found != *expected) {
            return format!(
                "invalid character {} in literal {literal} (expecting '{}')",
                go_char(*found),
                char::from(expected)
            );
        }
    }
    match trimmed.first() {
        Some(first) if !b"{[\"-0123456789tfn".contains(first) => {
            format!("invalid character {} looking for beginning of value", go_char(*first))
        }
        _ => error.to_string(),
    }
}

fn go_char(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".into(),
        b'"' => "'\"'".into(),
        byte if byte.is_ascii_graphic() || byte == b' ' => format!("'{}'", char::from(byte)),
        byte => format!("'\\x{byte:02x}'"),
    }
}

/// `response`, typed.
struct Response {
    uid: String,
    allowed: bool,
    patch: Option<Vec<u8>>,
    has_patch_type: bool,
    patch_type: String,
    status: Said,
    warnings: Vec<String>,
    audit_annotations: Vec<(String, String)>,
}

/// The status of a denial.
#[derive(Default)]
struct Said {
    message: String,
    reason: String,
    code: i64,
    details: Option<Value>,
    metadata: Value,
}

fn read_status(status: &Map<String, Value>) -> Result<Said, String> {
    let place = "Status.response.status";
    let code = typed(status, "code", place, "int32", |code| {
        code.as_i64().filter(|code| i32::try_from(*code).is_ok())
    })?;
    let details = typed(status, "details", place, "v1.StatusDetails", Value::as_object)?;
    let metadata = typed(status, "metadata", place, "v1.ListMeta", Value::as_object)?;
    Ok(Said {
        message: text(status, "message", place, "string")?,
        reason: text(status, "reason", place, "v1.StatusReason")?,
        code: code.unwrap_or_default(),
        details: details.map(known_details),
        metadata: metadata.cloned().map_or(Value::Null, Value::Object),
    })
}

/// The fields that details of a status have, in so far as they are of their types.
fn known_details(details: &Map<String, Value>) -> Value {
    let mut known = Map::new();
    for name in ["name", "group", "kind", "uid"] {
        if let Some(text) =
            details.get(name).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        {
            known.insert(name.into(), text.clone());
        }
    }
    let cause = |cause: &Value| {
        let mut known = Map::new();
        for name in ["reason", "message", "field"] {
            let text = cause.get(name).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
            known.extend(text.map(|text| (name.to_owned(), text.clone())));
        }
        Value::Object(known)
    };
    if let Some(causes) = details.get("causes").and_then(Value::as_array).filter(|causes| !causes.is_empty())
    {
        known.insert("causes".into(), causes.iter().map(cause).collect());
    }
    if let Some(seconds) =
        details.get("retryAfterSeconds").filter(|value| value.as_i64().is_some_and(|it| it != 0))
    {
        known.insert("retryAfterSeconds".into(), seconds.clone());
    }
    Value::Object(known)
}

/// A denial is told with the code and reason the webhook gives, if that is one of an error.
fn denial(name: &str, said: Said) -> Status {
    let denied = format!("admission webhook {} denied the request", go_quote(name));
    let message = match (said.message.as_str(), said.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    // Beyond three digits there are no codes.
    let code = u16::try_from(said.code).ok().filter(|code| (400..1000).contains(code)).unwrap_or(400);
    Status::told(
        code,
        message,
        RemoteStatus { reason: said.reason, details: said.details, metadata: said.metadata },
    )
}

/// A member of a type, if it is there. The text is Go's.
fn typed<'v, T>(
    object: &'v Map<String, Value>,
    name: &str,
    place: &str,
    go: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    read(value).map(Some).ok_or_else(|| wrong_type(value, place, name, go))
}

fn text(object: &Map<String, Value>, name: &str, place: &str, go: &str) -> Result<String, String> {
    typed(object, name, place, go, Value::as_str).map(|text| text.unwrap_or_default().to_owned())
}

/// A string in a list or map; null is an empty one.
fn element(value: &Value, place: &str, name: &str) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(other, place, name, "string")),
    }
}

/// A byte written as a number; null is zero.
fn byte(value: &Value, place: &str, name: &str) -> Result<u8, String> {
    match value {
        Value::Null => Ok(0),
        Value::Number(number) => {
            number.as_u64().and_then(|number| u8::try_from(number).ok()).ok_or_else(|| {
                format!(
                    "json: cannot unmarshal number {number} into Go struct field {place}.{name} of type uint8"
                )
            })
        }
        other => Err(wrong_type(other, place, name, "uint8")),
    }
}

fn wrong_type(value: &Value, place: &str, name: &str, go: &str) -> String {
    let found = json_type(value);
    format!("json: cannot unmarshal {found} into Go struct field {place}.{name} of type {go}")
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    // Go skips line breaks.
    let text: String = text.chars().filter(|char| !matches!(char, '\n' | '\r')).collect();
    STANDARD.decode(&text).map_err(|error| {
        let place = match error {
            base64::DecodeError::InvalidByte(place, _) => place,
            _ => text.len().saturating_sub(text.len() % 4),
        };
        format!("illegal base64 data at input byte {place}")
    })
}

#[cfg(test)]
mod tests;
