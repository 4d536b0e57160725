//! `sternpost run`: a throw-away server around a command.
//!
//! The command finds the server by `KUBECONFIG`. A guard, a process of its own, sees to it that nothing is left
//! behind by a `run` that is killed: it ends the command and removes the kubeconfig.

mod guard;
mod signals;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::{Args, CommandFactory, parser::ValueSource};
use sternpost_clock::{Clock, machine};
use tokio::{
    process::{Child, Command},
    sync::oneshot,
};

use crate::{
    cli::{Cli, LogLevel, ServeArgs},
    error,
    listen::Listen,
    logging,
    ready::Ready,
    serve, terminal,
};
use guard::Guard;
pub use guard::{COMMAND as GUARD, run as guard};
use signals::{Signal, Signals};

pub const EXAMPLES: &str = "\
Examples:
  # Run tests against a server of their own
  sternpost run -- go test ./...

  # With objects to begin with, and a shell to look around
  sternpost run --load fixtures/ -- bash";

/// How long the command may take to end once nobody is left to see it.
const END_GRACE: Duration = Duration::from_secs(5);

/// How often it is asked whether the process that started this one is still there.
const PARENT_INTERVAL: Duration = Duration::from_millis(200);

/// What shells answer for a command that is there and cannot be run, and for one that is not there.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub serve: Box<ServeArgs>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// With what is different here unless these words say otherwise: a free port, nothing kept, no log but
    /// warnings.
    fn with_defaults(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        let matches = Cli::command().try_get_matches_from(words);
        let matches = matches.ok().and_then(|mut matches| matches.remove_subcommand());
        let is_given = |id: &str| {
            let source = matches.as_ref().and_then(|(_, matches)| matches.value_source(id));
            source.is_some_and(|source| source != ValueSource::DefaultValue)
        };
        if !is_given("listen") {
            self.serve.listen = Listen::FREE_PORT;
        }
        if !is_given("log_level") {
            self.serve.log_level = LogLevel::Warn;
        }
        self.serve.in_memory |= self.serve.data_dir.is_none();
        self
    }
}

/// Its exit code is the command's.
pub fn run(args: RunArgs, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = args.with_defaults(words);
    logging::init(args.serve.log_format, args.serve.log_level);
    match around(&args) {
        Ok(code) => code,
        Err(error) => {
            error::tell(&error);
            ExitCode::FAILURE
        }
    }
}

fn around(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let runtime = serve::runtime()?;
    let outcome = runtime.block_on(async {
        let signals = Signals::new().context("cannot listen for signals")?;
        let guard = Guard::start().context("cannot start the guard")?;
        let (ready, is_ready) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let tell = |server: &Ready<'_>| {
            // Nobody waits for it any more if a signal came first.
            let _ = ready.send(server.kubeconfig.map(PathBuf::from));
        };
        let stop = async {
            // Sent, or dropped with whoever would have sent it.
            let _ = ended.await;
        };
        let server = serve::serve(&args.serve, Clock::system(), stop, tell);
        let command = async {
            let outcome = command(&args.command, is_ready, signals, guard).await;
            drop(end);
            outcome
        };
        let (served, outcome) = tokio::join!(server, command);
        // What the server failed with is why there was no command.
        served?;
        outcome
    });
    runtime.shutdown_timeout(serve::END_GRACE);
    outcome
}

async fn command(
    words: &[OsString],
    is_ready: oneshot::Receiver<Option<PathBuf>>,
    mut signals: Signals,
    mut guard: Guard,
) -> anyhow::Result<ExitCode> {
    let parent = Parent::now();
    let kubeconfig = tokio::select! {
        kubeconfig = is_ready => kubeconfig.ok().flatten().ok_or_else(|| anyhow!("the server did not start"))?,
        signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
    };
    guard.remove(&kubeconfig)?;
    let (program, arguments) = words.split_first().context("there is no command")?;
    let mut child = match Command::new(program).args(arguments).env("KUBECONFIG", &kubeconfig).spawn() {
        Ok(child) => child,
        Err(error) => return Ok(cannot_run(program, &error)),
    };
    guard.child(child.id())?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.context("cannot wait for the command")?,
            signal = signals.next() => signal.forward(&child),
            () = parent.is_gone() => break end(&mut child).await?,
        }
    };
    guard.child_ended()?;
    Ok(exit_code(status))
}

fn cannot_run(program: &OsStr, error: &io::Error) -> ExitCode {
    terminal::tell(&format!("error: cannot run `{}`: {error}", program.display()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Asks the command to end, and ends it if it does not.
async fn end(child: &mut Child) -> anyhow::Result<ExitStatus> {
    Signal::TERMINATE.forward(child);
    if let Ok(status) = machine::timeout(END_GRACE, child.wait()).await {
        return status.context("cannot wait for the command");
    }
    child.kill().await.context("cannot end the command")?;
    child.wait().await.context("cannot wait for the command")
}

/// As shells have it: what the command says, or 128 and the signal that ended it.
#[cfg(unix)]
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(not(unix))]
fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The process that started this one.
#[derive(Debug, Clone, Copy)]
pub struct Parent {
    #[cfg(unix)]
    id: u32,
}

impl Parent {
    #[cfg(unix)]
    pub fn now() -> Self {
        Self { id: std::os::unix::process::parent_id() }
    }

    #[cfg(not(unix))]
    pub fn now() -> Self {
        Self {}
    }

    /// Whoever is left without a parent is given another.
    #[cfg(unix)]
    pub async fn is_gone(self) {
        while std::os::unix::process::parent_id() == self.id {
            machine::sleep(PARENT_INTERVAL).await;
        }
    }

    #[cfg(not(unix))]
    pub async fn is_gone(self) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Command;

    fn read(words: &[&str]) -> RunArgs {
        let words = ["sternpost", "run"].iter().chain(words).map(OsString::from);
        let Command::Run(args) = Cli::try_parse_from(words.clone()).unwrap().command else {
            panic!("no run")
        };
        args.with_defaults(words)
    }

    #[test]
    fn a_server_around_a_command_keeps_nothing_and_takes_a_free_port() {
        let args = read(&["--", "true", "--listen"]);
        assert_eq!(args.serve.listen.to_string(), "127.0.0.1:0");
        assert_eq!(args.serve.log_level, LogLevel::Warn);
        assert!(args.serve.in_memory);
        assert_eq!(args.command, ["true", "--listen"]);
    }

    #[test]
    fn what_is_said_is_done() {
        let args =
            read(&["--listen", "127.0.0.1:6443", "--log-level", "info", "--data-dir", "d", "--", "true"]);
        assert_eq!(args.serve.listen.to_string(), "127.0.0.1:6443");
        assert_eq!(args.serve.log_level, LogLevel::Info);
        assert!(!args.serve.in_memory);
    }

    #[test]
    fn there_must_be_a_command() {
        assert!(Cli::try_parse_from(["sternpost", "run"]).is_err());
        assert!(Cli::try_parse_from(["sternpost", "run", "true"]).is_err());
    }
}
