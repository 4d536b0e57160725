//! Whether a webhook, policy or binding concerns a request.

use serde_json::Value;
use sternpost_meta::selector::{LabelSelector, SelectorError};

use crate::request::{Form, Operation, Request};

/// The rules and selectors of a webhook (`rules`), of `matchConstraints` or of `matchResources`
/// (`resourceRules` and `excludeResourceRules`).
#[derive(Debug, Clone)]
pub struct Matcher {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether a rule for another version of the resource counts, too.
    equivalent: bool,
    /// Whether no rule means every request, and not none.
    all_without_rules: bool,
}

#[derive(Debug, Clone)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    /// Empty for all names.
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// What a request is about, as selectors look at it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Whether it is in a namespace; namespaces themselves are not.
    pub namespaced: bool,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    /// Labels of the namespace that is named; `None` if there is none.
    pub namespace_labels: &'a (dyn Fn(&str) -> Option<Value> + Sync),
    /// The other versions of the same resource.
    pub equivalents: &'a [Form],
}

/// Which version matched, or why nothing can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    No,
    Yes(Form),
    /// It would concern a request in this namespace, which is not there.
    NamespaceMissing(String),
}

impl Matcher {
    /// Of one entry of `webhooks`.
    pub fn of_webhook(webhook: &Value) -> Result<Self, SelectorError> {
        Self::read(webhook, "rules", false)
    }

    /// Of a policy's `matchConstraints`.
    pub fn of_constraints(constraints: &Value) -> Result<Self, SelectorError> {
        Self::read(constraints, "resourceRules", false)
    }

    /// Of a binding's `matchResources`, which may say nothing of resources.
    pub fn of_binding(resources: &Value) -> Result<Self, SelectorError> {
        Self::read(resources, "resourceRules", true)
    }

    fn read(from: &Value, rules: &str, all_without_rules: bool) -> Result<Self, SelectorError> {
        // A selector that nobody wrote was filled in when it was stored.
        let selector = |field: &str| match from.get(field) {
            None | Some(Value::Null) => Ok(LabelSelector::everything()),
            Some(selector) => LabelSelector::from_object(selector),
        };
        let list = |field: &str| items(from, field).iter().map(Rule::read).collect();
        Ok(Self {
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
            rules: list(rules),
            excluded: list("excludeResourceRules"),
            equivalent: from.get("matchPolicy").and_then(Value::as_str) != Some("Exact"),
            all_without_rules,
        })
    }

    pub fn matches(&self, request: &Request<'_>, subject: &Subject<'_>) -> Match {
        let namespace = self.namespace_matches(request, subject);
        if matches!(namespace, RuleMatch::No) || !self.object_matches(subject) {
            return Match::No;
        }
        if self.rule_of(&self.excluded, request, subject).is_some() {
            return Match::No;
        }
        let form = if self.rules.is_empty() && self.all_without_rules {
            Some(request.asked.clone())
        } else {
            self.rule_of(&self.rules, request, subject)
        };
        match (form, namespace) {
            (None, _) => Match::No,
            (Some(_), RuleMatch::Missing) => Match::NamespaceMissing(request.namespace.to_owned()),
            (Some(form), _) => Match::Yes(form),
        }
    }

    /// Whether it could concern requests for a resource, of whichever group and version: there are
    /// resources of several.
    pub fn may_concern(&self, resource: &str) -> bool {
        (self.rules.is_empty() && self.all_without_rules)
            || self.rules.iter().flat_map(|rule| &rule.resources).any(|named| {
                let named = named.split('/').next().unwrap_or_default();
                named == "*" || named == resource
            })
    }

    fn namespace_matches(&self, request: &Request<'_>, subject: &Subject<'_>) -> RuleMatch {
        let about_namespace = request.is_about_namespace();
        if self.namespaces.is_everything() || !(subject.namespaced || about_namespace) {
            return RuleMatch::Yes;
        }
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let is_namespace = about_namespace && request.subresource.is_empty();
        let labels = match subject.object {
            Some(namespace) if is_namespace && writes => Some(labels_of(namespace).clone()),
            _ => (subject.namespace_labels)(request.namespace),
        };
        match labels {
            None => RuleMatch::Missing,
            Some(labels) if self.namespaces.matches(&labels) => RuleMatch::Yes,
            Some(_) => RuleMatch::No,
        }
    }

    /// Who takes a label away is still looked at.
    fn object_matches(&self, subject: &Subject<'_>) -> bool {
        let matches = |object: &Value| self.objects.matches(labels_of(object));
        let has_metadata = |object: &&Value| object.get("metadata").is_some();
        self.objects.is_everything()
            || subject.object.filter(has_metadata).is_some_and(matches)
            || subject.old.filter(has_metadata).is_some_and(matches)
    }

    fn rule_of(&self, rules: &[Rule], request: &Request<'_>, subject: &Subject<'_>) -> Option<Form> {
        let applies = |rule: &&Rule, form: &Form| rule.matches(request, subject.namespaced, form);
        if rules.iter().any(|rule| applies(&rule, request.asked)) {
            return Some(request.asked.clone());
        }
        if !self.equivalent {
            return None;
        }
        let others = |rule: &Rule| subject.equivalents.iter().find(|form| applies(&rule, form)).cloned();
        rules.iter().find_map(others)
    }
}

enum RuleMatch {
    Yes,
    No,
    Missing,
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let texts = |field: &str| {
            items(rule, field).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let scope = match rule.get("scope").and_then(Value::as_str) {
            Some("Cluster") => Scope::Cluster,
            Some("Namespaced") => Scope::Namespaced,
            _ => Scope::Any,
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope,
            names: texts("resourceNames"),
        }
    }

    fn matches(&self, request: &Request<'_>, namespaced: bool, form: &Form) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        // A namespace is of the cluster, whatever its path looks like.
        let scoped = match self.scope {
            Scope::Any => true,
            Scope::Namespaced => namespaced,
            Scope::Cluster => !namespaced,
        };
        let resource = |item: &String| {
            let (resource, subresource) = item.split_once('/').unwrap_or((item, ""));
            (resource == "*" || resource == &*form.resource)
                && match subresource {
                    // Also what is no subresource: `pods/*` is about pods, too.
                    "*" => true,
                    named => named == request.subresource,
                }
        };
        scoped
            && has(&self.operations, request.operation.as_str())
            && has(&self.groups, &form.gv.group)
            && has(&self.versions, &form.gv.version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn labels_of(object: &Value) -> &Value {
    object.get("metadata").and_then(|metadata| metadata.get("labels")).unwrap_or(&Value::Null)
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Subject").field("namespaced", &self.namespaced).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
