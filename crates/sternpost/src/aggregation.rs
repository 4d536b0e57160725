//! Other API servers behind this one: flags, the certificate they know this server by, what they are
//! told about whom to believe, and the table of them.

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use arc_swap::ArcSwap;
use clap::{ArgAction, Args};
use serde_json::{Map, Value, json};
use sternpost_aggregate::{
    discovery, openapi,
    remote::{Remote, Remotes},
};
use sternpost_auth::{
    certificate::{FRONT_PROXY, FrontProxy, RENEW_BEFORE, Serving, not_after},
    client_certificate::ClientAuthority,
};
use sternpost_cache::Object;
use sternpost_clock::machine;
use sternpost_controllers::api_services;
use sternpost_golang::time::Timestamp;
use sternpost_http::Api;
use sternpost_meta::{gvk::GroupVersion, status::Status};
use sternpost_outbound::Egress;
use sternpost_store::BoxFuture;
use sternpost_tasks::Tasks;
use sternpost_verbs::{Part, Target, Verbs, Writer};
use tokio::sync::watch;
use tokio_rustls::rustls::{SignatureScheme, client::ResolvesClientCert, sign::CertifiedKey};

use crate::{
    authentication::AuthenticationArgs,
    cli::ServeArgs,
    credentials,
    data_dir::{DataDir, write_private},
    services::{Routing, Services},
};

/// The flags, which are kube-apiserver's.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Aggregation")]
pub struct AggregationArgs {
    /// Certificate (PEM) by which other API servers know this one when it says who calls [default: a
    /// self-made one]; read again when it changes
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    pub proxy_client_cert_file: Option<PathBuf>,

    /// Private key (PEM) of --proxy-client-cert-file
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    pub proxy_client_key_file: Option<PathBuf>,

    /// Whether Services of other API servers and webhooks are reached at their endpoints, or at their
    /// cluster IP [default: at endpoints that are ready, else at the cluster IP]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub enable_aggregator_routing: Option<bool>,
}

impl AggregationArgs {
    pub fn routing(&self) -> Routing {
        match self.enable_aggregator_routing {
            None => Routing::Either,
            Some(true) => Routing::Endpoints,
            Some(false) => Routing::ClusterIp,
        }
    }

    fn files(&self) -> Option<(&Path, &Path)> {
        self.proxy_client_cert_file.as_deref().zip(self.proxy_client_key_file.as_deref())
    }
}

/// Everything that other API servers need of this one. Clones are the same.
#[derive(Debug, Clone)]
pub struct Aggregation {
    remotes: Arc<Remotes>,
    identity: Arc<Identity>,
    told: Arc<TrustSettings>,
    args: AggregationArgs,
    /// Changes when what is told may have changed.
    published: watch::Sender<()>,
}

impl Aggregation {
    /// Reads the certificate or makes one, which stays in `dir`.
    pub fn open(
        args: &ServeArgs,
        dir: Option<&DataDir>,
        verbs: &Arc<Verbs>,
        egress: Egress,
        now: SystemTime,
    ) -> anyhow::Result<Self> {
        let (shown, own) = match args.aggregation.files() {
            Some((certificate, key)) => {
                if args.authentication.requestheader_client_ca_file.is_none() {
                    tracing::warn!(
                        "--proxy-client-cert-file without --requestheader-client-ca-file: other API servers are not told whom to believe"
                    );
                }
                (credentials::serving_from_files(certificate, key)?, None)
            }
            None => {
                let made = front_proxy(dir, now)?;
                // Of a cluster's servers each would have one of its own, and all of them would be believed for good.
                let own = (!verbs.cache.others_write()).then_some(made.authority);
                (made.client, own)
            }
        };
        let identity = Arc::new(Identity(ArcSwap::from_pointee(shown.certified_key()?)));
        let services = Services::new(verbs.cache.clone(), args.aggregation.routing());
        let told = TrustSettings {
            client_ca: args.client_ca_file.clone(),
            authentication: args.authentication.clone(),
            own_authority: own,
        };
        Ok(Self {
            remotes: Arc::new(Remotes::new(Arc::new(services), egress, Some(identity.clone()))),
            identity,
            told: Arc::new(told),
            args: args.aggregation.clone(),
            published: watch::Sender::new(()),
        })
    }

    pub fn remotes(&self) -> Arc<Remotes> {
        self.remotes.clone()
    }

    /// Follows APIServices and publishes whom other servers may believe. When this is ready, all that
    /// are registered are known. What is started ends with the runtime.
    pub async fn start(&self, api: &Arc<Api>, tasks: &Tasks) {
        let servers = Servers {
            tasks: tasks.clone(),
            remotes: self.remotes.clone(),
            built_in: sternpost_builtin::groups()
                .iter()
                .flat_map(|group| {
                    group
                        .versions
                        .iter()
                        .map(|version| GroupVersion::new(group.name.clone(), version.name.clone()))
                })
                .collect(),
        };
        let (shown, remotes) = (api.clone(), self.remotes.clone());
        tasks.forever("remotes-shown", move || shown.clone().show_remotes(remotes.clone()));
        api_services::start(api.verbs.clone(), tasks, Arc::new(servers)).await;
        if api.verbs.is_read_only() {
            return;
        }
        let (this, verbs) = (self.clone(), api.verbs.clone());
        tasks.forever("remotes-told", move || this.clone().keep_published(verbs.clone()));
    }

    /// An authority was read again.
    pub fn publish(&self) {
        self.published.send_replace(());
    }

    /// Reads the certificate again. On an error the old one stays.
    pub fn read_identity(&self) -> anyhow::Result<()> {
        if let Some((certificate, key)) = self.args.files() {
            let shown = credentials::serving_from_files(certificate, key)?;
            self.identity.0.store(Arc::new(shown.certified_key()?));
            self.remotes.retire_connections();
        }
        Ok(())
    }
}

/// What this server shows to others that ask for a certificate.
struct Identity(ArcSwap<CertifiedKey>);

impl ResolvesClientCert for Identity {
    /// Whatever authorities they name: servers do not all name those they believe.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

const FRONT_PROXY_CA: &str = "front-proxy-ca.crt";
const FRONT_PROXY_CERTIFICATE: &str = "front-proxy-client.crt";
const FRONT_PROXY_KEY: &str = "front-proxy-client.key";

/// The one in the directory, if it is good for a while; else a new one.
fn front_proxy(dir: Option<&DataDir>, now: SystemTime) -> anyhow::Result<FrontProxy> {
    let Some(dir) = dir else { return Ok(FrontProxy::make(now)?) };
    let read = |name: &str| fs::read_to_string(dir.file(name)).ok();
    if let (Some(authority), Some(chain), Some(key)) =
        (read(FRONT_PROXY_CA), read(FRONT_PROXY_CERTIFICATE), read(FRONT_PROXY_KEY))
    {
        let kept = FrontProxy { authority, client: Serving { chain, key } };
        match kept.check(now).and_then(|()| kept.check(now + RENEW_BEFORE)) {
            Ok(()) => return Ok(kept),
            Err(error) => tracing::info!(%error, "the front-proxy certificate is to be made anew"),
        }
    }
    let made = FrontProxy::make(now)?;
    write_private(&dir.file(FRONT_PROXY_CA), &made.authority)?;
    write_private(&dir.file(FRONT_PROXY_KEY), &made.client.key)?;
    write_private(&dir.file(FRONT_PROXY_CERTIFICATE), &made.client.chain)?;
    Ok(made)
}

/// The table of other servers, for whoever follows APIServices.
struct Servers {
    tasks: Tasks,
    remotes: Arc<Remotes>,
    /// Never anybody else's.
    built_in: HashSet<GroupVersion>,
}

impl Servers {
    /// APIServices are named VERSION.GROUP.
    fn remote(&self, name: &str) -> Option<Arc<Remote>> {
        let (version, group) = name.split_once('.')?;
        self.remotes.get(group, version)
    }

    fn is_built_in(&self, api_service: &Value) -> bool {
        let text = |field: &str| api_service.pointer(field).and_then(Value::as_str).unwrap_or_default();
        self.built_in.contains(&GroupVersion::new(text("/spec/group"), text("/spec/version")))
    }
}

impl api_services::Servers for Servers {
    fn put(&self, name: &str, api_service: &Value) {
        if self.is_built_in(api_service) {
            return;
        }
        let before = self.remote(name);
        self.remotes.put(name, api_service);
        let Some(remote) = self.remote(name) else { return };
        if before.is_none_or(|before| !Arc::ptr_eq(&before, &remote)) {
            // These end when the remote is gone.
            let (followed, remotes) = (remote.clone(), self.remotes.clone());
            self.tasks
                .until_done("remote-discovery", move || discovery::follow(followed.clone(), remotes.clone()));
            let remotes = self.remotes.clone();
            self.tasks.until_done("remote-openapi", move || openapi::follow(remote.clone(), remotes.clone()));
        }
    }

    fn remove(&self, name: &str) {
        self.remotes.remove(name);
    }

    fn announce(&self, name: &str, api_service: &Value) {
        self.remotes.announce(name, api_service);
    }

    fn has_address(&self, name: &str) -> bool {
        self.remote(name).is_some_and(|remote| remote.has_address())
    }

    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), String>> {
        let remote = self.remote(name);
        Box::pin(async move {
            match remote {
                Some(remote) => discovery::check(&remote).await,
                None => Ok(()),
            }
        })
    }
}

/// What other servers are told about whom to believe.
#[derive(Debug)]
struct TrustSettings {
    client_ca: Option<PathBuf>,
    authentication: AuthenticationArgs,
    /// Of the self-made certificate, if that is the one in use.
    own_authority: Option<String>,
}

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// What this server says there.
const OURS: [&str; 7] = [
    "client-ca-file",
    "requestheader-client-ca-file",
    "requestheader-allowed-names",
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
];

impl TrustSettings {
    /// The data of the ConfigMap, or why it cannot be told.
    fn data(&self) -> anyhow::Result<Map<String, Value>> {
        let mut data = Map::new();
        if let Some(path) = &self.client_ca {
            data.insert("client-ca-file".into(), certificates(path)?.into());
        }
        let flags = &self.authentication;
        let mut authorities = String::new();
        let mut names = Vec::new();
        let mut headers = [
            ("username-headers", Vec::new()),
            ("uid-headers", Vec::new()),
            ("group-headers", Vec::new()),
            ("extra-headers-prefix", Vec::new()),
        ];
        // Only headers that nobody but a front proxy gets past this server.
        if let Some(path) = &flags.requestheader_client_ca_file {
            authorities = certificates(path)?;
            names.clone_from(&flags.requestheader_allowed_names);
            let known = [
                &flags.requestheader_username_headers,
                &flags.requestheader_uid_headers,
                &flags.requestheader_group_headers,
                &flags.requestheader_extra_headers_prefix,
            ];
            for ((_, names), known) in headers.iter_mut().zip(known) {
                names.clone_from(known);
            }
        }
        if let Some(own) = &self.own_authority {
            // Whatever this server is told by others, it tells in these headers, with this certificate.
            if authorities.is_empty() || !names.is_empty() {
                names.push(FRONT_PROXY.into());
            }
            if !authorities.is_empty() && !authorities.ends_with('\n') {
                authorities.push('\n');
            }
            authorities.push_str(own);
            for ((_, names), ours) in headers.iter_mut().zip(OWN_HEADERS) {
                if !names.iter().any(|name| name == ours) {
                    names.insert(0, ours.into());
                }
            }
        }
        if !authorities.is_empty() {
            data.insert("requestheader-client-ca-file".into(), authorities.into());
            data.insert("requestheader-allowed-names".into(), json!(names).to_string().into());
            for (field, names) in headers {
                let names: Vec<String> = names.iter().map(|name| canonical(name)).collect();
                data.insert(format!("requestheader-{field}"), json!(names).to_string().into());
            }
        }
        Ok(data)
    }
}

/// In the order of the fields above.
const OWN_HEADERS: [&str; 4] = ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-"];

/// The certificates that a file holds, and nothing else that may be in it.
fn certificates(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    ClientAuthority::from_pem(text.as_bytes()).with_context(|| format!("cannot use `{}`", path.display()))?;
    Ok(only_certificates(&text))
}

fn only_certificates(pem: &str) -> String {
    let mut is_within = false;
    let mut kept = String::with_capacity(pem.len());
    for line in pem.split_inclusive('\n') {
        is_within |= line.trim_end() == "-----BEGIN CERTIFICATE-----";
        if is_within {
            kept.push_str(line);
        }
        is_within &= line.trim_end() != "-----END CERTIFICATE-----";
    }
    kept
}

/// As Go writes the name of a header.
fn canonical(name: &str) -> String {
    let mut begins = true;
    name.chars()
        .map(|char| {
            let written = if begins { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() };
            begins = char == '-';
            written
        })
        .collect()
}

/// How soon a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Aggregation {
    /// Keeps the ConfigMap: makes it when it is missing, puts right what is ours in it, and leaves the
    /// rest alone.
    async fn keep_published(self, verbs: Arc<Verbs>) {
        let mut changed = self.published.subscribe();
        let Some(served) = verbs.served.get("", "v1", "configmaps") else { return };
        let target = Target { served: &served, namespace: NAMESPACE, name: NAME };
        let maps = verbs.cache.resource(&served.id);
        let waiter = maps.waiter();
        let mut data = read(self.told.clone()).await;
        // What was found to be right the last time: most changes are of other objects.
        let mut right = None;
        loop {
            let snapshot = maps.snapshot();
            let found = snapshot.get(NAMESPACE, NAME);
            let revision = found.map(|found| found.revision);
            let ensured = match &data {
                Some(data) if right.is_none() || right != revision => {
                    ensure(&verbs, target, found.map(|found| &**found), data).await
                }
                _ => Ok(()),
            };
            right = revision.filter(|_| ensured.is_ok());
            let failed = match ensured {
                // Somebody was faster, who is seen in a moment; or there is no namespace for it.
                Err(status) if matches!(status.code, 404 | 409) => true,
                Err(status) => {
                    tracing::warn!(name = NAME, %status, "other API servers cannot be told yet whom to believe");
                    true
                }
                Ok(()) => false,
            };
            tokio::select! {
                () = waiter.changed(snapshot.seen()), if !failed => {}
                () = machine::sleep(AGAIN), if failed => {}
                // Whoever could say so is held here.
                _ = changed.changed() => {
                    data = read(self.told.clone()).await;
                    right = None;
                }
            }
        }
    }
}

/// `None` if it cannot be told just now.
async fn read(told: Arc<TrustSettings>) -> Option<Map<String, Value>> {
    // A file may be on a disk that does not answer.
    let read = tokio::task::spawn_blocking(move || told.data()).await;
    if read.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
        // The server ends before it could be read.
        return None;
    }
    match read.map_err(anyhow::Error::from).flatten() {
        Ok(data) => Some(data),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "other API servers are not told whom to believe");
            None
        }
    }
}

async fn ensure(
    verbs: &Verbs,
    target: Target<'_>,
    found: Option<&Object>,
    data: &Map<String, Value>,
) -> Result<(), Status> {
    let now = Timestamp::from_unix(verbs.clock.unix_seconds(), 0);
    let written = match found {
        None => {
            let data = unexpired(data.clone(), now);
            if data.is_empty() {
                return Ok(());
            }
            let object = json!({"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data});
            verbs.create(Target { name: "", ..target }, object, Writer::server()).await
        }
        Some(found) => {
            let mut object = found.value();
            let data = match verbs.cache.others_write() {
                true => joined(data, object.get("data")),
                false => data.clone(),
            };
            let data = unexpired(data, now);
            let told = |name: &str| object.pointer("/data").and_then(|data| data.get(name));
            if OURS.iter().all(|name| told(name) == data.get(*name)) {
                return Ok(());
            }
            if let Some(fields) = object.as_object_mut() {
                let told = fields.entry("data").or_insert_with(|| json!({}));
                if !told.is_object() {
                    *told = json!({});
                }
                if let Some(told) = told.as_object_mut() {
                    // Whom this server does not vouch for any more is not to be believed any more.
                    told.retain(|name, _| !OURS.contains(&name.as_str()));
                    told.extend(data);
                }
            }
            verbs.update(target, object, Part::Main, Writer::server()).await
        }
    };
    Ok(written.map(|_| ())?)
}

/// What other servers have told, with what is missing of ours behind it: of a cluster's, each adds its own and takes nothing
/// away, as upstream. What has all of ours stays as it is, or two servers would write in turns.
fn joined(ours: &Map<String, Value>, theirs: Option<&Value>) -> Map<String, Value> {
    let mut joined = ours.clone();
    for name in OURS {
        let theirs = theirs.and_then(|theirs| theirs.get(name)).and_then(Value::as_str).unwrap_or_default();
        if theirs.is_empty() {
            continue;
        }
        let ours = ours.get(name).and_then(Value::as_str).unwrap_or_default();
        let both = if name.ends_with("-ca-file") {
            let known: HashSet<String> = each_certificate(theirs).iter().map(|pem| encoded(pem)).collect();
            let ours = each_certificate(ours).into_iter();
            let missing: String = ours.filter(|pem| !known.contains(&encoded(pem))).collect();
            if missing.is_empty() { theirs.to_owned() } else { format!("{}\n{missing}", theirs.trim_end()) }
        } else {
            let names = |text| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
            let mut all = names(theirs);
            let missing: Vec<String> = names(ours).into_iter().filter(|name| !all.contains(name)).collect();
            all.extend(missing.iter().cloned());
            if missing.is_empty() { theirs.to_owned() } else { json!(all).to_string() }
        };
        joined.insert(name.into(), both.into());
    }
    joined
}

/// How long after its end an authority is told of.
const EXPIRY_SLACK_SECONDS: i64 = 300;

/// Without authorities that have expired, whoever told of them: as upstream, or the two would write in turns.
fn unexpired(mut data: Map<String, Value>, now: Timestamp) -> Map<String, Value> {
    for name in ["client-ca-file", "requestheader-client-ca-file"] {
        let each = each_certificate(data.get(name).and_then(Value::as_str).unwrap_or_default());
        let is_good =
            |pem: &&String| not_after(pem).is_none_or(|end| now.seconds_since(end) < EXPIRY_SLACK_SECONDS);
        let good: Vec<&str> = each.iter().filter(is_good).map(String::as_str).collect();
        if good.len() == each.len() {
            continue;
        }
        if !good.is_empty() {
            data.insert(name.into(), good.concat().into());
        } else if name == "client-ca-file" {
            data.remove(name);
        } else {
            // Headers are nobody's word.
            data.retain(|name, _| !name.starts_with("requestheader-"));
        }
    }
    data
}

/// What a certificate is, in however long lines.
fn encoded(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with('-')).map(str::trim).collect()
}

/// Each as a text of its own.
fn each_certificate(pem: &str) -> Vec<String> {
    let lines: Vec<&str> = pem.lines().map(str::trim_end).collect();
    let ends = |line: &&str| *line == "-----END CERTIFICATE-----";
    let each = lines.split_inclusive(ends).filter(|lines| lines.last().is_some_and(ends));
    each.map(|lines| only_certificates(&(lines.join("\n") + "\n"))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        aggregation: AggregationArgs,
        #[command(flatten)]
        authentication: AuthenticationArgs,
    }

    fn read_flags(flags: &[&str]) -> Result<Flags, clap::Error> {
        Flags::try_parse_from(["sternpost"].iter().chain(flags))
    }

    #[test]
    fn routing_is_switched_as_for_kube_apiserver() {
        for (flags, expected) in [
            (&[][..], Some(Routing::Either)),
            (&["--enable-aggregator-routing"], Some(Routing::Endpoints)),
            (&["--enable-aggregator-routing=true"], Some(Routing::Endpoints)),
            (&["--enable-aggregator-routing=false"], Some(Routing::ClusterIp)),
            (&["--enable-aggregator-routing=maybe"], None),
            (&["--proxy-client-cert-file=a"], None),
        ] {
            let read = read_flags(flags).ok().map(|flags| flags.aggregation.routing());
            assert_eq!(read, expected, "{flags:?}");
        }
    }

    #[test]
    fn a_made_certificate_is_kept_until_it_is_about_to_expire() {
        let path = std::env::temp_dir().join(format!("sternpost-front-proxy-{}", std::process::id()));
        let dir = DataDir::open(&path).unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        let now = SystemTime::UNIX_EPOCH + day * 20_000;
        let first = front_proxy(Some(&dir), now).unwrap();
        assert_eq!(front_proxy(Some(&dir), now + day).unwrap().authority, first.authority);
        let later = front_proxy(Some(&dir), now + day * (2 * 365 - 30)).unwrap();
        assert_ne!(later.authority, first.authority);
        fs::write(dir.file(FRONT_PROXY_KEY), &first.client.key).unwrap();
        let again = front_proxy(Some(&dir), now + day * (2 * 365 - 30)).unwrap();
        assert_ne!(again.authority, later.authority);
        drop(dir);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn of_a_file_with_certificates_only_these_are_told() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nBB==\n-----END PRIVATE KEY-----\n";
        for (text, expected) in [
            (certificate.to_owned(), certificate.to_owned()),
            (
                format!("{key}{certificate}# a word\n{key}{certificate}"),
                format!("{certificate}{certificate}"),
            ),
            (key.to_owned(), String::new()),
        ] {
            assert_eq!(only_certificates(&text), expected);
        }
    }

    #[test]
    fn what_several_servers_tell_is_joined() {
        let certificate =
            |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
        let data = |authorities: &[&str], names: &str| {
            let authorities: String = authorities.iter().map(|name| certificate(name)).collect();
            json!({"requestheader-client-ca-file": authorities, "requestheader-allowed-names": names})
        };
        let object = |data: &Value| data.as_object().unwrap().clone();
        let (ours, theirs) = (data(&["A", "B"], r#"["x"]"#), data(&["B", "C"], r#"["y","x"]"#));
        let both = joined(&object(&ours), Some(&theirs));
        assert_eq!(Value::Object(both.clone()), data(&["B", "C", "A"], r#"["y","x"]"#));
        // What was joined is right for each of them, in whichever order and lines it is.
        for server in [&ours, &theirs] {
            assert_eq!(joined(&object(server), Some(&Value::Object(both.clone()))), both);
        }
        let other_lines = json!({"requestheader-client-ca-file": "-----BEGIN CERTIFICATE-----\nAB\nCD\n-----END CERTIFICATE-----\n"});
        let same = json!({"requestheader-client-ca-file": certificate("ABCD")});
        assert_eq!(joined(&object(&same), Some(&other_lines)), object(&other_lines));
        // Who tells nothing takes nothing away.
        assert_eq!(joined(&Map::new(), Some(&theirs)), object(&theirs));
        assert_eq!(joined(&object(&ours), None), object(&ours));
    }

    #[test]
    fn authorities_that_have_expired_are_not_told_of() {
        let day = Duration::from_secs(24 * 60 * 60);
        let now = SystemTime::UNIX_EPOCH + day * 20_000;
        let authority = |made: SystemTime| FrontProxy::make(made).unwrap().authority;
        let (good, expired) = (authority(now), authority(now - day * 3650));
        let end = not_after(&expired).unwrap();
        let later =
            |seconds: i64| Timestamp::from_unix(end.seconds_since(Timestamp::from_unix(0, 0)) + seconds, 0);
        let now = Timestamp::from_unix(20_000 * 24 * 60 * 60, 0);
        let data = |authorities: &str| {
            let data = json!({
                "client-ca-file": authorities,
                "requestheader-client-ca-file": authorities,
                "requestheader-allowed-names": "[]",
            });
            data.as_object().unwrap().clone()
        };
        let both = data(&format!("{expired}{good}"));
        assert_eq!(unexpired(both.clone(), now), data(&good));
        assert_eq!(unexpired(data(&expired), now), Map::new());
        assert_eq!(unexpired(data(&good), now), data(&good));
        assert_eq!(unexpired(both.clone(), later(299)), both);
        assert_eq!(unexpired(both, later(300)), data(&good));
        // What is no certificate is left to whoever wrote it.
        let odd = data("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
        assert_eq!(unexpired(odd.clone(), now), odd);
    }

    #[test]
    fn without_flags_others_are_told_of_the_made_certificate() {
        let told = |own: Option<&str>, flags: &[&str]| {
            let authentication = read_flags(flags).unwrap().authentication;
            TrustSettings { client_ca: None, authentication, own_authority: own.map(str::to_owned) }
                .data()
                .unwrap()
        };
        let data = Value::Object(told(Some("PEM"), &[]));
        let expected = json!({
            "requestheader-client-ca-file": "PEM",
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        });
        assert_eq!(data, expected);
        // Headers that anybody may send are nobody's word.
        let data = Value::Object(told(Some("PEM"), &["--requestheader-username-headers=X-My-User"]));
        assert_eq!(data, expected);
        // With a certificate of somebody else's, its authority has to be named too.
        assert!(told(None, &["--requestheader-allowed-names=a"]).is_empty());
    }
}
