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
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use sternpost_auth::oidc::Issuer;
use sternpost_clock::{Clock, machine};
use sternpost_http::IssuerKeys;
use sternpost_outbound::{Egress, Via, connect::dial};
use sternpost_tasks::Tasks;
use tokio::sync::watch;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

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
        let asked = Asked { keys: self.clone(), url: issuer.url().to_owned(), _over: sender };
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
struct Asked {
    keys: KeyFetcher,
    url: String,
    _over: watch::Sender<()>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.keys.asking().remove(&self.url);
    }
}

/// The JSON Web Key Set.
async fn keys(issuer: &Issuer, egress: &Egress) -> anyhow::Result<Bytes> {
    let tls = Arc::new(tls_config(issuer.authority())?);
    let document = get(issuer.discovery_url(), &tls, egress).await?;
    let url = issuer.keys_url(&document).context(issuer.discovery_url().to_owned())?;
    get(&url, &tls, egress).await
}

/// Redirects are not followed: an issuer says in its document where its keys are.
async fn get(url: &str, tls: &Arc<ClientConfig>, egress: &Egress) -> anyhow::Result<Bytes> {
    get_once(url, tls, egress).await.with_context(|| url.to_owned())
}

async fn get_once(url: &str, tls: &Arc<ClientConfig>, egress: &Egress) -> anyhow::Result<Bytes> {
    let url: Uri = url.parse().context("this is no URL")?;
    if url.scheme_str() != Some("https") {
        return Err(anyhow!("not an https URL"));
    }
    let host = url.host().context("the URL has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let tcp = dial(egress, Via::Other, &host, url.port_u16().unwrap_or(443)).await?;
    let stream = TlsConnector::from(tls.clone()).connect(ServerName::try_from(host)?, tcp).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = Request::get(path)
        .header(header::HOST, url.authority().map(http::uri::Authority::as_str).unwrap_or_default())
        .header(header::USER_AGENT, concat!("sternpost/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(anyhow!("the answer was {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES).collect().await;
        Ok(body.map_err(|error| anyhow!("{error}"))?.to_bytes())
    };
    // The connection lives as long as somebody waits for the answer.
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

fn tls_config(authority: Option<&str>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(text) => {
            for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                roots.add(certificate?)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
