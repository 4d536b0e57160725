//! Command lines as `pflag` reads them, with its messages, since scripts look for them.

use crate::strconv::go_quote;

/// A flag as far as reading words needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub name: String,
    pub shorthand: Option<char>,
    /// What it is without a value; `None` if it needs one.
    pub default_without_value: Option<&'static str>,
}

impl Flag {
    /// The answer to a value that does not fit; `problem` says why.
    pub fn invalid_argument(&self, value: &str, problem: &str) -> String {
        let shown = match self.shorthand {
            Some(shorthand) => format!("-{shorthand}, --{}", self.name),
            None => format!("--{}", self.name),
        };
        format!("invalid argument {} for \"{shown}\" flag: {problem}", go_quote(value))
    }
}

/// What a program can be told, in the order of the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    Flag(Flag, String),
    Argument(String),
    /// `--`: only arguments follow.
    Dashes,
}

/// Which flags there are.
pub trait Flags {
    fn long(&self, name: &str) -> Option<Flag>;
    fn shorthand(&self, letter: char) -> Option<Flag>;
}

/// Hands the words over one by one and stops at the first that is refused.
pub fn read(
    words: &[String],
    flags: &impl Flags,
    mut found: impl FnMut(Word) -> Result<(), String>,
) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            found(Word::Dashes)?;
            return words.cloned().map(Word::Argument).try_for_each(found);
        }
        if let Some(long) = word.strip_prefix("--") {
            if long.starts_with(['-', '=']) {
                return Err(format!("bad flag syntax: {word}"));
            }
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = flags.long(name).ok_or_else(|| format!("unknown flag: --{name}"))?;
            let value = value.or_else(|| flag.default_without_value.map(str::to_owned));
            let value = value.or_else(|| words.next().cloned());
            let value = value.ok_or_else(|| format!("flag needs an argument: --{name}"))?;
            found(Word::Flag(flag, value))?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            read_letters(letters, flags, &mut words, &mut found)?;
        } else {
            found(Word::Argument(word.clone()))?;
        }
    }
    Ok(())
}

/// `-v4`, `-v=4`, `-v 4`, `-hv4`.
fn read_letters<'a>(
    letters: &str,
    flags: &impl Flags,
    words: &mut impl Iterator<Item = &'a String>,
    found: &mut impl FnMut(Word) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        let whole = rest;
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        let unknown = || format!("unknown shorthand flag: '{letter}' in -{whole}");
        let flag = flags.shorthand(letter).ok_or_else(unknown)?;
        if let Some(value) = rest.strip_prefix('=') {
            return found(Word::Flag(flag, value.to_owned()));
        }
        if let Some(value) = flag.default_without_value {
            found(Word::Flag(flag, value.to_owned()))?;
            continue;
        }
        let value = if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
        let value = value.ok_or_else(|| format!("flag needs an argument: '{letter}' in -{whole}"))?;
        return found(Word::Flag(flag, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl Flags for Known {
        fn long(&self, name: &str) -> Option<Flag> {
            let (shorthand, default_without_value) = match name {
                "all" => (Some('a'), Some("true")),
                "output" => (Some('o'), None),
                "plain" => (None, None),
                _ => return None,
            };
            Some(Flag { name: name.into(), shorthand, default_without_value })
        }

        fn shorthand(&self, letter: char) -> Option<Flag> {
            ["all", "output"]
                .into_iter()
                .filter_map(|name| self.long(name))
                .find(|flag| flag.shorthand == Some(letter))
        }
    }

    fn read_all(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut all = Vec::new();
        read(&words, &Known, |word| {
            all.push(match word {
                Word::Flag(flag, value) if value == "bad" => return Err(flag.invalid_argument(&value, "why")),
                Word::Flag(flag, value) => format!("{}={value}", flag.name),
                Word::Argument(argument) => argument,
                Word::Dashes => "--".into(),
            });
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn values_follow_flags_in_every_way() {
        let words = ["-ao", "x", "-oy", "-o=z", "--output", "--all", "--output=", "-", "--all=f", "--", "-a"];
        let found = [
            "all=true",
            "output=x",
            "output=y",
            "output=z",
            "output=--all",
            "output=",
            "-",
            "all=f",
            "--",
            "-a",
        ];
        assert_eq!(read_all(&words).unwrap(), found);
    }

    #[test]
    fn refusals_have_pflags_texts() {
        for (word, problem) in [
            ("--none", "unknown flag: --none"),
            ("---all", "bad flag syntax: ---all"),
            ("--=x", "bad flag syntax: --=x"),
            ("--plain", "flag needs an argument: --plain"),
            ("-ax", "unknown shorthand flag: 'x' in -x"),
            ("-ao", "flag needs an argument: 'o' in -o"),
            ("--output=bad", "invalid argument \"bad\" for \"-o, --output\" flag: why"),
            ("--plain=bad", "invalid argument \"bad\" for \"--plain\" flag: why"),
        ] {
            assert_eq!(read_all(&[word]).unwrap_err(), problem);
        }
    }
}
