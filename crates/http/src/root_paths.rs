//! `/`: the paths that can be read here.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Serialize;

use crate::{Api, health::Endpoint, openid};

#[derive(Serialize)]
struct RootPaths {
    paths: BTreeSet<String>,
}

/// Always indented, without a final newline, as upstream sends it.
pub fn document(api: &Api) -> Bytes {
    let mut paths: BTreeSet<String> =
        ["/api", "/apis", "/apis/", "/flagz", "/metrics", "/openapi/v2", "/statusz", "/version"]
            .map(Into::into)
            .into();
    if api.openapi.v3 {
        paths.extend(["/openapi/v3", "/openapi/v3/"].map(Into::into));
    }
    if openid::is_served(api) {
        paths.extend([openid::CONFIGURATION, openid::KEYS].map(Into::into));
    }
    for endpoint in Endpoint::ALL {
        let name = endpoint.name();
        paths.insert(format!("/{name}"));
        paths.extend(api.health.names(endpoint).map(|check| format!("/{name}/{check}")));
    }
    for gv in api.discovery.load().group_versions() {
        if !gv.group.is_empty() {
            paths.insert(format!("/apis/{}", gv.group));
        }
        paths.insert(format!("/{}", gv.path()));
    }
    // Strings only: writing cannot fail.
    serde_json::to_vec_pretty(&RootPaths { paths }).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn paths(api: &Api) -> Vec<String> {
        let document: serde_json::Value = serde_json::from_slice(&document(api)).unwrap();
        document["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().into()).collect()
    }

    #[test]
    fn lists_every_endpoint_in_order() {
        assert_eq!(
            paths(&testing::api()),
            [
                "/api",
                "/api/v1",
                "/apis",
                "/apis/",
                "/apis/apps",
                "/apis/apps/v1",
                "/flagz",
                "/healthz",
                "/healthz/ping",
                "/livez",
                "/livez/ping",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/openapi/v3/",
                "/readyz",
                "/readyz/ping",
                "/readyz/shutdown",
                "/statusz",
                "/version"
            ]
        );
    }

    #[test]
    fn openapi_v3_is_not_listed_when_its_gate_is_off() {
        let mut api = testing::api();
        api.openapi.v3 = false;
        assert!(!paths(&api).iter().any(|path| path.starts_with("/openapi/v3")));
    }
}
