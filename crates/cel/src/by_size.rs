//! What expressions may cost, by the size of what they are about.
//!
//! The estimates that upstream makes are for the largest object there may be, which is far from most. These
//! tell an object on which expressions take next to no time from one on which they may take long.

use std::{iter::Sum, ops::Add};

/// Sizes in bytes for which there are estimates.
pub const OBJECT_SIZES: [u64; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// The most that expressions can cost on an object of each of [`OBJECT_SIZES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostsBySize([u64; OBJECT_SIZES.len()]);

impl CostsBySize {
    /// Nobody can say how much.
    pub const UNKNOWN: Self = Self([u64::MAX; OBJECT_SIZES.len()]);

    /// `estimate` is for one size, and no less for a larger one.
    pub(crate) fn estimated(estimate: impl Fn(u64) -> u64) -> Self {
        let [least, .., most] = OBJECT_SIZES;
        let (least, most) = (estimate(least), estimate(most));
        // What does not depend on the largest size depends on none between.
        if least == most { Self([most; OBJECT_SIZES.len()]) } else { Self(OBJECT_SIZES.map(estimate)) }
    }

    /// The most on so many bytes.
    pub fn of(self, bytes: usize) -> u64 {
        let mut costs = OBJECT_SIZES.into_iter().zip(self.0);
        let found = costs.find(|(size, _)| usize::try_from(*size).is_ok_and(|size| bytes <= size));
        // Of what is larger nothing is known, but that nothing costs nothing.
        found.map_or(if self == Self::default() { 0 } else { u64::MAX }, |(_, cost)| cost)
    }

    /// The most for as many times as there can be on an object of a size.
    #[must_use]
    pub fn times(self, count: impl Fn(u64) -> u64) -> Self {
        let mut sizes = OBJECT_SIZES.into_iter();
        Self(self.0.map(|cost| cost.saturating_mul(sizes.next().map_or(u64::MAX, &count))))
    }
}

impl Add for CostsBySize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let mut others = other.0.into_iter();
        Self(self.0.map(|cost| cost.saturating_add(others.next().unwrap_or(u64::MAX))))
    }
}

impl Sum for CostsBySize {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Self::add)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Declaration, Environment};

    fn costs(expression: &str) -> [u64; 4] {
        let dynamic = Arc::new(Declaration::dynamic());
        let environment = Environment::new()
            .variable("object", dynamic.clone())
            .variable("params", dynamic)
            .variable("self", Arc::new(Declaration::list(Declaration::string())));
        environment.compile(expression).unwrap().costs_by_size().0
    }

    #[test]
    fn only_what_depends_on_the_object_costs_more_for_a_larger_one() {
        for (expression, [least, most]) in [
            ("object.a == 1", [0, 20]),
            ("object.a.b[0].c == 'x' && has(object.d)", [0, 100]),
            ("[1, 2, 3].all(i, i > 0)", [0, 100]),
            ("self.size() > 3", [0, 20]),
        ] {
            let found = costs(expression);
            assert_eq!(found, [found[0]; 4], "{expression}");
            assert!((least..=most).contains(&found[0]), "{expression}: {found:?}");
        }
        for expression in
            ["object.a.all(x, x > 0)", "self.all(x, x != '')", "object.a[0].b.exists(x, x == 1)"]
        {
            let [small, .., large] = costs(expression);
            assert!(small < 10_000 && large > 200_000, "{expression}: {small} {large}");
        }
        // Loops within loops multiply.
        let [small, ..] = costs("object.a.all(x, object.a.all(y, x != y))");
        assert!(small > 1_000_000, "{small}");
    }

    #[test]
    fn what_is_no_part_of_the_object_has_no_bound() {
        for expression in
            ["params.a.all(x, x > 0)", "object.a in params.b", "object.?a.orValue([]).all(x, x > 0)"]
        {
            assert_eq!(costs(expression), [u64::MAX; 4], "{expression}");
        }
        // A text that is compared is gone through no further than the shorter one.
        assert!(costs("object.a == params.b")[3] < 10_000);
    }

    #[test]
    fn a_size_costs_what_the_next_one_does() {
        let costs = CostsBySize([1, 2, 3, 4]);
        for (bytes, expected) in
            [(0, 1), (1 << 10, 1), ((1 << 10) + 1, 2), (64 << 10, 4), ((64 << 10) + 1, u64::MAX)]
        {
            assert_eq!(costs.of(bytes), expected, "{bytes}");
        }
        assert_eq!(CostsBySize::default().of(usize::MAX), 0);
        assert_eq!(costs.times(|size| size) + costs, CostsBySize([1025, 2 * 4097, 3 * 16_385, 4 * 65_537]));
        assert_eq!([costs, CostsBySize::UNKNOWN].into_iter().sum::<CostsBySize>(), CostsBySize::UNKNOWN);
    }
}
