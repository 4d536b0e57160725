//! Kubeconfigs: the admin's is written, a user's is read.
//!
//! Reading follows kubectl: the files of `$KUBECONFIG` are one configuration in
//! which whatever is said first counts, the command line wins over all of them,
//! and a program in a pod needs none.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sternpost_auth::token::Token;

use crate::{config_file, error::Hinted};

mod exec;
pub mod merge;

/// Where pods find who they are.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which server to ask, and as whom, where that is not for the kubeconfig to say.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct AccessArgs {
    /// The kubeconfig [default: the files of $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// The cluster of the kubeconfig to use [default: that of the context]
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,

    /// The user of the kubeconfig to be [default: that of the context]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// The URL of the server
    #[arg(long, short, value_name = "URL")]
    pub server: Option<String>,

    /// A bearer token for the server
    #[arg(long)]
    pub token: Option<String>,

    /// Certificates (PEM) of the authority that vouches for the server
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,

    /// The name the server's certificate is for [default: the host of the URL]
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,

    /// Do not ask who the server is: anybody in between can read and change everything
    #[arg(long, conflicts_with = "certificate_authority")]
    pub insecure_skip_tls_verify: bool,
}

/// How to reach a server, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// A URL.
    pub server: String,
    /// PEM; the authorities of this machine if there is none.
    pub authority: Option<Vec<u8>>,
    /// The name the server's certificate is for, if not the URL's host.
    pub server_name: Option<String>,
    /// Any server will do.
    pub insecure: bool,
    /// The URL of a proxy to go through.
    pub proxy: Option<String>,
    pub credentials: Credentials,
    /// Tells users apart and stays as it is when the token of one is renewed: a hash of what the
    /// kubeconfig says of the user, not of what came of it.
    pub principal: String,
}

/// What a request is signed with.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The value of the header.
    pub authorization: Option<String>,
    pub certificate: Option<Certificate>,
    /// `Impersonate-*` headers.
    pub impersonate: Vec<(&'static str, String)>,
}

/// PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    pub chain: Vec<u8>,
    pub key: Vec<u8>,
}

/// Secrets stay out of logs and messages.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = self.authorization.as_deref().and_then(|value| value.split(' ').next());
        f.debug_struct("Credentials")
            .field("authorization", &way)
            .field("certificate", &self.certificate.is_some())
            .field("impersonate", &self.impersonate)
            .finish()
    }
}

impl Credentials {
    fn bearer(token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), ..Self::default() }
    }

    fn is_none(&self) -> bool {
        self.authorization.is_none() && self.certificate.is_none()
    }
}

/// What the command line, the files and the environment say together. A program that the
/// kubeconfig names for credentials is run, once.
pub async fn load(args: &AccessArgs) -> anyhow::Result<Access> {
    find(args, &Surroundings::of_process()).await
}

/// The name of the context that [`load`] goes by, and the namespace it names; neither, where there is no context.
pub fn context(args: &AccessArgs) -> anyhow::Result<(Option<String>, Option<String>)> {
    let (files, presence) = Surroundings::of_process().files(args);
    let config = Config::read(&files, presence)?;
    let name = args.context.clone().or_else(|| config.current.clone());
    let context = name.as_ref().and_then(|name| config.contexts.get(name));
    let namespace = context.and_then(|context| string(&context.value, "namespace")).map(Into::into);
    Ok((name, namespace))
}

/// What else can say where the server is.
#[derive(Debug, Default)]
struct Surroundings {
    /// `$KUBECONFIG`.
    kubeconfig: Option<OsString>,
    home: Option<PathBuf>,
    /// `$KUBERNETES_SERVICE_HOST` and `$KUBERNETES_SERVICE_PORT`, which pods have.
    service: Option<(String, String)>,
    service_account: PathBuf,
}

impl Surroundings {
    #[expect(clippy::disallowed_methods, reason = "kubectl's variables mean the same here")]
    fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::home_dir(),
            service: variable("KUBERNETES_SERVICE_HOST").zip(variable("KUBERNETES_SERVICE_PORT")),
            service_account: SERVICE_ACCOUNT.into(),
        }
    }

    /// The files to read, and whether they must be there.
    fn files(&self, args: &AccessArgs) -> (Vec<PathBuf>, Presence) {
        if let Some(file) = &args.kubeconfig {
            return (vec![file.clone()], Presence::Required);
        }
        let files = match &self.kubeconfig {
            Some(list) => std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect(),
            None => self.home.iter().map(|home| home.join(".kube/config")).collect(),
        };
        (files, Presence::Optional)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

async fn find(args: &AccessArgs, surroundings: &Surroundings) -> anyhow::Result<Access> {
    let (files, presence) = surroundings.files(args);
    let config = Config::read(&files, presence)?;
    if config.is_empty() && args.server.is_none() {
        let named = [("context", &args.context), ("cluster", &args.cluster), ("user", &args.user)];
        let named = named.into_iter().find_map(|(what, name)| Some((what, name.as_deref()?)));
        let message = match named {
            Some((what, name)) => format!("there is no kubeconfig, so no {what} `{name}`"),
            None => match in_cluster(surroundings, args)? {
                Some(access) => return Ok(access),
                None => "there is no kubeconfig".to_owned(),
            },
        };
        let hint = "name one with --kubeconfig or $KUBECONFIG, or a server with --server".to_owned();
        return Err(Hinted { message, hint }.into());
    }
    let source = match files.as_slice() {
        [file] => format!("`{}`", file.display()),
        _ => "the kubeconfig".to_owned(),
    };
    config.access(args).await.with_context(|| source)
}

/// Files as one.
#[derive(Debug, Default)]
struct Config {
    current: Option<String>,
    contexts: BTreeMap<String, Entry>,
    clusters: BTreeMap<String, Entry>,
    users: BTreeMap<String, Entry>,
}

/// What a file says of a name.
#[derive(Debug, Clone, Default)]
struct Entry {
    value: Value,
    /// Files that are named in it stand relative to the file it is from.
    directory: PathBuf,
}

impl Config {
    fn read(files: &[PathBuf], presence: Presence) -> anyhow::Result<Self> {
        let mut config = Self::default();
        for file in files {
            let text = match fs::read_to_string(file) {
                Err(error) if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let hint = "name one with --kubeconfig; `sternpost serve` says where its own is when it is ready";
                    let message = format!("cannot read `{}`: {error}", file.display());
                    return Err(Hinted { message, hint: hint.to_owned() }.into());
                }
                read => read.with_context(|| format!("cannot read `{}`", file.display()))?,
            };
            let value = config_file::parse(file, &text)?;
            if !value.is_object() && !value.is_null() {
                return Err(anyhow!("{}:1:1: this is no kubeconfig: want a mapping", file.display()));
            }
            config.add(&value, file.parent().unwrap_or(Path::new("")));
        }
        Ok(config)
    }

    /// What is there already stays.
    fn add(&mut self, file: &Value, directory: &Path) {
        if self.current.is_none() {
            self.current = string(file, "current-context").map(Into::into);
        }
        for (entries, list, what) in [
            (&mut self.contexts, "contexts", "context"),
            (&mut self.clusters, "clusters", "cluster"),
            (&mut self.users, "users", "user"),
        ] {
            for item in file.get(list).and_then(Value::as_array).into_iter().flatten() {
                let (Some(name), Some(value)) = (string(item, "name"), item.get(what)) else { continue };
                let entry = Entry { value: value.clone(), directory: directory.to_owned() };
                entries.entry(name.to_owned()).or_insert(entry);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.current.is_none() && self.clusters.is_empty() && self.contexts.is_empty()
    }

    async fn access(&self, args: &AccessArgs) -> anyhow::Result<Access> {
        let context = match args.context.as_deref().or(self.current.as_deref()) {
            Some(name) => Some(named(&self.contexts, "context", name)?),
            None if args.server.is_some() || args.cluster.is_some() => None,
            None => {
                let hint = "choose one with --context".to_owned();
                return Err(Hinted { message: "no context is current".to_owned(), hint }.into());
            }
        };
        let of_context = |key| context.and_then(|context| string(&context.value, key));
        let cluster = match args.cluster.as_deref().or_else(|| of_context("cluster")) {
            Some(name) => named(&self.clusters, "cluster", name)?.clone(),
            None if args.server.is_some() => Entry::default(),
            None => return Err(anyhow!("the context names no cluster")),
        };
        let user = match args.user.as_deref().or_else(|| of_context("user")) {
            Some(name) => named(&self.users, "user", name)?.clone(),
            None => Entry::default(),
        };
        let mut access = of_cluster(&cluster, args)?;
        access.principal = principal(&user, args);
        access.credentials = credentials(&user, &cluster, &access, args).await?;
        Ok(access)
    }
}

fn named<'a>(entries: &'a BTreeMap<String, Entry>, what: &str, name: &str) -> anyhow::Result<&'a Entry> {
    entries.get(name).ok_or_else(|| anyhow!("there is no {what} `{name}`"))
}

/// Where the server is; as whom is left open.
fn of_cluster(cluster: &Entry, args: &AccessArgs) -> anyhow::Result<Access> {
    let Entry { value, directory } = cluster;
    let said = args.server.as_deref().or_else(|| string(value, "server"));
    let authority = authority(args, || content(value, "certificate-authority", directory))?;
    let skips = value.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or_default();
    let insecure = args.insecure_skip_tls_verify || (skips && args.certificate_authority.is_none());
    if insecure && authority.is_some() {
        // As kubectl: whoever gave an authority does not want just any server.
        return Err(anyhow!("`insecure-skip-tls-verify` and a certificate authority exclude each other"));
    }
    // A name in the file is that of the server in the file.
    let server_name = string(value, "tls-server-name").filter(|_| args.server.is_none());
    Ok(Access {
        server: said.context("the cluster names no server")?.to_owned(),
        authority,
        server_name: args.tls_server_name.as_deref().or(server_name).map(Into::into),
        insecure,
        proxy: string(value, "proxy-url").map(Into::into),
        credentials: Credentials::default(),
        principal: String::new(),
    })
}

/// What the command line says vouches for the server, else what there is.
fn authority(
    args: &AccessArgs,
    otherwise: impl FnOnce() -> anyhow::Result<Option<Vec<u8>>>,
) -> anyhow::Result<Option<Vec<u8>>> {
    match &args.certificate_authority {
        Some(file) => fs::read(file).map(Some).with_context(|| format!("cannot read `{}`", file.display())),
        None if args.insecure_skip_tls_verify => Ok(None),
        None => otherwise(),
    }
}

/// What a pod knows of its cluster, if this is one; the command line wins.
fn in_cluster(surroundings: &Surroundings, args: &AccessArgs) -> anyhow::Result<Option<Access>> {
    let Some((host, port)) = &surroundings.service else { return Ok(None) };
    let file = |name: &str| {
        let path = surroundings.service_account.join(name);
        fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let token = match &args.token {
        Some(token) => token.clone(),
        None => String::from_utf8(file("token")?).context("the token of the service account is no text")?,
    };
    let user = Entry { directory: surroundings.service_account.clone(), ..Entry::default() };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    Ok(Some(Access {
        server: format!("https://{host}:{port}"),
        authority: authority(args, || file("ca.crt").map(Some))?,
        server_name: args.tls_server_name.clone(),
        insecure: args.insecure_skip_tls_verify,
        proxy: None,
        credentials: Credentials::bearer(token.trim()),
        principal: principal(&user, args),
    }))
}

fn principal(user: &Entry, args: &AccessArgs) -> String {
    let mut hash = Sha256::new();
    // However the kubeconfig was named, its files are the same.
    let directory = if user.directory.as_os_str().is_empty() { Path::new(".") } else { &user.directory };
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    hash.update(directory.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(user.value.to_string());
    hash.update([0]);
    hash.update(args.token.as_deref().unwrap_or_default());
    hexadecimal(&hash.finalize())
}

pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn credentials(
    user: &Entry,
    cluster: &Entry,
    access: &Access,
    args: &AccessArgs,
) -> anyhow::Result<Credentials> {
    let Entry { value, directory } = user;
    let mut credentials = plain_credentials(value, directory, args)?;
    if credentials.is_none() {
        if let Some(plugin) = value.get("exec").filter(|plugin| !plugin.is_null()) {
            let impersonate = credentials.impersonate;
            credentials = exec::Plugin::read(plugin, directory)?.run(access, &cluster.value).await?;
            credentials.impersonate = impersonate;
        } else if value.get("auth-provider").is_some() {
            let hint = "sign in by an `exec` plugin, a token or a client certificate".to_owned();
            let message = "credentials by `auth-provider` are not supported".to_owned();
            return Err(Hinted { message, hint }.into());
        }
    }
    Ok(credentials)
}

/// Those that need no program to be run.
fn plain_credentials(user: &Value, directory: &Path, args: &AccessArgs) -> anyhow::Result<Credentials> {
    let mut credentials = Credentials { impersonate: impersonation(user)?, ..Credentials::default() };
    let bearer = |token: &str| Some(format!("Bearer {token}"));
    if let Some(token) = &args.token {
        credentials.authorization = bearer(token);
    } else if let Some(file) = string(user, "tokenFile") {
        let token =
            fs::read_to_string(directory.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        credentials.authorization = bearer(token.trim());
    } else if let Some(token) = string(user, "token") {
        credentials.authorization = bearer(token);
    } else if let (Some(user), Some(password)) = (string(user, "username"), string(user, "password")) {
        credentials.authorization = Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))));
    }
    let chain = content(user, "client-certificate", directory)?;
    let key = content(user, "client-key", directory)?;
    credentials.certificate = match (chain, key) {
        (Some(chain), Some(key)) => Some(Certificate { chain, key }),
        (None, None) => None,
        _ => return Err(anyhow!("a client certificate needs its key, and a key its certificate")),
    };
    Ok(credentials)
}

/// Whom the user asks to be taken for.
fn impersonation(user: &Value) -> anyhow::Result<Vec<(&'static str, String)>> {
    if user.get("as-user-extra").is_some_and(|extra| !extra.is_null()) {
        return Err(anyhow!("`as-user-extra` is not supported"));
    }
    let one = |key, header| string(user, key).map(|value| (header, value.to_owned()));
    let groups = user.get("as-groups").and_then(Value::as_array).into_iter().flatten();
    let groups = groups.filter_map(Value::as_str).map(|group| ("impersonate-group", group.to_owned()));
    let named = one("as", "impersonate-user").into_iter().chain(one("as-uid", "impersonate-uid"));
    Ok(named.chain(groups).collect())
}

/// `KEY-data` in base64, or the file that `KEY` names.
fn content(json: &Value, key: &str, directory: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(data) = string(json, &format!("{key}-data")) {
        let data: String = data.split_whitespace().collect();
        return Ok(Some(STANDARD.decode(data).with_context(|| format!("`{key}-data` is no base64"))?));
    }
    let Some(file) = string(json, key) else { return Ok(None) };
    let path: PathBuf = directory.join(file);
    fs::read(&path).map(Some).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Empty is as good as absent.
fn string<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The name of the context, its cluster and its user, unless another is asked for.
pub const DEFAULT_CONTEXT: &str = "sternpost";

/// The way in for the admin of this server.
#[derive(Debug, Clone)]
pub struct Admin<'a> {
    /// Of cluster, user and context.
    pub name: &'a str,
    /// A URL.
    pub server: &'a str,
    /// PEM.
    pub trusted: &'a str,
    pub token: &'a Token,
    /// The context that was current before; empty for none.
    pub previous: String,
}

impl Admin<'_> {
    /// YAML with everything embedded, so that the file works wherever it is moved.
    /// Strings are JSON strings, which YAML reads as they are.
    pub fn text(&self) -> String {
        let json = |text: &str| Value::from(text).to_string();
        let authority = STANDARD.encode(self.trusted);
        let (name, server, token) = (json(self.name), json(self.server), json(self.token.reveal()));
        let previous = json(&self.previous);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {name}
  user:
    token: {token}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
    extensions:
    - name: sternpost
      extension:
        previous-context: {previous}
current-context: {name}
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the texts of files say together, which stand in `/one`, `/two` and so on.
    async fn access(texts: &[&str], args: &AccessArgs) -> anyhow::Result<Access> {
        let mut config = Config::default();
        for (text, directory) in texts.iter().zip(["/one", "/two", "/three"]) {
            config.add(&sternpost_yaml::from_str(text).unwrap(), Path::new(directory));
        }
        config.access(args).await
    }

    #[tokio::test]
    async fn what_is_written_reads_back() {
        let token = Token::parse("s3cret").unwrap();
        let previous = String::new();
        let admin =
            Admin { name: "a: b", server: "https://[::1]:6443", trusted: "CA", token: &token, previous };
        let text = admin.text();
        let found = access(&[&text], &AccessArgs::default()).await.unwrap();
        let expected = Access {
            server: "https://[::1]:6443".into(),
            authority: Some(b"CA".to_vec()),
            server_name: None,
            insecure: false,
            proxy: None,
            credentials: Credentials::bearer("s3cret"),
            principal: found.principal.clone(),
        };
        assert_eq!(found, expected);
        assert!(!format!("{found:?}").contains("s3cret"), "secrets are not shown");
    }

    #[test]
    fn ways_to_sign_in() {
        let certificate = Some(Certificate { chain: b"a".to_vec(), key: b"b".to_vec() });
        let basic = Credentials { authorization: Some("Basic dTpw".into()), ..Credentials::default() };
        for (user, expected) in [
            ("{}", Ok(Credentials::default())),
            (
                "{token: t, client-certificate-data: YQ==, client-key-data: Yg==}",
                Ok(Credentials { certificate: certificate.clone(), ..Credentials::bearer("t") }),
            ),
            (
                "{client-certificate-data: YQ==, client-key-data: Yg==}",
                Ok(Credentials { certificate, ..Credentials::default() }),
            ),
            ("{username: u, password: p}", Ok(basic)),
            (
                "{token: t, as: jane, as-groups: [a, b], as-uid: '7'}",
                Ok(Credentials {
                    impersonate: vec![
                        ("impersonate-user", "jane".into()),
                        ("impersonate-uid", "7".into()),
                        ("impersonate-group", "a".into()),
                        ("impersonate-group", "b".into()),
                    ],
                    ..Credentials::bearer("t")
                }),
            ),
            (
                "{client-certificate-data: YQ==}",
                Err("a client certificate needs its key, and a key its certificate"),
            ),
            (
                "{client-certificate-data: '*', client-key-data: Yg==}",
                Err("`client-certificate-data` is no base64"),
            ),
            ("{tokenFile: no/such}", Err("cannot read `no/such`")),
        ] {
            let user = sternpost_yaml::from_str(user).unwrap();
            let found = plain_credentials(&user, Path::new("/nowhere"), &AccessArgs::default());
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(ToOwned::to_owned), "{user}");
        }
    }

    #[tokio::test]
    async fn contexts_that_lead_nowhere_are_told() {
        let config = "contexts:\n- {name: a, context: {cluster: c, user: u}}\n- {name: b, context: {}}\n\
                      - {name: d, context: {cluster: d}}\nclusters:\n- {name: d, cluster: {proxy-url: p}}\n";
        for (context, expected) in [
            (None, "no context is current"),
            (Some("x"), "there is no context `x`"),
            (Some("a"), "there is no cluster `c`"),
            (Some("b"), "the context names no cluster"),
            (Some("d"), "the cluster names no server"),
        ] {
            let args = AccessArgs { context: context.map(Into::into), ..AccessArgs::default() };
            assert_eq!(access(&[config], &args).await.unwrap_err().to_string(), expected);
        }
    }

    #[tokio::test]
    async fn of_several_files_what_is_said_first_counts() {
        let one = "current-context: a\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\n\
                   users:\n- {name: v, user: {token: first}}\n";
        let two = "current-context: b\ncontexts:\n- {name: a, context: {cluster: x}}\n\
                   - {name: b, context: {cluster: c, user: v}}\n\
                   clusters:\n- {name: c, cluster: {server: 'https://s', certificate-authority: ca}}\n\
                   users:\n- {name: u, user: {token: t}}\n- {name: v, user: {token: second}}\n";
        let without_authority = two.replace(", certificate-authority: ca", "");
        let found = access(&[one, &without_authority], &AccessArgs::default()).await.unwrap();
        assert_eq!(found.credentials, Credentials::bearer("t"));
        let other = AccessArgs { context: Some("b".into()), ..AccessArgs::default() };
        let other = access(&[one, &without_authority], &other).await.unwrap();
        assert_eq!(other.credentials, Credentials::bearer("first"));
        assert_ne!(found.principal, other.principal);
        // Files are named relative to the file that names them.
        let error = access(&[one, two], &AccessArgs::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read `/two/ca`");
    }

    #[tokio::test]
    async fn the_command_line_wins() {
        let config = "current-context: a\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\n\
                      clusters:\n- {name: c, cluster: {server: 'https://s', tls-server-name: name, \
                      proxy-url: 'http://p:1', certificate-authority-data: Q0E=}}\n\
                      - {name: d, cluster: {server: 'https://d', insecure-skip-tls-verify: true}}\n\
                      users:\n- {name: u, user: {token: t}}\n- {name: v, user: {username: v, password: p}}\n";
        let plain = access(&[config], &AccessArgs::default()).await.unwrap();
        assert_eq!(plain.server_name.as_deref(), Some("name"));
        assert_eq!(plain.proxy.as_deref(), Some("http://p:1"));
        let server = AccessArgs {
            server: Some("https://other".into()),
            token: Some("mine".into()),
            insecure_skip_tls_verify: true,
            ..AccessArgs::default()
        };
        let found = access(&[config], &server).await.unwrap();
        assert_eq!(
            (found.server.as_str(), found.server_name, found.authority),
            ("https://other", None, None)
        );
        assert!(found.insecure);
        assert_eq!(found.credentials, Credentials::bearer("mine"));
        assert_ne!(found.principal, plain.principal);
        let parts = AccessArgs { cluster: Some("d".into()), user: Some("v".into()), ..AccessArgs::default() };
        let found = access(&[config], &parts).await.unwrap();
        assert_eq!((found.server.as_str(), found.insecure), ("https://d", true));
        assert_eq!(found.credentials.authorization.as_deref(), Some("Basic djpw"));
    }

    #[tokio::test]
    async fn any_server_and_an_authority_exclude_each_other() {
        let config = "current-context: a\ncontexts:\n- {name: a, context: {cluster: c}}\n\
                      clusters:\n- {name: c, cluster: {server: 'https://s', insecure-skip-tls-verify: true, \
                      certificate-authority-data: Q0E=}}\n";
        let error = access(&[config], &AccessArgs::default()).await.unwrap_err().to_string();
        assert_eq!(error, "`insecure-skip-tls-verify` and a certificate authority exclude each other");
        // A flag says which it is.
        let any = AccessArgs { insecure_skip_tls_verify: true, ..AccessArgs::default() };
        let any = access(&[config], &any).await.unwrap();
        assert_eq!((any.insecure, any.authority), (true, None));
        let file = tempfile::NamedTempFile::new().unwrap();
        let checked = AccessArgs { certificate_authority: Some(file.path().into()), ..AccessArgs::default() };
        let checked = access(&[config], &checked).await.unwrap();
        assert_eq!((checked.insecure, checked.authority), (false, Some(Vec::new())));
    }

    #[tokio::test]
    async fn without_files_there_is_the_pod_or_the_flag() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = Surroundings { home: Some(directory.path().into()), ..Surroundings::default() };
        let error = find(&AccessArgs::default(), &nowhere).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no kubeconfig");
        let named = AccessArgs { kubeconfig: Some("/no/such".into()), ..AccessArgs::default() };
        let error = find(&named, &nowhere).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read `/no/such`: "), "{error}");
        let server = AccessArgs { server: Some("https://s".into()), ..AccessArgs::default() };
        assert_eq!(find(&server, &nowhere).await.unwrap().server, "https://s");
        fs::write(directory.path().join("token"), "pod\n").unwrap();
        fs::write(directory.path().join("ca.crt"), "CA").unwrap();
        let pod = Surroundings {
            service: Some(("fd00::1".into(), "443".into())),
            service_account: directory.path().into(),
            ..Surroundings::default()
        };
        let found = find(&AccessArgs::default(), &pod).await.unwrap();
        assert_eq!(found.server, "https://[fd00::1]:443");
        assert_eq!(found.credentials, Credentials::bearer("pod"));
        assert_eq!(found.authority.as_deref(), Some(&b"CA"[..]));
        // In a pod, too, the command line wins.
        let other = directory.path().join("other.crt");
        fs::write(&other, "OTHER").unwrap();
        let flags = AccessArgs {
            token: Some("mine".into()),
            certificate_authority: Some(other),
            tls_server_name: Some("name".into()),
            ..AccessArgs::default()
        };
        let other = find(&flags, &pod).await.unwrap();
        assert_eq!((&other.server, other.insecure), (&found.server, false));
        assert_eq!(other.credentials, Credentials::bearer("mine"));
        assert_eq!(other.authority.as_deref(), Some(&b"OTHER"[..]));
        assert_eq!(other.server_name.as_deref(), Some("name"));
        assert_ne!(other.principal, found.principal, "they share no cache");
        let any = AccessArgs { insecure_skip_tls_verify: true, ..AccessArgs::default() };
        let any = find(&any, &pod).await.unwrap();
        assert_eq!((any.insecure, any.authority), (true, None));
        let name = || Some("x".to_owned());
        for (args, expected) in [
            (AccessArgs { context: name(), ..AccessArgs::default() }, "context"),
            (AccessArgs { cluster: name(), ..AccessArgs::default() }, "cluster"),
            (AccessArgs { user: name(), ..AccessArgs::default() }, "user"),
        ] {
            let error = find(&args, &pod).await.unwrap_err().to_string();
            assert_eq!(error, format!("there is no kubeconfig, so no {expected} `x`"));
        }
        // A list skips what is not there.
        let file = directory.path().join("config");
        let token = Token::parse("t").unwrap();
        let admin = Admin {
            name: DEFAULT_CONTEXT,
            server: "https://x",
            trusted: "CA",
            token: &token,
            previous: String::new(),
        };
        fs::write(&file, admin.text()).unwrap();
        let list = std::env::join_paths([Path::new("/no/such"), &file]).unwrap();
        let listed = Surroundings { kubeconfig: Some(list), ..pod };
        assert_eq!(find(&AccessArgs::default(), &listed).await.unwrap().server, "https://x");
    }

    #[test]
    fn everything_is_embedded() {
        let token = Token::parse("s3cret").unwrap();
        let previous = String::new();
        let admin =
            Admin { name: "a: b", server: "https://[::1]:6443", trusted: "CA", token: &token, previous };
        let text = admin.text();
        for line in [
            "    server: \"https://[::1]:6443\"",
            "    certificate-authority-data: Q0E=",
            "    token: \"s3cret\"",
            "current-context: \"a: b\"",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
}
