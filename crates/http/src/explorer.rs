//! `/ui`: where the explorer is, which has an origin of its own because aggregated servers' pages share that of the API.
//!
//! Looked at only when a request is about to be refused or found to lead nowhere, so that no other request pays for it,
//! and a server without an explorer answers as if there were none.

use http::{Method, StatusCode, header};

use crate::{
    Api,
    response::{self, Response},
};

/// For browsers, which have no credential here; it tells nothing that the port does not.
pub fn redirect(api: &Api, method: &Method, path: &str) -> Option<Response> {
    let place = api.explorer.as_ref()?;
    let is_asked_for = *method == Method::GET && matches!(path, "/ui" | "/ui/");
    is_asked_for.then(|| {
        let mut response = response::plain_text(StatusCode::TEMPORARY_REDIRECT, "");
        response.headers_mut().insert(header::LOCATION, place.clone());
        response
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::testing;

    #[test]
    fn there_is_an_explorer_only_if_there_is_one() {
        let mut api = testing::api();
        assert!(redirect(&api, &Method::GET, "/ui").is_none());
        api.explorer = Some(HeaderValue::from_static("http://127.0.0.1:8001/"));
        for (method, path, expected) in [
            (Method::GET, "/ui", true),
            (Method::GET, "/ui/", true),
            (Method::POST, "/ui", false),
            (Method::GET, "/ui/x", false),
            (Method::GET, "/apis", false),
        ] {
            let found = redirect(&api, &method, path);
            assert_eq!(found.is_some(), expected, "{method} {path}");
            if let Some(response) = found {
                assert_eq!(response.status(), 307);
                assert_eq!(response.headers()["location"], "http://127.0.0.1:8001/");
            }
        }
    }
}
