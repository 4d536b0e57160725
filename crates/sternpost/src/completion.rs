//! `sternpost completion SHELL`: a script by which a shell completes our
//! command lines, those of kustomize's commands included.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Arg, ArgAction, Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use sternpost_kustomize::command::{FlagOutline, Outline, outlines};

use sternpost_golang::strconv::go_quote;

use crate::{build, cli::Cli, kustomize, terminal};

pub const EXAMPLES: &str = "\
Examples:
  # Complete in this bash from now on
  source <(sternpost completion bash)

  # Complete in every fish
  sternpost completion fish > ~/.config/fish/completions/sternpost.fish";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArgs {
    /// The shell that is to complete
    shell: Shell,
}

pub fn run(args: &CompletionArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program(), "sternpost", &mut script);
    io::stdout().write_all(&script).context("standard output")
}

const KUSTOMIZE_USAGE: &str = "\
Usage:
  kustomize completion [bash|elvish|fish|powershell|zsh]

Flags:
  -h, --help         Print this help
      --stack-trace  Accepted and ignored
";

/// In the place of kustomize, with its words for what is wrong. `words` are those after `completion`.
pub fn run_as_kustomize(words: &[String], wants_help: bool) -> ExitCode {
    let (flags, shells): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with('-') && *word != "--stack-trace");
    let shells: Vec<&str> =
        shells.into_iter().map(String::as_str).filter(|word| *word != "--stack-trace").collect();
    if wants_help || flags.iter().any(|flag| ["-h", "--help"].contains(&flag.as_str())) {
        let help = format!("Print a script that completes command lines in a shell\n\n{KUSTOMIZE_USAGE}");
        return written(help.as_bytes());
    }
    let shell = match (flags.first(), shells.as_slice()) {
        (Some(flag), _) => Err(build::unknown_flag(flag)),
        (None, [shell]) => Shell::from_str(shell, false)
            .map_err(|_| format!("invalid argument {} for \"kustomize completion\"", go_quote(shell))),
        (None, shells) => Err(format!("accepts 1 arg(s), received {}", shells.len())),
    };
    match shell {
        Ok(shell) => {
            let mut script = Vec::new();
            let program = program();
            let command = program.find_subcommand(kustomize::PROGRAM).cloned().unwrap_or_default();
            clap_complete::generate(
                shell,
                &mut command.bin_name(kustomize::PROGRAM),
                kustomize::PROGRAM,
                &mut script,
            );
            written(&script)
        }
        Err(problem) => {
            let refused = build::refuse(&problem);
            terminal::tell(KUSTOMIZE_USAGE.trim_end());
            refused
        }
    }
}

fn written(text: &[u8]) -> ExitCode {
    match io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => build::refuse(&format!("standard output: {error}")),
    }
}

/// The command line with all of kustomize's commands, whose words are read
/// elsewhere by rules of their own.
pub fn program() -> Command {
    let known = outlines();
    Cli::command().mut_subcommand("kustomize", |kustomize| {
        let mut names: Vec<&'static str> =
            known.iter().filter_map(|outline| outline.path.first().copied()).collect();
        names.dedup();
        names.retain(|name| kustomize.find_subcommand(name).is_some());
        names.into_iter().fold(kustomize, |kustomize, name| {
            kustomize.mut_subcommand(name, |command| {
                let about = command.get_about().cloned().unwrap_or_default();
                with(Command::new(name).about(about).disable_version_flag(true), &known, 1)
            })
        })
    })
}

/// Adds the commands and flags below `command`, which is the last of so many
/// words.
fn with(mut command: Command, known: &[Outline], depth: usize) -> Command {
    let name = command.get_name().to_owned();
    let inside: Vec<&Outline> = known
        .iter()
        .filter(|outline| outline.path.get(depth.saturating_sub(1)) == Some(&name.as_str()))
        .collect();
    let mut added: Vec<&str> = Vec::new();
    for outline in &inside {
        match outline.path.get(depth) {
            None => command = outline.flags.iter().map(flag).fold(command, Command::arg),
            Some(word) if !added.contains(word) => {
                added.push(word);
                let below: Vec<Outline> = inside
                    .iter()
                    .filter(|other| other.path.get(depth) == Some(word))
                    .map(|other| (*other).clone())
                    .collect();
                let about = below.iter().find(|other| other.path.len() == depth + 1);
                let about = about.map(|other| other.about).unwrap_or_default();
                let inner = Command::new(*word).about(about).disable_version_flag(true);
                command = command.subcommand(with(inner, &below, depth + 1));
            }
            Some(_) => {}
        }
    }
    command
}

fn flag(outline: &FlagOutline) -> Arg {
    let action = if outline.takes_value { ArgAction::Append } else { ArgAction::SetTrue };
    let flag = Arg::new(outline.name).long(outline.name).action(action).help(outline.about);
    match outline.short {
        Some(short) => flag.short(short),
        None => flag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_kustomize_are_completed_to_their_flags() {
        let program = program();
        let words = ["kustomize", "edit", "add", "configmap"];
        let found = words.iter().try_fold(&program, |command, word| command.find_subcommand(word)).unwrap();
        assert!(found.get_arguments().any(|argument| argument.get_long() == Some("from-literal")));
        assert!(program.find_subcommand("build").is_some());
        program.debug_assert();
    }
}
