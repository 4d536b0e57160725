//! `/api`, `/apis` and below: which groups, versions and resources there are.
//!
//! The documents come from the `discovery` crate. Here it is only decided
//! which of them a client gets, and in which form.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use sternpost_aggregate::{discovery::shown, remote::Remotes};
use sternpost_discovery::{Discovery, Priority, Which};
use sternpost_meta::{gvk::GroupVersion, status::Status};
use sternpost_verbs::startup;

use crate::{
    Api,
    accept::{Accept, Clause},
    content::{self, Representation},
    request::Request,
    response::{self, Format, Response, Spacing, TYPES},
};

/// `/api`.
pub fn core(api: &Api, request: &Request) -> Response {
    routed(request, || match aggregated_format(request) {
        Some(format) => aggregated(api, request, Which::Core, format),
        None => legacy(request, &api.discovery.load().api_versions(&api.server_address)),
    })
}

/// `/apis`.
pub fn groups(api: &Api, request: &Request) -> Response {
    match aggregated_format(request) {
        Some(format) => aggregated(api, request, Which::Groups, format),
        None => legacy(request, &api.discovery.load().api_group_list()),
    }
}

/// `/apis/GROUP`; `None` if it is not served.
pub fn group(api: &Api, request: &Request, group: &str) -> Option<Response> {
    Some(legacy(request, &api.discovery.load().api_group(group)?))
}

/// `/api/VERSION` and `/apis/GROUP/VERSION`; `None` if it is not served.
pub fn group_version(api: &Api, request: &Request, gv: &GroupVersion) -> Option<Response> {
    let document = api.discovery.load().api_resource_list(gv)?;
    Some(routed(request, || legacy(request, &document)))
}

/// What is built in, with the priorities that its APIServices have.
pub fn prioritised(discovery: &Discovery) -> Discovery {
    let services = startup::api_service_priorities().into_iter();
    let known: BTreeMap<String, Priority> =
        services.map(|(name, group, version)| (name, Priority { group, version })).collect();
    discovery.with_priorities(|gv| known.get(&format!("{}.{}", gv.version, gv.group)).copied())
}

impl Api {
    /// Shows what remotes serve, as far as it is known, and goes on until the table of them ends.
    pub async fn show_remotes(self: Arc<Self>, remotes: Arc<Remotes>) {
        let mut changed = remotes.changed();
        loop {
            self.show(&remotes);
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn show(&self, remotes: &Remotes) {
        let versions: Vec<_> = remotes.all().iter().map(|remote| shown(remote)).collect();
        self.discovery.rcu(|discovery| match discovery.with_remote(versions.iter().cloned()) {
            Some(changed) => Arc::new(changed),
            None => discovery.clone(),
        });
    }
}

/// Upstream takes the aggregated form if any clause asks for it, whatever
/// stands before it: a client that names it can read it.
fn aggregated_format(request: &Request) -> Option<Format> {
    let asks = |clause: &&Clause| {
        clause.param("g") == Some("apidiscovery.k8s.io")
            && clause.param("v") == Some("v2")
            && clause.param("as") == Some("APIGroupDiscoveryList")
    };
    Accept::of(&request.headers).clauses().iter().filter(asks).find_map(Format::of)
}

fn aggregated(api: &Api, request: &Request, which: Which, format: Format) -> Response {
    let document = api.discovery.load().aggregated(which);
    let (format, bytes) = in_format(request, format, &document.body);
    let media_type = match format {
        Format::Json => AGGREGATED_JSON,
        Format::Yaml => AGGREGATED_YAML,
        Format::Protobuf => AGGREGATED_PROTOBUF,
    };
    let representation = Representation {
        bytes,
        content_type: HeaderValue::from_static(media_type),
        content_encoding: None,
        // One for all forms, as upstream; `Vary` tells them apart.
        etag: document.etag.trim_matches('"').to_owned(),
        last_modified: None,
        vary: Some(HeaderValue::from_static("Accept")),
    };
    let mut response = content::serve(request, &representation);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

const AGGREGATED_JSON: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_YAML: &str = "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn legacy(request: &Request, document: &Bytes) -> Response {
    let mut response = match Format::wanted_by(&request.headers) {
        Some(format) => {
            let (format, bytes) = in_format(request, format, document);
            response::with_type(StatusCode::OK, HeaderValue::from_static(format.media_type()), bytes)
        }
        None => response::not_acceptable(&Status::not_acceptable(&TYPES)),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Upstream has these paths behind its router, which looks at `Accept` first.
fn routed(request: &Request, answer: impl FnOnce() -> Response) -> Response {
    if Accept::of(&request.headers).names_one_of(&TYPES) {
        return answer();
    }
    let status = response::no_representation(&TYPES);
    let mut response = response::error(&request.headers, Spacing::wanted_by(request), &status);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// `document` is JSON of our own making, in the order in which clients know it.
fn in_format(request: &Request, format: Format, document: &Bytes) -> (Format, Bytes) {
    let spacing = Spacing::wanted_by(request);
    if format != Format::Json
        && let Ok(value) = serde_json::from_slice::<Value>(document)
        && let (encoded, bytes) = format.encode(spacing, &value)
        && encoded == format
    {
        return (format, bytes);
    }
    (Format::Json, spacing.apply(document))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::{
        response::{JSON, PROTOBUF, YAML},
        testing,
    };

    const BETA: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

    #[test]
    fn the_form_follows_the_accept_header() {
        let api = testing::api();
        let both = format!("{AGGREGATED_JSON},application/json");
        let reversed = format!("application/json,{AGGREGATED_JSON}");
        let old_client = format!("{BETA},application/json");
        let new_client = format!("{AGGREGATED_PROTOBUF},{AGGREGATED_JSON},{BETA},application/json");
        let liked_less = format!("{AGGREGATED_JSON};q=0.1,{AGGREGATED_PROTOBUF}");
        let table_or_yaml = "application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml";
        for (accept, expected) in [
            ("", Some(JSON)),
            ("*/*", Some(JSON)),
            ("application/json", Some(JSON)),
            ("application/yaml", Some(YAML)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(PROTOBUF)),
            (AGGREGATED_JSON, Some(AGGREGATED_JSON)),
            (AGGREGATED_YAML, Some(AGGREGATED_YAML)),
            (AGGREGATED_PROTOBUF, Some(AGGREGATED_PROTOBUF)),
            (&both, Some(AGGREGATED_JSON)),
            (&reversed, Some(AGGREGATED_JSON)),
            (&new_client, Some(AGGREGATED_PROTOBUF)),
            (&liked_less, Some(AGGREGATED_PROTOBUF)),
            (&old_client, Some(JSON)),
            (table_or_yaml, Some(YAML)),
            (BETA, None),
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
            let code = if Format::wanted_by(&request.headers).is_some() { 200 } else { 406 };
            assert_eq!(group(&api, &request, "apps").unwrap().status(), code, "{accept}");
        }
    }

    /// The catalogue is in the order of a recorded server.
    #[test]
    fn priorities_put_what_is_built_in_where_it_was() {
        let given = Discovery::new(sternpost_builtin::groups().to_vec());
        let ordered = prioritised(&given);
        assert_eq!(ordered.api_group_list(), given.api_group_list());
        assert_eq!(ordered.aggregated(Which::Groups).etag, given.aggregated(Which::Groups).etag);
        // Behind all of them, as their priorities are lower.
        let version = |group: &str, priority| sternpost_discovery::RemoteVersion {
            gv: GroupVersion::new(group, "v1"),
            group_priority: priority,
            version_priority: 1,
            resources: None,
        };
        let remotes = [version("low.example", 16_000), version("high.example", 17_900)];
        let list = ordered.with_remote(remotes).unwrap().api_group_list();
        let list: Value = serde_json::from_slice(&list).unwrap();
        let names: Vec<&str> =
            list["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
        assert_eq!((names[1], *names.last().unwrap()), ("high.example", "low.example"));
    }

    #[test]
    fn a_range_of_types_is_unknown_to_the_router() {
        let api = testing::api();
        let request = testing::request(Method::GET, "/apis", &[("accept", "application/*")]);
        let refused = core(&api, &request);
        assert_eq!(refused.status(), 406);
        assert!(testing::body(&refused).contains("Available representations: application/json, "));
        let gv = GroupVersion::new("apps", "v1");
        assert_eq!(group_version(&api, &request, &gv).unwrap().status(), 406);
        assert_eq!(groups(&api, &request).status(), 200);
        assert_eq!(group(&api, &request, "apps").unwrap().status(), 200);
    }

    #[test]
    fn every_document_has_all_three_forms() {
        let api = testing::api();
        let gv = GroupVersion::new("", "v1");
        let documents: [&dyn Fn(&Request) -> Response; 6] = [
            &|request| core(&api, request),
            &|request| groups(&api, request),
            &|request| group(&api, request, "apps").unwrap(),
            &|request| group_version(&api, request, &gv).unwrap(),
            &|request| group_version(&api, request, &GroupVersion::new("apps", "v1")).unwrap(),
            &|request| groups(&api, request),
        ];
        for (index, document) in documents.iter().enumerate() {
            let aggregated =
                if index == 5 { ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" } else { "" };
            let get = |format: &str| {
                let accept = format!("{format}{aggregated}");
                testing::body_bytes(&document(&testing::request(
                    Method::GET,
                    "/apis",
                    &[("accept", &accept)],
                )))
            };
            let json: Value = serde_json::from_slice(&get(JSON)).unwrap();
            let yaml = String::from_utf8(get(YAML).to_vec()).unwrap();
            assert_eq!(yaml, sternpost_yaml::write(&json));
            let mut back = sternpost_wire::object::decode(&get(PROTOBUF), None).unwrap();
            if json.get("apiVersion").is_none() {
                back.as_object_mut().unwrap().remove("apiVersion");
            }
            assert_eq!(back, json);
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
