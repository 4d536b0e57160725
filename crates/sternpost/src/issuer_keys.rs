//! Fetches the keys of token issuers over HTTPS.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::{Request, Uri, header};
use sternpost_auth::oidc::Issuer;
use sternpost_clock::{Clock, machine};
use sternpost_http::IssuerKeys;
use sternpost_outbound::{Client, Egress, Protocols, Settings, Trust, Via, client_tls, empty};
use sternpost_tasks::Tasks;
use tokio::sync::watch;

/// For both documents of an issuer: requests wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The largest document that is taken from an issuer.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// Asks each issuer once at a time, whoever waits for it.
#[derive(Debug, Clone)]
pub struct KeyFetcher {
    egress: Egress,
    tasks: Tasks,
    clock: Clock,
    /// Issuers that are being asked, by URL. What is received is that it is over.
    asking: Arc<Mutex<HashMap<String, watch::Receiver<()>>>>,
}

impl IssuerKeys for KeyFetcher {
    fn fetch(&self, issuer: Arc<Issuer>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut over = self.begin(issuer);
        Box::pin(async move {
            // Closed when it is over; nothing is ever sent.
            let _ = over.changed().await;
        })
    }
}

impl KeyFetcher {
    pub fn new(egress: Egress, tasks: Tasks, clock: Clock) -> Self {
        Self { egress, tasks, clock, asking: Arc::default() }
    }

    /// Asks in a task of its own, which ends within its time: a caller who goes
    /// away leaves the others their keys.
    fn begin(&self, issuer: Arc<Issuer>) -> watch::Receiver<()> {
        let mut asking = self.asking();
        if let Some(over) = asking.get(issuer.url()) {
            return over.clone();
        }
        let (sender, over) = watch::channel(());
        asking.insert(issuer.url().to_owned(), over.clone());
        let (egress, clock) = (self.egress.clone(), self.clock.clone());
        let asked = KeyRequest { keys: self.clone(), url: issuer.url().to_owned(), _over: sender };
        self.tasks.once("issuer-keys", async move {
            let _asked = asked;
            let answer = machine::timeout(TIMEOUT, keys(&issuer, &egress)).await;
            let answer = answer.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", TIMEOUT.as_secs())));
            let now = clock.wall();
            let taken = answer.and_then(|document| Ok(issuer.fetched(&document, now)?));
            if let Err(error) = taken {
                issuer.not_fetched(now);
                let error = format!("{error:#}");
                tracing::warn!(issuer = issuer.url(), error, "cannot get the keys of a token issuer");
            }
        });
        over
    }

    fn asking(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<()>>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One question. Nobody waits for it any more when it is dropped, and the next may ask again.
struct KeyRequest {
    keys: KeyFetcher,
    url: String,
    _over: watch::Sender<()>,
}

impl Drop for KeyRequest {
    fn drop(&mut self) {
        self.keys.asking().remove(&self.url);
    }
}

/// The JSON Web Key Set.
async fn keys(issuer: &Issuer, egress: &Egress) -> anyhow::Result<Bytes> {
    let trust = issuer.authority().map_or(Ok(Trust::Machine), |pem| Trust::pem(pem.as_bytes()))?;
    let client = Client::new(Settings {
        tls: client_tls(trust, None)?,
        protocols: Protocols::Http1,
        name: None,
        egress: egress.clone(),
        via: Via::Other,
        proxy: None,
        idle: TIMEOUT,
    });
    let document = get(issuer.discovery_url(), &client).await?;
    let url = issuer.keys_url(&document).context(issuer.discovery_url().to_owned())?;
    get(&url, &client).await
}

/// Redirects are not followed: an issuer says in its document where its keys are.
async fn get(url: &str, client: &Client) -> anyhow::Result<Bytes> {
    get_once(url, client).await.with_context(|| url.to_owned())
}

async fn get_once(url: &str, client: &Client) -> anyhow::Result<Bytes> {
    let url: Uri = url.parse().context("this is no URL")?;
    if url.scheme_str() != Some("https") {
        return Err(anyhow!("not an https URL"));
    }
    let request = Request::get(url)
        .header(header::USER_AGENT, concat!("sternpost/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "application/json")
        .body(empty())?;
    let response = client.request(request).await?;
    if !response.status().is_success() {
        return Err(anyhow!("the answer was {}", response.status()));
    }
    let document = response.into_body().read(MAX_DOCUMENT_BYTES).await?;
    match document.is_whole {
        true => Ok(document.bytes),
        false => Err(anyhow!("the answer has more than {MAX_DOCUMENT_BYTES} bytes")),
    }
}
