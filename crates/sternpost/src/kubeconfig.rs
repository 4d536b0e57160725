//! Kubeconfigs: the admin's is written, a user's is read.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sternpost_auth::token::Token;

use crate::error::Hinted;

/// How to reach a server, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// A URL.
    pub server: String,
    /// PEM.
    pub authority: Option<Vec<u8>>,
    /// The name the server's certificate is for, if not the URL's host.
    pub server_name: Option<String>,
    /// Any server will do.
    pub insecure: bool,
    pub credentials: Credentials,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    None,
    Token(String),
    Password {
        user: String,
        password: String,
    },
    /// PEM.
    Certificate {
        chain: Vec<u8>,
        key: Vec<u8>,
    },
}

/// Secrets stay out of logs and messages.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Token(_) => "Token",
            Credentials::Password { .. } => "Password",
            Credentials::Certificate { .. } => "Certificate",
        })
    }
}

/// Reads what the file says of the context, or of the current one.
pub fn read(file: &Path, context: Option<&str>) -> anyhow::Result<Access> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    // Files that are named in it stand relative to it.
    let directory = file.parent().unwrap_or(Path::new(""));
    access(&text, directory, context).with_context(|| format!("`{}`", file.display()))
}

fn access(text: &str, directory: &Path, context: Option<&str>) -> anyhow::Result<Access> {
    let config = sternpost_yaml::from_str(text)?;
    let context = match context.or_else(|| string(&config, "current-context")) {
        Some(name) => named(&config, "contexts", "context", name)?,
        None => {
            let hint = "choose one with --context".to_owned();
            return Err(Hinted { message: "no context is current".to_owned(), hint }.into());
        }
    };
    let cluster = string(context, "cluster").context("the context names no cluster")?;
    let cluster = named(&config, "clusters", "cluster", cluster)?;
    let user = match string(context, "user") {
        Some(name) => named(&config, "users", "user", name)?,
        None => &Value::Null,
    };
    if cluster.get("proxy-url").is_some() {
        return Err(anyhow!("`proxy-url` is not supported"));
    }
    Ok(Access {
        server: string(cluster, "server").context("the cluster names no server")?.to_owned(),
        authority: content(cluster, "certificate-authority", directory)?,
        server_name: string(cluster, "tls-server-name").map(Into::into),
        insecure: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or_default(),
        credentials: credentials(user, directory)?,
    })
}

fn credentials(user: &Value, directory: &Path) -> anyhow::Result<Credentials> {
    if let Some(file) = string(user, "tokenFile") {
        let token =
            fs::read_to_string(directory.join(file)).with_context(|| format!("cannot read `{file}`"))?;
        return Ok(Credentials::Token(token.trim().to_owned()));
    }
    if let Some(token) = string(user, "token") {
        return Ok(Credentials::Token(token.to_owned()));
    }
    let chain = content(user, "client-certificate", directory)?;
    let key = content(user, "client-key", directory)?;
    match (chain, key) {
        (Some(chain), Some(key)) => return Ok(Credentials::Certificate { chain, key }),
        (None, None) => {}
        _ => return Err(anyhow!("a client certificate needs its key, and a key its certificate")),
    }
    if let (Some(user), Some(password)) = (string(user, "username"), string(user, "password")) {
        return Ok(Credentials::Password { user: user.to_owned(), password: password.to_owned() });
    }
    for way in ["exec", "auth-provider"] {
        if user.get(way).is_some() {
            return Err(anyhow!(
                "credentials by `{way}` are not supported; a token or a client certificate is"
            ));
        }
    }
    Ok(Credentials::None)
}

/// The member `what` of the entry of `list` that is called `name`.
fn named<'a>(config: &'a Value, list: &str, what: &str, name: &str) -> anyhow::Result<&'a Value> {
    let entries = config.get(list).and_then(Value::as_array);
    let entry = entries.into_iter().flatten().find(|entry| string(entry, "name") == Some(name));
    entry.and_then(|entry| entry.get(what)).ok_or_else(|| anyhow!("there is no {what} `{name}`"))
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

/// YAML with everything embedded, so that the file works wherever it is moved.
/// Strings are JSON strings, which YAML reads as they are.
pub fn admin(server: &str, trusted: &str, token: &Token) -> String {
    let authority = STANDARD.encode(trusted);
    let (server, token) = (format!("{server:?}"), format!("{:?}", token.reveal()));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: sternpost
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: sternpost-admin
  user:
    token: {token}
contexts:
- name: sternpost
  context:
    cluster: sternpost
    user: sternpost-admin
current-context: sternpost
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = admin("https://[::1]:6443", "CA", &Token::parse("s3cret").unwrap());
        let expected = Access {
            server: "https://[::1]:6443".into(),
            authority: Some(b"CA".to_vec()),
            server_name: None,
            insecure: false,
            credentials: Credentials::Token("s3cret".into()),
        };
        assert_eq!(access(&text, Path::new(""), None).unwrap(), expected);
        assert_eq!(format!("{:?}", expected.credentials), "Token");
    }

    #[test]
    fn ways_to_sign_in() {
        let password = Credentials::Password { user: "u".into(), password: "p".into() };
        for (user, expected) in [
            ("{}", Ok(Credentials::None)),
            ("{token: t, client-certificate-data: YQ==}", Ok(Credentials::Token("t".into()))),
            (
                "{client-certificate-data: YQ==, client-key-data: Yg==}",
                Ok(Credentials::Certificate { chain: b"a".to_vec(), key: b"b".to_vec() }),
            ),
            ("{username: u, password: p}", Ok(password)),
            (
                "{client-certificate-data: YQ==}",
                Err("a client certificate needs its key, and a key its certificate"),
            ),
            (
                "{client-certificate-data: '*', client-key-data: Yg==}",
                Err("`client-certificate-data` is no base64"),
            ),
            ("{tokenFile: no/such}", Err("cannot read `no/such`")),
            (
                "{exec: {command: x}}",
                Err("credentials by `exec` are not supported; a token or a client certificate is"),
            ),
        ] {
            let user = sternpost_yaml::from_str(user).unwrap();
            let found = credentials(&user, Path::new("/nowhere")).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(ToOwned::to_owned), "{user}");
        }
    }

    #[test]
    fn contexts_that_lead_nowhere_are_told() {
        let config = "contexts:\n- {name: a, context: {cluster: c, user: u}}\n- {name: b, context: {}}\n\
                      - {name: d, context: {cluster: d}}\nclusters:\n- {name: d, cluster: {proxy-url: p}}\n";
        for (context, expected) in [
            (None, "no context is current"),
            (Some("x"), "there is no context `x`"),
            (Some("a"), "there is no cluster `c`"),
            (Some("b"), "the context names no cluster"),
            (Some("d"), "`proxy-url` is not supported"),
        ] {
            assert_eq!(access(config, Path::new(""), context).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn everything_is_embedded() {
        let text = admin("https://[::1]:6443", "CA", &Token::parse("s3cret").unwrap());
        for line in [
            "    server: \"https://[::1]:6443\"",
            "    certificate-authority-data: Q0E=",
            "    token: \"s3cret\"",
            "current-context: sternpost",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
}
