//! Instructions at n, 2n and 4n.
//!
//! The second doubling is held against the first: what a request costs besides its elements
//! drops out of the differences, so few elements are enough to tell. Cases that look superlinear,
//! or too cheap to tell, are measured again with more of them, until they look linear or come closer to it.

#![allow(clippy::disallowed_methods, reason = "what is measured is the machine's time")]

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use super::say;

/// How many times as much the second doubling may take as the first. Linear is 2 and n log n a
/// little more; what is quadratic comes close to 4, and to less where each element costs much besides.
const MAX_GROWTH: f64 = 2.25;

/// What is measured again with more elements, which tell a logarithm, whose share sinks, from a
/// square, whose share rises.
const DOUBTFUL_GROWTH: f64 = 2.08;

/// What the elements have to cost to tell anything: allocations alone vary by a tenth of it.
/// Thousands of elements that cost less leave no room for a square.
const MIN_INSTRUCTIONS: u64 = 200_000;

/// How many times as many elements each further measurement of a case has, and how many there are.
const ENLARGED: usize = 4;
const MAX_ROUNDS: usize = 4;

/// The cases that show that the measuring works, and whether they are superlinear.
const KNOWN: [(&str, bool); 2] = [("known to be linear", false), ("known to be quadratic", true)];

/// How many of the worst cases are named in the end, and after how many there is a word of progress.
const SHOWN: usize = 10;
const PROGRESS: usize = 200;

/// The function that is measured and the one that follows it, as callgrind is told of them.
const MEASURED: &str = "*measured_case*";
const BEHIND: &str = "*end_of_case*";

/// Where all figures are kept, in the target directory.
const FIGURES: &str = "complexity.tsv";

/// Measures the cases whose names have one of the words; all of them without any.
pub fn check(words: &[&str]) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        say("xtask: complexity: SKIPPED: valgrind is not installed\n");
        return Ok(());
    }
    let program = build()?;
    let all = list(&program)?;
    let known = KNOWN.map(|(name, is_superlinear)| {
        let case = all.iter().find(|case| case.name == name).cloned();
        case.map(|case| (case, is_superlinear)).ok_or_else(|| format!("there is no case `{name}`"))
    });
    let known: Vec<(Case, bool)> = known.into_iter().collect::<Result<_, _>>()?;
    let is_chosen = |case: &Case| {
        let is_known = KNOWN.iter().any(|(name, _)| case.name == *name);
        !is_known && (words.is_empty() || words.iter().any(|word| case.name.contains(word)))
    };
    let chosen: Vec<Case> = all.into_iter().filter(is_chosen).collect();
    let figures = target(&program).join(FIGURES);
    say(&format!("xtask: complexity: {} cases; all figures are in {}\n", chosen.len(), figures.display()));
    let board = Board {
        cases: chosen.len(),
        waiting: Mutex::new(chosen.into_iter().rev().collect()),
        measured: Mutex::new(Figures::new(&figures)?),
    };
    // Each process takes the next case when it is done with one: as many as there are processors.
    let processes = thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    let outcomes: Vec<Result<(), String>> = thread::scope(|scope| {
        let (program, known, board) = (&program, &known, &board);
        let run = |number| scope.spawn(move || measure(program, number, known, board, started));
        let running: Vec<_> = (0..processes).map(run).collect();
        let broken = || Err("a measurement broke off".to_owned());
        running.into_iter().map(|process| process.join().unwrap_or_else(|_| broken())).collect()
    });
    outcomes.into_iter().collect::<Result<(), _>>()?;
    let mut measured = board.measured.into_inner().unwrap_or_else(PoisonError::into_inner).cases;
    measured.sort_by(|a, b| b.growth().total_cmp(&a.growth()));
    report(&measured)
}

/// One thing that grows.
#[derive(Debug, Clone)]
struct Case {
    /// Its place in the list.
    index: usize,
    name: String,
    /// Elements of the smallest measurement.
    size: usize,
}

/// What is still to be measured, the next one last, and what has been.
struct Board {
    cases: usize,
    waiting: Mutex<Vec<Case>>,
    measured: Mutex<Figures>,
}

/// What has been measured, and the file in which it is kept, one case a line.
struct Figures {
    cases: Vec<Measured>,
    file: File,
}

impl Figures {
    fn new(path: &Path) -> Result<Self, String> {
        let mut file =
            File::create(path).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        writeln!(file, "growth\tn\tat n\tat 2n\tat 4n\tcase").map_err(|error| error.to_string())?;
        Ok(Self { cases: Vec::new(), file })
    }

    fn push(&mut self, case: Measured) -> Result<(), String> {
        let ([once, twice, four_times], size, growth) = (case.counts, case.size, case.growth());
        writeln!(self.file, "{growth:.3}\t{size}\t{once}\t{twice}\t{four_times}\t{}", case.name)
            .map_err(|error| format!("cannot keep a figure: {error}"))?;
        self.cases.push(case);
        Ok(())
    }
}

/// Instructions of a case for `size` elements, for twice and for four times as many.
#[derive(Debug, Clone)]
struct Measured {
    name: String,
    size: usize,
    counts: [u64; 3],
}

impl Measured {
    /// How many times as much the second doubling takes as the first.
    fn growth(&self) -> f64 {
        let [once, twice, four_times] = self.counts;
        if self.tells_nothing() {
            return 0.0;
        }
        four_times.saturating_sub(twice) as f64 / twice.saturating_sub(once).max(1) as f64
    }

    /// Whether the elements cost too little to say how it grows.
    fn tells_nothing(&self) -> bool {
        let [once, _, four_times] = self.counts;
        four_times.saturating_sub(once) < MIN_INSTRUCTIONS
    }

    fn is_superlinear(&self) -> bool {
        self.growth() > MAX_GROWTH
    }

    fn is_doubtful(&self) -> bool {
        self.tells_nothing() || self.growth() > DOUBTFUL_GROWTH
    }

    /// Whether it is a logarithm that makes it doubtful: more elements brought it closer to linear.
    fn is_sinking_since(&self, before: &Self) -> bool {
        !before.tells_nothing()
            && !self.tells_nothing()
            && !self.is_superlinear()
            && self.growth() < before.growth()
    }

    fn text(&self) -> String {
        let ([once, twice, four_times], size, growth) = (self.counts, self.size, self.growth());
        format!(
            "{growth:.2}: {} ({once}, {twice}, {four_times} instructions at n = {size}, 2n, 4n)",
            self.name
        )
    }
}

/// From the worst to the best.
fn report(measured: &[Measured]) -> Result<(), String> {
    if measured.is_empty() {
        return Err("no case has such a name".into());
    }
    let failed = measured.iter().filter(|case| case.is_superlinear()).count();
    say("xtask: complexity: the worst, by how many times as much a second doubling takes as the first:\n");
    for (index, case) in measured.iter().enumerate().take(failed.max(SHOWN)) {
        say(&format!(
            "xtask: complexity: {} {}\n",
            if index < failed { "FAILED" } else { "passed" },
            case.text()
        ));
    }
    let all = measured.len();
    let cheap = measured.iter().filter(|case| case.tells_nothing()).count();
    say(&format!(
        "xtask: complexity: {all} cases, {failed} superlinear (above {MAX_GROWTH}), {cheap} that cost next to nothing by their length\n"
    ));
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {all} cases are superlinear")) }
}

/// Builds the cases; where they are is in what cargo tells of it.
fn build() -> Result<PathBuf, String> {
    let arguments = [
        "build",
        "--locked",
        "--release",
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

/// The directory that a program was built in: TARGET/PROFILE/deps/PROGRAM.
fn target(program: &Path) -> &Path {
    program.ancestors().nth(3).unwrap_or(program)
}

fn list(program: &Path) -> Result<Vec<Case>, String> {
    let output = Command::new(program).arg("list").output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let cases = text.lines().enumerate().map(|(index, line)| {
        let (name, size) = line.split_once('\t')?;
        Some(Case { index, name: name.to_owned(), size: size.parse().ok()? })
    });
    cases.collect::<Option<_>>().ok_or_else(|| "the cases are not listed as they should be".to_owned())
}

/// One process: measures the cases whose growth is known, and then those that wait.
fn measure(
    program: &Path,
    number: usize,
    known: &[(Case, bool)],
    board: &Board,
    started: Instant,
) -> Result<(), String> {
    let mut counter = Counter::start(program, number)?;
    for (case, is_superlinear) in known {
        let measured = counter.measure(case)?;
        if measured.is_superlinear() != *is_superlinear || measured.tells_nothing() {
            return Err(format!("the measuring does not work: {}", measured.text()));
        }
    }
    loop {
        let next = board.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(case) = next else { return Ok(()) };
        let measured = counter.measure(&case)?;
        if measured.is_superlinear() {
            say(&format!("xtask: complexity: superlinear: {}\n", measured.text()));
        }
        let mut all = board.measured.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(measured)?;
        let done = all.cases.len();
        if done.is_multiple_of(PROGRESS) {
            let seconds = started.elapsed().as_secs();
            say(&format!("xtask: complexity: {done} of {} cases, {seconds} s\n", board.cases));
        }
    }
}

/// The cases under callgrind, which dumps its count after each.
struct Counter {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
    dumps: usize,
}

impl Counter {
    fn start(program: &Path, number: usize) -> Result<Self, String> {
        let folder = env::temp_dir().join(format!("sternpost-complexity-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
        let mut process = Command::new("valgrind")
            .args(["--quiet", "--tool=callgrind"])
            .arg(format!("--toggle-collect={MEASURED}"))
            .arg(format!("--dump-before={BEHIND}"))
            .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
            .arg(program)
            .arg("run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run valgrind: {error}"))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("valgrind cannot be talked to".into());
        };
        Ok(Self { process, orders, answers: BufReader::new(answers), folder, dumps: 0 })
    }

    /// With more and more elements until it is clear how a case grows.
    fn measure(&mut self, case: &Case) -> Result<Measured, String> {
        let mut size = case.size;
        let mut round = 1;
        let mut before: Option<Measured> = None;
        loop {
            let counts = [self.count(case, size)?, self.count(case, 2 * size)?, self.count(case, 4 * size)?];
            let measured = Measured { name: case.name.clone(), size, counts };
            let is_sinking = before.is_some_and(|before| measured.is_sinking_since(&before));
            if round == MAX_ROUNDS || is_sinking || !measured.is_doubtful() {
                return Ok(measured);
            }
            before = Some(measured);
            round += 1;
            size *= ENLARGED;
        }
    }

    fn count(&mut self, case: &Case, size: usize) -> Result<u64, String> {
        let broken = |_| format!("`{}` broke off with {size} elements", case.name);
        writeln!(self.orders, "{} {size}", case.index).map_err(broken)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(broken)?;
        if answer.trim_end() != format!("{}\t{size}", case.name) {
            return Err(format!("`{}` broke off with {size} elements", case.name));
        }
        self.dumps += 1;
        let dump = self.folder.join(format!("counts.{}", self.dumps));
        let count = instructions(&dump)?;
        fs::remove_file(&dump).map_err(|error| format!("cannot remove `{}`: {error}", dump.display()))?;
        Ok(count)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Nobody asks it anything more; what is left behind is harmless.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
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

    fn counted(cost: impl Fn(u64) -> u64) -> Measured {
        Measured { name: "c".into(), size: 1000, counts: [cost(1000), cost(2000), cost(4000)] }
    }

    #[test]
    fn what_grows_with_the_square_fails_and_what_grows_with_the_length_does_not() {
        let linear = counted(|n| 1_000_000 + 500 * n);
        let sorted = counted(|n| 1_000_000 + 20 * n * u64::from(n.ilog2()));
        let quadratic = counted(|n| 1_000_000 + 5000 * n + n * n);
        // A list that is refused for its length.
        let refused = counted(|n| if n < 3000 { 500 * n } else { 2000 });
        let constant = counted(|_| 1_000_000);
        for passes in [&linear, &sorted, &refused, &constant] {
            assert!(report(std::slice::from_ref(passes)).is_ok(), "{}", passes.text());
        }
        assert!(report(&[quadratic, linear]).is_err());
        assert!(report(&[]).is_err());
    }

    #[test]
    fn what_looks_superlinear_or_costs_too_little_is_measured_again() {
        assert!(!counted(|n| 500 * n).is_doubtful());
        assert!(counted(|n| 500 * n + n * n / 10).is_doubtful());
        assert!(counted(|n| 50 * n).is_doubtful());
    }
}
