//! Recorded cases as tests: each has a name, is listed by `--list` and runs alone.
//!
//! For test targets with `harness = false`, whose `main` puts a [`Suite`] together and runs it. It takes the
//! arguments of any other test: `cargo test --test recorded -- --exact NAME`.

use std::{collections::HashMap, process::ExitCode};

use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};

/// More tests than this are shown as dots, unless the caller chose some or a format.
const SHOWN_BY_NAME: usize = 200;

/// The tests of one binary.
#[derive(Debug, Default)]
pub struct Suite {
    tests: Vec<Trial>,
    /// How often each name was given.
    names: HashMap<String, usize>,
    at_a_time: Option<usize>,
}

impl Suite {
    /// One test. It fails with what it answers, or by panicking.
    ///
    /// Of several with the same name the later ones get a number.
    pub fn case(&mut self, name: &str, check: impl FnOnce() -> Result<(), String> + Send + 'static) {
        let mut name = one_line(name);
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name = format!("{name} #{count}");
        }
        self.tests.push(Trial::test(name, || check().map_err(Failed::from)));
    }

    /// One test that can only fail by panicking.
    pub fn test(&mut self, name: &str, check: impl FnOnce() + Send + 'static) {
        self.case(name, || {
            check();
            Ok(())
        });
    }

    /// The cases of one recording, `GROUP/CASE` each, and a test that they are all there.
    pub fn group<Check>(
        &mut self,
        group: &str,
        at_least: usize,
        cases: impl IntoIterator<Item = (String, Check)>,
    ) where
        Check: FnOnce() -> Result<(), String> + Send + 'static,
    {
        let before = self.tests.len();
        for (name, check) in cases {
            self.case(&format!("{group}/{name}"), check);
        }
        let count = self.tests.len() - before;
        self.case(&format!("{group} has at least {at_least} cases"), move || {
            if count >= at_least { Ok(()) } else { Err(format!("there are {count}")) }
        });
    }

    /// Tests that run side by side, if the caller does not choose; for tests that wait more than they work.
    #[must_use]
    pub fn at_a_time(mut self, count: usize) -> Self {
        self.at_a_time = Some(count);
        self
    }

    /// Runs what the arguments of this process choose.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads = arguments.test_threads.or(self.at_a_time);
        if self.tests.len() > SHOWN_BY_NAME
            && arguments.filter.is_none()
            && arguments.format.is_none()
            && !arguments.list
        {
            arguments.format = Some(FormatSetting::Terse);
        }
        libtest_mimic::run(&arguments, self.tests).exit_code()
    }
}

/// A name is a line of the list of tests.
fn one_line(name: &str) -> String {
    name.chars()
        .flat_map(|char| {
            let escaped = char.is_control().then(|| char.escape_default());
            let plain = escaped.is_none().then_some(char);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lines_and_told_apart() {
        let mut suite = Suite::default();
        suite.group("g", 2, ["a\nb", "a\nb"].map(|name| (name.to_owned(), || Ok(()))));
        let names: Vec<&str> = suite.tests.iter().map(Trial::name).collect();
        assert_eq!(names, ["g/a\\nb", "g/a\\nb #2", "g has at least 2 cases"]);
    }
}
