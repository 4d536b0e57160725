//! `sternpost completion SHELL`: a script by which a shell completes our
//! command lines, those of kustomize's commands included.

use std::io;

use anyhow::Context;
use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use clap_complete::Shell;
use sternpost_kustomize::command::{FlagOutline, Outline, outlines};

use crate::cli::Cli;

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
    io::Write::write_all(&mut io::stdout(), &script).context("standard output")
}

/// The command line with all of kustomize's commands, whose words are read
/// elsewhere by rules of their own.
fn program() -> Command {
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
