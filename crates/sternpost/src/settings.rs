//! Settings from the environment and from a file, which become words of the command line. Entry point: [`complete`].
//!
//! Every flag of `serve` and `run` can be set by a variable (`--data-dir`: `STERNPOST_DATA_DIR`) and in the file of
//! `--config`. The command line wins over variables, and these over the file; what wins also takes the place of what
//! cannot be used with it.
//!
//! clap can read variables, too. It does not say which one is wrong, takes a flag beside a variable that it
//! excludes for a mistake, and would read them wherever flags are read: in the place of kube-apiserver, and for the
//! server within `validate`.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::Path,
};

use anyhow::anyhow;
use clap::{
    Arg, ArgAction, Command, CommandFactory,
    builder::Resettable,
    error::{ContextKind, ContextValue},
    parser::ValueSource,
};
use sternpost_golang::strconv::parse_bool;
use sternpost_yaml::node::{Node, read_node, read_nodes};

use crate::{cli::Cli, config_file, terminal};
use sternpost_meta::nearest::nearest;

/// What variables begin with.
const PREFIX: &str = "STERNPOST_";

/// The flag that names the file, and so is not set in one.
const CONFIG: &str = "config";

const COMMANDS: [&str; 2] = ["serve", "run"];

/// The words of a command line, with those that variables and the file add.
pub fn complete(words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    for warning in misspelt(&words, std::env::vars_os().map(|(name, _)| name)) {
        terminal::tell(&format!("warning: {warning}"));
    }
    #[expect(clippy::disallowed_methods, reason = "settings are a matter of the environment")]
    complete_with(words, |name| std::env::var_os(name))
}

/// Variables that are no settings, but nearly called like one.
fn misspelt(words: &[OsString], variables: impl Iterator<Item = OsString>) -> Vec<String> {
    let variables = variables.filter_map(|name| name.into_string().ok());
    let variables: Vec<String> = variables.filter(|name| name.starts_with(PREFIX)).collect();
    if variables.is_empty() {
        // As most often: all commands are not made up for nothing.
        return vec![];
    }
    let cli = Cli::command();
    let Some(command) = command(&cli, words) else { return vec![] };
    let known: Vec<String> = flags(command).map(|(flag, _)| variable_name(flag)).collect();
    let mut warnings = vec![];
    for name in variables {
        let Some(own) = name.strip_prefix(PREFIX).filter(|_| !known.contains(&name)) else { continue };
        let near = nearest(own, known.iter().filter_map(|known| known.strip_prefix(PREFIX)));
        warnings.extend(near.map(|near| format!("{name} is no setting; did you mean {PREFIX}{near}?")));
    }
    warnings.sort();
    warnings
}

/// The command whose settings they are.
fn command<'c>(cli: &'c Command, words: &[OsString]) -> Option<&'c Command> {
    let named = COMMANDS.into_iter().find(|command| words.get(1).is_some_and(|word| word == command))?;
    cli.find_subcommand(named)
}

fn complete_with(
    mut words: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> anyhow::Result<Vec<OsString>> {
    let cli = Cli::command();
    let Some(command) = command(&cli, &words) else { return Ok(words) };
    let Some(given) = Given::read(command, words.iter().skip(1)) else {
        // What is wrong with the command line is told by who reads it in earnest.
        return Ok(words);
    };
    let mut decided = Decided { command, flags: given.flags, added: vec![] };
    let config = given.config.or_else(|| variable(&variable_name(CONFIG)).filter(|path| !path.is_empty()));
    decided.add(from_variables(command, &decided.flags, variable)?)?;
    if let Some(path) = config {
        decided.add(from_file(command, Path::new(&path))?)?;
    }
    // Before those of the command line: what stands behind `--` is not for us.
    words.splice(2..2, decided.added);
    Ok(words)
}

/// What the command line itself says.
struct Given {
    /// Flags by their ids.
    flags: BTreeMap<String, State>,
    config: Option<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    On,
    /// A switch that is said to be off: it excludes nothing.
    Off,
}

impl Given {
    fn read<'w>(command: &Command, words: impl Iterator<Item = &'w OsString>) -> Option<Self> {
        // What a flag needs may be in the environment.
        let alone = command.clone().mut_args(alone);
        let matches = alone.try_get_matches_from(words).ok()?;
        let is_given =
            |flag: &&Arg| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine);
        let given = flags(command).map(|(_, flag)| flag).filter(is_given);
        let flags = given.map(|flag| (flag.get_id().to_string(), State::On)).collect();
        let config = matches.get_raw(CONFIG).and_then(|mut paths| paths.next()).map(OsStr::to_owned);
        Some(Self { flags, config })
    }
}

/// A flag whatever others there are.
fn alone(flag: Arg) -> Arg {
    flag.conflicts_with(Resettable::Reset).requires(Resettable::Reset)
}

fn flags(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    command.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag)))
}

/// A flag that a variable or the file sets.
struct Setting<'c> {
    flag: &'c Arg,
    words: Vec<OsString>,
    /// What sets it, as messages call it.
    by: By,
}

enum By {
    Variable(String),
    File { place: String, name: String },
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::File { name, .. } => write!(f, "`{name}`"),
        }
    }
}

impl By {
    fn wrong(&self, problem: impl fmt::Display) -> anyhow::Error {
        match self {
            Self::Variable(_) => anyhow!("{problem}"),
            Self::File { place, .. } => anyhow!("{place}: {problem}"),
        }
    }
}

/// Flags that are set so far, by whoever comes first.
struct Decided<'c> {
    command: &'c Command,
    flags: BTreeMap<String, State>,
    added: Vec<OsString>,
}

impl Decided<'_> {
    /// Adds what nothing before has set or excluded. What comes together must go together.
    fn add(&mut self, settings: Vec<Setting<'_>>) -> anyhow::Result<()> {
        let mut new = BTreeMap::new();
        let mut on: Vec<Setting<'_>> = vec![];
        for setting in settings {
            let id = setting.flag.get_id().to_string();
            if self.flags.contains_key(&id) {
                continue;
            }
            if setting.words.is_empty() {
                new.insert(id, State::Off);
                continue;
            }
            let is_on = |flag: &Arg| self.flags.get(flag.get_id().as_str()) == Some(&State::On);
            if flags(self.command).any(|(_, other)| is_on(other) && self.excludes(other, setting.flag)) {
                continue;
            }
            if let Some(other) = on.iter().find(|other| self.excludes(other.flag, setting.flag)) {
                return Err(setting.by.wrong(format!("{} cannot be used with {}", setting.by, other.by)));
            }
            new.insert(id, State::On);
            on.push(setting);
        }
        self.flags.append(&mut new);
        self.added.extend(on.into_iter().flat_map(|setting| setting.words));
        Ok(())
    }

    fn excludes(&self, a: &Arg, b: &Arg) -> bool {
        let names = |a: &Arg, b: &Arg| {
            self.command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
        };
        names(a, b) || names(b, a)
    }
}

fn variable_name(flag: &str) -> String {
    format!("{PREFIX}{}", flag.replace('-', "_").to_ascii_uppercase())
}

/// Of flags that are not decided. One that is empty is not set, and others of this prefix may be somebody else's:
/// Kubernetes puts `STERNPOST_SERVICE_HOST` beside a service of that name.
fn from_variables<'c>(
    command: &'c Command,
    decided: &BTreeMap<String, State>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> anyhow::Result<Vec<Setting<'c>>> {
    let mut settings = vec![];
    for (name, flag) in flags(command) {
        if name == CONFIG || decided.contains_key(flag.get_id().as_str()) {
            continue;
        }
        let variable_name = variable_name(name);
        let Some(value) = variable(&variable_name).filter(|value| !value.is_empty()) else { continue };
        let by = By::Variable(variable_name);
        let words = words(flag, name, &value, &by)?;
        settings.push(Setting { flag, words, by });
    }
    Ok(settings)
}

/// A mapping of the names of flags to their values; lists for those that may be repeated.
fn from_file<'c>(command: &'c Command, path: &Path) -> anyhow::Result<Vec<Setting<'c>>> {
    let text = config_file::read(path)?;
    let root = read_node(&text).map_err(|error| {
        let error = error.error;
        anyhow!("{}:{}:{}: {}", path.display(), error.line, error.column, error.problem)
    })?;
    let Some(root) = root.filter(|root| !root.is_null()) else { return Ok(vec![]) };
    let place = |node: &Node| format!("{}:{}:{}", path.display(), node.line, node.column);
    let wrong = |node: &Node, problem: &str| anyhow!("{}: {problem}", place(node));
    if let Some(second) = read_nodes(&text).get(1) {
        return Err(wrong(second, "want one document"));
    }
    if !root.is_mapping() {
        return Err(wrong(&root, "want flags and their values, such as `in-memory: true`"));
    }
    let mut settings: Vec<Setting<'c>> = vec![];
    let mut seen = BTreeMap::new();
    for (key, value) in root.pairs() {
        let name = key.as_text().ok_or_else(|| wrong(key, "want the name of a flag"))?;
        let Some((name, flag)) = flags(command).find(|(known, _)| *known == name && *known != CONFIG) else {
            let near = nearest(name, flags(command).map(|(known, _)| known).filter(|known| *known != CONFIG));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(wrong(key, &format!("there is no setting `{name}`{near}")));
        };
        if let Some(first) = seen.insert(name, key.line) {
            return Err(wrong(key, &format!("`{name}` is set already in line {first}")));
        }
        let values = match value {
            list if list.is_sequence() && matches!(flag.get_action(), ArgAction::Append) => list.items(),
            one => std::slice::from_ref(one),
        };
        let mut all = vec![];
        for value in values {
            let by = By::File { place: place(value), name: name.to_owned() };
            let scalar = value.scalar().filter(|_| !value.is_null());
            let scalar = scalar.ok_or_else(|| by.wrong(format!("want a value for `{name}`")))?;
            all.extend(words(flag, name, OsStr::new(&scalar.text), &by)?);
        }
        settings.push(Setting {
            flag,
            words: all,
            by: By::File { place: place(key), name: name.to_owned() },
        });
    }
    Ok(settings)
}

/// The flag with this value, as it stands on a command line.
fn words(flag: &Arg, name: &str, value: &OsStr, by: &By) -> anyhow::Result<Vec<OsString>> {
    if !flag.get_action().takes_values() {
        return match value.to_str().map(parse_bool) {
            Some(Ok(true)) => Ok(vec![format!("--{name}").into()]),
            Some(Ok(false)) => Ok(vec![]),
            _ => Err(by.wrong(format!("invalid value '{}' for {by}: want true or false", value.display()))),
        };
    }
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    let single = Command::new("setting").no_binary_name(true).arg(alone(flag.clone()));
    match single.try_get_matches_from([&word]) {
        Ok(_) => Ok(vec![word]),
        Err(error) => Err(by.wrong(problem(&error, value, by))),
    }
}

/// What clap says of a flag, said of what sets it.
fn problem(error: &clap::Error, value: &OsStr, by: &By) -> String {
    let found = error.get(ContextKind::InvalidValue).map(ToString::to_string);
    let found = found.unwrap_or_else(|| value.to_string_lossy().into_owned());
    let reason = match (std::error::Error::source(error), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => source.to_string(),
        (None, Some(ContextValue::Strings(valid))) => format!("want one of {}", valid.join(", ")),
        _ => "it cannot be read".to_owned(),
    };
    format!("invalid value '{found}' for {by}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(words: &[&str], variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let variable = |wanted: &str| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| OsString::from(value))
        };
        let words = ["sternpost"].iter().chain(words).map(OsString::from).collect();
        let words = complete_with(words, variable).map_err(|error| error.to_string())?;
        Ok(words.into_iter().skip(1).map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn variables_that_are_nearly_settings_are_told_of() {
        let told = |command: &str, names: &[&str]| {
            let words = ["sternpost", command].map(OsString::from);
            misspelt(&words, names.iter().map(OsString::from))
        };
        let names =
            ["STERNPOST_DATADIR", "STERNPOST_LISTEN", "STERNPOST_SERVICE_HOST", "STERNPOST_PORT", "DATADIR"];
        assert_eq!(
            told("serve", &names),
            ["STERNPOST_DATADIR is no setting; did you mean STERNPOST_DATA_DIR?"]
        );
        assert_eq!(told("build", &names), [""; 0]);
    }

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("sternpost-settings-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_command_line_wins_over_variables_and_these_over_the_file() {
        let path = file(
            "order",
            "listen: :1\nlog-level: error\nlog-format: json\ntls-san: [a, b]\nload: [x.yaml, 'y.yaml']\n",
        );
        let variables =
            [("STERNPOST_LISTEN", ":2"), ("STERNPOST_LOG_LEVEL", "warn"), ("STERNPOST_CONFIG", &path)];
        assert_eq!(
            completed(&["serve", "--listen", ":3"], &variables).unwrap(),
            [
                "serve",
                "--log-level=warn",
                "--log-format=json",
                "--tls-san=a",
                "--tls-san=b",
                "--load=x.yaml",
                "--load=y.yaml",
                "--listen",
                ":3"
            ]
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_wins_takes_the_place_of_what_it_excludes() {
        let path = file("excluded", "data-dir: d\n");
        let config = format!("--config={path}");
        for (words, variables, expected) in [
            (
                &["serve", "--in-memory"][..],
                &[("STERNPOST_DATA_DIR", "d")][..],
                &["serve", "--in-memory"][..],
            ),
            (&["serve", "--data-dir=e"], &[("STERNPOST_IN_MEMORY", "true")], &["serve", "--data-dir=e"]),
            (&["serve", &config], &[("STERNPOST_IN_MEMORY", "1")], &["serve", "--in-memory", &config]),
            (&["serve", &config], &[("STERNPOST_IN_MEMORY", "0")], &["serve", "--data-dir=d", &config]),
        ] {
            assert_eq!(completed(words, variables).unwrap(), expected, "{words:?} {variables:?}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn words_are_left_alone_where_there_is_nothing_to_add() {
        let variables = [
            ("STERNPOST_LISTEN", ":2"),
            ("STERNPOST_KUBECONFIG", ""),
            ("STERNPOST_SERVICE_HOST", "10.0.0.1"),
        ];
        for (words, expected) in [
            (&["version"][..], &["version"][..]),
            (&["validate", "serve"], &["validate", "serve"]),
            // Help, and what is wrong, is told by who reads the words in earnest.
            (&["serve", "--help"], &["serve", "--help"]),
            (&["serve", "--nonsense"], &["serve", "--nonsense"]),
            (&["run", "--", "serve", "--listen=x"], &["run", "--listen=:2", "--", "serve", "--listen=x"]),
            (&[], &[]),
        ] {
            assert_eq!(completed(words, &variables).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn every_flag_has_a_variable_of_its_own() {
        let cli = Cli::command();
        for command in COMMANDS {
            let command = cli.find_subcommand(command).unwrap();
            let names: std::collections::BTreeSet<_> =
                flags(command).map(|(name, _)| variable_name(name)).collect();
            assert_eq!(names.len(), flags(command).count());
            assert!(names.contains("STERNPOST_HTTP2_MAX_STREAMS_PER_CONNECTION"), "{names:?}");
        }
    }

    #[test]
    fn wrong_variables_are_named() {
        for (name, value, expected) in [
            (
                "STERNPOST_LISTEN",
                "6443",
                "invalid value '6443' for STERNPOST_LISTEN: want ADDRESS:PORT, such as 127.0.0.1:6443, \
                 localhost:6443 or :6443",
            ),
            ("STERNPOST_IN_MEMORY", "yes", "invalid value 'yes' for STERNPOST_IN_MEMORY: want true or false"),
            (
                "STERNPOST_LOG_FORMAT",
                "xml",
                "invalid value 'xml' for STERNPOST_LOG_FORMAT: want one of text, json",
            ),
            (
                "STERNPOST_TLS_SAN",
                "a,-",
                "invalid value '-' for STERNPOST_TLS_SAN: want the name of a host, such as api.example.com or \
                 *.example.com, or an IP address",
            ),
        ] {
            assert_eq!(completed(&["serve"], &[(name, value)]), Err(expected.into()));
        }
        let both = [("STERNPOST_IN_MEMORY", "true"), ("STERNPOST_DATA_DIR", "d")];
        let expected = "STERNPOST_IN_MEMORY cannot be used with STERNPOST_DATA_DIR";
        assert_eq!(completed(&["serve"], &both), Err(expected.into()));
    }

    #[test]
    fn wrong_files_are_told_with_the_place() {
        for (text, expected) in [
            ("", Ok(())),
            ("# nothing\n", Ok(())),
            ("max-connections: 100\nin-memory: true\nenable-priority-and-fairness: false\n", Ok(())),
            ("context-name: 'a b'\nlisten: :0\n", Ok(())),
            ("lisen: :0\n", Err(":1:1: there is no setting `lisen`; did you mean `listen`?")),
            (
                "in-memory: true\ndataDir: x\n",
                Err(":2:1: there is no setting `dataDir`; did you mean `data-dir`?"),
            ),
            ("config: x\n", Err(":1:1: there is no setting `config`")),
            ("help: true\n", Err(":1:1: there is no setting `help`")),
            ("port: 1\n", Err(":1:1: there is no setting `port`")),
            ("7: 1\n", Err(":1:1: there is no setting `7`")),
            ("[a]: 1\n", Err(":1:1: want the name of a flag")),
            ("listen: :0\nlisten: :1\n", Err(":2:1: `listen` is set already in line 1")),
            ("in-memory: maybe\n", Err(":1:12: invalid value 'maybe' for `in-memory`: want true or false")),
            (
                "max-connections: many\n",
                Err(":1:18: invalid value 'many' for `max-connections`: invalid digit found in string"),
            ),
            (
                "log-level: loud\n",
                Err(
                    ":1:12: invalid value 'loud' for `log-level`: want one of error, warn, info, debug, trace",
                ),
            ),
            ("listen: [':0']\n", Err(":1:9: want a value for `listen`")),
            ("listen:\n", Err(":1:8: want a value for `listen`")),
            ("tls-san:\n- a\n- {}\n", Err(":3:3: want a value for `tls-san`")),
            (
                "tls-san:\n- a\n- 'b c'\n",
                Err(
                    ":3:3: invalid value 'b c' for `tls-san`: want the name of a host, such as api.example.com or *.example.com, or an IP address",
                ),
            ),
            ("in-memory: true\ndata-dir: d\n", Err(":2:1: `data-dir` cannot be used with `in-memory`")),
            ("- listen\n", Err(":1:1: want flags and their values, such as `in-memory: true`")),
            ("listen: :0\n---\nlisten: :1\n", Err(":3:1: want one document")),
            ("a: [\n", Err(":2:1: did not find expected node content while parsing a flow node")),
        ] {
            let path = file("wrong", text);
            let expected = expected.map_err(|problem| format!("{path}{problem}"));
            let found = completed(&["serve", "--config", &path], &[]).map(drop);
            assert_eq!(found, expected, "{text}");
            std::fs::remove_file(path).unwrap();
        }
        let absent = completed(&["serve", "--config", "/no/such"], &[]).unwrap_err();
        assert_eq!(absent, "cannot read `/no/such`");
    }
}
