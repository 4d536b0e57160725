//! `/openapi/v2`, `/openapi/v3`, `/openapi/v3/KEY` and `/apis/GROUP/openapi/v3`.

use crate::{
    Api,
    request::Request,
    response::{self, Response},
};

/// How OpenAPI documents are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The feature gate `OpenAPIV3`: off, the v3 endpoints do not exist.
    pub v3: bool,
    pub names: Names,
}

/// The form of definition names and parameters when a request asks for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// `core.v1.ConfigMap`, parameters shared.
    Short,
    /// `io.k8s.api.core.v1.ConfigMap`, parameters inline.
    Upstream,
}

impl Default for Settings {
    fn default() -> Self {
        Self { v3: true, names: Names::Short }
    }
}

/// All OpenAPI paths come here; methods are not checked before.
pub fn handle(_api: &Api, _request: &Request) -> Response {
    response::page_not_found()
}
