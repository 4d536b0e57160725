//! What goes on to the cluster, and what comes back. Pure.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::percent_decode_str;

/// What of a request goes on. Above all not its cookies and credentials, and nothing that says where it comes from.
const REQUEST_HEADERS: [HeaderName; 5] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::IF_NONE_MATCH,
];

/// "Try as": these are the page's to say, and the cluster's to permit.
const IMPERSONATION: [&str; 3] = ["impersonate-user", "impersonate-group", "impersonate-uid"];

/// What of an answer comes back.
const ANSWER_HEADERS: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::ETAG,
    header::RETRY_AFTER,
    header::WARNING,
];

/// Subresources that lead into what runs in a cluster, or to pages that others wrote. The explorer has no use for them.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Who may do what is asked, and changes nothing.
const REVIEWS: [(&str, &str); 5] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];

/// Subresources of which a dry run is known to be one.
const DRY_SUBRESOURCES: [&str; 2] = ["scale", "status"];

pub fn request_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let is_impersonation = IMPERSONATION.contains(&name.as_str());
        if is_impersonation || REQUEST_HEADERS.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

pub fn answer_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if ANSWER_HEADERS.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    kept
}

/// Whether a path leads past the API server.
pub fn is_connection(path: &str) -> bool {
    let Some(below) = Resource::of(path) else {
        // Old servers have proxies and redirects there, too.
        return path.strip_prefix("/api/v1/").is_some_and(|rest| rest.starts_with("proxy/"));
    };
    below.subresource.is_some_and(|name| CONNECTIONS.contains(&name.as_str())) || below.resource == "proxy"
}

/// Whether a request changes nothing: with `--read-only` others are refused.
pub fn changes_nothing(method: &Method, path: &str, query: &str, has_body: HasBody) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    let Some(asked) = Resource::of(path) else { return false };
    let is_review = REVIEWS.contains(&(asked.group.as_str(), asked.resource.as_str()));
    if *method == Method::POST && is_review && asked.name.is_none() {
        return true;
    }
    // The options of a deletion are in its body, and those of the query are not looked at then.
    if *method == Method::DELETE && has_body == HasBody::Yes {
        return false;
    }
    let is_known = asked.subresource.is_none_or(|name| DRY_SUBRESOURCES.contains(&name.as_str()));
    is_known && is_dry_run(query)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasBody {
    Yes,
    No,
}

fn is_dry_run(query: &str) -> bool {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    let mut found = false;
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Ok(name), Ok(value)) = (decoded(name), decoded(value)) else { return false };
        if name == "dryRun" {
            if value != "All" {
                return false;
            }
            found = true;
        }
    }
    found
}

/// What a path names.
struct Resource {
    group: String,
    resource: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Resource {
    fn of(path: &str) -> Option<Self> {
        let segments: Option<Vec<String>> = path
            .strip_prefix('/')?
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8().ok().map(Cow::into_owned))
            .collect();
        let segments = segments?;
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, rest) = match words.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let rest = match rest {
            // A namespace has subresources of its own.
            ["namespaces", _, "finalize" | "status"] => rest,
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (resource, rest) = rest.split_first()?;
        Some(Self {
            group: group.into(),
            resource: (*resource).into(),
            name: rest.first().map(|name| (*name).into()),
            subresource: rest.get(1).map(|name| (*name).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_browsers_add_does_not_reach_the_cluster() {
        let mut headers = HeaderMap::new();
        for name in [
            "accept",
            "accept-encoding",
            "content-type",
            "if-none-match",
            "impersonate-user",
            "impersonate-group",
            "cookie",
            "authorization",
            "origin",
            "referer",
            "user-agent",
            "x-sternpost-token",
            "x-remote-user",
            "impersonate-extra-scopes",
            "x-forwarded-for",
            "upgrade",
            "connection",
            "host",
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        headers.append("impersonate-group", HeaderValue::from_static("y"));
        let kept = request_headers(&headers);
        let mut names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "accept",
                "accept-encoding",
                "content-type",
                "if-none-match",
                "impersonate-group",
                "impersonate-group",
                "impersonate-user"
            ]
        );
    }

    #[test]
    fn what_a_cluster_adds_does_not_reach_the_browser() {
        let mut headers = HeaderMap::new();
        for name in
            ["content-type", "set-cookie", "location", "refresh", "link", "clear-site-data", "warning"]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        let kept = answer_headers(&headers);
        let mut names: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cache-control", "content-type", "warning"]);
    }

    #[test]
    fn paths_past_the_server_are_known() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/b/exec", true),
            ("/api/v1/namespaces/a/pods/b/proxy/index.html", true),
            ("/api/v1/namespaces/a/services/b:80/prox%79/", true),
            ("/api/v1/nodes/a/proxy", true),
            ("/api/v1/proxy/nodes/a", true),
            ("/api/v1/namespaces/a/pods/b/log", false),
            ("/api/v1/namespaces/proxy/pods", false),
            ("/api/v1/namespaces/a/configmaps/proxy", false),
            ("/apis/apps/v1/namespaces/a/deployments/exec/scale", false),
            ("/metrics", false),
        ] {
            assert_eq!(is_connection(path), expected, "{path}");
        }
    }

    #[test]
    fn read_only_means_reads_reviews_and_dry_runs() {
        let web = "/apis/apps/v1/namespaces/a/deployments/web";
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let local = "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews";
        let scale = "/apis/apps/v1/namespaces/a/deployments/web/scale";
        let eviction = "/api/v1/namespaces/a/pods/b/eviction";
        use HasBody::{No, Yes};
        for (method, path, query, body, expected) in [
            (Method::GET, web, "", No, true),
            (Method::HEAD, web, "", No, true),
            (Method::PATCH, web, "", Yes, false),
            (Method::PATCH, web, "dryRun=All", Yes, true),
            (Method::PATCH, web, "fieldManager=x&dryRun=All&force=true", Yes, true),
            (Method::PATCH, web, "dryRun=", Yes, false),
            (Method::PATCH, web, "dryRun=All&dryRun=None", Yes, false),
            (Method::PATCH, web, "dryrun=All", Yes, false),
            (Method::PATCH, web, "x=dryRun=All", Yes, false),
            (Method::PATCH, web, "dry%52un=All", Yes, true),
            (Method::POST, review, "", Yes, true),
            (Method::POST, local, "", Yes, true),
            (Method::PUT, review, "", Yes, false),
            (Method::POST, "/apis/evil.example/v1/selfsubjectaccessreviews", "", Yes, false),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", "", Yes, false),
            (Method::DELETE, web, "dryRun=All", No, true),
            (Method::DELETE, web, "dryRun=All", Yes, false),
            (Method::PUT, scale, "dryRun=All", Yes, true),
            (Method::POST, eviction, "dryRun=All", Yes, false),
            (Method::POST, "/elsewhere", "dryRun=All", Yes, false),
            (Method::OPTIONS, web, "", No, false),
        ] {
            assert_eq!(changes_nothing(&method, path, query, body), expected, "{method} {path}?{query}");
        }
    }
}
