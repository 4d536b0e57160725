//! Levels, their versions, and the labels that name them.

use std::fmt;

use sternpost_meta::field::{Errors, Path};

/// What pods may do, from everything to little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// As which minor version of Kubernetes a level is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(u32),
    /// Greater than any: what is not known yet means the newest rules.
    Latest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// What a namespace wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

impl Standard {
    /// Everything, and so by whichever version.
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    fn is_equivalent(&self, other: &Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }
}

impl Policy {
    pub(super) const PRIVILEGED: Self =
        Self { enforce: Standard::PRIVILEGED, audit: Standard::PRIVILEGED, warn: Standard::PRIVILEGED };

    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.enforce.is_equivalent(&other.enforce)
            && self.audit.is_equivalent(&other.audit)
            && self.warn.is_equivalent(&other.warn)
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged:",
            Level::Baseline => "baseline:",
            Level::Restricted => "restricted:",
        })?;
        match self.version {
            Version::Minor(minor) => write!(f, "v1.{minor}"),
            Version::Latest => f.write_str("latest"),
        }
    }
}

pub(super) const PREFIX: &str = "pod-security.kubernetes.io";

/// The labels that say level and version of a mode.
type Labels = (&'static str, &'static str);

const ENFORCE: Labels = ("pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version");
const AUDIT: Labels = ("pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version");
const WARN: Labels = ("pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version");

/// The policy by the labels of a namespace, and what is wrong with them; what they leave open is as
/// `defaults` say. A level that cannot be read is enforced as the strictest, and not warned about.
pub(super) fn read<'a>(label: impl Fn(&str) -> Option<&'a str>, defaults: &Policy) -> (Policy, Errors) {
    let mut errors = Errors::default();
    let mut mode = |(level_label, version_label): Labels| {
        let of_level = read_label(level_label, label(level_label), level, LEVELS, &mut errors);
        let of_version = read_label(version_label, label(version_label), version, VERSIONS, &mut errors);
        (of_level, of_version)
    };
    let (enforce_level, enforce_version) = mode(ENFORCE);
    let (audit_level, audit_version) = mode(AUDIT);
    let (warn_level, warn_version) = mode(WARN);

    let enforce = Standard {
        level: enforce_level.map_or(defaults.enforce.level, |level| level.unwrap_or(Level::Restricted)),
        version: known(enforce_version).unwrap_or(defaults.enforce.version),
    };
    let audit = Standard {
        level: audit_level.map_or(defaults.audit.level, |level| level.unwrap_or(Level::Privileged)),
        version: known(audit_version).unwrap_or(defaults.audit.version),
    };
    let mut warn = Standard {
        level: warn_level.map_or(defaults.warn.level, |level| level.unwrap_or(Level::Privileged)),
        version: known(warn_version).unwrap_or(defaults.warn.version),
    };
    // Who enforces more and says nothing of warnings is warned by what is enforced.
    if warn_level.is_none() && enforce_level.flatten().is_some_and(|level| level > warn.level) {
        warn = Standard { level: enforce.level, version: known(warn_version).unwrap_or(enforce.version) };
    }
    (Policy { enforce, audit, warn }, errors)
}

pub(super) const LEVELS: &str = "must be one of privileged, baseline, restricted";
pub(super) const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

/// `None` without the label, `Some(None)` if it cannot be read.
fn read_label<T>(
    key: &str,
    text: Option<&str>,
    read: fn(&str) -> Option<T>,
    wanted: &str,
    errors: &mut Errors,
) -> Option<Option<T>> {
    let text = text?;
    let value = read(text);
    if value.is_none() {
        errors.invalid(Path::new("metadata").child("labels").key(key), text, wanted);
    }
    Some(value)
}

fn known(version: Option<Option<Version>>) -> Option<Version> {
    version.map(|version| version.unwrap_or(Version::Latest))
}

pub(super) fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

pub(super) fn version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let canonical =
        minor == "0" || (!minor.starts_with('0') && minor.bytes().all(|byte| byte.is_ascii_digit()));
    minor.parse().ok().filter(|_| canonical).map(Version::Minor)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn labels_name_a_level_and_a_version() {
        for (labels, enforce, warn) in [
            (json!({}), "privileged:latest", "privileged:latest"),
            (json!({"enforce": "baseline"}), "baseline:latest", "baseline:latest"),
            (json!({"enforce": "baseline", "enforce-version": "v1.20"}), "baseline:v1.20", "baseline:v1.20"),
            (
                json!({"enforce": "restricted", "warn-version": "v1.0"}),
                "restricted:latest",
                "restricted:v1.0",
            ),
            (
                json!({"enforce": "restricted", "enforce-version": "v1.20", "warn": "baseline"}),
                "restricted:v1.20",
                "baseline:latest",
            ),
            (
                json!({"enforce": "restricted", "warn": "privileged"}),
                "restricted:latest",
                "privileged:latest",
            ),
            (json!({"enforce": "wrong", "warn": "wrong"}), "restricted:latest", "privileged:latest"),
            (json!({"enforce": "wrong"}), "restricted:latest", "privileged:latest"),
        ] {
            let entries = labels.as_object().unwrap().iter();
            let labels: Value = entries
                .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()))
                .collect::<serde_json::Map<_, _>>()
                .into();
            let policy = read(|name| labels.get(name)?.as_str(), &Policy::PRIVILEGED).0;
            assert_eq!((policy.enforce.to_string(), policy.warn.to_string()), (enforce.into(), warn.into()));
        }
    }

    #[test]
    fn versions_are_latest_or_a_minor_of_one() {
        for (text, expected) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.36", Some(Version::Minor(36))),
            ("v1.01", None),
            ("v1.", None),
            ("v1.+1", None),
            ("1.25", None),
            ("v2.0", None),
            ("v1.99999999999", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
