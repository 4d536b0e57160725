//! Addresses of git repositories, as `resources` and `components` spell them:
//! `https://host/org/repo//path?ref=v1&timeout=30s&submodules=false`.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use sternpost_golang::duration;

use crate::files::Repository;

/// How long each git command may take if the address does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(27);

const FORCED: &str = "git::";
const FORCED_WARNING: &str = "Warning: Forcing the git protocol using the 'git::' URL prefix is not supported. Kustomize currently strips this invalid prefix, but will stop doing so in a future release. Please remove the 'git::' prefix from your configuration.";

const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];
const GITHUB: &str = "github.com";
const AZURE: &str = "_git/";

/// An address taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was written, by which repositories that lead to themselves show.
    pub(crate) raw: String,
    pub(crate) repository: Repository,
    /// Of the kustomization in the repository; empty for its root.
    pub(crate) path: PathBuf,
    pub(crate) warning: Option<&'static str>,
}

/// `None` for what is not an address of a repository; it may still be a path
/// or the address of a file.
pub(crate) fn parse(raw: &str) -> Option<Address> {
    let (text, warning) = match raw.strip_prefix(FORCED) {
        Some(text) => (text, Some(FORCED_WARNING)),
        None => (raw, None),
    };
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let (host, path) = split_host(address)?;
    let local = host.starts_with("file://");
    let (repository, path) = split_path(path, local)?;
    let (repository, path) = (repository.trim_end_matches('/'), path.trim_matches('/'));
    if repository.is_empty() || climbs(path) {
        return None;
    }
    let url = format!("{host}{repository}");
    let mut repository =
        Repository { url, reference: String::new(), submodules: true, timeout: DEFAULT_TIMEOUT };
    let mut version = "";
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "ref" => value.clone_into(&mut repository.reference),
            "version" => version = value,
            "timeout" => repository.timeout = timeout(value).unwrap_or(DEFAULT_TIMEOUT),
            "submodules" => {
                repository.submodules = !matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE");
            }
            _ => {}
        }
    }
    if repository.reference.is_empty() {
        version.clone_into(&mut repository.reference);
    }
    Some(Address { raw: raw.to_owned(), repository, path: PathBuf::from(path), warning })
}

/// The part up to the path, as git wants it, and the path.
fn split_host(address: &str) -> Option<(String, &str)> {
    let scheme = SCHEMES
        .iter()
        .find(|scheme| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let rest = address.get(scheme.map_or(0, |scheme| scheme.len())..)?;
    if scheme == Some(&"file://") {
        return Some(("file://".to_owned(), rest));
    }
    let (user, rest) = match rest.split_once('@') {
        Some((user, rest)) if !user.is_empty() && !user.contains('/') => (Some(user), rest),
        _ => (None, rest),
    };
    // `host/path`, `host:path` and, with a scheme, `host:port/path`.
    let end = match scheme {
        Some(_) => rest.find('/')?,
        None => rest.find(['/', ':'])?,
    };
    let (host, path) = rest.split_at_checked(end)?;
    let (separator, path) = path.split_at_checked(1)?;
    let name = host.split(':').next().unwrap_or(host);
    if name.eq_ignore_ascii_case(GITHUB) {
        let path = path.trim_start_matches('/');
        return Some(match (user, scheme) {
            (Some(user), _) => (format!("{user}@{GITHUB}:"), path),
            (None, Some(&"ssh://")) => (format!("git@{GITHUB}:"), path),
            _ => (format!("https://{GITHUB}/"), path),
        });
    }
    match (scheme, user) {
        (None, None) => None,
        (None, Some(user)) => Some((format!("{user}@{host}{separator}"), path)),
        (Some(scheme), None) => Some((format!("{scheme}{host}/"), path)),
        (Some(scheme), Some(user)) => Some((format!("{scheme}{user}@{host}/"), path)),
    }
}

fn split_path(path: &str, local: bool) -> Option<(&str, &str)> {
    if let Some(at) = path.find(AZURE) {
        let after = at + AZURE.len();
        let end = path.get(after..)?.find('/').map_or(path.len(), |end| after + end);
        return path.split_at_checked(end);
    }
    if let Some(at) = path.find("//") {
        return path.split_at_checked(at);
    }
    if let Some(at) = path.find(".git") {
        return path.split_at_checked(at + ".git".len());
    }
    if local {
        return Some((path, ""));
    }
    let second = path.find('/')? + 1;
    let rest = path.get(second..).filter(|rest| !rest.is_empty())?;
    let end = rest.find('/').map_or(path.len(), |end| second + end);
    path.split_at_checked(end)
}

fn climbs(path: &str) -> bool {
    let mut depth = 0_i32;
    Path::new(path).components().any(|component| {
        depth += match component {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

/// Whole seconds, or a duration such as `1m30s`.
fn timeout(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    let nanoseconds = u64::try_from(duration::parse(text).ok()?).ok()?;
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// As Go prints a duration.
pub(crate) fn go_duration(duration: Duration) -> String {
    duration::format(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, url: &str, path: &str, reference: &str) {
        let address = parse(raw).unwrap_or_else(|| panic!("{raw}"));
        let found = (address.repository.url, address.path, address.repository.reference);
        assert_eq!(found, (url.to_owned(), PathBuf::from(path), reference.to_owned()), "{raw}");
    }

    #[test]
    fn addresses_are_taken_apart() {
        check("https://github.com/org/repo", "https://github.com/org/repo", "", "");
        check(
            "https://github.com/org/repo/deep/path?ref=v1",
            "https://github.com/org/repo",
            "deep/path",
            "v1",
        );
        check("https://github.com/org/repo.git/a", "https://github.com/org/repo.git", "a", "");
        check("github.com/org/repo//a?version=v2", "https://github.com/org/repo", "a", "v2");
        check("github.com:org/repo", "https://github.com/org/repo", "", "");
        check("git@github.com:org/repo.git//a", "git@github.com:org/repo.git", "a", "");
        check("ssh://git@github.com/org/repo", "git@github.com:org/repo", "", "");
        check("https://gitlab.example.com/a/b/c//d?ref=x", "https://gitlab.example.com/a/b/c", "d", "x");
        check("https://dev.azure.com/o/p/_git/repo/path", "https://dev.azure.com/o/p/_git/repo", "path", "");
        check("git@host:a/b", "git@host:a/b", "", "");
        check("ssh://git@host:2222/a/b//c", "ssh://git@host:2222/a/b", "c", "");
        check("file:///srv/repo", "file:///srv/repo", "", "");
        check("file:///srv/repo//sub?ref=a&version=b", "file:///srv/repo", "sub", "a");
        check("git::https://github.com/a/b", "https://github.com/a/b", "", "");
    }

    #[test]
    fn other_texts_are_not_addresses() {
        for text in [
            "../base",
            "base",
            "github.com/only",
            "https://host/a.yaml",
            "git@host",
            "a/b/c",
            "file:///r//../../x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_query_says_how_long_and_how_much() {
        let of = |query: &str| parse(&format!("file:///r?{query}")).unwrap().repository;
        assert_eq!(of("timeout=10").timeout, Duration::from_secs(10));
        assert_eq!(of("timeout=1m30s").timeout, Duration::from_secs(90));
        assert_eq!(of("timeout=soon").timeout, DEFAULT_TIMEOUT);
        assert!(!of("submodules=false").submodules);
        assert!(of("submodules=maybe").submodules);
        assert_eq!(go_duration(DEFAULT_TIMEOUT), "27s");
        assert_eq!(go_duration(Duration::from_secs(90)), "1m30s");
    }
}
