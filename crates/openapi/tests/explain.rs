//! `explain` against what kubectl 1.32 prints, on real servers and on schemas
//! made to be difficult. `explain/record.py` writes the answers anew.
//!
//! Upstream's prose is compared by hash, in the form that
//! `tests/clients/normalise.py` describes; the sentences about single enum
//! values are the one declared difference.

// Helpers outside `#[test]` functions fail the test the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::{fs, path::PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use sternpost_openapi::explain::{Depth, explain, names, render, sources::Sources};

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

/// What stands on stdout, and the message.
fn run(sources: &Sources, command: &str) -> (String, Option<String>) {
    let mut words = command.split_whitespace();
    let resource = words.next().unwrap();
    let (mut api_version, mut depth) = (None, Depth::Fields);
    for flag in words {
        match flag.split_once('=') {
            Some(("--api-version", version)) => api_version = Some(version),
            None if flag == "--recursive" => depth = Depth::Recursive,
            _ => panic!("{flag} of {command}"),
        }
    }
    let found = match names::find(sources.names(), resource, api_version) {
        Ok(found) => found,
        Err(error) => return (String::new(), Some(format!("error: {error}"))),
    };
    let subject = sources.subject(found.index).unwrap();
    match explain(&subject, &found.path, depth) {
        Ok(explanation) => (render::plaintext(&explanation), None),
        Err(error) => (render::header(&subject.gvk), Some(format!("error: {error}"))),
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

/// As `explain` of `normalise.py` has it.
fn normalised(text: &str) -> Vec<String> {
    let mut lines = Normalised::default();
    let mut verbatim = false;
    for line in text.lines() {
        let words = line.trim();
        if is_structure(line) {
            lines.close();
            verbatim = line.starts_with("ENUM:");
            lines.done.push(line.trim_end().to_owned());
        } else if words.is_empty() {
            verbatim = false;
            if lines.values.is_none() {
                lines.close();
            }
        } else if verbatim || words == "<empty>" {
            lines.done.push(line.trim_end().to_owned());
        } else if words.starts_with("Possible enum values:") {
            lines.close();
            lines.values = Some(vec![]);
        } else if let Some(values) = &mut lines.values {
            let value = words.strip_prefix("- `").and_then(|rest| rest.split_once('`'));
            values.extend(value.map(|(value, _)| value.to_owned()));
        } else {
            lines.paragraph.push(words.to_owned());
        }
    }
    lines.close();
    lines.done
}

#[derive(Default)]
struct Normalised {
    done: Vec<String>,
    paragraph: Vec<String>,
    /// While inside a list of enum values.
    values: Option<Vec<String>>,
}

impl Normalised {
    fn close(&mut self) {
        if let Some(values) = self.values.take() {
            self.done.push(format!("    Possible enum values: {}", values.join(" ")));
        }
        if !self.paragraph.is_empty() {
            let text = self.paragraph.join(" ");
            let one_blank: Vec<&str> = text.split_whitespace().collect();
            self.done.push(format!("    #{}", digest(&one_blank.join(" "), 12)));
            self.paragraph.clear();
        }
    }
}

fn is_structure(line: &str) -> bool {
    let heading = line
        .split_once(':')
        .is_some_and(|(word, _)| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    let indented = line.starts_with(char::is_whitespace);
    let field =
        line.trim_start().split_once("\t<").is_some_and(|(name, _)| !name.contains(char::is_whitespace));
    heading || (indented && (field || line.trim_start().starts_with("enum: ")))
}

fn digest(text: &str, digits: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..digits].to_owned()
}
