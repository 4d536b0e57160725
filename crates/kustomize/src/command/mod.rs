//! The commands of kustomize beside `build`, as a program runs them: words in,
//! an answer out. Entry point: [`run`].
//!
//! A command is a line of [`COMMANDS`] and a function elsewhere in the crate.
//! What went wrong, and when the usage follows it, is as kustomize has it; the
//! words of help and usage are our own.

pub(crate) mod flags;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{Fetcher, FileSystem, Runner, WritableFiles};
use crate::loader::{Loader, Restriction};
use crate::{Environment, Options, build, cfg, create, edit, functions, localize, openapi};

use flags::{Flag, Takes, Words};

/// Where a command runs.
pub struct Surroundings<'a> {
    pub files: &'a mut dyn WritableFiles,
    pub fetcher: &'a dyn Fetcher,
    pub runner: &'a dyn Runner,
    /// The working directory, absolute.
    pub directory: PathBuf,
    /// What standard input holds; read only by the commands that want it.
    pub input: &'a mut dyn std::io::Read,
    /// Which kustomize this is one of.
    pub version: String,
    /// How the program is called, for usage.
    pub program: String,
    /// `uid:gid` of this process, where there is such a thing.
    pub user: Option<String>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What a command has to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The exit code.
    pub status: u8,
    pub output: String,
    pub errors: String,
}

/// Runs the command that the words name, such as `edit set namespace x`.
pub fn run(surroundings: Surroundings<'_>, words: &[String]) -> Answer {
    let mut context = Context { surroundings, answer: Answer::default() };
    let (path, rest, wants_help) = split(words);
    let command = COMMANDS.iter().find(|command| command.path == path);
    let outcome = match command {
        Some(command) => Words::read(&rest, command.flags)
            .map_err(|message| Fault { message, shows_usage: command.path != ["localize"] })
            .and_then(|words| {
                if wants_help || words.on("help") {
                    context.answer.output = context.help(&path);
                    return Ok(());
                }
                (command.run)(&mut context, &words)
            }),
        None if wants_help => context.topic(&path, &rest),
        None => context.group(&path, &rest),
    };
    if let Err(fault) = outcome {
        context.answer.status = 1;
        context.log(&format!("Error: {}", fault.message));
        if fault.shows_usage {
            let usage = context.usage(&path);
            context.answer.errors.push_str(&usage);
        }
    }
    context.answer
}

/// A command as a shell may complete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Its words, such as `edit`, `set`, `namespace`.
    pub path: &'static [&'static str],
    pub about: &'static str,
    pub flags: Vec<FlagOutline>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagOutline {
    pub name: &'static str,
    pub short: Option<char>,
    /// Whether a value follows it.
    pub takes_value: bool,
    pub about: &'static str,
}

/// Every command that [`run`] knows.
pub fn outlines() -> Vec<Outline> {
    let flag = |flag: &Flag| FlagOutline {
        name: flag.name,
        short: flag.short,
        takes_value: !matches!(flag.takes, Takes::Switch(_)),
        about: flag.about,
    };
    let outline = |command: &Command| Outline {
        path: command.path,
        about: command.about,
        flags: command.flags.iter().map(flag).collect(),
    };
    COMMANDS.iter().map(outline).collect()
}

/// A command under way.
pub(crate) struct Context<'a> {
    pub(crate) surroundings: Surroundings<'a>,
    pub(crate) answer: Answer,
}

/// What ends a command.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    shows_usage: bool,
}

impl Fault {
    /// For what is no matter of usage.
    pub(crate) fn plain(fault: impl Into<Self>) -> Self {
        Self { shows_usage: false, ..fault.into() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { message: error.to_string(), shows_usage: true }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { message, shows_usage: true }
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

pub(crate) type Outcome = Result<(), Fault>;

impl Context<'_> {
    /// A line to standard error.
    pub(crate) fn log(&mut self, line: &str) {
        self.answer.errors.push_str(line);
        self.answer.errors.push('\n');
    }

    /// A line to standard output.
    pub(crate) fn say(&mut self, line: &str) {
        self.answer.output.push_str(line);
        self.answer.output.push('\n');
    }

    pub(crate) fn files(&self) -> &dyn FileSystem {
        self.surroundings.files
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        crate::files::clean(&self.surroundings.directory.join(path))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.surroundings.directory
    }

    /// Of the working directory.
    pub(crate) fn loader(&self) -> Result<Loader<'_>> {
        let directory = self.directory();
        let surroundings = &self.surroundings;
        Loader::at_directory(self.files(), surroundings.fetcher, Restriction::RootOnly, ".", directory)
    }

    /// What a kustomization builds to; its warnings are told.
    pub(crate) fn built(&mut self, shown: &str) -> Result<String> {
        let options = Options {
            shown: shown.to_owned(),
            directory: self.at(shown),
            version: self.surroundings.version.clone(),
            ..Options::default()
        };
        let surroundings = &self.surroundings;
        let environment =
            Environment { files: self.files(), fetcher: surroundings.fetcher, runner: surroundings.runner };
        let (warnings, result) = match build(environment, &options) {
            Ok(built) => (built.warnings.clone(), Ok(built.yaml())),
            Err(failed) => (failed.warnings, Err(failed.error)),
        };
        warnings.iter().for_each(|warning| self.log(warning));
        result
    }

    pub(crate) fn input(&mut self) -> Result<String, Fault> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut self.surroundings.input, &mut bytes)
            .map_err(|error| format!("standard input: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Not a command, but where some are: help, unless even that is wrong.
    fn group(&mut self, path: &[&'static str], rest: &[String]) -> Outcome {
        let words = Words::read(rest, &[])?;
        if let (true, Some(word)) = (path.is_empty(), words.arguments.first()) {
            let quoted = sternpost_golang::strconv::go_quote(word);
            return Err(Fault::plain(format!(
                "unknown command {quoted} for \"kustomize\"{}\nRun '{} --help' for usage.",
                suggestions(word),
                self.surroundings.program
            )));
        }
        self.answer.output = self.help(path);
        Ok(())
    }

    /// What `help` is asked about.
    fn topic(&mut self, path: &[&'static str], rest: &[String]) -> Outcome {
        let words = Words::read(rest, &[])?;
        if !path.is_empty() || words.arguments.is_empty() {
            self.answer.output = self.help(path);
            return Ok(());
        }
        let topics: Vec<String> = words.arguments.iter().map(|word| format!("`{word}`")).collect();
        self.log(&format!("Unknown help topic [{}]", topics.join(" ")));
        let usage = self.usage(path);
        self.answer.errors.push_str(&usage);
        Ok(())
    }

    fn help(&self, path: &[&str]) -> String {
        let about = COMMANDS.iter().find(|command| command.path == path).map(|command| command.about);
        let about = about.or_else(|| GROUPS.iter().find(|group| group.0 == path).map(|group| group.1));
        format!("{}\n\n{}", about.unwrap_or("The commands of kustomize"), self.usage(path))
    }

    fn usage(&self, path: &[&str]) -> String {
        let mut usage = format!("Usage:\n  {}", self.surroundings.program);
        for word in path {
            let _ = write!(usage, " {word}");
        }
        let mut flags: &[Flag] = &[];
        if let Some(command) = COMMANDS.iter().find(|command| command.path == path) {
            let _ = write!(usage, " {}", command.arguments);
            usage.truncate(usage.trim_end().len());
            usage.push_str(" [flags]\n");
            flags = command.flags;
        } else {
            usage.push_str(" [command]\n\nCommands:\n");
            let beside = BESIDE.iter().filter(|_| path.is_empty());
            let beside = beside.map(|(name, about)| ((*name).to_owned(), *about));
            let inside = COMMANDS.iter().filter(|command| command.path.starts_with(path));
            let inside = inside.map(|command| (command.path.join(" "), command.about));
            let listed: Vec<(String, &str)> = beside.chain(inside).collect();
            let width = listed.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
            for (name, about) in listed {
                let _ = writeln!(usage, "  {name:width$}  {about}");
            }
        }
        usage.push_str("\nFlags:\n");
        for flag in flags.iter().chain(&flags::COMMON) {
            let short = flag.short.map_or("    ".to_owned(), |short| format!("-{short}, "));
            let value = match flag.takes {
                Takes::Switch(false) => "",
                Takes::Switch(true) => "=false",
                Takes::Text | Takes::Texts => " TEXT",
                Takes::List => " TEXT,...",
            };
            let name = format!("{short}--{}{value}", flag.name);
            let _ = writeln!(usage, "  {name:34}  {}", flag.about);
        }
        usage
    }
}

/// How many letters may be different in a word for which another is suggested, as cobra has it.
const MAX_DIFFERENCE: usize = 2;

/// What may be meant by a command that there is not, in cobra's words.
fn suggestions(word: &str) -> String {
    let word = word.to_lowercase();
    let is_near =
        |name: &&&str| name.starts_with(&word) || strsim::levenshtein(&word, name) <= MAX_DIFFERENCE;
    let near: Vec<String> = NAMES.iter().filter(is_near).map(|name| format!("\t{name}\n")).collect();
    if near.is_empty() { String::new() } else { format!("\n\nDid you mean this?\n{}", near.concat()) }
}

/// The words that name a command, the others, and whether help is asked for.
fn split(words: &[String]) -> (Vec<&'static str>, Vec<String>, bool) {
    let mut path: Vec<&'static str> = Vec::new();
    let mut rest = Vec::new();
    let mut wants_help = false;
    let mut words = words.iter();
    for word in words.by_ref() {
        if word.starts_with('-') {
            rest.push(word.clone());
            if !matches!(word.as_str(), "--help" | "-h") && !word.starts_with("--stack-trace") {
                break;
            }
            continue;
        }
        let word = if path.is_empty() && word == "init" { "create" } else { word };
        if word == "help" && !COMMANDS.iter().any(|command| command.path == path) {
            wants_help = true;
            continue;
        }
        let next = COMMANDS
            .iter()
            .filter(|command| command.path.starts_with(&path))
            .filter_map(|command| command.path.get(path.len()))
            .find(|name| **name == word);
        match next {
            Some(name) => path.push(name),
            None => {
                rest.push(word.to_owned());
                break;
            }
        }
    }
    rest.extend(words.cloned());
    (path, rest, wants_help)
}

struct Command {
    path: &'static [&'static str],
    arguments: &'static str,
    about: &'static str,
    flags: &'static [Flag],
    run: fn(&mut Context<'_>, &Words) -> Outcome,
}

/// Commands of the program that are not run here.
const BESIDE: [(&str, &str); 2] = [
    ("build", "Build a kustomization"),
    ("completion", "Print a script that completes command lines in a shell"),
];

/// The first words of all commands, in the order in which kustomize suggests them.
const NAMES: [&str; 9] =
    ["completion", "build", "edit", "create", "version", "openapi", "localize", "cfg", "fn"];

const GROUPS: &[(&[&str], &str)] = &[
    (&["edit"], "Change the kustomization file of this directory"),
    (&["edit", "add"], "Add something to the kustomization file"),
    (&["edit", "set"], "Set a field of the kustomization file"),
    (&["edit", "remove"], "Remove something from the kustomization file"),
    (&["cfg"], "Read files of resources"),
    (&["fn"], "Run functions over files of resources"),
    (&["openapi"], "The OpenAPI data that builds go by"),
];

const FORCE: Flag = Flag::switch("force", "Replace what is there already").short('f');
const IGNORE: Flag = Flag::switch("ignore-non-existence", "Let keys pass that are not there").short('i');
const NAMESPACE: Flag = Flag::text("namespace", "Namespace of the generator");
const RECURSE: Flag = Flag::switched_on("recurse-subpackages", "Go into directories below").short('R');
const INCLUDE_LOCAL: Flag = Flag::switch("include-local", "Resources for this machine only, too");
const EXCLUDE_OTHERS: Flag = Flag::switch("exclude-non-local", "No other resources");

const PATCH: &[Flag] = &[
    Flag::text("path", "File with the patch"),
    Flag::text("patch", "The patch itself"),
    Flag::text("group", "API group of what is patched"),
    Flag::text("version", "API version of what is patched"),
    Flag::text("kind", "Kind of what is patched"),
    Flag::text("name", "Name of what is patched"),
    Flag::text("namespace", "Namespace of what is patched"),
    Flag::text("label-selector", "Labels of what is patched"),
    Flag::text("annotation-selector", "Annotations of what is patched"),
];
const FROM_FILE: Flag = Flag::list("from-file", "A file, its key before a `=` if it is not its name");
const FROM_LITERAL: Flag = Flag::texts("from-literal", "A key and its value, as key=value");
const FROM_ENV_FILE: Flag = Flag::text("from-env-file", "A file with a key=value on each line");
const NO_HASH: Flag = Flag::switch("disableNameSuffixHash", "Leave the name without its hash");
const SET_GENERATOR: &[Flag] =
    &[FROM_LITERAL, NAMESPACE, Flag::text("new-namespace", "Namespace it is to have")];

macro_rules! command {
    ($($word:literal)+, $arguments:literal, $about:literal, $flags:expr, $run:expr) => {
        Command { path: &[$($word),+], arguments: $arguments, about: $about, flags: $flags, run: $run }
    };
}

static COMMANDS: &[Command] = &[
    command!("create", "", "Make a kustomization file in this directory", create::FLAGS, create::run),
    command!(
        "edit" "add" "annotation",
        "KEY:VALUE...",
        "Add common annotations",
        &[FORCE],
        edit::add::annotation
    ),
    command!("edit" "add" "base", "DIR,...", "Add directories to resources", &[], edit::add::base),
    command!(
        "edit" "add" "buildmetadata",
        "OPTION,...",
        "Add options of buildMetadata",
        &[],
        edit::add::build_metadata
    ),
    command!("edit" "add" "component", "DIR...", "Add components", &[], edit::add::component),
    command!(
        "edit" "add" "configmap",
        "NAME",
        "Add a generator of a ConfigMap, or to it",
        &[
            FROM_LITERAL,
            FROM_FILE,
            FROM_ENV_FILE,
            NAMESPACE,
            NO_HASH,
            Flag::text("behavior", "create, merge or replace")
        ],
        edit::add::config_map
    ),
    command!("edit" "add" "generator", "FILE...", "Add generators", &[], edit::add::generator),
    command!(
        "edit" "add" "label",
        "KEY:VALUE...",
        "Add labels",
        &[
            FORCE,
            Flag::switch("without-selector", "Not to selectors and templates"),
            Flag::switch("include-templates", "To templates though, with --without-selector")
        ],
        edit::add::label
    ),
    command!("edit" "add" "patch", "", "Add a patch", PATCH, edit::add::patch),
    command!(
        "edit" "add" "resource",
        "FILE|DIR|URL|PATTERN...",
        "Add resources",
        &[Flag::switch("no-verify", "Add what may not be there")],
        edit::add::resource
    ),
    command!(
        "edit" "add" "secret",
        "NAME",
        "Add a generator of a Secret, or to it",
        &[
            FROM_LITERAL,
            FROM_FILE,
            FROM_ENV_FILE,
            NAMESPACE,
            NO_HASH,
            Flag::text("type", "Type of the Secret, Opaque if not said")
        ],
        edit::add::secret
    ),
    command!("edit" "add" "transformer", "FILE...", "Add transformers", &[], edit::add::transformer),
    command!(
        "edit" "set" "annotation",
        "KEY:VALUE...",
        "Set common annotations",
        &[],
        edit::set::annotation
    ),
    command!(
        "edit" "set" "buildmetadata",
        "OPTION,...",
        "Set the options of buildMetadata",
        &[],
        edit::set::build_metadata
    ),
    command!(
        "edit" "set" "configmap",
        "NAME",
        "Set a key or the namespace of a ConfigMap's generator",
        SET_GENERATOR,
        edit::set::config_map
    ),
    command!(
        "edit" "set" "image",
        "IMAGE=NEW:TAG@DIGEST...",
        "Set names, tags and digests of images; `*` keeps one",
        &[],
        edit::set::image
    ),
    command!("edit" "set" "label", "KEY:VALUE...", "Set common labels", &[], edit::set::label),
    command!("edit" "set" "nameprefix", "PREFIX", "Set namePrefix", &[], edit::set::name_prefix),
    command!("edit" "set" "namespace", "NAMESPACE", "Set namespace", &[], edit::set::namespace),
    command!("edit" "set" "namesuffix", "SUFFIX", "Set nameSuffix", &[], edit::set::name_suffix),
    command!("edit" "set" "replicas", "NAME=COUNT...", "Set replicas", &[], edit::set::replicas),
    command!(
        "edit" "set" "secret",
        "NAME",
        "Set a key or the namespace of a Secret's generator",
        SET_GENERATOR,
        edit::set::secret
    ),
    command!(
        "edit" "remove" "annotation",
        "KEY,...",
        "Remove common annotations",
        &[IGNORE],
        edit::remove::annotation
    ),
    command!(
        "edit" "remove" "buildmetadata",
        "OPTION,...",
        "Remove options of buildMetadata",
        &[],
        edit::remove::build_metadata
    ),
    command!(
        "edit" "remove" "configmap",
        "NAME,...",
        "Remove generators of ConfigMaps",
        &[NAMESPACE],
        edit::remove::config_map
    ),
    command!("edit" "remove" "label", "KEY,...", "Remove common labels", &[IGNORE], edit::remove::label),
    command!("edit" "remove" "patch", "", "Remove a patch", PATCH, edit::remove::patch),
    command!("edit" "remove" "resource", "PATTERN...", "Remove resources", &[], edit::remove::resource),
    command!(
        "edit" "remove" "secret",
        "NAME,...",
        "Remove generators of Secrets",
        &[NAMESPACE],
        edit::remove::secret
    ),
    command!(
        "edit" "remove" "transformer",
        "PATTERN...",
        "Remove transformers",
        &[],
        edit::remove::transformer
    ),
    command!(
        "edit" "fix",
        "",
        "Move deprecated fields to those of today",
        &[Flag::switch("vars", "Make replacements of vars, in files of resources too")],
        edit::fix::run
    ),
    command!(
        "edit" "alpha-list-builtin-plugin",
        "",
        "List the plugins that are built in",
        &[],
        edit::list_plugins
    ),
    command!(
        "cfg" "cat",
        "[DIR|FILE]",
        "Print resources, their fields in the usual order",
        &[
            Flag::switch("annotate", "Tell in annotations where each comes from"),
            Flag::text("dest", "Write to this file"),
            EXCLUDE_OTHERS,
            Flag::switched_on("format", "Put fields into the usual order"),
            Flag::text("function-config", "File for functionConfig of a ResourceList"),
            INCLUDE_LOCAL,
            RECURSE,
            Flag::switch("strip-comments", "Leave comments out"),
            Flag::list("style", "TaggedStyle or FlowStyle"),
            Flag::text("wrap-kind", "Wrap into a list of this kind"),
            Flag::text("wrap-version", "Wrap into a list of this apiVersion")
        ],
        cfg::cat
    ),
    command!(
        "cfg" "count",
        "[DIR|FILE]",
        "Count resources",
        &[Flag::switched_on("kind", "By kind"), RECURSE],
        cfg::count
    ),
    command!(
        "cfg" "grep",
        "QUERY [DIR|FILE]",
        "Print the resources that a query finds",
        &[
            Flag::switched_on("annotate", "Tell in annotations where each comes from"),
            Flag::switch("invert-match", "The others instead"),
            RECURSE
        ],
        cfg::grep
    ),
    command!(
        "cfg" "tree",
        "[DIR]",
        "Show resources and some of their fields as a tree",
        &[
            Flag::switch("all", "All of the fields below"),
            Flag::switch("args", "Arguments of containers"),
            Flag::switch("command", "Commands of containers"),
            Flag::switch("env", "Environments of containers"),
            EXCLUDE_OTHERS,
            Flag::list("field", "A field by its path"),
            Flag::text("graph-structure", "directory or owners"),
            Flag::switch("image", "Images of containers"),
            INCLUDE_LOCAL,
            Flag::switch("name", "Names of containers"),
            Flag::switch("ports", "Ports of containers and services"),
            Flag::switch("replicas", "Numbers of replicas"),
            Flag::switch("resources", "Resources of containers")
        ],
        cfg::tree
    ),
    command!(
        "fn" "run",
        "[DIR] [-- [KIND] KEY=VALUE...]",
        "Run functions over the resources in a directory or standard input",
        &[
            Flag::switch("as-current-user", "Run containers as this user rather than nobody"),
            Flag::switch("dry-run", "Print the resources rather than write them back"),
            Flag::switch("enable-exec", "Let functions be executables of this machine, too"),
            Flag::texts("env", "A variable for functions: NAME=VALUE, or NAME for the value it has here")
                .short('e'),
            Flag::text("exec-path", "Run this executable as the function"),
            Flag::list("fn-path", "Find functions here rather than in DIR"),
            Flag::switch("global-scope", "Give functions all resources, not only those beside and below them"),
            Flag::text("image", "Run this image as the function"),
            Flag::switched_on("include-subpackages", "Accepted; packages in DIR are always read"),
            Flag::switch("log-steps", "Tell which function runs"),
            Flag::texts("mount", "Something for containers to see: type=bind,src=PATH,dst=PATH[,rw=true]"),
            Flag::switch("network", "Let containers have the network they ask for"),
            Flag::text("results-dir", "Write what functions have to say into this directory")
        ],
        functions::run::run
    ),
    command!(
        "localize",
        "[TARGET [DESTINATION]]",
        "Copy a kustomization with all that it refers to",
        &[
            Flag::switch("no-verify", "Do not compare the builds of both"),
            Flag::text("scope", "Directory that references may not leave")
        ],
        localize::run
    ),
    command!("openapi" "info", "", "Print which OpenAPI data is built in", &[], openapi::info),
    command!(
        "openapi" "fetch",
        "[FILE]",
        "Print the OpenAPI document of the current cluster, or write it to a file",
        &[Flag::text("format", "json or yaml")],
        openapi::fetch
    ),
    command!(
        "version",
        "",
        "Print which kustomize this is one of",
        &[Flag::text("output", "yaml or json").short('o'), Flag::switch("short", "Deprecated: on one line")],
        version
    ),
];

fn version(context: &mut Context<'_>, words: &Words) -> Outcome {
    let version = context.surroundings.version.clone();
    let facts = [("version", version.as_str()), ("buildDate", "unknown"), ("gitCommit", "unknown")];
    if words.on("short") {
        context.log("Flag --short has been deprecated, and will be removed in the future.");
        context.say(&format!("{{{version}  unknown   }}"));
        return Ok(());
    }
    match words.given("output") {
        None | Some("") => context.say(&version),
        Some("yaml") => {
            let lines: Vec<String> = facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            context.say(&lines.concat());
        }
        Some("json") => {
            let facts: serde_json::Map<_, _> =
                facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            let text = serde_json::to_string_pretty(&facts).map_err(|error| error.to_string())?;
            context.say(&text);
        }
        // As upstream: no word about it.
        Some(_) => {}
    }
    Ok(())
}
