//! `sternpost check`: looks over a data directory, and saves what is whole into a new one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use sternpost_store_log::check::{Findings, check};

use crate::{
    data_dir::{self, DataDir, LOCK, OBJECTS},
    error,
    output::ReportFormat,
};

pub const EXAMPLES: &str = "\
Examples:
  # Is it whole? Exit code 0 if it is, 1 if not
  sternpost check ./data

  # Save what is whole, and go on with that
  sternpost check ./data --salvage-to ./data-salvaged
  sternpost serve --data-dir ./data-salvaged";

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The data directory of a server that does not run
    #[arg(value_name = "DATA-DIR")]
    pub dir: PathBuf,

    /// Make a data directory here of all that is whole; it must not exist, or be empty
    #[arg(long, value_name = "NEW-DIR")]
    pub salvage_to: Option<PathBuf>,

    /// Form of the report on stdout
    #[arg(long, short, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
}

/// Exit codes: 0 all is whole, 1 something is not, or could not be looked at.
pub fn run(args: &CheckArgs) -> ExitCode {
    match look(args) {
        Ok(Verdict::Whole) => ExitCode::SUCCESS,
        Ok(Verdict::Damaged) => ExitCode::FAILURE,
        Err(problem) => {
            error::tell(&problem);
            ExitCode::FAILURE
        }
    }
}

enum Verdict {
    Whole,
    Damaged,
}

fn look(args: &CheckArgs) -> anyhow::Result<Verdict> {
    let objects = data_dir::objects_of(&args.dir)?;
    // No server while it is looked at.
    let _lock = DataDir::open(&args.dir)?;
    let findings = check(&objects)?;
    if let Some(to) = &args.salvage_to {
        salvage(&args.dir, to, &findings)?;
    }
    let report = Report::of(&findings, args.salvage_to.as_deref());
    args.output.write(&report.text(), &report.json())?;
    Ok(if findings.problem.is_some() { Verdict::Damaged } else { Verdict::Whole })
}

/// Certificates, keys and tokens are copied, so that clients go on with what they have.
fn salvage(from: &Path, to: &Path, findings: &Findings) -> anyhow::Result<()> {
    let context = || format!("cannot write `{}`", to.display());
    data_dir::want_empty(to)?;
    data_dir::private_dirs().recursive(true).create(to).with_context(context)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))? {
        let entry = entry.with_context(context)?;
        if entry.file_type().with_context(context)?.is_file() && entry.file_name() != LOCK {
            let copy = to.join(entry.file_name());
            data_dir::copy_private(&entry.path(), &copy)?;
        }
    }
    Ok(findings.salvage_to(&to.join(OBJECTS))?)
}

struct Report<'a> {
    findings: &'a Findings,
    /// `GROUP/RESOURCE` and how many of it are whole.
    resources: BTreeMap<String, u64>,
    /// Keys of what may have been changed since.
    doubtful: Vec<String>,
    salvaged_to: Option<&'a Path>,
}

impl<'a> Report<'a> {
    fn of(findings: &'a Findings, salvaged_to: Option<&'a Path>) -> Self {
        let mut resources = BTreeMap::new();
        let mut doubtful = vec![];
        for (key, salvaged) in &findings.entries {
            let key = String::from_utf8_lossy(key);
            let mut parts = key.splitn(3, '/');
            let resource = match (parts.next(), parts.next()) {
                (Some(""), Some(resource)) => resource.to_owned(),
                (Some(group), Some(resource)) => format!("{resource}.{group}"),
                _ => key.clone().into_owned(),
            };
            *resources.entry(resource).or_default() += 1;
            if salvaged.doubtful {
                doubtful.push(key.into_owned());
            }
        }
        Self { findings, resources, doubtful, salvaged_to }
    }

    fn problem(&self) -> Option<String> {
        let problem = self.findings.problem.as_ref()?;
        let cause = std::error::Error::source(problem).map(|cause| format!(": {cause}"));
        Some(format!("{problem}{}", cause.unwrap_or_default()))
    }

    fn text(&self) -> String {
        let Findings { file, revision, expected, whole, damaged, entries, .. } = self.findings;
        let mut text = match self.problem() {
            None => format!("`{}` is whole\n", file.display()),
            Some(problem) => format!("{problem}\n"),
        };
        let known = |number: Option<String>| number.unwrap_or_else(|| "unknown".into());
        text += &format!("revision: {}\n", known(revision.map(|revision| revision.to_string())));
        let of = known(expected.map(|expected| expected.to_string()));
        text += &format!("records: {whole} whole, {damaged} damaged, of {of}\n");
        text += &format!("objects that are whole: {}\n", entries.len());
        for (resource, count) in &self.resources {
            text += &format!("  {resource}: {count}\n");
        }
        if !self.doubtful.is_empty() {
            text += &format!(
                "of those {} may have been changed or deleted since, by what is damaged:\n",
                self.doubtful.len()
            );
            for key in &self.doubtful {
                text += &format!("  {key}\n");
            }
        }
        if let Some(to) = self.salvaged_to {
            text += &format!("salvaged to `{}`\n", to.display());
        }
        text
    }

    fn json(&self) -> Value {
        let findings = self.findings;
        json!({
            "file": findings.file.display().to_string(),
            "whole": findings.problem.is_none(),
            "problem": self.problem(),
            "revision": findings.revision.map(|revision| revision.to_string()),
            "records": {
                "expected": findings.expected,
                "whole": findings.whole,
                "damaged": findings.damaged,
            },
            "objects": self.resources,
            "doubtful": self.doubtful,
            "salvagedTo": self.salvaged_to.map(|to| to.display().to_string()),
        })
    }
}
