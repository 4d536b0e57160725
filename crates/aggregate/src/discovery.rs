//! What remotes serve, asked again and again.
//!
//! [`follow`] keeps what one remote says of itself up to date; [`shown`] is what discovery shows of
//! it. A remote that cannot be asked, or is not believed, is shown as stale, and without resources,
//! as upstream does.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use sternpost_clock::machine;
use sternpost_discovery::{RemoteResource, RemoteVersion, Unbelievable, read_aggregated, read_legacy};
use sternpost_outbound::Cause;
use tokio::sync::watch;

use crate::remote::{FetchError, Remote, Remotes};

/// How often a remote that answers is asked, as upstream.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// After a failure: this long, and twice as long after each that follows, up to [`INTERVAL`].
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// An answer takes no longer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer is no larger: a server with thousands of resources fits.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// What one remote serves, as it said last.
#[derive(Debug, Default)]
pub struct Learned {
    resources: Option<Arc<[RemoteResource]>>,
    /// Of the document that said so.
    etag: Option<HeaderValue>,
    is_stale: bool,
}

/// What discovery shows of a remote.
pub fn shown(remote: &Remote) -> RemoteVersion {
    let learned = remote.discovery.load();
    let current = learned.as_ref().filter(|learned| !learned.is_stale);
    RemoteVersion {
        gv: remote.gv.clone(),
        group_priority: remote.group_priority,
        version_priority: remote.version_priority,
        resources: current.and_then(|learned| learned.resources.clone()),
    }
}

/// Asks a remote what it serves until it is gone: at once, whenever it becomes available or
/// unavailable, and every [`INTERVAL`]. Whoever watches `remotes` is told of what changes.
pub async fn follow(remote: Arc<Remote>, remotes: Arc<Remotes>) {
    tokio::select! {
        () = remote.gone() => {}
        () = ask_forever(&remote, &remotes) => {}
    }
}

/// Asks once whether a remote serves its group-version; says why not in upstream's words.
pub async fn check(remote: &Remote) -> Result<(), String> {
    if let Some(problem) = remote.misconfigured() {
        return Err(problem.to_string());
    }
    let path = format!("/{}", remote.gv.path());
    let url = remote.location()? + &path;
    let why = match remote.get(&path, HeaderMap::new(), MAX_BYTES, ANSWER_TIMEOUT).await {
        Ok(answer) if answer.status.is_success() => return Ok(()),
        Ok(answer) => format!("bad status from {url}: {}", answer.status.as_u16()),
        Err(FetchError::Transport { url, cause: Cause::Deadline }) => {
            let cause = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
            FetchError::Transport { url, cause: Cause::Other(cause.into()) }.to_string()
        }
        Err(error) => error.to_string(),
    };
    Err(format!("failing or missing response from {url}: {why}"))
}

async fn ask_forever(remote: &Remote, remotes: &Remotes) {
    let mut changed = remotes.changed();
    let mut failures = 0;
    loop {
        // One that is unavailable is asked as well: its discovery may work when its group-version does not.
        let was_available = remote.is_available();
        let pause = match ask(remote).await {
            Ok(learned) => {
                keep(remote, remotes, learned);
                failures = 0;
                INTERVAL
            }
            Err(failure) => {
                tracing::debug!(remote = &*remote.name, %failure, "what is served there cannot be learned");
                keep(remote, remotes, stale(remote));
                failures += 1;
                pause_after(failures)
            }
        };
        tokio::select! {
            () = machine::sleep(pause) => {}
            () = until(&mut changed, || remote.is_available() != was_available) => failures = 0,
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(INTERVAL)
}

async fn until(changed: &mut watch::Receiver<u64>, is_so: impl Fn() -> bool) {
    while !is_so() {
        if changed.changed().await.is_err() {
            // The table has ended, and with it what is in it.
            std::future::pending::<()>().await;
        }
    }
}

/// The same as is known, but no longer sure.
fn stale(remote: &Remote) -> Learned {
    let known = remote.discovery.load();
    let (resources, etag) =
        known.as_ref().map(|known| (known.resources.clone(), known.etag.clone())).unwrap_or_default();
    Learned { resources, etag, is_stale: true }
}

fn keep(remote: &Remote, remotes: &Remotes, learned: Learned) {
    let before = shown(remote);
    remote.discovery.store(Some(Arc::new(learned)));
    if shown(remote) != before {
        remotes.touch();
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the answer has status {0}")]
    Status(StatusCode),
    #[error(transparent)]
    Unbelievable(#[from] Unbelievable),
}

/// Upstream's requests: all that the server has in one document, or, of a server too old for that,
/// what it has of this group-version.
async fn ask(remote: &Remote) -> Result<Learned, Failure> {
    let known = remote.discovery.load_full();
    let mut headers = accepting(AGGREGATED);
    let etag = known.as_ref().and_then(|known| known.etag.clone());
    if let Some(etag) = etag {
        headers.insert(header::IF_NONE_MATCH, etag);
    }
    let is_conditional = headers.contains_key(header::IF_NONE_MATCH);
    let answer = remote.get("/apis", headers, MAX_BYTES, ANSWER_TIMEOUT).await?;
    if answer.status == StatusCode::NOT_MODIFIED && is_conditional {
        return Ok(Learned { is_stale: false, ..stale(remote) });
    }
    if answer.status == StatusCode::OK && is_aggregated(&answer.headers) {
        let resources = read_aggregated(&remote.gv, &answer.body)?;
        let etag = answer.headers.get(header::ETAG).cloned();
        return Ok(Learned { resources: Some(resources), etag, is_stale: false });
    }
    // Only a server that is there is asked in the older way.
    if answer.status == StatusCode::SERVICE_UNAVAILABLE {
        return Err(Failure::Status(answer.status));
    }
    let path = format!("/{}", remote.gv.path());
    let answer = remote.get(&path, accepting("application/json"), MAX_BYTES, ANSWER_TIMEOUT).await?;
    if answer.status != StatusCode::OK {
        return Err(Failure::Status(answer.status));
    }
    let resources = read_legacy(&remote.gv, &answer.body)?;
    Ok(Learned { resources: Some(resources), etag: None, is_stale: false })
}

fn accepting(media_types: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(media_types))])
}

/// Only the type of an answer says what it is: old servers answer everything alike.
fn is_aggregated(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|media_type| media_type.to_str().ok());
    let mut parts = media_type.unwrap_or_default().split(';').map(str::trim);
    if parts.next() != Some("application/json") {
        return false;
    }
    let parameters: Vec<&str> = parts.collect();
    let has = |parameter: &str| parameters.contains(&parameter);
    has("g=apidiscovery.k8s.io") && (has("v=v2") || has("v=v2beta1")) && has("as=APIGroupDiscoveryList")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_the_interval() {
        let pauses: Vec<u64> = (1..9).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause_after(u32::MAX), INTERVAL);
    }

    #[test]
    fn the_form_of_an_answer_is_told_by_its_type() {
        for (media_type, expected) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; g=apidiscovery.k8s.io; as=APIGroupDiscoveryList; v=v2beta1", true),
            ("application/json", false),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", false),
            (
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                false,
            ),
            ("text/html", false),
            ("", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
            assert_eq!(is_aggregated(&headers), expected, "{media_type}");
        }
        assert!(!is_aggregated(&HeaderMap::new()));
    }
}
