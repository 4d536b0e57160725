//! Inputs that no build can make sense of, through the program: exit code 1, one
//! message with the place where there is one, nothing on standard output, and a
//! file that `-o` names left as it was.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

/// Far more than any refusal takes, on a busy machine too.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-{name}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("k")).unwrap();
    directory.canonicalize().unwrap()
}

fn write(directory: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn build(directory: &Path, flags: &[&str]) -> (i32, Vec<u8>, String) {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_sternpost"))
        .args(["build", "k"])
        .args(flags)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(started.elapsed() < ANSWER_TIMEOUT, "this took {:?}", started.elapsed());
    (output.status.code().expect("no signal"), output.stdout, String::from_utf8(output.stderr).unwrap())
}

/// Refused with all of `parts` in one message, by both ways to have output.
fn refused(directory: &Path, parts: &[&str]) {
    let (code, stdout, stderr) = build(directory, &[]);
    assert_eq!((code, stdout.len()), (1, 0), "{stderr}");
    let errors = stderr.lines().filter(|line| line.starts_with("Error: ")).count();
    assert_eq!(errors, 1, "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "no `{part}` in: {stderr}");
    }
    let kept = directory.join("kept.yaml");
    std::fs::write(&kept, "before\n").unwrap();
    let (code, stdout, _) = build(directory, &["-o", "kept.yaml"]);
    assert_eq!((code, stdout.len()), (1, 0));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "before\n");
    let objects = directory.join("objects");
    std::fs::create_dir_all(&objects).unwrap();
    assert_eq!(build(directory, &["-o", "objects"]).0, 1);
    assert_eq!(std::fs::read_dir(&objects).unwrap().count(), 0, "no object of a build that failed");
}

fn check(name: &str, files: &[(&str, &[u8])], parts: &[&str]) {
    let directory = directory(name);
    write(&directory, files);
    refused(&directory, parts);
}

#[test]
fn cycles() {
    check("itself", &[("k/kustomization.yaml", b"resources: [.]\n")], &["cycle"]);
    check(
        "each-other",
        &[
            ("k/kustomization.yaml", b"resources: [../other]\n"),
            ("other/kustomization.yaml", b"resources: [../k]\n"),
        ],
        &["cycle"],
    );
    check(
        "component",
        &[
            ("k/kustomization.yaml", b"components: [../c]\n"),
            (
                "c/kustomization.yaml",
                b"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncomponents: [../c]\n",
            ),
        ],
        &["c"],
    );
}

#[test]
fn escapes_from_the_root() {
    let files: &[(&str, &[u8])] = &[("a.yaml", OBJECT.as_bytes())];
    for (name, path) in [("climbs", "../a.yaml"), ("climbs-inside", "x/../../a.yaml")] {
        let directory = directory(name);
        write(&directory, files);
        std::fs::create_dir_all(directory.join("k/x")).unwrap();
        write(&directory, &[("k/kustomization.yaml", format!("resources: [{path}]\n").as_bytes())]);
        refused(&directory, &["security; file", "is not in or below"]);
    }
    let directory = directory("absolute");
    write(&directory, files);
    let text = format!("resources: ['{}/a.yaml']\n", directory.display());
    write(&directory, &[("k/kustomization.yaml", text.as_bytes())]);
    refused(&directory, &["is not in or below"]);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_root() {
    use std::os::unix::fs::symlink;
    for (name, field) in [
        ("link", "resources: [l.yaml]\n"),
        ("link-directory", "resources: [d/a.yaml]\n"),
        ("link-patch", "resources: [own.yaml]\npatches: [{path: l.yaml}]\n"),
        ("link-generator", "configMapGenerator: [{name: g, files: [l.yaml]}]\n"),
    ] {
        let directory = directory(name);
        let own = OBJECT.replace("name: a", "name: own");
        write(
            &directory,
            &[
                ("a.yaml", OBJECT.as_bytes()),
                ("k/own.yaml", own.as_bytes()),
                ("k/kustomization.yaml", field.as_bytes()),
            ],
        );
        symlink("../a.yaml", directory.join("k/l.yaml")).unwrap();
        symlink("..", directory.join("k/d")).unwrap();
        refused(&directory, &["is not in or below"]);
    }
    let directory = directory("link-loop");
    write(&directory, &[("k/kustomization.yaml", b"resources: [l.yaml]\n")]);
    symlink("l.yaml", directory.join("k/l.yaml")).unwrap();
    refused(&directory, &["l.yaml"]);
}

#[test]
fn missing_files() {
    let no_file = "no such file or directory";
    for (name, text, parts) in [
        ("resource", "resources: [nope.yaml]\n", &["nope.yaml", no_file][..]),
        ("patch", "resources: [a.yaml]\npatches: [{path: nope.yaml}]\n", &["nope.yaml"]),
        ("env", "configMapGenerator: [{name: g, envs: [nope.env]}]\n", &["nope.env", no_file]),
        ("crds", "resources: [a.yaml]\ncrds: [nope.yaml]\n", &["nope.yaml"]),
        ("openapi", "resources: [a.yaml]\nopenapi: {path: nope.json}\n", &["nope.json"]),
        ("replacement", "resources: [a.yaml]\nreplacements: [{path: nope.yaml}]\n", &["nope.yaml"]),
    ] {
        let files = [("k/kustomization.yaml", text.as_bytes()), ("k/a.yaml", OBJECT.as_bytes())];
        check(&format!("missing-{name}"), &files, parts);
    }
    check("missing-kustomization", &[("k/a.yaml", OBJECT.as_bytes())], &["unable to find one of"]);
}

#[test]
fn malformed_yaml_is_told_with_its_place() {
    let listed: &[u8] = b"resources: [a.yaml]\n";
    check(
        "kustomization",
        &[("k/kustomization.yaml", b"resources:\n- a\n  b: [\n")],
        &["kustomization.yaml", "hint: ", "kustomization.yaml:"],
    );
    check(
        "resource",
        &[("k/kustomization.yaml", listed), ("k/a.yaml", b"kind: A\nb: c: d\n")],
        &["a.yaml", "hint: ", "a.yaml:2:"],
    );
    check(
        "second-document",
        &[
            ("k/kustomization.yaml", listed),
            ("k/a.yaml", [OBJECT.as_bytes(), b"---\nkind: [\n"].concat().as_slice()),
        ],
        &["a.yaml", "hint: ", "a.yaml:"],
    );
    check("unknown-field", &[("k/kustomization.yaml", b"resource: [a]\n")], &["unknown field \"resource\""]);
}

#[test]
fn duplicate_ids() {
    let twice = [OBJECT, OBJECT].join("---\n");
    check(
        "twice",
        &[("k/kustomization.yaml", b"resources: [a.yaml]\n"), ("k/a.yaml", twice.as_bytes())],
        &["may not add resource with an already registered id"],
    );
}

/// Ten levels of nine aliases each are 3.5 billion values.
#[test]
fn alias_bombs() {
    let mut bomb =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
            .to_owned();
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("  a{level}: &a{level} [{below}]\n"));
    }
    check(
        "bomb",
        &[("k/kustomization.yaml", b"resources: [a.yaml]\n"), ("k/a.yaml", bomb.as_bytes())],
        &["a.yaml"],
    );
    check("bomb-kustomization", &[("k/kustomization.yaml", bomb.as_bytes())], &["kustomization.yaml"]);
    let itself = format!("{OBJECT}x: &x [*x]\n");
    check(
        "bomb-itself",
        &[("k/kustomization.yaml", b"resources: [a.yaml]\n"), ("k/a.yaml", itself.as_bytes())],
        &["a.yaml"],
    );
}

#[test]
fn deep_nesting() {
    for (name, open) in [("lists", "["), ("maps", "{a: "), ("blocks", "- ")] {
        let deep = format!("{OBJECT}x:\n  {}\n", open.repeat(200_000));
        check(
            &format!("deep-{name}"),
            &[("k/kustomization.yaml", b"resources: [a.yaml]\n"), ("k/a.yaml", deep.as_bytes())],
            &["a.yaml"],
        );
    }
}

#[test]
fn bytes_that_are_no_text() {
    let listed: &[u8] = b"resources: [a.yaml]\n";
    let binary: Vec<u8> = (0..=255).cycle().take(4096).collect();
    check("binary", &[("k/kustomization.yaml", listed), ("k/a.yaml", &binary)], &["a.yaml"]);
    let invalid = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"\xff\"}\n";
    check("utf-8", &[("k/kustomization.yaml", listed), ("k/a.yaml", invalid)], &["a.yaml"]);
    check("utf-8-kustomization", &[("k/kustomization.yaml", b"namePrefix: \xff\n")], &["kustomization.yaml"]);
}

/// Nothing that is wrong with it shows before its end.
#[test]
fn huge_files() {
    let mut huge = String::new();
    for number in 0..200_000 {
        huge.push_str(&format!("k{number}: some text that takes a line\n"));
    }
    let text = format!("{OBJECT}data:\n{}  z: [\n", huge.replace('k', "  k"));
    check(
        "huge",
        &[("k/kustomization.yaml", b"resources: [a.yaml]\n"), ("k/a.yaml", text.as_bytes())],
        &["a.yaml"],
    );
}
