//! `filepath.Match`: patterns of paths.

use std::fmt;

/// A pattern that is none: a bracket or backslash without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPattern;

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("syntax error in pattern")
    }
}

impl std::error::Error for BadPattern {}

/// Whether the whole of `name` fits; `*` and `?` stop at a slash.
pub fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let pattern = parts(pattern)?;
    let name: Vec<char> = name.chars().collect();
    // Which parts may come next, after each character: stars make it several.
    let mut states = vec![false; pattern.len() + 1];
    let start = |states: &mut Vec<bool>, from: usize| {
        let mut at = from;
        loop {
            if let Some(state) = states.get_mut(at) {
                *state = true;
            }
            match pattern.get(at) {
                Some(Part::Star) => at += 1,
                _ => break,
            }
        }
    };
    start(&mut states, 0);
    for char in name {
        let mut next = vec![false; pattern.len() + 1];
        for (at, part) in pattern.iter().enumerate() {
            if !states.get(at).copied().unwrap_or_default() {
                continue;
            }
            match part {
                Part::Star if char != '/' => start(&mut next, at),
                Part::Any if char != '/' => start(&mut next, at + 1),
                Part::One(one) if *one == char => start(&mut next, at + 1),
                Part::Class { negated, ranges } => {
                    let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&char));
                    if inside != *negated {
                        start(&mut next, at + 1);
                    }
                }
                _ => {}
            }
        }
        states = next;
    }
    Ok(states.last().copied().unwrap_or_default())
}

enum Part {
    Star,
    Any,
    One(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

fn parts(pattern: &str) -> Result<Vec<Part>, BadPattern> {
    let mut parts = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(char) = rest.next() {
        parts.push(match char {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => Part::One(rest.next().ok_or(BadPattern)?),
            '[' => {
                let negated = rest.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if rest.next_if_eq(&']').is_some() {
                        if ranges.is_empty() {
                            return Err(BadPattern);
                        }
                        break;
                    }
                    let mut end = || match rest.next() {
                        None | Some('-' | ']') => Err(BadPattern),
                        Some('\\') => rest.next().ok_or(BadPattern),
                        Some(char) => Ok(char),
                    };
                    let low = end()?;
                    let high = if rest.next_if_eq(&'-').is_some() {
                        let mut end = || match rest.next() {
                            None | Some('-' | ']') => Err(BadPattern),
                            Some('\\') => rest.next().ok_or(BadPattern),
                            Some(char) => Ok(char),
                        };
                        end()?
                    } else {
                        low
                    };
                    ranges.push((low, high));
                }
                Part::Class { negated, ranges }
            }
            char => Part::One(char),
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", Ok(true)),
            ("*.yaml", "a/b.yaml", Ok(false)),
            ("a?c", "abc", Ok(true)),
            ("a?c", "a/c", Ok(false)),
            ("[a-c]x", "bx", Ok(true)),
            ("[^a-c]x", "bx", Ok(false)),
            ("a*b*c", "axxbyyc", Ok(true)),
            ("a*b*c", "axxbyy", Ok(false)),
            ("\\*", "*", Ok(true)),
            ("", "", Ok(true)),
            ("*", "", Ok(true)),
            ("[", "a", Err(BadPattern)),
            ("[]a]", "a", Err(BadPattern)),
            ("a\\", "a", Err(BadPattern)),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
