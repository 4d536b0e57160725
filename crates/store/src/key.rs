//! Ranges of keys.

use bytes::Bytes;

/// Keys from `start` up to, but not including, `end`; without `end` up to the last key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    start: Bytes,
    end: Option<Bytes>,
}

impl KeyRange {
    pub const fn all() -> Self {
        Self { start: Bytes::new(), end: None }
    }

    pub fn between(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { start: start.into(), end: Some(end.into()) }
    }

    pub fn single(key: impl Into<Bytes>) -> Self {
        let start = key.into();
        let end = Some(successor(&start));
        Self { start, end }
    }

    /// All keys that begin with these bytes. Prefixes should end in a
    /// separator: `pods` is also a prefix of `podsecurity`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        // The first key past the prefix: drop trailing 0xff, then count up.
        let mut end = start.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let end = end.pop().map(|last| {
            end.push(last.saturating_add(1));
            Bytes::from(end)
        });
        Self { start, end }
    }

    /// What is left of this range behind `key`.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let start = successor(key).max(self.start.clone());
        Self { start, end: self.end.clone() }
    }

    pub fn start(&self) -> &Bytes {
        &self.start
    }

    pub fn end(&self) -> Option<&Bytes> {
        self.end.as_ref()
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        !self.is_after(key) && !self.is_before(key)
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether the whole range lies after `key`.
    pub(crate) fn is_after(&self, key: &[u8]) -> bool {
        key < self.start.as_ref()
    }

    /// Whether the whole range lies before `key`.
    pub(crate) fn is_before(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| key >= end.as_ref())
    }
}

/// The smallest key greater than this one.
fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_what_their_name_says() {
        let prefix = |bytes: &'static [u8]| KeyRange::prefix(bytes);
        type Keys = &'static [&'static [u8]];
        let cases: [(KeyRange, Keys, Keys); 7] = [
            (KeyRange::all(), &[b"", b"a", b"\xff\xff"], &[]),
            (KeyRange::single("a"), &[b"a"], &[b"", b"a\0", b"b"]),
            (KeyRange::between("a", "c"), &[b"a", b"b\xff"], &[b"", b"c"]),
            (KeyRange::between("c", "a"), &[], &[b"a", b"b", b"c"]),
            (prefix(b"a/"), &[b"a/", b"a/\xff\xff"], &[b"a", b"a0", b"b"]),
            (prefix(b"a\xff\xff"), &[b"a\xff\xff", b"a\xff\xff\0"], &[b"a\xff", b"b"]),
            (prefix(b"\xff"), &[b"\xff", b"\xff\xff"], &[b"\xfe\xff"]),
        ];
        for (range, inside, outside) in cases {
            for key in inside {
                assert!(range.contains(key), "{range:?} {key:?}");
            }
            for key in outside {
                assert!(!range.contains(key), "{range:?} {key:?}");
            }
        }
        assert!(KeyRange::between("c", "a").is_empty());
        assert!(!KeyRange::all().is_empty());
    }

    #[test]
    fn after_leaves_out_the_key_and_keeps_the_end() {
        let rest = KeyRange::prefix("a/").after(b"a/b");
        assert!(!rest.contains(b"a/b") && rest.contains(b"a/b\0") && !rest.contains(b"b"));
        let whole = KeyRange::prefix("b/").after(b"a");
        assert_eq!(whole, KeyRange::prefix("b/"));
    }
}
