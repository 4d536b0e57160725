//! Asking a server from within its process: every request takes the way of all requests, without a connection.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Collected, Full};
use sternpost_auth::token::Token;

use crate::{Api, connections::Origin, pipeline};

/// A client of the server itself. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Local {
    api: Arc<Api>,
    authorization: HeaderValue,
    origin: Arc<Origin>,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Local {
    /// In the name of whoever has the token.
    pub fn new(api: Arc<Api>, token: &Token) -> Result<Self, header::InvalidHeaderValue> {
        api.share();
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()))?;
        authorization.set_sensitive(true);
        Ok(Self { api, authorization, origin: Arc::default() })
    }

    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Answers that do not end, such as watches, are not for this.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Answer, http::Error> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(Full::new(body))?;
        let (head, body) = pipeline::alone(&self.api, &self.origin, request).await.into_parts();
        // Only a connection can be cut.
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}
