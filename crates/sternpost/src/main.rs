//! The `sternpost` command: reads the command line, builds the parts, runs them.
//!
//! [`cli`] says what can be asked for; [`serve`] puts the server together,
//! [`explain`] needs none.
//! Exit codes: 0 done, 1 the work failed, 2 wrong usage. Data goes to stdout,
//! everything else to stderr.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use clap::Parser;

use crate::cli::{Cli, Command};

mod cli;
mod client;
mod credentials;
mod data_dir;
mod error;
mod explain;
mod kubeconfig;
mod logging;
mod objects;
mod serve;
mod service_accounts;

/// Long-lived small objects and bursts of large documents: mimalloc returns
/// memory to the system where the default allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = Instant::now();
    // Wrong usage ends the process here, with exit code 2.
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args, started),
        Command::Explain(args) => explain::run(&args),
        Command::Version => print_version(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With stderr gone there is nobody left to tell.
            let _ = write!(io::stderr(), "{}", error::report(&error));
            ExitCode::FAILURE
        }
    }
}

fn print_version() -> anyhow::Result<()> {
    let (own, kubernetes) = (env!("CARGO_PKG_VERSION"), sternpost_http::version::KUBERNETES);
    writeln!(io::stdout(), "sternpost {own} (Kubernetes API {kubernetes})")?;
    Ok(())
}
