//! Configuration files: read, and told what is wrong with them where it stands.

use std::{fs, path::Path};

use anyhow::{Context, anyhow};
use serde_json::Value;

pub fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The first document of a text from this file.
pub fn parse(path: &Path, text: &str) -> anyhow::Result<Value> {
    sternpost_yaml::from_str(text)
        .map_err(|error| anyhow!("{}:{}:{}: {}", path.display(), error.line, error.column, error.problem))
}
