//! One call.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use sternpost_clock::machine;
use sternpost_outbound::{Body, Cause, ClusterDns, Outgoing, Resolve, full};

use crate::{
    config::{ClientConfig, Target},
    error::CallError,
};

/// The most bytes of an answer, ten times the largest object that can be written. Upstream has no
/// limit.
pub const MAX_ANSWER: usize = 32 * 1024 * 1024;
/// How much of the answer of a webhook that failed is read: its text goes into an error.
pub const MAX_FAILURE: usize = 16 * 1024;

/// How often a webhook that asks for it (`Retry-After`) is called again, within the time of the call.
pub const MAX_RETRIES: u32 = 10;

/// Webhooks see the name under which upstream calls all of them.
const AGENT: &str = "kube-apiserver-admission";

/// Calls webhooks. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Client {
    resolver: Arc<dyn Resolve>,
}

impl Client {
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver }
    }

    /// Posts a review and reads the answer. The time is for all of it: finding the service,
    /// connecting, sending, waiting and reading.
    pub async fn post(
        &self,
        config: &ClientConfig,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let end = machine::now() + timeout;
        let query = format!("{}?timeout={}s", config.path(), whole_seconds(timeout));
        let failed = |cause| CallError::Transport { url: format!("https://{}{query}", config.host()), cause };
        let mut retries = 0;
        loop {
            let request = self.request(config, &query, body.clone()).map_err(failed)?;
            let answer = match machine::timeout_at(end, config.http().request(request)).await {
                Err(_) => return Err(failed(Cause::Deadline)),
                Ok(Err(cause)) => return Err(failed(cause)),
                Ok(Ok(answer)) => answer,
            };
            let (head, body) = answer.into_parts();
            if let Some(pause) = asked_to_wait(head.status, &head.headers)
                && retries < MAX_RETRIES
            {
                retries += 1;
                if machine::timeout_at(end, machine::sleep(pause)).await.is_err() {
                    return Err(failed(Cause::Deadline));
                }
                continue;
            }
            return match machine::timeout_at(end, finish(head.status, &head.headers, body)).await {
                Err(_) => Err(CallError::Body(Cause::BodyDeadline)),
                Ok(answer) => answer,
            };
        }
    }

    fn request(&self, config: &ClientConfig, query: &str, body: Bytes) -> Result<Request<Outgoing>, Cause> {
        // A service is looked up for each call: the key of the pool is where it was found, so a
        // service that moved is found where it is now.
        let address = match config.target() {
            Target::Url(address) => address.clone(),
            Target::Service { namespace, name, port } => {
                self.resolver.service(namespace, name, *port).map_err(Cause::Service)?
            }
        };
        let invalid = |_| Cause::Other(format!("invalid address {address}"));
        let uri: Uri = format!("https://{address}{query}").parse().map_err(invalid)?;
        let host = HeaderValue::try_from(config.host())
            .map_err(|_| Cause::Other(format!("invalid host {:?}", config.host())))?;
        let mut request = Request::new(full(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        Ok(request)
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new(Arc::new(ClusterDns))
    }
}

/// The body of an answer, or what its code says.
async fn finish(status: StatusCode, headers: &HeaderMap, body: Body) -> Result<Bytes, CallError> {
    let code = status.as_u16();
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !status.is_success() {
        let said = body.read(MAX_FAILURE).await.map_err(CallError::Body)?;
        return Err(CallError::of_answer(code, media, &said.bytes));
    }
    let answer = body.read(MAX_ANSWER).await.map_err(CallError::Body)?;
    match answer.bytes.len() {
        _ if !answer.is_whole => Err(CallError::TooLarge { limit: MAX_ANSWER }),
        0 => Err(CallError::Empty { code, media: media.to_owned() }),
        _ => Ok(answer.bytes),
    }
}

/// How long a webhook that is busy asks to be left alone.
fn asked_to_wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Webhooks are told the time they have in whole seconds, rounded up.
fn whole_seconds(timeout: Duration) -> u64 {
    timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0)
}
