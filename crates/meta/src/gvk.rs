//! Group, version and kind: how the API names its types.

use std::{cmp::Ordering, fmt, sync::Arc};

/// An `apiVersion` with too many slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnexpectedGroupVersion(String);

impl fmt::Display for UnexpectedGroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected GroupVersion string: {}", self.0)
    }
}

impl std::error::Error for UnexpectedGroupVersion {}

/// `apps/v1`; the core group is the empty group and prints as `v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: Arc<str>,
    pub version: Arc<str>,
}

impl GroupVersion {
    pub fn new(group: impl Into<Arc<str>>, version: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`: `v1` or `apps/v1`.
    pub fn parse(api_version: &str) -> Self {
        let (group, version) = Self::split(api_version);
        Self::new(group, version)
    }

    /// Group and version of an `apiVersion`: without a slash all of it is the version.
    pub fn split(api_version: &str) -> (&str, &str) {
        api_version.split_once('/').unwrap_or(("", api_version))
    }

    /// Reads the `apiVersion` that somebody wrote: nothing and a mere slash are no version, and
    /// the core group may be written as what it is, as in `/v1`.
    pub fn read(api_version: &str) -> Result<Option<Self>, UnexpectedGroupVersion> {
        match api_version {
            "" | "/" => Ok(None),
            text if text.matches('/').count() > 1 => Err(UnexpectedGroupVersion(text.to_owned())),
            text => Ok(Some(Self::parse(text))),
        }
    }

    /// The path prefix, without a leading slash, under which this
    /// group-version is served: `api/v1` or `apis/apps/v1`.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("api/{}", self.version)
        } else {
            format!("apis/{}/{}", self.group, self.version)
        }
    }

    pub fn kind(&self, kind: impl Into<Arc<str>>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupVersionKind {
    pub fn new(group: impl Into<Arc<str>>, version: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }
}

/// Orders versions as Kubernetes prefers them, best first: `v2`, `v1`,
/// `v1beta2`, `v1beta1`, `v1alpha1`, then everything else by name.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (Rank::of(a), Rank::of(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    stability: Stability,
    major: u64,
    minor: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

impl Rank {
    /// `None` for a version that is not of the form `vN`, `vNalphaM` or `vNbetaM`.
    fn of(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (major, rest) = rest.split_at_checked(digits)?;
        let (stability, minor) = if rest.is_empty() {
            (Stability::Stable, "0")
        } else if let Some(minor) = rest.strip_prefix("beta") {
            (Stability::Beta, minor)
        } else {
            (Stability::Alpha, rest.strip_prefix("alpha")?)
        };
        let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
        Some(Self { stability, major: number(major)?, minor: number(minor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_stable_first_then_beta_alpha_and_unknown() {
        let mut versions =
            ["foo1", "v1alpha1", "v3beta1", "v10", "v11beta2", "v2", "v1", "foo10", "v12alpha1", "v+1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10", "v+1"]
        );
    }

    #[test]
    fn group_version_reads_and_prints_both_forms() {
        for (text, path) in [("v1", "api/v1"), ("apps/v1", "apis/apps/v1")] {
            let gv = GroupVersion::parse(text);
            assert_eq!(gv.to_string(), text);
            assert_eq!(gv.path(), path);
        }
    }
}
