//! `explain` asked as kubectl is, and its answers with prose as hashes.

use sha2::{Digest, Sha256};
use sternpost_openapi::explain::{Depth, explain, names, render, sources::Sources};

/// What stands on stdout, and the message.
pub fn run(sources: &Sources, command: &str) -> (String, Option<String>) {
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

/// As `explain` of `normalise.py` has it.
pub fn normalised(text: &str) -> Vec<String> {
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

pub fn digest(text: &str, digits: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..digits].to_owned()
}
