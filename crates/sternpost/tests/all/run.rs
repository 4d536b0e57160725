//! A throw-away server around a command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use sternpost_testkit::scratch::Scratch;

/// Whatever takes longer does not happen, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(60);

fn run(temporary: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sternpost"));
    command.arg("run").args(words).env("NO_COLOR", "1").env("TMPDIR", &temporary.0);
    command
}

fn told(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < LONGEST, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn the_command_finds_the_server_and_its_code_is_the_answer() {
    let temporary = Scratch::new("run-code");
    let script =
        "test -r \"$KUBECONFIG\" && grep -c 'server: \"\\?https://127.0.0.1:' \"$KUBECONFIG\"; exit 7";
    let (code, stdout, stderr) = told(&mut run(&temporary, &["--", "sh", "-c", script]));
    assert_eq!((code, stdout.trim(), stderr.as_str()), (7, "1", ""));
    assert!(is_empty(&temporary.0), "something was left behind");
}

#[test]
fn a_command_that_cannot_be_run_is_told_as_shells_do() {
    let temporary = Scratch::new("run-absent");
    for (program, expected) in [("./nothing-there", 127), ("/", 126)] {
        let (code, stdout, stderr) = told(&mut run(&temporary, &["--", program]));
        assert_eq!((code, stdout.as_str()), (expected, ""), "{stderr}");
        assert!(stderr.starts_with(&format!("error: cannot run `{program}`: ")), "{stderr}");
    }
    assert!(is_empty(&temporary.0), "something was left behind");
}

#[test]
fn what_a_signal_ends_is_told_by_its_number() {
    let temporary = Scratch::new("run-signal");
    let (code, ..) = told(&mut run(&temporary, &["--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(code, 128 + 9);
}

#[test]
fn objects_are_there_before_the_command_is() {
    let temporary = Scratch::new("run-load");
    let files = Scratch::new("run-load-files");
    let bad = files.write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndat: {}\n");
    let marker = files.path("marker");
    let (code, stdout, stderr) = told(&mut run(&temporary, &["--load", &bad, "--", "touch", &marker]));
    let expected =
        format!("error: {bad}:5:1: ConfigMap/x: dat: field not declared in schema; did you mean `data`?\n");
    assert_eq!((code, stdout.as_str(), stderr), (1, "", expected));
    assert!(!Path::new(&marker).exists(), "the command was run");
    assert!(is_empty(&temporary.0), "something was left behind");
}

/// A `run` whose command says that it runs, and what it was told when it ends.
fn waiting(temporary: &Scratch, files: &Scratch) -> (Child, PathBuf, u32) {
    let said = PathBuf::from(files.path("said"));
    let script = format!(
        "trap 'echo terminated >> {0}; exit 3' TERM; trap 'echo hung up >> {0}' HUP; echo $$ >> {0}; while :; do sleep 0.05; done",
        said.display()
    );
    let mut command = run(temporary, &["--", "sh", "-c", &script]);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let id =
        until("the command does not run", || fs::read_to_string(&said).ok()?.lines().next()?.parse().ok());
    (child, said, id)
}

fn kill(signal: &str, id: u32) {
    assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
}

fn says(said: &Path, text: &str) {
    until(text, || fs::read_to_string(said).ok()?.contains(text).then_some(()));
}

#[test]
fn signals_are_the_commands() {
    let (temporary, files) = (Scratch::new("run-forward"), Scratch::new("run-forward-files"));
    let (mut child, said, _) = waiting(&temporary, &files);
    kill("-HUP", child.id());
    says(&said, "hung up");
    assert!(child.try_wait().unwrap().is_none(), "it has ended before the command");
    kill("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    says(&said, "terminated");
    assert!(is_empty(&temporary.0), "something was left behind");
}

#[test]
fn nothing_is_left_behind_by_one_that_is_killed() {
    let (temporary, files) = (Scratch::new("run-killed"), Scratch::new("run-killed-files"));
    let (mut child, said, id) = waiting(&temporary, &files);
    assert!(!is_empty(&temporary.0), "there is no kubeconfig");
    child.kill().unwrap();
    child.wait().unwrap();
    says(&said, "terminated");
    until("the command still runs", || (!is_alive(id)).then_some(()));
    until("something is left behind", || is_empty(&temporary.0).then_some(()));
}

#[test]
fn it_ends_with_whoever_started_it() {
    let (temporary, files) = (Scratch::new("run-orphan"), Scratch::new("run-orphan-files"));
    let said = files.path("said");
    let script = format!(
        "trap 'echo terminated >> {said}; exit' TERM; echo $$ >> {said}; while :; do sleep 0.05; done"
    );
    // The shell starts it, says who it is, and ends when it is told to.
    let outer = "\"$@\" & read -r line";
    let mut parent = Command::new("sh")
        .args(["-c", outer, "sh", env!("CARGO_BIN_EXE_sternpost"), "run", "--", "sh", "-c", &script])
        .env("TMPDIR", &temporary.0)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let said = PathBuf::from(said);
    let id: u32 =
        until("the command does not run", || fs::read_to_string(&said).ok()?.lines().next()?.parse().ok());
    drop(parent.stdin.take());
    parent.wait().unwrap();
    says(&said, "terminated");
    until("the command still runs", || (!is_alive(id)).then_some(()));
    until("something is left behind", || is_empty(&temporary.0).then_some(()));
}

fn is_alive(id: u32) -> bool {
    // One that has ended and is not waited for is there as well.
    let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}
