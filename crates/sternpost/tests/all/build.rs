//! `sternpost build` as a program, where nothing is recorded: the network, and what is in its own words. What is
//! recorded of kustomize is in `tests/kustomize.rs`.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::recorded::{Place, commit, write};

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

fn build(place: &Place, words: &[&str]) -> (i32, String, String) {
    let output = place.command("").arg("build").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Answers every request by its path, for as long as the test runs.
fn serve(answer: fn(&str) -> (&'static str, &'static str)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            let text = String::from_utf8_lossy(&request[..read]).into_owned();
            let (status, body) = answer(text.split(' ').nth(1).unwrap_or_default());
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn files_come_over_http() {
    let port = serve(|path| match path {
        "/a.yaml" => ("200 OK", OBJECT),
        "/old.yaml" => ("302 Found\r\nLocation: /a.yaml", ""),
        _ => ("404 Not Found", ""),
    });
    let place = Place::new("http");
    let kustomization = place.0.join("work/kustomization.yaml");
    let with = |path: &str| {
        write(&kustomization, &format!("resources: ['http://127.0.0.1:{port}{path}']\n"), false);
        build(&place, &[])
    };
    assert_eq!(with("/a.yaml"), (0, OBJECT.to_owned(), String::new()));
    assert_eq!(with("/old.yaml"), (0, OBJECT.to_owned(), String::new()));
    let (code, stdout, stderr) = with("/nope.yaml");
    let url = format!("http://127.0.0.1:{port}/nope.yaml");
    let expected = format!(
        "Error: accumulating resources: accumulating resources from '{url}': HTTP Error: status code 404 (Not Found)\n"
    );
    assert_eq!((code, stdout.as_str(), stderr), (1, "", expected));
}

#[test]
fn a_locked_branch_stays_at_its_commit_and_a_kept_commit_needs_no_network() {
    let place = Place::new("lock");
    let (work, repository) = (place.0.join("work"), place.0.join("repository"));
    std::fs::create_dir_all(&repository).unwrap();
    write(&repository.join("kustomization.yaml"), "resources: [a.yaml]\n", false);
    write(&repository.join("a.yaml"), OBJECT, false);
    commit(&repository);
    let url = format!("file://{}", repository.display());
    write(&work.join("kustomization.yaml"), &format!("resources: ['{url}?ref=main']\n"), false);
    let flags = ["--git-cache", "cache", "--git-lock", "bases.lock"];
    assert_eq!(build(&place, &flags), (0, OBJECT.to_owned(), String::new()));
    let lock = std::fs::read_to_string(work.join("bases.lock")).unwrap();
    assert!(lock.lines().any(|line| line.starts_with(&format!("{url} main "))), "{lock}");

    write(&repository.join("a.yaml"), &OBJECT.replace("name: a", "name: b"), false);
    commit(&repository);
    assert_eq!(build(&place, &flags).1, OBJECT, "the lock holds");
    assert!(build(&place, &[]).1.contains("name: b"), "without it the branch moves");
    let unlocked = build(&place, &["--git-cache", "cache"]);
    assert!(unlocked.1.contains("name: b"), "a cache alone asks for the branch: {}", unlocked.2);

    std::fs::rename(&repository, place.0.join("gone")).unwrap();
    assert_eq!(build(&place, &flags), (0, OBJECT.to_owned(), String::new()));
}

#[test]
fn why_tells_file_line_and_entry_of_every_field() {
    let place = Place::new("why");
    let work = place.0.join("work");
    for directory in ["base", "over", "out"] {
        std::fs::create_dir_all(work.join(directory)).unwrap();
    }
    write(&work.join("base/kustomization.yaml"), "resources: [a.yaml]\n", false);
    write(&work.join("base/a.yaml"), &format!("{OBJECT}data:\n  k: v\n"), false);
    let overlay = "resources: [../base]\nnamePrefix: p-\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: a}\n    data:\n      k: w\n";
    write(&work.join("over/kustomization.yaml"), overlay, false);

    let name = "ConfigMap/p-a metadata.name = \"p-a\"  <- over/kustomization.yaml:2:13 namePrefix <- base/a.yaml:4:9\n";
    let data =
        "ConfigMap/p-a data.k = \"w\"  <- over/kustomization.yaml:9:10 patches[0] <- base/a.yaml:6:6\n";
    let all = format!(
        "ConfigMap/p-a apiVersion = \"v1\"  <- base/a.yaml:1:13\n{data}ConfigMap/p-a kind = \"ConfigMap\"  <- base/a.yaml:2:7\n{name}"
    );
    assert_eq!(build(&place, &["over", "--why"]), (0, all.clone(), String::new()));
    assert_eq!(
        build(&place, &["--why", "over"]),
        (0, all.clone(), String::new()),
        "it takes no word after it"
    );
    assert_eq!(build(&place, &["over", "--why=ConfigMap/a:data.k"]), (0, data.to_owned(), String::new()));
    let json = r#"{"chain":[{"by":"PatchTransformer","column":10,"field":"patches[0]","file":"over/kustomization.yaml","kustomization":"over/kustomization.yaml","line":9},{"by":"resources","column":6,"field":"resources[0]","file":"base/a.yaml","kustomization":"base/kustomization.yaml","line":6}],"object":{"apiVersion":"v1","kind":"ConfigMap","name":"p-a"},"path":["data","k"],"shown":"data.k","value":"w"}"#;
    let answer = build(&place, &["over", "--why=:data", "--why-format", "json"]);
    assert_eq!(answer, (0, format!("{json}\n"), String::new()));
    assert_eq!(build(&place, &["over", "--why", "-o", "why.txt"]).0, 0);
    assert_eq!(std::fs::read_to_string(work.join("why.txt")).unwrap(), all);

    let hint = "hint: `--why` without a pattern lists all objects and fields\n";
    for (words, problem) in [
        (
            ["--why=Deployment/a"].as_slice(),
            "--why=Deployment/a: nothing in this build is called `Deployment/a`",
        ),
        (
            &["--why=ConfigMap/a:x"],
            "--why=ConfigMap/a:x: no object that `ConfigMap/a:x` names has such a field",
        ),
    ] {
        let (code, stdout, stderr) = build(&place, &[&["over"], words].concat());
        assert_eq!((code, stdout.as_str(), stderr), (1, "", format!("Error: {problem}\n{hint}")));
    }
    let (code, stdout, stderr) = build(&place, &["over", "--why", "-o", "out"]);
    assert!(code == 1 && stdout.is_empty() && stderr.contains("out is a directory"), "{stderr}");
    assert_eq!(build(&place, &["over", "--why-format", "json"]).0, 1, "nothing to have a format");
}

#[test]
fn a_reference_that_is_an_option_of_git_is_refused() {
    let place = Place::new("option");
    let url = "file:///nowhere?ref=--upload-pack=touch%20x";
    write(&place.0.join("work/kustomization.yaml"), &format!("resources: ['{url}']\n"), false);
    let (code, _, stderr) = build(&place, &[]);
    assert!(code == 1 && stderr.contains("neither may begin with `-`"), "{stderr}");
}

/// A stand-in for docker tells how it was called.
#[test]
fn functions_in_containers_are_run_by_docker() {
    let place = Place::new("docker");
    let (work, programs) = (place.0.join("work"), place.0.join("bin"));
    std::fs::create_dir_all(&programs).unwrap();
    let script = "#!/bin/sh\nfor word in \"$@\"; do printf '[%s] ' \"$word\" >> asked; done\ncat\n";
    write(&programs.join("docker"), script, true);
    write(&work.join("kustomization.yaml"), "resources: [a.yaml]\ntransformers: [t.yaml]\n", false);
    write(&work.join("a.yaml"), OBJECT, false);
    let function = "apiVersion: example.com/v1\nkind: F\nmetadata:\n  name: t\n  annotations:\n    config.kubernetes.io/function: |\n      container: {image: example.com/f:v1, network: NETWORK, envs: [A=1, HOME], mounts: [{type: bind, src: ./m, dst: /m}]}\n";
    let with = |network: &str, flags: &[&str]| {
        write(&work.join("t.yaml"), &function.replace("NETWORK", network), false);
        let _ = std::fs::remove_file(work.join("asked"));
        let path = std::env::vars().find(|(name, _)| name == "PATH").unwrap().1;
        let mut command = place.command("");
        command.env("PATH", format!("{}:{path}", programs.display()));
        let output = command.args(["build", "--enable-alpha-plugins"]).args(flags).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned(), stderr)
    };
    let flags = ["-e", "X=2", "--mount", "type=bind,src=m,dst=/q,rw=true", "--network"];
    assert_eq!(with("true", &flags), (0, OBJECT.to_owned(), String::new()));
    let asked = std::fs::read_to_string(work.join("asked")).unwrap();
    let m = work.join("m");
    let m = m.display();
    assert_eq!(
        asked.trim_end(),
        format!(
            "[run] [--rm] [-i] [-a] [STDIN] [-a] [STDOUT] [-a] [STDERR] [--network] [host] [--user] [nobody] [--security-opt=no-new-privileges] [--mount] [type=bind,source={m},target=/m,readonly] [--mount] [type=bind,source={m},target=/q] [-e] [A=1] [-e] [LOG_TO_STDERR=true] [-e] [STRUCTURED_RESULTS=true] [-e] [X=2] [-e] [HOME] [example.com/f:v1]"
        )
    );
    let refused = "Error: couldn't execute function: network required but not enabled with --network \n";
    assert_eq!(with("true", &[]), (1, String::new(), refused.to_owned()));
    assert_eq!(with("false", &[]).0, 0);
    assert!(std::fs::read_to_string(work.join("asked")).unwrap().contains("[--network] [none]"));
}

#[test]
fn a_custom_resource_is_patched_by_the_names_of_its_containers_if_asked_for() {
    let place = Place::new("schema");
    let rollout = "apiVersion: example.com/v1\nkind: Rollout\nmetadata: {name: r}\nspec: {template: {spec: {containers: LIST}}}\n";
    let work = place.0.join("work");
    write(&work.join("kustomization.yaml"), "resources: [r.yaml]\npatches: [{path: p.yaml}]\n", false);
    let both = "[{name: main, image: m:1}, {name: side, image: s:1}]";
    write(&work.join("r.yaml"), &rollout.replace("LIST", both), false);
    write(&work.join("p.yaml"), &rollout.replace("LIST", "[{name: side, image: s:2}]"), false);
    assert!(!build(&place, &[]).1.contains("m:1"), "as kustomize");
    let (code, stdout, stderr) = build(&place, &["--schema", "auto"]);
    assert!(code == 0 && stdout.contains("m:1") && stdout.contains("s:2"), "{stdout}{stderr}");
}
