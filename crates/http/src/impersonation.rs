//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! There are several ways to be allowed that, tried in this order. The constrained ones want
//! two permissions: to be somebody (`impersonate:MODE` on the user, the account or the node), and to
//! do this request as somebody (`impersonate-on:MODE:VERB` on what it is about). The old one
//! wants `impersonate` on each part of the user and then allows everything.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, Authorizer, ResourceAttributes, What},
    format,
    status::Status,
    user::{AUTHENTICATED, UNAUTHENTICATED, User, account_groups, account_of},
};

use crate::request_info::RequestInfo;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";

const ANONYMOUS: &str = "system:anonymous";

/// In whose `extra` the node is that a token is bound to.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a requester is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    pub user: User,
    /// The verb of the constrained way that allowed it; `None` for the old one.
    pub constraint: Option<&'static str>,
}

/// Whom `requester` is to be taken for, or `None` if the headers say nothing of it.
/// The headers are gone afterwards.
pub fn impersonated(
    authorizer: &dyn Authorizer,
    requester: &User,
    headers: &mut HeaderMap,
    info: &RequestInfo,
) -> Result<Option<Impersonated>, Status> {
    let Some(wanted) = wanted(headers) else { return Ok(None) };
    if wanted.name.is_empty() {
        let what = go_syntax(&wanted);
        return Err(Status::bad_request(format!("requested {what} without impersonating a user name")));
    }
    let asking = Asking { authorizer, requester, info, wanted: &wanted };
    let mut first_refusal = None;
    for mode in modes(requester, &wanted) {
        match asking.check(&mode) {
            Ok(groups) => {
                let user = User { groups: complete(&wanted, groups), ..wanted.clone() };
                return Ok(Some(Impersonated { user, constraint: mode.constraint() }));
            }
            Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
        }
    }
    Err(first_refusal.unwrap_or_else(|| info.attributes(requester).forbidden("")))
}

/// The user that the headers spell, which are removed.
fn wanted(headers: &mut HeaderMap) -> Option<User> {
    let mine: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    if mine.is_empty() {
        return None;
    }
    let texts = |name: &HeaderName| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let first = |name: &HeaderName| texts(name).into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in &mine {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.entry(unescaped(key)).or_default().extend(texts(name));
        }
    }
    let wanted = User { name: first(&USER), uid: first(&UID), groups: texts(&GROUP), extra };
    for name in mine {
        headers.remove(name);
    }
    (wanted != User::default()).then_some(wanted)
}

/// What is not escaped properly is meant as it stands.
fn unescaped(key: &str) -> String {
    let is_whole = key
        .split('%')
        .skip(1)
        .all(|rest| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    let decoded = percent_decode_str(key).decode_utf8();
    decoded.ok().filter(|_| is_whole).map_or_else(|| key.to_owned(), Into::into)
}

const OF_ACCOUNT: &str = "impersonate:serviceaccount";
const OF_USER_INFO: &str = "impersonate:user-info";

/// One way to be allowed.
enum Mode<'a> {
    /// A node, by an account of that node; this says whether any other will do.
    Node {
        name: &'a str,
        mode: &'static str,
        verb: &'static str,
    },
    Account {
        namespace: &'a str,
        name: &'a str,
    },
    UserInfo,
    Legacy,
}

impl Mode<'_> {
    /// What the audit log calls it.
    fn constraint(&self) -> Option<&'static str> {
        match *self {
            Mode::Node { verb, .. } => Some(verb),
            Mode::Account { .. } => Some(OF_ACCOUNT),
            Mode::UserInfo => Some(OF_USER_INFO),
            Mode::Legacy => None,
        }
    }
}

fn modes<'a>(requester: &User, wanted: &'a User) -> Vec<Mode<'a>> {
    let is_bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    let node = wanted.name.strip_prefix("system:node:").filter(|name| !name.is_empty());
    let account = account(&wanted.name);
    let mut modes = Vec::new();
    match (node, account) {
        (Some(name), _) if is_bare => {
            let bound = requester.extra.get(NODE_NAME).is_some_and(|nodes| nodes.as_slice() == [name]);
            if bound && self::account(&requester.name).is_some() {
                let (mode, verb) = ("associated-node", "impersonate:associated-node");
                modes.push(Mode::Node { name: "*", mode, verb });
            }
            let (mode, verb) = ("arbitrary-node", "impersonate:arbitrary-node");
            modes.push(Mode::Node { name, mode, verb });
        }
        (None, Some((namespace, name))) if is_bare => modes.push(Mode::Account { namespace, name }),
        (None, None) => modes.push(Mode::UserInfo),
        _ => {}
    }
    modes.push(Mode::Legacy);
    modes
}

/// Namespace and name, if it is the user name of a service account.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = account_of(user)?;
    let is_one = format::dns_label(namespace).is_empty() && format::dns_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

struct Asking<'a> {
    authorizer: &'a dyn Authorizer,
    requester: &'a User,
    info: &'a RequestInfo,
    wanted: &'a User,
}

impl Asking<'_> {
    /// The groups that come with it, or why not.
    fn check(&self, mode: &Mode<'_>) -> Result<Vec<String>, Status> {
        match *mode {
            Mode::Node { name, mode, verb } => {
                self.check_request(mode)?;
                self.check_part(verb, AUTHENTICATION, "nodes", "", "", name)?;
                Ok(vec!["system:nodes".into()])
            }
            Mode::Account { namespace, name } => {
                self.check_request("serviceaccount")?;
                self.check_part(OF_ACCOUNT, AUTHENTICATION, "serviceaccounts", "", namespace, name)?;
                Ok(account_groups(namespace).into())
            }
            Mode::UserInfo => {
                self.check_request("user-info")?;
                self.check_parts(OF_USER_INFO, AUTHENTICATION)?;
                Ok(self.wanted.groups.clone())
            }
            Mode::Legacy => {
                self.check_parts("impersonate", "")?;
                match account(&self.wanted.name) {
                    Some((namespace, _)) if self.wanted.groups.is_empty() => {
                        Ok(account_groups(namespace).into())
                    }
                    _ => Ok(self.wanted.groups.clone()),
                }
            }
        }
    }

    /// May this request be made as somebody else?
    fn check_request(&self, mode: &str) -> Result<(), Status> {
        let attributes = self.info.attributes(self.requester);
        let verb = format!("impersonate-on:{mode}:{}", attributes.verb);
        self.ask(&Attributes { verb: &verb, ..attributes })
    }

    /// May every part of the user be taken? Users and groups are in `group`.
    fn check_parts(&self, verb: &str, group: &str) -> Result<(), Status> {
        let User { name, uid, groups, extra } = self.wanted;
        match account(name) {
            Some((namespace, name)) => {
                self.check_part(verb, group, "serviceaccounts", "", namespace, name)?;
            }
            None => self.check_part(verb, group, "users", "", "", name)?,
        }
        if !uid.is_empty() {
            self.check_part(verb, AUTHENTICATION, "uids", "", "", uid)?;
        }
        let is_constrained = !group.is_empty();
        for name in groups {
            if is_constrained && name == "system:masters" {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.part(verb, group, "groups", "", "", name).forbidden(why));
            }
            self.check_part(verb, group, "groups", "", "", name)?;
        }
        for (key, values) in extra {
            if is_constrained && let Some(why) = problem_of_extra(key, values) {
                return Err(self.part(verb, AUTHENTICATION, "userextras", "", "", "").forbidden(&why));
            }
            for value in values {
                self.check_part(verb, AUTHENTICATION, "userextras", key, "", value)?;
            }
        }
        Ok(())
    }

    fn check_part(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        self.ask(&self.part(verb, group, resource, subresource, namespace, name))
    }

    fn part<'b>(
        &'b self,
        verb: &'b str,
        group: &'b str,
        resource: &'b str,
        subresource: &'b str,
        namespace: &'b str,
        name: &'b str,
    ) -> Attributes<'b> {
        let what = ResourceAttributes { group, version: "v1", resource, subresource, namespace, name };
        Attributes { user: self.requester, verb, what: What::Resource(what) }
    }

    fn ask(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.authorizer.authorize(attributes);
        if decision.is_allowed() { Ok(()) } else { Err(attributes.forbidden(decision.reason())) }
    }
}

/// Everybody is either known or not.
fn complete(wanted: &User, mut groups: Vec<String>) -> Vec<String> {
    let has = |groups: &[String], group: &str| groups.iter().any(|one| one == group);
    if wanted.name == ANONYMOUS {
        if !has(&groups, UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.into());
        }
    } else if !has(&groups, AUTHENTICATED) && !has(&groups, UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.into());
    }
    groups
}

fn problem_of_extra(key: &str, values: &[String]) -> Option<String> {
    if key.to_lowercase() != key {
        let key = go_quote(key);
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key}"));
    }
    let bad = |value: &str, why: &str| {
        let value = go_quote(value);
        Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {value}: {why}"
        ))
    };
    let (domain, path) = key.split_once('/').unwrap_or((key, ""));
    if domain.is_empty() || path.is_empty() {
        return bad(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    if let Some(why) = format::dns_subdomain(domain).first() {
        return bad(domain, why);
    }
    let is_path =
        path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte));
    if !is_path {
        return bad(path, "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')");
    }
    if values.iter().any(String::is_empty) {
        return Some("impersonating the empty string value in extra is not allowed".into());
    }
    None
}

/// As Go prints a user.
fn go_syntax(user: &User) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".into() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".into()
    } else {
        let pairs = user.extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), list(values)));
        format!("map[string][]string{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    };
    let (name, uid) = (go_quote(&user.name), go_quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn headers_spell_a_user_and_are_gone() {
        for (pairs, expected) in [
            (&[("accept", "x")][..], None),
            (&[("impersonate-other", "x"), ("impersonate-user", "")][..], None),
            (
                &[("impersonate-user", "a"), ("impersonate-user", "b"), ("impersonate-uid", "u")][..],
                Some(
                    r#"&user.DefaultInfo{Name:"a", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)}"#,
                ),
            ),
            (
                &[("impersonate-group", "a"), ("impersonate-group", ""), ("impersonate-extra-B%2fc", "v")][..],
                Some(
                    r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", ""}, Extra:map[string][]string{"b/c":[]string{"v"}}}"#,
                ),
            ),
            (
                &[
                    ("impersonate-extra-%zz", "v"),
                    ("impersonate-extra-%FF", "w"),
                    ("impersonate-extra-", "x"),
                ][..],
                Some(
                    r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"":[]string{"x"}, "%ff":[]string{"w"}, "%zz":[]string{"v"}}}"#,
                ),
            ),
        ] {
            let mut headers = testing::headers(pairs);
            let found = wanted(&mut headers).map(|user| go_syntax(&user));
            assert_eq!(found.as_deref(), expected, "{pairs:?}");
            assert!(headers.keys().all(|name| name == "accept"), "{headers:?}");
        }
    }

    #[test]
    fn the_user_names_of_service_accounts_are_strict() {
        for (user, expected) in [
            ("system:serviceaccount:ns:name", Some(("ns", "name"))),
            ("system:serviceaccount:ns:a.b", Some(("ns", "a.b"))),
            ("system:serviceaccount:ns", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount::name", None),
            ("system:serviceaccount:n.s:name", None),
            ("system:serviceaccount:NS:name", None),
            ("system:serviceaccount:ns:name:more", None),
            ("serviceaccount:ns:name", None),
        ] {
            assert_eq!(account(user), expected, "{user}");
        }
    }
}
