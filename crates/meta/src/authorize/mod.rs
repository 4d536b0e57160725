//! Who may do what: the question, the answer, and whoever answers.
//!
//! Requests, reviews, changes of roles and the expressions of policies all ask
//! the same [`Authorizer`].

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    status::{Attempt, ResourceName, Status, each_once},
    user::User,
};
use sternpost_golang::strconv::{go_quote, go_quote_list};

mod coverage;

pub use coverage::{MAX_COMBINATIONS, has_path, uncovered};

/// Whoever decides. An answer holds for the objects as they can be read now.
pub trait Authorizer: fmt::Debug + Send + Sync {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// All that `user` may do in a namespace, or, if that is empty, everywhere; in so
    /// far as that can be listed.
    fn rules(&self, user: &User, namespace: &str) -> Held;
}

/// May `user` do `verb` to `what`?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub user: &'a User,
    /// Of a resource, or the method in lower case; empty for a method that is
    /// no verb.
    pub verb: &'a str,
    pub what: What<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    Resource(ResourceAttributes<'a>),
    Path(&'a str),
}

/// What is empty is not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Nobody is refused for good: who is not allowed may be by somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow {
        reason: String,
    },
    /// The reason is empty unless something is wrong.
    NoOpinion {
        reason: String,
    },
}

/// One rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// A list that may be `null`.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    pub rules: Vec<Arc<PolicyRule>>,
    /// What could not be found out.
    pub unresolved: Vec<MissingRole>,
}

/// A role that is bound and not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRole {
    pub is_cluster_role: bool,
    pub name: String,
}

/// Lets everybody do everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::Allow { reason: String::new() }
    }

    fn rules(&self, _: &User, _: &str) -> Held {
        Held { rules: PolicyRule::everything().map(Arc::new).into(), unresolved: Vec::new() }
    }
}

impl Attributes<'_> {
    /// What the client is told. `why` may be empty.
    pub fn forbidden(&self, why: &str) -> Status {
        match self.what {
            What::Path(path) => Status::forbidden_path(&self.user.name, self.verb, path, why),
            What::Resource(what) => Status::forbidden(Attempt {
                user: &self.user.name,
                verb: self.verb,
                resource: ResourceName { group: what.group, resource: what.resource },
                subresource: what.subresource,
                namespace: Some(what.namespace).filter(|namespace| !namespace.is_empty()),
                name: what.name,
                why,
            }),
        }
    }
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Allow { reason } | Self::NoOpinion { reason } => reason,
        }
    }
}

impl PolicyRule {
    /// What a cluster's admin holds.
    pub fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), non_resource_urls: all(), ..Self::default() },
        ]
    }
}

/// As upstream prints a rule in errors.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let fields: Vec<String> = fields
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", go_quote_list(values)))
            .collect();
        write!(f, "{{{}}}", fields.join(", "))
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_cluster_role { "clusterrole" } else { "role" };
        write!(f, "{kind}.rbac.authorization.k8s.io {} not found", go_quote(&self.name))
    }
}

/// Several errors as one: each is told once.
pub fn joined<T: fmt::Display>(errors: impl IntoIterator<Item = T>) -> String {
    let texts = each_once(errors.into_iter().map(|error| error.to_string()));
    match texts.as_slice() {
        [one] => one.clone(),
        [] => String::new(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_joined_as_upstream_joins_them() {
        for (errors, expected) in
            [(&[][..], ""), (&["a"][..], "a"), (&["a", "a"][..], "a"), (&["a", "b", "a"][..], "[a, b]")]
        {
            assert_eq!(joined(errors), expected);
        }
    }

    #[test]
    fn rules_are_read_and_printed_as_upstream_prints_them() {
        for (json, expected) in [
            (
                r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
            ),
            (
                r#"{"verbs":["get"],"apiGroups":["a"],"resources":["b"],"resourceNames":["c"]}"#,
                r#"{APIGroups:["a"], Resources:["b"], ResourceNames:["c"], Verbs:["get"]}"#,
            ),
            (r#"{"verbs":["get"],"nonResourceURLs":["/a*"]}"#, r#"{NonResourceURLs:["/a*"], Verbs:["get"]}"#),
            (r#"{"verbs":null}"#, "{}"),
        ] {
            let rule: PolicyRule = serde_json::from_str(json).unwrap();
            assert_eq!(rule.to_string(), expected);
        }
    }
}
