//! Flow schemas and priority levels, read once.

use std::sync::Arc;

use serde_json::Value;
use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What},
    user::{User, account_of},
};

/// A `FlowSchema`.
#[derive(Debug, Clone)]
pub struct Schema {
    pub name: String,
    pub uid: Arc<str>,
    pub precedence: i64,
    pub level: String,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// A `PriorityLevelConfiguration`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    pub name: String,
    pub uid: Arc<str>,
    /// `None` if it is exempt.
    pub limited: Option<Limited>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    pub shares: u64,
    /// `None` if nobody waits.
    pub queuing: Option<Queuing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queuing {
    pub queues: u64,
    pub hand_size: u64,
    pub queue_length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distinguisher {
    None,
    User,
    Namespace,
}

#[derive(Debug, Clone)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug, Clone)]
enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

#[derive(Debug, Clone)]
struct ResourceRule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    cluster_scope: bool,
    namespaces: Vec<String>,
}

#[derive(Debug, Clone)]
struct PathRule {
    verbs: Vec<String>,
    urls: Vec<String>,
}

const ANY: &str = "*";

impl Schema {
    pub fn read(object: &Value) -> Self {
        let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
        let distinguisher = match text(field(spec, "distinguisherMethod"), "type").as_str() {
            "ByUser" => Distinguisher::User,
            "ByNamespace" => Distinguisher::Namespace,
            _ => Distinguisher::None,
        };
        Self {
            name: text(metadata, "name"),
            uid: text(metadata, "uid").into(),
            precedence: field(spec, "matchingPrecedence").as_i64().unwrap_or_default(),
            level: text(field(spec, "priorityLevelConfiguration"), "name"),
            distinguisher,
            rules: items(spec, "rules").iter().map(Rule::read).collect(),
        }
    }

    pub fn matches(&self, attributes: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(attributes))
    }

    /// Those who share a flow wait for each other.
    pub fn flow<'a>(&self, attributes: &Attributes<'a>) -> &'a str {
        match (self.distinguisher, attributes.what) {
            (Distinguisher::User, _) => &attributes.user.name,
            (Distinguisher::Namespace, What::Resource(what)) => what.namespace,
            (Distinguisher::Namespace, What::Path(_)) | (Distinguisher::None, _) => "",
        }
    }
}

impl Level {
    pub fn read(object: &Value) -> Self {
        let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
        let number = |value: &Value, name: &str, default: u64| field(value, name).as_u64().unwrap_or(default);
        let limited = (text(spec, "type") == "Limited").then(|| {
            let limited = field(spec, "limited");
            let response = field(limited, "limitResponse");
            let queuing = (text(response, "type") == "Queue").then(|| {
                let queuing = field(response, "queuing");
                Queuing {
                    queues: number(queuing, "queues", 64),
                    hand_size: number(queuing, "handSize", 8),
                    queue_length: number(queuing, "queueLengthLimit", 50),
                }
            });
            Limited { shares: number(limited, "nominalConcurrencyShares", 30), queuing }
        });
        Self { name: text(metadata, "name"), uid: text(metadata, "uid").into(), limited }
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let resources = |rule: &Value| ResourceRule {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            cluster_scope: field(rule, "clusterScope").as_bool().unwrap_or_default(),
            namespaces: texts(rule, "namespaces"),
        };
        let paths =
            |rule: &Value| PathRule { verbs: texts(rule, "verbs"), urls: texts(rule, "nonResourceURLs") };
        Self {
            subjects: items(rule, "subjects").iter().filter_map(Subject::read).collect(),
            resources: items(rule, "resourceRules").iter().map(resources).collect(),
            paths: items(rule, "nonResourceRules").iter().map(paths).collect(),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.is(attributes.user))
            && match &attributes.what {
                What::Resource(what) => self.resources.iter().any(|rule| rule.matches(attributes.verb, what)),
                What::Path(path) => self.paths.iter().any(|rule| rule.matches(attributes.verb, path)),
            }
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Self> {
        Some(match text(subject, "kind").as_str() {
            "User" => Self::User(text(field(subject, "user"), "name")),
            "Group" => Self::Group(text(field(subject, "group"), "name")),
            "ServiceAccount" => {
                let account = field(subject, "serviceAccount");
                Self::ServiceAccount { namespace: text(account, "namespace"), name: text(account, "name") }
            }
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => name == ANY || *name == user.name,
            Self::Group(name) => name == ANY || user.groups.contains(name),
            Self::ServiceAccount { namespace, name } => {
                account_of(&user.name).is_some_and(|(in_namespace, account)| {
                    in_namespace == namespace && (name == ANY || account == name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, verb: &str, what: &ResourceAttributes<'_>) -> bool {
        let place = match what.namespace {
            "" => self.cluster_scope,
            namespace => has(&self.namespaces, namespace),
        };
        let resource = |item: &String| match item.split_once('/') {
            None => item == ANY || (item == what.resource && what.subresource.is_empty()),
            Some((resource, subresource)) => (resource, subresource) == (what.resource, what.subresource),
        };
        place
            && has(&self.verbs, verb)
            && has(&self.groups, what.group)
            && self.resources.iter().any(resource)
    }
}

impl PathRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        let url = |item: &String| match item.strip_suffix("/*") {
            Some(stem) => path.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/')),
            None => item == ANY || item == path,
        };
        has(&self.verbs, verb) && self.urls.iter().any(url)
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ANY || item == wanted)
}

fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn text(object: &Value, name: &str) -> String {
    field(object, name).as_str().unwrap_or_default().to_owned()
}

fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    field(object, name).as_array().map_or(&[], Vec::as_slice)
}

fn texts(object: &Value, name: &str) -> Vec<String> {
    items(object, name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(subjects: &Value, resources: &Value, paths: &Value) -> Schema {
        let rule = json!({"subjects": subjects, "resourceRules": resources, "nonResourceRules": paths});
        Schema::read(&json!({"metadata": {"name": "s"}, "spec": {
            "rules": [rule],
            "distinguisherMethod": {"type": "ByNamespace"},
        }}))
    }

    fn resource(resource: &'static str, namespace: &'static str) -> What<'static> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        What::Resource(ResourceAttributes {
            resource,
            subresource,
            namespace,
            ..ResourceAttributes::default()
        })
    }

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let user = |kind: &str, name: &str| json!([{"kind": kind, kind.to_lowercase(): {"name": name}}]);
        let account = |namespace: &str, name: &str| json!([{"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}]);
        for (subjects, name, expected) in [
            (user("User", "ana"), "ana", true),
            (user("User", "*"), "ana", true),
            (user("User", "bob"), "ana", false),
            (user("Group", "devs"), "ana", true),
            (user("Group", "*"), "ana", true),
            (user("Group", "ops"), "ana", false),
            (account("a", "b"), "system:serviceaccount:a:b", true),
            (account("a", "*"), "system:serviceaccount:a:b", true),
            (account("a", "c"), "system:serviceaccount:a:b", false),
            (account("c", "*"), "system:serviceaccount:a:b", false),
            (account("a", "b"), "ana", false),
        ] {
            let user = User { name: name.into(), groups: vec!["devs".into()], ..User::default() };
            let shown = subjects.to_string();
            let schema = schema(&subjects, &json!([]), &json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]));
            let attributes = Attributes { user: &user, verb: "get", what: What::Path("/") };
            assert_eq!(schema.matches(&attributes), expected, "{shown} {name}");
        }
    }

    #[test]
    fn resources_are_told_by_verb_group_name_and_place() {
        let rule = |resources: &[&str], cluster: bool, namespaces: &[&str]| {
            json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": resources,
                "clusterScope": cluster, "namespaces": namespaces}])
        };
        for (rules, verb, what, expected) in [
            (rule(&["pods"], false, &["*"]), "get", resource("pods", "a"), true),
            (rule(&["pods"], false, &["*"]), "delete", resource("pods", "a"), false),
            (rule(&["pods"], false, &["a"]), "get", resource("pods", "b"), false),
            (rule(&["pods"], false, &["*"]), "list", resource("pods", ""), false),
            (rule(&["pods"], true, &[]), "list", resource("pods", ""), true),
            (rule(&["pods"], true, &["*"]), "get", resource("pods/status", "a"), false),
            (rule(&["pods/status"], true, &["*"]), "get", resource("pods/status", "a"), true),
            (rule(&["*"], true, &["*"]), "get", resource("pods/status", "a"), true),
            (rule(&["*"], true, &["*"]), "get", What::Path("/"), false),
        ] {
            let (user, shown) = (User::admin(), rules.to_string());
            let schema = schema(&json!([{"kind": "User", "user": {"name": "*"}}]), &rules, &json!([]));
            assert_eq!(schema.matches(&Attributes { user: &user, verb, what }), expected, "{shown} {what:?}");
        }
    }

    #[test]
    fn paths_end_in_a_star_below_a_slash() {
        for (url, path, expected) in [
            ("*", "/x", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/healthz/*", "/healthzz", false),
        ] {
            let everybody = json!([{"kind": "Group", "group": {"name": "*"}}]);
            let schema =
                schema(&everybody, &json!([]), &json!([{"verbs": ["get"], "nonResourceURLs": [url]}]));
            let user = User::admin();
            let attributes = Attributes { user: &user, verb: "get", what: What::Path(path) };
            assert_eq!(schema.matches(&attributes), expected, "{url} {path}");
        }
    }

    #[test]
    fn levels_are_exempt_or_limited() {
        let level =
            |spec: Value| Level::read(&json!({"metadata": {"name": "l", "uid": "u"}, "spec": spec})).limited;
        assert_eq!(level(json!({"type": "Exempt"})), None);
        let reject = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}});
        assert_eq!(level(reject), Some(Limited { shares: 5, queuing: None }));
        let queue = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 20, "limitResponse": {"type": "Queue",
            "queuing": {"queues": 128, "handSize": 6, "queueLengthLimit": 40}}}});
        let queuing = Queuing { queues: 128, hand_size: 6, queue_length: 40 };
        assert_eq!(level(queue), Some(Limited { shares: 20, queuing: Some(queuing) }));
    }
}
