//! Every recorded answer of kustomize against ours: `tests/cases/README.md`
//! says how the files are laid out.
//!
//! `tests/cases/differences` lists cases whose answers differ on purpose, with
//! the reason. A case that is not listed must be equal; one that is listed must
//! not be, so that the list stays true.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use sternpost_kustomize::files::{FileSystem, MemoryFiles, Nothing};
use sternpost_kustomize::{Environment, Field, Options, Reorder, Restriction, Segment, build};
use sternpost_testkit::recorded::Suite;

const ROOT: &str = "/tmp/case/work";

/// Needs git, which the test of the program has.
const IN_THE_PROGRAM: &str = "build-git";

#[derive(Debug, Default)]
struct Case {
    name: String,
    command: String,
    directory: String,
    managed_by: bool,
    unstable: bool,
    files: Vec<(String, String, String)>,
    exit: i32,
    stdout: String,
    stderr: String,
    writes_files: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    exit: i32,
    stdout: String,
    stderr: String,
}

pub fn add(suite: &mut Suite) {
    let list = read("differences");
    let differences: BTreeSet<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").unwrap_or((line, "")).0)
        .collect();
    let built = cases().into_iter().filter_map(|case| Some((options(&case)?, case)));
    let checks = built.map(|(options, case)| {
        let differs = differences.contains(case.name.as_str());
        (case.name.clone(), move || same(&case, &options, differs))
    });
    suite.group("build", 1_000, checks);
    let built = cases().into_iter().filter_map(|case| Some((options(&case)?, case)));
    let checks =
        built.map(|(options, case)| (case.name.clone(), move || every_field_has_writers(&case, options)));
    suite.group("writers of build", 1_000, checks);
    suite.test("builds_at_once_answer_as_they_do_alone", builds_at_once_answer_as_they_do_alone);
}

/// Whether the answer is kustomize's, or another one on purpose.
fn same(case: &Case, options: &Options, differs: bool) -> Result<(), String> {
    let ours = answer(case, options);
    let same = if case.exit == 2 || case.exit == 124 || case.unstable {
        (ours.exit != 0) == (case.exit != 0)
    } else {
        let stderr = without_go(&case.stderr);
        ours == Answer { exit: case.exit, stdout: case.stdout.clone(), stderr }
    };
    match (same, differs) {
        (true, true) => Err("it is no longer different".to_owned()),
        (false, false) => Err(format!(
            "--- kustomize: {}\n{}{}--- ours: {}\n{}{}",
            case.exit, case.stdout, case.stderr, ours.exit, ours.stdout, ours.stderr
        )),
        _ => Ok(()),
    }
}

/// A build shares nothing with another one, so that a library may run many.
fn builds_at_once_answer_as_they_do_alone() {
    const THREADS: usize = 8;
    /// Every so many cases, of all topics.
    const SOME: usize = 8;
    let cases: Vec<(Case, Options)> = cases()
        .into_iter()
        .filter_map(|case| options(&case).map(|options| (case, options)))
        .step_by(SOME)
        .collect();
    let alone: Vec<Answer> = cases.iter().map(|(case, options)| answer(case, options)).collect();
    let different: BTreeSet<&str> = alone.iter().map(|answer| answer.stdout.as_str()).collect();
    assert!(different.len() > 100, "builds that are all the same would show nothing");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cases, alone) = (&cases, &alone);
            scope.spawn(move || {
                // Each begins elsewhere, so that different builds meet.
                let start = thread * cases.len() / THREADS;
                for at in (start..cases.len()).chain(0..start) {
                    let (case, options) = &cases[at];
                    assert_eq!(answer(case, options), alone[at], "{}", case.name);
                }
            });
        }
    });
}

/// Asking who wrote what changes nothing, and every field has an answer that
/// leads to a place in a file of the case.
fn every_field_has_writers(case: &Case, options: Options) -> Result<(), String> {
    let files = files(case);
    let environment = Environment { files: &files, fetcher: &Nothing, runner: &Nothing };
    let plain = build(environment, &options);
    let told = build(environment, &Options { why: true, ..options });
    let (plain, told) = match (plain, told) {
        (Ok(plain), Ok(told)) => (plain, told),
        (plain, told) => {
            assert_eq!(plain.err(), told.err());
            return Ok(());
        }
    };
    assert_eq!(plain.yaml(), told.yaml());
    assert!(plain.objects.iter().all(|object| object.why.is_empty()));
    let mut wrong = Vec::new();
    for object in &told.objects {
        let mut expected = Vec::new();
        leaves(&sternpost_yaml::from_str(&object.yaml).unwrap(), &mut Vec::new(), &mut expected);
        let mut found: Vec<Vec<String>> = object.why.iter().map(path_of).collect();
        expected.sort();
        found.sort();
        if expected != found {
            wrong.push(format!("{}: fields {found:?}, not {expected:?}", object.shown()));
        }
        for field in &object.why {
            let problem = problem(case, &files, field);
            wrong.extend(problem.map(|problem| format!("{}: {problem}", object.why_text(field))));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn leaves(value: &serde_json::Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let children: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), value)).collect(),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    if children.is_empty() {
        found.push(path.clone());
    }
    for (key, child) in children {
        path.push(key);
        leaves(child, path, found);
        path.pop();
    }
}

fn path_of(field: &Field) -> Vec<String> {
    let text = |segment: &Segment| match segment {
        Segment::Key(key) => key.clone(),
        Segment::Element { at, .. } => at.to_string(),
    };
    field.path.iter().map(text).collect()
}

/// What is wrong with the writers of a field, if anything.
fn problem(case: &Case, files: &MemoryFiles, field: &Field) -> Option<String> {
    let Some(last) = field.writers.first() else { return Some("nobody wrote it".to_owned()) };
    if last.removed {
        return Some("it is told to be removed".to_owned());
    }
    for writer in &field.writers {
        if writer.file.is_empty() {
            if writer.by != "--enable-managedby-label" {
                return Some(format!("{writer:?} is nowhere"));
            }
            continue;
        }
        let path = clean(&Path::new(&case.directory).join(&writer.file));
        let Ok(bytes) = files.read(&path) else {
            // Of links only the names are known here.
            if case.files.iter().any(|(_, form, _)| form == "link") {
                continue;
            }
            return Some(format!("no file {}", path.display()));
        };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        // YAML knows more line breaks than one.
        let text = text.replace("\r\n", "\n").replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
        let line = text.split('\n').nth(usize::try_from(writer.line).unwrap() - 1);
        let columns = line.map_or(0, |line| line.chars().count());
        // An empty value stands behind its key, and a file may be empty.
        if writer.column == 0 || usize::try_from(writer.column).unwrap() > columns + 1 {
            return Some(format!("no {}:{} in {}", writer.line, writer.column, writer.file));
        }
    }
    None
}

fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                clean.pop();
            }
            std::path::Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// Ours has no clock and no addresses of memory in its messages.
fn without_go(stderr: &str) -> String {
    stderr
        .replace("$TIME ", "")
        .replace("merging from generator &{0xPTR <nil>}: ", "merging from generator: ")
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let topic = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        name.strip_suffix(".case")
            .filter(|name| name.starts_with("build-") && *name != IN_THE_PROGRAM)
            .map(str::to_owned)
    };
    let mut cases = Vec::new();
    for (path, topic) in paths.iter().filter_map(|path| Some((path, topic(path)?))) {
        parse(&topic, &std::fs::read_to_string(path).unwrap(), &mut cases);
    }
    cases
}

/// Where the lines that follow belong.
enum Into {
    Head,
    File,
    Stdout(String),
    Stderr(String),
    Ignored,
}

fn parse(topic: &str, text: &str, cases: &mut Vec<Case>) {
    let mut into = Into::Ignored;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            let name = format!("{topic}/{name}");
            cases.push(Case { name, directory: ROOT.to_owned(), ..Case::default() });
            into = Into::Head;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(marker) = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            let (name, form) = match marker.rsplit_once(" (") {
                Some((name, form)) => (name, form.trim_end_matches(')')),
                None => (marker, ""),
            };
            case.files.push((name.to_owned(), form.to_owned(), String::new()));
            into = Into::File;
        } else if let Some(answer) = line.strip_prefix(">> ") {
            let (what, form) = match answer.split_once(" (") {
                Some((what, form)) => (what, form.trim_end_matches(')').to_owned()),
                None => (answer, String::new()),
            };
            into = match what {
                "stdout" => Into::Stdout(form),
                "stderr" => Into::Stderr(form),
                what => {
                    if let Some(code) = what.strip_prefix("exit ") {
                        case.exit = code.parse().unwrap();
                    } else {
                        case.writes_files = true;
                    }
                    Into::Ignored
                }
            };
        } else {
            let content = line.strip_prefix('\\').unwrap_or(line);
            let (text, form) = match &into {
                Into::Head => {
                    head(case, line);
                    continue;
                }
                Into::Ignored => continue,
                Into::File => {
                    let (_, form, text) = case.files.last_mut().unwrap();
                    (text, form.clone())
                }
                Into::Stdout(form) => (&mut case.stdout, form.clone()),
                Into::Stderr(form) => (&mut case.stderr, form.clone()),
            };
            add_line(text, &form, content);
        }
    }
}

/// Adds a line of content, written in one of the forms that a case has.
pub fn add_line(text: &mut String, form: &str, content: &str) {
    match form {
        "json" => text.push_str(&serde_json::from_str::<String>(content).unwrap()),
        "no newline" => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(content);
        }
        _ => {
            text.push_str(content);
            text.push('\n');
        }
    }
}

fn head(case: &mut Case, line: &str) {
    if let Some(command) = line.strip_prefix("$ ") {
        command.clone_into(&mut case.command);
    } else if let Some(directory) = line.strip_prefix("cwd ") {
        case.directory = format!("{ROOT}/{directory}");
    } else if line == "env KUSTOMIZE_ENABLE_MANAGEDBY_LABEL=on" {
        case.managed_by = true;
    } else if line.starts_with("unstable ") {
        case.unstable = true;
    }
}

/// `None` for commands that are about the command line alone.
fn options(case: &Case) -> Option<Options> {
    let mut words = case.command.split_whitespace();
    if words.next() != Some("build") || case.writes_files {
        return None;
    }
    let mut options =
        Options { version: "v5.8.1".to_owned(), managed_by: case.managed_by, ..Options::default() };
    let mut shown = None;
    while let Some(word) = words.next() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let mut value = || if value.is_empty() { words.next().unwrap_or_default() } else { value };
        match word {
            "--load-restrictor" => {
                options.restriction = match value() {
                    "LoadRestrictionsNone" => Restriction::None,
                    "LoadRestrictionsRootOnly" => Restriction::RootOnly,
                    _ => return None,
                };
            }
            "--reorder" => {
                options.reorder = match value() {
                    "legacy" => Some(Reorder::Legacy),
                    "none" => Some(Reorder::None),
                    _ => return None,
                };
            }
            "--enable-managedby-label" => options.managed_by = true,
            word if word.starts_with('-') => return None,
            word => {
                if shown.replace(word.replace("$ROOT", ROOT)).is_some() {
                    return None;
                }
            }
        }
    }
    options.shown = shown.unwrap_or_else(|| ".".to_owned());
    options.shown = options.shown.replace("''", "");
    options.directory = Path::new(&case.directory).join(&options.shown);
    Some(options)
}

fn files(case: &Case) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    files.add_directory(ROOT);
    for (name, form, content) in &case.files {
        let path = format!("{ROOT}/{name}");
        let content = content.replace("$ROOT", ROOT);
        match form.as_str() {
            "link" => files.add_link(path, content.trim_end_matches('\n')),
            "dir" => files.add_directory(path),
            "base64" => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(content.trim_end()).unwrap();
                files.add(path, bytes);
            }
            _ => files.add(path, content),
        }
    }
    files
}

fn answer(case: &Case, options: &Options) -> Answer {
    let files = files(case);
    let environment = Environment { files: &files, fetcher: &Nothing, runner: &Nothing };
    let (exit, stdout, warnings, error) = match build(environment, options) {
        Ok(built) => (0, built.yaml(), built.warnings, None),
        Err(failed) => (1, String::new(), failed.warnings, Some(failed.error.to_string())),
    };
    let mut stderr = String::new();
    if case.command.contains("--reorder") {
        stderr.push_str(
            "Flag --reorder has been deprecated, use the new 'sortOptions' field in kustomization.yaml instead.\n",
        );
    }
    if case.command.contains("--enable-managedby-label") {
        stderr.push_str("Flag --enable-managedby-label has been deprecated, The flag `enable-managedby-label` has been deprecated. Use the `managedByLabel` option in the `buildMetadata` field instead.\n");
    }
    for warning in warnings {
        stderr.push_str(&warning);
        stderr.push('\n');
    }
    if let Some(error) = error {
        stderr.push_str(&format!("Error: {error}\n"));
    }
    Answer {
        exit,
        stdout: stdout.replace(ROOT, "$ROOT"),
        stderr: stderr.replace(ROOT, "$ROOT").replace("/tmp/case", "$TMP"),
    }
}
