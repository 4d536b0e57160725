//! `sternpost build` as a program: recorded answers of kustomize that take more
//! than a library to give: flags, files that are written, git, helm, functions
//! and plugins. The layout of the cases is told in `crates/kustomize/tests/cases/README.md`.
//!
//! `KUSTOMIZE_CASE=part-of-a-name` runs some cases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Topics whose cases all run here; of the others, those whose flags need it.
const TOPICS: [&str; 4] = ["build-command", "build-git", "build-helm", "build-plugins"];

/// Cases whose answer differs on purpose, and why.
const DIFFERENCES: &[(&str, &str)] =
    &[("build-plugins/function-validator-passes", "a validator that changes nothing passes")];

#[derive(Debug, Default)]
struct Case {
    name: String,
    words: Vec<String>,
    directory: String,
    variables: Vec<(String, String)>,
    repositories: Vec<String>,
    unstable: bool,
    files: Vec<(String, String, String)>,
    /// `exit 1`, `stdout`, `stderr`, `file PATH`, ...
    answers: BTreeMap<String, String>,
}

#[test]
fn the_program_answers_as_kustomize() {
    let only = std::env::vars().find(|(name, _)| name == "KUSTOMIZE_CASE").map(|(_, value)| value);
    let (mut ran, mut wrong) = (0, Vec::new());
    for case in cases() {
        let wanted = only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
        if !wanted || case.words.first().is_none_or(|word| word != "build") {
            continue;
        }
        ran += 1;
        let (ours, theirs) = (answer(&case), recorded(&case));
        let different = DIFFERENCES.iter().any(|(name, _)| *name == case.name);
        if (ours == theirs) == different {
            wrong.push(format!("{}\n--- kustomize\n{theirs:#?}\n--- ours\n{ours:#?}", case.name));
        }
    }
    println!("{ran} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n=== "));
    assert!(ran > 0, "no case was run");
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kustomize/tests/cases");
    let mut cases = Vec::new();
    for topic in TOPICS {
        let text = std::fs::read_to_string(directory.join(format!("{topic}.case"))).unwrap();
        let text = text.strip_suffix('\n').unwrap_or(&text);
        for part in text.split("\n=== ").skip(1) {
            // The break before the next case ends the last line of this one.
            cases.push(parse(topic, &format!("{part}\n")));
        }
    }
    cases.retain(|case| {
        let flags = case.words.iter().any(|word| word.starts_with('-'));
        flags || case.name.starts_with("build-command") || case.name.starts_with("build-git")
    });
    cases
}

fn parse(topic: &str, text: &str) -> Case {
    let (name, text) = text.split_once('\n').unwrap();
    let mut case = Case { name: format!("{topic}/{name}"), ..Case::default() };
    // What the lines go to: the form and the text.
    let mut into: Option<(String, &mut String)> = None;
    for line in text.lines() {
        let formed = |marker: &str| match marker.rsplit_once(" (") {
            Some((name, form)) => (name.to_owned(), form.trim_end_matches(')').to_owned()),
            None => (marker.to_owned(), String::new()),
        };
        if let Some(marker) = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            let (name, form) = formed(marker);
            case.files.push((name, form.clone(), String::new()));
            into = case.files.last_mut().map(|file| (form, &mut file.2));
        } else if let Some(marker) = line.strip_prefix(">> ") {
            let (what, form) = formed(marker);
            into = Some((form, case.answers.entry(what).or_default()));
        } else if let Some((form, text)) = &mut into {
            let line = line.strip_prefix('\\').unwrap_or(line);
            match form.as_str() {
                "json" => text.push_str(&serde_json::from_str::<String>(line).unwrap()),
                "no newline" if text.is_empty() => text.push_str(line),
                "no newline" => text.push_str(&format!("\n{line}")),
                _ => text.push_str(&format!("{line}\n")),
            }
        } else if let Some(command) = line.strip_prefix("$ ") {
            case.words = command.split(' ').map(|word| word.replace("''", "")).collect();
        } else if let Some(directory) = line.strip_prefix("cwd ") {
            directory.clone_into(&mut case.directory);
        } else if let Some((name, value)) = line.strip_prefix("env ").and_then(|line| line.split_once('=')) {
            case.variables.push((name.to_owned(), value.to_owned()));
        } else if let Some(directory) = line.strip_prefix("git ") {
            case.repositories.push(directory.to_owned());
        } else if line.starts_with("unstable ") {
            case.unstable = true;
        }
    }
    case
}

/// The recorded answer, without what only that program has.
fn recorded(case: &Case) -> BTreeMap<String, String> {
    let mut answers = case.answers.clone();
    if let Some(stderr) = answers.get_mut("stderr") {
        *stderr = stderr.replace("$TIME ", "");
    }
    answers
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = name.replace('/', "-");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("build-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        for directory in ["work", "home", "tmp"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
        }
        Self(path.canonicalize().unwrap())
    }

    fn command(&self, directory: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
        let path = std::env::vars().find(|(name, _)| name == "PATH").unwrap().1;
        command.env_clear().env("PATH", path).env("HOME", self.0.join("home"));
        command.env("TMPDIR", self.0.join("tmp")).env("NO_COLOR", "1");
        command.current_dir(self.0.join("work").join(directory)).stdin(Stdio::null());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn answer(case: &Case) -> BTreeMap<String, String> {
    let place = Place::new(&case.name);
    let root = place.0.join("work");
    let shown = root.to_str().unwrap();
    for (name, form, content) in &case.files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match form.as_str() {
            "dir" => std::fs::create_dir_all(&path).unwrap(),
            _ => write(&path, &content.replace("$ROOT", shown), form == "exec"),
        }
    }
    case.repositories.iter().for_each(|directory| commit(&root.join(directory)));
    let before = snapshot(&root);
    let mut command = place.command(&case.directory);
    command.args(case.words.iter().map(|word| word.replace("$ROOT", shown)));
    for (name, value) in &case.variables {
        command.env(name, value.replace("$ROOT", shown));
    }
    let output = command.output().unwrap();

    let tmp = place.0.to_str().unwrap();
    let masked = |text: &str| numbered(&text.replace(shown, "$ROOT").replace(tmp, "$TMP"));
    let mut answers = BTreeMap::from([(format!("exit {}", output.status.code().unwrap()), String::new())]);
    let stderr: String = String::from_utf8_lossy(&output.stderr)
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("hint: "))
        .collect();
    for (name, text) in [("stdout", String::from_utf8_lossy(&output.stdout)), ("stderr", stderr.into())] {
        if !text.is_empty() {
            answers.insert(name.to_owned(), masked(&text));
        }
    }
    for (path, content) in snapshot(&root) {
        if before.get(&path) != Some(&content) {
            answers.insert(format!("file {path}"), masked(&content));
        }
    }
    let left: Vec<_> = std::fs::read_dir(place.0.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{}: left behind: {left:?}", case.name);
    answers
}

fn write(path: &Path, content: &str, executable: bool) {
    std::fs::write(path, content).unwrap();
    if executable {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn commit(directory: &Path) {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=case", "-c", "user.email=case@example.com"]).args(words);
        let output = command.current_dir(directory).output().unwrap();
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "all"]);
}

fn snapshot(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                open.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned());
            }
        }
    }
    files
}

/// Numbers of temporary directories read `N`.
fn numbered(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("$TMP/tmp/kust") {
        let digits =
            rest[at..].find(|char: char| char.is_ascii_digit()).map_or(rest.len(), |digit| at + digit);
        masked.push_str(&rest[..digits]);
        masked.push('N');
        rest = rest[digits..].trim_start_matches(|char: char| char.is_ascii_digit());
    }
    masked + rest
}

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

fn build(place: &Place, words: &[&str]) -> (i32, String, String) {
    let output = place.command("").arg("build").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Answers every request by its path, for as long as the test runs.
fn serve(answer: fn(&str) -> (&'static str, &'static str)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let (status, body) = answer(text.split(' ').nth(1).unwrap_or_default());
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn files_come_over_http() {
    let port = serve(|path| match path {
        "/a.yaml" => ("200 OK", OBJECT),
        "/old.yaml" => ("302 Found\r\nLocation: /a.yaml", ""),
        _ => ("404 Not Found", ""),
    });
    let place = Place::new("http");
    let kustomization = place.0.join("work/kustomization.yaml");
    let with = |path: &str| {
        write(&kustomization, &format!("resources: ['http://127.0.0.1:{port}{path}']\n"), false);
        build(&place, &[])
    };
    assert_eq!(with("/a.yaml"), (0, OBJECT.to_owned(), String::new()));
    assert_eq!(with("/old.yaml"), (0, OBJECT.to_owned(), String::new()));
    let (code, stdout, stderr) = with("/nope.yaml");
    let url = format!("http://127.0.0.1:{port}/nope.yaml");
    let expected = format!(
        "Error: accumulating resources: accumulating resources from '{url}': HTTP Error: status code 404 (Not Found)\n"
    );
    assert_eq!((code, stdout.as_str(), stderr), (1, "", expected));
}

#[test]
fn a_locked_branch_stays_at_its_commit_and_a_kept_commit_needs_no_network() {
    let place = Place::new("lock");
    let (work, repository) = (place.0.join("work"), place.0.join("repository"));
    std::fs::create_dir_all(&repository).unwrap();
    write(&repository.join("kustomization.yaml"), "resources: [a.yaml]\n", false);
    write(&repository.join("a.yaml"), OBJECT, false);
    commit(&repository);
    let url = format!("file://{}", repository.display());
    write(&work.join("kustomization.yaml"), &format!("resources: ['{url}?ref=main']\n"), false);
    let flags = ["--git-cache", "cache", "--git-lock", "bases.lock"];
    assert_eq!(build(&place, &flags), (0, OBJECT.to_owned(), String::new()));
    let lock = std::fs::read_to_string(work.join("bases.lock")).unwrap();
    assert!(lock.lines().any(|line| line.starts_with(&format!("{url} main "))), "{lock}");

    write(&repository.join("a.yaml"), &OBJECT.replace("name: a", "name: b"), false);
    commit(&repository);
    assert_eq!(build(&place, &flags).1, OBJECT, "the lock holds");
    assert!(build(&place, &[]).1.contains("name: b"), "without it the branch moves");
    let unlocked = build(&place, &["--git-cache", "cache"]);
    assert!(unlocked.1.contains("name: b"), "a cache alone asks for the branch: {}", unlocked.2);

    std::fs::rename(&repository, place.0.join("gone")).unwrap();
    assert_eq!(build(&place, &flags), (0, OBJECT.to_owned(), String::new()));
}

#[test]
fn a_reference_that_is_an_option_of_git_is_refused() {
    let place = Place::new("option");
    let url = "file:///nowhere?ref=--upload-pack=touch%20x";
    write(&place.0.join("work/kustomization.yaml"), &format!("resources: ['{url}']\n"), false);
    let (code, _, stderr) = build(&place, &[]);
    assert!(code == 1 && stderr.contains("neither may begin with `-`"), "{stderr}");
}

/// A stand-in for docker tells how it was called.
#[test]
fn functions_in_containers_are_run_by_docker() {
    let place = Place::new("docker");
    let (work, programs) = (place.0.join("work"), place.0.join("bin"));
    std::fs::create_dir_all(&programs).unwrap();
    let script = "#!/bin/sh\nfor word in \"$@\"; do printf '[%s] ' \"$word\" >> asked; done\ncat\n";
    write(&programs.join("docker"), script, true);
    write(&work.join("kustomization.yaml"), "resources: [a.yaml]\ntransformers: [t.yaml]\n", false);
    write(&work.join("a.yaml"), OBJECT, false);
    let function = "apiVersion: example.com/v1\nkind: F\nmetadata:\n  name: t\n  annotations:\n    config.kubernetes.io/function: |\n      container: {image: example.com/f:v1, network: NETWORK, envs: [A=1, HOME], mounts: [{type: bind, src: ./m, dst: /m}]}\n";
    let with = |network: &str, flags: &[&str]| {
        write(&work.join("t.yaml"), &function.replace("NETWORK", network), false);
        let _ = std::fs::remove_file(work.join("asked"));
        let path = std::env::vars().find(|(name, _)| name == "PATH").unwrap().1;
        let mut command = place.command("");
        command.env("PATH", format!("{}:{path}", programs.display()));
        let output = command.args(["build", "--enable-alpha-plugins"]).args(flags).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned(), stderr)
    };
    let flags = ["-e", "X=2", "--mount", "type=bind,src=m,dst=/q,rw=true", "--network"];
    assert_eq!(with("true", &flags), (0, OBJECT.to_owned(), String::new()));
    let asked = std::fs::read_to_string(work.join("asked")).unwrap();
    let m = work.join("m");
    let m = m.display();
    assert_eq!(
        asked.trim_end(),
        format!(
            "[run] [--rm] [-i] [-a] [STDIN] [-a] [STDOUT] [-a] [STDERR] [--network] [host] [--user] [nobody] [--security-opt=no-new-privileges] [--mount] [type=bind,source={m},target=/m,readonly] [--mount] [type=bind,source={m},target=/q] [-e] [A=1] [-e] [LOG_TO_STDERR=true] [-e] [STRUCTURED_RESULTS=true] [-e] [X=2] [-e] [HOME] [example.com/f:v1]"
        )
    );
    let refused = "Error: couldn't execute function: network required but not enabled with --network \n";
    assert_eq!(with("true", &[]), (1, String::new(), refused.to_owned()));
    assert_eq!(with("false", &[]).0, 0);
    assert!(std::fs::read_to_string(work.join("asked")).unwrap().contains("[--network] [none]"));
}

#[test]
fn a_custom_resource_is_patched_by_the_names_of_its_containers_if_asked_for() {
    let place = Place::new("schema");
    let rollout = "apiVersion: example.com/v1\nkind: Rollout\nmetadata: {name: r}\nspec: {template: {spec: {containers: LIST}}}\n";
    let work = place.0.join("work");
    write(&work.join("kustomization.yaml"), "resources: [r.yaml]\npatches: [{path: p.yaml}]\n", false);
    let both = "[{name: main, image: m:1}, {name: side, image: s:1}]";
    write(&work.join("r.yaml"), &rollout.replace("LIST", both), false);
    write(&work.join("p.yaml"), &rollout.replace("LIST", "[{name: side, image: s:2}]"), false);
    assert!(!build(&place, &[]).1.contains("m:1"), "as kustomize");
    let (code, stdout, stderr) = build(&place, &["--schema", "auto"]);
    assert!(code == 0 && stdout.contains("m:1") && stdout.contains("s:2"), "{stdout}{stderr}");
}
