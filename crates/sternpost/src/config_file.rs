//! Configuration files: read, and told what is wrong with them where it stands.

use std::{fs, path::Path};

use anyhow::{Context, anyhow};
use serde_json::Value;
use sternpost_yaml::node::Node;

pub fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The first document of a text from this file.
pub fn parse(path: &Path, text: &str) -> anyhow::Result<Value> {
    sternpost_yaml::from_str(text)
        .map_err(|error| anyhow!("{}:{}:{}: {}", path.display(), error.line, error.column, error.problem))
}

/// Line and column of a field such as `jwt[0].issuer.url`, or of what would hold it.
pub fn place_of(root: &Node, field: &str) -> (u32, u32) {
    let mut at = root;
    let mut place = (root.line, root.column);
    for step in field.split(['.', '[']).map(|step| step.trim_end_matches(']')) {
        let next = match step.parse::<usize>() {
            Ok(index) => at.items().get(index).map(|item| (item, item)),
            Err(_) => {
                let pair = at.pairs().iter().find(|(key, _)| key.as_text() == Some(step));
                pair.map(|(key, value)| (key, value))
            }
        };
        let Some((found, value)) = next else { return place };
        (place, at) = ((found.line, found.column), value);
    }
    place
}
