//! Events: what is told of one stage of one request.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    authorize::{Attributes, What},
    user::User,
};

use crate::{
    log::Sink,
    policy::{Level, Policy, Stage, Verdict},
};

/// What is told, and to whom.
#[derive(Debug, Clone)]
pub struct Audit {
    policy: Policy,
    sink: Sink,
}

/// A request as the log names it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub audit_id: &'a str,
    /// Path and query as they were sent.
    pub uri: &'a str,
    pub source: Option<std::net::IpAddr>,
    pub user_agent: &'a str,
    pub received: Timestamp,
}

/// What is known of a request at the end of a stage.
#[derive(Debug, Clone, Default)]
pub struct StageOutcome {
    pub code: u16,
    /// The `Status` that was sent, if it was one.
    pub status: Option<Value>,
    /// The body as JSON, from [`Level::Request`] on.
    pub request: Option<Value>,
    /// What was sent, from [`Level::RequestResponse`] on.
    pub response: Option<Value>,
    pub annotations: BTreeMap<String, String>,
}

/// One request of which something is told.
#[derive(Debug, Clone)]
pub struct Record {
    verdict: Verdict,
    sink: Sink,
    event: Event,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// How the requester came to be who it is taken for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata {
    /// The verb that allowed it.
    impersonation_constraint: &'static str,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

impl Audit {
    pub fn new(policy: Policy, sink: Sink) -> Self {
        Self { policy, sink }
    }

    /// `None` if nothing is to be told of the request. The user is whose credential was sent.
    pub fn begin(&self, attributes: &Attributes<'_>, subject: &Subject<'_>) -> Option<Record> {
        let verdict = self.policy.verdict(attributes);
        if verdict.level == Level::None {
            return None;
        }
        let received = subject.received.to_micro_time();
        let object_ref = match attributes.what {
            What::Path(_) => None,
            What::Resource(what) => Some(ObjectRef {
                resource: what.resource.into(),
                namespace: what.namespace.into(),
                name: what.name.into(),
                api_group: what.group.into(),
                api_version: what.version.into(),
                subresource: what.subresource.into(),
            }),
        };
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: verdict.level,
            audit_id: subject.audit_id.into(),
            stage: Stage::RequestReceived,
            request_uri: subject.uri.into(),
            verb: attributes.verb.into(),
            user: attributes.user.to_json(),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: subject.source.map(|source| source.to_string()).into_iter().collect(),
            user_agent: subject.user_agent.into(),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: received.clone(),
            stage_timestamp: received,
            annotations: BTreeMap::new(),
        };
        Some(Record { verdict, sink: self.sink.clone(), event })
    }
}

impl Record {
    pub fn level(&self) -> Level {
        self.verdict.level
    }

    /// In whose place the rest is done.
    pub fn impersonates(&mut self, user: &User, constraint: Option<&'static str>) {
        self.event.impersonated_user = Some(user.to_json());
        self.event.authentication_metadata =
            constraint.map(|constraint| AuthenticationMetadata { impersonation_constraint: constraint });
    }

    /// Tells that the request is there.
    pub async fn received(&self) {
        if let Some(line) = self.line(Stage::RequestReceived) {
            self.sink.send(line).await;
        }
    }

    /// Adds what is known by now. A later call replaces what an earlier one said.
    pub fn see(&mut self, seen: StageOutcome) {
        let StageOutcome { code, status, request, response, annotations } = seen;
        let mut told = Map::from_iter([("metadata".to_owned(), json!({}))]);
        if let Some(Value::Object(status)) = status {
            let kept = ["status", "message", "reason", "details"];
            told.extend(status.into_iter().filter(|(key, _)| kept.contains(&key.as_str())));
        }
        told.insert("code".into(), code.into());
        self.event.response_status = Some(Value::Object(told));
        self.name_what_is_created([&request, &response]);
        let omits = self.verdict.omit_managed_fields;
        let without = |mut object: Value| {
            if omits {
                omit_managed_fields(&mut object);
            }
            object
        };
        self.event.request_object = request.filter(|_| self.level() >= Level::Request).map(without);
        self.event.response_object = response.filter(|_| self.level() >= Level::RequestResponse).map(without);
        self.event.annotations = annotations;
    }

    /// A body may name what the path does not.
    fn name_what_is_created(&mut self, bodies: [&Option<Value>; 2]) {
        let name = |body: &Value| Some(body.get("metadata")?.get("name")?.as_str()?.to_owned());
        if let Some(reference) = &mut self.event.object_ref
            && self.event.verb == "create"
            && reference.name.is_empty()
        {
            reference.name = bodies.into_iter().flatten().find_map(name).unwrap_or_default();
        }
    }

    pub async fn tell(&mut self, stage: Stage, now: Timestamp) {
        if let Some(line) = self.at(stage, now) {
            self.sink.send(line).await;
        }
    }

    /// As [`Record::tell`], where nobody can wait.
    pub fn tell_later(&mut self, stage: Stage, now: Timestamp) {
        if let Some(line) = self.at(stage, now) {
            self.sink.send_later(line);
        }
    }

    fn at(&mut self, stage: Stage, now: Timestamp) -> Option<String> {
        self.event.stage_timestamp = now.to_micro_time();
        self.line(stage)
    }

    fn line(&self, stage: Stage) -> Option<String> {
        if self.verdict.omit_stages.contains(&stage) {
            return None;
        }
        let mut event = self.event.clone();
        event.stage = stage;
        let mut line = serde_json::to_string(&event).ok()?;
        line.push('\n');
        Some(line)
    }
}

fn omit_managed_fields(object: &mut Value) {
    let omit = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    omit(object);
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        omit(item);
    }
}

#[cfg(test)]
mod tests {
    use sternpost_meta::authorize::ResourceAttributes;

    use super::*;
    use crate::log::Log;

    /// The events of one request under a policy of one rule.
    async fn told(rule: Value, seen: StageOutcome) -> Vec<Value> {
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [rule]});
        let (log, sink) = Log::in_memory();
        let audit = Audit::new(Policy::read(policy).unwrap(), sink);
        let user =
            User { name: "ana".into(), uid: "1".into(), groups: vec!["devs".into()], ..User::default() };
        let what = ResourceAttributes {
            version: "v1",
            resource: "configmaps",
            namespace: "shop",
            ..ResourceAttributes::default()
        };
        let attributes = Attributes { user: &user, verb: "create", what: What::Resource(what) };
        let subject = Subject {
            audit_id: "id",
            uri: "/api/v1/namespaces/shop/configmaps?pretty=1",
            source: Some([127, 0, 0, 1].into()),
            user_agent: "kubectl",
            received: Timestamp::from_unix(0, 5_000),
        };
        if let Some(mut record) = audit.begin(&attributes, &subject) {
            record.received().await;
            record.see(seen);
            record.tell(Stage::ResponseComplete, Timestamp::from_unix(1, 0)).await;
        }
        drop(audit);
        let text = log.finish();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn created() -> StageOutcome {
        let object = json!({"metadata": {"name": "c", "managedFields": []}});
        StageOutcome {
            code: 201,
            status: None,
            request: Some(object.clone()),
            response: Some(object),
            annotations: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        }
    }

    #[tokio::test]
    async fn a_request_is_told_when_it_comes_and_when_it_is_done() {
        let events = told(json!({"level": "Metadata"}), created()).await;
        let mut expected = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "id",
            "stage": "RequestReceived", "requestURI": "/api/v1/namespaces/shop/configmaps?pretty=1",
            "verb": "create", "user": {"username": "ana", "uid": "1", "groups": ["devs"]},
            "sourceIPs": ["127.0.0.1"], "userAgent": "kubectl",
            "objectRef": {"resource": "configmaps", "namespace": "shop", "apiVersion": "v1"},
            "requestReceivedTimestamp": "1970-01-01T00:00:00.000005Z",
            "stageTimestamp": "1970-01-01T00:00:00.000005Z",
        });
        assert_eq!(events[0], expected);
        expected["stage"] = "ResponseComplete".into();
        expected["stageTimestamp"] = "1970-01-01T00:00:01.000000Z".into();
        expected["responseStatus"] = json!({"metadata": {}, "code": 201});
        expected["annotations"] = json!({"a": "b"});
        expected["objectRef"]["name"] = "c".into();
        assert_eq!(events[1], expected);
        assert_eq!(events.len(), 2);
    }

    #[tokio::test]
    async fn levels_decide_which_bodies_are_told() {
        for (level, request, response) in [
            ("None", false, false),
            ("Metadata", false, false),
            ("Request", true, false),
            ("RequestResponse", true, true),
        ] {
            let events = told(json!({"level": level}), created()).await;
            assert_eq!(events.len(), if level == "None" { 0 } else { 2 }, "{level}");
            let last = events.last().cloned().unwrap_or_default();
            assert_eq!(last.get("requestObject").is_some(), request, "{level}");
            assert_eq!(last.get("responseObject").is_some(), response, "{level}");
            let name = last.get("objectRef").and_then(|reference| reference.get("name"));
            assert_eq!(name.is_some(), level != "None", "{level}");
        }
    }

    #[tokio::test]
    async fn stages_and_managed_fields_can_be_left_out() {
        let rule =
            json!({"level": "RequestResponse", "omitStages": ["RequestReceived"], "omitManagedFields": true});
        let events = told(rule, created()).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["responseObject"], json!({"metadata": {"name": "c"}}));
    }

    #[tokio::test]
    async fn a_refusal_is_told_with_its_reason() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "Forbidden", "details": {"kind": "pods"}, "code": 403});
        let seen = StageOutcome { code: 403, status: Some(status), ..StageOutcome::default() };
        let events = told(json!({"level": "Metadata"}), seen).await;
        let expected = json!({"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden",
            "details": {"kind": "pods"}, "code": 403});
        assert_eq!(events[1]["responseStatus"], expected);
    }
}
