//! Who is believed beyond this server's own tokens: other issuers, front
//! proxies, and callers without a credential.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{ArgAction, Args};
use sternpost_auth::{
    authenticate::Authenticator,
    key::Algorithm,
    oidc::settings::{Anonymous, LegacyFlags, Settings},
    request_header::{FrontProxies, HeaderNames},
};

use crate::{
    config_file::{self, Source},
    credentials,
};

/// The flags, which are kube-apiserver's.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authentication")]
pub struct AuthenticationArgs {
    /// AuthenticationConfiguration (YAML): issuers of tokens, and what becomes of callers without a
    /// credential; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub authentication_config: Option<PathBuf>,

    /// Whether callers without a credential are `system:anonymous`, or refused [default: true]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub anonymous_auth: Option<bool>,

    /// URL of an OpenID Connect issuer whose tokens are accepted
    #[arg(long, value_name = "URL", requires = "oidc_client_id", conflicts_with = "authentication_config")]
    pub oidc_issuer_url: Option<String>,

    /// The audience that tokens of that issuer must be for
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    pub oidc_client_id: Option<String>,

    /// The claim that names the user
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    pub oidc_username_claim: String,

    /// What user names begin with; `-` for nothing [default: the issuer's URL and `#`, but for emails]
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub oidc_username_prefix: String,

    /// The claim that names the user's groups
    #[arg(long, value_name = "CLAIM", default_value = "", hide_default_value = true)]
    pub oidc_groups_claim: String,

    /// What names of groups begin with
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub oidc_groups_prefix: String,

    /// A claim that must have this value; may be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_delimiter = ',', value_parser = parse_claim)]
    pub oidc_required_claim: Vec<(String, String)>,

    /// Certificates (PEM) of the authorities that vouch for the issuer [default: those of the machine]
    #[arg(long, value_name = "FILE")]
    pub oidc_ca_file: Option<PathBuf>,

    /// How tokens may be signed
    #[arg(long, value_name = "ALGORITHM", value_delimiter = ',', default_value = "RS256", value_parser = parse_algorithm)]
    pub oidc_signing_algs: Vec<Algorithm>,

    /// Certificates (PEM) of the authorities that vouch for front proxies
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,

    /// Common names of front proxies; any, if none is given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,

    /// Headers in which front proxies name the user, such as X-Remote-User
    #[arg(long, value_name = "HEADER", value_delimiter = ',', value_parser = parse_header)]
    pub requestheader_username_headers: Vec<String>,

    /// Headers for the user's UID, such as X-Remote-Uid
    #[arg(long, value_name = "HEADER", value_delimiter = ',', value_parser = parse_header)]
    pub requestheader_uid_headers: Vec<String>,

    /// Headers for the user's groups, such as X-Remote-Group
    #[arg(long, value_name = "HEADER", value_delimiter = ',', value_parser = parse_header)]
    pub requestheader_group_headers: Vec<String>,

    /// What names of headers for the user's extra fields begin with, such as X-Remote-Extra-
    #[arg(long, value_name = "PREFIX", value_delimiter = ',', value_parser = parse_header)]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

/// Reads the flags, and the file if there is one. `own` are the issuers of
/// service-account tokens.
pub fn apply(args: &AuthenticationArgs, own: &[String], authenticator: &Authenticator) -> anyhow::Result<()> {
    if let Some(enabled) = args.anonymous_auth {
        authenticator.set_anonymous(if enabled { Anonymous::Everywhere } else { Anonymous::Nowhere });
    }
    if let Some(path) = &args.authentication_config {
        return apply_file(args, path, own, authenticator);
    }
    if let (Some(issuer_url), Some(client_id)) = (&args.oidc_issuer_url, &args.oidc_client_id) {
        let flags = LegacyFlags {
            issuer_url: issuer_url.clone(),
            client_id: client_id.clone(),
            username_claim: args.oidc_username_claim.clone(),
            username_prefix: args.oidc_username_prefix.clone(),
            groups_claim: args.oidc_groups_claim.clone(),
            groups_prefix: args.oidc_groups_prefix.clone(),
            required_claims: args.oidc_required_claim.clone(),
            authority: args.oidc_ca_file.as_deref().map(config_file::read).transpose()?,
            algorithms: args.oidc_signing_algs.clone(),
        };
        authenticator.set_issuers(Settings::of_flags(&flags, own).context("cannot use the --oidc- flags")?);
    }
    Ok(())
}

/// Reads the file. On an error nothing has changed.
pub fn apply_file(
    args: &AuthenticationArgs,
    path: &Path,
    own: &[String],
    authenticator: &Authenticator,
) -> anyhow::Result<()> {
    let settings = settings(path, own)?;
    if settings.anonymous.is_some() && args.anonymous_auth.is_some() {
        return Err(anyhow!(
            "`{}` has a field `anonymous`, so that the flag --anonymous-auth cannot be set",
            path.display()
        ));
    }
    if args.anonymous_auth.is_none() {
        authenticator.set_anonymous(settings.anonymous.clone().unwrap_or_default());
    }
    authenticator.set_issuers(settings);
    Ok(())
}

/// Who is believed to be a front proxy, if anybody.
pub fn front_proxies(args: &AuthenticationArgs) -> anyhow::Result<Option<FrontProxies>> {
    let Some(path) = &args.requestheader_client_ca_file else { return Ok(None) };
    Ok(Some(FrontProxies {
        authority: credentials::client_authority(path)?,
        allowed_names: args.requestheader_allowed_names.clone(),
        headers: HeaderNames {
            username: args.requestheader_username_headers.clone(),
            uid: args.requestheader_uid_headers.clone(),
            group: args.requestheader_group_headers.clone(),
            extra_prefix: args.requestheader_extra_headers_prefix.clone(),
        },
    }))
}

fn settings(path: &Path, own: &[String]) -> anyhow::Result<Settings> {
    let text = config_file::read(path)?;
    let file = config_file::parse(path, &text)?;
    let source = Source { path: path.to_owned(), text: &text, within: String::new() };
    Settings::read(&file, own).map_err(|error| source.refuse(error.0))
}

fn parse_claim(text: &str) -> Result<(String, String), String> {
    let (claim, value) = text.split_once('=').ok_or("want CLAIM=VALUE")?;
    Ok((claim.trim().to_owned(), value.to_owned()))
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    Algorithm::named(text).ok_or_else(|| format!("want one of {}", known()))
}

/// Names of headers have no case.
fn parse_header(text: &str) -> Result<String, String> {
    let name = text.trim().to_ascii_lowercase();
    let usable = !name.is_empty() && name.parse::<http::HeaderName>().is_ok();
    if usable { Ok(name) } else { Err("want the name of a header".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_with_their_place() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: http://a.example\n    audiences: [c]\n  claimMappings:\n    username:\n      claim: sub\n";
        let file = sternpost_yaml::from_str(text).unwrap();
        let error = Settings::read(&file, &[]).unwrap_err();
        let source = Source { path: "f.yaml".into(), text, within: String::new() };
        assert_eq!(
            source.refuse(error.0).to_string(),
            "f.yaml:5:5: jwt[0].issuer.url: Invalid value: \"http://a.example\": URL scheme must be https\n\
             f.yaml:8:5: jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        );
    }

    #[test]
    fn flags_are_read_as_kube_apiserver_reads_them() {
        assert_eq!(parse_claim("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_claim("a").is_err());
        for (name, good) in
            [("RS256", true), ("ES512", true), ("HS256", false), ("EdDSA", false), ("none", false)]
        {
            assert_eq!(parse_algorithm(name).is_ok(), good, "{name}");
        }
        assert_eq!(parse_header(" X-Remote-User"), Ok("x-remote-user".into()));
        for bad in ["", " ", "a b", "é"] {
            assert!(parse_header(bad).is_err(), "{bad:?}");
        }
    }
}
