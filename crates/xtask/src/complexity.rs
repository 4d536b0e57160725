//! Instructions at n and at 2n.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use super::say;

/// How many times as much twice as many elements may take. Linear is 2, n log n a little more;
/// what is quadratic comes close to 4, and to less where each element costs much besides.
const MAX_GROWTH: f64 = 2.25;

/// What no measurement is below of: fewer instructions are those of the request, not of what is in it.
const MIN_INSTRUCTIONS: u64 = 200_000;

/// The function that is measured and the one that follows it, as callgrind is told of them.
const MEASURED: &str = "*measured_case*";
const BEHIND: &str = "*end_of_case*";

/// Measures the cases whose names have one of the words; all of them without any.
pub fn check(words: &[&str]) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        say("xtask: complexity: SKIPPED: valgrind is not installed\n");
        return Ok(());
    }
    let program = build()?;
    // Each part is a process: as many as there are processors.
    let parts = thread::available_parallelism().map_or(1, usize::from);
    let running: Vec<_> = (0..parts)
        .map(|part| {
            let (program, words) =
                (program.clone(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            thread::spawn(move || measure(&program, part, parts, &words))
        })
        .collect();
    let mut measured = Vec::new();
    for part in running {
        measured.extend(part.join().map_err(|_| "a measurement broke off".to_owned())??);
    }
    report(&measured)
}

/// One case: its name, and instructions for n elements and for twice as many.
struct Case {
    name: String,
    once: u64,
    twice: u64,
}

impl Case {
    fn growth(&self) -> f64 {
        self.twice as f64 / self.once.max(1) as f64
    }

    fn is_superlinear(&self) -> bool {
        self.twice >= MIN_INSTRUCTIONS && self.growth() > MAX_GROWTH
    }
}

fn report(measured: &[Case]) -> Result<(), String> {
    if measured.is_empty() {
        return Err("no case has such a name".into());
    }
    let mut worst: Vec<&Case> = measured.iter().filter(|case| case.is_superlinear()).collect();
    worst.sort_by(|a, b| b.growth().total_cmp(&a.growth()));
    for Case { name, once, twice } in worst.iter().copied() {
        let growth = *twice as f64 / (*once).max(1) as f64;
        say(&format!(
            "xtask: complexity: {growth:.2} times the instructions for twice as many: {name} ({once}, {twice})\n"
        ));
    }
    let (failed, all) = (worst.len(), measured.len());
    say(&format!("xtask: complexity: {all} cases, {failed} superlinear\n"));
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {all} cases are superlinear")) }
}

/// Builds the cases; where they are is in what cargo tells of it.
fn build() -> Result<PathBuf, String> {
    let arguments = [
        "build",
        "--locked",
        "--profile",
        "complexity",
        "--package",
        "sternpost-verbs",
        "--bench",
        "complexity",
        "--message-format",
        "json",
    ];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the cases cannot be built".into());
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let ours =
        told.lines().filter(|line| line.contains("\"name\":\"complexity\"") && line.contains("\"bench\""));
    let path = ours.filter_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next()).next_back();
    path.map(PathBuf::from).ok_or_else(|| "cargo does not say where the cases are".to_owned())
}

fn measure(program: &Path, part: usize, parts: usize, words: &[String]) -> Result<Vec<Case>, String> {
    let folder = env::temp_dir().join(format!("sternpost-complexity-{}-{part}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let measured = measure_in(&folder, program, part, parts, words);
    // What is left of it is harmless.
    let _ = fs::remove_dir_all(&folder);
    measured
}

fn measure_in(
    folder: &Path,
    program: &Path,
    part: usize,
    parts: usize,
    words: &[String],
) -> Result<Vec<Case>, String> {
    let counts = folder.join("counts");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--dump-before={BEHIND}"))
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(program)
        .args(["run", &part.to_string(), &parts.to_string()])
        .args(words)
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("the cases failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
    let count = |at: usize| instructions(&folder.join(format!("counts.{}", at + 1)));
    let mut cases = Vec::new();
    for (index, pair) in names.chunks(2).enumerate() {
        let [name, _] = pair else { return Err("a case was measured once".into()) };
        cases.push(Case { name: (*name).to_owned(), once: count(2 * index)?, twice: count(2 * index + 1)? });
    }
    Ok(cases)
}

/// The sum in one dump of callgrind.
fn instructions(path: &Path) -> Result<u64, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let sum = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    let sum = sum.and_then(|sum| sum.split_whitespace().next()?.parse().ok());
    sum.ok_or_else(|| format!("`{}` has no sum", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(once: u64, twice: u64) -> Case {
        Case { name: "c".into(), once, twice }
    }

    #[test]
    fn what_grows_with_the_square_fails_and_what_grows_with_the_length_does_not() {
        assert!(report(&[case(1_000_000, 2_200_000)]).is_ok());
        assert!(report(&[case(1_000_000, 2_200_000), case(1_000_000, 3_900_000)]).is_err());
        // Too small to tell.
        assert!(report(&[case(10_000, 39_000)]).is_ok());
        assert!(report(&[]).is_err());
    }
}
