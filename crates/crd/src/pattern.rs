//! The patterns of schemas: what they may weigh, and one copy of each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind},
};
use sternpost_golang::regexp::{NEST_LIMIT, PatternError, translate};

/// Memory that one compiled pattern may take.
pub const MAX_COMPILED: usize = 16 << 20;

/// Up to this weight a pattern certainly fits [`MAX_COMPILED`] and is compiled in no time.
const LIGHT: usize = 20_000;

/// What the patterns of one schema that are not light may weigh together: about a fifth of a second
/// of compiling.
pub const MAX_WEIGHT: usize = 1_000_000;

/// A pattern ready to run.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    pub fn compile(pattern: &str) -> Result<Self, PatternError> {
        let translated = translate(pattern)?;
        RegexBuilder::new(&translated)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .nest_limit(NEST_LIMIT)
            .build()
            .map(Self)
            .map_err(|_| PatternError::too_large(pattern))
    }

    /// Checks a pattern as [`Pattern::compile`] does, and compiles only what is large. What it weighs is
    /// taken from `left`; where that is not enough, a pattern is too large as well.
    pub fn check(pattern: &str, left: &mut usize) -> Result<(), PatternError> {
        let too_large = || PatternError::too_large(pattern);
        let translated = translate(pattern)?;
        let parsed = ParserBuilder::new()
            .utf8(false)
            .nest_limit(NEST_LIMIT)
            .build()
            .parse(&translated)
            .map_err(|_| too_large())?;
        let weight = weight(&parsed);
        if weight <= LIGHT {
            return Ok(());
        }
        *left = left.checked_sub(weight).ok_or_else(too_large)?;
        Self::compile(pattern).map(|_| ())
    }

    /// Whether the pattern is found anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// The patterns of one server's definitions, each compiled once for all that have it at the time: a compiled
/// pattern takes tens of kilobytes, and definitions have many in common. Clones are the same patterns.
#[derive(Debug, Clone, Default)]
pub struct Patterns(Arc<Mutex<HashMap<Box<str>, Weak<Pattern>>>>);

impl Patterns {
    /// As [`Pattern::compile`].
    pub fn get(&self, pattern: &str) -> Result<Arc<Pattern>, PatternError> {
        if let Some(found) = self.lock().get(pattern).and_then(Weak::upgrade) {
            return Ok(found);
        }
        // Outside the lock: some take long.
        let compiled = Arc::new(Pattern::compile(pattern)?);
        let mut all = self.lock();
        if all.len() == all.capacity() {
            all.retain(|_, pattern| pattern.strong_count() > 0);
        }
        all.insert(pattern.into(), Arc::downgrade(&compiled));
        Ok(compiled)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Weak<Pattern>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how many states a pattern has when it is compiled.
fn weight(pattern: &Hir) -> usize {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(text) => text.0.len(),
        HirKind::Class(class) => match class {
            Class::Unicode(class) => class.ranges().len().max(1),
            Class::Bytes(class) => class.ranges().len().max(1),
        },
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min.saturating_add(1)).max(1);
            weight(&repeated.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Capture(capture) => weight(&capture.sub).saturating_add(1),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(0, |sum: usize, part| sum.saturating_add(weight(part)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_patterns_are_compiled_once_for_as_long_as_one_is_in_use() {
        let patterns = Patterns::default();
        let first = patterns.get("^shared-[a-z]+$").unwrap();
        assert!(Arc::ptr_eq(&first, &patterns.get("^shared-[a-z]+$").unwrap()));
        assert!(!Arc::ptr_eq(&first, &patterns.get("^shared-[a-z]*$").unwrap()));
        let others = Patterns::default().get("^shared-[a-z]+$").unwrap();
        assert!(!Arc::ptr_eq(&first, &others), "another server has its own");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert!(patterns.get("^shared-[a-z]+$").unwrap().is_match("shared-x"));
    }

    #[test]
    fn heavy_patterns_share_what_a_schema_may_weigh() {
        let mut left = MAX_WEIGHT;
        for light in ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"\pL", "^(a+)+$", &"x".repeat(LIGHT)] {
            assert_eq!(Pattern::check(light, &mut left), Ok(()));
        }
        assert_eq!(left, MAX_WEIGHT);
        let heavy = r"^\pL{100}$";
        let before = left;
        assert_eq!(Pattern::check(heavy, &mut left), Ok(()));
        let weight = before - left;
        assert!(weight > LIGHT, "{weight}");
        let mut left = weight;
        assert_eq!(Pattern::check(heavy, &mut left), Ok(()));
        assert_eq!(left, 0);
        let mut left = weight - 1;
        assert!(Pattern::check(heavy, &mut left).unwrap_err().to_string().contains("expression too large"));
        // Far past it nothing is compiled, and little is done.
        let bomb = r"(\pL{1000}|\pN{1000})".repeat(2_000);
        assert!(Pattern::check(&bomb, &mut MAX_WEIGHT.clone()).is_err());
    }
}
