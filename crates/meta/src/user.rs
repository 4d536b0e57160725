//! Who asks.

use std::{collections::BTreeMap, sync::LazyLock};

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
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }

    /// A caller without a credential.
    pub fn anonymous() -> &'static User {
        static ANONYMOUS: LazyLock<User> = LazyLock::new(|| User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        });
        &ANONYMOUS
    }

    /// The server itself.
    pub fn server() -> &'static User {
        static SERVER: LazyLock<User> = LazyLock::new(|| User {
            name: "system:apiserver".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        });
        &SERVER
    }
}
