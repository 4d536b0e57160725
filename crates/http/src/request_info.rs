//! What a request asks for, as authorization sees it: from method, path and query
//! alone, before anybody looks whether there is such a thing.

use std::borrow::Cow;

use http::Method;
use sternpost_golang::strconv::go_quote;
use sternpost_meta::{
    authorize::{Attributes, ResourceAttributes, What},
    format,
    selector::FieldSelector,
    user::User,
};

use crate::request::Query;

/// The verb and its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo<'a> {
    pub verb: Cow<'a, str>,
    subject: Subject<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject<'a> {
    Path(&'a str),
    Resource {
        group: &'a str,
        version: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: Cow<'a, str>,
    },
}

/// A path that begins like that of a resource and names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclear;

impl Unclear {
    /// What is answered; `target` is path and query as they were sent.
    pub fn text(self, target: &str) -> String {
        let quoted = go_quote(target);
        format!(
            "Internal Server Error: {quoted}: failed to create RequestInfo: unable to determine kind and namespace from url, {target}\n"
        )
    }
}

impl<'a> RequestInfo<'a> {
    /// Slashes at both ends do not count, those within do.
    pub fn of(method: &Method, path: &'a str, query: &Query) -> Result<Self, Unclear> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(Self::of_path(method, path)),
        };
        let (special, rest) = match rest {
            [verb @ ("watch" | "proxy"), rest @ ..] => (Some(*verb), rest),
            rest => (None, rest),
        };
        let (namespace, rest) = match rest {
            // A namespace is in itself.
            ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize", ..] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let Some(resource) = rest.first() else {
            return Err(Unclear);
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        let subresource = if special == Some("proxy") { "" } else { part(2) };
        let mut name = Cow::Borrowed(part(1));
        let verb = match special {
            Some(verb) => verb,
            None if name.is_empty() && matches!(*method, Method::GET | Method::HEAD) => {
                name = named(query).map_or(name, Cow::Owned);
                if query.flag("watch") { "watch" } else { "list" }
            }
            None => match *method {
                Method::GET | Method::HEAD => "get",
                Method::POST => "create",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE if name.is_empty() => "deletecollection",
                Method::DELETE => "delete",
                _ => "",
            },
        };
        let subject = Subject::Resource { group, version, resource, subresource, namespace, name };
        Ok(Self { verb: Cow::Borrowed(verb), subject })
    }

    /// Of what is no resource, whatever its path looks like.
    pub fn of_path(method: &Method, path: &'a str) -> Self {
        Self { verb: Cow::Owned(method.as_str().to_ascii_lowercase()), subject: Subject::Path(path) }
    }

    pub fn attributes<'b>(&'b self, user: &'b User) -> Attributes<'b> {
        let what = match &self.subject {
            Subject::Path(path) => What::Path(path),
            Subject::Resource { group, version, resource, subresource, namespace, name } => {
                What::Resource(ResourceAttributes { group, version, resource, subresource, namespace, name })
            }
        };
        Attributes { user, verb: &self.verb, what }
    }
}

/// The only object that a list is about, if its selector says so.
fn named(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.first("fieldSelector")?).ok()?;
    let name = selector.exact("metadata.name")?;
    format::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{objects::path, route::Route};

    fn asked(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match RequestInfo::of(&method.parse().unwrap(), path, &Query::parse(Some(query))) {
            Err(unclear) => unclear.text(target),
            Ok(RequestInfo { verb, subject: Subject::Path(path) }) => format!("{verb} path {path}"),
            Ok(RequestInfo { verb, subject }) => {
                let Subject::Resource { group, version, resource, subresource, namespace, name } = subject
                else {
                    unreachable!()
                };
                format!("{verb} {group}|{version}|{namespace}|{resource}|{name}|{subresource}")
            }
        }
    }

    #[test]
    fn requests_ask_for_what_they_ask_for_upstream() {
        for (method, target, expected) in [
            ("GET", "/", "get path /"),
            ("GET", "///", "get path ///"),
            ("FOO", "/metrics", "foo path /metrics"),
            ("GET", "/api", "get path /api"),
            ("GET", "/api/v1/", "get path /api/v1/"),
            ("GET", "/apis/apps/v1", "get path /apis/apps/v1"),
            ("GET", "/API/v1/pods", "get path /API/v1/pods"),
            ("GET", "/api/v1/pods", "list |v1||pods||"),
            ("HEAD", "/api/v1/pods", "list |v1||pods||"),
            ("GET", "//api/v1/pods//", "list |v1||pods||"),
            ("GET", "/api//v1/pods", "get |||v1|pods|"),
            ("GET", "/api/v1//pods", "get |v1|||pods|"),
            ("GET", "/apis//v1/pods", "list |v1||pods||"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "get apps|v1|a|deployments|b|scale"),
            ("GET", "/api/v1/namespaces/a/pods/b/log/c/d", "get |v1|a|pods|b|log"),
            ("GET", "/api/v1/namespaces/a/pods//x", "list |v1|a|pods||x"),
            ("GET", "/api/v1/namespaces//pods", "list |v1||pods||"),
            ("GET", "/api/v1/namespaces/a/../b/pods", "get |v1|a|..|b|pods"),
            ("GET", "/api/v1/namespaces", "list |v1||namespaces||"),
            ("PUT", "/api/v1/namespaces/a", "update |v1|a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update |v1|a|namespaces|a|finalize"),
            ("GET", "/api/v1/namespaces/a/status/x", "get |v1|a|namespaces|a|status"),
            ("GET", "/apis/apps/v1/namespaces/a/status", "get apps|v1|a|namespaces|a|status"),
            ("GET", "/api/v1/namespaces/a/foo", "list |v1|a|foo||"),
            ("POST", "/api/v1/namespaces/a/pods", "create |v1|a|pods||"),
            ("POST", "/api/v1/namespaces/a/pods/b", "create |v1|a|pods|b|"),
            ("PUT", "/api/v1/pods", "update |v1||pods||"),
            ("PATCH", "/api/v1/nodes/n", "patch |v1||nodes|n|"),
            ("DELETE", "/api/v1/nodes/n", "delete |v1||nodes|n|"),
            ("DELETE", "/api/v1/nodes?fieldSelector=metadata.name=n", "deletecollection |v1||nodes||"),
            ("OPTIONS", "/api/v1/nodes", " |v1||nodes||"),
            ("get", "/api/v1/nodes/n", " |v1||nodes|n|"),
            ("GET", "/api/v1/pods?watch", "watch |v1||pods||"),
            ("GET", "/api/v1/pods?watch=nonsense", "watch |v1||pods||"),
            ("GET", "/api/v1/pods?watch=False", "list |v1||pods||"),
            ("GET", "/api/v1/pods?watch=0", "list |v1||pods||"),
            ("POST", "/api/v1/pods?watch=1", "create |v1||pods||"),
            ("GET", "/api/v1/pods/x?watch=1", "get |v1||pods|x|"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dfoo,spec.nodeName=x", "list |v1||pods|foo|"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name==foo&watch=1", "watch |v1||pods|foo|"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!=foo", "list |v1||pods||"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=foo,metadata.name=bar", "list |v1||pods|bar|"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=fo/o", "list |v1||pods||"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=..", "list |v1||pods||"),
            ("GET", "/api/v1/pods?fieldSelector=garbage", "list |v1||pods||"),
            ("GET", "/api/v1/pods/x?fieldSelector=metadata.name=y", "get |v1||pods|x|"),
            ("GET", "/api/v1/watch/pods", "watch |v1||pods||"),
            ("DELETE", "/api/v1/watch/namespaces/a/pods/x", "watch |v1|a|pods|x|"),
            ("GET", "/api/v1/watch/namespaces/a/pods/x/status", "watch |v1|a|pods|x|status"),
            ("GET", "/api/v1/proxy/pods/x", "proxy |v1||pods|x|"),
            (
                "GET",
                "/api/v1/watch/",
                "Internal Server Error: \"/api/v1/watch/\": failed to create RequestInfo: unable to determine kind and namespace from url, /api/v1/watch/\n",
            ),
        ] {
            assert_eq!(asked(method, target), expected, "{method} {target}");
        }
    }

    /// What is authorized must be what is done.
    #[test]
    fn no_path_is_served_as_another_than_it_is_authorized_as() {
        const WORDS: [&str; 9] =
            ["", "namespaces", "a", "pods", "status", "finalize", "watch", "proxy", ".."];
        let mut served = 0;
        for prefix in ["/api/v1", "/apis/apps/v1", "//api/v1", "/api//v1", "/apis//v1"] {
            for depth in 1..=5u32 {
                for number in 0..WORDS.len().pow(depth) {
                    let words = (0..depth).map(|digit| WORDS[number / WORDS.len().pow(digit) % WORDS.len()]);
                    let target = words.fold(prefix.to_owned(), |path, word| path + "/" + word);
                    let Route::Resource(group, version) = Route::of(&target) else { continue };
                    let Some(place) = path::parse(&target, group) else { continue };
                    if place.deeper {
                        continue;
                    }
                    served += 1;
                    let info = RequestInfo::of(&Method::PUT, &target, &Query::default()).unwrap();
                    let Subject::Resource { group: g, version: v, resource, subresource, namespace, name } =
                        info.subject
                    else {
                        panic!("{target} is no path")
                    };
                    let own = if resource == "namespaces" && !name.is_empty() { Some(&*name) } else { None };
                    let place_namespace = place.namespace.or(own).unwrap_or_default();
                    assert_eq!(
                        (g, v, resource, subresource, namespace, &*name),
                        (group, version, place.resource, place.subresource, place_namespace, place.name),
                        "{target}"
                    );
                    assert_eq!(info.verb == "watch", place.watch, "{target}");
                }
            }
        }
        assert!(served > 1_000);
    }
}
