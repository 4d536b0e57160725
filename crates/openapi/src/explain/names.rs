//! From what a person typed to a resource and a path of fields.

use std::sync::Arc;

use sternpost_golang::strconv::go_quote;
use sternpost_meta::gvk::{GroupVersion, GroupVersionKind};

/// The names of one resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub gv: GroupVersion,
    pub kind: Arc<str>,
    pub plural: Arc<str>,
    pub singular: Arc<str>,
    pub short_names: Vec<Arc<str>>,
}

impl Names {
    pub fn gvk(&self) -> GroupVersionKind {
        self.gv.kind(self.kind.clone())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedName {
    /// Which of the names given.
    pub index: usize,
    pub path: Vec<String>,
    /// Other resources that have the same short name, as `plural.group`.
    pub also: Vec<String>,
}

/// In kubectl's words, which scripts and people look for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    #[error("the server doesn't have a resource type {}", go_quote(.0))]
    NoResource(String),
    #[error("couldn't find resource for \"{gv}, Resource={plural}\"", gv = slashed(.0), plural = .1)]
    NoVersion(GroupVersion, Arc<str>),
    #[error("GVR ({gv}, Resource={plural}) not found in OpenAPI schema", gv = slashed(.0), plural = .1)]
    NotInVersion(GroupVersion, Arc<str>),
    #[error("unexpected GroupVersion string: {0}")]
    ApiVersion(String),
    #[error("invalid jsonpath syntax, first node must be field node")]
    Path,
}

/// Finds `deployments.spec.replicas` and its like among the names, which stand
/// in the order they are preferred in.
///
/// The resource is a plural, singular or kind in any case, or a short name,
/// and may go on with `.GROUP` or `.VERSION.GROUP`; a name that needs it,
/// `deployments.apps.spec`, is also read where kubectl stops.
pub fn find(names: &[Names], argument: &str, api_version: Option<&str>) -> Result<ResolvedName, FindError> {
    let words = words(argument)?;
    let (name, rest) = words.split_first().ok_or_else(|| FindError::NoResource(argument.to_owned()))?;
    let (index, group_words) = qualified(names, name, rest)
        .or_else(|| Some((names.iter().position(|names| is_called(names, name))?, 0)))
        .ok_or_else(|| FindError::NoResource(name.clone()))?;
    let path = rest.iter().skip(group_words).cloned().collect();
    let also = if group_words == 0 { also_called(names, name, index) } else { Vec::new() };
    let index = match api_version {
        Some(version) => in_version(names, index, version)?,
        None => index,
    };
    Ok(ResolvedName { index, path, also })
}

/// `a.b['c.d']` → `a`, `b`, `c.d`. Empty words are skipped, an index is refused.
fn words(argument: &str) -> Result<Vec<String>, FindError> {
    let mut words = Vec::new();
    let mut rest = argument.trim();
    if rest.starts_with('.') {
        return Err(FindError::Path);
    }
    while !rest.is_empty() {
        let word;
        if let Some(bracketed) = rest.strip_prefix('[') {
            let quoted = bracketed.strip_prefix('\'').and_then(|inner| inner.split_once("']"));
            (word, rest) = quoted.ok_or(FindError::Path)?;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            (word, rest) = rest.split_at(end);
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let word = word.trim();
        if !word.is_empty() {
            words.push(word.to_owned());
        }
    }
    Ok(words)
}

/// The resource of the longest `NAME.GROUP` or `NAME.VERSION.GROUP`, and how
/// many words that took after the name.
fn qualified(names: &[Names], name: &str, rest: &[String]) -> Option<(usize, usize)> {
    (1..=rest.len()).rev().find_map(|count| {
        let (words, _) = rest.split_at_checked(count)?;
        let (version, group) = words.split_first()?;
        let (whole, group) = (words.join("."), group.join("."));
        let index = names.iter().position(|names| {
            is_called(names, name)
                && (*names.gv.group == *whole
                    || (*names.gv.version == **version && *names.gv.group == *group))
        })?;
        Some((index, count))
    })
}

fn is_called(names: &Names, name: &str) -> bool {
    let any_case = |known: &str| known.eq_ignore_ascii_case(name);
    any_case(&names.plural)
        || any_case(&names.singular)
        || any_case(&names.kind)
        || has_short_name(names, name)
}

fn has_short_name(names: &Names, name: &str) -> bool {
    names.short_names.iter().any(|short| **short == *name)
}

fn also_called(names: &[Names], name: &str, index: usize) -> Vec<String> {
    let Some(chosen) = names.get(index).filter(|names| has_short_name(names, name)) else {
        return Vec::new();
    };
    let others =
        names.iter().filter(|other| other.gv.group != chosen.gv.group && has_short_name(other, name));
    let mut also: Vec<String> = others.map(|other| format!("{}.{}", other.plural, other.gv.group)).collect();
    also.dedup();
    also
}

/// The resource with the same plural in the version asked for.
fn in_version(names: &[Names], index: usize, api_version: &str) -> Result<usize, FindError> {
    if api_version.matches('/').count() > 1 {
        return Err(FindError::ApiVersion(api_version.to_owned()));
    }
    let gv = GroupVersion::parse(api_version);
    let plural = names.get(index).map(|names| names.plural.clone()).unwrap_or_default();
    let found = names.iter().position(|names| names.gv == gv && names.plural == plural);
    found.ok_or_else(|| {
        if names.iter().any(|names| names.gv == gv) {
            FindError::NotInVersion(gv, plural)
        } else {
            FindError::NoVersion(gv, plural)
        }
    })
}

/// As Go prints it: the core group has a slash too.
fn slashed(gv: &GroupVersion) -> String {
    format!("{}/{}", gv.group, gv.version)
}
