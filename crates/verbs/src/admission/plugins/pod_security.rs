//! PodSecurity: the labels of a namespace say how much its pods may do.
//!
//! [`policy`] reads the labels, [`mod@configuration`] what counts without them and who is
//! exempt, [`checks`] holds a pod against a level. Pods are
//! refused by the enforced level; pods and what makes pods are warned about by the
//! warning level; a namespace that enforces more is told which of its pods are not
//! as it wants.

mod baseline;
mod checks;
mod configuration;
mod policy;
mod restricted;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    field::Errors,
    status::{Cause, Status},
};
use sternpost_registry::object::Fields;

pub use self::configuration::PodSecurityConfiguration;
use self::{
    checks::{Pod, Violation, evaluate},
    policy::{Level, Policy, Standard},
};
use crate::admission::{Operation, Plugin, Request};
use crate::verbs::invalid;

pub(super) const PLUGIN: Plugin = Plugin { name: "PodSecurity", validate, ..Plugin::NONE };

/// Of a namespace's pods no more than these are looked at when its labels change.
const MAX_PODS_OF_NAMESPACE: usize = 3000;

/// Subresources that leave alone what a pod may do.
const HARMLESS: [&str; 8] =
    ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

fn validate(request: &Request<'_>, object: &Value) -> Result<(), Status> {
    let attributes = request.attributes;
    if !matches!(attributes.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    if request.is_about("", "namespaces") && attributes.subresource.is_empty() {
        return check_namespace(request, object);
    }
    if request.is_about("", "pods") && !HARMLESS.contains(&attributes.subresource) {
        return check_pod(request, object);
    }
    if let Some(template) = template(request, object).filter(|_| attributes.subresource.is_empty()) {
        if is_exempt(request) || !template.has("spec") {
            return Ok(());
        }
        let (policy, errors) = policy_of(request);
        let is_of_interest =
            [&policy.warn, &policy.audit].into_iter().any(|it| it.level != Level::Privileged);
        if (is_of_interest || !errors.is_empty()) && !is_of_exempt_class(request, template) {
            note_errors(request, errors);
            note_violations(request, &policy, template);
            warn(request, &policy, template);
        }
    }
    Ok(())
}

fn check_pod(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    if is_exempt(request) {
        return Ok(());
    }
    let (policy, errors) = policy_of(request);
    if errors.is_empty() && policy.is_privileged() {
        // Of a namespace that lets everything in it does not matter by which version.
        note(request, "enforce-policy", Standard::PRIVILEGED.to_string());
        return Ok(());
    }
    if request.old.is_some_and(|old| !changes_what_runs(pod, old)) || is_of_exempt_class(request, pod) {
        return Ok(());
    }
    note_errors(request, errors);
    note(request, "enforce-policy", policy.enforce.to_string());
    note_violations(request, &policy, pod);
    let violations = evaluate(&policy.enforce, &Pod::new(pod));
    if !violations.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, texts(&violations));
        return Err(request.forbidden(pod, &why));
    }
    warn(request, &policy, pod);
    Ok(())
}

fn configuration<'a>(request: &Request<'a>) -> &'a PodSecurityConfiguration {
    &request.verbs.admission.pod_security
}

/// Whether the namespace or the user is.
fn is_exempt(request: &Request<'_>) -> bool {
    let configuration = configuration(request);
    let reason = if configuration.namespaces.contains(request.attributes.target.namespace) {
        "namespace"
    } else if configuration.usernames.contains(&request.attributes.user.name) {
        "user"
    } else {
        return false;
    };
    note(request, "exempt", reason.into());
    true
}

/// Whether the runtime class of a pod, or of pods made from a template, is exempt.
fn is_of_exempt_class(request: &Request<'_>, pod: &Value) -> bool {
    let is_exempt = has_exempt_class(configuration(request), pod);
    if is_exempt {
        note(request, "exempt", "runtimeClass".into());
    }
    is_exempt
}

fn has_exempt_class(configuration: &PodSecurityConfiguration, pod: &Value) -> bool {
    configuration.runtime_classes.contains(pod.field("spec").text("runtimeClassName"))
}

fn warn(request: &Request<'_>, policy: &Policy, template: &Value) {
    let violations = evaluate(&policy.warn, &Pod::new(template));
    if !violations.is_empty() {
        request.attributes.warn(format!(
            "would violate PodSecurity \"{}\": {}",
            policy.warn,
            texts(&violations)
        ));
    }
}

fn texts(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// For the audit log, if there is one.
fn note(request: &Request<'_>, key: &str, text: String) {
    if let Some(audit) = request.attributes.audit {
        audit.add(format!("pod-security.kubernetes.io/{key}"), text);
    }
}

/// What the audited level would not let in.
fn note_violations(request: &Request<'_>, policy: &Policy, pod: &Value) {
    if request.attributes.audit.is_none() {
        return;
    }
    let violations = evaluate(&policy.audit, &Pod::new(pod));
    if !violations.is_empty() {
        let text = format!("would violate PodSecurity \"{}\": {}", policy.audit, texts(&violations));
        note(request, "audit-violations", text);
    }
}

/// Labels that cannot be read, of a namespace that had them before anybody looked.
fn note_errors(request: &Request<'_>, errors: Errors) {
    if !errors.is_empty() {
        note(request, "error", format!("Failed to parse policy: {}", aggregate(&errors.into_causes())));
    }
}

/// All causes as one text, as upstream joins them.
fn aggregate(causes: &[Cause]) -> String {
    let texts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// What pods are made from, in the kinds that make some; without a `spec` if it is left out.
fn template<'a>(request: &Request<'_>, object: &'a Value) -> Option<&'a Value> {
    let resource = &request.attributes.target.served.resource;
    let template = match (&*resource.gv.group, &*resource.plural) {
        ("", "podtemplates") => object.field("template"),
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => object.field("spec").field("template"),
        ("batch", "cronjobs") => object.field("spec").field("jobTemplate").field("spec").field("template"),
        _ => return None,
    };
    Some(template)
}

/// An update that runs nothing else than before is not looked at, so that pods
/// which were let in under other labels can still be written.
fn changes_what_runs(pod: &Value, old: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let (new_spec, old_spec) = (pod.field("spec"), old.field("spec"));
    let other = |new: &Value, before: &Value| {
        let profile = format!("container.seccomp.security.alpha.kubernetes.io/{}", new.text("name"));
        let annotation = |pod: &Value| pod.field("metadata").field("annotations").field(&profile).clone();
        new.text("image") != before.text("image") || annotation(pod) != annotation(old)
    };
    let changed = lists.into_iter().any(|list| {
        let (new, before) = (new_spec.items(list), old_spec.items(list));
        new.len() != before.len() || new.iter().zip(before).any(|(new, before)| other(new, before))
    });
    let mut before: HashMap<&str, &Value> = HashMap::new();
    for container in old_spec.items("ephemeralContainers") {
        before.entry(container.text("name")).or_insert(container);
    }
    changed
        || new_spec
            .items("ephemeralContainers")
            .iter()
            .any(|new| before.get(new.text("name")).is_none_or(|before| other(new, before)))
}

/// What the labels of its namespace say, and what is wrong with them.
fn policy_of(request: &Request<'_>) -> (Policy, Errors) {
    let namespaces = request.objects("", "namespaces");
    let namespace = namespaces.get("", request.attributes.target.namespace);
    // From the labels that are read already: most namespaces have none of these.
    policy::read(|name| namespace?.label(name), &configuration(request).defaults)
}

fn check_namespace(request: &Request<'_>, namespace: &Value) -> Result<(), Status> {
    let configuration = configuration(request);
    let labels = namespace.field("metadata").field("labels");
    let read = |labels: &Value| {
        let label = |name: &str| Some(labels.get_field(name)?.as_str().unwrap_or_default());
        policy::read(label, &configuration.defaults)
    };
    let (new, errors) = read(labels);
    let old = request.old.map(|old| read(old.field("metadata").field("labels")));
    // Labels that were wrong before this plugin was on can stay until they are changed.
    let old_causes = old.as_ref().map_or(&[][..], |(_, errors)| errors.causes());
    if !errors.is_empty() && errors.causes() != old_causes {
        return Err(invalid(request.attributes.target, namespace, errors));
    }
    let enforces_more = old.as_ref().is_some_and(|(old, _)| {
        let loosens = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
        new.enforce.level != Level::Privileged && !loosens
    });
    let name = request.attributes.name;
    if configuration.namespaces.contains(name) {
        if enforces_more || old.is_none() {
            request.attributes.warn_all(ignored(name, &new, &configuration.defaults, labels));
        }
    } else if enforces_more {
        let pods = request.objects("", "pods");
        // Few look at a class, and without one nothing needs to be read to count.
        let counts = |pod: &Value| !has_exempt_class(configuration, pod);
        let all = if configuration.runtime_classes.is_empty() {
            pods.iter(Some(name), None).count()
        } else {
            pods.iter(Some(name), None).filter(|pod| counts(&pod.value())).count()
        };
        let pods = pods.iter(Some(name), None).map(|pod| (pod.name().to_owned(), pod.value()));
        request.attributes.warn_all(warnings_of_pods(
            name,
            &new.enforce,
            all,
            pods.filter(|(_, pod)| counts(pod)),
        ));
    }
    Ok(())
}

/// What an exempt namespace asks for in vain: the modes that its labels name and that would matter.
fn ignored(name: &str, policy: &Policy, defaults: &Policy, labels: &Value) -> Option<String> {
    if policy.is_privileged() || policy.is_equivalent(defaults) {
        return None;
    }
    let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
    let is_named = |mode: &str| {
        let label = format!("{}/{mode}", policy::PREFIX);
        labels.has(&label) || labels.has(&format!("{label}-version"))
    };
    let asked: Vec<String> = modes
        .into_iter()
        .filter(|(mode, standard)| standard.level != Level::Privileged && is_named(mode))
        .map(|(mode, standard)| format!("{mode}={standard}"))
        .collect();
    let (name, asked) = (go_quote(name), asked.join(", "));
    Some(format!("namespace {name} is exempt from Pod Security, and the policy ({asked}) will be ignored"))
}

/// What is wrong with the pods of a namespace, which come in the order of their
/// names. Those that are wrong for the same reasons share a line.
fn warnings_of_pods(
    namespace: &str,
    enforce: &Standard,
    all: usize,
    pods: impl Iterator<Item = (String, Value)>,
) -> Vec<String> {
    let mut wrong: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (name, pod) in pods.take(MAX_PODS_OF_NAMESPACE) {
        let violations = evaluate(enforce, &Pod::new(&pod));
        if violations.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason.as_str()).collect();
        let reasons = wrong.entry(reasons.join(", "));
        reasons.and_modify(|(_, others)| *others += 1).or_insert((name, 0));
    }
    let mut lines: Vec<String> = wrong
        .into_iter()
        .map(|(reasons, (first, others))| match others {
            0 => format!("{first}: {reasons}"),
            1 => format!("{first} (and 1 other pod): {reasons}"),
            _ => format!("{first} (and {others} other pods): {reasons}"),
        })
        .collect();
    lines.sort_unstable();
    let mut warnings = Vec::new();
    if all > MAX_PODS_OF_NAMESPACE {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS_OF_NAMESPACE} of {all} existing pods"
        ));
    }
    if !lines.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    warnings.append(&mut lines);
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{policy::Version, *};

    fn warnings(count: usize) -> Vec<String> {
        let pod = json!({"spec": {"hostPID": true}});
        let pods = (0..count).map(|index| (format!("p{index:04}"), pod.clone()));
        let enforce = Standard { level: Level::Baseline, version: Version::Latest };
        warnings_of_pods("big", &enforce, count, pods)
    }

    #[test]
    fn pods_past_the_limit_are_counted_and_not_looked_at() {
        let violate = "existing pods in namespace \"big\" violate the new PodSecurity enforce level \"baseline:latest\"";
        let line = "p0000 (and 2999 other pods): host namespaces";
        assert_eq!(warnings(MAX_PODS_OF_NAMESPACE), [violate, line]);
        let only = "new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods";
        assert_eq!(warnings(MAX_PODS_OF_NAMESPACE + 1), [only, violate, line]);
    }

    #[test]
    fn pods_that_are_wrong_alike_share_a_line() {
        for (count, expected) in
            [(1, "p0000: "), (2, "p0000 (and 1 other pod): "), (3, "p0000 (and 2 other pods): ")]
        {
            assert_eq!(warnings(count).pop(), Some(format!("{expected}host namespaces")));
        }
        assert_eq!(warnings(0), [""; 0]);
    }
}
