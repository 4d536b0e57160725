//! Files that are read again when they change, without a restart: the serving
//! certificate, the one for other servers, the authorities of clients and front
//! proxies, the authentication configuration, and the encryption configuration if that is asked for.
//!
//! Looking at the files once a second finds every way in which files are
//! replaced, also the symbolic links of mounted secrets. A file that cannot be
//! used is logged, and what was read before stays.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use sternpost_auth::{
    certificate::Serving, client_certificate::ClientAuthority, request_header::FrontProxies,
};
use sternpost_clock::{Clock, machine};
use sternpost_http::Api;
use tokio::runtime::Handle;
use tokio_rustls::rustls::ServerConfig;

use crate::{
    aggregation::Aggregation,
    authentication,
    cli::ServeArgs,
    credentials,
    encryption::{AtRest, Told, Unhealthy},
};

/// How often files are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// When a plugin is asked again without which a changed encryption configuration is not used.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// What new connections are made with.
pub struct Tls {
    pub serving: Serving,
    pub clients: Option<ClientAuthority>,
    pub proxies: Option<FrontProxies>,
}

impl Tls {
    pub fn config(&self) -> anyhow::Result<ServerConfig> {
        let authorities = self.clients.iter().chain(self.proxies.iter().map(|proxies| &proxies.authority));
        Ok(self.serving.server_config(&authorities.collect::<Vec<_>>())?)
    }
}

/// The encryption configuration, and what uses it.
pub struct Encrypted {
    pub at_rest: Arc<AtRest>,
    pub clock: Clock,
    pub told: Told,
    /// As it was before it was read.
    pub file: Watched,
}

/// Looks at the files until it is aborted; the returned task is the caller's.
pub fn start(
    args: &ServeArgs,
    tls: Tls,
    config: Arc<ArcSwap<ServerConfig>>,
    api: Arc<Api>,
    aggregation: Aggregation,
    encrypted: Option<Encrypted>,
) -> tokio::task::JoinHandle<()> {
    let mut watcher = Watcher {
        serving: Watched::new(args.tls_cert_file.iter().chain(&args.tls_private_key_file)),
        clients: Watched::new(&args.client_ca_file),
        proxies: Watched::new(&args.authentication.requestheader_client_ca_file),
        settings: Watched::new(&args.authentication.authentication_config),
        shown: Watched::new(
            args.aggregation.proxy_client_cert_file.iter().chain(&args.aggregation.proxy_client_key_file),
        ),
        encrypted,
        ask_again: None,
        runtime: Handle::current(),
        tls,
        config,
        api,
        aggregation,
    };
    let args = Reread {
        certificate: args.tls_cert_file.clone().zip(args.tls_private_key_file.clone()),
        clients: args.client_ca_file.clone(),
        authentication: args.authentication.clone(),
        own_issuers: args.service_accounts.issuers.clone(),
    };
    tokio::spawn(async move {
        if watcher.is_idle() {
            return;
        }
        let args = Arc::new(args);
        loop {
            machine::sleep(INTERVAL).await;
            // A file may be on a disk that does not answer.
            let args = args.clone();
            let looked = tokio::task::spawn_blocking(move || {
                watcher.look(&args);
                watcher
            });
            match looked.await {
                Ok(back) => watcher = back,
                // The server ends.
                Err(error) if error.is_cancelled() => return,
                Err(error) => return tracing::error!(%error, "files are no longer watched"),
            }
        }
    })
}

/// Where everything is read from.
struct Reread {
    certificate: Option<(PathBuf, PathBuf)>,
    clients: Option<PathBuf>,
    authentication: authentication::AuthenticationArgs,
    own_issuers: Vec<String>,
}

struct Watcher {
    serving: Watched,
    clients: Watched,
    proxies: Watched,
    settings: Watched,
    /// What this server shows to others.
    shown: Watched,
    encrypted: Option<Encrypted>,
    /// When a plugin of a changed encryption configuration is asked again.
    ask_again: Option<machine::Instant>,
    /// What plugins are called on.
    runtime: Handle,
    tls: Tls,
    config: Arc<ArcSwap<ServerConfig>>,
    api: Arc<Api>,
    aggregation: Aggregation,
}

impl Watcher {
    fn is_idle(&self) -> bool {
        [&self.serving, &self.clients, &self.proxies, &self.settings, &self.shown]
            .iter()
            .all(|watched| watched.paths.is_empty())
            && self.encrypted.is_none()
    }

    fn look(&mut self, args: &Reread) {
        let mut changed = false;
        if self.serving.has_changed()
            && let Some((certificate, key)) = &args.certificate
            && let Some(serving) = logged(certificate, credentials::serving_from_files(certificate, key))
        {
            self.tls.serving = serving;
            changed = true;
        }
        if self.clients.has_changed()
            && let Some(path) = &args.clients
            && let Some(clients) = logged(path, credentials::client_authority(path))
        {
            self.tls.clients = Some(clients.clone());
            self.api.authenticator.set_clients(clients);
            changed = true;
        }
        if self.proxies.has_changed()
            && let Some(path) = &args.authentication.requestheader_client_ca_file
            && let Some(Some(proxies)) = logged(path, authentication::front_proxies(&args.authentication))
        {
            self.tls.proxies = Some(proxies.clone());
            self.api.authenticator.set_front_proxies(proxies);
            changed = true;
        }
        if self.shown.has_changed()
            && let Some(path) = self.shown.paths.first()
        {
            logged(path, self.aggregation.read_identity());
        }
        if changed {
            self.aggregation.publish();
            match self.tls.config() {
                Ok(config) => self.config.store(Arc::new(config)),
                Err(error) => tracing::error!(%error, "cannot use what was read again"),
            }
        }
        if self.settings.has_changed()
            && let Some(path) = &args.authentication.authentication_config
        {
            let authenticator = &self.api.authenticator;
            let applied =
                authentication::apply_file(&args.authentication, path, &args.own_issuers, authenticator);
            logged(path, applied);
        }
        // Last, because a plugin may take its time.
        self.look_at_encryption();
    }

    fn look_at_encryption(&mut self) {
        let Some(Encrypted { at_rest, clock, told, file }) = &mut self.encrypted else { return };
        let is_due = self.ask_again.is_some_and(|due| machine::left(due).is_zero());
        let has_changed = file.has_changed();
        if (has_changed || is_due)
            && let Some(path) = file.paths.first()
        {
            let applied = at_rest.reload(path, clock, &self.runtime, told);
            let may_be_starting = applied.as_ref().is_err_and(anyhow::Error::is::<Unhealthy>);
            self.ask_again = may_be_starting.then(|| machine::within(ASK_AGAIN));
            logged(path, applied);
        }
    }
}

/// What was read, or `None` and a line in the log.
fn logged<T>(path: &Path, read: anyhow::Result<T>) -> Option<T> {
    match read {
        Ok(read) => {
            tracing::info!(path = %path.display(), "read again");
            Some(read)
        }
        Err(error) => {
            let error = format!("{error:#}");
            tracing::error!(path = %path.display(), error, "changed to what cannot be used; what was read before stays");
            None
        }
    }
}

/// Files, and what they looked like last.
pub struct Watched {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Stamp>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    file: u64,
}

impl Watched {
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
        let seen = paths.iter().map(|path| Stamp::of(path)).collect();
        Self { paths, seen }
    }

    fn has_changed(&mut self) -> bool {
        let now: Vec<_> = self.paths.iter().map(|path| Stamp::of(path)).collect();
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

impl Stamp {
    /// Of the file at the end of all links. `None` if there is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let file = 0;
        Some(Self { modified: metadata.modified().ok(), length: metadata.len(), file })
    }
}
