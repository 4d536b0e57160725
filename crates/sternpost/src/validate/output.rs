//! How findings are told: to people, programs, and the programs of others.

use std::{
    fmt,
    io::{self, Write},
};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{Finding, Report, Severity, State};
use crate::{manifests::Manifest, terminal, within::Complaint};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line each, for people
    Text,
    /// One JSON object
    Json,
    /// A report of tests, an object a test (JUnit's XML)
    Junit,
    /// What code scanning takes (SARIF 2.1.0)
    Sarif,
    /// Annotations of a workflow of GitHub
    Github,
}

impl Format {
    pub fn write(self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Text => report
                .findings
                .iter()
                .try_for_each(|finding| writeln!(out, "{}", terminal::visible(&finding.to_string()))),
            Self::Json => writeln!(out, "{:#}", json(report)),
            Self::Sarif => writeln!(out, "{:#}", sarif(report)),
            Self::Junit => out.write_all(junit(report).as_bytes()),
            Self::Github => {
                report.findings.iter().try_for_each(|finding| writeln!(out, "{}", github(finding)))
            }
        }
    }
}

impl Finding {
    fn text(&self) -> String {
        Complaint { field: self.field.clone(), message: self.message.clone() }.text()
    }
}

/// `file:line:column: error: Kind/name: what is wrong`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.place, self.severity.as_str())?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        f.write_str(&self.text())
    }
}

/// How many there are of each.
pub fn summary(report: &Report) -> String {
    let warnings = report.findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let skipped = match report.count(State::Skipped) {
        0 => String::new(),
        skipped => format!(", {skipped} skipped"),
    };
    format!(
        "{}: {} valid, {} invalid{skipped}; {}",
        count(report.objects.len(), "object"),
        report.count(State::Valid),
        report.count(State::Invalid),
        count(warnings, "warning"),
    )
}

fn json(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": finding.severity.as_str(),
            "file": finding.place.file,
            "line": finding.place.line,
            "column": finding.place.column,
            "object": finding.object,
            "field": finding.field,
            "message": finding.message,
        })
    };
    let judged = |(manifest, state): (&Manifest, &State)| {
        let place = manifest.place();
        json!({
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "object": manifest.shown(),
            "state": state.as_str(),
        })
    };
    json!({
        "objects": report.objects.len(),
        "valid": report.count(State::Valid),
        "invalid": report.count(State::Invalid),
        "skipped": report.count(State::Skipped),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "results": report.objects.iter().zip(&report.states).map(judged).collect::<Vec<_>>(),
    })
}

fn sarif(report: &Report) -> Value {
    let result = |finding: &Finding| {
        let mut place = json!({"artifactLocation": {"uri": finding.place.file}});
        if let (true, Some(place)) = (finding.place.line > 0, place.as_object_mut()) {
            let region = json!({"startLine": finding.place.line, "startColumn": finding.place.column.max(1)});
            place.insert("region".to_owned(), region);
        }
        let text = if finding.object.is_empty() {
            finding.text()
        } else {
            format!("{}: {}", finding.object, finding.text())
        };
        json!({
            "ruleId": rule(finding),
            "level": finding.severity.as_str(),
            "message": {"text": text},
            "locations": [{"physicalLocation": place}],
        })
    };
    let rules: Vec<Value> =
        ["invalid", "unreadable", "warning", "not-asked"].map(|id| json!({"id": id})).into();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "sternpost", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn rule(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Error if finding.object.is_empty() => "unreadable",
        Severity::Error => "invalid",
        Severity::Warning => "warning",
        Severity::Note => "not-asked",
    }
}

/// Commands that a workflow's log is read for.
fn github(finding: &Finding) -> String {
    let level = match finding.severity {
        Severity::Note => "notice",
        severity => severity.as_str(),
    };
    let mut place = format!("file={}", github_property(&finding.place.file));
    if finding.place.line > 0 {
        place += &format!(",line={},col={}", finding.place.line, finding.place.column);
    }
    let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
    format!("::{level} {place}::{}", github_text(&(object + &finding.text())))
}

fn github_text(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn github_property(text: &str) -> String {
    github_text(text).replace(':', "%3A").replace(',', "%2C")
}

fn junit(report: &Report) -> String {
    let errors = |finding: &&Finding| finding.severity == Severity::Error;
    let unreadable: Vec<&Finding> =
        report.findings.iter().filter(errors).filter(|finding| finding.object.is_empty()).collect();
    let (invalid, skipped) = (report.count(State::Invalid), report.count(State::Skipped));
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"sternpost validate\" tests=\"{}\" failures=\"{invalid}\" errors=\"{}\" skipped=\"{skipped}\">\n",
        report.objects.len() + unreadable.len(),
        unreadable.len(),
    );
    for finding in unreadable {
        let file = escaped(&finding.place.file);
        xml += &format!("    <testcase classname=\"{file}\" name=\"{file}\">\n");
        xml += &format!("      <error message=\"{}\"/>\n    </testcase>\n", escaped(&finding.to_string()));
    }
    let mut findings = report.findings.iter().filter(|finding| !finding.object.is_empty()).peekable();
    for (manifest, state) in report.objects.iter().zip(&report.states) {
        let shown = manifest.shown();
        let (file, name) = (escaped(&manifest.place().file), escaped(&shown));
        let head = format!("    <testcase classname=\"{file}\" name=\"{name}\"");
        let mut own = Vec::new();
        while let Some(finding) = findings.next_if(|finding| finding.object == shown) {
            own.push(finding);
        }
        own.retain(errors);
        if *state == State::Skipped {
            xml += &format!("{head}>\n      <skipped/>\n    </testcase>\n");
        } else if own.is_empty() {
            xml += &format!("{head}/>\n");
        } else {
            xml += &format!("{head}>\n");
            for finding in own {
                let (message, text) = (escaped(&finding.text()), escaped(&finding.to_string()));
                xml += &format!("      <failure message=\"{message}\">{text}</failure>\n");
            }
            xml += "    </testcase>\n";
        }
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// Text in XML, as an attribute or between tags. Characters that XML cannot have are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}
