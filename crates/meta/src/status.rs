//! The one error model of the API: every failure a client sees is a [`Status`].
//!
//! Each constructor builds one row of the table of upstream texts. Clients
//! branch on `reason`, then on `code`; people and scripts match on `message`.
//! So the texts live here and nowhere else.

use std::{collections::HashSet, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use sternpost_golang::strconv::go_quote;

/// `metav1.Status`, in upstream's field order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: Meta,
    status: &'static str,
    pub message: String,
    pub reason: Option<Reason>,
    pub details: Option<Box<Details>>,
    /// The HTTP status code. Zero, and not sent, on success.
    pub code: u16,
    told: Option<Box<RemoteStatus>>,
}

/// What somebody else says of a refusal, whose words are not ours to choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteStatus {
    /// Empty for none.
    pub reason: String,
    pub details: Option<Value>,
    /// Null for none.
    pub metadata: Value,
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("kind", self.kind)?;
        fields.serialize_entry("apiVersion", self.api_version)?;
        let told = self.told.as_deref();
        match told {
            Some(RemoteStatus { metadata: metadata @ Value::Object(_), .. }) => {
                fields.serialize_entry("metadata", metadata)?;
            }
            _ => fields.serialize_entry("metadata", &self.metadata)?,
        }
        fields.serialize_entry("status", self.status)?;
        if !self.message.is_empty() {
            fields.serialize_entry("message", &self.message)?;
        }
        match told {
            Some(RemoteStatus { reason, details, .. }) => {
                if !reason.is_empty() {
                    fields.serialize_entry("reason", reason)?;
                }
                if let Some(details) = details {
                    fields.serialize_entry("details", details)?;
                }
            }
            None => {
                if let Some(reason) = &self.reason {
                    fields.serialize_entry("reason", reason)?;
                }
                if let Some(details) = &self.details {
                    fields.serialize_entry("details", details)?;
                }
            }
        }
        if self.code != 0 {
            fields.serialize_entry("code", &self.code)?;
        }
        fields.end()
    }
}

/// What a client may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    StoreReadError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, except in `Invalid`, where it is the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Also sent as the `Retry-After` header when above zero.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u16,
}

/// One reason why an object was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// `None` in internal errors, whose cause is only a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<CauseReason>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum CauseReason {
    FieldValueNotFound,
    FieldValueRequired,
    FieldValueDuplicate,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueForbidden,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueTooFew,
    FieldValueTooShort,
    FieldValueTypeInvalid,
    FieldManagerConflict,
    InternalError,
    NamespaceTerminating,
    DisruptionBudget,
    ResourceVersionTooLarge,
    NodeCapacity,
    UnsupportedPlatform,
    UnexpectedServerResponse,
}

/// As upstream: how many objects that cannot be read are told of in one answer.
const MAX_CORRUPT_OBJECTS: usize = 100;

/// The text of upstream's storage; the version is never set.
fn corrupt_object(place: &str, reason: &str) -> String {
    format!(
        "StorageError: corrupt object, Code: 7, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: {reason}"
    )
}

/// A resource as error texts name it: `deployments.apps`, or `pods` in core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceName<'a> {
    pub group: &'a str,
    pub resource: &'a str,
}

impl fmt::Display for ResourceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// What an authoriser refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    pub user: &'a str,
    pub verb: &'a str,
    pub resource: ResourceName<'a>,
    /// Empty, or the part after the slash of `pods/log`.
    pub subresource: &'a str,
    /// `None` at the cluster scope.
    pub namespace: Option<&'a str>,
    /// Empty for requests on a collection.
    pub name: &'a str,
    /// Why, in the authoriser's words; may be empty.
    pub why: &'a str,
}

/// Texts without those that were there before.
pub(crate) fn each_once(texts: impl Iterator<Item = String>) -> Vec<String> {
    let texts: Vec<String> = texts.collect();
    let mut known = HashSet::with_capacity(texts.len());
    let is_first: Vec<bool> = texts.iter().map(|text| known.insert(text.as_str())).collect();
    texts.into_iter().zip(is_first).filter_map(|(text, is_first)| is_first.then_some(text)).collect()
}

impl Status {
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// Says nothing of the cause: the caller is not known yet.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    pub fn forbidden(attempt: Attempt<'_>) -> Self {
        let Attempt { user, verb, resource, subresource, namespace, name, why } = attempt;
        let user = go_quote(user);
        let whole = match subresource {
            "" => resource.resource.to_owned(),
            subresource => format!("{}/{subresource}", resource.resource),
        };
        // What has no resource has no name either.
        let mut message = match (resource.to_string().as_str(), name) {
            ("", _) => "forbidden: ".to_owned(),
            (resource, "") => format!("{resource} is forbidden: "),
            (resource, name) => format!("{resource} {} is forbidden: ", go_quote(name)),
        };
        let (whole, group) = (go_quote(&whole), go_quote(resource.group));
        message += &format!("User {user} cannot {verb} resource {whole} in API group {group}");
        match namespace {
            Some(namespace) => message += &format!(" in the namespace {}", go_quote(namespace)),
            None => message += " at the cluster scope",
        }
        if !why.is_empty() {
            message += &format!(": {why}");
        }
        Self::failure(403, Reason::Forbidden, message).with_details(Details::of(resource, name))
    }

    /// `why` is in the authoriser's words and may be empty.
    pub fn forbidden_path(user: &str, verb: &str, path: &str, why: &str) -> Self {
        let mut message = format!("forbidden: User {} cannot {verb} path {}", go_quote(user), go_quote(path));
        if !why.is_empty() {
            message += &format!(": {why}");
        }
        Self::failure(403, Reason::Forbidden, message).with_details(Details::default())
    }

    /// Nothing is written here, of this object or at all.
    pub fn only_reads(object: Option<(ResourceName<'_>, &str)>) -> Self {
        const WHY: &str = "this server only reads";
        match object {
            Some((resource, name)) => Self::forbidden_because(resource, name, WHY),
            None => Self::failure(403, Reason::Forbidden, WHY),
        }
    }

    /// A name in a path that no object can have.
    pub fn invalid_name_parameter(name: &str, problems: &[String]) -> Self {
        Self::bad_request(format!("Name parameter invalid: {}: {}", go_quote(name), problems.join(";")))
    }

    pub fn not_found(resource: ResourceName<'_>, name: &str) -> Self {
        Self::failure(404, Reason::NotFound, format!("{resource} {} not found", go_quote(name)))
            .with_details(Details::of(resource, name))
    }

    /// For a path under a served group that leads nowhere.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, Reason::NotFound, message).with_details(Details::default())
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, Reason::MethodNotAllowed, message).with_details(Details::default())
    }

    pub fn verb_not_supported(resource: ResourceName<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Self::failure(405, Reason::MethodNotAllowed, message).with_details(Details::of(resource, ""))
    }

    pub fn not_acceptable(media_types: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", media_types.join(", "));
        Self::failure(406, Reason::NotAcceptable, message)
    }

    pub fn already_exists(resource: ResourceName<'_>, name: &str) -> Self {
        Self::failure(409, Reason::AlreadyExists, format!("{resource} {} already exists", go_quote(name)))
            .with_details(Details::of(resource, name))
    }

    pub fn conflict(resource: ResourceName<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", go_quote(name));
        Self::failure(409, Reason::Conflict, message).with_details(Details::of(resource, name))
    }

    /// Fields that others own stand in the way of an apply.
    pub fn apply_conflict(message: &str, causes: Vec<Cause>) -> Self {
        let details = Details { causes, ..Details::default() };
        Self::failure(409, Reason::Conflict, message).with_details(details)
    }

    /// A patch that cannot be carried out. Upstream keeps the reason to itself.
    pub fn rejected(why: &str) -> Self {
        let cause = Cause {
            reason: Some(CauseReason::FieldValueInvalid),
            message: why.into(),
            field: "patch".into(),
        };
        let details = Details { causes: vec![cause], ..Details::default() };
        let message = "the server rejected our request due to an error in our request";
        Self::failure(422, Reason::Invalid, message).with_details(details)
    }

    /// The text that clients' retry loops look for.
    pub const MODIFIED: &str =
        "the object has been modified; please apply your changes to the latest version and try again";

    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::too_large(&format!("limit is {limit}"))
    }

    pub fn too_large(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    pub fn unsupported_media_type(media_types: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            media_types.join(", ")
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// `causes` stand in the message in their order: as they are when there is
    /// one, bracketed when there are more.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        // The message says everything once, the causes as often as it was found.
        let texts = each_once(causes.iter().map(|cause| match cause.field.as_str() {
            "" => cause.message.clone(),
            field => format!("{field}: {}", cause.message),
        }));
        let subject = ResourceName { group, resource: kind };
        let mut message = format!("{subject} {} is invalid", go_quote(name));
        match texts.as_slice() {
            [] => {}
            [one] => message += &format!(": {one}"),
            many => message += &format!(": [{}]", many.join(", ")),
        }
        Self::failure(422, Reason::Invalid, message)
            .with_details(Details { causes, ..Details::of(subject, name) })
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u16) -> Self {
        Self::failure(429, Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn internal_error(cause: &str) -> Self {
        let causes = vec![Cause { reason: None, message: cause.into(), field: String::new() }];
        Self::failure(500, Reason::InternalError, format!("Internal error occurred: {cause}"))
            .with_details(Details { causes, ..Details::default() })
    }

    /// An object that is stored and cannot be read. `place` is where it is.
    pub fn corrupt_object(place: &str, reason: &str) -> Self {
        Self::internal_error(&corrupt_object(place, reason))
    }

    /// A list of which some objects, by their places and with what is wrong with them, cannot be read.
    pub fn corrupt_objects<'a>(
        resource: ResourceName<'_>,
        objects: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut objects = objects.into_iter();
        let cause = |(place, reason): (&str, &str)| Cause {
            reason: Some(CauseReason::UnexpectedServerResponse),
            message: corrupt_object(place, reason),
            field: place.to_owned(),
        };
        let mut causes: Vec<Cause> = objects.by_ref().take(MAX_CORRUPT_OBJECTS).map(cause).collect();
        if objects.next().is_some() {
            causes.push(Cause {
                reason: Some(CauseReason::FieldValueTooMany),
                message: "too many errors, the list is truncated".into(),
                field: String::new(),
            });
        }
        let message = format!("failed to read one or more {resource} from the storage");
        Self::failure(500, Reason::StoreReadError, message)
            .with_details(Details { causes, ..Details::of(resource, "list") })
    }

    pub fn server_timeout(resource: ResourceName<'_>, operation: &str, retry_after_seconds: u16) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(500, Reason::ServerTimeout, message)
            .with_details(Details { retry_after_seconds, ..Details::of(resource, operation) })
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// A server that is starting, and waits for somebody.
    pub fn not_yet_serving(waits_for: &str) -> Self {
        Self::service_unavailable(format!("the server is waiting for {waits_for}, try again"))
            .with_details(Details { retry_after_seconds: 1, ..Details::default() })
    }

    pub fn timeout(message: &str) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {message}")).with_details(Details::default())
    }

    /// A creator chose a resource version.
    pub fn version_on_create() -> Self {
        Self::unexpected("resourceVersion should not be set on objects to be created")
    }

    /// An error that upstream has no reason for.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self { reason: None, ..Self::failure(500, Reason::InternalError, message) }
    }

    /// An update of a kind that wants to know which version was seen. Upstream
    /// names the plural here, where other invalid objects have the kind.
    pub fn version_required(resource: ResourceName<'_>, name: &str) -> Self {
        let cause = Cause {
            reason: Some(CauseReason::FieldValueInvalid),
            message: "Invalid value: 0: must be specified for an update".into(),
            field: "metadata.resourceVersion".into(),
        };
        Self::invalid(resource.group, resource.resource, name, vec![cause])
    }

    /// Admission refused the request.
    pub fn forbidden_because(resource: ResourceName<'_>, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {} is forbidden: {why}", go_quote(name)),
        };
        Self::failure(403, Reason::Forbidden, message).with_details(Details::of(resource, name))
    }

    pub fn namespace_terminating(resource: ResourceName<'_>, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden_because(resource, name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: Some(CauseReason::NamespaceTerminating),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        status
    }

    /// A revision that does not exist yet was asked for.
    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let causes = vec![Cause {
            reason: Some(CauseReason::ResourceVersionTooLarge),
            message: "Too large resource version".into(),
            field: String::new(),
        }];
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::failure(504, Reason::Timeout, message).with_details(Details {
            causes,
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// A list cannot be continued as it began; `token` goes on with the latest state.
    pub fn expired_continue(token: &str) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
        Self {
            metadata: Meta { continue_token: token.into() },
            ..Self::failure(410, Reason::Expired, message)
        }
    }

    /// What upstream's store says of a write, which it passes on without a reason.
    pub fn storage_error(why: &str) -> Self {
        Self { reason: None, ..Self::failure(500, Reason::InternalError, why) }
    }

    /// The object is larger than the store takes.
    pub fn request_too_large_for_storage(why: &str) -> Self {
        Self::failure(413, Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
    }

    /// Seconds for the `Retry-After` header, if the client should come again.
    pub fn retry_after(&self) -> Option<u16> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: Meta::default(),
            status: "Failure",
            message: message.into(),
            reason: Some(reason),
            details: None,
            code,
            told: None,
        }
    }

    /// A refusal by somebody who was asked, in their words but for the message.
    pub fn told(code: u16, message: impl Into<String>, told: RemoteStatus) -> Self {
        // Only for the header; the body has what was told.
        let seconds = told.details.as_ref().and_then(|details| details.get("retryAfterSeconds"));
        let seconds = seconds.and_then(Value::as_u64).and_then(|seconds| u16::try_from(seconds).ok());
        let details = Details { retry_after_seconds: seconds.unwrap_or_default(), ..Details::default() };
        let status = Self::failure(code, Reason::BadRequest, message).with_details(details);
        Self { reason: None, told: Some(Box::new(told)), ..status }
    }

    fn with_details(self, details: Details) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Details {
    fn of(resource: ResourceName<'_>, name: &str) -> Self {
        Self {
            name: name.into(),
            group: resource.group.into(),
            kind: resource.resource.into(),
            ..Self::default()
        }
    }
}

/// `ListMeta`; empty but for a list that expired between pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Meta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: ResourceName<'_> = ResourceName { group: "", resource: "pods" };
    const DEPLOYMENTS: ResourceName<'_> = ResourceName { group: "apps", resource: "deployments" };

    #[track_caller]
    fn check(status: &Status, expected: &str) {
        assert_eq!(serde_json::to_string(status).unwrap(), expected);
    }

    /// `tail` is what follows the fields that all failures share.
    #[track_caller]
    fn check_failure(status: &Status, tail: &str) {
        let head = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"#;
        check(status, &format!("{head}{tail}"));
    }

    // The recorded answers of kube-apiserver 1.36.4.
    #[test]
    fn what_somebody_else_says_is_told_in_their_words() {
        let told = RemoteStatus {
            reason: "Because".into(),
            details: Some(serde_json::json!({"kind": "k", "retryAfterSeconds": 7})),
            metadata: Value::Null,
        };
        let status = Status::told(418, "no", told);
        let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Because","details":{"kind":"k","retryAfterSeconds":7},"code":418}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), expected);
        assert_eq!(status.retry_after(), Some(7));
    }

    #[test]
    fn bytes_equal_those_of_kube_apiserver() {
        check(
            &Status::unauthorized(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
        );
        check_failure(
            &Status::forbidden_path("system:anonymous", "get", "/api", ""),
            r#""forbidden: User \"system:anonymous\" cannot get path \"/api\"","reason":"Forbidden","details":{},"code":403}"#,
        );
        check_failure(
            &Status::forbidden(Attempt {
                user: "system:anonymous",
                verb: "get",
                resource: DEPLOYMENTS,
                subresource: "scale",
                namespace: Some("default"),
                name: "a",
                why: "",
            }),
            r#""deployments.apps \"a\" is forbidden: User \"system:anonymous\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\"","reason":"Forbidden","details":{"name":"a","group":"apps","kind":"deployments"},"code":403}"#,
        );
        check_failure(
            &Status::forbidden(Attempt {
                user: "system:anonymous",
                verb: "list",
                resource: ResourceName { group: "", resource: "nodes" },
                subresource: "",
                namespace: None,
                name: "",
                why: "",
            }),
            r#""nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403}"#,
        );
        check_failure(
            &Status::not_found(DEPLOYMENTS, "nope"),
            r#""deployments.apps \"nope\" not found","reason":"NotFound","details":{"name":"nope","group":"apps","kind":"deployments"},"code":404}"#,
        );
        check_failure(
            &Status::no_such_resource(),
            r#""the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
        );
        check_failure(
            &Status::method_not_allowed(),
            r#""the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#,
        );
        check_failure(
            &Status::not_acceptable(&["application/json", "application/yaml"]),
            r#""only the following media types are accepted: application/json, application/yaml","reason":"NotAcceptable","code":406}"#,
        );
        check_failure(
            &Status::already_exists(ResourceName { group: "", resource: "namespaces" }, "default"),
            r#""namespaces \"default\" already exists","reason":"AlreadyExists","details":{"name":"default","kind":"namespaces"},"code":409}"#,
        );
        check_failure(
            &Status::request_entity_too_large(3_145_728),
            r#""Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}"#,
        );
        check_failure(
            &Status::unsupported_media_type(&["application/json", "application/yaml"]),
            r#""the body of the request was in an unknown format - accepted media types include: application/json, application/yaml","reason":"UnsupportedMediaType","code":415}"#,
        );
    }

    #[test]
    fn messages_name_their_subject() {
        for (status, code, message) in [
            (Status::bad_request("no"), 400, "no"),
            (
                Status::verb_not_supported(PODS, "create"),
                405,
                r#"create is not supported on resources of kind "pods""#,
            ),
            (
                Status::conflict(PODS, "a", Status::MODIFIED),
                409,
                r#"Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the latest version and try again"#,
            ),
            (Status::expired("too old resource version: 1 (640)"), 410, "too old resource version: 1 (640)"),
            (
                Status::server_timeout(PODS, "list", 1),
                500,
                "The list operation against pods could not be completed at this time, please try again.",
            ),
            (Status::service_unavailable("starting"), 503, "starting"),
            (
                Status::timeout("request did not complete within the allotted timeout"),
                504,
                "Timeout: request did not complete within the allotted timeout",
            ),
        ] {
            assert_eq!((status.code, status.to_string().as_str()), (code, message));
        }
    }

    #[test]
    fn invalid_brackets_several_causes_and_only_those() {
        let cause = |field: &str| Cause {
            reason: Some(CauseReason::FieldValueRequired),
            message: "Required value".into(),
            field: field.into(),
        };
        let invalid = |causes| Status::invalid("apps", "Deployment", "a", causes);
        assert_eq!(invalid(vec![]).message, r#"Deployment.apps "a" is invalid"#);
        assert_eq!(
            invalid(vec![cause("spec.x")]).message,
            r#"Deployment.apps "a" is invalid: spec.x: Required value"#
        );
        let status = invalid(vec![cause("spec.x"), cause("spec.y")]);
        check_failure(
            &status,
            r#""Deployment.apps \"a\" is invalid: [spec.x: Required value, spec.y: Required value]","reason":"Invalid","details":{"name":"a","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.x"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.y"}]},"code":422}"#,
        );
    }

    #[test]
    fn only_a_positive_delay_asks_the_client_back() {
        assert_eq!(Status::too_many_requests("later", 3).retry_after(), Some(3));
        assert_eq!(Status::too_many_requests("later", 0).retry_after(), None);
        assert_eq!(Status::unauthorized().retry_after(), None);
        check_failure(
            &Status::too_many_requests("later", 1),
            r#""later","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#,
        );
    }

    #[test]
    fn the_cause_of_an_internal_error_is_only_a_message() {
        check_failure(
            &Status::internal_error("boom"),
            r#""Internal error occurred: boom","reason":"InternalError","details":{"causes":[{"message":"boom"}]},"code":500}"#,
        );
    }
}
