//! The server's certificate and the admin's token: made once, then kept.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use sternpost_auth::{
    certificate::{Authority, CertificateError, RENEW_BEFORE, Serving, SubjectAltName},
    client_certificate::ClientAuthority,
    token::Token,
};

use crate::{
    data_dir::{DataDir, write_private},
    error::Hinted,
};

#[derive(Debug)]
pub struct Credentials {
    pub token: Token,
    pub serving: Serving,
    /// What clients must trust, in PEM.
    pub trusted: String,
}

/// The shortest admin token that is accepted from somebody else, in characters. Those that are made
/// here have 256 bits.
pub const MIN_ADMIN_TOKEN: usize = 16;

/// Which admin token in the data directory is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRule {
    /// One that cannot be guessed.
    Strong,
    Any,
}

/// New ones, for a server that keeps nothing.
pub fn in_memory(names: &[SubjectAltName], now: SystemTime) -> anyhow::Result<Credentials> {
    let authority = Authority::make(now)?;
    let serving = authority.sign_serving(names, now)?;
    Ok(Credentials { token: Token::generate(), serving, trusted: authority.certificate().into() })
}

/// Those in the data directory. What is missing, damaged, about to expire or
/// without one of these names is made anew.
pub fn in_dir(
    dir: &DataDir,
    rule: TokenRule,
    names: &[SubjectAltName],
    now: SystemTime,
) -> anyhow::Result<Credentials> {
    let token = kept_token(dir, rule)?;
    let authority = kept_authority(dir, now)?;
    if let Some(serving) = kept_serving(dir)?
        && is_good(&authority, &serving, names, now, RENEW_BEFORE)
    {
        return Ok(Credentials { token, serving, trusted: authority.certificate().into() });
    }
    let mut authority = authority;
    let mut serving = authority.sign_serving(names, now)?;
    if !is_good(&authority, &serving, names, now, Duration::ZERO) {
        tracing::warn!("the certificate authority's key is not that of its certificate; making a new one");
        authority = new_authority(dir, now)?;
        serving = authority.sign_serving(names, now)?;
    }
    write_private(&dir.file(SERVING_KEY), &serving.key)?;
    write_private(&dir.file(SERVING_CERTIFICATE), &serving.chain)?;
    Ok(Credentials { token, serving, trusted: authority.certificate().into() })
}

/// A certificate of the user's. Clients must trust its chain.
pub fn serving_from_files(certificate: &Path, key: &Path) -> anyhow::Result<Serving> {
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()));
    let serving = Serving { chain: read(certificate)?, key: read(key)? };
    serving
        .server_config(&[])
        .with_context(|| format!("cannot use `{}` with `{}`", certificate.display(), key.display()))?;
    Ok(serving)
}

/// The authorities whose client certificates name users.
pub fn client_authority(path: &Path) -> anyhow::Result<ClientAuthority> {
    let text = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    ClientAuthority::from_pem(&text).with_context(|| format!("cannot use `{}`", path.display()))
}

const TOKEN: &str = "admin.token";
const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const SERVING_CERTIFICATE: &str = "serving.crt";
const SERVING_KEY: &str = "serving.key";

fn kept_token(dir: &DataDir, rule: TokenRule) -> anyhow::Result<Token> {
    if let Some(text) = read(&dir.file(TOKEN))? {
        match Token::parse(text.trim_end()) {
            Ok(token) if rule == TokenRule::Strong && token.reveal().len() < MIN_ADMIN_TOKEN => {
                let message = format!(
                    "the admin token in `{}` has {} characters, of at least {MIN_ADMIN_TOKEN}",
                    dir.file(TOKEN).display(),
                    token.reveal().len()
                );
                let hint = "remove the file to have one made, or say --insecure-file-modes".to_owned();
                return Err(Hinted { message, hint }.into());
            }
            Ok(token) => return Ok(token),
            Err(error) => tracing::warn!(%error, "the admin token is damaged; making a new one"),
        }
    }
    let token = Token::generate();
    write_private(&dir.file(TOKEN), token.reveal())?;
    Ok(token)
}

fn kept_authority(dir: &DataDir, now: SystemTime) -> anyhow::Result<Authority> {
    if let (Some(certificate), Some(key)) = (read(&dir.file(CA_CERTIFICATE))?, read(&dir.file(CA_KEY))?) {
        match Authority::from_pem(certificate, key) {
            Ok(authority) => return Ok(authority),
            Err(error) => tracing::warn!(%error, "the certificate authority is damaged; making a new one"),
        }
    }
    new_authority(dir, now)
}

fn new_authority(dir: &DataDir, now: SystemTime) -> anyhow::Result<Authority> {
    let authority = Authority::make(now)?;
    write_private(&dir.file(CA_KEY), authority.reveal_key())?;
    write_private(&dir.file(CA_CERTIFICATE), authority.certificate())?;
    Ok(authority)
}

fn kept_serving(dir: &DataDir) -> anyhow::Result<Option<Serving>> {
    let (chain, key) = (read(&dir.file(SERVING_CERTIFICATE))?, read(&dir.file(SERVING_KEY))?);
    Ok(chain.zip(key).map(|(chain, key)| Serving { chain, key }))
}

/// Whether clients accept it now, and still will after `margin`.
fn is_good(
    authority: &Authority,
    serving: &Serving,
    names: &[SubjectAltName],
    now: SystemTime,
    margin: Duration,
) -> bool {
    let verdict: Result<(), CertificateError> = authority
        .vouches_for(serving, names, now)
        .and_then(|()| authority.vouches_for(serving, names, now + margin));
    if let Err(error) = &verdict {
        tracing::info!(%error, "the serving certificate is to be made anew");
    }
    verdict.is_ok()
}

/// `None` if there is no such file, or one that is not text.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        path::PathBuf,
    };

    use super::*;

    const LOCAL: &[SubjectAltName] = &[SubjectAltName::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    fn with_dir(name: &str, test: impl FnOnce(&DataDir)) {
        let path: PathBuf =
            std::env::temp_dir().join(format!("sternpost-credentials-{name}-{}", std::process::id()));
        test(&DataDir::open(&path).unwrap());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn credentials_survive_a_restart() {
        with_dir("restart", |dir| {
            let (a, b) = (
                in_dir(dir, TokenRule::Strong, LOCAL, now()).unwrap(),
                in_dir(dir, TokenRule::Strong, LOCAL, now() + DAY).unwrap(),
            );
            assert_eq!(a.token.reveal(), b.token.reveal());
            assert_eq!(a.trusted, b.trusted);
            assert_eq!(a.serving.chain, b.serving.chain);
        });
    }

    #[test]
    fn only_what_is_unfit_is_made_anew() {
        let elsewhere = [SubjectAltName::Ip(Ipv4Addr::new(192, 0, 2, 7).into())];
        let named = ["api.example.com".parse().unwrap(), "*.example.com".parse().unwrap()];
        for (name, names, later, damaged, keeps_token, keeps_authority) in [
            ("address", &elsewhere[..], Duration::ZERO, &[][..], true, true),
            ("names", &named, Duration::ZERO, &[], true, true),
            ("expiry", LOCAL, DAY * (2 * 365 - 30), &[], true, true),
            ("serving", LOCAL, Duration::ZERO, &[SERVING_KEY], true, true),
            ("authority", LOCAL, Duration::ZERO, &[CA_CERTIFICATE], true, false),
            ("all", LOCAL, Duration::ZERO, &[TOKEN, CA_KEY, SERVING_CERTIFICATE], false, false),
        ] {
            with_dir(name, |dir| {
                let before = in_dir(dir, TokenRule::Strong, LOCAL, now()).unwrap();
                for file in damaged {
                    fs::write(dir.file(file), [0xff, b'\n']).unwrap();
                }
                let after = in_dir(dir, TokenRule::Strong, names, now() + later).unwrap();
                assert_eq!(before.token.reveal() == after.token.reveal(), keeps_token, "{name}");
                assert_eq!(before.trusted == after.trusted, keeps_authority, "{name}");
                assert_ne!(before.serving.chain, after.serving.chain, "{name}");
                // What was made is good, and kept.
                let again = in_dir(dir, TokenRule::Strong, names, now() + later).unwrap();
                assert_eq!(after.serving.chain, again.serving.chain, "{name}");
            });
        }
    }

    #[test]
    fn an_authority_whose_parts_do_not_match_is_replaced() {
        with_dir("mixed", |dir| {
            let before = in_dir(dir, TokenRule::Strong, LOCAL, now()).unwrap();
            let other = Authority::make(now()).unwrap();
            fs::write(dir.file(CA_KEY), other.reveal_key()).unwrap();
            fs::remove_file(dir.file(SERVING_CERTIFICATE)).unwrap();
            let after = in_dir(dir, TokenRule::Strong, LOCAL, now()).unwrap();
            assert_ne!(before.trusted, after.trusted);
            assert!(after.serving.server_config(&[]).is_ok());
        });
    }

    #[test]
    fn an_admin_token_that_can_be_guessed_is_refused() {
        with_dir("short", |dir| {
            for (token, strong) in [("a", false), ("0123456789abcde\n", false), ("0123456789abcdef\n", true)]
            {
                fs::write(dir.file(TOKEN), token).unwrap();
                let found = in_dir(dir, TokenRule::Strong, LOCAL, now());
                assert_eq!(found.is_ok(), strong, "{token}");
                if let Err(error) = found {
                    assert!(error.to_string().ends_with("characters, of at least 16"), "{error}");
                }
                let any = in_dir(dir, TokenRule::Any, LOCAL, now()).unwrap();
                assert_eq!(any.token.reveal(), token.trim_end());
            }
        });
    }
}
