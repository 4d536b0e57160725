//! `cargo xtask ci`: what CI checks, in order, stopping at the first failure.

use std::{
    env,
    process::{Command, ExitCode},
};

/// Name, and the arguments to cargo.
const CHECKS: [(&str, &[&str]); 5] = [
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]),
    ("licences", &["deny", "--locked", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"]),
    ("tests", &["test", "--workspace", "--locked"]),
    ("documentation", &["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"]),
];

const USAGE: &str = "usage: cargo xtask ci

Checks format, lints, licences (if cargo-deny is installed), tests (layering among
them) and documentation. The real-client suites are started by .ci/run.
";

#[expect(clippy::print_stderr, reason = "a command-line tool for developers")]
fn main() -> ExitCode {
    if env::args().skip(1).collect::<Vec<_>>() != ["ci"] {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    }
    for (name, arguments) in CHECKS {
        if name == "licences" && !has_cargo_deny() {
            eprintln!("xtask: {name}: SKIPPED: cargo-deny is not installed");
            continue;
        }
        eprintln!("xtask: {name}: cargo {}", arguments.join(" "));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments);
        if name == "documentation" {
            cargo.env("RUSTDOCFLAGS", "--deny warnings");
        }
        match cargo.status() {
            Ok(status) if status.success() => {}
            Ok(_) => {
                eprintln!("xtask: {name}: FAILED");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("xtask: cannot run cargo: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn has_cargo_deny() -> bool {
    Command::new(env!("CARGO")).args(["deny", "--version"]).output().is_ok_and(|out| out.status.success())
}
