//! `cargo xtask faults`: a fault campaign, and its report.

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use sternpost_faults::{
    campaign::{self, Plan},
    nemesis::Fault,
    report,
};
use sternpost_testkit::etcd;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

/// Faults while clients write, read and watch; and whether what they saw is what happened
#[derive(Parser)]
#[command(name = "cargo xtask faults")]
struct Arguments {
    /// How long faults go on [default: each of a few once, as in CI]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,

    /// Repeats the choices of a campaign, though not its timing
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Where the report is written, too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The etcd to run [default: STERNPOST_ETCD of the environment]
    #[arg(long, value_name = "PATH", conflicts_with = "embedded")]
    etcd: Option<PathBuf>,

    /// One server on its own store instead of three on an etcd
    #[arg(long)]
    embedded: bool,

    /// Every process in a network namespace of its own, with a cable that can be pulled; wants root and `ip`
    #[arg(long, conflicts_with = "embedded")]
    namespaces: bool,

    /// Only these, such as KillLeader,Compact
    #[arg(long, value_name = "FAULT,...", value_delimiter = ',', value_parser = parse_fault)]
    only: Vec<Fault>,

    /// The server to test [default: the one built beside this program]
    #[arg(long, value_name = "PATH")]
    sternpost: Option<PathBuf>,
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    let found = Fault::ALL.into_iter().find(|fault| format!("{fault:?}").eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("want one of {:?}", Fault::ALL))
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Whoever is told to end takes what it has started with it.
    let ran = tokio::select! {
        ran = run(&arguments) => ran,
        () = told_to_end() => Err(anyhow::anyhow!("told to end")),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn told_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) = signal(SignalKind::terminate()) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// Whether nothing was found.
async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let etcd = match (&arguments.etcd, arguments.embedded) {
        (_, true) => None,
        (Some(path), false) => Some(path.clone()),
        (None, false) => {
            Some(etcd::program().context("there is no etcd to run: --etcd PATH, or --embedded")?)
        }
    };
    let sternpost = match &arguments.sternpost {
        Some(path) => path.clone(),
        None => campaign::beside(&std::env::current_exe()?),
    };
    let possible = if etcd.is_some() { &Fault::ALL[..] } else { &Fault::EMBEDDED[..] };
    let few = if etcd.is_some() { &Fault::SHORT[..] } else { &Fault::EMBEDDED[..] };
    let faults = match (&arguments.only[..], arguments.minutes) {
        ([], Some(_)) => possible.to_vec(),
        ([], None) => few.to_vec(),
        (only, _) => only.iter().copied().filter(|fault| possible.contains(fault)).collect(),
    };
    anyhow::ensure!(!faults.is_empty(), "none of these faults can be had there");
    let lasts = arguments.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let (seed, namespaces) = (arguments.seed, arguments.namespaces);
    let plan = Plan { sternpost, etcd, namespaces, seed, lasts, faults, progress: say };
    let ran = campaign::run(&plan).await;
    // Whoever comes back to a long campaign finds out either way.
    let text = match &ran {
        Ok(result) => report::markdown(&plan, result),
        Err(error) => format!("# Fault campaign\n\nSeed {seed}: not finished: {error:#}\n"),
    };
    if let Some(path) = &arguments.report {
        fs::write(path, &text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let result = ran?;
    say(&text);
    Ok(result.violations.is_empty())
}

#[expect(clippy::print_stderr, reason = "a command-line tool for developers")]
fn say(text: &str) {
    eprintln!("{text}");
}
