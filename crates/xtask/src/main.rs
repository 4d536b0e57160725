//! The one door for developers. Every command is a program of the repository that also runs by itself:
//! `cargo xtask ci` is `.ci/run`, which has the list of what CI checks.
//! `cargo xtask bench NAME` is `benches/NAME.py` on a release that it builds.
//! `cargo xtask record SUITE` is `tests/record.py`: recorded answers anew, from the real programs.
//! `cargo xtask campaign NAME`: fuzzing, kills or hostile load for hours, with a report.
//! `cargo xtask faults` is `crates/faults`: processes and connections that fail while clients write, read and watch.
//! `cargo xtask generate`: the lists of kinds and of admission plugins, from their files.
//! `cargo xtask profile OPERATION`: what an operation costs, by stage; whether that rose.
//! `cargo xtask dist` is `packages/dist.py`: what a release consists of.
//! `cargo xtask complexity`: whether anything takes more than linear time in what a client sends.

mod complexity;
mod generate;

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const CI: &str = ".ci/run";

const RECORD: &str = "tests/record.py";

const BENCHES: &str = "benches";

/// Not among the benches' names: it counts, and measures no time.
const PROFILE: &str = "benches/profile.py";

/// What is measured, and what it is compared with.
const MEASURED: [&str; 4] = ["--package", "sternpost", "--package", "sternpost-floor"];

const CAMPAIGN: &str = "tests/campaigns/campaign.py";

const DIST: &str = "packages/dist.py";

const USAGE: &str = "usage: cargo xtask ci [--list]
       cargo xtask bench [NAME [OPTIONS OF benches/NAME.py]]
       cargo xtask record [SUITE --peer DIR [--check] [NAME...]]
       cargo xtask campaign fuzz|kills|load [OPTIONS OF tests/campaigns/campaign.py]
       cargo xtask faults [OPTIONS OF crates/faults]
       cargo xtask generate
       cargo xtask profile [--check|--write] [OPERATION...]
       cargo xtask complexity [WORD...]
       cargo xtask dist [--check] [OPTIONS OF packages/dist.py]

ci is .ci/run: all that CI checks. Steps that need more than a Rust toolchain are skipped
where it is missing, and say what. --list names the steps and what each needs.

bench builds a release and measures it, most beside a kube-apiserver or kustomize if there
is one; without a name it lists the benches. Needs Linux and Python 3.9.

record records a suite anew from the real programs (kube-apiserver and etcd, kustomize) in
DIR, or compares them with what is recorded; without a name it lists the suites.

campaign runs for hours and writes a report (--report FILE): every fuzz target, the crash
test of the whole server, or friendly and hostile clients on a release that it builds.

faults runs three servers on an etcd of three members (STERNPOST_ETCD, or --etcd PATH), or one
on its own store (--embedded); kills, pauses, partitions and slows them down while clients
write, read and watch; and checks that what the clients saw is what happened. A few faults
once, or all for --minutes N; --report FILE is written, too.

generate writes the lists of kinds and of admission plugins from their files. To be run when
such a file is added; a test sees to it.

profile counts what a get, a create, an apply, a delivery, a build … costs by stage, on a build
with the names of functions: instructions and allocations with callgrind, bytes copied with
DHAT, system calls with strace; and measures CPU and context switches by thread. --check
fails on what is counted above benches/budgets.tsv.

complexity counts, with callgrind, the instructions of a write for every list and map of
every kind, of patches, selectors, definitions, CEL functions and expressions, with n, 2n
and 4n elements, and fails where the second doubling takes far more than twice what the
first takes. Words choose the cases whose names have one of them. All figures are kept in
complexity.tsv in the target directory. Needs valgrind; without it nothing is measured,
and it says so.

dist makes what a release consists of, in target/packages: archives, Debian packages, wheels,
npm packages, SBOMs and checksums, for Linux unless --target says otherwise. --binary takes
programs that are built already; --check only checks the types for every target.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci", ref options @ ..] => run(Command::new(workspace().join(CI)).args(options)),
        ["bench"] => list_benches(),
        ["bench", name, ref options @ ..] => bench(name, options),
        ["record", ref options @ ..] => run(Command::new(workspace().join(RECORD)).args(options)),
        ["campaign", "load", ref options @ ..] => measure(CAMPAIGN, &[&["load"], options].concat()),
        ["campaign", name @ ("fuzz" | "kills"), ref options @ ..] => {
            run(Command::new(workspace().join(CAMPAIGN)).arg(name).args(options))
        }
        ["faults", ref options @ ..] => faults(options),
        ["generate"] => generate::write(&workspace()),
        ["profile", ref options @ ..] => profile(options),
        ["dist", ref options @ ..] => run(Command::new(workspace().join(DIST)).args(options)),
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

fn list_benches() -> Result<(), String> {
    say("cargo xtask bench NAME [OPTIONS], where NAME is one of\n");
    for name in benches()? {
        let text = fs::read_to_string(bench_file(&name)).map_err(|error| format!("{name}: {error}"))?;
        say(&format!("  {name:<12} {}\n", first_sentence(&text)));
    }
    Ok(())
}

fn bench(name: &str, options: &[&str]) -> Result<(), String> {
    let known = benches()?;
    if !known.iter().any(|bench| bench == name) {
        return Err(format!("there is no bench `{name}`, but {}", known.join(", ")));
    }
    measure(&format!("{BENCHES}/{name}.py"), options)
}

/// The programs in `benches`.
fn benches() -> Result<Vec<String>, String> {
    let folder = fs::read_dir(workspace().join(BENCHES)).map_err(|error| format!("{BENCHES}: {error}"))?;
    let mut names: Vec<String> = folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".py").map(str::to_owned))
        .filter(|name| bench_file(name) != workspace().join(PROFILE))
        .collect();
    names.sort();
    Ok(names)
}

fn bench_file(name: &str) -> PathBuf {
    workspace().join(BENCHES).join(format!("{name}.py"))
}

/// What a program says of itself first: the beginning of its docstring, on one line.
fn first_sentence(program: &str) -> String {
    let docstring = program.split("\"\"\"").nth(1).unwrap_or_default();
    let beginning =
        docstring.split([':', ';']).next().unwrap_or_default().split(".\n").next().unwrap_or_default();
    beginning.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Builds what is shipped, and what it is compared with, and gives it to a program that measures.
fn measure(program: &str, options: &[&str]) -> Result<(), String> {
    run(Command::new(env!("CARGO")).args(["build", "--profile", "dist"]).args(MEASURED))?;
    let mut client = Command::new(workspace().join(program));
    run(client.arg("--sternpost").arg(target(&workspace())?.join("dist/sternpost")).args(options))
}

/// Of development builds, which the tests have made; nothing is measured.
fn faults(options: &[&str]) -> Result<(), String> {
    let packages = ["--package", "sternpost", "--package", "sternpost-faults"];
    run(Command::new(env!("CARGO")).args(["build", "--locked"]).args(packages))?;
    run(Command::new(target(&workspace())?.join("debug/faults")).args(options))
}

/// Of a release, which is built for other checks, too; budgets are of that.
fn profile(options: &[&str]) -> Result<(), String> {
    run(Command::new(env!("CARGO")).args(["build", "--release", "--locked"]).args(MEASURED))?;
    let mut client = Command::new(workspace().join(PROFILE));
    run(client.arg("--sternpost").arg(target(&workspace())?.join("release/sternpost")).args(options))
}

/// The directory that cargo builds in: this program is in it.
fn target(workspace: &Path) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot tell where this runs: {error}"))?;
    let profile = own.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("debug")));
    Ok(profile.and_then(Path::parent).map_or_else(|| workspace.join("target"), Path::to_owned))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("FAILED".into()),
        Err(error) => Err(format!("cannot run {}: {error}", command.get_program().display())),
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[expect(clippy::print_stderr, reason = "a command-line tool for developers")]
fn say(text: &str) {
    eprint!("{text}");
}
