//! The commands of kustomize on real files; what each answers is tested, with
//! files in memory, where they are.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn kustomize(directory: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .arg("kustomize")
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A directory of its own with these files.
fn directory(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kustomize-{name}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory.canonicalize().unwrap()
}

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

#[test]
fn edit_changes_the_file_and_keeps_comments() {
    let directory = directory("edit", &[("kustomization.yaml", "# why\nnamePrefix: x-\n")]);
    // A value that begins with a dash needs the `--` to reach the command.
    let answer = kustomize(&directory, &["edit", "set", "namesuffix", "--", "-y"], "");
    assert_eq!(answer, (0, String::new(), String::new()));
    assert_eq!(
        std::fs::read_to_string(directory.join("kustomization.yaml")).unwrap(),
        "# why\nnamePrefix: x-\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnameSuffix: -y\n"
    );
}

#[test]
fn what_is_wrong_comes_with_the_usage_and_exit_code_1() {
    let directory = directory("wrong", &[]);
    for (words, message) in [
        (&["edit", "set", "namespace"][..], "Error: must specify exactly one namespace value\nUsage:\n"),
        (
            &["edit", "set", "namespace", "a"],
            "Error: Missing kustomization file 'kustomization.yaml'.\n\nUsage:\n",
        ),
        (&["edit", "add", "label", "--forse", "a:b"], "Error: unknown flag: --forse\nUsage:\n"),
        (&["localize", "nope"], "Error: unable to establish localize target \"nope\""),
    ] {
        let (code, stdout, stderr) = kustomize(&directory, words, "");
        assert_eq!((code, stdout.as_str()), (1, ""), "{words:?}");
        assert!(stderr.starts_with(message), "{words:?}: {stderr}");
    }
}

#[test]
fn create_finds_what_is_there_and_localize_copies_it() {
    let directory =
        directory("create", &[("k/a.yaml", MANIFEST), ("k/sub/b.yaml", MANIFEST), ("k/c.txt", "")]);
    let answer = kustomize(&directory.join("k"), &["create", "--autodetect"], "");
    assert_eq!(answer, (0, String::new(), String::new()));
    let (code, _, stderr) = kustomize(&directory, &["localize", "k", "copy"], "");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(std::fs::read_to_string(directory.join("copy/a.yaml")).unwrap(), MANIFEST);
    assert!(!directory.join("copy/sub").exists());
}

#[test]
fn resources_are_read_from_standard_input() {
    let directory = directory("stdin", &[]);
    let list = "kind: List\napiVersion: v1\nitems:\n- metadata: {name: a} # b\n  kind: C\n  apiVersion: v1\n";
    let (code, stdout, _) = kustomize(&directory, &["cfg", "cat"], list);
    assert_eq!((code, stdout.as_str()), (0, "apiVersion: v1\nkind: C\nmetadata: {name: a} # b\n"));
}

/// What bash offers after `words`, as it would on TAB.
fn offered(directory: &Path, script: &str, words: &[&str]) -> String {
    let line = words.join(" ");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let program = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\nCOMP_LINE='{line}'\nCOMP_POINT={}\n\
         entry=$(complete -p sternpost)\nfunction=${{entry##*-F }}\nfunction=${{function%% *}}\n\
         \"$function\" sternpost \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" "),
        words.len() - 1,
        line.len(),
    );
    // Too long for an argument.
    let file = directory.join("complete.bash");
    std::fs::write(&file, program).unwrap();
    let output = Command::new("bash").args(["--noprofile", "--norc"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_flags() {
    let directory = directory("completion", &[]);
    let (code, script, stderr) = kustomize(&directory, &["completion", "bash"], "");
    assert_eq!((code, stderr.as_str()), (0, ""));
    for (words, expected) in [
        (&["sternpost", "kustomize", "ed"][..], "edit\n"),
        (&["sternpost", "kustomize", "edit", "set", "namesp"], "namespace\n"),
        (&["sternpost", "kustomize", "fn", "run", "--results"], "--results-dir\n"),
        (&["sternpost", "kustomize", "build", "--enable-he"], "--enable-helm\n"),
        (&["sternpost", "comp"], "completion\n"),
    ] {
        assert_eq!(offered(&directory, &script, words), expected, "{words:?}");
    }
}

#[test]
fn every_shell_has_a_script_and_others_are_refused() {
    let directory = directory("shells", &[]);
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef sternpost"),
        ("fish", "complete -c sternpost"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let (code, script, stderr) = kustomize(&directory, &["completion", shell], "");
        assert_eq!((code, stderr.as_str()), (0, ""), "{shell}");
        assert!(script.contains(part) && script.contains("alpha-list-builtin-plugin"), "{shell}");
    }
    let (code, stdout, stderr) = kustomize(&directory, &["completion", "tcsh"], "");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("tcsh"), "{stderr}");
}
