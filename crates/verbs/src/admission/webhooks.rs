//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: others are asked.
//!
//! What a webhook is told and what its answer means is in `sternpost-admission`. Here is in which
//! order they are asked, in which version they see objects, and what becomes of their changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use serde_json::Value;
use sternpost_admission::{
    conditions::{self, Conditions},
    matching::Matcher,
    request::Request,
    webhook::{Answer, Pass, Review, Unusable, Verdict, apply_patch, read_patch},
};
use sternpost_cache::{Cache, ResourceCache, ResourceId, Snapshot};
use sternpost_cel::CostsBySize;
use sternpost_clock::machine;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{review::ReviewVersion, status::Status, user::User};
use sternpost_registry::object::Fields;
use tokio::task::JoinSet;

use super::{
    Attributes,
    about::{About, AdmissionRequest, Shown},
    reinvocation::{Reinvocation, Round},
    versions,
    webhook_calls::{CallOutcome, WebhookCall},
};
use crate::{failure::Failure, names::new_uid, verbs::Verbs};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// Of what webhooks never hear: a bad one could not be removed any more.
const EXEMPT: [&str; 6] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// How long a webhook is waited for that does not say.
const TIMEOUT_SECONDS: u64 = 10;

/// The webhooks there are, read once for every change of their configurations.
#[derive(Debug)]
pub(crate) struct Webhooks {
    mutating: Configured,
    validating: Configured,
}

impl Webhooks {
    pub fn of(cache: &Cache) -> Self {
        let configured = |plural: &str| Configured {
            cache: cache.resource(&ResourceId::new(GROUP, plural)),
            compiled: ArcSwapOption::empty(),
        };
        Self {
            mutating: configured("mutatingwebhookconfigurations"),
            validating: configured("validatingwebhookconfigurations"),
        }
    }

    /// What the conditions of those that could concern a resource may cost.
    pub fn costs_by_size(&self, resource: &str) -> CostsBySize {
        self.mutating.costs_by_size(resource) + self.validating.costs_by_size(resource)
    }

    /// Whether there are any at all.
    pub fn are_there(&self) -> bool {
        [&self.mutating, &self.validating].iter().any(|configured| !configured.cache.snapshot().is_empty())
    }
}

#[derive(Debug)]
struct Configured {
    cache: Arc<ResourceCache>,
    compiled: ArcSwapOption<Compiled>,
}

/// Webhooks in the order in which they are asked, and the objects they were read from.
#[derive(Debug)]
pub(super) struct Compiled {
    from: Arc<Snapshot>,
    hooks: Vec<Arc<Hook>>,
}

impl Configured {
    /// Nobody can say as long as they are not compiled, which may itself take a while.
    fn costs_by_size(&self, resource: &str) -> CostsBySize {
        let from = self.cache.snapshot();
        if from.is_empty() {
            return CostsBySize::default();
        }
        let known = self.compiled.load();
        let Some(compiled) = known.as_ref().filter(|compiled| Arc::ptr_eq(&compiled.from, &from)) else {
            return CostsBySize::UNKNOWN;
        };
        let may_concern =
            |hook: &&Arc<Hook>| hook.matcher.as_ref().is_ok_and(|matcher| matcher.may_concern(resource));
        compiled.hooks.iter().filter(may_concern).map(|hook| hook.conditions.costs_by_size()).sum()
    }

    /// `None` if there are none, which costs nothing.
    fn hooks(&self) -> Option<Arc<Compiled>> {
        let from = self.cache.snapshot();
        if from.is_empty() {
            return None;
        }
        if let Some(compiled) =
            self.compiled.load_full().filter(|compiled| Arc::ptr_eq(&compiled.from, &from))
        {
            return Some(compiled);
        }
        let hooks = from.iter(None, None).flat_map(|configuration| {
            let webhooks = configuration.value().items("webhooks").to_vec();
            webhooks.into_iter().map(|webhook| Arc::new(Hook::read(configuration.name(), &webhook)))
        });
        let compiled = Arc::new(Compiled { hooks: hooks.collect(), from });
        self.compiled.store(Some(compiled.clone()));
        Some(compiled)
    }
}

/// One entry of `webhooks`, compiled.
#[derive(Debug)]
struct Hook {
    configuration: String,
    name: String,
    /// Or why it cannot be said whom it concerns.
    matcher: Result<Matcher, String>,
    conditions: Conditions,
    client: Value,
    timeout: Duration,
    ignores_failure: bool,
    is_safe_on_dry_run: bool,
    version: Option<ReviewVersion>,
    wants_changes: bool,
}

impl Hook {
    fn read(configuration: &str, webhook: &Value) -> Self {
        let versions = webhook.items("admissionReviewVersions").iter().filter_map(Value::as_str);
        let seconds = webhook.int("timeoutSeconds").and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            configuration: configuration.to_owned(),
            name: webhook.text("name").to_owned(),
            matcher: Matcher::of_webhook(webhook).map_err(|error| error.to_string()),
            conditions: Conditions::compile(webhook.items("matchConditions")),
            client: webhook.field("clientConfig").clone(),
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT_SECONDS)),
            ignores_failure: webhook.text("failurePolicy") == "Ignore",
            is_safe_on_dry_run: matches!(webhook.text("sideEffects"), "None" | "NoneOnDryRun"),
            version: ReviewVersion::first_of(versions),
            wants_changes: webhook.text("reinvocationPolicy") == "IfNeeded",
        }
    }

    fn when_it_fails(&self) -> CallOutcome {
        if self.ignores_failure { CallOutcome::FailedOpen } else { CallOutcome::FailedClosed }
    }

    /// What a request is refused with because of it.
    fn failed(&self, why: &Unusable) -> Status {
        Status::internal_error(&format!("failed calling webhook {}: {why}", go_quote(&self.name)))
    }
}

/// The mutating webhooks, one after the other.
pub(super) async fn mutate(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    reinvocation: &mut Reinvocation,
) -> Result<(), Failure> {
    let round = reinvocation.round;
    if round == Round::First {
        reinvocation.asked_webhooks = verbs.webhooks.mutating.hooks().filter(|_| !is_exempt(attributes));
    }
    // The second round is for those of the first, also if there are others by now.
    let Some(compiled) = reinvocation.asked_webhooks.clone() else { return Ok(()) };
    reinvocation.webhooks.begin(round, object);
    let asked = AdmissionRequest::new(verbs, attributes);
    for (place, hook) in compiled.hooks.iter().enumerate() {
        if !reinvocation.webhooks.may_ask(round, place) {
            continue;
        }
        let about = asked.about(object, old);
        let Some(call) = about.prepare(hook).await? else { continue };
        let note = |changed: bool| {
            let key = format!("mutation.webhook.{ANNOTATION}/round_{}_index_{place}", round.number());
            note_mutation(attributes, key, hook, changed);
        };
        let begun = machine::now();
        let posted = about.post(hook, &call).await;
        let took = machine::elapsed(begun);
        let was_asked = !matches!(posted, Err(CallFailure::Refused(_)));
        let outcome = match posted {
            Ok(answer) => {
                attributes.warn_all(answer.warnings);
                match answer.verdict {
                    Verdict::Denied(status) => Err(CallFailure::Refused(status)),
                    Verdict::Allowed(None) => Ok(None),
                    Verdict::Allowed(Some(patch)) => read_patch(&patch)
                        .map(|read| Some((read, patch)).filter(|(read, _)| !read.is_empty()))
                        .map_err(CallFailure::Unusable),
                }
            }
            Err(why) => Err(why),
        };
        about.tell(
            Pass::Mutating,
            hook,
            took,
            match &outcome {
                Ok(_) => CallOutcome::Allowed,
                Err(CallFailure::Refused(status)) if was_asked => CallOutcome::Denied { code: status.code },
                Err(CallFailure::Refused(_)) => CallOutcome::NotAsked,
                Err(CallFailure::Unusable(_)) => hook.when_it_fails(),
            },
        );
        let patch = match outcome {
            Ok(patch) => patch,
            Err(CallFailure::Refused(status)) => {
                note(false);
                return Err(Failure::Refused(*status));
            }
            Err(CallFailure::Unusable(why)) => {
                note(false);
                if attributes.is_late() {
                    return Err(out_of_time().into());
                }
                if !hook.ignores_failure {
                    return Err(hook.failed(&why).into());
                }
                tracing::warn!(webhook = hook.name, "a webhook that may fail failed");
                if let Some(audit) = attributes.audit {
                    let number = round.number();
                    let key =
                        format!("failed-open.mutation.webhook.{ANNOTATION}/round_{number}_index_{place}");
                    audit.add(key, hook.name.as_str());
                }
                continue;
            }
        };
        let mut changed = false;
        if let Some((patch, text)) = patch {
            let Some(shown) = call.shown.object.clone() else {
                let why = format!(
                    "admission webhook {} attempted to modify the object, which is not supported for this operation",
                    go_quote(&hook.name)
                );
                return Err(Status::internal_error(&why).into());
            };
            let patched = apply_patch(shown, &patch)?;
            let new = versions::read(verbs, attributes, &call.shown.matched, &patched).await?;
            changed = versions::show(verbs, attributes, &call.shown.matched, &new).await?
                != call.shown.object.clone().unwrap_or_default();
            if changed {
                *object = new;
                note_patch(attributes, round, place, hook, &text);
            }
        }
        note(changed);
        reinvocation.needed |= changed;
        reinvocation.webhooks.answered(place, changed, hook.wants_changes);
    }
    reinvocation.webhooks.end(round, object);
    Ok(())
}

/// The validating webhooks, all at once. Of several that refuse the fastest is told.
pub(super) async fn validate(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Failure> {
    let Some(compiled) = verbs.webhooks.validating.hooks().filter(|_| !is_exempt(attributes)) else {
        return Ok(());
    };
    let asked = AdmissionRequest::new(verbs, attributes);
    let about = asked.about(object, old);
    // Who is to be asked is decided before anybody is.
    let mut calls = Vec::new();
    for (place, hook) in compiled.hooks.iter().enumerate() {
        if let Some(call) = about.prepare(hook).await? {
            calls.push((place, hook, call));
        }
    }
    let asked_all = machine::now();
    let mut posts = JoinSet::new();
    let mut refused = None;
    for (index, (_, hook, call)) in calls.iter().enumerate() {
        match about.send(hook, call) {
            Ok(post) => {
                posts.spawn(async move {
                    let begun = machine::now();
                    (index, post.await, machine::elapsed(begun))
                });
            }
            Err(CallFailure::Refused(status)) => {
                about.tell(Pass::Validating, hook, Duration::ZERO, CallOutcome::NotAsked);
                refused = refused.or(Some(*status));
            }
            Err(CallFailure::Unusable(why)) => {
                about.tell(Pass::Validating, hook, Duration::ZERO, CallOutcome::FailedClosed);
                refused = refused.or(Some(hook.failed(&why)));
            }
        }
    }
    while let Some(joined) = posts.join_next().await {
        let Ok((index, answer, took)) = joined else {
            refused = refused.or_else(|| Some(Status::internal_error("a webhook could not be asked")));
            continue;
        };
        let Some((place, hook, call)) = calls.get(index) else { continue };
        let read = about.read(Pass::Validating, hook, call, answer);
        about.tell(
            Pass::Validating,
            hook,
            took,
            match &read {
                Ok(Answer { verdict: Verdict::Denied(status), .. }) => {
                    CallOutcome::Denied { code: status.code }
                }
                Ok(_) => CallOutcome::Allowed,
                Err(_) => hook.when_it_fails(),
            },
        );
        match read {
            Ok(answer) => {
                attributes.warn_all(answer.warnings);
                if let Verdict::Denied(status) = answer.verdict {
                    refused = refused.or(Some(*status));
                }
            }
            Err(_) if attributes.is_late() => refused = refused.or_else(|| Some(out_of_time())),
            Err(_) if hook.ignores_failure => {
                tracing::warn!(webhook = hook.name, "a webhook that may fail failed");
                if let Some(audit) = attributes.audit {
                    let key = format!("failed-open.validating.webhook.{ANNOTATION}/round_0_index_{place}");
                    audit.add(key, hook.name.as_str());
                }
            }
            Err(why) => refused = refused.or_else(|| Some(hook.failed(&why))),
        }
    }
    if !calls.is_empty() {
        attributes.waited_since(asked_all);
    }
    refused.map_or(Ok(()), |status| Err(status.into()))
}

/// Whose domain audit annotations are in.
const ANNOTATION: &str = "admission.k8s.io";

/// What a request is told that did not get through in its time, whoever was waited for.
fn out_of_time() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

fn note_mutation(attributes: &Attributes<'_>, key: String, hook: &Hook, changed: bool) {
    let Some(audit) = attributes.audit else { return };
    let (configuration, name) = (Value::from(hook.configuration.as_str()), Value::from(hook.name.as_str()));
    audit.add(key, format!("{{\"configuration\":{configuration},\"webhook\":{name},\"mutated\":{changed}}}"));
}

/// What was changed; only for logs that hold requests.
fn note_patch(attributes: &Attributes<'_>, round: Round, place: usize, hook: &Hook, patch: &[u8]) {
    let Some(audit) = attributes.audit else { return };
    let (configuration, name) = (Value::from(hook.configuration.as_str()), Value::from(hook.name.as_str()));
    let patch = compact_patch(&String::from_utf8_lossy(patch));
    let key = format!("patch.webhook.{ANNOTATION}/round_{}_index_{place}", round.number());
    let note = format!(
        "{{\"configuration\":{configuration},\"webhook\":{name},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}"
    );
    audit.add(key, note);
}

/// A JSON patch as Go writes one that it has read: without blanks, the fields of each operation by name,
/// values as they came but for what could be taken for HTML.
fn compact_patch(patch: &str) -> String {
    let compact = without_blanks(patch);
    let Some(operations) = within(&compact, '[', ']') else { return compact };
    let operations: Vec<String> = split_outside(operations)
        .into_iter()
        .map(|operation| match within(operation, '{', '}') {
            Some(fields) => {
                let named = |field: &'_ str| field.split(':').next().unwrap_or_default().to_owned();
                // The last of several fields of one name counts.
                let by_name: BTreeMap<String, &str> =
                    split_outside(fields).into_iter().map(|field| (named(field), field)).collect();
                format!("{{{}}}", by_name.into_values().collect::<Vec<_>>().join(","))
            }
            None => operation.to_owned(),
        })
        .collect();
    format!("[{}]", operations.join(","))
}

/// Valid JSON without the blanks between its parts.
fn without_blanks(json: &str) -> String {
    let (mut out, mut in_text, mut escaped) = (String::with_capacity(json.len()), false, false);
    for char in json.chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            ' ' | '\n' | '\r' | '\t' if !in_text => {}
            other => out.push(other),
        }
        in_text ^= char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
    }
    out
}

fn within(json: &str, open: char, close: char) -> Option<&str> {
    json.strip_prefix(open)?.strip_suffix(close)
}

/// The parts between commas that stand in no bracket and no text.
fn split_outside(json: &str) -> Vec<&str> {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    let parts = json.split(|char: char| {
        match char {
            '[' | '{' if !in_text => depth += 1,
            ']' | '}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        in_text ^= char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        char == ',' && depth == 0 && !in_text
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let resource = &attributes.target.served.resource;
    // Nor does the server ask on its own account: it could not start while a webhook is away.
    std::ptr::eq(attributes.user, User::server())
        || (&*resource.gv.group == GROUP && EXEMPT.contains(&&*resource.plural))
}

/// Why there is no yes.
enum CallFailure {
    /// Whatever the failure policy.
    Refused(Box<Status>),
    Unusable(Unusable),
}

/// A webhook that is to be asked, and what it is told.
struct Call {
    uid: String,
    shown: Shown,
}

impl About<'_> {
    /// Decides whether a webhook is to be asked, and makes what it is shown.
    async fn prepare(&self, hook: &Hook) -> Result<Option<Call>, Failure> {
        let Some(matched) = self.matched(&hook.matcher)? else { return Ok(None) };
        let uid = new_uid(&self.asked.verbs.clock);
        let call = Call { uid, shown: self.show(matched).await? };
        Ok(self.holds(hook, &call)?.then_some(call))
    }

    /// Whether its conditions hold.
    fn holds(&self, hook: &Hook, call: &Call) -> Result<bool, Status> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        // Webhooks are not told of the namespace here.
        let verdict =
            self.evaluate(&call.shown, &Value::Null, |variables| hook.conditions.evaluate(variables));
        match verdict {
            conditions::Verdict::Yes => Ok(true),
            conditions::Verdict::No => Ok(false),
            conditions::Verdict::Failed(_) if hook.ignores_failure => Ok(false),
            conditions::Verdict::Failed(why) => {
                let why = match why.as_slice() {
                    [one] => one.clone(),
                    several => format!("[{}]", several.join(", ")),
                };
                let resource = self.asked.attributes.target.resource_name();
                Err(Status::forbidden_because(resource, self.request().name, &why))
            }
        }
    }

    fn tell(&self, pass: Pass, hook: &Hook, took: Duration, outcome: CallOutcome) {
        let operation = self.asked.attributes.operation;
        let call = WebhookCall { name: &hook.name, pass, operation, took, outcome };
        self.asked.verbs.call_observer.called(&call);
    }

    async fn post(&self, hook: &Hook, call: &Call) -> Result<Answer, CallFailure> {
        let asked = machine::now();
        let answer = self.send(hook, call)?.await;
        self.asked.attributes.waited_since(asked);
        self.read(Pass::Mutating, hook, call, answer).map_err(CallFailure::Unusable)
    }

    /// Begins to ask.
    fn send(&self, hook: &Hook, call: &Call) -> Result<crate::custom::Called, CallFailure> {
        let request = self.request();
        if request.dry_run && !hook.is_safe_on_dry_run {
            let why = format!("admission webhook {} does not support dry run", go_quote(&hook.name));
            return Err(CallFailure::Refused(Box::new(Status::bad_request(why))));
        }
        let Some(review) = self.review(hook, call, &request) else {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(CallFailure::Unusable(Unusable::Call(why.into())));
        };
        let left = self.asked.attributes.deadline.map(machine::left);
        let timeout = left.map_or(hook.timeout, |left| left.min(hook.timeout));
        Ok(self.asked.verbs.callouts.post(&hook.client, review.body().into(), timeout))
    }

    fn read(
        &self,
        pass: Pass,
        hook: &Hook,
        call: &Call,
        answer: Result<bytes::Bytes, String>,
    ) -> Result<Answer, Unusable> {
        let answer = answer.map_err(Unusable::Call)?;
        let request = self.request();
        let Some(review) = self.review(hook, call, &request) else {
            return Err(Unusable::Call("webhook does not accept known AdmissionReview versions".into()));
        };
        let mut answer = review.read(pass, &hook.name, &answer)?;
        // What cannot stand in a header is not said at all.
        answer.warnings.retain(|text| !text.is_empty() && !text.chars().any(char::is_control));
        if let Some(audit) = self.asked.attributes.audit {
            for (key, value) in &answer.audit_annotations {
                audit.add(format!("{}/{key}", hook.name), value.as_str());
            }
        }
        Ok(answer)
    }

    fn review<'r>(&self, hook: &Hook, call: &'r Call, request: &'r Request<'r>) -> Option<Review<'r>> {
        Some(Review {
            version: hook.version?,
            uid: &call.uid,
            request,
            matched: &call.shown.matched,
            object: call.shown.object.as_ref(),
            old: call.shown.old.as_ref(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first as kube-apiserver 1.36.4 noted it.
    #[test]
    fn patches_are_noted_as_go_writes_them() {
        for (patch, expected) in [
            (
                "[ {\"path\": \"/metadata/labels\", \"op\" : \"add\",\n \"value\": {\"z\": \"<b>&\", \"a\": \"x y\"} } ]",
                r#"[{"op":"add","path":"/metadata/labels","value":{"z":"\u003cb\u003e\u0026","a":"x y"}}]"#,
            ),
            ("[]", "[]"),
            (" [ ] ", "[]"),
            (
                r#"[{"value":"a\\\", [ {","op":"test","path":"/x"},{"path":"/y","op":"remove"}]"#,
                r#"[{"op":"test","path":"/x","value":"a\\\", [ {"},{"op":"remove","path":"/y"}]"#,
            ),
            (r#"[{"op":"a","op":"b"}]"#, r#"[{"op":"b"}]"#),
        ] {
            assert_eq!(compact_patch(patch), expected, "{patch}");
        }
    }
}
