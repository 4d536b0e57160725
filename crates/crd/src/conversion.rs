//! Conversion by webhook, as far as it is data: what is sent and what an answer must be.
//!
//! [`Review::new`] takes the objects that are to become one version, [`Review::body`] is what is
//! posted, [`Review::read`] checks the answer and gives the converted objects. A webhook may change
//! what it likes below `apiVersion`, `kind` and `metadata`, and of the metadata labels and annotations;
//! everything else of the metadata is what it was. Before, an object is completed by the schema of the
//! version it is in ([`complete`](crate::object::complete)); after, by the new one's it is only
//! trimmed ([`trim`](crate::object::trim)).

use serde_json::{Map, Value, json};
use sternpost_golang::{
    fmt::type_name,
    json::{go_json, json_type},
    strconv::go_quote,
};
use sternpost_meta::{field::Errors, format, review::ReviewVersion};

use crate::{
    definition::{Conversion, Definition},
    object::{MAX_ANNOTATIONS, read_json},
};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// How long a webhook has to answer. `clientConfig` cannot change it.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A question to a webhook. All objects are of one kind and none is of the version asked for.
#[derive(Debug)]
pub struct Review<'a> {
    version: ReviewVersion,
    uid: &'a str,
    desired: &'a str,
    objects: &'a [Value],
}

/// A conversion that did not happen. The text is the whole message of a status 500 that has no
/// reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The call failed, or the answer is not one, or says that it failed.
    #[error("conversion webhook for {from} failed: {problem}")]
    Failed { from: String, problem: String },
    #[error("conversion webhook for {from} returned {returned} objects, expected {expected}")]
    Count { from: String, returned: usize, expected: usize },
    /// An object that cannot be read at all.
    #[error("{0}")]
    Object(String),
    #[error("conversion webhook for {from} returned invalid object at index {index}: {problem}")]
    Type { from: String, index: usize, problem: String },
    #[error("conversion webhook for {from} returned invalid object: {problem}")]
    Identity { from: String, problem: String },
    #[error("conversion webhook for {from} returned invalid metadata: {problem}")]
    Metadata { from: String, problem: String },
}

/// The first of `conversionReviewVersions` that there is. Validation asks for one.
pub fn review_version(definition: &Definition) -> Option<ReviewVersion> {
    let Conversion::Webhook(webhook) = &definition.conversion else { return None };
    let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
    ReviewVersion::first_of(versions.into_iter().flatten().filter_map(Value::as_str))
}

fn review_type(version: ReviewVersion) -> String {
    format!("{GROUP}/{}", version.name())
}

impl<'a> Review<'a> {
    /// `desired` is an `apiVersion` of the definition, `uid` is new for each review.
    pub fn new(version: ReviewVersion, uid: &'a str, desired: &'a str, objects: &'a [Value]) -> Self {
        Self { version, uid, desired, objects }
    }

    /// What is posted. The empty response stands there because it does in upstream's.
    pub fn body(&self) -> Vec<u8> {
        let Self { version, uid, desired, objects } = self;
        json!({
            "kind": KIND,
            "apiVersion": review_type(*version),
            "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        })
        .to_string()
        .into_bytes()
    }

    /// The objects of an answer, in the order they were sent.
    pub fn read(&self, answer: &[u8]) -> Result<Vec<Value>, ConversionError> {
        let converted = self.response(answer).map_err(|problem| self.failed(problem))?;
        if converted.len() != self.objects.len() {
            return Err(ConversionError::Count {
                from: self.from(),
                returned: converted.len(),
                expected: self.objects.len(),
            });
        }
        for object in &converted {
            check_readable(object).map_err(ConversionError::Object)?;
        }
        let sent = self.objects.iter().enumerate();
        sent.zip(converted).map(|((index, sent), converted)| self.settle(index, sent, converted)).collect()
    }

    /// A call that failed.
    pub fn failed(&self, problem: impl Into<String>) -> ConversionError {
        ConversionError::Failed { from: self.from(), problem: problem.into() }
    }

    /// The kind as it was sent: `stable.example.com/v1, Kind=Widget`.
    fn from(&self) -> String {
        let first = self.objects.first().unwrap_or(&Value::Null);
        format!("{}, Kind={}", text(first, "apiVersion"), text(first, "kind"))
    }

    fn response(&self, answer: &[u8]) -> Result<Vec<Value>, String> {
        let review = read_review(answer)?;
        self.check_type(&review)?;
        let version = self.version.name();
        let response = field(&review, "response");
        let parent = format!("{KIND}.response");
        let response = typed(response, Value::as_object, &parent, &format!("{version}.ConversionResponse"))?;
        let member = |name: &str| response.map_or(&Value::Null, |response| field(response, name));
        let place = |name: &str| format!("ConversionResponse.response.{name}");
        let uid = typed(member("uid"), Value::as_str, &place("uid"), "types.UID")?.unwrap_or_default();
        let objects = typed(
            member("convertedObjects"),
            Value::as_array,
            &place("convertedObjects"),
            "[]runtime.RawExtension",
        )?;
        let result = typed(member("result"), Value::as_object, &place("result"), "v1.Status")?;
        let said = |name: &str| {
            let value = result.map_or(&Value::Null, |result| field(result, name));
            typed(value, Value::as_str, &format!("Status.response.result.{name}"), "string")
        };
        let (status, message) = (said("status")?.unwrap_or_default(), said("message")?.unwrap_or_default());

        if self.version == ReviewVersion::V1 {
            self.check_named(&review)?;
        }
        if response.is_none() {
            return Err("no response provided".into());
        }
        // Webhooks of the old version did not echo it.
        if self.version == ReviewVersion::V1 && uid != self.uid {
            return Err(format!("expected response.uid={}, got {}", go_quote(self.uid), go_quote(uid)));
        }
        if status != "Success" {
            return Err(if message.is_empty() {
                format!("response.result.status was '{status}', not 'Success'")
            } else {
                message.to_owned()
            });
        }
        Ok(objects.cloned().unwrap_or_default())
    }

    /// What calls itself something else is not read as a review; what does not say is.
    fn check_type(&self, review: &Map<String, Value>) -> Result<(), String> {
        let wanted = review_type(self.version);
        let or = |name: &str, default: &str| {
            let value = field(review, name).as_str().unwrap_or_default();
            if value.is_empty() { default.to_owned() } else { value.to_owned() }
        };
        let (api_version, kind) = (or("apiVersion", &wanted), or("kind", KIND));
        if api_version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        let other = match (api_version.as_str(), kind.as_str()) {
            (api_version, KIND) if api_version == wanted => return Ok(()),
            ("apiextensions.k8s.io/v1", KIND) => "v1.ConversionReview",
            ("apiextensions.k8s.io/v1beta1", KIND) => "v1beta1.ConversionReview",
            ("v1", "Status") => "v1.Status",
            _ => {
                return Err(format!(
                    "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                    go_quote(&kind),
                    go_quote(&api_version)
                ));
            }
        };
        Err(format!("converting ({other}) to ({}.{KIND}): unknown conversion", self.version.name()))
    }

    /// A review of v1 must say what it is.
    fn check_named(&self, review: &Map<String, Value>) -> Result<(), String> {
        let say = |name: &str| field(review, name).as_str().unwrap_or_default();
        let (api_version, kind) = (say("apiVersion"), say("kind"));
        if !api_version.is_empty() && !kind.is_empty() {
            return Ok(());
        }
        let api_version = if api_version.is_empty() { "/" } else { api_version };
        Err(format!(
            "expected webhook response of {}, Kind={KIND}, got {api_version}, Kind={kind}",
            review_type(self.version)
        ))
    }

    /// One object: of the version and kind asked for, the same object, its metadata as it was.
    fn settle(&self, index: usize, sent: &Value, mut converted: Value) -> Result<Value, ConversionError> {
        let type_problem = |problem| ConversionError::Type { from: self.from(), index, problem };
        let api_version = text(&converted, "apiVersion");
        if api_version != self.desired {
            let desired = self.desired;
            return Err(type_problem(format!(
                "invalid groupVersion (expected {desired}, received {api_version})"
            )));
        }
        let (expected, kind) = (text(sent, "kind"), text(&converted, "kind"));
        if kind != expected {
            return Err(type_problem(format!("invalid kind (expected {expected}, received {kind})")));
        }
        let mut metadata = sent.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        let empty = Map::new();
        let changed = converted.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (name, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let say = |of: &Map<String, Value>| field(of, name).as_str().unwrap_or_default().to_owned();
            let (before, after) = (say(&metadata), say(changed));
            if before != after {
                let problem = format!("must have the same {shown}: {before} != {after}");
                return Err(ConversionError::Identity { from: self.from(), problem });
            }
        }
        for (name, check) in [("labels", check_labels as fn(&_, &mut _)), ("annotations", check_annotations)]
        {
            let map = read_map(changed, name, check)
                .map_err(|problem| ConversionError::Metadata { from: self.from(), problem })?;
            match map {
                Some(map) => metadata.insert(name.into(), Value::Object(map)),
                None => metadata.remove(name),
            };
        }
        if let Value::Object(fields) = &mut converted {
            fields.insert("metadata".into(), Value::Object(metadata));
        }
        Ok(converted)
    }
}

fn read_review(answer: &[u8]) -> Result<Map<String, Value>, String> {
    let parsed = "couldn't get version/kind; json parse error: ";
    let review = match read_json(answer) {
        Ok(json) => json.value,
        Err(error) if error.is_eof() => return Err(format!("{parsed}unexpected end of JSON input")),
        // Upstream reads what does not begin like an object as YAML, to which all of it is a string.
        Err(_) if answer.trim_ascii_start().first() != Some(&b'{') => Value::from(""),
        Err(error) => return Err(format!("{parsed}{error}")),
    };
    match review {
        Value::Object(review) => {
            for name in ["apiVersion", "kind"] {
                typed(field(&review, name), Value::as_str, &format!(".{name}"), "string")
                    .map_err(|problem| format!("{parsed}{problem}"))?;
            }
            Ok(review)
        }
        Value::Null => Ok(Map::new()),
        other => Err(format!(
            "{parsed}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string {}; Kind string {} }}",
            json_type(&other),
            go_quote("json:\"apiVersion,omitempty\""),
            go_quote("json:\"kind,omitempty\""),
        )),
    }
}

/// A value as one type; null is none. The text is Go's.
fn typed<'v, T>(
    value: &'v Value,
    read: impl Fn(&'v Value) -> Option<T>,
    place: &str,
    go: &str,
) -> Result<Option<T>, String> {
    if value.is_null() {
        return Ok(None);
    }
    match read(value) {
        Some(value) => Ok(Some(value)),
        None => Err(format!(
            "json: cannot unmarshal {} into Go struct field {place} of type {go}",
            json_type(value)
        )),
    }
}

/// An object must be one, and of a kind.
fn check_readable(object: &Value) -> Result<(), String> {
    match object {
        Value::Null => Err("unexpected end of JSON input".into()),
        Value::Object(_) => {
            let readable =
                !text(object, "kind").is_empty() && text(object, "apiVersion").matches('/').count() < 2;
            if readable { Ok(()) } else { Err(format!("Object 'Kind' is missing in '{}'", go_json(object))) }
        }
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(other)
        )),
    }
}

/// Labels or annotations of a converted object; an empty map is none.
fn read_map(
    metadata: &Map<String, Value>,
    name: &str,
    check: fn(&Map<String, Value>, &mut Errors),
) -> Result<Option<Map<String, Value>>, String> {
    let entries = match field(metadata, name) {
        Value::Null => return Ok(None),
        Value::Object(entries) => entries,
        other => {
            return Err(format!("invalid metadata.{name} of type {} in converted object", type_name(other)));
        }
    };
    if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
        let found = type_name(value);
        return Err(format!("metadata.{name}[{key}] must be a string, but is {found} in converted object"));
    }
    let mut errors = Errors::default();
    check(entries, &mut errors);
    if !errors.is_empty() {
        return Err(errors.to_string());
    }
    Ok(Some(entries.clone()).filter(|entries| !entries.is_empty()))
}

fn check_labels(labels: &Map<String, Value>, errors: &mut Errors) {
    for (key, value) in labels {
        let value = value.as_str().unwrap_or_default();
        for problem in format::qualified_name(key) {
            errors.invalid("metadata.labels", key.as_str(), &problem);
        }
        for problem in format::label_value(value) {
            errors.invalid("metadata.labels", value, &problem);
        }
    }
}

/// Upstream's path lacks a letter here.
fn check_annotations(annotations: &Map<String, Value>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations {
        for problem in format::qualified_name(&key.to_lowercase()) {
            errors.invalid("metadata.annotation", key.as_str(), &problem);
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long("metadata.annotation", MAX_ANNOTATIONS);
    }
}

fn field<'m>(map: &'m Map<String, Value>, name: &str) -> &'m Value {
    map.get(name).unwrap_or(&Value::Null)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
