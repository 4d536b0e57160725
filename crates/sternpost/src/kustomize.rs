//! `sternpost kustomize ...`: the commands beside `build`, on the files of this
//! machine; and this program in the place of kustomize, by whose name it is called.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use sternpost_kustomize::command::{Answer, Surroundings, run as run_command};
use sternpost_kustomize::files::WritableFiles;

use crate::build::{self, BuildArgs, Disk, KUSTOMIZE_VERSION, current_user, refuse};
use crate::completion;
use crate::fetch::Network;
use crate::programs::{Programs, Temporary};

/// Words that the command reads by itself, since their rules are kustomize's.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Words {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    _words: Vec<OsString>,
}

/// How this program is called in the place of kustomize.
pub const PROGRAM: &str = "kustomize";

/// kustomize, with the one command that clap reads.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, bin_name = PROGRAM, disable_help_subcommand = true, max_term_width = 100)]
struct Kustomize {
    #[command(subcommand)]
    command: Build,
}

#[derive(Debug, clap::Subcommand)]
enum Build {
    /// Build a kustomization
    Build(Box<BuildArgs>),
}

/// In the place of kustomize: all of its commands, with its exit codes and its words for what is wrong. `words` are
/// those after the program's name.
pub fn run_as_program(words: &[OsString]) -> ExitCode {
    let lossy: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // Behind what every command takes, and `help`.
    let is_before = |word: &&String| *word == "help" || word.starts_with("--stack-trace");
    let before = lossy.iter().take_while(is_before).count();
    let (before, rest) = words.split_at_checked(before).unwrap_or_default();
    match rest.split_first() {
        Some((word, rest)) if word == "build" => run_build(before, rest),
        Some((word, rest)) if word == "completion" => {
            let words = lossy.get(lossy.len() - rest.len()..).unwrap_or_default();
            completion::run_as_kustomize(words, before.iter().any(|word| word == "help"))
        }
        // Help of the program, whatever follows.
        Some((word, _)) if word == "--help" || word == "-h" => run(&["--help".to_owned()], PROGRAM),
        _ => run(&lossy, PROGRAM),
    }
}

/// `before` is what stands before the command.
fn run_build(before: &[OsString], words: &[OsString]) -> ExitCode {
    let before = before.iter().map(|word| if word == "help" { "--help".into() } else { word.clone() });
    let words = [PROGRAM.into(), "build".into()].into_iter().chain(before).chain(words.iter().cloned());
    let words = match build::plain_switches(words.collect()) {
        Ok(words) => words,
        Err(problem) => return refuse(&problem),
    };
    let examples = build::EXAMPLES.replace("sternpost build", "kustomize build");
    let command = Kustomize::command().mut_subcommand("build", |build| build.after_help(examples));
    let read = command.try_get_matches_from(&words);
    match read.and_then(|matches| Kustomize::from_arg_matches(&matches)) {
        Ok(Kustomize { command: Build::Build(args) }) => build::run(&args),
        Err(error) => match build::usage_problem(&error, &words) {
            Some(problem) => refuse(&problem),
            None => error.exit(),
        },
    }
}

/// Exit codes as kustomize has them: 0, or 1 for whatever went wrong. `program` is how it is called.
pub fn run(words: &[String], program: &str) -> ExitCode {
    match answer(words, program) {
        Ok(Answer { status, output, errors }) => {
            let _ = io::stderr().write_all(errors.as_bytes());
            match io::stdout().write_all(output.as_bytes()) {
                Ok(()) => ExitCode::from(status),
                Err(error) => refuse(&format!("standard output: {error}")),
            }
        }
        Err(error) => refuse(&format!("{error:#}")),
    }
}

fn answer(words: &[String], program: &str) -> anyhow::Result<Answer> {
    let temporary = Temporary::default();
    let network = Network::new(&temporary, None, None)?;
    let programs = Programs { temporary: &temporary };
    let surroundings = Surroundings {
        files: &mut Disk,
        fetcher: &network,
        runner: &programs,
        directory: std::env::current_dir()?,
        input: &mut io::stdin().lock(),
        version: KUSTOMIZE_VERSION.to_owned(),
        program: program.to_owned(),
        user: current_user(),
    };
    Ok(run_command(surroundings, words))
}

impl WritableFiles for Disk {
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let name =
            |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = std::fs::read_dir(directory)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        std::fs::write(path, content)
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}
