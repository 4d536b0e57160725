//! What the command line answers: exit code, stdout and stderr.

use std::{
    fs,
    net::TcpListener,
    process::{Command, Output},
};

use sternpost_testkit::scratch::Scratch;

fn sternpost(args: &[&str]) -> (i32, String, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(args)
        .env("NO_COLOR", "1")
        .env_remove("XDG_DATA_HOME")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_goes_to_stdout_and_shows_examples() {
    let (code, stdout, stderr) = sternpost(&["serve", "--help"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["Usage: sternpost serve", "--listen <ADDRESS:PORT>", "--in-memory", "Examples:"] {
        assert!(stdout.contains(part), "{part}\nis not in\n{stdout}");
    }
}

#[test]
fn version_names_program_and_api() {
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("sternpost {version} (Kubernetes API 1.36.4)\n");
    assert_eq!(sternpost(&["version"]), (0, expected, String::new()));
    assert_eq!(sternpost(&["--version"]), (0, format!("sternpost {version}\n"), String::new()));
}

#[test]
fn every_command_has_a_man_page() {
    let pages = Scratch::new("man");
    let folder = pages.0.join("below");
    assert_eq!(sternpost(&["man", folder.to_str().unwrap()]), (0, String::new(), String::new()));
    for (page, part) in [
        ("sternpost.1", "sternpost\\-serve(1)"),
        ("sternpost-serve.1", "\\-\\-in\\-memory"),
        ("sternpost-kustomize-edit-add-resource.1", "kustomize"),
    ] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(part), "{part} is not in {page}:\n{text}");
    }
    assert!(!folder.join("sternpost-help.1").exists());
    assert!(!folder.join("sternpost-man.1").exists());
}

#[test]
fn wrong_usage_exits_2_and_says_what_is_wrong() {
    for (args, message) in [
        (&[][..], "Usage: sternpost"),
        (&["sail"][..], "unrecognized subcommand 'sail'"),
        (&["serve", "--lisen"], "unexpected argument '--lisen'"),
        (&["serve", "--listen", "6443"], "invalid value '6443' for '--listen <ADDRESS:PORT>'"),
        (&["serve", "--listen", "127.0.0.1:65536"], "invalid value '127.0.0.1:65536'"),
        (&["serve", "--listen", "::1"], "want a port, such as [::1]:6443"),
        (&["serve", "--listen", "*:6443"], "`*` is neither an address nor the name of a host"),
        (&["serve", "--tls-san", "https://x"], "want the name of a host, such as api.example.com"),
        (&["serve", "--tls-san=x", "--tls-cert-file=y", "--tls-private-key-file=z"], "cannot be used with"),
        (&["serve", "--in-memory", "--data-dir", "x"], "cannot be used with"),
        (&["serve", "--tls-cert-file", "x"], "--tls-private-key-file"),
        (
            &["serve", "--feature-gates", "Nope=true"],
            "unknown feature gate; known: AllowUnsafeMalformedObjectDeletion, OpenAPIV3",
        ),
        (&["serve", "--feature-gates", "OpenAPIV3=maybe"], "`maybe` is neither true nor false"),
        (&["serve", "--log-format", "xml"], "invalid value 'xml'"),
        (&["serve", "--cors-allowed-origins", "foo"], "`foo` does not pin both ends of the host"),
        (&["serve", "--cors-allowed-origins", "^a$,("], "`(` is not a regular expression: unclosed group"),
        (&["serve", "--cors-allowed-origins", ","], "an origin is empty"),
    ] {
        let (code, stdout, stderr) = sternpost(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn a_port_in_use_is_told_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stdout, stderr) = sternpost(&["serve", "--in-memory", "--listen", &address]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    let expected = format!(
        "error: cannot listen on {address}: Address already in use (os error 98)\n\
         hint: another server has that port; choose one with --listen, or port 0 for a free one\n"
    );
    if cfg!(target_os = "linux") {
        assert_eq!(stderr, expected);
    } else {
        assert!(stderr.starts_with(&format!("error: cannot listen on {address}: ")), "{stderr}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    for (args, message) in [
        (&["--data-dir", "/dev/null/x"][..], "error: cannot create `/dev/null/x`: "),
        (&["--in-memory", "--kubeconfig", "/dev/null/x"], "error: cannot write `/dev/null/x`: "),
        (&["--in-memory", "--token-auth-file", "/no/such"], "error: cannot read `/no/such`: "),
        (
            &["--in-memory", "--tls-cert-file", "/no/such", "--tls-private-key-file", "/no/such"],
            "error: cannot read `/no/such`: ",
        ),
        (
            &["--in-memory", "--tls-cert-file", "/dev/null", "--tls-private-key-file", "/dev/null"],
            "error: cannot use `/dev/null` with `/dev/null`: ",
        ),
    ] {
        let (code, stdout, stderr) = sternpost(&[&listen, args].concat());
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}");
        assert!(stderr.starts_with(message), "{args:?}: {stderr}");
    }
}
