//! Every recorded answer of kustomize's other commands against ours, the files
//! they change included: `tests/cases/README.md` says how the cases are laid
//! out.
//!
//! `tests/cases/pending-commands` lists cases whose answers differ. A case that
//! is not listed must be equal; one that is listed must not be, so that the list
//! stays true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine;
use sternpost_kustomize::command::{Answer, Surroundings, run};
use sternpost_kustomize::files::{MemoryFiles, Nothing};
use sternpost_testkit::recorded::Suite;

const ROOT: &str = "/tmp/case/work";
const TOPICS: [&str; 5] = ["cfg-", "create-", "edit-", "localize-", "version-"];

#[derive(Debug, Default)]
struct Case {
    name: String,
    command: String,
    directory: String,
    unstable: bool,
    needs_git: bool,
    files: Vec<(String, String, String)>,
    exit: u8,
    answers: BTreeMap<String, String>,
}

pub fn add(suite: &mut Suite) {
    let pending: BTreeSet<String> = read("pending-commands").lines().map(str::to_owned).collect();
    let checks = cases().into_iter().map(|case| {
        let pending = pending.contains(&case.name);
        (case.name.clone(), move || same(&case, pending))
    });
    suite.group("command", 480, checks);
    suite.test(
        "a_fetched_document_goes_to_the_file_that_is_named",
        a_fetched_document_goes_to_the_file_that_is_named,
    );
    suite.test("a_repeated_patch_is_told_with_its_target", a_repeated_patch_is_told_with_its_target);
}

fn same(case: &Case, pending: bool) -> Result<(), String> {
    let (expected, ours) = (expected(case), answer(case));
    let same = if case.unstable { ours["exit"] == expected["exit"] } else { ours == expected };
    match (same, pending) {
        (true, true) => Err("it is no longer pending".to_owned()),
        (false, false) => {
            let text =
                |answer: &BTreeMap<String, String>, part: &str| answer.get(part).cloned().unwrap_or_default();
            let parts: BTreeSet<&String> = ours.keys().chain(expected.keys()).collect();
            let differing = parts.into_iter().filter(|part| text(&ours, part) != text(&expected, part));
            let told = differing.map(|part| {
                let (expected, ours) = (text(&expected, part), text(&ours, part));
                format!("--- {part} of kustomize:\n{expected}--- {part} of ours:\n{ours}")
            });
            Err(format!("{}\n{}", case.command, told.collect::<String>()))
        }
        _ => Ok(()),
    }
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let names: BTreeSet<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| TOPICS.iter().any(|topic| name.starts_with(topic)))
        .collect();
    let mut cases = Vec::new();
    for name in names {
        parse(name.strip_suffix(".case").unwrap(), &read(&name), &mut cases);
    }
    // What would need a repository is for a test with a real git.
    cases.retain(|case| !case.needs_git);
    cases
}

/// Where the lines that follow belong.
enum Into {
    Nothing,
    Head,
    File,
    Answer(String),
}

fn parse(topic: &str, text: &str, cases: &mut Vec<Case>) {
    let mut into = Into::Nothing;
    let mut form = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            let name = format!("{topic}/{name}");
            cases.push(Case { name, directory: ROOT.to_owned(), ..Case::default() });
            into = Into::Head;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(marker) = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            let (name, kind) = formed(marker);
            form = kind;
            case.files.push((name, form.clone(), String::new()));
            into = Into::File;
        } else if let Some(marker) = line.strip_prefix(">> ") {
            let (name, kind) = formed(marker);
            form = kind;
            if let Some(code) = name.strip_prefix("exit ") {
                case.exit = code.parse().unwrap();
                into = Into::Nothing;
            } else {
                case.answers.insert(name.clone(), String::new());
                into = Into::Answer(name);
            }
        } else {
            let text = match &into {
                Into::Nothing => continue,
                Into::Head => {
                    head(case, line);
                    continue;
                }
                Into::File => &mut case.files.last_mut().unwrap().2,
                Into::Answer(name) => case.answers.get_mut(name).unwrap(),
            };
            let content = line.strip_prefix('\\').unwrap_or(line);
            crate::builds::add_line(text, &form, content);
        }
    }
}

/// A name and, in parentheses behind it, how its content is written.
fn formed(marker: &str) -> (String, String) {
    const FORMS: [&str; 6] = ["no newline", "base64", "json", "link", "dir", "exec"];
    let split = marker.rsplit_once(" (").and_then(|(name, form)| Some((name, form.strip_suffix(')')?)));
    match split.filter(|(_, form)| FORMS.contains(form)) {
        Some((name, form)) => (name.to_owned(), form.to_owned()),
        None => (marker.to_owned(), String::new()),
    }
}

fn head(case: &mut Case, line: &str) {
    if let Some(command) = line.strip_prefix("$ ") {
        command.clone_into(&mut case.command);
    } else if let Some(directory) = line.strip_prefix("cwd ") {
        case.directory = format!("{ROOT}/{directory}");
    } else if line.starts_with("unstable ") {
        case.unstable = true;
    } else if line.starts_with("git ") {
        case.needs_git = true;
    }
}

/// A line of a shell in words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(char) = rest.next() {
        match (quote, char) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(rest.next()),
            (Some(open), char) if char == open => quote = None,
            (Some('"'), '\\') => match rest.next() {
                Some(char @ ('"' | '\\' | '$')) => word.get_or_insert_default().push(char),
                other => {
                    word.get_or_insert_default().push('\\');
                    word.get_or_insert_default().extend(other);
                }
            },
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

fn expected(case: &Case) -> BTreeMap<String, String> {
    let mut expected = case.answers.clone();
    // Ours has no clock and shows no addresses of memory.
    if let Some(stderr) = expected.get_mut("stderr") {
        *stderr = stderr.replace("$TIME ", "");
    }
    expected.insert("exit".to_owned(), format!("{}\n", case.exit));
    expected
}

fn answer(case: &Case) -> BTreeMap<String, String> {
    let mut files = MemoryFiles::default();
    files.add_directory(ROOT);
    let mut input: Vec<u8> = Vec::new();
    for (name, form, content) in &case.files {
        let path = format!("{ROOT}/{name}");
        let content = content.replace("$ROOT", ROOT);
        match form.as_str() {
            _ if name == "(stdin)" => input = content.into_bytes(),
            "link" => files.add_link(path, content.trim_end_matches('\n')),
            "dir" => files.add_directory(path),
            "base64" => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(content.trim_end()).unwrap();
                files.add(path, bytes);
            }
            _ => files.add(path, content),
        }
    }
    let before = files.clone();
    let surroundings = Surroundings {
        files: &mut files,
        fetcher: &Nothing,
        runner: &Nothing,
        directory: case.directory.clone().into(),
        input: &mut input.as_slice(),
        version: "v5.8.1".to_owned(),
        program: "kustomize".to_owned(),
        user: None,
    };
    let words: Vec<String> = words(&case.command).iter().map(|word| word.replace("$ROOT", ROOT)).collect();
    let Answer { status, output, errors } = run(surroundings, &words);
    let masked = |text: &str| text.replace(ROOT, "$ROOT").replace("/tmp/case", "$TMP");
    let mut answer = BTreeMap::from([("exit".to_owned(), format!("{status}\n"))]);
    if !output.is_empty() {
        let help = output.lines().any(|line| line == "Usage:");
        answer.insert("stdout".to_owned(), if help { "$HELP\n".to_owned() } else { masked(&output) });
    }
    if !errors.is_empty() {
        let said = match errors.split_once("Usage:\n") {
            Some((said, _)) => format!("{said}$USAGE\n"),
            None => errors,
        };
        answer.insert("stderr".to_owned(), masked(&said));
    }
    let old: BTreeMap<&Path, &[u8]> = before.files().collect();
    for (path, content) in files.files() {
        if old.get(path) != Some(&content) {
            let name = path.strip_prefix(ROOT).unwrap().display();
            answer.insert(format!("file {name}"), masked(&String::from_utf8_lossy(content)));
        }
    }
    answer
}

/// kubectl, as far as `openapi fetch` asks it.
struct Kubectl;

impl sternpost_kustomize::files::Runner for Kubectl {
    fn run(
        &self,
        command: &sternpost_kustomize::files::Command,
    ) -> std::io::Result<sternpost_kustomize::files::Ran> {
        assert_eq!(command.program, "kubectl");
        assert_eq!(command.arguments, ["get", "--raw", "/openapi/v2"]);
        let output = br#"{"swagger":"2.0","definitions":{}}"#.to_vec();
        Ok(sternpost_kustomize::files::Ran { status: Some(0), output, errors: Vec::new() })
    }

    fn temporary_directory(&self, _: &str) -> std::io::Result<std::path::PathBuf> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: &Path, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A difference on purpose: kustomize takes the name of a file and prints to
/// standard output all the same.
fn a_fetched_document_goes_to_the_file_that_is_named() {
    let mut files = MemoryFiles::default();
    files.add_directory(ROOT);
    let mut fetch = |words: &[&str]| {
        let surroundings = Surroundings {
            files: &mut files,
            fetcher: &Nothing,
            runner: &Kubectl,
            directory: ROOT.into(),
            input: &mut std::io::empty(),
            version: "v5.8.1".to_owned(),
            program: "kustomize".to_owned(),
            user: None,
        };
        run(surroundings, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    };
    let document = "{\n  \"definitions\": {},\n  \"swagger\": \"2.0\"\n}\n";
    let printed = Answer { status: 0, output: document.to_owned(), errors: String::new() };
    assert_eq!(fetch(&["openapi", "fetch"]), printed);
    assert_eq!(fetch(&["openapi", "fetch", "schema.json"]), Answer::default());
    let written: Vec<_> = files.files().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
    assert_eq!(written, [document]);
}

/// A difference on purpose: where kustomize tells an address in memory of the
/// target of a patch that is there already, ours tells the target.
fn a_repeated_patch_is_told_with_its_target() {
    let mut files = MemoryFiles::default();
    files.add(format!("{ROOT}/kustomization.yaml"), "resources: []\n");
    files.add(format!("{ROOT}/p.yaml"), "a: b\n");
    let mut add = || {
        let surroundings = Surroundings {
            files: &mut files,
            fetcher: &Nothing,
            runner: &Nothing,
            directory: ROOT.into(),
            input: &mut std::io::empty(),
            version: "v5.8.1".to_owned(),
            program: "kustomize".to_owned(),
            user: None,
        };
        run(surroundings, &words("edit add patch --path p.yaml --kind Pod --name x"))
    };
    assert_eq!(add(), Answer::default());
    let again = add();
    assert_eq!(again.status, 0);
    let target = r#"Target:(*types.Selector)({"kind":"Pod","name":"x"})"#;
    assert!(again.errors.contains(target), "{}", again.errors);
}
