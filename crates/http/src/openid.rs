//! How others check tokens of service accounts: OpenID Connect discovery.

use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use sternpost_auth::service_account::ServiceAccounts;

use crate::{
    Api,
    accept::Accept,
    request::Request,
    response::{self, JSON, Response, Spacing},
};

pub const CONFIGURATION: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/openid/v1/jwks";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    Configuration,
    Keys,
}

/// Both documents change only with the server's settings.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");

const KEY_SET: &str = "application/jwk-set+json";

/// Whether there is an issuer that others can find.
pub fn is_served(api: &Api) -> bool {
    configuration(api).is_some()
}

/// `None` if the document is not served.
pub fn document(api: &Api, request: &Request, document: Document) -> Option<Response> {
    let configuration = configuration(api)?;
    let (media_type, value) = match document {
        Document::Configuration => (JSON, configuration),
        Document::Keys => (KEY_SET, api.authenticator.service_accounts().map(ServiceAccounts::key_set)?),
    };
    if !Accept::of(&request.headers).names_one_of(&[media_type]) {
        let status = response::no_representation(&[media_type]);
        return Some(response::error(&request.headers, Spacing::wanted_by(request), &status));
    }
    let body = value.to_string().into();
    let mut response = response::with_type(StatusCode::OK, HeaderValue::from_static(media_type), body);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_CONTROL);
    Some(response)
}

fn configuration(api: &Api) -> Option<Value> {
    let here = format!("https://{}{KEYS}", api.server_address);
    api.authenticator.service_accounts()?.configuration(&here)
}
