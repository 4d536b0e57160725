//! What is told of which request: `audit.k8s.io/v1 Policy`.

use serde::Deserialize;
use serde_json::Value;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::authorize::{Attributes, What};

/// How much is told of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
pub enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// When an event is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
pub enum Stage {
    RequestReceived,
    /// Only of what goes on for long, and of callers who are unknown.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// Rules, of which the first that applies decides. What none is about is not told.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    api_version: String,
    kind: String,
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    /// The empty one is where there is no namespace.
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupResources {
    group: String,
    /// Empty for all.
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// What a policy says of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("{0}")]
    Unreadable(String),
    #[error("expected a Policy of audit.k8s.io/v1, got {kind} of {api_version}")]
    Kind { api_version: String, kind: String },
    #[error("a policy without rules would log nothing")]
    NoRules,
    #[error("rules[{index}]: resources and namespaces do not go together with nonResourceURLs")]
    Mixed { index: usize },
    #[error(
        "rules[{index}].nonResourceURLs: {url} must be \"*\", or begin with \"/\" and have a \"*\" only at its end"
    )]
    Url { index: usize, url: String },
    #[error("rules[{index}].resources: resourceNames {why}")]
    Names { index: usize, why: &'static str },
}

impl Policy {
    pub fn read(policy: Value) -> Result<Self, PolicyError> {
        let policy: Self =
            serde_json::from_value(policy).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            let quoted = |text: &str| go_quote(text);
            return Err(PolicyError::Kind {
                api_version: quoted(&policy.api_version),
                kind: quoted(&policy.kind),
            });
        }
        if policy.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            rule.check(index)?;
        }
        Ok(policy)
    }

    pub fn verdict(&self, attributes: &Attributes<'_>) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(attributes)) else {
            return Verdict { level: Level::None, omit_stages: Vec::new(), omit_managed_fields: false };
        };
        let mut omit_stages = self.omit_stages.clone();
        omit_stages.extend(&rule.omit_stages);
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Verdict { level: rule.level, omit_stages, omit_managed_fields }
    }
}

impl Rule {
    fn check(&self, index: usize) -> Result<(), PolicyError> {
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if of_resources && !self.non_resource_urls.is_empty() {
            return Err(PolicyError::Mixed { index });
        }
        for url in &self.non_resource_urls {
            let stem = url.strip_suffix('*').unwrap_or(url);
            if url != "*" && (!url.starts_with('/') || stem.contains('*')) {
                return Err(PolicyError::Url { index, url: go_quote(url) });
            }
        }
        for resources in &self.resources {
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err(PolicyError::Names { index, why: "need resources" });
            }
        }
        Ok(())
    }

    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let among = |list: &[String], wanted: &str| list.is_empty() || list.iter().any(|item| item == wanted);
        let user = attributes.user;
        let in_group =
            self.user_groups.is_empty() || self.user_groups.iter().any(|group| user.groups.contains(group));
        if !among(&self.users, &user.name) || !in_group || !among(&self.verbs, attributes.verb) {
            return false;
        }
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        match &attributes.what {
            What::Resource(what) if of_resources => {
                among(&self.namespaces, what.namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|resources| resources.matches(what)))
            }
            What::Path(path) if !of_resources && !self.non_resource_urls.is_empty() => {
                self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                    Some(stem) => path.starts_with(stem),
                    None => url == path,
                })
            }
            _ => !of_resources && self.non_resource_urls.is_empty(),
        }
    }
}

impl GroupResources {
    fn matches(&self, what: &sternpost_meta::authorize::ResourceAttributes<'_>) -> bool {
        if self.group != what.group {
            return false;
        }
        let named =
            self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == what.name);
        let is = |item: &String| match item.split_once('/') {
            None => item == "*" || (item == what.resource && what.subresource.is_empty()),
            Some(("*", subresource)) => !what.subresource.is_empty() && subresource == what.subresource,
            Some((resource, "*")) => resource == what.resource,
            Some((resource, subresource)) => (resource, subresource) == (what.resource, what.subresource),
        };
        self.resources.is_empty() || (named && self.resources.iter().any(is))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sternpost_meta::{authorize::ResourceAttributes, user::User};

    use super::*;

    fn policy(rules: &Value) -> Result<Policy, String> {
        Policy::read(json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
            .map_err(|error| error.to_string())
    }

    /// `USER VERB PATH` or `USER VERB GROUP RESOURCE[/SUBRESOURCE] NAMESPACE/NAME`
    fn applies(rule: &Value, asked: &str) -> bool {
        let mut rule = rule.clone();
        rule["level"] = "Metadata".into();
        let words: Vec<&str> = asked.split(' ').collect();
        let user = User { name: words[0].into(), groups: vec!["devs".into()], ..User::default() };
        let what = match words[2..] {
            [path] => What::Path(path),
            [group, resource, place] => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let (namespace, name) = place.split_once('/').unwrap();
                What::Resource(ResourceAttributes {
                    group,
                    version: "v1",
                    resource,
                    subresource,
                    namespace,
                    name,
                })
            }
            _ => panic!("{asked}"),
        };
        let attributes = Attributes { user: &user, verb: words[1], what };
        policy(&json!([rule])).unwrap().verdict(&attributes).level == Level::Metadata
    }

    #[test]
    fn a_rule_applies_if_all_it_names_does() {
        for (rule, asked, expected) in [
            (json!({}), "ana get  pods a/p", true),
            (json!({}), "ana get /version", true),
            (json!({"users": ["ana"]}), "ana get /version", true),
            (json!({"users": ["bob"]}), "ana get /version", false),
            (json!({"userGroups": ["ops", "devs"]}), "ana get /version", true),
            (json!({"userGroups": ["ops"]}), "ana get /version", false),
            (json!({"verbs": ["list"]}), "ana get  pods a/p", false),
            (json!({"namespaces": ["a"]}), "ana get  pods a/p", true),
            (json!({"namespaces": ["b"]}), "ana get  pods a/p", false),
            (json!({"namespaces": [""]}), "ana get  nodes /n", true),
            (json!({"namespaces": ["a"]}), "ana get /version", false),
            (json!({"resources": [{}]}), "ana get  pods a/p", true),
            (json!({"resources": [{"group": "apps"}]}), "ana get  pods a/p", false),
            (json!({"resources": [{"resources": ["pods"]}]}), "ana get  pods a/p", true),
            (json!({"resources": [{"resources": ["pods"]}]}), "ana get  pods/log a/p", false),
            (json!({"resources": [{"resources": ["pods/log"]}]}), "ana get  pods/log a/p", true),
            (json!({"resources": [{"resources": ["pods/*"]}]}), "ana get  pods/log a/p", true),
            (json!({"resources": [{"resources": ["*/log"]}]}), "ana get  pods/log a/p", true),
            (json!({"resources": [{"resources": ["*"]}]}), "ana get  pods/log a/p", true),
            (
                json!({"resources": [{"resources": ["pods"], "resourceNames": ["q"]}]}),
                "ana get  pods a/p",
                false,
            ),
            (json!({"nonResourceURLs": ["/healthz*"]}), "ana get /healthz/ping", true),
            (json!({"nonResourceURLs": ["/healthz"]}), "ana get /healthz/ping", false),
            (json!({"nonResourceURLs": ["*"]}), "ana get  pods a/p", false),
        ] {
            assert_eq!(applies(&rule, asked), expected, "{rule} {asked}");
        }
    }

    #[test]
    fn the_first_rule_decides_and_what_none_is_about_is_not_told() {
        let policy = policy(&json!([
            {"level": "None", "verbs": ["watch"]},
            {"level": "RequestResponse", "verbs": ["watch", "create"], "omitStages": ["RequestReceived"]},
        ]))
        .unwrap();
        let user = User::default();
        let level = |verb| policy.verdict(&Attributes { user: &user, verb, what: What::Path("/") });
        assert_eq!(level("watch").level, Level::None);
        assert_eq!(level("create").level, Level::RequestResponse);
        assert_eq!(level("create").omit_stages, [Stage::RequestReceived]);
        assert_eq!(level("get").level, Level::None);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for (rules, expected) in [
            (json!([]), "a policy without rules would log nothing"),
            (json!([{}]), "missing field `level`"),
            (
                json!([{"level": "All"}]),
                "unknown variant `All`, expected one of `None`, `Metadata`, `Request`, `RequestResponse`",
            ),
            (
                json!([{"level": "None", "resources": [{}], "nonResourceURLs": ["*"]}]),
                "rules[0]: resources and namespaces do not go together with nonResourceURLs",
            ),
            (
                json!([{"level": "None", "nonResourceURLs": ["x"]}]),
                "rules[0].nonResourceURLs: \"x\" must be \"*\", or begin with \"/\" and have a \"*\" only at its end",
            ),
            (
                json!([{"level": "None", "nonResourceURLs": ["/a*b"]}]),
                "rules[0].nonResourceURLs: \"/a*b\" must be \"*\", or begin with \"/\" and have a \"*\" only at its end",
            ),
            (
                json!([{"level": "None", "resources": [{"resourceNames": ["a"]}]}]),
                "rules[0].resources: resourceNames need resources",
            ),
        ] {
            assert_eq!(policy(&rules).unwrap_err(), expected);
        }
        let other = Policy::read(json!({"kind": "Pod", "apiVersion": "v1"})).unwrap_err();
        assert_eq!(other.to_string(), "expected a Policy of audit.k8s.io/v1, got \"Pod\" of \"v1\"");
    }
}
