//! `cargo xtask ci`: what CI checks, in order, stopping at the first failure.
//! `cargo xtask bench`: what objects cost, beside a kube-apiserver if there is one.
//! `cargo xtask campaign NAME`: fuzzing, kills or hostile load for hours, with a report.
//! `cargo xtask bench kustomize`: what builds cost, beside a kustomize if there is one.
//! `cargo xtask complexity`: whether anything takes more than linear time in what a client sends.

mod complexity;

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
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

const CAMPAIGN: &str = "tests/campaigns/campaign.py";

const USAGE: &str = "usage: cargo xtask ci
       cargo xtask bench [OPTIONS OF benches/objects.py]
       cargo xtask bench kustomize [OPTIONS OF benches/kustomize.py]
       cargo xtask campaign fuzz|kills|load [OPTIONS OF tests/campaigns/campaign.py]
       cargo xtask complexity [WORD...]

ci checks format, lints, licences (if cargo-deny is installed), tests (layering among
them) and documentation. The real-client suites are started by .ci/run.

bench builds a release and measures it with one client; with --peer-kubeconfig FILE
[--peer-store-pid N] also the kube-apiserver that FILE leads to, in the same run, and
prints the ratios. Needs Linux and Python 3.9.

bench kustomize does the same for builds, beside the kustomize that --kustomize PATH or
the environment variable KUSTOMIZE names.

campaign runs for hours and writes a report (--report FILE): every fuzz target, the crash
test of the whole server, or friendly and hostile clients on a release that it builds.

complexity counts, with callgrind, the instructions of a write for every list and map of
every kind, of patches, selectors, definitions, CEL functions and expressions, with n, 2n
and 4n elements, and fails where the second doubling takes far more than twice what the
first takes. Words choose the cases whose names have one of them. All figures are kept in
complexity.tsv in the target directory. Needs valgrind; without it nothing is measured,
and it says so.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci(),
        ["bench", "kustomize", ref options @ ..] => measure("benches/kustomize.py", options),
        ["bench", ref options @ ..] => bench(options),
        ["campaign", "load", ref options @ ..] => measure(CAMPAIGN, &[&["load"], options].concat()),
        ["campaign", name @ ("fuzz" | "kills"), ref options @ ..] => {
            let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CAMPAIGN);
            run(Command::new(program).arg(name).args(options))
        }
        ["complexity", ref words @ ..] => complexity::check(words),
        _ => {
            say(USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("xtask: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), String> {
    for (name, arguments) in CHECKS {
        if name == "licences" && !has_cargo_deny() {
            say(&format!("xtask: {name}: SKIPPED: cargo-deny is not installed\n"));
            continue;
        }
        say(&format!("xtask: {name}: cargo {}\n", arguments.join(" ")));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments);
        if name == "documentation" {
            cargo.env("RUSTDOCFLAGS", "--deny warnings");
        }
        run(&mut cargo).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn bench(options: &[&str]) -> Result<(), String> {
    if !options.iter().any(|option| option.starts_with("--peer-kubeconfig")) {
        say("xtask: bench: no --peer-kubeconfig: own figures only, without ratios\n");
    }
    measure("benches/objects.py", options)
}

/// Builds a release and gives it to a program that measures.
fn measure(program: &str, options: &[&str]) -> Result<(), String> {
    run(Command::new(env!("CARGO")).args(["build", "--release", "--package", "sternpost"]))?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut client = Command::new(workspace.join(program));
    run(client.arg("--sternpost").arg(release(&workspace)?).args(options))
}

/// The binary: beside this one, which is in the same target directory.
fn release(workspace: &Path) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot tell where this runs: {error}"))?;
    let profile = own.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("debug")));
    let target = profile.and_then(Path::parent).map_or_else(|| workspace.join("target"), Path::to_owned);
    Ok(target.join("release/sternpost"))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("FAILED".into()),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}

fn has_cargo_deny() -> bool {
    Command::new(env!("CARGO")).args(["deny", "--version"]).output().is_ok_and(|out| out.status.success())
}

#[expect(clippy::print_stderr, reason = "a command-line tool for developers")]
fn say(text: &str) {
    eprint!("{text}");
}
