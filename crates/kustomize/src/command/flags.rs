//! Words of a command line into arguments and flags, by the rules and with the
//! messages of pflag, since scripts look for them.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    pub(crate) takes: Takes,
    pub(crate) about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing, or `=true` and `=false`; with what it is when absent.
    Switch(bool),
    Text,
    /// Each use adds a text.
    Texts,
    /// Each use adds the texts between its commas.
    List,
}

impl Flag {
    pub(crate) const fn switch(name: &'static str, about: &'static str) -> Self {
        Self { name, short: None, takes: Takes::Switch(false), about }
    }

    /// A switch that is on unless it is switched off.
    pub(crate) const fn switched_on(name: &'static str, about: &'static str) -> Self {
        Self { name, short: None, takes: Takes::Switch(true), about }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self { name, short: None, takes: Takes::Text, about }
    }

    pub(crate) const fn texts(name: &'static str, about: &'static str) -> Self {
        Self { name, short: None, takes: Takes::Texts, about }
    }

    pub(crate) const fn list(name: &'static str, about: &'static str) -> Self {
        Self { name, short: None, takes: Takes::List, about }
    }

    pub(crate) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// As messages name it.
    fn shown(&self) -> String {
        match self.short {
            Some(short) => format!("-{short}, --{}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

/// What every command knows.
const HELP: Flag = Flag::switch("help", "Print this help").short('h');
const STACK_TRACE: Flag = Flag::switch("stack-trace", "Accepted and ignored");
pub(crate) static COMMON: [Flag; 2] = [HELP, STACK_TRACE];

/// A command line, read.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) arguments: Vec<String>,
    /// How many arguments come before a `--`, if there is one.
    pub(crate) before_dashes: Option<usize>,
    values: BTreeMap<&'static str, Vec<String>>,
}

impl Words {
    pub(crate) fn read(words: &[String], flags: &'static [Flag]) -> Result<Self, String> {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                read.before_dashes = Some(read.arguments.len());
                read.arguments.extend(words.by_ref().cloned());
            } else if let Some(long) = word.strip_prefix("--") {
                read.long(long, flags, &mut words)?;
            } else if word.len() > 1 && word.starts_with('-') {
                read.shorts(word, flags, &mut words)?;
            } else {
                read.arguments.push(word.clone());
            }
        }
        Ok(read)
    }

    fn long<'w>(
        &mut self,
        word: &str,
        flags: &'static [Flag],
        words: &mut impl Iterator<Item = &'w String>,
    ) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let flag = known(flags).find(|flag| flag.name == name);
        let flag = flag.ok_or_else(|| format!("unknown flag: --{name}"))?;
        let value = match (value, flag.takes) {
            (Some(value), _) => value,
            (None, Takes::Switch(_)) => "true".to_owned(),
            (None, _) => words.next().cloned().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
        };
        self.set(flag, value)
    }

    fn shorts<'w>(
        &mut self,
        word: &str,
        flags: &'static [Flag],
        words: &mut impl Iterator<Item = &'w String>,
    ) -> Result<(), String> {
        let mut rest = word.get(1..).unwrap_or_default();
        while let Some(short) = rest.chars().next() {
            let whole = rest;
            rest = rest.get(short.len_utf8()..).unwrap_or_default();
            let flag = known(flags).find(|flag| flag.short == Some(short));
            let flag = flag.ok_or_else(|| format!("unknown shorthand flag: '{short}' in -{whole}"))?;
            if let Some(value) = rest.strip_prefix('=') {
                return self.set(flag, value.to_owned());
            }
            match flag.takes {
                Takes::Switch(_) => self.set(flag, "true".to_owned())?,
                _ if !rest.is_empty() => return self.set(flag, rest.to_owned()),
                _ => {
                    let missing = || format!("flag needs an argument: '{short}' in -{whole}");
                    let value = words.next().cloned().ok_or_else(missing)?;
                    return self.set(flag, value);
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, flag: &'static Flag, value: String) -> Result<(), String> {
        let values = self.values.entry(flag.name).or_default();
        match flag.takes {
            Takes::Switch(_) => {
                let on = switch(&value).ok_or_else(|| {
                    format!(
                        "invalid argument {} for \"{}\" flag: strconv.ParseBool: parsing {}: invalid syntax",
                        crate::go_json::go_quoted(&value),
                        flag.shown(),
                        crate::go_json::go_quoted(&value)
                    )
                })?;
                *values = vec![on.to_string()];
            }
            Takes::Text => *values = vec![value],
            Takes::Texts => values.push(value),
            Takes::List if value.is_empty() => {}
            Takes::List => values.extend(value.split(',').map(str::to_owned)),
        }
        Ok(())
    }

    /// Whether a switch is on.
    pub(crate) fn on(&self, flag: &str) -> bool {
        self.text(flag) == "true"
    }

    /// Whether a switch that is on by default still is.
    pub(crate) fn still_on(&self, flag: &str) -> bool {
        self.given(flag).is_none_or(|value| value == "true")
    }

    /// The text of a flag, empty if absent.
    pub(crate) fn text(&self, flag: &str) -> &str {
        self.given(flag).unwrap_or_default()
    }

    pub(crate) fn given(&self, flag: &str) -> Option<&str> {
        self.values.get(flag).and_then(|values| values.last()).map(String::as_str)
    }

    pub(crate) fn all(&self, flag: &str) -> &[String] {
        self.values.get(flag).map(Vec::as_slice).unwrap_or_default()
    }
}

fn known(flags: &'static [Flag]) -> impl Iterator<Item = &'static Flag> {
    flags.iter().chain(&COMMON)
}

/// As `strconv.ParseBool` reads it.
fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
