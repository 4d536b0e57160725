//! How whoever started a server learns that it is ready.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use sternpost_testkit::{
    process::{self, Process},
    scratch::Scratch,
};

/// Whatever takes longer does not happen, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(60);

/// What the file says once it is there and says anything else than before.
fn read(path: &str, before: &str) -> Value {
    let started = Instant::now();
    loop {
        match fs::read_to_string(path) {
            // It is there as a whole or not at all.
            Ok(text) if text != before => return serde_json::from_str(&text).unwrap(),
            _ => assert!(started.elapsed() < LONGEST, "no ready file"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_ready_file_is_there_while_the_server_is_ready() {
    const LEFT: &str = "left by a server that was killed";
    let scratch = Scratch::new("ready-file");
    let path = scratch.write("ready.json", LEFT);
    let mut command = process::serve();
    command.args(["--in-memory", "--controllers=-*", "--log-format=json", "--ready-file", &path]);
    let mut process = Process::spawn(command);
    let found = read(&path, LEFT);
    assert_eq!(found["pid"], process.id());
    let kubeconfig = fs::read_to_string(found["kubeconfig"].as_str().unwrap()).unwrap();
    assert!(kubeconfig.contains(found["url"].as_str().unwrap()), "{kubeconfig}");
    process.terminate();
    let (code, log) = process.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!Path::new(&path).exists(), "the file is still there");

    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ready = lines.iter().find(|line| line["message"] == "sternpost is ready").unwrap();
    for (field, expected) in
        [("level", &"INFO".into()), ("url", &found["url"]), ("kubeconfig", &found["kubeconfig"])]
    {
        assert_eq!(&ready[field], expected, "{field}");
    }
    assert!(ready["milliseconds"].is_u64() && ready["timestamp"].is_string(), "{ready}");
}

#[test]
fn a_command_that_is_run_finds_the_ready_file() {
    let scratch = Scratch::new("ready-run");
    let path = scratch.path("ready.json");
    let mut command = Command::new(process::program());
    command.args(["run", "--ready-file", &path, "--", "cat", &path]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["url"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{found}");
    assert!(!Path::new(&path).exists(), "the file is still there");
}

#[test]
fn a_ready_file_that_cannot_be_written_is_named() {
    let scratch = Scratch::new("ready-fail");
    for (path, problem) in
        [(scratch.path("no/such/ready.json"), "cannot write"), (scratch.path("."), "cannot replace")]
    {
        let mut command = process::serve();
        let output = command.args(["--in-memory", "--ready-file", &path]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("error: {problem} `{path}`: ")), "{stderr}");
        assert!(!stderr.contains("is ready"), "{stderr}");
    }
}
