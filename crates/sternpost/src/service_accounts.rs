//! Keys of service-account tokens: read from files, or made once and kept.

use std::{fs, io, path::Path, path::PathBuf, sync::Arc};

use anyhow::Context;
use clap::{ArgAction, Args};
use sternpost_auth::{
    key::{SigningKey, VerifyingKey},
    service_account::{Objects, ServiceAccounts, Settings},
};
use sternpost_golang::duration;

use crate::{
    data_dir::{DataDir, write_private},
    error::Hinted,
};

/// The flags, which are kube-apiserver's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Service-account tokens")]
pub struct ServiceAccountArgs {
    /// Issuer named in service-account tokens; further ones are accepted too
    #[arg(long = "service-account-issuer", value_name = "URL", default_value = DEFAULT_ISSUER, value_parser = parse_issuer)]
    pub issuers: Vec<String>,

    /// Private key (PEM) to sign tokens with [default: one made in the data directory]
    #[arg(long = "service-account-signing-key-file", value_name = "FILE")]
    pub signing_key_file: Option<PathBuf>,

    /// Keys (PEM) whose tokens are accepted besides those of the signing key; may be repeated
    #[arg(long = "service-account-key-file", value_name = "FILE")]
    pub key_files: Vec<PathBuf>,

    /// What tokens call this server [default: the issuers]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub api_audiences: Vec<String>,

    /// Where others get the keys [default: /openid/v1/jwks on this server]
    #[arg(long = "service-account-jwks-uri", value_name = "URL", value_parser = parse_https)]
    pub jwks_uri: Option<String>,

    /// The longest lifetime of a token, such as 24h
    #[arg(long = "service-account-max-token-expiration", value_name = "DURATION", value_parser = parse_max)]
    pub max_token_expiration: Option<i64>,

    /// Whether tokens that kubelets ask for are accepted for a year
    #[arg(long = "service-account-extend-token-expiration", value_name = "BOOL", action = ArgAction::Set,
        default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub extend_token_expiration: bool,
}

/// What clients in a cluster call the API server.
const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

/// In the data directory.
const KEY: &str = "service-account.key";

/// Builds the issuer of tokens. Without a data directory its key ends with the
/// process, and with it every token.
pub fn open(
    args: &ServiceAccountArgs,
    dir: Option<&DataDir>,
    objects: Arc<dyn Objects>,
) -> anyhow::Result<ServiceAccounts> {
    let signer = match (&args.signing_key_file, dir) {
        (Some(path), _) => {
            warn_if_open(path);
            SigningKey::from_pem(&read(path)?).with_context(|| format!("cannot use `{}`", path.display()))?
        }
        (None, Some(dir)) => kept(&dir.file(KEY))?,
        (None, None) => SigningKey::generate()?.0,
    };
    let mut others = Vec::new();
    for path in &args.key_files {
        let keys = VerifyingKey::from_pem(&read(path)?);
        others.extend(keys.with_context(|| format!("cannot use `{}`", path.display()))?);
    }
    let settings = Settings {
        issuers: args.issuers.clone(),
        audiences: args.api_audiences.clone(),
        jwks_uri: args.jwks_uri.clone(),
        max_seconds: args.max_token_expiration,
        extend: args.extend_token_expiration,
    };
    let accounts = ServiceAccounts::new(settings, signer, others, objects);
    if accounts.configuration("").is_none() {
        tracing::warn!("the issuer of service-account tokens is no https URL: others cannot check tokens");
    }
    Ok(accounts)
}

/// The key in the data directory, or a new one.
fn kept(path: &Path) -> anyhow::Result<SigningKey> {
    match fs::read(path) {
        Ok(text) => {
            // Whoever else could read it could have made tokens of its own.
            if is_open(path) {
                return Err(Hinted {
                    message: format!("`{}` can be read by others", path.display()),
                    hint: "delete it to have a new key made, which ends all tokens, or make it private with chmod 600"
                        .into(),
                }
                .into());
            }
            match SigningKey::from_pem(&text) {
                Ok(key) => return Ok(key),
                Err(error) => {
                    tracing::warn!(%error, "the key of service-account tokens is damaged; making a new one");
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
    let (key, text) = SigningKey::generate()?;
    write_private(path, &text)?;
    Ok(key)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Files that are mounted into a container often are open, and harmless there.
fn warn_if_open(path: &Path) {
    if is_open(path) {
        tracing::warn!(path = %path.display(), "a private key can be read by others");
    }
}

#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    false
}

fn parse_issuer(text: &str) -> Result<String, String> {
    let usable = !text.is_empty() && !text.chars().any(|char| char.is_whitespace() || char.is_control());
    if usable { Ok(text.to_owned()) } else { Err("want a name without spaces, best an https URL".into()) }
}

fn parse_https(text: &str) -> Result<String, String> {
    if text.starts_with("https://") { parse_issuer(text) } else { Err("want an https URL".into()) }
}

/// As upstream: from an hour to 2^32 seconds.
const MAX_EXPIRATION: std::ops::RangeInclusive<i64> = 3600..=1 << 32;

fn parse_max(text: &str) -> Result<i64, String> {
    let seconds = parse_seconds(text).ok_or("want a duration such as 24h or 1h30m")?;
    if MAX_EXPIRATION.contains(&seconds) {
        Ok(seconds)
    } else {
        Err("want 1h at least, and 2^32 seconds at most".into())
    }
}

/// The whole seconds of a duration as Go writes it.
pub fn parse_seconds(text: &str) -> Option<i64> {
    duration::parse(text).ok().map(|nanoseconds| nanoseconds / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read_as_go_writes_them_within_limits() {
        for (text, expected) in [
            ("1h", Some(3600)),
            ("1h30m", Some(5400)),
            ("59m60s", Some(3600)),
            ("4294967296s", Some(1 << 32)),
            ("4294967297s", None),
            ("3599s", None),
            ("", None),
            ("24", None),
            ("h", None),
            ("-2h", None),
            ("1d", None),
            ("2hé", None),
            ("99999999999999999999h", None),
            ("9223372036854775807h", None),
        ] {
            assert_eq!(parse_max(text).ok(), expected, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_kept_key_is_private_stays_and_is_refused_when_open() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("sternpost-sa-key-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(KEY);
        let made = kept(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(kept(&path).unwrap().public().id(), made.public().id());
        for (mode, good) in [(0o640, false), (0o604, false), (0o400, true), (0o600, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(kept(&path).is_ok(), good, "{mode:o}");
        }
        fs::write(&path, "damaged").unwrap();
        assert_ne!(kept(&path).unwrap().public().id(), made.public().id());
        fs::remove_dir_all(dir).unwrap();
    }
}
