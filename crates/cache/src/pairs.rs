//! Names with values, in one allocation.

use std::fmt;

/// Labels, or selectable fields: few and short, and there is one for every
/// object in memory, so they lie behind each other. Looked up by walking.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<[u8]>);

const LENGTH: usize = size_of::<u32>();

impl Pairs {
    /// The value of a name; of the first, if the name is there twice.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// In the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let name = take(&mut rest)?;
            Some((name, take(&mut rest)?))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            for text in [name.as_ref(), value.as_ref()] {
                // Both come from objects, which are limited to a few megabytes.
                let Ok(length) = u32::try_from(text.len()) else { return Self::default() };
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        Self(bytes.into())
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_name_whatever_is_in_them() {
        for pairs in [
            &[][..],
            &[("a", "b")],
            &[("", ""), ("a", "")],
            &[("app.kubernetes.io/name", "x"), ("\0", "\0\0"), ("é", "\u{1f600}")],
        ] {
            let packed: Pairs = pairs.iter().copied().collect();
            assert_eq!(packed.iter().collect::<Vec<_>>(), pairs);
            assert_eq!(packed.is_empty(), pairs.is_empty());
            for (name, value) in pairs {
                assert_eq!(packed.get(name), Some(*value));
            }
            assert_eq!(packed.get("nope"), None);
        }
    }
}
