//! From what a request asks for to its handler.

use http::{HeaderValue, Method, StatusCode};
use sternpost_meta::{gvk::GroupVersion, status::Status};

use crate::{
    Api,
    accept::Accept,
    discovery, explorer,
    health::{self, Endpoint},
    metrics,
    openapi::{self, Target},
    openid::{self, Document},
    request::Request,
    request_info::RequestInfo,
    response::{self, JSON, Response, Spacing},
    root_paths, version,
    zpages::{self, Page},
};

/// What a path means, before it is known whether that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    RootPaths,
    Version,
    Health(Endpoint),
    HealthCheck(Endpoint, &'a str),
    Metrics,
    /// `/statusz` and `/flagz`.
    Zpage(Page),
    /// `/.well-known/openid-configuration` and `/openid/v1/jwks`.
    OpenId(Document),
    /// `/openapi/v2`, `/openapi/v3`, `/openapi/v3/KEY` and `/apis/GROUP/openapi/v3`.
    OpenApi(Target<'a>),
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    Group(&'a str),
    /// The core group is the empty one.
    GroupVersion(&'a str, &'a str),
    /// Anything below a group-version.
    Resource(&'a str, &'a str),
    Unknown,
}

impl<'a> Route<'a> {
    pub fn of(info: &'a RequestInfo) -> Self {
        if let Some(path) = info.resource_path() {
            return Self::Resource(path.group, path.version);
        }
        Self::of_path(info.path())
    }

    /// Of what is no resource, and of what looks like one and is spelt as none is served.
    fn of_path(path: &'a str) -> Self {
        let Some(path) = path.strip_prefix('/') else { return Self::Unknown };
        // Discovery and version are also served with a slash at their end;
        // deeper down an empty segment is not a name.
        let segments: Vec<&str> = path.split('/').collect();
        match segments.as_slice() {
            [""] => Self::RootPaths,
            ["version"] | ["version", ""] => Self::Version,
            ["metrics"] => Self::Metrics,
            ["statusz"] => Self::Zpage(Page::Statusz),
            ["flagz"] => Self::Zpage(Page::Flagz),
            [".well-known", "openid-configuration"] => Self::OpenId(Document::Configuration),
            ["openid", "v1", "jwks"] => Self::OpenId(Document::Keys),
            ["healthz"] => Self::Health(Endpoint::Healthz),
            ["livez"] => Self::Health(Endpoint::Livez),
            ["readyz"] => Self::Health(Endpoint::Readyz),
            ["healthz", ..] => Self::HealthCheck(Endpoint::Healthz, after_first(path)),
            ["livez", ..] => Self::HealthCheck(Endpoint::Livez, after_first(path)),
            ["readyz", ..] => Self::HealthCheck(Endpoint::Readyz, after_first(path)),
            ["openapi", "v2"] => Self::OpenApi(Target::V2),
            ["openapi", "v3"] => Self::OpenApi(Target::Root),
            ["openapi", "v3", ..] => Self::OpenApi(Target::Document(after_first(after_first(path)))),
            ["api"] | ["api", ""] => Self::Core,
            ["api", version] | ["api", version, ""] => Self::GroupVersion("", version),
            ["api", version, ..] => Self::Resource("", version),
            ["apis"] | ["apis", ""] => Self::Groups,
            ["apis", "", ..] => Self::Unknown,
            ["apis", group] | ["apis", group, ""] => Self::Group(group),
            ["apis", group, "openapi", "v3"] => Self::OpenApi(Target::Group(group)),
            ["apis", group, version] | ["apis", group, version, ""] => Self::GroupVersion(group, version),
            ["apis", group, version, ..] => Self::Resource(group, version),
            _ => Self::Unknown,
        }
    }

    /// Whether callers without any credential may read it.
    pub fn is_public(self) -> bool {
        self.is_health() || matches!(self, Self::Version)
    }

    /// Whether it is asked how the server is.
    pub fn is_health(self) -> bool {
        matches!(self, Self::Health(_) | Self::HealthCheck(..))
    }
}

/// Calls the handler that `route` names.
pub fn dispatch(api: &Api, request: &Request, route: Route<'_>) -> Response {
    match route {
        // Upstream answers health to any method, and probes rely on little.
        Route::Health(endpoint) => health::all(&api.health, endpoint, request),
        Route::HealthCheck(endpoint, check) => health::one(&api.health, endpoint, check),
        Route::Zpage(page) => zpages::serve(&api.zpages, page, request),
        Route::RootPaths => get_or_head(request, |_| raw_json(root_paths::document(api))),
        Route::Version => get(request, version),
        Route::Metrics => get_or_head(request, |request| {
            metrics::serve(&api.metrics, &api.cpu, api.flow.as_deref(), request)
        }),
        Route::OpenId(document) => match openid::document(api, request, document) {
            Some(found) => get(request, |_| found),
            None => response::page_not_found(),
        },
        Route::OpenApi(target) => openapi::handle(api, request, target),
        Route::Core => get(request, |request| discovery::core(api, request)),
        Route::Groups => get_or_head(request, |request| discovery::groups(api, request)),
        Route::Group(group) => match discovery::group(api, request, group) {
            Some(found) if is_built_in(api, group) => get_or_head(request, |_| found),
            Some(found) => found,
            None => response::page_not_found(),
        },
        Route::GroupVersion(group, version) => {
            match discovery::group_version(api, request, &GroupVersion::new(group, version)) {
                // No router looks at the method here either.
                Some(found) if !group.is_empty() && !is_built_in(api, group) => found,
                Some(found) => get(request, |_| found),
                None => no_such_resource(api, request, group),
            }
        }
        Route::Resource(group, _) => no_such_resource(api, request, group),
        Route::Unknown => explorer::redirect(api, &request.method, request.info.path())
            .unwrap_or_else(response::page_not_found),
    }
}

/// Upstream has no HEAD where it routes by method.
fn get(request: &Request, handler: impl FnOnce(&Request) -> Response) -> Response {
    if request.method == Method::GET {
        handler(request)
    } else {
        response::method_not_allowed(request, "GET")
    }
}

fn get_or_head(request: &Request, handler: impl FnOnce(&Request) -> Response) -> Response {
    if request.method == Method::GET || request.method == Method::HEAD {
        handler(request)
    } else {
        response::method_not_allowed(request, "GET, HEAD")
    }
}

/// Indented whoever asks. Upstream has it behind its router, in JSON only.
fn version(request: &Request) -> Response {
    if Accept::of(&request.headers).names_one_of(&[JSON]) {
        return raw_json(version::document());
    }
    let status = response::no_representation(&[JSON]);
    response::error(&request.headers, Spacing::wanted_by(request), &status)
}

/// Inside a served group the answer is a `Status`; outside there is no API.
fn no_such_resource(api: &Api, request: &Request, group: &str) -> Response {
    // A group of custom resources has no router that could tell.
    if group.is_empty() || is_built_in(api, group) {
        response::error(&request.headers, Spacing::wanted_by(request), &Status::no_such_resource())
    } else {
        response::page_not_found()
    }
}

fn is_built_in(api: &Api, group: &str) -> bool {
    api.discovery.load().first(group).is_some()
}

fn raw_json(document: bytes::Bytes) -> Response {
    response::with_type(StatusCode::OK, HeaderValue::from_static(JSON), document)
}

fn after_first(path: &str) -> &str {
    path.split_once('/').map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn paths_mean_what_they_mean_upstream() {
        use Endpoint::{Livez, Readyz};
        for (path, expected) in [
            ("/", Route::RootPaths),
            ("", Route::Unknown),
            ("*", Route::Unknown),
            ("//", Route::Unknown),
            ("//api", Route::Unknown),
            ("/version", Route::Version),
            ("/version/", Route::Version),
            ("/version/x", Route::Unknown),
            ("/livez", Route::Health(Livez)),
            ("/statusz", Route::Zpage(Page::Statusz)),
            ("/flagz", Route::Zpage(Page::Flagz)),
            ("/statusz/", Route::Unknown),
            ("/statusz/x", Route::Unknown),
            ("/livez/", Route::HealthCheck(Livez, "")),
            ("/readyz/poststarthook/a", Route::HealthCheck(Readyz, "poststarthook/a")),
            ("/healthzz", Route::Unknown),
            ("/openapi", Route::Unknown),
            ("/.well-known/openid-configuration", Route::OpenId(Document::Configuration)),
            ("/.well-known", Route::Unknown),
            ("/openid/v1/jwks", Route::OpenId(Document::Keys)),
            ("/openid/v1/jwks/", Route::Unknown),
            ("/openapi/v2", Route::OpenApi(Target::V2)),
            ("/openapi/v2/x", Route::Unknown),
            ("/openapi/v3", Route::OpenApi(Target::Root)),
            ("/openapi/v3/", Route::OpenApi(Target::Document(""))),
            ("/openapi/v3/apis/apps/v1", Route::OpenApi(Target::Document("apis/apps/v1"))),
            ("/openapi/v4", Route::Unknown),
            ("/api", Route::Core),
            ("/api/", Route::Core),
            ("/api/v1", Route::GroupVersion("", "v1")),
            ("/api/v1/", Route::GroupVersion("", "v1")),
            ("/api/v1/pods", Route::Resource("", "v1")),
            ("/apis", Route::Groups),
            ("/apis/", Route::Groups),
            ("/apis//v1", Route::Unknown),
            ("/apis/apps", Route::Group("apps")),
            ("/apis/apps/", Route::Group("apps")),
            ("/apis/apps/v1", Route::GroupVersion("apps", "v1")),
            ("/apis/apps/v1/", Route::GroupVersion("apps", "v1")),
            ("/apis/apps/openapi/v3", Route::OpenApi(Target::Group("apps"))),
            ("/apis/apps/v1/deployments/x/scale", Route::Resource("apps", "v1")),
            ("/apiss", Route::Unknown),
        ] {
            assert_eq!(Route::of(&testing::info(path)), expected, "{path}");
        }
    }

    #[test]
    fn only_health_and_version_are_public() {
        for (path, expected) in [
            ("/healthz", true),
            ("/livez/ping", true),
            ("/readyz", true),
            ("/version", true),
            ("/", false),
            ("/metrics", false),
            ("/api", false),
            ("/apis/apps/v1", false),
            ("/openapi/v2", false),
            ("/nonsense", false),
        ] {
            assert_eq!(Route::of(&testing::info(path)).is_public(), expected, "{path}");
        }
    }

    #[test]
    fn methods_and_missing_things_answer_as_upstream() {
        const STATUS_404: &str = "the server could not find the requested resource";
        const STATUS_405: &str = "the server does not allow this method on the requested resource";
        const PLAIN_404: &str = "404 page not found\n";
        let api = testing::api();
        for (method, path, code, text) in [
            ("GET", "/api", 200, "APIVersions"),
            ("GET", "/api/v1", 200, "APIResourceList"),
            ("GET", "/apis", 200, "APIGroupList"),
            ("GET", "/apis/apps", 200, "APIGroup"),
            ("GET", "/apis/apps/v1/", 200, "APIResourceList"),
            ("GET", "/version", 200, "gitVersion"),
            ("GET", "/", 200, "paths"),
            ("GET", "/metrics", 200, "process_start_time_seconds"),
            ("POST", "/healthz", 200, "ok"),
            ("HEAD", "/apis", 200, "APIGroupList"),
            ("HEAD", "/apis/apps", 200, "APIGroup"),
            ("HEAD", "/api", 405, STATUS_405),
            ("HEAD", "/version", 405, STATUS_405),
            ("POST", "/version", 405, STATUS_405),
            ("POST", "/api", 405, STATUS_405),
            ("DELETE", "/api/v1", 405, STATUS_405),
            ("PUT", "/apis/apps/v1", 405, STATUS_405),
            ("POST", "/apis", 405, STATUS_405),
            ("POST", "/apis/apps", 405, STATUS_405),
            ("DELETE", "/metrics", 405, STATUS_405),
            ("POST", "/", 405, STATUS_405),
            ("GET", "/api/v2", 404, STATUS_404),
            ("GET", "/api/v1/nonsense", 404, STATUS_404),
            ("POST", "/api/v1/namespaces/x/nonsense", 404, STATUS_404),
            ("GET", "/apis/apps/v9", 404, STATUS_404),
            ("GET", "/apis/apps/v1/nonsense", 404, STATUS_404),
            ("GET", "/apis/nope", 404, PLAIN_404),
            ("GET", "/apis/nope/v1", 404, PLAIN_404),
            ("GET", "/apis/nope/openapi/v3", 404, PLAIN_404),
            ("GET", "/apis/nope/v1/things", 404, PLAIN_404),
            ("POST", "/nonsense", 404, PLAIN_404),
            ("GET", "/livez/nonsense", 404, PLAIN_404),
        ] {
            let request = testing::request(method.parse().unwrap(), path, &[]);
            let response = dispatch(&api, &request, Route::of(&request.info));
            let body = testing::body(&response);
            assert_eq!(response.status(), code, "{method} {path}: {body}");
            assert!(body.contains(text), "{method} {path}: {body}");
            assert_eq!(body == PLAIN_404, text == PLAIN_404, "{method} {path}: {body}");
            assert_eq!(response.headers().contains_key("allow"), code == 405);
        }
    }
}
