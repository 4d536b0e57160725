//! What estimates may come to, and the words for what is more.

use std::fmt;

use crate::declare::MAX_REQUEST_BYTES;

/// The most that one rule, times the number of its places, may cost by estimate.
pub const RULE_COST_LIMIT: u64 = 10_000_000;
/// The most that all rules of one schema may cost by estimate.
pub const SCHEMA_COST_LIMIT: u64 = 100_000_000;
/// What is more than a hundred times too much is not measured any further.
const LARGEST_FACTOR: f64 = 100.0;

/// An estimate that is over its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excess {
    factor: f64,
}

impl Excess {
    /// Nothing for a cost within the limit; exactly the limit is within.
    pub fn of(cost: u64, limit: u64) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "the factor is printed with few digits")]
        (cost > limit).then(|| Self { factor: cost as f64 / limit.max(1) as f64 })
    }

    /// The detail of the error on a rule (`rule`) or message expression (`messageExpression`).
    pub fn of_expression(&self, what: &str) -> String {
        format!("estimated {what} cost exceeds budget by factor of {self} ({ADVICE})")
    }

    /// The detail of the error on the schema as a whole.
    pub fn of_schema(&self) -> String {
        format!(
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {self} ({ADVICE})"
        )
    }
}

const ADVICE: &str = "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared";
/// The factor as messages have it: `1.258291x`, `2.4x`, `more than 100x`.
impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.factor > LARGEST_FACTOR {
            write!(f, "more than {LARGEST_FACTOR}x")
        } else if self.factor < 1.5 {
            write!(f, "{:.6}x", self.factor)
        } else {
            write!(f, "{:.1}x", self.factor)
        }
    }
}

/// How often a rule can run on one object: the product of the limits of the
/// lists and maps around it, or what fits a request where one has none.
pub fn cardinality(around: &[Option<u64>], min_serialized_size: u64) -> u64 {
    around
        .iter()
        .copied()
        .try_fold(1_u64, |product, limit| limit.map(|limit| product.saturating_mul(limit)))
        .unwrap_or(MAX_REQUEST_BYTES / min_serialized_size.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excess_begins_past_the_limit() {
        assert_eq!(Excess::of(RULE_COST_LIMIT, RULE_COST_LIMIT), None);
        assert!(Excess::of(RULE_COST_LIMIT + 1, RULE_COST_LIMIT).is_some());
    }

    #[test]
    fn factors_print_with_fewer_digits_as_they_grow() {
        let printed = |cost| Excess::of(cost, 10_000_000).unwrap().to_string();
        assert_eq!(printed(12_582_910), "1.258291x");
        assert_eq!(printed(15_000_000), "1.5x");
        assert_eq!(printed(24_000_000), "2.4x");
        assert_eq!(printed(1_000_000_000), "100.0x");
        assert_eq!(printed(1_000_000_001), "more than 100x");
    }

    #[test]
    fn one_list_without_a_limit_makes_the_request_the_limit() {
        assert_eq!(cardinality(&[], 1), 1);
        assert_eq!(cardinality(&[Some(5), Some(7)], 1), 35);
        assert_eq!(cardinality(&[Some(5), None], 1), 1_572_864);
    }
}
