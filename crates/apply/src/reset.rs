//! Fields that an endpoint does not write, whatever is sent to it.

use crate::{
    path,
    set::{Patterns, Set},
    typed::Comparison,
};

/// What a write through one endpoint cannot own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResetFields {
    #[default]
    None,
    /// These paths and all below them.
    Except(Set),
    /// Everything that no pattern matches.
    Only(Patterns),
}

impl ResetFields {
    /// Paths such as `.status` or `.metadata.labels` are not owned.
    pub fn except<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path::fields(path));
        }
        Self::Except(set)
    }

    /// Only what patterns such as `.spec.containers.*.resources` match is owned.
    pub fn only<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Only(Patterns::of(patterns))
    }

    pub(crate) fn filter(&self, set: Set) -> Set {
        match self {
            Self::None => set,
            Self::Except(paths) => set.recursive_difference(paths),
            Self::Only(patterns) => set.matching(patterns),
        }
    }

    pub(crate) fn filter_comparison(&self, comparison: Comparison) -> Comparison {
        match self {
            Self::None => comparison,
            _ => comparison.map(|set| self.filter(set)),
        }
    }
}
