//! Which groups and versions are shown, and in which order.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use sternpost_meta::{
    gvk::{GroupVersion, compare_versions},
    resource::Version,
};

use crate::remote::RemoteVersion;

/// Stands before all others, whatever the priorities: what is served depends on what is in it.
const ALWAYS_FIRST: &str = "apiregistration.k8s.io";

/// How much a group-version is preferred, as its APIService says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// A group stands where the highest of its versions puts it.
    pub group: i64,
    pub version: i64,
}

impl Priority {
    /// Of the group-versions of custom resources.
    pub const CUSTOM: Self = Self { group: 1000, version: 100 };
}

/// Of the group-versions a server begins with.
pub(crate) type Priorities = BTreeMap<GroupVersion, Priority>;

pub(crate) struct ShownGroup<'a> {
    pub name: &'a Arc<str>,
    /// Best first.
    pub versions: Vec<ShownVersion<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct ShownVersion<'a> {
    pub name: &'a Arc<str>,
    pub priority: Priority,
    pub source: Source<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// What is served here, and what of it was there to begin with.
    Here {
        version: &'a Version,
        first: Option<&'a Version>,
    },
    Elsewhere(&'a RemoteVersion),
}

impl<'a> ShownGroup<'a> {
    pub fn new(name: &'a Arc<str>, mut versions: Vec<ShownVersion<'a>>) -> Self {
        versions.sort_by(|a, b| {
            (b.priority.version.cmp(&a.priority.version)).then_with(|| compare_versions(a.name, b.name))
        });
        Self { name, versions }
    }

    fn priority(&self) -> i64 {
        self.versions.iter().map(|version| version.priority.group).max().unwrap_or_default()
    }

    /// The order of the aggregated form: by priority, then by name.
    pub fn place(&self) -> impl Ord + use<'a> {
        (**self.name != *ALWAYS_FIRST, Reverse(self.priority()), self.name)
    }

    /// The order of the legacy form: that of the APIServices, which are ordered by priority and then by
    /// their own names, in which the version comes first.
    pub fn legacy_place(&self) -> impl Ord + use<'a> {
        let highest = self.priority();
        let best = self.versions.iter().filter(|version| version.priority.group == highest);
        // With its dot, behind which the group stands in the name.
        let first = best.map(|version| format!("{}.", version.name)).min();
        (**self.name != *ALWAYS_FIRST, Reverse(highest), first, self.name)
    }
}
