//! Settings by variables and by a file, as a server takes them.

use std::{net::TcpListener, process::Command};

use serde_json::Value;
use sternpost_testkit::{
    process::{self, Process},
    scratch::Scratch,
};

fn told(command: &mut Command) -> (i32, String, String) {
    let output = command.env("NO_COLOR", "1").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_server_takes_what_variables_and_the_file_say() {
    let scratch = Scratch::new("settings");
    let kubeconfig = scratch.path("kubeconfig");
    let config = scratch.write(
        "sternpost.yaml",
        &format!(
            "listen: localhost:0\nin-memory: true\ncontext-name: of-the-file\nkubeconfig: {kubeconfig}\n"
        ),
    );
    let mut command = Command::new(process::program());
    command.args(["serve", "--config", &config]);
    command.env("STERNPOST_CONTEXT_NAME", "of-the-environment").env("STERNPOST_CONTROLLERS", "-*");
    let (_process, place) = Process::start(command);
    assert_eq!(place.kubeconfig.to_str(), Some(kubeconfig.as_str()));
    assert_eq!(place.config("current-context"), "of-the-environment");
}

#[test]
fn a_command_runs_with_the_same_settings() {
    let scratch = Scratch::new("settings-run");
    let config = scratch.write("sternpost.yaml", &format!("ready-file: {}\n", scratch.path("ready.json")));
    let mut command = Command::new(process::program());
    command.args(["run", "--", "cat", &scratch.path("ready.json")]).env("STERNPOST_CONFIG", config);
    let (code, stdout, stderr) = told(&mut command);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let found: Value = serde_json::from_str(&stdout).unwrap();
    // A free port is what `run` takes unless it is told another.
    assert!(!found["url"].as_str().unwrap().ends_with(":6443"), "{found}");
}

#[test]
fn wrong_settings_are_wrong_usage() {
    let scratch = Scratch::new("settings-wrong");
    let config = scratch.write("sternpost.yaml", "in-memory: true\nlog-leven: info\n");
    let (code, stdout, stderr) = told(Command::new(process::program()).args(["serve", "--config", &config]));
    let expected =
        format!("error: {config}:2:1: there is no setting `log-leven`; did you mean `log-level`?\n");
    assert_eq!((code, stdout.as_str(), stderr), (2, "", expected));
    let mut command = Command::new(process::program());
    let (code, stdout, stderr) = told(command.arg("serve").env("STERNPOST_MAX_CONNECTIONS", "many"));
    let expected =
        "error: invalid value 'many' for STERNPOST_MAX_CONNECTIONS: invalid digit found in string\n"
            .to_owned();
    assert_eq!((code, stdout.as_str(), stderr), (2, "", expected));
}

#[test]
fn other_programs_and_commands_take_no_settings() {
    let scratch = Scratch::new("settings-others");
    let stand_in = scratch.path("kube-apiserver");
    std::os::unix::fs::symlink(process::program(), &stand_in).unwrap();
    for mut command in [Command::new(&stand_in), Command::new(process::program())] {
        let command =
            command.arg("--version").env("STERNPOST_LISTEN", "nonsense").env("STERNPOST_CONFIG", "/no/such");
        let (code, _, stderr) = told(command);
        assert_eq!((code, stderr.as_str()), (0, ""));
    }
    // With nonsense for a setting it would not get as far as to find that the port is taken.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut command = Command::new(&stand_in);
    let command =
        command.arg(format!("--secure-port={}", address.port())).env("STERNPOST_LISTEN", "nonsense");
    let (code, _, stderr) = told(command);
    assert_eq!(code, 1);
    assert!(stderr.starts_with(&format!("error: cannot listen on {address}: ")), "{stderr}");
}
