//! The flags of commands, and words of a command line into arguments and values of flags.

use std::collections::BTreeMap;

use sternpost_golang::{
    pflag::{self, Word},
    strconv::parse_bool,
};

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

    fn as_pflag(&self) -> pflag::Flag {
        let default_without_value = matches!(self.takes, Takes::Switch(_)).then_some("true");
        pflag::Flag { name: self.name.to_owned(), shorthand: self.short, default_without_value }
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
        pflag::read(words, &Known(flags), |word| {
            match word {
                Word::Flag(flag, value) => read.set(&flag, value, flags)?,
                Word::Argument(argument) => read.arguments.push(argument),
                Word::Dashes => read.before_dashes = Some(read.arguments.len()),
            }
            Ok(())
        })?;
        Ok(read)
    }

    fn set(&mut self, given: &pflag::Flag, value: String, flags: &'static [Flag]) -> Result<(), String> {
        let Some(flag) = known(flags).find(|flag| flag.name == given.name) else { return Ok(()) };
        let values = self.values.entry(flag.name).or_default();
        match flag.takes {
            Takes::Switch(_) => {
                let on = parse_bool(&value)
                    .map_err(|error| given.invalid_argument(&value, &error.text("ParseBool", &value)))?;
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

struct Known(&'static [Flag]);

impl pflag::Flags for Known {
    fn long(&self, name: &str) -> Option<pflag::Flag> {
        known(self.0).find(|flag| flag.name == name).map(Flag::as_pflag)
    }

    fn shorthand(&self, letter: char) -> Option<pflag::Flag> {
        known(self.0).find(|flag| flag.short == Some(letter)).map(Flag::as_pflag)
    }
}
