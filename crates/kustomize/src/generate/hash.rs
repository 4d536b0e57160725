//! The suffix that gives new content a new name.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sternpost_golang::json::go_json;

use crate::error::{Error, Result};
use crate::resource::Resource;
use crate::resources::Resources;

/// Hexadecimal digits of the hash that are kept.
const LENGTH: usize = 10;

pub(crate) fn add_suffixes(resources: &mut Resources) -> Result<()> {
    if !resources.iter().any(|resource| resource.needs_hash) {
        return Ok(());
    }
    for resource in resources.all_mut().iter_mut().filter(|resource| resource.needs_hash) {
        let name = format!("{}-{}", resource.name(), suffix(resource)?);
        resource.remember();
        resource.set_name(&name);
    }
    Ok(())
}

/// Depends on kind and content alone; metadata does not count.
fn suffix(resource: &Resource) -> Result<String> {
    let field = |name: &str| match resource.node.get(name) {
        None => Ok(None),
        Some(node) => node.to_json().map(Some).map_err(|error| Error::new(error.to_string())),
    };
    let data = field("data")?.unwrap_or(json!(""));
    let kind = resource.id().gvk.kind.as_str();
    let mut hashed = Map::new();
    hashed.insert("kind".to_owned(), kind.into());
    hashed.insert("name".to_owned(), "".into());
    hashed.insert("data".to_owned(), data);
    match kind {
        "ConfigMap" => {
            if let Some(binary @ Value::Object(_)) = field("binaryData")? {
                hashed.insert("binaryData".to_owned(), binary);
            }
        }
        "Secret" => {
            hashed.insert("type".to_owned(), field("type")?.unwrap_or(json!("")));
            if let Some(strings @ Value::Object(_)) = field("stringData")? {
                hashed.insert("stringData".to_owned(), strings);
            }
        }
        _ => {
            hashed = match resource.node.to_json() {
                Ok(Value::Object(object)) => object,
                _ => hashed,
            };
        }
    }
    let digest = Sha256::digest(go_json(&Value::Object(hashed)).as_bytes());
    let mut hex = String::with_capacity(digest.len() * 2);
    for byte in digest {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex.chars().take(LENGTH).map(readable).collect())
}

/// Digits that could make words or be misread are replaced.
fn readable(digit: char) -> char {
    match digit {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        digit => digit,
    }
}
