//! What `PodSecurityConfiguration` says: defaults of namespaces, and who is exempt.

use std::collections::HashSet;

use serde_json::Value;
use sternpost_meta::{
    field::{Errors, Path},
    format::{self, Problems},
};
use sternpost_registry::object::Fields;

use super::policy::{self, LEVELS, Level, Policy, Standard, VERSIONS, Version};

/// By default everything is let in where no label says otherwise, and nobody is exempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSecurityConfiguration {
    pub(super) defaults: Policy,
    pub(super) usernames: HashSet<String>,
    pub(super) namespaces: HashSet<String>,
    pub(super) runtime_classes: HashSet<String>,
}

impl Default for PodSecurityConfiguration {
    fn default() -> Self {
        let nobody = HashSet::new;
        let (usernames, namespaces, runtime_classes) = (nobody(), nobody(), nobody());
        Self { defaults: Policy::PRIVILEGED, usernames, namespaces, runtime_classes }
    }
}

impl PodSecurityConfiguration {
    /// Reads an object whose fields are of the right types.
    pub fn read(configuration: &Value) -> Result<Self, Errors> {
        let mut errors = Errors::default();
        let defaults = configuration.field("defaults");
        let mut mode = |name: &str| Standard {
            level: read_default(defaults, name, Level::Privileged, policy::level, LEVELS, &mut errors),
            version: read_default(
                defaults,
                &format!("{name}-version"),
                Version::Latest,
                policy::version,
                VERSIONS,
                &mut errors,
            ),
        };
        // In the order in which upstream tells problems.
        let (enforce, warn, audit) = (mode("enforce"), mode("warn"), mode("audit"));
        let exemptions = configuration.field("exemptions");
        let named = |username: &str| match username {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        };
        let namespaces = read_names(exemptions, "namespaces", format::dns_label, &mut errors);
        let runtime_classes = read_names(exemptions, "runtimeClasses", format::dns_subdomain, &mut errors);
        let usernames = read_names(exemptions, "usernames", named, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { defaults: Policy { enforce, audit, warn }, usernames, namespaces, runtime_classes })
    }
}

/// A default that is empty is as good as none.
fn read_default<T>(
    defaults: &Value,
    name: &str,
    absent: T,
    read: fn(&str) -> Option<T>,
    wanted: &str,
    errors: &mut Errors,
) -> T {
    let text = defaults.text(name);
    match read(text) {
        Some(value) => value,
        None => {
            if !text.is_empty() {
                errors.invalid(Path::new("defaults").child(name), text, wanted);
            }
            absent
        }
    }
}

fn read_names(
    exemptions: &Value,
    list: &str,
    problems: impl Fn(&str) -> Problems,
    errors: &mut Errors,
) -> HashSet<String> {
    let mut names = HashSet::new();
    let path = Path::new("exemptions");
    let path = path.child(list);
    for (at, name) in exemptions.items(list).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let problems = problems(name);
        if !problems.is_empty() {
            errors.invalid(path.index(at), name, &problems.join(", "));
        } else if !names.insert(name.to_owned()) {
            errors.duplicate(path.index(at), name);
        }
    }
    names
}
