//! What the server promises about data, tested on the real process: killed at
//! random under load, stopped, out of space, and given files it must not touch.
//!
//! `STERNPOST_CRASH_ROUNDS` sets how often it is killed (few by default; 1000 is
//! the long mode), `STERNPOST_CRASH_SEED` repeats a run as far as timing allows,
//! `STERNPOST_CRASH_DIR` says where the data directories are made. A failing
//! round keeps its directory and says how to run it again.

// The environment is the only way to pass options through `cargo test`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and says what it did"
)]

mod check;
mod faults;
mod history;
mod kill;
mod load;

use std::{path::Path, process::Command};

use sternpost_testkit::process::{self, Process};

/// `serve` on a directory.
fn command(dir: &Path) -> Command {
    let mut command = process::serve();
    // Nobody else writes: what is there afterwards is what was asked for.
    command.args(["--controllers=-*", "--data-dir"]).arg(dir);
    command
}

fn spawn(dir: &Path) -> Process {
    Process::spawn(command(dir))
}
