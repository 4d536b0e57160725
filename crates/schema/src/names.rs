//! Finding a field of a type by its name, without comparing names that are not it.

/// Up to here a name of known length is told by its [`fingerprint`].
const TOLD: usize = 8;

/// Where each of some names stands among them.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Fingerprint and place, in order of the fingerprints, those that share one by name.
    sorted: Box<[(u64, u32)]>,
    /// Where those begin in `sorted` whose fingerprints have the same highest bits; one more than there are such.
    begins: Box<[u32]>,
    /// What a fingerprint is shifted by to have its highest bits alone.
    shift: u32,
}

impl Places {
    /// Of the names in the order that they are told.
    pub fn new(names: &[impl AsRef<str>]) -> Self {
        let place = |(place, name): (usize, _)| Some((fingerprint(name), u32::try_from(place).ok()?, name));
        let mut sorted: Vec<_> = names.iter().map(AsRef::as_ref).enumerate().filter_map(place).collect();
        sorted.sort_unstable_by(|(a, _, a_name), (b, _, b_name)| (a, a_name).cmp(&(b, b_name)));
        // Twice as many as names, so that few have two.
        let bits = sorted.len().next_power_of_two().trailing_zeros() + 1;
        let shift = u64::BITS - bits;
        let begins = (0..=1_u64 << bits).map(|bucket| {
            let begin = sorted.partition_point(|(fingerprint, ..)| fingerprint >> shift < bucket);
            u32::try_from(begin).unwrap_or(u32::MAX)
        });
        Self {
            begins: begins.collect(),
            sorted: sorted.iter().map(|(fingerprint, place, _)| (*fingerprint, *place)).collect(),
            shift,
        }
    }

    /// The place of a name, if it is one of them.
    pub fn find<'a>(&self, name: &str, name_at: impl Fn(usize) -> &'a str) -> Option<usize> {
        let wanted = fingerprint(name);
        let bucket = usize::try_from(wanted >> self.shift).ok()?;
        let [begin, end] = *self.begins.get(bucket..)?.first_chunk::<2>()?;
        let at = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
        let bucket = self.sorted.get(at(begin)..at(end))?;
        let same = bucket.partition_point(|(known, _)| *known < wanted);
        let (known, place) = bucket.get(same)?;
        if *known != wanted {
            return None;
        }
        let first = name_at(at(*place));
        if first.len() == name.len() && (name.len() <= TOLD || first == name) {
            return Some(at(*place));
        }
        // Somebody has chosen them so.
        let found = bucket
            .binary_search_by(|(known, place)| (*known, name_at(at(*place))).cmp(&(wanted, name)))
            .ok()?;
        bucket.get(found).map(|(_, place)| at(*place))
    }
}

/// How long a name is, how it begins and how it ends, in one number. Names of one type hardly ever share it, unless
/// somebody has chosen them so.
fn fingerprint(name: &str) -> u64 {
    /// Odd, so that numbers that differ do so afterwards, and with no pattern, so that the highest bits depend on all.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let bytes = name.as_bytes();
    let ends = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    };
    // Lengths differ in few bits, letters hardly in the highest.
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    (ends ^ length.wrapping_mul(1 << 59)).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(places: &Places, names: &[&'static str], name: &str) -> Option<&'static str> {
        places.find(name, |place| names[place]).map(|place| names[place])
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        // The last four have one fingerprint.
        let names = [
            "",
            "a",
            "ab",
            "abc",
            "abcd",
            "ports",
            "containers",
            "dcba",
            "abcdxyabcd",
            "abcdyxabcd",
            "abcdxxabcd",
            "abcdyyabcd",
        ];
        let places = Places::new(&names);
        for name in names {
            assert_eq!(place(&places, &names, name), Some(name));
        }
        for other in ["b", "abcdzzabcd", "abcdabcd", "port", "Ports", "\0a", "abcdxyabcdx"] {
            assert_eq!(place(&places, &names, other), None, "{other}");
        }
        assert_eq!(place(&Places::new(&[""; 0]), &[], "a"), None);
        assert_eq!(place(&Places::default(), &[], "a"), None);
    }

    #[test]
    fn names_that_were_chosen_to_be_alike_are_found() {
        let names: Vec<String> = (0..5_000).map(|number| format!("abcd{number:04}abcd")).collect();
        let places = Places::new(&names);
        for (at, name) in names.iter().enumerate() {
            assert_eq!(places.find(name, |place| &names[place]), Some(at));
        }
        assert_eq!(places.find("abcd9999abcd", |place| &names[place]), None);
    }
}
