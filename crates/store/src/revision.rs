//! The one clock of a store.

use std::{fmt, num::NonZeroU64};

/// A point in the history of a store. Zero is no revision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(NonZeroU64);

impl Revision {
    /// The revision of a store in which nothing was ever written.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The greatest revision; etcd and clients count in signed 64-bit numbers.
    pub const LAST: Self = match Self::new(i64::MAX as u64) {
        Some(last) => last,
        None => Self::FIRST,
    };

    /// `None` for zero and for what is greater than [`Revision::LAST`].
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() <= i64::MAX as u64 => Some(Self(number)),
            _ => None,
        }
    }

    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The revision `count` further on; `None` past [`Revision::LAST`].
    pub const fn plus(self, count: u64) -> Option<Self> {
        match self.get().checked_add(count) {
            Some(number) => Self::new(number),
            None => None,
        }
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_between_one_and_the_signed_maximum() {
        let last = i64::MAX as u64;
        let cases = [(0, None), (1, Some(1)), (last, Some(last)), (last + 1, None), (u64::MAX, None)];
        for (number, expected) in cases {
            assert_eq!(Revision::new(number).map(Revision::get), expected, "{number}");
        }
        assert_eq!(Revision::LAST.get(), last);
        assert_eq!(Revision::LAST.plus(1), None);
        assert_eq!(Revision::FIRST.plus(u64::MAX), None);
        assert_eq!(Revision::FIRST.plus(1), Revision::new(2));
    }
}
