//! What definitions are called in documents.

use std::borrow::Cow;

/// How a v3 document spells names and parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Naming {
    /// `core.v1.ConfigMap`, and parameters shared under `components`.
    Short,
    /// `io.k8s.api.core.v1.ConfigMap`, and every parameter where it is used,
    /// exactly as kube-apiserver publishes.
    Upstream,
}

impl Naming {
    pub const ALL: [Naming; 2] = [Naming::Short, Naming::Upstream];

    pub fn as_str(self) -> &'static str {
        match self {
            Naming::Short => "short",
            Naming::Upstream => "upstream",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|naming| naming.as_str() == text)
    }

    /// The name of a definition in a document of this spelling.
    pub fn apply(self, name: &str) -> Cow<'_, str> {
        self.function()(name)
    }

    pub fn function(self) -> fn(&str) -> Cow<'_, str> {
        match self {
            Naming::Short => |name| Cow::Borrowed(short(name)),
            Naming::Upstream => |name| Cow::Borrowed(name),
        }
    }
}

/// The last two elements of the package, and the type. Only built-in types are
/// shortened: the names of custom resources already say group and version.
fn short(name: &str) -> &str {
    let built_in = name.rsplit_once('.').is_some_and(|(package, _)| sternpost_builtin::is_package(package));
    match name.rmatch_indices('.').nth(2) {
        Some((dot, _)) if built_in => name.get(dot + 1..).unwrap_or(name),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_are_shortened_to_group_version_and_type() {
        for (long, expected) in [
            ("io.k8s.api.core.v1.ConfigMap", "core.v1.ConfigMap"),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "meta.v1.ObjectMeta"),
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", "api.resource.Quantity"),
            ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "util.intstr.IntOrString"),
            ("io.k8s.apimachinery.pkg.runtime.RawExtension", "pkg.runtime.RawExtension"),
            ("io.k8s.apimachinery.pkg.version.Info", "pkg.version.Info"),
            ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "apiextensions.v1.JSON"),
            ("com.example.stable.v1.CronTab", "com.example.stable.v1.CronTab"),
            ("io.k8s.networking.gateway.v1.HTTPRoute", "io.k8s.networking.gateway.v1.HTTPRoute"),
            ("core.v1.ConfigMap", "core.v1.ConfigMap"),
            ("Plain", "Plain"),
        ] {
            assert_eq!(Naming::Short.apply(long), expected);
            assert_eq!(Naming::Upstream.apply(long), long);
        }
    }

    #[test]
    fn no_two_built_in_types_share_a_short_name() {
        let mut seen = BTreeMap::new();
        for name in sternpost_builtin::definition_names() {
            if let Some(other) = seen.insert(short(name).to_owned(), name) {
                panic!("{name} and {other} are both called {}", short(name));
            }
        }
    }
}
