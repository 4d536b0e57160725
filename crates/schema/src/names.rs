//! Finding a field of a type by its name, without comparing names that are not it.

/// How long a name is, how it begins and how it ends, in one number. Names of one type hardly ever share it, unless
/// somebody has chosen them so.
pub fn fingerprint(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    };
    // Lengths differ in few bits, letters hardly in the highest.
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    ends ^ length.wrapping_mul(1 << 59)
}

/// What is named so, of all that are sorted by the [`fingerprint`] of their names, and those that share one by name.
pub fn find<'a, T>(
    sorted: &'a [T],
    name: &str,
    fingerprint_of: impl Fn(&T) -> u64,
    name_of: impl Fn(&'a T) -> &'a str,
) -> Option<&'a T> {
    let wanted = fingerprint(name);
    let order = |one: &'a T| fingerprint_of(one).cmp(&wanted).then_with(|| name_of(one).cmp(name));
    sorted.binary_search_by(order).ok().and_then(|at| sorted.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        // The last four have one fingerprint.
        let names = ["", "a", "ab", "abc", "abcd", "ports", "containers", "dcba", "abcdxyabcd", "abcdyxabcd"];
        let twins = ["abcdxxabcd", "abcdyyabcd"];
        let mut sorted: Vec<(u64, &str)> =
            names.into_iter().chain(twins).map(|name| (fingerprint(name), name)).collect();
        sorted.sort_unstable();
        let found = |name: &str| {
            find(&sorted, name, |(fingerprint, _)| *fingerprint, |(_, known)| known).map(|(_, name)| *name)
        };
        for name in names.into_iter().chain(twins) {
            assert_eq!(found(name), Some(name));
        }
        for other in ["b", "abcdzzabcd", "abcdabcd", "port", "Ports"] {
            assert_eq!(found(other), None);
        }
    }
}
