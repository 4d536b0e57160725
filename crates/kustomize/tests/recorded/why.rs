//! Who wrote what: `tests/why/*.case` hold a kustomization each, and the lines
//! that `build --why` answers with.
//!
//! The layout is that of `tests/cases/README.md`, with a line
//! `$ why DIR [PATTERN]`. Under `http/` is what is at such addresses, under
//! `git/NAME` what is in the repository of that name, and `(output)` is what
//! programs print. `UPDATE_WHY=1` writes new answers down, to be read before
//! they are kept.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use sternpost_kustomize::files::{Command, FetchError, Fetcher, MemoryFiles, Ran, Repository, Runner};
use sternpost_kustomize::{Environment, HelmOptions, Options, Pattern, PluginOptions, build};
use sternpost_testkit::recorded::Suite;

const ROOT: &str = "/work";

#[derive(Debug, Default)]
struct Case {
    name: String,
    /// All but the answer.
    given: String,
    directory: String,
    pattern: String,
    json: bool,
    files: Vec<(String, String)>,
    answer: String,
}

pub fn add(suite: &mut Suite) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/why");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    if std::env::vars().any(|(name, _)| name == "UPDATE_WHY") {
        paths.iter().for_each(|path| update(path));
    }
    let cases = paths.iter().flat_map(|path| parse(&std::fs::read_to_string(path).unwrap()));
    suite.group("why", 40, cases.map(|case| (case.name.clone(), move || same(&case))));
}

fn update(path: &Path) {
    let mut rewritten = String::new();
    for case in parse(&std::fs::read_to_string(path).unwrap()) {
        let _ = write!(rewritten, "{}>>\n{}", case.given, answer(&case));
    }
    std::fs::write(path, rewritten).unwrap();
}

fn same(case: &Case) -> Result<(), String> {
    let ours = answer(case);
    if ours == case.answer { Ok(()) } else { Err(format!("--- expected\n{}--- ours\n{ours}", case.answer)) }
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_answer = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(Case { name: name.to_owned(), ..Case::default() });
            in_answer = false;
        }
        let case = cases.last_mut().unwrap();
        if line == ">>" {
            in_answer = true;
            continue;
        }
        if in_answer {
            case.answer.push_str(line);
            case.answer.push('\n');
            continue;
        }
        case.given.push_str(line);
        case.given.push('\n');
        if let Some(command) = line.strip_prefix("$ why ") {
            let (directory, pattern) = command.split_once(' ').unwrap_or((command, ""));
            case.directory = directory.to_owned();
            case.pattern = pattern.trim_start_matches("--json").trim().to_owned();
            case.json = pattern.starts_with("--json");
        } else if let Some(name) = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            case.files.push((name.to_owned(), String::new()));
        } else if let Some((name, content)) = case.files.last_mut() {
            if name.ends_with(" (json)") {
                *content = serde_json::from_str(line).unwrap();
            } else {
                content.push_str(line);
                content.push('\n');
            }
        }
    }
    cases
}

/// Where the network would be, and what programs would print.
struct Around<'c>(&'c Case);

impl Around<'_> {
    fn file(&self, name: &str) -> Option<Vec<u8>> {
        let found = self.0.files.iter().find(|(known, _)| known == name);
        found.map(|(_, content)| content.clone().into_bytes())
    }
}

impl Fetcher for Around<'_> {
    fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let name = url.replacen("https://", "http/", 1);
        self.file(&name).ok_or_else(|| FetchError::Status { code: 404, reason: "Not Found".to_owned() })
    }

    fn clone_repository(&self, repository: &Repository) -> Result<PathBuf, FetchError> {
        let name = repository.url.rsplit('/').next().unwrap().trim_end_matches(".git");
        Ok(Path::new(ROOT).join("git").join(name))
    }
}

impl Runner for Around<'_> {
    fn run(&self, command: &Command) -> io::Result<Ran> {
        let version = command.arguments.iter().any(|argument| argument == "version");
        let output = if version { b"v3.14.0\n".to_vec() } else { self.file("(output)").unwrap_or_default() };
        Ok(Ran { status: Some(0), output, errors: Vec::new() })
    }

    fn temporary_directory(&self, _: &str) -> io::Result<PathBuf> {
        Ok("/tmp".into())
    }

    fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

fn answer(case: &Case) -> String {
    let mut files = MemoryFiles::default();
    files.add_directory(ROOT);
    for (name, content) in &case.files {
        files.add(format!("{ROOT}/{}", name.trim_end_matches(" (json)")), content.clone());
    }
    let around = Around(case);
    let environment = Environment { files: &files, fetcher: &around, runner: &around };
    let options = Options {
        shown: case.directory.clone(),
        directory: Path::new(ROOT).join(&case.directory),
        version: "v5.8.1".to_owned(),
        managed_by: case.name.ends_with("by-flag"),
        helm: HelmOptions { enabled: true, ..HelmOptions::default() },
        plugins: PluginOptions { enabled: true, exec: true, ..PluginOptions::default() },
        why: true,
        ..Options::default()
    };
    let built = match build(environment, &options) {
        Ok(built) => built,
        Err(failed) => return format!("Error: {failed}\n"),
    };
    match Pattern::new(&case.pattern).select(&built.objects) {
        Err(error) => format!("Error: {error}\n"),
        Ok(fields) => {
            let line = |(object, field): (&sternpost_kustomize::Written, &sternpost_kustomize::Field)| {
                let json = || object.why_json(field).to_string();
                format!("{}\n", if case.json { json() } else { object.why_text(field) })
            };
            fields.into_iter().map(line).collect()
        }
    }
}
