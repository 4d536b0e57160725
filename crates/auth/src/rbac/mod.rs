//! Role-based access control: from roles and bindings to decisions.
//!
//! [`Index`] is fed with the objects one by one and answers from memory. A copy
//! shares all it has with the original, so that whoever feeds it can hand out
//! immutable states; what a decision costs depends on the bindings of the user
//! and of its groups in the namespace at hand, not on how many there are.

use std::sync::Arc;

use rpds::HashTrieMapSync;
use serde::Deserialize;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, Decision, Held, MissingRole, PolicyRule, What, joined},
    user::{User, account_name},
};

mod matching;

/// Whoever is in it may do everything, whatever the roles say.
const MASTERS: &str = "system:masters";

/// All roles and bindings, by those they are for.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// By `NAMESPACE/NAME`; cluster roles have no namespace.
    roles: HashTrieMapSync<Arc<str>, Rules>,
    /// As the roles.
    bindings: HashTrieMapSync<Arc<str>, Arc<Binding>>,
    /// By namespace; empty for those of the whole cluster.
    grants: HashTrieMapSync<Arc<str>, Grants>,
}

type Rules = Arc<[Arc<PolicyRule>]>;

/// What is needed of a Role or a ClusterRole.
#[derive(Debug, Default, Deserialize)]
pub struct RoleFields {
    rules: Option<Vec<Arc<PolicyRule>>>,
}

/// What is needed of a RoleBinding or a ClusterRoleBinding.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingFields {
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Debug, Deserialize)]
struct Subject {
    kind: SubjectKind,
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug)]
struct Binding {
    /// Empty if it holds for the whole cluster.
    namespace: String,
    name: String,
    subjects: Vec<Subject>,
    role: RoleRef,
}

/// The bindings of one scope, by subject. Each list is in the order of their names.
#[derive(Debug, Clone, Default)]
struct Grants {
    users: ByName,
    groups: ByName,
}

type ByName = HashTrieMapSync<Arc<str>, Arc<[Grant]>>;

/// One subject of a binding.
#[derive(Debug, Clone)]
struct Grant {
    binding: Arc<Binding>,
    subject: usize,
}

impl Index {
    /// The role is as `role` says, or gone. `namespace` is empty for cluster roles.
    pub fn set_role(&mut self, namespace: &str, name: &str, role: Option<RoleFields>) {
        let place = place(namespace, name);
        match role {
            Some(role) => self.roles.insert_mut(place, role.rules.unwrap_or_default().into()),
            None => {
                self.roles.remove_mut(&*place);
            }
        }
    }

    /// The binding is as `binding` says, or gone. `namespace` is empty for those
    /// of the whole cluster.
    pub fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<BindingFields>) {
        let place = place(namespace, name);
        let old = self.bindings.get(&*place).cloned();
        let mut grants = self.grants.get(namespace).cloned().unwrap_or_default();
        if let Some(old) = old {
            grants.remove(&old);
            self.bindings.remove_mut(&*place);
        }
        if let Some(fields) = binding {
            let binding = Arc::new(Binding {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                subjects: fields.subjects.unwrap_or_default(),
                role: fields.role_ref,
            });
            grants.add(&binding);
            self.bindings.insert_mut(place, binding);
        }
        if grants.users.is_empty() && grants.groups.is_empty() {
            self.grants.remove_mut(namespace);
        } else {
            self.grants.insert_mut(namespace.into(), grants);
        }
    }

    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let user = attributes.user;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allow { reason: String::new() };
        }
        let namespace = match attributes.what {
            What::Resource(what) => what.namespace,
            What::Path(_) => "",
        };
        let mut missing = Vec::new();
        for grant in self.grants_of(user, namespace) {
            match self.rules_of(&grant.binding) {
                Ok(rules) if rules.iter().any(|rule| matching::allows(rule, attributes)) => {
                    return Decision::Allow { reason: grant.reason() };
                }
                Ok(_) => {}
                Err(role) => missing.push(role),
            }
        }
        let reason = match missing.as_slice() {
            [] => String::new(),
            missing => format!("RBAC: {}", joined(missing)),
        };
        Decision::NoOpinion { reason }
    }

    pub fn rules(&self, user: &User, namespace: &str) -> Held {
        let mut held = Held::default();
        for grant in self.grants_of(user, namespace) {
            match self.rules_of(&grant.binding) {
                Ok(rules) => held.rules.extend(rules.iter().cloned()),
                Err(role) => held.unresolved.push(role),
            }
        }
        held
    }

    /// Those of the whole cluster first. A binding counts once, however many of
    /// its subjects the user is.
    fn grants_of(&self, user: &User, namespace: &str) -> Vec<&Grant> {
        let mut found = self.grants.get("").map(|grants| grants.of(user)).unwrap_or_default();
        if !namespace.is_empty()
            && let Some(local) = self.grants.get(namespace)
        {
            found.append(&mut local.of(user));
        }
        found
    }

    fn rules_of(&self, binding: &Binding) -> Result<&[Arc<PolicyRule>], MissingRole> {
        let RoleRef { kind, name } = &binding.role;
        let is_cluster_role = kind == "ClusterRole";
        let namespace = if is_cluster_role { "" } else { &binding.namespace };
        let rules = self.roles.get(&*place(namespace, name)).map(|rules| &**rules);
        rules.ok_or_else(|| MissingRole { is_cluster_role, name: name.clone() })
    }
}

impl Grants {
    fn of(&self, user: &User) -> Vec<&Grant> {
        let mut found: Vec<&Grant> =
            self.users.get(user.name.as_str()).into_iter().flat_map(|list| list.iter()).collect();
        for group in &user.groups {
            found.extend(self.groups.get(group.as_str()).into_iter().flat_map(|list| list.iter()));
        }
        found.sort_unstable_by_key(|grant| grant.order());
        found.dedup_by(|one, other| Arc::ptr_eq(&one.binding, &other.binding));
        found
    }

    fn add(&mut self, binding: &Arc<Binding>) {
        for (subject, named) in binding.subjects.iter().enumerate() {
            let Some((map, key)) = self.place_of(binding, named) else { continue };
            let mut list: Vec<Grant> = map.get(&*key).map(|list| list.to_vec()).unwrap_or_default();
            list.push(Grant { binding: binding.clone(), subject });
            list.sort_by(|one, other| one.order().cmp(&other.order()));
            map.insert_mut(key.into(), list.into());
        }
    }

    fn remove(&mut self, binding: &Arc<Binding>) {
        for named in &binding.subjects {
            let Some((map, key)) = self.place_of(binding, named) else { continue };
            let list = map.get(&*key).map(|list| &**list).unwrap_or_default();
            let rest: Vec<Grant> =
                list.iter().filter(|grant| !Arc::ptr_eq(&grant.binding, binding)).cloned().collect();
            if rest.is_empty() {
                map.remove_mut(&*key);
            } else {
                map.insert_mut(key.into(), rest.into());
            }
        }
    }

    /// Where a subject is looked for. A service account is the user that its tokens name.
    fn place_of(&mut self, binding: &Binding, subject: &Subject) -> Option<(&mut ByName, String)> {
        match subject.kind {
            SubjectKind::User => Some((&mut self.users, subject.name.clone())),
            SubjectKind::Group => Some((&mut self.groups, subject.name.clone())),
            SubjectKind::ServiceAccount => {
                let namespace = subject.namespace_in(binding);
                let named = !namespace.is_empty();
                named.then(|| (&mut self.users, account_name(namespace, &subject.name)))
            }
            SubjectKind::Unknown => None,
        }
    }
}

impl Subject {
    fn namespace_in<'a>(&'a self, binding: &'a Binding) -> &'a str {
        if self.namespace.is_empty() { &binding.namespace } else { &self.namespace }
    }
}

impl Grant {
    fn order(&self) -> (&str, usize) {
        (&self.binding.name, self.subject)
    }

    fn reason(&self) -> String {
        let Binding { namespace, name, subjects, role } = &*self.binding;
        let binding = match namespace.as_str() {
            "" => format!("ClusterRoleBinding {}", go_quote(name)),
            namespace => format!("RoleBinding {}", go_quote(&format!("{name}/{namespace}"))),
        };
        let subject = subjects.get(self.subject).map(|subject| match subject.kind {
            SubjectKind::Group => format!("Group {}", go_quote(&subject.name)),
            SubjectKind::ServiceAccount => {
                let place = format!("{}/{}", subject.name, subject.namespace_in(&self.binding));
                format!("ServiceAccount {}", go_quote(&place))
            }
            SubjectKind::User | SubjectKind::Unknown => format!("User {}", go_quote(&subject.name)),
        });
        let subject = subject.unwrap_or_default();
        format!("RBAC: allowed by {binding} of {} {} to {subject}", role.kind, go_quote(&role.name))
    }
}

fn place(namespace: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{name}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sternpost_meta::authorize::ResourceAttributes;

    use super::*;

    /// Objects by kind and place, as `Role ns/name`.
    fn index(objects: &[(&str, Value)]) -> Index {
        let mut index = Index::default();
        for (what, object) in objects {
            set(&mut index, what, Some(object.clone()));
        }
        index
    }

    fn set(index: &mut Index, what: &str, object: Option<Value>) {
        let (kind, place) = what.split_once(' ').unwrap();
        let (namespace, name) = place.split_once('/').unwrap_or(("", place));
        if kind.ends_with("Role") {
            let role = object.map(|object| serde_json::from_value(object).unwrap());
            index.set_role(namespace, name, role);
        } else {
            let binding = object.map(|object| serde_json::from_value(object).unwrap());
            index.set_binding(namespace, name, binding);
        }
    }

    fn binding(kind: &str, role: &str, subjects: &[&str]) -> Value {
        let subjects: Vec<Value> = subjects
            .iter()
            .map(|subject| {
                let (kind, name) = subject.split_once(' ').unwrap();
                match name.split_once('/') {
                    Some((namespace, name)) => json!({"kind": kind, "namespace": namespace, "name": name}),
                    None => json!({"kind": kind, "name": name}),
                }
            })
            .collect();
        json!({"roleRef": {"kind": kind, "name": role}, "subjects": subjects})
    }

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.into(), groups, ..User::default() }
    }

    fn get_pods<'a>(user: &'a User, namespace: &'a str) -> Attributes<'a> {
        let what = ResourceAttributes { namespace, version: "v1", resource: "pods", ..Default::default() };
        Attributes { user, verb: "get", what: What::Resource(what) }
    }

    fn reads_pods() -> Value {
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]})
    }

    #[test]
    fn bindings_reach_their_subjects_in_their_scope_and_say_so() {
        let index = index(&[
            ("ClusterRole reader", reads_pods()),
            ("Role a/reader", reads_pods()),
            ("Role a/empty", json!({"rules": null})),
            ("ClusterRoleBinding all", binding("ClusterRole", "reader", &["User ann", "Group ops"])),
            ("RoleBinding a/local", binding("Role", "reader", &["User bob", "ServiceAccount robot"])),
            (
                "RoleBinding a/shared",
                binding("ClusterRole", "reader", &["Group dev", "ServiceAccount b/other"]),
            ),
            ("RoleBinding a/empty", binding("Role", "empty", &["User eve"])),
            ("RoleBinding a/broken", binding("Role", "gone", &["User eve"])),
            ("RoleBinding a/nobody", json!({"roleRef": {"kind": "Role", "name": "reader"}})),
            ("ClusterRoleBinding broken", binding("ClusterRole", "gone", &["User eve", "Strange eve"])),
        ]);
        let allowed = |reason: &str| Decision::Allow { reason: format!("RBAC: allowed by {reason}") };
        let none = |reason: &str| Decision::NoOpinion { reason: reason.into() };
        for (user, namespace, expected) in [
            (
                user("ann", &[]),
                "a",
                allowed(r#"ClusterRoleBinding "all" of ClusterRole "reader" to User "ann""#),
            ),
            (
                user("ann", &["ops"]),
                "",
                allowed(r#"ClusterRoleBinding "all" of ClusterRole "reader" to User "ann""#),
            ),
            (
                user("x", &["y", "ops"]),
                "",
                allowed(r#"ClusterRoleBinding "all" of ClusterRole "reader" to Group "ops""#),
            ),
            (user("ops", &["ann"]), "a", none("")),
            (user("bob", &[]), "a", allowed(r#"RoleBinding "local/a" of Role "reader" to User "bob""#)),
            (user("bob", &[]), "b", none("")),
            (user("bob", &[]), "", none("")),
            (
                user("x", &["dev"]),
                "a",
                allowed(r#"RoleBinding "shared/a" of ClusterRole "reader" to Group "dev""#),
            ),
            (user("x", &["dev"]), "b", none("")),
            (
                user("system:serviceaccount:a:robot", &[]),
                "a",
                allowed(r#"RoleBinding "local/a" of Role "reader" to ServiceAccount "robot/a""#),
            ),
            (user("system:serviceaccount:b:robot", &[]), "a", none("")),
            (
                user("system:serviceaccount:b:other", &[]),
                "a",
                allowed(r#"RoleBinding "shared/a" of ClusterRole "reader" to ServiceAccount "other/b""#),
            ),
            (user("robot", &[]), "a", none("")),
            (user("root", &["system:masters"]), "a", Decision::Allow { reason: String::new() }),
            (user("system:masters", &[]), "a", none("")),
            (user("eve", &[]), "", none(r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#)),
            (
                user("eve", &[]),
                "a",
                none(
                    r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#,
                ),
            ),
        ] {
            assert_eq!(index.authorize(&get_pods(&user, namespace)), expected, "{} {namespace}", user.name);
        }
    }

    #[test]
    fn changes_are_in_effect_at_once_and_earlier_states_stay() {
        let mut index =
            index(&[("ClusterRoleBinding b", binding("ClusterRole", "r", &["User ann", "User ann"]))]);
        let ann = user("ann", &[]);
        let may = |index: &Index| index.authorize(&get_pods(&ann, "a")).is_allowed();
        let mut seen = vec![may(&index)];
        let before = index.clone();
        for (what, object) in [
            ("ClusterRole r", Some(reads_pods())),
            ("ClusterRoleBinding b", Some(binding("ClusterRole", "r", &["User bob"]))),
            ("ClusterRoleBinding b", Some(binding("ClusterRole", "r", &["Group x", "User ann"]))),
            ("ClusterRole r", Some(json!({"rules": []}))),
            ("ClusterRole r", Some(reads_pods())),
            ("ClusterRoleBinding b", None),
            ("ClusterRoleBinding b", None),
        ] {
            set(&mut index, what, object);
            seen.push(may(&index));
        }
        assert_eq!(seen, [false, true, false, true, false, true, false, false]);
        assert!(!may(&before));
        assert!(index.grants.is_empty() && index.bindings.is_empty());
    }

    #[test]
    fn rules_are_listed_with_what_could_not_be_found() {
        let index = index(&[
            ("ClusterRole reader", reads_pods()),
            ("ClusterRoleBinding all", binding("ClusterRole", "reader", &["User ann"])),
            ("RoleBinding a/broken", binding("Role", "gone", &["User ann"])),
        ]);
        let ann = user("ann", &[]);
        let held = index.rules(&ann, "a");
        assert_eq!(held.rules.len(), 1);
        assert_eq!(joined(&held.unresolved), r#"role.rbac.authorization.k8s.io "gone" not found"#);
        assert_eq!(index.rules(&ann, "").unresolved, []);
        assert_eq!(index.rules(&user("bob", &[]), "a"), Held::default());
    }
}
