//! JSON pointers (RFC 6901), and indexes as Go reads numbers.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Reason;

/// `/a/0`: a key in an object, an index into a list.
#[derive(Clone, Copy)]
pub(super) struct Pointer<'a>(pub(super) &'a str);

/// What a key is looked up in.
pub(super) enum Container<'a> {
    Object(&'a mut Map<String, Value>),
    List(&'a mut Vec<Value>),
}

impl<'a> Pointer<'a> {
    /// The whole document.
    pub(super) fn is_root(self) -> bool {
        self.0.is_empty()
    }

    /// How many objects and lists are around the place.
    pub(super) fn depth(self) -> usize {
        self.0.bytes().filter(|byte| *byte == b'/').count()
    }

    /// The last key.
    pub(super) fn key(self) -> Cow<'a, str> {
        unescape(self.0.rsplit_once('/').map_or("", |(_, key)| key))
    }

    /// What is there: nothing if an object has no such key; an index must exist.
    pub(super) fn get(self, document: &Value) -> Result<Option<&Value>, Reason> {
        let missing = || Reason::MissingPath(self.0.to_owned());
        let (parents, key) = self.0.rsplit_once('/').ok_or_else(missing)?;
        let mut found = document;
        for parent in parents.split('/').skip(1).map(unescape) {
            found = match found {
                Value::Object(map) => map.get(&*parent),
                Value::Array(list) => existing(&parent, list.len()).ok().and_then(|index| list.get(index)),
                _ => None,
            }
            .ok_or_else(missing)?;
        }
        let key = unescape(key);
        match found {
            Value::Object(map) => Ok(map.get(&*key)),
            Value::Array(list) => Ok(list.get(existing(&key, list.len())?)),
            _ => Err(missing()),
        }
    }

    /// The object or list that the last key is for, and that key.
    pub(super) fn container(self, document: &mut Value) -> Result<(Container<'_>, Cow<'a, str>), Reason> {
        let missing = || Reason::MissingPath(self.0.to_owned());
        let (parents, key) = self.0.rsplit_once('/').ok_or_else(missing)?;
        let mut found = document;
        for parent in parents.split('/').skip(1).map(unescape) {
            found = match found {
                Value::Object(map) => map.get_mut(&*parent),
                Value::Array(list) => {
                    existing(&parent, list.len()).ok().and_then(|index| list.get_mut(index))
                }
                _ => None,
            }
            .ok_or_else(missing)?;
        }
        let container = match found {
            Value::Object(map) => Container::Object(map),
            Value::Array(list) => Container::List(list),
            _ => return Err(missing()),
        };
        Ok((container, unescape(key)))
    }
}

/// The index of one of `length` places; negative ones count from the end.
pub(super) fn existing(key: &str, length: usize) -> Result<usize, Reason> {
    let index = key.parse::<i64>().map_err(|_| Reason::NotAnIndex(key.to_owned()))?;
    let out_of_range = || Reason::OutOfRange { index, length };
    let found = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => {
            let from_the_end = usize::try_from(index.unsigned_abs()).map_err(|_| out_of_range())?;
            length.checked_sub(from_the_end).ok_or_else(out_of_range)?
        }
    };
    if found < length { Ok(found) } else { Err(out_of_range()) }
}

/// A key as it is, from how it stands in a pointer: `~1` is a slash and `~0` a tilde; any other
/// tilde is itself.
pub fn unescape(key: &str) -> Cow<'_, str> {
    if !key.contains('~') {
        return Cow::Borrowed(key);
    }
    let mut plain = String::with_capacity(key.len());
    let mut rest = key;
    while let Some((before, after)) = rest.split_once('~') {
        plain.push_str(before);
        rest = match after.strip_prefix('1') {
            Some(after) => {
                plain.push('/');
                after
            }
            None => {
                plain.push('~');
                after.strip_prefix('0').unwrap_or(after)
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tildes_are_decoded_in_one_pass() {
        for (escaped, plain) in [
            ("a", "a"),
            ("~01", "~1"),
            ("~10", "/0"),
            ("~1~0", "/~"),
            ("~2~", "~2~"),
            ("~~0", "~~"),
            ("", ""),
        ] {
            assert_eq!(unescape(escaped), plain, "{escaped}");
        }
    }

    #[test]
    fn an_index_is_what_go_reads_as_a_number() {
        for (key, expected) in [
            ("0", Ok(0)),
            ("00", Ok(0)),
            ("+1", Ok(1)),
            ("-1", Ok(2)),
            ("-3", Ok(0)),
            ("-0", Ok(0)),
            ("3", Err(Reason::OutOfRange { index: 3, length: 3 })),
            ("-4", Err(Reason::OutOfRange { index: -4, length: 3 })),
            ("-9223372036854775808", Err(Reason::OutOfRange { index: i64::MIN, length: 3 })),
            ("9223372036854775807", Err(Reason::OutOfRange { index: i64::MAX, length: 3 })),
            ("9223372036854775808", Err(Reason::NotAnIndex("9223372036854775808".into()))),
            ("-", Err(Reason::NotAnIndex("-".into()))),
            ("", Err(Reason::NotAnIndex(String::new()))),
            ("1e0", Err(Reason::NotAnIndex("1e0".into()))),
            ("1_0", Err(Reason::NotAnIndex("1_0".into()))),
            (" 1", Err(Reason::NotAnIndex(" 1".into()))),
        ] {
            assert_eq!(existing(key, 3), expected, "{key}");
        }
    }
}
