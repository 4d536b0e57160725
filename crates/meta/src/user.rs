//! Who asks.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

/// The group of everybody who is known.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody who is not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

const ACCOUNT: &str = "system:serviceaccount:";
const ACCOUNTS: &str = "system:serviceaccounts";

/// A caller, as its credential names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// Empty when the credential carries none.
    pub uid: String,
    pub groups: Vec<String>,
    /// What authenticators add; keys are lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The owner of the generated kubeconfig: may do everything.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec!["system:masters".into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// A service account, as its tokens name it.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut groups = account_groups(namespace).to_vec();
        groups.push(AUTHENTICATED.into());
        Self { name: account_name(namespace, name), groups, ..Self::default() }
    }

    /// As objects show a user: without what is empty.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        for (field, value) in [("username", &self.name), ("uid", &self.uid)] {
            if !value.is_empty() {
                fields.insert(field.into(), value.as_str().into());
            }
        }
        if !self.groups.is_empty() {
            fields.insert("groups".into(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            fields.insert("extra".into(), json!(self.extra));
        }
        Value::Object(fields)
    }

    /// A caller without a credential.
    pub fn anonymous() -> &'static User {
        static ANONYMOUS: LazyLock<User> = LazyLock::new(|| User {
            name: "system:anonymous".into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..User::default()
        });
        &ANONYMOUS
    }

    /// The server itself.
    pub fn server() -> &'static User {
        static SERVER: LazyLock<User> = LazyLock::new(|| User {
            name: "system:apiserver".into(),
            groups: vec!["system:masters".into(), AUTHENTICATED.into()],
            ..User::default()
        });
        &SERVER
    }
}

/// What the user of a service account is called.
pub fn account_name(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

/// Namespace and name of the service account that a user is called by.
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(ACCOUNT)?.split_once(':')
}

/// The groups of all service accounts, and of those in a namespace.
pub fn account_groups(namespace: &str) -> [String; 2] {
    [ACCOUNTS.into(), format!("{ACCOUNTS}:{namespace}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_not_shown() {
        assert_eq!(User::default().to_json(), json!({}));
        let mut user = User::service_account("shop", "till");
        user.uid = "7".into();
        user.extra.insert("k".into(), vec!["v".into()]);
        let expected = json!({
            "username": "system:serviceaccount:shop:till",
            "uid": "7",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
            "extra": {"k": ["v"]},
        });
        assert_eq!(user.to_json(), expected);
        assert_eq!(account_of(&user.name), Some(("shop", "till")));
        assert_eq!(account_of("system:serviceaccount:shop"), None);
    }
}
