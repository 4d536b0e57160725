//! What the audit log is told of a request.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use sternpost_audit::{Level, Record, Stage, StageOutcome, Subject};
use sternpost_clock::Clock;
use sternpost_golang::time::Timestamp;
use sternpost_meta::{
    audit::Annotations,
    authorize::{Attributes, Decision},
};

use crate::{
    Api,
    body::{Body, Noted},
    connections::Origin,
    impersonation::Impersonated,
    objects::Answer,
    response::JSON,
};

const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Patches are JSON, or an apply in YAML.
const APPLY: &str = "application/apply-patch+yaml";

/// A request of which something is told.
#[derive(Debug)]
pub(crate) struct Audited {
    record: Record,
    clock: Clock,
    notes: Arc<Annotations>,
    /// Whether what goes on does so in another protocol.
    switches: bool,
}

/// Tells that a request is there, if the policy wants it told.
pub(crate) fn begin(
    api: &Api,
    attributes: &Attributes<'_>,
    origin: &Origin,
    parts: &Parts,
    audit_id: &str,
) -> Option<Box<Audited>> {
    let audit = api.audit.as_ref()?;
    let uri = parts.uri.path_and_query().map_or("", |uri| uri.as_str());
    let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let subject = Subject {
        audit_id,
        uri,
        source: origin.peer,
        user_agent: agent.unwrap_or_default(),
        received: now(&api.verbs.clock),
    };
    let record = audit.begin(attributes, &subject)?;
    let clock = api.verbs.clock.clone();
    Some(Box::new(Audited { record, clock, notes: Arc::default(), switches: false }))
}

impl Audited {
    pub async fn received(&self) {
        self.record.received().await;
    }

    /// Where handlers note what the log should have.
    pub fn notes(&self) -> Arc<Annotations> {
        self.notes.clone()
    }

    pub fn impersonates(&mut self, impersonated: &Impersonated) {
        self.record.impersonates(&impersonated.user, impersonated.constraint);
    }

    /// A watch that is sent goes on in another protocol.
    pub fn switches(&mut self) {
        self.switches = true;
    }

    pub fn decided(&self, decision: &Decision) {
        let word = if decision.is_allowed() { "allow" } else { "forbid" };
        self.notes.add("authorization.k8s.io/decision", word);
        self.notes.add("authorization.k8s.io/reason", decision.reason());
    }

    /// Whether the answer is to be told, which must then be there in one piece.
    pub fn wants_answer(&self) -> bool {
        self.record.level() >= Level::RequestResponse
    }

    /// A caller nobody knows.
    pub async fn refused(mut self, answer: Answer) -> Answer {
        let seen = self.seen(None, &answer);
        self.record.see(seen);
        self.record.tell(Stage::ResponseStarted, now(&self.clock)).await;
        answer
    }

    /// Tells what became of the request; of one that goes on, when it ends.
    pub async fn finish(mut self, request: Option<(&HeaderMap, &Bytes)>, answer: Answer) -> Answer {
        let answer = if self.wants_answer() { in_one_piece(answer) } else { answer };
        let seen = self.seen(request, &answer);
        self.record.see(seen);
        if !answer.body().is_long_running() {
            self.record.tell(Stage::ResponseComplete, now(&self.clock)).await;
            return answer;
        }
        self.record.tell(Stage::ResponseStarted, now(&self.clock)).await;
        let (mut record, clock) = (self.record, self.clock);
        let ended = Box::new(move || record.tell_later(Stage::ResponseComplete, now(&clock)));
        answer.map(|body| Body::Noted(Box::new(Noted::new(body, ended))))
    }

    fn seen(&self, request: Option<(&HeaderMap, &Bytes)>, answer: &Answer) -> StageOutcome {
        let switches = self.switches && answer.body().is_long_running();
        let code = if switches { StatusCode::SWITCHING_PROTOCOLS } else { answer.status() };
        let is_error = code.is_client_error() || code.is_server_error();
        let response = (is_error || self.wants_answer()).then(|| sent(answer)).flatten();
        let is_status = |value: &&Value| value.get("kind").is_some_and(|kind| kind == "Status");
        let request = request.filter(|(_, body)| !body.is_empty());
        StageOutcome {
            code: code.as_u16(),
            status: response.as_ref().filter(is_status).cloned(),
            request: request.and_then(|(headers, body)| read(headers, body)),
            response,
            annotations: self.notes.take(),
        }
    }
}

/// A list is otherwise written while it is sent.
fn in_one_piece(answer: Answer) -> Answer {
    answer.map(|body| match body {
        Body::List(list) => {
            list.collect().map_or(Body::Whole(Full::default()), |all| Body::Whole(Full::new(all)))
        }
        other => other,
    })
}

/// The answer as JSON, if it is an object.
fn sent(answer: &Answer) -> Option<Value> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    let frame = answer.body().whole()?.clone().frame().now_or_never()??.ok()?;
    read(answer.headers(), frame.data_ref()?)
}

/// A body as JSON.
fn read(headers: &HeaderMap, body: &Bytes) -> Option<Value> {
    let media = headers.get(header::CONTENT_TYPE).map_or(Some(JSON), |media| media.to_str().ok())?;
    match media.split(';').next().unwrap_or_default().trim() {
        YAML | APPLY => sternpost_yaml::from_str(std::str::from_utf8(body).ok()?).ok(),
        PROTOBUF => sternpost_wire::object::decode(body, None).ok(),
        _ => serde_json::from_slice(body).ok(),
    }
}

fn now(clock: &Clock) -> Timestamp {
    let now = clock.since_1970();
    Timestamp::from_unix(i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos())
}
