//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions decide.
//!
//! What a policy says of an object is in `sternpost-admission`. Here is which policies there are, whom
//! they concern, where their parameters come from, and what becomes of what they say. Policies are gone
//! through by name, and their bindings by name.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwapOption;
use serde_json::{Value, json};
use sternpost_admission::{
    policy::{
        Binding, Input, NO_PARAMS, ParamScope, Policy, Which,
        mutating::{Mutated, Mutating},
        no_param_kind,
        validating::{Denial, Validating},
    },
    request::Form,
};
use sternpost_cache::{Cache, Object, ResourceCache, ResourceId, Snapshot};
use sternpost_cel::CostsBySize;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    gvk::GroupVersionKind,
    resource::Resource,
    status::{Cause, Reason, Status},
};
use sternpost_registry::object::Fields;
use sternpost_store::Revision;

use super::{
    Attributes, Operation,
    about::{About, AdmissionRequest, Shown},
    name_of,
    reinvocation::Reinvocation,
    versions::{self, Unknown},
    webhooks::GROUP,
};
use crate::{failure::Failure, served::Served, verbs::Verbs};

/// Of what policies never hear: a bad one could not be removed any more, and reviews change nothing.
const EXEMPT: [(&str, &str); 10] = [
    (GROUP, "validatingadmissionpolicies"),
    (GROUP, "validatingadmissionpolicybindings"),
    (GROUP, "mutatingadmissionpolicies"),
    (GROUP, "mutatingadmissionpolicybindings"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Where an audit log finds what was let in although a policy is against it.
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The policies there are, compiled once for every change of them or of their bindings.
#[derive(Debug)]
pub(crate) struct Policies {
    validating: Configured<Validating>,
    mutating: Configured<Mutating>,
}

impl Policies {
    pub fn of(cache: &Cache) -> Self {
        let resource = |plural: &str| cache.resource(&ResourceId::new(GROUP, plural));
        Self {
            validating: Configured {
                policies: resource("validatingadmissionpolicies"),
                bindings: resource("validatingadmissionpolicybindings"),
                compiled: ArcSwapOption::empty(),
                read: Validating::read,
                costs: Validating::costs_by_size,
                policy: |validating| &validating.policy,
            },
            mutating: Configured {
                policies: resource("mutatingadmissionpolicies"),
                bindings: resource("mutatingadmissionpolicybindings"),
                compiled: ArcSwapOption::empty(),
                read: Mutating::read,
                costs: Mutating::costs_by_size,
                policy: |mutating| &mutating.policy,
            },
        }
    }

    /// Whether any could concern a request.
    pub fn are_there(&self) -> bool {
        self.validating.are_there() || self.mutating.are_there()
    }

    /// What those that could concern a resource may cost.
    pub fn costs_by_size(&self, resource: &Resource) -> CostsBySize {
        if is_exempt(resource) {
            return CostsBySize::default();
        }
        self.validating.costs_by_size(&resource.plural) + self.mutating.costs_by_size(&resource.plural)
    }
}

#[derive(Debug)]
struct Configured<P> {
    policies: Arc<ResourceCache>,
    bindings: Arc<ResourceCache>,
    compiled: ArcSwapOption<Compiled<P>>,
    read: fn(&Value) -> P,
    costs: fn(&P) -> CostsBySize,
    policy: fn(&P) -> &Policy,
}

/// Policies that are bound, and the objects they were read from.
#[derive(Debug)]
struct Compiled<P> {
    policies: Arc<Snapshot>,
    bindings: Arc<Snapshot>,
    bound: Vec<Bound<P>>,
}

#[derive(Debug)]
struct Bound<P> {
    name: String,
    revision: Revision,
    policy: Arc<P>,
    bindings: Vec<Arc<Binding>>,
    /// Of all its bindings.
    costs: CostsBySize,
}

/// What a policy that may cost so much costs for one of its bindings.
fn costs_of(binding: &Binding, policy: CostsBySize) -> CostsBySize {
    match binding.params.as_ref().map(|params| &params.which) {
        // Once for each of the parameters, and nobody knows how many there will be.
        Some(Which::Selected(_)) => CostsBySize::UNKNOWN,
        Some(Which::Named(_)) | None => policy,
    }
}

impl<P> Compiled<P> {
    fn is_of(&self, policies: &Arc<Snapshot>, bindings: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(&self.policies, policies) && Arc::ptr_eq(&self.bindings, bindings)
    }
}

impl<P> Configured<P> {
    fn are_there(&self) -> bool {
        !self.policies.snapshot().is_empty() && !self.bindings.snapshot().is_empty()
    }

    /// Nobody can say as long as they are not compiled, which may itself take a while.
    fn costs_by_size(&self, resource: &str) -> CostsBySize {
        let (policies, bindings) = (self.policies.snapshot(), self.bindings.snapshot());
        if policies.is_empty() || bindings.is_empty() {
            return CostsBySize::default();
        }
        let known = self.compiled.load();
        let Some(compiled) = known.as_ref().filter(|known| known.is_of(&policies, &bindings)) else {
            return CostsBySize::UNKNOWN;
        };
        let may_concern = |bound: &&Bound<P>| {
            let matcher = &(self.policy)(&bound.policy).matcher;
            matcher.as_ref().is_ok_and(|matcher| matcher.may_concern(resource))
        };
        compiled.bound.iter().filter(may_concern).map(|bound| bound.costs).sum()
    }

    /// `None` if there are none, which costs nothing.
    fn bound(&self) -> Option<Arc<Compiled<P>>> {
        let (policies, bindings) = (self.policies.snapshot(), self.bindings.snapshot());
        if policies.is_empty() || bindings.is_empty() {
            return None;
        }
        let known = self.compiled.load_full();
        if let Some(compiled) = known.as_ref().filter(|known| known.is_of(&policies, &bindings)) {
            return Some(compiled.clone());
        }
        let bound = self.read_all(&policies, &bindings, known.as_deref());
        let compiled = Arc::new(Compiled { bound, policies, bindings });
        self.compiled.store(Some(compiled.clone()));
        Some(compiled)
    }

    fn read_all(
        &self,
        policies: &Snapshot,
        bindings: &Snapshot,
        known: Option<&Compiled<P>>,
    ) -> Vec<Bound<P>> {
        let mut by_policy: BTreeMap<String, Vec<Arc<Binding>>> = BTreeMap::new();
        for binding in bindings.iter(None, None) {
            let binding = Binding::read(&binding.value());
            by_policy.entry(binding.policy.clone()).or_default().push(Arc::new(binding));
        }
        let bound = |(name, bindings): (String, Vec<Arc<Binding>>)| {
            let policy = policies.get("", &name)?;
            let revision = policy.revision;
            let same = |bound: &&Bound<P>| bound.name == name && bound.revision == revision;
            // Compiling takes longer than all else here.
            let policy = match known.and_then(|known| known.bound.iter().find(same)) {
                Some(bound) => bound.policy.clone(),
                None => Arc::new((self.read)(&policy.value())),
            };
            let costs = (self.costs)(&policy);
            let costs = bindings.iter().map(|binding| costs_of(binding, costs)).sum();
            Some(Bound { name, revision, policy, bindings, costs })
        };
        by_policy.into_iter().filter_map(bound).collect()
    }
}

/// The validating policies.
pub(super) async fn validate(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Failure> {
    let Some(compiled) =
        verbs.policies.validating.bound().filter(|_| !is_exempt(&attributes.target.served.resource))
    else {
        return Ok(());
    };
    let asked = AdmissionRequest::new(verbs, attributes);
    let about = asked.about(object, old);
    let mut found = PolicyFindings::default();
    for Bound { policy, bindings, .. } in &compiled.bound {
        let Some(matched) = about.matched(&policy.policy.matcher)? else { continue };
        let param_kind = match about.param_kind(&policy.policy) {
            Ok(served) => served,
            Err(why) => {
                found.refuse(&policy.policy, None, Reason::Invalid, why);
                continue;
            }
        };
        let mut seen = None;
        for binding in bindings {
            if !about.concerns(binding)? {
                continue;
            }
            let params = match about.params(param_kind.as_deref(), binding).await? {
                Ok(params) => params,
                Err(why) => {
                    found.refuse(&policy.policy, Some(binding), Reason::Invalid, why);
                    continue;
                }
            };
            for params in params {
                let seen = match &mut seen {
                    Some(seen) => seen,
                    none => none.insert(about.see(matched.clone()).await?),
                };
                let evaluation = about.with_input(seen, &params, |input| policy.evaluate(input));
                found.take(&policy.policy, binding, evaluation, attributes);
            }
        }
    }
    Ok(found.finish(&about)?)
}

/// The mutating policies, one after the other.
pub(super) async fn mutate(
    verbs: &Verbs,
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
    reinvocation: &mut Reinvocation,
) -> Result<(), Failure> {
    // What is to go, and a connection, have nothing that could be changed.
    if object.is_null() || attributes.operation == Operation::Connect {
        return Ok(());
    }
    let Some(compiled) =
        verbs.policies.mutating.bound().filter(|_| !is_exempt(&attributes.target.served.resource))
    else {
        return Ok(());
    };
    let round = reinvocation.round;
    reinvocation.policies.begin(round, object);
    let asked = AdmissionRequest::new(verbs, attributes);
    let mut failures = Vec::new();
    for Bound { policy, bindings, .. } in &compiled.bound {
        let about = asked.about(object, old);
        let Some(matched) = about.matched(&policy.policy.matcher)? else { continue };
        let param_kind = match about.param_kind(&policy.policy) {
            Ok(served) => served,
            Err(why) => {
                if !policy.policy.ignores_failure {
                    let policy = go_quote(&policy.policy.name);
                    failures.push((Reason::Forbidden, format!("policy {policy} denied request: {why}")));
                }
                continue;
            }
        };
        for binding in bindings {
            let about = asked.about(object, old);
            if !about.concerns(binding)? {
                continue;
            }
            let refused = |why: &str| {
                format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.policy.name, binding.name
                )
            };
            let params = match about.params(param_kind.as_deref(), binding).await? {
                Ok(params) => params,
                Err(why) => {
                    if !policy.policy.ignores_failure {
                        failures.push((Reason::Forbidden, refused(why)));
                    }
                    continue;
                }
            };
            for params in params {
                let metadata = params.field("metadata");
                let (namespace, name) = (metadata.text("namespace"), metadata.text("name"));
                let own = format!("{}/{}/{namespace}/{name}", policy.policy.name, binding.name);
                let place = reinvocation.place_of(own);
                if !reinvocation.policies.may_ask(round, place) {
                    continue;
                }
                let mut mutation = Mutation { asked: &asked, object: &mut *object, old, matched: &matched };
                let outcome = mutation.run(policy, &params).await?;
                if !policy.policy.ignores_failure {
                    failures.extend(outcome.failures.iter().map(|why| (Reason::Invalid, refused(why))));
                }
                if let Some(changed) = outcome.changed {
                    reinvocation.needed |= changed;
                    // Unlike a webhook, a policy is asked again about what it changed itself.
                    reinvocation.policies.answered(place, false, policy.wants_changes);
                    reinvocation.policies.answered(place, changed, false);
                }
            }
        }
    }
    reinvocation.policies.end(round, object);
    let Some((reason, message)) = failures.first().cloned() else { return Ok(()) };
    let mut status =
        Status::forbidden_because(attributes.target.resource_name(), name_of(attributes.name, object), "");
    status.reason = Some(reason);
    status.message = message;
    if let Some(details) = &mut status.details {
        details.causes = failures
            .into_iter()
            .map(|(_, message)| Cause { reason: None, message, field: String::new() })
            .collect();
    }
    Err(status.into())
}

/// What one policy does with an object.
struct Mutation<'a> {
    asked: &'a AdmissionRequest<'a>,
    object: &'a mut Value,
    old: Option<&'a Value>,
    matched: &'a Form,
}

#[derive(Default)]
struct Outcome {
    /// Nothing if the policy does not concern the request after all.
    changed: Option<bool>,
    failures: Vec<String>,
}

impl Mutation<'_> {
    async fn run(&mut self, policy: &Mutating, params: &Value) -> Result<Outcome, Failure> {
        let AdmissionRequest { verbs, attributes, .. } = *self.asked;
        let about = self.asked.about(self.object, self.old);
        let mut seen = about.see(self.matched.clone()).await?;
        match about.with_input(&seen, params, |input| policy.holds(input)) {
            Ok(true) => {}
            Ok(false) => return Ok(Outcome::default()),
            Err(why) => return Ok(Outcome { changed: None, failures: vec![why] }),
        }
        let kind = versions::topology(verbs, attributes, self.matched);
        let served = attributes.target.served;
        let (asked, matched) = (&served.resource.gv, &self.matched.gv);
        // What upstream applies it does not convert, and what it patches it reads strictly, unless objects
        // have no Go type.
        let is_typed = !served.is_unstructured();
        let is_inconvertible = is_typed && asked != matched;
        let before = seen.shown.object.clone();
        let mut failures = Vec::new();
        for index in 0..policy.len() {
            let about = self.asked.about(self.object, self.old);
            let Some(object) = &seen.shown.object else { break };
            let mutated =
                about.with_input(&seen, params, |input| policy.mutate(index, input, kind.as_ref(), object));
            let (new, unknown) = match mutated {
                Ok(Mutated::Not) => continue,
                Ok(Mutated::Applied(_)) if is_inconvertible => {
                    let (from, to, kind) = (&matched.version, &asked.version, served.kind());
                    failures.push(format!("converting ({from}.{kind}) to ({to}.{kind}): unknown conversion"));
                    continue;
                }
                Ok(Mutated::Patched(new)) if is_typed => (new, Unknown::Refused),
                Ok(Mutated::Applied(new) | Mutated::Patched(new)) => (new, Unknown::Dropped),
                Err(why) => {
                    failures.push(why);
                    continue;
                }
            };
            let new = versions::read_with(verbs, attributes, self.matched, &new, unknown).await?;
            seen.shown.object = Some(versions::show(verbs, attributes, self.matched, &new).await?);
            *self.object = new;
        }
        Ok(Outcome { changed: Some(before != seen.shown.object), failures })
    }
}

fn is_exempt(resource: &Resource) -> bool {
    EXEMPT.contains(&(&*resource.gv.group, &*resource.plural))
}

/// What validating policies have said so far.
#[derive(Default)]
struct PolicyFindings {
    /// Only the first is told.
    refusal: Option<(Reason, String)>,
    /// In upstream's order of fields.
    failures: Vec<String>,
    /// Different values of every key.
    annotations: BTreeMap<String, Vec<String>>,
}

impl PolicyFindings {
    fn refuse(&mut self, policy: &Policy, binding: Option<&Binding>, reason: Reason, why: impl AsRef<str>) {
        if policy.ignores_failure || self.refusal.is_some() {
            return;
        }
        self.deny(policy, binding, reason, why.as_ref());
    }

    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, reason: Reason, why: &str) {
        let binding = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let why = format!("ValidatingAdmissionPolicy '{}'{binding} denied request: {why}", policy.name);
        self.refusal.get_or_insert((reason, why));
    }

    fn take(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        evaluation: sternpost_admission::policy::validating::Evaluation,
        attributes: &Attributes<'_>,
    ) {
        for Denial { reason, message, index } in evaluation.denials {
            if binding.does("Deny") {
                self.deny(policy, Some(binding), reason, &message);
            }
            if binding.does("Warn") {
                attributes.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                ));
            }
            if binding.does("Audit") {
                let (policy, binding_name) = (json!(policy.name), json!(binding.name));
                let (message, actions) = (json!(message), json!(binding.actions));
                self.failures.push(format!(
                    "{{\"message\":{message},\"policy\":{policy},\"binding\":{binding_name},\"expressionIndex\":{index},\"validationActions\":{actions}}}"
                ));
            }
        }
        for why in evaluation.annotation_failures {
            self.deny(policy, Some(binding), Reason::Invalid, &why);
        }
        for (key, value) in evaluation.annotations {
            let values = self.annotations.entry(format!("{}/{key}", policy.name)).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }

    fn finish(self, about: &About<'_>) -> Result<(), Status> {
        if let Some(audit) = about.asked.attributes.audit {
            for (key, values) in self.annotations {
                audit.add(key, values.join(", "));
            }
            if !self.failures.is_empty() {
                audit.add(FAILURE_ANNOTATION, format!("[{}]", self.failures.join(",")));
            }
        }
        let Some((reason, why)) = self.refusal else { return Ok(()) };
        let attributes = about.asked.attributes;
        let resource = attributes.target.resource_name();
        let mut status = Status::forbidden_because(resource, name_of(attributes.name, about.object), &why);
        status.code = match reason {
            Reason::Forbidden => 403,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        status.reason = Some(reason);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause { reason: None, message: why, field: String::new() });
        }
        Err(status)
    }
}

/// What a policy sees.
struct PolicyView {
    shown: Shown,
    /// The one around the object, or null.
    namespace: Value,
}

impl About<'_> {
    fn concerns(&self, binding: &Binding) -> Result<bool, Status> {
        match &binding.matcher {
            None => Ok(true),
            Some(matcher) => Ok(self.matched(matcher)?.is_some()),
        }
    }

    /// What serves the parameters of a policy, if it has any, or why nothing does.
    fn param_kind(&self, policy: &Policy) -> Result<Option<Arc<Served>>, String> {
        let Some(kind) = &policy.param_kind else { return Ok(None) };
        served_as(self.asked.verbs, kind).map(Some).ok_or_else(|| no_param_kind(kind))
    }

    /// The parameters of a binding, or why there are none. One that names none gets null.
    async fn params(
        &self,
        served: Option<&Served>,
        binding: &Binding,
    ) -> Result<Result<Vec<Value>, &'static str>, Failure> {
        let (Some(served), Some(reference)) = (served, &binding.params) else {
            return Ok(Ok(vec![Value::Null]));
        };
        let scope = if served.is_namespaced() { ParamScope::Namespaced } else { ParamScope::Cluster };
        let request = self.request();
        let namespace = match reference.namespace(scope, request.namespace) {
            Ok(namespace) => namespace,
            Err(why) => return Ok(Err(why)),
        };
        let snapshot = self.asked.verbs.snapshot(served);
        let objects: Vec<Arc<Object>> = match &reference.which {
            Which::Named(name) => snapshot.get(namespace, name).cloned().into_iter().collect(),
            Which::Selected(selector) => {
                let all = snapshot.iter(Some(namespace), None);
                all.filter(|object| selector.matches_with(|key| object.label(key))).cloned().collect()
            }
        };
        if objects.is_empty() {
            return Ok(if reference.is_required { Err(NO_PARAMS) } else { Ok(Vec::new()) });
        }
        let shown = self.asked.verbs.shown(served, &objects).await?;
        Ok(Ok(shown.into_iter().map(|object| served.in_full(object)).collect()))
    }

    async fn see(&self, matched: Form) -> Result<PolicyView, Failure> {
        let AdmissionRequest { verbs, attributes, .. } = self.asked;
        let request = self.request();
        let is_within = attributes.target.served.is_namespaced() && !request.is_about_namespace();
        let namespaces = verbs.namespaces();
        let namespace = namespaces.get("", request.namespace).filter(|_| is_within);
        let namespace = namespace.map(|namespace| namespace.value()).unwrap_or_default();
        Ok(PolicyView { shown: self.show(matched).await?, namespace })
    }

    fn with_input<T>(&self, seen: &PolicyView, params: &Value, evaluate: impl FnOnce(Input<'_>) -> T) -> T {
        self.evaluate(&seen.shown, &seen.namespace, |variables| evaluate(Input { variables, params }))
    }
}

/// What serves objects of a kind.
fn served_as(verbs: &Verbs, kind: &GroupVersionKind) -> Option<Arc<Served>> {
    let is_it = |served: &&Arc<Served>| served.resource.gvk() == *kind;
    let built_in = verbs.served.all_built_in().find(is_it).cloned();
    built_in.or_else(|| verbs.served.customs.in_group(&kind.group).iter().find(is_it).cloned())
}
