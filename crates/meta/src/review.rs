//! Reviews: the form in which webhooks are asked.

/// The versions of reviews that there are, as webhooks list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    /// Answers of admission need not say which review they belong to.
    V1beta1,
}

impl ReviewVersion {
    /// The first that is known of those a webhook lists.
    pub fn first_of<'a>(mut versions: impl Iterator<Item = &'a str>) -> Option<Self> {
        versions
            .find_map(|version| [Self::V1, Self::V1beta1].into_iter().find(|known| known.name() == version))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_known_counts() {
        for (versions, expected) in [
            (&["v1"][..], Some(ReviewVersion::V1)),
            (&["v2", "v1beta1", "v1"], Some(ReviewVersion::V1beta1)),
            (&["v2"], None),
            (&[], None),
        ] {
            assert_eq!(ReviewVersion::first_of(versions.iter().copied()), expected, "{versions:?}");
        }
    }
}
