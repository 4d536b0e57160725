//! `/api`, `/apis` and below: which groups, versions and resources there are.
//!
//! The documents come from the `discovery` crate. Here it is only decided
//! which of them a client gets, and in which form.

use bytes::Bytes;
use http::{HeaderValue, header};
use sternpost_discovery::Which;
use sternpost_meta::{gvk::GroupVersion, status::Status};

use crate::{
    Api,
    accept::{Accept, Clause},
    content::{self, Representation},
    request::Request,
    response::{self, JSON, Response, Spacing},
};

const AGGREGATED_JSON: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`.
pub fn core(api: &Api, request: &Request) -> Response {
    if wants_aggregated(request) {
        return aggregated(api, request, Which::Core);
    }
    legacy(request, &api.discovery.load().api_versions(&api.server_address))
}

/// `/apis`.
pub fn groups(api: &Api, request: &Request) -> Response {
    if wants_aggregated(request) {
        return aggregated(api, request, Which::Groups);
    }
    legacy(request, &api.discovery.load().api_group_list())
}

/// `/apis/GROUP`; `None` if it is not served.
pub fn group(api: &Api, request: &Request, group: &str) -> Option<Response> {
    Some(legacy(request, &api.discovery.load().api_group(group)?))
}

/// `/api/VERSION` and `/apis/GROUP/VERSION`; `None` if it is not served.
pub fn group_version(api: &Api, request: &Request, gv: &GroupVersion) -> Option<Response> {
    Some(legacy(request, &api.discovery.load().api_resource_list(gv)?))
}

/// Upstream takes the aggregated form if any clause asks for it, whatever the
/// order: a client that names it can read it.
fn wants_aggregated(request: &Request) -> bool {
    let asks = |clause: &Clause| {
        clause.covers(JSON)
            && clause.param("g") == Some("apidiscovery.k8s.io")
            && clause.param("v") == Some("v2")
            && clause.param("as") == Some("APIGroupDiscoveryList")
    };
    Accept::of(&request.headers).clauses().iter().any(asks)
}

fn aggregated(api: &Api, request: &Request, which: Which) -> Response {
    let document = api.discovery.load().aggregated(which);
    let representation = Representation {
        bytes: Spacing::wanted_by(request).apply(&document.body),
        content_type: HeaderValue::from_static(AGGREGATED_JSON),
        content_encoding: None,
        etag: document.etag.trim_matches('"').to_owned(),
        last_modified: None,
        vary: Some(HeaderValue::from_static("Accept")),
    };
    let mut response = content::serve(request, &representation);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn legacy(request: &Request, document: &Bytes) -> Response {
    let mut response = match Accept::of(&request.headers).choose(&[JSON]) {
        Some(_) => response::json(Spacing::wanted_by(request), document),
        None => response::not_acceptable(&Status::not_acceptable(&[JSON])),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::testing;

    const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    const PROTOBUF: &str =
        "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

    #[test]
    fn the_form_follows_the_accept_header() {
        let api = testing::api();
        let both = format!("{AGGREGATED_JSON},application/json");
        let reversed = format!("application/json,{AGGREGATED_JSON}");
        let old_client = format!("{BETA},application/json");
        let new_client = format!("{PROTOBUF},{AGGREGATED_JSON},{BETA},application/json");
        for (accept, expected) in [
            ("", Some(JSON)),
            ("*/*", Some(JSON)),
            ("application/*", Some(JSON)),
            ("application/json", Some(JSON)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(JSON)),
            (AGGREGATED_JSON, Some(AGGREGATED_JSON)),
            (&both, Some(AGGREGATED_JSON)),
            (&reversed, Some(AGGREGATED_JSON)),
            (&new_client, Some(AGGREGATED_JSON)),
            (&old_client, Some(JSON)),
            (BETA, None),
            (PROTOBUF, None),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", None),
            ("text/html", None),
            ("garbage;;;==", None),
            (",,,", None),
        ] {
            let request = testing::request(Method::GET, "/apis", &[("accept", accept)]);
            for response in [core(&api, &request), groups(&api, &request)] {
                let code = if expected.is_some() { 200 } else { 406 };
                assert_eq!(response.status(), code, "{accept}");
                assert_eq!(testing::header(&response, "content-type"), Some(expected.unwrap_or(JSON)));
                assert_eq!(testing::header(&response, "vary"), Some("Accept"));
            }
            // Below the two roots there is only the legacy form.
            let plain = Accept::parse(accept).choose(&[JSON]).is_some();
            let code = if plain { 200 } else { 406 };
            assert_eq!(group(&api, &request, "apps").unwrap().status(), code, "{accept}");
        }
    }

    #[test]
    fn aggregated_discovery_is_validated_by_its_tag() {
        let api = testing::api();
        let request = testing::request(Method::GET, "/apis", &[("accept", AGGREGATED_JSON)]);
        let first = groups(&api, &request);
        assert_eq!(testing::header(&first, "cache-control"), Some("public"));
        let etag = testing::header(&first, "etag").unwrap();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() == 130, "{etag}");
        let again =
            testing::request(Method::GET, "/apis", &[("accept", AGGREGATED_JSON), ("if-none-match", etag)]);
        let second = groups(&api, &again);
        assert_eq!((second.status().as_u16(), testing::body(&second).as_str()), (304, ""));
        assert_eq!(testing::header(&second, "etag"), Some(etag));
        assert_ne!(testing::header(&core(&api, &request), "etag"), Some(etag));
    }

    #[test]
    fn curl_gets_indented_documents() {
        let api = testing::api();
        for accept in ["*/*", AGGREGATED_JSON] {
            let request =
                testing::request(Method::GET, "/api", &[("user-agent", "curl/8"), ("accept", accept)]);
            assert!(testing::body(&core(&api, &request)).starts_with("{\n  \"kind\": "));
        }
    }
}
