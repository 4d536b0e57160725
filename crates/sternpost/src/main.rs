//! The `sternpost` command: reads the command line, builds the parts, runs them.
//!
//! [`cli`] says what can be asked for; [`serve`] puts the server together,
//! [`explain`] needs none. [`envtest`] is for programs that start others by name.
//! Exit codes: 0 done, 1 the work failed, 2 wrong usage. Data goes to stdout,
//! everything else to stderr.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in the machine's time"))]

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    envtest::Role,
};
use sternpost_clock::machine;

mod admission;
mod aggregation;
mod audit;
mod authentication;
mod backup;
mod build;
mod check;
mod clean;
mod cli;
mod client;
mod completion;
mod config_file;
mod controllers;
mod credentials;
mod data_dir;
mod diff;
mod discover;
mod encryption;
mod envtest;
mod error;
mod etcd;
mod explain;
mod export;
mod fetch;
mod file_modes;
mod flow;
mod health;
mod issuer_keys;
mod judge;
mod kubeconfig;
mod kustomize;
mod limits;
mod listen;
mod load;
mod logging;
mod man;
mod manifests;
mod migrate;
mod objects;
mod openapi;
mod output;
mod programs;
mod ready;
mod reload;
mod restore;
mod run;
mod serve;
mod service_accounts;
mod service_ranges;
mod services;
mod settings;
mod storage;
mod suggest;
mod terminal;
#[cfg(test)]
mod two_servers;
mod ui;
mod validate;
mod waiting;
mod webhooks;
mod within;

/// Long-lived small objects and bursts of large documents: mimalloc returns
/// memory to the system where the default allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code for a command line, or settings, that cannot be read.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let started = machine::now();
    if let Some(exit) = stand_in(started) {
        return exit;
    }
    let (cli, words) = match read_command_line() {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let result = match cli.command {
        Command::Build(args) => return build::run(&args),
        Command::Kustomize(args) => match args.command {
            build::KustomizeCommand::Build(args) => return build::run(&args),
            build::KustomizeCommand::Completion(args) => completion::run(&args),
            _ => {
                // Not clap's: it takes a `--` out, which the command wants to see.
                let words: Vec<String> =
                    words.iter().skip(2).map(|word| word.to_string_lossy().into()).collect();
                return kustomize::run(&words, "sternpost kustomize");
            }
        },
        Command::Serve(args) => serve::run(&args.with_flags(words), started),
        Command::Run(args) => return run::run(args, words),
        Command::RunGuard => run::guard(),
        Command::Validate(args) => return validate::run(&args),
        Command::Check(args) => return check::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Storage(args) => match args.command {
            storage::report::StorageCommand::Report(args) => return storage::report::run(&args),
        },
        Command::Diff(args) => return diff::run(&args),
        Command::Envtest(args) => envtest::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Ui(args) => ui::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::Version => print_version(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::tell(&error);
            ExitCode::FAILURE
        }
    }
}

/// Plays the part that the program's name asks for, if it does.
fn stand_in(started: machine::Instant) -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let role = Role::of(&words.next()?)?;
    let words: Vec<OsString> = words.collect();
    let lossy = || words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<String>>();
    Some(match role {
        Role::KubeApiserver => envtest::kube_apiserver::run(&lossy(), started),
        Role::Etcd => envtest::etcd::run(&lossy()),
        Role::Kustomize => kustomize::run_as_program(&words),
    })
}

/// What is asked for, and the words that ask for it, those of the environment and of a file included. Wrong usage ends
/// the process with exit code 2, that of kustomize's commands with 1 and in its words.
fn read_command_line() -> Result<(Cli, Vec<OsString>), ExitCode> {
    let words: Vec<_> = std::env::args_os().collect();
    let kustomize = words.get(1).is_some_and(|word| word == "build" || word == "kustomize");
    if !kustomize {
        let words = settings::complete(words).map_err(|error| {
            error::tell(&error);
            ExitCode::from(WRONG_USAGE)
        })?;
        return Ok((Cli::parse_from(&words), words));
    }
    // The other commands read their words themselves.
    let builds = words.iter().skip(1).take(2).any(|word| word == "build");
    let words =
        if builds { build::plain_switches(words).map_err(|problem| build::refuse(&problem))? } else { words };
    match Cli::try_parse_from(&words) {
        Ok(cli) => Ok((cli, words)),
        Err(error) => match build::usage_problem(&error, &words) {
            Some(problem) => Err(build::refuse(&problem)),
            None => error.exit(),
        },
    }
}

fn print_version() -> anyhow::Result<()> {
    let (own, kubernetes) = (env!("CARGO_PKG_VERSION"), sternpost_http::version::KUBERNETES);
    writeln!(io::stdout(), "sternpost {own} (Kubernetes API {kubernetes})")?;
    Ok(())
}
