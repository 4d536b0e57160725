//! Configuration files: read, and told what is wrong with them where it stands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use serde_json::Value;
use sternpost_meta::status::Cause;
use sternpost_yaml::{Error as YamlError, node};

pub fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The first document of a text from this file.
pub fn parse(path: &Path, text: &str) -> anyhow::Result<Value> {
    sternpost_yaml::from_str(text).map_err(|error| misread(path, &error))
}

/// What is wrong with the text of this file, and where.
pub fn misread(path: &Path, error: &YamlError) -> anyhow::Error {
    anyhow!("{}:{}:{}: {}", path.display(), error.line, error.column, error.problem)
}

/// Where a configuration stands: in a file, or within the main one.
pub struct Source<'a> {
    pub path: PathBuf,
    pub text: &'a str,
    /// What its fields begin with.
    pub within: String,
}

impl Source<'_> {
    /// One line for each problem.
    pub fn refuse(&self, causes: impl IntoIterator<Item = Cause>) -> anyhow::Error {
        let root = node::read_node(self.text).ok().flatten();
        let line = |cause: Cause| {
            let field = match (self.within.as_str(), cause.field.as_str()) {
                ("", field) | (field, "") => field.to_owned(),
                (within, field) => format!("{within}.{field}"),
            };
            let (line, column) = root.as_ref().map_or((1, 1), |root| root.place_of(&field));
            let separator = if field.is_empty() { "" } else { ": " };
            format!("{}:{line}:{column}: {field}{separator}{}", self.path.display(), cause.message)
        };
        let lines: Vec<String> = causes.into_iter().map(line).collect();
        anyhow!("{}", lines.join("\n"))
    }
}
