//! `explain` against what kubectl 1.32 prints, on real servers and on schemas
//! made to be difficult. `explain/record.py` writes the answers anew.
//!
//! Upstream's prose is compared by hash, in the form that
//! `tests/clients/normalise.py` describes; the sentences about single enum
//! values are the one declared difference.

// Helpers outside `#[test]` functions fail the test the same way.

use std::{fs, path::PathBuf};

use crate::asked::{digest, normalised, run};
use serde_json::Value;
use sternpost_openapi::explain::sources::Sources;

#[test]
fn kinds_and_fields_that_kubectl_was_asked_for_read_the_same() {
    let sources = Sources::built_in();
    let recorded = read("../../tests/clients/recorded/kubectl-current.txt");
    let mut compared = 0;
    for section in recorded.split("$ kubectl ").filter(|section| section.starts_with("explain ")) {
        let (command, answer) = section.split_once('\n').unwrap();
        if command.ends_with("--output plaintext-openapiv2") {
            continue;
        }
        let (exit, answer) = answer.split_once('\n').unwrap();
        let (text, error) = run(&sources, command.strip_prefix("explain ").unwrap());
        let mut lines = vec![];
        // Recorded as the client suites print it: the message twice marked.
        lines.extend(error.as_ref().map(|error| error.strip_prefix("error: ").unwrap_or(error).to_owned()));
        lines.extend(normalised(&text));
        let expected: Vec<&str> = answer
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| line.strip_prefix("error: ").unwrap_or(line))
            .map(|line| line.strip_prefix("error: ").unwrap_or(line))
            .collect();
        assert_eq!(lines, expected, "kubectl {command}");
        assert_eq!(exit == "exit 0", error.is_none(), "kubectl {command}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} answers are recorded");
}

#[test]
fn every_kind_of_a_real_server_reads_the_same() {
    let sources = Sources::built_in();
    let recorded = read("tests/explain/kinds.txt");
    assert!(recorded.lines().count() > 400);
    for line in recorded.lines() {
        let (command, expected) = line.split_once('\t').unwrap();
        let lines = normalised(&run(&sources, command).0);
        assert_eq!(&digest(&lines.join("\n"), 16), expected, "{command}:\n{}", lines.join("\n"));
    }
}

#[test]
fn custom_resources_read_as_a_server_publishes_them() {
    let mut sources = Sources::default();
    for document in sternpost_yaml::documents(&read("tests/explain/ships.yaml")).unwrap() {
        assert_eq!(sources.add(&document).unwrap(), 2);
    }
    for (command, expected) in sections(&read("tests/explain/crd.txt")) {
        let (text, error) = run(&sources, &command);
        let mut lines = normalised(&text);
        lines.extend(error);
        assert_eq!(lines.join("\n"), expected.trim_end(), "{command}");
    }
}

#[test]
fn difficult_schemas_read_as_kubectl_reads_them() {
    let mut sources = Sources::default();
    let document: Value = serde_json::from_str(&read("tests/explain/odd.json")).unwrap();
    assert_eq!(sources.add(&document).unwrap(), 1);
    let sections = sections(&read("tests/explain/odd.txt"));
    assert!(sections.len() > 200);
    for (command, expected) in sections {
        let (mut text, error) = run(&sources, &command);
        if let Some(error) = error {
            text += &format!("{error}\n");
        }
        for (number, (ours, theirs)) in text.split('\n').zip(expected.split('\n')).enumerate() {
            assert_eq!(ours, theirs, "line {} of {command}", number + 1);
        }
        assert_eq!(text.len(), expected.len(), "{command}");
    }
}

fn sections(text: &str) -> Vec<(String, String)> {
    let sections = text.split("$ kubectl explain ").skip(1);
    sections.map(|section| section.split_once('\n').unwrap()).map(|(a, b)| (a.into(), b.into())).collect()
}

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
