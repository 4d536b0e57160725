//! What is said to somebody who gets it wrong: every case of `wrong_uses/cases.txt`, to the letter.
//!
//! Cases stand one below the other: `$ ` and a command, what it prints on both streams, and its exit code in
//! brackets. They are run in a directory with the files of `files.txt`. `STERNPOST_RECORD=1` writes the file anew.

use std::{fs, path::Path, process::Command};

use sternpost_testkit::scratch::Scratch;

const CASES: &str = include_str!("wrong_uses/cases.txt");
const FILES: &str = include_str!("wrong_uses/files.txt");

/// `== NAME` begins a file; one that ends in a slash is a directory.
fn write_files(directory: &Path) {
    for file in FILES.split("== ").skip(1) {
        let (name, text) = file.split_once('\n').unwrap();
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }
}

/// What a command prints, and its exit code.
fn run(directory: &Path, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_sternpost"));
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(directory)
        .env_clear()
        .env("PATH", path)
        .env("HOME", directory.join("home"))
        .env("TMPDIR", directory)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The directory is another one every time, and so may its real name be.
    let real = fs::canonicalize(directory).unwrap();
    let text = text.replace(real.to_str().unwrap(), "/work").replace(directory.to_str().unwrap(), "/work");
    format!("{}[{}]\n", text, output.status.code().unwrap())
}

#[test]
fn wrong_uses_are_answered_as_written_down() {
    let scratch = Scratch::new("wrong-uses");
    write_files(&scratch.0);
    let commands: Vec<&str> = CASES.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() >= 80, "there are only {} cases", commands.len());
    let said: String =
        commands.iter().map(|command| format!("$ {command}\n{}\n", run(&scratch.0, command))).collect();
    if std::env::var_os("STERNPOST_RECORD").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/wrong_uses/cases.txt");
        fs::write(file, said).unwrap();
        return;
    }
    for (expected, found) in CASES.split("\n\n$ ").zip(said.split("\n\n$ ")) {
        assert_eq!(found.trim_end(), expected.trim_end());
    }
    assert_eq!(said.trim_end(), CASES.trim_end());
}
