//! What a request asks for: a verb and what it is done to, from method, path and query alone,
//! before anybody looks whether there is such a thing.
//!
//! It is made once for a request. Routing, authorization, the audit log, flow control, objects and
//! metrics read it, so that what is authorized is what is done and what is counted.

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

/// The verb and its subject. Parts of the path are kept as where they stand in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    verb: Cow<'static, str>,
    /// Percent-decoded.
    path: String,
    resource: Option<ResourceSpans>,
    /// The only object that a list is about, if its selector says so.
    selected_name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ResourceSpans {
    group: Span,
    version: Span,
    namespace: Span,
    resource: Span,
    name: Span,
    subresource: Span,
    spelling: Spelling,
    /// The deprecated `/watch/` form.
    is_watch: bool,
    /// The namespace is also the object.
    is_namespace: bool,
    behind_proxy: Span,
    is_deeper: bool,
}

/// Whether a path is written as paths are served: authorization reads more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Served,
    /// With empty parts, or with `proxy` as a verb: nothing is there.
    NowhereServed,
}

/// A part of the path, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

/// What the path of a resource request leads to, where paths are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcePath<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    /// `None` at the cluster scope, and for all namespaces.
    pub namespace: Option<&'a str>,
    /// Empty for a collection.
    pub name: &'a str,
    pub subresource: &'a str,
    /// What follows a `proxy` subresource, if only a slash.
    pub behind_proxy: &'a str,
    /// The deprecated `/watch/` form.
    pub is_watch: bool,
    /// More follows than any resource has.
    pub is_deeper: bool,
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

impl RequestInfo {
    /// `path` is decoded.
    pub fn new(method: &Method, path: String, query: &Query) -> Result<Self, Unclear> {
        let Some((resource, special)) = ResourceSpans::parse(&path)? else {
            return Ok(Self { verb: path_verb(method), path, resource: None, selected_name: None });
        };
        let is_named = resource.name != Span::default();
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let (verb, selected_name) = match special {
            Some(verb) => (verb, None),
            None if is_read && !is_named => {
                (if query.flag("watch") { "watch" } else { "list" }, selected_name(query))
            }
            None => (resource_verb(method, is_named), None),
        };
        Ok(Self { verb: Cow::Borrowed(verb), path, resource: Some(resource), selected_name })
    }

    /// As authorization knows it; empty for a method that is no verb.
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// Percent-decoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `None` unless it is a resource request.
    pub fn resource(&self) -> Option<ResourceAttributes<'_>> {
        let spans = self.resource.as_ref()?;
        Some(ResourceAttributes {
            group: self.text(spans.group),
            version: self.text(spans.version),
            resource: self.text(spans.resource),
            subresource: self.text(spans.subresource),
            namespace: self.text(spans.namespace),
            name: self.selected_name.as_deref().unwrap_or(self.text(spans.name)),
        })
    }

    /// `None` unless it is a resource request whose path could be served.
    pub fn resource_path(&self) -> Option<ResourcePath<'_>> {
        let spans = self.resource.as_ref().filter(|spans| spans.spelling == Spelling::Served)?;
        let in_namespace = spans.namespace != Span::default() && !spans.is_namespace;
        Some(ResourcePath {
            group: self.text(spans.group),
            version: self.text(spans.version),
            resource: self.text(spans.resource),
            namespace: in_namespace.then(|| self.text(spans.namespace)),
            name: self.text(spans.name),
            subresource: self.text(spans.subresource),
            behind_proxy: self.text(spans.behind_proxy),
            is_watch: spans.is_watch,
            is_deeper: spans.is_deeper,
        })
    }

    /// Whether it lasts for as long as its client likes: it has no time-out and takes no seat in flow
    /// control, or those who look would starve those who do.
    pub fn is_long_running(&self) -> bool {
        let subresource = self.resource.map_or("", |spans| self.text(spans.subresource));
        matches!(self.verb(), "watch" | "proxy")
            || matches!(subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    pub fn attributes<'a>(&'a self, user: &'a User) -> Attributes<'a> {
        let what = self.resource().map_or(What::Path(&self.path), What::Resource);
        Attributes { user, verb: &self.verb, what }
    }

    fn text(&self, span: Span) -> &str {
        self.path.get(span.start..span.end).unwrap_or_default()
    }
}

/// The most parts that mean something, in `apis/GROUP/VERSION/watch/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`,
/// and one that tells of more.
const MAX_PARTS: usize = 10;

impl ResourceSpans {
    /// With the verb that the path itself has, if there is one. Slashes at both ends do not count,
    /// those within do.
    fn parse(path: &str) -> Result<Option<(Self, Option<&'static str>)>, Unclear> {
        let from_first = path.trim_start_matches('/');
        let trimmed = from_first.trim_end_matches('/');
        let (leading, trailing) = (path.len() - from_first.len(), from_first.len() - trimmed.len());
        let mut parts = [""; MAX_PARTS];
        let mut count = 0;
        for (part, text) in parts.iter_mut().zip(trimmed.split('/')) {
            *part = text;
            count += 1;
        }
        let parts = parts.get(..count).unwrap_or_default();
        let (group, version, rest) = match parts {
            // Documents of a group, and no resource called v3.
            ["apis", group, "openapi", "v3"] if leading == 1 && trailing == 0 && !group.is_empty() => {
                return Ok(None);
            }
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(None),
        };
        let (special, rest) = match rest {
            ["watch", rest @ ..] => (Some("watch"), rest),
            ["proxy", rest @ ..] => (Some("proxy"), rest),
            rest => (None, rest),
        };
        let (namespace, is_namespace, rest) = match rest {
            // A namespace is in itself. In every group: a custom resource of such a name cannot be reached.
            ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize", ..] => {
                (*namespace, true, rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, false, rest),
            rest => ("", false, rest),
        };
        let Some(resource) = rest.first() else {
            return Err(Unclear);
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        let (name, subresource) = (part(1), if special == Some("proxy") { "" } else { part(2) });
        let span = |part| Span::of(path, part);
        // What follows a proxy is the business of whoever is behind it; nothing behind it is watched.
        let is_followed = special.is_none() && subresource == "proxy" && (rest.len() > 3 || trailing > 0);
        let behind_proxy = match is_followed {
            true => Span { start: span(subresource).end, end: path.len() },
            false => Span::default(),
        };
        let (ours, may_trail) = match is_followed {
            true => (path.get(..behind_proxy.start).unwrap_or_default(), trailing),
            false => (trimmed, 1),
        };
        let is_spelt = leading == 1 && trailing <= may_trail && !ours.contains("//");
        let is_served = is_spelt && special != Some("proxy");
        let spans = Self {
            group: span(group),
            version: span(version),
            namespace: span(namespace),
            resource: span(resource),
            name: span(name),
            subresource: span(subresource),
            spelling: if is_served { Spelling::Served } else { Spelling::NowhereServed },
            is_watch: special == Some("watch"),
            is_namespace,
            behind_proxy,
            // What is watched is an object or many, never a part of one.
            is_deeper: !is_followed && rest.len() > if special.is_some() { 2 } else { 3 },
        };
        Ok(Some((spans, special)))
    }
}

impl Span {
    /// Where `part` stands in the path that it is a part of. What is empty stands nowhere.
    fn of(path: &str, part: &str) -> Self {
        if part.is_empty() {
            return Self::default();
        }
        let start = part.as_ptr().addr().wrapping_sub(path.as_ptr().addr());
        Self { start, end: start.wrapping_add(part.len()) }
    }
}

fn path_verb(method: &Method) -> Cow<'static, str> {
    match *method {
        Method::GET => Cow::Borrowed("get"),
        Method::HEAD => Cow::Borrowed("head"),
        Method::POST => Cow::Borrowed("post"),
        Method::PUT => Cow::Borrowed("put"),
        Method::PATCH => Cow::Borrowed("patch"),
        Method::DELETE => Cow::Borrowed("delete"),
        Method::OPTIONS => Cow::Borrowed("options"),
        _ => Cow::Owned(method.as_str().to_ascii_lowercase()),
    }
}

fn resource_verb(method: &Method, is_named: bool) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

fn selected_name(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.first("fieldSelector")?).ok()?;
    let name = selector.exact("metadata.name")?;
    format::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;

    fn info(method: &str, target: &str) -> Result<RequestInfo, Unclear> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestInfo::new(&method.parse().unwrap(), path.to_owned(), &Query::parse(Some(query)))
    }

    fn asked(method: &str, target: &str) -> String {
        let info = match info(method, target) {
            Err(unclear) => return unclear.text(target),
            Ok(info) => info,
        };
        let verb = info.verb();
        let Some(what) = info.resource() else { return format!("{verb} path {}", info.path()) };
        let ResourceAttributes { group, version, resource, subresource, namespace, name } = what;
        format!("{verb} {group}|{version}|{namespace}|{resource}|{name}|{subresource}")
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

    #[test]
    fn what_lasts_is_known_by_verb_and_subresource() {
        for (method, target, expected) in [
            ("GET", "/api/v1/pods", false),
            ("GET", "/api/v1/pods?watch=1", true),
            ("GET", "/api/v1/watch/pods", true),
            ("GET", "/api/v1/proxy/pods/x", true),
            ("GET", "/api/v1/namespaces/a/pods/x/log", true),
            ("POST", "/api/v1/namespaces/a/pods/x/exec", true),
            ("PUT", "/api/v1/nodes/x/proxy/y", true),
            ("GET", "/api/v1/namespaces/a/pods/exec", false),
            ("GET", "/healthz?watch=1", false),
        ] {
            assert_eq!(info(method, target).unwrap().is_long_running(), expected, "{method} {target}");
        }
    }

    #[test]
    fn paths_lead_to_collections_objects_and_subresources() {
        for (path, expected) in [
            ("/api/v1/pods", ("", "pods", None, "", "", false)),
            ("/api/v1/namespaces/a/pods/b", ("", "pods", Some("a"), "b", "", false)),
            ("/api/v1/namespaces/a/pods/b/status", ("", "pods", Some("a"), "b", "status", false)),
            ("/api/v1/namespaces/a", ("", "namespaces", None, "a", "", false)),
            ("/api/v1/namespaces/a/finalize", ("", "namespaces", None, "a", "finalize", false)),
            ("/api/v1/namespaces", ("", "namespaces", None, "", "", false)),
            ("/api/v1/nodes/n/", ("", "nodes", None, "n", "", false)),
            ("/apis/apps/v1/namespaces/a/deployments", ("apps", "deployments", Some("a"), "", "", false)),
            ("/api/v1/watch/namespaces/a/pods", ("", "pods", Some("a"), "", "", true)),
            // The name of a selector is what is authorized, and not where a path leads.
            ("/api/v1/pods?fieldSelector=metadata.name=x", ("", "pods", None, "", "", false)),
        ] {
            let (group, resource, namespace, name, subresource, is_watch) = expected;
            let (version, behind_proxy, is_deeper) = ("v1", "", false);
            let expected = ResourcePath {
                group,
                version,
                resource,
                namespace,
                name,
                subresource,
                behind_proxy,
                is_watch,
                is_deeper,
            };
            assert_eq!(info("GET", path).unwrap().resource_path(), Some(expected), "{path}");
        }
        for (path, behind) in [
            ("/api/v1/nodes/a/proxy", ""),
            ("/api/v1/nodes/a/proxy/", "/"),
            ("/api/v1/nodes/a/proxy//", "//"),
            ("/api/v1/nodes/a/proxy//b//c", "//b//c"),
        ] {
            let info = info("GET", path).unwrap();
            let found = info.resource_path().unwrap();
            assert_eq!((found.name, found.subresource, found.behind_proxy), ("a", "proxy", behind), "{path}");
            assert!(!found.is_deeper, "{path}");
        }
        for path in [
            "/api/v1/namespaces/a/pods/b/log/c",
            "/api/v1/a/b/c/d",
            "/api/v1/watch/pods/a/status",
            "/apis/a/b/watch/namespaces/c/d/e/f/g/h",
        ] {
            assert!(info("GET", path).unwrap().resource_path().unwrap().is_deeper, "{path}");
        }
        for path in [
            "/api/v1/namespaces/a/pods//proxy/c",
            "/api/v1//pods",
            "/api/v1/pods//x",
            "/api/v1/pods//",
            "//api/v1/pods",
            "/api//v1/pods",
            "/apis//v1/pods",
            "/api/v1/proxy/pods/x",
            "/apis/apps/openapi/v3",
            "/apis/apps/v1",
        ] {
            assert_eq!(info("GET", path).unwrap().resource_path(), None, "{path}");
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
                    let Ok(info) = info("PUT", &target) else { continue };
                    let Some(path) = info.resource_path() else { continue };
                    if path.is_deeper {
                        continue;
                    }
                    served += 1;
                    let what = info.resource().unwrap();
                    let own = if path.resource == "namespaces" { Some(path.name) } else { None };
                    let expected = ResourceAttributes {
                        group: path.group,
                        version: path.version,
                        resource: path.resource,
                        subresource: path.subresource,
                        namespace: path.namespace.or(own).unwrap_or_default(),
                        name: path.name,
                    };
                    assert_eq!(what, expected, "{target}");
                    assert_eq!(info.verb() == "watch", path.is_watch, "{target}");
                    assert_eq!(Route::of(&info), Route::Resource(path.group, path.version), "{target}");
                }
            }
        }
        assert!(served > 1_000);
    }
}
