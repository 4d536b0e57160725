//! Servers without a client.

use std::{env, fs, path::Path, process, thread, time::Duration};

use sternpost_test::{Server, StartError};

/// Tests run in the directory of the package, wherever they were built.
const FIXTURES: &str = "../fixtures";

/// With it set, the test below only starts a server, says where it is, and ends as the variable tells.
const END_VARIABLE: &str = "STERNPOST_TEST_END";

fn wait_until(mut condition: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("it did not come to pass");
}

#[test]
fn a_server_is_ready_and_leaves_nothing_behind() {
    let server = Server::start().unwrap();
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    assert!(server.log().contains("is ready on"), "{}", server.log());
    let folder = server.kubeconfig().parent().unwrap().to_owned();
    assert!(server.kubeconfig().exists());
    drop(server);
    assert!(!folder.exists());
}

#[test]
fn a_wrong_manifest_fails_the_start_with_its_place() {
    let file = env::temp_dir().join(format!("sternpost-test-{}.yaml", process::id()));
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  a: [1]\n";
    fs::write(&file, text).unwrap();
    let started = Server::builder().load(FIXTURES).load(&file).start();
    fs::remove_file(&file).unwrap();
    let error = started.unwrap_err().to_string();
    assert!(error.contains(".yaml:7:"), "{error}");
}

#[test]
fn a_wrong_flag_fails_the_start() {
    let error = Server::builder().flag("--nonsense").start().unwrap_err();
    assert!(matches!(&error, StartError::Ended(log) if log.contains("--nonsense")), "{error}");
}

#[test]
fn patience_ends() {
    let error = Server::builder().timeout(Duration::from_nanos(1)).start().unwrap_err();
    assert!(matches!(error, StartError::NotReady(..)), "{error}");
}

#[test]
#[cfg(unix)]
fn a_server_ends_with_the_process_that_started_it() {
    if env::var_os(END_VARIABLE).is_some() {
        let server = Server::start().unwrap();
        println!("kubeconfig={}", server.kubeconfig().display());
        process::abort();
    }
    let program = env::current_exe().unwrap();
    let test = ["--exact", "a_server_ends_with_the_process_that_started_it", "--nocapture"];
    let mut command = process::Command::new(program);
    // Settings of the environment are not for it.
    command.args(test).env(END_VARIABLE, "abort").env("STERNPOST_LOG_FORMAT", "json");
    let ended = command.output().unwrap();
    assert!(!ended.status.success());
    let output = String::from_utf8(ended.stdout).unwrap();
    let line = output.lines().find_map(|line| line.split_once("kubeconfig=")).unwrap();
    let kubeconfig = Path::new(line.1);
    wait_until(|| !kubeconfig.parent().unwrap().exists());
}
