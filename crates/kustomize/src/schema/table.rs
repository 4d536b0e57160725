//! `facts/schema`: what the releases of Kubernetes say of their own types, one
//! table for all of them.
//!
//! Its own beside the catalogue of `sternpost_builtin`, which has one release and the kinds that are served; a
//! test compares them where both have something to say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sternpost_schema::topology::Relation;

use super::{FieldSchema, Schema, TypeId};

const FACTS: &str = include_str!("../../facts/schema");

/// What a build goes by unless told otherwise: that of kustomize, v1.21.2.
pub(crate) const DEFAULT: Release = Release(21);

/// A release of Kubernetes that the table has, by the second number of its
/// version; the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(u8);

impl Release {
    const FIRST: u8 = 21;
    const LAST: u8 = 36;
    pub(crate) const LATEST: Self = Self(Self::LAST);

    /// `1.36`, `v1.36` or `v1.36.4`: what lists merge by does not change
    /// within a release.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut number = || {
            let digits = numbers.next().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse::<u8>().ok()
        };
        let (major, minor) = (number()?, number()?);
        let patch = numbers.next().is_none_or(|text| text.parse::<u16>().is_ok());
        let known = major == 1 && (Self::FIRST..=Self::LAST).contains(&minor);
        (known && patch && numbers.next().is_none()).then_some(Self(minor))
    }

    /// Which there are, for people.
    pub(crate) fn known() -> String {
        format!("1.{} to 1.{}", Self::FIRST, Self::LAST)
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// The facts of one release.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) types: BTreeMap<&'static str, Vec<Field>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) cluster_scoped: bool,
    pub(crate) root: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) inner: Option<&'static str>,
    pub(crate) list: Relation,
}

impl Table {
    /// A line that is none is a mistake in the file, which a test finds, and is
    /// left out.
    pub(crate) fn of(release: Release) -> Self {
        let mut table = Self::default();
        let mut current = "";
        for line in FACTS.lines() {
            let mut words: Vec<&'static str> = line.split_whitespace().collect();
            if let Some(ranges) = words.last().and_then(|word| word.strip_prefix('@')) {
                if !ranges.split(',').any(|range| holds(range, release)) {
                    continue;
                }
                words.pop();
            }
            let named = |name: &'static str| Some(name).filter(|name| *name != "-");
            match words.as_slice() {
                ["kind", api_version, kind, scope, root] => table.kinds.push(Kind {
                    api_version,
                    kind,
                    cluster_scoped: *scope == "cluster",
                    root: named(root),
                }),
                ["type", name] => current = name,
                [name, inner, keys @ ..] if line.starts_with(' ') => {
                    let list = match keys.first() {
                        None => Relation::Atomic,
                        Some(&"=") => Relation::Set,
                        Some(keys) => Relation::Map(keys.split(',').map(Into::into).collect()),
                    };
                    table.types.entry(current).or_default().push(Field { name, inner: named(inner), list });
                }
                _ => {}
            }
        }
        table.keep_reachable();
        table
    }

    /// Ranges of releases stand at kinds, and at fields only where they differ
    /// from those of the kinds they belong to.
    fn keep_reachable(&mut self) {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.kinds.iter().filter_map(|kind| kind.root).collect();
        while let Some(name) = open.pop() {
            if reached.insert(name) {
                open.extend(self.types.get(name).into_iter().flatten().filter_map(|field| field.inner));
            }
        }
        self.types.retain(|name, _| reached.contains(name));
    }

    pub(crate) fn schema(&self) -> Schema {
        let mut schema = Schema::default();
        let ids: HashMap<&str, TypeId> = self.types.keys().map(|name| (*name, schema.add_type())).collect();
        let id = |name: Option<&str>| name.and_then(|name| ids.get(name).copied());
        for (name, fields) in &self.types {
            let Some(to) = id(Some(name)) else { continue };
            for field in fields {
                let held = FieldSchema { inner: id(field.inner), list: Ok(field.list.clone()), broken: None };
                schema.add_field(to, field.name, held);
            }
        }
        ids.iter().for_each(|(name, id)| schema.name_type(definition_name(name), *id));
        for kind in &self.kinds {
            schema.add_kind(kind.api_version, kind.kind, kind.cluster_scoped, id(kind.root));
        }
        schema
    }
}

/// What a type is called in the documents of a server.
pub(crate) fn definition_name(name: &str) -> String {
    let package = match name.split('.').next().unwrap_or_default() {
        "meta" => "io.k8s.apimachinery.pkg.apis.",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.",
        "kustomize" => "io.k8s.sigs.",
        _ => "io.k8s.api.",
    };
    format!("{package}{name}")
}

/// `30`, `30-33`, `30-` or `-33`.
fn holds(range: &str, release: Release) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let bound = |text: &str, open: u8| if text.is_empty() { Some(open) } else { text.parse().ok() };
    match (bound(first, 0), bound(last, u8::MAX)) {
        (Some(first), Some(last)) => (first..=last).contains(&release.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use sternpost_meta::resource::{Scope, Verb};
    use sternpost_schema::extension::{LIST_MAP_KEYS, PATCH_MERGE_KEY, PATCH_STRATEGY};
    use sternpost_schema::topology::PatchStrategy;

    use super::*;

    fn all() -> impl Iterator<Item = Release> {
        (Release::FIRST..=Release::LAST).map(Release)
    }

    #[test]
    fn every_line_of_the_facts_is_understood() {
        for line in FACTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if let Some(ranges) = words.last().and_then(|word| word.strip_prefix('@')) {
                assert!(ranges.split(',').any(|range| all().any(|release| holds(range, release))), "{line}");
                words.pop();
            }
            let known = match words.as_slice() {
                ["kind", _, _, scope, _] => ["cluster", "namespaced"].contains(scope),
                ["type", _] => true,
                [_, _] | [_, _, _] => line.starts_with("  "),
                _ => false,
            };
            assert!(known, "{line}");
        }
    }

    #[test]
    fn types_and_kinds_of_a_release_are_there_once() {
        for release in all() {
            let table = Table::of(release);
            let kinds: BTreeSet<_> = table.kinds.iter().map(|kind| (kind.api_version, kind.kind)).collect();
            assert_eq!(kinds.len(), table.kinds.len(), "{release}");
            for (name, fields) in &table.types {
                let names: BTreeSet<_> = fields.iter().map(|field| field.name).collect();
                assert_eq!(names.len(), fields.len(), "{release} {name}");
                for inner in fields.iter().filter_map(|field| field.inner) {
                    assert!(table.types.contains_key(inner), "{release} {name} {inner}");
                }
            }
            for root in table.kinds.iter().filter_map(|kind| kind.root) {
                assert!(table.types.contains_key(root), "{release} {root}");
            }
        }
    }

    #[test]
    fn the_latest_release_is_as_the_catalogue_has_it() {
        assert_eq!(Release::LATEST.to_string(), sternpost_builtin::KUBERNETES_VERSION);
        let table = Table::of(Release::LATEST);
        let versions = sternpost_builtin::groups().iter().flat_map(|group| &group.versions);
        let resources: Vec<_> = versions.flat_map(|version| &version.resources).collect();
        assert!(resources.len() > 50);
        for resource in &resources {
            let api_version = resource.gv.to_string();
            let same = |kind: &&Kind| kind.api_version == api_version && *kind.kind == *resource.kind;
            let known = table.kinds.iter().find(same).unwrap_or_else(|| panic!("{resource:?} is missing"));
            // Scopes are told by paths that are read from: reviews have none.
            let cluster_scoped = resource.scope == Scope::Cluster && resource.allows(Verb::Get);
            assert_eq!(known.cluster_scoped, cluster_scoped, "{}", resource.kind);
        }
        let types: BTreeMap<String, &Vec<Field>> =
            table.types.iter().map(|(name, fields)| (definition_name(name), fields)).collect();
        let roots =
            resources.iter().filter_map(|resource| sternpost_builtin::definition_name(&resource.gvk()));
        let mut open: Vec<Arc<str>> = roots.collect();
        let (mut seen, mut compared) = (BTreeSet::new(), 0);
        while let Some(name) = open.pop() {
            let Some(definition) = sternpost_builtin::definition(&name) else { continue };
            if !seen.insert(name.clone()) {
                continue;
            }
            let mut expected: BTreeMap<&str, Relation> = BTreeMap::new();
            for (field, property) in &definition.properties {
                let list = merged_by(property);
                // Nothing is merged inside a list that is replaced.
                let inner = match &property.items {
                    Some(items) => Some(&**items).filter(|_| list != Relation::Atomic),
                    None => Some(property),
                };
                open.extend(inner.and_then(|inner| inner.reference.clone()));
                if list != Relation::Atomic {
                    expected.insert(field, list);
                }
            }
            let fields = types.get(&*name).into_iter().copied().flatten();
            let found: BTreeMap<&str, Relation> = fields
                .filter(|field| field.list != Relation::Atomic)
                .map(|field| (field.name, field.list.clone()))
                .collect();
            assert_eq!(found, expected, "{name}");
            compared += found.len();
        }
        assert!(compared > 50, "{compared}");
    }

    /// As kustomize reads it: keys count beside a strategy alone.
    fn merged_by(property: &sternpost_schema::Schema) -> Relation {
        let text = |name: &str| property.rest.get(name).and_then(Value::as_str);
        if !text(PATCH_STRATEGY).is_some_and(|strategy| PatchStrategy::parse(strategy).merge) {
            return Relation::Atomic;
        }
        let keys = property.rest.get(LIST_MAP_KEYS).and_then(Value::as_array);
        let keys = keys.map(|keys| keys.iter().filter_map(Value::as_str).map(Into::into).collect());
        let keys: Vec<_> =
            keys.unwrap_or_else(|| text(PATCH_MERGE_KEY).map(Into::into).into_iter().collect());
        if keys.is_empty() { Relation::Set } else { Relation::Map(keys) }
    }

    #[test]
    fn releases_are_named_with_and_without_the_rest() {
        for (text, expected) in [
            ("1.36", Some("1.36")),
            ("v1.36", Some("1.36")),
            ("v1.36.4", Some("1.36")),
            ("v1.21.2", Some("1.21")),
            ("1.20", None),
            ("1.37", None),
            ("2.30", None),
            ("1", None),
            ("", None),
            ("1.30.x", None),
            ("1.30.1.1", None),
            ("1.+30", None),
            ("vv1.30", None),
        ] {
            assert_eq!(
                Release::parse(text).map(|release| release.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn releases_differ_in_what_they_know() {
        let knows = |minor: u8, api_version: &str, kind: &str| {
            Table::of(Release(minor))
                .kinds
                .iter()
                .any(|known| known.api_version == api_version && known.kind == kind)
        };
        for (api_version, kind, first, last) in [
            ("policy/v1beta1", "PodSecurityPolicy", 21, 24),
            ("autoscaling/v2", "HorizontalPodAutoscaler", 23, 36),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", 30, 36),
            ("apps/v1", "Deployment", 21, 36),
            ("kustomize.config.k8s.io/v1beta1", "Kustomization", 21, 36),
        ] {
            for release in all() {
                let expected = (first..=last).contains(&release.0);
                assert_eq!(knows(release.0, api_version, kind), expected, "{kind} in {release}");
            }
        }
    }
}
