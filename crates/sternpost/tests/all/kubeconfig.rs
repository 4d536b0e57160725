//! What `serve --kubeconfig FILE` makes of a file that people have.

#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use sternpost_testkit::process::{self, Process};

const THEIRS: &str = "# mine
apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster:
    server: https://prod
users:
- name: prod
  user:
    token: theirs
contexts:
- name: prod
  context:
    cluster: prod
    user: prod
current-context: \"prod\"
";

/// A server, when it is ready.
struct Server(Process);

impl Server {
    fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        let mut command = process::serve();
        command.args(["--controllers=-*", "--kubeconfig"]).arg(kubeconfig).args(flags);
        Self(Process::start(command).0)
    }

    fn end(mut self, signal: &str) {
        self.0.signal(signal);
        let (code, log) = self.0.end();
        assert_eq!(code, (signal == "-TERM").then_some(0), "{log}");
    }
}

/// What `kubectl config get-contexts` would find, by the client of this program.
fn names(file: &Path, list: &str) -> Vec<String> {
    let config = sternpost_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let name = |item: &serde_json::Value| item["name"].as_str().unwrap().to_owned();
    config[list].as_array().unwrap().iter().map(name).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_throw_away_server_leaves_a_kubeconfig_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    fs::write(&file, THEIRS).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let link = folder.path().join("link");
    symlink("config", &link).unwrap();

    let server = Server::start(&link, &["--in-memory"]);
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(names(&link, list), ["prod", "sternpost"]);
    }
    assert!(fs::read_to_string(&file).unwrap().contains("\ncurrent-context: \"sternpost\"\n"));
    assert!(link.is_symlink());
    assert_eq!(mode(&file), 0o640);
    // Another one in the same file.
    let second = Server::start(&file, &["--in-memory", "--context-name", "two"]);
    assert_eq!(names(&link, "contexts"), ["prod", "sternpost", "two"]);
    server.end("-TERM");
    assert_eq!(names(&link, "contexts"), ["prod", "two"]);
    second.end("-TERM");
    assert_eq!(fs::read_to_string(&file).unwrap(), THEIRS);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no locks, no temporary files");
}

#[test]
fn what_a_killed_server_left_goes_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    fs::write(&file, THEIRS).unwrap();
    Server::start(&file, &["--in-memory"]).end("-KILL");
    assert_eq!(names(&file, "contexts"), ["prod", "sternpost"]);
    Server::start(&file, &["--in-memory"]).end("-TERM");
    assert_eq!(fs::read_to_string(&file).unwrap(), THEIRS);
}

#[test]
fn a_server_that_keeps_its_data_keeps_its_context() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/config");
    let data = folder.path().join("data").display().to_string();
    Server::start(&file, &["--data-dir", &data]).end("-TERM");
    assert_eq!(names(&file, "contexts"), ["sternpost"]);
    assert_eq!(mode(&file), 0o600);
    let before = fs::read_to_string(folder.path().join("data/admin.token")).unwrap();
    Server::start(&file, &["--data-dir", &data]).end("-TERM");
    assert_eq!(names(&file, "users"), ["sternpost"]);
    assert!(fs::read_to_string(&file).unwrap().contains(&before));
}

#[test]
fn a_file_that_a_throw_away_server_made_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let server = Server::start(&file, &["--in-memory"]);
    assert_eq!(mode(&file), 0o600);
    server.end("-TERM");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_no_kubeconfig_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let name = file.display();
    for (content, expected) in [
        (&b"just text\n"[..], format!("error: {name}:1:1: this is no kubeconfig: want a mapping\nhint: ")),
        (b"kind: Pod\n", format!("error: {name}:1:7: this is no kubeconfig: want `kind: Config`\nhint: ")),
        (b"a: b\n\xffc\n", format!("error: {name}:2:1: this is no kubeconfig: it is not UTF-8 text\n")),
    ] {
        fs::write(&file, content).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
            .args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(&file)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&expected), "{stderr}");
        assert_eq!(fs::read(&file).unwrap(), content);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
