//! Recorded answers of kustomize, run again with our program; the layout of the
//! cases is told in `crates/kustomize/tests/cases/README.md`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Default)]
pub struct Case {
    pub name: String,
    pub words: Vec<String>,
    directory: String,
    variables: Vec<(String, String)>,
    repositories: Vec<String>,
    unstable: bool,
    files: Vec<(String, String, String)>,
    /// `exit 1`, `stdout`, `stderr`, `file PATH`, ...
    answers: BTreeMap<String, String>,
}

/// All cases of a topic.
pub fn cases(topic: &str) -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kustomize/tests/cases");
    let text = std::fs::read_to_string(directory.join(format!("{topic}.case"))).unwrap();
    let text = text.strip_suffix('\n').unwrap_or(&text);
    // The break before the next case ends the last line of this one.
    text.split("\n=== ").skip(1).map(|part| parse(topic, &format!("{part}\n"))).collect()
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
            case.words = words(command);
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
pub fn answers(case: &Case) -> BTreeMap<String, String> {
    let mut answers = case.answers.clone();
    if let Some(stderr) = answers.get_mut("stderr") {
        *stderr = stderr.replace("$TIME ", "");
    }
    answers
}

pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let name = name.replace('/', "-");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("build-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        for directory in ["work", "home", "tmp"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
        }
        Self(path.canonicalize().unwrap())
    }

    pub fn command(&self, directory: &str) -> Command {
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

/// what our program answers; `prefix` are words of its own.
pub fn answer(case: &Case, prefix: &[&str]) -> BTreeMap<String, String> {
    let place = Place::new(&case.name);
    let root = place.0.join("work");
    let shown = root.to_str().unwrap();
    let mut input = String::new();
    for (name, form, content) in &case.files {
        if name == "(stdin)" {
            content.clone_into(&mut input);
            continue;
        }
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match form.as_str() {
            "dir" => std::fs::create_dir_all(&path).unwrap(),
            "link" => {
                std::os::unix::fs::symlink(content.trim_end().replace("$ROOT", shown), &path).unwrap();
            }
            _ => write(&path, &content.replace("$ROOT", shown), form == "exec"),
        }
    }
    case.repositories.iter().for_each(|directory| commit(&root.join(directory)));
    let before = snapshot(&root);
    let mut command = place.command(&case.directory);
    command.args(prefix).args(case.words.iter().map(|word| word.replace("$ROOT", shown)));
    for (name, value) in &case.variables {
        command.env(name, value.replace("$ROOT", shown));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that wants none of it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();

    let tmp = place.0.to_str().unwrap();
    let masked = |text: &str| numbered(&text.replace(shown, "$ROOT").replace(tmp, "$TMP"));
    let mut answers = BTreeMap::from([(format!("exit {}", output.status.code().unwrap()), String::new())]);
    let stderr: String = String::from_utf8_lossy(&output.stderr)
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("hint: "))
        .collect();
    // Help and usage are in our own words.
    let stderr = match stderr.split_once("Usage:\n") {
        Some((said, _)) => format!("{said}$USAGE\n"),
        None => stderr,
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stdout = if stdout.contains("\nUsage:\n") { "$HELP\n".to_owned() } else { stdout };
    for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
        if !text.is_empty() {
            answers.insert(name.to_owned(), masked(&text));
        }
    }
    let after = snapshot(&root);
    for (path, content) in &after {
        if before.get(path) != Some(content) {
            match content {
                Some(content) => answers.insert(format!("file {path}"), masked(content)),
                None => answers.insert(format!("dir {path}"), String::new()),
            };
        }
    }
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        if !after.keys().any(|other| other.starts_with(&format!("{path}/"))) {
            answers.insert(format!("removed {path}"), String::new());
        }
    }
    let left: Vec<_> = std::fs::read_dir(place.0.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{}: left behind: {left:?}", case.name);
    answers
}

pub fn write(path: &Path, content: &str, executable: bool) {
    std::fs::write(path, content).unwrap();
    if executable {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

pub fn commit(directory: &Path) {
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

/// Files with their content and empty directories without; links as they are
/// never change here.
fn snapshot(root: &Path) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let mut is_empty = true;
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            is_empty = false;
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                open.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found
                    .insert(name, Some(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()));
            }
        }
        if is_empty && directory != root {
            found.insert(directory.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), None);
        }
    }
    found
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

/// A line of a shell in words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in line.chars() {
        match (quote, char) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (Some(open), char) if char == open => quote = None,
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}
